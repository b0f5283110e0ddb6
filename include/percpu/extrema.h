/* SPDX-License-Identifier: MIT */
/*
 * extrema.h - the least and the greatest of what was observed, since the last reset.
 *
 * Each CPU has its own minimum and maximum, so an observation that is neither stores nothing,
 * and one that is stores a word of its CPU. A reader takes the extremes of all CPUs. A reset
 * begins a new epoch and stores to no CPU's words: what was observed in an earlier epoch
 * counts no more, and each CPU replaces it when it observes something.
 *
 * Words of 64 bits, signed, or doubles: an object has one kind, chosen when it is created.
 */
#ifndef PERCPU_EXTREMA_H
#define PERCPU_EXTREMA_H

#include <percpu/region.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** The extremes of one thing. The fields are the library's. */
struct percpu_extrema {
	struct percpu_block block;
	const uint64_t *epoch;
	uint32_t kind;
	uint32_t takes; /* the kind; or that of none, in a region that was opened to read */
};

/** For percpu_extrema_create(): of doubles. */
#define PERCPU_EXTREMA_DOUBLE 0x1

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach, destroy or reset: any thread; not a signal
 * handler. The others: any thread of any process that has the extremes mapped; signal handlers;
 * children of fork.
 * Ordering: none for observations (as memory_order_relaxed). A read includes the observations
 * that happened before it, and so does a reset.
 * Progress: creating and destroying takes locks of the process and, in a shared region, one
 * between processes, for which a call waits a second at most. An observation or a read takes no
 * lock and is bounded.
 */

/**
 * Create extremes of nothing, in memory of this process or in a region. They take 128 bytes of a
 * lane, of which a CPU touches 64. flags: 0 or PERCPU_EXTREMA_DOUBLE.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, or unknown flags
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ETIMEDOUT  in a region, as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_create(unsigned flags, struct percpu_extrema **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_create_in(struct percpu_region *r, unsigned flags,
							  struct percpu_extrema **ret);

/**
 * Attach to the extremes at this root of a shared region, or create them if nobody has, as
 * percpu_counter_array_open() does. -EEXIST is also for extremes of the other kind; -ENOTSUP is
 * as of percpu_extrema_attach().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_open(struct percpu_region *r, unsigned root,
						     unsigned flags, struct percpu_extrema **ret);

/**
 * Attach to the extremes that another process created at this key of a shared region, of either
 * kind. percpu_extrema_detach() undoes it and leaves the extremes.
 *
 * Returns 0, or -EINVAL (a NULL), -ENOENT (no extremes there), -ENOMEM, -ENOTSUP (a process of
 * 64 bits created them and this one has 32, or the other way round).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_attach(struct percpu_region *r, uint64_t key,
						       struct percpu_extrema **ret);
PERCPU_API void percpu_extrema_detach(struct percpu_extrema *x);

/** The key of the extremes in the region they were created in; 0 if that is private. */
PERCPU_API uint64_t percpu_extrema_key(const struct percpu_extrema *x);

/** Whether they are of doubles. */
PERCPU_API int percpu_extrema_is_double(const struct percpu_extrema *x);

/** Free the extremes. In a region that was opened to read, they stay. NULL is fine. No thread
 *  may be using them. If a root has them, set that to 0 before: percpu_region_set_root(). */
PERCPU_API void percpu_extrema_destroy(struct percpu_extrema *x);

/* What is observed, inside the library. These are no flags: percpu_extrema_create() refuses
 * them. */
enum {
	PERCPU_EXTREMA_STATE_NONE = 0, /* infinity, or no number */
	PERCPU_EXTREMA_STATE_WORDS = 2,
	PERCPU_EXTREMA_STATE_DOUBLES = 3,
};

PERCPU_API int percpu_extrema_observe_slow(const struct percpu_extrema *x, uint32_t kind,
					   int64_t v);

/* The sign and the size of a double become those of a word, and back. */
PERCPU_INLINE int64_t percpu_extrema_order(int64_t bits)
{
	return bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1);
}

/* Observe a word of that kind. */
PERCPU_INLINE int percpu_extrema_observe_as(const struct percpu_extrema *x, uint32_t kind,
					    int64_t v)
{
	if (percpu_likely(x->takes == kind) &&
	    percpu_likely(percpu_seq_widen(x->block.base, x->block.stride, x->epoch, v) !=
			  PERCPU_SEQ_SLOW))
		return 0;
	return percpu_extrema_observe_slow(x, kind, v);
}

