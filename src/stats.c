/* SPDX-License-Identifier: MIT */
/*
 * stats.c - counters that are read together.
 *
 * A lane holds, for all objects, bank 0 and then bank 1. In the CPU lanes both
 * count, one at a time; in the atomic lanes bank 0 alone. In the bias lane the
 * place of bank 0 has what readers subtract, and that of bank 1 the control.
 *
 * value = sum of both banks in all CPU lanes + sum of the atomic lanes - bias
 *
 * The bank that does not count is at rest: nobody stores there since the fence
 * of the last snapshot. So a snapshot sums it first, lets it count, fences, and
 * then sums the other one, which is now at rest. Nothing is ever moved from
 * one to the other, so a reader killed anywhere leaves nothing to repair, but
 * that it may not have fenced: "unfenced" says so.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/fence.h>
#include <percpu/stats.h>

#include "internal.h"

#define WORD sizeof(uint64_t)
#define MAX_SIZE ((size_t)1 << 39)
#define LINE 64 /* objects do not share a vector, nor the banks a line */
#define OBJECTS_AT_ONCE 64

struct control {
	uint64_t bank;
	uint64_t unfenced;
	uint64_t size;
	uint64_t n;
	uint64_t flags;
};

_Static_assert(sizeof(struct control) <= LINE, "fits into the smallest bank");

static size_t round_words(size_t words)
{
	return words <= 2 ? words : words <= 4 ? 4 : (words + 7) / 8 * 8;
}

/* Where the first field of object i is in a lane, in bank 0. */
static size_t offset_of(const struct percpu_stats *s, size_t i)
{
	return (size_t)(s->base - s->chunk->base) + i * s->record + s->head;
}

static struct control *control_of(const struct percpu_stats *s)
{
	const struct percpu_chunk *k = s->chunk;

	return (struct control *)(percpu_chunk_lane(k, 2 * (size_t)k->cpus, 0) +
				  (s->base - k->base) + s->banks);
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Sums */

/* Add objects first to first + n - 1 of a bank of a CPU to out. */
static void add_lane(const struct percpu_stats *s, const char *lane, size_t n, uint64_t *out)
{
	const uint64_t *fields, *turn;

	for (size_t i = 0; i < n; i++, lane += s->record, out += s->words) {
		fields = (const uint64_t *)(lane + s->head);
		if (s->head != 0) {
			turn = (const uint64_t *)lane;
			if (__atomic_load_n(turn, __ATOMIC_ACQUIRE) & 1)
				fields += (s->record - s->head) / 2 / WORD;
		}
		for (size_t w = 0; w < s->words; w++)
			out[w] += load(&fields[w]);
	}
}

static void add_bank(const struct percpu_stats *s, uint64_t bank, size_t first, size_t n,
		     uint64_t *out)
{
	const char *base = s->base + first * s->record + bank;

	for (uint32_t cpu = 0; cpu < s->chunk->cpus; cpu++)
		add_lane(s, base + cpu * s->stride, n, out);
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
					k, lane, offset_of(s, first + i));
				for (size_t w = 0; w < s->words; w++)
					out[i * s->words + w] += load(&fields[w]);
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
			e = percpu_journal_read(s->chunk, offset_of(s, first + i) + w * WORD, bias,
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
			percpu_journal_add(s->chunk, offset_of(s, first + i) + w * WORD, values + w,
					   words);
		}
	percpu_journal_unlock(s->chunk, &h);
	return 0;
}

/* Creation */

static int check_schema(size_t size, size_t n, unsigned flags)
{
	if (size == 0 || size % WORD != 0 || n == 0 || (flags & ~PERCPU_STATS_WHOLE) ||
	    size > MAX_SIZE / 4 / n)
		return -EINVAL;
	return (flags & PERCPU_STATS_WHOLE) && size / WORD > PERCPU_STATS_MAX_COMMIT ? -E2BIG : 0;
}

/* What follows from the schema. */
static void describe(struct percpu_stats *s, size_t size, size_t n, unsigned flags)
{
	size_t words = round_words(size / WORD);

	memset(s, 0, sizeof(*s));
	s->words = size / WORD;
	s->n = n;
	if (flags & PERCPU_STATS_WHOLE) {
		words = (s->words + 1) / 2 * 2;
		s->head = sizeof(struct percpu_pair);
		s->record = s->head + 2 * words * WORD;
		s->commit = (uint32_t)s->words;
	} else {
		s->record = words * WORD;
		s->commit = percpu_vector_words();
		s->vector = s->commit;
	}
	s->banks = (n * s->record + LINE - 1) / LINE * LINE;
}

static int make(const struct percpu_stats *template, struct percpu_region *r,
		struct percpu_region *own, void *cell, struct percpu_stats **ret)
{
	struct percpu_stats *s = malloc(sizeof(*s));

	if (s == NULL)
		return -ENOMEM;
	*s = *template;
	s->base = cell;
	s->chunk = percpu_region_chunk(r, cell);
	s->stride = s->chunk->stride;
	s->own = own;
	s->bank = &control_of(s)->bank;
	*ret = s;
	return 0;
}

