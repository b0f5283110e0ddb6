/* SPDX-License-Identifier: MIT */
/*
 * compact.h - large sets of 64-bit counters in 4 bytes per counter and CPU.
 *
 * A CPU's cell has 32 bits and wraps. The cells' sum is the total modulo 2^32;
 * a 64-bit checkpoint per counter, the total at some moment, tells the rest.
 * No count ever moves from one place to another: a cell that has come far
 * since the checkpoint refuses to go on until there is a new one. So an add is
 * in the total at once or, if its thread is killed, not at all.
 *
 * What percpu_counter_array_*() promises holds here, too, value by value. What
 * differs: an add costs a few more instructions and, once in a while, a sum
 * over all CPUs; and adds that are longer than what a cell may move between
 * checkpoints, 2^27 / (CPUs + 1) or up to twice that, are atomic additions.
 */
#ifndef PERCPU_COMPACT_H
#define PERCPU_COMPACT_H

#include <percpu/region.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** A set of n counters. The fields are the library's. */
struct percpu_compact {
	struct percpu_block block;
	uint64_t half; /* half of what a cell may move between checkpoints */
	size_t n;      /* counters */
};

/*
 * What the calls of this header have in common, where one does not say more.
 *
 * Context: what creates, opens, attaches, detaches or destroys: any thread, constructors
 * included; not a signal handler. The rest: any thread of any process that has the set
 * mapped; signal handlers; children of fork.
 * Ordering: an add or a reset orders nothing (as memory_order_relaxed); a read includes
 * the adds that happened before it.
 * Progress: what creates or destroys takes locks of the process and, in a shared region,
 * one between processes, for which it waits a second at most. The rest takes no lock: an
 * add is bounded; a read or a reset of a counter begins anew when a checkpoint of it was
 * made meanwhile: rarely, see above.
 */

/**
 * Create n counters of 0 in memory of this process, or in a region. In a
 * region they take 16 bytes each of a lane's address space, and must fit; a
 * shared one reserves 4 bytes per counter and CPU, and 32 per counter. By default 4096
 * counters fit (percpu_region_options.lane_size; docs/region.md says what others cost).
 *
 * Returns 0, or -EINVAL (a NULL, n is 0, more than fit, or more than 2^36; 2^26 in
 * 32-bit processes), -ENOMEM, -E2BIG (more CPUs than PERCPU_MAX_CPUS); in a region as
 * percpu_region_alloc().
 *
 * Context: any thread, constructors included; not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_compact_create(size_t n, struct percpu_compact **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_compact_create_in(struct percpu_region *r, size_t n,
							  struct percpu_compact **ret);

/**
 * Attach to n counters at this root of a shared region, or create them if nobody has;
 * as percpu_counter_array_open(), but with another n than the creator's it is -EEXIST,
 * and -EINVAL is for more than 4096 counters by default.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_compact_open(struct percpu_region *r, unsigned root,
						     size_t n, struct percpu_compact **ret);

/**
 * Attach to the n counters that another process created at this key of a
 * shared region. percpu_compact_detach() undoes it and leaves the counters.
 *
 * Returns 0, or -EINVAL (a NULL, n is 0 or more than 2^36, or 2^26), -ENOENT (no
 * set of n counters there), -ENOMEM. n must be that of the creator. In lanes of more
 * than 128 KiB, one that differs by less than lane size / 131072 is not noticed, and would
 * count in other places.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_compact_attach(struct percpu_region *r, uint64_t key,
						       size_t n, struct percpu_compact **ret);
PERCPU_API void percpu_compact_detach(struct percpu_compact *c);

/** The set's key in the region it was created in; 0 for a private set. */
PERCPU_API uint64_t percpu_compact_key(const struct percpu_compact *c);

/** Free the set and its counters; in a region that was opened to read, the set alone.
 *  NULL is fine. No thread may be using it. */
PERCPU_API void percpu_compact_destroy(struct percpu_compact *c);

PERCPU_API void percpu_compact_add_slow(const struct percpu_compact *c, size_t i, int64_t n);

/**
 * Add n, which may be negative, to counter i, which must be below c->n.
 *
 * Context: any thread of any process that has the set mapped; signal handlers;
 * children of fork and vfork. Never fails, never loses.
 * Ordering: none (as memory_order_relaxed).
 * Progress: bounded: after a few refused or aborted attempts, an atomic
 * addition.
 */
PERCPU_INLINE void percpu_compact_add(const struct percpu_compact *c, size_t i, int64_t n)
{
	if (percpu_unlikely(
		    percpu_seq_narrow_add(c->block.base + i * 4, c->block.stride, n, c->half)))
		percpu_compact_add_slow(c, i, n);
}

/**
 * Read counter i; i >= c->n reads as 0. Of a counter that only grows, reads
 * that follow one another never go back.
 *
 * Context: any thread, signal handlers. Costs a load per possible CPU.
 * Ordering: updates that happen before the call are included.
 * Progress: reads again when a checkpoint was made meanwhile.
 */
PERCPU_API uint64_t percpu_compact_fetch(const struct percpu_compact *c, size_t i);

/** Zero, or read and reset, as percpu_counter_zero() and
 *  percpu_counter_fetch_zero(); i >= c->n resets nothing, and nothing is reset in a
 *  region that was opened to read. */
PERCPU_API void percpu_compact_zero(struct percpu_compact *c, size_t i);
PERCPU_API uint64_t percpu_compact_fetch_zero(struct percpu_compact *c, size_t i);

/** Read all counters into out[0..c->n-1], lane by lane: at memory bandwidth. */
PERCPU_API void percpu_compact_fetch_all(const struct percpu_compact *c, uint64_t *out);

PERCPU_END_DECLS

#endif
