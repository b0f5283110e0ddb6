/* SPDX-License-Identifier: MIT */
/*
 * test_family_steps.c - processes that make, remove, find and free series, and are killed at each
 * step. What other processes do at these steps: test_family_meanwhile.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"
#include "amid.h"
#include "../family_calls.h"
#include "../root_file.h"

#include "segment/segment.h"

static const char *const x[] = { "x" };

/* Return the units of 8 bytes in use: the control, a block of records, what a family has for
 * itself, and the others. */
static unsigned units(unsigned others)
{
	return (unsigned)(sizeof(struct percpu_segment_control) + PERCPU_SEGMENT_BLOCK) / 8 + 2 +
	       others;
}

/* Skip the test, and remove the file, if locks of killed processes are not taken over. */
static void need_robust_locks(void)
{
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
}

/* A process is killed at each step, and so are the next ones: every series is there once, and
 * nothing is lost or leaks. */

static int come_and_go(void *arg)
{
	struct percpu_segment *s = NULL;
	struct percpu_family *f;
	bool good;
	int e;

	dies_at = *(unsigned *)arg;
	e = percpu_segment_open(path, ALL, NULL, &s);
	test_child_require(e == 0, strerror(-e));
	f = family_of(s, 3);
	good = f != NULL && count_in(f, "a", 1) >= 1 && count_in(f, "b", 1) >= 1 &&
	       remove_value(f, "a") == 0 && count_in(f, "c", 1) >= 1 && count_in(f, "a", 1) == 1 &&
	       remove_value(f, "c") == 0;
	dies_at = 0;
	test_child_require(good, percpu_error());
	test_child_require(percpu_family_overflows(f) == 0, "nothing overflows");
	percpu_segment_close(s);
	return 0;
}

/* Remove all series, and let them be freed. Returns the segment, without a family. */
static struct percpu_segment *free_all(struct percpu_segment *s, struct percpu_family *f)
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(remove_value(f, (const char *const[]){ "a", "b", "c" }[i]), 0);
	percpu_segment_close(s);
	s = open_family_file(path, ALL);
	percpu_series_free_removed(s);
	assert_int_equal(s->control->changes % 2, 0);
	return s;
}

static void no_step_loses_anything(void **state)
{
	const unsigned stride = test_rounds(10) < 10 ? 7 : 1;
	struct percpu_segment *s;
	struct percpu_family *f;
	bool killed = true;
	unsigned step;
	int64_t n;

	(void)state;
	need_robust_locks();
	for (step = 1; killed; step += stride) {
		percpu_segment_close(open_family_file(path, ALL));
		killed = killed_at(come_and_go, step);
		for (unsigned i = 1; i < 4; i++)
			(void)killed_at(come_and_go, step % 37 + i * 29);
		s = open_family_file(path, ALL);
		f = family_of(s, 3);
		assert_non_null(f);
		for (int i = 0; i < 3; i++) {
			n = count_in(f, (const char *const[]){ "a", "b", "c" }[i], 1);
			assert_in_range(n, 1, 5);
		}
		assert_int_equal(percpu_family_overflows(f), 0);
		s = free_all(s, f);

		assert_int_equal(used(), units(0));
		assert_true(s->control->end <= 16 * 128);
		percpu_segment_close(s);
		assert_int_equal(unlink(path), 0);
	}
	assert_true(step > 100);
}

/* A killed process leaves an odd number of changes at most: the next one that has the lock makes it
 * even, and the series is used, removed or free. */

static int remove_and_die(void *arg)
{
	struct percpu_segment *s = NULL;
	struct percpu_family *f;

	test_child_require(percpu_segment_open(path, ALL, NULL, &s) == 0, "open");
	f = family_of(s, 1);
	test_child_require(f != NULL, "family");
	dies_at = *(unsigned *)arg;
	test_child_require(remove_value(f, "x") == 0, "removed");
	dies_at = 0;
	percpu_segment_close(s);
	return 0;
}

