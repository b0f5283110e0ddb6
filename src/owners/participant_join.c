/* SPDX-License-Identifier: MIT */
/*
 * participant_join.c - objects that count the threads inside: create and open them, join them, and
 * drop the counts of dead participants.
 *
 * Before an owner first enters, it takes over the record of its slot. The cells still hold the
 * counts of an earlier owner then. Their sums are stored in `left`, and later sums subtract
 * `left`. The same is done when an owner is found dead. `died` is stored first, then `left`, then
 * `owner`. So if the process that does this is killed, another one does it again, with the same
 * result, and every death is reported.
 */
#include <errno.h>
#include <stdlib.h>

#include "../memory/stale.h"
#include "participant.h"

#define CONTROL_ALIGN 64 /* the state has its own cache line */

_Static_assert(offsetof(struct percpu_participants, in.block) == 0, "begins every handle");
_Static_assert(sizeof(struct percpu_participants_control) % CONTROL_ALIGN == 0, "aligned_alloc");
_Static_assert(PERCPU_OWNER_SLOTS *PERCPU_PARTICIPANT_CELL <=
		       sizeof(struct percpu_participant_records),
	       "cells are in front of nothing");

static struct percpu_participants_control *participants_at(const struct percpu_block *b)
{
	return (struct percpu_participants_control *)percpu_block_bias(b);
}

static void start_participants(struct percpu_block *b)
{
	const struct percpu_participants *p = (struct percpu_participants *)b;

	participants_at(b)->owners = percpu_owners_key(p->owners);
	participants_at(b)->lock_boot = percpu_stale_boot(b->chunk->region);
}

static int adopt_participants(const struct percpu_block *found, struct percpu_plan *p)
{
	const struct percpu_participants *t = p->handle;

	return __atomic_load_n(&participants_at(found)->owners, __ATOMIC_RELAXED) ==
			       percpu_owners_key(t->owners) ?
		       0 :
		       -ENOENT;
}

/* Forget the cells: this process is no longer the owner that they count for. */
static void forget_cell(struct percpu_owners_user *u)
{
	struct percpu_participants *p =
		percpu_owners_user_in(u, offsetof(struct percpu_participants, user));

	__atomic_store_n(&p->in.cell, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&p->self, 0, __ATOMIC_RELAXED);
}

static void mark_participants(const struct percpu_stale *s, const void *object)
{
	const struct percpu_participants *p = object;

	percpu_stale_mark(s, &p->control->lock);
}

static int open_block(struct percpu_region *r, struct percpu_participants_at at,
		      struct percpu_plan *plan, void *ret)
{
	switch (at.where) {
	case PERCPU_AT_ROOT:
		return percpu_block_open(r, (unsigned)at.number, plan, ret);
	case PERCPU_AT_KEY:
		return percpu_block_attach(r, at.number, plan, ret);
	default:
		return percpu_block_create_in(r, plan, ret);
	}
}

int percpu_participants_open(struct percpu_owners *o, struct percpu_participants_at at,
			     enum percpu_kind kind, size_t handle_size, void *ret)
{
	struct percpu_plan plan = {
		.kind = kind,
		.size = sizeof(struct percpu_participants_control),
		.touched = 0,
		.align = PERCPU_BLOCK_ALIGN,
		.handle_size = handle_size,
		.start = start_participants,
		.adopt = adopt_participants,
	};
	struct percpu_participants *t, *p = NULL;
	struct percpu_region *r;
	int e;

	if (o == NULL || ret == NULL)
		return -EINVAL;
	plan.handle = t = calloc(1, handle_size);
	if (t == NULL)
		return -ENOMEM;
	t->owners = o;
	r = o->block.chunk->region;
	e = open_block(r, at, &plan, &p);
	free(t);
	if (e != 0)
		return e;
	p->control = participants_at(&p->in.block);
	p->in.state = &p->control->state;
	p->in.stride = p->in.block.stride;
	p->user.forget = forget_cell;
	if (r->writable)
		percpu_stale_recover(r, &p->control->lock_boot, mark_participants, p);
	percpu_owner_enlist(o, &p->user);
	__builtin_memcpy(ret, &p, sizeof(p));
	return 0;
}

