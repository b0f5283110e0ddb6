/* SPDX-License-Identifier: MIT */
/*
 * test_memory_reuse.c - memory that runs out, that comes with old contents, and that is given
 * back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <percpu/freebsd.h>
#include <percpu/objcache.h>

#include "counts/counts.h"
#include "blocks.h"
#include "faults.h"
#include "../zone.h"

enum { MANY = 500 };

/* The guard of all zones is the cell that was freed last. Its next owner must not find old
 * counts. */
static void guards_begin_at_rest(void **state)
{
	struct percpu_counter *c;
	struct percpu_chunk *k;
	uma_zone_t z;
	size_t offset;

	(void)state;
	assert_int_equal(percpu_counter_create(&c), 0);
	k = percpu_chunk_of(c);
	offset = (size_t)((char *)c - k->base);
	percpu_counter_destroy(c);
	for (uint32_t cpu = 0; cpu < k->cpus; cpu++)
		*(uint64_t *)percpu_chunk_lane(k, cpu, offset) = 5;
	z = uma_zcreate("first", 8, NULL, NULL, NULL, NULL, UMA_ALIGN_PTR, UMA_ZONE_PCPU);
	assert_non_null(z);
	for (uint32_t cpu = 0; cpu < k->cpus; cpu++)
		assert_int_equal(*(uint64_t *)percpu_chunk_lane(k, cpu, offset), 0);
	uma_zdestroy(z);
}

static void refused_zones_leave_nothing(void **state)
{
	unsigned blocks = test_blocks();

	(void)state;
	assert_null(uma_zcreate("none", 0, NULL, NULL, NULL, NULL, UMA_ALIGN_PTR, UMA_ZONE_PCPU));
	assert_int_equal(test_blocks(), blocks);
}

/* Create counters until another one would need a new chunk. */
static struct percpu_counter **take_all(size_t *ret_n)
{
	struct percpu_counter **all = NULL, *c;
	size_t n = 0;

	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	while (percpu_counter_create(&c) == 0) {
		if ((n & (n - 1)) == 0)
			all = realloc(all, (n ? 2 * n : 1) * sizeof(*all));
		assert_non_null(all);
		all[n++] = c;
	}
	assert_int_not_equal(fault_clear(), 0);
	*ret_n = n;
	return all;
}

/* With M_NOWAIT, a failed call is not tried again, although that would succeed. */
static void counters_that_may_fail_do_so_at_once(void **state)
{
	struct percpu_counter **all;
	unsigned blocks;
	size_t n;

	(void)state;
	all = take_all(&n);
	blocks = test_blocks();
	fault_set(FAULT_MMAP, 0, ENOMEM, false);
	assert_null(counter_u64_alloc(M_NOWAIT));
	assert_int_equal(fault_clear(), 1);
	fault_set(FAULT_MMAP, 0, ENOMEM, false);
	assert_null(counter_rate_alloc(M_NOWAIT, 1));
	assert_int_equal(fault_clear(), 1);
	assert_int_equal(test_blocks(), blocks);
	while (n != 0)
		percpu_counter_destroy(all[--n]);
	free(all);
}

static void fill_depot(struct percpu_zone *z)
{
	void *items[MANY];

	for (unsigned i = 0; i < MANY; i++)
		items[i] = take(z, 0);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(z, items[i]), 0);
}

static void fill_depot_of_cache(struct percpu_objcache *oc)
{
	void *objects[MANY];

	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_objcache_get(oc, 0, &objects[i]), 0);
	for (unsigned i = 0; i < MANY; i++)
		percpu_objcache_put(oc, objects[i]);
}