/**
 * Observe v: afterwards the minimum is no more, and the maximum no less. A process that is
 * killed meanwhile has observed v, or has not.
 *
 * An observation while another thread resets counts before the reset or after it, never in
 * neither and never in both.
 *
 * Returns 0, or
 *	-EINVAL	the extremes are of doubles (of words, for percpu_extrema_observe_double())
 *	-EDOM	v is infinite or no number; nothing is observed
 *	-EROFS	the region was opened to read
 *	-ETIMEDOUT  what lies in the file was damaged; or, in processes of 32 bits, another
 *		process that uses the region is stopped. v may not have been observed
 *
 * Progress: bounded. A thread that runs no sequences compares and swaps, and begins anew when
 * another thread has observed something further out meanwhile; it gives up, with -ETIMEDOUT,
 * after 10000 times. In processes of 32 bits it takes a lock of the region if v changes
 * something.
 */
PERCPU_INLINE int percpu_extrema_observe(const struct percpu_extrema *x, int64_t v)
{
	return percpu_extrema_observe_as(x, PERCPU_EXTREMA_STATE_WORDS, v);
}
PERCPU_INLINE int percpu_extrema_observe_double(const struct percpu_extrema *x, double v)
{
	int64_t bits;

	__builtin_memcpy(&bits, &v, sizeof(bits));
	if (percpu_unlikely((bits & INT64_C(0x7ff0000000000000)) == INT64_C(0x7ff0000000000000)))
		return percpu_extrema_observe_slow(x, PERCPU_EXTREMA_STATE_NONE, bits);
	return percpu_extrema_observe_as(x, PERCPU_EXTREMA_STATE_DOUBLES,
					 percpu_extrema_order(bits));
}

/**
 * Read the extremes since the last reset. While nobody resets, successive reads of the minimum
 * never grow, and of the maximum never shrink. The two may be of different moments: an
 * observation that runs during the call may be in one, both or neither.
 *
 * Of doubles, -0.0 is less than 0.0. ret_min or ret_max may be NULL.
 *
 * Returns 0, or, with *ret_min and *ret_max unchanged,
 *	-ENODATA  nothing was observed
 *	-EINVAL	x is NULL, or both results are, or the extremes are of the other kind
 *	-ETIMEDOUT  other threads have reset 10000 times meanwhile, or what lies in the file was
 *		damaged; in processes of 32 bits also as of percpu_extrema_observe()
 *
 * Progress: begins anew when another thread resets meanwhile; bounded. Costs three loads per
 * possible CPU.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_fetch(const struct percpu_extrema *x,
						      int64_t *ret_min, int64_t *ret_max);
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_fetch_double(const struct percpu_extrema *x,
							     double *ret_min, double *ret_max);

/**
 * Read the extremes and reset them: each observation is in the result of one such call. Those
 * that run meanwhile count before or after it. ret_min or ret_max may be NULL: what it would get
 * is reset, too.
 *
 * percpu_extrema_reset() is the same without the result, for either kind.
 *
 * Returns 0, or, with *ret_min and *ret_max unchanged,
 *	-ENODATA  nothing was observed; what follows is new all the same. percpu_extrema_reset()
 *		returns 0
 *	-EINVAL	x is NULL, or both results are, or the extremes are of the other kind
 *	-EROFS	the region was opened to read
 *	-EAGAIN	other threads did not wait for their turn, 8 times in a row
 *	-ETIMEDOUT  some CPU could not be fenced; or as of percpu_extrema_fetch()
 *	as percpu_fence() and percpu_fence_all()
 * A reset that fails with one of the last three, or whose process is killed in it, loses
 * nothing: the next reset that succeeds has what it found, too. Until then reads may lack it.
 *
 * Context: any thread; not a signal handler.
 * Progress: resets of the same extremes take turns: each waits for the one before, for a second
 * at most, and then makes it begin anew. It fences: by a system call in private memory, and in a
 * shared region by a visit of each CPU (percpu_fence_all()), within 5 s.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_fetch_reset(struct percpu_extrema *x,
							    int64_t *ret_min, int64_t *ret_max);
PERCPU_API PERCPU_MUST_CHECK int
percpu_extrema_fetch_reset_double(struct percpu_extrema *x, double *ret_min, double *ret_max);
PERCPU_API int percpu_extrema_reset(struct percpu_extrema *x);

PERCPU_END_DECLS

#endif
