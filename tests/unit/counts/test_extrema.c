/* SPDX-License-Identifier: MIT */
/* test_extrema.c - minima and maxima: reads, resets and refusals. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/percpu.h>

#include "model.h"
#include "support.h"

#include "counts/counts.h"

#define CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)

static struct percpu_extrema *x;

static void begin(unsigned flags)
{
	test_tier();
	assert_int_equal(percpu_extrema_create(flags, &x), 0);
}

static void end(void)
{
	percpu_extrema_destroy(x);
	test_unpin(0);
}

/* Observe as a thread that cannot run sequences. */
static int observe_shared(const struct percpu_extrema *e, int64_t v)
{
	struct percpu_rseq none = { .cpu_id = -2 };
	struct percpu_rseq *area = model_set_area(&none);
	int r = percpu_extrema_observe(e, v);

	model_set_area(area);
	return r;
}

static int observe(unsigned way, int64_t v)
{
	if (way % 3 == 2)
		return observe_shared(x, v);
	test_pin(0, test_cpu(way % 3 % test_cpus()));
	return percpu_extrema_observe(x, v);
}

static void expect(const struct percpu_extrema *e, int64_t min, int64_t max)
{
	int64_t lowest, highest;

	assert_int_equal(percpu_extrema_fetch(e, &lowest, &highest), 0);
	assert_int_equal(lowest, min);
	assert_int_equal(highest, max);
}

static void expect_nothing(const struct percpu_extrema *e)
{
	int64_t min = 5, max = 6;

	assert_int_equal(percpu_extrema_fetch(e, &min, &max), -ENODATA);
	assert_true(min == 5 && max == 6);
}

static void expect_reset(int64_t min, int64_t max)
{
	int64_t lowest, highest;

	assert_int_equal(percpu_extrema_fetch_reset(x, &lowest, &highest), 0);
	assert_int_equal(lowest, min);
	assert_int_equal(highest, max);
	expect_nothing(x);
}

static void words_of_all_lanes(void **state)
{
	static const int64_t odd[] = { 0, -1, 1, INT64_MIN, INT64_MAX };
	uint64_t random = 31;
	int64_t min, max, v;

	(void)state;
	begin(0);
	assert_false(percpu_extrema_is_double(x));
	assert_int_equal(percpu_extrema_key(x), 0);
	expect_nothing(x);
	for (unsigned round = 0; round < 300; round++) {
		min = INT64_MAX;
		max = INT64_MIN;
		for (unsigned i = 0; i <= round % 5; i++) {
			v = test_random(&random) % 3 ? (int64_t)test_random(&random) :
						       odd[test_random(&random) % 5];
			assert_int_equal(observe((unsigned)test_random(&random) % 16, v), 0);
			min = v < min ? v : min;
			max = v > max ? v : max;
			expect(x, min, max);
		}
		if (round % 2)
			expect_reset(min, max);
		else
			assert_int_equal(percpu_extrema_reset(x), 0);
		expect_nothing(x);
	}
	assert_int_equal(percpu_extrema_fetch_reset(x, &min, &max), -ENODATA);
	assert_int_equal(percpu_extrema_reset(x), 0);
	end();
}

/* Test each way to observe alone, with values above, below and between the extremes. */
static void each_way_alone(void **state)
{
	(void)state;
	begin(0);
	for (unsigned way = 0; way < 3; way++) {
		for (unsigned again = 0; again < 3; again++) {
			assert_int_equal(observe(way, 10), 0);
			expect(x, 10, 10);
			assert_int_equal(observe(way, 12), 0);
			expect(x, 10, 12);
			assert_int_equal(observe(way, 11), 0);
			expect(x, 10, 12);
			assert_int_equal(observe(way, -3), 0);
			expect(x, -3, 12);
			expect_reset(-3, 12);
			assert_int_equal(observe(way, 5), 0);
			assert_int_equal(observe(way, 4), 0);
			expect_reset(4, 5);
			assert_int_equal(observe(way, 7), 0);
			expect_reset(7, 7);
		}
	}
	end();
}

/* Test how a reader of a file merges copies of lanes: each slot gets the last epoch, and the least
 * and the greatest values of that epoch. */
