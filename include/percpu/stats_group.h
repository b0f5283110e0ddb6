/* SPDX-License-Identifier: MIT */
/*
 * stats_group.h - groups: many objects of counters, of which one update changes two with one commit,
 * such as a flow and the total of its port.
 *
 *	struct traffic { uint64_t packets, bytes; };
 *	struct percpu_stats_group *g;
 *	size_t flow;
 *
 *	percpu_stats_group_create(sizeof(struct traffic), 4, 4 + 1000, &g); // totals 0 to 3
 *	percpu_stats_group_alloc(g, &flow);
 *	percpu_stats_group_update_both(g, flow, n, port, n, 2);
 *	percpu_stats_group_snapshot(g, 0, 1000, out, &when);
 *	percpu_stats_group_free(g, flow, past);	// what it had goes to the total `past`
 *
 * An object is a number. The first ones are totals, which stay; the others are allocated and freed
 * while threads count. Snapshots of stats.h have the same promise, but for the objects of one set,
 * and an update there changes one object.
 *
 * A sequence changes both objects in place, but saves what they had before that. One store says that
 * this is saved, and one more that it is not needed any more, which is the commit. What an aborted
 * sequence or a killed thread leaves is undone by the next update on that CPU, and readers pass it
 * by.
 */
#ifndef PERCPU_STATS_GROUP_H
#define PERCPU_STATS_GROUP_H

#include <percpu/stats.h>

PERCPU_BEGIN_DECLS

/** Objects with the same fields. The fields are the library's. */
struct percpu_stats_group {
	struct percpu_block block;
	size_t record;	      /* bytes from one object to the next */
	const uint64_t *bank; /* the bank that counts: 0 or the value of banks */
	uint64_t banks;	      /* bytes from the first bank to the second */
	size_t head;	      /* bytes in front of the first object */
	size_t words;	      /* fields of an object */
	size_t n;	      /* objects, with totals */
	size_t totals;
	unsigned vector; /* most words of an object that one store stores, 2 or 4; 0: the region was
			    opened to read */
};

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread, not a signal handler. Updates and fetches: also signal handlers, and
 * children of fork.
 * Ordering: none for updates (as memory_order_relaxed). A read includes the updates that happened
 * before it.
 * Progress: creating and destroying takes locks of the process and, in a shared region, one between
 * processes, for which a call waits a second at most.
 */

/**
 * Create a group of n objects of size bytes, in memory of this process, or in a region that other
 * processes may attach to. All fields are 0. Objects 0 to totals - 1 are there for good; the others
 * are free.
 *
 * Per CPU an object takes 16 bytes per field, with the number of fields rounded up to even; the
 * group takes 64 bytes and 32 per field. In the bias lane an object takes 4 bytes and a bit more.
 *
 * Returns 0, or
 *	-EINVAL	size is 0 or not a multiple of 8, n or totals is 0, totals is more than n, n is more
 *		than 2147483647, a NULL, or more objects than fit into a lane. In a region of the
 *		default lane size each bank has 32 KiB (2044 objects of 2 fields;
 *		docs/memory/region.md says what larger lanes cost). In memory of this process all
 *		objects together may have 128 GiB (128 MiB in 32-bit processes)
 *	-E2BIG	more than PERCPU_STATS_MAX_COMMIT fields
 *	-EROFS, -ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_group_create(size_t size, size_t totals, size_t n,
							   struct percpu_stats_group **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_group_create_in(struct percpu_region *r, size_t size,
							      size_t totals, size_t n,
							      struct percpu_stats_group **ret);

/**
 * Attach to the group at this root of a shared region, or create it if there is none, as
 * percpu_counter_array_open() does. Two errors differ: -EEXIST also for a size, totals or n with
 * which percpu_stats_group_attach() does not find the group, and -EINVAL and -E2BIG as
 * percpu_stats_group_create_in().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_group_open(struct percpu_region *r, unsigned root,
							 size_t size, size_t totals, size_t n,
							 struct percpu_stats_group **ret);

/**
 * Attach to the group that another process created at this key of a region, with the same size,
 * totals and n. percpu_stats_group_detach() undoes it and leaves the group.
 *
 * Returns 0, or -EINVAL or -E2BIG as percpu_stats_group_create_in(), -ENOENT (no such group there),
 * or -ENOMEM.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_group_attach(struct percpu_region *r, uint64_t key,
							   size_t size, size_t totals, size_t n,
							   struct percpu_stats_group **ret);
PERCPU_API void percpu_stats_group_detach(struct percpu_stats_group *g);
PERCPU_API uint64_t percpu_stats_group_key(const struct percpu_stats_group *g);

/** Free the group, as percpu_stats_destroy(). */
PERCPU_API void percpu_stats_group_destroy(struct percpu_stats_group *g);

/**
 * Allocate an object, whose fields are 0 then.
 *
 * Returns 0, or
 *	-EINVAL	a NULL
 *	-ENOSPC	all objects are in use
 *	-EROFS	the region was opened to read
 *	-ETIMEDOUT  another thread was stopped while it held the lock for an update, an allocation or
 *		a reset
 *	-EAGAIN	a CPU committed an update during each of 10 000 attempts to read a field that the last
 *		user of the number left. Try again.
 *
 * Progress: bounded. The call takes its turn among readers (see percpu_stats_group_snapshot()), and
 * then the lock of the region's chunk.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_group_alloc(const struct percpu_stats_group *g,
							  size_t *ret);

/**
 * Free an object. What it has counted is subtracted from it and added to a total, with one commit:
 * a read has it in one of the two. If the process is killed in the call, the next process that
 * allocates, frees, resets or takes a snapshot completes it.
 *
 * No thread should be updating the object any more. If one is, nothing is lost: an update that the
 * call does not find goes to the same total when the number is allocated next.
 *
 * Returns 0, or
 *	-EINVAL	object i is a total, or not in use; `to` is no total; or a NULL
 *	-EROFS, -ETIMEDOUT, -EAGAIN  as percpu_stats_group_alloc()
 *
 * Progress: as percpu_stats_group_alloc().
 */
