/* SPDX-License-Identifier: MIT */
/*
 * stats.c - the soak test's operations on statistics, private and shared ones.
 *
 * Each set has two objects. All fields of the first change together, and by the same number, so
 * that every snapshot must find them equal. It is read and reset at times. Single fields of the
 * second grow, in any order, and are never reset, so that its snapshots never go back. To the model
 * an object is one number: any of the equal fields of the first, and the sum of the fields of the
 * second.
 */
#include <errno.h>

#include <percpu/stats.h>

#include "../support.h"
#include "soak.h"

#define MAX_FIELDS 11
#define TOGETHER 0
#define SINGLE 1

static const struct {
	unsigned fields;
	unsigned flags;
} schema[SOAK_SETS] = { { 2, 0 }, { 4, 0 }, { 8, 0 }, { MAX_FIELDS, PERCPU_STATS_WHOLE } };

static struct percpu_stats *sets[2][SOAK_SETS]; /* private, shared */

void soak_stats_create(void)
{
	for (int i = 0; i < SOAK_SETS; i++)
		soak_require_equal("create statistics", 0,
				   (uint64_t)percpu_stats_create(8 * schema[i].fields, 2,
								 schema[i].flags, &sets[0][i]));
}

void soak_stats_destroy(void)
{
	for (int i = 0; i < SOAK_SETS; i++)
		percpu_stats_destroy(sets[0][i]);
}

void soak_shared_stats_create(struct percpu_region *r)
{
	for (int i = 0; i < SOAK_SETS; i++) {
		soak_require_equal("create statistics in the region", 0,
				   (uint64_t)percpu_stats_create_in(r, 8 * schema[i].fields, 2,
								    schema[i].flags, &sets[1][i]));
		soak_board->stats_key[i] = percpu_stats_key(sets[1][i]);
	}
}

void soak_shared_stats_open(struct percpu_region *r)
{
	for (int i = 0; i < SOAK_SETS; i++)
		soak_require_equal("attach to statistics", 0,
				   (uint64_t)percpu_stats_attach(r, soak_board->stats_key[i],
								 8 * schema[i].fields, 2,
								 schema[i].flags, &sets[1][i]));
}

void soak_shared_stats_close(void)
{
	for (int i = 0; i < SOAK_SETS; i++)
		percpu_stats_detach(sets[1][i]);
}

typedef int read_fn(const struct percpu_stats *s, size_t first, size_t n, void *out);

/* Read. Where some CPU cannot be fenced there is no snapshot of shared objects. Other readers
 * may disturb a read; on a busy machine the turn of each may take more than a second. Then try
 * again, but not for ever. */
static bool has_read(const char *what, read_fn *read, bool shared, unsigned set, size_t first,
		     size_t n, uint64_t *out)
{
	int r = -EAGAIN;

	for (int i = 0; i < 10 && r == -EAGAIN; i++)
		r = read(sets[shared][set], first, n, out);
	soak_require(r == 0 || (shared && (r == -EPERM || r == -ETIMEDOUT)), what, 0, (uint64_t)r);
	return r == 0;
}

/* Return the number that the model knows for an object. */
static uint64_t value(const uint64_t *field, unsigned fields, unsigned object)
{
	uint64_t sum = field[0];

	for (unsigned i = 1; i < fields; i++) {
		if (object == TOGETHER)
			soak_require_equal("fields that were updated together", field[0], field[i]);
		else
			sum += field[i];
	}
	return sum;
}

uint64_t soak_stats_fetch(bool shared, uint32_t object)
{
	const struct percpu_stats *s = sets[shared][object / 2];
	unsigned fields = schema[object / 2].fields;
	uint64_t out[MAX_FIELDS];

	if (!has_read("snapshot", percpu_stats_snapshot, shared, object / 2, object % 2, 1, out))
		soak_require_equal("fetch", 0, (uint64_t)percpu_stats_fetch(s, object % 2, 1, out));
	return value(out, fields, object % 2);
}

bool soak_shared_stats_zero(uint32_t object)
{
	uint64_t out[MAX_FIELDS];

	return has_read("fetch_zero", percpu_stats_fetch_zero, true, object / 2, object % 2, 1,
			out);
}

/* Update with a constant number of fields, to have the inlined sequences. Return whether the
 * update was done. */
