/* SPDX-License-Identifier: MIT */
/* metrics.cc - metrics.c in C++: the same metrics in the same segment. */
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>

#include <event2/event.h>
#include <percpu/percpu.hpp>

extern "C" {
#include "prefork.h"
}

namespace
{

using percpu::metric;
using std::chrono::nanoseconds;

/* The segment is the first member: it is opened before what is declared in it. */
struct metrics {
	percpu::segment file;
	metric requests_total =
		metric("prefork_requests_total")
			.help("Requests that were answered, by the class of their status.");
	percpu::counter requests[4] = { { file, requests_total.label("code", "2xx") },
					{ file, requests_total.label("code", "3xx") },
					{ file, requests_total.label("code", "4xx") },
					{ file, requests_total.label("code", "5xx") } };
	percpu::counter bytes{ file, metric("prefork_answer_bytes_total")
					     .help("Bytes of all answers, heads included.")
					     .unit("bytes") };
	percpu::latency<nanoseconds> duration{
		file,
		metric("prefork_request_seconds")
			.help("Time from the first bytes of a request until its answer was made.")
	};
	percpu::owned_gauge in_flight{
		file, metric("prefork_requests_in_flight")
			      .help("Requests whose answer the kernel has not taken whole.")
	};
	percpu::counter restarts{
		file,
		metric("prefork_worker_restarts_total").help("Workers that died and were replaced.")
	};
	percpu::counter starts{ file,
				metric("prefork_starts_total").help("Starts of the server.") };
	percpu::latest start_time{ file, metric("prefork_start_time_seconds")
						 .help("When the server was started last.")
						 .unit("seconds") };

	metrics(const char *path, unsigned flags) : file(path, flags)
	{
		file.info(metric("prefork_build_info")
				  .help("What the server was built with.")
				  .label("libevent", LIBEVENT_VERSION));
	}
};

std::optional<metrics> all;
bool off;

} // namespace

int metrics_open(const char *path, bool to_count)
{
	const unsigned flags = to_count ? PERCPU_SEGMENT_CREATE : 0;

	try {
		all.emplace(path, flags);
	} catch (const percpu::error &e) {
		std::fprintf(stderr, "prefork: %s\n", e.what());
		return -1;
	}
	return 0;
}

void metrics_close(void)
{
	all.reset();
}

void metrics_off(void)
{
	off = true;
}

uint64_t metrics_clock(void)
{
	const auto now = std::chrono::steady_clock::now().time_since_epoch();

	return off ? 0 : static_cast<uint64_t>(nanoseconds(now).count());
}

void metrics_started(void)
{
	all->starts.inc();
	(void)all->start_time.set(static_cast<double>(std::time(nullptr)));
}

void metrics_restarted(void)
{
	all->restarts.inc();
}

/* The first update of a process takes its slot among the owners, and may fail; later ones do
 * not. */
int metrics_joined(void)
{
	return all->in_flight.add(0);
}

void metrics_request(void)
{
	if (!off)
		(void)all->in_flight.inc();
}

/* Called before the system call that sends the answer: see README.md. */
void metrics_answer(unsigned status, uint64_t ns, size_t size)
{
	if (off)
		return;
	all->duration.record(nanoseconds(ns));
	all->bytes.add(static_cast<int64_t>(size));
	all->requests[status / 100 - 2].inc();
}

void metrics_request_over(void)
{
	if (!off)
		(void)all->in_flight.dec();
}

int metrics_read(struct metrics_values *ret)
{
	metrics_values v = {};

	try {
		const auto durations = all->duration.fetch();

		v.observations = durations->count;
		v.seconds = durations->sum;
		v.in_flight = all->in_flight.fetch().value_or(0);
	} catch (const percpu::error &e) {
		return -e.code().value();
	}
	for (int i = 0; i < 4; i++) {
		v.requests[i] = all->requests[i].fetch();
		v.all_requests += v.requests[i];
	}
	v.bytes = all->bytes.fetch();
	v.starts = all->starts.fetch();
	v.restarts = all->restarts.fetch();
	*ret = v;
	return 0;
}

int64_t metrics_in_flight_of(uint32_t pid)
{
	percpu_owned_value values[256];
	size_t n = 0;

	if (percpu_owned_gauge_each(all->in_flight.get(), PERCPU_OWNED_LIVING, values, 256, &n) !=
	    0)
		return 0;
	for (size_t i = 0; i < n && i < 256; i++)
		if (values[i].pid == pid)
			return values[i].value;
	return 0;
}
