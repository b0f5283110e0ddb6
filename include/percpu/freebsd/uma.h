/* SPDX-License-Identifier: MIT */
/*
 * uma.h - FreeBSD's zones of per-CPU items: the part of uma(9) that UMA_ZONE_PCPU needs,
 * made of zones of zone.h. pcpu.h has the access to an item's copies.
 *
 * ctor, dtor, init and fini get the address that uma_zalloc() returns, which is CPU 0's
 * copy, once per item. An item leaves the zone when it is freed, so init runs before
 * ctor at every allocation, and fini after dtor at every free.
 *
 * What the calls have in common, unless one says otherwise.
 * Context: any thread, not a signal handler.
 * Ordering: as percpu_zone_alloc() and percpu_zone_free().
 * Progress: as these two. With M_WAITOK an allocation waits: at the zone's maximum until an
 * item is freed, without memory until there is some.
 */
#ifndef PERCPU_FREEBSD_UMA_H
#define PERCPU_FREEBSD_UMA_H

#ifdef _VM_UMA_H_
#error "this stands in for vm/uma.h, which was included before it"
#endif
#define _VM_UMA_H_ /* makes the original empty if it is included later */

#include <percpu/freebsd/counter.h>
#include <percpu/zone.h>

PERCPU_BEGIN_DECLS

#define UMA_ZONE_PCPU 0x8000
#define UMA_ALIGNOF(type) (__alignof__(type) - 1)
#define UMA_ALIGN_PTR (sizeof(void *) - 1)
#define UMA_ALIGN_LONG (sizeof(long) - 1)
#define UMA_ALIGN_INT (sizeof(int) - 1)
#define UMA_ALIGN_SHORT (sizeof(short) - 1)
#define UMA_ALIGN_CHAR (sizeof(char) - 1)
#define UMA_ALIGN_CACHE (64 - 1)

PERCPU_ASSERT(M_WAITOK == 0x0002 && M_ZERO == 0x0100, "the flags are FreeBSD's, or none");

typedef struct uma_zone *uma_zone_t;

/*
 * size is the zone's size of an item, in bytes; arg is the argument of uma_zalloc_arg() or
 * uma_zfree_arg(); flags has the caller's M_WAITOK or M_NOWAIT. If a ctor or an init
 * returns anything but 0, the allocation returns NULL. After a failed ctor, fini is called;
 * after a failed init, no function is.
 */
typedef int (*uma_ctor)(void *mem, int size, void *arg, int flags);
typedef void (*uma_dtor)(void *mem, int size, void *arg);
typedef int (*uma_init)(void *mem, int size, int flags);
typedef void (*uma_fini)(void *mem, int size);

PERCPU_API struct uma_zone *percpu_freebsd_zcreate(const char *name, size_t size, uma_ctor ctor,
						   uma_dtor dtor, uma_init init, uma_fini fini,
						   int align, uint32_t flags);
PERCPU_API void percpu_freebsd_zdestroy(struct uma_zone *zone);
PERCPU_API void *percpu_freebsd_zalloc(struct uma_zone *zone, void *arg, int flags);
PERCPU_API void percpu_freebsd_zfree(struct uma_zone *zone, void *item, void *arg);
PERCPU_API int percpu_freebsd_zone_set_max(struct uma_zone *zone, int nitems);
PERCPU_API int percpu_freebsd_zone_max(struct uma_zone *zone);
PERCPU_API void percpu_freebsd_zone_reclaim(struct uma_zone *zone);
PERCPU_API int percpu_freebsd_zone_cur(struct uma_zone *zone);

/**
 * Create a zone.
 *
 * Parameters
 *	size	bytes of an item per CPU, 1 to PERCPU_LANE_SIZE
 *	ctor, dtor, init, fini
 *		any may be NULL
 *	align	a mask, UMA_ALIGN_*: a power of two up to 128 bytes, minus 1. Copies are
 *		aligned to at most 64 bytes, but share no unit of that power of two with a
 *		copy of another item
 *	flags	UMA_ZONE_PCPU, and no other
 *
 * Returns NULL if there is no memory, or an argument is not one of these.
 * Context: any thread, not a signal handler.
 */
