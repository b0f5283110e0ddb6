/* SPDX-License-Identifier: MIT */
/*
 * test_first_use_threads.c - a fork while threads of the self-test run. The first fork waits for
 * their verdict. Each fork lets them begin and exit: meanwhile they may hold locks that are not
 * the library's, such as a sanitizer's, which would stay locked in the child.
 *
 * Each test has a process of its own, which has not used the library before.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/seq.h>

#include "steps.h"
#include "support.h"

#include "cpu/cpu.h"

bool test_of_first_use = true;

static uint32_t held;	     /* atomic: threads wait at that step */
static uint32_t waiting;     /* atomic: how many threads wait */
static const char *hold_at;  /* the step */
static unsigned exits_later; /* us by which a thread exits later */

static bool shares_too;	     /* another thread makes the page at the same time */
static uint32_t notes_first; /* another thread notes so many lanes first */

void test_step(const char *name)
{
	if (notes_first != 0 && strcmp(name, "cpus: lanes read") == 0) {
		const uint32_t lanes = notes_first;

		notes_first = 0;
		percpu_note_lanes(lanes);
	}
	if (shares_too && strcmp(name, "verdict: page made") == 0) {
		shares_too = false;
		percpu_verdict_share();
	}
	if (hold_at != NULL && strcmp(name, hold_at) == 0) {
		__atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&held, __ATOMIC_SEQ_CST))
			test_sleep_us(100);
		__atomic_fetch_sub(&waiting, 1, __ATOMIC_SEQ_CST);
	}
	if (exits_later != 0 && strcmp(name, "selftest: thread exits") == 0)
		test_sleep_us(exits_later);
}

/* Start the self-test, and wait until so many of its threads are held at that step. */
static void start_and_hold(const char *step, uint32_t n)
{
	struct percpu_counter *c;

	hold_at = step;
	__atomic_store_n(&held, 1, __ATOMIC_SEQ_CST);
	test_child_require(percpu_counter_create(&c) == 0, "a counter");
	while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) != n)
		test_sleep_us(100);
}

static void let_go(void)
{
	__atomic_store_n(&held, 0, __ATOMIC_SEQ_CST);
}

static unsigned threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned entries = 0;

	while (tasks != NULL && readdir(tasks) != NULL)
		entries++;
	test_child_require(tasks != NULL && closedir(tasks) == 0, "/proc/self/task");
	return entries - 2; /* "." and ".." */
}

static uint32_t fork_has_begun; /* atomic */

static void note_fork(void)
{
	__atomic_store_n(&fork_has_begun, 1, __ATOMIC_SEQ_CST);
}

static void *let_go_later(void *us)
{
	while (!__atomic_load_n(&fork_has_begun, __ATOMIC_SEQ_CST))
		test_sleep_us(100);
	test_sleep_us(*(const unsigned *)us);
	let_go();
	return us;
}

/* As start_and_hold(). The threads are let go so many us after the next fork begins. */
static void hold_beyond_fork(const char *step, uint32_t n, const unsigned *us)
{
	pthread_t thread;

	test_child_require(pthread_create(&thread, NULL, let_go_later, (void *)us) == 0,
			   "a thread");
	pthread_detach(thread);
	start_and_hold(step, n);
	pthread_atfork(note_fork, NULL, NULL);
}

static int fork_beside_those_that_begin(void *arg)
{
	static const unsigned us = 40000; /* longer than the first fork waits for a verdict */
	uint32_t left;
	pid_t pid;

	(void)arg;
	hold_beyond_fork("selftest: thread begins", 2, &us);
	pid = fork();
	if (pid == 0)
		_exit(0);
	left = __atomic_load_n(&waiting, __ATOMIC_SEQ_CST);
	test_child_require(test_wait(pid, 60) == 0, "a child");
	return left == 0 ? 0 : 1;
}

static int fork_beside_those_that_exit(void *arg)
{
	struct percpu_counter *c;
	unsigned left;
	pid_t pid;

	(void)arg;
	exits_later = 20000;
	test_child_require(percpu_counter_create(&c) == 0, "a counter");
	while (percpu_status()->selftest == PERCPU_SELFTEST_PENDING)
		test_sleep_us(100);
	pid = fork();
	if (pid == 0)
		_exit(0);
	left = threads();
	test_child_require(test_wait(pid, 60) == 0, "a child");
	return left == 1 ? 0 : 1;
}

static bool handler_lets_go;
static unsigned amid_fork[2]; /* threads when the fork has begun, and 20 ms later */

/* Runs after the library's handler, as it was registered before it. */
static void let_threads_end(void)
{
	if (!handler_lets_go)
		return;
	handler_lets_go = false;
	amid_fork[0] = threads();
	let_go();
	test_sleep_us(20000);
	amid_fork[1] = threads();
}

__attribute__((constructor(101))) static void register_first(void)
{
	pthread_atfork(let_threads_end, NULL, NULL);
}

