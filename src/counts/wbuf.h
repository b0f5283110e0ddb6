/* SPDX-License-Identifier: MIT */
/*
 * wbuf.h - declarations that the wbuf*.c files share.
 *
 * Until it is applied, a transaction is in one of three places: in the queue of a CPU; on the
 * list, newest first; or on "taken", the list that a flush has taken off. The lock protects all
 * cells, how far each queue was applied, and "taken".
 */
#ifndef PERCPU_COUNTS_WBUF_H
#define PERCPU_COUNTS_WBUF_H

#include <percpu/local.h>

#include "counts.h"

/* 1/PERCPU_WBUF_RESERVE of a buffer is kept free for adds while another thread holds the lock. The
 * rest fills up between flushes. It is the larger part because each flush has a fixed cost. */
#define PERCPU_WBUF_RESERVE 4

/** A transaction on the list. */
struct wbuf_node {
	struct wbuf_node *next;
	size_t n;
	struct percpu_wbuf_entry adds[];
};

struct wbuf {
	struct percpu_wbuf pub;
	struct percpu_local *queues;
	size_t entries;
	size_t limit; /* adds that a part of a flush applies of a queue, and of the list */
	struct percpu_wbuf_options own; /* own.lock: NULL for the internal lock */
	struct wbuf *next;		/* in the list of the process; under wbuf_lock */

	char apart[128]; /* each add reads the fields above; keeps stores off their cache lines */

	pthread_mutex_t mutex;
	struct wbuf_node *taken; /* under the lock */
	struct wbuf_node *list;
	unsigned turn; /* the CPU whose queue the next flush by hints applies; under the lock */
	uint64_t hints PERCPU_ALIGNED_WORD;   /* of threads that cannot run sequences */
	uint64_t flushes PERCPU_ALIGNED_WORD; /* stored to under the lock */
	uint64_t listed PERCPU_ALIGNED_WORD;  /* adds on the list and on "taken" */
	uint64_t overflows PERCPU_ALIGNED_WORD;
};

static inline struct wbuf *wbuf_of(const struct percpu_wbuf *w)
{
	return (struct wbuf *)w;
}

/* wbuf.c */

/** Take, try, or release the lock of the cells. */
void percpu_wbuf_cells_lock(struct wbuf *b);
bool percpu_wbuf_cells_trylock(struct wbuf *b);
void percpu_wbuf_cells_unlock(struct wbuf *b);

/** Return the queue of a CPU, or NULL if there is no such CPU. */
struct percpu_fifo *percpu_wbuf_queue(const struct wbuf *b, unsigned cpu);

/** Return the queue of the CPU that the thread runs on, or ran on; NULL if the thread cannot run
 *  sequences. */
struct percpu_fifo *percpu_wbuf_queue_own(const struct wbuf *b);

/* wbuf_flush.c */

/** Apply the queue of the caller's CPU, and the list, up to the limit of each. The caller holds the
 *  lock. Returns whether nothing is left of them. */
bool percpu_wbuf_flush_some(struct wbuf *b);

#endif
