/* SPDX-License-Identifier: MIT */
/*
 * stats_read.c - reading counters that belong together.
 *
 * The bank that does not count is at rest: no sequence has stored there since the fence
 * of the last snapshot. A snapshot sums it first, makes it count, fences, and then sums the other
 * bank, which is at rest now. Nothing is ever moved from one bank to the other. A reader that is
 * killed before its fence leaves one thing to redo, the fence; "fenced" records whether it was
 * done.
 *
 * "bank" also counts its changes, modulo 2^24. If a reader finds it unchanged at the end, both sums
 * were of banks at rest; if not, the reader starts over. So a reader that is stopped or killed does
 * not block another one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "counts.h"

#define FIELD sizeof(uint64_t)
#define MAX_TRIES 10000 /* per object and CPU */
#define TRIES 8

static size_t bytes_of(const struct percpu_stats *s, size_t n)
{
	return n * s->words * FIELD;
}

/* Load a field. Acquire: the caller checks afterwards that the bank was at rest. */
static uint64_t load_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/*
 * Add the fields of a record in two copies to out. "turn" names the valid copy. While this function
 * reads it, the record's CPU may commit an update, which makes the other copy valid, and begin the
 * next update, which stores uncommitted values to this copy. So a field is valid if turn has not
 * changed after the load of the field; arch/spec.h says why.
 *
 * In a bank at rest the first try succeeds. Returns 0 or -EAGAIN.
 */
static int add_copies(const struct percpu_stats *s, const struct percpu_copies *p, uint64_t *out)
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

void percpu_stats_gather(const struct percpu_stats *s, void *to, const void *lane)
{
	const size_t copy_words = (s->record - s->head) / 2 / FIELD, n = 2 * s->n;
	const struct percpu_copies *from;
	const uint64_t *valid;
	struct percpu_copies *sum;
	size_t at;

	for (size_t i = 0; i < n; i++) {
		at = i / s->n * s->banks + i % s->n * s->record;
		from = (const struct percpu_copies *)((const char *)lane + at);
		sum = (struct percpu_copies *)((char *)to + at);
		valid = &from->copy[(from->turn & 1) * copy_words];
		for (size_t w = 0; w < s->words; w++)
			sum->copy[w] += valid[w];
	}
}

static size_t objects_at_a_time(const struct percpu_stats *s, size_t n)
{
	const size_t words = percpu_sum_words(s->block.chunk);
	const size_t block = s->words < words ? words / s->words : 1;

	return n < block ? n : block;
}

/* Return how many objects can be summed as one run of words: all n if their fields are adjacent in
 * a lane, otherwise 1. */
static size_t adjacent_objects(const struct percpu_stats *s, size_t n)
{
	return s->head == 0 && s->record == s->words * FIELD ? n : 1;
}

/* Add n objects in two copies from one CPU lane. Returns 0 or -EAGAIN, as add_pair(). */
static int add_all_copies(const struct percpu_stats *s, const char *lane, size_t n, uint64_t *out)
{
	int e = 0;

	for (size_t i = 0; i < n && e == 0; i++, lane += s->record, out += s->words)
		e = add_copies(s, (const struct percpu_copies *)lane, out);
	return e;
}

/* Add a few objects of one bank from all CPU lanes. Returns as add_pair(). */
static int add_cpus(const struct percpu_stats *s, size_t offset, size_t n, uint64_t *out)
{
	const size_t m = adjacent_objects(s, n);
	int e = 0;

	for (uint32_t cpu = 0; cpu < s->block.chunk->cpus && s->head != 0 && e == 0; cpu++)
		e = add_all_copies(s, percpu_chunk_lane(s->block.chunk, cpu, offset), n, out);
	for (size_t i = 0; i < n && s->head == 0; i += m)
		percpu_sum_cpus(s->block.chunk, offset + i * s->record, m * s->words,
				out + i * s->words);
	return e;
}

/* Add any number of objects of one bank from all CPU lanes. Returns as add_pair(). */
static int add_bank(const struct percpu_stats *s, uint64_t bank, size_t first, size_t n,
		    uint64_t *out)
{
	size_t offset = (size_t)(s->block.base - s->block.chunk->base) + first * s->record + bank,
	       m;
	int e = 0;

	for (; n != 0 && e == 0; n -= m, offset += m * s->record, out += m * s->words) {
		m = objects_at_a_time(s, n);
		e = add_cpus(s, offset, m, out);
	}
	return e;
}

/* Add the atomic lanes. */
static void add_atomic(const struct percpu_stats *s, size_t first, size_t n, uint64_t *out)
{
	const size_t m = adjacent_objects(s, n);

	for (size_t i = 0; i < n; i += m)
		percpu_sum_atomics(s->block.chunk, percpu_stats_offset(s, first + i), m * s->words,
				   out + i * s->words);
}

/* Set out to the negated biases. */
static void begin_with_biases(const struct percpu_stats *s, size_t first, size_t n, uint64_t *out)
{
	const size_t m = adjacent_objects(s, n);

	for (size_t i = 0; i < n; i += m)
		percpu_journal_sum(s->block.chunk, percpu_stats_offset(s, first + i), m * s->words,
				   out + i * s->words);
}

