/* SPDX-License-Identifier: MIT */
/*
 * test_segment.c - metrics of segments: each kind, declared once and found by all processes, and
 * what is refused. Names and texts of metrics: test_metric.c; kills: test_segment_steps.c;
 * files: test_segment_open.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"

#include "segment/segment.h"
#include "../segments.h"

static struct percpu_segment *s, *t; /* opened twice, as by two processes */

static int open_both(void **state)
{
	(void)state;
	assert_int_equal(percpu_segment_open(test_path("segment"), ALL, NULL, &s), 0);
	assert_int_equal(percpu_segment_open(test_path("segment"), ALL, NULL, &t), 0);
	return 0;
}

static int close_both(void **state)
{
	(void)state;
	percpu_segment_close(s);
	percpu_segment_close(t);
	return unlink(test_path("segment"));
}

static void each_kind_is_found_again(void **state)
{
	const struct percpu_histogram_options h = { .size = sizeof(h), .min = 1, .max = 64 };
	struct percpu_counter *counter[2];
	struct percpu_fcounter *fcounter[2];
	struct percpu_gauge *gauge[2];
	struct percpu_fgauge *fgauge[2];
	struct percpu_latest *latest[2];
	struct percpu_histogram *histogram[2];
	struct percpu_extrema *extrema[2];
	struct percpu_owned_gauge *owned[2];
	struct percpu_owned_fgauge *fowned[2];
	struct percpu_segment *of[2] = { s, t };
	struct percpu_histogram_snapshot *shot;
	int64_t min, max, sum;
	double value;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(percpu_segment_counter(of[i], METRIC("a_total"), &counter[i]), 0);
		assert_int_equal(percpu_segment_fcounter(of[i], METRIC("b_total"), &fcounter[i]),
				 0);
		assert_int_equal(percpu_segment_histogram(of[i], METRIC("f"), &h, &histogram[i]),
				 0);
		assert_int_equal(percpu_segment_extrema(of[i], METRIC("g"), 0, &extrema[i]), 0);
		assert_int_equal(percpu_segment_info(of[i], METRIC("j_info")), 0);
		if (!percpu_pair_is_atomic())
			continue;
		assert_int_equal(percpu_segment_gauge(of[i], METRIC("c"), &gauge[i]), 0);
		assert_int_equal(percpu_segment_fgauge(of[i], METRIC("d"), &fgauge[i]), 0);
		assert_int_equal(percpu_segment_latest(of[i], METRIC("e"), &latest[i]), 0);
		assert_int_equal(
			percpu_segment_owned_gauge(of[i], METRIC("h"), PERCPU_OWNED_SUM, &owned[i]),
			0);
		assert_int_equal(percpu_segment_owned_fgauge(of[i], METRIC("i"), PERCPU_OWNED_MAX,
							     &fowned[i]),
				 0);
	}
	percpu_counter_add(counter[0], 2);
	percpu_counter_add(counter[1], 3);
	assert_int_equal(percpu_counter_fetch(counter[0]), 5);
	assert_ptr_not_equal(counter[0], counter[1]);
	assert_int_equal(percpu_fcounter_add(fcounter[0], 0.5), 0);
	assert_true(percpu_fcounter_fetch(fcounter[1]) == 0.5);
	percpu_histogram_record(histogram[0], 3);
	assert_int_equal(percpu_histogram_snapshot_create(histogram[1], &shot), 0);
	assert_int_equal(percpu_histogram_fetch(histogram[1], 0, shot), 0);
	assert_int_equal(shot->count, 1);
	percpu_histogram_snapshot_destroy(shot);
	percpu_extrema_observe(extrema[0], 7);
	assert_int_equal(percpu_extrema_fetch(extrema[1], &min, &max), 0);
	assert_int_equal(min, 7);
	if (!percpu_pair_is_atomic())
		return;
	percpu_gauge_add(gauge[0], 4);
	assert_int_equal(percpu_gauge_fetch(gauge[1]), 4);
	assert_int_equal(percpu_fgauge_set(fgauge[0], 1.5), 0);
	assert_true(percpu_fgauge_fetch(fgauge[1]) == 1.5);
	assert_int_equal(percpu_latest_set(latest[0], 2.5), 0);
	assert_int_equal(percpu_latest_fetch(latest[1], &value, NULL), 0);
	assert_true(value == 2.5);
	assert_int_equal(percpu_owned_gauge_add(owned[0], 6), 0);
	assert_int_equal(percpu_owned_gauge_fetch(owned[1], PERCPU_OWNED_LIVING, &sum), 0);
	assert_int_equal(sum, 6);
	assert_int_equal(percpu_owned_fgauge_rule(fowned[1]), PERCPU_OWNED_MAX);
	assert_int_equal(percpu_owned_fgauge_set(fowned[0], 9), 0);
	assert_int_equal(percpu_owned_fgauge_fetch(fowned[1], PERCPU_OWNED_ALL, &value), 0);
	assert_true(value == 9);
}

