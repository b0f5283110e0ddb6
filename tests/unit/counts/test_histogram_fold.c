/* SPDX-License-Identifier: MIT */
/*
 * test_histogram_fold.c - downscaling and merges, compared with the observations and with bounds
 * that are computed here.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "histograms.h"

#define MOST 12000

static double seen[MOST];
static size_t n_seen;
static uint64_t random_state = 17;

/* Return a random whole number below 2^octaves. Sums of these are exact. */
static double choose(unsigned octaves)
{
	return (double)((test_random(&random_state) >> 40) % (UINT64_C(1) << octaves));
}

static void see(struct percpu_histogram *h, double v)
{
	assert_true(n_seen < MOST);
	seen[n_seen++] = v;
	percpu_histogram_record(h, v);
}

static void observe(struct percpu_histogram *h, size_t n, unsigned octaves)
{
	n_seen = 0;
	while (n_seen < n)
		see(h, choose(1 + (unsigned)(test_random(&random_state) >> 33) % octaves));
}

static uint64_t count_between(double low, double high, double *ret_sum)
{
	uint64_t n = 0;

	*ret_sum = 0;
	for (size_t i = 0; i < n_seen; i++)
		if (seen[i] > low && seen[i] <= high) {
			*ret_sum += seen[i];
			n++;
		}
	return n;
}

static bool is_about(double a, double b)
{
	return fabs(a - b) <= fabs(b) * 0x1p-40;
}

/* Test that bucket i of schema -k is above 2^(2^k * (i - 1)) and not above 2^(2^k * i). */
static void bounds_below_schema_0_are_powers_of_two(void **state)
{
	(void)state;
	for (int k = 0; k <= 4; k++) {
		const int octaves = 1 << k;

		for (int i = -1022 / octaves; i <= 1023 / octaves; i++)
			assert_true(percpu_histogram_bound(-k, i) == ldexp(1, octaves * i));
		assert_true(percpu_histogram_bound(-k, 1024 / octaves) == INFINITY);
		assert_true(percpu_histogram_bound(-k, -1024 / octaves) == 0);
		assert_true(percpu_histogram_bound(-k, INT32_MAX) == INFINITY);
		assert_true(percpu_histogram_bound(-k, INT32_MIN) == 0);
	}
}

/* Return a / b, rounded down. */
static int floor_of(int a, int b)
{
	return a / b - (a % b < 0);
}

/* Check that each bucket has the observations between its bounds and within the range. */
static void check_buckets(const struct percpu_histogram_snapshot *s, int low, int high)
{
	const int octaves = 1 << -s->schema, below = floor_of(low, octaves);
	const double least = ldexp(1, low), most = ldexp(1, high);
	uint64_t n;
	double sum;

	assert_int_equal(s->n, -floor_of(-high, octaves) - below + 2);
	assert_true(s->low == low && s->high == high);
	n = count_between(-1, least, &sum);
	assert_true(s->bucket[0].count == n && is_about(s->bucket[0].sum, sum));
	for (int k = 1; k < (int)s->n - 1; k++) {
		double from = ldexp(1, octaves * (below + k - 1));
		double to = ldexp(1, octaves * (below + k));

		n = count_between(from > least ? from : least, to < most ? to : most, &sum);
		assert_int_equal(s->bucket[k].count, n);
		assert_true(is_about(s->bucket[k].sum, sum));
	}
	n = count_between(most, INFINITY, &sum);
	assert_true(s->bucket[s->n - 1].count == n && is_about(s->bucket[s->n - 1].sum, sum));
	assert_int_equal(s->count, n_seen);
}

/* Check that two ways to the same schema give the same. Sums of doubles depend on the order. */
static void assert_same_counts(const struct percpu_histogram_snapshot *a,
			       const struct percpu_histogram_snapshot *b)
{
	assert_int_equal(a->n, b->n);
	for (uint32_t i = 0; i < a->n; i++) {
		assert_int_equal(a->bucket[i].count, b->bucket[i].count);
		assert_int_equal(a->bucket[i].ticks, b->bucket[i].ticks);
		assert_true(is_about(a->bucket[i].sum, b->bucket[i].sum));
	}
}

