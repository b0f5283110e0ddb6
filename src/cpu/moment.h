/* SPDX-License-Identifier: MIT */
/*
 * moment.h - moments by two clocks. Part of cpu.h, which includes it.
 */
#ifndef PERCPU_MOMENT_H
#define PERCPU_MOMENT_H

#include <stdint.h>

/** One moment, read from two clocks. */
struct percpu_moment {
	uint64_t ticks; /* the CPU's counter; without one, the same as ns */
	uint64_t ns;	/* CLOCK_MONOTONIC */
	uint64_t width; /* how far the counter went while the clock was read */
};

/** Return the CPU's counter. It is read after all loads and stores that precede the call are done,
 *  and before those that follow it. */
uint64_t percpu_ticks(void);

/** Return the present moment. */
struct percpu_moment percpu_moment_now(void);

#endif
