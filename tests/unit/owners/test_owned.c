/* SPDX-License-Identifier: MIT */
/*
 * test_owned.c - test owned gauges: the values of processes that live, that end, that are killed at
 * each step, and whose slots other processes take over.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/calls.h>

#include "support.h"

#include "owners/owners.h"
#include "../later.h"
#include "../owners.h"

#define ROOT 3
#define WORKERS 4

static struct percpu_owned_gauge *gauge;
static struct percpu_owned_fgauge *fgauge;

static int end(void **state)
{
	percpu_owned_gauge_destroy(gauge);
	percpu_owned_fgauge_destroy(fgauge);
	gauge = NULL;
	fgauge = NULL;
	return end_owners(state);
}

static void make(enum percpu_owned_rule rule)
{
	assert_int_equal(percpu_owned_gauge_open(owners, ROOT, rule, &gauge), 0);
}

static void fmake(enum percpu_owned_rule rule)
{
	assert_int_equal(percpu_owned_fgauge_open(owners, ROOT + 1, rule, &fgauge), 0);
}

/* Return the gauge's value. Assert that a handle that may only read sees the same. */
static int64_t value(enum percpu_owned_of of)
{
	const struct percpu_owned_gauge *ours = gauge;
	struct percpu_owned_gauge *seen;
	int64_t here = 0, there = 0;

	assert_int_equal(percpu_owned_gauge_attach(asker, percpu_owned_gauge_key(gauge), &seen), 0);
	assert_int_equal(percpu_owned_gauge_fetch(ours, of, &here), 0);
	assert_int_equal(percpu_owned_gauge_fetch(seen, of, &there), 0);
	percpu_owned_gauge_detach(seen);
	assert_int_equal(here, there);
	return here;
}

static double fvalue(enum percpu_owned_of of)
{
	const struct percpu_owned_fgauge *ours = fgauge;
	double v = 0;

	assert_int_equal(percpu_owned_fgauge_fetch(ours, of, &v), 0);
	return v;
}

static void expect(int64_t living, int64_t all)
{
	assert_int_equal(value(PERCPU_OWNED_LIVING), living);
	assert_int_equal(value(PERCPU_OWNED_ALL), all);
}

static int add_and_end(void *arg)
{
	return percpu_owned_gauge_add(gauge, (int64_t)(intptr_t)arg);
}

static int set_and_end(void *arg)
{
	return percpu_owned_gauge_set(gauge, (int64_t)(intptr_t)arg);
}

static int add_and_stay(void *arg)
{
	if (percpu_owned_gauge_add(gauge, (int64_t)(intptr_t)arg) != 0)
		return 1;
	return stay();
}

static void shares_are_summed(void **state)
{
	pid_t pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	expect(0, 0);
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	expect(5, 5);
	assert_int_equal(percpu_owned_gauge_add_call(gauge, -7), 0);
	expect(-2, -2);
	pid = start(add_and_stay, 10);
	expect(8, 8);
	stop(pid);
	expect(-2, 8);
	test_in_child(add_and_end, (void *)100); /* takes the same slot */
	expect(-2, 108);
	test_in_child(add_and_end, (void *)1000);
	expect(-2, 1108);
	percpu_owners_leave(owners);
	expect(0, 1108);
	assert_int_equal(percpu_owned_gauge_add(gauge, 1), 0);
	expect(1, 1109);
}

static void shares_are_set(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owned_gauge_set(gauge, 7), 0);
	test_in_child(set_and_end, (void *)50);
	expect(7, 57);
	assert_int_equal(percpu_owned_gauge_set(gauge, -1), 0);
	expect(-1, 49);
	assert_int_equal(percpu_owned_gauge_add(gauge, 3), 0);
	expect(2, 52);
}

static void least_and_greatest(void **state)
{
	int64_t v = 77;

	(void)state;
	make(PERCPU_OWNED_MIN);
	assert_int_equal(percpu_owned_gauge_fetch(gauge, PERCPU_OWNED_ALL, &v), -ENODATA);
	assert_int_equal(percpu_owned_gauge_fetch(gauge, PERCPU_OWNED_LIVING, &v), -ENODATA);
	assert_int_equal(v, 77);
	assert_int_equal(percpu_owned_gauge_set(gauge, 5), 0);
	expect(5, 5);
	test_in_child(set_and_end, (void *)9);
	expect(5, 5);
	test_in_child(set_and_end, (void *)-3);
	expect(5, -3);
	test_in_child(set_and_end, (void *)1);
	expect(5, -3);
	percpu_owned_gauge_destroy(gauge);
	assert_int_equal(percpu_region_set_root(region, ROOT, percpu_region_root(region, ROOT), 0),
			 0);
	make(PERCPU_OWNED_MAX);
	assert_int_equal(percpu_owned_gauge_set(gauge, -5), 0);
	expect(-5, -5);
	test_in_child(set_and_end, (void *)-9);
	expect(-5, -5);
	test_in_child(set_and_end, (void *)4);
	test_in_child(set_and_end, (void *)3);
	expect(-5, 4);
}

