/* SPDX-License-Identifier: MIT */
/*
 * clash.c - two metrics that an exposition format would give series of one name: a histogram x and
 * a counter x_count, a counter x and a gauge x_total.
 */
#include <string.h>

#include "segment.h"

#define LONGEST_END 7 /* "_bucket" */

struct name {
	size_t n;
	char text[PERCPU_METRIC_NAME + 2 * LONGEST_END];
};

static bool drop_end(struct name *name, const char *end)
{
	const size_t k = strlen(end);

	if (name->n <= k || memcmp(name->text + name->n - k, end, k) != 0)
		return false;
	name->n -= k;
	return true;
}

static void add_end(struct name *name, const char *end)
{
	memcpy(name->text + name->n, end, strlen(end));
	name->n += strlen(end);
}

/* Return the name of a metric without what such names end in by convention. */
static struct name base_of(const struct percpu_text *metric, const struct percpu_kind_row *kind)
{
	struct name base = { .n = metric->n };

	memcpy(base.text, metric->at, base.n);
	(void)drop_end(&base, kind->ending);
	return base;
}

/* Store the name of the nth series of a metric: its own name, and then one for each end of its kind.
 * Returns false if there is none. */
static bool series_of(const struct percpu_kind_row *kind, const struct percpu_text *metric,
		      size_t n, struct name *ret)
{
	if (n == 0) {
		*ret = (struct name){ .n = metric->n };
		memcpy(ret->text, metric->at, metric->n);
		return true;
	}
	if (kind->series[n - 1] == NULL)
		return false;
	*ret = base_of(metric, kind);
	add_end(ret, kind->series[n - 1]);
	return true;
}

/* Return whether a metric of that kind and name has series of this name. */
static bool has_series(const struct percpu_kind_row *kind, const struct percpu_text *metric,
		       const struct name *series)
{
	struct name of;

	for (size_t i = 0; series_of(kind, metric, i, &of); i++)
		if (of.n == series->n && memcmp(of.text, series->text, of.n) == 0)
			return true;
	return false;
}

/* Return whether there is a metric of this name that has series of that one. */
static bool is_taken_by(struct percpu_segment *s, const struct name *metric,
			const struct name *series)
{
	const struct percpu_text name = { metric->text, metric->n };

	return metric->n <= PERCPU_METRIC_NAME && percpu_series_find_name(s, &name) != NULL &&
	       has_series(percpu_kind_of(s->copy.head.kind), &name, series);
}

/* Look for a metric that has series of this name: it has the name itself, or the name without one of
 * the ends. */
static bool is_taken(struct percpu_segment *s, const struct name *series)
{
	static const char *const ends[] = { "", "_total", "_bucket", "_count", "_sum", "_info" };
	struct name metric;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		metric = *series;
		if (drop_end(&metric, ends[i]) && is_taken_by(s, &metric, series))
			return true;
	}
	return false;
}

bool percpu_metric_clashes(struct percpu_segment *s, const struct percpu_record_copy *asked,
			   struct percpu_reason *why)
{
	const struct percpu_kind_row *const kind = percpu_kind_of(asked->head.kind);
	const struct percpu_text metric = percpu_record_name(asked);
	struct name series;

	if (metric.n > PERCPU_METRIC_NAME)
		return false;
	for (size_t i = 0; series_of(kind, &metric, i, &series); i++) {
		if (!is_taken(s, &series))
			continue;
		(void)percpu_reason_set(why, -EEXIST,
					"%.*s: %s of that name has series named %.*s, and so has "
					"%.*s in the segment, %s",
					(int)metric.n, metric.at, kind->name, (int)series.n,
					series.text, (int)s->copy.head.name,
					(const char *)s->copy.bytes,
					percpu_kind_of(s->copy.head.kind)->name);
		return true;
	}
	return false;
}
