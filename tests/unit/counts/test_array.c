/* SPDX-License-Identifier: MIT */
/* test_array.c - arrays of counters, and adds to several counters at once. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include <percpu/counter.h>
#include <percpu/region.h>
#include <percpu/status.h>

#include "support.h"

#define N 64
#define THREADS 8
#define ADDS 20000

static struct percpu_counter_array *array;

static int create(void **state)
{
	(void)state;
	return percpu_counter_array_create(N, &array);
}

static int destroy(void **state)
{
	(void)state;
	percpu_counter_array_destroy(array);
	array = NULL;
	return 0;
}

static void counters_are_separate(void **state)
{
	uint64_t all[N];

	(void)state;
	for (int i = 0; i < N; i++)
		assert_int_equal(percpu_counter_array_fetch(array, i), 0);
	for (int i = 0; i < N; i++)
		percpu_counter_array_add(array, i, i * 3 - 50);
	percpu_counter_array_fetch_all(array, all);
	for (int i = 0; i < N; i++) {
		assert_int_equal(percpu_counter_array_fetch(array, i), (uint64_t)(i * 3 - 50));
		assert_int_equal(all[i], (uint64_t)(i * 3 - 50));
	}
}

static void zero_and_fetch_zero_touch_one(void **state)
{
	uint64_t all[N];

	(void)state;
	for (int i = 0; i < N; i++)
		percpu_counter_array_add(array, i, 10 + i);
	percpu_counter_array_zero(array, 5);
	assert_int_equal(percpu_counter_array_fetch_zero(array, 6), 16);
	percpu_counter_array_add(array, 6, 2);
	percpu_counter_array_fetch_all(array, all);
	for (int i = 0; i < N; i++)
		assert_int_equal(all[i], i == 5 ? 0 : i == 6 ? 2 : 10 + i);
}

static void index_out_of_range_reads_zero(void **state)
{
	(void)state;
	percpu_counter_array_add(array, 0, 1);
	percpu_counter_array_add(array, N - 1, 1);
	assert_int_equal(percpu_counter_array_fetch(array, N), 0);
	assert_int_equal(percpu_counter_array_fetch(array, SIZE_MAX), 0);
	assert_int_equal(percpu_counter_array_fetch(array, SIZE_MAX / 8 + 1), 0);
	assert_int_equal(percpu_counter_array_fetch_zero(array, N), 0);
	percpu_counter_array_zero(array, N);
	percpu_counter_array_zero(array, SIZE_MAX / 8 + 1);
	assert_int_equal(percpu_counter_array_fetch(array, 0), 1);
	assert_int_equal(percpu_counter_array_fetch(array, N - 1), 1);
}

/* Two arrays of 64 bytes have no gap between them. */
static void counters_behind_are_left_alone(void **state)
{
	struct percpu_counter_array *a, *b;
	struct percpu_region *r;

	(void)state;
	assert_int_equal(percpu_region_create(NULL, &r), 0);
	assert_int_equal(percpu_counter_array_create_in(r, 8, &a), 0);
	assert_int_equal(percpu_counter_array_create_in(r, 8, &b), 0);
	assert_ptr_equal(b->block.base, a->block.base + 64);
	percpu_counter_array_add(b, 0, 5);
	assert_int_equal(percpu_counter_array_fetch(a, 8), 0);
	assert_int_equal(percpu_counter_array_fetch_zero(a, 8), 0);
	percpu_counter_array_zero(a, 8);
	assert_int_equal(percpu_counter_array_fetch(b, 0), 5);
	percpu_counter_array_destroy(a);
	percpu_counter_array_destroy(b);
	percpu_region_close(r);
}

