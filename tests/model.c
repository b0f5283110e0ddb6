/* SPDX-License-Identifier: MIT */
/* model.c - see model.h. */
#include "model.h"

#include <string.h>

#include "support.h"

const char *model_name(enum model_op op)
{
	static const char *const name[MODEL_OPS] = { "add",	   "add2",	"add4",	 "add8",
						     "add_return", "add_limit", "store", "cmpxchg",
						     "xchg",	   "push",	"pop",	 "copy" };

	return name[op];
}

bool model_exists(enum model_op op, int seq_words)
{
	if (op == MODEL_ADD4)
		return seq_words >= 4;
	if (op == MODEL_ADD8)
		return seq_words >= 8;
	return true;
}

void model_fill(struct model_lane *lane, enum model_op op, uint64_t *random)
{
	memset(lane, 0, sizeof(*lane));
	for (unsigned i = 0; i < 8; i++)
		lane->word[i] = (int64_t)test_random(random);
	if (op == MODEL_ADD_LIMIT)
		lane->word[0] >>= 1; /* a sum that wraps says nothing of a limit */
	if (op == MODEL_PUSH || op == MODEL_POP)
		lane->array.count = test_random(random) % (MODEL_SLOTS + 1);
	if (op == MODEL_COPY) /* near the wrap of the positions, every other time */
		lane->fifo.tail = lane->fifo.head - test_random(random) % (MODEL_SLOTS + 1);
	if (op == MODEL_COPY && test_random(random) % 2) {
		lane->fifo.tail = (uint64_t)0 - test_random(random) % (2 * MODEL_SLOTS);
		lane->fifo.head = lane->fifo.tail + test_random(random) % (MODEL_SLOTS + 1);
	}
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
	c->words = 1 + test_random(random) % MODEL_SLOTS;
	c->other = lane->word[0] ^ (refuse ? (int64_t)(test_random(random) | 1) : 0);
	if (op == MODEL_ADD_LIMIT) {
		c->n[0] >>= 2;
		c->other = lane->word[0] + c->n[0] - (refuse ? 1 : 0) +
			   (test_random(random) % 2 ? 0 : (refuse ? -7 : 7));
	}
}

struct model_result model_apply(struct model_lane *lane, const struct model_case *c)
{
	struct model_result done = { 0, MODEL_UNSET },
			    refused = { PERCPU_SEQ_REFUSED, MODEL_UNSET };
	uint64_t word = (uint64_t)lane->word[0];
	unsigned words = 1;

	switch (c->op) {
	case MODEL_ADD8:
		words *= 2; /* fall through */
	case MODEL_ADD4:
		words *= 2; /* fall through */
	case MODEL_ADD2:
		words *= 2; /* fall through */
	case MODEL_ADD:
		for (unsigned i = 0; i < words; i++)
			lane->word[i] = (int64_t)((uint64_t)lane->word[i] + (uint64_t)c->n[i]);
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
	case MODEL_COPY:
		if (c->mask + 1 - (lane->fifo.head - lane->fifo.tail) < c->words)
			return refused;
		for (uint64_t i = 0; i < c->words; i++)
			lane->fifo.slot[lane->fifo.head++ & c->mask] = (uint64_t)c->n[i];
		return done;
	case MODEL_OPS:
		break;
	}
	return refused;
}

static void model_clear_dead(struct model_lane *lane, enum model_op op, uint64_t mask)
{
	if (op == MODEL_PUSH || op == MODEL_POP) {
		for (uint64_t i = lane->array.count; i < MODEL_SLOTS; i++)
			lane->array.slot[i] = 0;
	} else if (op == MODEL_COPY) {
		for (uint64_t i = lane->fifo.head; i != lane->fifo.tail + mask + 1; i++)
			lane->fifo.slot[i & mask] = 0;
	}
}

bool model_same(const struct model_lane *a, const struct model_lane *b, enum model_op op,
		uint64_t mask)
{
	struct model_lane x = *a, y = *b;

	model_clear_dead(&x, op, mask);
	model_clear_dead(&y, op, mask);
	return memcmp(&x, &y, sizeof(x)) == 0;
}
