/* SPDX-License-Identifier: MIT */
/* faults_operations.h - what test_faults.c tries while calls of libc fail. */
#ifndef TESTS_UNIT_FAULTS_OPERATIONS_H
#define TESTS_UNIT_FAULTS_OPERATIONS_H

#include "objects/objects.h"

/** An operation as a program would do it, from nothing to nothing. Returns the
 * first error. What it finds wrong besides, it asserts with the faults off. */
struct faults_operation {
	const char *name;
	int (*run)(void);
	int errors[8]; /* that it may give, besides that of the call that failed */
};

/** All of them; the last one has no name. */
extern const struct faults_operation faults_operations[];

/** A region in a file, and its path: opened once for all. */
extern struct percpu_region *faults_shared;
extern char faults_path[160];

#endif