/* The cells are in the default region. Several objects share a cache line there. */
int percpu_participants_create(size_t handle_size, void *ret)
{
	struct percpu_plan plan = {
		.kind = PERCPU_KIND_CELL,
		.size = PERCPU_PARTICIPANT_CELL,
		.touched = PERCPU_PARTICIPANT_CELL,
		.align = PERCPU_PARTICIPANT_CELL,
		.handle_size = handle_size,
	};
	struct percpu_participants *p = NULL;
	struct percpu_participants_control *c;
	int e;

	if (ret == NULL)
		return -EINVAL;
	c = aligned_alloc(CONTROL_ALIGN, sizeof(*c));
	plan.handle = calloc(1, handle_size);
	e = c != NULL && plan.handle != NULL ? percpu_block_create(&plan, &p) : -ENOMEM;
	free(plan.handle);
	if (e != 0) {
		free(c);
		return e;
	}
	__builtin_memset(c, 0, sizeof(*c));
	p->control = c;
	p->self = PERCPU_PARTICIPANT_PRIVATE;
	p->in.cell = p->in.block.base;
	p->in.stride = p->in.block.stride;
	p->in.state = &c->state;
	__builtin_memcpy(ret, &p, sizeof(p));
	return 0;
}

void percpu_participants_detach(struct percpu_participants *p)
{
	if (p == NULL)
		return;
	if (p->owners == NULL) {
		percpu_participants_destroy(p);
		return;
	}
	percpu_owner_delist(p->owners, &p->user);
	free(p);
}

void percpu_participants_destroy(struct percpu_participants *p)
{
	struct percpu_region *r;

	if (p == NULL)
		return;
	r = p->in.block.chunk->region;
	if (p->owners == NULL) {
		free(p->control);
	} else {
		percpu_owner_delist(p->owners, &p->user);
		percpu_owner_free_blocks(r, p->control->block,
					 sizeof(struct percpu_participant_records));
	}
	percpu_block_destroy(p);
}

static struct percpu_participant_records *records_of(const struct percpu_participants *p,
						     size_t block, bool make, int *e)
{
	struct percpu_participants *cache = (struct percpu_participants *)p;
	struct percpu_participant_records *all =
		__atomic_load_n(&p->records[block], __ATOMIC_ACQUIRE);
	struct percpu_owner_block b = {
		.size = sizeof(*all),
		.cpu_size = PERCPU_OWNER_SLOTS * PERCPU_PARTICIPANT_CELL,
	};

	*e = 0;
	if (all != NULL)
		return all;
	*e = percpu_owner_block(p->in.block.chunk->region, &p->control->block[block], make, &b);
	if (*e != 0)
		return NULL;
	__atomic_store_n(&cache->chunks[block], b.chunk, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->offsets[block], b.offset, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->records[block], (struct percpu_participant_records *)b.bias,
			 __ATOMIC_RELEASE);
	return b.bias;
}

static uint32_t sum_slot(const struct percpu_participants *p, size_t block, size_t i, unsigned bank)
{
	const struct percpu_participant_cells c =
		percpu_participants_cells(p, block * PERCPU_OWNER_SLOTS + i);

	return percpu_participants_sum_cells(c.chunk, c.offset, bank);
}

static uint32_t count_of(const struct percpu_participants *p, size_t block, size_t i, unsigned bank)
{
	const struct percpu_participant_record *r =
		percpu_participants_record(p, block * PERCPU_OWNER_SLOTS + i);
	const uint32_t left = __atomic_load_n(&r->left[bank], __ATOMIC_ACQUIRE);

	return sum_slot(p, block, i, bank) - left;
}

