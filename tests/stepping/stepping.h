/* SPDX-License-Identifier: MIT */
/*
 * stepping.h - a tracer stops its child at an instruction of a sequence, lets
 * something happen, lets it go on, and compares with the model.
 *
 * The child is a fork, so code and records are where the tracer has its own.
 * Memory that the operations work on is shared between both, so it tells what
 * was done even if the child was killed. Where to stop comes from the records
 * alone: which ones an operation runs through is found by running it.
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

/* operations.c: what the child does. */

enum stepping_memory {
	MEMORY_LANES,  /* a lane per CPU */
	MEMORY_SUMS,   /* a counter, or several, in a shared region */
	MEMORY_PRIVATE /* the child's own: the operation judges itself */
};

struct stepping_operation {
	const char *name;
	enum stepping_memory memory;
	enum model_op op;
	struct model_result (*run)(const struct model_case *c);
};

/** The nth operation; NULL after the last. */
const struct stepping_operation *stepping_operation(unsigned nth);

/** Make the memory they work on; what is private is filled for this CPU. */
void stepping_make(unsigned cpu);

/** How many lanes it has, as seen from outside, and which one a CPU updates. */
unsigned stepping_lanes(const struct stepping_operation *o);
unsigned stepping_lane(const struct stepping_operation *o, unsigned cpu);

/** Write or read them; most sums cannot be written, and stay. */
void stepping_fill(const struct stepping_operation *o, uint64_t *random);
void stepping_read(const struct stepping_operation *o, struct model_lane *lanes);

/** Add to the first counter. One copy of its sequences for all callers. */
void stepping_add_to_compact(const struct percpu_compact *c, int64_t n);

/* Those on memory of the child's own, in operations_own.c, operations_called.c, and, of object
 * caches and windows, operations_items.c; of reference counts, operations_refs.c; of locks,
 * operations_rwlock.c; the last of each has no name. */

extern const struct stepping_operation stepping_own[], stepping_called[], stepping_items[];
extern const struct stepping_operation stepping_graces[], stepping_refs[], stepping_rwlock[];

void stepping_make_own(unsigned cpu);
void stepping_make_called(void);
void stepping_make_items(void);
void stepping_make_graces(void);
void stepping_make_refs(void);
void stepping_make_rwlock(void);

/* operations_values.c: on doubles and other values in the shared region. */

extern const struct stepping_operation stepping_values[];

void stepping_make_values(struct percpu_region *r, unsigned cpu);

/** Bring what the operation works on to where it runs through its sequences. */
void stepping_fill_values(const struct stepping_operation *o);

/** As stepping_read(), of what this file has. Returns false if that is not the operation's. */
bool stepping_read_values(const struct stepping_operation *o, struct model_lane *out);

/** Whether its sequences take notice of a reset. */
bool stepping_is_reset(const struct stepping_operation *o);

/** Reset, as another process does. Stores what was there, and with what the model begins. */
void stepping_reset(const struct stepping_operation *o, struct model_lane *got,
		    struct model_lane *left);

/** Whether its object can be in a shared region on this machine. */
bool stepping_is_shared(const struct stepping_operation *o);

/* trace.c: a child under control. */

struct stepping_child {
	pid_t pid;    /* of the process */
	pid_t tid;    /* of the thread that stopped */
	bool stopped; /* at the last of the breakpoints, else gone */
	int status;
};

/**
 * Start a child that runs fn, and breakpoints in it. At those before the last
 * it goes on, which aborts the sequence; with the last it returns.
 */
struct stepping_child stepping_start(void (*fn)(void), const uint64_t *at, unsigned n);

/** The breakpoint that the child is at, or went through; each once, in order. */
unsigned stepping_trail(void (*fn)(void), const struct record *r, size_t n, uint64_t *ret);

/** Step through a sequence at whose start the child stopped, as if it were
 *  none. Stores the addresses, each once; returns how many. *ret_end tells
 *  whether it got to the end. */
unsigned stepping_walk(struct stepping_child *c, const struct record *r, uint64_t *ret,
		       unsigned max, bool *ret_end);

/** Step to the start of a sequence. Stores the addresses of the last
 *  instructions before it; returns how many, 0 if it does not get there. */
unsigned stepping_approach(struct stepping_child *c, uint64_t start, uint64_t *ret, unsigned max);

/** Let it run to its end; false if it had to be killed. */
bool stepping_finish(struct stepping_child *c);
void stepping_kill(struct stepping_child *c);

#endif
