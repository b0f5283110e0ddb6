/* SPDX-License-Identifier: MIT */
/*
 * block.c - how objects are created, attached to and destroyed.
 *
 * Each object is a block of memory. A private object that is larger than a lane of the default
 * region gets a region of its own. A struct percpu_plan has what differs between objects.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* Inline functions that programs compiled with another version read these. */
_Static_assert(offsetof(struct percpu_block, base) == 0, "ABI");
_Static_assert(offsetof(struct percpu_block, stride) == sizeof(void *), "ABI");
_Static_assert(sizeof(struct percpu_block) == 5 * sizeof(void *), "ABI");

/* Return a copy of the plan's handle, or `instead` if the object has no handle; NULL if there is
 * no memory. */
static struct percpu_block *new_handle(const struct percpu_plan *p, struct percpu_block *instead)
{
	struct percpu_block *b = p->handle_size != 0 ? malloc(p->handle_size) : instead;

	if (b != NULL && p->handle_size != 0)
		memcpy(b, p->handle, p->handle_size);
	return b;
}

static void drop_handle(struct percpu_block *b, const struct percpu_block *instead)
{
	if (b != instead)
		free(b);
}

/* Store the handle in *ret, a pointer to the object's type. Use memcpy(), because for statistics
 * the program chooses that type (PERCPU_STATS). */
static void hand_out(const struct percpu_plan *p, struct percpu_block *b, void *ret)
{
	const void *handle = p->handle_size != 0 ? (void *)b : b->base;

	memcpy(ret, &handle, sizeof(handle));
}

static void fill_in_block(const struct percpu_plan *p, struct percpu_region *r,
			  struct percpu_region *own, void *cell, struct percpu_block *b)
{
	b->base = cell;
	b->chunk = percpu_region_chunk(r, cell);
	b->stride = b->chunk->stride;
	b->size = p->size;
	b->own = own;
	if (p->complete != NULL)
		p->complete(b);
}

/* Make a new object from the cells. */
static void start_block(const struct percpu_plan *p, struct percpu_region *r,
			struct percpu_region *own, void *cell, struct percpu_block *b)
{
	fill_in_block(p, r, own, cell, b);
	if (own == NULL) /* an earlier object may have been there */
		percpu_chunk_clear(b->chunk, (size_t)(b->base - b->chunk->base), p->touched,
				   p->size);
	if (p->start != NULL)
		p->start(b);
}

static int create_block(struct percpu_region *r, struct percpu_region *own,
			const struct percpu_plan *p, void *ret)
{
	struct percpu_block instead, *b = new_handle(p, &instead);
	void *cell;
	int e;

	if (b == NULL)
		return -ENOMEM;
	e = percpu_region_alloc_narrow(r, p->size, p->touched, p->align, &cell);
	if (e != 0) {
		drop_handle(b, &instead);
		return e;
	}
	start_block(p, r, own, cell, b);
	hand_out(p, b, ret);
	return 0;
}

int percpu_block_create_in(struct percpu_region *r, const struct percpu_plan *p, void *ret)
{
	return r != NULL && ret != NULL && p->size != 0 ? create_block(r, NULL, p, ret) : -EINVAL;
}

/* Create the object in a region of its own, which is closed with the object. */
static int create_large(const struct percpu_plan *p, void *ret)
{
	struct percpu_region *r;
	int e = percpu_region_create_for(p->size, &r);

	if (e != 0)
		return e;
	e = create_block(r, r, p, ret);
	if (e != 0)
		percpu_region_close(r);
	else if (p->touched < p->size)
		percpu_chunk_small_pages(r->first, p->touched);
	return e;
}

int percpu_block_create(const struct percpu_plan *p, void *ret)
{
	struct percpu_region *r;
	int e;

	if (ret == NULL || p->size == 0)
		return -EINVAL;
	if (p->size > PERCPU_LANE_SIZE)
		return create_large(p, ret);
	e = percpu_region_default(&r);
	return e != 0 ? e : create_block(r, NULL, p, ret);
}

