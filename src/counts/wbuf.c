/* SPDX-License-Identifier: MIT */
/*
 * wbuf.c - write buffers: the slow path, flushes, and fork.
 *
 * Until it is applied, a transaction is in one of three places: in the queue of a CPU; on the
 * list, newest first; or on "taken", the list that a flush has taken off. The lock protects all
 * cells, how far each queue was applied, and "taken".
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/local.h>

#include "counts.h"

#define WBUF_ENTRIES 1024
#define WBUF_HINTS 64
#define WBUF_MAX_ENTRIES ((size_t)1 << 24)

#define HINTS 2	     /* words after the last slot: how far it was applied; how often hinted */
#define LONG_LIST 16 /* buffers; if the list is longer, an add yields its CPU */

/* 1/RESERVE of a buffer is kept free for adds while another thread holds the lock. The rest fills
 * up between flushes. It is the larger part because each flush has a fixed cost. */
#define RESERVE 4

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

static struct wbuf *wbufs;
static pthread_mutex_t wbuf_lock = PTHREAD_MUTEX_INITIALIZER;

static struct wbuf *wbuf_of(const struct percpu_wbuf *w)
{
	return (struct wbuf *)w;
}

/* The lock */

static void lock_cells(struct wbuf *b)
{
	if (b->own.lock != NULL)
		b->own.lock(b->own.arg);
	else
		percpu_mutex_lock(&b->mutex);
}

static bool trylock_cells(struct wbuf *b)
{
	if (b->own.lock != NULL)
		return b->own.trylock(b->own.arg) == 0;
	return percpu_mutex_trylock(&b->mutex);
}

static void unlock_cells(struct wbuf *b)
{
	if (b->own.lock != NULL)
		b->own.unlock(b->own.arg);
	else
		percpu_mutex_unlock(&b->mutex);
}

/* Applying. The caller of each function that applies holds the lock. */

static struct percpu_fifo *queue_of(const struct wbuf *b, unsigned cpu)
{
	return percpu_local_cell(b->queues, cpu);
}

static void apply_queue(const struct wbuf *b, struct percpu_fifo *q)
{
	percpu_wbuf_queue_apply(q, b->pub.mask, 2 * (b->entries / RESERVE));
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

	for (unsigned cpu = 0; (q = queue_of(b, cpu)) != NULL; cpu++)
		apply_queue(b, q);
	apply_taken(b, SIZE_MAX);
	take_list(b);
	apply_taken(b, SIZE_MAX);
	count_flush(b);
}

/* Return the queue of the CPU that the thread runs on, or ran on; NULL if the thread cannot run
 * sequences. */
static struct percpu_fifo *own_queue(const struct wbuf *b)
{
	int32_t cpu = percpu_seq_cpu();

	return cpu >= 0 ? queue_of(b, (unsigned)cpu) : NULL;
}

/* Apply the queue of the caller's CPU, and about a buffer of the list. */
static void flush_some(struct wbuf *b)
{
	struct percpu_fifo *q = own_queue(b);

	if (q != NULL)
		apply_queue(b, q);
	if (b->taken == NULL && __atomic_load_n(&b->list, __ATOMIC_RELAXED) != NULL)
		take_list(b);
	if (b->taken != NULL)
		apply_taken(b, b->entries);
	count_flush(b);
}

void percpu_wbuf_flush(struct percpu_wbuf *w)
{
	struct wbuf *b = wbuf_of(w);

	if (w == NULL)
		return;
	lock_cells(b);
	flush_all(b);
	unlock_cells(b);
}

int percpu_wbuf_try_flush(struct percpu_wbuf *w)
{
	struct wbuf *b = wbuf_of(w);

	if (w == NULL)
		return -EINVAL;
	if (!trylock_cells(b))
		return -EBUSY;
	flush_all(b);
	unlock_cells(b);
	return 0;
}

/* Apply the queue of another CPU, of each in turn: perhaps no thread runs there that would. */
static void flush_in_turn(struct wbuf *b)
{
	struct percpu_fifo *q = queue_of(b, b->turn);

	if (q == NULL) { /* that was the last one */
		b->turn = 0;
		q = queue_of(b, 0);
	}
	b->turn++;
	apply_queue(b, q);
}

void percpu_wbuf_hint_flush_slow(struct percpu_wbuf *w, int r)
{
	struct wbuf *b = wbuf_of(w);
	uint64_t *hints = &b->hints;
	struct percpu_fifo *q;
	bool due;

	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_add(w->hints, w->stride, 1);
	q = own_queue(b);
	if (r != 0)
		__atomic_fetch_add(hints, 1, __ATOMIC_RELAXED);
	else if (q != NULL)
		hints = &q->slot[b->pub.mask + HINTS];
	due = __atomic_load_n(hints, __ATOMIC_RELAXED) >= w->hints_to_flush;
	if ((!due && (q == NULL || !percpu_wbuf_queue_is_filling(q, w->mask))) || !trylock_cells(b))
		return;
	flush_some(b);
	if (due) { /* a CPU whose buffer fills up often takes its turns, too */
		flush_in_turn(b);
		__atomic_store_n(hints, 0, __ATOMIC_RELAXED);
	}
	unlock_cells(b);
}

void percpu_wbuf_read(struct percpu_wbuf *w, uint64_t *const *cells, size_t n, uint64_t *ret)
{
	struct wbuf *b = wbuf_of(w);

	if (w == NULL)
		return;
	lock_cells(b);
	flush_all(b);
	for (size_t i = 0; i < n; i++)
		ret[i] = __atomic_load_n(cells[i], __ATOMIC_RELAXED);
	unlock_cells(b);
}

/* Scheduling */

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
	if (put_in_queue(b, adds, n) == 0)
		return 0;
	if (trylock_cells(b)) {
		flush_some(b);
		percpu_wbuf_apply(adds, n);
		unlock_cells(b);
		return 0;
	}
	q = own_queue(b);
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
	if ((ret->entries & (ret->entries - 1)) != 0 || ret->entries > WBUF_MAX_ENTRIES)
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
					(2 * opt.entries + HINTS) * sizeof(uint64_t),
				PERCPU_LOCAL_LOCK, &b->queues);
	if (e != 0) {
		free(b);
		return e;
	}
	b->pub.queue = b->queues->cell;
	b->pub.guard = b->queues->guard;
	b->pub.stride = b->queues->stride;
	b->pub.mask = 2 * opt.entries - 1;
	b->pub.hints =
		(char *)&((struct percpu_fifo *)(void *)b->pub.queue)->slot[b->pub.mask + HINTS];
	b->pub.hints_to_flush = opt.hints_to_flush;
	b->entries = opt.entries;
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
	for (unsigned cpu = 0; (q = queue_of(b, cpu)) != NULL; cpu++)
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
		for (unsigned cpu = 0; (q = queue_of(b, cpu)) != NULL; cpu++)
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
