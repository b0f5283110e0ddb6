/* SPDX-License-Identifier: MIT */
/* model.c - see model.h. */
#include "model.h"

#include <math.h>
#include <string.h>

#include "model_group.h"
#include "support.h"

#define MODEL_PAIR_WORDS 4
#define MODEL_PAIR (2 + 2 * MODEL_PAIR_WORDS)

const char *model_name(enum model_op op)
{
	static const char *const name[MODEL_OPS] = {
		"add",		 "narrow_add",	  "add_at",
		"narrow_add_if", "bank_add",	  "bank_add2",
		"bank_add4",	 "bank_add8",	  "copies_add",
		"bank_update",	 "group_update2", "group_update4",
		"group_update",	 "group_undo",	  "add_limit",
		"cmpxchg",	 "xchg",	  "push",
		"pop",		 "take",	  "copy",
		"append1",	 "append2",	  "append4",
		"put",		 "add_double",	  "add_count_double",
		"widen",	 "add_within",	  "enter",
		"add2",		 "add4",	  "add8",
		"add_return",	 "store",	  "add_whole",
		"observe",	 "widen_new",	  "count",
		"count_off",
	};

	return name[op];
}

bool model_exists(enum model_op op, int seq_words)
{
	if (op == MODEL_ADD4 || op == MODEL_BANK_ADD4 || op == MODEL_GROUP_UPDATE4)
		return seq_words >= 4;
	if (op == MODEL_ADD8 || op == MODEL_BANK_ADD8)
		return seq_words >= 8;
	return true;
}

static bool is_append(enum model_op op)
{
	return op >= MODEL_APPEND1 && op <= MODEL_APPEND4;
}

static bool is_pair(enum model_op op)
{
	return op == MODEL_PAIR_ADD || op == MODEL_BANK_UPDATE;
}

static bool is_count(enum model_op op)
{
	return op == MODEL_COUNT || op == MODEL_COUNT_OFF;
}

static bool is_copy(enum model_op op)
{
	return op == MODEL_COPY || is_append(op);
}

static bool is_queue(enum model_op op)
{
	return is_copy(op) || op == MODEL_TAKE;
}

static bool is_widen(enum model_op op)
{
	return op == MODEL_WIDEN || op == MODEL_WIDEN_NEW;
}

static uint64_t choose_words(enum model_op op, uint64_t *random)
{
	switch (op) {
	case MODEL_APPEND1:
		return 2;
	case MODEL_APPEND2:
		return 4;
	case MODEL_APPEND4:
		return 8;
	default:
		return 1 + test_random(random) % MODEL_SLOTS;
	}
}

/* Fill a ring. No random word is the name of a record, but before head there may be one of no
 * bytes. */
static void fill_ring(struct model_lane *lane, uint64_t *random)
{
	uint64_t at = test_random(random);

	if (test_random(random) % 2)
		at = (uint64_t)0 - test_random(random) % (2 * MODEL_RING);
	lane->ring.tail = at;
	lane->ring.head = at + test_random(random) % (MODEL_RING + 1);
	for (unsigned i = 0; i < MODEL_RING; i++)
		lane->ring.slot[i] = test_random(random) << 16;
}

/* Choose a double of either sign and many sizes; half of them near 2^1000, where sums end. */
static double choose_double(uint64_t *random)
{
	double d = ldexp((double)(test_random(random) | UINT64_C(1) << 63), -63);
	int exponent = (int)(test_random(random) % 40) - 20;

	if (test_random(random) % 2)
		exponent = 999 - (int)(test_random(random) % 3);
	if (d == 2) /* rounded */
		d = 1;
	return ldexp(test_random(random) % 2 ? d : -d, exponent);
}

