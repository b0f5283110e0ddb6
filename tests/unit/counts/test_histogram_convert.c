/* SPDX-License-Identifier: MIT */
/*
 * test_histogram_convert.c - quantiles and conversions of snapshots, checked by the observations.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/histogram.h>

#include "support.h"
#include "histograms.h"

#include "counts/counts.h"

#define MOST 3000
#define NANO UINT64_C(1000000000)

static double seen[MOST];
static size_t n_seen;
static uint64_t random_state = 17;

/* Return a random whole number below 2^octaves. Sums of these are exact. */
static double choose(unsigned octaves)
{
	return (double)((test_random(&random_state) >> 40) % (UINT64_C(1) << octaves));
}

static void observe(struct percpu_histogram *h, size_t n, unsigned octaves)
{
	for (n_seen = 0; n_seen < n; n_seen++) {
		seen[n_seen] = choose(1 + (unsigned)(test_random(&random_state) >> 33) % octaves);
		percpu_histogram_record(h, seen[n_seen]);
	}
}

static int in_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Return the ratio of a bucket's upper end to its lower end. */
static double ratio(uint32_t buckets)
{
	return percpu_histogram_bound(__builtin_ctz(buckets), 1);
}

/* Return p / 1000 * n_seen, rounded up as in the library. */
static size_t rank_of(int p)
{
	volatile double q = p / 1000.0, exact = q * (double)n_seen; /* no digits of x87 */
	size_t rank = (size_t)exact;

	return rank + ((double)rank < exact);
}

/* Test that an observation is within low and high of its quantile, and these are within the
 * bucket. */
static void quantiles_are_bounded(void **state)
{
	static const size_t sizes[] = { 1, 2, 3, 10, 100, MOST };

	(void)state;
	for (uint32_t buckets = 1; buckets <= 32; buckets *= 2)
		for (size_t i = 0; i < 6; i++) {
			struct percpu_histogram *h = make_histogram(4, 1 << 13, buckets, 0);
			struct percpu_histogram_snapshot *s;
			struct percpu_histogram_quantile q;

			observe(h, sizes[i], 15);
			s = look_at(h);
			qsort(seen, n_seen, sizeof(seen[0]), in_order);
			for (int p = 0; p <= 1000; p += 5) {
				size_t rank = rank_of(p);
				double v = seen[rank != 0 ? rank - 1 : 0];

				assert_int_equal(percpu_histogram_quantile(s, p / 1000.0, &q), 0);
				assert_true(q.low <= v * (1 + 1e-12));
				assert_true(v <= q.high * (1 + 1e-12));
				assert_true(q.low <= q.value && q.value <= q.high);
				if (v > 4 && v <= 1 << 13) /* at most as wide as a bucket */
					assert_true(q.high <= q.low * ratio(buckets) * (1 + 1e-12));
				if (n_seen == 1)
					assert_true(q.value == v);
			}
			percpu_histogram_snapshot_destroy(s);
			percpu_histogram_destroy(h);
		}
}

/* Test that sums of ticks, which wrap at 2^64, are right as long as the bucket tells how often. */
static void sums_of_ticks_go_on(void **state)
{
	struct percpu_histogram *h = make_histogram(1, 1 << 22, 8, NANO),
				*wide = make_histogram(1, 1 << 22, 1, NANO);
	struct percpu_histogram_snapshot *s = look_at(h), *w = look_at(wide);
	struct percpu_histogram_quantile q;

	(void)state;
	for (uint64_t n = 1; n <= 12000; n++) { /* wraps at 4612, and again */
		percpu_histogram_record_ticks(h, 4000000 * NANO);
		percpu_histogram_record_ticks(wide, 4000000 * NANO);
		if (n % 500 != 0 && n % 4612 > 1)
			continue;
		assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
		assert_true(fabs(s->sum - 4e6 * (double)n) <= s->sum * 0x1p-51);
		assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), 0);
		assert_true(fabs(q.low - 4e6) < 1e4 || q.low <= 4e6);
		assert_true(q.low <= 4e6 * (1 + 1e-12) && 4e6 <= q.high * (1 + 1e-12));
		/* From 4398 = 2^63 / 2^21 / NANO on, a bucket of a whole octave does not tell. */
		assert_int_equal(percpu_histogram_fetch(wide, 0, w), 0);
		assert_int_equal(percpu_histogram_quantile(w, 0.5, &q), 0);
		if (n < 4398) {
			assert_true(fabs(w->sum - 4e6 * (double)n) <= s->sum * 0x1p-51);
		} else {
			assert_true(w->sum == 0x3p20 * (double)n);
			assert_true(q.low == 0x1p21 && q.high == 0x1p22 && q.value == 0x3p20);
		}
	}
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_snapshot_destroy(w);
	percpu_histogram_destroy(h);
	percpu_histogram_destroy(wide);
}

