/* SPDX-License-Identifier: MIT */
/*
 * test_family_steps.c - processes that make, remove and free series, and are killed at each
 * step. What other processes do at these steps: test_family_meanwhile.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"
#include "amid.h"
#include "../family_calls.h"
#include "../root_file.h"

#include "segment/segment.h"

/* Return the units of 8 bytes in use: the control, a block of records, what a family has for
 * itself, and the others. */
static unsigned units(unsigned others)
{
	return (unsigned)(sizeof(struct percpu_segment_control) + PERCPU_SEGMENT_BLOCK) / 8 + 2 +
	       others;
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
	       remove_value(f, "a") == 0 && percpu_segment_release_removed(s) == 0 &&
	       count_in(f, "c", 1) >= 1 && count_in(f, "a", 1) == 1 && remove_value(f, "c") == 0;
	dies_at = 0;
	test_child_require(good, percpu_error());
	test_child_require(percpu_family_overflows(f) == 0, "nothing overflows");
	percpu_segment_close(s);
	return 0;
}

static void remove_all(struct percpu_segment *s, struct percpu_family *f)
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(remove_value(f, (const char *const[]){ "a", "b", "c" }[i]), 0);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_reuse_free(s, 0), 0);
	assert_int_equal(s->removed.n, 0);
	assert_int_equal(s->control->changes % 2, 0);
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
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
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
		assert_int_equal(s->series.used, 4);
		remove_all(s, f);
		assert_int_equal(used(), units(0));
		assert_int_equal(s->series.used, 1);
		assert_true(s->control->end <= 8 * 128);
		percpu_segment_close(s);
		assert_int_equal(unlink(path), 0);
	}
	assert_true(step > 100);
}

/* Free an owned gauge. It has blocks of shares, which are freed one after the other. */
static int free_and_die(void *arg)
{
	static const char *const x[] = { "x" };
	struct percpu_family *f = NULL;
	struct percpu_segment *s = NULL;
	struct percpu_owned_gauge *o;
	int e = percpu_segment_open(path, ALL, NULL, &s);

	if (e == 0)
		e = declare_family(s, "o", PERCPU_METRIC_OWNED_GAUGE, 1, &f);
	if (e == 0)
		e = percpu_family_owned_gauge(f, x, &o);
	if (e == 0)
		e = percpu_owned_gauge_add(o, 1);
	if (e == 0)
		e = percpu_family_remove(f, x);
	if (e == 0)
		e = percpu_segment_release_removed(s);
	dies_at = *(unsigned *)arg;
	if (e == 0)
		e = percpu_reuse_free(s, 0);
	dies_at = 0;
	test_child_require(e == 0, strerror(-e));
	percpu_segment_close(s);
	return 0;
}

static void shares_are_freed_with_their_gauge(void **state)
{
	const unsigned stride = test_rounds(10) < 10 ? 3 : 1;
	struct percpu_segment *s;
	unsigned step, units_then;
	bool killed = true;

	(void)state;
	if (!percpu_status()->robust || !percpu_pair_is_atomic())
		test_skip("locks are not taken over here, or there are no such gauges");
	percpu_segment_close(open_family_file(path, ALL));
	assert_false(killed_at(free_and_die, 0));
	units_then = used();
	for (step = 1; killed; step += stride) {
		killed = killed_at(free_and_die, step);
		s = open_family_file(path, ALL);
		percpu_reuse_await_change(s); /* if the process died amid a change */
		assert_int_equal(s->control->changes % 2, 0);
		assert_int_equal(percpu_directory_refresh(s), 0);
		assert_int_equal(percpu_reuse_free(s, 0), 0);
		assert_int_equal(s->removed.n, 0);
		assert_int_equal(used(), units_then);
		percpu_segment_close(s);
	}
	assert_true(step > 10);
	assert_int_equal(unlink(path), 0);
}

/* A series without an object is removed between the lookup and the handle, and its record is
 * reused: the caller gets a new series. */

static struct percpu_family *others; /* of t */

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

static bool replace_meanwhile(void)
{
	assert_int_equal(remove_value(others, "x"), 0);
	assert_int_equal(percpu_segment_release_removed(t), 0);
	assert_int_equal(count_in(others, "y", 7), 7);
	return false;
}