static void removals_are_whole_or_none(void **state)
{
	bool killed = true, removed = false;
	struct percpu_counter *c;
	struct percpu_family *f;
	char name[32];
	uint64_t n;
	unsigned step;

	need_robust_locks();
	(void)open_both(state);
	f = family_of(s, 1);
	assert_int_equal(count_in(f, "x", 5), 5);
	for (step = 1; killed; step++) {
		n = (uint64_t)count_in(f, "x", 0);
		killed = killed_at(remove_and_die, step);
		assert_true(!removed || !killed || n == 1); /* later steps leave it removed */
		snprintf(name, sizeof(name), "m%u_total", step);
		assert_int_equal(percpu_segment_counter(t, METRIC(name), &c), 0); /* no change */
		assert_int_equal(s->control->changes % 2, 0);
		removed = count_in(f, "x", 1) == 1;
		assert_true(removed || killed);
		assert_int_equal(count_in(f, "x", 0), removed ? 1 : (int64_t)n + 1);
		assert_int_equal(percpu_family_overflows(f), 0);
		assert_int_equal(percpu_directory_refresh(s), 0);
		percpu_segment_close(t);
		t = open_family_file(path, ALL);
		assert_int_equal(count_in(family_of(t, 1), "x", 0), removed ? 1 : (int64_t)n + 1);
	}
	assert_true(step > 5 && removed);
	assert_int_equal(close_both(state), 0);
}

/* Processes that are killed while they find a removed series: it begins at 0 for the next one. */

static unsigned found_kind;

static int find_and_die(void *arg)
{
	const bool histogram = found_kind == PERCPU_METRIC_HISTOGRAM;
	struct percpu_segment *s = NULL;
	struct percpu_extrema *extrema;
	struct percpu_histogram *h;
	struct percpu_family *f;
	int e;

	test_child_require(percpu_segment_open(path, ALL, NULL, &s) == 0, "open");
	e = declare_family(s, histogram ? "j" : "k", found_kind, 1, &f);
	test_child_require(e == 0, "family");
	dies_at = *(unsigned *)arg;
	e = histogram ? percpu_family_histogram(f, x, &h) : percpu_family_extrema(f, x, &extrema);
	dies_at = 0;
	test_child_require(e == 0, "found");
	percpu_segment_close(s);
	return 0;
}

static uint64_t count_of(struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *shot;
	uint64_t n;

	assert_int_equal(percpu_histogram_snapshot_create(h, &shot), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, shot), 0);
	n = shot->count;
	percpu_histogram_snapshot_destroy(shot);
	return n;
}

static void histograms_begin_anew(void **state)
{
	struct percpu_histogram *h;
	struct percpu_family *f;
	bool killed = true;
	unsigned step;

	need_robust_locks();
	(void)open_both(state);
	found_kind = PERCPU_METRIC_HISTOGRAM;
	assert_int_equal(declare_family(s, "j", found_kind, 1, &f), 0);
	for (step = 1; killed; step += test_rounds(10) < 10 ? 5 : 1) {
		assert_int_equal(percpu_family_record(f, x, 1), 0);
		assert_int_equal(percpu_family_histogram(f, x, &h), 0);
		assert_int_equal(percpu_family_remove(f, x), 0);
		percpu_histogram_record(h, 1);
		killed = killed_at(find_and_die, step);
		assert_int_equal(percpu_family_record(f, x, 1), 0);
		assert_int_equal(count_of(h), 1);
		assert_int_equal(percpu_family_overflows(f), 0);
	}
	assert_true(step > 20);
	assert_int_equal(close_both(state), 0);
}

static void extrema_begin_anew(void **state)
{
	struct percpu_extrema *h;
	struct percpu_family *f;
	int64_t least, most;
	bool killed = true;
	unsigned step;

	need_robust_locks();
	(void)open_both(state);
	found_kind = PERCPU_METRIC_EXTREMA;
	assert_int_equal(declare_family(s, "k", found_kind, 1, &f), 0);
	for (step = 1; killed; step += test_rounds(10) < 10 ? 5 : 1) {
		assert_int_equal(percpu_family_extrema(f, x, &h), 0);
		assert_int_equal(percpu_extrema_observe(h, 100), 0);
		assert_int_equal(percpu_family_remove(f, x), 0);
		killed = killed_at(find_and_die, step);
		assert_int_equal(percpu_family_extrema(f, x, &h), 0);
		assert_int_equal(percpu_extrema_observe(h, 7), 0);
		assert_int_equal(percpu_extrema_fetch(h, &least, &most), 0);
		assert_true(least == 7 && most == 7);
		assert_int_equal(percpu_family_overflows(f), 0);
	}
	assert_true(step > 20);
	assert_int_equal(close_both(state), 0);
}

