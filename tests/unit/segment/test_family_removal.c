/* SPDX-License-Identifier: MIT */
/*
 * test_family_removal.c - series that are removed: which processes still find them, and when
 * their objects and records are reused. With kills and forks: test_family_steps.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"
#include "../family_calls.h"
#include "../root_file.h"

#include "segment/segment.h"

static struct percpu_family *f, *g; /* of s, of t */

static int declare_both(void **state)
{
	(void)open_both(state);
	f = family_of(s, 3);
	g = family_of(t, 3);
	return 0;
}

static void close_other(void)
{
	percpu_segment_close(t);
	t = NULL;
}

static void all_release(void)
{
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_segment_release_removed(t), 0);
}

static void removed_series_begin_at_0(void **state)
{
	struct percpu_counter *old, *new;

	(void)state;
	assert_int_equal(count_in(f, "x", 5), 5);
	old = counter_of(g, "x");
	assert_int_equal(remove_value(f, "x"), 0);
	percpu_counter_add(old, 7); /* is lost */
	assert_int_equal(count_in(f, "x", 0), 0);
	new = counter_of(g, "x");
	assert_int_equal(percpu_counter_fetch(new), 0);
	percpu_counter_add(new, 2);
	assert_int_equal(count_in(f, "x", 1), 3);
	assert_int_equal(percpu_counter_fetch(old), 12);
	all_release();
	assert_int_equal(count_in(f, "x", 0), 3);
	assert_int_equal(count_in(g, "x", 0), 3);
	assert_int_equal(count_in(f, PERCPU_FAMILY_OVERFLOW, 0), 0);
}

static void what_is_not_there_is_not_removed(void **state)
{
	(void)state;
	assert_int_equal(remove_value(f, "x"), -ENOENT);
	assert_string_equal(percpu_error(), "f_total: there is no such series");
	assert_int_equal(count_in(g, "x", 1), 1);
	assert_int_equal(remove_value(f, "x"), 0);
	assert_int_equal(remove_value(f, "x"), -ENOENT);
	assert_int_equal(remove_value(g, "x"), -ENOENT);
	assert_int_equal(remove_value(f, PERCPU_FAMILY_OVERFLOW), -EINVAL);
	assert_string_equal(percpu_error(), "f_total: the overflow stays");
	assert_int_equal(percpu_segment_release_removed(NULL), -EINVAL);
}

/* percpu_error() is about the last call that failed: a later success does not change it. */
static void success_leaves_the_sentence(void **state)
{
	static const char *const names[] = { "a" };
	static const char *const values[] = { "x" };
	const struct percpu_metric x = { .size = sizeof(x),
					 .name = "f_total",
					 .label_names = names,
					 .label_values = values,
					 .labels = 1 };
	const struct percpu_metric y = { .size = sizeof(y), .name = "y_total" };
	struct percpu_counter *c;
	const struct percpu_declaration row = {
		.size = sizeof(row), .metric = &y, .kind = PERCPU_METRIC_COUNTER, .ret = &c
	};
	struct percpu_segment_start at;
	const char *sentence;

	(void)state;
	assert_int_equal(remove_value(f, "x"), -ENOENT);
	sentence = percpu_error();
#define EXPECT_SAME(call)                                                                          \
	do {                                                                                       \
		assert_int_equal(call, 0);                                                         \
		assert_ptr_equal(percpu_error(), sentence);                                        \
		assert_string_equal(sentence, "f_total: there is no such series");                 \
	} while (0)
	EXPECT_SAME(percpu_family_counter(f, values, &c));
	EXPECT_SAME(percpu_segment_series_started(s, &x, &at));
	EXPECT_SAME(remove_value(f, "x"));
	EXPECT_SAME(percpu_segment_release_removed(s));
	EXPECT_SAME(family_of(s, 3) != f);
	EXPECT_SAME(percpu_segment_counter(s, &y, &c));
	EXPECT_SAME(percpu_segment_declare(s, &row, 1));
	EXPECT_SAME(percpu_segment_started(s, &at));
}

