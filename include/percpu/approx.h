/* SPDX-License-Identifier: MIT */
/*
 * approx.h - sums that are read approximately in one load, with a bound on the error, and
 * that can be kept at or below a limit.
 *
 * An add goes to a word of the CPU it runs on, as with counters (counter.h). Each CPU's word
 * stays within a batch of a center that is known to all, and the sum of the centers is kept:
 * that is the approximate sum. The exact sum is that of all words, as ever, also after kills.
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
 * included; not a signal handler. The others: any thread of any process that has the sum
 * mapped; signal handlers, but for adds below a limit; children of fork. A child has a copy
 * of private memory; if other threads were adding while it was made, only the exact sum of
 * the copy is promised, and neither the bound nor a limit.
 * Ordering: none for adds and resets (as memory_order_relaxed). A read includes the adds that
 * happened before it.
 * Progress: creating and destroying takes locks of the process and, in a shared region, one
 * between processes, for which a call waits a second at most. An add does not wait: it
 * tries a lock when its CPU's word has come to the end of its reach, and adds to a word common
 * to all CPUs if another thread has the lock.
 *
 * Sums wrap modulo 2^64. Bounds and limits need an exact sum between -2^62 and 2^62.
 */

/** Options of an approximate sum. Set size; zero in another field means the default. */
struct percpu_approx_options {
	size_t size;   /* sizeof(struct percpu_approx_options) */
	int64_t batch; /* how far each CPU's word may be from its center: 1 to 2^40; default
			  PERCPU_APPROX_BATCH */
};

#define PERCPU_APPROX_BATCH 4096

