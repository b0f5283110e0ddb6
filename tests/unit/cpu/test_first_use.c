/* SPDX-License-Identifier: MIT */
/*
 * test_first_use.c - no call waits for the self-test: before its verdict the process counts on
 * tier cpu, and after it its threads rise. Children: test_first_use_fork.c.
 *
 * By the linker, this program replaces the start of the library's threads and their short naps:
 * it can hold threads back, and refuse them. Each test has a process of its own, which has not
 * used the library before.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <percpu/local.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>

#include "cpu/cpu.h"
#include "first_use.h"
#include "hold.h"
#include "../spinner.h"

#define ADDS 2000
#define THREADS 4

bool test_of_first_use = true;

/* The first call does not wait, and a status that was returned before does not change. */

/* Return what sequences have added to the array's second counter. */
static uint64_t in_cpu_lanes(const struct percpu_counter_array *a)
{
	uint64_t sum = 0;

	for (uint32_t cpu = 0; cpu < percpu_status()->possible_cpus; cpu++)
		sum += *(const uint64_t *)(a->block.base + 8 + cpu * a->block.stride);
	return sum;
}

static int first_use_while_held(void *arg)
{
	static const int64_t ones[2] = { 1, 1 };
	const struct percpu_status *before;
	struct percpu_counter_array *a;
	struct percpu_status copy;
	struct percpu_counter *c;

	(void)arg;
	hold_threads(true);
	test_child_require(percpu_counter_create(&c) == 0, "a counter");
	test_child_require(is_pending(), "tier cpu, the self-test is pending");
	test_child_require(percpu_counter_array_create(2, &a) == 0, "an array");
	percpu_counter_array_add_n_slow(a, 0, ones, 2);
	test_child_require(in_cpu_lanes(a) == 0, "no vector commits");
	test_child_require(percpu_status()->commit_words == 1, "and it says so");
	before = percpu_status();
	copy = *before;
	for (int i = 0; i < ADDS; i++)
		percpu_counter_inc(c);
	test_child_require(percpu_fence() == 0, "nothing to fence");
	test_child_require(percpu_counter_fetch(c) == ADDS, "exact");
	hold_threads(false);
	test_child_require(test_tier() == PERCPU_TIER_RSEQ, "tier rseq in the end");
	test_child_require(percpu_status()->selftest == PERCPU_SELFTEST_PASSED, "it says why");
	percpu_counter_inc(c);
	test_child_require(percpu_seq_cpu() >= 0, "this thread has risen by an add");
	test_child_require(has_risen(), "and says so");
	test_child_require(percpu_status()->commit_words == percpu_vector_words(),
			   "vector commits from now on");
	for (int i = 0; i < ADDS; i++)
		percpu_counter_array_add_n_slow(a, 0, ones, 2);
	test_child_require(in_cpu_lanes(a) > 0, "and adds make them");
	test_child_require(percpu_counter_array_fetch(a, 1) == ADDS + 1, "exact");
	test_child_require(memcmp(&copy, before, sizeof(copy)) == 0, "the old status stays");
	test_child_require(percpu_counter_fetch(c) == ADDS + 1, "still exact");
	return 0;
}

/* Any preemption proves a sequence: here this thread preempts it, on the one CPU that all have. */
static int prove_without_intruder(void *arg)
{
	uint64_t end = test_now() + 15 * SECOND;

	(void)arg;
	let_nobody_intrude();
	test_child_require(test_pin(0, test_cpu(0)), "one CPU");
	while (percpu_status()->selftest == PERCPU_SELFTEST_PENDING && test_now() < end)
		test_sleep_us(100);
	test_child_require(percpu_status()->selftest == PERCPU_SELFTEST_PASSED, "passed");
	return 0;
}

/* On a busy machine, the self-test is tried less and less often. */
static int rest_longer_and_longer(void *arg)
{
	const uint64_t *rests;
	struct percpu_counter *c;

	(void)arg;
	hold_threads(true);
	test_child_require(percpu_counter_create(&c) == 0, "a counter");
	rests = rests_of_the_intruder();
	for (unsigned i = 1; i < RESTS; i++)
		test_child_require(rests[i] == 2 * rests[i - 1], "twice the last");
	test_child_require(test_tier() == PERCPU_TIER_RSEQ, "tier rseq in the end");
	return 0;
}

/* The self-test does not take over a program's real-time priority, which would keep other
 * threads from the CPU. */
