/* SPDX-License-Identifier: MIT */
/*
 * depot.c - free items of a pool for which the arrays of its CPUs have no room.
 *
 * A depot has shelves: arrays that grow, each with its own lock. Items come and go by half of a
 * CPU's array at a time. A thread begins at the shelf of its CPU. If that shelf is locked or
 * empty, it goes on to the next one. So CPUs with enough items use different locks, and every CPU
 * can reach every item. There are at most 16 shelves, because a thread that finds no item has
 * looked at all of them.
 */
#include <stdlib.h>
#include <string.h>

#include <percpu/seq.h>

#include "caches.h"

#define MAX_SHELVES 16
#define FIRST_SIZE 256

struct percpu_shelf {
	pthread_mutex_t lock;
	void **items;
	size_t n; /* changes under the lock; read without it */
	size_t size;
	unsigned visits;	 /* by threads that begin at this shelf; atomic */
} __attribute__((aligned(128))); /* CPUs fetch cache lines in pairs */

static struct percpu_depot *depots; /* under the process lock */

int percpu_depot_init(struct percpu_depot *d, unsigned cpus)
{
	unsigned count = cpus < MAX_SHELVES ? cpus : MAX_SHELVES;

	d->shelves = aligned_alloc(_Alignof(struct percpu_shelf), count * sizeof(*d->shelves));
	if (d->shelves == NULL)
		return -ENOMEM;
	memset(d->shelves, 0, count * sizeof(*d->shelves));
	for (unsigned i = 0; i < count; i++)
		percpu_mutex_init(&d->shelves[i].lock);
	d->count = count;
	percpu_process_lock();
	d->next = depots;
	depots = d;
	percpu_process_unlock();
	return 0;
}

void percpu_depot_fini(struct percpu_depot *d)
{
	struct percpu_depot **p = &depots;

	if (d->count == 0)
		return;
	percpu_process_lock();
	while (*p != d)
		p = &(*p)->next;
	*p = d->next;
	percpu_process_unlock();
	for (unsigned i = 0; i < d->count; i++) {
		percpu_mutex_destroy(&d->shelves[i].lock);
		free(d->shelves[i].items);
	}
	free(d->shelves);
}

/* Return the shelf where a thread begins; any, if the thread does not know its CPU. Call it once
 * per operation, because a thread that moves to another CPU meanwhile must not skip a shelf. */
static unsigned own_shelf(const struct percpu_depot *d)
{
	unsigned cpu = (unsigned)percpu_seq_cpu();

	return d->count != 0 ? cpu % d->count : 0;
}

static size_t count(const struct percpu_shelf *s)
{
	return __atomic_load_n(&s->n, __ATOMIC_RELAXED);
}

static int grow(struct percpu_shelf *s, size_t n)
{
	size_t size = s->size != 0 ? s->size : FIRST_SIZE;
	void **larger;

	while (size < n)
		size *= 2;
	larger = realloc(s->items, size * sizeof(*larger));
	if (larger == NULL)
		return -ENOMEM;
	s->items = larger;
	s->size = size;
	return 0;
}

int percpu_depot_put(struct percpu_depot *d, void *const *items, size_t n)
{
	unsigned own = own_shelf(d);
	struct percpu_shelf *s;
	int e = -EBUSY;

	for (unsigned i = 0; i < d->count && e == -EBUSY; i++) {
		s = &d->shelves[(own + i) % d->count];
		if (!percpu_mutex_trylock(&s->lock))
			continue;
		e = s->n + n > s->size ? grow(s, s->n + n) : 0;
		if (e == 0) {
			memcpy(&s->items[s->n], items, n * sizeof(*items));
			PERCPU_STEP("depot: items put");
			__atomic_store_n(&s->n, s->n + n, __ATOMIC_RELAXED);
		}
		percpu_mutex_unlock(&s->lock);
	}
	return e;
}

size_t percpu_depot_take(struct percpu_depot *d, bool wait, void **ret, size_t n)
{
	unsigned own = own_shelf(d);
	struct percpu_shelf *s;
	size_t got = 0;

	for (unsigned i = 0; i < d->count && got == 0; i++) {
		s = &d->shelves[(own + i) % d->count];
		if (count(s) == 0)
			continue;
		PERCPU_STEP("depot: shelf seen");
		if (!percpu_mutex_trylock(&s->lock)) {
			if (!wait)
				continue;
			percpu_mutex_lock(&s->lock);
		}
		got = s->n < n ? s->n : n;
		if (got != 0)
			memcpy(ret, &s->items[s->n - got], got * sizeof(*ret));
		PERCPU_STEP("depot: items taken");
		__atomic_store_n(&s->n, s->n - got, __ATOMIC_RELAXED);
		percpu_mutex_unlock(&s->lock);
	}
	return got;
}

/* Two threads that count at the same time may count as one visit. */
bool percpu_depot_visited(struct percpu_depot *d)
{
	unsigned *visits, n;

	visits = &d->shelves[own_shelf(d)].visits;
	n = __atomic_load_n(visits, __ATOMIC_RELAXED) + 1;
	__atomic_store_n(visits, n, __ATOMIC_RELAXED);
	return n % PERCPU_DEPOT_VISITS == 0;
}

void percpu_depot_trim(struct percpu_depot *d)
{
	struct percpu_shelf *s;

	for (unsigned i = 0; i < d->count; i++) {
		s = &d->shelves[i];
		percpu_mutex_lock(&s->lock);
		if (s->n == 0) {
			free(s->items);
			s->items = NULL;
			s->size = 0;
		}
		percpu_mutex_unlock(&s->lock);
	}
}

size_t percpu_depot_count(const struct percpu_depot *d)
{
	size_t n = 0;

	for (unsigned i = 0; i < d->count; i++)
		n += count(&d->shelves[i]);
	return n;
}

static void depot_lock_all(void)
{
	for (struct percpu_depot *d = depots; d != NULL; d = d->next)
		for (unsigned i = 0; i < d->count; i++)
			percpu_mutex_lock(&d->shelves[i].lock);
}

static void depot_unlock_all(void)
{
	for (struct percpu_depot *d = depots; d != NULL; d = d->next)
		for (unsigned i = 0; i < d->count; i++)
			percpu_mutex_unlock(&d->shelves[i].lock);
}

__attribute__((constructor)) static void depot_join_forks(void)
{
	static const struct percpu_fork_part part = { .before = depot_lock_all,
						      .after = depot_unlock_all };

	percpu_fork_register(PERCPU_FORK_DEPOTS, &part);
}
