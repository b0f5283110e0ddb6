/* SPDX-License-Identifier: MIT */
/* hostile_file.h - the file of a region, to be written over. */
#ifndef TESTS_UNIT_HOSTILE_FILE_H
#define TESTS_UNIT_HOSTILE_FILE_H

#include "memory/format.h"
#include "support.h"

/* The header, as in src/memory/format.h; test_region_hostile.c checks it against a real one. */
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
extern char *image; /* a good file of two chunks */
extern size_t image_size;
extern uint64_t keys[2]; /* of a counter in each chunk */

/** Before all tests, and after them. */
int make_image(void **state);
int drop_image(void **state);

/** The file is this from now on. */
void write_file(const void *data, size_t size);

#endif
