/* SPDX-License-Identifier: MIT */
/*
 * zone.h - shared by the parts of the zone benchmark.
 *
 * zone.cc runs all parts and prints the results. zone_alloc.cc allocates and frees, in zones and
 * with other allocators; zone_memory.cc measures the memory of a zone; zone_stride.cc compares
 * distances between lanes.
 */
#ifndef BENCH_ZONE_H
#define BENCH_ZONE_H

#include <percpu/zone.h>

#include "report.h"

/* Every allocator allocates so many items in a row, then frees them all: one at a time, half of
 * a zone's cache of 64, and more than all of it. */
constexpr unsigned batches[] = { 1, 32, 200 };
constexpr unsigned sizes[] = { 8, 64, 256 };

/* Return the name of a row: "zone, 64 bytes, 32 at a time". */
std::string row_name(const std::string &what, unsigned size, unsigned batch);

/* Names that are used in several files. */
#define ZONE "zone"
#define ZONE_IN_USE "zone, 100 000 in use"
#define ZONE_ZERO "zone, PERCPU_ZONE_ZERO"
#define ZONE_LIMIT "zone, limit not reached"
#define ZONE_SHARED "zone, shared region"
#define GLIBC "malloc"
#define GLIBC_IN_USE "malloc, 100 000 in use"
#define LIBRSEQ "librseq mempool"

constexpr size_t many = 100000;

void register_allocs();
void register_strides();

/* Print the memory of a zone. */
void print_memory(report &all);

void print_strides(report &all);

#endif
