/* SPDX-License-Identifier: MIT */
/*
 * rwlock.h - what the sources of read-mostly locks share among themselves.
 *
 * A lock has participants (participant.h), a state, and the word `writer`, which names the owner
 * that writes. If the word is 0 or names a dead owner, a process may store its own owner there.
 * Then it is the writer, and no other process changes the state. It stores 0 in the word after its
 * last state. So whenever a writer is killed, the state says what it held.
 *
 * STATES: W is the writer.
 *
 *	state             writer  who has the lock
 *	OPEN              0       readers, or no thread
 *	OPEN              W       the same. W lets waiting readers in first; or stores 0 next
 *	CLOSING           W       readers that are still inside. W fences, and waits for them
 *	WRITING           W       W
 *	REPAIRING_WRITER  W       W, and its caller is told: another writer died with the lock
 *	REPAIRING_WRITER  0       no thread. A writer took over, but its wait for readers failed
 *	REPAIRING_READER  W       W, to read, and its caller is told
 *	REPAIRING_READER  0       no thread. A reader that was told has not repaired
 *	LOST              0       no thread, now and later
 *	LOST              W       the same. W stores 0 next
 *
 * A process becomes the writer by become_writer(), which does not change the state.
 * take_turn_to_write() calls it to replace 0. percpu_rwlock_take_over() calls it to replace a dead
 * owner; or 0, if the state is not OPEN. The process that calls a function of the next table is the
 * writer. "Written" is each of WRITING, REPAIRING_WRITER and REPAIRING_READER:
 * percpu_rwlock_is_written().
 *
 *	from              to                writer  function
 *	OPEN              CLOSING           W       close_rwlock(), after let_readers_in()
 *	CLOSING           CLOSING           W       close_rwlock() of the next writer
 *	OPEN              OPEN              0       begin_to_write(): let_readers_in() timed out
 *	CLOSING           WRITING           W       close_rwlock(): has fenced; no reader is inside
 *	CLOSING           OPEN              0       begin_to_write(): the fence or the wait failed
 *	OPEN, CLOSING     OPEN              0       take_over_to_read(): the reader then enters
 *	WRITING           OPEN              0       percpu_rwlock_write_unlock()
 *	written           REPAIRING_WRITER  W       begin_to_write() of the next writer
 *	written           REPAIRING_READER  W       take_over_to_read(), for the reader alone
 *	REPAIRING_WRITER  WRITING           W       percpu_rwlock_consistent()
 *	REPAIRING_WRITER  LOST              0       percpu_rwlock_write_unlock()
 *	REPAIRING_WRITER  REPAIRING_WRITER  0       begin_to_write(): the wait failed
 *	REPAIRING_READER  OPEN              0       percpu_rwlock_consistent(): W goes on reading
 *	REPAIRING_READER  REPAIRING_READER  0       percpu_rwlock_read_unlock_slow()
 *	LOST              LOST              0       begin_to_write(), take_over_to_read()
 *
 * percpu_rwlock_hand_on() makes each transition to 0. A killed writer leaves its row of the first
 * table:
 *
 *	OPEN, CLOSING  the next thread that locks, and may wait, gets the lock as usual
 *	written        it gets -EOWNERDEAD, and has the lock alone
 *	LOST           it gets -ENOTRECOVERABLE
 *
 * In private memory a child of fork finds its parent's writer dead, unless the state is written:
 * percpu_rwlock_is_writer_alive().
 *
 * A killed reader is told to one writer, by the bit INSIDE of `died`, and by `told`:
 *
 *	died  told  function
 *	1     0     drop_slot() of participant_join.c: drops the reader's count after that
 *	1     1     are_readers_dead(): the writer gets -EOWNERDEAD
 *	0     1     are_readers_dead(), too: a writer that is killed now leaves it to the next one
 *	0     0     percpu_rwlock_consistent(), percpu_rwlock_write_unlock()
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
	PERCPU_RWLOCK_REPAIRING_WRITER, /* a writer that was told of a dead writer has the lock */
	PERCPU_RWLOCK_REPAIRING_READER, /* a reader that was told has the lock alone */
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

/** Returned by internal calls if this process has left its owners meanwhile. Then it holds nothing
 *  any more, and must join and try again. */
#define PERCPU_RWLOCK_LEFT 3 /* neither PERCPU_SEQ_SLOW nor PERCPU_SEQ_REFUSED */

static inline bool percpu_rwlock_has_left(const struct percpu_rwlock_handle *h, uint64_t id)
{
	return id == 0 || percpu_participants_self(&h->p) != id;
}

/** The unit of the bits above a private writer's id: they count the forks between the first process
 *  and the writer's. */
#define PERCPU_RWLOCK_FORK (UINT64_C(1) << 32)

/** Return whether this process is the writer. In private memory, also if its parent was the writer
 *  when it forked. */
static inline bool percpu_rwlock_is_writer(const struct percpu_rwlock_handle *h)
{
	const uint64_t writer =
		__atomic_load_n(&percpu_rwlock_control(h)->writer, __ATOMIC_ACQUIRE);

	return writer != 0 &&
	       (h->p.owners == NULL ||
		writer == percpu_participants_adopt((struct percpu_participants *)&h->p));
}

/** Return whether it is time to ask if the writer lives. In private memory it always is: asking
 *  is free there, and a writer that is a thread of the parent wakes no thread of the child. */
static inline bool percpu_rwlock_is_to_ask(const struct percpu_rwlock_handle *h, uint64_t now,
					   uint64_t asked)
{
	return h->p.owners == NULL || now - asked >= PERCPU_PARTICIPANTS_SLICE;
}

/** Return whether a writer has the lock, or died with it, or the thread that was told of its death
 *  has it. */
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

/** Return whether the writer lives. In private memory, also if it had the lock before a fork. */
bool percpu_rwlock_is_writer_alive(const struct percpu_rwlock_handle *h, uint64_t writer);

/** Become the writer in place of a dead one, or if there is no writer and the lock is not open: a
 *  writer could not take over from a dead one, or a reader did not repair, or the lock is lost.
 *  Returns whether this process is the writer now. */
bool percpu_rwlock_take_over(struct percpu_rwlock_handle *h);

/** Set the state, let another process become the writer, and wake all threads that wait for the
 *  lock. This is the writer's last step. */
void percpu_rwlock_hand_on(struct percpu_rwlock_handle *h, enum percpu_rwlock_state state);

/* rwlock_check.c */

/** Print which call of the lock failed, and why. */
void percpu_rwlock_check_explain(const struct percpu_rwlock_handle *h, const char *what);

/** Check an unlock: print an error and abort if this process does not hold the lock, for writing if
 *  to_write is set, or else for reading. */
void percpu_rwlock_check_unlocked(struct percpu_rwlock_handle *h, bool to_write);

#endif
