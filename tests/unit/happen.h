/* SPDX-License-Identifier: MIT */
/* happen.h - let something happen at a step of the library. */
#ifndef TESTS_UNIT_HAPPEN_H
#define TESTS_UNIT_HAPPEN_H

extern const char *at_step; /* where it happens, NULL: nowhere */
extern unsigned times;	    /* it is still to happen */

/** Call fn at the next n times that the library comes to the step, but for those
 *  within fn. It may let something else happen instead. */
void let_happen(void (*fn)(void), const char *step, unsigned n);

#endif
