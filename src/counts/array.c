/* SPDX-License-Identifier: MIT */
/*
 * array.c - arrays of counters: one run of cells per lane.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"

#define CELL sizeof(uint64_t)

/* The widest commit of this machine, in words; 0 before the first use. */
static unsigned commit_words;

_Static_assert(offsetof(struct percpu_counter_array, block) == 0, "begins every handle");

static size_t offset_of(const struct percpu_counter_array *a, size_t i)
{
	return (size_t)(a->block.base - a->block.chunk->base) + i * CELL;
}

static struct percpu_plan plan_array(size_t n, struct percpu_counter_array *a)
{
	*a = (struct percpu_counter_array){ .n = n };
	return (struct percpu_plan){
		.kind = PERCPU_KIND_ARRAY,
		.size = percpu_lane_bytes(n, CELL),
		.touched = n * CELL,
		.align = PERCPU_BLOCK_ALIGN, /* for the store of eight words */
		.handle = a,
		.handle_size = sizeof(*a),
	};
}

int percpu_counter_array_create(size_t n, struct percpu_counter_array **ret)
{
	struct percpu_counter_array a;
	struct percpu_plan p = plan_array(n, &a);

	return percpu_block_create(&p, ret);
}

int percpu_counter_array_create_in(struct percpu_region *r, size_t n,
				   struct percpu_counter_array **ret)
{
	struct percpu_counter_array a;
	struct percpu_plan p = plan_array(n, &a);

	return percpu_block_create_in(r, &p, ret);
}

int percpu_counter_array_attach(struct percpu_region *r, uint64_t key, size_t n,
				struct percpu_counter_array **ret)
{
	struct percpu_counter_array a;
	struct percpu_plan p = plan_array(n, &a);

	return percpu_block_attach(r, key, &p, ret);
}

int percpu_counter_array_open(struct percpu_region *r, unsigned root, size_t n,
			      struct percpu_counter_array **ret)
{
	struct percpu_counter_array a;
	struct percpu_plan p = plan_array(n, &a);

	return percpu_block_open(r, root, &p, ret);
}

uint64_t percpu_counter_array_key(const struct percpu_counter_array *a)
{
	return percpu_block_key(a, PERCPU_KIND_ARRAY);
}

void percpu_counter_array_detach(struct percpu_counter_array *a)
{
	free(a);
}

void percpu_counter_array_destroy(struct percpu_counter_array *a)
{
	percpu_block_destroy(a);
}

static __attribute__((noinline)) void retry_array_add(const struct percpu_counter_array *a,
						      size_t i, int64_t n)
{
	int r = PERCPU_SEQ_SLOW;

	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_add(a->block.base + i * CELL, a->block.stride, n);
	if (r != 0)
		percpu_chunk_add_atomic(a->block.chunk, offset_of(a, i), n);
}

void percpu_counter_array_add_slow(const struct percpu_counter_array *a, size_t i, int64_t n)
{
	if (percpu_seq_never())
		percpu_chunk_add_atomic(a->block.chunk, offset_of(a, i), n);
	else
		retry_array_add(a, i, n);
}

/* Return the widest commit of this machine on the current tier, which may have risen. */
static unsigned widest_commit(void)
{
	unsigned words = __atomic_load_n(&commit_words, __ATOMIC_RELAXED);

	if (words == 0) {
		words = percpu_vector_words();
		__atomic_store_n(&commit_words, words, __ATOMIC_RELAXED);
	}
	return percpu_tier() == PERCPU_TIER_RSEQ ? words : 1;
}

/* Add 2, 4 or 8 words with as few commits as possible. */
static __attribute__((noinline)) void add_in_steps(const struct percpu_counter_array *a, size_t i,
						   const int64_t *n, size_t words)
{
	size_t step = widest_commit();
	int r;

	percpu_seq_attach();
	if (step > words)
		step = words;
	for (; words > 0; words -= step, i += step, n += step) {
		r = PERCPU_SEQ_SLOW;
		for (int try = 0; step > 1 && percpu_seq_prepare_try(r, try); try++)
			r = percpu_counter_array_commit(a, i, n, step);
		for (size_t k = 0; k < step && r != 0; k++)
			percpu_chunk_add_atomic(a->block.chunk, offset_of(a, i + k), n[k]);
	}
}

void percpu_counter_array_add_n_slow(const struct percpu_counter_array *a, size_t i,
				     const int64_t *n, size_t words)
{
	if (words != 2 && words != 4 && words != 8) {
		for (size_t k = 0; k < words; k++)
			percpu_counter_array_add(a, i + k, n[k]);
		return;
	}
	if (words > __atomic_load_n(&commit_words, __ATOMIC_RELAXED) ||
	    percpu_counter_array_commit(a, i, n, words) != 0)
		add_in_steps(a, i, n, words);
}

uint64_t percpu_counter_array_fetch(const struct percpu_counter_array *a, size_t i)
{
	return a != NULL && i < a->n ? percpu_chunk_sum(a->block.chunk, offset_of(a, i)) : 0;
}

uint64_t percpu_counter_array_fetch_zero(struct percpu_counter_array *a, size_t i)
{
	return a != NULL && i < a->n ? percpu_chunk_reset(a->block.chunk, offset_of(a, i)) : 0;
}

void percpu_counter_array_zero(struct percpu_counter_array *a, size_t i)
{
	(void)percpu_counter_array_fetch_zero(a, i);
}

void percpu_counter_array_fetch_all(const struct percpu_counter_array *a, uint64_t *out)
{
	const size_t block = a != NULL ? percpu_sum_words(a->block.chunk) : 0;
	size_t n, offset;

	for (size_t i = 0; a != NULL && i < a->n; i += n) {
		n = a->n - i < block ? a->n - i : block;
		offset = offset_of(a, i);
		/* Load the biases before the lanes, as in percpu_chunk_sum(). */
		percpu_sum_biases(a->block.chunk, offset, n, out + i);
		PERCPU_STEP("bias loaded");
		percpu_sum_cpus(a->block.chunk, offset, n, out + i);
		percpu_sum_atomics(a->block.chunk, offset, n, out + i);
	}
}