void percpu_participants_each(const struct percpu_participants *p, unsigned bank,
			      void (*fn)(uint64_t id, uint32_t n, void *arg), void *arg)
{
	const struct percpu_participant_records *all;
	uint64_t id;
	uint32_t n;
	int e;

	if (p->owners == NULL) {
		fn(PERCPU_PARTICIPANT_PRIVATE, percpu_participants_sum_own(p, bank), arg);
		return;
	}
	for (size_t block = 0; block < PERCPU_OWNER_BLOCKS; block++) {
		all = records_of(p, block, false, &e);
		if (all == NULL)
			continue;
		for (size_t i = 0; i < PERCPU_OWNER_SLOTS; i++) {
			id = __atomic_load_n(&all->slot[i].owner, __ATOMIC_ACQUIRE);
			n = id != 0 ? count_of(p, block, i, bank) : 0;
			/* In a damaged file the record may name an owner of another slot. */
			id = id - id % PERCPU_OWNERS_MAX + block * PERCPU_OWNER_SLOTS + i;
			if (n != 0)
				fn(id, n, arg);
		}
	}
}

/* A thread enters only after its block was made. So after a fence the keys of all such blocks are
 * seen. */
int percpu_participants_look_up(const struct percpu_participants *p)
{
	int e = 0;

	for (size_t block = 0; p->owners != NULL && block < PERCPU_OWNER_BLOCKS; block++)
		if (records_of(p, block, false, &e) == NULL && e != -ENOENT)
			return e;
	return 0;
}

int percpu_participants_fence(const struct percpu_participants *p)
{
	int e;

	percpu_full_fence();
	PERCPU_STEP("participant: to be fenced");
	e = percpu_region_fence(p->in.block.chunk->region);
	return e != 0 ? e : percpu_participants_look_up(p);
}

bool percpu_participants_alive(const struct percpu_participants *p, uint64_t id)
{
	return p->owners == NULL || percpu_owners_alive(p->owners, id);
}

int percpu_participants_lock(const struct percpu_participants *p, struct percpu_robust *h)
{
	return percpu_robust_lock(h, &p->control->lock, PERCPU_LOCK_NS);
}

/* Drop what the cells of a slot hold. The caller has the lock. */
static void drop_slot(const struct percpu_participants *p, size_t block, size_t i)
{
	struct percpu_participant_record *r =
		percpu_participants_record(p, block * PERCPU_OWNER_SLOTS + i);
	uint32_t sum;

	for (unsigned bank = 0; bank < PERCPU_BANKS; bank++) {
		sum = sum_slot(p, block, i, bank);
		if (sum == __atomic_load_n(&r->left[bank], __ATOMIC_RELAXED))
			continue;
		__atomic_fetch_or(&p->control->died, UINT32_C(1) << bank, __ATOMIC_RELEASE);
		PERCPU_STEP("participant: death noted");
		__atomic_store_n(&r->left[bank], sum, __ATOMIC_RELEASE);
		PERCPU_STEP("participant: dropped");
	}
}

/* Ask without the lock whether the owner lives: a dead one stays dead. Check with the lock whether
 * the record is still that owner's. */
static int drop_if_dead(struct percpu_participants *p, size_t block, size_t i)
{
	const struct percpu_participant_record *r =
		percpu_participants_record(p, block * PERCPU_OWNER_SLOTS + i);
	const uint64_t id = __atomic_load_n(&r->owner, __ATOMIC_ACQUIRE);
	struct percpu_robust h;
	int e;

	if (id == 0 || (count_of(p, block, i, 0) == 0 && count_of(p, block, i, 1) == 0) ||
	    percpu_participants_alive(p, id))
		return 0;
	PERCPU_STEP("participant: found dead");
	e = percpu_participants_lock(p, &h);
	if (e != 0)
		return e;
	if (__atomic_load_n(&r->owner, __ATOMIC_RELAXED) == id)
		drop_slot(p, block, i);
	percpu_robust_unlock(&h);
	return 0;
}

