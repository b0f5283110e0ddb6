/* SPDX-License-Identifier: MIT */
/*
 * test_counter.c - single counters in one process: values, resets, bad input,
 * and exactness with any threads and schedules.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>

#include <percpu/counter.h>
#include <percpu/status.h>

#include "support.h"

#define THREADS 16
#define ADDS 100000

static struct percpu_counter *counter;

static int create(void **state)
{
	(void)state;
	return percpu_counter_create(&counter);
}

static int destroy(void **state)
{
	(void)state;
	percpu_counter_destroy(counter);
	counter = NULL;
	return 0;
}

static void starts_at_zero(void **state)
{
	(void)state;
	assert_int_equal(percpu_counter_fetch(counter), 0);
}

static void adds_and_wraps(void **state)
{
	(void)state;
	percpu_counter_inc(counter);
	percpu_counter_add(counter, 41);
	assert_int_equal(percpu_counter_fetch(counter), 42);
	percpu_counter_dec(counter);
	percpu_counter_add(counter, -42);
	assert_int_equal(percpu_counter_fetch(counter), UINT64_MAX);
	percpu_counter_add(counter, INT64_MIN);
	percpu_counter_add(counter, INT64_MIN);
	percpu_counter_add(counter, 1);
	assert_int_equal(percpu_counter_fetch(counter), 0);
	percpu_counter_add(counter, INT64_MAX);
	assert_int_equal(percpu_counter_fetch(counter), INT64_MAX);
}

static void slow_and_fast_path_add_up(void **state)
{
	(void)state;
	percpu_counter_add(counter, 5);
	percpu_counter_add_slow(counter, 6);
	percpu_counter_add_slow(counter, -1);
	assert_int_equal(percpu_counter_fetch(counter), 10);
}

static void zero_forgets_and_fetch_zero_returns(void **state)
{
	(void)state;
	percpu_counter_add(counter, 7);
	percpu_counter_zero(counter);
	assert_int_equal(percpu_counter_fetch(counter), 0);
	percpu_counter_add(counter, 9);
	assert_int_equal(percpu_counter_fetch_zero(counter), 9);
	assert_int_equal(percpu_counter_fetch_zero(counter), 0);
	percpu_counter_add(counter, -3);
	assert_int_equal(percpu_counter_fetch(counter), (uint64_t)-3);
}

/* Test that a new counter starts at 0 in a cell in which a freed counter has counted. */
static void reused_counters_start_at_zero(void **state)
{
	struct percpu_counter *c, *many[64];

	(void)state;
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 64; i++) {
			assert_int_equal(percpu_counter_create(&many[i]), 0);
			assert_int_equal(percpu_counter_fetch(many[i]), 0);
			percpu_counter_add(many[i], round * 1000 + i + 1);
			percpu_counter_add_slow(many[i], 1);
		}
		for (int i = 0; i < 64; i++) {
			assert_int_equal(percpu_counter_fetch(many[i]), round * 1000 + i + 2);
			percpu_counter_destroy(many[i]);
		}
	}
	assert_int_equal(percpu_counter_create(&c), 0);
	assert_int_equal(percpu_counter_fetch(c), 0);
	percpu_counter_destroy(c);
}

/* Test more counters than fit into a chunk: no two share a cell, and none moves. */
static void many_counters_are_distinct(void **state)
{
	enum { N = 3 * PERCPU_LANE_SIZE / 8 };
	static struct percpu_counter *many[N];

	(void)state;
	for (int i = 0; i < N; i++) {
		assert_int_equal(percpu_counter_create(&many[i]), 0);
		percpu_counter_add(many[i], i);
	}
	for (int i = 0; i < N; i++) {
		assert_int_equal(percpu_counter_fetch(many[i]), i);
		percpu_counter_destroy(many[i]);
	}
}

static void bad_pointers_do_nothing(void **state)
{
	struct percpu_counter *c = (struct percpu_counter *)(uintptr_t)0x1000;
	char local[64];

	(void)state;
	assert_int_equal(percpu_counter_create(NULL), -EINVAL);
	percpu_counter_destroy(NULL);
	percpu_counter_destroy(c);
	percpu_counter_destroy((struct percpu_counter *)(void *)local);
	percpu_counter_destroy((struct percpu_counter *)((char *)counter + 1));
	percpu_counter_destroy((struct percpu_counter *)((char *)counter + PERCPU_STRIDE));
	percpu_counter_add(counter, 3);
	assert_int_equal(percpu_counter_fetch(counter), 3);
}

