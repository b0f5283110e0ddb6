/* SPDX-License-Identifier: MIT */
/*
 * grace_wait.c - grace periods: begin and end them, and wait for their end. grace.h has the states
 * of a period.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "grace.h"

#define GRACE_CLAIM_BITS 24 /* of the period, in a claim */
#define GRACE_CLAIM_MASK ((UINT64_C(1) << GRACE_CLAIM_BITS) - 1)
#define GRACE_SPINS 20 /* how often a bank is read before the thread sleeps */

/* How long to wait for another thread's fence, in us; in a region longer. */
#define GRACE_PATIENCE 10000
#define GRACE_PATIENCE_SHARED 100000

#define GRACE_ASK_EVERY 20000 /* us between two questions whether participants live */
#define GRACE_SLICE PERCPU_PARTICIPANTS_SLICE /* the longest sleep */

static uint64_t *grace_word(const struct percpu_grace_handle *h, size_t i)
{
	return &h->part.control->word[i];
}

static uint64_t grace_now_us(void)
{
	return percpu_now_ns() / 1000;
}

/* Wake the waiters, so that they look again. */
static void tell_grace_waiters(struct percpu_grace_handle *h)
{
	percpu_full_fence();
	if (__atomic_load_n(grace_word(h, PERCPU_GRACE_WAITERS), __ATOMIC_RELAXED) != 0)
		percpu_participants_wake(&h->part);
}

/* Claim the fence of this period. Returns whether the calling thread has the claim and is to fence.
 * Another thread may take over an old claim: the thread that made it may be stopped or dead. */
