/* SPDX-License-Identifier: MIT */
/*
 * test_delays.c - stress with slow sequences. Each update waits at a random step for a random time,
 * while timers fire and threads are moved. What would take days to happen by chance happens
 * thousands of times.
 */
#define _GNU_SOURCE
#include "inject.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/local.h>

#include "../support.h"

#define MAX_THREADS 16
#define DURATION UINT64_C(500000000)
#define ITEMS 24
#define SLOTS 8

static struct percpu_counter *counter;
static struct percpu_counter_array *array;
static struct percpu_local *sums, *items;

static bool stop;
static pid_t tids[MAX_THREADS];
static uint64_t updates, handled, wrong;
static uint32_t owners[ITEMS];

/* Choose where the next sequence waits, and how long. Mostly it is a short time; at times it is
 * so long that the thread's time slice may end. */
static void stretch(uint64_t *random)
{
	uint64_t r = test_random(random);

	inject_point.step = 1 + (int32_t)(r % INJECT_STEPS);
	inject_point.rounds = r % 1000 < 5 ? 20000 + (r >> 32) % 400000 : (r >> 32) % 400;
}

static void count(void)
{
	static const int64_t n[2] = { 1, 2 };

	percpu_counter_add(counter, 1);
	percpu_counter_array_add_n(array, 4, n, 2);
	percpu_counter_array_add(array, 6, 3);
}

/* Update in a handler. The update waits, too, but not long: it must be over when the next timer
 * fires. */
static void on_timer(int signo)
{
	(void)signo;
	inject_point.rounds %= 1024;
	count();
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

static void exchange(void)
{
	uint32_t *owner;
	void *item;

	if (percpu_local_pop(items, &item) != 0)
		return;
	owner = item;
	if (owner < owners || owner >= owners + ITEMS ||
	    __atomic_fetch_add(owner, 1, __ATOMIC_RELAXED) != 0)
		__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
	else
		__atomic_fetch_sub(owner, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; percpu_local_push(items, SLOTS, item) == -ENOSPC; i++) {
		test_pin(0, test_cpu(i % test_cpus()));
		sched_yield();
	}
}

static void update_stretched(unsigned i, void *arg)
{
	uint64_t random = 70 + i, mine = 0;
	struct test_timer timer;
	int64_t v;
	bool fires = test_timer_start(&timer, SIGUSR2, 700 + 31 * i);

	(void)arg;
	if (i % 4 == 3)
		test_unregister(percpu_seq_attach()); /* a thread without sequences */
	__atomic_store_n(&tids[i], (pid_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		stretch(&random);
		count();
		stretch(&random);
		if (percpu_local_add_return(sums, 1, &v) != 0)
			__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
		exchange();
		mine++;
	}
	if (fires)
		test_timer_stop(&timer);
	inject_point.step = 0;
	__atomic_fetch_add(&updates, mine, __ATOMIC_RELAXED);
}

/* Move the threads from outside. */
static void move_until(uint64_t end, unsigned threads)
{
	uint64_t random = 69;

	while (test_now() < end) {
		pid_t tid =
			__atomic_load_n(&tids[test_random(&random) % threads], __ATOMIC_RELAXED);

		if (tid)
			test_pin(tid, test_cpu((unsigned)test_random(&random) % test_cpus()));
		test_sleep_us(100);
	}
}

static void make(void)
{
	unsigned n = 0;

	assert_int_equal(percpu_counter_create(&counter), 0);
	assert_int_equal(percpu_counter_array_create(16, &array), 0);
	assert_int_equal(percpu_local_create(8, PERCPU_LOCAL_LOCK, &sums), 0);
	assert_int_equal(percpu_local_create(8 + 8 * SLOTS, PERCPU_LOCAL_LOCK, &items), 0);
	for (unsigned c = 0; c < test_cpus() && n < ITEMS; c++) {
		struct percpu_array *a = percpu_local_cell(items, test_cpu(c));

		while (n < ITEMS && a->count < SLOTS / 2)
			a->slot[a->count++] = &owners[n++];
	}
}

static unsigned count_items(void)
{
	struct percpu_array *a;
	unsigned n = 0;

	for (unsigned cpu = 0; (a = percpu_local_cell(items, cpu)) != NULL; cpu++)
		n += (unsigned)a->count;
	return n;
}

static void check_with(unsigned threads)
{
	struct test_team t;
	unsigned there;

	make();
	there = count_items();
	stop = false;
	updates = handled = wrong = 0;
	memset(tids, 0, sizeof(tids));
	test_team_start(&t, threads, update_stretched, NULL);
	move_until(test_now() + DURATION, threads);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	alarm(60);
	test_team_join(&t);
	alarm(0);
	assert_int_equal(wrong, 0);
	assert_int_equal(percpu_counter_fetch(counter), updates + handled);
	assert_int_equal(percpu_counter_array_fetch(array, 4), updates + handled);
	assert_int_equal(percpu_counter_array_fetch(array, 5), 2 * (updates + handled));
	assert_int_equal(percpu_counter_array_fetch(array, 6), 3 * (updates + handled));
	assert_int_equal(percpu_local_sum(sums), updates);
	assert_int_equal(count_items(), there);
	percpu_counter_destroy(counter);
	percpu_counter_array_destroy(array);
	percpu_local_destroy(sums);
	percpu_local_destroy(items);
}

static void exact_with_stretched_sequences(void **state)
{
	struct sigaction sa = { .sa_handler = on_timer, .sa_flags = SA_RESTART };

	(void)state;
	sigaction(SIGUSR2, &sa, NULL);
	for (unsigned threads = 1; threads <= MAX_THREADS; threads *= 2)
		check_with(threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_with_stretched_sequences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
