/* SPDX-License-Identifier: MIT */
/*
 * numa.c - keep the pages of a lane on the NUMA node of its CPU.
 *
 * In private memory, the kernel places a page where it is first touched. In a shared file, the
 * thread that allocates reserves the pages of all lanes, on one CPU. So the library tells the
 * kernel beforehand where the pages belong, and the kernel keeps that with the file. Errors are
 * ignored: the pages are then on another node, which is only slower.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory.h"

#define MAX_NODES 1024 /* the most of Linux: CONFIG_NODES_SHIFT is at most 10 */
#define WORD (8 * sizeof(unsigned long))
#define PREFERRED 1 /* MPOL_PREFERRED; linux/mempolicy.h is not everywhere */

/* Let the pages of lanes first to last prefer the node, up to the start of the next lane. */
static void prefer(const struct percpu_chunk *k, size_t first, size_t last, unsigned long node)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)percpu_chunk_lane(k, first, 0) / page * page;
	uintptr_t end = (uintptr_t)percpu_chunk_lane(k, last + 1, 0) / page * page;
	unsigned long mask[MAX_NODES / WORD] = { 0 };

	mask[node / WORD] = 1UL << node % WORD;
	syscall(SYS_mbind, start, end - start, PREFERRED, mask, MAX_NODES + 1, 0);
}

static void bind_lanes(const struct percpu_chunk *k, unsigned long node)
{
	unsigned long first, last;
	char path[64], buf[4096];
	const char *list = buf;

	(void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%lu/cpulist", node);
	if (!percpu_read_list(path, buf, sizeof(buf)))
		return;
	while (percpu_next_range(&list, &first, &last)) {
		if (last >= k->cpus)
			last = k->cpus - 1;
		if (first > last)
			continue;
		prefer(k, first, last, node);
		prefer(k, k->cpus + first, k->cpus + last, node);
	}
}

void percpu_chunk_numa(const struct percpu_chunk *k)
{
	unsigned long first, last, nodes = 0;
	char buf[4096];
	const char *list = buf;

	if (!percpu_read_list("/sys/devices/system/node/has_cpu", buf, sizeof(buf)))
		return;
	while (percpu_next_range(&list, &first, &last))
		nodes += last - first + 1;
	list = buf;
	while (nodes > 1 && percpu_next_range(&list, &first, &last))
		for (unsigned long node = first; node <= last && node < MAX_NODES; node++)
			bind_lanes(k, node);
}
