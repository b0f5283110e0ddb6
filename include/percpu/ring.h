/* SPDX-License-Identifier: MIT */
/*
 * ring.h - per-CPU rings of records: for traces and logs that cost next to nothing to
 * write.
 *
 * A thread copies a record of 1 byte to percpu_ring_longest() into the ring of the CPU that
 * it runs on, with the time, and commits it by one store. No lock is taken, and nothing is
 * shared with other CPUs. A ring is in memory of this process or in a region, where any
 * number of processes put records and any number read them, while the others go on, or
 * after they were killed. Each record that was committed is read whole, once by each
 * reader, in the order in which its CPU committed it. Of a record that a killed process was
 * putting nothing is seen.
 *
 * A full ring overwrites its oldest records, and readers are told how many they missed; or,
 * with PERCPU_RING_KEEP, it refuses new ones and counts them, until a reader has taken some.
 *
 * A thread that cannot run sequences puts its records into a second ring of the CPU, under
 * a lock. So the records of a CPU come in two streams, each of which has numbers of its own;
 * percpu_ring_read() merges them by time.
 */
#ifndef PERCPU_RING_H
#define PERCPU_RING_H

#include <errno.h>

#include <percpu/region.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** Bytes of the smallest and the largest ring of a CPU, and of the longest record. */
#define PERCPU_RING_MIN 1024
#define PERCPU_RING_MAX (1 << 30)
#define PERCPU_RING_MAX_RECORD 4096

/** For percpu_ring_create() and its like: a full ring refuses records, until others were
 *  taken. Without it the oldest are overwritten. */
#define PERCPU_RING_KEEP 0x1

/** For percpu_ring_create() and its like, in tests: a put of a size that no record can have
 *  prints an error that names the ring, and aborts. It is no property of the ring: of its
 *  other handles each has its own. */
#define PERCPU_RING_DEBUG 0x2

/** A ring per CPU. The fields are the library's. */
struct percpu_ring {
	struct percpu_block block;
	uint64_t mask;	/* words of a ring - 1 */
	uint64_t keep;	/* ~0 with PERCPU_RING_KEEP, or 0 */
	size_t longest; /* bytes of a record that the inline put takes; 0: none */
	struct percpu_ring *next;
	unsigned debug; /* PERCPU_RING_DEBUG */
};

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach or destroy: any thread, constructors
 * included; not a signal handler. The others: any thread of any process that has the ring
 * mapped; signal handlers; children of fork.
 * Ordering: none (as memory_order_relaxed).
 * Progress: creating and destroying takes locks of the process and, in a shared region,
 * one between processes, for which a call waits a second at most. The other calls take no
 * lock.
 */

/**
 * Create empty rings of size bytes, a power of two, for each CPU: in memory of this process,
 * or in a region, whose lanes must be longer by 128 bytes (percpu_region_options.lane_size).
 * Records of up to a quarter of the size fit, but not more than PERCPU_RING_MAX_RECORD. A
 * record takes 24 bytes more than its own, which are rounded up to 8. flags are of
 * PERCPU_RING_KEEP and PERCPU_RING_DEBUG.
 *
 * Private rings take memory as they are used. A shared region reserves a ring for each CPU,
 * and two more.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, unknown flags, or a size that is no power of two, below
 *		PERCPU_RING_MIN, above PERCPU_RING_MAX, or more than fits into a lane
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ETIMEDOUT  in a region, as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ring_create(size_t size, unsigned flags,
						    struct percpu_ring **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_ring_create_in(struct percpu_region *r, size_t size,
						       unsigned flags, struct percpu_ring **ret);

/**
 * Attach to the rings at this root of a shared region, or create them if nobody has, as
 * percpu_counter_array_open() does. -EEXIST is also for another size, or other flags, than
 * the creator's; -ENOTSUP is as of percpu_ring_attach().
 *
 * With a size of 0 it attaches to the rings as they are, and creates none: -ENOENT if nothing
 * is at the root. flags are then 0 or PERCPU_RING_DEBUG (else -EINVAL).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ring_open(struct percpu_region *r, unsigned root,
						  size_t size, unsigned flags,
						  struct percpu_ring **ret);

/**
 * Attach to the rings that another process created at this key of a shared region.
 * percpu_ring_detach() undoes it and leaves the rings.
 *
 * Returns 0, or -EINVAL (a NULL), -ENOENT (no rings there), -ENOMEM, -ENOTSUP (records have
 * the time of a counter that this process cannot read: on Arm, 32-bit processes do not
 * share rings with those of 64 bits).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ring_attach(struct percpu_region *r, uint64_t key,
						    struct percpu_ring **ret);
PERCPU_API void percpu_ring_detach(struct percpu_ring *r);

/** The rings' key in the region they were created in; 0 for private ones. */
PERCPU_API uint64_t percpu_ring_key(const struct percpu_ring *r);

/** Free the rings and their records. In a region that was opened to read, the records stay.
 *  NULL is fine. No thread may be using the rings, and their readers must be destroyed. If a root
 *  has them, set it to 0 before: percpu_region_set_root(). */
PERCPU_API void percpu_ring_destroy(struct percpu_ring *r);

/** How many bytes the longest record can have. */
PERCPU_API size_t percpu_ring_longest(const struct percpu_ring *r);

/** How many records were refused, ever: each put that returned -ENOBUFS, exactly. */
PERCPU_API uint64_t percpu_ring_dropped(const struct percpu_ring *r);

