/* SPDX-License-Identifier: MIT */
/*
 * test_hotplug.c - a CPU goes offline and comes back while threads count on it. The counts of that
 * CPU stay, and fences still end.
 *
 * The test changes the whole machine, so it runs only with PERCPU_TEST_HOTPLUG=1, as in the
 * emulated machines of tests/systems.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/fence.h>
#include <percpu/stats.h>
#include <percpu/zone.h>

#include "../support.h"

#define TIMES 10
#define FENCES 3
#define FENCE_NS UINT64_C(1000000000000) /* each of up to 64 CPUs gets an equal share */
#define SNAPSHOTS 10

static struct percpu_region *region;
static struct percpu_counter *counter;
static struct percpu_stats *stats; /* an object of two fields, in a shared region */
static struct percpu_zone *zone;
static unsigned cpu; /* the CPU that goes offline */
static bool stop;
static uint64_t counted, failed; /* atomic */
static uint32_t *fences;	 /* how many were tried; atomic, shared with the child */

static bool set_online(bool on)
{
	char path[64];
	bool done;
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	done = fd >= 0 && write(fd, on ? "1" : "0", 1) == 1;
	if (fd >= 0)
		close(fd);
	return done;
}

/* Return whether the test lives, and has tried fewer than FENCES fences: each may take seconds. */
static bool is_wanted(pid_t test)
{
	return getppid() == test && __atomic_load_n(fences, __ATOMIC_RELAXED) < FENCES;
}

/* Take the CPU offline and bring it back. This process does not die with the test, so that the CPU
 * comes back even if the test is killed. */
static int flicker(void *arg)
{
	const pid_t *test = arg;
	bool done = true;

	prctl(PR_SET_PDEATHSIG, 0);
	for (int i = 0; i < TIMES || is_wanted(*test); i++) {
		done &= set_online(false);
		test_sleep_us(50000);
		done &= set_online(true);
		test_sleep_us(50000);
	}
	return !done;
}

static void count(unsigned i, void *arg)
{
	const uint64_t ones[2] = { 1, 1 };
	uint64_t n = 0, wrong = 0;
	void *item;

	(void)arg;
	for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
		percpu_counter_add(counter, 1);
		wrong += percpu_stats_update(stats, 0, 0, ones, 2) != 0;
		wrong +=
			percpu_zone_alloc(zone, 0, &item) != 0 || percpu_zone_free(zone, item) != 0;
		if (n % 256 == 0) /* fails while the CPU is offline */
			test_pin(0, n / 256 % 2 ? cpu : test_cpu(i % test_cpus()));
	}
	__atomic_fetch_add(&counted, n, __ATOMIC_RELAXED);
	__atomic_fetch_add(&failed, wrong, __ATOMIC_RELAXED);
}

/* Fence, and take a snapshot. Return what is wrong, or NULL. percpu_fence_all() may return -EPERM
 * while the CPU goes offline: no thread can move there, but the CPU is still listed as online. A
 * snapshot may exceed the library's time limit; then the next one fences first. */
static const char *fence(void)
{
	static char what[128];
	struct percpu_fence_report report;
	uint64_t out[2];
	int e;

	if (percpu_fence() != 0)
		return "no fence";
	e = percpu_fence_all(FENCE_NS, &report);
	if (e != 0 && (e != -EPERM || report.unfenced != 1 || report.first_unfenced != cpu)) {
		snprintf(what, sizeof(what), "a fence %s: error %d, %u CPUs, the first is %u",
			 e == -ETIMEDOUT ? "gave up" : "of all processes failed", -e,
			 report.unfenced, report.first_unfenced);
		return what;
	}
	e = percpu_stats_snapshot(stats, 0, 1, out);
	if (e != 0)
		return e == -EPERM || e == -ETIMEDOUT ? NULL : "no snapshot";
	return out[0] == out[1] ? NULL : "a snapshot of a part";
}

/* Fence until the child has ended, after which the CPU stays online. */
static const char *fence_many(pid_t pid)
{
	const char *wrong = NULL;

	while (!test_has_ended(pid)) {
		if (wrong == NULL)
			wrong = fence();
		else
			test_sleep_us(1000);
		__atomic_fetch_add(fences, 1, __ATOMIC_RELAXED);
	}
	return wrong;
}

static void nothing_is_lost_with_a_cpu(void **state)
{
	const char *permitted = getenv("PERCPU_TEST_HOTPLUG");
	struct test_team team;
	const char *wrong;
	uint64_t out[2];
	pid_t test = getpid(), pid;
	int e = -ETIMEDOUT;

	(void)state;
	cpu = test_cpu(test_cpus() - 1);
	if (!permitted || permitted[0] != '1')
		test_skip("takes a CPU offline; set PERCPU_TEST_HOTPLUG=1");
	if (test_cpus() < 2 || !set_online(true))
		test_skip("no CPU can be taken offline");
	fences = test_share(sizeof(*fences));
	test_team_start(&team, 4, count, NULL);
	pid = test_fork(flicker, &test);
	wrong = fence_many(pid);
	assert_int_equal(test_wait(pid, 60), 0);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	test_team_join(&team);
	if (wrong)
		fail_msg("%s", wrong);
	assert_int_equal(failed, 0);
	assert_int_equal(percpu_counter_fetch(counter), counted);
	for (unsigned i = 0; i < SNAPSHOTS && e == -ETIMEDOUT; i++)
		e = percpu_stats_snapshot(stats, 0, 1, out);
	assert_int_equal(e, 0);
	assert_int_equal(out[0], counted);
	assert_int_equal(out[1], counted);
}

static int create(void **state)
{
	int fd = memfd_create("hotplug", MFD_CLOEXEC), e;

	(void)state;
	e = test_region_new_fd(fd, NULL, &region);
	close(fd);
	if (e == 0)
		e = percpu_stats_create_in(region, sizeof(uint64_t[2]), 1, 0, &stats);
	if (e == 0)
		e = percpu_counter_create(&counter);
	return e ? e : percpu_zone_create("hotplug", 64, NULL, &zone);
}

static int destroy(void **state)
{
	(void)state;
	percpu_counter_destroy(counter);
	percpu_stats_destroy(stats);
	percpu_region_close(region);
	return percpu_zone_destroy(zone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_lost_with_a_cpu, create, destroy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
