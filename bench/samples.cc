/* SPDX-License-Identifier: MIT */
/* samples.cc - median, mean, deviation; the interval of a ratio of medians. */
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "samples.h"

static constexpr size_t resamples = 2000;

static double median_of(samples &v)
{
	auto middle = v.begin() + long(v.size() / 2);

	std::nth_element(v.begin(), middle, v.end());
	return v.size() % 2 ? *middle : (*middle + *std::max_element(v.begin(), middle)) / 2;
}

summary summarize(samples v)
{
	auto [min, max] = std::minmax_element(v.begin(), v.end());
	const double n = double(v.size());
	summary s = { v.size(), *min, *max, 0, std::accumulate(v.begin(), v.end(), 0.0) / n, {} };
	double squares = 0;

	for (double x : v)
		squares += (x - s.mean) * (x - s.mean);
	if (v.size() > 1)
		s.deviation = std::sqrt(squares / (n - 1));
	s.median = median_of(v);
	return s;
}

/* Return the medians of samples that are drawn from v, with replacement, each as large as v. */
static samples medians(const samples &v, std::mt19937 &random)
{
	samples drawn(v.size()), all(resamples);

	for (double &median : all) {
		for (double &x : drawn)
			x = v[random() % v.size()];
		median = median_of(drawn);
	}
	return all;
}

/* Return the middle 95 % of the quotients, unless a divisor is not above 0. */
static std::optional<std::pair<double, double>> interval_of(samples v, const samples &divisors)
{
	constexpr size_t tail = resamples / 40;

	for (size_t i = 0; i < resamples; i++) {
		if (divisors[i] <= 0)
			return {};
		v[i] /= divisors[i];
	}
	std::sort(v.begin(), v.end());
	return { { v[tail], v[resamples - 1 - tail] } };
}

median_ratio ratio_of(const samples &a, const samples &b)
{
	std::mt19937 random;
	median_ratio r = { summarize(a).median / summarize(b).median, {} };

	if (a.size() == 1 || b.size() == 1)
		return r;

	const samples divisors = medians(b, random);

	r.interval = interval_of(medians(a, random), divisors);
	return r;
}

median_ratio ratio_to(const samples &a, double constant)
{
	std::mt19937 random;
	median_ratio r = { summarize(a).median / constant, {} };

	if (a.size() > 1)
		r.interval = interval_of(medians(a, random), samples(resamples, constant));
	return r;
}
