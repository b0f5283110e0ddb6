/* SPDX-License-Identifier: MIT */
/* faults_kept.h - metrics of each kind, for tests in which calls of libc fail. */
#ifndef TESTS_UNIT_FAULTS_KEPT_H
#define TESTS_UNIT_FAULTS_KEPT_H

#include <percpu/percpu.h>

enum { KEPT_FIELDS = 2 };

/** A handle of each kind. On machines without atomic pairs there are no gauges. */
struct kept_metrics {
	struct percpu_counter *counter;
	struct percpu_fcounter *fcounter;
	struct percpu_gauge *gauge;
	struct percpu_fgauge *fgauge;
	struct percpu_latest *latest;
	struct percpu_histogram *histogram;
	struct percpu_extrema *extrema;
	struct percpu_owned_gauge *owned;
	struct percpu_owned_fgauge *fowned;
	struct percpu_stats *stats;
	struct percpu_exemplars *exemplars;	      /* of the counter */
	struct percpu_exemplars *histogram_exemplars; /* of the histogram */
};

/** Declare all metrics, each by its own call. Returns the first error. */
int kept_declare(struct percpu_segment *s, struct kept_metrics *ret);

/** Declare all metrics by a table. Returns the first error. */
int kept_declare_table(struct percpu_segment *s, struct kept_metrics *ret);

/** Count in all metrics. Returns the first error. */
int kept_count(const struct kept_metrics *m);

/** Return a segment that has these metrics, and something counted in them. It is opened once,
 *  when nothing fails yet. The counts in *ret are of this segment. */
struct percpu_segment *kept_segment(struct kept_metrics *ret);

/** Return the path of that segment. */
const char *kept_path(void);

#endif
