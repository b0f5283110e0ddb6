/* SPDX-License-Identifier: MIT */
/*
 * kinds_number.c - kinds of metrics whose value is one number that no process owns.
 */
#include "segment.h"

/* Counters. */

static int counter_open(struct percpu_segment *s, struct percpu_anchor *at,
			const struct percpu_parameters *p, void *ret)
{
	(void)p;
	return percpu_counter_open_at(s->region, at, ret);
}

static int counter_attach(struct percpu_segment *s, uint64_t key, size_t fields, void *ret)
{
	(void)fields;
	return percpu_counter_attach(s->region, key, ret);
}

static int counter_reset(void *handle)
{
	percpu_counter_zero(handle);
	return 0;
}

static struct percpu_cells counter_find(const void *handle)
{
	return percpu_cells_at(handle, 0, sizeof(uint64_t), PERCPU_GATHER_WORDS);
}

static int counter_read(const void *handle, double *ret)
{
	*ret = (double)percpu_counter_fetch(handle);
	return 0;
}

const struct percpu_kind_row percpu_kind_counter = {
	.name = "a counter",
	.ending = "_total",
	.series = percpu_series_of_counters,
	.in_families = true,
	.has_exemplars = true,
	.open = counter_open,
	.attach = counter_attach,
	.reset = counter_reset,
	.find_cells = counter_find,
	.read_number = counter_read,
};

/* Counters of doubles. */

static int fcounter_open(struct percpu_segment *s, struct percpu_anchor *at,
			 const struct percpu_parameters *p, void *ret)
{
	(void)p;
	return percpu_fcounter_open_at(s->region, at, ret);
}

static int fcounter_attach(struct percpu_segment *s, uint64_t key, size_t fields, void *ret)
{
	(void)fields;
	return percpu_fcounter_attach(s->region, key, ret);
}

static int fcounter_reset(void *handle)
{
	percpu_fcounter_zero(handle);
	return 0;
}

static struct percpu_cells fcounter_find(const void *handle)
{
	return percpu_cells_at(handle, 0, sizeof(uint64_t), PERCPU_GATHER_DOUBLES);
}

static int fcounter_read(const void *handle, double *ret)
{
	*ret = percpu_fcounter_fetch(handle);
	return 0;
}

const struct percpu_kind_row percpu_kind_fcounter = {
	.name = "a counter of doubles",
	.ending = "_total",
	.series = percpu_series_of_counters,
	.in_families = true,
	.has_exemplars = true,
	.open = fcounter_open,
	.attach = fcounter_attach,
	.reset = fcounter_reset,
	.find_cells = fcounter_find,
	.read_number = fcounter_read,
};

/* Gauges. */

/* Say so before the name is taken. */
static int gauge_check(const char *name, const struct percpu_record_copy *asked,
		       const struct percpu_parameters *p, struct percpu_reason *why)
{
	(void)asked;
	(void)p;
	return percpu_pair_is_atomic() ? 0 :
					 percpu_reason_set(why, -ENOTSUP,
							   "%s: this process cannot have such a "
							   "metric in a file",
							   name);
}

static int gauge_open(struct percpu_segment *s, struct percpu_anchor *at,
		      const struct percpu_parameters *p, void *ret)
{
	(void)p;
	return percpu_gauge_open_at(s->region, at, ret);
}

static int gauge_attach(struct percpu_segment *s, uint64_t key, size_t fields, void *ret)
{
	(void)fields;
	return percpu_gauge_attach(s->region, key, ret);
}

static int gauge_reset(void *handle)
{
	return percpu_gauge_set(handle, 0);
}

/* With the second word of a cell, which is always 0, adjacent gauges are one part. */
static struct percpu_cells gauge_find(const void *handle)
{
	return percpu_cells_at(handle, 0, sizeof(struct percpu_pair_value), PERCPU_GATHER_WORDS);
}

static int gauge_read(const void *handle, double *ret)
{
	*ret = (double)percpu_gauge_fetch(handle);
	return 0;
}

