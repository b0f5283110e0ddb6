/* SPDX-License-Identifier: MIT */
/*
 * clocks.h - clocks that tell the library another time. A program that links clocks.c wraps
 * clock_gettime(2), also by its name for a time_t that is longer than what system calls take.
 */
#ifndef TESTS_CLOCKS_H
#define TESTS_CLOCKS_H

#include <time.h>

/** The program's: what the clock has told is in *t, which may be changed. All threads come here. */
void clock_is_read(clockid_t clock, struct timespec *t);

#endif
