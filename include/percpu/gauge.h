/* SPDX-License-Identifier: MIT */
/*
 * gauge.h - gauges: levels that go up and down at the cost of a counter, and that can be set.
 * They are of integers or of doubles. A latest value is only ever set.
 *
 * An add or a subtraction goes to a cell of the CPU it runs on, as with counters (counter.h,
 * fcounter.h). A set stores what the sum was at that moment. It replaces earlier adds; later
 * adds count from the new level. No add is lost or counted twice.
 */
#ifndef PERCPU_GAUGE_H
#define PERCPU_GAUGE_H

#include <percpu/counter.h>
#include <percpu/fcounter.h>

PERCPU_BEGIN_DECLS

/** A gauge of integers: an address in lane 0, not to be dereferenced. */
struct percpu_gauge;

/** A gauge of doubles: an address in lane 0, not to be dereferenced. */
struct percpu_fgauge;

/** A value with the time it was set: an address in lane 0, not to be dereferenced. */
struct percpu_latest;

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach or destroy: any thread, constructors
 * included; not a signal handler. Other calls: any thread of any process that has the gauge
 * mapped; signal handlers; children of fork and vfork. On 32-bit machines the calls that set a
 * gauge or a latest value, and that read a gauge of doubles or a latest value, take a lock and
 * are not for signal handlers.
 * Ordering: none for adds (as memory_order_relaxed). A thread that reads a value which another
 * thread has set sees what that thread did before.
 * Progress: creating and destroying takes locks of the process and, in a shared region,
 * one between processes, for which a call waits a second at most. Adds are those of
 * counters. A read loads each lane once. A set starts again if another thread sets the same
 * gauge meanwhile, and completes the set of a thread that was stopped or killed.
 *
 * The calls that create, open and attach return 0 or an error as those of counters: -EINVAL,
 * -ENOMEM, -E2BIG; in a region, which must have the default lane size, -EROFS, -ENOSPC,
 * -ETIMEDOUT, -ENOENT and -EEXIST. Gauges of integers, gauges of doubles and latest values have
 * keys of different kinds. A call refuses a key of another kind: -ENOENT, at a root -EEXIST. On
 * 32-bit machines they cannot be in a shared region: -ENOTSUP.
 */

/** Create a gauge of 0 in memory of this process. */
PERCPU_API PERCPU_MUST_CHECK int percpu_gauge_create(struct percpu_gauge **ret);

/** Create a gauge of 0 in a region. */
PERCPU_API PERCPU_MUST_CHECK int percpu_gauge_create_in(struct percpu_region *r,
							struct percpu_gauge **ret);

/** Attach to the gauge at this root of a shared region, or create it if there is none.
 *  percpu_gauge_detach() undoes it and leaves the gauge. */
PERCPU_API PERCPU_MUST_CHECK int percpu_gauge_open(struct percpu_region *r, unsigned root,
						   struct percpu_gauge **ret);

/** Attach to the gauge at this key of a shared region. percpu_gauge_detach() undoes it and leaves
 *  the gauge. */
PERCPU_API PERCPU_MUST_CHECK int percpu_gauge_attach(struct percpu_region *r, uint64_t key,
						     struct percpu_gauge **ret);
PERCPU_API void percpu_gauge_detach(struct percpu_gauge *g);

/** Return the gauge's key in its region; 0 for a private gauge. */
PERCPU_API uint64_t percpu_gauge_key(const struct percpu_gauge *g);

/** Free the gauge. No thread may be using it. NULL is fine. In a region that was opened to read,
 *  it stays. If a root has its key, set the root to 0 first: percpu_region_set_root(). */
PERCPU_API void percpu_gauge_destroy(struct percpu_gauge *g);

/** Add n, as percpu_counter_add() does. Values wrap modulo 2^64. In a region that was opened to
 *  read an add gets SIGSEGV: it checks nothing. */
PERCPU_INLINE void percpu_gauge_add(struct percpu_gauge *g, int64_t n)
{
	percpu_counter_add((struct percpu_counter *)g, n);
}

/** Subtract n, as percpu_gauge_add() adds. */
PERCPU_INLINE void percpu_gauge_sub(struct percpu_gauge *g, int64_t n)
{
	percpu_counter_add((struct percpu_counter *)g, (int64_t)(0 - (uint64_t)n));
}

PERCPU_INLINE void percpu_gauge_inc(struct percpu_gauge *g)
{
	percpu_counter_inc((struct percpu_counter *)g);
}

