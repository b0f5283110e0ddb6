/* SPDX-License-Identifier: MIT */
/*
 * hold.h - hold the library's threads back, by replacing pthread_create() and the library's
 * waits with the linker's --wrap.
 */
#ifndef TESTS_UNIT_HOLD_H
#define TESTS_UNIT_HOLD_H

#include <stdbool.h>
#include <stdint.h>

/** Let new threads of the library wait before they do anything; or let them run. */
void hold_threads(bool on);

/** Wait until so many threads are held. */
void wait_until_held(uint32_t n);

/** Refuse to start the nth thread from now on, and all later ones; 0: none. */
void refuse_threads(uint32_t nth);

/** Return how many threads were started. */
uint32_t threads_started(void);

/** Keep the self-test's intruder from waking up by itself. */
void let_nobody_intrude(void);

#define RESTS 8

/** Let the held threads run, and the self-test find no CPU at first. Returns the first RESTS
 *  times, in ns, for which it rested between attempts. */
const uint64_t *rests_of_the_intruder(void);

#endif
