/* SPDX-License-Identifier: MIT */
/*
 * lwbuf.h - what the parts of the lwbuf benchmark share.
 *
 * lwbuf.cc runs everything and prints it. lwbuf_ways.cc gets at pages of a file, by this
 * library and otherwise.
 */
#ifndef BENCH_LWBUF_H
#define BENCH_LWBUF_H

#include "report.h"

/* How many of 100 accesses are to a hot page, of which there are few; the others are to
 * pages that come again when all of the others have. */
constexpr unsigned rates[] = { 0, 50, 90, 99, 100 };
constexpr unsigned hot = 256;

/* Working sets whose pages are asked for at random. */
constexpr unsigned sets[] = { 64, 512, 1024, 2048, 8192 };

/* Windows that may stay mapped. */
constexpr unsigned excess = 1024;

#define HITS "%s, %u %% of accesses hot"
#define SETS "%s, one of %u pages"

#define WINDOW "window"
#define WINDOW_UNKEPT "window, unmapped by the free"
#define BOUNCE "bounce buffer"
#define AUTO "automatic, too large to map"
#define DIRECT "direct"
#define SHARED "shared buffer"
#define MMAP "mmap, munmap"
#define PREAD "pread"
#define LOCKED "one lock around a table of windows"

void register_ways();

#endif
