/* SPDX-License-Identifier: MIT */
/*
 * grace.h - grace periods: readers enter and leave sections. A thread that has replaced an object
 * waits until every section that was begun before has ended. Then no reader uses the old object,
 * and it can be freed.
 *
 * A section costs its reader an addition on its own CPU at each end, and no wait. It may sleep
 * and may be long, as with Linux's SRCU. Several processes can have grace periods together, by
 * way of a shared region: a process that was killed in a section is not waited for.
 */
#ifndef PERCPU_GRACE_H
#define PERCPU_GRACE_H

#include <percpu/owner.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread, in a section or not; not a signal handler. A child of fork has none of
 * the sections that its parent was in, also not those of the thread that forked. A child that was
 * forked in a signal handler amid one of these calls must not return from the handler.
 * Ordering: what a thread does before it asks for a grace period is seen in all sections that
 * the period does not wait for; what was done in sections that it waits for comes before all
 * that follows its end.
 * Progress: creating, opening and destroying takes locks of the process, and in a region one
 * between processes, for which a call waits a second at most (-ETIMEDOUT).
 */

/** Grace periods, as this process has them. Of the state, bit 0 says that no period is in
 *  progress, and bit 1 which bank sections are counted in. A token is the tag and where that bank
 *  is. The tag grows when the process forks or leaves. The fields are the library's. */
struct percpu_grace {
	struct percpu_participant in;
};

/** For creating, opening and attaching: sections are checked by this handle. A section that was
 *  not begun by it, a handle that is destroyed in a section, and a callback that is called twice
 *  are printed to standard error, and the process aborts. Sections then take tens of ns. */
#define PERCPU_GRACE_DEBUG 0x1

/**
 * Create grace periods of this process alone.
 *
 * Returns 0, or
 *	-EINVAL	ret is NULL, or unknown flags
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_create(unsigned flags, struct percpu_grace **ret);

/**
 * Create grace periods in the region of these owners (owner.h); attach to those at a root, or
 * create them if nobody has; attach to those at a key. Each process that enters a section joins
 * the owners, and counts its sections in cells of its own.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, no such root, or unknown flags
 *	-ENOENT	no grace periods of these owners there; or, in a region that was opened to read,
 *		none at the root yet
 *	-EEXIST	something else is at the root, also grace periods of other owners
 *	-EROFS, -ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_create_in(struct percpu_owners *o, unsigned flags,
							struct percpu_grace **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_open(struct percpu_owners *o, unsigned root,
						   unsigned flags, struct percpu_grace **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_attach(struct percpu_owners *o, uint64_t key,
						     unsigned flags, struct percpu_grace **ret);

/** The key in the region; 0 for private ones. Context: signal handlers, too. */
PERCPU_API uint64_t percpu_grace_key(const struct percpu_grace *g);

/**
 * Free the handle: detach leaves what is in the region, which others use, and destroy frees it.
 * For a private one both are the same. The thread that runs callbacks ends. NULL is fine. If a
 * root has it, set that to 0 before: percpu_region_set_root().
 *
 * Returns 0, or
 *	-EBUSY	this process, or before destroy any that lives, is in a section; or callbacks
 *		of this process have not run yet: percpu_grace_barrier(). Nothing is freed.
 *	-EDEADLK  called by a callback of these grace periods; or, if any was ever called for, by
 *		a handler of pthread_atfork(3) that runs before the library's
 *	-ENOMEM	destroy: no memory or address space to see which processes are in sections
 *
 * No thread may be using the handle.
 */
PERCPU_API int percpu_grace_detach(struct percpu_grace *g);
PERCPU_API int percpu_grace_destroy(struct percpu_grace *g);

PERCPU_API PERCPU_MUST_CHECK int percpu_grace_enter_slow(struct percpu_grace *g);
PERCPU_API int percpu_grace_exit_slow(struct percpu_grace *g, int token);

/* Where the bank that sections are counted in has its cell, behind that of the first one. */
PERCPU_INLINE uint32_t percpu_grace_at(uint64_t state)
{
	return (uint32_t)state * 2 & 4;
}

