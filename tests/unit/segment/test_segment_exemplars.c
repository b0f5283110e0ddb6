/* SPDX-License-Identifier: MIT */
/*
 * test_segment_exemplars.c - exemplars of the series of a segment: made, found, removed, freed and
 * reset; by processes that are killed at each step; and read from outside, also from damaged files.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"
#include "amid.h"
#include "../family_calls.h"
#include "../root_file.h"

#include "segment/segment.h"

#define LABEL(n, v) (&(const struct percpu_exemplar_label){ (n), (v) })

static const char *const x_value[] = { "x" }, *const y_value[] = { "y" };
static struct percpu_reader *r;
static struct percpu_counter *c;
static struct percpu_exemplars *x;

/* A segment with a counter that has exemplars, opened twice, and a reader. */
static int open_all(void **state)
{
	assert_int_equal(open_both(state), 0);
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	assert_int_equal(percpu_segment_exemplars(s, METRIC("a_total"), &x), 0);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	return 0;
}

static int close_all(void **state)
{
	percpu_reader_close(r);
	r = NULL;
	return close_both(state);
}

static struct percpu_segment_record *record_of(const char *name)
{
	struct percpu_record_copy *const copy = malloc(sizeof(*copy));
	struct percpu_segment_record *at = NULL;
	bool found = false;
	uint64_t place = 0;

	assert_non_null(copy);
	assert_int_equal(percpu_directory_refresh(s), 0);
	while (!found && percpu_directory_next(s, 0xf, &place, copy, &at))
		found = copy->head.name == strlen(name) &&
			memcmp(copy->bytes, name, copy->head.name) == 0;
	free(copy);
	assert_true(found);
	return at;
}

/* Take a picture, and return the value of the exemplar in slot k of series i, or -errno. */
static double picture_of(size_t i, size_t k)
{
	struct percpu_exemplar is;
	int e;

	assert_int_equal(percpu_reader_read(r), 0);
	e = percpu_reader_exemplar(r, i, k, &is);
	return e != 0 ? e : is.value;
}

static double value_in(const struct percpu_exemplars *of, size_t i)
{
	struct percpu_exemplar is;
	int e = percpu_exemplars_fetch(of, i, &is);

	return e != 0 ? e : is.value;
}

