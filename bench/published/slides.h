/* SPDX-License-Identifier: MIT */
/* slides.h - shared by the parts of the benchmark of the 2016 slides. */
#ifndef BENCH_SLIDES_H
#define BENCH_SLIDES_H

#include "../report.h"

/* Rows that the slides have, too. */
#define PLAIN "global volatile inc"
#define SEQ_CMPXCHG "per-CPU rseq lock, cmpxchg"
#define SEQ_SPINLOCK "per-CPU rseq spinlock"
#define CPU_CMPXCHG "per-CPU atomic cmpxchg"
#define GLOBAL_ATOMIC "global atomic inc"
#define GLOBAL_CMPXCHG "global atomic cmpxchg"
#define GLOBAL_MUTEX "global pthread mutex"

#define CPU_EMPTY "CPU number: empty loop"
#define CPU_AREA "CPU number: rseq area"
#define CPU_LAZY "CPU number: rseq area, thread registered when first asked"
#define CPU_GS "CPU number: rseq area, by gs"
#define CPU_RDPID "CPU number: rdpid"
#define CPU_LSL "CPU number: lsl"
#define CPU_GETCPU "CPU number: vDSO getcpu"
#define CPU_CALL "CPU number: system call"

/* Register the ways to read the CPU number; skip those that this machine does not have. */
void register_cpu_number(report &all);

/* Print the tables of the slides, and note which of their machines are not measured here. */
void print_increments(report &all);
void print_cpu_number(const results &r);

#endif
