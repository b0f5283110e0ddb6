/* SPDX-License-Identifier: MIT */
/*
 * test_wbuf_cells.c - cells of each kind behind a write buffer, cells that are refused, and readers
 * that keep the lock.
 */
#define _GNU_SOURCE
#include <errno.h>

#include "wbuf.h"

#define LONGER (PERCPU_WBUF_LONGEST + 3)

/* Cells of each kind. The fields of 4 bytes are at both places of a word. */
struct kinds {
	uint64_t whole PERCPU_ALIGNED_WORD;
	uint32_t half[4];
	double real PERCPU_ALIGNED_WORD;
};

static void expect_kinds(const struct kinds *k, uint64_t times)
{
	assert_int_equal(k->whole, times * UINT64_MAX);
	assert_int_equal(k->half[0], UINT32_MAX);
	assert_int_equal(k->half[1], (uint32_t)(UINT32_MAX + times * 3));
	assert_int_equal(k->half[2], (uint32_t)(UINT32_MAX + times * UINT32_MAX));
	assert_int_equal(k->half[3], UINT32_MAX);
	assert_true(k->real == 0.25 * (double)times);
}

static void start(struct kinds *k)
{
	memset(k, 0, sizeof(*k));
	memset(k->half, 0xff, sizeof(k->half));
}

/* Add to each cell, in transactions of one add, and in one of four. */
static void add_each(struct percpu_wbuf *w, struct kinds *k)
{
	const struct percpu_wbuf_entry adds[] = {
		percpu_wbuf_entry_double(&k->real, 1.0),
		percpu_wbuf_entry_u64(&k->whole, UINT64_MAX),
		percpu_wbuf_entry_u32(&k->half[1], 3),
		percpu_wbuf_entry_u32(&k->half[2], UINT32_MAX),
	};

	assert_int_equal(percpu_wbuf_add(w, &k->whole, UINT64_MAX), 0);
	assert_int_equal(percpu_wbuf_add_u32(w, &k->half[1], 3), 0);
	assert_int_equal(percpu_wbuf_add_u32(w, &k->half[2], UINT32_MAX), 0);
	assert_int_equal(percpu_wbuf_add_double(w, &k->real, -0.5), 0);
	assert_int_equal(percpu_wbuf_add_n(w, adds, 4), 0);
}

/* Adds wait in a buffer, or on the list, or find the buffer full. */
static void each_kind_is_added(void **state)
{
	struct own_lock own;
	struct percpu_wbuf *w = make_own(SMALL, &own);
	struct kinds k;

	(void)state;
	start(&k);
	for (uint64_t times = 1; times <= 50; times++) {
		add_each(w, &k);
		if (times % 10 != 0)
			continue;
		percpu_wbuf_flush(w);
		expect_kinds(&k, 2 * times);
	}
	pthread_mutex_lock(&own.mutex);
	for (int i = 0; i < 50; i++)
		add_each(w, &k);
	expect_kinds(&k, 100);
	pthread_mutex_unlock(&own.mutex);
	percpu_wbuf_destroy(w);
	expect_kinds(&k, 200);
}

/* Transactions of each length, whose adds are of each kind in turn. */
static void transactions_mix_kinds(void **state)
{
	static uint64_t whole[LONGER];
	static uint32_t half[LONGER];
	static double real[LONGER];
	struct own_lock own;
	struct percpu_wbuf *w = make_own(128, &own);
	struct percpu_wbuf_entry adds[LONGER];

	(void)state;
	memset(whole, 0, sizeof(whole));
	memset(half, 0, sizeof(half));
	memset(real, 0, sizeof(real));
	for (size_t k = 0; k < LONGER; k++)
		adds[k] = k % 3 == 0 ? percpu_wbuf_entry_u32(&half[k], (uint32_t)k) :
			  k % 3 == 1 ? percpu_wbuf_entry_double(&real[k], (double)k / 2) :
				       percpu_wbuf_entry_u64(&whole[k], k);
	for (size_t n = 1; n <= LONGER; n++)
		assert_int_equal(percpu_wbuf_add_n(w, adds, n), 0);
	pthread_mutex_lock(&own.mutex);
	for (size_t n = 1; n <= LONGER; n++)
		assert_int_equal(percpu_wbuf_add_n(w, adds, n), 0);
	pthread_mutex_unlock(&own.mutex);
	percpu_wbuf_flush(w);
	for (size_t k = 0; k < LONGER; k++) {
		const size_t sum = 2 * k * (LONGER - k);

		assert_int_equal(half[k], k % 3 == 0 ? sum : 0);
		assert_true(real[k] == (k % 3 == 1 ? (double)sum / 2 : 0));
		assert_int_equal(whole[k], k % 3 == 2 ? sum : 0);
	}
	percpu_wbuf_destroy(w);
}

