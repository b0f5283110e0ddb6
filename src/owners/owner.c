/* SPDX-License-Identifier: MIT */
/*
 * owner.c - tables of owners, and which slots this process has in them. owner_slot.c handles single
 * slots. docs/owners/owner.md has the protocol.
 */
#include <limits.h>
#include <stdlib.h>

#include "owners.h"

_Static_assert(offsetof(struct percpu_owners, block) == 0, "begins every handle");

/* The process lock protects these. */
static struct percpu_owners *tables;	/* all handles of this process */
static struct percpu_identity identity; /* of this process; pid 0: not known yet */
static unsigned joining;		/* threads that are about to take a slot */

static void forget_all(struct percpu_owners *o)
{
	for (struct percpu_owners_user *u = o->users; u != NULL; u = u->next)
		u->forget(u);
}

/* Forget the slots, and what objects have by them: they are the parent's. */
static void owners_mend_in_child(void)
{
	identity.pid = 0;
	joining = 0;
	for (struct percpu_owners *o = tables; o != NULL; o = o->next) {
		o->self = 0;
		o->leaving = 0;
		o->naming = 0;
		forget_all(o);
	}
}

__attribute__((constructor)) static void owners_join_forks(void)
{
	static const struct percpu_fork_part part = { .in_child = owners_mend_in_child };

	percpu_fork_register(PERCPU_FORK_OWNERS, &part);
}

struct percpu_identity percpu_owner_me(void)
{
	struct percpu_identity me;

	percpu_process_lock();
	/* Another pid: a child of _Fork(). No space: perhaps no file of /proc could be opened. */
	if (identity.pid != (uint32_t)getpid() || identity.space == 0)
		identity = percpu_identity();
	me = identity;
	percpu_process_unlock();
	return me;
}

void percpu_owner_enlist(struct percpu_owners *o, struct percpu_owners_user *u)
{
	percpu_process_lock();
	u->next = o->users;
	o->users = u;
	percpu_process_unlock();
}

void percpu_owner_delist(struct percpu_owners *o, const struct percpu_owners_user *u)
{
	struct percpu_owners_user **at;

	percpu_process_lock();
	for (at = &o->users; *at != u; at = &(*at)->next)
		;
	*at = u->next;
	percpu_process_unlock();
}

static bool is_in_one_file(const struct percpu_owners *a, const struct percpu_owners *b)
{
	return a->device == b->device && a->inode == b->inode;
}

bool percpu_owner_is_ours(const struct percpu_owners *o, uint64_t byte)
{
	bool ours = false;
	uint64_t first;
	size_t slot;

	percpu_process_lock();
	for (const struct percpu_owners *t = tables; t != NULL && !ours; t = t->next) {
		slot = t->self % PERCPU_OWNERS_MAX;
		first = __atomic_load_n(&t->bytes[slot / PERCPU_OWNER_SLOTS], __ATOMIC_RELAXED);
		ours = t->self != 0 && first + slot % PERCPU_OWNER_SLOTS == byte &&
		       is_in_one_file(t, o);
	}
	percpu_process_unlock();
	return ours;
}

bool percpu_owner_joins(unsigned known)
{
	bool more;

	percpu_process_lock();
	more = joining > known;
	percpu_process_unlock();
	return more;
}

static struct percpu_plan owners_plan(struct percpu_owners *t)
{
	*t = (struct percpu_owners){ .self = 0 };
	return (struct percpu_plan){
		.kind = PERCPU_KIND_OWNERS,
		.size = sizeof(struct percpu_owners_control),
		.touched = 0,
		.align = PERCPU_BLOCK_ALIGN,
		.handle = t,
		.handle_size = sizeof(*t),
	};
}

static int check_owners_region(const struct percpu_region *r)
{
	if (r == NULL || !r->shared)
		return -EINVAL;
	return r->file.fd >= 0 ? 0 : -ENOTSUP; /* without PERCPU_REGION_OWNERS */
}

/* Enter the table in the list of the process, unless e is an error. Returns e. */
static int enlist_table(int e, struct percpu_owners *o, struct percpu_owners **ret)
{
	if (e != 0)
		return e;
	o->device = o->block.chunk->region->file.device;
	o->inode = o->block.chunk->region->file.inode;
	percpu_process_lock();
	o->next = tables;
	tables = o;
	percpu_process_unlock();
	*ret = o;
	return 0;
}

