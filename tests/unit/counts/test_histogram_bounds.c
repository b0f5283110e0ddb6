/* SPDX-License-Identifier: MIT */
/*
 * test_histogram_bounds.c - histograms with bounds of the program's own: which bucket a value is in,
 * by sequences, in atomic lanes and under the lock of the journal; options; snapshots; quantiles as
 * PromQL computes them; merging; files that other processes damage.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/histogram.h>

#include "steps.h"
#include "support.h"

#include "counts/counts.h"

/* How a child records. */
enum bounds_way { SEQUENCES, ATOMIC_LANES, JOURNAL, BOUNDS_WAYS };

static unsigned ways_pretended = ~0U;

unsigned __real_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void)
{
	return __real_percpu_pair_ways() & ways_pretended;
}

void test_step(const char *name)
{
	(void)name;
}

#define BOUNDS_REQUIRE(ok) test_child_require((ok), #ok)

static void in_each_bounds_way(int (*fn)(void *arg))
{
	for (enum bounds_way way = SEQUENCES; way < BOUNDS_WAYS; way++) {
		enum bounds_way arg = way;

		test_in_child(fn, &arg);
	}
}

static void go_by(const enum bounds_way *way)
{
	ways_pretended = *way == JOURNAL ? 0 : ~0U;
	if (*way != SEQUENCES)
		test_unregister(percpu_seq_attach());
}

static struct percpu_histogram_options bounded_options(const double *bounds, size_t n,
						       uint64_t ticks)
{
	return (struct percpu_histogram_options){ .size = sizeof(struct percpu_histogram_options),
						  .ticks_per_unit = ticks,
						  .flags = n == 0 ? PERCPU_HISTOGRAM_SUMMARY : 0,
						  .bounds = n == 0 ? NULL : bounds,
						  .bounds_n = n };
}

static struct percpu_histogram *make_bounded(const double *bounds, size_t n, uint64_t ticks)
{
	const struct percpu_histogram_options o = bounded_options(bounds, n, ticks);
	struct percpu_histogram *h = NULL;

	test_child_require(percpu_histogram_create(&o, &h) == 0, "a histogram");
	return h;
}

static struct percpu_histogram_snapshot *look_at_bounded(const struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *s = NULL;

	test_child_require(percpu_histogram_snapshot_create(h, &s) == 0 &&
				   percpu_histogram_fetch(h, 0, s) == 0,
			   "a snapshot");
	return s;
}

/* Which bucket a value is in */

/* Return the first bound that is not below v, or n. */
static size_t bucket_by_definition(const double *bounds, size_t n, double v)
{
	size_t b = 0;

	while (b < n && !(v <= bounds[b]))
		b++;
	return b;
}

/* Record v in a new histogram, and require that it is in its bucket alone, whole, in the count and in
 * the sum. */