static void records_without_objects_may_go(void **state)
{
	struct percpu_family *f;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	percpu_segment_close(open_family_file(path, ALL));
	leave_half(3, "x");
	(void)open_both(state);
	f = family_of(s, 1);
	assert_null(f);
	f = family_of(s, 3);
	others = family_of(t, 3);
	meanwhile = replace_meanwhile;
	waits_when = "root: looked up";
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_null(waits_when);
	assert_int_equal(s->removed.n, 1);
	assert_int_equal(percpu_directory_at(s, s->removed.at[0].at)->key, 0);
	assert_int_equal(count_in(others, "y", 0), 7);
	assert_int_equal(count_in(others, "x", 0), 1);
	remove_value(f, "x");
	remove_value(f, "y");
	percpu_segment_close(t);
	t = NULL;
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_reuse_free(s, 0), 0);
	assert_int_equal(used(), units(0));
	assert_int_equal(close_both(state), 0);
}

/* A process makes a series in the record of a longer one. Before it keeps the handle, the series is
 * removed, and another process is killed when it has written it at the end. The first process makes
 * the object there, and does not write the record. */

static bool replace_by_half(void)
{
	assert_int_equal(remove_value(others, "x"), 0);
	leave_half(3, "x");
	return false;
}

static void records_are_rewritten_once(void **state)
{
	static const char longer[] = "the value of a series whose record is longer than others";
	struct percpu_segment *later;
	struct percpu_family *f;

	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	(void)open_both(state);
	f = family_of(s, 3);
	others = family_of(t, 3);
	assert_int_equal(count_in(others, longer, 1), 1);
	assert_int_equal(remove_value(others, longer), 0);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_segment_release_removed(t), 0);
	assert_int_equal(percpu_reuse_free(t, 0), 0);
	assert_int_equal(t->spare.n, 1);
	meanwhile = replace_by_half;
	waits_when = "segment: to be kept";
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_null(waits_when);
	assert_int_equal(count_in(others, "y", 2), 2);
	later = open_family_file(path, ALL);
	f = family_of(later, 3);
	assert_int_equal(count_in(f, "x", 0), 1);
	assert_int_equal(count_in(f, "y", 0), 2);
	percpu_segment_close(later);
	assert_int_equal(close_both(state), 0);
}

