/* SPDX-License-Identifier: MIT */
/*
 * kinds_wide.c - kinds of metrics whose value is more than one number.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "segment.h"

/* Histograms. */

static bool is_summary(const struct percpu_histogram *h)
{
	return h->schema == PERCPU_HISTOGRAM_OWN_BOUNDS && h->bounds_n == 0;
}

static int histogram_check(const char *name, const struct percpu_record_copy *asked,
			   const struct percpu_parameters *p, struct percpu_reason *why)
{
	struct percpu_histogram h;
	int e = percpu_histogram_read_options(p->histogram, &h);

	if (e != 0)
		return percpu_bounds_complain(name, p->histogram, e, why);
	if (h.n != 1)
		return percpu_reason_set(why, -EINVAL, "%s: a metric is one histogram, not %zu",
					 name, h.n);
	return is_summary(&h) ? percpu_bounds_check_labels(asked, why) : 0;
}

static int histogram_open(struct percpu_segment *s, struct percpu_anchor *at,
			  const struct percpu_parameters *p, void *ret)
{
	return percpu_histogram_open_at(s->region, at, p->histogram, ret);
}

static int histogram_attach(struct percpu_segment *s, uint64_t key, size_t fields, void *ret)
{
	(void)fields;
	return percpu_histogram_attach(s->region, key, ret);
}

static void histogram_detach(void *handle)
{
	percpu_histogram_detach(handle);
}

static int histogram_reset(void *handle)
{
	struct percpu_histogram *h = handle;
	int e = 0;

	for (size_t i = 0; e == 0 && i < h->n; i++)
		e = percpu_histogram_zero(h, i);
	return e;
}

static void histogram_describe(const void *handle, struct percpu_words *out)
{
	const struct percpu_histogram *h = handle;
	char unit[48] = "doubles";

	if (h->ticks != 0)
		snprintf(unit, sizeof(unit), "%" PRIu64 " ticks per unit", h->ticks);
	if (is_summary(h))
		snprintf(out->text, sizeof(out->text), "a summary of %s", unit);
	else if (h->schema == PERCPU_HISTOGRAM_OWN_BOUNDS)
		snprintf(out->text, sizeof(out->text), "a histogram of %s with %zu own bounds",
			 unit, h->bounds_n);
	else
		snprintf(out->text, sizeof(out->text),
			 "a histogram of %s from 2^%d to 2^%d in %u buckets per octave", unit,
			 (int)h->low, (int)h->high, 1U << h->schema);
}

static void histogram_describe_asked(const struct percpu_parameters *p, struct percpu_words *out)
{
	struct percpu_histogram h = { .n = 0 };

	(void)percpu_histogram_read_options(p->histogram, &h);
	histogram_describe(&h, out);
}

static void histogram_describe_both(const void *handle, const struct percpu_parameters *p,
				    struct percpu_words *has, struct percpu_words *wants)
{
	struct percpu_histogram h = { .n = 0 };

	(void)percpu_histogram_read_options(p->histogram, &h);
	percpu_bounds_describe(handle, &h, has, wants);
}

static unsigned histogram_flags(const void *handle)
{
	return is_summary(handle) ? PERCPU_HISTOGRAM_SUMMARY : 0;
}

static struct percpu_cells histogram_find(const void *handle)
{
	const struct percpu_histogram *h = handle;
	struct percpu_cells c = percpu_cells_at(h->block.base, PERCPU_HISTOGRAM_HEAD, h->record,
						PERCPU_GATHER_HISTOGRAM);

	c.part.unit = sizeof(struct percpu_pair_value);
	c.part.object = h;
	return c;
}

const struct percpu_kind_row percpu_kind_histogram = {
	.name = "a histogram",
	.ending = "",
	.series = percpu_series_of_histograms,
	.own_label = "le",
	.in_families = true,
	.has_exemplars = true,
	.check = histogram_check,
	.open = histogram_open,
	.attach = histogram_attach,
	.detach = histogram_detach,
	.reset = histogram_reset,
	.read_flags = histogram_flags,
	.describe = histogram_describe,
	.describe_asked = histogram_describe_asked,
	.describe_both = histogram_describe_both,
	.find_cells = histogram_find,
};

/* Extrema. */

static int extrema_open(struct percpu_segment *s, struct percpu_anchor *at,
			const struct percpu_parameters *p, void *ret)
{
	return percpu_extrema_open_at(s->region, at, p->flags, ret);
}

