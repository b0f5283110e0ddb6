/* SPDX-License-Identifier: MIT */
/*
 * test_first_use.c - nobody waits for the self-test: until it has its verdict
 * the process counts on tier cpu, and then its threads rise.
 *
 * The linker lets this program make the library's threads and their short naps: it
 * can hold threads back, and refuse them. Each test has a process of its own, in which the
 * library was not used before.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/seq.h>

#include "../support.h"
#include "hold.h"
#include "spinner.h"

#define SECOND UINT64_C(1000000000)
#define ADDS 2000
#define THREADS 4

bool test_of_first_use = true;

static bool is_pending(void)
{
	const struct percpu_status *s = percpu_status();

	return s->selftest == PERCPU_SELFTEST_PENDING && s->tier == PERCPU_TIER_CPU &&
	       strlen(s->reason) > 0 && percpu_thread_tier() == PERCPU_TIER_CPU &&
	       percpu_seq_attach()->cpu_id < 0;
}

static bool has_risen(void)
{
	return percpu_status()->tier == PERCPU_TIER_RSEQ && percpu_seq_attach()->cpu_id >= 0 &&
	       percpu_thread_tier() == PERCPU_TIER_RSEQ;
}

/* Nobody waits, and what was said before stays as it was said. */

static int first_use_while_held(void *arg)
{
	const struct percpu_status *before;
	struct percpu_status copy;
	struct percpu_counter *c;

	(void)arg;
	hold_threads(true);
	test_child_require(percpu_counter_create(&c) == 0, "a counter");
	test_child_require(is_pending(), "tier cpu, the self-test is pending");
	test_child_require(percpu_counter_array_commit_words() == 1, "no vector commits");
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
	test_child_require(memcmp(&copy, before, sizeof(copy)) == 0, "the old status stays");
	test_child_require(percpu_counter_fetch(c) == ADDS + 1, "still exact");
	return 0;
}

/* Whoever preempts the sequence: here this thread, on the one CPU that all have. */
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

/* A program's real-time priority is not for the self-test, which would keep others
 * from the CPU. */
static int prove_for_real_time(void *arg)
{
	const struct sched_param p = { .sched_priority = 1 };
	struct percpu_counter *c;
	struct dirent *entry;
	unsigned others = 0;
	DIR *tasks;

	(void)arg;
	if (sched_setscheduler(0, SCHED_FIFO, &p) != 0)
		return 0; /* not for this user */
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

/* Fences that had nothing to do have it from then on. */

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

/* Every kind of object, while its threads rise. */

struct all {
	struct percpu_counter *counter;
	struct percpu_counter_array *array;
	struct percpu_stats *stats;
	struct percpu_local *local[3];
	struct percpu_zone *zone;
	struct percpu_wbuf *wbuf;
	uint64_t cell;
	uint64_t rounds;  /* atomic, of all threads */
	uint32_t risen;	  /* atomic: threads that have */
	uint32_t failed;  /* atomic */
	uint32_t verdict; /* atomic: it is there */
};

static bool use_all(struct all *a)
{
	static const int64_t four[4] = { 1, 1, 1, 1 };
	static const uint64_t two[2] = { 1, 1 };
	void *item[3];
	int64_t sum;
	bool ok = true;

	percpu_counter_inc(a->counter);
	percpu_counter_array_add4(a->array, 0, four);
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

/* Threads are refused: at a limit of processes, or by a filter. */

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

/* Only the first of the two could be started, and must end. */
static int one_thread_is_refused(void *arg)
{
	(void)arg;
	refuse_threads(2);
	test_child_require(percpu_status()->tier == PERCPU_TIER_CPU, "pending");
	refuse_threads(0);
	test_child_require(test_tier() == PERCPU_TIER_RSEQ, "tier rseq later");
	return 0;
}

/* Children of fork, which have none of the parent's threads. */

struct family {
	uint32_t child_is_pending, child_has_risen; /* atomic */
	pid_t child;
};

static void count_until_risen(struct percpu_counter *c, uint32_t *pending)
{
	uint64_t adds = 0, end = test_now() + 50 * SECOND;

	while (percpu_seq_cpu() < 0 && test_now() < end) {
		percpu_counter_inc(c);
		adds++;
		if (percpu_seq_cpu() < 0)
			__atomic_store_n(pending, 1, __ATOMIC_SEQ_CST);
	}
	test_child_require(percpu_seq_cpu() >= 0, "the child has risen");
	test_child_require(percpu_counter_fetch(c) == adds, "it was exact");
}

/* The child calls nothing that could start a thread: its parent's verdict serves. */
static int child_that_counts(void *arg)
{
	struct family *f = test_share(sizeof(*f));
	struct percpu_counter *c;
	pid_t pid;

	(void)arg;
	hold_threads(true);
	test_child_require(percpu_counter_create(&c) == 0, "a counter");
	wait_until_held(2);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		count_until_risen(c, &f->child_is_pending);
		_exit(0);
	}
	while (!__atomic_load_n(&f->child_is_pending, __ATOMIC_SEQ_CST))
		test_sleep_us(100);
	hold_threads(false);
	test_child_require(test_tier() == PERCPU_TIER_RSEQ, "tier rseq in the parent");
	return test_wait(pid, 60);
}

/* The parent's threads never run: the child starts its own when it may, and what
 * they find serves the parent. */
static int child_that_asks(void *arg)
{
	struct percpu_counter *c;
	uint32_t started;
	pid_t pid;

	(void)arg;
	hold_threads(true);
	test_child_require(percpu_counter_create(&c) == 0, "a counter");
	wait_until_held(2);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		started = threads_started();
		test_child_require(is_pending() && threads_started() == started + 2,
				   "pending in the child as well, which starts threads");
		hold_threads(false);
		test_child_require(test_tier() == PERCPU_TIER_RSEQ && has_risen(), "it rises");
		_exit(0);
	}
	test_child_require(test_wait(pid, 60) == 0, "the child");
	test_child_require(has_risen(), "the parent has risen by the child's proof");
	return 0;
}

