/* SPDX-License-Identifier: MIT */
/*
 * histogram.c - histograms: creation, and records that were not inlined. histogram_index.c finds
 * the bucket; histogram_read.c reads.
 *
 * A lane holds the cells of one histogram after the other: underflow, buckets, overflow, and
 * refused observations. A cell is a count and a sum. The bias lane holds the biases of the cells,
 * in front of them the control block, and behind them the program's own bounds.
 *
 * value of a cell = sum of the CPU lanes + sum of the atomic lanes in use - bias
 *
 * A thread that cannot run a sequence changes a pair of an atomic lane by compare-and-swap. On
 * machines without that instruction it changes a pair of the bias lane under a lock: pair.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"

#define LOWEST (-1000)
#define HIGHEST 960 /* so that 2^64 observations have a finite sum */
#define LIMIT ((UINT64_C(1023) + HIGHEST) << 52)
#define TICK_LIMIT ((UINT64_C(1023) + 63) << 52)

_Static_assert(offsetof(struct percpu_histogram, block) == 0, "begins every handle");
_Static_assert(sizeof(struct percpu_histogram_control) <= PERCPU_HISTOGRAM_HEAD, "fits in front");
_Static_assert(PERCPU_HISTOGRAM_HEAD == PERCPU_BLOCK_ALIGN, "adopt() may read it");

static struct percpu_histogram_control *control_at(const struct percpu_block *b)
{
	return (struct percpu_histogram_control *)percpu_block_bias(b);
}

/* Creation */

/* Return the exponent of the nearest power of two not above v, or, with up, not below v. v > 0. */
static int exponent_of(double v, bool up)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return (int)(bits >> 52) - 1023 + (up && (bits & ((UINT64_C(1) << 52) - 1)) != 0);
}

/* Fill in the fields that depend on n, schema, low, high, ticks and the number of bounds, and the
 * plan's sizes; these are 0 if no lane is so long. */
static void lay_out_histogram(struct percpu_histogram *h, struct percpu_plan *p)
{
	size_t size;

	if (h->schema == PERCPU_HISTOGRAM_OWN_BOUNDS)
		h->last = (int64_t)h->bounds_n;
	else
		percpu_histogram_lay_index(h);
	h->record = ((size_t)h->last + 2) * PERCPU_HISTOGRAM_CELL; /* with the cell of refusals */
	size = percpu_lane_bytes(h->n, h->record);
	p->touched = size != 0 && size <= PERCPU_MAX_LANE / 2 ? PERCPU_HISTOGRAM_HEAD + size : 0;
	p->size = p->touched != 0 ? p->touched + h->bounds_n * sizeof(double) : 0;
	p->handle_size = sizeof(*h) + h->bounds_n * (sizeof(double) + 2 * sizeof(uint64_t));
}

int percpu_histogram_check_range(int low, int high, uint64_t ticks)
{
	if (low < LOWEST || high > HIGHEST)
		return -ERANGE;
	/* Ticks below 2^53 are exact as doubles. */
	if (ticks != 0 && (high > 52 || (high > -11 && ticks >> (53 - high) != 0)))
		return -ERANGE;
	return low < high ? 0 : -EINVAL;
}

int percpu_histogram_read_options(const struct percpu_histogram_options *o,
				  struct percpu_histogram *h)
{
	struct percpu_histogram_options opt;
	uint32_t buckets;

	if (percpu_options_read(&opt, sizeof(opt), o) != 0 || opt.flags > PERCPU_HISTOGRAM_SUMMARY)
		return -EINVAL;
	memset(h, 0, sizeof(*h));
	h->n = opt.n != 0 ? opt.n : 1;
	h->ticks = opt.ticks_per_unit;
	if (opt.flags != 0 || opt.bounds != NULL || opt.bounds_n != 0)
		return percpu_histogram_read_bounds(&opt, h);
	if (opt.min == 0)
		opt.min = 0x1p-20;
	if (opt.max == 0)
		opt.max = 0x1p10;
	buckets = opt.buckets_per_octave != 0 ? opt.buckets_per_octave : 8;
	if (!(opt.min > 0) || !(opt.max > opt.min) || buckets > 32 || (buckets & (buckets - 1)))
		return -EINVAL;
	h->schema = __builtin_ctz(buckets);
	h->low = exponent_of(opt.min, false);
	h->high = exponent_of(opt.max, true);
	return percpu_histogram_check_range(h->low, h->high, h->ticks);
}