static void the_most_recent(void **state)
{
	struct percpu_owned_value v[4];
	size_t n = 0;

	(void)state;
	make(PERCPU_OWNED_RECENT);
	assert_int_equal(percpu_owned_gauge_add(gauge, 1), -EINVAL);
	assert_int_equal(percpu_owned_gauge_set(gauge, 5), 0);
	expect(5, 5);
	test_in_child(set_and_end, (void *)9);
	expect(5, 9);
	test_in_child(set_and_end, (void *)8);
	expect(5, 8);
	assert_int_equal(percpu_owned_gauge_set(gauge, 6), 0);
	expect(6, 6);
	assert_int_equal(percpu_owned_gauge_each(gauge, PERCPU_OWNED_ALL, v, 4, &n), 0);
	assert_int_equal(n, 2);
	assert_true(v[0].value == 6 && v[1].value == 8 && v[0].when > v[1].when);
	test_in_child(set_and_end, (void *)7);
	expect(6, 7);
}

static int fset_and_end(void *arg)
{
	return percpu_owned_fgauge_set(fgauge, (double)(intptr_t)arg / 4);
}

static void doubles(void **state)
{
	(void)state;
	fmake(PERCPU_OWNED_SUM);
	assert_true(percpu_owned_fgauge_add(fgauge, NAN) == -EDOM &&
		    percpu_owned_fgauge_add(fgauge, -INFINITY) == -EDOM &&
		    percpu_owned_fgauge_add(fgauge, 0x1p1000) == -ERANGE &&
		    percpu_owned_fgauge_set(fgauge, NAN) == -EDOM &&
		    percpu_owned_fgauge_set(fgauge, -0x1p1023) == -ERANGE);
	assert_int_equal(percpu_owners_self(owners), 0);
	assert_int_equal(percpu_owned_fgauge_add(fgauge, 0.1), 0);
	assert_true(fvalue(PERCPU_OWNED_LIVING) == 0.1);
	assert_int_equal(percpu_owned_fgauge_add(fgauge, NAN), -EDOM);
	assert_int_equal(percpu_owned_fgauge_add(fgauge, INFINITY), -EDOM);
	assert_int_equal(percpu_owned_fgauge_set(fgauge, INFINITY), -EDOM);
	assert_int_equal(percpu_owned_fgauge_add(fgauge, 0x1p999), 0);
	assert_int_equal(percpu_owned_fgauge_add(fgauge, 0x1p999), -ERANGE);
	assert_true(fvalue(PERCPU_OWNED_LIVING) == 0x1p999);
	/* After a set, an add finds an old value in `when`. */
	assert_int_equal(percpu_owned_fgauge_set(fgauge, 0), 0);
	assert_int_equal(percpu_owned_fgauge_add(fgauge, 0x1p999), 0);
	assert_true(fvalue(PERCPU_OWNED_LIVING) == 0x1p999);
	assert_int_equal(percpu_owned_fgauge_set(fgauge, 1), 0);
	assert_int_equal(percpu_owned_fgauge_add(fgauge, 0.25), 0);
	assert_true(fvalue(PERCPU_OWNED_LIVING) == 1.25);
	assert_int_equal(percpu_owned_fgauge_set(fgauge, 1.5), 0);
	test_in_child(fset_and_end, (void *)1);
	test_in_child(fset_and_end, (void *)-3);
	assert_true(fvalue(PERCPU_OWNED_LIVING) == 1.5);
	assert_true(fvalue(PERCPU_OWNED_ALL) == 1.0);
}

static void extremes_of_doubles(void **state)
{
	(void)state;
	fmake(PERCPU_OWNED_MIN);
	assert_int_equal(percpu_owned_fgauge_set(fgauge, -1.5), 0);
	test_in_child(fset_and_end, (void *)-7); /* -1.75 */
	test_in_child(fset_and_end, (void *)-5);
	assert_true(fvalue(PERCPU_OWNED_LIVING) == -1.5);
	assert_true(fvalue(PERCPU_OWNED_ALL) == -1.75);
}