PERCPU_API int percpu_stats_group_free(const struct percpu_stats_group *g, size_t i, size_t to);

PERCPU_API PERCPU_NOTHROW int percpu_stats_group_update_slow(const struct percpu_stats_group *g,
							     size_t a, const uint64_t *na, size_t b,
							     const uint64_t *nb, size_t words);

/**
 * Add na[0] to na[words-1] to the fields of object a, and nb[0] to nb[words-1] to those of object b,
 * with one commit: a snapshot contains all of it or nothing, also if the thread is killed. The two
 * may be the same object, and na and nb the same array. words must be the number of fields.
 *
 * Inlined if words is a constant of up to 4: then both objects must exist, and the call does not
 * check it. Whether an object is allocated is never checked.
 *
 * Returns 0, or, with nothing added
 *	-EINVAL	there is no such object, or words is not the number of fields
 *	-EROFS	the region was opened to read
 *	-ETIMEDOUT  the lock holder is stopped, or does not get to run, for a second
 *
 * Context: any thread, signal handlers.
 * Ordering: none.
 * Progress: bounded without the lock on tier rseq. The lock is taken by threads whose sequences keep
 * being aborted, as under a debugger, and by threads on the lower tiers. It is a robust lock for all
 * objects in the region's chunk.
 */
PERCPU_INLINE int percpu_stats_group_update_both(const struct percpu_stats_group *g, size_t a,
						 const uint64_t *na, size_t b, const uint64_t *nb,
						 size_t words)
{
	char *base = g->block.base;
	const size_t stride = g->block.stride;
	const uint64_t names = percpu_group_names(a, b);
	const size_t at = g->head + a * g->record, bt = g->head + b * g->record;
	int r;

	if (__builtin_constant_p(words) && words >= 1 && words <= 4 && words == g->words &&
	    percpu_likely(g->vector >= words)) {
		percpu_words2 na0 = percpu_stats_words2(na, 0, words);
		percpu_words2 nb0 = percpu_stats_words2(nb, 0, words);
		percpu_words2 na2 = percpu_stats_words2(na, 2, words);
		percpu_words2 nb2 = percpu_stats_words2(nb, 2, words);

		if (words <= 2)
			r = percpu_seq_group_update2(base, stride, g->bank, g->banks, names, at, bt,
						     na0, nb0);
		else
			r = percpu_seq_group_update4(base, stride, g->bank, g->banks, names, at, bt,
						     na0, na2, nb0, nb2);
		if (percpu_likely(r == 0))
			return 0;
	}
	return percpu_stats_group_update_slow(g, a, na, b, nb, words);
}

/** Add to the fields of one object, as percpu_stats_group_update_both(). */
PERCPU_INLINE int percpu_stats_group_update(const struct percpu_stats_group *g, size_t i,
					    const uint64_t *n, size_t words)
{
	static const uint64_t nothing[PERCPU_STATS_MAX_COMMIT] = { 0 };

	return percpu_stats_group_update_both(g, i, n, i, nothing,
					      words <= PERCPU_STATS_MAX_COMMIT ? words : 0);
}

/**
 * Read n objects, from number first on, into out, an array of n objects. Each field is read by
 * itself: fields that are updated together may differ by the updates that run meanwhile. What was
 * never committed is not in it.
 *
 * Returns 0, or, with out untouched
 *	-EINVAL	there are no such objects, or a NULL
 *	-EAGAIN	a CPU committed an update during each of 10 000 attempts to read a field. Try again.
 *	-ENOMEM	no memory for a copy of more than 4096 bytes
 *
 * Context: any thread, also of a process that opened the region to read.
 * Progress: bounded. A field is read again if its CPU has committed an update meanwhile.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_group_fetch(const struct percpu_stats_group *g,
							  size_t first, size_t n, void *out);

/**
 * Read n objects as they were at one moment, with the time of that moment, in ns of CLOCK_REALTIME.
 * A snapshot contains every update with all fields of both objects or with none, and a freed
 * object's counts in that object or in the total. If it contains an update, it also contains
 * every update that happened before that one; one that took the lock may be missing. ret_ns may be
 * NULL.
 *
 * percpu_stats_group_fetch_zero() also resets the objects, each as a whole, and exactly: the results
 * of all such calls, and what is left, add up to what was added. It changes no other object: a
 * flow's reset leaves totals as they are.
 *
 * Returns 0, or, with out and *ret_ns untouched and nothing reset
 *	-EINVAL	there are no such objects, or a NULL
 *	-EROFS	the region was opened to read
 *	-EPERM, -ETIMEDOUT, -EAGAIN, -ENOMEM  as percpu_stats_snapshot()
 *
 * Context: any thread, not a signal handler; not a cancellation point.
 * Progress: as percpu_stats_snapshot(). Threads that allocate, free, reset or read take turns.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_group_snapshot(const struct percpu_stats_group *g,
							     size_t first, size_t n, void *out,
							     uint64_t *ret_ns);
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_group_fetch_zero(const struct percpu_stats_group *g,
							       size_t first, size_t n, void *out,
							       uint64_t *ret_ns);

PERCPU_END_DECLS

#endif
