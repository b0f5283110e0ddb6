/* SPDX-License-Identifier: MIT */
/* fuzz.h - what programs share that use files which nobody has written. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Abort, and say what does not hold. */
_Noreturn void fail(const char *what);

/** Inline, so that an analyzer sees that nothing follows otherwise. */
static inline void must(bool holds, const char *what)
{
	if (!holds)
		fail(what);
}

uint64_t next_random(uint64_t *state);

/** Say it as a failed test does if the program crashes, or if alarm(2) rings. */
void tell_of_crashes(void);

/** What a program that is built with libFuzzer defines: how long its inputs can be, and a function that
 *  makes another one of an input, and returns how many bytes that has. */
extern const size_t longest_input;
size_t mutate(void *input, size_t size, uint64_t *random);

#endif
