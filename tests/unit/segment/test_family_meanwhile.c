/* SPDX-License-Identifier: MIT */
/*
 * test_family_meanwhile.c - changes by another process, or thread, between the steps of a
 * process that makes, removes or frees series, releases, or resets the segment. Kills at these
 * steps: test_family_steps.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "picture.h"
#include "support.h"
#include "amid.h"
#include "../family_calls.h"
#include "../root_file.h"

#include "segment/segment.h"

/* A second process looks up a series at each step, without the lock. The series that stays keeps
 * its handle. */

static struct percpu_family *others; /* of t */
static struct percpu_counter *stays;
static unsigned looks;

static uint64_t rewritten; /* where the record is that was free */

static int open_other(void **state)
{
	(void)state;
	t = open_family_file(path, ALL);
	return 0;
}

static int clear(void **state)
{
	amid_nothing();
	rewritten = 0;
	looks = 0;
	return close_both(state);
}

/* Check that a record is in use only when all of it is written. */
static void look_at_record(void)
{
	static struct percpu_record_copy c;
	const struct percpu_segment_record *r = &c.head;

	if (percpu_directory_load(t, rewritten, &c) == 0 || r->state != PERCPU_RECORD_IN_USE)
		return;
	assert_int_equal(r->label_values, 6);
	assert_memory_equal(c.bytes + r->name + r->unit + r->label_names, "\5comes", 6);
}

static bool look_meanwhile(void)
{
	looks++;
	if (rewritten != 0)
		look_at_record();
	assert_ptr_equal(counter_of(others, "stays"), stays);
	return true;
}

static void others_find_what_stays(void **state)
{
	struct percpu_family *f = family_of(s, 3);

	(void)state;
	assert_int_equal(count_in(f, "goes-and-is-long", 1), 1);
	assert_int_equal(count_in(f, "stays", 1), 1);
	others = family_of(t, 3);
	stays = counter_of(others, "stays");
	assert_int_equal(percpu_segment_release_removed(t), 0);
	meanwhile = look_meanwhile;
	waits_when = "reuse: ";
	assert_int_equal(remove_value(f, "goes-and-is-long"), 0);
	waits_when = NULL;
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_segment_release_removed(t), 0);
	assert_int_equal(s->removed.n, 1);
	rewritten = s->removed.at[0].at;
	waits_when = "reuse: ";
	assert_int_equal(count_in(f, "comes", 2), 2);
	waits_when = NULL;
	assert_true(looks > 20);
	assert_int_equal(s->spare.n, 0); /* it was rewritten */
	assert_int_equal(percpu_family_overflows(f), 0);
	assert_int_equal(count_in(others, "comes", 1), 3);
	assert_int_equal(count_in(others, "stays", 1), 2);
}

/* If a series is removed between the lookup and the handle, the caller gets a new series. */

static bool remove_meanwhile(void)
{
	assert_int_equal(remove_value(others, "x"), 0);
	return false;
}

static void expect_new_series(const char *step)
{
	struct percpu_family *f = family_of(s, 3);

	others = family_of(t, 3);
	assert_int_equal(count_in(others, "x", 5), 5);
	meanwhile = remove_meanwhile;
	waits_when = step;
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_null(waits_when);
	assert_int_equal(count_in(others, "x", 1), 2);
}

static void what_goes_meanwhile_is_not_found(void **state)
{
	(void)state;
	expect_new_series("root: looked up");
}

/* If a series is removed amid the call, the time of its declaration is not returned. */
static void what_goes_meanwhile_was_not_declared(void **state)
{
	static const char *const a[] = { "a" }, *const x[] = { "x" };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "f_total",
					 .label_names = a,
					 .label_values = x,
					 .labels = 1 };
	struct percpu_segment_start moment;

	(void)state;
	others = family_of(t, 3);
	assert_int_equal(count_in(others, "x", 5), 5);
	assert_int_equal(percpu_segment_series_started(s, &m, &moment), 0);
	meanwhile = remove_meanwhile;
	waits_when = "moment: looked";
	assert_int_equal(percpu_segment_series_started(s, &m, &moment), -ENOENT);
	assert_null(waits_when);
}

static void what_goes_at_last_is_not_kept(void **state)
{
	(void)state;
	expect_new_series("segment: to be kept");
}

/* A process that is stopped while it holds the lock does not keep another process from counting. */

static bool stop_with_the_lock(void)
{
	raise(SIGSTOP);
	return false;
}

static int stop_amid(void *arg)
{
	struct percpu_segment *s = NULL;
	struct percpu_family *f;

	(void)arg;
	test_child_require(percpu_segment_open(path, ALL, NULL, &s) == 0, "a segment");
	f = family_of(s, 3);
	meanwhile = stop_with_the_lock;
	waits_when = "segment: record announced";
	(void)count_in(f, "x", 1);
	return 0;
}

static void stopped_ones_let_others_count(void **state)
{
	struct percpu_family *f = family_of(t, 3);
	int status;
	pid_t pid;

	(void)state;
	pid = test_fork(stop_amid, NULL);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(count_in(f, "y", 2), 2);
	assert_int_equal(percpu_family_overflows(f), 1);
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(test_wait(pid, 60), 0);
	assert_int_equal(count_in(f, "y", 1), 1);
	assert_int_equal(count_in(f, PERCPU_FAMILY_OVERFLOW, 0), 2);
}

/* Between the load of an epoch and its lock, another process reuses a record: the next lookup
 * finds the new series. */

static bool reuse_meanwhile(void)
{
	assert_int_equal(remove_value(others, "x"), 0);
	assert_int_equal(percpu_segment_release_removed(t), 0);
	assert_int_equal(count_in(others, "y", 7), 7);
	assert_int_equal(percpu_family_overflows(others), 0);
	return false;
}

