/* SPDX-License-Identifier: MIT */
/*
 * test_family_meanwhile.c - changes by another process, or thread, between the steps of a
 * process that makes, removes, finds or frees series, or resets the segment. Kills at these
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

static const char *const x[] = { "x" };
static struct percpu_family *others; /* of t */
static unsigned looks;

static int open_other(void **state)
{
	(void)state;
	t = open_family_file(path, ALL);
	return 0;
}

static int clear(void **state)
{
	amid_nothing();
	looks = 0;
	return close_both(state);
}

/* Removing and finding. */

static bool remove_meanwhile(void)
{
	assert_int_equal(remove_value(others, "x"), 0);
	return false;
}

static bool find_meanwhile(void)
{
	assert_int_equal(count_in(others, "x", 7), 7);
	return false;
}

/* Another process finds a removed series before this one has the lock: the series begins anew
 * once. */
static void removed_series_begin_anew_once(void **state)
{
	struct percpu_family *f = family_of(s, 3);

	(void)state;
	others = family_of(t, 3);
	assert_int_equal(count_in(f, "x", 5), 5);
	assert_int_equal(remove_value(f, "x"), 0);
	meanwhile = find_meanwhile;
	waits_when = "segment: alone";
	assert_int_equal(count_in(f, "x", 1), 8);
	assert_null(waits_when);
	assert_int_equal(count_in(others, "x", 1), 9);
	assert_int_equal(percpu_family_overflows(f), 0);
}

/* Another thread of this process is resetting the object: this one waits, and resets nothing. */

static bool find_in_vain(void)
{
	looks++;
	assert_int_equal(count_in(others, "x", 7), 7); /* after a second, in the overflow */
	return false;
}

static void objects_are_reset_by_one_thread(void **state)
{
	struct percpu_family *f = family_of(s, 3);

	(void)state;
	others = f;
	assert_int_equal(count_in(f, "x", 5), 5);
	assert_int_equal(remove_value(f, "x"), 0);
	meanwhile = find_in_vain;
	waits_when = "remove: object renewed";
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(looks, 1);
	assert_int_equal(percpu_family_overflows(f), 1);
	assert_int_equal(count_in(f, "x", 0), 1);
}

/* A series is removed between the look-up and the handle: the caller gets the handle of the removed
 * series, and the next call lets it begin anew. */
static void what_goes_meanwhile_keeps_its_handle(void **state)
{
	static const char *const steps[] = { "root: looked up", "segment: to be kept",
					     "family: to be entered in the table" };
	struct percpu_counter *c = NULL;
	struct percpu_family *f;

	for (int i = 0; i < 3; i++) {
		f = family_of(s, 3);
		others = family_of(t, 3);
		assert_int_equal(count_in(others, "x", 5), 5);
		meanwhile = remove_meanwhile;
		waits_when = steps[i];
		assert_int_equal(percpu_family_counter(f, x, &c), 0);
		assert_null(waits_when);
		percpu_counter_add(c, 1);
		assert_int_equal(percpu_counter_fetch(c), 6);
		assert_int_equal(count_in(f, "x", 1), 1);
		assert_ptr_equal(counter_of(f, "x"), c);
		assert_int_equal(count_in(others, "x", 1), 2);
		assert_int_equal(percpu_family_overflows(f), 0);
		clear(state);
		open_both(state);
	}
}

/* A process looks at each step of a change: what it found before has the same handle. Records in use
 * have their start times. */

static struct percpu_counter *stays;
static struct percpu_segment_record *record;

static struct percpu_segment_record *record_of_x(const struct percpu_segment *of)
{
	static struct percpu_record_copy c;
	struct percpu_segment_record *r = NULL;
	uint64_t at = 0;

	while (percpu_directory_next(of, PERCPU_SERIES, &at, &c, &r))
		;
	return r; /* the last one */
}

static bool look_amid_change(void)
{
	looks++;
	assert_ptr_equal(counter_of(others, "stays"), stays);
	if (record->state == PERCPU_RECORD_IN_USE)
		assert_int_not_equal(record->declared.real, 77);
	return true;
}

