/* SPDX-License-Identifier: MIT */
/*
 * test_stats.c - snapshots under load: more threads or processes than CPUs add the same number to
 * all fields of an object with one commit. Every snapshot must find the fields equal, and no add
 * may be lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/stats.h>
#include <percpu/status.h>

#include "../support.h"

#define PROCESSES 6
#define FIELDS 32

static unsigned flips = 30000, shared_flips = 150;

/* A shared snapshot waits for its turn on each CPU. On a busy machine a round ends after this time,
 * with fewer snapshots. */
#define NS_PER_ROUND UINT64_C(10000000000)

struct work {
	struct percpu_stats *stats;
	size_t fields;
	uint64_t *done; /* updates of each thread or process */
	uint32_t stop;
};

/* Add n to all fields. Return false if the lock was not free in time, as on a busy machine. */
static bool add_once(const struct work *w, uint64_t n)
{
	uint64_t delta[FIELDS];

	for (size_t i = 0; i < FIELDS; i++)
		delta[i] = n;
	/* The sequences are inlined if the number of fields is constant. */
	if (w->fields == 2)
		return percpu_stats_update(w->stats, 0, 0, delta, 2) == 0;
	if (w->fields == 4)
		return percpu_stats_update(w->stats, 0, 0, delta, 4) == 0;
	if (w->fields == 8)
		return percpu_stats_update(w->stats, 0, 0, delta, 8) == 0;
	return percpu_stats_update(w->stats, 0, 0, delta, w->fields) == 0;
}

static void add_until_stopped(unsigned i, void *arg)
{
	struct work *w = arg;
	uint64_t done = 0;

	if (i == 1)
		(void)test_unregister(percpu_seq_attach()); /* so this thread takes the lock */

	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED))
		done += add_once(w, 1);
	w->done[i] = done;
}

/* Take snapshots, every third one with a reset. Return how many were inconsistent. Add the results
 * of the resets to *ret_taken. */
static unsigned flip(const struct work *w, unsigned count, uint64_t *ret_taken, int *ret_error)
{
	uint64_t out[FIELDS], last = 0, begin = test_now();
	unsigned torn = 0;

	for (unsigned n = 0; n < count && (n < 5 || test_now() - begin < NS_PER_ROUND); n++) {
		bool reset = n % 3 == 2;
		int e = reset ? percpu_stats_fetch_zero(w->stats, 0, 1, out) :
				percpu_stats_snapshot(w->stats, 0, 1, out);

		if (e == -ETIMEDOUT) /* a busy machine: the object was not reset */
			continue;
		if (e != 0) {
			*ret_error = e;
			return torn;
		}
		for (size_t i = 1; i < w->fields; i++)
			if (out[i] != out[0]) {
				torn++;
				break;
			}
		torn += out[0] < last;
		last = reset ? 0 : out[0];
		*ret_taken += reset ? out[0] : 0;
	}
	return torn;
}

/* Take snapshots while threads update. Threads with sequences commit by a vector or by a copy, the
 * others under the lock. */
static void snapshots_of_threads(size_t fields, unsigned flags, unsigned count)
{
	unsigned threads = test_cpus() + 2, torn;
	uint64_t done[64] = { 0 }, total = 0, taken = 0, rest[FIELDS];
	struct work w = { .fields = fields, .done = done };
	struct test_team t;
	int error = 0;

	if (threads > 64)
		threads = 64;
	assert_int_equal(percpu_stats_create(8 * fields, 1, flags, &w.stats), 0);
	test_team_start(&t, threads, add_until_stopped, &w);
	torn = flip(&w, count, &taken, &error);
	__atomic_store_n(&w.stop, 1, __ATOMIC_RELAXED);
	test_team_join(&t);
	for (unsigned i = 0; i < threads; i++)
		total += done[i];
	assert_int_equal(error, 0);
	assert_int_equal(torn, 0);
	assert_int_equal(percpu_stats_fetch(w.stats, 0, 1, rest), 0);
	for (size_t i = 0; i < fields; i++)
		assert_int_equal(taken + rest[i], total);
	percpu_stats_destroy(w.stats);
}

