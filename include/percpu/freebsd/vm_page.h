/* SPDX-License-Identifier: MIT */
/*
 * vm_page.h - a page of a file in place of the kernels' struct vm_page, for sf_buf.h, and for
 * lwbuf.h and sfbuf.h of percpu/dragonfly.
 */
#ifndef PERCPU_FREEBSD_VM_PAGE_H
#define PERCPU_FREEBSD_VM_PAGE_H

#include <percpu/lwbuf.h>

PERCPU_BEGIN_DECLS

/** A page. The program makes one of these for each page that it uses. It must stay while the
 *  page is in use. */
struct vm_page {
	struct percpu_lwbufs *object;
	uint64_t pindex;
	unsigned flags; /* PERCPU_LWBUF_WRITE if the program stores to the page, or 0 */
};

typedef struct vm_page *vm_page_t;
typedef uintptr_t vm_offset_t;

PERCPU_END_DECLS

#endif
