/* SPDX-License-Identifier: MIT */
/*
 * workloads_group.c - the sequences of groups. A worker adds to two records of a lane, after it has
 * undone what a stopped worker may have left open there. To have something to undo each time, the
 * workload of group_undo has many groups, in which an update is open at first.
 */
#define _GNU_SOURCE
#include "workloads.h"

#include <string.h>

#include <percpu/status.h>

#include "../support.h"

#define GROUP_RECORDS 3
#define MOST_WORDS 4
#define GROUPS (32 * WORKLOAD_WORKERS)

struct group_cell {
	uint64_t turn, names, reserved[2]; /* as in struct percpu_group_lane */
	uint64_t saved[2 * MOST_WORDS];
	uint64_t record[GROUP_RECORDS * MOST_WORDS];
} __attribute__((aligned(256)));

static struct group_lane {
	struct group_cell group[GROUPS];
} * lanes;

static const uint64_t bank;
static unsigned n_lanes;

static size_t bytes_to(size_t words, size_t record)
{
	return sizeof(struct percpu_group_lane) + (2 + record) * words * 8;
}

static int undo(size_t words, unsigned group)
{
	return percpu_seq_group_undo(&lanes->group[group], sizeof(*lanes), &bank, 0,
				     bytes_to(words, 0), GROUP_RECORDS, words * 8);
}

/* Add words 0 to 3 of n to record a, and the rest to record b. */
static int update_once(unsigned group, bool loop, size_t words, size_t a, size_t b,
		       const uint64_t *n)
{
	void *cell = &lanes->group[group];
	const uint64_t names = percpu_group_names(a, b);
	const size_t at = bytes_to(words, a), bt = bytes_to(words, b);
	percpu_words2 v[4];

	memcpy(v, n, sizeof(v));
	if (loop) {
		const percpu_words2 turns[4] = { v[0], v[2], v[1], v[3] };

		return percpu_seq_group_update(cell, sizeof(*lanes), &bank, 0, names, at, bt, turns,
					       words * 8);
	}
	return words == 2 ? percpu_seq_group_update2(cell, sizeof(*lanes), &bank, 0, names, at, bt,
						     v[0], v[2]) :
			    percpu_seq_group_update4(cell, sizeof(*lanes), &bank, 0, names, at, bt,
						     v[0], v[1], v[2], v[3]);
}

/* Group 0 is that of the workloads whose update stops. */
static void update(struct worker *w, unsigned group, bool loop, size_t words)
{
	const size_t a = test_random(&w->random) % GROUP_RECORDS;
	const size_t b = test_random(&w->random) % GROUP_RECORDS;
	uint64_t n[8];
	unsigned tries = 0;
	int r;

	for (unsigned i = 0; i < 8; i++)
		n[i] = i % 4 < words ? test_random(&w->random) : 0;
	if (group == 0)
		workload_arm(w);
	do {
		r = update_once(group, loop, words, a, b, n);
		if (r == PERCPU_SEQ_REFUSED)
			(void)undo(words, group);
	} while (r != 0 && ++tries < WORKLOAD_TRIES);
	workload_disarm();
	w->gave_up += r != 0;
	if (r != 0)
		return;
	for (unsigned i = 0; i < 8; i++)
		w->sum[i] += n[i];
	w->committed++;
}

static void update2(struct worker *w)
{
	update(w, 0, false, 2);
}

static void update4(struct worker *w)
{
	update(w, 0, false, MOST_WORDS);
}

static void update_in_a_loop(struct worker *w)
{
	update(w, 0, true, MOST_WORDS);
}

static void undo_and_update(struct worker *w)
{
	const unsigned group =
		1 + (unsigned)(w->id + w->attempts++ * WORKLOAD_WORKERS) % (GROUPS - 1);

	workload_arm(w);
	while (undo(MOST_WORDS, group) == PERCPU_SEQ_SLOW)
		;
	workload_disarm();
	update(w, group, true, MOST_WORDS);
}

static void begin(void)
{
	if (!lanes) {
		n_lanes = percpu_status()->possible_cpus;
		lanes = test_share(n_lanes * sizeof(*lanes));
	}
	memset(lanes, 0, n_lanes * sizeof(*lanes));
}

/* Let an update of all lanes be open, which added 1. */
static void begin_open(void)
{
	begin();
	for (unsigned i = 0; i < n_lanes * GROUPS; i++) {
		struct group_cell *c = &lanes[i / GROUPS].group[i % GROUPS];

		c->names = percpu_group_names(1, 2) | 1;
		for (unsigned w = MOST_WORDS; w < GROUP_RECORDS * MOST_WORDS; w++)
			c->record[w] = 1;
	}
}

/* Return the valid words of a record. */
static const uint64_t *valid_words(const struct group_cell *lane, size_t words, size_t record)
{
	const uint64_t names = lane->names;
	const bool open = ((lane->turn ^ names) & 1) != 0;

	if (open && (uint32_t)names >> 1 == record)
		return lane->saved;
	if (open && names >> 32 == record)
		return lane->saved + words;
	return (const uint64_t *)((const char *)lane + bytes_to(words, record));
}

/* Of both objects together, because any record may have been the first or the second one. */
static bool check(size_t words)
{
	for (unsigned w = 0; w < words; w++) {
		uint64_t sum = 0;

		for (size_t i = 0; i < n_lanes * GROUPS; i++)
			for (size_t k = 0; k < GROUP_RECORDS; k++)
				sum += valid_words(&lanes[i / GROUPS].group[i % GROUPS], words,
						   k)[w];
		if (sum != workload_sum(w) + workload_sum(w + 4))
			return false;
	}
	return true;
}

static bool check2(void)
{
	return check(2);
}

static bool check4(void)
{
	return check(MOST_WORDS);
}

const struct workload workload_groups[WORKLOAD_GROUPS] = {
	{ "group_update2", 1, begin, update2, check2 },
	{ "group_update4", 4, begin, update4, check4 },
	{ "group_update", 1, begin, update_in_a_loop, check4 },
	{ "group_undo", 1, begin_open, undo_and_update, check4 },
};