static void record_alone(const double *bounds, size_t n, double v)
{
	const size_t b = bucket_by_definition(bounds, n, v);
	struct percpu_histogram *h = make_bounded(bounds, n, 0);
	struct percpu_histogram_snapshot *s;

	percpu_histogram_record(h, v);
	s = look_at_bounded(h);
	BOUNDS_REQUIRE(s->count == 1 && s->refused == 0 && s->n == n + 1);
	BOUNDS_REQUIRE(s->bucket[b].count == 1 && s->bucket[b].sum == v && s->sum == v);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

static const double classic[] = { 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5,
				  0.75,	 1,    2.5,   5,    7.5,   10,	60 };
#define CLASSIC 15

/* Return the next double above v, or below it. */
static double next_to(double v, bool above)
{
	int64_t bits;

	if (v == 0)
		return above ? 5e-324 : -5e-324;
	memcpy(&bits, &v, sizeof(bits));
	bits += above == (v > 0) ? 1 : -1;
	memcpy(&v, &bits, sizeof(v));
	return v;
}

static void record_beside(const double *bounds, size_t n)
{
	const double ends[] = { 0, -0.0, 5e-324, -5e-324, 1, -1, 0x1p959, -0x1p959 };

	for (size_t i = 0; i < n; i++) {
		record_alone(bounds, n, bounds[i]);
		record_alone(bounds, n, next_to(bounds[i], true));
		record_alone(bounds, n, next_to(bounds[i], false));
	}
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		record_alone(bounds, n, ends[i]);
}

static int record_at_bounds(void *arg)
{
	const double around[] = { -0x1p900, -2, -1, -0.5, 0, 0.5, 1, 0x1p900 }, zero[] = { -0.0 };
	double many[PERCPU_HISTOGRAM_MAX_BOUNDS];

	go_by(arg);
	record_beside(classic, CLASSIC);
	record_beside(around, 8);
	record_beside(zero, 1);
	record_beside(NULL, 0);
	for (size_t i = 0; i < PERCPU_HISTOGRAM_MAX_BOUNDS; i++)
		many[i] = -3 + (double)i * 0.37;
	for (size_t n = 1; n < 40; n++)
		record_beside(many, n);
	for (size_t far = 0; far < 6; far++) { /* most bounds in one piece */
		for (size_t i = 0; i < 6; i++)
			many[i] = i < far ? 1e-6 + (double)i * 1e-12 : 1e6 + (double)i * 1e-3;
		record_beside(many, 6);
	}
	for (size_t i = 0; i < PERCPU_HISTOGRAM_MAX_BOUNDS; i++)
		many[i] = -3 + (double)i * 0.37;
	record_beside(many, 257);
	record_beside(many, PERCPU_HISTOGRAM_MAX_BOUNDS);
	return 0;
}

static void a_bound_is_in_its_bucket(void **state)
{
	(void)state;
	in_each_bounds_way(record_at_bounds);
}

static int refuse_values(void *arg)
{
	const double refused[] = { INFINITY, -INFINITY, NAN, -NAN, 0x1p960, -0x1p960 };
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h;

	go_by(arg);
	for (int k = 0; k < 4; k++) { /* with bounds, and a summary */
		const int ticks = k % 2;

		h = make_bounded(classic, k < 2 ? CLASSIC : 0, ticks == 0 ? 0 : 1000);
		for (int i = 0; i < 6; i++)
			percpu_histogram_record(h, refused[i]);
		percpu_histogram_record_ticks(h, UINT64_MAX);
		s = look_at_bounded(h);
		BOUNDS_REQUIRE(s->count == 0 && s->refused == 7 && s->sum == 0);
		percpu_histogram_record(h, -1); /* doubles have negative values, ticks have not */
		BOUNDS_REQUIRE(percpu_histogram_fetch(h, 0, s) == 0);
		BOUNDS_REQUIRE(ticks == 0 ? s->bucket[0].count == 1 && s->sum == -1 :
					    s->count == 0 && s->refused == 8);
		percpu_histogram_snapshot_destroy(s);
		percpu_histogram_destroy(h);
	}
	return 0;
}

static void some_values_are_refused(void **state)
{
	(void)state;
	in_each_bounds_way(refuse_values);
}

/* Record ticks one by one, and compare with the definition: ticks / ticks_per_unit is not above the
 * bound, as doubles. */
static void record_all_ticks(const double *bounds, size_t n, uint64_t unit, uint64_t from)
{
	struct percpu_histogram *h = make_bounded(bounds, n, unit);
	struct percpu_histogram_snapshot *s = look_at_bounded(h);

	for (uint64_t t = from; t < from + 40; t++) {
		const volatile double units = (double)t / (double)unit;
		size_t b = bucket_by_definition(bounds, n, units);

		percpu_histogram_record_ticks(h, t);
		BOUNDS_REQUIRE(percpu_histogram_fetch_zero(h, 0, s) == 0);
		BOUNDS_REQUIRE(s->count == 1 && s->bucket[b].count == 1);
		BOUNDS_REQUIRE(s->bucket[b].ticks == t && s->sum == units);
	}
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

static int record_tick_bounds(void *arg)
{
	const double hundredths[] = { -1, 0, 1e-11, 2e-11, 0.07, 0.29, 0.57, 0.58, 1.13, 1.14 };
	const double below[] = { 0.8999999999999999 }; /* times 10 it is rounded to 9 */
	const double thirds[] = { 1.0 / 3, 2.0 / 3, 4.0 / 3, 2 };

	go_by(arg);
	record_all_ticks(hundredths, 10, 100, 0);
	record_all_ticks(hundredths, 10, 100, 90);
	record_all_ticks(hundredths, 10, 1000000000, 0);
	record_all_ticks(hundredths, 10, 1000000000, 289999980);
	record_all_ticks(hundredths, 10, 1000000000, 1139999980);
	record_all_ticks(below, 1, 10, 0);
	record_all_ticks(thirds, 4, 3, 0);
	record_all_ticks(thirds, 4, 7, 0);
	record_all_ticks(NULL, 0, 7, 0);
	return 0;
}

static void ticks_are_compared_as_doubles(void **state)
{
	(void)state;
	in_each_bounds_way(record_tick_bounds);
}

/* Options */

static int try_options(const struct percpu_histogram_options *o)
{
	struct percpu_histogram *const none = (struct percpu_histogram *)o;
	struct percpu_histogram *h = none;
	int e = percpu_histogram_create(o, &h);

	if (e == 0)
		percpu_histogram_destroy(h);
	else
		assert_ptr_equal(h, none);
	return e;
}

static int try_bounds(const double *bounds, size_t n, uint64_t ticks)
{
	const struct percpu_histogram_options o = bounded_options(bounds, n, ticks);

	return try_options(&o);
}

static void bounds_are_checked(void **state)
{
	double many[PERCPU_HISTOGRAM_MAX_BOUNDS + 1];

	(void)state;
	for (size_t i = 0; i <= PERCPU_HISTOGRAM_MAX_BOUNDS; i++)
		many[i] = (double)i;
	assert_int_equal(try_bounds(many, PERCPU_HISTOGRAM_MAX_BOUNDS, 0), 0);
	assert_int_equal(try_bounds(many, PERCPU_HISTOGRAM_MAX_BOUNDS + 1, 0), -EINVAL);
	assert_int_equal(try_bounds(many, SIZE_MAX / 4, 0), -EINVAL);
	assert_int_equal(try_bounds((const double[]){ 1, 1 }, 2, 0), -EINVAL);
	assert_int_equal(try_bounds((const double[]){ 2, 1 }, 2, 0), -EINVAL);
	assert_int_equal(try_bounds((const double[]){ -0.0, 0 }, 2, 0), -EINVAL);
	assert_int_equal(try_bounds((const double[]){ NAN }, 1, 0), -EINVAL);
	assert_int_equal(try_bounds((const double[]){ 1, NAN, 2 }, 3, 0), -EINVAL);
	assert_int_equal(try_bounds((const double[]){ 1, INFINITY }, 2, 0), -EINVAL);
	assert_int_equal(try_bounds((const double[]){ -INFINITY, 1 }, 2, 0), -EINVAL);
	assert_int_equal(try_bounds((const double[]){ 0x1p960 }, 1, 0), -ERANGE);
	assert_int_equal(try_bounds((const double[]){ -0x1p960 }, 1, 0), -ERANGE);
	assert_int_equal(try_bounds((const double[]){ -0x1p959, 0x1p959 }, 2, 0), 0);
	assert_int_equal(try_bounds((const double[]){ 0x1p53 }, 1, 1), -ERANGE);
	assert_int_equal(try_bounds((const double[]){ 0x1p53 - 2 }, 1, 1), 0);
	assert_int_equal(try_bounds((const double[]){ 0x1p53 }, 1, 0), 0);
}

static void options_go_together(void **state)
{
	struct percpu_histogram_options o = bounded_options(classic, CLASSIC, 0);

	(void)state;
	assert_int_equal(try_options(&o), 0);
	o.min = 1;
	assert_int_equal(try_options(&o), -EINVAL);
	o.min = 0;
	o.max = 1;
	assert_int_equal(try_options(&o), -EINVAL);
	o.max = 0;
	o.buckets_per_octave = 8;
	assert_int_equal(try_options(&o), -EINVAL);
	o.buckets_per_octave = 0;
	o.flags = PERCPU_HISTOGRAM_SUMMARY;
	assert_int_equal(try_options(&o), -EINVAL);
	o.flags = 2;
	assert_int_equal(try_options(&o), -EINVAL);
	o.flags = 0;
	o.bounds_n = 0;
	assert_int_equal(try_options(&o), -EINVAL);
	o.bounds = NULL;
	assert_int_equal(try_options(&o), 0); /* exponential */
	o.bounds_n = 1;
	assert_int_equal(try_options(&o), -EINVAL);
	o.bounds_n = 0;
	o.flags = PERCPU_HISTOGRAM_SUMMARY;
	assert_int_equal(try_options(&o), 0);
	o.size = offsetof(struct percpu_histogram_options, bounds);
	assert_int_equal(try_options(&o), 0);
}

/* The library copies the bounds, and a snapshot has them, too. */
static void bounds_are_copied(void **state)
{
	double bounds[3] = { 1, 2, 3 };
	struct percpu_histogram *h = make_bounded(bounds, 3, 0);
	struct percpu_histogram_snapshot *s = look_at_bounded(h);

	(void)state;
	memset(bounds, 0xff, sizeof(bounds));
	percpu_histogram_record(h, 2);
	assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
	assert_int_equal(s->bucket[1].count, 1);
	assert_int_equal(s->schema, PERCPU_HISTOGRAM_OWN_BOUNDS);
	assert_int_equal(s->n, 4);
	percpu_histogram_destroy(h);
	for (int i = 0; i < 3; i++)
		assert_true(s->bounds[i] == i + 1);
	percpu_histogram_snapshot_destroy(s);
}

/* Snapshots */

/* Return a snapshot of a new histogram with these values. */
static struct percpu_histogram_snapshot *
recorded_with(const double *bounds, size_t n, uint64_t ticks, const double *values, size_t count)
{
	struct percpu_histogram *h = make_bounded(bounds, n, ticks);
	struct percpu_histogram_snapshot *s;

	for (size_t i = 0; i < count; i++)
		percpu_histogram_record(h, values[i]);
	s = look_at_bounded(h);
	percpu_histogram_destroy(h);
	return s;
}

/* What PromQL's bucketQuantile() computes, from cumulative counts. */
static double promql_quantile(double q, const struct percpu_histogram_snapshot *s)
{
	double cumulative[PERCPU_HISTOGRAM_MAX_BOUNDS + 1], rank, start = 0, count;
	uint32_t b = 0;

	for (uint32_t i = 0; i < s->n; i++)
		cumulative[i] = (double)s->bucket[i].count + (i > 0 ? cumulative[i - 1] : 0);
	rank = q * cumulative[s->n - 1];
	while (b < s->n - 1 && !(cumulative[b] >= rank))
		b++;
	if (b == s->n - 1)
		return s->bounds[s->n - 2];
	if (b == 0 && s->bounds[0] <= 0)
		return s->bounds[0];
	count = cumulative[b];
	if (b > 0) {
		start = s->bounds[b - 1];
		count -= cumulative[b - 1];
		rank -= cumulative[b - 1];
	}
	return start + (s->bounds[b] - start) * (rank / count);
}

/* Return an observation by its number in order; the values are in order. */
static double observation(const double *values, size_t count, double q)
{
	const double rank = q * (double)count;
	size_t r = (size_t)rank;

	r += (double)r < rank;
	return values[r == 0 ? 0 : r - 1];
}

/* The same formula differs in the last digit where registers have more digits than doubles, or where
 * a product is added without rounding. */
#define LAST_DIGIT 1e-15

static void assert_quantiles(const double *bounds, size_t n, uint64_t ticks, const double *values,
			     size_t count)
{
	struct percpu_histogram_snapshot *s = recorded_with(bounds, n, ticks, values, count);
	struct percpu_histogram_quantile q;
	double expected;

	for (int i = 1; i <= 64; i++) {
		const double v = observation(values, count, i / 64.0);

		assert_int_equal(percpu_histogram_quantile(s, i / 64.0, &q), 0);
		expected = promql_quantile(i / 64.0, s);
		assert_true(fabs(q.value - expected) <= fabs(expected) * LAST_DIGIT);
		assert_true(q.low <= v && v <= q.high);
	}
	percpu_histogram_snapshot_destroy(s);
}

static void quantiles_are_those_of_promql(void **state)
{
	const double few[] = { 0.5, 1.5, 1.5, 2.5, 7 }, one[] = { 3 }, below[] = { -8, -7, -1, 0 };
	const double bounds[] = { 1, 2, 4 }, around[] = { -5, -2, 3 }, top[] = { 1e6 };
	double many[1000];
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram_quantile q = { 1, 2, 3 };

	(void)state;
	for (int i = 0; i < 1000; i++)
		many[i] = i / 100.0;
	for (uint64_t ticks = 0; ticks <= 1000; ticks += 1000) {
		assert_quantiles(bounds, 3, ticks, few, 5);
		assert_quantiles(bounds, 3, ticks, one, 1);
		assert_quantiles(bounds, 3, ticks, top, 1);
		assert_quantiles(classic, CLASSIC, ticks, many, 1000);
	}
	assert_quantiles(around, 3, 0, below, 4);
	s = recorded_with(bounds, 3, 0, one, 1);
	assert_int_equal(percpu_histogram_quantile(s, 0, &q), 0); /* the first that is not empty */
	assert_true(q.value == 2 && q.low == 3 && q.high == 3);
	percpu_histogram_snapshot_destroy(s);
	s = recorded_with(bounds, 3, 0, one, 0);
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -ENODATA);
	percpu_histogram_snapshot_destroy(s);
	s = recorded_with(NULL, 0, 0, few, 5); /* a summary has none */
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -ENODATA);
	assert_true(s->n == 1 && s->count == 5 && s->sum == 13);
	percpu_histogram_snapshot_destroy(s);
}

