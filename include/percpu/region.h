/* SPDX-License-Identifier: MIT */
/*
 * region.h - lanes of memory, private or in a file that processes share.
 *
 * A region hands out cells: the same bytes in each of its lanes. It grows by
 * further chunks and never moves. Memory is used page by page: a private
 * region takes it when a CPU first touches its lane, a shared one reserves
 * the page in the CPU lanes when the first cell in it is allocated, so that a
 * full disk is an error here and not a signal later.
 *
 * Programs find each other's objects at the region's roots; percpu_counter_array_open()
 * and its like create what is not there yet. docs/recipes.md has whole programs.
 *
 * A region keeps no descriptor. A program may close all that it has, have none
 * left, drop the right to open the file, or be where there is no /proc.
 *
 * Processes that allocate in the same file take turns, under a lock in it that is
 * taken over when its holder is killed. Nobody waits longer than a second for the
 * same holder, and nobody counts, reads or forks under it. Whoever may only read the file delays
 * no one. docs/region.md says what is left when the kernel refuses
 * get_robust_list(2), and between PID namespaces.
 */
#ifndef PERCPU_REGION_H
#define PERCPU_REGION_H

#include <percpu/base.h>

PERCPU_BEGIN_DECLS

struct percpu_region;
struct percpu_chunk;

/** Where an object is: what the handles of arrays, compact sets and statistics begin
 *  with, for what is inlined. The fields are the library's. */
struct percpu_block {
	char *base;    /* of lane 0 */
	size_t stride; /* between its lanes */
	size_t size;   /* bytes of each lane */
	struct percpu_chunk *chunk;
	struct percpu_region *own; /* closed with the object; may be NULL */
};

/*
 * What the calls of this header have in common, where one does not say more.
 *
 * Context: any thread, not a signal handler.
 * Ordering: none: to hand a region or a cell to another thread is up to the program, as
 * with any object. Between processes a root does (percpu_region_set_root()).
 * Progress: they take a lock of the process, and what allocates or frees in a shared
 * region one between processes, for which it waits a second at most (-ETIMEDOUT). What
 * creates or opens a file waits for the file system.
 */

/** What a region is made like. Set size; zero elsewhere means the default. */
struct percpu_region_options {
	size_t size;	    /* sizeof(struct percpu_region_options) */
	size_t lane_size;   /* usable bytes per lane; default PERCPU_LANE_SIZE, and
			     then the region grows. Others are for large arrays:
			     they have a stride of their own and do not grow. */
	uint32_t cpus;	    /* CPU lanes; default: one per possible CPU. More
			     simulate a larger machine. Fewer than are known to be
			     there are refused; docs/region.md says when to tell. */
	uint32_t mode;	    /* permissions of the file, of which the umask takes
			     some away, as open(2); default 0600 */
	void *memory;	    /* percpu_region_create(): where the region shall be; it
			     then does not grow. Default: where the kernel likes */
	size_t memory_size; /* bytes there, percpu_region_memory_size() at least */
};

