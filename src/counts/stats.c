/* SPDX-License-Identifier: MIT */
/*
 * stats.c - counters that are read together: creation of objects, and updates that were not
 * inlined. stats_read.c reads them.
 *
 * A lane holds bank 0 of all objects, and then bank 1. In the CPU lanes one of the two
 * counts at a time. The atomic lanes use bank 1 only. In the bias lane bank 1 holds what readers
 * subtract, and bank 0 holds the control block.
 *
 * value = sum of both banks in all CPU lanes + sum of the atomic lanes - bias
 *
 * If the CPU has a store as wide as an object, an update is one vector store. If not, objects of
 * up to GROUP fields are created in two copies, as with PERCPU_STATS_WHOLE: the commit stores
 * which copy is valid. Objects in a file keep their layout; a process on a CPU with narrower
 * stores takes the lock for wider updates.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"

#define FIELD sizeof(uint64_t)
#define MAX_LANE_SIZE (PERCPU_MAX_LANE / 2)
#define GROUP 8			/* fields that every CPU updates without the lock */
#define LINE PERCPU_BLOCK_ALIGN /* the banks do not share a cache line */

_Static_assert(offsetof(struct percpu_stats, block) == 0, "begins every handle");
_Static_assert(sizeof(struct percpu_stats_control) <= LINE, "fits into the smallest bank");
_Static_assert(PERCPU_STATS_MAX_COMMIT <= PERCPU_JOURNAL_WORDS, "any update fits the journal");

static size_t round_words(size_t words)
{
	return words <= 2 ? words : words <= 4 ? 4 : (words + 7) / 8 * 8;
}

/* Creation */

static int check_schema(size_t size, size_t n, unsigned flags)
{
	if (size == 0 || size % FIELD != 0 || n == 0 || (flags & ~PERCPU_STATS_WHOLE) ||
	    size > MAX_LANE_SIZE / 4 / n)
		return -EINVAL;
	return (flags & PERCPU_STATS_WHOLE) && size / FIELD > PERCPU_STATS_MAX_COMMIT ? -E2BIG : 0;
}

/* Return whether this process creates such objects in two copies. */
static bool wants_copies(size_t size, unsigned flags)
{
	size_t words = size / FIELD;

	return (flags & PERCPU_STATS_WHOLE) || (words > percpu_vector_words() && words <= GROUP);
}

/* Return the words of a copy: the number of fields, rounded up to even. */
static size_t words_of_copy(const struct percpu_stats *s)
{
	return (s->words + 1) / 2 * 2;
}

/* Fill in the fields that depend on the schema. */
static void lay_out(struct percpu_stats *s, size_t size, size_t n, unsigned flags, bool copies)
{
	size_t words = round_words(size / FIELD);

	memset(s, 0, sizeof(*s));
	s->words = size / FIELD;
	s->n = n;
	s->flags = flags;
	if (copies) {
		s->head = sizeof(struct percpu_copies);
		s->record = s->head + 2 * words_of_copy(s) * FIELD;
		s->commit = (uint32_t)s->words;
	} else {
		s->record = words * FIELD;
		s->commit = percpu_vector_words();
		s->vector = s->commit;
	}
	s->banks = (n * s->record + LINE - 1) / LINE * LINE;
}

static void start_stats(struct percpu_block *b)
{
	const struct percpu_stats *s = (struct percpu_stats *)b;
	struct percpu_stats_control *c = percpu_stats_control(s);

	c->size = s->words * FIELD;
	c->n = s->n;
	c->flags = s->flags;
	c->copies = s->head != 0;
}

static void complete_stats(struct percpu_block *b)
{
	struct percpu_stats *s = (struct percpu_stats *)b;

	if (!b->chunk->region->writable)
		s->vector = 0; /* so that all updates take the slow path, which refuses */
	s->bank = &percpu_stats_control(s)->bank;
}

/* Load the layout that the creator wrote into the control block. Another process may have damaged
 * it since, so each word is loaded once and checked. */
static int find_layout(const struct percpu_stats_control *c, size_t size, size_t n, unsigned flags,
		       struct percpu_stats *ret)
{
	unsigned made_with = __atomic_load_n(&c->flags, __ATOMIC_RELAXED);
	unsigned copies = __atomic_load_n(&c->copies, __ATOMIC_RELAXED);

