/* SPDX-License-Identifier: MIT */
/*
 * percpu_counter.h - Linux's percpu_counter (linux/percpu_counter.h) under its own names, on
 * approx.h.
 *
 * Linux and percpu/counter.h have different things of the names struct percpu_counter and
 * percpu_counter_add(). So a unit includes one of the two headers, or one that includes counter.h,
 * such as percpu/percpu.h. A program may have units of both kinds.
 *
 * Difference: the batch is one for all, PERCPU_COUNTER_BATCH. percpu_counter_add_batch() does not
 * use its argument. percpu_counter_read() is off by at most this batch for each CPU.
 *
 * What the calls have in common.
 * Context: adds, reads and sums: any thread, signal handlers. Init and destroy: any thread, not a
 * signal handler. In a child of fork a counter is the child's own copy.
 * Ordering: none for adds; a sum includes the adds that happened before it.
 * Progress: as percpu_approx_add(), percpu_approx_estimate() and percpu_approx_fetch().
 */
#ifndef PERCPU_LINUX_PERCPU_COUNTER_H
#define PERCPU_LINUX_PERCPU_COUNTER_H

#ifdef PERCPU_COUNTER_H
#error "percpu/counter.h was included before, whose percpu_counter_add() is another function"
#endif
#ifdef _LINUX_PERCPU_COUNTER_H
#error "this stands in for linux/percpu_counter.h, which was included before it"
#endif
#define _LINUX_PERCPU_COUNTER_H /* makes the original empty if it is included later */

#include <percpu/approx.h>

PERCPU_BEGIN_DECLS

/** A counter. The field belongs to the library. */
struct percpu_counter {
	struct percpu_approx *sum; /* NULL: not initialized */
};

#define PERCPU_COUNTER_BATCH 32

/** Make a counter that is amount. gfp is not used. Returns 0, -ENOMEM, or -E2BIG: more CPUs than
 *  PERCPU_MAX_CPUS. */
static inline PERCPU_MUST_CHECK int percpu_counter_init(struct percpu_counter *fbc, int64_t amount,
							unsigned gfp)
{
	const struct percpu_approx_options o = { sizeof(o), PERCPU_COUNTER_BATCH };
	int e;

	(void)gfp;
	fbc->sum = PERCPU_NULL(struct percpu_approx *);
	e = percpu_approx_create(&o, &fbc->sum);
	if (e == 0)
		percpu_approx_add(fbc->sum, amount);
	return e;
}

/** Free what percpu_counter_init() made. A counter that is 0 bytes is fine. */
static inline void percpu_counter_destroy(struct percpu_counter *fbc)
{
	percpu_approx_destroy(fbc->sum);
	fbc->sum = PERCPU_NULL(struct percpu_approx *);
}

static inline void percpu_counter_add(struct percpu_counter *fbc, int64_t amount)
{
	percpu_approx_add(fbc->sum, amount);
}

/** Do as percpu_counter_add(). */
static inline void percpu_counter_add_batch(struct percpu_counter *fbc, int64_t amount,
					    int32_t batch)
{
	(void)batch;
	percpu_approx_add(fbc->sum, amount);
}

static inline void percpu_counter_sub(struct percpu_counter *fbc, int64_t amount)
{
	percpu_approx_add(fbc->sum, (int64_t)(0 - (uint64_t)amount));
}

static inline void percpu_counter_inc(struct percpu_counter *fbc)
{
	percpu_approx_add(fbc->sum, 1);
}

static inline void percpu_counter_dec(struct percpu_counter *fbc)
{
	percpu_approx_add(fbc->sum, -1);
}

/** Set the sum. What other threads add meanwhile counts before the set or after it. */
static inline void percpu_counter_set(struct percpu_counter *fbc, int64_t amount)
{
	percpu_approx_zero(fbc->sum);
	percpu_approx_add(fbc->sum, amount);
}

/** Return the approximate sum, by one load. */
static inline int64_t percpu_counter_read(struct percpu_counter *fbc)
{
	return percpu_approx_estimate(fbc->sum);
}

/** Return the approximate sum, or 0 if that is negative. */
static inline int64_t percpu_counter_read_positive(struct percpu_counter *fbc)
{
	const int64_t v = percpu_counter_read(fbc);

	return v > 0 ? v : 0;
}

/** Return the exact sum. */
static inline int64_t percpu_counter_sum(struct percpu_counter *fbc)
{
	return percpu_approx_fetch(fbc->sum);
}

/** Return the exact sum, or 0 if that is negative. */
static inline int64_t percpu_counter_sum_positive(struct percpu_counter *fbc)
{
	const int64_t v = percpu_counter_sum(fbc);

	return v > 0 ? v : 0;
}

/** Compare the sum with rhs; exactly, where the approximate sum is too close to tell. Returns 1, 0
 *  or -1, as the sum is above, equal or below. */
static inline int percpu_counter_compare(struct percpu_counter *fbc, int64_t rhs)
{
	return percpu_approx_compare(fbc->sum, rhs);
}

PERCPU_END_DECLS

#endif
