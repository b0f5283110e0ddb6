/* SPDX-License-Identifier: MIT */
/*
 * test_extrema_steps.c - resets and observations that are stopped, killed and overtaken at
 * steps in the library. Except in one test, resets do not wait for turns, so that they undo
 * each other.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "model.h"
#include "steps.h"
#include "support.h"
#include "../happen.h"

#include "counts/counts.h"

#define RESET_STEPS                                                                                \
	"extrema: epoch ended", "extrema: fenced", "extrema: maximum closed", "extrema: read"
#define BACK_STEPS                                                                                 \
	"extrema: given back", "extrema: fenced", "extrema: maximum closed",                       \
		"extrema: minimum given back", "extrema: read"

#define TRIES 10000 /* attempts, as percpu/extrema.h says */

static struct percpu_extrema *x;
static int64_t got_min, got_max;
static int got;

static bool waits;

/* Replaces the library's function: wait only if `waits` is set. */
void __real_percpu_turn_wait(uint32_t *turn, uint32_t me);
void __wrap_percpu_turn_wait(uint32_t *turn, uint32_t me);

void __wrap_percpu_turn_wait(uint32_t *turn, uint32_t me)
{
	if (waits)
		__real_percpu_turn_wait(turn, me);
	else
		__atomic_store_n(turn, me, __ATOMIC_RELAXED);
}

/* Observe as a thread that cannot run sequences. */
static int observe_shared(int64_t v)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area = model_set_area(&none);
	int r = percpu_extrema_observe(x, v);

	model_set_area(area);
	return r;
}

static void begin(void)
{
	test_tier();
	assert_int_equal(percpu_extrema_create(0, &x), 0);
	got = -ENODATA;
}

static void end(void)
{
	percpu_extrema_destroy(x);
}

static void expect(int64_t min, int64_t max)
{
	int64_t lowest, highest;

	assert_int_equal(percpu_extrema_fetch(x, &lowest, &highest), 0);
	assert_int_equal(lowest, min);
	assert_int_equal(highest, max);
}

static void expect_reset(int64_t min, int64_t max)
{
	int64_t lowest, highest;

	assert_int_equal(percpu_extrema_fetch_reset(x, &lowest, &highest), 0);
	assert_int_equal(lowest, min);
	assert_int_equal(highest, max);
	assert_int_equal(percpu_extrema_fetch(x, &lowest, &highest), -ENODATA);
}

static void reset(void)
{
	got = percpu_extrema_fetch_reset(x, &got_min, &got_max);
}

static void expect_got(int64_t min, int64_t max)
{
	assert_int_equal(got, 0);
	assert_int_equal(got_min, min);
	assert_int_equal(got_max, max);
}

/* Test that an observation counts after a reset that runs after it has loaded the pairs. */
static void reset_within_an_observation(void **state)
{
	(void)state;
	begin();
	let_happen(reset, "extrema: pairs loaded", 1);
	assert_int_equal(observe_shared(5), 0); /* the first observation */
	assert_int_equal(got, -ENODATA);
	expect(5, 5);
	let_happen(reset, "extrema: pairs loaded", 1);
	assert_int_equal(observe_shared(7), 0); /* another maximum, without a minimum */
	expect_got(5, 5);
	expect(7, 7);
	assert_int_equal(observe_shared(6), 0);
	let_happen(reset, "extrema: pairs loaded", 1);
	assert_int_equal(observe_shared(9), 0);
	expect_got(6, 7);
	assert_int_equal(observe_shared(8), 0);
	let_happen(reset, "extrema: pairs loaded", 1);
	assert_int_equal(observe_shared(2), 0);
	expect_got(8, 9);
	expect(2, 2);
	let_happen(reset, "extrema: pairs loaded", 2); /* two resets */
	assert_int_equal(observe_shared(1), 0);
	expect(1, 1);
	let_happen(reset, "extrema: pairs loaded", 100); /* many resets */
	assert_int_equal(observe_shared(11), 0);
	expect(11, 11);
	at_step = NULL;
	let_happen(reset, "extrema: maximum loaded", 1);
	assert_int_equal(observe_shared(10), 0);
	expect_got(11, 11);
	expect_reset(10, 10);
	end();
}

