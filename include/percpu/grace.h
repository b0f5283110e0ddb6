/* SPDX-License-Identifier: MIT */
/*
 * grace.h - grace periods: readers enter and leave sections. A thread that has replaced an object
 * waits until every section has ended that began before. Then no reader uses the old object, and it
 * can be freed.
 *
 * A section costs its reader an addition on its own CPU at each end, and no wait. It may sleep and
 * may be long, as with Linux's SRCU. Several processes can have grace periods together in a shared
 * region. A process that was killed in a section does not delay them.
 */
#ifndef PERCPU_GRACE_H
#define PERCPU_GRACE_H

#include <percpu/owner.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread, in a section or not; not a signal handler. A child of fork is in none of its
 * parent's sections, not even in those of the thread that forked. A child that was forked in a
 * signal handler amid one of these calls must not return from the handler.
 * Ordering: sections that a period does not wait for see what a thread did before it asked for the
 * period. What was done in sections that the period waits for comes before all that follows its
 * end.
 * Progress: creating, opening and destroying take locks of the process, and in a region one between
 * processes, for which a call waits a second at most (-ETIMEDOUT).
 */

/** Grace periods, by a handle of this process. In the state, bit 0 says that no period is in
 *  progress, and bit 1 is the bank that sections are counted in. A token is the tag plus the offset
 *  of that bank. The tag grows when the process forks or leaves. The fields are the library's. */
struct percpu_grace {
	struct percpu_participant in;
};

/** For the calls that create, open and attach: this handle checks sections. The process prints a
 *  message to standard error and aborts if it ends a section that this handle has not begun, frees
 *  the handle in a section, or passes a callback twice. Sections then take tens of ns. */
#define PERCPU_GRACE_DEBUG 0x1

/**
 * Create grace periods of this process alone. flags is 0 or PERCPU_GRACE_DEBUG.
 *
 * Return 0, or
 *	-EINVAL	ret is NULL, or unknown flags
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_create(unsigned flags, struct percpu_grace **ret);

/**
 * Create grace periods in the region of these owners (owner.h). Each process that enters a section
 * joins the owners, and counts its sections in cells of its own.
 *
 * Return 0, or
 *	-EINVAL	a NULL, or unknown flags
 *	-EROFS, -ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_create_in(struct percpu_owners *o, unsigned flags,
							struct percpu_grace **ret);

/**
 * Attach to the grace periods at a root, or create them if there are none.
 *
 * Return as percpu_grace_create_in(), or
 *	-EINVAL	no such root
 *	-ENOENT	no grace periods of these owners there; or, in a region that was opened to read,
 *		none at the root yet
 *	-EEXIST	something else is at the root, also grace periods of other owners
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_open(struct percpu_owners *o, unsigned root,
						   unsigned flags, struct percpu_grace **ret);

/** Attach to the grace periods at a key. Return as percpu_grace_create_in(), or -ENOENT: no grace
 *  periods of these owners there. */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_attach(struct percpu_owners *o, uint64_t key,
						     unsigned flags, struct percpu_grace **ret);

/** Return the key in the region; 0 for private ones. Context: signal handlers, too. */
PERCPU_API uint64_t percpu_grace_key(const struct percpu_grace *g);

/**
 * Free the handle, and end the thread that runs callbacks. Grace periods in a region stay; private
 * ones are destroyed. No thread may be using the handle. NULL is fine.
 *
 * Return 0, or
 *	-EBUSY	this process is in a section, or some of its callbacks have not run yet
 *		(percpu_grace_barrier()). Nothing is freed
 *	-EDEADLK  called by a callback of these grace periods; or, if percpu_grace_call() was ever
 *		called, by a handler of pthread_atfork(3) that runs before the library's
 */
PERCPU_API int percpu_grace_detach(struct percpu_grace *g);

