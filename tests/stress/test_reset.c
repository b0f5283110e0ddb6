/* SPDX-License-Identifier: MIT */
/*
 * test_reset.c - resets among adds: the results of all resets and the rest make up what was added,
 * and no reset takes more than there was.
 */
#define _GNU_SOURCE
#include <percpu/counter.h>
#include <percpu/status.h>

#include "../support.h"

#define ADDERS 4
#define RESETTERS 3
#define MAX_ROUNDS 500000
#define SANE (UINT64_C(1) << 40) /* a small negative number is far larger */

static int rounds; /* of each adder */
static struct percpu_counter *counter;
static struct percpu_counter_array *array;
static struct percpu_static_counter fixed;

/* The calls of one kind of counter. */
struct kind {
	void (*add)(int64_t n);
	uint64_t (*fetch)(void);
	uint64_t (*fetch_zero)(void);
	void (*zero)(void);
};

static void counter_add(int64_t n)
{
	percpu_counter_add(counter, n);
}

static uint64_t counter_fetch(void)
{
	return percpu_counter_fetch(counter);
}

static uint64_t counter_fetch_zero(void)
{
	return percpu_counter_fetch_zero(counter);
}

static void counter_zero(void)
{
	percpu_counter_zero(counter);
}

static void array_add(int64_t n)
{
	percpu_counter_array_add(array, 3, n);
}

static uint64_t array_fetch(void)
{
	return percpu_counter_array_fetch(array, 3);
}

static uint64_t array_fetch_zero(void)
{
	return percpu_counter_array_fetch_zero(array, 3);
}

static void array_zero(void)
{
	percpu_counter_array_zero(array, 3);
}

static void static_add(int64_t n)
{
	percpu_static_counter_add(&fixed, n);
}

static uint64_t static_fetch(void)
{
	return percpu_static_counter_fetch(&fixed);
}

static uint64_t static_fetch_zero(void)
{
	return percpu_static_counter_fetch_zero(&fixed);
}

static void static_zero(void)
{
	percpu_static_counter_zero(&fixed);
}

static const struct kind counters = { counter_add, counter_fetch, counter_fetch_zero,
				      counter_zero };
static const struct kind arrays = { array_add, array_fetch, array_fetch_zero, array_zero };
static const struct kind statics = { static_add, static_fetch, static_fetch_zero, static_zero };

static struct {
	const struct kind *kind;
	unsigned adding; /* adders at work */
	uint64_t taken;	 /* the results of all resets */
	unsigned insane; /* results that are not possible */
	bool slow;	 /* some adders take the slow path */
} run;

static void add_or_reset(unsigned i, void *arg)
{
	uint64_t taken = 0;

	(void)arg;
	if (i < ADDERS) {
		for (int k = 0; k < rounds; k++)
			if (run.slow && i == 0)
				percpu_counter_add_slow(counter, 1);
			else
				run.kind->add(1);
		__atomic_fetch_sub(&run.adding, 1, __ATOMIC_RELAXED);
		return;
	}
	while (__atomic_load_n(&run.adding, __ATOMIC_RELAXED)) {
		uint64_t v = run.kind->fetch_zero();

		taken += v;
		if (v > SANE || run.kind->fetch() > SANE)
			__atomic_fetch_add(&run.insane, 1, __ATOMIC_RELAXED);
	}
	__atomic_fetch_add(&run.taken, taken, __ATOMIC_RELAXED);
}

static void check(const struct kind *kind, bool slow)
{
	run.kind = kind;
	run.adding = ADDERS;
	run.taken = 0;
	run.insane = 0;
	run.slow = slow;
	test_team_run(ADDERS + RESETTERS, add_or_reset, NULL);
	assert_int_equal(run.taken + kind->fetch(), (uint64_t)ADDERS * (uint64_t)rounds);
	assert_int_equal(run.insane, 0);
	kind->zero();
	assert_int_equal(kind->fetch(), 0);
}

static void counters_lose_nothing(void **state)
{
	(void)state;
	assert_int_equal(percpu_counter_create(&counter), 0);
	check(&counters, false);
	check(&counters, true);
	percpu_counter_destroy(counter);
}

static void arrays_lose_nothing(void **state)
{
	(void)state;
	assert_int_equal(percpu_counter_array_create(8, &array), 0);
	check(&arrays, false);
	percpu_counter_array_destroy(array);
}

static void static_counters_lose_nothing(void **state)
{
	(void)state;
	fixed = (struct percpu_static_counter)PERCPU_STATIC_COUNTER_INIT;
	check(&statics, false); /* uses the atomic word */
	percpu_static_counter_add(&fixed, 1);
	assert_int_equal(percpu_static_counter_setup(&fixed), 0);
	assert_int_equal(percpu_static_counter_fetch_zero(&fixed), 1);
	check(&statics, false);
	percpu_static_counter_teardown(&fixed);
}

/* Reset the counter, or add to it and to a twin that is never reset: zero() returns no value. */
static void zero_or_add(unsigned i, void *arg)
{
	struct percpu_counter *twin = arg;

	if (i == 0) {
		while (__atomic_load_n(&run.adding, __ATOMIC_RELAXED)) {
			percpu_counter_zero(counter);
			if (percpu_counter_fetch(counter) > SANE)
				run.insane++;
		}
		return;
	}
	for (int k = 0; k < rounds; k++) {
		percpu_counter_add(counter, 1);
		percpu_counter_add(twin, 1);
	}
	__atomic_fetch_sub(&run.adding, 1, __ATOMIC_RELAXED);
}

static void zero_never_takes_too_much(void **state)
{
	struct percpu_counter *twin;

	(void)state;
	assert_int_equal(percpu_counter_create(&counter), 0);
	assert_int_equal(percpu_counter_create(&twin), 0);
	run.adding = ADDERS;
	run.insane = 0;
	test_team_run(ADDERS + 1, zero_or_add, twin);
	assert_int_equal(run.insane, 0);
	assert_int_equal(percpu_counter_fetch(twin), (uint64_t)ADDERS * (uint64_t)rounds);
	percpu_counter_zero(counter);
	percpu_counter_add(counter, 5);
	assert_int_equal(percpu_counter_fetch(counter), 5);
	percpu_counter_destroy(counter);
	percpu_counter_destroy(twin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_lose_nothing),
		cmocka_unit_test(arrays_lose_nothing),
		cmocka_unit_test(static_counters_lose_nothing),
		cmocka_unit_test(zero_never_takes_too_much),
	};

	rounds = (int)test_rounds(MAX_ROUNDS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
