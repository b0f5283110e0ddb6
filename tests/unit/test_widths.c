/* SPDX-License-Identifier: MIT */
/*
 * test_widths.c - what is right by itself where words, addresses and times have
 * 64 bits, and must be seen to elsewhere.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/freebsd.h>

#include "../../src/internal.h"
#include "../support.h"

#define N 16
#define CHANGES 5000 /* of a word, seen by who reads it */

/* A 32-bit x86 compiler aligns them to 4 bytes where nothing else is said. */
static void atomic_words_are_aligned(void **state)
{
	(void)state;
	assert_int_equal(_Alignof(struct percpu_static_counter) % 8, 0);
	assert_int_equal(offsetof(struct percpu_static_counter, early) % 8, 0);
	assert_int_equal(_Alignof(struct counter_rate) % 8, 0);
	assert_int_equal(offsetof(struct counter_rate, cr_ticks) % 8, 0);
	assert_int_equal(_Alignof(struct percpu_fifo) % 8, 0);
}

/* The lengths of these lanes add up to 2^32, less what rounding makes good. */
static void lanes_fit_the_address_space(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o), .cpus = 127 };
	struct percpu_region *r = NULL;
	int e;

	(void)state;
	if (percpu_status()->possible_cpus > o.cpus)
		test_skip("a machine with more than 127 CPUs");
	o.lane_size = 16842816 - (PERCPU_STRIDE - PERCPU_LANE_SIZE);
	e = percpu_region_create(&o, &r);
	percpu_region_close(r);
	if (sizeof(size_t) < 8)
		assert_int_equal(e, -ENOMEM);
	else
		assert_true(e == 0 || e == -ENOMEM);
}

/* Of its low 32 bits, the lane has the default length. */
static void long_lanes_of_a_file_are_not_cut(void **state)
{
	const size_t at = offsetof(struct percpu_header, lane_size);
	uint64_t lane_size = PERCPU_LANE_SIZE + (UINT64_C(1) << 32);
	struct percpu_region *r;
	int fd;

	(void)state;
	assert_int_equal(percpu_region_create_file(test_path("long"), NULL, &r), 0);
	percpu_region_close(r);
	fd = open(test_path("long"), O_WRONLY);
	assert_int_equal(pwrite(fd, &lane_size, sizeof(lane_size), (off_t)at), sizeof(lane_size));
	close(fd);
	assert_int_equal(percpu_region_open(test_path("long"), 0, NULL, &r),
			 sizeof(size_t) < 8 ? -ENOMEM : -EBADMSG);
}

/* In front of libc's, which this program is linked to call here. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static long slept[2]; /* seconds and nanoseconds, as the kernel reads them */

long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_futex && a[1] == FUTEX_WAIT_PRIVATE && a[3] != 0)
		memcpy(slept, (const void *)a[3], sizeof(slept));
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* System calls of 32 bits take other times than libc, where its time_t has 64. */
static void times_are_as_the_kernel_reads_them(void **state)
{
	uint32_t word = 0;

	(void)state;
	percpu_futex_wait(&word, 0, 2000000);
	assert_int_equal(slept[0], 0);
	assert_int_equal(slept[1], 2000000);
	percpu_futex_wait(&word, 1, 3 * PERCPU_SECOND + 4); /* it is not 1 */
	assert_int_equal(slept[0], 3);
	assert_int_equal(slept[1], 4);
}

static struct {
	struct percpu_counter_array *array;
	uint32_t stop;
} halves;

/* As a process with sequences would, all bits of a word at once. */
static void *store_words(void *arg)
{
	uint64_t *cell = (uint64_t *)(void *)halves.array->base;

	for (uint64_t v = 0; !__atomic_load_n(&halves.stop, __ATOMIC_RELAXED); v = ~v)
		__atomic_store_n(&cell[N - 1], v, __ATOMIC_RELAXED);
	return arg;
}

static bool is_torn(uint64_t v)
{
	return v != 0 && v != UINT64_MAX;
}

static void words_are_read_whole(void **state)
{
	uint64_t out[N], last = 0, end = test_now() + 5 * PERCPU_SECOND;
	unsigned torn = 0, changes = 0;
	pthread_t thread;

	(void)state;
	if (test_thread_sanitizer())
		test_skip("vector loads of cells are no race that this sanitizer could see");
	assert_int_equal(percpu_counter_array_create(N, &halves.array), 0);
	assert_int_equal(pthread_create(&thread, NULL, store_words, NULL), 0);
	while (torn == 0 && changes < CHANGES && test_now() < end) {
		percpu_counter_array_fetch_all(halves.array, out);
		torn += is_torn(out[N - 1]);
		changes += out[N - 1] != last;
		last = out[N - 1];
		torn += is_torn(percpu_counter_array_fetch(halves.array, N - 1));
	}
	__atomic_store_n(&halves.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	percpu_counter_array_destroy(halves.array);
	assert_int_equal(torn, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(atomic_words_are_aligned),
		cmocka_unit_test(lanes_fit_the_address_space),
		cmocka_unit_test(long_lanes_of_a_file_are_not_cut),
		cmocka_unit_test(times_are_as_the_kernel_reads_them),
		cmocka_unit_test(words_are_read_whole),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
