/* SPDX-License-Identifier: MIT */
/*
 * freebsd.c - what freebsd.h needs of the system.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>

#include <percpu/freebsd.h>

#include "internal.h"

int64_t percpu_freebsd_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

unsigned percpu_freebsd_curcpu(void)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? 0 : (unsigned)cpu;
}
