/* SPDX-License-Identifier: MIT */
/* wbuf.h - create write buffers, with the internal lock or a lock of the caller, for tests. */
#ifndef TESTS_UNIT_WBUF_H
#define TESTS_UNIT_WBUF_H

#include <string.h>

#include <percpu/wbuf.h>

#include "support.h"

#define SMALL 8 /* entries */

static inline struct percpu_wbuf *make(size_t entries)
{
	struct percpu_wbuf_options o = { .size = sizeof(o), .entries = entries };
	struct percpu_wbuf *w = NULL;

	assert_int_equal(percpu_wbuf_create(&o, &w), 0);
	assert_non_null(w);
	return w;
}

static inline struct percpu_wbuf_stats stats(const struct percpu_wbuf *w)
{
	struct percpu_wbuf_stats s;

	memset(&s, 0xff, sizeof(s));
	percpu_wbuf_stats(w, &s);
	return s;
}

/* A lock of the caller. */
struct own_lock {
	pthread_mutex_t mutex;
	unsigned locks, trylocks, unlocks;
};

static inline void lock_own(void *arg)
{
	struct own_lock *l = arg;

	pthread_mutex_lock(&l->mutex);
	l->locks++;
}

static inline int trylock_own(void *arg)
{
	struct own_lock *l = arg;

	if (pthread_mutex_trylock(&l->mutex) != 0)
		return -1;
	l->trylocks++;
	return 0;
}

static inline void unlock_own(void *arg)
{
	struct own_lock *l = arg;

	l->unlocks++;
	pthread_mutex_unlock(&l->mutex);
}

/* Make a buffer with a lock of the caller, and flushes of at most so many adds; 0 for defaults. */
static inline struct percpu_wbuf *make_limited(size_t entries, size_t hints, size_t limit,
					       struct own_lock *l)
{
	struct percpu_wbuf_options o = { .size = sizeof(o),
					 .entries = entries,
					 .lock = lock_own,
					 .trylock = trylock_own,
					 .unlock = unlock_own,
					 .arg = l,
					 .hints_to_flush = hints,
					 .flush_limit = limit };
	struct percpu_wbuf *w = NULL;

	memset(l, 0, sizeof(*l));
	pthread_mutex_init(&l->mutex, NULL);
	assert_int_equal(percpu_wbuf_create(&o, &w), 0);
	return w;
}

static inline struct percpu_wbuf *make_hinted(size_t entries, size_t hints, struct own_lock *l)
{
	return make_limited(entries, hints, 0, l);
}

static inline struct percpu_wbuf *make_own(size_t entries, struct own_lock *l)
{
	return make_limited(entries, 0, 0, l);
}

/* Return whether adds wait in the CPUs' buffers. If not, they are applied at once. */
static inline bool buffered(void)
{
	return percpu_seq_attach()->cpu_id >= 0;
}

/* Remove the main thread's registration. From now on it uses only the list and the lock. */
static inline void thread_may_lose_its_registration(void **state)
{
	bool registered = buffered();

	(void)state;
	assert_int_equal(test_unregister(percpu_self), registered);
	assert_false(buffered());
}

#endif