static void double_destroy_does_nothing(void **state)
{
	struct percpu_counter *c, *d, *e;

	(void)state;
	assert_int_equal(percpu_counter_create(&c), 0);
	percpu_counter_destroy(c);
	percpu_counter_destroy(c);
	assert_int_equal(percpu_counter_create(&d), 0);
	assert_int_equal(percpu_counter_create(&e), 0);
	assert_ptr_not_equal(d, e);
	percpu_counter_destroy(d);
	percpu_counter_destroy(e);
}

static void add_many(unsigned i, void *arg)
{
	(void)i, (void)arg;
	for (int k = 0; k < ADDS; k++)
		percpu_counter_add(counter, 1);
}

static void exact_with_more_threads_than_cpus(void **state)
{
	(void)state;
	test_team_run(THREADS, add_many, NULL);
	assert_int_equal(percpu_counter_fetch(counter), (uint64_t)THREADS * ADDS);
}

static void add_and_hop(unsigned i, void *arg)
{
	(void)arg;
	for (unsigned k = 0; k < ADDS / 10; k++) {
		if (k % 16 == 0)
			test_pin(0, test_cpu((i + k / 16) % test_cpus()));
		percpu_counter_add(counter, 1);
	}
}

static void exact_while_threads_hop(void **state)
{
	(void)state;
	test_team_run(THREADS, add_and_hop, NULL);
	assert_int_equal(percpu_counter_fetch(counter), (uint64_t)THREADS * ADDS / 10);
}

/* Add on the fast path in some threads, and on the slow path in others. */
static void add_mixed(unsigned i, void *arg)
{
	(void)arg;
	for (int k = 0; k < ADDS; k++)
		i % 2 ? percpu_counter_add_slow(counter, 3) : percpu_counter_add(counter, -1);
}

static void exact_with_both_paths(void **state)
{
	(void)state;
	test_team_run(THREADS, add_mixed, NULL);
	assert_int_equal(percpu_counter_fetch(counter), (uint64_t)THREADS / 2 * ADDS * 2);
}

static void last_add(void *p)
{
	percpu_counter_add(p, 1);
}

static pthread_key_t key;

/* Add in a destructor of a thread-specific key, and set the key again, so that the destructor runs
 * in every pass. */
static void last_adds(void *p)
{
	percpu_counter_add(p, 1);
	pthread_setspecific(key, p);
}

static void leave(unsigned i, void *arg)
{
	(void)i;
	pthread_cleanup_push(last_add, counter);
	pthread_setspecific(key, arg);
	pthread_cleanup_pop(1);
}

static void exact_in_destructors_of_threads(void **state)
{
	uint64_t passes;

	(void)state;
	assert_int_equal(pthread_key_create(&key, last_adds), 0);
	test_team_run(1, leave, counter);
	passes = percpu_counter_fetch_zero(counter);
	assert_in_range(passes, 2, 64);
	for (int i = 0; i < 50; i++)
		test_team_run(8, leave, counter);
	assert_int_equal(percpu_counter_fetch(counter), 400 * passes);
	pthread_key_delete(key);
}

static bool stop;

static void add_until_stopped(unsigned i, void *arg)
{
	uint64_t *added = arg, n = 0;

	for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++)
		percpu_counter_add(counter, 1);
	added[i] = n;
}

static void reads_never_go_back(void **state)
{
	uint64_t added[4], last = 0, end = test_now() + 300000000;
	struct test_team t;

	(void)state;
	stop = false;
	test_team_start(&t, 4, add_until_stopped, added);
	while (test_now() < end) {
		uint64_t v = percpu_counter_fetch(counter);

		if (v < last)
			break;
		last = v;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	test_team_join(&t);
	assert_true(test_now() >= end);
	assert_int_equal(percpu_counter_fetch(counter), added[0] + added[1] + added[2] + added[3]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(starts_at_zero, create, destroy),
		cmocka_unit_test_setup_teardown(adds_and_wraps, create, destroy),
		cmocka_unit_test_setup_teardown(slow_and_fast_path_add_up, create, destroy),
		cmocka_unit_test_setup_teardown(zero_forgets_and_fetch_zero_returns, create,
						destroy),
		cmocka_unit_test(reused_counters_start_at_zero),
		cmocka_unit_test(many_counters_are_distinct),
		cmocka_unit_test_setup_teardown(bad_pointers_do_nothing, create, destroy),
		cmocka_unit_test(double_destroy_does_nothing),
		cmocka_unit_test_setup_teardown(exact_with_more_threads_than_cpus, create, destroy),
		cmocka_unit_test_setup_teardown(exact_while_threads_hop, create, destroy),
		cmocka_unit_test_setup_teardown(exact_with_both_paths, create, destroy),
		cmocka_unit_test_setup_teardown(exact_in_destructors_of_threads, create, destroy),
		cmocka_unit_test_setup_teardown(reads_never_go_back, create, destroy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
