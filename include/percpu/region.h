/* SPDX-License-Identifier: MIT */
/*
 * region.h - lanes of memory, private or in a file that processes share.
 *
 * A region hands out cells: the same bytes in each of its lanes. It grows by
 * further chunks and never moves. A private region takes a page of memory when a CPU
 * first touches the page in its lane. A shared region reserves the page in every CPU lane
 * when the first cell in it is allocated, so that a full disk is an error of that
 * call and not a signal later.
 *
 * A program finds the objects of other programs at the region's roots; percpu_counter_array_open()
 * and its like create an object that is not there yet. docs/start/structure.md has whole programs.
 *
 * A region keeps no file descriptor open, unless PERCPU_REGION_OWNERS asks for it. So a program may
 * close all descriptors that it has, drop the right to open the file, or run without /proc.
 *
 * Processes that allocate in the same file take turns under a robust lock in it. A process waits
 * at most a second for the same holder. Counting, reading and forking do not take the lock, and a
 * process that may only read the file cannot hold it. docs/memory/region.md says what differs
 * where the kernel refuses get_robust_list(2), and between PID namespaces.
 */
#ifndef PERCPU_REGION_H
#define PERCPU_REGION_H

#include <percpu/base.h>

PERCPU_BEGIN_DECLS

struct percpu_region;
struct percpu_chunk;

/** The place of an object in memory. The handles of arrays, compact sets and statistics begin
 *  with it, for inline functions. The fields are the library's. */
struct percpu_block {
	char *base;    /* the object in lane 0 */
	size_t stride; /* bytes from one lane to the next */
	size_t size;   /* bytes of each lane */
	struct percpu_chunk *chunk;
	struct percpu_region *own; /* the object's own region, closed with it; or NULL */
};

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread, not a signal handler.
 * Ordering: none. A program that hands a region or a cell to another thread must order that, as
 * with any object. Between processes, a root does so (percpu_region_set_root()).
 * Progress: the calls take a lock of the process. Allocating in a shared region also takes a lock
 * between processes, and so does freeing if a killed process left an update half done. A call
 * waits a second at most for the same holder of that lock (-ETIMEDOUT). Creating and opening a
 * file waits for the file system.
 */

/** Options of a region. Set size; zero in another field means the default. */
struct percpu_region_options {
	size_t size;	    /* sizeof(struct percpu_region_options) */
	size_t lane_size;   /* usable bytes per lane; default PERCPU_LANE_SIZE. A region
			     of the default grows. Other sizes are for large arrays:
			     such a region has a stride of its own and does not
			     grow. */
	uint32_t cpus;	    /* CPU lanes; default: one per possible CPU. Fewer than
			     the machine is known to have are refused. More are for
			     tests of a larger machine; docs/memory/region.md says when
			     else to set it. */
	uint32_t mode;	    /* permissions of the file, as of open(2): the umask
			     takes some away; default 0600 */
	void *memory;	    /* for percpu_region_create(): the region's address; the
			     region then does not grow. Default: the kernel chooses */
	size_t memory_size; /* bytes there, at least percpu_region_memory_size() */
};

