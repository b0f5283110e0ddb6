/* SPDX-License-Identifier: MIT */
/*
 * rwlock.h - what the sources of read-mostly locks share among themselves.
 */
#ifndef PERCPU_OWNERS_RWLOCK_H
#define PERCPU_OWNERS_RWLOCK_H

#include <percpu/rwlock.h>

#include "participant.h"

/** States of a lock. Readers enter and leave by a sequence while it is open. */
enum percpu_rwlock_state {
	PERCPU_RWLOCK_OPEN,
	PERCPU_RWLOCK_CLOSING, /* a writer waits for readers, and does not have the lock yet */
	PERCPU_RWLOCK_WRITING,
	PERCPU_RWLOCK_REPAIRING_WRITER, /* a writer that was told of a dead one has it */
	PERCPU_RWLOCK_REPAIRING_READER, /* a reader that was told has it, alone */
	PERCPU_RWLOCK_LOST,		/* not recoverable */
};

/** Banks of participants. */
enum {
	PERCPU_RWLOCK_INSIDE,
	PERCPU_RWLOCK_WAITING, /* readers that were refused; in atomic lanes */
};

struct percpu_rwlock_handle {
	struct percpu_participants p; /* checked: PERCPU_RWLOCK_DEBUG */
};

static inline struct percpu_rwlock_handle *percpu_rwlock_handle(const struct percpu_rwlock *l)
{
	return (struct percpu_rwlock_handle *)l;
}

static inline struct percpu_rwlock_control *
percpu_rwlock_control(const struct percpu_rwlock_handle *h)
{
	return (struct percpu_rwlock_control *)h->p.control->word;
}

static inline uint64_t percpu_rwlock_load_state(const struct percpu_rwlock_handle *h)
{
	return __atomic_load_n(&h->p.control->state, __ATOMIC_ACQUIRE);
}

/** What internal calls return if this process has left its owners meanwhile, so that it has
 *  nothing any more, and is to begin anew. */
#define PERCPU_RWLOCK_LEFT 3 /* neither PERCPU_SEQ_SLOW nor PERCPU_SEQ_REFUSED */

static inline bool percpu_rwlock_has_left(const struct percpu_rwlock_handle *h, uint64_t id)
{
	return id == 0 || percpu_participants_self(&h->p) != id;
}

/** Above the id of a private writer there is how many forks its process is away from the first
 *  one. */
#define PERCPU_RWLOCK_FORK (UINT64_C(1) << 32)

/** Whether this process is the writer; also what it was when it forked, in private memory. */
static inline bool percpu_rwlock_is_writer(const struct percpu_rwlock_handle *h)
{
	const uint64_t writer =
		__atomic_load_n(&percpu_rwlock_control(h)->writer, __ATOMIC_ACQUIRE);

	return writer != 0 &&
	       (h->p.owners == NULL ||
		writer == percpu_participants_adopt((struct percpu_participants *)&h->p));
}

/** Whether it is time to ask if the writer lives: in private memory that takes no time, and
 *  nobody wakes who waits for one that is in the parent. */
static inline bool percpu_rwlock_is_to_ask(const struct percpu_rwlock_handle *h, uint64_t now,
					   uint64_t asked)
{
	return h->p.owners == NULL || now - asked >= PERCPU_PARTICIPANTS_SLICE;
}

/** Whether a writer has the lock, or had it when it died, or who was told of that has it. */
static inline bool percpu_rwlock_is_written(uint64_t state)
{
	return state == PERCPU_RWLOCK_WRITING || state == PERCPU_RWLOCK_REPAIRING_WRITER ||
	       state == PERCPU_RWLOCK_REPAIRING_READER;
}

static inline uint64_t percpu_rwlock_deadline(uint64_t ns)
{
	const uint64_t now = percpu_now_ns();

	return ns < PERCPU_PARTICIPANTS_FOREVER - now ? now + ns : PERCPU_PARTICIPANTS_FOREVER;
}

/* rwlock_write.c */

/** Whether the writer lives, or, in private memory, has the lock from before a fork. */
bool percpu_rwlock_is_writer_alive(const struct percpu_rwlock_handle *h, uint64_t writer);

/** Take the place of a writer that has died, or has given up what it could not take over. Returns
 *  whether this process is the writer now. */
bool percpu_rwlock_succeed(struct percpu_rwlock_handle *h);

/** Set the state, which the writer does last; let another one write, and wake all who wait for
 *  either. */
void percpu_rwlock_hand_on(struct percpu_rwlock_handle *h, enum percpu_rwlock_state state);

/* rwlock_check.c */

/** Print which call of the lock failed, and why. */
void percpu_rwlock_check_explain(const struct percpu_rwlock_handle *h, const char *what);

/** This process is about to unlock. Prints an error and aborts if it does not hold the lock so. */
void percpu_rwlock_check_unlocked(struct percpu_rwlock_handle *h, bool to_write);

#endif
