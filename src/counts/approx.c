/* SPDX-License-Identifier: MIT */
/*
 * approx.c - approximate sums and sums with a limit: creation and reads. approx_add.c has the
 * adds that no sequence committed.
 *
 * Each CPU lane holds a word and its center. The control block in the bias lane holds the base
 * (what was added outside the lanes, minus what was reset) and the approximate sum, from which
 * the highest possible sum follows.
 *
 *	exact sum = sum of the words + base
 *	highest = sum of the centers + a batch for each CPU + base
 *	approximate sum = highest - a batch for each CPU
 *
 * While a lane is open, only sequences of its CPU change its word or its center, and none lets
 * them get further apart than the batch. So the exact sum is not above the highest, and not
 * below it by more than two batches for each CPU.
 *
 * AN ADD is a sequence that adds to the word. If the word would get too far from its
 * center, the thread moves the center to the word:
 *
 *	try the lock of the chunk's journal; busy = 1
 *	d = word - center of this CPU
 *	up:	highest += d, if a limit allows it
 *		sequence: center of the lane += d, if it stays within a batch of the word
 *		highest -= d, if the sequence did not commit
 *	down:	the sequence; highest += d, if it committed
 *	busy = 0; unlock
 *
 * Then it tries again. While a thread moves a center, and after it is killed in the middle, the
 * highest is at most a batch too high, and never too low. A thread that finds busy set when it
 * gets the lock knows that the last holder was killed in the middle. It sums the centers again.
 *
 * An add goes to the base and to the highest, by one compare-and-swap of both, if it still does
 * not fit, if its thread did not get the lock, or if its thread cannot run sequences. So no add
 * waits for the lock. An add is never moved, so a killed thread loses none.
 *
 * ADDS BELOW A LIMIT keep this condition true once it is true:
 *
 *	highest <= limit
 *
 * While it is true, any add that its lane takes is below the limit. A thread that raises the
 * highest checks and changes it by one compare-and-swap. The check depends on the value alone,
 * so it does no harm if the highest changed and came back in between.
 *
 * NEAR THE LIMIT the highest is too high to decide by. Then a thread closes the lanes:
 *
 *	lock; state = closing; move each center far away from its word; unlock
 *	fence
 *	lock; if the state is still that: highest = exact sum; state = closed; unlock
 *
 * No sequence commits an add after the fence. From then on all adds go to the base, the highest
 * is the exact sum, and the check is exact, for an add and for a refusal. When the sum is away
 * from the limit again, the next add opens the lanes: it raises the highest by a batch for each
 * CPU, if there is room, and sets each center to its word. A thread that is killed while it
 * closes or opens the lanes leaves busy set. The next holder of the lock closes them again.
 *
 * On machines that cannot change two words at once the lanes stay closed. There the words and
 * the base stay 0, and the highest is the sum.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"

#define MAX_BATCH (INT64_C(1) << 40)

_Static_assert(offsetof(struct percpu_approx, block) == 0, "begins every handle");
_Static_assert(sizeof(struct percpu_approx_control) == PERCPU_BLOCK_ALIGN, "adopt() may read it");
static struct percpu_approx_control *approx_control(const struct percpu_block *b)
{
	return (struct percpu_approx_control *)percpu_block_bias(b);
}

static int read_approx_options(const struct percpu_approx_options *o, struct percpu_approx *a)
{
	struct percpu_approx_options opt;

	memset(a, 0, sizeof(*a));
	if (percpu_options_read(&opt, sizeof(opt), o) != 0 || opt.batch < 0 ||
	    opt.batch > MAX_BATCH)
		return -EINVAL;
	a->reach = (uint64_t)opt.batch;
	return 0;
}

static void start_approx(struct percpu_block *b)
{
	struct percpu_approx *a = (struct percpu_approx *)b;

	a->control->batch = a->reach;
	if (percpu_pair_is_atomic())
		return;
	percpu_approx_close(a);
	a->control->middle = 0 - a->slack; /* the highest is the exact sum */
}

static void complete_approx(struct percpu_block *b)
{
	struct percpu_approx *a = (struct percpu_approx *)b;

	if (a->reach == 0) /* a new sum with the default batch */
		a->reach = PERCPU_APPROX_BATCH;
	a->slack = a->reach * b->chunk->cpus;
	a->control = approx_control(b);
	/* Otherwise all adds take the slow path, which refuses them. */
	if (b->chunk->region->writable)
		a->span = 2 * a->reach + 1;
}

/* Load the batch that the creator wrote, once, and check it: another process may have damaged
 * it since. A reach of 0 in the plan's handle accepts any batch. */
static int adopt_approx(const struct percpu_block *found, struct percpu_plan *p)
{
	uint64_t batch = __atomic_load_n(&approx_control(found)->batch, __ATOMIC_RELAXED);
	struct percpu_approx *wanted = p->handle;

	if (batch == 0 || batch > MAX_BATCH || (wanted->reach != 0 && wanted->reach != batch))
		return -ENOENT;
	wanted->reach = batch;
	return 0;
}