/* Test each width at each position, with neighbors that must not change. */
static void vector_adds_reach_their_words_only(void **state)
{
	static const int64_t n[8] = { 5, -2, 3, INT64_MAX, INT64_MIN, -6, 7, 8 };
	uint64_t want[N] = { 0 }, all[N];

	(void)state;
	for (size_t words = 1; words <= 8; words *= 2) {
		for (size_t i = 0; i + words <= N; i += words) {
			if (words == 1)
				percpu_counter_array_add_n(array, i, n, 1);
			else if (words == 2)
				percpu_counter_array_add_n(array, i, n, 2);
			else if (words == 4)
				percpu_counter_array_add_n(array, i, n, 4);
			else
				percpu_counter_array_add_n(array, i, n, 8);
			percpu_counter_array_add_n_slow(array, i, n, words);
			for (size_t k = 0; k < words; k++)
				want[i + k] += 2 * (uint64_t)n[k];
			percpu_counter_array_fetch_all(array, all);
			assert_memory_equal(all, want, sizeof(all));
		}
	}
}

/* An add of another number of words is no commit, and reaches as many words. */
static void adds_of_other_numbers_reach_their_words_only(void **state)
{
	static const int64_t n[N] = { 1, -2, 3, INT64_MAX, INT64_MIN, -6, 7, 8, 9, 10 };
	uint64_t want[N] = { 0 }, all[N];

	(void)state;
	for (size_t words = 0; words <= 9; words++) {
		percpu_counter_array_add_n_slow(array, 0, n, words);
		for (size_t k = 0; k < words; k++)
			want[k] += (uint64_t)n[k];
	}
	percpu_counter_array_add_n(array, 1, n, 3);
	for (size_t k = 0; k < 3; k++)
		want[1 + k] += (uint64_t)n[k];
	percpu_counter_array_fetch_all(array, all);
	assert_memory_equal(all, want, sizeof(all));
}

