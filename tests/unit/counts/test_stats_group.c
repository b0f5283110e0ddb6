/* SPDX-License-Identifier: MIT */
/*
 * test_stats_group.c - groups of statistics: updates of two objects, objects that come and go, reads
 * and resets, in one process and by key, and refusals.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <percpu/stats_group.h>
#include <percpu/status.h>

#include "support.h"

#define GROUP_ROUNDS 20000
#define GROUP_THREADS 6
#define TOTALS 2
#define OBJECTS 70 /* more than a word of the bitmap has bits */

struct traffic {
	uint64_t packets, bytes;
};

static struct percpu_stats_group *new_group(size_t size, size_t totals, size_t n)
{
	struct percpu_stats_group *g;

	assert_int_equal(percpu_stats_group_create(size, totals, n, &g), 0);
	return g;
}

static size_t new_object(const struct percpu_stats_group *g)
{
	size_t i = SIZE_MAX;

	assert_int_equal(percpu_stats_group_alloc(g, &i), 0);
	return i;
}

static void bad_groups_are_refused(void **state)
{
	struct percpu_stats_group *g = NULL;
	struct percpu_region *r;

	(void)state;
	assert_int_equal(percpu_region_create(NULL, &r), 0);
	assert_int_equal(percpu_stats_group_create(0, 1, 1, &g), -EINVAL);
	assert_int_equal(percpu_stats_group_create(12, 1, 1, &g), -EINVAL);
	assert_int_equal(percpu_stats_group_create(8, 1, 0, &g), -EINVAL);
	assert_int_equal(percpu_stats_group_create(8, 0, 1, &g), -EINVAL);
	assert_int_equal(percpu_stats_group_create(8, 2, 1, &g), -EINVAL);
	assert_int_equal(percpu_stats_group_create(8, 1, 1, NULL), -EINVAL);
	assert_int_equal(percpu_stats_group_create(8, 1, SIZE_MAX, &g), -EINVAL);
	assert_int_equal(percpu_stats_group_create(SIZE_MAX - 7, 1, 1, &g), -EINVAL);
	assert_int_equal(percpu_stats_group_create(65 * 8, 1, 1, &g), -E2BIG);
	assert_int_equal(percpu_stats_group_create_in(NULL, 8, 1, 1, &g), -EINVAL);
	assert_int_equal(percpu_stats_group_create_in(r, 16, 1, 2045, &g), -EINVAL);
	assert_int_equal(percpu_stats_group_create_in(r, 16, 1, 2044, &g), 0);
	percpu_stats_group_destroy(g);
	g = NULL;
	assert_int_equal(percpu_stats_group_attach(NULL, 0, 8, 1, 1, &g), -EINVAL);
	assert_int_equal(percpu_stats_group_attach(r, 0, 8, 1, 1, &g), -ENOENT);
	assert_null(g);
	percpu_stats_group_destroy(NULL);
	percpu_stats_group_detach(NULL);
	percpu_region_close(r);
}

