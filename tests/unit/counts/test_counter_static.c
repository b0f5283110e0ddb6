/* SPDX-License-Identifier: MIT */
/*
 * test_counter_static.c - static counters: adds from before the first constructor until after
 * main, and in units compiled with and without sequences.
 */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <percpu/counter.h>

#include "support.h"
#include "static_generic.h"

#define EARLY 1000
#define THREADS 8
#define ADDS 50000

static PERCPU_COUNTER_DEFINE(defined);
static struct percpu_static_counter plain = PERCPU_STATIC_COUNTER_INIT;

static void count_early(void)
{
	for (int i = 0; i < EARLY; i++)
		percpu_static_counter_add(&defined, 1);
	generic_static_add(&defined, EARLY);
	percpu_static_counter_add(&plain, 3);
}

/* Count in .preinit_array, which the loader runs before the constructors of any library. */
static void count_in_preinit(int argc, char **argv, char **envp)
{
	(void)argc, (void)argv, (void)envp;
	count_early();
}

__attribute__((section(".preinit_array"),
	       used)) static void (*const preinit)(int, char **, char **) = count_in_preinit;

__attribute__((constructor(101))) static void count_in_first_constructor(void)
{
	count_early();
}

__attribute__((constructor)) static void count_in_last_constructor(void)
{
	count_early();
}

/* The count in the last destructor. The parent checks it, because cmocka has ended by then. */
static uint64_t *seen_at_exit;

__attribute__((destructor(101))) static void count_in_last_destructor(void)
{
	percpu_static_counter_add(&defined, 1);
	if (seen_at_exit)
		*seen_at_exit = percpu_static_counter_fetch(&defined);
}

static void early_adds_are_all_there(void **state)
{
	(void)state;
	assert_int_equal(percpu_static_counter_fetch(&defined), 3 * 2 * EARLY);
	assert_int_equal(percpu_static_counter_fetch_zero(&defined), 3 * 2 * EARLY);
	assert_int_equal(percpu_static_counter_fetch(&defined), 0);
}

static void set_up_when_convenient(void **state)
{
	(void)state;
	assert_int_equal(percpu_static_counter_fetch(&plain), 9);
	percpu_static_counter_add(&plain, 1);
	assert_int_equal(percpu_static_counter_setup(&plain), 0);
	assert_non_null(plain.counter);
	percpu_static_counter_add(&plain, 1);
	assert_int_equal(percpu_static_counter_setup(&plain), 0);
	assert_int_equal(percpu_static_counter_fetch(&plain), 11);
	percpu_static_counter_zero(&plain);
	assert_int_equal(percpu_static_counter_fetch(&plain), 0);
	percpu_static_counter_add(&plain, 5);
	percpu_static_counter_teardown(&plain);
	assert_null(plain.counter);
	assert_int_equal(percpu_static_counter_fetch(&plain), 5);
	percpu_static_counter_add(&plain, 5);
	assert_int_equal(percpu_static_counter_fetch_zero(&plain), 10);
	assert_int_equal(percpu_static_counter_fetch(&plain), 0);
	percpu_static_counter_teardown(&plain);
	assert_int_equal(percpu_static_counter_fetch(&plain), 0);
}

static void add_static(unsigned i, void *arg)
{
	struct percpu_static_counter *s = arg;

	for (int k = 0; k < ADDS; k++) {
		if (i == 0 && k == ADDS / 2)
			percpu_static_counter_setup(s);
		if (i % 2)
			percpu_static_counter_add(s, 1);
		else
			generic_static_add(s, 1);
	}
}

/* Test that no add is lost while another thread sets the counter up. */
static void setup_loses_nothing(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		struct percpu_static_counter s = PERCPU_STATIC_COUNTER_INIT;

		test_team_run(THREADS, add_static, &s);
		assert_non_null(s.counter);
		assert_int_equal(percpu_static_counter_fetch(&s), THREADS * ADDS);
		percpu_static_counter_teardown(&s);
		assert_int_equal(percpu_static_counter_fetch(&s), THREADS * ADDS);
	}
}

static void set_up(unsigned i, void *arg)
{
	(void)i;
	percpu_static_counter_setup(arg);
	percpu_static_counter_add(arg, 1);
}

static void concurrent_setups_make_one_counter(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		struct percpu_static_counter s = PERCPU_STATIC_COUNTER_INIT;

		test_team_run(THREADS, set_up, &s);
		assert_int_equal(percpu_static_counter_fetch(&s), THREADS);
		percpu_static_counter_teardown(&s);
	}
}

static void add_mixed(unsigned i, void *arg)
{
	static const int64_t ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	struct percpu_counter_array *a = arg;

	for (int k = 0; k < ADDS; k++)
		if (i % 2)
			percpu_counter_array_add_n(a, 8, ones, 8);
		else
			generic_array_add8(a, 8, ones);
}

static void objects_with_and_without_sequences_mix(void **state)
{
	struct percpu_counter_array *a;
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_counter_create(&c), 0);
	generic_counter_add(c, 4);
	percpu_counter_add(c, 5);
	assert_int_equal(percpu_counter_fetch(c), 9);
	percpu_counter_destroy(c);
	assert_int_equal(percpu_counter_array_create(16, &a), 0);
	test_team_run(THREADS, add_mixed, a);
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(percpu_counter_array_fetch(a, i), i < 8 ? 0 : THREADS * ADDS);
	percpu_counter_array_destroy(a);
}

/* Test a child that counts in main, exits by exit(3), and counts again in the last destructor. */
static void destructors_still_count(void **state)
{
	uint64_t *seen = test_share(sizeof(*seen));
	pid_t pid;

	(void)state;
	percpu_static_counter_zero(&defined);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		seen_at_exit = seen;
		percpu_static_counter_add(&defined, 41);
		exit(0);
	}
	assert_int_equal(test_wait(pid, 60), 0);
	assert_int_equal(*seen, 42);
	assert_int_equal(percpu_static_counter_fetch(&defined), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(early_adds_are_all_there),
		cmocka_unit_test(set_up_when_convenient),
		cmocka_unit_test(setup_loses_nothing),
		cmocka_unit_test(concurrent_setups_make_one_counter),
		cmocka_unit_test(objects_with_and_without_sequences_mix),
		cmocka_unit_test(destructors_still_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
