/* SPDX-License-Identifier: MIT */
/*
 * section_item.c - items of sections: they have a copy for each CPU, at the same place of its lane.
 */
#include <percpu/section.h>
#include <percpu/status.h>

#include "counts.h"

void percpu_section_add_to_copy(void *copy, int64_t n, size_t size)
{
	/* Atomic, for a signal handler that adds to the same copy in its thread's section. */
	switch (size) {
	case 1:
		__atomic_fetch_add((uint8_t *)copy, (uint8_t)n, __ATOMIC_RELAXED);
		break;
	case 2:
		__atomic_fetch_add((uint16_t *)copy, (uint16_t)n, __ATOMIC_RELAXED);
		break;
	case 4:
		__atomic_fetch_add((uint32_t *)copy, (uint32_t)n, __ATOMIC_RELAXED);
		break;
	default:
		__atomic_fetch_add((uint64_t *)copy, (uint64_t)n, __ATOMIC_RELAXED);
	}
}

unsigned percpu_section_cpus(void)
{
	return percpu_status()->possible_cpus;
}

/* In front of an item are the size and the alignment of its cell, in the lane of CPU 0. */
#define SECTION_HEAD 64

void *percpu_section_alloc(size_t size, size_t align)
{
	struct percpu_region *r;
	struct percpu_chunk *k;
	void *cell;

	if (size == 0 || size > PERCPU_SECTION_MAX_SIZE || align == 0 || align > SECTION_HEAD ||
	    (align & (align - 1)) != 0)
		return NULL;
	align = align > sizeof(uint64_t) ? align : sizeof(uint64_t);
	size += align;
	if (percpu_section_prepare() != 0 || percpu_region_default(&r) != 0 ||
	    percpu_region_alloc(r, size, align, &cell) != 0)
		return NULL;
	k = percpu_chunk_of(cell);
	percpu_chunk_clear(k, (size_t)((char *)cell - k->base), size, size);
	((uint32_t *)((uintptr_t)cell + align))[-1] = (uint32_t)align;
	((uint32_t *)((uintptr_t)cell + align))[-2] = (uint32_t)size;
	return (char *)cell + align;
}

void percpu_section_free(void *item)
{
	const uint32_t *head = item;
	struct percpu_region *r;

	if (item != NULL && percpu_region_default(&r) == 0)
		(void)percpu_region_free(r, (char *)item - head[-1], head[-2]);
}
