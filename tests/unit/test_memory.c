/* SPDX-License-Identifier: MIT */
/*
 * test_memory.c - memory that there is no more of, that comes with what somebody left
 * in it, and that is given back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <percpu/freebsd.h>

#include "objects/objects.h"
#include "../blocks.h"
#include "../faults.h"
#include "zone.h"

enum { MANY = 500 };

/* The guard of all zones is the cell that was freed last; its next owner must not find
 * what was counted there. */
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

/* Until there is no cell left without another chunk. */
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

/* The call that fails is followed by one that would not: who may not wait does not come
 * to know. */
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

/* What the notes of a checked zone are in was somebody else's memory. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guards_begin_at_rest), /* first: there is no zone yet */
		cmocka_unit_test(refused_zones_leave_nothing),
		cmocka_unit_test(reclaiming_frees_empty_shelves),
		cmocka_unit_test(nothing_is_taken_for_allocated),
		cmocka_unit_test(counters_that_may_fail_do_so_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