/**
 * How large memory for percpu_region_options.memory must be, for a region of these
 * options. It is aligned to PERCPU_REGION_MEMORY_ALIGN; all of a region is in it. Of
 * default lane size, for so many CPUs, it is PERCPU_REGION_MEMORY_SIZE(), a constant.
 *
 * Returns 0, or -EINVAL, -E2BIG as percpu_region_create(), or -ENOMEM (more than the
 * address space).
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_memory_size(const struct percpu_region_options *o,
							   size_t *ret);

#define PERCPU_REGION_MEMORY_ALIGN 65536
#define PERCPU_REGION_MEMORY_SIZE(cpus)                                                            \
	(2 * (size_t)65536 + ((2 * (size_t)(cpus) + 1) * PERCPU_STRIDE + 65535) / 65536 * 65536)

/**
 * Create a private region: its memory is this process's, and a child of fork
 * has a copy, as of any variable. o may be NULL: all defaults.
 *
 * Returns 0, or
 *	-EINVAL	options this library does not know, lane_size is larger than
 *		1 TiB (1 GiB in 32-bit processes), more CPUs than cpus are known
 *		to be there, memory is not aligned, or has a size and no address, or
 *		ret is NULL
 *	-E2BIG	more than PERCPU_MAX_CPUS CPUs
 *	-ENOSPC	memory is smaller than percpu_region_memory_size()
 *	-ENOMEM	no memory, or no address space (RLIMIT_AS, 32-bit processes)
 *
 * In memory of the caller's, in huge pages, or a static buffer, the region is filled
 * with zeros here, does not grow (-ENOSPC when it is full), and returns no pages to the
 * system. It is the process's alone: where a child of fork shares it, one of the two may
 * use the region. percpu_region_close() leaves the memory, which may then be used for
 * something else. With the default lane size it takes whatever a region takes; single
 * counters and zones need that.
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_create(const struct percpu_region_options *o,
						      struct percpu_region **ret);

/** For percpu_region_open(): to count in the region, not only to read it. */
#define PERCPU_REGION_WRITE 0x1
/** And create it where there is no file of that name. */
#define PERCPU_REGION_CREATE 0x2

/**
 * Create a region in a new file, which other processes may open. The file
 * appears under its name when it is complete, or not at all. It is sparse: it has
 * the length of the largest region that it can become, and takes room for what is
 * allocated in it. A process that is killed meanwhile may leave a file ".percpu-..."
 * in the same directory, which nobody uses.
 *
 * Most programs want percpu_region_open() with PERCPU_REGION_CREATE, which can be
 * started twice.
 *
 * Returns 0, or as percpu_region_create(), and
 *	-EEXIST	the path exists
 *	-ENOSPC	the file system has no room
 *	-EFBIG	not even one chunk is within RLIMIT_FSIZE; a region within it grows
 *		as far as it allows, without a signal
 *	-ENOENT, -EACCES, -ENOTDIR, -EROFS, -EMFILE, ...  as open(2)
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_create_file(const char *path,
							   const struct percpu_region_options *o,
							   struct percpu_region **ret);

/**
 * Open the region in a file: with flags 0 to read it, with PERCPU_REGION_WRITE to
 * count in it. With PERCPU_REGION_CREATE besides, create it if there is no such
 * file, as o says, which may be NULL; where there is one, what it was made like
 * stays. Any number of processes may do so at once: one creates it, the others open
 * that.
 *
 * Whatever the file holds, the process does not crash: sizes, offsets and
 * geometry are checked before they are used.
 *
 * Returns 0, or
 *	-EINVAL	path or ret is NULL, unknown flags, or CREATE without WRITE
 *	-EISDIR	path is a directory
 *	-EBADMSG  the file is not a region, is damaged, or is cut short
 *	-EPROTO	a region of another version or with other geometry than this
 *		library is built for
 *	-ERANGE	the region has lanes for fewer CPUs than this machine certainly
 *		has; only to count in it, reading it is fine
 *	-ENOMEM	no memory or address space, which 32-bit processes may not have
 *		for lanes made by others
 *	-ENOENT, -EACCES, ...  as open(2); with CREATE as percpu_region_create_file(), and
 *	-EEXIST	path is a symbolic link to what does not exist, or others create
 *		and remove the file all the time
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_open(const char *path, unsigned flags,
						    const struct percpu_region_options *o,
						    struct percpu_region **ret);

/**
 * Create a region in the empty file that fd refers to, such as a new memfd. o.mode
 * is ignored. The descriptor stays the caller's, who may close it, or hand it to
 * other processes when the call has returned: before, they would find half a region.
 *
 * Returns as percpu_region_create_file(), and
 *	-EEXIST	the file is not empty
 *	-EBADF	fd is not open for reading and writing
 * A call that fails leaves the file empty.
 */