static void fill_extremes(struct model_lane *lane, uint64_t *random)
{
	for (unsigned i = 0; i < 2; i++) {
		lane->extremes[i].epoch =
			(test_random(random) | 1) * 2 * PERCPU_EXTREMES + i * PERCPU_EXTREMES;
		lane->extremes[i].min = (int64_t)test_random(random) / 2;
		lane->extremes[i].max = lane->extremes[i].min;
		if (test_random(random) % 2)
			lane->extremes[i].max += (int64_t)(test_random(random) / 4);
	}
}

/* Fill the two words that say which thread has a lane. Each is 0, or any number, or one half is 0. */
static void fill_owners(struct model_lane *lane, uint64_t *random)
{
	static const uint64_t masks[] = { 0, UINT32_MAX, ~(uint64_t)UINT32_MAX, UINT64_MAX };
	const bool is_free = test_random(random) % 2;

	for (unsigned i = 0; i < 2; i++)
		lane->word[i] &= (int64_t)(is_free ? 0 : masks[test_random(random) % 4]);
}

void model_fill(struct model_lane *lane, enum model_op op, uint64_t *random)
{
	memset(lane, 0, sizeof(*lane));
	for (unsigned i = 0; i < MODEL_WORDS; i++)
		lane->word[i] = (int64_t)test_random(random);
	if (model_is_group(op))
		model_fill_group(lane, op, random);
	if (op == MODEL_PUT)
		fill_ring(lane, random);
	if (op == MODEL_ADD_DOUBLE)
		lane->word[0] = model_bits(choose_double(random));
	if (op == MODEL_ADD_COUNT_DOUBLE)
		lane->word[1] = model_bits(choose_double(random));
	if (is_widen(op))
		fill_extremes(lane, random);
	if (op == MODEL_ENTER)
		fill_owners(lane, random);
	if (op == MODEL_ADD_LIMIT)
		lane->word[0] >>= 1; /* so that the sum does not wrap */
	if (op == MODEL_PUSH || op == MODEL_POP)
		lane->array.count = test_random(random) % (MODEL_SLOTS + 1);
	if (is_queue(op)) /* half of the positions are near their wrap */
		lane->fifo.tail = lane->fifo.head - test_random(random) % (MODEL_SLOTS + 1);
	if (is_queue(op) && test_random(random) % 2) {
		lane->fifo.tail = (uint64_t)0 - test_random(random) % (2 * MODEL_SLOTS);
		lane->fifo.head = lane->fifo.tail + test_random(random) % (MODEL_SLOTS + 1);
	}
	if (is_append(op)) { /* pairs never wrap around */
		lane->fifo.head &= ~(uint64_t)1;
		lane->fifo.tail &= ~(uint64_t)1;
	}
}

/* Choose n within the cell's window, sometimes from end to end; or outside, near or far. */
static void choose_narrow(struct model_case *c, uint32_t cell, bool refuse, uint64_t *random)
{
	int64_t half = INT64_C(1) << (test_random(random) % 28), window = 2 * half;
	int64_t at = (cell + half) % window, sign = test_random(random) % 2 ? 1 : -1;
	int64_t end = sign > 0 ? window - 1 - at : -at;

	c->other = half;
	c->n[0] = end;
	if (refuse)
		c->n[0] += sign;
	if (refuse && test_random(random) % 2)
		c->n[0] += sign * (int64_t)(test_random(random) >> 2);
	if (!refuse && test_random(random) % 2)
		c->n[0] = (int64_t)(test_random(random) % (uint64_t)window) - at;
}

/* Choose n so that the word is within reach of its partner, sometimes exactly; or beyond. */
static void choose_within(struct model_case *c, const int64_t *word, bool refuse, uint64_t *random)
{
	uint64_t reach = test_random(random) >> (3 + test_random(random) % 50);
	uint64_t off = test_random(random) % 2 ? reach : test_random(random) % (reach + 1);

	if (refuse)
		off = reach + 1 + (test_random(random) % 2 ? test_random(random) >> 3 : 0);
	if (test_random(random) % 2)
		off = 0 - off;
	c->other = (int64_t)reach;
	c->n[0] = (int64_t)((uint64_t)word[1] + off - (uint64_t)word[0]);
}

