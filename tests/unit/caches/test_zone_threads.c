/* SPDX-License-Identifier: MIT */
/*
 * test_zone_threads.c - a zone that many threads use: no item is handed out twice, waiting
 * threads get freed items, and a child of fork may go on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

#include <percpu/status.h>

#include "../zone.h"

#define WAIT_NS 10000000 /* a waiter looks again after this time: src/caches/pool_wait.c */

/* Eight threads contend for three items; each item has one holder at a time. */
struct contest {
	struct percpu_zone *z;
	unsigned rounds;
	unsigned held, most, wrong; /* atomic */
};

static void hold_items(unsigned i, void *arg)
{
	struct contest *c = arg;
	uint64_t *item;
	unsigned held;

	for (unsigned n = 0; n < c->rounds; n++) {
		if (percpu_zone_alloc(c->z, PERCPU_ZONE_WAIT, (void **)&item) != 0) {
			__atomic_fetch_add(&c->wrong, 1, __ATOMIC_RELAXED);
			return;
		}
		held = __atomic_add_fetch(&c->held, 1, __ATOMIC_RELAXED);
		if (held > __atomic_load_n(&c->most, __ATOMIC_RELAXED))
			__atomic_store_n(&c->most, held, __ATOMIC_RELAXED);
		__atomic_store_n(item, i + 1, __ATOMIC_RELAXED);
		if (n % 16 == 0)
			test_sleep_us(10);
		if (__atomic_load_n(item, __ATOMIC_RELAXED) != i + 1)
			__atomic_fetch_add(&c->wrong, 1, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&c->held, 1, __ATOMIC_RELAXED);
		if (percpu_zone_free(c->z, item) != 0)
			__atomic_fetch_add(&c->wrong, 1, __ATOMIC_RELAXED);
	}
}

static void waiters_get_what_others_free(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .limit = 3 };
	struct contest c = { .z = make(8, &o), .rounds = test_rounds(500) };

	(void)state;
	test_team_run(8, hold_items, &c);
	assert_int_equal(c.wrong, 0);
	assert_in_range(c.most, 1, 3);
	assert_int_equal(stats_of(c.z).used, 0);
	assert_int_equal(percpu_zone_destroy(c.z), 0);
}

/* A free wakes a waiting thread. Here the wait has no time-out. */

void __real_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);
void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);

static void (*to_sleep)(void); /* called when a thread is about to wait for an item */

void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns)
{
	const bool for_good = to_sleep != NULL && ns == WAIT_NS;

	if (for_good)
		to_sleep();
	__real_percpu_futex_sleep(word, operation, value, for_good ? 0 : ns);
}

static struct percpu_zone *zone;
static void *only;
static uint32_t asleep; /* atomic */

static void note_sleep(void)
{
	__atomic_store_n(&asleep, 1, __ATOMIC_SEQ_CST);
}

static void free_only(void)
{
	if (only != NULL)
		test_child_require(percpu_zone_free(zone, only) == 0, "free");
	only = NULL;
}

static void raise_limit(void)
{
	percpu_zone_set_limit(zone, 2);
}

static void *wait_for_one(void *arg)
{
	void *item;

	test_child_require(percpu_zone_alloc(zone, PERCPU_ZONE_WAIT, &item) == 0, "alloc");
	test_child_require(percpu_zone_free(zone, item) == 0, "free");
	return arg;
}

struct waking {
	void (*before)(void); /* called when the waiter is about to sleep */
	void (*asleep)(void); /* called when it sleeps */
	percpu_zone_fn *dtor;
};

static void do_nothing(void *cell, unsigned cpu, void *arg)
{
	(void)cell;
	(void)cpu;
	(void)arg;
}

static int wake_one(void *arg)
{
	const struct waking *w = arg;
	struct percpu_zone_options o = { .size = sizeof(o), .limit = 1, .dtor = w->dtor };
	pthread_t thread;

	to_sleep = w->before;
	test_child_require(percpu_zone_create("waking", 8, &o, &zone) == 0, "create");
	test_child_require(percpu_zone_alloc(zone, 0, &only) == 0, "the only item");
	test_child_require(pthread_create(&thread, NULL, wait_for_one, NULL) == 0, "a thread");
	if (w->asleep != NULL) {
		while (!__atomic_load_n(&asleep, __ATOMIC_SEQ_CST))
			test_sleep_us(100);
		test_sleep_us(20000);
		w->asleep();
	}
	pthread_join(thread, NULL);
	free_only();
	return percpu_zone_destroy(zone) != 0;
}

