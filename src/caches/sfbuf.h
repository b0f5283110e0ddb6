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
	struct percpu_sfbuf_item *newer, *older; /* on the list of buffers without references */
};

struct percpu_sfbufs {
	size_t most;
	size_t buckets;
	struct percpu_sfbuf_item **bucket;
	struct percpu_sfbuf_item *all;
	uint32_t bounces; /* atomic: how many buffers are bounce buffers */
	uint32_t freed;	  /* futex: changes when a buffer is freed and there are waiters */
	/* atomic: the counts of percpu_sfbuf_stats() */
	uint64_t hits PERCPU_ALIGNED_WORD;
	uint64_t fills PERCPU_ALIGNED_WORD;
	uint64_t waits PERCPU_ALIGNED_WORD;
	/* under the lock */
	pthread_mutex_t lock;
	size_t made;
	struct percpu_sfbuf_item *oldest, *newest;
	uint32_t waiters;
};

/* sfbuf_hash.c: all but the first three are called under the lock */

static inline uint32_t percpu_sfbuf_refs(const struct percpu_sfbuf_item *b)
{
	return (uint32_t)__atomic_load_n(&b->refs, __ATOMIC_RELAXED);
}

/** Return how many buffers have references. */
size_t percpu_sfbufs_used(const struct percpu_sfbufs *s);

struct percpu_sfbuf_item **percpu_sfbufs_bucket(const struct percpu_sfbufs *s, uint64_t page);

/** Return the buffer that has the page, or NULL. */
struct percpu_sfbuf_item *percpu_sfbufs_find(struct percpu_sfbufs *s, uint64_t page);

/** Put a buffer into the page's bucket. */
void percpu_sfbufs_enter(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b, uint64_t page);

/** Take a buffer out of its bucket. */
void percpu_sfbufs_leave(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b);

/** Put a buffer at the end of the list of buffers without references. */
void percpu_sfbufs_add(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b);

/** Take a buffer out of that list. */
void percpu_sfbufs_remove(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b);

#endif
