/* SPDX-License-Identifier: MIT */
/*
 * local.h - operations on the word, array or queue of the CPU that the caller
 * runs on, with a fallback for threads that cannot run a sequence.
 *
 * A sum can be split: a thread that cannot run a sequence adds to another word. The other
 * operations cannot be split, because a value that is read, compared or popped is in one
 * place. For those, a thread that cannot run a sequence must keep the sequences of that
 * CPU out while it works on the CPU's cell. Each lane has a guard for this, which
 * sequences test. The program chooses one of three fallbacks, which are those of the
 * original work on restartable sequences:
 *
 * PERCPU_LOCAL_SPLIT	A fallback adds to a second, atomic word of the CPU; the value is
 *			the sum of both. For add only. No thread waits.
 * PERCPU_LOCAL_LOCK	The guard is a lock. A fallback takes it, fences, and does the
 *			operation. For every operation. If a lock holder is killed (in a
 *			child that shares the memory), another thread takes the lock over.
 *			Signals are blocked while it is held. No thread waits for longer
 *			than a second for the same holder.
 * PERCPU_LOCAL_REFS	The guard counts the threads in fallbacks. While there are any,
 *			all threads use atomic operations on the CPU's word. For
 *			operations on one word: not push, pop, copy, take. No thread
 *			waits.
 *
 * On tier rseq a fallback of LOCK or REFS costs a system call: getcpu(2), or, if the
 * thread was moved to another CPU, a fence. One of SPLIT costs an atomic add.
 */
#ifndef PERCPU_LOCAL_H
#define PERCPU_LOCAL_H

#include <errno.h>

#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

enum percpu_local_fallback {
	PERCPU_LOCAL_SPLIT,
	PERCPU_LOCAL_LOCK,
	PERCPU_LOCAL_REFS,
};

PERCPU_ASSERT(sizeof(enum percpu_local_fallback) == sizeof(int),
	      "libpercpu needs -fno-short-enums");

/** A cell per CPU in memory of one process, and its guards. The fields are the library's. */
struct percpu_local {
	char *cell;
	char *guard;
	size_t stride;
	enum percpu_local_fallback fallback;
	struct percpu_region *region;
};

/*
 * The next four calls have this in common.
 *
 * Context: percpu_local_create() and percpu_local_destroy(): any thread, not a signal
 * handler; no thread may be using an object that is destroyed. percpu_local_cell() and
 * percpu_local_sum(): any thread, signal handlers, children of fork.
 * Ordering: none (as memory_order_relaxed). A sum includes the adds that happened before
 * it.
 * Progress: percpu_local_create() and percpu_local_destroy() take a lock of the process. The
 * other two take no lock.
 */

/**
 * Create size bytes of zeros per CPU: 8 for a word, 8 + 8n for an array of n
 * (struct percpu_array), 16 + 8n for a queue of n (struct percpu_fifo).
 *
 * Returns 0, or -EINVAL (ret is NULL; size is 0 or more than 1 GiB; the
 * fallback is unknown, or SPLIT or REFS with more than 8 bytes), -ENOMEM,
 * -E2BIG.
 */
PERCPU_API PERCPU_MUST_CHECK int
percpu_local_create(size_t size, enum percpu_local_fallback fallback, struct percpu_local **ret);

/** Free the object and its memory. NULL is fine. */
PERCPU_API void percpu_local_destroy(struct percpu_local *l);

/**
 * Return the cell of any CPU, in order to read it, or to fill an array before any thread uses
 * it. NULL if there is no such CPU.
 */
PERCPU_API void *percpu_local_cell(const struct percpu_local *l, unsigned cpu);

/** Return the sum of the words of all CPUs, with the atomic words of PERCPU_LOCAL_SPLIT. */
PERCPU_API int64_t percpu_local_sum(const struct percpu_local *l);

