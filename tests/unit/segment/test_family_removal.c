/* SPDX-License-Identifier: MIT */
/*
 * test_family_removal.c - series that are removed and found again, and when their memory is freed.
 * With kills: test_family_steps.c; which processes keep it: test_presence.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "declared.h"
#include "support.h"
#include "../family_calls.h"
#include "../root_file.h"

#include "segment/segment.h"

static const char *const x[] = { "x" };
static struct percpu_family *f, *g; /* of s, of t */

static int declare_both(void **state)
{
	(void)open_both(state);
	f = family_of(s, 3);
	g = family_of(t, 3);
	return 0;
}

/* Let no process have a family, and open the file again: the memory of removed series is free. */
static void open_again(void)
{
	percpu_segment_close(s);
	percpu_segment_close(t);
	t = NULL;
	s = open_family_file(path, ALL);
	f = family_of(s, 3);
}

/* What was counted before the series was found again is dropped, and nothing else. */
static void removed_series_begin_at_0(void **state)
{
	struct percpu_counter *old;

	(void)state;
	assert_int_equal(count_in(f, "x", 5), 5);
	assert_int_equal(count_in(f, "y", 6), 6);
	old = counter_of(g, "x");
	assert_int_equal(remove_value(f, "x"), 0);
	percpu_counter_add(old, 7); /* is dropped */
	assert_int_equal(percpu_counter_fetch(old), 12);
	assert_int_equal(count_in(g, "x", 2), 2);
	assert_ptr_equal(counter_of(g, "x"), old);
	assert_int_equal(count_in(f, "x", 1), 3);
	percpu_counter_add(old, 1); /* is kept */
	assert_int_equal(count_in(f, "x", 0), 4);
	assert_int_equal(remove_value(g, "x"), 0);
	assert_int_equal(percpu_family_add(f, x, 9), 0);
	assert_int_equal(percpu_counter_fetch(old), 9);
	assert_int_equal(count_in(g, "y", 0), 6);
	assert_int_equal(count_in(f, PERCPU_FAMILY_OVERFLOW, 0), 0);
	assert_int_equal(percpu_family_overflows(f), 0);
	assert_int_equal(s->control->changes % 2, 0);
}

/* A handle is right as long as the number is the one before the look-up. */
static void the_number_of_removals_changes(void **state)
{
	uint64_t before, now;

	(void)state;
	assert_int_equal(percpu_family_removals(NULL), 0);
	before = percpu_family_removals(f);
	assert_int_equal(count_in(f, "x", 5), 5);
	assert_int_equal(count_in(g, "y", 1), 1);
	assert_int_equal(remove_value(f, "z"), -ENOENT);
	assert_int_equal(percpu_family_removals(f), before);
	assert_int_equal(remove_value(g, "x"), 0);
	now = percpu_family_removals(f);
	assert_true(now != before);
	assert_int_equal(percpu_family_removals(g), now);
	assert_int_equal(count_in(g, "x", 2), 2); /* begins anew */
	assert_true(percpu_family_removals(f) != now && percpu_family_removals(f) != before);
	now = percpu_family_removals(f);
	assert_int_equal(count_in(f, "x", 2), 4);
	assert_int_equal(percpu_family_removals(f), now);
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
}

/* percpu_error() is about the last call that failed: a later success does not change it. */
static void success_leaves_the_sentence(void **state)
{
	static const char *const names[] = { "a" };
	const struct percpu_metric of_x = { .size = sizeof(of_x),
					    .name = "f_total",
					    .label_names = names,
					    .label_values = x,
					    .labels = 1 };
	const struct percpu_metric y = { .size = sizeof(y), .name = "y_total" };
	struct percpu_counter *c;
	const struct percpu_declaration row = { .size = sizeof(row),
						OF_METRIC(y),
						.kind = PERCPU_METRIC_COUNTER,
						.ret = { .counter = (void *)&c } };
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
	EXPECT_SAME(percpu_family_counter(f, x, &c));
	EXPECT_SAME(percpu_segment_series_started(s, &of_x, &at));
	EXPECT_SAME(remove_value(f, "x"));
	EXPECT_SAME(percpu_family_add(f, x, 1));
	EXPECT_SAME(family_of(s, 3) != f);
	EXPECT_SAME(percpu_segment_counter(s, &y, &c));
	EXPECT_SAME(percpu_segment_declare(s, &row, 1));
	EXPECT_SAME(percpu_segment_started(s, &at));
}

