/* SPDX-License-Identifier: MIT */
/*
 * objcache.c - caches of constructed objects. pool.c moves the objects; this file has the
 * functions that the pool calls when an object comes from the backend or goes back.
 *
 * With PERCPU_OBJCACHE_DEBUG the arrays stay empty, and free objects are in the depot: "room" is
 * 0, so each get and each put calls the functions of this file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/local.h>
#include <percpu/objcache.h>

#include "../cpu/debug.h"
#include "caches.h"

#define FIRST_FULL 64

struct object_cache {
	struct percpu_objcache pub;

	char apart[128]; /* gets and puts read the above, so stores go to other cache lines */

	char name[32];
	size_t size;
	struct percpu_objcache_options own;
	struct percpu_local *arrays;
	struct percpu_pool pool;
	struct percpu_objcache_check *check;	/* PERCPU_OBJCACHE_DEBUG */
	uint64_t allocated PERCPU_ALIGNED_WORD; /* atomic */
};

static struct object_cache *objcache_of(const struct percpu_objcache *oc)
{
	return (struct object_cache *)oc;
}

/* The backend */

/* Arguments and result of make_object(). */
struct getting {
	unsigned flags;
	int error; /* why no object could be made */
};

static void *malloc_object(void *oc, unsigned flags)
{
	(void)flags;
	return malloc(((struct object_cache *)oc)->size);
}

static void free_object(void *obj, void *oc)
{
	(void)oc;
	free(obj);
}

/* Return an object, or set the error and return NULL. */
static void *construct_object(struct object_cache *oc, struct getting *g)
{
	void *obj = oc->own.alloc(oc->own.backend, g->flags);

	g->error = obj != NULL ? 0 : -ENOMEM;
	if (obj == NULL || oc->own.ctor == NULL)
		return obj;
	g->error = oc->own.ctor(obj, oc->own.arg, g->flags);
	if (g->error == 0)
		return obj;
	if (g->error > 0)
		g->error = -EIO;
	oc->own.free(obj, oc->own.backend);
	return NULL;
}

static void destroy_object(struct object_cache *oc, void *obj)
{
	if (oc->check != NULL)
		percpu_objcache_check_remove(oc->check, obj);
	if (oc->own.dtor != NULL)
		oc->own.dtor(obj, oc->own.arg);
	oc->own.free(obj, oc->own.backend);
}

/* Make one object at a time: a constructor may take long, and each object counts for the limit. */
static ssize_t make_object(void *owner, void *how, void **ret, size_t n)
{
	struct object_cache *oc = owner;
	struct percpu_thread_call within;
	struct getting *g = how;
	void *obj;

	(void)n;
	percpu_thread_enter_call(&within, oc);
	obj = construct_object(oc, g);
	if (obj != NULL && oc->check != NULL && percpu_objcache_check_add(oc->check, obj) != 0) {
		if (oc->own.dtor != NULL)
			oc->own.dtor(obj, oc->own.arg);
		oc->own.free(obj, oc->own.backend);
		obj = NULL;
		g->error = -ENOMEM;
	}
	percpu_thread_leave_call(&within);
	if (obj == NULL)
		return -ENOMEM;
	__atomic_fetch_add(&oc->allocated, 1, __ATOMIC_RELAXED);
	*ret = obj;
	return 1;
}

static size_t unmake_objects(void *owner, void *const *items, size_t n)
{
	struct percpu_thread_call within;

	percpu_thread_enter_call(&within, owner);
	for (size_t i = 0; i < n; i++)
		destroy_object(owner, items[i]);
	percpu_thread_leave_call(&within);
	return n;
}

static void reclaim_objects(void *owner)
{
	(void)percpu_objcache_reclaim(&((struct object_cache *)owner)->pub);
}

static const struct percpu_pool_backend objcache_backend = { make_object, unmake_objects,
							     reclaim_objects };

/* Creation */

static void free_objcache(struct object_cache *oc)
{
	if (oc->check != NULL)
		oc->pool.arrays = oc->arrays;
	percpu_pool_fini(&oc->pool);
	percpu_counter_destroy(oc->pub.requests);
	percpu_objcache_check_destroy(oc->check);
	free(oc);
}

