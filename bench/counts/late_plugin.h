/* SPDX-License-Identifier: MIT */
/* late_plugin.h - functions of late_plugin.cc, for counter_late.cc. */
#ifndef BENCH_LATE_PLUGIN_H
#define BENCH_LATE_PLUGIN_H

#include <cstdint>

constexpr unsigned late_batch = 1024; /* adds */

struct late_plugin {
	bool (*create)();
	void (*one)();	   /* a batch of adds to one counter */
	void (*in_turn)(); /* a batch of adds to 8 counters in turn */
	void (*reset)();
	uint64_t (*total)();
};

#endif
