/* SPDX-License-Identifier: MIT */
/*
 * counter.h - 64-bit counters that any thread updates at the cost of a plain
 * addition, exactly. After FreeBSD's counter(9).
 *
 * Values wrap modulo 2^64. An update adds to a cell of the CPU it runs on; a
 * read sums the cells. A read need not equal the total at any one instant: it
 * includes every update that happened before it began, and some, none or all
 * of those that run meanwhile. Of a counter that only grows, reads that follow
 * one another never go back.
 */
#ifndef PERCPU_COUNTER_H
#define PERCPU_COUNTER_H

#include <percpu/region.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** A counter: an address in lane 0, not to be dereferenced. */
struct percpu_counter;

/*
 * What the calls of this header have in common, where one does not say more.
 *
 * Context: what creates, opens, attaches, sets up, detaches, tears down or destroys: any
 * thread, constructors included; not a signal handler. The rest: any thread of any process
 * that has the counter mapped; signal handlers; children of fork.
 * Ordering: an add or a reset orders nothing (as memory_order_relaxed); a read includes
 * the adds that happened before it. To hand a new counter to another thread is up to the
 * program, as with any object.
 * Progress: what creates or destroys takes locks of the process and, in a shared region,
 * one between processes, for which it waits a second at most. The rest takes no lock: an
 * add is bounded, a read loads each lane once, a reset begins anew if others reset the
 * same counter meanwhile.
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
 * Create a counter of 0 in a region with the default lane size; processes that
 * share the region count together.
 *
 * Returns 0, or -EINVAL (a NULL, or a region with another lane size), -EROFS,
 * -ENOSPC, -ENOMEM, -ETIMEDOUT (percpu_region_alloc()).
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_create_in(struct percpu_region *r,
							  struct percpu_counter **ret);

/**
 * Attach to the counter at this root of a shared region, or create it if nobody has;
 * as percpu_counter_array_open(). A region has 16 roots; for more than a few counters
 * there is an array, or one struct of statistics.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_open(struct percpu_region *r, unsigned root,
						     struct percpu_counter **ret);

/**
 * Attach to the counter that another process created at this key of a shared region.
 * percpu_counter_detach() undoes it and leaves the counter.
 *
 * Returns 0, or -EINVAL (a NULL, or a region with another lane size), -ENOENT (no
 * counter there).
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_attach(struct percpu_region *r, uint64_t key,
						       struct percpu_counter **ret);
PERCPU_API void percpu_counter_detach(struct percpu_counter *c);

/** The counter's key in the region it was created in; 0 for a private counter. */
PERCPU_API uint64_t percpu_counter_key(const struct percpu_counter *c);

/**
 * Free a counter, wherever it was created. NULL is fine; so is a pointer that
 * is no counter, or one in a region that was opened to read: nothing happens. No thread may be using the counter. In a shared
 * region it may wait for a second, as percpu_region_free().
 */
PERCPU_API void percpu_counter_destroy(struct percpu_counter *c);

PERCPU_API void percpu_counter_add_slow(struct percpu_counter *c, int64_t n);

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
 * Read the counter: what was added since it was created or last zeroed.
 *
 * It does not promise the total of an instant, nor that two counters updated
 * together are read together.
 *
 * NULL reads as 0 here, and is left alone by the resets.
 *
 * Context: any thread, signal handlers. Costs a load per possible CPU.
 * Ordering: updates that happen before the call are included.
 */
PERCPU_API uint64_t percpu_counter_fetch(const struct percpu_counter *c);

/**
 * Set the counter to 0: what has been added so far no longer counts. Adds that
 * run meanwhile fall before or after it; none is lost. Stores to no CPU's
 * cell: a reset remembers the sum and subtracts it.
 *
 * In a region that was opened to read, nothing is reset, and percpu_counter_fetch_zero()
 * reads; adds are SIGSEGV there (docs/region.md).
 *
 * Context: any thread; signal handlers.
 */
PERCPU_API void percpu_counter_zero(struct percpu_counter *c);

/**
 * Read and reset in one: the values returned by all callers and what is left
 * in the counter add up to what was added.
 *
 * Context: as percpu_counter_zero().
 * Progress: retries only while others reset the same counter.
 */
PERCPU_API uint64_t percpu_counter_fetch_zero(struct percpu_counter *c);