static void each_has_a_value(void **state)
{
	struct percpu_owned_value v[3];
	size_t n = 0;
	pid_t pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	fmake(PERCPU_OWNED_MAX);
	assert_int_equal(percpu_owned_gauge_add(gauge, 1), 0);
	pid = start(add_and_stay, 2);
	assert_int_equal(percpu_owned_gauge_each(gauge, PERCPU_OWNED_LIVING, v, 3, &n), 0);
	assert_int_equal(n, 2);
	assert_true(v[0].value == 1 && v[0].pid == (uint32_t)getpid() && v[0].alive == 1 &&
		    v[0].id == percpu_owners_self(owners) && v[0].fvalue == 0 && v[0].when == 0);
	assert_true(v[1].value == 2 && v[1].pid == (uint32_t)pid && v[1].alive == 1);
	assert_int_equal(percpu_owned_gauge_each(gauge, PERCPU_OWNED_ALL, v, 1, &n), 0);
	assert_int_equal(n, 2);
	stop(pid);
	assert_int_equal(percpu_owned_gauge_each(gauge, PERCPU_OWNED_LIVING, v, 3, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(percpu_owned_gauge_each(gauge, PERCPU_OWNED_ALL, v, 3, &n), 0);
	assert_int_equal(n, 2);
	assert_true(v[1].value == 2 && v[1].pid == (uint32_t)pid && v[1].alive == 0);
	/* Another process takes the slot, and does not update this gauge. */
	test_in_child(fset_and_end, (void *)10);
	assert_int_equal(percpu_owned_gauge_each(gauge, PERCPU_OWNED_ALL, v, 3, &n), 0);
	assert_int_equal(n, 2);
	assert_true(v[1].value == 2 && v[1].pid == 0 && v[1].alive == 0);
	expect(1, 3);
	assert_int_equal(percpu_owned_fgauge_each(fgauge, PERCPU_OWNED_ALL, v, 3, &n), 0);
	assert_int_equal(n, 1);
	assert_true(v[0].fvalue == 2.5 && v[0].value == 0);
}

/* A dead owner's slot has a new owner, which has not updated the gauge. The dead owner's value does
 * not count as living. */
static void shares_are_of_owners_and_not_of_slots(void **state)
{
	pid_t pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	test_in_child(add_and_end, (void *)3);
	assert_int_equal(percpu_owners_join(owners), 0); /* takes that slot */
	expect(0, 3);
	pid = start(add_and_stay, 4);
	expect(4, 7);
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	expect(9, 12);
	stop(pid);
	expect(5, 12);
}

static void bad_calls_are_refused(void **state)
{
	struct percpu_owned_gauge *g = NULL;
	struct percpu_owned_fgauge *f = NULL;
	struct percpu_owned_value v;
	struct percpu_owners *others;
	int64_t n = 5;
	size_t found = 6;

	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owned_gauge_open(owners, ROOT, PERCPU_OWNED_MIN, &g), -EEXIST);
	assert_int_equal(percpu_owned_fgauge_open(owners, ROOT, PERCPU_OWNED_SUM, &f), -EEXIST);
	assert_int_equal(percpu_owned_fgauge_attach(owners, percpu_owned_gauge_key(gauge), &f),
			 -ENOENT);
	assert_int_equal(percpu_owned_gauge_open(owners, 16, PERCPU_OWNED_SUM, &g), -EINVAL);
	assert_int_equal(percpu_owned_gauge_open(owners, 5, (enum percpu_owned_rule)4, &g),
			 -EINVAL);
	assert_int_equal(percpu_owned_gauge_create_in(owners, (enum percpu_owned_rule) - 1, &g),
			 -EINVAL);
	assert_int_equal(percpu_owned_gauge_create_in(asker, PERCPU_OWNED_SUM, NULL), -EINVAL);
	assert_int_equal(percpu_owned_gauge_open(owners, ROOT, PERCPU_OWNED_MIN, NULL), -EINVAL);
	assert_int_equal(percpu_owned_gauge_attach(owners, 1, NULL), -EINVAL);
	assert_int_equal(percpu_owned_gauge_create_in(asker, PERCPU_OWNED_SUM, &g), -EROFS);
	assert_int_equal(percpu_owned_gauge_open(asker, 5, PERCPU_OWNED_SUM, &g), -ENOENT);
	assert_int_equal(percpu_owned_gauge_attach(owners, percpu_owners_key(owners), &g), -ENOENT);
	assert_int_equal(percpu_owners_create_in(region, &others), 0);
	assert_int_equal(percpu_owned_gauge_attach(others, percpu_owned_gauge_key(gauge), &g),
			 -ENOENT);
	percpu_owners_destroy(others);
	assert_true(g == NULL && f == NULL);
	assert_int_equal(percpu_owned_gauge_fetch(gauge, (enum percpu_owned_of)2, &n), -EINVAL);
	assert_int_equal(percpu_owned_gauge_fetch(gauge, PERCPU_OWNED_ALL, NULL), -EINVAL);
	assert_int_equal(percpu_owned_gauge_each(gauge, PERCPU_OWNED_ALL, &v, 1, NULL), -EINVAL);
	assert_int_equal(percpu_owned_gauge_each(gauge, (enum percpu_owned_of)2, &v, 1, &found),
			 -EINVAL);
	assert_int_equal(percpu_owned_gauge_each(gauge, PERCPU_OWNED_ALL, NULL, 1, &found),
			 -EINVAL);
	assert_true(n == 5 && found == 6);
	assert_int_equal(percpu_owned_gauge_each(gauge, PERCPU_OWNED_ALL, NULL, 0, &found), 0);
	assert_int_equal(found, 0);
	assert_int_equal(percpu_owned_gauge_attach(asker, percpu_owned_gauge_key(gauge), &g), 0);
	assert_int_equal(percpu_owned_gauge_add(g, 1), -EROFS);
	assert_int_equal(percpu_owned_gauge_set(g, 1), -EROFS);
	percpu_owned_gauge_destroy(g); /* frees nothing */
	expect(0, 0);
}

/* A process that attaches to a gauge can ask for its rule. */
static void rules_are_told(void **state)
{
	struct percpu_owned_gauge *g = NULL;
	struct percpu_owned_fgauge *f = NULL;

	(void)state;
	for (int rule = PERCPU_OWNED_SUM; rule <= PERCPU_OWNED_RECENT; rule++) {
		make((enum percpu_owned_rule)rule);
		fmake((enum percpu_owned_rule)rule);
		assert_int_equal(
			percpu_owned_gauge_attach(asker, percpu_owned_gauge_key(gauge), &g), 0);
		assert_int_equal(
			percpu_owned_fgauge_attach(owners, percpu_owned_fgauge_key(fgauge), &f), 0);
		assert_int_equal(percpu_owned_gauge_rule(gauge), rule);
		assert_int_equal(percpu_owned_fgauge_rule(fgauge), rule);
		assert_int_equal(percpu_owned_gauge_rule(g), rule);
		assert_int_equal(percpu_owned_fgauge_rule(f), rule);
		percpu_owned_gauge_detach(g);
		percpu_owned_fgauge_detach(f);
		assert_int_equal(
			percpu_region_set_root(region, ROOT, percpu_owned_gauge_key(gauge), 0), 0);
		assert_int_equal(percpu_region_set_root(region, ROOT + 1,
							percpu_owned_fgauge_key(fgauge), 0),
				 0);
		percpu_owned_gauge_destroy(gauge);
		percpu_owned_fgauge_destroy(fgauge);
		gauge = NULL;
		fgauge = NULL;
	}
}

/* Kill a child at the step of its first update, and expect these values. */
static void killed_at(const char *step, int64_t living, int64_t all)
{
	pid_t pid;

	pid = start_until(step, add_and_stay, 1000);
	assert_int_equal(value(PERCPU_OWNED_ALL), all);
	stop(pid);
	expect(living, all);
}

static void the_killed_leave_all_or_nothing(void **state)
{
	(void)state;
	if (!percpu_robust_supported())
		test_skip("the kernel does not take over locks of the killed");
	make(PERCPU_OWNED_SUM);
	killed_at("owner: slot taken", 0, 0);
	killed_at("owned: account filled in", 0, 0);
	killed_at("owned: turned", 0, 1000);
	killed_at("owner: slot freed", 0, 1000);
	killed_at("owner: slot taken", 0, 1000);
	killed_at("owned: account filled in", 0, 1000); /* in a dead owner's share */
	killed_at("owned: account filled in", 0, 1000);
	killed_at("owned: turned", 0, 2000);
	assert_int_equal(percpu_owned_gauge_add(gauge, 7), 0);
	expect(7, 2007);
}

static void fork_twice(void)
{
	test_in_child(add_and_end, (void *)100);
	test_in_child(add_and_end, (void *)50);
}

/* Two owners come and go between a reader's loads of `value` and of `left`. */
static void readers_see_one_account(void **state)
{
	int64_t v = 0;

	(void)state;
	make(PERCPU_OWNED_SUM);
	test_in_child(add_and_end, (void *)100);
	meanwhile = fork_twice;
	deadly = "owned: value loaded";
	assert_int_equal(percpu_owned_gauge_fetch(gauge, PERCPU_OWNED_ALL, &v), 0);
	assert_int_equal(v, 250);
}

/* Another thread leaves while this one is about to update. The update is not counted for another
 * owner, and later updates join again. */

static void leave(void)
{
	percpu_owners_leave(owners);
}

static void who_leaves_meanwhile_takes_nothing(void **state)
{
	struct percpu_owned_gauge *again = NULL;
	pid_t pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	pid = start(add_and_stay, 10); /* in slot 0 */
	assert_int_equal(percpu_owners_join(owners), 0);
	meanwhile = leave;
	deadly = "owned: joined";
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	expect(15, 15);
	stop(pid);
	assert_int_equal(percpu_owned_gauge_attach(owners, percpu_owned_gauge_key(gauge), &again),
			 0);
	meanwhile = leave;
	deadly = "owned: account found";
	assert_int_equal(percpu_owned_gauge_add(again, 0), 0);
	assert_int_equal(percpu_owned_gauge_add(again, 100), 0);
	expect(100, 115);
	percpu_owned_gauge_detach(again);
}

static void add_meanwhile(void)
{
	(void)percpu_owned_gauge_add(gauge, 7);
}

/* Two threads make their first updates at once. One makes the account, and the other uses it. */
static void first_updates_make_one_account(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	meanwhile = add_meanwhile;
	deadly = "owned: no account found";
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	expect(12, 12);
	assert_int_equal(percpu_owned_gauge_add(gauge, 1), 0);
	expect(13, 13);
}

/* Another thread makes the account when this one is about to make it. */
static void accounts_are_made_once(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	meanwhile = add_meanwhile;
	deadly = "owned: account to be made";
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	expect(12, 12);
}

static int begin_small(void **state)
{
	const struct percpu_region_options o = { .size = sizeof(o), .lane_size = 32768 };

	(void)state;
	return begin_owners_in(&o);
}

static void add_and_fill(void)
{
	void *cell;

	(void)percpu_owned_gauge_add(gauge, 7);
	for (size_t size = 16384; size >= 8; size /= 2)
		while (percpu_region_alloc(region, size, 8, &cell) == 0)
			;
}

/* Another thread was first, and has filled the region. This thread needs no more room. */
static void first_updates_need_room_once(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owners_join(owners), 0);
	meanwhile = add_and_fill;
	deadly = "owner: block looked for";
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	expect(12, 12);
}

