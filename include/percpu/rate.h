/* SPDX-License-Identifier: MIT */
/*
 * rate.h - at most n events per period: whether this one is within the limit, and how many
 * were and were not. After FreeBSD's counter_rate(9).
 *
 * All events are counted, also those that were refused. A CPU takes permissions for several
 * events at a time from the period's, and so most checks touch no memory of other CPUs.
 */
#ifndef PERCPU_RATE_H
#define PERCPU_RATE_H

#include <stdbool.h>

#include <percpu/region.h>

PERCPU_BEGIN_DECLS

/** A rate. Its fields are the library's. */
struct percpu_rate;

/** The largest limit; and the longest period, in ms: 24 days. */
#define PERCPU_RATE_MAX 0x7fffffff

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach or destroy: any thread, constructors
 * included; not a signal handler. The others: any thread of any process that has the rate
 * mapped; signal handlers; children of fork and vfork.
 * Ordering: none (as memory_order_relaxed). A read of the totals includes the events that
 * happened before it.
 * Progress: creating and destroying takes locks of the process and, in a shared region,
 * one between processes, for which a call waits a second at most. The other calls take no
 * lock. A check begins anew only if another thread takes permissions meanwhile; a read loads
 * each lane once.
 */

/**
 * Create a rate of at most limit events in each period of so many ms, in memory of this
 * process or in a region.
 *
 * A period begins with the first event after the last one has ended. Time is that of
 * CLOCK_MONOTONIC_COARSE, which advances by 1 to 10 ms at a time; a period lasts until it has
 * advanced so far: with steps of 4 ms one of 10 ms lasts 12 ms. Processes of different time
 * namespaces have different clocks: if they share a rate, each may begin periods of its own.
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
 * Attach to the rate at this root of a shared region, or create it if nobody has, as
 * percpu_counter_array_open() does. One that is there keeps its limit, whatever this call says: a
 * program that is started again with another limit calls percpu_rate_set_limit().
 *
 * Returns 0, or an error as percpu_rate_create_in(); -ENOENT (the region was opened to read,
 * and there is none); -EEXIST (something else is at the root, or a rate with another period).
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

/** The rate's key in the region it was created in; 0 for a private rate. */
PERCPU_API uint64_t percpu_rate_key(const struct percpu_rate *rate);

/** Free the rate, which no thread may be using. NULL is fine. In a region that was opened to
 *  read, it stays. If a root has it, set that to 0 before: percpu_region_set_root(). */
PERCPU_API void percpu_rate_destroy(struct percpu_rate *rate);

/**
 * Count an event. Returns whether it is within the limit of the period.
 *
 * In no period more events are let through than the limit says, whatever runs at the same
 * time. An event is of the period in which the check has read the clock. An event may be
 * refused although fewer were let through, if other CPUs have taken permissions and not used
 * them: these are at most 1/32 of the limit for all CPUs together, so there are none if
 * the limit is below 32 times the number of possible CPUs. The next event on such a CPU is
 * let through.
 *
 * A thread that is killed in the call may have taken permissions that nobody uses in that
 * period; its event may be counted or not. Nothing else is lost.
 *
 * NULL, and a rate in a region that was opened to read, let nothing through, and count
 * nothing.
 */
PERCPU_API PERCPU_MUST_CHECK bool percpu_rate_check(struct percpu_rate *rate);

/**
 * Change the limit. More is let through at once; less at the latest from the next period on:
 * CPUs use up the permissions that they have taken. In a period with several limits at most
 * as many events as the largest of them says are let through.
 *
 * Returns 0, or -EINVAL (NULL, or a limit of 0 or less), -ERANGE, -EROFS.
 */
PERCPU_API int percpu_rate_set_limit(struct percpu_rate *rate, int64_t limit);

/** The limit, as it is now; the period, in ms, which does not change. Also of a rate that was
 *  attached to, or opened with another limit. NULL has 0. */
PERCPU_API int64_t percpu_rate_limit(const struct percpu_rate *rate);
PERCPU_API int64_t percpu_rate_period(const struct percpu_rate *rate);

/** How many events were let through, and how many were refused, since the rate was created:
 *  exactly, when no check runs meanwhile. */
PERCPU_API uint64_t percpu_rate_allowed(const struct percpu_rate *rate);
PERCPU_API uint64_t percpu_rate_refused(const struct percpu_rate *rate);

/** What a reader remembers: the time, in ns of CLOCK_MONOTONIC, and all events until then. */
struct percpu_rate_mark {
	uint64_t ns;
	uint64_t events;
};

/**
 * Return the events per second, let through and refused together, since *last, and set *last to
 * now. Each reader has a mark of its own. With a mark of zeros, as at the first call, the
 * result is 0, and only the mark is set; with a NULL it is 0, too.
 */
PERCPU_API double percpu_rate_per_second(const struct percpu_rate *rate,
					 struct percpu_rate_mark *last);

PERCPU_END_DECLS

#endif
