/* SPDX-License-Identifier: MIT */
/*
 * test_presence.c - which processes keep the memory of removed series: those that have a family of
 * the segment, and their children, and no others; and processes that make and remove series at once.
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

/* The test itself has no family. */
static int open_one(void **state)
{
	(void)state;
	s = open_family_file(path, ALL);
	memset(shared, 0, sizeof(*shared));
	return 0;
}

/* Let a child's segment have a removed series x, and handles of it. */
static struct percpu_segment *lose_x(unsigned flags)
{
	struct percpu_segment *writer = NULL, *mine = NULL;
	struct percpu_family *f;

	percpu_segment_close(s); /* the parent's */
	test_child_require(percpu_segment_open(path, ALL, NULL, &writer) == 0, "a segment");
	f = family_of(writer, 1);
	test_child_require(f != NULL && count_in(f, "x", 1) == 1, "a series");
	test_child_require(percpu_segment_open(path, flags, NULL, &mine) == 0, "it again");
	test_child_require(counter_of(family_of(mine, 1), "x") != NULL, "a handle");
	test_child_require(remove_value(f, "x") == 0, "removed");
	percpu_segment_close(writer);
	return mine;
}

/* Free what no process keeps. Return whether x is free: its record is the third one. */
static bool frees_x(void)
{
	uint64_t at = 0;

	percpu_series_free_removed(s);
	assert_int_equal(percpu_directory_refresh(s), 0);
	for (int i = 0; i < 2; i++)
		at += percpu_directory_at(s, at)->size;
	return percpu_directory_at(s, at)->state == PERCPU_RECORD_FREE;
}

/* Stay with a handle, and close all descriptors if told to: the presence does not depend on
 * them. */
