/* SPDX-License-Identifier: MIT */
/*
 * rwlock.c - read-mostly locks: create and free them; readers that do not get in at once.
 * rwlock_write.c has the writers, and rwlock.h the states.
 *
 * A reader that is refused counts itself as waiting, until it gets in or gives up. A writer that is
 * about to close the lock first waits until no reader waits. An open lock refuses no reader, so the
 * writer only waits for the readers that were refused before. It waits 0.1 s at most, because a
 * reader may be stopped, and later writers do not wait for the same readers again: `skipped` is
 * their number. A reader that was skipped, or may have been, subtracts 1 from `skipped` when it
 * stops waiting. So a writer sometimes waits for a stopped reader again, but it never skips a
 * reader that was not stopped.
 */
#include <errno.h>

#include "../cpu/debug.h"
#include "rwlock.h"

_Static_assert(offsetof(struct percpu_rwlock_handle, p.in) == 0, "inline functions read it");
_Static_assert(sizeof(struct percpu_rwlock_control) <=
		       sizeof(((struct percpu_participants_control *)0)->word),
	       "words of the object");

static int end_rwlock(int e, struct percpu_rwlock_handle *h, unsigned flags,
		      struct percpu_rwlock **ret)
{
	if (e != 0)
		return e;
	if (percpu_debug_flags(flags, PERCPU_RWLOCK_DEBUG) != 0) {
		h->p.checked = true;
		h->p.in.cell = NULL;
	}
	*ret = (struct percpu_rwlock *)&h->p.in;
	return 0;
}

static bool are_rwlock_flags(unsigned flags, struct percpu_rwlock **ret)
{
	return ret != NULL && (flags & ~(unsigned)PERCPU_RWLOCK_DEBUG) == 0;
}

/* Return whether the arguments are valid. Inline functions use the default distance of lanes, so
 * the region must have it. */
static bool takes_rwlock(const struct percpu_owners *o, unsigned flags, struct percpu_rwlock **ret)
{
	return are_rwlock_flags(flags, ret) && o != NULL &&
	       percpu_region_has_default_lanes(o->block.chunk->region);
}

int percpu_rwlock_create(unsigned flags, struct percpu_rwlock **ret)
{
	struct percpu_rwlock_handle *h = NULL;
	int e = are_rwlock_flags(flags, ret) ? percpu_participants_create(sizeof(*h), &h) : -EINVAL;

	return end_rwlock(e, h, flags, ret);
}

static int open_rwlock(struct percpu_owners *o, struct percpu_participants_at at, unsigned flags,
		       struct percpu_rwlock **ret)
{
	struct percpu_rwlock_handle *h = NULL;
	int e = -EINVAL;

	if (takes_rwlock(o, flags, ret))
		e = percpu_participants_open(o, at, PERCPU_KIND_RWLOCK, sizeof(*h), &h);
	return end_rwlock(e, h, flags, ret);
}

int percpu_rwlock_create_in(struct percpu_owners *o, unsigned flags, struct percpu_rwlock **ret)
{
	return open_rwlock(o, (struct percpu_participants_at){ PERCPU_AT_NEW, 0 }, flags, ret);
}

int percpu_rwlock_open(struct percpu_owners *o, unsigned root, unsigned flags,
		       struct percpu_rwlock **ret)
{
	return open_rwlock(o, (struct percpu_participants_at){ PERCPU_AT_ROOT, root }, flags, ret);
}

int percpu_rwlock_attach(struct percpu_owners *o, uint64_t key, unsigned flags,
			 struct percpu_rwlock **ret)
{
	return open_rwlock(o, (struct percpu_participants_at){ PERCPU_AT_KEY, key }, flags, ret);
}

uint64_t percpu_rwlock_key(const struct percpu_rwlock *l)
{
	return percpu_block_key(l, PERCPU_KIND_RWLOCK);
}

static bool is_held_by_us(struct percpu_rwlock_handle *h)
{
	const uint64_t writer =
		__atomic_load_n(&percpu_rwlock_control(h)->writer, __ATOMIC_ACQUIRE);

	(void)percpu_participants_adopt(&h->p);
	return (int32_t)percpu_participants_sum_own(&h->p, PERCPU_RWLOCK_INSIDE) > 0 ||
	       (percpu_rwlock_is_writer(h) && percpu_rwlock_is_writer_alive(h, writer));
}