static void counts_below_bounds_are_exact(void **state)
{
	const double values[] = { -3, -1, 0, 0.5, 1, 1.5, 3, 9 }, bounds[] = { -2, 1, 2, 4 };
	struct percpu_histogram_snapshot *s = recorded_with(bounds, 4, 0, values, 8);
	bool exact;

	(void)state;
	assert_int_equal(percpu_histogram_count_below(s, -2, &exact), 1);
	assert_true(exact);
	assert_int_equal(percpu_histogram_count_below(s, 1, &exact), 5);
	assert_true(exact);
	assert_int_equal(percpu_histogram_count_below(s, 2, &exact), 6);
	assert_true(exact);
	assert_int_equal(percpu_histogram_count_below(s, -0.5, &exact), 3); /* 1 + 4 * 1.5 / 3 */
	assert_false(exact);
	assert_int_equal(percpu_histogram_count_below(s, -4, &exact), 0);
	assert_false(exact);
	assert_int_equal(percpu_histogram_count_below(s, 100, &exact), 7);
	assert_false(exact);
	assert_int_equal(percpu_histogram_count_below(s, INFINITY, &exact), 8);
	assert_true(exact);
	assert_int_equal(percpu_histogram_count_below(s, NAN, &exact), 0);
	percpu_histogram_snapshot_destroy(s);
	s = recorded_with((const double[]){ 4 }, 1, 0, &values[3], 4);
	assert_int_equal(percpu_histogram_count_below(s, 2, &exact), 2); /* from 0 on */
	assert_false(exact);
	percpu_histogram_snapshot_destroy(s);
}

