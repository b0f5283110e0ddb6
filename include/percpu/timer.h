/* SPDX-License-Identifier: MIT */
/*
 * timer.h - how long something takes, recorded in a histogram.
 *
 *	struct percpu_timer t = percpu_timer_start();
 *
 *	serve(request);
 *	percpu_timer_record(t, latencies);
 *
 * Where the kernel uses the CPU's counter as its clock, the timer reads that counter, without the
 * kernel's conversion: at half of the cost of clock_gettime(2). Elsewhere, and until the
 * counter's rate is known, it reads CLOCK_MONOTONIC. The rate is known 10 ms after the first
 * percpu_timer_start() of the process, from the next one on.
 *
 * How exact it is: docs/counts/timer.md. In short, a time by the counter is off by less than
 * 0.01 %, and by what the CPU had not completed yet when it read the counter: some tens of ns.
 *
 * All calls of this header have this in common.
 *
 * Context: any thread; signal handlers; children of fork, which may also end what the parent
 * started. Not children of vfork. Leaves errno alone. A timer is a value: it may be copied, passed
 * to another thread, ended on another CPU, more than once, or never.
 * Ordering: none. The CPU may read the counter before it has completed what precedes the call.
 * Progress: no lock and no system call, but when the library looks which clock there is, and when
 * it finds the rate: then percpu_timer_start() takes the lock of the process.
 * Source: the idea is that of the timers of Prometheus's client libraries.
 */
#ifndef PERCPU_TIMER_H
#define PERCPU_TIMER_H

#include <percpu/histogram.h>

PERCPU_BEGIN_DECLS

/** When something began. The field is the library's. */
struct percpu_timer {
	uint64_t start; /* the lowest bit says by which clock */
};

/** Return a timer that begins now. Never fails. */
PERCPU_API PERCPU_NOTHROW struct percpu_timer percpu_timer_start(void);

/**
 * Return the seconds since t was started; 0 if its clock reads less than then. Never negative,
 * infinite or NaN.
 */
PERCPU_API PERCPU_NOTHROW double percpu_timer_elapsed(struct percpu_timer t);

/**
 * Record the seconds since t was started, in histogram 0 of h, whose exported unit should be the
 * second. A histogram of ticks records the nearest number of ticks. Never fails; does nothing in a
 * region that was opened to read. For histogram i of several, and for other units, pass
 * percpu_timer_elapsed() to percpu_histogram_record_at().
 */
PERCPU_API PERCPU_NOTHROW void percpu_timer_record(struct percpu_timer t,
						   const struct percpu_histogram *h);

PERCPU_END_DECLS

#endif