/* Add n to the sections of the bank there, unless the state has changed. The sequence lets the
 * compiler keep what it knows of memory. So the callers have fences, for the compiler alone, that
 * keep the accesses of a section in the section. */
PERCPU_INLINE int percpu_grace_try(struct percpu_grace *g, uint32_t at, int64_t n, uint64_t state)
{
	return percpu_seq_narrow_add_if((char *)((uintptr_t)percpu_participant_cell(&g->in) + at),
					PERCPU_STRIDE, n, g->in.state, state);
}

/**
 * Begin a section. Sections nest, each with its token, and may overlap. At most 2^31 - 1 of a
 * process may be open at a time.
 *
 * Returns a token, which is 0 or more, or -errno. Only the first section of a process in a
 * region fails, because it joins the owners; any after fork or percpu_owners_leave() is a first
 * one, too:
 *	-EROFS	the region was opened to read
 *	-EUSERS, -EBADMSG, -ENOLCK, -ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_owners_join()
 *
 * Context: any thread; signal handlers, but for the first section of a process in a region; NULL
 * is not checked for.
 * Ordering: acquire: nothing of the section comes before it.
 * Progress: does not wait, but for the first section of a process in a region.
 */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_grace_enter(struct percpu_grace *g)
{
	const uint64_t state = __atomic_load_n(g->in.state, __ATOMIC_RELAXED);
	const uint32_t at = percpu_grace_at(state);

	if (percpu_unlikely(percpu_grace_try(g, at, 1, state)))
		return percpu_grace_enter_slow(g);
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return (int)(g->in.tag + at);
}

/**
 * End a section by its token, by the handle that it was begun by: another one of the same grace
 * periods may have other tokens. Any thread of the process may do so, also one on another CPU.
 *
 * Returns 0, or
 *	-EINVAL	this is no token that percpu_grace_enter() has returned in this process, such as
 *		an error of its own
 *	-EPERM	in a region: this process has begun no section by this handle, as one that ends
 *		another process's
 * A token that was returned before fork() is accepted in the child, and nothing is done.
 *
 * More sections that end than were begun are not seen by this call, except in that way and with
 * PERCPU_GRACE_DEBUG. If a grace period sees it, that one says so: percpu_grace_wait().
 *
 * Context: any thread; signal handlers. NULL is not checked for.
 * Ordering: release: nothing of the section comes after it.
 * Progress: does not wait; one system call if a thread waits for this section.
 */
PERCPU_INLINE int percpu_grace_exit(struct percpu_grace *g, int token)
{
	uint64_t state;
	uint32_t at;

	/* A thread may wait for a section that is counted in the other bank. */
	__atomic_signal_fence(__ATOMIC_RELEASE);
	state = __atomic_load_n(g->in.state, __ATOMIC_RELAXED);
	at = percpu_grace_at(state);
	if (percpu_unlikely((uint32_t)token != g->in.tag + at) ||
	    percpu_unlikely(percpu_grace_try(g, at, -1, state)))
		return percpu_grace_exit_slow(g, token);
	return 0;
}

/**
 * Wait for a grace period: until all sections have ended that were begun before the call. Calls
 * of several threads and processes share a period where they may: one that begins after all of
 * the calls have.
 *
 * wait_timed() waits for sections for so many ns at most, and 0 is not at all. The fence comes on
 * top of that: about a microsecond, or in a region 0.1 ms for each CPU, and 5 s at most where
 * a CPU is busy with real-time threads. A period that was begun goes on; a later call, or other
 * threads, end it.
 *
 * Returns 0, or
 *	-EINVAL	g is NULL
 *	-ETIMEDOUT  from wait_timed(): a section has not ended in time; from both: a CPU could
 *		not be fenced (percpu_fence_all())
 *	-EROFS	the region was opened to read
 *	-EPERM, -EAGAIN, -ENOMEM  CPUs could not be fenced: percpu_fence(), in a region
 *		percpu_fence_all()
 *	-EPROTO	the period is over, and a process has ended more sections than it began. So one
 *		may have been ended in another's place, and what was waited for is not certain.
 *		The thread that ends the period gets this. If the process is this one, its count
 *		was set right.
 *		Waiting again is of no use.
 * With another error the period is not over, and nothing that it was for may be freed yet. The
 * call may be repeated.
 *
 * Context: not within a section of these grace periods, for which it would wait.
 * Progress: a fence; then it waits for sections. Processes that were killed are noticed within
 * 50 ms, and not waited for; those that are stopped are: percpu_grace_blockers().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_wait(struct percpu_grace *g);
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_wait_timed(struct percpu_grace *g, uint64_t ns);

/**
 * Ask for a grace period without waiting. Returns a cookie for percpu_grace_poll(); it is not 0,
 * and holds in all processes that have these grace periods. NULL has 0.
 *
 * Context: signal handlers, too.
 * Progress: does not wait.
 */
