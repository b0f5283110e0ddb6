/* SPDX-License-Identifier: MIT */
/*
 * wbuf.h - write buffers: many counters, little memory.
 *
 * A counter with a cell per CPU takes 8 bytes times the CPUs. Here a counter is one
 * plain uint64_t of the program, its cell. Adds wait in a buffer of the CPU
 * that counted, until a thread flushes that CPU's buffer. One restartable sequence, with one
 * commit, schedules n adds, which are a transaction. A flush applies whole
 * transactions with plain adds, under one lock for all cells of the write buffer. A
 * reader under that lock sees all or nothing of each transaction.
 *
 * The idea is from the write buffers (stat_wb) of "Data Plane Software Design", where
 * each thread has a buffer that it alone may fill and flush.
 */
#ifndef PERCPU_WBUF_H
#define PERCPU_WBUF_H

#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** A write buffer. The fields are the library's. */
struct percpu_wbuf {
	char *queue; /* struct percpu_fifo of mask + 1 slots per CPU */
	char *guard; /* always down */
	uint64_t mask;
	size_t stride;
	char *hints; /* per CPU: calls of percpu_wbuf_hint_flush() since the last hints_to_flush-th */
	uint64_t hints_to_flush;
};

/** One add of a transaction: *cell += n, modulo 2^64. A cell must be aligned to 8 bytes;
 *  on 32-bit x86, a member of a struct needs an attribute for that. */
struct percpu_wbuf_entry {
	uint64_t *cell;
	uint64_t n;
};

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread, not a signal handler. A child of fork begins with empty buffers:
 * the parent applies the adds that were scheduled before.
 * Ordering: a flush that begins after an add has returned includes the add. A thread that
 * takes the lock of the cells after the flush, as percpu_wbuf_read() does, sees what the
 * flush stored.
 * Progress: a call that waits, waits for the lock of the cells, which is held for a flush.
 * percpu_wbuf_create() and percpu_wbuf_destroy() also take a lock of the process.
 */

/** Options of a write buffer. Set size; zero in another field means the default. */
struct percpu_wbuf_options {
	size_t size;	/* sizeof(struct percpu_wbuf_options) */
	size_t entries; /* adds per CPU: power of two up to 2^24; default 1024 */

	/* The caller's lock for the cells, instead of an internal one: set all three
	 * functions, or none. The lock is not recursive. trylock returns 0 if it took
	 * the lock. */
	void (*lock)(void *arg);
	int (*trylock)(void *arg);
	void (*unlock)(void *arg);
	void *arg; /* passed to the three functions */

	size_t hints_to_flush; /* calls of percpu_wbuf_hint_flush(); default 64 */
};

/**
 * Create a write buffer. o may be NULL: all defaults.
 *
 * Returns 0, or
 *	-EINVAL	ret is NULL; options that this library does not know; entries is
 *		no power of two or too large; one or two of the lock's functions
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_wbuf_create(const struct percpu_wbuf_options *o,
						    struct percpu_wbuf **ret);

/** Flush, and free the write buffer. No thread may use it any more; the cells must still
 *  be there. NULL is fine. */
PERCPU_API void percpu_wbuf_destroy(struct percpu_wbuf *w);

/** Transactions of more adds than this are not inlined. */
#define PERCPU_WBUF_INLINE 64

PERCPU_API int percpu_wbuf_add_slow(struct percpu_wbuf *w, const struct percpu_wbuf_entry *adds,
				    size_t n);

/* Put n adds, at least one, into this CPU's queue. n is usually a constant. */
PERCPU_INLINE int percpu_wbuf_append(const struct percpu_wbuf *w,
				     const struct percpu_wbuf_entry *adds, size_t n)
{
	if (sizeof(*adds) != 2 * sizeof(uint64_t))
		return PERCPU_SEQ_SLOW; /* 32-bit machines have no sequences */
	if (__builtin_constant_p(n) && n == 1)
		return percpu_seq_append1(w->queue, w->stride, w->mask,
					  percpu_words2_load(adds, 0));
	if (__builtin_constant_p(n) && n == 2)
		return percpu_seq_append2(w->queue, w->stride, w->mask, percpu_words2_load(adds, 0),
					  percpu_words2_load(adds, 2));
	if (__builtin_constant_p(n) && n == 4)
		return percpu_seq_append4(w->queue, w->stride, w->mask, percpu_words2_load(adds, 0),
					  percpu_words2_load(adds, 2), percpu_words2_load(adds, 4),
					  percpu_words2_load(adds, 6));
	return percpu_seq_copy(w->queue, w->guard, w->stride, w->mask,
			       (const uint64_t *)(const void *)adds, 2 * n);
}

