/* SPDX-License-Identifier: MIT */
/*
 * histogram_read.c - reading and resetting histograms, cell by cell.
 *
 * A reader loads the bias of a cell first, and then the cell's pair in each lane, so a count is
 * never below 0. A reset replaces the bias by the sum of the lanes if the bias is unchanged. Lanes
 * are always summed in the same order. So sums of doubles that only grow never go back, and a cell
 * to which nothing was added since its reset reads as 0.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"

int percpu_histogram_snapshot_create(const struct percpu_histogram *h,
				     struct percpu_histogram_snapshot **ret)
{
	struct percpu_histogram_snapshot *s;
	size_t buckets;

	if (h == NULL || ret == NULL)
		return -EINVAL;
	buckets = (size_t)h->last + 1;
	s = calloc(1, sizeof(*s) + buckets * sizeof(s->bucket[0]) + h->bounds_n * sizeof(double));
	if (s == NULL)
		return -ENOMEM;
	if (h->own != NULL)
		s->bounds = memcpy(&s->bucket[buckets], h->bounds, h->bounds_n * sizeof(double));
	s->schema = h->schema;
	s->low = h->low;
	s->high = h->high;
	s->n = (uint32_t)buckets;
	s->ticks_per_unit = h->ticks;
	*ret = s;
	return 0;
}

void percpu_histogram_snapshot_destroy(struct percpu_histogram_snapshot *s)
{
	free(s);
}

static struct percpu_pair_value sum_cell(const struct percpu_histogram *h, size_t offset)
{
	const struct percpu_chunk *k = h->block.chunk;
	struct percpu_pair_value sum = { 0, 0 };

	for (uint32_t lane = 0; lane < k->cpus; lane++)
		sum = percpu_histogram_plus(h, sum, percpu_pair_peek(k, lane, offset), false);
	for (uint32_t lane = percpu_used_lane(k, k->cpus); lane < 2 * k->cpus;
	     lane = percpu_used_lane(k, lane + 1))
		sum = percpu_histogram_plus(h, sum, percpu_pair_peek(k, lane, offset), false);
	return sum;
}

void percpu_histogram_gather(const struct percpu_histogram *h, void *to, const void *lane)
{
	const struct percpu_pair_value *from = lane;
	struct percpu_pair_value *sum = to;

	for (size_t i = 0; i < h->record / PERCPU_HISTOGRAM_CELL; i++)
		sum[i] = percpu_histogram_plus(h, sum[i], from[i], false);
}

static int read_cell(const struct percpu_histogram *h, size_t offset, bool zero,
		     struct percpu_pair_value *ret)
{
	struct percpu_chunk *k = h->block.chunk;
	const size_t lane = percpu_chunk_bias_lane(k);
	struct percpu_pair_value bias, sum;
	int e = percpu_pair_load(k, lane, offset, &bias);

	do {
		if (e != 0 && e != -EAGAIN)
			return e;
		PERCPU_STEP("bias loaded");
		sum = sum_cell(h, offset);
		PERCPU_STEP("lanes summed");
		e = zero && (sum.first != bias.first || sum.second != bias.second) ?
			    percpu_pair_cmpxchg(k, lane, offset, &bias, sum) :
			    0;
	} while (e != 0);
	*ret = percpu_histogram_plus(h, sum, bias, true);
	return 0;
}

static size_t cells_of(const struct percpu_histogram *h, size_t i)
{
	return (size_t)(h->block.base - h->block.chunk->base) + PERCPU_HISTOGRAM_HEAD +
	       i * h->record;
}

static bool is_of_layout(const struct percpu_histogram *h,
			 const struct percpu_histogram_snapshot *s)
{
	return s->schema == h->schema && s->low == h->low && s->high == h->high &&
	       s->ticks_per_unit == h->ticks && s->n == (uint64_t)h->last + 1 &&
	       (s->bounds == NULL || h->bounds_n == 0 ||
		memcmp(s->bounds, h->bounds, h->bounds_n * sizeof(double)) == 0);
}

static void set_bucket(struct percpu_histogram_snapshot *s, uint32_t b, struct percpu_pair_value v)
{
	s->bucket[b].count = v.first;
	s->bucket[b].ticks = s->ticks_per_unit != 0 ? v.second : 0;
	s->bucket[b].sum = s->ticks_per_unit != 0 ? percpu_histogram_sum_ticks(s, b) :
						    percpu_histogram_number(v.second);
}

/* Reset a cell, and return what it held. The caller holds the lock of the journal. */
static struct percpu_pair_value reset_locked(const struct percpu_histogram *h, size_t offset)
{
	struct percpu_chunk *k = h->block.chunk;
	struct percpu_pair_value bias = percpu_pair_peek(k, percpu_chunk_bias_lane(k), offset);
	struct percpu_pair_value sum = sum_cell(h, offset);
	const uint64_t words[2] = { sum.first, sum.second };

