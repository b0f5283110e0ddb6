/* SPDX-License-Identifier: MIT */
/*
 * test_metric.c - names, units, texts and labels of metrics: which are accepted, and the errors
 * for all others.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"

static struct percpu_segment *s;

static int open_segment(void **state)
{
	(void)state;
	return percpu_segment_open(test_path("metric"), PERCPU_SEGMENT_CREATE, NULL, &s);
}

static int close_segment(void **state)
{
	percpu_segment_close(s);
	return test_remove_paths(state);
}

static int counter(const struct percpu_metric *m)
{
	struct percpu_counter *c = NULL;
	int e = percpu_segment_counter(s, m, &c);

	assert_true((e == 0) == (c != NULL));
	return e;
}

static int extrema(const struct percpu_metric *m)
{
	struct percpu_extrema *x = NULL;

	return percpu_segment_extrema(s, m, 0, &x);
}

static int histogram(const struct percpu_metric *m)
{
	struct percpu_histogram *h = NULL;

	return percpu_segment_histogram(s, m, NULL, &h);
}

#define NAMED(n)                                                                                   \
	(&(const struct percpu_metric){ .size = sizeof(struct percpu_metric), .name = (n) })

/* Assert that the call fails so, and that the sentence has these words. */
static void refused(int got, int expected, const char *words)
{
	assert_int_equal(got, expected);
	if (strstr(percpu_error(), words) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", percpu_error(), words);
}

static void names_are_any_text(void **state)
{
	static const char *const good[] = { "1",
					    "a-b",
					    "a b",
					    "\xc3\xa4",
					    "job:rate5m_total",
					    "a{b",
					    "http.requests_total",
					    "_total",
					    "a\nb",
					    "_a9",
					    "A",
					    "queue_size_total" };
	char longest[258];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(counter(NAMED(good[i])), 0);
		assert_int_equal(counter(NAMED(good[i])), 0);
	}
	refused(counter(NAMED(NULL)), -EINVAL, "has no name");
	refused(counter(NAMED("")), -EINVAL, "has no name");
	refused(counter(NAMED("x\xff")), -EILSEQ, "the name is not UTF-8");
	memset(longest, 'x', sizeof(longest));
	longest[256] = '\0';
	refused(counter(NAMED(longest)), -ENAMETOOLONG, "more than 255 bytes");
	longest[255] = '\0';
	assert_int_equal(counter(NAMED(longest)), 0);
}

static void units_are_any_text(void **state)
{
	static const char *const units[] = { "seconds", "milliseconds", "requests", "\xc2\xb5s",
					     "" };
	struct percpu_metric m = { .size = sizeof(m) };
	char name[64], longest[257];

	(void)state;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		m.unit = units[i];
		snprintf(name, sizeof(name), "u%zu", i);
		m.name = name;
		assert_int_equal(extrema(&m), 0);
		m.unit = "other";
		refused(extrema(&m), -EEXIST, "\"other\" was asked for");
	}
	m.name = "v";
	m.unit = "\xff";
	refused(counter(&m), -EILSEQ, "v: the unit is not UTF-8");
	memset(longest, 'x', sizeof(longest));
	longest[256] = '\0';
	m.unit = longest;
	refused(counter(&m), -ENAMETOOLONG, "v: the unit has more than 255 bytes");
	longest[255] = '\0';
	assert_int_equal(counter(&m), 0);
}

static void texts_are_utf8(void **state)
{
	static const char *const good[] = { "",
					    "a\nb",
					    "\x7f",
					    "\xc2\x80",
					    "\xdf\xbf",
					    "\xe0\xa0\x80",
					    "\xed\x9f\xbf",
					    "\xee\x80\x80",
					    "\xf0\x90\x80\x80",
					    "\xf4\x8f\xbf\xbf" };
	static const char *const bad[] = { "\x80",
					   "\xc2",
					   "\xc0\x80",
					   "\xc1\xbf",
					   "\xe0\x9f\xbf",
					   "\xed\xa0\x80",
					   "\xe2\x82",
					   "\xc3(\xa9",
					   "\xe2(\xac",
					   "\xe2\x82(",
					   "\xe2\x82\xc3\xa9",
					   "\xf0\x90\x80(",
					   "\xf0\x8f\xbf\xbf",
					   "\xf4\x90\x80\x80",
					   "\xf8\x88\x80\x80\x80",
					   "\xf8\x90\x80\x80",
					   "a\xff" };
	char longest[PERCPU_METRIC_HELP + 2];
	struct percpu_metric m = *NAMED("help_total");

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		m.help = good[i];
		assert_int_equal(counter(&m), 0);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		m.help = bad[i];
		refused(counter(&m), -EILSEQ, "the help text is not UTF-8");
	}
	memset(longest, 'x', sizeof(longest));
	longest[PERCPU_METRIC_HELP + 1] = '\0';
	m.help = longest;
	refused(counter(&m), -ENAMETOOLONG, "the help text has more than 1023 bytes");
	longest[PERCPU_METRIC_HELP] = '\0';
	m.name = "longest_help_total";
	assert_int_equal(counter(&m), 0);
}