/**
 * Free the grace periods and the handle. If a root has them, set that to 0 before:
 * percpu_region_set_root(). No process may be using them. NULL is fine.
 *
 * Return as percpu_grace_detach(), or
 *	-EBUSY	any living process is in a section
 *	-ENOMEM	no memory or address space to see which processes are in sections
 */
PERCPU_API int percpu_grace_destroy(struct percpu_grace *g);

PERCPU_API int percpu_grace_enter_slow(struct percpu_grace *g);
PERCPU_API int percpu_grace_exit_slow(struct percpu_grace *g, int token);

/* Return the offset of the cell of the bank in use, behind that of bank 0. */
PERCPU_INLINE uint32_t percpu_grace_at(uint64_t state)
{
	return (uint32_t)state * 2 & 4;
}

/* Add n to the sections of the bank at that offset, unless the state has changed. The sequence is
 * no compiler barrier. So the callers have compiler fences, which keep the accesses of a section in
 * the section. */
PERCPU_INLINE int percpu_grace_try(struct percpu_grace *g, uint32_t at, int64_t n, uint64_t state)
{
	return percpu_seq_narrow_add_if((char *)((uintptr_t)percpu_participant_cell(&g->in) + at),
					PERCPU_STRIDE, n, g->in.state, state);
}

/**
 * Begin a section. Sections nest, each with its token, and may overlap. At most 2^31 - 1 of a
 * process may be open at a time.
 *
 * Return a token, which is 0 or more, or -errno. Only the first section of a process in a region
 * can fail, because it joins the owners. The next one after fork or percpu_owners_leave() is a
 * first one, too:
 *	-EROFS	the region was opened to read
 *	-EUSERS, -EBADMSG, -ENOLCK, -ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_owners_join()
 *
 * Context: any thread; signal handlers, but not for the first section of a process in a region. g
 * must not be NULL.
 * Ordering: acquire: nothing of the section comes before it.
 * Progress: does not wait, except for the first section of a process in a region.
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
 * End a section by its token. Use the handle that began it: another handle of the same grace
 * periods may have other tokens. Any thread of the process may end it, also on another CPU.
 *
 * Return 0, or
 *	-EINVAL	percpu_grace_enter() has not returned this token in this process; it may be an
 *		error that it returned
 *	-EPERM	in a region: this process has begun no section by this handle. It may have tried to
 *		end another process's section
 * A token from before fork() in the child, or from before percpu_owners_leave(), is accepted
 * without effect.
 *
 * Otherwise this call does not notice that more sections end than were begun, except with
 * PERCPU_GRACE_DEBUG. A grace period that notices returns -EPROTO: percpu_grace_wait().
 *
 * Context: any thread; signal handlers. g must not be NULL.
 * Ordering: release: nothing of the section comes after it.
 * Progress: does not wait; makes one system call if a thread waits for this section.
 */
PERCPU_INLINE int percpu_grace_exit(struct percpu_grace *g, int token)
{
	uint64_t state;
	uint32_t at;

	/* A section in the other bank takes the slow path: a thread may wait for it. */
	__atomic_signal_fence(__ATOMIC_RELEASE);
	state = __atomic_load_n(g->in.state, __ATOMIC_RELAXED);
	at = percpu_grace_at(state);
	if (percpu_unlikely((uint32_t)token != g->in.tag + at) ||
	    percpu_unlikely(percpu_grace_try(g, at, -1, state)))
		return percpu_grace_exit_slow(g, token);
	return 0;
}

