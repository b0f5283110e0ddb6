/* SPDX-License-Identifier: MIT */
/*
 * test_owned_own.c - test that a process reads its own value of an owned gauge, and never that of
 * another owner of its slot: by each rule, by handles that have not updated the gauge, with atomic
 * pairs and without them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"

#include "owners/owners.h"
#include "../owners.h"

#define ROOT 3
#define RESUME PERCPU_OWNERS_RESUME

static struct percpu_owned_gauge *gauge;
static struct percpu_owned_fgauge *fgauge;
static unsigned ways_pretended = ~0U;

unsigned __real_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void)
{
	return __real_percpu_pair_ways() & ways_pretended;
}

static void make_both(enum percpu_owned_rule rule)
{
	percpu_owned_gauge_destroy(gauge);
	percpu_owned_fgauge_destroy(fgauge);
	gauge = NULL;
	fgauge = NULL;
	test_child_require(percpu_owned_gauge_create_in(owners, rule, &gauge) == 0, "a gauge");
	test_child_require(percpu_owned_fgauge_create_in(owners, rule, &fgauge) == 0, "a gauge");
}

static int begin_own(void **state)
{
	return begin_owners(state) || percpu_owned_gauge_open(owners, ROOT, 0, &gauge) ||
	       percpu_owned_fgauge_open(owners, ROOT + 1, 0, &fgauge);
}

static int end_own(void **state)
{
	percpu_owned_gauge_destroy(gauge);
	percpu_owned_fgauge_destroy(fgauge);
	gauge = NULL;
	fgauge = NULL;
	return end_owners(state);
}

/* Return whether this process has that value in both gauges. */
static bool has_own(int64_t value)
{
	int64_t v = value + 1;
	double x = (double)value + 1;

	return percpu_owned_gauge_own(gauge, &v) == 0 && v == value &&
	       percpu_owned_fgauge_own(fgauge, &x) == 0 && x == (double)value;
}

/* Return whether it has none, and a result stays. */
static bool has_none(void)
{
	int64_t v = 7;
	double x = 7;

	return percpu_owned_gauge_own(gauge, &v) == -ENODATA && v == 7 &&
	       percpu_owned_fgauge_own(fgauge, &x) == -ENODATA && x == 7;
}

static void set_both(int64_t v)
{
	test_child_require(percpu_owned_gauge_set(gauge, v) == 0, "set");
	test_child_require(percpu_owned_fgauge_set(fgauge, (double)v) == 0, "set");
}

static int set_and_end(void *arg)
{
	test_child_require(has_none(), "none"); /* of the parent's value it has nothing */
	set_both((int64_t)(intptr_t)arg);
	test_child_require(has_own((int64_t)(intptr_t)arg), "its own");
	return 0;
}

static int set_and_stay(void *arg)
{
	(void)set_and_end(arg);
	return stay();
}

static void each_rule_has_an_own_value(void **state)
{
	pid_t pid;

	(void)state;
	for (unsigned rule = 0; rule <= PERCPU_OWNED_RECENT; rule++) {
		make_both((enum percpu_owned_rule)rule);
		assert_true(has_none());
		test_in_child(set_and_end, (void *)(intptr_t)-100);
		assert_int_equal(percpu_owners_join(owners), 0);
		assert_true(has_none()); /* it has the slot of the child */
		set_both(-3);
		assert_true(has_own(-3));
		pid = start(set_and_stay, (uintptr_t)100);
		assert_true(has_own(-3));
		stop(pid);
		set_both(1);
		assert_true(has_own(1));
		percpu_owners_leave(owners);
		assert_true(has_none());
	}
}

static void adds_are_in_the_own_value(void **state)
{
	(void)state;
	make_both(PERCPU_OWNED_MAX);
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	assert_int_equal(percpu_owned_fgauge_add(fgauge, 5), 0);
	assert_true(has_own(5));
	assert_int_equal(percpu_owned_gauge_add(gauge, -7), 0);
	assert_int_equal(percpu_owned_fgauge_add(fgauge, -7), 0);
	assert_true(has_own(-2));
}

/* A second handle of the process has not updated the gauge. */
static void all_handles_read_the_own_value(void **state)
{
	struct percpu_owned_gauge *second;
	int64_t v = 0;

	(void)state;
	for (unsigned rule = 0; rule <= PERCPU_OWNED_RECENT; rule++) {
		make_both((enum percpu_owned_rule)rule);
		set_both(41);
		assert_int_equal(
			percpu_owned_gauge_attach(owners, percpu_owned_gauge_key(gauge), &second),
			0);
		assert_int_equal(percpu_owned_gauge_own(second, &v), 0);
		assert_int_equal(v, 41);
		percpu_owned_gauge_detach(second);
		percpu_owners_leave(owners);
	}
}

static int set_by_name(void *arg)
{
	test_child_require(percpu_owners_join_as(owners, "a", 0) == 0, "a name");
	set_both((int64_t)(intptr_t)arg);
	return 0;
}

static void resumed_values_are_its_own(void **state)
{
	(void)state;
	for (unsigned rule = 0; rule <= PERCPU_OWNED_RECENT; rule++) {
		make_both((enum percpu_owned_rule)rule);
		test_in_child(set_by_name, (void *)(intptr_t)6);
		assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
		assert_true(has_own(6));
		percpu_owners_leave(owners);
		assert_int_equal(percpu_owners_join_as(owners, "a", 0), 0);
		assert_true(has_none());
		percpu_owners_leave(owners);
	}
}

/* Value and time change under the lock of the journal. */
static int use_the_journal(void *arg)
{
	(void)arg;
	ways_pretended = 0;
	test_child_require(!percpu_pair_is_atomic(), "no pairs");
	make_both(PERCPU_OWNED_RECENT);
	test_child_require(has_none(), "none");
	set_both(8);
	test_child_require(has_own(8), "its own");
	set_both(9);
	test_child_require(has_own(9), "its own");
	return 0;
}

static void values_without_pairs_are_read(void **state)
{
	(void)state;
	test_in_child(use_the_journal, NULL);
}

static void bad_calls_have_no_own_value(void **state)
{
	int64_t v = 7;
	double x = 7;

	(void)state;
	set_both(1);
	assert_int_equal(percpu_owned_gauge_own(NULL, &v), -EINVAL);
	assert_int_equal(percpu_owned_fgauge_own(NULL, &x), -EINVAL);
	assert_int_equal(percpu_owned_gauge_own(gauge, NULL), -EINVAL);
	assert_int_equal(percpu_owned_fgauge_own(fgauge, NULL), -EINVAL);
	assert_true(v == 7 && x == 7);
}

#define OWN_TEST(f) cmocka_unit_test_setup_teardown(f, begin_own, end_own)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OWN_TEST(values_without_pairs_are_read), /* first: ways are asked for once */
		OWN_TEST(each_rule_has_an_own_value),	  OWN_TEST(adds_are_in_the_own_value),
		OWN_TEST(all_handles_read_the_own_value), OWN_TEST(resumed_values_are_its_own),
		OWN_TEST(bad_calls_have_no_own_value),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