/* Let the plan adopt the layout that the object at the key records. */
static int adopt(struct percpu_region *r, uint64_t key, struct percpu_plan *p)
{
	struct percpu_block found;
	void *cell;
	int e = percpu_region_attach(r, key, p->kind, PERCPU_BLOCK_ALIGN, p->align, &cell);

	if (e != 0)
		return e;
	found = (struct percpu_block){ .base = cell, .chunk = percpu_region_chunk(r, cell) };
	return p->adopt(&found, p);
}

int percpu_block_attach(struct percpu_region *r, uint64_t key, struct percpu_plan *p, void *ret)
{
	struct percpu_block instead, *b;
	void *cell;
	int e;

	if (r == NULL || ret == NULL || p->size == 0)
		return -EINVAL;
	e = p->adopt != NULL ? adopt(r, key, p) : 0;
	if (e == 0)
		e = percpu_region_attach(r, key, p->kind, p->size, p->align, &cell);
	if (e != 0)
		return e;
	b = new_handle(p, &instead);
	if (b == NULL)
		return -ENOMEM;
	fill_in_block(p, r, NULL, cell, b);
	hand_out(p, b, ret);
	return 0;
}

/* Store the key in the anchor's word. Returns 0, or -EEXIST if the word has a key by now. */
static int anchor_key(struct percpu_anchor *at, uint64_t key)
{
	uint64_t none = 0;

	/* Acquire, because a caller that finds another key may attach to its object. */
	return __atomic_compare_exchange_n(at->word, &none, key, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE) ?
		       0 :
		       -EEXIST;
}

/* Create the object, and store its key in the anchor's word. Returns -EEXIST if the word has a key
 * by now. The lock of the allocator is held for both steps. So another process that wants to
 * create the object waits. If the next lock holder finds the creation noted, but no key in the
 * word, it knows that the creator was killed. */
static int create_at(struct percpu_region *r, struct percpu_anchor *at, const struct percpu_plan *p,
		     void *ret)
{
	struct percpu_block instead, *b = new_handle(p, &instead);
	struct percpu_robust h;
	void *cell;
	int e;

	if (b == NULL)
		return -ENOMEM;
	e = percpu_region_alloc_at(r, at, p->size, p->touched, p->align, &h, &cell);
	if (e == 0) {
		start_block(p, r, NULL, cell, b);
		PERCPU_STEP("root: object created");
		e = anchor_key(at, percpu_region_object_key(b->chunk, p->kind, cell));
		PERCPU_STEP("root: set");
		percpu_region_unlock(r, &h);
	}
	if (e == 0)
		hand_out(p, b, ret);
	else
		drop_handle(b, &instead);
	return e;
}

int percpu_block_open_at(struct percpu_region *r, struct percpu_anchor *at, struct percpu_plan *p,
			 void *ret)
{
	uint64_t key = __atomic_load_n(at->word, __ATOMIC_ACQUIRE);
	int e;

	PERCPU_STEP("root: looked up");
	if (key == 0) {
		e = r->writable ? create_at(r, at, p, ret) : -ENOENT;
		if (e != -EEXIST)
			return e;
		key = __atomic_load_n(at->word, __ATOMIC_ACQUIRE);
	}
	e = percpu_block_attach(r, key, p, ret);
	return e == -ENOENT ? -EEXIST : e; /* the word leads to another object */
}

int percpu_block_open(struct percpu_region *r, unsigned root, struct percpu_plan *p, void *ret)
{
	struct percpu_anchor at;

	if (r == NULL || ret == NULL || root >= PERCPU_REGION_ROOTS || !r->shared)
		return -EINVAL;
	at = percpu_root_anchor(r, root);
	return percpu_block_open_at(r, &at, p, ret);
}

uint64_t percpu_block_key(const void *handle, enum percpu_kind kind)
{
	const struct percpu_block *b = handle;

	return b != NULL ? percpu_region_object_key(b->chunk, kind, b->base) : 0;
}

void percpu_block_destroy(void *handle)
{
	struct percpu_block *b = handle;

	if (b == NULL)
		return;
	if (b->own != NULL)
		percpu_region_close(b->own);
	else
		(void)percpu_region_free(b->chunk->region, b->base, b->size);
	free(b);
}