/**
 * Wait for a grace period: until all sections have ended that began before the call. Calls of
 * several threads and processes share a period if it begins after all of these calls.
 *
 * Return 0, or
 *	-EINVAL	g is NULL
 *	-EROFS	the region was opened to read
 *	-EPERM, -EAGAIN, -ENOMEM, -ETIMEDOUT  CPUs could not be fenced: percpu_fence(), in a
 *		region percpu_fence_all()
 *	-EPROTO	the period is over, and a process has ended more sections than it began. So a
 *		section may have been ended in another's place, and the period may have been too
 *		short. The thread that ends the period gets this. If the process is this one, its
 *		count was set right. Waiting again is of no use.
 * With another error the period is not over, and nothing that it was for may be freed yet. The
 * call may be repeated.
 *
 * Context: not within a section of these grace periods, for which it would wait.
 * Progress: a fence; then it waits for sections. It notices within 50 ms that a process was killed,
 * and no longer waits for its sections. It waits for stopped processes: percpu_grace_blockers().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_wait(struct percpu_grace *g);

/**
 * Wait for a grace period, but for its sections no longer than ns nanoseconds; with 0, not at all.
 * The fence is not part of that time: about a microsecond, or in a region 0.1 ms for each CPU, and
 * 5 s at most where a CPU is busy with real-time threads. A period that has begun goes on after the
 * call; a later call, or another thread, ends it.
 *
 * Return as percpu_grace_wait(), or -ETIMEDOUT: a section has not ended in time.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_wait_timed(struct percpu_grace *g, uint64_t ns);

/**
 * Ask for a grace period without waiting. Return a cookie for percpu_grace_poll(). It is not 0, and
 * is valid in all processes that have these grace periods. NULL returns 0.
 *
 * Context: signal handlers, too.
 * Progress: does not wait.
 */
PERCPU_API uint64_t percpu_grace_start(struct percpu_grace *g);

/**
 * Return 1 if the period of this cookie is over, or 0. The call does what can be done for the
 * period without sleeping. A period ends only if a thread polls or waits.
 *
 * Return -errno as percpu_grace_wait(); -EINVAL also for a cookie that percpu_grace_start() cannot
 * have returned yet.
 *
 * Progress: may fence, as percpu_grace_wait_timed(), and does not wait for sections.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_poll(struct percpu_grace *g, uint64_t cookie);

/** A callback. The fields are the library's while it is pending. */
struct percpu_grace_callback {
	struct percpu_grace_callback *next;
	void (*fn)(struct percpu_grace_callback *c);
	uint64_t cookie;
};

/**
 * Have a thread of the library call fn(c) after a grace period. The first call starts the thread,
 * which lives until the handle is freed, and blocks all signals. Callbacks of a handle run one
 * after the other, in the order of their calls if these happened one after the other. c is the
 * library's until fn is called; then it is the program's, and fn may free it, or pass it to this
 * call again.
 *
 * If CPUs cannot be fenced, callbacks wait until they can: percpu_grace_barrier() returns the
 * error.
 *
 * Return 0, or
 *	-EINVAL	a NULL
 *	-EROFS	the region was opened to read
 *	-EAGAIN, -ENOMEM  the thread could not be started. fn will not be called
 *
 * Context: any thread; sections and callbacks, too. A child of fork has a copy of the pending
 * callbacks of private grace periods. They run in both processes; in the child from its next call
 * of this or percpu_grace_barrier() on. Those in regions remain the parent's alone. Callbacks that
 * are pending when the process ends never run.
 * Progress: does not wait.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_call(struct percpu_grace *g,
						   struct percpu_grace_callback *c,
						   void (*fn)(struct percpu_grace_callback *c));

/**
 * Wait until all callbacks have returned that this process has passed before, by this handle.
 *
 * Return 0, or
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
	uint64_t awaited;  /* those that the period in progress waits for; 0 if none is in progress.
			      A wait that began during that period also waits for the rest */
};

/**
 * List the living processes that are in sections, the first n of them in out. Return how many there
 * are. Sections begin and end meanwhile, so the numbers are exact only of processes that do not
 * run. Private grace periods have one row at most, of this process.
 */
PERCPU_API size_t percpu_grace_blockers(struct percpu_grace *g, struct percpu_grace_blocker *out,
					size_t n);

PERCPU_END_DECLS

#endif
