/* SPDX-License-Identifier: MIT */
/*
 * sfbuf.h - declarations that sfbuf.c and sfbuf_hash.c share.
 */
#ifndef PERCPU_CACHES_SFBUF_H
#define PERCPU_CACHES_SFBUF_H

#include <percpu/sfbuf.h>

#include "lwbuf.h"

#define PERCPU_SFBUF_NO_PAGE UINT64_MAX

#define PERCPU_SFBUF_GIVEN (UINT64_C(1) << 32)

#define PERCPU_SFBUF_FIRST ((size_t)64) /* items of the first block; the next ones double */
#define PERCPU_SFBUF_BLOCKS 24

enum { PERCPU_SFBUF_FILLING, PERCPU_SFBUF_READY, PERCPU_SFBUF_FAILED };

struct percpu_sfbuf_item {
	struct percpu_sfbuf sf; /* first: callers have its address */
	struct percpu_window *window;
	/* atomic; the lower half counts references. The upper half, in units of
	 * PERCPU_SFBUF_GIVEN, counts references that were freed, or were the first to a page. */
	uint64_t refs PERCPU_ALIGNED_WORD;
	uint32_t state;	      /* atomic; a futex */
	int error;	      /* why state is PERCPU_SFBUF_FAILED */
	uint32_t inherited;   /* atomic: references from before the last fork */
	uint64_t page_before; /* its last page, for messages, if it has none */
	bool dirty;	      /* atomic */
	/* under the lock */
	struct percpu_sfbuf_item *in_bucket;
	struct percpu_sfbuf_item *newer, *older; /* on a list */
};

struct percpu_sfbuf_list {
	struct percpu_sfbuf_item *oldest, *newest;
	size_t items; /* also read without the lock */
};

/* A table that was replaced stays until the end: a search without the lock may still read it. */
struct percpu_sfbuf_hash {
	struct percpu_sfbuf_hash *before;
	size_t buckets;
	struct percpu_sfbuf_item *bucket[];
};

struct percpu_sfbufs {
	/* changed under the lock, also read without it */
	struct percpu_sfbuf_hash *hash;
	struct percpu_sfbuf_item *block[PERCPU_SFBUF_BLOCKS];
	size_t made; /* items that were ever allocated */
	size_t max_excess;
	/* atomic */
	uint32_t bounces; /* how many buffers are bounce buffers */
	uint64_t hits PERCPU_ALIGNED_WORD;
	uint64_t fills PERCPU_ALIGNED_WORD;
	/* under the lock */
	pthread_mutex_t lock;
	size_t blocks;
	struct percpu_sfbuf_list kept;	/* mapped, but without references */
	struct percpu_sfbuf_list empty; /* without references, page and window */
};

/* sfbuf_hash.c: all but the first four are called under the lock */

static inline uint32_t percpu_sfbuf_refs(const struct percpu_sfbuf_item *b)
{
	return (uint32_t)__atomic_load_n(&b->refs, __ATOMIC_RELAXED);
}

/** Return how many buffers have references. */
size_t percpu_sfbufs_used(const struct percpu_sfbufs *s);

/** Return the buffer that callers know as sf, or NULL if sf is none of these buffers. */
struct percpu_sfbuf_item *percpu_sfbufs_own(const struct percpu_sfbufs *s, struct percpu_sfbuf *sf);

struct percpu_sfbuf_item **percpu_sfbufs_bucket(const struct percpu_sfbufs *s, uint64_t page);

/** Return the buffer that has the page, or NULL. */
struct percpu_sfbuf_item *percpu_sfbufs_find(struct percpu_sfbufs *s, uint64_t page);

/** Put a buffer into the page's bucket. */
void percpu_sfbufs_enter(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b, uint64_t page);

/** Take a buffer out of its bucket. */
void percpu_sfbufs_leave(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b);

/** Put a buffer at the end of a list. */
void percpu_sfbufs_add(struct percpu_sfbuf_list *l, struct percpu_sfbuf_item *b);

/** Take a buffer out of a list. */
void percpu_sfbufs_remove(struct percpu_sfbuf_list *l, struct percpu_sfbuf_item *b);

/** Take a buffer without page and window. At least `quarantine` of those that were in use stay on
 *  the list, so that late uses of them are seen. Returns NULL if there is no memory. */
struct percpu_sfbuf_item *percpu_sfbufs_take(struct percpu_sfbufs *s, size_t quarantine);

/** Take a buffer without references out of its bucket, and put it on the list of empty ones.
 *  Returns its window, which the caller closes, or NULL. */
struct percpu_window *percpu_sfbufs_detach(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b);

#endif