static int prove_for_real_time(void *arg)
{
	const struct sched_param p = { .sched_priority = 1 };
	struct percpu_counter *c;
	struct dirent *entry;
	unsigned others = 0;
	DIR *tasks;

	(void)arg;
	if (sched_setscheduler(0, SCHED_FIFO, &p) != 0)
		return 0; /* not permitted to this user */
	hold_threads(true);
	test_child_require(percpu_counter_create(&c) == 0, "a counter");
	wait_until_held(2);
	tasks = opendir("/proc/self/task");
	if (tasks == NULL)
		return 1;
	while ((entry = readdir(tasks)) != NULL)
		others += sched_getscheduler(atoi(entry->d_name)) == SCHED_OTHER &&
			  isdigit(entry->d_name[0]);
	closedir(tasks);
	test_child_require(others == 2, "the self-test's threads are like any other");
	hold_threads(false);
	test_child_require(test_tier() == PERCPU_TIER_RSEQ, "tier rseq");
	test_child_require(sched_getscheduler(0) == SCHED_FIFO, "the caller stays as it was");
	return 0;
}

/* Fences that had nothing to fence fence from the verdict on. */

static int fence_before_and_after(void *arg)
{
	(void)arg;
	hold_threads(true);
	test_child_require(is_pending() && percpu_fence() == 0, "nothing to fence");
	hold_threads(false);
	test_child_require(test_tier() == PERCPU_TIER_RSEQ, "tier rseq");
	test_child_require(spinner_aborted_by(percpu_fence, 20) == 20,
			   "each fence has aborted what was in a sequence");
	return 0;
}

/* Objects of each kind are used while their threads rise. */

struct all {
	struct percpu_counter *counter;
	struct percpu_counter_array *array;
	struct percpu_stats *stats;
	struct percpu_local *local[3];
	struct percpu_zone *zone;
	struct percpu_wbuf *wbuf;
	uint64_t cell;
	uint64_t rounds;  /* atomic; of all threads */
	uint32_t risen;	  /* atomic; how many threads have risen */
	uint32_t failed;  /* atomic */
	uint32_t verdict; /* atomic; whether there is a verdict */
};

static bool use_all(struct all *a)
{
	static const int64_t four[4] = { 1, 1, 1, 1 };
	static const uint64_t two[2] = { 1, 1 };
	void *item[3];
	int64_t sum;
	bool ok = true;

	percpu_counter_inc(a->counter);
	percpu_counter_array_add_n(a->array, 0, four, 4);
	ok = percpu_stats_update(a->stats, 0, 0, two, 2) == 0 && ok;
	ok = percpu_local_add(a->local[0], 1) == 0 && ok;
	ok = percpu_local_add_return(a->local[1], 1, &sum) == 0 && ok;
	ok = percpu_local_add_return(a->local[2], 1, &sum) == 0 && ok;
	for (int i = 0; i < 3; i++)
		ok = percpu_zone_alloc(a->zone, 0, &item[i]) == 0 && ok;
	for (int i = 0; i < 3; i++)
		ok = percpu_zone_free(a->zone, item[i]) == 0 && ok;
	ok = percpu_wbuf_add(a->wbuf, &a->cell, 1) == 0 && ok;
	__atomic_fetch_add(&a->rounds, 1, __ATOMIC_RELAXED);
	return ok;
}

static void use_until_risen(unsigned i, void *arg)
{
	struct all *a = arg;
	bool ok = true;

	(void)i;
	while (ok && !__atomic_load_n(&a->verdict, __ATOMIC_ACQUIRE))
		ok = use_all(a);
	for (int k = 0; ok && k < ADDS / 10; k++)
		ok = use_all(a);
	__atomic_fetch_add(&a->risen, percpu_seq_cpu() >= 0, __ATOMIC_RELAXED);
	if (!ok)
		__atomic_fetch_add(&a->failed, 1, __ATOMIC_RELAXED);
}

static bool make_all(struct all *a)
{
	bool ok = percpu_counter_create(&a->counter) == 0 &&
		  percpu_counter_array_create(4, &a->array) == 0 &&
		  percpu_stats_create(16, 1, 0, &a->stats) == 0 &&
		  percpu_zone_create("first", 8, NULL, &a->zone) == 0 &&
		  percpu_wbuf_create(NULL, &a->wbuf) == 0;

	for (int i = 0; i < 3; i++)
		ok = ok && percpu_local_create(8, (enum percpu_local_fallback)i, &a->local[i]) == 0;
	return ok;
}

