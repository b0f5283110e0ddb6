/* SPDX-License-Identifier: MIT */
/*
 * test_region_programs.c - shared regions in programs that close all descriptors, have none
 * left, go into a jail, or limit their files. Programs that lock the file, stop, or cancel
 * threads: test_region_programs_locks.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/status.h>

#include "memory/memory.h"
#include "support.h"
#include "guest.h"

#define LOGS 16

static const char log_line[] = "a line of the program's own log\n";

/* Close all descriptors, as daemons do, and open logs with the free numbers. */
static void close_all(int logs[LOGS])
{
	char name[192];

	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	for (int i = 0; i < LOGS; i++) {
		snprintf(name, sizeof(name), "%s.%ld-%d", path, (long)getpid(), i);
		logs[i] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
		test_child_require(write(logs[i], log_line, sizeof(log_line)) ==
					   (ssize_t)sizeof(log_line),
				   "write a log");
	}
}

static void require_untouched(const int logs[LOGS])
{
	char text[2 * sizeof(log_line)];

	for (int i = 0; i < LOGS; i++) {
		test_child_require(pread(logs[i], text, sizeof(text), 0) ==
						   (ssize_t)sizeof(log_line) &&
					   memcmp(text, log_line, sizeof(log_line)) == 0,
				   "the log is as it was");
		test_child_require(fcntl(logs[i], F_GETFD) >= 0, "the log is open");
	}
}

static int be_a_daemon(void *arg)
{
	struct percpu_counter *first = NULL, *c = NULL;
	struct percpu_counter_array *a;
	struct percpu_stats *s;
	uint64_t out[2];
	int logs[LOGS];

	(void)arg;
	test_child_require(percpu_counter_create_in(region, &first) == 0, "first counter");
	test_child_require(percpu_region_set_root(region, 0, 0, percpu_counter_key(first)) == 0,
			   "root");
	close_all(logs);
	for (int i = 0; i < 3 * PER_CHUNK; i++)
		test_child_require(percpu_counter_create_in(region, &c) == 0, "a counter");
	test_child_require(percpu_counter_key(c) >> 40 > 3, "a chunk that is new");
	percpu_counter_add(first, 3);
	percpu_counter_add_slow(first, 4);
	percpu_counter_add(c, 5);
	test_child_require(percpu_counter_fetch(c) == 5, "count in the new chunk");
	test_child_require(percpu_counter_array_create_in(region, 1000, &a) == 0, "an array");
	percpu_counter_array_destroy(a);
	test_child_require(percpu_stats_create_in(region, sizeof(out), 1, 0, &s) == 0, "objects");
	update_both_ways(s);
	test_child_require(percpu_stats_snapshot(s, 0, 1, out) == 0 && out[0] == 2 && out[1] == 20,
			   "snapshot");
	require_untouched(logs);
	percpu_region_close(region);
	require_untouched(logs);
	return 0;
}

static void daemon_may_close_everything(void **state)
{
	struct percpu_counter *c;

	(void)state;
	test_in_child(be_a_daemon, NULL);
	assert_int_equal(percpu_counter_open(region, 0, &c), 0);
	assert_int_equal(percpu_counter_fetch(c), 7);
	/* The child added chunks, which are found here without a descriptor, too. */
	assert_int_equal(percpu_counter_create_in(region, &c), 0);
	assert_true(percpu_counter_key(c) >> 40 > 3);
}

/* Use the region in an empty root, as the user nobody: /sys and /proc are gone. */
static int be_in_jail(void *arg)
{
	struct percpu_counter *c = NULL;
	struct percpu_region *r;
	struct percpu_stats *s;
	uint64_t out[2];

	(void)arg;
	test_child_require(percpu_stats_create_in(region, sizeof(out), 1, 0, &s) == 0, "objects");
	if ((chroot(test_path("jail")) != 0 &&
	     (unshare(CLONE_NEWUSER) != 0 || chroot(test_path("jail")) != 0)) ||
	    chdir("/") != 0)
		return 77;
	(void)(setgid(65534) + setuid(65534));
	for (int i = 0; i < 2 * PER_CHUNK; i++)
		test_child_require(percpu_counter_create_in(region, &c) == 0, "a counter");
	percpu_counter_add(c, 5);
	test_child_require(percpu_counter_fetch(c) == 5, "it counts");
	update_both_ways(s);
	test_child_require(percpu_stats_fetch_zero(s, 0, 1, out) == 0 && out[1] == 20, "reset");
	test_child_require(percpu_region_create(NULL, &r) == 0 && r->cpus == region->cpus,
			   "the number of CPUs is remembered");
	return 0;
}