static void bounds_are_merged(void **state)
{
	const double values[] = { -3, 0.5, 1, 1.5, 3, 9 }, fine[] = { -2, 1, 2, 4 };
	const double coarse[] = { 1, 4 }, others[] = { 1, 3 };
	struct percpu_histogram_snapshot *f = recorded_with(fine, 4, 0, values, 6), *into, *x;
	uint64_t counts[160];
	struct percpu_histogram_otlp otlp;

	(void)state;
	into = recorded_with(fine, 4, 0, values, 6);
	assert_int_equal(percpu_histogram_merge(into, f), 0);
	for (uint32_t b = 0; b < 5; b++)
		assert_int_equal(into->bucket[b].count, 2 * f->bucket[b].count);
	assert_true(into->count == 12 && into->sum == 24);
	assert_int_equal(percpu_histogram_subtract(into, f), 0);
	assert_true(into->count == 6 && into->sum == 12 && into->bucket[0].sum == -3);
	percpu_histogram_snapshot_destroy(into);
	into = recorded_with(coarse, 2, 0, values, 0); /* fewer bounds */
	assert_int_equal(percpu_histogram_merge(into, f), 0);
	assert_true(into->bucket[0].count == 3 && into->bucket[1].count == 2 &&
		    into->bucket[2].count == 1 && into->sum == 12);
	assert_int_equal(percpu_histogram_merge(f, into), -ERANGE); /* a bound within a bucket */
	assert_int_equal(f->count, 6);
	percpu_histogram_snapshot_destroy(into);
	into = recorded_with(others, 2, 0, values, 0);
	assert_int_equal(percpu_histogram_merge(into, f), -ERANGE);
	assert_int_equal(into->count, 0);
	percpu_histogram_snapshot_destroy(into);
	into = recorded_with(NULL, 0, 0, values, 0); /* a summary takes all */
	assert_int_equal(percpu_histogram_merge(into, f), 0);
	assert_true(into->count == 6 && into->sum == 12);
	percpu_histogram_snapshot_destroy(into);
	into = recorded_with(fine, 4, 1000, values, 0);
	assert_int_equal(percpu_histogram_merge(into, f), -EINVAL); /* ticks */
	percpu_histogram_snapshot_destroy(into);
	assert_int_equal(percpu_histogram_downscale(f, 0, &x), -ERANGE);
	assert_int_equal(percpu_histogram_to_otlp(f, counts, 160, &otlp), -EINVAL);
	percpu_histogram_snapshot_destroy(f);
}

