/* SPDX-License-Identifier: MIT */
/* family_calls.h - short calls for tests of families: of counters with one label, by value. */
#ifndef TESTS_UNIT_FAMILY_CALLS_H
#define TESTS_UNIT_FAMILY_CALLS_H

#include <percpu/family.h>

#include "../declared.h"

#include "segments.h"

/** A segment of the file of root_file.h, opened twice: by two processes, as it were. Before and after a
 *  test. */
extern struct percpu_segment *s, *t;
int open_both(void **state);
int close_both(void **state);

/** Open the segment at the path. Asserts that it can be. */
struct percpu_segment *open_family_file(const char *path, unsigned flags);

/** Declare a family with the label "a". Returns as family_with_cap(). */
int declare_family(struct percpu_segment *s, const char *name, unsigned kind, size_t cap,
		   struct percpu_family **ret);

/** The family of counters f_total. Returns NULL if it cannot be had. */
struct percpu_family *family_of(struct percpu_segment *s, size_t cap);

/** The counter of that value; NULL if it cannot be had. */
struct percpu_counter *counter_of(struct percpu_family *f, const char *value);

/** Add to it, and return what it has then; a negative number if it cannot be had. */
int64_t count_in(struct percpu_family *f, const char *value, int64_t add);

/** Remove it. Returns as percpu_family_remove(). */
int remove_value(struct percpu_family *f, const char *value);

#endif
