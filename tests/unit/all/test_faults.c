/* SPDX-License-Identifier: MIT */
/*
 * test_faults.c - each call of libc by the library fails in turn: the first, the second, and so
 * on until none is left to fail, alone and with all later ones. The operation is then done, or
 * fails with a documented error; nothing is leaked, and the next try succeeds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/fence.h>
#include <percpu/local.h>
#include <percpu/lwbuf.h>
#include <percpu/percpu.h>
#include <percpu/seq.h>
#include <percpu/sfbuf.h>
#include <percpu/zone.h>
#include <percpu/variable.h>

#include "counts/counts.h"
#include "faults_operations.h"
#include "blocks.h"
#include "faults.h"
#include "support.h"
#include "../spinner.h"

static void each_call_fails_in_turn(void **state)
{
	(void)state;
	sweep(faults_operations);
	sweep_report();
	/* The linker did replace these functions. */
	assert_true(sweep_failures(FAULT_OPEN) > 0 && sweep_failures(FAULT_MMAP) > 0 &&
		    sweep_failures(FAULT_CALLOC) > 0);
	/* A program that is executed gets no descriptor of the library. */
	assert_int_equal(fault_inherited(), 0);
}

/* An error of the first fence is not lost when a second one succeeds. */
static void no_fence_is_made_up_for(void **state)
{
	struct percpu_stats_control *c;
	struct percpu_stats *s;
	uint64_t out[2];

	(void)state;
	assert_int_equal(percpu_stats_create_in(sweep_region, 16, 1, 0, &s), 0);
	c = percpu_stats_control(s);
	c->fenced = c->bank + PERCPU_STATS_FLIP; /* a reader was killed before its fence */
	fault_set(FAULT_PTHREAD_CREATE, 0, ENOMEM, false);
	assert_int_equal(percpu_stats_snapshot(s, 0, 1, out), -ENOMEM);
	assert_int_equal(fault_clear(), 1);
	assert_int_equal(percpu_stats_snapshot(s, 0, 1, out), 0);
	percpu_stats_destroy(s);
}

/* A snapshot that cannot fence fails, and the next one fences first. */
static void missing_fence_is_noted(void **state)
{
	struct percpu_stats_control *c;
	struct percpu_stats *s;
	uint64_t out[2];

	(void)state;
	assert_int_equal(percpu_stats_create_in(sweep_region, 16, 1, 0, &s), 0);
	c = percpu_stats_control(s);
	assert_int_equal(percpu_stats_snapshot(s, 0, 1, out), 0);
	assert_int_equal(c->fenced, c->bank);
	percpu_stats_add(s, 0, 0, 3);
	fault_set(FAULT_PTHREAD_CREATE, 0, EAGAIN, true);
	assert_int_equal(percpu_stats_snapshot(s, 0, 1, out), -EAGAIN);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_not_equal(c->fenced, c->bank);
	assert_int_equal(percpu_stats_snapshot(s, 0, 1, out), 0);
	assert_int_equal(out[0], 3);
	assert_int_equal(c->fenced, c->bank);
	percpu_stats_destroy(s);
}

