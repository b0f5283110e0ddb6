/* SPDX-License-Identifier: MIT */
/*
 * rate.c - at most n events per period.
 *
 * The window is one word: when the period began, in ms, and how many of its permissions were
 * taken. A thread that takes permissions loads the window, reads the clock, and stores the new
 * window only if the old one is unchanged. So a thread that was stopped in between cannot begin
 * a period that is over, and the number taken never exceeds the limit. A window that begins in
 * the future comes from another clock, such as that before a reboot, and is over.
 *
 * A CPU keeps the permissions that it has taken in a word of its lane, with a tag. The tag is
 * unique to the period, also after the 32-bit clock has wrapped or the machine has rebooted.
 * Permissions are void if the window has another tag. A sequence compares and swaps the word, so
 * each permission is used once. The number that a CPU takes depends on how many are left, so that
 * all CPUs together keep at most 1/RATE_SHARE of the limit. Threads without sequences take one
 * permission at a time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "counts.h"

#define RATE_SHARE 32
#define RATE_BATCH 256 /* most permissions that a CPU takes at once */

struct percpu_rate {
	struct percpu_block block;
	struct percpu_rate_control *control;
	uint32_t period;
	uint32_t share; /* a CPU takes 1/share of what is left */
	uint32_t limit; /* that the caller gave; used only at creation */
	uint64_t boot;	/* id of this boot; 0: not known, or the region is private */
};

_Static_assert(offsetof(struct percpu_rate, block) == 0, "begins every handle");
_Static_assert(sizeof(struct percpu_rate_control) == PERCPU_BLOCK_ALIGN, "what adopt() may read");
_Static_assert(sizeof(struct percpu_rate_lane) <= PERCPU_BLOCK_ALIGN, "fits beside it");
_Static_assert(RATE_SHARE *PERCPU_MAX_CPUS <= UINT32_MAX, "share");

/* The upper 32 bits of a window are the time at which the period began, in ms. */

