/* SPDX-License-Identifier: MIT */
/*
 * ref.h - what the sources of reference counts share.
 *
 * A count has three parts: a cell per CPU; "pub.cells", which each sequence checks, and which holds
 * the address of the cells or says that they are closed; and "count", one atomic word:
 *
 *	bits 0 to 61	the number: references, modulo 2^62
 *	SPREAD		references in the cells count, too. So the number alone says nothing, and
 *			no thread takes it for 0
 *	DEAD		killed
 *
 * A thread that cannot run sequences, or finds the cells closed, changes the word by
 * compare-and-swap. The number wraps while SPREAD is set: all gets may go to the cells, and all
 * puts to the word. Without SPREAD the number is at most PERCPU_REF_MAX, and a put that would take
 * it below 0 is refused.
 *
 * TO ATOMIC, under the lock:
 *
 *	close				sequences are refused from now on
 *	fence				sequences that did not see the close have committed
 *	count += sum of the cells; SPREAD off; DEAD on for a kill: one compare-and-swap
 *
 * A kill then unlocks, confirms, and puts the initial reference.
 *
 * Threads get and put all the time. SPREAD is set until the compare-and-swap, so no put before it
 * sees 0. A tryget_live() that began before it succeeds only by a compare-and-swap that finds the
 * word without DEAD: so it succeeds before the kill's, or not at all.
 *
 * TO PER CPU, under the lock: no sequence commits, so the sum of the cells does not change. The sum
 * is made 0 (percpu_counter_zero() stores to no cell), SPREAD is set, and then the address is
 * stored again.
 *
 * A thread changes pub.cells, SPREAD and DEAD only with the lock held. A fork takes the lock, too.
 * So a child never finds a count in the middle of a switch.
 */
#ifndef PERCPU_OWNERS_REF_H
#define PERCPU_OWNERS_REF_H

#include <percpu/ref.h>

#include "owners.h"

#define REF_SPREAD (UINT64_C(1) << 63)
#define REF_DEAD (UINT64_C(1) << 62)
#define REF_NUMBER (REF_DEAD - 1)

struct counted_ref {
	struct percpu_ref pub;

	char apart[128]; /* gets and puts read pub; stores must go to other cache lines */

	uint64_t count PERCPU_ALIGNED_WORD; /* atomic */
	struct percpu_counter *cells;
	percpu_ref_fn *release;
	void *arg;
	bool debug;
	bool stays_atomic; /* the lock protects it */
};

static inline struct counted_ref *counted_of(const struct percpu_ref *ref)
{
	return (struct counted_ref *)ref;
}

/** Return whether sequences are refused. */
static inline bool percpu_ref_is_closed(const struct percpu_ref *ref)
{
	return __atomic_load_n(&ref->cells, __ATOMIC_RELAXED) == PERCPU_SEQ_CLOSED;
}

static inline uint64_t percpu_ref_word(const struct counted_ref *r)
{
	return __atomic_load_n(&r->count, __ATOMIC_ACQUIRE);
}

/** Set the word to `to` if it is still *w; otherwise store its value in *w. Returns whether it was
 *  set. */
static inline bool percpu_ref_swap(struct counted_ref *r, uint64_t *w, uint64_t to)
{
	return __atomic_compare_exchange_n(&r->count, w, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* ref.c */

/** With PERCPU_REF_DEBUG print what is wrong. */
void percpu_ref_mention(const struct counted_ref *r, const char *what);

/** Return e; with PERCPU_REF_DEBUG print what is wrong, and abort. */
int percpu_ref_complain(const struct counted_ref *r, int e, const char *what);

/** Put n without a sequence. If that takes the count to 0, call the release function. Returns 0 or
 *  -ERANGE. */
int percpu_ref_put_counted(struct counted_ref *r, uint64_t n);

#endif
