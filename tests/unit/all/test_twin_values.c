/* SPDX-License-Identifier: MIT */
/*
 * test_twin_values.c - calls that objects of several kinds have: adds in all forms, reads,
 * resets, values that are no numbers, extremes of words and of doubles, rules, flags.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include <percpu/calls.h>

#include "model.h"
#include "owners/participant.h"
#include "../root_file.h"
#include "twins.h"

#define LAST (TWIN_N - 1)
#define POISON ((void *)(uintptr_t)0x5555)

enum form { ADD, ADD_SLOW, ADD_CALL, SUB, SUB_CALL, INC, INC_CALL, DEC, DEC_CALL, FORMS };

static enum twin twin_of(void **state)
{
	return (enum twin)(uintptr_t)*state;
}

static int change_counter(enum form f, struct percpu_counter *c, int64_t n)
{
	switch (f) {
	case ADD:
		return percpu_counter_add(c, n), 0;
	case ADD_SLOW:
		return percpu_counter_add_slow(c, n), 0;
	case ADD_CALL:
		return percpu_counter_add_call(c, n), 0;
	case INC:
		return percpu_counter_inc(c), 0;
	case INC_CALL:
		return percpu_counter_inc_call(c), 0;
	case DEC:
		return percpu_counter_dec(c), 0;
	case DEC_CALL:
		return percpu_counter_dec_call(c), 0;
	default:
		return -ENOSYS;
	}
}

static int change_gauge(enum form f, struct percpu_gauge *g, int64_t n)
{
	switch (f) {
	case ADD:
		return percpu_gauge_add(g, n), 0;
	case ADD_CALL:
		return percpu_gauge_add_call(g, n), 0;
	case SUB:
		return percpu_gauge_sub(g, n), 0;
	case SUB_CALL:
		return percpu_gauge_sub_call(g, n), 0;
	case INC:
		return percpu_gauge_inc(g), 0;
	case INC_CALL:
		return percpu_gauge_inc_call(g), 0;
	case DEC:
		return percpu_gauge_dec(g), 0;
	case DEC_CALL:
		return percpu_gauge_dec_call(g), 0;
	default:
		return -ENOSYS;
	}
}

static int add_slow(enum twin t, union twin_handle h, int64_t n)
{
	switch (t) {
	case TWIN_COUNTERS:
		return percpu_counter_array_add_slow(h.counters, LAST, n), 0;
	case TWIN_COMPACT:
		return percpu_compact_add_slow(h.compact, LAST, n), 0;
	case TWIN_APPROX:
		return percpu_approx_add_slow(h.approx, n), 0;
	default:
		return -ENOSYS;
	}
}

static int add_call(enum twin t, union twin_handle h, int64_t n)
{
	switch (t) {
	case TWIN_COUNTERS:
		return percpu_counter_array_add_call(h.counters, LAST, n), 0;
	case TWIN_COMPACT:
		return percpu_compact_add_call(h.compact, LAST, n), 0;
	case TWIN_APPROX:
		return percpu_approx_add_call(h.approx, n), 0;
	default:
		return -ENOSYS;
	}
}

/* Add a double. */
static int add_double(enum twin t, enum form f, union twin_handle h, double n)
{
	switch (t) {
	case TWIN_FCOUNTER:
		return f == ADD	     ? percpu_fcounter_add(h.fcounter, n) :
		       f == ADD_SLOW ? percpu_fcounter_add_slow(h.fcounter, n) :
		       f == ADD_CALL ? percpu_fcounter_add_call(h.fcounter, n) :
				       -ENOSYS;
	case TWIN_FCOUNTERS:
		return f == ADD	     ? percpu_fcounter_array_add(h.fcounters, LAST, n) :
		       f == ADD_SLOW ? percpu_fcounter_array_add_slow(h.fcounters, LAST, n) :
		       f == ADD_CALL ? percpu_fcounter_array_add_call(h.fcounters, LAST, n) :
				       -ENOSYS;
	case TWIN_FGAUGE:
		return f == ADD	     ? percpu_fgauge_add(h.fgauge, n) :
		       f == ADD_CALL ? percpu_fgauge_add_call(h.fgauge, n) :
		       f == SUB	     ? percpu_fgauge_sub(h.fgauge, n) :
		       f == SUB_CALL ? percpu_fgauge_sub_call(h.fgauge, n) :
				       -ENOSYS;
	default:
		return -ENOSYS;
	}
}

static bool is_of_doubles(enum twin t)
{
	return t == TWIN_FCOUNTER || t == TWIN_FCOUNTERS || t == TWIN_FGAUGE;
}

/* Add n by a form. Returns -ENOSYS if there is no such form. */
static int change(enum twin t, enum form f, union twin_handle h, int n)
{
	if (t == TWIN_COUNTER)
		return change_counter(f, h.counter, n);
	if (t == TWIN_GAUGE)
		return change_gauge(f, h.gauge, n);
	if (is_of_doubles(t))
		return add_double(t, f, h, n);
	return f == ADD	     ? twin_put(t, h, n) :
	       f == ADD_SLOW ? add_slow(t, h, n) :
	       f == ADD_CALL ? add_call(t, h, n) :
			       -ENOSYS;
}

/* Return by how much the form changes the value. */
static int64_t by(enum form f, int n)
{
	return f == INC || f == INC_CALL ? 1 :
	       f == DEC || f == DEC_CALL ? -1 :
	       f == SUB || f == SUB_CALL ? -n :
					   n;
}