/**
 * Set *ret to the number of bytes that a region of these options needs at
 * percpu_region_options.memory, which must be aligned to PERCPU_REGION_MEMORY_ALIGN. For
 * a region of default lane size, PERCPU_REGION_MEMORY_SIZE(cpus) is the same number as a
 * constant.
 *
 * Returns 0, or -EINVAL or -E2BIG as percpu_region_create(), or -ENOMEM (more than the
 * address space).
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_memory_size(const struct percpu_region_options *o,
							   size_t *ret);

#define PERCPU_REGION_MEMORY_ALIGN 65536
#define PERCPU_REGION_MEMORY_SIZE(cpus)                                                            \
	(2 * PERCPU_NUMBER(size_t, 65536) +                                                        \
	 ((2 * PERCPU_NUMBER(size_t, cpus) + 1) * PERCPU_STRIDE + 65535) / 65536 * 65536)

/**
 * Create a private region: its memory is this process's, and a child of fork
 * gets a copy, as of any variable. o may be NULL: all defaults.
 *
 * Returns 0, or
 *	-EINVAL	ret is NULL, options that this library does not know, lane_size is
 *		larger than 1 TiB (1 GiB in 32-bit processes), the machine is known to
 *		have more than o->cpus CPUs, memory is not aligned, or memory is NULL
 *		and memory_size is not 0
 *	-E2BIG	more than PERCPU_MAX_CPUS CPUs
 *	-ENOSPC	memory is smaller than percpu_region_memory_size()
 *	-ENOMEM	no memory, or no address space (RLIMIT_AS, 32-bit processes)
 *
 * With o->memory the region is in memory of the caller, such as huge pages or a static
 * buffer. The call fills that with zeros. The region does not grow (-ENOSPC when it is
 * full), and returns no pages to the system. Only this process may use it: if a child of
 * fork shares the memory, only one of the two may use the region. percpu_region_close()
 * leaves the memory to the caller. Single counters and zones need the default lane size.
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_create(const struct percpu_region_options *o,
						      struct percpu_region **ret);

/* Flags of percpu_region_open() and percpu_region_open_fd(). */

/** Count in the region, not only read it. */
#define PERCPU_REGION_WRITE 0x1
/** With PERCPU_REGION_WRITE: create the region if there is none. By a path, the file does not
 *  exist then. By a descriptor, it is empty. */
#define PERCPU_REGION_CREATE 0x2
/** Keep a descriptor of the file, with O_CLOEXEC. Owners (owner.h) need it, also in a process that
 *  only asks which owners live. */
#define PERCPU_REGION_OWNERS 0x4
/** With PERCPU_REGION_CREATE: open no region that another process has created, as O_EXCL of
 *  open(2). -EEXIST if the file exists, or, by a descriptor, if it is not empty. */
#define PERCPU_REGION_EXCL 0x8

