/* SPDX-License-Identifier: MIT */
/*
 * rwlock_check.c - PERCPU_RWLOCK_DEBUG: how often this process holds a lock by a handle. The
 * process lock protects the counts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rwlock.h"

struct percpu_rwlock_check {
	uint64_t owner; /* of which these are: a child of fork is another one */
	uint64_t reading;
	uint64_t writing;
};

int percpu_rwlock_check_create(struct percpu_rwlock_check **ret)
{
	struct percpu_rwlock_check *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	*ret = c;
	return 0;
}

void percpu_rwlock_check_destroy(struct percpu_rwlock_check *c)
{
	free(c);
}

void percpu_rwlock_check_explain(const struct percpu_rwlock_handle *h, const char *what)
{
	dprintf(STDERR_FILENO, "libpercpu: rwlock %p %s\n", (const void *)h, what);
}

/* The caller has the process lock. */
static uint64_t *count_of_holds(struct percpu_rwlock_handle *h, bool to_write)
{
	struct percpu_rwlock_check *c = h->check;
	const uint64_t id = percpu_participants_self(&h->p);

	if (c->owner != id)
		*c = (struct percpu_rwlock_check){ .owner = id };
	return to_write ? &c->writing : &c->reading;
}

static bool is_held_by_another_handle(struct percpu_rwlock_handle *h, bool to_write)
{
	const uint64_t state = percpu_rwlock_load_state(h);

	if (percpu_participants_adopt(&h->p) == 0)
		return false;
	return to_write ? percpu_rwlock_is_writer(h) && (state == PERCPU_RWLOCK_WRITING ||
							 state == PERCPU_RWLOCK_REPAIRING_WRITER) :
			  (int32_t)percpu_participants_sum_own(&h->p, PERCPU_RWLOCK_INSIDE) > 0;
}

void percpu_rwlock_check_locked(struct percpu_rwlock_handle *h, bool to_write)
{
	percpu_process_lock();
	++*count_of_holds(h, to_write);
	percpu_process_unlock();
}

void percpu_rwlock_check_unlocked(struct percpu_rwlock_handle *h, bool to_write)
{
	bool held;

	percpu_process_lock();
	held = *count_of_holds(h, to_write) != 0;
	if (held)
		--*count_of_holds(h, to_write);
	percpu_process_unlock();
	if (held || is_held_by_another_handle(h, to_write))
		return;
	percpu_rwlock_check_explain(h, to_write ? "is unlocked by a process that does not write" :
						  "is unlocked by a process that does not read");
	abort();
}
