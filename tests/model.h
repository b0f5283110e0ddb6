/* SPDX-License-Identifier: MIT */
/*
 * model.h - the sequences of arch/spec.h again, in plain C. Tests compare the real ones with
 * these. A test has lanes of memory and an operation with its arguments, and model_apply() does
 * to a lane what the operation must do.
 *
 * model_run() executes the real sequence. It is compiled into each test, so that a test may
 * define PERCPU_SEQ_STEP first.
 */
#ifndef TESTS_MODEL_H
#define TESTS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <percpu/seq.h>

#define MODEL_SLOTS 8
#define MODEL_WORDS 20	     /* two banks of 8 words, or two pairs of 4 words */
#define MODEL_GROUP_BANK 256 /* bytes between the banks of a group */
#define MODEL_GROUP_RECORDS 3
#define MODEL_RING 16 /* slots; a record takes half at most */
#define MODEL_UNSET INT64_C(0x5ca1ab1e0ddba11)

/** The sequences, and after them the operations that objects make of these. */
enum model_op {
	MODEL_ADD,
	MODEL_NARROW_ADD,
	MODEL_ADD_AT,
	MODEL_NARROW_ADD_IF,
	MODEL_BANK_ADD,
	MODEL_BANK_ADD2,
	MODEL_BANK_ADD4,
	MODEL_BANK_ADD8,
	MODEL_PAIR_ADD,
	MODEL_BANK_UPDATE,
	MODEL_GROUP_UPDATE2,
	MODEL_GROUP_UPDATE4,
	MODEL_GROUP_UPDATE,
	MODEL_GROUP_UNDO,
	MODEL_ADD_LIMIT,
	MODEL_CMPXCHG,
	MODEL_XCHG,
	MODEL_PUSH,
	MODEL_POP,
	MODEL_TAKE,
	MODEL_COPY,
	MODEL_APPEND1,
	MODEL_APPEND2,
	MODEL_APPEND4,
	MODEL_PUT,
	MODEL_ADD_DOUBLE,
	MODEL_ADD_COUNT_DOUBLE,
	MODEL_WIDEN,
	MODEL_ADD_WITHIN,
	MODEL_ENTER,
	MODEL_SEQUENCES,
	MODEL_ADD2 = MODEL_SEQUENCES,
	MODEL_ADD4,
	MODEL_ADD8,
	MODEL_ADD_RETURN,
	MODEL_STORE,
	MODEL_ADD_WHOLE, /* to a double that is a whole number and stays one */
	MODEL_OBSERVE,	 /* the first two words are the minimum and the maximum */
	MODEL_WIDEN_NEW, /* widen, with an epoch that is new to the lane */
	MODEL_COUNT,	 /* adds 1 */
	MODEL_COUNT_OFF, /* adds 1; an operation that comes within it subtracts MODEL_OFF */
	MODEL_OPS
};

/** One lane: the guard, and the memory that the operation works on. */
struct model_lane {
	uint32_t guard;
	union {
		int64_t word[MODEL_WORDS];
		uint32_t narrow;
		struct {
			uint64_t count;
			uint64_t slot[MODEL_SLOTS];
		} array;
		struct {
			uint64_t head;
			uint64_t tail;
			uint64_t slot[MODEL_SLOTS];
		} fifo;
		struct {
			uint64_t head;
			uint64_t unused[7];
			uint64_t tail;
			uint64_t unused2[7];
			uint64_t slot[MODEL_RING];
		} ring;
		struct percpu_extremes extremes[2];
		char all[448]; /* the size of a lane is a power of two */
	} __attribute__((aligned(64)));
};

/** An operation with its arguments; each op uses those it needs. */
struct model_case {
	enum model_op op;
	int64_t n[8];  /* addends, which may be doubles; or new value, or owner; or words to copy */
	int64_t other; /* limit, or expected value, or half a window, or reach */
	uint64_t limit; /* of the array; or checkpoint; or bank; or the bit that closes a cell */
	uint64_t mask; /* of the queue; or distance of the banks; or epoch; MODEL_KEEP: of a ring */
	uint64_t words; /* to copy or to append; or bytes to put */
};

#define MODEL_KEEP ((uint64_t)1 << 63)
#define MODEL_OFF 8

/** The time in a record of the model. */
#define MODEL_TIME UINT64_C(0x71e71e71e71e71e7)

/** The results of a call; value is MODEL_UNSET if the call set none. A call that returns
 *  PERCPU_SEQ_SLOW may leave any value, as spec.h says; with GCC at -O1 it does. */
struct model_result {
	int code;
	int64_t value;
};

const char *model_name(enum model_op op);

/** Return whether the real sequence exists in a unit with this PERCPU_SEQ_WORDS. */
bool model_exists(enum model_op op, int seq_words);

/** Fill a lane with random content that op may find there. */
void model_fill(struct model_lane *lane, enum model_op op, uint64_t *random);