	if (__atomic_load_n(&c->size, __ATOMIC_RELAXED) != size ||
	    __atomic_load_n(&c->n, __ATOMIC_RELAXED) != n || (flags & ~made_with) != 0 ||
	    copies > 1 || (copies == 0 && made_with != 0) ||
	    check_schema(size, n, copies ? made_with | PERCPU_STATS_WHOLE : made_with) != 0)
		return -ENOENT;
	lay_out(ret, size, n, made_with, copies);
	return 0;
}

static int adopt_stats(const struct percpu_block *found, struct percpu_plan *p)
{
	struct percpu_stats *t = p->handle;
	int e = find_layout(percpu_stats_control_at(found->chunk, found->base), t->words * FIELD,
			    t->n, t->flags, t);

	if (e == 0)
		p->size = p->touched = 2 * t->banks;
	return e;
}

static int plan_stats(size_t size, size_t n, unsigned flags, struct percpu_stats *t,
		      struct percpu_plan *ret)
{
	int e = check_schema(size, n, flags);

	if (e != 0)
		return e;
	lay_out(t, size, n, flags, wants_copies(size, flags));
	*ret = (struct percpu_plan){
		.kind = PERCPU_KIND_STATS,
		.size = 2 * t->banks,
		.touched = 2 * t->banks,
		.align = PERCPU_BLOCK_ALIGN, /* for vector stores */
		.handle = t,
		.handle_size = sizeof(*t),
		.start = start_stats,
		.complete = complete_stats,
		.adopt = adopt_stats,
	};
	return 0;
}

int percpu_stats_create(size_t size, size_t n, unsigned flags, struct percpu_stats **ret)
{
	struct percpu_stats t;
	struct percpu_plan p;
	int e = plan_stats(size, n, flags, &t, &p);

	return e != 0 ? e : percpu_block_create(&p, ret);
}

int percpu_stats_create_in(struct percpu_region *r, size_t size, size_t n, unsigned flags,
			   struct percpu_stats **ret)
{
	struct percpu_stats t;
	struct percpu_plan p;
	int e = plan_stats(size, n, flags, &t, &p);

	return e != 0 ? e : percpu_block_create_in(r, &p, ret);
}

int percpu_stats_attach(struct percpu_region *r, uint64_t key, size_t size, size_t n,
			unsigned flags, struct percpu_stats **ret)
{
	struct percpu_stats t;
	struct percpu_plan p;
	int e = plan_stats(size, n, flags, &t, &p);

	return e != 0 ? e : percpu_block_attach(r, key, &p, ret);
}

int percpu_stats_open(struct percpu_region *r, unsigned root, size_t size, size_t n, unsigned flags,
		      struct percpu_stats **ret)
{
	struct percpu_stats t;
	struct percpu_plan p;
	int e = plan_stats(size, n, flags, &t, &p);

	return e != 0 ? e : percpu_block_open(r, root, &p, ret);
}

int percpu_stats_open_at(struct percpu_region *r, struct percpu_anchor *at, size_t size, size_t n,
			 unsigned flags, struct percpu_stats **ret)
{
	struct percpu_stats t;
	struct percpu_plan p;
	int e = plan_stats(size, n, flags, &t, &p);

	return e != 0 ? e : percpu_block_open_at(r, at, &p, ret);
}

uint64_t percpu_stats_key(const struct percpu_stats *s)
{
	return percpu_block_key(s, PERCPU_KIND_STATS);
}

void percpu_stats_detach(struct percpu_stats *s)
{
	free(s);
}

void percpu_stats_destroy(struct percpu_stats *s)
{
	percpu_block_destroy(s);
}

unsigned percpu_stats_commit_words(const struct percpu_stats *s)
{
	return s != NULL ? s->commit : 0;
}

/* Updates that were not inlined, or whose sequence was aborted */

/* Add n to a field by a sequence. Returns 0, or another value with nothing added. */
static int add_by_sequence(const struct percpu_stats *s, size_t i, size_t word, int64_t n)
{
	char *cell = s->block.base + i * s->record;

	return s->head != 0 ? percpu_seq_copies_add(cell, s->block.stride, s->bank, s->banks, word,
						    words_of_copy(s), n) :
			      percpu_seq_bank_add(cell + word * FIELD, s->block.stride, s->bank,
						  s->banks, n);
}

static void add_stats_atomic(const struct percpu_stats *s, size_t i, size_t word, int64_t n)
{
	percpu_chunk_add_atomic(s->block.chunk, percpu_stats_offset(s, i) + word * FIELD, n);
}

