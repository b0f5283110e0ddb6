/* SPDX-License-Identifier: MIT */
/*
 * approx.h - sums that one load estimates, with a bound on the error, and that can be kept at or
 * below a limit.
 *
 * An add goes to a word of the CPU it runs on, as with counters (counter.h). Each CPU's word
 * stays within a batch of a center. A word that all CPUs share takes other adds. The approximate
 * sum is the sum of the centers and the shared word. The exact sum is the sum of all words, also
 * after kills.
 */
#ifndef PERCPU_APPROX_H
#define PERCPU_APPROX_H

#include <percpu/region.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach or destroy: any thread, constructors
 * included; not a signal handler. Other calls: any thread of any process that has the sum
 * mapped; signal handlers, except for adds below a limit; children of fork. A child has a copy
 * of private memory. If other threads were adding during the fork, the copy's exact sum is
 * right, but its bound and limit may not hold.
 * Ordering: none for adds and resets (as memory_order_relaxed). An estimate, a fetch and a
 * comparison include the adds that happened before them.
 * Progress: creating and destroying takes locks of the process and, in a shared region, one
 * between processes, for which a call waits a second at most. An add does not wait: it tries a
 * lock when its CPU's word would leave its batch. If another thread has the lock, the add goes
 * to a word that all CPUs share.
 *
 * Sums wrap modulo 2^64. Bounds and limits need an exact sum between -2^62 and 2^62.
 */

/** Options of an approximate sum. Set size; zero in another field means the default. */
struct percpu_approx_options {
	size_t size;   /* sizeof(struct percpu_approx_options) */
	int64_t batch; /* most distance of a CPU's word from its center: 1 to 2^40; default
			  PERCPU_APPROX_BATCH */
};

#define PERCPU_APPROX_BATCH 4096

/** A sum's control block in the bias lane. A CPU lane has the CPU's word, and then its center. */
struct percpu_approx_control {
	uint64_t base;	 /* adds that went to no lane, minus what resets subtract */
	uint64_t middle; /* the approximate sum; the exact sum is never above it by more than a
			    batch for each CPU */
	int64_t limit;	 /* for which the lanes were closed last */
	uint64_t state;	 /* whether the lanes are closed; the upper bits count its changes */
	uint64_t batch;
	uint32_t busy; /* the lock holder is changing centers */
	uint32_t spare;
	uint64_t closed; /* when the lanes were closed last, in ns of CLOCK_MONOTONIC */
	uint64_t rest;
} PERCPU_ALIGNED_WORD;

/** An approximate sum. The fields are the library's. */
struct percpu_approx {
	struct percpu_block block;
	struct percpu_approx_control *control;
	uint64_t reach; /* the batch */
	uint64_t span;	/* 2 * reach + 1; 0 in a region that was opened to read */
	uint64_t slack; /* reach times the CPUs that have a lane */
};

/**
 * Create a sum of 0 in memory of this process, or in a region. It takes 64 bytes per CPU and
 * uses 16 of them.
 *
 * Returns 0, or
 *	-EINVAL	a NULL for the result or the region; options that this library does not know;
 *		a batch that is negative or above 2^40; a region whose lane size is not the
 *		default
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ETIMEDOUT  in a region, as percpu_region_alloc()
 *	-ENOTSUP  in a shared region, on machines that do not change 16 bytes at once, such as
 *		32-bit machines
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_approx_create(const struct percpu_approx_options *o,
						      struct percpu_approx **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_approx_create_in(struct percpu_region *r,
							 const struct percpu_approx_options *o,
							 struct percpu_approx **ret);

/**
 * Attach to the sum at this root of a shared region, or create it if there is none, as
 * percpu_counter_array_open() does. An existing sum keeps its batch. A batch of 0 in the options,
 * or no options, accepts any batch.
 *
 * Returns 0, an error of percpu_approx_create_in(), or -ENOENT or -EEXIST as
 * percpu_counter_array_open(); also -EEXIST if o names a batch and the sum has another.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_approx_open(struct percpu_region *r, unsigned root,
						    const struct percpu_approx_options *o,
						    struct percpu_approx **ret);

/**
 * Attach to a sum of any batch that another process created at this key of a shared region.
 * percpu_approx_detach() undoes it and leaves the sum.
 *
 * Returns 0, or -EINVAL (a NULL, another lane size), -ENOENT (no such sum there), -ENOMEM,
 * -ENOTSUP.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_approx_attach(struct percpu_region *r, uint64_t key,
						      struct percpu_approx **ret);
PERCPU_API void percpu_approx_detach(struct percpu_approx *a);

/** Return the key of the sum in its region; 0 for a private sum. */
PERCPU_API uint64_t percpu_approx_key(const struct percpu_approx *a);

/** Free the sum. No thread may be using it. NULL is fine. In a region that was opened to read, the
 *  sum stays. If a root has its key, set the root to 0 first: percpu_region_set_root(). */
PERCPU_API void percpu_approx_destroy(struct percpu_approx *a);

