/* SPDX-License-Identifier: MIT */
/*
 * pool.c - how items move between users, the arrays of the CPUs, the depot and the backend. Zones
 * and object caches use it.
 *
 * Each CPU has an array of free items; sequences push items onto it and pop them. An empty
 * array takes half an array of items from the depot, and a full one gives half of its items to
 * the depot. So between two visits to the depot there are at least as many operations as half
 * an array has items, in any order of gets and puts. (The array is Bonwick's loaded and previous
 * magazine in one.) If the depot is empty, items come from the backend.
 *
 * "taken" counts the items that the backend has made, or is about to make: with users, in
 * arrays or in the depot. The limit bounds this number. So before a call fails at the limit it
 * searches the depot and the arrays of all CPUs. pool_wait.c has the threads that wait at the
 * limit.
 *
 * The pool calls the backend's functions without a lock of the library.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "caches.h"

#define HALF_MOST (PERCPU_POOL_MOST / 2)
/* An array grows if more than one in so many gets goes to the depot. */
#define GETS_PER_VISIT 256

/* Limits */

size_t percpu_pool_limit(const struct percpu_pool *p)
{
	size_t limit = __atomic_load_n(&p->limit, __ATOMIC_RELAXED);

	return limit != 0 ? limit : SIZE_MAX;
}

bool percpu_pool_is_over(const struct percpu_pool *p)
{
	return __atomic_load_n(&p->taken, __ATOMIC_RELAXED) > percpu_pool_limit(p);
}

