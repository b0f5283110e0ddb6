/* SPDX-License-Identifier: MIT */
/*
 * operations_values.c - operations on doubles and other values, in a shared region.
 */
#include "stepping.h"

#include <string.h>

#include <percpu/calls.h>

#include "../support.h"
#include "memory/memory.h"

static struct percpu_fcounter *fcounter;
static struct percpu_fcounter_array *farray;
static struct percpu_gauge *gauge;
static struct percpu_fgauge *fgauge;
static struct percpu_histogram *histogram, *tick_histogram;
static struct percpu_histogram_snapshot *seen, *seen_ticks;
static struct percpu_extrema *extrema, *fextrema;
static struct percpu_rate *rate, *fresh_rate, *full_rate; /* private: each child has them so */

static struct percpu_approx *approx, *narrow; /* one that moves its centers often */

void stepping_make_values(struct percpu_region *r, unsigned cpu)
{
	const struct percpu_approx_options often = { .size = sizeof(often), .batch = 1 };
	struct percpu_histogram_options o = { .size = sizeof(o), .min = 1, .max = 8 };

	assert_int_equal(percpu_histogram_create_in(r, &o, &histogram), 0);
	assert_int_equal(percpu_rate_create(PERCPU_RATE_MAX, PERCPU_RATE_MAX, &rate), 0);
	assert_int_equal(percpu_rate_create(PERCPU_RATE_MAX, PERCPU_RATE_MAX, &fresh_rate), 0);
	assert_int_equal(percpu_rate_create(1, PERCPU_RATE_MAX, &full_rate), 0);
	test_pin(0, cpu); /* which takes permissions in advance */
	assert_true(percpu_rate_check(rate) && percpu_rate_check(full_rate));
	test_unpin(0);
	o.ticks_per_unit = 1;
	assert_int_equal(percpu_histogram_create_in(r, &o, &tick_histogram), 0);
	assert_int_equal(percpu_histogram_snapshot_create(histogram, &seen), 0);
	assert_int_equal(percpu_histogram_snapshot_create(tick_histogram, &seen_ticks), 0);
	assert_int_equal(percpu_approx_create(NULL, &approx), 0);
	assert_int_equal(percpu_approx_create(&often, &narrow), 0);
	assert_int_equal(percpu_fcounter_create_in(r, &fcounter), 0);
	assert_int_equal(percpu_fcounter_array_create_in(r, 2, &farray), 0);
	assert_int_equal(percpu_gauge_create_in(r, &gauge), 0);
	assert_int_equal(percpu_pair_is_atomic() ? percpu_fgauge_create_in(r, &fgauge) :
						   percpu_fgauge_create(&fgauge),
			 0);
	assert_int_equal(percpu_extrema_create_in(r, 0, &extrema), 0);
	assert_int_equal(percpu_extrema_create_in(r, PERCPU_EXTREMA_DOUBLE, &fextrema), 0);
	assert_int_equal(percpu_extrema_observe_call(extrema, 0), 0);
	assert_int_equal(percpu_extrema_observe_double_call(fextrema, 0), 0);
}

static struct model_result run_fcounter(const struct model_case *c)
{
	return (struct model_result){ percpu_fcounter_add(fcounter, (double)c->n[0]), MODEL_UNSET };
}

static struct model_result run_farray(const struct model_case *c)
{
	return (struct model_result){ percpu_fcounter_array_add(farray, 1, (double)c->n[0]),
				      MODEL_UNSET };
}

static struct model_result run_fcounter_call(const struct model_case *c)
{
	return (struct model_result){ percpu_fcounter_add_call(fcounter, (double)c->n[0]),
				      MODEL_UNSET };
}

static struct model_result run_farray_call(const struct model_case *c)
{
	return (struct model_result){ percpu_fcounter_array_add_call(farray, 1, (double)c->n[0]),
				      MODEL_UNSET };
}

static const struct model_result done = { 0, MODEL_UNSET };

static struct model_result run_gauge_add(const struct model_case *c)
{
	percpu_gauge_add_call(gauge, c->n[0]);
	return done;
}

static struct model_result run_gauge_sub(const struct model_case *c)
{
	percpu_gauge_sub_call(gauge, (int64_t)(0 - (uint64_t)c->n[0]));
	return done;
}

/* Another update may come between. */
static struct model_result run_gauge_inc(const struct model_case *c)
{
	uint64_t before = (uint64_t)percpu_gauge_fetch(gauge), grown;