/*
 * All operations below have this in common.
 *
 * Returns 0, or with nothing changed
 *	-ENOTSUP	the object's fallback cannot do this operation
 *	-ETIMEDOUT	the thread that holds the lock is stopped
 *	-EPERM, -ETIMEDOUT, -ENOMEM, -EAGAIN  a fallback could not fence the sequences
 *			of a CPU, as percpu_fence()
 *	and the errors given at each operation.
 * A fallback needs no fence while its thread stays on the CPU whose guard it raised. So a
 * fence fails only in percpu_local_pop_cpu(), and in sandboxes that allow no fence. In such a
 * sandbox it fails if the thread was moved 16 times in a row, or if getcpu(2) is not allowed,
 * either.
 *
 * Context: any thread; children of fork, which find no guard held. Signal handlers
 * where the kernel fences in one call (percpu_status()->fence); elsewhere a fence
 * starts a thread, and signal handlers may only use SPLIT.
 * Ordering: operations on one CPU's cell come one after the other, whichever thread does
 * them. A thread that takes an item or reads words sees what another thread stored before
 * it pushed the item or copied the words. Nothing else is ordered toward other CPUs.
 * Progress: a sequence is tried once inline and PERCPU_SEQ_TRIES times more, five in
 * all, then the fallback.
 */

PERCPU_API int percpu_local_add_slow(const struct percpu_local *l, int64_t n);
PERCPU_API int percpu_local_add_limit_slow(const struct percpu_local *l, int64_t n, int64_t limit,
					   int64_t *ret);
PERCPU_API int percpu_local_cmpxchg_slow(const struct percpu_local *l, int64_t expected, int64_t v,
					 int64_t *ret);
PERCPU_API int percpu_local_xchg_slow(const struct percpu_local *l, int64_t v, int64_t *ret);
PERCPU_API int percpu_local_push_slow(const struct percpu_local *l, uint64_t limit, void *item);
PERCPU_API int percpu_local_pop_slow(const struct percpu_local *l, void **ret);
PERCPU_API int percpu_local_copy_slow(const struct percpu_local *l, uint64_t mask,
				      const uint64_t *src, uint64_t words);
PERCPU_API int percpu_local_take_slow(const struct percpu_local *l, uint64_t mask, uint64_t *ret);

/** Add n to the word, unless the sum is above limit: then -ERANGE. Set *ret to the sum in both
 *  cases. */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_local_add_limit(const struct percpu_local *l, int64_t n,
							   int64_t limit, int64_t *ret)
{
	int r = PERCPU_SEQ_SLOW;

	if (percpu_likely(l->fallback != PERCPU_LOCAL_SPLIT))
		r = percpu_seq_add_limit(l->cell, l->guard, l->stride, n, limit, ret);
	if (percpu_unlikely(r == PERCPU_SEQ_SLOW))
		return percpu_local_add_limit_slow(l, n, limit, ret);
	return r ? -ERANGE : 0;
}

/** Add n to the word, and set *ret to the sum. */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_local_add_return(const struct percpu_local *l, int64_t n,
							    int64_t *ret)
{
	return percpu_local_add_limit(l, n, INT64_MAX, ret);
}