static void lanes_of_a_copy(void **state)
{
	static const struct {
		uint64_t epoch;
		int64_t min, max;
		uint64_t then; /* the merged epoch of all lanes so far */
		int64_t least, most;
	} lanes[] = {
		{ 32, 5, 6, 32, 5, 6 },	    { 32, 7, 9, 32, 5, 9 },    { 32, 3, 4, 32, 3, 9 },
		{ 32, -2, 10, 32, -2, 10 }, { 0, -9, 90, 32, -2, 10 }, { 64, 1, 2, 64, 1, 2 },
		{ 32, -9, 90, 64, 1, 2 },
	};
	const unsigned n = sizeof(lanes) / sizeof(lanes[0]);
	struct percpu_extremes all[2] = { { .epoch = 0 } }, lane[2] = { { .epoch = 0 } };

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		for (unsigned k = 0; k < 2; k++) {
			const unsigned from = k == 0 ? i : n - 1 - i;

			lane[k].epoch = lanes[from].epoch;
			lane[k].min = lanes[from].min;
			lane[k].max = lanes[from].max;
		}
		percpu_extrema_gather(all, lane);
		assert_int_equal(all[0].epoch, lanes[i].then);
		assert_int_equal(all[0].min, lanes[i].least);
		assert_int_equal(all[0].max, lanes[i].most);
	}
	assert_true(all[1].epoch == 64 && all[1].min == 1 && all[1].max == 2);
}

static void doubles_in_their_order(void **state)
{
	static const double values[] = {
		-0x1p1023, -2.5,      -1.0,   -0x1p-1074, -0.0,
		0.0,	   0x1p-1074, 1e-300, 0.1,	  0x1.fffffffffffffp1023
	};
	const unsigned n = sizeof(values) / sizeof(values[0]);
	double min = 7, max = 8;

	(void)state;
	begin(PERCPU_EXTREMA_DOUBLE);
	assert_true(percpu_extrema_is_double(x));
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = i; j < n; j++) {
			assert_int_equal(percpu_extrema_observe_double(x, values[j]), 0);
			assert_int_equal(percpu_extrema_observe_double(x, values[i]), 0);
			assert_int_equal(percpu_extrema_fetch_double(x, &min, &max), 0);
			assert_memory_equal(&min, &values[i], sizeof(min));
			assert_int_equal(percpu_extrema_fetch_reset_double(x, &min, &max), 0);
			assert_memory_equal(&max, &values[j], sizeof(max));
		}
	max = 8;
	assert_int_equal(percpu_extrema_fetch_reset_double(x, &min, &max), -ENODATA);
	assert_int_equal(percpu_extrema_observe_double(x, NAN), -EDOM);
	assert_int_equal(percpu_extrema_observe_double(x, -NAN), -EDOM);
	assert_int_equal(percpu_extrema_observe_double(x, INFINITY), -EDOM);
	assert_int_equal(percpu_extrema_observe_double(x, -INFINITY), -EDOM);
	assert_int_equal(percpu_extrema_fetch_double(x, &min, &max), -ENODATA);
	assert_true(max == 8);
	end();
}

