/* SPDX-License-Identifier: MIT */
/*
 * lwbuf.h - DragonFly's names for windows (lwbuf(9), cpu/lwbuf.h).
 *
 * Unlike in DragonFly, an allocation can fail. In place of the kernel's direct map, the whole
 * file is mapped if that is possible: percpu_lwbuf_create() says when.
 *
 * What the calls have in common.
 * Context: any thread, not a signal handler; lwbuf_kva() and lwbuf_page() also in one.
 * Ordering, Progress: as percpu_lwbuf_alloc() and percpu_lwbuf_free().
 */
#ifndef PERCPU_DRAGONFLY_LWBUF_H
#define PERCPU_DRAGONFLY_LWBUF_H

#include <percpu/freebsd/vm_page.h>

PERCPU_BEGIN_DECLS

struct lwbuf {
	struct percpu_lwbuf buf;
	vm_page_t m;
};

/** Allocate a buffer for the page, in *lwb_cache, which stays the caller's. Returns it, or NULL
 *  if percpu_lwbuf_alloc() returns an error. */
static inline struct lwbuf *lwbuf_alloc(vm_page_t m, struct lwbuf *lwb_cache)
{
	if (percpu_lwbuf_alloc(m->object, m->pindex, m->flags, &lwb_cache->buf) != 0)
		return PERCPU_NULL(struct lwbuf *);
	lwb_cache->m = m;
	return lwb_cache;
}

/** Free a buffer. Data that percpu_lwbuf_free() cannot write back is lost. NULL is fine. */
static inline void lwbuf_free(struct lwbuf *lwb)
{
	if (lwb != PERCPU_NULL(struct lwbuf *))
		(void)percpu_lwbuf_free(lwb->m->object, &lwb->buf);
}

/** Return the address of the page's first byte. */
static inline vm_offset_t lwbuf_kva(struct lwbuf *lwb)
{
	return PERCPU_POINTER(vm_offset_t, percpu_lwbuf_kva(&lwb->buf));
}

static inline vm_page_t lwbuf_page(struct lwbuf *lwb)
{
	return lwb->m;
}

/** Do nothing: an address is valid on all CPUs. */
static inline void lwbuf_set_global(struct lwbuf *lwb)
{
	(void)lwb;
}

PERCPU_END_DECLS

#endif