static int observed;

static void observe_in_the_epoch_before(void)
{
	observed = percpu_extrema_observe_in(x, *x->epoch - PERCPU_EXTREMES, 99);
}

/* Test that an observation in the ended epoch does not open a pair again that the reset has closed,
 * also when the reset has closed one of both pairs. */
static void observation_half_way_through_a_reset(void **state)
{
	(void)state;
	begin();
	for (unsigned pairs = 0; pairs <= 2; pairs++) {
		for (unsigned i = 0; i < pairs; i++)
			assert_int_equal(observe_shared(5 + (int64_t)i), 0);
		assert_int_equal(percpu_extrema_observe(x, 4), 0);
		let_happen(observe_in_the_epoch_before, "extrema: maximum closed", 1);
		reset();
		assert_int_equal(observed, -ESTALE);
		expect_got(4, pairs == 2 ? 6 : 4 + (int64_t)pairs);
		assert_int_equal(percpu_extrema_observe_in(x, *x->epoch - PERCPU_EXTREMES, 99),
				 -ESTALE);
		assert_int_equal(percpu_extrema_fetch(x, &got_min, &got_max), -ENODATA);
	}
	end();
}

static int64_t other;

static void observe_other(void)
{
	assert_int_equal(observe_shared(other), 0);
}

/* Test all orders of three numbers, where one observation runs within another, or after it. */
static void observation_within_an_observation(void **state)
{
	static const int64_t orders[][3] = { { 1, 2, 3 }, { 1, 3, 2 }, { 2, 1, 3 },
					     { 2, 3, 1 }, { 3, 1, 2 }, { 3, 2, 1 } };

	(void)state;
	begin();
	for (unsigned i = 0; i < 6; i++) {
		for (unsigned at = 0; at < 2; at++) {
			let_happen(observe_other, "extrema: pairs loaded", 1);
			if (at == 0) {
				other = orders[i][0];
				assert_int_equal(observe_shared(orders[i][1]), 0);
				assert_int_equal(observe_shared(orders[i][2]), 0);
			} else {
				other = orders[i][1];
				at_step = NULL;
				assert_int_equal(observe_shared(orders[i][0]), 0);
				let_happen(observe_other, "extrema: pairs loaded", 1);
				assert_int_equal(observe_shared(orders[i][2]), 0);
			}
			expect_reset(1, 3);
		}
	}
	end();
}

/* Test that an observation which runs during a reset counts after it. */
static void observation_within_a_reset(void **state)
{
	static const char *const steps[] = { RESET_STEPS };

	(void)state;
	begin();
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		assert_int_equal(observe_shared(1), 0);
		assert_int_equal(observe_shared(2), 0);
		assert_int_equal(percpu_extrema_observe(x, 3), 0);
		other = 50 + (int64_t)i;
		let_happen(observe_other, steps[i], 1);
		reset();
		expect_got(1, 3);
		expect_reset(other, other);
	}
	end();
}

static void two_resets(void)
{
	reset();
	assert_int_equal(observe_shared(40), 0);
	assert_int_equal(percpu_extrema_observe(x, 41), 0);
	reset();
	assert_int_equal(observe_shared(50), 0);
}

/* Reset within another reset, give back its extremes, and be overtaken by two resets. */
static void overtaken_reset(void)
{
	let_happen(two_resets, "extrema: to be given back", 1);
	reset();
	assert_null(at_step);
}

/* Test that a reset starts again if other resets overtake it at any step: each number is in one
 * result. */
static void resets_within_a_reset(void **state)
{
	static const char *const steps[] = { "extrema: epoch to end", RESET_STEPS };
	int64_t lowest, highest;

	(void)state;
	begin();
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		assert_int_equal(observe_shared(10), 0);
		assert_int_equal(percpu_extrema_observe(x, 11), 0);
		let_happen(two_resets, steps[i], 1);
		expect_reset(50, 50);
		expect_got(40, 41);
	}
	assert_int_equal(observe_shared(10), 0);
	let_happen(overtaken_reset, "extrema: epoch ended", 1);
	assert_int_equal(percpu_extrema_fetch_reset(x, &lowest, &highest), -ENODATA);
	expect_got(50, 50);
	end();
}

