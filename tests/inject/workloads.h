/* SPDX-License-Identifier: MIT */
/*
 * workloads.h - every sequence as a workload of many workers, in threads or in processes, and what
 * must hold of the lanes afterwards.
 *
 * A worker notes only what it has committed. A sequence that was stopped before its commit, for
 * instance killed, must leave no trace.
 */
#ifndef TESTS_INJECT_WORKLOADS_H
#define TESTS_INJECT_WORKLOADS_H

#include "inject.h"

#define WORKLOAD_WORKERS 16

/** A worker gives up after so many refusals: something is wrong, but nothing is lost. Before
 *  each try it must have done what lets the try succeed. Waiting for a turn is no try. */
#define WORKLOAD_TRIES 10000

/** What a worker does next, and what it has done. */
struct worker {
	struct inject_point arm; /* where its next sequence stops */
	unsigned id;
	uint64_t random;
	uint64_t committed; /* updates */
	uint64_t sum[8];    /* of the words it put in, less those it took out */
	uint64_t returned;  /* sum of its results */
	int64_t seen;	    /* by cmpxchg */
	uint64_t held;	    /* an item that is in no array */
	uint64_t attempts;
	uint64_t wrong;	  /* impossible results */
	uint64_t gave_up; /* updates that it gave up */
} __attribute__((aligned(64)));

struct workload {
	const char *name;		  /* the sequence */
	int words;			  /* words that the CPU must be able to store at once */
	void (*begin)(void);		  /* fills the memory; NULL: zeros will do */
	void (*update)(struct worker *w); /* does one update, with up to WORKLOAD_TRIES tries */
	bool (*check)(void);		  /* checks all lanes while the workers are at rest */
};

/** Return the nth workload; NULL after the last. */
const struct workload *workload(unsigned nth);

/** Make the memory, shared with children. Call it once. */
void workload_make(void);

/** Reset the lanes to what the workload needs, and the workers' counts to 0. */
void workload_begin(const struct workload *l);
struct worker *workload_worker(unsigned id);

/** Return the sum over all workers of a word that they put in. */
uint64_t workload_sum(unsigned word);

/** Return NULL if the lanes hold exactly what the workers have done; or what is wrong. */
const char *workload_fault(const struct workload *l);

/** Take the turn to empty the queues, and do nothing with it, as a worker whose CPU does not
 *  run. A worker that a full queue refuses empties all queues, one worker at a time. */
void workload_take_turn(void);

/** Give the turn back. */
void workload_give_turn(void);

/** Return how often workers have found the turn taken since workload_begin(). */
uint64_t workload_waits(void);

/* For the workloads themselves: only the sequence under test stops at steps. */

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

#define WORKLOAD_ENTERS 1
extern const struct workload workload_enters[WORKLOAD_ENTERS];

#define WORKLOAD_GROUPS 4
extern const struct workload workload_groups[WORKLOAD_GROUPS];

#define WORKLOAD_VALUES 4
extern const struct workload workload_values[WORKLOAD_VALUES];

#endif