/* Removed objects are freed while the process is killed at each step. An owned gauge has blocks of
 * shares, which are freed one after the other. */

static int make_removed(void *arg)
{
	struct percpu_segment *s = NULL;
	struct percpu_owned_gauge *o;
	struct percpu_family *f = NULL;
	int e = percpu_segment_open(path, ALL, NULL, &s);

	(void)arg;
	if (e == 0)
		e = declare_family(s, "o", PERCPU_METRIC_OWNED_GAUGE, 1, &f);
	if (e == 0)
		e = percpu_family_owned_gauge(f, x, &o);
	if (e == 0)
		e = percpu_owned_gauge_add(o, 1);
	if (e == 0)
		e = percpu_family_remove(f, x);
	test_child_require(e == 0 && percpu_family_overflows(f) == 0, percpu_error());
	percpu_segment_close(s);
	return 0;
}

/* As above, without the gauge. */
static int make_family(void *arg)
{
	struct percpu_segment *s = NULL;
	struct percpu_family *f = NULL;
	int e = percpu_segment_open(path, ALL, NULL, &s);

	(void)arg;
	if (e == 0)
		e = declare_family(s, "o", PERCPU_METRIC_OWNED_GAUGE, 1, &f);
	if (e == 0)
		e = percpu_segment_join(s, "owner", 0);
	test_child_require(e == 0, percpu_error());
	percpu_segment_close(s);
	return 0;
}

static int free_and_die(void *arg)
{
	struct percpu_segment *s = NULL;

	test_child_require(percpu_segment_open(path, ALL, NULL, &s) == 0, "open");
	dies_at = *(unsigned *)arg;
	percpu_series_free_removed(s);
	dies_at = 0;
	percpu_segment_close(s);
	return 0;
}

static void shares_are_freed_with_their_gauge(void **state)
{
	unsigned step, units_then, i;
	struct percpu_segment *s;
	bool killed = true;

	(void)state;
	need_robust_locks();
	if (!percpu_pair_is_atomic())
		test_skip("there are no such gauges here");
	percpu_segment_close(open_family_file(path, ALL));
	test_in_child(make_family, NULL);
	units_then = used();
	assert_int_equal(unlink(path), 0);
	for (step = 1; killed; step += test_rounds(10) < 10 ? 3 : 1) {
		percpu_segment_close(open_family_file(path, ALL));
		test_in_child(make_removed, NULL);
		killed = killed_at(free_and_die, step);
		for (i = step % 7 + 1; i < 3; i++)
			(void)killed_at(free_and_die, i * 5);
		s = open_family_file(path, ALL);
		percpu_series_free_removed(s);
		assert_int_equal(s->control->changes % 2, 0);
		assert_int_equal(used(), units_then);
		percpu_segment_close(s);
		assert_int_equal(unlink(path), 0);
	}
	assert_true(step > 10);
}

/* Make a series, and die when its record is there and its object is not. */

struct half {
	size_t cap;
	const char *value;
};

static bool die(void)
{
	raise(SIGKILL);
	return false;
}

static int make_half(void *arg)
{
	const struct half *h = arg;
	struct percpu_segment *s = NULL;
	struct percpu_family *f;

	test_child_require(percpu_segment_open(path, ALL, NULL, &s) == 0, "open");
	f = family_of(s, h->cap);
	test_child_require(f != NULL, "family");
	meanwhile = die;
	waits_when = "segment: record announced";
	return count_in(f, h->value, 1) >= 0;
}

static void leave_half(size_t cap, const char *value)
{
	struct half h = { cap, value };

	assert_int_equal(test_wait(test_fork(make_half, &h), 60), SIGKILL);
}

/* Half made series count for the cap. The next call for them completes them, or removes them, and
 * their memory is that of no other series. */
