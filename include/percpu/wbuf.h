/* SPDX-License-Identifier: MIT */
/*
 * wbuf.h - write buffers: many counters, little memory.
 *
 * A counter with a cell per CPU takes 8 bytes times the CPUs. Here a counter is one
 * plain uint64_t, uint32_t or double of the program, its cell. Adds wait in a buffer of the CPU
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

#include <stdbool.h>

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

/** One add of a transaction. percpu_wbuf_entry_u64() and its like make it. The fields are the
 *  library's. */
struct percpu_wbuf_entry {
	uintptr_t cell; /* the address, and below it the bits of enum percpu_wbuf_bits */
	uint64_t n;	/* an integer, or the bits of a double */
};

/* What the library keeps in the bits that are 0 in the address of an aligned cell. */
enum percpu_wbuf_bits {
	PERCPU_WBUF_MORE = 1,	/* another add of the transaction follows; set in a buffer alone */
	PERCPU_WBUF_U32 = 2,	/* a cell of 4 bytes; bit 2 is the address's */
	PERCPU_WBUF_DOUBLE = 4, /* a double, unless PERCPU_WBUF_U32 is set */
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

/* Return an entry, or one that percpu_wbuf_add_n() refuses if the cell is not aligned. */
PERCPU_INLINE struct percpu_wbuf_entry percpu_wbuf_entry_of(const void *cell, size_t size,
							    unsigned bits, uint64_t n)
{
	const uintptr_t at = (uintptr_t)cell;
	const struct percpu_wbuf_entry add = { at % size == 0 && at != 0 ? at + bits : 0, n };

	return add;
}

/**
 * Return an entry for *cell += n, modulo 2^64, of a cell that is aligned to 8 bytes. (On 32-bit
 * x86, a member of a struct needs PERCPU_ALIGNED_WORD for that.) percpu_wbuf_add_n() refuses the
 * entry if the cell is NULL or not aligned.
 *
 * Context: any, also a signal handler.
 */
PERCPU_INLINE struct percpu_wbuf_entry percpu_wbuf_entry_u64(uint64_t *cell, uint64_t n)
{
	return percpu_wbuf_entry_of(cell, 8, 0, n);
}

/** Return an entry for *cell += n, modulo 2^32, as percpu_wbuf_entry_u64(), of a cell that is
 *  aligned to 4 bytes. */
PERCPU_INLINE struct percpu_wbuf_entry percpu_wbuf_entry_u32(uint32_t *cell, uint32_t n)
{
	return percpu_wbuf_entry_of(cell, 4, PERCPU_WBUF_U32, n);
}

/**
 * Return an entry for *cell += n, as percpu_wbuf_entry_u64(), of a cell that is aligned to 8 bytes.
 * Each add rounds to a double. The order of the adds is not stated, so where they round, the last
 * digits of the sum may differ.
 *
 * Context: any, also a signal handler.
 */
PERCPU_INLINE struct percpu_wbuf_entry percpu_wbuf_entry_double(double *cell, double n)
{
	uint64_t bits;

	__builtin_memcpy(&bits, &n, sizeof(bits));
	return percpu_wbuf_entry_of(cell, 8, PERCPU_WBUF_DOUBLE, bits);
}

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

	/* How many adds of a buffer, and of the list, an add or a hint applies at most, from 1 to
	 * entries; default entries. A transaction that was begun is applied whole. */
	size_t flush_limit;
};

/**
 * Create a write buffer. o may be NULL: all defaults.
 *
 * Returns 0, or
 *	-EINVAL	ret is NULL; options that this library does not know; entries is
 *		no power of two or too large; flush_limit is larger than entries; one
 *		or two of the lock's functions
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

/** Transactions of more adds than this do not go into a buffer. */
#define PERCPU_WBUF_LONGEST 64

PERCPU_API int percpu_wbuf_add_slow(struct percpu_wbuf *w, const struct percpu_wbuf_entry *adds,
				    size_t n);

