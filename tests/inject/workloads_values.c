/* SPDX-License-Identifier: MIT */
/*
 * workloads_values.c - the sequences on doubles and other values.
 */
#define _GNU_SOURCE
#include "workloads.h"

#include <string.h>

#include <percpu/status.h>

#include "../support.h"

#define REACH 500

/* Shared with children: a line for each CPU's cell. */
static struct line {
	double sum;
	double unused;
	uint64_t count;
	double counted;
	uint64_t chased[2];
	char unused2[16];
	struct percpu_extremes extremes[2];
} __attribute__((aligned(64))) * lines;
static const uint64_t epoch = 3 * PERCPU_EXTREMES;
static unsigned n_lanes;

static int add(double n)
{
	int r;

	do
		r = percpu_seq_add_double(lines, sizeof(*lines), n);
	while (r == PERCPU_SEQ_SLOW);
	return r;
}

/* Add whole numbers, whose sums are exact. A number that is too large is refused every time. */
static void update_add(struct worker *w)
{
	int64_t n = (int64_t)(test_random(&w->random) >> 24) - (INT64_C(1) << 39);
	bool refused = w->attempts++ % 8 == 7;
	int r;

	workload_arm(w);
	r = add(refused ? -0x1p1001 : (double)n);
	workload_disarm();
	w->wrong += r != (refused ? PERCPU_SEQ_REFUSED : 0);
	if (r == 0)
		w->sum[0] += (uint64_t)n;
	w->committed += r == 0;
}

static void begin(void)
{
	if (!lines) {
		n_lanes = percpu_status()->possible_cpus;
		lines = test_share(n_lanes * sizeof(*lines));
	}
	memset(lines, 0, n_lanes * sizeof(*lines));
}

static bool check(void)
{
	double sum = 0;

	for (unsigned cpu = 0; cpu < n_lanes; cpu++)
		sum += lines[cpu].sum;
	return sum == (double)(int64_t)workload_sum(0);
}

/* Add to a count and its sum. At any time both contain the same adds. */
static void update_pair(struct worker *w)
{
	int64_t n = (int64_t)(test_random(&w->random) >> 24) - (INT64_C(1) << 39);
	int r;

	workload_arm(w);
	do
		r = percpu_seq_add_count_double(&lines->count, sizeof(*lines), (double)n);
	while (r == PERCPU_SEQ_SLOW);
	workload_disarm();
	w->wrong += r != 0;
	w->sum[0] += (uint64_t)n;
	w->sum[1]++;
	w->committed++;
}

static bool check_pair(void)
{
	double sum = 0;
	uint64_t count = 0;

	for (unsigned cpu = 0; cpu < n_lanes; cpu++) {
		sum += lines[cpu].counted;
		count += lines[cpu].count;
	}
	return sum == (double)(int64_t)workload_sum(0) && count == workload_sum(1);
}

/* Observe words that grow away from 0 on both sides: most of them are new extremes. At the start
 * the extremes are of an earlier epoch. */
static void update_extremes(struct worker *w)
{
	int64_t v = (int64_t)(++w->attempts << 20 | test_random(&w->random) >> 44);
	int r;

	if (test_random(&w->random) % 2)
		v = -v;
	workload_arm(w);
	do
		r = percpu_seq_widen(lines->extremes, sizeof(*lines), &epoch, v);
	while (r == PERCPU_SEQ_SLOW);
	workload_disarm();
	if (v < (int64_t)w->sum[0])
		w->sum[0] = (uint64_t)v;
	if (v > (int64_t)w->sum[1])
		w->sum[1] = (uint64_t)v;
	w->committed += r == 0;
}

static void begin_extremes(void)
{
	begin();
	for (unsigned cpu = 0; cpu < n_lanes; cpu++)
		lines[cpu].extremes[1] =
			(struct percpu_extremes){ PERCPU_EXTREMES, INT64_MIN, INT64_MAX, 0 };
}

static bool check_extremes(void)
{
	int64_t min = 0, max = 0, seen_min = 0, seen_max = 0;
	const struct percpu_extremes *p;
	const struct worker *w;

	for (unsigned cpu = 0; cpu < n_lanes; cpu++) {
		p = &lines[cpu].extremes[1];
		if (p->epoch != epoch)
			continue;
		min = p->min < min ? p->min : min;
		max = p->max > max ? p->max : max;
	}
	for (unsigned id = 0; id < WORKLOAD_WORKERS; id++) {
		w = workload_worker(id);
		seen_min = (int64_t)w->sum[0] < seen_min ? (int64_t)w->sum[0] : seen_min;
		seen_max = (int64_t)w->sum[1] > seen_max ? (int64_t)w->sum[1] : seen_max;
	}
	return min == seen_min && max == seen_max;
}

/* Change two words that limit each other: at any time each is within a distance of the other. */
static void update_within(struct worker *w)
{
	int64_t n = (int64_t)(test_random(&w->random) % 401) - 200;
	void *first = &lines->chased[0], *second = &lines->chased[1];
	bool back = w->attempts++ % 2;
	int r;

	workload_arm(w);
	do
		r = percpu_seq_add_within(back ? second : first, back ? first : second,
					  sizeof(*lines), n, REACH, 2 * REACH + 1);
	while (r == PERCPU_SEQ_SLOW);
	workload_disarm();
	if (r == 0)
		w->sum[back] += (uint64_t)n;
	w->committed += r == 0;
}

static bool check_within(void)
{
	uint64_t first = 0, second = 0;
	bool within = true;

	for (unsigned cpu = 0; cpu < n_lanes; cpu++) {
		first += lines[cpu].chased[0];
		second += lines[cpu].chased[1];
		within &= lines[cpu].chased[0] - lines[cpu].chased[1] + REACH <= 2 * REACH;
	}
	return within && first == workload_sum(0) && second == workload_sum(1);
}

const struct workload workload_values[WORKLOAD_VALUES] = {
	{ "add_double", 1, begin, update_add, check },
	{ "add_count_double", 2, begin, update_pair, check_pair },
	{ "add_within", 2, begin, update_within, check_within },
	{ "widen", 1, begin_extremes, update_extremes, check_extremes },
};
