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
	return percpu_segment_open(test_path("metric"),
				   PERCPU_SEGMENT_WRITE | PERCPU_SEGMENT_CREATE, NULL, &s);
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

#define NAMED(n)                                                                                   \
	(&(const struct percpu_metric){ .size = sizeof(struct percpu_metric), .name = (n) })

/* Assert that the call fails so, and that the sentence has these words. */
static void refused(int got, int expected, const char *words)
{
	assert_int_equal(got, expected);
	if (strstr(percpu_error(), words) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", percpu_error(), words);
}

static void names_are_checked(void **state)
{
	static const char *const bad[] = { "1_total",	     "a-b_total", "a b_total",
					   "\xc3\xa4_total", "a:b_total", "a{b_total" };
	char longest[258];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(counter(NAMED(bad[i])), -EINVAL, "begins with no digit");
	refused(counter(NAMED(NULL)), -EINVAL, "has no name");
	refused(counter(NAMED("")), -EINVAL, "has no name");
	memset(longest, 'x', sizeof(longest));
	strcpy(longest + 250, "_total");
	refused(counter(NAMED(longest)), -ENAMETOOLONG, "more than 255 bytes");
	strcpy(longest + 249, "_total");
	assert_int_equal(counter(NAMED(longest)), 0);
	assert_int_equal(counter(NAMED("_a9_total")), 0);
	assert_int_equal(counter(NAMED("A_total")), 0);
	assert_int_equal(counter(NAMED("zaA09zZ_total")), 0);
	assert_int_equal(counter(NAMED("Z_total")), 0);
}

static void ends_of_names_say_the_kind(void **state)
{
	static const char *const reserved[] = { "a_bucket", "a_count", "a_sum", "a_created" };
	struct percpu_fcounter *f;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		refused(extrema(NAMED(reserved[i])), -EINVAL, "is reserved");
	refused(counter(NAMED("a")), -EINVAL, "a: the name of a counter ends in _total");
	refused(counter(NAMED("_total")), -EINVAL, "ends in _total");
	refused(extrema(NAMED("a_total")), -EINVAL,
		"only the name of a counter, or of statistics, ends in _total");
	refused(extrema(NAMED("a_info")), -EINVAL, "only the name of an info");
	refused(percpu_segment_info(s, NAMED("a")), -EINVAL, "a: the name of an info ends");
	assert_int_equal(percpu_segment_info(s, NAMED("a_info")), 0);
	assert_int_equal(percpu_segment_fcounter(s, NAMED("f_total"), &f), 0);
	assert_int_equal(extrema(NAMED("total")), 0);
}

static void units_are_ends_of_names(void **state)
{
	static const char *const units[] = { "seconds", "bytes",  "ratio", "joules",  "volts",
					     "amperes", "meters", "grams", "celsius", "kelvin" };
	struct percpu_metric m = { .size = sizeof(m) };
	char name[64];

	(void)state;
	for (size_t i = 0; i < 10; i++) {
		m.unit = units[i];
		snprintf(name, sizeof(name), "u_%s", units[i]);
		m.name = name;
		assert_int_equal(extrema(&m), 0);
		strcat(name, "_total");
		assert_int_equal(counter(&m), 0);
	}
	m.unit = "milliseconds";
	m.name = "v_milliseconds_total";
	refused(counter(&m), -EINVAL, "no unit");
	m.unit = "bytes";
	m.name = "v_total";
	refused(counter(&m), -EINVAL, "the name ends in _bytes_total");
	m.name = "v_bytes_x_total";
	refused(counter(&m), -EINVAL, "the name ends in _bytes_total");
	m.name = "vbytes_total";
	refused(counter(&m), -EINVAL, "the name ends in _bytes_total");
	m.name = "v_info";
	refused(percpu_segment_info(s, &m), -EINVAL, "no unit of such a metric");
	m.unit = "";
	m.name = "w_total";
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
	static const char *const bad[] = { "", "1", "a-b", "__a", "le", "quantile" };
	const char *names[17] = { "a", "b" }, *values[17] = { "x", "y" };
	char longest[257];
	struct percpu_metric m = { .size = sizeof(m),
				   .name = "l_total",
				   .label_names = names,
				   .label_values = values,
				   .labels = 2 };

	(void)state;
	assert_int_equal(counter(&m), 0);
	m.name = "k_total";
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		names[1] = bad[i];
		refused(counter(&m), -EINVAL, "a label cannot be named");
	}
	values[1] = NULL; /* a wrong name comes first */
	refused(counter(&m), -EINVAL, "a label cannot be named");
	values[1] = "y";
	names[1] = "a";
	refused(counter(&m), -EINVAL, "two labels are named a");
	names[1] = NULL;
	refused(counter(&m), -EINVAL, "the name of label 1 is NULL");
	names[1] = "\xff";
	refused(counter(&m), -EILSEQ, "the name of label 1 is not UTF-8");
	names[1] = "b";
	values[1] = NULL;
	refused(counter(&m), -EINVAL, "the value of label b is NULL");
	values[1] = "\xff";
	refused(counter(&m), -EILSEQ, "the value of label b is not UTF-8");
	memset(longest, 'x', sizeof(longest));
	longest[256] = '\0';
	values[1] = longest;
	refused(counter(&m), -ENAMETOOLONG, "the value of label b has more than 255 bytes");
	longest[255] = '\0';
	assert_int_equal(counter(&m), 0);
	m.label_values = NULL;
	refused(counter(&m), -EINVAL, "it has labels, and .label_values is NULL");
	m.label_values = values;
	m.label_names = NULL;
	refused(counter(&m), -EINVAL, "it has labels, and .label_names is NULL");
	m.label_names = names;
	m.labels = 17;
	refused(counter(&m), -E2BIG, "17 labels are more than 16");
	m.labels = 0;
	refused(counter(&m), -EINVAL, "k_total: it has labels, and .labels is 0");
	m.label_names = NULL;
	refused(counter(&m), -EINVAL, "k_total: it has labels, and .labels is 0");
	m.label_names = names;
	m.label_values = NULL;
	refused(counter(&m), -EINVAL, "k_total: it has labels, and .labels is 0");
}