/* A cell that is allocated, and cannot be checked for lack of memory, is freed. */
static void unchecked_items_are_not_lost(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	struct percpu_zone *z;
	void *item = NULL;

	(void)state;
	assert_int_equal(percpu_zone_create("unchecked", 8, &o, &z), 0);
	for (unsigned nth = 0; nth < 2; nth++) {
		fault_set(FAULT_REALLOC, nth, ENOMEM, false);
		assert_int_equal(percpu_zone_alloc(z, 0, &item), -ENOMEM);
		assert_int_equal(fault_clear(), 1);
		assert_null(item);
	}
	assert_int_equal(percpu_zone_alloc(z, 0, &item), 0);
	assert_int_equal(percpu_zone_free(z, item), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

/* An address range that could not be reserved again after its window went is the program's by
 * now. */
static void lost_addresses_are_left_alone(void **state)
{
	const struct percpu_lwbuf_options o = { .size = sizeof(o),
						.backend = PERCPU_LWBUF_WINDOW,
						.flags = PERCPU_LWBUF_KEEPS_SIZE |
							 PERCPU_LWBUF_DEBUG };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("lost", MFD_CLOEXEC);
	struct percpu_lwbuf b[3];
	struct percpu_lwbufs *f;
	char *theirs;
	void *at;

	(void)state;
	if (test_thread_sanitizer())
		test_skip("the sanitizer maps memory of its own");
	assert_int_equal(ftruncate(fd, (off_t)(3 * page)), 0);
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(percpu_lwbuf_alloc(f, i, 0, &b[i]), 0);
	at = percpu_lwbuf_kva(&b[1]);
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	assert_int_equal(percpu_lwbuf_free(f, &b[1]), 0);
	assert_int_equal(fault_clear(), 2);
	theirs = mmap(at, page, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_equal(theirs, at);
	*theirs = 7;
	assert_int_equal(percpu_lwbuf_free(f, &b[0]), 0);
	assert_int_equal(percpu_lwbuf_alloc(f, 1, 0, &b[1]), 0);
	assert_ptr_not_equal(percpu_lwbuf_kva(&b[1]), at);
	assert_int_equal(percpu_lwbuf_free(f, &b[1]), 0);
	assert_int_equal(percpu_lwbuf_free(f, &b[2]), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	assert_int_equal(msync(theirs, page, MS_ASYNC), 0); /* it is mapped */
	assert_int_equal(*theirs, 7);
	munmap(theirs, page);
	close(fd);
}

/* Variables without copies stay so, and are not tried again. */
static void variables_stay_without_cells(void **state)
{
	static const uint64_t initial[4] = { 1, 2, 3, 4 };
	struct percpu_image image = { .start = (const char *)initial,
				      .stop = (const char *)(initial + 4) };

	(void)state;
	fault_set(FAULT_CELLS, 0, ENOMEM, false);
	assert_int_equal(percpu_image_setup(&image), -ENOMEM);
	assert_int_equal(fault_clear(), 1);
	assert_int_equal(percpu_image_setup(&image), -ENOMEM);
	assert_int_equal(image.stride, 0);
	assert_int_equal(percpu_variable_sum(&image, &initial[2]), 3);
}

/* Make windows of a file that has so many pages, and half of one. */
enum { PAGES = 100 };

static struct percpu_lwbufs *windows_of(int fd, size_t max_excess)
{
	const struct percpu_lwbuf_options o = { .size = sizeof(o),
						.backend = PERCPU_LWBUF_WINDOW,
						.max_excess = max_excess,
						.flags = PERCPU_LWBUF_KEEPS_SIZE };
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct percpu_lwbufs *f;

	for (off_t i = 0; i < PAGES; i++)
		assert_int_equal(pwrite(fd, &i, sizeof(i), i * (off_t)page), sizeof(i));
	assert_int_equal(ftruncate(fd, (off_t)(PAGES * page + page / 2)), 0);
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	return f;
}

static void take_pages(struct percpu_lwbufs *f, struct percpu_lwbuf *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(percpu_lwbuf_alloc(f, i, 0, &b[i]), 0);
}

static void free_pages(struct percpu_lwbufs *f, struct percpu_lwbuf *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(percpu_lwbuf_free(f, &b[i]), 0);
}

static uint64_t excess_of(const struct percpu_lwbufs *f)
{
	struct percpu_lwbuf_stats st;

	percpu_lwbuf_stats(f, &st);
	return st.excess;
}

/* Without memory for one more window, one that is free shows another page. */
static void windows_that_are_free_need_no_memory(void **state)
{
	int fd = memfd_create("windows", MFD_CLOEXEC);
	struct percpu_lwbufs *f = windows_of(fd, PAGES);
	struct percpu_sfbuf *shared = NULL;
	struct percpu_lwbuf b[63]; /* one more is in another block */

	(void)state;
	fault_set(FAULT_ALIGNED_ALLOC, 0, ENOMEM, false);
	assert_int_equal(percpu_sfbuf_alloc(f, 1, 0, &shared), -ENOMEM);
	assert_int_equal(fault_clear(), 1);
	assert_null(shared);
	take_pages(f, b, 63);
	free_pages(f, b, 63);
	assert_true(excess_of(f) > 8);
	fault_set(FAULT_ALIGNED_ALLOC, 0, ENOMEM, false);
	assert_int_equal(percpu_lwbuf_alloc(f, 99, 0, &b[0]), 0);
	assert_int_equal(fault_clear(), 1);
	assert_int_equal(*(uint64_t *)percpu_lwbuf_kva(&b[0]), 99);
	assert_int_equal(percpu_lwbuf_free(f, &b[0]), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

/* If the length of the file cannot be read, it is taken to be unchanged. */
static void lengths_that_are_not_known_stay(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("windows", MFD_CLOEXEC);
	struct percpu_lwbufs *f = windows_of(fd, PAGES);
	struct percpu_lwbuf b;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		if (i == 1)
			fault_set(FAULT_FSTAT, 0, EIO, false);
		assert_int_equal(percpu_lwbuf_alloc(f, PAGES, 0, &b), 0);
		if (i == 1)
			assert_int_equal(fault_clear(), 1);
		assert_int_equal(percpu_lwbuf_length(&b), i < 2 ? page / 2 : page);
		assert_int_equal(percpu_lwbuf_free(f, &b), 0);
		if (i == 0)
			assert_int_equal(ftruncate(fd, (off_t)((PAGES + 1) * page)), 0);
	}
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

/* Of 64 windows, whose addresses were reserved at once, two are free, and lost: no other one is
 * free of a mapping. */
static void all_windows_may_be_lost(void **state)
{
	int fd = memfd_create("windows", MFD_CLOEXEC);
	struct percpu_lwbufs *f = windows_of(fd, 2);
	struct percpu_lwbuf b[64];

	(void)state;
	if (sysconf(_SC_PAGESIZE) == 4096) {
		take_pages(f, b, 64);
		free_pages(f, b, 2);
		assert_int_equal(excess_of(f), 2);
		fault_set(FAULT_MMAP, 0, ENOMEM, true);
		assert_int_equal(percpu_lwbuf_alloc(f, 99, 0, &b[0]), -ENOMEM);
		assert_int_not_equal(fault_clear(), 0);
		assert_int_equal(excess_of(f), 0);
		take_pages(f, b, 1);
		assert_int_equal(*(uint64_t *)percpu_lwbuf_kva(&b[0]), 0);
		assert_int_equal(percpu_lwbuf_free(f, &b[0]), 0);
		free_pages(f, b + 2, 62);
	}
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

/* A file system has no room for the longest file of a region. The region gets half of it. */
static void regions_are_as_long_as_there_is_room(void **state)
{
	static const int refused[] = { EFBIG, EINVAL, ENOSPC };
	int fd = memfd_create("region", MFD_CLOEXEC);
	struct percpu_region *r = NULL;
	uint32_t most;

	(void)state;
	assert_int_equal(test_region_new_fd(fd, NULL, &r), 0);
	most = r->capacity;
	assert_true(most > 1);
	percpu_region_close(r);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		fault_set(FAULT_FTRUNCATE, 0, refused[i], false);
		assert_int_equal(test_region_new_fd(fd, NULL, &r), 0);
		assert_int_equal(fault_clear(), 1);
		assert_int_equal(r->capacity, most / 2);
		percpu_region_close(r);
	}
	close(fd);
}

enum { MANY = 500 };

static uint64_t cached_of_many(struct percpu_zone *z)
{
	struct percpu_zone_stats st;
	void *items[MANY];

	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_alloc(z, 0, &items[i]), 0);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(z, items[i]), 0);
	(void)fault_clear();
	percpu_zone_stats(z, &st);
	return st.cached;
}

/* A depot that could not grow does so later. */
static void depots_without_memory_go_on(void **state)
{
	struct percpu_zone *z;

	(void)state;
	assert_int_equal(percpu_zone_create("depot", 8, NULL, &z), 0);
	fault_set(FAULT_REALLOC, 0, ENOMEM, true);
	(void)cached_of_many(z);
	assert_in_range(cached_of_many(z), MANY - 64, SIZE_MAX);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

static int fence_when_refused_once(void)
{
	int e;

	fault_set(FAULT_MEMBARRIER, 0, EPERM, false);
	e = percpu_fence();
	(void)fault_clear();
	return e;
}

/* As in a process that was restored from a checkpoint, and has not registered for fences. */
static void refused_fences_are_announced_again(void **state)
{
	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ || test_cpus() < 2)
		test_skip("no sequences, or no second CPU");
	assert_int_equal(spinner_aborted_by(fence_when_refused_once, 20), 20);
}

/* From here on the main thread runs no sequences. */
static void fallbacks_keep_errno(void **state)
{
	struct percpu_local *l;
	int64_t sum;

	(void)state;
	assert_int_equal(percpu_local_create(8, PERCPU_LOCAL_REFS, &l), 0);
	test_unregister(percpu_seq_attach());
	fault_set(FAULT_GETCPU, 0, EPERM, true);
	errno = 77;
	assert_int_equal(percpu_local_add_return(l, 1, &sum), 0);
	assert_int_equal(errno, 77);
	(void)fault_clear();
	percpu_local_destroy(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_in_turn),
		cmocka_unit_test(missing_fence_is_noted),
		cmocka_unit_test(no_fence_is_made_up_for),
		cmocka_unit_test(unchecked_items_are_not_lost),
		cmocka_unit_test(lost_addresses_are_left_alone),
		cmocka_unit_test(variables_stay_without_cells),
		cmocka_unit_test(windows_that_are_free_need_no_memory),
		cmocka_unit_test(lengths_that_are_not_known_stay),
		cmocka_unit_test(all_windows_may_be_lost),
		cmocka_unit_test(regions_are_as_long_as_there_is_room),
		cmocka_unit_test(depots_without_memory_go_on),
		cmocka_unit_test(refused_fences_are_announced_again),
		cmocka_unit_test(fallbacks_keep_errno),
	};

	return cmocka_run_group_tests(tests, sweep_set_up, sweep_tear_down);
}
