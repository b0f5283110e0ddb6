/* SPDX-License-Identifier: MIT */
/*
 * test_approx_steps.c - approximate sums and limits: threads that are overtaken or killed while
 * they move a center, or close or open lanes; the bound after that; fences; and a machine that
 * cannot change two words at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/approx.h>
#include <percpu/fence.h>
#include <percpu/percpu.h>

#include "model.h"
#include "steps.h"
#include "support.h"

#include "memory/memory.h"

#define BATCH 16
#define CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)
#define LIMIT 10000

static const struct percpu_approx_options small = { .size = sizeof(small), .batch = BATCH };
static struct percpu_approx *a;
static struct percpu_region *region;
static const char *step;
static void (*happens)(void);
static unsigned skip, summed, fences, denied;
static unsigned pretended = ~0U; /* ways to change pairs that the machine has */

void test_step(const char *name)
{
	summed += strcmp(name, "approx: words summed") == 0;
	if (step == NULL || strcmp(name, step) != 0 || skip-- != 0)
		return;
	step = NULL;
	happens();
}

static void let_happen(void (*fn)(void), const char *where, unsigned after)
{
	step = where;
	happens = fn;
	skip = after;
}

unsigned __real_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void)
{
	return __real_percpu_pair_ways() & pretended;
}

static void (*in_fence)(void);

int __real_percpu_fence_below(uint32_t end, uint64_t timeout_ns,
			      struct percpu_fence_report *ret_report);
int __wrap_percpu_fence_below(uint32_t end, uint64_t timeout_ns,
			      struct percpu_fence_report *ret_report);
int __wrap_percpu_fence_below(uint32_t end, uint64_t timeout_ns,
			      struct percpu_fence_report *ret_report)
{
	void (*now)(void) = in_fence;

	fences++;
	in_fence = NULL;
	if (now != NULL)
		now();
	return denied ? -EPERM : __real_percpu_fence_below(end, timeout_ns, ret_report);
}

static int make(void **state)
{
	int e;

	(void)state;
	step = NULL;
	fences = denied = 0;
	e = percpu_region_open(test_path("approx"), CREATE, NULL, &region);
	return e != 0 ? e : percpu_approx_create_in(region, &small, &a);
}

static int drop(void **state)
{
	(void)state;
	percpu_approx_destroy(a);
	percpu_region_close(region);
	test_unpin(0);
	return unlink(test_path("approx"));
}

static uint64_t off(void)
{
	int64_t d = percpu_approx_fetch(a) - percpu_approx_estimate(a);

	return d < 0 ? 0 - (uint64_t)d : (uint64_t)d;
}

static unsigned state_now(void)
{
	return (unsigned)(a->control->state % 4);
}

static uint64_t *word(uint32_t cpu)
{
	return (uint64_t *)(void *)(a->block.base + cpu * a->block.stride);
}

static void die(void)
{
	raise(SIGKILL);
}

static void give_back(void)
{
	a->control->closed = 0; /* closed long ago: they may open */
	percpu_approx_add(a, -LIMIT);
}

/* Move centers up and down, close and open lanes, and be killed at a step. */
static int be_killed(void *arg)
{
	const char *const *where = arg;

	for (unsigned i = 0; i < 3; i++) {
		let_happen(die, *where, i < 2 ? i : 0);
		for (unsigned n = 0; n < 5 * BATCH; n++)
			percpu_approx_add(a, n % (2 * BATCH) < BATCH ? 3 : -2);
		(void)!percpu_approx_add_below(a, LIMIT - percpu_approx_fetch(a), LIMIT);
		(void)!percpu_approx_add_below(a, 1, LIMIT);
		give_back();
	}
	return 0;
}

static void fill_up(int64_t limit)
{
	int64_t before = percpu_approx_fetch(a), added = 0;

	while (percpu_approx_add_below(a, 7, limit) == 0)
		added += 7;
	while (percpu_approx_add_below(a, 1, limit) == 0)
		added++;
	assert_int_equal(before + added, limit);
	assert_int_equal(percpu_approx_fetch(a), limit);
}

