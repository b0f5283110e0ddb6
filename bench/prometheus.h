/* SPDX-License-Identifier: MIT */
/*
 * prometheus.h - updates of prometheus-cpp's metrics, as contenders of add.h, if it is
 * installed; and the latencies that histograms record.
 */
#ifndef BENCH_PROMETHEUS_H
#define BENCH_PROMETHEUS_H

#include "add.h"

/* Values of several octaves, loaded so that the compiler does not know their buckets. */
inline volatile const double in_seconds[cells] = { 1.1e-6, 3.7e-6, 2.2e-5, 9.9e-5,
						   4.1e-4, 1.3e-3, 2.9e-2, 0.17 };

#ifdef HAVE_PROMETHEUS
#include <memory>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

/* 8 counters or gauges. */
template <class Number> struct prometheus_add {
	static inline std::unique_ptr<Number> number[cells];

	static void reset()
	{
		for (auto &n : number)
			n = std::make_unique<Number>();
	}
	static double total()
	{
		double sum = 0;

		for (auto &n : number)
			sum += n->Value();
		return sum;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		number[i]->Increment(1.0);
	}
};

struct prometheus_record {
	static inline std::unique_ptr<prometheus::Histogram> histogram;

	static void reset()
	{
		histogram = std::make_unique<prometheus::Histogram>(
			prometheus::Histogram::BucketBoundaries{ 1e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3,
								 5e-3, .01, .025, .05, .1, .25, .5,
								 1, 10 });
	}
	static uint64_t total()
	{
		return histogram->Collect().histogram.sample_count;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		histogram->Observe(in_seconds[i]);
	}
};
#endif

#endif
