/* SPDX-License-Identifier: MIT */
/*
 * test_processes.c - many processes use one counter. They are forked from a process of one thread
 * or of several, attach by name, or are made by vfork or by clone(2).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/status.h>

#include "../support.h"

#define WORKERS 6
#ifdef PERCPU_NO_WRAP
#define WRAPPED false
#else
#define WRAPPED true
#endif
#define ADDS 100000

static struct percpu_region *region;
static struct percpu_counter *counter; /* in a region that children share */

static int create(void **state)
{
	int fd = memfd_create("processes", 0), e;

	(void)state;
	e = test_region_new_fd(fd, NULL, &region);
	close(fd);
	return e ? e : percpu_counter_create_in(region, &counter);
}

static int destroy(void **state)
{
	(void)state;
	percpu_region_close(region);
	region = NULL;
	return 0;
}

static void add_many(unsigned i, void *arg)
{
	(void)i;
	for (int k = 0; k < ADDS; k++)
		percpu_counter_add(arg, 1);
}

static int add_in_child(void *arg)
{
	add_many(0, arg);
	return 0;
}

static void fork_and_wait(int (*fn)(void *arg), void *arg)
{
	pid_t pid[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		pid[i] = test_fork(fn, arg);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(test_wait(pid[i], 60), 0);
}

static void forked_children_count_together(void **state)
{
	(void)state;
	percpu_counter_add(counter, 1);
	fork_and_wait(add_in_child, counter);
	assert_int_equal(percpu_counter_fetch(counter), WORKERS * ADDS + 1);
}

/* A private counter is a variable of the process: the child has a copy of its own. */
static void private_counters_are_copied(void **state)
{
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_counter_create(&c), 0);
	percpu_counter_add(c, 5);
	fork_and_wait(add_in_child, c);
	assert_int_equal(percpu_counter_fetch(c), 5);
	percpu_counter_destroy(c);
}

static const char *name;

/* Attach by name, and add to a counter in the second chunk, which the parent adds meanwhile. */
static int attach_and_add(void *arg)
{
	struct percpu_region *r;
	struct percpu_counter *c;

	test_child_require(percpu_region_open(name, PERCPU_REGION_WRITE, NULL, &r) == 0, "open");
	while (percpu_region_root(r, 0) == 0)
		test_sleep_us(100);
	test_child_require(percpu_counter_open(r, 0, &c) == 0, "what came after open is found");
	add_many(0, c);
	percpu_region_close(r);
	return *(int *)arg;
}

static void growth_reaches_other_processes(void **state)
{
	struct percpu_region *r;
	struct percpu_counter *c = NULL;
	pid_t pid[WORKERS];
	int zero = 0;

	(void)state;
	name = test_path("growing");
	assert_int_equal(test_region_new(name, NULL, &r), 0);
	for (int i = 0; i < WORKERS; i++)
		pid[i] = test_fork(attach_and_add, &zero);
	for (int i = 0; i <= PERCPU_LANE_SIZE / 8; i++)
		assert_int_equal(percpu_counter_create_in(r, &c), 0);
	assert_int_equal(percpu_region_set_root(r, 0, 0, percpu_counter_key(c)), 0);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(test_wait(pid[i], 60), 0);
	assert_int_equal(percpu_counter_fetch(c), WORKERS * ADDS);
	percpu_region_close(r);
	unlink(name);
}

#define CELLS 2000
static uint64_t (*cells)[CELLS];
static bool stop;

/* Allocate in one thread, and open and close the file in another, in each process. Neither may
 * disturb the allocations of another process. */
static void allocate(unsigned i, void *arg)
{
	struct percpu_region *r = arg, *other;
	void *cell;

	if (i == 0) {
		/* In an emulator the lock holder may not run for seconds. */
		for (int k = 0, e; k < CELLS; k += e == 0) {
			e = percpu_region_alloc(r, 64, 64, &cell);
			if (e != 0 && e != -ETIMEDOUT)
				break;
			if (e == 0)
				(*cells)[k] = percpu_region_key(r, cell);
		}
		__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	}
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (percpu_region_open(name, PERCPU_REGION_WRITE, NULL, &other) == 0)
			percpu_region_close(other);
		for (int k = 0; k < 100; k++)
			close(open(name, O_RDWR | O_CLOEXEC));
	}
}

static int allocate_in_child(void *arg)
{
	struct percpu_region *r;
	struct test_team t;

	test_child_require(percpu_region_open(name, PERCPU_REGION_WRITE, NULL, &r) == 0, "open");
	cells += *(unsigned *)arg; /* the cells of this process */
	stop = false;
	test_team_start(&t, 2, allocate, r);
	test_team_join(&t);
	percpu_region_close(r);
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void no_cell_is_handed_out_twice(void **state)
{
	uint64_t *all = test_share(WORKERS * sizeof(*cells));
	struct percpu_region *r;
	pid_t pid[WORKERS];

	(void)state;
	cells = (void *)all;
	name = test_path("allocating");
	assert_int_equal(test_region_new(name, NULL, &r), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		pid[i] = test_fork(allocate_in_child, &i);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(test_wait(pid[i], 60), 0);
	qsort(all, WORKERS * CELLS, sizeof(*all), compare);
	assert_int_not_equal(all[0], 0);
	for (int i = 1; i < WORKERS * CELLS; i++)
		assert_true(all[i - 1] < all[i]);
	percpu_region_close(r);
	unlink(name);
}

static void add_until_stopped(unsigned i, void *arg)
{
	uint64_t *added = arg;

	for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); added[i]++)
		percpu_counter_add(counter, 1);
}

