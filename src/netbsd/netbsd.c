/* SPDX-License-Identifier: MIT */
/*
 * netbsd.c - NetBSD's percpu(9), on top of percpu/section.h.
 */
#include <sched.h>

#include <percpu/netbsd/percpu.h>

percpu_t *percpu_netbsd_alloc(size_t size)
{
	void *item;

	if (size == 0 || size > PERCPU_SECTION_MAX_SIZE)
		return NULL;
	while ((item = percpu_section_alloc(size, 64)) == NULL)
		sched_yield();
	return item;
}
