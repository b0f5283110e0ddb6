/* SPDX-License-Identifier: MIT */
/*
 * lwbuf.h - short-lived buffers for the pages of a file or memfd. After DragonFly's lwbuf(9).
 *
 * This header is for programs that cannot, or do not want to, map a whole file. Such a program
 * allocates a buffer for a page, uses its bytes, and frees it. Three backends provide pages:
 *
 * direct	the library maps the whole file; a buffer is an address in that mapping
 * window	the library maps the page at a reserved address, by mmap(2), and keeps the
 *		mapping after the free. The next allocation of the page on this CPU takes the
 *		window by one restartable sequence and without a lock. Up to four buffers of a
 *		page that are allocated on a CPU at a time share a window
 * bounce	pread(2) copies the page into memory. The free writes it back by pwrite(2), if
 *		the buffer was allocated with PERCPU_LWBUF_WRITE
 *
 * An access to a mapping beyond the end of its file raises SIGBUS. So the library uses only
 * bounce buffers for a file that may shrink. The calls of this header, and accesses to the
 * bytes of a buffer, raise SIGBUS in two cases only: the program promised that the file keeps
 * its size (PERCPU_LWBUF_KEEPS_SIZE) and the file shrinks; or a thread stores to a hole of a
 * mapped file whose file system is full.
 *
 * docs/caches/lwbuf.md says when to use which backend. sfbuf.h has buffers that threads share,
 * xio.h copies ranges of bytes.
 */
#ifndef PERCPU_LWBUF_H
#define PERCPU_LWBUF_H

#include <percpu/base.h>

PERCPU_BEGIN_DECLS

/** The buffers of one file. */
struct percpu_lwbufs;

struct percpu_window;

/** A buffer: one page of a file. The caller provides the memory; only the library uses the
 *  fields. A copy of an allocated buffer is the same buffer: free one of them. */
struct percpu_lwbuf {
	void *kva;
	uint64_t page;
	struct percpu_lwbufs *of;
	struct percpu_window *window;
	uint32_t length;
	uint32_t generation;
	uint32_t flags;
	uint32_t forks;
};

/*
 * All calls of this header have this in common, unless the comment on a call says otherwise.
 *
 * Context: any thread, not a signal handler. Any thread may free a buffer. A child of fork has
 * its own buffers for the same file: it may allocate and free. If it frees an inherited buffer,
 * the buffer stays allocated in the parent. No call is a cancellation point.
 * Ordering: what threads did with a page before they freed its window happens before the next
 * allocation that takes this window. Nothing else is ordered.
 * Progress: an allocation that finds its window, and a free after which the window stays
 * mapped, take no lock and make no system call; but an allocation of a last page of which the
 * file has a part calls fstat(2). Other calls take a lock of the process for a few
 * instructions, and wait for the file system.
 */

enum percpu_lwbuf_backend {
	PERCPU_LWBUF_AUTO,
	PERCPU_LWBUF_DIRECT,
	PERCPU_LWBUF_WINDOW,
	PERCPU_LWBUF_BOUNCE,
};

PERCPU_ASSERT(sizeof(enum percpu_lwbuf_backend) == sizeof(int), "libpercpu needs -fno-short-enums");

/* Flags of creation and flags of allocation have different bits, so that a call refuses the
 * flags of the other. */

/** For percpu_lwbuf_options.flags: allow allocations with PERCPU_LWBUF_WRITE. */
#define PERCPU_LWBUF_WRITABLE 0x10
/** Promise that the file does not shrink while it has buffers. A memfd that is sealed with
 *  F_SEAL_SHRINK does not need this flag. If the file shrinks nonetheless, an access to the
 *  bytes that were cut off raises SIGBUS. */
#define PERCPU_LWBUF_KEEPS_SIZE 0x20
/** Check each use of a buffer: see percpu_lwbuf_free(). No buffer is direct: each gets a window or
 *  a bounce buffer of its own. A store to its bytes raises SIGSEGV, unless the buffer was allocated
 *  with PERCPU_LWBUF_WRITE. Any access to them after the free raises SIGSEGV. */
