/* SPDX-License-Identifier: MIT */
/*
 * sfbuf.h - reference-counted buffers that threads share for pages of a file. After sf_buf of
 * FreeBSD and DragonFly.
 *
 * Threads that allocate the same page at a time get the same buffer. Any number of buffers may be
 * in use: an allocation waits for no other thread to free one. After the free of the last reference
 * the page stays mapped, and the next allocation of that page finds it there. The limit is on these
 * free but mapped buffers, the excess: percpu_sfbuf_set_max_excess(). For a page that one thread
 * uses for a moment, lwbuf.h costs less: it shares nothing.
 *
 * lwbuf.h explains the backends, and files that may shrink. Only mapped windows are kept; a bounce
 * buffer goes back to the pool of bounce buffers.
 */
#ifndef PERCPU_SFBUF_H
#define PERCPU_SFBUF_H

#include <percpu/lwbuf.h>

PERCPU_BEGIN_DECLS

/** A shared buffer. Only the library uses the fields. */
struct percpu_sfbuf {
	void *kva;
	uint64_t page;
	size_t length;
};

/*
 * All calls of this header have this in common, unless the comment on a call says otherwise.
 *
 * Context: any thread, not a signal handler. No call is a cancellation point. A child of fork
 * has its own copy of the buffers and references. It also inherits the references of the parent's
 * other threads, but no thread of the child frees them, so their buffers stay in use there.
 * Ordering: what a thread did before it freed the last reference happens before the next
 * allocation that finds the buffer.
 * Progress: taking or freeing a reference to a buffer in use is one atomic operation, unless it
 * is the last reference. Other calls take a lock of the process for a few instructions, and an
 * allocation that needs more buffers than ever before also while it doubles their table.
 */

/** For percpu_sfbuf_alloc(): the caller will store to the page. */
#define PERCPU_SFBUF_WRITE 0x1
/**
 * Get a reference to the page's buffer.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, or unknown flags
 *	-ENOMEM	no memory or address space, too many mappings (vm.max_map_count), or 2^20 - 1
 *		windows of the file in use, even after the library has unmapped free buffers
 *		and free windows
 *	-EDEADLK	the call would wait in a handler of pthread_atfork() for which all other
 *		threads wait (docs/cpu/process.md)
 *	-ERANGE, -EACCES, -EPERM, -EBADF, -EIO and others as percpu_lwbuf_alloc(). -EPERM also with
 *		PERCPU_LWBUF_AUTO and without PERCPU_SFBUF_WRITE
 *
 * Progress: the call waits for another thread that is mapping or reading the same page.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_sfbuf_alloc(struct percpu_lwbufs *f, uint64_t page,
						    unsigned flags, struct percpu_sfbuf **ret);

/** Take another reference to a buffer of which the caller has one. Returns 0, or -EINVAL: a NULL,
 *  a buffer without references, or a buffer that is not of f. */
PERCPU_API int percpu_sfbuf_ref(struct percpu_lwbufs *f, struct percpu_sfbuf *b);

/**
 * Free a reference; any thread may. If an allocation of the buffer had PERCPU_SFBUF_WRITE, the
 * free of the last reference writes a bounce buffer back, and returns the error if that fails,
 * even to a thread that has not stored. A free of another reference writes nothing and returns 0.
 *
 * Returns 0, or -EINVAL as percpu_sfbuf_ref(), or the errors of percpu_lwbuf_free(). With
 * PERCPU_LWBUF_DEBUG the call prints the error and aborts in place of -EINVAL, unless it is for a
 * NULL.
 */
PERCPU_API int percpu_sfbuf_free(struct percpu_lwbufs *f, struct percpu_sfbuf *b);

/** Return the address of the page's first byte. Context: any, also signal handlers. */
PERCPU_INLINE void *percpu_sfbuf_kva(const struct percpu_sfbuf *b)
{
	return b->kva;
}

/** Return the number of the page. Context: any, also signal handlers. */
PERCPU_INLINE uint64_t percpu_sfbuf_page(const struct percpu_sfbuf *b)
{
	return b->page;
}

/** Return how many bytes of the page the file had at the allocation of the first reference. After
 *  the file has grown, the length stays until all references are freed. Context: any, also signal
 *  handlers. */
PERCPU_INLINE size_t percpu_sfbuf_length(const struct percpu_sfbuf *b)
{
	return b->length;
}

/**
 * Change how many buffers stay mapped without a reference; 0 means none. The number at the start is
 * percpu_lwbuf_options.max_excess, with its default. Unmaps the buffers beyond n, those that were
 * freed first. Buffers in use are not affected: n may be less than their number. Each of them is
 * unmapped or kept when its last reference is freed. With PERCPU_LWBUF_DEBUG no buffer is kept.
 *
 * Returns 0, or -EINVAL if f is NULL.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_sfbuf_set_max_excess(struct percpu_lwbufs *f, size_t n);

/** Filled by percpu_sfbuf_stats(). The fields are not of the same instant. */
struct percpu_sfbuf_stats {
	uint64_t used;	 /* buffers with a reference */
	uint64_t excess; /* buffers without a reference whose page is mapped */
	uint64_t max_excess;
	uint64_t hits;	/* allocations that found their page, and took the lock */
	uint64_t fills; /* allocations that mapped or read their page, or failed to */
};

PERCPU_API void percpu_sfbuf_stats(const struct percpu_lwbufs *f, struct percpu_sfbuf_stats *ret);

PERCPU_END_DECLS

#endif