/* Each kind begins anew, with the same handle. Owned gauges keep the shares of living owners. */

static void *find_x(struct percpu_family *of, unsigned kind)
{
	void *h = NULL;
	int e = kind == PERCPU_METRIC_COUNTER	  ? percpu_family_counter(of, x, (void *)&h) :
		kind == PERCPU_METRIC_FCOUNTER	  ? percpu_family_fcounter(of, x, (void *)&h) :
		kind == PERCPU_METRIC_GAUGE	  ? percpu_family_gauge(of, x, (void *)&h) :
		kind == PERCPU_METRIC_FGAUGE	  ? percpu_family_fgauge(of, x, (void *)&h) :
		kind == PERCPU_METRIC_LATEST	  ? percpu_family_latest(of, x, (void *)&h) :
		kind == PERCPU_METRIC_HISTOGRAM	  ? percpu_family_histogram(of, x, (void *)&h) :
		kind == PERCPU_METRIC_EXTREMA	  ? percpu_family_extrema(of, x, (void *)&h) :
		kind == PERCPU_METRIC_OWNED_GAUGE ? percpu_family_owned_gauge(of, x, (void *)&h) :
						    percpu_family_owned_fgauge(of, x, (void *)&h);

	assert_int_equal(e, 0);
	return h;
}

static int put(void *h, unsigned kind, int n)
{
	switch (kind) {
	case PERCPU_METRIC_COUNTER:
		percpu_counter_add(h, n);
		return 0;
	case PERCPU_METRIC_FCOUNTER:
		return percpu_fcounter_add(h, n);
	case PERCPU_METRIC_GAUGE:
		percpu_gauge_add(h, n);
		return 0;
	case PERCPU_METRIC_FGAUGE:
		return percpu_fgauge_set(h, n);
	case PERCPU_METRIC_LATEST:
		return percpu_latest_set(h, n);
	case PERCPU_METRIC_HISTOGRAM:
		percpu_histogram_record(h, n);
		return 0;
	case PERCPU_METRIC_EXTREMA:
		return percpu_extrema_observe(h, n);
	case PERCPU_METRIC_OWNED_GAUGE:
		return percpu_owned_gauge_set(h, n);
	default:
		return percpu_owned_fgauge_set(h, n);
	}
}

static double sum_of(struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *shot;
	double sum;

	assert_int_equal(percpu_histogram_snapshot_create(h, &shot), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, shot), 0);
	sum = shot->sum;
	percpu_histogram_snapshot_destroy(shot);
	return sum;
}

/* Return the value; 0 if there is none. */
static double value_of(void *h, unsigned kind)
{
	int64_t least = 0, most = 0;
	double v = 0;

	switch (kind) {
	case PERCPU_METRIC_HISTOGRAM:
		return sum_of(h);
	case PERCPU_METRIC_EXTREMA:
		if (percpu_extrema_fetch(h, &least, &most) != 0)
			return 0;
		assert_int_equal(least, most);
		return (double)most;
	default:
		(void)percpu_kind_of(kind)->read_number(h, &v);
		return v;
	}
}

static bool is_owned(unsigned kind)
{
	return kind == PERCPU_METRIC_OWNED_GAUGE || kind == PERCPU_METRIC_OWNED_FGAUGE;
}

/* Return whether the machine has such a kind in files. */
static bool is_there(unsigned kind)
{
	return percpu_kind_of(kind) != NULL && percpu_kind_of(kind)->in_families &&
	       (percpu_pair_is_atomic() ||
		(kind != PERCPU_METRIC_GAUGE && kind != PERCPU_METRIC_FGAUGE &&
		 kind != PERCPU_METRIC_LATEST && !is_owned(kind)));
}

static int declare_kind(struct percpu_segment *of, unsigned kind, struct percpu_family **ret)
{
	static const char *const names[] = { "",   "c_total", "e_total", "g3", "g4",  "g5",
					     "g6", "g7",      "g8",	 "g9", "g10", "g11" };

	return declare_family(of, names[kind], kind, 2, ret);
}