PERCPU_API uint64_t percpu_grace_start(struct percpu_grace *g);

/**
 * Return whether the period of this cookie is over. The call does what can be done for the period
 * without sleeping. So the period ends only if a thread polls or waits.
 *
 * Returns 1, 0, or -errno as percpu_grace_wait(); -EINVAL also for a cookie that start() cannot
 * have returned yet.
 *
 * Progress: may fence, as percpu_grace_wait_timed(), and does not wait for sections.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_poll(struct percpu_grace *g, uint64_t cookie);

/** What is to be done after a grace period. The fields are the library's while it waits. */
struct percpu_grace_callback {
	struct percpu_grace_callback *next;
	void (*fn)(struct percpu_grace_callback *c);
	uint64_t cookie;
};

/**
 * Have fn(c) called after a grace period, by a thread of the library. The first call starts the
 * thread, which lives until the handle is freed, and blocks all signals. Callbacks of a handle
 * run one after the other, in the order of the calls that happened one after the other. c is the
 * library's until fn is called; then it is the program's, and fn may free it, or call with it
 * again.
 *
 * If CPUs cannot be fenced, callbacks wait until they can: percpu_grace_barrier() has the error.
 *
 * Returns 0, or
 *	-EINVAL	a NULL
 *	-EROFS	the region was opened to read
 *	-EAGAIN, -ENOMEM  the thread could not be started. c was not taken.
 *
 * Context: sections and callbacks, too. A child of fork has a copy of the callbacks of private
 * grace periods that have not begun: they run in both, in the child when it calls this or
 * percpu_grace_barrier(). Those in regions remain the parent's alone. What was not run when the
 * process ends is never run.
 * Progress: does not wait.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_call(struct percpu_grace *g,
						   struct percpu_grace_callback *c,
						   void (*fn)(struct percpu_grace_callback *c));

/**
 * Wait until all callbacks have returned that this process has called for before by this handle.
 *
 * Returns 0, or
 *	-EINVAL	g is NULL
 *	-EDEADLK  called by a callback of these grace periods, or by a handler of
 *		pthread_atfork(3) that runs before the library's
 *	-EAGAIN, -ENOMEM  in a child of fork: the thread could not be started
 *	-EPERM, -EAGAIN, -ENOMEM, -ETIMEDOUT  CPUs cannot be fenced; the callbacks still wait
 *
 * Context: not within a section of these grace periods.
 * Progress: waits for sections, as percpu_grace_wait().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_barrier(struct percpu_grace *g);

/** A process that is in sections. */
struct percpu_grace_blocker {
	uint64_t id;	   /* of the owner (owner.h); 0 for private grace periods */
	uint32_t pid;	   /* in its own PID namespace; 0: not known, or it has left by now */
	uint32_t stopped;  /* 1: a signal or a debugger has stopped it; 0 if that is not known */
	uint64_t sections; /* that it is in */
	uint64_t awaited;  /* of these: that the period in progress waits for. A wait that began
			      during that period also waits for the others */
};

/**
 * List the processes that live and are in sections, the first n of them in out. Returns how many
 * there are. Sections begin and end meanwhile, so the numbers are exact only of processes that
 * do not run. Private grace periods have one row at most, of this process. Whom a period in
 * progress waits for has `awaited` above 0; if none is in progress, that is 0 in all rows.
 */
PERCPU_API size_t percpu_grace_blockers(struct percpu_grace *g, struct percpu_grace_blocker *out,
					size_t n);

PERCPU_END_DECLS

#endif
