/* SPDX-License-Identifier: MIT */
/*
 * ring.h - per-CPU rings of records, for traces and logs that must be cheap to write.
 *
 * A thread copies a record of 1 byte to percpu_ring_longest() into the ring of the CPU that
 * it runs on, with the time, and commits it by one store. It takes no lock, and shares no memory
 * with other CPUs. Rings are in memory of this process or in a region, where any number of
 * processes put and read records. A process that is killed disturbs none of the other processes. A
 * reader returns committed records whole, each once, in the order in which their CPU committed
 * them. It returns no part of a record that a killed process was putting.
 *
 * A full ring overwrites its oldest records, and a reader learns how many it missed. With
 * PERCPU_RING_KEEP, a full ring refuses new records and counts them, until a reader takes some.
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

/** Bytes of the smallest ring of a CPU. */
#define PERCPU_RING_MIN 1024
/** Bytes of the largest ring of a CPU. */
#define PERCPU_RING_MAX (1 << 30)
/** Bytes of the longest record. */
#define PERCPU_RING_MAX_RECORD 4096

/** For percpu_ring_create() and its like: a full ring refuses records, until a reader takes
 *  some. Without this flag, a full ring overwrites the oldest. */
#define PERCPU_RING_KEEP 0x1

/** For percpu_ring_create() and its like, in tests: a put of a size that no record can have
 *  prints an error that names the ring, and aborts. This holds for puts by this handle, not for
 *  those by other handles of the same rings. */
#define PERCPU_RING_DEBUG 0x2

/** A ring per CPU. The fields are the library's. */
struct percpu_ring {
	struct percpu_block block;
	uint64_t mask;	/* words of a ring - 1 */
	uint64_t keep;	/* ~0 with PERCPU_RING_KEEP, or 0 */
	size_t longest; /* bytes of the longest record for the inline put; 0: it puts none */
	struct percpu_ring *next;
	unsigned debug; /* PERCPU_RING_DEBUG, or 0 */
};

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach or destroy: any thread, constructors
 * included; not a signal handler. The others: any thread of any process that has the ring
 * mapped; signal handlers; children of fork.
 * Ordering: none (as memory_order_relaxed).
 * Progress: creating and destroying takes locks of the process and, in a shared region,
 * one between processes; a call waits a second at most for the same holder of that. The other
 * calls take no lock, unless one says so.
 */

/**
 * Create empty rings of size bytes, a power of two, for each CPU, in memory of this process.
 * They take memory as they are used.
 *
 * Records of up to a quarter of the size fit, but not more than PERCPU_RING_MAX_RECORD. A
 * record takes 24 bytes besides its own, which are rounded up to a multiple of 8. flags are 0,
 * PERCPU_RING_KEEP, PERCPU_RING_DEBUG, or both.
 *
 * Returns 0, or
 *	-EINVAL	ret is NULL, unknown flags, or a size that is no power of two, below
 *		PERCPU_RING_MIN, or above PERCPU_RING_MAX
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ring_create(size_t size, unsigned flags,
						    struct percpu_ring **ret);

/**
 * Do as percpu_ring_create(), in a region. Its lanes must be longer than the rings by 128 bytes
 * (percpu_region_options.lane_size). A shared region reserves a ring for each CPU, and two more.
 *
 * Returns 0, or -EINVAL as percpu_ring_create() or if the size is more than fits into a lane, or
 * -ENOMEM, or -EROFS, -ENOSPC, -ETIMEDOUT as percpu_region_alloc().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ring_create_in(struct percpu_region *r, size_t size,
						       unsigned flags, struct percpu_ring **ret);

/**
 * Attach to the rings at this root of a shared region, or create them if the root is 0, as
 * percpu_counter_array_open() does. It returns the same errors. -EEXIST is also for rings of
 * another size, or that differ in PERCPU_RING_KEEP; -ENOTSUP is as of percpu_ring_attach().
 *
 * If size is 0, this attaches to the rings as they are, and creates none: -ENOENT if nothing
 * is at the root. flags must then be 0 or PERCPU_RING_DEBUG (else -EINVAL).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ring_open(struct percpu_region *r, unsigned root,
						  size_t size, unsigned flags,
						  struct percpu_ring **ret);

/**
 * Attach to the rings that another process created at this key of a shared region.
 *
 * Returns 0, or -EINVAL (a NULL), -ENOENT (no rings there), -ENOMEM, -ENOTSUP (records have
 * the time of a counter that this process cannot read: on Arm, 32-bit processes do not
 * share rings with 64-bit processes).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ring_attach(struct percpu_region *r, uint64_t key,
						    struct percpu_ring **ret);
/** Undo percpu_ring_attach() or percpu_ring_open(), and leave the rings in the region. NULL is
 *  fine. */
PERCPU_API void percpu_ring_detach(struct percpu_ring *r);

/** Return the rings' key in their region; 0 for private rings. */
PERCPU_API uint64_t percpu_ring_key(const struct percpu_ring *r);

/** Free the rings and their records. In a region that was opened to read, the records stay.
 *  NULL is fine. No thread may be using the rings, and their readers must be destroyed. If a root
 *  has their key, set it to 0 before, by percpu_region_set_root(). */