static void late_epochs_find_what_is_there(void **state)
{
	const struct percpu_metric m = { .size = sizeof(m), .name = "m_total" };
	struct percpu_family *f;
	struct percpu_counter *c;

	(void)state;
	others = family_of(t, 1);
	assert_int_equal(count_in(others, "x", 5), 5);
	assert_int_equal(percpu_segment_counter(s, &m, &c), 0); /* all records are known */
	meanwhile = reuse_meanwhile;
	waits_when = "epoch: loaded";
	f = family_of(s, 1);
	assert_null(waits_when);
	assert_int_equal(count_in(f, "y", 1), 8);
	assert_int_equal(count_in(f, "x", 1), 1); /* in the overflow */
	assert_int_equal(percpu_family_overflows(f), 1);
}

/* Two threads hold the first epoch at once: the segment keeps one. */

static void *first_epoch;

static bool hold_epoch(void)
{
	assert_int_equal(percpu_epoch_hold(s), 0);
	first_epoch = s->epoch;
	assert_non_null(first_epoch);
	return false;
}

static void the_first_epoch_is_held_once(void **state)
{
	(void)state;
	meanwhile = hold_epoch;
	waits_when = "epoch: loaded";
	assert_int_equal(percpu_epoch_hold(s), 0);
	assert_null(waits_when);
	assert_ptr_equal(s->epoch, first_epoch);
}

/* Releasing removed handles does not give up that of a series that is removed during the call. */

static void handles_of_what_goes_meanwhile_stay(void **state)
{
	static const char *const x[] = { "x" }, *const y[] = { "y" };
	struct percpu_histogram *h, *new;
	struct percpu_family *f, *unheard;

	(void)state;
	assert_int_equal(declare_family(s, "h", PERCPU_METRIC_HISTOGRAM, 1, &f), 0);
	assert_int_equal(declare_family(t, "g_total", PERCPU_METRIC_COUNTER, 1, &unheard), 0);
	assert_int_equal(count_in(unheard, "x", 1), 1);
	assert_int_equal(percpu_family_remove(unheard, x), 0); /* makes an epoch to change to */
	assert_int_equal(declare_family(t, "h", PERCPU_METRIC_HISTOGRAM, 1, &others), 0);
	assert_int_equal(percpu_family_histogram(f, x, &h), 0);
	meanwhile = remove_meanwhile;
	waits_when = "epoch: counted";
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_null(waits_when);
	assert_int_equal(s->retired.n, 1);
	percpu_histogram_record(h, 1);
	assert_int_equal(percpu_segment_release_removed(t), 0);
	assert_int_equal(percpu_family_histogram(others, y, &new), 0);
	assert_int_equal(percpu_family_overflows(others), 1); /* s has x */
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(s->retired.n, 0);
	assert_int_equal(percpu_family_histogram(others, y, &new), 0);
	assert_int_equal(percpu_family_overflows(others), 1);
}

/* A reader that found a series amid its removal does not find it once the removal is counted. */

static struct percpu_segment *onlooker; /* read-only: it finds a series, or fails */
static uint64_t removals_then;

/* Make a series, and open the segment read-only. Returns the writer's family. */
static struct percpu_family *look_on(void)
{
	struct percpu_family *f = family_of(s, 3);

	assert_int_equal(count_in(f, "x", 1), 1);
	onlooker = open_family_file(path, 0);
	others = family_of(onlooker, 3);
	removals_then = percpu_segment_removals(onlooker);
	return f;
}

static bool look_amid_removal(void)
{
	static const char *const x[] = { "x" };
	struct percpu_counter *c = NULL;
	const bool counted = percpu_segment_removals(onlooker) != removals_then;
	const int e = percpu_family_counter(others, x, &c);

	looks += counted;
	assert_int_equal(counted ? e : 0, counted ? -EROFS : 0);
	return true;
}

static void what_is_counted_as_removed_is_not_found(void **state)
{
	struct percpu_family *f = look_on();

	(void)state;
	meanwhile = look_amid_removal;
	waits_when = "reuse: ";
	assert_int_equal(remove_value(f, "x"), 0);
	waits_when = NULL;
	assert_int_not_equal(looks, 0);
	percpu_segment_close(onlooker);
}

/* The same, if the series is removed between the lookup and the handle. */

static bool removed_when_found(void)
{
	static struct percpu_record_copy c;
	struct percpu_segment_record *r = NULL;
	uint64_t at = 0;

	while (percpu_directory_next(s, PERCPU_SERIES, &at, &c, &r))
		;
	r->state = PERCPU_RECORD_REMOVED; /* the last one */
	__atomic_store_n(&s->control->removals, removals_then + 1, __ATOMIC_RELEASE);
	return false;
}

static bool find_when_numbered(void)
{
	static const char *const x[] = { "x" };
	struct percpu_counter *c = NULL;

	meanwhile = removed_when_found;
	waits_when = "root: looked up";
	assert_int_equal(percpu_family_counter(others, x, &c), -EROFS);
	assert_null(waits_when);
	return false;
}

static void what_is_removed_when_it_is_found_is_not_there(void **state)
{
	struct percpu_family *f = look_on();

	(void)state;
	meanwhile = find_when_numbered;
	waits_when = "reuse: removal numbered";
	assert_int_equal(remove_value(f, "x"), 0);
	assert_int_equal(percpu_segment_removals(onlooker), removals_then + 1);
	percpu_segment_close(onlooker);
}

/* A picture has no series whose removal is counted. */

static struct percpu_reader *watcher;

static bool read_amid_removal(void)
{
	const bool counted = percpu_segment_removals(t) != removals_then;

	assert_int_equal(percpu_reader_read(watcher), 0);
	assert_null(picture_check(watcher, false));
	looks += counted;
	assert_int_equal(counted ? percpu_reader_count(watcher) : 1, 1);
	return true;
}

static void pictures_have_nothing_that_is_removed(void **state)
{
	struct percpu_family *f = family_of(s, 3);

	(void)state;
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(percpu_reader_open(path, &watcher), 0);
	removals_then = percpu_segment_removals(t);
	meanwhile = read_amid_removal;
	waits_when = "reuse: ";
	assert_int_equal(remove_value(f, "x"), 0);
	waits_when = NULL;
	assert_int_not_equal(looks, 0);
	percpu_reader_close(watcher);
}

