/* SPDX-License-Identifier: MIT */
/*
 * test_histogram_subtract.c - the difference of two snapshots.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "histograms.h"

#define NANO UINT64_C(1000000000)

static uint64_t random_state = 29;

/* Whole numbers, whose sums are exact. */
static void record_some(struct percpu_histogram *a, struct percpu_histogram *b, int n)
{
	for (int i = 0; i < n; i++) {
		double v = (double)(test_random(&random_state) >> (44 + i % 15));

		percpu_histogram_record(a, v);
		percpu_histogram_record(b, v);
	}
	percpu_histogram_record(a, -1);
	percpu_histogram_record(b, -1);
}

static struct percpu_histogram_snapshot *folded(const struct percpu_histogram_snapshot *s,
						int schema)
{
	struct percpu_histogram_snapshot *f;

	assert_int_equal(percpu_histogram_downscale(s, schema, &f), 0);
	return f;
}

static void assert_refused(struct percpu_histogram_snapshot *later,
			   const struct percpu_histogram_snapshot *earlier, int error)
{
	struct percpu_histogram_snapshot *before = folded(later, later->schema);

	assert_int_equal(percpu_histogram_subtract(later, earlier), error);
	assert_same(later, before);
	percpu_histogram_snapshot_destroy(before);
}

/* Test that the difference is the same as a snapshot of a histogram that got only the records in
 * between, for any schema. */
static void the_difference_is_what_came_between(void **state)
{
	(void)state;
	for (uint64_t ticks = 0; ticks < 2; ticks++)
		for (int schema = 5; schema >= -4; schema--) {
			struct percpu_histogram *h = make_histogram(4, 1 << 13, 32, ticks),
						*between = make_histogram(4, 1 << 13, 32, ticks),
						*before = make_histogram(4, 1 << 13, 32, ticks);
			struct percpu_histogram_snapshot *earlier, *now, *later, *b, *wanted;

			record_some(h, before, 500);
			earlier = look_at(h);
			record_some(h, between, 800);
			now = look_at(h);
			later = folded(now, schema);
			b = look_at(between);
			wanted = folded(b, schema);
			assert_int_equal(percpu_histogram_subtract(later, earlier), 0);
			assert_same(later, wanted);
			assert_int_equal(later->count, 800);
			assert_int_equal(later->refused, 1);
			if (schema < 5)
				assert_refused(now, wanted, -ERANGE); /* of a lower schema */
			percpu_histogram_snapshot_destroy(earlier);
			percpu_histogram_snapshot_destroy(now);
			percpu_histogram_snapshot_destroy(later);
			percpu_histogram_snapshot_destroy(b);
			percpu_histogram_snapshot_destroy(wanted);
			percpu_histogram_destroy(h);
			percpu_histogram_destroy(between);
			percpu_histogram_destroy(before);
		}
}

/* Test intervals with two snapshots, as the header describes. */
static void intervals_follow_each_other(void **state)
{
	struct percpu_histogram *h = make_histogram(4, 1 << 13, 8, 1000), *now, *unused;
	struct percpu_histogram_snapshot *earlier = look_at(h), *s = look_at(h), *wanted;

	(void)state;
	unused = make_histogram(4, 1 << 13, 8, 1000);
	for (int i = 0; i < 20; i++) {
		now = make_histogram(4, 1 << 13, 8, 1000);
		record_some(h, i % 3 ? now : unused, i % 3 ? 50 * i : 0);
		wanted = look_at(now);
		wanted->refused = 1;
		assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
		assert_int_equal(percpu_histogram_subtract(s, earlier), 0);
		assert_same(s, wanted);
		assert_int_equal(percpu_histogram_merge(earlier, s), 0);
		percpu_histogram_snapshot_destroy(wanted);
		percpu_histogram_destroy(now);
	}
	percpu_histogram_snapshot_destroy(earlier);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(unused);
	percpu_histogram_destroy(h);
}

/* Test that nothing is subtracted if a bucket has fewer observations than before. */
static void a_reset_is_noticed(void **state)
{
	struct percpu_histogram *h = make_histogram(1, 1024, 8, 0);
	struct percpu_histogram_snapshot *earlier, *later, *coarse;

	(void)state;
	percpu_histogram_record(h, 1.05);
	percpu_histogram_record(h, 1.5);
	percpu_histogram_record(h, 700);
	earlier = look_at(h);
	assert_int_equal(percpu_histogram_zero(h, 0), 0);
	for (int i = 0; i < 100; i++)
		percpu_histogram_record(h, i % 2 ? 1.05 : 1.5);
	later = look_at(h);
	assert_refused(later, earlier, -ERANGE);
	percpu_histogram_record(h, 700);
	assert_int_equal(percpu_histogram_fetch(h, 0, later), 0);
	assert_int_equal(percpu_histogram_subtract(later, earlier), 0); /* not noticed */
	assert_int_equal(later->count, 98);
	/* Two fine buckets have together more than the coarse bucket that contains both. */
	assert_int_equal(percpu_histogram_zero(h, 0), 0);
	percpu_histogram_record(h, 1.05);
	percpu_histogram_record(h, 700);
	percpu_histogram_snapshot_destroy(later);
	later = look_at(h);
	coarse = folded(later, 0);
	assert_refused(coarse, earlier, -ERANGE);
	/* A reset also resets the number of refused observations. */
	assert_int_equal(percpu_histogram_fetch(h, 0, earlier), 0);
	earlier->refused = later->refused + 1;
	assert_refused(later, earlier, -ERANGE);
	earlier->refused--;
	assert_int_equal(percpu_histogram_subtract(later, earlier), 0);
	assert_true(later->count == 0 && later->sum == 0);
	percpu_histogram_snapshot_destroy(earlier);
	percpu_histogram_snapshot_destroy(later);
	percpu_histogram_snapshot_destroy(coarse);
	percpu_histogram_destroy(h);
}

