/* SPDX-License-Identifier: MIT */
/*
 * test_segment_stats.c - statistics in segments: a struct of counters as one metric. Their
 * reset: test_segment_anew.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "declared.h"
#include "support.h"

#include "segment/segment.h"
#include "../segments.h"

struct lookups {
	uint64_t hits, misses, errors;
};

static const char *const names[] = { "hit", "miss", "error" };
static const struct percpu_metric_fields results =
	PERCPU_METRIC_FIELDS(struct lookups, "result", names);
static const struct percpu_metric lookups_total = { .size = sizeof(lookups_total),
						    .name = "lookups_total" };

static struct percpu_segment *s, *t; /* opened twice, as by two processes */

static int open_both(void **state)
{
	(void)state;
	assert_int_equal(percpu_segment_open(test_path("stats"), ALL, NULL, &s), 0);
	assert_int_equal(percpu_segment_open(test_path("stats"), ALL, NULL, &t), 0);
	return 0;
}

static int close_both(void **state)
{
	(void)state;
	percpu_segment_close(s);
	percpu_segment_close(t);
	return unlink(test_path("stats"));
}

static struct lookups lookups(uint64_t hits, uint64_t misses, uint64_t errors)
{
	return (struct lookups){ hits, misses, errors };
}

static void has(PERCPU_STATS(struct lookups) h, struct lookups expected)
{
	struct lookups got = lookups(0, 0, 0);

	assert_int_equal(PERCPU_STATS_SNAPSHOT(h, 0, 1, &got), 0);
	assert_memory_equal(&got, &expected, sizeof(got));
}

static int declare(struct percpu_segment *of, const struct percpu_metric *m,
		   const struct percpu_metric_fields *f)
{
	struct percpu_stats *none = NULL;
	int e = percpu_segment_stats(of, m, f, 0, &none);

	assert_true((e == 0) == (none != NULL));
	return e;
}

static void both_count_in_one(void **state)
{
	PERCPU_STATS(struct lookups) a = NULL;
	PERCPU_STATS(struct lookups) b = NULL;
	struct percpu_declaration row = { .size = sizeof(row),
					  OF_METRIC(lookups_total),
					  .kind = PERCPU_METRIC_STATS,
					  .ret = { .counter = (void *)&b },
					  .fields = &results };
	struct percpu_stats *again = NULL;

	(void)state;
	assert_int_equal(percpu_segment_stats(s, &lookups_total, &results, 0, PERCPU_STATS_RET(&a)),
			 0);
	assert_int_equal(percpu_segment_declare(t, &row, 1), 0);
	assert_int_equal(PERCPU_STATS_UPDATE(a, 0, .hits = 3, .errors = 1), 0);
	PERCPU_STATS_ADD(b, 0, misses, 2);
	has(a, lookups(3, 2, 1));
	has(b, lookups(3, 2, 1));
	assert_int_equal(PERCPU_STATS_OF(a)->words, 3);
	assert_int_equal(PERCPU_STATS_OF(a)->n, 1);
	assert_int_equal(percpu_segment_stats(s, &lookups_total, &results, 0, &again), 0);
	assert_ptr_equal(again, PERCPU_STATS_OF(a));
	percpu_segment_close(t);
	assert_int_equal(percpu_segment_open(test_path("stats"), 0, NULL, &t), 0);
	assert_int_equal(percpu_segment_declare(t, &row, 1), 0);
	assert_int_equal(PERCPU_STATS_FETCH(b, 0, 1, &(struct lookups){ .hits = 0 }), 0);
}

/* The metric's labels make series; the fields do not. */
static void labels_make_series(void **state)
{
	const char *const label = "cache", *const values[] = { "dns", "hit" };
	struct percpu_metric m = {
		.size = sizeof(m), .name = "lookups_total", .label_names = &label, .labels = 1
	};
	const struct percpu_segment_record *r = percpu_directory_at(s, 0);
	PERCPU_STATS(struct lookups) h[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		m.label_values = &values[i];
		assert_int_equal(percpu_segment_stats(s, &m, &results, 0, PERCPU_STATS_RET(&h[i])),
				 0);
		PERCPU_STATS_ADD(h[i], 0, hits, i + 1);
	}
	r = percpu_directory_at(s, 0);
	assert_int_equal(r->labels, 1);
	assert_int_equal(r->fields, 3);
	assert_int_equal(r->label_names, sizeof("xxcachexxresult") - 1);
	assert_int_equal(r->label_values, sizeof("xxdnsxxhitxxmissxxerror") - 1);
	assert_memory_equal((const char *)(r + 1) + r->name,
			    "\5\0cache\6\0result\3\0dns\3\0hit\4\0miss\5\0error", 39);
	for (int i = 0; i < 2; i++) {
		m.label_values = &values[i];
		assert_int_equal(percpu_segment_stats(t, &m, &results, 0, PERCPU_STATS_RET(&h[0])),
				 0);
		has(h[0], lookups((uint64_t)i + 1, 0, 0));
	}
	assert_int_equal(t->series.used, 2);
}

