/* SPDX-License-Identifier: MIT */
/*
 * test_reader_print.c - pictures as text: each kind in both formats, texts that need quotes or
 * escapes, numbers that are not finite, families, and streams that fail.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "declared.h"
#include "faults.h"
#include "support.h"
#include "segments.h"

#include "segment/segment.h"

/* Whether snprintf() is that of a program whose locale has decimal commas. */
static bool has_commas;

int __wrap_snprintf(char *text, size_t size, const char *format, ...);
int __wrap_snprintf(char *text, size_t size, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, size, format, args);
	va_end(args);
	if (has_commas && uselocale((locale_t)0) == LC_GLOBAL_LOCALE)
		for (; *text != '\0'; text++)
			*text = *text == '.' ? ',' : *text;
	return n;
}

static struct percpu_segment *s;
static struct percpu_reader *r;

static int open_both(void **state)
{
	(void)state;
	assert_int_equal(percpu_segment_open(test_path("print"), ALL, NULL, &s), 0);
	assert_int_equal(percpu_reader_open(test_path("print"), &r), 0);
	return 0;
}

static int close_both(void **state)
{
	(void)state;
	percpu_reader_close(r);
	percpu_segment_close(s);
	return unlink(test_path("print"));
}

/* Assert that the last picture is this text. */
static void prints_in(enum percpu_print_format format, const char *expected)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);

	assert_non_null(to);
	assert_int_equal(percpu_reader_print(r, to, format), 0);
	assert_int_equal(fclose(to), 0);
	assert_string_equal(text, expected);
	free(text);
}

/* Take a picture, and assert that it is this text for Prometheus, and these objects of JSON. */
static void prints(const char *prometheus, const char *objects)
{
	char json[4096];

	assert_int_equal(percpu_reader_read(r), 0);
	prints_in(PERCPU_PRINT_PROMETHEUS, prometheus);
	(void)snprintf(json, sizeof(json), "[\n%s\n]\n", objects);
	prints_in(PERCPU_PRINT_JSON, json);
}

static struct percpu_counter *counter(const struct percpu_metric *m)
{
	struct percpu_counter *c = NULL;

	assert_int_equal(percpu_segment_counter(s, m, &c), 0);
	return c;
}

static void nothing_is_an_empty_list(void **state)
{
	(void)state;
	prints("", "");
}

static void counters_are_exact(void **state)
{
	struct percpu_fcounter *f;

	(void)state;
	percpu_counter_add(counter(METRIC("a_total")), UINT64_MAX);
	assert_int_equal(percpu_segment_fcounter(s, METRIC("b_total"), &f), 0);
	assert_int_equal(percpu_fcounter_add(f, 0.1), 0);
	prints("# HELP a_total \n"
	       "# TYPE a_total counter\n"
	       "a_total 18446744073709551615\n"
	       "# HELP b_total \n"
	       "# TYPE b_total counter\n"
	       "b_total 0.1\n",
	       "{\"type\": \"counter\", \"name\": \"a_total\", \"labels\": {}, "
	       "\"value\": 18446744073709551615},\n"
	       "{\"type\": \"counter\", \"name\": \"b_total\", \"labels\": {}, "
	       "\"value\": 0.1}");
}

/* Write the exemplar in slot k of series i of the picture, as JSON has it, at *to. */
static void write_exemplar(char **to, size_t i, size_t k, const char *labels)
{
	struct percpu_exemplar x;

	assert_int_equal(percpu_reader_exemplar(r, i, k, &x), 0);
	*to += sprintf(*to,
		       ", \"exemplar\": {\"labels\": {%s}, \"value\": %g, \"time\": %llu.%09u}",
		       labels, x.value, (unsigned long long)(x.time / 1000000000),
		       (unsigned)(x.time % 1000000000));
}