	(void)c;
	percpu_gauge_inc_call(gauge);
	grown = (uint64_t)percpu_gauge_fetch(gauge) - before;
	return (struct model_result){ grown != 1 && grown != 2, MODEL_UNSET };
}

static struct model_result run_gauge_dec(const struct model_case *c)
{
	uint64_t before = (uint64_t)percpu_gauge_fetch(gauge), fallen;

	(void)c;
	percpu_gauge_dec_call(gauge);
	fallen = before - (uint64_t)percpu_gauge_fetch(gauge);
	return (struct model_result){ fallen != 1 && fallen != 2, MODEL_UNSET };
}

static struct model_result run_fgauge_add(const struct model_case *c)
{
	return (struct model_result){ percpu_fgauge_add_call(fgauge, (double)c->n[0]),
				      MODEL_UNSET };
}

static struct model_result run_fgauge_sub(const struct model_case *c)
{
	return (struct model_result){ percpu_fgauge_sub_call(fgauge, -(double)c->n[0]),
				      MODEL_UNSET };
}

static struct model_result run_approx_add(const struct model_case *c)
{
	int64_t before = percpu_approx_fetch(approx), grown;

	(void)c;
	percpu_approx_add_call(approx, 1);
	grown = percpu_approx_fetch(approx) - before;
	return (struct model_result){ grown != 1 && grown != 2, MODEL_UNSET };
}

static struct model_result run_approx_move(const struct model_case *c)
{
	int64_t before = percpu_approx_fetch(narrow), grown;

	(void)c;
	percpu_approx_add_call(narrow, 1);
	percpu_approx_add_call(narrow, 1);
	grown = percpu_approx_fetch(narrow) - before;
	return (struct model_result){ grown != 2 && grown != 4, MODEL_UNSET };
}

static struct model_result run_approx_below(const struct model_case *c)
{
	int64_t before = percpu_approx_fetch(approx), grown;
	int e;

	(void)c;
	e = percpu_approx_add_below_call(approx, 1, INT64_C(1) << 40);
	grown = percpu_approx_fetch(approx) - before;
	return (struct model_result){ e != 0 || (grown != 1 && grown != 2), MODEL_UNSET };
}

/* Observations are all of 3. Another one may come between. */
static uint64_t observations(const struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *s = h == histogram ? seen : seen_ticks;

	return percpu_histogram_fetch(h, 0, s) == 0 && s->sum == 3 * (double)s->count ? s->count :
											UINT64_MAX;
}

static struct model_result one_more(const struct percpu_histogram *h, uint64_t before)
{
	uint64_t grown = observations(h) - before;

	return (struct model_result){ grown != 1 && grown != 2, MODEL_UNSET };
}

static struct model_result run_record(const struct model_case *c)
{
	uint64_t before = observations(histogram);

	(void)c;
	percpu_histogram_record_call(histogram, 3);
	return one_more(histogram, before);
}

static struct model_result run_record_at(const struct model_case *c)
{
	uint64_t before = observations(histogram);

	(void)c;
	percpu_histogram_record_at_call(histogram, 0, 3);
	return one_more(histogram, before);
}

static struct model_result run_record_ticks(const struct model_case *c)
{
	uint64_t before = observations(tick_histogram);

	(void)c;
	percpu_histogram_record_ticks_call(tick_histogram, 3);
	return one_more(tick_histogram, before);
}

static struct model_result run_record_ticks_at(const struct model_case *c)
{
	uint64_t before = observations(tick_histogram);

	(void)c;
	percpu_histogram_record_ticks_at_call(tick_histogram, 0, 3);
	return one_more(tick_histogram, before);
}

static struct model_result run_extrema(const struct model_case *c)
{
	return (struct model_result){ percpu_extrema_observe(extrema, c->n[0]), MODEL_UNSET };
}

static struct model_result run_extrema_call(const struct model_case *c)
{
	return (struct model_result){ percpu_extrema_observe_call(extrema, c->n[0]), MODEL_UNSET };
}

static struct model_result run_fextrema(const struct model_case *c)
{
	return (struct model_result){ percpu_extrema_observe_double_call(fextrema, (double)c->n[0]),
				      MODEL_UNSET };
}

static bool read_fextrema(struct model_lane *out)
{
	double min, max;
	int e = percpu_extrema_fetch_double(fextrema, &min, &max);

	if (e == 0) {
		out->word[0] = (int64_t)min;
		out->word[1] = (int64_t)max;
	}
	return e == 0;
}

/* Of one no event is let through, and of the others all. Another one may come between. */
static uint64_t events(const struct percpu_rate *of)
{
	return percpu_rate_allowed(of) + percpu_rate_refused(of);
}

