/* SPDX-License-Identifier: MIT */
/*
 * grace_call.c - callbacks after a grace period, and the thread that runs them.
 */
#include "grace.h"

#define GRACE_RETRY_NS (PERCPU_SECOND / 100) /* before the next try to fence the CPUs */

/* Protects the queues of all handles. A thread holds it for a few instructions, or while it starts
 * a worker, and never while a callback runs. */
static pthread_mutex_t grace_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_grace_queues(void)
{
	percpu_mutex_lock(&grace_lock);
}

static void unlock_grace_queues(void)
{
	percpu_mutex_unlock(&grace_lock);
}

__attribute__((constructor)) static void grace_queues_join_forks(void)
{
	static const struct percpu_fork_part part = { .before = lock_grace_queues,
						      .after = unlock_grace_queues };

	percpu_fork_register(PERCPU_FORK_GRACE_QUEUES, &part);
}

/* Increment a futex, and wake the threads that wait on it. */
static void announce_callbacks(uint32_t *futex)
{
	__atomic_fetch_add(futex, 1, __ATOMIC_RELEASE);
	percpu_futex_wake(futex);
}

/* Return the first callback, and store in *ret_end whether the worker must end. */
static struct percpu_grace_callback *look_at_queue(struct percpu_grace_queue *q, bool *ret_end)
{
	struct percpu_grace_callback *c;

	lock_grace_queues();
	c = q->head;
	*ret_end = c == NULL && q->is_to_end;
	unlock_grace_queues();
	return c;
}

/* Take the first callback off the queue if its period is over. */
static struct percpu_grace_callback *take_callback(struct percpu_grace_handle *h)
{
	struct percpu_grace_queue *q = &h->queue;
	struct percpu_grace_callback *c;

	lock_grace_queues();
	c = q->head;
	if (c != NULL && (int64_t)(percpu_grace_load(h) - c->cookie) < 0)
		c = NULL;
	if (c != NULL) {
		q->head = c->next;
		if (q->head == NULL)
			q->tail = &q->head;
	}
	unlock_grace_queues();
	return c;
}

static void run_callbacks(struct percpu_grace_handle *h)
{
	struct percpu_grace_callback *c;

	while (c = take_callback(h), c != NULL) {
		PERCPU_STEP("grace: callback taken");
		c->fn(c);
		__atomic_fetch_add(&h->queue.done, 1, __ATOMIC_RELEASE);
		announce_callbacks(&h->queue.finished);
	}
}

static void note_grace_failure(struct percpu_grace_queue *q, int e)
{
	__atomic_store_n(&q->error, e, __ATOMIC_RELAXED);
	__atomic_fetch_add(&q->failures, 1, __ATOMIC_RELEASE);
	announce_callbacks(&q->finished);
}

static void *work_on_queue(void *arg)
{
	struct percpu_grace_handle *h = arg;
	struct percpu_grace_queue *q = &h->queue;
	const struct percpu_grace_callback *c;
	uint32_t work;
	bool ends;
	int e;

	__atomic_store_n(&q->self, pthread_self(), __ATOMIC_RELAXED);
	for (;;) {
		work = __atomic_load_n(&q->work, __ATOMIC_ACQUIRE);
		c = look_at_queue(q, &ends);
		if (ends)
			return NULL;
		if (c == NULL) {
			PERCPU_STEP("grace: no callback waits");
			percpu_futex_wait(&q->work, work, 0);
			continue;
		}
		e = percpu_grace_await(h, c->cookie, UINT64_MAX);
		if (e == 0 || e == -EPROTO) {
			run_callbacks(h);
		} else {
			note_grace_failure(q, e);
			percpu_futex_wait(&q->work, work, GRACE_RETRY_NS);
		}
	}
}

bool percpu_grace_is_worker(const struct percpu_grace_handle *h)
{
	const pthread_t self = __atomic_load_n(&h->queue.self, __ATOMIC_RELAXED);

	return self != 0 && pthread_equal(self, pthread_self());
}

/* Start the worker, unless it was started. The caller has the lock. Returns 0 or -errno. */
static int start_grace_worker(struct percpu_grace_handle *h)
{
	int e = 0;

	if (!h->queue.is_started) {
		e = percpu_helper_start_for_program(&h->queue.id, work_on_queue, h);
		h->queue.is_started = e == 0;
	}
	return e;
}