static void observe_more(void)
{
	other++;
	observe_other();
}

/* Test that an observation and a read give up after TRIES attempts if other threads are always
 * faster. */
static void tries_have_an_end(void **state)
{
	int64_t lowest = 7, highest = 8;

	(void)state;
	begin();
	other = 0;
	let_happen(observe_more, "extrema: pairs loaded", 1000000);
	assert_int_equal(observe_shared(1000000), -ETIMEDOUT);
	assert_int_equal(1000000 - times, TRIES);
	let_happen(reset, "extrema: pairs read", 1000000);
	assert_int_equal(percpu_extrema_fetch(x, &lowest, &highest), -ETIMEDOUT);
	assert_int_equal(1000000 - times, TRIES);
	at_step = NULL;
	assert_true(lowest == 7 && highest == 8);
	assert_int_equal(observe_shared(3), 0);
	expect_reset(3, 3);
	end();
}

static void read_twice(void)
{
	int64_t lowest, highest;

	if (percpu_extrema_fetch_reset(x, &lowest, &highest) == 0)
		got++;
	assert_int_equal(percpu_extrema_observe(x, 21), 0);
	assert_int_equal(percpu_extrema_fetch_reset(x, &lowest, &highest), 0);
	assert_int_equal(lowest, 21);
	assert_int_equal(percpu_extrema_observe(x, 22), 0);
	assert_int_equal(observe_shared(23), 0);
}

/* Test that a read does not mix the extremes of two epochs. */
static void resets_within_a_read(void **state)
{
	static const char *const steps[] = { "extrema: pairs read", "extrema: epoch found" };

	(void)state;
	begin();
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(percpu_extrema_observe(x, 1), 0);
		assert_int_equal(observe_shared(2), 0);
		let_happen(read_twice, steps[i], 1);
		if (test_tier() == PERCPU_TIER_RSEQ || i == 0)
			expect(22, 23);
		at_step = NULL;
		assert_int_equal(percpu_extrema_reset(x), 0);
	}
	end();
}

/* The step at which a child is killed. The extremes are in a file. */
static const char *deadly;

static unsigned left; /* times until the child is killed there */

static void die(void)
{
	if (--left == 0)
		kill(getpid(), SIGKILL);
}

static int reset_and_die(void *arg)
{
	(void)arg;
	left = 1;
	let_happen(die, deadly, 1);
	reset();
	return 0;
}

static void expect_killed(void)
{
	int status = test_wait(test_fork(reset_and_die, NULL), 20);

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Test that the next reset returns the extremes of a killed reset, also if another reset was killed
 * while it gave them back. */
static void killed_resets_lose_nothing(void **state)
{
	static const char *const steps[] = { RESET_STEPS };
	static const char *const again[] = { BACK_STEPS };
	const unsigned n = sizeof(again) / sizeof(again[0]);
	struct percpu_region *region;

	(void)state;
	test_tier();
	assert_int_equal(percpu_region_open(test_path("killed"),
					    PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL,
					    &region),
			 0);
	assert_int_equal(percpu_extrema_create_in(region, 0, &x), 0);
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		for (unsigned j = 0; j <= n; j++) {
			assert_int_equal(percpu_extrema_observe(x, 10), 0);
			assert_int_equal(observe_shared(20), 0);
			assert_int_equal(observe_shared(15), 0);
			deadly = steps[i];
			expect_killed();
			if (j % 2)
				assert_int_equal(observe_shared(18), 0);
			else
				assert_int_equal(percpu_extrema_observe(x, 18), 0);
			expect(18, 18);
			deadly = j < n ? again[j] : NULL;
			if (deadly != NULL)
				expect_killed();
			expect_reset(10, 20);
		}
	}
	percpu_extrema_destroy(x);
	percpu_region_close(region);
}