static bool update(const struct percpu_stats *s, unsigned fields, uint64_t n)
{
	uint64_t delta[MAX_FIELDS];
	int r;

	for (unsigned i = 0; i < fields; i++)
		delta[i] = n;
	if (fields == 2)
		r = percpu_stats_update(s, TOGETHER, 0, delta, 2);
	else if (fields == 4)
		r = percpu_stats_update(s, TOGETHER, 0, delta, 4);
	else if (fields == 8)
		r = percpu_stats_update(s, TOGETHER, 0, delta, 8);
	else
		r = percpu_stats_update(s, TOGETHER, 0, delta, fields);
	return soak_did("update of statistics", r, 0);
}

static void count(struct soak_thread *t, int who, bool shared, uint32_t object, uint64_t n,
		  unsigned times)
{
	struct soak_journal *j = &t->slot->journal[who];
	const struct percpu_stats *s = sets[shared][object / 2];
	struct soak_pending p = { SOAK_ADDING, SOAK_STATS + object, 1, { (int64_t)n } };
	uint64_t *done = shared ? &j->added[p.object] : &t->sum[who][SOAK_OF_STATS + object];
	unsigned fields = schema[object / 2].fields;

	if (shared)
		soak_begin(j, &p);
	for (unsigned i = 0; i < times; i++) {
		if (object % 2 != TOGETHER)
			percpu_stats_add(s, SINGLE, (n + i) % fields, (int64_t)n);
		else if (!update(s, fields, n))
			continue;
		__atomic_store_n(done, *done + n, __ATOMIC_RELEASE);
	}
	if (shared)
		soak_end(j);
	j->count[object % 2 == TOGETHER ? SOAK_STATS_UPDATE : SOAK_STATS_ADD] += times;
}

static void snapshot(struct soak_thread *t, bool shared, unsigned set)
{
	uint64_t out[2 * MAX_FIELDS], v;
	unsigned fields = schema[set].fields;

	if (!has_read("snapshot", percpu_stats_snapshot, shared, set, 0, 2, out))
		return;
	(void)value(out, fields, TOGETHER);
	v = value(out + fields, fields, SINGLE);
	soak_require(v >= t->single[shared][set], "snapshots of what grows never go back",
		     t->single[shared][set], v);
	t->single[shared][set] = v;
	t->slot->journal[0].count[shared ? SOAK_SHARED_SNAPSHOT : SOAK_SNAPSHOT]++;
}

static void take(struct soak_thread *t, bool shared, unsigned set)
{
	struct soak_pending p = { SOAK_TAKING, SOAK_STATS + 2 * set, 1, { 0 } };
	struct soak_journal *j = &t->slot->journal[0];
	uint64_t out[MAX_FIELDS], v = 0;

	if (shared)
		soak_begin(j, &p);
	if (has_read("fetch_zero", percpu_stats_fetch_zero, shared, set, TOGETHER, 1, out))
		v = value(out, schema[set].fields, TOGETHER);
	if (shared) {
		j->taken[p.object] += v;
		soak_end(j);
	} else {
		t->sum[0][SOAK_OF_STATS + 2 * set] -= v;
	}
	j->count[SOAK_STATS_TAKE]++;
}

void soak_stats_signal(struct soak_thread *t)
{
	uint64_t r = t->slot->journal[1].count[SOAK_SIGNAL];

	if (r % 4 == 0)
		count(t, 1, r / 64 % 2, (uint32_t)(r / 4 % (2 * SOAK_SETS)), 3, 1);
}

/* Do one operation. Most are on the object whose snapshots must be equal, in tight loops: a
 * wrong state is there only for some nanoseconds. */
void soak_stats_op(struct soak_thread *t, bool shared)
{
	uint64_t r = test_random(&t->random), kind = r % 100;
	uint32_t object = (uint32_t)(r >> 8) % (2 * SOAK_SETS);
	unsigned times = 1 + (unsigned)(r >> 16) % 3000;

	if (r / 128 % 2)
		object = 2 * (SOAK_SETS - 1) + TOGETHER;
	if (shared)
		times = 1 + times / 16; /* the fallbacks lock a file */
	if (kind < (shared ? 2 : 20)) {
		/* A shared snapshot fences all CPUs. */
		for (unsigned i = 0; i < (shared ? 1 : times / 8); i++)
			snapshot(t, shared, object / 2);
	} else if (kind < (shared ? 4 : 30)) {
		take(t, shared, object / 2);
	} else {
		count(t, 0, shared, object, 1 + (r >> 44), times);
	}
}
