/* SPDX-License-Identifier: MIT */
/* root_file.h - the file that programs share which start, and what is in it. */
#ifndef TESTS_UNIT_ROOT_FILE_H
#define TESTS_UNIT_ROOT_FILE_H

#include <stdbool.h>

#include <percpu/region.h>

#define CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)

extern char path[128];

/** Before all tests. */
int name_file(void **state);

/** Units that are in use. */
unsigned used(void);

/** Run fn in a child, which shall be killed at this step of all, and has its number. Returns whether it
 *  was: it may have come to its end, and returned 0. */
bool killed_at(int (*fn)(void *step), unsigned step);

/** How many files there are beside each other, and without what is left of starts. */
unsigned look_at_files(bool clean);
unsigned files(void);

#endif
