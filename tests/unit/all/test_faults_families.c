/* SPDX-License-Identifier: MIT */
/*
 * test_faults_families.c - calls of libc fail while families are declared, and their series
 * found, made, removed and found again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

#include <percpu/family.h>

#include "declared.h"
#include "support.h"
#include "memory/memory.h"
#include "../segments.h"
#include "sweep.h"

enum { CAP = 4 };

static const char *const x[] = { "x" }, *const y[] = { "y" };

static int declare(struct percpu_segment *s, const char *name, unsigned kind,
		   struct percpu_family **ret)
{
	static const char *const labels[] = { "a" };
	static const double bounds[] = { 0.1, 1, 10 };
	static const struct percpu_histogram_options own = { .size = sizeof(own),
							     .bounds = bounds,
							     .bounds_n = 3 };
	const struct percpu_declaration d = {
		.size = sizeof(d),
		.name = name,
		.label_names = labels,
		.labels = 1,
		.kind = kind,
		.cap = CAP,
		.histogram = kind == PERCPU_METRIC_HISTOGRAM ? &own : NULL,
	};

	return percpu_segment_family(s, &d, ret);
}

/* Find or make a series of that kind. Lack of memory for it is no error: it counts in the
 * overflow. */
static int resolve(struct percpu_family *f, unsigned kind, const char *const *values, void **ret)
{
	switch (kind) {
	case PERCPU_METRIC_COUNTER:
		return percpu_family_counter(f, values, (struct percpu_counter **)ret);
	case PERCPU_METRIC_FCOUNTER:
		return percpu_family_fcounter(f, values, (struct percpu_fcounter **)ret);
	case PERCPU_METRIC_GAUGE:
		return percpu_family_gauge(f, values, (struct percpu_gauge **)ret);
	case PERCPU_METRIC_FGAUGE:
		return percpu_family_fgauge(f, values, (struct percpu_fgauge **)ret);
	case PERCPU_METRIC_LATEST:
		return percpu_family_latest(f, values, (struct percpu_latest **)ret);
	case PERCPU_METRIC_HISTOGRAM:
		return percpu_family_histogram(f, values, (struct percpu_histogram **)ret);
	case PERCPU_METRIC_EXTREMA:
		return percpu_family_extrema(f, values, (struct percpu_extrema **)ret);
	case PERCPU_METRIC_OWNED_GAUGE:
		return percpu_family_owned_gauge(f, values, (struct percpu_owned_gauge **)ret);
	default:
		return percpu_family_owned_fgauge(f, values, (struct percpu_owned_fgauge **)ret);
	}
}

static bool needs_pairs(unsigned kind)
{
	return kind == PERCPU_METRIC_GAUGE || kind == PERCPU_METRIC_FGAUGE ||
	       kind == PERCPU_METRIC_LATEST;
}

/* Make a series, remove it, and find it again. Without room for it, there is nothing to remove. */
static int make_and_remove(struct percpu_family *f, unsigned kind)
{
	const struct percpu_text z[] = { { "z", 1 } };
	struct percpu_exemplars *exemplars = NULL;
	void *handle = NULL, *again = NULL;
	uint64_t overflows = percpu_family_overflows(f);
	int e = resolve(f, kind, x, &handle);

	if (e == 0)
		e = resolve(f, kind, x, &again);
	assert_true((e == 0) == (again != NULL));
	if (e == 0 && percpu_family_overflows(f) == overflows) {
		assert_ptr_equal(handle, again);
		e = percpu_family_remove(f, x);
	}
	if (e == 0)
		e = resolve(f, kind, x, &again);
	if (e == 0 && kind == PERCPU_METRIC_COUNTER)
		e = percpu_family_add(f, x, 1);
	if (e == 0 && kind == PERCPU_METRIC_HISTOGRAM)
		e = percpu_family_record(f, x, 1);
	if (e == 0 && (kind == PERCPU_METRIC_COUNTER || kind == PERCPU_METRIC_HISTOGRAM))
		e = percpu_family_exemplars(f, x, &exemplars);
	if (e == 0 && exemplars != NULL)
		e = percpu_exemplars_store(exemplars, 1, NULL, 0);
	if (e == 0)
		e = percpu_family_series(f, (enum percpu_metric_kind)kind, z, &again);
	return e != 0 ? e : resolve(f, kind, y, &again);
}

