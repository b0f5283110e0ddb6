/* SPDX-License-Identifier: MIT */
/*
 * rwlock.h - a lock for many readers and rare writers. A reader adds to a cell of its CPU, in one
 * restartable sequence, and stores to no line that another CPU uses. A writer pays for that: it
 * fences all CPUs, and waits until the readers have left.
 *
 * The lock is phase-fair: a writer lets no new readers in, and when it unlocks, the readers that
 * have waited come in before the next writer. A lock is in memory of this process, or in a region
 * that processes share. There it survives the death of a holder.
 */
#ifndef PERCPU_RWLOCK_H
#define PERCPU_RWLOCK_H

#include <percpu/owner.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** A lock. The fields are the library's. */
struct percpu_rwlock {
	struct percpu_participant in;
};

/** For the calls that create, open and attach: this handle checks each unlock. If this process does
 *  not hold the lock that way, by any of its handles, the call prints a message to standard error,
 *  and aborts. -EDEADLK, -EPROTO and -EBUSY of a destroy or detach print a message, too. Locking is
 *  slower then. */
#define PERCPU_RWLOCK_DEBUG 0x2

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread; not a signal handler. The process holds the lock, not the thread: another
 * thread may unlock, on another CPU.
 *
 * A child of fork does not hold a lock between processes: what the parent holds is the parent's. It
 * holds a private lock as the parent did. A private lock stays held if the child does not have the
 * thread that held it, as any lock of the process; but a thread that only waited to write does not
 * keep the child's threads out. Threads of the parent that waited to read count as waiting in the
 * child, for 0.1 s of its first write lock; a try to write is -EBUSY until then. A child of vfork()
 * counts as its parent, and so does one made without fork()'s handlers (_Fork(), clone()).
 *
 * Ordering: what a holder did before it unlocked happens before a later writer gets the lock, and
 * what a writer did before a later reader does.
 *
 * Progress: between processes, calls that do not wait may take a second, if a process was stopped
 * with a lock of the library's, or a process that may write the file has damaged it. A reader waits
 * for the writer that it finds. If that one was about to unlock, it waits for the next writer, too;
 * and for no more, if it runs within 0.1 s after that. A writer waits for the readers that it finds
 * inside, for those that have waited when the last writer unlocked, and for other writers, which
 * get the lock in no particular order.
 *
 * A thread that reads and locks again to read may wait for ever, for a writer that waits for it. A
 * thread that reads and locks to write waits for ever.
 *
 * When a process ends between a lock and its unlock, or leaves its owners (percpu_owners_leave()):
 * - If it was reading, its reads end, and the next writer gets -EOWNERDEAD.
 * - If it was writing, the next thread that locks gets -EOWNERDEAD, to read or to write. A reader
 *   that cannot repair what the lock protects unlocks, and the next thread gets -EOWNERDEAD: see
 *   percpu_rwlock_consistent().
 * - If it was waiting, nothing remains of it.
 * Calls notice within 20 ms that a process has ended. They wait for a stopped process, and for one
 * that has called exec, until it ends or joins its owners again.
 */

/**
 * Create a lock in memory of this process. flags is 0 or PERCPU_RWLOCK_DEBUG.
 *
 * Return 0, or
 *	-EINVAL	ret is NULL, or unknown flags
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_create(unsigned flags, struct percpu_rwlock **ret);

/**
 * Create a lock in the owners' region. flags is 0 or PERCPU_RWLOCK_DEBUG, and is of this handle
 * alone.
 *
 * Return 0, or
 *	-EINVAL	a NULL, unknown flags, or owners in a region whose lane size is not the default
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_create_in(struct percpu_owners *o, unsigned flags,
							 struct percpu_rwlock **ret);

/**
 * Attach to the lock at a root, or create it if there is none.
 *
 * Return as percpu_rwlock_create_in(), or
 *	-EINVAL	no such root
 *	-ENOENT	no lock of these owners there; or, in a region that was opened to read, none at
 *		the root yet
 *	-EEXIST	something else is at the root, also a lock of other owners
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_open(struct percpu_owners *o, unsigned root,
						    unsigned flags, struct percpu_rwlock **ret);

/** Attach to the lock at a key. Return as percpu_rwlock_create_in(), or -ENOENT: no lock of these
 *  owners there. */
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_attach(struct percpu_owners *o, uint64_t key,
						      unsigned flags, struct percpu_rwlock **ret);

/** Return the lock's key in its region; 0 for a private one. Context: signal handlers, too. */
PERCPU_API uint64_t percpu_rwlock_key(const struct percpu_rwlock *l);