static const char *const places[] = {
	"approx: highest raised",    "approx: center moved", "approx: lane closed",
	"approx: to be fenced",	     "approx: words summed", "approx: state changed",
	"approx: lane to be opened", "approx: pair loaded",
};

/* Test that after a kill at any step the bound holds, and limits are reached and not exceeded. */
static void killed_anywhere(void **state)
{
	unsigned killed = 0;
	int status;

	(void)state;
	if (!percpu_robust_supported() || test_tier() != PERCPU_TIER_RSEQ)
		test_skip("nobody comes to all steps here");
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		status = test_wait(test_fork(be_killed, (void *)(uintptr_t)&places[i]), 30);
		killed += WIFSIGNALED(status);
		if (!WIFSIGNALED(status))
			fail_msg("nobody came to \"%s\"", places[i]);
		assert_true(off() <= percpu_approx_bound(a));
		for (int sign = 1; sign >= -1; sign -= 2)
			for (unsigned n = 0; n < 4 * BATCH; n++) {
				percpu_approx_add(a, sign);
				assert_true(off() <= percpu_approx_bound(a));
			}
		fill_up(LIMIT + 3 * (int64_t)i);
		assert_true(off() <= percpu_approx_bound(a));
		percpu_approx_add(a, -LIMIT / 2);
		give_back();
		assert_int_equal(state_now(), 0);
	}
	assert_int_equal(killed, sizeof(places) / sizeof(places[0]));
}

static int be_killed_while_moving(void *arg)
{
	test_pin(0, *(unsigned *)arg);
	let_happen(die, "approx: highest raised", 0);
	for (unsigned i = 0; i < 100 * BATCH; i++)
		percpu_approx_add(a, 1);
	return 0;
}

/* Test that the error is as large as the bound, and no larger, if each word is a batch below its
 * center and a thread was killed while it moved a center up. */
static void the_bound_is_reached(void **state)
{
	unsigned cpu = test_cpu(0);

	(void)state;
	if (!percpu_robust_supported() || test_tier() != PERCPU_TIER_RSEQ)
		test_skip("there are no centers on this tier");
	assert_true(WIFSIGNALED(test_wait(test_fork(be_killed_while_moving, &cpu), 30)));
	for (unsigned i = 0; i < test_cpus(); i++) {
		test_pin(0, test_cpu(i));
		percpu_approx_add(a, -BATCH);
	}
	test_pin(0, cpu);
	percpu_approx_add(a, -BATCH);
	assert_int_equal(off(), (test_cpus() + 1) * BATCH);
	assert_true(off() <= percpu_approx_bound(a));
}

static void compares_without_summing(void **state)
{
	const int64_t bound = (int64_t)percpu_approx_bound(a), sum = percpu_approx_estimate(a);

	(void)state;
	summed = 0;
	assert_int_equal(percpu_approx_compare(a, sum + bound + 1), -1);
	assert_int_equal(percpu_approx_compare(a, sum - bound - 1), 1);
	assert_int_equal(summed, 0);
	assert_int_equal(percpu_approx_compare(a, sum + bound), -1);
	assert_int_equal(percpu_approx_compare(a, sum - bound), 1);
	assert_int_equal(summed, 2);
}

static void add_one(void)
{
	assert_int_equal(percpu_approx_add_below(a, 1, LIMIT), 0);
}

static void add_many(void)
{
	for (unsigned i = 0; i < 5 * BATCH; i++)
		percpu_approx_add(a, 1);
}

static void take_rest(void)
{
	assert_int_equal(percpu_approx_add_below(a, LIMIT - percpu_approx_fetch(a), LIMIT), 0);
}