/* A record is reused amid a picture. Neither this picture, which is begun again, nor the next
 * one has data of the removed series. */

/* Return the picture's value of the family's series with that label value, or -1 if it has none. */
static int64_t pictured(const char *value)
{
	struct percpu_reader_series series;
	int64_t found = -1;
	uint64_t n = 0;

	for (size_t i = 0; i < percpu_reader_count(watcher); i++) {
		assert_int_equal(percpu_reader_series(watcher, i, &series), 0);
		if (strcmp(series.label_values[0], value) != 0)
			continue;
		assert_int_equal(found, -1);
		assert_int_equal(percpu_reader_counter(watcher, i, &n), 0);
		found = (int64_t)n;
	}
	return found;
}

/* Open the watcher by the file's name, or by a descriptor. */
static void watch(bool by_name)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const int e =
		by_name ? percpu_reader_open(path, &watcher) : percpu_reader_open_fd(fd, &watcher);

	assert_int_equal(e, 0);
	assert_int_equal(close(fd), 0);
}

static void expect_other_picture(const char *step, bool again)
{
	others = family_of(t, 1);
	assert_int_equal(count_in(others, "x", 5), 5);
	watch(again);
	if (again) {
		assert_int_equal(percpu_reader_read(watcher), 0);
		assert_int_equal(pictured("x"), 5);
	}
	meanwhile = reuse_meanwhile;
	waits_when = step;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(percpu_reader_read(watcher), 0);
		assert_null(waits_when);
		assert_null(picture_check(watcher, false));
		assert_int_equal(pictured("x"), -1);
		assert_int_equal(pictured("y"), 7);
	}
	percpu_reader_close(watcher);
}

static void pictures_have_what_has_come_instead(void **state)
{
	static const char *const steps[] = { "reader: directory copied", "reader: biases copied",
					     "reader: lanes added up" };

	for (int i = 0; i < 6; i++) {
		expect_other_picture(steps[i / 2], i % 2 != 0);
		clear(state);
		open_both(state);
	}
}

/* One process finds a series amid its removal, and the process that removes it is killed. */

static bool die_when_found(void)
{
	raise(SIGKILL);
	return false;
}

static uint32_t *step_of_two; /* shared. 1: find the series; 2: it was found */

static bool let_it_be_found(void)
{
	__atomic_store_n(step_of_two, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(step_of_two, __ATOMIC_ACQUIRE) != 2)
		sched_yield();
	waits_when = "reuse: removed";
	meanwhile = die_when_found;
	return false;
}

static int remove_and_die(void *arg)
{
	struct percpu_segment *own = NULL;
	struct percpu_family *f;

	(void)arg;
	test_child_require(percpu_segment_open(path, ALL, NULL, &own) == 0, "a segment");
	f = family_of(own, 3);
	meanwhile = let_it_be_found;
	waits_when = "reuse: removal numbered";
	(void)remove_value(f, "x");
	return 1;
}

static void what_is_found_amid_a_removal_is_counted(void **state)
{
	struct percpu_family *f = family_of(t, 3);
	uint64_t before;
	int status;
	pid_t pid;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("no get_robust_list()");
	step_of_two = test_share(sizeof(*step_of_two));
	assert_int_equal(count_in(f, "x", 1), 1);
	before = percpu_segment_removals(t);
	pid = test_fork(remove_and_die, NULL);
	while (__atomic_load_n(step_of_two, __ATOMIC_ACQUIRE) != 1)
		sched_yield();
	assert_int_equal(count_in(f, "x", 1), 2);
	__atomic_store_n(step_of_two, 2, __ATOMIC_RELEASE);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(count_in(f, "y", 1), 1); /* takes the lock */
	assert_int_equal(percpu_segment_removals(t), before + 1);
	assert_int_equal(count_in(f, "x", 1), 1); /* a new series */
}

/* A size that changes between its check and the copy, or after the lookup, is not used. */

static struct percpu_segment *damaged;
static unsigned damaged_at; /* the look at which the size changes, from 1 */

static struct percpu_segment_record *record_of_x(const struct percpu_segment *of)
{
	static struct percpu_record_copy c;
	struct percpu_segment_record *r = NULL;
	uint64_t at = 0;

	while (percpu_directory_next(of, PERCPU_SERIES, &at, &c, &r))
		;
	return r; /* the last one */
}

static struct percpu_segment_record *record;

static bool damage_size(void)
{
	if (++looks < damaged_at)
		return true;
	record->size = UINT32_MAX - 7;
	return false;
}

static int free_what_has_no_object(void *arg)
{
	(void)arg;
	damaged = open_family_file(path, ALL);
	(void)family_of(damaged, 3);
	record = record_of_x(damaged);
	looks = 0;
	meanwhile = damage_size;
	waits_when = "directory: size checked";
	(void)percpu_reuse_free(damaged, 0);
	return waits_when != NULL;
}

static void sizes_are_loaded_once(void **state)
{
	static char was[PERCPU_SEGMENT_BLOCK];
	int status = 0;

	(void)state;
	assert_int_equal(count_in(family_of(s, 3), "x", 1), 1);
	record_of_x(s)->key = 0; /* as a killed process leaves it */
	memcpy(was, percpu_directory_at(s, 0), sizeof(was));
	for (damaged_at = 1; status == 0; damaged_at++) {
		status = test_wait(test_fork(free_what_has_no_object, NULL), 60);
		memcpy(percpu_directory_at(s, 0), was, sizeof(was));
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1); /* the look number damaged_at did not come */
	assert_true(damaged_at > 5);
}

/* A reset of the segment does not clear an object that has become another series' meanwhile. */