static union twin_handle made(enum twin t)
{
	union twin_handle h = { POISON };

	assert_int_equal(twin_create(t, &h), 0);
	return h;
}

/* Each form adds the same with a sequence and without. */
static void all_forms_add_as_much(void **state)
{
	const enum twin t = twin_of(state);
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER }, *area;
	static const int numbers[] = { 6, 0, -5 };
	union twin_handle h = made(t);
	int64_t sum = 0;
	unsigned found = 0;
	int e;

	for (int without = 0; without < 2; without++)
		for (enum form f = 0; f < FORMS; f++)
			for (unsigned k = 0; k < 3; k++) {
				const int n = numbers[k];

				area = without ? model_set_area(&none) : NULL;
				e = change(t, f, h, n);
				if (without)
					model_set_area(area);
				if (e == -ENOSYS)
					continue;
				assert_int_equal(e, 0);
				sum += by(f, n);
				assert_int_equal(twin_get(t, h), sum);
				found++;
			}
	assert_true(found >= 12);
	twin_destroy(t, h);
}

/* Reset by a call that returns the value before. */
static double fetch_zero(enum twin t, union twin_handle h, size_t i)
{
	switch (t) {
	case TWIN_COUNTER:
		return (double)percpu_counter_fetch_zero(h.counter);
	case TWIN_COUNTERS:
		return (double)percpu_counter_array_fetch_zero(h.counters, i);
	case TWIN_FCOUNTER:
		return percpu_fcounter_fetch_zero(h.fcounter);
	case TWIN_FCOUNTERS:
		return percpu_fcounter_array_fetch_zero(h.fcounters, i);
	case TWIN_COMPACT:
		return (double)percpu_compact_fetch_zero(h.compact, i);
	default:
		return (double)percpu_approx_fetch_zero(h.approx);
	}
}

static void resets_return_what_there_was(void **state)
{
	const enum twin t = twin_of(state);
	union twin_handle h = made(t);

	assert_int_equal(twin_put(t, h, 7), 0);
	assert_true(fetch_zero(t, h, LAST) == 7);
	assert_int_equal(twin_get(t, h), 0);
	assert_true(fetch_zero(t, h, LAST) == 0);
	assert_int_equal(twin_put(t, h, 3), 0);
	assert_int_equal(twin_get(t, h), 3);
	assert_true(fetch_zero(t, h, LAST) == 3);
	assert_true(fetch_zero(t, h, LAST) == 0);
	twin_destroy(t, h);
}

/* Arrays. */

static void add_at(enum twin t, union twin_handle h, size_t i, int n)
{
	if (t == TWIN_COUNTERS)
		percpu_counter_array_add(h.counters, i, n);
	else if (t == TWIN_FCOUNTERS)
		assert_int_equal(percpu_fcounter_array_add(h.fcounters, i, n), 0);
	else
		percpu_compact_add(h.compact, i, n);
}

static double fetch_at(enum twin t, union twin_handle h, size_t i)
{
	return t == TWIN_COUNTERS  ? (double)percpu_counter_array_fetch(h.counters, i) :
	       t == TWIN_FCOUNTERS ? percpu_fcounter_array_fetch(h.fcounters, i) :
				     (double)percpu_compact_fetch(h.compact, i);
}

static void zero_at(enum twin t, union twin_handle h, size_t i)
{
	if (t == TWIN_COUNTERS)
		percpu_counter_array_zero(h.counters, i);
	else if (t == TWIN_FCOUNTERS)
		percpu_fcounter_array_zero(h.fcounters, i);
	else
		percpu_compact_zero(h.compact, i);
}

static void fetch_all(enum twin t, union twin_handle h, double *out)
{
	uint64_t words[TWIN_N + 1] = { [TWIN_N] = 77 };

	out[TWIN_N] = 77;
	if (t == TWIN_FCOUNTERS)
		percpu_fcounter_array_fetch_all(h.fcounters, out);
	else if (t == TWIN_COUNTERS)
		percpu_counter_array_fetch_all(h.counters, words);
	else
		percpu_compact_fetch_all(h.compact, words);
	for (unsigned i = 0; i < TWIN_N + 1 && t != TWIN_FCOUNTERS; i++)
		out[i] = (double)words[i];
}

static void expect_all(enum twin t, union twin_handle h, const double *wanted)
{
	double all[TWIN_N + 1];

	fetch_all(t, h, all);
	for (unsigned i = 0; i < TWIN_N; i++) {
		assert_true(all[i] == wanted[i]);
		assert_true(fetch_at(t, h, i) == wanted[i]);
	}
	assert_true(all[TWIN_N] == 77);
}

static void each_of_many_is_apart(void **state)
{
	const enum twin t = twin_of(state);
	const size_t beyond[] = { TWIN_N, SIZE_MAX, SIZE_MAX / 8 + 1 };
	struct twin_place alone = { NULL, NULL };
	union twin_handle h;
	double wanted[TWIN_N] = { 0 };

	assert_int_equal(percpu_region_create(NULL, &alone.r), 0);
	assert_int_equal(twin_create_in(t, &alone, &h), 0);
	for (unsigned i = 0; i < TWIN_N; i++) {
		add_at(t, h, i, 10 + (int)i);
		wanted[i] = 10 + i;
		expect_all(t, h, wanted);
	}
	zero_at(t, h, 1);
	wanted[1] = 0;
	expect_all(t, h, wanted);
	assert_true(fetch_zero(t, h, 2) == 12);
	wanted[2] = 0;
	expect_all(t, h, wanted);
	add_at(t, h, TWIN_N, 3); /* not checked; the cell is not in use */
	for (unsigned i = 0; i < 3; i++) {
		assert_true(fetch_at(t, h, beyond[i]) == 0);
		assert_true(fetch_zero(t, h, beyond[i]) == 0);
		zero_at(t, h, beyond[i]);
	}
	expect_all(t, h, wanted);
	twin_destroy(t, h);
	percpu_region_close(alone.r);
}