/* Choose two words' difference; half of the time the low halves are equal. */
static int64_t choose_difference(uint64_t *random)
{
	uint64_t bits = test_random(random) | 1;

	return (int64_t)(test_random(random) % 2 ? bits << 32 : bits);
}

/* Choose the epoch of one of the extremes, and a word that widens them or not; or another epoch. */
static void choose_epoch(struct model_case *c, const struct model_lane *lane, bool refuse,
			 uint64_t *random)
{
	const struct percpu_extremes *p = &lane->extremes[test_random(random) % 2];

	c->mask = p->epoch;
	if (refuse || test_random(random) % 2)
		c->n[0] = test_random(random) % 2 ? p->min : p->max;
	if (!refuse && test_random(random) % 2)
		c->n[0] =
			(int64_t)((uint64_t)c->n[0] + (test_random(random) % 2 ? 1 : -UINT64_C(1)));
	if (c->op == MODEL_WIDEN_NEW || (!refuse && test_random(random) % 4 == 0))
		c->mask += 2 * PERCPU_EXTREMES * (test_random(random) % 2 ? 1 : UINT64_C(1) << 31);
}

/* Choose a double that no sum brings back below 2^1000. */
static double choose_refused(uint64_t *random)
{
	const double odd[] = { NAN, -NAN, INFINITY, -INFINITY, ldexp(1, 1001), -ldexp(1.5, 1023) };

	return odd[test_random(random) % 6];
}

void model_choose(struct model_case *c, enum model_op op, const struct model_lane *lane,
		  uint64_t *random)
{
	static const int64_t odd[] = { 0, 1, -1, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN };
	bool refuse = test_random(random) % 3 == 0;

	memset(c, 0, sizeof(*c));
	c->op = op;
	for (unsigned i = 0; i < 8; i++)
		c->n[i] = test_random(random) % 4 ? (int64_t)test_random(random) :
						    odd[test_random(random) % 7];
	c->limit = refuse ? lane->array.count : MODEL_SLOTS;
	c->mask = MODEL_SLOTS - 1;
	c->words = choose_words(op, random);
	c->other = lane->word[0] ^ (refuse ? choose_difference(random) : 0);
	if (op == MODEL_PUT) {
		c->mask = (MODEL_RING - 1) | (test_random(random) % 2 ? MODEL_KEEP : 0);
		c->words = 1 + test_random(random) % (8 * (MODEL_RING / 2 - 3));
	}
	if (op == MODEL_NARROW_ADD)
		choose_narrow(c, lane->narrow, refuse, random);
	if (op == MODEL_ADD_WITHIN)
		choose_within(c, lane->word, refuse, random);
	if (op == MODEL_ADD_WHOLE)
		c->n[0] >>= 30;
	if (is_count(op))
		c->n[0] = 1;
	if (op == MODEL_ADD_DOUBLE)
		c->n[0] = model_bits(refuse ? choose_refused(random) : choose_double(random));
	if (op == MODEL_ADD_COUNT_DOUBLE)
		c->n[0] = model_bits(choose_double(random));
	if (op == MODEL_ADD_AT)
		c->limit = refuse ? PERCPU_SEQ_CLOSED : 0;
	if (op == MODEL_NARROW_ADD_IF)
		c->limit = (uint64_t)(c->other ^ (refuse ? choose_difference(random) : 0));
	if (op >= MODEL_BANK_ADD && op <= MODEL_BANK_UPDATE) {
		c->mask = is_pair(op) ? MODEL_PAIR * 8 : 8 * 8;
		c->words = MODEL_PAIR_WORDS;
		c->limit = test_random(random) % 2 ? c->mask : 0;
		if (refuse && !is_pair(op)) /* no refusal, but a damaged word */
			c->limit = test_random(random);
	}
	if (model_is_group(op))
		model_choose_group(c, refuse, random);
	if (op == MODEL_OBSERVE)
		c->n[0] = test_random(random) % 2 ? lane->word[0] - 1 : lane->word[1] + !refuse;
	if (is_widen(op))
		choose_epoch(c, lane, refuse, random);
	if (op == MODEL_ADD_LIMIT) {
		c->n[0] >>= 2;
		c->other = lane->word[0] + c->n[0] - (refuse ? 1 : 0) +
			   (test_random(random) % 2 ? 0 : (refuse ? -7 : 7));
		if (test_random(random) % 4 == 0) /* half of them of the other sign */
			c->other = odd[test_random(random) % 7];
	}
}

