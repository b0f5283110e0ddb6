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

/* pair.c: pairs, which are two adjacent words of an atomic lane or of the bias lane, aligned to 16
 * bytes, that change together. No sequence stores to them. */

struct percpu_pair_value {
	uint64_t first, second;
};

/**
 * Return whether this process changes a pair by one instruction, as on 64-bit CPUs. If not, it
 * changes pairs under the journal's lock, and only the bias lane has pairs. Processes of both
 * kinds must not use the same pairs.
 */
bool percpu_pair_is_atomic(void);

/** Load a pair: both words as before a change, or both as after it. Acquire. The region may be
 *  open to read only. Returns 0, or, if pairs are not atomic, an error of percpu_journal_read(). */
int percpu_pair_load(struct percpu_chunk *k, size_t lane, size_t offset,
		     struct percpu_pair_value *ret);

/** Load a pair, which may be in a CPU lane, without a store. On a CPU that does not load 16 bytes
 *  at once, the two words may be of different moments, if the pair changed meanwhile. */
struct percpu_pair_value percpu_pair_peek(const struct percpu_chunk *k, size_t lane, size_t offset);

/**
 * Set the pair to v if it is as expected. Acquire and release. The region must be writable.
 *
 * Returns 0; or -EAGAIN if the pair is not as expected, with *expected set to what it is; or,
 * if pairs are not atomic, an error of percpu_journal_lock(), with *expected unchanged.
 */
int percpu_pair_cmpxchg(struct percpu_chunk *k, size_t lane, size_t offset,
			struct percpu_pair_value *expected, struct percpu_pair_value v);

/* double.c: cells that hold doubles */

/** Return whether n is neither infinite nor NaN, also where the compiler assumes that no number
 *  is (-ffast-math). */
bool percpu_double_is_number(double n);

/** Return the sum at an offset, as percpu_fcounter_fetch(). */
double percpu_double_sum(const struct percpu_chunk *k, size_t offset);

/** Reset the sum at an offset, and return what it was, as percpu_fcounter_reset(). In a region
 *  that was opened to read, return the sum and reset nothing. */
double percpu_double_reset(struct percpu_chunk *k, size_t offset);

/** Add n, which is a number, atomically at an offset. Returns 0, or -ERANGE if the sum would be
 *  too large. */
int percpu_double_add_atomic(struct percpu_chunk *k, size_t offset, double n);

/** Add n doubles of a lane to the sums of other lanes. */
void percpu_double_gather(uint64_t *to, const uint64_t *lane, size_t n);

/** What a gauge has in the bias lane, aligned to 16 bytes. */
struct percpu_double_bias {
	struct percpu_pair_value sum;	 /* sum of the lanes when it was set; number of the set */
	struct percpu_pair_value set[2]; /* value that it was set to; number of the set */
};

/** Return the level of a gauge, as percpu_fgauge_fetch(); NaN if it cannot be read. */
double percpu_double_level(struct percpu_chunk *k, size_t offset);

/** Set the level of a gauge, as percpu_fgauge_set(). The region must be writable. */
int percpu_double_set(struct percpu_chunk *k, size_t offset, double v);

/** Set out to n adjacent sums. */
void percpu_double_sums(const struct percpu_chunk *k, size_t offset, size_t n, double *out);

#endif
