/* SPDX-License-Identifier: MIT */
/* hostile_file.h - the file of a region, to be overwritten. */
#ifndef TESTS_UNIT_HOSTILE_FILE_H
#define TESTS_UNIT_HOSTILE_FILE_H

#include "memory/format.h"
#include "support.h"

/* Offsets in the header, as in src/memory/format.h; test_region_hostile.c checks them against a
 * real one. */
enum {
	MAGIC = 0,
	VERSION = 8,
	INDEX = 12,
	LANE_SIZE = 16,
	STRIDE = 24,
	CPUS = 32,
	CHUNKS = 36,
	ROOT = 40
};
enum { STARTS = 2216, ALLOC_LOCK = 3240, JOURNAL = 3248 };

extern char path[128];
extern char *image; /* a correct file of two chunks */
extern size_t image_size;
extern uint64_t keys[2]; /* of one counter in each chunk */

/** Set up a group of tests: make the image. */
int make_image(void **state);

/** Tear a group of tests down: free the image. */
int drop_image(void **state);

/** Let the file have these contents. */
void write_file(const void *data, size_t size);

#endif
