/* SPDX-License-Identifier: MIT */
/*
 * later.h - a monotonic clock that a test puts forward, so that nobody waits until a deadline is
 * over. Programs that link it wrap clock_gettime(2).
 */
#ifndef TESTS_UNIT_LATER_H
#define TESTS_UNIT_LATER_H

#include <stdint.h>

/** From now on it is so much later, for this process. */
void let_pass(uint64_t ns);

#endif
