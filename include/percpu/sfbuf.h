/* SPDX-License-Identifier: MIT */
/*
 * sfbuf.h - reference-counted buffers that threads share for pages of a file. After FreeBSD's
 * sf_buf(9).
 *
 * Threads that allocate the same page at a time get the same buffer. After the free of the last
 * reference the buffer keeps its page, and the next allocation of that page finds it there. If
 * another page needs a buffer, the library reuses the unused one that was freed longest ago. The
 * number of buffers is fixed: percpu_lwbuf_options.max_shared. For a page that one thread uses
 * for a moment, lwbuf.h costs less: it shares nothing.
 *
 * lwbuf.h explains the backends, and files that may shrink. A bounce buffer is read again when
 * its page is allocated while the buffer has no reference.
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
 * other threads, but no thread of the child frees them, so a call that waits for one of these
 * buffers waits forever.
 * Ordering: what a thread did before it freed the last reference happens before the next
 * allocation that finds the buffer.
 * Progress: taking or freeing a reference to a buffer in use is one atomic operation, unless it
 * is the last reference. Other calls take a lock of the process for a few instructions.
 */

/** For percpu_sfbuf_alloc(): the caller will store to the page. */
#define PERCPU_SFBUF_WRITE 0x1
/** Do not wait for a buffer. */
#define PERCPU_SFBUF_NOWAIT 0x2
/** A signal handler that runs ends the wait for a buffer. */
#define PERCPU_SFBUF_CATCH 0x4

/**
 * Get a reference to the page's buffer. If all buffers are in use for other pages, wait until one
 * is freed. Waiting threads are not served in the order in which they came.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, or unknown flags
 *	-ENOSPC	all buffers are in use, with PERCPU_SFBUF_NOWAIT
 *	-EINTR	a signal handler ran, with PERCPU_SFBUF_CATCH
 *	-EDEADLK	the call would wait in a handler of pthread_atfork() for which all other
 *		threads wait (docs/cpu/process.md)
 *	-ERANGE, -EACCES, -ENOMEM, -EIO and others as percpu_lwbuf_alloc(), but after the wait
 *		for a buffer. -EPERM also with PERCPU_LWBUF_AUTO and without PERCPU_SFBUF_WRITE
 *
 * Progress: the call also waits for another thread that is mapping or reading the same page.
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

/** Filled by percpu_sfbuf_stats(). The fields are not of the same instant. */
struct percpu_sfbuf_stats {
	uint64_t most; /* percpu_lwbuf_options.max_shared */
	uint64_t used; /* buffers with a reference */
	uint64_t hits; /* allocations that found their page, and took the lock */
	uint64_t fills;
	uint64_t waits;
};

PERCPU_API void percpu_sfbuf_stats(const struct percpu_lwbufs *f, struct percpu_sfbuf_stats *ret);

PERCPU_END_DECLS

#endif