size_t percpu_pool_claim(struct percpu_pool *p, size_t n)
{
	size_t limit = percpu_pool_limit(p), taken = __atomic_load_n(&p->taken, __ATOMIC_RELAXED);
	size_t got;

	do {
		got = taken >= limit ? 0 : limit - taken < n ? limit - taken : n;
		PERCPU_STEP("pool: limit read");
	} while (got != 0 && !__atomic_compare_exchange_n(&p->taken, &taken, taken + got, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return got;
}

void percpu_pool_unclaim(struct percpu_pool *p, size_t n)
{
	__atomic_fetch_sub(&p->taken, n, __ATOMIC_RELEASE);
	if (percpu_pool_has_waiters(p))
		(void)percpu_pool_serve_waiters(p);
}

/* Arrays */

static uint64_t full(const struct percpu_pool *p)
{
	return __atomic_load_n(&p->full, __ATOMIC_RELAXED);
}

/* Return how many items an array may hold: all its slots, but in a pool that adapts only its
 * share of half the limit. At least 2, which are enough for a user that gets and puts in turn. */
static uint64_t bound(const struct percpu_pool *p)
{
	size_t limit = percpu_pool_limit(p);
	uint64_t most = p->most;

	if (p->adapts && limit != SIZE_MAX && limit / 2 / p->cpus < most)
		most = limit / 2 / p->cpus;
	return most > 2 ? most : 2;
}

void percpu_pool_fit(struct percpu_pool *p, uint64_t wanted)
{
	uint64_t most;

	/* Another thread may lower the limit meanwhile, and fit the arrays before this one does. */
	do {
		most = bound(p);
		PERCPU_STEP("pool: bound known");
		__atomic_store_n(&p->full, wanted < most ? wanted : most, __ATOMIC_RELAXED);
		percpu_full_fence();
	} while (full(p) > bound(p));
	percpu_pool_open(p);
}

/* Count a visit to the depot. Once in PERCPU_DEPOT_VISITS, let the arrays grow if there were too
 * many visits. */
static void visit(struct percpu_pool *p)
{
	uint64_t gets, before;

	if (!p->adapts || !percpu_depot_visited(&p->depot))
		return;
	gets = percpu_counter_fetch(p->requests);
	before = __atomic_exchange_n(&p->gets, gets, __ATOMIC_RELAXED);
	if (gets - before < (uint64_t)PERCPU_DEPOT_VISITS * GETS_PER_VISIT)
		percpu_pool_fit(p, 2 * full(p));
}

const struct percpu_array *percpu_pool_array(const struct percpu_pool *p, unsigned cpu)
{
	return p->arrays != NULL ? percpu_local_cell(p->arrays, cpu) : NULL;
}

uint64_t percpu_pool_count(const struct percpu_pool *p)
{
	const struct percpu_array *a;
	uint64_t n = percpu_depot_count(&p->depot);

	for (unsigned cpu = 0; (a = percpu_pool_array(p, cpu)) != NULL; cpu++)
		n += __atomic_load_n(&a->count, __ATOMIC_RELAXED);
	return n;
}

/* Put */

size_t percpu_pool_unmake(struct percpu_pool *p, void *const *items, size_t n)
{
	n = p->backend->unmake(p->owner, items, n);
	PERCPU_STEP("pool: items unmade");
	percpu_pool_unclaim(p, n);
	return n;
}

/* Put items into the depot. Returns 0 or -ETIMEDOUT. */
static int put_away(struct percpu_pool *p, void *const *items, size_t n)
{
	PERCPU_STEP("pool: to be put away");
	visit(p);
	if (percpu_depot_put(&p->depot, items, n) == 0)
		return 0;
	return percpu_pool_unmake(p, items, n) == n ? 0 : -ETIMEDOUT;
}

/* Move half of the full array, and the item, to the depot. */
static void flush(struct percpu_pool *p, void *item)
{
	void *items[HALF_MOST + 1];
	size_t n = 1, half = (size_t)full(p) / 2;

	items[0] = item;
	while (n <= half && percpu_local_pop(p->arrays, &items[n]) == 0)
		n++;
	(void)put_away(p, items, n);
}

int percpu_pool_put(struct percpu_pool *p, void *item)
{
	int e = 0;

	if (percpu_pool_is_over(p))
		e = percpu_pool_unmake(p, &item, 1) == 1 ? 0 : -ETIMEDOUT;
	else if (percpu_pool_has_waiters(p) && percpu_pool_serve(p, item))
		return 0;
	else if (p->arrays == NULL)
		e = put_away(p, &item, 1);
	else if (percpu_local_push(p->arrays, full(p), item) != 0)
		flush(p, item);
	percpu_pool_pushed(p);
	return e;
}

/* Get */

ssize_t percpu_pool_make(struct percpu_pool *p, void *how, void **ret, size_t n)
{
	ssize_t got = p->backend->make(p->owner, how, ret, n);

	if (got < (ssize_t)n)
		percpu_pool_unclaim(p, n - (got > 0 ? (size_t)got : 0));
	return got;
}

static ssize_t from_backend(struct percpu_pool *p, void *how, void **ret)
{
	size_t n = percpu_pool_claim(p, p->arrays != NULL ? p->fetch : 1);

	return n != 0 ? percpu_pool_make(p, how, ret, n) : -ENOSPC;
}

/* Get up to half an array of items. The caller gets one, the array the others. */
static int refill(struct percpu_pool *p, void *how, void **ret)
{
	size_t half = full(p) > 2 ? (size_t)full(p) / 2 : 1;
	void *items[HALF_MOST];
	ssize_t got, i = 1;

	got = (ssize_t)percpu_depot_take(&p->depot, false, items, p->arrays != NULL ? half : 1);
	if (got != 0)
		visit(p);
	else
		got = from_backend(p, how, items);
	if (got < 0)
		return (int)got;
	while (i < got && percpu_local_push(p->arrays, full(p), items[i]) == 0)
		i++;
	if (i < got)
		(void)put_away(p, &items[i], (size_t)(got - i));
	if (got > 1)
		percpu_pool_pushed(p);
	*ret = items[0];
	return 0;
}

int percpu_pool_find(struct percpu_pool *p, void **ret)
{
	const struct percpu_array *a;
	int e;

	if (percpu_depot_take(&p->depot, true, ret, 1) != 0)
		return 0;
	for (unsigned cpu = 0; (a = percpu_pool_array(p, cpu)) != NULL; cpu++) {
		if (__atomic_load_n(&a->count, __ATOMIC_RELAXED) == 0)
			continue;
		e = percpu_local_pop_cpu(p->arrays, cpu, ret);
		if (e != -ENOENT)
			return e;
	}
	return -ENOSPC;
}

int percpu_pool_get(struct percpu_pool *p, void *how, void **ret)
{
	int e, found;

	if (p->arrays != NULL && percpu_local_pop(p->arrays, ret) == 0)
		return 0;
	if (percpu_pool_has_waiters(p) && percpu_pool_limit(p) != SIZE_MAX)
		return -ENOSPC; /* the waiters come first */
	e = refill(p, how, ret);
	if (e == 0 || (e == -ENOSPC && percpu_pool_limit(p) == SIZE_MAX) ||
	    (e != -ENOSPC && e != -ENOMEM))
		return e;
	found = percpu_pool_find(p, ret);
	return found == -ENOSPC ? e : found;
}

/* All items */

size_t percpu_pool_drain(struct percpu_pool *p, size_t most)
{
	/* Other threads may put items as fast as this one takes them. */
	uint64_t free = percpu_pool_count(p), n = free < most ? free : most, done = 0;
	void *items[HALF_MOST];
	size_t got;

	while (done < n) {
		got = percpu_depot_take(&p->depot, true, items,
					n - done < HALF_MOST ? (size_t)(n - done) : HALF_MOST);
		if (got == 0 && percpu_pool_find(p, items) == 0)
			got = 1;
		if (got == 0)
			break;
		percpu_pool_unmake(p, items, got);
		done += got;
	}
	return (size_t)done;
}

/* Unmake free items beyond the limit. */
static void trim(struct percpu_pool *p)
{
	size_t limit = percpu_pool_limit(p), taken = __atomic_load_n(&p->taken, __ATOMIC_RELAXED);

	if (taken > limit)
		(void)percpu_pool_drain(p, taken - limit);
}

/* A thread that lowers the limit unmakes free items afterwards. If it did so before this
 * thread's items came, this thread sees the lower limit. */
void percpu_pool_pushed(struct percpu_pool *p)
{
	trim(p);
	if (percpu_pool_has_waiters(p))
		(void)percpu_pool_serve_waiters(p);
	else if (__atomic_load_n(p->room, __ATOMIC_RELAXED) == 0)
		percpu_pool_open(p);
}

void percpu_pool_set_limit(struct percpu_pool *p, size_t limit)
{
	int e;

	__atomic_store_n(&p->limit, limit, __ATOMIC_SEQ_CST);
	percpu_pool_fit(p, full(p));
	if (percpu_pool_is_over(p)) {
		/* Items in arrays count as taken. After the fence each put checks the limit
		 * before or after its push. */
		e = percpu_fence();
		(void)e; /* without a fence sequences in progress may push an item per CPU */
		trim(p);
	}
	(void)percpu_pool_serve_waiters(p);
}