static bool replace_while_reset(void)
{
	assert_int_equal(remove_value(others, "x"), 0);
	assert_int_equal(percpu_segment_release_removed(t), 0);
	(void)count_in(others, "y", 7);
	return false;
}

static void resets_keep_objects_back(void **state)
{
	(void)state;
	others = family_of(t, 1);
	assert_int_equal(count_in(others, "x", 5), 5);
	meanwhile = replace_while_reset;
	waits_when = "segment: epoch taken";
	percpu_segment_close(open_family_file(path, PERCPU_SEGMENT_WRITE | PERCPU_SEGMENT_ANEW));
	assert_null(waits_when);
	/* The epoch of the reset kept the object of x from reuse, so y counted in the overflow. */
	assert_int_equal(percpu_family_overflows(others), 1);
	assert_int_equal(count_in(others, "y", 1), 1);
	assert_int_equal(percpu_family_overflows(others), 1);
}

/* A reset does not clear series whose family is declared during it: they are of the new
 * generation. */

static bool declare_meanwhile(void)
{
	others = family_of(t, 1);
	assert_int_equal(count_in(others, "x", 5), 5);
	return reuse_meanwhile();
}

static void resets_leave_new_families_alone(void **state)
{
	const struct percpu_metric m = { .size = sizeof(m), .name = "m_total" };
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_segment_counter(t, &m, &c), 0);
	percpu_counter_add(c, 3);
	meanwhile = declare_meanwhile;
	waits_when = "segment: epoch taken";
	percpu_segment_close(open_family_file(path, PERCPU_SEGMENT_WRITE | PERCPU_SEGMENT_ANEW));
	assert_null(waits_when);
	assert_int_equal(percpu_counter_fetch(c), 0);
	assert_int_equal(count_in(others, "y", 1), 8);
}

/* A reset does not clear series that are made after it began, in a reused record or a new one. */

static bool make_since(void)
{
	const uint64_t end = t->control->end;

	assert_int_equal(count_in(others, "y", 7), 7);
	assert_int_equal(t->control->end, end);
	assert_int_equal(count_in(others, "z", 7), 7);
	assert_true(t->control->end > end);
	return false;
}

static void make_amid_start(const char *step)
{
	others = family_of(t, 2);
	assert_int_equal(count_in(others, "x", 5), 5);
	assert_int_equal(remove_value(others, "x"), 0);
	assert_int_equal(percpu_segment_release_removed(t), 0);
	assert_int_equal(percpu_reuse_free(t, 0), 0);
	meanwhile = make_since;
	waits_when = step;
	percpu_segment_close(open_family_file(path, PERCPU_SEGMENT_WRITE | PERCPU_SEGMENT_ANEW));
	assert_null(waits_when);
	assert_int_equal(count_in(others, "y", 1), 8);
	assert_int_equal(count_in(others, "z", 1), 8);
	assert_int_equal(percpu_family_overflows(others), 0);
}

static void resets_leave_new_series_alone(void **state)
{
	(void)state;
	make_amid_start("segment: generation begun");
}

static void resets_leave_those_made_later_alone(void **state)
{
	(void)state;
	make_amid_start("segment: epoch taken");
}

/* A call ends although the directory changes at each of its looks. */

static bool change_something(void)
{
	t->control->changes += 2;
	return ++looks < 150;
}

static void others_may_change_for_ever(void **state)
{
	struct percpu_family *f = family_of(t, 3);

	(void)state;
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(remove_value(f, "x"), 0);
	meanwhile = change_something;
	waits_when = "directory: blocks found";
	assert_int_equal(percpu_segment_release_removed(t), 0);
	assert_null(waits_when);
}

/* The directory changes at each of the 100 looks of a read-only process. Then the changes end,
 * and another thread has looked. */
static struct percpu_segment *outside;
static unsigned changes;

static bool look_in_another_thread(void)
{
	assert_int_equal(percpu_directory_refresh(outside), 0);
	return false;
}

static bool change_meanwhile(void)
{
	t->control->changes += 2;
	if (--changes != 0)
		return true;
	waits_when = "moment: looked";
	meanwhile = look_in_another_thread;
	return false;
}

static void what_could_not_be_looked_for_is_not_absent(void **state)
{
	struct percpu_counter *c;
	struct percpu_segment_start m;

	(void)state;
	assert_int_equal(percpu_segment_counter(t, METRIC("a_total"), &c), 0);
	assert_int_equal(percpu_segment_open(path, 0, NULL, &outside), 0);
	changes = 100;
	meanwhile = change_meanwhile;
	waits_when = "directory: blocks found";
	assert_int_equal(percpu_segment_series_started(outside, METRIC("a_total"), &m), 0);
	assert_int_equal(changes, 0);
	assert_null(waits_when);
	percpu_segment_close(outside);
}

/* The record that s has just written loses its object, and t adds a record behind it: s does not
 * move the end back. */

static bool add_behind(void)
{
	struct percpu_counter *c;

	assert_int_equal(percpu_directory_refresh(t), 0);
	record_of_x(t)->key = 0;
	assert_int_equal(percpu_segment_counter(t, METRIC("behind_total"), &c), 0);
	percpu_counter_add(c, 3);
	t->control->changes += 2;
	return false;
}

static bool wait_for_handle(void)
{
	waits_when = "directory: blocks found";
	meanwhile = add_behind;
	return false;
}

static void the_end_does_not_go_back(void **state)
{
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_segment_counter(s, METRIC("zero_total"), &c),
			 0); /* has the block */
	meanwhile = wait_for_handle;
	waits_when = "root: set";
	assert_int_equal(percpu_segment_counter(s, METRIC("first_total"), &c), 0);
	assert_null(waits_when);
	percpu_segment_close(t);
	t = open_family_file(path, ALL);
	assert_int_equal(percpu_segment_counter(t, METRIC("behind_total"), &c), 0);
	assert_int_equal(percpu_counter_fetch(c), 3);
	assert_int_equal(t->series.used, 3);
}

/* A free record gets an object before the lock is taken, which no process may do: it is not
 * rewritten. */

