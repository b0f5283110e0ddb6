/* SPDX-License-Identifier: MIT */
/*
 * critical.c - critical sections: creation, forks, and which owner has a lane. critical_enter.c has
 * what enters and exits without the sequence.
 */
#include <errno.h>
#include <stdlib.h>

#include "critical.h"

_Static_assert(offsetof(struct percpu_critical_handle, critical.block) == 0, "begins every handle");

static struct percpu_critical_handle *privates; /* the process lock protects the list */

/* Free the lanes of threads that the child does not have. The forking thread stays inside. */
static void critical_mend_in_child(void)
{
	for (struct percpu_critical_handle *h = privates; h != NULL; h = h->next) {
		const uint64_t self = percpu_critical_self(&h->critical);

		for (unsigned lane = 0; lane < percpu_critical_lanes(&h->critical); lane++) {
			struct percpu_critical_head *head =
				percpu_critical_head_of(&h->critical, lane);

			if (head->inside != 0 && head->inside != self)
				head->inside = 0;
			if (head->taken != 0 && head->taken != self)
				head->taken = 0;
		}
	}
}

__attribute__((constructor)) static void critical_join_forks(void)
{
	static const struct percpu_fork_part part = { .in_child = critical_mend_in_child };

	percpu_fork_register(PERCPU_FORK_CRITICALS, &part);
}

static struct percpu_critical_control *critical_control(const struct percpu_block *b)
{
	return (struct percpu_critical_control *)percpu_block_bias(b);
}

_Static_assert(sizeof(struct percpu_critical_control) <= PERCPU_BLOCK_ALIGN, "adopted");

static void set_critical_size(struct percpu_plan *p, size_t size)
{
	p->touched = size != 0 && size <= PERCPU_CRITICAL_MAX_SIZE ?
			     sizeof(struct percpu_critical_head) + size :
			     0;
	p->size = p->touched == 0 || p->touched > PERCPU_BLOCK_ALIGN ? p->touched :
								       PERCPU_BLOCK_ALIGN;
}

static void start_critical(struct percpu_block *b)
{
	const struct percpu_critical_handle *h = (struct percpu_critical_handle *)b;
	struct percpu_critical_control *c = critical_control(b);

	c->owners = percpu_owners_key(h->owners);
	c->size = h->critical.size;
}

/* Take the size that another process has written, and check it; load each word once. */
static int adopt_critical(const struct percpu_block *found, struct percpu_plan *p)
{
	struct percpu_critical_handle *t = p->handle;
	const struct percpu_critical_control *c = critical_control(found);
	const uint64_t size = __atomic_load_n(&c->size, __ATOMIC_RELAXED);

	if (__atomic_load_n(&c->owners, __ATOMIC_RELAXED) != percpu_owners_key(t->owners) ||
	    size == 0 || size > PERCPU_CRITICAL_MAX_SIZE ||
	    (t->critical.size != 0 && t->critical.size != size))
		return -ENOENT;
	t->critical.size = size;
	set_critical_size(p, size);
	return 0;
}

/* Return the plan of new lanes; or, with size 0, of lanes of any size. */
static struct percpu_plan critical_plan(struct percpu_critical_handle *t, struct percpu_owners *o,
					size_t size)
{
	struct percpu_plan p = {
		.kind = PERCPU_KIND_CRITICAL,
		.align = PERCPU_BLOCK_ALIGN,
		.handle = t,
		.handle_size = sizeof(*t),
		.start = start_critical,
		.adopt = adopt_critical,
	};

	*t = (struct percpu_critical_handle){
		.critical.owner =
			o != NULL ? PERCPU_CRITICAL_NOT_JOINED : PERCPU_CRITICAL_BY_THREAD,
		.critical.size = size,
		.owners = o,
	};
	set_critical_size(&p, size);
	return p;
}

/* Forget the owner: this process is no longer that one. */
static void forget_critical(struct percpu_owners_user *u)
{
	struct percpu_critical_handle *h =
		percpu_owners_user_in(u, offsetof(struct percpu_critical_handle, user));

	__atomic_store_n(&h->critical.owner, PERCPU_CRITICAL_NOT_JOINED, __ATOMIC_RELAXED);
}

static int enlist_critical(int e, struct percpu_critical_handle *h, struct percpu_critical **ret)
{
	if (e != 0)
		return e;
	h->user.forget = forget_critical;
	percpu_owner_enlist(h->owners, &h->user);
	*ret = &h->critical;
	return 0;
}

