/* SPDX-License-Identifier: MIT */
/*
 * gauge.c - requests in flight, a measured level, and a temperature.
 *
 *	cc gauge.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <percpu/percpu.h>

int main(void)
{
	struct percpu_gauge *requests = NULL;
	struct percpu_fgauge *liters = NULL;
	struct percpu_latest *degrees = NULL;
	uint64_t ns = 0;
	double d = 0;
	int e = percpu_gauge_create(&requests);

	if (e == 0)
		e = percpu_fgauge_create(&liters);
	if (e == 0)
		e = percpu_latest_create(&degrees);
	if (e == 0)
		e = percpu_fgauge_set(liters, 0.1); /* as measured; then flows are added */
	if (e == 0)
		e = percpu_fgauge_add(liters, 2.5);
	if (e == 0)
		e = percpu_latest_set(degrees, 21.5);
	if (e == 0)
		e = percpu_latest_fetch(degrees, &d, &ns);
	if (e != 0) {
		fprintf(stderr, "gauge: %s\n", strerror(-e));
		return 1;
	}
	percpu_gauge_inc(requests);
	printf("%" PRId64 " in flight, %g l, %g degrees at %" PRIu64 " s\n",
	       percpu_gauge_fetch(requests), percpu_fgauge_fetch(liters), d, ns / 1000000000);
	percpu_gauge_dec(requests);
	percpu_gauge_destroy(requests);
	percpu_fgauge_destroy(liters);
	percpu_latest_destroy(degrees);
	return 0;
}
