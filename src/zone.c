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
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/zone.h>

#include "internal.h"

#define CACHE 64 /* items per CPU */
#define BATCH (CACHE / 2)
#define BATCH_BYTES 4096 /* larger items come from the region in smaller numbers */
#define MAX_ALIGN 64
#define POISON 0xdb

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
	uint64_t failures;
	uint64_t waits;
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

/* Checks: what is allocated, and what a free item must look like. */

struct percpu_zone_check {
	uint64_t (*live)[PERCPU_UNITS / 64];  /* per chunk: an item begins at the unit */
	uint64_t (*stale)[PERCPU_UNITS / 64]; /* a freed one did, and is poisoned */
	uint32_t chunks;
	uint32_t reclaims; /* in progress: what is freed meanwhile may lose its poison */
};

static pthread_mutex_t check_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_checks(void)
{
	pthread_mutex_lock(&check_lock);
}

static void unlock_checks(void)
{
	pthread_mutex_unlock(&check_lock);
}

__attribute__((constructor)) static void checks_survive_fork(void)
{
	pthread_atfork(lock_checks, unlock_checks, unlock_checks);
}

__attribute__((noreturn)) static void complain(const struct percpu_zone *z, const void *item,
					       const char *what)
{
	dprintf(STDERR_FILENO, "libpercpu: zone \"%s\": item %p %s\n", z->name, item, what);
	abort();
}

/* Room for the bits of so many chunks. */
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

static int check_alloc(const struct percpu_zone *z, const void *item)
{
	struct percpu_zone_check *c = z->check;
	size_t offset = 0;
	const struct percpu_chunk *k = find(z, item, &offset);
	uint64_t bit = UINT64_C(1) << (offset / k->unit % 64);
	size_t word = offset / k->unit / 64;
	int e;

	lock_checks();
	e = check_grow(c, k->index + 1);
	if (e == 0) {
		for (uint32_t cpu = 0; (c->stale[k->index][word] & bit) && cpu < k->cpus; cpu++)
			if (!is_poisoned((unsigned char *)percpu_chunk_lane(k, cpu, offset),
					 z->size))
				complain(z, item, "was written to after it was freed");
		c->stale[k->index][word] &= ~bit;
		c->live[k->index][word] |= bit;
	}
	unlock_checks();
	return e;
}

static void check_free(const struct percpu_zone *z, const void *item)
{
	struct percpu_zone_check *c = z->check;
	size_t offset = 0, word;
	const struct percpu_chunk *k = find(z, item, &offset);
	uint64_t bit;

	if (k == NULL)
		complain(z, item, "is not of this zone");
	bit = UINT64_C(1) << (offset / k->unit % 64);
	word = offset / k->unit / 64;
	lock_checks();
	if (offset % k->unit != 0 || k->index >= c->chunks || !(c->live[k->index][word] & bit))
		complain(z, item, "is freed, but not allocated: freed twice, or not its start");
	c->live[k->index][word] &= ~bit;
	/* In a region that others use, too, they may store to what is free. */
	if (z->own && c->reclaims == 0)
		c->stale[k->index][word] |= bit;
	unlock_checks();
}

/* Pages that are given back are not poisoned any more. */
static void check_reclaim(struct percpu_zone_check *c, bool begins)
{
	lock_checks();
	if (begins && c->chunks != 0)
		memset(c->stale, 0, c->chunks * sizeof(*c->stale));
	c->reclaims += begins ? 1 : (uint32_t)-1;
	unlock_checks();
}

static void poison(void *cell, unsigned cpu, void *arg)
{
	const struct percpu_zone *z = arg;

	(void)cpu;
	memset(cell, POISON, z->size);
}

/* Creation */

static int check_zone_options(const struct percpu_zone_options *o, struct percpu_zone_options *ret)
{
	static const struct percpu_zone_options defaults = { .size = sizeof(defaults) };

	*ret = o != NULL ? *o : defaults;
	if (ret->size != sizeof(*ret) || ret->reserved != 0 || (ret->flags & ~PERCPU_ZONE_DEBUG))
		return -EINVAL;
	if (ret->align == 0)
		ret->align = sizeof(uint64_t);
	if (ret->align > MAX_ALIGN || (ret->align & (ret->align - 1)) != 0)
		return -EINVAL;
	if (ret->region != NULL && !percpu_region_is_zone(ret->region))
		return -EINVAL;
	return ret->region == NULL || ret->region->writable ? 0 : -EROFS;
}

static void free_zone(struct percpu_zone *z)
{
	percpu_counter_destroy(z->requests);
	percpu_local_destroy(z->cache);
	percpu_depot_fini(&z->depot);
	if (z->own)
		percpu_region_close(z->region);
	if (z->check != NULL) {
		free(z->check->live);
		free(z->check->stale);
		free(z->check);
	}
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
	if (o->flags & PERCPU_ZONE_DEBUG) {
		z->check = calloc(1, sizeof(*z->check));
		return z->check != NULL ? 0 : -ENOMEM;
	}
	if (z->region->fd >= 0)
		return 0;
	return percpu_local_create(sizeof(struct percpu_array) + CACHE * sizeof(void *),
				   PERCPU_LOCAL_LOCK, &z->cache);
}

