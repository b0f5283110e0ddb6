/* SPDX-License-Identifier: MIT */
/*
 * objects.h - what the sources of objects share among themselves.
 */
#ifndef PERCPU_OBJECTS_H
#define PERCPU_OBJECTS_H

#include <percpu/zone.h>

#include "../memory/memory.h"

/* stats.c, stats_read.c */

/** Return the offset of object i's first field in the atomic lanes and the bias lane. */
static inline size_t percpu_stats_offset(const struct percpu_stats *s, size_t i)
{
	return (size_t)(s->block.base - s->block.chunk->base) + s->banks + i * s->record + s->head;
}

/** Return the control block of objects whose first one is at this address of lane 0. */
static inline struct percpu_stats_control *percpu_stats_control_at(const struct percpu_chunk *k,
								   const char *base)
{
	return (struct percpu_stats_control *)percpu_chunk_lane(k, 2 * (size_t)k->cpus,
								(size_t)(base - k->base));
}

static inline struct percpu_stats_control *percpu_stats_control(const struct percpu_stats *s)
{
	return percpu_stats_control_at(s->block.chunk, s->block.base);
}

/* local.c */

/** Return a struct percpu_local for a word in a region of default geometry, with
 *  PERCPU_LOCAL_REFS. One guard may serve many words. */
struct percpu_local percpu_local_word(void *cell, void *guard);

/* zone_check.c */

struct percpu_zone_check;

int percpu_zone_check_create(const char *name, const struct percpu_region *r, bool own, size_t size,
			     struct percpu_zone_check **ret);
void percpu_zone_check_destroy(struct percpu_zone_check *c);

/** Print to standard error which call of a zone failed, and why. */
void percpu_zone_check_explain(const char *name, const char *what);

/** Record that the item is allocated or free. Print an error and abort if it was not as it
 *  should be. percpu_zone_check_alloc() returns 0 or -ENOMEM. */
int percpu_zone_check_alloc(struct percpu_zone_check *c, const void *item);
void percpu_zone_check_free(struct percpu_zone_check *c, const void *item);
void percpu_zone_check_poison(const struct percpu_zone_check *c, void *item);

/** Called before (begins) and after pages are returned to the system. */
void percpu_zone_check_reclaim(struct percpu_zone_check *c, bool begins);

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

/** Free the memory of empty shelves. */
void percpu_depot_trim(struct percpu_depot *d);

/** Return how many items there are. */
size_t percpu_depot_count(const struct percpu_depot *d);

/* wbuf_queue.c */

/** Add to each cell. The caller holds the lock of the cells. */
void percpu_wbuf_apply(const struct percpu_wbuf_entry *adds, size_t n);

/** Apply the adds in a queue of mask + 1 words, and let sequences fill all but `reserve`
 *  words. The caller holds the lock of the cells. */
void percpu_wbuf_queue_apply(struct percpu_fifo *q, uint64_t mask, uint64_t reserve);

/** Let sequences fill the reserve, too. The caller does not need the lock. */
void percpu_wbuf_queue_open(struct percpu_fifo *q, uint64_t mask);

/** Return a pointer to the position up to which the queue was applied. */
uint64_t *percpu_wbuf_queue_applied(struct percpu_fifo *q, uint64_t mask);

/* zone.c, zone_item.c */

#define PERCPU_ZONE_CACHE 64 /* items per CPU */

struct percpu_zone {
	char name[32];
	size_t size;
	size_t align;
	struct percpu_region *region;
	bool own; /* the region goes with the zone */
	percpu_zone_fn *ctor, *dtor;
	void *arg;
	struct percpu_local *cache;	 /* NULL: a shared region, or PERCPU_ZONE_DEBUG */
	struct percpu_depot depot;	 /* items that the caches have no room for */
	struct percpu_zone_check *check; /* PERCPU_ZONE_DEBUG */
	struct percpu_counter *requests;
	uintptr_t base; /* of lane 0 of the region's first chunk */

	/* atomic */
	bool plain; /* allocating and freeing need only the cache */
	size_t limit;
	size_t taken;
	uint64_t failures PERCPU_ALIGNED_WORD;
	uint64_t waits PERCPU_ALIGNED_WORD;
	uint32_t waiters; /* threads in wait_for_item() */
	uint32_t freed;	  /* futex: changes with each free while there are waiters */
};

/** Return the cache of a CPU; NULL if there is none. */
const struct percpu_array *percpu_zone_cache_of(const struct percpu_zone *z, unsigned cpu);

/** Whether the limit was lowered below what is taken. */
bool percpu_zone_is_over(const struct percpu_zone *z);

/** Wake a thread that waits for an item. */
void percpu_zone_wake(struct percpu_zone *z);

/** Empty the caches of all CPUs, and the depot. */
void percpu_zone_drain(struct percpu_zone *z);

#endif
