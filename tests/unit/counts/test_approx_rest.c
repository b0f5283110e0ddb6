/* SPDX-License-Identifier: MIT */
/*
 * test_approx_rest.c - lanes of approximate sums that were closed near a limit: they stay closed
 * for a while, so that large adds near the limit seldom fence.
 */
#include <errno.h>

#include <percpu/approx.h>
#include <percpu/percpu.h>

#include "support.h"

#include "memory/memory.h"

#define BATCH 16
#define LIMIT 100000
#define REST_NS 10000000
#define ROUNDS 5000

static struct percpu_approx *a;

static int make(void **state)
{
	static const struct percpu_approx_options small = { .size = sizeof(small), .batch = BATCH };

	(void)state;
	test_tier();
	return percpu_approx_create(&small, &a);
}

static int drop(void **state)
{
	(void)state;
	percpu_approx_destroy(a);
	return 0;
}

static bool is_open(void)
{
	return a->control->state % 4 == 0;
}

static void wait_open(int64_t n)
{
	const uint64_t deadline = test_now() + 20000000000;

	while (!is_open() && test_now() < deadline)
		percpu_approx_add(a, n);
	assert_true(is_open());
}

/* Return how often lanes were closed and opened; once is four changes of the state. */
static uint64_t cycles(void)
{
	return a->control->state / 4 / 4;
}

static void take_and_give_back(void)
{
	int64_t all = LIMIT - percpu_approx_fetch(a);

	assert_int_equal(percpu_approx_add_below(a, all, LIMIT), 0);
	assert_int_equal(percpu_approx_add_below(a, 1, LIMIT), -ERANGE);
	percpu_approx_add(a, -all);
}

/* Test that the lanes open again when the sum is away from the limit. */
static void lanes_open_again(void **state)
{
	(void)state;
	if (!percpu_pair_is_atomic())
		test_skip("lanes stay closed on this machine");
	assert_true(is_open());
	assert_int_equal(percpu_approx_add_below(a, LIMIT, LIMIT), 0);
	assert_int_equal(percpu_approx_add_below(a, 1, LIMIT), -ERANGE);
	assert_false(is_open());
	percpu_approx_add(a, -50000);
	wait_open(0);
	assert_int_equal(percpu_approx_fetch(a), 50000);
	assert_int_equal(percpu_approx_add_below(a, 50001, LIMIT), -ERANGE);
	assert_int_equal(percpu_approx_add_below(a, 50000, LIMIT), 0);
	/* Far above only an add of more than 0 opens them. This one does, if it comes late. */
	while (percpu_approx_add(a, 50000), is_open()) {
		percpu_approx_add(a, -50000);
		assert_int_equal(percpu_approx_add_below(a, 1, LIMIT), -ERANGE);
	}
	a->control->closed = 0;
	percpu_approx_add(a, 0);
	assert_false(is_open());
	wait_open(1);
	assert_int_equal(percpu_approx_add_below(a, 1, LIMIT), -ERANGE);
	assert_true(is_open());
	percpu_approx_zero(a);
	assert_int_equal(percpu_approx_add_below(a, 1, LIMIT), 0);
}

/* Test how often the lanes close if each add closes open lanes and opens closed ones. */
static void large_adds_seldom_close(void **state)
{
	const unsigned rounds = test_rounds(ROUNDS);
	const uint64_t begun = test_now(), before = cycles();

	(void)state;
	if (!percpu_pair_is_atomic())
		test_skip("lanes stay closed on this machine");
	for (unsigned i = 0; i < rounds; i++)
		take_and_give_back();
	assert_true(cycles() - before <= (test_now() - begun) / REST_NS + 1);
	assert_int_equal(percpu_approx_fetch(a), 0);
}

/* Test that lanes open, also if they were closed by a clock that is ahead of this one. */
static void open_in_the_end(void **state)
{
	const uint64_t moments[] = { 0, test_now() + 3600 * UINT64_C(1000000000), UINT64_MAX };

	(void)state;
	if (!percpu_pair_is_atomic())
		test_skip("lanes stay closed on this machine");
	for (unsigned i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
		for (unsigned n = 0; n < 1000 && is_open(); n++)
			take_and_give_back();
		assert_false(is_open());
		a->control->closed = moments[i];
		percpu_approx_add(a, 0);
		assert_true(is_open());
	}
	take_and_give_back();
	wait_open(0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lanes_open_again),
		TEST(large_adds_seldom_close),
		TEST(open_in_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
