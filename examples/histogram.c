/* SPDX-License-Identifier: MIT */
/*
 * histogram.c - how long something takes, in nanoseconds, with quantiles in seconds.
 *
 *	cc histogram.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <percpu/percpu.h>

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(void)
{
	const struct percpu_histogram_options o = {
		.size = sizeof(o), .min = 1e-9, .max = 10, .ticks_per_unit = 1000000000
	};
	struct percpu_histogram_snapshot *s = NULL;
	struct percpu_histogram_quantile q = { 0 };
	struct percpu_histogram *h = NULL;
	int e = percpu_histogram_create(&o, &h);

	for (int i = 0; i < 10000 && e == 0; i++) {
		uint64_t start = now_ns();

		percpu_histogram_record_ticks(h, now_ns() - start);
	}
	if (e == 0)
		e = percpu_histogram_snapshot_create(h, &s);
	if (e == 0)
		e = percpu_histogram_fetch(h, 0, s);
	if (e == 0)
		e = percpu_histogram_quantile(s, 0.99, &q);
	if (e != 0)
		fprintf(stderr, "histogram: %s\n", strerror(-e));
	else
		printf("%" PRIu64 " in %.6f s; 99 %% within %.0f ns\n", s->count, s->sum,
		       q.value * 1e9);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
	return e != 0;
}