/*
 * Arrays. n counters, adjacent in every lane, in a region of their own: 8
 * bytes per counter and CPU. The fields are the library's.
 */

struct percpu_counter_array {
	struct percpu_block block;
	size_t n; /* counters */
};

/**
 * Create n counters of 0 in memory of this process, or in a region. An array
 * in a region must fit into a lane of it: 8192 counters by default
 * (percpu_region_options.lane_size; docs/region.md says what others cost).
 *
 * Returns 0, or -EINVAL (a NULL, n is 0, n counters are more than a lane of the region
 * has room for, or in memory of this process more than 1 TiB per lane; 1 GiB in 32-bit
 * processes), -ENOMEM; in a region as percpu_region_alloc().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_array_create(size_t n,
							     struct percpu_counter_array **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_array_create_in(struct percpu_region *r, size_t n,
								struct percpu_counter_array **ret);

/**
 * Attach to n counters at this root of a shared region, or create them if nobody has.
 * Any number of processes may do so at once: one creates them, and all have the same.
 * In a region that was opened to read nothing is created. n may be smaller than that
 * of the creator. percpu_counter_array_detach() leaves the counters to the others.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, no such root, a private region, n is 0 or more than a lane of the
 *		region has room for: 8192 by default
 *	-ENOENT	the region was opened to read, and nobody has created them yet
 *	-EEXIST	there is something else at the root: another kind of object, or fewer
 *		counters; take another root
 *	-ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 *
 * Context: any thread, not a signal handler.
 * Progress: a process that is killed in it may leave n counters' memory allocated;
 * the next one creates them.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_array_open(struct percpu_region *r, unsigned root,
							   size_t n,
							   struct percpu_counter_array **ret);

/**
 * Attach to the n counters, or the first n, that another process created at this key
 * of a shared region. Destroy it with percpu_counter_array_detach(), which leaves
 * the counters.
 *
 * Returns 0, or -EINVAL (a NULL, n is 0 or more than 2^37, or 2^27), -ENOENT (no array of n
 * counters there), -ENOMEM.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_counter_array_attach(struct percpu_region *r, uint64_t key,
							     size_t n,
							     struct percpu_counter_array **ret);
PERCPU_API void percpu_counter_array_detach(struct percpu_counter_array *a);

/** The array's key in the region it was created in; 0 for a private array. */
PERCPU_API uint64_t percpu_counter_array_key(const struct percpu_counter_array *a);

/** Free the array and its counters; in a region that was opened to read, the array
 *  alone. NULL is fine. */
PERCPU_API void percpu_counter_array_destroy(struct percpu_counter_array *a);

PERCPU_API void percpu_counter_array_add_slow(const struct percpu_counter_array *a, size_t i,
					      int64_t n);

/** Add n to counter i, which must be below a->n. As percpu_counter_add(). */
PERCPU_INLINE void percpu_counter_array_add(const struct percpu_counter_array *a, size_t i,
					    int64_t n)
{
	if (percpu_unlikely(percpu_seq_add(a->block.base + i * 8, a->block.stride, n)))
		percpu_counter_array_add_slow(a, i, n);
}

PERCPU_API void percpu_counter_array_add_words(const struct percpu_counter_array *a, size_t i,
					       const int64_t *n, size_t words);

/* One commit, for who knows that this CPU stores so many words at once. The sequences
 * are those for banks; here is one. */
PERCPU_INLINE int percpu_counter_array_commit(const struct percpu_counter_array *a, size_t i,
					      const int64_t *n, size_t words)
{
	static const uint64_t bank = 0;
	char *cell = a->block.base + i * 8;

	if (words == 2)
		return percpu_seq_bank_add2(cell, a->block.stride, &bank, 0, percpu_pair_at(n, 0));
	if (words == 4)
		return percpu_seq_bank_add4(cell, a->block.stride, &bank, 0, percpu_pair_at(n, 0),
					    percpu_pair_at(n, 2));
	return percpu_seq_bank_add8(cell, a->block.stride, &bank, 0, percpu_pair_at(n, 0),
				    percpu_pair_at(n, 2), percpu_pair_at(n, 4),
				    percpu_pair_at(n, 6));
}