/* Return the cell of the kth of n adds, as it is in a buffer. */
PERCPU_INLINE uintptr_t percpu_wbuf_marked(const struct percpu_wbuf_entry *adds, size_t k, size_t n)
{
	return adds[k].cell + (k + 1 < n ? (uintptr_t)PERCPU_WBUF_MORE : 0);
}

PERCPU_INLINE percpu_words2 percpu_wbuf_words(const struct percpu_wbuf_entry *adds, size_t k,
					      size_t n)
{
	return percpu_words2_of(percpu_wbuf_marked(adds, k, n), adds[k].n);
}

/* Put n adds, 1 to PERCPU_WBUF_LONGEST, into this CPU's queue. n is usually a constant. */
PERCPU_INLINE int percpu_wbuf_append(const struct percpu_wbuf *w,
				     const struct percpu_wbuf_entry *adds, size_t n)
{
	percpu_words2 marked[PERCPU_WBUF_LONGEST];

	if (sizeof(*adds) != 2 * sizeof(uint64_t))
		return PERCPU_SEQ_SLOW; /* 32-bit machines have no sequences */
	if (__builtin_constant_p(n) && n == 1)
		return percpu_seq_append1(w->queue, w->stride, w->mask,
					  percpu_wbuf_words(adds, 0, 1));
	if (__builtin_constant_p(n) && n == 2)
		return percpu_seq_append2(w->queue, w->stride, w->mask,
					  percpu_wbuf_words(adds, 0, 2),
					  percpu_wbuf_words(adds, 1, 2));
	if (__builtin_constant_p(n) && n == 4)
		return percpu_seq_append4(
			w->queue, w->stride, w->mask, percpu_wbuf_words(adds, 0, 4),
			percpu_wbuf_words(adds, 1, 4), percpu_wbuf_words(adds, 2, 4),
			percpu_wbuf_words(adds, 3, 4));
	for (size_t k = 0; k < n; k++)
		marked[k] = percpu_wbuf_words(adds, k, n);
	return percpu_seq_copy(w->queue, w->guard, w->stride, w->mask,
			       (const uint64_t *)(const void *)marked, 2 * n);
}

/* Return whether each add has a cell. */
PERCPU_INLINE bool percpu_wbuf_is_valid(const struct percpu_wbuf_entry *adds, size_t n)
{
	for (size_t k = 0; k < n; k++)
		if (percpu_unlikely(adds[k].cell == 0))
			return false;
	return true;
}

/**
 * Schedule n adds as one transaction.
 *
 * Once this has returned 0, a flush that begins later applies the adds. The cells
 * must exist until after that flush; adds is read before this returns.
 *
 * If the CPU's buffer is three quarters full, or the thread cannot run sequences, the
 * caller tries the lock once. If the lock is free, the caller applies the adds in
 * the CPU's buffer, at most flush_limit of them, and then its own. If the lock is taken, the
 * caller uses the last quarter of the buffer. If that is full, the transaction goes on a list, in
 * memory of malloc(3), for the next flush. A transaction of more than PERCPU_WBUF_LONGEST adds is
 * applied at once, or goes on the list if the lock is taken. No add is lost. The caller waits for
 * no thread, even if the lock holder does not run.
 *
 * Returns 0, or with nothing scheduled
 *	-EINVAL	the cell of an add is NULL or not aligned
 *	-E2BIG	the buffer is smaller than the transaction
 *	-ENOMEM	it had to go on the list, and there was no memory
 *
 * Context: any thread, not a signal handler. The thread may hold the caller's lock of
 * percpu_wbuf_options.
 * Ordering: none between the adds and the thread's other accesses; a flush that
 * happens after the return includes the adds.
 * Progress: bounded. At most 2 x PERCPU_SEQ_TRIES + 1 sequences, one try of the lock, and
 * one sched_yield(2) if the list is longer than 16 buffers. With the lock, the caller
 * applies flush_limit adds of the CPU's buffer, as many of the list, and its own. Of the buffer and
 * of the list, the last transaction may exceed the limit.
 */