static void the_other_kind_is_refused(void **state)
{
	struct percpu_extrema *none = NULL;
	int64_t min, max;
	double low, high;

	(void)state;
	assert_int_equal(percpu_extrema_create(2, &none), -EINVAL);
	assert_int_equal(percpu_extrema_create(PERCPU_EXTREMA_STATE_WORDS, &none), -EINVAL);
	assert_int_equal(percpu_extrema_create(PERCPU_EXTREMA_STATE_DOUBLES, &none), -EINVAL);
	begin(PERCPU_EXTREMA_DOUBLE);
	assert_int_equal(percpu_extrema_observe(x, 1), -EINVAL);
	assert_int_equal(percpu_extrema_fetch(x, &min, &max), -EINVAL);
	assert_int_equal(percpu_extrema_fetch_reset(x, &min, &max), -EINVAL);
	assert_int_equal(percpu_extrema_fetch_double(x, &low, &high), -ENODATA);
	assert_int_equal(percpu_extrema_fetch_double(x, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_extrema_fetch_reset_double(x, NULL, NULL), -EINVAL);
	end();
	begin(0);
	assert_int_equal(percpu_extrema_observe_double(x, 1), -EINVAL);
	assert_int_equal(percpu_extrema_observe_double(x, NAN), -EINVAL);
	assert_int_equal(percpu_extrema_fetch_double(x, &low, &high), -EINVAL);
	assert_int_equal(percpu_extrema_fetch_reset_double(x, &low, &high), -EINVAL);
	assert_int_equal(percpu_extrema_fetch(x, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_extrema_fetch_reset(x, NULL, NULL), -EINVAL);
	expect_nothing(x);
	end();
}

static void one_of_both_is_enough(void **state)
{
	int64_t min = 0, max = 0;
	double low = 0, high = 0;

	(void)state;
	begin(0);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(percpu_extrema_observe(x, -3), 0);
		assert_int_equal(percpu_extrema_observe(x, 4 + round), 0);
		assert_int_equal(percpu_extrema_fetch(x, &min, NULL), 0);
		assert_int_equal(percpu_extrema_fetch(x, NULL, &max), 0);
		assert_true(min == -3 && max == 4 + round);
		min = max = 0;
		assert_int_equal(round == 0 ? percpu_extrema_fetch_reset(x, &min, NULL) :
					      percpu_extrema_fetch_reset(x, NULL, &max),
				 0);
		assert_true(min == (round == 0 ? -3 : 0) && max == (round == 0 ? 0 : 5));
		expect_nothing(x);
	}
	end();
	begin(PERCPU_EXTREMA_DOUBLE);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(percpu_extrema_observe_double(x, -0.5), 0);
		assert_int_equal(percpu_extrema_observe_double(x, 2.5), 0);
		assert_int_equal(percpu_extrema_fetch_double(x, &low, NULL), 0);
		assert_int_equal(percpu_extrema_fetch_double(x, NULL, &high), 0);
		assert_true(low == -0.5 && high == 2.5);
		assert_int_equal(round == 0 ? percpu_extrema_fetch_reset_double(x, &low, NULL) :
					      percpu_extrema_fetch_reset_double(x, NULL, &high),
				 0);
		assert_int_equal(percpu_extrema_fetch_double(x, &low, &high), -ENODATA);
	}
	end();
}

/* Test that new extremes are empty in memory that earlier extremes have used. */
static void they_begin_empty(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		begin(0);
		expect_nothing(x);
		for (unsigned way = 0; way < 3; way++)
			assert_int_equal(observe(way, i), 0);
		if (i % 2)
			expect_reset(i, i);
		end();
	}
}

static int observe_both(void *e)
{
	return percpu_extrema_observe(e, 100) | observe_shared(e, -100);
}

static void shared_with_others(void **state)
{
	struct percpu_region *region, *outside;
	struct percpu_extrema *seen, *other = NULL;
	struct percpu_counter *c = NULL;
	const char *path = test_path("extrema");

	(void)state;
	test_tier();
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &region), 0);
	assert_int_equal(percpu_extrema_open(region, 3, 0, &x), 0);
	assert_int_equal(percpu_region_open(path, 0, NULL, &outside), 0);
	assert_int_equal(percpu_extrema_attach(outside, percpu_extrema_key(x), &seen), 0);
	expect_nothing(seen);
	test_in_child(observe_both, x);
	expect(seen, -100, 100);
	assert_int_equal(percpu_extrema_observe(seen, 1000), -EROFS);
	assert_int_equal(percpu_extrema_observe_double(seen, 1000), -EINVAL);
	assert_int_equal(percpu_extrema_reset(seen), -EROFS);
	expect_reset(-100, 100);
	expect_nothing(seen);
	test_in_child(observe_both, x);
	expect(seen, -100, 100);
	/* Extremes are found only by calls for extremes of their kind. */
	assert_int_equal(percpu_extrema_open(region, 3, PERCPU_EXTREMA_DOUBLE, &other), -EEXIST);
	assert_int_equal(percpu_extrema_open(outside, 4, 0, &other), -ENOENT);
	assert_int_equal(percpu_extrema_attach(region, percpu_extrema_key(x) + 128, &other),
			 -ENOENT);
	assert_int_equal(percpu_extrema_create_in(outside, 0, &other), -EROFS);
	assert_int_equal(percpu_counter_open(region, 4, &c), 0);
	assert_int_equal(percpu_extrema_open(region, 4, 0, &other), -EEXIST);
	assert_int_equal(percpu_extrema_attach(region, percpu_region_root(region, 4), &other),
			 -ENOENT);
	assert_null(other);
	percpu_counter_detach(c);
	assert_int_equal(percpu_extrema_open(region, 3, 0, &other), 0);
	expect(other, -100, 100);
	percpu_extrema_detach(other);
	assert_int_equal(percpu_extrema_create_in(region, PERCPU_EXTREMA_DOUBLE, &other), 0);
	percpu_extrema_detach(seen);
	assert_int_equal(percpu_extrema_attach(region, percpu_extrema_key(other), &seen), 0);
	assert_true(percpu_extrema_is_double(seen));
	percpu_extrema_detach(seen);
	percpu_extrema_destroy(other);
	percpu_extrema_destroy(x);
	percpu_region_close(outside);
	percpu_region_close(region);
}

