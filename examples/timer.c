/* SPDX-License-Identifier: MIT */
/*
 * timer.c - how long requests take, in seconds.
 *
 *	cc timer.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <percpu/percpu.h>
#include <percpu/timer.h>

static void serve(void)
{
	const struct timespec t = { 0, 20000 };

	nanosleep(&t, NULL);
}

int main(void)
{
	struct percpu_histogram_snapshot *s = NULL;
	struct percpu_histogram_quantile q = { 0 };
	struct percpu_histogram *h = NULL;
	int e = percpu_histogram_create(NULL, &h);

	for (int i = 0; i < 1000 && e == 0; i++) {
		struct percpu_timer t = percpu_timer_start();

		serve();
		percpu_timer_record(t, h);
	}
	if (e == 0)
		e = percpu_histogram_snapshot_create(h, &s);
	if (e == 0)
		e = percpu_histogram_fetch(h, 0, s);
	if (e == 0)
		e = percpu_histogram_quantile(s, 0.99, &q);
	if (e != 0)
		fprintf(stderr, "timer: %s\n", strerror(-e));
	else
		printf("%" PRIu64 " requests in %.3f s; 99 %% within %.0f us\n", s->count, s->sum,
		       q.high * 1e6);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
	return e != 0;
}
