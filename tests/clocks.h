/* SPDX-License-Identifier: MIT */
/*
 * clocks.h - clocks whose times a test chooses. A program that links clocks.c wraps
 * clock_gettime(2), also by its name for a time_t that is longer than in system calls.
 */
#ifndef TESTS_CLOCKS_H
#define TESTS_CLOCKS_H

#include <time.h>

/** Called by the wrapper in any thread, defined by the program: *t is the clock's time, and may
 *  be changed. */
void clock_is_read(clockid_t clock, struct timespec *t);

#endif
