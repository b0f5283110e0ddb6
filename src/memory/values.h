/* SPDX-License-Identifier: MIT */
/*
 * values.h - cells that are not single integers: pairs of words, and doubles. Part of
 * chunk.h, which includes it.
 */
#ifndef PERCPU_VALUES_H
#define PERCPU_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct percpu_chunk;

/* pair.c: two adjacent words of an atomic lane or of the bias lane, aligned to 16 bytes, that
 * change together. No sequence stores to them. */

struct percpu_pair_value {
	uint64_t first, second;
};

/**
 * Whether this process changes a pair by one instruction, as 64-bit CPUs do. Otherwise it
 * changes pairs under the lock of the journal, and only the bias lane has any. Processes of
 * both kinds must not use the same pairs.
 */
bool percpu_pair_is_atomic(void);

/** Load a pair: both words before, or both after each change. Acquire. A region that was
 *  opened to read is fine. Returns 0, or, if pairs are not atomic, -ETIMEDOUT. */
int percpu_pair_load(struct percpu_chunk *k, size_t lane, size_t offset,
		     struct percpu_pair_value *ret);

/** Load a pair, which may be in a CPU lane, without a store. On CPUs that do not load 16 bytes
 *  at once it may be of two moments, if it changed meanwhile. */
struct percpu_pair_value percpu_pair_look(const struct percpu_chunk *k, size_t lane, size_t offset);

/**
 * Set the pair to v if it is as expected. Acquire and release. The region must be writable.
 *
 * Returns 0, or -EAGAIN if the pair is not as expected, with *expected set to what it is; or,
 * if pairs are not atomic, -ETIMEDOUT. All other errors leave *expected alone.
 */
int percpu_pair_cmpxchg(struct percpu_chunk *k, size_t lane, size_t offset,
			struct percpu_pair_value *expected, struct percpu_pair_value v);

/* double.c: cells that hold doubles */

/** Whether it is neither infinite nor NaN, also for units that do not know these. */
bool percpu_double_is_number(double n);

/** Return the sum, reset and return the sum, or add atomically, at an offset; as
 *  percpu_fcounter_*(). In a region that was opened to read, a reset resets nothing. The add
 *  is of a number, and returns 0 or -ERANGE. */
double percpu_double_sum(const struct percpu_chunk *k, size_t offset);
double percpu_double_reset(struct percpu_chunk *k, size_t offset);
int percpu_double_add_atomic(struct percpu_chunk *k, size_t offset, double n);

/** Add n sums of one lane to those of others, from which they were made in the same way. */
void percpu_double_gather(uint64_t *to, const uint64_t *lane, size_t n);

/** What a gauge has in the bias lane, aligned to 16 bytes. */
struct percpu_double_bias {
	struct percpu_pair_value sum;	 /* of the lanes when it was set; how often it was */
	struct percpu_pair_value set[2]; /* what to, and the number of that set */
};

/** Return the level of a gauge, or set it. As percpu_fgauge_*(), in a region that may be
 *  written to. */
double percpu_double_level(struct percpu_chunk *k, size_t offset);
int percpu_double_set(struct percpu_chunk *k, size_t offset, double v);

/** Return n adjacent sums. */
void percpu_double_sums(const struct percpu_chunk *k, size_t offset, size_t n, double *out);

#endif