void model_choose_nested(struct model_case *nested, const struct model_case *c,
			 const struct model_lane *lane, uint64_t *random)
{
	model_choose(nested, c->op, lane, random);
	if (is_widen(c->op)) /* epochs only grow */
		nested->mask = c->mask + (test_random(random) % 2 ? PERCPU_EXTREMES : 0);
	if (c->op == MODEL_COUNT_OFF)
		nested->n[0] = -MODEL_OFF;
}

static void add_words(int64_t *to, const int64_t *from, const int64_t *n, unsigned words)
{
	for (unsigned i = 0; i < words; i++)
		to[i] = (int64_t)((uint64_t)from[i] + (uint64_t)n[i]);
}

uint64_t model_last(const struct model_case *c)
{
	size_t at = (c->words - 1) / 8 * 8;
	uint64_t last = 0;

	memcpy(&last, (const char *)c->n + at, c->words - at);
	return last;
}

static bool put_record(struct model_lane *lane, const struct model_case *c)
{
	const uint64_t words = (c->words + 7) / 8, head = lane->ring.head;
	uint64_t *slot = lane->ring.slot;
	uint64_t name = (slot[(head - 1) % MODEL_RING] >> 16) + 1;

	if ((c->mask & MODEL_KEEP) != 0 && head - lane->ring.tail + words + 3 > MODEL_RING)
		return false;
	name = name << 16 | c->words;
	slot[head % MODEL_RING] = name;
	slot[(head + 1) % MODEL_RING] = MODEL_TIME;
	for (uint64_t i = 0; i < words; i++)
		slot[(head + 2 + i) % MODEL_RING] =
			i + 1 < words ? (uint64_t)c->n[i] : model_last(c);
	slot[(head + 2 + words) % MODEL_RING] = name;
	lane->ring.head = head + words + 3;
	return true;
}

static bool add_double(int64_t *word, double n)
{
	double v = model_double(*word) + n;

	if (!(fabs(v) < ldexp(1, 1000)))
		return false;
	*word = model_bits(v);
	return true;
}

static bool widen(struct percpu_extremes *p, uint64_t epoch, int64_t v)
{
	if (p->epoch == epoch && p->min <= v && v <= p->max)
		return false;
	if (p->epoch != epoch || v < p->min)
		p->min = v;
	if (p->epoch != epoch || v > p->max)
		p->max = v;
	p->epoch = epoch;
	return true;
}

static bool add_within(int64_t *word, uint64_t n, uint64_t reach)
{
	n += (uint64_t)word[0];
	if (n - (uint64_t)word[1] + reach > 2 * reach)
		return false;
	word[0] = (int64_t)n;
	return true;
}

static void update_pair(int64_t *pair, const struct model_case *c)
{
	int64_t *copy[2] = { pair + 2, pair + 2 + c->words };

	add_words(copy[~pair[0] & 1], copy[pair[0] & 1], c->n, (unsigned)c->words);
	pair[0] = (int64_t)((uint64_t)pair[0] + 1);
}

struct model_result model_apply(struct model_lane *lane, const struct model_case *c)
{
	struct model_result done = { 0, MODEL_UNSET },
			    refused = { PERCPU_SEQ_REFUSED, MODEL_UNSET };
	uint64_t word = (uint64_t)lane->word[0];
	/* In a bank. */
	int64_t *bank = lane->word + (c->limit & c->mask & ~MODEL_KEEP) / 8;
	unsigned words = 1;