/* Test that a reset which gives back the extremes of a killed reset starts again if a third reset
 * overtakes it: the numbers are in one result. */
static void resets_within_a_giving_back(void **state)
{
	static const char *const again[] = { BACK_STEPS };
	struct percpu_region *region;
	int64_t min, max;

	(void)state;
	test_tier();
	assert_int_equal(percpu_region_open(test_path("overtaken"),
					    PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL,
					    &region),
			 0);
	assert_int_equal(percpu_extrema_create_in(region, 0, &x), 0);
	for (unsigned i = 0; i < sizeof(again) / sizeof(again[0]); i++) {
		assert_int_equal(percpu_extrema_observe(x, 10), 0);
		assert_int_equal(observe_shared(20), 0);
		deadly = "extrema: epoch ended";
		expect_killed();
		got = -ENODATA;
		let_happen(reset, again[i], 1);
		assert_int_equal(percpu_extrema_fetch_reset(x, &min, &max), -ENODATA);
		assert_int_equal(times, 0);
		expect_got(10, 20);
	}
	percpu_extrema_destroy(x);
	percpu_region_close(region);
}

/* Observe three numbers, and be killed when the pairs were loaded for the n-th time. */
static int observe_and_die(void *arg)
{
	left = *(unsigned *)arg;
	let_happen(die, "extrema: pairs loaded", left);
	for (int64_t v = 1; v <= 3; v++)
		(void)observe_shared(5 * v);
	return 0;
}

static void killed_observations_are_whole(void **state)
{
	struct percpu_region *region;
	int64_t min, max;
	int e, status;

	(void)state;
	test_tier();
	assert_int_equal(percpu_region_open(test_path("whole"),
					    PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL,
					    &region),
			 0);
	assert_int_equal(percpu_extrema_create_in(region, 0, &x), 0);
	for (unsigned n = 1; n <= 4; n++) {
		status = test_wait(test_fork(observe_and_die, &n), 20);
		assert_true(WIFSIGNALED(status));
		e = percpu_extrema_fetch(x, &min, &max);
		assert_int_equal(e, n == 1 ? -ENODATA : 0);
		if (e == 0) /* 10 is tried twice, after the minimum */
			assert_true(min == 5 && max == (n < 4 ? 5 : 10));
		assert_int_equal(observe_shared(7), 0);
		expect_reset(n == 1 ? 7 : 5, n == 4 ? 10 : 7);
	}
	percpu_extrema_destroy(x);
	percpu_region_close(region);
}

/* One thread observes 1, 2, 3, ...; other threads reset, and undo each other's resets. */
#define RESETTERS 3
#define MOST 30000

static struct interval {
	int64_t min, max;
} * intervals;
static unsigned n_intervals;
static bool done;
static uint64_t wrong;

static void reset_or_observe(unsigned i, void *arg)
{
	const int64_t last = *(const int64_t *)arg;
	struct interval v;
	int e;

	for (int64_t n = 1; i == 0 && n <= last; n++)
		wrong += (n % 4 ? percpu_extrema_observe(x, n) : observe_shared(n)) != 0;
	if (i == 0)
		__atomic_store_n(&done, true, __ATOMIC_RELEASE);
	while (i != 0 && !__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		e = percpu_extrema_fetch_reset(x, &v.min, &v.max);
		if (e == 0)
			intervals[__atomic_fetch_add(&n_intervals, 1, __ATOMIC_RELAXED)] = v;
		else if (e != -ENODATA && e != -EAGAIN)
			__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
	}
}

static int compare(const void *a, const void *b)
{
	const struct interval *v = a, *w = b;

	return v->min < w->min ? -1 : v->min > w->min;
}

