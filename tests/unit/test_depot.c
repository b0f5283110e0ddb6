/* SPDX-License-Identifier: MIT */
/* test_depot.c - the shelves of free items: who waits for whom, and what is left. */
#define _GNU_SOURCE
#include <string.h>

#include "../steps.h"

#include "objects/objects.h"
#include "../support.h"

static struct percpu_depot depot;
static void (*at_shelf)(void); /* while a shelf is locked by the main thread; once */
static pthread_t main_thread;

void test_step(const char *name)
{
	void (*fn)(void) = at_shelf;

	if (fn == NULL || strcmp(name, "depot: items taken") != 0 ||
	    !pthread_equal(pthread_self(), main_thread))
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

/* A shelf that another thread is at is not empty. */
static void those_who_wait_get_what_is_left(void **state)
{
	void *items[8];

	(void)state;
	assert_int_equal(percpu_depot_init(&depot, 1), 0);
	put(5);
	at_shelf = let_another_take;
	assert_int_equal(percpu_depot_take(&depot, true, items, 2), 2);
	test_team_join(&team);
	assert_int_equal(got, 1);
	assert_int_equal(percpu_depot_count(&depot), 2);
	percpu_depot_fini(&depot);
}

/* A fork goes through the list of depots. */
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
		cmocka_unit_test(depots_that_are_gone_are_in_no_list),
	};

	main_thread = pthread_self();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