static void other_fields_are_refused(void **state)
{
	static const char *const four[] = { "hit", "miss", "error", "late" };
	static const char *const other[] = { "hit", "miss", "late" };
	const char *const labels[] = { "result" }, *const values[] = { "hit" };
	struct percpu_metric_fields f = results;
	struct percpu_metric m = lookups_total;
	struct percpu_counter *none = NULL;
	uint64_t end;

	(void)state;
	assert_int_equal(declare(s, &m, &results), 0);
	end = s->control->end;
	f.names = four;
	f.n = 2;
	assert_int_equal(declare(t, &m, &f), -EEXIST);
	assert_string_equal(percpu_error(),
			    "lookups_total: it has the field \"error\" in the segment, "
			    "which was not asked for");
	f.n = 4;
	assert_int_equal(declare(t, &m, &f), -EEXIST);
	assert_string_equal(percpu_error(), "lookups_total: it has no field \"late\" in the "
					    "segment, which was asked for");
	f.names = other;
	f.n = 3;
	assert_int_equal(declare(s, &m, &f), -EEXIST);
	assert_non_null(strstr(percpu_error(), "\"error\" in the segment, \"late\" was asked for"));
	f = results;
	f.label = "outcome";
	assert_int_equal(declare(t, &m, &f), -EEXIST);
	assert_string_equal(percpu_error(),
			    "lookups_total: its label 0 is \"result\" in the segment, "
			    "\"outcome\" was asked for");
	m.label_names = labels;
	m.label_values = values;
	m.labels = 1;
	assert_int_equal(percpu_segment_counter(t, &m, &none), -EEXIST);
	assert_string_equal(percpu_error(),
			    "lookups_total: is statistics in the segment, a counter was asked for");
	assert_null(none);
	assert_int_equal(s->control->end, end);
}

/* The last field of as many as there can be differs, in its last byte of as many. */
static void long_fields_are_told_apart(void **state)
{
	static char name[PERCPU_STATS_MAX_COMMIT][PERCPU_METRIC_NAME + 1];
	const char *fields[PERCPU_STATS_MAX_COMMIT];
	const struct percpu_metric_fields f = { sizeof(f), "l", fields, PERCPU_STATS_MAX_COMMIT };
	char sentence[1024];

	(void)state;
	for (int i = 0; i < PERCPU_STATS_MAX_COMMIT; i++) {
		memset(name[i], 'a', PERCPU_METRIC_NAME);
		name[i][0] = (char)('0' + i);
		fields[i] = name[i];
	}
	assert_int_equal(declare(s, &lookups_total, &f), 0);
	name[63][PERCPU_METRIC_NAME - 1] = 'b';
	assert_int_equal(declare(t, &lookups_total, &f), -EEXIST);
	snprintf(sentence, sizeof(sentence),
		 "lookups_total: its field 63 is \"%.254sa\" in the segment, \"%s\" was asked for",
		 name[63], name[63]);
	assert_string_equal(percpu_error(), sentence);
}

/* The texts have the same number of bytes, with one label more and one field less. */
static void fields_are_no_labels(void **state)
{
	const char *const both[] = { "hit", "miss" }, *const label = "a";
	struct percpu_metric m = { .size = sizeof(m), .name = "a_total" };
	struct percpu_metric_fields f = { sizeof(f), "a", both, 2 };

	(void)state;
	assert_int_equal(declare(s, &m, &f), 0);
	m.label_names = &label;
	m.label_values = both;
	m.labels = 1;
	f = (struct percpu_metric_fields){ sizeof(f), "b", both + 1, 1 };
	assert_int_equal(declare(s, &m, &f), -EEXIST);
}

static void other_flags_are_refused(void **state)
{
	struct percpu_stats *none = NULL, *whole;
	struct percpu_metric m = lookups_total;

	(void)state;
	assert_int_equal(declare(s, &lookups_total, &results), 0);
	assert_int_equal(
		percpu_segment_stats(t, &lookups_total, &results, PERCPU_STATS_WHOLE, &none),
		-EEXIST);
	assert_string_equal(
		percpu_error(),
		"lookups_total: is statistics without PERCPU_STATS_WHOLE in the segment, "
		"statistics with PERCPU_STATS_WHOLE was asked for");
	m.name = "b_total";
	assert_int_equal(percpu_segment_stats(t, &m, &results, 2, &none), -EINVAL);
	assert_null(none);
	assert_int_equal(percpu_segment_stats(t, &m, &results, PERCPU_STATS_WHOLE, &whole), 0);
	assert_int_equal(percpu_stats_commit_words(whole), 3);
}

