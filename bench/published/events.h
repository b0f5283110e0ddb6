/* SPDX-License-Identifier: MIT */
/*
 * events.h - the hardware events of the course work on counter(9), which its author read by
 * hwpmc(4): here by perf_event_open(2), by the names that libpfm4 knows.
 */
#ifndef BENCH_EVENTS_H
#define BENCH_EVENTS_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

struct event {
	const char *what;
	const char *racy, *atomic, *counter; /* the published figures */
	/* The event of the Xeon of the course work, then the like of newer CPUs. The first that
	 * this CPU has is read. */
	std::vector<const char *> names;
};

/* 3 events of the first-level cache, and 19 of the second. */
extern const std::vector<event> events;

/* What perf_event_open() takes. */
struct encoding {
	uint32_t type;
	uint64_t config;
};

/* Return the encoding of an event; nothing if this CPU has no such event, or if this was built
 * without libpfm4. */
std::optional<encoding> encode(const std::string &name);

/* Return that of the first event that this CPU has. */
std::optional<encoding> encode_first(const std::vector<const char *> &names);

/* Counters of all events, in this process and in children that it forks from now on. If there are
 * more events than the CPU has counters, the kernel counts each a part of the time, and the figures
 * are scaled to all of it. */
class event_counts
{
      public:
	event_counts();
	~event_counts();
	event_counts(const event_counts &) = delete;

	/* Return how often the nth event was seen; nothing if it is not counted. */
	std::optional<double> of(size_t n) const;

	/* Return why the nth event is not counted; "" if it is. */
	std::string why_not(size_t n) const;

      private:
	struct counter {
		int fd = -1;
		std::string why;
	};
	std::vector<counter> counters;
};

#endif