/* Return whether a living process holds the lock. */
static bool is_held(struct percpu_rwlock_handle *h)
{
	const uint64_t writer =
		__atomic_load_n(&percpu_rwlock_control(h)->writer, __ATOMIC_ACQUIRE);

	if (writer != 0 && percpu_rwlock_is_writer_alive(h, writer))
		return true;
	(void)percpu_participants_drop_dead(&h->p);
	return percpu_participants_inside(&h->p, PERCPU_RWLOCK_INSIDE) != 0;
}

static int let_go(struct percpu_rwlock_handle *h, bool held, const char *what,
		  void (*done)(struct percpu_participants *p))
{
	if (held) {
		if (h->p.checked)
			percpu_rwlock_check_explain(h, what);
		return -EBUSY;
	}
	done(&h->p);
	return 0;
}

int percpu_rwlock_detach(struct percpu_rwlock *l)
{
	struct percpu_rwlock_handle *h = percpu_rwlock_handle(l);

	if (h == NULL)
		return 0;
	return let_go(h, is_held_by_us(h), "is to be detached, and this process holds it",
		      percpu_participants_detach);
}

int percpu_rwlock_destroy(struct percpu_rwlock *l)
{
	struct percpu_rwlock_handle *h = percpu_rwlock_handle(l);
	bool held;

	if (h == NULL)
		return 0;
	if (percpu_participants_look_up(&h->p) == -ENOMEM)
		return -ENOMEM; /* a process whose count cannot be read may hold it */
	held = h->p.in.block.chunk->region->writable && is_held(h);
	return let_go(h, held, "is destroyed while it is held", percpu_participants_destroy);
}

/* This process has just taken the place of a dead writer. If that writer held the lock, keep the
 * lock for this reader alone, and return -EOWNERDEAD. Otherwise open the lock, and enter. */
static int take_over_to_read(struct percpu_rwlock_handle *h)
{
	if (!percpu_rwlock_is_written(percpu_rwlock_load_state(h))) {
		percpu_rwlock_hand_on(h, percpu_rwlock_load_state(h) == PERCPU_RWLOCK_LOST ?
						 PERCPU_RWLOCK_LOST :
						 PERCPU_RWLOCK_OPEN);
		return percpu_participants_enter(&h->p, PERCPU_RWLOCK_INSIDE, PERCPU_RWLOCK_OPEN);
	}
	__atomic_store_n(&h->p.control->state, PERCPU_RWLOCK_REPAIRING_READER, __ATOMIC_RELEASE);
	PERCPU_STEP("rwlock: a reader repairs");
	percpu_participants_add(&h->p, PERCPU_RWLOCK_INSIDE, 1);
	return -EOWNERDEAD;
}

/* Try to lock for reading; if ask is set, take over from a dead writer. Returns 0 or -EOWNERDEAD
 * with the lock held, PERCPU_SEQ_REFUSED if a writer has or closes it, or -ENOTRECOVERABLE. */
static int try_to_read(struct percpu_rwlock_handle *h, bool ask)
{
	int r = percpu_participants_enter(&h->p, PERCPU_RWLOCK_INSIDE, PERCPU_RWLOCK_OPEN);

	if (r != 0 && percpu_rwlock_load_state(h) == PERCPU_RWLOCK_LOST)
		return -ENOTRECOVERABLE;
	if (r != 0 && ask && percpu_rwlock_take_over(h))
		r = take_over_to_read(h);
	return r;
}

static int wait_to_read(struct percpu_rwlock_handle *h, uint64_t id, uint64_t deadline)
{
	uint32_t *turn = &percpu_rwlock_control(h)->turn;
	uint64_t asked = percpu_now_ns(), now;
	uint32_t value;
	bool ask;
	int r;

	for (;;) {
		value = __atomic_load_n(turn, __ATOMIC_ACQUIRE);
		now = percpu_now_ns();
		ask = percpu_rwlock_is_to_ask(h, now, asked) || now >= deadline;
		if (percpu_rwlock_has_left(h, id))
			return PERCPU_RWLOCK_LEFT;
		r = try_to_read(h, ask);
		if (r != PERCPU_SEQ_REFUSED)
			return r;
		asked = ask ? now : asked;
		if (now >= deadline)
			return -ETIMEDOUT;
		PERCPU_STEP("rwlock: a reader waits");
		percpu_participants_sleep(&h->p, turn, value, deadline);
		PERCPU_STEP("rwlock: a reader wakes");
	}
}