PERCPU_API int percpu_ring_put_slow(const struct percpu_ring *r, const void *src, size_t size);

/**
 * Put a record: copy size bytes from src, with the time, into the ring of this CPU.
 *
 * Returns 0, or with nothing put
 *	-EINVAL	size is 0
 *	-EMSGSIZE  size is more than percpu_ring_longest()
 *	-ENOBUFS  with PERCPU_RING_KEEP: the ring is full. percpu_ring_dropped() has
 *		counted it
 *	-EROFS	the region was opened to read
 *	-ETIMEDOUT  in a thread that cannot run sequences: another one has held the lock
 *		of the CPU's second ring for a second, because it is stopped
 *	-EPERM	in such a thread: a filter refuses gettid(2), or the filter's error
 *
 * Context: any thread, signal handlers, children of fork and vfork.
 * Ordering: a thread that reads the record sees what was stored before it was put. If one
 * put happens before another, its time is not the later one.
 * Progress: bounded: after a few aborted attempts, under a lock.
 */
PERCPU_INLINE int percpu_ring_put(const struct percpu_ring *r, const void *src, size_t size)
{
	uint64_t last = 0;
	size_t at = (size - 1) / 8 * 8;

	if (percpu_likely(size - 1 < r->longest)) {
		__builtin_memcpy(&last, (const char *)src + at, size - at);
		if (percpu_likely(percpu_seq_put(r->block.base, r->block.stride, r->mask, r->keep,
						 src, size, last) == 0))
			return 0;
	}
	return percpu_ring_put_slow(r, src, size);
}

/** A record as percpu_ring_read() returns it. */
struct percpu_ring_record {
	unsigned cpu;	  /* in whose ring it was */
	unsigned locked;  /* 1: in the CPU's second ring, which has numbers of its own */
	uint64_t number;  /* in its ring: 1, 2, ... modulo 2^48, so 0 comes after 2^48 - 1 */
	uint64_t time;	  /* when it was put: ns of CLOCK_MONOTONIC, some more or less in
			     another reader */
	uint64_t lost;	  /* records of this ring that were overwritten before this reader
			     could read them, since the one that it returned before. A
			     reader of a ring that was not empty finds 0 with the first one,
			     whose number says how many were before it */
	size_t size;	  /* bytes */
	const void *data; /* aligned to 8; valid until the next call with this reader */
};

struct percpu_ring_reader;

/** For percpu_ring_reader_create(): a reader of the rings of all CPUs. */
#define PERCPU_RING_ALL 0xffffffffU

/** For percpu_ring_reader_create(): do not fence; return records as soon as they are
 *  there. Those of one ring are in order, those of different ones only about. */
#define PERCPU_RING_UNFENCED 0x1
/** For percpu_ring_reader_create(): with PERCPU_RING_KEEP, leave the records in the ring for
 *  the one that takes them. So does each reader in a region that was opened to read. */
#define PERCPU_RING_LOOK 0x2

/**
 * Create a reader of the rings of one CPU, or of PERCPU_RING_ALL. It starts with the oldest
 * records that are still there. It needs memory for as much as the rings hold.
 *
 * With PERCPU_RING_KEEP, readers take the records out of the ring, so each record goes to
 * one reader. They take all that there are at a time; what a reader has taken and not
 * returned is gone when it is destroyed, or its process is killed.
 *
 * Returns 0, or -EINVAL (a NULL, unknown flags, no such CPU), -ENOMEM.
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ring_reader_create(const struct percpu_ring *r,
							   unsigned cpu, unsigned flags,
							   struct percpu_ring_reader **ret);

/** Free the reader; NULL is fine. Before its ring is destroyed. */
PERCPU_API void percpu_ring_reader_destroy(struct percpu_ring_reader *reader);

/**
 * Read the next record of the CPU, or of all CPUs in the order of their times: a record that
 * is returned later has no earlier time.
 *
 * For that order the call fences, each time when it has returned all that the last fence
 * covered: as percpu_fence(), or, in a shared region, by visits to the reader's CPUs
 * (percpu_fence_all()). A record is returned when a fence came after it.
 *
 * Returns 0, or with *ret unchanged
 *	-EAGAIN	there is no record now
 *	-EBADMSG  what a ring holds are no records: another process has damaged it. The
 *		reader goes on behind, with the next call
 *	-EPERM, -ETIMEDOUT, -ENOMEM  it could not fence, as percpu_fence_all(), of which
 *		-EAGAIN is -EPERM here; the records stay, and a reader with
 *		PERCPU_RING_UNFENCED can read them
 *	-ETIMEDOUT  a thread that puts or takes records under a lock is stopped. Of one that
 *		puts a reader says so once, and then reads on: its record may come later than
 *		its time
 *	-ENOMEM	no memory
 *	-EINVAL	a NULL
 *
 * What it does not promise: that a record is there as soon as percpu_ring_put() has returned
 * in another thread, unless the return happens before the call.
 *
 * Context: any thread, one at a time for each reader; not a signal handler. A child of fork
 * must not use its parent's reader of a shared region.
 * Ordering: what was stored before the record was put is seen.
 * Progress: bounded. It takes no lock that a put waits for.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ring_read(struct percpu_ring_reader *reader,
						  struct percpu_ring_record *ret);

PERCPU_END_DECLS

#endif