/* Doubles. */

static void what_is_no_number_is_refused(void **state)
{
	const double odd[] = { NAN, -NAN, INFINITY, -INFINITY, 0x1p1000, -0x1p1000, 0x1.fp1023 };
	const enum twin t = twin_of(state);
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER }, *area;
	union twin_handle h = made(t);
	int e, wanted;

	assert_int_equal(twin_put(t, h, 3), 0);
	for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		for (enum form f = 0; f < FORMS; f++) {
			wanted = i < 4 ? -EDOM : -ERANGE;
			e = add_double(t, f, h, odd[i]);
			assert_true(e == wanted || e == -ENOSYS);
			area = model_set_area(&none);
			e = add_double(t, f, h, odd[i]);
			model_set_area(area);
			assert_true(e == wanted || e == -ENOSYS);
			if (t == TWIN_FGAUGE)
				assert_int_equal(percpu_fgauge_set(h.fgauge, odd[i]), wanted);
		}
	assert_int_equal(twin_get(t, h), 3);
	twin_destroy(t, h);
}

/* Extremes. */

static int observe(enum twin t, union twin_handle h, int n)
{
	return t == TWIN_EXTREMA ? percpu_extrema_observe(h.extrema, n) :
				   percpu_extrema_observe_double(h.extrema, n);
}

static int observe_call(enum twin t, union twin_handle h, int n)
{
	return t == TWIN_EXTREMA ? percpu_extrema_observe_call(h.extrema, n) :
				   percpu_extrema_observe_double_call(h.extrema, n);
}

/* Fetch both extremes as words, by the call for this kind. */
static int fetch_both(enum twin t, union twin_handle h, bool reset, int *ret_min, int *ret_max)
{
	int64_t min = 77, max = 77;
	double dmin = 77, dmax = 77;
	const bool words = t == TWIN_EXTREMA;
	int e = words && reset ?
			percpu_extrema_fetch_reset(h.extrema, ret_min != NULL ? &min : NULL,
						   ret_max != NULL ? &max : NULL) :
		words ? percpu_extrema_fetch(h.extrema, ret_min != NULL ? &min : NULL,
					     ret_max != NULL ? &max : NULL) :
		reset ? percpu_extrema_fetch_reset_double(h.extrema, ret_min != NULL ? &dmin : NULL,
							  ret_max != NULL ? &dmax : NULL) :
			percpu_extrema_fetch_double(h.extrema, ret_min != NULL ? &dmin : NULL,
						    ret_max != NULL ? &dmax : NULL);

	if (ret_min != NULL)
		*ret_min = words ? (int)min : (int)dmin;
	if (ret_max != NULL)
		*ret_max = words ? (int)max : (int)dmax;
	return e;
}

static void expect_extremes(enum twin t, union twin_handle h, bool reset, int min, int max)
{
	int a = 0, b = 0;

	assert_int_equal(fetch_both(t, h, reset, &a, &b), 0);
	assert_int_equal(a, min);
	assert_int_equal(b, max);
}

static void extremes_are_of_all_and_reset(void **state)
{
	const enum twin t = twin_of(state);
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER }, *area;
	union twin_handle h = made(t);
	int a, b;

	for (bool reset = false;; reset = true) {
		assert_int_equal(fetch_both(t, h, reset, &a, &b), -ENODATA);
		assert_true(a == 77 && b == 77);
		if (reset)
			break;
	}
	assert_int_equal(observe(t, h, -3), 0);
	expect_extremes(t, h, false, -3, -3);
	assert_int_equal(observe_call(t, h, 5), 0);
	expect_extremes(t, h, false, -3, 5);
	area = model_set_area(&none);
	assert_int_equal(observe(t, h, -8), 0);
	assert_int_equal(observe(t, h, 9), 0);
	model_set_area(area);
	assert_int_equal(observe(t, h, 0), 0);
	expect_extremes(t, h, false, -8, 9);
	assert_int_equal(fetch_both(t, h, false, NULL, &b), 0);
	assert_int_equal(b, 9);
	assert_int_equal(fetch_both(t, h, true, &a, NULL), 0);
	assert_int_equal(a, -8);
	assert_int_equal(fetch_both(t, h, false, &a, &b), -ENODATA);
	assert_int_equal(observe(t, h, 2), 0);
	expect_extremes(t, h, true, 2, 2);
	assert_int_equal(observe(t, h, 4), 0);
	assert_int_equal(percpu_extrema_reset(h.extrema), 0);
	assert_int_equal(fetch_both(t, h, true, &a, &b), -ENODATA);
	assert_int_equal(fetch_both(t, h, false, NULL, NULL), -EINVAL);
	assert_int_equal(fetch_both(t, h, true, NULL, NULL), -EINVAL);
	twin_destroy(t, h);
}

