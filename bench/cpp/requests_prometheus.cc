/* SPDX-License-Identifier: MIT */
/* requests_prometheus.cc - requests by status, latency, in flight: with prometheus-cpp. */
#include <optional>
#include <string>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "requests.h"

namespace
{
using bounds = prometheus::Histogram::BucketBoundaries;

struct metrics {
	prometheus::Registry registry;
	prometheus::Family<prometheus::Counter> &requests =
		prometheus::BuildCounter().Name("requests_total").Register(registry);
	prometheus::Histogram &seconds =
		prometheus::BuildHistogram()
			.Name("request_seconds")
			.Register(registry)
			.Add({}, bounds{ .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10 });
	prometheus::Gauge &in_flight =
		prometheus::BuildGauge().Name("requests_in_flight").Register(registry).Add({});
};
std::optional<metrics> m;
} // namespace

void open_prometheus()
{
	m.emplace();
}

void begin_prometheus()
{
	m->in_flight.Increment();
}

void end_prometheus(std::string_view status, double seconds)
{
	m->seconds.Observe(seconds);
	m->requests.Add({ { "status", std::string(status) } }).Increment();
	m->in_flight.Decrement();
}
