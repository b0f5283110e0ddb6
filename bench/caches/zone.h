/* SPDX-License-Identifier: MIT */
/*
 * zone.h - what the parts of the zone benchmark share.
 *
 * zone.cc runs everything and prints it. zone_alloc.cc allocates and frees, in
 * zones and elsewhere; zone_memory.cc looks at the memory of a zone;
 * zone_stride.cc compares distances between lanes.
 */
#ifndef BENCH_ZONE_H
#define BENCH_ZONE_H

#include <percpu/zone.h>

#include "report.h"

/* Every allocator allocates so many items in a row, then frees them all: one
 * at a time, as many as half of a zone's cache of 64, and more than all of it. */
constexpr unsigned batches[] = { 1, 32, 200 };
constexpr unsigned sizes[] = { 8, 64, 256 };

/* What a row is called: "zone, 64 bytes, 32 at a time". */
std::string row_name(const std::string &what, unsigned size, unsigned batch);

/* Names that several places use. */
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

/* Prints what the memory of a zone does. */
void print_memory(report &all);

void print_strides(report &all);

#endif
