/* SPDX-License-Identifier: MIT */
/*
 * hold.h - hold the library's threads back, by what the linker lets a program put
 * in front of pthread_create() and of the library's waits.
 */
#ifndef TESTS_UNIT_HOLD_H
#define TESTS_UNIT_HOLD_H

#include <stdbool.h>
#include <stdint.h>

/** From now on, threads of the library wait before they do anything; or no longer. */
void hold_threads(bool on);

/** Wait until so many do. */
void wait_until_held(uint32_t n);

/** The nth from now on cannot be started, and none after it; 0: all can. */
void refuse_threads(uint32_t nth);

/** How many were started. */
uint32_t threads_started(void);

/** The self-test's intruder does not wake up by itself. */
void let_nobody_intrude(void);

#define RESTS 8

/** Let the threads that are held go on, and the self-test find no CPU at first. Returns the first
 *  so many times, in nanoseconds, for which it rested between attempts. */
const uint64_t *rests_of_the_intruder(void);

#endif