static void kinds_are_not_mixed(void **state)
{
	const double values[] = { 0.5 }, fine[] = { 0.25, 1 };
	struct percpu_histogram_snapshot *own = recorded_with(fine, 2, 0, values, 1), *native;
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_histogram_create(NULL, &h), 0);
	percpu_histogram_record(h, 0.5);
	native = look_at_bounded(h);
	assert_null(native->bounds);
	assert_int_equal(percpu_histogram_merge(own, native), -EINVAL);
	assert_int_equal(percpu_histogram_merge(native, own), -EINVAL);
	assert_int_equal(percpu_histogram_fetch(h, 0, own), -EINVAL);
	percpu_histogram_destroy(h);
	h = make_bounded(fine, 2, 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, native), -EINVAL);
	percpu_histogram_snapshot_destroy(own);
	own = recorded_with((const double[]){ 0.25, 2 }, 2, 0, values, 1);
	assert_int_equal(percpu_histogram_fetch(h, 0, own), -EINVAL); /* other bounds */
	percpu_histogram_destroy(h);
	percpu_histogram_snapshot_destroy(own);
	percpu_histogram_snapshot_destroy(native);
}

/* A snapshot of which the program has changed something. */
static void impossible_snapshots_are_refused(void **state)
{
	const double fine[] = { 0.25, 1 };
	struct percpu_histogram_snapshot *s = recorded_with(fine, 2, 0, fine, 2);
	double falling[] = { 1, 0.25 };
	struct percpu_histogram_quantile q;

	(void)state;
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), 0);
	s->low = 1;
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -EINVAL);
	s->low = 0;
	s->high = 1;
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -EINVAL);
	s->high = 0;
	s->n = 0;
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -EINVAL);
	s->n = PERCPU_HISTOGRAM_MAX_BOUNDS + 2;
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -EINVAL);
	s->n = 3;
	s->schema = 3;
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -EINVAL);
	s->schema = PERCPU_HISTOGRAM_OWN_BOUNDS;
	s->bounds = falling;
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -EINVAL);
	s->bounds = NULL;
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), -EINVAL);
	percpu_histogram_snapshot_destroy(s);
}

