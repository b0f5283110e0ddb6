/* SPDX-License-Identifier: MIT */
/*
 * counter.h - 64-bit counters that any thread updates at the cost of a plain
 * addition, exactly. After FreeBSD's counter(9).
 *
 * Values wrap modulo 2^64. An update adds to a cell of the CPU it runs on; a read sums the
 * cells. The result need not equal the total at any one instant: it includes every update
 * that happened before the read began, and some, none or all of the updates that run
 * meanwhile. Successive reads of a counter that only grows never go back.
 */
#ifndef PERCPU_COUNTER_H
#define PERCPU_COUNTER_H

#ifdef PERCPU_LINUX_PERCPU_COUNTER_H
#error "percpu/linux/percpu_counter.h was included before, which has Linux's percpu_counter_add()"
#endif

#include <percpu/region.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** A counter: an address in lane 0, not to be dereferenced. */
struct percpu_counter;

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, set up, detach, tear down or destroy: any
 * thread, constructors included; not a signal handler. Other calls: any thread of any
 * process that has the counter mapped; signal handlers; children of fork.
 * Ordering: none for adds and resets (as memory_order_relaxed). A read includes
 * the adds that happened before it. The program must synchronize when it hands a new
 * counter to another thread, as with any object.
 * Progress: creating and destroying takes locks of the process and, in a shared region,
 * one between processes, for which a call waits a second at most. The other calls take no
 * lock. An add is bounded, a read loads each lane once, and a reset starts again if another
 * thread resets the same counter meanwhile.
 */

/**
 * Create a counter of 0 in memory of this process.
 *
 * Returns 0, or -EINVAL (ret is NULL), -ENOMEM, or -E2BIG (more CPUs than
 * PERCPU_MAX_CPUS).
 *
 * Context: any thread, constructors included; not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_create(struct percpu_counter **ret);

/**
 * Create a counter of 0 in a region with the default lane size. Processes that
 * share the region count together.
 *
 * Returns 0, or -EINVAL (a NULL, or a region with another lane size), or -EROFS,
 * -ENOSPC, -ENOMEM or -ETIMEDOUT as percpu_region_alloc().
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_create_in(struct percpu_region *r,
							  struct percpu_counter **ret);

/**
 * Attach to the counter at this root of a shared region, or create it if there is none, as
 * percpu_counter_array_open() does. A region has 16 roots; for more than a few counters
 * use an array or statistics.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_open(struct percpu_region *r, unsigned root,
						     struct percpu_counter **ret);

/**
 * Attach to the counter that another process created at this key of a shared region.
 * percpu_counter_detach() undoes it and leaves the counter.
 *
 * Returns 0, or -EINVAL (a NULL, or a region with another lane size), -ENOENT (no
 * counter there), -ENOMEM.
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_attach(struct percpu_region *r, uint64_t key,
						       struct percpu_counter **ret);
PERCPU_API void percpu_counter_detach(struct percpu_counter *c);

/** Return the counter's key in its region; 0 for a private counter. */
PERCPU_API uint64_t percpu_counter_key(const struct percpu_counter *c);

/**
 * Free a counter of this process or of a region. No thread may be using the counter.
 * Does nothing if c is NULL, points to no allocation of 8 bytes, or is in a region that was
 * opened to read. In a shared region the call may wait for a second, as percpu_region_free().
 */
PERCPU_API void percpu_counter_destroy(struct percpu_counter *c);

PERCPU_API PERCPU_NOTHROW void percpu_counter_add_slow(struct percpu_counter *c, int64_t n);

/**
 * Add n, which may be negative.
 *
 * Context: any thread of any process that has the counter mapped; signal
 * handlers; children of fork and vfork. Never fails, never loses.
 * Ordering: none (as memory_order_relaxed).
 * Progress: bounded: after a few aborted attempts, an atomic addition.
 */
PERCPU_INLINE void percpu_counter_add(struct percpu_counter *c, int64_t n)
{
	if (percpu_unlikely(percpu_seq_add(c, PERCPU_STRIDE, n)))
		percpu_counter_add_slow(c, n);
}