int percpu_participants_drop_dead(struct percpu_participants *p)
{
	int e, failed = 0;

	for (size_t block = 0; p->owners != NULL && block < PERCPU_OWNER_BLOCKS; block++)
		for (size_t i = 0;
		     i < PERCPU_OWNER_SLOTS && records_of(p, block, false, &e) != NULL; i++) {
			e = drop_if_dead(p, block, i);
			failed = e != 0 ? e : failed;
		}
	return failed;
}

/* Make the record of its slot this owner's. Returns 0 or -errno. */
static int begin_record(struct percpu_participants *p, uint64_t id)
{
	const size_t block = id % PERCPU_OWNERS_MAX / PERCPU_OWNER_SLOTS;
	const size_t i = id % PERCPU_OWNER_SLOTS;
	struct percpu_participant_record *r;
	struct percpu_owner_seen seen;
	struct percpu_robust h;
	int e;

	if (records_of(p, block, true, &e) == NULL)
		return e;
	r = percpu_participants_record(p, id);
	if (__atomic_load_n(&r->owner, __ATOMIC_ACQUIRE) == id)
		return 0;
	PERCPU_STEP("participant: to be recorded");
	e = percpu_participants_lock(p, &h);
	if (e != 0)
		return e;
	/* Another thread may have left the owners. Then the record is the next owner's, or soon
	 * is. */
	if (__atomic_load_n(&r->owner, __ATOMIC_RELAXED) != id &&
	    percpu_owner_look(p->owners, id % PERCPU_OWNERS_MAX, &seen) &&
	    seen.word / 2 == id / PERCPU_OWNERS_MAX) {
		drop_slot(p, block, i);
		__atomic_store_n(&r->owner, id, __ATOMIC_RELEASE);
		PERCPU_STEP("participant: recorded");
	}
	percpu_robust_unlock(&h);
	return 0;
}

/* Remember the cells, unless another thread has left the owners meanwhile. Returns whether it did
 * so. */
static bool remember_cell(struct percpu_participants *p, uint64_t id)
{
	const struct percpu_participant_cells c = percpu_participants_cells(p, id);
	bool still;

	percpu_process_lock();
	still = percpu_owner_is_still(p->owners, id);
	if (still) {
		__atomic_store_n(&p->last, id, __ATOMIC_RELEASE);
		__atomic_store_n(&p->self, id, __ATOMIC_RELEASE);
		if (!p->checked && p->in.stride == PERCPU_STRIDE)
			__atomic_store_n(&p->in.cell, c.chunk->base + c.offset, __ATOMIC_RELEASE);
	}
	percpu_process_unlock();
	return still;
}

uint64_t percpu_participants_adopt(struct percpu_participants *p)
{
	uint64_t id = percpu_participants_self(p);
	struct percpu_participant_records *all;
	int e;

	if (id != 0) /* always so in private memory */
		return id;
	id = percpu_owners_self(p->owners);
	if (id == 0)
		return 0;
	all = records_of(p, id % PERCPU_OWNERS_MAX / PERCPU_OWNER_SLOTS, false, &e);
	if (all == NULL ||
	    __atomic_load_n(&all->slot[id % PERCPU_OWNER_SLOTS].owner, __ATOMIC_ACQUIRE) != id)
		return 0;
	PERCPU_STEP("participant: to be adopted");
	return remember_cell(p, id) ? id : 0;
}

int percpu_participants_join(struct percpu_participants *p)
{
	uint64_t deadline, id;
	int e = 0;

	if (p->owners == NULL || percpu_participants_self(p) != 0)
		return 0;
	deadline = percpu_now_ns() + PERCPU_LOCK_NS;
	do {
		e = percpu_owner_await_leave(p->owners, deadline);
		if (e == 0)
			e = percpu_owners_join(p->owners);
		PERCPU_STEP("participant: an owner");
		id = percpu_owners_self(p->owners); /* 0 if another thread has left meanwhile */
		if (e == 0 && id != 0)
			e = begin_record(p, id);
		if (e != 0 || (id != 0 && remember_cell(p, id)))
			return e;
	} while (percpu_now_ns() < deadline);
	return -ETIMEDOUT;
}