static bool give_object(void)
{
	percpu_directory_at(t, rewritten)->key = 77;
	return false;
}

static bool wait_for_lock(void)
{
	waits_when = "segment: to be looked up";
	meanwhile = give_object;
	return false;
}

static void records_with_objects_are_not_rewritten(void **state)
{
	struct percpu_family *f = family_of(s, 3);

	(void)state;
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(remove_value(f, "x"), 0);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_reuse_free(s, 0), 0);
	assert_int_equal(s->spare.n, 1);
	assert_int_equal(percpu_directory_refresh(t), 0);
	rewritten = s->spare.at[0].at;
	meanwhile = wait_for_lock;
	waits_when = "segment: to be looked up";
	assert_int_equal(count_in(f, "y", 2), 2);
	assert_null(waits_when);
	assert_int_equal(percpu_directory_at(s, rewritten)->key, 77);
}

/* Another process damages the length of a free record, amid the change: the record gets the length
 * back that it had. */

static bool damage_length(void)
{
	percpu_directory_at(t, rewritten)->size = UINT32_MAX & ~7U;
	return false;
}

static void lengths_of_rewritten_records_stay(void **state)
{
	struct percpu_family *f = family_of(s, 3);
	uint32_t size;

	(void)state;
	assert_int_equal(count_in(f, "a-long-value", 1), 1);
	assert_int_equal(remove_value(f, "a-long-value"), 0);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_reuse_free(s, 0), 0);
	assert_int_equal(percpu_directory_refresh(t), 0);
	rewritten = s->spare.at[0].at;
	size = percpu_directory_at(s, rewritten)->size;
	meanwhile = damage_length;
	waits_when = "reuse: change begun";
	assert_int_equal(count_in(f, "y", 2), 2);
	assert_null(waits_when);
	assert_int_equal(s->spare.n, 0);
	assert_int_equal(percpu_directory_at(s, rewritten)->size, size);
}

/* A series whose record was a free one is removed before the call has a handle. The call writes
 * another record, which is no longer than the series needs. */
static void next_records_are_no_longer_than_needed(void **state)
{
	struct percpu_family *f = family_of(s, 3);
	static struct percpu_record_copy c;
	uint64_t end;

	(void)state;
	others = family_of(t, 3);
	assert_int_equal(count_in(f, "a-value-that-takes-much-more-room-than-x-does", 1), 1);
	assert_int_equal(remove_value(f, "a-value-that-takes-much-more-room-than-x-does"), 0);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_segment_release_removed(t), 0);
	assert_int_equal(percpu_reuse_free(s, 0), 0);
	assert_int_equal(s->spare.n, 1);
	end = percpu_directory_end(s);
	meanwhile = remove_meanwhile;
	waits_when = "segment: to be kept";
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_null(waits_when);
	assert_int_equal(s->spare.n, 0);
	assert_true(percpu_directory_load(s, end, &c) > 0);
	assert_true(c.head.size < sizeof(c.head) + 32);
}

/* A declaration that sees another kind in a record, amid its change, looks again. */

static bool rewritten_again(void)
{
	record->kind = PERCPU_METRIC_COUNTER;
	t->control->changes += 2;
	return false;
}

static bool rewrite_amid_look(void)
{
	record->kind = PERCPU_METRIC_GAUGE;
	t->control->changes += 2;
	waits_when = "directory: blocks found";
	meanwhile = rewritten_again;
	return false;
}

static void what_changes_amid_a_look_is_looked_at_again(void **state)
{
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_segment_counter(t, METRIC("a_total"), &c), 0);
	assert_int_equal(percpu_directory_refresh(s), 0);
	record = record_of_x(t);
	meanwhile = rewrite_amid_look;
	waits_when = "segment: to be looked up";
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	assert_null(waits_when);
}

/* A declaration that finds no object of the metric by a record's key, amid a change, looks
 * again. */

static uint64_t key_of_record;

static bool restore_key(void)
{
	record->key = key_of_record;
	t->control->changes += 2;
	return false;
}

static bool spoil_key(void)
{
	key_of_record = record->key;
	record->key += 64;
	waits_when = "root: looked up";
	meanwhile = restore_key;
	return false;
}

static void what_is_not_found_amid_a_change_is_looked_for_again(void **state)
{
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_segment_counter(t, METRIC("a_total"), &c), 0);
	assert_int_equal(percpu_directory_refresh(s), 0);
	record = record_of_x(t);
	meanwhile = spoil_key;
	waits_when = "segment: to be looked up";
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	assert_null(waits_when);
}

/* A record that changes while it is copied is copied again. */

static bool change_record(void)
{
	record->generation = 77;
	t->control->changes += 2;
	return false;
}

static void records_are_copied_whole(void **state)
{
	struct percpu_segment_record *r;
	struct percpu_record_copy c;
	struct percpu_counter *a;
	uint64_t at = 0;

	(void)state;
	assert_int_equal(percpu_segment_counter(t, METRIC("a_total"), &a), 0);
	assert_int_equal(percpu_directory_refresh(s), 0);
	record = record_of_x(t);
	meanwhile = change_record;
	waits_when = "directory: record copied";
	assert_true(percpu_directory_next(s, 1U << PERCPU_RECORD_IN_USE, &at, &c, &r));
	assert_null(waits_when);
	assert_int_equal(c.head.generation, 77);
}

/* A record whose size changes while it is copied is not returned. */

static bool lengthen_record(void)
{
	record->size += 8;
	t->control->changes += 2;
	return false;
}

static void records_stay_as_long_as_they_were(void **state)
{
	struct percpu_segment_record *r = NULL;
	struct percpu_record_copy c;
	struct percpu_counter *a;
	uint64_t at = 0;

	(void)state;
	assert_int_equal(percpu_segment_counter(t, METRIC("a_total"), &a), 0);
	assert_int_equal(percpu_directory_refresh(s), 0);
	record = record_of_x(t);
	meanwhile = lengthen_record;
	waits_when = "directory: record copied";
	assert_false(percpu_directory_next(s, PERCPU_SERIES, &at, &c, &r));
	assert_null(waits_when);
	assert_null(r);
	record->size -= 8;
	at = 0;
	assert_true(percpu_directory_next(s, PERCPU_SERIES, &at, &c, &r));
}

