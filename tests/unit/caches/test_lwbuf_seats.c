/* SPDX-License-Identifier: MIT */
/* test_lwbuf_seats.c - buffers of one page that share a window, and leave it on other CPUs. */
#define _GNU_SOURCE
#include "../happen.h"
#include "../lwbuf.h"
#include "caches/lwbuf.h"

#define SEATS PERCPU_WINDOW_SEATS

static struct percpu_lwbufs *f;
static struct percpu_lwbuf b[3 * SEATS];

static void setup(size_t max_excess, uint32_t flags)
{
	f = lw_create(lw_memfd(64, PAGE, true), PERCPU_LWBUF_WINDOW, max_excess, flags);
	let_happen(NULL, NULL, 0); /* a test before may have failed */
	assert_true(test_pin(0, test_cpu(0)));
}

static void finish(void)
{
	assert_int_equal(times, 0); /* all has happened */
	assert_int_equal(lw_stats(f).used, 0);
	assert_int_equal(percpu_counter_fetch(f->sharers), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

static void take(unsigned i, uint64_t page)
{
	assert_int_equal(percpu_lwbuf_alloc(f, page, 0, &b[i]), 0);
	assert_true(lw_is_right(percpu_lwbuf_kva(&b[i]), page, PAGE));
}

static void give(unsigned i)
{
	assert_int_equal(percpu_lwbuf_free(f, &b[i]), 0);
}

static void expect(uint64_t used, uint64_t excess, uint64_t mapped)
{
	struct percpu_lwbuf_stats s = lw_stats(f);

	assert_int_equal(s.used, used);
	assert_int_equal(s.excess, excess);
	assert_int_equal(s.mapped, mapped);
}

/* The window of a buffer in use is mapped. */
static void still_there(unsigned i, uint64_t page)
{
	assert_int_equal(b[i].window->length, PAGE);
	assert_true(lw_is_right(percpu_lwbuf_kva(&b[i]), page, PAGE));
}

static void on_cpu(unsigned i)
{
	assert_true(test_pin(0, test_cpu(i)));
}

/* Skip a test of two CPUs' tables. */
static void need_two_cpus(void)
{
	if (test_cpus() < 2 || test_tier() == PERCPU_TIER_SHARED)
		test_skip("there is one CPU, or the CPU is not known");
}

/* Four buffers of a page have one mapping, in whatever order they are freed. */
static void a_page_is_mapped_once(void **state)
{
	(void)state;
	setup(8, 0);
	for (unsigned first = 0; first < SEATS; first++) {
		for (unsigned i = 0; i < SEATS; i++) {
			take(i, 7);
			assert_ptr_equal(b[i].kva, b[0].kva);
			expect(i + 1, 0, 1);
		}
		for (unsigned i = 0; i < SEATS; i++) {
			expect(SEATS - i, 0, 1);
			give((first + i) % SEATS);
		}
		expect(0, 1, 1);
	}
	assert_int_equal(lw_stats(f).windows, SEATS * SEATS);
	finish();
}

/* A window has four seats: more buffers have another window, which they share as well. */
static void seats_may_be_used_up(void **state)
{
	(void)state;
	setup(8, 0);
	for (unsigned i = 0; i < 2 * SEATS; i++) {
		take(i, 7);
		expect(i + 1, 0, 1 + i / SEATS);
	}
	assert_ptr_equal(b[SEATS].kva, b[2 * SEATS - 1].kva);
	/* A seat that is free is taken before a window is mapped. */
	give(2);
	take(2, 7);
	give(5);
	take(5, 7);
	expect(2 * SEATS, 0, 2);
	for (unsigned i = 0; i < 2 * SEATS; i++)
		give(i);
	expect(0, 2, 2);
	finish();
}

/* A store through one buffer is seen through the others, also after that one is freed. */
static void stores_are_seen_by_all(void **state)
{
	(void)state;
	setup(8, PERCPU_LWBUF_WRITABLE);
	take(0, 7);
	assert_int_equal(percpu_lwbuf_alloc(f, 7, PERCPU_LWBUF_WRITE, &b[1]), 0);
	*(uint64_t *)percpu_lwbuf_kva(&b[1]) = 42;
	give(1);
	assert_int_equal(*(uint64_t *)percpu_lwbuf_kva(&b[0]), 42);
	give(0);
	finish();
}

/* A buffer that is freed a second time, itself or as a copy, takes no other buffer's seat. */
static void a_second_free_takes_no_seat(void **state)
{
	struct percpu_lwbuf copy;

	(void)state;
	setup(8, 0);
	for (unsigned i = 0; i < SEATS; i++)
		take(i, 7);
	for (unsigned i = 0; i < SEATS; i++) {
		copy = b[i];
		give(i);
		assert_int_equal(percpu_lwbuf_free(f, &b[i]), -EINVAL);
		assert_int_equal(percpu_lwbuf_free(f, &copy), -EINVAL);
		take(i, 7); /* the same seat */
		assert_int_equal(percpu_lwbuf_free(f, &copy), -EINVAL);
		expect(SEATS, 0, 1);
	}
	for (unsigned i = 0; i < SEATS; i++)
		give(i);
	expect(0, 1, 1);
	finish();
}

/* With PERCPU_LWBUF_DEBUG each buffer has a window of its own. */
static void debug_shares_no_window(void **state)
{
	(void)state;
	setup(8, PERCPU_LWBUF_DEBUG);
	take(0, 7);
	take(1, 7);
	assert_ptr_not_equal(b[0].kva, b[1].kva);
	expect(2, 0, 2);
	give(0);
	give(1);
	expect(0, 0, 2);
	finish();
}

/* A window in use is never taken for another page, unmapped, or drained. */
static void a_window_in_use_stays(void **state)
{
	(void)state;
	setup(1, 0);
	take(0, 7);
	take(1, 7);
	give(0);
	for (uint64_t page = 20; page < 40; page++)
		assert_non_null(lw_touch(f, page));
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 0), 0);
	expect(1, 0, 21);
	still_there(1, 7);
	take(0, 7);
	expect(2, 0, 21);
	give(1);
	still_there(0, 7);
	give(0);
	expect(0, 0, 21);
	finish();
}

