/* SPDX-License-Identifier: MIT */
/*
 * ref.h - reference counts that are per CPU until they are killed. After Linux's percpu_ref.
 *
 * A reference count begins with one reference, the initial one, which is its creator's. While it
 * is per CPU, a get and a put each add to a cell of the CPU, in a restartable sequence, and the sum
 * is not known. percpu_ref_kill() fences, makes the count one atomic word, and puts the initial
 * reference. From then on the put that takes the count to 0 calls the release function, once.
 */
#ifndef PERCPU_REF_H
#define PERCPU_REF_H

#include <stdbool.h>

#include <percpu/counter.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** A reference count. The fields are the library's. */
struct percpu_ref {
	uint64_t cells PERCPU_ALIGNED_WORD; /* their address, or PERCPU_SEQ_CLOSED; atomic */
};

/** The most references at a time. A call with a larger n is refused, and so is a get that takes an
 *  atomic count above it. While a count is per CPU its sum is known modulo 2^62 only. So above this
 *  limit percpu_ref_fetch() is wrong, and a kill is -ERANGE, or 0 with a count that is too low.
 *  Stay below. */
#define PERCPU_REF_MAX ((UINT64_C(1) << 61) - 1)

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: getting, putting and asking (get, tryget, put, is_zero, is_dying and their variants):
 * any thread, signal handlers, children of fork and vfork. The others: any thread, but not a signal
 * handler, and not while the thread allows asynchronous cancellation. A child of fork has a copy of
 * the count as it was at the moment of the fork, with the references that other threads of the
 * parent had then; the child has to put those. A fork waits while another thread switches the mode.
 * Ordering: what a thread did before it put its reference happens before the call of the release
 * function. What happened before percpu_ref_create(), _reinit() or _resurrect() happens before what
 * follows a percpu_ref_tryget_live() that succeeds because of it. A get has no order.
 * Progress: getting and putting take no lock; on an atomic count they start again only if another
 * thread changes it meanwhile. Calls that switch the mode, of any count of the process, run one at
 * a time, each with its fence: about a microsecond, or up to a second where membarrier(2) is
 * refused. So n of them at once take as long as n fences.
 */

/**
 * A release function. The thread that puts the last reference calls it, in a signal handler if it
 * puts there, and holds no lock of the library. The function may call anything that its context
 * allows, percpu_ref_destroy() and percpu_ref_reinit() included.
 */
typedef void percpu_ref_fn(struct percpu_ref *ref, void *arg);

/** For percpu_ref_create(): the count is atomic from the start, and stays so until
 *  percpu_ref_switch_to_percpu(). */
#define PERCPU_REF_INIT_ATOMIC 0x1
/** For percpu_ref_create(): the count is 0, atomic and dead. percpu_ref_reinit() revives it. */
#define PERCPU_REF_INIT_DEAD 0x2
/** For percpu_ref_create(): the count is always atomic, and each misuse of it prints a message to
 *  standard error and aborts; without this flag a misuse is an error or is not seen. A second kill
 *  only prints, and returns -EALREADY, because threads that shut a program down may race. */
#define PERCPU_REF_DEBUG 0x4

/**
 * Create a reference count with one reference. It takes 8 bytes per CPU, and two cache lines and a
 * few words besides.
 *
 * Parameters
 *	release	called when the count is 0
 *	arg	passed to release
 *	flags	PERCPU_REF_*, or 0
 *
 * Return 0, or
 *	-EINVAL	release or ret is NULL, or unknown flags
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *
 * Context: any thread, constructors included; not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ref_create(percpu_ref_fn *release, void *arg,
						   unsigned flags, struct percpu_ref **ret);

/**
 * Free a count that is 0. The release function may call this. No other thread may be using the
 * count.
 *
 * Return 0, also for NULL; or -EBUSY while there are references, the initial one included: then the
 * count stays.
 */
PERCPU_API int percpu_ref_destroy(struct percpu_ref *ref);

PERCPU_API int percpu_ref_get_slow(struct percpu_ref *ref, uint64_t n);
PERCPU_API int percpu_ref_put_slow(struct percpu_ref *ref, uint64_t n);
PERCPU_API bool percpu_ref_tryget_slow(struct percpu_ref *ref, uint64_t n);
PERCPU_API bool percpu_ref_tryget_live_slow(struct percpu_ref *ref);