/**
 * Open the region in a file: with flags 0 to read it, with PERCPU_REGION_WRITE to
 * count in it. With PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, create the file if there is none,
 * with the options o, which may be NULL; o does not change a file that exists. Any number of
 * processes may call this at once: one creates the file, and the other processes open it. With
 * PERCPU_REGION_EXCL as well, that one returns 0, and the others return -EEXIST.
 *
 * A file that this creates appears under its name when it is complete, or not at all. It is sparse:
 * its length is that of the largest region that it can become, but it takes room only for what is
 * allocated in it. A process that is killed during the call may leave a file ".percpu-..." in
 * the same directory, which no process uses.
 *
 * Whatever the file holds, the process does not crash: the library checks sizes, offsets and
 * geometry before it uses them.
 *
 * Returns 0, or
 *	-EINVAL	path or ret is NULL, unknown flags, CREATE without WRITE, or EXCL without CREATE
 *	-EISDIR	path is a directory
 *	-EBADMSG  the file is not a region, is damaged, or is cut short; or is a pipe or a device
 *	-EPROTO	the region has another version or geometry than this library is built
 *		for
 *	-ERANGE	with WRITE: the region has lanes for fewer CPUs than this machine certainly has
 *	-ENOMEM	no memory, or no address space, as for a region of a 64-bit process in a
 *		32-bit process
 *	-EMFILE, -ENFILE, -ENOMEM  with WRITE: no descriptor, or no memory, to read the id of
 *		this boot of the machine, which the file records for its locks
 *	-ENOENT, -EACCES, -ENOTDIR, -EROFS, -EMFILE, ...  as open(2)
 * and with CREATE
 *	-EINVAL, -E2BIG  as percpu_region_create() for these options, also if the file exists; and
 *		-EINVAL for memory or memory_size, because the region is in a file
 *	-EEXIST	with EXCL: path exists, whatever it is; without: path is a symbolic link to a file
 *		that does not exist, or other processes keep creating and removing the file
 *	-ENOSPC	the file system has no room
 *	-EFBIG	RLIMIT_FSIZE is too small for one chunk (a larger limit bounds how far
 *		the region grows, without a signal)
 * The call looks at its parameters first, then at the options, and then at the file.
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_open(const char *path, unsigned flags,
						    const struct percpu_region_options *o,
						    struct percpu_region **ret);

/**
 * Open the region in the file that fd refers to, as percpu_region_open(). With
 * PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, create a region in an empty file, such as a new
 * memfd, with the options o, which may be NULL; o->mode is ignored. Of a file that is not empty,
 * this opens the region, or, with PERCPU_REGION_EXCL as well, returns -EEXIST. The descriptor stays
 * the caller's, which may close it when the call has returned.
 *
 * Only one process may create the region. Hand the descriptor to other processes when the call has
 * returned: earlier they would find half a region, with CREATE too.
 *
 * Returns as percpu_region_open(), or
 *	-EBADF	fd is closed, is opened with O_PATH, or is not open for reading, or, with
 *		PERCPU_REGION_WRITE, for reading and writing
 *	-EISDIR, -EBADMSG  the file is a directory; or is a pipe, a socket or a device, whatever fd
 *		is open for; or it is empty, without CREATE
 * The call looks at fd after the options, and then at the file. To write, or with
 * PERCPU_REGION_OWNERS, it needs a free descriptor (-EMFILE); to read, none. A call that fails
 * leaves an empty file empty.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_open_fd(int fd, unsigned flags,
						       const struct percpu_region_options *o,
						       struct percpu_region **ret);

/**
 * Unmap the region and free this process's memory for it. No thread may use a
 * cell of it any more. A file stays, with its counts. NULL is fine. Detach or destroy the
 * objects in it before: for children of fork, the process keeps lists of rings, owners and grace
 * periods.
 */
PERCPU_API void percpu_region_close(struct percpu_region *r);

/**
 * Allocate size bytes in every lane.
 *
 * Parameters
 *	size	bytes per lane, 1 up to the lane size
 *	align	power of two, up to 4096. The cell in lane 0 has this alignment. The cells
 *		in other lanes have the smaller of it and 64
 *	ret	the cell's address in lane 0, its handle
 *
 * The CPU lanes hold zeros the first time that the bytes are allocated, and afterwards
 * what their last use left, or zeros again after percpu_region_reclaim(). The library cannot
 * clear them, because a sequence in progress on another CPU could undo a store to that CPU's
 * cell. (A new counter subtracts what it finds there.)
 *
 * Returns 0, or
 *	-EINVAL	size, align, or a NULL
 *	-EROFS	the region was opened to read
 *	-ENOSPC	a region that does not grow is full, or the file system is
 *	-EBADMSG  in a shared region: the file is damaged
 *	-ENOMEM	no memory or address space
 *	-ETIMEDOUT  in a shared region: another process has been allocating for a second,
 *		because it is stopped or does not get to run
 *
 * Context: any thread, not a signal handler; not a cancellation point.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_alloc(struct percpu_region *r, size_t size,
						     size_t align, void **ret);

/**
 * Free a cell that percpu_region_alloc() returned for size bytes. NULL is fine.
 *
 * Returns 0, or with the cell still allocated
 *	-EINVAL	the cell is not in r, or has another size (which is checked in
 *		steps of 8 bytes, of more in lanes above 64 KiB)
 *	-EROFS	the region was opened to read
 *	-ETIMEDOUT  a killed process left an update of the cell's chunk half done, and a
 *		process that is stopped keeps this one from completing it
 */
PERCPU_API int percpu_region_free(struct percpu_region *r, void *cell, size_t size);

