/* SPDX-License-Identifier: MIT */
/*
 * family.h - a family that this process has declared.
 */
#ifndef PERCPU_SEGMENT_FAMILY_H
#define PERCPU_SEGMENT_FAMILY_H

#include "family_table.h"
#include "segment.h"

struct percpu_family {
	struct percpu_family *next; /* in the segment's list; the process lock protects it */
	struct percpu_segment *s;
	struct percpu_segment_record *record; /* in the file */
	struct percpu_record_copy asked;
	struct percpu_histogram_options histogram;
	double *bounds; /* own bounds of the options, or NULL */
	struct percpu_parameters parameters;
	void *overflow;			      /* the handle of the overflow */
	uint64_t overflow_at;		      /* the place of its record */
	struct percpu_family_table series;    /* those that this process has found */
	struct percpu_family_table exemplars; /* of these series, as far as it has asked for them */
};

/** The values of labels with their lengths. */
struct percpu_family_values {
	struct percpu_text of[PERCPU_METRIC_LABELS];
};

/** Measure one value for each label of the family. That of a NULL is NULL. */
void percpu_family_measure(const struct percpu_family *f, const char *const *values,
			   struct percpu_family_values *ret);

/** Find or create a series. Returns 0 or -errno, which is kept. On failure *handle stays. */
int percpu_family_find(struct percpu_family *f, const struct percpu_text *values, void **handle);

/** Make the record of the series with these values. The caller frees it. Returns 0, or -errno and
 *  why. */
int percpu_family_make_series(const struct percpu_family *f, const struct percpu_text *values,
			      struct percpu_record_copy **ret, struct percpu_reason *why);

#endif
