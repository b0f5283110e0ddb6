/* SPDX-License-Identifier: MIT */
/* test_calls.c - exported functions that do the same as inline ones: those that no other test
 * calls. */
#include "../lwbuf.h"

#include <percpu/calls.h>

/* Describe a window and a shared buffer of page 1, the second and last page of a file, which has
 * 100 bytes. */
static void buffers_are_described(void **state)
{
	const struct percpu_lwbuf_options o = { .size = sizeof(o) };
	int fd = lw_memfd(2, PAGE, false);
	struct percpu_lwbufs *f;
	struct percpu_lwbuf w;
	struct percpu_sfbuf *s;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)PAGE + 100), 0);
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	assert_int_equal(percpu_lwbuf_alloc(f, 1, 0, &w), 0);
	assert_ptr_equal(percpu_lwbuf_kva_call(&w), percpu_lwbuf_kva(&w));
	assert_int_equal(percpu_lwbuf_page_call(&w), 1);
	assert_int_equal(percpu_lwbuf_length_call(&w), 100);
	assert_int_equal(percpu_lwbuf_free(f, &w), 0);
	assert_int_equal(percpu_sfbuf_alloc(f, 1, 0, &s), 0);
	assert_ptr_equal(percpu_sfbuf_kva_call(s), percpu_sfbuf_kva(s));
	assert_int_equal(percpu_sfbuf_page_call(s), 1);
	assert_int_equal(percpu_sfbuf_length_call(s), 100);
	assert_int_equal(percpu_sfbuf_free(f, s), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

static void values_are_counted_and_read(void **state)
{
	const uint64_t n[2] = { 3, 4 };
	struct percpu_approx *a;
	struct percpu_stats_group *g;
	struct percpu_stats *s;
	int64_t out[2];

	(void)state;
	assert_int_equal(percpu_approx_create(NULL, &a), 0);
	percpu_approx_add_call(a, 1 << 30); /* most of it is in the sum at once */
	assert_in_range(percpu_approx_estimate_call(a), 1 << 29, 1 << 30);
	assert_int_equal(percpu_approx_estimate_call(a), percpu_approx_estimate(a));
	percpu_approx_destroy(a);
	assert_int_equal(percpu_stats_create(16, 1, PERCPU_STATS_WHOLE, &s), 0);
	assert_int_equal(percpu_stats_update_call(s, 0, 0, n, 2), 0);
	assert_int_equal(percpu_stats_fetch(s, 0, 1, out), 0);
	assert_int_equal(out[0], 3);
	assert_int_equal(out[1], 4);
	percpu_stats_destroy(s);
	assert_int_equal(percpu_stats_group_create(16, 1, 2, &g), 0);
	assert_int_equal(percpu_stats_group_update_both_call(g, 1, n, 0, n, 2), 0);
	assert_int_equal(percpu_stats_group_update_call(g, 1, n, 2), 0);
	assert_int_equal(percpu_stats_group_fetch(g, 1, 1, out), 0);
	assert_int_equal(out[0], 6);
	assert_int_equal(out[1], 8);
	percpu_stats_group_destroy(g);
}

/* Get a zone's copy of a CPU; hint to an empty buffer, and to a full one. */
static void items_and_hints_are_passed_on(void **state)
{
	uint64_t cell = 0;
	struct percpu_zone *z;
	struct percpu_wbuf *w;
	void *item;

	(void)state;
	assert_int_equal(percpu_zone_create("calls", 8, NULL, &z), 0);
	assert_int_equal(percpu_zone_alloc(z, 0, &item), 0);
	for (unsigned cpu = 0; cpu < percpu_zone_cpus(z); cpu++)
		assert_ptr_equal(percpu_zone_get_call(item, cpu), percpu_zone_get(item, cpu));
	assert_int_equal(percpu_zone_free(z, item), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
	assert_true(test_pin(0, 0));
	assert_int_equal(percpu_wbuf_create(NULL, &w), 0);
	percpu_wbuf_hint_flush_call(w);
	for (int i = 0; i < 1000 && cell == 0; i++) {
		percpu_wbuf_add(w, &cell, 1);
		percpu_wbuf_hint_flush_call(w);
	}
	assert_int_not_equal(cell, 0);
	percpu_wbuf_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffers_are_described),
		cmocka_unit_test(values_are_counted_and_read),
		cmocka_unit_test(items_and_hints_are_passed_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