/** Choose arguments of op for a lane; one case in about three is refused. */
void model_choose(struct model_case *c, enum model_op op, const struct model_lane *lane,
		  uint64_t *random);

/** Choose arguments of the same operation, which comes within c. */
void model_choose_nested(struct model_case *nested, const struct model_case *c,
			 const struct model_lane *lane, uint64_t *random);

/** Do to the lane what the operation must do. */
struct model_result model_apply(struct model_lane *lane, const struct model_case *c);

/** Return whether two lanes are the same. Bytes behind the top of an array or the head of a queue
 *  are ignored. */
bool model_same(const struct model_lane *a, const struct model_lane *b, enum model_op op,
		uint64_t mask);

static inline percpu_words2 model_pair(const struct model_case *c, unsigned at)
{
	return (percpu_words2){ (uint64_t)c->n[at], (uint64_t)c->n[at + 1] };
}

/** Return the double with these bits. */
static inline double model_double(int64_t bits)
{
	double d;

	__builtin_memcpy(&d, &bits, sizeof(d));
	return d;
}

/** Return the bits of a double. */
static inline int64_t model_bits(double d)
{
	int64_t bits;

	__builtin_memcpy(&bits, &d, sizeof(bits));
	return bits;
}

/** Return the last word of the bytes to put. */
uint64_t model_last(const struct model_case *c);

/** Give the calling thread another area, as if the kernel had done so. Returns the old one. The
 *  fence is there because the compiler does not see that sequences read percpu_self. */
static inline struct percpu_rseq *model_set_area(struct percpu_rseq *area)
{
	struct percpu_rseq *old = percpu_self;

	percpu_self = area;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return old;
}

/** Return the number of the first or of the second record that a case changes. */
static inline size_t model_group_first(const struct model_case *c)
{
	return (size_t)c->other / MODEL_GROUP_RECORDS;
}

static inline size_t model_group_second(const struct model_case *c)
{
	return (size_t)c->other % MODEL_GROUP_RECORDS;
}

/* One copy of the sequence, whichever operation runs it. */
static __attribute__((noinline, unused)) int model_undo_group(void *cell,
							      const struct model_case *c)
{
	return percpu_seq_group_undo(cell, sizeof(struct model_lane), &c->limit, c->mask,
				     32 + 2 * c->words * 8, MODEL_GROUP_RECORDS, c->words * 8);
}

static __attribute__((noinline, unused)) int model_update_group_once(void *cell,
								     const struct model_case *c)
{
	const size_t stride = sizeof(struct model_lane), bytes = c->words * 8;
	const size_t first = model_group_first(c), second = model_group_second(c);
	const uint64_t names = percpu_group_names(first, second), *bank = &c->limit;
	const size_t a = 32 + (2 + first) * bytes, b = 32 + (2 + second) * bytes;
	const percpu_words2 n[] = { model_pair(c, 0), model_pair(c, 4), model_pair(c, 2),
				    model_pair(c, 6) };

	if (c->op == MODEL_GROUP_UPDATE2)
		return percpu_seq_group_update2(cell, stride, bank, c->mask, names, a, b, n[0],
						n[1]);
#if PERCPU_SEQ_WORDS >= 4
	if (c->op == MODEL_GROUP_UPDATE4)
		return percpu_seq_group_update4(cell, stride, bank, c->mask, names, a, b, n[0],
						n[2], n[1], n[3]);
#endif
	return percpu_seq_group_update(cell, stride, bank, c->mask, names, a, b, n, bytes);
}

/** Update, after undoing what is open. SLOW: it was aborted, or an update is open in the lane that it
 *  came to after that. */
static inline int model_update_group(void *cell, const struct model_case *c)
{
	int r = model_update_group_once(cell, c);

	if (r != PERCPU_SEQ_REFUSED)
		return r;
	r = model_undo_group(cell, c);
	if (r != PERCPU_SEQ_SLOW)
		r = model_update_group_once(cell, c);
	return r == PERCPU_SEQ_REFUSED ? PERCPU_SEQ_SLOW : r;
}