static int stay(void *closes_descriptors)
{
	(void)lose_x(ALL);
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

static void those_with_families_keep_it(void **state)
{
	pid_t pid = fork_until_ready(stay, NULL);

	(void)state;
	assert_false(frees_x());
	assert_false(frees_x());
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(test_wait(pid, 60), SIGKILL);
	assert_true(frees_x());
}

static void closed_descriptors_keep_it(void **state)
{
	pid_t pid = fork_until_ready(stay, shared);

	(void)state;
	assert_false(frees_x());
	say(&shared->go);
	assert_int_equal(test_wait(pid, 60), 0);
	assert_true(frees_x());
}

/* A process that may only read has handles, too. */
static int stay_to_read(void *arg)
{
	(void)arg;
	(void)lose_x(0);
	say(&shared->ready);
	wait_for(&shared->go, 1);
	return 0;
}

static void readers_with_families_keep_it(void **state)
{
	pid_t pid = fork_until_ready(stay_to_read, NULL);

	(void)state;
	assert_false(frees_x());
	say(&shared->go);
	assert_int_equal(test_wait(pid, 60), 0);
	assert_true(frees_x());
}

/* Leave a child, which has the handles of this process. */
static int leave_a_child(void *arg)
{
	pid_t pid;

	(void)arg;
	(void)lose_x(ALL);
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
	bool free = false;

	(void)state;
	assert_int_equal(test_wait(test_fork(leave_a_child, NULL), 60), 0);
	assert_false(frees_x());
	assert_int_equal(kill(shared->grandchild, SIGKILL), 0);
	for (int i = 0; i < 20000 && !free; i++) {
		free = frees_x();
		test_sleep_us(1000);
	}
	assert_true(free);
}

/* The argument with which this program sleeps, on a machine without sleep(1). */
#define SLEEP "--sleep"

/* Get a handle, and exec: the new program has none. */
static int exec_sleep(void *arg)
{
	(void)arg;
	(void)lose_x(ALL);
	say(&shared->ready);
	execlp("sleep", "sleep", "60", (char *)NULL);
	execl("/proc/self/exe", "sleep", SLEEP, (char *)NULL); /* there is no sleep(1) */
	return 1;
}

static void exec_gives_it_up(void **state)
{
	pid_t pid = fork_until_ready(exec_sleep, NULL);
	bool free = false;

	(void)state;
	for (int i = 0; i < 20000 && !free; i++) {
		free = frees_x();
		test_sleep_us(1000);
	}
	assert_true(free);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it is alive */
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(test_wait(pid, 60), SIGKILL);
}

/* Each segment of a process is present for itself. */
static int close_two(void *arg)
{
	struct percpu_segment *mine = lose_x(ALL), *other = NULL;

	(void)arg;
	test_child_require(percpu_segment_open(path, ALL, NULL, &other) == 0, "it twice");
	test_child_require(family_of(other, 1) != NULL, "a family");
	percpu_segment_close(mine);
	say(&shared->ready);
	wait_for(&shared->go, 1);
	percpu_segment_close(other);
	say(&shared->ready);
	wait_for(&shared->go, 2);
	return 0;
}

static void closing_gives_it_up(void **state)
{
	pid_t pid = fork_until_ready(close_two, NULL);

	(void)state;
	assert_false(frees_x());
	say(&shared->go);
	wait_for(&shared->ready, 2);
	assert_true(frees_x());
	say(&shared->go);
	assert_int_equal(test_wait(pid, 60), 0);
}

/* A segment without a family keeps nothing, and finds nothing of a series. */
static void others_keep_nothing(void **state)
{
	struct percpu_segment *other = open_family_file(path, ALL);
	struct percpu_counter *c;
	pid_t pid;

	(void)state;
	assert_int_equal(percpu_segment_counter(other, METRIC("m_total"), &c), 0);
	percpu_segment_close(s);
	s = NULL;
	pid = fork_until_ready(stay, NULL);
	assert_int_equal(percpu_directory_refresh(other), 0);
	say(&shared->go);
	assert_int_equal(test_wait(pid, 60), 0);
	s = other;
	percpu_series_free_removed(s);
	assert_null(s->presence);
	assert_int_equal(count_in(family_of(s, 1), "y", 1), 1); /* x counts for the cap no more */
	assert_int_equal(percpu_family_overflows(family_of(s, 1)), 0);
	percpu_counter_add(c, 1);
	assert_int_equal(percpu_counter_fetch(c), 1);
}

/* Processes make and remove series of their own and a common one at once, and some are killed. A
 * series has what its process counts, and nothing else. */

enum { PROCESSES = 3, CAP = 9 };

static int churn(void *arg)
{
	const unsigned id = *(const unsigned *)arg, rounds = test_rounds(400);
	struct percpu_segment *mine = NULL;
	struct percpu_counter *c, *overflow, *both;
	struct percpu_family *family;
	char value[32];
	int e;

	test_child_require(percpu_segment_open(path, ALL, NULL, &mine) == 0, "a segment");
	family = NULL;
	e = declare_family(mine, "c_total", PERCPU_METRIC_COUNTER, CAP, &family);
	test_child_require(e == 0, "a family");
	overflow = counter_of(family, PERCPU_FAMILY_OVERFLOW);
	for (unsigned i = 0; i < rounds; i++) {
		snprintf(value, sizeof(value), "%u-%u", id % 10, i % 2);
		c = counter_of(family, value);
		test_child_require(c != NULL, "a counter");
		for (int k = 0; k < 50; k++)
			percpu_counter_add(c, 1);
		if (c != overflow) {
			test_child_require(percpu_counter_fetch(c) == 50 || id % 10 == PROCESSES,
					   "own counts");  /* the last one may have been killed */
			both = counter_of(family, "both"); /* others remove it, too */
			test_child_require(both != NULL && (int64_t)percpu_counter_fetch(both) >= 0,
					   "a sum");
			percpu_counter_add(both, 1);
			e = remove_value(family, "both");
			test_child_require(e == 0 || e == -ENOENT, "removed by either");
			test_child_require(counter_of(family, value) == c, "the same");
			e = remove_value(family, value);
			test_child_require(e == 0, "removed");
		}
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
	assert_int_equal(s->control->changes % 2, 0);
}

static int make_shared(void **state)
{
	shared = test_share(sizeof(*shared));
	return name_file(state);
}

/* A child that is forked while another thread becomes present inherits no mapping or descriptor that
 * it cannot give back. */

static bool stop_being_present;

/* Be present for a moment, and anew as a family is. */
static void come_and_go(unsigned i, void *arg)
{
	void *presence = NULL, *held;
	int e = 0;

	(void)i, (void)arg;
	while (e == 0 && !__atomic_load_n(&stop_being_present, __ATOMIC_RELAXED)) {
		e = percpu_presence_take(s, &presence);
		percpu_presence_drop(presence);
		presence = NULL;
		percpu_process_lock();
		held = s->presence;
		s->presence = NULL;
		s->is_present = false;
		percpu_presence_drop(held);
		percpu_process_unlock();
		if (e == 0)
			e = percpu_presence_hold(s);
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
	percpu_segment_close(s);
	test_child_require(uses_of_file() == 0, "something is left");
	return 0;
}

static void forks_hold_nothing_else(void **state)
{
	struct test_team team;
	int failed = 0, status;

	(void)state;
	test_needs_forks_beside_malloc();
	if (getenv("MESON_EXE_WRAPPER") != NULL)
		test_skip("an emulator does not know MADV_DONTFORK");
	stop_being_present = false;
	test_team_start(&team, 1, come_and_go, NULL);
	for (unsigned i = 0; i < 60; i++) {
		status = test_wait(test_fork(close_and_look, NULL), 60);
		failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	}
	__atomic_store_n(&stop_being_present, true, __ATOMIC_RELAXED);
	test_team_join(&team);
	assert_int_equal(failed, 0);
}

#define one(f) cmocka_unit_test_setup_teardown(f, open_one, close_both)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		one(forks_hold_nothing_else),	   one(those_with_families_keep_it),
		one(closed_descriptors_keep_it),   one(readers_with_families_keep_it),
		one(children_of_the_dead_keep_it), one(exec_gives_it_up),
		one(closing_gives_it_up),	   one(others_keep_nothing),
		one(processes_come_and_go),
	};

	if (argc > 1 && strcmp(argv[1], SLEEP) == 0)
		return (int)sleep(60);
	return cmocka_run_group_tests(tests, make_shared, test_remove_paths);
}
