/* SPDX-License-Identifier: MIT */
/* reader_calls.h - shared by tests of readers: a segment, a reader of it, and short calls. */
#ifndef TESTS_UNIT_READER_CALLS_H
#define TESTS_UNIT_READER_CALLS_H

#include <percpu/reader.h>

#include "../segments.h"

extern char path[128];
extern struct percpu_segment *s;
extern struct percpu_reader *r;
extern struct percpu_counter *a, *b;

/** Set up a test: make a segment with nothing in it, and open a reader. */
int make_segment(void **state);

/** Set up a test: make a segment with the counters a_total and b_total, which have 100 and 200,
 *  and two lanes more than there are CPUs; and open a reader, without a read. */
int make_two(void **state);

/** Tear a test down. */
int remove_segment(void **state);

/** Declare a counter in the segment. Asserts that it can be. */
struct percpu_counter *counter(const char *name);

/** Take a picture, as percpu_reader_read(). Asserts that its values fit together (picture.h), and
 *  that no count has gone back since forget(). */
int take(void);

/** Forget the counts of pictures so far: some were reset. */
void forget(void);

/** Note that the file is damaged: series may have anything in common, and counts go back. */
void damage(void);

/** Take a picture, and return how many series it has. Asserts that it can be taken. */
size_t look(void);

/** Return series i of the picture. Asserts that there is one. */
struct percpu_reader_series series_of(size_t i);

/** Return the picture's info. Asserts that there is one. */
struct percpu_reader_info info_of(void);

/** Return the count of series i of the picture. Asserts that it has one. */
uint64_t count_of(size_t i);

#endif