const struct percpu_kind_row percpu_kind_gauge = {
	.name = "a gauge",
	.ending = "",
	.series = percpu_series_of_gauges,
	.in_families = true,
	.check = gauge_check,
	.open = gauge_open,
	.attach = gauge_attach,
	.reset = gauge_reset,
	.find_cells = gauge_find,
	.read_number = gauge_read,
};

/* Gauges of doubles. */

static int fgauge_open(struct percpu_segment *s, struct percpu_anchor *at,
		       const struct percpu_parameters *p, void *ret)
{
	(void)p;
	return percpu_fgauge_open_at(s->region, at, ret);
}

static int fgauge_attach(struct percpu_segment *s, uint64_t key, size_t fields, void *ret)
{
	(void)fields;
	return percpu_fgauge_attach(s->region, key, ret);
}

static int fgauge_reset(void *handle)
{
	return percpu_fgauge_set(handle, 0);
}

static struct percpu_cells fgauge_find(const void *handle)
{
	struct percpu_cells c = percpu_cells_at(handle, 0, sizeof(uint64_t), PERCPU_GATHER_DOUBLES);

	c.bias = sizeof(struct percpu_double_bias);
	return c;
}

static int fgauge_read(const void *handle, double *ret)
{
	*ret = percpu_fgauge_fetch(handle);
	return 0;
}

const struct percpu_kind_row percpu_kind_fgauge = {
	.name = "a gauge of doubles",
	.ending = "",
	.series = percpu_series_of_gauges,
	.in_families = true,
	.check = gauge_check,
	.open = fgauge_open,
	.attach = fgauge_attach,
	.reset = fgauge_reset,
	.find_cells = fgauge_find,
	.read_number = fgauge_read,
};

/* Latest values. A reset leaves them: they are no counts. */

static int latest_open(struct percpu_segment *s, struct percpu_anchor *at,
		       const struct percpu_parameters *p, void *ret)
{
	(void)p;
	return percpu_latest_open_at(s->region, at, ret);
}

static int latest_attach(struct percpu_segment *s, uint64_t key, size_t fields, void *ret)
{
	(void)fields;
	return percpu_latest_attach(s->region, key, ret);
}

static int latest_clear(void *handle)
{
	return percpu_latest_clear(handle);
}

/* The value is in the bias lane alone. */
static struct percpu_cells latest_find(const void *handle)
{
	struct percpu_cells c =
		percpu_cells_at(handle, 0, sizeof(struct percpu_pair_value), PERCPU_GATHER_WORDS);

	c.part.bytes = 0;
	return c;
}

static int latest_read(const void *handle, double *ret)
{
	return percpu_latest_fetch(handle, ret, NULL);
}

const struct percpu_kind_row percpu_kind_latest = {
	.name = "a latest value",
	.ending = "",
	.series = percpu_series_of_gauges,
	.in_families = true,
	.check = gauge_check,
	.open = latest_open,
	.attach = latest_attach,
	.clear = latest_clear,
	.find_cells = latest_find,
	.read_number = latest_read,
};

/* Infos: the object is a word that no process uses. */

static int info_open(struct percpu_segment *s, struct percpu_anchor *at,
		     const struct percpu_parameters *p, void *ret)
{
	struct percpu_plan plan = { .size = sizeof(uint64_t), .align = sizeof(uint64_t) };

	(void)p;
	return percpu_block_open_at(s->region, at, &plan, ret);
}

static int info_attach(struct percpu_segment *s, uint64_t key, size_t fields, void *ret)
{
	(void)s;
	(void)key;
	(void)fields;
	*(void **)ret = NULL;
	return 0;
}

static int info_read(const void *handle, double *ret)
{
	(void)handle;
	*ret = 1;
	return 0;
}

const struct percpu_kind_row percpu_kind_info = {
	.name = "an info",
	.ending = "_info",
	.series = percpu_series_of_infos,
	.has_no_value = true,
	.open = info_open,
	.attach = info_attach,
	.read_number = info_read,
};
