/* SPDX-License-Identifier: MIT */
/*
 * syscalls.h - answers to system calls that the library makes by syscall(2). A program that
 * links syscalls.c and wraps that function can answer some of them itself.
 */
#ifndef TESTS_SYSCALLS_H
#define TESTS_SYSCALLS_H

#include <stdbool.h>

/** Called by the wrapper in any thread, defined by the program. Returns whether the program
 *  answers the call, so that the kernel does not see it. Then *ret is the result of syscall(2);
 *  if that is -1, errno is set. */
bool syscall_is_answered(long number, const long a[6], long *ret);

#endif
