/* SPDX-License-Identifier: MIT */
/*
 * inject.h - stop a sequence at a step, let something happen, go on, and
 * compare with the model.
 *
 * Two ways to stop. A trap turns into SIGTRAP, whose handler is the thread
 * itself, and by being a signal aborts the sequence whatever it does. A wait
 * keeps the thread in the sequence while another thread interferes; what then
 * aborts it is that interference alone.
 */
#ifndef TESTS_INJECT_INJECT_H
#define TESTS_INJECT_INJECT_H

#include <stdbool.h>
#include <sys/types.h>

#include "step.h"

#include "../model.h"

/** What the handler of a trap does. */
enum inject_action {
	INJECT_NOTHING,
	INJECT_NESTED,	       /* another update of the same lane */
	INJECT_SIGNAL_NESTED,  /* the same, in the handler of a further signal */
	INJECT_MIGRATE,	       /* move to another CPU */
	INJECT_NESTED_MIGRATE, /* update, then move */
	INJECT_THERE_AND_BACK, /* move, update there, move back, update here */
	INJECT_YIELD,
	INJECT_SLEEP,
	INJECT_FORK, /* a child that updates its copy */
	INJECT_ACTIONS
};

/** What another thread does to one that waits. */
enum inject_event {
	INJECT_BY_MIGRATION,  /* moves it to another CPU */
	INJECT_BY_COMPETITOR, /* comes to its CPU and updates the lane */
	INJECT_BY_SIGNAL,
	INJECT_BY_FENCE,
	INJECT_BY_FENCE_ALL,
	INJECT_EVENTS
};

enum inject_outcome {
	INJECT_ABSENT, /* the operation has no such step, or one CPU is too few */
	INJECT_RIGHT,
	INJECT_WRONG,
};

typedef struct model_result (*inject_run)(struct model_lane *lane0, const struct model_case *c);

/** Install the handlers; cmocka's group set-up. Fails without memory. */
int inject_setup(void **state);
int inject_teardown(void **state);

/** Whether this thread's sequences are known to the kernel. */
bool inject_possible(void);

/** Read the inject_point of a process that this one forked; let it go on from
 *  its wait. False if the kernel does not allow it. */
bool inject_read(pid_t pid, struct inject_point *ret);
bool inject_go(pid_t pid);

/** An update that waits at a step, in a thread on the first CPU; do something
 *  meanwhile, on the second. */
void inject_overlap(void (*update)(void), int step, void (*meanwhile)(void));

/** For as long as anything in a test takes. */
#define INJECT_LONG (UINT64_C(1) << 33)

/** Stop at a step, by a trap or by waiting there. */
enum inject_outcome inject_trap(inject_run run, enum model_op op, int step,
				enum inject_action action, uint64_t *random);
enum inject_outcome inject_wait(inject_run run, enum model_op op, int step, enum inject_event event,
				uint64_t *random);

/**
 * Stop at each instruction that run executes, from its first to its return,
 * and let the action happen there. x86-64 only: breakpoints are patched in.
 *
 * Returns at how many it came out wrong, or -1 if the code cannot be patched;
 * in *ret_stops, how many there were.
 */
int inject_instructions(inject_run run, enum model_op op, enum inject_action action, uint64_t seed,
			unsigned *ret_stops);

/*
 * What both ways share: the experiment that is going on.
 */

struct inject_experiment {
	inject_run run;
	enum inject_action action;
	struct model_case c;	  /* the operation under test */
	struct model_case nested; /* the one that comes between */
	struct model_lane *real;
	struct model_lane *model;
	unsigned lanes;
	unsigned here, there; /* CPUs */
	bool wrong;
};

extern struct inject_experiment inject_now;

/** Make a world with an operation that will do something, and one to come
 *  between. The same random numbers make the same. False if the action needs
 *  more CPUs than there are. */
bool inject_prepare(inject_run run, enum model_op op, enum inject_action action, uint64_t *random);

/** Do the action, to the world and to the model. */
void inject_act(void);

/** Run an operation to its end here, and in the model, and compare. */
void inject_complete(const struct model_case *c);

bool inject_same_world(void);

#endif