/* Test that an add is refused or not by the sum of now, if another add runs in between. */
static void overtaken_near_the_limit(void **state)
{
	(void)state;
	let_happen(add_one, "approx: pair loaded", 0);
	assert_int_equal(percpu_approx_add_below(a, LIMIT, LIMIT), -ERANGE);
	assert_int_equal(percpu_approx_fetch(a), 1);
	let_happen(take_rest, "approx: pair loaded", 0);
	assert_int_equal(percpu_approx_add_below(a, LIMIT - 1, LIMIT), -ERANGE);
	assert_int_equal(percpu_approx_fetch(a), LIMIT);
	/* The lanes open while an add decides that they must close, and the other way around. */
	percpu_approx_zero(a);
	a->control->closed = 0;
	percpu_approx_add(a, -1);
	percpu_approx_add(a, 1);
	assert_int_equal(state_now(), 0);
	let_happen(take_rest, "approx: to be fenced", 0);
	assert_int_equal(percpu_approx_add_below(a, LIMIT, LIMIT), -ERANGE);
	percpu_approx_add(a, -1);
	let_happen(give_back, "approx: pair loaded", 0);
	assert_int_equal(percpu_approx_add_below(a, 1, LIMIT), 0);
	assert_int_equal(percpu_approx_fetch(a), 0);
	fill_up(LIMIT);
}

static void open_again(void)
{
	percpu_approx_zero(a);
	a->control->closed = 0;
	percpu_approx_add(a, -1);
	assert_int_equal(state_now(), 0);
}

/* Test adds that run while the thread holds the lock, as other threads or signal handlers add. */
static void overtaken_with_the_lock(void **state)
{
	int64_t sum = 0;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		let_happen(add_many, places[i], 0);
		for (unsigned n = 0; n < 5 * BATCH; n++) {
			percpu_approx_add(a, 1);
			assert_true(off() <= percpu_approx_bound(a));
		}
		sum += 5 * BATCH * (step == NULL ? 2 : 1);
		assert_int_equal(percpu_approx_fetch(a), sum);
	}
	let_happen(add_many, "approx: lane closed", 0);
	assert_int_equal(percpu_approx_add_below(a, LIMIT - sum, LIMIT), -ERANGE);
	assert_int_equal(percpu_approx_fetch(a), sum + 5 * BATCH);
	percpu_approx_zero(a);
	open_again();
	sum = percpu_approx_fetch(a);
	let_happen(add_many, "approx: highest to be set", 0);
	assert_int_equal(percpu_approx_add_below(a, LIMIT, LIMIT), -ERANGE);
	assert_null(step);
	assert_int_equal(percpu_approx_fetch(a), sum + 5 * BATCH);
	fill_up(LIMIT);
}

static void commit_late(void)
{
	word(test_cpu(0))[0] += BATCH / 2;
}

/* Test that the sum includes a sequence that commits after the lanes were closed and before the end
 * of the fence, and that closed lanes are not fenced again. */
static void fences_once(void **state)
{
	(void)state;
	in_fence = commit_late;
	assert_int_equal(percpu_approx_add_below(a, LIMIT, LIMIT), -ERANGE);
	assert_int_equal(fences, 1);
	assert_int_equal(state_now(), 2);
	assert_int_equal(percpu_approx_add_below(a, LIMIT - BATCH / 2, LIMIT), 0);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(percpu_approx_add_below(a, 1, LIMIT), -ERANGE);
	assert_int_equal(fences, 1);
}

static void close_again(void)
{
	assert_int_equal(percpu_approx_add_below(a, 3 * LIMIT, 3 * LIMIT), -ERANGE);
	assert_int_equal(state_now(), 2);
	a->control->closed = 0;
	percpu_approx_add(a, -1);
	assert_int_equal(state_now(), 0);
	percpu_approx_add(a, BATCH / 2);
}

/* Test that a closing does not complete if another thread closed and opened the lanes during its
 * fence. */
static void the_state_is_that_before_the_fence(void **state)
{
	(void)state;
	percpu_approx_add(a, 1);
	in_fence = close_again;
	assert_int_equal(percpu_approx_add_below(a, LIMIT, LIMIT), -ERANGE);
	assert_int_equal(fences, 3);
	assert_int_equal(percpu_approx_fetch(a), BATCH / 2);
	fill_up(LIMIT);
}

static int close_and_be_killed(void *arg)
{
	(void)arg;
	let_happen(die, "approx: to be fenced", 0);
	(void)!percpu_approx_add_below(a, LIMIT, LIMIT);
	return 0;
}

