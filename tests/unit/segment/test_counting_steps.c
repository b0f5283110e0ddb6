/* SPDX-License-Identifier: MIT */
/*
 * test_counting_steps.c - a process opens a segment to count while another one removes the file: each
 * of them comes at each step of the other, and is killed there. No process counts in a removed file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/reader.h>

#include "steps.h"
#include "support.h"
#include "../root_file.h"
#include "../segments.h"

#include "segment/segment.h"

static unsigned steps_left; /* to the step where something happens; 0: nothing does */
static const char *waits_when;
static void (*meanwhile)(void);
static bool no_locks; /* processes that open the segment get no lock */

static void die(void)
{
	raise(SIGKILL);
}

/* At other steps the process may have locks that the other one needs. */
static bool is_between(const char *name)
{
	static const char *const names[] = {
		"region: made",	     "region: named",	     "region: to be opened",
		"region: not there", "segment: file opened", "counting: ",
		"removal: "
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

void test_step(const char *name)
{
	if (steps_left == 0 || (meanwhile != die && !is_between(name)) ||
	    (waits_when != NULL && strcmp(name, waits_when) != 0) || --steps_left != 0)
		return;
	meanwhile();
}

int __wrap_percpu_descriptor_share(const struct percpu_region *r, uint64_t byte);
int __real_percpu_descriptor_share(const struct percpu_region *r, uint64_t byte);
int __wrap_percpu_descriptor_share(const struct percpu_region *r, uint64_t byte)
{
	return no_locks ? -ENOLCK : __real_percpu_descriptor_share(r, byte);
}

static void happens_at(unsigned step, void (*what)(void))
{
	waits_when = NULL;
	meanwhile = what;
	steps_left = step;
}

static void happens_when(const char *name, void (*what)(void))
{
	happens_at(1, what);
	waits_when = name;
}

/* Return whether it has happened. */
static bool has_happened(void)
{
	const bool has = steps_left == 0;

	steps_left = 0;
	return has;
}

/* Return whether the path leads to the file of the segment. */
static bool is_named(const struct percpu_segment *s)
{
	return !percpu_path_leads_elsewhere(path, &s->region->file);
}

/* Make a file of which it is known that no process counts in it. */
static void make_segment(void)
{
	const bool none = no_locks;
	struct percpu_segment *s = NULL;

	no_locks = false;
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	no_locks = none;
	percpu_segment_close(s);
}

/* What has happened, of the two. */
static int removed, opened;
static unsigned open_flags;
static struct percpu_segment *segment;

static void remove_it(void)
{
	removed = percpu_segment_remove(path, 0);
}

static void open_it(void)
{
	segment = NULL;
	opened = percpu_segment_open(path, open_flags, NULL, &segment);
}

/* Count, and find the count in the file that has the name. */
static void count_in_it(void)
{
	const struct percpu_metric m = { .size = sizeof(m), .name = "a_total" };
	struct percpu_counter *c = NULL;
	struct percpu_reader *r = NULL;
	uint64_t value = 0;

	assert_true(is_named(segment));
	assert_int_equal(percpu_segment_counter(segment, &m, &c), 0);
	percpu_counter_add(c, 1);
	percpu_segment_close(segment);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	assert_int_equal(percpu_reader_counter(r, 0, &value), 0);
	assert_int_equal(value, 1);
	percpu_reader_close(r);
}

/* Check what both have returned. */
static void check_both(void)
{
	const bool creates = open_flags & ALL;

	assert_true(removed == 0 || removed == -ENOENT || removed == (no_locks ? -ENOLCK : -EBUSY));
	assert_true(opened == 0 || opened == -ETIMEDOUT || (!creates && opened == -ENOENT));
	/* One that has no lock may have waited for a removal that failed because of it. */
	if (opened == 0)
		count_in_it();
	else
		assert_true(removed == 0 || (removed == -ENOLCK && opened == -ETIMEDOUT));
	if (removed == -EBUSY)
		assert_int_equal(opened, 0);
	if (access(path, F_OK) == 0)
		assert_int_equal(unlink(path), 0);
}

/* The file is removed at each step of a process that opens it. */
static void remove_at_each_step(bool exists)
{
	bool again = true;
	unsigned step, succeeded = 0;

	for (step = 1; again; step++) {
		if (exists)
			make_segment();
		removed = -ENOENT;
		happens_at(step, remove_it);
		open_it();
		again = has_happened();
		succeeded += removed == 0;
		assert_true(opened != -ETIMEDOUT);
		check_both();
	}
	assert_true(step > 3);
	assert_true(succeeded > 0 || !exists);
	assert_true(succeeded == 0 || exists || no_locks); /* it has the lock before the name */
}

static void a_file_is_removed_while_it_is_opened(void **state)
{
	(void)state;
	open_flags = 0;
	remove_at_each_step(true);
}

static void a_file_is_removed_while_it_is_opened_or_created(void **state)
{
	(void)state;
	open_flags = ALL;
	remove_at_each_step(true);
}

static void a_file_is_removed_while_it_is_created(void **state)
{
	(void)state;
	open_flags = ALL;
	remove_at_each_step(false);
}

/* A process opens the file at each step of one that removes it. It waits a second at most. */
static void open_at_each_step(void)
{
	bool again = true;
	unsigned step, waited = 0;

	for (step = 1; again; step++) {
		make_segment();
		opened = -ETIMEDOUT;
		happens_at(step, open_it);
		remove_it();
		again = has_happened();
		if (!again)
			assert_int_equal(removed, 0);
		waited += again && opened == -ETIMEDOUT;
		if (again)
			check_both();
	}
	assert_true(step > 6 && waited > 0);
}

static void a_file_is_opened_while_it_is_removed(void **state)
{
	(void)state;
	open_flags = ALL;
	open_at_each_step();
}

/* The same without locks of those that open. */

static int all_without_locks(void **state)
{
	(void)state;
	no_locks = true;
	return 0;
}

static int with_locks_again(void **state)
{
	(void)state;
	no_locks = false;
	return 0;
}

/* Two remove the file at once. */

static int removed_too;

static void remove_it_too(void)
{
	removed_too = percpu_segment_remove(path, 0);
}

static void two_remove_a_file_at_once(void **state)
{
	bool again = true;
	unsigned step;

	(void)state;
	for (step = 1; again; step++) {
		make_segment();
		happens_at(step, remove_it_too);
		remove_it();
		again = has_happened();
		if (!again)
			break;
		assert_true((removed == 0) != (removed_too == 0));
		assert_true(removed == 0 || removed == -ENOENT);
		assert_true(removed_too == 0 || removed_too == -EBUSY || removed_too == -ENOENT);
		assert_int_equal(access(path, F_OK), -1);
	}
	assert_true(step > 5);
}

/* Between the open call of one that removes and its lock, the file is replaced. */

static void replace_file(void)
{
	remove_it_too();
	make_segment();
	open_it();
}

static void the_file_that_was_opened_is_removed(void **state)
{
	(void)state;
	open_flags = 0;
	make_segment();
	happens_when("removal: opened", replace_file);
	remove_it();
	assert_true(has_happened());
	assert_int_equal(removed_too, 0);
	assert_int_equal(opened, 0);
	assert_int_equal(removed, -EBUSY);
	count_in_it();
	assert_int_equal(percpu_segment_remove(path, 0), 0);
}

/* The same, but no process counts in the file that has the name then. */
static void replace_by_idle_file(void)
{
	remove_it_too();
	make_segment();
}

static void a_file_that_replaces_it_is_removed(void **state)
{
	(void)state;
	make_segment();
	happens_when("removal: opened", replace_by_idle_file);
	remove_it();
	assert_true(has_happened());
	assert_int_equal(removed_too, 0);
	assert_int_equal(removed, 0);
	assert_int_equal(access(path, F_OK), -1);
}

/* A child of fork has the open file of a process that removes it, and the file gets another name: it
 * is removed from none, and is locked no longer. */

static pid_t child;

static int stay(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return 0;
}

static void fork_and_rename(void)
{
	child = test_fork(stay, NULL);
	assert_int_equal(rename(path, test_path("renamed")), 0);
}

static void children_do_not_keep_the_lock(void **state)
{
	(void)state;
	make_segment();
	happens_when("removal: locked", fork_and_rename);
	remove_it();
	assert_true(has_happened());
	assert_int_equal(removed, -ENOENT);
	assert_int_equal(percpu_segment_open(test_path("renamed"), 0, NULL, &segment), 0);
	percpu_segment_close(segment);
	assert_int_equal(percpu_segment_remove(test_path("renamed"), 0), 0);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(test_wait(child, 60), SIGKILL);
}

/* Killed. */

static int remove_and_die(void *step)
{
	happens_at(*(unsigned *)step, die);
	remove_it();
	has_happened();
	test_child_require(removed == 0, "removed");
	return 0;
}

static void killed_removals_disturb_nobody(void **state)
{
	unsigned step = 0;
	bool killed = true;

	(void)state;
	open_flags = ALL;
	while (killed) {
		make_segment();
		killed = killed_at(remove_and_die, ++step);
		open_it();
		assert_int_equal(opened, 0);
		assert_int_equal(segment->control->removal, 0);
		count_in_it();
		assert_int_equal(percpu_segment_remove(path, 0), 0);
	}
	assert_true(step > 5);
}

static int open_and_die(void *step)
{
	happens_at(*(unsigned *)step, die);
	open_it();
	has_happened();
	test_child_require(opened == 0, "opened");
	percpu_segment_close(segment);
	return 0;
}

/* A process that was killed while it opened the file does not keep it. */
static void killed_openers_keep_nothing(void **state)
{
	unsigned step = 0;
	bool killed = true;
	int e;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	open_flags = ALL;
	while (killed) {
		make_segment();
		killed = killed_at(open_and_die, ++step);
		e = percpu_segment_remove(path, 0);
		assert_int_equal(e, 0);
	}
	assert_true(step > 5);
	(void)look_at_files(true);
}

#define one(f) cmocka_unit_test(f)
#define unlocked(f) cmocka_unit_test_setup_teardown(f, all_without_locks, with_locks_again)

int main(void)
{
	const struct CMUnitTest tests[] = {
		one(a_file_is_removed_while_it_is_opened),
		one(a_file_is_removed_while_it_is_opened_or_created),
		one(a_file_is_removed_while_it_is_created),
		one(a_file_is_opened_while_it_is_removed),
		unlocked(a_file_is_removed_while_it_is_opened),
		unlocked(a_file_is_removed_while_it_is_created),
		unlocked(a_file_is_opened_while_it_is_removed),
		one(two_remove_a_file_at_once),
		one(the_file_that_was_opened_is_removed),
		one(a_file_that_replaces_it_is_removed),
		one(children_do_not_keep_the_lock),
		one(killed_removals_disturb_nobody),
		one(killed_openers_keep_nothing),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