	switch (c->op) {
	case MODEL_ADD8:
		words *= 2; /* fall through */
	case MODEL_ADD4:
		words *= 2; /* fall through */
	case MODEL_ADD2:
		words *= 2; /* fall through */
	case MODEL_ADD:
	case MODEL_ADD_WHOLE:
	case MODEL_COUNT:
	case MODEL_COUNT_OFF:
		add_words(lane->word, lane->word, c->n, words);
		return done;
	case MODEL_BANK_ADD8:
		words *= 2; /* fall through */
	case MODEL_BANK_ADD4:
		words *= 2; /* fall through */
	case MODEL_BANK_ADD2:
		words *= 2; /* fall through */
	case MODEL_BANK_ADD:
		add_words(bank, bank, c->n, words);
		return done;
	case MODEL_PAIR_ADD:
		bank += 2 + (bank[0] & 1) * (int64_t)c->words + (uint64_t)c->other % c->words;
		add_words(bank, bank, c->n, 1);
		return done;
	case MODEL_BANK_UPDATE:
		update_pair(bank, c);
		return done;
	case MODEL_GROUP_UPDATE2:
	case MODEL_GROUP_UPDATE4:
	case MODEL_GROUP_UPDATE:
	case MODEL_GROUP_UNDO:
		return model_apply_group(lane, c);
	case MODEL_NARROW_ADD:
		word = (uint64_t)lane->narrow + (uint64_t)c->other;
		if (word / (2 * (uint64_t)c->other) !=
		    (word + (uint64_t)c->n[0]) / (2 * (uint64_t)c->other))
			return refused;
		lane->narrow += (uint32_t)c->n[0];
		return done;
	case MODEL_ADD_AT:
		if (c->limit != 0)
			return refused;
		lane->word[0] = (int64_t)(word + (uint64_t)c->n[0]);
		return done;
	case MODEL_NARROW_ADD_IF:
		if (c->limit != (uint64_t)c->other)
			return refused;
		lane->narrow += (uint32_t)c->n[0];
		return done;
	case MODEL_ADD_RETURN:
		done.value = lane->word[0] = (int64_t)(word + (uint64_t)c->n[0]);
		return done;
	case MODEL_ADD_LIMIT:
		done.value = refused.value = (int64_t)(word + (uint64_t)c->n[0]);
		if (done.value > c->other)
			return refused;
		lane->word[0] = done.value;
		return done;
	case MODEL_STORE:
		lane->word[0] = c->n[0];
		return done;
	case MODEL_CMPXCHG:
		done.value = refused.value = lane->word[0];
		if (lane->word[0] != c->other)
			return refused;
		lane->word[0] = c->n[0];
		return done;
	case MODEL_XCHG:
		done.value = lane->word[0];
		lane->word[0] = c->n[0];
		return done;
	case MODEL_PUSH:
		if (lane->array.count >= c->limit)
			return refused;
		lane->array.slot[lane->array.count++] = (uint64_t)c->n[0];
		return done;
	case MODEL_POP:
		if (lane->array.count == 0)
			return refused;
		done.value = (int64_t)lane->array.slot[--lane->array.count];
		return done;
	case MODEL_TAKE:
		if (lane->fifo.tail == lane->fifo.head)
			return refused;
		done.value = (int64_t)lane->fifo.slot[lane->fifo.tail++ & c->mask];
		return done;
	case MODEL_COPY:
	case MODEL_APPEND1:
	case MODEL_APPEND2:
	case MODEL_APPEND4:
		if (c->mask + 1 - (lane->fifo.head - lane->fifo.tail) < c->words)
			return refused;
		for (uint64_t i = 0; i < c->words; i++)
			lane->fifo.slot[lane->fifo.head++ & c->mask] = (uint64_t)c->n[i];
		return done;
	case MODEL_PUT:
		return put_record(lane, c) ? done : refused;
	case MODEL_ADD_DOUBLE:
		return add_double(lane->word, model_double(c->n[0])) ? done : refused;
	case MODEL_ADD_COUNT_DOUBLE:
		lane->word[0] = (int64_t)(word + 1);
		lane->word[1] = model_bits(model_double(lane->word[1]) + model_double(c->n[0]));
		return done;
	case MODEL_OBSERVE:
		lane->word[0] = c->n[0] < lane->word[0] ? c->n[0] : lane->word[0];
		lane->word[1] = c->n[0] > lane->word[1] ? c->n[0] : lane->word[1];
		return done;
	case MODEL_WIDEN:
	case MODEL_WIDEN_NEW:
		return widen(&lane->extremes[c->mask / PERCPU_EXTREMES % 2], c->mask, c->n[0]) ?
			       done :
			       refused;
	case MODEL_ADD_WITHIN:
		return add_within(lane->word, (uint64_t)c->n[0], (uint64_t)c->other) ? done :
										       refused;
	case MODEL_ENTER:
		done.value = refused.value = lane->word[2];
		if (lane->word[0] != 0 || lane->word[1] != 0)
			return refused;
		lane->word[0] = c->n[0];
		return done;
	default:
		break;
	}
	return refused;
}