static int extrema_attach(struct percpu_segment *s, uint64_t key, size_t fields, void *ret)
{
	(void)fields;
	return percpu_extrema_attach(s->region, key, ret);
}

static void extrema_detach(void *handle)
{
	percpu_extrema_detach(handle);
}

static int extrema_reset(void *handle)
{
	return percpu_extrema_reset(handle);
}

static unsigned extrema_flags(const void *handle)
{
	return percpu_extrema_is_double(handle) ? PERCPU_EXTREMA_DOUBLE : 0;
}

static void extrema_write(unsigned flags, struct percpu_words *out)
{
	strcpy(out->text,
	       flags & PERCPU_EXTREMA_DOUBLE ? "extrema of doubles" : "extrema of integers");
}

static void extrema_describe(const void *handle, struct percpu_words *out)
{
	extrema_write(extrema_flags(handle), out);
}

static void extrema_describe_asked(const struct percpu_parameters *p, struct percpu_words *out)
{
	extrema_write(p->flags, out);
}

static struct percpu_cells extrema_find(const void *handle)
{
	const struct percpu_extrema *x = handle;
	struct percpu_cells c = percpu_cells_at(
		x->block.base, 0, 2 * sizeof(struct percpu_extremes), PERCPU_GATHER_EXTREMA);

	c.bias = sizeof(struct percpu_extrema_control);
	c.part.unit = sizeof(struct percpu_extremes);
	c.part.object = x;
	return c;
}

const struct percpu_kind_row percpu_kind_extrema = {
	.name = "extrema",
	.ending = "",
	.series = percpu_series_of_gauges,
	.own_label = "extreme",
	.flags = PERCPU_EXTREMA_DOUBLE,
	.in_families = true,
	.open = extrema_open,
	.attach = extrema_attach,
	.detach = extrema_detach,
	.reset = extrema_reset,
	.read_flags = extrema_flags,
	.describe = extrema_describe,
	.describe_asked = extrema_describe_asked,
	.find_cells = extrema_find,
};

/* Statistics. */

static int stats_open(struct percpu_segment *s, struct percpu_anchor *at,
		      const struct percpu_parameters *p, void *ret)
{
	return percpu_stats_open_at(s->region, at, p->fields->n * sizeof(uint64_t), 1, p->flags,
				    ret);
}

static int stats_attach(struct percpu_segment *s, uint64_t key, size_t fields, void *ret)
{
	return percpu_stats_attach(s->region, key, fields * sizeof(uint64_t), 1, 0, ret);
}

static void stats_detach(void *handle)
{
	percpu_stats_detach(handle);
}

static int stats_reset(void *handle)
{
	uint64_t counts[PERCPU_STATS_MAX_COMMIT];

	return percpu_stats_fetch_zero(handle, 0, 1, counts);
}

static void stats_write(unsigned flags, struct percpu_words *out)
{
	strcpy(out->text, flags & PERCPU_STATS_WHOLE ? "statistics with PERCPU_STATS_WHOLE" :
						       "statistics without PERCPU_STATS_WHOLE");
}

static void stats_describe(const void *handle, struct percpu_words *out)
{
	const struct percpu_stats *t = handle;

	stats_write(t->flags, out);
}

static void stats_describe_asked(const struct percpu_parameters *p, struct percpu_words *out)
{
	stats_write(p->flags, out);
}

static struct percpu_cells stats_find(const void *handle)
{
	const struct percpu_stats *t = handle;
	struct percpu_cells c =
		percpu_cells_at(t->block.base, 0, 2 * t->banks,
				t->head != 0 ? PERCPU_GATHER_STATS : PERCPU_GATHER_WORDS);

	c.bias_at = (uint32_t)percpu_stats_offset(t, 0);
	c.bias = (uint32_t)(t->words * sizeof(uint64_t));
	c.part.unit = t->head != 0 ? (uint32_t)t->banks : 0;
	c.part.object = t->head != 0 ? t : NULL;
	return c;
}

const struct percpu_kind_row percpu_kind_stats = {
	.name = "statistics",
	.ending = "_total",
	.series = percpu_series_of_counters,
	.flags = PERCPU_STATS_WHOLE,
	.has_fields = true,
	.open = stats_open,
	.attach = stats_attach,
	.detach = stats_detach,
	.reset = stats_reset,
	.describe = stats_describe,
	.describe_asked = stats_describe_asked,
	.find_cells = stats_find,
};