/* Half made series go, although no process asks for their values again. */
static void half_made_series_go(void **state)
{
	struct percpu_segment *s = open_family_file(path, ALL);
	struct percpu_family *f = family_of(s, 2);

	(void)state;
	if (!percpu_status()->robust) {
		percpu_segment_close(s);
		assert_int_equal(unlink(path), 0);
		test_skip("locks are not taken over here");
	}
	assert_non_null(f);
	leave_half(2, "gone");
	leave_half(2, "lost");
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(count_in(f, "y", 2), 2);
	assert_int_equal(percpu_family_overflows(f), 0);
	assert_int_equal(count_in(f, "z", 4), 4); /* the family is full */
	assert_int_equal(percpu_family_overflows(f), 1);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
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

static void half_made_overflows_stay(void **state)
{
	struct percpu_segment *s = open_family_file(path, ALL);
	struct percpu_family *f;

	(void)state;
	if (!percpu_status()->robust) {
		percpu_segment_close(s);
		assert_int_equal(unlink(path), 0);
		test_skip("locks are not taken over here");
	}
	assert_int_equal(test_wait(test_fork(make_half_overflow, NULL), 60), SIGKILL);
	assert_int_equal(percpu_directory_refresh(s), 0);
	assert_int_equal(s->unkeyed, 1);
	assert_int_equal(percpu_reuse_free(s, 0), 0);
	assert_int_equal(percpu_segment_removals(s), 0);
	assert_int_equal(s->spare.n, 0);
	f = family_of(s, 1);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(count_in(f, "y", 2), 2); /* in the overflow */
	assert_int_equal(percpu_family_overflows(f), 1);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* A process is killed when the series is removed, and the removal is not counted. A process that
 * releases next, or declares its first family, has no handle of the series, and need not release
 * again. */

static int remove_and_die(void *arg)
{
	struct percpu_segment *s = NULL;
	struct percpu_family *f;

	(void)arg;
	test_child_require(percpu_segment_open(path, ALL, NULL, &s) == 0, "open");
	f = family_of(s, 1);
	test_child_require(f != NULL, "family");
	meanwhile = die;
	waits_when = "reuse: removed";
	return remove_value(f, "x");
}

static void cut_removals_are_removals(bool releases)
{
	struct percpu_segment *u = NULL;
	struct percpu_family *f;

	s = open_family_file(path, ALL);
	f = family_of(s, 1);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(test_wait(test_fork(remove_and_die, NULL), 60), SIGKILL);
	if (!releases) {
		u = open_family_file(path, ALL);
		assert_non_null(family_of(u, 1));
	}
	assert_int_equal(percpu_segment_release_removed(s), 0);
	t = open_family_file(path, ALL);
	others = family_of(t, 1);
	assert_int_equal(count_in(others, "y", 1), 1);
	assert_int_equal(percpu_family_overflows(others), 0);
	assert_int_equal(percpu_segment_removals(s), 1);
	percpu_segment_close(u);
	assert_int_equal(close_both(NULL), 0);
}

static void removals_that_were_cut_short_are_completed(void **state)
{
	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	cut_removals_are_removals(true);
	cut_removals_are_removals(false);
}

/* The same for an owned gauge that a killed process left with a part of its shares, or with
 * none. */

static int own_and_die(void *arg)
{
	static const char *const x[] = { "x" };
	struct percpu_family *f = NULL;
	struct percpu_segment *s = NULL;
	struct percpu_owned_gauge *o;
	int e = percpu_segment_open(path, ALL, NULL, &s);

	if (e == 0)
		e = declare_family(s, "o", PERCPU_METRIC_OWNED_GAUGE, 1, &f);
	dies_at = *(unsigned *)arg;
	if (e == 0)
		e = percpu_family_owned_gauge(f, x, &o);
	dies_at = 0;
	test_child_require(e == 0, strerror(-e));
	percpu_segment_close(s);
	return 0;
}

/* Make another series: there is room if x is removed, or was never there. */
static void replace_owned(struct percpu_segment *s, int64_t n)
{
	static const char *const x[] = { "x" }, *const y[] = { "y" };
	struct percpu_owned_gauge *o;
	struct percpu_family *f;
	int64_t sum = -1;
	int e;

	assert_int_equal(declare_family(s, "o", PERCPU_METRIC_OWNED_GAUGE, 1, &f), 0);
	if (percpu_directory_refresh(s) == 0 && s->unkeyed == 0) {
		e = percpu_family_remove(f, x);
		assert_true(e == 0 || e == -ENOENT);
	}
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_family_owned_gauge(f, y, &o), 0);
	assert_int_equal(percpu_family_overflows(f), 0);
	assert_int_equal(percpu_owned_gauge_add(o, n), 0);
	assert_int_equal(percpu_owned_gauge_fetch(o, PERCPU_OWNED_LIVING, &sum), 0);
	assert_int_equal(sum, n);
	assert_int_equal(percpu_family_remove(f, y), 0);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_reuse_free(s, 0), 0);
}

static void half_made_owned_gauges_go(void **state)
{
	const unsigned stride = test_rounds(10) < 10 ? 3 : 1;
	unsigned step, units_then = 0;
	struct percpu_segment *s;
	bool killed = true;

	(void)state;
	if (!percpu_status()->robust || !percpu_pair_is_atomic())
		test_skip("locks are not taken over here, or there are no such gauges");
	for (step = 1; killed; step += stride) {
		killed = killed_at(own_and_die, step);
		s = open_family_file(path, ALL);
		replace_owned(s, step);
		assert_int_equal(s->removed.n, 0);
		if (units_then == 0)
			units_then = used();
		assert_int_equal(used(), units_then);
		percpu_segment_close(s);
	}
	assert_true(step > 10);
	assert_int_equal(unlink(path), 0);
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
		clean(shares_are_freed_with_their_gauge),
		clean(records_without_objects_may_go),
		clean(records_are_rewritten_once),
		clean(half_made_series_go),
		clean(half_made_overflows_stay),
		clean(half_made_owned_gauges_go),
		clean(removals_that_were_cut_short_are_completed),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
