/* SPDX-License-Identifier: MIT */
/* later.c - see later.h. */
#define _GNU_SOURCE
#include "later.h"

#include <time.h>

static uint64_t later; /* atomic */

void let_pass(uint64_t ns)
{
	__atomic_fetch_add(&later, ns, __ATOMIC_RELAXED);
}

/* Its name where a time_t is longer than what system calls take. */
#if defined(__TIMESIZE) && __TIMESIZE == 32 && defined(__USE_TIME_BITS64)
#define WRAP(prefix) prefix##__clock_gettime64
#else
#define WRAP(prefix) prefix##clock_gettime
#endif

int WRAP(__real_)(clockid_t clock, struct timespec *t);
int WRAP(__wrap_)(clockid_t clock, struct timespec *t);
int WRAP(__wrap_)(clockid_t clock, struct timespec *t)
{
	const uint64_t ns = __atomic_load_n(&later, __ATOMIC_RELAXED);
	int r = WRAP(__real_)(clock, t);

	if (clock == CLOCK_MONOTONIC) {
		t->tv_sec += (time_t)((ns + (uint64_t)t->tv_nsec) / 1000000000);
		t->tv_nsec = (long)((ns + (uint64_t)t->tv_nsec) % 1000000000);
	}
	return r;
}