static void json_has_exemplars(void **state)
{
	const struct percpu_exemplar_label labels[] = { { "id", "\"6\"" }, { "b.c", "" } };
	const struct percpu_histogram_options o = {
		.size = sizeof(o), .min = 1, .max = 4, .buckets_per_octave = 2
	};
	struct percpu_exemplars *x, *of_h;
	struct percpu_histogram *h;
	char objects[2048], *to = objects;

	(void)state;
	percpu_counter_add(counter(METRIC("a_total")), 2);
	assert_int_equal(percpu_segment_exemplars(s, METRIC("a_total"), &x), 0);
	assert_int_equal(percpu_exemplars_store(x, 2, labels, 2), 0);
	assert_int_equal(percpu_segment_histogram(s, METRIC("b"), &o, &h), 0);
	percpu_histogram_record(h, 2);
	assert_int_equal(percpu_segment_exemplars(s, METRIC("b"), &of_h), 0);
	assert_int_equal(percpu_exemplars_store(of_h, 2, NULL, 0), 0);
	assert_int_equal(percpu_exemplars_store(of_h, 5, labels, 1), 0);
	percpu_counter_add(counter(METRIC("c_total")), 3);
	assert_int_equal(percpu_reader_read(r), 0);
#define OBJECT(type, name, labels, value)                                                          \
	"{\"type\": \"" type "\", \"name\": \"" name "\", \"labels\": {" labels                    \
	"}, \"value\": " value
	to += sprintf(to, OBJECT("counter", "a_total", "", "2"));
	write_exemplar(&to, 0, 0, "\"id\": \"\\\"6\\\"\", \"b.c\": \"\"");
	to += sprintf(to,
		      "},\n" OBJECT("histogram", "b_bucket", "\"le\": \"1\"", "0") "},\n" OBJECT(
			      "histogram", "b_bucket", "\"le\": \"2\"", "1"));
	write_exemplar(&to, 1, 1, "");
	to += sprintf(to,
		      "},\n" OBJECT("histogram", "b_bucket", "\"le\": \"4\"", "1") "},\n" OBJECT(
			      "histogram", "b_bucket", "\"le\": \"+Inf\"", "1"));
	write_exemplar(&to, 1, 3, "\"id\": \"\\\"6\\\"\"");
	to += sprintf(to, "},\n" OBJECT("histogram", "b_sum", "", "2") "},\n" OBJECT(
				  "histogram", "b_count", "",
				  "1") "},\n" OBJECT("counter", "c_total", "", "3") "}");
	prints("# HELP a_total \n"
	       "# TYPE a_total counter\n"
	       "a_total 2\n"
	       "# HELP b \n"
	       "# TYPE b histogram\n"
	       "b_bucket{le=\"1\"} 0\n"
	       "b_bucket{le=\"2\"} 1\n"
	       "b_bucket{le=\"4\"} 1\n"
	       "b_bucket{le=\"+Inf\"} 1\n"
	       "b_sum 2\n"
	       "b_count 1\n"
	       "# HELP c_total \n"
	       "# TYPE c_total counter\n"
	       "c_total 3\n",
	       objects);
}