/* Downscale to each schema below 0, at once and in steps of any size. */
static void check_folds(struct percpu_histogram *h, int low, int high)
{
	struct percpu_histogram_snapshot *s = look_at(h), *once, *step, *next;

	for (int schema = -4; schema < 0; schema++) {
		assert_int_equal(percpu_histogram_downscale(s, schema, &once), 0);
		assert_int_equal(once->schema, schema);
		check_buckets(once, low, high);
		assert_int_equal(percpu_histogram_downscale(s, s->schema, &step), 0);
		while (step->schema > schema) {
			int to = step->schema - 1 - (int)(test_random(&random_state) >> 40) % 3;

			to = to < schema ? schema : to;
			assert_int_equal(percpu_histogram_downscale(step, to, &next), 0);
			percpu_histogram_snapshot_destroy(step);
			step = next;
		}
		assert_same_counts(once, step);
		percpu_histogram_snapshot_destroy(step);
		percpu_histogram_snapshot_destroy(once);
	}
	percpu_histogram_snapshot_destroy(s);
}

static const struct {
	int low, high;
} ranges[] = {
	{ -20, 10 },  { 0, 16 }, { -32, 32 },	 { -7, 9 },	 { 1, 3 },  { 15, 17 },
	{ -17, -15 }, { -1, 1 }, { -1000, 960 }, { -300, -299 }, { 5, 37 }, { -16, 0 },
};

/* Test powers of two, which contain every bound, and the doubles next to them. */
static void folding_doubles_is_exact(void **state)
{
	(void)state;
	for (size_t r = 0; r < sizeof(ranges) / sizeof(ranges[0]); r++)
		for (uint32_t buckets = 1; buckets <= 32; buckets *= 32) {
			const int low = ranges[r].low, high = ranges[r].high;
			struct percpu_histogram *h =
				make_histogram(ldexp(1, low), ldexp(1, high), buckets, 0);

			n_seen = 0;
			see(h, 0);
			for (int e = low - 20; e < high + 20 && e < 960; e++)
				for (int n = 1 + (e & 1); n > 0; n--) {
					see(h, ldexp(1, e));
					see(h, beside(ldexp(1, e), -1));
					see(h, beside(ldexp(1, e), 1));
				}
			check_folds(h, low, high);
			percpu_histogram_destroy(h);
		}
}

/* Test ticks, 1000 per unit. If 2^e units are no whole number of ticks, test the ticks on both
 * sides of it. */
static void folding_ticks_is_exact(void **state)
{
	(void)state;
	for (size_t r = 0; r < sizeof(ranges) / sizeof(ranges[0]); r++) {
		const int low = ranges[r].low, high = ranges[r].high;
		struct percpu_histogram *h;

		if (low < -20 || high > 40)
			continue;
		h = make_histogram(ldexp(1, low), ldexp(1, high), 8, 1000);
		n_seen = 0;
		for (int e = low; e <= high; e++) {
			double ticks = (double)(uint64_t)ldexp(1000, e);

			for (int beside = ticks > 0 ? -1 : 0; beside <= 1; beside++) {
				seen[n_seen++] = (ticks + beside) / 1000;
				percpu_histogram_record_ticks(h, (uint64_t)(ticks + beside));
			}
		}
		check_folds(h, low, high);
		percpu_histogram_destroy(h);
	}
}

/* Test quantiles and counts of buckets that the range cuts: the range ends them. */
static void ends_of_cut_buckets_are_those_of_the_range(void **state)
{
	struct percpu_histogram *h = make_histogram(0x1p-20, 0x1p10, 8, 0);
	struct percpu_histogram_snapshot *s, *f;
	struct percpu_histogram_quantile q;
	bool exact;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		percpu_histogram_record(h, i < 500 ? 0x1.8p-20 : 0x1.8p-18);
		percpu_histogram_record(h, i < 500 ? 512 : 1024);
	}
	s = look_at(h);
	assert_int_equal(percpu_histogram_downscale(s, -4, &f), 0);
	assert_int_equal(percpu_histogram_quantile(f, 0.1, &q), 0);
	assert_true(q.low == 0x1p-20 && q.high < 0x1p-16);
	assert_int_equal(percpu_histogram_quantile(f, 0.9, &q), 0);
	assert_true(q.low > 1 && q.high == 1024);
	assert_int_equal(percpu_histogram_count_below(f, 0x1p-20, &exact), 0);
	assert_true(exact);
	assert_int_equal(percpu_histogram_count_below(f, 1024, &exact), 2000);
	assert_true(exact);
	assert_int_equal(percpu_histogram_count_below(f, 0x1p-16, &exact), 1000);
	assert_true(exact);
	assert_in_range(percpu_histogram_count_below(f, 512, &exact), 1001, 1999);
	assert_false(exact); /* a power of two, but no bound of schema -4 */
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_snapshot_destroy(f);
	percpu_histogram_destroy(h);
}