/* Beyond the limit a buffer leaves the window to those that have it, with their seats. */
static void the_limit_leaves_seats_to_others(void **state)
{
	(void)state;
	setup(8, 0);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 0), 0);
	take(0, 7);
	take(1, 7);
	give(0);
	for (unsigned i = 0; i < SEATS; i++)
		if (i != 1)
			take(i, 7);
	expect(SEATS, 0, 1);
	for (unsigned i = 0; i < SEATS; i++)
		give(i);
	expect(0, 0, 1);
	finish();
}

/* A window whose page belongs to another set since the limit changed is found there after the
 * free. */
static void sets_may_change_meanwhile(void **state)
{
	uint64_t page, moved = 0;
	size_t set[64];

	(void)state;
	setup(8, 0);
	for (page = 0; page < 64; page++)
		set[page] = percpu_window_set(f, page);
	for (page = 0; page < 8; page++)
		take((unsigned)page, page);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 1024), 0);
	for (page = 0; page < 8; page++) {
		moved += set[page] != percpu_window_set(f, page);
		give((unsigned)page);
	}
	assert_true(moved != 0);
	for (page = 0; page < 8; page++)
		assert_non_null(lw_touch(f, page));
	expect(0, 8, 8);
	finish();
}

/* After the limit has changed much, no window stays where it is no longer found. */
static void windows_of_old_sets_are_unmapped(void **state)
{
	(void)state;
	setup(8, 0);
	for (uint64_t page = 0; page < 8; page++)
		assert_non_null(lw_touch(f, page));
	expect(0, 8, 8);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 1024), 0);
	expect(0, 0, 8);
	finish();
}

/* A page that is mapped ahead takes no other page's place, also where windows fill its set. */
static void a_set_may_be_full_ahead(void **state)
{
	uint64_t pages[64], mapped = 0;
	unsigned n = 0;

	(void)state;
	setup(16, 0);
	for (uint64_t page = 0; page < 64; page++)
		if (percpu_window_set(f, page) == percpu_window_set(f, 0))
			pages[n++] = page;
	if (n <= PERCPU_WINDOW_WAYS) /* of a few pages */
		fail_msg("%u pages in a set", n);
	for (unsigned i = 0; i <= PERCPU_WINDOW_WAYS; i++) {
		assert_int_equal(percpu_lwbuf_populate(f, pages[i], 1, &mapped), 0);
		assert_int_equal(mapped, i < PERCPU_WINDOW_WAYS);
	}
	for (unsigned i = 0; i < PERCPU_WINDOW_WAYS; i++)
		assert_non_null(lw_touch(f, pages[i]));
	expect(0, PERCPU_WINDOW_WAYS, PERCPU_WINDOW_WAYS);
	finish();
}

/* Buffers that leave on another CPU */

