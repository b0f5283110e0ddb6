/* SPDX-License-Identifier: MIT */
/*
 * gauge.c - gauges of integers and of doubles, and latest values. A gauge is a counter that can be
 * set. A latest value uses the bias lane only.
 *
 * A thread that sets a gauge sums the lanes, and then replaces the bias by the sum minus the new
 * level. Another thread may set the gauge in between and leave the same bias, if the gauge had
 * that level already. So the number of sets is stored beside the bias, and one compare-and-swap
 * changes both. memory/double.c does the same for doubles.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "counts.h"

static const struct percpu_plan plan_gauge = {
	.kind = PERCPU_KIND_GAUGE,
	.size = sizeof(struct percpu_pair_value),
	.touched = sizeof(uint64_t),
	.align = sizeof(struct percpu_pair_value),
};

static const struct percpu_plan plan_fgauge = {
	.kind = PERCPU_KIND_FGAUGE,
	.size = sizeof(struct percpu_double_bias),
	.touched = sizeof(double),
	.align = sizeof(struct percpu_pair_value),
};

static const struct percpu_plan plan_latest = {
	.kind = PERCPU_KIND_LATEST,
	.size = sizeof(struct percpu_pair_value),
	.align = sizeof(struct percpu_pair_value),
};

/* Return 0 if a gauge can be in the region. percpu_chunk_of() needs the default geometry. Processes
 * that change pairs in different ways must not share a gauge. */
static int check_region(const struct percpu_region *r, const void *ret)
{
	if (r == NULL || ret == NULL || !percpu_region_has_default_lanes(r))
		return -EINVAL;
	if (r->shared && !percpu_pair_is_atomic())
		return -ENOTSUP;
	return 0;
}

static int create_gauge_in(struct percpu_region *r, const struct percpu_plan *p, void *ret)
{
	int e = check_region(r, ret);

	return e != 0 ? e : percpu_block_create_in(r, p, ret);
}

static int open_gauge(struct percpu_region *r, unsigned root, struct percpu_plan p, void *ret)
{
	int e = check_region(r, ret);

	return e != 0 ? e : percpu_block_open(r, root, &p, ret);
}

static int open_gauge_at(struct percpu_region *r, struct percpu_anchor *at, struct percpu_plan p,
			 void *ret)
{
	int e = check_region(r, ret);

	return e != 0 ? e : percpu_block_open_at(r, at, &p, ret);
}

static int attach_gauge(struct percpu_region *r, uint64_t key, struct percpu_plan p, void *ret)
{
	int e = check_region(r, ret);

	return e != 0 ? e : percpu_block_attach(r, key, &p, ret);
}

static uint64_t key_of_gauge(const void *g, const struct percpu_plan *p)
{
	return g != NULL ? percpu_region_object_key(percpu_chunk_of(g), p->kind, g) : 0;
}

static void destroy_gauge(void *g, const struct percpu_plan *p)
{
	struct percpu_region *r = g != NULL ? percpu_region_find(g) : NULL;

	if (r != NULL && percpu_region_has_default_lanes(r))
		(void)percpu_region_free(r, g, p->size);
}

static size_t gauge_offset(const struct percpu_chunk *k, const void *g)
{
	return (size_t)((const char *)g - k->base);
}

int percpu_gauge_open_at(struct percpu_region *r, struct percpu_anchor *at,
			 struct percpu_gauge **ret)
{
	return open_gauge_at(r, at, plan_gauge, ret);
}

int percpu_fgauge_open_at(struct percpu_region *r, struct percpu_anchor *at,
			  struct percpu_fgauge **ret)
{
	return open_gauge_at(r, at, plan_fgauge, ret);
}

int percpu_latest_open_at(struct percpu_region *r, struct percpu_anchor *at,
			  struct percpu_latest **ret)
{
	return open_gauge_at(r, at, plan_latest, ret);
}

/* Gauges of integers */

int percpu_gauge_create(struct percpu_gauge **ret)
{
	return percpu_block_create(&plan_gauge, ret);
}

int percpu_gauge_create_in(struct percpu_region *r, struct percpu_gauge **ret)
{
	return create_gauge_in(r, &plan_gauge, ret);
}

int percpu_gauge_open(struct percpu_region *r, unsigned root, struct percpu_gauge **ret)
{
	return open_gauge(r, root, plan_gauge, ret);
}

int percpu_gauge_attach(struct percpu_region *r, uint64_t key, struct percpu_gauge **ret)
{
	return attach_gauge(r, key, plan_gauge, ret);
}

void percpu_gauge_detach(struct percpu_gauge *g)
{
	(void)g; /* the handle has no memory */
}

uint64_t percpu_gauge_key(const struct percpu_gauge *g)
{
	return key_of_gauge(g, &plan_gauge);
}

void percpu_gauge_destroy(struct percpu_gauge *g)
{
	destroy_gauge(g, &plan_gauge);
}