/* Return a metric with labels. */
static struct percpu_metric labeled(const char *name, const char *const *labels,
				    const char *const *values, size_t n)
{
	return (struct percpu_metric){ .size = sizeof(struct percpu_metric),
				       .name = name,
				       .label_names = labels,
				       .label_values = values,
				       .labels = n };
}

static void handles_are_the_same_in_a_process(void **state)
{
	struct percpu_histogram *h = NULL, *again = NULL;
	struct percpu_counter *c, *same;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("f"), NULL, &h), 0);
	assert_int_equal(percpu_segment_histogram(s, METRIC("f"), NULL, &again), 0);
	assert_ptr_equal(h, again);
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &same), 0);
	assert_ptr_equal(c, same);
}

static void values_of_labels_make_series(void **state)
{
	const char *const labels[] = { "method", "code" };
	const char *const get[] = { "GET", "200" }, *const put[] = { "PUT", "200" };
	const char *const shifted[] = { "GE", "T200" };
	struct percpu_metric m[3] = { labeled("a_total", labels, get, 2),
				      labeled("a_total", labels, put, 2),
				      labeled("a_total", labels, shifted, 2) };
	struct percpu_counter *c[3], *again;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(percpu_segment_counter(s, &m[i], &c[i]), 0);
		percpu_counter_add(c[i], i + 1);
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(percpu_segment_counter(t, &m[i], &again), 0);
		assert_int_equal(percpu_counter_fetch(again), i + 1);
	}
}

static void help_may_differ(void **state)
{
	struct percpu_metric m = { .size = sizeof(m), .name = "a_total", .help = "First." };
	struct percpu_counter *c, *same;

	(void)state;
	assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
	m.help = "Another text.";
	assert_int_equal(percpu_segment_counter(t, &m, &same), 0);
	percpu_counter_add(c, 1);
	assert_int_equal(percpu_counter_fetch(same), 1);
}

static void says(const char *sentence)
{
	assert_string_equal(percpu_error(), sentence);
}

static void other_metrics_of_a_name_are_refused(void **state)
{
	const char *const labels[] = { "method", "code" }, *const values[] = { "GET", "200" };
	struct percpu_metric m = { .size = sizeof(m),
				   .name = "a_seconds_total",
				   .unit = "seconds" };
	struct percpu_counter *c, *none = NULL;
	struct percpu_fcounter *other = NULL;
	uint64_t end;

	(void)state;
	assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
	end = s->control->end;
	assert_int_equal(percpu_segment_fcounter(t, &m, &other), -EEXIST);
	says("a_seconds_total: is a counter in the segment, a counter of doubles was asked for");
	m.unit = NULL;
	assert_int_equal(percpu_segment_counter(t, &m, &none), -EEXIST);
	says("a_seconds_total: unit is \"seconds\" in the segment, \"\" was asked for");
	m = labeled("a_seconds_total", labels, values, 2);
	m.unit = "seconds";
	assert_int_equal(percpu_segment_counter(t, &m, &none), -EEXIST);
	says("a_seconds_total: it has no label \"method\" in the segment, which was asked for");
	assert_int_equal(s->control->end, end);
	m.name = "b_seconds_total";
	assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
	m.labels = 1;
	assert_int_equal(percpu_segment_counter(s, &m, &none), -EEXIST);
	says("b_seconds_total: it has the label \"code\" in the segment, which was not asked for");
	assert_null(none);
	assert_null(other);
}