/* If the directory changes at each look, a declaration gives up after 100 looks. */

static bool change_always(void)
{
	t->control->changes += 2;
	looks++;
	return true;
}

static void declarations_do_not_last_for_ever(void **state)
{
	struct percpu_counter *c = NULL;

	(void)state;
	assert_int_equal(percpu_segment_counter(s, METRIC("zero_total"), &c),
			 0); /* has the block */
	c = NULL;
	meanwhile = change_always;
	waits_when = "segment: to be kept";
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), -ETIMEDOUT);
	waits_when = NULL;
	assert_int_equal(looks, 100);
	assert_null(c);
	assert_string_equal(percpu_error(),
			    "a_total: another process has held the segment's lock for too long");
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	assert_int_equal(s->series.used, 2);
}

/* Changes without the lock spoil one look only: for the next one, the declaration takes the
 * lock. */

static bool change_without_lock(void)
{
	return s->region->first->header->alloc_lock != 0 || change_always();
}

static void what_is_looked_up_under_the_lock_stays(void **state)
{
	struct percpu_counter *c = NULL;

	(void)state;
	assert_int_equal(percpu_segment_counter(s, METRIC("zero_total"), &c),
			 0); /* has the block */
	c = NULL;
	meanwhile = change_without_lock;
	waits_when = "segment: to be looked up";
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	waits_when = NULL;
	assert_int_equal(looks, 1);
	assert_non_null(c);
}

static void looks_for_moments_do_not_last_for_ever(void **state)
{
	struct percpu_segment_start m = { .generation = 77 };
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	meanwhile = change_always;
	waits_when = "moment: looked";
	assert_int_equal(percpu_segment_series_started(s, METRIC("a_total"), &m), -EAGAIN);
	waits_when = NULL;
	assert_int_equal(looks, 1000);
	assert_int_equal(m.generation, 77);
	assert_string_equal(percpu_error(), "a_total: the segment could not be read");
	assert_int_equal(percpu_segment_series_started(s, METRIC("a_total"), &m), 0);
}

/* If the directory changes at each look, a read-only process gives up releasing after 100 looks. */
static void who_reads_may_not_release(void **state)
{
	struct percpu_family *f = family_of(t, 3);
	void *epoch;

	(void)state;
	outside = open_family_file(path, 0);
	assert_non_null(family_of(outside, 3));
	epoch = outside->epoch;
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(remove_value(f, "x"), 0);
	meanwhile = change_always;
	waits_when = "directory: blocks found";
	assert_int_equal(percpu_segment_release_removed(outside), -ETIMEDOUT);
	waits_when = NULL;
	assert_int_equal(looks, 100);
	assert_string_equal(percpu_error(), "removed series: the segment could not be read");
	assert_ptr_equal(outside->epoch, epoch);
	assert_int_equal(percpu_segment_release_removed(outside), 0);
	percpu_segment_close(outside);
}

/* If the directory changes at each look, a writer counts in the overflow. A read-only process
 * gets an error, and stores nothing; it runs in a child, which a store would kill. */

static struct percpu_family *of_outside;

static int find_while_changing(void *arg)
{
	static const char *const x[] = { "x" };
	struct percpu_counter *c = NULL;

	(void)arg;
	meanwhile = change_always;
	waits_when = "segment: to be kept";
	test_child_require(percpu_family_counter(of_outside, x, &c) == -ETIMEDOUT, "an error");
	waits_when = NULL;
	test_child_require(looks == 100 && c == NULL, "nothing");
	test_child_require(percpu_family_counter(of_outside, x, &c) == 0, "x");
	return 0;
}

static void who_reads_overflows_nothing(void **state)
{
	static const char *const y[] = { "y" };
	struct percpu_family *f = family_of(s, 3);
	struct percpu_counter *c = NULL;

	(void)state;
	others = family_of(t, 3);
	assert_int_equal(count_in(others, "x", 1), 1);
	assert_int_equal(count_in(others, "y", 1), 1);
	outside = open_family_file(path, 0);
	of_outside = family_of(outside, 3);
	test_in_child(find_while_changing, NULL);
	assert_int_equal(percpu_family_overflows(others), 0);
	meanwhile = change_always;
	waits_when = "segment: to be kept";
	assert_int_equal(percpu_family_counter(f, y, &c), 0);
	waits_when = NULL;
	assert_ptr_equal(c, counter_of(f, PERCPU_FAMILY_OVERFLOW));
	assert_int_equal(percpu_family_overflows(f), 1);
	percpu_segment_close(outside);
}

/* If the directory changes at its first look, a read-only process finds the metric at the second
 * one. */

static bool change_once(void)
{
	t->control->changes += 2;
	return false;
}

static void who_reads_looks_again(void **state)
{
	struct percpu_counter *c = NULL;

	(void)state;
	assert_int_equal(percpu_segment_counter(t, METRIC("a_total"), &c), 0);
	percpu_counter_add(c, 3);
	outside = open_family_file(path, 0);
	meanwhile = change_once;
	waits_when = "segment: to be looked up";
	assert_int_equal(percpu_segment_counter(outside, METRIC("a_total"), &c), 0);
	assert_null(waits_when);
	assert_int_equal(percpu_counter_fetch(c), 3);
	percpu_segment_close(outside);
}

/* A declaration fails if its record has another name by then, or if another thread keeps a
 * handle of another kind for it meanwhile. */

static struct percpu_fcounter *of_other_kind;