/* Also if the thread has a locale of its own, which it has again after that. */
static void numbers_have_points_in_all_locales(void **state)
{
	const locale_t own = newlocale(LC_ALL_MASK, "POSIX", (locale_t)0);
	struct percpu_fcounter *f;

	(void)state;
	assert_int_equal(percpu_segment_fcounter(s, METRIC("a_total"), &f), 0);
	assert_int_equal(percpu_fcounter_add(f, 0.5), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	has_commas = true;
	prints_in(PERCPU_PRINT_PROMETHEUS, "# HELP a_total \n"
					   "# TYPE a_total counter\n"
					   "a_total 0.5\n");
	has_commas = false;
	assert_ptr_equal(uselocale((locale_t)0), LC_GLOBAL_LOCALE);
	uselocale(own);
	prints_in(PERCPU_PRINT_PROMETHEUS, "# HELP a_total \n"
					   "# TYPE a_total counter\n"
					   "a_total 0.5\n");
	assert_ptr_equal(uselocale(LC_GLOBAL_LOCALE), own);
	freelocale(own);
}

static void gauges_have_a_type(void **state)
{
	struct percpu_owned_fgauge *owned_fgauge;
	struct percpu_owned_gauge *owned_gauge;
	struct percpu_latest *latest;
	struct percpu_fgauge *fgauge;
	struct percpu_gauge *gauge;

	(void)state;
	if (!WIDE)
		test_skip("gauges are for processes of 64 bits");
	assert_int_equal(percpu_segment_gauge(s, METRIC("a"), &gauge), 0);
	assert_int_equal(percpu_gauge_set(gauge, -3), 0);
	assert_int_equal(percpu_segment_fgauge(s, METRIC("b"), &fgauge), 0);
	assert_int_equal(percpu_fgauge_set(fgauge, 1.5), 0);
	assert_int_equal(percpu_segment_latest(s, METRIC("c"), &latest), 0);
	assert_int_equal(percpu_latest_set(latest, 2.5), 0);
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("d"), PERCPU_OWNED_SUM, &owned_gauge),
			 0);
	assert_int_equal(percpu_owned_gauge_set(owned_gauge, 4), 0);
	assert_int_equal(
		percpu_segment_owned_fgauge(s, METRIC("e"), PERCPU_OWNED_MAX, &owned_fgauge), 0);
	assert_int_equal(percpu_owned_fgauge_set(owned_fgauge, 5.5), 0);
	assert_int_equal(percpu_segment_latest(s, METRIC("never_set"), &latest), 0);
	prints("# HELP a \n# TYPE a gauge\na -3\n"
	       "# HELP b \n# TYPE b gauge\nb 1.5\n"
	       "# HELP c \n# TYPE c gauge\nc 2.5\n"
	       "# HELP d \n# TYPE d gauge\nd 4\n"
	       "# HELP e \n# TYPE e gauge\ne 5.5\n",
	       "{\"type\": \"gauge\", \"name\": \"a\", \"labels\": {}, \"value\": -3},\n"
	       "{\"type\": \"gauge\", \"name\": \"b\", \"labels\": {}, \"value\": 1.5},\n"
	       "{\"type\": \"gauge\", \"name\": \"c\", \"labels\": {}, \"value\": 2.5},\n"
	       "{\"type\": \"gauge\", \"name\": \"d\", \"labels\": {}, \"value\": 4},\n"
	       "{\"type\": \"gauge\", \"name\": \"e\", \"labels\": {}, \"value\": 5.5}");
}

/* Infos have a value of 1, extrema two series, statistics one for each field. */
static void other_kinds_have_labels(void **state)
{
	static const char *const label = "version", *const version = "2", *const site = "site",
				 *const here = "here", *const fields[] = { "hit", "miss" };
	const struct percpu_metric info = { .size = sizeof(info),
					    .name = "a_info",
					    .label_names = &label,
					    .label_values = &version,
					    .labels = 1 };
	const struct percpu_metric stats = { .size = sizeof(stats),
					     .name = "c_total",
					     .label_names = &site,
					     .label_values = &here,
					     .labels = 1 };
	const struct percpu_metric_fields f = { sizeof(f), "result", fields, 2 };
	struct percpu_extrema *x;
	struct percpu_stats *t;

	(void)state;
	assert_int_equal(percpu_segment_info(s, &info), 0);
	assert_int_equal(percpu_segment_extrema(s, METRIC("b"), 0, &x), 0);
	percpu_extrema_observe(x, 9);
	percpu_extrema_observe(x, -2);
	assert_int_equal(percpu_segment_extrema(s, METRIC("b_of_nothing"), 0, &x), 0);
	assert_int_equal(percpu_segment_stats(s, &stats, &f, 0, &t), 0);
	percpu_stats_add(t, 0, 1, 7);
	prints("# HELP a_info \n"
	       "# TYPE a_info gauge\n"
	       "a_info{version=\"2\"} 1\n"
	       "# HELP b \n"
	       "# TYPE b gauge\n"
	       "b{extreme=\"min\"} -2\n"
	       "b{extreme=\"max\"} 9\n"
	       "# HELP c_total \n"
	       "# TYPE c_total counter\n"
	       "c_total{site=\"here\", result=\"hit\"} 0\n"
	       "c_total{site=\"here\", result=\"miss\"} 7\n",
	       "{\"type\": \"gauge\", \"name\": \"a_info\", \"labels\": {\"version\": \"2\"}, "
	       "\"value\": 1},\n"
	       "{\"type\": \"gauge\", \"name\": \"b\", \"labels\": {\"extreme\": \"min\"}, "
	       "\"value\": -2},\n"
	       "{\"type\": \"gauge\", \"name\": \"b\", \"labels\": {\"extreme\": \"max\"}, "
	       "\"value\": 9},\n"
	       "{\"type\": \"counter\", \"name\": \"c_total\", \"labels\": {\"site\": \"here\", "
	       "\"result\": \"hit\"}, \"value\": 0},\n"
	       "{\"type\": \"counter\", \"name\": \"c_total\", \"labels\": {\"site\": \"here\", "
	       "\"result\": \"miss\"}, \"value\": 7}");
}

