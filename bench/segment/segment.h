/* SPDX-License-Identifier: MIT */
/* segment.h - the parts of the benchmark of segments. */
#ifndef BENCH_SEGMENT_H
#define BENCH_SEGMENT_H

#include <string>

#include <percpu/percpu.h>

#include "report.h"

/* A segment in a file in memory, which *ret_fd is, if it is not NULL. */
percpu_segment *make_segment(uint32_t cpus, int *ret_fd);

inline percpu_metric metric(const std::string &name)
{
	percpu_metric m = {};

	m.size = sizeof(m);
	m.name = name.c_str();
	return m;
}

/* segment_read.cc; to be called before anything else needs memory: it forks. */
void register_passes(report &all);
void print_passes(report &all);

#endif
