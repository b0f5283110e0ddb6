/* SPDX-License-Identifier: MIT */
/*
 * grow.c - how a region gets its chunks.
 *
 * A new chunk is complete in the file before the header of the first chunk counts it, so
 * a process may be killed at any point.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

static void describe(const struct percpu_region *r, uint32_t index, struct percpu_chunk *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->region = (struct percpu_region *)r;
	ret->lane_size = r->lane_size;
	ret->stride = percpu_stride(r->lane_size);
	ret->cpus = r->cpus;
	ret->index = index;
	ret->shared = r->shared;
}

/* Enter the chunk by its index, and in the hash table by its address. */
static void enter_chunk(struct percpu_chunk_table *t, uint32_t index, struct percpu_chunk *k)
{
	size_t mask = 2 * (size_t)t->size - 1, i = percpu_chunk_hash(k->base);

	t->at[index] = k;
	while (t->at[t->size + (i & mask)] != NULL)
		i++;
	__atomic_store_n(&t->at[t->size + (i & mask)], k, __ATOMIC_RELEASE);
}

/* Return a copy of the table with room for twice the chunks; NULL if there is no memory. For a
 * new region, old is NULL. */
static struct percpu_chunk_table *larger_table(struct percpu_chunk_table *old)
{
	uint32_t size = old != NULL ? 2 * old->size : 1;
	struct percpu_chunk_table *t = calloc(1, sizeof(*t) + 3 * (size_t)size * sizeof(t->at[0]));

	if (t == NULL)
		return NULL;
	t->older = old;
	t->size = size;
	for (uint32_t i = 0; old != NULL && i < old->size; i++)
		enter_chunk(t, i, old->at[i]);
	return t;
}

static int append(struct percpu_region *r, struct percpu_chunk *k)
{
	struct percpu_chunk_table *t = r->chunks;

	if (t == NULL || r->n == t->size) {
		t = larger_table(t);
		if (t == NULL)
			return -ENOMEM;
		__atomic_store_n(&r->chunks, t, __ATOMIC_RELEASE);
	}
	if (r->n == 0)
		r->first = k;
	enter_chunk(t, r->n, k);
	__atomic_store_n(&r->n, r->n + 1, __ATOMIC_RELEASE);
	return 0;
}

int percpu_region_map_first(struct percpu_region *r, int fd)
{
	bool grows = r->shared && r->capacity > 1;
	struct percpu_chunk t;
	int e;

	describe(r, 0, &t);
	if (r->memory != NULL) {
		r->spare = percpu_chunk_init_in(&t, r->memory);
		return 0;
	}
	e = percpu_chunk_map(&t, fd, r->writable, grows, &r->spare);
	if (e == 0 && grows)
		r->seed = percpu_chunk_seed(r->spare);
	return e;
}

/* Map the next chunk as the spare chunk, unless there is one. In a file this needs no
 * descriptor: percpu_chunk_unfold() makes the chunk from the page behind the last one. */
static int map_next(struct percpu_region *r)
{
	bool grows = r->n + 1 < r->capacity;
	struct percpu_chunk t;
	int e;

	if (r->spare != NULL)
		return 0;
	if (r->n == r->capacity)
		return -ENOSPC;
	describe(r, r->n, &t);
	if (!r->shared)
		return percpu_chunk_map(&t, -1, true, false, &r->spare);
	e = percpu_chunk_unfold(&t, &r->seed, grows, &r->spare);
	if (e == 0 && grows)
		r->seed = percpu_chunk_seed(r->spare);
	return e;
}

int percpu_region_append_spare(struct percpu_region *r)
{
	int e = append(r, r->spare);

	if (e == 0)
		r->spare = NULL;
	return e;
}

int percpu_region_append_image(struct percpu_region *r)
{
	struct percpu_chunk t;
	int e;

	describe(r, r->n, &t);
	e = percpu_chunk_map(&t, -1, true, false, &r->spare);
	return e != 0 ? e : percpu_region_append_spare(r);
}

void percpu_region_commit(struct percpu_region *r, uint32_t index)
{
	struct percpu_chunk t;

	describe(r, index, &t);
	percpu_chunk_commit(&t, r->chunks->at[index]);
}

/* Commit a chunk that was decommitted. Return NULL if there is none. */
static struct percpu_chunk *recommit(struct percpu_region *r)
{
	for (uint32_t i = 0; !r->shared && i < r->n; i++)
		if (!percpu_chunk_is_committed(r->chunks->at[i])) {
			percpu_region_commit(r, i);
			return r->chunks->at[i];
		}
	return NULL;
}

/* Make another chunk. */
static int add_chunk(struct percpu_region *r)
{
	int e = map_next(r);

	if (e == 0 && r->shared)
		percpu_chunk_numa(r->spare);
	if (e == 0)
		e = percpu_chunk_format(r->spare);
	if (e == 0)
		e = percpu_region_append_spare(r);
	if (e == 0)
		__atomic_store_n(&r->first->header->chunks, r->n, __ATOMIC_RELEASE);
	return e;
}

int percpu_region_grow(struct percpu_region *r, struct percpu_chunk **ret)
{
	struct percpu_chunk *k = recommit(r);
	int e = k != NULL ? percpu_chunk_format(k) : add_chunk(r);

	if (e == 0)
		*ret = k != NULL ? k : r->chunks->at[r->n - 1];
	return e;
}

int percpu_header_check(const struct percpu_header *h, uint32_t index)
{
	if (h->magic != PERCPU_MAGIC)
		return -EBADMSG;
	if ((uint16_t)h->version != PERCPU_FORMAT_MAJOR)
		return -EPROTO;
	if (h->index != index || h->lane_size == 0 || h->lane_size > PERCPU_LONGEST_LANE ||
	    h->cpus == 0)
		return -EBADMSG;
	if (h->lane_size > PERCPU_MAX_LANE)
		return -ENOMEM; /* for processes with more address space than this one */
	if (h->lane_size % percpu_unit(h->lane_size) != 0)
		return -EBADMSG;
	if (h->stride != percpu_stride(h->lane_size) || h->cpus > PERCPU_MAX_CPUS)
		return -EPROTO;
	return 0;
}

/* Append the next chunk, which the file's header says is complete. Check that the file is long
 * enough, and that the chunk has the region's geometry. */
static int append_existing(struct percpu_region *r)
{
	struct percpu_header h;
	int e;

	if (r->n == r->capacity)
		return -EBADMSG;
	e = map_next(r);
	if (e != 0)
		return e;
	e = percpu_chunk_read_header(r->spare, &h);
	if (e == 0)
		e = percpu_header_check(&h, r->n);
	if (e == 0 && (h.lane_size != r->lane_size || h.cpus != r->cpus))
		e = -EBADMSG;
	return e != 0 ? e : percpu_region_append_spare(r);
}

int percpu_region_refresh(struct percpu_region *r)
{
	uint32_t there =
		r->shared ? __atomic_load_n(&r->first->header->chunks, __ATOMIC_ACQUIRE) : r->n;
	int e = 0;

	while (r->n < there && e == 0)
		e = append_existing(r);
	return e;
}

int percpu_region_reach(struct percpu_region *r, uint64_t index)
{
	int e = percpu_region_refresh(r);

	if (index < r->n)
		return 0;
	return e == 0 || e == -EBADMSG || e == -EPROTO ? -ENOENT : e;
}