PERCPU_API void percpu_approx_add_slow(const struct percpu_approx *a, int64_t n);
PERCPU_API int percpu_approx_add_below_slow(const struct percpu_approx *a, int64_t n,
					    int64_t limit);

/* Add in this CPU's lane. An n larger than the batch is refused: it could reach even the distant
 * center of a closed lane. A constant 1 or -1 is never larger. */
PERCPU_INLINE int percpu_approx_try(const struct percpu_approx *a, int64_t n)
{
	if (!(__builtin_constant_p(n) && (n == 1 || n == -1)) &&
	    percpu_unlikely((uint64_t)n + a->reach >= a->span))
		return PERCPU_SEQ_REFUSED;
	return percpu_seq_add_within(a->block.base, a->block.base + 8, PERCPU_STRIDE, n, a->reach,
				     a->span);
}

/** Add n, without a limit; n may be negative. Does nothing in a region that was opened to read. */
PERCPU_INLINE void percpu_approx_add(const struct percpu_approx *a, int64_t n)
{
	if (percpu_unlikely(percpu_approx_try(a, n)))
		percpu_approx_add_slow(a, n);
}

/* Return the highest value that the exact sum can have. */
PERCPU_INLINE int64_t percpu_approx_highest(const struct percpu_approx *a)
{
	return (int64_t)(__atomic_load_n(&a->control->middle, __ATOMIC_RELAXED) + a->slack);
}

/**
 * Add n, unless the exact sum would exceed the limit. With n of 0 or less this is
 * percpu_approx_add(), whatever the limit: a program can always give back what it took.
 *
 * If all positive adds use this call, the sum never exceeds the largest limit that one of them
 * gave. Adds without a limit, adds with a larger limit, and resets of a sum below 0 may raise the
 * sum above it. If these run during the call, the sum by which it decides may be off by their
 * changes.
 *
 * Returns 0, or
 *	-ERANGE	nothing was added, because at some moment during the call the exact sum
 *		was above limit - n; or because the limit is 0 or negative, which always
 *		counts as reached
 *	-EROFS	the region was opened to read
 *	-EPERM, -EAGAIN, -ENOMEM, -ETIMEDOUT  near the limit: nothing was added, because CPUs
 *		could not be fenced (percpu_fence(), in a shared region percpu_fence_all()), or
 *		another thread was stopped with the lock for a second
 *
 * Context: any thread; not a signal handler, because of the fence.
 * Progress: near the limit the first call closes the lanes of the CPUs and fences once. From
 * then on the adds of all threads go to one word, until there is room again: 4 batches for each
 * CPU that has a lane. Adds as large as that room, each given back, may fence each time.
 */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_approx_add_below(const struct percpu_approx *a,
							    int64_t n, int64_t limit)
{
	if (percpu_unlikely(n > 0 && (limit <= 0 || percpu_approx_highest(a) > limit)) ||
	    percpu_unlikely(percpu_approx_try(a, n)))
		return percpu_approx_add_below_slow(a, n, limit);
	return 0;
}

/**
 * Read the approximate sum: one load, inline. a must not be NULL. If no add and no reset runs
 * meanwhile, the result is off by at most percpu_approx_bound() from the exact sum. Adds that run
 * meanwhile may be in it or not. It may be negative where the exact sum cannot be. While lanes are
 * closed near a limit, it is lower than the exact sum by a batch for each CPU.
 */
PERCPU_INLINE int64_t percpu_approx_estimate(const struct percpu_approx *a)
{
	return (int64_t)__atomic_load_n(&a->control->middle, __ATOMIC_RELAXED);
}

/** Return the batch of the sum; 0 for NULL. */
PERCPU_API uint64_t percpu_approx_batch(const struct percpu_approx *a);

/** Return the bound on the error: a batch for each CPU that has a lane, plus one; 0 for NULL. */
PERCPU_API uint64_t percpu_approx_bound(const struct percpu_approx *a);

/** Read the exact sum, as percpu_counter_fetch() does. Loads each lane once. NULL reads as 0. */
PERCPU_API int64_t percpu_approx_fetch(const struct percpu_approx *a);

/**
 * Compare the exact sum with v. Returns -1 if the sum is less, 0 if it is the same, 1 if it is
 * more. Sums the lanes only if v is within the bound of the approximate sum. NULL is a sum of 0.
 */
PERCPU_API int percpu_approx_compare(const struct percpu_approx *a, int64_t v);

/** Set the sum to 0, as percpu_approx_fetch_zero() does, without a result. */
PERCPU_API void percpu_approx_zero(const struct percpu_approx *a);

/**
 * Read the sum and set it to 0 in one step: the values returned to all callers and what is left
 * add up to what was added. In a region that was opened to read, only read it.
 *
 * Progress: a reset waits for other resets and for a thread that moves centers, a second at most.
 * If the thread that it waited for is stopped, and several resets run at once, one of them may
 * return less than 0.
 */
PERCPU_API int64_t percpu_approx_fetch_zero(const struct percpu_approx *a);

PERCPU_END_DECLS

#endif
