/* SPDX-License-Identifier: MIT */
/*
 * test_wbuf.c - write buffers in threads that move between CPUs and are interrupted, some of them
 * without sequences, while other threads flush, read, stop and fork.
 *
 * Every transaction adds k to one cell of a pair and 2k to the other, so under the lock the second
 * is twice the first.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <percpu/status.h>
#include <percpu/wbuf.h>

#include "../support.h"

#define PAIRS 4
#define ENTRIES 64
#define ADDS 60000

static struct percpu_wbuf *w;
static uint64_t cell[2 * PAIRS];
static uint64_t total[PAIRS]; /* what the threads added to the first cell of each pair */
static unsigned failed, done;
static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

static void lock_own(void *arg)
{
	pthread_mutex_lock(arg);
}

static int trylock_own(void *arg)
{
	return pthread_mutex_trylock(arg);
}

static void unlock_own(void *arg)
{
	pthread_mutex_unlock(arg);
}

static int create_with(bool own_lock, size_t limit)
{
	struct percpu_wbuf_options o = { .size = sizeof(o),
					 .entries = ENTRIES,
					 .flush_limit = limit };

	if (own_lock) {
		o.lock = lock_own;
		o.trylock = trylock_own;
		o.unlock = unlock_own;
		o.arg = &own;
	}
	memset(cell, 0, sizeof(cell));
	memset(total, 0, sizeof(total));
	failed = done = 0;
	return percpu_wbuf_create(&o, &w);
}

static int create(void **state)
{
	(void)state;
	return create_with(false, 0);
}

static int create_own(void **state)
{
	(void)state;
	return create_with(true, 0);
}

/* A limit that is no multiple of the lengths of transactions. */
static int create_limited(void **state)
{
	(void)state;
	return create_with(false, 5);
}

static int create_own_limited(void **state)
{
	(void)state;
	return create_with(true, 5);
}

static int destroy(void **state)
{
	(void)state;
	percpu_wbuf_destroy(w);
	return 0;
}

static void check(void)
{
	uint64_t value[2 * PAIRS], *cells[2 * PAIRS];
	struct percpu_wbuf_stats s;

	for (int i = 0; i < 2 * PAIRS; i++)
		cells[i] = &cell[i];
	percpu_wbuf_read(w, cells, (size_t)2 * PAIRS, value);
	assert_int_equal(failed, 0);
	for (int i = 0; i < PAIRS; i++) {
		assert_int_equal(value[2 * i], total[i]);
		assert_int_equal(value[2 * i + 1], 2 * total[i]);
	}
	percpu_wbuf_stats(w, &s);
	assert_int_equal(s.pending, 0);
}

static void went_wrong(void)
{
	__atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
}

/* Add to 1 to PAIRS pairs in one transaction. */
static void add_pairs(uint64_t *random, uint64_t sum[PAIRS])
{
	struct percpu_wbuf_entry adds[2 * PAIRS];
	unsigned pairs = 1 + test_random(random) % PAIRS;

	for (unsigned i = 0; i < pairs; i++) {
		uint64_t k = test_random(random) % 1000;

		adds[2 * i] = percpu_wbuf_entry_u64(&cell[2 * i], k);
		adds[2 * i + 1] = percpu_wbuf_entry_u64(&cell[2 * i + 1], 2 * k);
		sum[i] += k;
	}
	if (percpu_wbuf_add_n(w, adds, (size_t)2 * pairs) != 0)
		went_wrong();
}

static void count(unsigned seed, unsigned rounds)
{
	uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1, sum[PAIRS] = { 0 };

	for (unsigned i = 0; i < rounds; i++) {
		add_pairs(&random, sum);
		if (i % 64 == 0)
			percpu_wbuf_hint_flush(w);
		if (i % 512 == 0)
			test_pin(0, test_cpu(test_random(&random) % test_cpus()));
	}
	for (int i = 0; i < PAIRS; i++)
		__atomic_fetch_add(&total[i], sum[i], __ATOMIC_RELAXED);
	test_unpin(0);
	__atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
}

static void on_signal(int signo)
{
	(void)signo;
}

/* Count in a thread that is interrupted all the time. One thread in four is not registered. */
static void count_in_thread(unsigned i, void *arg)
{
	struct test_timer timer;

	(void)arg;
	if (i % 4 == 3)
		test_unregister(percpu_seq_attach());
	if (!test_timer_start(&timer, SIGUSR1, 50 + 13 * i))
		went_wrong();
	count(i, test_rounds(ADDS));
	test_timer_stop(&timer);
}

static void nothing_is_lost(void **state)
{
	static const unsigned threads[] = { 1, 2, 4, 16 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		test_team_run(threads[i], count_in_thread, NULL);
		check();
	}
}