/* Whatever failed, there is room for series, and each begins at 0. */
static void count_again(struct percpu_segment *s)
{
	struct percpu_family *f = NULL;
	struct percpu_counter *c = NULL;
	uint64_t overflows;
	int e;

	assert_int_equal(declare(s, "f1_total", PERCPU_METRIC_COUNTER, &f), 0);
	e = percpu_family_remove(f, x);
	assert_true(e == 0 || e == -ENOENT);
	overflows = percpu_family_overflows(f);
	assert_int_equal(percpu_family_counter(f, x, &c), 0);
	assert_int_equal(percpu_counter_fetch(c), 0);
	percpu_counter_add(c, 5);
	assert_int_equal(percpu_family_overflows(f), overflows);
}

static int family_of(unsigned kind)
{
	static const char *const names[] = { NULL, "f1_total",	"f2_total", "f3", "f4",
					     "f5", "f6_length", "f7",	    "f8", "f9" };
	const char *path = test_path("family");
	struct percpu_segment *s = NULL;
	struct percpu_family *f = NULL;
	int e;

	if (needs_pairs(kind) && !WIDE)
		return 0;
	e = percpu_segment_open(path, ALL, NULL, &s);
	if (e == 0)
		e = declare(s, names[kind], kind, &f);
	if (e == 0)
		e = make_and_remove(f, kind);
	(void)fault_clear();
	if (s != NULL) {
		count_again(s);
		assert_int_equal(declare(s, names[kind], kind, &f), 0);
		assert_int_equal(make_and_remove(f, kind), 0);
	}
	percpu_segment_close(s);
	(void)unlink(path);
	return e;
}

static int counters(void)
{
	return family_of(PERCPU_METRIC_COUNTER);
}

static int fcounters(void)
{
	return family_of(PERCPU_METRIC_FCOUNTER);
}

static int gauges(void)
{
	return family_of(PERCPU_METRIC_GAUGE);
}

static int fgauges(void)
{
	return family_of(PERCPU_METRIC_FGAUGE);
}

static int latest_values(void)
{
	return family_of(PERCPU_METRIC_LATEST);
}

static int histograms(void)
{
	return family_of(PERCPU_METRIC_HISTOGRAM);
}

static int extrema(void)
{
	return family_of(PERCPU_METRIC_EXTREMA);
}

static int owned_gauges(void)
{
	return family_of(PERCPU_METRIC_OWNED_GAUGE);
}

static int owned_fgauges(void)
{
	return family_of(PERCPU_METRIC_OWNED_FGAUGE);
}

#define ERRORS                                                                                     \
	{                                                                                          \
		SWEEP_FILE, -EBADF, -ENOLCK, -EBADMSG, -ETIMEDOUT                                  \
	}

static const struct sweep_operation operations[] = {
	{ "family of counters", counters, ERRORS },
	{ "family of counters of doubles", fcounters, ERRORS },
	{ "family of gauges", gauges, ERRORS },
	{ "family of gauges of doubles", fgauges, ERRORS },
	{ "family of latest values", latest_values, ERRORS },
	{ "family of histograms", histograms, ERRORS },
	{ "family of extremes", extrema, ERRORS },
	{ "family of owned gauges", owned_gauges, ERRORS },
	{ "family of owned gauges of doubles", owned_fgauges, ERRORS },
	{ NULL, NULL, { 0 } },
};

static void each_call_fails_in_turn(void **state)
{
	(void)state;
	sweep(operations);
	sweep_report();
	assert_true(sweep_failures(FAULT_MALLOC) > 0 && sweep_failures(FAULT_MMAP) > 0);
	assert_int_equal(fault_inherited(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_in_turn),
	};

	return cmocka_run_group_tests(tests, sweep_set_up, sweep_tear_down);
}