/** Add n to the word. */
PERCPU_INLINE int percpu_local_add(const struct percpu_local *l, int64_t n)
{
	int64_t v;
	int r;

	if (l->fallback != PERCPU_LOCAL_SPLIT)
		return percpu_local_add_return(l, n, &v);
	/* The compiler must not move accesses to the cell across the sequence: the program
	 * may have a pointer to it. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	r = percpu_seq_add(l->cell, l->stride, n);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return percpu_likely(r == 0) ? 0 : percpu_local_add_slow(l, n);
}

/** Set the word to v if it is equal to expected; else -EAGAIN. Set *ret to what the word was in
 *  both cases. */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_local_cmpxchg(const struct percpu_local *l,
							 int64_t expected, int64_t v, int64_t *ret)
{
	int r = PERCPU_SEQ_SLOW;

	if (percpu_likely(l->fallback != PERCPU_LOCAL_SPLIT))
		r = percpu_seq_cmpxchg(l->cell, l->guard, l->stride, expected, v, ret);
	if (percpu_unlikely(r == PERCPU_SEQ_SLOW))
		return percpu_local_cmpxchg_slow(l, expected, v, ret);
	return r ? -EAGAIN : 0;
}

/** Set the word to v, and *ret to what the word was. */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_local_xchg(const struct percpu_local *l, int64_t v,
						      int64_t *ret)
{
	if (percpu_likely(l->fallback != PERCPU_LOCAL_SPLIT) &&
	    percpu_likely(!percpu_seq_xchg(l->cell, l->guard, l->stride, v, ret)))
		return 0;
	return percpu_local_xchg_slow(l, v, ret);
}

/** Set the word to v. */
PERCPU_INLINE int percpu_local_store(const struct percpu_local *l, int64_t v)
{
	int64_t old;

	return percpu_local_xchg(l, v, &old);
}

/** Put item on top of the array; -ENOSPC if the array has limit items already. limit
 *  must not be more than the number of items that the array was created for. */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_local_push(const struct percpu_local *l, uint64_t limit,
						      void *item)
{
	int r = PERCPU_SEQ_SLOW;

	if (percpu_likely(l->fallback == PERCPU_LOCAL_LOCK))
		r = percpu_seq_push(l->cell, l->guard, l->stride, limit, item);
	if (percpu_unlikely(r == PERCPU_SEQ_SLOW))
		return percpu_local_push_slow(l, limit, item);
	return r ? -ENOSPC : 0;
}

/** Take the topmost item of the array; -ENOENT if it is empty. */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_local_pop(const struct percpu_local *l, void **ret)
{
	int r = PERCPU_SEQ_SLOW;

	if (percpu_likely(l->fallback == PERCPU_LOCAL_LOCK))
		r = percpu_seq_pop(l->cell, l->guard, l->stride, ret);
	if (percpu_unlikely(r == PERCPU_SEQ_SLOW))
		return percpu_local_pop_slow(l, ret);
	return r ? -ENOENT : 0;
}

/**
 * Take the topmost item of another CPU's array; -ENOENT if it is empty, -EINVAL if
 * there is no such CPU. It always locks that CPU's lane and fences. It is meant to empty the
 * arrays, and for a thread that finds no item on its own CPU.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_local_pop_cpu(const struct percpu_local *l, unsigned cpu,
						      void **ret);

/** Append words to the queue of mask + 1 slots (a power of two); all appear at
 *  once. -ENOSPC if there is no room. */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_local_copy(const struct percpu_local *l, uint64_t mask,
						      const uint64_t *src, uint64_t words)
{
	int r = PERCPU_SEQ_SLOW;

	if (percpu_likely(l->fallback == PERCPU_LOCAL_LOCK && words != 0))
		r = percpu_seq_copy(l->cell, l->guard, l->stride, mask, src, words);
	if (percpu_unlikely(r == PERCPU_SEQ_SLOW))
		return percpu_local_copy_slow(l, mask, src, words);
	return r ? -ENOSPC : 0;
}

/** Take the oldest word of the queue of mask + 1 slots; -ENOENT if it is empty. No thread may
 *  also take words without this call, through percpu_local_cell(). */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_local_take(const struct percpu_local *l, uint64_t mask,
						      uint64_t *ret)
{
	int r = PERCPU_SEQ_SLOW;

	if (percpu_likely(l->fallback == PERCPU_LOCAL_LOCK))
		r = percpu_seq_take(l->cell, l->guard, l->stride, mask, ret);
	if (percpu_unlikely(r == PERCPU_SEQ_SLOW))
		return percpu_local_take_slow(l, mask, ret);
	return r ? -ENOENT : 0;
}

PERCPU_END_DECLS

#endif
