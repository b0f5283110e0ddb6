/* SPDX-License-Identifier: MIT */
/*
 * test_signals.c - handlers count in threads that count, and in threads that lose their
 * registration meanwhile.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/local.h>
#include <percpu/status.h>

#include "../support.h"

#define THREADS 4
#define ADDS 300000

static struct percpu_counter *counter;
static struct percpu_counter_array *array;
static struct percpu_local *refs;
static uint64_t handled; /* how often handlers ran */

static const int64_t two[2] = { 1, 1 };

static void update(void)
{
	percpu_counter_add(counter, 1);
	percpu_counter_array_add_n(array, 2, two, 2);
}

static void on_signal(int signo)
{
	(void)signo;
	update();
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

static void update_under_timer(unsigned i, void *arg)
{
	struct test_timer timer;
	int *started = arg;

	if (!test_timer_start(&timer, SIGUSR1, 50 + 13 * i))
		return;
	__atomic_fetch_add(started, 1, __ATOMIC_RELAXED);
	for (int k = 0; k < ADDS; k++)
		update();
	test_timer_stop(&timer);
}

static int create(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	(void)state;
	handled = 0;
	sigaction(SIGUSR1, &sa, NULL);
	return percpu_counter_create(&counter) || percpu_counter_array_create(16, &array) ||
	       percpu_local_create(8, PERCPU_LOCAL_REFS, &refs);
}

static int destroy(void **state)
{
	(void)state;
	percpu_counter_destroy(counter);
	percpu_counter_array_destroy(array);
	percpu_local_destroy(refs);
	return 0;
}

static void check(uint64_t updates)
{
	assert_int_equal(percpu_counter_fetch(counter), updates);
	assert_int_equal(percpu_counter_array_fetch(array, 2), updates);
	assert_int_equal(percpu_counter_array_fetch(array, 3), updates);
}

static void handlers_count_too(void **state)
{
	int started = 0;

	(void)state;
	test_team_run(THREADS, update_under_timer, &started);
	assert_int_equal(started, THREADS);
	assert_true(handled > 0);
	check((uint64_t)THREADS * ADDS + handled);
}

static uint64_t taken; /* by all resets */

/* Add and reset in a handler that interrupts adds and resets. */
static void on_signal_reset(int signo)
{
	(void)signo;
	percpu_counter_add(counter, 1);
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&taken, percpu_counter_fetch_zero(counter), __ATOMIC_RELAXED);
	if (percpu_counter_fetch(counter) >> 40)
		abort(); /* a negative value */
}

static void reset_under_timer(unsigned i, void *arg)
{
	struct test_timer timer;
	int *started = arg;

	if (!test_timer_start(&timer, SIGUSR2, 60 + 13 * i))
		return;
	__atomic_fetch_add(started, 1, __ATOMIC_RELAXED);
	for (int k = 0; k < ADDS; k++) {
		percpu_counter_add(counter, 1);
		if (k % 8 == 0)
			__atomic_fetch_add(&taken, percpu_counter_fetch_zero(counter),
					   __ATOMIC_RELAXED);
	}
	test_timer_stop(&timer);
}

static void handlers_may_reset(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal_reset, .sa_flags = SA_RESTART };
	int started = 0;

	(void)state;
	taken = 0;
	sigaction(SIGUSR2, &sa, NULL);
	test_alarm(60);
	test_team_run(THREADS, reset_under_timer, &started);
	alarm(0);
	assert_int_equal(started, THREADS);
	assert_int_equal(taken + percpu_counter_fetch(counter), THREADS * ADDS + handled);
}

/* Handlers may use the result of an add with the fallback REFS. */
static void on_signal_refs(int signo)
{
	int64_t v;

	(void)signo;
	if (percpu_local_add_return(refs, 1, &v) == 0)
		__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

static void refs_under_timer(unsigned i, void *arg)
{
	struct test_timer timer;
	int *failed = arg;
	int64_t v;

	if (i % 2)
		test_unregister(percpu_seq_attach()); /* uses fallbacks only */
	if (!test_timer_start(&timer, SIGUSR2, 70 + 13 * i))
		__atomic_fetch_add(failed, 1, __ATOMIC_RELAXED);
	for (int k = 0; k < ADDS / 2; k++)
		if (percpu_local_add_return(refs, 1, &v) != 0)
			__atomic_fetch_add(failed, 1, __ATOMIC_RELAXED);
	test_timer_stop(&timer);
}

static void handlers_use_references(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal_refs, .sa_flags = SA_RESTART };
	int failed = 0;

	(void)state;
	sigaction(SIGUSR2, &sa, NULL);
	test_alarm(60);
	test_team_run(THREADS, refs_under_timer, &failed);
	alarm(0);
	assert_int_equal(failed, 0);
	assert_int_equal(percpu_local_sum(refs), THREADS * (ADDS / 2) + handled);
}

/* Unregister the thread half-way; its adds then take another path. */
static void unregister_half_way(unsigned i, void *arg)
{
	struct percpu_rseq *rs = percpu_seq_attach();
	int *unregistered = arg;

	for (int k = 0; k < ADDS; k++) {
		update();
		if (k != ADDS / 2 || i % 2 || rs->cpu_id < 0)
			continue;
		if (test_unregister(rs))
			__atomic_fetch_add(unregistered, 1, __ATOMIC_RELAXED);
	}
}

static void unregistered_threads_count_on(void **state)
{
	int unregistered = 0;

	(void)state;
	test_team_run(2 * THREADS, unregister_half_way, &unregistered);
	check((uint64_t)2 * THREADS * ADDS);
	if (percpu_status()->tier == PERCPU_TIER_RSEQ)
		assert_int_equal(unregistered, THREADS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(handlers_count_too, create, destroy),
		cmocka_unit_test_setup_teardown(handlers_may_reset, create, destroy),
		cmocka_unit_test_setup_teardown(handlers_use_references, create, destroy),
		cmocka_unit_test_setup_teardown(unregistered_threads_count_on, create, destroy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
