/* SPDX-License-Identifier: MIT */
/*
 * zone.c - the per-CPU allocator. zone_item.c allocates and frees items.
 *
 * Items are cells of a region, whose allocation takes a lock. Between the region and the caller
 * is a pool (pool.c): an array of free items per CPU, and a depot. A zone in a region that the
 * program has passed to it has no depot, because its items would be missing elsewhere.
 *
 * A zone in a shared region has no arrays: items in them would be lost with the process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/zone.h>

#include "../cpu/debug.h"
#include "caches.h"

#define MAX_ALIGN 64
#define BATCH (PERCPU_ZONE_CACHE / 2)
#define BATCH_BYTES 4096 /* of larger items fewer come from the region at a time */

/* Creation */

/* Return what is wrong with the arguments, and set *ret_error; NULL if nothing is. */
static const char *find_fault(const char *name, size_t size, const struct percpu_zone_options *o,
			      int *ret_error)
{
	*ret_error = -EINVAL;
	if (name == NULL)
		return "is created without a name";
	if (size == 0 || size > PERCPU_LANE_SIZE)
		return "is created with items of 0 bytes, or of more than a lane's 65536";
	if (o->reserved != 0 || (o->flags & ~PERCPU_ZONE_DEBUG))
		return "is created with options that this library does not know";
	if (o->align > MAX_ALIGN || (o->align & (o->align - 1)) != 0)
		return "is created with an alignment that is not a power of two up to 64";
	if (o->region != NULL && !percpu_region_has_default_lanes(o->region))
		return "is created in a region whose lanes have not the default size";
	*ret_error = -EROFS;
	if (o->region != NULL && !o->region->writable)
		return "is created in a region that was opened to read";
	return NULL;
}

static void free_zone(struct percpu_zone *z)
{
	percpu_counter_destroy(z->requests);
	percpu_pool_fini(&z->pool);
	if (z->own)
		percpu_region_close(z->region);
	percpu_zone_check_destroy(z->check);
	free(z);
}

static int make_parts(struct percpu_zone *z, const struct percpu_zone_options *o)
{
	int e = 0;

	z->region = o->region;
	if (o->region == NULL) {
		e = percpu_region_create(NULL, &z->region);
		z->own = e == 0;
		if (e == 0)
			percpu_region_keep(z->region); /* its pages may hold poison */
	}
	if (e == 0)
		e = percpu_counter_create(&z->requests);
	if (e != 0)
		return e;
	if (o->flags & PERCPU_ZONE_DEBUG)
		return percpu_zone_check_create(z->name, z->region, z->own, z->size, &z->check);
	if (z->region->shared)
		return 0;
	if (z->own)
		e = percpu_depot_init(&z->pool.depot, z->region->cpus);
	if (e != 0)
		return e;
	return percpu_local_create(sizeof(struct percpu_array) + PERCPU_ZONE_CACHE * sizeof(void *),
				   PERCPU_LOCAL_LOCK, &z->pool.arrays);
}

static void start_pool(struct percpu_zone *z, size_t limit)
{
	struct percpu_pool *p = &z->pool;

	p->backend = &percpu_zone_backend;
	p->owner = z;
	p->limit = limit;
	p->full = p->most = PERCPU_ZONE_CACHE;
	p->fetch = z->size <= BATCH_BYTES / BATCH ? BATCH : BATCH_BYTES / z->size + 1;
	percpu_pool_init(p, &z->room);
}

int percpu_zone_create(const char *name, size_t size, const struct percpu_zone_options *o,
		       struct percpu_zone **ret)
{
	struct percpu_zone_options opt;
	const char *fault;
	struct percpu_zone *z;
	int e;

