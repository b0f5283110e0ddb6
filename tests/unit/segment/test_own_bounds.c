/* SPDX-License-Identifier: MIT */
/*
 * test_own_bounds.c - histograms with bounds of the program's own, and summaries, in segments and
 * families: what is refused, in words; other processes; pictures; resets, removal and kills; files
 * that other processes damage. Of objects without a name: test_histogram_bounds.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "declared.h"
#include "picture.h"
#include "steps.h"
#include "support.h"
#include "reader_calls.h"

#include "segment/segment.h"

#define OPTIONS(...)                                                                               \
	(&(const struct percpu_histogram_options){                                                 \
		.size = sizeof(struct percpu_histogram_options), __VA_ARGS__ })
#define BOUNDS(n, ...) OPTIONS(.bounds = (const double[]){ __VA_ARGS__ }, .bounds_n = (n))
#define SUMMARY OPTIONS(.flags = PERCPU_HISTOGRAM_SUMMARY)

#define CLASSIC 11
static const double classic[CLASSIC] = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10 };
#define OWN OPTIONS(.bounds = classic, .bounds_n = CLASSIC)

static const char *dies_when; /* the step at which the process dies, or NULL */

void test_step(const char *name)
{
	if (dies_when != NULL && strcmp(name, dies_when) == 0)
		raise(SIGKILL);
}

static int try_histogram(const char *name, const struct percpu_histogram_options *o)
{
	struct percpu_histogram *h = NULL;
	int e = percpu_segment_histogram(s, METRIC(name), o, &h);

	assert_true((e == 0) == (h != NULL));
	return e;
}

static struct percpu_histogram *declare_in(struct percpu_segment *of, const char *name,
					   const struct percpu_histogram_options *o)
{
	struct percpu_histogram *h = NULL;
	int e = percpu_segment_histogram(of, METRIC(name), o, &h);

	test_child_require(e == 0, percpu_error());
	return h;
}

static struct percpu_segment *open_again(void)
{
	struct percpu_segment *t = NULL;

	test_child_require(percpu_segment_open(path, 0, NULL, &t) == 0, percpu_error());
	return t;
}

/* Return what the picture has of the histogram of that name. The caller destroys it. */
static struct percpu_histogram_snapshot *picture_of(const char *name)
{
	struct percpu_histogram_snapshot *h = NULL;

	for (size_t i = 0; i < percpu_reader_count(r) && h == NULL; i++)
		if (strcmp(series_of(i).name, name) == 0)
			assert_int_equal(percpu_reader_histogram(r, i, &h), 0);
	assert_non_null(h);
	return h;
}

/* Assert that a snapshot has these bounds, and these counts of buckets, one more. */
static void has(const struct percpu_histogram_snapshot *h, size_t n, const double *bounds,
		const uint64_t *counts, double sum)
{
	uint64_t all = 0;

	assert_int_equal(h->schema, PERCPU_HISTOGRAM_OWN_BOUNDS);
	assert_int_equal(h->n, n + 1);
	assert_memory_equal(h->bounds, bounds, n * sizeof(*bounds));
	for (size_t i = 0; i <= n; i++) {
		assert_int_equal(h->bucket[i].count, counts[i]);
		all += counts[i];
	}
	assert_int_equal(h->count, all);
	assert_true(h->sum == sum);
}

/* Assert that the next picture has the histogram so. */
static void is_seen(const char *name, size_t n, const double *bounds, const uint64_t *counts,
		    double sum)
{
	struct percpu_histogram_snapshot *h;

	assert_int_equal(take(), 0);
	h = picture_of(name);
	has(h, n, bounds, counts, sum);
	percpu_histogram_snapshot_destroy(h);
}

/* What is refused. */

static void refused(int got, int expected, const char *sentence)
{
	assert_int_equal(got, expected);
	assert_string_equal(percpu_error(), sentence);
}

