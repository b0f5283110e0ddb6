/* SPDX-License-Identifier: MIT */
/*
 * test_freebsd.c - code as it is written against counter(9): allocation, the
 * update in each of its forms, arrays, early counters, SYSINIT and rates.
 */

#include <percpu/freebsd.h>

#include "support.h"

COUNTER_U64_DEFINE_EARLY(early_packets);

counter_u64_t sysinit_packets;

/* Above the SYSINIT, so that it would run first without its priority. */
__attribute__((constructor)) static void count_in_constructor(void)
{
	counter_u64_add(sysinit_packets, 5);
}

COUNTER_U64_SYSINIT(sysinit_packets);

static uint64_t early_before_main;

__attribute__((constructor(101))) static void count_early(void)
{
	for (int i = 0; i < 100; i++)
		counter_u64_add(early_packets, 2);
	early_before_main = counter_u64_fetch(early_packets);
}

static void alloc_gives_zero(void **state)
{
	static const int flags[] = { M_WAITOK, M_NOWAIT, M_WAITOK | M_ZERO, M_NOWAIT | M_ZERO };

	(void)state;
	for (int i = 0; i < 4; i++) {
		counter_u64_t c = counter_u64_alloc(flags[i]);

		assert_non_null(c);
		assert_int_equal(counter_u64_fetch(c), 0);
		counter_u64_add(c, 1);
		counter_u64_free(c);
	}
	counter_u64_free(NULL);
}

static void updates_add_up(void **state)
{
	counter_u64_t c = counter_u64_alloc(M_WAITOK);

	(void)state;
	counter_u64_add(c, 10);
	counter_u64_add(c, -3);
	if (c != NULL)
		counter_enter();
	else
		counter_exit();
	counter_u64_add_protected(c, 100);
	counter_u64_add_protected(c, -1);
	counter_exit();
	assert_int_equal(counter_u64_fetch(c), 106);
	counter_u64_zero(c);
	assert_int_equal(counter_u64_fetch(c), 0);
	counter_u64_add(c, -1);
	assert_int_equal(counter_u64_fetch(c), UINT64_MAX);
	counter_u64_free(c);
}

static void early_counters_lose_nothing(void **state)
{
	(void)state;
	assert_int_equal(early_before_main, 200);
	assert_int_equal(counter_u64_fetch(early_packets), 200);
	counter_u64_add(early_packets, 1);
	counter_u64_add_protected(early_packets, 1);
	assert_int_equal(counter_u64_fetch(early_packets), 202);
	counter_u64_zero(early_packets);
	assert_int_equal(counter_u64_fetch(early_packets), 0);
	counter_u64_add(early_packets, 7);
	assert_int_equal(counter_u64_fetch(early_packets), 7);
}

static void sysinit_counters_are_there_in_constructors(void **state)
{
	(void)state;
	assert_non_null(sysinit_packets);
	assert_int_equal(counter_u64_fetch(sysinit_packets), 5);
	counter_u64_add(sysinit_packets, 3);
	assert_int_equal(counter_u64_fetch(sysinit_packets), 8);
}

/* The idiom of netinet: a struct of counters, read as a struct of numbers. */
struct stats {
	uint64_t received, dropped, sent;
};

#define NSTATS (sizeof(struct stats) / sizeof(uint64_t))
#define STAT(field) (offsetof(struct stats, field) / sizeof(uint64_t))

static void arrays_mirror_structs(void **state)
{
	counter_u64_t array[NSTATS], *pointer = array;
	struct stats s;

	(void)state;
	COUNTER_ARRAY_ALLOC(array, NSTATS, M_WAITOK);
	counter_u64_add(array[STAT(received)], 5);
	counter_u64_add(pointer[STAT(dropped)], 2);
	counter_u64_add(pointer[STAT(sent)], 3);
	COUNTER_ARRAY_COPY(array, &s, NSTATS);
	assert_int_equal(s.received, 5);
	assert_int_equal(s.dropped, 2);
	assert_int_equal(s.sent, 3);
	if (s.sent)
		COUNTER_ARRAY_ZERO(pointer, NSTATS);
	else
		COUNTER_ARRAY_FREE(array, NSTATS);
	COUNTER_ARRAY_COPY(array, &s, NSTATS);
	assert_int_equal(s.received + s.dropped + s.sent, 0);
	COUNTER_ARRAY_FREE(array, NSTATS);
}

static void count(unsigned i, void *arg)
{
	(void)i;
	for (int k = 0; k < 100000; k++) {
		counter_u64_add(arg, 1);
		counter_u64_add(early_packets, 1);
	}
}

static void threads_lose_nothing(void **state)
{
	counter_u64_t c = counter_u64_alloc(M_WAITOK);

	(void)state;
	counter_u64_zero(early_packets);
	test_team_run(8, count, c);
	assert_int_equal(counter_u64_fetch(c), 800000);
	assert_int_equal(counter_u64_fetch(early_packets), 800000);
	counter_u64_free(c);
}

/* A limit of 10 a second: 10 pass, the rest do not, and the next period's first
 * event is told how many there were. */
