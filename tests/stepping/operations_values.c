/* SPDX-License-Identifier: MIT */
/*
 * operations_values.c - operations on doubles and other values, in a shared region.
 */
#include "stepping.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include <percpu/calls.h>
#include <percpu/rate.h>
#include <percpu/timer.h>

#include "../support.h"
#include "memory/memory.h"

#define REACH (MODEL_OFF / 2) /* more than an add moves a word without moving its center */

static struct percpu_fcounter *fcounter;
static struct percpu_fcounter_array *farray;
static struct percpu_gauge *gauge;
static struct percpu_fgauge *fgauge;
static struct percpu_histogram *histogram, *tick_histogram;
static struct percpu_histogram *times, *tick_times; /* of timers */
static struct percpu_histogram_snapshot *seen, *seen_ticks;
static struct percpu_extrema *extrema, *fextrema;
static struct percpu_rate *rate, *fresh_rate, *full_rate;
static struct percpu_approx *approx, *narrow; /* each add to narrow moves a center */
static unsigned here;
static uint64_t allowed_before; /* by the rate, before the operation */

static void make_approx(struct percpu_region *r, int64_t batch, struct percpu_approx **ret)
{
	const struct percpu_approx_options o = { .size = sizeof(o), .batch = batch };

	assert_int_equal(percpu_pair_is_atomic() ? percpu_approx_create_in(r, &o, ret) :
						   percpu_approx_create(&o, ret),
			 0);
}

void stepping_make_values(struct percpu_region *r, unsigned cpu)
{
	struct percpu_histogram_options o = { .size = sizeof(o), .min = 1, .max = 8 };

	here = cpu;
	assert_int_equal(percpu_histogram_create_in(r, &o, &histogram), 0);
	assert_int_equal(percpu_rate_create_in(r, PERCPU_RATE_MAX, PERCPU_RATE_MAX, &rate), 0);
	assert_int_equal(percpu_rate_create_in(r, PERCPU_RATE_MAX, PERCPU_RATE_MAX, &fresh_rate),
			 0);
	assert_int_equal(percpu_rate_create_in(r, 1, PERCPU_RATE_MAX, &full_rate), 0);
	assert_int_equal(percpu_histogram_create_in(r, &o, &times), 0);
	o.ticks_per_unit = 1;
	assert_int_equal(percpu_histogram_create_in(r, &o, &tick_histogram), 0);
	assert_int_equal(percpu_histogram_create_in(r, &o, &tick_times), 0);
	assert_int_equal(percpu_histogram_snapshot_create(histogram, &seen), 0);
	assert_int_equal(percpu_histogram_snapshot_create(tick_histogram, &seen_ticks), 0);
	make_approx(r, 0, &approx);
	make_approx(r, REACH, &narrow);
	assert_int_equal(percpu_fcounter_create_in(r, &fcounter), 0);
	assert_int_equal(percpu_fcounter_array_create_in(r, 2, &farray), 0);
	assert_int_equal(percpu_pair_is_atomic() ? percpu_gauge_create_in(r, &gauge) :
						   percpu_gauge_create(&gauge),
			 0);
	assert_int_equal(percpu_pair_is_atomic() ? percpu_fgauge_create_in(r, &fgauge) :
						   percpu_fgauge_create(&fgauge),
			 0);
	assert_int_equal(percpu_extrema_create_in(r, 0, &extrema), 0);
	assert_int_equal(percpu_extrema_create_in(r, PERCPU_EXTREMA_DOUBLE, &fextrema), 0);
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

static struct model_result run_gauge_inc(const struct model_case *c)
{
	(void)c;
	percpu_gauge_inc_call(gauge);
	return done;
}

static struct model_result run_gauge_dec(const struct model_case *c)
{
	(void)c;
	percpu_gauge_dec_call(gauge);
	return done;
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
	(void)c;
	percpu_approx_add_call(approx, 1);
	return done;
}

static struct model_result run_approx_move(const struct model_case *c)
{
	for (int64_t n = c->n[0]; n < -REACH; n += REACH)
		percpu_approx_add_call(narrow, -REACH);
	percpu_approx_add_call(narrow, c->n[0] < 0 ? -REACH : c->n[0]);
	return done;
}

static struct model_result run_approx_below(const struct model_case *c)
{
	(void)c;
	return (struct model_result){ percpu_approx_add_below_call(approx, 1, INT64_C(1) << 40),
				      MODEL_UNSET };
}

static uint64_t *approx_lane(const struct percpu_approx *a, unsigned cpu)
{
	return (uint64_t *)(void *)(a->block.base + cpu * a->block.stride);
}

/* Store a value in this CPU's word that is off from its center. */
static void fill_approx(const struct percpu_approx *a, uint64_t off)
{
	uint64_t *lane = approx_lane(a, here);

	lane[0] = lane[1] + off;
}

/* Return the sum; or INT64_MIN, which is in no model, if a lane is too far from its center, or
 * if the middle is below that of the centers, or further above it than a center is moved. */
static int64_t read_approx(const struct percpu_approx *a)
{
	uint64_t centers = a->control->base;
	bool within = true;

	for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++) {
		within &= approx_lane(a, cpu)[0] - approx_lane(a, cpu)[1] + a->reach < a->span;
		centers += approx_lane(a, cpu)[1];
	}
	return within && a->control->middle - centers <= a->reach ? percpu_approx_fetch(a) :
								    INT64_MIN;
}