static void a_picture_has_them(void **state)
{
	struct percpu_exemplars *of_f, *of_h, *again;
	struct percpu_exemplar is;
	struct percpu_histogram *h;
	struct percpu_fcounter *f;
	uint64_t changes;

	(void)state;
	assert_true(picture_of(0, 0) == -ENODATA);
	assert_true(picture_of(0, 1) == -EINVAL);
	assert_true(picture_of(1, 0) == -EINVAL);
	percpu_counter_add(c, 3);
	assert_int_equal(percpu_exemplars_store(x, 3, LABEL("trace_id", "4bf9"), 1), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	assert_int_equal(percpu_reader_exemplar(r, 0, 0, &is), 0);
	assert_true(is.value == 3 && is.labels == 1 && is.time != 0);
	assert_string_equal(is.text + is.label_names[0], "trace_id");
	assert_string_equal(is.text + is.label_values[0], "4bf9");

	assert_int_equal(percpu_segment_fcounter(s, METRIC("b_total"), &f), 0);
	assert_true(picture_of(1, 0) == -EINVAL);
	assert_int_equal(percpu_segment_exemplars(s, METRIC("b_total"), &of_f), 0);
	assert_int_equal(percpu_exemplars_store(of_f, 0.5, NULL, 0), 0);
	assert_true(picture_of(1, 0) == 0.5); /* the reader has listed the series before */

	assert_int_equal(percpu_segment_histogram(s, METRIC("c"), NULL, &h), 0);
	assert_int_equal(percpu_segment_exemplars(s, METRIC("c"), &of_h), 0);
	assert_int_equal(percpu_exemplars_store(of_h, 0.75, NULL, 0), 0);
	assert_int_equal(percpu_exemplars_store(of_h, 1e9, NULL, 0), 0);
	assert_true(picture_of(2, 20) == 0.75 && picture_of(2, 31) == 1e9);
	assert_true(picture_of(2, 32) == -EINVAL && picture_of(2, 0) == -ENODATA);
	assert_true(picture_of(0, 0) == 3);

	/* one handle in a process; the same exemplars in another one */
	assert_int_equal(percpu_segment_exemplars(s, METRIC("c"), &again), 0);
	assert_ptr_equal(again, of_h);
	assert_int_equal(percpu_segment_histogram(t, METRIC("c"), NULL, &h), 0);
	changes = s->control->changes;
	assert_int_equal(percpu_segment_exemplars(t, METRIC("c"), &again), 0);
	assert_int_equal(s->control->changes, changes); /* readers know them already */
	assert_true(again != of_h && value_in(again, 20) == 0.75);
	assert_int_equal(percpu_exemplars_key(again), percpu_exemplars_key(of_h));
}

/* Assert that the last call failed so, and says so. */
static void complains(int e, int expected, const char *sentence)
{
	assert_int_equal(e, expected);
	assert_string_equal(percpu_error(), sentence);
}

static void what_cannot_be_is_said(void **state)
{
	struct percpu_exemplars *none = (struct percpu_exemplars *)&none, *const before = none;
	struct percpu_family *f, *g;
	struct percpu_counter *b;
	struct percpu_latest *l;

	(void)state;
	complains(percpu_segment_exemplars(NULL, METRIC("a_total"), &none), -EINVAL,
		  "the segment is NULL");
	complains(percpu_segment_exemplars(s, METRIC("a_total"), NULL), -EINVAL,
		  "there is no place for the exemplars");
	assert_int_equal(percpu_segment_exemplars(s, NULL, &none), -EINVAL);
	complains(percpu_segment_exemplars(t, METRIC("a_total"), &none), -ENOENT,
		  "a_total: this process has not declared such a metric");
	complains(percpu_segment_exemplars(s, METRIC("b_total"), &none), -ENOENT,
		  "b_total: this process has not declared such a metric");
	assert_int_equal(percpu_segment_counter(s, METRIC("b_total"), &b), 0);
	assert_int_equal(declare_family(s, "f_total", PERCPU_METRIC_COUNTER, 1, &f), 0);
	complains(percpu_family_exemplars(NULL, x_value, &none), -EINVAL, "the family is NULL");
	complains(percpu_family_exemplars(f, NULL, &none), -EINVAL,
		  "the values of labels are NULL");
	complains(percpu_family_exemplars(f, x_value, NULL), -EINVAL,
		  "there is no place for the exemplars");
	complains(percpu_family_exemplars(f, (const char *const[]){ NULL }, &none), -EINVAL,
		  "f_total: the value of label a is NULL");
	if (WIDE) {
		assert_int_equal(percpu_segment_latest(s, METRIC("l"), &l), 0);
		complains(percpu_segment_exemplars(s, METRIC("l"), &none), -EINVAL,
			  "l: a latest value has no exemplars");
		assert_int_equal(declare_family(s, "g", PERCPU_METRIC_GAUGE, 1, &g), 0);
		complains(percpu_family_exemplars(g, x_value, &none), -EINVAL,
			  "g: a gauge has no exemplars");
	}
	record_of("b_total")->exemplars = percpu_counter_key(c);
	complains(percpu_segment_exemplars(s, METRIC("b_total"), &none), -EBADMSG,
		  "b_total: the file is damaged");
	/* A process may have listed a metric that it has not declared. */
	assert_int_equal(percpu_segment_counter(t, METRIC("b_total"), &b), 0);
	complains(percpu_segment_exemplars(t, METRIC("a_total"), &none), -ENOENT,
		  "a_total: this process has not declared such a metric");
	assert_ptr_equal(none, before);
}

static void a_reset_of_the_segment_forgets_them(void **state)
{
	(void)state;
	assert_int_equal(percpu_exemplars_store(x, 3, NULL, 0), 0);
	percpu_segment_close(t);
	t = open_family_file(path, ALL | PERCPU_SEGMENT_ANEW);
	assert_true(value_in(x, 0) == -ENODATA);
	assert_true(picture_of(0, 0) == -ENODATA);
	assert_int_equal(percpu_exemplars_store(x, 4, NULL, 0), 0);
	assert_true(picture_of(0, 0) == 4);
}

/* Families. */

static void families_have_them(void **state)
{
	struct percpu_exemplars *of_x, *of_y, *again;
	struct percpu_family *f, *g;

	(void)state;
	assert_int_equal(declare_family(s, "f", PERCPU_METRIC_HISTOGRAM, 1, &f), 0);
	assert_int_equal(percpu_family_exemplars(f, x_value, &of_x), 0);
	assert_int_equal(percpu_exemplars_store(of_x, 0.75, NULL, 0), 0);
	assert_int_equal(percpu_family_exemplars(f, x_value, &again), 0);
	assert_ptr_equal(again, of_x);
	assert_int_equal(percpu_family_overflows(f), 0);
	/* the overflow */
	assert_int_equal(percpu_family_exemplars(f, y_value, &of_y), 0);
	assert_int_equal(percpu_family_overflows(f), 1);
	assert_true(of_y != of_x && value_in(of_y, 20) == -ENODATA);
	assert_int_equal(percpu_exemplars_store(of_y, 0.625, NULL, 0), 0);
	assert_int_equal(percpu_family_exemplars(f, (const char *const[]){ "\xff" }, &again), 0);
	assert_ptr_equal(again, of_y);
	assert_int_equal(percpu_family_exemplars(f, y_value, &again), 0);
	assert_ptr_equal(again, of_y);
	assert_int_equal(percpu_family_overflows(f), 2); /* each call */
	/* another process */
	assert_int_equal(declare_family(t, "f", PERCPU_METRIC_HISTOGRAM, 1, &g), 0);
	assert_int_equal(percpu_family_exemplars(g, x_value, &again), 0);
	assert_true(value_in(again, 20) == 0.75);
	assert_int_equal(percpu_reader_read(r), 0);
	assert_int_equal(percpu_reader_count(r), 3);
	assert_true(picture_of(1, 20) + picture_of(2, 20) == 0.75 + 0.625);
}

static void removed_series_lose_them(void **state)
{
	struct percpu_exemplars *of_x, *again;
	struct percpu_family *f;

	(void)state;
	f = family_of(s, 2);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(percpu_family_exemplars(f, x_value, &of_x), 0);
	assert_int_equal(percpu_exemplars_store(of_x, 1, NULL, 0), 0);
	assert_int_equal(remove_value(f, "x"), 0);
	assert_true(value_in(of_x, 0) == 1);
	assert_int_equal(percpu_family_exemplars(f, x_value, &again), 0); /* begins anew */
	assert_ptr_equal(again, of_x);
	assert_true(value_in(of_x, 0) == -ENODATA);
	assert_int_equal(count_in(f, "x", 0), 0);
	assert_int_equal(percpu_exemplars_store(again, 2, NULL, 0), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	assert_true(picture_of(1, 0) == 2);
}

static void freed_series_give_them_back(void **state)
{
	const unsigned before = used();
	struct percpu_exemplars *of_x;
	struct percpu_family *f;

	(void)state;
	f = family_of(s, 2);
	assert_int_equal(used(), before + 2); /* the family's own, and its overflow */
	assert_int_equal(percpu_family_exemplars(f, x_value, &of_x), 0);
	assert_int_equal(used(), before + 3 + (64 + 392) / 8);
	assert_int_equal(remove_value(f, "x"), 0);
	percpu_segment_close(s);
	s = NULL;
	percpu_series_free_removed(t);
	assert_int_equal(used(), before + 2);
}

/* Kills. */

/* A process makes exemplars, and is killed at each step. Another one makes them then. A reader that
 * had listed the series before finds them, and no cell is lost. */

static int make_and_die(void *arg)
{
	struct percpu_segment *s = NULL;
	struct percpu_exemplars *x;
	struct percpu_counter *c;

	test_child_require(percpu_segment_open(path, ALL, NULL, &s) == 0, "open");
	test_child_require(percpu_segment_counter(s, METRIC("b_total"), &c) == 0, "counter");
	dies_at = *(unsigned *)arg;
	test_child_require(percpu_segment_exemplars(s, METRIC("b_total"), &x) == 0, "made");
	dies_at = 0;
	percpu_segment_close(s);
	return 0;
}

static void no_step_of_making_loses_them(void **state)
{
	struct percpu_exemplars *of_b;
	struct percpu_counter *b;
	bool killed = true;
	unsigned step;

	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (step = 1; killed; step++) {
		if (step > 1)
			assert_int_equal(open_all(state), 0);
		assert_int_equal(percpu_segment_counter(s, METRIC("b_total"), &b), 0);
		assert_true(picture_of(1, 0) == -EINVAL);
		killed = killed_at(make_and_die, step);
		assert_int_equal(percpu_segment_exemplars(s, METRIC("b_total"), &of_b), 0);
		assert_int_equal(percpu_exemplars_store(of_b, 2, NULL, 0), 0);
		assert_true(picture_of(1, 0) == 2);
		assert_int_equal(used(), (sizeof(struct percpu_segment_control) +
					  PERCPU_SEGMENT_BLOCK + 2 * (8 + 64 + 392)) /
						 8);
		assert_int_equal(close_all(state), 0);
	}
	assert_true(step > 10);
	assert_int_equal(open_all(state), 0);
}

/* A process removes a series and frees it, and is killed at each step. */

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

static void no_step_of_freeing_loses_them(void **state)
{
	struct percpu_exemplars *of_x;
	struct percpu_family *f;
	bool killed = true;
	unsigned step, there;

	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (step = 1; killed; step++) {
		there = used() + 2; /* with what a family has for itself */
		f = family_of(s, 2);
		assert_int_equal(percpu_family_exemplars(f, x_value, &of_x), 0);
		assert_int_equal(percpu_exemplars_store(of_x, 1, NULL, 0), 0);
		assert_int_equal(remove_value(f, "x"), 0);
		percpu_segment_close(s);
		killed = killed_at(free_and_die, step);
		s = open_family_file(path, ALL);
		f = family_of(s, 2); /* frees what is left */
		assert_int_equal(used(), there);
		assert_int_equal(percpu_family_exemplars(f, x_value, &of_x), 0);
		assert_true(value_in(of_x, 0) == -ENODATA);
		assert_int_equal(close_all(state), 0);
		assert_int_equal(open_all(state), 0);
	}
	assert_true(step > 10);
}

/* Two threads, as it were, make them at once: there is one handle. */

static struct percpu_exemplars *by_other;

static bool make_meanwhile(void)
{
	assert_int_equal(percpu_segment_exemplars(s, METRIC("b_total"), &by_other), 0);
	return false;
}

static void threads_get_one_handle(void **state)
{
	static const char *const steps[] = { "exemplars: to be looked up",
					     "exemplars: to be opened", "root: looked up",
					     "exemplars: announced", "exemplars: to be kept" };
	struct percpu_exemplars *of_b;
	struct percpu_counter *b;

	for (int i = 0; i < 5; i++) {
		assert_int_equal(percpu_segment_counter(s, METRIC("b_total"), &b), 0);
		by_other = NULL;
		meanwhile = make_meanwhile;
		waits_when = steps[i];
		assert_int_equal(percpu_segment_exemplars(s, METRIC("b_total"), &of_b), 0);
		assert_ptr_equal(of_b, by_other);
		assert_int_equal(close_all(state), 0);
		assert_int_equal(open_all(state), 0);
	}
}

/* Damaged files. */

static struct percpu_segment_record *record_of_b;

static bool damage_meanwhile(void)
{
	record_of_b->size = 0;
	return false;
}

/* Another process damages a record when its exemplars are there, and this one has no handle of them
 * yet. */
static void records_may_be_damaged_meanwhile(void **state)
{
	static const char *const steps[] = { "exemplars: to be opened", "exemplars: to be kept" };
	struct percpu_exemplars *none = (struct percpu_exemplars *)&none, *const before = none;
	struct percpu_counter *b;
	uint32_t size;

	(void)state;
	assert_int_equal(percpu_segment_counter(s, METRIC("b_total"), &b), 0);
	record_of_b = record_of("b_total");
	size = record_of_b->size;
	for (size_t i = 0; i < 2; i++) {
		meanwhile = damage_meanwhile;
		waits_when = steps[i];
		complains(percpu_segment_exemplars(s, METRIC("b_total"), &none), -EBADMSG,
			  "b_total: the file is damaged");
		assert_ptr_equal(none, before);
		record_of_b->size = size;
	}
	assert_int_equal(percpu_segment_exemplars(s, METRIC("b_total"), &none), 0);
	assert_int_equal(percpu_exemplars_store(none, 1, NULL, 0), 0);
}

static void wrong_keys_lead_to_none(void **state)
{
	struct percpu_segment_record *a, *b;
	struct percpu_exemplars *of_b;
	struct percpu_counter *second;
	uint64_t keys[8], right;

	(void)state;
	assert_int_equal(percpu_segment_counter(s, METRIC("b_total"), &second), 0);
	assert_int_equal(percpu_segment_exemplars(s, METRIC("b_total"), &of_b), 0);
	assert_int_equal(percpu_exemplars_store(x, 1, NULL, 0), 0);
	assert_int_equal(percpu_exemplars_store(of_b, 2, NULL, 0), 0);
	a = record_of("a_total");
	b = record_of("b_total");
	right = b->exemplars;
	keys[0] = a->exemplars; /* those of another series */
	keys[1] = a->key;
	keys[2] = b->key;
	keys[3] = right + 8;
	keys[4] = right & ~(UINT64_C(0xff) << 56);
	keys[5] = UINT64_MAX;
	keys[6] = right + (UINT64_C(1) << 40);
	keys[7] = s->control->block[0];
	for (int i = 0; i < 8; i++) {
		struct percpu_reader_info info;

		b->exemplars = keys[i];
		s->control->changes += 2;
		assert_true(picture_of(0, 0) == 1);
		assert_true(picture_of(1, 0) == -EINVAL);
		assert_int_equal(percpu_reader_info(r, &info), 0);
		assert_true(info.pending == 0 && info.missing == 0);
		percpu_segment_close(t); /* a reset does what it can */
		t = NULL;
		if (i != 0) {
			t = open_family_file(path, ALL | PERCPU_SEGMENT_ANEW);
			assert_true(value_in(x, 0) == -ENODATA);
			assert_int_equal(percpu_exemplars_store(x, 1, NULL, 0), 0);
		}
	}
	b->exemplars = right;
	s->control->changes += 2;
	assert_true(picture_of(1, 0) == 2);
	a->kind = PERCPU_METRIC_INFO; /* a kind that has none */
	s->control->changes += 2;
	assert_true(picture_of(0, 0) == -EINVAL && picture_of(1, 0) == 2);
	a->kind = PERCPU_METRIC_COUNTER;
}

#define ALL_OF(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALL_OF(a_picture_has_them),
		ALL_OF(what_cannot_be_is_said),
		ALL_OF(a_reset_of_the_segment_forgets_them),
		ALL_OF(families_have_them),
		ALL_OF(removed_series_lose_them),
		ALL_OF(freed_series_give_them_back),
		ALL_OF(no_step_of_making_loses_them),
		ALL_OF(no_step_of_freeing_loses_them),
		ALL_OF(threads_get_one_handle),
		ALL_OF(records_may_be_damaged_meanwhile),
		ALL_OF(wrong_keys_lead_to_none),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