/* Fork while the other threads of the parent are in updates. */
static void fork_among_counting_threads(void **state)
{
	uint64_t added[4] = { 0 }, sum = 0;
	struct test_team t;
	int children = 30, wrong = 0;

	(void)state;
	stop = false;
	test_team_start(&t, 4, add_until_stopped, added);
	for (int i = 0; i < children && !wrong; i++)
		wrong += test_wait(test_fork(add_in_child, counter), 60) != 0;
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	test_team_join(&t);
	assert_int_equal(wrong, 0);
	for (int i = 0; i < 4; i++)
		sum += added[i];
	assert_int_equal(percpu_counter_fetch(counter), sum + (uint64_t)children * ADDS);
}

/* Create and count in a child, whatever locks the parent's threads held. */
static int create_in_child(void *arg)
{
	struct percpu_counter *c;

	(void)arg;
	test_child_require(percpu_counter_create(&c) == 0, "create in a child");
	percpu_counter_add(c, 3);
	test_child_require(percpu_counter_fetch(c) == 3, "count in a child");
	percpu_counter_destroy(c);
	return 0;
}

static void create_until_stopped(unsigned i, void *arg)
{
	struct percpu_counter *c;

	(void)i, (void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		if (percpu_counter_create(&c) == 0)
			percpu_counter_destroy(c);
}

static void fork_among_allocating_threads(void **state)
{
	struct test_team t;
	int wrong = 0;

	(void)state;
	test_needs_forks_beside_malloc();
	stop = false;
	test_team_start(&t, 3, create_until_stopped, NULL);
	for (int i = 0; i < 40 && !wrong; i++)
		wrong += test_wait(test_fork(create_in_child, NULL), 20) != 0;
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	test_team_join(&t);
	assert_int_equal(wrong, 0);
}

/* Add in a child that uses its parent's memory and TLS while the parent thread waits. */
static bool add_in_vforked_child(void)
{
	pid_t pid = vfork();
	int status;

	if (pid == 0) {
		for (unsigned k = 0; k < 1000; k++) {
			if (k % 100 == 0)
				test_pin(0, test_cpu(k / 100 % test_cpus()));
			percpu_counter_add(counter, 1);
		}
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* Threads of the parent go on, also on the CPU that the child believes to be on. */
static void vforked_children_count(void **state)
{
	uint64_t added[4] = { 0 }, sum = 0;
	struct test_team t;
	int wrong = 0;

	(void)state;
	if (!WRAPPED || test_address_sanitizer() || test_thread_sanitizer())
		test_skip("vfork is not wrapped, or sanitizers have one of their own");
	stop = false;
	test_team_start(&t, 4, add_until_stopped, added);
	for (int i = 0; i < 50 && !wrong; i++) {
		percpu_counter_add(counter, 1);
		wrong += !add_in_vforked_child();
		percpu_counter_add(counter, 1);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	test_team_join(&t);
	assert_int_equal(wrong, 0);
	for (int i = 0; i < 4; i++)
		sum += added[i];
	assert_int_equal(percpu_counter_fetch(counter), sum + 50 * 1002);
}

static int add_as_clone(void *arg)
{
	for (int k = 0; k < 10 * ADDS; k++)
		percpu_counter_add(arg, 1);
	return 0;
}

/* A child that shares memory and TLS with its parent adds at the same time as the parent. */
static void clones_count_with_their_parent(void **state)
{
	enum { STACK = 1 << 16 };
	char *stack = test_share(STACK);
	struct percpu_counter *c;
	pid_t pid;

	(void)state;
	if (!WRAPPED || test_address_sanitizer() || test_thread_sanitizer())
		test_skip("clone is not wrapped, or sanitizers have one of their own");
	assert_int_equal(percpu_counter_create(&c), 0);
	for (int i = 0; i < 5; i++) {
		pid = clone(add_as_clone, stack + STACK, CLONE_VM | SIGCHLD, c);
		if (pid < 0 && errno == EINVAL)
			test_skip("no clone with CLONE_VM alone here");
		assert_true(pid > 0);
		add_as_clone(c);
		assert_int_equal(test_wait(pid, 60), 0);
		add_as_clone(c);
	}
	assert_int_equal(percpu_counter_fetch(c), 5 * 3 * 10 * ADDS);
	percpu_counter_destroy(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(forked_children_count_together, create, destroy),
		cmocka_unit_test(private_counters_are_copied),
		cmocka_unit_test(growth_reaches_other_processes),
		cmocka_unit_test(no_cell_is_handed_out_twice),
		cmocka_unit_test_setup_teardown(fork_among_counting_threads, create, destroy),
		cmocka_unit_test(fork_among_allocating_threads),
		cmocka_unit_test_setup_teardown(vforked_children_count, create, destroy),
		cmocka_unit_test(clones_count_with_their_parent),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
