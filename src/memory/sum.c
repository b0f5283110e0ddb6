/* SPDX-License-Identifier: MIT */
/*
 * sum.c - sums of the lanes, of many adjacent words at a time.
 *
 * A sum mostly waits for memory: each lane's words are in pages of their own, and the CPU
 * prefetches only within a page. So the loops read several lanes together; the CPU prefetches
 * each of them. The loops are written with vectors, because compilers do not vectorize them at
 * -O2.
 *
 * Vectors are loaded by plain loads. Each word is still read whole, and the compiler sees no
 * race, because it does not know of the stores of sequences. 32-bit machines would read a word in
 * halves, and ThreadSanitizer would report races with atomic additions. There, the loops load
 * word by word, atomically.
 */
#include "memory.h"

#define TOGETHER 8 /* lanes */

#if defined(__SANITIZE_THREAD__) || UINTPTR_MAX < UINT64_MAX
#define VECTORS 0
#else
#define VECTORS 1
#endif

typedef uint64_t word_pair __attribute__((vector_size(16), aligned(8), may_alias));
typedef uint32_t half_quad __attribute__((vector_size(16), aligned(4), may_alias));

/* Order the plain loads before what the caller loads next. */
static void loaded(void)
{
#if VECTORS
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

/* The sums fit into the first-level cache. With few lanes, sum only a part of a page at a time, so
 * that the lanes do not all begin a page at once. */
size_t percpu_sum_words(const struct percpu_chunk *k)
{
	return k->cpus <= 2 * TOGETHER ? PERCPU_SUM_MAX / 4 : PERCPU_SUM_MAX;
}

void percpu_sum_biases(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out)
{
	const uint64_t *bias = (const uint64_t *)percpu_chunk_bias(k, offset);
	size_t i = 0;

	for (; VECTORS && i + 2 <= n; i += 2)
		*(word_pair *)&out[i] = -*(const word_pair *)&bias[i];
	for (; i < n; i++)
		out[i] = -__atomic_load_n(&bias[i], __ATOMIC_ACQUIRE);
	loaded();
}

/* This is inlined, so that the compiler unrolls the loop over the lanes. */
static inline __attribute__((always_inline)) void add_lanes(const char *lane, size_t stride,
							    unsigned lanes, size_t n, uint64_t *out)
{
	word_pair sum;
	size_t i = 0;

	for (; VECTORS && i + 2 <= n; i += 2) {
		sum = *(const word_pair *)&out[i];
#pragma GCC unroll 8
		for (unsigned l = 0; l < lanes; l++)
			sum += *(const word_pair *)(lane + l * stride + i * sizeof(*out));
		*(word_pair *)&out[i] = sum;
	}
	for (; i < n; i++)
		for (unsigned l = 0; l < lanes; l++)
			out[i] += __atomic_load_n((const uint64_t *)(lane + l * stride) + i,
						  __ATOMIC_ACQUIRE);
}

static void add_run(const struct percpu_chunk *k, size_t first, size_t lanes, size_t offset,
		    size_t n, uint64_t *out)
{
	const char *lane = percpu_chunk_lane(k, first, offset);

	for (; lanes >= TOGETHER; lanes -= TOGETHER, lane += TOGETHER * k->stride)
		add_lanes(lane, k->stride, TOGETHER, n, out);
	for (; lanes >= 2; lanes -= 2, lane += 2 * k->stride)
		add_lanes(lane, k->stride, 2, n, out);
	if (lanes != 0)
		add_lanes(lane, k->stride, 1, n, out);
	loaded();
}

void percpu_sum_cpus(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out)
{
	add_run(k, 0, k->cpus, offset, n, out);
}

/* Add runs of adjacent lanes that were used, so that add_run() reads several together. */
void percpu_sum_atomics(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out)
{
	uint32_t end;

	for (uint32_t lane = percpu_used_lane(k, k->cpus); lane < 2 * k->cpus;
	     lane = percpu_used_lane(k, end)) {
		end = percpu_unused_lane(k, lane + 1);
		add_run(k, lane, end - lane, offset, n, out);
	}
}

static inline __attribute__((always_inline)) void
add_narrow_lanes(const char *lane, size_t stride, unsigned lanes, size_t n, uint32_t *out)
{
	half_quad sum;
	size_t i = 0;

	for (; VECTORS && i + 4 <= n; i += 4) {
		sum = *(const half_quad *)&out[i];
#pragma GCC unroll 8
		for (unsigned l = 0; l < lanes; l++)
			sum += *(const half_quad *)(lane + l * stride + i * sizeof(*out));
		*(half_quad *)&out[i] = sum;
	}
	for (; i < n; i++)
		for (unsigned l = 0; l < lanes; l++)
			out[i] += __atomic_load_n((const uint32_t *)(lane + l * stride) + i,
						  __ATOMIC_ACQUIRE);
}

void percpu_sum_narrow(const struct percpu_chunk *k, size_t offset, size_t n, uint32_t *out)
{
	const char *lane = percpu_chunk_lane(k, 0, offset);
	size_t lanes = k->cpus;

	for (; lanes >= TOGETHER; lanes -= TOGETHER, lane += TOGETHER * k->stride)
		add_narrow_lanes(lane, k->stride, TOGETHER, n, out);
	for (; lanes >= 2; lanes -= 2, lane += 2 * k->stride)
		add_narrow_lanes(lane, k->stride, 2, n, out);
	if (lanes != 0)
		add_narrow_lanes(lane, k->stride, 1, n, out);
	loaded();
}
