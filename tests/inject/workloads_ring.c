/* SPDX-License-Identifier: MIT */
/*
 * workloads_ring.c - the sequence that puts records into a ring that keeps them. Each record is
 * taken whole, in the order of its number and of its time.
 */
#define _GNU_SOURCE
#include "workloads.h"

#include <string.h>

#include <percpu/status.h>

#include "../support.h"

#define SLOTS 32
#define LONGEST (8 * 5) /* bytes: with the record's head, a quarter of the ring */

/* Shared with children. */
static struct rings {
	uint64_t taken; /* number of records */
	uint64_t sum;	/* of the records' first words */
	uint64_t broken;
	struct ring {
		uint64_t head, unused[7]; /* in the layout of struct percpu_ring_lane */
		uint64_t tail, unused2[7];
		uint64_t slot[SLOTS];
		uint64_t number, time; /* of the last record that was taken */
	} __attribute__((aligned(64))) ring[];
} * rings;

static unsigned n_lanes;

static void take_from(struct ring *r)
{
	uint64_t head = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE), at = r->tail;
	uint64_t name, size, first, time;

	for (; at != head; at += 3 + (size + 7) / 8) {
		name = r->slot[at % SLOTS];
		size = name % 65536;
		if (size < 8 || size > LONGEST || 3 + (size + 7) / 8 > head - at ||
		    r->slot[(at + 2 + (size + 7) / 8) % SLOTS] != name) {
			rings->broken++;
			break;
		}
		time = r->slot[(at + 1) % SLOTS];
		first = r->slot[(at + 2) % SLOTS];
		rings->broken +=
			name / 65536 != r->number + 1 || time < r->time || first % 256 != size;
		for (uint64_t i = 8; i < size; i++)
			rings->broken += (r->slot[(at + 2 + i / 8) % SLOTS] >> i % 8 * 8) % 256 !=
					 (first + i) % 256;
		r->number = name / 65536;
		r->time = time;
		rings->taken++;
		rings->sum += first;
	}
	__atomic_store_n(&r->tail, head, __ATOMIC_RELEASE);
}

static void take_all(void)
{
	workload_take_turn();
	for (unsigned i = 0; i < n_lanes; i++)
		take_from(&rings->ring[i]);
	workload_give_turn();
}

static int put(const void *bytes, uint64_t size)
{
	uint64_t last = 0;
	size_t at = (size - 1) / 8 * 8;
	int r;

	memcpy(&last, (const char *)bytes + at, size - at);
	do
		r = percpu_seq_put(&rings->ring[0], sizeof(struct ring), SLOTS - 1, UINT64_MAX,
				   bytes, size, last);
	while (r == PERCPU_SEQ_SLOW);
	return r;
}

static void update_put(struct worker *w)
{
	uint64_t size = 8 + test_random(&w->random) % (LONGEST - 7);
	uint64_t first = w->attempts++ << 16 | w->id << 8 | size;
	unsigned char bytes[LONGEST];
	int r = PERCPU_SEQ_REFUSED;

	memcpy(bytes, &first, sizeof(first));
	for (uint64_t i = 8; i < size; i++)
		bytes[i] = (unsigned char)(first + i);
	for (unsigned i = 0; i < WORKLOAD_TRIES && r == PERCPU_SEQ_REFUSED; i++) {
		workload_arm(w);
		r = put(bytes, size);
		workload_disarm();
		if (r == PERCPU_SEQ_REFUSED)
			take_all();
	}
	if (r == 0)
		w->sum[0] += first;
	w->committed += r == 0;
	w->gave_up += r != 0;
}

static size_t size_of_rings(void)
{
	return sizeof(*rings) + n_lanes * sizeof(struct ring);
}

static void begin(void)
{
	if (!rings) {
		n_lanes = percpu_status()->possible_cpus;
		rings = test_share(size_of_rings());
	}
	memset(rings, 0, size_of_rings());
}

static bool check(void)
{
	uint64_t committed = 0;

	take_all();
	for (unsigned i = 0; i < WORKLOAD_WORKERS; i++)
		committed += workload_worker(i)->committed;
	return rings->broken == 0 && rings->taken == committed && rings->sum == workload_sum(0);
}

const struct workload workload_rings[WORKLOAD_RINGS] = {
	{ "put", 1, begin, update_put, check },
};
