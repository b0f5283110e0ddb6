/* SPDX-License-Identifier: MIT */
/*
 * test_reader_value.c - values of a picture that cannot be read, where no CPU changes 16 bytes at
 * once: a histogram then needs memory to be read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <percpu/percpu.h>

#include "support.h"
#include "reader_calls.h"

static bool no_memory;

unsigned __wrap_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void)
{
	return 0;
}

void *__real_mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t offset);
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t offset);
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t offset)
{
	return no_memory ? MAP_FAILED : __real_mmap64(at, size, prot, flags, fd, offset);
}

static void histograms_need_memory(void **state)
{
	struct percpu_histogram_options o = { .size = sizeof(o), .buckets_per_octave = 32 };
	struct percpu_histogram_snapshot *got = NULL;
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("seconds"), &o, &h), 0);
	percpu_histogram_record(h, 0.5);
	assert_int_equal(take(), 0);
	assert_int_equal(percpu_reader_count(r), 1);

	/* More than once: an old word of memory may look like the address of one block. */
	no_memory = true;
	for (int i = 0; i < 8; i++)
		assert_int_equal(percpu_reader_histogram(r, 0, &got), -ENOMEM);
	no_memory = false;
	assert_null(got);

	assert_int_equal(percpu_reader_histogram(r, 0, &got), 0);
	assert_int_equal(got->count, 1);
	percpu_histogram_snapshot_destroy(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(histograms_need_memory, make_segment,
						remove_segment),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
