/* SPDX-License-Identifier: MIT */
/*
 * test_fcounter.c - counters of doubles: values, refusals, rounding, threads, files, and keys.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/seq.h>

#include "model.h"
#include "support.h"

#include "memory/memory.h"

#define THREADS 8
#define ADDS 20000
#define N 300 /* counters of an array: more than are summed at a time */
#define CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)

static struct percpu_fcounter *counter;
static struct percpu_fcounter_array *array;

static int create(void **state)
{
	(void)state;
	test_tier();
	return percpu_fcounter_create(&counter) || percpu_fcounter_array_create(N, &array);
}

static int destroy(void **state)
{
	(void)state;
	percpu_fcounter_destroy(counter);
	percpu_fcounter_array_destroy(array);
	return 0;
}

/* Check that both have the same bits, so -0 is not 0. */
static void expect(double got, double wanted)
{
	if (model_bits(got) != model_bits(wanted))
		fail_msg("%.20g is not %.20g", got, wanted);
}

/* Add as a thread that cannot run sequences, into an atomic lane. */
static int add_without(double n)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area = model_set_area(&none);
	int e = percpu_fcounter_add(counter, n);

	model_set_area(area);
	return e;
}

static void values_are_sums(void **state)
{
	(void)state;
	expect(percpu_fcounter_fetch(counter), 0);
	assert_int_equal(percpu_fcounter_add(counter, 0.5), 0);
	assert_int_equal(add_without(0.25), 0);
	assert_int_equal(percpu_fcounter_add_slow(counter, -2), 0);
	expect(percpu_fcounter_fetch(counter), -1.25);
	expect(percpu_fcounter_fetch_zero(counter), -1.25);
	expect(percpu_fcounter_fetch(counter), 0);
	assert_int_equal(percpu_fcounter_add(counter, 0x1p-1074), 0);
	assert_int_equal(percpu_fcounter_add(counter, -3), 0);
	expect(percpu_fcounter_fetch(counter), -3);
	percpu_fcounter_zero(counter);
	expect(percpu_fcounter_fetch_zero(counter), 0);
}

static void arrays_have_their_own(void **state)
{
	double all[N + 1] = { [N] = 7 };

	(void)state;
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(percpu_fcounter_array_add(array, i, i + 0.5), 0);
	assert_int_equal(percpu_fcounter_array_add_slow(array, N - 1, 1), 0);
	expect(percpu_fcounter_array_fetch(array, 7), 7.5);
	expect(percpu_fcounter_array_fetch_zero(array, 8), 8.5);
	percpu_fcounter_array_zero(array, 9);
	percpu_fcounter_array_fetch_all(array, all);
	for (unsigned i = 0; i < N - 1; i++)
		expect(all[i], i == 8 || i == 9 ? 0 : i + 0.5);
	expect(all[N - 1], N + 0.5);
	expect(all[N], 7);
	expect(percpu_fcounter_array_fetch(array, N), 0);
	expect(percpu_fcounter_array_fetch_zero(array, SIZE_MAX), 0);
	percpu_fcounter_array_zero(array, N);
	assert_int_equal(percpu_fcounter_array_key(array), 0);
	assert_int_equal(percpu_fcounter_key(counter), 0);
}

static void what_is_too_large_is_refused(void **state)
{
	const double most = 0x1.fffffffffffffp+999;
	double value;

	(void)state;
	test_pin(0, test_cpu(0));
	assert_int_equal(percpu_fcounter_add(counter, 0x1p1000), -ERANGE);
	assert_int_equal(percpu_fcounter_add(counter, -0x1p1000), -ERANGE);
	assert_int_equal(percpu_fcounter_add(counter, 0x1.fp1023), -ERANGE);
	assert_int_equal(add_without(0x1p1000), -ERANGE);
	assert_int_equal(add_without(-0x1.fp1023), -ERANGE);
	expect(percpu_fcounter_fetch(counter), 0);
	/* A full lane accepts an add that makes it smaller. */
	assert_int_equal(percpu_fcounter_add(counter, most), 0);
	assert_int_equal(percpu_fcounter_add(counter, 0x1p999), -ERANGE);
	assert_int_equal(percpu_fcounter_add(counter, -0x1p999), 0);
	assert_int_equal(add_without(0x1p999), 0);
	value = percpu_fcounter_fetch(counter);
	assert_true(isfinite(value) && value > 0x1p999);
	expect(percpu_fcounter_fetch_zero(counter), value);
	expect(percpu_fcounter_fetch(counter), 0);
	test_unpin(0);
}

