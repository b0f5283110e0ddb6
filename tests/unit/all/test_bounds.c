/* SPDX-License-Identifier: MIT */
/*
 * test_bounds.c - each limit that a public header documents: what the call returns below it, at
 * it and above it. tools/dev/bounds.py compares the table with the headers: each documented
 * limit has a row here, or a reason for having none.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/critical.h>
#include <percpu/local.h>
#include <percpu/lwbuf.h>
#include <percpu/section.h>
#include <percpu/objcache.h>
#include <percpu/percpu.h>
#include <percpu/rate.h>
#include <percpu/ref.h>
#include <percpu/ring.h>
#include <percpu/seq.h>
#include <percpu/wbuf.h>
#include <percpu/xio.h>
#include <percpu/zone.h>

#include "declared.h"
#include "support.h"

#include "segment/segment.h"
#include "../segments.h"

#define NONE 1000 /* there is no such thing on this machine */

/* A limit: the header, its words, and what a call returns for a value below it, at it, and above
 * it. */
struct bound {
	const char *header, *words;
	int (*call)(int64_t value);
	const char *what; /* meaning of the value */
	int64_t value[3];
	int result[3];
	bool huge; /* accepted values may need more address space than there is */
};

static struct percpu_region *region; /* of the default lane size, in a file */
static struct percpu_segment *segment;

/* Return the double next to the limit on that side, or the limit itself. It is not negative. */
static double beside(double limit, int64_t side)
{
	uint64_t bits;

	if (limit == 0)
		return (double)side * 0x1p-1074;
	memcpy(&bits, &limit, sizeof(bits));
	bits += (uint64_t)side;
	memcpy(&limit, &bits, sizeof(bits));
	return limit;
}

static int cpus_of_region(int64_t n)
{
	struct percpu_region_options o = { .size = sizeof(o), .cpus = (uint32_t)n };
	size_t size;

	return percpu_region_memory_size(&o, &size);
}

static int lane_of_region(int64_t size)
{
	struct percpu_region_options o = { .size = sizeof(o), .lane_size = (size_t)size };
	struct percpu_region *r;
	int e = percpu_region_create(&o, &r);

	if (e == 0)
		percpu_region_close(r);
	return e;
}

static int memory_of_region(int64_t missing)
{
	struct percpu_region_options o = { .size = sizeof(o) };
	struct percpu_region *r;
	size_t size;
	int e;

	assert_int_equal(percpu_region_memory_size(&o, &size), 0);
	o.memory = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(o.memory != MAP_FAILED);
	munmap(o.memory, -(uintptr_t)o.memory % PERCPU_REGION_MEMORY_ALIGN);
	o.memory = (char *)o.memory + -(uintptr_t)o.memory % PERCPU_REGION_MEMORY_ALIGN;
	o.memory_size = (size_t)((int64_t)size + missing);
	e = percpu_region_create(&o, &r);
	if (e == 0)
		percpu_region_close(r);
	munmap(o.memory, size);
	return e;
}

static int section_item(size_t size, size_t align)
{
	void *item = percpu_section_alloc(size, align);

	percpu_section_free(item);
	return item != NULL ? 0 : -EINVAL;
}

static int section_align(int64_t align)
{
	return section_item(8, (size_t)align);
}

static int section_size(int64_t size)
{
	return section_item((size_t)size, 8);
}

static int alloc_cell(size_t size, size_t align)
{
	void *cell;
	int e = percpu_region_alloc(region, size, align, &cell);

	return e != 0 ? e : percpu_region_free(region, cell, size);
}

static int size_of_cell(int64_t size)
{
	return alloc_cell((size_t)size, 8);
}

static int align_of_cell(int64_t align)
{
	return alloc_cell(8, (size_t)align);
}

static int set_root(int64_t root)
{
	uint64_t was = percpu_region_root(region, (unsigned)root);

	return percpu_region_set_root(region, (unsigned)root, was, was);
}

static int open_at_root(int64_t root)
{
	struct percpu_counter *c;
	int e = percpu_counter_open(region, (unsigned)root, &c);

	if (e != 0)
		return e;
	assert_int_equal(percpu_region_set_root(region, (unsigned)root, percpu_counter_key(c), 0),
			 0);
	percpu_counter_destroy(c);
	return 0;
}

/* Counters, and sets of them. */

static int array_create(int64_t n)
{
	struct percpu_counter_array *a;
	int e = percpu_counter_array_create((size_t)n, &a);

	if (e == 0)
		percpu_counter_array_destroy(a);
	return e;
}

static int array_create_in(int64_t n)
{
	struct percpu_counter_array *a;
	int e = percpu_counter_array_create_in(region, (size_t)n, &a);

	if (e == 0)
		percpu_counter_array_destroy(a);
	return e;
}

static int array_open(int64_t n)
{
	struct percpu_counter_array *a;
	int e = percpu_counter_array_open(region, 3, (size_t)n, &a);

	if (e != 0)
		return e;
	assert_int_equal(percpu_region_set_root(region, 3, percpu_region_root(region, 3), 0), 0);
	percpu_counter_array_destroy(a);
	return 0;
}

static int array_attach(int64_t n)
{
	struct percpu_counter_array *a;

	return percpu_counter_array_attach(region, 0, (size_t)n, &a);
}

static int farray_create(int64_t n)
{
	struct percpu_fcounter_array *a;
	int e = percpu_fcounter_array_create((size_t)n, &a);

	if (e == 0)
		percpu_fcounter_array_destroy(a);
	return e;
}

static int farray_create_in(int64_t n)
{
	struct percpu_fcounter_array *a;
	int e = percpu_fcounter_array_create_in(region, (size_t)n, &a);

	if (e == 0)
		percpu_fcounter_array_destroy(a);
	return e;
}

static int farray_attach(int64_t n)
{
	struct percpu_fcounter_array *a;

	return percpu_fcounter_array_attach(region, 0, (size_t)n, &a);
}

static int compact_create(int64_t n)
{
	struct percpu_compact *c;
	int e = percpu_compact_create((size_t)n, &c);

	if (e == 0)
		percpu_compact_destroy(c);
	return e;
}

static int compact_create_in(int64_t n)
{
	struct percpu_compact *c;
	int e = percpu_compact_create_in(region, (size_t)n, &c);

	if (e == 0)
		percpu_compact_destroy(c);
	return e;
}

static int compact_attach(int64_t n)
{
	struct percpu_compact *c;

	return percpu_compact_attach(region, 0, (size_t)n, &c);
}

static int fcounter_add(int64_t side)
{
	struct percpu_fcounter *c;
	int e;

	assert_int_equal(percpu_fcounter_create(&c), 0);
	e = percpu_fcounter_add(c, beside(0x1p1000, side));
	assert_true(percpu_fcounter_fetch(c) == (e == 0 ? beside(0x1p1000, side) : 0));
	percpu_fcounter_destroy(c);
	return e;
}

static int fcounter_sub(int64_t side)
{
	struct percpu_fcounter *c;
	int e;

	assert_int_equal(percpu_fcounter_create(&c), 0);
	e = percpu_fcounter_add(c, -beside(0x1p1000, side));
	percpu_fcounter_destroy(c);
	return e;
}

static int fgauge_set_sign(double sign, int64_t side)
{
	struct percpu_fgauge *g;
	int e;

	assert_int_equal(percpu_fgauge_create(&g), 0);
	e = percpu_fgauge_set(g, sign * beside(0x1p1000, side));
	assert_true(percpu_fgauge_fetch(g) == (e == 0 ? sign * beside(0x1p1000, side) : 0));
	percpu_fgauge_destroy(g);
	return e;
}

static int fgauge_set(int64_t side)
{
	return fgauge_set_sign(1, side);
}

static int fgauge_set_negative(int64_t side)
{
	return fgauge_set_sign(-1, side);
}

static struct percpu_owned_fgauge *owned_fgauge(void)
{
	struct percpu_owned_fgauge *g;

	assert_int_equal(
		percpu_segment_owned_fgauge(segment, METRIC("share"), PERCPU_OWNED_SUM, &g), 0);
	assert_int_equal(percpu_owned_fgauge_set(g, 0), 0);
	return g;
}

static int owned_set(int64_t side)
{
	return WIDE ? percpu_owned_fgauge_set(owned_fgauge(), beside(0x1p1000, side)) : NONE;
}

static int owned_add(int64_t side)
{
	return WIDE ? percpu_owned_fgauge_add(owned_fgauge(), -beside(0x1p1000, side)) : NONE;
}

static int approx_batch(int64_t batch)
{
	struct percpu_approx_options o = { .size = sizeof(o), .batch = batch };
	struct percpu_approx *a;
	int e = percpu_approx_create(&o, &a);

	if (e == 0)
		percpu_approx_destroy(a);
	return e;
}

static int approx_limit(int64_t limit)
{
	struct percpu_approx *a;
	int e;

	assert_int_equal(percpu_approx_create(NULL, &a), 0);
	percpu_approx_add(a, 5);
	e = percpu_approx_add_below(a, 3, limit);
	assert_int_equal(percpu_approx_fetch(a), e == 0 ? 8 : 5);
	percpu_approx_destroy(a);
	return e;
}

static int approx_limit_of_empty(int64_t limit)
{
	struct percpu_approx *a;
	int e;

	assert_int_equal(percpu_approx_create(NULL, &a), 0);
	e = percpu_approx_add_below(a, 1, limit);
	percpu_approx_destroy(a);
	return e;
}