static void bad_calls_are_refused(void **state)
{
	struct percpu_stats_group *g = new_group(16, TOTALS, OBJECTS);
	const uint64_t n[3] = { 1, 2, 3 };
	uint64_t out[2 * OBJECTS], ns;
	const uint64_t nothing[2] = { 0, 0 };
	volatile size_t words = 2; /* updates of a constant number are inlined and not checked */

	(void)state;
	percpu_seq_attach(); /* so that what is inlined runs */
	assert_int_equal(percpu_stats_group_update_both(g, 0, nothing, 1, nothing, 2), 0);
	assert_int_equal(percpu_stats_group_update_both(g, OBJECTS, n, 0, n, words), -EINVAL);
	assert_int_equal(percpu_stats_group_update_both(g, 0, n, OBJECTS, n, words), -EINVAL);
	assert_int_equal(percpu_stats_group_update_both(g, 0, n, 1, n, 1), -EINVAL);
	assert_int_equal(percpu_stats_group_update_both(g, 0, n, 1, n, 3), -EINVAL);
	assert_int_equal(percpu_stats_group_update_both(g, 0, n, 1, n, 0), -EINVAL);
	words = SIZE_MAX;
	assert_int_equal(percpu_stats_group_update(g, 0, n, words), -EINVAL);
	assert_int_equal(percpu_stats_group_fetch(g, OBJECTS, 1, out), -EINVAL);
	assert_int_equal(percpu_stats_group_fetch(g, OBJECTS + 1, 0, out), -EINVAL);
	assert_int_equal(percpu_stats_group_fetch(g, 1, SIZE_MAX, out), -EINVAL);
	assert_int_equal(percpu_stats_group_fetch(g, 0, 1, NULL), -EINVAL);
	assert_int_equal(percpu_stats_group_fetch(NULL, 0, 1, out), -EINVAL);
	assert_int_equal(percpu_stats_group_snapshot(g, 1, OBJECTS, out, &ns), -EINVAL);
	assert_int_equal(percpu_stats_group_snapshot(NULL, 0, 1, out, &ns), -EINVAL);
	assert_int_equal(percpu_stats_group_fetch_zero(g, 0, OBJECTS + 1, out, &ns), -EINVAL);
	assert_int_equal(percpu_stats_group_fetch_zero(g, 0, 1, NULL, &ns), -EINVAL);
	assert_int_equal(percpu_stats_group_alloc(NULL, &(size_t){ 0 }), -EINVAL);
	assert_int_equal(percpu_stats_group_alloc(g, NULL), -EINVAL);
	assert_int_equal(percpu_stats_group_free(NULL, TOTALS, 0), -EINVAL);
	assert_int_equal(percpu_stats_group_free(g, TOTALS, 0), -EINVAL); /* not in use */
	assert_int_equal(percpu_stats_group_free(g, 1, 0), -EINVAL);	  /* a total */
	assert_int_equal(percpu_stats_group_free(g, OBJECTS, 0), -EINVAL);
	assert_int_equal(new_object(g), TOTALS);
	assert_int_equal(new_object(g), TOTALS + 1);
	assert_int_equal(percpu_stats_group_free(g, TOTALS, TOTALS), -EINVAL); /* to no total */
	assert_int_equal(percpu_stats_group_free(g, TOTALS, TOTALS + 1), -EINVAL);
	assert_int_equal(percpu_stats_group_free(g, TOTALS, 0), 0);
	assert_int_equal(percpu_stats_group_free(g, TOTALS, 0), -EINVAL);
	assert_int_equal(percpu_stats_group_fetch(g, 0, OBJECTS, out), 0);
	for (size_t w = 0; w < 2 * OBJECTS; w++)
		assert_int_equal(out[w], 0);
	percpu_stats_group_destroy(g);
}

/* Test every number of fields, inlined and not, of two objects and of the same one. */

static int update_inlined(const struct percpu_stats_group *g, size_t a, const uint64_t *na,
			  size_t b, const uint64_t *nb)
{
	switch (g->words) {
	case 1:
		return percpu_stats_group_update_both(g, a, na, b, nb, 1);
	case 2:
		return percpu_stats_group_update_both(g, a, na, b, nb, 2);
	case 3:
		return percpu_stats_group_update_both(g, a, na, b, nb, 3);
	case 4:
		return percpu_stats_group_update_both(g, a, na, b, nb, 4);
	case 5:
		return percpu_stats_group_update_both(g, a, na, b, nb, 5);
	case 8:
		return percpu_stats_group_update_both(g, a, na, b, nb, 8);
	default:
		return percpu_stats_group_update_both(g, a, na, b, nb, g->words);
	}
}

static void check_fields(const struct percpu_stats_group *g, uint64_t *expected)
{
	uint64_t out[5 * PERCPU_STATS_MAX_COMMIT];

	memset(out, 0xff, sizeof(out));
	assert_int_equal(percpu_stats_group_fetch(g, 0, 5, out), 0);
	assert_memory_equal(out, expected, 5 * g->words * 8);
	memset(out, 0xff, sizeof(out));
	assert_int_equal(percpu_stats_group_snapshot(g, 0, 5, out, NULL), 0);
	assert_memory_equal(out, expected, 5 * g->words * 8);
}

