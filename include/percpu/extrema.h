/* SPDX-License-Identifier: MIT */
/*
 * extrema.h - the minimum and the maximum of the values observed since the last reset.
 *
 * Each CPU has its own minimum and maximum. An observation stores to its CPU's words only if it is
 * a new minimum or maximum there. A reader takes the extremes of all CPUs. A reset begins a new
 * epoch and stores to no CPU's words: observations of earlier epochs no longer count, and each
 * CPU replaces them at its next observation.
 *
 * Values are signed 64-bit words or doubles; the kind is chosen when an object is created.
 */
#ifndef PERCPU_EXTREMA_H
#define PERCPU_EXTREMA_H

#include <percpu/region.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** The extremes of one series of values. The fields are the library's. */
struct percpu_extrema {
	struct percpu_block block;
	const uint64_t *epoch;
	uint32_t kind;
	uint32_t takes; /* kind; PERCPU_EXTREMA_STATE_NONE in a region that was opened to read */
};

/** For percpu_extrema_create(): the values are doubles. */
#define PERCPU_EXTREMA_DOUBLE 0x1

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach, destroy or reset: any thread; not a signal
 * handler. Other calls: any thread of any process that has the extremes mapped; signal handlers;
 * children of fork.
 * Ordering: none for observations (as memory_order_relaxed). A read includes the observations
 * that happened before it, and so does a reset.
 * Progress: creating and destroying takes locks of the process and, in a shared region, one
 * between processes, for which a call waits a second at most. An observation or a read takes no
 * lock and is bounded.
 */

/**
 * Create empty extremes in memory of this process or in a region. They take 128 bytes of a lane;
 * a CPU touches 64 of them. flags: 0 or PERCPU_EXTREMA_DOUBLE.
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
 * Attach to the extremes at this root of a shared region, or create them if there are none, as
 * percpu_counter_array_open() does. Two errors differ: -EEXIST also for extremes of the other kind,
 * and -ENOTSUP as percpu_extrema_attach().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_open(struct percpu_region *r, unsigned root,
						     unsigned flags, struct percpu_extrema **ret);

/**
 * Attach to the extremes, of either kind, that another process created at this key of a shared
 * region. percpu_extrema_detach() undoes it and leaves the extremes.
 *
 * Returns 0, or -EINVAL (a NULL), -ENOENT (no extremes there), -ENOMEM, -ENOTSUP (a 64-bit process
 * created them and this is a 32-bit process, or the other way around).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_attach(struct percpu_region *r, uint64_t key,
						       struct percpu_extrema **ret);
PERCPU_API void percpu_extrema_detach(struct percpu_extrema *x);

/** Return the key of the extremes in their region; 0 if they are private. */
PERCPU_API uint64_t percpu_extrema_key(const struct percpu_extrema *x);

/** Return 1 if the values are doubles, otherwise 0. */
PERCPU_API int percpu_extrema_is_double(const struct percpu_extrema *x);

/** Free the extremes. No thread may be using them. NULL is fine. In a region that was opened to
 *  read, they stay. If a root has their key, set the root to 0 first: percpu_region_set_root(). */
PERCPU_API void percpu_extrema_destroy(struct percpu_extrema *x);

/* The kind of the values, internally. These are not flags of percpu_extrema_create(). */
enum {
	PERCPU_EXTREMA_STATE_NONE = 0, /* no kind; also of an observation of infinity or NaN */
	PERCPU_EXTREMA_STATE_WORDS = 2,
	PERCPU_EXTREMA_STATE_DOUBLES = 3,
};

PERCPU_API PERCPU_NOTHROW int percpu_extrema_observe_slow(const struct percpu_extrema *x,
							  uint32_t kind, int64_t v);

/* Convert the bits of a double to a word with the same order, or back. */
PERCPU_INLINE int64_t percpu_extrema_order(int64_t bits)
{
	return bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1);
}

/* Observe a value of this kind, given as a word. */
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
 * Observe v: afterwards the minimum is not above v, and the maximum not below. A process that is
 * killed meanwhile has observed v or not.
 *
 * If another thread resets meanwhile, the observation counts before the reset or after it, never
 * both and never neither.
 *
 * Returns 0, or
 *	-EINVAL	the extremes are of doubles (of words, for percpu_extrema_observe_double())
 *	-EDOM	v is infinite or NaN; nothing is observed
 *	-EROFS	the region was opened to read
 *	-ETIMEDOUT  10000 attempts failed (see Progress); the file was damaged; or, in 32-bit
 *		processes, another process that uses the region is stopped. v may not have been
 *		observed
 *
 * Progress: bounded. A thread that runs no sequences compares and swaps. It starts again if
 * another thread observed a new extreme meanwhile, and gives up after 10000 attempts. In 32-bit
 * processes it takes a lock of the region if v changes something.
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
 * Read the extremes since the last reset. Without resets, successive reads of the minimum never
 * grow, and of the maximum never shrink. The two may be of different moments: an observation
 * that runs during the call may be in one, both or neither.
 *
 * For doubles, -0.0 is less than 0.0. ret_min or ret_max may be NULL.
 *
 * Returns 0, or, with *ret_min and *ret_max unchanged,
 *	-ENODATA  nothing was observed
 *	-EINVAL	x is NULL, or both results are, or the extremes are of the other kind
 *	-ETIMEDOUT  other threads have reset 10000 times meanwhile, or the file was damaged; in
 *		32-bit processes also as percpu_extrema_observe()
 *
 * Progress: bounded: starts again if another thread resets meanwhile. Costs three loads per
 * possible CPU.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_fetch(const struct percpu_extrema *x,
						      int64_t *ret_min, int64_t *ret_max);
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_fetch_double(const struct percpu_extrema *x,
							     double *ret_min, double *ret_max);

/**
 * Read the extremes and reset them: each observation is in the result of one such call. An
 * observation that runs meanwhile counts before or after it. ret_min or ret_max may be NULL; both
 * extremes are reset in any case.
 *
 * percpu_extrema_reset() does the same without the result, for either kind.
 *
 * Returns 0, or, with *ret_min and *ret_max unchanged,
 *	-ENODATA  nothing was observed; the reset is done. percpu_extrema_reset() returns 0
 *	-EINVAL	x is NULL, or both results are, or the extremes are of the other kind
 *	-EROFS	the region was opened to read
 *	-EAGAIN	other resets disturbed this one 8 times in a row
 *	-ETIMEDOUT  some CPU could not be fenced; or as percpu_extrema_fetch()
 *	errors of percpu_fence(), in a shared region of percpu_fence_all()
 * A reset that fails with one of the last three, or whose process is killed in it, loses
 * nothing: the next reset that succeeds returns its observations, too. Until then reads may lack
 * them.
 *
 * Context: any thread; not a signal handler.
 * Progress: resets of the same extremes take turns. Each waits for the one before, for a second
 * at most; then it goes on, and the one before starts again. A reset fences: by a system call in
 * private memory, in a shared region by a visit to each CPU (percpu_fence_all()), within 5 s.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_fetch_reset(struct percpu_extrema *x,
							    int64_t *ret_min, int64_t *ret_max);
PERCPU_API PERCPU_MUST_CHECK int
percpu_extrema_fetch_reset_double(struct percpu_extrema *x, double *ret_min, double *ret_max);
PERCPU_API PERCPU_MUST_CHECK int percpu_extrema_reset(struct percpu_extrema *x);

PERCPU_END_DECLS

#endif