static void histograms_have_cumulative_buckets(void **state)
{
	const struct percpu_histogram_options o = { .size = sizeof(o), .min = 1, .max = 4 };
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("a"), &o, &h), 0);
	percpu_histogram_record(h, 0.5);
	percpu_histogram_record(h, 1.5);
	percpu_histogram_record(h, 3);
	percpu_histogram_record(h, 100);
	prints("# HELP a \n"
	       "# TYPE a histogram\n"
	       "a_bucket{le=\"1\"} 1\n"
	       "a_bucket{le=\"2\"} 2\n"
	       "a_bucket{le=\"4\"} 3\n"
	       "a_bucket{le=\"+Inf\"} 4\n"
	       "a_sum 105\n"
	       "a_count 4\n",
	       "{\"type\": \"histogram\", \"name\": \"a_bucket\", \"labels\": {\"le\": \"1\"}, "
	       "\"value\": 1},\n"
	       "{\"type\": \"histogram\", \"name\": \"a_bucket\", \"labels\": {\"le\": \"2\"}, "
	       "\"value\": 2},\n"
	       "{\"type\": \"histogram\", \"name\": \"a_bucket\", \"labels\": {\"le\": \"4\"}, "
	       "\"value\": 3},\n"
	       "{\"type\": \"histogram\", \"name\": \"a_bucket\", \"labels\": {\"le\": \"+Inf\"}, "
	       "\"value\": 4},\n"
	       "{\"type\": \"histogram\", \"name\": \"a_sum\", \"labels\": {}, \"value\": 105},\n"
	       "{\"type\": \"histogram\", \"name\": \"a_count\", \"labels\": {}, \"value\": 4}");
}

/* Own bounds read as the same doubles again, and have no more digits than they need: queries compare
 * them as texts. */
static void own_bounds_are_exact(void **state)
{
	static const double bounds[] = { -2.5,	  0, 5e-324, 0.005, 0.1, 0.25, 0.30000000000000004,
					 1.0 / 3, 1, 1e9 };
	const struct percpu_histogram_options o = { .size = sizeof(o),
						    .bounds = bounds,
						    .bounds_n = 10 };
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("a"), &o, &h), 0);
	percpu_histogram_record(h, -3);
	percpu_histogram_record(h, 0.25);
	percpu_histogram_record(h, 0.26);
	percpu_histogram_record(h, 1e10);
	assert_int_equal(percpu_reader_read(r), 0);
	prints_in(PERCPU_PRINT_PROMETHEUS, "# HELP a \n"
					   "# TYPE a histogram\n"
					   "a_bucket{le=\"-2.5\"} 1\n"
					   "a_bucket{le=\"0\"} 1\n"
					   "a_bucket{le=\"4.94065645841247e-324\"} 1\n"
					   "a_bucket{le=\"0.005\"} 1\n"
					   "a_bucket{le=\"0.1\"} 1\n"
					   "a_bucket{le=\"0.25\"} 2\n"
					   "a_bucket{le=\"0.30000000000000004\"} 3\n"
					   "a_bucket{le=\"0.3333333333333333\"} 3\n"
					   "a_bucket{le=\"1\"} 3\n"
					   "a_bucket{le=\"1000000000\"} 3\n"
					   "a_bucket{le=\"+Inf\"} 4\n"
					   "a_sum 9999999997.51\n"
					   "a_count 4\n");
}

