/* SPDX-License-Identifier: MIT */
/*
 * gauge.h - levels that go up and down, at the cost of a counter, and that can be set: of
 * integers, of doubles, and values that are only ever set.
 *
 * An add or a subtraction goes to a cell of the CPU it runs on, as with counters (counter.h,
 * fcounter.h). To set a gauge is to remember what the sum was then: adds that happened
 * before are replaced, those that happen after count on, and none is lost or counted twice.
 */
#ifndef PERCPU_GAUGE_H
#define PERCPU_GAUGE_H

#include <percpu/counter.h>
#include <percpu/fcounter.h>

PERCPU_BEGIN_DECLS

/** A gauge of integers; one of doubles; and a value with the time it was set. Each is an
 *  address in lane 0, not to be dereferenced. */
struct percpu_gauge;
struct percpu_fgauge;
struct percpu_latest;

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach or destroy: any thread, constructors
 * included; not a signal handler. The others: any thread of any process that has the gauge
 * mapped; signal handlers; children of fork and vfork. On 32-bit machines to set a gauge, and
 * to read one of doubles or a latest value, takes a lock, and is not for signal handlers.
 * Ordering: none for adds (as memory_order_relaxed). A thread that reads what another thread has
 * set sees what that thread did before.
 * Progress: creating and destroying takes locks of the process and, in a shared region,
 * one between processes, for which a call waits a second at most. Adds are those of
 * counters. A read loads each lane once; to set begins anew if another thread sets the same
 * gauge meanwhile, and completes what a thread that was stopped or killed has begun to set.
 *
 * The calls that create, open and attach return 0 or an error as those of counters: -EINVAL,
 * -ENOMEM, -E2BIG; in a region, which must have the default lane size, -EROFS, -ENOSPC,
 * -ETIMEDOUT, -ENOENT and -EEXIST. A key leads to a gauge of integers, one of doubles, or a
 * latest value, and each refuses the others': -ENOENT, at a root -EEXIST. On 32-bit machines
 * they cannot be in a shared region: -ENOTSUP.
 */

/** Create a gauge of 0 in memory of this process or in a region; find it, or create it at a
 *  root; find it by its key. percpu_gauge_detach() undoes the last two and leaves the gauge. */
PERCPU_API PERCPU_MUST_CHECK int percpu_gauge_create(struct percpu_gauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_gauge_create_in(struct percpu_region *r,
							struct percpu_gauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_gauge_open(struct percpu_region *r, unsigned root,
						   struct percpu_gauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_gauge_attach(struct percpu_region *r, uint64_t key,
						     struct percpu_gauge **ret);
PERCPU_API void percpu_gauge_detach(struct percpu_gauge *g);

/** The gauge's key in the region it was created in; 0 for a private gauge. */
PERCPU_API uint64_t percpu_gauge_key(const struct percpu_gauge *g);

/** Free the gauge, which no thread may be using. NULL is fine. In a region that was opened to
 *  read, it stays. If a root has it, set that to 0 before: percpu_region_set_root(). */
PERCPU_API void percpu_gauge_destroy(struct percpu_gauge *g);

/** Add, subtract; as percpu_counter_add(). Values wrap modulo 2^64. In a region that was opened
 *  to read this is SIGSEGV: an inline add checks nothing. So are adds to gauges of doubles. */
PERCPU_INLINE void percpu_gauge_add(struct percpu_gauge *g, int64_t n)
{
	percpu_counter_add((struct percpu_counter *)g, n);
}

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
 * Set the gauge. An add that runs meanwhile falls before or after it, and is replaced or
 * counts on. It stores to no CPU's cell.
 *
 * Returns 0, or -EINVAL (NULL), or -EROFS (in a region that was opened to read); or, on 32-bit
 * machines, -ETIMEDOUT: another thread was stopped while it set a gauge, for a second.
 */
PERCPU_API int percpu_gauge_set(struct percpu_gauge *g, int64_t v);

/** Read the gauge. NULL reads as 0. The result need not be the level of any instant: adds
 *  that run meanwhile may be in it or not. */
PERCPU_API int64_t percpu_gauge_fetch(const struct percpu_gauge *g);

/* The same of doubles. */
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

/** Add, subtract; as percpu_fcounter_add(): 0, -EDOM or -ERANGE. */
PERCPU_INLINE int percpu_fgauge_add(struct percpu_fgauge *g, double n)
{
	return percpu_fcounter_add((struct percpu_fcounter *)g, n);
}

PERCPU_INLINE int percpu_fgauge_sub(struct percpu_fgauge *g, double n)
{
	return percpu_fcounter_add((struct percpu_fcounter *)g, -n);
}

/**
 * As percpu_gauge_set(). Until something is added the gauge reads as exactly that double.
 *
 * Returns 0, or -EINVAL (NULL), -EROFS, -EDOM (NaN, infinity), -ERANGE (2^1000 or more, or
 * -2^1000 or less); or, on 32-bit machines, -ETIMEDOUT: another thread was stopped while it
 * set a gauge, for a second.
 */
PERCPU_API int percpu_fgauge_set(struct percpu_fgauge *g, double v);

/** As percpu_gauge_fetch(). Rounding is that of fcounter.h. The result is a number; only on
 *  32-bit machines it is NaN if another thread was stopped while it set a gauge, for a second. */
PERCPU_API double percpu_fgauge_fetch(const struct percpu_fgauge *g);

/* Values that are only ever set, such as a temperature: one for all CPUs. */
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
 * Set the value, which may be any double, with the time of now: ns of CLOCK_REALTIME. Of
 * two threads that set it the one that is later in doing so has the later time, if nobody
 * sets the clock.
 *
 * Returns 0, or -EINVAL (NULL), -EROFS; or, on 32-bit machines, -ETIMEDOUT.
 */
PERCPU_API int percpu_latest_set(struct percpu_latest *l, double v);

/**
 * Read the value and the time at which it was set, which belong together. Either result may
 * be NULL.
 *
 * Returns 0, or -EINVAL (l is NULL, or both results are), -ENODATA (it was never set); or, on
 * 32-bit machines, -ETIMEDOUT. The outputs are left alone then.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_latest_fetch(const struct percpu_latest *l, double *ret,
						     uint64_t *ret_ns);

PERCPU_END_DECLS

#endif
