/* SPDX-License-Identifier: MIT */
/* spinner.h - does a fence abort what another CPU has in a sequence? */
#ifndef TESTS_UNIT_SPINNER_H
#define TESTS_UNIT_SPINNER_H

/** A thread on the second CPU is in a sequence while fence() is called, here, again and
 *  again: how often of so many rounds fence() returned 0 and the sequence was aborted. */
unsigned spinner_aborted_by(int (*fence)(void), unsigned rounds);

#endif
