/* SPDX-License-Identifier: MIT */
/*
 * caches.h - declarations that the sources of zones and object caches share.
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

/** Record that the item is allocated. Print an error and abort if it was written to after its
 *  free. Returns 0 or -ENOMEM. */
int percpu_zone_check_alloc(struct percpu_zone_check *c, const void *item);

/** Record that the item is free. Print an error and abort if it was not allocated. */
void percpu_zone_check_free(struct percpu_zone_check *c, const void *item);

/** Fill all copies of a free item with poison. */
void percpu_zone_check_poison(const struct percpu_zone_check *c, void *item);

/** Note that pages are about to be returned to the system (begins), or were returned. */
void percpu_zone_check_reclaim(struct percpu_zone_check *c, bool begins);

/* objcache_check.c */

struct percpu_objcache_check;

int percpu_objcache_check_create(const char *name, size_t size, struct percpu_objcache_check **ret);
void percpu_objcache_check_destroy(struct percpu_objcache_check *c);

/** Print to standard error why a get failed. arguments says whether they were the reason. */
void percpu_objcache_check_explain(const char *name, bool arguments, int e);

/** Record an object that the backend has returned for a user. Returns 0 or -ENOMEM. */
int percpu_objcache_check_add(struct percpu_objcache_check *c, const void *obj);

/** Record that the object is got. Print an error and abort if it was written to after its put. */
void percpu_objcache_check_get(struct percpu_objcache_check *c, const void *obj);

/** Record that the object is put, to be kept or to be destroyed. Print an error and abort if it
 *  is not of this cache, or was put before. */
void percpu_objcache_check_put(struct percpu_objcache_check *c, const void *obj, bool keep);

/** Forget an object that is about to be destroyed. Print an error and abort if it was written to
 *  after its put. */
void percpu_objcache_check_remove(struct percpu_objcache_check *c, const void *obj);

/* zone.c, zone_item.c */

#define PERCPU_ZONE_CACHE 64 /* items per CPU */

struct percpu_zone {
	char name[32];
	size_t size;
	size_t align;
	struct percpu_region *region;
	bool own; /* the zone closes the region */
	percpu_zone_fn *ctor, *dtor;
	void *arg;
	struct percpu_pool pool; /* without arrays in a shared region, or PERCPU_ZONE_DEBUG */
	struct percpu_zone_check *check; /* PERCPU_ZONE_DEBUG */
	struct percpu_counter *requests;
	uintptr_t base; /* address of lane 0 of the region's first chunk */

	bool plain;			   /* allocating and freeing need only the array */
	uint64_t room PERCPU_ALIGNED_WORD; /* the pool's room */
};

/** Empty the arrays and the depot of a zone. */
void percpu_zone_drain(struct percpu_zone *z);

/** The source of a zone's items. */
extern const struct percpu_pool_backend percpu_zone_backend;

#endif