static void own_bounds_are_in_json(void **state)
{
	static const double bounds[] = { 0.5 };
	const struct percpu_histogram_options o = { .size = sizeof(o),
						    .bounds = bounds,
						    .bounds_n = 1 };
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("a"), &o, &h), 0);
	percpu_histogram_record(h, 0.5);
	percpu_histogram_record(h, 3);
	assert_int_equal(percpu_reader_read(r), 0);
	prints_in(PERCPU_PRINT_JSON,
		  "[\n"
		  "{\"type\": \"histogram\", \"name\": \"a_bucket\", \"labels\": "
		  "{\"le\": \"0.5\"}, \"value\": 1},\n"
		  "{\"type\": \"histogram\", \"name\": \"a_bucket\", \"labels\": "
		  "{\"le\": \"+Inf\"}, \"value\": 2},\n"
		  "{\"type\": \"histogram\", \"name\": \"a_sum\", \"labels\": {}, "
		  "\"value\": 3.5},\n"
		  "{\"type\": \"histogram\", \"name\": \"a_count\", \"labels\": {}, "
		  "\"value\": 2}\n"
		  "]\n");
}

static void record_as(const char *name, const char *value, const struct percpu_histogram_options *o)
{
	static const char *const label = "l";
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = name,
					 .label_names = &label,
					 .label_values = &value,
					 .labels = 1 };
	struct percpu_histogram *h;

	assert_int_equal(percpu_segment_histogram(s, &m, o, &h), 0);
	percpu_histogram_record(h, 0.25);
}

/* A summary has no buckets. If others of its name have, the type is histogram, and it has one. */
static void summaries_have_a_type(void **state)
{
	static const double bounds[] = { 0.5 };
	const struct percpu_histogram_options summary = { .size = sizeof(summary),
							  .flags = PERCPU_HISTOGRAM_SUMMARY },
					      own = { .size = sizeof(own),
						      .bounds = bounds,
						      .bounds_n = 1 };

	(void)state;
	record_as("a", "x", &summary);
	record_as("a", "y", &summary);
	record_as("b", "x", &summary);
	record_as("b", "y", &own);
	record_as("c", "x", &own);
	record_as("d", "x", &summary);
	assert_int_equal(percpu_reader_read(r), 0);
	prints_in(PERCPU_PRINT_PROMETHEUS, "# HELP a \n"
					   "# TYPE a summary\n"
					   "a_sum{l=\"x\"} 0.25\n"
					   "a_count{l=\"x\"} 1\n"
					   "a_sum{l=\"y\"} 0.25\n"
					   "a_count{l=\"y\"} 1\n"
					   "# HELP b \n"
					   "# TYPE b histogram\n"
					   "b_bucket{l=\"x\", le=\"+Inf\"} 1\n"
					   "b_sum{l=\"x\"} 0.25\n"
					   "b_count{l=\"x\"} 1\n"
					   "b_bucket{l=\"y\", le=\"0.5\"} 1\n"
					   "b_bucket{l=\"y\", le=\"+Inf\"} 1\n"
					   "b_sum{l=\"y\"} 0.25\n"
					   "b_count{l=\"y\"} 1\n"
					   "# HELP c \n"
					   "# TYPE c histogram\n"
					   "c_bucket{l=\"x\", le=\"0.5\"} 1\n"
					   "c_bucket{l=\"x\", le=\"+Inf\"} 1\n"
					   "c_sum{l=\"x\"} 0.25\n"
					   "c_count{l=\"x\"} 1\n"
					   "# HELP d \n"
					   "# TYPE d summary\n"
					   "d_sum{l=\"x\"} 0.25\n"
					   "d_count{l=\"x\"} 1\n");
}

