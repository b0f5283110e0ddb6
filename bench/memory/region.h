/* SPDX-License-Identifier: MIT */
/* region.h - the parts of the benchmark of regions. */
#ifndef BENCH_MEMORY_REGION_H
#define BENCH_MEMORY_REGION_H

#include "report.h"

/* Print what objects leave of the memory that they took (region_memory.cc). */
void print_memory(report &all);

#endif