/* Read and flush while n other threads count. */
static void read_in_thread(unsigned n)
{
	uint64_t value[2 * PAIRS], last[2 * PAIRS] = { 0 }, *cells[2 * PAIRS];

	for (int i = 0; i < 2 * PAIRS; i++)
		cells[i] = &cell[i];
	while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) < n) {
		percpu_wbuf_read(w, cells, (size_t)2 * PAIRS, value);
		for (int i = 0; i < 2 * PAIRS; i++)
			if (value[i] < last[i] || (i % 2 && value[i] != 2 * value[i - 1]))
				went_wrong();
		memcpy(last, value, sizeof(last));
		if (percpu_wbuf_try_flush(w) == -EBUSY)
			sched_yield();
	}
}

static void read_or_count(unsigned i, void *arg)
{
	const unsigned *threads = arg;

	if (i < 2)
		read_in_thread(*threads - 2);
	else
		count(i, test_rounds(ADDS));
}

static void readers_see_whole_transactions(void **state)
{
	unsigned threads = 8;

	(void)state;
	test_team_run(threads, read_or_count, &threads);
	check();
}

/* Read the cells by plain loads under the caller's own lock. */
static void look_under_own_lock(unsigned i, void *arg)
{
	(void)arg;
	if (i != 0) {
		count(i, test_rounds(ADDS));
		return;
	}
	while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) < 4) {
		percpu_wbuf_flush(w);
		pthread_mutex_lock(&own);
		for (int k = 0; k < PAIRS; k++)
			if (cell[2 * k + 1] != 2 * cell[2 * k])
				went_wrong();
		pthread_mutex_unlock(&own);
	}
}

static void own_locks_cover_the_cells(void **state)
{
	(void)state;
	test_team_run(5, look_under_own_lock, NULL);
	check();
}

/* Count few times: an add that finds no room yields, and on a busy machine waits for its turn. */
static void count_a_little(unsigned i, void *arg)
{
	(void)arg;
	count(i, test_rounds(ADDS) / 20);
}

/* Take the lock, and keep it until a byte comes through the pipe. */
static void *stop_with_the_lock(void *arg)
{
	const int *pipes = arg;
	char c = 0;

	pthread_mutex_lock(&own);
	if (write(pipes[3], &c, 1) != 1 || read(pipes[0], &c, 1) != 1)
		went_wrong();
	pthread_mutex_unlock(&own);
	return NULL;
}

static void stopped_readers_stop_nobody(void **state)
{
	struct percpu_wbuf_stats s;
	int pipes[4]; /* the first pair: go on; the second pair: stopped */
	pthread_t reader;
	char c = 0;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(pipe(pipes + 2), 0);
	assert_int_equal(pthread_create(&reader, NULL, stop_with_the_lock, pipes), 0);
	assert_int_equal(read(pipes[2], &c, 1), 1);
	alarm(60);
	test_team_run(4, count_a_little, NULL);
	alarm(0);
	for (int i = 0; i < 2 * PAIRS; i++)
		assert_int_equal(cell[i], 0);
	percpu_wbuf_stats(w, &s);
	assert_true(s.overflows > 0);
	assert_int_equal(s.flushes, 0);
	assert_int_equal(write(pipes[1], &c, 1), 1);
	assert_int_equal(pthread_join(reader, NULL), 0);
	check();
	for (int i = 0; i < 4; i++)
		close(pipes[i]);
}

/* The child's copy of the cells has whole transactions, and the child adds to them. */
static int go_on_in_child(void *arg)
{
	uint64_t before = cell[0];

	(void)arg;
	for (int i = 0; i < PAIRS; i++)
		test_child_require(cell[2 * i + 1] == 2 * cell[2 * i], "whole transactions");
	percpu_wbuf_flush(w);
	test_child_require(cell[0] == before, "nothing of the parent's");
	for (int i = 0; i < 1000; i++)
		test_child_require(percpu_wbuf_add(w, &cell[0], 1) == 0, "add");
	percpu_wbuf_destroy(w);
	test_child_require(cell[0] == before + 1000, "the child's own");
	return 0;
}

static void children_leave_when_others_count(void **state)
{
	struct test_team team;

	(void)state;
	if (test_thread_sanitizer())
		test_skip("the thread sanitizer takes the other threads for leaks of the child");
	test_team_start(&team, 4, count_in_thread, NULL);
	for (int i = 0; i < 20; i++)
		test_in_child(go_on_in_child, NULL);
	test_team_join(&team);
	check();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_lost, create, destroy),
		cmocka_unit_test_setup_teardown(readers_see_whole_transactions, create, destroy),
		cmocka_unit_test_setup_teardown(readers_see_whole_transactions, create_own,
						destroy),
		cmocka_unit_test_setup_teardown(own_locks_cover_the_cells, create_own, destroy),
		cmocka_unit_test_setup_teardown(nothing_is_lost, create_limited, destroy),
		cmocka_unit_test_setup_teardown(readers_see_whole_transactions, create_limited,
						destroy),
		cmocka_unit_test_setup_teardown(own_locks_cover_the_cells, create_own_limited,
						destroy),
		cmocka_unit_test_setup_teardown(stopped_readers_stop_nobody, create_own, destroy),
		cmocka_unit_test_setup_teardown(children_leave_when_others_count, create, destroy),
	};
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigaction(SIGUSR1, &sa, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
