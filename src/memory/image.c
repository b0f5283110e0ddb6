/* SPDX-License-Identifier: MIT */
/*
 * image.c - a reader's copy of a region in a file: headers and bias lanes as they were, and one
 * CPU lane, which has the sums of all. As value = sum of lanes - bias, that is enough to read each
 * object by its own calls. These check all that they find, as they do in the file.
 *
 * The memory is private to the reader, so what a call has checked does not change until the reader
 * copies again.
 */
#include <string.h>

#include "memory.h"

int percpu_image_create(int fd, struct percpu_region **ret)
{
	struct percpu_region *r;
	int e = percpu_region_new(true, false, PERCPU_LANE_SIZE, 1, &r);

	if (e != 0)
		return e;
	e = percpu_descriptor_keep(r, fd, true);
	if (e != 0)
		percpu_region_drop(r);
	else
		*ret = r;
	return e;
}

int percpu_image_grow(struct percpu_region *r, uint32_t n)
{
	int e = 0;

	while (e == 0 && r->n < n)
		e = percpu_region_append_image(r);
	return e;
}

/* Copy the header, but keep the image's own geometry. It has no atomic lanes, and no locks are
 * held in it. */
void percpu_image_set_header(struct percpu_chunk *k, const struct percpu_header *h)
{
	struct percpu_header *mine = k->header;

	*mine = *h;
	mine->cpus = k->cpus;
	mine->chunks = k->region->n;
	memset(mine->atomic_lanes, 0, sizeof(mine->atomic_lanes));
	mine->alloc_lock = mine->journal_lock = 0;
}