static struct model_result check_rate(struct percpu_rate *of)
{
	uint64_t before = events(of), grown;
	bool allowed = percpu_rate_check(of);

	grown = events(of) - before;
	return (struct model_result){ allowed != (of != full_rate) || (grown != 1 && grown != 2),
				      MODEL_UNSET };
}

static struct model_result run_rate(const struct model_case *c)
{
	(void)c;
	return check_rate(rate);
}

static struct model_result run_fresh_rate(const struct model_case *c)
{
	(void)c;
	return check_rate(fresh_rate);
}

static struct model_result run_full_rate(const struct model_case *c)
{
	(void)c;
	return check_rate(full_rate);
}

bool stepping_read_values(const struct stepping_operation *o, struct model_lane *out)
{
	if (o->run == run_fcounter || o->run == run_fcounter_call)
		out->word[0] = (int64_t)percpu_fcounter_fetch(fcounter);
	else if (o->run == run_farray || o->run == run_farray_call)
		out->word[0] = (int64_t)percpu_fcounter_array_fetch(farray, 1);
	else if (o->run == run_gauge_add || o->run == run_gauge_sub)
		out->word[0] = percpu_gauge_fetch(gauge);
	else if (o->run == run_fgauge_add || o->run == run_fgauge_sub)
		out->word[0] = (int64_t)percpu_fgauge_fetch(fgauge);
	else if (o->run == run_extrema || o->run == run_extrema_call)
		return percpu_extrema_fetch(extrema, &out->word[0], &out->word[1]) == 0;
	else if (o->run == run_fextrema)
		return read_fextrema(out);
	else
		return false;
	return true;
}

bool stepping_is_shared(const struct stepping_operation *o)
{
	return percpu_pair_is_atomic() || (o->run != run_fgauge_add && o->run != run_fgauge_sub);
}

const struct stepping_operation stepping_values[] = {
	{ "counter of doubles, add", MEMORY_SUMS, MODEL_ADD_WHOLE, run_fcounter },
	{ "array of doubles, add", MEMORY_SUMS, MODEL_ADD_WHOLE, run_farray },
	{ "counter of doubles, called", MEMORY_SUMS, MODEL_ADD_WHOLE, run_fcounter_call },
	{ "array of doubles, called", MEMORY_SUMS, MODEL_ADD_WHOLE, run_farray_call },
	{ "gauge, add", MEMORY_SUMS, MODEL_ADD, run_gauge_add },
	{ "gauge, sub", MEMORY_SUMS, MODEL_ADD, run_gauge_sub },
	{ "gauge, inc", MEMORY_PRIVATE, MODEL_ADD, run_gauge_inc },
	{ "gauge, dec", MEMORY_PRIVATE, MODEL_ADD, run_gauge_dec },
	{ "gauge of doubles, add", MEMORY_SUMS, MODEL_ADD_WHOLE, run_fgauge_add },
	{ "gauge of doubles, sub", MEMORY_SUMS, MODEL_ADD_WHOLE, run_fgauge_sub },
	{ "approximate sum", MEMORY_PRIVATE, MODEL_ADD, run_approx_add },
	{ "approximate sum, moved", MEMORY_PRIVATE, MODEL_ADD, run_approx_move },
	{ "approximate sum, below a limit", MEMORY_PRIVATE, MODEL_ADD, run_approx_below },
	{ "histogram", MEMORY_PRIVATE, MODEL_ADD, run_record },
	{ "histogram of an array", MEMORY_PRIVATE, MODEL_ADD, run_record_at },
	{ "histogram of ticks", MEMORY_PRIVATE, MODEL_ADD, run_record_ticks },
	{ "histogram of ticks of an array", MEMORY_PRIVATE, MODEL_ADD, run_record_ticks_at },
	{ "extrema, observe", MEMORY_SUMS, MODEL_OBSERVE, run_extrema },
	{ "extrema, called", MEMORY_SUMS, MODEL_OBSERVE, run_extrema_call },
	{ "extrema of doubles", MEMORY_SUMS, MODEL_OBSERVE, run_fextrema },
	{ "rate, let through", MEMORY_PRIVATE, MODEL_ADD, run_rate },
	{ "rate, let through first", MEMORY_PRIVATE, MODEL_ADD, run_fresh_rate },
	{ "rate, refused", MEMORY_PRIVATE, MODEL_ADD, run_full_rate },
	{ NULL, MEMORY_SUMS, MODEL_ADD_WHOLE, NULL },
};
