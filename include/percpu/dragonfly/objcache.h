/* SPDX-License-Identifier: MIT */
/*
 * objcache.h - DragonFly's objcache(9) under its own names, built on percpu/objcache.h, and
 * the part of kmalloc(9) that its users need.
 *
 * Differences: a cluster limit is strict, and there is one cluster; names stay with the
 * caches, and are cut to 31 characters; objcache_populate_linear() is not there.
 *
 * What the calls have in common.
 * Context: any thread, not a signal handler. In a child of fork a cache is the child's own
 * copy.
 * Ordering: as percpu_objcache_get() and percpu_objcache_put().
 * Progress: as these two. With M_WAITOK and without M_NULLOK, a get waits at the limit until
 * an object is put, and kmalloc() waits until there is memory.
 */
#ifndef PERCPU_DRAGONFLY_OBJCACHE_H
#define PERCPU_DRAGONFLY_OBJCACHE_H

#ifdef _SYS_OBJCACHE_H_
#error "this stands in for sys/objcache.h, which was included before it"
#endif
#define _SYS_OBJCACHE_H_ /* makes the original empty if it is included later */

#include <percpu/dragonfly/malloc.h>
#include <percpu/objcache.h>

PERCPU_BEGIN_DECLS

#define OC_MFLAGS 0x0000ffff /* the flags that a constructor and a backend get */
#define OBJCACHE_UNLIMITED 0x40000000

typedef int boolean_t;
#ifndef TRUE
#define TRUE 1
#endif
#ifndef FALSE
#define FALSE 0
#endif

/** Construct an object. Returns whether that was done. If not, the get returns NULL. */
typedef boolean_t(objcache_ctor_fn)(void *obj, void *privdata, int ocflags);
typedef void(objcache_dtor_fn)(void *obj, void *privdata);

/** The functions of a backend. */
typedef void *(objcache_alloc_fn)(void *allocator_args, int ocflags);
typedef void(objcache_free_fn)(void *obj, void *allocator_args);

/** A cache. The field belongs to the library. */
struct objcache {
	struct percpu_objcache *cache;
};

struct objcache_malloc_args {
	size_t objsize;
	malloc_type_t mtype;
};

PERCPU_API struct objcache *percpu_dragonfly_objcache_create(const char *name, int cluster_limit,
							     int nom_cache, objcache_ctor_fn *ctor,
							     objcache_dtor_fn *dtor, void *privdata,
							     objcache_alloc_fn *alloc_fn,
							     objcache_free_fn *free_fn,
							     const void *allocator_args);
PERCPU_API struct objcache *percpu_dragonfly_objcache_mbacked(malloc_type_t mtype, size_t objsize,
							      int cluster_limit, int nom_cache,
							      objcache_ctor_fn *ctor,
							      objcache_dtor_fn *dtor,
							      void *privdata);
PERCPU_API void percpu_dragonfly_objcache_destroy(struct objcache *oc);
PERCPU_API boolean_t percpu_dragonfly_objcache_reclaimlist(struct objcache *oclist[], int nlist);
PERCPU_API void *percpu_dragonfly_objcache_alloc(void *allocator_args, int ocflags);

/**
 * Create a cache.
 *
 * Parameters
 *	cluster_limit	most objects at a time; 0, or OBJCACHE_UNLIMITED and above: no limit
 *	nom_cache	most free objects in the arrays of all CPUs together; 0: the default
 *	ctor, dtor	may be NULL
 *
 * Returns NULL if there is no memory, a number is negative, or the name, the type, or a
 * function of the backend is NULL.
 */
static inline struct objcache *objcache_create(const char *name, int cluster_limit, int nom_cache,
					       objcache_ctor_fn *ctor, objcache_dtor_fn *dtor,
					       void *privdata, objcache_alloc_fn *alloc_fn,
					       objcache_free_fn *free_fn, void *allocator_args)
{
	return percpu_dragonfly_objcache_create(name, cluster_limit, nom_cache, ctor, dtor,
						privdata, alloc_fn, free_fn, allocator_args);
}

