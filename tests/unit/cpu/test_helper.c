/* SPDX-License-Identifier: MIT */
/*
 * test_helper.c - threads of the library start in a program whose static TLS exceeds their usual
 * stacks: glibc takes it off the stack.
 */
#include <errno.h>
#include <string.h>

#include <percpu/fence.h>
#include <percpu/percpu.h>
#include <percpu/zone.h>

#include "support.h"

#define SECOND UINT64_C(1000000000)
#define FRAME (64 * 1024)

static __thread volatile char large[1024 * 1024];

static void selftest_runs(void **state)
{
	enum percpu_selftest r = percpu_selftest();

	(void)state;
	assert_int_equal(percpu_status()->selftest, r);
	assert_true(r == PERCPU_SELFTEST_PASSED || r == PERCPU_SELFTEST_SKIPPED);
}

static void every_cpu_is_visited(void **state)
{
	int e = percpu_fence_all(10 * SECOND, NULL);

	(void)state;
	assert_true(e == 0 || e == -EPERM);
}

/* Use as much stack as the function may, and the thread's TLS. */
static void use_stack(void *copy, unsigned cpu, void *arg)
{
	volatile char frame[FRAME];

	(void)cpu;
	memset((char *)frame, 1, FRAME);
	large[sizeof(large) - 1] = frame[FRAME - 1];
	*(uint64_t *)copy = (uint64_t)(frame[0] + large[sizeof(large) - 1]);
	__atomic_fetch_add((unsigned *)arg, 1, __ATOMIC_RELAXED);
}

static void functions_run_on_each_cpu(void **state)
{
	struct percpu_zone *z;
	unsigned ran = 0;
	void *item;
	int e;

	(void)state;
	assert_int_equal(percpu_zone_create("large", 8, NULL, &z), 0);
	assert_int_equal(percpu_zone_alloc(z, 0, &item), 0);
	e = percpu_zone_run(z, item, use_stack, &ran, 10 * SECOND, NULL);
	assert_true(e == 0 || e == -EPERM);
	assert_true(ran > 0);
	assert_int_equal(percpu_zone_free(z, item), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selftest_runs),
		cmocka_unit_test(every_cpu_is_visited),
		cmocka_unit_test(functions_run_on_each_cpu),
	};

	large[0] = 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