static void jail_takes_nothing_away(void **state)
{
	int status;

	(void)state;
	assert_int_equal(mkdir(test_path("jail"), 0755), 0);
	status = test_wait(test_fork(be_in_jail, NULL), 60);
	assert_int_equal(rmdir(test_path("jail")), 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		test_skip("not permitted: chroot()");
	assert_int_equal(status, 0);
}

static void regions_keep_no_descriptor(void **state)
{
	struct test_holding before, now;
	struct percpu_region *r, *s;
	int fd;

	(void)state;
	before = test_holding_now();
	fd = memfd_create("region", 0);
	assert_int_equal(test_region_new_fd(fd, NULL, &r), 0);
	assert_int_equal(percpu_region_open_fd(fd, 0, NULL, &s), 0);
	close(fd);
	now = test_holding_now();
	assert_int_equal(now.fds, before.fds);
	percpu_region_close(r);
	percpu_region_close(s);
}

static void failing_creation_leaves_the_file_empty(void **state)
{
	int fd = memfd_create("sealed", MFD_ALLOW_SEALING);
	struct percpu_region *r = NULL;
	struct stat st;

	(void)state;
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	assert_int_equal(test_region_new_fd(fd, NULL, &r), -EPERM);
	assert_null(r);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 0);
	close(fd);
}

/* Two processes allocate at once. No cell has two owners. */
enum { WORKERS = 2, CELLS = 3000 };
static uint64_t (*worker_keys)[CELLS];
static bool closing;

static int allocate(void *arg)
{
	uint64_t *keys = arg;
	struct percpu_counter *c;
	struct rlimit none;
	int logs[LOGS];

	if (closing) {
		close_all(logs);
	} else {
		getrlimit(RLIMIT_NOFILE, &none);
		none.rlim_cur = 3;
		test_child_require(setrlimit(RLIMIT_NOFILE, &none) == 0, "no descriptors");
	}
	for (int i = 0; i < CELLS; i++) {
		test_child_require(percpu_counter_create_in(region, &c) == 0, "a counter");
		keys[i] = percpu_counter_key(c);
		percpu_counter_add(c, 1);
		test_child_require(percpu_counter_fetch(c) == 1, "nobody else counts in it");
	}
	if (closing)
		require_untouched(logs);
	return 0;
}

static void allocate_at_a_time(bool close_first)
{
	struct percpu_counter *c;
	pid_t pid[WORKERS];

	worker_keys = test_share(WORKERS * sizeof(*worker_keys));
	closing = close_first;
	for (int i = 0; i < WORKERS; i++)
		pid[i] = test_fork(allocate, worker_keys[i]);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(test_wait(pid[i], 60), 0);
	for (int i = 0; i < WORKERS; i++)
		for (int k = 0; k < CELLS; k++) {
			assert_int_equal(percpu_counter_attach(region, worker_keys[i][k], &c), 0);
			assert_int_equal(percpu_counter_fetch_zero(c), 1); /* counted once */
		}
}

static void workers_without_descriptors_exclude_each_other(void **state)
{
	(void)state;
	allocate_at_a_time(false);
	allocate_at_a_time(true);
}

/* A limit has room for few chunks only; exceeding it would raise a fatal signal. */
static int grow_within_limit(void *arg)
{
	const struct rlimit limit = { 3 << 20, RLIM_INFINITY };
	struct percpu_counter *c;
	struct percpu_region *r;
	int e = 0;

	(void)arg;
	test_child_require(setrlimit(RLIMIT_FSIZE, &limit) == 0, "limit");
	test_child_require(test_region_new(test_path("limited"), NULL, &r) == 0, "create");
	while (e == 0)
		e = percpu_counter_create_in(r, &c);
	test_child_require(e == -ENOSPC, "the region is full");
	test_child_require(r->n == r->capacity, "it has grown as far as it may");
	percpu_region_close(r);
	unlink(test_path("limited"));
	return 0;
}

static void small_files_are_full_early(void **state)
{
	(void)state;
	if (percpu_status()->possible_cpus > 16)
		test_skip("a chunk is larger than the limit");
	test_in_child(grow_within_limit, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(daemon_may_close_everything, start, stop),
		cmocka_unit_test_setup_teardown(jail_takes_nothing_away, start, stop),
		cmocka_unit_test(regions_keep_no_descriptor),
		cmocka_unit_test(failing_creation_leaves_the_file_empty),
		cmocka_unit_test_setup_teardown(workers_without_descriptors_exclude_each_other,
						start, stop),
		cmocka_unit_test(small_files_are_full_early),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