static void options_are_checked(void **state)
{
	double many[PERCPU_HISTOGRAM_MAX_BOUNDS + 1];

	(void)state;
	for (size_t i = 0; i <= PERCPU_HISTOGRAM_MAX_BOUNDS; i++)
		many[i] = (double)i;
	refused(try_histogram("h", OPTIONS(.bounds = many, .bounds_n = 513)), -EINVAL,
		"h: 513 bounds are more than 512");
	refused(try_histogram("h", OPTIONS(.bounds_n = 3)), -EINVAL,
		"h: .bounds is NULL, and .bounds_n is 3");
	refused(try_histogram("h", OPTIONS(.bounds = many)), -EINVAL,
		"h: it has .bounds, and .bounds_n is 0: without bounds it is "
		"PERCPU_HISTOGRAM_SUMMARY");
	refused(try_histogram("h", OPTIONS(.bounds = many, .bounds_n = 2, .flags = 1)), -EINVAL,
		"h: it has the flag PERCPU_HISTOGRAM_SUMMARY, and bounds");
	refused(try_histogram("h", OPTIONS(.bounds = many, .bounds_n = 2, .max = 8)), -EINVAL,
		"h: .min, .max and .buckets_per_octave are 0 with own bounds, and in a summary");
	refused(try_histogram("h", OPTIONS(.flags = 1, .buckets_per_octave = 8)), -EINVAL,
		"h: .min, .max and .buckets_per_octave are 0 with own bounds, and in a summary");
	refused(try_histogram("h", OPTIONS(.bounds = many, .bounds_n = 2, .min = 0.5)), -EINVAL,
		"h: .min, .max and .buckets_per_octave are 0 with own bounds, and in a summary");
	refused(try_histogram("h", OPTIONS(.flags = 2)), -EINVAL,
		"h: its options are none of a histogram");
	refused(try_histogram("h", OPTIONS(.bounds = many, .bounds_n = 2, .n = 2)), -EINVAL,
		"h: a metric is one histogram, not 2");
	many[511] = many[510];
	refused(try_histogram("h", OPTIONS(.bounds = many, .bounds_n = 512)), -EINVAL,
		"h: bounds[511] is 510, and bounds[510] before it is 510: bounds rise");
	many[511] = 511;
	assert_int_equal(try_histogram("h", OPTIONS(.bounds = many, .bounds_n = 512)), 0);
}

static void bounds_are_checked(void **state)
{
	(void)state;
	refused(try_histogram("h", BOUNDS(3, 1, 2, NAN)), -EINVAL,
		"h: bounds[2] is NaN: bounds are finite");
	refused(try_histogram("h", BOUNDS(3, -INFINITY, 2, 1)), -EINVAL,
		"h: bounds[0] is -Inf: bounds are finite");
	refused(try_histogram("h", BOUNDS(4, 1, 2, INFINITY, 1)), -EINVAL,
		"h: bounds[2] is +Inf: bounds are finite");
	refused(try_histogram("h", BOUNDS(4, 0.1, 0.2, 0.2, 0.1)), -EINVAL,
		"h: bounds[2] is 0.2, and bounds[1] before it is 0.2: bounds rise");
	refused(try_histogram("h", BOUNDS(2, 0.5, -0.25)), -EINVAL,
		"h: bounds[1] is -0.25, and bounds[0] before it is 0.5: bounds rise");
	refused(try_histogram("h", BOUNDS(2, 1, 1e300)), -ERANGE,
		"h: bounds[1] is 1e+300: bounds are above -2^960, and below 2^960");
	refused(try_histogram("h", BOUNDS(1, -1e300)), -ERANGE,
		"h: bounds[0] is -1e+300: bounds are above -2^960, and below 2^960");
	refused(try_histogram("h", OPTIONS(.ticks_per_unit = 1000,
					   .bounds = (const double[]){ 1e13 }, .bounds_n = 1)),
		-ERANGE,
		"h: bounds[0] is 10000000000000: bounds of ticks are above -2^960, and at most "
		"2^53 - 2 ticks");
	assert_int_equal(try_histogram("h", BOUNDS(2, -1, 0.1)), 0);
}