/* Fill the region, except for one block of shares. */
static void leave_room_for_one(void)
{
	const size_t size = sizeof(struct percpu_owned_shares);
	void *block, *cell;

	assert_int_equal(percpu_region_alloc(region, size, PERCPU_BLOCK_ALIGN, &block), 0);
	while (percpu_region_alloc(region, 8, 8, &cell) == 0)
		;
	assert_int_equal(percpu_region_free(region, block, size), 0);
}

static pthread_t second;
static int second_error;
static uint32_t second_ended;

static void *add_second(void *arg)
{
	(void)arg;
	second_error = percpu_owned_gauge_add(gauge, 7);
	__atomic_store_n(&second_ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Start a second thread that adds. Return when it waits for the lock, or has ended. */
static void let_a_second_one_add(void)
{
	assert_int_equal(pthread_create(&second, NULL, add_second, NULL), 0);
	while (!__atomic_load_n(&seen_there, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&second_ended, __ATOMIC_ACQUIRE))
		sched_yield();
}

/* The first thread has taken the last room, and has not stored the key yet, when a second one needs
 * the block. */
static void the_last_room_is_for_all(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owners_join(owners), 0);
	leave_room_for_one();
	second_ended = 0;
	awaited = "lock: to be waited for";
	meanwhile = let_a_second_one_add;
	deadly = "owner: block made";
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	assert_int_equal(pthread_join(second, NULL), 0);
	assert_int_equal(second_error, 0);
	expect(12, 12);
}

static uint32_t leaving, added;

static void leave_slowly(void)
{
	__atomic_store_n(&leaving, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&seen_there, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&added, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void *leave_in_thread(void *arg)
{
	(void)arg;
	percpu_owners_leave(owners);
	return NULL;
}

static void who_leaves_is_awaited(void **state)
{
	pthread_t thread;
	int e;

	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	__atomic_store_n(&leaving, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&added, 0, __ATOMIC_RELAXED);
	awaited = "owner: leave awaited";
	meanwhile = leave_slowly;
	deadly = "owner: byte unlocked";
	assert_int_equal(pthread_create(&thread, NULL, leave_in_thread, NULL), 0);
	while (!__atomic_load_n(&leaving, __ATOMIC_ACQUIRE))
		sched_yield();
	e = percpu_owned_gauge_add(gauge, 10);
	__atomic_store_n(&added, 1, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(e, 0);
	expect(10, 15);
}

static void leave_for_long(void)
{
	percpu_owners_leave(owners);
	let_pass(2 * PERCPU_LOCK_NS);
}

static void wait_for_long(void)
{
	let_pass(2 * PERCPU_LOCK_NS);
}

/* If other threads leave the owners again and again, or never finish leaving, an update fails after
 * a second. */
static void nobody_is_awaited_forever(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	meanwhile = leave_for_long;
	deadly = "owned: account to be made";
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), -ETIMEDOUT);
	owners->leaving = 1;
	meanwhile = wait_for_long;
	deadly = "owner: leave awaited";
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), -ETIMEDOUT);
	assert_null(deadly);
	owners->leaving = 0;
	expect(0, 0);
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	expect(5, 5);
}

