/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the sources share among themselves.
 */
#ifndef PERCPU_INTERNAL_H
#define PERCPU_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <percpu/percpu.h>

/** What a call that failed says, negative: also to compilers and analyzers,
 *  which do not know that errno is positive. */
static inline int percpu_errno(void)
{
	int e = -errno;

	return e < 0 ? e : -EIO;
}

/* cpus.c */

/** Lanes needed for every CPU that this kernel can have: the highest possible
 *  CPU number + 1; or -E2BIG. */
int percpu_possible_cpus(void);

/** Whether the kernel lists the CPU as online; true when it cannot be told. */
bool percpu_cpu_online(unsigned cpu);

/** Let the thread, 0 for the calling one, run on that CPU alone: 0 or -errno. */
int percpu_pin(pid_t tid, unsigned cpu);

/* thread.c */

/** Start a short-lived thread that gets none of the program's signals, with the
 *  caller's scheduling policy or the normal one. Returns 0 or -errno. */
int percpu_thread_start(pthread_t *ret, bool normal, void *(*fn)(void *), void *arg);

/** Prepare registration; called once. Fills in the rseq part of the status. */
void percpu_thread_init(struct percpu_status *st);

/** Register the calling thread, whatever the tier. Returns who did it. */
enum percpu_owner percpu_thread_register(void);

/** From now on, no sequences in the calling thread. */
void percpu_thread_give_up(void);

/** This task and another are about to share the thread's TLS: no sequences,
 *  until as many calls of percpu_thread_unshare(). */
void percpu_thread_share(void);
void percpu_thread_unshare(void);

/** Nanoseconds of a clock that does not go back. */
static inline uint64_t percpu_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* status.c */

/** Find out all that percpu_status() reports, unless done. */
const struct percpu_status *percpu_init(void);

/** The tier if percpu_init() is done, otherwise PERCPU_TIER_SHARED; for slow
 *  paths, which may run in signal handlers and must not initialize. */
enum percpu_tier percpu_tier(void);

/* fence.c */

/** Announce the fence to the kernel; true if membarrier(2) can do it. */
bool percpu_fence_init(uint32_t *ret_commands);

/** Fence this process's sequences on one CPU; as percpu_fence(). */
int percpu_fence_cpu(unsigned cpu);

/* chunk.c: one mapping of lanes, and the arithmetic on them */

/*
 * A chunk is mapped as follows. Lane 0 is aligned to PERCPU_LANE_SIZE, so that
 * in a chunk of default geometry a cell's address leads to the chunk.
 *
 *	struct percpu_chunk	64 KiB reserved, private to the process
 *	struct percpu_header	64 KiB reserved \
 *	lanes of CPUs		N               | in a shared region: the file,
 *	lanes of atomic adds	N               | from its offset on
 *	bias lane		1               /
 */
#define PERCPU_HEAD 65536
#define PERCPU_UNITS 8192

/** The part other processes see, and may have damaged: never trusted after
 *  the chunk was validated, except where any value is harmless. */
struct percpu_header {
	uint64_t magic;
	uint32_t version;
	uint32_t index;	    /* of this chunk in its region */
	uint64_t lane_size; /* usable bytes of a lane */
	uint64_t stride;
	uint32_t cpus;	 /* N */
	uint32_t chunks; /* in chunk 0: complete chunks of the region; grows */
	uint64_t root;	 /* in chunk 0: a key for the user */
	uint64_t atomic_lanes[PERCPU_MAX_CPUS / 64]; /* in use; bits are only set */
	uint64_t used[PERCPU_UNITS / 64];	     /* allocated units of a lane */
};

_Static_assert(sizeof(struct percpu_header) == 48 + 2 * 1024, "file layout");
_Static_assert(offsetof(struct percpu_header, atomic_lanes) == 48, "file layout");

#define PERCPU_MAGIC 0x31557043726550ffULL /* bytes: ff P e r C p U 1 */
#define PERCPU_VERSION 1

/** What this process knows of a chunk; constant once it is mapped. */
struct percpu_chunk {
	const struct percpu_chunk *self; /* tells a chunk from other memory */
	struct percpu_region *region;
	struct percpu_header *header;
	char *base; /* lane 0 */
	size_t lane_size;
	size_t stride;
	size_t unit; /* bytes that a bit of header->used stands for */
	size_t hint; /* under percpu_lock: units below it were in use when last seen */
	uint32_t cpus;
	uint32_t index;
	size_t map_size; /* from this struct on */
	int fd;		 /* of a shared region; -1: private */
	dev_t dev;	 /* of fd, to notice that it was closed and reused */
	ino_t ino;
	off_t offset; /* of the header in fd */
};