static int summary_with(const char *label, const struct percpu_histogram_options *o)
{
	const char *const labels[] = { "a", label }, *const values[] = { "x", "y" };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "h",
					 .label_names = labels,
					 .label_values = values,
					 .labels = 2 };
	const struct percpu_declaration d = { .size = sizeof(d),
					      .name = "f",
					      .label_names = labels,
					      .labels = 2,
					      .kind = PERCPU_METRIC_HISTOGRAM,
					      .histogram = o };
	struct percpu_family *f = NULL;
	struct percpu_histogram *h = NULL;
	int e = family_with_cap(s, &d, 2, &f);

	assert_int_equal(percpu_segment_histogram(s, &m, o, &h), e);
	return e;
}

/* Of a summary, quantile is a label of Prometheus's own. */
static void summaries_have_no_label_quantile(void **state)
{
	(void)state;
	refused(summary_with("quantile", SUMMARY), -EINVAL,
		"h: no label of a summary is named quantile: by that label the quantiles of a "
		"summary are told from each other");
	assert_int_equal(summary_with("le", SUMMARY), -EINVAL);
	assert_int_equal(summary_with("quantiles", SUMMARY), 0);
}

static void histograms_may_have_a_label_quantile(void **state)
{
	(void)state;
	assert_int_equal(summary_with("quantile", OWN), 0);
}

/* A second declaration is compared with the first, also by another process. */

/* Declare in another opening of the file, and assert the sentence. */
static void differs(const char *name, const struct percpu_histogram_options *o,
		    const char *sentence)
{
	struct percpu_histogram *h = NULL;
	struct percpu_segment *t = open_again();

	refused(percpu_segment_histogram(t, METRIC(name), o, &h), -EEXIST, sentence);
	assert_null(h);
	percpu_segment_close(t);
	refused(try_histogram(name, o), -EEXIST, sentence); /* which has a handle */
}

static void differences_are_told(void **state)
{
	(void)state;
	assert_int_equal(try_histogram("h", BOUNDS(3, -1, 0, 0.3)), 0);
	assert_int_equal(try_histogram("h", BOUNDS(3, -1, -0.0, 0.3)), 0); /* -0 is 0 */
	differs("h", BOUNDS(3, -1, 0, 0.4),
		"h: is a histogram whose bounds[2] is 0.3 in the segment, one whose bounds[2] is "
		"0.4 was asked for");
	differs("h", BOUNDS(3, -1, 0, 0.30000000000000004),
		"h: is a histogram whose bounds[2] is 0.3 in the segment, one whose bounds[2] is "
		"0.30000000000000004 was asked for");
	differs("h", BOUNDS(3, -2, 0.1, 0.4),
		"h: is a histogram whose bounds[0] is -1 in the segment, one whose bounds[0] is -2 "
		"was asked for");
	differs("h", BOUNDS(2, -1, 0),
		"h: is a histogram of doubles with 3 own bounds in the segment, a histogram of "
		"doubles with 2 own bounds was asked for");
	differs("h", BOUNDS(4, -1, 0, 0.3, 1),
		"h: is a histogram of doubles with 3 own bounds in the segment, a histogram of "
		"doubles with 4 own bounds was asked for");
	differs("h", SUMMARY,
		"h: is a histogram of doubles with 3 own bounds in the segment, a summary of "
		"doubles was asked for");
	differs("h", NULL,
		"h: is a histogram of doubles with 3 own bounds in the segment, a histogram of "
		"doubles from 2^-20 to 2^10 in 8 buckets per octave was asked for");
	differs("h",
		OPTIONS(.ticks_per_unit = 10, .bounds = (const double[]){ -1, 0, 0.3 },
			.bounds_n = 3),
		"h: is a histogram of doubles with 3 own bounds in the segment, a histogram of 10 "
		"ticks per unit with 3 own bounds was asked for");
	assert_int_equal(try_histogram("summary", SUMMARY), 0);
	assert_int_equal(try_histogram("summary", SUMMARY), 0);
	differs("summary", BOUNDS(1, 0),
		"summary: is a summary of doubles in the segment, a histogram of doubles with 1 own "
		"bounds was asked for");
	differs("summary", OPTIONS(.flags = 1, .ticks_per_unit = 1000),
		"summary: is a summary of doubles in the segment, a summary of 1000 ticks per unit "
		"was asked for");
}