PERCPU_API void percpu_ring_destroy(struct percpu_ring *r);

/** Return the bytes of the longest record that fits. */
PERCPU_API size_t percpu_ring_longest(const struct percpu_ring *r);

/** Return how many records were refused so far: exactly the puts that returned -ENOBUFS. */
PERCPU_API uint64_t percpu_ring_dropped(const struct percpu_ring *r);

PERCPU_API int percpu_ring_put_slow(const struct percpu_ring *r, const void *src, size_t size);

/**
 * Put a record: copy size bytes from src, with the time, into the ring of this CPU.
 *
 * Returns 0, or with nothing put
 *	-EINVAL	size is 0
 *	-EMSGSIZE  size is more than percpu_ring_longest()
 *	-ENOBUFS  with PERCPU_RING_KEEP: the ring is full; percpu_ring_dropped() counts this
 *	-EROFS	the region was opened to read
 *	-ETIMEDOUT  in a thread that cannot run sequences: another thread has held the lock
 *		of the CPU's second ring for a second, because it is stopped
 *	-EPERM	in such a thread: a filter refuses gettid(2), or the filter's error
 *
 * Context: any thread, signal handlers, children of fork and vfork.
 * Ordering: a thread that reads the record sees what was stored before it was put. If one
 * put happens before another, its time is not later.
 * Progress: bounded: after a few aborted attempts, it takes a lock.
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
	unsigned cpu;	  /* the CPU in whose ring it was */
	unsigned locked;  /* 1: it was in the CPU's second ring, which has numbers of its own */
	uint64_t number;  /* in its ring: 1, 2, ... modulo 2^48, so 0 comes after 2^48 - 1 */
	uint64_t time;	  /* when it was put: ns of CLOCK_MONOTONIC, some more or less in
			     another reader */
	uint64_t lost;	  /* records between this one and the one that this reader returned
			     before from the same ring: they were overwritten before they were
			     read. If the ring was not empty when the reader was created, the
			     first record has 0; its number tells how many came before it */
	size_t size;	  /* bytes */
	const void *data; /* aligned to 8; valid until the next call with this reader */
};

struct percpu_ring_reader;

/** For percpu_ring_reader_create(), in place of a CPU: a reader of the rings of all CPUs. */
#define PERCPU_RING_ALL 0xffffffffU

/** For percpu_ring_reader_create(): do not fence, and return records as soon as they are
 *  there. Records of one ring are in order; those of different rings only roughly. */
#define PERCPU_RING_UNFENCED 0x1
/** For percpu_ring_reader_create(): with PERCPU_RING_KEEP, leave the records in the ring for
 *  the reader that takes them. A reader in a region that was opened to read does so, too. */
#define PERCPU_RING_LOOK 0x2

/**
 * Create a reader of the rings of one CPU, or of PERCPU_RING_ALL. It starts with the oldest
 * records that are still there. It needs as much memory as the rings have.
 *
 * With PERCPU_RING_KEEP, a reader takes records out of the ring, so each record goes to one
 * reader. It takes all records of the ring at once. Records that it has taken, but not returned,
 * are lost when it is destroyed, or its process is killed.
 *
 * Returns 0, or -EINVAL (a NULL, unknown flags, no such CPU), -ENOMEM.
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ring_reader_create(const struct percpu_ring *r,
							   unsigned cpu, unsigned flags,
							   struct percpu_ring_reader **ret);

/** Free the reader. Call this before its ring is destroyed. NULL is fine. */
PERCPU_API void percpu_ring_reader_destroy(struct percpu_ring_reader *reader);

/**
 * Read the next record of the CPU, or of all CPUs. Records are returned in the order of their
 * times: a record that is returned later has no earlier time.
 *
 * For that order, the call fences when it has returned all records that the last fence covered:
 * as percpu_fence(), or, in a shared region, by visits to the reader's CPUs
 * (percpu_fence_all()). A record is returned after the first fence that follows it.
 *
 * Returns 0, or with *ret unchanged
 *	-EAGAIN	there is no record now
 *	-EBADMSG  another process has damaged a ring: it holds something else than records. The
 *		next call goes on behind that
 *	-EPERM, -ETIMEDOUT, -ENOMEM  it could not fence, as percpu_fence_all(), of which
 *		-EAGAIN is -EPERM here; the records stay, and a reader with
 *		PERCPU_RING_UNFENCED can read them
 *	-ETIMEDOUT  a thread that puts or takes records under a lock is stopped. For a put, a
 *		reader returns this once, and then reads on: that put's record may be returned
 *		after records of later times
 *	-ENOMEM	no memory
 *	-EINVAL	a NULL
 *
 * What it does not promise: that a record is there as soon as percpu_ring_put() has returned
 * in another thread, unless the return happens before the call.
 *
 * Context: any thread, one at a time for each reader; not a signal handler. A child of fork
 * must not use its parent's reader of a shared region.
 * Ordering: the caller sees what was stored before the record was put.
 * Progress: bounded. To order records by time, the call may take the lock of a CPU's second ring,
 * for which a put by a thread without sequences waits.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_ring_read(struct percpu_ring_reader *reader,
						  struct percpu_ring_record *ret);

PERCPU_END_DECLS

#endif
