/* SPDX-License-Identifier: MIT */
/*
 * private.c - the soak test's operations on objects of one process: counters, variables, regions,
 * and the objects of the other files. Each thread keeps the sum of what it has done. These sums add
 * up to what the objects hold.
 */
#include <errno.h>

#include <percpu/counter.h>
#include <percpu/fence.h>
#include <percpu/variable.h>

#include "../support.h"
#include "soak.h"

#define LARGE 9000 /* counters: more than a lane of the default region holds */

static PERCPU_COUNTER_DEFINE(fixed);
static PERCPU_VARIABLE(uint64_t, word);
static struct percpu_counter *counter;
static struct percpu_counter_array *large;

void soak_private_create(void)
{
	soak_require_equal("create a counter", 0, (uint64_t)percpu_counter_create(&counter));
	soak_require_equal("create an array", 0,
			   (uint64_t)percpu_counter_array_create(LARGE, &large));
	soak_local_create();
	soak_stats_create();
	soak_group_create();
	soak_compact_create();
	soak_wbuf_create();
	soak_ring_create();
	soak_values_create();
	soak_ref_create();
	soak_grace_create();
	soak_rwlock_create();
}

void soak_private_destroy(void)
{
	percpu_counter_destroy(counter);
	percpu_counter_array_destroy(large);
	soak_local_destroy();
	soak_stats_destroy();
	soak_group_destroy();
	soak_compact_destroy();
	soak_wbuf_destroy();
	soak_ring_destroy();
	soak_values_destroy();
	soak_ref_destroy();
	soak_grace_destroy();
	soak_rwlock_destroy();
}

static uint64_t found_in_large(void)
{
	static uint64_t value[LARGE];
	uint64_t sum = 0;

	percpu_counter_array_fetch_all(large, value);
	for (int i = 0; i < LARGE; i++)
		sum += value[i];
	return sum;
}

uint64_t soak_private_found(enum soak_tally tally)
{
	if (tally >= SOAK_OF_STATS)
		return soak_stats_fetch(false, tally - SOAK_OF_STATS);
	switch (tally) {
	case SOAK_OF_COUNTER:
		return percpu_counter_fetch(counter);
	case SOAK_OF_STATIC:
		return percpu_static_counter_fetch(&fixed);
	case SOAK_OF_VARIABLE:
		return PERCPU_VARIABLE_SUM(word);
	case SOAK_OF_LARGE:
		return found_in_large();
	case SOAK_OF_COMPACT:
		return soak_compact_found();
	case SOAK_OF_WBUF:
		return soak_wbuf_found();
	case SOAK_OF_RING:
		return soak_ring_found();
	case SOAK_OF_FCOUNTER:
	case SOAK_OF_HISTOGRAM:
		return soak_values_found(tally);
	case SOAK_OF_REF:
		return soak_ref_found();
	case SOAK_OF_RWLOCK:
		return soak_rwlock_found();
	default:
		return soak_local_found(tally);
	}
}

void soak_private_check(const uint64_t before[SOAK_TALLIES], const struct soak_thread *t,
			unsigned n)
{
	static const char *const what[SOAK_OF_STATS] = {
		[SOAK_OF_COUNTER] = "total of the private counter",
		[SOAK_OF_STATIC] = "total of the static counter",
		[SOAK_OF_VARIABLE] = "total of the variable",
		[SOAK_OF_LARGE] = "total of the large array",
		[SOAK_OF_SPLIT] = "sum of the split word",
		[SOAK_OF_LOCK] = "sum of the locked word",
		[SOAK_OF_REFS] = "sum of the counted word",
		[SOAK_OF_STACK] = "items of the arrays",
		[SOAK_OF_QUEUE] = "records of the queues",
		[SOAK_OF_COMPACT] = "total of the compact counters",
		[SOAK_OF_WBUF] = "total of the write buffers",
		[SOAK_OF_RING] = "records of the rings",
		[SOAK_OF_FCOUNTER] = "total of the counter of doubles",
		[SOAK_OF_HISTOGRAM] = "counts and sum of the histogram",
		[SOAK_OF_REF] = "references that are kept",
		[SOAK_OF_RWLOCK] = "writes under the private lock",
	};
	uint64_t sum;

	for (int tally = 0; tally < SOAK_TALLIES; tally++) {
		sum = before[tally];
		for (unsigned i = 0; i < n; i++)
			sum += t[i].sum[0][tally] + t[i].sum[1][tally];
		soak_require_equal(tally < SOAK_OF_STATS ? what[tally] : "total of statistics", sum,
				   soak_private_found(tally));
	}
}

static void use_counter(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random);

	if (r % 8 == 0) {
		t->sum[0][SOAK_OF_COUNTER] -= percpu_counter_fetch_zero(counter);
		return;
	}
	for (uint64_t i = 0; i < r % 100; i++)
		percpu_counter_inc(counter);
	t->sum[0][SOAK_OF_COUNTER] += r % 100;
}

