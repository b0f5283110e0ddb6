/* SPDX-License-Identifier: MIT */
/*
 * zone.h - the per-CPU allocator: items of one size, of which every CPU has a
 * copy. The idea is from FreeBSD's UMA zones with UMA_ZONE_PCPU, and Linux's alloc_percpu().
 *
 * An item is at the same offset of every lane. An allocation returns the address of CPU 0's copy;
 * percpu_zone_get() returns another CPU's. A freed item waits in a cache of the CPU that freed it.
 * So an allocation is usually one pop, and a free one push, in a restartable sequence.
 */
#ifndef PERCPU_ZONE_H
#define PERCPU_ZONE_H

#include <percpu/fence.h>
#include <percpu/region.h>

PERCPU_BEGIN_DECLS

struct percpu_zone;

/** A function that the library calls with one CPU's copy of an item. */
typedef void percpu_zone_fn(void *cell, unsigned cpu, void *arg);

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread, not a signal handler; percpu_zone_get(), percpu_zone_cpus() and
 * percpu_zone_stats() also in signal handlers.
 * Ordering: accesses to an item before its free happen before the allocation that returns the
 * item again. Nothing else is ordered.
 * Progress: a call that goes to another CPU's cache, or to the depot that all caches
 * share, takes a lock for a few instructions. Memory for more items comes from
 * percpu_region_alloc().
 */

/* Flags of options and of allocations have different bits, so that a call refuses a flag
 * that is not meant for it. */

/** For percpu_zone_options.flags: check every free (see percpu_zone_free()), and
 *  print to standard error why a creation or an allocation failed. */
#define PERCPU_ZONE_DEBUG 0x4

/** Options of a zone. Set size; zero in another field means the default. */
struct percpu_zone_options {
	size_t size;		      /* sizeof(struct percpu_zone_options) */
	size_t align;		      /* of each CPU's copy: power of two up to 64;
					 default 8 */
	size_t limit;		      /* the most items of this process at a time;
					 default: no limit */
	struct percpu_region *region; /* for the items; its lanes have the default size.
					 Default: a private region that only this zone
					 uses */
	percpu_zone_fn *ctor;	      /* called for each CPU's copy at each allocation */
	percpu_zone_fn *dtor;	      /* called for each CPU's copy at each free */
	void *arg;		      /* passed to ctor and dtor */
	uint32_t flags;		      /* PERCPU_ZONE_DEBUG */
	uint32_t reserved;	      /* 0 */
};

/**
 * Create a zone for items of size bytes per CPU.
 *
 * Parameters
 *	name	for diagnostics; copied, and cut to 31 characters
 *	size	1 to PERCPU_LANE_SIZE bytes, rounded up to a multiple of 8
 *	o	may be NULL
 *
 * Returns 0, or
 *	-EINVAL	a NULL, a size of 0 or larger than a lane, an alignment that is
 *		not a power of two up to 64, options that this library does not know,
 *		or a region with another lane size
 *	-EROFS	the region was opened to read
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_zone_create(const char *name, size_t size,
						    const struct percpu_zone_options *o,
						    struct percpu_zone **ret);

/** Destroy a zone. Returns 0, or -EBUSY while items of it are allocated. NULL is fine. */
PERCPU_API int percpu_zone_destroy(struct percpu_zone *z);

/** For percpu_zone_alloc(): fill every CPU's copy with zeros. */
#define PERCPU_ZONE_ZERO 0x1
/** For percpu_zone_alloc(): at the limit, wait until an item is freed. */
#define PERCPU_ZONE_WAIT 0x2

