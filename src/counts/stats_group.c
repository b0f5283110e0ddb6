/* SPDX-License-Identifier: MIT */
/*
 * stats_group.c - groups of statistics: creation, and updates that were not inlined.
 * stats_group_alloc.c has objects that come and go, stats_group_read.c reads.
 *
 * In a CPU lane each of two banks has a struct percpu_group_lane and the objects behind it. One bank
 * at a time counts. In the bias lane bank 1 is the same, and has what is subtracted from each
 * object; the control block is in place of bank 0. Atomic lanes are not used.
 *
 * value = sum of both banks in all CPU lanes - bias
 *
 * A thread without sequences takes the lock of the chunk, and changes the biases as a sequence
 * changes a CPU lane: arch/spec_group.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"

#define GROUP_FIELD sizeof(uint64_t)
#define GROUP_PAIR (2 * sizeof(uint64_t))
#define GROUP_MAX_LANE (PERCPU_MAX_LANE / 2)

_Static_assert(offsetof(struct percpu_stats_group, block) == 0, "begins every handle");
_Static_assert(sizeof(struct percpu_group_lane) == 32, "sequences know it");
_Static_assert(sizeof(struct percpu_stats_group_control) <= 32 + 2 * GROUP_PAIR, "fits a bank");

/* Creation */

static int check_group(size_t size, size_t totals, size_t n)
{
	if (size == 0 || size % GROUP_FIELD != 0 || totals == 0 || totals > n || n > INT32_MAX ||
	    size > GROUP_MAX_LANE / 4 / n)
		return -EINVAL;
	return size / GROUP_FIELD > PERCPU_STATS_MAX_COMMIT ? -E2BIG : 0;
}

/* The control block with its bits and numbers fits into a bank: a bank has 64 bytes at least in front
 * of its objects, and an object takes 16, which is more than its number and its share of the bits. */
static void lay_out_group(struct percpu_stats_group *g, size_t size, size_t totals, size_t n)
{
	memset(g, 0, sizeof(*g));
	g->words = size / GROUP_FIELD;
	g->record = (size + GROUP_PAIR - 1) / GROUP_PAIR * GROUP_PAIR;
	g->head = sizeof(struct percpu_group_lane) + 2 * g->record;
	g->n = n;
	g->totals = totals;
	g->banks = (g->head + n * g->record + PERCPU_BLOCK_ALIGN - 1) / PERCPU_BLOCK_ALIGN *
		   PERCPU_BLOCK_ALIGN;
}

static void start_group(struct percpu_block *b)
{
	const struct percpu_stats_group *g = (struct percpu_stats_group *)b;
	struct percpu_stats_group_control *c = percpu_stats_group_control(g);

	c->size = g->words * GROUP_FIELD;
	c->n = g->n;
	c->totals = (uint32_t)g->totals;
	c->hint = c->totals;
	for (size_t i = 0; i < g->totals; i++)
		c->in_use[i / 64] |= UINT64_C(1) << (i % 64);
}

static void complete_group(struct percpu_block *b)
{
	struct percpu_stats_group *g = (struct percpu_stats_group *)b;

	if (b->chunk->region->writable)
		g->vector = percpu_vector_words() < 4 ? 2 : 4;
	g->bank = &percpu_stats_group_control(g)->bank;
}

/* Another process may damage the control block, so this process's layout comes from its caller, and
 * must be the same. */
static int adopt_group(const struct percpu_block *found, struct percpu_plan *p)
{
	const struct percpu_stats_group_control *c =
		(const struct percpu_stats_group_control *)percpu_block_bias(found);
	const struct percpu_stats_group *g = p->handle;

	return __atomic_load_n(&c->size, __ATOMIC_RELAXED) == g->words * GROUP_FIELD &&
			       __atomic_load_n(&c->n, __ATOMIC_RELAXED) == g->n &&
			       __atomic_load_n(&c->totals, __ATOMIC_RELAXED) == g->totals ?
		       0 :
		       -ENOENT;
}

static int plan_group(size_t size, size_t totals, size_t n, struct percpu_stats_group *t,
		      struct percpu_plan *ret)
{
	int e = check_group(size, totals, n);