static int rate_of(int64_t limit, int64_t period)
{
	struct percpu_rate *r;
	int e = percpu_rate_create(limit, period, &r);

	if (e == 0)
		percpu_rate_destroy(r);
	return e;
}

static int rate_limit(int64_t limit)
{
	return rate_of(limit, 1);
}

static int rate_period(int64_t period)
{
	return rate_of(1, period);
}

static int rate_set(int64_t limit)
{
	struct percpu_rate *r;
	int e;

	assert_int_equal(percpu_rate_create(7, 1, &r), 0);
	e = percpu_rate_set_limit(r, limit);
	assert_int_equal(percpu_rate_limit(r), e == 0 ? limit : 7);
	percpu_rate_destroy(r);
	return e;
}

/* Histograms. */

static int histogram_of(const struct percpu_histogram_options *o)
{
	struct percpu_histogram *h;
	int e = percpu_histogram_create(o, &h);

	if (e == 0)
		percpu_histogram_destroy(h);
	return e;
}

static int histogram_min(int64_t side)
{
	return histogram_of(&(struct percpu_histogram_options){
		.size = sizeof(struct percpu_histogram_options), .min = beside(0x1p-1000, side) });
}

static int histogram_max(int64_t side)
{
	return histogram_of(&(struct percpu_histogram_options){
		.size = sizeof(struct percpu_histogram_options), .max = beside(0x1p960, side) });
}

static int histogram_max_ticks(int64_t ticks)
{
	return histogram_of(
		&(struct percpu_histogram_options){ .size = sizeof(struct percpu_histogram_options),
						    .max = (double)ticks,
						    .ticks_per_unit = 1 });
}

static int histogram_octave(int64_t buckets)
{
	return histogram_of(
		&(struct percpu_histogram_options){ .size = sizeof(struct percpu_histogram_options),
						    .buckets_per_octave = (uint32_t)buckets });
}

/* The most whose cells fit into a lane beside the head: 30 octaves of 8 buckets each, an
 * underflow, an overflow and a count of refused values, each of 16 bytes. */
static int histograms_in_lane(int64_t n)
{
	struct percpu_histogram_options o = { .size = sizeof(o), .n = (size_t)n };
	struct percpu_histogram *h;
	int e = percpu_histogram_create_in(region, &o, &h);

	if (e == 0)
		percpu_histogram_destroy(h);
	return e;
}

/* Each has 512 bytes: 29 octaves of one bucket, an underflow, an overflow and a count of refused
 * values. */
static int many_histograms(int64_t n)
{
	return histogram_of(
		&(struct percpu_histogram_options){ .size = sizeof(struct percpu_histogram_options),
						    .n = (size_t)n,
						    .min = 1,
						    .max = 1 << 29,
						    .buckets_per_octave = 1 });
}

static int own_bounds(int64_t n)
{
	double bounds[PERCPU_HISTOGRAM_MAX_BOUNDS + 1];

	for (int i = 0; i <= PERCPU_HISTOGRAM_MAX_BOUNDS; i++)
		bounds[i] = i;
	return histogram_of(
		&(struct percpu_histogram_options){ .size = sizeof(struct percpu_histogram_options),
						    .bounds = bounds,
						    .bounds_n = (size_t)n });
}

static int own_bound(int64_t side)
{
	const double bound = beside(0x1p960, side);

	return histogram_of(&(struct percpu_histogram_options){
		.size = sizeof(struct percpu_histogram_options), .bounds = &bound, .bounds_n = 1 });
}

static int own_bound_below(int64_t side)
{
	const double bound = -beside(0x1p960, side);

	return histogram_of(&(struct percpu_histogram_options){
		.size = sizeof(struct percpu_histogram_options), .bounds = &bound, .bounds_n = 1 });
}

static int own_tick_bound(int64_t ticks)
{
	const double bound = (double)ticks;

	return histogram_of(
		&(struct percpu_histogram_options){ .size = sizeof(struct percpu_histogram_options),
						    .ticks_per_unit = 1,
						    .bounds = &bound,
						    .bounds_n = 1 });
}