/** Create a cache of objects of objsize bytes from kmalloc(). */
static inline struct objcache *objcache_create_mbacked(malloc_type_t mtype, size_t objsize,
						       int cluster_limit, int nom_cache,
						       objcache_ctor_fn *ctor,
						       objcache_dtor_fn *dtor, void *privdata)
{
	return percpu_dragonfly_objcache_mbacked(mtype, objsize, cluster_limit, nom_cache, ctor,
						 dtor, privdata);
}

static inline struct objcache *objcache_create_simple(malloc_type_t mtype, size_t objsize)
{
	return percpu_dragonfly_objcache_mbacked(
		mtype, objsize, 0, 0, PERCPU_NULL(objcache_ctor_fn *),
		PERCPU_NULL(objcache_dtor_fn *), PERCPU_NULL(void *));
}

/** Change the limit, which is as for objcache_create(). Do nothing if it is negative, or oc is
 *  NULL. */
static inline void objcache_set_cluster_limit(struct objcache *oc, int cluster_limit)
{
	if (oc != PERCPU_NULL(struct objcache *) && cluster_limit >= 0)
		percpu_objcache_set_limit(
			oc->cache, cluster_limit < OBJCACHE_UNLIMITED ? (size_t)cluster_limit : 0);
}

/** Get an object. Returns NULL if there is none, and waiting is not allowed or would not help.
 *  M_ZERO has no effect on an object that was constructed before. */
static inline void *objcache_get(struct objcache *oc, int ocflags)
{
	unsigned flags = (unsigned)(ocflags & OC_MFLAGS) << 16;
	void *obj;

	if ((ocflags & (M_WAITOK | M_NULLOK)) == M_WAITOK)
		flags |= PERCPU_OBJCACHE_WAIT;
	return percpu_objcache_get(oc->cache, flags, &obj) == 0 ? obj : PERCPU_NULL(void *);
}

static inline void objcache_put(struct objcache *oc, void *obj)
{
	percpu_objcache_put(oc->cache, obj);
}

/** Destroy an object instead of putting it back. */
static inline void objcache_dtor(struct objcache *oc, void *obj)
{
	if (oc != PERCPU_NULL(struct objcache *))
		(void)percpu_objcache_dtor(oc->cache, obj);
}

/** Destroy the free objects of the first of these caches that has free objects. Entries may be
 *  NULL. Returns whether there was such a cache. */
static inline boolean_t objcache_reclaimlist(struct objcache *oclist[], int nlist, int ocflags)
{
	(void)ocflags;
	return percpu_dragonfly_objcache_reclaimlist(oclist, nlist);
}

/** Destroy a cache. If users have objects of it, do nothing. */
static inline void objcache_destroy(struct objcache *oc)
{
	percpu_dragonfly_objcache_destroy(oc);
}

/* Functions of three backends: kmalloc(), kmalloc() with M_ZERO, and one that has no memory. */
static inline void *objcache_malloc_alloc(void *allocator_args, int ocflags)
{
	return percpu_dragonfly_objcache_alloc(allocator_args, ocflags & OC_MFLAGS);
}

static inline void *objcache_malloc_alloc_zero(void *allocator_args, int ocflags)
{
	return percpu_dragonfly_objcache_alloc(allocator_args, (ocflags & OC_MFLAGS) | M_ZERO);
}

static inline void objcache_malloc_free(void *obj, void *allocator_args)
{
	(void)allocator_args;
	percpu_dragonfly_kfree(obj);
}

static inline void *objcache_nop_alloc(void *allocator_args, int ocflags)
{
	(void)allocator_args;
	(void)ocflags;
	return PERCPU_NULL(void *);
}

static inline void objcache_nop_free(void *obj, void *allocator_args)
{
	(void)obj;
	(void)allocator_args;
}

PERCPU_END_DECLS

#endif
