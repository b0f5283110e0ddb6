/* SPDX-License-Identifier: MIT */
/*
 * syscalls.h - answers to system calls that the library makes by syscall(2). A program that links
 * syscalls.c and wraps that function answers some of them itself.
 */
#ifndef TESTS_SYSCALLS_H
#define TESTS_SYSCALLS_H

#include <stdbool.h>

/** The program's: return whether it answers this call, so that the kernel does not see it. *ret is
 *  then what syscall(2) returns; if that is -1, errno is set. All threads come here. */
bool syscall_is_answered(long number, const long a[6], long *ret);

#endif
