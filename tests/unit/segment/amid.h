/* SPDX-License-Identifier: MIT */
/* amid.h - let a process be killed, or something happen, amid what the library does. */
#ifndef TESTS_UNIT_AMID_H
#define TESTS_UNIT_AMID_H

#include <stdbool.h>

extern unsigned dies_at; /* which of all steps is the last one; 0: none */

/** What happens at steps whose names begin so, NULL: none. It returns whether it does so again. */
extern const char *waits_when;
extern bool (*meanwhile)(void);

/** No more of either. */
void amid_nothing(void);

#endif
