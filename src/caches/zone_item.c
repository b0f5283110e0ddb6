/* SPDX-License-Identifier: MIT */
/*
 * zone_item.c - allocation and free of a zone's items, over pool.c.
 */
#define _GNU_SOURCE
#include <errno.h>

#include <percpu/zone.h>

#include "caches.h"

static struct percpu_chunk *find(const struct percpu_zone *z, const void *item, size_t *ret_offset)
{
	struct percpu_chunk *k = percpu_region_chunk(z->region, item);

	if (k != NULL)
		*ret_offset = (size_t)((const char *)item - k->base);
	return k;
}

static ssize_t from_region(void *owner, void *how, void **ret, size_t n)
{
	const struct percpu_zone *z = owner;

	(void)how;
	return percpu_region_alloc_many(z->region, z->size, z->align, n, ret);
}

static size_t to_region(void *owner, void *const *items, size_t n)
{
	const struct percpu_zone *z = owner;

	return percpu_region_free_many(z->region, items, n, z->size);
}

/* percpu_reclaim() reclaims a region that is not the zone's. */
static void reclaim_items(void *owner)
{
	struct percpu_zone *z = owner;

	if (z->own)
		(void)percpu_zone_reclaim(z);
	else
		percpu_zone_drain(z);
}

const struct percpu_pool_backend percpu_zone_backend = { from_region, to_region, reclaim_items };

static const char *explain_failure(const struct percpu_zone *z, int e)
{
	if (e != -ENOSPC)
		return "has no memory for another item";
	if (__atomic_load_n(&z->pool.taken, __ATOMIC_RELAXED) >= percpu_pool_limit(&z->pool))
		return "is at its limit: raise it, free items, or wait with PERCPU_ZONE_WAIT";
	return "has no room for another item: the region's file system is full";
}

static __attribute__((noinline)) int alloc_slow(struct percpu_zone *z, unsigned flags, void **ret)
{
	struct percpu_chunk *k;
	size_t offset = 0;
	void *item;
	int e;

	if (z == NULL || ret == NULL || (flags & ~(PERCPU_ZONE_ZERO | PERCPU_ZONE_WAIT)))
		return -EINVAL;
	e = percpu_pool_get(&z->pool, NULL, &item);
	if (e == -ENOSPC && (flags & PERCPU_ZONE_WAIT) && percpu_pool_limit(&z->pool) != SIZE_MAX)
		e = percpu_pool_wait(&z->pool, NULL, &item);
	if (e == 0 && z->check != NULL) {
		e = percpu_zone_check_alloc(z->check, item);
		if (e != 0)
			(void)percpu_pool_unmake(&z->pool, &item, 1);
	}
	if (e != 0) {
		if (z->check != NULL)
			percpu_zone_check_explain(z->name, explain_failure(z, e));
		__atomic_fetch_add(&z->pool.failures, 1, __ATOMIC_RELAXED);
		return e;
	}
	if (flags & PERCPU_ZONE_ZERO) {
		k = find(z, item, &offset);
		percpu_chunk_clear(k, offset, z->size, z->size);
	}
	if (z->ctor != NULL)
		percpu_zone_foreach(z, item, z->ctor, z->arg);
	percpu_counter_inc(z->requests);
	*ret = item;
	return 0;
}

/* Usually one sequence suffices. The rest is in alloc_slow(), so that this path saves no
 * registers. */
int percpu_zone_alloc(struct percpu_zone *z, unsigned flags, void **ret)
{
	const struct percpu_local *cache;
	void *item;

	if (percpu_unlikely(z == NULL || ret == NULL || flags != 0 || !z->plain))
		return alloc_slow(z, flags, ret);
	cache = z->pool.arrays;
	if (percpu_unlikely(percpu_seq_pop(cache->cell, cache->guard, cache->stride, &item)))
		return alloc_slow(z, flags, ret);
	*ret = item;
	percpu_counter_inc(z->requests);
	return 0;
}

static __attribute__((noinline)) int free_slow(struct percpu_zone *z, void *item)
{
	size_t offset;

	if (item == NULL)
		return 0;
	if (z == NULL)
		return -EINVAL;
	if (z->check != NULL)
		percpu_zone_check_free(z->check, item);
	else if (find(z, item, &offset) == NULL || offset % sizeof(uint64_t) != 0)
		return -EINVAL;
	if (z->dtor != NULL)
		percpu_zone_foreach(z, item, z->dtor, z->arg);
	if (z->check != NULL)
		percpu_zone_check_poison(z->check, item);
	return percpu_pool_put(&z->pool, item);
}

int percpu_zone_free(struct percpu_zone *z, void *item)
{
	const struct percpu_local *cache;
	uint64_t room;

	/* Usually the zone is plain, and the address is in the first chunk or in another one. */
	if (percpu_unlikely(z == NULL || !z->plain || (uintptr_t)item % sizeof(uint64_t) != 0 ||
			    ((uintptr_t)item - z->base >= PERCPU_LANE_SIZE &&
			     percpu_region_lookup(z->region, item) == NULL)))
		return free_slow(z, item);
	cache = z->pool.arrays;
	room = __atomic_load_n(&z->room, __ATOMIC_RELAXED);
	PERCPU_STEP("zone: room read");
	if (percpu_unlikely(percpu_seq_push(cache->cell, cache->guard, cache->stride, room, item)))
		return free_slow(z, item);
	if (percpu_unlikely(__atomic_load_n(&z->room, __ATOMIC_RELAXED) != room))
		percpu_pool_pushed(&z->pool);
	return 0;
}
