/* SPDX-License-Identifier: MIT */
/*
 * steps.h - makes the sources of the library call the test at each PERCPU_STEP().
 * Tests that want that link the sources from steps_deps.
 */
#ifndef TESTS_STEPS_H
#define TESTS_STEPS_H

/** The test defines it. */
void test_step(const char *name);

#define PERCPU_STEP(name) test_step(name)

#endif
