/* SPDX-License-Identifier: MIT */
/*
 * ref.h - reference counts that are per CPU until they are killed. After Linux's percpu_ref.
 *
 * A reference count begins with one reference, the initial one, which is its creator's. While
 * it is per CPU, a get and a put each add to a cell of the CPU, in a restartable sequence, and
 * nobody knows the sum. percpu_ref_kill() makes it one atomic word, for which it fences, and
 * puts the initial reference. From then on the put that takes the count to 0 calls the
 * release function, once.
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

/** The most references at a time. More of them are refused where they are seen: of an atomic count,
 *  and in one call. While a count is per CPU its sum is known modulo 2^62 alone, so beyond this
 *  limit percpu_ref_fetch() is off, and a kill is -ERANGE, or 0 with a count that is as much too
 *  low: keep below. */
#define PERCPU_REF_MAX ((UINT64_C(1) << 61) - 1)

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: getting, putting and asking (get, tryget, put, is_zero, is_dying and their like):
 * any thread, signal handlers, children of fork and vfork. The others: any thread, not a signal
 * handler, nor while the thread allows asynchronous cancellation. A child of fork has a copy of
 * the count as it was at one moment, with the references that other threads of the parent had
 * then; those it has to put itself. A fork waits while another thread switches the mode.
 * Ordering: what a thread did before it put its reference happens before the call of the
 * release function. What happened before percpu_ref_create(), _reinit() or _resurrect()
 * happens before what follows a percpu_ref_tryget_live() that succeeds because of it. A get has
 * no order.
 * Progress: getting and putting take no lock; once the count is atomic they begin anew only
 * if another thread changes it meanwhile. Calls that switch the mode, of any count of the process,
 * take turns, each with its fence: about a microsecond, or up to a second where membarrier(2) is
 * refused. So n of them at once take as long as n fences.
 */

/**
 * What is called when the count has come to 0: by the thread that put the last reference, in a
 * signal handler if it was put there. No lock of the library is held. It may call anything
 * that its context allows, percpu_ref_destroy() and percpu_ref_reinit() included. Also the
 * type of what percpu_ref_kill_and_confirm() calls.
 */
typedef void percpu_ref_fn(struct percpu_ref *ref, void *arg);

/** For percpu_ref_create(): the count is atomic from the start, and stays so until
 *  percpu_ref_switch_to_percpu(). */
#define PERCPU_REF_INIT_ATOMIC 0x1
/** The count is 0, atomic and dead: percpu_ref_reinit() revives it. */
#define PERCPU_REF_INIT_DEAD 0x2
/** The count is always atomic, and each misuse of it, which otherwise is an error or not even
 *  seen, prints a message to standard error and aborts. A second kill prints one, and returns
 *  -EALREADY as ever: paths of a shutdown may race. */
#define PERCPU_REF_DEBUG 0x4

/**
 * Create a reference count with one reference. It takes 8 bytes per CPU, and two cache lines
 * and a few words besides.
 *
 * Parameters
 *	release	called when the count is 0
 *	arg	passed to it
 *	flags	PERCPU_REF_*, or 0
 *
 * Returns 0, or
 *	-EINVAL	release or ret is NULL, or flags that this library does not know
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *
 * Context: any thread, constructors included; not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ref_create(percpu_ref_fn *release, void *arg,
						   unsigned flags, struct percpu_ref **ret);

/**
 * Free a count that is 0. The release function may call this. No other thread may be using
 * the count.
 *
 * Returns 0, also for NULL; or -EBUSY while there are references, the initial one included:
 * the count goes on.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ref_destroy(struct percpu_ref *ref);

PERCPU_API int percpu_ref_get_slow(struct percpu_ref *ref, uint64_t n);
PERCPU_API int percpu_ref_put_slow(struct percpu_ref *ref, uint64_t n);
PERCPU_API bool percpu_ref_tryget_slow(struct percpu_ref *ref, uint64_t n);
PERCPU_API bool percpu_ref_tryget_live_slow(struct percpu_ref *ref);

/* Add to this CPU's cell, if the count is per CPU. The sequence lets the compiler keep what it
 * knows of memory. Hence the fences, for the compiler alone: what the program does with what it has a reference to stays behind a
 * tryget and in front of a put. */