/* Subtract what earlier users have left in the cells; a region of its own has
 * nothing. */
static int forget_the_past(const struct percpu_stats *s)
{
	const struct percpu_chunk *k = s->chunk;
	uint64_t *values = malloc(s->words * WORD), *bias;

	if (values == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		memset(values, 0, s->words * WORD);
		add_bank(s, 0, i, 1, values);
		add_bank(s, s->banks, i, 1, values);
		add_atomic(s, i, 1, values);
		bias = (uint64_t *)percpu_chunk_lane(k, 2 * (size_t)k->cpus, offset_of(s, i));
		if (memcmp(bias, values, s->words * WORD) != 0)
			memcpy(bias, values, s->words * WORD);
	}
	free(values);
	return 0;
}

static void start(const struct percpu_stats *s, uint64_t flags)
{
	struct control *c = control_of(s);

	c->size = s->words * WORD;
	c->n = s->n;
	c->flags = flags;
	c->unfenced = 0;
	__atomic_store_n(&c->bank, 0, __ATOMIC_RELEASE);
}

static int create_in(struct percpu_region *r, struct percpu_region *own,
		     const struct percpu_stats *t, unsigned flags, struct percpu_stats **ret)
{
	struct percpu_stats *s;
	void *cell;
	int e = percpu_region_alloc(r, 2 * t->banks, LINE, &cell);

	if (e != 0)
		return e;
	e = make(t, r, own, cell, &s);
	if (e == 0 && own == NULL) {
		e = forget_the_past(s);
		if (e != 0)
			free(s);
	}
	if (e != 0) {
		(void)percpu_region_free(r, cell, 2 * t->banks);
		return e;
	}
	start(s, flags);
	*ret = s;
	return 0;
}

int percpu_stats_create_in(struct percpu_region *r, size_t size, size_t n, unsigned flags,
			   struct percpu_stats **ret)
{
	struct percpu_stats t;
	int e;

	if (r == NULL || ret == NULL || n == 0)
		return -EINVAL;
	e = check_schema(size, n, flags);
	if (e != 0)
		return e;
	describe(&t, size, n, flags);
	return create_in(r, NULL, &t, flags, ret);
}

int percpu_stats_create(size_t size, size_t n, unsigned flags, struct percpu_stats **ret)
{
	struct percpu_region_options o = { .size = sizeof(o) };
	struct percpu_stats t;
	struct percpu_region *r;
	int e;

	if (ret == NULL || n == 0)
		return -EINVAL;
	e = check_schema(size, n, flags);
	if (e != 0)
		return e;
	describe(&t, size, n, flags);
	o.lane_size = 2 * t.banks;
	if (o.lane_size <= PERCPU_LANE_SIZE) {
		e = percpu_region_default(&r);
		return e != 0 ? e : create_in(r, NULL, &t, flags, ret);
	}
	e = percpu_region_create(&o, &r);
	if (e != 0)
		return e;
	e = create_in(r, r, &t, flags, ret);
	if (e != 0)
		percpu_region_close(r);
	return e;
}

int percpu_stats_attach(struct percpu_region *r, uint64_t key, size_t size, size_t n,
			unsigned flags, struct percpu_stats **ret)
{
	struct percpu_stats t, *s;
	const struct control *c;
	void *cell;
	int e;

	if (r == NULL || ret == NULL || n == 0)
		return -EINVAL;
	e = check_schema(size, n, flags);
	if (e != 0)
		return e;
	describe(&t, size, n, flags);
	cell = key % LINE == 0 ? percpu_region_at(r, key, 2 * t.banks) : NULL;
	if (cell == NULL)
		return -ENOENT;
	e = make(&t, r, NULL, cell, &s);
	if (e != 0)
		return e;
	c = control_of(s);
	if (load(&c->size) != size || load(&c->n) != n || load(&c->flags) != flags) {
		free(s);
		return -ENOENT;
	}
	*ret = s;
	return 0;
}

void percpu_stats_detach(struct percpu_stats *s)
{
	free(s);
}

uint64_t percpu_stats_key(const struct percpu_stats *s)
{
	return s->chunk->fd < 0 ? 0 : percpu_region_key(s->chunk->region, s->base);
}

void percpu_stats_destroy(struct percpu_stats *s)
{
	if (s == NULL)
		return;
	if (s->own != NULL)
		percpu_region_close(s->own);
	else
		(void)percpu_region_free(s->chunk->region, s->base, 2 * s->banks);
	free(s);
}

unsigned percpu_stats_commit_words(const struct percpu_stats *s)
{
	return s->commit;
}

/* Updates that were not inlined, or whose sequence was aborted */

