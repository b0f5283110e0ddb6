/* SPDX-License-Identifier: MIT */
/*
 * stats_read.c - reading counters that belong together.
 *
 * The bank that does not count is at rest: nobody stores there since the fence
 * of the last snapshot. So a snapshot sums it first, lets it count, fences, and
 * then sums the other one, which is now at rest. Nothing is ever moved from
 * one to the other. A reader that is killed between the two leaves one thing to
 * redo, the fence, and "fenced" records it.
 *
 * "bank" also counts how often it was changed, modulo 2^24. A reader that finds it
 * as it left it knows that both sums were of banks at rest; otherwise it starts
 * over. So no reader locks another one out, whether it is stopped or killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "objects.h"

#define FIELD sizeof(uint64_t)
#define BLOCK_WORDS 1024
#define MAX_TRIES 10000 /* per object and CPU */
#define FENCE_NS (5 * PERCPU_SECOND)
#define TURN_NS PERCPU_SECOND
#define TRIES 8

/* Acquire: whether the values were at rest is looked at afterwards. */
static uint64_t load_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/*
 * Add the fields of a record in two copies. While we look at the copy that turn
 * names, its CPU may commit an update, which makes the other one valid, and begin
 * the next, which stores here what is not yet committed. So a field counts if turn
 * is still the same after it was loaded; arch/spec.h says why.
 *
 * In a bank at rest the first try succeeds. Returns 0 or -EAGAIN.
 */
static int add_pair(const struct percpu_stats *s, const struct percpu_pair *p, uint64_t *out)
{
	const size_t copy_words = (s->record - s->head) / 2 / FIELD;
	uint64_t turn = __atomic_load_n(&p->turn, __ATOMIC_ACQUIRE), now, value;
	unsigned tries = 0;

	for (size_t w = 0; w < s->words; turn = now) {
		PERCPU_STEP("stats: turn loaded");
		value = load_word(&p->copy[(turn & 1) * copy_words + w]);
		now = __atomic_load_n(&p->turn, __ATOMIC_ACQUIRE);
		if (now == turn)
			out[w++] += value;
		else if (++tries == MAX_TRIES)
			return -EAGAIN;
	}
	return 0;
}

/* Add objects first to first + n - 1 of a bank of a CPU to out. */
static int add_lane(const struct percpu_stats *s, const char *lane, size_t n, uint64_t *out)
{
	const uint64_t *fields = (const uint64_t *)lane;
	int e = 0;

	if (s->head == 0 && s->record == s->words * FIELD) { /* one behind the other */
		for (size_t w = 0; w < n * s->words; w++)
			out[w] += load_word(&fields[w]);
		return 0;
	}
	for (size_t i = 0; i < n && e == 0; i++, lane += s->record, out += s->words) {
		fields = (const uint64_t *)lane;
		if (s->head != 0)
			e = add_pair(s, (const struct percpu_pair *)lane, out);
		else
			for (size_t w = 0; w < s->words; w++)
				out[w] += load_word(&fields[w]);
	}
	return e;
}

/* So many objects at a time that their sums stay in the first-level cache while
 * the lanes pass by. Returns 0 or -EAGAIN, as add_pair(). */
static int add_bank(const struct percpu_stats *s, uint64_t bank, size_t first, size_t n,
		    uint64_t *out)
{
	const char *base = s->block.base + first * s->record + bank;
	const size_t block = s->words < BLOCK_WORDS ? BLOCK_WORDS / s->words : 1;
	size_t m;
	int e = 0;

	for (; n != 0; n -= m, base += m * s->record, out += m * s->words) {
		m = n < block ? n : block;
		for (uint32_t cpu = 0; cpu < s->block.chunk->cpus && e == 0; cpu++)
			e = add_lane(s, base + cpu * s->block.stride, m, out);
	}
	return e;
}

/* Add what was counted by atomic additions. */
static void add_atomic(const struct percpu_stats *s, size_t first, size_t n, uint64_t *out)
{
	const struct percpu_chunk *k = s->block.chunk;
	const uint64_t *fields;
	uint64_t lanes;
	size_t lane;

	for (uint32_t word = 0; word < (k->cpus + 63) / 64; word++)
		for (lanes = percpu_chunk_atomic_lanes(k, word); lanes != 0; lanes &= lanes - 1) {
			lane = k->cpus + 64 * word + (unsigned)__builtin_ctzll(lanes);
			for (size_t i = 0; i < n; i++) {
				fields = (const uint64_t *)percpu_chunk_lane(
					k, lane, percpu_stats_offset(s, first + i));
				for (size_t w = 0; w < s->words; w++)
					out[i * s->words + w] += load_word(&fields[w]);
			}
		}
}