PERCPU_INLINE void percpu_gauge_dec(struct percpu_gauge *g)
{
	percpu_counter_dec((struct percpu_counter *)g);
}

/**
 * Set the gauge to v. An add that runs meanwhile happens before the set and is replaced, or
 * after it and counts. A set stores to no CPU's cell.
 *
 * Returns 0, or -EINVAL (NULL), or -EROFS (in a region that was opened to read); on 32-bit
 * machines also -ETIMEDOUT: another thread was stopped for a second while it set a gauge.
 */
PERCPU_API PERCPU_NOTHROW int percpu_gauge_set(struct percpu_gauge *g, int64_t v);

/** Read the gauge. NULL reads as 0. The result need not be the level of any instant: adds
 *  that run meanwhile may be in it or not. */
PERCPU_API int64_t percpu_gauge_fetch(const struct percpu_gauge *g);

/* Gauges of doubles: each call is as the one for gauges of integers. */
PERCPU_API PERCPU_MUST_CHECK int percpu_fgauge_create(struct percpu_fgauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_fgauge_create_in(struct percpu_region *r,
							 struct percpu_fgauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_fgauge_open(struct percpu_region *r, unsigned root,
						    struct percpu_fgauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_fgauge_attach(struct percpu_region *r, uint64_t key,
						      struct percpu_fgauge **ret);
PERCPU_API void percpu_fgauge_detach(struct percpu_fgauge *g);
PERCPU_API uint64_t percpu_fgauge_key(const struct percpu_fgauge *g);
PERCPU_API void percpu_fgauge_destroy(struct percpu_fgauge *g);

/** Add n. Returns as percpu_fcounter_add(): 0, -EDOM or -ERANGE. In a region that was opened to
 *  read an add gets SIGSEGV. */
PERCPU_INLINE int percpu_fgauge_add(struct percpu_fgauge *g, double n)
{
	return percpu_fcounter_add((struct percpu_fcounter *)g, n);
}

/** Subtract n, as percpu_fgauge_add() adds. */
PERCPU_INLINE int percpu_fgauge_sub(struct percpu_fgauge *g, double n)
{
	return percpu_fcounter_add((struct percpu_fcounter *)g, -n);
}

/**
 * Set the gauge to v, as percpu_gauge_set() does. Until the next add the gauge reads as exactly
 * that double.
 *
 * Returns 0, or -EINVAL (NULL), -EROFS, -EDOM (NaN, infinity), -ERANGE (2^1000 or more, or
 * -2^1000 or less); on 32-bit machines also -ETIMEDOUT: another thread was stopped for a second
 * while it set a gauge.
 */
PERCPU_API PERCPU_NOTHROW int percpu_fgauge_set(struct percpu_fgauge *g, double v);

/** Read the gauge, as percpu_gauge_fetch() does. Rounding is that of fcounter.h. The result is
 *  finite, except on 32-bit machines: there it is NaN if another thread was stopped for a second
 *  while it set a gauge. */
PERCPU_API double percpu_fgauge_fetch(const struct percpu_fgauge *g);

/* Latest values, which are only ever set, such as a temperature: one value for all CPUs. */
PERCPU_API PERCPU_MUST_CHECK int percpu_latest_create(struct percpu_latest **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_latest_create_in(struct percpu_region *r,
							 struct percpu_latest **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_latest_open(struct percpu_region *r, unsigned root,
						    struct percpu_latest **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_latest_attach(struct percpu_region *r, uint64_t key,
						      struct percpu_latest **ret);
PERCPU_API void percpu_latest_detach(struct percpu_latest *l);
PERCPU_API uint64_t percpu_latest_key(const struct percpu_latest *l);
PERCPU_API void percpu_latest_destroy(struct percpu_latest *l);

/**
 * Set the value, which may be any double, and its time to now, in ns of CLOCK_REALTIME. The
 * times are in the order of the sets, unless the clock is set.
 *
 * Returns 0, or -EINVAL (NULL), -EROFS; on 32-bit machines also -ETIMEDOUT.
 */
PERCPU_API PERCPU_NOTHROW int percpu_latest_set(struct percpu_latest *l, double v);

/**
 * Read the value and the time at which it was set, both of the same set. Either result may be
 * NULL.
 *
 * Returns 0, or -EINVAL (l is NULL, or both results are), -ENODATA (it was never set); on 32-bit
 * machines also -ETIMEDOUT. After an error the results are unchanged.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_latest_fetch(const struct percpu_latest *l, double *ret,
						     uint64_t *ret_ns);

PERCPU_END_DECLS

#endif