/* A process that has released can have handles of series that are removed later. */
static void who_has_released_holds_the_rest(void **state)
{
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(count_in(f, "a", 1), 1);
	assert_int_equal(count_in(f, "b", 1), 1);
	assert_int_equal(count_in(f, "c", 1), 1);
	c = counter_of(f, "b");
	assert_int_equal(remove_value(g, "a"), 0);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(remove_value(g, "b"), 0);
	assert_int_equal(percpu_segment_release_removed(t), 0);
	assert_int_equal(count_in(g, "d", 1), 1); /* in place of a */
	assert_int_equal(count_in(g, "e", 1), 1); /* b's place is not free */
	assert_int_equal(percpu_family_overflows(g), 1);
	percpu_counter_add(c, 100);
	assert_int_equal(count_in(g, "d", 0), 1);
	assert_int_equal(count_in(g, "e", 0), 1);
}

/* Damage the file: mark the first record of that kind as removed. Let the process see it, and
 * release. */
static void lose_first(unsigned kind)
{
	struct percpu_segment_record *r;
	uint64_t at = 0;

	for (r = percpu_directory_at(s, 0); r->kind != kind || r->state != PERCPU_RECORD_IN_USE;
	     r = percpu_directory_at(s, at))
		at += r->size;
	r->removal = 1;
	r->state = PERCPU_RECORD_REMOVED;
	s->control->removals = 1;
	s->control->changes += 2;
	assert_int_equal(percpu_segment_release_removed(s), 0);
}

/* A damaged file has the overflow marked as removed: the family keeps its handle. */
static void overflows_stay(void **state)
{
	static const char *const x[] = { "x" }, *const y[] = { "y" };
	struct percpu_histogram *h = NULL;
	struct percpu_family *family;

	(void)state;
	assert_int_equal(declare_family(s, "h", PERCPU_METRIC_HISTOGRAM, 1, &family), 0);
	lose_first(PERCPU_METRIC_HISTOGRAM);
	assert_int_equal(s->retired.n, 1);
	assert_int_equal(percpu_family_histogram(family, x, &h), 0);
	assert_int_equal(percpu_family_histogram(family, y, &h), 0);
	percpu_histogram_record(h, 1);
}

/* A damaged file has a metric marked as removed that is of no family: its handle stays. */
static void metrics_stay(void **state)
{
	struct percpu_histogram *h = NULL;
	struct percpu_counter *c;

	(void)state;
	c = counter_of(f, "a");
	assert_int_equal(percpu_segment_histogram(s, METRIC("alone"), NULL, &h), 0);
	lose_first(PERCPU_METRIC_HISTOGRAM);
	assert_int_equal(s->retired.n, 1);
	assert_ptr_equal(s->retired.at[0].handle, h);
	percpu_histogram_record(h, 1);
	percpu_counter_add(c, 1);
}

/* A damaged file has another family of this name now. */
static void families_that_have_changed_are_damage(void **state)
{
	static const char *const x[] = { "x" };
	struct percpu_segment_record *r;
	struct percpu_counter *c = NULL;
	uint64_t at = 0;

	(void)state;
	for (r = percpu_directory_at(s, 0); r->cap == 0; r = percpu_directory_at(s, at))
		at += r->size;
	r->kind = PERCPU_METRIC_GAUGE;
	s->control->changes += 2;
	assert_int_equal(percpu_family_counter(f, x, &c), -EBADMSG);
	assert_string_equal(percpu_error(), "f_total: the file is damaged: the family is another "
					    "one there");
	assert_null(c);
}