static void others_look_amid_changes(void **state)
{
	struct percpu_family *f = family_of(s, 3);

	(void)state;
	assert_int_equal(count_in(f, "stays", 1), 1);
	assert_int_equal(count_in(f, "x", 1), 1);
	others = family_of(t, 3);
	stays = counter_of(others, "stays");
	record = record_of_x(s);
	meanwhile = look_amid_change;
	for (int i = 0; i < 3; i++) {
		waits_when = "remove: ";
		assert_int_equal(remove_value(f, "x"), 0);
		record->declared.real = 77;
		assert_int_equal(count_in(f, "x", 2), 2);
		waits_when = NULL;
	}
	assert_true(looks >= 3 * 6);
	assert_int_equal(count_in(others, "stays", 1), 2);
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

/* Presence. */

static struct percpu_segment *freeing; /* has no family */

/* Let x be removed by a process that is present, and goes. Then free what can be. */
static bool remove_and_free(void)
{
	struct percpu_segment *u = open_family_file(path, ALL);

	assert_int_equal(remove_value(family_of(u, 1), "x"), 0);
	percpu_segment_close(u);
	percpu_series_free_removed(freeing);
	return false;
}

/* Let nobody be present, and let t have entered the record of x, which is removed if told to. */
static void leave_x(bool removes)
{
	struct percpu_family *f = family_of(s, 1);

	assert_int_equal(count_in(f, "x", 5), 5);
	assert_int_equal(percpu_directory_refresh(t), 0);
	record = record_of_x(t);
	if (removes)
		assert_int_equal(remove_value(f, "x"), 0);
	percpu_segment_close(s);
	s = NULL;
	freeing = open_family_file(path, ALL);
}

static void expect_room(struct percpu_segment *of)
{
	struct percpu_family *f = family_of(of, 1);

	assert_int_equal(record->state, PERCPU_RECORD_FREE);
	assert_int_equal(count_in(f, "y", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 0);
}

static void expect_kept(struct percpu_segment *of)
{
	struct percpu_family *f = family_of(of, 1);

	assert_int_equal(record->state, PERCPU_RECORD_REMOVED);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 0);
}

/* Freed series count for the cap no more in a process that had entered them: it has freed them, or
 * another one did, before it was present. */
static void freed_series_leave_room(void **state)
{
	(void)state;
	leave_x(true);
	expect_room(t);
	percpu_segment_close(freeing);
}

static void what_others_free_first_leaves_room(void **state)
{
	(void)state;
	leave_x(false);
	meanwhile = remove_and_free;
	waits_when = "remove: to be present";
	expect_room(t);
	assert_null(waits_when);
	percpu_segment_close(freeing);
}

/* Nobody frees series once the process is present, though it does not have the family yet. */
static void those_who_come_keep_all(void **state)
{
	(void)state;
	leave_x(false);
	meanwhile = remove_and_free;
	waits_when = "remove: presence locked";
	expect_kept(t);
	assert_null(waits_when);
	percpu_segment_close(freeing);
}

/* A process comes while another one frees. It has no family before that one is done. If it came
 * before the second look for others, nothing is freed. */

static bool come_too_early(void)
{
	struct percpu_family *f = NULL;

	assert_int_equal(declare_family(t, "f_total", PERCPU_METRIC_COUNTER, 1, &f), -ETIMEDOUT);
	assert_null(f);
	return false;
}

static void those_who_come_amid_a_change_keep_all(void **state)
{
	(void)state;
	leave_x(true);
	meanwhile = come_too_early;
	waits_when = "remove: change begun";
	percpu_series_free_removed(freeing);
	assert_null(waits_when);
	expect_kept(t);
	percpu_segment_close(freeing);
}

static void those_who_come_later_count_again(void **state)
{
	(void)state;
	leave_x(true);
	meanwhile = come_too_early;
	waits_when = "remove: object freed";
	percpu_series_free_removed(freeing);
	assert_null(waits_when);
	expect_room(t);
	percpu_segment_close(freeing);
}

/* Two threads declare the first family at once: the segment has one presence. */

static void *first_presence;

static bool be_present(void)
{
	assert_int_equal(percpu_presence_hold(s), 0);
	first_presence = s->presence;
	assert_non_null(first_presence);
	return false;
}

static void the_first_presence_is_held_once(void **state)
{
	(void)state;
	meanwhile = be_present;
	waits_when = "remove: to be present";
	assert_int_equal(percpu_presence_hold(s), 0);
	assert_null(waits_when);
	assert_ptr_equal(s->presence, first_presence);
}

/* Pictures. */

static struct percpu_reader *watcher;

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

/* A picture has the series while it is in use, and no other value than the series has. */

static int64_t now_is; /* the value of x, if it is in use */

static bool read_amid_change(void)
{
	looks++;
	assert_int_equal(percpu_reader_read(watcher), 0);
	assert_null(picture_check(watcher, false));
	assert_int_equal(pictured("x"), record->state == PERCPU_RECORD_IN_USE ? now_is : -1);
	assert_int_equal(pictured("z"), 3);
	assert_int_equal(pictured(PERCPU_FAMILY_OVERFLOW), -1);
	return true;
}

static void pictures_have_nothing_that_is_removed(void **state)
{
	struct percpu_family *f = family_of(s, 3);

	(void)state;
	assert_int_equal(count_in(f, "z", 3), 3);
	assert_int_equal(count_in(f, "x", 5), 5);
	record = record_of_x(s);
	assert_int_equal(percpu_reader_open(path, &watcher), 0);
	meanwhile = read_amid_change;
	for (int i = 0; i < 2; i++) {
		now_is = i == 0 ? 5 : 2;
		waits_when = "remove: ";
		assert_int_equal(remove_value(f, "x"), 0);
		(void)read_amid_change();
		assert_int_equal(pictured("x"), -1);
		now_is = 0;
		assert_non_null(counter_of(f, "x"));
		assert_int_equal(pictured("x"), 0);
		assert_int_equal(count_in(f, "x", 2), 2);
		waits_when = NULL;
	}
	assert_true(looks > 10);
	percpu_reader_close(watcher);
}

/* The cells of x become those of y amid a picture, as no process is present. Neither this picture
 * nor the next one has data of the removed series. The next one has y. */

/* Open the watcher by the file's name, or by a descriptor. */
static void watch(bool by_name)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const int e =
		by_name ? percpu_reader_open(path, &watcher) : percpu_reader_open_fd(fd, &watcher);

	assert_int_equal(e, 0);
	assert_int_equal(close(fd), 0);
}