int percpu_gauge_set(struct percpu_gauge *g, int64_t v)
{
	struct percpu_pair_value old, new;
	struct percpu_chunk *k;
	size_t bias, offset;
	int e;

	if (g == NULL)
		return -EINVAL;
	k = percpu_chunk_of(g);
	if (!k->region->writable)
		return -EROFS;
	bias = percpu_chunk_bias_lane(k);
	offset = gauge_offset(k, g);
	e = percpu_pair_load(k, bias, offset, &old);
	if (e != 0)
		return e;
	do {
		new.first = percpu_chunk_sum_lanes(k, offset) - (uint64_t)v;
		new.second = old.second + 1;
		PERCPU_STEP("lanes summed");
		e = percpu_pair_cmpxchg(k, bias, offset, &old, new);
	} while (e == -EAGAIN);
	return e;
}

int64_t percpu_gauge_fetch(const struct percpu_gauge *g)
{
	const struct percpu_chunk *k;

	if (g == NULL)
		return 0;
	k = percpu_chunk_of(g);
	return (int64_t)percpu_chunk_sum(k, gauge_offset(k, g));
}

/* Gauges of doubles */

int percpu_fgauge_create(struct percpu_fgauge **ret)
{
	return percpu_block_create(&plan_fgauge, ret);
}

int percpu_fgauge_create_in(struct percpu_region *r, struct percpu_fgauge **ret)
{
	return create_gauge_in(r, &plan_fgauge, ret);
}

int percpu_fgauge_open(struct percpu_region *r, unsigned root, struct percpu_fgauge **ret)
{
	return open_gauge(r, root, plan_fgauge, ret);
}

int percpu_fgauge_attach(struct percpu_region *r, uint64_t key, struct percpu_fgauge **ret)
{
	return attach_gauge(r, key, plan_fgauge, ret);
}

void percpu_fgauge_detach(struct percpu_fgauge *g)
{
	(void)g;
}

uint64_t percpu_fgauge_key(const struct percpu_fgauge *g)
{
	return key_of_gauge(g, &plan_fgauge);
}

void percpu_fgauge_destroy(struct percpu_fgauge *g)
{
	destroy_gauge(g, &plan_fgauge);
}

int percpu_fgauge_set(struct percpu_fgauge *g, double v)
{
	struct percpu_chunk *k;

	if (g == NULL)
		return -EINVAL;
	k = percpu_chunk_of(g);
	return k->region->writable ? percpu_double_set(k, gauge_offset(k, g), v) : -EROFS;
}

double percpu_fgauge_fetch(const struct percpu_fgauge *g)
{
	struct percpu_chunk *k;

	if (g == NULL)
		return 0;
	k = percpu_chunk_of(g);
	return percpu_double_level(k, gauge_offset(k, g));
}

/* Latest values */

int percpu_latest_create(struct percpu_latest **ret)
{
	return percpu_block_create(&plan_latest, ret);
}

int percpu_latest_create_in(struct percpu_region *r, struct percpu_latest **ret)
{
	return create_gauge_in(r, &plan_latest, ret);
}

int percpu_latest_open(struct percpu_region *r, unsigned root, struct percpu_latest **ret)
{
	return open_gauge(r, root, plan_latest, ret);
}

int percpu_latest_attach(struct percpu_region *r, uint64_t key, struct percpu_latest **ret)
{
	return attach_gauge(r, key, plan_latest, ret);
}

void percpu_latest_detach(struct percpu_latest *l)
{
	(void)l;
}

uint64_t percpu_latest_key(const struct percpu_latest *l)
{
	return key_of_gauge(l, &plan_latest);
}

void percpu_latest_destroy(struct percpu_latest *l)
{
	destroy_gauge(l, &plan_latest);
}

/* Read the time after the old pair was loaded, and store it only if the pair is unchanged. So the
 * order of the times is the order of the sets. */
static int set_latest(struct percpu_latest *l, uint64_t v, bool clears)
{
	struct percpu_chunk *k = percpu_chunk_of(l);
	const size_t bias = percpu_chunk_bias_lane(k), offset = gauge_offset(k, l);
	struct percpu_pair_value old, new = { v, 0 };
	int e = percpu_pair_load(k, bias, offset, &old);

	if (e != 0)
		return e;
	do {
		if (!clears)
			new.second = percpu_clock_ns(CLOCK_REALTIME);
		PERCPU_STEP("latest: time read");
		e = percpu_pair_cmpxchg(k, bias, offset, &old, new);
	} while (e == -EAGAIN);
	return e;
}

int percpu_latest_set(struct percpu_latest *l, double v)
{
	uint64_t word;

	if (l == NULL)
		return -EINVAL;
	if (!percpu_chunk_of(l)->region->writable)
		return -EROFS;
	memcpy(&word, &v, sizeof(v));
	return set_latest(l, word, false);
}

int percpu_latest_clear(struct percpu_latest *l)
{
	return set_latest(l, 0, true);
}

int percpu_latest_fetch(const struct percpu_latest *l, double *ret, uint64_t *ret_ns)
{
	struct percpu_pair_value v;
	struct percpu_chunk *k;
	int e;

	if (l == NULL || (ret == NULL && ret_ns == NULL))
		return -EINVAL;
	k = percpu_chunk_of(l);
	e = percpu_pair_load(k, percpu_chunk_bias_lane(k), gauge_offset(k, l), &v);
	if (e == 0 && v.second == 0)
		e = -ENODATA;
	if (e != 0)
		return e;
	if (ret != NULL)
		memcpy(ret, &v.first, sizeof(*ret));
	if (ret_ns != NULL)
		*ret_ns = v.second;
	return 0;
}
