/* SPDX-License-Identifier: MIT */
/*
 * moment.c - moments by two clocks: the CPU's counter, whose rate is not known, and
 * CLOCK_MONOTONIC.
 */
#include "cpu.h"

#define READINGS 4

uint64_t percpu_ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
	uint32_t low, high;

	__asm__ __volatile__("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t ticks;

	/* dsb: the stores that precede it are done. */
	__asm__ __volatile__("dsb ish\n\tisb\n\tmrs %0, cntvct_el0\n\tisb"
			     : "=r"(ticks)
			     : /* none */
			     : "memory");
	return ticks;
#else
	__sync_synchronize();
	return percpu_now_ns();
#endif
}

/* Read the clock between two readings of the counter, several times, and return the moment whose
 * two readings are closest. */
struct percpu_moment percpu_moment_now(void)
{
	struct percpu_moment m = { 0, 0, 0 };
	uint64_t before, ns, took, least = UINT64_MAX;

	for (int i = 0; i < READINGS; i++) {
		before = percpu_ticks();
		ns = percpu_now_ns();
		took = percpu_ticks() - before;
		if (took < least) {
			least = took;
			m = (struct percpu_moment){ before + took / 2, ns, took };
		}
	}
	return m;
}
