/* SPDX-License-Identifier: MIT */
/*
 * pool_wait.c - threads that wait for an item of a pool.
 *
 * Waiters stand in a queue. While it is not empty, "room" is 0, so that each put checks the
 * queue. A thread that puts an item, or makes room below the limit, gives the item, or the right
 * to make one, to the first waiter. A put may have read room before that. A new waiter fences and
 * then takes the items that such puts have pushed onto the arrays. A put whose push comes after
 * the fence reads room again and finds it changed. So a put needs no fence itself.
 *
 * A waiter that is served has an item, or the right to make one. Other threads cannot take it
 * away, so no thread waits forever while other threads get items, and waiters are served in the
 * order in which they came.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "caches.h"

/* A waiter looks again after this time, because processes that share a region free items without
 * a wake, and a fence may be refused. */
#define LOOK_AGAIN_NS (PERCPU_SECOND / 100)

enum { WAITING, HAS_ITEM, MAY_MAKE };

struct percpu_waiter {
	struct percpu_waiter *next;
	void *item;
	uint32_t state; /* futex; atomic */
};

static struct percpu_pool *pools; /* under the process lock */

void percpu_pool_init(struct percpu_pool *p, uint64_t *room)
{
	percpu_mutex_init(&p->lock);
	p->room = room;
	if (p->fetch == 0)
		p->fetch = 1;
	percpu_pool_fit(p, p->full);
	percpu_process_lock();
	p->next = pools;
	pools = p;
	percpu_process_unlock();
}

void percpu_pool_fini(struct percpu_pool *p)
{
	struct percpu_pool **at = &pools;

	if (p->room != NULL) {
		percpu_process_lock();
		while (*at != p)
			at = &(*at)->next;
		*at = p->next;
		percpu_process_unlock();
		percpu_mutex_destroy(&p->lock);
	}
	percpu_local_destroy(p->arrays);
	percpu_depot_fini(&p->depot);
}

struct percpu_pool *percpu_pool_pin_next(struct percpu_pool *p)
{
	struct percpu_pool *next;

	percpu_process_lock();
	next = p != NULL ? p->next : pools;
	while (next != NULL && !percpu_pins_add(&next->pins))
		next = next->next;
	if (p != NULL)
		percpu_pins_remove(&p->pins);
	percpu_process_unlock();
	return next;
}

/* Set room. The caller holds the lock. */
static void set_room(struct percpu_pool *p)
{
	bool open = p->arrays != NULL && p->first == NULL && !percpu_pool_is_over(p);

	__atomic_store_n(p->room, open ? __atomic_load_n(&p->full, __ATOMIC_RELAXED) : 0,
			 __ATOMIC_SEQ_CST);
}

void percpu_pool_open(struct percpu_pool *p)
{
	percpu_mutex_lock(&p->lock);
	set_room(p);
	percpu_mutex_unlock(&p->lock);
}

/* Serve the first waiter. Returns false if there is none. */
static bool serve(struct percpu_pool *p, void *item, uint32_t state)
{
	struct percpu_waiter *w;
	uint32_t *word = NULL;

	percpu_mutex_lock(&p->lock);
	w = p->first;
	if (w != NULL) {
		p->first = w->next;
		if (p->first == NULL)
			p->last = NULL;
		__atomic_fetch_sub(&p->waiters, 1, __ATOMIC_RELAXED);
		w->item = item;
		word = &w->state;
		/* From here on the waiter may return, which ends the life of its struct. */
		__atomic_store_n(word, state, __ATOMIC_RELEASE);
		set_room(p);
	}
	percpu_mutex_unlock(&p->lock);
	if (word != NULL)
		percpu_futex_rouse(word, FUTEX_WAKE_PRIVATE, 1);
	return word != NULL;
}

bool percpu_pool_serve(struct percpu_pool *p, void *item)
{
	PERCPU_STEP("pool: waiters seen");
	return serve(p, item, HAS_ITEM);
}

/* Serve at most as many waiters as there are now. A later waiter calls this function itself, or
 * has returned to the queue because it could not make an item. */
int percpu_pool_serve_waiters(struct percpu_pool *p)
{
	uint32_t most = __atomic_load_n(&p->waiters, __ATOMIC_RELAXED);
	void *item;
	int e = 0;

	while (most != 0 && percpu_pool_has_waiters(p) && !percpu_pool_is_over(p)) {
		e = percpu_pool_find(p, &item);
		if (e == 0) {
			PERCPU_STEP("pool: item found");
			if (!serve(p, item, HAS_ITEM))
				return percpu_pool_put(p, item);
			most--;
		} else if (percpu_pool_claim(p, 1) == 1) { /* also if an item is out of reach */
			PERCPU_STEP("pool: room found");
			if (serve(p, NULL, MAY_MAKE))
				most--;
			else
				__atomic_fetch_sub(&p->taken, 1, __ATOMIC_RELEASE);
		} else {
			return e;
		}
	}
	return 0;
}