int percpu_zone_create(const char *name, size_t size, const struct percpu_zone_options *o,
		       struct percpu_zone **ret)
{
	struct percpu_zone_options opt;
	struct percpu_zone *z;
	int e;

	if (name == NULL || ret == NULL || size == 0 || size > PERCPU_LANE_SIZE)
		return -EINVAL;
	e = check_zone_options(o, &opt);
	if (e != 0)
		return e;
	z = calloc(1, sizeof(*z));
	if (z == NULL)
		return -ENOMEM;
	snprintf(z->name, sizeof(z->name), "%s", name);
	z->size = (size + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
	z->align = opt.align;
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
	} while (got != 0 && !__atomic_compare_exchange_n(&z->taken, &taken, taken + got, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return got;
}

static void give_back(struct percpu_zone *z, void *const *items, size_t n)
{
	percpu_region_free_many(z->region, items, n, z->size);
	__atomic_fetch_sub(&z->taken, n, __ATOMIC_RELEASE);
}

static size_t from_depot(struct percpu_zone *z, void **ret, size_t n)
{
	if (__atomic_load_n(&z->depot.n, __ATOMIC_RELAXED) == 0)
		return 0;
	pthread_mutex_lock(&percpu_lock);
	n = percpu_depot_take(&z->depot, ret, n);
	pthread_mutex_unlock(&percpu_lock);
	return n;
}

/* Keep items in the depot, unless others use the region, too. Whoever lowers
 * the limit drains the depot after that, so under the lock this tells in time. */
static void put_away(struct percpu_zone *z, void *const *items, size_t n)
{
	int e = -ENOSPC;

	if (z->own) {
		pthread_mutex_lock(&percpu_lock);
		if (!is_over(z))
			e = percpu_depot_put(&z->depot, items, n);
		pthread_mutex_unlock(&percpu_lock);
	}
	if (e != 0)
		give_back(z, items, n);
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
	ssize_t got = (ssize_t)from_depot(z, items, BATCH), i = 1;

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

/* An item from the cache of any CPU. */
static int steal(struct percpu_zone *z, void **ret)
{
	unsigned cpus = percpu_zone_cpus(z);
	int e;

	for (unsigned cpu = 0; z->cache != NULL && cpu < cpus; cpu++) {
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
	static const struct timespec patience = { .tv_nsec = 10000000 };
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
		syscall(SYS_futex, &z->freed, FUTEX_WAIT_PRIVATE, freed, &patience, NULL, 0);
	}
	__atomic_fetch_sub(&z->waiters, 1, __ATOMIC_RELAXED);
	return e;
}

static void wake(struct percpu_zone *z)
{
	__atomic_fetch_add(&z->freed, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &z->freed, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
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
		e = check_alloc(z, item);
		if (e != 0)
			give_back(z, &item, 1);
	}
	if (e != 0) {
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
	if (percpu_unlikely(
		    percpu_seq_pop(percpu_self, cache->cell, cache->guard, cache->stride, &item)))
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

	if (item == NULL)
		return 0;
	if (z == NULL)
		return -EINVAL;
	if (z->check != NULL)
		check_free(z, item);
	else if (find(z, item, &offset) == NULL || offset % sizeof(uint64_t) != 0)
		return -EINVAL;
	if (z->dtor != NULL)
		percpu_zone_foreach(z, item, z->dtor, z->arg);
	if (z->check != NULL)
		percpu_zone_foreach(z, item, poison, z);
	if (z->cache == NULL || is_over(z))
		give_back(z, &item, 1);
	else if (percpu_local_push(z->cache, CACHE, item) != 0)
		flush(z, item);
	if (__atomic_load_n(&z->waiters, __ATOMIC_RELAXED) != 0)
		wake(z);
	return 0;
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
	if (percpu_unlikely(percpu_seq_push(percpu_self, cache->cell, cache->guard, cache->stride,
					    CACHE, item)))
		return free_slow(z, item);
	if (percpu_unlikely(__atomic_load_n(&z->waiters, __ATOMIC_RELAXED) != 0))
		wake(z);
	return 0;
}

/* Empty the caches of all CPUs, and the depot. */
static void drain(struct percpu_zone *z)
{
	void *items[BATCH];
	size_t n;

	while (steal(z, items) == 0)
		give_back(z, items, 1);
	while ((n = from_depot(z, items, BATCH)) != 0)
		give_back(z, items, n);
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

	if (z == NULL || item == NULL || fn == NULL || timeout_ns == 0)
		return -EINVAL;
	return percpu_visit(0, percpu_init()->possible_cpus, run_here, &run, timeout_ns,
			    ret_report);
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
	if (z->check != NULL)
		check_reclaim(z->check, true);
	bytes = percpu_region_reclaim(z->region);
	if (z->check != NULL)
		check_reclaim(z->check, false);
	return bytes;
}

void percpu_zone_stats(const struct percpu_zone *z, struct percpu_zone_stats *ret)
{
	const struct percpu_array *a;
	uint64_t cached = 0, taken;

	for (unsigned cpu = 0; z->cache != NULL && cpu < percpu_zone_cpus(z); cpu++) {
		a = percpu_local_cell(z->cache, cpu);
		cached += __atomic_load_n(&a->count, __ATOMIC_RELAXED);
	}
	cached += __atomic_load_n(&z->depot.n, __ATOMIC_RELAXED);
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