/* Test that a merge puts a bucket where all of it fits, or fails. */
static void merging_keeps_cut_buckets_apart(void **state)
{
	struct percpu_histogram *small = make_histogram(0x1p-20, 0x1p10, 8, 0),
				*large = make_histogram(0x1p-40, 0x1p16, 8, 0);
	struct percpu_histogram_snapshot *s, *l, *fs, *fl;

	(void)state;
	percpu_histogram_record(small, 0x1p-18);
	percpu_histogram_record(small, 0x1p8);
	percpu_histogram_record(large, 3);
	s = look_at(small);
	l = look_at(large);
	assert_int_equal(percpu_histogram_downscale(s, -4, &fs), 0);
	assert_int_equal(percpu_histogram_downscale(l, -4, &fl), 0);
	assert_int_equal(percpu_histogram_merge(fl, fs), 0); /* numbers -2 to 1 */
	assert_int_equal(fl->bucket[1].count + fl->bucket[3].count, 0);
	assert_int_equal(fl->bucket[2].count, 1);
	assert_int_equal(fl->bucket[4].count, 2);
	assert_int_equal(percpu_histogram_merge(fs, fl), -ERANGE); /* 2^10 cuts (1, 2^16] */
	fl->bucket[4].count = 0;
	fl->bucket[4].sum = 0;
	assert_int_equal(percpu_histogram_merge(fs, fl), -ERANGE); /* 2^-20 cuts (2^-32, 2^-16] */
	fl->bucket[2].count = 0;
	fl->bucket[2].sum = 0;
	fl->bucket[1].count = 5; /* (2^-40, 2^-32] is below the range of fs */
	fl->bucket[3].count = 7; /* (2^-16, 1] is a bucket of both */
	assert_int_equal(percpu_histogram_merge(fs, fl), 0);
	assert_int_equal(fs->bucket[0].count, 5);
	assert_int_equal(fs->bucket[2].count, 7);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_snapshot_destroy(l);
	percpu_histogram_snapshot_destroy(fs);
	percpu_histogram_snapshot_destroy(fl);
	percpu_histogram_destroy(small);
	percpu_histogram_destroy(large);
}

/* Test that a downscaled snapshot is the same as a snapshot of a histogram with that schema. */
static void folding_is_exact(void **state)
{
	(void)state;
	for (unsigned ticks = 0; ticks < 2; ticks++)
		for (int schema = 0; schema <= 5; schema++) {
			struct percpu_histogram *fine = make_histogram(4, 1 << 13, 32, ticks),
						*coarse = make_histogram(4, 1 << 13, 1U << schema,
									 ticks);
			struct percpu_histogram_snapshot *f, *c, *folded = NULL;

			observe(fine, 3000, 15);
			for (size_t i = 0; i < n_seen; i++)
				percpu_histogram_record(coarse, seen[i]);
			percpu_histogram_record(fine, -1);
			percpu_histogram_record(coarse, -1);
			f = look_at(fine);
			c = look_at(coarse);
			assert_int_equal(percpu_histogram_downscale(f, schema, &folded), 0);
			assert_same(folded, c);
			if (schema < 5)
				assert_int_equal(percpu_histogram_downscale(c, schema + 1, &folded),
						 -ERANGE);
			assert_int_equal(percpu_histogram_downscale(c, -5, &folded), -ERANGE);
			percpu_histogram_snapshot_destroy(folded);
			percpu_histogram_snapshot_destroy(f);
			percpu_histogram_snapshot_destroy(c);
			percpu_histogram_destroy(fine);
			percpu_histogram_destroy(coarse);
		}
}

