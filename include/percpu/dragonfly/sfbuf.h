/* SPDX-License-Identifier: MIT */
/*
 * sfbuf.h - DragonFly's names for shared buffers (sys/sfbuf.h).
 *
 * Unlike in DragonFly, an allocation can fail. Two buffers of a page have the same address, but
 * each has a struct sf_buf of its own. In place of the sysctl kern.ipc.nsfbufs, which limits all
 * buffers, percpu_sfbuf_set_max_excess() limits the free ones that stay mapped.
 *
 * What the calls have in common.
 * Context: any thread, not a signal handler; sf_buf_kva() and sf_buf_page() also in one.
 * Ordering, Progress: as percpu_sfbuf_alloc() and percpu_sfbuf_free().
 */
#ifndef PERCPU_DRAGONFLY_SFBUF_H
#define PERCPU_DRAGONFLY_SFBUF_H

#ifdef PERCPU_FREEBSD_SF_BUF_H
#error "percpu/freebsd/sf_buf.h has other functions of the same names"
#endif

#include <percpu/freebsd/vm_page.h>
#include <percpu/sfbuf.h>

PERCPU_BEGIN_DECLS

struct sf_buf {
	struct percpu_sfbuf *buf;
	vm_page_t m;
	int ref; /* atomic */
};

/** Allocate a buffer for the page, with one reference. Returns NULL if there is no memory, or if
 *  percpu_sfbuf_alloc() returns an error. */
static inline struct sf_buf *sf_buf_alloc(struct vm_page *m)
{
	struct sf_buf *sf = (struct sf_buf *)__builtin_malloc(sizeof(*sf));

	if (sf == PERCPU_NULL(struct sf_buf *))
		return sf;
	sf->m = m;
	sf->ref = 1;
	if (percpu_sfbuf_alloc(m->object, m->pindex, m->flags, &sf->buf) == 0)
		return sf;
	__builtin_free(sf);
	return PERCPU_NULL(struct sf_buf *);
}

/** Take another reference. */
static inline void sf_buf_ref(struct sf_buf *sf)
{
	__atomic_fetch_add(&sf->ref, 1, __ATOMIC_RELAXED);
}

/** Free a reference, in any thread. Returns 1 if it was the last one: then *sf is gone, and data
 *  that percpu_sfbuf_free() could not write back is lost. Otherwise returns 0, as for NULL. */
static inline int sf_buf_free(struct sf_buf *sf)
{
	if (sf == PERCPU_NULL(struct sf_buf *) ||
	    __atomic_sub_fetch(&sf->ref, 1, __ATOMIC_ACQ_REL) != 0)
		return 0;
	(void)percpu_sfbuf_free(sf->m->object, sf->buf);
	__builtin_free(sf);
	return 1;
}

/** Return the address of the page's first byte. */
static inline vm_offset_t sf_buf_kva(struct sf_buf *sf)
{
	return PERCPU_POINTER(vm_offset_t, percpu_sfbuf_kva(sf->buf));
}

static inline struct vm_page *sf_buf_page(struct sf_buf *sf)
{
	return sf->m;
}

PERCPU_END_DECLS

#endif
