/* SPDX-License-Identifier: MIT */
/*
 * test_table.c - tables of declarations: each function that makes a row, and segments that are opened
 * with a table. Wrong rows: test_segment_error.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"
#include "segments.h"

#include "segment/segment.h"

static struct percpu_counter *counter;
static struct percpu_fcounter *fcounter;
static struct percpu_gauge *gauge;
static struct percpu_fgauge *fgauge;
static struct percpu_latest *latest;
static struct percpu_histogram *histogram;
static struct percpu_extrema *extrema;
static struct percpu_owned_gauge *owned_gauge;
static struct percpu_owned_fgauge *owned_fgauge;
static struct percpu_stats *stats;
static struct percpu_family *family;

static const char *const labels[] = { "user", "site" }, *const values[] = { "ann", "here" };
static const char *const fields[] = { "hit", "miss" };
static const struct percpu_metric_fields results = { sizeof(results), "result", fields, 2 };

static struct percpu_segment *opened(const char *name, const struct percpu_declaration *table,
				     size_t n)
{
	struct percpu_segment *s = NULL;

	assert_int_equal(percpu_segment_open_table(test_path(name), PERCPU_SEGMENT_CREATE, NULL,
						   table, n, &s),
			 0);
	return s;
}

/* Return the description of the only series of that name in a picture of the file. */
static struct percpu_reader_series series_of(const struct percpu_reader *r, const char *name)
{
	struct percpu_reader_series at, found = { .name = NULL };

	for (size_t i = 0; percpu_reader_series(r, i, &at) == 0; i++)
		if (strcmp(at.name, name) == 0) {
			assert_null(found.name);
			found = at;
		}
	assert_non_null(found.name);
	return found;
}

static struct percpu_reader *picture_of(const char *name)
{
	struct percpu_reader *r;