static int make_objcache_parts(struct object_cache *oc)
{
	const size_t array = sizeof(struct percpu_array) + PERCPU_POOL_MOST * sizeof(void *);
	struct percpu_pool *p = &oc->pool;
	int e = percpu_counter_create(&oc->pub.requests);

	if (e == 0)
		e = percpu_local_create(array, PERCPU_LOCAL_LOCK, &p->arrays);
	if (e != 0)
		return e;
	oc->arrays = p->arrays;
	p->cpus = percpu_status()->possible_cpus;
	e = percpu_depot_init(&p->depot, p->cpus);
	if (e == 0 && (oc->own.flags & PERCPU_OBJCACHE_DEBUG))
		e = percpu_objcache_check_create(oc->name, oc->size, &oc->check);
	return e;
}

static void start_objcache_pool(struct object_cache *oc)
{
	struct percpu_pool *p = &oc->pool;

	oc->pub.cell = oc->arrays->cell;
	oc->pub.guard = oc->arrays->guard;
	oc->pub.stride = oc->arrays->stride;
	if (oc->check != NULL)
		p->arrays = NULL;
	p->backend = &objcache_backend;
	p->owner = oc;
	p->limit = oc->own.limit;
	p->requests = oc->pub.requests;
	p->adapts = true;
	p->most = PERCPU_POOL_MOST;
	if (oc->own.cached != 0 && oc->own.cached / p->cpus < p->most)
		p->most = oc->own.cached / p->cpus;
	p->full = FIRST_FULL;
	percpu_pool_init(p, &oc->pub.room);
}

int percpu_objcache_create(const char *name, size_t size, const struct percpu_objcache_options *o,
			   struct percpu_objcache **ret)
{
	struct percpu_objcache_options opt;
	struct object_cache *oc;
	int e;

	if (name == NULL || size == 0 || ret == NULL ||
	    percpu_options_read(&opt, sizeof(opt), o) != 0 || opt.reserved != 0 ||
	    (opt.flags & ~PERCPU_OBJCACHE_DEBUG) || (opt.alloc == NULL) != (opt.free == NULL))
		return -EINVAL;
	oc = calloc(1, sizeof(*oc));
	if (oc == NULL)
		return -ENOMEM;
	(void)snprintf(oc->name, sizeof(oc->name), "%s", name);
	oc->size = size;
	oc->own = opt;
	oc->own.flags = percpu_debug_flags(opt.flags, PERCPU_OBJCACHE_DEBUG);
	if (opt.alloc == NULL) {
		oc->own.alloc = malloc_object;
		oc->own.free = free_object;
		oc->own.backend = oc;
	}
	e = make_objcache_parts(oc);
	if (e != 0) {
		free_objcache(oc);
		return e;
	}
	start_objcache_pool(oc);
	*ret = &oc->pub;
	return 0;
}

/*
 * From here on each call that may reach the backend, a constructor or a destructor defers the
 * thread's cancellation until it ends: an object that the call has taken from an array, the depot
 * or the backend counts as taken until the call has passed it on.
 */

int percpu_objcache_destroy(struct percpu_objcache *oc)
{
	struct percpu_pins *pins = oc != NULL ? &objcache_of(oc)->pool.pins : NULL;
	int state, e = 0;

	if (oc == NULL)
		return 0;
	if (percpu_thread_is_in_call(pins))
		return -EBUSY; /* percpu_reclaim() has called its destructor */
	state = percpu_defer_cancel();
	percpu_pins_close(pins);
	percpu_pool_drain(&objcache_of(oc)->pool, SIZE_MAX);
	if (__atomic_load_n(&objcache_of(oc)->pool.taken, __ATOMIC_ACQUIRE) != 0)
		e = -EBUSY;
	if (e != 0)
		percpu_pins_open(pins);
	else
		free_objcache(objcache_of(oc));
	percpu_restore_cancel(state);
	return e;
}

/* Gets and puts */

