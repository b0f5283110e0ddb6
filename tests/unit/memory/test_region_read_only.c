/* SPDX-License-Identifier: MIT */
/*
 * test_region_read_only.c - a process that may only read a region, and calls functions that
 * write.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/freebsd.h>
#include <percpu/percpu.h>
#include <percpu/zone.h>

#include "support.h"

#define N 3

/* The objects of the region, as its writer or its reader has them. */
struct side {
	struct percpu_region *region;
	struct percpu_counter *counter;
	struct percpu_counter_array *array;
	struct percpu_compact *compact;
	struct percpu_stats *stats, *whole;
};

static struct side writer, reader;
static const uint64_t ones[4] = { 1, 1, 1, 1 };

static void attach_reader(void)
{
	struct percpu_region *r = reader.region;
	uint64_t key = percpu_counter_key(writer.counter);

	assert_int_equal(percpu_counter_attach(r, key, &reader.counter), 0);
	key = percpu_counter_array_key(writer.array);
	assert_int_equal(percpu_counter_array_attach(r, key, N, &reader.array), 0);
	key = percpu_compact_key(writer.compact);
	assert_int_equal(percpu_compact_attach(r, key, N, &reader.compact), 0);
	key = percpu_stats_key(writer.stats);
	assert_int_equal(percpu_stats_attach(r, key, 32, N, 0, &reader.stats), 0);
	key = percpu_stats_key(writer.whole);
	assert_int_equal(percpu_stats_attach(r, key, 32, N, PERCPU_STATS_WHOLE, &reader.whole), 0);
}

static int set_up(void **state)
{
	int fd = memfd_create("reader", MFD_CLOEXEC);
	struct percpu_region *r;

	(void)state;
	assert_int_equal(test_region_new_fd(fd, NULL, &r), 0);
	writer.region = r;
	assert_int_equal(percpu_counter_create_in(r, &writer.counter), 0);
	assert_int_equal(percpu_counter_array_create_in(r, N, &writer.array), 0);
	assert_int_equal(percpu_compact_create_in(r, N, &writer.compact), 0);
	assert_int_equal(percpu_stats_create_in(r, 32, N, 0, &writer.stats), 0);
	assert_int_equal(percpu_stats_create_in(r, 32, N, PERCPU_STATS_WHOLE, &writer.whole), 0);
	percpu_counter_add(writer.counter, 5);
	percpu_counter_array_add(writer.array, 1, 6);
	percpu_compact_add(writer.compact, 2, 7);
	assert_int_equal(percpu_stats_update(writer.stats, 1, 0, ones, 4), 0);
	assert_int_equal(percpu_stats_update(writer.whole, 1, 0, ones, 4), 0);
	assert_int_equal(percpu_region_open_fd(fd, 0, NULL, &reader.region), 0);
	close(fd);
	attach_reader();
	return 0;
}

static void require_values(const struct side *s)
{
	uint64_t now[4];

	test_child_require(percpu_counter_fetch(s->counter) == 5, "counter");
	test_child_require(percpu_counter_array_fetch(s->array, 1) == 6, "array");
	test_child_require(percpu_compact_fetch(s->compact, 2) == 7, "compact");
	for (int i = 0; i < 2; i++) {
		test_child_require(percpu_stats_fetch(i ? s->whole : s->stats, 1, 1, now) == 0,
				   "fetch");
		for (int w = 0; w < 4; w++)
			test_child_require(now[w] == 1, "field");
	}
}

static int reset_all(void *arg)
{
	(void)arg;
	percpu_counter_zero(reader.counter);
	counter_u64_zero((counter_u64_t)(void *)reader.counter);
	percpu_counter_array_zero(reader.array, 1);
	percpu_compact_zero(reader.compact, 2);
	require_values(&writer);
	test_child_require(percpu_counter_fetch_zero(reader.counter) == 5, "counter");
	test_child_require(percpu_counter_array_fetch_zero(reader.array, 1) == 6, "array");
	test_child_require(percpu_compact_fetch_zero(reader.compact, 2) == 7, "compact");
	require_values(&writer);
	return 0;
}