int percpu_grace_end_worker(struct percpu_grace_handle *h)
{
	struct percpu_grace_queue *q = &h->queue;
	int e = 0;

	lock_grace_queues();
	if (q->called != __atomic_load_n(&q->done, __ATOMIC_ACQUIRE))
		e = -EBUSY;
	else if (q->is_started && percpu_is_forking())
		e = -EDEADLK; /* the worker waits for the fork */
	q->is_to_end = e == 0;
	unlock_grace_queues();
	if (e == 0 && q->is_started) {
		announce_callbacks(&q->work);
		pthread_join(q->id, NULL);
	}
	return e;
}

/* A callback that was running at the fork goes on in the parent only. */
void percpu_grace_mend_queue(struct percpu_grace_handle *h, bool drop)
{
	struct percpu_grace_queue *q = &h->queue;

	q->is_started = false;
	q->self = 0;
	if (drop)
		q->head = NULL;
	q->tail = &q->head;
	q->done = q->called;
	for (struct percpu_grace_callback *c = q->head; c != NULL; c = c->next) {
		q->tail = &c->next;
		q->done--;
	}
}

static bool is_callback_queued(const struct percpu_grace_queue *q,
			       const struct percpu_grace_callback *c)
{
	const struct percpu_grace_callback *at = q->head;

	while (at != NULL && at != c)
		at = at->next;
	return at != NULL;
}

/* Append a callback to the queue. The caller has the lock. */
static void queue_callback(struct percpu_grace_queue *q, struct percpu_grace_callback *c)
{
	if (q->tail == NULL)
		q->tail = &q->head;
	c->next = NULL;
	*q->tail = c;
	q->tail = &c->next;
	q->called++;
}

int percpu_grace_call(struct percpu_grace *g, struct percpu_grace_callback *c,
		      void (*fn)(struct percpu_grace_callback *c))
{
	struct percpu_grace_handle *h = percpu_grace_handle(g);
	int cancel, e;

	if (g == NULL || c == NULL || fn == NULL)
		return -EINVAL;
	if (!h->part.in.block.chunk->region->writable)
		return -EROFS;
	cancel = percpu_defer_cancel();
	lock_grace_queues();
	if (h->part.checked && is_callback_queued(&h->queue, c))
		percpu_grace_complain(h, "a callback was called for that waits already");
	e = start_grace_worker(h);
	if (e == 0) {
		c->fn = fn;
		c->cookie = percpu_grace_next(h);
		queue_callback(&h->queue, c);
	}
	unlock_grace_queues();
	if (e == 0)
		announce_callbacks(&h->queue.work);
	percpu_restore_cancel(cancel);
	return e;
}

/* Wait until `called` callbacks have returned. Returns 0, or the error of a fence that failed
 * meanwhile. */
static int await_callbacks(struct percpu_grace_queue *q, uint64_t called)
{
	const uint64_t failures = __atomic_load_n(&q->failures, __ATOMIC_ACQUIRE);
	uint32_t finished;

	for (;;) {
		finished = __atomic_load_n(&q->finished, __ATOMIC_ACQUIRE);
		if ((int64_t)(__atomic_load_n(&q->done, __ATOMIC_ACQUIRE) - called) >= 0)
			return 0;
		if (__atomic_load_n(&q->failures, __ATOMIC_ACQUIRE) != failures)
			return __atomic_load_n(&q->error, __ATOMIC_RELAXED);
		PERCPU_STEP("grace: callbacks awaited");
		percpu_futex_wait(&q->finished, finished, 0);
	}
}

int percpu_grace_barrier(struct percpu_grace *g)
{
	struct percpu_grace_handle *h = percpu_grace_handle(g);
	uint64_t called;
	int cancel, e;

	if (g == NULL)
		return -EINVAL;
	if (percpu_is_forking() || percpu_grace_is_worker(h))
		return -EDEADLK;
	cancel = percpu_defer_cancel();
	lock_grace_queues();
	called = h->queue.called;
	e = called != __atomic_load_n(&h->queue.done, __ATOMIC_ACQUIRE) ? start_grace_worker(h) : 0;
	unlock_grace_queues();
	if (e == 0)
		e = await_callbacks(&h->queue, called);
	percpu_restore_cancel(cancel);
	return e;
}
