/* SPDX-License-Identifier: MIT */
/*
 * events.h - the hardware events of the course work on counter(9), which its author read by
 * hwpmc(4): here by perf_event_open(2), by the names that libpfm4 knows.
 */
#ifndef BENCH_EVENTS_H
#define BENCH_EVENTS_H

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "../perf_counter.h"

struct event {
	const char *what;
	const char *racy, *atomic, *counter; /* the published figures */
	/* The event of the Xeon of the course work, then the like of newer CPUs. The first that
	 * this CPU has is read. */
	std::vector<const char *> names;
};

/* 3 events of the first-level cache, and 19 of the second. */
extern const std::vector<event> events;

/* Return the encoding of an event; nothing if this CPU has no such event, or if this was built
 * without libpfm4. */
std::optional<encoding> encode(const std::string &name);

/* Return that of the first event that this CPU has. */
std::optional<encoding> encode_first(const std::vector<const char *> &names);

/* Counters of all events. */
class event_counts
{
      public:
	event_counts();

	/* Return how often the nth event was seen; nothing if it is not counted. */
	std::optional<double> of(size_t n) const;

	/* Return why the nth event is not counted; "" if it is. */
	std::string why_not(size_t n) const;

      private:
	struct counter {
		std::optional<perf_counter> events;
		std::string no_event; /* why there is none */
	};
	std::vector<counter> counters;
};

#endif
