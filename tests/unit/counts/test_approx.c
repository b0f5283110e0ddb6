/* SPDX-License-Identifier: MIT */
/*
 * test_approx.c - approximate sums: reads, their bound, comparisons, resets, tiers, files, bad
 * input; and adds below a limit by many threads and processes, some of which are killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <percpu/approx.h>
#include <percpu/percpu.h>

#include "model.h"
#include "support.h"

#include "memory/memory.h"

#define BATCH 16
#define THREADS 4
#define PROCESSES 3
#define CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)

static const struct percpu_approx_options small = { .size = sizeof(small), .batch = BATCH };
static struct percpu_approx *a;
static struct percpu_region *region;
static int64_t *shared; /* sums of what threads and children did; shared with children */

static bool in_files(void)
{
	return percpu_pair_is_atomic();
}

static int make(void **state)
{
	int e;

	(void)state;
	test_tier();
	shared = test_share(4096);
	memset(shared, 0, 4096);
	if (!in_files())
		return percpu_approx_create(&small, &a);
	e = percpu_region_open(test_path("approx"), CREATE, NULL, &region);
	return e != 0 ? e : percpu_approx_create_in(region, &small, &a);
}

static int drop(void **state)
{
	(void)state;
	percpu_approx_destroy(a);
	percpu_region_close(region);
	region = NULL;
	unlink(test_path("approx"));
	return 0;
}

static uint64_t off(void)
{
	int64_t d = percpu_approx_fetch(a) - percpu_approx_estimate(a);

	return d < 0 ? 0 - (uint64_t)d : (uint64_t)d;
}

static bool is_open(void)
{
	return a->control->state % 4 == 0;
}

static void both_sums_are_right(void **state)
{
	const int64_t n[] = { 1, 5, -3, BATCH, -BATCH, 1000000, -999, INT64_MAX / 4, -1, 0 };
	int64_t sum = 0;

	(void)state;
	assert_int_equal(percpu_approx_bound(a), (a->block.chunk->cpus + 1) * (uint64_t)BATCH);
	for (unsigned round = 0; round < 50; round++) {
		for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
			if (n[i] > 1000000 && round > 0)
				continue;
			percpu_approx_add(a, n[i]);
			sum += n[i];
			assert_int_equal(percpu_approx_fetch(a), sum);
			assert_true(off() <= percpu_approx_bound(a));
		}
		test_pin(0, test_cpu(round % test_cpus()));
	}
	test_unpin(0);
	assert_int_equal(percpu_approx_fetch_zero(a), sum);
	assert_int_equal(percpu_approx_fetch(a), 0);
	assert_true(off() <= percpu_approx_bound(a));
}

/* Test that the approximate sum never lacks more adds of one than the bound. */
static void adds_of_one_are_seen(void **state)
{
	uint64_t most = 0;

	(void)state;
	for (int sign = 1; sign >= -1; sign -= 2)
		for (unsigned cpu = 0; cpu < test_cpus(); cpu++) {
			test_pin(0, test_cpu(cpu));
			for (unsigned i = 0; i < 100 * BATCH; i++) {
				percpu_approx_add(a, sign);
				most = off() > most ? off() : most;
			}
		}
	test_unpin(0);
	assert_int_equal(percpu_approx_fetch(a), 0);
	assert_true(most <= percpu_approx_bound(a));
	if (test_tier() == PERCPU_TIER_RSEQ) /* a center does not move at each add */
		assert_true(most >= BATCH);
}

static void compares_with_the_exact_sum(void **state)
{
	const int64_t bound = (int64_t)percpu_approx_bound(a);

	(void)state;
	for (int64_t sum = 0; sum < 100; sum++) {
		for (int64_t v = sum - 2 * bound; v <= sum + 2 * bound; v++)
			if (percpu_approx_compare(a, v) != (sum < v ? -1 : sum > v))
				fail_msg("%ld compared with %ld", (long)sum, (long)v);
		percpu_approx_add(a, 1);
	}
	assert_int_equal(percpu_approx_compare(a, INT64_MAX), -1);
	assert_int_equal(percpu_approx_compare(a, INT64_MIN), 1);
	percpu_approx_zero(a);
	percpu_approx_add(a, -1);
	assert_int_equal(percpu_approx_compare(a, INT64_MAX), -1);
	assert_int_equal(percpu_approx_compare(a, INT64_MIN), 1);
	assert_int_equal(percpu_approx_compare(a, -1), 0);
}

