/* SPDX-License-Identifier: MIT */
/*
 * rate.h - FreeBSD's counter_rate: limits on events per period.
 *
 * counter_ratecheck() counts an event, and returns whether it is within the limit of the
 * period. Unlike FreeBSD's, it counts every event, even while another thread begins the
 * next period, and never lets through more than the limit. It is built on percpu/rate.h,
 * whose rates cost less, and may be in shared regions.
 *
 * What the calls have in common.
 * Context: checks and reads in any thread and in signal handlers; allocating and freeing
 * not in a signal handler.
 * Ordering: a check orders nothing else. When a thread begins a period, all events that
 * happened before are in the period that ended.
 * Progress: a check takes no lock. It costs an add and a compare-and-swap; above the limit, an
 * add and a load. Allocating with M_WAITOK waits until there is memory.
 */
#ifndef PERCPU_FREEBSD_RATE_H
#define PERCPU_FREEBSD_RATE_H

#include <percpu/freebsd/counter.h>

PERCPU_BEGIN_DECLS

/**
 * A rate: from counter_rate_alloc(), as since FreeBSD 14; or by value, as in 12 and 13. In a
 * rate by value the program sets cr_rate to a counter, and may set cr_ticks to any number.
 * The period of such a rate is a second.
 */
struct counter_rate {
	counter_u64_t cr_rate;		      /* events of the period */
	int64_t cr_ticks PERCPU_ALIGNED_WORD; /* the period's start, and the events let through */
	int64_t cr_period;		      /* in ms; 0: a second */
	int cr_over;			      /* not used */
};
PERCPU_ASSERT(sizeof(void *) != 8 || sizeof(struct counter_rate) == 32, "in units and the library");

PERCPU_API struct counter_rate *percpu_freebsd_rate_alloc(int wait, int period);

/** Allocate a rate with a period in seconds; 0 or less means 1. Returns NULL if there is
 *  no memory and flags do not have M_WAITOK. */
static inline struct counter_rate *counter_rate_alloc(int flags, int period)
{
	return percpu_freebsd_rate_alloc((flags & M_WAITOK) != 0, period);
}

/** Free a rate of counter_rate_alloc(). */
PERCPU_API void percpu_freebsd_rate_free(struct counter_rate *cr);

static inline void counter_rate_free(struct counter_rate *cr)
{
	percpu_freebsd_rate_free(cr);
}

PERCPU_API uint64_t percpu_freebsd_rate_get(struct counter_rate *cr);

/** Return the number of events of the running period. */
static inline uint64_t counter_rate_get(struct counter_rate *cr)
{
	return percpu_freebsd_rate_get(cr);
}

PERCPU_API int64_t percpu_freebsd_ratecheck(struct counter_rate *cr, int64_t limit);

/**
 * Count an event. Returns -1 if the period has already let through limit events. Otherwise
 * returns 0; but if the event is the first of its period, and the period before had more
 * than limit events, returns the number of these.
 */
static inline int64_t counter_ratecheck(struct counter_rate *cr, int64_t limit)
{
	return percpu_freebsd_ratecheck(cr, limit);
}

PERCPU_END_DECLS

#endif