static void summaries_are_in_json(void **state)
{
	const struct percpu_histogram_options o = { .size = sizeof(o),
						    .flags = PERCPU_HISTOGRAM_SUMMARY };
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("a"), &o, &h), 0);
	percpu_histogram_record(h, -0.5);
	assert_int_equal(percpu_reader_read(r), 0);
	prints_in(PERCPU_PRINT_JSON,
		  "[\n"
		  "{\"type\": \"summary\", \"name\": \"a_sum\", \"labels\": {}, "
		  "\"value\": -0.5},\n"
		  "{\"type\": \"summary\", \"name\": \"a_count\", \"labels\": {}, "
		  "\"value\": 1}\n"
		  "]\n");
}

/* Any double, as text, reads as the same one. */
static void numbers_read_as_the_same(void **state)
{
	uint64_t random = 1, bits;
	double v;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		bits = test_random(&random);
		memcpy(&v, &bits, sizeof(v));
		if (isfinite(v))
			assert_true(strtod(percpu_number_of(v).text, NULL) == v);
		v = (double)(bits % 100000) / 1000; /* as programs write it */
		assert_true(strlen(percpu_number_of(v).text) <= 6);
		assert_true(strtod(percpu_number_of(v).text, NULL) == v);
	}
}

/* Prometheus has words for them, and JSON has none: there they are strings. */
static void numbers_may_not_be_finite(void **state)
{
	static const struct {
		const char *name;
		double v;
	} all[] = { { "a", (double)INFINITY }, { "b", (double)-INFINITY }, { "c", (double)NAN } };
	struct percpu_latest *latest;

	(void)state;
	if (!WIDE)
		test_skip("gauges are for processes of 64 bits");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(percpu_segment_latest(s, METRIC(all[i].name), &latest), 0);
		assert_int_equal(percpu_latest_set(latest, all[i].v), 0);
	}
	prints("# HELP a \n# TYPE a gauge\na +Inf\n"
	       "# HELP b \n# TYPE b gauge\nb -Inf\n"
	       "# HELP c \n# TYPE c gauge\nc NaN\n",
	       "{\"type\": \"gauge\", \"name\": \"a\", \"labels\": {}, \"value\": \"+Inf\"},\n"
	       "{\"type\": \"gauge\", \"name\": \"b\", \"labels\": {}, \"value\": \"-Inf\"},\n"
	       "{\"type\": \"gauge\", \"name\": \"c\", \"labels\": {}, \"value\": \"NaN\"}");
}

/* In a help text a quote is as it is. JSON escapes control characters. */
static void texts_are_escaped(void **state)
{
	static const char *const label = "l", *const value = "q\"b\\n\nt\t\x1f\xc3\xa4";
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "a",
					 .help = "say \"x\\y\"\nand",
					 .label_names = &label,
					 .label_values = &value,
					 .labels = 1 };

	(void)state;
	(void)counter(&m);
	prints("# HELP a say \"x\\\\y\"\\nand\n"
	       "# TYPE a counter\n"
	       "a{l=\"q\\\"b\\\\n\\nt\t\x1f\xc3\xa4\"} 0\n",
	       "{\"type\": \"counter\", \"name\": \"a\", \"labels\": "
	       "{\"l\": \"q\\\"b\\\\n\\nt\\u0009\\u001f\xc3\xa4\"}, \"value\": 0}");
}