	PERCPU_STEP("lanes summed");
	if (sum.first != bias.first || sum.second != bias.second)
		percpu_journal_set(k, offset, words, 2);
	return percpu_histogram_plus(h, sum, bias, true);
}

/* Read histogram i into s, which may be NULL, and reset it if asked. Where pairs are not atomic, a
 * reset takes the lock once for all cells, so that it resets all of them or, on an error, none. */
static int read_histogram(const struct percpu_histogram *h, size_t i, bool zero,
			  struct percpu_histogram_snapshot *s)
{
	struct percpu_chunk *k = h->block.chunk;
	const bool locks = zero && !percpu_pair_is_atomic();
	size_t offset = cells_of(h, i);
	struct percpu_pair_value v;
	struct percpu_robust lock;
	int e = 0;

	if (zero && !k->region->writable)
		return -EROFS;
	if (locks)
		e = percpu_journal_lock(k, &lock);
	for (int64_t b = 0; b <= h->last + 1 && e == 0; b++, offset += PERCPU_HISTOGRAM_CELL) {
		if (locks)
			v = reset_locked(h, offset);
		else
			e = read_cell(h, offset, zero, &v);
		if (e == 0 && s != NULL && b <= h->last)
			set_bucket(s, (uint32_t)b, v);
		else if (e == 0 && s != NULL)
			s->refused = v.first;
	}
	if (locks && e == 0)
		percpu_robust_unlock(&lock);
	if (s != NULL && e == 0)
		percpu_histogram_total(s);
	return e;
}

void percpu_histogram_total(struct percpu_histogram_snapshot *s)
{
	s->count = 0;
	s->sum = 0;
	for (uint32_t b = 0; b < s->n; b++) {
		s->count += s->bucket[b].count;
		s->sum += s->bucket[b].sum;
	}
	if (!percpu_double_is_number(s->sum)) /* the file is damaged */
		s->sum = 0;
}

static bool is_readable(const struct percpu_histogram *h, size_t i,
			const struct percpu_histogram_snapshot *s)
{
	return h != NULL && s != NULL && i < h->n && is_of_layout(h, s);
}

int percpu_histogram_fetch(const struct percpu_histogram *h, size_t i,
			   struct percpu_histogram_snapshot *s)
{
	struct percpu_histogram_snapshot *copy;
	struct percpu_draft d;
	int e;

	if (!is_readable(h, i, s))
		return -EINVAL;
	if (percpu_pair_is_atomic()) /* it cannot fail */
		return read_histogram(h, i, false, s);
	e = percpu_draft_begin(&d, sizeof(*s) + s->n * sizeof(s->bucket[0]));
	if (e != 0)
		return e;
	copy = (struct percpu_histogram_snapshot *)d.words;
	*copy = *s;
	return percpu_draft_end(&d, s, d.size, read_histogram(h, i, false, copy));
}

int percpu_histogram_fetch_zero(struct percpu_histogram *h, size_t i,
				struct percpu_histogram_snapshot *s)
{
	return is_readable(h, i, s) ? read_histogram(h, i, true, s) : -EINVAL;
}

int percpu_histogram_zero(struct percpu_histogram *h, size_t i)
{
	return h != NULL && i < h->n ? read_histogram(h, i, true, NULL) : -EINVAL;
}