/* Enter the queue at its end or at its front. */
static void enter_queue(struct percpu_pool *p, struct percpu_waiter *w, bool front)
{
	int e;

	percpu_mutex_lock(&p->lock);
	w->state = WAITING;
	w->next = front ? p->first : NULL;
	if (front || p->first == NULL)
		p->first = w;
	else
		p->last->next = w;
	if (w->next == NULL)
		p->last = w;
	__atomic_fetch_add(&p->waiters, 1, __ATOMIC_SEQ_CST);
	set_room(p);
	percpu_mutex_unlock(&p->lock);
	e = percpu_fence();
	(void)e; /* without a fence a put may miss this waiter: see LOOK_AGAIN_NS */
}

/* Leave the queue. Returns false if the waiter was served and has left it already. */
static bool leave_queue(struct percpu_pool *p, const struct percpu_waiter *w)
{
	struct percpu_waiter **at = &p->first, *before = NULL;

	PERCPU_STEP("pool: to leave the queue");
	percpu_mutex_lock(&p->lock);
	for (; *at != NULL && *at != w; at = &(*at)->next)
		before = *at;
	if (*at == w) {
		*at = w->next;
		if (p->last == w)
			p->last = before;
		__atomic_fetch_sub(&p->waiters, 1, __ATOMIC_RELAXED);
		set_room(p);
		percpu_mutex_unlock(&p->lock);
		return true;
	}
	percpu_mutex_unlock(&p->lock);
	return false;
}

static uint32_t state_of(const struct percpu_waiter *w)
{
	return __atomic_load_n(&w->state, __ATOMIC_ACQUIRE);
}

int percpu_pool_wait(struct percpu_pool *p, void *how, void **ret)
{
	struct percpu_waiter w;
	ssize_t made;
	int e;

	if (percpu_is_forking())
		return -EDEADLK;
	__atomic_fetch_add(&p->waits, 1, __ATOMIC_RELAXED);
	enter_queue(p, &w, false);
	for (;;) {
		e = percpu_pool_serve_waiters(p);
		if (state_of(&w) == WAITING && e != 0 && e != -ENOSPC && leave_queue(p, &w))
			return e;
		if (state_of(&w) == WAITING)
			percpu_futex_sleep(&w.state, FUTEX_WAIT_PRIVATE, WAITING, LOOK_AGAIN_NS);
		if (state_of(&w) == HAS_ITEM) {
			*ret = w.item;
			return 0;
		}
		if (state_of(&w) == WAITING)
			continue;
		made = p->backend->make(p->owner, how, ret, 1);
		if (made != -ENOSPC)
			break;
		/* A shared region is full; another process may free items of it. Until then no
		 * waiter here can make an item, so give the right to do so to none of them. */
		__atomic_fetch_sub(&p->taken, 1, __ATOMIC_RELEASE);
		enter_queue(p, &w, true);
		percpu_futex_sleep(&w.state, FUTEX_WAIT_PRIVATE, WAITING, LOOK_AGAIN_NS);
	}
	if (made < 1)
		percpu_pool_unclaim(p, 1);
	return made > 0 ? 0 : (int)made;
}

static void pool_lock_all(void)
{
	for (struct percpu_pool *p = pools; p != NULL; p = p->next)
		percpu_mutex_lock(&p->lock);
}

static void pool_unlock_all(void)
{
	for (struct percpu_pool *p = pools; p != NULL; p = p->next)
		percpu_mutex_unlock(&p->lock);
}

/* Empty the queue: the waiting threads are in the parent. So are the threads that have pinned the
 * pool, unless this one is among them, and forks in a destructor. */
static void pool_mend_in_child(void)
{
	for (struct percpu_pool *p = pools; p != NULL; p = p->next) {
		p->first = p->last = NULL;
		p->pins.threads = percpu_thread_is_in_call(&p->pins);
		__atomic_store_n(&p->waiters, 0, __ATOMIC_RELAXED);
		set_room(p);
	}
}

__attribute__((constructor)) static void pool_join_forks(void)
{
	static const struct percpu_fork_part part = { .before = pool_lock_all,
						      .after = pool_unlock_all,
						      .in_child = pool_mend_in_child };

	percpu_fork_register(PERCPU_FORK_POOLS, &part);
}