static int fork_beside_those_that_would_exit(void *arg)
{
	pid_t pid;

	(void)arg;
	handler_lets_go = true;
	start_and_hold("selftest: spinner in place", 1);
	pid = fork();
	if (pid == 0)
		_exit(0);
	test_child_require(test_wait(pid, 60) == 0, "a child");
	test_child_require(amid_fork[0] == 3 && amid_fork[1] == 3, "no thread exits amid a fork");
	test_child_require(test_tier() == PERCPU_TIER_RSEQ, "they do then");
	return 0;
}

/* A parent creates, forks, and ends, as daemons do. The proof comes a little after the fork has
 * begun. The child only counts. */

struct family {
	uint32_t has_ended; /* atomic: the child; 1: it has not risen, 2: it has */
	pid_t parent;
};

static void be_the_parent(struct family *f)
{
	static const unsigned us = 5000;
	struct percpu_counter *c;

	hold_beyond_fork("selftest: spinner in place", 1, &us);
	test_child_require(percpu_counter_create(&c) == 0, "a counter");
	if (fork() != 0)
		_exit(0);
	alarm(60);
	while (getppid() == f->parent)
		test_sleep_us(100);
	for (int i = 0; i < 1000 && percpu_seq_cpu() < 0; i++) {
		percpu_counter_inc(c);
		test_sleep_us(100);
	}
	__atomic_store_n(&f->has_ended, 1 + (percpu_seq_cpu() >= 0), __ATOMIC_SEQ_CST);
	_exit(0);
}

static int daemon_that_counts(void *arg)
{
	struct family *f = test_share(sizeof(*f));
	pid_t pid = fork();

	(void)arg;
	if (pid == 0) {
		f->parent = getpid();
		be_the_parent(f);
	}
	test_child_require(test_wait(pid, 60) == 0, "the parent ends");
	for (int i = 0; i < 500000 && !__atomic_load_n(&f->has_ended, __ATOMIC_SEQ_CST); i++)
		test_sleep_us(100);
	return f->has_ended == 2 ? 0 : 1;
}

/* Run fn until it succeeds, at most 50 times: on a busy machine the threads may be late. */
static void succeed_once(int (*fn)(void *arg))
{
	int status = -1;

	for (int i = 0; i < 50 && status != 0; i++)
		status = test_wait(test_fork(fn, NULL), 60);
	assert_int_equal(status, 0);
}

static void threads_may_begin(void **state)
{
	(void)state;
	test_need_sequences();
	succeed_once(fork_beside_those_that_begin);
}

static void threads_may_exit(void **state)
{
	(void)state;
	test_need_sequences();
	succeed_once(fork_beside_those_that_exit);
}

static void no_thread_exits_amid_a_fork(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(fork_beside_those_that_would_exit, NULL);
}

static void daemons_rise(void **state)
{
	(void)state;
	test_need_sequences();
	succeed_once(daemon_that_counts);
}

/* The parent and all children find a child's verdict in a page that they share. Two threads that
 * fork at once make one page. */
static int find_out_in_child(void *arg)
{
	const enum percpu_selftest found = *(const enum percpu_selftest *)arg;
	struct test_holding before, after;
	int status = -1;
	pid_t pid;

	percpu_verdict_init(true);
	before = test_holding_now();
	shares_too = true;
	percpu_verdict_share();
	after = test_holding_now();
	test_child_require(!shares_too && after.maps <= before.maps + 1, "one page");
	test_child_require(percpu_verdict() == PERCPU_SELFTEST_PENDING, "with nothing in it yet");
	pid = fork();
	if (pid == 0) {
		percpu_verdict_announce(found);
		_exit(0);
	}
	test_child_require(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "a child");
	test_child_require(percpu_verdict() == (found == PERCPU_SELFTEST_INCONCLUSIVE ?
							PERCPU_SELFTEST_PENDING :
							(uint32_t)found),
			   "what it found");
	return 0;
}

/* The smallest number of lanes is kept, in whichever order regions are made. */
static int note_lanes(void *arg)
{
	(void)arg;
	notes_first = 300;
	percpu_note_lanes(400);
	test_child_require(percpu_lanes_everywhere == 300, "another one had fewer");
	notes_first = 200;
	percpu_note_lanes(100);
	test_child_require(percpu_lanes_everywhere == 100, "and here more");
	return 0;
}

static void the_fewest_lanes_are_known(void **state)
{
	(void)state;
	test_in_child(note_lanes, NULL);
}

static void families_share_what_is_found(void **state)
{
	static const enum percpu_selftest found[] = { PERCPU_SELFTEST_PASSED,
						      PERCPU_SELFTEST_FAILED,
						      PERCPU_SELFTEST_INCONCLUSIVE };

	(void)state;
	for (int i = 0; i < 3; i++)
		test_in_child(find_out_in_child, (void *)&found[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(families_share_what_is_found),
		cmocka_unit_test(the_fewest_lanes_are_known),
		cmocka_unit_test(daemons_rise),
		cmocka_unit_test(threads_may_begin),
		cmocka_unit_test(threads_may_exit),
		cmocka_unit_test(no_thread_exits_amid_a_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
