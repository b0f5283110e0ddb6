/* SPDX-License-Identifier: MIT */
/*
 * lwbuf.h - shared by the parts of the lwbuf benchmark.
 *
 * lwbuf.cc runs all parts and prints the results. lwbuf_ways.cc accesses pages of a file, by
 * this library and in other ways. lwbuf_xio.cc copies ranges of bytes. lwbuf_load.cc says what a
 * load takes of address space, and how many cache misses there are.
 */
#ifndef BENCH_LWBUF_H
#define BENCH_LWBUF_H

#include "report.h"

/* How many of 100 accesses are to one of a few hot pages. The others are to pages that are used
 * again only after all of the other ones. */
constexpr unsigned rates[] = { 0, 50, 90, 99, 100 };
constexpr unsigned hot = 256;

/* Numbers of pages that are accessed at random. */
constexpr unsigned sets[] = { 64, 512, 1024, 2048, 8192 };

/* Buffers that a thread has at a time, of 1024 pages. */
constexpr unsigned held[] = { 16, 300, 1000 };
constexpr unsigned held_of = 1024;

/* Windows that may stay mapped. */
constexpr unsigned excess = 1024;

/* Buffers of one page that a thread has at a time. */
constexpr unsigned sharers[] = { 1, 2, 4, 8 };

/* Bytes that are copied at a time. */
constexpr unsigned copied[] = { 64, 4096, 65536 };

#define HITS "%s, %u %% of accesses hot"
#define SETS "%s, one of %u pages"
#define HELD "%s, %u held"

#define SAME "%s, %u of a page"
#define COPY_OUT "%s, %u bytes out"
#define COPY_IN "%s, %u bytes in"

#define XIO_WINDOW "xio, window"
#define XIO_DIRECT "xio, direct"
#define XIO_BOUNCE "xio, never mapped"
#define SYSTEM_CALLS "pread, pwrite"
#define OWN_MAPPING "memcpy, all mapped"

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

/* lwbuf_xio.cc */
void register_copies();

/* lwbuf_load.cc: print tables that are not of times. */
void print_load();
void print_misses(report &all);

#endif