/* Add n to this CPU's cell, if the count is per CPU. The sequence is no compiler barrier. So the
 * callers have compiler fences, which keep the accesses to the counted object behind a tryget and
 * in front of a put. */
PERCPU_INLINE int percpu_ref_count(struct percpu_ref *ref, int64_t n)
{
	return percpu_seq_add_at(&ref->cells, PERCPU_STRIDE, n);
}

/**
 * Get n references. The caller must have one, so that the count is not 0. With n 0 nothing is
 * counted, and the result is the same.
 *
 * Return 0, or an error, with which nothing is counted. A caller that keeps the rules need not look
 * at it.
 *	-ESTALE	the count is 0
 *	-EOVERFLOW  n, or as far as is known the count, would be above PERCPU_REF_MAX. While the
 *		count is per CPU, only n is known
 */
PERCPU_INLINE int percpu_ref_get_many(struct percpu_ref *ref, uint64_t n)
{
	if (percpu_unlikely(n > PERCPU_REF_MAX) ||
	    percpu_unlikely(percpu_ref_count(ref, (int64_t)n)))
		return percpu_ref_get_slow(ref, n);
	return 0;
}

/** Get a reference, as percpu_ref_get_many(). */
PERCPU_INLINE int percpu_ref_get(struct percpu_ref *ref)
{
	return percpu_ref_get_many(ref, 1);
}

/**
 * Put n references. If that takes the count to 0 and it is not per CPU, this calls the release
 * function, which may destroy the count. With n 0 this does nothing, and returns 0.
 *
 * Return 0, or -ERANGE: there are not so many references. Then nothing is put, and the release
 * function is not called. While the count is per CPU, or is being switched, the call cannot see
 * that, and returns 0: then percpu_ref_kill() sees it, or a later put.
 */
PERCPU_INLINE int percpu_ref_put_many(struct percpu_ref *ref, uint64_t n)
{
	__atomic_signal_fence(__ATOMIC_RELEASE);
	if (percpu_unlikely(n > PERCPU_REF_MAX) ||
	    percpu_unlikely(percpu_ref_count(ref, -(int64_t)n)))
		return percpu_ref_put_slow(ref, n);
	return 0;
}

/** Put a reference, as percpu_ref_put_many(). */
PERCPU_INLINE int percpu_ref_put(struct percpu_ref *ref)
{
	return percpu_ref_put_many(ref, 1);
}

/**
 * Get n references unless the count is 0. The caller must make sure that the count is not destroyed
 * meanwhile, see percpu_ref_tryget_live(). This also succeeds after percpu_ref_kill(), until the
 * count is 0.
 *
 * Return whether the caller has the references now; false also if the count would be above
 * PERCPU_REF_MAX, as percpu_ref_get_many().
 */
PERCPU_INLINE PERCPU_MUST_CHECK bool percpu_ref_tryget_many(struct percpu_ref *ref, uint64_t n)
{
	if (percpu_unlikely(n > PERCPU_REF_MAX) ||
	    percpu_unlikely(percpu_ref_count(ref, (int64_t)n)))
		return percpu_ref_tryget_slow(ref, n);
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return true;
}

/** Get a reference unless the count is 0, as percpu_ref_tryget_many(). */
PERCPU_INLINE PERCPU_MUST_CHECK bool percpu_ref_tryget(struct percpu_ref *ref)
{
	return percpu_ref_tryget_many(ref, 1);
}

/**
 * Get a reference unless the count was killed. Once percpu_ref_kill() has returned 0, no such call
 * succeeds any more, not even one that began before. While percpu_ref_kill() runs, such a call may
 * succeed or fail.
 *
 * Until this returns, the caller must keep the count from being destroyed, and the memory with the
 * pointer to it from being freed: by a lock, or by a reference to something that keeps both. If
 * other threads may replace the pointer, use a reference count and grace periods (grace.h)
 * together: begin a section before the load of the pointer, and end it after this call. Then the
 * release function does not free at once, but has percpu_grace_call() do it. docs/owners/ref.md has
 * an example.
 *
 * Return whether the caller has a reference now.
 */