PERCPU_INLINE void percpu_counter_inc(struct percpu_counter *c)
{
	percpu_counter_add(c, 1);
}

PERCPU_INLINE void percpu_counter_dec(struct percpu_counter *c)
{
	percpu_counter_add(c, -1);
}

/**
 * Read the counter: what was added since it was created or last zeroed. NULL reads as 0.
 *
 * The result need not be the total of any instant. Counters that are updated together
 * are not read together; for that use statistics (stats.h).
 *
 * Context: any thread, signal handlers. Costs a load per possible CPU.
 * Ordering: updates that happen before the call are included.
 */
PERCPU_API uint64_t percpu_counter_fetch(const struct percpu_counter *c);

/**
 * Set the counter to 0: earlier adds no longer count. An add that runs meanwhile counts
 * before or after the reset, and is not lost. A reset stores to no CPU's cell: it stores the
 * sum, which reads then subtract.
 *
 * With adds of both signs, another reset may overtake this one while the sum is the same again.
 * Then no order of adds and resets may explain what is left, but with the values that
 * percpu_counter_fetch_zero() returned it still adds up. Counters that only grow cannot show this.
 * If sets, resets and such adds must have one order, use a gauge (gauge.h): it numbers its sets.
 *
 * Does nothing if c is NULL, or in a region that was opened to read. (There
 * percpu_counter_fetch_zero() only reads, and an add gets SIGSEGV; docs/memory/region.md.)
 *
 * Context: any thread; signal handlers.
 */
PERCPU_API void percpu_counter_zero(struct percpu_counter *c);

/**
 * Read and reset in one step: the values returned to all callers and what is left in the
 * counter add up to what was added.
 *
 * Context: as percpu_counter_zero().
 * Progress: retries only while other threads reset the same counter.
 */
PERCPU_API uint64_t percpu_counter_fetch_zero(struct percpu_counter *c);

/** An array of n counters, adjacent in every lane. It takes 8 bytes per counter and CPU. The fields
 *  are the library's. */
struct percpu_counter_array {
	struct percpu_block block;
	size_t n; /* counters */
};

/**
 * Create n counters of 0 in memory of this process, or in a region. An array in a region must
 * fit into a lane; a lane of the default size takes 8192 counters. For larger lanes set
 * percpu_region_options.lane_size; docs/memory/region.md says what they cost.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, n is 0, or more counters than fit into a lane: 2^37 in memory of
 *		this process, 2^27 in 32-bit processes
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ETIMEDOUT  in a region, as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_array_create(size_t n,
							     struct percpu_counter_array **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_array_create_in(struct percpu_region *r, size_t n,
								struct percpu_counter_array **ret);

/**
 * Attach to n counters at this root of a shared region, or create them if there are none.
 * Any number of processes may call this at once: one of them creates the counters, and all
 * attach to the same ones. In a region that was opened to read the call creates nothing. n
 * may be smaller than that of the creator. percpu_counter_array_detach() undoes the call and
 * leaves the counters.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, no such root, a private region, n is 0, or more counters than fit
 *		into a lane of the region: 8192 by default
 *	-ENOENT	the region was opened to read, and the root has no object yet
 *	-EEXIST	the root has something else: another kind of object, or fewer counters; use
 *		another root
 *	-ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 *
 * Context: any thread, not a signal handler.
 * Progress: the call may wait for another process that creates an object at a root of the
 * region. A process that is killed in this call leaves nothing allocated, or the counters at
 * the root. Where locks of killed holders are not taken over (percpu_status()->robust), it may
 * leave a lock taken, as in percpu_region_alloc().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_array_open(struct percpu_region *r, unsigned root,
							   size_t n,
							   struct percpu_counter_array **ret);

/**
 * Attach to the first n of the counters that another process created at this key of a shared
 * region. percpu_counter_array_detach() undoes it and leaves the counters.
 *
 * Returns 0, or -EINVAL (a NULL, n is 0 or more than 2^37, or 2^27 in 32-bit
 * processes), -ENOENT (no array of at least n counters there), -ENOMEM.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_array_attach(struct percpu_region *r, uint64_t key,
							     size_t n,
							     struct percpu_counter_array **ret);
PERCPU_API void percpu_counter_array_detach(struct percpu_counter_array *a);

/** Return the array's key in its region; 0 for a private array. */
PERCPU_API uint64_t percpu_counter_array_key(const struct percpu_counter_array *a);

