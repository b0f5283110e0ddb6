/* SPDX-License-Identifier: MIT */
/* picture.h - whether all that a reader tells of a picture fits together. */
#ifndef TESTS_PICTURE_H
#define TESTS_PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <percpu/reader.h>

/** Counts of a picture, to be compared with those of a later one. */
struct picture_past {
	struct picture_count *count; /* in the order of their series' hashes */
	size_t n;
	uint64_t generation;
};

/**
 * Check that all calls tell of one picture that can be: texts, the order of names, calls by kind, numbers
 * that are the same by each call, minima up to maxima, +Inf = count = sum of the buckets, and the order of
 * times: the segment's start, the series' start, the picture. Unless the file is damaged, also that no two
 * series are the same, that series of one name have the same kind, unit and family, that buckets are
 * cumulative, that nothing was set later than the picture was taken, and that as many values are missing
 * as said. Returns NULL, or what is wrong.
 */
const char *picture_check(const struct percpu_reader *r, bool damaged);

/** Check that no count has gone back since the past picture, and let this one be the past. A series that
 *  has started since, and a new generation, begin at 0. Returns NULL, or what is wrong. */
const char *picture_grows(const struct percpu_reader *r, struct picture_past *past);

/** Forget the past: something was reset. */
void picture_forget(struct picture_past *past);

#endif