static __attribute__((noinline)) void retry_stats_add(const struct percpu_stats *s, size_t i,
						      size_t word, int64_t n)
{
	/* percpu_stats_add() has not tried objects in two copies. */
	int r = s->head != 0 ? add_by_sequence(s, i, word, n) : PERCPU_SEQ_SLOW;

	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = add_by_sequence(s, i, word, n);
	if (r != 0)
		add_stats_atomic(s, i, word, n);
}

void percpu_stats_add_slow(const struct percpu_stats *s, size_t i, size_t word, int64_t n)
{
	if (percpu_seq_never())
		add_stats_atomic(s, i, word, n);
	else
		retry_stats_add(s, i, word, n);
}

static int add_vector(const struct percpu_stats *s, char *cell, const uint64_t *n, size_t words)
{
	percpu_words2 n0 = percpu_stats_words2(n, 0, words), n2 = percpu_stats_words2(n, 2, words);

	if (words == 1)
		return percpu_seq_bank_add(cell, s->block.stride, s->bank, s->banks, (int64_t)n[0]);
	if (words == 2)
		return percpu_seq_bank_add2(cell, s->block.stride, s->bank, s->banks, n0);
	if (words <= 4)
		return percpu_seq_bank_add4(cell, s->block.stride, s->bank, s->banks, n0, n2);
	return percpu_seq_bank_add8(cell, s->block.stride, s->bank, s->banks, n0, n2,
				    percpu_stats_words2(n, 4, words),
				    percpu_stats_words2(n, 6, words));
}

static int check_update(const struct percpu_stats *s, size_t i, size_t word, size_t words)
{
	if (words == 0 || i >= s->n || word >= s->words || words > s->words - word)
		return -EINVAL;
	if (!s->block.chunk->region->writable)
		return -EROFS;
	if (words > PERCPU_STATS_MAX_COMMIT)
		return -E2BIG;
	/* Readers read the bias in aligned blocks of PERCPU_JOURNAL_WORDS words. */
	return word / PERCPU_JOURNAL_WORDS != (word + words - 1) / PERCPU_JOURNAL_WORDS ? -EINVAL :
											  0;
}

/* Return whether one store commits the update: the store of a turn, or an aligned vector store. */
static bool is_one_commit(const struct percpu_stats *s, size_t word, size_t words)
{
	size_t group = words <= 2 ? words : words <= 4 ? 4 : 8;

	return words <= s->commit && (s->head != 0 || word % group == 0);
}

static int update_locked(const struct percpu_stats *s, size_t offset, const uint64_t *n,
			 size_t words)
{
	uint64_t delta[PERCPU_STATS_MAX_COMMIT];
	struct percpu_robust h;
	int e = percpu_journal_lock(s->block.chunk, &h);

	if (e != 0)
		return e;
	for (size_t w = 0; w < words; w++)
		delta[w] = -n[w]; /* the bias is subtracted */
	percpu_journal_add(s->block.chunk, offset, delta, words);
	percpu_robust_unlock(&h);
	return 0;
}

/* Write all fields to the copy that is not valid, and make that copy valid. */
static int update_copy(const struct percpu_stats *s, char *cell, size_t word, const uint64_t *n,
		       size_t words)
{
	const size_t all = words_of_copy(s);
	uint64_t delta[PERCPU_STATS_MAX_COMMIT];

	if (words != all) {
		memset(delta, 0, all * FIELD);
		memcpy(delta + word, n, words * FIELD);
		n = delta;
	}
	return percpu_seq_bank_update(cell, s->block.stride, s->bank, s->banks, n, all);
}

/* Add to several fields by a sequence. Returns 0, or another value with nothing added. */
static int update_by_sequence(const struct percpu_stats *s, size_t i, size_t word,
			      const uint64_t *n, size_t words)
{
	char *cell = s->block.base + i * s->record;

	return s->head != 0 ? update_copy(s, cell, word, n, words) :
			      add_vector(s, cell + word * FIELD, n, words);
}

int percpu_stats_update_slow(const struct percpu_stats *s, size_t i, size_t word, const uint64_t *n,
			     size_t words)
{
	int r, e = check_update(s, i, word, words);

	if (e != 0)
		return e;
	if (is_one_commit(s, word, words)) {
		r = update_by_sequence(s, i, word, n, words);
		for (int try = 0; percpu_seq_prepare_try(r, try); try++)
			r = update_by_sequence(s, i, word, n, words);
		if (r == 0)
			return 0;
	}
	return update_locked(s, percpu_stats_offset(s, i) + word * FIELD, n, words);
}
