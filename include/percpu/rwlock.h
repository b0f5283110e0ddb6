/* SPDX-License-Identifier: MIT */
/*
 * rwlock.h - a lock for many readers and rare writers. A reader adds to a cell of its CPU, in one
 * restartable sequence, and stores to no line that another CPU uses. A writer pays for that: it
 * fences all CPUs, and waits until the readers have left.
 *
 * The lock is phase-fair: a writer lets no new readers in, and when it unlocks, the readers that
 * have waited come in before the next writer. It is in memory of this process, or between
 * processes, where it survives the death of a holder.
 */
#ifndef PERCPU_RWLOCK_H
#define PERCPU_RWLOCK_H

#include <percpu/owner.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** The fields are the library's. */
struct percpu_rwlock {
	struct percpu_participant in;
};

/** For percpu_rwlock_create() and the like: this handle checks each unlock. If this process does
 *  not hold the lock so, by whichever handle, the call prints that to standard error, and aborts.
 *  What fails for other mistakes (-EDEADLK, -EPROTO, -EBUSY when destroyed) is printed, too.
 *  Locking is slower then. */
#define PERCPU_RWLOCK_DEBUG 0x2

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread; not a signal handler. It is a process that holds the lock: another thread
 * may unlock, on another CPU. In a child of fork, a lock between processes is not held: what
 * the parent holds is the parent's. A private lock is held there as it was in the parent, and by
 * threads that the child does not have it is held for good, as any lock of the process; one that
 * only waited to write keeps nobody out. Threads of the parent that waited to read count as waiting
 * in the child, for 0.1 s of its first write lock; a try to write is -EBUSY until then. A child of
 * vfork() is its parent, and so is one made without fork()'s handlers (_Fork(), clone()).
 * Ordering: what a holder did before it unlocked happens before a later writer gets the lock, and
 * what a writer did before a later reader does.
 * Progress: between processes, calls that do not wait may take a second, where a process was stopped
 * with a lock of the library's, or a process that may write the file has damaged it. A reader waits
 * for the writer that it finds, and, if that one was about to unlock, for the next one; for no
 * more, if it gets to run within 0.1 s after that. A writer waits for the readers that it finds
 * inside, for those that have waited when the last writer unlocked, and for other writers, which
 * get the lock in no particular order.
 *
 * A thread that is about to read, and holds the lock for reading already, waits for a writer that
 * waits for it: for ever. So does a writer that holds it for reading.
 *
 * When a process ends between a lock and its unlock, or leaves its owners (percpu_owners_leave()):
 * - If it was reading, that ends. The next writer is told: -EOWNERDEAD.
 * - If it was writing, the next thread that locks is told, reader or writer: -EOWNERDEAD. A reader
 *   that cannot repair what the lock protects unlocks, and the next one is told: see
 *   percpu_rwlock_consistent().
 * - If it was waiting, nothing is left of it.
 * A process that is stopped is waited for. So is one that has called exec, until it ends or joins
 * its owners again. That a process has ended is noticed within 20 ms.
 */

/**
 * Create a lock in memory of this process; create one in the owners' region; attach to the one at
 * a root, or create it if nobody has; attach to the one at a key. flags is 0 or
 * PERCPU_RWLOCK_DEBUG, and is of this handle alone.
 *
 * Return 0, or
 *	-EINVAL	a NULL, no such root, unknown flags; owners in a region whose lane size is not the
 *		default
 *	-ENOENT	no lock of these owners there; or, in a region that was opened to read, none at
 *		the root yet
 *	-EEXIST	something else is at the root, also a lock of other owners
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_create(unsigned flags, struct percpu_rwlock **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_create_in(struct percpu_owners *o, unsigned flags,
							 struct percpu_rwlock **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_open(struct percpu_owners *o, unsigned root,
						    unsigned flags, struct percpu_rwlock **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_attach(struct percpu_owners *o, uint64_t key,
						      unsigned flags, struct percpu_rwlock **ret);

/** The lock's key in its region; 0 for a private one. Context: signal handlers, too. */
PERCPU_API uint64_t percpu_rwlock_key(const struct percpu_rwlock *l);

