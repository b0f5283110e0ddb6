/* SPDX-License-Identifier: MIT */
/*
 * test_cpus.c - lanes for all CPUs, also in a container whose sysfs names fewer, or none, and
 * whose affinity is widened later.
 *
 * Each case is a process in its own mount namespace, which looks for CPUs there first; main()
 * must not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/fence.h>
#include <percpu/status.h>
#include <percpu/zone.h>

#include "cpu/cpu.h"
#include "support.h"
#include "jail.h"

bool test_of_first_use = true;

#define ADDS 1000

static char outside[PATH_MAX], inside[PATH_MAX], small[PATH_MAX];

static int name_files(void **state)
{
	(void)state;
	strcpy(outside, test_path("outside"));
	strcpy(inside, test_path("inside"));
	strcpy(small, test_path("small"));
	return 0;
}

/* Enter a namespace whose sysfs has one CPU, and use that CPU alone. */
static void enter_container(void)
{
	jail_enter();
	jail_fake("0\n", JAIL_POSSIBLE);
	test_child_require(test_pin(0, 0), "pin");
}

/* The kernel's own list is exact. */
static int look(void *arg)
{
	unsigned first, last = 0;
	FILE *f = fopen(JAIL_POSSIBLE, "re");
	char line[256];

	(void)arg;
	test_child_require(f != NULL && fgets(line, sizeof(line), f) != NULL, "a list");
	fclose(f);
	if (sscanf(line, "%u-%u", &first, &last) < 1 || strchr(line, ',') != NULL)
		return 0; /* sparse: other tests have those */
	test_child_require(percpu_status()->possible_cpus == (last > first ? last : first) + 1,
			   "as listed");
	return 0;
}

static void the_kernels_list_is_exact(void **state)
{
	(void)state;
	jail_run(look, NULL);
}

/* Count on CPU 0, and when the affinity is widened, on the last one. */
static int count_in_container(void *arg)
{
	struct percpu_counter *c[2];

	(void)arg;
	enter_container();
	test_child_require(percpu_counter_create(&c[0]) == 0, "create");
	test_child_require(percpu_counter_create(&c[1]) == 0, "create");
	test_child_require(percpu_status()->possible_cpus > jail_highest(), "lanes for all CPUs");
	test_child_require(percpu_status()->possible_cpus <= jail_highest() + 64,
			   "and not for many more");
	for (int round = 0; round < 2; round++) {
		test_pin(0, round == 0 ? 0 : jail_highest());
		for (int i = 0; i < ADDS; i++)
			percpu_counter_add(c[0], 1);
	}
	test_child_require(percpu_counter_fetch(c[0]) == 2 * ADDS, "exact");
	test_child_require(percpu_counter_fetch_zero(c[0]) == 2 * ADDS, "exact");
	test_child_require(percpu_counter_fetch(c[0]) == 0, "reset");
	test_child_require(percpu_counter_fetch(c[1]) == 0, "the neighbor is left alone");
	return 0;
}

static void faked_lists_do_not_count(void **state)
{
	(void)state;
	jail_run(count_in_container, NULL);
}

/* Regions that are shared by processes that see different lists of CPUs. */

static int open_in_container(void *path)
{
	struct percpu_region *r;

	enter_container();
	test_child_require(percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &r) == 0,
			   "open to count");
	percpu_region_close(r);
	return 0;
}

static int create_in_container(void *path)
{
	struct percpu_region *r;

	enter_container();
	test_child_require(test_region_new(path, NULL, &r) == 0, "create");
	percpu_region_close(r);
	return 0;
}

static int create_for_one_cpu(void *path)
{
	struct percpu_region *r;

	enter_container();
	jail_hide("/proc");
	test_child_require(test_region_new(path, NULL, &r) == 0, "create");
	percpu_region_close(r);
	return 0;
}