static void waiters_are_woken(void **state)
{
	struct waking ways[] = {
		{ note_sleep, free_only, NULL },   { note_sleep, free_only, do_nothing },
		{ note_sleep, raise_limit, NULL }, { free_only, NULL, NULL },
		{ free_only, NULL, do_nothing },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		assert_int_equal(test_wait(test_fork(wake_one, &ways[i]), 10), 0);
}

/* The region was made for more CPUs than there are, so the caches have fewer lanes. */

static void *free_one(void *p)
{
	struct percpu_zone *z = ((void **)p)[0];

	while (stats_of(z).waits == 0)
		sched_yield();
	test_sleep_us(20000); /* the thread sleeps, or is about to: either must do */
	return percpu_zone_free(z, ((void **)p)[1]) == 0 ? NULL : p;
}

static int use_zone_for_more_cpus(void *arg)
{
	struct percpu_region_options ro = { .size = sizeof(ro) };
	struct percpu_zone_options o = { .size = sizeof(o), .limit = 4 };
	void *item[4], *more = NULL, *result = arg;
	struct percpu_zone_stats st;
	struct percpu_zone *z;
	pthread_t thread;

	ro.cpus = percpu_status()->possible_cpus + 62;
	test_child_require(percpu_region_create(&ro, &o.region) == 0, "region");
	test_child_require(percpu_zone_create("many", 8, &o, &z) == 0, "create");
	test_child_require(percpu_zone_cpus(z) == ro.cpus, "copies for all CPUs");
	for (int i = 0; i < 4; i++)
		test_child_require(percpu_zone_alloc(z, 0, &item[i]) == 0, "alloc");
	st = stats_of(z);
	test_child_require(st.used == 4 && st.cached == 0, "stats of what is used");
	test_child_require(percpu_zone_alloc(z, 0, &more) == -ENOSPC && more == NULL, "the limit");
	test_child_require(pthread_create(&thread, NULL, free_one, (void *[]){ z, item[0] }) == 0,
			   "thread");
	test_child_require(percpu_zone_alloc(z, PERCPU_ZONE_WAIT, &item[0]) == 0, "waits");
	test_child_require(pthread_join(thread, &result) == 0 && result == NULL, "free");
	for (int i = 0; i < 4; i++)
		test_child_require(percpu_zone_free(z, item[i]) == 0, "free");
	st = stats_of(z);
	test_child_require(st.used == 0 && st.cached == 4, "stats of what is cached");
	test_pin(0, test_cpu(test_cpus() - 1));
	for (int i = 0; i < 4; i++)
		test_child_require(percpu_zone_alloc(z, 0, &item[i]) == 0, "stolen");
	for (int i = 0; i < 4; i++)
		test_child_require(percpu_zone_free(z, item[i]) == 0, "free");
	percpu_zone_set_limit(z, 2);
	test_child_require(stats_of(z).cached == 2, "drained");
	test_child_require(percpu_zone_destroy(z) == 0, "destroy");
	percpu_region_close(o.region);
	return 0;
}

static void regions_may_have_more_cpus(void **state)
{
	(void)state;
	if (test_thread_sanitizer())
		test_skip("the thread sanitizer allows no threads in a child that forks");
	test_in_child(use_zone_for_more_cpus, NULL);
}

/* Threads allocate and free each other's items, hopping between CPUs. */
struct market {
	struct percpu_zone *z;
	unsigned rounds;
	uint64_t *shelf[64]; /* atomic */
	unsigned wrong;
};

static bool mark(uint64_t *item, uint64_t from, uint64_t to)
{
	return __atomic_compare_exchange_n(item, &from, to, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

static void trade(unsigned i, void *arg)
{
	struct market *m = arg;
	uint64_t seed = i + 1, *item;

	for (unsigned n = 0; n < m->rounds; n++) {
		if (percpu_zone_alloc(m->z, 0, (void **)&item) != 0) {
			__atomic_fetch_add(&m->wrong, 1, __ATOMIC_RELAXED);
			return;
		}
		/* A free item has 0, so an item that is handed out twice is noticed. */
		if (!mark(item, 0, i + 1))
			__atomic_fetch_add(&m->wrong, 1, __ATOMIC_RELAXED);
		item = __atomic_exchange_n(&m->shelf[test_random(&seed) % 64], item,
					   __ATOMIC_ACQ_REL);
		if (item != NULL) {
			__atomic_store_n(item, 0, __ATOMIC_RELAXED);
			percpu_zone_free(m->z, item);
		}
		if (n % 64 == 0)
			test_pin(0, test_cpu(test_random(&seed) % test_cpus()));
	}
	test_unpin(0);
}

#define HOARD 200 /* more than a CPU's cache holds, so the depot is used */

static void hoard(unsigned i, void *arg)
{
	struct market *m = arg;
	uint64_t *item[HOARD];

	for (unsigned n = 0; n < m->rounds / HOARD; n++) {
		for (unsigned k = 0; k < HOARD; k++)
			if (percpu_zone_alloc(m->z, 0, (void **)&item[k]) != 0 ||
			    !mark(item[k], 0, i + 1)) {
				__atomic_fetch_add(&m->wrong, 1, __ATOMIC_RELAXED);
				return;
			}
		for (unsigned k = 0; k < HOARD; k++)
			if (!mark(item[k], i + 1, 0) || percpu_zone_free(m->z, item[k]) != 0)
				__atomic_fetch_add(&m->wrong, 1, __ATOMIC_RELAXED);
	}
}

static void no_item_is_given_out_twice(void **state)
{
	struct market m = { .z = make(8, NULL), .rounds = test_rounds(100000) };
	unsigned left = 0;

	(void)state;
	test_team_run(8, trade, &m);
	assert_int_equal(m.wrong, 0);
	for (int i = 0; i < 64; i++)
		left += m.shelf[i] != NULL;
	assert_int_equal(stats_of(m.z).used, left);
	assert_int_equal(stats_of(m.z).requests, 8 * m.rounds);
	test_team_run(8, hoard, &m);
	assert_int_equal(m.wrong, 0);
	assert_int_equal(stats_of(m.z).used, left);
	/* A thread makes more items rather than wait for a thread that was preempted with the lock
	 * of a shelf. That is rare: without the depot there would be 8 * m.rounds items. */
	assert_in_range(stats_of(m.z).cached, HOARD, 20 * 8 * HOARD + 64 * percpu_zone_cpus(m.z));
	for (int i = 0; i < 64; i++)
		percpu_zone_free(m.z, m.shelf[i]);
	assert_int_equal(percpu_zone_destroy(m.z), 0);
}

/* Use the zone in a child. Other threads of the parent were allocating, and may have had a
 * lock. */
static int use_in_child(void *arg)
{
	struct market *m = arg;
	void *item[HOARD];

	for (int i = 0; i < HOARD; i++)
		test_child_require(percpu_zone_alloc(m->z, 0, &item[i]) == 0, "allocates");
	for (int i = 0; i < HOARD; i++)
		test_child_require(percpu_zone_free(m->z, item[i]) == 0, "frees");
	percpu_zone_reclaim(m->z);
	test_child_require(stats_of(m->z).cached == 0, "empties depot and caches");
	return 0;
}

static void children_may_allocate(void **state)
{
	struct market m = { .z = make(8, NULL), .rounds = test_rounds(1000000) };
	struct test_team team;

	(void)state;
	test_needs_forks_beside_malloc();
	test_team_start(&team, 4, hoard, &m);
	for (int i = 0; i < 100; i++)
		test_in_child(use_in_child, &m);
	test_team_join(&team);
	assert_int_equal(m.wrong, 0);
	assert_int_equal(percpu_zone_destroy(m.z), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waiters_get_what_others_free),
		cmocka_unit_test(waiters_are_woken),
		cmocka_unit_test(regions_may_have_more_cpus),
		cmocka_unit_test(no_item_is_given_out_twice),
		cmocka_unit_test(children_may_allocate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
