/* SPDX-License-Identifier: MIT */
/* samples.h - statistics of the repetitions of a row, and of two rows. */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

/* One figure per repetition, and at least one. */
using samples = std::vector<double>;

struct summary {
	size_t n;
	double min, max, median, mean;
	std::optional<double> deviation; /* that of a sample, by n - 1; nothing for one figure */
};

summary summarize(samples v);

/* A median as a multiple of another, or of a constant. */
struct median_ratio {
	double value;
	/* The 95 % interval: nothing if a row has one figure, or if the divisor may not be above
	 * 0. */
	std::optional<std::pair<double, double>> interval;
};

/* The median of b, or the constant, is above 0. The interval is from a percentile bootstrap, whose
 * seed is fixed: the same figures give the same interval. */
median_ratio ratio_of(const samples &a, const samples &b);
median_ratio ratio_to(const samples &a, double constant);

#endif