static void each_kind_begins_anew(void **state)
{
	struct percpu_family *one, *other;
	void *h, *old;

	(void)state;
	for (unsigned kind = 1; kind <= PERCPU_METRIC_STATS; kind++) {
		if (!is_there(kind))
			continue;
		assert_int_equal(declare_kind(s, kind, &one), 0);
		assert_int_equal(declare_kind(t, kind, &other), 0);
		h = find_x(one, kind);
		old = find_x(other, kind);
		assert_int_equal(put(h, kind, 3), 0);
		assert_true(value_of(old, kind) == 3);
		assert_int_equal(percpu_family_remove(other, x), 0);
		assert_int_equal(put(old, kind, 3), 0);
		assert_ptr_equal(find_x(one, kind), h);
		assert_ptr_equal(find_x(other, kind), old);
		assert_true(value_of(h, kind) == (is_owned(kind) ? 6 : 0));
		assert_int_equal(put(old, kind, 7), 0);
		assert_true(value_of(h, kind) == (is_owned(kind) ? 10 : 7));
		assert_int_equal(percpu_family_overflows(one), 0);
	}
}

/* Removed series count for the cap, also in a process that never saw them, and come back
 * nevertheless. */
static void caps_count_removed_series(void **state)
{
	struct percpu_segment *third;
	struct percpu_family *of_third;
	uint64_t end;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(count_in(f, (const char *const[]){ "a", "b", "c" }[i], 1), 1);
	assert_int_equal(count_in(g, "b", 1), 2);
	assert_int_equal(remove_value(f, "b"), 0);
	end = s->control->end;
	third = open_family_file(path, ALL);
	of_third = family_of(third, 3);
	assert_int_equal(count_in(f, "d", 1), 1);
	assert_int_equal(count_in(g, "d", 1), 2);
	assert_int_equal(count_in(of_third, "d", 1), 3);
	assert_int_equal(percpu_family_overflows(f), 3);
	assert_int_equal(count_in(of_third, "b", 1), 1);
	assert_int_equal(count_in(f, "b", 1), 2);
	assert_int_equal(percpu_family_overflows(f), 3);
	assert_int_equal(s->control->end, end);
	percpu_segment_close(third);
}

