/* SPDX-License-Identifier: MIT */
/*
 * inject.h - stop a sequence at a step, cause an event, go on, and compare the result with the
 * model.
 *
 * There are two ways to stop. A trap turns into SIGTRAP, whose handler runs in the thread itself.
 * The signal alone aborts the sequence. A wait keeps the thread in the sequence while another
 * thread interferes; then only the interference can abort it.
 */
#ifndef TESTS_INJECT_INJECT_H
#define TESTS_INJECT_INJECT_H

#include <stdbool.h>
#include <sys/types.h>

#include "step.h"

#include "../model.h"

/** An action in the handler of a trap. */
enum inject_action {
	INJECT_NOTHING,
	INJECT_NESTED,	       /* another update of the same lane */
	INJECT_SIGNAL_NESTED,  /* the same, in the handler of another signal */
	INJECT_MIGRATE,	       /* move to another CPU */
	INJECT_NESTED_MIGRATE, /* update, then move to another CPU */
	INJECT_THERE_AND_BACK, /* move, update there, move back, update here */
	INJECT_YIELD,
	INJECT_SLEEP,
	INJECT_FORK, /* fork a child that updates its copy */
	INJECT_ACTIONS
};

/** What another thread does while the operation waits. */
enum inject_event {
	INJECT_BY_MIGRATION,  /* moves its thread to another CPU */
	INJECT_BY_COMPETITOR, /* comes to its CPU and updates the lane */
	INJECT_BY_SIGNAL,
	INJECT_BY_FENCE,
	INJECT_BY_FENCE_ALL,
	INJECT_EVENTS
};

enum inject_outcome {
	INJECT_ABSENT, /* the operation has no such step, or there are too few CPUs */
	INJECT_RIGHT,
	INJECT_WRONG,
};

typedef struct model_result (*inject_run)(struct model_lane *lane0, const struct model_case *c);

/** Install the handlers; cmocka's group set-up. Fail without memory. */
int inject_setup(void **state);
int inject_teardown(void **state);

/** Return whether this thread's sequences are known to the kernel. */
bool inject_possible(void);

/** Read the inject_point of a process that this one forked. Return false if the kernel does not
 *  allow it. */
bool inject_read(pid_t pid, struct inject_point *ret);

/** Let such a process go on from its wait. Return false if the kernel does not allow it. */
bool inject_go(pid_t pid);

/** Run update in a thread on the first CPU, where it waits at a step. Run meanwhile on the
 *  second CPU, while it waits. */
void inject_overlap(void (*update)(void), int step, void (*meanwhile)(void));

/** A number of rounds that takes longer than anything in a test. */
#define INJECT_LONG (UINT64_C(1) << 33)

/** Stop at a step by a trap, and do the action there. */
enum inject_outcome inject_trap(inject_run run, enum model_op op, int step,
				enum inject_action action, uint64_t *random);

/** Stop at a step by a wait, during which another thread causes the event. */
enum inject_outcome inject_wait(inject_run run, enum model_op op, int step, enum inject_event event,
				uint64_t *random);

/**
 * Stop at each instruction that run executes, from its first to its return, and do the action
 * there. x86-64 only: the breakpoints are patched in.
 *
 * Return the number of instructions at which the outcome was wrong, or -1 if the code cannot be
 * patched. Store in *ret_stops how many instructions there were.
 */
int inject_instructions(inject_run run, enum model_op op, enum inject_action action, uint64_t seed,
			unsigned *ret_stops);

/* The present experiment, for traps and waits alike. */

struct inject_experiment {
	inject_run run;
	enum inject_action action;
	struct model_case c;	  /* the operation under test */
	struct model_case nested; /* the operation that comes between */
	struct model_lane *real;
	struct model_lane *model;
	unsigned lanes;
	unsigned here, there; /* CPUs */
	bool wrong;
};

extern struct inject_experiment inject_now;

/** Choose a state in which the operation has an effect, and an operation to come between. The
 *  same random numbers give the same state. Return false if the action needs more CPUs than
 *  there are. */
bool inject_prepare(inject_run run, enum model_op op, enum inject_action action, uint64_t *random);

/** Do the action, to the real lanes and to the model. */
void inject_act(void);

/** Run an operation to its end, also in the model, and compare. */
void inject_complete(const struct model_case *c);

bool inject_same_world(void);

#endif
