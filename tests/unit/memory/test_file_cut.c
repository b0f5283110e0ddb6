/* SPDX-License-Identifier: MIT */
/* test_file_cut.c - files that are cut while processes have them open. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory.h"

#include "support.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* since Linux 5.14 */
#endif

#define HALF 32768 /* half a lane: three of these take two chunks */

static int look_for_chunks_that_were_cut(void *arg)
{
	struct percpu_region *writer, *reader;
	int fd = memfd_create("cut", MFD_CLOEXEC);
	void *cells[3];
	uint64_t key;

	test_child_require(test_region_new_fd(fd, NULL, &writer) == 0, "a region");
	test_child_require(percpu_region_open_fd(fd, 0, NULL, &reader) == 0, "a reader");
	for (int i = 0; i < 3; i++)
		test_child_require(percpu_region_alloc(writer, HALF, 64, &cells[i]) == 0, "cells");
	key = percpu_region_key(writer, cells[2]);
	test_child_require(key != 0, "a second chunk");
	/* The first chunk stays: it says that there is another one. */
	test_child_require(ftruncate(fd, (off_t)percpu_chunk_size(writer->first->stride,
								  writer->first->cpus)) == 0,
			   "a cut");
	test_child_require(percpu_region_at(reader, key, HALF) == NULL, "nothing is there");
	return arg != NULL;
}

/* Return whether the kernel reports a page behind the end of a file. Older ones and emulators do
 * not. */
static bool is_told_of_cuts(void)
{
	int fd = memfd_create("nothing", MFD_CLOEXEC), e;
	size_t page = percpu_page_size();
	void *map = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);

	close(fd);
	if (map == MAP_FAILED)
		return false;
	errno = 0;
	e = madvise(map, page, MADV_POPULATE_READ);
	munmap(map, page);
	return e != 0 && errno == EFAULT;
}

/* Reading there would raise SIGBUS. */
static void chunks_that_were_cut_are_not_there(void **state)
{
	(void)state;
	if (!is_told_of_cuts())
		test_skip("no MADV_POPULATE_READ here");
	test_in_child(look_for_chunks_that_were_cut, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_that_were_cut_are_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