/* Records are never rewritten: a freed series has a new record when it comes back. */
static void freed_series_have_new_records(void **state)
{
	struct percpu_segment_record *r;
	unsigned units;
	uint64_t at, end;

	(void)state;
	units = used();
	for (int i = 0; i < 3; i++)
		assert_int_equal(count_in(f, (const char *const[]){ "a", "b", "c" }[i], 1), 1);
	assert_int_equal(used(), units + 3);
	assert_int_equal(remove_value(g, "b"), 0);
	assert_int_equal(remove_value(g, "c"), 0);
	open_again();
	assert_int_equal(used(), units + 1);
	end = s->control->end;
	assert_int_equal(percpu_directory_at(s, percpu_directory_at(s, 0)->size)->state,
			 PERCPU_RECORD_REMOVED); /* the overflow, which stays */
	at = percpu_directory_at(s, 0)->size;	 /* the overflow */
	at += percpu_directory_at(s, at)->size;	 /* a */
	at += percpu_directory_at(s, at)->size;	 /* b */
	r = percpu_directory_at(s, at);
	assert_int_equal(r->state, PERCPU_RECORD_FREE);
	assert_int_equal(r->key, 0);
	assert_int_equal(count_in(f, "d", 1), 1);
	assert_int_equal(count_in(f, "b", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 0);
	assert_true(s->control->end > end);
	assert_int_equal(r->state, PERCPU_RECORD_FREE);
	assert_int_equal(count_in(f, "c", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 1);
	t = open_family_file(path, ALL);
	g = family_of(t, 3);
	assert_int_equal(count_in(g, "a", 1), 2);
	assert_int_equal(count_in(g, "b", 1), 2);
	assert_int_equal(count_in(g, "d", 1), 2);
	assert_int_equal(s->control->changes % 2, 0);
}

/* The object of each kind is freed as a whole, with the shares of owned gauges. */

static void make_and_remove_each(void)
{
	struct percpu_family *family;

	for (unsigned kind = 1; kind <= PERCPU_METRIC_STATS; kind++) {
		if (!is_there(kind))
			continue;
		assert_int_equal(declare_kind(s, kind, &family), 0);
		assert_int_equal(put(find_x(family, kind), kind, 1), 0);
		assert_int_equal(percpu_family_remove(family, x), 0);
		assert_int_equal(percpu_family_overflows(family), 0);
	}
}

static void objects_are_freed_as_a_whole(void **state)
{
	unsigned units = 0;

	(void)state;
	for (int i = 0; i < 5; i++) {
		make_and_remove_each();
		open_again();
		if (i == 0)
			units = used();
		assert_int_equal(used(), units);
	}
}

/* New series have nothing of those whose cells they have. */
static void new_series_are_empty(void **state)
{
	struct percpu_histogram *h;
	struct percpu_family *family;
	static const char *const y[] = { "y" };
	uint64_t key;

	(void)state;
	assert_int_equal(declare_family(s, "h", PERCPU_METRIC_HISTOGRAM, 1, &family), 0);
	assert_int_equal(percpu_family_histogram(family, x, &h), 0);
	percpu_histogram_record(h, 1);
	key = percpu_histogram_key(h);
	assert_int_equal(percpu_family_remove(family, x), 0);
	open_again();
	assert_int_equal(declare_family(s, "h", PERCPU_METRIC_HISTOGRAM, 1, &family), 0);
	assert_int_equal(percpu_family_histogram(family, y, &h), 0);
	assert_int_equal(percpu_histogram_key(h), key);
	assert_int_equal(percpu_family_overflows(family), 0);
	assert_true(sum_of(h) == 0);
	percpu_histogram_record(h, 1);
	assert_true(sum_of(h) == 1);
}

/* A series that comes and goes takes no more room each time. */
static void churn_takes_no_more_room(void **state)
{
	const unsigned n = test_rounds(20000);
	uint64_t end = 0;
	unsigned units = 0;

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(count_in(i % 2 ? f : g, "x", i), i);
		assert_int_equal(remove_value(i % 3 ? f : g, "x"), 0);
		if (i == 1) {
			units = used();
			end = s->control->end;
		}
	}
	assert_int_equal(percpu_family_overflows(f), 0);
	assert_int_equal(used(), units);
	assert_int_equal(s->control->end, end);
	assert_int_equal(s->series.used, 2);
}

/* Many removed series, in tables that grow. */
static void many_are_removed(void **state)
{
	const unsigned n = test_rounds(10000);
	struct percpu_family *many, *seen;
	char value[32];

	(void)state;
	assert_int_equal(declare_family(s, "c_total", PERCPU_METRIC_COUNTER, n, &many), 0);
	assert_int_equal(declare_family(t, "c_total", PERCPU_METRIC_COUNTER, n, &seen), 0);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < n; i++) {
			snprintf(value, sizeof(value), "%u", i);
			assert_int_equal(count_in(many, value, 1), 1 + round);
		}
	for (unsigned i = 0; i < n; i += 2) {
		snprintf(value, sizeof(value), "%u", i);
		assert_int_equal(remove_value(i % 4 ? many : seen, value), 0);
	}
	for (unsigned i = 0; i < n; i++) {
		snprintf(value, sizeof(value), "%u", i);
		assert_int_equal(count_in(many, value, 1), i % 2 == 0 ? 1 : 3);
		assert_int_equal(count_in(seen, value, 0), i % 2 == 0 ? 1 : 3);
	}
	assert_int_equal(percpu_family_overflows(many), 0);
	assert_int_equal(s->series.used, n + 2); /* and two overflows */
}

/* A reset of the segment leaves removed series alone. One that comes back is of the generation of
 * then. */
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
	t = open_family_file(path, PERCPU_SEGMENT_ANEW);
	g = family_of(t, 3);
	assert_int_equal(count_in(g, "x", 1), 1);
	assert_int_equal(count_in(g, "z", 0), 0);
	assert_int_equal(count_in(g, PERCPU_FAMILY_OVERFLOW, 0), 0);
	assert_int_equal(percpu_counter_fetch(old), 6); /* removed, so not reset */
	assert_int_equal(t->control->completed, 2);
	assert_int_equal(count_in(g, "y", 1), 1);
	assert_int_equal(count_in(f, "y", 1), 2);
	percpu_segment_close(open_family_file(path, PERCPU_SEGMENT_ANEW));
	assert_int_equal(count_in(f, "y", 1), 1);
}

/* Damaged files. */

