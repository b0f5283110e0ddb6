/* SPDX-License-Identifier: MIT */
/*
 * critical_enter.c - critical sections: enter and exit without the sequence, and lanes that dead
 * owners have left.
 */
#include <errno.h>

#include "critical.h"

#define LOOK_FOR_DEAD                                                                              \
	64 /* a thread that found its CPU's lane busy so often looks for dead owners */
#define CRITICAL_SLEEP_NS (PERCPU_SECOND / 10000)

/* Nobody wakes a thread that waits for a lane, since an exit makes no system call. */
static void sleep_shortly(void)
{
	uint32_t nothing = 0;

	percpu_futex_sleep(&nothing, FUTEX_WAIT_PRIVATE, 0, CRITICAL_SLEEP_NS);
}

static bool take_lane_from(struct percpu_critical_head *head, uint64_t from, uint64_t self)
{
	return __atomic_compare_exchange_n(&head->taken, &from, self, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

static void give_lane_back(struct percpu_critical_head *head, uint64_t value)
{
	__atomic_store_n(&head->taken, value, __ATOMIC_RELEASE);
}

/* Take a spare lane that is free, from that of the calling thread's CPU on. Returns NULL if there is
 * none. */
static struct percpu_critical_head *take_spare(const struct percpu_critical *c, uint64_t self)
{
	struct percpu_chunk *k = c->block.chunk;
	const uint32_t first = percpu_chunk_choose_lane(k) - k->cpus;
	struct percpu_critical_head *head;

	for (uint32_t i = 0; i < k->cpus; i++) {
		head = percpu_critical_head_of(c, percpu_chunk_use_lane(k, (first + i) % k->cpus));
		if (__atomic_load_n(&head->taken, __ATOMIC_RELAXED) == 0 &&
		    take_lane_from(head, 0, self))
			return head;
	}
	return NULL;
}

/* Take the lane if a dead owner has it. */
static bool take_from_dead(const struct percpu_critical_handle *h, size_t lane, uint64_t self)
{
	struct percpu_critical_head *head = percpu_critical_head_of(&h->critical, lane);
	const uint64_t inside = __atomic_load_n(&head->inside, __ATOMIC_RELAXED);
	const uint64_t taken = __atomic_load_n(&head->taken, __ATOMIC_RELAXED);

	if (lane >= h->critical.block.chunk->cpus)
		return percpu_critical_is_dead(h, taken) && take_lane_from(head, taken, self);
	if (taken != 0 || !percpu_critical_is_dead(h, inside))
		return false;
	PERCPU_STEP("critical: found dead");
	if (!take_lane_from(head, 0, self))
		return false;
	if (__atomic_load_n(&head->inside, __ATOMIC_ACQUIRE) != inside) {
		give_lane_back(head, 0); /* another thread was first */
		return false;
	}
	PERCPU_STEP("critical: taken from dead");
	__atomic_store_n(&head->inside, 0, __ATOMIC_RELAXED);
	return true;
}

/* Take a lane that a dead owner has. Returns NULL if there is none. */
static struct percpu_critical_head *take_any_from_dead(const struct percpu_critical_handle *h,
						       uint64_t self)
{
	const unsigned lanes = percpu_critical_lanes(&h->critical);

	for (unsigned lane = 0; h->owners != NULL && lane < lanes; lane++)
		if (take_from_dead(h, lane, self))
			return percpu_critical_head_of(&h->critical, lane);
	return NULL;
}

/* Enter by the sequence. Returns NULL if the lane is busy, or the thread cannot run sequences. */
static struct percpu_critical_head *try_sequence(const struct percpu_critical *c, uint64_t self)
{
	int r = PERCPU_SEQ_SLOW;
	void *lane = NULL;

	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_enter(c->block.base, c->block.stride, self, &lane);
	return r == 0 ? lane : NULL;
}

/* Enter any lane. Returns 0, -EOWNERDEAD, or -EBUSY if all lanes are busy. */
static int enter_any(struct percpu_critical_handle *h, uint64_t self, bool look, void **ret)
{
	struct percpu_critical_head *head = try_sequence(&h->critical, self);
	int e = 0;

	if (head == NULL && look) {
		head = take_any_from_dead(h, self);
		e = head != NULL ? -EOWNERDEAD : 0;
	}
	if (head == NULL)
		head = take_spare(&h->critical, self);
	if (head == NULL)
		return -EBUSY;
	*ret = head + 1;
	return e;
}

int percpu_critical_enter_slow(struct percpu_critical *c, void **ret)
{
	struct percpu_critical_handle *h = (struct percpu_critical_handle *)c;
	const int saved = errno;
	uint64_t deadline = 0, now;
	uint64_t self;
	int e;

	if (!c->block.chunk->region->writable)
		return -EROFS;
	e = percpu_critical_join(h, &self);
	if (e != 0)
		return e;
	e = enter_any(h, self,
		      __atomic_fetch_add(&h->refused, 1, __ATOMIC_RELAXED) % LOOK_FOR_DEAD == 0,
		      ret);
	while (e == -EBUSY) {
		now = percpu_now_ns();
		deadline = deadline != 0 ? deadline : now + PERCPU_LOCK_NS;
		sleep_shortly();
		e = now < deadline ? enter_any(h, self, true, ret) : -ETIMEDOUT;
	}
	errno = saved; /* of the thread that a signal handler interrupts */
	return e;
}

int percpu_critical_exit_slow(struct percpu_critical *c, void *cell)
{
	struct percpu_critical_head *const head = (struct percpu_critical_head *)cell - 1;

	if (__atomic_load_n(&head->taken, __ATOMIC_RELAXED) != percpu_critical_self(c))
		return -EPERM;
	give_lane_back(head, 0);
	return 0;
}

/* A certain lane */

/* Wait a short time for a lane's head to change. Returns 0, or -ETIMEDOUT after the deadline. */
static int await_change(uint64_t deadline)
{
	if (percpu_now_ns() >= deadline)
		return -ETIMEDOUT;
	sleep_shortly();
	return 0;
}

/* Take the lane, also from a dead owner. Store in ret_from the owner it was taken from, or 0. */
static int take_lane(const struct percpu_critical_handle *h, struct percpu_critical_head *head,
		     uint64_t self, uint64_t deadline, uint64_t *ret_from)
{
	uint64_t from;
	int e;

	for (;;) {
		from = __atomic_load_n(&head->taken, __ATOMIC_RELAXED);
		if ((from == 0 || percpu_critical_is_dead(h, from)) &&
		    take_lane_from(head, from, self)) {
			*ret_from = from;
			return 0;
		}
		e = await_change(deadline);
		if (e != 0)
			return e;
	}
}

static int fence_lane(const struct percpu_critical *c, unsigned lane)
{
	const struct percpu_chunk *k = c->block.chunk;

	if (lane >= k->cpus)
		return 0;
	return k->shared ? percpu_region_fence(k->region) : percpu_barrier_cpu(lane);
}

/* Wait until no thread is inside the lane, which the caller has taken. Returns 0, -EOWNERDEAD or
 * -ETIMEDOUT. */
static int await_exit(const struct percpu_critical_handle *h, struct percpu_critical_head *head,
		      uint64_t deadline)
{
	uint64_t inside;
	int e = 0;

	while (e == 0 && (inside = __atomic_load_n(&head->inside, __ATOMIC_ACQUIRE)) != 0) {
		if (percpu_critical_is_dead(h, inside)) {
			__atomic_store_n(&head->inside, 0, __ATOMIC_RELAXED);
			return -EOWNERDEAD;
		}
		e = await_change(deadline);
	}
	return e;
}

int percpu_critical_enter_lane(struct percpu_critical *c, unsigned lane, void **ret)
{
	struct percpu_critical_handle *h = (struct percpu_critical_handle *)c;
	const uint64_t deadline = percpu_now_ns() + PERCPU_LOCK_NS;
	struct percpu_critical_head *head;
	uint64_t self, from;
	int e;

	if (c == NULL || ret == NULL || lane >= percpu_critical_lanes(c))
		return -EINVAL;
	if (!c->block.chunk->region->writable)
		return -EROFS;
	if (lane >= c->block.chunk->cpus &&
	    percpu_chunk_use_lane(c->block.chunk, lane - c->block.chunk->cpus) != lane)
		return -ENOSPC;
	head = percpu_critical_head_of(c, lane);
	e = percpu_critical_join(h, &self);
	if (e == 0)
		e = take_lane(h, head, self, deadline, &from);
	if (e != 0)
		return e;
	PERCPU_STEP("critical: lane taken");
	e = fence_lane(c, lane);
	if (e == 0)
		e = await_exit(h, head, deadline);
	if (e != 0 && e != -EOWNERDEAD) {
		give_lane_back(head, from); /* if an owner has died, another thread is told */
		return e;
	}
	*ret = head + 1;
	return from != 0 ? -EOWNERDEAD : e;
}
