/* SPDX-License-Identifier: MIT */
/*
 * rings.h - declarations that the sources of rings and of local words share.
 */
#ifndef PERCPU_RINGS_H
#define PERCPU_RINGS_H

#include <percpu/local.h>
#include <percpu/ring.h>

#include "../memory/memory.h"

/* ring.c */

/** The words of a record besides its bytes: its name twice, and the time. */
#define PERCPU_RING_EXTRA 3

/** Return the number of words that a record of size bytes takes. */
static inline uint64_t percpu_ring_words(uint64_t size)
{
	return PERCPU_RING_EXTRA + (size + 7) / 8;
}

/** Return the bytes of the longest record in a ring of size bytes. */
static inline size_t percpu_ring_longest_of(size_t size)
{
	return size / 4 < PERCPU_RING_MAX_RECORD ? size / 4 : PERCPU_RING_MAX_RECORD;
}

/** Return the ring in a lane. */
static inline struct percpu_ring_lane *percpu_ring_at(const struct percpu_ring *r, size_t lane)
{
	return (struct percpu_ring_lane *)(r->block.base + lane * r->block.stride);
}

static inline struct percpu_ring_control *percpu_ring_control(const struct percpu_ring *r)
{
	return (struct percpu_ring_control *)percpu_ring_at(r,
							    percpu_chunk_bias_lane(r->block.chunk));
}

/* ring_time.c */

#if defined(__x86_64__) || defined(__i386__)
#define PERCPU_RING_CLOCK PERCPU_RING_CLOCK_TSC
#elif defined(__aarch64__)
#define PERCPU_RING_CLOCK PERCPU_RING_CLOCK_ARM
#else
#define PERCPU_RING_CLOCK PERCPU_RING_CLOCK_NS
#endif

/** Return the time in ns when the counter was at ticks, between two moments. */
uint64_t percpu_ring_ns(uint64_t ticks, struct percpu_moment from, struct percpu_moment to);

/** Note the present moment in the control block. */
void percpu_ring_note_moment(struct percpu_ring_control *c);

/** Return whether the noted moment is of this boot of the machine, as far as is known. */
bool percpu_ring_is_of_this_boot(const struct percpu_ring_control *c);

/** Return whether the noted moment is of this boot, and of the clock that this process reads, as
 *  far as is known. Each time namespace has another clock. */
bool percpu_ring_is_of_this_clock(const struct percpu_ring_control *c);

/** Note how fast the counter counts, if the noted moment is of this process's clock, and long
 *  enough ago. If it is of another boot, replace it first. */
void percpu_ring_note_rate(struct percpu_ring_control *c);

/** Set two moments. The counter of each record that was put before this call is between them. */
void percpu_ring_moments(const struct percpu_ring_control *c, bool of_this_clock,
			 struct percpu_moment *from, struct percpu_moment *to);

/* local.c */

/** Return a struct percpu_local with PERCPU_LOCAL_REFS, for a word in a region of default
 *  geometry. One guard may serve many words. */
struct percpu_local percpu_local_word(void *cell, void *guard);

/** Create size bytes of words per CPU, as percpu_local_create() with PERCPU_LOCAL_REFS. For
 *  operations on one of the words, copy the struct, and set its cell to the word's address. */
int percpu_local_create_words(size_t size, struct percpu_local **ret);

/** Raise the guard of an object with PERCPU_LOCAL_REFS: until percpu_local_lower(), all threads use
 *  atomic operations on the words of this CPU, and the caller may do so. Returns 0 or -errno. */
int percpu_local_raise(const struct percpu_local *l, unsigned cpu);

/** Undo percpu_local_raise(). */
void percpu_local_lower(const struct percpu_local *l, unsigned cpu);

#endif
