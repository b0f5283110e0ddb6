/* SPDX-License-Identifier: MIT */
/*
 * draft.c - a buffer for a read that may fail. The caller's memory is stored to only when the read
 * has succeeded. A signal handler may read, and call mmap(2), but not malloc(3).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "memory.h"

int percpu_draft_begin(struct percpu_draft *d, size_t size)
{
	void *map;

	d->size = size;
	d->words = d->on_stack;
	if (size <= sizeof(d->on_stack))
		return 0;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	d->words = map;
	return 0;
}

int percpu_draft_end(struct percpu_draft *d, void *out, size_t used, int e)
{
	if (e == 0 && used != 0)
		memcpy(out, d->words, used);
	if (d->words != d->on_stack)
		munmap(d->words, d->size);
	return e;
}
