/* SPDX-License-Identifier: MIT */
/*
 * xio.h - copy ranges of bytes in and out of pages of a file. After DragonFly's xio.
 *
 * An xio is a list of pages whose bytes are read and written as one run: pages in any order, or a
 * range of a file. For each page a copy takes a buffer of lwbuf.h for a moment, and so uses the
 * windows that are mapped. A file that is never mapped is read and written by pread(2) and
 * pwrite(2), without a bounce buffer.
 *
 * An xio holds no page and no window. It needs no release: the program may forget it.
 */
#ifndef PERCPU_XIO_H
#define PERCPU_XIO_H

#include <percpu/lwbuf.h>

PERCPU_BEGIN_DECLS

/** A list of pages. The caller provides the memory; only the library uses the fields. */
struct percpu_xio {
	struct percpu_lwbufs *of;
	const uint64_t *pages; /* or NULL: pages from `first` on */
	uint64_t first;
	size_t offset; /* of the first byte in the first page */
	size_t bytes;
};

/*
 * All calls of this header have this in common.
 *
 * Context: any thread, not a signal handler; not a cancellation point. Several threads may use an
 * xio at a time. A child of fork may use those of its parent.
 * Ordering: none. Threads that copy the same bytes at a time may see and leave parts of each.
 * Progress: as percpu_lwbuf_alloc() and percpu_lwbuf_free(), page by page.
 */

/**
 * Make a list of the pages of a range of the file: `bytes` bytes from byte `at` on. The file may
 * have them later.
 *
 * Returns 0, or
 *	-EINVAL	a NULL
 *	-ERANGE	the range ends beyond the first 2^40 - 1 pages
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_xio_init(struct percpu_xio *x, struct percpu_lwbufs *f,
						 uint64_t at, size_t bytes);

/**
 * Make a list of pages in any order; a page may come several times. The run has `bytes` bytes. It
 * begins at byte `offset` of the first page, and goes on with the whole pages that follow.
 *
 * Parameters
 *	pages	n numbers of pages, which must stay as they are as long as x is used
 *
 * Returns 0, or
 *	-EINVAL	a NULL, also in place of an empty list; offset is not in the first page; or the
 *		list has fewer pages than the bytes need
 *	-ERANGE	a page of the list is beyond the first 2^40 - 1 pages
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_xio_init_pages(struct percpu_xio *x,
						       struct percpu_lwbufs *f,
						       const uint64_t *pages, size_t n,
						       size_t offset, size_t bytes);

/**
 * Copy bytes out of the pages, from byte `at` of the run on, into memory of the caller's.
 *
 * Returns 0, or
 *	-EINVAL	x or to is NULL, or *x is all 0
 *	-ERANGE	the run, or the file, does not have all of these bytes: none was copied. If the
 *		file shrinks during the call, some may have been
 *	-ENOMEM, -EIO and others as percpu_lwbuf_alloc(): some bytes may have been copied
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_xio_copy_out(const struct percpu_xio *x, size_t at,
						     void *to, size_t bytes);

/**
 * Copy bytes of the caller's into the pages, from byte `at` of the run on. If a page comes several
 * times, the last copy stays. The file does not become longer.
 *
 * Returns 0, or
 *	-EINVAL	x or from is NULL, or *x is all 0
 *	-ERANGE	the run, or the file, does not have all of these bytes: none was copied. If the
 *		file shrinks during the call, some may have been
 *	-EACCES	the buffers were created without PERCPU_LWBUF_WRITABLE
 *	-ENOTSUP  O_APPEND was set meanwhile on the open file of a file that is never mapped
 *	-ENOMEM, -ENOSPC, -EIO and others as percpu_lwbuf_alloc() and percpu_lwbuf_free(): some bytes
 *		may have been copied
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_xio_copy_in(const struct percpu_xio *x, size_t at,
						    const void *from, size_t bytes);

PERCPU_END_DECLS

#endif
