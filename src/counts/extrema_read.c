/* SPDX-License-Identifier: MIT */
/*
 * extrema_read.c - reading and resetting minima and maxima.
 *
 * A reset begins the next epoch and fences. After the fence no sequence stores to the epoch that
 * ended, and the reset reads what was observed in it. "outcome" is the state of that epoch:
 *
 *	DONE	the current epoch: a reset may begin the next epoch
 *	OPEN	the epoch before: the reset that ended it may take its extremes
 *	BACK	OPEN + GIVEN_BACK: that reset may not; the current epoch gets the extremes
 *
 * A reset ends when it swaps "outcome" from OPEN to DONE. A thread that wants to reset may find
 * OPEN: another reset is half done, because its thread was killed, stopped or got an error. It
 * then swaps OPEN for BACK, observes the extremes of the ended epoch in the current epoch, and
 * swaps BACK for DONE. Several threads may do that at once, because an observation that is made
 * again changes nothing. The reset whose extremes were given back starts again.
 *
 * To disturb each other rarely, resets take turns (turn.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "counts.h"

#define RESETS 8 /* attempts of a reset */
#define GIVEN_BACK 1

/* Tags of closed pairs: between the epoch that ended and the next. */
enum {
	CLOSED = 1,	  /* added to the epoch: the pair was of that epoch */
	CLOSED_EMPTY = 2, /* added to the epoch: it was not */
};

/** Extremes; empty if min is more than max. */
struct extremes {
	int64_t min, max;
};

static const struct extremes nothing = { INT64_MAX, INT64_MIN };

static void include(struct extremes *r, int64_t min, int64_t max)
{
	r->min = min < r->min ? min : r->min;
	r->max = max > r->max ? max : r->max;
}

static size_t pair_offset(const struct percpu_extrema *x, uint64_t epoch, bool of_max)
{
	return (size_t)(x->block.base - x->block.chunk->base) +
	       offsetof(struct percpu_extrema_control, pairs) + (epoch & PERCPU_EXTREMES) +
	       (of_max ? 0 : sizeof(struct percpu_pair_value));
}

int percpu_extrema_load(const struct percpu_extrema *x, uint64_t epoch, bool of_max,
			struct percpu_pair_value *ret)
{
	return percpu_pair_load(x->block.chunk, percpu_chunk_bias_lane(x->block.chunk),
				pair_offset(x, epoch, of_max), ret);
}

int percpu_extrema_cmpxchg(const struct percpu_extrema *x, uint64_t epoch, bool of_max,
			   struct percpu_pair_value *expected, struct percpu_pair_value v)
{
	return percpu_pair_cmpxchg(x->block.chunk, percpu_chunk_bias_lane(x->block.chunk),
				   pair_offset(x, epoch, of_max), expected, v);
}

/* Include the extremes in a slot if they are of this epoch. Acquire: a sequence stores the epoch
 * after min and max. */
static void read_slot(const struct percpu_extremes *p, uint64_t epoch, struct extremes *r)
{
	if (__atomic_load_n(&p->epoch, __ATOMIC_ACQUIRE) != epoch)
		return;
	PERCPU_STEP("extrema: epoch found");
	include(r, __atomic_load_n(&p->min, __ATOMIC_RELAXED),
		__atomic_load_n(&p->max, __ATOMIC_RELAXED));
}

static void read_cpus(const struct percpu_extrema *x, uint64_t epoch, struct extremes *r)
{
	const char *lane = x->block.base + (epoch & PERCPU_EXTREMES);

	for (uint32_t cpu = 0; cpu < x->block.chunk->cpus; cpu++, lane += x->block.stride)
		read_slot((const struct percpu_extremes *)lane, epoch, r);
}

void percpu_extrema_gather(void *to, const void *lane)
{
	const struct percpu_extremes *from = lane;
	struct percpu_extremes *all = to;

	for (int i = 0; i < 2; i++)
		if (from[i].epoch > all[i].epoch) {
			all[i] = from[i];
		} else if (from[i].epoch == all[i].epoch) {
			all[i].min = from[i].min < all[i].min ? from[i].min : all[i].min;
			all[i].max = from[i].max > all[i].max ? from[i].max : all[i].max;
		}
}

/* Include the pairs. A maximum without a minimum is both; without a maximum, nothing was
 * observed. */
static void include_pairs(struct extremes *r, bool has_max, uint64_t max, bool has_min,
			  uint64_t min)
{
	if (has_max)
		include(r, (int64_t)(has_min ? min : max), (int64_t)max);
}