/* Prometheus has such names in quotes, that of the metric inside the braces. */
static void names_may_need_quotes(void **state)
{
	static const char *const labels[] = { "a-b", "c:d", "_E9z" }, *const values[] = { "1", "2",
											  "3" };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "http.\"x\"",
					 .label_names = labels,
					 .label_values = values,
					 .labels = 3 };

	(void)state;
	(void)counter(METRIC("1st"));
	(void)counter(&m);
	(void)counter(METRIC("job:aZ09_"));
	prints("# HELP \"1st\" \n"
	       "# TYPE \"1st\" counter\n"
	       "{\"1st\"} 0\n"
	       "# HELP \"http.\\\"x\\\"\" \n"
	       "# TYPE \"http.\\\"x\\\"\" counter\n"
	       "{\"http.\\\"x\\\"\", \"a-b\"=\"1\", \"c:d\"=\"2\", _E9z=\"3\"} 0\n"
	       "# HELP job:aZ09_ \n"
	       "# TYPE job:aZ09_ counter\n"
	       "job:aZ09_ 0\n",
	       "{\"type\": \"counter\", \"name\": \"1st\", \"labels\": {}, \"value\": 0},\n"
	       "{\"type\": \"counter\", \"name\": \"http.\\\"x\\\"\", \"labels\": {\"a-b\": \"1\", "
	       "\"c:d\": \"2\", \"_E9z\": \"3\"}, \"value\": 0},\n"
	       "{\"type\": \"counter\", \"name\": \"job:aZ09_\", \"labels\": {}, \"value\": 0}");
}

