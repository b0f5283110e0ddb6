/* SPDX-License-Identifier: MIT */
/*
 * owned.h - gauges that lose a process's share when the process ends: requests in flight,
 * connections, the task of a worker.
 *
 * Each owner (owner.h) has a value of its own, which any of its threads adds to or sets. A read
 * folds the values into one, by the rule of the gauge, or lists them. It takes the values of the
 * living owners, or of all that ever were. When a process is killed, its share leaves every read of
 * the living at once; every read of all keeps it, once.
 */
#ifndef PERCPU_OWNED_H
#define PERCPU_OWNED_H

#include <percpu/owner.h>

PERCPU_BEGIN_DECLS

/** The head of both kinds of gauges. The fields are the library's. */
struct percpu_owned {
	struct percpu_block block;
	uint64_t *mine; /* this process's value; NULL: take the slow path */
};

/** A gauge of 64-bit integers. */
struct percpu_owned_gauge {
	struct percpu_owned owned;
};

/** A gauge of doubles. */
struct percpu_owned_fgauge {
	struct percpu_owned owned;
};

/** How the values of several owners become one. */
enum percpu_owned_rule {
	PERCPU_OWNED_SUM,
	PERCPU_OWNED_MIN,
	PERCPU_OWNED_MAX,
	PERCPU_OWNED_RECENT, /* the value that was set last, by CLOCK_REALTIME; no adds */
};

/** Flags beside the rule of an owned gauge in a segment (segment.h). They say what readers show of
 *  it. */
#define PERCPU_OWNED_KEEP 0x100U /* what all owners that ever were have; not only the living */
#define PERCPU_OWNED_EACH 0x200U /* a value for each owner: percpu_reader_owned_shown() */

/** Whose values a read takes. */
enum percpu_owned_of {
	PERCPU_OWNED_ALL,    /* those of all owners that ever were */
	PERCPU_OWNED_LIVING, /* those of the living owners */
};

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread; not a signal handler. A child of fork has no share until its own first
 * update. A child that was made without fork()'s handlers (vfork(), _Fork(), clone()) updates its
 * parent's share.
 * Ordering: none (as memory_order_relaxed). A read includes the updates that happened before.
 * Progress: creating takes locks, as for other objects. A process's first update of a gauge joins
 * the owners: it takes locks, too, and waits a second at most. Later updates take none. A read
 * takes the lock of the process for a moment. A read of the living asks the kernel about each owner
 * that has a share.
 */

/**
 * Create a gauge without values in the owners' region.
 *
 * Return 0, or
 *	-EINVAL	a NULL, or no such rule
 *	-EROFS, -ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_gauge_create_in(struct percpu_owners *o,
							      enum percpu_owned_rule rule,
							      struct percpu_owned_gauge **ret);

/**
 * Attach to the gauge at a root, or create it if there is none.
 *
 * Return as percpu_owned_gauge_create_in(), or
 *	-EINVAL	no such root
 *	-ENOENT	no gauge of these owners and of integers there
 *	-EEXIST	something else is at the root, also a gauge of another rule, of other owners or
 *		of doubles
 *	-ENOTSUP  processes of 32 bits have made this gauge of PERCPU_OWNED_RECENT, and this one
 *		has 64 bits, or the other way round
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_gauge_open(struct percpu_owners *o, unsigned root,
							 enum percpu_owned_rule rule,
							 struct percpu_owned_gauge **ret);

/** Attach to the gauge at a key, with the rule that it has. Return as percpu_owned_gauge_open(). */
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_gauge_attach(struct percpu_owners *o, uint64_t key,
							   struct percpu_owned_gauge **ret);

/** Create a gauge of doubles, as percpu_owned_gauge_create_in(). */
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_fgauge_create_in(struct percpu_owners *o,
							       enum percpu_owned_rule rule,
							       struct percpu_owned_fgauge **ret);

/** Attach to the gauge of doubles at a root, or create it, as percpu_owned_gauge_open(). */
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_fgauge_open(struct percpu_owners *o, unsigned root,
							  enum percpu_owned_rule rule,
							  struct percpu_owned_fgauge **ret);

/** Attach to the gauge of doubles at a key, as percpu_owned_gauge_attach(). */
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_fgauge_attach(struct percpu_owners *o, uint64_t key,
							    struct percpu_owned_fgauge **ret);

/** Return the gauge's key in its region. Context: signal handlers, too. */
PERCPU_API uint64_t percpu_owned_gauge_key(const struct percpu_owned_gauge *g);
PERCPU_API uint64_t percpu_owned_fgauge_key(const struct percpu_owned_fgauge *g);

/** Return the gauge's rule, a value of enum percpu_owned_rule, or -EINVAL for NULL. An attached
 *  gauge has the rule of its creator. Context: signal handlers, too. */
PERCPU_API int percpu_owned_gauge_rule(const struct percpu_owned_gauge *g);
PERCPU_API int percpu_owned_fgauge_rule(const struct percpu_owned_fgauge *g);

/** Free the handle; the gauge stays. NULL is fine. */
PERCPU_API void percpu_owned_gauge_detach(struct percpu_owned_gauge *g);
PERCPU_API void percpu_owned_fgauge_detach(struct percpu_owned_fgauge *g);

/** Free the gauge, which no process may be using. If a root has it, set that to 0 before:
 *  percpu_region_set_root(). NULL is fine. Return 0, or -ENOMEM if there is no memory or address
 *  space for blocks that another process has added to the file. Then nothing is freed, and the
 *  handle stays. */
PERCPU_API int percpu_owned_gauge_destroy(struct percpu_owned_gauge *g);
PERCPU_API int percpu_owned_fgauge_destroy(struct percpu_owned_fgauge *g);