/* Read the extremes of the current epoch. Returns 0, -EAGAIN if a reset came between, or
 * -ETIMEDOUT. */
static int try_read(const struct percpu_extrema *x, struct extremes *ret)
{
	const uint64_t epoch = __atomic_load_n(x->epoch, __ATOMIC_ACQUIRE);
	struct percpu_pair_value max, min;
	struct extremes r = nothing;
	int e = percpu_extrema_load(x, epoch, true, &max);

	if (e == 0)
		e = percpu_extrema_load(x, epoch, false, &min);
	if (e != 0)
		return e;
	include_pairs(&r, max.first == epoch, max.second, min.first == epoch, min.second);
	PERCPU_STEP("extrema: pairs read");
	read_cpus(x, epoch, &r);
	percpu_full_fence();
	if (__atomic_load_n(x->epoch, __ATOMIC_RELAXED) != epoch)
		return -EAGAIN;
	*ret = r;
	return 0;
}

/* Read the extremes. Returns 0 or -ETIMEDOUT. */
static int read_extremes(const struct percpu_extrema *x, struct extremes *ret)
{
	int e = -EAGAIN;

	for (unsigned try = 0; try < PERCPU_EXTREMA_TRIES && e == -EAGAIN; try++)
		e = try_read(x, ret);
	return e == -EAGAIN ? -ETIMEDOUT : e;
}

/* Close a pair of an epoch that has ended, unless it is closed. Returns 0 or -ETIMEDOUT. */
static int close_pair(const struct percpu_extrema *x, uint64_t epoch, bool of_max, bool *ret_has,
		      uint64_t *ret)
{
	struct percpu_pair_value p, closed;
	int e = percpu_extrema_load(x, epoch, of_max, &p);

	for (unsigned try = 0; try < PERCPU_EXTREMA_TRIES && p.first <= epoch && e == 0; try++) {
		closed = p;
		closed.first = epoch + (p.first == epoch ? CLOSED : CLOSED_EMPTY);
		e = percpu_extrema_cmpxchg(x, epoch, of_max, &p, closed);
		if (e == 0)
			p = closed;
		else if (e == -EAGAIN)
			e = 0;
	}
	if (e != 0)
		return e;
	*ret_has = p.first == epoch + CLOSED;
	*ret = p.second;
	return p.first <= epoch ? -ETIMEDOUT : 0;
}

static int fence_extrema(const struct percpu_extrema *x)
{
	int e = percpu_region_fence(x->block.chunk->region);

	PERCPU_STEP("extrema: fenced");
	return e;
}

/* Read what was observed in the epoch before this one. Returns 0, -EAGAIN if the next epoch has
 * begun, which uses the same slots, or another error. */
static int read_before(const struct percpu_extrema *x, uint64_t epoch, struct extremes *ret)
{
	const uint64_t ended = epoch - PERCPU_EXTREMES;
	struct extremes r = nothing;
	bool has_max, has_min;
	uint64_t max, min;
	int e = fence_extrema(x);

	if (e == 0)
		e = close_pair(x, ended, true, &has_max, &max);
	PERCPU_STEP("extrema: maximum closed");
	if (e == 0)
		e = close_pair(x, ended, false, &has_min, &min);
	if (e != 0)
		return e;
	include_pairs(&r, has_max, max, has_min, min);
	read_cpus(x, ended, &r);
	percpu_full_fence();
	if (__atomic_load_n(x->epoch, __ATOMIC_RELAXED) != epoch)
		return -EAGAIN;
	*ret = r;
	return 0;
}