static int everything_while_held(void *arg)
{
	struct all a = { 0 };
	struct test_team team;
	struct percpu_zone_stats z;
	uint64_t pair[2], start;

	(void)arg;
	hold_threads(true);
	test_child_require(make_all(&a), "objects");
	test_team_start(&team, THREADS, use_until_risen, &a);
	while (__atomic_load_n(&a.rounds, __ATOMIC_RELAXED) < ADDS / 10)
		test_sleep_us(100);
	test_child_require(is_pending(), "all of this on tier cpu");
	for (int i = 0; i < 100; i++) {
		if (i == 50)
			hold_threads(false);
		test_child_require(percpu_stats_snapshot(a.stats, 0, 1, pair) == 0, "a snapshot");
		test_child_require(pair[0] == pair[1], "a consistent one");
	}
	test_child_require(test_tier() == PERCPU_TIER_RSEQ, "tier rseq");
	__atomic_store_n(&a.verdict, 1, __ATOMIC_RELEASE);
	test_team_join(&team);
	test_child_require(a.failed == 0, "no operation fails");
	test_child_require(a.risen == THREADS, "every thread has risen");
	start = a.rounds;
	test_child_require(percpu_counter_fetch(a.counter) == start, "the counter is exact");
	for (size_t i = 0; i < 4; i++)
		test_child_require(percpu_counter_array_fetch(a.array, i) == start, "the array is");
	test_child_require(percpu_stats_snapshot(a.stats, 0, 1, pair) == 0 && pair[0] == start &&
				   pair[1] == start,
			   "statistics are");
	for (int i = 0; i < 3; i++)
		test_child_require(percpu_local_sum(a.local[i]) == (int64_t)start, "words are");
	percpu_wbuf_flush(a.wbuf);
	test_child_require(a.cell == start, "the write buffer is");
	percpu_zone_stats(a.zone, &z);
	test_child_require(z.used == 0 && z.requests == 3 * start, "the zone is");
	test_child_require(percpu_zone_destroy(a.zone) == 0, "no item is missing");
	return 0;
}

/* Threads cannot be started, for a limit of processes, or a filter. */

static int first_use_while_refused(void *arg)
{
	struct percpu_counter *c;

	(void)arg;
	refuse_threads(1);
	test_child_require(percpu_counter_create(&c) == 0, "a counter");
	test_child_require(is_pending(), "tier cpu, the self-test is pending");
	test_child_require(percpu_selftest() == PERCPU_SELFTEST_INCONCLUSIVE, "it says so");
	percpu_counter_inc(c);
	refuse_threads(0);
	test_child_require(test_tier() == PERCPU_TIER_RSEQ && has_risen(), "tier rseq later");
	test_child_require(percpu_counter_fetch(c) == 1, "exact");
	return 0;
}

/* Only the first of two threads could be started: it must end. */
static int one_thread_is_refused(void *arg)
{
	(void)arg;
	refuse_threads(2);
	test_child_require(percpu_status()->tier == PERCPU_TIER_CPU, "pending");
	refuse_threads(0);
	test_child_require(test_tier() == PERCPU_TIER_RSEQ, "tier rseq later");
	return 0;
}

/* Nothing stays of the self-test: no arenas of threads that have allocated memory. */

static uint64_t address_space(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	test_child_require(f != NULL && fscanf(f, "%llu", &pages) == 1, "/proc/self/statm");
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int address_space_after_first_use(void *arg)
{
	struct percpu_counter *c;
	uint64_t before = address_space();

	(void)arg;
	test_child_require(percpu_counter_create(&c) == 0, "a counter");
	(void)test_tier();
	test_child_require(address_space() - before < 32 << 20, "no arena stays behind");
	return 0;
}

static void nobody_waits(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(first_use_while_held, NULL);
}

static void attempts_are_rarer_and_rarer(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(rest_longer_and_longer, NULL);
}

static void any_preemption_is_a_proof(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(prove_without_intruder, NULL);
}

static void real_time_is_not_inherited(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(prove_for_real_time, NULL);
}

static void fences_begin_when_threads_rise(void **state)
{
	(void)state;
	test_need_sequences();
	if (test_cpus() < 2)
		test_skip("one CPU: the spinner would be preempted anyway");
	test_in_child(fence_before_and_after, NULL);
}

static void objects_stay_exact_while_threads_rise(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(everything_while_held, NULL);
}

static void refused_threads_are_tried_again(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(first_use_while_refused, NULL);
	test_in_child(one_thread_is_refused, NULL);
}

static void little_address_space_stays_behind(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("the address space is not the program's own");
	test_in_child(address_space_after_first_use, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_waits),
		cmocka_unit_test(any_preemption_is_a_proof),
		cmocka_unit_test(attempts_are_rarer_and_rarer),
		cmocka_unit_test(real_time_is_not_inherited),
		cmocka_unit_test(fences_begin_when_threads_rise),
		cmocka_unit_test(objects_stay_exact_while_threads_rise),
		cmocka_unit_test(refused_threads_are_tried_again),
		cmocka_unit_test(little_address_space_stays_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