/**
 * Add n[0..N-1] to counters i to i+N-1 with one commit: a thread killed at any
 * instruction has added all or none. i must be a multiple of N, and i+N at
 * most a->n.
 *
 * In one commit on tier rseq, where the CPU has a store that wide: N = 2 on
 * x86-64 and aarch64, 4 with AVX2, 8 with AVX-512. Otherwise in the fewest
 * commits there are, one word each on the lower tiers, and on tier rseq when
 * the sequence was aborted five times in a row. A reader on another
 * CPU may see some of the words before the others in any case.
 *
 * Inlined where the unit is compiled for the instruction set (-mavx2), a call
 * otherwise.
 */
PERCPU_INLINE void percpu_counter_array_add2(const struct percpu_counter_array *a, size_t i,
					     const int64_t n[2])
{
	if (percpu_unlikely(percpu_counter_array_commit(a, i, n, 2)))
		percpu_counter_array_add_words(a, i, n, 2);
}

PERCPU_INLINE void percpu_counter_array_add4(const struct percpu_counter_array *a, size_t i,
					     const int64_t n[4])
{
	if (PERCPU_SEQ_WORDS < 4 || percpu_unlikely(percpu_counter_array_commit(a, i, n, 4)))
		percpu_counter_array_add_words(a, i, n, 4);
}

PERCPU_INLINE void percpu_counter_array_add8(const struct percpu_counter_array *a, size_t i,
					     const int64_t n[8])
{
	if (PERCPU_SEQ_WORDS < 8 || percpu_unlikely(percpu_counter_array_commit(a, i, n, 8)))
		percpu_counter_array_add_words(a, i, n, 8);
}

/**
 * Widest N that is one commit on this machine and tier, which may rise soon after
 * first use: 1, 2, 4 or 8.
 *
 * Context: any thread, not a signal handler: as the first call of all it starts the
 * self-test (percpu_status()).
 */
PERCPU_API unsigned percpu_counter_array_commit_words(void);

/** Read, zero, or read and reset counter i. As the calls for one counter;
 *  i >= a->n reads as 0 and resets nothing. */
PERCPU_API uint64_t percpu_counter_array_fetch(const struct percpu_counter_array *a, size_t i);
PERCPU_API void percpu_counter_array_zero(struct percpu_counter_array *a, size_t i);
PERCPU_API uint64_t percpu_counter_array_fetch_zero(struct percpu_counter_array *a, size_t i);

/** Read all counters into out[0..a->n-1], lane by lane: at memory bandwidth. */
PERCPU_API void percpu_counter_array_fetch_all(const struct percpu_counter_array *a, uint64_t *out);

/*
 * Static counters. They count from the first instruction of the program on,
 * before main and before any constructor, and lose nothing: until the counter
 * proper exists, adds go to an atomic word, which stays part of the sum.
 */

struct percpu_static_counter {
	struct percpu_counter *counter; /* NULL: early, or there was no memory */
	uint64_t early PERCPU_ALIGNED_WORD;
};

/* clang-format off */
#define PERCPU_STATIC_COUNTER_INIT { 0, 0 }

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
 * Create the counter proper. Returns 0, also when that was done before, or
 * -ENOMEM or -E2BIG: the counter then goes on with the atomic word, exactly.
 *
 * Context: any thread, constructors included; not a signal handler.
 */
PERCPU_API int percpu_static_counter_setup(struct percpu_static_counter *s);

/**
 * Free the counter proper; its value moves into the atomic word. An add that
 * runs meanwhile may be lost.
 */
PERCPU_API void percpu_static_counter_teardown(struct percpu_static_counter *s);

/** Add n; as percpu_counter_add(), with one more load and test. */
PERCPU_INLINE void percpu_static_counter_add(struct percpu_static_counter *s, int64_t n)
{
	struct percpu_counter *c = __atomic_load_n(&s->counter, __ATOMIC_ACQUIRE);

	if (percpu_likely(c != NULL))
		percpu_counter_add(c, n);
	else
		__atomic_fetch_add(&s->early, (uint64_t)n, __ATOMIC_RELAXED);
}

/** Read, zero, or read and reset, as the calls for one counter. */
PERCPU_API uint64_t percpu_static_counter_fetch(const struct percpu_static_counter *s);
PERCPU_API void percpu_static_counter_zero(struct percpu_static_counter *s);
PERCPU_API uint64_t percpu_static_counter_fetch_zero(struct percpu_static_counter *s);

PERCPU_END_DECLS

#endif