/* Declare the largest possible record. */
static void all_may_be_as_long_as_they_can(void **state)
{
	char name[256], help[1024], label[16][256], value[256];
	const char *names[16], *values[16];
	struct percpu_metric m = { .size = sizeof(m),
				   .name = name,
				   .help = help,
				   .unit = "seconds",
				   .label_names = names,
				   .label_values = values,
				   .labels = 16 };
	struct percpu_extrema *x, *same;

	(void)state;
	memset(name, 'n', sizeof(name));
	strcpy(name + 247, "_seconds");
	memset(help, 'h', sizeof(help));
	help[1023] = '\0';
	memset(value, 'v', sizeof(value));
	value[255] = '\0';
	for (int i = 0; i < 16; i++) {
		memset(label[i], 'a' + i, sizeof(label[i]));
		label[i][255] = '\0';
		names[i] = label[i];
		values[i] = value;
	}
	assert_int_equal(percpu_segment_extrema(s, &m, 0, &x), 0);
	assert_int_equal(percpu_segment_extrema(s, &m, 0, &same), 0);
	assert_ptr_equal(x, same);
	m.labels = 15;
	refused(extrema(&m), -EEXIST, "pp\" in the segment, which was not asked for");
	m.labels = 16;
	label[15][254] = 'z';
	refused(extrema(&m), -EEXIST, ": its label 15 is \"pp");
	refused(extrema(&m), -EEXIST, "pp\" in the segment, \"pp");
	refused(extrema(&m), -EEXIST, "ppz\" was asked for");
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
	m.name = "x_bytes_total";
	m.unit = text + 1;
	refused(counter(&m), -EINVAL, "xx\" is no unit of such a metric");
	memset(text + 1, 0x80, 298); /* no character begins there */
	m.name = text + 1;
	assert_int_equal(counter(&m), -ENAMETOOLONG);
	assert_string_equal(percpu_error(), "...: the name has more than 255 bytes");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(ends_of_names_say_the_kind),
		cmocka_unit_test(units_are_ends_of_names),
		cmocka_unit_test(texts_are_utf8),
		cmocka_unit_test(labels_are_checked),
		cmocka_unit_test(all_may_be_as_long_as_they_can),
		cmocka_unit_test(long_texts_are_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, open_segment, close_segment);
}
