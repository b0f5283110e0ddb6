/* SPDX-License-Identifier: MIT */
/*
 * futex.c - wait for a word to change, and wake the threads that wait.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"

/* The kernel's struct timespec may have shorter fields than libc's. */
void percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns)
{
	const percpu_kernel_long time[2] = { (percpu_kernel_long)(ns / PERCPU_SECOND),
					     (percpu_kernel_long)(ns % PERCPU_SECOND) };

	syscall(SYS_futex, word, operation, value, ns != 0 ? time : NULL, NULL, 0);
}

void percpu_futex_rouse(uint32_t *word, int operation, int how_many)
{
	syscall(SYS_futex, word, operation, how_many, NULL, NULL, 0);
}

void percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
	percpu_futex_sleep(word, FUTEX_WAIT_PRIVATE, value, ns);
}

void percpu_futex_wake(uint32_t *word)
{
	percpu_futex_rouse(word, FUTEX_WAKE_PRIVATE, INT_MAX);
}
