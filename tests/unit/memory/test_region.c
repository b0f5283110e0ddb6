/* SPDX-License-Identifier: MIT */
/*
 * test_region.c - correct regions: cells, keys, growth, options. What other processes see of
 * them: test_region_shared.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include <percpu/counter.h>
#include <percpu/status.h>

#include "region_kinds.h"

#include "memory/memory.h"

static void cells_are_aligned_and_separate(void **state)
{
	static const size_t sizes[] = { 1, 8, 24, 64, 100, 4096 };
	char *cell[6][7];

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		for (int s = 0; s < 6; s++) {
			for (int a = 0; a < 7; a++) {
				size_t align = (size_t)1 << 2 * a;

				assert_int_equal(percpu_region_alloc(r, sizes[s], align,
								     (void **)&cell[s][a]),
						 0);
				assert_int_equal((uintptr_t)cell[s][a] % align, 0);
				memset(cell[s][a], 7 * s + a + 1, sizes[s]);
			}
		}
		for (int s = 0; s < 6; s++) {
			for (int a = 0; a < 7; a++) {
				for (size_t i = 0; i < sizes[s]; i++)
					assert_int_equal(cell[s][a][i], 7 * s + a + 1);
				assert_int_equal(percpu_region_free(r, cell[s][a], sizes[s]), 0);
			}
		}
		discard(k, r);
	}
}

static void fresh_cells_hold_zeros_in_every_lane(void **state)
{
	uint32_t cpus = percpu_status()->possible_cpus;
	static const char zeros[64];
	char *cell;

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		for (int i = 0; i < 100; i++) {
			assert_int_equal(percpu_region_alloc(r, 64, 64, (void **)&cell), 0);
			for (uint32_t cpu = 0; cpu < cpus; cpu++)
				assert_memory_equal(cell + cpu * PERCPU_STRIDE, zeros, 64);
		}
		discard(k, r);
	}
}

static void keys_lead_back_to_cells(void **state)
{
	void *cell, *other;
	uint64_t key;

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		assert_int_equal(percpu_region_alloc(r, 64, 64, &cell), 0);
		assert_int_equal(percpu_region_alloc(r, 64, 64, &other), 0);
		key = percpu_region_key(r, cell);
		assert_int_not_equal(key, 0);
		assert_int_not_equal(key, percpu_region_key(r, other));
		assert_ptr_equal(percpu_region_at(r, key, 64), cell);
		assert_ptr_equal(percpu_region_at(r, key, 8), cell);
		assert_null(percpu_region_at(r, key, 65536 * 2));
		assert_null(percpu_region_at(r, key, SIZE_MAX));
		assert_null(percpu_region_at(r, (UINT64_C(1) << 40) + PERCPU_LANE_SIZE, 8));
		assert_null(percpu_region_at(r, key + (UINT64_C(1) << 40), 8));
		assert_null(percpu_region_at(r, 0, 8));
		assert_null(percpu_region_at(r, UINT64_MAX, 8));
		assert_int_equal(percpu_region_key(r, &key), 0);
		assert_int_equal(percpu_region_key(r, NULL), 0);
		assert_int_equal(percpu_region_free(r, cell, 64), 0);
		assert_null(percpu_region_at(r, key, 64));
		discard(k, r);
	}
}

static void roots_are_compared_and_kept(void **state)
{
	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		for (unsigned i = 0; i < PERCPU_REGION_ROOTS; i++) {
			assert_int_equal(percpu_region_root(r, i), 0);
			assert_int_equal(percpu_region_set_root(r, i, 1, 2), -EEXIST);
			assert_int_equal(percpu_region_set_root(r, i, 0, 77 + i), 0);
			assert_int_equal(percpu_region_set_root(r, i, 0, 1), -EEXIST);
			assert_int_equal(percpu_region_root(r, i), 77 + i);
		}
		assert_int_equal(percpu_region_set_root(r, 3, 80, 5), 0);
		assert_int_equal(percpu_region_root(r, 3), 5);
		assert_int_equal(percpu_region_set_root(r, PERCPU_REGION_ROOTS, 0, 1), -EINVAL);
		assert_int_equal(percpu_region_root(r, PERCPU_REGION_ROOTS), 0);
		assert_int_equal(percpu_region_set_root(NULL, 0, 0, 1), -EINVAL);
		assert_int_equal(percpu_region_root(NULL, 0), 0);
		discard(k, r);
	}
}

/* Freeing with a size other than the allocation's, or in its middle, frees nothing. */
static void cells_are_freed_whole(void **state)
{
	static const size_t sizes[] = { 8, 24, 64, 1000, 4096 };
	char *cell[5], *again;

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		for (int i = 0; i < 5; i++)
			assert_int_equal(percpu_region_alloc(r, sizes[i], 8, (void **)&cell[i]), 0);
		for (int i = 0; i < 5; i++) {
			assert_int_equal(percpu_region_free(r, cell[i], sizes[i] - 8), -EINVAL);
			assert_int_equal(percpu_region_free(r, cell[i], sizes[i] + 8), -EINVAL);
			if (sizes[i] > 8)
				assert_int_equal(percpu_region_free(r, cell[i] + 8, sizes[i] - 8),
						 -EINVAL);
		}
		for (int i = 0; i < 5; i++)
			assert_int_equal(percpu_region_free(r, cell[i], sizes[i]), 0);
		/* Freed cells are allocated again, in other sizes. */
		assert_int_equal(percpu_region_alloc(r, 16, 8, (void **)&again), 0);
		assert_ptr_equal(again, cell[0]);
		assert_int_equal(percpu_region_free(r, again, 8), -EINVAL);
		assert_int_equal(percpu_region_free(r, again, 16), 0);
		discard(k, r);
	}
}

