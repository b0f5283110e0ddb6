/* SPDX-License-Identifier: MIT */
/*
 * counter.c - counters: creation, reads, resets, and adds that no sequence committed.
 */
#include <errno.h>

#include "counts.h"

static struct percpu_chunk *chunk_of(const struct percpu_counter *c, size_t *ret_offset)
{
	struct percpu_chunk *k = percpu_chunk_of(c);

	*ret_offset = (size_t)((const char *)c - k->base);
	return k;
}

/* A handle is the address in lane 0 and needs no memory. */
static const struct percpu_plan plan_counter = {
	.kind = PERCPU_KIND_COUNTER,
	.size = sizeof(uint64_t),
	.touched = sizeof(uint64_t),
	.align = sizeof(uint64_t),
};

/* Return whether counters can be in the region: percpu_chunk_of() needs the default geometry. */
static bool takes_counters(const struct percpu_region *r)
{
	return r != NULL && percpu_region_has_default_lanes(r);
}

int percpu_counter_create(struct percpu_counter **ret)
{
	return percpu_block_create(&plan_counter, ret);
}

int percpu_counter_create_in(struct percpu_region *r, struct percpu_counter **ret)
{
	return takes_counters(r) ? percpu_block_create_in(r, &plan_counter, ret) : -EINVAL;
}

int percpu_counter_attach(struct percpu_region *r, uint64_t key, struct percpu_counter **ret)
{
	struct percpu_plan p = plan_counter;

	return takes_counters(r) ? percpu_block_attach(r, key, &p, ret) : -EINVAL;
}

int percpu_counter_open(struct percpu_region *r, unsigned root, struct percpu_counter **ret)
{
	struct percpu_plan p = plan_counter;

	return takes_counters(r) ? percpu_block_open(r, root, &p, ret) : -EINVAL;
}

int percpu_counter_open_at(struct percpu_region *r, struct percpu_anchor *at,
			   struct percpu_counter **ret)
{
	struct percpu_plan p = plan_counter;

	return percpu_block_open_at(r, at, &p, ret);
}

uint64_t percpu_counter_key(const struct percpu_counter *c)
{
	return c != NULL ? percpu_region_object_key(percpu_chunk_of(c), PERCPU_KIND_COUNTER, c) : 0;
}

void percpu_counter_detach(struct percpu_counter *c)
{
	(void)c; /* the handle has no memory */
}

void percpu_counter_destroy(struct percpu_counter *c)
{
	struct percpu_region *r = c != NULL ? percpu_region_find(c) : NULL;

	if (r != NULL && percpu_region_has_default_lanes(r))
		(void)percpu_region_free(r, c, sizeof(uint64_t));
}

static void add_to_atomic_lane(struct percpu_counter *c, int64_t n)
{
	size_t offset;
	struct percpu_chunk *k = chunk_of(c, &offset);

	percpu_chunk_add_atomic(k, offset, n);
}

static __attribute__((noinline)) void retry_add(struct percpu_counter *c, int64_t n)
{
	int r = PERCPU_SEQ_SLOW;

	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_add(c, PERCPU_STRIDE, n);
	if (r != 0)
		add_to_atomic_lane(c, n);
}

void percpu_counter_add_slow(struct percpu_counter *c, int64_t n)
{
	if (percpu_seq_never())
		add_to_atomic_lane(c, n);
	else
		retry_add(c, n);
}

uint64_t percpu_counter_fetch(const struct percpu_counter *c)
{
	const struct percpu_chunk *k;
	size_t offset;

	if (c == NULL)
		return 0;
	k = chunk_of(c, &offset);
	return percpu_chunk_sum(k, offset);
}

uint64_t percpu_counter_fetch_zero(struct percpu_counter *c)
{
	struct percpu_chunk *k;
	size_t offset;

	if (c == NULL)
		return 0;
	k = chunk_of(c, &offset);
	return percpu_chunk_reset(k, offset);
}

void percpu_counter_zero(struct percpu_counter *c)
{
	(void)percpu_counter_fetch_zero(c);
}

/* Static counters: a word takes the adds until a counter is created. The value is their sum. */

int percpu_static_counter_setup(struct percpu_static_counter *s)
{
	struct percpu_counter *c, *none = NULL;
	int e;

	if (__atomic_load_n(&s->counter, __ATOMIC_ACQUIRE) != NULL)
		return 0;
	e = percpu_counter_create(&c);
	if (e != 0)
		return e;
	PERCPU_STEP("static counter created");
	if (!__atomic_compare_exchange_n(&s->counter, &none, c, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		percpu_counter_destroy(c);
	return 0;
}

void percpu_static_counter_teardown(struct percpu_static_counter *s)
{
	struct percpu_counter *c = __atomic_exchange_n(&s->counter, NULL, __ATOMIC_ACQ_REL);

	if (c == NULL)
		return;
	__atomic_fetch_add(&s->early, percpu_counter_fetch(c), __ATOMIC_RELAXED);
	percpu_counter_destroy(c);
}

uint64_t percpu_static_counter_fetch(const struct percpu_static_counter *s)
{
	struct percpu_counter *c = __atomic_load_n(&s->counter, __ATOMIC_ACQUIRE);
	uint64_t early = __atomic_load_n(&s->early, __ATOMIC_RELAXED);

	return early + percpu_counter_fetch(c);
}

uint64_t percpu_static_counter_fetch_zero(struct percpu_static_counter *s)
{
	struct percpu_counter *c = __atomic_load_n(&s->counter, __ATOMIC_ACQUIRE);
	uint64_t early = __atomic_exchange_n(&s->early, 0, __ATOMIC_RELAXED);

	return early + percpu_counter_fetch_zero(c);
}

void percpu_static_counter_zero(struct percpu_static_counter *s)
{
	(void)percpu_static_counter_fetch_zero(s);
}