static void close_for_another(void)
{
	close_again();
	assert_true(WIFSIGNALED(test_wait(test_fork(close_and_be_killed, NULL), 30)));
	assert_int_equal(state_now(), 1);
}

/* Test that a closing does not complete if, during its fence, another thread opened the lanes, and
 * a third one began to close them and was killed before its fence. One more fence is needed. */
static void a_fence_is_for_one_closing(void **state)
{
	(void)state;
	if (!percpu_robust_supported())
		test_skip("locks are not taken over here");
	percpu_approx_add(a, 1);
	in_fence = close_for_another;
	assert_int_equal(percpu_approx_add_below(a, LIMIT, LIMIT), -ERANGE);
	assert_int_equal(fences, 3);
	assert_int_equal(state_now(), 2);
	assert_int_equal(percpu_approx_fetch(a), BATCH / 2);
	fill_up(LIMIT);
}

static void close_first(void)
{
	assert_int_equal(percpu_approx_add_below(a, LIMIT, LIMIT), -ERANGE);
	assert_int_equal(fences, 1);
}

/* Test that a thread does not close and fence again if another thread closed the lanes before this
 * one got the lock. */
static void closed_lanes_are_not_closed_again(void **state)
{
	(void)state;
	percpu_approx_add(a, 1);
	let_happen(close_first, "approx: to be closed", 0);
	assert_int_equal(percpu_approx_add_below(a, LIMIT, LIMIT), -ERANGE);
	assert_null(step);
	assert_int_equal(fences, 1);
	assert_int_equal(state_now(), 2);
}

/* Test that an add is not refused by the highest of lanes that another thread has opened since the
 * add loaded the state: this highest is more than the exact sum. */
static void no_refusal_by_lanes_that_were_opened(void **state)
{
	(void)state;
	fill_up(LIMIT);
	percpu_approx_zero(a);
	assert_int_equal(state_now(), 2);
	let_happen(open_again, "approx: state loaded", 0);
	assert_int_equal(percpu_approx_add_below(a, LIMIT, LIMIT), 0);
	assert_null(step);
	assert_int_equal(percpu_approx_fetch(a), LIMIT - 1);
}

/* Test that a thread which has found room does not open the lanes if other adds take the room. */
static void lanes_without_room_stay_closed(void **state)
{
	(void)state;
	fill_up(LIMIT);
	percpu_approx_zero(a);
	a->control->closed = 0;
	let_happen(take_rest, "approx: state changed", 0);
	percpu_approx_add(a, -1);
	assert_null(step);
	assert_int_equal(state_now(), 2);
	assert_int_equal(percpu_approx_highest(a), LIMIT);
	assert_int_equal(percpu_approx_add_below(a, 1, LIMIT), -ERANGE);
	assert_int_equal(percpu_approx_fetch(a), LIMIT);
	percpu_approx_add(a, -LIMIT);
	a->control->closed = 0;
	percpu_approx_add(a, -1);
	assert_int_equal(state_now(), 0);
}

static void open_first(void)
{
	percpu_approx_add(a, -1);
	assert_int_equal(state_now(), 0);
}

/* Test that the highest is raised once if two threads find that the lanes may be opened. */
static void lanes_are_opened_once(void **state)
{
	int64_t highest;

	(void)state;
	fill_up(LIMIT);
	percpu_approx_zero(a);
	open_again();
	highest = percpu_approx_highest(a);
	percpu_approx_add(a, 1);
	fill_up(LIMIT);
	percpu_approx_zero(a);
	a->control->closed = 0;
	let_happen(open_first, "approx: to be opened", 0);
	percpu_approx_add(a, 0 - INT64_C(1));
	assert_null(step);
	assert_int_equal(percpu_approx_fetch(a), -2);
	assert_true(percpu_approx_highest(a) <= highest);
	assert_true(off() <= percpu_approx_bound(a));
}