/* Cells for four lanes take several chunks. None moves, and none overlaps another. */
static void growth_moves_nothing(void **state)
{
	enum { N = 4 * PERCPU_LANE_SIZE / 64 };
	static char *cell[N];

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		for (int i = 0; i < N; i++) {
			assert_int_equal(percpu_region_alloc(r, 64, 64, (void **)&cell[i]), 0);
			*(int *)cell[i] = i + 1;
		}
		for (int i = 0; i < N; i++) {
			assert_int_equal(*(int *)cell[i], i + 1);
			assert_ptr_equal(percpu_region_at(r, percpu_region_key(r, cell[i]), 64),
					 cell[i]);
		}
		for (int i = 0; i < N; i++)
			assert_int_equal(percpu_region_free(r, cell[i], 64), 0);
		assert_int_equal(percpu_region_alloc(r, 64, 64, (void **)&cell[0]), 0);
		discard(k, r);
	}
}

/* A gap that alignment has left goes to the next allocation that fits. */
static void gaps_are_filled(void **state)
{
	char *first, *aligned, *next;

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		assert_int_equal(percpu_region_alloc(r, 8, 8, (void **)&first), 0);
		assert_int_equal(percpu_region_alloc(r, 64, 4096, (void **)&aligned), 0);
		assert_int_equal(percpu_region_alloc(r, 8, 8, (void **)&next), 0);
		assert_ptr_equal(next, first + 8);
		discard(k, r);
	}
}

/* Freed cells are used in each chunk, also if a newer one has no room left. */
static void freed_cells_are_used_before_regions_grow(void **state)
{
	void *whole[3], *cell;

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		for (int i = 0; i < 3; i++)
			assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE, 64, &whole[i]),
					 0);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(percpu_region_free(r, whole[i], PERCPU_LANE_SIZE), 0);
			assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE, 64, &cell), 0);
			assert_ptr_equal(cell, whole[i]);
		}
		discard(k, r);
	}
}

/* Of many cells, as many are allocated as one chunk has room for, also if that is a new one. */
static void many_cells_are_of_one_chunk(void **state)
{
	void *cell[5];

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		for (int i = 0; i < 3; i++) {
			assert_int_equal(
				percpu_region_alloc_many(r, PERCPU_LANE_SIZE / 2, 64, 5, cell), 2);
			assert_int_equal(r->n, i + 1);
			assert_true(percpu_chunk_of(cell[0]) == percpu_chunk_of(cell[1]));
		}
		discard(k, r);
	}
}

static void other_lane_sizes_do_not_grow(void **state)
{
	struct percpu_region_options o = options();
	struct percpu_counter *c;
	void *cell, *rest;

	(void)state;
	o.lane_size = 1 << 20;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, &o);

		assert_int_equal(percpu_region_alloc(r, 1 << 19, 64, &cell), 0);
		assert_int_equal(percpu_region_alloc(r, 1 << 19, 64, &rest), 0);
		assert_int_equal(percpu_region_alloc(r, 64, 64, &rest), -ENOSPC);
		assert_int_equal(percpu_region_free(r, cell, 1 << 19), 0);
		assert_int_equal(percpu_region_alloc(r, 64, 64, &cell), 0);
		assert_int_equal(percpu_counter_create_in(r, &c), -EINVAL);
		assert_int_equal(percpu_counter_attach(r, percpu_region_key(r, cell), &c), -EINVAL);
		assert_int_equal(percpu_counter_open(r, 0, &c), -EINVAL);
		discard(k, r);
	}
}