/* A cell that is NULL or not aligned is refused, and so is the transaction that it is in. */
static void cells_must_be_aligned(void **state)
{
	struct percpu_wbuf *w = make(128);
	union {
		uint64_t word[3];
		char byte[24];
	} at = { { 0 } };
	struct percpu_wbuf_entry adds[LONGER];

	(void)state;
	for (uintptr_t i = 1; i < 8; i++) {
		const uintptr_t bad = (uintptr_t)at.byte + i;

		assert_int_equal(percpu_wbuf_add(w, (uint64_t *)bad, 1), -EINVAL);
		assert_int_equal(percpu_wbuf_add_double(w, (double *)bad, 1), -EINVAL);
		assert_int_equal(percpu_wbuf_add_u32(w, (uint32_t *)bad, 0),
				 i % 4 == 0 ? 0 : -EINVAL);
	}
	assert_int_equal(percpu_wbuf_add(w, NULL, 1), -EINVAL);
	assert_int_equal(percpu_wbuf_add_double(w, NULL, 1), -EINVAL);
	assert_int_equal(percpu_wbuf_add_u32(w, NULL, 1), -EINVAL);
	percpu_wbuf_flush(w);
	for (size_t n = 1; n <= LONGER; n++) {
		for (size_t k = 0; k < n; k++)
			adds[k] = percpu_wbuf_entry_u64(k == n / 2 ? NULL : &at.word[1], 1);
		assert_int_equal(percpu_wbuf_add_n(w, adds, n), -EINVAL);
	}
	assert_int_equal(percpu_wbuf_add_n(w, adds, 2), 0);
	for (size_t k = 0; k < 4; k++)
		adds[k] = percpu_wbuf_entry_u64(k == 3 ? NULL : &at.word[1], 1);
	assert_int_equal(percpu_wbuf_add_n(w, adds, 4), -EINVAL);
	assert_int_equal(percpu_wbuf_add_n(w, adds + 2, 2), -EINVAL);
	assert_int_equal(stats(w).pending, buffered() ? 2 : 0);
	percpu_wbuf_destroy(w);
	assert_int_equal(at.word[0], 0);
	assert_int_equal(at.word[1], 2);
	assert_int_equal(at.word[2], 0);
}

/* A reader that keeps the lock finds all that was added before. What is added meanwhile waits. */
static void readers_keep_the_lock(void **state)
{
	struct own_lock own;
	struct percpu_wbuf *const w[] = { make(SMALL), make_own(SMALL, &own) };
	struct kinds k;

	(void)state;
	for (int i = 0; i < 2; i++) {
		start(&k);
		add_each(w[i], &k);
		percpu_wbuf_lock(w[i]);
		expect_kinds(&k, 2);
		start(&k);
		for (int times = 0; times < 20; times++)
			add_each(w[i], &k);
		assert_int_equal(percpu_wbuf_try_flush(w[i]), -EBUSY);
		percpu_wbuf_hint_flush(w[i]);
		expect_kinds(&k, 0);
		assert_int_equal(stats(w[i]).pending, 160);
		percpu_wbuf_unlock(w[i]);
		assert_int_equal(percpu_wbuf_try_flush(w[i]), 0);
		expect_kinds(&k, 40);
		percpu_wbuf_destroy(w[i]);
	}
	assert_int_equal(own.unlocks, own.locks + own.trylocks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_is_added),
		cmocka_unit_test(transactions_mix_kinds),
		cmocka_unit_test(cells_must_be_aligned),
		cmocka_unit_test(readers_keep_the_lock),
		cmocka_unit_test(thread_may_lose_its_registration),
		cmocka_unit_test(each_kind_is_added),
		cmocka_unit_test(transactions_mix_kinds),
		cmocka_unit_test(cells_must_be_aligned),
		cmocka_unit_test(readers_keep_the_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