/** What a sum has in the bias lane. A CPU lane has its word, and behind it the center of that. */
struct percpu_approx_control {
	uint64_t base;	 /* adds that went to no lane, minus what resets subtract */
	uint64_t middle; /* the approximate sum; the exact one is never above it by more than a
			    batch for each CPU */
	int64_t limit;	 /* for which the lanes were closed last */
	uint64_t state;	 /* whether they are; its upper bits count the changes */
	uint64_t batch;
	uint32_t busy; /* the holder of the lock is changing centers */
	uint32_t spare;
	uint64_t closed; /* CLOCK_MONOTONIC when they were closed last, in ns */
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
 * Create a sum of 0 in memory of this process, or in a region. It takes 64 bytes per CPU, of
 * which 16 are used.
 *
 * Returns 0, or
 *	-EINVAL	a NULL for the result or the region; options that this library does not know;
 *		a batch that is negative or above 2^40; a region whose lane size is not the
 *		default
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ETIMEDOUT  in a region, as percpu_region_alloc()
 *	-ENOTSUP  in a shared region on machines that do not change 16 bytes at once: those of
 *		32 bits, for example
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_approx_create(const struct percpu_approx_options *o,
						      struct percpu_approx **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_approx_create_in(struct percpu_region *r,
							 const struct percpu_approx_options *o,
							 struct percpu_approx **ret);

/**
 * Attach to the sum at this root of a shared region, or create it if nobody has, as
 * percpu_counter_array_open() does. The batch of a sum stays: a batch of 0 in the options, or no
 * options, is any.
 *
 * Returns 0, or as percpu_approx_create_in(), and -ENOENT or -EEXIST as
 * percpu_counter_array_open(); -EEXIST also if o names a batch, and the sum has another.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_approx_open(struct percpu_region *r, unsigned root,
						    const struct percpu_approx_options *o,
						    struct percpu_approx **ret);

/**
 * Attach to a sum that another process created at this key of a shared region, whatever its
 * batch. percpu_approx_detach() undoes it and leaves the sum.
 *
 * Returns 0, or -EINVAL (a NULL, another lane size), -ENOENT (no such sum there), -ENOMEM,
 * -ENOTSUP.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_approx_attach(struct percpu_region *r, uint64_t key,
						      struct percpu_approx **ret);
PERCPU_API void percpu_approx_detach(struct percpu_approx *a);

/** Its key in the region it was created in; 0 for a private one. */
PERCPU_API uint64_t percpu_approx_key(const struct percpu_approx *a);

/** Free the sum, which no thread may be using. NULL is fine. In a region that was opened to
 *  read, it stays. If a root has it, set that to 0 before: percpu_region_set_root(). */
PERCPU_API void percpu_approx_destroy(struct percpu_approx *a);

PERCPU_API void percpu_approx_add_slow(const struct percpu_approx *a, int64_t n);
PERCPU_API int percpu_approx_add_below_slow(const struct percpu_approx *a, int64_t n,
					    int64_t limit);

/* Add in this CPU's lane. What is larger than the batch could get even to a center that was
 * moved far away, to close the lane; 1 is never larger. */
PERCPU_INLINE int percpu_approx_try(const struct percpu_approx *a, int64_t n)
{
	if (!(__builtin_constant_p(n) && (n == 1 || n == -1)) &&
	    percpu_unlikely((uint64_t)n + a->reach >= a->span))
		return PERCPU_SEQ_REFUSED;
	return percpu_seq_add_within(a->block.base, a->block.base + 8, PERCPU_STRIDE, n, a->reach,
				     a->span);
}

/**
 * Add n, without a limit; negative to subtract. In a region that was opened to read nothing
 * is added.
 */
PERCPU_INLINE void percpu_approx_add(const struct percpu_approx *a, int64_t n)
{
	if (percpu_unlikely(percpu_approx_try(a, n)))
		percpu_approx_add_slow(a, n);
}

/* The exact sum is not above this. */
PERCPU_INLINE int64_t percpu_approx_highest(const struct percpu_approx *a)
{
	return (int64_t)(__atomic_load_n(&a->control->middle, __ATOMIC_RELAXED) + a->slack);
}

/**
 * Add n, unless the exact sum would come above the limit. With n of 0 or less this is
 * percpu_approx_add(), whatever the limit: giving back never fails for it.
 *
 * If all adds of more than 0 are made by this call, the sum is never above the largest limit
 * that any of them gave. Adds without a limit, or with a larger one, and resets of a sum below
 * 0, raise the sum all the same; if some run during the call, the sum that it decides by may be
 * off by what they change meanwhile.
 *
 * Returns 0, or
 *	-ERANGE	nothing was added, because at some moment during the call the exact sum
 *		was above limit - n; or because the limit is 0 or negative, which is always
 *		taken for reached
 *	-EROFS	the region was opened to read
 *	-EPERM, -EAGAIN, -ENOMEM, -ETIMEDOUT  near the limit: nothing was added, because CPUs
 *		could not be fenced (percpu_fence(), in a shared region percpu_fence_all()), or
 *		another thread was stopped with the lock for a second
 *
 * Context: any thread; not a signal handler, because of the fence.
 * Progress: near the limit the first call closes the lanes of the CPUs, for which it fences
 * once. From then on adds of all threads go to one word, until there is room again: 4 batches
 * for each CPU that has a lane. Adds as large as that, given back each time, fence each time.
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
 * Read the approximate sum. NULL is not checked for: this is one load, inline. It is off by at
 * most percpu_approx_bound() from the exact sum, if no add and no reset runs meanwhile; adds that
 * do may be in it or not. It may be negative where the exact sum cannot be. While lanes are closed
 * near a limit it is always lower than the exact sum, by a batch for each CPU.
 */
PERCPU_INLINE int64_t percpu_approx_read(const struct percpu_approx *a)
{
	return (int64_t)__atomic_load_n(&a->control->middle, __ATOMIC_RELAXED);
}

/** The batch, also of a sum that was attached to, or opened with any batch. NULL has 0. */
PERCPU_API uint64_t percpu_approx_batch(const struct percpu_approx *a);

/** The bound: the batch, times the CPUs that have a lane, plus one batch. NULL has 0. */
PERCPU_API uint64_t percpu_approx_bound(const struct percpu_approx *a);

/** Read the exact sum, as percpu_counter_fetch(): each lane is loaded once. NULL reads as 0. */
PERCPU_API int64_t percpu_approx_fetch(const struct percpu_approx *a);

/**
 * Compare the exact sum with v: -1 if it is less, 0 if it is the same, 1 if it is more. The
 * lanes are summed only if v is within the bound of the approximate sum. NULL is a sum of 0.
 */
PERCPU_API int percpu_approx_compare(const struct percpu_approx *a, int64_t v);

/**
 * Set the sum to 0; read it and set it to 0 in one: what is returned to all callers and what
 * is left add up to what was added. In a region that was opened to read, nothing is reset.
 *
 * Progress: resets wait for each other and for a thread that moves centers, a second at most. If
 * that thread is stopped, one of several resets at the same time may return less than 0.
 */
PERCPU_API void percpu_approx_zero(const struct percpu_approx *a);
PERCPU_API int64_t percpu_approx_fetch_zero(const struct percpu_approx *a);

PERCPU_END_DECLS

#endif
