/* SPDX-License-Identifier: MIT */
/* reader_calls.h - what tests of readers share: a segment, a reader of it, and short calls. */
#ifndef TESTS_UNIT_READER_CALLS_H
#define TESTS_UNIT_READER_CALLS_H

#include <percpu/reader.h>

#include "../segments.h"

extern char path[128];
extern struct percpu_segment *s;
extern struct percpu_reader *r;
extern struct percpu_counter *a, *b;

/** Before a test: a segment with nothing in it; or with the counters a_total and b_total, which have
 *  100 and 200, and two lanes more than there are CPUs. Neither was read. */
int make_segment(void **state);
int make_two(void **state);

/** And after it. */
int remove_segment(void **state);

/** Declare a counter in the segment. Asserts that it can be. */
struct percpu_counter *counter(const char *name);

/** Take a picture, as percpu_reader_read(). Asserts that all in it fits together (picture.h), and that
 *  no count has gone back, but for what was reset before forget(). */
int take(void);
void forget(void);

/** From now on the file is damaged: series may have anything in common, and counts go back. */
void damage(void);

/** Take a picture, and return how many series it has. Asserts that it can be taken. */
size_t look(void);

/** What the picture has. Assert that it does. */
struct percpu_reader_series series_of(size_t i);
struct percpu_reader_info info_of(void);
uint64_t count_of(size_t i);

#endif