static struct percpu_plan plan_approx(struct percpu_approx *a)
{
	return (struct percpu_plan){
		.kind = PERCPU_KIND_APPROX,
		.size = sizeof(struct percpu_approx_control),
		.touched = 2 * sizeof(uint64_t),
		.align = PERCPU_BLOCK_ALIGN,
		.handle = a,
		.handle_size = sizeof(*a),
		.start = start_approx,
		.complete = complete_approx,
		.adopt = adopt_approx,
	};
}

int percpu_approx_create(const struct percpu_approx_options *o, struct percpu_approx **ret)
{
	struct percpu_approx a;
	struct percpu_plan p = plan_approx(&a);
	int e = read_approx_options(o, &a);

	return e != 0 ? e : percpu_block_create(&p, ret);
}

/* Return 0 if a sum can be in the region. Sequences need the default stride. Processes that
 * change pairs in different ways must not share a sum. */
static int check_approx_region(const struct percpu_region *r, const void *ret)
{
	if (r == NULL || ret == NULL || !percpu_region_has_default_lanes(r))
		return -EINVAL;
	return r->shared && !percpu_pair_is_atomic() ? -ENOTSUP : 0;
}

int percpu_approx_create_in(struct percpu_region *r, const struct percpu_approx_options *o,
			    struct percpu_approx **ret)
{
	struct percpu_approx a;
	struct percpu_plan p = plan_approx(&a);
	int e = read_approx_options(o, &a);

	if (e == 0)
		e = check_approx_region(r, ret);
	return e != 0 ? e : percpu_block_create_in(r, &p, ret);
}

int percpu_approx_open(struct percpu_region *r, unsigned root,
		       const struct percpu_approx_options *o, struct percpu_approx **ret)
{
	struct percpu_approx a;
	struct percpu_plan p = plan_approx(&a);
	int e = read_approx_options(o, &a);

	if (e == 0)
		e = check_approx_region(r, ret);
	return e != 0 ? e : percpu_block_open(r, root, &p, ret);
}

int percpu_approx_attach(struct percpu_region *r, uint64_t key, struct percpu_approx **ret)
{
	struct percpu_approx a = { .reach = 0 };
	struct percpu_plan p = plan_approx(&a);
	int e = check_approx_region(r, ret);

	return e != 0 ? e : percpu_block_attach(r, key, &p, ret);
}

uint64_t percpu_approx_key(const struct percpu_approx *a)
{
	return percpu_block_key(a, PERCPU_KIND_APPROX);
}

void percpu_approx_detach(struct percpu_approx *a)
{
	free(a);
}

void percpu_approx_destroy(struct percpu_approx *a)
{
	percpu_block_destroy(a);
}

/* Reading */

uint64_t percpu_approx_bound(const struct percpu_approx *a)
{
	return a != NULL ? a->slack + a->reach : 0;
}

uint64_t percpu_approx_batch(const struct percpu_approx *a)
{
	return a != NULL ? a->reach : 0;
}

uint64_t percpu_approx_words(const struct percpu_approx *a)
{
	const struct percpu_chunk *k = a->block.chunk;
	uint64_t sum = 0;

	percpu_sum_cpus(k, (size_t)(a->block.base - k->base), 1, &sum);
	PERCPU_STEP("approx: words summed");
	return sum;
}

/* Load the base first. Then the words, loaded later, contain all that the base subtracts, and a
 * sum that only grows never reads below 0. */
int64_t percpu_approx_fetch(const struct percpu_approx *a)
{
	uint64_t base;

	if (a == NULL)
		return 0;
	if (percpu_unlikely(!percpu_pair_is_atomic()))
		return percpu_approx_highest(a);
	base = __atomic_load_n(&a->control->base, __ATOMIC_ACQUIRE);
	return (int64_t)(percpu_approx_words(a) + base);
}

int percpu_approx_compare(const struct percpu_approx *a, int64_t v)
{
	int64_t sum = a != NULL ? percpu_approx_estimate(a) : 0, off;

	/* A difference that wraps says nothing. */
	if (__builtin_sub_overflow(sum, v, &off) ||
	    (off >= -(int64_t)percpu_approx_bound(a) && off <= (int64_t)percpu_approx_bound(a)))
		sum = percpu_approx_fetch(a);
	return sum < v ? -1 : sum > v;
}

/* Take the lock, so that no other reset runs between the sum of the words and the swap: it would
 * put adds into the base that this sum of the words lacks. Adds in between do no harm. */
int64_t percpu_approx_fetch_zero(const struct percpu_approx *a)
{
	struct percpu_robust h;
	uint64_t words;
	int64_t sum;
	int e;

	if (a == NULL || !a->block.chunk->region->writable)
		return percpu_approx_fetch(a);
	e = percpu_journal_lock(a->block.chunk, &h);
	words = percpu_approx_words(a);
	sum = percpu_approx_subtract(a, words);
	if (e == 0)
		percpu_robust_unlock(&h);
	return sum;
}

void percpu_approx_zero(const struct percpu_approx *a)
{
	(void)percpu_approx_fetch_zero(a);
}