/* Another process, which is no child of this one as far as the segment knows. */
static int record_elsewhere(void *arg)
{
	struct percpu_histogram *h = NULL;
	struct percpu_segment *t;

	(void)arg;
	t = open_again();
	h = declare_in(t, "h", OWN);
	for (int i = 0; i < CLASSIC; i++)
		percpu_histogram_record(h, classic[i]);
	percpu_histogram_record(h, 11);
	test_child_require(percpu_segment_histogram(t, METRIC("h"), BOUNDS(1, 1), &h) == -EEXIST,
			   "other bounds");
	percpu_segment_close(t);
	return 0;
}

static void processes_share_bounds(void **state)
{
	const uint64_t counts[CLASSIC + 1] = { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 };
	struct percpu_histogram_snapshot *h;
	double sum = 22;

	(void)state;
	test_in_child(record_elsewhere, NULL);
	(void)declare_in(s, "h", OWN);
	test_in_child(record_elsewhere, NULL);
	for (int i = 0; i < CLASSIC; i++)
		sum += 2 * classic[i];
	assert_int_equal(take(), 0);
	h = picture_of("h");
	assert_true(fabs(h->sum - sum) < 1e-12);
	has(h, CLASSIC, classic, counts, h->sum);
	percpu_histogram_snapshot_destroy(h);
}

/* Tables and families. */

static const char *const label[] = { "code" };

static int declare_codes(struct percpu_segment *of, const struct percpu_histogram_options *o,
			 struct percpu_family **ret)
{
	const struct percpu_declaration d = { .size = sizeof(d),
					      .name = "codes",
					      .label_names = label,
					      .labels = 1,
					      .kind = PERCPU_METRIC_HISTOGRAM,
					      .histogram = o };

	return family_with_cap(of, &d, 3, ret);
}

static void record_code(struct percpu_family *f, const char *code, double v)
{
	assert_int_equal(percpu_family_record(f, &code, v), 0);
}

/* Assert that each series of the family has these bounds, in the next picture. Returns the count of
 * all of them. */
static uint64_t codes_have(const double *bounds, uint32_t n)
{
	struct percpu_histogram_snapshot *h;
	uint64_t all = 0;

	assert_int_equal(take(), 0);
	for (size_t i = 0; i < percpu_reader_count(r); i++) {
		assert_string_equal(series_of(i).name, "codes");
		assert_int_equal(percpu_reader_histogram(r, i, &h), 0);
		assert_int_equal(h->n, n + 1);
		assert_memory_equal(h->bounds, bounds, n * sizeof(*bounds));
		all += h->count;
		percpu_histogram_snapshot_destroy(h);
	}
	return all;
}

/* A family copies the bounds: the program may change or free its array after the declaration. */
static void families_keep_the_bounds(void **state)
{
	double *mine = malloc(sizeof(classic));
	struct percpu_segment *t = open_again();
	struct percpu_family *f = NULL, *g = NULL;

	(void)state;
	memcpy(mine, classic, sizeof(classic));
	assert_int_equal(declare_codes(s, OPTIONS(.bounds = mine, .bounds_n = CLASSIC), &f), 0);
	record_code(f, "a", 0.3);
	memset(mine, 0, sizeof(classic));
	record_code(f, "b", 0.3);
	free(mine);
	record_code(f, "c", 0.3);
	record_code(f, "d", 0.3); /* the overflow */
	assert_int_equal(codes_have(classic, CLASSIC), 4);
	assert_int_equal(percpu_reader_count(r), 4);
	refused(declare_codes(t, BOUNDS(1, 1), &g), -EEXIST,
		"codes: is a histogram of doubles with 11 own bounds in the segment, a histogram of "
		"doubles with 1 own bounds was asked for");
	refused(declare_codes(s, BOUNDS(1, 1), &g), -EEXIST,
		"codes: is a histogram of doubles with 11 own bounds in the segment, a histogram of "
		"doubles with 1 own bounds was asked for");
	refused(declare_codes(s, BOUNDS(2, 1, 1), &g), -EINVAL,
		"codes: bounds[1] is 1, and bounds[0] before it is 1: bounds rise");
	assert_null(g);
	assert_int_equal(declare_codes(t, OWN, &g), 0);
	record_code(g, "a", 0.3);
	assert_int_equal(declare_codes(s, OWN, &g), 0);
	assert_ptr_equal(f, g);
	assert_int_equal(codes_have(classic, CLASSIC), 5);
	percpu_segment_close(t);
}

