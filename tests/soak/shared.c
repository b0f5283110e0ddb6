/* SPDX-License-Identifier: MIT */
/* shared.c - the soak test's operations on the region that all processes share. */
#define _GNU_SOURCE
#include <unistd.h>

#include <percpu/counter.h>

#include "../support.h"
#include "soak.h"

#define FLAGS (PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS)

static struct percpu_region *region;
static struct percpu_counter *counter[SOAK_SINGLES];
static struct percpu_counter_array *array;

void soak_shared_create(void)
{
	struct soak_board *b = soak_board;

	soak_require_equal(
		"create a region file", 0,
		(uint64_t)percpu_region_open(b->path, FLAGS | PERCPU_REGION_CREATE, NULL, &region));
	for (int i = 0; i < SOAK_SINGLES; i++) {
		soak_require_equal("create a counter in it", 0,
				   (uint64_t)percpu_counter_create_in(region, &counter[i]));
		b->key[i] = percpu_counter_key(counter[i]);
	}
	soak_require_equal("create an array in it", 0,
			   (uint64_t)percpu_counter_array_create_in(region, SOAK_CELLS, &array));
	b->array_key = percpu_counter_array_key(array);
	soak_shared_stats_create(region);
	soak_shared_group_create(region);
	soak_shared_compact_create(region);
	soak_shared_extrema_create(region);
	soak_shared_ring_create(region);
	soak_shared_values_create(region);
	soak_owned_create(region);
	soak_shared_grace_create();
	soak_shared_rwlock_create();
	soak_limits_create(region);
}

static struct percpu_region *open_region(void)
{
	struct percpu_region *r;

	soak_require_equal("open the region", 0,
			   (uint64_t)percpu_region_open(soak_board->path, FLAGS, NULL, &r));
	return r;
}

void soak_shared_open(void)
{
	region = open_region();
	for (int i = 0; i < SOAK_SINGLES; i++) {
		soak_require_equal(
			"attach to a counter", 0,
			(uint64_t)percpu_counter_attach(region, soak_board->key[i], &counter[i]));
	}
	soak_require_equal("attach to the array", 0,
			   (uint64_t)percpu_counter_array_attach(region, soak_board->array_key,
								 SOAK_CELLS, &array));
	soak_shared_stats_open(region);
	soak_shared_group_open(region);
	soak_shared_compact_open(region);
	soak_shared_extrema_open(region);
	soak_shared_ring_open(region);
	soak_shared_values_open(region);
	soak_owned_open(region);
	soak_shared_grace_open();
	soak_shared_rwlock_open();
	soak_limits_open(region);
}

void soak_shared_close(void)
{
	soak_shared_stats_close();
	soak_shared_group_close();
	soak_shared_compact_close();
	soak_shared_extrema_close();
	soak_shared_ring_close();
	soak_shared_values_close();
	soak_shared_grace_close();
	soak_shared_rwlock_close();
	soak_owned_close();
	soak_limits_close();
	percpu_counter_array_detach(array);
	percpu_region_close(region);
}

struct percpu_region *soak_shared_region(void)
{
	return region;
}

uint64_t soak_shared_fetch(uint32_t object)
{
	if (object < SOAK_CELL)
		return percpu_counter_fetch(counter[object]);
	if (object < SOAK_STATS)
		return percpu_counter_array_fetch(array, object - SOAK_CELL);
	if (object < SOAK_COMPACT)
		return soak_stats_fetch(true, object - SOAK_STATS);
	if (object < SOAK_FCOUNTER)
		return soak_shared_compact_fetch(object - SOAK_COMPACT);
	if (object < SOAK_OWNED)
		return soak_shared_values_fetch(object);
	if (object < SOAK_RATE)
		return soak_owned_fetch(object);
	return soak_limits_fetch(object);
}

bool soak_shared_zero(uint32_t object)
{
	if (object >= SOAK_OWNED)
		return object >= SOAK_RATE && soak_limits_zero(object);
	if (object >= SOAK_STATS && object < SOAK_COMPACT)
		return soak_shared_stats_zero(object - SOAK_STATS);
	if (object < SOAK_CELL)
		percpu_counter_zero(counter[object]);
	else if (object < SOAK_STATS)
		percpu_counter_array_zero(array, object - SOAK_CELL);
	else if (object < SOAK_FCOUNTER)
		soak_shared_compact_zero(object - SOAK_COMPACT);
	else
		return soak_shared_values_zero(object);
	return true;
}

void soak_shared_add(struct soak_journal *j, uint32_t object, int64_t n, unsigned times)
{
	struct soak_pending p = { SOAK_ADDING, object, 1, { n } };
	uint64_t added = j->added[object];

	soak_begin(j, &p);
	for (unsigned i = 0; i < times; i++) {
		if (object < SOAK_CELL)
			percpu_counter_add(counter[object], n);
		else
			percpu_counter_array_add(array, object - SOAK_CELL, n);
		added += (uint64_t)n;
		__atomic_store_n(&j->added[object], added, __ATOMIC_RELEASE);
	}
	soak_end(j);
	j->count[SOAK_ADD] += times;
}

static int64_t some(struct soak_thread *t)
{
	return (int64_t)(test_random(&t->random) >> 44) + 1;
}

/* Add in tight loops, half of them on one counter. An add is only lost to another thread that
 * updates the same cell within the same few nanoseconds. */
