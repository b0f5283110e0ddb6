/* SPDX-License-Identifier: MIT */
/* perf_counter.h - a counter of a hardware event, by perf_event_open(2). */
#ifndef BENCH_PERF_COUNTER_H
#define BENCH_PERF_COUNTER_H

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

/* What perf_event_open() takes. */
struct encoding {
	uint32_t type;
	uint64_t config;
};

/* Counts in the thread that makes it, in user mode, and in threads and children that start from now
 * on. If there are more events than the CPU has counters, the kernel counts each a part of the time,
 * and the figures are scaled to all of it. */
class perf_counter
{
      public:
	explicit perf_counter(const encoding &e)
	{
		perf_event_attr attr = {};

		attr.size = sizeof(attr);
		attr.type = e.type;
		attr.config = e.config;
		attr.inherit = 1;
		attr.exclude_kernel = 1;
		attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
		fd = int(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
		if (fd < 0)
			why = std::string("perf_event_open(): ") + strerror(errno);
	}
	~perf_counter()
	{
		if (fd >= 0)
			close(fd);
	}
	perf_counter(perf_counter &&other) noexcept
		: fd(std::exchange(other.fd, -1)), why(std::move(other.why))
	{
	}

	/* Return how often the event was seen; nothing if it is not counted. */
	std::optional<double> count() const
	{
		struct {
			uint64_t count, enabled, running;
		} v;

		if (fd < 0 || read(fd, &v, sizeof(v)) != sizeof(v) || v.running == 0)
			return {};
		return double(v.count) * double(v.enabled) / double(v.running);
	}

	/* Return why the event is not counted; "" if it is. */
	const std::string &why_not() const
	{
		return why;
	}

      private:
	int fd;
	std::string why;
};

#endif