/* Return whether each of n sorted observations is within low and high of its rank's quantile. */
static bool all_within(const struct percpu_histogram_snapshot *s, const uint64_t *ticks, uint64_t n,
		       double unit)
{
	struct percpu_histogram_quantile q;

	for (uint64_t rank = 1; rank <= n; rank++) {
		volatile double x = (double)ticks[rank - 1] / unit; /* x87 would keep more digits */

		assert_int_equal(percpu_histogram_quantile(s, ((double)rank - 0.5) / (double)n, &q),
				 0);
		if (!(q.low <= x && x <= q.high && q.low <= q.value && q.value <= q.high))
			return false;
	}
	return true;
}

/* Test quantiles of ticks: sums are rounded once as a double, and again in the division. */
static void quantiles_allow_for_rounded_sums(void **state)
{
	static const uint64_t units[] = { 1, 3, 7, 10, 60, 997, 1000, NANO };

	(void)state;
	for (size_t u = 0; u < 8; u++) {
		struct percpu_histogram *h = make_histogram(1e-6, 1 << 20, 1, units[u]);
		struct percpu_histogram_snapshot *s = look_at(h);

		for (uint64_t first = 1; first <= 40; first++) {
			for (uint64_t step = 0; step < 3; step++) {
				uint64_t ticks[12];

				assert_int_equal(percpu_histogram_zero(h, 0), 0);
				for (uint64_t n = 0; n < 12; n++) {
					ticks[n] = first + (n / 4) * step;
					percpu_histogram_record_ticks(h, ticks[n]);
					assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
					assert_true(all_within(s, ticks, n + 1, (double)units[u]));
				}
				assert_int_equal(percpu_histogram_zero(h, 0), 0);
			}
		}
		percpu_histogram_snapshot_destroy(s);
		percpu_histogram_destroy(h);
	}
}

/* Test quantiles of few doubles, whose sums are rounded more often: low and high allow for that,
 * and a single observation is exact. */
static void quantiles_of_few_doubles_are_certain(void **state)
{
	static const uint64_t units[] = { 1, 3, 7, 10, 60, 997, 1000, NANO };

	(void)state;
	for (size_t u = 0; u < 8; u++) {
		const double unit = (double)units[u];

		for (uint64_t first = 1; first <= 40; first++) {
			for (uint64_t step = 0; step < 3; step++) {
				struct percpu_histogram *h = make_histogram(1e-6, 1 << 20, 1, 0);
				struct percpu_histogram_snapshot *s = look_at(h);
				struct percpu_histogram_quantile q;
				uint64_t ticks[4];

				for (uint64_t n = 0; n < 4; n++) {
					ticks[n] = first + (n / 2) * step;
					percpu_histogram_record(h, (double)ticks[n] / unit);
					assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
					assert_true(all_within(s, ticks, n + 1, unit));
					assert_int_equal(percpu_histogram_quantile(s, 0, &q), 0);
					assert_true(n != 0 || q.low == q.high);
				}
				percpu_histogram_snapshot_destroy(s);
				percpu_histogram_destroy(h);
			}
		}
	}
}

/* Test that a single observation above the range is certain. */
static void quantiles_above_the_range_are_certain(void **state)
{
	const double since_1970 = 1.8e9;
	struct percpu_histogram *h = make_histogram(1, 1024, 8, NANO);
	struct percpu_histogram_snapshot *s = look_at(h);
	struct percpu_histogram_quantile q;

	(void)state;
	for (int n = 1; n <= 40; n++) {
		percpu_histogram_record_ticks(h, (uint64_t)since_1970 * NANO);
		assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
		assert_true(s->sum > 0);
		if (n <= 5)
			assert_true(fabs(s->sum - since_1970 * n) < 1);
		assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), 0);
		if (n == 1)
			assert_true(q.low == since_1970 && q.high == since_1970);
		assert_true(q.low <= since_1970 && since_1970 <= q.high && q.high < 1e10);
		assert_true(q.low <= q.value && q.value <= q.high);
	}
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