static void start_histogram(struct percpu_block *b)
{
	const struct percpu_histogram *h = (struct percpu_histogram *)b;
	struct percpu_histogram_control *c = control_at(b);

	c->n = h->n;
	c->ticks = h->ticks;
	c->low = h->low;
	c->high = h->high;
	c->schema = h->schema;
	c->atomic = percpu_pair_is_atomic();
	c->bounds = h->bounds_n;
	if (h->bounds_n != 0)
		memcpy(percpu_histogram_bounds_at(b, h), h->bounds, h->bounds_n * sizeof(double));
}

static void complete_histogram(struct percpu_block *b)
{
	struct percpu_histogram *h = (struct percpu_histogram *)b;

	if (h->schema == PERCPU_HISTOGRAM_OWN_BOUNDS)
		percpu_histogram_lay_bounds(h);
	/* Otherwise all records take the slow path, which refuses them. */
	if (!b->chunk->region->writable)
		return;
	h->limit = h->ticks == 0 ? LIMIT - 1 : 0;
	h->tick_limit = h->ticks != 0 ? TICK_LIMIT : 0;
}

/* A handle, and the bounds that its copy on the heap has behind it. */
struct bounded {
	struct percpu_histogram h;
	double bounds[PERCPU_HISTOGRAM_MAX_BOUNDS];
	uint64_t own[2 * PERCPU_HISTOGRAM_MAX_BOUNDS]; /* filled in on the heap */
};

static bool is_same_layout(const struct bounded *a, const struct bounded *b)
{
	return a->h.n == b->h.n && a->h.ticks == b->h.ticks && a->h.low == b->h.low &&
	       a->h.high == b->h.high && a->h.schema == b->h.schema &&
	       a->h.bounds_n == b->h.bounds_n &&
	       memcmp(a->bounds, b->bounds, a->h.bounds_n * sizeof(double)) == 0;
}

/* Copy the bounds from the object, whose sizes are in the plan, and check the copy: another process
 * may change them at any time. Returns 0, or -ENOENT. */
static int copy_bounds(const struct percpu_block *found, const struct percpu_plan *p,
		       struct bounded *f)
{
	const struct percpu_chunk *k = found->chunk;
	const size_t offset = (size_t)(found->base - k->base);
	const uint64_t *from;
	uint64_t bits;

	if (p->size == 0 || p->size > k->lane_size - offset)
		return -ENOENT;
	from = percpu_histogram_bounds_at(found, &f->h);
	for (size_t i = 0; i < f->h.bounds_n; i++) {
		bits = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
		memcpy(&f->bounds[i], &bits, sizeof(bits));
	}
	return percpu_histogram_check_bounds(f->bounds, f->h.bounds_n, f->h.ticks) == 0 ? 0 :
											  -ENOENT;
}

static bool is_possible_layout(const struct percpu_histogram *h)
{
	if (h->schema == PERCPU_HISTOGRAM_OWN_BOUNDS)
		return h->low == 0 && h->high == 0 && h->bounds_n <= PERCPU_HISTOGRAM_MAX_BOUNDS;
	return h->schema >= 0 && h->schema <= PERCPU_HISTOGRAM_FINEST && h->bounds_n == 0 &&
	       percpu_histogram_check_range(h->low, h->high, h->ticks) == 0;
}

/* Load the layout that the creator wrote. Another process may have damaged it since, so each word
 * is loaded once and checked. An n of 0 in the plan's handle accepts any layout. */
static int adopt_histogram(const struct percpu_block *found, struct percpu_plan *p)
{
	const struct percpu_histogram_control *c = control_at(found);
	const uint64_t n = __atomic_load_n(&c->n, __ATOMIC_RELAXED);
	const uint64_t bounds = __atomic_load_n(&c->bounds, __ATOMIC_RELAXED);
	struct bounded *wanted = p->handle;
	struct bounded f = { .h = { .n = (size_t)n,
				    .ticks = __atomic_load_n(&c->ticks, __ATOMIC_RELAXED),
				    .low = __atomic_load_n(&c->low, __ATOMIC_RELAXED),
				    .high = __atomic_load_n(&c->high, __ATOMIC_RELAXED),
				    .schema = __atomic_load_n(&c->schema, __ATOMIC_RELAXED),
				    .bounds_n = (size_t)bounds } };

	if (f.h.n != n || n == 0 || f.h.bounds_n != bounds || !is_possible_layout(&f.h) ||
	    __atomic_load_n(&c->atomic, __ATOMIC_RELAXED) != percpu_pair_is_atomic())
		return -ENOENT;
	lay_out_histogram(&f.h, p);
	if (copy_bounds(found, p, &f) != 0 || (wanted->h.n != 0 && !is_same_layout(&f, wanted)))
		return -ENOENT;
	*wanted = f;
	return 0;
}