/**
 * Give back what this process has of the lock, and leave the lock; a private one is destroyed. No
 * thread may be using the handle. NULL is fine.
 *
 * Returns 0, or -EBUSY: this process holds the lock, and still has the handle. That is looked for,
 * not waited for; readers that come and go meanwhile may be missed.
 */
PERCPU_API int percpu_rwlock_detach(struct percpu_rwlock *l);

/** Free the lock, which no thread may be using. Returns 0, or -EBUSY if any process holds it, or
 *  -ENOMEM: there is no memory or address space to look. NULL is fine. If a root has the lock, set
 *  that to 0 before: percpu_region_set_root(). */
PERCPU_API int percpu_rwlock_destroy(struct percpu_rwlock *l);

/** A time that does not end, for the calls with one. */
#define PERCPU_RWLOCK_FOREVER UINT64_MAX

PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_read_lock_slow(struct percpu_rwlock *l, uint64_t ns);
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_read_trylock_slow(struct percpu_rwlock *l);
PERCPU_API int percpu_rwlock_read_unlock_slow(struct percpu_rwlock *l);

/* Add n to the number of readers, if the lock is open. The sequence lets the compiler keep what it
 * knows of memory. So the callers have fences, for the compiler alone, that keep what the lock
 * protects behind a lock and in front of an unlock. */
PERCPU_INLINE int percpu_rwlock_try(struct percpu_rwlock *l, int64_t n)
{
	return percpu_seq_narrow_add_if(percpu_participant_cell(&l->in), PERCPU_STRIDE, n,
					l->in.state, 0);
}

/**
 * Lock for reading; without waiting; or waiting no longer than so many nanoseconds.
 *
 * Return 0, and the lock is held; or
 *	-EOWNERDEAD  it is held, all the same, and is to be unlocked: a writer died with it. Nobody
 *		else has it until percpu_rwlock_consistent() is called; a reader that does not
 *		repair only unlocks
 *	-ENOTRECOVERABLE  a writer died with it, and another one was told and has unlocked it
 *		without percpu_rwlock_consistent(). No call will lock it any more
 *	-EBUSY	without waiting: a writer has the lock, or is about to; or has died with it, which
 *		only the other calls notice, percpu_rwlock_read_timedlock(l, 0) among them
 *	-ETIMEDOUT  the time is over
 *	-EROFS	the region was opened to read
 *	... and what percpu_owners_join() and percpu_region_alloc() return, when this process locks
 *		the lock for the first time between processes, or after it has left its owners
 *
 * In memory of this process only 0, -EBUSY and -ETIMEDOUT are possible, so that
 * percpu_rwlock_read_lock() has no error there.
 *
 * Context: any thread. percpu_rwlock_read_trylock() and percpu_rwlock_read_unlock() also in
 * signal handlers, once this process has locked the lock by this handle; not in those that
 * interrupt percpu_owners_leave(), nor after that, until it has locked again, because the try
 * joins the owners then, and waits for the leave.
 */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_rwlock_read_lock(struct percpu_rwlock *l)
{
	if (percpu_unlikely(percpu_rwlock_try(l, 1)))
		return percpu_rwlock_read_lock_slow(l, PERCPU_RWLOCK_FOREVER);
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return 0;
}

