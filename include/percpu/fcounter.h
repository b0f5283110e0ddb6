/* SPDX-License-Identifier: MIT */
/*
 * fcounter.h - counters of doubles, such as seconds and bytes in Prometheus, that any thread
 * updates at about the cost of an addition.
 *
 * As with counters (counter.h), an update adds to a cell of the CPU it runs on, and a read
 * sums the cells, always in the same order. Successive reads of a counter to which nothing
 * negative is added never go back. No update is lost.
 *
 * Sums are rounded as the machine adds doubles. Sums of whole numbers are exact while the
 * absolute values of all numbers ever added stay below 2^53 together. Otherwise a value is
 * off by at most
 *
 *	(n + 4 * CPUs) * 2^-53 * S	rounding to nearest; n below 2^40
 *
 * where n is the number of adds, and S is the sum of the absolute values of all numbers added,
 * both since the counter was created: a reset does not make cells smaller. If a program counts
 * small numbers after it has reset a counter of large ones, it should use a new counter.
 *
 * An add that would make a sum infinite or NaN is refused.
 */
#ifndef PERCPU_FCOUNTER_H
#define PERCPU_FCOUNTER_H

#include <percpu/region.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** A counter of doubles: an address in lane 0, not to be dereferenced. */
struct percpu_fcounter;

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach or destroy: any thread, constructors
 * included; not a signal handler. Other calls: any thread of any process that has the
 * counter mapped; signal handlers; children of fork and vfork.
 * Ordering: none for adds and resets (as memory_order_relaxed). A read includes the adds
 * that happened before it.
 * Progress: creating and destroying takes locks of the process and, in a shared region,
 * one between processes, for which a call waits a second at most. The other calls take no
 * lock. An add tries its sequence a few times, and then adds atomically, which starts again
 * only if another thread adds to the same atomic lane meanwhile. A read loads each lane
 * once, and a reset starts again if another thread resets the same counter meanwhile.
 */

/**
 * Create a counter of 0 in memory of this process.
 *
 * Returns 0, or -EINVAL (ret is NULL), -ENOMEM, or -E2BIG (more CPUs than
 * PERCPU_MAX_CPUS).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_fcounter_create(struct percpu_fcounter **ret);

/**
 * Create a counter of 0 in a region with the default lane size. Processes that share the
 * region count together.
 *
 * Returns 0, or -EINVAL (a NULL, or a region with another lane size), or -EROFS,
 * -ENOSPC, -ENOMEM or -ETIMEDOUT as percpu_region_alloc().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_fcounter_create_in(struct percpu_region *r,
							   struct percpu_fcounter **ret);

/**
 * Attach to the counter at this root of a shared region, or create it if there is none, as
 * percpu_fcounter_array_open() does.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_fcounter_open(struct percpu_region *r, unsigned root,
						      struct percpu_fcounter **ret);

/**
 * Attach to the counter that another process created at this key of a shared region, or to
 * the first of an array. percpu_fcounter_detach() undoes it and leaves the counter.
 *
 * Returns 0, or -EINVAL (a NULL, or a region with another lane size), -ENOENT (no counter
 * of doubles there), -ENOMEM.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_fcounter_attach(struct percpu_region *r, uint64_t key,
							struct percpu_fcounter **ret);
PERCPU_API void percpu_fcounter_detach(struct percpu_fcounter *c);

/** Return the counter's key in its region; 0 for a private counter. */
PERCPU_API uint64_t percpu_fcounter_key(const struct percpu_fcounter *c);

/**
 * Free a counter of this process or of a region. No thread may be using the counter. If a root
 * has its key, set the root to 0 first: percpu_region_set_root().
 * Does nothing if c is NULL, points to no allocation of 8 bytes, or is in a region that was
 * opened to read. In a shared region the call may wait for a second, as percpu_region_free().
 */
PERCPU_API void percpu_fcounter_destroy(struct percpu_fcounter *c);

PERCPU_API PERCPU_NOTHROW int percpu_fcounter_add_slow(struct percpu_fcounter *c, double n);

/**
 * Add n, which may be negative.
 *
 * Returns 0, or, with nothing added,
 *	-EDOM	n is NaN or infinite
 *	-ERANGE	the sum of what was added on this CPU would be 2^1000 or more, or
 *		-2^1000 or less; or another process has damaged the file
 *
 * A unit that is compiled without vector registers cannot call it.
 *
 * Context: any thread of any process that has the counter mapped; signal handlers; children
 * of fork and vfork. As any addition of doubles, it may set the floating-point flags of the
 * thread, obeys its rounding mode, and raises SIGFPE if the thread has enabled that.
 */
PERCPU_INLINE int percpu_fcounter_add(struct percpu_fcounter *c, double n)
{
	if (percpu_unlikely(percpu_seq_add_double(c, PERCPU_STRIDE, n)))
		return percpu_fcounter_add_slow(c, n);
	return 0;
}

