/* SPDX-License-Identifier: MIT */
/*
 * wbuf_flush.c - flushes of write buffers, all at once or a part, and what readers call.
 *
 * The caller of each function that applies adds holds the lock.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "wbuf.h"

/* Apply about limit adds of a queue. Return whether nothing is left of it. */
static bool apply_queue(const struct wbuf *b, struct percpu_fifo *q, size_t limit)
{
	return percpu_wbuf_queue_apply(q, b->pub.mask, 2 * (b->entries / PERCPU_WBUF_RESERVE),
				       2 * (uint64_t)limit);
}

/* Apply transactions of "taken" until at least limit adds are done. */
static void apply_taken(struct wbuf *b, size_t limit)
{
	struct wbuf_node *node;
	size_t done = 0;

	while (b->taken != NULL && done < limit) {
		node = b->taken;
		b->taken = node->next;
		percpu_wbuf_apply(node->adds, node->n);
		done += node->n;
		free(node);
	}
	__atomic_fetch_sub(&b->listed, done, __ATOMIC_RELAXED);
}

static void take_list(struct wbuf *b)
{
	b->taken = __atomic_exchange_n(&b->list, NULL, __ATOMIC_ACQUIRE);
}

static void count_flush(struct wbuf *b)
{
	__atomic_store_n(&b->flushes, b->flushes + 1, __ATOMIC_RELAXED);
}

/* Apply all queues and the whole list. */
static void flush_all(struct wbuf *b)
{
	struct percpu_fifo *q;

	for (unsigned cpu = 0; (q = percpu_wbuf_queue(b, cpu)) != NULL; cpu++)
		(void)apply_queue(b, q, b->entries);
	apply_taken(b, SIZE_MAX);
	take_list(b);
	apply_taken(b, SIZE_MAX);
	count_flush(b);
}

bool percpu_wbuf_flush_some(struct wbuf *b)
{
	struct percpu_fifo *q = percpu_wbuf_queue_own(b);
	bool done = q == NULL || apply_queue(b, q, b->limit);

	if (b->taken == NULL && __atomic_load_n(&b->list, __ATOMIC_RELAXED) != NULL)
		take_list(b);
	if (b->taken != NULL)
		apply_taken(b, b->limit);
	count_flush(b);
	return done && b->taken == NULL;
}

void percpu_wbuf_flush(struct percpu_wbuf *w)
{
	percpu_wbuf_lock(w);
	percpu_wbuf_unlock(w);
}

int percpu_wbuf_try_flush(struct percpu_wbuf *w)
{
	struct wbuf *b = wbuf_of(w);

	if (w == NULL)
		return -EINVAL;
	if (!percpu_wbuf_cells_trylock(b))
		return -EBUSY;
	flush_all(b);
	percpu_wbuf_cells_unlock(b);
	return 0;
}

/* Apply the queue of another CPU, of each in turn: perhaps no thread runs there that would. Return
 * whether nothing is left of it. */
static bool flush_in_turn(struct wbuf *b)
{
	struct percpu_fifo *q = percpu_wbuf_queue(b, b->turn);
	bool done;

	if (q == NULL) { /* that was the last one */
		b->turn = 0;
		q = percpu_wbuf_queue(b, 0);
	}
	done = apply_queue(b, q, b->limit);
	b->turn += done;
	return done;
}

void percpu_wbuf_hint_flush_slow(struct percpu_wbuf *w, int r)
{
	struct wbuf *b = wbuf_of(w);
	uint64_t *hints = &b->hints;
	struct percpu_fifo *q;
	bool due, done;

	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_add(w->hints, w->stride, 1);
	q = percpu_wbuf_queue_own(b);
	if (r != 0)
		__atomic_fetch_add(hints, 1, __ATOMIC_RELAXED);
	else if (q != NULL)
		hints = percpu_wbuf_queue_hints(q, w->mask);
	due = __atomic_load_n(hints, __ATOMIC_RELAXED) >= w->hints_to_flush;
	if ((!due && (q == NULL || !percpu_wbuf_queue_is_filling(q, w->mask))) ||
	    !percpu_wbuf_cells_trylock(b))
		return;
	done = percpu_wbuf_flush_some(b);
	if (due) { /* a CPU whose buffer fills up often takes its turns, too */
		done = flush_in_turn(b) && done;
		if (done)
			__atomic_store_n(hints, 0, __ATOMIC_RELAXED);
	}
	percpu_wbuf_cells_unlock(b);
}

void percpu_wbuf_lock(struct percpu_wbuf *w)
{
	struct wbuf *b = wbuf_of(w);

	if (w == NULL)
		return;
	percpu_wbuf_cells_lock(b);
	flush_all(b);
}

void percpu_wbuf_unlock(struct percpu_wbuf *w)
{
	if (w != NULL)
		percpu_wbuf_cells_unlock(wbuf_of(w));
}

void percpu_wbuf_read(struct percpu_wbuf *w, uint64_t *const *cells, size_t n, uint64_t *ret)
{
	if (w == NULL)
		return;
	percpu_wbuf_lock(w);
	for (size_t i = 0; i < n; i++)
		ret[i] = __atomic_load_n(cells[i], __ATOMIC_RELAXED);
	percpu_wbuf_unlock(w);
}
