/* SPDX-License-Identifier: MIT */
/*
 * pool.h - the pool that zones and object caches use. Part of caches.h, which includes it.
 */
#ifndef PERCPU_POOL_H
#define PERCPU_POOL_H

#include <percpu/local.h>

#include "../memory/memory.h"

/* depot.c */

/** Free items beyond the arrays of the CPUs. A depot with all fields zero takes no items. */
struct percpu_depot {
	struct percpu_shelf *shelves;
	unsigned count;
	struct percpu_depot *next;
};

/** Create a depot. Returns 0 or -ENOMEM. */
int percpu_depot_init(struct percpu_depot *d, unsigned cpus);
void percpu_depot_fini(struct percpu_depot *d);

/** Keep n items. Returns 0, -ENOMEM, or -EBUSY if other threads have locked all shelves. */
int percpu_depot_put(struct percpu_depot *d, void *const *items, size_t n);

/** Take up to n items. Returns how many. Skips locked shelves, unless wait is set. */
size_t percpu_depot_take(struct percpu_depot *d, bool wait, void **ret, size_t n);

/** Count a visit at this CPU's shelf. Return true once in PERCPU_DEPOT_VISITS visits. */
bool percpu_depot_visited(struct percpu_depot *d);
#define PERCPU_DEPOT_VISITS 64

/** Free the memory of empty shelves. */
void percpu_depot_trim(struct percpu_depot *d);

/** Return how many items there are. */
size_t percpu_depot_count(const struct percpu_depot *d);

/* pool.c, pool_wait.c */

#define PERCPU_POOL_MOST 510 /* items in a CPU's array; with its head it is one page */

/** The source of a pool's items. The pool calls it without a lock of the library. */
struct percpu_pool_backend {
	/** Make up to n items. how is the argument of percpu_pool_get(). Returns how many, at
	 *  least 1, or -errno. -ENOSPC means that an item can be made once another is unmade. */
	ssize_t (*make)(void *owner, void *how, void **ret, size_t n);
	/** Unmake n items. Returns how many were unmade; the others are lost, and count as
	 *  taken. */
	size_t (*unmake)(void *owner, void *const *items, size_t n);
	/** Unmake all free items, for percpu_reclaim(). */
	void (*reclaim)(void *owner);
};

struct percpu_waiter;

struct percpu_pool {
	/* Set before percpu_pool_init(). */
	const struct percpu_pool_backend *backend;
	void *owner;
	struct percpu_local *arrays; /* NULL: no arrays; the pool destroys them */
	struct percpu_depot depot;   /* items for which the arrays have no room */
	unsigned cpus;
	const struct percpu_counter *requests;
	size_t fetch;  /* items that come from the backend at a time; 0 means 1 */
	uint64_t most; /* slots of an array, up to PERCPU_POOL_MOST */
	bool adapts;   /* arrays grow; together they hold at most half of the limit */

	/* atomic */
	uint64_t *room; /* bound for pushes: full, or 0 while puts must check first */
	size_t limit;	/* most items; 0: none */
	size_t taken;	/* items that the backend has made, or is about to make */
	uint64_t full PERCPU_ALIGNED_WORD; /* items in an array that is full */
	/* the value of requests at the last check of the visits to the depot */
	uint64_t gets PERCPU_ALIGNED_WORD;
	uint64_t failures PERCPU_ALIGNED_WORD;
	/* gets that found the limit reached, and no item free */
	uint64_t exhausted PERCPU_ALIGNED_WORD;
	uint64_t waits PERCPU_ALIGNED_WORD;
	uint32_t waiters; /* threads in the queue */

	/* under the lock */
	pthread_mutex_t lock;
	struct percpu_waiter *first, *last;
	/* under the process lock */
	struct percpu_pool *next;
	struct percpu_pins pins;
};

/** Initialize a pool from the fields that are set. room may be anywhere. percpu_pool_fini() also
 *  cleans up these fields if percpu_pool_init() was not called. */
void percpu_pool_init(struct percpu_pool *p, uint64_t *room);
void percpu_pool_fini(struct percpu_pool *p);

/** Pin the next pool of the process, and unpin this one; NULL: pin the first one. Returns NULL if
 *  there is none. */
struct percpu_pool *percpu_pool_pin_next(struct percpu_pool *p);

/** Get an item. Before it fails it searches the depot and all arrays. Returns 0, -ENOSPC at the
 *  limit, or the error of the backend. */
int percpu_pool_get(struct percpu_pool *p, void *how, void **ret);

/** Wait for an item, after percpu_pool_get() found the limit reached. */
int percpu_pool_wait(struct percpu_pool *p, void *how, void **ret);

/** Put an item: give it to a waiter, keep it in the array or the depot, or unmake it. Returns 0,
 *  or -ETIMEDOUT if it could not be unmade. */
int percpu_pool_put(struct percpu_pool *p, void *item);

/** After a push onto the array: serve waiters, and unmake items beyond a lowered limit. */
void percpu_pool_pushed(struct percpu_pool *p);

/** Unmake items. Returns how many were unmade. */
size_t percpu_pool_unmake(struct percpu_pool *p, void *const *items, size_t n);

/** Unmake free items, at most so many. Returns how many. */
size_t percpu_pool_drain(struct percpu_pool *p, size_t most);

void percpu_pool_set_limit(struct percpu_pool *p, size_t limit);

/** Return the limit; SIZE_MAX if there is none. */
size_t percpu_pool_limit(const struct percpu_pool *p);

/** Return whether the limit was lowered below the number of taken items. */
bool percpu_pool_is_over(const struct percpu_pool *p);

/** Return the array of a CPU; NULL if there is none. */
const struct percpu_array *percpu_pool_array(const struct percpu_pool *p, unsigned cpu);

/** Return how many items are free. */
uint64_t percpu_pool_count(const struct percpu_pool *p);

static inline bool percpu_pool_has_waiters(const struct percpu_pool *p)
{
	return percpu_unlikely(__atomic_load_n(&p->waiters, __ATOMIC_RELAXED) != 0);
}

/* Shared by pool.c and pool_wait.c */

/** Claim up to n items below the limit. Returns how many. */
size_t percpu_pool_claim(struct percpu_pool *p, size_t n);
void percpu_pool_unclaim(struct percpu_pool *p, size_t n);

/** Make up to n claimed items. Returns how many, or -errno. */
ssize_t percpu_pool_make(struct percpu_pool *p, void *how, void **ret, size_t n);

/** Take a free item from the depot, or from the array of any CPU. Returns 0, -ENOSPC if none was
 *  found, or the error of a fence. */
int percpu_pool_find(struct percpu_pool *p, void **ret);

/** Set full to wanted, or to the most that the limit allows. */
void percpu_pool_fit(struct percpu_pool *p, uint64_t wanted);

/** Set room: full, or 0 if puts must check first. */
void percpu_pool_open(struct percpu_pool *p);

/** Give an item to the first waiter. Returns false if there is none. */
bool percpu_pool_serve(struct percpu_pool *p, void *item);

/** Give waiters the free items, or the right to make an item. Returns 0, or -errno if nothing is
 *  left for a waiter. */
int percpu_pool_serve_waiters(struct percpu_pool *p);

#endif