PERCPU_API PERCPU_MUST_CHECK int
percpu_region_create_fd(int fd, const struct percpu_region_options *o, struct percpu_region **ret);

/**
 * Open the region in the file that fd refers to: with flags 0 to read it, with
 * PERCPU_REGION_WRITE to count in it. The descriptor stays the caller's.
 *
 * Returns as percpu_region_open(), and -EBADF: fd is not open for reading, or, with
 * PERCPU_REGION_WRITE, for reading and writing.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_open_fd(int fd, unsigned flags,
						       struct percpu_region **ret);

/**
 * Unmap the region and free what the process holds of it. No thread may use a
 * cell of it any more. A file stays, with its counts. NULL is fine.
 */
PERCPU_API void percpu_region_close(struct percpu_region *r);

/**
 * Allocate size bytes in every lane.
 *
 * Parameters
 *	size	bytes per lane, 1 up to the lane size
 *	align	power of two, up to 4096; the cell has it in lane 0, and up to
 *		64 in every lane
 *	ret	the cell's address in lane 0, its handle
 *
 * The CPU lanes hold zeros the first time the bytes are handed out, and what
 * the last user left there afterwards: storing to another CPU's cell could be
 * overwritten by a sequence in progress. (Counters subtract what they find.)
 *
 * Returns 0, or -EINVAL (size, align, or a NULL), -EROFS (opened to read),
 * -ENOSPC (a region that does not grow is full, or the file system is),
 * -ENOMEM, -ETIMEDOUT (shared: another process, which is stopped or does not get
 * to run, has been allocating for a second).
 *
 * Context: any thread, not a signal handler; not a cancellation point.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_alloc(struct percpu_region *r, size_t size,
						     size_t align, void **ret);

/** Give back what percpu_region_alloc() returned for as many bytes; NULL is fine.
 *  Returns 0, or with the cell still allocated -EINVAL (it is not one of r's, or not of
 *  that size; sizes are told apart in steps of 8 bytes, of more in lanes above 64 KiB),
 *  -EROFS, or -ETIMEDOUT (a killed process left an update of the cell's chunk half
 *  done, and another one that is stopped keeps us from completing it). */
PERCPU_API int percpu_region_free(struct percpu_region *r, void *cell, size_t size);

/**
 * A cell's place in its region, the same in every process: for telling another
 * process where to count. percpu_region_at() turns it into an address there.
 *
 * percpu_region_key() returns 0 for a pointer that is not in r. It takes no lock, and
 * may be called in signal handlers.
 * percpu_region_at() returns NULL unless size bytes are there that were allocated
 * together, and for the keys of objects, which have attach calls of their own:
 * percpu_counter_key() and its like say of what kind an object is.
 */
PERCPU_API uint64_t percpu_region_key(const struct percpu_region *r, const void *cell);
PERCPU_API void *percpu_region_at(struct percpu_region *r, uint64_t key, size_t size);

/** A region has roots 0 to PERCPU_REGION_ROOTS - 1. */
#define PERCPU_REGION_ROOTS 16

/**
 * Keys that every process can look up; the programs agree on what is at which root.
 * 0 until it is set. percpu_counter_array_open(), percpu_stats_open() and
 * percpu_compact_open() find or create an object at a root, and need neither call.
 *
 * percpu_region_set_root() replaces the expected key, which is 0 for a root that was
 * not set, by another: of processes that do so at once, one succeeds.
 *
 * Returns 0, or -EEXIST (there is another key than the expected one), -EROFS, or
 * -EINVAL (r is NULL, or there is no such root). percpu_region_root() returns 0 where
 * there is none.
 *
 * Context: any thread, signal handlers.
 * Ordering: who finds the key sees all that was stored before it was set.
 * Progress: one compare-and-swap, or one load; no lock.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_set_root(struct percpu_region *r, unsigned root,
							uint64_t expected, uint64_t key);
PERCPU_API uint64_t percpu_region_root(const struct percpu_region *r, unsigned root);

PERCPU_END_DECLS

#endif
