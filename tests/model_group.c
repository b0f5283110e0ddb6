/* SPDX-License-Identifier: MIT */
/* model_group.c - see model_group.h. */
#include "model_group.h"

#include <string.h>

#include "support.h"

#define GROUP_HEAD 4 /* words: turn, names and what is reserved */

/* Return the words of a record. */
static unsigned words_of(enum model_op op)
{
	return op == MODEL_GROUP_UPDATE2 ? 2 : 4;
}

static uint64_t *bank_of(struct model_lane *lane, unsigned bank)
{
	return (uint64_t *)(lane->all + bank * MODEL_GROUP_BANK);
}

static uint64_t *saved(uint64_t *bank, unsigned words, unsigned second)
{
	return bank + GROUP_HEAD + second * words;
}

static uint64_t *record(uint64_t *bank, unsigned words, uint64_t nth)
{
	return bank + GROUP_HEAD + (2 + nth) * words;
}

static bool is_open(const uint64_t *bank)
{
	return ((bank[0] ^ bank[1]) & 1) != 0;
}

/* Put what was saved back into an open update's records. */
static void resolve(uint64_t *bank, unsigned words)
{
	const uint64_t names = bank[1];

	if (!is_open(bank))
		return;
	memcpy(record(bank, words, (uint32_t)names >> 1), saved(bank, words, 0), words * 8);
	memcpy(record(bank, words, names >> 32), saved(bank, words, 1), words * 8);
	bank[0]++;
}

/* An update is open in half of the banks that group_undo finds, and in none that an update finds. Both
 * saved copies of one record are the same. */
void model_fill_group(struct model_lane *lane, enum model_op op, uint64_t *random)
{
	const unsigned words = words_of(op);

	for (unsigned i = 0; i < sizeof(lane->all) / 8; i++)
		bank_of(lane, 0)[i] = test_random(random);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t *bank = bank_of(lane, i);
		const size_t a = test_random(random) % MODEL_GROUP_RECORDS;
		const size_t b = test_random(random) % MODEL_GROUP_RECORDS;

		bank[1] = percpu_group_names(a, b) | (bank[0] & 1);
		if (op == MODEL_GROUP_UNDO)
			bank[1] ^= test_random(random) & 1;
		if (a == b)
			memcpy(saved(bank, words, 1), saved(bank, words, 0), words * 8);
	}
}

void model_choose_group(struct model_case *c, bool refuse, uint64_t *random)
{
	c->mask = MODEL_GROUP_BANK;
	c->words = words_of(c->op);
	c->other = (int64_t)(test_random(random) % (MODEL_GROUP_RECORDS * MODEL_GROUP_RECORDS));
	c->limit = test_random(random) % 2 ? c->mask : 0;
	if (refuse) /* no refusal, but a damaged word */
		c->limit = test_random(random);
}

static void add_to_record(uint64_t *to, const int64_t *n, unsigned words)
{
	for (unsigned i = 0; i < words; i++)
		to[i] += (uint64_t)n[i];
}

struct model_result model_apply_group(struct model_lane *lane, const struct model_case *c)
{
	uint64_t *bank = bank_of(lane, (c->limit & c->mask) != 0);
	const unsigned words = words_of(c->op);
	struct model_result r = { 0, MODEL_UNSET };

	if (c->op == MODEL_GROUP_UNDO) {
		r.code = is_open(bank) ? 0 : PERCPU_SEQ_REFUSED;
		resolve(bank, words);
		return r;
	}
	resolve(bank, words);
	add_to_record(record(bank, words, model_group_first(c)), c->n, words);
	add_to_record(record(bank, words, model_group_second(c)), c->n + 4, words);
	return r;
}

void model_clear_group(struct model_lane *lane, enum model_op op)
{
	for (unsigned i = 0; i < 2; i++) {
		uint64_t *bank = bank_of(lane, i);
		const bool open = is_open(bank) && op == MODEL_GROUP_UNDO;

		resolve(bank, words_of(op));
		memset(bank, 0, (GROUP_HEAD + 2 * words_of(op)) * 8);
		bank[0] = open;
	}
}