int percpu_owners_create_in(struct percpu_region *r, struct percpu_owners **ret)
{
	struct percpu_owners t, *o = NULL;
	struct percpu_plan p = owners_plan(&t);
	int e = ret != NULL ? check_owners_region(r) : -EINVAL;

	if (e == 0)
		e = percpu_block_create_in(r, &p, &o);
	return enlist_table(e, o, ret);
}

int percpu_owners_open(struct percpu_region *r, unsigned root, struct percpu_owners **ret)
{
	struct percpu_owners t, *o = NULL;
	struct percpu_plan p = owners_plan(&t);
	int e = ret != NULL ? check_owners_region(r) : -EINVAL;

	if (e == 0)
		e = percpu_block_open(r, root, &p, &o);
	return enlist_table(e, o, ret);
}

int percpu_owners_attach(struct percpu_region *r, uint64_t key, struct percpu_owners **ret)
{
	struct percpu_owners t, *o = NULL;
	struct percpu_plan p = owners_plan(&t);
	int e = ret != NULL ? check_owners_region(r) : -EINVAL;

	if (e == 0)
		e = percpu_block_attach(r, key, &p, &o);
	return enlist_table(e, o, ret);
}

uint64_t percpu_owners_key(const struct percpu_owners *o)
{
	return percpu_block_key(o, PERCPU_KIND_OWNERS);
}

void percpu_owners_unlist(struct percpu_owners *o)
{
	struct percpu_owners **at;

	percpu_owners_leave(o);
	percpu_process_lock();
	for (at = &tables; *at != o; at = &(*at)->next)
		;
	*at = o->next;
	percpu_process_unlock();
}

void percpu_owners_detach(struct percpu_owners *o)
{
	if (o == NULL)
		return;
	percpu_owners_unlist(o);
	free(o);
}

int percpu_owners_destroy(struct percpu_owners *o)
{
	const size_t size = PERCPU_OWNER_SLOTS * sizeof(struct percpu_owner_slot);
	struct percpu_owners_control *c;
	struct percpu_region *r;

	if (o == NULL)
		return 0;
	c = (struct percpu_owners_control *)percpu_block_bias(&o->block);
	r = o->block.chunk->region;
	if (percpu_owner_reach_blocks(r, c->block, size) != 0)
		return -ENOMEM;
	percpu_owners_unlist(o);
	percpu_owner_free_blocks(r, c->block, size);
	percpu_block_destroy(o);
	return 0;
}

static void begin_to_join(void)
{
	percpu_process_lock();
	joining++;
	percpu_process_unlock();
}

/* Record the slot that was taken, or none if id is 0. If another thread was first, give this slot
 * back. */
static void end_to_join(struct percpu_owners *o, uint64_t id)
{
	bool spare;

	percpu_process_lock();
	spare = id != 0 && o->self != 0;
	if (!spare) {
		if (id != 0)
			__atomic_store_n(&o->self, id, __ATOMIC_RELEASE);
		joining--;
	}
	percpu_process_unlock();
	if (spare) {
		percpu_owner_give_back(o, id);
		end_to_join(o, 0);
	}
}

static int join_owners(struct percpu_owners *o, struct percpu_owner_wish *w)
{
	uint64_t id = 0;
	int e, cancel;

	if (percpu_owners_self(o) != 0)
		return 0;
	if (!o->block.chunk->region->writable)
		return -EROFS;
	cancel = percpu_defer_cancel(); /* files are opened and closed */
	begin_to_join();
	e = percpu_owner_take(o, w, &id);
	PERCPU_STEP("owner: to be known");
	end_to_join(o, id);
	if (e == 0)
		percpu_owner_give_back_former(o);
	percpu_restore_cancel(cancel);
	return e;
}

int percpu_owners_join(struct percpu_owners *o)
{
	struct percpu_owner_wish none = { .name = "" };

	return o != NULL ? join_owners(o, &none) : -EINVAL;
}

/* Wait until no other thread joins by a name, and let the others wait: a thread that resumes must
 * not take one of its own process, which has the slot already, for a living namesake. Returns 0 or
 * -ETIMEDOUT. */
static int begin_naming(struct percpu_owners *o)
{
	const uint64_t deadline = percpu_now_ns() + PERCPU_LOCK_NS;

	while (__atomic_exchange_n(&o->naming, 1, __ATOMIC_ACQUIRE) != 0) {
		PERCPU_STEP("owner: naming awaited");
		if (percpu_now_ns() >= deadline)
			return -ETIMEDOUT;
		percpu_futex_sleep(&o->naming, FUTEX_WAIT, 1, PERCPU_SECOND / 100);
	}
	return 0;
}

