/* SPDX-License-Identifier: MIT */
/* segment.h - the parts of the benchmark of segments. */
#ifndef BENCH_SEGMENT_H
#define BENCH_SEGMENT_H

#include <string>

#include <percpu/percpu.h>

#include "report.h"

/* Make a segment in a file in memory. If ret_fd is not NULL, *ret_fd is its descriptor. */
percpu_segment *make_segment(uint32_t cpus, int *ret_fd);

inline percpu_metric metric(const std::string &name)
{
	percpu_metric m = {};

	m.size = sizeof(m);
	m.name = name.c_str();
	return m;
}

/* In segment_read.cc; called before anything else needs memory, as it forks. */
void register_passes(report &all);
void print_passes(report &all);

#endif
