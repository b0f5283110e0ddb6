/* SPDX-License-Identifier: MIT */
/*
 * root.c - the roots of a region, where processes find keys; and the notes of objects that are
 * being created at a root, or for a word of the bias lane.
 */
#include <errno.h>

#include "memory.h"

struct percpu_anchor percpu_root_anchor(const struct percpu_region *r, unsigned root)
{
	return (struct percpu_anchor){ .word = &r->first->header->root[root], .root = root };
}

/* Return what percpu_header.creation is while an object with this key is created at the root. */
static uint64_t creation_of(unsigned root, uint64_t key)
{
	return (uint64_t)root << PERCPU_KEY_KIND_SHIFT | (key & PERCPU_KEY_CELL);
}

void percpu_creation_note(const struct percpu_region *r, const struct percpu_anchor *at,
			  const void *base)
{
	struct percpu_header *h = r->first->header;
	const uint64_t key = percpu_region_key(r, base);

	if (at->root < PERCPU_REGION_ROOTS) {
		__atomic_store_n(&h->creation, creation_of(at->root, key), __ATOMIC_RELEASE);
	} else {
		__atomic_store_n(&h->placed_at, at->word_key, __ATOMIC_RELEASE);
		__atomic_store_n(&h->placed, key, __ATOMIC_RELEASE);
	}
	PERCPU_STEP("region: creation noted");
}

/* Return the chunk of a key of kind 0, and its offset in *ret; NULL if there is no such place.
 * Another process may have damaged the key. */
static struct percpu_chunk *chunk_at(const struct percpu_region *r, uint64_t key, size_t *ret)
{
	uint64_t index = (key >> PERCPU_KEY_CHUNK_SHIFT) - 1;
	uint64_t offset = key & ((UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT) - 1);

	if (index >= r->n || offset >= r->lane_size)
		return NULL;
	*ret = (size_t)offset;
	return r->chunks->at[index];
}

static void take_back(struct percpu_region *r, uint64_t key)
{
	size_t offset;
	struct percpu_chunk *k = chunk_at(r, key, &offset);

	if (k != NULL)
		percpu_region_free_there(k, offset);
}

/* Return the word of the bias lane at this place; NULL if there is no such word. */
static const uint64_t *word_at(const struct percpu_region *r, uint64_t word_key)
{
	size_t offset;
	const struct percpu_chunk *k = chunk_at(r, word_key, &offset);

	if (k == NULL || offset % sizeof(uint64_t) != 0)
		return NULL;
	return (const uint64_t *)percpu_chunk_bias(k, offset);
}

static const uint64_t *root_at(const struct percpu_header *h, uint64_t root)
{
	return root < PERCPU_REGION_ROOTS ? &h->root[root] : NULL;
}

/* Free the noted object unless the word leads to it. The caller holds the lock under which the
 * object was created, so its creator is done, or was killed. The word may have led to the object
 * before: a process that changes a root then clears the note first. So look at the note again
 * before freeing. */
static void recover_note(struct percpu_region *r, uint64_t *note, const uint64_t *word)
{
	uint64_t noted = __atomic_load_n(note, __ATOMIC_ACQUIRE), there = 0;

	if (noted == 0)
		return;
	PERCPU_STEP("region: creation found");
	if (word != NULL)
		there = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	if (((there ^ noted) & PERCPU_KEY_CELL) != 0 &&
	    __atomic_load_n(note, __ATOMIC_ACQUIRE) == noted)
		take_back(r, noted & PERCPU_KEY_CELL);
	PERCPU_STEP("region: creation recovered");
	__atomic_store_n(note, 0, __ATOMIC_RELEASE);
}

void percpu_creation_recover(struct percpu_region *r)
{
	struct percpu_header *h = r->first->header;

	recover_note(r, &h->creation,
		     root_at(h, __atomic_load_n(&h->creation, __ATOMIC_ACQUIRE) >>
					PERCPU_KEY_KIND_SHIFT));
	recover_note(r, &h->placed, word_at(r, __atomic_load_n(&h->placed_at, __ATOMIC_ACQUIRE)));
}

/* Note the object as one that is being created. Once the key is cleared, it is freed like an object
 * whose key was never set, even if this process is killed meanwhile. */
void percpu_anchor_free(struct percpu_region *r, const struct percpu_anchor *at)
{
	struct percpu_header *h = r->first->header;
	const uint64_t key = __atomic_load_n(at->word, __ATOMIC_ACQUIRE);

	if (key == 0)
		return;
	__atomic_store_n(&h->placed_at, at->word_key, __ATOMIC_RELEASE);
	__atomic_store_n(&h->placed, key, __ATOMIC_RELEASE);
	PERCPU_STEP("region: end noted");
	__atomic_store_n(at->word, 0, __ATOMIC_RELEASE);
	PERCPU_STEP("region: key cleared");
	percpu_process_lock();
	percpu_creation_recover(r);
	percpu_process_unlock();
}

/* Clear the note of an object whose key is at the root: its creation is complete. If its creator
 * was killed, the note is still there. The next lock holder would free the object once the root
 * no longer leads to it. */
static void end_creation(struct percpu_header *h, unsigned root, uint64_t key)
{
	uint64_t noted = creation_of(root, key);

	if (__atomic_load_n(&h->root[root], __ATOMIC_ACQUIRE) == key)
		(void)__atomic_compare_exchange_n(&h->creation, &noted, 0, false, __ATOMIC_RELEASE,
						  __ATOMIC_RELAXED);
}

int percpu_region_set_root(struct percpu_region *r, unsigned root, uint64_t expected, uint64_t key)
{
	if (r == NULL || root >= PERCPU_REGION_ROOTS)
		return -EINVAL;
	if (!r->writable)
		return -EROFS;
	if (expected != 0)
		end_creation(r->first->header, root, expected);
	/* Acquire, because a caller that finds another key may attach to its object. */
	return __atomic_compare_exchange_n(&r->first->header->root[root], &expected, key, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ?
		       0 :
		       -EEXIST;
}

uint64_t percpu_region_root(const struct percpu_region *r, unsigned root)
{
	if (r == NULL || root >= PERCPU_REGION_ROOTS)
		return 0;
	return __atomic_load_n(&r->first->header->root[root], __ATOMIC_ACQUIRE);
}
