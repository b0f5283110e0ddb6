/* SPDX-License-Identifier: MIT */
/*
 * kinds.c - the table of kinds of metrics, and what is done with any of them.
 */
#include <string.h>

#include "segment.h"

/* What the names of series end in, as exposition formats have them, beside the metric's own name. */
const char *const percpu_series_of_counters[] = { "_total", NULL };
const char *const percpu_series_of_gauges[] = { NULL };
const char *const percpu_series_of_infos[] = { "_info", NULL };
const char *const percpu_series_of_histograms[] = { "_bucket", "_count", "_sum", NULL };

static const struct percpu_kind_row *const kinds[] = {
	[PERCPU_METRIC_COUNTER] = &percpu_kind_counter,
	[PERCPU_METRIC_FCOUNTER] = &percpu_kind_fcounter,
	[PERCPU_METRIC_GAUGE] = &percpu_kind_gauge,
	[PERCPU_METRIC_FGAUGE] = &percpu_kind_fgauge,
	[PERCPU_METRIC_LATEST] = &percpu_kind_latest,
	[PERCPU_METRIC_HISTOGRAM] = &percpu_kind_histogram,
	[PERCPU_METRIC_EXTREMA] = &percpu_kind_extrema,
	[PERCPU_METRIC_OWNED_GAUGE] = &percpu_kind_owned_gauge,
	[PERCPU_METRIC_OWNED_FGAUGE] = &percpu_kind_owned_fgauge,
	[PERCPU_METRIC_INFO] = &percpu_kind_info,
	[PERCPU_METRIC_STATS] = &percpu_kind_stats,
};

const struct percpu_kind_row *percpu_kind_of(unsigned kind)
{
	return kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[kind] : NULL;
}

void percpu_kind_detach(unsigned kind, void *handle)
{
	const struct percpu_kind_row *k = percpu_kind_of(kind);

	if (k->detach != NULL)
		k->detach(handle);
}

struct percpu_cells percpu_cells_at(const void *cell, size_t offset, size_t bytes,
				    enum percpu_gather gather)
{
	const struct percpu_chunk *k = percpu_chunk_of(cell);
	const uint32_t at = (uint32_t)((size_t)((const char *)cell - k->base) + offset);

	return (struct percpu_cells){
		.part = { .chunk = k->index,
			  .offset = at,
			  .bytes = (uint32_t)bytes,
			  .gather = gather },
		.bias = (uint32_t)bytes,
		.bias_at = at,
	};
}

int percpu_parameters_check(const char *name, const struct percpu_record_copy *asked,
			    const struct percpu_parameters *p, struct percpu_reason *why)
{
	const unsigned kind = asked->head.kind;
	const struct percpu_kind_row *k = percpu_kind_of(kind);

	if (p->histogram != NULL && kind != PERCPU_METRIC_HISTOGRAM)
		return percpu_reason_set(why, -EINVAL, "%s: options of a histogram are not for %s",
					 name, k->name);
	if (p->fields != NULL && !k->has_fields)
		return percpu_reason_set(why, -EINVAL, "%s: fields are not for %s", name, k->name);
	if ((p->flags & ~k->flags) != 0)
		return percpu_reason_set(why, -EINVAL, "%s: flags %#x are not known of %s", name,
					 p->flags & ~k->flags, k->name);
	return k->check != NULL ? k->check(name, asked, p, why) : 0;
}

bool percpu_parameters_differ(struct percpu_segment *s, unsigned kind, uint64_t key,
			      const struct percpu_parameters *p, struct percpu_words *has,
			      struct percpu_words *wants)
{
	const struct percpu_kind_row *k = percpu_kind_of(kind);
	const size_t fields = k->has_fields ? p->fields->n : 0;
	void *handle;

	if (k->describe == NULL || k->attach(s, key, fields, &handle) != 0)
		return false;
	k->describe(handle, has);
	k->describe_asked(p, wants);
	if (k->describe_both != NULL && strcmp(has->text, wants->text) == 0)
		k->describe_both(handle, p, has, wants);
	percpu_kind_detach(kind, handle);
	return strcmp(has->text, wants->text) != 0;
}