#define PERCPU_LWBUF_DEBUG 0x40

/** Options. Set size. Zero in another field means the default. */
struct percpu_lwbuf_options {
	size_t size;	   /* sizeof(struct percpu_lwbuf_options) */
	size_t window;	   /* bytes of a page as this header counts pages: a power of two from
			      the system's page size, which is the default, to 1 MiB */
	size_t max_excess; /* windows that stay mapped beyond those in use, up to 65536;
			      default: 64 MiB of them, and at most 1024. For none call
			      percpu_lwbuf_set_max_excess(). So many buffers of sfbuf.h stay
			      mapped besides: percpu_sfbuf_set_max_excess() */
	enum percpu_lwbuf_backend backend;
	uint32_t flags;
};

/**
 * Create the buffers of a file. If o is NULL, all options have their defaults.
 *
 * Parameters
 *	fd	a regular file or a memfd, open for reading; with PERCPU_LWBUF_WRITABLE also
 *		for writing. The library duplicates it, so the caller may close it, but not the
 *		duplicate, as closefrom(3) does: docs/caches/lwbuf.md says what happens then
 *
 * PERCPU_LWBUF_AUTO maps the whole file if the file may not shrink and its size is at most the
 * lesser of a quarter of RLIMIT_AS and 32 TiB (256 MiB in 32-bit processes). Otherwise it uses a
 * bounce buffer for the first use of a page. If the file may not shrink, it uses a window when
 * the page is asked for again.
 *
 * Returns 0, or
 *	-EINVAL	ret is NULL; options that this library does not know; a window, number or
 *		backend outside its range; not a regular file; a descriptor with O_APPEND and
 *		PERCPU_LWBUF_WRITABLE
 *	-EACCES	fd is not open for reading, or not for writing with PERCPU_LWBUF_WRITABLE
 *	-EPERM	PERCPU_LWBUF_WRITABLE of a memfd that is sealed against writing
 *		(F_SEAL_WRITE, F_SEAL_FUTURE_WRITE)
 *	-EBADF	fd is not open
 *	-ENOTSUP  PERCPU_LWBUF_DIRECT or PERCPU_LWBUF_WINDOW of a file that may shrink;
 *		PERCPU_LWBUF_WINDOW of a file of huge pages (hugetlbfs, MFD_HUGETLB): the
 *		library maps all of such a file, or uses bounce buffers
 *	-ENOMEM	no memory or address space (RLIMIT_AS)
 *	-EMFILE, -E2BIG  no more descriptors (RLIMIT_NOFILE); more CPUs than PERCPU_MAX_CPUS
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_lwbuf_create(int fd, const struct percpu_lwbuf_options *o,
						     struct percpu_lwbufs **ret);

/** Unmap and free all. Returns 0, or -EBUSY while buffers are allocated, those of sfbuf.h
 *  included. NULL is fine. In a child of fork inherited buffers do not cause -EBUSY, and are gone
 *  afterwards. The library cannot tell references to one shared buffer apart: those that a child
 *  frees count first as those that it has taken itself. */
PERCPU_API int percpu_lwbuf_destroy(struct percpu_lwbufs *f);

/** For percpu_lwbuf_alloc(): the caller will store to the page. */
#define PERCPU_LWBUF_WRITE 0x1

