/* SPDX-License-Identifier: MIT */
/* fuzz.h - shared by programs that use damaged files. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Abort, and say what does not hold. */
_Noreturn void fail(const char *what);

/** Abort unless it holds. Inline, so that an analyzer sees that. */
static inline void must(bool holds, const char *what)
{
	if (!holds)
		fail(what);
}

uint64_t next_random(uint64_t *state);

/** Print a failed test if the program crashes, or if alarm(2) rings. */
void tell_of_crashes(void);

/** Defined by a program that can be built with libFuzzer: the length of its longest input. */
extern const size_t longest_input;

/** Defined by that program: change an input to another one. Returns its new length in bytes. */
size_t mutate(void *input, size_t size, uint64_t *random);

#endif