static void tables_have_bounds(void **state)
{
	struct percpu_histogram *h = NULL, *nothing = NULL;
	struct percpu_family *f = NULL;
	double mine[CLASSIC];
	const uint64_t counts[CLASSIC + 1] = { 0, 0, 0, 0, 1 }, one[] = { 1 };
	const struct percpu_histogram_options o = { .size = sizeof(o),
						    .bounds = mine,
						    .bounds_n = CLASSIC };
	struct percpu_declaration rows[3];

	(void)state;
	memcpy(mine, classic, sizeof(mine));
	rows[0] = percpu_declare_histogram(&h, "h", "", &o);
	rows[1] = percpu_declare_histogram(&nothing, "summary", "", SUMMARY);
	rows[2] = percpu_declare_family(&f, PERCPU_METRIC_HISTOGRAM, "codes", "", label, 1, 3);
	rows[2].histogram = &o;
	assert_int_equal(percpu_segment_declare(s, rows, 3), 0);
	memset(mine, 0, sizeof(mine));
	percpu_histogram_record(h, 0.1);
	percpu_histogram_record(nothing, 5);
	is_seen("h", CLASSIC, classic, counts, 0.1);
	is_seen("summary", 0, NULL, one, 5);
	record_code(f, "a", 0.1);
	is_seen("codes", CLASSIC, classic, counts, 0.1);
	mine[0] = NAN;
	refused(percpu_segment_declare(s, rows, 3), -EINVAL,
		"row 0: h: bounds[0] is NaN: bounds are finite");
}

/* Pictures. */

static void pictures_have_buckets(void **state)
{
	const double bounds[] = { -2, 0, 0.29, 4 };
	const uint64_t of_doubles[] = { 2, 1, 3, 1, 1 }, of_ticks[] = { 0, 1, 2, 0, 1 };
	const struct percpu_histogram_options doubles = { .size = sizeof(doubles),
							  .bounds = bounds,
							  .bounds_n = 4 },
					      ticks = { .size = sizeof(ticks),
							.ticks_per_unit = 1000,
							.bounds = bounds,
							.bounds_n = 4 };
	struct percpu_histogram *h = declare_in(s, "h", &doubles), *t = declare_in(s, "t", &ticks);
	struct percpu_histogram_snapshot *shot;

	(void)state;
	for (int i = 0; i < 8; i++)
		percpu_histogram_record(
			h, ((const double[]){ -3, -2, -1, 0.25, 0.29, 0.125, 4, 5 })[i]);
	percpu_histogram_record(h, NAN);
	for (int i = 0; i < 4; i++)
		percpu_histogram_record_ticks(t, ((const uint64_t[]){ 0, 289, 290, 4001 })[i]);
	assert_int_equal(take(), 0);
	shot = picture_of("h");
	has(shot, 4, bounds, of_doubles, shot->sum);
	assert_true(fabs(shot->sum - 3.665) < 1e-12);
	assert_true(shot->bucket[0].sum == -5 && shot->bucket[4].sum == 5);
	assert_int_equal(shot->refused, 1);
	percpu_histogram_snapshot_destroy(shot);
	shot = picture_of("t");
	has(shot, 4, bounds, of_ticks, shot->sum);
	assert_true(fabs(shot->sum - 4.58) < 1e-12);
	assert_int_equal(shot->bucket[2].ticks, 579);
	percpu_histogram_snapshot_destroy(shot);
	assert_int_equal(series_of(0).flags, 0);
}

