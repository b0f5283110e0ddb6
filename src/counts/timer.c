/* SPDX-License-Identifier: MIT */
/*
 * timer.c - timers: by the CPU's counter, or by CLOCK_MONOTONIC.
 *
 * The counter's rate is measured, because the kernel keeps what it knows of it to itself: it comes
 * from two moments by both clocks. Each moment is certain within the counter's way while the clock
 * was read. The rate is used once these two ways are together below 1/10000 of the way between the
 * moments. It is then off by half of that at most.
 */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include <percpu/timer.h>

#include "counts.h"

#define APART_NS 10000000
#define CERTAINTY 10000
#define SLEPT_NS 1000000

#if defined(__x86_64__) || defined(__i386__)
#define COUNTER_NAME "tsc\n"
#else
#define COUNTER_NAME "arch_sys_counter\n"
#endif

/* Which clock timers read. */
enum { CLOCK_UNKNOWN, CLOCK_KERNEL, CLOCK_MEASURED, CLOCK_COUNTER };

static uint32_t timer_clock;		  /* one of these; atomic */
static uint64_t timer_due;		  /* when to try to find the rate, in ns; atomic */
static uint64_t timer_rate;		  /* seconds of half a tick, the bits of a double; atomic */
static struct percpu_moment timer_moment; /* the earlier moment; the process lock protects it */
static uint64_t timer_slept;		  /* its ns of sleep; the process lock protects it */

/* Return the counter. Unlike percpu_ticks() this waits for nothing. */
static inline uint64_t read_counter(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return percpu_now_ns();
#endif
}

/* Return whether the kernel uses the counter as its clock, and lets this thread read it. */
static bool may_use_counter(void)
{
	char name[32];
#if defined(__x86_64__) || defined(__i386__)
	int tsc = 0;

	if (prctl(PR_GET_TSC, &tsc, 0, 0, 0) != 0 || tsc != PR_TSC_ENABLE)
		return false;
#elif !defined(__aarch64__)
	return false;
#endif
	return percpu_read_genuine(
		       "/sys/devices/system/clocksource/clocksource0/current_clocksource", name,
		       sizeof(name)) &&
	       strcmp(name, COUNTER_NAME) == 0;
}

/* Return for how long the machine has been suspended since it was started. */
static uint64_t slept_ns(void)
{
	const uint64_t awake = percpu_now_ns();

	return percpu_clock_ns(CLOCK_BOOTTIME) - awake;
}

static void note_moment(struct percpu_moment now, uint64_t slept)
{
	timer_moment = now;
	timer_slept = slept;
	__atomic_store_n(&timer_due, now.ns + APART_NS, __ATOMIC_RELAXED);
	__atomic_store_n(&timer_clock, CLOCK_MEASURED, __ATOMIC_RELEASE);
}

/* Find the rate from the noted moment and the present one, if both are exact enough. A counter may
 * count or stop while the machine is suspended, or begin anew. */
static void find_rate(struct percpu_moment now, uint64_t slept)
{
	const struct percpu_moment then = timer_moment;
	const uint64_t ticks = now.ticks - then.ticks;
	double rate;

	if (now.ticks <= then.ticks || slept > timer_slept + SLEPT_NS) {
		note_moment(now, slept);
	} else if (then.width + now.width > ticks / CERTAINTY) {
		__atomic_store_n(&timer_due, now.ns + APART_NS, __ATOMIC_RELAXED);
	} else {
		rate = (double)(now.ns - then.ns) / ((double)ticks * 2e9);
		__atomic_store_n(&timer_rate, percpu_histogram_bits(rate) + 1, __ATOMIC_RELAXED);
		__atomic_store_n(&timer_clock, CLOCK_COUNTER, __ATOMIC_RELEASE);
	}
}

/* Return whether it is time to find the rate. */
static bool is_due(uint32_t clock)
{
	return clock == CLOCK_MEASURED &&
	       percpu_now_ns() >= __atomic_load_n(&timer_due, __ATOMIC_RELAXED);
}

/* Take the next step, unless another thread just has: look which clock there is, or find the
 * rate. */
static void find_clock(void)
{
	const int saved = errno;
	uint32_t clock;

	percpu_process_lock();
	clock = __atomic_load_n(&timer_clock, __ATOMIC_RELAXED);
	if (clock == CLOCK_UNKNOWN && !may_use_counter())
		__atomic_store_n(&timer_clock, CLOCK_KERNEL, __ATOMIC_RELAXED);
	else if (clock == CLOCK_UNKNOWN)
		note_moment(percpu_moment_now(), slept_ns());
	else if (is_due(clock))
		find_rate(percpu_moment_now(), slept_ns());
	percpu_process_unlock();
	errno = saved;
}

struct percpu_timer percpu_timer_start(void)
{
	uint32_t clock = __atomic_load_n(&timer_clock, __ATOMIC_ACQUIRE);

	if (percpu_likely(clock == CLOCK_COUNTER))
		return (struct percpu_timer){ read_counter() << 1 | 1 };
	if (clock == CLOCK_UNKNOWN || is_due(clock))
		find_clock();
	return (struct percpu_timer){ percpu_now_ns() << 1 };
}

/* Return what the timer's clock has gone on since then, in half ticks or half nanoseconds. */
static inline uint64_t gone_since(struct percpu_timer t)
{
	const uint64_t now = t.start & 1 ? read_counter() : percpu_now_ns();
	const int64_t gone = (int64_t)((now << 1) - (t.start & ~UINT64_C(1)));

	return gone > 0 ? (uint64_t)gone : 0;
}

/* Return the seconds of half a tick or half a nanosecond. */
static inline double rate_of(struct percpu_timer t)
{
	const uint64_t rate = __atomic_load_n(&timer_rate, __ATOMIC_RELAXED);

	return t.start & 1 ? percpu_histogram_number(rate) : 0.5e-9;
}

/* Return n * factor, rounded to the nearest integer; 2^63 or more if it is that much. The record
 * that follows waits for this, so it takes as few instructions as possible. */
static inline uint64_t scale(uint64_t n, double factor)
{
	double product;

#ifdef __SIZEOF_INT128__
	if (percpu_likely(factor < 1)) {
		__extension__ const unsigned __int128 all =
			(unsigned __int128)n * (uint64_t)(factor * 0x1p64);

		return (uint64_t)(all >> 64) + ((uint64_t)all >> 63);
	}
#endif
	product = (double)n * factor + 0.5;
	return product < 0x1p63 ? (uint64_t)(int64_t)product : UINT64_MAX;
}

double percpu_timer_elapsed(struct percpu_timer t)
{
	return (double)(int64_t)gone_since(t) * rate_of(t);
}

void percpu_timer_record(struct percpu_timer t, const struct percpu_histogram *h)
{
	const double rate = rate_of(t), per_unit = (double)h->ticks;

	if (h->ticks != 0)
		percpu_histogram_record_ticks(h, scale(gone_since(t), rate * per_unit));
	else
		percpu_histogram_record(h, (double)(int64_t)gone_since(t) * rate);
}
