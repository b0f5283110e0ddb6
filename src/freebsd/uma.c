/* SPDX-License-Identifier: MIT */
/*
 * uma.c - zones with UMA's constructors, on top of zone.h, and zpcpu_add_protected(). All zones
 * share one guard for zpcpu_add_protected().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include <percpu/freebsd.h>

#include "../rings/rings.h"

struct uma_zone {
	struct percpu_zone *items;
	size_t size;
	uma_ctor ctor;
	uma_dtor dtor;
	uma_init init;
	uma_fini fini;
};

/* The guard of zpcpu_add_protected(), an address in lane 0. The first UMA zone makes it, or the
 * first addition to an item of another zone. It is never freed. Atomic. */
static void *zpcpu_guard;

/* Lower the guard, which other threads of the parent may have raised. Without that, sequences on
 * those CPUs would never add again. */
static void lower_guard_in_child(const void *owner)
{
	char *const guard = zpcpu_guard;
	const struct percpu_chunk *k;

	(void)owner;
	if (guard == NULL)
		return;
	k = percpu_chunk_of(guard);
	for (uint32_t cpu = 0; cpu < k->cpus; cpu++)
		*(uint32_t *)(void *)(guard + cpu * k->stride) = 0;
}

static int make_guard(void)
{
	struct percpu_region *r;
	struct percpu_chunk *k;
	void *word, *none = NULL;
	int e;

	if (__atomic_load_n(&zpcpu_guard, __ATOMIC_ACQUIRE) != NULL)
		return 0;
	e = percpu_region_default(&r);
	if (e == 0)
		e = percpu_region_alloc(r, sizeof(uint64_t), sizeof(uint64_t), &word);
	if (e != 0)
		return e;
	k = percpu_chunk_of(word);
	percpu_chunk_clear(k, (size_t)((char *)word - k->base), sizeof(uint64_t), sizeof(uint64_t));
	percpu_region_on_fork(r, lower_guard_in_child, NULL);
	PERCPU_STEP("uma: guard made");
	if (!__atomic_compare_exchange_n(&zpcpu_guard, &none, word, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		(void)percpu_region_free(r, word, sizeof(uint64_t));
	return 0;
}

/* Set the alignment of a zone. The stride of lanes is 64 bytes more than a multiple of a page, so
 * an item is aligned to at most 64 in every lane. For 128, round the size up to a multiple of 128,
 * and align to 64. */
static void set_alignment(struct percpu_zone_options *o, size_t align, size_t *size)
{
	o->align = align > sizeof(uint64_t) ? align : sizeof(uint64_t);
	if (align == 128 && *size != 0 && *size <= PERCPU_LANE_SIZE) {
		*size = (*size + align - 1) / align * align;
		o->align = 64;
	}
}

struct uma_zone *percpu_freebsd_zcreate(const char *name, size_t size, uma_ctor ctor, uma_dtor dtor,
					uma_init init, uma_fini fini, int align, uint32_t flags)
{
	struct percpu_zone_options o = { .size = sizeof(o) };
	struct uma_zone *zone;

	if (flags != UMA_ZONE_PCPU || align < 0 || make_guard() != 0)
		return NULL;
	zone = malloc(sizeof(*zone));
	if (zone == NULL)
		return NULL;
	*zone = (struct uma_zone){
		.size = size, .ctor = ctor, .dtor = dtor, .init = init, .fini = fini
	};
	set_alignment(&o, (size_t)align + 1, &size);
	if (percpu_zone_create(name, size, &o, &zone->items) != 0) {
		free(zone);
		return NULL;
	}
	return zone;
}

struct uma_zone *percpu_freebsd_pcpu_zone(unsigned size)
{
	static struct uma_zone *zones[5]; /* of 4, 8, 16, 32 and 64 bytes; atomic */
	struct uma_zone **at = &zones[__builtin_ctz(size) - 2], *zone, *none = NULL;

	while ((zone = __atomic_load_n(at, __ATOMIC_ACQUIRE)) == NULL) {
		zone = percpu_freebsd_zcreate("pcpu", size, NULL, NULL, NULL, NULL,
					      (int)(size < 8 ? size : 8) - 1, UMA_ZONE_PCPU);
		if (zone == NULL)
			sched_yield(); /* in FreeBSD these zones always exist */
		else if (!__atomic_compare_exchange_n(at, &none, zone, false, __ATOMIC_ACQ_REL,
						      __ATOMIC_ACQUIRE))
			percpu_freebsd_zdestroy(zone);
		none = NULL;
	}
	return zone;
}

void percpu_freebsd_zdestroy(struct uma_zone *zone)
{
	if (zone != NULL && percpu_zone_destroy(zone->items) == 0)
		free(zone);
}

static bool construct(const struct uma_zone *z, void *item, void *arg, int flags)
{
	if (z->init != NULL && z->init(item, (int)z->size, flags) != 0)
		return false;
	if (z->ctor == NULL || z->ctor(item, (int)z->size, arg, flags) == 0)
		return true;
	if (z->fini != NULL)
		z->fini(item, (int)z->size);
	return false;
}

void *percpu_freebsd_zalloc(struct uma_zone *zone, void *arg, int flags)
{
	struct percpu_chunk *k;
	void *item = NULL;

	while (percpu_zone_alloc(zone->items, flags & M_WAITOK ? PERCPU_ZONE_WAIT : 0, &item) ==
		       -ENOMEM &&
	       (flags & M_WAITOK))
		sched_yield();
	if (item == NULL)
		return NULL;
	if (!construct(zone, item, arg, flags & ~M_ZERO)) {
		(void)percpu_zone_free(zone->items, item);
		return NULL;
	}
	if (flags & M_ZERO) {
		k = percpu_chunk_of(item);
		percpu_chunk_clear(k, (size_t)((char *)item - k->base), zone->size, zone->size);
	}
	return item;
}

void percpu_freebsd_zfree(struct uma_zone *zone, void *item, void *arg)
{
	if (item == NULL)
		return;
	if (zone->dtor != NULL)
		zone->dtor(item, (int)zone->size, arg);
	if (zone->fini != NULL)
		zone->fini(item, (int)zone->size);
	(void)percpu_zone_free(zone->items, item);
}

int percpu_freebsd_zone_set_max(struct uma_zone *zone, int nitems)
{
	percpu_zone_set_limit(zone->items, (size_t)nitems);
	return nitems;
}

void percpu_freebsd_zone_reclaim(struct uma_zone *zone)
{
	(void)percpu_zone_reclaim(zone->items);
}

int percpu_freebsd_zone_max(struct uma_zone *zone)
{
	struct percpu_zone_stats s;

	percpu_zone_stats(zone->items, &s);
	return (int)s.limit;
}

int percpu_freebsd_zone_cur(struct uma_zone *zone)
{
	struct percpu_zone_stats s;

	percpu_zone_stats(zone->items, &s);
	return (int)s.used;
}

static __attribute__((noinline)) void add_item_slowly(void *base, int64_t n)
{
	struct percpu_chunk *k = percpu_chunk_of(base);
	struct percpu_local word;
	void *guard = NULL;
	int64_t sum;

	if (make_guard() == 0)
		guard = __atomic_load_n(&zpcpu_guard, __ATOMIC_ACQUIRE);
	if (guard != NULL) {
		word = percpu_local_word(base, guard);
		if (percpu_local_add_return(&word, n, &sum) == 0)
			return;
	}
	/* Without a guard or a fence, add to an atomic lane, where no sequence adds. */
	percpu_chunk_add_atomic(k, (size_t)((char *)base - k->base), n);
}

void percpu_freebsd_zpcpu_add(void *base, int64_t n)
{
	void *guard = __atomic_load_n(&zpcpu_guard, __ATOMIC_ACQUIRE);
	int64_t sum;
	int r = PERCPU_SEQ_SLOW;

	if (percpu_likely(guard != NULL))
		r = percpu_seq_add_limit(base, guard, PERCPU_STRIDE, n, INT64_MAX, &sum);
	if (percpu_unlikely(r != 0))
		add_item_slowly(base, n);
}