static uint32_t rate_start(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static uint64_t rate_word(uint32_t start, uint32_t n)
{
	return (uint64_t)start << 32 | n;
}

static uint64_t rate_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Return how long ago the period began, in ms modulo 2^32: right for 49 days. */
static uint32_t rate_age(uint64_t window, uint64_t now)
{
	return (uint32_t)now - rate_start(window);
}

bool percpu_rate_is_over(uint64_t window, uint32_t period)
{
	return rate_age(window, rate_now()) >= period;
}

uint64_t percpu_rate_new_window(uint32_t period)
{
	return rate_word((uint32_t)rate_now() - period, 0);
}

/* Return how many permissions to take of those that are left. */
static uint32_t rate_batch(uint32_t left, uint32_t share)
{
	uint32_t n = share != 0 ? left / share : 0;

	if (n > RATE_BATCH)
		return RATE_BATCH;
	return n != 0 || left == 0 ? n : 1;
}

uint32_t percpu_rate_take(uint64_t *window, uint32_t limit, uint32_t period, uint32_t share,
			  struct percpu_rate_taken *ret)
{
	uint64_t w = __atomic_load_n(window, __ATOMIC_ACQUIRE);
	uint32_t taken, n;
	uint64_t now;

	do {
		now = rate_now();
		PERCPU_STEP("rate: clock read");
		ret->began = rate_age(w, now) >= period;
		ret->start = ret->began ? now : now - rate_age(w, now);
		taken = ret->began ? 0 : (uint32_t)w;
		if (taken >= limit && !ret->began)
			return 0;
		n = rate_batch(limit - taken, share);
	} while (!__atomic_compare_exchange_n(window, &w,
					      rate_word((uint32_t)ret->start, taken + n), false,
					      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	return n;
}

/* Creation */

static void start_rate(struct percpu_block *b)
{
	const struct percpu_rate *rate = (struct percpu_rate *)b;

	rate->control->limit = rate->limit;
	rate->control->period = rate->period;
	rate->control->window = percpu_rate_new_window(rate->period);
	rate->control->boot = rate->boot;
}

/* End the period if the window is of another boot. The window is loaded before the boot id: if
 * another process has entered this boot and used permissions meanwhile, the swap fails. */
static void enter_boot(const struct percpu_rate *rate)
{
	struct percpu_rate_control *c = rate->control;
	uint64_t window, boot;

	do {
		window = __atomic_load_n(&c->window, __ATOMIC_ACQUIRE);
		boot = __atomic_load_n(&c->boot, __ATOMIC_ACQUIRE);
		PERCPU_STEP("rate: boot seen");
		if (boot == rate->boot)
			return;
	} while (boot != 0 && !__atomic_compare_exchange_n(
				      &c->window, &window, percpu_rate_new_window(rate->period),
				      false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	PERCPU_STEP("rate: period ended");
	(void)__atomic_compare_exchange_n(&c->boot, &boot, rate->boot, false, __ATOMIC_RELEASE,
					  __ATOMIC_RELAXED);
}

static void complete_rate(struct percpu_block *b)
{
	struct percpu_rate *rate = (struct percpu_rate *)b;
	const struct percpu_region *r = b->chunk->region;

	rate->control = (struct percpu_rate_control *)percpu_block_bias(b);
	rate->share = RATE_SHARE * b->chunk->cpus;
	rate->boot = r->shared ? percpu_boot_id() : 0;
	if (rate->boot != 0 && r->writable)
		enter_boot(rate);
}

/* Load the period that the creator wrote, and check it: another process may have damaged it. The
 * limit may be any. A period of 0 in the plan's handle accepts any period. */
static int adopt_rate(const struct percpu_block *found, struct percpu_plan *p)
{
	struct percpu_rate *rate = p->handle;
	const struct percpu_rate_control *c =
		(struct percpu_rate_control *)percpu_block_bias(found);
	uint64_t period = __atomic_load_n(&c->period, __ATOMIC_RELAXED);

	if (period == 0 || period > PERCPU_RATE_MAX ||
	    (rate->period != 0 && rate->period != period))
		return -ENOENT;
	rate->period = (uint32_t)period;
	return 0;
}

static struct percpu_plan plan_rate(struct percpu_rate *rate)
{
	return (struct percpu_plan){
		.kind = PERCPU_KIND_RATE,
		.size = sizeof(struct percpu_rate_control),
		.touched = sizeof(struct percpu_rate_lane),
		.align = PERCPU_BLOCK_ALIGN,
		.handle = rate,
		.handle_size = sizeof(*rate),
		.start = start_rate,
		.complete = complete_rate,
		.adopt = adopt_rate,
	};
}

static int check_rate(int64_t limit, int64_t period, struct percpu_rate *ret)
{
	if (limit <= 0 || period <= 0)
		return -EINVAL;
	if (limit > PERCPU_RATE_MAX || period > PERCPU_RATE_MAX)
		return -ERANGE;
	*ret = (struct percpu_rate){ .limit = (uint32_t)limit, .period = (uint32_t)period };
	return 0;
}

int percpu_rate_create(int64_t limit, int64_t period_ms, struct percpu_rate **ret)
{
	struct percpu_rate rate;
	struct percpu_plan p = plan_rate(&rate);
	int e = check_rate(limit, period_ms, &rate);

	return e != 0 ? e : percpu_block_create(&p, ret);
}

int percpu_rate_create_in(struct percpu_region *r, int64_t limit, int64_t period_ms,
			  struct percpu_rate **ret)
{
	struct percpu_rate rate;
	struct percpu_plan p = plan_rate(&rate);
	int e = check_rate(limit, period_ms, &rate);

	return e != 0 ? e : percpu_block_create_in(r, &p, ret);
}

int percpu_rate_open(struct percpu_region *r, unsigned root, int64_t limit, int64_t period_ms,
		     struct percpu_rate **ret)
{
	struct percpu_rate rate;
	struct percpu_plan p = plan_rate(&rate);
	int e = check_rate(limit, period_ms, &rate);

	return e != 0 ? e : percpu_block_open(r, root, &p, ret);
}

int percpu_rate_attach(struct percpu_region *r, uint64_t key, struct percpu_rate **ret)
{
	struct percpu_rate rate = { .period = 0 };
	struct percpu_plan p = plan_rate(&rate);

	return percpu_block_attach(r, key, &p, ret);
}

uint64_t percpu_rate_key(const struct percpu_rate *rate)
{
	return percpu_block_key(rate, PERCPU_KIND_RATE);
}

void percpu_rate_detach(struct percpu_rate *rate)
{
	free(rate);
}

void percpu_rate_destroy(struct percpu_rate *rate)
{
	percpu_block_destroy(rate);
}

/* Checks */

/* Return the permissions of the CPU that the thread runs on; NULL if it runs no sequences. */
static uint64_t *rate_own(const struct percpu_rate *rate)
{
	const struct percpu_chunk *k = rate->block.chunk;
	uint32_t cpu = (uint32_t)percpu_seq_cpu();

	if (cpu >= k->cpus)
		return NULL;
	return &((struct percpu_rate_lane *)(rate->block.base + cpu * k->stride))->permissions;
}

/* The word that a CPU keeps: the lower 16 bits are the number of permissions, which RATE_BATCH
 * bounds; the upper bits are the tag of their period. */

static uint64_t rate_kept_word(const struct percpu_rate *rate, uint64_t start, uint32_t n)
{
	return (start ^ __atomic_load_n(&rate->control->boot, __ATOMIC_RELAXED)) << 16 | n;
}

/* Return how many permissions of the period that began at start are in a word that a CPU keeps. */
static uint32_t rate_kept(const struct percpu_rate *rate, uint64_t kept, uint64_t start)
{
	return kept >> 16 == rate_kept_word(rate, start, 0) >> 16 ? (uint16_t)kept : 0;
}

/* Replace the word of the CPU that the thread runs on now, if it is as expected. The caller may
 * have loaded the word of another CPU: equal words mean the same on all CPUs. Returns 0, or another
 * value with nothing replaced. */
static int rate_replace(const struct percpu_rate *rate, uint64_t expected, uint64_t v)
{
	struct percpu_rate_lane *lane = (struct percpu_rate_lane *)rate->block.base;
	int64_t was;

	return percpu_seq_cmpxchg(&lane->permissions, &lane->guard, rate->block.stride,
				  (int64_t)expected, (int64_t)v, &was);
}

/* Use a permission that this CPU keeps. Returns whether it had one. */
static bool rate_use_own(const struct percpu_rate *rate)
{
	uint64_t have, window, now;
	const uint64_t *own;

	for (int try = 0; try < PERCPU_SEQ_TRIES; try++) {
		own = rate_own(rate);
		have = own != NULL ? __atomic_load_n(own, __ATOMIC_RELAXED) : 0;
		if ((uint16_t)have == 0)
			return false;
		window = __atomic_load_n(&rate->control->window, __ATOMIC_ACQUIRE);
		now = rate_now();
		if (rate_age(window, now) >= rate->period ||
		    rate_kept(rate, have, now - rate_age(window, now)) == 0)
			return false;
		PERCPU_STEP("rate: permissions seen");
		if (rate_replace(rate, have, have - 1) == 0)
			return true;
	}
	return false;
}

/* Give this CPU n permissions to keep. It gets none if the window has begun another period, or if
 * it keeps permissions of this period. The window is loaded after the CPU's word, so if the word
 * is of a later period, the window is, too. Returns whether it got them. */
static bool rate_keep(const struct percpu_rate *rate, uint64_t start, uint32_t n)
{
	const uint64_t *own;
	uint64_t have;

	for (int try = 0; try < PERCPU_SEQ_TRIES; try++) {
		own = rate_own(rate);
		if (own == NULL)
			return false;
		have = __atomic_load_n(own, __ATOMIC_ACQUIRE);
		if (rate_start(__atomic_load_n(&rate->control->window, __ATOMIC_RELAXED)) !=
			    (uint32_t)start ||
		    rate_kept(rate, have, start) != 0)
			return false;
		PERCPU_STEP("rate: to be kept");
		if (rate_replace(rate, have, rate_kept_word(rate, start, n)) == 0)
			return true;
	}
	return false;
}

static void rate_give_back(uint64_t *window, uint32_t start, uint32_t n)
{
	uint64_t w = __atomic_load_n(window, __ATOMIC_RELAXED);

	PERCPU_STEP("rate: to be given back");
	while (rate_start(w) == start && (uint32_t)w >= n &&
	       !__atomic_compare_exchange_n(window, &w, w - n, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

/* Return the limit, at most PERCPU_RATE_MAX: another process may have damaged it. */
static uint32_t rate_limit_of(const struct percpu_rate *rate)
{
	uint64_t limit = __atomic_load_n(&rate->control->limit, __ATOMIC_RELAXED);

	return limit < PERCPU_RATE_MAX ? (uint32_t)limit : PERCPU_RATE_MAX;
}

/* Use a permission of the period, if one is left, and take more of them for this CPU. */
static bool rate_use_new(const struct percpu_rate *rate)
{
	struct percpu_rate_taken t;
	uint32_t n;

	n = percpu_rate_take(&rate->control->window, rate_limit_of(rate), rate->period,
			     rate_own(rate) != NULL ? rate->share : 0, &t);
	if (n == 0)
		return false;
	PERCPU_STEP("rate: permissions taken");
	if (n > 1 && !rate_keep(rate, t.start, n - 1))
		rate_give_back(&rate->control->window, (uint32_t)t.start, n - 1);
	return true;
}

static size_t rate_offset(const struct percpu_rate *rate, size_t field)
{
	return (size_t)(rate->block.base - rate->block.chunk->base) + field;
}

static void rate_count(const struct percpu_rate *rate, size_t field)
{
	char *cell = rate->block.base + field;
	int e = percpu_seq_add(cell, rate->block.stride, 1);

	for (int try = 0; percpu_seq_prepare_try(e, try); try++)
		e = percpu_seq_add(cell, rate->block.stride, 1);
	if (e != 0)
		percpu_chunk_add_atomic(rate->block.chunk, rate_offset(rate, field), 1);
}

bool percpu_rate_check(struct percpu_rate *rate)
{
	bool allowed;

	if (rate == NULL || !rate->block.chunk->region->writable)
		return false;
	allowed = rate_use_own(rate) || rate_use_new(rate);
	PERCPU_STEP("rate: decided");
	rate_count(rate, allowed ? offsetof(struct percpu_rate_lane, allowed) :
				   offsetof(struct percpu_rate_lane, refused));
	return allowed;
}

int percpu_rate_set_limit(struct percpu_rate *rate, int64_t limit)
{
	if (rate == NULL || limit <= 0)
		return -EINVAL;
	if (limit > PERCPU_RATE_MAX)
		return -ERANGE;
	if (!rate->block.chunk->region->writable)
		return -EROFS;
	__atomic_store_n(&rate->control->limit, (uint64_t)limit, __ATOMIC_RELAXED);
	return 0;
}

/* Reads */

int64_t percpu_rate_limit(const struct percpu_rate *rate)
{
	return rate != NULL ? rate_limit_of(rate) : 0;
}

int64_t percpu_rate_period(const struct percpu_rate *rate)
{
	return rate != NULL ? rate->period : 0;
}

static uint64_t rate_sum(const struct percpu_rate *rate, size_t field)
{
	return rate != NULL ? percpu_chunk_sum(rate->block.chunk, rate_offset(rate, field)) : 0;
}

uint64_t percpu_rate_allowed(const struct percpu_rate *rate)
{
	return rate_sum(rate, offsetof(struct percpu_rate_lane, allowed));
}

uint64_t percpu_rate_refused(const struct percpu_rate *rate)
{
	return rate_sum(rate, offsetof(struct percpu_rate_lane, refused));
}

double percpu_rate_per_second(const struct percpu_rate *rate, struct percpu_rate_mark *last)
{
	struct percpu_rate_mark now, before;

	if (rate == NULL || last == NULL)
		return 0;
	before = *last;
	now.events = percpu_rate_allowed(rate) + percpu_rate_refused(rate);
	now.ns = percpu_now_ns();
	*last = now;
	if (before.ns == 0 || now.ns <= before.ns)
		return 0;
	return (double)(now.events - before.events) * 1e9 / (double)(now.ns - before.ns);
}
