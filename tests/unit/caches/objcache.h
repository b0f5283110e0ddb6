/* SPDX-License-Identifier: MIT */
/* objcache.h - a backend that counts its calls, for the tests of object caches. */
#ifndef TESTS_UNIT_OBJCACHE_H
#define TESTS_UNIT_OBJCACHE_H

#include <stdlib.h>
#include <string.h>

#include <percpu/objcache.h>

#include "support.h"

#define CONSTRUCTED UINT64_C(0x600d)

/* The calls for the objects of all caches since make_cache(). */
static struct {
	unsigned allocated, constructed, destroyed, freed, most, wrong; /* atomic */
	unsigned alloc_flags, ctor_flags;				/* of the last call */
	int ctor_result;
	bool no_memory;
} made;

static inline void *made_alloc(void *arg, unsigned flags)
{
	unsigned now, most;

	(void)arg;
	__atomic_store_n(&made.alloc_flags, flags, __ATOMIC_RELAXED);
	if (made.no_memory)
		return NULL;
	now = __atomic_add_fetch(&made.allocated, 1, __ATOMIC_SEQ_CST) -
	      __atomic_load_n(&made.freed, __ATOMIC_SEQ_CST);
	most = __atomic_load_n(&made.most, __ATOMIC_RELAXED);
	while (now > most && !__atomic_compare_exchange_n(&made.most, &most, now, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return calloc(1, 64);
}

static inline void made_free(void *obj, void *arg)
{
	(void)arg;
	free(obj);
	__atomic_fetch_add(&made.freed, 1, __ATOMIC_SEQ_CST);
}

static inline int made_ctor(void *obj, void *arg, unsigned flags)
{
	(void)arg;
	__atomic_store_n(&made.ctor_flags, flags, __ATOMIC_RELAXED);
	if (made.ctor_result != 0)
		return made.ctor_result;
	__atomic_fetch_add(&made.wrong, *(uint64_t *)obj != 0, __ATOMIC_RELAXED);
	*(uint64_t *)obj = CONSTRUCTED;
	__atomic_fetch_add(&made.constructed, 1, __ATOMIC_RELAXED);
	return 0;
}

static inline void made_dtor(void *obj, void *arg)
{
	(void)arg;
	__atomic_fetch_add(&made.wrong, *(uint64_t *)obj != CONSTRUCTED, __ATOMIC_RELAXED);
	*(uint64_t *)obj = 0;
	__atomic_fetch_add(&made.destroyed, 1, __ATOMIC_RELAXED);
}

static inline struct percpu_objcache *make_cache(const struct percpu_objcache_options *o)
{
	struct percpu_objcache_options opt = { .size = sizeof(opt) };
	struct percpu_objcache *oc;

	memset(&made, 0, sizeof(made));
	if (o != NULL)
		opt = *o;
	opt.ctor = made_ctor;
	opt.dtor = made_dtor;
	opt.alloc = made_alloc;
	opt.free = made_free;
	assert_int_equal(percpu_objcache_create("test", 64, &opt, &oc), 0);
	return oc;
}

static inline void *get(struct percpu_objcache *oc)
{
	void *obj;

	assert_int_equal(percpu_objcache_get(oc, 0, &obj), 0);
	return obj;
}

static inline struct percpu_objcache_stats stats_of(const struct percpu_objcache *oc)
{
	struct percpu_objcache_stats st;

	percpu_objcache_stats(oc, &st);
	return st;
}

#endif
