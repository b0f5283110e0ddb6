/* SPDX-License-Identifier: MIT */
/*
 * test_family_epochs.c - which processes keep removed series from reuse: those that have
 * handles, and their children, and no others; and processes that make and remove series at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"
#include "../family_calls.h"
#include "../root_file.h"

#include "segment/segment.h"

static struct percpu_family *f;

/* Shared by the test and its children. */
static struct {
	int ready, go; /* counts of say() */
	pid_t grandchild;
} * shared;

static void wait_for(const int *word, int value)
{
	for (int i = 0; i < 20000 && __atomic_load_n(word, __ATOMIC_ACQUIRE) < value; i++)
		test_sleep_us(1000);
}

static void say(int *word)
{
	__atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
}

static int open_one(void **state)
{
	(void)state;
	s = open_family_file(path, ALL);
	f = family_of(s, 1);
	memset(shared, 0, sizeof(*shared));
	return 0;
}

/* Open the segment in a child, and get a handle of x. */
static struct percpu_segment *resolve_x(void)
{
	struct percpu_segment *mine = NULL;

	percpu_segment_close(s); /* the parent's */
	test_child_require(percpu_segment_open(path, ALL, NULL, &mine) == 0, "a segment");
	test_child_require(count_in(family_of(mine, 1), "x", 1) >= 1, "a series");
	return mine;
}

/* Remove x. Return whether there is room for y. */
static bool may_be_used_again(void)
{
	static unsigned n;
	char value[16];
	uint64_t before = percpu_family_overflows(f);

	(void)remove_value(f, "x");
	assert_int_equal(percpu_segment_release_removed(s), 0);
	snprintf(value, sizeof(value), "y%u", n++);
	assert_true(count_in(f, value, 1) >= 1);
	if (percpu_family_overflows(f) != before)
		return false;
	assert_int_equal(remove_value(f, value), 0);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	return true;
}

/* Stay with a handle, and close all descriptors if told to: the epoch does not depend on them. */
static int stay(void *closes_descriptors)
{
	(void)resolve_x();
	for (int fd = 3; closes_descriptors != NULL && fd < 1024; fd++)
		close(fd);
	say(&shared->ready);
	wait_for(&shared->go, 1);
	return 0;
}

/* Fork a process, and wait until it is ready. */
static pid_t fork_until_ready(int (*fn)(void *), void *arg)
{
	pid_t pid = test_fork(fn, arg);

	wait_for(&shared->ready, 1);
	return pid;
}

static void those_with_handles_keep_it(void **state)
{
	pid_t pid = fork_until_ready(stay, NULL);

	(void)state;
	assert_false(may_be_used_again());
	assert_false(may_be_used_again());
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(test_wait(pid, 60), SIGKILL);
	assert_true(may_be_used_again());
}

static void closed_descriptors_keep_it(void **state)
{
	pid_t pid = fork_until_ready(stay, shared);

	(void)state;
	assert_false(may_be_used_again());
	say(&shared->go);
	assert_int_equal(test_wait(pid, 60), 0);
	assert_true(may_be_used_again());
}

/* Leave a child, which has the handles of this process. */
static int leave_a_child(void *arg)
{
	pid_t pid;

	(void)arg;
	(void)resolve_x();
	pid = fork();
	if (pid == 0) {
		alarm(60);
		say(&shared->ready);
		wait_for(&shared->go, 1);
		_exit(0);
	}
	shared->grandchild = pid;
	wait_for(&shared->ready, 1);
	return 0;
}

static void children_of_the_dead_keep_it(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(leave_a_child, NULL), 60), 0);
	assert_false(may_be_used_again());
	assert_int_equal(kill(shared->grandchild, SIGKILL), 0);
	for (int i = 0; i < 20000 && !may_be_used_again(); i++)
		test_sleep_us(1000);
	assert_true(may_be_used_again());
}

/* The argument with which this program sleeps, on a machine without sleep(1). */
#define SLEEP "--sleep"

/* Get a handle, and exec: the new program has none. */
static int exec_sleep(void *arg)
{
	(void)arg;
	(void)resolve_x();
	say(&shared->ready);
	execlp("sleep", "sleep", "60", (char *)NULL);
	execl("/proc/self/exe", "sleep", SLEEP, (char *)NULL); /* there is no sleep(1) */
	return 1;
}

static void exec_gives_it_up(void **state)
{
	pid_t pid = fork_until_ready(exec_sleep, NULL);
	bool again = false;

	(void)state;
	for (int i = 0; i < 20000 && !again; i++) {
		again = may_be_used_again();
		test_sleep_us(1000);
	}
	assert_true(again);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it is alive */
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(test_wait(pid, 60), SIGKILL);
}

