/* SPDX-License-Identifier: MIT */
/*
 * zone.c - the per-CPU allocator.
 *
 * Items are cells of a region. Between the region, whose allocation takes a
 * lock, and the caller is a cache: an array per CPU that sequences push freed
 * items on and pop them from. It is filled and emptied by half, from and into
 * the depot, an array of free items, and what that lacks comes from the region.
 * A zone in a region that others use has no depot, so as not to hoard.
 *
 * "taken" counts the items that are out of the region: with callers, in caches
 * or in the depot. The limit is on that, so before it fails somebody, the depot
 * and the caches of all CPUs are searched.
 *
 * A zone in a shared region has no cache: what was in it would be lost with
 * the process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/zone.h>

#include "objects.h"

#define CACHE 64 /* items per CPU */
#define BATCH (CACHE / 2)
#define BATCH_BYTES 4096 /* larger items come from the region in smaller numbers */
#define MAX_ALIGN 64

struct percpu_zone {
	char name[32];
	size_t size;
	size_t align;
	struct percpu_region *region;
	bool own; /* the region goes with the zone */
	percpu_zone_fn *ctor, *dtor;
	void *arg;
	struct percpu_local *cache;	 /* NULL: shared, or checked */
	struct percpu_depot depot;	 /* what the cache has no room for */
	struct percpu_zone_check *check; /* PERCPU_ZONE_DEBUG */
	struct percpu_counter *requests;
	uintptr_t base; /* of lane 0 of the region's first chunk */

	/* atomic */
	bool plain; /* nothing to do with an item but cache it */
	size_t limit;
	size_t taken;
	uint64_t failures PERCPU_ALIGNED_WORD;
	uint64_t waits PERCPU_ALIGNED_WORD;
	uint32_t waiters; /* threads in wait_for_item() */
	uint32_t freed;	  /* futex: changes with each free while there are any */
};

static struct percpu_chunk *find(const struct percpu_zone *z, const void *item, size_t *ret_offset)
{
	struct percpu_chunk *k = percpu_region_chunk(z->region, item);

	if (k != NULL)
		*ret_offset = (size_t)((const char *)item - k->base);
	return k;
}

/* Creation */

/* What is wrong with the arguments, and the error that it is; NULL if nothing. */
static const char *find_fault(const char *name, size_t size, const struct percpu_zone_options *o,
			      int *ret_error)
{
	*ret_error = -EINVAL;
	if (name == NULL)
		return "is created without a name";
	if (size == 0 || size > PERCPU_LANE_SIZE)
		return "is created with items of 0 bytes, or of more than a lane's 65536";
	if (o->reserved != 0 || (o->flags & ~PERCPU_ZONE_DEBUG))
		return "is created with options that this library does not know";
	if (o->align > MAX_ALIGN || (o->align & (o->align - 1)) != 0)
		return "is created with an alignment that is not a power of two up to 64";
	if (o->region != NULL && !percpu_region_is_zone(o->region))
		return "is created in a region whose lanes have not the default size";
	*ret_error = -EROFS;
	if (o->region != NULL && !o->region->writable)
		return "is created in a region that was opened to read";
	return NULL;
}

static void free_zone(struct percpu_zone *z)
{
	percpu_counter_destroy(z->requests);
	percpu_local_destroy(z->cache);
	percpu_depot_fini(&z->depot);
	if (z->own)
		percpu_region_close(z->region);
	percpu_zone_check_destroy(z->check);
	free(z);
}

static int make_parts(struct percpu_zone *z, const struct percpu_zone_options *o)
{
	int e = 0;

	z->region = o->region;
	if (o->region == NULL) {
		e = percpu_region_create(NULL, &z->region);
		z->own = e == 0;
	}
	if (e == 0)
		e = percpu_counter_create(&z->requests);
	if (e != 0)
		return e;
	if (o->flags & PERCPU_ZONE_DEBUG)
		return percpu_zone_check_create(z->name, z->region, z->own, z->size, &z->check);
	if (z->region->shared)
		return 0;
	if (z->own)
		e = percpu_depot_init(&z->depot, z->region->cpus);
	if (e != 0)
		return e;
	return percpu_local_create(sizeof(struct percpu_array) + CACHE * sizeof(void *),
				   PERCPU_LOCAL_LOCK, &z->cache);
}

int percpu_zone_create(const char *name, size_t size, const struct percpu_zone_options *o,
		       struct percpu_zone **ret)
{
	struct percpu_zone_options opt;
	const char *fault;
	struct percpu_zone *z;
	int e;

