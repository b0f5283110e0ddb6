/* SPDX-License-Identifier: MIT */
/* syscalls.c - see syscalls.h. */
#include "syscalls.h"

#include <stdarg.h>

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
/* Like libc's, this passes on six arguments, the most that any call has. */
__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...)
{
	long a[6], r;
	va_list ap;

	va_start(ap, number);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (syscall_is_answered(number, a, &r))
		return r;
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
