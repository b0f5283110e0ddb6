/* SPDX-License-Identifier: MIT */
#include "histograms.h"

#include <string.h>

#include "support.h"

struct percpu_histogram *make_histogram(double min, double max, uint32_t buckets, uint64_t ticks)
{
	const struct percpu_histogram_options o = { .size = sizeof(o),
						    .min = min,
						    .max = max,
						    .ticks_per_unit = ticks,
						    .buckets_per_octave = buckets };
	struct percpu_histogram *h;

	assert_int_equal(percpu_histogram_create(&o, &h), 0);
	return h;
}

struct percpu_histogram_snapshot *look_at(struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *s;

	assert_int_equal(percpu_histogram_snapshot_create(h, &s), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
	return s;
}

double beside(double v, int step)
{
	int64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	bits += step;
	memcpy(&v, &bits, sizeof(v));
	return v;
}

void assert_same(const struct percpu_histogram_snapshot *a,
		 const struct percpu_histogram_snapshot *b)
{
	assert_int_equal(a->n, b->n);
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->refused, b->refused);
	assert_true(a->sum == b->sum);
	assert_memory_equal(a->bucket, b->bucket, a->n * sizeof(a->bucket[0]));
}