PERCPU_INLINE int percpu_ref_count(struct percpu_ref *ref, int64_t n)
{
	return percpu_seq_add_at(&ref->cells, PERCPU_STRIDE, n);
}

/**
 * Get a reference, or n. The caller must have one, so that the count is not 0. With n 0 nothing is
 * counted, and what is returned is the same.
 *
 * Returns 0, or an error, with which nothing is counted. A caller that keeps the rules need
 * not look.
 *	-ESTALE	the count is 0
 *	-EOVERFLOW  n, or as far as is known the count, would be above PERCPU_REF_MAX. While it
 *		is per CPU, only n is known
 */
PERCPU_INLINE int percpu_ref_get_many(struct percpu_ref *ref, uint64_t n)
{
	if (percpu_unlikely(n > PERCPU_REF_MAX) ||
	    percpu_unlikely(percpu_ref_count(ref, (int64_t)n)))
		return percpu_ref_get_slow(ref, n);
	return 0;
}

PERCPU_INLINE int percpu_ref_get(struct percpu_ref *ref)
{
	return percpu_ref_get_many(ref, 1);
}

/**
 * Put a reference, or n. If that takes the count to 0 and it is not per CPU, this calls the
 * release function, which may destroy the count.
 *
 * Returns 0, or -ERANGE: there are not so many references. Nothing is put, and nothing
 * called. While the count is per CPU, or is being switched, that is not seen: then
 * percpu_ref_kill() sees it, or a put after it. With n 0 this is 0, and calls nothing.
 */
PERCPU_INLINE int percpu_ref_put_many(struct percpu_ref *ref, uint64_t n)
{
	__atomic_signal_fence(__ATOMIC_RELEASE);
	if (percpu_unlikely(n > PERCPU_REF_MAX) ||
	    percpu_unlikely(percpu_ref_count(ref, -(int64_t)n)))
		return percpu_ref_put_slow(ref, n);
	return 0;
}

PERCPU_INLINE int percpu_ref_put(struct percpu_ref *ref)
{
	return percpu_ref_put_many(ref, 1);
}

/**
 * Get a reference, or n, unless the count is 0. The caller must have made sure that it is not
 * destroyed, see percpu_ref_tryget_live(). Also succeeds after percpu_ref_kill(), until the count
 * is 0.
 *
 * Returns whether there is a reference; false also if the count would be above PERCPU_REF_MAX,
 * as percpu_ref_get_many().
 */
PERCPU_INLINE PERCPU_MUST_CHECK bool percpu_ref_tryget_many(struct percpu_ref *ref, uint64_t n)
{
	if (percpu_unlikely(n > PERCPU_REF_MAX) ||
	    percpu_unlikely(percpu_ref_count(ref, (int64_t)n)))
		return percpu_ref_tryget_slow(ref, n);
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return true;
}

PERCPU_INLINE PERCPU_MUST_CHECK bool percpu_ref_tryget(struct percpu_ref *ref)
{
	return percpu_ref_tryget_many(ref, 1);
}

/**
 * Get a reference unless the count was killed. When percpu_ref_kill() confirms or has
 * returned 0, no such call succeeds any more, also none that began before; while it runs, one
 * may or may not.
 *
 * The caller must have made sure that the count is not destroyed, nor what has a pointer to it
 * freed, until this returns: by a lock, or because it has a reference to something that keeps
 * it. If others may replace the pointer, use grace periods (grace.h), too: begin a section before
 * the load of the pointer, and end it after this call. Then the release function does not free at
 * once, but has percpu_grace_call() do it. docs/owners/ref.md has an example.
 *
 * Returns whether there is a reference.
 */
PERCPU_INLINE PERCPU_MUST_CHECK bool percpu_ref_tryget_live(struct percpu_ref *ref)
{
	if (percpu_unlikely(percpu_ref_count(ref, 1)))
		return percpu_ref_tryget_live_slow(ref);
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return true;
}