/** Free the array and its counters. No thread may be using the array. NULL is fine. In a
 *  region that was opened to read, the counters stay. If a root has the array's key, set the
 *  root to 0 first: percpu_region_set_root(). The same holds for all objects with an open
 *  call. */
PERCPU_API void percpu_counter_array_destroy(struct percpu_counter_array *a);

PERCPU_API PERCPU_NOTHROW void percpu_counter_array_add_slow(const struct percpu_counter_array *a,
							     size_t i, int64_t n);

/** Add n to counter i, as percpu_counter_add() does. i must be below a->n. */
PERCPU_INLINE void percpu_counter_array_add(const struct percpu_counter_array *a, size_t i,
					    int64_t n)
{
	if (percpu_unlikely(percpu_seq_add(a->block.base + i * 8, a->block.stride, n)))
		percpu_counter_array_add_slow(a, i, n);
}

PERCPU_API PERCPU_NOTHROW void percpu_counter_array_add_n_slow(const struct percpu_counter_array *a,
							       size_t i, const int64_t *n,
							       size_t words);

/* Add 2, 4 or 8 words with one commit. The caller knows that this CPU stores that many words
 * at once. It uses the sequences of statistics, which choose between two banks; an array has
 * one bank. */
PERCPU_INLINE int percpu_counter_array_commit(const struct percpu_counter_array *a, size_t i,
					      const int64_t *n, size_t words)
{
	static const uint64_t bank = 0;
	char *cell = a->block.base + i * 8;

	if (words == 2)
		return percpu_seq_bank_add2(cell, a->block.stride, &bank, 0,
					    percpu_words2_load(n, 0));
	if (words == 4)
		return percpu_seq_bank_add4(cell, a->block.stride, &bank, 0,
					    percpu_words2_load(n, 0), percpu_words2_load(n, 2));
	return percpu_seq_bank_add8(cell, a->block.stride, &bank, 0, percpu_words2_load(n, 0),
				    percpu_words2_load(n, 2), percpu_words2_load(n, 4),
				    percpu_words2_load(n, 6));
}

/**
 * Add n[0..words-1] to counters i to i+words-1. words is 1, 2, 4 or 8; i must be a multiple of it,
 * and i+words at most a->n.
 *
 * On tier rseq this is one commit if the CPU has a store that wide: 2 words on
 * x86-64 and aarch64, 4 with AVX2, 8 with AVX-512. A thread that is killed at any
 * instruction has then added all or none. On a CPU with narrower stores each commit adds as
 * many words as one store holds. On the lower tiers, and on tier rseq if the sequence was
 * aborted five times in a row, each word is added by itself. In any case a reader on another
 * CPU may see some of the words before the others. percpu_status()->commit_words is the most words
 * that are one commit here.
 *
 * The sequence is inlined if words is a constant and the unit is compiled for the instruction set
 * (-mavx2), and called otherwise. With another number of words, each word is added by itself.
 */
PERCPU_INLINE void percpu_counter_array_add_n(const struct percpu_counter_array *a, size_t i,
					      const int64_t *n, size_t words)
{
	if (__builtin_constant_p(words) && words == 1) {
		percpu_counter_array_add(a, i, n[0]);
		return;
	}
	if (!(__builtin_constant_p(words) && (words == 2 || words == 4 || words == 8) &&
	      words <= PERCPU_SEQ_WORDS) ||
	    percpu_unlikely(percpu_counter_array_commit(a, i, n, words)))
		percpu_counter_array_add_n_slow(a, i, n, words);
}

