/* SPDX-License-Identifier: MIT */
/*
 * compact.c - 32-bit cells and a 64-bit checkpoint.
 *
 * value = S + (sum of the 32-bit cells - S, as int32_t)
 *	 + sum of the 64-bit atomic lanes in use - bias
 *
 * S, the checkpoint, is the total of all adds to the cells at some moment, rounded down to a
 * multiple of GENERATIONS. The first line is the total of now, as long as that is within 2^31 of
 * S. These rules keep it there:
 *
 * - A cell moves freely within a window of X values. To move a cell out of its window, a
 *   thread makes a checkpoint: it reads S, sums the cells, and replaces the S it read by
 *   compare-and-swap. It may cross the window's end once, and only while S is still the one it
 *   made.
 * - S counts its changes in the bits that were rounded away, so no value of S returns within
 *   2^28 changes. So a checkpoint allows at most one crossing.
 * - Compare a sum of cells that were read while the checkpoint was S with the sum from which S
 *   was made, whose cells were read under the predecessor of S. From the first load of the older
 *   sum to the last of the newer one, two checkpoints allowed a crossing each. In addition, each
 *   CPU may have checked an older checkpoint and not committed yet: one such late crossing per
 *   cell, because a cell has one CPU. So the sums differ by less than X for each cell's window, X
 *   for each cell's late crossing, and 2 X: for N cells by 2 (N + 1) X.
 * - X is the largest power of two with 2 (N + 1) X <= 2^29. With the rounding
 *   of S, less than 2^28, that leaves more than half of 2^31 to spare.
 *
 * A thread that is killed in between leaves a valid checkpoint. An add of X or more goes to an
 * atomic lane, and so does an add that was refused or aborted a few times.
 *
 * A lane has 16 bytes per counter. A CPU lane uses the first 4 n bytes for cells; an atomic lane
 * the first 8 n; the bias lane 8 n for the bias, then 8 n for S. The rest is never touched.
 */
#include <errno.h>
#include <stdlib.h>

#include "counts.h"

#define NARROW sizeof(uint32_t)
#define WIDE sizeof(uint64_t)
#define GENERATIONS (UINT64_C(1) << 28)

_Static_assert(offsetof(struct percpu_compact, block) == 0, "begins every handle");

static size_t set_offset(const struct percpu_compact *c)
{
	return (size_t)(c->block.base - c->block.chunk->base);
}

static uint32_t *narrow_cells(const struct percpu_compact *c, uint32_t cpu)
{
	return (uint32_t *)percpu_chunk_lane(c->block.chunk, cpu, set_offset(c));
}

static uint64_t *wide_cells(const struct percpu_compact *c, size_t lane)
{
	return (uint64_t *)percpu_chunk_lane(c->block.chunk, lane, set_offset(c));
}

static uint64_t *biases(const struct percpu_compact *c)
{
	return wide_cells(c, percpu_chunk_bias_lane(c->block.chunk));
}

static uint64_t *checkpoints(const struct percpu_compact *c)
{
	return biases(c) + c->n;
}

/* Return half of X. */
static uint64_t half_window(uint32_t cpus)
{
	uint64_t half = UINT64_C(1) << 28;

	while (4 * (cpus + UINT64_C(1)) * half > UINT64_C(1) << 29)
		half /= 2;
	return half;
}

static void complete_set(struct percpu_block *b)
{
	struct percpu_compact *c = (struct percpu_compact *)b;

	c->half = half_window(b->chunk->cpus);
}

static struct percpu_plan plan_set(size_t n, struct percpu_compact *c)
{
	*c = (struct percpu_compact){ .n = n };
	return (struct percpu_plan){
		.kind = PERCPU_KIND_COMPACT,
		.size = percpu_lane_bytes(n, PERCPU_COMPACT_SHARE),
		.touched = n * NARROW,
		.align = PERCPU_BLOCK_ALIGN,
		.handle = c,
		.handle_size = sizeof(*c),
		.complete = complete_set,
	};
}

int percpu_compact_create(size_t n, struct percpu_compact **ret)
{
	struct percpu_compact c;
	struct percpu_plan p = plan_set(n, &c);

	return percpu_block_create(&p, ret);
}

int percpu_compact_create_in(struct percpu_region *r, size_t n, struct percpu_compact **ret)
{
	struct percpu_compact c;
	struct percpu_plan p = plan_set(n, &c);

	return percpu_block_create_in(r, &p, ret);
}

int percpu_compact_attach(struct percpu_region *r, uint64_t key, size_t n,
			  struct percpu_compact **ret)
{
	struct percpu_compact c;
	struct percpu_plan p = plan_set(n, &c);

	return percpu_block_attach(r, key, &p, ret);
}

int percpu_compact_open(struct percpu_region *r, unsigned root, size_t n,
			struct percpu_compact **ret)
{
	struct percpu_compact c;
	struct percpu_plan p = plan_set(n, &c);

	return percpu_block_open(r, root, &p, ret);
}

uint64_t percpu_compact_key(const struct percpu_compact *c)
{
	return percpu_block_key(c, PERCPU_KIND_COMPACT);
}

void percpu_compact_detach(struct percpu_compact *c)
{
	free(c);
}

void percpu_compact_destroy(struct percpu_compact *c)
{
	percpu_block_destroy(c);
}

/* Return the 64-bit total of the cells, given a checkpoint and their sum modulo 2^32. */
static uint64_t whole(uint64_t checkpoint, uint32_t sum)
{
	uint64_t since = checkpoint & -GENERATIONS;

	return since + (uint64_t)(int32_t)(sum - (uint32_t)since);
}

/* Load a cell. Acquire: the caller loads or replaces the checkpoint after the cells. */
static uint32_t load_cell(const uint32_t *cell)
{
	return __atomic_load_n(cell, __ATOMIC_ACQUIRE);
}