	if (e != 0)
		return e;
	lay_out_group(t, size, totals, n);
	*ret = (struct percpu_plan){
		.kind = PERCPU_KIND_STATS_GROUP,
		.size = 2 * t->banks,
		.touched = 2 * t->banks,
		.align = PERCPU_BLOCK_ALIGN,
		.handle = t,
		.handle_size = sizeof(*t),
		.start = start_group,
		.complete = complete_group,
		.adopt = adopt_group,
	};
	return 0;
}

int percpu_stats_group_create(size_t size, size_t totals, size_t n, struct percpu_stats_group **ret)
{
	struct percpu_stats_group t;
	struct percpu_plan p;
	int e = plan_group(size, totals, n, &t, &p);

	return e != 0 ? e : percpu_block_create(&p, ret);
}

int percpu_stats_group_create_in(struct percpu_region *r, size_t size, size_t totals, size_t n,
				 struct percpu_stats_group **ret)
{
	struct percpu_stats_group t;
	struct percpu_plan p;
	int e = plan_group(size, totals, n, &t, &p);

	return e != 0 ? e : percpu_block_create_in(r, &p, ret);
}

int percpu_stats_group_attach(struct percpu_region *r, uint64_t key, size_t size, size_t totals,
			      size_t n, struct percpu_stats_group **ret)
{
	struct percpu_stats_group t;
	struct percpu_plan p;
	int e = plan_group(size, totals, n, &t, &p);

	return e != 0 ? e : percpu_block_attach(r, key, &p, ret);
}

int percpu_stats_group_open(struct percpu_region *r, unsigned root, size_t size, size_t totals,
			    size_t n, struct percpu_stats_group **ret)
{
	struct percpu_stats_group t;
	struct percpu_plan p;
	int e = plan_group(size, totals, n, &t, &p);

	return e != 0 ? e : percpu_block_open(r, root, &p, ret);
}

uint64_t percpu_stats_group_key(const struct percpu_stats_group *g)
{
	return percpu_block_key(g, PERCPU_KIND_STATS_GROUP);
}

void percpu_stats_group_detach(struct percpu_stats_group *g)
{
	free(g);
}

void percpu_stats_group_destroy(struct percpu_stats_group *g)
{
	percpu_block_destroy(g);
}

/* Changes of the biases, under the lock */

static uint64_t *object_of(const struct percpu_stats_group *g, struct percpu_group_lane *l,
			   size_t i)
{
	return (uint64_t *)((char *)l + g->head + i * g->record);
}

/* Store words to an object or to the saved words. Release: a reader that loads one of them also finds
 * what was stored before. */
static void store_words(const struct percpu_stats_group *g, uint64_t *to, const uint64_t *from)
{
	for (size_t w = 0; w < g->words; w++) {
		__atomic_store_n(&to[w], from[w], __ATOMIC_RELEASE);
		PERCPU_STEP("group: stored");
	}
}

/* Store back what the objects had before the open change. Another process may have damaged their
 * numbers. */
static void undo_change(const struct percpu_stats_group *g, struct percpu_group_lane *l,
			uint64_t names)
{
	const size_t a = percpu_group_first(names), b = percpu_group_second(names);

	if (a < g->n && b < g->n) {
		store_words(g, object_of(g, l, a), percpu_group_saved(g, l, 0));
		store_words(g, object_of(g, l, b), percpu_group_saved(g, l, 1));
	}
	__atomic_store_n(&l->turn, l->turn + 1, __ATOMIC_RELEASE);
}

int percpu_stats_group_lock(const struct percpu_stats_group *g, struct percpu_robust *h)
{
	struct percpu_group_lane *l = percpu_stats_group_biases(g);
	int e = percpu_journal_lock(g->block.chunk, h);
	uint64_t names;

	if (e != 0)
		return e;
	names = __atomic_load_n(&l->names, __ATOMIC_RELAXED);
	if (percpu_group_is_open(l->turn, names))
		undo_change(g, l, names);
	return 0;
}

/* Save what both objects have, and open the change. */
static void open_change(const struct percpu_stats_group *g, struct percpu_group_lane *l, size_t a,
			size_t b)
{
	store_words(g, l->old, object_of(g, l, a));
	store_words(g, l->old + g->record / GROUP_FIELD, object_of(g, l, b));
	__atomic_store_n(&l->names, percpu_group_names(a, b) | ((l->turn + 1) & 1),
			 __ATOMIC_RELEASE);
	PERCPU_STEP("group: open");
}

