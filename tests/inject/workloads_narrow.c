/* SPDX-License-Identifier: MIT */
/*
 * workloads_narrow.c - the sequences that add to a cell of 32 bits: within a window; if a word is
 * as expected; or at the address in a word.
 */
#define _GNU_SOURCE
#include "workloads.h"

#include <string.h>

#include <percpu/status.h>

#include "../support.h"

#define HALF 64 /* of a window */
#define LINE 64

/* Shared with children: the word that the sequences look at, then a line for each CPU's cell. */
static char *memory;
static unsigned n_lanes;

static uint64_t *state(void)
{
	return (uint64_t *)(void *)memory;
}

static int32_t *cell(unsigned cpu)
{
	return (int32_t *)(void *)(memory + LINE * (1 + (size_t)cpu));
}

/* Add. If one direction leads out of the window, add in the other. */
static void update_add(struct worker *w)
{
	int64_t n = 1 + (int64_t)(test_random(&w->random) % (HALF / 2));
	int r = PERCPU_SEQ_REFUSED;

	workload_arm(w);
	for (unsigned i = 0; i < WORKLOAD_TRIES && r == PERCPU_SEQ_REFUSED; i++) {
		do
			r = percpu_seq_narrow_add(cell(0), LINE, n, HALF);
		while (r == PERCPU_SEQ_SLOW);
		if (r == PERCPU_SEQ_REFUSED)
			n = -n;
	}
	workload_disarm();
	if (r == 0)
		w->sum[0] += (uint64_t)n;
	w->committed += r == 0;
	w->gave_up += r != 0;
}

/* Add if the word is as expected. Change the word every fourth time. */
static void update_narrow_add_if(struct worker *w)
{
	int64_t n = (int64_t)test_random(&w->random) >> 40;
	int r = PERCPU_SEQ_REFUSED;
	uint64_t expected;

	if (w->attempts++ % 4 == 0)
		__atomic_fetch_add(state(), 1, __ATOMIC_RELAXED);
	workload_arm(w);
	for (unsigned i = 0; i < WORKLOAD_TRIES && r == PERCPU_SEQ_REFUSED; i++) {
		expected = __atomic_load_n(state(), __ATOMIC_RELAXED);
		do
			r = percpu_seq_narrow_add_if(cell(0), LINE, n, state(), expected);
		while (r == PERCPU_SEQ_SLOW);
	}
	workload_disarm();
	if (r == 0)
		w->sum[0] += (uint64_t)n;
	w->committed += r == 0;
	w->gave_up += r != 0;
}

/* Add at the address in the word. Close it every fourth time. A worker that is refused opens it. */
static void update_add_at(struct worker *w)
{
	const uint64_t open = (uint64_t)(uintptr_t)cell(0);
	int64_t n = (int64_t)test_random(&w->random) >> 40;
	int r = PERCPU_SEQ_REFUSED;

	if (w->attempts++ % 4 == 0)
		__atomic_store_n(state(), PERCPU_SEQ_CLOSED, __ATOMIC_RELAXED);
	workload_arm(w);
	for (unsigned i = 0; i < WORKLOAD_TRIES && r == PERCPU_SEQ_REFUSED; i++) {
		do
			r = percpu_seq_add_at(state(), LINE, n);
		while (r == PERCPU_SEQ_SLOW);
		if (r == PERCPU_SEQ_REFUSED)
			__atomic_store_n(state(), open, __ATOMIC_RELAXED);
	}
	workload_disarm();
	if (r == 0)
		w->sum[0] += (uint64_t)n;
	w->committed += r == 0;
	w->gave_up += r != 0;
}

static void begin(void)
{
	if (!memory) {
		n_lanes = percpu_status()->possible_cpus;
		memory = test_share(LINE * (1 + (size_t)n_lanes));
	}
	memset(memory, 0, LINE * (1 + (size_t)n_lanes));
}

static void begin_closed(void)
{
	begin();
	*state() = PERCPU_SEQ_CLOSED;
}

static bool check_sum(void)
{
	uint32_t sum = 0;

	for (unsigned cpu = 0; cpu < n_lanes; cpu++)
		sum += (uint32_t)*cell(cpu);
	return sum == (uint32_t)workload_sum(0);
}

static bool check_wide_sum(void)
{
	uint64_t sum = 0;

	for (unsigned cpu = 0; cpu < n_lanes; cpu++)
		sum += *(uint64_t *)(void *)cell(cpu);
	return sum == workload_sum(0);
}

static bool check_window(void)
{
	for (unsigned cpu = 0; cpu < n_lanes; cpu++)
		if (*cell(cpu) < -HALF || *cell(cpu) >= HALF)
			return false;
	return check_sum();
}

const struct workload workload_narrow[WORKLOAD_NARROW] = {
	{ "narrow_add", 1, begin, update_add, check_window },
	{ "add_at", 1, begin_closed, update_add_at, check_wide_sum },
	{ "narrow_add_if", 1, begin, update_narrow_add_if, check_sum },
};
