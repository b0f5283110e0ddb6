/* SPDX-License-Identifier: MIT */
/*
 * wbuf.h - write buffers: many counters, little memory.
 *
 * A counter with a cell per CPU takes 8 bytes times the CPUs. Here it is one
 * plain uint64_t of the program's, and what is to be added to it waits in a
 * buffer of the CPU that counted, until someone flushes that CPU's buffer.
 * Scheduling n adds, a transaction, is one restartable sequence with one
 * commit; a flush applies whole transactions with plain adds, under one lock
 * for all cells of the write buffer. Whoever reads under that lock sees of
 * each transaction all or nothing.
 *
 * After the write buffers (stat_wb) of "Data Plane Software Design", where
 * each thread has one, which it alone may fill and flush.
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
};

/** One add of a transaction: *cell += n, modulo 2^64. A cell is aligned to 8 bytes,
 *  which 32-bit x86 compilers do of themselves for variables, not in structs. */
struct percpu_wbuf_entry {
	uint64_t *cell;
	uint64_t n;
};

/*
 * What the calls of this header have in common, where one does not say more.
 *
 * Context: any thread, not a signal handler. A child of fork begins with empty buffers:
 * what was scheduled before is the parent's to apply.
 * Ordering: a flush that begins after an add has returned includes it; what it stored is
 * seen by who holds the lock of cells after it, as percpu_wbuf_read() does.
 * Progress: what waits, waits for one lock: that of the cells, held for a flush.
 * percpu_wbuf_create() and percpu_wbuf_destroy() take one of the process besides.
 */

/** What a write buffer is made like. Set size; zero elsewhere is the default. */
struct percpu_wbuf_options {
	size_t size;	/* sizeof(struct percpu_wbuf_options) */
	size_t entries; /* adds per CPU: power of two up to 2^24; default 1024 */

	/* A lock of the caller's instead of an internal one: all three, or none.
	 * Not recursive; trylock returns 0 if it took the lock. */
	void (*lock)(void *arg);
	int (*trylock)(void *arg);
	void (*unlock)(void *arg);
	void *arg; /* handed to the three */
};

/**
 * Create a write buffer. o may be NULL: all defaults.
 *
 * Returns 0, or
 *	-EINVAL	ret is NULL; options this library does not know; entries is
 *		no power of two or too large; one or two of the lock's functions
 *	-ENOMEM	no memory, or no address space; -E2BIG more CPUs than
 *		PERCPU_MAX_CPUS
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_wbuf_create(const struct percpu_wbuf_options *o,
						    struct percpu_wbuf **ret);

/** Flush, and free. No thread may use the buffer any more; the cells must still
 *  be there. NULL is fine. */
PERCPU_API void percpu_wbuf_destroy(struct percpu_wbuf *w);

/** Transactions larger than this are not inlined. */
#define PERCPU_WBUF_INLINE 64

PERCPU_API int percpu_wbuf_add_slow(struct percpu_wbuf *w, const struct percpu_wbuf_entry *adds,
				    size_t n);

/* Put at least one add into this CPU's queue; how many is a constant, as a rule. */
PERCPU_INLINE int percpu_wbuf_append(const struct percpu_wbuf *w,
				     const struct percpu_wbuf_entry *adds, size_t n)
{
	if (sizeof(*adds) != 2 * sizeof(uint64_t))
		return PERCPU_SEQ_SLOW; /* 32-bit machines have no sequences */
	if (__builtin_constant_p(n) && n == 1)
		return percpu_seq_append1(w->queue, w->stride, w->mask, percpu_pair_at(adds, 0));
	if (__builtin_constant_p(n) && n == 2)
		return percpu_seq_append2(w->queue, w->stride, w->mask, percpu_pair_at(adds, 0),
					  percpu_pair_at(adds, 2));
	if (__builtin_constant_p(n) && n == 4)
		return percpu_seq_append4(w->queue, w->stride, w->mask, percpu_pair_at(adds, 0),
					  percpu_pair_at(adds, 2), percpu_pair_at(adds, 4),
					  percpu_pair_at(adds, 6));
	return percpu_seq_copy(w->queue, w->guard, w->stride, w->mask,
			       (const uint64_t *)(const void *)adds, 2 * n);
}