/* Assert that the call fails so, and that the sentence has these words. */
static void refused(const struct percpu_metric *m, const struct percpu_metric_fields *f,
		    int expected, const char *words)
{
	assert_int_equal(declare(s, m, f), expected);
	if (strstr(percpu_error(), words) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", percpu_error(), words);
}

static void fields_are_checked(void **state)
{
	const char *const label = "result", *const value = "x";
	const char *wrong[65] = { "a", "b", "a" };
	struct percpu_metric_fields f = results;
	struct percpu_metric m = lookups_total;
	char longest[257];

	(void)state;
	refused(&m, NULL, -EINVAL, "the fields are NULL, or their struct has another size");
	f.size--;
	refused(&m, &f, -EINVAL, "the fields are NULL, or their struct has another size");
	f.size++;
	f.n = 0;
	refused(&m, &f, -EINVAL, "statistics have 1 to 64 fields, not 0");
	f.n = 65;
	refused(&m, &f, -EINVAL, "statistics have 1 to 64 fields, not 65");
	f = results;
	f.label = NULL;
	refused(&m, &f, -EINVAL, "no label, or no names");
	f.label = "";
	refused(&m, &f, -EINVAL, "the name of label 0 is empty");
	f.label = "__name__";
	refused(&m, &f, -EINVAL, "no label is named __name__");
	f = results;
	m.label_names = &label;
	m.label_values = &value;
	m.labels = 1;
	refused(&m, &f, -EINVAL, "two labels are named result");
	m = lookups_total;
	f.names = NULL;
	refused(&m, &f, -EINVAL, "no label, or no names");
	f.names = wrong;
	refused(&m, &f, -EINVAL, "two fields are named \"a\"");
	wrong[2] = "";
	refused(&m, &f, -EINVAL, "field 2 has no name");
	wrong[2] = NULL;
	refused(&m, &f, -EINVAL, "field 2 has no name");
	wrong[2] = "\xff";
	refused(&m, &f, -EILSEQ, "the name of field 2 is not UTF-8");
	memset(longest, 'x', sizeof(longest));
	longest[256] = '\0';
	wrong[2] = longest;
	refused(&m, &f, -ENAMETOOLONG, "the name of field 2 has more than 255 bytes");
}

/* Declare as many fields as there can be, of names as long as they can be. */
static void all_may_be_as_long_as_they_can(void **state)
{
	static char text[64][256];
	const char *field[64];
	struct percpu_metric m = lookups_total;
	struct percpu_metric_fields f = { .size = sizeof(f), .names = field, .n = 64 };

	(void)state;
	for (int i = 0; i < 64; i++) {
		memset(text[i], '0' + i, 255);
		field[i] = text[i];
	}
	f.label = text[0];
	assert_int_equal(declare(s, &m, &f), 0);
	assert_int_equal(declare(t, &m, &f), 0);
	assert_int_equal(t->series.used, 1);
	field[63] = "x";
	assert_int_equal(declare(t, &m, &f), -EEXIST);
}

/* The number of fields in a record is out of range. */
static void numbers_of_fields_are_not_believed(void **state)
{
	static const uint8_t wrong[] = { 0, 65, 255 };

	(void)state;
	assert_int_equal(declare(s, &lookups_total, &results), 0);
	for (size_t i = 0; i < sizeof(wrong); i++) {
		percpu_directory_at(s, 0)->fields = wrong[i];
		percpu_segment_close(t);
		assert_int_equal(percpu_segment_open(test_path("stats"), ALL, NULL, &t), 0);
		assert_int_equal(percpu_directory_refresh(t), 0);
		assert_int_equal(t->series.used, 0);
	}
	percpu_directory_at(s, 0)->kind = PERCPU_METRIC_COUNTER;
	percpu_directory_at(s, 0)->fields = 3;
	assert_int_equal(percpu_directory_refresh(t), 0);
	assert_int_equal(t->series.used, 0);
}

/* The numbers of fields and of labels are not those of the texts. */
static void damage_is_told(void **state)
{
	struct percpu_segment_record *r;

	(void)state;
	assert_int_equal(declare(s, &lookups_total, &results), 0);
	r = percpu_directory_at(s, 0);
	r->fields = 2;
	assert_int_equal(declare(t, &lookups_total, &results), -EBADMSG);
	assert_string_equal(percpu_error(), "lookups_total: the file is damaged");
	r->fields = 3;
	r->labels = 16;
	percpu_segment_close(t);
	assert_int_equal(percpu_segment_open(test_path("stats"), 0, NULL, &t), 0);
	assert_int_equal(declare(t, &lookups_total, &results), -EBADMSG);
}

#define both(f) cmocka_unit_test_setup_teardown(f, open_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		both(both_count_in_one),
		both(labels_make_series),
		both(other_fields_are_refused),
		both(long_fields_are_told_apart),
		both(fields_are_no_labels),
		both(other_flags_are_refused),
		both(fields_are_checked),
		both(all_may_be_as_long_as_they_can),
		both(numbers_of_fields_are_not_believed),
		both(damage_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
