/* SPDX-License-Identifier: MIT */
/*
 * test_cpus.c - lanes for all CPUs, also in a container whose sysfs names fewer,
 * or none, and whose affinity is widened later.
 *
 * Each case is a process in a mount namespace of its own, which first looks for
 * CPUs there; main() must not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/fence.h>
#include <percpu/status.h>

#include "../support.h"

bool test_of_first_use = true;

#define POSSIBLE "/sys/devices/system/cpu/possible"
#define CANNOT 77
#define ADDS 1000

static char fake[PATH_MAX], outside[PATH_MAX], inside[PATH_MAX], small[PATH_MAX];

static int name_files(void **state)
{
	(void)state;
	strcpy(fake, test_path("fake"));
	strcpy(outside, test_path("outside"));
	strcpy(inside, test_path("inside"));
	strcpy(small, test_path("small"));
	return 0;
}

static bool bind(const char *text, const char *over)
{
	int fd = open(fake, O_RDWR | O_CREAT | O_TRUNC, 0600);
	bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return ok && mount(fake, over, NULL, MS_BIND, NULL) == 0;
}

static void enter_namespace(void)
{
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		_exit(CANNOT);
}

/* sysfs says that there is one CPU, and the process may use that alone. */
static void enter_container(void)
{
	enter_namespace();
	if (!bind("0\n", POSSIBLE) || !test_pin(0, 0))
		_exit(CANNOT);
}

static void hide_proc(void)
{
	if (mount("none", "/proc", "tmpfs", 0, NULL) != 0)
		_exit(CANNOT);
}

static void run(int (*fn)(void *arg), void *arg)
{
	int status;

	if (test_cpus() < 2 || test_cpu(0) != 0)
		test_skip("needs CPU 0 and another");
	status = test_wait(test_fork(fn, arg), 30);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
		test_skip("not permitted: a namespace, or mounts in it");
	assert_int_equal(status, 0);
}

static unsigned highest(void)
{
	return test_cpu(test_cpus() - 1);
}

/* The kernel's own list is exact. */
static int look(void *arg)
{
	unsigned first, last = 0;
	FILE *f = fopen(POSSIBLE, "re");
	char line[256];

	(void)arg;
	test_child_require(f != NULL && fgets(line, sizeof(line), f) != NULL, "a list");
	fclose(f);
	if (sscanf(line, "%u-%u", &first, &last) < 1 || strchr(line, ',') != NULL)
		return CANNOT;
	test_child_require(percpu_status()->possible_cpus == (last > first ? last : first) + 1,
			   "as listed");
	return 0;
}

static void the_kernels_list_is_exact(void **state)
{
	(void)state;
	run(look, NULL);
}

/* Count on CPU 0, and when the affinity is widened, on the last one. */
static int count_in_container(void *arg)
{
	struct percpu_counter *c[2];

	(void)arg;
	enter_container();
	test_child_require(percpu_counter_create(&c[0]) == 0, "create");
	test_child_require(percpu_counter_create(&c[1]) == 0, "create");
	test_child_require(percpu_status()->possible_cpus > highest(), "lanes for all CPUs");
	test_child_require(percpu_status()->possible_cpus <= highest() + 64,
			   "and not for many more");
	for (int round = 0; round < 2; round++) {
		test_pin(0, round == 0 ? 0 : highest());
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
	run(count_in_container, NULL);
}

/* Regions between processes that see different lists of CPUs. */

static int open_in_container(void *path)
{
	struct percpu_region *r;

	enter_container();
	test_child_require(percpu_region_open(path, 1, &r) == 0, "open to count");
	percpu_region_close(r);
	return 0;
}

static int create_in_container(void *path)
{
	struct percpu_region *r;

	enter_container();
	test_child_require(percpu_region_create_file(path, NULL, &r) == 0, "create");
	percpu_region_close(r);
	return 0;
}

static int create_for_one_cpu(void *path)
{
	struct percpu_region *r;

	enter_container();
	hide_proc();
	test_child_require(percpu_region_create_file(path, NULL, &r) == 0, "create");
	percpu_region_close(r);
	return 0;
}

static int create_outside(void *path)
{
	struct percpu_region *r;

	test_child_require(percpu_region_create_file(path, NULL, &r) == 0, "create");
	percpu_region_close(r);
	return 0;
}

static int open_outside(void *path)
{
	struct percpu_region *r;

	test_child_require(percpu_region_open(path, 1, &r) == 0, "open to count");
	percpu_region_close(r);
	return 0;
}

static int open_too_small(void *path)
{
	struct percpu_region *r = NULL;

	test_child_require(percpu_region_open(path, 1, &r) == -ERANGE, "refused to count");
	test_child_require(percpu_region_open(path, 0, &r) == 0, "open to read");
	percpu_region_close(r);
	return 0;
}

static void containers_share_regions(void **state)
{
	(void)state;
	run(create_outside, outside);
	run(open_in_container, outside);
	run(create_in_container, inside);
	run(open_outside, inside);
	run(open_in_container, inside);
	run(create_for_one_cpu, small);
	run(open_too_small, small);
}

/* What has too few lanes all the same: nothing in the container told. Who is at the
 * library anyway notices, and counts exactly. */

static void count_on_the_last(unsigned i, void *arg)
{
	struct percpu_counter *c = arg;

	(void)i;
	test_pin(0, highest());
	for (int n = 0; n < ADDS; n++)
		percpu_counter_add(c, 1);
}

static int outgrow_lanes(void *arg)
{
	const struct percpu_status *st;
	struct percpu_counter *c[4];
	int how = *(int *)arg;

	enter_container();
	hide_proc();
	(void)test_tier();
	st = percpu_status();
	test_child_require(st->possible_cpus == 1 && !st->cpu_without_lane, "one lane");
	for (int i = 0; i < 4; i++)
		test_child_require(percpu_counter_create(&c[i]) == 0, "create");
	for (int i = 0; i < ADDS; i++)
		percpu_counter_add(c[0], 1);
	test_child_require(percpu_counter_fetch(c[0]) == ADDS, "exact");
	if (how == 0) { /* a new thread, whatever this one does */
		test_team_run(1, count_on_the_last, c[0]);
	} else {
		test_pin(0, highest());
		if (how == 1)
			(void)percpu_thread_tier();
		else if (how == 2)
			(void)percpu_fence();
		else if (how == 3)
			(void)percpu_fence_all(UINT64_C(5000000000), NULL);
		else
			(void)percpu_status();
		for (int i = 0; i < ADDS; i++)
			percpu_counter_add(c[0], 1);
		test_child_require(percpu_thread_tier() <= PERCPU_TIER_CPU, "the thread's tier");
	}
	test_child_require(st->cpu_without_lane, "status");
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
		run(outgrow_lanes, &how);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernels_list_is_exact),
		cmocka_unit_test(faked_lists_do_not_count),
		cmocka_unit_test(containers_share_regions),
		cmocka_unit_test(too_few_lanes_are_noticed),
	};

	return cmocka_run_group_tests_name("cpus", tests, name_files, test_remove_paths);
}