static void calls_of_the_other_kind_are_refused(void **state)
{
	const enum twin t = twin_of(state), u = t == TWIN_EXTREMA ? TWIN_FEXTREMA : TWIN_EXTREMA;
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER }, *area;
	union twin_handle h = made(t);
	int a, b;

	assert_int_equal(observe(t, h, 4), 0);
	assert_int_equal(observe(u, h, 9), -EINVAL);
	assert_int_equal(observe_call(u, h, 9), -EINVAL);
	area = model_set_area(&none);
	assert_int_equal(observe(u, h, 9), -EINVAL);
	model_set_area(area);
	for (int reset = 0; reset < 2; reset++) {
		assert_int_equal(fetch_both(u, h, reset != 0, &a, &b), -EINVAL);
		assert_true(a == 77 && b == 77);
	}
	expect_extremes(t, h, true, 4, 4);
	twin_destroy(t, h);
}

/* Owned gauges, by each rule. */

static struct twin_place place;

static int begin(void **state)
{
	const unsigned flags = CREATE | PERCPU_REGION_OWNERS;

	(void)state;
	return percpu_region_open(path, flags, NULL, &place.r) ||
	       percpu_owners_open(place.r, 15, &place.o);
}

static int end(void **state)
{
	(void)state;
	percpu_owners_detach(place.o);
	percpu_region_close(place.r);
	return unlink(path);
}

/* Make a gauge in one of the three ways. */
static int make_owned(enum twin t, int way, int rule, uint64_t *key, union twin_handle *ret)
{
	const enum percpu_owned_rule r = (enum percpu_owned_rule)rule;
	int e;

	if (t == TWIN_OWNED)
		e = way == 0 ?
			    percpu_owned_gauge_create_in(place.o, r, &ret->owned) :
		    way == 1 ?
			    percpu_owned_gauge_open(place.o, 1 + (unsigned)rule, r, &ret->owned) :
			    percpu_owned_gauge_attach(place.o, *key, &ret->owned);
	else
		e = way == 0 ?
			    percpu_owned_fgauge_create_in(place.o, r, &ret->fowned) :
		    way == 1 ?
			    percpu_owned_fgauge_open(place.o, 1 + (unsigned)rule, r, &ret->fowned) :
			    percpu_owned_fgauge_attach(place.o, *key, &ret->fowned);
	if (e == 0)
		*key = twin_key(t, *ret);
	return e;
}

static int owned_add(enum twin t, union twin_handle h, int n)
{
	return t == TWIN_OWNED ? percpu_owned_gauge_add(h.owned, n) :
				 percpu_owned_fgauge_add(h.fowned, n);
}

static int owned_fetch(enum twin t, union twin_handle h, enum percpu_owned_of whose, int *ret)
{
	int64_t n = 77;
	double d = 77;
	int e = t == TWIN_OWNED ? percpu_owned_gauge_fetch(h.owned, whose, &n) :
				  percpu_owned_fgauge_fetch(h.fowned, whose, &d);

	*ret = t == TWIN_OWNED ? (int)n : (int)d;
	return e;
}

static void use_owned(enum twin t, union twin_handle h, int rule)
{
	int got;

	assert_int_equal(rule, twin_told(t, h));
	assert_int_equal(twin_put(t, h, -4), 0);
	assert_int_equal(twin_get(t, h), -4);
	assert_int_equal(owned_add(t, h, 6), rule == PERCPU_OWNED_RECENT ? -EINVAL : 0);
	assert_int_equal(twin_get(t, h), rule == PERCPU_OWNED_RECENT ? -4 : 2);
	assert_int_equal(owned_fetch(t, h, PERCPU_OWNED_LIVING, &got), 0);
	assert_int_equal(got, twin_get(t, h));
	assert_int_equal(owned_fetch(t, h, (enum percpu_owned_of)9, &got), -EINVAL);
	assert_int_equal(got, 77);
}

static void rules_are_kept(void **state)
{
	const enum twin t = twin_of(state);
	union twin_handle h[3] = { { POISON }, { POISON }, { POISON } }, none = { POISON };
	uint64_t key = 0;

	for (int rule = PERCPU_OWNED_SUM; rule <= PERCPU_OWNED_RECENT; rule++) {
		for (int way = 0; way < 3; way++) {
			assert_int_equal(make_owned(t, way, rule, &key, &h[way]), 0);
			use_owned(t, h[way], rule);
		}
		twin_destroy(t, h[0]);
		twin_detach(t, h[1]);
		twin_detach(t, h[2]);
	}
	for (int way = 0; way < 2; way++) {
		assert_int_equal(make_owned(t, way, 9, &key, &none), -EINVAL);
		assert_ptr_equal(none.any, POISON);
	}
}

/* At the limits of a call: a thread that cannot run sequences gets the same results. */

#define NO_MORE (-ENOSYS) /* after the last case */

static int approx_edge(const struct percpu_approx *a, unsigned i)
{
	static const int64_t cases[][2] = { { 0, 0 },
					    { 0, -5 },
					    { 1, 0 },
					    { 1, -5 },
					    { 10, 9 },
					    { 10, 10 },
					    { 0, 10 },
					    { 0, 9 },
					    { 0, 0 },
					    { 0, INT64_MIN },
					    { -3, INT64_MIN },
					    { INT64_MAX, INT64_MAX },
					    { INT64_MIN + 1, 0 } };
	int n = 0;

	if (i < sizeof(cases) / sizeof(cases[0]))
		return percpu_approx_add_below(a, cases[i][0], cases[i][1]);
	if (i != sizeof(cases) / sizeof(cases[0]))
		return NO_MORE;
	percpu_approx_zero(a);
	while (n < 10000 && percpu_approx_add_below(a, 1, 200) == 0)
		n++;
	return n;
}

