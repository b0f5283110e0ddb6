/* SPDX-License-Identifier: MIT */
/*
 * mlock.c - chunks of programs that have called mlockall(MCL_FUTURE).
 *
 * In such a program, the kernel fills each new mapping with memory, and locks it. A chunk has as
 * many atomic lanes as CPU lanes, and few of them are ever used. So the library lets the kernel
 * fill and lock their pages only when they are touched. The rest of a chunk is filled at once.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory.h"

#define ON_TOUCH 1 /* MLOCK_ONFAULT, Linux 4.4; not in all headers */

bool percpu_mlock_fills(const char *page)
{
	unsigned char resident = 0;

	mincore((void *)(uintptr_t)page, 1, &resident); /* refused: it stays 0 */
	return resident & 1;
}

void percpu_mlock_on_fault(char *first, size_t size)
{
	syscall(SYS_mlock2, first, size, ON_TOUCH);
}

void percpu_chunk_populate(const struct percpu_chunk *k)
{
	uintptr_t page = percpu_page_size(), start = (uintptr_t)k;
	uintptr_t atomic = (uintptr_t)percpu_chunk_lane(k, k->cpus, 0) + page - 1;
	uintptr_t bias = (uintptr_t)percpu_chunk_bias(k, 0);

	atomic -= atomic % page;
	bias -= bias % page;
	mlock(k, atomic - start);
	mlock((char *)k + (bias - start), start + k->map_size - bias);
}