static void clear_other_copy(int64_t *pair)
{
	memset(pair + 2 + (~pair[0] & 1) * MODEL_PAIR_WORDS, 0, MODEL_PAIR_WORDS * 8);
}

/* Clear extremes of an ended epoch before the next one begins there. */
static void clear_other_epoch(struct percpu_extremes *p, uint64_t epoch)
{
	if (p->epoch != epoch)
		p->min = p->max = 0;
}

/* Clear the words where the next record can be: half of the ring, or those that are not kept. */
static void clear_behind_head(struct model_lane *lane, bool keep)
{
	uint64_t n = keep ? MODEL_RING - (lane->ring.head - lane->ring.tail) : MODEL_RING / 2;

	for (uint64_t i = 0; i < n && i < MODEL_RING; i++)
		lane->ring.slot[(lane->ring.head + i) % MODEL_RING] = 0;
}

/* Ignore the time in records: the real one may have any value, but that of the model. */
static void forget_times(struct model_lane *a, struct model_lane *b)
{
	for (unsigned i = 0; i < MODEL_RING; i++)
		if (a->ring.slot[i] != 0 && b->ring.slot[i] != 0 &&
		    (a->ring.slot[i] == MODEL_TIME || b->ring.slot[i] == MODEL_TIME))
			a->ring.slot[i] = b->ring.slot[i] = MODEL_TIME;
}

static void model_clear_dead(struct model_lane *lane, enum model_op op, uint64_t mask)
{
	if (op == MODEL_PUSH || op == MODEL_POP) {
		for (uint64_t i = lane->array.count; i < MODEL_SLOTS; i++)
			lane->array.slot[i] = 0;
	} else if (op == MODEL_BANK_UPDATE) {
		clear_other_copy(lane->word);
		clear_other_copy(lane->word + MODEL_PAIR);
	} else if (is_copy(op)) {
		for (uint64_t i = lane->fifo.head; i != lane->fifo.tail + mask + 1; i++)
			lane->fifo.slot[i & mask] = 0;
	} else if (op == MODEL_PUT) {
		clear_behind_head(lane, (mask & MODEL_KEEP) != 0);
	} else if (model_is_group(op)) {
		model_clear_group(lane, op);
	} else if (is_widen(op)) {
		clear_other_epoch(&lane->extremes[mask / PERCPU_EXTREMES % 2], mask);
	}
}

bool model_same(const struct model_lane *a, const struct model_lane *b, enum model_op op,
		uint64_t mask)
{
	struct model_lane x = *a, y = *b;

	model_clear_dead(&x, op, mask);
	model_clear_dead(&y, op, mask);
	if (op == MODEL_PUT)
		forget_times(&x, &y);
	return memcmp(&x, &y, sizeof(x)) == 0;
}
