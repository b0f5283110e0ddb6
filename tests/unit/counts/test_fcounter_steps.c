/* SPDX-License-Identifier: MIT */
/*
 * test_fcounter_steps.c - counters of doubles: threads without sequences that are stopped,
 * overtaken and killed in an add; and reads in a region that was opened to read.
 */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "model.h"
#include "support.h"

#include "../happen.h"
#include "memory/memory.h"

#define CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)

static struct percpu_region *region;
static struct percpu_fcounter *counter;
static uint32_t *reached;

static int begin(void **state)
{
	(void)state;
	test_tier();
	reached = test_share(sizeof(*reached));
	return percpu_region_open(test_path("steps"), CREATE, NULL, &region) ||
	       percpu_fcounter_open(region, 0, &counter);
}

static int end(void **state)
{
	percpu_fcounter_destroy(counter);
	percpu_region_close(region);
	return test_remove_paths(state);
}

static int add_without(double n)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area = model_set_area(&none);
	int e = percpu_fcounter_add(counter, n);

	model_set_area(area);
	return e;
}

static void add_more(void)
{
	assert_int_equal(add_without(0.5), 0);
}

static void adds_that_meet_both_count(void **state)
{
	(void)state;
	percpu_fcounter_zero(counter);
	test_pin(0, test_cpu(0));
	let_happen(add_more, "double added", 1);
	assert_int_equal(add_without(2), 0);
	assert_int_equal(times, 0);
	assert_true(percpu_fcounter_fetch(counter) == 2.5);
	test_unpin(0);
}

static void fill_lane(void)
{
	assert_int_equal(add_without(0x1p999), 0);
}

/* Test that an add is refused by the value that the lane has when it would be stored. */
static void what_was_room_is_none_any_more(void **state)
{
	(void)state;
	test_pin(0, test_cpu(0));
	percpu_fcounter_zero(counter);
	let_happen(fill_lane, "double added", 1);
	assert_int_equal(add_without(0x1p999), -ERANGE);
	assert_true(percpu_fcounter_fetch(counter) == 0x1p999);
	assert_int_equal(add_without(-0x1p999), 0);
	test_unpin(0);
}

static void wait_for_the_end(void)
{
	__atomic_store_n(reached, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static int add_and_die(void *arg)
{
	(void)arg;
	test_child_require(add_without(8) == 0 && percpu_fcounter_add(counter, 16) == 0, "add");
	let_happen(wait_for_the_end, "double added", 1);
	(void)add_without(1024);
	return 1;
}

static int reset_and_die(void *arg)
{
	(void)arg;
	test_child_require(percpu_fcounter_add(counter, 32) == 0, "add");
	let_happen(wait_for_the_end, "lanes summed", 1);
	percpu_fcounter_zero(counter);
	return 1;
}

static void die(int (*fn)(void *))
{
	pid_t pid;

	__atomic_store_n(reached, 0, __ATOMIC_RELEASE);
	pid = test_fork(fn, NULL);
	while (!__atomic_load_n(reached, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)test_wait(pid, 60);
}

static void the_killed_have_added_or_not(void **state)
{
	(void)state;
	percpu_fcounter_zero(counter);
	die(add_and_die);
	assert_true(percpu_fcounter_fetch(counter) == 24);
	die(reset_and_die);
	assert_true(percpu_fcounter_fetch_zero(counter) == 56);
	assert_int_equal(add_without(1), 0);
	assert_true(percpu_fcounter_fetch(counter) == 1);
}

static int look(void *arg)
{
	struct percpu_region *outside;
	struct percpu_fcounter *seen;

	(void)arg;
	test_child_require(percpu_region_open(test_path("steps"), 0, NULL, &outside) == 0, "r");
	test_child_require(percpu_fcounter_open(outside, 0, &seen) == 0, "a counter");
	test_child_require(percpu_fcounter_fetch_zero(seen) == 3, "its value");
	percpu_fcounter_zero(seen);
	test_child_require(percpu_fcounter_fetch(seen) == 3, "its value, not reset");
	return 0;
}

static void readers_store_nothing(void **state)
{
	(void)state;
	percpu_fcounter_zero(counter);
	assert_int_equal(percpu_fcounter_add(counter, 3), 0);
	assert_int_equal(test_wait(test_fork(look, NULL), 10), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adds_that_meet_both_count),
		cmocka_unit_test(what_was_room_is_none_any_more),
		cmocka_unit_test(the_killed_have_added_or_not),
		cmocka_unit_test(readers_store_nothing),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
