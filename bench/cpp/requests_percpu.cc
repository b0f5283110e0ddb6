/* SPDX-License-Identifier: MIT */
/* requests_percpu.cc - requests by status, latency, in flight: with this library. */
#include <optional>

#include <percpu/percpu.hpp>

#include "requests.h"

namespace
{
struct metrics {
	percpu::segment file;
	percpu::family<percpu::counter, 1> requests{ file, "requests_total", { "status" }, 10 };
	percpu::latency<> seconds{ file, "request_seconds" };
	percpu::owned_gauge in_flight{ file, "requests_in_flight" };
};
std::optional<metrics> m;
} // namespace

void open_percpu(const char *path)
{
	m.emplace(metrics{ percpu::segment(path) });
}

void begin_percpu()
{
	(void)m->in_flight.inc();
}

void end_percpu(std::string_view status, double seconds)
{
	m->seconds.record(std::chrono::duration<double>(seconds));
	(void)m->requests.add(1, status);
	(void)m->in_flight.dec();
}