static void vectors_are_whole(void **state)
{
	(void)state;
	snapshots_of_threads(4, 0, flips / 5 * 4);
	snapshots_of_threads(2, 0, flips / 20);
	snapshots_of_threads(8, 0, flips / 20);
}

static void copies_are_whole(void **state)
{
	(void)state;
	snapshots_of_threads(FIELDS, PERCPU_STATS_WHOLE, flips / 10);
}

/* Fetches while another CPU copies updates. Each fetched field has a committed value. */

static void add_on_second_cpu(unsigned i, void *arg)
{
	test_pin(0, test_cpu(1));
	add_until_stopped(i, arg);
}

static void fetches_of_copies(size_t fields)
{
	uint64_t done = 0, out[FIELDS], last[FIELDS] = { 0 };
	struct work w = { .fields = fields, .done = &done };
	unsigned back = 0, error = 0, met = 0;
	struct test_team t;

	assert_int_equal(percpu_stats_create(8 * fields, 1, PERCPU_STATS_WHOLE, &w.stats), 0);
	test_team_start(&t, 1, add_on_second_cpu, &w);
	test_pin(0, test_cpu(0));
	/* Fetch until enough fetches saw a new value: on a busy machine few do. */
	for (unsigned n = 0; n < 25 * flips && met < flips / 4; n++) {
		int e = percpu_stats_fetch(w.stats, 0, 1, out);

		met += e == 0 && out[0] != last[0];
		error += e != 0 && e != -EAGAIN;
		for (size_t i = 0; i < fields && e == 0; i++) {
			back += out[i] < last[i];
			last[i] = out[i];
		}
	}
	test_unpin(0);
	__atomic_store_n(&w.stop, 1, __ATOMIC_RELAXED);
	test_team_join(&t);
	assert_int_equal(error, 0);
	assert_int_equal(back, 0);
	assert_int_equal(percpu_stats_fetch(w.stats, 0, 1, out), 0);
	for (size_t i = 0; i < fields; i++) {
		assert_int_equal(out[i], done);
		assert_true(last[i] <= done);
	}
	percpu_stats_destroy(w.stats);
}

static void fetches_do_not_go_back(void **state)
{
	(void)state;
	fetches_of_copies(2);
	fetches_of_copies(FIELDS);
}

/* Several processes, some of which are killed at any instruction. */

struct shared {
	struct work work;
	uint64_t updates[PROCESSES]; /* a killed process may have made one more */
};

struct member {
	struct shared *shared;
	unsigned i;
};

static int count_in_process(void *arg)
{
	const struct member *m = arg;
	struct work *w = &m->shared->work;

	if (m->i % 3 == 0)
		(void)test_unregister(percpu_seq_attach()); /* so this process takes the lock */
	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED))
		if (add_once(w, 1))
			__atomic_store_n(&m->shared->updates[m->i], m->shared->updates[m->i] + 1,
					 __ATOMIC_RELAXED);
	return 0;
}