static void merging_adds_or_refuses(void **state)
{
	struct percpu_histogram *wide = make_histogram(1, 1 << 14, 4, 0),
				*part = make_histogram(4, 1 << 10, 8, 0),
				*all = make_histogram(1, 1 << 14, 4, 0),
				*ticks = make_histogram(1, 1 << 14, 4, 1);
	struct percpu_histogram_snapshot *w, *p, *a, *t;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		double v = 5 + choose(9);

		percpu_histogram_record(i % 2 ? wide : part, v);
		percpu_histogram_record(all, v);
	}
	w = look_at(wide);
	p = look_at(part);
	a = look_at(all);
	t = look_at(ticks);
	assert_int_equal(percpu_histogram_merge(w, p), 0);
	assert_same(w, a);
	assert_int_equal(percpu_histogram_merge(p, w), -ERANGE); /* of a lower schema */
	assert_int_equal(percpu_histogram_merge(w, t), -EINVAL);
	assert_int_equal(percpu_histogram_merge(w, w), -EINVAL);
	/* Values below 4, or above 2^10, may belong to several buckets of the wide histogram. */
	p->bucket[0].count = 1;
	assert_int_equal(percpu_histogram_merge(w, p), -ERANGE);
	p->bucket[0].count = 0;
	p->bucket[p->n - 1].count = 1;
	assert_int_equal(percpu_histogram_merge(w, p), -ERANGE);
	assert_same(w, a);
	p->n++;
	assert_int_equal(percpu_histogram_merge(w, p), -EINVAL);
	percpu_histogram_snapshot_destroy(w);
	percpu_histogram_snapshot_destroy(p);
	percpu_histogram_snapshot_destroy(a);
	percpu_histogram_snapshot_destroy(t);
	percpu_histogram_destroy(wide);
	percpu_histogram_destroy(part);
	percpu_histogram_destroy(all);
	percpu_histogram_destroy(ticks);
}

/* Test that a merge fails, and adds nothing, before a count wraps or a sum becomes infinite. */
static void merging_ends_before_it_overflows(void **state)
{
	struct percpu_histogram *h = make_histogram(4, 1 << 13, 8, 0);
	struct percpu_histogram_snapshot *s, *twice = NULL;
	uint64_t count;
	int n = 0;

	(void)state;
	observe(h, 100, 15);
	percpu_histogram_record(h, 0x1p950);
	s = look_at(h);
	for (int e = 0; e == 0 && n < 100; n++) {
		count = s->count;
		assert_int_equal(percpu_histogram_downscale(s, 3, &twice), 0);
		e = percpu_histogram_merge(s, twice);
		assert_int_equal(s->count, e == 0 ? 2 * count : count);
		assert_true(isfinite(s->sum));
		assert_int_equal(e, e != 0 ? -ERANGE : 0);
		if (e != 0)
			assert_same(s, twice);
		percpu_histogram_snapshot_destroy(twice);
	}
	assert_in_range(n, 55, 59); /* 101 is more than 2^6 */
	s->refused = UINT64_MAX;
	assert_int_equal(percpu_histogram_downscale(s, 3, &twice), 0);
	for (uint32_t b = 0; b < s->n; b++)
		s->bucket[b].count = twice->bucket[b].count = 0;
	assert_int_equal(percpu_histogram_merge(s, twice), -ERANGE);
	s->refused = 0;
	assert_int_equal(percpu_histogram_merge(s, twice), 0);
	s->bucket[1].sum = s->bucket[2].sum = 1e308;
	assert_int_equal(percpu_histogram_merge(s, twice), -ERANGE);
	percpu_histogram_snapshot_destroy(twice);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds_below_schema_0_are_powers_of_two),
		cmocka_unit_test(folding_is_exact),
		cmocka_unit_test(folding_doubles_is_exact),
		cmocka_unit_test(folding_ticks_is_exact),
		cmocka_unit_test(ends_of_cut_buckets_are_those_of_the_range),
		cmocka_unit_test(merging_adds_or_refuses),
		cmocka_unit_test(merging_ends_before_it_overflows),
		cmocka_unit_test(merging_keeps_cut_buckets_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