static void set_later(void)
{
	assert_int_equal(percpu_owned_gauge_set(gauge, 9), 0);
}

/* Another thread sets a more recent value meanwhile. It stays. */
static void who_sets_late_changes_nothing(void **state)
{
	(void)state;
	make(PERCPU_OWNED_RECENT);
	assert_int_equal(percpu_owned_gauge_set(gauge, 1), 0);
	meanwhile = set_later;
	deadly = "owned: value to be set";
	assert_int_equal(percpu_owned_gauge_set(gauge, 5), 0);
	assert_null(deadly);
	expect(9, 9);
}

static void begin_to_leave(void)
{
	owners->leaving = 1;
}

/* While a thread leaves, an update does not remember the account in `mine`. The next update asks
 * again whose it is. */
static void who_leaves_keeps_no_account(void **state)
{
	struct percpu_owned_gauge *again = NULL;

	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	assert_non_null(gauge->owned.mine);
	assert_int_equal(percpu_owned_gauge_attach(owners, percpu_owned_gauge_key(gauge), &again),
			 0);
	meanwhile = begin_to_leave;
	deadly = "owned: account found";
	assert_int_equal(percpu_owned_gauge_add(again, 1), 0);
	assert_null(again->owned.mine);
	owners->leaving = 0;
	assert_int_equal(percpu_owned_gauge_add(again, 1), 0);
	assert_ptr_equal(again->owned.mine, gauge->owned.mine);
	expect(7, 7);
	percpu_owned_gauge_detach(again);
}

