/* SPDX-License-Identifier: MIT */
/*
 * root.c - the roots of a region: keys that processes find without being told.
 */
#include <errno.h>

#include "memory.h"

int percpu_region_set_root(struct percpu_region *r, unsigned root, uint64_t expected, uint64_t key)
{
	if (r == NULL || root >= PERCPU_REGION_ROOTS)
		return -EINVAL;
	if (!r->writable)
		return -EROFS;
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
