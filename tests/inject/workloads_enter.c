/* SPDX-License-Identifier: MIT */
/*
 * workloads_enter.c - the sequence by which a thread takes its CPU's lane. A worker that has a lane
 * changes it with plain loads and stores, and at times gives its CPU to others meanwhile.
 */
#define _GNU_SOURCE
#include "workloads.h"

#include <sched.h>
#include <string.h>

#include <percpu/status.h>

#include "../support.h"

/* Shared with children: a lane for each CPU. */
static struct lane {
	uint64_t owner; /* 0, or the worker's number from 1 */
	uint64_t other; /* 0: no worker takes the lane otherwise */
	uint64_t inside;
	uint64_t first, second; /* equal, while no worker has the lane */
} __attribute__((aligned(64))) * lanes;

static unsigned n_lanes;

/* Return whether the worker has this lane, alone. */
static bool is_alone(struct lane *lane, uint64_t owner)
{
	return lane >= lanes && lane < lanes + n_lanes &&
	       __atomic_load_n(&lane->owner, __ATOMIC_RELAXED) == owner &&
	       __atomic_exchange_n(&lane->inside, 1, __ATOMIC_RELAXED) == 0 &&
	       lane->first == lane->second;
}

/* Take the lane of a CPU, and add to both words. A worker that finds the lane taken does nothing. */
static void update(struct worker *w)
{
	const uint64_t n = test_random(&w->random);
	const uint64_t owner = w->id + 1;
	struct lane *lane;
	void *entered;
	int r;

	workload_arm(w);
	do
		r = percpu_seq_enter(lanes, sizeof(*lanes), owner, &entered);
	while (r == PERCPU_SEQ_SLOW);
	workload_disarm();
	if (r == PERCPU_SEQ_REFUSED)
		return;
	lane = entered;
	if (r != 0 || !is_alone(lane, owner)) {
		w->wrong++;
		return;
	}
	lane->first += n;
	if (w->attempts++ % 4 == 0)
		sched_yield();
	lane->second += n;
	__atomic_store_n(&lane->inside, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&lane->owner, 0, __ATOMIC_RELEASE);
	w->sum[0] += n;
	w->committed++;
}

static void begin(void)
{
	if (!lanes) {
		n_lanes = percpu_status()->possible_cpus;
		lanes = test_share(n_lanes * sizeof(*lanes));
	}
	memset(lanes, 0, n_lanes * sizeof(*lanes));
}

static bool check(void)
{
	uint64_t sum = 0;

	for (unsigned cpu = 0; cpu < n_lanes; cpu++) {
		if (lanes[cpu].owner != 0 || lanes[cpu].other != 0 || lanes[cpu].inside != 0 ||
		    lanes[cpu].first != lanes[cpu].second)
			return false;
		sum += lanes[cpu].first;
	}
	return sum == workload_sum(0);
}

const struct workload workload_enters[WORKLOAD_ENTERS] = {
	{ "enter", 1, begin, update, check },
};
