/* SPDX-License-Identifier: MIT */
/*
 * fcounter.c - seconds spent, as Prometheus counts them: a double that only grows.
 *
 *	cc fcounter.c $(pkg-config --cflags --libs percpu)
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <percpu/percpu.h>

int main(void)
{
	struct percpu_fcounter *seconds;
	int e = percpu_fcounter_create(&seconds);

	for (int i = 0; i < 1000 && e == 0; i++)
		e = percpu_fcounter_add(seconds, 0.25);
	if (e != 0) {
		fprintf(stderr, "fcounter: %s\n", strerror(-e));
		return 1;
	}
	if (percpu_fcounter_add(seconds, NAN) != 0) /* -EDOM: nothing was added */
		printf("what is no number is refused\n");
	printf("%g seconds\n", percpu_fcounter_fetch(seconds));
	e = percpu_fcounter_fetch(seconds) != 250;
	percpu_fcounter_destroy(seconds);
	return e;
}
