/* SPDX-License-Identifier: MIT */
/* later.c - see later.h. */
#define _GNU_SOURCE
#include "later.h"

#include "../clocks.h"

static uint64_t later; /* atomic */

void let_pass(uint64_t ns)
{
	__atomic_fetch_add(&later, ns, __ATOMIC_RELAXED);
}

void clock_is_read(clockid_t clock, struct timespec *t)
{
	const uint64_t ns = __atomic_load_n(&later, __ATOMIC_RELAXED) + (uint64_t)t->tv_nsec;

	if (clock == CLOCK_MONOTONIC) {
		t->tv_sec += (time_t)(ns / 1000000000);
		t->tv_nsec = (long)(ns % 1000000000);
	}
}