	if (ret == NULL || percpu_options_read(&opt, sizeof(opt), o) != 0)
		return -EINVAL;
	fault = find_fault(name, size, &opt, &e);
	if (fault != NULL) {
		if (opt.flags & PERCPU_ZONE_DEBUG)
			percpu_zone_check_explain(name != NULL ? name : "", fault);
		return e;
	}
	z = calloc(1, sizeof(*z));
	if (z == NULL)
		return -ENOMEM;
	snprintf(z->name, sizeof(z->name), "%s", name);
	z->size = (size + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
	z->align = opt.align != 0 ? opt.align : sizeof(uint64_t);
	z->limit = opt.limit;
	z->ctor = opt.ctor;
	z->dtor = opt.dtor;
	z->arg = opt.arg;
	e = make_parts(z, &opt);
	if (e != 0) {
		free_zone(z);
		return e;
	}
	z->base = (uintptr_t)z->region->first->base;
	z->plain = z->cache != NULL && z->ctor == NULL && z->dtor == NULL;
	*ret = z;
	return 0;
}

/* Between region and cache */

static size_t limit_of(const struct percpu_zone *z)
{
	size_t limit = __atomic_load_n(&z->limit, __ATOMIC_RELAXED);

	return limit != 0 ? limit : SIZE_MAX;
}

/* The limit was lowered below what is taken. */
static bool is_over(const struct percpu_zone *z)
{
	return __atomic_load_n(&z->taken, __ATOMIC_RELAXED) > limit_of(z);
}

/* Claim up to n items of what the limit leaves. */
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

/* Returns how many were given back; the others are lost, and count as taken. */
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

/* Keep items in the depot. Whoever lowers the limit empties it after that; if
 * that was before these came, the limit has been lowered already. */
static void put_away(struct percpu_zone *z, void *const *items, size_t n)
{
	PERCPU_STEP("zone: to be put away");
	if (percpu_depot_put(&z->depot, items, n) != 0)
		give_back(z, items, n);
	else if (is_over(z))
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

/* Half a cache, one of them for the caller. */
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

/* The cache of a CPU; NULL if there is none. A region may be made for more CPUs
 * than there are, and then has more lanes than the caches. */
static const struct percpu_array *cache_of(const struct percpu_zone *z, unsigned cpu)
{
	return z->cache != NULL ? percpu_local_cell(z->cache, cpu) : NULL;
}

/* An item from the depot, or the cache of any CPU. */
static int steal(struct percpu_zone *z, void **ret)
{
	int e;

	if (percpu_depot_take(&z->depot, true, ret, 1) != 0)
		return 0;
	for (unsigned cpu = 0; cache_of(z, cpu) != NULL; cpu++) {
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

/* Wait until somebody frees an item, and take one. Whoever frees looks for
 * waiters after the item is visible; the fence makes that order hold without
 * one on their side. The time-out is for items freed in other processes. */
static int wait_for_item(struct percpu_zone *z, void **ret)
{
	uint32_t freed;
	int e;

	__atomic_fetch_add(&z->waits, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&z->waiters, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		freed = __atomic_load_n(&z->freed, __ATOMIC_ACQUIRE);
		(void)percpu_fence();
		e = get_item(z, ret);
		if (e != -ENOSPC)
			break;
		percpu_futex_sleep(&z->freed, FUTEX_WAIT_PRIVATE, freed, PERCPU_SECOND / 100);
	}
	__atomic_fetch_sub(&z->waiters, 1, __ATOMIC_RELAXED);
	return e;
}

static void wake(struct percpu_zone *z)
{
	__atomic_fetch_add(&z->freed, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &z->freed, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static const char *explain_failure(const struct percpu_zone *z, int e)
{
	if (e != -ENOSPC)
		return "has no memory for another item";
	if (__atomic_load_n(&z->taken, __ATOMIC_RELAXED) >= limit_of(z))
		return "is at its limit: raise it, free items, or wait with PERCPU_WAIT";
	return "has no room for another item: the region's file system is full";
}

static __attribute__((noinline)) int alloc_slow(struct percpu_zone *z, unsigned flags, void **ret)
{
	struct percpu_chunk *k;
	size_t offset = 0;
	void *item;
	int e;

	if (z == NULL || ret == NULL || (flags & ~(PERCPU_ZERO | PERCPU_WAIT)))
		return -EINVAL;
	e = get_item(z, &item);
	if (e == -ENOSPC && (flags & PERCPU_WAIT) && limit_of(z) != SIZE_MAX)
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
	if (flags & PERCPU_ZERO) {
		k = find(z, item, &offset);
		percpu_chunk_clear(k, offset, z->size);
	}
	if (z->ctor != NULL)
		percpu_zone_foreach(z, item, z->ctor, z->arg);
	percpu_counter_inc(z->requests);
	*ret = item;
	return 0;
}

/* Inlined here is what usually happens: one sequence, and no frame for it. */
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

/* The cache is full: put half of it away. */
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
	if (z->cache == NULL || is_over(z))
		e = give_back(z, &item, 1) == 1 ? 0 : -ETIMEDOUT;
	else if (percpu_local_push(z->cache, CACHE, item) != 0)
		flush(z, item);
	if (__atomic_load_n(&z->waiters, __ATOMIC_RELAXED) != 0)
		wake(z);
	return e;
}

int percpu_zone_free(struct percpu_zone *z, void *item)
{
	const struct percpu_local *cache;

	/* Plain, and certainly an item: in the first chunk, or in a later one. */
	if (percpu_unlikely(z == NULL || !__atomic_load_n(&z->plain, __ATOMIC_RELAXED) ||
			    (uintptr_t)item % sizeof(uint64_t) != 0 ||
			    ((uintptr_t)item - z->base >= PERCPU_LANE_SIZE &&
			     percpu_region_lookup(z->region, item) == NULL)))
		return free_slow(z, item);
	cache = z->cache;
	if (percpu_unlikely(percpu_seq_push(cache->cell, cache->guard, cache->stride, CACHE, item)))
		return free_slow(z, item);
	if (percpu_unlikely(__atomic_load_n(&z->waiters, __ATOMIC_RELAXED) != 0))
		wake(z);
	return 0;
}

/* Empty the caches of all CPUs, and the depot. */
static void drain(struct percpu_zone *z)
{
	void *item;

	empty_depot(z);
	while (steal(z, &item) == 0)
		give_back(z, &item, 1);
}

int percpu_zone_destroy(struct percpu_zone *z)
{
	if (z == NULL)
		return 0;
	drain(z);
	if (__atomic_load_n(&z->taken, __ATOMIC_ACQUIRE) != 0)
		return -EBUSY;
	free_zone(z);
	return 0;
}

unsigned percpu_zone_cpus(const struct percpu_zone *z)
{
	return z->region->cpus;
}

void percpu_zone_foreach(const struct percpu_zone *z, void *item, percpu_zone_fn *fn, void *arg)
{
	unsigned cpus = percpu_zone_cpus(z);

	for (unsigned cpu = 0; cpu < cpus; cpu++)
		fn(percpu_zone_get(item, cpu), cpu, arg);
}

struct run {
	percpu_zone_fn *fn;
	void *item;
	void *arg;
};

static void run_here(unsigned cpu, void *arg)
{
	struct run *run = arg;

	run->fn(percpu_zone_get(run->item, cpu), cpu, run->arg);
}

int percpu_zone_run(const struct percpu_zone *z, void *item, percpu_zone_fn *fn, void *arg,
		    uint64_t timeout_ns, struct percpu_fence_report *ret_report)
{
	struct run run = { .fn = fn, .item = item, .arg = arg };
	unsigned cpus = percpu_init()->possible_cpus;

	if (z == NULL || item == NULL || fn == NULL || timeout_ns == 0)
		return -EINVAL;
	/* Where the kernel's list cannot be read, we take more CPUs for possible than
	 * who created the region. */
	if (cpus > percpu_zone_cpus(z))
		cpus = percpu_zone_cpus(z);
	return percpu_visit(0, cpus, run_here, &run, timeout_ns, ret_report);
}

void percpu_zone_set_limit(struct percpu_zone *z, size_t limit)
{
	__atomic_store_n(&z->limit, limit, __ATOMIC_SEQ_CST);
	if (is_over(z)) {
		/* What is in caches would be beyond the limit; from now on
		 * each free looks whether it may go there. */
		__atomic_store_n(&z->plain, false, __ATOMIC_SEQ_CST);
		(void)percpu_fence();
		drain(z);
	}
	wake(z);
}

size_t percpu_zone_reclaim(struct percpu_zone *z)
{
	size_t bytes;

	drain(z);
	percpu_depot_trim(&z->depot);
	if (z->check != NULL)
		percpu_zone_check_reclaim(z->check, true);
	PERCPU_STEP("zone: poison forgotten");
	bytes = percpu_region_reclaim(z->region);
	if (z->check != NULL)
		percpu_zone_check_reclaim(z->check, false);
	return bytes;
}

void percpu_zone_stats(const struct percpu_zone *z, struct percpu_zone_stats *ret)
{
	const struct percpu_array *a;
	uint64_t cached = 0, taken;

	for (unsigned cpu = 0; (a = cache_of(z, cpu)) != NULL; cpu++)
		cached += __atomic_load_n(&a->count, __ATOMIC_RELAXED);
	cached += percpu_depot_count(&z->depot);
	taken = __atomic_load_n(&z->taken, __ATOMIC_RELAXED);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->name, z->name, sizeof(ret->name));
	ret->size = z->size;
	ret->limit = __atomic_load_n(&z->limit, __ATOMIC_RELAXED);
	ret->used = taken > cached ? taken - cached : 0;
	ret->cached = cached;
	ret->requests = percpu_counter_fetch(z->requests);
	ret->failures = __atomic_load_n(&z->failures, __ATOMIC_RELAXED);
	ret->waits = __atomic_load_n(&z->waits, __ATOMIC_RELAXED);
}
