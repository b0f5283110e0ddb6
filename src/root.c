/* SPDX-License-Identifier: MIT */
/*
 * root.c - the roots of a region: what processes find in it that have told each
 * other no key. The first one that looks for an object creates it.
 */
#include <errno.h>

#include "internal.h"

int percpu_region_set_root(struct percpu_region *r, unsigned root, uint64_t expected, uint64_t key)
{
	if (r == NULL || root >= PERCPU_REGION_ROOTS)
		return -EINVAL;
	if (!r->writable)
		return -EROFS;
	/* Acquire: who finds another key there may follow it. */
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

/* The key at the root; 0 if there is none, and the caller may create the object. */
static int look_up_root(const struct percpu_region *r, unsigned root, const void *ret,
			uint64_t *ret_key)
{
	if (r == NULL || ret == NULL || root >= PERCPU_REGION_ROOTS || !r->shared)
		return -EINVAL;
	*ret_key = percpu_region_root(r, root);
	if (*ret_key == 0 && !r->writable)
		return -ENOENT;
	PERCPU_STEP("root: looked up");
	return 0;
}

/* Have the key at the root, unless there is one: then returns false, and that one. */
static bool publish_root(struct percpu_region *r, unsigned root, uint64_t *key)
{
	bool first;

	PERCPU_STEP("root: object created");
	first = percpu_region_set_root(r, root, 0, *key) == 0;
	PERCPU_STEP("root: set");
	if (!first)
		*key = percpu_region_root(r, root);
	return first;
}

/* Something is at the root, but not what was asked for. */
static int explain_root(int e)
{
	return e == -ENOENT ? -EEXIST : e;
}

int percpu_counter_array_open(struct percpu_region *r, unsigned root, size_t n,
			      struct percpu_counter_array **ret)
{
	struct percpu_counter_array *a;
	uint64_t key;
	int e = look_up_root(r, root, ret, &key);

	if (e == 0 && key == 0) {
		e = percpu_counter_array_create_in(r, n, &a);
		if (e != 0)
			return e;
		key = percpu_counter_array_key(a);
		if (publish_root(r, root, &key)) {
			*ret = a;
			return 0;
		}
		percpu_counter_array_destroy(a); /* another process was first */
	}
	return e != 0 ? e : explain_root(percpu_counter_array_attach(r, key, n, ret));
}

int percpu_compact_open(struct percpu_region *r, unsigned root, size_t n,
			struct percpu_compact **ret)
{
	struct percpu_compact *c;
	uint64_t key;
	int e = look_up_root(r, root, ret, &key);

	if (e == 0 && key == 0) {
		e = percpu_compact_create_in(r, n, &c);
		if (e != 0)
			return e;
		key = percpu_compact_key(c);
		if (publish_root(r, root, &key)) {
			*ret = c;
			return 0;
		}
		percpu_compact_destroy(c);
	}
	return e != 0 ? e : explain_root(percpu_compact_attach(r, key, n, ret));
}

int percpu_stats_open(struct percpu_region *r, unsigned root, size_t size, size_t n, unsigned flags,
		      struct percpu_stats **ret)
{
	struct percpu_stats *s;
	uint64_t key;
	int e = look_up_root(r, root, ret, &key);

	if (e == 0 && key == 0) {
		e = percpu_stats_create_in(r, size, n, flags, &s);
		if (e != 0)
			return e;
		key = percpu_stats_key(s);
		if (publish_root(r, root, &key)) {
			*ret = s;
			return 0;
		}
		percpu_stats_destroy(s);
	}
	return e != 0 ? e : explain_root(percpu_stats_attach(r, key, size, n, flags, ret));
}
