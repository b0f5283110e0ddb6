/* SPDX-License-Identifier: MIT */
/*
 * test_snapshots.c - a snapshot while an update waits inside its sequence, on
 * another CPU, having seen which bank counts. After the snapshot nothing may
 * change in the bank that it has read, and the update is there once.
 */
#define _GNU_SOURCE
#include "inject.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/stats.h>
#include <percpu/status.h>

#include "../support.h"

#define ROUNDS 40 /* a neighbor may abort the update, and so spoil a few */
#define LONG_WAIT (UINT64_C(1) << 33)
#define STEP_BEFORE_COMMIT 6
#define STEP_BEFORE_COMMIT_OF_COPY 8
#define FIELDS 2

static struct percpu_stats *stats;

/* The library's own sequences do not wait, so copies are made here. */
static void update(void)
{
	const uint64_t ones[FIELDS] = { 1, 1 };

	if (stats->head == 0)
		(void)percpu_stats_update(stats, 0, 0, ones, FIELDS);
	else if (percpu_seq_bank_update(percpu_self, stats->base, stats->stride, stats->bank,
					stats->banks, ones, FIELDS) != 0)
		(void)percpu_stats_update(stats, 0, 0, ones, FIELDS);
}

static void update_waiting(void)
{
	percpu_seq_attach();
	inject_point =
		(struct inject_point){ .step = stats->head != 0 ? STEP_BEFORE_COMMIT_OF_COPY :
								  STEP_BEFORE_COMMIT,
				       .rounds = LONG_WAIT };
	update();
	inject_point.step = 0;
}

/* All cells of the bank that does not count. */
static uint64_t sum_resting(void)
{
	const char *bank = stats->base + (*stats->bank != 0 ? 0 : stats->banks);
	uint64_t sum = 0;

	for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++)
		for (size_t i = 0; i < stats->record / 8; i++)
			sum += ((const volatile uint64_t *)(bank + cpu * stats->stride))[i];
	return sum;
}

struct snapshot {
	uint64_t out[FIELDS];
	uint64_t resting;
};

static int snapshot(uint64_t *out)
{
	int e = -ETIMEDOUT;

	for (int i = 0; i < 20 && e == -ETIMEDOUT; i++) /* a busy machine */
		e = percpu_stats_snapshot(stats, 0, 1, out);
	return e;
}

static void take_snapshot(struct snapshot *s)
{
	assert_int_equal(snapshot(s->out), 0);
	s->resting = sum_resting();
	assert_int_equal(s->out[0], s->out[1]);
}

static void check_after(const struct snapshot *s, unsigned updates)
{
	uint64_t out[FIELDS];

	assert_int_equal(sum_resting(), s->resting);
	assert_int_equal(snapshot(out), 0);
	assert_int_equal(out[0], updates);
	assert_int_equal(out[1], updates);
}

/* A thread, in private memory. */

struct waiter {
	struct inject_point *point;
	bool ready, returned, leave;
};

static void *wait_in_update(void *p)
{
	struct waiter *w = p;

	test_pin(0, test_cpu(0));
	w->point = &inject_point;
	__atomic_store_n(&w->ready, true, __ATOMIC_RELEASE);
	update_waiting();
	__atomic_store_n(&w->returned, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&w->leave, __ATOMIC_ACQUIRE))
		sched_yield();
	return NULL;
}

static void snapshot_of_a_thread(unsigned updates)
{
	struct waiter w = { 0 };
	struct snapshot s;
	pthread_t thread;

	test_pin(0, test_cpu(1));
	assert_int_equal(pthread_create(&thread, NULL, wait_in_update, &w), 0);
	while (!__atomic_load_n(&w.ready, __ATOMIC_ACQUIRE))
		sched_yield();
	while (!__atomic_load_n(&w.point->arrived, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&w.returned, __ATOMIC_ACQUIRE))
		sched_yield();
	take_snapshot(&s);
	__atomic_store_n(&w.point->go, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&w.leave, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	test_unpin(0);
	check_after(&s, updates);
}

/* A process, in a shared region. */

static int wait_in_process(void *arg)
{
	(void)arg;
	update_waiting();
	return 0;
}

static void snapshot_of_a_process(unsigned updates)
{
	struct inject_point seen;
	struct snapshot s;
	pid_t pid;

	test_pin(0, test_cpu(0)); /* inherited: the process never moves */
	pid = test_fork(wait_in_process, NULL);
	test_pin(0, test_cpu(1));
	while (inject_read(pid, &seen) && !seen.arrived)
		sched_yield();
	take_snapshot(&s);
	(void)inject_go(pid);
	assert_int_equal(test_wait(pid, 60), 0);
	test_unpin(0);
	check_after(&s, updates);
}

static void run(unsigned flags, struct percpu_region *r, void (*round)(unsigned updates))
{
	if (r != NULL)
		assert_int_equal(percpu_stats_create_in(r, FIELDS * 8, 1, flags, &stats), 0);
	else
		assert_int_equal(percpu_stats_create(FIELDS * 8, 1, flags, &stats), 0);
	for (unsigned i = 0; i < ROUNDS; i++)
		round(i + 1);
	percpu_stats_destroy(stats);
}

static void updates_of_threads_are_excluded(void **state)
{
	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	run(0, NULL, snapshot_of_a_thread);
	run(PERCPU_STATS_WHOLE, NULL, snapshot_of_a_thread);
}

static void updates_of_processes_are_excluded(void **state)
{
	struct percpu_region *r;
	struct inject_point seen;
	int fd = memfd_create("snapshots", MFD_CLOEXEC);

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	if (!inject_read(getpid(), &seen))
		test_skip("no process_vm_readv() here");
	assert_int_equal(percpu_region_create_fd(fd, NULL, &r), 0);
	close(fd);
	run(0, r, snapshot_of_a_process);
	run(PERCPU_STATS_WHOLE, r, snapshot_of_a_process);
	percpu_region_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(updates_of_threads_are_excluded),
		cmocka_unit_test(updates_of_processes_are_excluded),
	};

	return cmocka_run_group_tests_name("snapshots", tests, NULL, NULL);
}