/**
 * Allocate an item. Without PERCPU_ZONE_ZERO and without a constructor, its bytes
 * are what its last use left.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, or unknown flags
 *	-ENOSPC	the limit is reached, and no item was found in a cache; or a shared region
 *		cannot grow because its file system is full. If the zone has a limit,
 *		a call with PERCPU_ZONE_WAIT waits in either case until an item is freed
 *	-EDEADLK	the limit is reached, with PERCPU_ZONE_WAIT, in a handler of
 *		pthread_atfork() for which all other threads wait (docs/cpu/process.md)
 *	-ENOMEM	no memory or address space
 *	-ETIMEDOUT  in a shared region, as percpu_region_alloc()
 *
 * Context: any thread, not a signal handler. A child of fork has a copy of the zone,
 * unless its region is shared.
 * Progress: usually a pop from this CPU's cache. At the limit the call takes items
 * from other CPUs' caches before it fails or waits. It does not find one that another
 * thread is moving between caches at that moment.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_zone_alloc(struct percpu_zone *z, unsigned flags,
						   void **ret);

/**
 * Free an item that no thread uses any more. NULL is fine.
 *
 * Returns 0, or
 *	-EINVAL	item is not in the zone's region. (If it is another object in that region,
 *		the call does not find that out)
 *	-ETIMEDOUT  in a shared region: the caller must not use the item any more, but a
 *		process that is stopped keeps its memory allocated
 *
 * With PERCPU_ZONE_DEBUG the library prints the error to standard error, and aborts, if the
 * pointer is no item, or the item is free already. In a zone with a region of its own, it also
 * does so for a store to an item after its free, which the next allocation finds.
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API int percpu_zone_free(struct percpu_zone *z, void *item);

/** Return cpu's copy of the item; cpu must be below percpu_zone_cpus(). */
PERCPU_INLINE void *percpu_zone_get(void *item, unsigned cpu)
{
	return (char *)item + cpu * PERCPU_STRIDE;
}

/** Return the number of CPUs for which an item has copies. */
PERCPU_API unsigned percpu_zone_cpus(const struct percpu_zone *z);

/** Call fn for each CPU's copy, from the calling thread, in the order of the CPUs.
 *  docs/caches/zone.md says which threads may store to a copy, and how. (Do not use an item as a
 *  counter: percpu_counter_add() falls back to atomic lanes, which the copies do not include.) */
PERCPU_API void percpu_zone_foreach(const struct percpu_zone *z, void *item, percpu_zone_fn *fn,
				    void *arg);

/**
 * Call fn for each CPU's copy on that CPU, in order to touch memory on the NUMA node of the CPU,
 * or to work on a cell that sequences use. A helper thread with all signals
 * blocked and 256 KiB of stack calls fn, on one CPU after the other.
 *
 * Parameters
 *	timeout_ns	how long to wait for CPUs that do not let the helper
 *			run, shared among them as by percpu_fence_all(). The call
 *			always waits for an fn that has begun
 *	ret_report	the CPUs where fn was not called, offline CPUs included: the
 *			report lists them as "unfenced". May be NULL
 *
 * Returns 0 if fn ran on every CPU that is online, or -EINVAL (a NULL, or
 * timeout_ns is 0), or -ETIMEDOUT, -EPERM, -EAGAIN or -ENOMEM as
 * percpu_fence_all(). If the region has lanes for more CPUs than this machine can have,
 * fn is not called for those.
 *
 * Context: any thread, not a signal handler.
 * Progress: it takes about 0.1 ms per CPU.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_zone_run(const struct percpu_zone *z, void *item,
						 percpu_zone_fn *fn, void *arg, uint64_t timeout_ns,
						 struct percpu_fence_report *ret_report);

/** Change the limit; 0 is none. Items beyond a lower limit stay allocated. */
PERCPU_API void percpu_zone_set_limit(struct percpu_zone *z, size_t limit);

/**
 * Empty the caches, and return every page that holds no item to the system. Returns how many bytes
 * of the region's lanes are free, also if they were never touched.
 */
PERCPU_API size_t percpu_zone_reclaim(struct percpu_zone *z);

/** Filled by percpu_zone_stats(). */
struct percpu_zone_stats {
	char name[32];
	size_t size;	   /* bytes of an item per CPU */
	size_t limit;	   /* 0: none */
	uint64_t used;	   /* items allocated */
	uint64_t cached;   /* items free in caches */
	uint64_t requests; /* allocations that succeeded */
	uint64_t failures; /* allocations that failed */
	uint64_t waits;	   /* allocations that waited */
};

/** Fill *ret. The fields are not read at the same moment. */
PERCPU_API void percpu_zone_stats(const struct percpu_zone *z, struct percpu_zone_stats *ret);

PERCPU_END_DECLS

#endif
