/* SPDX-License-Identifier: MIT */
/* test_lwbuf_threads.c - threads share windows, hand buffers on, and move among CPUs. */
#include "../lwbuf.h"

#define THREADS 4

static struct percpu_lwbufs *f;
static struct percpu_lwbuf handed[THREADS];
static uint32_t is_handed[THREADS]; /* atomic: 1 if the buffer is there for the next thread */

/* Take pages that others have as well, and let the next thread free some of the buffers. */
static void hand_on(unsigned i, void *arg)
{
	unsigned from = (i + THREADS - 1) % THREADS;
	uint64_t state = i + 1;
	struct percpu_lwbuf mine, theirs;

	(void)arg;
	for (unsigned n = test_rounds(20000); n > 0; n--) {
		uint64_t page = test_random(&state) % 6;

		if (lw_is_wrong(percpu_lwbuf_alloc(f, page, 0, &mine) != 0 ||
				*(uint64_t *)percpu_lwbuf_kva(&mine) != lw_word(page, 0)))
			return;
		if (n % 16 == 0)
			test_pin(0, test_cpu(test_random(&state) % test_cpus()));
		if (__atomic_load_n(&is_handed[i], __ATOMIC_ACQUIRE) == 0 && n > 1) {
			handed[i] = mine;
			__atomic_store_n(&is_handed[i], 1, __ATOMIC_RELEASE);
		} else if (lw_is_wrong(percpu_lwbuf_free(f, &mine) != 0)) {
			return;
		}
		if (__atomic_load_n(&is_handed[from], __ATOMIC_ACQUIRE) != 0) {
			theirs = handed[from];
			__atomic_store_n(&is_handed[from], 0, __ATOMIC_RELEASE);
			if (lw_is_wrong(*(uint64_t *)percpu_lwbuf_kva(&theirs) !=
						lw_word(percpu_lwbuf_page(&theirs), 0) ||
					percpu_lwbuf_free(f, &theirs) != 0))
				return;
		}
	}
}

static void threads_hand_buffers_on(void **state)
{
	(void)state;
	for (size_t limit = 1; limit < 16; limit *= 4) {
		f = lw_create(lw_memfd(64, PAGE, true), PERCPU_LWBUF_WINDOW, limit, 0);
		test_team_run(THREADS, hand_on, NULL);
		assert_false(lw_wrong);
		for (unsigned i = 0; i < THREADS; i++)
			if (is_handed[i]) {
				assert_int_equal(percpu_lwbuf_free(f, &handed[i]), 0);
				is_handed[i] = 0;
			}
		assert_int_equal(lw_stats(f).used, 0);
		assert_true(lw_stats(f).excess <= limit + THREADS);
		assert_int_equal(percpu_lwbuf_reclaim(f), 0);
		assert_int_equal(lw_stats(f).excess, 0);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
}

/* Change the limit, or use pages. */
static void change_limits(unsigned i, void *arg)
{
	static const size_t limits[] = { 4, 1000, 0, 60 };
	uint64_t state = i + 1;

	(void)arg;
	for (unsigned n = test_rounds(2000); n > 0; n--) {
		size_t limit = limits[test_random(&state) % 4];

		if (i % 2 == 0 && n % 8 == 0 &&
		    lw_is_wrong(percpu_lwbuf_set_max_excess(f, limit) != 0))
			return;
		if (lw_is_wrong(lw_touch(f, test_random(&state) % 64) == NULL))
			return;
	}
}

/* Each window is found or unmapped, whichever limit was the last one. */
static void threads_change_limits(void **state)
{
	(void)state;
	f = lw_create(lw_memfd(64, PAGE, true), PERCPU_LWBUF_WINDOW, 8, 0);
	test_team_run(THREADS, change_limits, NULL);
	assert_false(lw_wrong);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 3), 0);
	assert_true(lw_stats(f).used == 0 && lw_stats(f).excess <= 3);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_hand_buffers_on),
		cmocka_unit_test(threads_change_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