static void end_naming(struct percpu_owners *o)
{
	__atomic_store_n(&o->naming, 0, __ATOMIC_RELEASE);
	percpu_futex_rouse(&o->naming, FUTEX_WAKE, INT_MAX);
}

/* Return whether the process has the name by this handle. */
static bool has_own_name(const struct percpu_owners *o, const char *name)
{
	const uint64_t id = percpu_owners_self(o);
	struct percpu_owner_seen seen;

	return percpu_owner_look(o, id % PERCPU_OWNERS_MAX, &seen) &&
	       seen.word / 2 == id / PERCPU_OWNERS_MAX && percpu_owner_has_name(o, &seen, name);
}

int percpu_owner_join_as(struct percpu_owners *o, struct percpu_owner_wish *w)
{
	int e = percpu_owner_check_name(w->name);

	if (e == 0)
		e = begin_naming(o);
	if (e != 0)
		return e;
	e = join_owners(o, w);
	end_naming(o);
	return e == 0 && !has_own_name(o, w->name) ? -EALREADY : e;
}

int percpu_owners_join_as(struct percpu_owners *o, const char *name, unsigned flags)
{
	struct percpu_owner_wish w = { .name = name, .resumes = flags & PERCPU_OWNERS_RESUME };

	if (o == NULL || name == NULL || (flags & ~PERCPU_OWNERS_RESUME) != 0)
		return -EINVAL;
	return percpu_owner_join_as(o, &w);
}

void percpu_owners_leave(struct percpu_owners *o)
{
	uint64_t id = 0;

	if (o == NULL)
		return;
	percpu_process_lock();
	if (!o->leaving) {
		id = o->self;
		__atomic_store_n(&o->leaving, id != 0, __ATOMIC_RELAXED);
		forget_all(o);
	}
	percpu_process_unlock();
	if (id == 0)
		return;
	/* Keep self until the slot is free. Else another thread could take the slot as a dead
	 * owner's, and this one would unlock its byte. */
	percpu_owner_give_back(o, id);
	percpu_process_lock();
	__atomic_store_n(&o->self, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&o->leaving, 0, __ATOMIC_RELEASE);
	percpu_process_unlock();
	percpu_futex_rouse(&o->leaving, FUTEX_WAKE, INT_MAX);
}

int percpu_owner_await_leave(struct percpu_owners *o, uint64_t deadline_ns)
{
	while (__atomic_load_n(&o->leaving, __ATOMIC_ACQUIRE) != 0) {
		PERCPU_STEP("owner: leave awaited");
		if (percpu_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
		percpu_futex_sleep(&o->leaving, FUTEX_WAIT, 1, PERCPU_SECOND / 100);
	}
	return 0;
}

uint64_t percpu_owners_self(const struct percpu_owners *o)
{
	return o != NULL ? __atomic_load_n(&o->self, __ATOMIC_ACQUIRE) : 0;
}

int percpu_owners_alive(const struct percpu_owners *o, uint64_t id)
{
	struct percpu_owner_seen seen;
	int cancel, lives;

	if (o != NULL && percpu_owner_is_hidden(o, id % PERCPU_OWNERS_MAX))
		return 1; /* not known; callers drop what a dead owner has */
	if (o == NULL || !percpu_owner_look(o, id % PERCPU_OWNERS_MAX, &seen) ||
	    seen.word / 2 != id / PERCPU_OWNERS_MAX)
		return 0;
	cancel = percpu_defer_cancel();
	lives = percpu_owner_lives(o, &seen, 0);
	percpu_restore_cancel(cancel);
	return lives;
}

size_t percpu_owners_list(const struct percpu_owners *o, struct percpu_owner_info *out, size_t n)
{
	struct percpu_owner_seen seen;
	size_t found = 0;
	int cancel;

	if (o == NULL || (out == NULL && n != 0))
		return 0;
	cancel = percpu_defer_cancel();
	for (size_t slot = 0; slot < PERCPU_OWNERS_MAX; slot++) {
		if (!percpu_owner_look(o, slot, &seen))
			continue;
		if (found < n) {
			out[found] = (struct percpu_owner_info){
				.id = seen.word / 2 * PERCPU_OWNERS_MAX + slot,
				.started = seen.started,
				.pid = seen.pid,
				.alive = percpu_owner_lives(o, &seen, 0),
			};
			percpu_owner_name(o, &seen, out[found].name);
		}
		found++;
	}
	percpu_restore_cancel(cancel);
	return found;
}