/* Test a sum that lacks counted observations, as on CPUs that do not load 16 bytes at once. */
static void sums_of_ticks_may_be_behind(void **state)
{
	const uint64_t least = percpu_histogram_tick_bound(NANO, 3, 21 * 8 + 7) + 1;
	struct percpu_histogram *h = make_histogram(1, 1 << 22, 8, NANO);
	struct percpu_histogram_snapshot *s = look_at(h);
	struct percpu_histogram_quantile q;

	(void)state;
	for (int n = 0; n < 6000; n++)
		percpu_histogram_record_ticks(h, least);
	assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
	for (uint32_t b = 0; b < s->n; b++)
		for (; s->bucket[b].count > 1000; s->bucket[b].count -= 999) {
			double sum = (double)(s->bucket[b].count - 1) * (double)least / 1e9;

			s->bucket[b].ticks = (s->bucket[b].count - 1) * least;
			assert_true(fabs(percpu_histogram_sum_ticks(s, b) - sum) < sum * 0x1p-51);
			s->count = s->bucket[b].count;
			assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), 0);
			assert_true(q.low * 1e9 <= (double)least && (double)least <= q.high * 1e9);
		}
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

/* Test that low and high allow for rounded differences of large sums. In each case the least
 * observation is recorded first, and then `ticks` n times. */
static void ends_of_ticks_are_certain(void **state)
{
	static const struct {
		struct percpu_histogram_options o;
		uint64_t least, ticks;
		unsigned n;
	} cases[] = {
		{ { .min = 0x1p12,
		    .max = 0x1p26,
		    .buckets_per_octave = 32,
		    .ticks_per_unit = 1000 },
		  16074032,
		  16384000,
		  4 },
		{ { .min = 0x1p41, .max = 0x1p42, .buckets_per_octave = 1, .ticks_per_unit = 1000 },
		  267181325549568,
		  2199023255552000,
		  4 },
		{ { .min = 0x1p34, .max = 0x1p50, .buckets_per_octave = 8, .ticks_per_unit = 1 },
		  1071095701894555,
		  UINT64_C(1) << 50,
		  8 },
	};
	struct percpu_histogram_options o;
	struct percpu_histogram_quantile q;
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h;
	double least;

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		o = cases[i].o;
		o.size = sizeof(o);
		assert_int_equal(percpu_histogram_create(&o, &h), 0);
		percpu_histogram_record_ticks(h, cases[i].least);
		for (unsigned n = 0; n < cases[i].n; n++)
			percpu_histogram_record_ticks(h, cases[i].ticks);
		s = look_at(h);
		assert_int_equal(percpu_histogram_quantile(s, 0, &q), 0);
		least = (double)cases[i].least / (double)o.ticks_per_unit;
		assert_true(q.low <= least && least <= q.high);
		percpu_histogram_snapshot_destroy(s);
		percpu_histogram_destroy(h);
	}
}

static uint64_t count_seen(double bound)
{
	uint64_t n = 0;

	for (size_t i = 0; i < n_seen; i++)
		n += seen[i] <= bound;
	return n;
}

/* Return the sum of the observations that are not above the bound. */
static double sum_seen(double bound)
{
	double sum = 0;

	for (size_t i = 0; i < n_seen; i++)
		sum += seen[i] <= bound ? seen[i] : 0;
	return sum;
}

