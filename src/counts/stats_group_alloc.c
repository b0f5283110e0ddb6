/* SPDX-License-Identifier: MIT */
/*
 * stats_group_alloc.c - objects of groups of statistics that come and go.
 *
 * A bit for each object says whether it is in use. All changes are made under the lock of the chunk
 * that updates without sequences take, too. A free object keeps what is added to it late, and has a
 * total's number; the next allocation moves what it finds to that total.
 *
 * To free an object, a thread first stores the object's number in "freed". If it is killed, the next
 * thread that takes the lock completes that.
 */
#include <errno.h>
#include <string.h>

#include "counts.h"

/* Return where the control block has the total of each object. */
static uint32_t *totals_of_objects(const struct percpu_stats_group *g)
{
	return (uint32_t *)&percpu_stats_group_control(g)->in_use[(g->n + 63) / 64];
}

static bool object_is_in_use(const struct percpu_stats_group_control *c, size_t i)
{
	return (__atomic_load_n(&c->in_use[i / 64], __ATOMIC_RELAXED) >> (i % 64) & 1) != 0;
}

static void set_object_in_use(struct percpu_stats_group_control *c, size_t i, bool value)
{
	const uint64_t bit = UINT64_C(1) << (i % 64);
	const uint64_t now = __atomic_load_n(&c->in_use[i / 64], __ATOMIC_RELAXED);

	__atomic_store_n(&c->in_use[i / 64], value ? now | bit : now & ~bit, __ATOMIC_RELEASE);
}

/* Move what the object has to its total. Another process may have damaged the total's number; then
 * any total will do. Returns 0 or -EAGAIN. */
static int move_to_total(const struct percpu_stats_group *g, size_t i)
{
	struct percpu_stats_group_control *c = percpu_stats_group_control(g);
	const size_t to = __atomic_load_n(&totals_of_objects(g)[i], __ATOMIC_RELAXED) % g->totals;
	uint64_t has[PERCPU_STATS_MAX_COMMIT], gets[PERCPU_STATS_MAX_COMMIT], any = 0;
	int e = percpu_stats_group_sum(g, i, 1, has);

	if (e != 0)
		return e;
	for (size_t w = 0; w < g->words; w++) {
		any |= has[w];
		gets[w] = -has[w]; /* the bias is subtracted */
	}
	if (any == 0)
		return 0;
	__atomic_store_n(&c->moves, c->moves + 1, __ATOMIC_RELEASE);
	percpu_stats_group_change(g, i, has, to, gets);
	return 0;
}

/* Complete the free of the object whose number is in "freed". Returns 0 or -EAGAIN. */
static int complete_free(const struct percpu_stats_group *g)
{
	struct percpu_stats_group_control *c = percpu_stats_group_control(g);
	const size_t i = __atomic_load_n(&c->freed, __ATOMIC_RELAXED) - UINT64_C(1);
	int e = 0;

	if (i >= g->totals && i < g->n) {
		set_object_in_use(c, i, false);
		PERCPU_STEP("group: not in use");
		e = move_to_total(g, i);
	}
	if (e == 0)
		__atomic_store_n(&c->freed, 0, __ATOMIC_RELAXED);
	return e;
}

int percpu_stats_group_lock_all(const struct percpu_stats_group *g, struct percpu_robust *h)
{
	int e = percpu_stats_group_lock(g, h);

	if (e != 0)
		return e;
	if (__atomic_load_n(&percpu_stats_group_control(g)->freed, __ATOMIC_RELAXED) != 0)
		e = complete_free(g);
	if (e != 0)
		percpu_robust_unlock(h);
	return e;
}

/* Return a free object's number, from the hint on, or g->n. */
static size_t find_free_object(const struct percpu_stats_group *g)
{
	const struct percpu_stats_group_control *c = percpu_stats_group_control(g);
	size_t hint = __atomic_load_n(&c->hint, __ATOMIC_RELAXED), i;

	if (hint < g->totals || hint >= g->n)
		hint = g->totals;
	i = percpu_next_bit(c->in_use, hint, g->n, false);
	if (i == g->n && hint > g->totals) {
		i = percpu_next_bit(c->in_use, g->totals, hint, false);
		if (i == hint)
			i = g->n;
	}
	return i;
}

static int alloc_group_object(const struct percpu_stats_group *g, size_t *ret)
{
	struct percpu_stats_group_control *c = percpu_stats_group_control(g);
	const size_t i = find_free_object(g);
	int e;

	if (i == g->n)
		return -ENOSPC;
	e = move_to_total(g, i);
	if (e != 0)
		return e;
	PERCPU_STEP("group: to be in use");
	set_object_in_use(c, i, true);
	__atomic_store_n(&c->hint, (uint32_t)(i + 1), __ATOMIC_RELAXED);
	*ret = i;
	return 0;
}

static int free_group_object(const struct percpu_stats_group *g, size_t i, size_t to)
{
	struct percpu_stats_group_control *c = percpu_stats_group_control(g);

	if (!object_is_in_use(c, i))
		return -EINVAL;
	__atomic_store_n(&totals_of_objects(g)[i], (uint32_t)to, __ATOMIC_RELAXED);
	PERCPU_STEP("group: to be freed");
	__atomic_store_n(&c->freed, (uint32_t)(i + 1), __ATOMIC_RELEASE);
	PERCPU_STEP("group: freed");
	/* It is free now. If its words change too fast to be read, the next thread completes that. */
	(void)complete_free(g);
	return 0;
}

/* Begin a change that readers must not see a part of: take the turn and the lock. */
static int begin_group_change(const struct percpu_stats_group *g, uint32_t *ret_me,
			      struct percpu_robust *h)
{
	uint32_t *reader = &percpu_stats_group_control(g)->reader;
	int e;

	if (!g->block.chunk->region->writable)
		return -EROFS;
	*ret_me = percpu_turn_id(g->block.chunk->region);
	percpu_turn_wait(reader, *ret_me);
	e = percpu_stats_group_lock_all(g, h);
	if (e != 0)
		percpu_turn_end(reader, *ret_me);
	return e;
}

static void end_group_change(const struct percpu_stats_group *g, uint32_t me,
			     struct percpu_robust *h)
{
	percpu_robust_unlock(h);
	percpu_turn_end(&percpu_stats_group_control(g)->reader, me);
}

int percpu_stats_group_alloc(const struct percpu_stats_group *g, size_t *ret)
{
	struct percpu_robust h;
	uint32_t me;
	int e;

	if (g == NULL || ret == NULL)
		return -EINVAL;
	e = begin_group_change(g, &me, &h);
	if (e != 0)
		return e;
	e = alloc_group_object(g, ret);
	end_group_change(g, me, &h);
	return e;
}

int percpu_stats_group_free(const struct percpu_stats_group *g, size_t i, size_t to)
{
	struct percpu_robust h;
	uint32_t me;
	int e;

	if (g == NULL || i < g->totals || i >= g->n || to >= g->totals)
		return -EINVAL;
	e = begin_group_change(g, &me, &h);
	if (e != 0)
		return e;
	e = free_group_object(g, i, to);
	end_group_change(g, me, &h);
	return e;
}
