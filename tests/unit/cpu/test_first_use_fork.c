/* SPDX-License-Identifier: MIT */
/*
 * test_first_use_fork.c - a process forks before the self-test has a verdict: parent and child
 * rise by the verdict of either, and believe no other value.
 *
 * Each test has a process of its own, which can hold the library's threads back, as in
 * test_first_use.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "first_use.h"

bool test_of_first_use = true;

static bool no_memory; /* for the page that a family shares */

void *__real_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	if (!no_memory || (flags & MAP_SHARED) == 0)
		return __real_mmap64(at, size, prot, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
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

/* The child makes no call that could start a thread: it rises by its parent's verdict. */
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

/* The parent's threads never run. The child starts its own when it may, and their verdict serves
 * the parent. */
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

/* The parent ends before there is a proof, as when a program becomes a daemon. */
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

/* Return the page that a family shares for its verdict, which has none yet. */
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

/* A damaged value in that page, which a hostile relative may write. */
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

/* Without memory for a shared page, each process finds its own verdict. */
static int family_without_page(void *arg)
{
	struct percpu_counter *c;
	pid_t pid;

	(void)arg;
	hold_threads(true);
	test_child_require(percpu_counter_create(&c) == 0, "a counter");
	wait_until_held(2);
	no_memory = true;
	pid = fork();
	no_memory = false;
	if (pid == 0) {
		alarm(60);
		test_child_require(family_page() == NULL, "nothing is shared");
		hold_threads(false);
		test_child_require(test_tier() == PERCPU_TIER_RSEQ && has_risen(), "it rises");
		_exit(0);
	}
	test_child_require(test_wait(pid, 60) == 0, "the child");
	test_child_require(is_pending(), "the parent knows nothing of it");
	hold_threads(false);
	test_child_require(test_tier() == PERCPU_TIER_RSEQ && has_risen(), "it rises by itself");
	return 0;
}

static void children_rise(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(child_that_counts, NULL);
	test_in_child(child_that_asks, NULL);
	test_in_child(orphan_that_asks, NULL);
	test_in_child(family_without_page, NULL);
}

static void only_verdicts_are_believed(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(family_lies, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_rise),
		cmocka_unit_test(only_verdicts_are_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
