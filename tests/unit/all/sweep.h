/* SPDX-License-Identifier: MIT */
/*
 * sweep.h - each call that the library makes of libc fails in turn, under operations: the first,
 * the second, and so on until none is left to fail, alone and with all later ones. So does each
 * allocation of cells, which seldom needs a call.
 */
#ifndef TESTS_UNIT_SWEEP_H
#define TESTS_UNIT_SWEEP_H

#include <percpu/percpu.h>

#include "faults.h"

/** An operation as a program would do it, from nothing to nothing. Returns the
 * first error. What it finds wrong besides, it asserts with the faults off. */
struct sweep_operation {
	const char *name;
	int (*run)(void);
	int errors[8]; /* that it may give, besides that of the call that failed */
};

/** What calls give that allocate; that allocate in a file; and that fence, besides. */
#define SWEEP_MEMORY -ENOMEM
#define SWEEP_FILE SWEEP_MEMORY, -ENOSPC
#define SWEEP_FENCE -EAGAIN, -EPERM, -ETIMEDOUT

/** Run each operation of the table, whose last one has no name, with each call failing. Asserts
 * that the operation is then done, or refused with one of its errors; that nothing stays behind,
 * no lock is held, the thread is as it was; and that the next try succeeds. */
void sweep(const struct sweep_operation *table);

/** How many calls of this kind have failed until now. */
unsigned sweep_failures(enum fault_call call);

/** Print that of each kind. */
void sweep_report(void);

/** A region in a file, and its path: opened once for all. */
extern struct percpu_region *sweep_region;
extern char sweep_path[160];

/** Owners in that file, by a handle of the region of their own: opened when nothing fails yet. */
struct percpu_region *sweep_owners_region(void);
struct percpu_owners *sweep_owners(void);

/** Before and after all tests of a program. */
int sweep_set_up(void **state);
int sweep_tear_down(void **state);

/** sweep_wraps.c: how many mutexes and robust locks the calling thread has. */
unsigned sweep_mutexes(void);
unsigned sweep_robust_locks(void);

#endif