/* The parent is gone before the proof is there, as when a program makes itself a
 * daemon. */
static int orphan_that_asks(void *arg)
{
	struct family *f = test_share(sizeof(*f));
	struct percpu_counter *c;
	pid_t pid = fork();

	(void)arg;
	if (pid == 0) {
		hold_threads(true);
		test_child_require(percpu_counter_create(&c) == 0, "a counter");
		wait_until_held(2);
		if (fork() != 0)
			_exit(0);
		alarm(60);
		hold_threads(false);
		while (getppid() == f->child)
			test_sleep_us(100);
		percpu_counter_inc(c);
		if (percpu_seq_cpu() < 0 && test_tier() == PERCPU_TIER_RSEQ)
			percpu_counter_inc(c);
		__atomic_store_n(&f->child_has_risen, 1 + (percpu_seq_cpu() >= 0),
				 __ATOMIC_SEQ_CST);
		_exit(0);
	}
	f->child = pid;
	test_child_require(test_wait(pid, 60) == 0, "the parent ends");
	for (int i = 0; i < 500000 && !__atomic_load_n(&f->child_has_risen, __ATOMIC_SEQ_CST); i++)
		test_sleep_us(100);
	return f->child_has_risen == 2 ? 0 : 1;
}

/* A parent that creates, forks, and ends, as daemons do, with the proof not before the
 * fork has begun, and a little later. The child only counts. */
static uint32_t fork_has_begun; /* atomic */

static void *let_go(void *arg)
{
	while (!__atomic_load_n(&fork_has_begun, __ATOMIC_SEQ_CST))
		test_sleep_us(100);
	test_sleep_us(5000);
	hold_threads(false);
	return arg;
}

static void note_fork(void)
{
	__atomic_store_n(&fork_has_begun, 1, __ATOMIC_SEQ_CST);
}

static int daemon_that_counts(void *arg)
{
	struct family *f = test_share(sizeof(*f));
	struct percpu_counter *c;
	pthread_t thread;
	pid_t pid = fork();

	(void)arg;
	if (pid == 0) {
		test_child_require(pthread_create(&thread, NULL, let_go, NULL) == 0, "a thread");
		hold_threads(true);
		test_child_require(percpu_counter_create(&c) == 0, "a counter");
		wait_until_held(2);
		pthread_atfork(note_fork, NULL, NULL);
		if (fork() != 0)
			_exit(0);
		alarm(60);
		while (getppid() == f->child)
			test_sleep_us(100);
		for (int i = 0; i < 1000 && percpu_seq_cpu() < 0; i++) {
			percpu_counter_inc(c);
			test_sleep_us(100);
		}
		__atomic_store_n(&f->child_has_risen, 1 + (percpu_seq_cpu() >= 0),
				 __ATOMIC_SEQ_CST);
		_exit(0);
	}
	f->child = pid;
	test_child_require(test_wait(pid, 60) == 0, "the parent ends");
	for (int i = 0; i < 500000 && !__atomic_load_n(&f->child_has_risen, __ATOMIC_SEQ_CST); i++)
		test_sleep_us(100);
	return f->child_has_risen == 2 ? 0 : 1;
}