static bool keep_other_kind(void)
{
	struct percpu_segment_record was;
	struct percpu_fcounter *c;

	record = record_of_x(t);
	was = *record;
	record->kind = PERCPU_METRIC_FCOUNTER;
	record->key = percpu_fcounter_key(of_other_kind);
	assert_int_equal(percpu_segment_fcounter(s, METRIC("b_total"), &c), 0);
	record->kind = was.kind;
	record->key = was.key;
	return false;
}

static bool rename_record(void)
{
	record = record_of_x(t);
	*(char *)(record + 1) = 'c';
	return false;
}

static void handles_are_of_what_was_declared(void **state)
{
	static bool (*const fns[])(void) = { rename_record, keep_other_kind };
	struct percpu_counter *c = NULL;

	(void)state;
	assert_int_equal(percpu_segment_fcounter(t, METRIC("a_total"), &of_other_kind), 0);
	assert_int_equal(percpu_segment_counter(t, METRIC("b_total"), &c), 0);
	c = NULL;
	for (int i = 0; i < 2; i++) {
		meanwhile = fns[i];
		waits_when = "segment: to be kept";
		assert_int_equal(percpu_segment_counter(s, METRIC("b_total"), &c), -EBADMSG);
		assert_null(waits_when);
		assert_null(c);
		*(char *)(record + 1) = 'b';
	}
}

/* Between a declaration's check and its lock, damage changes the end, or the word of a block: it
 * fails. */

static bool move_end(void)
{
	s->control->end = 5 * PERCPU_SEGMENT_BLOCK - 8;
	return false;
}

static bool move_end_next(void)
{
	waits_when = "segment: to be looked up";
	meanwhile = move_end;
	return false;
}

/* Declare a metric, or a series of f. Damage of the file must not count as an overflow. */
static void declare_in_damaged(struct percpu_family *f)
{
	static const char *const x[] = { "x" };
	struct percpu_counter *c = NULL;
	const int e = f != NULL ? percpu_family_counter(f, x, &c) :
				  percpu_segment_counter(s, METRIC("b_total"), &c);

	assert_null(waits_when);
	assert_int_equal(e, -EBADMSG);
	assert_null(c);
	assert_string_equal(percpu_error(), f != NULL ? "f_total: the file is damaged" :
							"b_total: the file is damaged");
	assert_int_equal(percpu_family_overflows(f), 0);
}

static void ends_in_no_block_are_damage(void **state)
{
	/* Words of a block: none, and values that are no key. */
	static const uint64_t keys[] = { 0, 1, UINT64_MAX };
	const size_t n = sizeof(keys) / sizeof(keys[0]);
	struct percpu_family *const f = family_of(s, 3);
	const uint64_t end = s->control->end;

	(void)state;
	assert_int_equal(percpu_directory_refresh(s), 0);
	for (size_t i = 0; i < 2 * n; i++) {
		s->control->block[4] = keys[i % n];
		meanwhile = move_end_next;
		waits_when = "segment: to be looked up";
		declare_in_damaged(i < n ? NULL : f);
		s->control->end = end;
	}
	s->control->block[4] = 0;
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 0);
}

/* Another process fills the family before this one has the lock. */

static bool fill_family(void)
{
	assert_int_equal(count_in(others, "y", 1), 1);
	assert_int_equal(count_in(others, "z", 1), 1);
	return false;
}

static void families_fill_up_meanwhile(void **state)
{
	struct percpu_family *f = family_of(s, 2);

	(void)state;
	others = family_of(t, 2);
	meanwhile = fill_family;
	waits_when = "root: looked up";
	assert_int_equal(count_in(f, "x", 5), 5);
	assert_null(waits_when);
	assert_int_equal(percpu_family_overflows(f), 1);
	assert_int_equal(count_in(others, "x", 1), 6); /* x is in the overflow, like that of s */
	assert_int_equal(count_in(others, "y", 1), 2);
}

static bool set_block(void)
{
	s->control->block[1] = percpu_fcounter_key(of_other_kind);
	return false;
}

static bool set_block_next(void)
{
	waits_when = "root: looked up";
	meanwhile = set_block;
	return false;
}

/* A declaration makes a block, and a series is removed meanwhile. The next try lets removed series
 * be freed, and makes no block. */

static bool remove_x_while_a_block_is_made(void)
{
	if (++looks == 1)
		return true;
	assert_int_equal(remove_value(others, "x"), 0);
	return false;
}

static void blocks_are_made_once(void **state)
{
	struct percpu_counter *c = NULL;

	(void)state;
	assert_non_null(family_of(s, 3));
	others = family_of(t, 3);
	assert_int_equal(count_in(others, "x", 1), 1);
	s->control->end = PERCPU_SEGMENT_BLOCK; /* so that another block is needed */
	meanwhile = remove_x_while_a_block_is_made;
	waits_when = "root: looked up";
	assert_int_equal(percpu_segment_counter(s, METRIC("b_total"), &c), 0);
	assert_null(waits_when);
	assert_int_equal(looks, 2);
	assert_non_null(c);
}

static void blocks_that_are_none_are_damage(void **state)
{
	struct percpu_family *const f = family_of(s, 3);
	struct percpu_counter *c = NULL;

	(void)state;
	assert_int_equal(percpu_segment_fcounter(s, METRIC("a_total"), &of_other_kind), 0);
	s->control->end = PERCPU_SEGMENT_BLOCK; /* so that another block is needed */
	for (int i = 0; i < 2; i++) {
		meanwhile = set_block_next;
		waits_when = "root: looked up";
		declare_in_damaged(i == 0 ? NULL : f);
		s->control->block[1] = 0;
	}
	assert_int_equal(percpu_segment_counter(s, METRIC("b_total"), &c), 0);
	assert_int_equal(s->control->block[1] != 0, 1);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 0);
}

/* A process checks the removed and half made records that it knows before it frees them. */