static void updates_add_to_two_objects(void **state)
{
	uint64_t na[PERCPU_STATS_MAX_COMMIT], nb[PERCPU_STATS_MAX_COMMIT];
	uint64_t expected[5 * PERCPU_STATS_MAX_COMMIT];
	struct percpu_stats_group *g;

	(void)state;
	for (size_t w = 0; w < PERCPU_STATS_MAX_COMMIT; w++) {
		na[w] = 3 * w + 1;
		nb[w] = (uint64_t)(7 * w + 5) << 32;
	}
	for (size_t words = 1; words <= PERCPU_STATS_MAX_COMMIT; words++) {
		g = new_group(8 * words, TOTALS, 5);
		memset(expected, 0, sizeof(expected));
		for (unsigned i = 0; i < 6; i++) {
			const size_t a = 4 - i % 2, b = i / 2 % 2 ? 4 : 1; /* 4 and 4, too */

			assert_int_equal(
				i < 3 ? update_inlined(g, a, na, b, nb) :
					percpu_stats_group_update_slow(g, a, na, b, nb, words),
				0);
			for (size_t w = 0; w < words; w++) {
				expected[a * words + w] += na[w];
				expected[b * words + w] += nb[w];
			}
			check_fields(g, expected);
		}
		assert_int_equal(percpu_stats_group_update(g, 2, na, words), 0);
		for (size_t w = 0; w < words; w++)
			expected[2 * words + w] += na[w];
		check_fields(g, expected);
		percpu_stats_group_destroy(g);
	}
}

/* The number of a constant is inlined. */
static void one_object_is_updated_alone(void **state)
{
	struct percpu_stats_group *g = new_group(16, TOTALS, 4);
	const struct traffic n = { 1, 60 };
	struct traffic out[4];

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(percpu_stats_group_update(g, 3, &n.packets, 2), 0);
	assert_int_equal(percpu_stats_group_fetch(g, 0, 4, out), 0);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(out[i].packets, i == 3 ? 10 : 0);
		assert_int_equal(out[i].bytes, i == 3 ? 600 : 0);
	}
	percpu_stats_group_destroy(g);
}

static void count(const struct percpu_stats_group *g, size_t flow, size_t total, uint64_t bytes)
{
	const struct traffic n = { 1, bytes };

	assert_int_equal(percpu_stats_group_update_both(g, flow, &n.packets, total, &n.packets, 2),
			 0);
}

static struct traffic read_object(const struct percpu_stats_group *g, size_t i)
{
	struct traffic one;

	assert_int_equal(percpu_stats_group_fetch(g, i, 1, &one), 0);
	return one;
}

/* Fill the group twice, so that each number is used again. */
static void numbers_are_used_again(void **state)
{
	struct percpu_stats_group *g = new_group(16, TOTALS, OBJECTS);
	bool seen[OBJECTS];
	size_t i;

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		memset(seen, 0, sizeof(seen));
		for (unsigned k = TOTALS; k < OBJECTS; k++) {
			i = new_object(g);
			assert_in_range(i, TOTALS, OBJECTS - 1);
			assert_false(seen[i]);
			seen[i] = true;
			assert_int_equal(read_object(g, i).packets, 0);
			count(g, i, 0, 10);
		}
		i = 99;
		assert_int_equal(percpu_stats_group_alloc(g, &i), -ENOSPC);
		assert_int_equal(i, 99);
		for (size_t k = TOTALS; k < OBJECTS; k++)
			assert_int_equal(percpu_stats_group_free(g, k, 1), 0);
		assert_int_equal(read_object(g, 0).packets, (round + 1) * (OBJECTS - TOTALS));
		assert_int_equal(read_object(g, 1).bytes, (round + 1) * (OBJECTS - TOTALS) * 10);
	}
	/* The last one that is free is found, wherever the search begins. */
	for (unsigned k = TOTALS; k < OBJECTS; k++)
		(void)new_object(g);
	for (size_t k = TOTALS; k < OBJECTS; k++) {
		assert_int_equal(percpu_stats_group_free(g, k, 1), 0);
		assert_int_equal(new_object(g), k);
		if (k > TOTALS) {
			assert_int_equal(percpu_stats_group_free(g, TOTALS, 1), 0);
			assert_int_equal(new_object(g), TOTALS);
		}
	}
	percpu_stats_group_destroy(g);
}

