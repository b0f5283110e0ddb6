/* SPDX-License-Identifier: MIT */
/*
 * counters.h - what the parts of the counter benchmark share.
 *
 * counters.cc runs everything. counters_add.h adds 1 in every way there is,
 * counters_add.cc measures it, and counters_late.cc in what is loaded late;
 * counters_costs.cc measures reads, fences and the CPU number;
 * counters_processes.cc lets processes count between system calls.
 * counters_tables.cc prints the figures beside what others have published, and
 * judges the aims.
 */
#ifndef BENCH_COUNTERS_H
#define BENCH_COUNTERS_H

#include "report.h"

void register_adds(bool all);
void register_costs();
void register_processes();
void register_late();

/* What counts hardware events over a run of processes, in words. */
std::string hardware_events();

void print_tables(report &all);

/* Names that several places use. */
#define ADD "percpu_counter_add"
#define LATE "percpu_counter_add, loaded late"
#define STATS_ADD "percpu_stats_add"
#define STATS_UPDATE "percpu_stats_update, 4 fields"
#define COMPACT "percpu_compact_add"
#define WBUF "percpu_wbuf_add"
#define IN_COPIES ", two copies"
#define UNPROTECTED "unprotected per-CPU add"
#define LIBRSEQ "librseq rseq_load_add_store__ptr"
#define LOCKED "per-CPU atomic inc"
#define IN_TURN ", 8 in turn"
#define AMID_WORK ", amid work"

#endif