static __attribute__((noinline, unused)) struct model_result model_run(struct model_lane *lane0,
								       const struct model_case *c)
{
	const size_t stride = sizeof(*lane0);
	const uint32_t *guard = &lane0->guard;
	struct model_result r = { -1, MODEL_UNSET };
	void *cell = lane0->word;
	void *const unset = (void *)(uintptr_t)MODEL_UNSET;
	void *item = unset;
	uint64_t word = (uint64_t)MODEL_UNSET, at;

	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	switch (c->op) {
	case MODEL_ADD:
		r.code = percpu_seq_add(cell, stride, c->n[0]);
		break;
	case MODEL_NARROW_ADD:
		r.code = percpu_seq_narrow_add(cell, stride, c->n[0], (uint64_t)c->other);
		break;
	case MODEL_ADD_AT:
		at = (uint64_t)(uintptr_t)cell | c->limit;
		r.code = percpu_seq_add_at(&at, stride, c->n[0]);
		break;
	case MODEL_NARROW_ADD_IF:
		r.code = percpu_seq_narrow_add_if(cell, stride, c->n[0], &c->limit,
						  (uint64_t)c->other);
		break;
	case MODEL_BANK_ADD:
		r.code = percpu_seq_bank_add(cell, stride, &c->limit, c->mask, c->n[0]);
		break;
	case MODEL_BANK_ADD2:
		r.code = percpu_seq_bank_add2(cell, stride, &c->limit, c->mask, model_pair(c, 0));
		break;
	case MODEL_BANK_ADD4:
#if PERCPU_SEQ_WORDS >= 4
		r.code = percpu_seq_bank_add4(cell, stride, &c->limit, c->mask, model_pair(c, 0),
					      model_pair(c, 2));
#endif
		break;
	case MODEL_BANK_ADD8:
#if PERCPU_SEQ_WORDS >= 8
		r.code = percpu_seq_bank_add8(cell, stride, &c->limit, c->mask, model_pair(c, 0),
					      model_pair(c, 2), model_pair(c, 4), model_pair(c, 6));
#endif
		break;
	case MODEL_PAIR_ADD:
		r.code = percpu_seq_copies_add(cell, stride, &c->limit, c->mask,
					       (uint64_t)c->other % c->words, c->words, c->n[0]);
		break;
	case MODEL_BANK_UPDATE:
		r.code = percpu_seq_bank_update(cell, stride, &c->limit, c->mask,
						(const uint64_t *)c->n, c->words);
		break;
	case MODEL_GROUP_UPDATE2:
	case MODEL_GROUP_UPDATE4:
	case MODEL_GROUP_UPDATE:
		r.code = model_update_group(cell, c);
		break;
	case MODEL_GROUP_UNDO:
		r.code = model_undo_group(cell, c);
		break;
	case MODEL_ADD_LIMIT:
		r.code = percpu_seq_add_limit(cell, guard, stride, c->n[0], c->other, &r.value);
		break;
	case MODEL_CMPXCHG:
		r.code = percpu_seq_cmpxchg(cell, guard, stride, c->other, c->n[0], &r.value);
		break;
	case MODEL_XCHG:
		r.code = percpu_seq_xchg(cell, guard, stride, c->n[0], &r.value);
		break;
	case MODEL_PUSH:
		r.code = percpu_seq_push(cell, guard, stride, c->limit, (void *)(uintptr_t)c->n[0]);
		break;
	case MODEL_POP:
		r.code = percpu_seq_pop(cell, guard, stride, &item);
		if (item != unset)
			r.value = (int64_t)(uintptr_t)item;
		break;
	case MODEL_TAKE:
		r.code = percpu_seq_take(cell, guard, stride, c->mask, &word);
		r.value = (int64_t)word;
		break;
	case MODEL_COPY:
		r.code = percpu_seq_copy(cell, guard, stride, c->mask, (const uint64_t *)c->n,
					 c->words);
		break;
	case MODEL_APPEND1:
		r.code = percpu_seq_append1(cell, stride, c->mask, model_pair(c, 0));
		break;
	case MODEL_APPEND2:
		r.code = percpu_seq_append2(cell, stride, c->mask, model_pair(c, 0),
					    model_pair(c, 2));
		break;
	case MODEL_APPEND4:
		r.code = percpu_seq_append4(cell, stride, c->mask, model_pair(c, 0),
					    model_pair(c, 2), model_pair(c, 4), model_pair(c, 6));
		break;
	case MODEL_PUT:
		r.code = percpu_seq_put(cell, stride, c->mask & ~MODEL_KEEP,
					c->mask & MODEL_KEEP ? UINT64_MAX : 0, c->n, c->words,
					model_last(c));
		break;
	case MODEL_ADD_DOUBLE:
		r.code = percpu_seq_add_double(cell, stride, model_double(c->n[0]));
		break;
	case MODEL_ADD_COUNT_DOUBLE:
		r.code = percpu_seq_add_count_double(cell, stride, model_double(c->n[0]));
		break;
	case MODEL_ADD_WITHIN:
		r.code = percpu_seq_add_within(cell, (const char *)cell + 8, stride, c->n[0],
					       (uint64_t)c->other, 2 * (uint64_t)c->other + 1);
		break;
	case MODEL_ENTER: /* the next word says of which lane the address is */
		r.code = percpu_seq_enter(cell, stride, (uint64_t)c->n[0], &item);
		if (r.code != PERCPU_SEQ_SLOW)
			r.value = ((const int64_t *)item)[2];
		break;
	case MODEL_WIDEN:
	case MODEL_WIDEN_NEW:
		r.code = percpu_seq_widen(cell, stride, &c->mask, c->n[0]);
		break;
	default:
		break;
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return r;
}

#endif