static void what_is_freed_goes_to_its_total(void **state)
{
	struct percpu_stats_group *g = new_group(16, TOTALS, OBJECTS);
	const size_t a = new_object(g), b = new_object(g);

	(void)state;
	count(g, a, b, 100);
	count(g, a, a, 1);
	assert_int_equal(percpu_stats_group_free(g, a, 1), 0);
	assert_int_equal(read_object(g, 1).packets, 3);
	assert_int_equal(read_object(g, 1).bytes, 102);
	assert_int_equal(read_object(g, a).packets, 0);
	assert_int_equal(read_object(g, 0).packets, 0);
	assert_int_equal(read_object(g, b).bytes, 100);
	assert_int_equal(percpu_stats_group_free(g, b, 0), 0);
	assert_int_equal(read_object(g, 0).bytes, 100);

	/* A late update is kept, and goes to the same total when the number is used again. */
	count(g, b, 1, 1000);
	assert_int_equal(read_object(g, b).bytes, 1000);
	for (size_t k = TOTALS; k < OBJECTS; k++)
		assert_int_equal(read_object(g, new_object(g)).packets, 0);
	assert_int_equal(read_object(g, 0).bytes, 1100);
	assert_int_equal(read_object(g, 1).bytes, 1102);
	percpu_stats_group_destroy(g);
}

static void resets_change_no_other_object(void **state)
{
	struct percpu_stats_group *g = new_group(16, TOTALS, OBJECTS);
	const size_t a = new_object(g), b = new_object(g);
	struct traffic out[OBJECTS];
	uint64_t ns = 0;

	(void)state;
	count(g, a, 0, 10);
	count(g, b, 0, 20);
	assert_int_equal(percpu_stats_group_fetch_zero(g, a, 1, out, &ns), 0);
	assert_int_equal(out[0].bytes, 10);
	assert_true(ns != 0);
	assert_int_equal(read_object(g, a).packets, 0);
	assert_int_equal(read_object(g, b).bytes, 20);
	assert_int_equal(read_object(g, 0).bytes, 30); /* the total keeps what the flow had */
	count(g, a, 0, 5);
	assert_int_equal(percpu_stats_group_fetch_zero(g, 0, OBJECTS, out, NULL), 0);
	assert_int_equal(out[a].bytes, 5);
	assert_int_equal(out[0].bytes, 35);
	for (size_t i = 0; i < OBJECTS; i++)
		assert_int_equal(read_object(g, i).packets, 0);

	/* A reset object that is freed adds only what it has counted since. */
	count(g, a, 0, 7);
	assert_int_equal(percpu_stats_group_free(g, a, 1), 0);
	assert_int_equal(read_object(g, 1).bytes, 7);
	percpu_stats_group_destroy(g);
}

static uint64_t real_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void snapshots_have_the_time_of_their_moment(void **state)
{
	struct percpu_stats_group *g = new_group(16, TOTALS, OBJECTS);
	uint64_t before, ns, after;
	struct traffic out;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		before = real_ns();
		assert_int_equal(percpu_stats_group_snapshot(g, 0, 1, &out, &ns), 0);
		after = real_ns();
		assert_true(after < before || (before <= ns && ns <= after)); /* or it was set */
	}
	percpu_stats_group_destroy(g);
}

/* Threads count for flows that come and go, while readers look. */

static struct {
	struct percpu_stats_group *group;
	uint64_t reset, moments, torn, wrong;
	bool over;
} many;

/* Total 0 counts everything, total 1 gets what flows had. So what all but total 0 have is the same
 * at each moment. */
static void check_moment(const struct traffic *now)
{
	struct traffic sum = { 0, 0 };

	for (size_t i = 1; i < OBJECTS; i++) {
		sum.packets += now[i].packets;
		sum.bytes += now[i].bytes;
		many.wrong += now[i].packets >> 32 != 0; /* below 0 */
	}
	many.torn += sum.packets != now[0].packets || sum.bytes != now[0].bytes ||
		     sum.bytes != 100 * sum.packets;
	many.moments++;
}

static void look_at_moments(void)
{
	struct traffic now[OBJECTS];
	int e;

	while (!__atomic_load_n(&many.over, __ATOMIC_RELAXED)) {
		e = percpu_stats_group_snapshot(many.group, 0, OBJECTS, now, NULL);
		many.wrong += e != 0 && e != -EAGAIN && e != -ETIMEDOUT;
		if (e == 0)
			check_moment(now);
	}
}

