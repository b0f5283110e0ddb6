/* SPDX-License-Identifier: MIT */
/*
 * test_variable.c - per-CPU variables: each CPU's copy begins as written in the
 * source, and adds are exact, also without memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include <percpu/freebsd/dpcpu.h>
#include <percpu/status.h>
#include <percpu/variable.h>

#include "support.h"

#define ROUNDS 200000
#define THREADS 4

struct limits {
	int burst;
	char name[24];
	const char *unit;
};

static PERCPU_VARIABLE(uint64_t, packets);
static PERCPU_VARIABLE(struct limits, limits) = { 32, "default", "packets" };
static PERCPU_VARIABLE(char, odd) = 'x';
static __attribute__((aligned(64))) PERCPU_VARIABLE(uint64_t, aligned) = 7;
PERCPU_VARIABLE_DECLARE(uint64_t, shared_by_units);
void other_unit_adds(int64_t n);

static unsigned cpus(void)
{
	return percpu_status()->possible_cpus;
}

static void copies_begin_as_written(void **state)
{
	const struct limits *l;

	(void)state;
	for (unsigned cpu = 0; cpu < cpus(); cpu++) {
		l = PERCPU_VARIABLE_PTR(limits, cpu);
		assert_int_equal(l->burst, 32);
		assert_string_equal(l->name, "default");
		assert_string_equal(l->unit, "packets");
		assert_int_equal(*PERCPU_VARIABLE_PTR(odd, cpu), 'x');
		assert_int_equal(*PERCPU_VARIABLE_PTR(aligned, cpu), 7);
		assert_int_equal((uintptr_t)PERCPU_VARIABLE_PTR(aligned, cpu) % 64, 0);
	}
	assert_int_equal(PERCPU_VARIABLE_SUM(aligned), 7 * cpus());
}

static void copies_are_apart(void **state)
{
	(void)state;
	for (unsigned cpu = 0; cpu < cpus(); cpu++)
		PERCPU_VARIABLE_PTR(limits, cpu)->burst = (int)cpu;
	for (unsigned cpu = 0; cpu < cpus(); cpu++) {
		assert_int_equal(PERCPU_VARIABLE_PTR(limits, cpu)->burst, cpu);
		assert_int_equal(*PERCPU_VARIABLE_PTR(odd, cpu), 'x');
	}
	assert_int_equal(percpu_variable_limits.burst, 32);
}

static void add(unsigned i, void *arg)
{
	(void)i;
	for (unsigned n = *(unsigned *)arg; n > 0; n--)
		PERCPU_VARIABLE_ADD(packets, 3);
}

static void adds_are_exact(void **state)
{
	unsigned n = test_rounds(ROUNDS);
	uint64_t before = PERCPU_VARIABLE_SUM(packets);

	(void)state;
	test_team_run(THREADS, add, &n);
	assert_int_equal(PERCPU_VARIABLE_SUM(packets) - before, (uint64_t)THREADS * n * 3);
}

static void units_share_a_variable(void **state)
{
	(void)state;
	other_unit_adds(5);
	PERCPU_VARIABLE_ADD(shared_by_units, -1);
	assert_int_equal(PERCPU_VARIABLE_SUM(shared_by_units), 3 * cpus() + 4);
}

/* Test an image that is larger than a lane of the default geometry. */
static void image_may_be_large(void **state)
{
	static uint64_t values[3 * PERCPU_LANE_SIZE / 8];
	struct percpu_image image = { .start = (char *)values,
				      .stop = (char *)(values + 3 * 8192) };
	const size_t last = sizeof(values) / sizeof(values[0]) - 1;

	(void)state;
	values[0] = 1;
	values[last] = 2;
	assert_int_equal(percpu_image_setup(&image), 0);
	percpu_variable_add(&image, &values[0], 10);
	percpu_variable_add(&image, &values[last], 20);
	assert_int_equal(percpu_variable_sum(&image, &values[0]), cpus() + 10);
	assert_int_equal(percpu_variable_sum(&image, &values[last]), 2 * cpus() + 20);
	assert_int_equal(*(uint64_t *)percpu_variable_at(&image, &values[1], cpus() - 1), 0);
	assert_int_equal(values[0], 1);
}

struct pair {
	int a, b;
};

static DPCPU_DEFINE(struct pair, pair) = { 1, 2 };
DPCPU_DEFINE_STATIC(int, level) = 4;

static void freebsd_names_work(void **state)
{
	int n = (int)cpus();

	(void)state;
	assert_int_equal(DPCPU_SUM(level), 4 * n);
	DPCPU_ID_SET(n - 1, level, 9);
	assert_int_equal(DPCPU_ID_GET(n - 1, level), 9);
	assert_int_equal(DPCPU_SUM(level), 4 * n + 5);
	assert_int_equal(DPCPU_VARSUM(pair, b), 2 * n);
	assert_int_equal(DPCPU_GET(pair).a, 1);
	DPCPU_PTR(pair)->a = 11;
	assert_int_equal(DPCPU_VARSUM(pair, a), n + 10);
	DPCPU_ZERO(pair);
	assert_int_equal(DPCPU_VARSUM(pair, a) + DPCPU_VARSUM(pair, b), 0);
}

struct poor {
	struct percpu_image image;
	uint64_t value;
};

static void add_poor(unsigned i, void *arg)
{
	struct poor *p = arg;

	(void)i;
	for (unsigned n = 0; n < 1000; n++)
		percpu_variable_add(&p->image, &p->value, 1);
}

static int count_without_memory(void *arg)
{
	struct poor p = { .value = 5 };
	struct rlimit rl;

	(void)arg;
	p.image.start = (char *)&p.value;
	p.image.stop = (char *)(&p.value + 1);
	getrlimit(RLIMIT_AS, &rl);
	rl.rlim_cur = 1;
	setrlimit(RLIMIT_AS, &rl);
	test_child_require(percpu_image_setup(&p.image) == -ENOMEM, "setup without memory");
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_AS, &rl);
	test_team_run(THREADS, add_poor, &p);
	test_child_require(percpu_variable_at(&p.image, &p.value, 0) == &p.value, "one copy");
	test_child_require(percpu_variable_sum(&p.image, &p.value) == 5 + THREADS * 1000, "sum");
	return 0;
}

static void adds_are_exact_without_memory(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS cannot be used here");
	test_in_child(count_without_memory, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_begin_as_written),
		cmocka_unit_test(copies_are_apart),
		cmocka_unit_test(adds_are_exact),
		cmocka_unit_test(units_share_a_variable),
		cmocka_unit_test(image_may_be_large),
		cmocka_unit_test(adds_are_exact_without_memory),
		cmocka_unit_test(freebsd_names_work),
	};

	return cmocka_run_group_tests_name("variable", tests, NULL, NULL);
}