/* A removed series counts towards the cap until each process with handles has released. */
static void caps_count_what_may_be_in_use(void **state)
{
	(void)state;
	assert_int_equal(count_in(f, "a", 1), 1);
	assert_int_equal(count_in(f, "b", 1), 1);
	assert_int_equal(count_in(f, "c", 1), 1);
	assert_int_equal(remove_value(f, "b"), 0);
	assert_int_equal(count_in(f, "d", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 1);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(count_in(f, "d", 1), 2);
	assert_int_equal(percpu_family_overflows(f), 2);
	assert_int_equal(percpu_segment_release_removed(t), 0);
	assert_int_equal(count_in(f, "d", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 2);
	assert_int_equal(count_in(g, "d", 1), 2);
	assert_int_equal(count_in(g, "e", 0), 2);
	assert_int_equal(percpu_family_overflows(f), 3);
	assert_int_equal(count_in(f, PERCPU_FAMILY_OVERFLOW, 0), 2);
}

/* The same for other processes: one that knew the series, and one that never saw it. */
static void caps_count_what_others_have_removed(void **state)
{
	struct percpu_family *of_third;
	struct percpu_segment *third;
	uint64_t end;

	(void)state;
	assert_int_equal(count_in(f, "a", 1), 1);
	assert_int_equal(count_in(f, "b", 1), 1);
	assert_int_equal(count_in(f, "c", 1), 1);
	assert_int_equal(count_in(g, "b", 1), 2);
	assert_int_equal(remove_value(f, "b"), 0);
	end = s->control->end;
	third = open_family_file(path, ALL);
	of_third = family_of(third, 3);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(count_in(i == 0 ? of_third : g, "d", 1), i + 1);
		assert_int_equal(percpu_family_overflows(f), i + 1);
	}
	assert_int_equal(s->control->end, end);
	assert_int_equal(percpu_segment_release_removed(third), 0);
	all_release();
	assert_int_equal(count_in(of_third, "d", 1), 1);
	assert_int_equal(count_in(g, "d", 1), 2);
	assert_int_equal(percpu_family_overflows(f), 2);
	percpu_segment_close(third);
}

/* A series that is removed after the other process has released stays. */
static void handles_stay_until_the_next_time(void **state)
{
	struct percpu_counter *held;

	(void)state;
	held = counter_of(g, "a");
	all_release();
	percpu_counter_add(held, 1);
	assert_int_equal(remove_value(f, "a"), 0);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	for (int i = 0; i < 3; i++)
		(void)count_in(f, (const char *const[]){ "b", "c", "d" }[i], 100);
	assert_int_equal(percpu_counter_fetch(held), 1);
	percpu_counter_add(held, 1);
	assert_int_equal(count_in(f, "b", 0), 100);
	assert_int_equal(count_in(f, "d", 0), 100);
	assert_int_equal(percpu_family_overflows(f), 2);
}

/* A segment that has declared no family keeps no removed series from reuse. */
static void others_hold_nothing(void **state)
{
	struct percpu_segment *other = open_family_file(path, ALL);
	const struct percpu_metric m = { .size = sizeof(m), .name = "m_total" };
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_segment_counter(other, &m, &c), 0);
	assert_int_equal(count_in(f, "a", 1), 1);
	assert_int_equal(remove_value(f, "a"), 0);
	close_other();
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_segment_release_removed(other), 0);
	assert_null(other->epoch);
	for (int i = 0; i < 3; i++)
		assert_int_equal(count_in(f, (const char *const[]){ "b", "c", "d" }[i], 1), 1);
	assert_int_equal(percpu_family_overflows(f), 0);
	percpu_counter_add(c, 1);
	percpu_segment_close(other);
}

/* A record is written in place of a removed one if it fits there, else at the end. */
static void records_are_rewritten(void **state)
{
	char longer[200];
	uint64_t end;

	(void)state;
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(count_in(f, "long-enough", 1), 1);
	assert_int_equal(count_in(f, "b", 1), 1);
	end = s->control->end;
	assert_int_equal(remove_value(f, "long-enough"), 0);
	all_release();
	assert_int_equal(count_in(f, "short", 4), 4);
	assert_int_equal(s->control->end, end);
	assert_int_equal(count_in(g, "short", 1), 5);
	assert_int_equal(remove_value(f, "short"), 0);
	all_release();
	assert_int_equal(count_in(f, longer, 1), 1);
	assert_true(s->control->end > end);
	end = s->control->end;
	assert_int_equal(count_in(f, "long-enough", 1), 1); /* in the old place */
	assert_int_equal(s->control->end, end);
	assert_int_equal(count_in(g, "long-enough", 1), 2);
	assert_int_equal(count_in(g, longer, 1), 2);
	assert_int_equal(count_in(g, "b", 0), 1);
	assert_int_equal(s->control->changes % 2, 0);
	assert_int_equal(s->control->removals, 2);
}

