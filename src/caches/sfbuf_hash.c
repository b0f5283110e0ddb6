/* SPDX-License-Identifier: MIT */
/*
 * sfbuf_hash.c - create and destroy shared buffers, and the hash and the list that sfbuf.c uses.
 */
#include <errno.h>
#include <stdlib.h>

#include "sfbuf.h"

int percpu_sfbufs_create(size_t most, struct percpu_sfbufs **ret)
{
	struct percpu_sfbufs *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return -ENOMEM;
	s->most = most;
	for (s->buckets = 16; s->buckets < most;)
		s->buckets *= 2;
	s->all = calloc(most, sizeof(*s->all));
	s->bucket = calloc(s->buckets, sizeof(*s->bucket));
	if (s->all == NULL || s->bucket == NULL) {
		free(s->all);
		free(s->bucket);
		free(s);
		return -ENOMEM;
	}
	percpu_mutex_init(&s->lock);
	*ret = s;
	return 0;
}

void percpu_sfbufs_destroy(struct percpu_sfbufs *s)
{
	if (s == NULL)
		return;
	percpu_mutex_destroy(&s->lock);
	free(s->all);
	free(s->bucket);
	free(s);
}

size_t percpu_sfbufs_used(const struct percpu_sfbufs *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->most; i++)
		n += percpu_sfbuf_refs(&s->all[i]) != 0;
	return n;
}

bool percpu_sfbufs_idle(const struct percpu_sfbufs *s)
{
	for (size_t i = 0; i < s->most; i++)
		if (percpu_sfbuf_refs(&s->all[i]) >
		    __atomic_load_n(&s->all[i].inherited, __ATOMIC_RELAXED))
			return false;
	return true;
}

uint64_t percpu_sfbufs_bounces(const struct percpu_sfbufs *s)
{
	return __atomic_load_n(&s->bounces, __ATOMIC_RELAXED);
}

void percpu_sfbufs_lock(struct percpu_sfbufs *s)
{
	percpu_mutex_lock(&s->lock);
}

void percpu_sfbufs_unlock(struct percpu_sfbufs *s)
{
	percpu_mutex_unlock(&s->lock);
}

/* The hash and the list, under the lock */

struct percpu_sfbuf_item **percpu_sfbufs_bucket(const struct percpu_sfbufs *s, uint64_t page)
{
	return &s->bucket[(page * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (s->buckets - 1)];
}

void percpu_sfbufs_enter(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b, uint64_t page)
{
	struct percpu_sfbuf_item **at = percpu_sfbufs_bucket(s, page);

	__atomic_store_n(&b->sf.page, page, __ATOMIC_RELAXED);
	__atomic_store_n(&b->in_bucket, *at, __ATOMIC_RELEASE);
	__atomic_store_n(at, b, __ATOMIC_RELEASE);
}

void percpu_sfbufs_leave(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b)
{
	struct percpu_sfbuf_item **at;

	if (b->sf.page == PERCPU_SFBUF_NO_PAGE)
		return;
	at = percpu_sfbufs_bucket(s, b->sf.page);
	while (*at != b)
		at = &(*at)->in_bucket;
	__atomic_store_n(at, b->in_bucket, __ATOMIC_RELEASE);
	b->page_before = b->sf.page;
	__atomic_store_n(&b->sf.page, PERCPU_SFBUF_NO_PAGE, __ATOMIC_RELAXED);
}

void percpu_sfbufs_add(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b)
{
	b->newer = NULL;
	b->older = s->newest;
	if (s->newest != NULL)
		s->newest->newer = b;
	else
		s->oldest = b;
	s->newest = b;
}

void percpu_sfbufs_remove(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b)
{
	if (b->newer != NULL)
		b->newer->older = b->older;
	else
		s->newest = b->older;
	if (b->older != NULL)
		b->older->newer = b->newer;
	else
		s->oldest = b->newer;
}

struct percpu_sfbuf_item *percpu_sfbufs_find(struct percpu_sfbufs *s, uint64_t page)
{
	struct percpu_sfbuf_item *b = *percpu_sfbufs_bucket(s, page);

	while (b != NULL && b->sf.page != page)
		b = b->in_bucket;
	return b;
}

/* Note the inherited references, and give up buffers that a thread of the parent was filling. */
void percpu_sfbufs_in_child(struct percpu_sfbufs *s)
{
	for (size_t i = 0; i < s->made; i++) {
		struct percpu_sfbuf_item *b = &s->all[i];

		b->inherited = percpu_sfbuf_refs(b);
		if (b->inherited != 0 && b->state == PERCPU_SFBUF_FILLING) {
			percpu_sfbufs_leave(s, b);
			b->error = -EIO;
			b->state = PERCPU_SFBUF_FAILED;
		}
	}
	s->waiters = 0;
}