/* Count this reader as waiting while it waits. If the process leaves its owners meanwhile, its
 * count is dropped like that of a dead owner. */
static int read_until(struct percpu_rwlock_handle *h, uint64_t id, uint64_t deadline)
{
	struct percpu_rwlock_control *c = percpu_rwlock_control(h);
	const uint32_t skips = __atomic_load_n(&c->skips, __ATOMIC_ACQUIRE);
	int r;

	percpu_participants_add(&h->p, PERCPU_RWLOCK_WAITING, 1);
	PERCPU_STEP("rwlock: a reader is refused");
	r = wait_to_read(h, id, deadline);
	if (percpu_rwlock_has_left(h, id))
		return PERCPU_RWLOCK_LEFT;
	percpu_participants_add(&h->p, PERCPU_RWLOCK_WAITING, -1);
	if (skips % 2 != 0 || __atomic_load_n(&c->skips, __ATOMIC_ACQUIRE) != skips)
		__atomic_fetch_sub(&c->skipped, 1, __ATOMIC_RELAXED);
	percpu_participants_wake(&h->p); /* the next writer may wait for this reader */
	return r;
}

int percpu_rwlock_read_lock_slow(struct percpu_rwlock *l, uint64_t ns)
{
	struct percpu_rwlock_handle *h = percpu_rwlock_handle(l);
	uint64_t deadline = 0, id;
	int r;

	do {
		r = percpu_participants_join(&h->p);
		if (r != 0)
			return r;
		PERCPU_STEP("rwlock: a reader joined");
		id = percpu_participants_self(&h->p);
		r = id != 0 ? try_to_read(h, false) : PERCPU_RWLOCK_LEFT;
		if (r == PERCPU_SEQ_REFUSED) {
			deadline = deadline != 0 ? deadline : percpu_rwlock_deadline(ns);
			r = read_until(h, id, deadline);
		}
	} while (r == PERCPU_RWLOCK_LEFT);
	return r;
}

/* This runs in signal handlers, too, so it does not ask whether a writer lives: that takes the
 * process lock. A thread that forks holds the process lock while it waits for the locks of
 * malloc(), and the interrupted thread may hold one of these. */
int percpu_rwlock_read_trylock_slow(struct percpu_rwlock *l)
{
	struct percpu_rwlock_handle *h = percpu_rwlock_handle(l);
	int r = percpu_participants_join(&h->p);

	if (r == 0)
		r = try_to_read(h, false);
	return r == PERCPU_SEQ_REFUSED ? -EBUSY : r;
}

/* While a writer has the lock, no reader is inside. So an unlock by a reader is then an error. */
int percpu_rwlock_read_unlock_slow(struct percpu_rwlock *l)
{
	struct percpu_rwlock_handle *h = percpu_rwlock_handle(l);
	const uint64_t id = percpu_participants_adopt(&h->p);
	uint64_t state;

	if (h->p.checked)
		percpu_rwlock_check_unlocked(h, false);
	if (id == 0)
		return -EPERM;
	state = percpu_rwlock_load_state(h);
	if (state == PERCPU_RWLOCK_REPAIRING_READER && percpu_rwlock_is_writer(h)) {
		percpu_participants_add(&h->p, PERCPU_RWLOCK_INSIDE, -1);
		PERCPU_STEP("rwlock: a reader declines");
		percpu_rwlock_hand_on(h, PERCPU_RWLOCK_REPAIRING_READER);
		return 0;
	}
	if (percpu_rwlock_is_written(state) || state == PERCPU_RWLOCK_LOST)
		return -EPERM;
	percpu_participants_leave(&h->p, PERCPU_RWLOCK_INSIDE, PERCPU_RWLOCK_OPEN);
	return 0;
}