static void half_made_series_are_completed(void **state)
{
	struct percpu_family *f;
	uint64_t end;

	need_robust_locks();
	(void)open_both(state);
	f = family_of(s, 3);
	assert_non_null(f);
	leave_half(3, "one");
	leave_half(3, "two");
	leave_half(3, "two-three"); /* the first two are in the way of no other */
	end = s->control->end;
	assert_int_equal(count_in(f, "z", 4), 4); /* there is no room */
	assert_int_equal(percpu_family_overflows(f), 1);
	assert_int_equal(count_in(f, "one", 1), 1);
	assert_int_equal(count_in(f, "one", 1), 2);
	assert_int_equal(remove_value(f, "two"), 0);
	assert_int_equal(remove_value(f, "two"), -ENOENT);
	assert_int_equal(count_in(f, "two", 3), 3); /* it is found again, without an object */
	assert_int_equal(remove_value(f, "two-three"), 0);
	assert_int_equal(percpu_family_overflows(f), 1);
	assert_int_equal(s->control->end, end);
	percpu_segment_close(s);
	s = open_family_file(path, ALL);
	f = family_of(s, 3); /* frees the last one, which has no object */
	assert_int_equal(count_in(f, "z", 4), 4);
	assert_int_equal(percpu_family_overflows(f), 1);
	assert_int_equal(count_in(f, "one", 0), 2);
	assert_int_equal(close_both(state), 0);
}

/* A process is killed when the record of a family's overflow is there, and its object is not. Room
 * is needed, and the record stays. */

static unsigned announced; /* records */

static bool die_at_the_second(void)
{
	if (++announced == 2)
		raise(SIGKILL);
	return true;
}

static int make_half_overflow(void *arg)
{
	struct percpu_segment *s = NULL;

	(void)arg;
	test_child_require(percpu_segment_open(path, ALL, NULL, &s) == 0, "open");
	meanwhile = die_at_the_second;
	waits_when = "segment: record announced";
	return family_of(s, 1) != NULL;
}

static void half_made_overflows_are_completed(void **state)
{
	struct percpu_family *f;
	uint64_t end;

	need_robust_locks();
	(void)open_both(state);
	assert_int_equal(test_wait(test_fork(make_half_overflow, NULL), 60), SIGKILL);
	end = s->control->end;
	f = family_of(s, 1);
	assert_int_equal(s->control->end, end);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(count_in(f, "y", 2), 2); /* in the overflow */
	assert_int_equal(percpu_family_overflows(f), 1);
	assert_int_equal(close_both(state), 0);
}

/* Processes are killed amid a reset of the segment. A series that comes back meanwhile is of the
 * new generation, and the completed reset leaves it alone. */

static int start_and_die(void *arg)
{
	struct percpu_segment *s = NULL;

	(void)arg;
	meanwhile = die;
	waits_when = "segment: present";
	return percpu_segment_open(path, PERCPU_SEGMENT_ANEW, NULL, &s) != 0;
}

static void resets_leave_what_comes_back_alone(void **state)
{
	struct percpu_family *f;

	need_robust_locks();
	(void)open_both(state);
	f = family_of(s, 3);
	assert_int_equal(count_in(f, "x", 5), 5);
	assert_int_equal(count_in(f, "y", 6), 6);
	assert_int_equal(remove_value(f, "x"), 0);
	assert_int_equal(test_wait(test_fork(start_and_die, NULL), 60), SIGKILL);
	assert_int_equal(s->control->completed, 1);
	assert_int_equal(count_in(f, "x", 7), 7);
	assert_int_equal(count_in(f, "y", 0), 6);
	percpu_segment_close(t);
	t = open_family_file(path, 0);
	assert_int_equal(s->control->completed, 2);
	assert_int_equal(count_in(f, "x", 0), 7);
	assert_int_equal(count_in(f, "y", 0), 0);
	assert_int_equal(close_both(state), 0);
}

static int clear(void **state)
{
	(void)state;
	amid_nothing();
	(void)unlink(path);
	return 0;
}

#define clean(f) cmocka_unit_test_teardown(f, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		clean(no_step_loses_anything),
		clean(removals_are_whole_or_none),
		clean(histograms_begin_anew),
		clean(extrema_begin_anew),
		clean(shares_are_freed_with_their_gauge),
		clean(half_made_series_are_completed),
		clean(half_made_overflows_are_completed),
		clean(resets_leave_what_comes_back_alone),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