/* Files */

#define BOUNDS_CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)

static struct percpu_histogram_control *control_of(const struct percpu_histogram *h)
{
	return (struct percpu_histogram_control *)percpu_block_bias(&h->block);
}

static void other_processes_use_the_same_bounds(void **state)
{
	struct percpu_histogram_options o = bounded_options(classic, CLASSIC, 0);
	struct percpu_histogram *h, *other = NULL;
	struct percpu_histogram_snapshot *s;
	struct percpu_region *r, *r2;
	double changed[CLASSIC];

	(void)state;
	o.n = 3;
	assert_int_equal(percpu_region_open(test_path("same"), BOUNDS_CREATE, NULL, &r), 0);
	assert_int_equal(percpu_region_open(test_path("same"), PERCPU_REGION_WRITE, NULL, &r2), 0);
	assert_int_equal(percpu_histogram_open(r, 0, &o, &h), 0);
	assert_int_equal(percpu_histogram_attach(r2, percpu_histogram_key(h), &other), 0);
	percpu_histogram_record_at(h, 1, 0.3);
	percpu_histogram_record_at(other, 1, 0.3);
	percpu_histogram_record_at(other, 2, 99);
	assert_int_equal(percpu_histogram_snapshot_create(other, &s), 0);
	assert_int_equal(percpu_histogram_fetch(h, 1, s), 0);
	assert_int_equal(s->bucket[7].count, 2); /* up to 0.5 */
	assert_memory_equal(s->bounds, classic, sizeof(classic));
	assert_int_equal(percpu_histogram_fetch(h, 2, s), 0);
	assert_int_equal(s->bucket[CLASSIC].count, 1);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_detach(other);
	assert_int_equal(percpu_histogram_open(r2, 0, &o, &other), 0);
	percpu_histogram_detach(other);
	memcpy(changed, classic, sizeof(changed));
	changed[CLASSIC - 1]++;
	o.bounds = changed;
	assert_int_equal(percpu_histogram_open(r2, 0, &o, &other), -EEXIST);
	o.bounds = classic;
	o.bounds_n--;
	assert_int_equal(percpu_histogram_open(r2, 0, &o, &other), -EEXIST);
	assert_int_equal(percpu_histogram_open(r2, 0, NULL, &other), -EEXIST);
	percpu_region_close(r2);
	assert_int_equal(percpu_region_open(test_path("same"), 0, NULL, &r2), 0);
	assert_int_equal(percpu_histogram_attach(r2, percpu_histogram_key(h), &other), 0);
	percpu_histogram_record_at(other, 2, 99); /* opened to read: nothing happens */
	percpu_histogram_record_at(other, 2, -1);
	assert_int_equal(percpu_histogram_snapshot_create(other, &s), 0);
	assert_int_equal(percpu_histogram_fetch(other, 2, s), 0);
	assert_int_equal(s->count, 1);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_detach(other);
	percpu_region_close(r2);
	percpu_histogram_detach(h);
	percpu_region_close(r);
}

