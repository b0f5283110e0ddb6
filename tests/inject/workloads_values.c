/* SPDX-License-Identifier: MIT */
/*
 * workloads_values.c - the sequences on doubles and other values.
 */
#define _GNU_SOURCE
#include "workloads.h"

#include <string.h>

#include <percpu/status.h>

#include "../support.h"

/* A line for each CPU's cell, shared with children. */
static struct line {
	double sum;
	double unused;
	uint64_t count;
	double counted;
	char unused2[32];
} * lines;
static unsigned n_lanes;

static int add(double n)
{
	int r;

	do
		r = percpu_seq_add_double(lines, sizeof(*lines), n);
	while (r == PERCPU_SEQ_SLOW);
	return r;
}

/* Whole numbers, whose sums are exact. What is too large is refused every time. */
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

/* A count and its sum, which are of the same adds also in between. */
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

const struct workload workload_values[WORKLOAD_VALUES] = {
	{ "add_double", 1, begin, update_add, check },
	{ "add_count_double", 2, begin, update_pair, check_pair },
};
