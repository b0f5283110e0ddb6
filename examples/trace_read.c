/* SPDX-License-Identifier: MIT */
/*
 * trace_read.c - read the events of a file, while they are put, or after the processes that put
 * them have ended. No process waits for the reader.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <percpu/ring.h>

#include "trace.h"

/* Decode a record. Other programs write them, so sizes and letters are checked. */
static bool decode(const struct percpu_ring_record *r, struct trace_seen *ret)
{
	size_t front = offsetof(struct trace_event, name);

	if (r->size < front || r->size > front + TRACE_NAME_LONGEST)
		return false;
	*ret = (struct trace_seen){ .ns = r->time, .cpu = r->cpu };
	memcpy(&ret->event, r->data, r->size);
	return ret->event.phase != 0 && strchr("BEiC", ret->event.phase) != NULL;
}

/* Return how many records of a ring were overwritten before this reader could read them, or
 * before it began: the first record of each ring has the number 1. */
static uint64_t count_lost(const struct percpu_ring_record *r)
{
	static bool known[PERCPU_MAX_CPUS][2];
	bool *known_ring = &known[r->cpu][r->locked];

	if (*known_ring)
		return r->lost;
	*known_ring = true;
	return r->number - 1;
}

static int read_all(struct percpu_ring_reader *reader, bool follow, const volatile bool *stop,
		    void (*show)(const struct trace_seen *), uint64_t *ret_lost)
{
	uint64_t lost = 0;
	int e;

	for (;;) {
		bool last = !follow || *stop; /* then records put before are still read */
		struct percpu_ring_record r;
		struct trace_seen seen;

		while ((e = percpu_ring_read(reader, &r)) == 0) {
			lost += count_lost(&r);
			if (decode(&r, &seen))
				show(&seen);
		}
		if (e != -EAGAIN || last)
			break;
		fflush(stdout);
		usleep(10000);
	}
	if (e != -EAGAIN)
		return e;
	*ret_lost = lost;
	return 0;
}

/* Open the rings. Returns 0 or -errno; -ENOENT: no file, or no rings in it. */
static int open_rings(const char *path, struct percpu_region **ret_region, struct percpu_ring **ret)
{
	int e = percpu_region_open(path, 0, NULL, ret_region);

	if (e != 0)
		return e;
	e = percpu_ring_attach(*ret_region, percpu_region_root(*ret_region, TRACE_ROOT), ret);
	if (e != 0)
		percpu_region_close(*ret_region);
	return e;
}

int trace_read(const char *path, bool follow, const volatile bool *stop,
	       void (*show)(const struct trace_seen *seen), uint64_t *ret_lost)
{
	struct percpu_ring_reader *reader;
	struct percpu_region *region;
	struct percpu_ring *ring;
	int e = open_rings(path, &region, &ring);

	while (e == -ENOENT && follow && !*stop) {
		usleep(10000);
		e = open_rings(path, &region, &ring);
	}
	if (e != 0)
		return e;
	e = percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &reader);
	if (e == 0) {
		e = read_all(reader, follow, stop, show, ret_lost);
		percpu_ring_reader_destroy(reader);
	}
	percpu_ring_detach(ring);
	percpu_region_close(region);
	return e;
}
