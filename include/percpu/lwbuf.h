/* SPDX-License-Identifier: MIT */
/*
 * lwbuf.h - short-lived windows onto the pages of a file or memfd. After DragonFly's
 * lwbuf(9).
 *
 * A program that cannot, or does not want to, map a whole file asks for a page of it,
 * uses it, and frees it. The page comes by one of three backends:
 *
 * direct	the whole file is mapped; a page is an address in it
 * window	a piece of reserved address space is made to show the page, by mmap(2). After
 *		the free it goes on showing it. An allocation of the same page on the same CPU
 *		gets it back, by one restartable sequence and without a lock
 * bounce	the page is read into memory by pread(2), and written back by pwrite(2) at the
 *		free, if it was allocated to be written
 *
 * A file that may shrink is only read and written by bounce buffers, because an access to
 * a mapping beyond the end of its file is SIGBUS. So no call of this header, and no access
 * to the bytes of a buffer, raises SIGBUS, unless the program itself has said that the file
 * keeps its size (PERCPU_LWBUF_KEEPS_SIZE), and it does not; or a thread stores to a hole of a
 * file that is mapped, and its file system is full.
 *
 * docs/caches/lwbuf.md says when to use which. sfbuf.h has buffers that threads share.
 */
#ifndef PERCPU_LWBUF_H
#define PERCPU_LWBUF_H

#include <percpu/base.h>

PERCPU_BEGIN_DECLS

/** The buffers of one file. */
struct percpu_lwbufs;

struct percpu_window;

/** A page of a file, in memory of the caller's. The fields are the library's. A copy of an
 *  allocated buffer is the same buffer: free one of them. */
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
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread, not a signal handler. A buffer may be freed by another thread than
 * the one that allocated it. A child of fork has buffers of its own, on the same
 * file: it may allocate and free, and frees what it has inherited for itself.
 * Ordering: what threads did with a page before the free of its buffer happens before the
 * allocation that finds that window again. Nothing else is ordered.
 * Progress: an allocation that finds its window, and the free of a window, take
 * no lock and make no system call. Others take a lock of the process for a few instructions,
 * and wait for the file system.
 */

enum percpu_lwbuf_backend {
	PERCPU_LWBUF_AUTO,
	PERCPU_LWBUF_DIRECT,
	PERCPU_LWBUF_WINDOW,
	PERCPU_LWBUF_BOUNCE,
};

PERCPU_ASSERT(sizeof(enum percpu_lwbuf_backend) == sizeof(int), "libpercpu needs -fno-short-enums");

/* Flags of creation and of allocation have different bits, so that a call refuses a flag
 * that is not meant for it. */

/** For percpu_lwbuf_options.flags: pages may be allocated with PERCPU_LWBUF_WRITE. */
#define PERCPU_LWBUF_WRITABLE 0x10
/** The file does not shrink while it has buffers. Not needed for a memfd that is sealed with
 *  F_SEAL_SHRINK. If the file shrinks nonetheless, an access to what was cut off is SIGBUS. */
#define PERCPU_LWBUF_KEEPS_SIZE 0x20
/** Check each use of a buffer: see percpu_lwbuf_free(). Each page gets a window or a bounce
 *  buffer of its own, without access once it is free, and read-only unless it was allocated
 *  to be written: a store is SIGSEGV then. */
#define PERCPU_LWBUF_DEBUG 0x40

/** Options. Set size; zero in another field means the default. */
struct percpu_lwbuf_options {
	size_t size;	   /* sizeof(struct percpu_lwbuf_options) */
	size_t window;	   /* bytes of a page of the file, as it is asked for: a power of two
			      from the system's page size, which is the default, to 1 MiB */
	size_t max_excess; /* windows that stay mapped beyond those in use, up to 65536;
			      default: 64 MiB of them, and at most 1024. For none call
			      percpu_lwbuf_set_max_excess() */
	size_t max_shared; /* buffers of sfbuf.h, up to 65536; default 256 */
	enum percpu_lwbuf_backend backend;
	uint32_t flags;
};

/**
 * Create the buffers of a file. o may be NULL: all defaults.
 *
 * Parameters
 *	fd	a regular file or a memfd, open for reading, and for writing, too, with
 *		PERCPU_LWBUF_WRITABLE. The library duplicates it, so the caller may close it
 *
 * PERCPU_LWBUF_AUTO maps the whole file, if it may not shrink and is at most a quarter of
 * RLIMIT_AS (256 MiB in 32-bit processes). Otherwise it uses bounce buffers for pages that are
 * used once, and windows for pages that are asked for again, if the file may not shrink.
 *
 * Returns 0, or
 *	-EINVAL	ret is NULL; options that this library does not know; a window, number or
 *		backend that is none of the above; not a regular file; O_APPEND with
 *		PERCPU_LWBUF_WRITABLE
 *	-EACCES	fd is not open for reading, or not for writing
 *	-EPERM	PERCPU_LWBUF_WRITABLE of a memfd that is sealed against writing
 *		(F_SEAL_WRITE, F_SEAL_FUTURE_WRITE)
 *	-EBADF	fd is not open
 *	-ENOTSUP  PERCPU_LWBUF_DIRECT or PERCPU_LWBUF_WINDOW of a file that may shrink;
 *		PERCPU_LWBUF_WINDOW of one of huge pages (hugetlbfs, MFD_HUGETLB), whose pages
 *		are mapped all at once, or come by bounce buffers
 *	-ENOMEM	no memory or address space, as within RLIMIT_AS
 *	-EMFILE, -E2BIG  no more descriptors (RLIMIT_NOFILE); more CPUs than PERCPU_MAX_CPUS
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_lwbuf_create(int fd, const struct percpu_lwbuf_options *o,
						     struct percpu_lwbufs **ret);

/** Unmap and free all. Returns 0, or -EBUSY while buffers are allocated, of sfbuf.h, too. NULL
 *  is fine. In a child of fork only those count that it has allocated itself; what it has
 *  inherited does not, and is gone afterwards. References to a shared buffer are alike: a
 *  child that takes one and gives one has none of its own. */
