/* SPDX-License-Identifier: MIT */
/*
 * histograms.h - create histograms of given layouts, and read and compare their contents.
 */
#ifndef TESTS_UNIT_HISTOGRAMS_H
#define TESTS_UNIT_HISTOGRAMS_H

#include <percpu/histogram.h>

struct percpu_histogram *make_histogram(double min, double max, uint32_t buckets, uint64_t ticks);

/** Return a new snapshot of histogram 0. */
struct percpu_histogram_snapshot *look_at(struct percpu_histogram *h);

/** Return the next double above v, or, with a step of -1, below it. v is above 0. */
double beside(double v, int step);

void assert_same(const struct percpu_histogram_snapshot *a,
		 const struct percpu_histogram_snapshot *b);

#endif
