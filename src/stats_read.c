/* SPDX-License-Identifier: MIT */
/*
 * stats_read.c - reading counters that belong together.
 *
 * The bank that does not count is at rest: nobody stores there since the fence
 * of the last snapshot. So a snapshot sums it first, lets it count, fences, and
 * then sums the other one, which is now at rest. Nothing is ever moved from
 * one to the other, so a reader killed anywhere leaves nothing to repair, but
 * that it may not have fenced: "unfenced" says so.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

#define FIELD sizeof(uint64_t)
#define BLOCK_WORDS 1024
#define FENCE_NS (5 * PERCPU_SECOND)

static uint64_t load_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Add objects first to first + n - 1 of a bank of a CPU to out. */
static void add_lane(const struct percpu_stats *s, const char *lane, size_t n, uint64_t *out)
{
	const uint64_t *fields, *turn;

	if (s->head == 0 && s->record == s->words * FIELD) { /* one behind the other */
		fields = (const uint64_t *)lane;
		for (size_t w = 0; w < n * s->words; w++)
			out[w] += load_word(&fields[w]);
		return;
	}
	for (size_t i = 0; i < n; i++, lane += s->record, out += s->words) {
		fields = (const uint64_t *)(lane + s->head);
		if (s->head != 0) {
			turn = (const uint64_t *)lane;
			if (__atomic_load_n(turn, __ATOMIC_ACQUIRE) & 1)
				fields += (s->record - s->head) / 2 / FIELD;
		}
		for (size_t w = 0; w < s->words; w++)
			out[w] += load_word(&fields[w]);
	}
}

/* So many objects at a time that their sums stay in the first-level cache while
 * the lanes pass by. */
static void add_bank(const struct percpu_stats *s, uint64_t bank, size_t first, size_t n,
		     uint64_t *out)
{
	const char *base = s->base + first * s->record + bank;
	const size_t block = s->words < BLOCK_WORDS ? BLOCK_WORDS / s->words : 1;
	size_t m;

	for (; n != 0; n -= m, base += m * s->record, out += m * s->words) {
		m = n < block ? n : block;
		for (uint32_t cpu = 0; cpu < s->chunk->cpus; cpu++)
			add_lane(s, base + cpu * s->stride, m, out);
	}
}

/* Add what was counted by atomic additions. */
static void add_atomic(const struct percpu_stats *s, size_t first, size_t n, uint64_t *out)
{
	const struct percpu_chunk *k = s->chunk;
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
			e = percpu_journal_read(s->chunk,
						percpu_stats_offset(s, first + i) + w * FIELD, bias,
						words);
			for (size_t j = 0; j < words && e == 0; j++)
				out[w + j] -= bias[j];
		}
	return e;
}

static int add_to_bias(const struct percpu_stats *s, size_t first, size_t n, const uint64_t *values)
{
	struct percpu_journal_holder h;
	int e = percpu_journal_lock(s->chunk, &h);
	size_t words;

	if (e != 0)
		return e;
	for (size_t i = 0; i < n; i++, values += s->words)
		for (size_t w = 0; w < s->words; w += words) {
			words = journal_words(s, w);
			percpu_journal_add(s->chunk, percpu_stats_offset(s, first + i) + w * FIELD,
					   values + w, words);
		}
	percpu_journal_unlock(s->chunk, &h);
	return 0;
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

	if (s == NULL || out == NULL || !has(s, first, n))
		return -EINVAL;
	/* The bias first, as in percpu_chunk_sum(). */
	k = s->chunk;
	for (size_t i = 0; i < n; i++) {
		bias = (const uint64_t *)percpu_chunk_lane(k, 2 * (size_t)k->cpus,
							   percpu_stats_offset(s, first + i));
		for (size_t w = 0; w < s->words; w++)
			values[i * s->words + w] = -__atomic_load_n(&bias[w], __ATOMIC_ACQUIRE);
	}
	add_bank(s, 0, first, n, values);
	add_bank(s, s->banks, first, n, values);
	add_atomic(s, first, n, values);
	return 0;
}

static int fence_writers(const struct percpu_stats *s)
{
	return s->chunk->fd < 0 ? percpu_fence() : percpu_fence_all(FENCE_NS, NULL);
}

/* Let the other bank count, and bring the one that did to rest. */
static int flip(const struct percpu_stats *s, struct percpu_stats_control *c, uint64_t to)
{
	int e;

	__atomic_store_n(&c->unfenced, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&c->bank, to, __ATOMIC_SEQ_CST);
	e = fence_writers(s);
	if (e == 0)
		__atomic_store_n(&c->unfenced, 0, __ATOMIC_RELEASE);
	return e;
}

/* The caller has the lock of readers. */
static int take(const struct percpu_stats *s, size_t first, size_t n, bool reset, uint64_t *out)
{
	struct percpu_stats_control *c = percpu_stats_control(s);
	uint64_t counting = load_word(&c->bank) != 0 ? s->banks : 0, resting = s->banks - counting;
	int e = 0;

	/* The last reader was killed, or could not fence. */
	if (__atomic_load_n(&c->unfenced, __ATOMIC_ACQUIRE))
		e = flip(s, c, counting);
	if (e != 0)
		return e;
	memset(out, 0, n * s->words * FIELD);
	add_bank(s, resting, first, n, out);
	e = flip(s, c, resting);
	if (e != 0)
		return e;
	add_bank(s, counting, first, n, out);
	add_atomic(s, first, n, out);
	e = subtract_bias(s, first, n, out);
	return e == 0 && reset ? add_to_bias(s, first, n, out) : e;
}

static off_t reader_byte(const struct percpu_chunk *k)
{
	return 2 + 2 * (off_t)k->index;
}

static int snapshot(const struct percpu_stats *s, size_t first, size_t n, bool reset, void *out)
{
	struct percpu_chunk *k;
	int e, fd;

	if (s == NULL || out == NULL || !has(s, first, n))
		return -EINVAL;
	k = s->chunk;
	if (!k->region->writable)
		return -EROFS;
	percpu_owner_lock(&k->reader_lock);
	e = percpu_file_lock(k->fd, reader_byte(k), &fd);
	if (e == 0) {
		e = take(s, first, n, reset, out);
		percpu_file_unlock(k->fd, reader_byte(k), fd);
	}
	percpu_owner_unlock(&k->reader_lock);
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
