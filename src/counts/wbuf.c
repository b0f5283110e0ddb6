/* SPDX-License-Identifier: MIT */
/*
 * wbuf.c - write buffers: creation, the lock of the cells, and fork.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#include "wbuf.h"

#define WBUF_ENTRIES 1024
#define WBUF_HINTS 64
#define WBUF_MAX_ENTRIES ((size_t)1 << 24)

static struct wbuf *wbufs;
static pthread_mutex_t wbuf_lock = PTHREAD_MUTEX_INITIALIZER;

void percpu_wbuf_cells_lock(struct wbuf *b)
{
	if (b->own.lock != NULL)
		b->own.lock(b->own.arg);
	else
		percpu_mutex_lock(&b->mutex);
}

bool percpu_wbuf_cells_trylock(struct wbuf *b)
{
	if (b->own.lock != NULL)
		return b->own.trylock(b->own.arg) == 0;
	return percpu_mutex_trylock(&b->mutex);
}

void percpu_wbuf_cells_unlock(struct wbuf *b)
{
	if (b->own.lock != NULL)
		b->own.unlock(b->own.arg);
	else
		percpu_mutex_unlock(&b->mutex);
}

struct percpu_fifo *percpu_wbuf_queue(const struct wbuf *b, unsigned cpu)
{
	return percpu_local_cell(b->queues, cpu);
}

struct percpu_fifo *percpu_wbuf_queue_own(const struct wbuf *b)
{
	int32_t cpu = percpu_seq_cpu();

	return cpu >= 0 ? percpu_wbuf_queue(b, (unsigned)cpu) : NULL;
}

/* Creation */

static int check_wbuf_options(const struct percpu_wbuf_options *o, struct percpu_wbuf_options *ret)
{
	int e = percpu_options_read(ret, sizeof(*ret), o);

	if (e != 0)
		return e;
	if ((ret->lock != NULL) != (ret->trylock != NULL) ||
	    (ret->lock != NULL) != (ret->unlock != NULL))
		return -EINVAL;
	if (ret->entries == 0)
		ret->entries = WBUF_ENTRIES;
	if (ret->hints_to_flush == 0)
		ret->hints_to_flush = WBUF_HINTS;
	if (ret->flush_limit == 0)
		ret->flush_limit = ret->entries;
	if ((ret->entries & (ret->entries - 1)) != 0 || ret->entries > WBUF_MAX_ENTRIES ||
	    ret->flush_limit > ret->entries)
		return -EINVAL;
	return 0;
}

int percpu_wbuf_create(const struct percpu_wbuf_options *o, struct percpu_wbuf **ret)
{
	struct percpu_wbuf_options opt;
	struct wbuf *b;
	int e;

	e = ret != NULL ? check_wbuf_options(o, &opt) : -EINVAL;
	if (e != 0)
		return e;
	b = calloc(1, sizeof(*b));
	if (b == NULL)
		return -ENOMEM;
	e = percpu_local_create(sizeof(struct percpu_fifo) +
					(2 * opt.entries + PERCPU_WBUF_AFTER) * sizeof(uint64_t),
				PERCPU_LOCAL_LOCK, &b->queues);
	if (e != 0) {
		free(b);
		return e;
	}
	b->pub.queue = b->queues->cell;
	b->pub.guard = b->queues->guard;
	b->pub.stride = b->queues->stride;
	b->pub.mask = 2 * opt.entries - 1;
	b->pub.hints = (char *)percpu_wbuf_queue_hints((void *)b->pub.queue, b->pub.mask);
	b->pub.hints_to_flush = opt.hints_to_flush;
	b->entries = opt.entries;
	b->limit = opt.flush_limit;
	b->own = opt;
	if (opt.lock == NULL)
		percpu_mutex_init(&b->mutex);
	percpu_mutex_lock(&wbuf_lock);
	b->next = wbufs;
	wbufs = b;
	percpu_mutex_unlock(&wbuf_lock);
	*ret = &b->pub;
	return 0;
}

void percpu_wbuf_destroy(struct percpu_wbuf *w)
{
	struct wbuf *b = wbuf_of(w), **at;

	if (w == NULL)
		return;
	percpu_wbuf_flush(w);
	percpu_mutex_lock(&wbuf_lock);
	for (at = &wbufs; *at != b; at = &(*at)->next)
		;
	*at = b->next;
	percpu_mutex_unlock(&wbuf_lock);
	percpu_local_destroy(b->queues);
	if (b->own.lock == NULL)
		percpu_mutex_destroy(&b->mutex);
	free(b);
}

void percpu_wbuf_stats(const struct percpu_wbuf *w, struct percpu_wbuf_stats *ret)
{
	const struct wbuf *b = wbuf_of(w);
	struct percpu_fifo *q;
	uint64_t words = 0;

	if (w == NULL || ret == NULL)
		return;
	for (unsigned cpu = 0; (q = percpu_wbuf_queue(b, cpu)) != NULL; cpu++)
		words += percpu_wbuf_queue_pending(q, w->mask);
	ret->entries = b->entries;
	ret->pending = words / 2 + __atomic_load_n(&b->listed, __ATOMIC_RELAXED);
	ret->flushes = __atomic_load_n(&b->flushes, __ATOMIC_RELAXED);
	ret->overflows = __atomic_load_n(&b->overflows, __ATOMIC_RELAXED);
}

/*
 * Fork. The parent applies the pending adds. The child has copies of the buffers, and must not
 * apply them again, because cells may be in shared memory. The internal lock is held during the
 * fork, so that the child's copies of cells contain whole transactions. For a lock of the program,
 * the program must ensure this.
 */

static void wbuf_lock_all(void)
{
	percpu_mutex_lock(&wbuf_lock);
	for (struct wbuf *b = wbufs; b != NULL; b = b->next)
		if (b->own.lock == NULL)
			percpu_mutex_lock(&b->mutex);
}

static void wbuf_unlock_all(void)
{
	for (struct wbuf *b = wbufs; b != NULL; b = b->next)
		if (b->own.lock == NULL)
			percpu_mutex_unlock(&b->mutex);
	percpu_mutex_unlock(&wbuf_lock);
}

/* Empty the nodes. The next flush frees them: in a child that was just forked, the locks of free()
 * may be held. */
static void forget(struct wbuf_node *node)
{
	for (; node != NULL; node = node->next)
		node->n = 0;
}

static void wbuf_forget_all(void)
{
	struct percpu_fifo *q;

	for (struct wbuf *b = wbufs; b != NULL; b = b->next) {
		for (unsigned cpu = 0; (q = percpu_wbuf_queue(b, cpu)) != NULL; cpu++)
			q->tail = *percpu_wbuf_queue_applied(q, b->pub.mask) = q->head;
		forget(b->taken);
		forget(__atomic_load_n(&b->list, __ATOMIC_ACQUIRE));
		__atomic_store_n(&b->listed, 0, __ATOMIC_RELAXED);
	}
}

__attribute__((constructor)) static void wbuf_join_forks(void)
{
	static const struct percpu_fork_part part = {
		.before = wbuf_lock_all,
		.after = wbuf_unlock_all,
		.in_child = wbuf_forget_all,
	};

	percpu_fork_register(PERCPU_FORK_WBUFS, &part);
}
