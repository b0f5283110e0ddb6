/* SPDX-License-Identifier: MIT */
/*
 * grace.c - grace periods: create and free them; the slow paths of sections. grace.h says how they
 * work. grace_wait.c has the periods, and grace_call.c the callbacks.
 */
#include <stdlib.h>

#include "../cpu/debug.h"
#include "grace.h"

_Static_assert(offsetof(struct percpu_grace_handle, part.in) == 0, "begins every handle");

#define GRACE_MAX_TAG 0x7ffffff8U
#define GRACE_NEVER_IDLE UINT64_MAX /* no state */

/* All handles. The process lock protects the list. */
static struct percpu_grace_handle *all_graces;

/* Change the tag. A section that was begun under another tag is not this owner's. */
static void end_sections(struct percpu_grace_handle *h)
{
	struct percpu_participant *in = &h->part.in;

	__atomic_store_n(&in->tag, (in->tag + 8) & GRACE_MAX_TAG, __ATOMIC_RELAXED);
	h->open[0] = h->open[1] = 0;
}

static void forget_sections(struct percpu_owners_user *u)
{
	end_sections(percpu_owners_user_in(u, offsetof(struct percpu_grace_handle, user)));
}

/* Drop the parent's sections in the child. In a region the child counts as another owner, and the
 * callbacks remain the parent's. */
static void grace_mend_in_child(void)
{
	for (struct percpu_grace_handle *h = all_graces; h != NULL; h = h->next) {
		percpu_grace_mend_queue(h, percpu_grace_is_shared(h));
		if (percpu_grace_is_shared(h))
			continue;
		end_sections(h);
		for (unsigned bank = 0; bank < PERCPU_BANKS; bank++)
			percpu_participants_add(
				&h->part, bank,
				(int32_t)(0 - percpu_participants_sum_own(&h->part, bank)));
		h->part.control->word[PERCPU_GRACE_CLAIM] = 0;
		h->part.control->word[PERCPU_GRACE_WAITERS] = 0;
	}
}

__attribute__((constructor)) static void grace_join_forks(void)
{
	static const struct percpu_fork_part part = { .in_child = grace_mend_in_child };

	percpu_fork_register(PERCPU_FORK_GRACES, &part);
}

void percpu_grace_complain(const struct percpu_grace_handle *h, const char *what)
{
	percpu_debug_die("grace periods %p: %s", (const void *)h, what);
}

static void delist_grace(struct percpu_grace_handle *h)
{
	struct percpu_grace_handle **at;

	if (percpu_grace_is_shared(h))
		percpu_owner_delist(h->part.owners, &h->user);
	percpu_process_lock();
	for (at = &all_graces; *at != h; at = &(*at)->next)
		;
	*at = h->next;
	percpu_process_unlock();
}

static bool are_grace_flags(unsigned flags)
{
	return (flags & ~(unsigned)PERCPU_GRACE_DEBUG) == 0;
}

/* Fill in what only handles of grace periods have, and store the handle in ret, unless e is an
 * error. Returns e. */
static int begin_grace(int e, struct percpu_grace_handle *h, unsigned flags,
		       struct percpu_grace **ret)
{
	if (e != 0)
		return e;
	h->part.checked = percpu_debug_flags(flags, PERCPU_GRACE_DEBUG) != 0;
	if (h->part.checked)
		h->part.in.cell = NULL;
	h->user.forget = forget_sections;
	if (percpu_grace_is_shared(h))
		percpu_owner_enlist(h->part.owners, &h->user);
	percpu_process_lock();
	h->next = all_graces;
	all_graces = h;
	percpu_process_unlock();
	*ret = (struct percpu_grace *)h;
	return 0;
}

int percpu_grace_create(unsigned flags, struct percpu_grace **ret)
{
	struct percpu_grace_handle *h = NULL;
	int e;

	if (ret == NULL || !are_grace_flags(flags))
		return -EINVAL;
	e = percpu_participants_create(sizeof(*h), &h);
	return begin_grace(e, h, flags, ret);
}

static int open_grace(struct percpu_owners *o, struct percpu_participants_at at, unsigned flags,
		      struct percpu_grace **ret)
{
	struct percpu_grace_handle *h = NULL;
	int e;

	if (ret == NULL || !are_grace_flags(flags))
		return -EINVAL;
	e = percpu_participants_open(o, at, PERCPU_KIND_GRACE, sizeof(*h), &h);
	return begin_grace(e, h, flags, ret);
}

int percpu_grace_create_in(struct percpu_owners *o, unsigned flags, struct percpu_grace **ret)
{
	return open_grace(o, (struct percpu_participants_at){ PERCPU_AT_NEW, 0 }, flags, ret);
}