PERCPU_INLINE PERCPU_MUST_CHECK bool percpu_ref_tryget_live(struct percpu_ref *ref)
{
	if (percpu_unlikely(percpu_ref_count(ref, 1)))
		return percpu_ref_tryget_live_slow(ref);
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return true;
}

/**
 * Kill the count: make it atomic, let percpu_ref_tryget_live() fail, and put the initial reference.
 * If that was the last one, call the release function. Unlike in Linux, all of that is done when
 * this returns. So a caller that must act after the kill and before the release function gets a
 * reference, kills, acts, and puts its reference: docs/owners/ref.md.
 *
 * The count may be freed when this returns, and before a second call. Only a caller that has a
 * reference may call twice, or race with another call, and rely on -EALREADY.
 *
 * Return 0, or
 *	-EINVAL	ref is NULL
 *	-EALREADY  the count is dead already; nothing is done
 *	-EPERM, -ETIMEDOUT, -EAGAIN, -ENOMEM  CPUs could not be fenced (percpu_fence()). The
 *		count is as it was, and the call may be repeated. Calls of
 *		percpu_ref_tryget_live() do not fail meanwhile. A count with
 *		PERCPU_REF_INIT_ATOMIC needs no fence, and can be killed all the same
 *	-ERANGE	more references were put than there were, the initial one included. The count is
 *		dead and 0. The release function is not called, because the library cannot know
 *		which reference is missing
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ref_kill(struct percpu_ref *ref);

/**
 * Make the count atomic until percpu_ref_switch_to_percpu(); percpu_ref_reinit() and _resurrect()
 * leave it so. A put that takes it to 0 then calls the release function, also if the count was not
 * killed. A dead count is atomic already, and stays so when it is revived.
 *
 * Return 0, or -EINVAL (NULL), or an error of a fence or -ERANGE as percpu_ref_kill(); but with
 * -ERANGE it is not dead. If the initial reference was put, and no other one too often, this returns
 * 0: the count is 0, the release function is not called, and percpu_ref_kill() returns -ERANGE.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ref_switch_to_atomic(struct percpu_ref *ref);

/**
 * Make the count per CPU: now, or, if it is dead, when it is revived. With PERCPU_REF_DEBUG it
 * stays atomic.
 *
 * Return 0, or -EINVAL (NULL), or -ESTALE if the count is 0, and not dead.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ref_switch_to_percpu(struct percpu_ref *ref);

/**
 * Revive a dead count that is 0, with one reference. It can be killed again, and the release
 * function is then called again. The count is per CPU again, unless it was to stay atomic.
 *
 * Return 0, or -EINVAL (NULL), -EALREADY (it is not dead), -EBUSY (it is not 0).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ref_reinit(struct percpu_ref *ref);

/**
 * Revive a dead count that is not 0: it gets an initial reference again. Otherwise as
 * percpu_ref_reinit(). The caller must have a reference; without one the count may come to 0 at any
 * moment, and this fails with -ESTALE.
 *
 * Return 0, or -EINVAL (NULL), -EALREADY (it is not dead), -ESTALE (it is 0), -EOVERFLOW
 * (there are PERCPU_REF_MAX references).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ref_resurrect(struct percpu_ref *ref);

/** Return whether the count is 0; false while it is per CPU. After true, the caller sees what the
 *  putting threads did before. The release function may not have been called yet, or not have
 *  returned: a caller that reuses the count waits for that by other means. NULL counts as 0. */
PERCPU_API bool percpu_ref_is_zero(const struct percpu_ref *ref);

/** Return whether the count was killed, and not revived. False for NULL. */
PERCPU_API bool percpu_ref_is_dying(const struct percpu_ref *ref);

/**
 * Sum up the references, for diagnosis. The sum is exact when no thread gets or puts meanwhile.
 * Otherwise it is off by their changes, and may be negative. NULL returns 0.
 *
 * Progress: a load per CPU, under the lock of calls that switch the mode.
 */
PERCPU_API int64_t percpu_ref_fetch(const struct percpu_ref *ref);

PERCPU_END_DECLS

#endif
