/* SPDX-License-Identifier: MIT */
/*
 * rings.h - what the sources of rings and of local words share among themselves.
 */
#ifndef PERCPU_RINGS_H
#define PERCPU_RINGS_H

#include <percpu/local.h>
#include <percpu/ring.h>

#include "../memory/memory.h"

/* ring.c */

/** The words of a record besides its bytes: its name twice, and the time. */
#define PERCPU_RING_EXTRA 3

/** Return how many words a record of size bytes takes; and how many bytes the longest has in
 *  rings of so many bytes. */
static inline uint64_t percpu_ring_words(uint64_t size)
{
	return PERCPU_RING_EXTRA + (size + 7) / 8;
}

static inline size_t percpu_ring_longest_of(size_t size)
{
	return size / 4 < PERCPU_RING_MAX_RECORD ? size / 4 : PERCPU_RING_MAX_RECORD;
}

/** Return what the rings have in a lane. */
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

/** A moment by the counter and by the clock. */
struct percpu_ring_moment {
	uint64_t ticks;
	uint64_t ns;
};

/** Return the counter. It is read after all loads and stores that precede the call are done,
 *  and before those that follow it. */
uint64_t percpu_ring_ticks(void);

struct percpu_ring_moment percpu_ring_now(void);

/** Return the time of a count that is between two moments, in ns. */
uint64_t percpu_ring_ns(uint64_t ticks, struct percpu_ring_moment from,
			struct percpu_ring_moment to);

/** Note a moment in the control block. */
void percpu_ring_anchor(struct percpu_ring_control *c);

/** Whether the moment there is of this boot of the machine, and of the clock that this process
 *  reads, as far as is known. Processes of other time namespaces read others. */
bool percpu_ring_is_of_this_boot(const struct percpu_ring_control *c);
bool percpu_ring_is_of_this_clock(const struct percpu_ring_control *c);

/** Note how fast the counter counts, if the moment there is some time ago, and of this
 *  process's clock. If it is of another boot, replace it. */
void percpu_ring_rate(struct percpu_ring_control *c);

/** Set two moments between which each record is whose counter was read before this. */
void percpu_ring_moments(const struct percpu_ring_control *c, bool of_this_clock,
			 struct percpu_ring_moment *from, struct percpu_ring_moment *to);

/* local.c */

/** Return a struct percpu_local for a word in a region of default geometry, with
 *  PERCPU_LOCAL_REFS. One guard may serve many words. */
struct percpu_local percpu_local_word(void *cell, void *guard);

/** As percpu_local_create() with PERCPU_LOCAL_REFS, for size bytes of words. A copy of the
 *  struct with the address of one of the words as its cell is for operations on that word. */
int percpu_local_create_words(size_t size, struct percpu_local **ret);

/** With PERCPU_LOCAL_REFS: until percpu_local_lower(), all threads use atomic operations on
 *  the words of that CPU, and so may the caller. Returns 0 or -errno. */
int percpu_local_raise(const struct percpu_local *l, unsigned cpu);
void percpu_local_lower(const struct percpu_local *l, unsigned cpu);

#endif