/* A series may be in the place of another family's series, before its own family's record. */
static void series_precede_their_family(void **state)
{
	struct percpu_segment *third;
	struct percpu_family *e;
	uint64_t end;

	(void)state;
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(remove_value(f, "x"), 0);
	all_release();
	assert_int_equal(declare_family(s, "e_total", PERCPU_METRIC_COUNTER, 2, &e), 0);
	end = s->control->end;
	assert_int_equal(count_in(e, "y", 3), 3);
	assert_int_equal(s->control->end, end); /* in place of x */
	third = open_family_file(path, ALL);
	assert_int_equal(declare_family(third, "e_total", PERCPU_METRIC_COUNTER, 2, &e), 0);
	assert_int_equal(count_in(e, "y", 1), 4);
	assert_int_equal(count_in(e, "z", 1), 1);
	assert_int_equal(count_in(e, "w", 1), 1);
	assert_int_equal(percpu_family_overflows(e), 1);
	percpu_segment_close(third);
}

/* A process that has released has no handle of a removed series, even if it never saw the
 * removal. Here the new records are in the old places, and have each other's cells. */
static void who_releases_finds_the_new_ones(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(count_in(i == 0 ? f : g, "x", 1), i + 1);
		assert_int_equal(count_in(i == 0 ? f : g, "w", 1), i + 1);
	}
	assert_int_equal(remove_value(f, "w"), 0);
	assert_int_equal(remove_value(f, "x"), 0);
	all_release();
	assert_int_equal(count_in(f, "w", 1), 1);
	assert_int_equal(count_in(f, "x", 5), 5);
	assert_int_equal(count_in(g, "w", 1), 2);
	assert_int_equal(count_in(g, "x", 1), 6);
}

/* In a full family, a lookup does not read each removed record while a process may have handles
 * of them. Once none has, there is room. */
