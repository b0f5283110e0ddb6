/* SPDX-License-Identifier: MIT */
/*
 * rate.c - at most five messages a second to a log, however many there are.
 *
 *	cc rate.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <percpu/percpu.h>
#include <percpu/rate.h>

int main(void)
{
	struct percpu_rate_mark mark = { 0, 0 };
	struct percpu_rate *messages;
	int e = percpu_rate_create(5, 1000, &messages);

	if (e != 0) {
		fprintf(stderr, "rate: %s\n", strerror(-e));
		return 1;
	}
	(void)percpu_rate_per_second(messages, &mark);
	for (int i = 0; i < 1000; i++)
		if (percpu_rate_check(messages))
			printf("message %d\n", i);
	printf("%" PRIu64 " messages, and %" PRIu64 " more; %s\n", percpu_rate_allowed(messages),
	       percpu_rate_refused(messages),
	       percpu_rate_per_second(messages, &mark) > 5 ? "too many" : "few");
	percpu_rate_destroy(messages);
	return 0;
}
