/* SPDX-License-Identifier: MIT */
/*
 * rwlock_write.c - the writers of read-mostly locks, and how a lock is taken over from a dead
 * writer. rwlock.h has the states.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rwlock.h"

#define READERS_NS (PERCPU_SECOND / 10) /* that a writer waits for refused readers to enter */
#define RWLOCK_THREAD_BITS 22		/* of the kernel's id of a thread */
#define RWLOCK_OWNER_BITS 26		/* of the owner's id; the thread's number is above */

static uint64_t load_writer(const struct percpu_rwlock_handle *h)
{
	return __atomic_load_n(&percpu_rwlock_control(h)->writer, __ATOMIC_ACQUIRE);
}

static void set_rwlock_state(struct percpu_rwlock_handle *h, enum percpu_rwlock_state state)
{
	__atomic_store_n(&h->p.control->state, state, __ATOMIC_SEQ_CST);
}

/* The number of forks between the first process and this one, in units of PERCPU_RWLOCK_FORK. */
static uint64_t rwlock_forks;

static void rwlocks_mend_in_child(void)
{
	rwlock_forks += PERCPU_RWLOCK_FORK;
}

__attribute__((constructor)) static void rwlocks_join_forks(void)
{
	static const struct percpu_fork_part part = { .in_child = rwlocks_mend_in_child };

	percpu_fork_register(PERCPU_FORK_RWLOCKS, &part);
}

static uint64_t private_writer(void)
{
	return PERCPU_PARTICIPANT_PRIVATE | rwlock_forks;
}

/* Store in ret the value of the lock's word `thread` for this thread. The lowest bits are the
 * kernel's id of the thread. In a region the owner and the thread's number are above: the kernel
 * reuses the id of a thread that has ended, but the number is never reused. In private memory only
 * the number is above or, without one, pthread_self(): both are the same after a fork. Returns 0 or
 * -errno. */
static int thread_of(const struct percpu_rwlock_handle *h, uint64_t owner, uint64_t *ret)
{
	const long id = syscall(SYS_gettid);
	uint64_t above;

	if (id < 0)
		return percpu_errno();
	above = percpu_thread_number();
	if (h->p.owners != NULL)
		above = above << RWLOCK_OWNER_BITS |
			(owner & ((UINT64_C(1) << RWLOCK_OWNER_BITS) - 1));
	else if (above == 0)
		above = (uint64_t)(uintptr_t)pthread_self() / 16;
	*ret = above << RWLOCK_THREAD_BITS | (uint64_t)id;
	return 0;
}

/* Return whether that thread is the writer. In a child of fork the thread has another kernel id. So
 * if the writer is from before the fork, compare only the bits above the id. */
static bool is_written_by(const struct percpu_rwlock_handle *h, uint64_t thread)
{
	const uint64_t word = __atomic_load_n(&percpu_rwlock_control(h)->thread, __ATOMIC_RELAXED);
	const bool inherited =
		h->p.owners == NULL && (load_writer(h) ^ rwlock_forks) / PERCPU_RWLOCK_FORK != 0;

	return inherited ? word >> RWLOCK_THREAD_BITS == thread >> RWLOCK_THREAD_BITS :
			   word == thread;
}

/* In private memory, a thread of the parent that had the lock at the fork still has it in the
 * child. A thread of the parent that was about to write never does so in the child: it is dead. */
bool percpu_rwlock_is_writer_alive(const struct percpu_rwlock_handle *h, uint64_t writer)
{
	if (h->p.owners != NULL)
		return percpu_participants_alive(&h->p, writer);
	return (writer ^ rwlock_forks) / PERCPU_RWLOCK_FORK == 0 ||
	       percpu_rwlock_is_written(percpu_rwlock_load_state(h));
}

/* Return whether this process has become the writer in place of instead_of. It has not if it has
 * left its owners meanwhile. */
