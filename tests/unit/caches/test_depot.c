/* SPDX-License-Identifier: MIT */
/* test_depot.c - the shelves of free items: threads that use one shelf at a time. */
#define _GNU_SOURCE
#include <string.h>

#include "steps.h"

#include "caches/caches.h"
#include "support.h"

static struct percpu_depot depot;
static void (*at_shelf)(void); /* called once, at this step of the main thread */
static const char *step;
static pthread_t main_thread;

void test_step(const char *name)
{
	void (*fn)(void) = at_shelf;

	if (fn == NULL || strcmp(name, step) != 0 || !pthread_equal(pthread_self(), main_thread))
		return;
	at_shelf = NULL;
	fn();
}

static void put(size_t n)
{
	void *items[8] = { &depot };

	assert_int_equal(percpu_depot_put(&depot, items, n), 0);
}

static struct test_team team;
static size_t got;

static void take_one(unsigned i, void *arg)
{
	void *item;

	(void)i;
	(void)arg;
	got = percpu_depot_take(&depot, true, &item, 1);
}

static void let_another_take(void)
{
	test_team_start(&team, 1, take_one, NULL);
	test_sleep_us(20000);
}

/* A thread that waits for a shelf's lock takes the items that the other thread has left. */
static void those_who_wait_get_what_is_left(void **state)
{
	void *items[8];

	(void)state;
	assert_int_equal(percpu_depot_init(&depot, 1), 0);
	put(5);
	step = "depot: items taken"; /* the shelf is locked */
	at_shelf = let_another_take;
	assert_int_equal(percpu_depot_take(&depot, true, items, 2), 2);
	test_team_join(&team);
	assert_int_equal(got, 1);
	assert_int_equal(percpu_depot_count(&depot), 2);
	percpu_depot_fini(&depot);
}

static struct percpu_depot emptied;

static void take_all(void)
{
	void *items[8];

	assert_int_equal(percpu_depot_take(&emptied, true, items, 8), 5);
}

/* A shelf has items, but is empty when this thread has its lock. */
static void nothing_is_taken_twice(void **state)
{
	void *items[8] = { &emptied };

	(void)state;
	assert_int_equal(percpu_depot_init(&emptied, 1), 0);
	assert_int_equal(percpu_depot_put(&emptied, items, 5), 0);
	step = "depot: shelf seen";
	at_shelf = take_all;
	assert_int_equal(percpu_depot_take(&emptied, true, items, 2), 0);
	assert_null(at_shelf);
	assert_int_equal(percpu_depot_count(&emptied), 0);
	percpu_depot_fini(&emptied);
}

/* A thread that moves to another CPU while it searches the shelves skips none. */

static struct percpu_depot two; /* shelves */
static unsigned next_cpu;

static unsigned own_of_two(void)
{
	return (unsigned)percpu_seq_cpu() % 2;
}

static void empty_this_and_move(void)
{
	void *item;

	assert_int_equal(percpu_depot_take(&two, true, &item, 1), 1);
	assert_true(test_pin(0, next_cpu));
}

static bool pin_to_other_shelf(unsigned here)
{
	for (unsigned n = 0; n < test_cpus(); n++) {
		next_cpu = test_cpu(n);
		assert_true(test_pin(0, next_cpu));
		if (own_of_two() != here)
			return true;
	}
	return false;
}

static void who_moves_skips_no_shelf(void **state)
{
	void *items[8] = { &two };

	(void)state;
	test_tier();
	if (percpu_seq_attach()->cpu_id < 0)
		test_skip("this thread does not know its CPU");
	assert_true(test_pin(0, test_cpu(0)));
	if (!pin_to_other_shelf(own_of_two())) {
		test_unpin(0);
		test_skip("all CPUs begin at one shelf");
	}
	assert_int_equal(percpu_depot_init(&two, 2), 0);
	assert_int_equal(percpu_depot_put(&two, items, 5), 0);
	assert_true(test_pin(0, test_cpu(0)));
	assert_int_equal(percpu_depot_put(&two, items, 1), 0);
	step = "depot: shelf seen";
	at_shelf = empty_this_and_move;
	assert_int_equal(percpu_depot_take(&two, true, items, 8), 5);
	assert_null(at_shelf);
	assert_int_equal(percpu_depot_count(&two), 0);
	test_unpin(0);
	percpu_depot_fini(&two);
}

/* Items that are put between the end of a reclaim and its trim stay in the depot. */
static void what_is_there_is_not_trimmed(void **state)
{
	static struct percpu_depot used; /* static: stays in the list of depots if this fails */
	void *items[8] = { &used, &depot }, *there[8];

	(void)state;
	assert_int_equal(percpu_depot_init(&used, 1), 0);
	assert_int_equal(percpu_depot_put(&used, items, 2), 0);
	percpu_depot_trim(&used);
	assert_int_equal(percpu_depot_count(&used), 2);
	assert_int_equal(percpu_depot_take(&used, false, there, 8), 2);
	assert_memory_equal(there, items, 2 * sizeof(items[0]));
	percpu_depot_trim(&used);
	assert_int_equal(percpu_depot_put(&used, items, 1), 0);
	assert_int_equal(percpu_depot_take(&used, false, there, 8), 1);
	percpu_depot_fini(&used);
}

/* A fork goes through the list of depots, so a destroyed depot must not be there. */
static void depots_that_are_gone_are_in_no_list(void **state)
{
	struct percpu_depot gone = { .count = 0 }, next = { .count = 0 };

	(void)state;
	assert_int_equal(percpu_depot_init(&gone, 1), 0);
	percpu_depot_fini(&gone);
	assert_int_equal(percpu_depot_init(&next, 1), 0);
	for (const struct percpu_depot *d = &next; d != NULL; d = d->next)
		assert_ptr_not_equal(d, &gone);
	percpu_depot_fini(&next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_who_wait_get_what_is_left),
		cmocka_unit_test(nothing_is_taken_twice),
		cmocka_unit_test(who_moves_skips_no_shelf),
		cmocka_unit_test(what_is_there_is_not_trimmed),
		cmocka_unit_test(depots_that_are_gone_are_in_no_list),
	};

	main_thread = pthread_self();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