/* As many bounds as there may be. */
static void pictures_have_many_buckets(void **state)
{
	double bounds[PERCPU_HISTOGRAM_MAX_BOUNDS];
	uint64_t counts[PERCPU_HISTOGRAM_MAX_BOUNDS + 1];
	struct percpu_histogram *h;

	(void)state;
	for (size_t i = 0; i < PERCPU_HISTOGRAM_MAX_BOUNDS; i++)
		bounds[i] = (double)i / 8;
	h = declare_in(s, "h", OPTIONS(.bounds = bounds, .bounds_n = PERCPU_HISTOGRAM_MAX_BOUNDS));
	for (size_t i = 0; i <= PERCPU_HISTOGRAM_MAX_BOUNDS; i++) {
		counts[i] = i % 3;
		for (size_t k = 0; k < counts[i]; k++)
			percpu_histogram_record(h, (double)i / 8);
	}
	is_seen("h", PERCPU_HISTOGRAM_MAX_BOUNDS, bounds, counts, 16458.75);
}

static void summaries_have_count_and_sum(void **state)
{
	struct percpu_histogram *h = declare_in(s, "h", SUMMARY);
	struct percpu_histogram_quantile q;
	struct percpu_histogram_snapshot *shot;
	const uint64_t counts[] = { 3 };

	(void)state;
	percpu_histogram_record(h, 1.5);
	percpu_histogram_record(h, -1);
	percpu_histogram_record(h, 1e9);
	is_seen("h", 0, NULL, counts, 1e9 + 0.5);
	assert_int_equal(series_of(0).flags, PERCPU_HISTOGRAM_SUMMARY);
	assert_int_equal(series_of(0).kind, PERCPU_METRIC_HISTOGRAM);
	shot = picture_of("h");
	assert_int_equal(percpu_histogram_quantile(shot, 0.5, &q), -ENODATA);
	percpu_histogram_snapshot_destroy(shot);
}

/* Pictures of several segments, or of several moments, are merged and subtracted. */
static void pictures_are_merged(void **state)
{
	struct percpu_histogram *h = declare_in(s, "h", BOUNDS(3, 1, 2, 4));
	struct percpu_histogram *other = declare_in(s, "other", BOUNDS(2, 1, 4));
	const double bounds[] = { 1, 2, 4 }, fewer[] = { 1, 4 };
	struct percpu_histogram_snapshot *first, *second, *coarse;
	struct percpu_histogram_quantile q;

	(void)state;
	for (int i = 0; i < 10; i++)
		percpu_histogram_record(h, 0.5 * i);
	percpu_histogram_record(other, 3);
	assert_int_equal(take(), 0);
	first = picture_of("h");
	coarse = picture_of("other");
	has(first, 3, bounds, ((const uint64_t[]){ 3, 2, 4, 1 }), 22.5);
	assert_int_equal(percpu_histogram_quantile(first, 0.4, &q), 0);
	assert_true(q.value == 1.5); /* half of those between 1 and 2 */
	assert_int_equal(percpu_histogram_quantile(first, 0.99, &q), 0);
	assert_true(q.value == 4);
	percpu_histogram_record(h, 2);
	assert_int_equal(take(), 0);
	second = picture_of("h");
	assert_int_equal(percpu_histogram_merge(coarse, second), 0);
	has(coarse, 2, fewer, ((const uint64_t[]){ 3, 8, 1 }), 27.5);
	assert_int_equal(percpu_histogram_merge(second, coarse), -ERANGE);
	assert_int_equal(percpu_histogram_subtract(second, first), 0);
	has(second, 3, bounds, ((const uint64_t[]){ 0, 1, 0, 0 }), 2);
	percpu_histogram_snapshot_destroy(first);
	percpu_histogram_snapshot_destroy(second);
	percpu_histogram_snapshot_destroy(coarse);
}

/* Resets and removal. */

static void resets_keep_the_bounds(void **state)
{
	struct percpu_histogram *h = declare_in(s, "h", BOUNDS(2, 1, 2));
	const double bounds[] = { 1, 2 };
	struct percpu_segment *t = NULL;

	(void)state;
	percpu_histogram_record(h, 2);
	is_seen("h", 2, bounds, ((const uint64_t[]){ 0, 1, 0 }), 2);
	forget();
	assert_int_equal(percpu_segment_open(path, PERCPU_SEGMENT_ANEW, NULL, &t), 0);
	is_seen("h", 2, bounds, ((const uint64_t[]){ 0, 0, 0 }), 0);
	percpu_histogram_record(h, 3);
	is_seen("h", 2, bounds, ((const uint64_t[]){ 0, 0, 1 }), 3);
	percpu_segment_close(t);
}