/**
 * Schedule n adds as one transaction.
 *
 * Once this has returned 0, a flush that begins later applies the adds. The cells
 * must exist until after that flush; adds is read before this returns.
 *
 * If the CPU's buffer is three quarters full, or the thread cannot run sequences, the
 * caller tries the lock once. If the lock is free, the caller applies the adds in
 * the CPU's buffer, and then its own. If the lock is taken, the caller uses the last
 * quarter of the buffer. If that is full, the transaction goes on a list, in memory of
 * malloc(3), for the next flush. No add is lost. The caller waits for no thread, even if the lock
 * holder does not run.
 *
 * Returns 0, or with nothing scheduled
 *	-E2BIG	the buffer is smaller than the transaction
 *	-ENOMEM	it had to go on the list, and there was no memory
 *
 * Context: any thread, not a signal handler. The thread may hold the caller's lock of
 * percpu_wbuf_options.
 * Ordering: none between the adds and the thread's other accesses; a flush that
 * happens after the return includes the adds.
 * Progress: bounded. At most 2 x PERCPU_SEQ_TRIES + 1 sequences, one try of the lock, and
 * one sched_yield(2) if the list is longer than 16 buffers. With the lock, the caller
 * applies the adds of the CPU's buffer, transactions of the list until these were as many adds as
 * a buffer holds, and its own adds.
 */
PERCPU_INLINE int percpu_wbuf_add_n(struct percpu_wbuf *w, const struct percpu_wbuf_entry *adds,
				    size_t n)
{
	if (percpu_likely(n - 1 < PERCPU_WBUF_INLINE) &&
	    percpu_likely(percpu_wbuf_append(w, adds, n) == 0))
		return 0;
	return percpu_wbuf_add_slow(w, adds, n);
}

/** Schedule one add: *cell += n. */
PERCPU_INLINE int percpu_wbuf_add(struct percpu_wbuf *w, uint64_t *cell, uint64_t n)
{
	const struct percpu_wbuf_entry add = { cell, n };

	return percpu_wbuf_add_n(w, &add, 1);
}

/**
 * Flush: apply the adds that are in the CPUs' buffers and on the list when the call
 * begins.
 *
 * Any thread may flush the buffers of all CPUs. The readers of the cells decide how often to
 * flush. Adds that are scheduled meanwhile are left for the next flush. So the call takes the time
 * of at most entries adds per CPU, plus those on the list. It waits for the lock.
 *
 * Context: any thread, not a signal handler; not with the caller's own lock held.
 */
PERCPU_API void percpu_wbuf_flush(struct percpu_wbuf *w);

/** Flush as percpu_wbuf_flush(), in the same context, if the lock is free. Returns 0, or -EBUSY if
 *  the lock is taken. */
PERCPU_API int percpu_wbuf_try_flush(struct percpu_wbuf *w);

PERCPU_API void percpu_wbuf_hint_flush_slow(struct percpu_wbuf *w, int r);

/**
 * Flush if there is a reason to, and the lock is free. A program calls this when it has time, such
 * as once in each turn of its loop: then no add has to flush, and at low load no timer is needed.
 *
 * The call flushes this CPU's buffer if the buffer is more than a quarter full (the first time,
 * half full). Every hints_to_flush-th call on a CPU flushes this CPU's buffer, up to a buffer of
 * the list, and the buffer of one other CPU, of each in turn. So an add in a buffer waits for at
 * most hints_to_flush calls on its CPU. If all threads have left that CPU, it waits for at most
 * hints_to_flush calls on another CPU, times the number of CPUs. A call that finds the lock taken
 * leaves the flush to the next call. All threads that cannot run sequences count as one CPU.
 *
 * Context: as percpu_wbuf_try_flush().
 * Progress: a sequence, three loads and two compares, unless it flushes.
 */
PERCPU_INLINE void percpu_wbuf_hint_flush(struct percpu_wbuf *w)
{
	const int32_t cpu = percpu_seq_cpu();
	const struct percpu_fifo *q;
	const uint64_t *hints;
	int r = PERCPU_SEQ_SLOW;

	if (percpu_likely(cpu >= 0))
		r = percpu_seq_add(w->hints, w->stride, 1);
	if (percpu_likely(r == 0)) {
		q = (const struct percpu_fifo *)(const void *)(w->queue + (size_t)cpu * w->stride);
		hints = (const uint64_t *)(const void *)(w->hints + (size_t)cpu * w->stride);
		if (percpu_likely(__atomic_load_n(&q->head, __ATOMIC_RELAXED) -
					  __atomic_load_n(&q->tail, __ATOMIC_RELAXED) <=
				  w->mask - w->mask / 2) &&
		    percpu_likely(__atomic_load_n(hints, __ATOMIC_RELAXED) < w->hints_to_flush))
			return;
	}
	percpu_wbuf_hint_flush_slow(w, r);
}

/**
 * Flush, and copy n cells to ret, without releasing the lock in between. The copies have all or
 * nothing of each transaction.
 *
 * A program may also read a cell with an atomic load at any time. Several cells that are read in
 * this way may show a part of a transaction.
 *
 * Context: as percpu_wbuf_flush().
 */
PERCPU_API void percpu_wbuf_read(struct percpu_wbuf *w, uint64_t *const *cells, size_t n,
				 uint64_t *ret);

/** Filled by percpu_wbuf_stats(). */
struct percpu_wbuf_stats {
	size_t entries;	    /* adds that a CPU's buffer can hold */
	uint64_t pending;   /* adds scheduled and not applied */
	uint64_t flushes;   /* flushes, also those by an add that found a full buffer */
	uint64_t overflows; /* transactions that went on the list */
};

/** Fill *ret, without a lock. The fields are not read at the same moment. */
PERCPU_API void percpu_wbuf_stats(const struct percpu_wbuf *w, struct percpu_wbuf_stats *ret);

PERCPU_END_DECLS

#endif
