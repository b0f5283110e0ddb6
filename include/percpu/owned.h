/* SPDX-License-Identifier: MIT */
/*
 * owned.h - gauges whose share goes when its process does: requests in flight, connections,
 * what a worker is at.
 *
 * Each owner (owner.h) has a value of its own, which any of its threads adds to or sets. A read
 * folds the values into one, by the rule of the gauge, or lists them: of those owners that
 * live, or of all that ever were. When a process is killed, its share is gone from the first at
 * once, for every reader, and stays in the second, once.
 */
#ifndef PERCPU_OWNED_H
#define PERCPU_OWNED_H

#include <percpu/owner.h>

PERCPU_BEGIN_DECLS

/** The fields are the library's. */
struct percpu_owned {
	struct percpu_block block;
	uint64_t *mine; /* this process's value; NULL: the slow path knows */
};

/** A gauge of 64-bit integers; one of doubles. */
struct percpu_owned_gauge {
	struct percpu_owned owned;
};
struct percpu_owned_fgauge {
	struct percpu_owned owned;
};

/** How the values of several owners become one. */
enum percpu_owned_rule {
	PERCPU_OWNED_SUM,
	PERCPU_OWNED_MIN,
	PERCPU_OWNED_MAX,
	PERCPU_OWNED_RECENT, /* the one that was set last, by CLOCK_REALTIME; it is only set */
};

/** Whose values a read takes. */
enum percpu_owned_of {
	PERCPU_OWNED_ALL,    /* of all owners that ever were */
	PERCPU_OWNED_LIVING, /* of those that live */
};

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread; not a signal handler. A child of fork has no share until its own first
 * update; one that was made without fork()'s handlers (vfork(), _Fork(), clone()) updates its
 * parent's.
 * Ordering: none (as memory_order_relaxed). A read includes the updates that happened before.
 * Progress: creating takes locks, as other objects do, and so does a process's first update of
 * a gauge, which joins the owners: it waits a second at most. The later ones take none. A read
 * takes the lock of the process for a moment; of the living it asks the kernel about each
 * owner that has a share.
 */

/**
 * Create a gauge without values in the owners' region; attach to the one at a root, or create
 * it if nobody has; attach to the one at a key, which has its rule.
 *
 * Return 0, or
 *	-EINVAL	a NULL, no such rule or root
 *	-ENOENT	no gauge of these owners and of such numbers there
 *	-EEXIST	something else is at the root: also one of another rule, of other owners or
 *		numbers
 *	-ENOTSUP  a gauge of PERCPU_OWNED_RECENT that processes of 32 bits have made, in one of
 *		64 bits, or the other way round
 *	-EROFS, -ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_gauge_create_in(struct percpu_owners *o,
							      enum percpu_owned_rule rule,
							      struct percpu_owned_gauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_gauge_open(struct percpu_owners *o, unsigned root,
							 enum percpu_owned_rule rule,
							 struct percpu_owned_gauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_gauge_attach(struct percpu_owners *o, uint64_t key,
							   struct percpu_owned_gauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_fgauge_create_in(struct percpu_owners *o,
							       enum percpu_owned_rule rule,
							       struct percpu_owned_fgauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_fgauge_open(struct percpu_owners *o, unsigned root,
							  enum percpu_owned_rule rule,
							  struct percpu_owned_fgauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_fgauge_attach(struct percpu_owners *o, uint64_t key,
							    struct percpu_owned_fgauge **ret);

/** The gauge's key in its region. Context: signal handlers, too. */
PERCPU_API uint64_t percpu_owned_gauge_key(const struct percpu_owned_gauge *g);
PERCPU_API uint64_t percpu_owned_fgauge_key(const struct percpu_owned_fgauge *g);

/** The gauge's rule, one of enum percpu_owned_rule: of one that was attached to, that of its
 *  creator. NULL is -EINVAL. Context: signal handlers, too. */
PERCPU_API int percpu_owned_gauge_rule(const struct percpu_owned_gauge *g);
PERCPU_API int percpu_owned_fgauge_rule(const struct percpu_owned_fgauge *g);

/** Give back what this process has of the gauge, and leave the gauge. NULL is fine. */
PERCPU_API void percpu_owned_gauge_detach(struct percpu_owned_gauge *g);
PERCPU_API void percpu_owned_fgauge_detach(struct percpu_owned_fgauge *g);

/** Free the gauge, which nobody may be using. NULL is fine. If a root has it, set that to 0
 *  before: percpu_region_set_root(). Returns 0, or -ENOMEM: there is no memory or address space for
 *  what another process has added to the file. Then nothing is freed, and the handle stays. */
