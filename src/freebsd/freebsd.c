/* SPDX-License-Identifier: MIT */
/*
 * freebsd.c - counters, rates and CPUs under FreeBSD's names. Functions that allocate are not
 * inline, because in a program's source malloc and free may be macros.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include <percpu/freebsd.h>

#include "../counts/counts.h"

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

static uint32_t period_of(const struct counter_rate *cr)
{
	if (cr->cr_period <= 0)
		return 1000;
	return cr->cr_period < PERCPU_RATE_MAX ? (uint32_t)cr->cr_period : PERCPU_RATE_MAX;
}

struct counter_rate *percpu_freebsd_rate_alloc(int wait, int period)
{
	struct counter_rate *cr;

	while ((cr = malloc(sizeof(*cr))) == NULL && wait)
		sched_yield();
	if (cr == NULL)
		return NULL;
	*cr = (struct counter_rate){ .cr_rate = percpu_freebsd_counter_alloc(wait),
				     .cr_period = (int64_t)period * 1000 };
	cr->cr_ticks = (int64_t)percpu_rate_new_window(period_of(cr));
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
	uint64_t window = (uint64_t)__atomic_load_n(&cr->cr_ticks, __ATOMIC_ACQUIRE);

	return percpu_rate_is_over(window, period_of(cr)) ? 0 : counter_u64_fetch(cr->cr_rate);
}

/* No CPU takes permissions in advance: the limit comes with each event, and the counter is the
 * program's. */
int64_t percpu_freebsd_ratecheck(struct counter_rate *cr, int64_t limit)
{
	const uint32_t most = limit < 0 ? 0 : limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX;
	struct percpu_rate_taken t;
	int64_t before = 0;
	bool allowed;

	allowed = percpu_rate_take((uint64_t *)&cr->cr_ticks, most, period_of(cr), 0, &t) != 0;
	if (t.began) {
		before = (int64_t)percpu_freebsd_fetch_zero(cr->cr_rate);
		if (before <= limit)
			before = 0;
	}
	counter_u64_add(cr->cr_rate, 1);
	return allowed ? before : -1;
}