	if (ret == NULL || percpu_options_read(&opt, sizeof(opt), o) != 0)
		return -EINVAL;
	opt.flags = percpu_debug_flags(opt.flags, PERCPU_ZONE_DEBUG);
	fault = find_fault(name, size, &opt, &e);
	if (fault != NULL) {
		if (opt.flags & PERCPU_ZONE_DEBUG)
			percpu_zone_check_explain(name != NULL ? name : "", fault);
		return e;
	}
	z = calloc(1, sizeof(*z));
	if (z == NULL)
		return -ENOMEM;
	snprintf(z->name, sizeof(z->name), "%s", name);
	z->size = (size + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
	z->align = opt.align != 0 ? opt.align : sizeof(uint64_t);
	z->ctor = opt.ctor;
	z->dtor = opt.dtor;
	z->arg = opt.arg;
	e = make_parts(z, &opt);
	if (e != 0) {
		free_zone(z);
		return e;
	}
	z->base = (uintptr_t)z->region->first->base;
	start_pool(z, opt.limit);
	z->plain = z->pool.arrays != NULL && z->ctor == NULL && z->dtor == NULL;
	*ret = z;
	return 0;
}

int percpu_zone_destroy(struct percpu_zone *z)
{
	if (z == NULL)
		return 0;
	percpu_pins_close(&z->pool.pins);
	(void)percpu_pool_drain(&z->pool, SIZE_MAX);
	if (__atomic_load_n(&z->pool.taken, __ATOMIC_ACQUIRE) != 0) {
		percpu_pins_open(&z->pool.pins);
		return -EBUSY;
	}
	free_zone(z);
	return 0;
}

unsigned percpu_zone_cpus(const struct percpu_zone *z)
{
	return z != NULL ? z->region->cpus : 0;
}

void percpu_zone_foreach(const struct percpu_zone *z, void *item, percpu_zone_fn *fn, void *arg)
{
	unsigned cpus = percpu_zone_cpus(z);

	for (unsigned cpu = 0; cpu < cpus; cpu++)
		fn(percpu_zone_get(item, cpu), cpu, arg);
}

struct run {
	percpu_zone_fn *fn;
	void *item;
	void *arg;
};

static void run_here(unsigned cpu, void *arg)
{
	struct run *run = arg;

	run->fn(percpu_zone_get(run->item, cpu), cpu, run->arg);
}

int percpu_zone_run(const struct percpu_zone *z, void *item, percpu_zone_fn *fn, void *arg,
		    uint64_t timeout_ns, struct percpu_fence_report *ret_report)
{
	struct run run = { .fn = fn, .item = item, .arg = arg };
	unsigned cpus = percpu_init()->possible_cpus;

	if (z == NULL || item == NULL || fn == NULL || timeout_ns == 0)
		return -EINVAL;
	/* A process that cannot read the kernel's lists of CPUs may assume more CPUs than the
	 * creator of the region did. */
	if (cpus > percpu_zone_cpus(z))
		cpus = percpu_zone_cpus(z);
	return percpu_visit(0, cpus, run_here, &run, timeout_ns, ret_report);
}

void percpu_zone_set_limit(struct percpu_zone *z, size_t limit)
{
	if (z == NULL)
		return;
	percpu_pool_set_limit(&z->pool, limit);
}

void percpu_zone_drain(struct percpu_zone *z)
{
	(void)percpu_pool_drain(&z->pool, SIZE_MAX);
	percpu_depot_trim(&z->pool.depot);
}

size_t percpu_zone_reclaim(struct percpu_zone *z)
{
	size_t bytes;

	if (z == NULL)
		return 0;
	percpu_zone_drain(z);
	if (z->check != NULL)
		percpu_zone_check_reclaim(z->check, true);
	PERCPU_STEP("zone: poison forgotten");
	bytes = percpu_region_reclaim(z->region);
	if (z->check != NULL)
		percpu_zone_check_reclaim(z->check, false);
	return bytes;
}

void percpu_zone_stats(const struct percpu_zone *z, struct percpu_zone_stats *ret)
{
	const struct percpu_pool *p;
	uint64_t cached, taken;

	if (z == NULL || ret == NULL)
		return;
	p = &z->pool;
	cached = percpu_pool_count(p);
	taken = __atomic_load_n(&p->taken, __ATOMIC_RELAXED);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->name, z->name, sizeof(ret->name));
	ret->size = z->size;
	ret->limit = __atomic_load_n(&p->limit, __ATOMIC_RELAXED);
	ret->used = taken > cached ? taken - cached : 0;
	ret->cached = cached;
	ret->requests = percpu_counter_fetch(z->requests);
	ret->failures = __atomic_load_n(&p->failures, __ATOMIC_RELAXED);
	ret->waits = __atomic_load_n(&p->waits, __ATOMIC_RELAXED);
}
