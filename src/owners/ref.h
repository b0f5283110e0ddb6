/* SPDX-License-Identifier: MIT */
/*
 * ref.h - what the sources of reference counts share.
 *
 * A count is three things: cells of the CPUs; "pub.cells", which has their address, or is closed,
 * and which each sequence looks at; and "count", one atomic word.
 *
 *	bits 0 to 61	references, modulo 2^62
 *	SPREAD		those in the cells count, too. So the number alone says nothing, and
 *			nobody takes it for 0
 *	DEAD		killed
 *
 * Whoever cannot run sequences, or is refused because it is closed, changes the word by
 * compare-and-swap. The number wraps while SPREAD is set: gets may all go to the cells and puts
 * to the word. Without SPREAD it is at most PERCPU_REF_MAX, and a put that would take it below
 * 0 is refused.
 *
 * TO ATOMIC, under the lock:
 *
 *	close				sequences refuse
 *	fence				those that did not see it have committed
 *	count += sum of the cells; SPREAD off; DEAD on, if it is killed; all in one
 *	confirm; put the initial reference
 *
 * Threads get and put all the time. Before the fold, SPREAD is set, so no put sees 0. A
 * tryget_live() that began before succeeds only by a compare-and-swap that finds the word
 * without DEAD: so it succeeds before the fold or not at all.
 *
 * TO PER CPU, under the lock: no sequence commits, so the sum of the cells does not change. It
 * is made 0 (percpu_counter_zero() stores to no cell), SPREAD is set, and then the address is
 * back.
 *
 * Only who holds the lock changes pub.cells, SPREAD and DEAD. A fork takes it, so a child finds
 * each count before such a switch or after it.
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

	char apart[128]; /* gets and puts read the above; stores go to other cache lines */

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

/** Whether sequences refuse. */
static inline bool percpu_ref_is_closed(const struct percpu_ref *ref)
{
	return __atomic_load_n(&ref->cells, __ATOMIC_RELAXED) == PERCPU_SEQ_CLOSED;
}

static inline uint64_t percpu_ref_word(const struct counted_ref *r)
{
	return __atomic_load_n(&r->count, __ATOMIC_ACQUIRE);
}

/** Returns whether the word was still *w; otherwise *w is what it is now. */
static inline bool percpu_ref_swap(struct counted_ref *r, uint64_t *w, uint64_t to)
{
	return __atomic_compare_exchange_n(&r->count, w, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* ref.c */

/** With PERCPU_REF_DEBUG say what is wrong. */
void percpu_ref_mention(const struct counted_ref *r, const char *what);

/** Return e; with PERCPU_REF_DEBUG say what is wrong and abort. */
int percpu_ref_complain(const struct counted_ref *r, int e, const char *what);

/** Put n without a sequence. Calls the release function if that takes the count to 0. Returns 0
 *  or -ERANGE. */
int percpu_ref_put_counted(struct counted_ref *r, uint64_t n);

#endif
