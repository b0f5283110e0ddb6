/* SPDX-License-Identifier: MIT */
/*
 * requests.h - requests by status, latency, in flight: what a server counts, written twice. The
 * benchmark measures both files, and counts their lines.
 */
#ifndef BENCH_CPP_REQUESTS_H
#define BENCH_CPP_REQUESTS_H

#include <string_view>

/* With this library, in a segment at that path. */
void open_percpu(const char *path);
void begin_percpu();
void end_percpu(std::string_view status, double seconds);

/* With prometheus-cpp, in memory of the process. */
void open_prometheus();
void begin_prometheus();
void end_prometheus(std::string_view status, double seconds);

#endif
