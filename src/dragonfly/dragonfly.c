/* SPDX-License-Identifier: MIT */
/*
 * dragonfly.c - DragonFly's object caches, on top of percpu/objcache.h.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/dragonfly/objcache.h>

/* A cache. A struct objcache is its first field. */
struct dragonfly_cache {
	struct objcache pub;
	objcache_ctor_fn *ctor;
	objcache_dtor_fn *dtor;
	void *privdata;
	objcache_alloc_fn *alloc;
	objcache_free_fn *free;
	void *args;
	struct objcache_malloc_args malloc_args; /* args of a cache backed by kmalloc */
};

static int construct_for_dragonfly(void *obj, void *arg, unsigned flags)
{
	const struct dragonfly_cache *c = arg;

	return c->ctor(obj, c->privdata, (int)(flags >> 16)) ? 0 : -ENOMEM;
}

static void destroy_for_dragonfly(void *obj, void *arg)
{
	const struct dragonfly_cache *c = arg;

	c->dtor(obj, c->privdata);
}

static void *allocate_for_dragonfly(void *arg, unsigned flags)
{
	const struct dragonfly_cache *c = arg;

	return c->alloc(c->args, (int)(flags >> 16));
}

static void free_for_dragonfly(void *obj, void *arg)
{
	const struct dragonfly_cache *c = arg;

	c->free(obj, c->args);
}

/* Start the cache. On failure free c, and return NULL. */
static struct objcache *start_cache(struct dragonfly_cache *c, const char *name, int limit, int nom)
{
	struct percpu_objcache_options o = { .size = sizeof(o) };

	o.limit = limit < OBJCACHE_UNLIMITED ? (size_t)limit : 0;
	o.cached = (size_t)nom;
	o.ctor = c->ctor != NULL ? construct_for_dragonfly : NULL;
	o.dtor = c->dtor != NULL ? destroy_for_dragonfly : NULL;
	o.arg = c;
	o.alloc = allocate_for_dragonfly;
	o.free = free_for_dragonfly;
	o.backend = c;
	/* Pass any size: the backend knows it, and without a debug flag nothing else uses it. */
	if (limit >= 0 && nom >= 0 && percpu_objcache_create(name, 1, &o, &c->pub.cache) == 0)
		return &c->pub;
	free(c);
	return NULL;
}

struct objcache *percpu_dragonfly_objcache_create(const char *name, int cluster_limit,
						  int nom_cache, objcache_ctor_fn *ctor,
						  objcache_dtor_fn *dtor, void *privdata,
						  objcache_alloc_fn *alloc_fn,
						  objcache_free_fn *free_fn,
						  const void *allocator_args)
{
	struct dragonfly_cache *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->ctor = ctor;
	c->dtor = dtor;
	c->privdata = privdata;
	c->alloc = alloc_fn;
	c->free = free_fn;
	c->args = (void *)allocator_args;
	if (alloc_fn != NULL && free_fn != NULL)
		return start_cache(c, name, cluster_limit, nom_cache);
	free(c);
	return NULL;
}

struct objcache *percpu_dragonfly_objcache_mbacked(malloc_type_t mtype, size_t objsize,
						   int cluster_limit, int nom_cache,
						   objcache_ctor_fn *ctor, objcache_dtor_fn *dtor,
						   void *privdata)
{
	struct dragonfly_cache *c = mtype != NULL ? calloc(1, sizeof(*c)) : NULL;

	if (c == NULL)
		return NULL;
	c->ctor = ctor;
	c->dtor = dtor;
	c->privdata = privdata;
	c->alloc = objcache_malloc_alloc;
	c->free = objcache_malloc_free;
	c->malloc_args.objsize = objsize;
	c->malloc_args.mtype = mtype;
	c->args = &c->malloc_args;
	return start_cache(c, mtype->ks_shortdesc, cluster_limit, nom_cache);
}

void percpu_dragonfly_objcache_destroy(struct objcache *oc)
{
	if (oc != NULL && percpu_objcache_destroy(oc->cache) == 0)
		free(oc);
}

boolean_t percpu_dragonfly_objcache_reclaimlist(struct objcache *oclist[], int nlist)
{
	for (int i = 0; i < nlist; i++)
		if (oclist[i] != NULL && percpu_objcache_reclaim(oclist[i]->cache) != 0)
			return TRUE;
	return FALSE;
}

void *percpu_dragonfly_objcache_alloc(void *allocator_args, int ocflags)
{
	const struct objcache_malloc_args *args = allocator_args;

	return percpu_dragonfly_kmalloc(args->objsize, ocflags);
}

void *percpu_dragonfly_kmalloc(size_t size, int flags)
{
	const int waits = (flags & (M_WAITOK | M_NULLOK)) == M_WAITOK;
	void *p;

	while ((p = malloc(size != 0 ? size : 1)) == NULL && waits)
		sched_yield();
	if (p != NULL && (flags & M_ZERO))
		memset(p, 0, size);
	return p;
}

void percpu_dragonfly_kfree(void *p)
{
	free(p);
}
