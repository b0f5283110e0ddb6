/* SPDX-License-Identifier: MIT */
/*
 * uma.c - zones with UMA's constructors, on top of zone.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include <percpu/freebsd.h>

#include "../counts/counts.h"

struct uma_zone {
	struct percpu_zone *items;
	size_t size;
	uma_ctor ctor;
	uma_dtor dtor;
	uma_init init;
	uma_fini fini;
};

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

	if (flags != UMA_ZONE_PCPU || align < 0 || percpu_section_prepare() != 0)
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
