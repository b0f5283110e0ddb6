/* SPDX-License-Identifier: MIT */
/* guest.h - a shared region, for tests of what a program around it may do. */
#ifndef TESTS_UNIT_GUEST_H
#define TESTS_UNIT_GUEST_H

#include <percpu/region.h>
#include <percpu/stats.h>

#define PER_CHUNK (PERCPU_LANE_SIZE / 8)

extern char path[128];
extern struct percpu_region *region;

/** Set up a test: make the region. */
int start(void **state);

/** Tear a test down. */
int stop(void **state);

/** Add to two fields, once in a sequence and once as a thread that can run none. */
void update_both_ways(const struct percpu_stats *s);

#endif
