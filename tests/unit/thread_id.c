/* SPDX-License-Identifier: MIT */
/* thread_id.c - see thread_id.h. */
#define _GNU_SOURCE
#include "thread_id.h"

#include <errno.h>
#include <sys/syscall.h>

#include "../syscalls.h"

__thread long thread_id;

bool syscall_is_answered(long number, const long a[6], long *ret)
{
	(void)a;
	if (number != SYS_gettid || thread_id == 0)
		return false;
	*ret = thread_id > 0 ? thread_id : -1;
	if (thread_id < 0)
		errno = (int)-thread_id;
	return true;
}
