/* SPDX-License-Identifier: MIT */
/*
 * rwlock_calls.h - shared by the tests of private locks and of locks between processes: threads for
 * which gettid(2) fails, or returns the id of another thread.
 */
#ifndef TESTS_UNIT_RWLOCK_CALLS_H
#define TESTS_UNIT_RWLOCK_CALLS_H

#include <percpu/rwlock.h>

/** Assert that each call that locks for writing returns the error e. */
void no_call_writes(struct percpu_rwlock *l, int e);

/** For test_team_run(): as a thread of some id, lock for writing, try again, and end. arg is the
 *  lock. */
void write_and_end(unsigned i, void *arg);

/** For test_team_run(): as another thread of the same id, try to write, and then lock with a
 *  timeout. arg is the lock. */
void try_as_another(unsigned i, void *arg);

/** The results of the last of these threads: of its try, of its timed lock. */
extern int tried, timed;

#endif