static int get_object(struct object_cache *oc, unsigned flags, void **ret)
{
	struct getting g = { .flags = flags };
	void *obj;
	int e;

	e = percpu_pool_get(&oc->pool, &g, &obj);
	if (e == -ENOSPC) {
		__atomic_fetch_add(&oc->pool.exhausted, 1, __ATOMIC_RELAXED);
		if (flags & PERCPU_OBJCACHE_WAIT)
			e = percpu_thread_is_in_call(oc) ? -EDEADLK :
							   percpu_pool_wait(&oc->pool, &g, &obj);
	}
	if (e == -ENOMEM && g.error != 0)
		e = g.error;
	if (e != 0) {
		if (oc->check != NULL)
			percpu_objcache_check_explain(oc->name, false, e);
		__atomic_fetch_add(&oc->pool.failures, 1, __ATOMIC_RELAXED);
		return e;
	}
	if (oc->check != NULL)
		percpu_objcache_check_get(oc->check, obj);
	percpu_counter_inc(oc->pub.requests);
	*ret = obj;
	return 0;
}

int percpu_objcache_get_slow(struct percpu_objcache *pub, unsigned flags, void **ret)
{
	struct object_cache *oc = objcache_of(pub);
	int state, e;

	if (ret == NULL || (flags & ~(PERCPU_OBJCACHE_USER | PERCPU_OBJCACHE_WAIT))) {
		if (oc->check != NULL)
			percpu_objcache_check_explain(oc->name, true, -EINVAL);
		return -EINVAL;
	}
	state = percpu_defer_cancel();
	e = get_object(oc, flags, ret);
	percpu_restore_cancel(state);
	return e;
}

void percpu_objcache_put_slow(struct percpu_objcache *pub, void *obj)
{
	struct object_cache *oc = objcache_of(pub);
	int state = percpu_defer_cancel();

	if (obj == NULL) {
		percpu_pool_pushed(&oc->pool);
	} else {
		if (oc->check != NULL)
			percpu_objcache_check_put(oc->check, obj, true);
		(void)percpu_pool_put(&oc->pool, obj); /* unmake_objects() does not fail */
	}
	percpu_restore_cancel(state);
}

int percpu_objcache_dtor(struct percpu_objcache *pub, void *obj)
{
	struct object_cache *oc = objcache_of(pub);
	int state;

	if (obj == NULL)
		return 0;
	if (oc == NULL)
		return -EINVAL;
	state = percpu_defer_cancel();
	if (oc->check != NULL)
		percpu_objcache_check_put(oc->check, obj, false);
	(void)percpu_pool_unmake(&oc->pool, &obj, 1);
	percpu_restore_cancel(state);
	return 0;
}

void percpu_objcache_set_limit(struct percpu_objcache *oc, size_t limit)
{
	int state;

	if (oc == NULL)
		return;
	state = percpu_defer_cancel();
	percpu_pool_set_limit(&objcache_of(oc)->pool, limit);
	percpu_restore_cancel(state);
}

size_t percpu_objcache_reclaim(struct percpu_objcache *oc)
{
	struct percpu_pool *p;
	size_t n;
	int state;

	if (oc == NULL)
		return 0;
	state = percpu_defer_cancel();
	p = &objcache_of(oc)->pool;
	n = percpu_pool_drain(p, SIZE_MAX);
	percpu_depot_trim(&p->depot);
	percpu_pool_fit(p, FIRST_FULL);
	percpu_restore_cancel(state);
	return n;
}

void percpu_objcache_stats(const struct percpu_objcache *pub, struct percpu_objcache_stats *ret)
{
	const struct object_cache *oc = objcache_of(pub);
	const struct percpu_pool *p;
	uint64_t taken, cached;

	if (oc == NULL || ret == NULL)
		return;
	p = &oc->pool;
	cached = percpu_pool_count(p);
	taken = __atomic_load_n(&p->taken, __ATOMIC_RELAXED);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->name, oc->name, sizeof(ret->name));
	ret->size = oc->size;
	ret->limit = __atomic_load_n(&p->limit, __ATOMIC_RELAXED);
	ret->requested = percpu_counter_fetch(pub->requests);
	ret->used = taken > cached ? taken - cached : 0;
	ret->cached = cached;
	ret->exhausted = __atomic_load_n(&p->exhausted, __ATOMIC_RELAXED);
	ret->failed = __atomic_load_n(&p->failures, __ATOMIC_RELAXED);
	ret->allocated = __atomic_load_n(&oc->allocated, __ATOMIC_RELAXED);
	ret->waited = __atomic_load_n(&p->waits, __ATOMIC_RELAXED);
	ret->array = __atomic_load_n(&p->full, __ATOMIC_RELAXED);
}