/**
 * Read the counter: what was added since it was created or last zeroed. NULL reads as 0.
 * The result is finite, whatever another process has written into the file.
 *
 * The result need not be the total of any instant, as with percpu_counter_fetch().
 *
 * Context: any thread, signal handlers. Costs a load per possible CPU.
 * Ordering: updates that happen before the call are included.
 */
PERCPU_API double percpu_fcounter_fetch(const struct percpu_fcounter *c);

/**
 * Set the counter to 0: earlier adds no longer count. An add that runs meanwhile counts before
 * or after the reset, and is not lost. A reset stores to no CPU's cell: it stores the sum,
 * which reads then subtract.
 *
 * With adds of both signs, another reset may overtake this one while the sum is the same again.
 * Then no order of adds and resets may explain what is left, but with the values that
 * percpu_fcounter_fetch_zero() returned it still adds up. Counters that only grow cannot show this.
 * If sets, resets and such adds must have one order, use a gauge (gauge.h): it numbers its sets.
 *
 * Does nothing if c is NULL, or in a region that was opened to read. (There an add gets SIGSEGV;
 * docs/memory/region.md.)
 */
PERCPU_API void percpu_fcounter_zero(struct percpu_fcounter *c);

/** Read and reset in one step: the values returned to all callers and what is left in the
 *  counter add up to what was added, except for rounding. Returns 0 for NULL. In a region that
 *  was opened to read, only read. */
PERCPU_API double percpu_fcounter_fetch_zero(struct percpu_fcounter *c);

/** An array of n counters, adjacent in every lane. It takes 8 bytes per counter and CPU. The fields
 *  are the library's. */
struct percpu_fcounter_array {
	struct percpu_block block;
	size_t n; /* counters */
};

/**
 * Create n counters of 0 in memory of this process, or in a region. An array in a region
 * must fit into a lane; a lane of the default size takes 8192 counters.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, n is 0, or more counters than fit into a lane: 2^37 in memory of
 *		this process, 2^27 in 32-bit processes
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ETIMEDOUT  in a region, as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_fcounter_array_create(size_t n,
							      struct percpu_fcounter_array **ret);
PERCPU_API PERCPU_MUST_CHECK int
percpu_fcounter_array_create_in(struct percpu_region *r, size_t n,
				struct percpu_fcounter_array **ret);

/**
 * Attach to n counters at this root of a shared region, or create them if there are none, as
 * percpu_counter_array_open() does, with the same errors: -EINVAL, -ENOENT, -EEXIST,
 * -ENOSPC, -ENOMEM, -ETIMEDOUT.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_fcounter_array_open(struct percpu_region *r, unsigned root,
							    size_t n,
							    struct percpu_fcounter_array **ret);

/**
 * Attach to the first n of the counters that another process created at this key of a
 * shared region. percpu_fcounter_array_detach() undoes it and leaves the counters.
 *
 * Returns 0, or -EINVAL (a NULL, n is 0 or more than 2^37, or 2^27 in 32-bit processes),
 * -ENOENT (no n counters of doubles there), -ENOMEM.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_fcounter_array_attach(struct percpu_region *r, uint64_t key,
							      size_t n,
							      struct percpu_fcounter_array **ret);
PERCPU_API void percpu_fcounter_array_detach(struct percpu_fcounter_array *a);

/** Return the array's key in its region; 0 for a private array. */
PERCPU_API uint64_t percpu_fcounter_array_key(const struct percpu_fcounter_array *a);

/** Free the array and its counters. No thread may be using the array. NULL is fine. In a
 *  region that was opened to read, the counters stay. If a root has the array's key, set the
 *  root to 0 first: percpu_region_set_root(). */
PERCPU_API void percpu_fcounter_array_destroy(struct percpu_fcounter_array *a);

PERCPU_API PERCPU_NOTHROW int percpu_fcounter_array_add_slow(const struct percpu_fcounter_array *a,
							     size_t i, double n);

/** Add n to counter i, as percpu_fcounter_add() does. i must be below a->n. */
PERCPU_INLINE int percpu_fcounter_array_add(const struct percpu_fcounter_array *a, size_t i,
					    double n)
{
	if (percpu_unlikely(percpu_seq_add_double(a->block.base + i * 8, a->block.stride, n)))
		return percpu_fcounter_array_add_slow(a, i, n);
	return 0;
}

/** Read counter i, as percpu_fcounter_fetch() does. i >= a->n reads as 0. */
PERCPU_API double percpu_fcounter_array_fetch(const struct percpu_fcounter_array *a, size_t i);

/** Set counter i to 0, as percpu_fcounter_zero() does. Does nothing if i >= a->n. */
PERCPU_API void percpu_fcounter_array_zero(struct percpu_fcounter_array *a, size_t i);

/** Read and reset counter i, as percpu_fcounter_fetch_zero() does. Returns 0 if i >= a->n. */
PERCPU_API double percpu_fcounter_array_fetch_zero(struct percpu_fcounter_array *a, size_t i);

/** Read all counters into out[0..a->n-1], lane by lane. */
PERCPU_API void percpu_fcounter_array_fetch_all(const struct percpu_fcounter_array *a, double *out);

PERCPU_END_DECLS

#endif