/* Get a handle, and then close the segment, or release. */
static int end_later(void *closes)
{
	struct percpu_segment *mine = resolve_x();

	say(&shared->ready);
	wait_for(&shared->go, 1);
	if (closes != NULL)
		percpu_segment_close(mine);
	else
		test_child_require(percpu_segment_release_removed(mine) == 0,
				   "to release removed series");
	say(&shared->ready);
	wait_for(&shared->go, 2);
	return 0;
}

static void gives_it_up(void *closes)
{
	pid_t pid = fork_until_ready(end_later, closes);

	assert_false(may_be_used_again());
	say(&shared->go);
	wait_for(&shared->ready, 2);
	assert_true(may_be_used_again());
	say(&shared->go);
	assert_int_equal(test_wait(pid, 60), 0);
}

static void closing_gives_it_up(void **state)
{
	(void)state;
	gives_it_up(shared);
}

static void releasing_gives_it_up(void **state)
{
	(void)state;
	gives_it_up(NULL);
}

/* A child that has its parent's handles releases for itself, and so does the parent. */
static int release_what_is_inherited(void *arg)
{
	(void)arg;
	say(&shared->ready);
	wait_for(&shared->go, 1);
	test_child_require(percpu_segment_release_removed(s) == 0, "to release removed series");
	say(&shared->ready);
	wait_for(&shared->go, 2);
	test_child_require(count_in(f, "z", 1) >= 1, "and to go on");
	return 0;
}

static void children_release_for_themselves(void **state)
{
	pid_t pid;

	(void)state;
	assert_int_equal(count_in(f, "x", 1), 1);
	pid = test_fork(release_what_is_inherited, NULL);
	wait_for(&shared->ready, 1);
	assert_false(may_be_used_again());
	say(&shared->go);
	wait_for(&shared->ready, 2);
	assert_true(may_be_used_again());
	say(&shared->go);
	assert_int_equal(test_wait(pid, 60), 0);
}

/* The lowest epoch that a process holds is found, or the one before it, in whichever order they
 * are taken. */
static void the_first_epoch_is_found(void **state)
{
	static const uint64_t some[] = { 7, 300, 5, 9 };
	const uint64_t was = s->control->removals;
	uint64_t first = 0;
	void *epoch[200];

	(void)state;
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_epoch_first(s, 1, &first), 0);
	assert_int_equal(first, 0); /* its own */
	percpu_segment_close(s);
	s = open_family_file(path, ALL);
	assert_int_equal(percpu_epoch_first(s, 1000, &first), 0);
	assert_int_equal(first, 1000);
	for (int i = 0; i < 4; i++) {
		s->control->removals = some[i];
		assert_int_equal(percpu_epoch_take(s, &epoch[i]), 0);
	}
	assert_int_equal(percpu_epoch_first(s, 1000, &first), 0);
	assert_int_equal(first, 5);
	assert_int_equal(percpu_epoch_first(s, 5, &first), 0);
	assert_int_equal(first, 5);
	percpu_epoch_drop(epoch[2]);
	assert_int_equal(percpu_epoch_first(s, 1000, &first), 0);
	assert_int_equal(first, 7);
	for (int i = 0; i < 4; i++)
		if (i != 2)
			percpu_epoch_drop(epoch[i]);
	for (uint64_t i = 200; i > 0; i--) {
		s->control->removals = 3 * i;
		assert_int_equal(percpu_epoch_take(s, &epoch[i - 1]), 0);
	}
	assert_int_equal(percpu_epoch_first(s, 1000, &first), 0);
	assert_true(first <= 3);
	for (int i = 0; i < 200; i++)
		percpu_epoch_drop(epoch[i]);
	s->control->removals = UINT64_MAX;
	assert_int_equal(percpu_epoch_take(s, &epoch[0]), -EBADMSG);
	s->control->removals = was;
}

/* Processes make and remove series of their own at once, and some are killed. A series has what
 * its process counts, and nothing else. */

enum { PROCESSES = 3, CAP = 8 };

static int churn(void *arg)
{
	const unsigned id = *(const unsigned *)arg, rounds = test_rounds(400);
	struct percpu_segment *mine = NULL;
	struct percpu_counter *c, *overflow;
	struct percpu_family *family;
	char value[32];
	int e;

	test_child_require(percpu_segment_open(path, ALL, NULL, &mine) == 0, "a segment");
	family = NULL;
	e = declare_family(mine, "c_total", PERCPU_METRIC_COUNTER, CAP, &family);
	test_child_require(e == 0, "a family");
	overflow = counter_of(family, PERCPU_FAMILY_OVERFLOW);
	for (unsigned i = 0; i < rounds; i++) {
		snprintf(value, sizeof(value), "%u-%u", id, i);
		c = counter_of(family, value);
		test_child_require(c != NULL, "a counter");
		for (int k = 0; k < 50; k++)
			percpu_counter_add(c, 1);
		if (c != overflow) {
			test_child_require(percpu_counter_fetch(c) == 50, "own counts");
			test_child_require(counter_of(family, value) == c, "the same");
			e = remove_value(family, value);
			test_child_require(e == 0, "removed");
		}
		test_child_require(percpu_segment_release_removed(mine) == 0, "released");
	}
	percpu_segment_close(mine);
	return 0;
}