static void count_flows(unsigned i)
{
	size_t flow = new_object(many.group);

	for (unsigned k = 0; k < GROUP_ROUNDS; k++) {
		count(many.group, flow, 0, 100);
		if (k % 64 == i) {
			assert_int_equal(percpu_stats_group_free(many.group, flow, 1), 0);
			flow = new_object(many.group);
		}
	}
	assert_int_equal(percpu_stats_group_free(many.group, flow, 1), 0);
	if (i == 1)
		__atomic_store_n(&many.over, true, __ATOMIC_RELAXED);
}

static void count_or_look(unsigned i, void *arg)
{
	(void)arg;
	if (i == 0)
		look_at_moments();
	else
		count_flows(i);
}

static void snapshots_have_all_of_an_update(void **state)
{
	struct traffic now[OBJECTS];

	(void)state;
	memset(&many, 0, sizeof(many));
	many.group = new_group(16, TOTALS, OBJECTS);
	test_team_run(GROUP_THREADS, count_or_look, NULL);
	assert_int_equal(percpu_stats_group_snapshot(many.group, 0, OBJECTS, now, NULL), 0);
	check_moment(now);
	assert_int_equal(now[0].packets, (GROUP_THREADS - 1) * GROUP_ROUNDS);
	assert_int_equal(now[1].packets, now[0].packets);
	assert_int_equal(many.torn, 0);
	assert_int_equal(many.wrong, 0);
	percpu_stats_group_destroy(many.group);
}

/* A thread resets one flow again and again, while others count for it and for the total. */
static void count_or_reset(unsigned i, void *arg)
{
	const size_t flow = *(size_t *)arg;
	struct traffic now;

	for (unsigned k = 0; k < GROUP_ROUNDS && i != 0; k++)
		count(many.group, flow, 0, 100);
	if (i == 1)
		__atomic_store_n(&many.over, true, __ATOMIC_RELAXED);
	while (i == 0 && !__atomic_load_n(&many.over, __ATOMIC_RELAXED))
		if (percpu_stats_group_fetch_zero(many.group, flow, 1, &now, NULL) == 0) {
			many.reset += now.packets;
			many.torn += now.bytes != 100 * now.packets;
		}
}

static void resets_are_exact(void **state)
{
	size_t flow;

	(void)state;
	memset(&many, 0, sizeof(many));
	many.group = new_group(16, TOTALS, OBJECTS);
	flow = new_object(many.group);
	test_team_run(GROUP_THREADS, count_or_reset, &flow);
	assert_int_equal(read_object(many.group, 0).packets, (GROUP_THREADS - 1) * GROUP_ROUNDS);
	assert_int_equal(many.reset + read_object(many.group, flow).packets,
			 (GROUP_THREADS - 1) * GROUP_ROUNDS);
	assert_int_equal(many.torn, 0);
	percpu_stats_group_destroy(many.group);
}

/* In a region, by key and by root. */

static struct percpu_region *new_region(void)
{
	struct percpu_region *r;

	unlink(test_path("group"));
	assert_int_equal(test_region_new(test_path("group"), NULL, &r), 0);
	return r;
}

static int count_in_child(void *arg)
{
	const uint64_t key = *(const uint64_t *)arg;
	struct percpu_stats_group *g;
	struct percpu_region *r;
	size_t flow;

	test_child_require(percpu_region_open(test_path("group"), PERCPU_REGION_WRITE, NULL, &r) ==
				   0,
			   "the region");
	test_child_require(percpu_stats_group_attach(r, key, 16, TOTALS, OBJECTS, &g) == 0,
			   "the group");
	test_child_require(percpu_stats_group_alloc(g, &flow) == 0 && flow == TOTALS + 1,
			   "an object");
	count(g, flow, 0, 100);
	percpu_stats_group_detach(g);
	percpu_region_close(r);
	return 0;
}