static uint32_t sum_cells(const struct percpu_compact *c, size_t i)
{
	uint32_t sum = 0;

	for (uint32_t cpu = 0; cpu < c->block.chunk->cpus; cpu++)
		sum += load_cell(&narrow_cells(c, cpu)[i]);
	return sum;
}

static uint64_t load_checkpoint(const struct percpu_compact *c, size_t i)
{
	return __atomic_load_n(&checkpoints(c)[i], __ATOMIC_ACQUIRE);
}

static uint64_t narrow_total(const struct percpu_compact *c, size_t i)
{
	uint64_t checkpoint;
	uint32_t sum;

	do {
		checkpoint = load_checkpoint(c, i);
		PERCPU_STEP("checkpoint loaded");
		sum = sum_cells(c, i);
	} while (load_checkpoint(c, i) != checkpoint);
	return whole(checkpoint, sum);
}

/* Make a checkpoint. Returns false if another thread made one meanwhile. */
static bool make_checkpoint(const struct percpu_compact *c, size_t i, uint64_t *ret)
{
	uint64_t old = load_checkpoint(c, i);
	uint64_t generation = (old + 1) & (GENERATIONS - 1);

	PERCPU_STEP("checkpoint to be made");
	*ret = (whole(old, sum_cells(c, i)) & -GENERATIONS) | generation;
	return __atomic_compare_exchange_n(&checkpoints(c)[i], &old, *ret, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

/* Try once to add n, which is between -X and X. Returns 0, or PERCPU_SEQ_SLOW, also if another
 * thread made a checkpoint meanwhile. */
static int try_add(const struct percpu_compact *c, size_t i, int64_t n)
{
	void *cell = c->block.base + i * NARROW;
	uint64_t checkpoint;
	int r = percpu_seq_narrow_add(cell, c->block.stride, n, c->half);

	if (r == PERCPU_SEQ_REFUSED && make_checkpoint(c, i, &checkpoint))
		r = percpu_seq_narrow_add_if(cell, c->block.stride, n, &checkpoints(c)[i],
					     checkpoint);
	return r == PERCPU_SEQ_REFUSED ? PERCPU_SEQ_SLOW : r;
}

void percpu_compact_add_slow(const struct percpu_compact *c, size_t i, int64_t n)
{
	const int64_t window = 2 * (int64_t)c->half;
	int r = PERCPU_SEQ_SLOW;

	for (int try = 0; percpu_seq_prepare_try(r, try) && n > -window && n < window; try++)
		r = try_add(c, i, n);
	if (r != 0)
		percpu_chunk_add_atomic(c->block.chunk, set_offset(c) + i * WIDE, n);
}

static uint64_t sum_wide(const struct percpu_compact *c, size_t i)
{
	const struct percpu_chunk *k = c->block.chunk;
	uint64_t sum = 0;

	for (uint32_t lane = percpu_used_lane(k, k->cpus); lane < 2 * k->cpus;
	     lane = percpu_used_lane(k, lane + 1))
		sum += __atomic_load_n(&wide_cells(c, lane)[i], __ATOMIC_RELAXED);
	return sum;
}

uint64_t percpu_compact_fetch(const struct percpu_compact *c, size_t i)
{
	uint64_t bias;

	if (c == NULL || i >= c->n)
		return 0;
	/* Load the bias first, as in percpu_chunk_sum(). */
	bias = __atomic_load_n(&biases(c)[i], __ATOMIC_ACQUIRE);
	PERCPU_STEP("bias loaded");
	return narrow_total(c, i) + sum_wide(c, i) - bias;
}

uint64_t percpu_compact_fetch_zero(struct percpu_compact *c, size_t i)
{
	uint64_t bias, sum;

	if (c == NULL || i >= c->n)
		return 0;
	if (!c->block.chunk->region->writable)
		return percpu_compact_fetch(c, i);
	bias = __atomic_load_n(&biases(c)[i], __ATOMIC_ACQUIRE);
	do {
		sum = narrow_total(c, i) + sum_wide(c, i);
		PERCPU_STEP("lanes summed");
	} while (!__atomic_compare_exchange_n(&biases(c)[i], &bias, sum, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
	return sum - bias;
}

void percpu_compact_zero(struct percpu_compact *c, size_t i)
{
	(void)percpu_compact_fetch_zero(c, i);
}

static void fetch_narrow(const struct percpu_compact *c, size_t first, size_t n, uint64_t *out)
{
	const size_t wide = set_offset(c) + first * WIDE;
	uint64_t checkpoint[PERCPU_SUM_MAX];
	uint32_t sum[PERCPU_SUM_MAX] = { 0 };

	percpu_sum_biases(c->block.chunk, wide, n, out);
	PERCPU_STEP("bias loaded");
	for (size_t i = 0; i < n; i++)
		checkpoint[i] = load_checkpoint(c, first + i);
	PERCPU_STEP("checkpoint loaded");
	percpu_sum_narrow(c->block.chunk, set_offset(c) + first * NARROW, n, sum);
	for (size_t i = 0; i < n; i++) {
		if (load_checkpoint(c, first + i) == checkpoint[i])
			out[i] += whole(checkpoint[i], sum[i]);
		else
			out[i] += narrow_total(c, first + i);
	}
	percpu_sum_atomics(c->block.chunk, wide, n, out);
}

void percpu_compact_fetch_all(const struct percpu_compact *c, uint64_t *out)
{
	const size_t block = c != NULL ? percpu_sum_words(c->block.chunk) : 0;
	size_t n;

	for (size_t i = 0; c != NULL && i < c->n; i += n) {
		n = c->n - i < block ? c->n - i : block;
		fetch_narrow(c, i, n, out + i);
	}
}
