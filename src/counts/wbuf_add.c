/* SPDX-License-Identifier: MIT */
/*
 * wbuf_add.c - adds that find no room in the buffer of their CPU.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "wbuf.h"

#define LONG_LIST 16 /* buffers; if the list is longer, an add yields its CPU */

static int put_on_list(struct wbuf *b, const struct percpu_wbuf_entry *adds, size_t n)
{
	struct wbuf_node *node = malloc(sizeof(*node) + n * sizeof(*adds));

	if (node == NULL)
		return -ENOMEM;
	node->n = n;
	memcpy(node->adds, adds, n * sizeof(*adds));
	__atomic_fetch_add(&b->listed, n, __ATOMIC_RELAXED);
	__atomic_fetch_add(&b->overflows, 1, __ATOMIC_RELAXED);
	node->next = __atomic_load_n(&b->list, __ATOMIC_RELAXED);
	PERCPU_STEP("wbuf: to be listed");
	while (!__atomic_compare_exchange_n(&b->list, &node->next, node, true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
	PERCPU_STEP("wbuf: listed");
	return 0;
}

/* Try a few times to append to the queue. Not inlined, so that both callers share one copy
 * of the sequence. */
static __attribute__((noinline)) int put_in_queue(const struct wbuf *b,
						  const struct percpu_wbuf_entry *adds, size_t n)
{
	int r = PERCPU_SEQ_SLOW;

	if (n > PERCPU_WBUF_LONGEST)
		return r;
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_wbuf_append(&b->pub, adds, n);
	return r;
}

int percpu_wbuf_add_slow(struct percpu_wbuf *w, const struct percpu_wbuf_entry *adds, size_t n)
{
	struct wbuf *b = wbuf_of(w);
	struct percpu_fifo *q;
	int e;

	if (n == 0)
		return 0;
	if (n > b->entries)
		return -E2BIG;
	if (!percpu_wbuf_is_valid(adds, n))
		return -EINVAL;
	if (put_in_queue(b, adds, n) == 0)
		return 0;
	if (percpu_wbuf_cells_trylock(b)) {
		(void)percpu_wbuf_flush_some(b);
		percpu_wbuf_apply(adds, n);
		percpu_wbuf_cells_unlock(b);
		return 0;
	}
	q = percpu_wbuf_queue_own(b);
	if (q != NULL) {
		percpu_wbuf_queue_open(q, b->pub.mask);
		if (put_in_queue(b, adds, n) == 0)
			return 0;
	}
	e = put_on_list(b, adds, n);
	/* If there are more threads than CPUs, adds to the list are faster than the thread that
	 * applies them, above all while it is preempted. Yield, so that the list stops growing. */
	if (__atomic_load_n(&b->listed, __ATOMIC_RELAXED) > LONG_LIST * b->entries) {
		PERCPU_STEP("wbuf: gives way");
		sched_yield();
	}
	return e;
}