static void add_vectors(unsigned t, void *arg)
{
	static const int64_t n[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

	(void)arg;
	for (int i = 0; i < ADDS; i++) {
		switch ((t + (unsigned)i) % 4) {
		case 0:
			percpu_counter_array_add_n(array, 8, n, 8);
			break;
		case 1:
			percpu_counter_array_add_n(array, 8, n, 4);
			percpu_counter_array_add_n(array, 12, n + 4, 4);
			break;
		case 2:
			for (size_t k = 0; k < 8; k += 2)
				percpu_counter_array_add_n(array, 8 + k, n + k, 2);
			break;
		case 3:
			for (size_t k = 0; k < 8; k++)
				percpu_counter_array_add(array, 8 + k, n[k]);
			break;
		}
	}
}

static void vector_adds_are_exact_among_threads(void **state)
{
	(void)state;
	test_team_run(THREADS, add_vectors, NULL);
	for (uint64_t k = 0; k < 8; k++)
		assert_int_equal(percpu_counter_array_fetch(array, 8 + k),
				 (k + 1) * THREADS * ADDS);
	assert_int_equal(percpu_counter_array_fetch(array, 7), 0);
	assert_int_equal(percpu_counter_array_fetch(array, 16), 0);
}

static void commit_words_fit_tier_and_machine(void **state)
{
	unsigned words = percpu_status()->commit_words;

	(void)state;
	if (percpu_status()->tier != PERCPU_TIER_RSEQ) {
		assert_int_equal(words, 1);
		return;
	}
#if defined(PERCPU_ARCH_GENERIC_H)
	assert_true(words == 1 || words == 2 || words == 4 || words == 8);
#elif defined(__x86_64__)
	assert_int_equal(words, __builtin_cpu_supports("avx512f") ? 8 :
				__builtin_cpu_supports("avx2")	  ? 4 :
								    2);
#else
	assert_int_equal(words, 2);
#endif
}

static void add_everywhere(unsigned t, void *arg)
{
	struct percpu_counter_array *a = arg;
	uint64_t random = t + 1;

	for (size_t i = 0; i < a->n; i++)
		percpu_counter_array_add(a, test_random(&random) % a->n, 1);
}

static void million_counters(void **state)
{
	enum { MILLION = 1000000 };
	uint64_t *all = malloc(MILLION * sizeof(*all)), sum = 0;
	struct percpu_counter_array *a;

	(void)state;
	assert_non_null(all);
	assert_int_equal(percpu_counter_array_create(MILLION, &a), 0);
	assert_int_equal(a->n, MILLION);
	test_team_run(3, add_everywhere, a);
	percpu_counter_array_fetch_all(a, all);
	for (size_t i = 0; i < MILLION; i++)
		sum += all[i];
	assert_int_equal(sum, 3 * MILLION);
	for (size_t i = 0; i < MILLION; i += 997)
		assert_int_equal(percpu_counter_array_fetch(a, i), all[i]);
	assert_int_equal(percpu_counter_array_fetch_zero(a, MILLION - 1), all[MILLION - 1]);
	assert_int_equal(percpu_counter_array_fetch(a, MILLION - 1), 0);
	percpu_counter_array_destroy(a);
	free(all);
}

static void bad_arguments_are_refused(void **state)
{
	struct percpu_counter_array *a = array;
	struct percpu_region *r;

	(void)state;
	assert_int_equal(percpu_counter_array_create(8, NULL), -EINVAL);
	assert_int_equal(percpu_counter_array_create(0, &a), -EINVAL);
	assert_int_equal(percpu_counter_array_create(SIZE_MAX, &a), -EINVAL);
	assert_int_equal(percpu_counter_array_create((SIZE_MAX >> 3) + 2, &a), -EINVAL);
	assert_int_equal(percpu_counter_array_create(TEST_MAX_LANE / 8 + 1, &a), -EINVAL);
	assert_ptr_equal(a, array);
	assert_int_equal(percpu_counter_array_create_in(NULL, 8, &a), -EINVAL);
	assert_int_equal(percpu_counter_array_attach(NULL, 1, 8, &a), -EINVAL);
	assert_int_equal(percpu_region_create(NULL, &r), 0);
	assert_int_equal(percpu_counter_array_create_in(r, 0, &a), -EINVAL);
	assert_int_equal(percpu_counter_array_create_in(r, 8, NULL), -EINVAL);
	assert_int_equal(percpu_counter_array_create_in(r, PERCPU_LANE_SIZE / 8 + 1, &a), -EINVAL);
	assert_int_equal(percpu_counter_array_create_in(r, SIZE_MAX / 8 + 2, &a), -EINVAL);
	assert_int_equal(percpu_counter_array_attach(r, 0, 8, &a), -ENOENT);
	assert_int_equal(percpu_counter_array_attach(r, 64, 8, &a), -ENOENT);
	assert_int_equal(percpu_counter_array_attach(r, UINT64_MAX, 8, &a), -ENOENT);
	assert_true(percpu_counter_array_attach(r, 64, SIZE_MAX, &a) < 0);
	assert_int_equal(percpu_counter_array_attach(r, 64, 0, &a), -EINVAL);
	assert_int_equal(percpu_counter_array_attach(r, 64, 8, NULL), -EINVAL);
	assert_ptr_equal(a, array);
	percpu_region_close(r);
	percpu_counter_array_destroy(NULL);
	percpu_counter_array_detach(NULL);
}

static void failing_calls_leave_nothing(void **state)
{
	struct percpu_counter_array *a;
	struct test_holding before;

	(void)state;
	assert_int_equal(percpu_counter_array_create(TEST_MAX_LANE / 8 + 1, &a), -EINVAL);
	before = test_holding_now();
	for (int i = 0; i < 3; i++)
		assert_int_equal(percpu_counter_array_create(TEST_MAX_LANE / 8 + 1, &a), -EINVAL);
	test_assert_holding(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(counters_are_separate, create, destroy),
		cmocka_unit_test_setup_teardown(zero_and_fetch_zero_touch_one, create, destroy),
		cmocka_unit_test_setup_teardown(index_out_of_range_reads_zero, create, destroy),
		cmocka_unit_test(counters_behind_are_left_alone),
		cmocka_unit_test_setup_teardown(vector_adds_reach_their_words_only, create,
						destroy),
		cmocka_unit_test_setup_teardown(adds_of_other_numbers_reach_their_words_only,
						create, destroy),
		cmocka_unit_test_setup_teardown(vector_adds_are_exact_among_threads, create,
						destroy),
		cmocka_unit_test(commit_words_fit_tier_and_machine),
		cmocka_unit_test(million_counters),
		cmocka_unit_test_setup_teardown(bad_arguments_are_refused, create, destroy),
		cmocka_unit_test(failing_calls_leave_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