/** Distance between lanes of so many usable bytes. */
static inline size_t percpu_stride(size_t lane_size)
{
	size_t page = PERCPU_STRIDE - PERCPU_LANE_SIZE - 64;

	return (lane_size + page - 1) / page * page + page + 64;
}

/** Bytes that a bit of percpu_header.used stands for. */
static inline size_t percpu_unit(size_t lane_size)
{
	size_t unit = sizeof(uint64_t);

	while (unit * PERCPU_UNITS < lane_size)
		unit *= 2;
	return unit;
}

/** Bytes of a chunk behind struct percpu_chunk: its share of the file. */
uint64_t percpu_chunk_size(size_t stride, uint32_t cpus);

/** Map the chunk described by the geometry and file fields of t; header and
 *  lanes are as the file has them. Returns 0 or -errno. */
int percpu_chunk_map(const struct percpu_chunk *t, bool writable, struct percpu_chunk **ret);
void percpu_chunk_unmap(struct percpu_chunk *k);

/** Write the header of a new chunk and reserve what every user touches. */
int percpu_chunk_format(struct percpu_chunk *k);

/** Reserve the bytes in all lanes that plain or atomic adds may touch, so that
 *  no store finds the file system full. Returns 0 or -errno. */
int percpu_chunk_reserve(struct percpu_chunk *k, size_t offset, size_t size);

/** Sum, reset and atomic add at an offset; see percpu_counter_*(). */
uint64_t percpu_chunk_sum(const struct percpu_chunk *k, size_t offset);
uint64_t percpu_chunk_reset(struct percpu_chunk *k, size_t offset);
void percpu_chunk_add_atomic(struct percpu_chunk *k, size_t offset, int64_t n);

/** Set size bytes to zero in every lane. No thread may be using them. */
void percpu_chunk_clear(struct percpu_chunk *k, size_t offset, size_t size);

/** Return the pages inside these bytes of every lane to the system. */
void percpu_chunk_discard(struct percpu_chunk *k, size_t offset, size_t size);

/** Atomic lanes in use, 64 per word, as far as the chunk has them. */
uint64_t percpu_chunk_atomic_lanes(const struct percpu_chunk *k, uint32_t word);

static inline char *percpu_chunk_lane(const struct percpu_chunk *k, size_t lane, size_t offset)
{
	return k->base + lane * k->stride + offset;
}

/** The chunk of a cell in a region of default geometry. */
static inline struct percpu_chunk *percpu_chunk_of(const void *cell)
{
	uintptr_t lane = (uintptr_t)cell & ~((uintptr_t)PERCPU_LANE_SIZE - 1);

	return (struct percpu_chunk *)(lane - 2 * PERCPU_HEAD);
}

/* region.c */

/** A region's chunks. One that has become too small stays for those who read
 *  it, until the region is closed. */
struct percpu_chunk_table {
	struct percpu_chunk_table *older;
	uint32_t size;
	struct percpu_chunk *at[];
};

struct percpu_region {
	struct percpu_region *next; /* of all regions of the process */
	struct percpu_chunk *first;
	struct percpu_chunk_table *chunks; /* grows under percpu_lock, read without */
	uint32_t n;			   /* likewise; stored after what it counts */
	int fd;				   /* -1: private */
	bool writable;
	size_t lane_size;
	uint32_t cpus;
};

/** Serializes everything that allocates; held across fork. */
extern pthread_mutex_t percpu_lock;

/** The private region that single counters and small arrays come from. */
int percpu_region_default(struct percpu_region **ret);

/** Whether cells of r can be single counters. */
bool percpu_region_is_zone(const struct percpu_region *r);

/** Add a chunk. The caller has percpu_lock and the lock between processes. */
int percpu_region_grow(struct percpu_region *r);

/** Map the chunks that other processes have added. The caller has percpu_lock. */
int percpu_region_refresh(struct percpu_region *r);

/** The region that the cell, any pointer, is in; NULL if none. */
struct percpu_region *percpu_region_find(const void *cell);

/* alloc.c */

/** The chunk of r whose lane 0 the cell, any pointer, is in; NULL if none. */
struct percpu_chunk *percpu_region_chunk(const struct percpu_region *r, const void *cell);

/** Return the pages that hold no cell to the system. Returns bytes, counted in
 *  every lane, whether or not they had been touched. */
size_t percpu_region_reclaim(struct percpu_region *r);

#endif
