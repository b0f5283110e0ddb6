/* SPDX-License-Identifier: MIT */
/*
 * zone_check.c - PERCPU_ZONE_DEBUG: records which items are allocated, and fills free items with
 * poison.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cpu/debug.h"
#include "caches.h"

#define POISON 0xdb

struct percpu_zone_check {
	char name[32];
	const struct percpu_region *region;
	bool own; /* only this zone uses the region */
	size_t size;
	uint64_t (*live)[PERCPU_UNITS / 64];  /* per chunk: an allocated item begins at the unit */
	uint64_t (*stale)[PERCPU_UNITS / 64]; /* per chunk: a poisoned free item begins there */
	uint32_t chunks;
	uint32_t reclaims; /* in progress; items freed meanwhile may lose their poison */
	uint32_t forks;	   /* at the begin of the last reclaim; those of a parent never end here */
};

static uint32_t forks; /* how many forks made this process, since the first one */
static pthread_mutex_t check_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_checks(void)
{
	percpu_mutex_lock(&check_lock);
}

static void unlock_checks(void)
{
	percpu_mutex_unlock(&check_lock);
}

static void count_fork(void)
{
	forks++;
}

__attribute__((constructor)) static void zone_check_join_forks(void)
{
	static const struct percpu_fork_part part = { .before = lock_checks,
						      .after = unlock_checks,
						      .in_child = count_fork };

	percpu_fork_register(PERCPU_FORK_ZONE_CHECKS, &part);
}

void percpu_zone_check_explain(const char *name, const char *what)
{
	percpu_debug_say("zone \"%.31s\" %s", name, what);
}

__attribute__((noreturn)) static void complain(const struct percpu_zone_check *c, const void *item,
					       const char *what)
{
	percpu_debug_die("zone \"%s\": item %p %s", c->name, item, what);
}

int percpu_zone_check_create(const char *name, const struct percpu_region *r, bool own, size_t size,
			     struct percpu_zone_check **ret)
{
	struct percpu_zone_check *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	(void)snprintf(c->name, sizeof(c->name), "%s", name);
	c->region = r;
	c->own = own;
	c->size = size;
	*ret = c;
	return 0;
}

void percpu_zone_check_destroy(struct percpu_zone_check *c)
{
	if (c == NULL)
		return;
	free(c->live);
	free(c->stale);
	free(c);
}

static struct percpu_chunk *find_item(const struct percpu_zone_check *c, const void *item,
				      size_t *ret_offset)
{
	struct percpu_chunk *k = percpu_region_chunk(c->region, item);

	if (k != NULL)
		*ret_offset = (size_t)((const char *)item - k->base);
	return k;
}

/* Make room for the bits of so many chunks. Return 0 or -ENOMEM. */
static int check_grow(struct percpu_zone_check *c, uint32_t chunks)
{
	void *live, *stale;

	if (chunks <= c->chunks)
		return 0;
	live = realloc(c->live, chunks * sizeof(*c->live));
	if (live == NULL)
		return -ENOMEM;
	c->live = live;
	stale = realloc(c->stale, chunks * sizeof(*c->stale));
	if (stale == NULL)
		return -ENOMEM;
	c->stale = stale;
	memset(c->live + c->chunks, 0, (chunks - c->chunks) * sizeof(*c->live));
	memset(c->stale + c->chunks, 0, (chunks - c->chunks) * sizeof(*c->stale));
	c->chunks = chunks;
	return 0;
}

static bool is_poisoned(const unsigned char *cell, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (cell[i] != POISON)
			return false;
	return true;
}

int percpu_zone_check_alloc(struct percpu_zone_check *c, const void *item)
{
	size_t offset = 0;
	const struct percpu_chunk *k = find_item(c, item, &offset);
	uint64_t bit = UINT64_C(1) << (offset / k->unit % 64);
	size_t word = offset / k->unit / 64;
	int e;

	lock_checks();
	e = check_grow(c, k->index + 1);
	if (e == 0) {
		for (uint32_t cpu = 0; (c->stale[k->index][word] & bit) && cpu < k->cpus; cpu++)
			if (!is_poisoned((unsigned char *)percpu_chunk_lane(k, cpu, offset),
					 c->size))
				complain(c, item, "was written to after it was freed");
		c->stale[k->index][word] &= ~bit;
		c->live[k->index][word] |= bit;
	}
	unlock_checks();
	return e;
}

void percpu_zone_check_free(struct percpu_zone_check *c, const void *item)
{
	size_t offset = 0, word;
	const struct percpu_chunk *k = find_item(c, item, &offset);
	uint64_t bit;

	if (k == NULL)
		complain(c, item, "is not of this zone");
	bit = UINT64_C(1) << (offset / k->unit % 64);
	word = offset / k->unit / 64;
	lock_checks();
	if (offset % k->unit != 0 || k->index >= c->chunks || !(c->live[k->index][word] & bit))
		complain(c, item, "is freed, but not allocated: freed twice, or not its start");
	c->live[k->index][word] &= ~bit;
	PERCPU_STEP("zone: item checked");
	/* In a region with other users, they may store to memory that is free here. */
	if (c->own && (c->reclaims == 0 || c->forks != forks))
		c->stale[k->index][word] |= bit;
	unlock_checks();
}

/* Pages that were returned to the system have lost their poison. */
void percpu_zone_check_reclaim(struct percpu_zone_check *c, bool begins)
{
	lock_checks();
	if (begins && c->chunks != 0)
		memset(c->stale, 0, c->chunks * sizeof(*c->stale));
	if (begins && c->forks != forks)
		c->reclaims = 0;
	c->forks = forks;
	c->reclaims += begins ? 1 : (uint32_t)-1;
	unlock_checks();
}

void percpu_zone_check_poison(const struct percpu_zone_check *c, void *item)
{
	for (uint32_t cpu = 0; cpu < c->region->cpus; cpu++)
		memset(percpu_zone_get(item, cpu), POISON, c->size);
}
