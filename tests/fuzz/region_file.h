/* SPDX-License-Identifier: MIT */
/* region_file.h - the file of a region that nobody has written, and time that passes quickly. */
#ifndef TESTS_FUZZ_REGION_FILE_H
#define TESTS_FUZZ_REGION_FILE_H

#include <stddef.h>

#include <percpu/region.h>

#include "fuzz.h"

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

/** An object's bytes must be in the lane of a chunk that is mapped. */
void check_block(struct percpu_region *r, const void *base, size_t size);

#endif
