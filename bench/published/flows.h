/* SPDX-License-Identifier: MIT */
/* flows.h - which flow a packet belongs to, and so which worker's cache has its counters. */
#ifndef BENCH_FLOWS_H
#define BENCH_FLOWS_H

#include <stddef.h>
#include <stdint.h>

enum spread {
	AT_HOME,  /* each flow belongs to a worker, but for one packet in 1000 */
	ANYWHERE, /* each worker processes packets of all flows: no affinity */
	ONE_FLOW, /* all packets of all workers are of the same flow */
};

/* Return the flow of a worker's nth packet. The upper half of random says which of the flows that
 * it may be; WORKERS is at most FLOWS. */
inline size_t flow_of(spread how, unsigned worker, unsigned workers, size_t flows, uint64_t nth,
		      uint64_t random)
{
	const uint64_t part = random >> 32;
	unsigned home = nth % 1000 != 999 ? worker : (worker + 1) % workers;

	switch (how) {
	case ANYWHERE:
		return size_t(part * flows >> 32);
	case ONE_FLOW:
		return 0;
	default:
		return size_t(part * (flows / workers) >> 32) * workers + home;
	}
}

#endif
