/* SPDX-License-Identifier: MIT */
/*
 * pool.h - what zones and object caches are made of. Part of caches.h, which includes it.
 */
#ifndef PERCPU_POOL_H
#define PERCPU_POOL_H

#include <percpu/local.h>

#include "../memory/memory.h"

/* depot.c */

/** Items kept for the next allocation. If all fields are zero, it takes no items. */
struct percpu_depot {
	struct percpu_shelf *shelves;
	unsigned count;
	struct percpu_depot *next;
};

/** Returns 0 or -ENOMEM. */
int percpu_depot_init(struct percpu_depot *d, unsigned cpus);
void percpu_depot_fini(struct percpu_depot *d);

/** Keep n items. Returns 0, -ENOMEM, or -EBUSY if other threads have locked all shelves. */
int percpu_depot_put(struct percpu_depot *d, void *const *items, size_t n);

/** Take up to n items. Returns how many. Passes by shelves that are locked, unless wait is
 *  set. */
size_t percpu_depot_take(struct percpu_depot *d, bool wait, void **ret, size_t n);

/** Note a visit to the depot. Returns true once in so many of the CPU. */
bool percpu_depot_visited(struct percpu_depot *d);
#define PERCPU_DEPOT_VISITS 64

/** Free the memory of empty shelves. */
void percpu_depot_trim(struct percpu_depot *d);

/** Return how many items there are. */
size_t percpu_depot_count(const struct percpu_depot *d);

/* pool.c, pool_wait.c: what zones and object caches are made of */

#define PERCPU_POOL_MOST 510 /* items in the array of a CPU: a page with its head */

/** Where the items of a pool come from. Called without a lock of the library. */
struct percpu_pool_backend {
	/** Make up to n items; how is what percpu_pool_get() was given. Returns how many, at
	 *  least 1, or -errno; -ENOSPC if an item could be made when another is unmade. */
	ssize_t (*make)(void *owner, void *how, void **ret, size_t n);
	/** Returns how many were unmade; the others are lost, and count as taken. */
	size_t (*unmake)(void *owner, void *const *items, size_t n);
};

struct percpu_waiter;

struct percpu_pool {
	/* Set before percpu_pool_init(). */
	const struct percpu_pool_backend *backend;
	void *owner;
	struct percpu_local *arrays; /* NULL: none; the pool's */
	struct percpu_depot depot;   /* items that the arrays have no room for */
	unsigned cpus;
	const struct percpu_counter *requests;
	size_t fetch;  /* so many items at a time come from the backend; 0 means 1 */
	uint64_t most; /* slots of an array, up to PERCPU_POOL_MOST */
	bool adapts;   /* arrays grow, and hold no more than half of the limit */

	/* atomic */
	uint64_t *room; /* what puts push below: full, or 0 while they must look first */
	size_t limit;	/* most items; 0: none */
	size_t taken;	/* items that the backend has made, or is about to make */
	uint64_t full PERCPU_ALIGNED_WORD; /* items in an array that is full */
	/* requests when somebody looked at the visits to the depot */
	uint64_t gets PERCPU_ALIGNED_WORD;
	uint64_t failures PERCPU_ALIGNED_WORD;
	/* gets that found the limit reached, and nothing free */
	uint64_t exhausted PERCPU_ALIGNED_WORD;
	uint64_t waits PERCPU_ALIGNED_WORD;
	uint32_t waiters; /* threads in the queue */

	/* under the lock */
	pthread_mutex_t lock;
	struct percpu_waiter *first, *last;
	struct percpu_pool *next; /* under the process lock */
};

/** Make a pool of what is set; room may be anywhere. percpu_pool_fini() also cleans up what
 *  was set for a pool that was not made. */
void percpu_pool_init(struct percpu_pool *p, uint64_t *room);
void percpu_pool_fini(struct percpu_pool *p);

/** Get an item. Returns 0, -ENOSPC at the limit, or what the backend returned. Before that,
 *  it takes an item from wherever one is. */
int percpu_pool_get(struct percpu_pool *p, void *how, void **ret);

/** The same for a thread that found the limit reached: wait for an item. */
int percpu_pool_wait(struct percpu_pool *p, void *how, void **ret);

/** Put an item: to who waits, into the array, or the depot; or unmake it. Returns 0, or
 *  -ETIMEDOUT if it could not be unmade. */
int percpu_pool_put(struct percpu_pool *p, void *item);

/** After a push onto the array: look for who waits, and whether the limit was lowered. */
void percpu_pool_look(struct percpu_pool *p);

/** Unmake items. Returns how many. */
size_t percpu_pool_unmake(struct percpu_pool *p, void *const *items, size_t n);

/** Unmake what is free, but so many items at most. Returns how many. */
size_t percpu_pool_drain(struct percpu_pool *p, size_t most);

void percpu_pool_set_limit(struct percpu_pool *p, size_t limit);

/** The limit; SIZE_MAX if there is none. */
size_t percpu_pool_limit(const struct percpu_pool *p);

/** Whether the limit was lowered below what is taken. */
bool percpu_pool_is_over(const struct percpu_pool *p);

/** Return the array of a CPU; NULL if there is none. */
const struct percpu_array *percpu_pool_array(const struct percpu_pool *p, unsigned cpu);

/** Return how many items are free. */
uint64_t percpu_pool_count(const struct percpu_pool *p);

static inline bool percpu_pool_has_waiters(const struct percpu_pool *p)
{
	return percpu_unlikely(__atomic_load_n(&p->waiters, __ATOMIC_RELAXED) != 0);
}

/* Between the two sources. */

/** Claim up to n items below the limit. Returns how many. */
size_t percpu_pool_claim(struct percpu_pool *p, size_t n);
void percpu_pool_unclaim(struct percpu_pool *p, size_t n);

/** Make up to n items that were claimed. Returns how many, or -errno. */
ssize_t percpu_pool_make(struct percpu_pool *p, void *how, void **ret, size_t n);

/** Take a free item from the depot, or from the array of any CPU. */
int percpu_pool_find(struct percpu_pool *p, void **ret);

/** Let so many items fill an array, or as many as are allowed. */
void percpu_pool_fit(struct percpu_pool *p, uint64_t wanted);

/** Set room. */
void percpu_pool_open(struct percpu_pool *p);

/** Give an item to the first who waits. Returns false if nobody does. */
bool percpu_pool_serve(struct percpu_pool *p, void *item);

/** Serve those who wait with what is free. Returns 0 if nobody is left, or -errno. */
int percpu_pool_settle(struct percpu_pool *p);

#endif
