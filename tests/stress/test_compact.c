/* SPDX-License-Identifier: MIT */
/*
 * test_compact.c - compact counters in more threads than CPUs. The threads change CPUs, are
 * interrupted, and make checkpoints as fast as they can. Sets with shorter windows need more
 * checkpoints, and stay exact.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <percpu/compact.h>

#include "../support.h"

#define N 600 /* more than fetch_all() sums at a time */
#define THREADS 8
#define MAX_ROUNDS 200000

static struct percpu_compact *set;

static int create(void **state)
{
	(void)state;
	return percpu_compact_create(N, &set);
}

static int destroy(void **state)
{
	(void)state;
	percpu_compact_destroy(set);
	return 0;
}

static int64_t window(void)
{
	return 2 * (int64_t)set->half;
}

static uint64_t added[THREADS + 1]; /* by each thread, and last by all handlers */

static void add_in_handler(int signo)
{
	(void)signo;
	percpu_compact_add(set, 0, 3);
	__atomic_fetch_add(&added[THREADS], 3, __ATOMIC_RELAXED);
}

static void add_all_sorts(unsigned t, void *arg)
{
	unsigned rounds = test_rounds(MAX_ROUNDS);
	uint64_t random = t + 1;
	struct test_timer timer;
	int64_t n;

	(void)arg;
	test_timer_start(&timer, SIGUSR1, 50 + t);
	for (unsigned k = 0; k < rounds; k++) {
		if (k % 1024 == 0)
			test_pin(0, test_cpu((t + k / 1024) % test_cpus()));
		n = (int64_t)(test_random(&random) % (uint64_t)window()) >> t % 4 * 8;
		n = t % 2 || n % 3 ? n : -n;
		percpu_compact_add(set, 0, n);
		added[t] += (uint64_t)n;
	}
	test_timer_stop(&timer);
}

static void check_threads(void)
{
	struct sigaction sa = { .sa_handler = add_in_handler, .sa_flags = SA_RESTART }, old;
	uint64_t sum = 0;

	memset(added, 0, sizeof(added));
	percpu_compact_zero(set, 0);
	assert_int_equal(sigaction(SIGUSR1, &sa, &old), 0);
	alarm(50);
	test_team_run(THREADS, add_all_sorts, NULL);
	alarm(0);
	assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
	for (unsigned t = 0; t <= THREADS; t++)
		sum += added[t];
	assert_int_equal(percpu_compact_fetch(set, 0), sum);
}

static void threads_are_exact(void **state)
{
	(void)state;
	check_threads();
	set->half = 4096;
	check_threads();
	set->half = 16; /* a checkpoint for every few adds */
	check_threads();
}

/* Threads read and reset counters, while others make checkpoints as fast as they can. */

static bool stop;
static int wrong;

static void expect(bool ok)
{
	__atomic_fetch_add(&wrong, !ok, __ATOMIC_RELAXED);
}

static void grow(unsigned t, void *arg)
{
	unsigned rounds = test_rounds(MAX_ROUNDS) / 2;
	uint64_t *taken = arg;
	uint64_t seen = 0, v, all[N];

	for (unsigned k = 0; t < 4 && k < rounds; k++)
		percpu_compact_add(set, 0, window() - 1);
	if (t < 4)
		__atomic_fetch_add(&added[0], rounds * (uint64_t)(window() - 1), __ATOMIC_RELAXED);
	while (t >= 4 && !__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (taken) {
			v = percpu_compact_fetch_zero(set, 0);
			expect(v <= UINT64_C(1) << 60);
			__atomic_fetch_add(taken, v, __ATOMIC_RELAXED);
			continue;
		}
		v = percpu_compact_fetch(set, 0);
		expect(v >= seen);
		percpu_compact_fetch_all(set, all);
		expect(all[0] >= v);
		seen = all[0];
	}
	if (t < 4 && __atomic_add_fetch(&added[1], 1, __ATOMIC_RELAXED) == 4)
		__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
}

static void check_growth(uint64_t *taken)
{
	stop = false;
	wrong = 0;
	memset(added, 0, sizeof(added));
	percpu_compact_zero(set, 0);
	alarm(50);
	test_team_run(6, grow, taken);
	alarm(0);
	assert_int_equal(wrong, 0);
	assert_int_equal(percpu_compact_fetch(set, 0) + (taken ? *taken : 0), added[0]);
}

static void growing_counters_never_go_back(void **state)
{
	(void)state;
	check_growth(NULL);
	set->half = 2;
	check_growth(NULL);
}

/* A handler adds more during a read than 32 bits can tell. The handler leaves time for the read to
 * end: with many CPUs a read takes longer than the time between signals. */
static void add_much_in_handler(int signo)
{
	static uint64_t rest_until;
	uint64_t begin = test_now();

	(void)signo;
	if (begin < rest_until)
		return;
	for (uint64_t sum = 0; sum < UINT64_C(3) << 30; sum += (uint64_t)window() - 1)
		percpu_compact_add(set, 0, window() - 1);
	rest_until = 2 * test_now() - begin;
}

static void interrupted_reads_are_exact(void **state)
{
	struct sigaction sa = { .sa_handler = add_much_in_handler }, old;
	uint64_t seen = 0, v, all[N], until = test_now() + UINT64_C(1000000000);
	struct test_timer timer;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &sa, &old), 0);
	test_timer_start(&timer, SIGUSR1, 50);
	for (wrong = 0; !wrong && test_now() < until;) {
		for (int k = 0; k < 100; k++) {
			v = percpu_compact_fetch(set, 0);
			expect(v >= seen && v - seen <= UINT64_C(1) << 60);
			seen = v;
		}
		percpu_compact_fetch_all(set, all);
		expect(all[0] >= seen && all[0] - seen <= UINT64_C(1) << 60);
		seen = all[0];
	}
	test_timer_stop(&timer);
	assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
	assert_int_equal(wrong, 0);
	assert_true(seen > 0 && seen % (uint64_t)(window() - 1) == 0);
}

static void resets_among_adds_lose_nothing(void **state)
{
	uint64_t taken[2] = { 0 };

	(void)state;
	check_growth(&taken[0]);
	set->half = 2;
	check_growth(&taken[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(threads_are_exact, create, destroy),
		cmocka_unit_test_setup_teardown(growing_counters_never_go_back, create, destroy),
		cmocka_unit_test_setup_teardown(interrupted_reads_are_exact, create, destroy),
		cmocka_unit_test_setup_teardown(resets_among_adds_lose_nothing, create, destroy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
