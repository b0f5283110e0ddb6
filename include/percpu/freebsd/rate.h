/* SPDX-License-Identifier: MIT */
/*
 * rate.h - FreeBSD's counter_rate: limits on events per period.
 *
 * counter_ratecheck() counts an event and says whether it is within the limit
 * of the period. Unlike FreeBSD's, every event is counted, also while another
 * thread begins the next period.
 *
 * Context: checks in any thread and in signal handlers; allocating and freeing
 * not in a signal handler.
 */
#ifndef PERCPU_FREEBSD_RATE_H
#define PERCPU_FREEBSD_RATE_H

#include <stdlib.h>

#include <percpu/freebsd/counter.h>

PERCPU_BEGIN_DECLS

struct counter_rate {
	counter_u64_t cr_rate;
	int64_t cr_start PERCPU_ALIGNED_WORD; /* of the period, in ms; atomic */
	int64_t cr_period;		      /* in ms */
	int cr_over;			      /* the limit was exceeded in this period; atomic */
};

/** Milliseconds of a clock that does not go back; in the library, for strict C
 *  has no declarations for it. */
PERCPU_API int64_t percpu_freebsd_ms(void);

/** Allocate a rate with a period in seconds; NULL if there is no memory. */
static inline struct counter_rate *counter_rate_alloc(int flags, int period)
{
	struct counter_rate *cr = (struct counter_rate *)calloc(1, sizeof(*cr));

	if (cr == NULL)
		return NULL;
	cr->cr_rate = counter_u64_alloc(flags);
	if (cr->cr_rate == NULL) {
		free(cr);
		return NULL;
	}
	cr->cr_period = (int64_t)period * 1000;
	cr->cr_start = percpu_freebsd_ms();
	return cr;
}

static inline void counter_rate_free(struct counter_rate *cr)
{
	counter_u64_free(cr->cr_rate);
	free(cr);
}

/** Events of the running period. */
static inline uint64_t counter_rate_get(struct counter_rate *cr)
{
	int64_t start = __atomic_load_n(&cr->cr_start, __ATOMIC_ACQUIRE);

	return percpu_freebsd_ms() - start < cr->cr_period ? counter_u64_fetch(cr->cr_rate) : 0;
}

/**
 * Count an event. Returns -1 if the period has had more than limit; otherwise
 * 0, or, for the first event of a period, the events of the one before if
 * those were more than limit.
 */
static inline int64_t counter_ratecheck(struct counter_rate *cr, int64_t limit)
{
	int64_t start = __atomic_load_n(&cr->cr_start, __ATOMIC_ACQUIRE);
	int64_t now = percpu_freebsd_ms(), before = 0;

	if (now - start >= cr->cr_period &&
	    __atomic_compare_exchange_n(&cr->cr_start, &start, now, 0, __ATOMIC_ACQ_REL,
					__ATOMIC_RELAXED)) {
		before = (int64_t)percpu_counter_fetch_zero(percpu_freebsd_counter(cr->cr_rate));
		__atomic_store_n(&cr->cr_over, 0, __ATOMIC_RELEASE);
		if (before <= limit)
			before = 0;
	}
	counter_u64_add(cr->cr_rate, 1);
	if (__atomic_load_n(&cr->cr_over, __ATOMIC_RELAXED))
		return -1;
	if ((int64_t)counter_u64_fetch(cr->cr_rate) <= limit)
		return before;
	__atomic_store_n(&cr->cr_over, 1, __ATOMIC_RELAXED);
	return -1;
}

PERCPU_END_DECLS

#endif
