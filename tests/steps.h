/* SPDX-License-Identifier: MIT */
/*
 * steps.h - let the library's sources call the test at each PERCPU_STEP(). Tests that need this
 * link the sources from steps_deps.
 */
#ifndef TESTS_STEPS_H
#define TESTS_STEPS_H

/** Defined by the test. */
void test_step(const char *name);

#define PERCPU_STEP(name) test_step(name)

#endif