/* Test ranges that do not fit, as in a merge: values below one range may belong to several buckets
 * of the other. */
static void ranges_that_do_not_fit_are_refused(void **state)
{
	struct percpu_histogram *wide = make_histogram(1, 1 << 14, 4, 0),
				*part = make_histogram(4, 1 << 10, 8, 0),
				*ticks = make_histogram(1, 1 << 14, 4, 1);
	struct percpu_histogram_snapshot *w, *p, *t;

	(void)state;
	for (int i = 0; i < 10; i++) {
		percpu_histogram_record(wide, 20);
		percpu_histogram_record(wide, 1);
		percpu_histogram_record(wide, 1 << 14);
	}
	percpu_histogram_record(part, 20);
	w = look_at(wide);
	p = look_at(part);
	t = look_at(ticks);
	assert_refused(w, t, -EINVAL);
	assert_refused(w, w, -EINVAL);
	p->n++;
	assert_refused(w, p, -EINVAL);
	p->n--;
	p->bucket[0].count = 1;
	assert_refused(w, p, -ERANGE);
	p->bucket[0].count = 0;
	p->bucket[p->n - 1].count = 1;
	assert_refused(w, p, -ERANGE);
	p->bucket[p->n - 1].count = 0;
	assert_int_equal(percpu_histogram_subtract(w, p), 0);
	assert_int_equal(w->count, 29);
	assert_true(w->sum == 9 * 20 + 10 + 10 * (1 << 14));
	percpu_histogram_snapshot_destroy(w);
	percpu_histogram_snapshot_destroy(p);
	percpu_histogram_snapshot_destroy(t);
	percpu_histogram_destroy(wide);
	percpu_histogram_destroy(part);
	percpu_histogram_destroy(ticks);
}

static struct percpu_histogram *record_ticks(struct percpu_histogram *h, int n, uint64_t ticks)
{
	while (n-- > 0)
		percpu_histogram_record_ticks(h, ticks);
	return h;
}

/* Test that ticks tell the sums of an interval, although the ticks of the whole histogram have
 * wrapped, and those above the range tell a wrong sum. */
static void sums_of_ticks_are_those_of_the_interval(void **state)
{
	struct percpu_histogram *h = make_histogram(1, 1 << 22, 1, NANO);
	struct percpu_histogram_snapshot *earlier, *later;

	(void)state;
	record_ticks(h, 6001, 4000000 * NANO); /* wraps at 4612 */
	record_ticks(h, 41, 1800000000 * NANO);
	earlier = look_at(h);
	record_ticks(h, 1001, 4000000 * NANO);
	record_ticks(h, 5, 1800000000 * NANO);
	later = look_at(h);
	assert_int_equal(percpu_histogram_subtract(later, earlier), 0);
	assert_true(later->bucket[22].count == 1001 && later->bucket[22].sum == 1001 * 4e6);
	assert_true(later->bucket[23].count == 5 && later->bucket[23].sum == 5 * 1.8e9);
	assert_true(later->sum == 1001 * 4e6 + 5 * 1.8e9);
	percpu_histogram_snapshot_destroy(earlier);
	percpu_histogram_snapshot_destroy(later);
	percpu_histogram_destroy(h);
}

/* Test that the difference of folded buckets keeps sums that the unfolded buckets told, although a
 * bucket of 16 octaves does not tell its sum. */
static void folded_sums_are_kept(void **state)
{
	struct percpu_histogram *h = make_histogram(1, 1 << 22, 8, NANO);
	struct percpu_histogram_snapshot *earlier, *now, *later;

	(void)state;
	record_ticks(h, 3000, 100000 * NANO);
	earlier = look_at(h);
	record_ticks(h, 3000, 100000 * NANO);
	now = look_at(h);
	later = folded(now, -4);
	assert_int_equal(percpu_histogram_subtract(later, earlier), 0);
	assert_int_equal(later->bucket[2].count, 3000);
	assert_true(later->sum == 3000 * 1e5);
	percpu_histogram_snapshot_destroy(earlier);
	percpu_histogram_snapshot_destroy(now);
	percpu_histogram_snapshot_destroy(later);
	percpu_histogram_destroy(h);
}

/* Test that a difference of rounded sums is 0 in an empty bucket, and never negative. */
static void sums_of_doubles_end_at_0(void **state)
{
	struct percpu_histogram *h = make_histogram(1, 1024, 1, 0);
	struct percpu_histogram_snapshot *earlier, *later;

	(void)state;
	percpu_histogram_record(h, 1.5);
	percpu_histogram_record(h, 3);
	earlier = look_at(h);
	percpu_histogram_record(h, 1.5);
	later = look_at(h);
	earlier->bucket[1].sum = 3.5;
	earlier->bucket[2].sum = beside(3, -1);
	assert_int_equal(percpu_histogram_subtract(later, earlier), 0);
	assert_true(later->bucket[1].count == 1 && later->bucket[1].sum == 0);
	assert_true(later->bucket[2].count == 0 && later->bucket[2].sum == 0);
	assert_true(later->count == 1 && later->sum == 0);
	percpu_histogram_snapshot_destroy(earlier);
	percpu_histogram_snapshot_destroy(later);
	percpu_histogram_destroy(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_difference_is_what_came_between),
		cmocka_unit_test(intervals_follow_each_other),
		cmocka_unit_test(a_reset_is_noticed),
		cmocka_unit_test(ranges_that_do_not_fit_are_refused),
		cmocka_unit_test(sums_of_ticks_are_those_of_the_interval),
		cmocka_unit_test(folded_sums_are_kept),
		cmocka_unit_test(sums_of_doubles_end_at_0),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