PERCPU_API int percpu_owned_gauge_destroy(struct percpu_owned_gauge *g);
PERCPU_API int percpu_owned_fgauge_destroy(struct percpu_owned_fgauge *g);

PERCPU_API int percpu_owned_gauge_add_slow(struct percpu_owned_gauge *g, int64_t n);

/**
 * Add n, which may be negative, to this process's value; from 0 if it has none. Integers wrap
 * modulo 2^64.
 *
 * Returns 0, or, on a process's first update of the gauge, as percpu_owners_join() and
 * percpu_region_alloc(); -EINVAL for PERCPU_OWNED_RECENT. Nothing is added then. While another
 * thread leaves, that update waits for it.
 *
 * Context: any thread. Signal handlers, once this process has updated the gauge.
 * Progress: then one atomic addition.
 */
PERCPU_INLINE int percpu_owned_gauge_add(struct percpu_owned_gauge *g, int64_t n)
{
	typedef uint64_t word PERCPU_ALIGNED_WORD; /* the account is, and clang is to know */
	word *mine = __atomic_load_n(&g->owned.mine, __ATOMIC_ACQUIRE);

	if (percpu_unlikely(mine == NULL))
		return percpu_owned_gauge_add_slow(g, n);
	__atomic_fetch_add(mine, (uint64_t)n, __ATOMIC_RELAXED);
	return 0;
}

/**
 * The same for doubles. Whole numbers below 2^53 are added exactly, others are rounded as by
 * any addition.
 *
 * Returns as percpu_owned_gauge_add(), and -EDOM if n is infinite or not a number, -ERANGE if
 * the value would reach 2^1000 in size.
 *
 * Context: any thread. Signal handlers, once this process has updated the gauge.
 * Progress: then compare-and-swap, again if another thread of the process came between.
 */
PERCPU_API int percpu_owned_fgauge_add(struct percpu_owned_fgauge *g, double n);

/**
 * Set this process's value. Adds of other threads fall before it and are replaced, or after it
 * and count on. With PERCPU_OWNED_RECENT a value that has a later time stays: also the process's
 * own, if the clock was set back since, until it has caught up.
 *
 * Return as the calls that add; -EDOM and -ERANGE for such a v.
 *
 * Context: any thread. Signal handlers, once this process has updated the gauge, but for
 * PERCPU_OWNED_RECENT in processes of 32 bits.
 */
PERCPU_API int percpu_owned_gauge_set(struct percpu_owned_gauge *g, int64_t v);
PERCPU_API int percpu_owned_fgauge_set(struct percpu_owned_fgauge *g, double v);

/**
 * Fold the values into one by the gauge's rule. The result need not be that of any instant: each
 * value is loaded once.
 *
 * Return 0, or -EINVAL (a NULL, no value of enum percpu_owned_of), or -ENODATA (by another rule
 * than PERCPU_OWNED_SUM, whose sum of nothing is 0: there is no value), or -ETIMEDOUT (with
 * PERCPU_OWNED_RECENT on 32 bits: a stopped process holds the journal), or -ENOMEM (no memory or
 * address space for what another process has added to the file).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_gauge_fetch(const struct percpu_owned_gauge *g,
							  enum percpu_owned_of whose, int64_t *ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_fgauge_fetch(const struct percpu_owned_fgauge *g,
							   enum percpu_owned_of whose, double *ret);

/** One owner's value. */
struct percpu_owned_value {
	uint64_t id;	/* its owner */
	uint64_t when;	/* PERCPU_OWNED_RECENT: CLOCK_REALTIME when it was set, in ns; or 0 */
	int64_t value;	/* the one for integers, */
	double fvalue;	/* the other one for doubles; or 0 */
	uint32_t pid;	/* in its own PID namespace; 0: its slot is another's by now */
	uint32_t alive; /* 1 or 0 */
};

/**
 * List the values, one for each owner that has updated the gauge: of those that live; or also
 * of the dead until another owner of the same slot updates the gauge. The first n are stored
 * in out; *ret_n becomes how many there are.
 *
 * Return 0, or, with both untouched, -EINVAL, -ETIMEDOUT or -ENOMEM as above; -ENOMEM also if
 * there is no memory for a copy of more than 4096 bytes.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_gauge_each(const struct percpu_owned_gauge *g,
							 enum percpu_owned_of whose,
							 struct percpu_owned_value *out, size_t n,
							 size_t *ret_n);
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_fgauge_each(const struct percpu_owned_fgauge *g,
							  enum percpu_owned_of whose,
							  struct percpu_owned_value *out, size_t n,
							  size_t *ret_n);

PERCPU_END_DECLS

#endif