static void reclaiming_frees_empty_shelves_of_caches(void **state)
{
	struct percpu_objcache *oc;
	unsigned blocks;

	(void)state;
	assert_int_equal(percpu_objcache_create("memory", 8, NULL, &oc), 0);
	blocks = test_blocks();
	fill_depot_of_cache(oc);
	assert_in_range(test_blocks(), blocks + MANY + 1, UINT32_MAX);
	(void)percpu_objcache_reclaim(oc);
	assert_int_equal(test_blocks(), blocks);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

static void reclaiming_frees_empty_shelves(void **state)
{
	struct percpu_zone *z = make(8, NULL);
	unsigned blocks;

	(void)state;
	fill_depot(z);
	(void)percpu_zone_reclaim(z);
	blocks = test_blocks();
	fill_depot(z);
	assert_in_range(test_blocks(), blocks + 1, UINT32_MAX);
	(void)percpu_zone_reclaim(z);
	assert_int_equal(test_blocks(), blocks);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

static struct percpu_zone *checked;

static int free_what_is_free(void *item)
{
	(void)percpu_zone_free(checked, item);
	return 0;
}

/* The notes of a checked zone are in memory with old contents. */
static void nothing_is_taken_for_allocated(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	char *item;
	int status;

	(void)state;
	checked = make(8, &o);
	item = take(checked, 0);
	for (int i = 1; i <= 8; i++) {
		status = test_wait(test_fork(free_what_is_free, item + 8 * i), 20);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	}
	assert_int_equal(percpu_zone_free(checked, item), 0);
	assert_int_equal(percpu_zone_destroy(checked), 0);
}

/* Another process has added a chunk, and this one has no address space for it: each call that
 * takes the region's lock releases it when it fails. */

static struct percpu_region *region, *others;

static int allocate_cell(void)
{
	void *cell;

	return percpu_region_alloc(region, 8, 8, &cell);
}

static int create_counter(void)
{
	struct percpu_counter *c;

	return percpu_counter_create_in(region, &c);
}

static int open_root(void)
{
	struct percpu_counter *c;

	return percpu_counter_open(region, 3, &c);
}

static int create_items(void)
{
	struct percpu_zone_options o = { .size = sizeof(o), .region = region };
	struct percpu_zone *z;
	void *item = NULL;
	int e = percpu_zone_create("none", 8, &o, &z);

	if (e == 0) {
		e = percpu_zone_alloc(z, 0, &item);
		assert_int_equal(percpu_zone_destroy(z), 0);
	}
	return e;
}

/* Reclaim what can be. The result does not show the failure. */
static int reclaim(void)
{
	(void)percpu_region_reclaim(region);
	return -ENOMEM;
}

static int (*const that_lock[])(void) = { allocate_cell, create_counter, open_root, create_items,
					  reclaim };

static int allocate_at_once(void *arg)
{
	const uint64_t start = test_now();
	void *cell;

	(void)arg;
	test_child_require(percpu_region_alloc(others, 8, 8, &cell) == 0, "to allocate");
	test_child_require(test_now() - start < PERCPU_LOCK_NS, "at once");
	return 0;
}

static void locks_are_given_back_by_who_fails(void **state)
{
	const uint32_t *lock;
	sigset_t before, now;
	void *cell;

	(void)state;
	assert_int_equal(test_region_new(test_path("file"), NULL, &region), 0);
	assert_int_equal(percpu_region_open(test_path("file"), PERCPU_REGION_WRITE, NULL, &others),
			 0);
	while (others->n < 2)
		assert_int_equal(percpu_region_alloc(others, PERCPU_LANE_SIZE / 2, 8, &cell), 0);
	lock = &region->first->header->alloc_lock;
	for (unsigned i = 0; i < sizeof(that_lock) / sizeof(that_lock[0]); i++) {
		pthread_sigmask(SIG_SETMASK, NULL, &before);
		fault_set(FAULT_MMAP, 0, ENOMEM, true);
		assert_int_equal(that_lock[i](), -ENOMEM);
		assert_int_not_equal(fault_clear(), 0);
		pthread_sigmask(SIG_SETMASK, NULL, &now);
		assert_int_equal(region->n, 1);
		assert_int_equal(*lock, 0);
		for (int signo = 1; signo < SIGRTMIN; signo++)
			assert_int_equal(sigismember(&now, signo), sigismember(&before, signo));
		test_in_child(allocate_at_once, NULL);
	}
	assert_int_equal(create_counter(), 0);
	assert_int_equal(region->n, 2);
	percpu_region_close(others);
	percpu_region_close(region);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guards_begin_at_rest), /* first: there is no zone yet */
		cmocka_unit_test(refused_zones_leave_nothing),
		cmocka_unit_test(reclaiming_frees_empty_shelves),
		cmocka_unit_test(reclaiming_frees_empty_shelves_of_caches),
		cmocka_unit_test(nothing_is_taken_for_allocated),
		cmocka_unit_test(counters_that_may_fail_do_so_at_once),
		cmocka_unit_test(locks_are_given_back_by_who_fails),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