static struct model_result run_record(const struct model_case *c)
{
	(void)c;
	percpu_histogram_record_call(histogram, 3);
	return done;
}

static struct model_result run_record_at(const struct model_case *c)
{
	(void)c;
	percpu_histogram_record_at_call(histogram, 0, 3);
	return done;
}

static struct model_result run_record_ticks(const struct model_case *c)
{
	(void)c;
	percpu_histogram_record_ticks_call(tick_histogram, 3);
	return done;
}

static struct model_result run_record_ticks_at(const struct model_case *c)
{
	(void)c;
	percpu_histogram_record_ticks_at_call(tick_histogram, 0, 3);
	return done;
}

static struct model_result run_timer(const struct model_case *c)
{
	(void)c;
	percpu_timer_record((struct percpu_timer){ 0 }, times);
	return done;
}

static struct model_result run_tick_timer(const struct model_case *c)
{
	(void)c;
	percpu_timer_record((struct percpu_timer){ 0 }, tick_times);
	return done;
}

/* Return the count of times; or INT64_MIN, which is in no model, if the sum does not match it. */
static int64_t read_times(const struct percpu_histogram *h, struct percpu_histogram_snapshot *s)
{
	return percpu_histogram_fetch(h, 0, s) == 0 && (s->sum > 0) == (s->count > 0) ?
		       (int64_t)s->count :
		       INT64_MIN;
}