static void removed_series_keep_the_bounds(void **state)
{
	static const char *const a[] = { "a" };
	struct percpu_family *f = NULL;

	(void)state;
	assert_int_equal(declare_codes(s, OWN, &f), 0);
	record_code(f, "a", 0.3);
	assert_int_equal(codes_have(classic, CLASSIC), 1);
	assert_int_equal(percpu_family_remove(f, a), 0);
	assert_int_equal(codes_have(classic, CLASSIC), 0);
	assert_int_equal(percpu_reader_count(r), 0);
	forget();
	record_code(f, "a", 20);
	assert_int_equal(codes_have(classic, CLASSIC), 1);
	is_seen("codes", CLASSIC, classic, ((const uint64_t[CLASSIC + 1]){ [CLASSIC] = 1 }), 20);
}

/* The memory of a removed series is freed, with its bounds, and another histogram takes it. The
 * reader, which saw the first one, sees the bounds of the second. */
static void freed_bounds_are_not_seen(void **state)
{
	static const char *const a[] = { "a" };
	double other[CLASSIC];
	uint64_t key = 0, counts[CLASSIC + 1] = { 0 };
	struct percpu_histogram *h = NULL;
	struct percpu_family *f = NULL;

	(void)state;
	assert_int_equal(declare_codes(s, OWN, &f), 0);
	assert_int_equal(percpu_family_histogram(f, a, &h), 0);
	key = percpu_histogram_key(h);
	percpu_histogram_record(h, 0.3);
	assert_int_equal(codes_have(classic, CLASSIC), 1);
	assert_int_equal(percpu_family_remove(f, a), 0);
	percpu_segment_close(s);
	s = open_again();
	assert_int_equal(declare_codes(s, OWN, &f), 0); /* frees the series */
	for (int i = 0; i < CLASSIC; i++)
		other[i] = 1000 + i;
	h = declare_in(s, "other", OPTIONS(.bounds = other, .bounds_n = CLASSIC));
	assert_int_equal(percpu_histogram_key(h), key);
	percpu_histogram_record(h, 1000);
	counts[0] = 1;
	forget();
	is_seen("other", CLASSIC, other, counts, 1000);
	percpu_histogram_record(h, 5000);
	counts[CLASSIC] = 1;
	is_seen("other", CLASSIC, other, counts, 6000);
}

/* Kills. */

static int declare_and_die(void *arg)
{
	struct percpu_histogram *h = NULL;
	struct percpu_segment *t = open_again();

	dies_when = arg;
	test_child_require(percpu_segment_histogram(t, METRIC("h"), OWN, &h) == 0, percpu_error());
	dies_when = NULL;
	test_child_require(h == NULL, "nobody lives so long");
	return 0;
}

/* Until the object has a key, nobody else knows its bounds, and the next process chooses. After that
 * its bounds are there, all of them. */
static void killed_creators_leave_all_bounds_or_none(void **state)
{
	char *const steps[] = { "segment: record written", "segment: record announced",
				"root: object created", "root: set" };
	struct percpu_histogram *h = NULL;
	struct percpu_segment *t;
	int e;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (size_t i = 0; i < 4; i++) {
		const bool is_there = i == 3;

		(void)counter("first_total"); /* makes the block of records */
		assert_int_equal(test_wait(test_fork(declare_and_die, steps[i]), 60) & 0x7f,
				 SIGKILL);
		t = open_again();
		e = percpu_segment_histogram(t, METRIC("h"), BOUNDS(1, 2), &h);
		assert_int_equal(e, is_there ? -EEXIST : 0);
		if (is_there)
			h = declare_in(t, "h", OWN);
		percpu_histogram_record(h, 1.5);
		if (is_there)
			is_seen("h", CLASSIC, classic, ((const uint64_t[CLASSIC + 1]){ [8] = 1 }),
				1.5);
		else
			is_seen("h", 1, ((const double[]){ 2 }), ((const uint64_t[]){ 1, 0 }), 1.5);
		percpu_segment_close(t);
		assert_int_equal(remove_segment(NULL), 0);
		assert_int_equal(make_segment(NULL), 0);
	}
}