/* Return the first series of that kind, as another process changes it. */
static struct percpu_segment_record *first_of(unsigned kind)
{
	struct percpu_segment_record *r;
	uint64_t at = 0;

	for (r = percpu_directory_at(s, 0); r->kind != kind || r->state == PERCPU_RECORD_FAMILY;
	     r = percpu_directory_at(s, at))
		at += r->size;
	return r;
}

/* A metric that is marked as removed, and is of no family, is found again. */
static void metrics_are_found_again(void **state)
{
	struct percpu_histogram *h = NULL, *again = NULL;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("alone"), NULL, &h), 0);
	percpu_histogram_record(h, 1);
	first_of(PERCPU_METRIC_HISTOGRAM)->state = PERCPU_RECORD_REMOVED;
	percpu_histogram_record(h, 1);
	assert_int_equal(percpu_segment_histogram(s, METRIC("alone"), NULL, &again), 0);
	assert_ptr_equal(again, h);
	assert_true(sum_of(h) == 0);
	assert_int_equal(first_of(PERCPU_METRIC_HISTOGRAM)->state, PERCPU_RECORD_IN_USE);
}

/* A removed series whose object is another one, or is none, is an error, and stays removed. */
static void objects_of_others_are_not_reset(void **state)
{
	struct percpu_segment_record *r = first_of(PERCPU_METRIC_COUNTER);
	struct percpu_counter *c = NULL;
	struct percpu_histogram *h;
	uint64_t keys[3];

	(void)state;
	assert_int_equal(count_in(f, "x", 1), 1);
	r = percpu_directory_at(s, percpu_directory_at(s, 0)->size + r->size);
	assert_int_equal(percpu_segment_histogram(t, METRIC("h"), NULL, &h), 0);
	percpu_histogram_record(h, 3);
	keys[0] = percpu_histogram_key(h);
	keys[1] = UINT64_MAX;
	keys[2] = r->key + 80; /* nothing is there */
	assert_int_equal(remove_value(f, "x"), 0);
	for (int i = 0; i < 3; i++) {
		r->key = keys[i];
		assert_int_equal(percpu_family_counter(g, x, &c), -EBADMSG);
		assert_null(c);
		assert_string_equal(percpu_error(), "f_total: the file is damaged");
		assert_int_equal(r->state, PERCPU_RECORD_REMOVED);
		assert_int_equal(s->control->changes % 2, 0);
	}
	assert_true(sum_of(h) == 3);
	assert_int_equal(percpu_family_overflows(f), 0);
}

/* A damaged file has another family of this name now. */
static void families_that_have_changed_are_damage(void **state)
{
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

/* Let family f_total have its record behind its series: another family's has its name now. */
static void families_are_found_behind_their_series(void **state)
{
	static const char *const label[] = { "a" };
	const struct percpu_declaration other =
		percpu_declare_family(NULL, PERCPU_METRIC_COUNTER, "g_total", NULL, label, 1, 3);
	struct percpu_segment_record *r;
	struct percpu_family *behind;
	struct percpu_counter *c;
	uint64_t at = 0;

	(void)state;
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(percpu_segment_family(s, &other, &behind), 0);
	for (; at < s->control->end; at += r->size) {
		r = percpu_directory_at(s, at);
		if (r->state == PERCPU_RECORD_FAMILY)
			*(char *)(r + 1) = at == 0 ? 'g' : 'f';
	}
	percpu_segment_close(t);
	t = open_family_file(path, ALL);
	behind = family_of(t, 3);
	assert_int_equal(percpu_family_counter(behind, x, &c), 0);
	assert_int_equal(percpu_counter_fetch(c), 1);
}

#define both(f) cmocka_unit_test_setup_teardown(f, declare_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		both(removed_series_begin_at_0),
		both(the_number_of_removals_changes),
		both(what_is_not_there_is_not_removed),
		both(success_leaves_the_sentence),
		both(each_kind_begins_anew),
		both(caps_count_removed_series),
		both(freed_series_have_new_records),
		both(objects_are_freed_as_a_whole),
		both(new_series_are_empty),
		both(churn_takes_no_more_room),
		both(many_are_removed),
		both(families_start_anew),
		both(metrics_are_found_again),
		both(objects_of_others_are_not_reset),
		both(families_that_have_changed_are_damage),
		both(families_are_found_behind_their_series),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