static void other_parameters_are_refused(void **state)
{
	const struct percpu_histogram_options fine = { .size = sizeof(fine),
						       .buckets_per_octave = 32 };
	const struct percpu_histogram_options two = { .size = sizeof(two), .n = 2 };
	struct percpu_histogram *h, *no_h = NULL;
	struct percpu_owned_gauge *o, *no_o = NULL;
	struct percpu_extrema *x, *no_x = NULL;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("f"), NULL, &h), 0);
	assert_int_equal(percpu_segment_histogram(s, METRIC("f"), &fine, &no_h), -EEXIST);
	assert_int_equal(percpu_segment_histogram(t, METRIC("f"), &fine, &no_h), -EEXIST);
	assert_int_equal(percpu_segment_histogram(t, METRIC("k"), &two, &no_h), -EINVAL);
	assert_int_equal(percpu_segment_extrema(s, METRIC("g"), 0, &x), 0);
	assert_int_equal(percpu_segment_extrema(t, METRIC("g"), PERCPU_EXTREMA_DOUBLE, &no_x),
			 -EEXIST);
	assert_int_equal(percpu_segment_extrema(t, METRIC("l"), 8, &no_x), -EINVAL);
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("h"), PERCPU_OWNED_SUM, &o), 0);
	assert_int_equal(percpu_segment_owned_gauge(t, METRIC("h"), PERCPU_OWNED_MAX, &no_o),
			 -EEXIST);
	assert_int_equal(
		percpu_segment_owned_gauge(t, METRIC("m"), (enum percpu_owned_rule)99, &no_o),
		-EINVAL);
	assert_null(no_h);
	assert_null(no_x);
	assert_null(no_o);
}

static void counts_outlive_those_who_count(void **state)
{
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	percpu_counter_add(c, 8);
	percpu_segment_close(s);
	percpu_segment_close(t);
	open_both(NULL);
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	assert_int_equal(percpu_counter_fetch(c), 8);
}

/* Many blocks of records, which another process reads in any order. */
static void many_are_declared(void **state)
{
	const unsigned n = test_rounds(10000);
	struct percpu_counter *c;
	char name[32];

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "m%u_total", i);
		assert_int_equal(percpu_segment_counter(s, METRIC(name), &c), 0);
		percpu_counter_add(c, i);
	}
	for (unsigned i = n; i-- > 0;) {
		snprintf(name, sizeof(name), "m%u_total", i);
		assert_int_equal(percpu_segment_counter(t, METRIC(name), &c), 0);
		assert_int_equal(percpu_counter_fetch(c), i);
	}
	assert_int_equal(t->series.used, n);
	assert_true(s->control->end > PERCPU_SEGMENT_BLOCK);
}

static void mistakes_are_refused(void **state)
{
	struct percpu_metric newer[2] = { { .size = sizeof(newer), .name = "a_total" } };
	struct percpu_counter *c = NULL;

	(void)state;
	assert_int_equal(percpu_segment_counter(NULL, METRIC("a_total"), &c), -EINVAL);
	assert_int_equal(percpu_segment_counter(s, NULL, &c), -EINVAL);
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), NULL), -EINVAL);
	assert_int_equal(percpu_segment_counter(s, newer, &c), 0);
	newer[1].size = 1; /* a field that this version does not know */
	assert_int_equal(percpu_segment_counter(s, newer, &c), -EINVAL);
	percpu_segment_close(NULL);
}

#define both(f) cmocka_unit_test_setup_teardown(f, open_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		both(each_kind_is_found_again),
		both(handles_are_the_same_in_a_process),
		both(values_of_labels_make_series),
		both(help_may_differ),
		both(other_metrics_of_a_name_are_refused),
		both(other_parameters_are_refused),
		both(counts_outlive_those_who_count),
		both(many_are_declared),
		both(mistakes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
