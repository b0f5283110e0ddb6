/* SPDX-License-Identifier: MIT */
/* ring.h - puts into the ring of a test. */
#ifndef TESTS_UNIT_RING_H
#define TESTS_UNIT_RING_H

#include <percpu/ring.h>

#include "memory/memory.h"

#include "../model.h"

static struct percpu_ring *ring;

static int put(uint64_t value)
{
	return percpu_ring_put(ring, &value, sizeof(value));
}

/* Put by a thread that cannot run sequences. */
static int put_locked(uint64_t value)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area = model_set_area(&none);
	int e = put(value);

	model_set_area(area);
	return e;
}

#endif