PERCPU_API PERCPU_MUST_CHECK int percpu_lwbuf_destroy(struct percpu_lwbufs *f);

/** For percpu_lwbuf_alloc(): the caller will store to the page. */
#define PERCPU_LWBUF_WRITE 0x1

/**
 * Allocate a buffer for a page: page i is the bytes from i times the window's size on.
 *
 * Without PERCPU_LWBUF_WRITE what is in the buffer may be a copy, of when it was allocated;
 * the caller must not store to it. What it stores nonetheless is lost or in the file, as the
 * backend will have it; with PERCPU_LWBUF_DEBUG it is SIGSEGV.
 *
 * With it, a bounce buffer is written back by the free, percpu_lwbuf_length() bytes of it: of
 * two that have the same page at a time, the one that is freed last has its way.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, or unknown flags
 *	-ERANGE	the file has no byte of the page, or it is beyond the first 2^40 - 1
 *	-EACCES	PERCPU_LWBUF_WRITE without PERCPU_LWBUF_WRITABLE
 *	-ENOMEM	no memory or address space, or, for a window, too many mappings
 *		(vm.max_map_count), even after windows that were free are unmapped. For
 *		PERCPU_LWBUF_AUTO and without PERCPU_LWBUF_WRITE, a bounce buffer is
 *		tried first
 *	-EPERM	the memfd was sealed against writing (F_SEAL_FUTURE_WRITE) after it was given to
 *		percpu_lwbuf_create() with PERCPU_LWBUF_WRITABLE, and a window must be mapped. For
 *		PERCPU_LWBUF_AUTO and without PERCPU_LWBUF_WRITE it is a bounce buffer instead.
 *		Windows that are mapped already, and what is direct, are found as before
 *	-EIO and other errors of pread(2) and mmap(2)
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_lwbuf_alloc(struct percpu_lwbufs *f, uint64_t page,
						    unsigned flags, struct percpu_lwbuf *ret);

/**
 * Free a buffer. Clears *b, so that a second free of it is -EINVAL.
 *
 * Returns 0, or
 *	-EINVAL	f or b is NULL; b is not allocated, or not of f. A copy of a buffer
 *		whose window or bounce buffer was freed is noticed, until that one was
 *		allocated 2^31 times; what is direct has no copy to compare with
 *	-ERANGE	the file no longer has the page, or less of it: nothing was written back
 *	-EPERM	the memfd was sealed against writing meanwhile: nothing was written back
 *	-ENOTSUP  a bounce buffer, and O_APPEND was set meanwhile on the open file, which all
 *		holders of the descriptor share: nothing was written back. If the flag is set
 *		between the look and the write, the page comes at the end of the file
 *	-ENOSPC, -EIO and other errors of pwrite(2), of which -EINVAL (as for descriptors with
 *		O_DIRECT) is -EIO here: not all was written back
 *	With all but -EINVAL the buffer is free.
 *	A page beyond RLIMIT_FSIZE is -EFBIG, and the kernel sends SIGXFSZ to the thread, which
 *	ends the program unless it ignores or handles that.
 *
 * With PERCPU_LWBUF_DEBUG, the library prints which page, whose buffer and what was wrong
 * to standard error, and aborts: for a second free, a foreign buffer, and percpu_lwbuf_kva()
 * of a copy after the free; of *b itself it is NULL then. An access to the bytes after the
 * free is SIGSEGV, and so is a store to a page that was allocated without PERCPU_LWBUF_WRITE.
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

/** Return how many bytes of the page the file had, at least 1. What is behind them must
 *  not be touched. Context: any, also signal handlers. */
PERCPU_INLINE size_t percpu_lwbuf_length(const struct percpu_lwbuf *b)
{
	return b->length;
}

/**
 * Change how many windows stay mapped beyond those in use; 0 is none. Unmaps what is too
 * many; if the number changes much, all that are free. Threads that free at the same time may
 * exceed it by one per CPU.
 *
 * Returns 0, or
 *	-EINVAL	f is NULL, or n is more than there is room for, which is the larger of
 *		4096 and four times percpu_lwbuf_options.max_excess, rounded up to a power of
 *		two. A file that is never mapped takes any
 *	-EPERM, -ETIMEDOUT, -EAGAIN, -ENOMEM  the limit has changed, but windows of other
 *		CPUs stay mapped, because there is no fence (percpu_fence()), without which
 *		nobody can get at them
 */
PERCPU_API int percpu_lwbuf_set_max_excess(struct percpu_lwbufs *f, size_t n);

/** Filled by percpu_lwbuf_stats(). The fields are not read at the same moment. */
struct percpu_lwbuf_stats {
	enum percpu_lwbuf_backend backend; /* direct if the whole file is mapped; window; or bounce
					      if the file may shrink */
	uint32_t reserved;
	uint64_t used;	 /* buffers allocated, without those of sfbuf.h */
	uint64_t excess; /* windows mapped, but not in use */
	uint64_t max_excess;
	uint64_t windows; /* allocations of windows so far */
	uint64_t mapped;  /* of these, those that made a mapping: misses */
	uint64_t bounced; /* allocations of bounce buffers so far */
	uint64_t address; /* bytes of address space that are reserved for buffers */
};

PERCPU_API void percpu_lwbuf_stats(const struct percpu_lwbufs *f, struct percpu_lwbuf_stats *ret);

PERCPU_END_DECLS

#endif