int percpu_critical_create(size_t size, struct percpu_critical **ret)
{
	struct percpu_critical_handle t, *h = NULL;
	struct percpu_plan p = critical_plan(&t, NULL, size);
	int e = ret != NULL ? percpu_block_create(&p, &h) : -EINVAL;

	if (e != 0)
		return e;
	percpu_process_lock();
	h->next = privates;
	privates = h;
	percpu_process_unlock();
	*ret = &h->critical;
	return 0;
}

int percpu_critical_create_in(struct percpu_owners *o, size_t size, struct percpu_critical **ret)
{
	struct percpu_critical_handle t, *h = NULL;
	struct percpu_plan p = critical_plan(&t, o, size);
	int e;

	if (o == NULL || ret == NULL)
		return -EINVAL;
	e = percpu_block_create_in(o->block.chunk->region, &p, &h);
	return enlist_critical(e, h, ret);
}

int percpu_critical_open(struct percpu_owners *o, unsigned root, size_t size,
			 struct percpu_critical **ret)
{
	struct percpu_critical_handle t, *h = NULL;
	struct percpu_plan p = critical_plan(&t, o, size);
	int e;

	if (o == NULL || ret == NULL || p.size == 0)
		return -EINVAL;
	e = percpu_block_open(o->block.chunk->region, root, &p, &h);
	return enlist_critical(e, h, ret);
}

int percpu_critical_attach(struct percpu_owners *o, uint64_t key, struct percpu_critical **ret)
{
	struct percpu_critical_handle t, *h = NULL;
	struct percpu_plan p = critical_plan(&t, o, 0);
	int e;

	if (o == NULL || ret == NULL)
		return -EINVAL;
	p.size = PERCPU_BLOCK_ALIGN; /* until it is known */
	e = percpu_block_attach(o->block.chunk->region, key, &p, &h);
	return enlist_critical(e, h, ret);
}

uint64_t percpu_critical_key(const struct percpu_critical *c)
{
	return percpu_block_key(c, PERCPU_KIND_CRITICAL);
}

static void delist_private(const struct percpu_critical_handle *h)
{
	struct percpu_critical_handle **at = &privates;

	percpu_process_lock();
	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	percpu_process_unlock();
}

void percpu_critical_detach(struct percpu_critical *c)
{
	struct percpu_critical_handle *h = (struct percpu_critical_handle *)c;

	if (c == NULL)
		return;
	if (h->owners == NULL) {
		percpu_critical_destroy(c);
		return;
	}
	percpu_owner_delist(h->owners, &h->user);
	free(h);
}

void percpu_critical_destroy(struct percpu_critical *c)
{
	struct percpu_critical_handle *h = (struct percpu_critical_handle *)c;

	if (c == NULL)
		return;
	if (h->owners == NULL)
		delist_private(h);
	else
		percpu_owner_delist(h->owners, &h->user);
	percpu_block_destroy(h);
}

size_t percpu_critical_size(const struct percpu_critical *c)
{
	return c != NULL ? c->size : 0;
}

unsigned percpu_critical_lanes(const struct percpu_critical *c)
{
	return c != NULL ? 2 * c->block.chunk->cpus : 0;
}

const void *percpu_critical_cell(const struct percpu_critical *c, unsigned lane)
{
	return lane < percpu_critical_lanes(c) ? percpu_critical_head_of(c, lane) + 1 : NULL;
}

int percpu_critical_join(struct percpu_critical_handle *h, uint64_t *ret_self)
{
	const uint64_t deadline = percpu_now_ns() + PERCPU_LOCK_NS;
	uint64_t id;
	int e;

	*ret_self = percpu_critical_self(&h->critical);
	while (*ret_self == PERCPU_CRITICAL_NOT_JOINED) {
		e = percpu_owner_await_leave(h->owners, deadline);
		if (e == 0)
			e = percpu_owners_join(h->owners);
		if (e != 0)
			return e;
		PERCPU_STEP("critical: joined");
		percpu_process_lock();
		id = percpu_owners_self(h->owners);
		if (percpu_owner_is_still(h->owners, id)) {
			*ret_self = id;
			__atomic_store_n(&h->critical.owner, id, __ATOMIC_RELAXED);
		}
		percpu_process_unlock();
		if (percpu_now_ns() >= deadline)
			return -ETIMEDOUT;
	}
	return 0;
}

bool percpu_critical_is_dead(const struct percpu_critical_handle *h, uint64_t owner)
{
	return h->owners != NULL && owner != 0 && !percpu_owners_alive(h->owners, owner);
}