static int stats_edge(const struct percpu_stats *s, unsigned i)
{
	static const uint64_t n[PERCPU_STATS_MAX_COMMIT + 1] = { 0, 1, 2 };
	static const struct {
		size_t i, word, first, words;
	} cases[] = { { LAST, 1, 1, 2 },
		      { LAST, 0, 0, 3 },
		      { LAST, 0, 0, 0 },
		      { LAST, 3, 0, 0 },
		      { LAST, 3, 0, 1 },
		      { LAST, 2, 0, 2 },
		      { TWIN_N, 0, 0, 1 },
		      { TWIN_N, 0, 0, 2 },
		      { SIZE_MAX, 1, 1, 2 },
		      { LAST, SIZE_MAX, 1, 2 },
		      { LAST, SIZE_MAX, 0, 1 },
		      { LAST, 0, 0, PERCPU_STATS_MAX_COMMIT },
		      { LAST, 0, 0, PERCPU_STATS_MAX_COMMIT + 1 } };

	return i < sizeof(cases) / sizeof(cases[0]) ?
		       percpu_stats_update(s, cases[i].i, cases[i].word, n + cases[i].first,
					   cases[i].words) :
		       NO_MORE;
}

static int ring_edge(const struct percpu_ring *r, unsigned i)
{
	static const unsigned char bytes[PERCPU_RING_MAX_RECORD] = { 1 };
	const size_t longest = percpu_ring_longest(r);
	const size_t sizes[] = { 0, 1, 7, 8, 9, longest, longest + 1, SIZE_MAX };
	int n = 0;

	if (i < sizeof(sizes) / sizeof(sizes[0]))
		return percpu_ring_put(r, bytes, sizes[i]);
	if (i != sizeof(sizes) / sizeof(sizes[0]))
		return NO_MORE;
	while (n < 1000 && percpu_ring_put(r, bytes, 8) == 0)
		n++;
	return n;
}

/* A ring that refuses a record is full to its last word. */
static int full_ring_edge(const struct percpu_ring *r, unsigned i)
{
	uint64_t word = 0;
	int n = 0;

	if (i != 0)
		return ring_edge(r, i - 1);
	while (n < 1000 && percpu_ring_put(r, &word, sizeof(word)) == 0)
		n++;
	return n;
}

static int rate_edge(struct percpu_rate *r, unsigned i)
{
	int n = 0;

	if (i > 2)
		return NO_MORE;
	if (i > 0)
		return percpu_rate_check(r);
	while (n < 10000 && percpu_rate_check(r))
		n++;
	return n;
}

static int double_edge(enum twin t, union twin_handle h, unsigned i)
{
	static const double cases[] = { 0,	  -0.0,	  3,	    NAN,       INFINITY, -INFINITY,
					0x1p1000, 0x1p-3, 0x1p-200, -0x1p1000, 0x1p60,	 -0x1p60 };
	double v;

	if (i >= sizeof(cases) / sizeof(cases[0]))
		return NO_MORE;
	v = cases[i];
	switch (t) {
	case TWIN_LATEST:
		return percpu_latest_set(h.latest, v < 1 ? v : v > 4 ? INFINITY : v);
	case TWIN_FEXTREMA:
		return percpu_extrema_observe_double(h.extrema, v > 0x1p40 ? INFINITY : v);
	case TWIN_HISTOGRAM:
		return percpu_histogram_record_at(h.histogram, LAST, v), 0;
	default:
		return add_double(t, ADD, h, v);
	}
}

static int integer_edge(enum twin t, union twin_handle h, unsigned i)
{
	static const int64_t cases[] = { 0, 1, -1, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 0 };

	if (i >= sizeof(cases) / sizeof(cases[0]))
		return NO_MORE;
	switch (t) {
	case TWIN_COUNTER:
		return percpu_counter_add(h.counter, cases[i]), 0;
	case TWIN_COUNTERS:
		return percpu_counter_array_add(h.counters, LAST, cases[i]), 0;
	case TWIN_GAUGE:
		return percpu_gauge_add(h.gauge, cases[i]), 0;
	case TWIN_COMPACT:
		return percpu_compact_add(h.compact, LAST, cases[i]), 0;
	default:
		return percpu_extrema_observe(h.extrema, cases[i]);
	}
}

static int edge(enum twin t, union twin_handle h, unsigned i)
{
	switch (t) {
	case TWIN_APPROX:
		return approx_edge(h.approx, i);
	case TWIN_STATS:
	case TWIN_WHOLE_STATS:
		return stats_edge(h.stats, i);
	case TWIN_RING:
		return ring_edge(h.ring, i);
	case TWIN_KEEPING_RING:
		return full_ring_edge(h.ring, i);
	case TWIN_RATE:
		return rate_edge(h.rate, i);
	case TWIN_LATEST:
	case TWIN_FEXTREMA:
	case TWIN_HISTOGRAM:
	case TWIN_FCOUNTER:
	case TWIN_FCOUNTERS:
	case TWIN_FGAUGE:
		return double_edge(t, h, i);
	default:
		return integer_edge(t, h, i);
	}
}