/* Shared by threads that add on all CPUs. They begin when all of them are there. */
static struct {
	unsigned there;
	unsigned rounds;
	int error;
} adding;

static void add_many(unsigned i, void *arg)
{
	const int64_t n = i % 2 == 0 ? 2 : -1;
	int e = 0;

	(void)arg;
	test_pin(0, test_cpu(i % test_cpus()));
	__atomic_fetch_add(&adding.there, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&adding.there, __ATOMIC_SEQ_CST) != 8)
		test_sleep_us(1);
	for (unsigned k = 0; k < adding.rounds && e == 0; k++)
		e = percpu_owned_gauge_add(gauge, n);
	for (unsigned k = 0; k < 1000 && e == 0; k++)
		e = percpu_owned_fgauge_add(fgauge, (double)n);
	if (e != 0)
		__atomic_store_n(&adding.error, e, __ATOMIC_RELAXED);
}

static void threads_share_a_value(void **state)
{
	int64_t sum;

	(void)state;
	make(PERCPU_OWNED_SUM);
	fmake(PERCPU_OWNED_SUM);
	adding.there = 0;
	adding.rounds = test_rounds(50000);
	sum = 4 * (int64_t)adding.rounds;
	test_team_run(8, add_many, NULL);
	assert_int_equal(adding.error, 0);
	expect(sum, sum);
	assert_true(fvalue(PERCPU_OWNED_LIVING) == 4000);
}