/* Words of the bias of an object that change together. */
static size_t journal_words(const struct percpu_stats *s, size_t word)
{
	size_t left = s->words - word;

	return left < PERCPU_JOURNAL_WORDS ? left : PERCPU_JOURNAL_WORDS;
}

static int subtract_bias(const struct percpu_stats *s, size_t first, size_t n, uint64_t *out)
{
	uint64_t bias[PERCPU_JOURNAL_WORDS];
	size_t words;
	int e = 0;

	for (size_t i = 0; i < n; i++, out += s->words)
		for (size_t w = 0; w < s->words && e == 0; w += words) {
			words = journal_words(s, w);
			e = percpu_journal_read(s->block.chunk,
						percpu_stats_offset(s, first + i) + w * FIELD, bias,
						words);
			for (size_t j = 0; j < words && e == 0; j++)
				out[w + j] -= bias[j];
		}
	return e;
}

/* Subtract the bias from out, and add what is left to it, object by object. The
 * caller has the journal. */
static void move_to_bias(const struct percpu_stats *s, size_t first, size_t n, uint64_t *out)
{
	const struct percpu_chunk *k = s->block.chunk;
	const uint64_t *bias;
	size_t offset, words;

	for (size_t i = 0; i < n; i++, out += s->words)
		for (size_t w = 0; w < s->words; w += words) {
			words = journal_words(s, w);
			offset = percpu_stats_offset(s, first + i) + w * FIELD;
			bias = (const uint64_t *)percpu_chunk_lane(k, 2 * (size_t)k->cpus, offset);
			for (size_t j = 0; j < words; j++)
				out[w + j] -= bias[j];
			percpu_journal_add(s->block.chunk, offset, out + w, words);
			PERCPU_STEP("stats: object reset");
		}
}

static bool has(const struct percpu_stats *s, size_t first, size_t n)
{
	return first <= s->n && n <= s->n - first;
}

int percpu_stats_fetch(const struct percpu_stats *s, size_t first, size_t n, void *out)
{
	uint64_t *values = out;
	const uint64_t *bias;
	const struct percpu_chunk *k;
	int e;

	if (s == NULL || out == NULL || !has(s, first, n))
		return -EINVAL;
	/* The bias first, as in percpu_chunk_sum(). */
	k = s->block.chunk;
	for (size_t i = 0; i < n; i++) {
		bias = (const uint64_t *)percpu_chunk_lane(k, 2 * (size_t)k->cpus,
							   percpu_stats_offset(s, first + i));
		for (size_t w = 0; w < s->words; w++)
			values[i * s->words + w] = -__atomic_load_n(&bias[w], __ATOMIC_ACQUIRE);
	}
	PERCPU_STEP("bias loaded");
	e = add_bank(s, 0, first, n, values);
	if (e == 0)
		e = add_bank(s, s->banks, first, n, values);
	if (e == 0)
		add_atomic(s, first, n, values);
	return e;
}

/* With bank at this value: that nobody counts in the other bank any more. */
static int fence_bank(const struct percpu_stats *s, struct percpu_stats_control *c, uint64_t bank)
{
	const struct percpu_region *r = s->block.chunk->region;
	/* Nobody counts in it on a CPU for which it has no lane. */
	int e = r->shared ? percpu_fence_below(r->cpus, FENCE_NS, NULL) : percpu_fence();

	if (e == 0)
		__atomic_store_n(&c->fenced, bank, __ATOMIC_RELEASE);
	return e;
}

/* Subtract what earlier readers have reset: all of a reset, or nothing. -EAGAIN if
 * one came between. */
static int subtract_resets(const struct percpu_stats *s, struct percpu_stats_control *c,
			   size_t first, size_t n, uint64_t *out)
{
	uint64_t resets = __atomic_load_n(&c->resets, __ATOMIC_ACQUIRE);
	struct percpu_robust h;
	int e;

	PERCPU_STEP("stats: resets loaded");
	if (resets & 1) { /* wait for it; or whoever began it was killed */
		e = percpu_journal_lock(s->block.chunk, &h);
		if (e != 0)
			return e;
		resets = __atomic_add_fetch(&c->resets, c->resets & 1, __ATOMIC_ACQ_REL);
		percpu_robust_unlock(&h);
	}
	e = subtract_bias(s, first, n, out);
	if (e == 0 && __atomic_load_n(&c->resets, __ATOMIC_ACQUIRE) != resets)
		e = -EAGAIN;
	return e;
}