static void where_no_fence_is_allowed(void **state)
{
	(void)state;
	percpu_approx_add(a, BATCH / 2);
	denied = 1;
	assert_int_equal(percpu_approx_add_below(a, LIMIT - BATCH / 2, LIMIT), -EPERM);
	assert_int_equal(percpu_approx_fetch(a), BATCH / 2);
	assert_int_equal(percpu_approx_add_below(a, LIMIT, LIMIT), -EPERM);
	assert_int_equal(percpu_approx_add_below(a, LIMIT / 2, LIMIT), 0);
	assert_int_equal(percpu_approx_add_below(a, 2 * LIMIT, LIMIT), -ERANGE);
	denied = 0;
	fill_up(LIMIT);
}

static void go_to_another_cpu(void)
{
	test_pin(0, test_cpu(1));
}

/* Test that an add which lowers the sum does not raise the highest, also if its thread migrates. */
static void giving_back_makes_no_room(void **state)
{
	const int64_t middle = (int64_t)a->control->middle;

	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ || test_cpus() < 2)
		test_skip("there is one center at most");
	test_pin(0, test_cpu(1));
	percpu_approx_add(a, BATCH);
	test_pin(0, test_cpu(0));
	percpu_approx_add(a, -BATCH);
	assert_int_equal(a->control->middle, middle);
	let_happen(go_to_another_cpu, "approx: refused", 0);
	percpu_approx_add(a, -1);
	assert_null(step);
	assert_int_equal(a->control->middle, middle - 1);
	assert_int_equal(percpu_approx_fetch(a), -1);
}

/* Test that a thread which has raised the highest lowers it if it migrates to a CPU whose center
 * cannot move so far. */
static void a_center_that_stays_makes_no_room(void **state)
{
	const int64_t middle = (int64_t)a->control->middle;

	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ || test_cpus() < 2)
		test_skip("there is one center at most");
	test_pin(0, test_cpu(1));
	percpu_approx_add(a, -BATCH);
	test_pin(0, test_cpu(0));
	percpu_approx_add(a, BATCH);
	assert_int_equal(a->control->middle, middle);
	let_happen(go_to_another_cpu, "approx: highest raised", 0);
	percpu_approx_add(a, 1);
	assert_null(step);
	assert_int_equal(a->control->middle, middle + 1);
	assert_int_equal(percpu_approx_fetch(a), 1);
	fill_up(LIMIT);
}

static struct percpu_rseq without = { .cpu_id = PERCPU_CPU_NEVER }, *own;

static void lose_sequences(void)
{
	own = model_set_area(&without);
}

/* Test that a thread which has lost its registration moves no center. */
static void no_center_is_moved_without_a_lane(void **state)
{
	const int64_t middle = (int64_t)a->control->middle;

	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ)
		test_skip("there are no centers on this tier");
	test_pin(0, test_cpu(0));
	percpu_approx_add(a, BATCH);
	let_happen(lose_sequences, "approx: refused", 0);
	percpu_approx_add(a, 1);
	model_set_area(own);
	assert_null(step);
	for (uint32_t cpu = 0; cpu < a->block.chunk->cpus; cpu++)
		assert_int_equal(word(cpu)[1], 0);
	assert_int_equal(a->control->middle, middle + 1);
	assert_int_equal(percpu_approx_fetch(a), BATCH + 1);
	fill_up(LIMIT);
}

/* Add until less than a batch is left between the highest and the limit. The lanes stay open. */
static void leave_too_little(void)
{
	int64_t room = LIMIT - percpu_approx_highest(a);

	assert_int_equal(percpu_approx_add_below(a, room - BATCH + 1, LIMIT), 0);
	assert_int_equal(state_now(), 0);
	assert_int_equal(percpu_approx_highest(a), LIMIT - BATCH + 1);
}

/* Test that a thread which found room for a whole batch does not move its center by a batch if
 * other adds have taken the room since. */
static void a_center_is_not_raised_over_the_limit(void **state)
{
	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ)
		test_skip("there are no centers on this tier");
	test_pin(0, test_cpu(0));
	assert_int_equal(percpu_approx_add_below(a, BATCH, LIMIT), 0);
	let_happen(leave_too_little, "approx: refused", 0);
	assert_int_equal(percpu_approx_add_below(a, 1, LIMIT), 0);
	assert_null(step);
	assert_true(percpu_approx_highest(a) <= LIMIT);
	fill_up(LIMIT);
}