static void add_to_object(const struct percpu_stats_group *g, uint64_t *object, const uint64_t *n)
{
	uint64_t sum[PERCPU_STATS_MAX_COMMIT];

	for (size_t w = 0; w < g->words; w++)
		sum[w] = object[w] + n[w];
	store_words(g, object, sum);
}

void percpu_stats_group_change(const struct percpu_stats_group *g, size_t a, const uint64_t *na,
			       size_t b, const uint64_t *nb)
{
	struct percpu_group_lane *l = percpu_stats_group_biases(g);

	open_change(g, l, a, b);
	add_to_object(g, object_of(g, l, a), na);
	add_to_object(g, object_of(g, l, b), nb);
	__atomic_store_n(&l->turn, l->turn + 1, __ATOMIC_RELEASE);
	PERCPU_STEP("group: changed");
}

/* Updates that were not inlined, or whose sequence was aborted */

static int check_group_update(const struct percpu_stats_group *g, size_t a, size_t b, size_t words)
{
	if (a >= g->n || b >= g->n || words != g->words)
		return -EINVAL;
	return g->block.chunk->region->writable ? 0 : -EROFS;
}

/* Add the pairs of words at n to objects a and b by a sequence. */
static int update_group_once(const struct percpu_stats_group *g, size_t a, size_t b,
			     const percpu_words2 *n)
{
	const struct percpu_block *k = &g->block;
	const uint64_t names = percpu_group_names(a, b);
	const size_t at = g->head + a * g->record, bt = g->head + b * g->record;

	if (g->words <= 2)
		return percpu_seq_group_update2(k->base, k->stride, g->bank, g->banks, names, at,
						bt, n[0], n[1]);
	if (g->words <= g->vector)
		return percpu_seq_group_update4(k->base, k->stride, g->bank, g->banks, names, at,
						bt, n[0], n[2], n[1], n[3]);
	return percpu_seq_group_update(k->base, k->stride, g->bank, g->banks, names, at, bt, n,
				       g->record);
}

/* Return SLOW for a try that may succeed next time, because what stood in the way was undone. */
static int try_group_update(const struct percpu_stats_group *g, size_t a, size_t b,
			    const percpu_words2 *n)
{
	const struct percpu_block *k = &g->block;
	int r = update_group_once(g, a, b, n);

	if (r != PERCPU_SEQ_REFUSED)
		return r;
	(void)percpu_seq_group_undo(k->base, k->stride, g->bank, g->banks, g->head, g->n,
				    g->record);
	return PERCPU_SEQ_SLOW;
}

static int update_by_lock(const struct percpu_stats_group *g, size_t a, const uint64_t *na,
			  size_t b, const uint64_t *nb)
{
	uint64_t da[PERCPU_STATS_MAX_COMMIT], db[PERCPU_STATS_MAX_COMMIT];
	struct percpu_robust h;
	int e = percpu_stats_group_lock(g, &h);

	if (e != 0)
		return e;
	for (size_t w = 0; w < g->words; w++) {
		da[w] = -na[w]; /* the bias is subtracted */
		db[w] = -nb[w];
	}
	percpu_stats_group_change(g, a, da, b, db);
	percpu_robust_unlock(&h);
	return 0;
}

int percpu_stats_group_update_slow(const struct percpu_stats_group *g, size_t a, const uint64_t *na,
				   size_t b, const uint64_t *nb, size_t words)
{
	percpu_words2 n[PERCPU_STATS_MAX_COMMIT]; /* a pair for a, and one for b, and so on */
	int r = PERCPU_SEQ_SLOW, e = check_group_update(g, a, b, words);

	if (e != 0)
		return e;
	for (size_t i = 0; i < words; i += 2) {
		n[i] = percpu_stats_words2(na, i, words);
		n[i + 1] = percpu_stats_words2(nb, i, words);
	}
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = try_group_update(g, a, b, n);
	return r == 0 ? 0 : update_by_lock(g, a, na, b, nb);
}
