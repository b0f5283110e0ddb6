/* SPDX-License-Identifier: MIT */
/*
 * test_kill.c - workers are killed by SIGKILL at any instruction. Their committed counts stay, a
 * commit to several counters is in all of them or in none, and other processes go on.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/counter.h>
#include <percpu/status.h>

#include "../support.h"

#define KILLS 150
#define WORKERS 3

static struct percpu_region *region;
static struct percpu_counter *counter;
static struct percpu_counter_array *array;

static int create(void **state)
{
	int fd = memfd_create("kill", 0), e;

	(void)state;
	e = test_region_new_fd(fd, NULL, &region);
	close(fd);
	if (e == 0)
		e = percpu_counter_create_in(region, &counter);
	return e ? e : percpu_counter_array_create_in(region, 64, &array);
}

static int destroy(void **state)
{
	(void)state;
	percpu_counter_array_detach(array);
	percpu_region_close(region);
	return 0;
}

/* Start workers, and kill them all after a random time. */
static void start_and_kill(int (*fn)(void *arg), uint64_t *published, uint64_t *random)
{
	pid_t pid[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		pid[i] = test_fork(fn, &published[8 * i]);
	while (!__atomic_load_n(&published[0], __ATOMIC_RELAXED))
		test_sleep_us(50);
	test_sleep_us((unsigned)(test_random(random) % 3000));
	for (int i = 0; i < WORKERS; i++)
		kill(pid[i], SIGKILL);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(test_wait(pid[i], 60), SIGKILL);
}

/* Add to the counter, and publish the number of adds after each one. */
static int add_and_publish(void *arg)
{
	uint64_t *published = arg;

	for (uint64_t n = 1; n > 0; n++) {
		percpu_counter_add(counter, 1);
		__atomic_store_n(published, n, __ATOMIC_RELAXED);
	}
	return 0;
}

static void killed_workers_lose_nothing(void **state)
{
	uint64_t *published = test_share(WORKERS * 64);
	uint64_t random = 61;

	(void)state;
	for (int k = 0; k < KILLS; k++) {
		uint64_t sum = 0, counted;

		memset(published, 0, WORKERS * 64);
		start_and_kill(add_and_publish, published, &random);
		for (int i = 0; i < WORKERS; i++)
			sum += published[8 * i];
		counted = percpu_counter_fetch_zero(counter);
		assert_in_range(counted, sum, sum + WORKERS);
	}
}

/* Compact counters whose cells wrap, or need a checkpoint for every add. */
static struct percpu_compact *compact;

static int add_compact_and_publish(void *arg)
{
	uint64_t *published = arg;

	for (uint64_t n = 1; n > 0; n++) {
		percpu_compact_add(compact, 1, 2 * (int64_t)compact->half - 1);
		__atomic_store_n(published, n, __ATOMIC_RELAXED);
	}
	return 0;
}

static void killed_while_crossing(void **state)
{
	uint64_t *published = test_share(WORKERS * 64);
	uint64_t random = 64, half;

	(void)state;
	assert_int_equal(percpu_compact_create_in(region, 3, &compact), 0);
	half = compact->half;
	for (int k = 0; k < KILLS / 3; k++) {
		uint64_t sum = 0, counted;

		compact->half = k % 3 ? half : 1;
		memset(published, 0, WORKERS * 64);
		start_and_kill(add_compact_and_publish, published, &random);
		for (int i = 0; i < WORKERS; i++)
			sum += published[8 * i];
		counted = percpu_compact_fetch_zero(compact, 1);
		assert_int_equal(counted % (2 * compact->half - 1), 0);
		assert_in_range(counted / (2 * compact->half - 1), sum, sum + WORKERS);
	}
	assert_int_equal(percpu_compact_fetch(compact, 0) | percpu_compact_fetch(compact, 2), 0);
	percpu_compact_destroy(compact);
}

static size_t words;

static int add_words(void *arg)
{
	static const int64_t ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	uint64_t *published = arg;

	__atomic_store_n(published, 1, __ATOMIC_RELAXED);
	while (*published) {
		if (words == 8)
			percpu_counter_array_add_n(array, 8, ones, 8);
		else if (words == 4)
			percpu_counter_array_add_n(array, 8, ones, 4);
		else
			percpu_counter_array_add_n(array, 8, ones, 2);
		percpu_counter_array_add_n_slow(array, 8, ones, words); /* not inlined */
	}
	return 0;
}

static void one_commit_is_all_or_nothing(void **state)
{
	uint64_t *published = test_share(WORKERS * 64);
	uint64_t random = 62;

	(void)state;
	if (percpu_status()->commit_words == 1)
		test_skip("this tier commits one word at a time");
	for (int k = 0; k < KILLS; k++) {
		words = (size_t)2 << k % 3;
		if (words > percpu_status()->commit_words)
			continue;
		memset(published, 0, WORKERS * 64);
		start_and_kill(add_words, published, &random);
		for (size_t i = 1; i < words; i++)
			assert_int_equal(percpu_counter_array_fetch(array, 8 + i),
					 percpu_counter_array_fetch(array, 8));
		for (size_t i = 0; i < words; i++)
			percpu_counter_array_zero(array, 8 + i);
	}
}

/* Create and destroy counters, so that some workers die with the allocator's lock. */
static int churn(void *arg)
{
	struct percpu_counter *c;
	uint64_t *published = arg;

	do {
		if (percpu_counter_create_in(region, &c) == 0)
			percpu_counter_destroy(c);
		__atomic_store_n(published, 1, __ATOMIC_RELAXED);
	} while (*published);
	return 0;
}

static void dead_allocators_block_nobody(void **state)
{
	uint64_t *published = test_share(WORKERS * 64);
	uint64_t random = 63;
	struct percpu_counter *c;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over: get_robust_list() is refused");
	percpu_counter_add(counter, 1);
	for (int k = 0; k < KILLS; k++) {
		memset(published, 0, WORKERS * 64);
		start_and_kill(churn, published, &random);
		assert_int_equal(percpu_counter_create_in(region, &c), 0);
		assert_int_equal(percpu_counter_fetch(c), 0);
		percpu_counter_destroy(c);
	}
	assert_int_equal(percpu_counter_fetch(counter), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(killed_workers_lose_nothing, create, destroy),
		cmocka_unit_test_setup_teardown(killed_while_crossing, create, destroy),
		cmocka_unit_test_setup_teardown(one_commit_is_all_or_nothing, create, destroy),
		cmocka_unit_test_setup_teardown(dead_allocators_block_nobody, create, destroy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