/**
 * Allocate a buffer for a page. Page i begins at byte i * percpu_lwbuf_options.window.
 *
 * Without PERCPU_LWBUF_WRITE the buffer may hold a copy of the page as it was at the allocation.
 * The caller must not store to it: a store is lost or changes the file, depending on the
 * backend; with PERCPU_LWBUF_DEBUG it raises SIGSEGV.
 *
 * With PERCPU_LWBUF_WRITE the free of a bounce buffer writes percpu_lwbuf_length() bytes back.
 * If a page has two such buffers at a time, the one that is freed last overwrites the other.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, or unknown flags
 *	-ERANGE	the file has no byte of the page, or it is beyond the first 2^40 - 1 pages
 *	-EACCES	PERCPU_LWBUF_WRITE without PERCPU_LWBUF_WRITABLE
 *	-ENOMEM	no memory or address space; for a window also too many mappings
 *		(vm.max_map_count), even after the library has unmapped free windows and
 *		free buffers of sfbuf.h. With
 *		PERCPU_LWBUF_AUTO and without PERCPU_LWBUF_WRITE it tries a bounce buffer
 *		before it fails
 *	-EPERM	the memfd was sealed against writing (F_SEAL_FUTURE_WRITE) after
 *		percpu_lwbuf_create() with PERCPU_LWBUF_WRITABLE, and a window must be mapped.
 *		With PERCPU_LWBUF_AUTO and without PERCPU_LWBUF_WRITE the page gets a bounce
 *		buffer instead. Windows that are mapped already, and direct pages, still work
 *	-EBADF	the program has closed the library's descriptor; with PERCPU_LWBUF_WRITABLE
 *		also: a page must be mapped, and the descriptor's number is another file's
 *	-EIO and other errors of pread(2) and mmap(2)
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_lwbuf_alloc(struct percpu_lwbufs *f, uint64_t page,
						    unsigned flags, struct percpu_lwbuf *ret);

/**
 * Free a buffer. Clears *b, so that a second free of *b returns -EINVAL.
 *
 * Returns 0, or
 *	-EINVAL	f or b is NULL; b is not allocated, or not of f; or b is a copy of a buffer that
 *		was freed, even if other buffers have its window. The library no longer notices
 *		such a copy once its window or bounce buffer was allocated 2^31 times since. It
 *		never notices a copy of a direct buffer
 *	-ERANGE	the file no longer has the page, or less of it: nothing was written back
 *	-EPERM	the memfd was sealed against writing meanwhile: nothing was written back
 *	-EBADF	a bounce buffer, and the program has closed the library's descriptor, or its
 *		number is another file's: nothing was written back
 *	-ENOTSUP  a bounce buffer, and O_APPEND was set meanwhile on the open file, which all
 *		holders of the descriptor share: nothing was written back. If O_APPEND is set
 *		between the check and the write, the page is appended to the file
 *	-ENOSPC, -EIO and other errors of pwrite(2): not all was written back. -EINVAL of
 *		pwrite(2) (descriptors with O_DIRECT) becomes -EIO
 *	After all errors but -EINVAL the buffer is free.
 *	A page beyond RLIMIT_FSIZE is -EFBIG, and the kernel sends SIGXFSZ to the thread, which
 *	ends the program unless it ignores or handles that signal.
 *
 * With PERCPU_LWBUF_DEBUG the library prints the page, the thread that allocated the buffer, and
 * the error to standard error, and aborts, in three cases: a second free, a free of another file's
 * buffer, and percpu_lwbuf_kva() of a copy after the free. percpu_lwbuf_kva() of *b itself
 * returns NULL after the free. An access to the bytes after the free raises SIGSEGV, as does a
 * store to a page that was allocated without PERCPU_LWBUF_WRITE.
 */
PERCPU_API int percpu_lwbuf_free(struct percpu_lwbufs *f, struct percpu_lwbuf *b);

PERCPU_API void *percpu_lwbuf_kva_checked(const struct percpu_lwbuf *b);

/**
 * Return the address of the page's first byte. It is valid in all threads until the free.
 *
 * Context: any, also signal handlers.
 */
PERCPU_INLINE void *percpu_lwbuf_kva(const struct percpu_lwbuf *b)
{
	if (percpu_unlikely(b->flags & PERCPU_LWBUF_DEBUG))
		return percpu_lwbuf_kva_checked(b);
	return b->kva;
}

