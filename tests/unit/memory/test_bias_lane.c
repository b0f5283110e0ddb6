/* SPDX-License-Identifier: MIT */
/*
 * test_bias_lane.c - objects in the bias lane alone: creating one loads nothing from lanes
 * without pages. On a full tmpfs, such a load raises a signal; elsewhere it takes pages.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"

#include "memory/memory.h"

#define VALUES 2000
#define BYTES 16 /* of each object */

static void other_lanes_are_left_alone(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("test_hole", MFD_CLOEXEC);
	struct percpu_latest *value;
	struct percpu_counter *c;
	struct percpu_region *r;
	struct stat before, after;

	(void)state;
	if (!percpu_pair_is_atomic())
		test_skip("latest values are not shared on this machine");
	assert_int_equal(test_region_new_fd(fd, NULL, &r), 0);
	assert_int_equal(percpu_counter_create_in(r, &c), 0);
	percpu_chunk_add_atomic(r->first, (size_t)((char *)c - r->first->base), 1);
	assert_int_equal(fstat(fd, &before), 0);
	for (unsigned i = 0; i < VALUES; i++)
		assert_int_equal(percpu_latest_create_in(r, &value), 0);
	assert_int_equal(fstat(fd, &after), 0);
	assert_true((size_t)(after.st_blocks - before.st_blocks) * 512 <=
		    (VALUES * BYTES / page + 2) * page);
	percpu_region_close(r);
	close(fd);
}

/* A block of owners, which is in the bias lane alone, is not cleared in lanes of CPUs. */
static void slots_are_in_one_lane(void **state)
{
	const struct percpu_region_options o = { .size = sizeof(o), .cpus = 64 };
	struct percpu_owners *owners = NULL;
	struct percpu_region *r = NULL;
	struct stat before, after;

	(void)state;
	assert_int_equal(test_region_new(test_path("owners"), &o, &r), 0);
	percpu_region_close(r);
	assert_int_equal(percpu_region_open(test_path("owners"),
					    PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS, NULL, &r),
			 0);
	assert_int_equal(percpu_owners_open(r, 0, &owners), 0);
	assert_int_equal(stat(test_path("owners"), &before), 0);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(stat(test_path("owners"), &after), 0);
	assert_true((size_t)(after.st_blocks - before.st_blocks) * 512 <= 16 * 4096);
	assert_int_equal(percpu_owners_destroy(owners), 0);
	percpu_region_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_lanes_are_left_alone),
		cmocka_unit_test(slots_are_in_one_lane),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
