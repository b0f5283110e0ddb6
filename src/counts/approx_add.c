/* SPDX-License-Identifier: MIT */
/*
 * approx_add.c - adds to approximate sums that no sequence committed at once: they move the
 * centers, close the lanes near a limit, and open them again. approx.c explains the protocol.
 */
#include <errno.h>

#include "counts.h"

#define APPROX_ROUNDS 100	       /* most of an add, while other threads open the lanes */
#define APPROX_FAR (UINT64_C(1) << 63) /* of a center from its word: more than any reach */
#define APPROX_REST_NS 10000000	       /* closed lanes stay closed for at least so long */

enum {
	APPROX_OPEN,
	APPROX_CLOSING, /* sequences that began before the fence may still commit */
	APPROX_CLOSED,
	APPROX_STATES = 4, /* the bits above count the changes of the state */
};

static struct percpu_chunk *approx_chunk(const struct percpu_approx *a)
{
	return a->block.chunk;
}

static uint64_t load_state(const struct percpu_approx *a)
{
	return __atomic_load_n(&a->control->state, __ATOMIC_SEQ_CST);
}

static void change_state(const struct percpu_approx *a, uint64_t to)
{
	__atomic_store_n(&a->control->state,
			 (load_state(a) / APPROX_STATES + 1) * APPROX_STATES + to,
			 __ATOMIC_SEQ_CST);
	PERCPU_STEP("approx: state changed");
}

static uint64_t *approx_word(const struct percpu_approx *a, uint32_t cpu)
{
	return (uint64_t *)(void *)(a->block.base + cpu * a->block.stride);
}

static uint64_t load_approx_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Load the pair of the base and the highest. The highest is the middle plus a batch for each CPU.
 * On machines without atomic pairs the base is 0. */
static struct percpu_pair_value load_approx(const struct percpu_approx *a)
{
	struct percpu_chunk *k = approx_chunk(a);
	struct percpu_pair_value v = { 0, load_approx_word(&a->control->middle) };

	if (percpu_pair_is_atomic())
		(void)percpu_pair_load(k, percpu_chunk_bias_lane(k),
				       (size_t)(a->block.base - k->base), &v);
	v.second += a->slack;
	return v;
}

