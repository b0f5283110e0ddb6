/* SPDX-License-Identifier: MIT */
/*
 * rate.h - rate limits: at most n events per period. A check counts an event and tells whether
 * it is within the limit. After FreeBSD's counter_rate(9).
 *
 * All events are counted, refused ones included. A CPU takes several of the period's permissions
 * at a time, so most checks touch no memory of other CPUs.
 */
#ifndef PERCPU_RATE_H
#define PERCPU_RATE_H

#include <stdbool.h>

#include <percpu/region.h>

PERCPU_BEGIN_DECLS

/** A rate limit, called a rate. */
struct percpu_rate;

/** The largest limit, and the longest period, in ms: 24 days. */
#define PERCPU_RATE_MAX 0x7fffffff

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach or destroy: any thread, constructors
 * included; not a signal handler. Other calls: any thread of any process that has the rate
 * mapped; signal handlers; children of fork and vfork.
 * Ordering: none (as memory_order_relaxed). A read of the totals includes the events that
 * happened before it.
 * Progress: creating and destroying takes locks of the process and, in a shared region,
 * one between processes, for which a call waits a second at most. The other calls take no
 * lock. A check starts again only if another thread takes permissions meanwhile; a read loads
 * each lane once.
 */

/**
 * Create a rate of at most limit events in each period of period_ms ms, in memory of this
 * process or in a region.
 *
 * A period begins with the first event after the last period has ended. The clock is
 * CLOCK_MONOTONIC_COARSE, which advances by 1 to 10 ms at a time. A period ends at such a step:
 * with steps of 4 ms, a period of 10 ms lasts 12 ms. Processes of different time namespaces have
 * different clocks: if they share a rate, each may begin periods of its own.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, or a limit or a period of 0 or less
 *	-ERANGE	a limit or a period above PERCPU_RATE_MAX
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ETIMEDOUT  in a region, as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_rate_create(int64_t limit, int64_t period_ms,
						    struct percpu_rate **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_rate_create_in(struct percpu_region *r, int64_t limit,
						       int64_t period_ms, struct percpu_rate **ret);

/**
 * Attach to the rate at this root of a shared region, or create it if there is none, as
 * percpu_counter_array_open() does. An existing rate keeps its limit, whatever this call gives. A
 * program that is restarted with another limit calls percpu_rate_set_limit().
 *
 * Returns 0, an error of percpu_rate_create_in(), -ENOENT (the region was opened to read, and
 * there is no rate), or -EEXIST (the root has something else, or a rate with another period).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_rate_open(struct percpu_region *r, unsigned root,
						  int64_t limit, int64_t period_ms,
						  struct percpu_rate **ret);

/**
 * Attach to the rate that another process created at this key of a shared region.
 * percpu_rate_detach() undoes it, and leaves the rate.
 *
 * Returns 0, or -EINVAL (a NULL), -ENOENT (no rate there), -ENOMEM.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_rate_attach(struct percpu_region *r, uint64_t key,
						    struct percpu_rate **ret);
PERCPU_API void percpu_rate_detach(struct percpu_rate *rate);

/** Return the rate's key in its region; 0 for a private rate. */
PERCPU_API uint64_t percpu_rate_key(const struct percpu_rate *rate);

/** Free the rate. No thread may be using it. NULL is fine. In a region that was opened to read, it
 *  stays. If a root has its key, set the root to 0 first: percpu_region_set_root(). */
PERCPU_API void percpu_rate_destroy(struct percpu_rate *rate);

/**
 * Count an event, and return whether it is within the limit of the period.
 *
 * No period lets more events through than the limit, whatever runs at the same time. An event
 * belongs to the period in which its check read the clock. An event may be refused although
 * fewer were let through, if other CPUs keep unused permissions. They keep at most 1/32 of the
 * limit, all CPUs together, and none if the limit is below 32 times the number of possible CPUs.
 * The next event on a CPU that keeps permissions is let through.
 *
 * If a thread is killed in the call, permissions that it has taken may stay unused in that period,
 * and its event may be counted or not. Nothing else is lost.
 *
 * For NULL, and for a rate in a region that was opened to read, returns false and counts nothing.
 */
PERCPU_API PERCPU_MUST_CHECK bool percpu_rate_check(struct percpu_rate *rate);

/**
 * Change the limit. A higher limit holds at once; a lower one from the next period on at the
 * latest, because CPUs use up the permissions that they have taken. A period with several limits
 * lets at most the largest of them through.
 *
 * Returns 0, or -EINVAL (NULL, or a limit of 0 or less), -ERANGE, -EROFS.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_rate_set_limit(struct percpu_rate *rate, int64_t limit);

/** Return the current limit; 0 for NULL. */
PERCPU_API int64_t percpu_rate_limit(const struct percpu_rate *rate);

/** Return the period, in ms, which never changes; 0 for NULL. */
PERCPU_API int64_t percpu_rate_period(const struct percpu_rate *rate);

/** Return how many events were let through since the rate was created. The number is exact if no
 *  check runs meanwhile. */
PERCPU_API uint64_t percpu_rate_allowed(const struct percpu_rate *rate);

/** Return how many events were refused since the rate was created. The number is exact if no check
 *  runs meanwhile. */
PERCPU_API uint64_t percpu_rate_refused(const struct percpu_rate *rate);

/** The last read of percpu_rate_per_second(). */
struct percpu_rate_mark {
	uint64_t ns;	 /* when it was, in ns of CLOCK_MONOTONIC */
	uint64_t events; /* all events until then */
};

/**
 * Return the events per second, let through and refused together, since *last, and set *last to
 * now. Each reader has its own mark, which begins as zeros: the first call returns 0 and sets the
 * mark. Returns 0 if an argument is NULL.
 */
PERCPU_API double percpu_rate_per_second(const struct percpu_rate *rate,
					 struct percpu_rate_mark *last);

PERCPU_END_DECLS

#endif
