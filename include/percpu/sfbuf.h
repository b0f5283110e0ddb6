/* SPDX-License-Identifier: MIT */
/*
 * sfbuf.h - buffers for pages of a file that threads share, with a count of references. After
 * FreeBSD's sf_buf(9).
 *
 * Threads that allocate the same page at a time get the same buffer. When the last reference is
 * freed the buffer keeps its page, and the next allocation of that page finds it there. Of the
 * unused buffers, the one that was freed longest ago is used for another page. The number of
 * buffers is fixed: percpu_lwbuf_options.max_shared. For a page that one thread uses for a
 * moment, lwbuf.h costs less: it shares nothing.
 *
 * What lwbuf.h says of backends, and of files that may shrink, is so here, too. A bounce
 * buffer is read again when its page is allocated and nobody has a reference.
 */
#ifndef PERCPU_SFBUF_H
#define PERCPU_SFBUF_H

#include <percpu/lwbuf.h>

PERCPU_BEGIN_DECLS

/** A shared buffer. The fields are the library's. */
struct percpu_sfbuf {
	void *kva;
	uint64_t page;
	size_t length;
};

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread, not a signal handler. No call is a cancellation point. A child of fork
 * has the buffers, and their references, for itself. Those that other threads of the parent
 * had stay there, so a call that waits for one of these buffers waits for ever.
 * Ordering: what a thread did before it freed the last reference happens before the
 * allocation that finds the buffer again.
 * Progress: a reference to a buffer that is in use is taken and given by one atomic
 * operation. Other calls take a lock of the process for a few instructions.
 */

/** For percpu_sfbuf_alloc(): the caller will store to the page. */
#define PERCPU_SFBUF_WRITE 0x1
/** Do not wait for a buffer. */
#define PERCPU_SFBUF_NOWAIT 0x2
/** A signal handler that runs ends the wait. */
#define PERCPU_SFBUF_CATCH 0x4

/**
 * Get a reference to the buffer that has the page. If all buffers are in use for other
 * pages, wait until one is freed. Threads that wait are not served in turn.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, or unknown flags
 *	-ENOSPC	all buffers are in use, with PERCPU_SFBUF_NOWAIT
 *	-EINTR	a signal handler ran, with PERCPU_SFBUF_CATCH
 *	-EDEADLK	it would wait in a handler of pthread_atfork() for which all other threads
 *		wait (docs/cpu/process.md)
 *	-ERANGE, -EACCES, -ENOMEM, -EIO and others as percpu_lwbuf_alloc(), but after the wait
 *		for a buffer. -EPERM also with PERCPU_LWBUF_AUTO and without PERCPU_SFBUF_WRITE
 *
 * Progress: also waits for a thread that maps or reads the same page.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_sfbuf_alloc(struct percpu_lwbufs *f, uint64_t page,
						    unsigned flags, struct percpu_sfbuf **ret);

/** Take another reference; the caller has one. Returns 0, or -EINVAL: a NULL, or nobody has a
 *  reference, or the buffer is not of f. */
PERCPU_API int percpu_sfbuf_ref(struct percpu_lwbufs *f, struct percpu_sfbuf *b);

/**
 * Give a reference, in any thread. The last one writes a bounce buffer back, if any of the
 * allocations had PERCPU_SFBUF_WRITE, and returns the error if that fails, also in a thread that
 * has not stored. One that is not the last returns 0, and nothing is written yet.
 *
 * Returns 0, or -EINVAL as percpu_sfbuf_ref(), or the errors of percpu_lwbuf_free(). With
 * PERCPU_LWBUF_DEBUG it prints what was wrong, and aborts, in place of -EINVAL.
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

/** Return how many bytes of the page the file had at the allocation that gave the first reference.
 *  Growth of the file is seen once all references were given. Context: any, also
 *  signal handlers. */
PERCPU_INLINE size_t percpu_sfbuf_length(const struct percpu_sfbuf *b)
{
	return b->length;
}

/** Filled by percpu_sfbuf_stats(). The fields are not read at the same moment. */
struct percpu_sfbuf_stats {
	uint64_t most; /* percpu_lwbuf_options.max_shared */
	uint64_t used; /* with a reference */
	uint64_t hits; /* allocations that found their page, and took the lock */
	uint64_t fills;
	uint64_t waits;
};

PERCPU_API void percpu_sfbuf_stats(const struct percpu_lwbufs *f, struct percpu_sfbuf_stats *ret);

PERCPU_END_DECLS

#endif