static bool become_writer(struct percpu_rwlock_handle *h, uint64_t instead_of)
{
	uint64_t id = percpu_participants_self(&h->p);

	id = h->p.owners != NULL ? id : private_writer();
	return id != 0 &&
	       __atomic_compare_exchange_n(&percpu_rwlock_control(h)->writer, &instead_of, id,
					   false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

bool percpu_rwlock_take_over(struct percpu_rwlock_handle *h)
{
	const uint64_t writer = load_writer(h);

	if (writer != 0 ? percpu_rwlock_is_writer_alive(h, writer) :
			  percpu_rwlock_load_state(h) == PERCPU_RWLOCK_OPEN)
		return false;
	PERCPU_STEP("rwlock: writer found dead");
	return become_writer(h, writer);
}

void percpu_rwlock_hand_on(struct percpu_rwlock_handle *h, enum percpu_rwlock_state state)
{
	struct percpu_rwlock_control *c = percpu_rwlock_control(h);

	__atomic_store_n(&c->thread, 0, __ATOMIC_RELAXED);
	set_rwlock_state(h, state);
	PERCPU_STEP("rwlock: state handed on");
	__atomic_store_n(&c->writer, 0, __ATOMIC_RELEASE);
	PERCPU_STEP("rwlock: no writer");
	__atomic_fetch_add(&c->turn, 1, __ATOMIC_RELEASE);
	percpu_participants_rouse(&h->p, &c->turn);
}

/* Become the writer. Returns 0, PERCPU_RWLOCK_LEFT, or -errno. */
static int take_turn_to_write(struct percpu_rwlock_handle *h, uint64_t id, uint64_t deadline)
{
	struct percpu_rwlock_control *c = percpu_rwlock_control(h);
	uint64_t asked = percpu_now_ns(), thread = 0, now;
	uint32_t value;
	int e = thread_of(h, id, &thread);

	if (e != 0)
		return e;
	for (;;) {
		value = __atomic_load_n(&c->turn, __ATOMIC_ACQUIRE);
		if (percpu_rwlock_has_left(h, id))
			return PERCPU_RWLOCK_LEFT;
		if (percpu_rwlock_load_state(h) == PERCPU_RWLOCK_LOST)
			return -ENOTRECOVERABLE;
		PERCPU_STEP("rwlock: a writer comes");
		if (become_writer(h, 0))
			break;
		now = percpu_now_ns();
		if (percpu_rwlock_is_to_ask(h, now, asked) || now >= deadline) {
			if (percpu_rwlock_take_over(h))
				break;
			asked = now;
		}
		if (is_written_by(h, thread))
			return -EDEADLK;
		if (now >= deadline)
			return -ETIMEDOUT;
		PERCPU_STEP("rwlock: a writer waits");
		percpu_participants_sleep(&h->p, &c->turn, value, deadline);
	}
	PERCPU_STEP("rwlock: a writer");
	__atomic_store_n(&c->thread, thread, __ATOMIC_RELAXED);
	return 0;
}

/* Return how many readers wait that were not skipped. If a waiting reader has died, it may have
 * been a skipped one, so forget all skips. Lower `skipped` if it is more than the readers that
 * wait. Readers subtract from it meanwhile. */
static int32_t readers_to_come(struct percpu_rwlock_handle *h)
{
	const uint32_t bit = 1U << PERCPU_RWLOCK_WAITING;
	struct percpu_rwlock_control *c = percpu_rwlock_control(h);
	uint32_t was = __atomic_load_n(&c->skipped, __ATOMIC_RELAXED);
	int32_t n, skipped = (int32_t)was;

	if (__atomic_load_n(&h->p.control->died, __ATOMIC_ACQUIRE) & bit) {
		skipped = 0;
		__atomic_store_n(&c->skipped, 0, __ATOMIC_RELAXED);
		was = 0;
		__atomic_fetch_and(&h->p.control->died, ~bit, __ATOMIC_ACQ_REL);
	}
	n = (int32_t)percpu_participants_sum(&h->p, PERCPU_RWLOCK_WAITING);
	n = n < 0 ? 0 : n;
	skipped = skipped < 0 ? 0 : skipped > n ? n : skipped;
	if ((uint32_t)skipped != was)
		(void)__atomic_compare_exchange_n(&c->skipped, &was, (uint32_t)skipped, false,
						  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return n - skipped;
}

/* Add the readers that wait now to `skipped`. `skips` is odd meanwhile. A reader that begins to
 * wait then subtracts 1 at the end of its wait, in any case. A reader that ends its wait then
 * subtracts 1 before or after the addition. */
static void skip_readers(struct percpu_rwlock_handle *h)
{
	struct percpu_rwlock_control *c = percpu_rwlock_control(h);
	const uint32_t skips = __atomic_load_n(&c->skips, __ATOMIC_RELAXED) | 1;

	__atomic_store_n(&c->skips, skips, __ATOMIC_SEQ_CST);
	PERCPU_STEP("rwlock: readers are skipped");
	percpu_full_fence();
	__atomic_fetch_add(&c->skipped, (uint32_t)readers_to_come(h), __ATOMIC_RELAXED);
	__atomic_store_n(&c->skips, skips + 1, __ATOMIC_RELEASE);
}

/* Wait until the waiting readers have entered the open lock. Skip those that have not after
 * READERS_NS. Returns 0, or -ETIMEDOUT at the deadline. */
static int let_readers_in(struct percpu_rwlock_handle *h, uint64_t deadline)
{
	const uint64_t end = percpu_rwlock_deadline(READERS_NS);
	uint64_t asked = 0, now;
	uint32_t value;
	int32_t n;

	for (;;) {
		value = __atomic_load_n(&h->p.control->drained, __ATOMIC_ACQUIRE);
		n = readers_to_come(h);
		if (n <= 0)
			return 0;
		now = percpu_now_ns();
		if (now - asked >= PERCPU_PARTICIPANTS_SLICE) {
			(void)percpu_participants_drop_dead(&h->p);
			asked = now;
			continue;
		}
		if (now >= deadline)
			return -ETIMEDOUT;
		if (now >= end) {
			skip_readers(h);
			return 0;
		}
		PERCPU_STEP("rwlock: a writer lets readers in");
		percpu_participants_sleep(&h->p, &h->p.control->drained, value,
					  end < deadline ? end : deadline);
	}
}

/* Let no new readers in, and wait until the readers inside have left. Returns 0,
 * PERCPU_RWLOCK_LEFT, or -errno. */
static int close_rwlock(struct percpu_rwlock_handle *h, uint64_t id, uint64_t deadline)
{
	int e = 0;

	if (percpu_rwlock_load_state(h) == PERCPU_RWLOCK_OPEN)
		e = let_readers_in(h, deadline);
	if (percpu_rwlock_has_left(h, id))
		return PERCPU_RWLOCK_LEFT;
	if (e == 0) {
		set_rwlock_state(h, PERCPU_RWLOCK_CLOSING);
		PERCPU_STEP("rwlock: closing");
		e = percpu_participants_fence(&h->p);
	}
	if (e == 0)
		e = percpu_participants_drain(&h->p, PERCPU_RWLOCK_INSIDE, deadline);
	if (percpu_rwlock_has_left(h, id))
		return PERCPU_RWLOCK_LEFT;
	if (e == 0) {
		set_rwlock_state(h, PERCPU_RWLOCK_WRITING);
		PERCPU_STEP("rwlock: writing");
	}
	return e;
}

/* Return whether readers have died, and clear that bit of `died`: each death is told once. `told`
 * is set first. So if this writer is killed before it returns, the next one finds `told`. */
static bool are_readers_dead(struct percpu_rwlock_handle *h)
{
	const uint32_t bit = 1U << PERCPU_RWLOCK_INSIDE;
	struct percpu_rwlock_control *c = percpu_rwlock_control(h);

	if (__atomic_load_n(&h->p.control->died, __ATOMIC_ACQUIRE) & bit) {
		__atomic_store_n(&c->told, 1, __ATOMIC_RELEASE);
		PERCPU_STEP("rwlock: to be told of readers");
		__atomic_fetch_and(&h->p.control->died, ~bit, __ATOMIC_ACQ_REL);
	}
	return __atomic_load_n(&c->told, __ATOMIC_RELAXED) != 0;
}

/* Get the lock for this process, which is the writer. Returns 0 or -EOWNERDEAD with the lock held;
 * or -errno, and the process is no longer the writer; or PERCPU_RWLOCK_LEFT: it is a dead writer,
 * and another process may have its place. */
static int begin_to_write(struct percpu_rwlock_handle *h, uint64_t id, uint64_t deadline)
{
	uint64_t state;
	int e;

	if (percpu_rwlock_has_left(h, id))
		return PERCPU_RWLOCK_LEFT;
	state = percpu_rwlock_load_state(h);
	if (state == PERCPU_RWLOCK_LOST) {
		percpu_rwlock_hand_on(h, PERCPU_RWLOCK_LOST);
		return -ENOTRECOVERABLE;
	}
	if (!percpu_rwlock_is_written(state)) {
		e = close_rwlock(h, id, deadline);
		if (e == 0)
			return are_readers_dead(h) ? -EOWNERDEAD : 0;
		if (e == PERCPU_RWLOCK_LEFT)
			return e;
		percpu_rwlock_hand_on(h, PERCPU_RWLOCK_OPEN);
		return e;
	}
	/* No reader is inside, except perhaps one that was told of a dead writer, and has died. */
	set_rwlock_state(h, PERCPU_RWLOCK_REPAIRING_WRITER);
	PERCPU_STEP("rwlock: a writer repairs");
	e = percpu_participants_drain(&h->p, PERCPU_RWLOCK_INSIDE, deadline);
	if (percpu_rwlock_has_left(h, id))
		return PERCPU_RWLOCK_LEFT;
	if (e == 0) {
		(void)are_readers_dead(h);
		return -EOWNERDEAD;
	}
	percpu_rwlock_hand_on(h, PERCPU_RWLOCK_REPAIRING_WRITER);
	return e;
}

static int write_until(struct percpu_rwlock *l, uint64_t deadline)
{
	struct percpu_rwlock_handle *h = percpu_rwlock_handle(l);
	uint64_t id;
	int e;

	if (h == NULL)
		return -EINVAL;
	do {
		e = percpu_participants_join(&h->p);
		PERCPU_STEP("rwlock: a writer joined");
		id = percpu_participants_self(&h->p);
		if (e == 0)
			e = take_turn_to_write(h, id, deadline);
		if (e == 0)
			e = begin_to_write(h, id, deadline);
	} while (e == PERCPU_RWLOCK_LEFT);
	if (h->p.checked && e == -EDEADLK)
		percpu_rwlock_check_explain(h, "is locked for writing by this very thread");
	if (h->p.checked && e == -EPROTO)
		percpu_rwlock_check_explain(h, "was unlocked by a process that did not read");
	return e;
}

int percpu_rwlock_write_lock(struct percpu_rwlock *l)
{
	return write_until(l, PERCPU_PARTICIPANTS_FOREVER);
}

int percpu_rwlock_write_timedlock(struct percpu_rwlock *l, uint64_t ns)
{
	return write_until(l, percpu_rwlock_deadline(ns));
}

/* -ETIMEDOUT may also come from a fence that took too long; then another try may succeed. */
int percpu_rwlock_write_trylock(struct percpu_rwlock *l)
{
	int e = write_until(l, 0);

	return e == -ETIMEDOUT ? -EBUSY : e;
}

int percpu_rwlock_write_unlock(struct percpu_rwlock *l)
{
	struct percpu_rwlock_handle *h = percpu_rwlock_handle(l);
	uint64_t state;

	if (h == NULL)
		return -EINVAL;
	if (h->p.checked)
		percpu_rwlock_check_unlocked(h, true);
	state = percpu_rwlock_load_state(h);
	if (!percpu_rwlock_is_writer(h) ||
	    (state != PERCPU_RWLOCK_WRITING && state != PERCPU_RWLOCK_REPAIRING_WRITER))
		return -EPERM;
	if (h->p.owners == NULL) /* the writer may be from before a fork */
		__atomic_store_n(&percpu_rwlock_control(h)->writer, private_writer(),
				 __ATOMIC_RELAXED);
	__atomic_store_n(&percpu_rwlock_control(h)->told, 0, __ATOMIC_RELAXED);
	PERCPU_STEP("rwlock: to be unlocked");
	percpu_rwlock_hand_on(h, state == PERCPU_RWLOCK_WRITING ? PERCPU_RWLOCK_OPEN :
								  PERCPU_RWLOCK_LOST);
	return 0;
}

unsigned percpu_rwlock_died(const struct percpu_rwlock *l)
{
	const struct percpu_rwlock_handle *h = percpu_rwlock_handle(l);
	unsigned died = 0;
	uint64_t state;

	if (h == NULL || !percpu_rwlock_is_writer(h))
		return 0;
	state = percpu_rwlock_load_state(h);
	if (state == PERCPU_RWLOCK_REPAIRING_READER)
		return PERCPU_RWLOCK_WRITER_DIED;
	if (state == PERCPU_RWLOCK_REPAIRING_WRITER)
		died |= PERCPU_RWLOCK_WRITER_DIED;
	else if (state != PERCPU_RWLOCK_WRITING)
		return 0;
	if (__atomic_load_n(&percpu_rwlock_control(h)->told, __ATOMIC_RELAXED))
		died |= PERCPU_RWLOCK_READERS_DIED;
	return died;
}

/* Clear `told`. Returns 0, or -EINVAL if it was not set: the writer was told of no dead readers.
 * Only the writer changes `told`. */
static int forget_readers(struct percpu_rwlock_handle *h)
{
	return __atomic_exchange_n(&percpu_rwlock_control(h)->told, 0, __ATOMIC_RELAXED) != 0 ?
		       0 :
		       -EINVAL;
}

/* A reader that was told keeps the lock for reading, and is no longer the writer. */
int percpu_rwlock_consistent(struct percpu_rwlock *l)
{
	struct percpu_rwlock_handle *h = percpu_rwlock_handle(l);
	uint64_t state;

	if (h == NULL || !percpu_rwlock_is_writer(h))
		return -EINVAL;
	state = percpu_rwlock_load_state(h);
	if (state == PERCPU_RWLOCK_WRITING)
		return forget_readers(h);
	if (state == PERCPU_RWLOCK_REPAIRING_WRITER) {
		set_rwlock_state(h, PERCPU_RWLOCK_WRITING);
		(void)forget_readers(h);
	} else if (state == PERCPU_RWLOCK_REPAIRING_READER) {
		percpu_rwlock_hand_on(h, PERCPU_RWLOCK_OPEN);
	} else {
		return -EINVAL;
	}
	return 0;
}
