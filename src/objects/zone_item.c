/* SPDX-License-Identifier: MIT */
/*
 * zone_item.c - how the items of a zone move between the region, the depot, the caches and
 * the caller. zone.c says what these are for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include <percpu/zone.h>

#include "objects.h"

#define CACHE PERCPU_ZONE_CACHE
#define BATCH (CACHE / 2)
#define BATCH_BYTES 4096 /* larger items come from the region in smaller numbers */

static struct percpu_chunk *find(const struct percpu_zone *z, const void *item, size_t *ret_offset)
{
	struct percpu_chunk *k = percpu_region_chunk(z->region, item);

	if (k != NULL)
		*ret_offset = (size_t)((const char *)item - k->base);
	return k;
}

static size_t limit_of(const struct percpu_zone *z)
{
	size_t limit = __atomic_load_n(&z->limit, __ATOMIC_RELAXED);

	return limit != 0 ? limit : SIZE_MAX;
}

/* The limit was lowered below what is taken. */
bool percpu_zone_is_over(const struct percpu_zone *z)
{
	return __atomic_load_n(&z->taken, __ATOMIC_RELAXED) > limit_of(z);
}

/* Claim up to n items below the limit. Returns how many. */
static size_t claim(struct percpu_zone *z, size_t n)
{
	size_t limit = limit_of(z), taken = __atomic_load_n(&z->taken, __ATOMIC_RELAXED), got;

	do {
		got = taken >= limit ? 0 : limit - taken < n ? limit - taken : n;
		PERCPU_STEP("zone: limit read");
	} while (got != 0 && !__atomic_compare_exchange_n(&z->taken, &taken, taken + got, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return got;
}

/* Free the items in the region. Returns how many; the others are lost, and count as taken. */
static size_t give_back(struct percpu_zone *z, void *const *items, size_t n)
{
	n = percpu_region_free_many(z->region, items, n, z->size);
	__atomic_fetch_sub(&z->taken, n, __ATOMIC_RELEASE);
	return n;
}

static void empty_depot(struct percpu_zone *z)
{
	void *items[BATCH];
	size_t n;

	while ((n = percpu_depot_take(&z->depot, true, items, BATCH)) != 0)
		give_back(z, items, n);
}

/* Put items into the depot. A thread that lowers the limit empties the depot afterwards. If
 * it did so before these items came, this thread sees the lower limit and empties the
 * depot. */
static void put_away(struct percpu_zone *z, void *const *items, size_t n)
{
	PERCPU_STEP("zone: to be put away");
	if (percpu_depot_put(&z->depot, items, n) != 0)
		give_back(z, items, n);
	else if (percpu_zone_is_over(z))
		empty_depot(z);
}

static ssize_t from_region(struct percpu_zone *z, void **ret, size_t n)
{
	ssize_t got;

	n = claim(z, n);
	if (n == 0)
		return -ENOSPC;
	got = percpu_region_alloc_many(z->region, z->size, z->align, n, ret);
	if (got < (ssize_t)n)
		__atomic_fetch_sub(&z->taken, n - (got > 0 ? (size_t)got : 0), __ATOMIC_RELEASE);
	return got;
}

/* Get up to half a cache of items, one of them for the caller. */
static int refill(struct percpu_zone *z, void **ret)
{
	size_t batch = z->size <= BATCH_BYTES / BATCH ? BATCH : BATCH_BYTES / z->size + 1;
	void *items[BATCH];
	ssize_t got = (ssize_t)percpu_depot_take(&z->depot, false, items, BATCH), i = 1;

	if (got == 0)
		got = from_region(z, items, z->cache != NULL ? batch : 1);
	if (got < 0)
		return (int)got;
	while (i < got && percpu_local_push(z->cache, CACHE, items[i]) == 0)
		i++;
	if (i < got)
		put_away(z, &items[i], (size_t)(got - i));
	*ret = items[0];
	return 0;
}

/* A region may be made for more CPUs than there are; those have no cache. */
const struct percpu_array *percpu_zone_cache_of(const struct percpu_zone *z, unsigned cpu)
{
	return z->cache != NULL ? percpu_local_cell(z->cache, cpu) : NULL;
}

/* Take an item from the depot, or from the cache of any CPU. */
static int steal(struct percpu_zone *z, void **ret)
{
	int e;

	if (percpu_depot_take(&z->depot, true, ret, 1) != 0)
		return 0;
	for (unsigned cpu = 0; percpu_zone_cache_of(z, cpu) != NULL; cpu++) {
		e = percpu_local_pop_cpu(z->cache, cpu, ret);
		if (e != -ENOENT)
			return e;
	}
	return -ENOSPC;
}

static int get_item(struct percpu_zone *z, void **ret)
{
	int e;

	if (z->cache != NULL && percpu_local_pop(z->cache, ret) == 0)
		return 0;
	e = refill(z, ret);
	return e == -ENOSPC && limit_of(z) != SIZE_MAX ? steal(z, ret) : e;
}

/* Wait until another thread frees an item, and take one. A thread that frees looks for
 * waiters after its item is visible; this thread's fence guarantees that order, so that
 * threads that free need none. The time-out is for items freed in other processes. */
static int wait_for_item(struct percpu_zone *z, void **ret)
{
	uint32_t freed;
	int e;

	__atomic_fetch_add(&z->waits, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&z->waiters, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		freed = __atomic_load_n(&z->freed, __ATOMIC_ACQUIRE);
		if (percpu_fence() != 0) {
			/* A free may miss this waiter. Then the time-out ends the sleep. */
		}
		e = get_item(z, ret);
		if (e != -ENOSPC)
			break;
		percpu_futex_sleep(&z->freed, FUTEX_WAIT_PRIVATE, freed, PERCPU_SECOND / 100);
	}
	__atomic_fetch_sub(&z->waiters, 1, __ATOMIC_RELAXED);
	return e;
}

void percpu_zone_wake(struct percpu_zone *z)
{
	__atomic_fetch_add(&z->freed, 1, __ATOMIC_RELEASE);
	percpu_futex_rouse(&z->freed, FUTEX_WAKE_PRIVATE, 1);
}

static const char *explain_failure(const struct percpu_zone *z, int e)
{
	if (e != -ENOSPC)
		return "has no memory for another item";
	if (__atomic_load_n(&z->taken, __ATOMIC_RELAXED) >= limit_of(z))
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
	e = get_item(z, &item);
	if (e == -ENOSPC && (flags & PERCPU_ZONE_WAIT) && limit_of(z) != SIZE_MAX)
		e = wait_for_item(z, &item);
	if (e == 0 && z->check != NULL) {
		e = percpu_zone_check_alloc(z->check, item);
		if (e != 0)
			give_back(z, &item, 1);
	}
	if (e != 0) {
		if (z->check != NULL)
			percpu_zone_check_explain(z->name, explain_failure(z, e));
		__atomic_fetch_add(&z->failures, 1, __ATOMIC_RELAXED);
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

/* The usual case is one sequence, inlined here, so that the compiler saves no registers. */
int percpu_zone_alloc(struct percpu_zone *z, unsigned flags, void **ret)
{
	const struct percpu_local *cache;
	void *item;

	if (percpu_unlikely(z == NULL || ret == NULL || flags != 0 ||
			    !__atomic_load_n(&z->plain, __ATOMIC_RELAXED)))
		return alloc_slow(z, flags, ret);
	cache = z->cache;
	if (percpu_unlikely(percpu_seq_pop(cache->cell, cache->guard, cache->stride, &item)))
		return alloc_slow(z, flags, ret);
	*ret = item;
	percpu_counter_inc(z->requests);
	return 0;
}

/* The cache is full: move half of it, and the item, to the depot. */
static void flush(struct percpu_zone *z, void *item)
{
	void *items[BATCH + 1] = { item };
	size_t n = 1;

	while (n <= BATCH && percpu_local_pop(z->cache, &items[n]) == 0)
		n++;
	put_away(z, items, n);
}

static __attribute__((noinline)) int free_slow(struct percpu_zone *z, void *item)
{
	size_t offset;
	int e = 0;

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
	if (z->cache == NULL || percpu_zone_is_over(z))
		e = give_back(z, &item, 1) == 1 ? 0 : -ETIMEDOUT;
	else if (percpu_local_push(z->cache, CACHE, item) != 0)
		flush(z, item);
	if (__atomic_load_n(&z->waiters, __ATOMIC_RELAXED) != 0)
		percpu_zone_wake(z);
	return e;
}

int percpu_zone_free(struct percpu_zone *z, void *item)
{
	const struct percpu_local *cache;

	/* The usual case: a plain zone, and an address in its first chunk, or in another. */
	if (percpu_unlikely(z == NULL || !__atomic_load_n(&z->plain, __ATOMIC_RELAXED) ||
			    (uintptr_t)item % sizeof(uint64_t) != 0 ||
			    ((uintptr_t)item - z->base >= PERCPU_LANE_SIZE &&
			     percpu_region_lookup(z->region, item) == NULL)))
		return free_slow(z, item);
	cache = z->cache;
	if (percpu_unlikely(percpu_seq_push(cache->cell, cache->guard, cache->stride, CACHE, item)))
		return free_slow(z, item);
	if (percpu_unlikely(__atomic_load_n(&z->waiters, __ATOMIC_RELAXED) != 0))
		percpu_zone_wake(z);
	return 0;
}

/* Empty the caches of all CPUs, and the depot. */
void percpu_zone_drain(struct percpu_zone *z)
{
	void *item;

	empty_depot(z);
	while (steal(z, &item) == 0)
		give_back(z, &item, 1);
}