static bool claim_fence(struct percpu_grace_handle *h, uint64_t state)
{
	const uint64_t patience =
		percpu_grace_is_shared(h) ? GRACE_PATIENCE_SHARED : GRACE_PATIENCE;
	const uint64_t period = state / 2 & GRACE_CLAIM_MASK;
	uint64_t *claim = grace_word(h, PERCPU_GRACE_CLAIM);
	uint64_t old, now;

	PERCPU_STEP("grace: to be claimed");
	/* In this order: a claim made after `now` would look very old. */
	old = __atomic_load_n(claim, __ATOMIC_ACQUIRE);
	now = grace_now_us();
	if (old != 0 && (old & GRACE_CLAIM_MASK) == period &&
	    ((now << GRACE_CLAIM_BITS) - (old - period)) >> GRACE_CLAIM_BITS < patience)
		return false;
	return __atomic_compare_exchange_n(claim, &old, now << GRACE_CLAIM_BITS | period, false,
					   __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* Record that the period was fenced. That holds for good. */
static void note_fence(struct percpu_grace_handle *h, uint64_t state)
{
	uint64_t *fenced = grace_word(h, PERCPU_GRACE_FENCED);
	uint64_t old = __atomic_load_n(fenced, __ATOMIC_RELAXED);

	PERCPU_STEP("grace: fence to be noted");
	while (old < state && !__atomic_compare_exchange_n(fenced, &old, state, false,
							   __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static bool is_fenced(struct percpu_grace_handle *h, uint64_t state)
{
	return __atomic_load_n(grace_word(h, PERCPU_GRACE_FENCED), __ATOMIC_ACQUIRE) == state;
}

/* Fence the period: after that no sequence counts in the old bank. Returns 0, or -EBUSY if another
 * thread does it, or -errno. */
static int fence_period(struct percpu_grace_handle *h, uint64_t state)
{
	int e;

	if (is_fenced(h, state))
		return percpu_participants_look_up(&h->part);
	PERCPU_STEP("grace: not fenced yet");
	if (!claim_fence(h, state))
		return -EBUSY;
	PERCPU_STEP("grace: to be fenced");
	/* The thread that had the claim before may have fenced since. */
	e = is_fenced(h, state) ? percpu_participants_look_up(&h->part) :
				  percpu_participants_fence(&h->part);
	PERCPU_STEP("grace: fence returned");
	if (e == 0)
		note_fence(h, state);
	__atomic_store_n(grace_word(h, PERCPU_GRACE_CLAIM), 0, __ATOMIC_RELAXED);
	tell_grace_waiters(h);
	return e;
}

/* Begin a period, or end one. Returns false if the state has changed. */
static bool advance_period(struct percpu_grace_handle *h, uint64_t state)
{
	return __atomic_compare_exchange_n(&h->part.control->state, &state, state + 1, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* What was found in a bank. */
struct grace_count {
	uint64_t open;	  /* sections */
	bool has_deficit; /* a process has ended more sections than it began */
	uint64_t self;	  /* this process's owner */
	int32_t own;	  /* this process's count */
};

static void add_to_grace_count(uint64_t id, uint32_t n, void *arg)
{
	struct grace_count *count = arg;

	if (id == count->self)
		count->own = (int32_t)n;
	if ((int32_t)n > 0)
		count->open += n;
	else if (n != 0)
		count->has_deficit = true;
}

/* Count the sections in a bank. A process with a negative count hides no section of another one. */
static struct grace_count count_sections(const struct percpu_grace_handle *h, unsigned bank)
{
	struct grace_count n = { .self = percpu_participants_self(&h->part) };

	percpu_participants_each(&h->part, bank, add_to_grace_count, &n);
	return n;
}

/* Drop the counts of dead participants, at most once in GRACE_ASK_EVERY. */
static void ask_who_lives(struct percpu_grace_handle *h)
{
	uint64_t *asked = grace_word(h, PERCPU_GRACE_ASKED);
	uint64_t old = __atomic_load_n(asked, __ATOMIC_RELAXED), now;

	if (!percpu_grace_is_shared(h))
		return;
	now = grace_now_us();
	PERCPU_STEP("grace: to ask who lives");
	if (now - old >= GRACE_ASK_EVERY &&
	    __atomic_compare_exchange_n(asked, &old, now, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		(void)percpu_participants_drop_dead(&h->part);
}

static bool is_bank_empty(struct percpu_grace_handle *h, unsigned bank, struct grace_count *n)
{
	*n = count_sections(h, bank);
	PERCPU_STEP("grace: counted");
	return n->open == 0;
}

/* End the period if all sections that it waits for have ended. Returns 0; -EBUSY if they have not;
 * -EAGAIN if they ended at the last moment, so try again; or -EPROTO. */
static int end_period(struct percpu_grace_handle *h, uint64_t state, unsigned spins)
{
	const unsigned bank = !percpu_grace_bank(state);
	struct grace_count n;

	while (!is_bank_empty(h, bank, &n)) {
		if (spins == 0) {
			ask_who_lives(h);
			return is_bank_empty(h, bank, &n) ? -EAGAIN : -EBUSY;
		}
		if (--spins % 4 == 0)
			sched_yield();
	}
	if (!advance_period(h, state))
		return 0;
	PERCPU_STEP("grace: ended");
	/* Correct this process's count by the value found while no thread entered the bank. From
	 * the next period on, threads enter it again, and its sum is not exact. */
	if (n.own < 0)
		percpu_participants_add(&h->part, bank, -n.own);
	tell_grace_waiters(h);
	return n.has_deficit ? -EPROTO : 0;
}

static bool is_period_over(uint64_t state, uint64_t cookie)
{
	return (int64_t)(state - cookie) >= 0;
}

/* Take the steps that need no sleep, until the period of the cookie is over. Returns 0 or -EPROTO
 * if it is over, -EBUSY if there is something to wait for, or -errno. */
static int help_period(struct percpu_grace_handle *h, uint64_t cookie, unsigned spins)
{
	int e, found = 0;
	uint64_t state;

	while (state = percpu_grace_load(h), !is_period_over(state, cookie)) {
		if (state % 2 != 0) {
			PERCPU_STEP("grace: to begin");
			(void)advance_period(h, state);
			PERCPU_STEP("grace: begun");
			continue;
		}
		e = fence_period(h, state);
		if (e != 0)
			return e;
		e = end_period(h, state, spins);
		if (e == -EBUSY)
			return e;
		if (e == -EPROTO)
			found = e;
	}
	return found;
}

uint64_t percpu_grace_next(const struct percpu_grace_handle *h)
{
	percpu_full_fence(); /* sections of that period see what the caller stored before */
	return (percpu_grace_load(h) + 2) | 1;
}

/* Sleep until `drained` is no longer `seen`, for GRACE_SLICE at most. Returns false if the deadline
 * has passed. */
static bool sleep_for_news(struct percpu_grace_handle *h, uint32_t seen, uint64_t deadline)
{
	uint64_t now;

	PERCPU_STEP("grace: to sleep");
	now = percpu_now_ns();
	if (now >= deadline)
		return false;
	percpu_participants_sleep(&h->part, &h->part.control->drained, seen,
				  deadline - now < GRACE_SLICE ? deadline : now + GRACE_SLICE);
	return true;
}

int percpu_grace_await(struct percpu_grace_handle *h, uint64_t cookie, uint64_t ns)
{
	const uint64_t now = percpu_now_ns();
	const uint64_t deadline = now + ns < now ? UINT64_MAX : now + ns;
	uint32_t *drained = &h->part.control->drained;
	uint64_t *waiters = grace_word(h, PERCPU_GRACE_WAITERS);
	int e = help_period(h, cookie, ns != 0 ? GRACE_SPINS : 0);

	if (e != -EBUSY || ns == 0)
		return e == -EBUSY ? -ETIMEDOUT : e;
	__atomic_fetch_add(waiters, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		const uint32_t seen = __atomic_load_n(drained, __ATOMIC_ACQUIRE);

		e = help_period(h, cookie, 0);
		if (e != -EBUSY)
			break;
		if (!sleep_for_news(h, seen, deadline)) {
			e = -ETIMEDOUT;
			break;
		}
	}
	__atomic_fetch_sub(waiters, 1, __ATOMIC_RELAXED);
	return e;
}

static bool is_grace_writable(const struct percpu_grace_handle *h)
{
	return h->part.in.block.chunk->region->writable;
}

int percpu_grace_wait_timed(struct percpu_grace *g, uint64_t ns)
{
	struct percpu_grace_handle *h = percpu_grace_handle(g);
	int cancel, e;

	if (g == NULL)
		return -EINVAL;
	if (!is_grace_writable(h))
		return -EROFS;
	cancel = percpu_defer_cancel();
	e = percpu_grace_await(h, percpu_grace_next(h), ns);
	percpu_restore_cancel(cancel);
	return e;
}

int percpu_grace_wait(struct percpu_grace *g)
{
	return percpu_grace_wait_timed(g, UINT64_MAX);
}

uint64_t percpu_grace_start(struct percpu_grace *g)
{
	struct percpu_grace_handle *h = percpu_grace_handle(g);
	uint64_t cookie, state;

	if (g == NULL)
		return 0;
	cookie = percpu_grace_next(h);
	state = percpu_grace_load(h);
	if (state % 2 != 0 && is_grace_writable(h))
		(void)advance_period(h, state);
	return cookie;
}

int percpu_grace_poll(struct percpu_grace *g, uint64_t cookie)
{
	struct percpu_grace_handle *h = percpu_grace_handle(g);
	int cancel, e;

	/* A cookie is odd, and no later than that of the next period to begin. */
	if (g == NULL || cookie % 2 == 0 || cookie > percpu_grace_next(h))
		return -EINVAL;
	if (is_period_over(percpu_grace_load(h), cookie))
		return 1;
	if (!is_grace_writable(h))
		return 0;
	cancel = percpu_defer_cancel();
	e = help_period(h, cookie, 0);
	percpu_restore_cancel(cancel);
	return e == 0 ? 1 : e == -EBUSY ? 0 : e;
}
