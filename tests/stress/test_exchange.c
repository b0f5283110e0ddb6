/* SPDX-License-Identifier: MIT */
/*
 * test_exchange.c - local.h in threads with and without sequences: both kinds must exclude each
 * other on each CPU.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/local.h>

#include "../support.h"

#define THREADS 8
#define MAX_ROUNDS 100000

static int rounds; /* of each thread */
static struct percpu_local *local;
static int failed; /* calls with a result that is not possible */

/* One thread in four is not registered with the kernel, and only uses fallbacks. */
static void (*work)(unsigned i, void *arg);

static void prepare_and_work(unsigned i, void *arg)
{
	if (i % 4 == 3)
		test_unregister(percpu_seq_attach());
	work(i, arg);
}

static void fail_unless(bool ok)
{
	if (!ok)
		__atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
}

static void run(void (*fn)(unsigned i, void *arg), void *arg)
{
	failed = 0;
	work = fn;
	alarm(100);
	test_team_run(THREADS, prepare_and_work, arg);
	alarm(0);
	assert_int_equal(failed, 0);
}

static void with_local(size_t size, enum percpu_local_fallback fallback,
		       void (*fn)(unsigned i, void *arg), void *arg)
{
	assert_int_equal(percpu_local_create(size, fallback, &local), 0);
	run(fn, arg);
}

/*
 * Each thread adds 1 and keeps the result. On one CPU's word the results are 1, 2, 3, ..., each
 * once, in any thread. The word's final value says how far the results go.
 */
static void draw(unsigned i, void *arg)
{
	uint32_t *drawn = arg;
	int64_t v = 0;

	(void)i;
	for (int k = 0; k < rounds; k++) {
		int e = percpu_local_add_return(local, 1, &v);

		fail_unless(e == 0 && v > 0 && v <= THREADS * rounds);
		if (e == 0)
			__atomic_fetch_add(&drawn[v], 1, __ATOMIC_RELAXED);
	}
}

static void check_chains(enum percpu_local_fallback fallback)
{
	uint32_t *drawn = calloc((size_t)(THREADS * rounds + 1), sizeof(*drawn));
	const int64_t *word;

	assert_non_null(drawn);
	with_local(8, fallback, draw, drawn);
	for (unsigned cpu = 0; (word = percpu_local_cell(local, cpu)) != NULL; cpu++)
		for (int64_t v = 1; v <= *word; v++)
			drawn[v]--;
	for (int64_t v = 0; v <= THREADS * rounds; v++)
		assert_int_equal(drawn[v], 0);
	assert_int_equal(percpu_local_sum(local), THREADS * rounds);
	percpu_local_destroy(local);
	free(drawn);
}

static void sums_are_drawn_once(void **state)
{
	(void)state;
	check_chains(PERCPU_LOCAL_LOCK);
	check_chains(PERCPU_LOCAL_REFS);
}

/* Increment the word by a read and a compare-and-store. */
static void compare_and_store(unsigned i, void *arg)
{
	int64_t expected = 0, seen;

	(void)i, (void)arg;
	for (int k = 0; k < rounds / 2;) {
		int e = percpu_local_cmpxchg(local, expected, expected + 1, &seen);

		fail_unless(e == 0 ? seen == expected : e == -EAGAIN && seen != expected);
		expected = e == 0 ? expected + 1 : seen;
		k += e == 0;
	}
}

static void compare_and_store_loses_nothing(void **state)
{
	(void)state;
	for (int f = PERCPU_LOCAL_LOCK; f <= PERCPU_LOCAL_REFS; f++) {
		with_local(8, f, compare_and_store, NULL);
		assert_int_equal(percpu_local_sum(local), THREADS * rounds / 2);
		percpu_local_destroy(local);
	}
}

/* The limit holds at any time, on each CPU. */
#define LIMIT 10

static void add_up_to_limit(unsigned i, void *arg)
{
	uint64_t *added = arg;
	int64_t v;

	(void)i;
	for (int k = 0; k < rounds; k++) {
		int e = percpu_local_add_limit(local, 3, LIMIT, &v);

		fail_unless(e == 0 ? v <= LIMIT : e == -ERANGE && v > LIMIT);
		__atomic_fetch_add(added, e == 0 ? 3 : 0, __ATOMIC_RELAXED);
		if (k % 8 != 7)
			continue;
		e = percpu_local_add_return(local, -3, &v);
		fail_unless(e == 0);
		__atomic_fetch_sub(added, 3, __ATOMIC_RELAXED);
	}
}

static void limits_hold(void **state)
{
	(void)state;
	for (int f = PERCPU_LOCAL_LOCK; f <= PERCPU_LOCAL_REFS; f++) {
		int64_t added = 0;

		with_local(8, f, add_up_to_limit, &added);
		assert_int_equal(percpu_local_sum(local), added);
		percpu_local_destroy(local);
	}
}

/* The adds of threads without sequences go to another cell. */
static void split(unsigned i, void *arg)
{
	(void)i, (void)arg;
	for (int k = 0; k < rounds * 5; k++)
		fail_unless(percpu_local_add(local, 2) == 0);
}

static void split_sums_are_exact(void **state)
{
	(void)state;
	with_local(8, PERCPU_LOCAL_SPLIT, split, NULL);
	assert_int_equal(percpu_local_sum(local), THREADS * rounds * 10);
	percpu_local_destroy(local);
}