static void a_limit_is_reached_and_not_passed(void **state)
{
	const int64_t limits[] = { 1, BATCH, 1000, 100000 };
	int64_t sum;

	(void)state;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		for (sum = 0; percpu_approx_add_below(a, 1, limits[i]) == 0; sum++) {
			assert_true(sum < limits[i]);
			/* So no lane has room above the limit, for any thread. */
			assert_true(!is_open() || percpu_approx_highest(a) <= limits[i]);
		}
		assert_int_equal(sum, limits[i]);
		assert_int_equal(percpu_approx_fetch(a), sum);
		assert_true(off() <= percpu_approx_bound(a));
		assert_int_equal(percpu_approx_add_below(a, 1, sum), -ERANGE);
		assert_int_equal(percpu_approx_add_below(a, INT64_MAX, sum), -ERANGE);
		assert_int_equal(percpu_approx_add_below(a, -1, sum), 0);
		assert_int_equal(percpu_approx_add_below(a, 2, sum), -ERANGE);
		assert_int_equal(percpu_approx_add_below(a, 1, sum), 0);
		assert_int_equal(percpu_approx_fetch_zero(a), sum);
	}
	assert_int_equal(percpu_approx_add_below(a, INT64_C(1) << 62, INT64_MAX), 0);
	assert_int_equal(percpu_approx_add_below(a, INT64_MAX, INT64_MAX), -ERANGE);
}

/* Add below a limit, as a thread that can, or cannot, run sequences. */
static int add_below(bool without, int64_t n, int64_t limit)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area = without ? model_set_area(&none) : NULL;
	int e = percpu_approx_add_below(a, n, limit);

	if (without)
		model_set_area(area);
	return e;
}

static void expect_nothing_to_ask(bool without, int64_t limit)
{
	assert_int_equal(add_below(without, 1, limit), -ERANGE);
	assert_int_equal(add_below(without, 3 * BATCH, limit), -ERANGE);
	assert_int_equal(percpu_approx_fetch(a), 0);
	assert_int_equal(add_below(without, 0, limit), 0);
	assert_int_equal(add_below(without, -1, limit), 0);
	assert_int_equal(add_below(without, -1000 * BATCH, limit), 0);
	assert_int_equal(add_below(without, 1, limit), -ERANGE);
	assert_int_equal(percpu_approx_fetch_zero(a), -1 - 1000 * BATCH);
}

/* Test that a limit of 0 or less counts as reached, also if the sum is below it, and that adds of 0
 * or less ignore the limit, in the lane or not. */
static void a_limit_of_nothing_is_reached(void **state)
{
	const int64_t limits[] = { 0, -1, -1000000, INT64_MIN };

	(void)state;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		for (int without = 0; without < 2; without++)
			expect_nothing_to_ask(without, limits[i]);
}

/* Test that adds of 0 ignore the limit if the sum is above it or near it. */
static void nothing_is_added_over_any_limit(void **state)
{
	(void)state;
	for (int without = 0; without < 2; without++) {
		while (add_below(without, 1, 100) == 0)
			;
		for (int64_t limit = 101; limit >= 50; limit--)
			assert_int_equal(add_below(without, 0, limit), 0);
		assert_int_equal(percpu_approx_fetch(a), 100);
		assert_int_equal(add_below(without, -60, 50), 0);
		assert_int_equal(percpu_approx_fetch_zero(a), 40);
	}
}

static void without_sequences(void **state)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area;
	int64_t sum = 0;

	(void)state;
	percpu_approx_add(a, 3);
	area = model_set_area(&none);
	for (; percpu_approx_add_below(a, 1, 200) == 0; sum++)
		percpu_approx_add(a, sum % 2 ? 2 : -2);
	model_set_area(area);
	assert_in_range(percpu_approx_fetch(a), 200, 202);
	assert_int_equal(percpu_approx_add_below(a, 1, 200), -ERANGE);
	assert_true(off() <= percpu_approx_bound(a));
}

