/* SPDX-License-Identifier: MIT */
/* rwlock_calls.h - what tests of private locks and of locks between processes share: threads of
 * which the kernel tells no id, or that of another one. */
#ifndef TESTS_UNIT_RWLOCK_CALLS_H
#define TESTS_UNIT_RWLOCK_CALLS_H

#include <percpu/rwlock.h>

/** Lock for writing by each call. Asserts that it fails so. */
void no_call_writes(struct percpu_rwlock *l, int e);

/** For test_team_run(): threads with the same id. One locks for writing, tries again, and ends; one
 *  tries, and then waits. arg is the lock. */
void write_and_end(unsigned i, void *arg);
void try_as_another(unsigned i, void *arg);

/** What the last one of them got: by a try, by a timed lock. */
extern int tried, timed;

#endif
