/* SPDX-License-Identifier: MIT */
/*
 * extrema.c - the shortest and the longest of several requests, per interval.
 *
 *	cc extrema.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <percpu/percpu.h>

int main(void)
{
	static const int64_t us[] = { 310, 95, 1204, 530, 88, 20011 };
	struct percpu_extrema *latency;
	int64_t min = 0, max = 0;
	int e = percpu_extrema_create(0, &latency);

	for (int interval = 0; interval < 2 && e == 0; interval++) {
		for (int i = 0; i < 3; i++)
			(void)percpu_extrema_observe(latency, us[3 * interval + i]);
		e = percpu_extrema_fetch_reset(latency, &min, &max);
		printf("%" PRId64 " to %" PRId64 " us\n", min, max);
	}
	if (e != 0) {
		fprintf(stderr, "extrema: %s\n", strerror(-e));
		return 1;
	}
	percpu_extrema_destroy(latency);
	return min != 88 || max != 20011;
}
