/* SPDX-License-Identifier: MIT */
/*
 * grace.h - what the sources of grace periods share among themselves.
 *
 * THE STATE
 *
 * Periods are numbered by one word, which only grows. It is odd while no period is in progress.
 * Bit 1 is the bank that sections are counted in. So each period
 *
 *	begins	state: n -> n + 1	sections that begin are counted in the other bank
 *	fences	fenced = n + 1		none is counted in the bank of before any more
 *	waits				until that bank has no sections
 *	ends	state: n + 1 -> n + 2
 *
 * Any thread takes any of these steps, by compare-and-swap, so nothing is locked, and a thread
 * that is killed or stopped between two of them holds up nobody.
 *
 * ONE FLIP IS ENOUGH
 *
 * SRCU flips its banks twice, because a reader may have read which bank is in use, be delayed,
 * and count itself in that bank much later, after the period has looked there. Here a sequence
 * compares the state and counts in one: after the fence it has committed, and is seen, or it
 * finds another state. A thread without sequences counts itself first, and then looks at the
 * state. If that has changed it takes back what it added, from the same word, so that the sum of
 * a bank is never less than the sections that are counted in it.
 *
 * A period that begins when the other one ends finds the bank that it switches to empty: the one
 * before has waited for it.
 */
#ifndef PERCPU_OWNERS_GRACE_H
#define PERCPU_OWNERS_GRACE_H

#include <percpu/grace.h>

#include "participant.h"

/** What is the object's own in the control block. */
enum {
	PERCPU_GRACE_FENCED, /* the last period that was; only grows */
	PERCPU_GRACE_CLAIM, /* who fences: since when, in us, and in the lowest bits which period; 0:
				nobody */
	PERCPU_GRACE_ASKED,   /* when it was asked last whether participants live, in us */
	PERCPU_GRACE_WAITERS, /* threads that may be asleep, or were killed there */
};

/** What the thread that runs callbacks, and others, have to do with each other. The lock of
 *  grace_call.c protects it, but for what is atomic. */
struct percpu_grace_queue {
	struct percpu_grace_callback *head;
	struct percpu_grace_callback **tail; /* NULL: the queue was never used */
	uint64_t called;		     /* callbacks, ever */
	uint64_t done;			     /* that have returned; atomic */
	uint64_t failures;		     /* periods that could not be fenced; atomic */
	int error;			     /* of the last of these; atomic, stored before */
	bool is_started;		     /* the thread */
	bool is_to_end;
	pthread_t id;	   /* of the thread, for pthread_join() */
	pthread_t self;	   /* the same, atomic; 0: the thread has not begun */
	uint32_t work;	   /* a futex: grows when there is something to do */
	uint32_t finished; /* a futex: grows when done or failures do */
};

struct percpu_grace_handle {
	struct percpu_participants part;  /* begins with struct percpu_grace */
	struct percpu_owners_user user;	  /* in a region */
	struct percpu_grace_handle *next; /* of the process; the process lock protects it */
	int64_t open[2];		  /* with PERCPU_GRACE_DEBUG: sections; atomic */
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

/** The bank that sections are counted in. */
static inline unsigned percpu_grace_bank(uint64_t state)
{
	return (unsigned)(state / 2 % 2);
}

static inline bool percpu_grace_is_shared(const struct percpu_grace_handle *h)
{
	return h->part.owners != NULL;
}

/* grace.c */

/** Print to standard error what is wrong, and abort. */
__attribute__((noreturn)) void percpu_grace_complain(const struct percpu_grace_handle *h,
						     const char *what);

/* grace_wait.c */

/** Return the cookie of the next period that begins. */
uint64_t percpu_grace_next(const struct percpu_grace_handle *h);

/** Wait until the period of the cookie is over. ns 0: do not sleep; UINT64_MAX: for ever. Returns
 *  as percpu_grace_wait_timed(). */
int percpu_grace_await(struct percpu_grace_handle *h, uint64_t cookie, uint64_t ns);

/* grace_call.c */

/** Whether the calling thread is the one that runs callbacks. */
bool percpu_grace_is_worker(const struct percpu_grace_handle *h);

/** End the thread. Returns 0, or -EBUSY if there are callbacks, or -EDEADLK if the thread waits for
 *  a fork by the caller. */
int percpu_grace_end_worker(struct percpu_grace_handle *h);

/** In a child of fork: no thread is there; drop says whether the callbacks are not the child's. */
void percpu_grace_mend_queue(struct percpu_grace_handle *h, bool drop);

#endif
