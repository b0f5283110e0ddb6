/* SPDX-License-Identifier: MIT */
/*
 * test_stats.c - counters that belong together: fields, updates, reads and resets, in one
 * process and by key, and refusals.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <percpu/stats.h>
#include <percpu/status.h>

#include "support.h"

#define ROUNDS 100000
#define THREADS 6

struct pair {
	uint64_t packets, bytes;
};

struct port {
	uint64_t packets, bytes, drops;
};

struct wide {
	uint64_t field[32];
};

static void bad_input_is_refused(void **state)
{
	struct percpu_stats *s = NULL;
	struct percpu_region *r;
	uint64_t delta[65] = { 0 }, out[3];
	volatile size_t words = 1; /* updates of a constant number are inlined and not checked */

	(void)state;
	assert_int_equal(percpu_region_create(NULL, &r), 0);
	assert_int_equal(percpu_stats_create(0, 1, 0, &s), -EINVAL);
	assert_int_equal(percpu_stats_create(12, 1, 0, &s), -EINVAL);
	assert_int_equal(percpu_stats_create(8, 0, 0, &s), -EINVAL);
	assert_int_equal(percpu_stats_create(8, 1, 2, &s), -EINVAL);
	assert_int_equal(percpu_stats_create(8, 1, 0, NULL), -EINVAL);
	assert_int_equal(percpu_stats_create(8, SIZE_MAX, 0, &s), -EINVAL);
	assert_int_equal(percpu_stats_create(SIZE_MAX - 7, 1, 0, &s), -EINVAL);
	assert_int_equal(percpu_stats_create(65 * 8, 1, PERCPU_STATS_WHOLE, &s), -E2BIG);
	assert_int_equal(percpu_stats_create_in(NULL, 8, 1, 0, &s), -EINVAL);
	assert_int_equal(percpu_stats_create_in(r, PERCPU_LANE_SIZE, 1, 0, &s), -EINVAL);
	assert_int_equal(percpu_stats_attach(NULL, 0, 8, 1, 0, &s), -EINVAL);
	assert_int_equal(percpu_stats_attach(r, 0, 8, 1, 0, &s), -ENOENT);
	assert_null(s);

	assert_int_equal(percpu_stats_create(24, 2, 0, &s), 0);
	assert_int_equal(percpu_stats_update(s, 2, 0, delta, words), -EINVAL);
	assert_int_equal(percpu_stats_update(s, 0, 3, delta, words), -EINVAL);
	words = 2;
	assert_int_equal(percpu_stats_update(s, 0, 2, delta, words), -EINVAL);
	assert_int_equal(percpu_stats_update(s, 0, 0, delta, 0), -EINVAL);
	assert_int_equal(percpu_stats_fetch(s, 1, 2, out), -EINVAL);
	assert_int_equal(percpu_stats_fetch(s, 3, 0, out), -EINVAL);
	assert_int_equal(percpu_stats_fetch(s, 1, SIZE_MAX, out), -EINVAL);
	assert_int_equal(percpu_stats_snapshot(s, 1, SIZE_MAX, out), -EINVAL);
	assert_int_equal(percpu_stats_fetch(s, 0, 1, NULL), -EINVAL);
	assert_int_equal(percpu_stats_fetch(NULL, 0, 1, out), -EINVAL);
	assert_int_equal(percpu_stats_snapshot(s, 2, 1, out), -EINVAL);
	assert_int_equal(percpu_stats_fetch_zero(s, SIZE_MAX, 2, out), -EINVAL);
	percpu_stats_destroy(s);
	percpu_stats_destroy(NULL);

	/* More fields than an update may have. */
	assert_int_equal(percpu_stats_create(65 * 8, 1, 0, &s), 0);
	assert_int_equal(percpu_stats_update(s, 0, 0, delta, 65), -E2BIG);
	percpu_stats_destroy(s);
	percpu_region_close(r);
}

