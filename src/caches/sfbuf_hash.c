/* SPDX-License-Identifier: MIT */
/*
 * sfbuf_hash.c - create and destroy shared buffers, and the hash and the lists that sfbuf.c uses.
 *
 * Buffers are in blocks, each twice as large as the one before, and stay until all are destroyed.
 */
#include <errno.h>
#include <stdlib.h>

#include "sfbuf.h"

static size_t block_items(size_t block)
{
	return PERCPU_SFBUF_FIRST << block;
}

/* Return the i-th item. */
static struct percpu_sfbuf_item *item_at(const struct percpu_sfbufs *s, size_t i)
{
	size_t block = 0;

	for (; i >= block_items(block); block++)
		i -= block_items(block);
	return &s->block[block][i];
}

static struct percpu_sfbuf_item **bucket_of(struct percpu_sfbuf_hash *h, uint64_t page)
{
	return &h->bucket[(page * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (h->buckets - 1)];
}

static void enter_hash(struct percpu_sfbuf_hash *h, struct percpu_sfbuf_item *b)
{
	struct percpu_sfbuf_item **at = bucket_of(h, b->sf.page);

	__atomic_store_n(&b->in_bucket, *at, __ATOMIC_RELEASE);
	__atomic_store_n(at, b, __ATOMIC_RELEASE);
}

/* Allocate another block of items, and a hash with more buckets than there are items then. */
static int grow_sfbufs(struct percpu_sfbufs *s)
{
	struct percpu_sfbuf_item *block = NULL, *b;
	struct percpu_sfbuf_hash *h = NULL;
	size_t items, buckets;

	if (s->blocks == PERCPU_SFBUF_BLOCKS)
		return -ENOMEM;
	items = block_items(s->blocks);
	buckets = 2 * items;
	block = calloc(items, sizeof(*block));
	h = calloc(1, sizeof(*h) + buckets * sizeof(h->bucket[0]));
	if (block == NULL || h == NULL) {
		free(block);
		free(h);
		return -ENOMEM;
	}
	h->before = s->hash;
	h->buckets = buckets;
	for (size_t i = 0; i < s->made; i++) {
		b = item_at(s, i);
		if (b->sf.page != PERCPU_SFBUF_NO_PAGE)
			enter_hash(h, b);
	}
	__atomic_store_n(&s->block[s->blocks++], block, __ATOMIC_RELEASE);
	__atomic_store_n(&s->hash, h, __ATOMIC_RELEASE);
	return 0;
}

int percpu_sfbufs_create(size_t max_excess, struct percpu_sfbufs **ret)
{
	struct percpu_sfbufs *s = calloc(1, sizeof(*s));

	if (s == NULL || grow_sfbufs(s) != 0) {
		free(s);
		return -ENOMEM;
	}
	s->max_excess = max_excess;
	percpu_mutex_init(&s->lock);
	*ret = s;
	return 0;
}

void percpu_sfbufs_destroy(struct percpu_sfbufs *s)
{
	struct percpu_sfbuf_hash *h;

	if (s == NULL)
		return;
	percpu_mutex_destroy(&s->lock);
	while ((h = s->hash) != NULL) {
		s->hash = h->before;
		free(h);
	}
	for (size_t i = 0; i < s->blocks; i++)
		free(s->block[i]);
	free(s);
}

size_t percpu_sfbufs_used(const struct percpu_sfbufs *s)
{
	size_t made = __atomic_load_n(&s->made, __ATOMIC_ACQUIRE), n = 0;

	for (size_t i = 0; i < made; i++)
		n += percpu_sfbuf_refs(item_at(s, i)) != 0;
	return n;
}

bool percpu_sfbufs_idle(const struct percpu_sfbufs *s)
{
	size_t made = __atomic_load_n(&s->made, __ATOMIC_ACQUIRE);
	const struct percpu_sfbuf_item *b;

	for (size_t i = 0; i < made; i++) {
		b = item_at(s, i);
		if (percpu_sfbuf_refs(b) > __atomic_load_n(&b->inherited, __ATOMIC_RELAXED))
			return false;
	}
	return true;
}

struct percpu_sfbuf_item *percpu_sfbufs_own(const struct percpu_sfbufs *s, struct percpu_sfbuf *sf)
{
	struct percpu_sfbuf_item *block;
	size_t offset;

	for (size_t i = 0; i < PERCPU_SFBUF_BLOCKS; i++) {
		block = __atomic_load_n(&s->block[i], __ATOMIC_ACQUIRE);
		if (block == NULL)
			return NULL;
		offset = (uintptr_t)sf - (uintptr_t)block;
		if (offset < block_items(i) * sizeof(*block))
			return offset % sizeof(*block) == 0 ? &block[offset / sizeof(*block)] :
							      NULL;
	}
	return NULL;
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

/* The hash and the lists, under the lock */

struct percpu_sfbuf_item **percpu_sfbufs_bucket(const struct percpu_sfbufs *s, uint64_t page)
{
	return bucket_of(__atomic_load_n(&s->hash, __ATOMIC_ACQUIRE), page);
}

void percpu_sfbufs_enter(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b, uint64_t page)
{
	__atomic_store_n(&b->sf.page, page, __ATOMIC_RELAXED);
	enter_hash(s->hash, b);
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

void percpu_sfbufs_add(struct percpu_sfbuf_list *l, struct percpu_sfbuf_item *b)
{
	b->newer = NULL;
	b->older = l->newest;
	if (l->newest != NULL)
		l->newest->newer = b;
	else
		l->oldest = b;
	l->newest = b;
	__atomic_store_n(&l->items, l->items + 1, __ATOMIC_RELAXED);
}

void percpu_sfbufs_remove(struct percpu_sfbuf_list *l, struct percpu_sfbuf_item *b)
{
	if (b->newer != NULL)
		b->newer->older = b->older;
	else
		l->newest = b->older;
	if (b->older != NULL)
		b->older->newer = b->newer;
	else
		l->oldest = b->newer;
	__atomic_store_n(&l->items, l->items - 1, __ATOMIC_RELAXED);
}

struct percpu_sfbuf_item *percpu_sfbufs_take(struct percpu_sfbufs *s, size_t quarantine)
{
	bool has_room = s->made < (PERCPU_SFBUF_FIRST << s->blocks) - PERCPU_SFBUF_FIRST;
	struct percpu_sfbuf_item *b;

	if (s->empty.items <= quarantine && (has_room || grow_sfbufs(s) == 0)) {
		b = item_at(s, s->made);
		b->sf.page = PERCPU_SFBUF_NO_PAGE;
		__atomic_store_n(&s->made, s->made + 1, __ATOMIC_RELEASE);
		return b;
	}
	b = s->empty.oldest;
	if (b != NULL)
		percpu_sfbufs_remove(&s->empty, b);
	return b;
}

struct percpu_window *percpu_sfbufs_detach(struct percpu_sfbufs *s, struct percpu_sfbuf_item *b)
{
	struct percpu_window *w = b->window;

	b->window = NULL;
	percpu_sfbufs_leave(s, b);
	percpu_sfbufs_add(&s->empty, b);
	return w;
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
		struct percpu_sfbuf_item *b = item_at(s, i);

		b->inherited = percpu_sfbuf_refs(b);
		if (b->inherited != 0 && b->state == PERCPU_SFBUF_FILLING) {
			percpu_sfbufs_leave(s, b);
			b->error = -EIO;
			b->state = PERCPU_SFBUF_FAILED;
		}
	}
}