PERCPU_API PERCPU_NOTHROW int percpu_owned_gauge_add_slow(struct percpu_owned_gauge *g, int64_t n);

/**
 * Add n, which may be negative, to this process's value; from 0 if it has none. Integers wrap
 * modulo 2^64.
 *
 * Return 0, or -EINVAL for PERCPU_OWNED_RECENT. On a process's first update of the gauge, return
 * also the errors of percpu_owners_join() and percpu_region_alloc(). With an error nothing is
 * added. The first update waits while another thread leaves.
 *
 * Context: any thread. Signal handlers, once this process has updated the gauge.
 * Progress: one atomic addition, once this process has updated the gauge.
 */
PERCPU_INLINE int percpu_owned_gauge_add(struct percpu_owned_gauge *g, int64_t n)
{
	typedef uint64_t word PERCPU_ALIGNED_WORD; /* tells clang that the account is aligned */
	word *mine = __atomic_load_n(&g->owned.mine, __ATOMIC_ACQUIRE);

	if (percpu_unlikely(mine == NULL))
		return percpu_owned_gauge_add_slow(g, n);
	__atomic_fetch_add(mine, (uint64_t)n, __ATOMIC_RELAXED);
	return 0;
}

/**
 * Add n to this process's value in a gauge of doubles; from 0 if it has none. Whole numbers below
 * 2^53 are added exactly. Others are rounded as by any addition.
 *
 * Return as percpu_owned_gauge_add(); or -EDOM if n is infinite or not a number, or -ERANGE if the
 * value would reach 2^1000 in size.
 *
 * Context: any thread. Signal handlers, once this process has updated the gauge.
 * Progress: compare-and-swap, once this process has updated the gauge; repeated if another thread
 * of the process changes the value meanwhile.
 */
PERCPU_API PERCPU_NOTHROW int percpu_owned_fgauge_add(struct percpu_owned_fgauge *g, double n);

/**
 * Set this process's value. The call replaces earlier adds of other threads; later adds count on.
 * With PERCPU_OWNED_RECENT a value with a later time stays. That may be the process's own, if the
 * clock was set back, until the clock has caught up.
 *
 * Return as the calls that add. A gauge of doubles refuses a v that is infinite, not a number or too
 * large, with the errors of its add: -EDOM and -ERANGE for such a v.
 *
 * Context: any thread. Signal handlers, once this process has updated the gauge, except for
 * PERCPU_OWNED_RECENT in processes of 32 bits.
 */
PERCPU_API PERCPU_NOTHROW int percpu_owned_gauge_set(struct percpu_owned_gauge *g, int64_t v);
PERCPU_API PERCPU_NOTHROW int percpu_owned_fgauge_set(struct percpu_owned_fgauge *g, double v);

/**
 * Return this process's own value.
 *
 * Return 0, or
 *	-EINVAL	a NULL
 *	-ENODATA  this process has no value: it has not updated the gauge since it joined, and has
 *		resumed none
 *	-ETIMEDOUT  PERCPU_OWNED_RECENT on 32 bits: a stopped process holds the journal
 *	-ENOMEM	no memory or address space for a block that another process has added to the file
 *
 * Context: any thread. Signal handlers, once this process has updated the gauge, except for
 * PERCPU_OWNED_RECENT in processes of 32 bits.
 * Progress: wait-free, once this process has updated the gauge by this handle, except for
 * PERCPU_OWNED_RECENT in processes of 32 bits. Otherwise the first call may take the lock of the
 * process for a moment.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_gauge_own(const struct percpu_owned_gauge *g,
							int64_t *ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_fgauge_own(const struct percpu_owned_fgauge *g,
							 double *ret);

/**
 * Fold the values into one by the gauge's rule. The result need not be that of any instant: each
 * value is loaded once. If a process has damaged the file, a double may be infinite or not a number.
 *
 * Return 0, or
 *	-EINVAL	a NULL, or whose is no value of enum percpu_owned_of
 *	-ENODATA  there is no value; not with PERCPU_OWNED_SUM, whose sum of none is 0
 *	-ETIMEDOUT  PERCPU_OWNED_RECENT on 32 bits: a stopped process holds the journal
 *	-ENOMEM	no memory or address space for blocks that another process has added to the file
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_gauge_fetch(const struct percpu_owned_gauge *g,
							  enum percpu_owned_of whose, int64_t *ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_owned_fgauge_fetch(const struct percpu_owned_fgauge *g,
							   enum percpu_owned_of whose, double *ret);

/** One owner's value in the list of percpu_owned_gauge_each() and percpu_owned_fgauge_each(). */
struct percpu_owned_value {
	uint64_t id;	/* its owner; if its values were resumed, the last that resumed them */
	uint64_t when;	/* PERCPU_OWNED_RECENT: CLOCK_REALTIME when it was set, in ns; or 0 */
	int64_t value;	/* of a gauge of integers; or 0 */
	double fvalue;	/* of a gauge of doubles; or 0 */
	uint32_t pid;	/* in its own PID namespace; 0: another process has its slot by now */
	uint32_t alive; /* 1 or 0 */
	char name[PERCPU_OWNER_NAME_SIZE]; /* its owner's (owner.h), UTF-8; "": none, or pid is 0 */
};

/**
 * List the values, one for each owner that has updated the gauge. With PERCPU_OWNED_ALL a dead
 * owner's value is listed until another owner of the same slot updates the gauge. The first n are
 * stored in out, and their total number in *ret_n.
 *
 * Return 0, or, with out and *ret_n unchanged, -EINVAL, -ETIMEDOUT or -ENOMEM as the calls that
 * fetch. Return -ENOMEM also if there is no memory for a copy of more than 4096 bytes.
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
