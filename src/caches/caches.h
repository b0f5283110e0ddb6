/* SPDX-License-Identifier: MIT */
/*
 * caches.h - what the sources of zones and object caches share among themselves.
 */
#ifndef PERCPU_CACHES_H
#define PERCPU_CACHES_H

#include <percpu/counter.h>
#include <percpu/zone.h>

#include "../memory/memory.h"
#include "pool.h"

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

/* objcache_check.c */

struct percpu_objcache_check;

int percpu_objcache_check_create(const char *name, size_t size, struct percpu_objcache_check **ret);
void percpu_objcache_check_destroy(struct percpu_objcache_check *c);

/** Print to standard error why a get failed; whether it was for its arguments. */
void percpu_objcache_check_explain(const char *name, bool arguments, int e);

/** Record an object of the backend, which is with a user. Returns 0 or -ENOMEM. */
int percpu_objcache_check_add(struct percpu_objcache_check *c, const void *obj);

/** Record that the object is got, put (and kept, or about to be destroyed), or destroyed.
 *  Print an error and abort if it was not as it should be. */
void percpu_objcache_check_get(struct percpu_objcache_check *c, const void *obj);
void percpu_objcache_check_put(struct percpu_objcache_check *c, const void *obj, bool keep);
void percpu_objcache_check_remove(struct percpu_objcache_check *c, const void *obj);

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
	struct percpu_pool pool; /* without arrays in a shared region, or PERCPU_ZONE_DEBUG */
	struct percpu_zone_check *check; /* PERCPU_ZONE_DEBUG */
	struct percpu_counter *requests;
	uintptr_t base; /* of lane 0 of the region's first chunk */

	bool plain;			   /* allocating and freeing need only the array */
	uint64_t room PERCPU_ALIGNED_WORD; /* of the pool */
};

/** Where a zone's items come from. */
extern const struct percpu_pool_backend percpu_zone_backend;

#endif