/* Replace the pair if it is still *old; otherwise set *old to what it is. */
static bool swap_approx(const struct percpu_approx *a, struct percpu_pair_value *old, uint64_t base,
			uint64_t highest)
{
	const struct percpu_pair_value new = { base, highest - a->slack };
	struct percpu_chunk *k = approx_chunk(a);
	bool done;

	old->second -= a->slack;
	if (percpu_pair_is_atomic())
		done = percpu_pair_cmpxchg(k, percpu_chunk_bias_lane(k),
					   (size_t)(a->block.base - k->base), old, new) == 0;
	else
		done = __atomic_compare_exchange_n(&a->control->middle, &old->second, new.second,
						   false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	old->second += a->slack;
	return done;
}

int64_t percpu_approx_subtract(const struct percpu_approx *a, uint64_t words)
{
	struct percpu_pair_value v = load_approx(a);
	uint64_t sum;

	PERCPU_STEP("approx: to be subtracted");
	do
		sum = percpu_pair_is_atomic() ? words + v.first : v.second;
	while (!swap_approx(a, &v, v.first - sum, v.second - sum));
	return (int64_t)sum;
}

static bool fits_below(int64_t sum, uint64_t n, int64_t limit)
{
	int64_t then;

	return !__builtin_add_overflow(sum, (int64_t)n, &then) && then <= limit;
}

/* Under the lock */

void percpu_approx_close(const struct percpu_approx *a)
{
	change_state(a, APPROX_CLOSING);
	for (uint32_t cpu = 0; cpu < approx_chunk(a)->cpus; cpu++) {
		__atomic_store_n(approx_word(a, cpu) + 1,
				 load_approx_word(approx_word(a, cpu)) ^ APPROX_FAR,
				 __ATOMIC_RELAXED);
		PERCPU_STEP("approx: lane closed");
	}
	if (percpu_pair_is_atomic())
		return;
	change_state(a, APPROX_CLOSED); /* the sum is new */
}

/* Set the highest to the base plus the most that the lanes add up to. */
static void set_highest(const struct percpu_approx *a, uint64_t lanes)
{
	struct percpu_pair_value v = load_approx(a);

	PERCPU_STEP("approx: highest to be set");
	while (!swap_approx(a, &v, v.first, lanes + v.first))
		;
}

static void count_centers(const struct percpu_approx *a)
{
	uint64_t sum = a->slack;

	for (uint32_t cpu = 0; cpu < approx_chunk(a)->cpus; cpu++)
		sum += load_approx_word(approx_word(a, cpu) + 1);
	set_highest(a, sum);
}

/* Set busy. If the last holder of the lock was killed, repair what it left. */
static void begin_approx(const struct percpu_approx *a)
{
	uint32_t *busy = &a->control->busy;

	if (__atomic_exchange_n(busy, 1, __ATOMIC_SEQ_CST) == 0)
		return;
	if (load_state(a) % APPROX_STATES == APPROX_OPEN)
		count_centers(a);
	else
		percpu_approx_close(a);
}

static bool try_approx_lock(const struct percpu_approx *a, struct percpu_robust *h)
{
	if (percpu_journal_try(approx_chunk(a), h) != 0)
		return false;
	begin_approx(a);
	return true;
}

static int lock_approx(const struct percpu_approx *a, struct percpu_robust *h)
{
	int e = percpu_journal_lock(approx_chunk(a), h);

	if (e == 0)
		begin_approx(a);
	return e;
}

static void unlock_approx(const struct percpu_approx *a, struct percpu_robust *h)
{
	__atomic_store_n(&a->control->busy, 0, __ATOMIC_SEQ_CST);
	percpu_robust_unlock(h);
}

/* Move the center in the lane of the CPU that the thread runs on now. */
static bool move_center(const struct percpu_approx *a, uint64_t d)
{
	int r = PERCPU_SEQ_SLOW;

	/* The highest rises before the center does, and falls after it. */
	percpu_full_fence();
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_add_within(a->block.base + 8, a->block.base, PERCPU_STRIDE,
					  (int64_t)d, a->reach, a->span);
	percpu_full_fence();
	return r == 0;
}

/* Add n to the highest, unless it would exceed the limit. */
static bool raise_highest(const struct percpu_approx *a, uint64_t n, int64_t limit)
{
	uint64_t old = __atomic_load_n(&a->control->middle, __ATOMIC_SEQ_CST);

	do {
		if (!fits_below((int64_t)(old + a->slack), n, limit))
			return false;
	} while (!__atomic_compare_exchange_n(&a->control->middle, &old, old + n, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	return true;
}

static bool move_center_by(const struct percpu_approx *a, uint64_t d, int64_t limit)
{
	const bool up = (int64_t)d > 0;
	bool moved;

	if (up && !raise_highest(a, d, limit))
		return false;
	PERCPU_STEP("approx: highest raised");
	moved = move_center(a, d);
	PERCPU_STEP("approx: center moved");
	if (moved != up)
		__atomic_fetch_add(&a->control->middle, up ? -d : d, __ATOMIC_SEQ_CST);
	return moved;
}

/* Move the center of this CPU to its word. Returns whether it was moved. */
static bool recenter(const struct percpu_approx *a, int64_t limit)
{
	const uint32_t cpu = (uint32_t)percpu_seq_cpu(); /* large: no sequences */
	struct percpu_robust h;
	bool moved = false;
	uint64_t d;

	if (cpu >= approx_chunk(a)->cpus || load_state(a) % APPROX_STATES != APPROX_OPEN ||
	    !try_approx_lock(a, &h))
		return false;
	/* If another thread has closed the lanes meanwhile, the center is too far away to move. */
	d = load_approx_word(approx_word(a, cpu)) - load_approx_word(approx_word(a, cpu) + 1);
	moved = d != 0 && d + a->reach < a->span && move_center_by(a, d, limit);
	unlock_approx(a, &h);
	return moved;
}

/* Return what the highest may rise to when the lanes are opened: the limit that they were closed
 * near, or, if the sum is above that one, the limit of the add that opens them. */
static int64_t opening_limit(const struct percpu_approx *a, int64_t limit)
{
	const int64_t known = __atomic_load_n(&a->control->limit, __ATOMIC_RELAXED);

	return known < percpu_approx_highest(a) ? limit : known;
}

/* Return whether the sum is so far from the limit that opened lanes would stay open for a while. */
static bool has_room(const struct percpu_approx *a, int64_t limit)
{
	const int64_t away = 4 * (int64_t)a->slack, highest = percpu_approx_highest(a);
	int64_t room;

	if (__builtin_sub_overflow(__atomic_load_n(&a->control->limit, __ATOMIC_RELAXED), highest,
				   &room) ||
	    (room < away && room > -away))
		return false;
	if (room > 0)
		return true;
	return __builtin_sub_overflow(limit, highest, &room) ? limit > 0 : room >= away;
}

static void open_approx(const struct percpu_approx *a, int64_t limit)
{
	change_state(a, APPROX_CLOSING);
	if (!raise_highest(a, a->slack, opening_limit(a, limit))) {
		change_state(a, APPROX_CLOSED);
		return;
	}
	for (uint32_t cpu = 0; cpu < approx_chunk(a)->cpus; cpu++) {
		PERCPU_STEP("approx: lane to be opened");
		__atomic_store_n(approx_word(a, cpu) + 1, load_approx_word(approx_word(a, cpu)),
				 __ATOMIC_RELEASE);
	}
	change_state(a, APPROX_OPEN);
}

/* Return whether the lanes were closed long enough. Without this wait, adds that exceed the room of
 * open lanes and are given back would close and open them each time, with a fence. If the lanes
 * were closed by the clock of another boot or container, and this clock is behind, return true. */
static bool has_rested(const struct percpu_approx *a)
{
	uint64_t closed = __atomic_load_n(&a->control->closed, __ATOMIC_RELAXED);

	return percpu_now_ns() - closed >= APPROX_REST_NS;
}

static bool may_open(const struct percpu_approx *a, int64_t limit)
{
	return load_state(a) % APPROX_STATES == APPROX_CLOSED && has_room(a, limit) &&
	       has_rested(a);
}

/* Open the lanes if they are closed, and the sum is away from the limit that they were closed near
 * and from that of the add that was done. */
static void open_if_room(const struct percpu_approx *a, int64_t limit)
{
	struct percpu_robust h;

	if (!percpu_pair_is_atomic() || percpu_likely(!may_open(a, limit)))
		return;
	PERCPU_STEP("approx: to be opened");
	if (!try_approx_lock(a, &h))
		return;
	if (may_open(a, limit))
		open_approx(a, limit);
	unlock_approx(a, &h);
}

/* Close the lanes unless they are closed. Returns 0 or an error of the fence or the lock. */
static int close_approx(const struct percpu_approx *a, int64_t limit)
{
	struct percpu_robust h;
	uint64_t state;
	int e;

	PERCPU_STEP("approx: to be closed");
	e = lock_approx(a, &h);
	if (e != 0)
		return e;
	__atomic_store_n(&a->control->limit, limit, __ATOMIC_RELAXED);
	if (load_state(a) % APPROX_STATES == APPROX_OPEN) {
		__atomic_store_n(&a->control->closed, percpu_now_ns(), __ATOMIC_RELAXED);
		percpu_approx_close(a);
	}
	state = load_state(a);
	unlock_approx(a, &h);
	if (state % APPROX_STATES == APPROX_CLOSED)
		return 0;
	PERCPU_STEP("approx: to be fenced");
	e = percpu_region_fence(approx_chunk(a)->region);
	if (e == 0)
		e = lock_approx(a, &h);
	if (e != 0)
		return e;
	if (load_state(a) == state) {
		set_highest(a, percpu_approx_words(a)); /* no sequence adds any more */
		change_state(a, APPROX_CLOSED);
	}
	unlock_approx(a, &h);
	return 0;
}

/* Adds */

/* Add in the lane, and move its center if needed. Returns whether the add was done. */
static bool add_in_open_lane(const struct percpu_approx *a, int64_t n, int64_t limit)
{
	int r = PERCPU_SEQ_SLOW;
	bool moved = true;

	while (moved) {
		for (int try = 0; percpu_seq_prepare_try(r, try); try++)
			r = percpu_approx_try(a, n);
		if (r != PERCPU_SEQ_REFUSED || (uint64_t)n + a->reach >= a->span)
			break;
		PERCPU_STEP("approx: refused");
		moved = recenter(a, limit);
		r = moved ? PERCPU_SEQ_SLOW : r;
	}
	return r == 0;
}

static void add_to_base(const struct percpu_approx *a, uint64_t n)
{
	struct percpu_pair_value v = load_approx(a);

	while (!swap_approx(a, &v, v.first + n, v.second + n))
		;
}

void percpu_approx_add_slow(const struct percpu_approx *a, int64_t n)
{
	/* A thread that migrates may move the center of another CPU. An add that lowers the sum
	 * must not raise the highest. */
	const int64_t limit = n > 0 ? INT64_MAX : INT64_MIN;

	if (!approx_chunk(a)->region->writable || add_in_open_lane(a, n, limit))
		return;
	add_to_base(a, (uint64_t)n);
	open_if_room(a, limit);
}

/* Add to the base. Returns 0, -ERANGE if the sum is above limit - n, or -EAGAIN if the lanes must
 * be closed to decide. */
static int add_to_base_below(const struct percpu_approx *a, int64_t n, int64_t limit)
{
	struct percpu_pair_value v;
	int64_t lowest;
	uint64_t state;

	for (;;) {
		state = load_state(a);
		PERCPU_STEP("approx: state loaded");
		v = load_approx(a);
		PERCPU_STEP("approx: pair loaded");
		if (fits_below((int64_t)v.second, (uint64_t)n, limit)) {
			if (swap_approx(a, &v, v.first + (uint64_t)n, v.second + (uint64_t)n))
				return 0;
			continue;
		}
		if (state % APPROX_STATES == APPROX_CLOSED && load_state(a) == state)
			return -ERANGE;
		/* Each word may be two batches below its share of the highest, and the highest may
		 * be a batch too high. */
		if (!__builtin_sub_overflow((int64_t)v.second, (int64_t)(2 * a->slack + a->reach),
					    &lowest) &&
		    !fits_below(lowest, (uint64_t)n, limit))
			return -ERANGE;
		return -EAGAIN;
	}
}

int percpu_approx_add_below_slow(const struct percpu_approx *a, int64_t n, int64_t limit)
{
	int e;

	if (!approx_chunk(a)->region->writable)
		return -EROFS;
	if (n <= 0) {
		percpu_approx_add_slow(a, n);
		return 0;
	}
	if (limit <= 0)
		return -ERANGE;
	for (int round = 0; round < APPROX_ROUNDS; round++) {
		if (percpu_approx_highest(a) <= limit) {
			PERCPU_STEP("approx: below the limit");
			if (add_in_open_lane(a, n, limit))
				return 0;
		}
		e = add_to_base_below(a, n, limit);
		if (e == 0)
			open_if_room(a, limit);
		if (e != -EAGAIN)
			return e;
		e = close_approx(a, limit);
		if (e != 0)
			return e;
	}
	return -ETIMEDOUT;
}