/* Test the error of sums. The numbers are multiples of 2^-30, so the exact sum is a 64-bit integer.
 * Partial sums are above 2^53 units and are rounded. */
static void rounding_has_a_bound(void **state)
{
	const double cpus = percpu_status()->possible_cpus, unit = 0x1p-30;
	int64_t exact = 0, all = 0, k, error;
	uint64_t random = 7;

	(void)state;
	for (int i = 1; i <= 400; i++) {
		k = (int64_t)(test_random(&random) >> 11) - (i % 3 ? 0 : INT64_C(1) << 52);
		if (i % 16 == 0)
			test_pin(0, test_cpu((unsigned)i / 16 % test_cpus()));
		assert_int_equal(i % 5 ? percpu_fcounter_add(counter, (double)k * unit) :
					 add_without((double)k * unit),
				 0);
		exact += k;
		all += k < 0 ? -k : k;
		if (i % 50 == 0) { /* the bound also holds after resets */
			percpu_fcounter_zero(counter);
			exact = 0;
		}
		error = (int64_t)(percpu_fcounter_fetch(counter) / unit) - exact;
		assert_true(fabs((double)error) <= (i + 4 * cpus) * 0x1p-53 * (double)all);
	}
	test_unpin(0);
}

/* Test that all reads add the lanes in one order. Each lane has another value, so another order
 * gives another sum. */
static void sums_have_an_order(void **state)
{
	double first, all[N];

	(void)state;
	for (unsigned i = 0; i < 64; i++) {
		test_pin(0, test_cpu(i % test_cpus()));
		assert_int_equal(percpu_fcounter_add(counter, 0x1p50 / (i + 3)), 0);
		assert_int_equal(percpu_fcounter_array_add(array, 1, 0x1p50 / (i + 3)), 0);
		assert_int_equal(add_without(0.1 * i), 0);
	}
	test_unpin(0);
	first = percpu_fcounter_fetch(counter);
	for (unsigned i = 0; i < 16; i++)
		expect(percpu_fcounter_fetch(counter), first);
	percpu_fcounter_array_fetch_all(array, all);
	expect(percpu_fcounter_array_fetch(array, 1), all[1]);
	expect(percpu_fcounter_fetch_zero(counter), first);
	expect(percpu_fcounter_fetch(counter), 0);
}

static bool stop;

static void add_until_stopped(unsigned i, void *arg)
{
	for (unsigned k = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); k++) {
		if (k % 64 == 0)
			test_pin(0, test_cpu((i + k / 64) % test_cpus()));
		(void)(i % 4 == 3 ? percpu_fcounter_add_slow(arg, 0.1) :
				    percpu_fcounter_add(arg, 0.1));
	}
}

static void reads_never_go_back(void **state)
{
	uint64_t end = test_now() + 200000000;
	double last = 0, v = 0;
	struct test_team t;

	(void)state;
	stop = false;
	test_team_start(&t, 4, add_until_stopped, counter);
	while (test_now() < end && v >= last) {
		last = v;
		v = percpu_fcounter_fetch(counter);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	test_team_join(&t);
	assert_true(v >= last);
}

static double taken[THREADS];

/* Add whole numbers, some of them without a sequence; make some refused adds and some resets. */
static void add_many(unsigned i, void *arg)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER }, *area = NULL;

	(void)arg;
	if (i == 0)
		area = model_set_area(&none);
	taken[i] = 0;
	for (unsigned k = 0; k < ADDS; k++) {
		if (percpu_fcounter_add(counter, 3) != 0)
			taken[i] = NAN;
		if (k % 64 == 0 && percpu_fcounter_add(counter, NAN) != -EDOM)
			taken[i] = NAN;
		if (k % 1000 == 999)
			taken[i] += percpu_fcounter_fetch_zero(counter);
	}
	if (area != NULL)
		model_set_area(area);
}