void percpu_stats_add_slow(const struct percpu_stats *s, size_t i, size_t word, int64_t n)
{
	uint64_t delta = (uint64_t)n;
	struct percpu_rseq *rs;

	if (s->head != 0) {
		if (percpu_stats_update_slow(s, i, word, &delta, 1) == 0)
			return;
	} else {
		rs = percpu_seq_attach();
		for (int try = 0; try < PERCPU_SEQ_TRIES && rs->cpu_id >= 0; try++)
			if (percpu_seq_bank_add(rs, s->base + i * s->record + word * WORD,
						s->stride, s->bank, s->banks, n) == 0)
				return;
	}
	percpu_chunk_add_atomic(s->chunk, offset_of(s, i) + word * WORD, n);
}

static int add_vector(struct percpu_rseq *rs, const struct percpu_stats *s, char *cell,
		      const uint64_t *n, size_t words)
{
	percpu_words2 n0 = percpu_stats_pair(n, 0, words), n2 = percpu_stats_pair(n, 2, words);

	if (words == 1)
		return percpu_seq_bank_add(rs, cell, s->stride, s->bank, s->banks, (int64_t)n[0]);
	if (words == 2)
		return percpu_seq_bank_add2(rs, cell, s->stride, s->bank, s->banks, n0);
	if (words <= 4)
		return percpu_seq_bank_add4(rs, cell, s->stride, s->bank, s->banks, n0, n2);
	return percpu_seq_bank_add8(rs, cell, s->stride, s->bank, s->banks, n0, n2,
				    percpu_stats_pair(n, 4, words), percpu_stats_pair(n, 6, words));
}

static int check_update(const struct percpu_stats *s, size_t i, size_t word, size_t words)
{
	size_t group = words <= 2 ? words : words <= 4 ? 4 : 8;

	if (words == 0 || i >= s->n || word >= s->words || words > s->words - word)
		return -EINVAL;
	if (words > s->commit)
		return -E2BIG;
	return s->head == 0 && word % group != 0 ? -EINVAL : 0;
}

static int update_locked(const struct percpu_stats *s, size_t offset, const uint64_t *n,
			 size_t words)
{
	uint64_t delta[PERCPU_STATS_MAX_COMMIT];
	struct percpu_journal_holder h;
	int e = percpu_journal_lock(s->chunk, &h);

	if (e != 0)
		return e;
	for (size_t w = 0; w < words; w++)
		delta[w] = -n[w]; /* of the bias */
	percpu_journal_add(s->chunk, offset, delta, words);
	percpu_journal_unlock(s->chunk, &h);
	return 0;
}

int percpu_stats_update_slow(const struct percpu_stats *s, size_t i, size_t word, const uint64_t *n,
			     size_t words)
{
	uint64_t whole[PERCPU_STATS_MAX_COMMIT] = { 0 };
	char *cell = s->base + i * s->record;
	struct percpu_rseq *rs;
	int e = check_update(s, i, word, words), r;

	if (e != 0)
		return e;
	if (s->head != 0)
		memcpy(whole + word, n, words * WORD);
	rs = percpu_seq_attach();
	for (int try = 0; try < PERCPU_SEQ_TRIES && rs->cpu_id >= 0; try++) {
		r = s->head != 0 ? percpu_seq_bank_update(rs, cell, s->stride, s->bank, s->banks,
							  whole, (s->words + 1) / 2 * 2) :
				   add_vector(rs, s, cell + word * WORD, n, words);
		if (r == 0)
			return 0;
	}
	return update_locked(s, offset_of(s, i) + word * WORD, n, words);
}

/* Reading */

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
							   offset_of(s, first + i));
		for (size_t w = 0; w < s->words; w++)
			values[i * s->words + w] = -__atomic_load_n(&bias[w], __ATOMIC_ACQUIRE);
	}
	add_bank(s, 0, first, n, values);
	add_bank(s, s->banks, first, n, values);
	add_atomic(s, first, n, values);
	return 0;
}

static int fence(const struct percpu_stats *s)
{
	return s->chunk->fd < 0 ? percpu_fence() : percpu_fence_all(5 * PERCPU_SECOND, NULL);
}

/* Let the other bank count, and bring the one that did to rest. */
static int flip(const struct percpu_stats *s, struct control *c, uint64_t to)
{
	int e;

	__atomic_store_n(&c->unfenced, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&c->bank, to, __ATOMIC_SEQ_CST);
	e = fence(s);
	if (e == 0)
		__atomic_store_n(&c->unfenced, 0, __ATOMIC_RELEASE);
	return e;
}

/* The caller has the lock of readers. */
static int take(const struct percpu_stats *s, size_t first, size_t n, bool reset, uint64_t *out)
{
	struct control *c = control_of(s);
	uint64_t counting = load(&c->bank) != 0 ? s->banks : 0, resting = s->banks - counting;
	int e = 0;

	/* The last reader was killed, or could not fence. */
	if (__atomic_load_n(&c->unfenced, __ATOMIC_ACQUIRE))
		e = flip(s, c, counting);
	if (e != 0)
		return e;
	memset(out, 0, n * s->words * WORD);
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
