/* SPDX-License-Identifier: MIT */
/*
 * sweep.h - let each call of libc by the library fail in turn, in an operation: the first, the
 * second, and so on until none is left to fail, alone and with all later ones. Allocations of
 * cells fail, too: they seldom need a call.
 */
#ifndef TESTS_UNIT_SWEEP_H
#define TESTS_UNIT_SWEEP_H

#include <percpu/percpu.h>

#include "faults.h"

/** An operation of a program, which begins with nothing and leaves nothing. Returns the first
 *  error. Its own checks assert with the faults off. */
struct sweep_operation {
	const char *name;
	int (*run)(void);
	int errors[8]; /* allowed errors, besides that of the failed call */
};

/** Errors of calls that allocate. */
#define SWEEP_MEMORY -ENOMEM

/** Errors of calls that allocate in a file. */
#define SWEEP_FILE SWEEP_MEMORY, -ENOSPC

/** Errors of calls that fence, in addition. */
#define SWEEP_FENCE -EAGAIN, -EPERM, -ETIMEDOUT

/** Run each operation of the table, whose last one has no name, with each call failing. Asserts
 *  that the operation is done, or fails with one of its errors; that nothing is leaked, no lock
 *  is held, and the thread is unchanged; and that the next try succeeds. */
void sweep(const struct sweep_operation *table);

/** Return how many calls of this kind have failed so far. */
unsigned sweep_failures(enum fault_call call);

/** Print how many calls of each kind have failed. */
void sweep_report(void);

/** A region in a file, which is opened once. */
extern struct percpu_region *sweep_region;

/** The path of that file. */
extern char sweep_path[160];

/** Return a separate handle of that file's region, opened before anything fails. */
struct percpu_region *sweep_owners_region(void);

/** Return owners in that region, opened before anything fails. */
struct percpu_owners *sweep_owners(void);

/** Set up all tests of a program. */
int sweep_set_up(void **state);

/** Tear all tests of a program down. */
int sweep_tear_down(void **state);

/** Return how many mutexes the calling thread holds: sweep_wraps.c. */
unsigned sweep_mutexes(void);

/** Return how many robust locks the calling thread holds: sweep_wraps.c. */
unsigned sweep_robust_locks(void);

#endif