static void bad_input_is_refused(void **state)
{
	struct percpu_approx_options o = small;
	struct percpu_approx *other = NULL;

	(void)state;
	o.batch = -1;
	assert_int_equal(percpu_approx_create(&o, &other), -EINVAL);
	assert_int_equal(percpu_approx_create_in(region, &o, &other), -EINVAL);
	assert_int_equal(percpu_approx_open(region, 1, &o, &other), -EINVAL);
	o.batch = (INT64_C(1) << 40) + 1;
	assert_int_equal(percpu_approx_create(&o, &other), -EINVAL);
	assert_null(other);
	o.batch = INT64_C(1) << 40;
	assert_int_equal(percpu_approx_create(&o, &other), 0);
	assert_int_equal(percpu_approx_batch(other), o.batch);
	percpu_approx_add(other, INT64_C(1) << 41);
	assert_int_equal(percpu_approx_fetch(other), INT64_C(1) << 41);
	percpu_approx_destroy(other);
	assert_int_equal(percpu_approx_create(NULL, &other), 0);
	assert_int_equal(percpu_approx_bound(other),
			 (a->block.chunk->cpus + 1) * (uint64_t)PERCPU_APPROX_BATCH);
	assert_int_equal(percpu_approx_batch(other), PERCPU_APPROX_BATCH);
	percpu_approx_destroy(other);
}

static int read_from_outside(void *arg)
{
	struct percpu_region *outside;
	struct percpu_approx *seen;

	(void)arg;
	test_child_require(percpu_region_open(test_path("approx"), 0, NULL, &outside) == 0, "r");
	test_child_require(percpu_approx_attach(outside, percpu_approx_key(a), &seen) == 0, "it");
	percpu_approx_add(seen, 1);
	percpu_approx_add(seen, 0);
	test_child_require(percpu_approx_add_below(seen, 1, 100) == -EROFS, "read-only");
	test_child_require(percpu_approx_fetch_zero(seen) == 7, "its value");
	percpu_approx_zero(seen);
	test_child_require(percpu_approx_fetch(seen) == 7, "the same");
	test_child_require(percpu_approx_bound(seen) == percpu_approx_bound(a), "the bound");
	test_child_require(percpu_approx_batch(seen) == percpu_approx_batch(a), "the batch");
	test_child_require(percpu_approx_compare(seen, 8) == -1, "compared");
	percpu_approx_destroy(seen);
	return 0;
}

static void in_files_as_others(void **state)
{
	struct percpu_approx_options o = { .size = sizeof(o) };
	struct percpu_approx *first, *second = NULL;

	(void)state;
	if (!in_files()) {
		assert_int_equal(percpu_region_open(test_path("approx"), CREATE, NULL, &region), 0);
		assert_int_equal(percpu_approx_open(region, 0, NULL, &second), -ENOTSUP);
		assert_int_equal(percpu_approx_create_in(region, NULL, &second), -ENOTSUP);
		assert_int_equal(percpu_approx_attach(region, 1, &second), -ENOTSUP);
		return;
	}
	percpu_approx_add(a, 7);
	test_in_child(read_from_outside, NULL);
	assert_int_equal(percpu_approx_open(region, 1, &small, &first), 0);
	assert_int_equal(percpu_approx_open(region, 1, &o, &second), 0);
	percpu_approx_add(first, 40);
	percpu_approx_add(second, 2);
	assert_int_equal(percpu_approx_fetch(first), 42);
	percpu_approx_detach(second);
	o.batch = BATCH + 1;
	assert_int_equal(percpu_approx_open(region, 1, &o, &second), -EEXIST);
	assert_int_equal(percpu_approx_attach(region, percpu_approx_key(first) + 64, &second),
			 -ENOENT);
	percpu_approx_destroy(first);
}

/* Test that whatever another process writes into the control block, only sums are wrong. */
static void damage_is_harmless(void **state)
{
	uint64_t random = 1, key = percpu_approx_key(a);
	struct percpu_approx_control *c = a->control;
	struct percpu_approx *other;

	(void)state;
	for (unsigned i = 0; i < test_rounds(2000); i++) {
		for (size_t w = 0; w < sizeof(*c) / 8; w++)
			if (test_random(&random) % 3 == 0)
				((uint64_t *)c)[w] =
					test_random(&random) >> (test_random(&random) % 64);
		percpu_approx_add(a, (int64_t)test_random(&random));
		(void)!percpu_approx_add_below(a, 1 + (int64_t)(test_random(&random) % 1000),
					       1 + (int64_t)(test_random(&random) >> 2));
		(void)percpu_approx_compare(a, (int64_t)test_random(&random));
		(void)percpu_approx_fetch_zero(a);
		c->batch = (UINT64_C(1) << 40) + 1 + i;
		if (key != 0)
			assert_int_equal(percpu_approx_attach(region, key, &other), -ENOENT);
	}
}

