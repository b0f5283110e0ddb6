/* SPDX-License-Identifier: MIT */
/*
 * show_segment FILE - make a segment with a metric of each kind, and with values that are hard
 * to show; print "ready", and wait until the input ends. test_show.py has the values.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <percpu/percpu.h>

#include "../declared.h"

#define HELP "A \"help\" text,\nwith a back\\slash and \303\274."

struct lookups {
	uint64_t hit, miss;
};

static struct percpu_segment *segment;

static void must(int e, const char *name)
{
	if (e == 0)
		return;
	fprintf(stderr, "%s: %d, %s\n", name, e, percpu_error());
	exit(1);
}

/* Return a metric of that name, with one label. */
static const struct percpu_metric *metric(const char *name, const char *unit, const char *value)
{
	static const char *const labels[] = { "label" };
	static const char *values[1];
	static struct percpu_metric m;

	values[0] = value;
	m = (struct percpu_metric){
		.size = sizeof(m),
		.name = name,
		.help = HELP,
		.unit = unit,
		.label_names = value ? labels : NULL,
		.label_values = value ? values : NULL,
		.labels = value ? 1 : 0,
	};
	return &m;
}

static void count(void)
{
	static const char *const results[] = { "hit", "miss" };
	static const struct percpu_metric_fields fields =
		PERCPU_METRIC_FIELDS(struct lookups, "result", results);
	PERCPU_STATS(struct lookups) lookups;
	struct percpu_fcounter *work;
	struct percpu_counter *c;

	must(percpu_segment_counter(segment, metric("a_total", "", "\"quoted\" \\ and\nnew"), &c),
	     "a");
	percpu_counter_add(c, (INT64_C(1) << 60) + 1);
	must(percpu_segment_counter(segment, metric("a_total", "", "tab\t, \001, \303\274"), &c),
	     "a");
	must(percpu_segment_counter(segment, metric("a_total", "", ""), &c), "a");
	percpu_counter_inc(c);
	must(percpu_segment_fcounter(segment, metric("work_seconds_total", "seconds", NULL), &work),
	     "work");
	must(percpu_fcounter_add(work, 0.1), "work");
	must(percpu_segment_stats(segment, metric("lookups_total", "", "x"), &fields, 0,
				  PERCPU_STATS_RET(&lookups)),
	     "lookups");
	PERCPU_STATS_UPDATE(lookups, 0, .hit = 5, .miss = 2);
	must(percpu_segment_info(segment, metric("build_info", "", "1.0")), "info");
}

static void set(void)
{
	static const double v[] = { NAN, INFINITY, -INFINITY, 1e-7, -0.0 };
	static const char *const names[] = { "nan", "inf", "minus", "small", "zero", "never" };
	struct percpu_owned_gauge *owned;
	struct percpu_owned_fgauge *fowned;
	struct percpu_latest *latest;
	struct percpu_fgauge *fgauge;
	struct percpu_gauge *gauge;

	must(percpu_segment_gauge(segment, metric("depth", "", NULL), &gauge), "gauge");
	must(percpu_gauge_set(gauge, -3), "gauge");
	must(percpu_segment_fgauge(segment, metric("room_celsius", "celsius", NULL), &fgauge),
	     "fgauge");
	must(percpu_fgauge_set(fgauge, 1.0 / 3), "fgauge");
	for (int i = 0; i < 6; i++) {
		must(percpu_segment_latest(segment, metric("last", "", names[i]), &latest),
		     "latest");
		if (i < 5)
			must(percpu_latest_set(latest, v[i]), "latest");
	}
	must(percpu_segment_owned_gauge(segment, metric("flying", "", NULL), PERCPU_OWNED_SUM,
					&owned),
	     "owned");
	must(percpu_owned_gauge_add(owned, 2), "owned");
	must(percpu_segment_owned_fgauge(segment, metric("part_ratio", "ratio", NULL),
					 PERCPU_OWNED_MAX, &fowned),
	     "owned");
	must(percpu_owned_fgauge_set(fowned, 0.25), "owned");
}

/* The last value exceeds the histogram's range, and is in no bucket but +Inf. */
static void observe_beyond(void)
{
	static const double v[] = { 0.5, 1024, 2048 };
	struct percpu_histogram *h;

	must(percpu_segment_histogram(segment, metric("wait_seconds", "seconds", "beyond"), NULL,
				      &h),
	     "histogram");
	for (int i = 0; i < 3; i++)
		percpu_histogram_record(h, v[i]);
}

static void observe(void)
{
	static const char *const names[] = { "x", "y", "empty" };

	for (int i = 0; i < 3; i++) {
		struct percpu_histogram *h;
		struct percpu_extrema *x;

		must(percpu_segment_histogram(segment, metric("wait_seconds", "seconds", names[i]),
					      NULL, &h),
		     "histogram");
		must(percpu_segment_extrema(segment, metric("size_bytes", "bytes", names[i]),
					    PERCPU_EXTREMA_DOUBLE, &x),
		     "extrema");
		for (int k = 0; k < 3 && i < 2; k++) {
			percpu_histogram_record(h, 0.25 * (k + 1) * (i + 1));
			must(percpu_extrema_observe_double(x, 0.5 + k + i), "extrema");
		}
	}
}

/* A histogram with own bounds that has a value in each bucket, and a summary of the same values. */
static void observe_own_bounds(void)
{
	static const double bounds[] = { -1.5, 0.005, 0.1, 1.0 / 3, 2.5 };
	static const double v[] = { -1.5, 0x1p-8, 0.0625, 0.25, 2.5, 5 };
	const struct percpu_histogram_options own = { .size = sizeof(own),
						      .bounds = bounds,
						      .bounds_n = 5 },
					      summary = { .size = sizeof(summary),
							  .flags = PERCPU_HISTOGRAM_SUMMARY };
	struct percpu_histogram *h[2];

	must(percpu_segment_histogram(segment, metric("drift_seconds", "seconds", "x"), &own,
				      &h[0]),
	     "own bounds");
	must(percpu_segment_histogram(segment, metric("read_bytes", "bytes", "x"), &summary, &h[1]),
	     "summary");
	for (int i = 0; i < 6; i++) {
		percpu_histogram_record(h[0], v[i]);
		percpu_histogram_record(h[1], v[i]);
	}
}

/* Ask for three series of a family that has room for one. */
static void overflow(void)
{
	static const char *const labels[] = { "user" }, *const users[] = { "ann", "bo", "cy" };
	const struct percpu_metric sent = { .size = sizeof(sent),
					    .name = "sent_total",
					    .help = HELP,
					    .label_names = labels,
					    .labels = 1 };
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(sent),
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_family *f;
	struct percpu_counter *c;

	must(family_with_cap(segment, &d, 1, &f), "family");
	for (int i = 0; i < 3; i++) {
		must(percpu_family_counter(f, &users[i], &c), users[i]);
		percpu_counter_add(c, 10 + i);
	}
}

int main(int argc, char **argv)
{
	const unsigned flags = PERCPU_SEGMENT_CREATE;

	if (argc != 2 || percpu_segment_open(argv[1], flags, NULL, &segment) != 0)
		return 2;
	count();
	set();
	observe();
	observe_beyond();
	observe_own_bounds();
	overflow();
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	percpu_segment_close(segment);
	return 0;
}