static int count_without_pairs(void *arg)
{
	struct percpu_approx *p;
	int64_t sum = 0;

	(void)arg;
	pretended = 0;
	test_child_require(percpu_region_open(test_path("none"), CREATE, NULL, &region) == 0, "r");
	test_child_require(percpu_approx_create_in(region, NULL, &p) == -ENOTSUP, "in a file");
	test_child_require(percpu_approx_open(region, 0, NULL, &p) == -ENOTSUP, "at a root");
	test_child_require(percpu_approx_create(&small, &p) == 0, "a private one");
	test_child_require(percpu_approx_fetch(p) == 0, "it begins at 0");
	test_child_require(percpu_approx_add_below(p, LIMIT, LIMIT) == 0, "all at once");
	test_child_require(percpu_approx_add_below(p, 1, LIMIT) == -ERANGE, "one more");
	test_child_require(percpu_approx_fetch_zero(p) == LIMIT, "what was added");
	for (; percpu_approx_add_below(p, 1, LIMIT) == 0; sum++)
		percpu_approx_add(p, sum % 2 ? 3 : -3);
	test_child_require(percpu_approx_fetch(p) >= LIMIT - 3, "not far below");
	test_child_require(percpu_approx_compare(p, LIMIT + 1) == -1, "compared");
	percpu_approx_zero(p);
	test_child_require(percpu_approx_add_below(p, LIMIT, LIMIT) == 0, "all");
	test_child_require(percpu_approx_add_below(p, 1, LIMIT) == -ERANGE, "no more");
	percpu_approx_destroy(p);
	return 0;
}

static int64_t larger;

static void add_and_let_open(void)
{
	a->control->closed = 0; /* closed long ago: they may open */
	(void)!percpu_approx_add_below(a, 1, larger);
}

/* Test that no thread opens lanes so far that the sum may exceed the largest limit. The lanes are
 * closed near one limit, and two threads add below a larger limit, which is also near. One of them
 * has found room when the other could open the lanes. */
static void nobody_opens_lanes_over_the_largest_limit(void **state)
{
	(void)state;
	while (percpu_approx_add_below(a, 1, LIMIT) == 0)
		a->control->closed = percpu_now_ns();
	larger = LIMIT + 4 * (int64_t)a->slack + 25;
	a->control->closed = percpu_now_ns();
	assert_int_equal(percpu_approx_add_below(a, 4 * (int64_t)a->slack + 20, larger), 0);
	let_happen(add_and_let_open, "approx: below the limit", 0);
	assert_int_equal(percpu_approx_add_below(a, 10, larger), -ERANGE);
	assert_true(percpu_approx_fetch(a) <= larger);
}

/* Test a machine without atomic pairs, in a child: the library asks for the CPU's features once. */
static void without_pairs(void **state)
{
	(void)state;
	test_in_child(count_without_pairs, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)

int main(void)
{
	const struct CMUnitTest tests_without_pairs[] = { cmocka_unit_test(without_pairs) };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_pairs),
		TEST(killed_anywhere),
		TEST(the_bound_is_reached),
		TEST(compares_without_summing),
		TEST(overtaken_near_the_limit),
		TEST(overtaken_with_the_lock),
		TEST(fences_once),
		TEST(the_state_is_that_before_the_fence),
		TEST(a_fence_is_for_one_closing),
		TEST(closed_lanes_are_not_closed_again),
		TEST(no_refusal_by_lanes_that_were_opened),
		TEST(lanes_are_opened_once),
		TEST(lanes_without_room_stay_closed),
		TEST(where_no_fence_is_allowed),
		TEST(giving_back_makes_no_room),
		TEST(a_center_that_stays_makes_no_room),
		TEST(no_center_is_moved_without_a_lane),
		TEST(a_center_is_not_raised_over_the_limit),
		TEST(nobody_opens_lanes_over_the_largest_limit),
	};

	test_tier();
	if (!(__real_percpu_pair_ways() & PERCPU_PAIR_EXCHANGES))
		return cmocka_run_group_tests(tests_without_pairs, NULL, test_remove_paths);
	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
