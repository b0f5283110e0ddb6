/* SPDX-License-Identifier: MIT */
/*
 * root.c - the roots of a region: keys that processes find without being told; and the note
 * of an object that is being created at one.
 */
#include <errno.h>

#include "memory.h"

/* What percpu_header.creation is while an object with this key is created at the root. */
static uint64_t creation_of(unsigned root, uint64_t key)
{
	return (uint64_t)root << PERCPU_KEY_KIND_SHIFT | (key & PERCPU_KEY_PLACE);
}

void percpu_creation_note(const struct percpu_region *r, unsigned root, const void *base)
{
	__atomic_store_n(&r->first->header->creation, creation_of(root, percpu_region_key(r, base)),
			 __ATOMIC_RELEASE);
	PERCPU_STEP("region: creation noted");
}

/* Another process may have damaged the key. */
static void take_back(struct percpu_region *r, uint64_t key)
{
	uint64_t index = (key >> PERCPU_KEY_CHUNK_SHIFT) - 1;
	uint64_t offset = key & ((UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT) - 1);

	if (index < r->n && offset < r->lane_size)
		percpu_region_free_there(r->chunks->at[index], (size_t)offset);
}

/* Whoever created the object had the lock that the caller has now. If the root does not lead
 * to the object, free it. It may have done so before: who changes the root then first makes
 * the note void, so it is looked at once more. */
void percpu_creation_settle(struct percpu_region *r)
{
	uint64_t *creation = &r->first->header->creation;
	uint64_t noted = __atomic_load_n(creation, __ATOMIC_ACQUIRE), there;
	unsigned root = (unsigned)(noted >> PERCPU_KEY_KIND_SHIFT);

	if (noted == 0)
		return;
	PERCPU_STEP("region: creation found");
	there = creation_of(root, percpu_region_root(r, root));
	if (there != noted && __atomic_load_n(creation, __ATOMIC_ACQUIRE) == noted)
		take_back(r, noted & PERCPU_KEY_PLACE);
	PERCPU_STEP("region: creation settled");
	__atomic_store_n(creation, 0, __ATOMIC_RELEASE);
}

/* An object that is at the root has been created. It was written down as one that is being
 * created, to be freed if the root does not lead to it. If its creator was killed, that is
 * still there, and must not be when the root is changed. */
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
