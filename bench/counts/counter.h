/* SPDX-License-Identifier: MIT */
/* counter.h - the parts of the benchmark of counters. */
#ifndef BENCH_COUNTER_H
#define BENCH_COUNTER_H

#define LATE "percpu_counter_add, loaded late"

/* counter_late.cc, counter_read.cc */
void register_late();
void register_reads();

#endif