/* Return the count; or INT64_MIN, which is in no model, if an observation is not 3. */
static int64_t read_histogram(const struct percpu_histogram *h, struct percpu_histogram_snapshot *s)
{
	return percpu_histogram_fetch(h, 0, s) == 0 && s->sum == 3 * (double)s->count ?
		       (int64_t)s->count :
		       INT64_MIN;
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

/* The model's start: no observation exceeds it. */
static const struct model_lane nothing = { .word = { INT64_MAX, INT64_MIN } };

static void note_extrema(int e, const double *f, struct model_lane *out)
{
	if (e == -ENODATA)
		*out = nothing;
	else if (e != 0)
		out->word[0] = out->word[1] = e; /* in no model */
	else if (f != NULL)
		for (int i = 0; i < 2; i++)
			out->word[i] = (int64_t)f[i];
}

static void read_extrema(const struct stepping_operation *o, struct model_lane *out)
{
	double f[2];

	if (o->run == run_fextrema)
		note_extrema(percpu_extrema_fetch_double(fextrema, &f[0], &f[1]), f, out);
	else
		note_extrema(percpu_extrema_fetch(extrema, &out->word[0], &out->word[1]), NULL,
			     out);
}

/* Check the rate. full_rate must refuse the event, and the other rates must admit it. */
static struct model_result check_rate(struct percpu_rate *of)
{
	return (struct model_result){ percpu_rate_check(of) != (of != full_rate), MODEL_UNSET };
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

static struct percpu_rate_lane *rate_lane(const struct percpu_rate *of, unsigned cpu)
{
	const struct percpu_block *b = (const struct percpu_block *)of;

	return (struct percpu_rate_lane *)(void *)(b->base + cpu * b->stride);
}

static struct percpu_rate_control *rate_control(const struct percpu_rate *of)
{
	const struct percpu_block *b = (const struct percpu_block *)of;

	return (struct percpu_rate_control *)percpu_block_bias(b);
}

/* Take permissions from the rate, and let this CPU keep some of them. */
static void fill_rate(struct percpu_rate *of, uint32_t taken, uint32_t kept)
{
	struct timespec t;
	uint64_t ms;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
	for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++)
		rate_lane(of, cpu)->permissions =
			(ms ^ rate_control(of)->boot) << 16 | (cpu == here ? kept : 0);
	rate_control(of)->window = ms << 32 | taken;
	allowed_before = percpu_rate_allowed(of);
}

/* Read how many events were admitted and refused. Store INT64_MIN, which is in no model, if the
 * events admitted and the permissions left are more than there were. */
static void read_rate(const struct percpu_rate *of, struct model_lane *out)
{
	uint64_t used = percpu_rate_allowed(of) - allowed_before;

	out->word[of == full_rate] = (int64_t)percpu_rate_allowed(of);
	out->word[of != full_rate] = (int64_t)percpu_rate_refused(of);
	for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++)
		used += (uint16_t)rate_lane(of, cpu)->permissions;
	if (used > (uint32_t)rate_control(of)->window)
		out->word[0] = INT64_MIN;
}

bool stepping_is_reset(const struct stepping_operation *o)
{
	return o->run == run_extrema || o->run == run_extrema_call || o->run == run_fextrema;
}

void stepping_fill_values(const struct stepping_operation *o)
{
	if (o->run == run_approx_add || o->run == run_approx_below)
		fill_approx(approx, PERCPU_APPROX_BATCH - 1);
	else if (o->run == run_approx_move)
		fill_approx(narrow, REACH);
	else if (o->run == run_rate)
		fill_rate(rate, REACH, REACH);
	else if (o->run == run_fresh_rate)
		fill_rate(fresh_rate, 0, 0);
	else if (o->run == run_full_rate)
		fill_rate(full_rate, 1, 0);
	else if (stepping_is_reset(o))
		assert_int_equal(percpu_extrema_observe_call(extrema, 0) |
					 percpu_extrema_observe_double_call(fextrema, 0),
				 0);
}

static bool read_sum(const struct stepping_operation *o, int64_t *ret)
{
	if (o->run == run_fcounter || o->run == run_fcounter_call)
		*ret = (int64_t)percpu_fcounter_fetch(fcounter);
	else if (o->run == run_farray || o->run == run_farray_call)
		*ret = (int64_t)percpu_fcounter_array_fetch(farray, 1);
	else if (o->run == run_gauge_add || o->run == run_gauge_sub || o->run == run_gauge_inc)
		*ret = percpu_gauge_fetch(gauge);
	else if (o->run == run_gauge_dec) /* the model counts what was taken from the gauge */
		*ret = (int64_t)(0 - (uint64_t)percpu_gauge_fetch(gauge));
	else if (o->run == run_fgauge_add || o->run == run_fgauge_sub)
		*ret = (int64_t)percpu_fgauge_fetch(fgauge);
	else if (o->run == run_approx_add || o->run == run_approx_below)
		*ret = read_approx(approx);
	else if (o->run == run_approx_move)
		*ret = read_approx(narrow);
	else if (o->run == run_record || o->run == run_record_at)
		*ret = read_histogram(histogram, seen);
	else if (o->run == run_record_ticks || o->run == run_record_ticks_at)
		*ret = read_histogram(tick_histogram, seen_ticks);
	else if (o->run == run_timer)
		*ret = read_times(times, seen);
	else if (o->run == run_tick_timer)
		*ret = read_times(tick_times, seen_ticks);
	else
		return false;
	return true;
}