static void set_many(unsigned i, void *arg)
{
	(void)arg;
	for (unsigned n = 0; n < 300; n++)
		(void)percpu_owned_gauge_set(gauge, i * 1000 + n);
}

/* A value and its time belong together. So the most recent value is the last one of some thread. */
static void times_belong_to_values(void **state)
{
	struct percpu_owned_value v;
	size_t n = 0;
	int64_t last;

	(void)state;
	make(PERCPU_OWNED_RECENT);
	test_team_run(4, set_many, NULL);
	assert_int_equal(percpu_owned_gauge_each(gauge, PERCPU_OWNED_LIVING, &v, 1, &n), 0);
	last = v.value;
	assert_int_equal(last % 1000, 299);
	assert_int_equal(value(PERCPU_OWNED_LIVING), last);
}

static void handles_of_one_process_add_up(void **state)
{
	struct percpu_owned_gauge *second;

	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owned_gauge_open(owners, ROOT, PERCPU_OWNED_SUM, &second), 0);
	assert_int_equal(percpu_owned_gauge_add(gauge, 1), 0);
	assert_int_equal(percpu_owned_gauge_add(second, 2), 0);
	expect(3, 3);
	assert_int_equal(percpu_owned_gauge_set(second, 9), 0);
	expect(9, 9);
	percpu_owned_gauge_detach(second);
	expect(9, 9);
}

/* A gauge has as many blocks of shares as its owners have blocks of slots. */
static void gauges_grow(void **state)
{
	struct percpu_owner_seen seen;

	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owned_gauge_add(gauge, 1), 0);
	percpu_owners_leave(owners);
	(void)percpu_owner_look(owners, 0, &seen);
	for (size_t i = 0; i < PERCPU_OWNER_SLOTS; i++)
		owners->slots[0][i] = (struct percpu_owner_slot){
			.word = 40, .space = 5, .started = 1, .pid = 1
		};
	assert_int_equal(percpu_owned_gauge_add(gauge, 2), 0);
	assert_int_equal(percpu_owners_self(owners) % PERCPU_OWNERS_MAX, PERCPU_OWNER_SLOTS);
	expect(2, 3);
}

static int fork_and_add(void *arg)
{
	(void)arg;
	test_child_require(percpu_owned_gauge_add(gauge, 10) == 0, "to add");
	return value(PERCPU_OWNED_LIVING) != 15;
}

static void children_of_fork_have_shares_of_their_own(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	test_in_child(fork_and_add, NULL);
	expect(5, 15);
}

/* By handles of each kind: a child has its own share, and a process that has joined again has a new
 * one. */

static int add_by_handle(void *arg)
{
	struct percpu_owned_gauge *h = arg;

	return percpu_owned_gauge_add(h, 10) != 0 || value(PERCPU_OWNED_LIVING) != 15;
}

static int fadd_by_handle(void *arg)
{
	struct percpu_owned_fgauge *h = arg;

	return percpu_owned_fgauge_add(h, 10) != 0 || fvalue(PERCPU_OWNED_LIVING) != 15;
}

static void use_by_handle(struct percpu_owned_gauge *h)
{
	assert_int_equal(percpu_owned_gauge_set(gauge, 0), 0);
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owned_gauge_add(h, 5), 0);
	assert_int_equal(value(PERCPU_OWNED_LIVING), 5);
	test_in_child(add_by_handle, h);
	assert_int_equal(value(PERCPU_OWNED_LIVING), 5);
	percpu_owners_leave(owners);
	assert_int_equal(value(PERCPU_OWNED_LIVING), 0);
	assert_int_equal(percpu_owned_gauge_add(h, 3), 0);
	assert_int_equal(value(PERCPU_OWNED_LIVING), 3);
}

static void fuse_by_handle(struct percpu_owned_fgauge *h)
{
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owned_fgauge_add(h, 5), 0);
	assert_true(fvalue(PERCPU_OWNED_LIVING) == 5);
	test_in_child(fadd_by_handle, h);
	assert_true(fvalue(PERCPU_OWNED_LIVING) == 5);
	percpu_owners_leave(owners);
	assert_true(fvalue(PERCPU_OWNED_LIVING) == 0);
	assert_int_equal(percpu_owned_fgauge_add(h, 3), 0);
	assert_true(fvalue(PERCPU_OWNED_LIVING) == 3);
}