static void fields_are_apart(void **state)
{
	PERCPU_STATS(struct port) ports;
	struct port out[3];

	(void)state;
	assert_int_equal(PERCPU_STATS_CREATE(&ports, 3, 0), 0);
	for (unsigned i = 0; i < 3; i++) {
		PERCPU_STATS_ADD(ports, i, packets, 1 + i);
		PERCPU_STATS_ADD(ports, i, bytes, 10 + i);
		PERCPU_STATS_ADD(ports, i, drops, -1);
	}
	for (int how = 0; how < 4; how++) {
		memset(out, 0xff, sizeof(out));
		if (how % 2)
			assert_int_equal(PERCPU_STATS_SNAPSHOT(ports, 0, 3, out), 0);
		else
			assert_int_equal(PERCPU_STATS_FETCH(ports, 0, 3, out), 0);
		for (unsigned i = 0; i < 3; i++) {
			assert_int_equal(out[i].packets, 1 + i);
			assert_int_equal(out[i].bytes, 10 + i);
			assert_int_equal(out[i].drops, UINT64_MAX);
		}
	}
	/* Reset the second object alone. */
	assert_int_equal(PERCPU_STATS_FETCH_ZERO(ports, 1, 1, out), 0);
	assert_int_equal(out[0].packets, 2);
	assert_int_equal(PERCPU_STATS_FETCH(ports, 0, 3, out), 0);
	assert_int_equal(out[0].packets, 1);
	assert_int_equal(out[1].packets + out[1].bytes + out[1].drops, 0);
	assert_int_equal(out[2].packets, 3);
	PERCPU_STATS_DESTROY(ports);
}

/* Test every number of fields, with and without PERCPU_STATS_WHOLE. */
static void updates_add_all_fields(void **state)
{
	uint64_t delta[64], out[2 * 64];
	struct percpu_stats *s;

	(void)state;
	for (size_t w = 0; w < 64; w++)
		delta[w] = 3 * w + 1;
	for (unsigned flags = 0; flags <= PERCPU_STATS_WHOLE; flags++)
		for (size_t words = 1; words <= 64; words++) {
			assert_int_equal(percpu_stats_create(8 * words, 2, flags, &s), 0);
			for (int i = 0; i < 5; i++) {
				assert_int_equal(percpu_stats_update(s, 1, 0, delta, words), 0);
				assert_int_equal(percpu_stats_snapshot(s, 0, 2, out), 0);
				for (size_t w = 0; w < words; w++) {
					assert_int_equal(out[w], 0);
					assert_int_equal(out[words + w], delta[w] * (i + 1));
				}
			}
			percpu_stats_destroy(s);
		}
}

/* Test a group of fields that is not the first, and one field of an object in two copies. */
static void groups_of_fields(void **state)
{
	PERCPU_STATS(struct wide) wide;
	struct wide out;
	const uint64_t one[2] = { 1, 2 };

	(void)state;
	for (unsigned flags = 0; flags <= PERCPU_STATS_WHOLE; flags++) {
		assert_int_equal(PERCPU_STATS_CREATE(&wide, 1, flags), 0);
		assert_int_equal(percpu_stats_update(PERCPU_STATS_OF(wide), 0, 30, one, 2), 0);
		PERCPU_STATS_ADD(wide, 0, field[5], 7);
		assert_int_equal(PERCPU_STATS_SNAPSHOT(wide, 0, 1, &out), 0);
		for (int w = 0; w < 32; w++)
			assert_int_equal(out.field[w], w == 30 ? 1 : w == 31 ? 2 : w == 5 ? 7 : 0);
		PERCPU_STATS_DESTROY(wide);
	}
}

struct work {
	PERCPU_STATS(struct pair) pair;
	PERCPU_STATS(struct wide) wide;
	unsigned rounds;
};

static void count(unsigned i, void *arg)
{
	struct work *work = arg;
	struct wide delta;

	for (int w = 0; w < 32; w++)
		delta.field[w] = w;
	for (unsigned n = 0; n < work->rounds; n++) {
		PERCPU_STATS_UPDATE(work->pair, i % 2, .packets = 1, .bytes = 100);
		PERCPU_STATS_ADD(work->pair, 2, bytes, 3);
		if (n % 8 == 0)
			PERCPU_STATS_UPDATE_ALL(work->wide, 0, &delta);
	}
}

static void updates_are_exact(void **state)
{
	struct work work = { .rounds = test_rounds(ROUNDS) };
	uint64_t wide = (uint64_t)THREADS * ((work.rounds + 7) / 8);
	struct pair out[3];
	struct wide w;

	(void)state;
	assert_int_equal(PERCPU_STATS_CREATE(&work.pair, 3, 0), 0);
	assert_int_equal(PERCPU_STATS_CREATE(&work.wide, 1, PERCPU_STATS_WHOLE), 0);
	test_team_run(THREADS, count, &work);
	assert_int_equal(PERCPU_STATS_FETCH(work.pair, 0, 3, out), 0);
	assert_int_equal(out[0].packets, (uint64_t)THREADS / 2 * work.rounds);
	assert_int_equal(out[1].bytes, (uint64_t)THREADS / 2 * work.rounds * 100);
	assert_int_equal(out[2].bytes, (uint64_t)THREADS * work.rounds * 3);
	assert_int_equal(out[2].packets, 0);
	assert_int_equal(PERCPU_STATS_SNAPSHOT(work.wide, 0, 1, &w), 0);
	for (int i = 0; i < 32; i++)
		assert_int_equal(w.field[i], wide * (uint64_t)i);
	PERCPU_STATS_DESTROY(work.pair);
	PERCPU_STATS_DESTROY(work.wide);
}