static void use_large(struct soak_thread *t)
{
	for (int i = 0; i < 50; i++)
		percpu_counter_array_add(large, test_random(&t->random) % LARGE, 3);
	t->sum[0][SOAK_OF_LARGE] += 150;
}

/* Use a region, and a counter in it, of one thread. */
static void use_region(struct soak_thread *t)
{
	struct percpu_region *r;
	struct percpu_counter *c;

	soak_require_equal("create a private region", 0, (uint64_t)percpu_region_create(NULL, &r));
	soak_require_equal("create a counter in it", 0, (uint64_t)percpu_counter_create_in(r, &c));
	for (int i = 0; i < 10; i++)
		percpu_counter_dec(c);
	soak_require_equal("a counter of one thread", (uint64_t)-10, percpu_counter_fetch(c));
	if (test_random(&t->random) % 2)
		percpu_counter_destroy(c);
	percpu_region_close(r);
}

/* Fence. A CPU may be busy, or not allowed, and then the fence must return that error. */
static void fence(bool all)
{
	int r = all ? percpu_fence_all(UINT64_C(1000000000), NULL) : percpu_fence();

	soak_require(r == 0 || (all && (r == -EPERM || r == -ETIMEDOUT)), "fence", 0, (uint64_t)r);
}

void soak_private_signal(struct soak_thread *t)
{
	percpu_counter_inc(counter);
	t->sum[1][SOAK_OF_COUNTER]++;
	percpu_static_counter_add(&fixed, 5);
	t->sum[1][SOAK_OF_STATIC] += 5;
	soak_local_signal(t);
	soak_stats_signal(t);
	soak_compact_signal(t);
	soak_extrema_signal(t);
	soak_ring_signal(t);
	soak_values_signal(t);
	soak_ref_signal(t);
	soak_grace_signal();
	soak_rwlock_signal();
	soak_limits_signal(t);
}

void soak_private_op(struct soak_thread *t)
{
	static const struct {
		unsigned below; /* out of 1000 */
		enum soak_kind kind;
	} odds[] = {
		{ 40, SOAK_COUNTER },	    { 60, SOAK_VALUE_ADD },    { 80, SOAK_SECTION },
		{ 110, SOAK_STATIC },	    { 140, SOAK_VARIABLE },    { 160, SOAK_LARGE },
		{ 190, SOAK_READ_LOCK },    { 210, SOAK_SPLIT },       { 300, SOAK_LOCK },
		{ 390, SOAK_REFS },	    { 420, SOAK_STORE },       { 480, SOAK_PUSH },
		{ 540, SOAK_POP },	    { 590, SOAK_APPEND },      { 600, SOAK_REGION },
		{ 609, SOAK_FENCE },	    { 610, SOAK_FENCE_ALL },   { 650, SOAK_REF },
		{ 710, SOAK_STATS_UPDATE }, { 780, SOAK_COMPACT_ADD }, { 840, SOAK_WBUF_ADD },
		{ 900, SOAK_RING_PUT },	    { 950, SOAK_ZONE_ALLOC },  { 975, SOAK_OBJCACHE_GET },
		{ 1000, SOAK_WINDOW },
	};
	uint64_t r = test_random(&t->random) % 1000;
	unsigned i = 0;

	while (r >= odds[i].below)
		i++;
	switch (odds[i].kind) {
	case SOAK_COUNTER:
		use_counter(t);
		break;
	case SOAK_STATIC:
		percpu_static_counter_add(&fixed, 11);
		t->sum[0][SOAK_OF_STATIC] += 11;
		break;
	case SOAK_VARIABLE:
		PERCPU_VARIABLE_ADD(word, 17);
		t->sum[0][SOAK_OF_VARIABLE] += 17;
		break;
	case SOAK_LARGE:
		use_large(t);
		break;
	case SOAK_REGION:
		use_region(t);
		break;
	case SOAK_FENCE:
	case SOAK_FENCE_ALL:
		fence(odds[i].kind == SOAK_FENCE_ALL);
		break;
	case SOAK_STATS_UPDATE:
		if (test_random(&t->random) % 8 == 0)
			soak_group_op(t, false);
		soak_stats_op(t, false);
		return; /* these count their operations themselves */
	case SOAK_COMPACT_ADD:
		soak_compact_op(t);
		return;
	case SOAK_WBUF_ADD:
		soak_wbuf_op(t);
		return;
	case SOAK_RING_PUT:
		soak_ring_op(t);
		return;
	case SOAK_VALUE_ADD:
		soak_values_op(t);
		return;
	case SOAK_ZONE_ALLOC:
		soak_zone_op(t);
		return;
	case SOAK_OBJCACHE_GET:
		soak_objcache_op(t);
		return;
	case SOAK_WINDOW:
		soak_window_op(t);
		return;
	case SOAK_REF:
		soak_ref_op(t);
		return;
	case SOAK_SECTION:
		soak_grace_op(t);
		return;
	case SOAK_READ_LOCK:
		soak_rwlock_op(t);
		return;
	default:
		soak_local_op(t, odds[i].kind);
	}
	t->slot->journal[0].count[odds[i].kind]++;
}
