/* SPDX-License-Identifier: MIT */
/*
 * reclaim.c - return memory that holds no cell in use to the system.
 *
 * The locks of the allocator keep cells from being allocated meanwhile. Other threads and processes
 * may free cells: those are returned, or stay until the next call. A page that was returned reads
 * as zeros, and a free cell may hold anything. So nothing is to be undone or completed if the
 * caller is killed.
 *
 * A private chunk without cells is decommitted: its header and its struct are returned, too. In a
 * file, the header stays, because other processes find the chunk by it.
 */
#include "memory.h"

/* Return the pages of each run of free cells. */
static size_t discard_free(struct percpu_chunk *k)
{
	const size_t end = k->lane_size / k->unit, lanes = 2 * (size_t)k->cpus + 1;
	size_t first = 0, last, bytes = 0;

	while ((first = percpu_next_bit(k->header->used, first, end, false)) < end) {
		last = percpu_next_bit(k->header->used, first, end, true);
		PERCPU_STEP("region: free cells found");
		percpu_chunk_discard(k, first * k->unit, (last - first) * k->unit);
		bytes += (last - first) * k->unit * lanes;
		first = last + 1; /* whatever another process does to the bits */
	}
	return bytes;
}

/* Return whether the chunk may be decommitted. The first one has what is the region's. */
static bool is_idle(const struct percpu_chunk *k)
{
	const size_t end = k->lane_size / k->unit;

	return !k->shared && k->index != 0 && percpu_next_bit(k->header->used, 0, end, true) == end;
}

size_t percpu_chunk_reclaim(struct percpu_chunk *k)
{
	const size_t bytes = k->lane_size * (2 * (size_t)k->cpus + 1);

	return is_idle(k) && percpu_chunk_decommit(k) ? bytes : discard_free(k);
}

/* Take the locks for one chunk at a time: so nobody waits for all of them. */
size_t percpu_region_reclaim(struct percpu_region *r)
{
	struct percpu_chunk *k;
	struct percpu_robust h;
	size_t bytes = 0;
	bool more = r != NULL && r->writable && r->memory == NULL;

	for (uint32_t i = 0; more && percpu_region_lock(r, &h) == 0; i++) {
		k = r->chunks->at[i];
		bytes += percpu_chunk_is_committed(k) ? percpu_chunk_reclaim(k) :
							r->lane_size * (2 * (size_t)r->cpus + 1);
		more = i + 1 < r->n;
		percpu_region_unlock_both(r, &h);
		PERCPU_STEP("region: chunk reclaimed");
	}
	return bytes;
}