static void what_is_in_use_is_not_freed(void **state)
{
	struct percpu_family *f = family_of(s, 3);
	uint64_t key;

	(void)state;
	assert_int_equal(count_in(f, "x", 1), 1);
	record = record_of_x(s);
	key = record->key;
	assert_int_equal(remove_value(f, "x"), 0);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	record->state = PERCPU_RECORD_IN_USE;
	assert_int_equal(percpu_reuse_free(s, 0), 0);
	assert_int_equal(record->state, PERCPU_RECORD_IN_USE);
	assert_int_equal(record->key, key);
	record->state = PERCPU_RECORD_REMOVED;
	assert_int_equal(percpu_reuse_free(s, 0), 0);
	assert_int_equal(record->state, PERCPU_RECORD_FREE);
}

static void half_made_ones_of_no_family_stay(void **state)
{
	(void)state;
	assert_int_equal(count_in(family_of(s, 3), "x", 1), 1);
	record = record_of_x(s);
	record->key = 0;
	assert_int_equal(percpu_directory_refresh(t), 0);
	assert_int_equal(t->unkeyed, 1);
	*(char *)(record + 1) = 'g'; /* another name */
	assert_int_equal(percpu_reuse_free(t, 0), 0);
	assert_int_equal(record->state, PERCPU_RECORD_IN_USE);
	assert_int_equal(t->spare.n, 0);
}

/* Of two half made records of the same name, only one is in the table. The other one is found
 * when the table is made again. */
static void half_made_twins_go(void **state)
{
	struct percpu_family *f = family_of(s, 3);
	struct percpu_segment_record *first;

	(void)state;
	assert_int_equal(count_in(f, "x", 1), 1);
	first = record_of_x(s);
	assert_int_equal(count_in(f, "y", 1), 1);
	record = record_of_x(s);
	first->key = record->key = 0;
	memcpy(record + 1, first + 1, first->size - sizeof(*first));
	assert_int_equal(percpu_reuse_free(t, 0), 0);
	assert_int_equal(percpu_directory_refresh(t), 0);
	assert_int_equal(percpu_reuse_free(t, 0), 0);
	assert_int_equal(first->state, PERCPU_RECORD_FREE);
	assert_int_equal(record->state, PERCPU_RECORD_FREE);
	assert_int_equal(percpu_directory_refresh(t), 0);
	assert_int_equal(t->spare.n, 2);
}

/* In a damaged file the only series disappears: its handle stays until the process releases. */
static void the_last_handle_is_kept(void **state)
{
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("h"), NULL, &h), 0);
	record_of_x(s)->state = PERCPU_RECORD_REMOVED;
	t->control->changes += 2;
	assert_int_equal(percpu_directory_refresh(s), 0);
	assert_int_equal(s->series.used, 0);
	assert_int_equal(s->retired.n, 1);
	percpu_histogram_record(h, 1);
}

/* Two threads open the owners of a segment at once: both get the same object. */

static struct percpu_owners *owners_there;

static bool open_owners(void)
{
	int e;

	owners_there = percpu_segment_owners(s, &e);
	return false;
}

static void owners_are_opened_once(void **state)
{
	struct percpu_owners *o;
	int e;

	(void)state;
	meanwhile = open_owners;
	waits_when = "root: looked up";
	o = percpu_segment_owners(s, &e);
	assert_null(waits_when);
	assert_ptr_equal(o, owners_there);
	assert_non_null(owners_there);
}

/* Two threads declare a family at once: both get the same one. */

static struct percpu_family *family_there;

static bool have_family(void)
{
	family_there = family_of(s, 3);
	return false;
}

static void families_are_entered_once(void **state)
{
	struct percpu_family *f;

	(void)state;
	meanwhile = have_family;
	waits_when = "family: to be entered";
	f = family_of(s, 3);
	assert_null(waits_when);
	assert_ptr_equal(f, family_there);
	assert_non_null(family_there);
}

#define both(f) cmocka_unit_test_setup_teardown(f, open_both, clear)
#define other(f) cmocka_unit_test_setup_teardown(f, open_other, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		both(others_find_what_stays),
		both(what_goes_meanwhile_is_not_found),
		both(what_goes_at_last_is_not_kept),
		both(what_goes_meanwhile_was_not_declared),
		other(stopped_ones_let_others_count),
		both(late_epochs_find_what_is_there),
		both(the_first_epoch_is_held_once),
		both(handles_of_what_goes_meanwhile_stay),
		both(what_is_counted_as_removed_is_not_found),
		both(what_is_removed_when_it_is_found_is_not_there),
		both(pictures_have_nothing_that_is_removed),
		both(pictures_have_what_has_come_instead),
		other(what_is_found_amid_a_removal_is_counted),
		both(sizes_are_loaded_once),
		other(resets_keep_objects_back),
		other(resets_leave_new_families_alone),
		other(resets_leave_new_series_alone),
		other(resets_leave_those_made_later_alone),
		other(others_may_change_for_ever),
		both(what_could_not_be_looked_for_is_not_absent),
		both(the_end_does_not_go_back),
		both(what_changes_amid_a_look_is_looked_at_again),
		both(records_with_objects_are_not_rewritten),
		both(lengths_of_rewritten_records_stay),
		both(next_records_are_no_longer_than_needed),
		both(what_is_not_found_amid_a_change_is_looked_for_again),
		both(records_are_copied_whole),
		both(records_stay_as_long_as_they_were),
		both(declarations_do_not_last_for_ever),
		both(what_is_looked_up_under_the_lock_stays),
		both(looks_for_moments_do_not_last_for_ever),
		other(who_reads_may_not_release),
		both(who_reads_overflows_nothing),
		other(who_reads_looks_again),
		both(handles_are_of_what_was_declared),
		both(ends_in_no_block_are_damage),
		both(families_fill_up_meanwhile),
		both(blocks_are_made_once),
		both(blocks_that_are_none_are_damage),
		both(what_is_in_use_is_not_freed),
		both(half_made_ones_of_no_family_stay),
		both(half_made_twins_go),
		both(the_last_handle_is_kept),
		both(owners_are_opened_once),
		both(families_are_entered_once),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