static void processes_come_and_go(void **state)
{
	unsigned id[PROCESSES + 1];
	pid_t pid[PROCESSES], victim;

	(void)state;
	for (unsigned round = 0; round < test_rounds(5); round++) {
		for (unsigned i = 0; i <= PROCESSES; i++)
			id[i] = round * 10 + i;
		for (unsigned i = 0; i < PROCESSES; i++)
			pid[i] = test_fork(churn, &id[i]);
		for (unsigned i = 0; i < 5 && percpu_status()->robust; i++) {
			victim = test_fork(churn, &id[PROCESSES]);
			test_sleep_us(3000 + 777 * i);
			kill(victim, SIGKILL);
			(void)test_wait(victim, 60);
		}
		for (unsigned i = 0; i < PROCESSES; i++)
			assert_int_equal(test_wait(pid[i], 60), 0);
	}
	assert_true(s->control->end < PERCPU_SEGMENT_BLOCK);
}

static int make_shared(void **state)
{
	shared = test_share(sizeof(*shared));
	return name_file(state);
}

#define one(f) cmocka_unit_test_setup_teardown(f, open_one, close_both)

/* A child that is forked amid releasing inherits no mapping or descriptor that it cannot give
 * back. */

static bool stop_releasing;

/* Make and remove series: while a child holds one, its room is not free. */
static void release_all_the_time(unsigned i, void *arg)
{
	char value[16];
	int e = 0;

	(void)i;
	for (unsigned n = 0; e == 0 && !__atomic_load_n(&stop_releasing, __ATOMIC_RELAXED); n++) {
		snprintf(value, sizeof(value), "%u", n);
		(void)count_in(arg, value, 1);
		(void)remove_value(arg, value);
		e = percpu_segment_release_removed(s);
	}
}

/* Return how many mappings and descriptors of the file there are. */
static int uses_of_file(void)
{
	unsigned long major_number, minor_number, inode;
	struct stat file, st;
	char line[512];
	FILE *maps;
	int n = 0;

	if (stat(path, &file) != 0)
		return -1;
	maps = fopen("/proc/self/maps", "re");
	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
		n += sscanf(line, "%*s %*s %*s %lx:%lx %lu", &major_number, &minor_number,
			    &inode) == 3 &&
		     makedev(major_number, minor_number) == file.st_dev && inode == file.st_ino;
	if (maps != NULL)
		fclose(maps);
	for (int fd = 0; fd < 64; fd++)
		n += fstat(fd, &st) == 0 && st.st_ino == file.st_ino && st.st_dev == file.st_dev;
	return n;
}

static int close_and_look(void *arg)
{
	(void)arg;
	test_child_require(uses_of_file() > 0, "it is open");
	test_child_require(percpu_segment_release_removed(s) == 0, "release");
	percpu_segment_close(s);
	test_child_require(uses_of_file() == 0, "something is left");
	return 0;
}

static void forks_hold_nothing_else(void **state)
{
	struct percpu_family *many = NULL;
	struct test_team team;
	int failed = 0, status;

	(void)state;
	test_needs_forks_beside_malloc();
	assert_int_equal(declare_family(s, "many_total", PERCPU_METRIC_COUNTER, 1000, &many), 0);
	stop_releasing = false;
	test_team_start(&team, 1, release_all_the_time, many);
	for (unsigned i = 0; i < 60; i++) {
		status = test_wait(test_fork(close_and_look, NULL), 60);
		failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	}
	__atomic_store_n(&stop_releasing, true, __ATOMIC_RELAXED);
	test_team_join(&team);
	assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		one(forks_hold_nothing_else),	 one(those_with_handles_keep_it),
		one(closed_descriptors_keep_it), one(children_of_the_dead_keep_it),
		one(exec_gives_it_up),		 one(closing_gives_it_up),
		one(releasing_gives_it_up),	 one(children_release_for_themselves),
		one(the_first_epoch_is_found),	 one(processes_come_and_go),
	};

	if (argc > 1 && strcmp(argv[1], SLEEP) == 0)
		return (int)sleep(60);
	return cmocka_run_group_tests(tests, make_shared, test_remove_paths);
}