static struct percpu_plan plan_histogram(struct bounded *f)
{
	return (struct percpu_plan){
		.kind = PERCPU_KIND_HISTOGRAM,
		.size = PERCPU_HISTOGRAM_HEAD,
		.align = PERCPU_BLOCK_ALIGN,
		.handle = f,
		.start = start_histogram,
		.complete = complete_histogram,
		.adopt = adopt_histogram,
	};
}

/* Read the options, and plan the histograms. Returns 0 or an error. */
static int plan_new(const struct percpu_histogram_options *o, struct bounded *f,
		    struct percpu_plan *ret)
{
	int e = percpu_histogram_read_options(o, &f->h);

	if (e != 0)
		return e;
	for (size_t i = 0; i < f->h.bounds_n; i++)
		f->bounds[i] = f->h.bounds[i] + 0.0; /* -0 is 0 */
	*ret = plan_histogram(f);
	lay_out_histogram(&f->h, ret);
	return ret->size != 0 ? 0 : -EINVAL;
}

int percpu_histogram_create(const struct percpu_histogram_options *o, struct percpu_histogram **ret)
{
	struct bounded f;
	struct percpu_plan p;
	int e = plan_new(o, &f, &p);

	return e != 0 ? e : percpu_block_create(&p, ret);
}

int percpu_histogram_create_in(struct percpu_region *r, const struct percpu_histogram_options *o,
			       struct percpu_histogram **ret)
{
	struct bounded f;
	struct percpu_plan p;
	int e = plan_new(o, &f, &p);

	return e != 0 ? e : percpu_block_create_in(r, &p, ret);
}

int percpu_histogram_open(struct percpu_region *r, unsigned root,
			  const struct percpu_histogram_options *o, struct percpu_histogram **ret)
{
	struct bounded f;
	struct percpu_plan p;
	int e = plan_new(o, &f, &p);

	return e != 0 ? e : percpu_block_open(r, root, &p, ret);
}

int percpu_histogram_open_at(struct percpu_region *r, struct percpu_anchor *at,
			     const struct percpu_histogram_options *o,
			     struct percpu_histogram **ret)
{
	struct bounded f;
	struct percpu_plan p;
	int e = plan_new(o, &f, &p);

	return e != 0 ? e : percpu_block_open_at(r, at, &p, ret);
}

int percpu_histogram_attach(struct percpu_region *r, uint64_t key, struct percpu_histogram **ret)
{
	struct bounded f = { .h = { .n = 0 } };
	struct percpu_plan p = plan_histogram(&f);

	return percpu_block_attach(r, key, &p, ret);
}

uint64_t percpu_histogram_key(const struct percpu_histogram *h)
{
	return percpu_block_key(h, PERCPU_KIND_HISTOGRAM);
}

void percpu_histogram_detach(struct percpu_histogram *h)
{
	free(h);
}

void percpu_histogram_destroy(struct percpu_histogram *h)
{
	percpu_block_destroy(h);
}

/* Records that were not inlined, or whose sequence was aborted */

double percpu_histogram_number(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return percpu_double_is_number(v) ? v : 0;
}

struct percpu_pair_value percpu_histogram_plus(const struct percpu_histogram *h,
					       struct percpu_pair_value a,
					       struct percpu_pair_value b, bool minus)
{
	double sum;

	a.first = minus ? a.first - b.first : a.first + b.first;
	if (h->ticks != 0) {
		a.second = minus ? a.second - b.second : a.second + b.second;
	} else {
		sum = percpu_histogram_number(b.second);
		sum = percpu_histogram_number(a.second) + (minus ? -sum : sum);
		memcpy(&a.second, &sum, sizeof(sum));
	}
	return a;
}

/* Return whether another try may succeed: another thread has changed the pair, or has the lock.
 * Other errors mean that the kernel refuses a system call of the lock. */
static bool may_try_again(int e)
{
	return e == -EAGAIN || e == -ETIMEDOUT;
}

/* Add to an atomic lane, or, on machines without atomic pairs, subtract from the bias. */
static void add_pair_atomic(const struct percpu_histogram *h, size_t offset,
			    struct percpu_pair_value n)
{
	struct percpu_chunk *k = h->block.chunk;
	const bool minus = !percpu_pair_is_atomic();
	const size_t lane = minus ? percpu_chunk_bias_lane(k) : percpu_chunk_choose_lane(k);
	struct percpu_pair_value old = { 0, 0 };
	int e;