static void threads_lose_nothing(void **state)
{
	double sum;

	(void)state;
	test_team_run(THREADS, add_many, NULL);
	sum = percpu_fcounter_fetch(counter);
	for (unsigned i = 0; i < THREADS; i++)
		sum += taken[i];
	expect(sum, 3.0 * THREADS * ADDS);
}

/* Files */

struct place {
	const char *path;
	double *sum;
};

static int count_there(void *arg)
{
	const struct place *p = arg;
	struct percpu_fcounter_array *a;
	struct percpu_fcounter *c;
	struct percpu_region *r;

	test_child_require(percpu_region_open(p->path, PERCPU_REGION_WRITE, NULL, &r) == 0, "r");
	test_child_require(percpu_fcounter_open(r, 0, &c) == 0, "a counter");
	test_child_require(percpu_fcounter_array_open(r, 1, N, &a) == 0, "an array");
	for (unsigned i = 0; i < 1000; i++)
		test_child_require(percpu_fcounter_add(c, 0.5) == 0 &&
					   percpu_fcounter_array_add(a, i % N, 2) == 0,
				   "add");
	percpu_fcounter_array_detach(a);
	percpu_fcounter_detach(c);
	percpu_region_close(r);
	return 0;
}

static void processes_count_together(void **state)
{
	struct place p = { .path = test_path("fcounter") };
	struct percpu_fcounter_array *a, *seen;
	struct percpu_region *r, *outside;
	struct percpu_fcounter *c, *seen_one;
	pid_t pid[3];

	(void)state;
	assert_int_equal(percpu_region_open(p.path, CREATE, NULL, &r), 0);
	for (unsigned i = 0; i < 3; i++)
		pid[i] = test_fork(count_there, &p);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(test_wait(pid[i], 60), 0);
	assert_int_equal(percpu_fcounter_open(r, 0, &c), 0);
	assert_int_equal(percpu_fcounter_array_open(r, 1, 10, &a), 0);
	expect(percpu_fcounter_fetch(c), 1500);
	expect(percpu_fcounter_array_fetch(a, 9), 24);
	/* A process that opened the region to read resets nothing. */
	assert_int_equal(percpu_region_open(p.path, 0, NULL, &outside), 0);
	assert_int_equal(percpu_fcounter_attach(outside, percpu_fcounter_key(c), &seen_one), 0);
	assert_int_equal(
		percpu_fcounter_array_attach(outside, percpu_fcounter_array_key(a), N, &seen), 0);
	expect(percpu_fcounter_fetch_zero(seen_one), 1500);
	percpu_fcounter_array_zero(seen, 9);
	expect(percpu_fcounter_fetch(seen_one), 1500);
	expect(percpu_fcounter_array_fetch(seen, 9), 24);
	expect(percpu_fcounter_fetch_zero(c), 1500);
	expect(percpu_fcounter_fetch(seen_one), 0);
	percpu_fcounter_array_detach(seen);
	percpu_fcounter_detach(seen_one);
	percpu_region_close(outside);
	percpu_fcounter_array_destroy(a);
	percpu_fcounter_destroy(c);
	percpu_region_close(r);
}