/** Return the number of the page. Context: any, also signal handlers. */
PERCPU_INLINE uint64_t percpu_lwbuf_page(const struct percpu_lwbuf *b)
{
	return b->page;
}

/** Return how many bytes of the page the file had, at least 1. Do not touch the bytes behind
 *  them. Context: any, also signal handlers. */
PERCPU_INLINE size_t percpu_lwbuf_length(const struct percpu_lwbuf *b)
{
	return b->length;
}

/**
 * Change how many windows stay mapped beyond those in use; 0 means none. Unmaps the windows
 * beyond n; if n differs much from the number before, all free windows. Threads that free at
 * the same time may exceed n by one window per CPU. A buffer that is freed on another CPU than it
 * was allocated on leaves its window to the CPU of the allocation; beyond n the free unmaps the
 * window, which needs a fence.
 *
 * Returns 0, or
 *	-EINVAL	f is NULL, or n is above the bound, which is the larger of 4096 and four times
 *		percpu_lwbuf_options.max_excess, rounded up to a power of two. A file that is
 *		never mapped has no bound
 *	-EPERM, -ETIMEDOUT, -EAGAIN, -ENOMEM  the limit has changed, but windows of other
 *		CPUs stay mapped: to unmap them the library needs a fence (percpu_fence()),
 *		which failed
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_lwbuf_set_max_excess(struct percpu_lwbufs *f, size_t n);

/**
 * Map pages ahead, so that the first allocations on this CPU need no system call and no page fault:
 * bring n pages from the first one on into memory, and give each that has none a window in this
 * CPU's table. The call unmaps no window of another page: it stops when as many windows are mapped
 * as may stay so, or when windows fill the part of the table that a page belongs to. Of a file that
 * is mapped whole it only brings the pages into memory. A kernel before 5.14 does not bring them,
 * but maps windows.
 *
 * Sets *ret, unless ret is NULL, to the number of pages, from the first one on, that are mapped.
 *
 * Returns 0, or
 *	-EINVAL	f is NULL
 *	-ERANGE	the file does not have all of these pages: nothing was mapped
 *	-ENOTSUP  pages of the file are never mapped, or windows are not kept (PERCPU_LWBUF_DEBUG)
 *	-ENOMEM, -EPERM and others as percpu_lwbuf_alloc(). Pages before the failure are mapped
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_lwbuf_populate(struct percpu_lwbufs *f, uint64_t first,
						       uint64_t n, uint64_t *ret);

/**
 * Return to the system what the file's buffers can do without: unmap all windows that are not in
 * use, those of sfbuf.h included, and return the memory of free bounce buffers. If no window, or no
 * bounce buffer, is in use, return the address space of all of them, too. percpu_reclaim() does
 * this for all files of the process.
 *
 * Returns 0, or
 *	-EINVAL	f is NULL
 *	-EPERM, -ETIMEDOUT, -EAGAIN, -ENOMEM  windows of other CPUs stay mapped, as
 *		percpu_lwbuf_set_max_excess()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_lwbuf_reclaim(struct percpu_lwbufs *f);

/** Filled by percpu_lwbuf_stats(). The fields are not of the same instant. */
struct percpu_lwbuf_stats {
	enum percpu_lwbuf_backend backend; /* direct if the file is mapped whole; window if pages
					      can be mapped one by one; otherwise bounce */
	uint32_t reserved;
	uint64_t used;	 /* allocated buffers, without those of sfbuf.h */
	uint64_t excess; /* windows mapped, but not in use */
	uint64_t max_excess;
	uint64_t windows; /* allocations of windows so far */
	uint64_t mapped;  /* allocations of windows that made a mapping: misses */
	uint64_t bounced; /* allocations of bounce buffers so far */
	uint64_t address; /* bytes of address space that are mapped or reserved for buffers */
};

PERCPU_API void percpu_lwbuf_stats(const struct percpu_lwbufs *f, struct percpu_lwbuf_stats *ret);

PERCPU_END_DECLS

#endif
