/* SPDX-License-Identifier: MIT */
/*
 * workloads_bank.c - the sequences that add in one of two banks. Meanwhile the workers switch
 * banks. The worker that switches owns the old bank after the fence, and takes its contents. A
 * value that appears there later was added too late.
 */
#define _GNU_SOURCE
#include "workloads.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <percpu/fence.h>
#include <percpu/status.h>

#include "../support.h"

#define DISTANCE 128 /* bytes between the banks */
#define WORDS 4	     /* the most words of an update */
#define FENCE_NS UINT64_C(20000000000)

struct bank_lane {
	uint64_t word[2][DISTANCE / 8];
} __attribute__((aligned(2 * DISTANCE)));

/* Shared with children. */
static struct {
	uint64_t current; /* the bank in use: 0, or the distance */
	uint64_t taken[8];
	uint64_t late;
	uint32_t switching;
	uint32_t unfenced; /* workers may still add to the old bank */
} * banks;

static struct bank_lane *lanes;
static unsigned n_lanes;
static pid_t maker;

/* Return the valid words of a bank: its words, or the valid copy of a pair. */
static uint64_t *valid_words(struct bank_lane *lane, unsigned bank, bool pairs)
{
	struct percpu_copies *p = (struct percpu_copies *)lane->word[bank];

	return pairs ? &p->copy[(p->turn & 1) * WORDS] : lane->word[bank];
}

/* Take the contents of a bank. Return whether there were any. */
static bool take(unsigned bank, bool pairs)
{
	bool any = false;

	for (unsigned i = 0; i < n_lanes; i++) {
		uint64_t *w = valid_words(&lanes[i], bank, pairs);

		for (unsigned k = 0; k < (pairs ? WORDS : 8); k++) {
			any |= w[k] != 0;
			banks->taken[k] += w[k];
			w[k] = 0;
		}
	}
	return any;
}

static void switch_banks(struct worker *w, bool pairs)
{
	unsigned old;
	int r;

	if (__atomic_exchange_n(&banks->switching, 1, __ATOMIC_ACQUIRE) != 0)
		return;
	old = banks->current != 0;
	banks->late += take(!old, pairs);
	__atomic_store_n(&banks->current, old ? 0 : DISTANCE, __ATOMIC_RELEASE);
	r = getpid() == maker ? percpu_fence() : percpu_fence_all(FENCE_NS, NULL);
	if (r != 0) { /* that was the last switch */
		w->wrong += r != -ETIMEDOUT;
		w->gave_up += r == -ETIMEDOUT;
		banks->unfenced = 1;
		return;
	}
	take(old, pairs);
	__atomic_store_n(&banks->switching, 0, __ATOMIC_RELEASE);
}

static int add_once(unsigned words, const uint64_t *n)
{
	void *cell = lanes->word;
	const size_t stride = sizeof(*lanes);
	const uint64_t *bank = &banks->current;
	percpu_words2 v[4];

	memcpy(v, n, sizeof(v));
	switch (words) {
	case 1:
		return percpu_seq_bank_add(cell, stride, bank, DISTANCE, (int64_t)n[0]);
	case 2:
		return percpu_seq_bank_add2(cell, stride, bank, DISTANCE, v[0]);
	case 4:
		return percpu_seq_bank_add4(cell, stride, bank, DISTANCE, v[0], v[1]);
	default:
		return percpu_seq_bank_add8(cell, stride, bank, DISTANCE, v[0], v[1], v[2], v[3]);
	}
}

static int update_pair_once(unsigned words, const uint64_t *n)
{
	const uint64_t *bank = &banks->current;

	if (words == 1)
		return percpu_seq_copies_add(lanes->word, sizeof(*lanes), bank, DISTANCE, 0, WORDS,
					     (int64_t)n[0]);
	return percpu_seq_bank_update(lanes->word, sizeof(*lanes), bank, DISTANCE, n, words);
}

/* Update, and switch now and then. A fence between processes costs more, so processes switch
 * less often. */
static void update(struct worker *w, unsigned words, bool pairs)
{
	uint64_t n[8];
	int r;

	if (w->attempts++ % (getpid() == maker ? 8 : 32) == w->id % 8)
		switch_banks(w, pairs);
	for (unsigned i = 0; i < 8; i++)
		n[i] = test_random(&w->random);
	workload_arm(w);
	do
		r = pairs ? update_pair_once(words, n) : add_once(words, n);
	while (r == PERCPU_SEQ_SLOW);
	workload_disarm();
	w->wrong += r != 0;
	for (unsigned i = 0; i < words; i++)
		w->sum[i] += n[i];
	w->committed++;
}

static void update_add(struct worker *w)
{
	update(w, 1, false);
}

static void update_add2(struct worker *w)
{
	update(w, 2, false);
}

static void update_add4(struct worker *w)
{
	update(w, 4, false);
}

static void update_add8(struct worker *w)
{
	update(w, 8, false);
}

static void update_pair(struct worker *w)
{
	update(w, WORDS, true);
}

/* Add in place, between updates that make the other copy valid. */
static void update_or_add(struct worker *w)
{
	update(w, w->attempts % 2 ? WORDS : 1, true);
}

static void begin(void)
{
	if (!banks) {
		maker = getpid();
		n_lanes = percpu_status()->possible_cpus;
		lanes = test_share(n_lanes * sizeof(*lanes));
		banks = test_share(sizeof(*banks));
	}
	memset(lanes, 0, n_lanes * sizeof(*lanes));
	memset(banks, 0, sizeof(*banks));
}

static bool check(bool pairs)
{
	unsigned current = banks->current != 0;
	bool exact = (!take(!current, pairs) || banks->unfenced) && banks->late == 0;

	take(current, pairs);
	for (unsigned i = 0; i < 8; i++)
		exact &= banks->taken[i] == workload_sum(i);
	return exact;
}

static bool check_words(void)
{
	return check(false);
}

static bool check_pairs(void)
{
	return check(true);
}

const struct workload workload_banks[WORKLOAD_BANKS] = {
	{ "bank_add", 1, begin, update_add, check_words },
	{ "bank_add2", 2, begin, update_add2, check_words },
	{ "bank_add4", 4, begin, update_add4, check_words },
	{ "bank_add8", 8, begin, update_add8, check_words },
	{ "copies_add", 1, begin, update_or_add, check_pairs },
	{ "bank_update", 1, begin, update_pair, check_pairs },
};