/* Damage. */

static struct percpu_histogram_control *control_of(const struct percpu_histogram *h)
{
	return (struct percpu_histogram_control *)percpu_block_bias(&h->block);
}

/* Assert that neither a new reader nor a process that counts believes what the file has; and that
 * the reader of the test, which has seen the bounds before, goes on with these. */
static void is_not_believed(const uint64_t *counts, double sum)
{
	struct percpu_reader *new = NULL;
	struct percpu_reader_info info = { .pending = 0 };
	struct percpu_histogram *h = NULL;
	struct percpu_segment *t = open_again();

	assert_int_equal(percpu_reader_open(path, &new), 0);
	assert_int_equal(percpu_reader_read(new), 0);
	assert_int_equal(percpu_reader_count(new), 0);
	assert_int_equal(percpu_reader_info(new, &info), 0);
	assert_int_equal(info.pending, 1);
	percpu_reader_close(new);
	assert_int_equal(percpu_segment_histogram(t, METRIC("h"), OWN, &h), -EEXIST);
	percpu_segment_close(t);
	is_seen("h", CLASSIC, classic, counts, sum);
}

static void damaged_bounds_are_not_believed(void **state)
{
	const double wrong[] = { NAN, INFINITY, -INFINITY, -1, 1e300, 0.025 };
	const uint64_t numbers[] = {
		12, 13, 512, 513, 514, 8192, UINT64_C(1) << 32 | CLASSIC, UINT64_MAX
	};
	const uint64_t counts[CLASSIC + 1] = { 1 };
	struct percpu_histogram *h = declare_in(s, "h", OWN), *none = NULL;
	struct percpu_histogram_control *c = control_of(h);
	double *bounds = percpu_histogram_bounds_at(&h->block, h);

	(void)state;
	percpu_histogram_record(h, 0.001);
	is_seen("h", CLASSIC, classic, counts, 0.001);
	assert_memory_equal(bounds, classic, sizeof(classic));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		bounds[3] = wrong[i];
		is_not_believed(counts, 0.001);
	}
	bounds[3] = classic[3];
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		c->bounds = numbers[i];
		is_not_believed(counts, 0.001);
	}
	c->bounds = CLASSIC + 2; /* possible ones, that reach beyond the object */
	for (int i = 0; i < 6; i++)
		bounds[CLASSIC + i] = 20 + i;
	is_not_believed(counts, 0.001);
	assert_int_equal(percpu_histogram_attach(s->region, percpu_histogram_key(h), &none),
			 -ENOENT);
	memset(&bounds[CLASSIC], 0, 6 * sizeof(*bounds));
	c->bounds = CLASSIC;
	c->schema = 0;
	is_not_believed(counts, 0.001);
	c->schema = PERCPU_HISTOGRAM_OWN_BOUNDS;
	c->low = 1;
	is_not_believed(counts, 0.001);
	c->low = 0;
	percpu_reader_close(r);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	is_seen("h", CLASSIC, classic, counts, 0.001);
}

#define NAMED(test) cmocka_unit_test_setup_teardown(test, make_segment, remove_segment)

int main(void)
{
	const struct CMUnitTest tests[] = {
		NAMED(options_are_checked),
		NAMED(bounds_are_checked),
		NAMED(summaries_have_no_label_quantile),
		NAMED(histograms_may_have_a_label_quantile),
		NAMED(differences_are_told),
		NAMED(processes_share_bounds),
		NAMED(families_keep_the_bounds),
		NAMED(tables_have_bounds),
		NAMED(pictures_have_buckets),
		NAMED(pictures_have_many_buckets),
		NAMED(summaries_have_count_and_sum),
		NAMED(pictures_are_merged),
		NAMED(resets_keep_the_bounds),
		NAMED(removed_series_keep_the_bounds),
		NAMED(freed_bounds_are_not_seen),
		NAMED(killed_creators_leave_all_bounds_or_none),
		NAMED(damaged_bounds_are_not_believed),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
