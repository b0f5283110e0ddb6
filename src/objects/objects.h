/* SPDX-License-Identifier: MIT */
/*
 * objects.h - what the sources of objects share among themselves.
 */
#ifndef PERCPU_OBJECTS_H
#define PERCPU_OBJECTS_H

#include <percpu/zone.h>

#include "../memory/memory.h"

/* stats.c, stats_read.c */

/** Where the first field of object i is in the atomic lanes and the bias lane. */
static inline size_t percpu_stats_offset(const struct percpu_stats *s, size_t i)
{
	return (size_t)(s->block.base - s->block.chunk->base) + s->banks + i * s->record + s->head;
}

/** The control of objects whose first one is at this address of lane 0. */
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

/** A word in cells of default geometry, any of many that one guard keeps, with
 *  PERCPU_LOCAL_REFS. */
struct percpu_local percpu_local_word(void *cell, void *guard);

/* zone_check.c */

struct percpu_zone_check;

int percpu_zone_check_create(const char *name, const struct percpu_region *r, bool own, size_t size,
			     struct percpu_zone_check **ret);
void percpu_zone_check_destroy(struct percpu_zone_check *c);

/** Say on standard error what a zone was asked for in vain. */
void percpu_zone_check_explain(const char *name, const char *what);

/** Note that the item is allocated or free; complain and abort if it was not as
 *  it should be. Allocating returns 0 or -ENOMEM. */
int percpu_zone_check_alloc(struct percpu_zone_check *c, const void *item);
void percpu_zone_check_free(struct percpu_zone_check *c, const void *item);
void percpu_zone_check_poison(const struct percpu_zone_check *c, void *item);

/** Around returning pages to the system. */
void percpu_zone_check_reclaim(struct percpu_zone_check *c, bool begins);

/* depot.c */

/** Items kept for the next allocation. All zero, it takes none. */
struct percpu_depot {
	struct percpu_shelf *shelves;
	unsigned count;
	struct percpu_depot *next;
};

/** Returns 0 or -ENOMEM. */
int percpu_depot_init(struct percpu_depot *d, unsigned cpus);
void percpu_depot_fini(struct percpu_depot *d);

/** Keep n items; -ENOMEM, or -EBUSY if other threads are at all shelves. */
int percpu_depot_put(struct percpu_depot *d, void *const *items, size_t n);

/** Take up to n; returns how many. Unless it waits for those who are at a
 *  shelf, it passes by. */
size_t percpu_depot_take(struct percpu_depot *d, bool wait, void **ret, size_t n);

/** Give the memory of empty shelves back. */
void percpu_depot_trim(struct percpu_depot *d);

/** How many items there are. */
size_t percpu_depot_count(const struct percpu_depot *d);

/* wbuf_queue.c */

/** Add to each cell; under the lock of the cells, like the next. */
void percpu_wbuf_apply(const struct percpu_wbuf_entry *adds, size_t n);

/** Apply what is in a queue of mask + 1 words. All but `reserve` words are then for
 *  sequences to fill. */
void percpu_wbuf_queue_apply(struct percpu_fifo *q, uint64_t mask, uint64_t reserve);

/** Let sequences have the reserve, too; without the lock. */
void percpu_wbuf_queue_open(struct percpu_fifo *q, uint64_t mask);

/** How far the queue was applied. */
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

/** The cache of a CPU; NULL if there is none. */
const struct percpu_array *percpu_zone_cache_of(const struct percpu_zone *z, unsigned cpu);

/** Whether the limit was lowered below what is taken. */
bool percpu_zone_is_over(const struct percpu_zone *z);

/** Let somebody who waits for an item look again. */
void percpu_zone_wake(struct percpu_zone *z);

/** Empty the caches of all CPUs, and the depot. */
void percpu_zone_drain(struct percpu_zone *z);

#endif