static inline uma_zone_t uma_zcreate(const char *name, size_t size, uma_ctor ctor, uma_dtor dtor,
				     uma_init init, uma_fini fini, int align, uint32_t flags)
{
	return percpu_freebsd_zcreate(name, size, ctor, dtor, init, fini, align, flags);
}

PERCPU_API struct uma_zone *percpu_freebsd_pcpu_zone(unsigned size);

/* Zones that all code of the process shares, for items of 4 to 64 bytes. */
#define pcpu_zone_4 percpu_freebsd_pcpu_zone(4)
#define pcpu_zone_8 percpu_freebsd_pcpu_zone(8)
#define pcpu_zone_16 percpu_freebsd_pcpu_zone(16)
#define pcpu_zone_32 percpu_freebsd_pcpu_zone(32)
#define pcpu_zone_64 percpu_freebsd_pcpu_zone(64)

/** Destroy a zone. If items of it are allocated, do nothing. NULL is fine. */
static inline void uma_zdestroy(uma_zone_t zone)
{
	percpu_freebsd_zdestroy(zone);
}

/**
 * Allocate an item. arg is for the constructor.
 *
 * If there is no memory, or the zone is at its maximum, wait with M_WAITOK; otherwise return
 * NULL. M_ZERO clears the copies of all CPUs, after the constructor has run, as in FreeBSD.
 * So the constructor does not see the flag.
 *
 * Context: any thread, not a signal handler. A constructor may allocate. In a
 * child of fork the zone is the child's own copy.
 */
static inline void *uma_zalloc_pcpu_arg(uma_zone_t zone, void *arg, int flags)
{
	return percpu_freebsd_zalloc(zone, arg, flags);
}

static inline void *uma_zalloc_pcpu(uma_zone_t zone, int flags)
{
	return percpu_freebsd_zalloc(zone, PERCPU_NULL(void *), flags);
}

static inline void *uma_zalloc_arg(uma_zone_t zone, void *arg, int flags)
{
	return percpu_freebsd_zalloc(zone, arg, flags);
}

static inline void *uma_zalloc(uma_zone_t zone, int flags)
{
	return percpu_freebsd_zalloc(zone, PERCPU_NULL(void *), flags);
}

/** Free an item that no thread uses any more; NULL is fine. arg is for the
 *  destructor. Context: any thread, not a signal handler. */
static inline void uma_zfree_pcpu_arg(uma_zone_t zone, void *item, void *arg)
{
	percpu_freebsd_zfree(zone, item, arg);
}

static inline void uma_zfree_pcpu(uma_zone_t zone, void *item)
{
	percpu_freebsd_zfree(zone, item, PERCPU_NULL(void *));
}

static inline void uma_zfree_arg(uma_zone_t zone, void *item, void *arg)
{
	percpu_freebsd_zfree(zone, item, arg);
}

static inline void uma_zfree(uma_zone_t zone, void *item)
{
	percpu_freebsd_zfree(zone, item, PERCPU_NULL(void *));
}

/** Set how many items may be allocated at a time, exactly; 0: no maximum. Returns nitems. */
static inline int uma_zone_set_max(uma_zone_t zone, int nitems)
{
	return percpu_freebsd_zone_set_max(zone, nitems);
}

/** Return the maximum; 0: none. */
static inline int uma_zone_get_max(uma_zone_t zone)
{
	return percpu_freebsd_zone_max(zone);
}

/** Return how many items are allocated. Other threads may change that meanwhile. */
static inline int uma_zone_get_cur(uma_zone_t zone)
{
	return percpu_freebsd_zone_cur(zone);
}

/* What to free; here each of them frees all that is free. */
#define UMA_RECLAIM_DRAIN 1
#define UMA_RECLAIM_DRAIN_CPU 2
#define UMA_RECLAIM_TRIM 3

/**
 * Return the free items of all zones to the system, and what else percpu_reclaim() returns. req is
 * one of UMA_RECLAIM_*.
 *
 * Context: any thread, not a signal handler.
 */
static inline void uma_reclaim(int req)
{
	(void)req;
	percpu_reclaim();
}

/** Return the free items of one zone to the system. The zone must exist until this returns. */
static inline void uma_zone_reclaim(uma_zone_t zone, int req)
{
	(void)req;
	percpu_freebsd_zone_reclaim(zone);
}

PERCPU_END_DECLS

#include <percpu/freebsd/pcpu.h>

#endif
