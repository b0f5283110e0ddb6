/* SPDX-License-Identifier: MIT */
/* faults_operations.h - what test_faults.c does while calls of libc fail. */
#ifndef TESTS_UNIT_FAULTS_OPERATIONS_H
#define TESTS_UNIT_FAULTS_OPERATIONS_H

#include "memory/memory.h"
#include "sweep.h"

/** All operations; the last one has no name. */
extern const struct sweep_operation faults_operations[];

#endif