	do
		e = percpu_pair_load(k, lane, offset, &old);
	while (may_try_again(e));
	PERCPU_STEP("histogram: loaded");
	if (e != 0)
		return;
	do
		e = percpu_pair_cmpxchg(k, lane, offset, &old,
					percpu_histogram_plus(h, old, n, minus));
	while (may_try_again(e));
}

static int add_pair_by_sequence(const struct percpu_histogram *h, char *cell,
				struct percpu_pair_value n)
{
	return h->ticks != 0 ? percpu_seq_bank_add2(cell, h->block.stride, &h->zero, 0,
						    percpu_words2_of(n.first, n.second)) :
			       percpu_seq_add_count_double(cell, h->block.stride,
							   percpu_histogram_number(n.second));
}

/* Add an observation to a cell. */
static void record_in_cell(const struct percpu_histogram *h, size_t i, uint64_t cell, uint64_t sum)
{
	const struct percpu_pair_value n = { 1, sum };
	char *p = h->block.base + PERCPU_HISTOGRAM_HEAD + i * h->record +
		  cell * PERCPU_HISTOGRAM_CELL;
	int r = PERCPU_SEQ_SLOW;

	if (!h->block.chunk->region->writable)
		return;
	if (!percpu_seq_never()) {
		r = add_pair_by_sequence(h, p, n);
		for (int try = 0; percpu_seq_prepare_try(r, try); try++)
			r = add_pair_by_sequence(h, p, n);
	}
	if (r != 0)
		add_pair_atomic(h, (size_t)(p - h->block.chunk->base), n);
}

static void refuse(const struct percpu_histogram *h, size_t i)
{
	record_in_cell(h, i, (uint64_t)h->last + 1, 0);
}

static void record_ticks(const struct percpu_histogram *h, size_t i, uint64_t ticks)
{
	uint64_t bits = percpu_histogram_bits((double)(int64_t)ticks);

	if (bits < TICK_LIMIT)
		record_in_cell(h, i, percpu_histogram_index(h, bits), ticks);
	else if (ticks == 0)
		record_in_cell(h, i, percpu_histogram_own_cell(h, 0), 0);
	else
		refuse(h, i);
}

/* Return whether v units are less than ticks + 1/2. The product of doubles is exactly that, so the
 * exact difference is small, and the lower 64 bits give its sign. */
static bool is_below_half(const struct percpu_histogram *h, double v, uint64_t ticks)
{
	const uint64_t bits = percpu_histogram_bits(v) + 1;
	const uint64_t mantissa = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
	const unsigned shift = 1075 - (unsigned)(bits >> 52); /* v is mantissa / 2^shift */
	const uint64_t half = shift <= 64 ? (2 * ticks + 1) << (shift - 1) : 0;

	return (int64_t)(mantissa * h->ticks - half) < 0;
}

/* Return the number of ticks that is nearest to v units. v is finite and not negative. */
static uint64_t round_to_ticks(const struct percpu_histogram *h, double v)
{
	const double product = v * (double)h->ticks; /* rounded */
	uint64_t ticks;
	double rest;

	if (!(product < 0x1p63))
		return UINT64_MAX;
	ticks = (uint64_t)product;
	rest = product - (double)ticks;
	return ticks + (rest > 0.5 || (rest == 0.5 && !is_below_half(h, v, ticks)));
}

static bool takes_negative(const struct percpu_histogram *h)
{
	return h->own != NULL && h->ticks == 0;
}

void percpu_histogram_record_slow(const struct percpu_histogram *h, size_t i, double v)
{
	uint64_t bits = percpu_histogram_bits(v);

	if (!(v >= 0 || takes_negative(h)) || !(__builtin_fabs(v) < 0x1p960))
		refuse(h, i);
	else if (h->ticks != 0)
		record_ticks(h, i, round_to_ticks(h, v));
	else if (!(v > 0))
		record_in_cell(h, i, percpu_histogram_own_cell(h, v), v == 0 ? 0 : bits + 1);
	else
		record_in_cell(h, i, percpu_histogram_index(h, bits), bits + 1);
}

void percpu_histogram_record_ticks_slow(const struct percpu_histogram *h, size_t i, uint64_t ticks)
{
	if (h->ticks != 0)
		record_ticks(h, i, ticks);
	else if ((int64_t)ticks < 0)
		refuse(h, i);
	else
		percpu_histogram_record_slow(h, i, (double)(int64_t)ticks);
}
