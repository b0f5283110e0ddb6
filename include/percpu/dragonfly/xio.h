/* SPDX-License-Identifier: MIT */
/*
 * xio.h - DragonFly's names for lists of pages (sys/xio.h).
 *
 * Unlike in DragonFly, an xio holds no page: the struct vm_page of each must stay, and the file may
 * lose it. A copy can fail. The pages are of files whose windows have the system's page size. There
 * is no xio of a user's or of the kernel's memory: a program has its memory mapped.
 *
 * What the calls have in common.
 * Context: any thread, not a signal handler. Several threads may copy at a time.
 * Ordering, Progress: as percpu_xio_copy_out() and percpu_xio_copy_in().
 */
#ifndef PERCPU_DRAGONFLY_XIO_H
#define PERCPU_DRAGONFLY_XIO_H

#include <errno.h>
#include <unistd.h>

#include <percpu/freebsd/vm_page.h>
#include <percpu/xio.h>

PERCPU_BEGIN_DECLS

#define XIO_INTERNAL_PAGES 32

#define XIOF_READ 0x0001
#define XIOF_WRITE 0x0002

/** A list of pages. The caller provides the memory. */
struct xio {
	struct vm_page **xio_pages;
	int xio_npages;
	int xio_offset; /* of the first byte, from that of the first page */
	int xio_bytes;
	int xio_flags;
	int xio_error; /* an error number, or 0 */
	struct vm_page *xio_internal_pages[XIO_INTERNAL_PAGES];
};

typedef struct xio *xio_t;

/** Make an empty list. */
static inline void xio_init(xio_t xio)
{
	xio->xio_pages = xio->xio_internal_pages;
	xio->xio_npages = xio->xio_offset = xio->xio_bytes = 0;
	xio->xio_flags = xio->xio_error = 0;
}

/** Forget the pages. A copy returns EFAULT afterwards. A second release does the same. */
static inline void xio_release(xio_t xio)
{
	xio->xio_npages = xio->xio_offset = xio->xio_bytes = 0;
	xio->xio_error = ENOBUFS;
}

/** Make a list of whole pages. A program that wants a part of them changes xio_offset and
 *  xio_bytes. Returns 0, or EINVAL: a number of pages that is negative, or above
 *  XIO_INTERNAL_PAGES; or EFAULT: a page is NULL. After an error the list is empty. */
static inline int xio_init_pages(xio_t xio, struct vm_page **mbase, int npages, int xflags)
{
	xio_init(xio);
	xio->xio_flags = xflags;
	if (npages < 0 || npages > XIO_INTERNAL_PAGES)
		xio->xio_error = EINVAL;
	for (int i = 0; xio->xio_error == 0 && i < npages; i++) {
		xio->xio_pages[i] = mbase[i];
		if (mbase[i] == PERCPU_NULL(struct vm_page *))
			xio->xio_error = EFAULT;
	}
	if (xio->xio_error == 0) {
		xio->xio_npages = npages;
		xio->xio_bytes = npages * (int)sysconf(_SC_PAGESIZE);
	}
	return xio->xio_error;
}

/** Copy bytes out of pages into `to`, or into them from `from`. The other one is NULL. */
static inline int percpu_dragonfly_xio_copy(xio_t xio, int uoffset, char *to, const char *from,
					    int bytes)
{
	int size = (int)sysconf(_SC_PAGESIZE), at, n, e = 0;
	struct percpu_xio x;
	struct vm_page *m;

	if (uoffset < 0 || bytes < 0 || uoffset > xio->xio_bytes ||
	    bytes > xio->xio_bytes - uoffset)
		return EFAULT;
	for (at = xio->xio_offset + uoffset; e == 0 && bytes > 0; at += n, bytes -= n) {
		n = size - at % size < bytes ? size - at % size : bytes;
		if (at / size >= xio->xio_npages)
			return EFAULT;
		m = xio->xio_pages[at / size];
		e = percpu_xio_init_pages(&x, m->object, &m->pindex, 1, (size_t)(at % size),
					  (size_t)n);
		if (e == 0)
			e = to != PERCPU_NULL(char *) ? percpu_xio_copy_out(&x, 0, to, (size_t)n) :
							percpu_xio_copy_in(&x, 0, from, (size_t)n);
		to = to != PERCPU_NULL(char *) ? to + n : to;
		from = from != PERCPU_NULL(const char *) ? from + n : from;
	}
	return -e;
}

/** Copy bytes out of the list, from byte uoffset of it on. Returns 0, EFAULT if the list does not
 *  have them, or an error of percpu_xio_copy_out(), positive: then some may have been copied. */
static inline int xio_copy_xtok(xio_t xio, int uoffset, void *kptr, int bytes)
{
	return percpu_dragonfly_xio_copy(xio, uoffset, PERCPU_POINTER(char *, kptr),
					 PERCPU_NULL(const char *), bytes);
}

/** Copy bytes into the list, from byte uoffset of it on. Returns 0, EFAULT if the list does not
 *  have them, or an error of percpu_xio_copy_in(), positive: then some may have been copied. */
static inline int xio_copy_ktox(xio_t xio, int uoffset, const void *kptr, int bytes)
{
	return percpu_dragonfly_xio_copy(xio, uoffset, PERCPU_NULL(char *),
					 PERCPU_POINTER(const char *, kptr), bytes);
}

/** Return how many bytes of the list there are from byte uoffset on. */
static inline int xio_remaining(xio_t xio, int uoffset)
{
	return xio->xio_bytes - uoffset;
}

PERCPU_END_DECLS

#endif
