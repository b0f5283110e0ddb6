/* SPDX-License-Identifier: MIT */
/* clocks.c - see clocks.h. */
#include "clocks.h"

/* The function's name if a time_t is longer than in system calls. */
#if defined(__TIMESIZE) && __TIMESIZE == 32 && defined(__USE_TIME_BITS64)
#define WRAP(prefix) prefix##__clock_gettime64
#else
#define WRAP(prefix) prefix##clock_gettime
#endif

int WRAP(__real_)(clockid_t clock, struct timespec *t);
int WRAP(__wrap_)(clockid_t clock, struct timespec *t);
int WRAP(__wrap_)(clockid_t clock, struct timespec *t)
{
	int r = WRAP(__real_)(clock, t);

	clock_is_read(clock, t);
	return r;
}