static void labels_are_checked(void **state)
{
	static const char *const good[] = { "1",	"a-b",	   "__a",     "le",
					    "quantile", "extreme", "\xc3\xa4" };
	const char *names[65] = { "a", "b" }, *values[65] = { "x", "y" };
	static char longest[PERCPU_METRIC_VALUE + 2];
	char name[16], long_name[257];
	struct percpu_metric m = { .size = sizeof(m),
				   .name = "l_total",
				   .label_names = names,
				   .label_values = values,
				   .labels = 2 };

	(void)state;
	assert_int_equal(counter(&m), 0);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(name, sizeof(name), "l%zu", i);
		m.name = name;
		names[1] = good[i];
		assert_int_equal(counter(&m), 0);
	}
	m.name = "k_total";
	names[1] = "";
	refused(counter(&m), -EINVAL, "the name of label 1 is empty");
	names[1] = "__name__";
	refused(counter(&m), -EINVAL, "no label is named __name__");
	values[1] = NULL; /* a wrong name comes first */
	refused(counter(&m), -EINVAL, "no label is named __name__");
	values[1] = "y";
	names[1] = "le";
	refused(histogram(&m), -EINVAL, "no label is named le: by that label");
	names[1] = "extreme";
	refused(extrema(&m), -EINVAL, "no label is named extreme: by that label");
	names[1] = "a";
	refused(counter(&m), -EINVAL, "two labels are named a");
	refused(counter(&(const struct percpu_metric){ .size = sizeof(struct percpu_metric),
						       .name = "percpu_family_overflows_total" }),
		-EINVAL, "by which percpu_reader_print() tells of families");
	names[1] = NULL;
	refused(counter(&m), -EINVAL, "the name of label 1 is NULL");
	names[1] = "\xff";
	refused(counter(&m), -EILSEQ, "the name of label 1 is not UTF-8");
	memset(long_name, 'n', sizeof(long_name));
	long_name[256] = '\0';
	names[1] = long_name;
	refused(counter(&m), -ENAMETOOLONG, "the name of label 1 has more than 255 bytes");
	names[1] = "b";
	values[1] = NULL;
	refused(counter(&m), -EINVAL, "the value of label b is NULL");
	values[1] = "\xff";
	refused(counter(&m), -EILSEQ, "the value of label b is not UTF-8");
	memset(longest, 'x', sizeof(longest));
	longest[PERCPU_METRIC_VALUE + 1] = '\0';
	values[1] = longest;
	refused(counter(&m), -ENAMETOOLONG, "the value of label b has more than 4096 bytes");
	longest[PERCPU_METRIC_VALUE] = '\0';
	assert_int_equal(counter(&m), 0);
	m.label_values = NULL;
	refused(counter(&m), -EINVAL, "it has labels, and .label_values is NULL");
	m.label_values = values;
	m.label_names = NULL;
	refused(counter(&m), -EINVAL, "it has labels, and .label_names is NULL");
	m.label_names = names;
	m.labels = 65;
	refused(counter(&m), -E2BIG, "65 labels are more than 64");
	m.labels = 0;
	refused(counter(&m), -EINVAL, "k_total: it has labels, and .labels is 0");
	m.label_names = NULL;
	refused(counter(&m), -EINVAL, "k_total: it has labels, and .labels is 0");
	m.label_names = names;
	m.label_values = NULL;
	refused(counter(&m), -EINVAL, "k_total: it has labels, and .labels is 0");
}

