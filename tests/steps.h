/* SPDX-License-Identifier: MIT */
/*
 * steps.h - the sources of the library, for tests that link them from
 * steps_deps: at each PERCPU_STEP() they call the test.
 */
#ifndef TESTS_STEPS_H
#define TESTS_STEPS_H

/** The test defines it. */
void test_step(const char *name);

#define PERCPU_STEP(name) test_step(name)

#endif
