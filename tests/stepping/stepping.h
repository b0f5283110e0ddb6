/* SPDX-License-Identifier: MIT */
/*
 * stepping.h - a tracer stops its child at an instruction of a sequence, causes an event, lets the
 * child go on, and compares the result with the model.
 *
 * The child is a fork, so its code and records are at the same addresses as the tracer's. Both
 * share the memory that the operations work on, so it shows what was done even if the child was
 * killed. The addresses to stop at come from the records alone. The tracer runs an operation to
 * find out which records it runs through.
 */
#ifndef TESTS_STEPPING_STEPPING_H
#define TESTS_STEPPING_STEPPING_H

#include <stdbool.h>
#include <sys/types.h>

#include <percpu/compact.h>

#include "records.h"

#include "../model.h"

struct percpu_compact;
struct percpu_region;

/* operations.c: the child's operations. */

enum stepping_memory {
	MEMORY_LANES,  /* a lane per CPU */
	MEMORY_SUMS,   /* counters in a shared region */
	MEMORY_PRIVATE /* the child's own; the operation judges itself */
};

struct stepping_operation {
	const char *name;
	enum stepping_memory memory;
	enum model_op op;
	struct model_result (*run)(const struct model_case *c);
};

/** Return the nth operation; NULL after the last. */
const struct stepping_operation *stepping_operation(unsigned nth);

/** Make the memory for the operations. Private memory is filled for this CPU. */
void stepping_make(unsigned cpu);

/** Return how many lanes the memory of the operation has, as seen from outside. */
unsigned stepping_lanes(const struct stepping_operation *o);

/** Return the lane that a CPU updates. */
unsigned stepping_lane(const struct stepping_operation *o, unsigned cpu);

/** Fill the lanes. Most sums cannot be written, and stay. */
void stepping_fill(const struct stepping_operation *o, uint64_t *random);

/** Read the lanes. */
void stepping_read(const struct stepping_operation *o, struct model_lane *lanes);

/** Add to the first counter. One copy of its sequences for all callers. */
void stepping_add_to_compact(const struct percpu_compact *c, int64_t n);

/* Operations on the child's own memory, in operations_own.c, operations_called.c,
 * operations_critical.c (sections and hints), operations_items.c (object caches and windows),
 * operations_refs.c (reference counts) and operations_rwlock.c (locks). The last of each has no
 * name. */

extern const struct stepping_operation stepping_own[], stepping_called[], stepping_items[];
extern const struct stepping_operation stepping_graces[], stepping_refs[], stepping_rwlock[];
extern const struct stepping_operation stepping_critical[];

void stepping_make_own(unsigned cpu);
void stepping_make_called(void);
void stepping_make_critical(void);
void stepping_make_items(void);
void stepping_make_graces(void);
void stepping_make_refs(void);
void stepping_make_rwlock(void);

/* operations_values.c: operations on doubles and other values in the shared region. */

extern const struct stepping_operation stepping_values[];

void stepping_make_values(struct percpu_region *r, unsigned cpu);

/** Bring the operation's object to where the operation runs through its sequences. */
void stepping_fill_values(const struct stepping_operation *o);

/** Read as stepping_read(), for operations of this file. Return false for any other operation. */
bool stepping_read_values(const struct stepping_operation *o, struct model_lane *out);

/** Return whether a reset by another process affects its sequences. */
bool stepping_is_reset(const struct stepping_operation *o);

/** Reset, as another process does. Store the values before the reset, and the model's start. */
void stepping_reset(const struct stepping_operation *o, struct model_lane *got,
		    struct model_lane *left);

/** Return whether its object can be in a shared region on this machine. */
bool stepping_is_shared(const struct stepping_operation *o);

/* operations_group.c: as the functions of operations_values.c, for groups of statistics. */

extern const struct stepping_operation stepping_group[];

void stepping_make_group(struct percpu_region *r);
void stepping_fill_group(const struct stepping_operation *o);
bool stepping_read_group(const struct stepping_operation *o, struct model_lane *out);

/* trace.c: a child under control. */

struct stepping_child {
	pid_t pid;    /* of the process */
	pid_t tid;    /* of the thread that stopped */
	bool stopped; /* at the last of the breakpoints; else it is gone */
	int status;
};

/**
 * Start a child that runs fn, with breakpoints in it. At each one before the last it goes on, which
 * aborts the sequence. At the last one the call returns.
 */
struct stepping_child stepping_start(void (*fn)(void), const uint64_t *at, unsigned n);

/** Run fn in a child. Store the breakpoints that it reaches, each once, in order. */
unsigned stepping_trail(void (*fn)(void), const struct record *r, size_t n, uint64_t *ret);

/** Step through a sequence at whose start the child stopped, as if it were none. Store the
 *  addresses of its instructions, each once, and return how many. *ret_end tells whether it got
 *  to the end. */
unsigned stepping_walk(struct stepping_child *c, const struct record *r, uint64_t *ret,
		       unsigned max, bool *ret_end);

/** Step to the start of a sequence. Store the addresses of the last instructions before it.
 *  Return how many; 0 if the child does not get there. */
unsigned stepping_approach(struct stepping_child *c, uint64_t start, uint64_t *ret, unsigned max);

/** Let the child run to its end. Return false if it had to be killed. */
bool stepping_finish(struct stepping_child *c);
void stepping_kill(struct stepping_child *c);

#endif