/*
 * One thread observes 1, 2, 3, ..., in any way; other threads reset, and record the intervals
 * that they get. Together the intervals contain each number once.
 */
#define RESETTERS 2
#define LAST 1000000
#define MOST 100000 /* results */

static struct interval {
	int64_t min, max;
} * got;
static unsigned n_got;
static bool done;
static uint64_t wrong;

static void reset_or_observe(unsigned i, void *arg)
{
	const int64_t last = *(const int64_t *)arg;
	uint64_t random = 5;
	struct interval v;
	int e;

	for (int64_t n = 1; i == 0 && n <= last; n++)
		wrong += (test_random(&random) % 4 ? percpu_extrema_observe(x, n) :
						     observe_shared(x, n)) != 0;
	if (i == 0)
		__atomic_store_n(&done, true, __ATOMIC_RELEASE);
	while (i != 0 && !__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		e = percpu_extrema_fetch_reset(x, &v.min, &v.max);
		if (e == 0)
			got[__atomic_fetch_add(&n_got, 1, __ATOMIC_RELAXED) % MOST] = v;
		else if (e != -ENODATA)
			__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
	}
}

static int compare(const void *a, const void *b)
{
	const struct interval *v = a, *w = b;

	return v->min < w->min ? -1 : v->min > w->min;
}

static void each_is_in_one_result(void **state)
{
	int64_t last = test_rounds(LAST), next = 1;

	(void)state;
	begin(0);
	got = test_share(MOST * sizeof(*got));
	test_team_run(1 + RESETTERS, reset_or_observe, &last);
	if (percpu_extrema_fetch_reset(x, &got[n_got].min, &got[n_got].max) == 0)
		n_got++;
	assert_int_equal(wrong, 0);
	assert_in_range(n_got, 1, MOST - 1);
	qsort(got, n_got, sizeof(*got), compare);
	for (unsigned i = 0; i < n_got; i++) {
		assert_int_equal(got[i].min, next);
		next = got[i].max + 1;
	}
	assert_int_equal(next, last + 1);
	end();
}

/* Reset in a child, which has a copy of the extremes. */
static int reset_as_a_child(void *arg)
{
	int64_t min, max;

	(void)arg;
	return percpu_extrema_fetch_reset(x, &min, &max) != 0 || min != 3 || max != 4;
}

static void children_reset_their_copy(void **state)
{
	(void)state;
	begin(0);
	assert_int_equal(percpu_extrema_observe(x, 3), 0);
	assert_int_equal(observe_shared(x, 4), 0);
	test_in_child(reset_as_a_child, NULL);
	expect_reset(3, 4);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_of_all_lanes),
		cmocka_unit_test(each_way_alone),
		cmocka_unit_test(lanes_of_a_copy),
		cmocka_unit_test(doubles_in_their_order),
		cmocka_unit_test(the_other_kind_is_refused),
		cmocka_unit_test(one_of_both_is_enough),
		cmocka_unit_test(they_begin_empty),
		cmocka_unit_test(shared_with_others),
		cmocka_unit_test(each_is_in_one_result),
		cmocka_unit_test(children_reset_their_copy),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