/**
 * Kill the count: make it atomic, let percpu_ref_tryget_live() fail, call confirm, if there is
 * one, and put the initial reference. If that was the last one, the release function is called
 * before this returns. Other than in Linux, all of that is done when this returns.
 *
 * confirm has the count, and the arg of percpu_ref_create(). The calling thread calls it, once,
 * and holds no lock of the library, while the initial reference is still there: it may call
 * anything of this header but percpu_ref_destroy().
 *
 * The count may be gone when this returns, and before a second call. Only a caller that has a
 * reference may call twice, or race with another call, and rely on -EALREADY.
 *
 * Returns 0, or
 *	-EINVAL	ref is NULL
 *	-EALREADY  it is dead already; nothing is done
 *	-EPERM, -ETIMEDOUT, -EAGAIN, -ENOMEM  CPUs could not be fenced (percpu_fence()). The
 *		count is as it was, and the call may be repeated. Calls of
 *		percpu_ref_tryget_live() do not fail meanwhile. Nothing else needs a fence, so a
 *		count with PERCPU_REF_INIT_ATOMIC can be killed all the same
 *	-ERANGE	more references were put than there were, the initial one included. It is dead
 *		all the same, and its count is 0; the release function is not called, because
 *		nobody knows which reference is gone
 */
PERCPU_API int percpu_ref_kill_and_confirm(struct percpu_ref *ref, percpu_ref_fn *confirm);
PERCPU_API int percpu_ref_kill(struct percpu_ref *ref);

/**
 * Make the count atomic until percpu_ref_switch_to_percpu(); percpu_ref_reinit() and
 * _resurrect() leave it so. A put that takes it to 0 calls the release function, also if it
 * was not killed. A dead count is atomic already.
 *
 * Returns 0, or -EINVAL (NULL), or an error of a fence or -ERANGE as percpu_ref_kill(); but
 * with -ERANGE it is not dead. If exactly the initial reference was put too much, this returns
 * 0: the count is 0, the release function is not called, and percpu_ref_kill() returns -ERANGE.
 */
PERCPU_API int percpu_ref_switch_to_atomic(struct percpu_ref *ref);

/**
 * Make the count per CPU: now, or if it is dead when it is revived. With PERCPU_REF_DEBUG it
 * stays atomic.
 *
 * Returns 0, or -EINVAL (NULL), or -ESTALE: the count is 0, and not dead.
 */
PERCPU_API int percpu_ref_switch_to_percpu(struct percpu_ref *ref);

/**
 * Revive a dead count that is 0, with one reference. It can be killed again, and the release
 * function is then called again. It is per CPU again, unless it was to stay atomic.
 *
 * Returns 0, or -EINVAL (NULL), -EALREADY (it is not dead), -EBUSY (it is not 0).
 */
PERCPU_API int percpu_ref_reinit(struct percpu_ref *ref);

/**
 * Revive a dead count that is not 0: it gets an initial reference again. Otherwise as
 * percpu_ref_reinit(). The caller must have a reference, or the count may come to 0 at any
 * moment; here that is an error, and safe.
 *
 * Returns 0, or -EINVAL (NULL), -EALREADY (it is not dead), -ESTALE (it is 0), -EOVERFLOW
 * (there are PERCPU_REF_MAX references).
 */
PERCPU_API int percpu_ref_resurrect(struct percpu_ref *ref);

/** Whether the count is 0; never while it is per CPU. What the putting threads did before is
 *  seen. The release function may not have been called yet, or not have returned: a caller that
 *  reuses the count waits for that by means of its own. NULL is 0. */
PERCPU_API bool percpu_ref_is_zero(const struct percpu_ref *ref);

/** Whether the count was killed, and not revived. NULL is not dying. */
PERCPU_API bool percpu_ref_is_dying(const struct percpu_ref *ref);

/**
 * Sum up the references, for diagnosis: exact when no thread gets or puts meanwhile, otherwise
 * off by what these do, and then possibly negative. NULL has 0.
 *
 * Progress: a load per CPU, under the lock of calls that switch the mode.
 */
PERCPU_API int64_t percpu_ref_fetch(const struct percpu_ref *ref);

PERCPU_END_DECLS

#endif