/* Items move between the CPUs' arrays; each item has at most one owner at a time. */
#define ITEMS 64
#define SLOTS 16

static void exchange(unsigned i, void *arg)
{
	uint32_t *owners = arg;
	void *item;

	(void)i;
	for (int k = 0; k < rounds; k++) {
		if (percpu_local_pop(local, &item) != 0)
			continue;
		fail_unless((uint32_t *)item >= owners && (uint32_t *)item < owners + ITEMS);
		fail_unless(__atomic_fetch_add((uint32_t *)item, 1, __ATOMIC_RELAXED) == 0);
		if (k % 64 == 0)
			test_pin(0, test_cpu((unsigned)k / 64 % test_cpus()));
		fail_unless(__atomic_fetch_sub((uint32_t *)item, 1, __ATOMIC_RELAXED) == 1);
		while (percpu_local_push(local, SLOTS, item) == -ENOSPC) {
			test_pin(0, test_cpu((unsigned)k++ % test_cpus()));
			sched_yield();
		}
	}
}

static unsigned fill(uint32_t *owners)
{
	unsigned n = 0;

	for (unsigned c = 0; c < test_cpus() && n < ITEMS; c++) {
		struct percpu_array *a = percpu_local_cell(local, test_cpu(c));

		while (n < ITEMS && a->count < SLOTS - 6)
			a->slot[a->count++] = &owners[n++];
	}
	return n;
}

static void items_are_neither_lost_nor_doubled(void **state)
{
	uint32_t owners[ITEMS] = { 0 };
	unsigned n, found = 0;
	struct percpu_array *a;

	(void)state;
	assert_int_equal(percpu_local_create(8 + 8 * SLOTS, PERCPU_LOCAL_LOCK, &local), 0);
	n = fill(owners);
	run(exchange, owners);
	for (unsigned cpu = 0; (a = percpu_local_cell(local, cpu)) != NULL; cpu++) {
		assert_true(a->count <= SLOTS);
		for (uint64_t i = 0; i < a->count; i++, found++)
			assert_int_equal((*(uint32_t *)a->slot[i])++, 0);
	}
	assert_int_equal(found, n);
	percpu_local_destroy(local);
}

/* Threads append messages of three words. None is torn or lost. */
#define QUEUE 65536

static void append(unsigned i, void *arg)
{
	uint64_t *appended = arg;

	for (uint64_t k = 0; k < 2000; k++) {
		uint64_t message[3] = { i, k, i ^ k };
		int e = percpu_local_copy(local, QUEUE - 1, message, 3);

		fail_unless(e == 0);
		__atomic_fetch_add(appended, e == 0, __ATOMIC_RELAXED);
	}
}

static void messages_are_whole(void **state)
{
	uint64_t appended = 0, found = 0;
	static uint8_t seen[THREADS][2000];
	struct percpu_fifo *q;

	(void)state;
	memset(seen, 0, sizeof(seen));
	with_local(16 + 8 * QUEUE, PERCPU_LOCAL_LOCK, append, &appended);
	for (unsigned cpu = 0; (q = percpu_local_cell(local, cpu)) != NULL; cpu++) {
		for (uint64_t at = 0; at < q->head; at += 3, found++) {
			const uint64_t *m = &q->slot[at];

			assert_true(m[0] < THREADS && m[1] < 2000);
			assert_int_equal(m[2], m[0] ^ m[1]);
			assert_int_equal(seen[m[0]][m[1]]++, 0);
		}
	}
	assert_int_equal(found, appended);
	percpu_local_destroy(local);
}

/* A child has a copy of the guards. Threads of the parent, which are not in the child, may hold
 * some of them. */
static bool stop;

static void add_until_stopped(unsigned i, void *arg)
{
	int64_t v;

	(void)i, (void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		fail_unless(percpu_local_add_return(local, 1, &v) == 0);
}

static int add_in_child(void *arg)
{
	int64_t v, before = percpu_local_sum(local);

	(void)arg;
	test_unregister(percpu_seq_attach());
	for (unsigned i = 0; i < 20; i++) {
		test_pin(0, test_cpu(i % test_cpus()));
		test_child_require(percpu_local_add_return(local, 1, &v) == 0, "add_return");
	}
	test_child_require(percpu_local_sum(local) == before + 20, "sum");
	return 0;
}

static void children_take_over_locks(void **state)
{
	struct test_team t;
	int wrong = 0;

	(void)state;
	stop = false;
	failed = 0;
	work = add_until_stopped;
	assert_int_equal(percpu_local_create(8, PERCPU_LOCAL_LOCK, &local), 0);
	test_team_start(&t, 4, prepare_and_work, NULL);
	for (int i = 0; i < 100 && !wrong; i++)
		wrong += test_wait(test_fork(add_in_child, NULL), 10) != 0;
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	test_team_join(&t);
	assert_int_equal(wrong + failed, 0);
	percpu_local_destroy(local);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_are_drawn_once),
		cmocka_unit_test(compare_and_store_loses_nothing),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(split_sums_are_exact),
		cmocka_unit_test(items_are_neither_lost_nor_doubled),
		cmocka_unit_test(messages_are_whole),
		cmocka_unit_test(children_take_over_locks),
	};

	rounds = (int)test_rounds(MAX_ROUNDS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