/**
 * Return to the system every page that holds no cell in use: in private memory, and in a file for
 * all processes that share it. Cells in use keep what they hold, and other threads and processes
 * may count and allocate meanwhile. A private chunk of 64 KiB per lane without cells keeps no
 * memory; in a file its header stays, and each process keeps a page for it.
 *
 * Returns how many bytes of the lanes are free, also if they were never touched; 0 if nothing is
 * returned: r is NULL or was opened to read, or its memory is the program's, or another process
 * has held the lock for a second. Pages stay that the kernel does not take: locked ones (mlock(2)),
 * and those of a file system without holes (fallocate(2), FALLOC_FL_PUNCH_HOLE).
 *
 * If the process is killed meanwhile, some pages were returned, and others were not.
 *
 * Context: any thread, not a signal handler; not a cancellation point.
 * Progress: it takes the locks of percpu_region_alloc(), for one chunk at a time, and makes a
 * system call for each run of free cells of each lane.
 */
PERCPU_API size_t percpu_region_reclaim(struct percpu_region *r);

/**
 * Return to the system all memory of this process that the library can do without: the free items
 * of all zones and object caches, free windows and buffers of lwbuf.h and sfbuf.h, and the pages
 * that percpu_region_reclaim() returns, of all regions of the process. Then let malloc() return
 * what it has free (malloc_trim(3), where libc has it), because handles were allocated by it.
 * docs/recipes.md calls this on memory pressure.
 *
 * It calls destructors of object caches, which may call this library.
 *
 * Context: any thread, not a signal handler; not a cancellation point.
 * Progress: as percpu_region_reclaim(), for one region after the other. A call that destroys a
 * zone, a cache, a file's windows or a region meanwhile waits until this one has done with it.
 */
PERCPU_API void percpu_reclaim(void);

/**
 * Return the key of a cell: its place in the region, the same number in every process. A process
 * gives the key to another process, where percpu_region_at() turns it into an address. Returns 0
 * if the pointer is not in r.
 *
 * Context: any thread, signal handlers.
 * Progress: no lock.
 */
PERCPU_API uint64_t percpu_region_key(const struct percpu_region *r, const void *cell);

/**
 * Return the address of the cell with this key, in lane 0. NULL unless size bytes were allocated
 * together there. Also NULL for the key of an object, such as that of percpu_counter_key(): it
 * contains the kind of the object, and is for the object's attach call.
 */
PERCPU_API void *percpu_region_at(struct percpu_region *r, uint64_t key, size_t size);

/** A region has roots 0 to PERCPU_REGION_ROOTS - 1. */
#define PERCPU_REGION_ROOTS 16

/**
 * Replace the key at a root, if it is `expected`, with another key, or with 0. A root holds a key
 * that every process can look up; it is 0 until it is set. The programs agree on what is at which
 * root. percpu_counter_array_open() and its like find or create an object at a root without this
 * call.
 *
 * If several processes replace the same key at once, one succeeds. A root still leads to an object
 * after the object was destroyed. A process that opens the root then gets -EEXIST, or, if the
 * memory was used again, attaches to what is there now. So set the root to 0 first, and destroy
 * the object when no process uses it any more.
 *
 * Returns 0, or -EEXIST (the root holds another key than expected), -EROFS, or -EINVAL (r is
 * NULL, or there is no such root).
 *
 * Context: any thread, signal handlers.
 * Ordering: a thread that finds the key sees all that was stored before it was set.
 * Progress: at most two compare-and-swaps; no lock.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_region_set_root(struct percpu_region *r, unsigned root,
							uint64_t expected, uint64_t key);

/**
 * Return the key at a root, or 0 if r is NULL or there is no such root.
 *
 * Context: any thread, signal handlers.
 * Ordering: as percpu_region_set_root().
 * Progress: one load; no lock.
 */
PERCPU_API uint64_t percpu_region_root(const struct percpu_region *r, unsigned root);

PERCPU_END_DECLS

#endif