static bool advance(uint64_t *word, uint64_t expected, uint64_t v)
{
	return __atomic_compare_exchange_n(word, &expected, v, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

/* Give the extremes that an unfinished reset left to the current epoch. Returns 0 or -errno. */
static int give_back(const struct percpu_extrema *x, struct percpu_extrema_control *c,
		     uint64_t epoch, uint64_t outcome)
{
	struct extremes r;
	int e;

	if (outcome == epoch - PERCPU_EXTREMES) {
		PERCPU_STEP("extrema: to be given back");
		if (!advance(&c->outcome, outcome, outcome + GIVEN_BACK))
			return -EAGAIN;
		outcome += GIVEN_BACK;
		PERCPU_STEP("extrema: given back");
	}
	e = read_before(x, epoch, &r);
	if (e == 0 && r.min <= r.max)
		e = percpu_extrema_observe_in(x, epoch, r.min);
	PERCPU_STEP("extrema: minimum given back");
	if (e == 0 && r.min <= r.max)
		e = percpu_extrema_observe_in(x, epoch, r.max);
	if (e == 0)
		(void)advance(&c->outcome, outcome, epoch);
	return e == -ESTALE ? -EAGAIN : e;
}

/* Reset once. Returns 0, -EAGAIN if another reset came between, or another error. */
static int try_reset(const struct percpu_extrema *x, struct extremes *ret)
{
	struct percpu_extrema_control *c = percpu_extrema_control(x);
	uint64_t epoch = __atomic_load_n(&c->epoch, __ATOMIC_ACQUIRE);
	uint64_t outcome = __atomic_load_n(&c->outcome, __ATOMIC_ACQUIRE), next;
	int e = outcome != epoch ? give_back(x, c, epoch, outcome) : 0;

	next = epoch + PERCPU_EXTREMES;
	PERCPU_STEP("extrema: epoch to end");
	if (e == 0 && !advance(&c->epoch, epoch, next))
		e = -EAGAIN;
	if (e != 0)
		return e;
	PERCPU_STEP("extrema: epoch ended");
	e = read_before(x, next, ret);
	PERCPU_STEP("extrema: read");
	if (e == 0 && !advance(&c->outcome, epoch, next))
		e = -EAGAIN;
	return e;
}

static int reset_extremes(const struct percpu_extrema *x, struct extremes *ret)
{
	uint32_t *turn, me;
	int e = -EAGAIN, cancel;

	if (x->takes == PERCPU_EXTREMA_STATE_NONE)
		return -EROFS;
	turn = &percpu_extrema_control(x)->turn;
	me = percpu_turn_id(x->block.chunk->region);
	cancel = percpu_defer_cancel();
	for (int try = 0; try < RESETS && e == -EAGAIN; try++) {
		percpu_turn_wait(turn, me);
		e = try_reset(x, ret);
		percpu_turn_end(turn, me);
	}
	percpu_restore_cancel(cancel);
	return e;
}

/* The public calls */

static int get_extremes(const struct percpu_extrema *x, bool reset, uint32_t kind,
			struct extremes *ret)
{
	int e;

	if (x == NULL || x->kind != kind)
		return -EINVAL;
	e = reset ? reset_extremes(x, ret) : read_extremes(x, ret);
	return e == 0 && ret->min > ret->max ? -ENODATA : e;
}

static int get_words(const struct percpu_extrema *x, bool reset, int64_t *ret_min, int64_t *ret_max)
{
	struct extremes r;
	int e = ret_min == NULL && ret_max == NULL ?
			-EINVAL :
			get_extremes(x, reset, PERCPU_EXTREMA_STATE_WORDS, &r);

	if (e == 0 && ret_min != NULL)
		*ret_min = r.min;
	if (e == 0 && ret_max != NULL)
		*ret_max = r.max;
	return e;
}

static double to_double(int64_t word)
{
	int64_t bits = percpu_extrema_order(word);
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

static int get_doubles(const struct percpu_extrema *x, bool reset, double *ret_min, double *ret_max)
{
	struct extremes r;
	int e = ret_min == NULL && ret_max == NULL ?
			-EINVAL :
			get_extremes(x, reset, PERCPU_EXTREMA_STATE_DOUBLES, &r);

	if (e == 0 && ret_min != NULL)
		*ret_min = to_double(r.min);
	if (e == 0 && ret_max != NULL)
		*ret_max = to_double(r.max);
	return e;
}

int percpu_extrema_fetch(const struct percpu_extrema *x, int64_t *ret_min, int64_t *ret_max)
{
	return get_words(x, false, ret_min, ret_max);
}

int percpu_extrema_fetch_double(const struct percpu_extrema *x, double *ret_min, double *ret_max)
{
	return get_doubles(x, false, ret_min, ret_max);
}

int percpu_extrema_fetch_reset(struct percpu_extrema *x, int64_t *ret_min, int64_t *ret_max)
{
	return get_words(x, true, ret_min, ret_max);
}

int percpu_extrema_fetch_reset_double(struct percpu_extrema *x, double *ret_min, double *ret_max)
{
	return get_doubles(x, true, ret_min, ret_max);
}

int percpu_extrema_reset(struct percpu_extrema *x)
{
	struct extremes r;

	return x == NULL ? -EINVAL : reset_extremes(x, &r);
}