static void edges_are_the_same_without_sequences(void **state)
{
	const enum twin t = twin_of(state);
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER }, *area;
	union twin_handle with = made(t), without = made(t);
	int e = 0, also;

	test_tier();
	assert_true(test_pin(0, test_cpu(0)));
	for (unsigned i = 0; e != NO_MORE; i++) {
		e = edge(t, with, i);
		area = model_set_area(&none);
		also = edge(t, without, i);
		model_set_area(area);
		if (also != e)
			print_message("case %u: %d, and %d without sequences\n", i, e, also);
		assert_int_equal(also, e);
		assert_int_equal(twin_get(t, without), twin_get(t, with));
	}
	test_unpin(0);
	twin_destroy(t, with);
	twin_destroy(t, without);
}

/* Flags. */

/* Make the object in one of the ways, with these flags. */
static int make_with(enum twin t, int way, unsigned flags, uint64_t key, union twin_handle *ret)
{
	switch (t) {
	case TWIN_RWLOCK:
		return way == 0 ? percpu_rwlock_create(flags, &ret->rwlock) :
		       way == 1 ? percpu_rwlock_create_in(place.o, flags, &ret->rwlock) :
		       way == 2 ? percpu_rwlock_open(place.o, 1, flags, &ret->rwlock) :
				  percpu_rwlock_attach(place.o, key, flags, &ret->rwlock);
	case TWIN_GRACE:
		return way == 0 ? percpu_grace_create(flags, &ret->grace) :
		       way == 1 ? percpu_grace_create_in(place.o, flags, &ret->grace) :
		       way == 2 ? percpu_grace_open(place.o, 1, flags, &ret->grace) :
				  percpu_grace_attach(place.o, key, flags, &ret->grace);
	case TWIN_STATS:
		return way == 0 ? percpu_stats_create(8, 1, flags, &ret->stats) :
		       way == 1 ? percpu_stats_create_in(place.r, 8, 1, flags, &ret->stats) :
		       way == 2 ? percpu_stats_open(place.r, 1, 8, 1, flags, &ret->stats) :
				  percpu_stats_attach(place.r, key, 8, 1, flags, &ret->stats);
	case TWIN_EXTREMA:
		return way == 0 ? percpu_extrema_create(flags, &ret->extrema) :
		       way == 1 ? percpu_extrema_create_in(place.r, flags, &ret->extrema) :
		       way == 2 ? percpu_extrema_open(place.r, 1, flags, &ret->extrema) :
				  percpu_extrema_attach(place.r, key, &ret->extrema);
	default:
		return way == 0 ? percpu_ring_create(1024, flags, &ret->ring) :
		       way == 1 ? percpu_ring_create_in(place.r, 1024, flags, &ret->ring) :
		       way == 2 ? percpu_ring_open(place.r, 1, 1024, flags, &ret->ring) :
				  percpu_ring_attach(place.r, key, &ret->ring);
	}
}

static unsigned flag_of(enum twin t)
{
	return t == TWIN_RWLOCK ? PERCPU_RWLOCK_DEBUG :
	       t == TWIN_GRACE	? PERCPU_GRACE_DEBUG :
	       t == TWIN_STATS	? PERCPU_STATS_WHOLE :
	       t == TWIN_RING	? PERCPU_RING_DEBUG :
				  PERCPU_EXTREMA_DOUBLE;
}

/* Return whether the handle has the flag. */
static bool has_flag(enum twin t, union twin_handle h)
{
	return t == TWIN_RWLOCK || t == TWIN_GRACE ?
		       ((struct percpu_participants *)h.any)->checked &&
			       ((struct percpu_participants *)h.any)->in.cell == NULL :
	       t == TWIN_STATS ? (h.stats->flags & PERCPU_STATS_WHOLE) != 0 :
	       t == TWIN_RING  ? h.ring->debug != 0 :
				 percpu_extrema_is_double(h.extrema) != 0;
}

static void flags_are_kept_and_others_refused(void **state)
{
	const enum twin t = twin_of(state);
	union twin_handle h;
	uint64_t key = 0;

	for (int flagged = 0; flagged < 2; flagged++) {
		for (int way = 0; way < 4; way++) {
			const bool ignores = t == TWIN_RING && way == 3; /* it takes no flags */

			h.any = POISON;
			if (way < 3 || t == TWIN_RWLOCK || t == TWIN_GRACE || t == TWIN_STATS)
				assert_int_equal(make_with(t, way, 0x100, key, &h), -EINVAL);
			assert_ptr_equal(h.any, POISON);
			assert_int_equal(make_with(t, way, flagged ? flag_of(t) : 0, key, &h), 0);
			assert_int_equal(has_flag(t, h), flagged && !ignores);
			key = way == 2 ? twin_key(t, h) : key;
			if (way < 2)
				twin_destroy(t, h);
			else
				twin_detach(t, h);
		}
		assert_int_equal(percpu_region_set_root(place.r, 1, key, 0), 0);
	}
}

/* Everything that calls return of an object, as numbers. */
struct readings {
	size_t n;
	double of[600];
};

static void note(struct readings *r, double v)
{
	assert_true(r->n < sizeof(r->of) / sizeof(r->of[0]));
	r->of[r->n++] = v;
}

