/* SPDX-License-Identifier: MIT */
/* faults_kept.c - see faults_kept.h. */
#include "faults_kept.h"

#include <stdio.h>

#include "declared.h"
#include "support.h"
#include "memory/memory.h"
#include "../segments.h"

static const char *const names[KEPT_FIELDS] = { "one", "two" };
static const struct percpu_metric_fields fields = {
	.size = sizeof(fields), .label = "field", .names = names, .n = KEPT_FIELDS
};

static int declare_gauges(struct percpu_segment *s, struct kept_metrics *m)
{
	int e = percpu_segment_gauge(s, METRIC("level"), &m->gauge);

	if (e == 0)
		e = percpu_segment_fgauge(s, METRIC("share"), &m->fgauge);
	return e != 0 ? e : percpu_segment_latest(s, METRIC("latest"), &m->latest);
}

static int open_exemplars(struct percpu_segment *s, struct kept_metrics *m)
{
	int e = percpu_segment_exemplars(s, METRIC("calls_total"), &m->exemplars);

	return e != 0 ? e : percpu_segment_exemplars(s, METRIC("length"), &m->histogram_exemplars);
}

int kept_declare(struct percpu_segment *s, struct kept_metrics *m)
{
	int e = percpu_segment_counter(s, METRIC("calls_total"), &m->counter);

	if (e == 0)
		e = percpu_segment_fcounter(s, METRIC("time_total"), &m->fcounter);
	if (e == 0 && WIDE)
		e = declare_gauges(s, m);
	if (e == 0)
		e = percpu_segment_histogram(s, METRIC("length"), NULL, &m->histogram);
	if (e == 0)
		e = percpu_segment_extrema(s, METRIC("extremes"), 0, &m->extrema);
	if (e == 0)
		e = percpu_segment_owned_gauge(s, METRIC("owned"), PERCPU_OWNED_SUM, &m->owned);
	if (e == 0)
		e = percpu_segment_owned_fgauge(s, METRIC("fowned"),
						PERCPU_OWNED_MAX | PERCPU_OWNED_EACH, &m->fowned);
	if (e == 0)
		e = percpu_segment_stats(s, METRIC("parts_total"), &fields, 0, &m->stats);
	if (e == 0)
		e = open_exemplars(s, m);
	return e != 0 ? e : percpu_segment_info(s, METRIC("program_info"));
}

static struct percpu_declaration row(const struct percpu_metric *m, unsigned kind, void *ret)
{
	return (struct percpu_declaration){ .size = sizeof(struct percpu_declaration),
					    OF_METRIC(*m),
					    .kind = kind,
					    .ret = { .counter = (void *)ret } };
}

int kept_declare_table(struct percpu_segment *s, struct kept_metrics *m)
{
	struct percpu_declaration table[] = {
		row(METRIC("calls_total"), PERCPU_METRIC_COUNTER, &m->counter),
		row(METRIC("time_total"), PERCPU_METRIC_FCOUNTER, &m->fcounter),
		row(METRIC("length"), PERCPU_METRIC_HISTOGRAM, &m->histogram),
		row(METRIC("extremes"), PERCPU_METRIC_EXTREMA, &m->extrema),
		row(METRIC("owned"), PERCPU_METRIC_OWNED_GAUGE, &m->owned),
		row(METRIC("fowned"), PERCPU_METRIC_OWNED_FGAUGE, &m->fowned),
		row(METRIC("parts_total"), PERCPU_METRIC_STATS, &m->stats),
		row(METRIC("program_info"), PERCPU_METRIC_INFO, NULL),
		row(METRIC("level"), PERCPU_METRIC_GAUGE, &m->gauge),
		row(METRIC("share"), PERCPU_METRIC_FGAUGE, &m->fgauge),
		row(METRIC("latest"), PERCPU_METRIC_LATEST, &m->latest),
	};
	const size_t n = sizeof(table) / sizeof(*table);
	int e;

	table[5].flags = PERCPU_OWNED_MAX | PERCPU_OWNED_EACH;
	table[6].fields = &fields;
	e = percpu_segment_declare(s, table, WIDE ? n : n - 3);
	return e != 0 ? e : open_exemplars(s, m);
}

int kept_count(const struct kept_metrics *m)
{
	int e = percpu_owned_gauge_add(m->owned, 1);

	if (e == 0)
		e = percpu_owned_fgauge_set(m->fowned, 1);
	if (e == 0)
		e = percpu_fcounter_add(m->fcounter, 1);
	if (e == 0)
		e = percpu_extrema_observe(m->extrema, 1);
	if (e == 0 && WIDE)
		e = percpu_fgauge_set(m->fgauge, 1);
	if (e == 0 && WIDE)
		e = percpu_gauge_set(m->gauge, 1);
	if (e == 0 && WIDE)
		e = percpu_latest_set(m->latest, 1);
	if (e == 0)
		e = percpu_exemplars_store(m->exemplars, 1, NULL, 0);
	percpu_counter_add(m->counter, 1);
	percpu_histogram_record(m->histogram, 1);
	percpu_stats_add(m->stats, 0, 1, 1);
	return e;
}

const char *kept_path(void)
{
	static char path[160];

	if (path[0] == '\0')
		snprintf(path, sizeof(path), "%s", test_path("kept"));
	return path;
}

struct percpu_segment *kept_segment(struct kept_metrics *ret)
{
	static struct percpu_segment *s;
	static struct kept_metrics m;

	if (s == NULL) {
		assert_int_equal(percpu_segment_open(kept_path(), ALL, NULL, &s), 0);
		assert_int_equal(kept_declare(s, &m), 0);
		assert_int_equal(kept_count(&m), 0);
	}
	if (ret != NULL)
		*ret = m;
	return s;
}