/**
 * Free the handle. A lock in a region stays; a private one is destroyed. No thread may be using the
 * handle. NULL is fine.
 *
 * Return 0, or -EBUSY if this process holds the lock: then the handle stays. The call does not
 * wait; it may miss readers that come and go meanwhile.
 */
PERCPU_API int percpu_rwlock_detach(struct percpu_rwlock *l);

/** Free the lock, which no thread may be using. If a root has the lock, set that to 0 before:
 *  percpu_region_set_root(). NULL is fine. Return 0, or -EBUSY if any process holds it, or -ENOMEM
 *  if there is no memory or address space to look. */
PERCPU_API int percpu_rwlock_destroy(struct percpu_rwlock *l);

/** A time without end, for the calls that take a time. */
#define PERCPU_RWLOCK_FOREVER UINT64_MAX

PERCPU_API int percpu_rwlock_read_lock_slow(struct percpu_rwlock *l, uint64_t ns);
PERCPU_API int percpu_rwlock_read_trylock_slow(struct percpu_rwlock *l);
PERCPU_API int percpu_rwlock_read_unlock_slow(struct percpu_rwlock *l);

/* Add n to the number of readers, if the lock is open. The sequence is no compiler barrier. So the
 * callers have compiler fences, which keep the accesses to what the lock protects behind a lock and
 * in front of an unlock. */
PERCPU_INLINE int percpu_rwlock_try(struct percpu_rwlock *l, int64_t n)
{
	return percpu_seq_narrow_add_if(percpu_participant_cell(&l->in), PERCPU_STRIDE, n,
					l->in.state, 0);
}

/**
 * Lock for reading.
 *
 * Return 0, and the lock is held; or
 *	-EOWNERDEAD  the lock is held, too, and is to be unlocked: a writer died with it. No other
 *		thread has it until percpu_rwlock_consistent() is called. A reader that does not
 *		repair only unlocks
 *	-ENOTRECOVERABLE  a writer died with the lock, and another one got -EOWNERDEAD and unlocked
 *		without percpu_rwlock_consistent(). No call will lock it any more
 *	-EROFS	the region was opened to read
 *	... and what percpu_owners_join() and percpu_region_alloc() return, when this process locks
 *		the lock for the first time between processes, or after it has left its owners
 *
 * In memory of this process the result is always 0.
 *
 * Context: any thread; not a signal handler.
 */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_rwlock_read_lock(struct percpu_rwlock *l)
{
	if (percpu_unlikely(percpu_rwlock_try(l, 1)))
		return percpu_rwlock_read_lock_slow(l, PERCPU_RWLOCK_FOREVER);
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return 0;
}

/** Lock for reading, and wait for ns nanoseconds at most. Return as percpu_rwlock_read_lock(), or
 *  -ETIMEDOUT: the time is over. */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_rwlock_read_timedlock(struct percpu_rwlock *l,
								 uint64_t ns)
{
	if (percpu_unlikely(percpu_rwlock_try(l, 1)))
		return percpu_rwlock_read_lock_slow(l, ns);
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return 0;
}

/**
 * Lock for reading without waiting. Return as percpu_rwlock_read_lock(), but no -EOWNERDEAD; or
 *	-EBUSY	a writer has the lock, or is about to; or it has died with the lock, which only the
 *		other calls notice, percpu_rwlock_read_timedlock(l, 0) among them
 *
 * Context: any thread. A signal handler, once this process has locked the lock by this handle; but
 * not one that interrupts percpu_owners_leave(), nor one after that, until the process has locked
 * again: the try joins the owners then, and waits for the leave.
 */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_rwlock_read_trylock(struct percpu_rwlock *l)
{
	if (percpu_unlikely(percpu_rwlock_try(l, 1)))
		return percpu_rwlock_read_trylock_slow(l);
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return 0;
}

/**
 * Unlock what was locked for reading, by any thread of the process, on any CPU.
 *
 * Return 0, or -EPERM if this process did not read. The call notices that only while a writer has
 * the lock, or, between processes, if this one has never locked it. Otherwise the next writer
 * notices, and returns -EPROTO, except if another thread of the process reads then: that read is
 * not counted any more. PERCPU_RWLOCK_DEBUG finds such calls.
 *
 * Context: any thread; signal handlers as for percpu_rwlock_read_trylock().
 * Progress: bounded.
 */
PERCPU_INLINE int percpu_rwlock_read_unlock(struct percpu_rwlock *l)
{
	__atomic_signal_fence(__ATOMIC_RELEASE);
	if (percpu_unlikely(percpu_rwlock_try(l, -1)))
		return percpu_rwlock_read_unlock_slow(l);
	return 0;
}

