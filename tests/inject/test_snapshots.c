/* SPDX-License-Identifier: MIT */
/*
 * test_snapshots.c - a snapshot while an update waits inside its sequence on another CPU, after it
 * has loaded the bank in use. After the snapshot nothing may change in the bank that it has read,
 * and the update counts once.
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

#define ROUNDS 40 /* a neighbor may abort the update, and so spoil some rounds */
#define FIELDS 2

static struct percpu_stats *stats;

/* Update. The library's own sequences do not wait, so this file has copies of its own. */
static void update(void)
{
	const uint64_t ones[FIELDS] = { 1, 1 };

	if (stats->head == 0)
		(void)percpu_stats_update(stats, 0, 0, ones, FIELDS);
	else if (percpu_seq_bank_update(stats->block.base, stats->block.stride, stats->bank,
					stats->banks, ones, FIELDS) != 0)
		(void)percpu_stats_update(stats, 0, 0, ones, FIELDS);
}

static int step_before_commit(void)
{
	return stats->head != 0 ? INJECT_written : INJECT_loaded;
}

/* Return the sum of all cells of the bank that is not in use. */
static uint64_t sum_resting(void)
{
	const char *bank = stats->block.base + (*stats->bank != 0 ? 0 : stats->banks);
	uint64_t sum = 0;

	for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++)
		for (size_t i = 0; i < stats->record / 8; i++)
			sum += ((const volatile uint64_t *)(bank + cpu * stats->block.stride))[i];
	return sum;
}

static int snapshot(uint64_t *out)
{
	int e = -ETIMEDOUT;

	for (int i = 0; i < 20 && e == -ETIMEDOUT; i++) /* a busy machine */
		e = percpu_stats_snapshot(stats, 0, 1, out);
	return e;
}

static uint64_t resting; /* their sum, after a snapshot during the update */

static void take_snapshot(void)
{
	uint64_t out[FIELDS];

	assert_int_equal(snapshot(out), 0);
	assert_int_equal(out[0], out[1]);
	resting = sum_resting();
}

static void check_after(unsigned updates)
{
	uint64_t out[FIELDS];

	assert_int_equal(sum_resting(), resting);
	assert_int_equal(snapshot(out), 0);
	assert_int_equal(out[0], updates);
	assert_int_equal(out[1], updates);
}

/* Take a snapshot while a thread updates, in private memory. */
static void snapshot_of_a_thread(unsigned updates)
{
	inject_overlap(update, step_before_commit(), take_snapshot);
	check_after(updates);
}

/* Take a snapshot while a process updates, in a shared region. */

static int wait_in_process(void *arg)
{
	(void)arg;
	percpu_seq_attach();
	inject_point = (struct inject_point){ .step = step_before_commit(), .rounds = INJECT_LONG };
	update();
	return 0;
}

static void snapshot_of_a_process(unsigned updates)
{
	struct inject_point seen;
	pid_t pid;

	test_pin(0, test_cpu(0)); /* inherited: the child never moves */
	pid = test_fork(wait_in_process, NULL);
	test_pin(0, test_cpu(1));
	while (inject_read(pid, &seen) && !seen.arrived)
		sched_yield();
	take_snapshot();
	(void)inject_go(pid);
	assert_int_equal(test_wait(pid, 60), 0);
	test_unpin(0);
	check_after(updates);
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
	assert_int_equal(test_region_new_fd(fd, NULL, &r), 0);
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
