/* SPDX-License-Identifier: MIT */
/*
 * test_guard.c - the fence behind the guards of local.h.
 *
 * A fallback may work on the lane of a CPU that its thread has just left. A sequence may be in
 * progress there that looked at the guard before it was raised. Only the fence keeps that sequence
 * from storing what it has loaded. Here, a timer moves a thread without sequences at any
 * instruction of its fallbacks, and the sequences of all CPUs wait between their load and their
 * store.
 */
#define _GNU_SOURCE
#include "inject.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <percpu/local.h>

#include "../support.h"

#define DURATION UINT64_C(700000000)
#define ROUNDS 50

static struct percpu_local *local;
static bool stop;
static uint64_t done, failed;

static void on_timer(int signo)
{
	(void)signo;
	test_pin(0, test_cpu(sched_getcpu() == (int)test_cpu(0)));
}

static void add(uint64_t *ret_added)
{
	int64_t v;

	if (percpu_local_add_return(local, 1, &v) == 0)
		++*ret_added;
	else
		__atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
}

static void work(unsigned i, void *arg)
{
	uint64_t random = 90 + i, added = 0;
	struct test_timer timer;
	bool moved = i == 0 && test_unregister(percpu_seq_attach());

	(void)arg;
	if (moved)
		moved = test_timer_start(&timer, SIGUSR2, 43);
	else
		test_pin(0, test_cpu(i % 2));
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (!moved) {
			inject_point.step = INJECT_loaded;
			inject_point.rounds = test_random(&random) % 60000;
		}
		add(&added);
	}
	inject_point.step = 0;
	if (moved)
		test_timer_stop(&timer);
	__atomic_fetch_add(&done, added, __ATOMIC_RELAXED);
}

static void check(enum percpu_local_fallback fallback)
{
	struct test_team t;

	assert_int_equal(percpu_local_create(8, fallback, &local), 0);
	stop = false;
	done = failed = 0;
	test_team_start(&t, 3, work, NULL);
	test_sleep_us(DURATION / 1000);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	alarm(60);
	test_team_join(&t);
	alarm(0);
	assert_int_equal(failed, 0);
	assert_int_equal(percpu_local_sum(local), done);
	percpu_local_destroy(local);
}

static void fallbacks_on_a_cpu_just_left(void **state)
{
	struct sigaction sa = { .sa_handler = on_timer, .sa_flags = SA_RESTART };

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	sigaction(SIGUSR2, &sa, NULL);
	check(PERCPU_LOCAL_LOCK);
	check(PERCPU_LOCAL_REFS);
}

/* Two adds. One waits before its store. The other is by a thread without sequences that has just
 * been on that CPU: it raises the guard there, and runs elsewhere. */

static __thread bool just_left;
static uint64_t fallen_back;
int __real_sched_getcpu(void);
int __wrap_sched_getcpu(void);

int __wrap_sched_getcpu(void)
{
	return just_left ? (int)test_cpu(0) : __real_sched_getcpu();
}

static void add_once(void)
{
	add(&done);
}

static void add_after_leaving(unsigned i, void *arg)
{
	(void)i, (void)arg;
	test_unregister(percpu_seq_attach());
	just_left = true;
	add(&fallen_back);
}

static void fall_back(void)
{
	test_team_run(1, add_after_leaving, NULL);
}

static void fallbacks_within_an_add(void **state)
{
	const enum percpu_local_fallback ways[] = { PERCPU_LOCAL_LOCK, PERCPU_LOCAL_REFS };

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	for (unsigned way = 0; way < 2; way++) {
		assert_int_equal(percpu_local_create(8, ways[way], &local), 0);
		done = fallen_back = 0;
		for (unsigned i = 0; i < ROUNDS; i++)
			inject_overlap(add_once, INJECT_loaded, fall_back);
		assert_int_equal(done, ROUNDS);
		assert_int_equal(fallen_back, ROUNDS);
		assert_int_equal(percpu_local_sum(local), 2 * ROUNDS);
		percpu_local_destroy(local);
	}
}

/* The same with two takes from one queue. */

#define ITEMS 4

static uint64_t taken_sum;

static void take_once(void)
{
	uint64_t item;

	if (percpu_local_take(local, ITEMS - 1, &item) == 0)
		__atomic_fetch_add(&taken_sum, item, __ATOMIC_RELAXED);
}

static void take_after_leaving(unsigned i, void *arg)
{
	(void)i, (void)arg;
	test_unregister(percpu_seq_attach());
	just_left = true;
	take_once();
}

static void take_in_fallback(void)
{
	test_team_run(1, take_after_leaving, NULL);
}

static void fallbacks_within_a_take(void **state)
{
	const uint64_t items[ITEMS] = { 1, 10, 100, 1000 };

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	assert_int_equal(percpu_local_create(16 + 8 * ITEMS, PERCPU_LOCAL_LOCK, &local), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		taken_sum = 0;
		test_pin(0, test_cpu(0));
		assert_int_equal(percpu_local_copy(local, ITEMS - 1, items, ITEMS), 0);
		inject_overlap(take_once, INJECT_written, take_in_fallback);
		assert_int_equal(taken_sum, 11);
		inject_overlap(take_once, INJECT_loaded, take_in_fallback);
		assert_int_equal(taken_sum, 1111);
	}
	percpu_local_destroy(local);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fallbacks_within_an_add),
		cmocka_unit_test(fallbacks_within_a_take),
		cmocka_unit_test(fallbacks_on_a_cpu_just_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