/* Also the suffixes of a histogram whose name needs quotes are between them. */
static void suffixes_are_in_the_quotes(void **state)
{
	const struct percpu_histogram_options o = { .size = sizeof(o), .min = 1, .max = 2 };
	struct percpu_histogram *h;
	char text[512] = "";
	FILE *to = fmemopen(text, sizeof(text), "w");

	(void)state;
	assert_non_null(to);
	assert_int_equal(percpu_segment_histogram(s, METRIC("a.b"), &o, &h), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	assert_int_equal(percpu_reader_print(r, to, PERCPU_PRINT_PROMETHEUS), 0);
	fclose(to);
	assert_string_equal(text, "# HELP \"a.b\" \n"
				  "# TYPE \"a.b\" histogram\n"
				  "{\"a.b_bucket\", le=\"1\"} 0\n"
				  "{\"a.b_bucket\", le=\"2\"} 0\n"
				  "{\"a.b_bucket\", le=\"+Inf\"} 0\n"
				  "{\"a.b_sum\"} 0\n"
				  "{\"a.b_count\"} 0\n");
}

/* The type is told once for all series of a name, and the overflows once for each family. */
static void families_tell_their_overflows(void **state)
{
	static const char *const label = "l", *const values[] = { "x", "y", "\xff" };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "a_total",
					 .help = "h",
					 .label_names = &label,
					 .labels = 1 };
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_family *f;

	(void)state;
	assert_int_equal(family_with_cap(s, &d, 1, &f), 0);
	assert_int_equal(percpu_family_add(f, &values[0], 1), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(percpu_family_add(f, &values[1], 10), 0);
	assert_int_equal(percpu_family_add(f, &values[2], 100), 0);
	(void)counter(METRIC("b_total"));
	prints("# HELP a_total h\n"
	       "# TYPE a_total counter\n"
	       "a_total{l=\"" PERCPU_FAMILY_OVERFLOW "\"} 130\n"
	       "a_total{l=\"x\"} 1\n"
	       "# HELP b_total \n"
	       "# TYPE b_total counter\n"
	       "b_total 0\n"
	       "# HELP percpu_family_overflows_total How often a call got the overflow.\n"
	       "# TYPE percpu_family_overflows_total counter\n"
	       "percpu_family_overflows_total{family=\"a_total\", reason=\"room\"} 3\n"
	       "percpu_family_overflows_total{family=\"a_total\", reason=\"invalid\"} 1\n",
	       "{\"type\": \"counter\", \"name\": \"a_total\", \"labels\": "
	       "{\"l\": \"" PERCPU_FAMILY_OVERFLOW "\"}, \"value\": 130},\n"
	       "{\"type\": \"counter\", \"name\": \"a_total\", \"labels\": {\"l\": \"x\"}, "
	       "\"value\": 1},\n"
	       "{\"type\": \"counter\", \"name\": \"b_total\", \"labels\": {}, \"value\": 0},\n"
	       "{\"type\": \"counter\", \"name\": \"percpu_family_overflows_total\", "
	       "\"labels\": {\"family\": \"a_total\", \"reason\": \"room\"}, \"value\": 3},\n"
	       "{\"type\": \"counter\", \"name\": \"percpu_family_overflows_total\", "
	       "\"labels\": {\"family\": \"a_total\", \"reason\": \"invalid\"}, \"value\": 1}");
}

/* In a stream with a buffer and in one without. */
static void streams_that_fail_are_told(void **state)
{
	FILE *full;

	(void)state;
	(void)counter(METRIC("a"));
	assert_int_equal(percpu_reader_read(r), 0);
	for (int mode = _IOFBF; mode <= _IONBF; mode++) {
		full = fopen("/dev/full", "we");
		assert_non_null(full);
		assert_int_equal(setvbuf(full, NULL, mode, mode == _IONBF ? 0 : 1 << 16), 0);
		assert_int_equal(percpu_reader_print(r, full, PERCPU_PRINT_PROMETHEUS), -EIO);
		clearerr(full);
		assert_int_equal(percpu_reader_print(r, full, PERCPU_PRINT_JSON), -EIO);
		fclose(full);
	}
}

/* A histogram that there is no memory for is not left out silently. */
static void histograms_need_memory(void **state)
{
	struct percpu_histogram *h;
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);

	(void)state;
	assert_non_null(to);
	(void)counter(METRIC("a"));
	assert_int_equal(percpu_segment_histogram(s, METRIC("h"), NULL, &h), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	fault_set(FAULT_CALLOC, 0, ENOMEM, false);
	assert_int_equal(percpu_reader_print(r, to, PERCPU_PRINT_PROMETHEUS), -ENOMEM);
	assert_int_equal(fault_clear(), 1);
	assert_int_equal(percpu_reader_print(r, to, PERCPU_PRINT_PROMETHEUS), 0);
	fclose(to);
	free(text);
}

static void without_a_picture_nothing_is_printed(void **state)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);

	(void)state;
	assert_non_null(to);
	assert_int_equal(percpu_reader_print(r, to, PERCPU_PRINT_JSON), -EINVAL);
	assert_int_equal(percpu_reader_read(r), 0);
	assert_int_equal(percpu_reader_print(NULL, to, PERCPU_PRINT_JSON), -EINVAL);
	assert_int_equal(percpu_reader_print(r, NULL, PERCPU_PRINT_JSON), -EINVAL);
	assert_int_equal(percpu_reader_print(r, to, (enum percpu_print_format)2), -EINVAL);
	fclose(to);
	assert_string_equal(text, "");
	free(text);
}

#define PRINTED(test) cmocka_unit_test_setup_teardown(test, open_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PRINTED(nothing_is_an_empty_list),
		PRINTED(counters_are_exact),
		PRINTED(json_has_exemplars),
		PRINTED(numbers_have_points_in_all_locales),
		PRINTED(gauges_have_a_type),
		PRINTED(other_kinds_have_labels),
		PRINTED(histograms_have_cumulative_buckets),
		PRINTED(own_bounds_are_exact),
		PRINTED(own_bounds_are_in_json),
		PRINTED(summaries_have_a_type),
		PRINTED(summaries_are_in_json),
		PRINTED(numbers_read_as_the_same),
		PRINTED(numbers_may_not_be_finite),
		PRINTED(texts_are_escaped),
		PRINTED(names_may_need_quotes),
		PRINTED(suffixes_are_in_the_quotes),
		PRINTED(families_tell_their_overflows),
		PRINTED(streams_that_fail_are_told),
		PRINTED(histograms_need_memory),
		PRINTED(without_a_picture_nothing_is_printed),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