/* Return how many words of an object's bias, from this word on, the journal changes together. */
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

/* Subtract the bias from out, and add the result to the bias, object by object. The caller holds
 * the lock of the journal. */
static void move_to_bias(const struct percpu_stats *s, size_t first, size_t n, uint64_t *out)
{
	const struct percpu_chunk *k = s->block.chunk;
	const uint64_t *bias;
	size_t offset, words;

	for (size_t i = 0; i < n; i++, out += s->words)
		for (size_t w = 0; w < s->words; w += words) {
			words = journal_words(s, w);
			offset = percpu_stats_offset(s, first + i) + w * FIELD;
			bias = (const uint64_t *)percpu_chunk_bias(k, offset);
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

/* Load the biases first, as in percpu_chunk_sum(). */
static int fetch_objects(const struct percpu_stats *s, size_t first, size_t n, uint64_t *out)
{
	int e;

	begin_with_biases(s, first, n, out);
	PERCPU_STEP("bias loaded");
	e = add_bank(s, 0, first, n, out);
	if (e == 0)
		e = add_bank(s, s->banks, first, n, out);
	if (e == 0)
		add_atomic(s, first, n, out);
	return e;
}

static int fetch_all(const struct percpu_stats *s, size_t first, size_t n, uint64_t *out)
{
	size_t m;
	int e = 0;

	for (; n != 0 && e == 0; n -= m, first += m, out += m * s->words) {
		m = objects_at_a_time(s, n);
		e = fetch_objects(s, first, m, out);
	}
	return e;
}

int percpu_stats_fetch(const struct percpu_stats *s, size_t first, size_t n, void *out)
{
	struct percpu_draft d;
	int e;

	if (s == NULL || out == NULL || !has(s, first, n))
		return -EINVAL;
	if (s->head == 0) /* not in two copies: it cannot fail */
		return fetch_all(s, first, n, out);
	e = percpu_draft_begin(&d, bytes_of(s, n));
	return e != 0 ? e : percpu_draft_end(&d, out, d.size, fetch_all(s, first, n, d.words));
}

/* Fence, so that no sequence still adds to the bank that no longer counts. Record in "fenced" that
 * this was done for this value of bank. */
static int fence_bank(const struct percpu_stats *s, struct percpu_stats_control *c, uint64_t bank)
{
	int e = percpu_region_fence(s->block.chunk->region);

	if (e == 0)
		__atomic_store_n(&c->fenced, bank, __ATOMIC_RELEASE);
	return e;
}

/* Subtract the bias, with all of each reset or nothing. Returns 0, -EAGAIN if a reset came between,
 * or another error. */
static int subtract_resets(const struct percpu_stats *s, struct percpu_stats_control *c,
			   size_t first, size_t n, uint64_t *out)
{
	uint64_t resets = __atomic_load_n(&c->resets, __ATOMIC_ACQUIRE);
	struct percpu_robust h;
	int e;

	PERCPU_STEP("stats: resets loaded");
	if (resets & 1) { /* a reset has begun: wait for it, or complete a killed one */
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

/* Reset the objects: subtract the bias from out, and add the result to the bias. Returns 0, -EAGAIN
 * if another reader came between, or another error. */
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

/* Try to take a snapshot. Returns 0, -EAGAIN if another reader came between, or another error. */
static int take(const struct percpu_stats *s, size_t first, size_t n, bool zero, uint64_t *out)
{
	struct percpu_stats_control *c = percpu_stats_control(s);
	uint64_t bank = __atomic_load_n(&c->bank, __ATOMIC_ACQUIRE), next;
	uint64_t counting = (bank & s->banks) != 0 ? s->banks : 0, resting = s->banks - counting;
	int e = 0;

	/* Fence first if the last reader was killed, could not fence, or has not fenced yet. */
	if (__atomic_load_n(&c->fenced, __ATOMIC_ACQUIRE) != bank)
		e = fence_bank(s, c, bank);
	if (e != 0)
		return e;
	memset(out, 0, bytes_of(s, n));
	e = add_bank(s, resting, first, n, out);
	if (e != 0)
		return e;
	PERCPU_STEP("stats: bank to be changed");
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

static int snapshot(const struct percpu_stats *s, size_t first, size_t n, bool zero, void *out)
{
	uint32_t *reader, me;
	struct percpu_draft d;
	int e, cancel;

	if (s == NULL || out == NULL || !has(s, first, n))
		return -EINVAL;
	if (!s->block.chunk->region->writable)
		return -EROFS;
	e = percpu_draft_begin(&d, bytes_of(s, n));
	if (e != 0)
		return e;
	reader = &percpu_stats_control(s)->reader;
	me = percpu_turn_id(s->block.chunk->region);
	cancel = percpu_defer_cancel();
	e = -EAGAIN;
	for (int try = 0; try < TRIES && e == -EAGAIN; try++) {
		percpu_turn_wait(reader, me);
		e = take(s, first, n, zero, d.words);
		percpu_turn_end(reader, me);
	}
	percpu_draft_end(&d, out, d.size, e);
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
