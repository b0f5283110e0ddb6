/* SPDX-License-Identifier: MIT */
/*
 * freebsd.c - counters, rates and CPUs under FreeBSD's names. Functions that allocate are
 * not inline, because in the headers malloc and free may be macros of the program.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include <percpu/freebsd.h>

#include "../objects/objects.h"

static int64_t now_ms(void)
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

int percpu_freebsd_ncpus(void)
{
	return (int)percpu_status()->possible_cpus;
}

counter_u64_t percpu_freebsd_counter_alloc(int wait)
{
	struct percpu_counter *c = NULL;

	while (percpu_counter_create(&c) == -ENOMEM && wait)
		sched_yield();
	return (counter_u64_t)(void *)c;
}

static int64_t period_of(const struct counter_rate *cr)
{
	return cr->cr_period > 0 ? cr->cr_period : 1000;
}

struct counter_rate *percpu_freebsd_rate_alloc(int wait, int period)
{
	struct counter_rate *cr;

	while ((cr = malloc(sizeof(*cr))) == NULL && wait)
		sched_yield();
	if (cr == NULL)
		return NULL;
	*cr = (struct counter_rate){ .cr_rate = percpu_freebsd_counter_alloc(wait),
				     .cr_ticks = now_ms(),
				     .cr_period = (int64_t)period * 1000 };
	if (cr->cr_rate == NULL) {
		free(cr);
		return NULL;
	}
	return cr;
}

void percpu_freebsd_rate_free(struct counter_rate *cr)
{
	counter_u64_free(cr->cr_rate);
	free(cr);
}

uint64_t percpu_freebsd_rate_get(struct counter_rate *cr)
{
	int64_t start = __atomic_load_n(&cr->cr_ticks, __ATOMIC_ACQUIRE);

	return now_ms() - start < period_of(cr) ? counter_u64_fetch(cr->cr_rate) : 0;
}

/* A start from another clock, such as a program's own "ticks", can lie in the future. Such
 * a period is over, too. */
int64_t percpu_freebsd_ratecheck(struct counter_rate *cr, int64_t limit)
{
	int64_t start = __atomic_load_n(&cr->cr_ticks, __ATOMIC_ACQUIRE);
	int64_t now = now_ms(), before = 0;

	PERCPU_STEP("rate: period read");
	if ((now - start >= period_of(cr) || now < start) &&
	    __atomic_compare_exchange_n(&cr->cr_ticks, &start, now, 0, __ATOMIC_ACQ_REL,
					__ATOMIC_RELAXED)) {
		before = (int64_t)percpu_freebsd_fetch_zero(cr->cr_rate);
		__atomic_store_n(&cr->cr_over, 0, __ATOMIC_RELEASE);
		if (before <= limit)
			before = 0;
	}
	counter_u64_add(cr->cr_rate, 1);
	if (__atomic_load_n(&cr->cr_over, __ATOMIC_RELAXED))
		return -1;
	if ((int64_t)counter_u64_fetch(cr->cr_rate) <= limit)
		return before;
	__atomic_store_n(&cr->cr_over, 1, __ATOMIC_RELAXED);
	return -1;
}