/* Add until the limit is reached. Returns how much was added. */
static int64_t add_all(const struct percpu_approx *to, int64_t limit, unsigned seed)
{
	uint64_t random = seed + 1;
	int64_t n, added = 0;

	for (;;) {
		n = 1 + (int64_t)(test_random(&random) % 5);
		if (percpu_approx_add_below(to, n, limit) == 0)
			added += n;
		else if (n == 1)
			return added;
		if (test_random(&random) % 4 == 0) {
			percpu_approx_add(to, -1);
			added--;
		}
		if (added % 64 == 0)
			test_pin(0, test_cpu((unsigned)test_random(&random) % test_cpus()));
	}
}

static void add_in_thread(unsigned i, void *arg)
{
	int64_t added = add_all(a, *(int64_t *)arg, i);

	__atomic_fetch_add(&shared[0], added, __ATOMIC_RELAXED);
}

static void threads_reach_a_limit(void **state)
{
	int64_t limit = (int64_t)test_rounds(30000);

	(void)state;
	test_team_run(THREADS, add_in_thread, &limit);
	test_unpin(0);
	assert_int_equal(percpu_approx_fetch(a), shared[0]);
	assert_true(percpu_approx_fetch(a) <= limit);
	assert_true(off() <= percpu_approx_bound(a));
	while (percpu_approx_add_below(a, 1, limit) == 0)
		;
	assert_int_equal(percpu_approx_fetch(a), limit);
}

/* Take and give back permits. Never are more taken at a time than there are, and all come back. */
static int take_and_give(void *arg)
{
	const int64_t limit = 3 * BATCH;
	int64_t held = 0, out;
	uint64_t random = (uint64_t)getpid();

	(void)arg;
	for (unsigned i = 0; i < test_rounds(20000); i++) {
		if (test_random(&random) % 2 && percpu_approx_add_below(a, 1, limit) == 0) {
			out = __atomic_add_fetch(&shared[1], 1, __ATOMIC_SEQ_CST);
			test_child_require(out <= limit, "not more than there are");
			held++;
		} else if (held > 0) {
			__atomic_fetch_sub(&shared[1], 1, __ATOMIC_SEQ_CST);
			percpu_approx_add(a, -1);
			held--;
		}
	}
	__atomic_fetch_sub(&shared[1], held, __ATOMIC_SEQ_CST);
	percpu_approx_add(a, -held);
	return 0;
}

static void processes_share_permits(void **state)
{
	pid_t pid[PROCESSES];

	(void)state;
	if (!in_files())
		test_skip("sums cannot be in files on this machine");
	for (unsigned i = 0; i < PROCESSES; i++)
		pid[i] = test_fork(take_and_give, NULL);
	for (unsigned i = 0; i < PROCESSES; i++)
		assert_int_equal(test_wait(pid[i], 40), 0);
	assert_int_equal(percpu_approx_fetch(a), 0);
}

static int add_until_full(void *arg)
{
	int64_t limit = *(int64_t *)arg;

	while (percpu_approx_add_below(a, 1, limit) == 0)
		__atomic_fetch_add(&shared[2], 1, __ATOMIC_RELAXED);
	return 0;
}

/* Test that killed processes leave a right sum. A killed process has added at most one more than it
 * has counted. */
static void killed_processes_leave_the_rest(void **state)
{
	int64_t limit = (int64_t)test_rounds(200000);
	pid_t pid[2 * PROCESSES];

	(void)state;
	if (!in_files())
		test_skip("sums cannot be in files on this machine");
	for (unsigned i = 0; i < 2 * PROCESSES; i++)
		pid[i] = test_fork(add_until_full, &limit);
	for (unsigned i = PROCESSES; i < 2 * PROCESSES; i++) {
		test_sleep_us(1000);
		kill(pid[i], SIGKILL);
		(void)test_wait(pid[i], 60);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		assert_int_equal(test_wait(pid[i], 40), 0);
	assert_int_equal(percpu_approx_fetch(a), limit);
	assert_in_range(limit - shared[2], 0, PROCESSES);
	assert_true(off() <= percpu_approx_bound(a));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(both_sums_are_right),
		TEST(adds_of_one_are_seen),
		TEST(compares_with_the_exact_sum),
		TEST(a_limit_is_reached_and_not_passed),
		TEST(a_limit_of_nothing_is_reached),
		TEST(nothing_is_added_over_any_limit),
		TEST(without_sequences),
		TEST(bad_input_is_refused),
		TEST(in_files_as_others),
		TEST(damage_is_harmless),
		TEST(threads_reach_a_limit),
		TEST(processes_share_permits),
		TEST(killed_processes_leave_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