static int refused_of(struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *s;
	int e;

	assert_int_equal(percpu_histogram_snapshot_create(h, &s), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
	e = s->refused != 0 ? -ERANGE : 0;
	assert_int_equal(s->count, e == 0);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
	return e;
}

static int record_negative(int64_t side)
{
	const double bound = 0;
	struct percpu_histogram_options o = { .size = sizeof(o), .bounds = &bound, .bounds_n = 1 };
	struct percpu_histogram *h;

	assert_int_equal(percpu_histogram_create(&o, &h), 0);
	percpu_histogram_record(h, -beside(0x1p960, side));
	return refused_of(h);
}

static int record_value(int64_t side)
{
	struct percpu_histogram *h;

	assert_int_equal(percpu_histogram_create(NULL, &h), 0);
	percpu_histogram_record(h, beside(0x1p960, side));
	return refused_of(h);
}

static int record_ticks(int64_t beyond)
{
	struct percpu_histogram_options o = { .size = sizeof(o), .ticks_per_unit = 1000 };
	struct percpu_histogram *h;

	assert_int_equal(percpu_histogram_create(&o, &h), 0);
	percpu_histogram_record_ticks(h, (UINT64_C(1) << 63) + (uint64_t)beyond);
	return refused_of(h);
}

static int bound_of_schema(int64_t schema)
{
	return percpu_histogram_bound((int)schema, 1) != 0 ? 0 : -EINVAL;
}

/* Return a snapshot of a histogram in which one value was recorded. */
static struct percpu_histogram_snapshot *one_value(void)
{
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h;

	assert_int_equal(percpu_histogram_create(NULL, &h), 0);
	percpu_histogram_record(h, 1.0);
	assert_int_equal(percpu_histogram_snapshot_create(h, &s), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
	percpu_histogram_destroy(h);
	return s;
}

static int quantile(double q)
{
	struct percpu_histogram_snapshot *s = one_value();
	struct percpu_histogram_quantile ret;
	int e = percpu_histogram_quantile(s, q, &ret);

	percpu_histogram_snapshot_destroy(s);
	return e;
}

static int least_quantile(int64_t side)
{
	return quantile(beside(0, side));
}

static int greatest_quantile(int64_t side)
{
	return quantile(beside(1, side));
}

static int fold_to(int64_t schema)
{
	struct percpu_histogram_snapshot *s = one_value(), *folded;
	int e = percpu_histogram_downscale(s, (int)schema, &folded);

	if (e == 0)
		percpu_histogram_snapshot_destroy(folded);
	percpu_histogram_snapshot_destroy(s);
	return e;
}

/* Merge one value into a bucket, which would then have 2^64 - 1 + side. */
static int merge_counts(int64_t side)
{
	struct percpu_histogram_snapshot *into = one_value(), *from = one_value();
	uint32_t i = 0;
	int e;

	while (into->bucket[i].count == 0)
		i++;
	into->count = into->bucket[i].count = UINT64_MAX - 1 + (uint64_t)side;
	into->sum = into->bucket[i].sum = (double)into->count;
	e = percpu_histogram_merge(into, from);
	percpu_histogram_snapshot_destroy(from);
	percpu_histogram_snapshot_destroy(into);
	return e;
}

/* Statistics, buffers, rings, pools. */

static int stats_of(size_t size, size_t n, unsigned flags)
{
	struct percpu_stats *s;
	int e = percpu_stats_create_in(region, size, n, flags, &s);

	if (e == 0)
		percpu_stats_destroy(s);
	return e;
}

static int stats_of_4(int64_t n)
{
	/* With shorter vectors they are in two copies. */
	return percpu_vector_words() >= 4 ? stats_of(4 * sizeof(uint64_t), (size_t)n, 0) : NONE;
}

static int stats_of_4_whole(int64_t n)
{
	return stats_of(4 * sizeof(uint64_t), (size_t)n, PERCPU_STATS_WHOLE);
}

static int whole_fields(int64_t fields)
{
	return stats_of((size_t)fields * sizeof(uint64_t), 1, PERCPU_STATS_WHOLE);
}

static int size_of_stats(int64_t size)
{
	return stats_of((size_t)size, 1, 0);
}

static int stats_create(int64_t n)
{
	struct percpu_stats *s;
	int e = percpu_stats_create(8, (size_t)n, 0, &s);

	if (e == 0)
		percpu_stats_destroy(s);
	return e;
}

static int group_of(size_t size, size_t totals, size_t n)
{
	struct percpu_stats_group *g;
	int e = percpu_stats_group_create_in(region, size, totals, n, &g);

	if (e == 0)
		percpu_stats_group_destroy(g);
	return e;
}

static int group_of_2(int64_t n)
{
	return group_of(2 * sizeof(uint64_t), 1, (size_t)n);
}

static int group_fields(int64_t fields)
{
	return group_of((size_t)fields * sizeof(uint64_t), 1, 1);
}

static int size_of_group(int64_t size)
{
	return group_of((size_t)size, 1, 1);
}

static int totals_of_group(int64_t totals)
{
	return group_of(8, (size_t)totals, 3);
}

static int group_create(int64_t n)
{
	struct percpu_stats_group *g;
	int e = percpu_stats_group_create(8, 1, (size_t)n, &g);

	if (e == 0)
		percpu_stats_group_destroy(g);
	return e;
}

static int update_fields(size_t first, size_t fields)
{
	static const uint64_t n[PERCPU_STATS_MAX_COMMIT + 1];
	struct percpu_stats *s;
	int e;

	assert_int_equal(percpu_stats_create(3 * 64 * sizeof(uint64_t), 1, 0, &s), 0);
	e = percpu_stats_update(s, 0, first, n, fields);
	percpu_stats_destroy(s);
	return e;
}

static int update_many(int64_t fields)
{
	return update_fields(0, (size_t)fields);
}

static int update_across(int64_t fields)
{
	return update_fields(60, (size_t)fields);
}

static int update_last(int64_t first)
{
	return update_fields((size_t)first, 1);
}

static int wbuf_entries(int64_t entries)
{
	struct percpu_wbuf_options o = { .size = sizeof(o), .entries = (size_t)entries };
	struct percpu_wbuf *w;
	int e = percpu_wbuf_create(&o, &w);

	if (e == 0)
		percpu_wbuf_destroy(w);
	return e;
}

static int wbuf_limit(int64_t limit)
{
	struct percpu_wbuf_options o = { .size = sizeof(o),
					 .entries = 4,
					 .flush_limit = (size_t)limit };
	struct percpu_wbuf *w;
	int e = percpu_wbuf_create(&o, &w);

	if (e == 0)
		percpu_wbuf_destroy(w);
	return e;
}

static int wbuf_adds(int64_t n)
{
	struct percpu_wbuf_options o = { .size = sizeof(o), .entries = 4 };
	uint64_t cell PERCPU_ALIGNED_WORD = 0;
	struct percpu_wbuf_entry adds[5];
	struct percpu_wbuf *w;
	int e;

	for (unsigned i = 0; i < 5; i++)
		adds[i] = percpu_wbuf_entry_u64(&cell, 1);
	assert_int_equal(percpu_wbuf_create(&o, &w), 0);
	e = percpu_wbuf_add_n(w, adds, (size_t)n);
	percpu_wbuf_flush(w);
	assert_int_equal(cell, e == 0 ? n : 0);
	percpu_wbuf_destroy(w);
	return e;
}

static int ring_of(int64_t size)
{
	struct percpu_ring *r;
	int e = percpu_ring_create((size_t)size, 0, &r);

	if (e == 0)
		percpu_ring_destroy(r);
	return e;
}

static int put_record(size_t ring_size, size_t size)
{
	static const char record[PERCPU_RING_MAX_RECORD + 1];
	struct percpu_ring *r;
	int e;

	assert_int_equal(percpu_ring_create(ring_size, 0, &r), 0);
	e = percpu_ring_put(r, record, size);
	percpu_ring_destroy(r);
	return e;
}

static int put_in_large_ring(int64_t size)
{
	return put_record(32768, (size_t)size);
}

/* Put a record of that size without a sequence. */
static int put_slowly(int64_t size)
{
	static const char record[PERCPU_RING_MIN];
	struct percpu_ring *r;
	int e;

	assert_int_equal(percpu_ring_create(PERCPU_RING_MIN, 0, &r), 0);
	e = percpu_ring_put_slow(r, record, (size_t)size);
	percpu_ring_destroy(r);
	return e;
}

static int put_in_small_ring(int64_t size)
{
	return put_record(PERCPU_RING_MIN, (size_t)size);
}

static int local_of(size_t size, enum percpu_local_fallback fallback)
{
	struct percpu_local *l;
	int e = percpu_local_create(size, fallback, &l);

	if (e == 0)
		percpu_local_destroy(l);
	return e;
}

static int critical_size(int64_t size)
{
	struct percpu_critical *c = NULL;
	int e = percpu_critical_create((size_t)size, &c);

	percpu_critical_destroy(c);
	return e;
}

static int local_size(int64_t size)
{
	return local_of((size_t)size, PERCPU_LOCAL_LOCK);
}

static int local_split(int64_t size)
{
	return local_of((size_t)size, PERCPU_LOCAL_SPLIT);
}

static int local_refs(int64_t size)
{
	return local_of((size_t)size, PERCPU_LOCAL_REFS);
}

static int local_limit(int64_t limit)
{
	struct percpu_local *l;
	int64_t sum;
	int e;

	test_pin(0, test_cpu(0));
	assert_int_equal(percpu_local_create(8, PERCPU_LOCAL_LOCK, &l), 0);
	assert_int_equal(percpu_local_add(l, 5), 0);
	e = percpu_local_add_limit(l, 3, limit, &sum);
	assert_int_equal(percpu_local_sum(l), e == 0 ? 8 : 5);
	percpu_local_destroy(l);
	test_unpin(0);
	return e;
}

static int local_push(int64_t items)
{
	struct percpu_local *l;
	int e = 0;

	test_pin(0, test_cpu(0));
	assert_int_equal(percpu_local_create(8 + 8 * 4, PERCPU_LOCAL_LOCK, &l), 0);
	for (int64_t i = 0; i < items && e == 0; i++)
		e = percpu_local_push(l, 4, &region);
	percpu_local_destroy(l);
	test_unpin(0);
	return e;
}

static int local_copy(int64_t words)
{
	static const uint64_t src[5];
	struct percpu_local *l;
	int e;

	assert_int_equal(percpu_local_create(16 + 8 * 4, PERCPU_LOCAL_LOCK, &l), 0);
	e = percpu_local_copy(l, 3, src, (uint64_t)words);
	percpu_local_destroy(l);
	return e;
}

static int zone_of(size_t size, size_t align)
{
	struct percpu_zone_options o = { .size = sizeof(o), .align = align };
	struct percpu_zone *z;
	int e = percpu_zone_create("bounds", size, &o, &z);

	return e != 0 ? e : percpu_zone_destroy(z);
}

static int zone_size(int64_t size)
{
	return zone_of((size_t)size, 8);
}

static int zone_align(int64_t align)
{
	return zone_of(8, (size_t)align);
}

static int objcache_size(int64_t size)
{
	struct percpu_objcache *oc;
	int e = percpu_objcache_create("bounds", (size_t)size, NULL, &oc);

	return e != 0 ? e : percpu_objcache_destroy(oc);
}

static void release(struct percpu_ref *ref, void *arg)
{
	(void)ref;
	(void)arg;
}

/* Take references besides the initial one, and put them. */
static int count_refs(bool tries, uint64_t n)
{
	struct percpu_ref *ref;
	int e;

	assert_int_equal(percpu_ref_create(release, NULL, PERCPU_REF_INIT_ATOMIC, &ref), 0);
	e = !tries ? percpu_ref_get_many(ref, n) : percpu_ref_tryget_many(ref, n) ? 0 : -EOVERFLOW;
	if (e == 0)
		assert_int_equal(percpu_ref_put_many(ref, n), 0);
	assert_int_equal(percpu_ref_fetch(ref), 1);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(percpu_ref_destroy(ref), 0);
	return e;
}

static int get_refs(int64_t n)
{
	return count_refs(false, (uint64_t)n);
}

static int try_refs(int64_t n)
{
	return count_refs(true, (uint64_t)n);
}

static int get_per_cpu(int64_t n, int (*get)(struct percpu_ref *ref, uint64_t n),
		       int (*put)(struct percpu_ref *ref, uint64_t n))
{
	struct percpu_ref *ref;
	int e;

	assert_int_equal(percpu_ref_create(release, NULL, 0, &ref), 0);
	e = get(ref, (uint64_t)n);
	assert_int_equal(put(ref, (uint64_t)n), e == 0 ? 0 : -ERANGE);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(percpu_ref_destroy(ref), 0);
	return e;
}

static int get_refs_per_cpu(int64_t n)
{
	return get_per_cpu(n, percpu_ref_get_many, percpu_ref_put_many);
}

static int get_refs_slowly(int64_t n)
{
	return get_per_cpu(n, percpu_ref_get_slow, percpu_ref_put_slow);
}

/* Put n of four references. */
static int put_refs(int64_t n)
{
	struct percpu_ref *ref;
	int e;

	assert_int_equal(percpu_ref_create(release, NULL, PERCPU_REF_INIT_ATOMIC, &ref), 0);
	assert_int_equal(percpu_ref_get_many(ref, 3), 0);
	e = percpu_ref_put_many(ref, (uint64_t)n);
	assert_int_equal(percpu_ref_put_many(ref, e == 0 ? 4 - (uint64_t)n : 4), 0);
	assert_true(percpu_ref_is_zero(ref));
	assert_int_equal(percpu_ref_destroy(ref), 0);
	return e;
}

static int resurrect_ref(int64_t n)
{
	struct percpu_ref *ref;
	int e;

	assert_int_equal(percpu_ref_create(release, NULL, PERCPU_REF_INIT_ATOMIC, &ref), 0);
	assert_int_equal(percpu_ref_get_many(ref, (uint64_t)n), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	e = percpu_ref_resurrect(ref);
	assert_int_equal(percpu_ref_put_many(ref, (uint64_t)n), 0);
	if (e == 0)
		assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(percpu_ref_destroy(ref), 0);
	return e;
}

/* Buffers of files. */

static int lwbufs_of(struct percpu_lwbuf_options o)
{
	struct percpu_lwbufs *f;
	int fd = memfd_create("bounds", MFD_CLOEXEC), e;

	assert_int_equal(ftruncate(fd, 1 << 21), 0);
	o.size = sizeof(o);
	e = percpu_lwbuf_create(fd, &o, &f);
	close(fd);
	return e != 0 ? e : percpu_lwbuf_destroy(f);
}

static int lwbuf_window(int64_t size)
{
	return lwbufs_of((struct percpu_lwbuf_options){ .window = (size_t)size });
}

static int lwbuf_least_window(int64_t shift)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return lwbuf_window((int64_t)(shift < 0 ? page / 2 : page << shift));
}

static int lwbuf_excess(int64_t n)
{
	return lwbufs_of((struct percpu_lwbuf_options){ .max_excess = (size_t)n });
}

static int set_excess_of(size_t excess, int64_t n)
{
	struct percpu_lwbuf_options o = { .size = sizeof(o),
					  .backend = PERCPU_LWBUF_WINDOW,
					  .flags = PERCPU_LWBUF_KEEPS_SIZE,
					  .max_excess = excess };
	struct percpu_lwbufs *f;
	int fd = memfd_create("bounds", MFD_CLOEXEC), e;

	assert_int_equal(ftruncate(fd, 1 << 21), 0);
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	e = percpu_lwbuf_set_max_excess(f, (size_t)n);
	close(fd);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	return e;
}

static int lwbuf_set_excess(int64_t n)
{
	return set_excess_of(8, n);
}

static int lwbuf_set_more_excess(int64_t n)
{
	return set_excess_of(2000, n);
}

/* Ask for that page of a file that has it. */
static int lwbuf_last_page(int64_t page)
{
	struct percpu_lwbuf_options o = { .size = sizeof(o) };
	const off_t size = (off_t)((page + 1) * sysconf(_SC_PAGESIZE));
	int fd = memfd_create("bounds", MFD_CLOEXEC), e;
	struct percpu_lwbufs *f;
	struct percpu_lwbuf b;

	if (sizeof(void *) < 8 || ftruncate(fd, size) != 0) {
		close(fd);
		return NONE;
	}
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	close(fd);
	e = percpu_lwbuf_alloc(f, (uint64_t)page, 0, &b);
	if (e == 0)
		assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	return e;
}

static int lwbuf_page_of_file(int64_t beyond)
{
	struct percpu_lwbuf_options o = { .size = sizeof(o) };
	int fd = memfd_create("bounds", MFD_CLOEXEC), e;
	struct percpu_lwbufs *f;
	struct percpu_lwbuf b;

	assert_int_equal(ftruncate(fd, (off_t)(4 * sysconf(_SC_PAGESIZE) - beyond)), 0);
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	close(fd);
	e = percpu_lwbuf_alloc(f, beyond > 0 ? 4 : 3, 0, &b);
	if (e == 0)
		assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	return e;
}

/* Make a list of pages of a file that ends with that page, by its bytes or by its number. */
static int xio_of(int64_t page, bool by_number)
{
	const uint64_t pages[] = { (uint64_t)page };
	struct percpu_lwbufs *f;
	struct percpu_xio x;
	int fd = memfd_create("bounds", MFD_CLOEXEC), e;

	assert_int_equal(percpu_lwbuf_create(fd, NULL, &f), 0);
	e = by_number ? percpu_xio_init_pages(&x, f, pages, 1, 0, 1) :
			percpu_xio_init(&x, f, pages[0] * (uint64_t)sysconf(_SC_PAGESIZE), 1);
	close(fd);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	return e;
}

static int xio_range(int64_t page)
{
	return xio_of(page, false);
}

static int xio_page(int64_t page)
{
	return xio_of(page, true);
}

/* Segments. */

static char text[4200];

/* Return a text of n bytes with that end. */
static const char *text_of(int64_t n, const char *end)
{
	memset(text, 'a', sizeof(text));
	memcpy(text + n - strlen(end), end, strlen(end) + 1);
	return text;
}

/* Return a new name: all metrics of one name must have the same labels and fields. */
static const char *new_name(const char *end)
{
	static unsigned made;
	static char name[32];

	(void)snprintf(name, sizeof(name), "m%u%s", made++, end);
	return name;
}

static int name_of_program(int64_t n)
{
	const struct percpu_segment_options o = { .size = sizeof(o), .program = text_of(n, "") };
	struct percpu_segment *s = NULL;
	const char *const path = test_path("of-program");
	int e = percpu_segment_open(path, PERCPU_SEGMENT_CREATE, &o, &s);

	percpu_segment_close(s);
	(void)unlink(path);
	return e;
}

static int name_of_segment(int64_t n)
{
	struct percpu_segment *s;
	int e = percpu_segment_open(text_of(n, ".percpu-test-bounds"), 0, NULL, &s);

	return e == -ENOENT ? 0 : e; /* there is none, but there could be */
}

static int info(struct percpu_metric m)
{
	m.size = sizeof(m);
	return percpu_segment_info(segment, &m);
}

static int metric_name(int64_t n)
{
	return info((struct percpu_metric){ .name = text_of(n, "_info") });
}

static int metric_help(int64_t n)
{
	return info((struct percpu_metric){ .name = "help_info", .help = text_of(n, "") });
}

static int label_value(int64_t n)
{
	const char *const name = "l", *const value = text_of(n, "");

	return info((struct percpu_metric){
		.name = "value_info", .label_names = &name, .label_values = &value, .labels = 1 });
}

static int unit_text(int64_t n)
{
	return info((struct percpu_metric){ .name = new_name("_info"), .unit = text_of(n, "") });
}

/* The values of 64 labels, of n bytes in all with their lengths, and the name of one byte. */
static int texts_of_record(int64_t n)
{
	static char text[64][4], value[64][1100];
	static const char *names[64], *values[64];
	static char name = 'A';
	const char metric[] = { name++, '\0' };
	size_t left = (size_t)n - 1;

	for (size_t i = 0; i < 64; i++) {
		(void)snprintf(text[i], sizeof(text[i]), "%02zu", i);
		names[i] = text[i];
		left -= 2 + 2 + 2;
	}
	for (size_t i = 0; i < 64; i++) {
		const size_t of_this = left / (64 - i);

		memset(value[i], 'v', of_this);
		value[i][of_this] = '\0';
		values[i] = value[i];
		left -= of_this;
	}
	return info((struct percpu_metric){
		.name = metric, .label_names = names, .label_values = values, .labels = 64 });
}

/* Store an exemplar in new ones, of a counter or of a histogram. */
static int store_exemplar(const struct percpu_histogram *h, double v,
			  const struct percpu_exemplar_label *labels, size_t n)
{
	struct percpu_exemplars *x;
	int e = percpu_exemplars_create(h, &x);

	if (e != 0)
		return e;
	e = percpu_exemplars_store(x, v, labels, n);
	percpu_exemplars_destroy(x);
	return e;
}

static int exemplar_labels(int64_t n)
{
	struct percpu_exemplar_label labels[17];
	char names[17][24];

	for (size_t i = 0; i < (size_t)n; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "%02zu", i);
		labels[i] = (struct percpu_exemplar_label){ names[i], "" };
	}
	return store_exemplar(NULL, 1, labels, (size_t)n);
}

static int exemplar_bytes(int64_t n)
{
	const struct percpu_exemplar_label label = { "n", text_of(n - 1, "") };

	return store_exemplar(NULL, 1, &label, 1);
}

static int exemplar_value(int64_t side)
{
	struct percpu_histogram *h;
	int e = percpu_histogram_create(NULL, &h);

	if (e != 0)
		return e;
	e = store_exemplar(h, beside(0x1p960, side), NULL, 0);
	percpu_histogram_destroy(h);
	return e;
}

static int label_name(int64_t n)
{
	const char *const name = text_of(n, ""), *const value = "v";

	return info((struct percpu_metric){ .name = new_name("_info"),
					    .label_names = &name,
					    .label_values = &value,
					    .labels = 1 });
}

static int labels(int64_t n)
{
	static char text[66][4];
	static const char *names[66];

	for (size_t i = 0; i < 66; i++) {
		(void)snprintf(text[i], sizeof(text[i]), "l%zu", i);
		names[i] = text[i];
	}
	return info((struct percpu_metric){ .name = new_name("_info"),
					    .label_names = names,
					    .label_values = names,
					    .labels = (size_t)n });
}

static int series_started(int64_t n)
{
	struct percpu_metric m = { .size = sizeof(m), .name = text_of(n, "_info") };
	struct percpu_segment_start moment;
	int e = percpu_segment_series_started(segment, &m, &moment);

	return e == -ENOENT ? 0 : e;
}

static int name_of_owner(int64_t n)
{
	percpu_owners_leave(segment->owners); /* another row has joined */
	return percpu_segment_join(segment, text_of(n, ""), 0);
}

static int declare_fields(const char *metric, const char *const *names, size_t n)
{
	struct percpu_metric_fields f = { sizeof(f), "field", names, n };
	struct percpu_stats *s;

	return percpu_segment_stats(segment, METRIC(metric), &f, 0, &s);
}

static int fields(int64_t n)
{
	static char letters[65][3];
	static const char *names[65];

	for (unsigned i = 0; i < 65; i++) {
		letters[i][0] = (char)('a' + i / 10);
		letters[i][1] = (char)('a' + i % 10);
		names[i] = letters[i];
	}
	return declare_fields(new_name("_total"), names, (size_t)n);
}

static int field_name(int64_t n)
{
	const char *const name = text_of(n, "");

	return declare_fields(new_name("_total"), &name, 1);
}

static const char *const family_labels[] = { "l" };

static int family_of(const char *name, size_t cap, struct percpu_family **ret)
{
	const struct percpu_metric m = {
		.size = sizeof(m), .name = name, .label_names = family_labels, .labels = 1
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };

	return family_with_cap(segment, &d, cap, ret);
}

static int family_cap(int64_t cap)
{
	struct percpu_family *f;

	return family_of(new_name("_total"), (size_t)cap, &f);
}

static int family_value(int64_t n)
{
	const char *const value = text_of(n, "");
	struct percpu_counter *c;
	struct percpu_family *f;

	uint64_t invalid;

	assert_int_equal(family_of("y_total", 9, &f), 0);
	invalid = percpu_family_invalid(f);
	assert_int_equal(percpu_family_counter(f, &value, &c), 0);
	return percpu_family_invalid(f) != invalid ? -ERANGE : 0;
}

static int family_value_removed(int64_t n)
{
	const char *const value = text_of(n, "");
	struct percpu_family *f;
	int e;

	assert_int_equal(family_of("y_total", 9, &f), 0);
	e = percpu_family_remove(f, &value);
	return e == -ENOENT ? 0 : e;
}

/* Two series are counted apart, and one more counts in the overflow. */
static int family_series(int64_t series)
{
	static const char *const values[] = { "a", "b", "c" };
	struct percpu_counter *c;
	struct percpu_family *f;

	assert_int_equal(family_of("z_total", 2, &f), 0);
	for (int64_t i = 0; i < series; i++)
		assert_int_equal(percpu_family_counter(f, &values[i], &c), 0);
	return percpu_family_overflows(f) != 0 ? -ERANGE : 0;
}

/* The most that fits into a lane; those of 32-bit processes are shorter. */
#define NARROW (sizeof(void *) < 8)
#define LONGEST (INT64_C(1) << (NARROW ? 30 : 40))
#define ARRAY (LONGEST / 8)
#define COMPACT (LONGEST / 16)

#define AROUND(limit, below, at, above)                                                            \
	.value = { (int64_t)(limit)-1, (limit), (int64_t)(limit) + 1 },                            \
	.result = { (below), (at), (above) }
#define OF(v0, v1, v2, below, at, above)                                                           \
	.value = { (v0), (v1), (v2) }, .result = { (below), (at), (above) }

/* No row:
 *	* "-E2BIG more CPUs than PERCPU_MAX_CPUS": one call finds out: unit/test_cpus_files:
 *  too_many_cpus_are_refused
 *	* "-E2BIG (more CPUs than PERCPU_MAX_CPUS)": the same
 *	approx.h "With n of 0 or less": no limit
 *	base.h "Lanes 0 to N-1 belong to CPUs 0 to N-1": no limit
 *	base.h "for pages of up to 64 KiB": geometry
 *	compact.h "in lanes of more than 128 KiB": geometry
 *	fcounter.h "stay below 2^53 together": what is exact
 *	fcounter.h "n below 2^40": what a bound of errors assumes
 *	gauge.h "as those of counters: -EINVAL, -ENOMEM, -E2BIG": of other calls
 *	gauge.h "as percpu_fcounter_add(): 0, -EDOM or -ERANGE": of another call
 *	grace.h "At most 2^31 - 1 of a process": nothing looks at it
 *	exemplar.h "more than PERCPU_EXEMPLAR_SLOTS of these": unit/test_exemplar:
 *  many_own_buckets_share_slots
 *	exemplar.h "how many, 0 to PERCPU_EXEMPLAR_LABELS": what a read returns
 *	histogram.h "of more than 2^53 ticks per unit": what is rounded
 *	histogram.h "0.07 * 100 is a little above 7": no limit
 *	histogram.h "-ERANGE `into` has a higher schema": unit/test_histogram_fold:
 *  merging_adds_or_refuses
 *	histogram.h "-ERANGE `later` has a higher schema": unit/test_histogram_subtract:
 *  ranges_that_do_not_fit_are_refused
 *	local.h "-ENOMEM, -E2BIG": as of PERCPU_MAX_CPUS
 *	lwbuf.h "64 MiB of them, and at most 1024": a default
 *	lwbuf.h "-EMFILE, -E2BIG no more descriptors": as of PERCPU_MAX_CPUS
 *	lwbuf.h "-ERANGE the file no longer has the page": unit/test_lwbuf_limits:
 *  cut_what_is_stored_to
 *	lwbuf.h "-ERANGE the file does not have all of these pages": unit/test_xio:
 *  pages_beyond_are_not_mapped
 *	lwbuf.h "is -EFBIG, and the kernel sends SIGXFSZ": the kernel's
 *	lwbuf.h "bytes of the page the file had, at least 1": a result
 *	owned.h "Whole numbers below 2^53 are added exactly": what is exact
 *	owned.h "no memory for a copy of more than 4096 bytes": no limit
 *	owner.h "#define PERCPU_OWNERS_MAX": unit/test_owner: a_table_grows_to_its_limit
 *	owner.h "-EUSERS PERCPU_OWNERS_MAX processes have slots": unit/test_owner:
 *  a_table_grows_to_its_limit
 *	rate.h "advances by 1 to 10 ms": the kernel's
 *	rate.h "at most 1/32 of the limit": a result
 *	rate.h "the limit is below 32 times the number of possible CPUs": a result
 *	reader.h "is read again, up to 64 times": work, and no argument
 *	reader.h "these together cost at most 8 times as much": work, and no argument
 *	reader.h "the picture is begun again, up to 16 times": work, and no argument
 *	reader.h "has cost less than 3 pictures that nobody disturbs": work, and no argument
 *	reader.h "no memory for a copy of more than 4096 bytes": no limit
 *	ref.h "a kill is -ERANGE, or 0 with a count": nothing can look at it
 *	ref.h "-ERANGE more references were put": unit/test_ref: too_many_puts_show_at_the_kill
 *	ref.h "or -ERANGE as percpu_ref_kill(); but with -ERANGE it is not dead":
 *  unit/test_ref_modes: too_many_puts_show_at_a_switch
 *	ref.h "percpu_ref_kill() returns -ERANGE": unit/test_ref_modes:
 *  too_many_puts_show_at_a_switch
 *	region.h "-EFBIG RLIMIT_FSIZE is too small": unit/test_resources: with_small_files
 *	region.h "-ERANGE with WRITE: the region has lanes for fewer CPUs":
 *  unit/test_cpus: too_few_lanes_are_noticed
 *	region.h "in lanes above 64 KiB": geometry
 *	stats.h "Objects have up to PERCPU_STATS_MAX_COMMIT fields and are in two copies": as of
 *  PERCPU_STATS_WHOLE
 *	stats.h "3 to 4, 5 to 7 to 8, and more": geometry
 *	stats.h "those of up to 8 fields": geometry
 *	stats.h "all fields of objects of up to 8": geometry
 *	stats.h "Objects of more than PERCPU_STATS_MAX_COMMIT fields are reset in runs": no limit
 *	stats.h "Add to up to 16 fields with one commit": the compiler sees to it
 *	stats.h "for each of 1 to 16 values": the compiler sees to it
 *	stats.h "no memory for a copy of more than 4096 bytes": no limit
 *	stats_group.h "4 + 1000, &g); // totals 0 to 3": an example
 *	stats_group.h "all objects together may have 128 GiB": as of stats.h
 *	stats_group.h "Inlined if words is a constant of up to 4": geometry
 *	stats_group.h "no memory for a copy of more than 4096 bytes": no limit
 *	stats.h "or for a copy of more than 4096 bytes": no limit
 *	status.h "at most 10 s": time
 *	variable.h "an alignment of at most 64 bytes": the compiler sees to it
 *	wbuf.h "At most 2 x PERCPU_SEQ_TRIES + 1 sequences": no limit
 *	wbuf.h "longer than 16 buffers": no limit
 *	wbuf.h "1 to PERCPU_WBUF_LONGEST": of an inline function's own
 *	wbuf.h "more than PERCPU_WBUF_LONGEST": unit/test_wbuf_cells: transactions_mix_kinds
 *	xio.h "-ERANGE the run, or the file, does not have all of these bytes":
 *  unit/test_xio: runs_have_ends
 */

/* clang-format off: a limit in two or three lines */
static const struct bound bounds[] = {
	{ "base.h", "-E2BIG on a machine with more CPUs than this", cpus_of_region, "options.cpus",
	  AROUND(PERCPU_MAX_CPUS, 0, 0, -E2BIG) },
	{ "base.h", "#define PERCPU_MAX_CPUS", cpus_of_region, "options.cpus",
	  AROUND(8192, 0, 0, -E2BIG) },

	{ "region.h", "-E2BIG more than PERCPU_MAX_CPUS CPUs", cpus_of_region, "options.cpus",
	  AROUND(PERCPU_MAX_CPUS, 0, 0, -E2BIG) },
	{ "region.h", "larger than 1 TiB (1 GiB in 32-bit processes)", lane_of_region, "lane_size",
	  AROUND(LONGEST, -ENOMEM, -ENOMEM, -EINVAL), .huge = true },
	{ "region.h", "memory is smaller than percpu_region_memory_size()", memory_of_region,
	  "missing", AROUND(0, -ENOSPC, 0, 0) },
	{ "region.h", "bytes there, at least percpu_region_memory_size()", memory_of_region,
	  "missing", AROUND(0, -ENOSPC, 0, 0) },
	{ "region.h", "bytes per lane, 1 up to the lane size", size_of_cell, "size",
	  AROUND(1, -EINVAL, 0, 0) },
	{ "region.h", "bytes per lane, 1 up to the lane size", size_of_cell, "size",
	  AROUND(PERCPU_LANE_SIZE, 0, 0, -EINVAL) },
	{ "region.h", "power of two, up to 4096", align_of_cell, "align",
	  OF(2048, 4096, 8192, 0, 0, -EINVAL) },
	{ "region.h", "power of two, up to 4096", align_of_cell, "align",
	  OF(0, 1, 3, -EINVAL, 0, -EINVAL) },
	{ "region.h", "roots 0 to PERCPU_REGION_ROOTS - 1", set_root, "root",
	  AROUND(PERCPU_REGION_ROOTS - 1, 0, 0, -EINVAL) },
	{ "region.h", "#define PERCPU_REGION_ROOTS", open_at_root, "root",
	  AROUND(PERCPU_REGION_ROOTS - 1, 0, 0, -EINVAL) },

	{ "section.h", "a power of two up to 64", section_align, "align",
	  OF(32, 64, 128, 0, 0, -EINVAL) },
	{ "section.h", "a power of two up to 64", section_align, "align",
	  OF(0, 1, 3, -EINVAL, 0, -EINVAL) },
	{ "section.h", "size is 0 or above PERCPU_SECTION_MAX_SIZE", section_size, "size",
	  AROUND(PERCPU_SECTION_MAX_SIZE, 0, 0, -EINVAL) },
	{ "section.h", "#define PERCPU_SECTION_MAX_SIZE", section_size, "size",
	  AROUND(1, -EINVAL, 0, 0) },

	{ "counter.h", "more counters than fit into a lane: 2^37", array_create, "n",
	  AROUND(ARRAY, -ENOMEM, -ENOMEM, -EINVAL), .huge = true },
	{ "counter.h", "n is 0, or more counters than fit", array_create_in, "n",
	  AROUND(PERCPU_LANE_SIZE / 8, 0, 0, -EINVAL) },
	{ "counter.h", "n is 0, or more counters than fit", array_open, "n",
	  AROUND(PERCPU_LANE_SIZE / 8, 0, 0, -EINVAL) },
	{ "counter.h", "n is 0, or more counters than fit", array_create_in, "n",
	  AROUND(1, -EINVAL, 0, 0) },
	{ "counter.h", "n is 0 or more than 2^37, or 2^27 in 32-bit", array_attach, "n",
	  AROUND(ARRAY, -ENOENT, -ENOENT, -EINVAL) },

	{ "fcounter.h", "more counters than fit into a lane: 2^37", farray_create, "n",
	  AROUND(ARRAY, -ENOMEM, -ENOMEM, -EINVAL), .huge = true },
	{ "fcounter.h", "n is 0, or more counters than fit", farray_create_in, "n",
	  AROUND(PERCPU_LANE_SIZE / 8, 0, 0, -EINVAL) },
	{ "fcounter.h", "n is 0 or more than 2^37, or 2^27 in 32-bit processes", farray_attach, "n",
	  AROUND(ARRAY, -ENOENT, -ENOENT, -EINVAL) },
	{ "fcounter.h", "-ERANGE the sum of what was added on this CPU would be 2^1000 or more",
	  fcounter_add, "ulps", AROUND(0, 0, -ERANGE, -ERANGE) },
	{ "fcounter.h", "or -2^1000 or less", fcounter_sub, "ulps",
	  AROUND(0, 0, -ERANGE, -ERANGE) },

	{ "compact.h", "or more than 2^36 (2^26 in 32-bit processes)", compact_create, "n",
	  AROUND(COMPACT, -ENOMEM, -ENOMEM, -EINVAL), .huge = true },
	{ "compact.h", "n is 0, more counters than fit into a lane", compact_create_in, "n",
	  AROUND(PERCPU_LANE_SIZE / 16, 0, 0, -EINVAL) },
	{ "compact.h", "n is 0 or more than 2^36, or 2^26 in 32-bit", compact_attach, "n",
	  AROUND(COMPACT, -ENOENT, -ENOENT, -EINVAL) },

	{ "gauge.h", "-ERANGE (2^1000 or more", fgauge_set, "ulps",
	  AROUND(0, 0, -ERANGE, -ERANGE) },
	{ "gauge.h", "or -2^1000 or less", fgauge_set_negative, "ulps",
	  AROUND(0, 0, -ERANGE, -ERANGE) },
	{ "owned.h", "-ERANGE if the value would reach 2^1000 in size", owned_add, "ulps",
	  AROUND(0, 0, -ERANGE, -ERANGE) },
	{ "owned.h", "-EDOM and -ERANGE for such a v", owned_set, "ulps",
	  AROUND(0, 0, -ERANGE, -ERANGE) },

	{ "approx.h", "a batch that is negative or above 2^40", approx_batch, "batch",
	  AROUND(INT64_C(1) << 40, 0, 0, -EINVAL) },
	{ "approx.h", "1 to 2^40; default", approx_batch, "batch", AROUND(0, -EINVAL, 0, 0) },
	{ "approx.h",
	  "-ERANGE nothing was added, because at some moment during the call the exact sum was "
	  "above limit - n",
	  approx_limit, "limit", AROUND(8, -ERANGE, 0, 0) },
	{ "approx.h", "because the limit is 0 or negative", approx_limit_of_empty, "limit",
	  AROUND(0, -ERANGE, -ERANGE, 0) },

	{ "rate.h", "-ERANGE a limit or a period above PERCPU_RATE_MAX", rate_limit, "limit",
	  AROUND(INT64_C(0x7fffffff), 0, 0, -ERANGE) },
	{ "rate.h", "-ERANGE a limit or a period above PERCPU_RATE_MAX", rate_period, "period",
	  AROUND(PERCPU_RATE_MAX, 0, 0, -ERANGE) },
	{ "rate.h", "#define PERCPU_RATE_MAX", rate_set, "limit",
	  AROUND(INT64_C(0x7fffffff), 0, 0, -ERANGE) },
	{ "rate.h", "or a limit or a period of 0 or less", rate_limit, "limit",
	  AROUND(0, -EINVAL, -EINVAL, 0) },
	{ "rate.h", "or a limit or a period of 0 or less", rate_period, "period",
	  AROUND(0, -EINVAL, -EINVAL, 0) },
	{ "rate.h", "-EINVAL (NULL, or a limit of 0 or less), -ERANGE", rate_set, "limit",
	  AROUND(0, -EINVAL, -EINVAL, 0) },

	{ "histogram.h", "min is below 2^-1000", histogram_min, "ulps", AROUND(0, -ERANGE, 0, 0) },
	{ "histogram.h", "max above 2^960", histogram_max, "ulps", AROUND(0, 0, 0, -ERANGE) },
	{ "histogram.h", "-ERANGE min is below", histogram_max, "ulps", AROUND(0, 0, 0, -ERANGE) },
	{ "histogram.h", "or max, so rounded, is 2^53 ticks or more", histogram_max_ticks, "max",
	  OF(INT64_C(1) << 51, INT64_C(1) << 52, INT64_C(1) << 53, 0, 0, -ERANGE) },
	{ "histogram.h", "or max, so rounded, is 2^53 ticks or more", histogram_max_ticks, "max",
	  AROUND(INT64_C(1) << 52, 0, 0, -ERANGE) },
	{ "histogram.h", "1, 2, 4, 8, 16 or 32: schemas 0 to 5", histogram_octave, "buckets",
	  AROUND(32, -EINVAL, 0, -EINVAL) },
	{ "histogram.h", "1, 2, 4, 8, 16 or 32: schemas 0 to 5", histogram_octave, "buckets",
	  OF(16, 32, 64, 0, 0, -EINVAL) },
	{ "histogram.h", "only those of -2^960 or less are", record_negative, "ulps",
	  AROUND(0, 0, -ERANGE, -ERANGE) },
	{ "histogram.h", "#define PERCPU_HISTOGRAM_MAX_BOUNDS", own_bounds, "bounds",
	  AROUND(PERCPU_HISTOGRAM_MAX_BOUNDS, 0, 0, -EINVAL) },
	{ "histogram.h", "an own bound is 2^960 or above", own_bound, "ulps",
	  AROUND(0, 0, -ERANGE, -ERANGE) },
	{ "histogram.h", "or -2^960 or below", own_bound_below, "ulps",
	  AROUND(0, 0, -ERANGE, -ERANGE) },
	{ "histogram.h", "or more than 2^53 - 2 ticks", own_tick_bound, "ticks",
	  AROUND((INT64_C(1) << 53) - 2, 0, 0, -ERANGE) },
	{ "histogram.h", "more than fits into a lane", histograms_in_lane, "n",
	  AROUND(16, 0, 0, -EINVAL) },
	{ "histogram.h", "more than fits into a lane", many_histograms, "n",
	  AROUND(LONGEST / 2 / 512, -ENOMEM, -ENOMEM, -EINVAL), .huge = true },
	{ "histogram.h", "values of 2^960 or more are refused", record_value, "ulps",
	  AROUND(0, 0, -ERANGE, -ERANGE) },
	{ "histogram.h", "2^63 or more are refused", record_ticks, "beyond",
	  AROUND(0, 0, -ERANGE, -ERANGE) },
	{ "histogram.h", "0 if the schema is not one of -4 to 5", bound_of_schema, "schema",
	  AROUND(5, 0, 0, -EINVAL) },
	{ "histogram.h", "0 if the schema is not one of -4 to 5", bound_of_schema, "schema",
	  AROUND(-4, -EINVAL, 0, 0) },
	{ "histogram.h", "has 2^schema buckets; -4 to 5", fold_to, "schema",
	  AROUND(3, 0, 0, -ERANGE) },
	{ "histogram.h", "-ERANGE (a higher schema, one below -4", fold_to, "schema",
	  AROUND(-4, -ERANGE, 0, 0) },
	{ "histogram.h", "or together they have 2^64 observations or more", merge_counts, "beyond",
	  AROUND(0, 0, 0, -ERANGE) },
	{ "histogram.h", "q is not from 0 to 1", least_quantile, "ulps", AROUND(0, -EINVAL, 0, 0) },
	{ "histogram.h", "q is not from 0 to 1", greatest_quantile, "ulps",
	  AROUND(0, 0, 0, -EINVAL) },

	{ "exemplar.h", "more than PERCPU_EXEMPLAR_LABELS labels", exemplar_labels, "labels",
	  AROUND(16, 0, 0, -EINVAL) },
	{ "exemplar.h", "have at most PERCPU_EXEMPLAR_BYTES bytes together", exemplar_bytes,
	  "bytes", AROUND(128, 0, 0, -ENAMETOOLONG) },
	{ "exemplar.h", "-ENAMETOOLONG the labels have more than PERCPU_EXEMPLAR_BYTES bytes",
	  exemplar_bytes, "bytes", AROUND(PERCPU_EXEMPLAR_BYTES, 0, 0, -ENAMETOOLONG) },
	{ "exemplar.h", "-ERANGE the histogram refuses the value", exemplar_value, "ulps",
	  AROUND(0, 0, -ERANGE, -ERANGE) },

	{ "stats.h", "-E2BIG PERCPU_STATS_WHOLE and more than PERCPU_STATS_MAX_COMMIT fields",
	  whole_fields, "fields", AROUND(64, 0, 0, -E2BIG) },
	{ "stats_group.h", "-E2BIG more than PERCPU_STATS_MAX_COMMIT fields", group_fields,
	  "fields", AROUND(64, 0, 0, -E2BIG) },
	{ "stats_group.h", "size is 0 or not a multiple of 8, n or totals is 0", size_of_group,
	  "size", AROUND(8, -EINVAL, 0, -EINVAL) },
	{ "stats_group.h", "n or totals is 0, totals is more than n", totals_of_group, "totals",
	  AROUND(3, 0, 0, -EINVAL) },
	{ "stats_group.h", "n or totals is 0", totals_of_group, "totals",
	  AROUND(1, -EINVAL, 0, 0) },
	{ "stats_group.h", "n is more than 2147483647", group_create, "n",
	  AROUND(INT32_MAX, NARROW ? -EINVAL : -ENOMEM, NARROW ? -EINVAL : -ENOMEM, -EINVAL),
	  .huge = true },
	{ "stats_group.h", "each bank has 32 KiB (2044 objects of 2 fields", group_of_2, "n",
	  AROUND(2044, 0, 0, -EINVAL) },
	{ "stats.h", "size is 0 or not a multiple of 8", size_of_stats, "size",
	  AROUND(8, -EINVAL, 0, -EINVAL) },
	{ "stats.h", "each bank has 32 KiB (1024 objects of 4 fields", stats_of_4, "n",
	  AROUND(1024, 0, 0, -EINVAL) },
	{ "stats.h", "409 in two copies", stats_of_4_whole, "n", AROUND(409, 0, 0, -EINVAL) },
	{ "stats.h", "all objects together may have 128 GiB (128 MiB in 32-bit processes)",
	  stats_create, "n", AROUND(LONGEST / 64, -ENOMEM, -ENOMEM, -EINVAL), .huge = true },
	{ "stats.h", "-E2BIG words is more than PERCPU_STATS_MAX_COMMIT", update_many, "words",
	  AROUND(64, 0, 0, -E2BIG) },
	{ "stats.h", "#define PERCPU_STATS_MAX_COMMIT", update_many, "words",
	  AROUND(PERCPU_STATS_MAX_COMMIT, 0, 0, -E2BIG) },
	{ "stats.h", "there is no such object or field, words is 0", update_many, "words",
	  AROUND(1, -EINVAL, 0, 0) },
	{ "stats.h", "there is no such object or field, words is 0", update_last, "word",
	  AROUND(191, 0, 0, -EINVAL) },
	{ "stats.h", "the fields are on both sides of a multiple of 64", update_across, "words",
	  AROUND(4, 0, 0, -EINVAL) },

	{ "wbuf.h", "power of two up to 2^24", wbuf_entries, "entries",
	  OF(1 << 23, 1 << 24, 1 << 25, -ENOMEM, -ENOMEM, -EINVAL), .huge = true },
	{ "wbuf.h", "entries is no power of two or too large", wbuf_entries, "entries",
	  AROUND(4, -EINVAL, 0, -EINVAL) },
	{ "wbuf.h", "flush_limit is larger than entries", wbuf_limit, "adds",
	  AROUND(4, 0, 0, -EINVAL) },
	{ "wbuf.h", "-E2BIG the buffer is smaller than the transaction", wbuf_adds, "adds",
	  AROUND(4, 0, 0, -E2BIG) },

	{ "ring.h", "below PERCPU_RING_MIN", ring_of, "size", OF(512, 1024, 2048, -EINVAL, 0, 0) },
	{ "ring.h", "#define PERCPU_RING_MIN", ring_of, "size", AROUND(1024, -EINVAL, 0, -EINVAL) },
	{ "ring.h", "a size that is no power of two", ring_of, "size",
	  AROUND(4096, -EINVAL, 0, -EINVAL) },
	{ "ring.h", "of size bytes, a power of two", ring_of, "size",
	  AROUND(4096, -EINVAL, 0, -EINVAL) },
	{ "ring.h", "above PERCPU_RING_MAX", ring_of, "size",
	  OF(1 << 29, 1 << 30, INT64_C(1) << 31, -ENOMEM, -ENOMEM, -EINVAL), .huge = true },
	{ "ring.h", "#define PERCPU_RING_MAX", ring_of, "size",
	  OF(PERCPU_RING_MAX / 2, PERCPU_RING_MAX, PERCPU_RING_MAX *INT64_C(2), -ENOMEM, -ENOMEM,
	     -EINVAL),
	  .huge = true },
	{ "ring.h", "-EMSGSIZE size is more than percpu_ring_longest()", put_in_small_ring, "size",
	  AROUND(PERCPU_RING_MIN / 4, 0, 0, -EMSGSIZE) },
	{ "ring.h", "-EMSGSIZE size is more than percpu_ring_longest()", put_slowly, "size",
	  AROUND(PERCPU_RING_MIN / 4, 0, 0, -EMSGSIZE) },
	{ "ring.h", "up to a quarter of the size fit, but not more than PERCPU_RING_MAX_RECORD",
	  put_in_large_ring, "size", AROUND(4096, 0, 0, -EMSGSIZE) },
	{ "ring.h", "#define PERCPU_RING_MAX_RECORD", put_in_large_ring, "size",
	  AROUND(PERCPU_RING_MAX_RECORD, 0, 0, -EMSGSIZE) },
	{ "ring.h", "-EINVAL size is 0", put_in_large_ring, "size", AROUND(1, -EINVAL, 0, 0) },

	{ "critical.h", "size is 0 or above PERCPU_CRITICAL_MAX_SIZE", critical_size, "size",
	  AROUND((int64_t)PERCPU_CRITICAL_MAX_SIZE, -ENOMEM, -ENOMEM, -EINVAL), .huge = true },
	{ "critical.h", "#define PERCPU_CRITICAL_MAX_SIZE", critical_size, "size",
	  AROUND(1, -EINVAL, 0, 0) },

	{ "local.h", "size is 0 or more than 1 GiB", local_size, "size",
	  AROUND(1 << 30, -ENOMEM, -ENOMEM, -EINVAL), .huge = true },
	{ "local.h", "size is 0 or more than 1 GiB", local_size, "size", AROUND(1, -EINVAL, 0, 0) },
	{ "local.h", "SPLIT or REFS with more than 8 bytes", local_split, "size",
	  AROUND(8, 0, 0, -EINVAL) },
	{ "local.h", "SPLIT or REFS with more than 8 bytes", local_refs, "size",
	  AROUND(8, 0, 0, -EINVAL) },
	{ "local.h", "unless the sum is above limit: then -ERANGE", local_limit, "limit",
	  AROUND(8, -ERANGE, 0, 0) },
	{ "local.h", "-ENOSPC if the array has limit items already", local_push, "items",
	  AROUND(4, 0, 0, -ENOSPC) },
	{ "local.h",
	  "mask + 1 slots (a power of two); all appear at once. -ENOSPC if there is no room",
	  local_copy, "words", AROUND(4, 0, 0, -ENOSPC) },

	{ "zone.h", "1 to PERCPU_LANE_SIZE bytes, rounded up to a multiple of 8", zone_size, "size",
	  AROUND(1, -EINVAL, 0, 0) },
	{ "zone.h", "a size of 0 or larger than a lane", zone_size, "size",
	  AROUND(PERCPU_LANE_SIZE, 0, 0, -EINVAL) },
	{ "zone.h", "power of two up to 64", zone_align, "align", OF(32, 64, 128, 0, 0, -EINVAL) },
	{ "zone.h", "power of two up to 64", zone_align, "align", AROUND(64, -EINVAL, 0, -EINVAL) },
	{ "objcache.h", "bytes of an object, at least 1", objcache_size, "size",
	  AROUND(1, -EINVAL, 0, 0) },

	{ "ref.h", "-EOVERFLOW n, or as far as is known the count, would be above PERCPU_REF_MAX",
	  get_refs, "n", AROUND((int64_t)PERCPU_REF_MAX - 1, 0, 0, -EOVERFLOW) },
	{ "ref.h", "-EOVERFLOW n, or as far as is known the count, would be above PERCPU_REF_MAX",
	  get_refs_slowly, "n", AROUND((int64_t)PERCPU_REF_MAX, 0, 0, -EOVERFLOW) },
	{ "ref.h", "-EOVERFLOW n, or as far as is known the count, would be above PERCPU_REF_MAX",
	  get_refs_per_cpu, "n", AROUND((int64_t)PERCPU_REF_MAX, 0, 0, -EOVERFLOW) },
	{ "ref.h", "false also if the count would be above PERCPU_REF_MAX", try_refs, "n",
	  AROUND((int64_t)PERCPU_REF_MAX - 1, 0, 0, -EOVERFLOW) },
	{ "ref.h", "#define PERCPU_REF_MAX", get_refs, "n",
	  AROUND((INT64_C(1) << 61) - 2, 0, 0, -EOVERFLOW) },
	{ "ref.h", "-ERANGE: there are not so many references", put_refs, "n",
	  AROUND(4, 0, 0, -ERANGE) },
	{ "ref.h", "-EOVERFLOW (there are PERCPU_REF_MAX references)", resurrect_ref, "n",
	  OF((int64_t)PERCPU_REF_MAX - 3, (int64_t)PERCPU_REF_MAX - 2, (int64_t)PERCPU_REF_MAX - 1,
	     0, 0, 0) },

	{ "lwbuf.h", "a power of two from the system's page size, which is the default, to 1 MiB",
	  lwbuf_window, "window", OF(1 << 19, 1 << 20, 1 << 21, 0, 0, -EINVAL) },
	{ "lwbuf.h", "a power of two from the system's page size", lwbuf_window, "window",
	  AROUND(1 << 18, -EINVAL, 0, -EINVAL) },
	{ "lwbuf.h", "a power of two from the system's page size", lwbuf_least_window, "shift",
	  AROUND(0, -EINVAL, 0, 0) },
	{ "lwbuf.h", "beyond those in use, up to 65536", lwbuf_excess, "n",
	  AROUND(65536, 0, 0, -EINVAL) },
	{ "lwbuf.h", "which is the larger of 4096 and four times", lwbuf_set_excess, "n",
	  AROUND(4096, 0, 0, -EINVAL) },
	{ "lwbuf.h", "which is the larger of 4096 and four times", lwbuf_set_more_excess, "n",
	  AROUND(8192, 0, 0, -EINVAL) },
	{ "lwbuf.h", "or it is beyond the first 2^40 - 1", lwbuf_last_page, "page",
	  AROUND((INT64_C(1) << 40) - 2, 0, 0, -ERANGE) },
	{ "lwbuf.h", "-ERANGE the file has no byte of the page", lwbuf_page_of_file, "beyond",
	  AROUND(0, 0, 0, -ERANGE) },
	{ "xio.h", "-ERANGE the range ends beyond the first 2^40 - 1", xio_range, "page",
	  AROUND((INT64_C(1) << 40) - 2, 0, 0, -ERANGE) },
	{ "xio.h", "-ERANGE a page of the list is beyond the first 2^40 - 1", xio_page, "page",
	  AROUND((INT64_C(1) << 40) - 2, 0, 0, -ERANGE) },

	{ "owner.h", "-ENAMETOOLONG the name has more than 63 bytes", name_of_owner, "bytes",
	  AROUND(63, 0, 0, -ENAMETOOLONG) },

	{ "segment.h", "UTF-8, 1 to 40 bytes", name_of_program, "bytes", AROUND(1, -EINVAL, 0, 0) },
	{ "segment.h", "UTF-8, 1 to 40 bytes", name_of_program, "bytes",
	  AROUND(40, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "or a name of a program of more than 40 bytes", name_of_program, "bytes",
	  AROUND(40, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "#define PERCPU_SEGMENT_PROGRAM", name_of_program, "bytes",
	  AROUND(40, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "-ENAMETOOLONG such a name of more than 200 characters", name_of_segment,
	  "characters", AROUND(200, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "UTF-8, 1 to 255 bytes", metric_name, "bytes",
	  AROUND(255, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "-ENAMETOOLONG a name, a unit, a label or a help text is too long",
	  label_name, "bytes", AROUND(255, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "#define PERCPU_METRIC_NAME", series_started, "bytes",
	  AROUND(PERCPU_METRIC_NAME, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "UTF-8, up to 1023 bytes", metric_help, "bytes",
	  AROUND(1023, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "#define PERCPU_METRIC_HELP", metric_help, "bytes",
	  AROUND(PERCPU_METRIC_HELP, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "UTF-8, up to 4096 bytes each", label_value, "bytes",
	  AROUND(4096, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "#define PERCPU_METRIC_VALUE", label_value, "bytes",
	  AROUND(PERCPU_METRIC_VALUE, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "UTF-8, up to 255 bytes", unit_text, "bytes",
	  AROUND(255, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "UTF-8, 1 to 255 bytes each", label_name, "bytes",
	  AROUND(255, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "UTF-8, 1 to 255 bytes each", label_name, "bytes",
	  AROUND(1, -EINVAL, 0, 0) },
	{ "segment.h", "how many, up to 64; 0: none", labels, "labels", AROUND(64, 0, 0, -E2BIG) },
	{ "segment.h", "-E2BIG too many labels", labels, "labels", AROUND(64, 0, 0, -E2BIG) },
	{ "segment.h", "or all texts together have more than 65 448 bytes", texts_of_record,
	  "bytes", AROUND(65448, 0, 0, -E2BIG) },
	{ "segment.h", "#define PERCPU_METRIC_LABELS", labels, "labels",
	  AROUND(PERCPU_METRIC_LABELS, 0, 0, -E2BIG) },
	{ "segment.h", "UTF-8, 1 to 255 bytes each, no two the same", field_name, "bytes",
	  AROUND(255, 0, 0, -ENAMETOOLONG) },
	{ "segment.h", "UTF-8, 1 to 255 bytes each, no two the same", field_name, "bytes",
	  AROUND(1, -EINVAL, 0, 0) },
	{ "segment.h", "how many, 1 to PERCPU_STATS_MAX_COMMIT", fields, "fields",
	  AROUND(64, 0, 0, -EINVAL) },
	{ "segment.h", "how many, 1 to PERCPU_STATS_MAX_COMMIT", fields, "fields",
	  AROUND(1, -EINVAL, 0, 0) },

	{ "family.h", "a cap that is 0 or above PERCPU_FAMILY_CAP", family_cap, "cap",
	  AROUND(1, -EINVAL, 0, 0) },
	{ "family.h", "#define PERCPU_FAMILY_CAP", family_cap, "cap",
	  AROUND(1000000, 0, 0, -EINVAL) },
	{ "family.h", "a value has more than 4096 bytes", family_value, "bytes",
	  AROUND(4096, 0, 0, -ERANGE) },
	{ "family.h", "-ENAMETOOLONG, -EILSEQ, -EBADMSG", family_value_removed, "bytes",
	  AROUND(4096, 0, 0, -ENAMETOOLONG) },
	{ "family.h", "It has at most d->cap series", family_series, "series",
	  AROUND(2, 0, 0, -ERANGE) },
};
/* clang-format on */

static bool limit_address_space(rlim_t value)
{
	struct rlimit l;

	return getrlimit(RLIMIT_AS, &l) == 0 &&
	       setrlimit(RLIMIT_AS, &(struct rlimit){ value, l.rlim_max }) == 0;
}

/* A huge value counts as accepted if it fails only for lack of address space: no machine needs
 * to have that much, and the test takes no time. */
static int try_bound(const struct bound *b, unsigned i)
{
	struct rlimit was;
	int e;

	if (!b->huge)
		return b->call(b->value[i]);
	if (!test_can_limit_address_space())
		return b->result[i] == -ENOMEM ? NONE : b->call(b->value[i]);
	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	assert_true(limit_address_space(0));
	e = b->call(b->value[i]);
	assert_true(limit_address_space(was.rlim_cur));
	return e;
}

static void limits_are_as_stated(void **state)
{
	unsigned wrong = 0;

	(void)state;
	for (size_t r = 0; r < sizeof(bounds) / sizeof(bounds[0]); r++) {
		const struct bound *b = &bounds[r];

		for (unsigned i = 0; i < 3; i++) {
			int e = try_bound(b, i);

			if (e == b->result[i] || e == NONE)
				continue;
			print_error("%s: %s: %s %" PRId64 " returns %d, not %d\n", b->header,
				    b->words, b->what, b->value[i], e, b->result[i]);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

static int prepare(void **state)
{
	(void)state;
	percpu_status();
	assert_int_equal(test_region_new(test_path("region"), NULL, &region), 0);
	return percpu_segment_open(test_path("segment"), ALL, NULL, &segment);
}

static int finish(void **state)
{
	percpu_segment_close(segment);
	percpu_region_close(region);
	return test_remove_paths(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_are_as_stated),
	};

	return cmocka_run_group_tests(tests, prepare, finish);
}
