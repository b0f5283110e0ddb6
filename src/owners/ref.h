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
 * STATES
 *
 *	state    pub.cells  SPREAD  DEAD  number
 *	per CPU  address    1       0     references less the sum of the cells, modulo 2^62
 *	closed   CLOSED     1       0     the same; a thread has the lock, and switches the mode
 *	atomic   CLOSED     0       0     references: 1 or more
 *	ended    CLOSED     0       0     0: no reference is left, and the count was not killed
 *	dying    CLOSED     0       1     references: 1 or more
 *	dead     CLOSED     0       1     0
 *
 * percpu_ref_create() makes a count dead with PERCPU_REF_INIT_DEAD; otherwise atomic with
 * PERCPU_REF_INIT_ATOMIC or PERCPU_REF_DEBUG; otherwise per CPU.
 *
 *	from     to       function                  what it does
 *	per CPU  closed   close_cells()             stores CLOSED; fences: no sequence counts now
 *	closed   per CPU  close_cells()             stores the address again: the fence has failed
 *	closed   atomic   fold_cells()              number += sum of the cells, SPREAD off
 *	closed   dying    fold_cells(), to kill     the same, and DEAD on
 *	closed   ended    fold_cells()              as to atomic, with the number 0: see below
 *	closed   dead     fold_cells(), to kill     as to dying, with the number 0: see below
 *	atomic   dying    fold_cells(), to kill     DEAD on; the number stays
 *	ended    dead     fold_cells(), to kill     DEAD on; the kill is then -ERANGE
 *	atomic   ended    percpu_ref_put_counted()  number 0; calls the release function
 *	dying    dead     percpu_ref_put_counted()  number 0; calls the release function
 *	atomic   closed   make_percpu()             makes the sum of the cells 0; SPREAD on
 *	dying    closed   revive(), to resurrect    makes the sum of the cells 0; number + 1,
 *	                                            DEAD off, SPREAD on
 *	dead     closed   revive(), to reinit       the same
 *	dying    atomic   revive(), to resurrect    number + 1, DEAD off: it is to stay atomic
 *	dead     atomic   revive(), to reinit       the same
 *	closed   per CPU  open_cells()              stores the address
 *
 * Each change of the word is one compare-and-swap. make_percpu() and revive() end with
 * open_cells(). A kill unlocks after fold_cells(), and then puts the initial reference by
 * percpu_ref_put_counted(). fold_cells() finds the number 0 if the initial reference was put, too.
 * If more were put than that, or there are more than PERCPU_REF_MAX, it stores 0, and returns
 * -ERANGE. After a 0 the kill calls no release function, and returns -ERANGE.
 *
 * WHY IT IS EXACT
 *
 * Threads get and put all the time. SPREAD is set until the compare-and-swap of fold_cells(), so no
 * put before it sees 0. After the fence percpu_ref_tryget_live() succeeds only by a
 * compare-and-swap that finds the word without DEAD: so it succeeds before the kill's, or not at
 * all.
 *
 * While the cells are closed, and behind the fence, no sequence commits, so their sum does not
 * change. percpu_counter_zero() makes it 0, and stores to no cell.
 *
 * A thread changes pub.cells, SPREAD and DEAD only with the lock held. A fork takes the lock, too.
 * So a child never finds a count closed.
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
static inline bool percpu_ref_cmpxchg(struct counted_ref *r, uint64_t *w, uint64_t to)
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