/* Another process damages the file: attaching fails, and a handle from before goes on. */
static void damaged_bounds_are_refused(void **state)
{
	const struct percpu_histogram_options o = bounded_options(classic, CLASSIC, 0);
	struct percpu_histogram *h, *other = NULL;
	struct percpu_histogram_control *c, saved;
	struct percpu_histogram_snapshot *s;
	struct percpu_region *r;
	double *bounds;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_region_open(test_path("damaged"), BOUNDS_CREATE, NULL, &r), 0);
	assert_int_equal(percpu_histogram_create_in(r, &o, &h), 0);
	key = percpu_histogram_key(h);
	c = control_of(h);
	saved = *c;
	bounds = percpu_histogram_bounds_at(&h->block, h);
	assert_memory_equal(bounds, classic, sizeof(classic));
	for (uint64_t n = 0; n < 2000; n++) {
		/* Where one bound would be, there is a 0, which may be a bound. */
		const bool possible = n <= 1 || n == CLASSIC;

		c->bounds = n < 1500 ? n : UINT64_MAX - n;
		assert_int_equal(percpu_histogram_attach(r, key, &other), possible ? 0 : -ENOENT);
		if (possible)
			percpu_histogram_detach(other);
	}
	c->bounds = UINT64_C(1) << 32 | CLASSIC;
	assert_int_equal(percpu_histogram_attach(r, key, &other), -ENOENT);
	*c = saved;
	c->low = 1;
	assert_int_equal(percpu_histogram_attach(r, key, &other), -ENOENT);
	*c = saved;
	c->high = 1;
	assert_int_equal(percpu_histogram_attach(r, key, &other), -ENOENT);
	*c = saved;
	for (int32_t schema = -60; schema < 60; schema++) {
		c->schema = schema;
		if (schema != PERCPU_HISTOGRAM_OWN_BOUNDS)
			assert_int_equal(percpu_histogram_attach(r, key, &other), -ENOENT);
	}
	*c = saved;
	c->ticks = UINT64_C(1) << 50; /* a bound is 2^53 ticks or more */
	assert_int_equal(percpu_histogram_attach(r, key, &other), -ENOENT);
	*c = saved;
	for (uint64_t n = UINT64_C(1) << 20; n != 0; n *= 2) { /* addresses would overflow */
		c->n = n;
		assert_int_equal(percpu_histogram_attach(r, key, &other), -ENOENT);
	}
	*c = saved;
	for (int i = 0; i < CLASSIC; i++) {
		bounds[i] = i % 2 ? NAN : -INFINITY;
		assert_int_equal(percpu_histogram_attach(r, key, &other), -ENOENT);
		bounds[i] = i > 0 ? classic[i - 1] : 1;
		assert_int_equal(percpu_histogram_attach(r, key, &other), -ENOENT);
		bounds[i] = classic[i];
	}
	memset(bounds, 0xff, sizeof(classic));
	memset(c, 0xff, sizeof(*c));
	percpu_histogram_record(h, 0.3);
	s = look_at_bounded(h);
	assert_int_equal(s->bucket[7].count, 1);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_detach(h);
	percpu_region_close(r);
}