static bool replace_meanwhile(void)
{
	assert_int_equal(remove_value(others, "x"), 0);
	percpu_segment_close(t);
	t = open_family_file(path, ALL);
	others = family_of(t, 1);
	assert_int_equal(count_in(others, "y", 7), 7);
	assert_int_equal(percpu_family_overflows(others), 0);
	return false;
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
	meanwhile = replace_meanwhile;
	waits_when = step;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(percpu_reader_read(watcher), 0);
		assert_null(waits_when);
		assert_null(picture_check(watcher, false));
		assert_int_equal(pictured("x"), -1);
		assert_int_equal(pictured("y"), i == 0 ? -1 : 7);
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

/* A size that changes between its check and the copy, or after the lookup, is not used. */

static struct percpu_segment *damaged;
static unsigned damaged_at; /* the look at which the size changes, from 1 */

static bool damage_size(void)
{
	if (++looks < damaged_at)
		return true;
	record->size = UINT32_MAX - 7;
	return false;
}

static int free_what_is_removed(void *arg)
{
	(void)arg;
	damaged = open_family_file(path, ALL);
	assert_int_equal(percpu_directory_refresh(damaged), 0);
	looks = 0;
	meanwhile = damage_size;
	waits_when = "directory: size checked";
	record = percpu_directory_at(damaged, 0);
	for (int i = 0; i < 2; i++) /* to the third one */
		record = (struct percpu_segment_record *)((char *)record + record->size);
	percpu_series_free_removed(damaged);
	return waits_when != NULL;
}

static void sizes_are_loaded_once(void **state)
{
	static char was[PERCPU_SEGMENT_BLOCK];
	int status = 0;

	(void)state;
	leave_x(true);
	memcpy(was, percpu_directory_at(t, 0), sizeof(was));
	for (damaged_at = 1; status == 0; damaged_at++) {
		status = test_wait(test_fork(free_what_is_removed, NULL), 60);
		memcpy(percpu_directory_at(t, 0), was, sizeof(was));
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1); /* the look number damaged_at did not come */
	assert_true(damaged_at > 3);
	percpu_segment_close(freeing);
}

/* Resets. */

/* A reset is present while it resets objects: none becomes another series' meanwhile. */

static bool all_go_while_reset(void)
{
	percpu_segment_close(t);
	t = NULL;
	percpu_series_free_removed(freeing);
	return false;
}

static void resets_keep_objects_back(void **state)
{
	(void)state;
	others = family_of(t, 1);
	assert_int_equal(count_in(others, "x", 5), 5);
	freeing = open_family_file(path, ALL);
	assert_int_equal(percpu_directory_refresh(freeing), 0);
	record = record_of_x(freeing);
	assert_int_equal(remove_value(others, "x"), 0);
	meanwhile = all_go_while_reset;
	waits_when = "segment: present";
	percpu_segment_close(open_family_file(path, PERCPU_SEGMENT_ANEW));
	assert_null(waits_when);
	assert_int_equal(record->state, PERCPU_RECORD_REMOVED);
	percpu_series_free_removed(freeing); /* the reset is over */
	assert_int_equal(record->state, PERCPU_RECORD_FREE);
	percpu_segment_close(freeing);
}

/* A reset does not clear series that are made after it began, nor those whose family is declared
 * during it. They are of the new generation. */

static bool make_since(void)
{
	if (others == NULL)
		others = family_of(t, 3);
	assert_int_equal(count_in(others, "y", 7), 7);
	return false;
}

static void make_amid_start(const char *step)
{
	if (others != NULL) {
		assert_int_equal(count_in(others, "x", 5), 5);
	}
	meanwhile = make_since;
	waits_when = step;
	percpu_segment_close(open_family_file(path, PERCPU_SEGMENT_ANEW));
	assert_null(waits_when);
	assert_int_equal(count_in(others, "x", 1), 1);
	assert_int_equal(count_in(others, "y", 1), 8);
	assert_int_equal(percpu_family_overflows(others), 0);
}

static void resets_leave_new_series_alone(void **state)
{
	(void)state;
	others = family_of(t, 3);
	make_amid_start("segment: present");
}

static void resets_leave_new_families_alone(void **state)
{
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_segment_counter(t, METRIC("m_total"), &c), 0);
	percpu_counter_add(c, 3);
	others = NULL;
	make_amid_start("segment: generation begun");
	assert_int_equal(percpu_counter_fetch(c), 0);
}