/**
 * Lock for writing. Fences all CPUs: percpu_fence(), and between processes percpu_fence_all().
 *
 * Return as percpu_rwlock_read_lock(), or
 *	-EOWNERDEAD  the lock is held, too, and is to be unlocked: a writer or readers died with it
 *		(percpu_rwlock_died()). See percpu_rwlock_consistent()
 *	-EDEADLK  this thread has it for writing, by a handle of the same owners. If the late
 *		library (docs/cpu/late.md) finds neither a key nor memory for the threads'
 *		numbers, a thread also gets this if a thread with its kernel id ended as the writer
 *	-EPERM, -ETIMEDOUT, -EAGAIN, -ENOMEM  the CPUs could not be fenced
 *	-EPROTO	a process has unlocked more reads than it had locked, so earlier reads and writes
 *		may have been unprotected. The count was set right: lock again. Private locks, too
 *	-EBADMSG  the file is damaged
 *	... and the error of gettid(2), if a filter refuses it: the writer could not be recorded
 *
 * Progress: the fence takes 5 s at most.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_write_lock(struct percpu_rwlock *l);

/** Lock for writing without waiting for other threads. Return as percpu_rwlock_write_lock(), or
 *  -EBUSY if a thread has the lock or has waited to read it, or a fence took too long.
 *  Progress: the call fences all the same, which between processes takes 5 s at most, not 0. */
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_write_trylock(struct percpu_rwlock *l);

/** Lock for writing, and wait for other threads for ns nanoseconds at most. Return as
 *  percpu_rwlock_write_lock(), or -ETIMEDOUT if the time is over: the lock is not held, and readers
 *  go on, so try again; percpu_rwlock_holders() lists the processes that hold it.
 *  Progress: the fence is not part of that time. Between processes the call may take 5 s longer. */
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_write_timedlock(struct percpu_rwlock *l,
							       uint64_t ns);

/** Unlock what was locked for writing, by any thread of the process. Return 0, or -EPERM if this
 *  process did not write. */
PERCPU_API int percpu_rwlock_write_unlock(struct percpu_rwlock *l);

/** Which holders have died: results of percpu_rwlock_died(). */
enum percpu_rwlock_died {
	PERCPU_RWLOCK_WRITER_DIED = 1, /* what the lock protects may be half written */
	PERCPU_RWLOCK_READERS_DIED = 2,
};

/** Return which holders have died, as values of enum percpu_rwlock_died or'ed together, after
 *  -EOWNERDEAD and until percpu_rwlock_consistent() or the unlock. A reader learns of a dead writer
 *  only, not of dead readers. NULL returns 0. */
PERCPU_API unsigned percpu_rwlock_died(const struct percpu_rwlock *l);

/**
 * Say that what the lock protects is whole again, after -EOWNERDEAD. After a writer's death the
 * thread with -EOWNERDEAD has the lock alone until this call, also if it has locked for reading. So
 * it may repair what the writer has left. After the call a reader goes on to read, and other
 * readers come in.
 *
 * A reader that unlocks without this call declines: the next thread that locks gets -EOWNERDEAD, to
 * read or to write. A writer that unlocks without it makes the lock -ENOTRECOVERABLE, until the
 * program creates another lock in its place. After dead readers there is nothing to repair, and the
 * call is not needed.
 *
 * Return 0, or -EINVAL if this process does not hold the lock with -EOWNERDEAD, or has called this
 * already.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_consistent(struct percpu_rwlock *l);

/** A process that has a lock, or is the next to write. */
struct percpu_rwlock_holder {
	uint64_t id;	  /* of the owner (owner.h); 0 for a private lock */
	uint64_t reading; /* how many times */
	uint32_t pid;	  /* in its own PID namespace; 0: not known, or it has left by now */
	uint32_t
		stopped; /* 1: a signal or a debugger has stopped it; 0 also if that is not known */
	uint32_t writing; /* 1: it writes; or is the next writer, and keeps readers out; or it got
			     -EOWNERDEAD of a dead writer, and has not repaired */
	uint32_t reserved;
};

/**
 * List the living processes that have the lock, or are the next to write: other threads wait for
 * them. Store the first n of them in out. Return how many there are; 0 for NULL. Processes lock and
 * unlock meanwhile, so the list is exact only of processes that do not run.
 */
PERCPU_API size_t percpu_rwlock_holders(struct percpu_rwlock *l, struct percpu_rwlock_holder *out,
					size_t n);

PERCPU_END_DECLS

#endif