/** Read counter i, as percpu_counter_fetch() does. i >= a->n reads as 0. */
PERCPU_API uint64_t percpu_counter_array_fetch(const struct percpu_counter_array *a, size_t i);

/** Set counter i to 0, as percpu_counter_zero() does. Does nothing if i >= a->n. */
PERCPU_API void percpu_counter_array_zero(struct percpu_counter_array *a, size_t i);

/** Read and reset counter i, as percpu_counter_fetch_zero() does. Returns 0 if i >= a->n. */
PERCPU_API uint64_t percpu_counter_array_fetch_zero(struct percpu_counter_array *a, size_t i);

/** Read all counters into out[0..a->n-1], lane by lane: at memory bandwidth. */
PERCPU_API void percpu_counter_array_fetch_all(const struct percpu_counter_array *a, uint64_t *out);

/**
 * A static counter. It counts from the first instruction of the program on, before main and
 * before any constructor: until the per-CPU counter exists, adds go to an atomic word, which
 * stays part of the sum.
 */
struct percpu_static_counter {
	struct percpu_counter *counter; /* NULL: not set up yet, or there was no memory */
	uint64_t early PERCPU_ALIGNED_WORD;
};

/* clang-format off */
#define PERCPU_STATIC_COUNTER_INIT { PERCPU_NULL(struct percpu_counter *), 0 }

/**
 * Define a static counter that the loader sets up and tears down:
 *
 *	static PERCPU_COUNTER_DEFINE(requests);
 *	percpu_static_counter_add(&requests, 1);
 *
 * Without the macro: initialize with PERCPU_STATIC_COUNTER_INIT, and call
 * percpu_static_counter_setup() when convenient.
 */
#define PERCPU_COUNTER_DEFINE(name)                                            \
	struct percpu_static_counter name = PERCPU_STATIC_COUNTER_INIT;        \
	__attribute__((__constructor__)) static void name##_setup(void)            \
	{                                                                      \
		(void)percpu_static_counter_setup(&name);                      \
	}                                                                      \
	__attribute__((__destructor__)) static void name##_teardown(void)          \
	{                                                                      \
		percpu_static_counter_teardown(&name);                         \
	}                                                                      \
	PERCPU_ASSERT(1, "a semicolon follows")
/* clang-format on */

/**
 * Create the per-CPU counter, unless it exists. Returns 0, or -ENOMEM or -E2BIG as
 * percpu_counter_create(). After an error adds still go to the atomic word, exactly.
 *
 * Context: any thread, constructors included; not a signal handler.
 */
PERCPU_API int percpu_static_counter_setup(struct percpu_static_counter *s);

/**
 * Free the per-CPU counter and move its value into the atomic word. An add that runs
 * meanwhile may be lost.
 */
PERCPU_API void percpu_static_counter_teardown(struct percpu_static_counter *s);

/** Add n, as percpu_counter_add() does, with one more load and test. */
PERCPU_INLINE void percpu_static_counter_add(struct percpu_static_counter *s, int64_t n)
{
	struct percpu_counter *c = __atomic_load_n(&s->counter, __ATOMIC_ACQUIRE);

	if (percpu_likely(c != NULL))
		percpu_counter_add(c, n);
	else
		__atomic_fetch_add(&s->early, (uint64_t)n, __ATOMIC_RELAXED);
}

/** Read the counter, as percpu_counter_fetch() does. */
PERCPU_API uint64_t percpu_static_counter_fetch(const struct percpu_static_counter *s);

/** Set the counter to 0, as percpu_counter_zero() does. */
PERCPU_API void percpu_static_counter_zero(struct percpu_static_counter *s);

/** Read and reset the counter, as percpu_counter_fetch_zero() does. */
PERCPU_API uint64_t percpu_static_counter_fetch_zero(struct percpu_static_counter *s);

PERCPU_END_DECLS

#endif
