/* SPDX-License-Identifier: MIT */
/*
 * zone.h - the per-CPU allocator: items of one size, of which every CPU has a
 * copy. After UMA zones with UMA_ZONE_PCPU, and alloc_percpu().
 *
 * One allocation yields the same offset in every lane. The address returned is
 * CPU 0's; percpu_zone_get() gives another CPU's. Freed items wait in a cache
 * of the CPU that freed them, so that an allocation and a free usually are a
 * pop and a push in a restartable sequence.
 */
#ifndef PERCPU_ZONE_H
#define PERCPU_ZONE_H

#include <percpu/fence.h>
#include <percpu/region.h>

PERCPU_BEGIN_DECLS

struct percpu_zone;

/** Called with one CPU's copy of an item. */
typedef void percpu_zone_fn(void *cell, unsigned cpu, void *arg);

/*
 * What the calls of this header have in common, where one does not say more.
 *
 * Context: any thread, not a signal handler; percpu_zone_get(), percpu_zone_cpus() and
 * percpu_zone_stats() in signal handlers, too.
 * Ordering: what was done with an item before it was freed happened before the allocation
 * that hands it out again. The rest orders nothing.
 * Progress: what goes to another CPU's cache, or to the depot behind them, takes a lock
 * for a few instructions; memory for more items is allocated as percpu_region_alloc()
 * does.
 */

/* No two flags of zones are the same bit: one in the wrong place is refused. */

/** For percpu_zone_options.flags: check every free, see percpu_zone_free(), and
 *  say on standard error why a creation or an allocation failed. */
#define PERCPU_ZONE_DEBUG 0x4

/** What a zone is made like. Set size; zero elsewhere means the default. */
struct percpu_zone_options {
	size_t size;		      /* sizeof(struct percpu_zone_options) */
	size_t align;		      /* of an item in every lane: power of two up to 64;
					 default 8 */
	size_t limit;		      /* items of this process at a time; default none */
	struct percpu_region *region; /* of default lane size, for the items, perhaps
					 for more CPUs than there are; default a
					 private one of the zone's own */
	percpu_zone_fn *ctor;	      /* for each CPU's copy, at each allocation */
	percpu_zone_fn *dtor;	      /* for each CPU's copy, at each free */
	void *arg;		      /* handed to both */
	uint32_t flags;		      /* PERCPU_ZONE_DEBUG */
	uint32_t reserved;	      /* 0 */
};

/**
 * Create a zone for items of so many bytes per CPU.
 *
 * Parameters
 *	name	what diagnostics call it; copied, cut to 31 characters
 *	size	1 to PERCPU_LANE_SIZE bytes, rounded up to a multiple of 8
 *	o	may be NULL
 *
 * Returns 0, or
 *	-EINVAL	a NULL, a size of 0 or larger than a lane, an alignment that is
 *		not a power of two up to 64, options this library does not know,
 *		or a region with another lane size
 *	-EROFS	the region was opened to read
 *	-ENOMEM	no memory; -E2BIG more CPUs than PERCPU_MAX_CPUS
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_zone_create(const char *name, size_t size,
						    const struct percpu_zone_options *o,
						    struct percpu_zone **ret);

/** Destroy a zone: 0, or -EBUSY while items of it are allocated. NULL is fine. */
PERCPU_API PERCPU_MUST_CHECK int percpu_zone_destroy(struct percpu_zone *z);

/** For percpu_zone_alloc(): fill every CPU's copy with zeros. */
#define PERCPU_ZONE_ZERO 0x1
/** For percpu_zone_alloc(): at the limit, wait until an item is freed. */
#define PERCPU_ZONE_WAIT 0x2