PERCPU_INLINE PERCPU_MUST_CHECK int percpu_rwlock_read_timedlock(struct percpu_rwlock *l,
								 uint64_t ns)
{
	if (percpu_unlikely(percpu_rwlock_try(l, 1)))
		return percpu_rwlock_read_lock_slow(l, ns);
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return 0;
}

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
 * Returns 0, or -EPERM: this process did not read. That is seen while a writer has the lock, and
 * between processes if this one has never locked it. Else the next writer finds it, and returns -EPROTO, unless another
 * thread of the process reads, which is then not seen any more: use PERCPU_RWLOCK_DEBUG.
 *
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
 * Returns as the calls that lock for reading, and
 *	-EOWNERDEAD  the lock is held, all the same, and is to be unlocked: a writer or readers died
 *		with it (percpu_rwlock_died()). See percpu_rwlock_consistent()
 *	-EDEADLK  this thread has it for writing, by a handle of the same owners. Where the late
 *		library finds neither a key nor memory for the threads' numbers, this is also
 *		returned to a thread whose kernel id is that of one that ended as the writer
 *	-EPERM, -ETIMEDOUT, -EAGAIN, -ENOMEM  the CPUs could not be fenced
 *	-EPROTO	a process has unlocked more reads than it had locked, so what was written before,
 *		or read, is not certain. The count was set right: the lock is as if that had not
 *		been, and may be locked again. Private locks, too
 *	-EBADMSG  the file is damaged
 *	... and the error of gettid(2), if a filter refuses that: nobody could tell then which
 *		thread has the lock
 *
 * Progress: the fence takes 5 s at most.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_write_lock(struct percpu_rwlock *l);

/** The same without waiting for others: -EBUSY if a thread has the lock, or has waited to read it.
 *  A fence that takes too long is -EBUSY, too. Progress: it fences all the same, which between
 *  processes takes 5 s at most, not 0. */
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_write_trylock(struct percpu_rwlock *l);

/** The same, and it waits for others so many nanoseconds at most. The fence comes on top of that:
 *  between processes the call may take 5 s longer. -ETIMEDOUT may be either: the lock is not
 *  held and readers go on, so try again; percpu_rwlock_holders() lists the processes that hold it. */
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_write_timedlock(struct percpu_rwlock *l,
							       uint64_t ns);

/** Unlock what was locked for writing, by any thread of the process. Returns 0, or -EPERM: this
 *  process did not write. */
PERCPU_API int percpu_rwlock_write_unlock(struct percpu_rwlock *l);

/** Which holders have died: results of percpu_rwlock_died(). */
enum percpu_rwlock_died {
	PERCPU_RWLOCK_WRITER_DIED = 1, /* what the lock protects may be half written */
	PERCPU_RWLOCK_READERS_DIED = 2,
};

/** Return which holders have died, as values of enum percpu_rwlock_died or'ed together, after
 *  -EOWNERDEAD and until percpu_rwlock_consistent() or the unlock. Only a writer is told of
 *  readers. NULL has 0. */
PERCPU_API unsigned percpu_rwlock_died(const struct percpu_rwlock *l);

/**
 * Say that what the lock protects is whole again, after -EOWNERDEAD. The thread that was told of a
 * dead writer has the lock alone until then, also if it has locked it for reading. So it may repair
 * what the writer has left. After the call a reader goes on to read, and others come in.
 *
 * Without this call, a reader's unlock declines: the next thread that locks is told, reader or
 * writer. A writer's unlock makes the lock -ENOTRECOVERABLE, until another one is created in its
 * place.
 * After dead readers nothing is to be repaired, and neither call is needed.
 *
 * Returns 0, or -EINVAL: this process does not hold the lock with -EOWNERDEAD, or has said so.
 */
PERCPU_API int percpu_rwlock_consistent(struct percpu_rwlock *l);

/** A process that has a lock. */
struct percpu_rwlock_holder {
	uint64_t id;	  /* of the owner (owner.h); 0 for a private lock */
	uint64_t reading; /* how many times */
	uint32_t pid;	  /* in its own PID namespace; 0: not known, or it has left by now */
	uint32_t
		stopped; /* 1: a signal or a debugger has stopped it; 0 also if that is not known */
	uint32_t writing; /* 1: it writes, or is the next who does, and keeps readers out; or it
			     was told of a dead writer, and has not repaired */
	uint32_t reserved;
};

/**
 * List the processes that live and have the lock, or are the next to write, the first n of them in
 * out: whom others wait for. Returns how many there are; NULL has none. They lock and unlock
 * meanwhile, so it is exact only of processes that do not run.
 */
PERCPU_API size_t percpu_rwlock_holders(struct percpu_rwlock *l, struct percpu_rwlock_holder *out,
					size_t n);

PERCPU_END_DECLS

#endif