static void rates_are_limited(void **state)
{
	struct counter_rate *cr = counter_rate_alloc(M_WAITOK, 1);
	int64_t r = 0;
	unsigned passed = 0;

	(void)state;
	assert_non_null(cr);
	for (int i = 0; i < 50; i++)
		passed += counter_ratecheck(cr, 10) >= 0;
	assert_int_equal(passed, 10);
	assert_int_equal(counter_rate_get(cr), 50);
	test_sleep_us(1100000);
	assert_int_equal(counter_rate_get(cr), 0);
	r = counter_ratecheck(cr, 10);
	assert_int_equal(r, 50);
	assert_int_equal(counter_rate_get(cr), 1);
	assert_int_equal(counter_ratecheck(cr, 10), 0);
	counter_rate_free(cr);
}

/* A period that stayed below the limit has nothing to tell the next one. */
static void quiet_periods_are_not_told(void **state)
{
	struct counter_rate *cr = counter_rate_alloc(M_WAITOK, 60);

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(counter_ratecheck(cr, 10), 0);
	cr->cr_ticks -= INT64_C(100000) << 32;
	assert_int_equal(counter_ratecheck(cr, 10), 0);
	assert_int_equal(counter_rate_get(cr), 1);
	counter_rate_free(cr);
}

/* By value, as in FreeBSD 12 and 13: no period, and a start that is of another clock, or
 * none at all. */
static void rates_by_value_are_limited(void **state)
{
	static const int64_t starts[] = { 0, 12345, INT32_MAX, -7 };

	(void)state;
	for (int k = 0; k < 4; k++) {
		struct {
			const char *descr;
			struct counter_rate cr;
		} icmp = { "icmp unreach response", { .cr_rate = NULL } };
		unsigned passed = 0;

		icmp.cr.cr_rate = counter_u64_alloc(M_WAITOK);
		icmp.cr.cr_ticks = starts[k];
		for (int i = 0; i < 50; i++)
			passed += counter_ratecheck(&icmp.cr, 10) != -1;
		assert_in_range(passed, 10, 20); /* a second may end meanwhile */
		test_sleep_us(1100000);
		assert_int_equal(counter_rate_get(&icmp.cr), 0);
		assert_true(counter_ratecheck(&icmp.cr, 10) > 10);
		counter_u64_free(icmp.cr.cr_rate);
	}
}

static void a_rate_without_a_period_has_a_second(void **state)
{
	struct counter_rate *cr = counter_rate_alloc(M_WAITOK, 0);
	unsigned passed = 0;

	(void)state;
	for (int i = 0; i < 50; i++)
		passed += counter_ratecheck(cr, 10) != -1;
	assert_in_range(passed, 10, 20);
	counter_rate_free(cr);
}

/* Until a SYSINIT of the program's own. */
static counter_u64_t late = EARLY_COUNTER;

/* The counter goes on in any case. */
static void a_limit_may_be_anything(void **state)
{
	static const struct {
		int64_t limit, allowed;
	} cases[] = {
		{ -1, 0 },
		{ INT64_MIN, 0 },
		{ 0, 0 },
		{ 3, 3 },
		{ (int64_t)UINT32_MAX - 1, 10 },
		{ UINT32_MAX, 10 },
		{ (int64_t)UINT32_MAX + 1, 10 },
		{ INT64_MAX, 10 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct counter_rate *cr = counter_rate_alloc(M_WAITOK, 3600);
		int64_t allowed = 0;

		for (int k = 0; k < 10; k++)
			allowed += counter_ratecheck(cr, cases[i].limit) >= 0;
		assert_int_equal(allowed, cases[i].allowed);
		assert_int_equal(counter_rate_get(cr), 10);
		counter_rate_free(cr);
	}
}

static void cpus_begin_with_0(void **state)
{
	(void)state;
	assert_true(CPU_ABSENT(-1));
	assert_true(CPU_ABSENT(INT64_MIN));
	assert_false(CPU_ABSENT(0));
	assert_false(CPU_ABSENT((int64_t)mp_maxid));
	assert_true(CPU_ABSENT((int64_t)mp_maxid + 1));
	assert_true(CPU_ABSENT(INT64_MAX));
}

static void early_counters_become_counters(void **state)
{
	uint64_t before = counter_u64_fetch_inline(late);

	(void)state;
	assert_ptr_equal(late, EARLY_COUNTER);
	counter_u64_add(late, 3);
	assert_int_equal(counter_u64_fetch(EARLY_COUNTER), before + 3);
	counter_u64_sysinit(&late);
	assert_ptr_not_equal(late, EARLY_COUNTER);
	assert_int_equal(counter_u64_fetch(late), 0);
	counter_u64_add(late, 4);
	assert_int_equal(counter_u64_fetch_inline(late), 4);
	counter_u64_zero_inline(late);
	assert_int_equal(counter_u64_fetch(late), 0);
	counter_u64_sysuninit(&late);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alloc_gives_zero),
		cmocka_unit_test(updates_add_up),
		cmocka_unit_test(early_counters_lose_nothing),
		cmocka_unit_test(sysinit_counters_are_there_in_constructors),
		cmocka_unit_test(arrays_mirror_structs),
		cmocka_unit_test(threads_lose_nothing),
		cmocka_unit_test(rates_are_limited),
		cmocka_unit_test(quiet_periods_are_not_told),
		cmocka_unit_test(rates_by_value_are_limited),
		cmocka_unit_test(a_rate_without_a_period_has_a_second),
		cmocka_unit_test(a_limit_may_be_anything),
		cmocka_unit_test(cpus_begin_with_0),
		cmocka_unit_test(early_counters_become_counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