static void snapshots_of_processes(size_t fields, unsigned flags)
{
	struct shared *shared = test_share(sizeof(*shared));
	struct percpu_region *r;
	struct member m[PROCESSES];
	uint64_t taken = 0, total = 0, rest[FIELDS];
	pid_t pid[PROCESSES];
	unsigned torn;
	int error = 0;

	unlink(test_path("stats"));
	assert_int_equal(test_region_new(test_path("stats"), NULL, &r), 0);
	assert_int_equal(percpu_stats_create_in(r, 8 * fields, 1, flags, &shared->work.stats), 0);
	shared->work.fields = fields;
	shared->work.stop = 0;
	memset(shared->updates, 0, sizeof(shared->updates));
	for (unsigned i = 0; i < PROCESSES; i++) {
		m[i] = (struct member){ shared, i };
		pid[i] = test_fork(count_in_process, &m[i]);
	}
	torn = flip(&shared->work, shared_flips, &taken, &error);
	for (unsigned i = 0; i < PROCESSES / 2; i++)
		kill(pid[i], SIGKILL);
	torn += flip(&shared->work, shared_flips / 5, &taken, &error);
	__atomic_store_n(&shared->work.stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < PROCESSES; i++) {
		test_wait(pid[i], 60);
		total += shared->updates[i];
	}
	assert_int_equal(torn, 0);
	assert_true(error == 0 || error == -EPERM);
	assert_int_equal(percpu_stats_fetch(shared->work.stats, 0, 1, rest), 0);
	/* A killed process may have made one update that it did not count. */
	for (size_t i = 0; i < fields; i++) {
		assert_int_equal(rest[i], rest[0]);
		assert_in_range(taken + rest[i], total, total + PROCESSES / 2);
	}
	percpu_stats_destroy(shared->work.stats);
	percpu_region_close(r);
	if (error == -EPERM)
		test_skip("a cpuset keeps this process from some CPUs");
}

static void processes_are_whole(void **state)
{
	(void)state;
	snapshots_of_processes(4, 0);
	snapshots_of_processes(FIELDS, PERCPU_STATS_WHOLE);
}

/* Update under the lock, as threads without sequences do. */
static void update_locked(struct percpu_stats *s, unsigned times)
{
	const uint64_t delta[2] = { 1, 1 };

	(void)test_unregister(percpu_seq_attach());
	while (times-- > 0)
		percpu_stats_update(s, 0, 0, delta, 2);
}

static void update_for_ever(unsigned i, void *arg)
{
	(void)i;
	update_locked(arg, UINT32_MAX);
}

#define CHILDREN 4

struct family {
	struct percpu_stats *stats;
	pid_t child[CHILDREN];
};

static int wait_long(void *arg)
{
	(void)arg;
	while (pause() != 0)
		;
	return 0;
}

/* Fork children while a thread is often in the lock, and be killed. */
static int fork_and_be_killed(void *arg)
{
	struct family *f = arg;
	struct test_team t;

	test_team_start(&t, 1, update_for_ever, f->stats);
	for (int i = 0; i < CHILDREN; i++) {
		test_sleep_us(300);
		f->child[i] = test_fork(wait_long, NULL);
	}
	kill(getpid(), SIGKILL);
	return 1;
}

static int update_once(void *arg)
{
	update_locked(arg, 1);
	return 0;
}

static void children_keep_no_lock(void **state)
{
	struct family *f = test_share(sizeof(*f));
	struct percpu_region *r;
	int status;

	(void)state;
	if (test_thread_sanitizer())
		test_skip("the thread sanitizer allows no threads in a child that forks");
	unlink(test_path("stats"));
	assert_int_equal(test_region_new(test_path("stats"), NULL, &r), 0);
	assert_int_equal(percpu_stats_create_in(r, 16, 1, 0, &f->stats), 0);
	for (int round = 0; round < 10; round++) {
		assert_int_equal(test_wait(test_fork(fork_and_be_killed, f), 30), SIGKILL);
		status = test_wait(test_fork(update_once, f->stats), 10);
		for (int i = 0; i < CHILDREN; i++)
			kill(f->child[i], SIGKILL); /* init reaps them */
		assert_int_equal(status, 0);
	}
	percpu_stats_destroy(f->stats);
	percpu_region_close(r);
}

/* The argument is the number of snapshots. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_are_whole),	  cmocka_unit_test(copies_are_whole),
		cmocka_unit_test(fetches_do_not_go_back), cmocka_unit_test(processes_are_whole),
		cmocka_unit_test(children_keep_no_lock),
	};

	if (argc > 1)
		flips = (unsigned)atoi(argv[1]);
	if (test_rounds(flips) != flips) { /* a slow machine: the reader waits long for its turn */
		flips = test_cpus() <= 16 ? 5000 : 300;
		shared_flips = test_cpus() <= 16 ? 50 : 5;
	}
	return cmocka_run_group_tests_name("stats", tests, NULL, test_remove_paths);
}