static int create_outside(void *path)
{
	struct percpu_region *r;

	test_child_require(test_region_new(path, NULL, &r) == 0, "create");
	percpu_region_close(r);
	return 0;
}

static int open_outside(void *path)
{
	struct percpu_region *r;

	test_child_require(percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &r) == 0,
			   "open to count");
	percpu_region_close(r);
	return 0;
}

static int open_too_small(void *path)
{
	struct percpu_region *r = NULL;

	test_child_require(percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &r) == -ERANGE,
			   "refused to count");
	test_child_require(percpu_region_open(path, 0, NULL, &r) == 0, "open to read");
	percpu_region_close(r);
	return 0;
}

static void containers_share_regions(void **state)
{
	(void)state;
	jail_run(create_outside, outside);
	jail_run(open_in_container, outside);
	jail_run(create_in_container, inside);
	jail_run(open_outside, inside);
	jail_run(open_in_container, inside);
	jail_run(create_for_one_cpu, small);
	jail_run(open_too_small, small);
}

/* A region has too few lanes, as nothing in the container says how many CPUs there are. A thread
 * on another CPU notices that when it calls the library, and counts exactly. */

static void count_on_the_last(unsigned i, void *arg)
{
	struct percpu_counter *c = arg;

	(void)i;
	test_pin(0, jail_highest());
	for (int n = 0; n < ADDS; n++)
		percpu_counter_add(c, 1);
}

/* Each verdict has a status of its own. */
static void require_told_for_each_verdict(void)
{
	const uint32_t found = percpu_verdict_word;

	test_child_require(percpu_status()->cpu_without_lane, "status");
	for (uint32_t v = PERCPU_SELFTEST_SKIPPED; v < PERCPU_SELFTEST_PENDING; v++) {
		__atomic_store_n(&percpu_verdict_word, v, __ATOMIC_RELEASE);
		test_child_require(percpu_status()->cpu_without_lane, "status of each verdict");
	}
	__atomic_store_n(&percpu_verdict_word, found, __ATOMIC_RELEASE);
}

static int outgrow_lanes(void *arg)
{
	const struct percpu_status *st;
	struct percpu_counter *c[4];
	int how = *(int *)arg;

	enter_container();
	jail_hide("/proc");
	(void)test_tier();
	st = percpu_status();
	test_child_require(st->possible_cpus == 1 && !st->cpu_without_lane, "one lane");
	for (int i = 0; i < 4; i++)
		test_child_require(percpu_counter_create(&c[i]) == 0, "create");
	for (int i = 0; i < ADDS; i++)
		percpu_counter_add(c[0], 1);
	test_child_require(percpu_counter_fetch(c[0]) == ADDS, "exact");
	if (how == 0) { /* a new thread; this one may do anything */
		test_team_run(1, count_on_the_last, c[0]);
	} else {
		test_pin(0, jail_highest());
		if (how == 1)
			(void)percpu_thread_tier();
		else if (how == 2)
			test_child_require(percpu_fence() != -EINVAL, "fence");
		else if (how == 3)
			test_child_require(percpu_fence_all(UINT64_C(5000000000), NULL) != -EINVAL,
					   "fence_all");
		else
			(void)percpu_status();
		for (int i = 0; i < ADDS; i++)
			percpu_counter_add(c[0], 1);
		test_child_require(percpu_thread_tier() <= PERCPU_TIER_CPU, "the thread's tier");
	}
	require_told_for_each_verdict();
	test_child_require(percpu_counter_fetch_zero(c[0]) == 2 * ADDS, "exact");
	test_child_require(percpu_counter_fetch(c[0]) == 0, "reset");
	for (int i = 1; i < 4; i++)
		test_child_require(percpu_counter_fetch(c[i]) == 0, "others are left alone");
	return 0;
}

static void too_few_lanes_are_noticed(void **state)
{
	(void)state;
	if (test_thread_sanitizer())
		test_skip("the thread sanitizer allows no threads in a child that forks");
	for (int how = 0; how < 5; how++)
		jail_run(outgrow_lanes, &how);
}

