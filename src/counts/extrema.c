/* SPDX-License-Identifier: MIT */
/*
 * extrema.c - minima and maxima: creation, and observations that no sequence made.
 * extrema_read.c reads and resets them.
 *
 * A reset ends an epoch and begins the next. Each CPU has two slots of extremes, which successive
 * epochs use in turn. A sequence replaces extremes of an earlier epoch that it finds in the slot.
 *
 * Threads that run no sequences share two pairs of words in the bias lane, {tag, max} and
 * {tag, min}. There are two of each, which successive epochs use in turn. A pair belongs to an
 * epoch if its tag is that epoch. One compare-and-swap changes one pair:
 *
 * - The first observation in an epoch sets the maximum. A maximum without a minimum is both.
 * - A thread that finds a maximum without a minimum sets the minimum first. If it raised the
 *   maximum first, the old one, which was the minimum, would be lost.
 * - From then on an observation raises the maximum, lowers the minimum, or changes nothing.
 *
 * A reset closes the pairs of the epoch that it ended: it replaces their tags by tags between
 * that epoch and the next. So a thread that still uses the old epoch cannot change what the reset
 * read. It notices that the epoch has ended, and tries again in the current one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"

/* In the flags of the control: pairs change under the journal's lock. */
#define JOURNAL 0x80000000

_Static_assert(offsetof(struct percpu_extrema, block) == 0, "begins every handle");
_Static_assert(sizeof(struct percpu_extremes) == PERCPU_EXTREMES, "epochs take turns");

/* Creation */

static void start_extrema(struct percpu_block *b)
{
	struct percpu_extrema *x = (struct percpu_extrema *)b;
	struct percpu_extrema_control *c = percpu_extrema_control(x);

	c->flags = x->kind == PERCPU_EXTREMA_STATE_DOUBLES ? PERCPU_EXTREMA_DOUBLE : 0;
	if (!percpu_pair_is_atomic())
		c->flags |= JOURNAL;
	/* New cells are of epoch 0. */
	c->outcome = c->epoch = PERCPU_EXTREMES;
}

static void complete_extrema(struct percpu_block *b)
{
	struct percpu_extrema *x = (struct percpu_extrema *)b;

	x->epoch = &percpu_extrema_control(x)->epoch;
	x->takes = b->chunk->region->writable ? x->kind : PERCPU_EXTREMA_STATE_NONE;
}

static uint32_t kind_of(uint32_t flags)
{
	return flags & PERCPU_EXTREMA_DOUBLE ? PERCPU_EXTREMA_STATE_DOUBLES :
					       PERCPU_EXTREMA_STATE_WORDS;
}

/* Load the kind that the creator wrote, and check it. PERCPU_EXTREMA_STATE_NONE in the plan's
 * handle accepts any kind. */
static int adopt_extrema(const struct percpu_block *found, struct percpu_plan *p)
{
	struct percpu_extrema *t = p->handle;
	const struct percpu_extrema there = { .block = *found };
	uint32_t flags = __atomic_load_n(&percpu_extrema_control(&there)->flags, __ATOMIC_RELAXED);

	if ((flags & ~(PERCPU_EXTREMA_DOUBLE | JOURNAL)) != 0 ||
	    (t->kind != PERCPU_EXTREMA_STATE_NONE && t->kind != kind_of(flags)))
		return -ENOENT;
	if (((flags & JOURNAL) == 0) != percpu_pair_is_atomic())
		return -ENOTSUP;
	t->kind = kind_of(flags);
	return 0;
}

static struct percpu_plan extrema_plan(struct percpu_extrema *t)
{
	return (struct percpu_plan){
		.kind = PERCPU_KIND_EXTREMA,
		.size = sizeof(struct percpu_extrema_control),
		.touched = 2 * sizeof(struct percpu_extremes),
		.align = PERCPU_BLOCK_ALIGN,
		.handle = t,
		.handle_size = sizeof(*t),
		.start = start_extrema,
		.complete = complete_extrema,
		.adopt = adopt_extrema,
	};
}

static bool knows(unsigned flags)
{
	return (flags & ~(unsigned)PERCPU_EXTREMA_DOUBLE) == 0;
}

int percpu_extrema_create(unsigned flags, struct percpu_extrema **ret)
{
	struct percpu_extrema t = { .kind = kind_of(flags) };
	struct percpu_plan p = extrema_plan(&t);

	return knows(flags) ? percpu_block_create(&p, ret) : -EINVAL;
}

int percpu_extrema_create_in(struct percpu_region *r, unsigned flags, struct percpu_extrema **ret)
{
	struct percpu_extrema t = { .kind = kind_of(flags) };
	struct percpu_plan p = extrema_plan(&t);

	return knows(flags) ? percpu_block_create_in(r, &p, ret) : -EINVAL;
}

