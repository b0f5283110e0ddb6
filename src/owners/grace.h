/* SPDX-License-Identifier: MIT */
/*
 * grace.h - what the sources of grace periods share among themselves.
 *
 * STATES
 *
 * One word, the state, numbers the periods. It only grows, and its bit 1 is the bank in use: bank()
 * here. It is odd, n, while no period is in progress.
 *
 *	state  FENCED  the period  sections begin in  bank(n) has
 *	n      n - 1   not begun   bank(n)            sections; the other bank has none
 *	n + 1  n - 1   begun       bank(n + 1)        sections. A sequence that began before
 *	                                              may still count there
 *	n + 1  n + 1   fenced      bank(n + 1)        sections. No other begins there
 *	n + 2  n + 1   over        bank(n + 2)        none; bank(n + 2) is bank(n + 1)
 *
 * n + 2 is the next n. A new object has 0 in both words: its first period is fenced, and no section
 * began before.
 *
 *	from       to      function
 *	not begun  begun   help_period(), percpu_grace_start(): state n -> n + 1
 *	begun      fenced  fence_period(): claim_fence(), the fence, then note_fence() stores n + 1
 *	fenced     over    end_period(), if no section is in bank(n): state n + 1 -> n + 2
 *
 * Any thread may take any of these steps, by compare-and-swap. No lock is held. So a thread that is
 * killed or stopped between two steps holds up no other thread, except with a claim to fence, and
 * only for GRACE_PATIENCE, or in a region GRACE_PATIENCE_SHARED:
 *
 *	CLAIM is                  a thread that is to fence
 *	0, or of another period   stores its own, by claim_fence(), and fences
 *	of this period, and old   does the same; the thread that had the claim may fence, too
 *	of this period, not old   does not fence: fence_period() returns -EBUSY
 *
 * A thread that has fenced, or could not, stores 0, whichever thread's claim that is. In private
 * memory a child of fork stores 0 in CLAIM and WAITERS: grace_mend_in_child().
 *
 *	a thread is killed      the next thread
 *	with the claim          goes on if FENCED is n + 1; otherwise waits until the claim is old
 *	after state n + 2       wakes late if it sleeps, after GRACE_SLICE at most
 *	in a section            drops it, in a region: end_period() calls ask_who_lives()
 *	asleep                  makes a system call that wakes no thread: WAITERS stays above 0
 *
 * ONE FLIP IS ENOUGH
 *
 * SRCU flips its banks twice: a reader may read which bank is in use, be delayed, and count itself
 * in that bank after the period has looked there. Here a sequence compares the state and counts in
 * one step. After the fence it has either committed, and is seen, or it finds another state. A
 * thread without sequences counts itself first, and then loads the state. If the state has changed,
 * the thread subtracts what it added, from the same word. So the sum of a bank is never less than
 * the number of sections that are counted in it.
 *
 * The bank to which a period switches is empty: the period before has waited for it.
 */
#ifndef PERCPU_OWNERS_GRACE_H
#define PERCPU_OWNERS_GRACE_H

#include <percpu/grace.h>

#include "participant.h"

/** The object's own words in the control block. */
enum {
	PERCPU_GRACE_FENCED, /* the state of the last period that was fenced; only grows */
	/* The claim to fence: in the lowest bits the period's number, above them the time of the
	 * claim in us. 0: no thread has the claim. */
	PERCPU_GRACE_CLAIM,
	PERCPU_GRACE_ASKED,   /* when a thread last asked whether participants live, in us */
	PERCPU_GRACE_WAITERS, /* threads that may be asleep, or were killed asleep */
};

/** The queue of callbacks, and the state of the thread that runs them (the worker). The lock of
 *  grace_call.c protects all that is not atomic. */
struct percpu_grace_queue {
	struct percpu_grace_callback *head;
	struct percpu_grace_callback **tail; /* NULL: the queue was never used */
	uint64_t called;		     /* callbacks queued, ever */
	uint64_t done;			     /* callbacks that have returned; atomic */
	uint64_t failures;		     /* periods that could not be fenced; atomic */
	int error;			     /* of the last failure; atomic, stored before */
	bool is_started;		     /* the worker was started */
	bool is_to_end;			     /* the worker must end */
	pthread_t id;			     /* of the worker, for pthread_join() */
	pthread_t self;			     /* the same; atomic; 0: the worker has not begun */
	uint32_t work;			     /* a futex: grows when there is work */
	uint32_t finished;		     /* a futex: grows when done or failures do */
};

struct percpu_grace_handle {
	struct percpu_participants part;  /* begins with struct percpu_grace */
	struct percpu_owners_user user;	  /* in a region */
	struct percpu_grace_handle *next; /* of the process; the process lock protects it */
	int64_t open[2];		  /* with PERCPU_GRACE_DEBUG: sections, per bank; atomic */
	struct percpu_grace_queue queue;
};

static inline struct percpu_grace_handle *percpu_grace_handle(struct percpu_grace *g)
{
	return (struct percpu_grace_handle *)g;
}

static inline uint64_t percpu_grace_load(const struct percpu_grace_handle *h)
{
	return __atomic_load_n(&h->part.control->state, __ATOMIC_ACQUIRE);
}

/** Return the bank in which sections are counted. */
static inline unsigned percpu_grace_bank(uint64_t state)
{
	return (unsigned)(state / 2 % 2);
}

static inline bool percpu_grace_is_shared(const struct percpu_grace_handle *h)
{
	return h->part.owners != NULL;
}

/* grace.c */

/** Print what is wrong to standard error, and abort. */
__attribute__((noreturn)) void percpu_grace_complain(const struct percpu_grace_handle *h,
						     const char *what);

/* grace_wait.c */

/** Return the cookie of the next period to begin. */
uint64_t percpu_grace_next(const struct percpu_grace_handle *h);

/** Wait until the period of the cookie is over, for so many ns at most. 0: do not sleep;
 *  UINT64_MAX: wait without limit. Returns as percpu_grace_wait_timed(). */
int percpu_grace_await(struct percpu_grace_handle *h, uint64_t cookie, uint64_t ns);

/* grace_call.c */

/** Return whether the calling thread is the worker. */
bool percpu_grace_is_worker(const struct percpu_grace_handle *h);

/** End the worker. Returns 0, or -EBUSY if there are callbacks, or -EDEADLK if the worker waits for
 *  a fork by the caller. */
int percpu_grace_end_worker(struct percpu_grace_handle *h);

/** Reset the queue in a child of fork, which has no worker. If drop is set, drop the callbacks:
 *  they remain the parent's. */
void percpu_grace_mend_queue(struct percpu_grace_handle *h, bool drop);

#endif
