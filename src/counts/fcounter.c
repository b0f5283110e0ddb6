/* SPDX-License-Identifier: MIT */
/*
 * fcounter.c - counters of doubles, single and in arrays. The handle of a single counter is the
 * address of its cell in lane 0. A key leads to one or more cells; it is the same kind of key for
 * a single counter and for an array.
 */
#include <errno.h>
#include <stdlib.h>

#include "counts.h"

#define FCELL sizeof(double)

_Static_assert(offsetof(struct percpu_fcounter_array, block) == 0, "begins every handle");

static const struct percpu_plan plan_fcounter = {
	.kind = PERCPU_KIND_FCOUNTER,
	.size = FCELL,
	.touched = FCELL,
	.align = FCELL,
};

/* Return whether single counters can be in the region: percpu_chunk_of() needs the default
 * geometry. */
static bool takes_fcounters(const struct percpu_region *r)
{
	return r != NULL && percpu_region_has_default_lanes(r);
}

int percpu_fcounter_create(struct percpu_fcounter **ret)
{
	return percpu_block_create(&plan_fcounter, ret);
}

int percpu_fcounter_create_in(struct percpu_region *r, struct percpu_fcounter **ret)
{
	return takes_fcounters(r) ? percpu_block_create_in(r, &plan_fcounter, ret) : -EINVAL;
}

int percpu_fcounter_attach(struct percpu_region *r, uint64_t key, struct percpu_fcounter **ret)
{
	struct percpu_plan p = plan_fcounter;

	return takes_fcounters(r) ? percpu_block_attach(r, key, &p, ret) : -EINVAL;
}

int percpu_fcounter_open(struct percpu_region *r, unsigned root, struct percpu_fcounter **ret)
{
	struct percpu_plan p = plan_fcounter;

	return takes_fcounters(r) ? percpu_block_open(r, root, &p, ret) : -EINVAL;
}

int percpu_fcounter_open_at(struct percpu_region *r, struct percpu_anchor *at,
			    struct percpu_fcounter **ret)
{
	struct percpu_plan p = plan_fcounter;

	return percpu_block_open_at(r, at, &p, ret);
}

uint64_t percpu_fcounter_key(const struct percpu_fcounter *c)
{
	return c != NULL ? percpu_region_object_key(percpu_chunk_of(c), PERCPU_KIND_FCOUNTER, c) :
			   0;
}

void percpu_fcounter_detach(struct percpu_fcounter *c)
{
	(void)c; /* the handle has no memory */
}

void percpu_fcounter_destroy(struct percpu_fcounter *c)
{
	struct percpu_region *r = c != NULL ? percpu_region_find(c) : NULL;

	if (r != NULL && percpu_region_has_default_lanes(r))
		(void)percpu_region_free(r, c, FCELL);
}

static size_t fcounter_offset(const struct percpu_chunk *k, const void *cell)
{
	return (size_t)((const char *)cell - k->base);
}

/* Add n after the inline sequence was aborted or refused. */
static int add_slowly(struct percpu_chunk *k, char *cell, double n)
{
	int r = PERCPU_SEQ_SLOW;

	if (!percpu_double_is_number(n))
		return -EDOM;
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_add_double(cell, k->stride, n);
	if (r == PERCPU_SEQ_SLOW)
		return percpu_double_add_atomic(k, fcounter_offset(k, cell), n);
	return r == PERCPU_SEQ_REFUSED ? -ERANGE : 0;
}

int percpu_fcounter_add_slow(struct percpu_fcounter *c, double n)
{
	return add_slowly(percpu_chunk_of(c), (char *)c, n);
}

double percpu_fcounter_fetch(const struct percpu_fcounter *c)
{
	const struct percpu_chunk *k;

	if (c == NULL)
		return 0;
	k = percpu_chunk_of(c);
	return percpu_double_sum(k, fcounter_offset(k, c));
}

double percpu_fcounter_fetch_zero(struct percpu_fcounter *c)
{
	struct percpu_chunk *k;

	if (c == NULL)
		return 0;
	k = percpu_chunk_of(c);
	return percpu_double_reset(k, fcounter_offset(k, c));
}

void percpu_fcounter_zero(struct percpu_fcounter *c)
{
	(void)percpu_fcounter_fetch_zero(c);
}

/* Arrays */

static struct percpu_plan plan_farray(size_t n, struct percpu_fcounter_array *a)
{
	*a = (struct percpu_fcounter_array){ .n = n };
	return (struct percpu_plan){
		.kind = PERCPU_KIND_FCOUNTER,
		.size = percpu_lane_bytes(n, FCELL),
		.touched = n * FCELL,
		.align = FCELL,
		.handle = a,
		.handle_size = sizeof(*a),
	};
}

int percpu_fcounter_array_create(size_t n, struct percpu_fcounter_array **ret)
{
	struct percpu_fcounter_array a;
	struct percpu_plan p = plan_farray(n, &a);

	return percpu_block_create(&p, ret);
}

int percpu_fcounter_array_create_in(struct percpu_region *r, size_t n,
				    struct percpu_fcounter_array **ret)
{
	struct percpu_fcounter_array a;
	struct percpu_plan p = plan_farray(n, &a);

	return percpu_block_create_in(r, &p, ret);
}

int percpu_fcounter_array_attach(struct percpu_region *r, uint64_t key, size_t n,
				 struct percpu_fcounter_array **ret)
{
	struct percpu_fcounter_array a;
	struct percpu_plan p = plan_farray(n, &a);

	return percpu_block_attach(r, key, &p, ret);
}

int percpu_fcounter_array_open(struct percpu_region *r, unsigned root, size_t n,
			       struct percpu_fcounter_array **ret)
{
	struct percpu_fcounter_array a;
	struct percpu_plan p = plan_farray(n, &a);

	return percpu_block_open(r, root, &p, ret);
}

uint64_t percpu_fcounter_array_key(const struct percpu_fcounter_array *a)
{
	return percpu_block_key(a, PERCPU_KIND_FCOUNTER);
}

void percpu_fcounter_array_detach(struct percpu_fcounter_array *a)
{
	free(a);
}

void percpu_fcounter_array_destroy(struct percpu_fcounter_array *a)
{
	percpu_block_destroy(a);
}

static size_t farray_offset(const struct percpu_fcounter_array *a, size_t i)
{
	return fcounter_offset(a->block.chunk, a->block.base) + i * FCELL;
}

int percpu_fcounter_array_add_slow(const struct percpu_fcounter_array *a, size_t i, double n)
{
	return add_slowly(a->block.chunk, a->block.base + i * FCELL, n);
}

double percpu_fcounter_array_fetch(const struct percpu_fcounter_array *a, size_t i)
{
	return a != NULL && i < a->n ? percpu_double_sum(a->block.chunk, farray_offset(a, i)) : 0;
}

double percpu_fcounter_array_fetch_zero(struct percpu_fcounter_array *a, size_t i)
{
	return a != NULL && i < a->n ? percpu_double_reset(a->block.chunk, farray_offset(a, i)) : 0;
}

void percpu_fcounter_array_zero(struct percpu_fcounter_array *a, size_t i)
{
	(void)percpu_fcounter_array_fetch_zero(a, i);
}

void percpu_fcounter_array_fetch_all(const struct percpu_fcounter_array *a, double *out)
{
	if (a != NULL)
		percpu_double_sums(a->block.chunk, farray_offset(a, 0), a->n, out);
}