static void all_handles_know_whose_the_share_is(void **state)
{
	struct percpu_owned_gauge *found;
	struct percpu_owned_fgauge *ffound;
	int64_t all;

	(void)state;
	make(PERCPU_OWNED_SUM);
	fmake(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owned_gauge_attach(owners, percpu_owned_gauge_key(gauge), &found),
			 0);
	assert_int_equal(
		percpu_owned_fgauge_attach(owners, percpu_owned_fgauge_key(fgauge), &ffound), 0);
	use_by_handle(gauge);
	all = value(PERCPU_OWNED_ALL);
	assert_int_equal(all, 18);
	use_by_handle(found);
	assert_int_equal(value(PERCPU_OWNED_ALL), all - 3 + 18);
	fuse_by_handle(fgauge);
	fuse_by_handle(ffound);
	assert_true(fvalue(PERCPU_OWNED_ALL) == 36);
	percpu_owned_gauge_detach(found);
	percpu_owned_fgauge_detach(ffound);
}

/* Begin and end requests until this process is killed, at a random time. */
static int work(void *arg)
{
	uint64_t random = (uintptr_t)arg * 1009 + 1;

	for (;;) {
		if (percpu_owned_gauge_add(gauge, 1) != 0)
			return 1;
		if (test_random(&random) % 64 == 0)
			test_sleep_us(1);
		if (percpu_owned_gauge_add(gauge, -1) != 0)
			return 1;
	}
	return 0;
}

static void requests_in_flight_come_back_to_0(void **state)
{
	pid_t pid[WORKERS];
	uint64_t random = 7;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("the kernel does not take over locks of the killed");
	make(PERCPU_OWNED_SUM);
	for (uintptr_t i = 0; i < WORKERS; i++)
		pid[i] = test_fork(work, (void *)i);
	for (unsigned round = 0; round < test_rounds(60); round++) {
		const unsigned i = (unsigned)(test_random(&random) % WORKERS);
		int64_t now;

		test_sleep_us((unsigned)(test_random(&random) % 1500));
		kill(pid[i], SIGKILL);
		test_wait(pid[i], 60);
		now = -1;
		assert_int_equal(percpu_owned_gauge_fetch(gauge, PERCPU_OWNED_LIVING, &now), 0);
		assert_in_range(now + 1, 1, WORKERS + 1);
		pid[i] = test_fork(work, (void *)(uintptr_t)(round + WORKERS));
	}
	for (unsigned i = 0; i < WORKERS; i++)
		stop(pid[i]);
	assert_int_equal(value(PERCPU_OWNED_LIVING), 0);
}

#define OWNED_TEST(f) cmocka_unit_test_setup_teardown(f, begin_owners, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OWNED_TEST(shares_are_summed),
		OWNED_TEST(shares_are_set),
		OWNED_TEST(least_and_greatest),
		OWNED_TEST(the_most_recent),
		OWNED_TEST(doubles),
		OWNED_TEST(extremes_of_doubles),
		OWNED_TEST(each_has_a_value),
		OWNED_TEST(shares_are_of_owners_and_not_of_slots),
		OWNED_TEST(bad_calls_are_refused),
		OWNED_TEST(rules_are_told),
		OWNED_TEST(the_killed_leave_all_or_nothing),
		OWNED_TEST(readers_see_one_account),
		OWNED_TEST(first_updates_make_one_account),
		OWNED_TEST(accounts_are_made_once),
		cmocka_unit_test_setup_teardown(first_updates_need_room_once, begin_small, end),
		cmocka_unit_test_setup_teardown(the_last_room_is_for_all, begin_small, end),
		OWNED_TEST(who_leaves_meanwhile_takes_nothing),
		OWNED_TEST(who_leaves_is_awaited),
		OWNED_TEST(who_sets_late_changes_nothing),
		OWNED_TEST(nobody_is_awaited_forever),
		OWNED_TEST(who_leaves_keeps_no_account),
		OWNED_TEST(threads_share_a_value),
		OWNED_TEST(times_belong_to_values),
		OWNED_TEST(handles_of_one_process_add_up),
		OWNED_TEST(gauges_grow),
		OWNED_TEST(children_of_fork_have_shares_of_their_own),
		OWNED_TEST(all_handles_know_whose_the_share_is),
		OWNED_TEST(requests_in_flight_come_back_to_0),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
