/* SPDX-License-Identifier: MIT */
/* picture.h - check that the values which a reader returns of a picture are consistent. */
#ifndef TESTS_PICTURE_H
#define TESTS_PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <percpu/reader.h>

/** Counts of a picture, to be compared with those of a later one. */
struct picture_past {
	struct picture_count *count; /* ordered by the series' hashes */
	size_t n;
	uint64_t generation;
};

/**
 * Check that all calls agree on one possible picture: texts, the order of names, calls by kind,
 * numbers that are the same by each call, minima up to maxima, +Inf = count = sum of the
 * buckets, and the order of times: the segment's start, the series' start, the picture. Unless
 * the file is damaged, check also that no two series are the same, that series of one name have
 * the same kind, unit and family, that buckets are cumulative, that nothing was set later than
 * the picture was taken, and that the number of missing values is right. Returns NULL, or what
 * is wrong.
 */
const char *picture_check(const struct percpu_reader *r, bool damaged);

/** Check that no count has gone back since the past picture, and let this one be the past. A
 *  series that has started since begins at 0, and so do all in a new generation. Returns NULL, or
 *  what is wrong. */
const char *picture_grows(const struct percpu_reader *r, struct picture_past *past);

/** Forget the past: something was reset. */
void picture_forget(struct picture_past *past);

#endif