static void note_stats(struct percpu_stats *s, struct readings *r)
{
	enum { WORDS = 3 };
	uint64_t all[WORDS * TWIN_N], at_once[WORDS * TWIN_N];

	assert_int_equal(s->words, WORDS);
	assert_int_equal(percpu_stats_fetch(s, 0, TWIN_N, all), 0);
	assert_int_equal(percpu_stats_snapshot(s, 0, TWIN_N, at_once), 0);
	for (size_t i = 0; i < WORDS * TWIN_N; i++) {
		note(r, (double)all[i]);
		note(r, (double)at_once[i]);
	}
}

static void note_extrema(enum twin t, const struct percpu_extrema *x, struct readings *r)
{
	int64_t min = 77, max = 77;
	double dmin = 77, dmax = 77;

	if (t == TWIN_EXTREMA)
		note(r, percpu_extrema_fetch(x, &min, &max));
	else
		note(r, percpu_extrema_fetch_double(x, &dmin, &dmax));
	note(r, (double)min + dmin);
	note(r, (double)max + dmax);
}

static void note_histogram(const struct percpu_histogram *h, size_t i, struct readings *r)
{
	struct percpu_histogram_snapshot *s;

	assert_int_equal(percpu_histogram_snapshot_create(h, &s), 0);
	assert_int_equal(percpu_histogram_fetch(h, i, s), 0);
	note(r, (double)s->count);
	note(r, s->sum);
	note(r, (double)s->refused);
	for (uint32_t b = 0; b < s->n; b++) {
		note(r, (double)s->bucket[b].count);
		note(r, (double)s->bucket[b].ticks);
		note(r, s->bucket[b].sum);
	}
	percpu_histogram_snapshot_destroy(s);
}

static void note_approx(const struct percpu_approx *a, struct readings *r)
{
	const int64_t off = percpu_approx_estimate(a) - percpu_approx_fetch(a);

	assert_true((uint64_t)(off < 0 ? -off : off) <= percpu_approx_bound(a));
	note(r, (double)percpu_approx_fetch(a));
	note(r, percpu_approx_compare(a, 0));
	note(r, percpu_approx_compare(a, 1));
	note(r, percpu_approx_compare(a, -1));
	note(r, (double)percpu_approx_batch(a));
}

static void note_all(enum twin t, union twin_handle h, struct readings *r)
{
	uint64_t all[TWIN_N] = { 0 };
	double doubles[TWIN_N] = { 0 };

	r->n = 0;
	note(r, (double)twin_get(t, h));
	note(r, (double)twin_told(t, h));
	if (t == TWIN_COUNTERS)
		percpu_counter_array_fetch_all(h.counters, all);
	else if (t == TWIN_COMPACT)
		percpu_compact_fetch_all(h.compact, all);
	else if (t == TWIN_FCOUNTERS)
		percpu_fcounter_array_fetch_all(h.fcounters, doubles);
	else if (t == TWIN_STATS || t == TWIN_WHOLE_STATS)
		note_stats(h.stats, r);
	else if (t == TWIN_EXTREMA || t == TWIN_FEXTREMA)
		note_extrema(t, h.extrema, r);
	else if (t == TWIN_APPROX)
		note_approx(h.approx, r);
	for (size_t i = 0; i < TWIN_N; i++) {
		note(r, (double)all[i] + doubles[i]);
		if (t == TWIN_HISTOGRAM)
			note_histogram(h.histogram, i, r);
	}
}

static void assert_same(const struct readings *a, const struct readings *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++)
		if (a->of[i] != b->of[i])
			fail_msg("reading %zu is %g, not %g", i, b->of[i], a->of[i]);
}

/* Change the object in all ways, with a sequence or without. */
static void use(enum twin t, union twin_handle h, bool without)
{
	static const double values[] = { 2, 2.5, 0.125, 0, 1024, 1e9, -3, INFINITY, NAN };
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area = without ? model_set_area(&none) : NULL;
	int e = twin_put(t, h, 7);

	if (e == 0 && t < TWIN_HISTOGRAM && t != TWIN_FEXTREMA)
		e = twin_put(t, h, -2);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (t == TWIN_HISTOGRAM)
			percpu_histogram_record_at(h.histogram, LAST, values[i]);
		else if (t == TWIN_FEXTREMA && isfinite(values[i]) && e == 0)
			e = percpu_extrema_observe_double(h.extrema, -values[i]);
	if (without)
		model_set_area(area);
	assert_int_equal(e, 0);
}

static int reset_extrema(enum twin t, struct percpu_extrema *x, bool min, bool max)
{
	int64_t least, most;
	double dleast, dmost;

	return t == TWIN_EXTREMA ?
		       percpu_extrema_fetch_reset(x, min ? &least : NULL, max ? &most : NULL) :
		       percpu_extrema_fetch_reset_double(x, min ? &dleast : NULL,
							 max ? &dmost : NULL);
}

static int reset_histogram(struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *s;
	int e;

	assert_int_equal(percpu_histogram_snapshot_create(h, &s), 0);
	e = percpu_histogram_fetch_zero(h, LAST, s);
	percpu_histogram_snapshot_destroy(s);
	return e;
}

