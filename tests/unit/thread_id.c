/* SPDX-License-Identifier: MIT */
/* thread_id.c - see thread_id.h. */
#define _GNU_SOURCE
#include "thread_id.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>

__thread long thread_id;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
/* Like libc's, it passes on as many arguments as any call has. */
__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_gettid && thread_id > 0)
		return thread_id;
	if (number == SYS_gettid && thread_id < 0) {
		errno = (int)-thread_id;
		return -1;
	}
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