static void resets_that_undo_each_other(void **state)
{
	int64_t last = test_rounds(MOST), next = 1;

	(void)state;
	begin();
	intervals = test_share((MOST + 1) * sizeof(*intervals));
	test_team_run(1 + RESETTERS, reset_or_observe, &last);
	reset();
	if (got == 0)
		intervals[n_intervals++] = (struct interval){ got_min, got_max };
	assert_int_equal(wrong, 0);
	qsort(intervals, n_intervals, sizeof(*intervals), compare);
	for (unsigned i = 0; i < n_intervals; i++) {
		assert_int_equal(intervals[i].min, next);
		next = intervals[i].max + 1;
	}
	assert_int_equal(next, last + 1);
	end();
}

/* Test that calls return, with an error or numbers, whatever a file contains. */
static void any_bytes_in_the_file(void **state)
{
	static const uint64_t odd[] = { 0,
					1,
					PERCPU_EXTREMES,
					2 * PERCPU_EXTREMES,
					UINT64_MAX,
					UINT64_MAX - 30,
					INT64_MAX,
					UINT64_C(1) << 63 };
	struct percpu_extrema_control *c;
	struct percpu_region *region;
	uint64_t random = 9, *words;

	(void)state;
	test_tier();
	assert_int_equal(percpu_region_open(test_path("bytes"),
					    PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL,
					    &region),
			 0);
	assert_int_equal(percpu_extrema_create_in(region, 0, &x), 0);
	c = percpu_extrema_control(x);
	for (unsigned i = 0; i < 200; i++) {
		for (unsigned w = 0; w < sizeof(*c) / sizeof(*words); w++) {
			words = (uint64_t *)c;
			if (w == 2) /* flags and turn */
				continue;
			words[w] = odd[test_random(&random) % 8];
		}
		words = (uint64_t *)(void *)x->block.base;
		for (unsigned w = 0; w < 8; w++)
			words[w] = odd[test_random(&random) % 8];
		(void)observe_shared((int64_t)test_random(&random));
		(void)percpu_extrema_observe(x, (int64_t)test_random(&random));
		got = percpu_extrema_fetch(x, &got_min, &got_max);
		reset();
	}
	percpu_extrema_destroy(x);
	percpu_region_close(region);
}

static void end_other_turn(void)
{
	__atomic_store_n(&percpu_extrema_control(x)->turn, 0, __ATOMIC_RELAXED);
}

static int reset_in_child(void *shared)
{
	let_happen(end_other_turn, "turn: not ours", 1);
	test_child_require(percpu_extrema_reset(x) == 0, "a reset");
	test_child_require((times == 0) == *(bool *)shared, "the turn of whom it has");
	return 0;
}

/* Test that a child waits for the turn of its parent's thread if both share the extremes, and not
 * if the child has a copy. */
static void children_end_turns_in_private_memory(void **state)
{
	struct percpu_region *region;

	(void)state;
	test_tier();
	assert_int_equal(percpu_region_open(test_path("turns"),
					    PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL,
					    &region),
			 0);
	waits = true;
	for (int i = 0; i < 2; i++) {
		bool shared = i == 1;

		assert_int_equal(shared ? percpu_extrema_create_in(region, 0, &x) :
					  percpu_extrema_create(0, &x),
				 0);
		percpu_extrema_control(x)->turn = percpu_turn_id(x->block.chunk->region);
		assert_int_equal(test_wait(test_fork(reset_in_child, &shared), 20), 0);
		percpu_extrema_destroy(x);
	}
	waits = false;
	percpu_region_close(region);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reset_within_an_observation),
		cmocka_unit_test(observation_within_an_observation),
		cmocka_unit_test(observation_within_a_reset),
		cmocka_unit_test(observation_half_way_through_a_reset),
		cmocka_unit_test(resets_within_a_reset),
		cmocka_unit_test(tries_have_an_end),
		cmocka_unit_test(resets_within_a_read),
		cmocka_unit_test(killed_resets_lose_nothing),
		cmocka_unit_test(resets_within_a_giving_back),
		cmocka_unit_test(killed_observations_are_whole),
		cmocka_unit_test(resets_that_undo_each_other),
		cmocka_unit_test(children_end_turns_in_private_memory),
		cmocka_unit_test(any_bytes_in_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