/**
 * Schedule n adds as one transaction.
 *
 * Once this has returned 0, a flush that begins later applies the adds. Until
 * after that flush the cells must exist; adds is read before this returns.
 *
 * When the CPU's buffer is three quarters full, or the thread cannot run
 * sequences, the lock is tried, once. If it is free, the caller applies what is
 * in the CPU's buffer, then its own adds. If it is not, the last quarter of the
 * buffer is used; and when that is full, and the lock still is not free, the
 * transaction goes on a list, in memory of malloc(3), for the next flush.
 * Nothing is lost, and nobody is waited for, also where the holder of the lock
 * does not run.
 *
 * Returns 0, or with nothing scheduled
 *	-E2BIG	the buffer is smaller than the transaction
 *	-ENOMEM	it had to go on the list, and there was no memory
 *
 * Context: any thread, not a signal handler; also with the caller's own lock
 * held.
 * Ordering: none among the adds and what the thread does besides; a flush that
 * happens after the return includes them.
 * Progress: bounded. At most 2 x PERCPU_SEQ_TRIES + 1 sequences and one try of
 * the lock; with the lock, the adds of the CPU's buffer, of the list as many as
 * a buffer holds, to the end of a transaction, and the caller's own.
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
 * Flush: apply what every CPU's buffer and the list hold at the time.
 *
 * Anyone may, for all: how old the cells' values are is up to who reads them.
 * What is scheduled meanwhile is left for the next flush, so the time is that
 * of at most entries adds per CPU, plus what is on the list.
 *
 * percpu_wbuf_flush() waits for the lock; percpu_wbuf_try_flush() does not:
 * it returns 0, or -EBUSY if the lock is taken.
 *
 * Context: any thread, not a signal handler; not with the caller's own lock held.
 */
PERCPU_API void percpu_wbuf_flush(struct percpu_wbuf *w);
PERCPU_API int percpu_wbuf_try_flush(struct percpu_wbuf *w);

PERCPU_API void percpu_wbuf_hint_flush_slow(struct percpu_wbuf *w);

/**
 * For when there is time: flush this CPU's buffer if it is more than a quarter
 * full and the lock is free, so that no add need do it.
 *
 * Context: as percpu_wbuf_try_flush(). Two loads, and a compare, when there is
 * nothing to do.
 */
PERCPU_INLINE void percpu_wbuf_hint_flush(struct percpu_wbuf *w)
{
	int32_t cpu = percpu_seq_cpu();
	const struct percpu_fifo *q;

	if (percpu_unlikely(cpu < 0))
		return;
	q = (const struct percpu_fifo *)(const void *)(w->queue + (size_t)cpu * w->stride);
	if (percpu_unlikely(__atomic_load_n(&q->head, __ATOMIC_RELAXED) -
				    __atomic_load_n(&q->tail, __ATOMIC_RELAXED) >
			    w->mask - w->mask / 2))
		percpu_wbuf_hint_flush_slow(w);
}

/**
 * Flush, and copy n cells, under one hold of the lock: of each transaction all
 * or nothing is in the copies.
 *
 * Without it a cell may be read by an atomic load at any time; several cells
 * read so may show a part of a transaction.
 *
 * Context: as percpu_wbuf_flush().
 */
PERCPU_API void percpu_wbuf_read(struct percpu_wbuf *w, uint64_t *const *cells, size_t n,
				 uint64_t *ret);

/** What percpu_wbuf_stats() tells, without a lock; of moments that may differ a little. */
struct percpu_wbuf_stats {
	size_t entries;	    /* adds that a CPU's buffer holds */
	uint64_t pending;   /* adds scheduled and not applied */
	uint64_t flushes;   /* how often buffers were flushed, also because one was full */
	uint64_t overflows; /* transactions that went on the list */
};

PERCPU_API void percpu_wbuf_stats(const struct percpu_wbuf *w, struct percpu_wbuf_stats *ret);

PERCPU_END_DECLS

#endif
