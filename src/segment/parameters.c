/* SPDX-License-Identifier: MIT */
/*
 * parameters.c - the parameters of a metric's object: options, flags, a rule, fields. The record
 * does not have options, flags and rules: each object has its own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "segment.h"

static bool is_owned(unsigned kind)
{
	return kind == PERCPU_METRIC_OWNED_GAUGE || kind == PERCPU_METRIC_OWNED_FGAUGE;
}

static unsigned known_flags(unsigned kind)
{
	return kind == PERCPU_METRIC_EXTREMA ? PERCPU_EXTREMA_DOUBLE :
	       kind == PERCPU_METRIC_STATS   ? PERCPU_STATS_WHOLE :
					       0;
}

static int check_histogram(const char *name, const struct percpu_histogram_options *o,
			   struct percpu_reason *why)
{
	struct percpu_histogram h;
	int e = percpu_histogram_read_options(o, &h);

	if (e != 0)
		return percpu_reason_set(why, e, "%s: its options are none of a histogram", name);
	if (h.n != 1)
		return percpu_reason_set(why, -EINVAL, "%s: a metric is one histogram, not %zu",
					 name, h.n);
	return 0;
}

int percpu_parameters_check(const char *name, unsigned kind, const struct percpu_parameters *p,
			    struct percpu_reason *why)
{
	const char *const what = percpu_metric_kind_name(kind);

	if (p->histogram != NULL && kind != PERCPU_METRIC_HISTOGRAM)
		return percpu_reason_set(why, -EINVAL, "%s: options of a histogram are not for %s",
					 name, what);
	if (p->fields != NULL && kind != PERCPU_METRIC_STATS)
		return percpu_reason_set(why, -EINVAL, "%s: fields are not for %s", name, what);
	if (is_owned(kind))
		return p->flags <= PERCPU_OWNED_RECENT ?
			       0 :
			       percpu_reason_set(why, -EINVAL,
						 "%s: %u is no rule of an owned gauge", name,
						 p->flags);
	if ((p->flags & ~known_flags(kind)) != 0)
		return percpu_reason_set(why, -EINVAL, "%s: flags %#x are not known of %s", name,
					 p->flags & ~known_flags(kind), what);
	return kind == PERCPU_METRIC_HISTOGRAM ? check_histogram(name, p->histogram, why) : 0;
}

/* Descriptions of objects. */

struct words {
	char text[160];
};

static void say_histogram(const struct percpu_histogram *h, struct words *out)
{
	char unit[48] = "doubles";

	if (h->ticks != 0)
		snprintf(unit, sizeof(unit), "%" PRIu64 " ticks per unit", h->ticks);
	snprintf(out->text, sizeof(out->text),
		 "a histogram of %s from 2^%d to 2^%d in %u buckets per octave", unit, (int)h->low,
		 (int)h->high, 1U << h->schema);
}

static void say_extrema(bool doubles, struct words *out)
{
	strcpy(out->text, doubles ? "extrema of doubles" : "extrema of integers");
}

static void say_stats(unsigned flags, struct words *out)
{
	strcpy(out->text, flags & PERCPU_STATS_WHOLE ? "statistics with PERCPU_STATS_WHOLE" :
						       "statistics without PERCPU_STATS_WHOLE");
}

static const char *name_of_rule(int rule)
{
	switch (rule) {
	case PERCPU_OWNED_SUM:
		return "sum";
	case PERCPU_OWNED_MIN:
		return "least value";
	case PERCPU_OWNED_MAX:
		return "greatest value";
	default:
		return "most recent value";
	}
}

static void say_rule(int rule, struct words *out)
{
	snprintf(out->text, sizeof(out->text), "an owned gauge that is the %s", name_of_rule(rule));
}

static void say_asked(unsigned kind, const struct percpu_parameters *p, struct words *out)
{
	struct percpu_histogram h = { .n = 0 };

	if (kind == PERCPU_METRIC_HISTOGRAM) {
		(void)percpu_histogram_read_options(p->histogram, &h);
		say_histogram(&h, out);
	} else if (kind == PERCPU_METRIC_EXTREMA) {
		say_extrema(p->flags & PERCPU_EXTREMA_DOUBLE, out);
	} else if (kind == PERCPU_METRIC_STATS) {
		say_stats(p->flags, out);
	} else if (is_owned(kind)) {
		say_rule((int)p->flags, out);
	}
}

static void say_owned(struct percpu_segment *s, unsigned kind, uint64_t key, struct words *out)
{
	struct percpu_owned_fgauge *fgauge;
	struct percpu_owned_gauge *gauge;
	int e = 0;
	struct percpu_owners *o = percpu_segment_owners(s, &e);

	if (o == NULL)
		return;
	if (kind == PERCPU_METRIC_OWNED_GAUGE && percpu_owned_gauge_attach(o, key, &gauge) == 0) {
		say_rule(percpu_owned_gauge_rule(gauge), out);
		percpu_owned_gauge_detach(gauge);
	} else if (kind == PERCPU_METRIC_OWNED_FGAUGE &&
		   percpu_owned_fgauge_attach(o, key, &fgauge) == 0) {
		say_rule(percpu_owned_fgauge_rule(fgauge), out);
		percpu_owned_fgauge_detach(fgauge);
	}
}

static void say_there(const struct percpu_declaring *d, const struct percpu_parameters *p,
		      struct words *out)
{
	const uint64_t key = __atomic_load_n(d->at.word, __ATOMIC_ACQUIRE);
	const unsigned kind = d->asked->head.kind;
	struct percpu_region *r = d->s->region;
	struct percpu_histogram *histogram;
	struct percpu_extrema *extrema;
	struct percpu_stats *stats;

	if (kind == PERCPU_METRIC_HISTOGRAM && percpu_histogram_attach(r, key, &histogram) == 0) {
		say_histogram(histogram, out);
		percpu_histogram_detach(histogram);
	} else if (kind == PERCPU_METRIC_EXTREMA && percpu_extrema_attach(r, key, &extrema) == 0) {
		say_extrema(percpu_extrema_is_double(extrema), out);
		percpu_extrema_detach(extrema);
	} else if (kind == PERCPU_METRIC_STATS &&
		   percpu_stats_attach(r, key, p->fields->n * sizeof(uint64_t), 1, 0, &stats) ==
			   0) {
		say_stats(stats->flags, out);
		percpu_stats_detach(stats);
	} else if (is_owned(kind)) {
		say_owned(d->s, kind, key, out);
	}
}

int percpu_parameters_compare(const struct percpu_declaring *d, const struct percpu_parameters *p)
{
	struct words has = { "" }, wants = { "" };

	if (d->at.word != NULL)
		say_there(d, p, &has);
	say_asked(d->asked->head.kind, p, &wants);
	if (*has.text == '\0' || strcmp(has.text, wants.text) == 0)
		return -EEXIST;
	return percpu_reason_set(d->why, -ECANCELED, "%.*s: is %s in the segment, %s was asked for",
				 d->asked->head.name, (const char *)d->asked->bytes, has.text,
				 wants.text);
}