	assert_int_equal(percpu_reader_open(test_path(name), &r), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	return r;
}

static void counts_are_declared(void **state)
{
	const struct percpu_histogram_options o = { .size = sizeof(o), .min = 1, .max = 4 };
	const struct percpu_declaration table[] = {
		percpu_declare_counter(&counter, "a_total", "help of a"),
		percpu_declare_fcounter(&fcounter, "b_total", "help of b"),
		percpu_declare_histogram(&histogram, "c", "help of c", &o),
		percpu_declare_extrema(&extrema, "d", "help of d", PERCPU_EXTREMA_DOUBLE),
		percpu_declare_stats(&stats, "e_total", "help of e", &results),
		percpu_declare_info("f_info", "help of f", labels, values, 2),
	};
	struct percpu_segment *s = opened("counts", table, 6);
	struct percpu_reader *r = picture_of("counts");
	static const struct {
		const char *name, *help;
		uint32_t kind;
	} all[] = {
		{ "a_total", "help of a", PERCPU_METRIC_COUNTER },
		{ "b_total", "help of b", PERCPU_METRIC_FCOUNTER },
		{ "c", "help of c", PERCPU_METRIC_HISTOGRAM },
		{ "d", "help of d", PERCPU_METRIC_EXTREMA },
		{ "e_total", "help of e", PERCPU_METRIC_STATS },
		{ "f_info", "help of f", PERCPU_METRIC_INFO },
	};

	(void)state;
	assert_non_null(counter);
	percpu_counter_inc(counter);
	assert_int_equal(percpu_fcounter_add(fcounter, 1), 0);
	assert_true(histogram->low == 0 && histogram->high == 2);
	assert_true(percpu_extrema_is_double(extrema));
	percpu_stats_add(stats, 0, 1, 1);
	assert_int_equal(percpu_reader_count(r), 6);
	for (size_t i = 0; i < 6; i++) {
		assert_string_equal(series_of(r, all[i].name).help, all[i].help);
		assert_int_equal(series_of(r, all[i].name).kind, all[i].kind);
	}
	assert_int_equal(series_of(r, "f_info").labels, 2);
	assert_string_equal(series_of(r, "f_info").label_names[1], "site");
	assert_string_equal(series_of(r, "f_info").label_values[1], "here");
	assert_string_equal(series_of(r, "e_total").fields[1], "miss");
	percpu_reader_close(r);
	percpu_segment_close(s);
}

static void gauges_are_declared(void **state)
{
	const struct percpu_declaration table[] = {
		percpu_declare_gauge(&gauge, "a", "help of a"),
		percpu_declare_fgauge(&fgauge, "b", "help of b"),
		percpu_declare_latest(&latest, "c", "help of c"),
		percpu_declare_owned_gauge(&owned_gauge, "d", "help of d", PERCPU_OWNED_MAX),
		percpu_declare_owned_fgauge(&owned_fgauge, "e", "help of e", PERCPU_OWNED_MIN),
	};
	static const uint32_t kinds[] = { PERCPU_METRIC_GAUGE, PERCPU_METRIC_FGAUGE,
					  PERCPU_METRIC_LATEST, PERCPU_METRIC_OWNED_GAUGE,
					  PERCPU_METRIC_OWNED_FGAUGE };
	struct percpu_segment *s;
	struct percpu_reader *r;
	char name[2] = "a", help[] = "help of a";

	(void)state;
	if (!WIDE)
		test_skip("gauges are for processes of 64 bits");
	s = opened("gauges", table, 5);
	r = picture_of("gauges");
	assert_int_equal(percpu_gauge_set(gauge, 1), 0);
	assert_int_equal(percpu_fgauge_set(fgauge, 1), 0);
	assert_int_equal(percpu_latest_set(latest, 1), 0);
	assert_int_equal(percpu_owned_gauge_rule(owned_gauge), PERCPU_OWNED_MAX);
	assert_int_equal(percpu_owned_fgauge_rule(owned_fgauge), PERCPU_OWNED_MIN);
	assert_int_equal(percpu_reader_count(r), 5);
	for (int i = 0; i < 5; i++) {
		name[0] = help[8] = (char)('a' + i);
		assert_int_equal(series_of(r, name).kind, kinds[i]);
		assert_string_equal(series_of(r, name).help, help);
	}
	percpu_reader_close(r);
	percpu_segment_close(s);
}

static void families_are_declared(void **state)
{
	const struct percpu_declaration table[] = {
		percpu_declare_family(&family, PERCPU_METRIC_COUNTER, "a_total", "help of a",
				      labels, 2, 1),
	};
	struct percpu_segment *s = opened("families", table, 1);
	const char *const other[] = { "bob", "here" };
	struct percpu_reader_series series;
	struct percpu_counter *c, *of_values;
	struct percpu_reader *r;

	(void)state;
	assert_int_equal(percpu_family_counter(family, values, &of_values), 0);
	assert_int_equal(percpu_family_counter(family, other, &c), 0);
	assert_ptr_not_equal(c, of_values);
	assert_int_equal(percpu_family_overflows(family), 1);
	r = picture_of("families");
	assert_int_equal(percpu_reader_series(r, 0, &series), 0);
	assert_int_equal(series.cap, 1);
	assert_int_equal(series.labels, 2);
	assert_int_equal(series.kind, PERCPU_METRIC_COUNTER);
	assert_string_equal(series.help, "help of a");
	percpu_reader_close(r);
	percpu_segment_close(s);
}

/* Return a declaration that a program has changed after it was made. */
static struct percpu_declaration with_unit(struct percpu_declaration d, const char *unit)
{
	d.unit = unit;
	return d;
}

static void more_may_be_set(void **state)
{
	const struct percpu_declaration d =
		with_unit(percpu_declare_counter(&counter, "a_bytes_total", "h"), "bytes");
	const struct percpu_declaration wrong = with_unit(d, "grams");
	struct percpu_segment *s = opened("more", &d, 1);

	(void)state;
	assert_int_equal(d.size, sizeof(d));
	assert_int_equal(d.cap, 0);
	assert_int_equal(percpu_segment_declare(s, &wrong, 1), -EEXIST);
	assert_non_null(strstr(percpu_error(), "row 0: a_bytes_total: unit is \"bytes\""));
	percpu_segment_close(s);
}

/* Rows of a later release are larger. */
static void rows_have_the_size_of_the_first(void **state)
{
	struct {
		struct percpu_declaration d;
		uint64_t later[2];
	} table[] = {
		{ .d = percpu_declare_counter(&counter, "a_total", "") },
		{ .d = percpu_declare_extrema(&extrema, "b", "", 0) },
	};
	struct percpu_segment *s;

	(void)state;
	table[0].d.size = table[1].d.size = sizeof(table[0]);
	extrema = NULL;
	s = opened("larger", &table[0].d, 2);
	assert_non_null(extrema);
	table[1].later[1] = 1;
	assert_int_equal(percpu_segment_declare(s, &table[0].d, 2), -EINVAL);
	assert_non_null(strstr(percpu_error(), "row 1: "));
	percpu_segment_close(s);
}

/* The call counts, whether it is asked to or not, and does not create unasked. */
static void a_table_is_to_count(void **state)
{
	const struct percpu_declaration d = percpu_declare_counter(&counter, "a_total", "");
	struct percpu_segment *s = NULL, *t = NULL;

	(void)state;
	assert_int_equal(percpu_segment_open_table(test_path("asked"), 0, NULL, &d, 1, &s),
			 -ENOENT);
	assert_null(s);
	counter = NULL;
	s = opened("asked", &d, 1);
	assert_non_null(counter);
	percpu_counter_inc(counter);
	counter = NULL;
	assert_int_equal(percpu_segment_open_table(test_path("asked"), 0, NULL, &d, 1, &t), 0);
	assert_ptr_not_equal(s, t);
	assert_non_null(counter);
	percpu_counter_inc(counter);
	assert_int_equal(percpu_counter_fetch(counter), 2);
	percpu_segment_close(t);
	assert_int_equal(
		percpu_segment_open_table(test_path("asked"), PERCPU_SEGMENT_ANEW, NULL, &d, 1, &t),
		0);
	assert_int_equal(percpu_counter_fetch(counter), 0);
	percpu_segment_close(t);
	percpu_segment_close(s);
	s = opened("empty", NULL, 0);
	percpu_segment_close(s);
}

/* A row that the file cannot have makes the segment private, if that is asked for. A mistake does
 * not. */
static void a_table_falls_back_as_a_whole(void **state)
{
	struct percpu_declaration table[] = {
		percpu_declare_counter(&counter, "a_total", ""),
		percpu_declare_histogram(&histogram, "b", "", NULL),
	};
	const struct percpu_declaration other = percpu_declare_counter(&counter, "b", "");
	struct percpu_segment *s, *t = NULL;

	(void)state;
	s = opened("falls", &other, 1);
	assert_int_equal(percpu_segment_open_table(test_path("falls"), 0, NULL, table, 2, &t),
			 -EEXIST);
	assert_null(t);
	assert_int_equal(percpu_segment_open_table(test_path("falls"), PERCPU_SEGMENT_FALLBACK,
						   NULL, table, 2, &t),
			 0);
	assert_ptr_equal(strstr(percpu_segment_fallback(t), "row 1: b: "),
			 percpu_segment_fallback(t));
	percpu_counter_inc(counter);
	assert_int_equal(percpu_counter_fetch(counter), 1);
	percpu_histogram_record(histogram, 1);
	percpu_segment_close(t);
	t = NULL;
	table[1].name = "";
	assert_int_equal(percpu_segment_open_table(test_path("falls"), PERCPU_SEGMENT_FALLBACK,
						   NULL, table, 2, &t),
			 -EINVAL);
	assert_null(t);
	percpu_segment_close(s);
}

static void without_the_table_no_segment_is_open(void **state)
{
	struct percpu_declaration table[] = {
		percpu_declare_counter(&counter, "a_total", ""),
		percpu_declare_counter(&counter, "", ""),
	};
	struct percpu_segment *s = NULL;
	struct test_holding before;

	(void)state;
	percpu_segment_close(opened("failing", table, 1));
	before = test_holding_now();
	assert_int_equal(percpu_segment_open_table(test_path("failing"), 0, NULL, table, 2, &s),
			 -EINVAL);
	assert_string_equal(percpu_error(), "row 1: a metric has no name");
	assert_int_equal(percpu_segment_open_table(test_path("failing"), 0, NULL, NULL, 2, &s),
			 -EINVAL);
	assert_string_equal(percpu_error(), "the table is NULL");
	assert_null(s);
	test_assert_holding(before);
	assert_int_equal(percpu_segment_open_table(test_path("failing"), 0, NULL, table, 1, NULL),
			 -EINVAL);
	assert_string_equal(percpu_error(), "there is no place for the segment");
	assert_int_equal(percpu_segment_open_table(NULL, 0, NULL, table, 1, &s), -EINVAL);
	assert_string_equal(percpu_error(), "the name of the segment is NULL");
	assert_int_equal(percpu_segment_open_table("/nowhere/at/all", 0, NULL, table, 1, &s),
			 -ENOENT);
	assert_non_null(strstr(percpu_error(), "there is no such directory"));
	assert_null(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_are_declared),
		cmocka_unit_test(gauges_are_declared),
		cmocka_unit_test(families_are_declared),
		cmocka_unit_test(more_may_be_set),
		cmocka_unit_test(rows_have_the_size_of_the_first),
		cmocka_unit_test(a_table_is_to_count),
		cmocka_unit_test(a_table_falls_back_as_a_whole),
		cmocka_unit_test(without_the_table_no_segment_is_open),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