static void more_lanes_simulate_a_larger_machine(void **state)
{
	struct percpu_region_options o = options();
	struct percpu_counter *c;

	(void)state;
	o.cpus = percpu_status()->possible_cpus + 62;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, &o);

		assert_int_equal(percpu_counter_create_in(r, &c), 0);
		percpu_counter_add(c, 5);
		percpu_counter_add_slow(c, 6);
		/* A count of a CPU that this machine does not have. */
		*(uint64_t *)((char *)c + (o.cpus - 1) * PERCPU_STRIDE) = 100;
		assert_int_equal(percpu_counter_fetch_zero(c), 111);
		assert_int_equal(percpu_counter_fetch(c), 0);
		discard(k, r);
	}
}

static void options_are_checked(void **state)
{
	struct percpu_region *r = NULL, *was = r;
	struct {
		struct percpu_region_options o;
		uint64_t unknown;
	} large = { .o.size = sizeof(large) };
	struct percpu_region_options o;

	(void)state;
	assert_int_equal(percpu_region_create(&large.o, &r), 0);
	percpu_region_close(r);
	r = was;
	large.unknown = 1;
	assert_int_equal(percpu_region_create(&large.o, &r), -EINVAL);
	o = options();
	o.size = 0;
	assert_int_equal(percpu_region_create(&o, &r), -EINVAL);
	o = options();
	o.lane_size = TEST_MAX_LANE + 1;
	assert_int_equal(percpu_region_create(&o, &r), -EINVAL);
	o.lane_size = SIZE_MAX;
	assert_int_equal(percpu_region_create(&o, &r), -EINVAL);
	o = options();
	o.cpus = PERCPU_MAX_CPUS + 1;
	assert_int_equal(percpu_region_create(&o, &r), -E2BIG);
	o.cpus = UINT32_MAX;
	assert_int_equal(test_region_new(test_path("none"), &o, &r), -E2BIG);
	o.cpus = 1;
	if (percpu_status()->possible_cpus > 1)
		assert_int_equal(percpu_region_create(&o, &r), -EINVAL);
	o = options();
	o.mode = 010000;
	assert_int_equal(test_region_new(test_path("none"), &o, &r), -EINVAL);
	o = options();
	assert_int_equal(percpu_region_create(&o, NULL), -EINVAL);
	assert_int_equal(test_region_new(NULL, &o, &r), -EINVAL);
	assert_int_equal(test_region_new(test_path("none"), &o, NULL), -EINVAL);
	assert_ptr_equal(r, was);
	assert_int_not_equal(access(test_path("none"), F_OK), 0);
}

static void bad_allocations_are_refused(void **state)
{
	struct percpu_region *r = create(PRIVATE, NULL), *other = create(PRIVATE, NULL);
	void *cell = NULL, *mine;

	(void)state;
	assert_int_equal(percpu_region_alloc(NULL, 8, 8, &cell), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, 8, 8, NULL), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, 0, 8, &cell), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE + 1, 8, &cell), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, SIZE_MAX, 8, &cell), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, 8, 0, &cell), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, 8, 3, &cell), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, 8, 8192, &cell), -EINVAL);
	assert_null(cell);
	assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE, 4096, &cell), 0);
	assert_int_equal(percpu_region_alloc(r, 8, 8, &mine), 0);
	assert_int_equal(percpu_region_free(r, NULL, 8), 0);
	assert_int_equal(percpu_region_free(NULL, mine, 8), -EINVAL);
	assert_int_equal(percpu_region_free(other, mine, 8), -EINVAL);
	assert_int_equal(percpu_region_free(r, &cell, 8), -EINVAL);
	assert_int_equal(percpu_region_free(r, mine, 0), -EINVAL);
	assert_int_equal(percpu_region_free(r, (char *)mine + 4, 8), -EINVAL);
	assert_int_equal(percpu_region_free(r, mine, SIZE_MAX), -EINVAL);
	assert_int_equal(percpu_region_free(r, (char *)mine + PERCPU_STRIDE, 8), -EINVAL);
	assert_int_equal(percpu_region_free(r, mine, 8), 0);
	assert_int_equal(percpu_region_free(r, mine, 8), -EINVAL);
	percpu_region_close(NULL);
	percpu_region_close(r);
	percpu_region_close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells_are_aligned_and_separate),
		cmocka_unit_test(fresh_cells_hold_zeros_in_every_lane),
		cmocka_unit_test(keys_lead_back_to_cells),
		cmocka_unit_test(roots_are_compared_and_kept),
		cmocka_unit_test(cells_are_freed_whole),
		cmocka_unit_test(growth_moves_nothing),
		cmocka_unit_test(gaps_are_filled),
		cmocka_unit_test(freed_cells_are_used_before_regions_grow),
		cmocka_unit_test(many_cells_are_of_one_chunk),
		cmocka_unit_test(other_lane_sizes_do_not_grow),
		cmocka_unit_test(more_lanes_simulate_a_larger_machine),
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(bad_allocations_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