/* Call the reset of this number, from 0 on. Returns -ENOSYS if there is none. */
static int reset_by(enum twin t, union twin_handle h, unsigned call)
{
	if (call == 0)
		return twin_reset(t, h);
	if (t == TWIN_EXTREMA || t == TWIN_FEXTREMA)
		return call < 4 ? reset_extrema(t, h.extrema, call != 2, call != 3) : -ENOSYS;
	if (call > 1 || t == TWIN_STATS || t == TWIN_WHOLE_STATS)
		return -ENOSYS;
	if (t == TWIN_HISTOGRAM)
		return reset_histogram(h.histogram);
	(void)fetch_zero(t, h, LAST);
	return 0;
}

/* After a reset, all reads return what a new object's do, also after later adds. Before it, some
 * adds, all or none are done without sequences. */
static void what_was_reset_is_like_new(void **state)
{
	const enum twin t = twin_of(state);
	struct readings new, used, now;
	union twin_handle h;
	unsigned call;
	int e;

	for (int shared = 0; shared <= twin_is_shared(t); shared++)
		for (e = 0, call = 0; e == 0; call++) {
			e = shared ? twin_create_in(t, &place, &h) : twin_create(t, &h);
			assert_int_equal(e, 0);
			note_all(t, h, &new);
			for (unsigned how = 0; how < 4 && e == 0; how++) {
				use(t, h, how % 2 != 0);
				note_all(t, h, &now);
				if (how == 0)
					used = now;
				assert_same(&used, &now);
				assert_true(used.of[0] != new.of[0]);
				e = reset_by(t, h, call);
				if (e != 0)
					assert_int_equal(e, -ENOSYS);
				else
					note_all(t, h, &now);
				if (e == 0)
					assert_same(&new, &now);
			}
			twin_destroy(t, h);
			assert_true(e == 0 || call > 0);
		}
}

#define MOST 18 /* twins of a body */

struct body {
	const char *name;
	void (*run)(void **state);
	enum twin twins[MOST];
	unsigned n;
};

static const struct body bodies[] = {
	{ "all forms add as much",
	  all_forms_add_as_much,
	  { TWIN_COUNTER, TWIN_GAUGE, TWIN_FCOUNTER, TWIN_FCOUNTERS, TWIN_FGAUGE, TWIN_COUNTERS,
	    TWIN_COMPACT, TWIN_APPROX },
	  8 },
	{ "resets return what there was",
	  resets_return_what_there_was,
	  { TWIN_COUNTER, TWIN_COUNTERS, TWIN_FCOUNTER, TWIN_FCOUNTERS, TWIN_COMPACT, TWIN_APPROX },
	  6 },
	{ "what was reset is like new",
	  what_was_reset_is_like_new,
	  { TWIN_COUNTER, TWIN_COUNTERS, TWIN_FCOUNTER, TWIN_FCOUNTERS, TWIN_COMPACT, TWIN_STATS,
	    TWIN_WHOLE_STATS, TWIN_EXTREMA, TWIN_FEXTREMA, TWIN_APPROX, TWIN_HISTOGRAM },
	  11 },
	{ "each of many is apart",
	  each_of_many_is_apart,
	  { TWIN_COUNTERS, TWIN_FCOUNTERS, TWIN_COMPACT },
	  3 },
	{ "what is no number is refused",
	  what_is_no_number_is_refused,
	  { TWIN_FCOUNTER, TWIN_FCOUNTERS, TWIN_FGAUGE },
	  3 },
	{ "extremes are of all, and reset",
	  extremes_are_of_all_and_reset,
	  { TWIN_EXTREMA, TWIN_FEXTREMA },
	  2 },
	{ "calls of the other kind are refused",
	  calls_of_the_other_kind_are_refused,
	  { TWIN_EXTREMA, TWIN_FEXTREMA },
	  2 },
	{ "rules are kept", rules_are_kept, { TWIN_OWNED, TWIN_FOWNED }, 2 },
	{ "flags are kept, and others refused",
	  flags_are_kept_and_others_refused,
	  { TWIN_RWLOCK, TWIN_GRACE, TWIN_STATS, TWIN_RING, TWIN_EXTREMA },
	  5 },
	{ "edges are the same without sequences",
	  edges_are_the_same_without_sequences,
	  { TWIN_COUNTER, TWIN_COUNTERS, TWIN_FCOUNTER, TWIN_FCOUNTERS, TWIN_GAUGE, TWIN_FGAUGE,
	    TWIN_LATEST, TWIN_COMPACT, TWIN_STATS, TWIN_WHOLE_STATS, TWIN_EXTREMA, TWIN_FEXTREMA,
	    TWIN_APPROX, TWIN_HISTOGRAM, TWIN_RATE, TWIN_KEEPING_RING, TWIN_RING },
	  17 },
};

#define BODIES (sizeof(bodies) / sizeof(bodies[0]))

int main(void)
{
	static struct CMUnitTest tests[BODIES * MOST];
	static char names[BODIES * MOST][64];
	size_t n = 0;

	for (size_t i = 0; i < BODIES; i++)
		for (unsigned k = 0; k < bodies[i].n; k++, n++) {
			const enum twin t = bodies[i].twins[k];

			snprintf(names[n], sizeof(names[n]), "%s: %s", twin_names[t],
				 bodies[i].name);
			tests[n] = (struct CMUnitTest){ .name = names[n],
							.test_func = bodies[i].run,
							.setup_func = begin,
							.teardown_func = end,
							.initial_state = (void *)(uintptr_t)t };
		}
	return _cmocka_run_group_tests("tests", tests, n, name_file, test_remove_paths);
}