/* Record until killed, one of each bucket in turn. */
static int record_for_ever(void *arg)
{
	struct percpu_histogram *h = arg;

	for (unsigned i = 0;; i++)
		percpu_histogram_record(h, classic[i % CLASSIC]);
	return 0;
}

static uint64_t recorded(struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *s = look_at_bounded(h);
	const uint64_t n = s->count;

	percpu_histogram_snapshot_destroy(s);
	return n;
}

/* A killed process has recorded each value whole. */
static void killed_recorders_leave_whole_values(void **state)
{
	const struct percpu_histogram_options o = bounded_options(classic, CLASSIC, 1000);
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h;
	struct percpu_region *r;
	uint64_t all = 0;

	(void)state;
	assert_int_equal(percpu_region_open(test_path("killed"), BOUNDS_CREATE, NULL, &r), 0);
	assert_int_equal(percpu_histogram_create_in(r, &o, &h), 0);
	for (unsigned i = 0; i < test_rounds(20); i++) {
		const uint64_t before = recorded(h);
		pid_t pid = test_fork(record_for_ever, h);

		while (recorded(h) == before)
			test_sleep_us(100);
		test_sleep_us(100 * i);
		kill(pid, SIGKILL);
		test_wait(pid, 60);
	}
	s = look_at_bounded(h);
	for (int b = 0; b < CLASSIC; b++) {
		assert_int_equal(s->bucket[b].ticks,
				 s->bucket[b].count * (uint64_t)(classic[b] * 1000 + 0.5));
		all += s->bucket[b].count;
	}
	assert_true(all > 0 && s->count == all);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_detach(h);
	percpu_region_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bound_is_in_its_bucket),
		cmocka_unit_test(some_values_are_refused),
		cmocka_unit_test(ticks_are_compared_as_doubles),
		cmocka_unit_test(bounds_are_checked),
		cmocka_unit_test(options_go_together),
		cmocka_unit_test(bounds_are_copied),
		cmocka_unit_test(quantiles_are_those_of_promql),
		cmocka_unit_test(counts_below_bounds_are_exact),
		cmocka_unit_test(bounds_are_merged),
		cmocka_unit_test(kinds_are_not_mixed),
		cmocka_unit_test(impossible_snapshots_are_refused),
		cmocka_unit_test(other_processes_use_the_same_bounds),
		cmocka_unit_test(damaged_bounds_are_refused),
		cmocka_unit_test(killed_recorders_leave_whole_values),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