static void classic_bounds_are_exact_or_said_not_to_be(void **state)
{
	struct percpu_histogram *h = make_histogram(4, 1 << 13, 8, 0);
	struct percpu_histogram_snapshot *s;
	bool exact;

	(void)state;
	observe(h, MOST, 15);
	s = look_at(h);
	for (int i = 2 * 8; i <= 13 * 8; i++) {
		double bound = percpu_histogram_bound(3, i),
		       next = percpu_histogram_bound(3, i + 1);
		uint64_t count = percpu_histogram_count_below(s, bound, &exact), between;

		assert_true(exact);
		assert_int_equal(count, count_seen(bound));
		if (i == 13 * 8)
			break;
		between = percpu_histogram_count_below(s, (bound + next) / 2, &exact);
		assert_true(exact == (count_seen(next) == count));
		assert_in_range(between, count, count_seen(next));
	}
	assert_int_equal(percpu_histogram_count_below(s, INFINITY, &exact), MOST);
	assert_true(exact);
	assert_int_equal(percpu_histogram_count_below(s, 1e9, &exact), count_seen(1 << 13));
	assert_false(exact);
	assert_int_equal(percpu_histogram_count_below(s, -1, &exact), 0);
	assert_true(exact);
	assert_int_equal(percpu_histogram_count_below(s, NAN, &exact), 0);
	/* If the first cell is empty, no observation is 0. */
	for (int i = 0; i < 2; i++) {
		s->bucket[0].count = (uint64_t)i;
		assert_int_equal(percpu_histogram_count_below(s, 0, &exact), 0);
		assert_true(exact == (i == 0));
	}
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

/* Test the counts for OpenTelemetry: bucket i holds values above base^i and not above base^(i + 1),
 * without those outside the range. */
static void otlp_has_the_same_counts(void **state)
{
	static const size_t rooms[] = { 400, 160, 100, 40, 20, 12, 11, 6, 5, 3, 2, 1 };
	struct percpu_histogram *h = make_histogram(4, 1 << 13, 32, 0);
	struct percpu_histogram_otlp o = { .n = 77 };
	struct percpu_histogram_snapshot *s = look_at(h);
	uint64_t counts[400];

	(void)state;
	assert_int_equal(percpu_histogram_to_otlp(s, counts, 0, &o), 0);
	assert_true(o.n == 0 && o.count == 0 && o.scale == 5);
	observe(h, MOST, 15);
	assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
	for (size_t r = 0; r < sizeof(rooms) / sizeof(rooms[0]); r++) {
		uint64_t all = 0;

		assert_int_equal(percpu_histogram_to_otlp(s, counts, rooms[r], &o), 0);
		assert_true(o.n <= rooms[r] && (o.scale == 5 || 2 * o.n + 2 > rooms[r]));
		for (size_t i = 0; i < o.n; i++) {
			double low = percpu_histogram_bound(o.scale, o.offset + (int)i);
			double high = percpu_histogram_bound(o.scale, o.offset + (int)i + 1);

			assert_int_equal(counts[i], count_seen(high < 1 << 13 ? high : 1 << 13) -
							    count_seen(low > 4 ? low : 4));
			all += counts[i];
		}
		assert_true(counts[0] != 0 && counts[o.n - 1] != 0);
		assert_int_equal(o.zero_count, count_seen(4));
		assert_true(o.zero_threshold == 4);
		assert_int_equal(o.count, all + o.zero_count);
		assert_int_equal(o.count + o.above, MOST);
		assert_true(fabs(o.sum / sum_seen(1 << 13) - 1) < 1e-9);
	}
	assert_int_equal(o.scale, -4); /* 2 to 2^13 are in one bucket of 16 octaves */
	o.n = 77;
	assert_int_equal(percpu_histogram_to_otlp(s, counts, 0, &o), -ENOSPC);
	assert_int_equal(percpu_histogram_to_otlp(s, NULL, 0, &o), -ENOSPC);
	assert_int_equal(o.n, 77);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

/* Test the largest range, with a value in each octave. */
static void otlp_has_room_for_any_range(void **state)
{
	struct percpu_histogram *h = make_histogram(0x1p-1000, 0x1p960, 1, 0);
	struct percpu_histogram_otlp o = { .n = 77 };
	struct percpu_histogram_snapshot *s;
	uint64_t counts[123];

	(void)state;
	for (int i = -999; i < 960; i++)
		percpu_histogram_record(h, ldexp(1, i));
	s = look_at(h);
	assert_int_equal(percpu_histogram_to_otlp(s, counts, 122, &o), -ENOSPC);
	assert_int_equal(o.n, 77);
	assert_int_equal(percpu_histogram_to_otlp(s, counts, 123, &o), 0);
	assert_true(o.n == 123 && o.scale == -4 && o.offset == -63);
	for (size_t i = 0; i < 123; i++) /* first: -999 to -992; last: 945 to 959 */
		assert_int_equal(counts[i], i == 0 ? 8 : i == 122 ? 15 : 16);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

static void bad_input_is_refused(void **state)
{
	struct percpu_histogram *h = make_histogram(1, 1024, 1, 0);
	struct percpu_histogram_snapshot *s = look_at(h), *f = NULL;
	struct percpu_histogram_quantile q = { .value = 5 };
	uint64_t counts[1];

	(void)state;
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -ENODATA);
	s->count = 1; /* but all buckets are empty */
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -EINVAL);
	assert_int_equal(percpu_histogram_quantile(s, -0.1, &q), -EINVAL);
	assert_int_equal(percpu_histogram_quantile(s, 1.1, &q), -EINVAL);
	assert_int_equal(percpu_histogram_quantile(s, NAN, &q), -EINVAL);
	s->bucket[1] = (struct percpu_histogram_bucket){ .count = 1, .sum = NAN };
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -EINVAL);
	s->schema = -5;
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -EINVAL);
	s->schema = 6;
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -EINVAL);
	assert_int_equal(percpu_histogram_downscale(s, 0, &f), -EINVAL);
	assert_int_equal(percpu_histogram_to_otlp(s, counts, 1, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_count_below(s, 5, NULL), 0);
	assert_true(q.value == 5 && f == NULL);
	assert_true(percpu_histogram_bound(6, 0) == 0);
	assert_true(percpu_histogram_bound(-5, 0) == 0);
	assert_true(percpu_histogram_bound(5, INT32_MAX) == INFINITY);
	assert_true(percpu_histogram_bound(5, INT32_MIN) == 0);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

/* Test that a fetch checks each field of the snapshot's layout. */
static void layouts_must_be_the_same(void **state)
{
	const struct percpu_histogram_options o = { .size = sizeof(o), .ticks_per_unit = 1000 };
	struct percpu_histogram_snapshot *s, odd;
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_histogram_create(&o, &h), 0);
	assert_int_equal(percpu_histogram_snapshot_create(h, &s), 0);
	odd = *s;
	for (unsigned i = 0; i < 5; i++) {
		*s = odd;
		s->schema += i == 0;
		s->low += i == 1;
		s->high += i == 2;
		s->ticks_per_unit += i == 3;
		s->n += i == 4;
		assert_int_equal(percpu_histogram_fetch(h, 0, s), -EINVAL);
		assert_int_equal(percpu_histogram_fetch_zero(h, 0, s), -EINVAL);
	}
	*s = odd;
	assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

/* Test that counts which do not fit into 64 bits are not added, and that zeros have no separate
 * count. */
static void totals_must_be_possible(void **state)
{
	struct percpu_histogram_snapshot *s, *f = NULL;
	struct percpu_histogram *h;
	bool exact = true;

	(void)state;
	assert_int_equal(percpu_histogram_create(NULL, &h), 0);
	percpu_histogram_record(h, 0);
	assert_int_equal(percpu_histogram_snapshot_create(h, &s), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
	assert_int_equal(percpu_histogram_count_below(s, 0, &exact), 0);
	assert_false(exact);
	s->bucket[1].count = s->bucket[2].count = UINT64_MAX;
	assert_int_equal(percpu_histogram_downscale(s, 0, &f), -ERANGE);
	assert_null(f);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

/* Test so many ticks per unit that bounds have more digits than a double. */
static void ticks_may_be_very_short(void **state)
{
	const struct percpu_histogram_options o = { .size = sizeof(o),
						    .ticks_per_unit = UINT64_C(1) << 62,
						    .min = 0x1p-40,
						    .max = 0x1p-20 };
	struct percpu_histogram_quantile q;
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_histogram_create(&o, &h), 0);
	assert_int_equal(percpu_histogram_snapshot_create(h, &s), 0);
	percpu_histogram_record(h, 0x1.8p-30);
	assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), 0);
	assert_true(q.low <= 0x1.8p-30 && q.high >= 0x1.8p-30);
	assert_true(q.high / q.low < 1.2);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

/* Test a sum that is 5 below the least possible one, which is 2^64, modulo 2^64. */
static void sums_may_be_behind_a_wrap(void **state)
{
	const struct percpu_histogram_options o = {
		.size = sizeof(o), .ticks_per_unit = 1, .min = 1, .max = 0x1p31
	};
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_histogram_create(&o, &h), 0);
	assert_int_equal(percpu_histogram_snapshot_create(h, &s), 0);
	s->bucket[s->n - 1].count = UINT64_C(1) << 33;
	s->bucket[s->n - 1].ticks = (uint64_t)-5;
	assert_true(percpu_histogram_sum_ticks(s, s->n - 1) == 0x1p64);
	assert_int_equal(percpu_histogram_tick_bound(1, 5, -65 * 32), 0);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_bounded),
		cmocka_unit_test(sums_of_ticks_go_on),
		cmocka_unit_test(quantiles_allow_for_rounded_sums),
		cmocka_unit_test(quantiles_of_few_doubles_are_certain),
		cmocka_unit_test(quantiles_above_the_range_are_certain),
		cmocka_unit_test(ends_of_ticks_are_certain),
		cmocka_unit_test(sums_of_ticks_may_be_behind),
		cmocka_unit_test(classic_bounds_are_exact_or_said_not_to_be),
		cmocka_unit_test(otlp_has_the_same_counts),
		cmocka_unit_test(otlp_has_room_for_any_range),
		cmocka_unit_test(bad_input_is_refused),
		cmocka_unit_test(layouts_must_be_the_same),
		cmocka_unit_test(totals_must_be_possible),
		cmocka_unit_test(sums_may_be_behind_a_wrap),
		cmocka_unit_test(ticks_may_be_very_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
