/* SPDX-License-Identifier: MIT */
/* segments.h - what tests of segments share. */
#ifndef TESTS_UNIT_SEGMENTS_H
#define TESTS_UNIT_SEGMENTS_H

#include <percpu/segment.h>

#define ALL PERCPU_SEGMENT_CREATE

/** Whether gauges can be in a segment: they are for processes of 64 bits. */
#define WIDE percpu_pair_is_atomic()

/** A metric that has only a name. */
#define METRIC(n)                                                                                  \
	(&(const struct percpu_metric){ .size = sizeof(struct percpu_metric), .name = (n) })

#endif