static void keys_say_what_they_lead_to(void **state)
{
	const struct percpu_region_options large = { .size = sizeof(large),
						     .lane_size = 2 * PERCPU_LANE_SIZE };
	struct percpu_counter_array *integers = NULL;
	struct percpu_fcounter_array *a = NULL;
	struct percpu_fcounter *c = NULL;
	struct percpu_counter *integer = NULL;
	struct percpu_region *r;
	int fd = memfd_create("fcounter", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(test_region_new_fd(fd, NULL, &r), 0);
	close(fd);
	assert_int_equal(percpu_counter_array_open(r, 0, 4, &integers), 0);
	assert_int_equal(percpu_fcounter_open(r, 0, &c), -EEXIST);
	assert_int_equal(percpu_fcounter_array_open(r, 0, 4, &a), -EEXIST);
	assert_int_equal(percpu_fcounter_array_open(r, 1, 4, &a), 0);
	assert_int_equal(percpu_counter_attach(r, percpu_fcounter_array_key(a), &integer), -ENOENT);
	assert_int_equal(percpu_fcounter_attach(r, percpu_fcounter_array_key(a), &c), 0);
	assert_int_equal(percpu_fcounter_add(c, 1.5), 0);
	expect(percpu_fcounter_array_fetch(a, 0), 1.5);
	percpu_fcounter_array_destroy(a);
	assert_int_equal(percpu_fcounter_array_create(0, &a), -EINVAL);
	assert_int_equal(percpu_fcounter_array_create(SIZE_MAX / 4, &a), -EINVAL);
	assert_int_equal(percpu_fcounter_array_create_in(r, 8193, &a), -EINVAL);
	assert_int_equal(percpu_fcounter_array_attach(r, 1, SIZE_MAX, &a), -EINVAL);
	percpu_counter_array_destroy(integers);
	percpu_region_close(r);
	assert_int_equal(percpu_region_create(&large, &r), 0);
	assert_int_equal(percpu_fcounter_create_in(r, &c), -EINVAL);
	assert_int_equal(percpu_fcounter_array_create_in(r, 9000, &a), 0);
	percpu_fcounter_array_destroy(a);
	percpu_region_close(r);
}

/* Test that sums are finite whatever another process writes into a file, and that adds to damaged
 * cells are refused. */
static void damaged_cells_count_as_nothing(void **state)
{
	const double odd[] = { NAN, INFINITY, -INFINITY, 0x1p1000, -0x1.8p1023 };
	struct percpu_region *r;
	int fd = memfd_create("fcounter", MFD_CLOEXEC);
	struct percpu_fcounter *c;
	size_t lanes, stride;
	char *cell;

	(void)state;
	assert_int_equal(test_region_new_fd(fd, NULL, &r), 0);
	close(fd);
	assert_int_equal(percpu_fcounter_create_in(r, &c), 0);
	cell = (char *)c;
	stride = PERCPU_STRIDE;
	lanes = 2 * (size_t)percpu_status()->possible_cpus;
	test_pin(0, test_cpu(0));
	for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		assert_int_equal(percpu_fcounter_add(c, 1), 0);
		memcpy(cell + test_cpu(0) * stride, &odd[i], 8);
		memcpy(cell + lanes / 2 * stride, &odd[i], 8);
		memcpy(cell + lanes * stride, &odd[i], 8); /* the bias */
		assert_true(fabs(percpu_fcounter_fetch(c)) < 0x1p1020);
		assert_true(fabs(percpu_fcounter_fetch_zero(c)) < 0x1p1020);
		assert_true(fabs(percpu_fcounter_fetch_zero(c)) < 0x1p1020);
		if (percpu_seq_attach()->cpu_id >= 0)
			assert_int_equal(percpu_fcounter_add(c, 1), -ERANGE);
		memset(cell + test_cpu(0) * stride, 0, 8);
		memset(cell + lanes / 2 * stride, 0, 8);
		percpu_fcounter_zero(c);
		expect(percpu_fcounter_fetch(c), 0);
	}
	test_unpin(0);
	/* An add is refused even if it would bring the damaged value below the limit. */
	for (size_t lane = lanes / 2; lane < lanes; lane++)
		memcpy(cell + lane * stride, &odd[3], 8);
	counter = c;
	assert_int_equal(add_without(-0x1p999), -ERANGE);
	counter = NULL;
	expect(percpu_fcounter_fetch(c), 0);
	percpu_fcounter_destroy(c);
	percpu_region_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(values_are_sums, create, destroy),
		cmocka_unit_test_setup_teardown(arrays_have_their_own, create, destroy),
		cmocka_unit_test_setup_teardown(what_is_too_large_is_refused, create, destroy),
		cmocka_unit_test_setup_teardown(rounding_has_a_bound, create, destroy),
		cmocka_unit_test_setup_teardown(sums_have_an_order, create, destroy),
		cmocka_unit_test_setup_teardown(reads_never_go_back, create, destroy),
		cmocka_unit_test_setup_teardown(threads_lose_nothing, create, destroy),
		cmocka_unit_test(processes_count_together),
		cmocka_unit_test(keys_say_what_they_lead_to),
		cmocka_unit_test(damaged_cells_count_as_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