static void what_is_held_is_not_looked_at(void **state)
{
	(void)state;
	assert_int_equal(count_in(f, "a", 1), 1);
	assert_int_equal(count_in(f, "b", 1), 1);
	assert_int_equal(count_in(f, "c", 1), 1);
	assert_int_equal(count_in(g, "a", 1), 2); /* t holds an epoch */
	assert_int_equal(remove_value(f, "b"), 0);
	assert_int_equal(remove_value(f, "a"), 0);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(count_in(f, "d", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 1);
	assert_int_equal(s->removed.n, 2);
	assert_int_equal(s->removed.least, 1);
	all_release();
	assert_int_equal(count_in(f, "d", 1), 1);
	assert_int_equal(count_in(f, "e", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 1);
	assert_int_equal(percpu_reuse_free(s, 0), 0); /* nothing to free */
	assert_int_equal(s->removed.n, 0);
	assert_true(s->removed.least > 2);
	assert_int_equal(remove_value(f, "d"), 0);
	all_release();
	assert_int_equal(count_in(f, "a", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 1);
}

/* The object of each kind is freed as a whole. */

static void resolve_each(struct percpu_segment *of)
{
	static const char *const x[] = { "x" };
	const bool wide = percpu_pair_is_atomic();
	struct percpu_family *family[3] = { NULL };
	struct percpu_owned_gauge *o;
	struct percpu_histogram *h;
	struct percpu_extrema *e;

	assert_int_equal(declare_family(of, "h", PERCPU_METRIC_HISTOGRAM, 1, &family[0]), 0);
	assert_int_equal(declare_family(of, "e", PERCPU_METRIC_EXTREMA, 1, &family[1]), 0);
	assert_int_equal(percpu_family_histogram(family[0], x, &h), 0);
	percpu_histogram_record(h, 1);
	assert_int_equal(percpu_family_extrema(family[1], x, &e), 0);
	assert_int_equal(percpu_extrema_observe(e, 1), 0);
	if (wide) {
		assert_int_equal(declare_family(of, "o", PERCPU_METRIC_OWNED_GAUGE, 1, &family[2]),
				 0);
		assert_int_equal(percpu_family_owned_gauge(family[2], x, &o), 0);
		assert_int_equal(percpu_owned_gauge_add(o, 1), 0);
	}
	for (int i = 0; i < (wide ? 3 : 2); i++)
		assert_int_equal(percpu_family_remove(family[i], x), 0);
	assert_int_equal(percpu_segment_release_removed(of), 0);
	for (int i = 0; i < (wide ? 3 : 2); i++) {
		assert_int_equal(percpu_family_overflows(family[i]), 0);
		assert_int_equal(percpu_reuse_free(of, 0), 0);
	}
}

static void objects_are_freed_as_a_whole(void **state)
{
	unsigned units;

	(void)state;
	close_other();
	resolve_each(s);
	units = used();
	for (int i = 0; i < 5; i++)
		resolve_each(s);
	assert_int_equal(used(), units);
}

/* The same for owned doubles, with all their shares. */
static void owned_doubles_are_freed(void **state)
{
	static const char *const x[] = { "x" };
	struct percpu_family *of_doubles;
	struct percpu_owned_fgauge *o;
	unsigned before = 0;

	(void)state;
	if (!percpu_pair_is_atomic())
		test_skip("no such gauges in files here");
	assert_int_equal(declare_family(s, "o", PERCPU_METRIC_OWNED_FGAUGE, 1, &of_doubles), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(percpu_family_owned_fgauge(of_doubles, x, &o), 0);
		assert_int_equal(percpu_owned_fgauge_add(o, 1.5), 0);
		assert_int_equal(percpu_family_remove(of_doubles, x), 0);
		all_release();
		assert_int_equal(percpu_reuse_free(s, 0), 0);
		assert_int_equal(s->removed.n, 0);
		if (i == 0) /* the process and its owners stay allocated */
			before = used();
		assert_int_equal(used(), before);
	}
	assert_int_equal(percpu_family_overflows(of_doubles), 0);
}

/* A new series does not have the values of the series in whose place it is. */
static void new_series_are_empty(void **state)
{
	static const char *const x[] = { "x" }, *const y[] = { "y" };
	struct percpu_histogram_snapshot *shot;
	struct percpu_histogram *h;
	struct percpu_family *family;

	(void)state;
	close_other();
	assert_int_equal(declare_family(s, "h", PERCPU_METRIC_HISTOGRAM, 1, &family), 0);
	assert_int_equal(percpu_family_histogram(family, x, &h), 0);
	percpu_histogram_record(h, 1);
	assert_int_equal(percpu_family_remove(family, x), 0);
	assert_int_equal(percpu_segment_release_removed(s), 0);
	assert_int_equal(percpu_family_histogram(family, y, &h), 0);
	assert_int_equal(percpu_family_overflows(family), 0);
	assert_int_equal(percpu_histogram_snapshot_create(h, &shot), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, shot), 0);
	assert_int_equal(shot->count, 0);
	percpu_histogram_record(h, 1);
	assert_int_equal(percpu_histogram_fetch(h, 0, shot), 0);
	assert_int_equal(shot->count, 1);
	percpu_histogram_snapshot_destroy(shot);
}

/* Many series that are made and removed in turn need no more room than a few. */
static void churn_takes_no_more_room(void **state)
{
	const unsigned n = test_rounds(100000);
	struct percpu_family *churned;
	struct stat before, after;
	char value[32];
	unsigned units = 0;

	(void)state;
	close_other();
	assert_int_equal(declare_family(s, "c_total", PERCPU_METRIC_COUNTER, 10, &churned), 0);
	for (unsigned i = 0; i < n; i++) {
		if (i >= 10) {
			snprintf(value, sizeof(value), "%u", (i - 10) * 7919);
			assert_int_equal(remove_value(churned, value), 0);
			assert_int_equal(percpu_segment_release_removed(s), 0);
		}
		snprintf(value, sizeof(value), "%u", i * 7919);
		assert_int_equal(count_in(churned, value, i), i);
		if (i == 100) {
			units = used();
			assert_int_equal(stat(path, &before), 0);
		}
	}
	assert_int_equal(percpu_family_overflows(churned), 0);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(after.st_size, before.st_size);
	assert_int_equal(used(), units);
	assert_true(s->control->end < PERCPU_SEGMENT_BLOCK);
	assert_in_range(s->spare.n, 0, 10); /* nor does this process need memory for each */
	assert_in_range(s->removed.n, 0, 10);
}

/* Removing a series does not look at all others. */
static void many_are_removed(void **state)
{
	const unsigned n = test_rounds(10000);
	struct percpu_family *many, *seen;
	uint64_t walked;
	char value[32];

	(void)state;
	assert_int_equal(declare_family(s, "c_total", PERCPU_METRIC_COUNTER, n, &many), 0);
	assert_int_equal(declare_family(t, "c_total", PERCPU_METRIC_COUNTER, n, &seen), 0);
	for (unsigned i = 0; i < n; i++) {
		snprintf(value, sizeof(value), "%u", i);
		assert_int_equal(count_in(many, value, 1), 1);
	}
	assert_int_equal(count_in(seen, "1", 1), 2);
	walked = s->walks;
	for (unsigned i = 0; i < n; i += 2) {
		snprintf(value, sizeof(value), "%u", i);
		assert_int_equal(remove_value(many, value), 0);
	}
	all_release();
	for (unsigned i = 0; i < n; i++) {
		snprintf(value, sizeof(value), "%u", i);
		assert_int_equal(count_in(many, value, 1), i % 2 == 0 ? 1 : i == 1 ? 3 : 2);
	}
	assert_true(s->walks <= walked + 1);
	assert_int_equal(percpu_family_overflows(many), 0);
	for (unsigned i = 0; i < n; i++) {
		snprintf(value, sizeof(value), "%u", i);
		assert_int_equal(count_in(seen, value, 0), i % 2 == 0 ? 1 : i == 1 ? 3 : 2);
	}
}

/* A reset clears all series, and families stay. */
static void families_start_anew(void **state)
{
	struct percpu_counter *old;

	(void)state;
	assert_int_equal(count_in(f, "x", 5), 5);
	assert_int_equal(count_in(f, "y", 6), 6);
	old = counter_of(f, "y");
	assert_int_equal(remove_value(f, "y"), 0);
	assert_int_equal(count_in(f, "z", 7), 7);
	assert_int_equal(count_in(f, "w", 8), 8);
	assert_int_equal(percpu_family_overflows(f), 1);
	percpu_segment_close(t);
	t = open_family_file(path, PERCPU_SEGMENT_WRITE | PERCPU_SEGMENT_ANEW);
	g = family_of(t, 3);
	assert_int_equal(count_in(g, "x", 1), 1);
	assert_int_equal(count_in(g, "z", 0), 0);
	assert_int_equal(count_in(g, PERCPU_FAMILY_OVERFLOW, 0), 0);
	assert_int_equal(percpu_counter_fetch(old), 6); /* removed, so not reset */
	assert_int_equal(t->control->completed, 2);
	all_release();
	assert_int_equal(count_in(g, "y", 1), 1);
	assert_int_equal(count_in(f, "y", 1), 2);
}

#define both(f) cmocka_unit_test_setup_teardown(f, declare_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		both(removed_series_begin_at_0),
		both(what_is_not_there_is_not_removed),
		both(success_leaves_the_sentence),
		both(caps_count_what_may_be_in_use),
		both(caps_count_what_others_have_removed),
		both(handles_stay_until_the_next_time),
		both(others_hold_nothing),
		both(records_are_rewritten),
		both(series_precede_their_family),
		both(who_releases_finds_the_new_ones),
		both(who_has_released_holds_the_rest),
		both(overflows_stay),
		both(metrics_stay),
		both(families_that_have_changed_are_damage),
		both(what_is_held_is_not_looked_at),
		both(objects_are_freed_as_a_whole),
		both(owned_doubles_are_freed),
		both(new_series_are_empty),
		both(churn_takes_no_more_room),
		both(many_are_removed),
		both(families_start_anew),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