/* Records. */

static bool change_always(void)
{
	t->control->changes += 2;
	looks++;
	return true;
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

/* A declaration fails if another thread keeps a handle of another kind for its record meanwhile. */

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

static void handles_are_of_what_was_declared(void **state)
{
	struct percpu_counter *c = NULL;

	(void)state;
	assert_int_equal(percpu_segment_fcounter(t, METRIC("a_total"), &of_other_kind), 0);
	assert_int_equal(percpu_segment_counter(t, METRIC("b_total"), &c), 0);
	c = NULL;
	meanwhile = keep_other_kind;
	waits_when = "segment: to be kept";
	assert_int_equal(percpu_segment_counter(s, METRIC("b_total"), &c), -EBADMSG);
	assert_null(waits_when);
	assert_null(c);
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
	waits_when = "lock: armed";
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

static void blocks_that_are_none_are_damage(void **state)
{
	struct percpu_family *const f = family_of(s, 3);
	struct percpu_counter *c = NULL;

	(void)state;
	assert_int_equal(percpu_segment_fcounter(s, METRIC("a_total"), &of_other_kind), 0);
	s->control->end = PERCPU_SEGMENT_BLOCK; /* so that another block is needed */
	for (int i = 0; i < 2; i++) {
		meanwhile = set_block;
		waits_when = "root: looked up";
		declare_in_damaged(i == 0 ? NULL : f);
		s->control->block[1] = 0;
	}
	assert_int_equal(percpu_segment_counter(s, METRIC("b_total"), &c), 0);
	assert_int_equal(s->control->block[1] != 0, 1);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 0);
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
		both(removed_series_begin_anew_once),
		both(objects_are_reset_by_one_thread),
		both(what_goes_meanwhile_keeps_its_handle),
		both(others_look_amid_changes),
		both(what_goes_meanwhile_was_not_declared),
		both(freed_series_leave_room),
		both(what_others_free_first_leaves_room),
		both(those_who_come_keep_all),
		both(those_who_come_amid_a_change_keep_all),
		both(those_who_come_later_count_again),
		both(the_first_presence_is_held_once),
		both(pictures_have_nothing_that_is_removed),
		both(sizes_are_loaded_once),
		both(records_are_copied_whole),
		both(records_stay_as_long_as_they_were),
		both(looks_for_moments_do_not_last_for_ever),
		both(handles_are_of_what_was_declared),
		both(ends_in_no_block_are_damage),
		both(families_fill_up_meanwhile),
		both(blocks_that_are_none_are_damage),
		both(owners_are_opened_once),
		both(families_are_entered_once),
		other(stopped_ones_let_others_count),
		other(pictures_have_what_has_come_instead),
		other(resets_keep_objects_back),
		other(resets_leave_new_series_alone),
		other(resets_leave_new_families_alone),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