/* Declare the largest possible record: name, unit, help, names and values. */
static void texts_fill_a_record(void **state)
{
	enum { LABELS = 64, LAST = 63 };
	static char name[256], unit[256], help[1024], label[LABELS][256],
		value[LABELS][PERCPU_METRIC_VALUE + 1];
	const char *names[LABELS], *values[LABELS];
	struct percpu_metric m = { .size = sizeof(m),
				   .name = name,
				   .help = help,
				   .unit = unit,
				   .label_names = names,
				   .label_values = values,
				   .labels = LABELS };
	/* What is left for values, behind two bytes for each length. */
	size_t room = 65448 - 2 * 255 - 1023 - LABELS * (255 + 2) - LABELS * 2;
	struct percpu_extrema *x, *same;

	(void)state;
	memset(name, 'n', 255);
	memset(unit, 'u', 255);
	memset(help, 'h', 1023);
	for (int i = 0; i < LABELS; i++) {
		memset(label[i], '0' + i, 255);
		names[i] = label[i];
		values[i] = value[i];
	}
	for (int i = 0; room > 0; i++) {
		const size_t n = room < PERCPU_METRIC_VALUE ? room : PERCPU_METRIC_VALUE;

		memset(value[i], 'v', n);
		value[i][n] = '\0';
		room -= n;
	}
	assert_int_equal(percpu_segment_extrema(s, &m, 0, &x), 0);
	assert_int_equal(percpu_segment_extrema(s, &m, 0, &same), 0);
	assert_ptr_equal(x, same);
	value[LAST][0] = 'v';
	value[LAST][1] = '\0';
	refused(extrema(&m), -E2BIG, ": its texts have 65449 bytes, and there is room for 65448");
	value[LAST][0] = '\0';
	m.labels = LAST;
	refused(extrema(&m), -EEXIST, "oo\" in the segment, which was not asked for");
	m.labels = LABELS;
	label[LAST][254] = 'z';
	refused(extrema(&m), -EEXIST, ": its label 63 is \"oo");
	refused(extrema(&m), -EEXIST, "oo\" in the segment, \"oo");
	refused(extrema(&m), -EEXIST, "ooz\" was asked for");
}

/* Let 16 values have so many bytes together, and be as long as they can. */
static void fill_values(const char *values[16], size_t bytes)
{
	static char text[16][PERCPU_METRIC_VALUE + 1];

	for (int i = 0; i < 16; i++) {
		const size_t n = bytes < PERCPU_METRIC_VALUE ? bytes : PERCPU_METRIC_VALUE;

		memset(text[i], 'v', n);
		text[i][n] = '\0';
		values[i] = text[i];
		bytes -= n;
	}
}

static void names_of_fields_need_room(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h",
					     "i", "j", "k", "l", "m", "n", "o", "p" },
				 *const fields[] = { "x", "y" };
	const char *values[16];
	const struct percpu_metric_fields f = { sizeof(f), "of", fields, 2 };
	struct percpu_metric m = { .size = sizeof(m),
				   .name = "s",
				   .label_names = names,
				   .label_values = values,
				   .labels = 16 };
	struct percpu_stats *h, *same, *none = NULL;

	(void)state;
	/* Beside the values: a name, 16 labels and lengths of values, a label and two fields. */
	fill_values(values, 65448 - 1 - 16 * 3 - 16 * 2 - 4 - 2 * 3);
	assert_int_equal(percpu_segment_stats(s, &m, &f, 0, &h), 0);
	assert_int_equal(percpu_segment_stats(s, &m, &f, 0, &same), 0);
	assert_ptr_equal(h, same);
	m.help = "h";
	refused(percpu_segment_stats(s, &m, &f, 0, &none), -E2BIG,
		"s: its texts have 65449 bytes, and there is room for 65448");
	assert_null(none);
}

/* A text that is too long is shown in whole characters. */
static void long_texts_are_cut_between_characters(void **state)
{
	static const char shown[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
	char text[300];
	struct percpu_metric m = *NAMED(text);

	(void)state;
	for (int i = 0; i < 3; i++) {
		memset(text, 'x', sizeof(text));
		text[299] = '\0';
		memcpy(text + 38 + i, "\xe2\x82\xac", 3); /* 3 bytes, behind 38 to 40 */
		assert_int_equal(counter(&m), -ENAMETOOLONG);
		assert_memory_equal(percpu_error(), shown, 38);
		assert_string_equal(percpu_error() + 38 + i,
				    "...: the name has more than 255 bytes");
	}
	memset(text + 1, 0x80, 298); /* no character begins there */
	m.name = text + 1;
	assert_int_equal(counter(&m), -ENAMETOOLONG);
	assert_string_equal(percpu_error(), "...: the name has more than 255 bytes");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_any_text),
		cmocka_unit_test(units_are_any_text),
		cmocka_unit_test(texts_are_utf8),
		cmocka_unit_test(labels_are_checked),
		cmocka_unit_test(texts_fill_a_record),
		cmocka_unit_test(names_of_fields_need_room),
		cmocka_unit_test(long_texts_are_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, open_segment, close_segment);
}
