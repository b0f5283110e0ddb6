/* SPDX-License-Identifier: MIT */
/*
 * compact.c - the soak test's operations on compact counters, private and shared ones. The numbers
 * are so large that cells often need a new checkpoint, and some are too large for a cell.
 */
#include <percpu/compact.h>

#include "../support.h"
#include "soak.h"

#define PRIVATE 300
#define WANDERS 0 /* up and down */
#define GROWS 1	  /* never reset; the other counters are read and reset */

static struct percpu_compact *private, *shared;

void soak_compact_create(void)
{
	soak_require_equal("create compact counters", 0,
			   (uint64_t)percpu_compact_create(PRIVATE, &private));
}

void soak_compact_destroy(void)
{
	percpu_compact_destroy(private);
}

void soak_shared_compact_create(struct percpu_region *r)
{
	soak_require_equal("create compact counters in the region", 0,
			   (uint64_t)percpu_compact_create_in(r, SOAK_COMPACTS, &shared));
	soak_board->compact_key = percpu_compact_key(shared);
}

void soak_shared_compact_open(struct percpu_region *r)
{
	soak_require_equal("attach to compact counters", 0,
			   (uint64_t)percpu_compact_attach(r, soak_board->compact_key,
							   SOAK_COMPACTS, &shared));
}

void soak_shared_compact_close(void)
{
	percpu_compact_detach(shared);
}

uint64_t soak_shared_compact_fetch(uint32_t object)
{
	return percpu_compact_fetch(shared, object);
}

void soak_shared_compact_zero(uint32_t object)
{
	percpu_compact_zero(shared, object);
}

uint64_t soak_compact_found(void)
{
	static uint64_t value[PRIVATE];
	uint64_t sum = 0;

	percpu_compact_fetch_all(private, value);
	for (int i = 0; i < PRIVATE; i++)
		sum += value[i];
	return sum;
}

/* Return a number from 1 to 2^29; each size is as frequent as the others. */
static int64_t some(uint64_t r)
{
	return (int64_t)((r >> 8 | UINT64_C(1) << 55) >> (26 + r % 30));
}

static void add_shared(struct soak_journal *j, uint32_t object, int64_t n, unsigned times)
{
	struct soak_pending p = { SOAK_ADDING, SOAK_COMPACT + object, 1, { n } };
	uint64_t *added = &j->added[p.object];

	soak_begin(j, &p);
	for (unsigned i = 0; i < times; i++) {
		percpu_compact_add(shared, object, n);
		__atomic_store_n(added, *added + (uint64_t)n, __ATOMIC_RELEASE);
	}
	soak_end(j);
	j->count[SOAK_COMPACT_ADD] += times;
}

static void take_shared(struct soak_journal *j, uint32_t object)
{
	struct soak_pending p = { SOAK_TAKING, SOAK_COMPACT + object, 1, { 0 } };

	soak_begin(j, &p);
	j->taken[p.object] += percpu_compact_fetch_zero(shared, object);
	soak_end(j);
	j->count[SOAK_COMPACT_TAKE]++;
}

static void read_shared(struct soak_thread *t)
{
	uint64_t v = percpu_compact_fetch(shared, GROWS);

	soak_require(v >= t->compact, "a compact counter that grows never goes back", t->compact,
		     v);
	t->compact = v;
	t->slot->journal[0].count[SOAK_COMPACT_FETCH]++;
}

void soak_shared_compact_op(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random);
	uint32_t object = (uint32_t)(r >> 32) % SOAK_COMPACTS;
	int64_t n = some(r);

	if (r % 10 == 0)
		read_shared(t);
	else if (r % 10 == 1 && object > GROWS)
		take_shared(&t->slot->journal[0], object);
	else
		add_shared(&t->slot->journal[0], object, object == WANDERS && r % 3 ? -n : n,
			   1 + (unsigned)(r >> 40) % 1000);
}

void soak_compact_signal(struct soak_thread *t)
{
	struct soak_journal *j = &t->slot->journal[1];

	add_shared(j, GROWS, some(j->count[SOAK_SIGNAL] * 11), 1);
	percpu_compact_add(private, 0, -13);
	t->sum[1][SOAK_OF_COMPACT] -= 13;
}

void soak_compact_op(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random);
	size_t i = (r >> 32) % (r % 4 ? 2 : PRIVATE);
	int64_t n = r % 3 ? some(r) : -some(r);

	if (r % 10 == 0) {
		t->sum[0][SOAK_OF_COMPACT] -= percpu_compact_fetch_zero(private, i);
		t->slot->journal[0].count[SOAK_COMPACT_TAKE]++;
		return;
	}
	for (uint64_t times = 0; times < (r >> 40) % 100; times++) {
		percpu_compact_add(private, i, n);
		t->sum[0][SOAK_OF_COMPACT] += (uint64_t)n;
		t->slot->journal[0].count[SOAK_COMPACT_ADD]++;
	}
}
