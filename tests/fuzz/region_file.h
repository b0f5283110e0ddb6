/* SPDX-License-Identifier: MIT */
/* region_file.h - the file of a region that is damaged, and waits that end soon. */
#ifndef TESTS_FUZZ_REGION_FILE_H
#define TESTS_FUZZ_REGION_FILE_H

#include <stddef.h>

#include <percpu/region.h>

#include "fuzz.h"

/** The file. */
extern int file;

/** The bytes of the undamaged file. */
extern char *good;

/** The length of good. */
extern size_t length;

/** Keep the first bytes of the file as good. */
void keep_file(size_t bytes);

/** Restore the file from good. */
void restore_file(void);

/** From here on, waits of the library end soon: it waits for locks that no thread holds. */
void enter_library(void);

/** From here on, time passes as usual. */
void leave_library(void);

/** Check that an object's bytes are in a lane of a mapped chunk. */
void check_block(struct percpu_region *r, const void *base, size_t size);

#endif
