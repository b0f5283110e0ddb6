/* SPDX-License-Identifier: MIT */
/* fuzz.h - what programs share that use files which nobody has written. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <percpu/region.h>

/** The file; a good one's bytes, and how many. */
extern int file;
extern char *good;
extern size_t length;

/** Keep the first bytes of the file as they are; make it that again. */
void keep_file(size_t bytes);
void restore_file(void);

/** Between these, time passes quickly for the library, which waits for locks that nobody holds. */
void enter_library(void);
void leave_library(void);

/** Abort, and say what, unless that holds. */
void must(bool holds, const char *what);

/** An object's bytes must be in the lane of a chunk that is mapped. */
void check_block(struct percpu_region *r, const void *base, size_t size);

uint64_t next_random(uint64_t *state);

/** Say it as a failed test does if the program crashes, or if alarm(2) rings. */
void tell_of_crashes(void);

#endif