/* A window whose buffer was freed on another CPU is free in the table of its own. */
static void who_is_away_leaves_the_window_there(void **state)
{
	void *kva;

	(void)state;
	need_two_cpus();
	setup(8, 0);
	take(0, 7);
	kva = b[0].kva;
	on_cpu(1);
	give(0);
	expect(0, 1, 1);
	on_cpu(0);
	for (unsigned i = 0; i < SEATS; i++)
		take(i, 7);
	assert_ptr_equal(b[SEATS - 1].kva, kva);
	expect(SEATS, 0, 1);
	for (unsigned i = 0; i < SEATS; i++)
		give(i);
	expect(0, 1, 1);
	finish();
}

/* One thread allocates, and another one on another CPU frees, again and again. */
static void buffers_may_be_handed_on(void **state)
{
	(void)state;
	need_two_cpus();
	setup(8, 0);
	for (unsigned n = 0; n < 20; n++) {
		on_cpu(0);
		take(0, 7);
		take(1, 7);
		on_cpu(1);
		give(n % 2);
		expect(1, 0, 1);
		give(1 - n % 2);
		expect(0, 1, 1);
	}
	/* The next allocation clears the seats. */
	on_cpu(0);
	take(0, 7);
	give(0);
	finish();
}

/* Beyond the limit the thread takes the window out of the other CPU's table. */
static void the_limit_holds_for_who_is_away(void **state)
{
	(void)state;
	need_two_cpus();
	for (unsigned limit = 0; limit < 3; limit++) {
		setup(8, 0);
		assert_int_equal(percpu_lwbuf_set_max_excess(f, limit), 0);
		for (unsigned i = 0; i < 6; i++)
			take(i, i);
		on_cpu(1);
		for (unsigned i = 0; i < 6; i++) {
			give(i);
			expect(5 - i, i + 1 < limit ? i + 1 : limit, 6);
		}
		finish();
	}
}

/* Beyond the limit a window stays that other buffers still have, without the seat that was left. */
static void a_seat_is_settled_alone(void **state)
{
	(void)state;
	need_two_cpus();
	setup(8, 0);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 0), 0);
	take(0, 7);
	take(1, 7);
	on_cpu(1);
	give(0);
	assert_int_equal(b[1].window->away, 0);
	expect(1, 0, 1);
	still_there(1, 7);
	give(1);
	expect(0, 0, 1);
	finish();
}

/* Windows whose buffers were freed on another CPU are taken for other pages, and are drained. */
static void what_is_left_is_used_again(void **state)
{
	(void)state;
	need_two_cpus();
	setup(2, 0);
	for (unsigned drained = 0; drained < 2; drained++) {
		on_cpu(0);
		take(0, 7);
		take(1, 7);
		on_cpu(1);
		give(0);
		give(1);
		if (drained) {
			assert_int_equal(percpu_window_drain(f, 0), 0);
			expect(0, 0, lw_stats(f).mapped);
			continue;
		}
		on_cpu(0);
		for (uint64_t page = 20; page < 24; page++)
			assert_non_null(lw_touch(f, page));
		assert_true(lw_stats(f).excess <= 2);
	}
	finish();
}

/* A window that one buffer left on another CPU, and another one still has, is not drained. */
static void who_stays_keeps_the_window(void **state)
{
	(void)state;
	need_two_cpus();
	setup(8, 0);
	take(0, 7);
	take(1, 7);
	on_cpu(1);
	give(0);
	assert_int_equal(percpu_window_drain(f, 0), 0);
	still_there(1, 7);
	assert_int_equal(b[1].window->away, 1);
	give(1);
	expect(0, 1, 1);
	/* The next allocation clears the seats. */
	on_cpu(0);
	take(0, 7);
	give(0);
	finish();
}

/* Steps */

static void leave_on_another_cpu(void)
{
	on_cpu(1);
	give(1);
	on_cpu(0);
}

/* Another CPU's thread leaves a seat while this one is about to leave the last one. */
static void two_may_leave_at_once(void **state)
{
	(void)state;
	need_two_cpus();
	setup(8, 0);
	take(0, 7);
	take(1, 7);
	let_happen(leave_on_another_cpu, "lwbuf: seat to be left", 1);
	give(0);
	expect(0, 1, 1);
	take(0, 7);
	expect(1, 0, 1);
	give(0);
	expect(0, 1, 1);
	finish();
}

static void move_away(void)
{
	on_cpu(1);
}

/* A thread that moves before it leaves its seat leaves it from another CPU. */
static void who_moves_leaves_from_away(void **state)
{
	(void)state;
	need_two_cpus();
	setup(8, 0);
	take(0, 7);
	let_happen(move_away, "lwbuf: last seat to be left", 1);
	give(0);
	expect(0, 1, 1);
	on_cpu(0);
	take(0, 7);
	expect(1, 0, 1);
	give(0);
	finish();
}

