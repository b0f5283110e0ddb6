/* SPDX-License-Identifier: MIT */
/*
 * objcache_check.c - PERCPU_OBJCACHE_DEBUG: records the objects of a cache, which of them are
 * free, and a hash of the bytes of each free one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cpu/debug.h"
#include "caches.h"

struct known {
	const void *obj; /* NULL: an empty slot */
	bool free;
	uint64_t hash; /* of a free object's bytes */
};

struct percpu_objcache_check {
	char name[32];
	size_t size;
	struct known *slots; /* a hash table with linear probing, at most half full */
	size_t mask;	     /* slots - 1 */
	size_t n;
};

#define FIRST_SLOTS 64

static pthread_mutex_t objcache_check_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_objcache_checks(void)
{
	percpu_mutex_lock(&objcache_check_lock);
}

static void unlock_objcache_checks(void)
{
	percpu_mutex_unlock(&objcache_check_lock);
}

__attribute__((constructor)) static void objcache_check_join_forks(void)
{
	static const struct percpu_fork_part part = { .before = lock_objcache_checks,
						      .after = unlock_objcache_checks };

	percpu_fork_register(PERCPU_FORK_OBJCACHE_CHECKS, &part);
}

void percpu_objcache_check_explain(const char *name, bool arguments, int e)
{
	const char *what = "has no object to return";

	if (arguments)
		what = "was asked with flags that it does not know, or with NULL for the object";
	else if (e == -ENOSPC)
		what = "is at its limit: raise it, put objects, or wait with PERCPU_OBJCACHE_WAIT";
	percpu_debug_say("objcache \"%.31s\" %s: %s", name, what, strerror(-e));
}

__attribute__((noreturn)) static void complain_of(const struct percpu_objcache_check *c,
						  const void *obj, const char *what)
{
	percpu_debug_die("objcache \"%s\": object %p %s", c->name, obj, what);
}

int percpu_objcache_check_create(const char *name, size_t size, struct percpu_objcache_check **ret)
{
	struct percpu_objcache_check *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	(void)snprintf(c->name, sizeof(c->name), "%s", name);
	c->size = size;
	*ret = c;
	return 0;
}

void percpu_objcache_check_destroy(struct percpu_objcache_check *c)
{
	if (c == NULL)
		return;
	free(c->slots);
	free(c);
}

static uint64_t hash_bytes(const unsigned char *p, size_t n)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static size_t place_of(const struct percpu_objcache_check *c, const void *obj)
{
	return (size_t)((uint64_t)(uintptr_t)obj * UINT64_C(0x9e3779b97f4a7c15) >> 20) & c->mask;
}

/* Return the slot of the object, or the empty slot where it belongs. */
static struct known *look_up(const struct percpu_objcache_check *c, const void *obj)
{
	size_t i = place_of(c, obj);

	while (c->slots[i].obj != NULL && c->slots[i].obj != obj)
		i = (i + 1) & c->mask;
	return &c->slots[i];
}

static int grow_table(struct percpu_objcache_check *c)
{
	size_t slots = c->slots != NULL ? c->mask + 1 : 0;
	size_t more = slots != 0 ? 2 * slots : FIRST_SLOTS;
	struct known *old = c->slots, *larger = calloc(more, sizeof(*larger));

	if (larger == NULL)
		return -ENOMEM;
	c->slots = larger;
	c->mask = more - 1;
	for (size_t i = 0; i < slots; i++)
		if (old[i].obj != NULL)
			*look_up(c, old[i].obj) = old[i];
	free(old);
	return 0;
}

int percpu_objcache_check_add(struct percpu_objcache_check *c, const void *obj)
{
	struct known *k;
	int e = 0;

	lock_objcache_checks();
	if (c->slots == NULL || 2 * (c->n + 1) > c->mask + 1)
		e = grow_table(c);
	if (e == 0) {
		k = look_up(c, obj);
		if (k->obj != NULL)
			complain_of(c, obj,
				    "was returned by the backend, which has it out already");
		*k = (struct known){ .obj = obj };
		c->n++;
		PERCPU_STEP("objcache: object known");
	}
	unlock_objcache_checks();
	return e;
}

static void expect_unchanged(const struct percpu_objcache_check *c, const struct known *k)
{
	if (k->free && hash_bytes(k->obj, c->size) != k->hash)
		complain_of(c, k->obj, "was written to after it was put");
}

/* Objects behind the removed one, up to the next empty slot, move to their places. */
void percpu_objcache_check_remove(struct percpu_objcache_check *c, const void *obj)
{
	struct known *k, moved;
	size_t i;

	lock_objcache_checks();
	k = look_up(c, obj);
	expect_unchanged(c, k);
	*k = (struct known){ .obj = NULL };
	c->n--;
	for (i = ((size_t)(k - c->slots) + 1) & c->mask; c->slots[i].obj != NULL;
	     i = (i + 1) & c->mask) {
		moved = c->slots[i];
		c->slots[i] = (struct known){ .obj = NULL };
		*look_up(c, moved.obj) = moved;
	}
	unlock_objcache_checks();
}

void percpu_objcache_check_get(struct percpu_objcache_check *c, const void *obj)
{
	struct known *k;

	lock_objcache_checks();
	k = look_up(c, obj);
	expect_unchanged(c, k);
	k->free = false;
	unlock_objcache_checks();
}

void percpu_objcache_check_put(struct percpu_objcache_check *c, const void *obj, bool keep)
{
	struct known *k;

	lock_objcache_checks();
	k = c->slots != NULL ? look_up(c, obj) : NULL;
	if (k == NULL || k->obj == NULL)
		complain_of(c, obj,
			    keep ? "is put, but is not of this cache, or was destroyed" :
				   "is destroyed, but is not of this cache, or was before");
	if (k->free)
		complain_of(c, obj,
			    keep ? "is put, but is free: put twice" :
				   "is destroyed, but is free: put before");
	k->free = keep;
	k->hash = keep ? hash_bytes(obj, c->size) : 0;
	unlock_objcache_checks();
}
