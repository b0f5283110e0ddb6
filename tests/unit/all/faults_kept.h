/* SPDX-License-Identifier: MIT */
/* faults_kept.h - metrics of each kind, for tests while calls of libc fail. */
#ifndef TESTS_UNIT_FAULTS_KEPT_H
#define TESTS_UNIT_FAULTS_KEPT_H

#include <percpu/percpu.h>

enum { KEPT_FIELDS = 2 };

/** A handle of each kind. On machines that change no pair at once there are no gauges. */
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
};

/** Declare all, each by its own call; or all by a table. Returns the first error. */
int kept_declare(struct percpu_segment *s, struct kept_metrics *ret);
int kept_declare_table(struct percpu_segment *s, struct kept_metrics *ret);

/** Count in all of them. Returns the first error. */
int kept_count(const struct kept_metrics *m);

/** A segment, and its path, that has them, and in which something was counted: opened once for all,
 *  when nothing fails yet. The counts are of its own. */
struct percpu_segment *kept_segment(struct kept_metrics *ret);
const char *kept_path(void);

#endif
