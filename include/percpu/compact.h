/* SPDX-License-Identifier: MIT */
/*
 * compact.h - large sets of 64-bit counters in 4 bytes per counter and CPU.
 *
 * A CPU's cell has 32 bits and wraps. The sum of the cells is the total modulo 2^32.
 * A 64-bit checkpoint per counter, which is the total at some moment, gives the upper
 * bits. A cell that has moved far since the checkpoint takes no more adds until there is
 * a new checkpoint. No count ever moves from one place to another. So an add is
 * in the total at once or, if its thread is killed, not at all.
 *
 * Each counter promises the same as a counter in percpu_counter_array_*(). Two things
 * differ. An add costs a few more instructions and, once in a while, a sum over all CPUs.
 * An add that is larger than a cell may move between checkpoints is an atomic addition;
 * that limit is between 2^27 / (CPUs + 1) and twice that.
 */
#ifndef PERCPU_COMPACT_H
#define PERCPU_COMPACT_H

#include <percpu/region.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** A set of n counters. The fields are the library's. */
struct percpu_compact {
	struct percpu_block block;
	uint64_t half; /* half of the distance that a cell may move between checkpoints */
	size_t n;      /* counters */
};

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach or destroy: any thread, constructors
 * included; not a signal handler. Other calls: any thread of any process that has the set
 * mapped; signal handlers; children of fork.
 * Ordering: none for adds and resets (as memory_order_relaxed). A read includes
 * the adds that happened before it.
 * Progress: creating and destroying takes locks of the process and, in a shared region,
 * one between processes, for which a call waits a second at most. The other calls take no
 * lock. An add is bounded. A read or a reset of a counter starts again if another thread
 * makes a checkpoint of it meanwhile, which is rare.
 */

/**
 * Create n counters of 0 in memory of this process, or in a region. In a region each counter
 * takes 16 bytes of a lane, so 4096 fit into a lane of the default size. For larger lanes set
 * percpu_region_options.lane_size; docs/memory/region.md says what they cost. A shared region
 * reserves 4 bytes per counter and CPU, and 32 more per counter.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, n is 0, more counters than fit into a lane, or more than 2^36
 *		(2^26 in 32-bit processes)
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ETIMEDOUT  in a region, as percpu_region_alloc()
 *
 * Context: any thread, constructors included; not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_compact_create(size_t n, struct percpu_compact **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_compact_create_in(struct percpu_region *r, size_t n,
							  struct percpu_compact **ret);

/**
 * Attach to n counters at this root of a shared region, or create them if there are none, as
 * percpu_counter_array_open() does. Two errors differ: -EEXIST also if n differs from the
 * creator's, and -EINVAL for more counters than percpu_compact_create_in() takes.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_compact_open(struct percpu_region *r, unsigned root,
						     size_t n, struct percpu_compact **ret);

/**
 * Attach to the n counters that another process created at this key of a
 * shared region. percpu_compact_detach() undoes it and leaves the counters.
 *
 * n must be that of the creator. The call checks it in steps of lane size / 131072 counters:
 * in lanes of more than 128 KiB it does not notice a smaller difference, and adds then go to
 * wrong places.
 *
 * Returns 0, or -EINVAL (a NULL, n is 0 or more than 2^36, or 2^26 in 32-bit
 * processes), -ENOENT (no set of n counters there), -ENOMEM.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_compact_attach(struct percpu_region *r, uint64_t key,
						       size_t n, struct percpu_compact **ret);
PERCPU_API void percpu_compact_detach(struct percpu_compact *c);

/** Return the set's key in its region; 0 for a private set. */
PERCPU_API uint64_t percpu_compact_key(const struct percpu_compact *c);

/** Free the set and its counters. No thread may be using the set. NULL is fine. In a region
 *  that was opened to read, the counters stay. If a root has the set's key, set the root to
 *  0 first: percpu_region_set_root(). */
PERCPU_API void percpu_compact_destroy(struct percpu_compact *c);

PERCPU_API void percpu_compact_add_slow(const struct percpu_compact *c, size_t i, int64_t n);

/**
 * Add n, which may be negative, to counter i, which must be below c->n.
 *
 * Context: any thread of any process that has the set mapped; signal handlers;
 * children of fork and vfork. Never fails, never loses.
 * Ordering: none (as memory_order_relaxed).
 * Progress: bounded: after a few refused or aborted attempts, an atomic addition.
 */
PERCPU_INLINE void percpu_compact_add(const struct percpu_compact *c, size_t i, int64_t n)
{
	if (percpu_unlikely(
		    percpu_seq_narrow_add(c->block.base + i * 4, c->block.stride, n, c->half)))
		percpu_compact_add_slow(c, i, n);
}

/**
 * Read counter i; i >= c->n reads as 0. Successive reads of a counter that only grows
 * never go back.
 *
 * Context: any thread, signal handlers. Costs a load per possible CPU.
 * Ordering: updates that happen before the call are included.
 * Progress: reads again if another thread makes a checkpoint meanwhile.
 */
PERCPU_API uint64_t percpu_compact_fetch(const struct percpu_compact *c, size_t i);

/** Set counter i to 0, as percpu_counter_zero() does. Does nothing if i >= c->n, or in a region
 *  that was opened to read. */
PERCPU_API void percpu_compact_zero(struct percpu_compact *c, size_t i);

/** Read and reset counter i, as percpu_counter_fetch_zero() does. If i >= c->n it returns 0; in a
 *  region that was opened to read it only reads. */
PERCPU_API uint64_t percpu_compact_fetch_zero(struct percpu_compact *c, size_t i);

/** Read all counters into out[0..c->n-1], lane by lane: at memory bandwidth. */
PERCPU_API void percpu_compact_fetch_all(const struct percpu_compact *c, uint64_t *out);

PERCPU_END_DECLS

#endif