/* There are lanes for all CPUs, but one region was made for one CPU. A thread on another CPU
 * must not count there in a sequence. */
static int count_in_small_region(void *path)
{
	struct percpu_region_options o = { .size = sizeof(o), .cpus = 1 };
	struct percpu_region *r;
	struct percpu_counter *c;
	int e;

	jail_enter();
	jail_fake("0-63\n", JAIL_POSSIBLE);
	jail_hide("/proc");
	test_child_require(test_pin(0, 0), "pin");
	(void)test_tier();
	if (path != NULL)
		e = percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &r);
	else
		e = percpu_region_create(&o, &r);
	if (e == -EINVAL || e == -ERANGE)
		return 0; /* here masks are longer than the number of CPUs */
	test_child_require(e == 0 && percpu_status()->possible_cpus > 1, "fewer lanes than CPUs");
	test_child_require(percpu_counter_create_in(r, &c) == 0, "create");
	test_child_require(!percpu_status()->cpu_without_lane, "no thread was there");
	test_team_run(1, count_on_the_last, c);
	test_child_require(percpu_status()->cpu_without_lane, "status");
	test_child_require(percpu_counter_fetch(c) == ADDS, "exact");
	return 0;
}

static void note_visit(void *copy, unsigned cpu, void *arg)
{
	(void)copy;
	((unsigned *)arg)[cpu == 0 ? 0 : 1]++;
}

/* A function is not run on a CPU for which an item has no copy. */
static int visit_small_region(void *arg)
{
	struct percpu_region_options o = { .size = sizeof(o), .cpus = 1 };
	struct percpu_zone_options in = { .size = sizeof(in) };
	unsigned visits[2] = { 0, 0 };
	struct percpu_zone *z;
	void *item;
	int e;

	(void)arg;
	jail_enter();
	jail_fake("0-63\n", JAIL_POSSIBLE);
	jail_hide("/proc");
	test_child_require(test_pin(0, 0), "pin");
	e = percpu_region_create(&o, &in.region);
	if (e == -EINVAL)
		return 0; /* here masks are longer than the number of CPUs */
	test_child_require(e == 0 && percpu_status()->possible_cpus > 1, "fewer lanes than CPUs");
	test_child_require(percpu_zone_create("small", 8, &in, &z) == 0, "a zone");
	test_child_require(percpu_zone_alloc(z, 0, &item) == 0, "an item");
	test_child_require(
		percpu_zone_run(z, item, note_visit, visits, UINT64_C(20000000000), NULL) == 0,
		"a visit");
	test_child_require(visits[0] == 1 && visits[1] == 0, "of the CPU that has a lane");
	return 0;
}

/* No thread counts in a region that is open to read. */
static int read_small_region(void *path)
{
	struct percpu_region *r;

	test_child_require(percpu_region_open(path, 0, NULL, &r) == 0, "open to read");
	test_pin(0, jail_highest());
	test_child_require(!percpu_status()->cpu_without_lane, "status");
	percpu_region_close(r);
	return 0;
}

static void regions_for_fewer_cpus_are_noticed(void **state)
{
	(void)state;
	if (test_thread_sanitizer())
		test_skip("the thread sanitizer allows no threads in a child that forks");
	if (access(small, F_OK) != 0)
		jail_run(create_for_one_cpu, small);
	jail_run(count_in_small_region, NULL);
	jail_run(count_in_small_region, small);
	jail_run(read_small_region, small);
	jail_run(visit_small_region, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernels_list_is_exact),
		cmocka_unit_test(faked_lists_do_not_count),
		cmocka_unit_test(containers_share_regions),
		cmocka_unit_test(too_few_lanes_are_noticed),
		cmocka_unit_test(regions_for_fewer_cpus_are_noticed),
	};

	return cmocka_run_group_tests_name("cpus", tests, name_files, test_remove_paths);
}