/**
 * Allocate an item. Without PERCPU_ZONE_ZERO and without a constructor its bytes
 * are what the last user left.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, or unknown flags
 *	-ENOSPC	the limit is reached (without PERCPU_ZONE_WAIT), or a shared region
 *		cannot grow because its file system is full
 *	-ENOMEM	no memory or address space
 *	-ETIMEDOUT  in a shared region, as percpu_region_alloc()
 *
 * Context: any thread, not a signal handler. In a child of fork the private
 * zone is the child's own copy.
 * Progress: usually a pop from this CPU's cache; at the limit it takes items
 * from other CPUs' caches before it fails or waits.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_zone_alloc(struct percpu_zone *z, unsigned flags,
						   void **ret);

/**
 * Free an item that no thread uses any more. NULL is fine.
 *
 * Returns 0, or -EINVAL for a pointer that is not in this zone's memory, which in a
 * shared region is that of all that live there, or in a
 * shared region -ETIMEDOUT: the item is freed as far as the caller is concerned, but
 * a process that is stopped keeps its memory allocated. With
 * PERCPU_ZONE_DEBUG a foreign pointer, a second free, and at the next
 * allocation a store to the item after its free (in a zone with a region of its
 * own), print what was wrong to standard error and abort.
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API int percpu_zone_free(struct percpu_zone *z, void *item);

/** The item's copy of that CPU, which must be below percpu_zone_cpus(). */
PERCPU_INLINE void *percpu_zone_get(void *item, unsigned cpu)
{
	return (char *)item + cpu * PERCPU_STRIDE;
}

/** CPUs that an item has copies for. */
PERCPU_API unsigned percpu_zone_cpus(const struct percpu_zone *z);

/** Call fn for each CPU's copy, from the calling thread, in order. A sum of the copies
 *  lacks what percpu_counter_add() would keep beside them: an item is no counter.
 *  docs/zone.md says who may store to a copy, and how. */
PERCPU_API void percpu_zone_foreach(const struct percpu_zone *z, void *item, percpu_zone_fn *fn,
				    void *arg);

/**
 * Call fn for each CPU's copy on that CPU: to touch memory where it shall be,
 * or to work on a cell that sequences use. A helper thread with all signals
 * blocked and 256 KiB of stack does it, one CPU after the other.
 *
 * Parameters
 *	timeout_ns	how long to wait for CPUs that do not let the helper
 *			run, shared as in percpu_fence_all(); an fn that has
 *			begun is waited for
 *	ret_report	where fn was not called, may be NULL: "unfenced" CPUs
 *			are those, and include the ones that are offline
 *
 * Returns 0 if fn ran on every CPU that is online, or -EINVAL (a NULL, or
 * timeout_ns is 0), -ETIMEDOUT, -EPERM, -EAGAIN or -ENOMEM as
 * percpu_fence_all(). Copies for CPUs that this machine cannot have (of a
 * region made for more) are left out.
 *
 * Context: any thread, not a signal handler. Takes about 0.1 ms per CPU.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_zone_run(const struct percpu_zone *z, void *item,
						 percpu_zone_fn *fn, void *arg, uint64_t timeout_ns,
						 struct percpu_fence_report *ret_report);

/** Change the limit; 0 is none. Items beyond a lower limit stay allocated. */
PERCPU_API void percpu_zone_set_limit(struct percpu_zone *z, size_t limit);

/**
 * Give back what is not in use: empty the caches, and return to the system
 * every page that holds no item. Returns the bytes of address space whose
 * memory was given back; memory that was never touched counts, too.
 */
PERCPU_API size_t percpu_zone_reclaim(struct percpu_zone *z);

/** What percpu_zone_stats() tells; of moments that may differ a little. */
struct percpu_zone_stats {
	char name[32];
	size_t size;	   /* bytes of an item per CPU */
	size_t limit;	   /* 0: none */
	uint64_t used;	   /* items allocated */
	uint64_t cached;   /* items free in caches */
	uint64_t requests; /* allocations that succeeded */
	uint64_t failures; /* that failed */
	uint64_t waits;	   /* that waited */
};

PERCPU_API void percpu_zone_stats(const struct percpu_zone *z, struct percpu_zone_stats *ret);

PERCPU_END_DECLS

#endif
