/* SPDX-License-Identifier: MIT */
/* topology.h - which CPUs are one core, and which of them threads take first. */
#ifndef BENCH_TOPOLOGY_H
#define BENCH_TOPOLOGY_H

#include <string>
#include <vector>

/* The CPUs of a core, its hardware threads. */
using core = std::vector<int>;

/* Return these CPUs by cores. SYSFS is /sys/devices/system/cpu: a CPU that it says nothing of is a
 * core. */
std::vector<core> cores_of(const std::vector<int> &cpus, const std::string &sysfs);

/* Return the CPUs in the order in which threads take them: one of each core, from the core FIRST
 * on, and then the siblings of these. */
std::vector<int> placement(const std::vector<core> &cores, size_t first);

#endif