static void processes_share_a_group(void **state)
{
	struct percpu_region *r = new_region();
	struct percpu_stats_group *g, *other = NULL;
	struct traffic out[OBJECTS];
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_stats_group_create_in(r, 16, TOTALS, OBJECTS, &g), 0);
	key = percpu_stats_group_key(g);
	assert_true(key != 0);
	assert_int_equal(percpu_stats_group_attach(r, key, 8, TOTALS, OBJECTS, &other), -ENOENT);
	assert_int_equal(percpu_stats_group_attach(r, key, 16, 1, OBJECTS, &other), -ENOENT);
	assert_int_equal(percpu_stats_group_attach(r, key, 16, TOTALS, OBJECTS - 1, &other),
			 -ENOENT);
	assert_int_equal(percpu_stats_group_attach(r, key + 64, 16, TOTALS, OBJECTS, &other),
			 -ENOENT);
	assert_null(other);
	assert_int_equal(new_object(g), TOTALS);
	assert_int_equal(test_wait(test_fork(count_in_child, &key), 60), 0);
	assert_int_equal(read_object(g, TOTALS + 1).bytes, 100);
	if (percpu_stats_group_snapshot(g, 0, OBJECTS, out, NULL) == 0) /* or a cpuset */
		assert_int_equal(out[0].packets, 1);
	assert_int_equal(percpu_stats_group_free(g, TOTALS + 1, 1), 0);
	assert_int_equal(read_object(g, 1).bytes, 100);
	percpu_stats_group_destroy(g);
	assert_int_equal(percpu_stats_group_attach(r, key, 16, TOTALS, OBJECTS, &other), -ENOENT);
	percpu_region_close(r);
}

static void a_root_leads_to_a_group(void **state)
{
	struct percpu_region *r = new_region();
	struct percpu_stats_group *g, *again;

	(void)state;
	assert_int_equal(percpu_stats_group_open(r, 3, 16, TOTALS, OBJECTS, &g), 0);
	count(g, 0, 1, 10);
	assert_int_equal(percpu_stats_group_open(r, 3, 16, TOTALS, OBJECTS, &again), 0);
	assert_int_equal(read_object(again, 1).bytes, 10);
	percpu_stats_group_detach(again);
	assert_int_equal(percpu_stats_group_open(r, 3, 16, TOTALS, 3, &again), -EEXIST);
	percpu_stats_group_detach(g);
	percpu_region_close(r);
}

static int read_only(void *arg)
{
	const uint64_t key = *(const uint64_t *)arg, n[2] = { 1, 1 };
	struct percpu_stats_group *g;
	struct percpu_region *r;
	struct traffic out;
	size_t i;

	test_child_require(percpu_region_open(test_path("group"), 0, NULL, &r) == 0, "the region");
	test_child_require(percpu_stats_group_attach(r, key, 16, TOTALS, OBJECTS, &g) == 0,
			   "the group");
	test_child_require(percpu_stats_group_fetch(g, 1, 1, &out) == 0 && out.bytes == 10,
			   "the value");
	test_child_require(percpu_stats_group_update_both(g, 0, n, 1, n, 2) == -EROFS, "an update");
	test_child_require(percpu_stats_group_alloc(g, &i) == -EROFS, "an object");
	test_child_require(percpu_stats_group_free(g, TOTALS, 0) == -EROFS, "a free");
	test_child_require(percpu_stats_group_snapshot(g, 0, 1, &out, NULL) == -EROFS,
			   "a snapshot");
	test_child_require(percpu_stats_group_fetch_zero(g, 0, 1, &out, NULL) == -EROFS, "a reset");
	percpu_stats_group_detach(g);
	percpu_region_close(r);
	return 0;
}

static void readers_may_fetch(void **state)
{
	struct percpu_region *r = new_region();
	struct percpu_stats_group *g;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_stats_group_create_in(r, 16, TOTALS, OBJECTS, &g), 0);
	count(g, 0, 1, 10);
	key = percpu_stats_group_key(g);
	assert_int_equal(test_wait(test_fork(read_only, &key), 60), 0);
	percpu_stats_group_destroy(g);
	percpu_region_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_groups_are_refused),
		cmocka_unit_test(bad_calls_are_refused),
		cmocka_unit_test(updates_add_to_two_objects),
		cmocka_unit_test(one_object_is_updated_alone),
		cmocka_unit_test(numbers_are_used_again),
		cmocka_unit_test(what_is_freed_goes_to_its_total),
		cmocka_unit_test(resets_change_no_other_object),
		cmocka_unit_test(snapshots_have_the_time_of_their_moment),
		cmocka_unit_test(snapshots_have_all_of_an_update),
		cmocka_unit_test(resets_are_exact),
		cmocka_unit_test(processes_share_a_group),
		cmocka_unit_test(a_root_leads_to_a_group),
		cmocka_unit_test(readers_may_fetch),
	};

	return cmocka_run_group_tests_name("stats_group", tests, NULL, test_remove_paths);
}
