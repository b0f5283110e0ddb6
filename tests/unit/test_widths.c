/* SPDX-License-Identifier: MIT */
/*
 * test_widths.c - what is right by itself where words, addresses and times have
 * 64 bits, and must be seen to elsewhere.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <percpu/freebsd.h>

#include "../../src/internal.h"
#include "../support.h"

#define SLEEPS 20
#define N 16
#define READS 20000

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

static uint64_t switches(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return (uint64_t)u.ru_nvcsw;
}

/* A time that the kernel misreads as 0 is no sleep. */
static void waiters_sleep(void **state)
{
	uint32_t word = 0;
	uint64_t before = switches();

	(void)state;
	for (int i = 0; i < SLEEPS; i++)
		percpu_futex_wait(&word, 0, PERCPU_SECOND / 200);
	assert_true(switches() - before >= SLEEPS);
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
	uint64_t out[N];
	pthread_t thread;
	unsigned torn = 0;

	(void)state;
	if (test_thread_sanitizer())
		test_skip("vector loads of cells are no race that this sanitizer could see");
	assert_int_equal(percpu_counter_array_create(N, &halves.array), 0);
	assert_int_equal(pthread_create(&thread, NULL, store_words, NULL), 0);
	for (int i = 0; i < READS; i++) {
		percpu_counter_array_fetch_all(halves.array, out);
		torn += is_torn(out[N - 1]);
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
		cmocka_unit_test(waiters_sleep),
		cmocka_unit_test(words_are_read_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