bool stepping_read_values(const struct stepping_operation *o, struct model_lane *out)
{
	if (o->run == run_rate)
		read_rate(rate, out);
	else if (o->run == run_fresh_rate)
		read_rate(fresh_rate, out);
	else if (o->run == run_full_rate)
		read_rate(full_rate, out);
	else if (stepping_is_reset(o))
		read_extrema(o, out);
	else
		return read_sum(o, &out->word[0]);
	return true;
}

void stepping_reset(const struct stepping_operation *o, struct model_lane *got,
		    struct model_lane *left)
{
	double f[2];

	memset(got, 0, sizeof(*got));
	*left = nothing;
	if (o->run == run_fextrema)
		note_extrema(percpu_extrema_fetch_reset_double(fextrema, &f[0], &f[1]), f, got);
	else
		note_extrema(percpu_extrema_fetch_reset(extrema, &got->word[0], &got->word[1]),
			     NULL, got);
}

bool stepping_is_shared(const struct stepping_operation *o)
{
	const bool pairs =
		o->run == run_gauge_add || o->run == run_gauge_sub || o->run == run_gauge_inc ||
		o->run == run_gauge_dec || o->run == run_fgauge_add || o->run == run_fgauge_sub ||
		o->run == run_approx_add || o->run == run_approx_below || o->run == run_approx_move;

	return percpu_pair_is_atomic() || !pairs;
}

const struct stepping_operation stepping_values[] = {
	{ "counter of doubles, add", MEMORY_SUMS, MODEL_ADD_WHOLE, run_fcounter },
	{ "array of doubles, add", MEMORY_SUMS, MODEL_ADD_WHOLE, run_farray },
	{ "counter of doubles, called", MEMORY_SUMS, MODEL_ADD_WHOLE, run_fcounter_call },
	{ "array of doubles, called", MEMORY_SUMS, MODEL_ADD_WHOLE, run_farray_call },
	{ "gauge, add", MEMORY_SUMS, MODEL_ADD, run_gauge_add },
	{ "gauge, sub", MEMORY_SUMS, MODEL_ADD, run_gauge_sub },
	{ "gauge, inc", MEMORY_SUMS, MODEL_COUNT, run_gauge_inc },
	{ "gauge, dec", MEMORY_SUMS, MODEL_COUNT, run_gauge_dec },
	{ "gauge of doubles, add", MEMORY_SUMS, MODEL_ADD_WHOLE, run_fgauge_add },
	{ "gauge of doubles, sub", MEMORY_SUMS, MODEL_ADD_WHOLE, run_fgauge_sub },
	{ "approximate sum", MEMORY_SUMS, MODEL_COUNT, run_approx_add },
	{ "approximate sum, moved", MEMORY_SUMS, MODEL_COUNT_OFF, run_approx_move },
	{ "approximate sum, below a limit", MEMORY_SUMS, MODEL_COUNT, run_approx_below },
	{ "histogram", MEMORY_SUMS, MODEL_COUNT, run_record },
	{ "histogram of an array", MEMORY_SUMS, MODEL_COUNT, run_record_at },
	{ "histogram of ticks", MEMORY_SUMS, MODEL_COUNT, run_record_ticks },
	{ "histogram of ticks of an array", MEMORY_SUMS, MODEL_COUNT, run_record_ticks_at },
	{ "timer", MEMORY_SUMS, MODEL_COUNT, run_timer },
	{ "timer of ticks", MEMORY_SUMS, MODEL_COUNT, run_tick_timer },
	{ "extrema, observe", MEMORY_SUMS, MODEL_OBSERVE, run_extrema },
	{ "extrema, called", MEMORY_SUMS, MODEL_OBSERVE, run_extrema_call },
	{ "extrema of doubles", MEMORY_SUMS, MODEL_OBSERVE, run_fextrema },
	{ "rate, let through", MEMORY_SUMS, MODEL_COUNT, run_rate },
	{ "rate, let through first", MEMORY_SUMS, MODEL_COUNT, run_fresh_rate },
	{ "rate, refused", MEMORY_SUMS, MODEL_COUNT, run_full_rate },
	{ NULL, MEMORY_SUMS, MODEL_ADD_WHOLE, NULL },
};