/* Test that a new object is 0 in memory that was used before. */
static void new_objects_are_zero(void **state)
{
	struct percpu_stats *s;
	uint64_t delta[8] = { 9, 9, 9, 9, 9, 9, 9, 9 }, out[24];

	(void)state;
	for (int i = 0; i < 50; i++) {
		assert_int_equal(percpu_stats_create(64, 3, i % 2, &s), 0);
		assert_int_equal(percpu_stats_fetch(s, 0, 3, out), 0);
		for (int w = 0; w < 24; w++)
			assert_int_equal(out[w], 0);
		for (size_t w = 0; w < 8; w++)
			percpu_stats_add(s, i % 3, w, 5);
		assert_int_equal(percpu_stats_update(s, 1, 0, delta, 2), 0);
		assert_int_equal(percpu_stats_snapshot(s, 0, 3, out), 0);
		assert_int_equal(out[8], 9 + (i % 3 == 1 ? 5 : 0));
		percpu_stats_destroy(s);
	}
}

/* Test objects of several blocks: objects are summed by blocks, and reset by blocks of fields. */
static void blocks_are_read_in_order(void **state)
{
	enum { OBJECTS = 900, FIELDS = 3, WIDE = 200 };
	static uint64_t out[OBJECTS * FIELDS];
	struct percpu_stats *s;
	int was;

	(void)state;
	assert_int_equal(percpu_stats_create(8 * FIELDS, OBJECTS, 0, &s), 0);
	for (size_t i = 0; i < OBJECTS; i++)
		for (size_t w = 0; w < FIELDS; w++)
			percpu_stats_add(s, i, w, (int64_t)(i * FIELDS + w));
	for (int how = 0; how < 2; how++) {
		if (how == 0)
			assert_int_equal(percpu_stats_fetch(s, 0, OBJECTS, out), 0);
		else
			assert_int_equal(percpu_stats_snapshot(s, 0, OBJECTS, out), 0);
		for (size_t i = 0; i < OBJECTS * FIELDS; i++)
			assert_int_equal(out[i], i);
	}
	percpu_stats_destroy(s);

	assert_int_equal(percpu_stats_create(8 * WIDE, 1, 0, &s), 0);
	for (int round = 0; round < 2; round++) {
		for (size_t w = 0; w < WIDE; w++)
			percpu_stats_add(s, 0, w, (int64_t)w);
		assert_int_equal(percpu_stats_fetch_zero(s, 0, 1, out), 0);
		for (size_t w = 0; w < WIDE; w++)
			assert_int_equal(out[w], w);
		assert_int_equal(percpu_stats_snapshot(s, 0, 1, out), 0);
		for (size_t w = 0; w < WIDE; w++)
			assert_int_equal(out[w], 0);
	}
	percpu_stats_destroy(s);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	assert_int_equal(was, PTHREAD_CANCEL_ENABLE); /* as before the snapshots */
}

static void large_sets_have_memory_of_their_own(void **state)
{
	const size_t n = 100000;
	struct percpu_stats *s;
	struct pair out;

	(void)state;
	assert_int_equal(percpu_stats_create(sizeof(out), n, 0, &s), 0);
	percpu_stats_add(s, 0, 0, 1);
	percpu_stats_add(s, n - 1, 1, 2);
	assert_int_equal(percpu_stats_snapshot(s, n - 1, 1, &out), 0);
	assert_int_equal(out.packets, 0);
	assert_int_equal(out.bytes, 2);
	assert_int_equal(percpu_stats_fetch_zero(s, 0, 1, &out), 0);
	assert_int_equal(out.packets, 1);
	assert_int_equal(percpu_stats_key(s), 0);
	percpu_stats_destroy(s);
}