PERCPU_INLINE int percpu_wbuf_add_n(struct percpu_wbuf *w, const struct percpu_wbuf_entry *adds,
				    size_t n)
{
	if (percpu_likely(n - 1 < PERCPU_WBUF_LONGEST) &&
	    percpu_likely(percpu_wbuf_is_valid(adds, n)) &&
	    percpu_likely(percpu_wbuf_append(w, adds, n) == 0))
		return 0;
	return percpu_wbuf_add_slow(w, adds, n);
}

/** Schedule one add: *cell += n, modulo 2^64, as percpu_wbuf_add_n() does. */
PERCPU_INLINE int percpu_wbuf_add(struct percpu_wbuf *w, uint64_t *cell, uint64_t n)
{
	const struct percpu_wbuf_entry add = percpu_wbuf_entry_u64(cell, n);

	return percpu_wbuf_add_n(w, &add, 1);
}

/** Schedule one add: *cell += n, modulo 2^32, as percpu_wbuf_add_n() does. */
PERCPU_INLINE int percpu_wbuf_add_u32(struct percpu_wbuf *w, uint32_t *cell, uint32_t n)
{
	const struct percpu_wbuf_entry add = percpu_wbuf_entry_u32(cell, n);

	return percpu_wbuf_add_n(w, &add, 1);
}

/** Schedule one add: *cell += n, rounded to a double, as percpu_wbuf_add_n() does. */
PERCPU_INLINE int percpu_wbuf_add_double(struct percpu_wbuf *w, double *cell, double n)
{
	const struct percpu_wbuf_entry add = percpu_wbuf_entry_double(cell, n);

	return percpu_wbuf_add_n(w, &add, 1);
}

/**
 * Flush: apply the adds that are in the CPUs' buffers and on the list when the call
 * begins.
 *
 * Any thread may flush the buffers of all CPUs. The readers of the cells decide how often to
 * flush. Adds that are scheduled meanwhile are left for the next flush. So the call takes the time
 * of at most entries adds per CPU, plus those on the list: flush_limit is for adds and hints alone.
 * It waits for the lock, and keeps it for that time. Adds do not wait for it.
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
 * (A thread that blocks makes no hints: if no other thread does, it flushes before.)
 *
 * The call flushes this CPU's buffer if the buffer is more than a quarter full (the first time,
 * half full). Every hints_to_flush-th call on a CPU flushes this CPU's buffer, up to a buffer of
 * the list, and the buffer of one other CPU, of each in turn. So an add in a buffer waits for at
 * most hints_to_flush calls on its CPU. If all threads have left that CPU, it waits for at most
 * hints_to_flush calls on another CPU, times the number of CPUs. A call that finds the lock taken
 * leaves the flush to the next call. All threads that cannot run sequences count as one CPU.
 *
 * A flush applies at most flush_limit adds of each buffer, and of the list. If that was not all,
 * the next call on the CPU goes on. So an add in a buffer also waits for at most
 * entries / flush_limit such calls.
 *
 * Context: as percpu_wbuf_try_flush().
 * Progress: a sequence, three loads and two compares, unless it flushes. Then it is bounded by
 * 3 x flush_limit adds, and three transactions that exceed the limit.
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
 * Flush, and keep the lock. Until percpu_wbuf_unlock() the caller may load the cells, store to them
 * and free them. They have all or nothing of each transaction. An exact reset loads a cell and
 * stores 0 there. Threads that add meanwhile do not wait.
 *
 * Context: as percpu_wbuf_flush(). The thread may add while it keeps the lock. It must not flush,
 * fork or end.
 */
PERCPU_API void percpu_wbuf_lock(struct percpu_wbuf *w);

/** Release the lock that this thread took with percpu_wbuf_lock().
 *
 * Context: the thread that has the lock, not a signal handler.
 */
PERCPU_API void percpu_wbuf_unlock(struct percpu_wbuf *w);

/**
 * Flush, and copy n cells of type uint64_t to ret, without releasing the lock in between. The
 * copies have all or nothing of each transaction.
 *
 * Cells of other types are read between percpu_wbuf_lock() and percpu_wbuf_unlock(). A program may
 * also read a cell with an atomic load at any time. Several cells that are read in this way may
 * show a part of a transaction.
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