int percpu_grace_open(struct percpu_owners *o, unsigned root, unsigned flags,
		      struct percpu_grace **ret)
{
	return open_grace(o, (struct percpu_participants_at){ PERCPU_AT_ROOT, root }, flags, ret);
}

int percpu_grace_attach(struct percpu_owners *o, uint64_t key, unsigned flags,
			struct percpu_grace **ret)
{
	return open_grace(o, (struct percpu_participants_at){ PERCPU_AT_KEY, key }, flags, ret);
}

uint64_t percpu_grace_key(const struct percpu_grace *g)
{
	return percpu_block_key(g, PERCPU_KIND_GRACE);
}

int percpu_grace_enter_slow(struct percpu_grace *g)
{
	struct percpu_grace_handle *h = percpu_grace_handle(g);
	uint64_t state;
	unsigned bank;
	int e = percpu_participants_join(&h->part);

	if (e != 0)
		return e;
	do {
		state = percpu_grace_load(h);
		bank = percpu_grace_bank(state);
		PERCPU_STEP("grace: to enter");
	} while (percpu_participants_enter(&h->part, bank, state) != 0);
	if (h->part.checked)
		__atomic_fetch_add(&h->open[bank], 1, __ATOMIC_RELAXED);
	return (int)(g->in.tag + percpu_grace_at(state));
}

/* Return whether a period waits for sections of that bank: it is in progress, and new sections are
 * counted in the other bank. */
static bool is_grace_awaited(uint64_t state, unsigned bank)
{
	return state % 2 == 0 && percpu_grace_bank(state) != bank;
}

static void check_section_end(struct percpu_grace_handle *h, uint32_t at)
{
	if ((at & ~4U) != 0)
		percpu_grace_complain(h, "a section was ended by what is no token of one");
	if (__atomic_fetch_sub(&h->open[at / 4], 1, __ATOMIC_RELAXED) <= 0)
		percpu_grace_complain(h, "a section was ended that this process has not begun by "
					 "this handle, or has ended before");
}

int percpu_grace_exit_slow(struct percpu_grace *g, int token)
{
	struct percpu_grace_handle *h = percpu_grace_handle(g);
	const uint32_t at = (uint32_t)token - g->in.tag, bank = at / 4;
	uint64_t state;

	if (token >= 0 && (uint32_t)token < g->in.tag)
		return 0; /* begun before a fork, or as another owner */
	if (h->part.checked)
		check_section_end(h, at);
	if ((at & ~4U) != 0)
		return -EINVAL;
	if (percpu_participants_self(&h->part) == 0)
		return -EPERM;
	state = percpu_grace_load(h);
	PERCPU_STEP("grace: to exit");
	percpu_participants_leave(&h->part, bank,
				  is_grace_awaited(state, bank) ? GRACE_NEVER_IDLE : state);
	return 0;
}

static void look_for_sections(uint64_t id, uint32_t n, void *arg)
{
	const struct percpu_grace_handle *h = ((const void **)arg)[0];
	bool *found = ((void **)arg)[1];

	(void)id;
	*found = *found || ((int32_t)n > 0 && percpu_participants_alive(&h->part, id));
}

/* Return whether this process is in a section; with of_any, whether any living process is. */
static bool has_sections(const struct percpu_grace_handle *h, bool of_any)
{
	bool found = false;
	const void *arg[2] = { h, &found };

	for (unsigned bank = 0; bank < PERCPU_BANKS; bank++) {
		if ((int32_t)percpu_participants_sum_own(&h->part, bank) > 0)
			found = true;
		if (of_any && percpu_grace_is_shared(h))
			percpu_participants_each(&h->part, bank, look_for_sections, arg);
	}
	return found;
}

static int drop_grace(struct percpu_grace_handle *h, bool destroys)
{
	int e;

	if (percpu_grace_is_worker(h))
		return -EDEADLK;
	if (destroys && percpu_participants_look_up(&h->part) == -ENOMEM)
		return -ENOMEM; /* a process whose count cannot be read may be in a section */
	if (has_sections(h, destroys)) {
		if (h->part.checked)
			percpu_grace_complain(h, "the handle is freed while a section is open");
		return -EBUSY;
	}
	e = percpu_grace_end_worker(h);
	if (e != 0)
		return e;
	delist_grace(h);
	if (destroys)
		percpu_participants_destroy(&h->part);
	else
		percpu_participants_detach(&h->part);
	return 0;
}

int percpu_grace_detach(struct percpu_grace *g)
{
	return g != NULL ? drop_grace(percpu_grace_handle(g), false) : 0;
}

int percpu_grace_destroy(struct percpu_grace *g)
{
	return g != NULL ? drop_grace(percpu_grace_handle(g), true) : 0;
}