static void resets_do_nothing(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(reset_all, NULL), 20), 0);
}

/* Update with a number of fields that the compiler knows, and one that it does not. */
static int update_all(void *arg)
{
	struct percpu_stats *both[] = { reader.stats, reader.whole };
	volatile size_t words = 4;
	uint64_t out[4];

	(void)arg;
	for (int i = 0; i < 2; i++) {
		test_child_require(percpu_stats_update(both[i], 1, 0, ones, 4) == -EROFS, "4");
		test_child_require(percpu_stats_update(both[i], 1, 2, ones, 2) == -EROFS, "2");
		test_child_require(percpu_stats_update(both[i], 1, 0, ones, words) == -EROFS, "n");
		test_child_require(percpu_stats_fetch_zero(both[i], 1, 1, out) == -EROFS, "reset");
		test_child_require(percpu_stats_snapshot(both[i], 1, 1, out) == -EROFS, "snapshot");
	}
	require_values(&writer);
	return 0;
}

static void updates_are_refused(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(update_all, NULL), 20), 0);
}

static int allocate(void *arg)
{
	struct percpu_zone_options o = { .size = sizeof(o), .region = reader.region };
	struct percpu_counter_array *a;
	struct percpu_counter *c;
	struct percpu_compact *p;
	struct percpu_stats *s;
	struct percpu_zone *z;
	void *cell;

	(void)arg;
	test_child_require(percpu_region_alloc(reader.region, 8, 8, &cell) == -EROFS, "alloc");
	test_child_require(percpu_region_free(reader.region, reader.counter, 8) == -EROFS, "free");
	test_child_require(percpu_counter_create_in(reader.region, &c) == -EROFS, "counter");
	test_child_require(percpu_counter_array_create_in(reader.region, N, &a) == -EROFS, "array");
	test_child_require(percpu_compact_create_in(reader.region, N, &p) == -EROFS, "compact");
	test_child_require(percpu_stats_create_in(reader.region, 32, N, 0, &s) == -EROFS, "stats");
	test_child_require(percpu_zone_create("zone", 8, &o, &z) == -EROFS, "zone");
	test_child_require(percpu_region_set_root(reader.region, 0, 0, 1) == -EROFS, "root");
	percpu_counter_destroy(reader.counter);
	percpu_counter_array_destroy(reader.array);
	percpu_compact_destroy(reader.compact);
	percpu_stats_destroy(reader.stats);
	percpu_stats_destroy(reader.whole);
	/* All values are still there. */
	require_values(&writer);
	attach_reader();
	require_values(&reader);
	percpu_region_close(reader.region);
	return 0;
}

static void nothing_is_allocated_or_freed(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(allocate, NULL), 20), 0);
}

/* An add does not check for permission: it ends the process, and counts nothing. */

static int add_to(void *kind)
{
	switch (*(int *)kind) {
	case 0:
		percpu_counter_add(reader.counter, 1);
		break;
	case 1:
		percpu_counter_array_add(reader.array, 1, 1);
		break;
	case 2:
		percpu_compact_add(reader.compact, 2, 1);
		break;
	default:
		percpu_stats_add(*(int *)kind == 3 ? reader.stats : reader.whole, 1, 0, 1);
	}
	return 0;
}

static void adds_end_the_process(void **state)
{
	(void)state;
	for (int kind = 0; kind < 5; kind++) {
		int status = test_wait(test_fork(add_to, &kind), 20);

		if (test_address_sanitizer() || test_thread_sanitizer())
			assert_int_not_equal(status, 0);
		else
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	}
	require_values(&writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resets_do_nothing),
		cmocka_unit_test(updates_are_refused),
		cmocka_unit_test(nothing_is_allocated_or_freed),
		cmocka_unit_test(adds_end_the_process),
	};

	return cmocka_run_group_tests_name("reader", tests, set_up, NULL);
}