static void add(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random);
	uint32_t object = r % 2 ? SOAK_GROWS : (uint32_t)(r / 2 % SOAK_STATS);
	unsigned times = 1 + (unsigned)(test_random(&t->random) % 3000);
	int64_t n = some(t);

	if (object == SOAK_WANDERS && n % 2 == 0)
		n = -n;
	soak_shared_add(&t->slot->journal[0], object, n, times);
}

static void add_vector(struct soak_thread *t)
{
	uint32_t words = 2U << test_random(&t->random) % 3;
	uint32_t first = (uint32_t)(test_random(&t->random) % (8 / words)) * words;
	struct soak_pending p = { SOAK_ADDING, SOAK_CELL + first, words, { 0 } };
	struct soak_journal *j = &t->slot->journal[0];

	for (uint32_t i = 0; i < words; i++)
		p.n[i] = some(t);
	soak_begin(j, &p);
	if (words == 2)
		percpu_counter_array_add_n(array, first, p.n, 2);
	else if (words == 4)
		percpu_counter_array_add_n(array, first, p.n, 4);
	else
		percpu_counter_array_add_n(array, first, p.n, 8);
	for (uint32_t i = 0; i < words; i++)
		j->added[p.object + i] += (uint64_t)p.n[i];
	soak_end(j);
	j->count[SOAK_VECTOR]++;
}

static void fetch(struct soak_thread *t)
{
	uint64_t v = soak_shared_fetch(SOAK_GROWS);

	soak_require(v >= t->grows, "a counter that grows never goes back", t->grows, v);
	t->grows = v;
	t->slot->journal[0].count[SOAK_FETCH]++;
}

static void take(struct soak_thread *t)
{
	uint32_t cell = 8 + (uint32_t)(test_random(&t->random) % 4);
	struct soak_pending p = { SOAK_TAKING, SOAK_TAKEN, 1, { 0 } };
	struct soak_journal *j = &t->slot->journal[0];
	bool single = test_random(&t->random) % 2;

	if (!single)
		p.object = SOAK_CELL + cell;
	soak_begin(j, &p);
	j->taken[p.object] += single ? percpu_counter_fetch_zero(counter[SOAK_TAKEN]) :
				       percpu_counter_array_fetch_zero(array, cell);
	soak_end(j);
	j->count[SOAK_TAKE]++;
}

/* Create a counter that no other thread knows of. A thread that gets the same cell spoils it. */
static void create(struct soak_thread *t)
{
	int64_t n = some(t);
	struct percpu_counter *c;

	if (!soak_did("create a counter in the shared region", percpu_counter_create_in(region, &c),
		      0))
		return;
	for (int i = 0; i < 3; i++)
		percpu_counter_add(c, n);
	soak_require_equal("a shared counter that one thread uses", 3 * (uint64_t)n,
			   percpu_counter_fetch_zero(c));
	percpu_counter_destroy(c);
	t->slot->journal[0].count[SOAK_CREATE]++;
}

/* Allocate so much that the region grows when several threads do this. */
static void allocate(struct soak_thread *t)
{
	size_t size = 1 + test_random(&t->random) % 24000;
	uint64_t key;
	void *cell;

	if (!soak_did("allocate in the shared region", percpu_region_alloc(region, size, 64, &cell),
		      0))
		return;
	key = percpu_region_key(region, cell);
	soak_require_equal("a cell found by its key", (uintptr_t)cell,
			   (uintptr_t)percpu_region_at(region, key, size));
	(void)soak_did("free it", percpu_region_free(region, cell, size), 0);
	t->slot->journal[0].count[SOAK_ALLOC]++;
}

/* Map the file again. The mapping must show the same counters. */
static void open_again(struct soak_thread *t)
{
	struct percpu_region *r = open_region();
	struct percpu_counter *c = NULL;
	uint64_t before = soak_shared_fetch(SOAK_GROWS), v;

	soak_require_equal("attach to it again", 0,
			   (uint64_t)percpu_counter_attach(r, soak_board->key[SOAK_GROWS], &c));
	v = percpu_counter_fetch(c);
	soak_require(v >= before, "another mapping of the counter that grows", before, v);
	percpu_region_close(r);
	t->slot->journal[0].count[SOAK_OPEN]++;
}

void soak_shared_op(struct soak_thread *t)
{
	unsigned r = (unsigned)(test_random(&t->random) % 1000);

	if (r < 160) {
		add(t);
	} else if (r < 200) {
		soak_shared_rwlock_op(t);
	} else if (r < 240) {
		soak_limits_op(t);
	} else if (r < 280) {
		soak_shared_grace_op(t);
	} else if (r < 380) {
		add_vector(t);
	} else if (r < 480) {
		soak_shared_values_op(t);
	} else if (r < 520) {
		soak_owned_op(t);
	} else if (r < 540) {
		soak_group_op(t, true);
	} else if (r < 650) {
		soak_stats_op(t, true);
	} else if (r < 750) {
		soak_shared_compact_op(t);
	} else if (r < 800) {
		soak_shared_extrema_op(t);
	} else if (r < 900) {
		fetch(t);
	} else if (r < 960) {
		take(t);
	} else if (r < 980) {
		percpu_counter_zero(counter[SOAK_ZEROED]);
		t->slot->journal[0].count[SOAK_ZERO]++;
	} else if (r < 990) {
		create(t);
	} else if (r < 998) {
		allocate(t);
	} else {
		open_again(t);
	}
}
