/* SPDX-License-Identifier: MIT */
/*
 * workloads.h - every sequence as something that many workers do at a time, in
 * threads or in processes, and what must hold of the lanes afterwards.
 *
 * A worker notes what it has committed, and only that. A sequence that was
 * stopped before its commit, killed there for instance, must not show.
 */
#ifndef TESTS_INJECT_WORKLOADS_H
#define TESTS_INJECT_WORKLOADS_H

#include "inject.h"

#define WORKLOAD_WORKERS 16

/** So often refused, a worker gives up: something is wrong, but nothing is lost. Each time
 *  it must have done what lets the next try succeed; to wait for a turn is no try. */
#define WORKLOAD_TRIES 10000

/** What a worker does next, and has done. */
struct worker {
	struct inject_point arm; /* where its next sequence stops */
	unsigned id;
	uint64_t random;
	uint64_t committed; /* updates */
	uint64_t sum[8];    /* of what they put in, less what they took out */
	uint64_t returned;  /* sum of what they returned */
	int64_t seen;	    /* by cmpxchg */
	uint64_t held;	    /* an item that is in no array */
	uint64_t attempts;
	uint64_t wrong;	  /* results that cannot be */
	uint64_t gave_up; /* what it did not get done */
} __attribute__((aligned(64)));

struct workload {
	const char *name;		  /* of the sequence */
	int words;			  /* what the CPU must be able to store at once */
	void (*begin)(void);		  /* fill the memory; NULL: zeros will do */
	void (*update)(struct worker *w); /* once, with up to WORKLOAD_TRIES tries */
	bool (*check)(void);		  /* all together; the workers are at rest */
};

/** The nth workload; NULL after the last. */
const struct workload *workload(unsigned nth);

/** Make the memory, shared with children; once. */
void workload_make(void);

/** Start anew: lanes as the workload wants them, workers that have done nothing. */
void workload_begin(const struct workload *l);
struct worker *workload_worker(unsigned id);

/** Sum over the workers of a word that they put in. */
uint64_t workload_sum(unsigned word);

/** What is wrong if not all that the workers did is there, and nothing else; or NULL. */
const char *workload_fault(const struct workload *l);

/** Who is refused by a full queue empties all of them, one worker at a time. Take that turn
 *  and do nothing with it, as a worker whose CPU does not run; give it back; how often
 *  workers have found it taken since workload_begin(). */
void workload_take_turn(void);
void workload_give_turn(void);
uint64_t workload_waits(void);

/* For the workloads themselves: the steps are for the sequence under test. */

static inline void workload_arm(const struct worker *w)
{
	inject_point = w->arm;
}

static inline void workload_disarm(void)
{
	inject_point.step = 0;
}

#define WORKLOAD_BANKS 6
extern const struct workload workload_banks[WORKLOAD_BANKS];

#define WORKLOAD_NARROW 3
extern const struct workload workload_narrow[WORKLOAD_NARROW];

#define WORKLOAD_RINGS 1
extern const struct workload workload_rings[WORKLOAD_RINGS];

#define WORKLOAD_VALUES 4
extern const struct workload workload_values[WORKLOAD_VALUES];

#endif