/* The page that a family shares for its verdict, in which there is none yet. */
static uint32_t *family_page(void)
{
	uint32_t *page = NULL, *at;
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long start;
	char line[512];

	test_child_require(f != NULL, "/proc/self/maps");
	while (fgets(line, sizeof(line), f) != NULL) {
		if (strstr(line, " rw-s ") == NULL || strstr(line, "/dev/zero") == NULL ||
		    sscanf(line, "%lx-", &start) != 1)
			continue;
		at = (uint32_t *)start; // NOLINT(performance-no-int-to-ptr)
		if (*at == PERCPU_SELFTEST_PENDING)
			page = at;
	}
	fclose(f);
	return page;
}

/* A relative, which may be an enemy by now, writes there what it likes. */
static int family_lies(void *arg)
{
	static const uint32_t lies[] = { PERCPU_SELFTEST_SKIPPED, PERCPU_SELFTEST_INCONCLUSIVE,
					 PERCPU_SELFTEST_PENDING + 1, 77, UINT32_MAX };
	uint32_t *page;
	pid_t pid;

	(void)arg;
	hold_threads(true);
	test_child_require(is_pending(), "pending");
	test_child_require(family_page() == NULL, "nothing is shared before there is a family");
	pid = fork();
	if (pid == 0)
		_exit(0);
	test_child_require(test_wait(pid, 60) == 0, "a child");
	page = family_page();
	test_child_require(page != NULL, "a page for the family");
	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		__atomic_store_n(page, lies[i], __ATOMIC_SEQ_CST);
		test_child_require(is_pending(), "no lie is believed");
	}
	hold_threads(false);
	test_child_require(test_tier() == PERCPU_TIER_RSEQ && has_risen(), "its own verdict is");
	return 0;
}

/* What stays behind: no arenas of threads that have allocated memory. */

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
	need_sequences();
	test_in_child(first_use_while_held, NULL);
}

static void any_preemption_is_a_proof(void **state)
{
	(void)state;
	need_sequences();
	test_in_child(prove_without_intruder, NULL);
}

static void real_time_is_not_inherited(void **state)
{
	(void)state;
	need_sequences();
	test_in_child(prove_for_real_time, NULL);
}

static void fences_begin_when_threads_rise(void **state)
{
	(void)state;
	need_sequences();
	if (test_cpus() < 2)
		test_skip("one CPU: the spinner would be preempted anyway");
	test_in_child(fence_before_and_after, NULL);
}

static void objects_stay_exact_while_threads_rise(void **state)
{
	(void)state;
	need_sequences();
	test_in_child(everything_while_held, NULL);
}

static void refused_threads_are_tried_again(void **state)
{
	(void)state;
	need_sequences();
	test_in_child(first_use_while_refused, NULL);
	test_in_child(one_thread_is_refused, NULL);
}

static void children_rise(void **state)
{
	(void)state;
	need_sequences();
	test_in_child(child_that_counts, NULL);
	test_in_child(child_that_asks, NULL);
	test_in_child(orphan_that_asks, NULL);
}

/* On a busy machine the proof may not be there in time; of many one has it. */
static void daemons_rise(void **state)
{
	int status = -1;

	(void)state;
	need_sequences();
	for (int i = 0; i < 50 && status != 0; i++)
		status = test_wait(test_fork(daemon_that_counts, NULL), 60);
	assert_int_equal(status, 0);
}

static void only_verdicts_are_believed(void **state)
{
	(void)state;
	need_sequences();
	test_in_child(family_lies, NULL);
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
		cmocka_unit_test(real_time_is_not_inherited),
		cmocka_unit_test(fences_begin_when_threads_rise),
		cmocka_unit_test(objects_stay_exact_while_threads_rise),
		cmocka_unit_test(refused_threads_are_tried_again),
		cmocka_unit_test(children_rise),
		cmocka_unit_test(daemons_rise),
		cmocka_unit_test(only_verdicts_are_believed),
		cmocka_unit_test(little_address_space_stays_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