static void take_one_more(void)
{
	take(2, 7);
}

/* A thread that has claimed seats loses the word to another one, and claims them again. */
static void a_claim_that_is_lost_is_put_back(void **state)
{
	(void)state;
	need_two_cpus();
	setup(8, 0);
	take(0, 7);
	take(1, 7);
	on_cpu(1);
	give(0);
	on_cpu(0);
	let_happen(take_one_more, "lwbuf: seat seen", 1);
	take(0, 7);
	assert_int_equal(b[1].window->away, 0);
	expect(3, 0, 1);
	for (unsigned i = 0; i < 3; i++)
		give(i);
	expect(0, 1, 1);
	finish();
}

static void take_back(void)
{
	on_cpu(0);
	take(0, 7);
	on_cpu(1);
}

/* The window is allocated again on its CPU before the thread that left it beyond the limit finds
 * it. */
static void what_is_settled_may_be_in_use_again(void **state)
{
	static const char *const steps[] = { "lwbuf: window found on another CPU",
					     "lwbuf: to be left from another CPU" };

	(void)state;
	need_two_cpus();
	for (unsigned i = 0; i < 2; i++) {
		setup(8, 0);
		assert_int_equal(percpu_lwbuf_set_max_excess(f, 0), 0);
		take(1, 7);
		on_cpu(1);
		let_happen(take_back, steps[i], 1);
		give(1);
		assert_int_equal(times, 0); /* it is taken */
		still_there(0, 7);
		expect(1, 0, 1);
		on_cpu(0);
		give(0);
		expect(0, 0, 1);
		finish();
	}
}

static void take_another(void)
{
	on_cpu(0);
	take(2, 7);
	on_cpu(1);
}

/* A seat is taken while another one is taken off the word: both count. */
static void a_word_may_change_while_it_is_settled(void **state)
{
	(void)state;
	need_two_cpus();
	setup(8, 0);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 0), 0);
	take(0, 7);
	take(1, 7);
	on_cpu(1);
	let_happen(take_another, "lwbuf: to be settled", 1);
	give(0);
	expect(2, 0, 1);
	give(1);
	still_there(2, 7);
	give(2);
	expect(0, 0, 1);
	finish();
}

/* A child of fork has the seats of its parent, and leaves them for itself. */
static int leave_seats(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < SEATS; i++)
		test_child_require(percpu_lwbuf_free(f, &b[i]) == 0, "free");
	test_child_require(lw_stats(f).used == 0 && lw_stats(f).excess == 1, "all are free");
	test_child_require(lw_touch(f, 7) != NULL && lw_stats(f).mapped == 1,
			   "the window is there");
	return percpu_lwbuf_destroy(f);
}

static void a_child_leaves_seats_for_itself(void **state)
{
	(void)state;
	setup(8, 0);
	for (unsigned i = 0; i < SEATS; i++)
		take(i, 7);
	test_in_child(leave_seats, NULL);
	expect(SEATS, 0, 1);
	for (unsigned i = 0; i < SEATS; i++)
		give(i);
	expect(0, 1, 1);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_is_mapped_once),
		cmocka_unit_test(seats_may_be_used_up),
		cmocka_unit_test(stores_are_seen_by_all),
		cmocka_unit_test(a_second_free_takes_no_seat),
		cmocka_unit_test(debug_shares_no_window),
		cmocka_unit_test(a_window_in_use_stays),
		cmocka_unit_test(the_limit_leaves_seats_to_others),
		cmocka_unit_test(sets_may_change_meanwhile),
		cmocka_unit_test(windows_of_old_sets_are_unmapped),
		cmocka_unit_test(a_set_may_be_full_ahead),
		cmocka_unit_test(who_is_away_leaves_the_window_there),
		cmocka_unit_test(buffers_may_be_handed_on),
		cmocka_unit_test(the_limit_holds_for_who_is_away),
		cmocka_unit_test(a_seat_is_settled_alone),
		cmocka_unit_test(what_is_left_is_used_again),
		cmocka_unit_test(who_stays_keeps_the_window),
		cmocka_unit_test(two_may_leave_at_once),
		cmocka_unit_test(who_moves_leaves_from_away),
		cmocka_unit_test(a_claim_that_is_lost_is_put_back),
		cmocka_unit_test(what_is_settled_may_be_in_use_again),
		cmocka_unit_test(a_word_may_change_while_it_is_settled),
		cmocka_unit_test(a_child_leaves_seats_for_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