static int count_elsewhere(void *arg)
{
	struct percpu_region *r;
	struct percpu_stats *s;
	uint64_t delta[3] = { 1, 2, 3 };

	test_child_require(percpu_region_open(arg, PERCPU_REGION_WRITE, NULL, &r) == 0, "open");
	test_child_require(percpu_stats_attach(r, percpu_region_root(r, 0), 24, 5, 0, &s) == 0,
			   "attach");
	for (int i = 0; i < 1000; i++) {
		percpu_stats_add(s, 4, 0, 1);
		test_child_require(percpu_stats_update(s, 4, 0, delta, 3) == 0, "update");
	}
	percpu_stats_detach(s);
	percpu_region_close(r);
	return 0;
}

static void processes_count_together(void **state)
{
	char *path = (char *)test_path("stats");
	struct percpu_region *r, *read_only;
	struct percpu_stats *s, *t = NULL;
	struct port out;
	uint64_t key;
	int e;

	(void)state;
	assert_int_equal(test_region_new(path, NULL, &r), 0);
	assert_int_equal(percpu_stats_create_in(r, 24, 5, 0, &s), 0);
	key = percpu_stats_key(s);
	assert_int_equal(percpu_region_set_root(r, 0, 0, key), 0);
	test_in_child(count_elsewhere, path);
	test_in_child(count_elsewhere, path);
	e = percpu_stats_snapshot(s, 4, 1, &out);
	assert_true(e == 0 || e == -EPERM); /* a cpuset excludes a CPU */
	assert_int_equal(percpu_stats_fetch(s, 4, 1, &out), 0);
	assert_int_equal(out.packets, 4000);
	assert_int_equal(out.drops, 6000);

	/* Objects of another layout, or at another key, are not found. */
	assert_int_equal(percpu_stats_attach(r, key, 32, 5, 0, &t), -ENOENT);
	assert_int_equal(percpu_stats_attach(r, key, 24, 4, 0, &t), -ENOENT);
	assert_int_equal(percpu_stats_attach(r, key, 24, 5, PERCPU_STATS_WHOLE, &t), -ENOENT);
	assert_int_equal(percpu_stats_attach(r, key + 64, 24, 5, 0, &t), -ENOENT);
	assert_int_equal(percpu_stats_attach(r, key + 1, 24, 5, 0, &t), -ENOENT);
	assert_null(t);

	/* A process that opened the region to read can fetch. */
	assert_int_equal(percpu_region_open(path, 0, NULL, &read_only), 0);
	assert_int_equal(percpu_stats_attach(read_only, key, 24, 5, 0, &t), 0);
	assert_int_equal(percpu_stats_fetch(t, 4, 1, &out), 0);
	assert_int_equal(out.packets > 0, 1);
	assert_int_equal(percpu_stats_snapshot(t, 4, 1, &out), -EROFS);
	percpu_stats_detach(t);
	percpu_region_close(read_only);
	percpu_stats_destroy(s);
	percpu_region_close(r);
}

/* Test that a damaged bank word does not lead out of the object. */
static void damaged_bank_stays_inside(void **state)
{
	uint64_t before[16], after[16];
	struct percpu_stats *s[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(percpu_stats_create(16, 8, 0, &s[i]), 0);
	assert_int_equal(percpu_stats_fetch(s[0], 0, 8, before), 0);
	for (int bit = 0; bit < 64; bit++) {
		*(uint64_t *)(uintptr_t)s[1]->bank = UINT64_C(1) << bit;
		for (int i = 0; i < 8; i++)
			percpu_stats_add(s[1], i, 1, 1);
		*(uint64_t *)(uintptr_t)s[1]->bank = UINT64_MAX << bit;
		for (int i = 0; i < 8; i++)
			percpu_stats_add(s[1], i, 1, 1);
	}
	for (int i = 0; i < 3; i += 2) {
		assert_int_equal(percpu_stats_fetch(s[i], 0, 8, after), 0);
		assert_memory_equal(before, after, sizeof(after));
	}
	assert_int_equal(percpu_stats_fetch_zero(s[1], 0, 8, after), 0);
	for (int i = 0; i < 3; i++)
		percpu_stats_destroy(s[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_input_is_refused),
		cmocka_unit_test(fields_are_apart),
		cmocka_unit_test(updates_add_all_fields),
		cmocka_unit_test(groups_of_fields),
		cmocka_unit_test(updates_are_exact),
		cmocka_unit_test(new_objects_are_zero),
		cmocka_unit_test(blocks_are_read_in_order),
		cmocka_unit_test(large_sets_have_memory_of_their_own),
		cmocka_unit_test(processes_count_together),
		cmocka_unit_test(damaged_bank_stays_inside),
	};

	return cmocka_run_group_tests_name("stats", tests, NULL, test_remove_paths);
}
