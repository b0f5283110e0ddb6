/* SPDX-License-Identifier: MIT */
/*
 * sf_buf.h - FreeBSD's names for shared buffers (sf_buf(9), sys/sf_buf.h). vm_page.h defines a
 * page.
 *
 * Two buffers of a page have the same address, but each has a struct sf_buf of its own.
 *
 * What the calls have in common.
 * Context: any thread, not a signal handler; sf_buf_kva() and sf_buf_page() also in one.
 * Ordering, Progress: as percpu_sfbuf_alloc() and percpu_sfbuf_free().
 */
#ifndef PERCPU_FREEBSD_SF_BUF_H
#define PERCPU_FREEBSD_SF_BUF_H

#ifdef _SYS_SF_BUF_H_
#error "this stands in for sys/sf_buf.h, which was included before it"
#endif
#ifdef PERCPU_DRAGONFLY_SFBUF_H
#error "percpu/dragonfly/sfbuf.h has other functions of the same names"
#endif
#define _SYS_SF_BUF_H_ /* makes the original empty if it is included later */

#include <percpu/freebsd/vm_page.h>
#include <percpu/sfbuf.h>

PERCPU_BEGIN_DECLS

/* Flags of sf_buf_alloc(). None has an effect: the call waits for no buffer. */
#define SFB_DEFAULT 0
#define SFB_CATCH 1
#define SFB_CPUPRIVATE 2
#define SFB_NOWAIT 4

struct sf_buf {
	struct percpu_sfbuf *buf;
	vm_page_t m;
	unsigned refs; /* atomic */
};

/** Allocate a buffer for the page. Returns NULL if there is no memory, or if
 *  percpu_sfbuf_alloc() returns an error. */
static inline struct sf_buf *sf_buf_alloc(vm_page_t m, int flags)
{
	struct sf_buf *sf = (struct sf_buf *)__builtin_malloc(sizeof(*sf));

	(void)flags;
	if (sf == PERCPU_NULL(struct sf_buf *))
		return sf;
	sf->m = m;
	sf->refs = 1;
	if (percpu_sfbuf_alloc(m->object, m->pindex, m->flags, &sf->buf) == 0)
		return sf;
	__builtin_free(sf);
	return PERCPU_NULL(struct sf_buf *);
}

/** Take another reference. */
static inline void sf_buf_ref(struct sf_buf *sf)
{
	__atomic_fetch_add(&sf->refs, 1, __ATOMIC_RELAXED);
}

/** Give back a reference, in any thread. Data that percpu_sfbuf_free() cannot write back is
 *  lost. NULL is fine. */
static inline void sf_buf_free(struct sf_buf *sf)
{
	if (sf == PERCPU_NULL(struct sf_buf *) ||
	    __atomic_sub_fetch(&sf->refs, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	(void)percpu_sfbuf_free(sf->m->object, sf->buf);
	__builtin_free(sf);
}

/** Return the address of the page's first byte. */
static inline vm_offset_t sf_buf_kva(struct sf_buf *sf)
{
	return PERCPU_POINTER(vm_offset_t, percpu_sfbuf_kva(sf->buf));
}

static inline vm_page_t sf_buf_page(struct sf_buf *sf)
{
	return sf->m;
}

PERCPU_END_DECLS

#endif