/* Subtract the bias from out, and add what is left to the bias. */
static int reset(const struct percpu_stats *s, struct percpu_stats_control *c, uint64_t bank,
		 size_t first, size_t n, uint64_t *out)
{
	struct percpu_robust h;
	int e = percpu_journal_lock(s->block.chunk, &h);

	if (e != 0)
		return e;
	if (__atomic_load_n(&c->bank, __ATOMIC_ACQUIRE) == bank) {
		__atomic_store_n(&c->resets, c->resets | 1, __ATOMIC_RELEASE);
		move_to_bias(s, first, n, out);
		__atomic_store_n(&c->resets, c->resets + 1, __ATOMIC_RELEASE);
	} else {
		e = -EAGAIN;
	}
	percpu_robust_unlock(&h);
	return e;
}

/* -EAGAIN: another reader came between. */
static int take(const struct percpu_stats *s, size_t first, size_t n, bool zero, uint64_t *out)
{
	struct percpu_stats_control *c = percpu_stats_control(s);
	uint64_t bank = __atomic_load_n(&c->bank, __ATOMIC_ACQUIRE), next;
	uint64_t counting = (bank & s->banks) != 0 ? s->banks : 0, resting = s->banks - counting;
	int e = 0;

	/* The last reader was killed, or could not fence, or has not yet. */
	if (__atomic_load_n(&c->fenced, __ATOMIC_ACQUIRE) != bank)
		e = fence_bank(s, c, bank);
	if (e != 0)
		return e;
	memset(out, 0, n * s->words * FIELD);
	e = add_bank(s, resting, first, n, out);
	if (e != 0)
		return e;
	next = (bank & -PERCPU_STATS_FLIP) + PERCPU_STATS_FLIP + resting;
	if (!__atomic_compare_exchange_n(&c->bank, &bank, next, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return -EAGAIN;
	PERCPU_STEP("stats: bank changed");
	e = fence_bank(s, c, next);
	if (e == 0)
		e = add_bank(s, counting, first, n, out);
	if (e != 0)
		return e;
	add_atomic(s, first, n, out);
	if (zero)
		return reset(s, c, next, first, n, out);
	e = subtract_resets(s, c, first, n, out);
	if (e == 0 && __atomic_load_n(&c->bank, __ATOMIC_ACQUIRE) != next)
		e = -EAGAIN;
	return e;
}

/*
 * Readers of the same objects take turns, so as not to disturb each other. It is
 * no lock: nothing goes wrong when a reader does not wait, for those that it
 * disturbs notice and try again. So nobody waits for a reader that was killed or
 * stopped, longer than until the time is up.
 */
static void wait_for_turn(uint32_t *reader, uint32_t me)
{
	uint64_t deadline = percpu_now_ns() + TURN_NS;
	uint32_t other = 0;

	while (!__atomic_compare_exchange_n(reader, &other, me, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		if (percpu_now_ns() >= deadline) {
			__atomic_store_n(reader, me, __ATOMIC_RELAXED);
			break;
		}
		percpu_futex_sleep(reader, FUTEX_WAIT, other, TURN_NS / 100);
		other = 0;
	}
}

static void end_turn(uint32_t *reader, uint32_t me)
{
	if (__atomic_compare_exchange_n(reader, &me, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		syscall(SYS_futex, reader, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static int snapshot(const struct percpu_stats *s, size_t first, size_t n, bool zero, void *out)
{
	uint32_t *reader, me = (uint32_t)syscall(SYS_gettid);
	int e = -EAGAIN, cancel;

	if (s == NULL || out == NULL || !has(s, first, n))
		return -EINVAL;
	if (!s->block.chunk->region->writable)
		return -EROFS;
	reader = &percpu_stats_control(s)->reader;
	cancel = percpu_defer_cancel();
	for (int try = 0; try < TRIES && e == -EAGAIN; try++) {
		wait_for_turn(reader, me);
		e = take(s, first, n, zero, out);
		end_turn(reader, me);
	}
	percpu_restore_cancel(cancel);
	return e;
}

int percpu_stats_snapshot(const struct percpu_stats *s, size_t first, size_t n, void *out)
{
	return snapshot(s, first, n, false, out);
}

int percpu_stats_fetch_zero(const struct percpu_stats *s, size_t first, size_t n, void *out)
{
	return snapshot(s, first, n, true, out);
}
