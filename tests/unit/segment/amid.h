/* SPDX-License-Identifier: MIT */
/* amid.h - let a process be killed, or call a function, at a step of the library. */
#ifndef TESTS_UNIT_AMID_H
#define TESTS_UNIT_AMID_H

#include <stdbool.h>

extern unsigned dies_at; /* the step at which the process dies, counted from 1; 0: none */

/** Steps whose names begin with this call `meanwhile`; NULL: none do. */
extern const char *waits_when;

/** Called at these steps. Returns whether to call it at the next one, too. */
extern bool (*meanwhile)(void);

/** Kill at no step any more, and call no function. */
void amid_nothing(void);

#endif