int percpu_extrema_open(struct percpu_region *r, unsigned root, unsigned flags,
			struct percpu_extrema **ret)
{
	struct percpu_extrema t = { .kind = kind_of(flags) };
	struct percpu_plan p = extrema_plan(&t);

	return knows(flags) ? percpu_block_open(r, root, &p, ret) : -EINVAL;
}

int percpu_extrema_open_at(struct percpu_region *r, struct percpu_anchor *at, unsigned flags,
			   struct percpu_extrema **ret)
{
	struct percpu_extrema t = { .kind = kind_of(flags) };
	struct percpu_plan p = extrema_plan(&t);

	return percpu_block_open_at(r, at, &p, ret);
}

int percpu_extrema_attach(struct percpu_region *r, uint64_t key, struct percpu_extrema **ret)
{
	struct percpu_extrema t = { .kind = PERCPU_EXTREMA_STATE_NONE };
	struct percpu_plan p = extrema_plan(&t);

	return percpu_block_attach(r, key, &p, ret);
}

void percpu_extrema_detach(struct percpu_extrema *x)
{
	free(x);
}

uint64_t percpu_extrema_key(const struct percpu_extrema *x)
{
	return percpu_block_key(x, PERCPU_KIND_EXTREMA);
}

int percpu_extrema_is_double(const struct percpu_extrema *x)
{
	return x != NULL && x->kind == PERCPU_EXTREMA_STATE_DOUBLES;
}

void percpu_extrema_destroy(struct percpu_extrema *x)
{
	percpu_block_destroy(x);
}

/* Observations */

/* One step of an observation: the change of one pair of an epoch. */
struct change {
	bool of_max;		     /* of the maximum, not the minimum */
	bool done;		     /* after it, the pairs include v */
	struct percpu_pair_value to; /* the new value of the pair */
};

/* Choose the next change so that the pairs include v. Returns false if they do. */
static bool choose_change(const struct percpu_pair_value *max, const struct percpu_pair_value *min,
			  uint64_t epoch, int64_t v, struct change *ret)
{
	const int64_t highest = (int64_t)max->second, lowest = (int64_t)min->second;
	struct change c = { .of_max = true, .done = true, .to = { epoch, (uint64_t)v } };

	if (max->first == epoch && min->first != epoch) {
		c.of_max = false;
		c.done = v <= highest;
		c.to.second = (uint64_t)(v < highest ? v : highest);
	} else if (max->first == epoch && v < lowest) {
		c.of_max = false;
	} else if (max->first == epoch && v <= highest) {
		return false;
	}
	*ret = c;
	return true;
}

/* Make one change so that the pairs of the epoch include v. Returns 0 if they do, -EAGAIN if
 * another thread changed the pairs or one more change is needed, -ESTALE if the epoch has ended, or
 * -ETIMEDOUT. */
static int try_pairs(const struct percpu_extrema *x, uint64_t epoch, int64_t v)
{
	struct percpu_pair_value max, min;
	struct change change;
	int e = percpu_extrema_load(x, epoch, true, &max);

	PERCPU_STEP("extrema: maximum loaded");
	if (e == 0)
		e = percpu_extrema_load(x, epoch, false, &min);
	if (e != 0)
		return e;
	PERCPU_STEP("extrema: pairs loaded");
	if (max.first > epoch || min.first > epoch)
		return -ESTALE;
	if (!choose_change(&max, &min, epoch, v, &change))
		return 0;
	e = percpu_extrema_cmpxchg(x, epoch, change.of_max, change.of_max ? &max : &min, change.to);
	return e != 0 || change.done ? e : -EAGAIN;
}

int percpu_extrema_observe_in(const struct percpu_extrema *x, uint64_t epoch, int64_t v)
{
	int e = -EAGAIN;

	for (unsigned try = 0; try < PERCPU_EXTREMA_TRIES && e == -EAGAIN; try++)
		e = try_pairs(x, epoch, v);
	return e == -EAGAIN ? -ETIMEDOUT : e;
}

static int observe_shared(const struct percpu_extrema *x, int64_t v)
{
	int e = -ESTALE;

	for (unsigned try = 0; try < PERCPU_EXTREMA_TRIES && e == -ESTALE; try++)
		e = percpu_extrema_observe_in(x, __atomic_load_n(x->epoch, __ATOMIC_ACQUIRE), v);
	return e == -ESTALE ? -ETIMEDOUT : e;
}

int percpu_extrema_observe_slow(const struct percpu_extrema *x, uint32_t kind, int64_t v)
{
	int r = PERCPU_SEQ_SLOW;

	if (kind == PERCPU_EXTREMA_STATE_NONE)
		return x->kind == PERCPU_EXTREMA_STATE_DOUBLES ? -EDOM : -EINVAL;
	if (kind != x->kind)
		return -EINVAL;
	if (x->takes != kind)
		return -EROFS;
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_widen(x->block.base, x->block.stride, x->epoch, v);
	return r != PERCPU_SEQ_SLOW ? 0 : observe_shared(x, v);
}
