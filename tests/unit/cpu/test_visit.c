/* SPDX-License-Identifier: MIT */
/*
 * test_visit.c - fences and snapshots between processes if sysfs or /proc is missing or wrong. A
 * CPU counts as fenced if it was visited, or is certainly offline. CPUs that do not exist do not
 * keep a process from a snapshot.
 *
 * The linker replaces percpu_pin(), which refuses CPUs as the kernel does in a cpuset. Others
 * are offline, according to the test.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/fence.h>
#include <percpu/stats.h>
#include <percpu/status.h>
#include <percpu/zone.h>

#include "memory/memory.h"
#include "support.h"
#include "jail.h"

bool test_of_first_use = true;

#define TIMEOUT UINT64_C(20000000000)
#define WORD 64 /* CPUs in the kernel's shortest mask */

int __real_percpu_pin(pid_t tid, unsigned cpu);
int __wrap_percpu_pin(pid_t tid, unsigned cpu);

static unsigned allowed = UINT32_MAX; /* number of CPUs in the cpuset */
static int pin_error = -EINVAL;

int __wrap_percpu_pin(pid_t tid, unsigned cpu)
{
	return cpu < allowed ? __real_percpu_pin(tid, cpu) : pin_error;
}

bool __real_percpu_cpu_online(unsigned cpu);
bool __wrap_percpu_cpu_online(unsigned cpu);

static unsigned online = UINT32_MAX; /* only so many CPUs can be online */

bool __wrap_percpu_cpu_online(unsigned cpu)
{
	return cpu < online && __real_percpu_cpu_online(cpu);
}

/* Facts from a process that could ask the kernel; and the shared file. */
static struct facts {
	unsigned possible;
	uint64_t key;
} * facts;
static int file;

static void require(int got, int want, const char *what)
{
	char text[128];

	snprintf(text, sizeof(text), "%s: %d, not %d", what, got, want);
	test_child_require(got == want, text);
}

/* Create a region with statistics, for so many CPUs. */
static int try_to_create(uint32_t cpus)
{
	struct percpu_region_options o = { .size = sizeof(o), .cpus = cpus };
	struct percpu_region *r;
	struct percpu_stats *s;
	int e = test_region_new_fd(file, &o, &r);

	if (e != 0)
		return e;
	require(percpu_stats_create_in(r, 16, 1, 0, &s), 0, "create");
	facts->key = percpu_stats_key(s);
	percpu_stats_add(s, 0, 1, 5);
	percpu_stats_detach(s);
	percpu_region_close(r);
	return 0;
}

static int try_to_read(void)
{
	uint64_t now[2] = { 0 };
	struct percpu_region *r;
	struct percpu_stats *s;
	int e;

	require(percpu_region_open_fd(file, PERCPU_REGION_WRITE, NULL, &r), 0, "open");
	require(percpu_stats_attach(r, facts->key, 16, 1, 0, &s), 0, "attach");
	percpu_stats_add(s, 0, 1, 5);
	e = percpu_stats_snapshot(s, 0, 1, now);
	if (e == 0)
		require((int)now[1], 10, "value");
	percpu_stats_detach(s);
	percpu_region_close(r);
	return e;
}

static int create_outside(void *arg)
{
	(void)arg;
	facts->possible = percpu_status()->possible_cpus;
	require(try_to_create(0), 0, "create");
	return 0;
}

static void with_file(int (*create)(void *arg), int (*fn)(void *arg))
{
	file = memfd_create("jail", MFD_CLOEXEC);
	assert_true(file >= 0);
	if (create != NULL)
		jail_run(create, NULL);
	jail_run(fn, NULL);
	close(file);
}

/* Without /sys, /proc has the same information. */

static int count_without_sys(void *arg)
{
	(void)arg;
	jail_enter();
	jail_hide("/sys");
	require((int)percpu_status()->possible_cpus, (int)facts->possible, "CPUs");
	require(try_to_create(0), 0, "create");
	require(try_to_read(), 0, "snapshot");
	require(percpu_fence_all(TIMEOUT, NULL), 0, "fence");
	return 0;
}

static void proc_is_enough(void **state)
{
	(void)state;
	with_file(NULL, create_outside);
	with_file(NULL, count_without_sys);
}

/* Without both, the creator of the region knows how many CPUs there are. */

static void enter_empty_jail(void)
{
	jail_enter();
	jail_hide("/sys");
	jail_hide("/proc");
}

static int read_in_empty_jail(void *arg)
{
	(void)arg;
	enter_empty_jail();
	test_child_require(percpu_status()->possible_cpus >= facts->possible, "lanes for all");
	require((int)(percpu_status()->possible_cpus - 1) / WORD, (int)(facts->possible - 1) / WORD,
		"and no more than the kernel's masks have room for");
	require(try_to_read(), 0, "snapshot");
	return 0;
}

static void regions_tell_how_many_cpus(void **state)
{
	(void)state;
	with_file(create_outside, read_in_empty_jail);
}

/* Without a region, the user tells how many CPUs there are. */

static int create_in_empty_jail(void *arg)
{
	(void)arg;
	enter_empty_jail();
	require(try_to_create(jail_highest()), -EINVAL, "too few for the CPUs it may use");
	require(try_to_create(facts->possible), 0, "create");
	require(try_to_read(), 0, "snapshot");
	return 0;
}

static int create_for_any(void *arg)
{
	(void)arg;
	enter_empty_jail();
	require(try_to_create(0), 0, "create");
	/* Some of its lanes are of CPUs that may be online. */
	require(try_to_read(), facts->possible % WORD == 0 ? 0 : -EPERM, "snapshot");
	return 0;
}

static void users_tell_how_many_cpus(void **state)
{
	(void)state;
	with_file(NULL, create_outside);
	with_file(NULL, create_in_empty_jail);
	with_file(NULL, create_for_any);
}

/* A container that may use CPU 0 alone, and sees no other one in sysfs. Its /proc may be the
 * kernel's. */

static int fence_in_container(void *arg)
{
	struct percpu_fence_report report;
	bool masked = arg != NULL;

	jail_enter();
	jail_fake("0\n", JAIL_POSSIBLE);
	jail_fake("0\n", JAIL_ONLINE);
	if (masked) {
		jail_mask("/proc/softirqs");
		jail_mask("/proc/interrupts");
	}
	test_child_require(test_pin(0, 0), "pin");
	allowed = 1;
	require(percpu_fence_all(TIMEOUT, &report), -EPERM, "fence");
	require((int)report.fenced, masked ? 1 : 1 + (int)(facts->possible - test_cpus()),
		"fenced");
	require((int)report.first_unfenced, 1, "the first that is not");
	return 0;
}

static void nobody_is_offline_who_is_not_listed(void **state)
{
	static int masked;

	(void)state;
	with_file(NULL, create_outside);
	jail_run(fence_in_container, NULL);
	jail_run(fence_in_container, &masked);
}

/* A process whose children are in another PID namespace cannot start threads. */

static int read_without_threads(void *arg)
{
	struct percpu_fence_report report;

	(void)arg;
	(void)percpu_selftest();
	jail_need(unshare(CLONE_NEWPID) == 0);
	require(percpu_fence_all(TIMEOUT, &report), -EAGAIN, "fence");
	require(try_to_read(), -EAGAIN, "snapshot");
	return 0;
}

static void no_thread_is_an_error(void **state)
{
	(void)state;
	with_file(create_outside, read_without_threads);
}

static int share_facts(void **state)
{
	(void)state;
	facts = test_share(sizeof(*facts));
	return 0;
}

/* Facts that the process knew before it went to jail. */

static int ask_before_and_inside(void *arg)
{
	const int possible = percpu_possible_cpus(NULL);
	uint32_t certain = 0;

	(void)arg;
	enter_empty_jail();
	require(percpu_possible_cpus(&certain), possible, "CPUs, as before");
	require((int)certain, possible, "certain");
	return 0;
}

/* Only the process's status can be read. */
static int ask_often(void *arg)
{
	struct test_holding before;

	(void)arg;
	jail_enter();
	jail_hide("/sys");
	jail_mask("/proc/softirqs");
	test_child_require(percpu_possible_cpus(NULL) > 0, "a guess");
	before = test_holding_now();
	(void)percpu_possible_cpus(NULL);
	require((int)test_holding_now().fds, (int)before.fds, "no file stays open");
	return 0;
}

static void what_is_known_stays_known(void **state)
{
	(void)state;
	jail_run(ask_before_and_inside, NULL);
	jail_run(ask_often, NULL);
}

/* A CPU that is offline has nothing to fence, and runs no function. */

static void count_call(void *cell, unsigned cpu, void *arg)
{
	unsigned *calls = arg;

	(void)cell;
	calls[cpu]++;
}

static int visit_offline(void *arg)
{
	unsigned calls[PERCPU_MAX_CPUS] = { 0 }, possible = percpu_status()->possible_cpus;
	struct percpu_fence_report report;
	struct percpu_zone *z;
	void *item;

	(void)arg;
	allowed = online = 1;
	require(percpu_fence_all(TIMEOUT, &report), 0, "fence");
	require((int)report.fenced, (int)possible, "fenced");
	require(percpu_zone_create("offline", 8, NULL, &z), 0, "zone");
	require(percpu_zone_alloc(z, 0, &item), 0, "item");
	require(percpu_zone_run(z, item, count_call, calls, TIMEOUT, &report), 0, "run");
	require((int)report.fenced, 1, "visited");
	require((int)report.unfenced, (int)possible - 1, "not visited");
	require((int)calls[0], 1, "calls");
	require((int)calls[1], 0, "calls on a CPU that is offline");
	return 0;
}

static void offline_cpus_run_nothing(void **state)
{
	(void)state;
	jail_run(visit_offline, NULL);
}

/* A process that cannot do the self-test has no verdict for its family. */

static int find_out_nothing(void *arg)
{
	(void)arg;
	pin_error = -EPERM;
	require((int)percpu_selftest(), PERCPU_SELFTEST_INCONCLUSIVE, "self-test");
	return 0;
}

static int rise_by_family(void *arg)
{
	uint32_t *proven = arg;

	while (!__atomic_load_n(proven, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	require((int)percpu_status()->selftest, PERCPU_SELFTEST_PASSED, "of the parent");
	return 0;
}

static int prove_for_family(void *arg)
{
	uint32_t *proven = test_share(sizeof(*proven));
	pid_t child;

	(void)arg;
	if (percpu_status()->selftest == PERCPU_SELFTEST_SKIPPED)
		return 0;
	test_child_require(percpu_status()->selftest == PERCPU_SELFTEST_PENDING, "pending");
	require(test_wait(test_fork(find_out_nothing, NULL), 30), 0, "a child");
	child = test_fork(rise_by_family, proven);
	allowed = UINT32_MAX;
	require((int)percpu_selftest(), PERCPU_SELFTEST_PASSED, "self-test");
	__atomic_store_n(proven, 1, __ATOMIC_RELEASE);
	require(test_wait(child, 60), 0, "another child");
	return 0;
}

static void verdicts_are_proven(void **state)
{
	(void)state;
	allowed = 0; /* the self-test is tried again until it has a CPU */
	test_in_child(prove_for_family, NULL);
	allowed = UINT32_MAX;
}

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* The boot id of a container's file may differ from that outside. */
static int tell_boots(void *arg)
{
	uint64_t boot = percpu_boot_id();

	(void)arg;
	jail_enter();
	jail_need(boot != 0);
	require(percpu_boot_id() == boot, true, "the same boot");
	jail_mask(BOOT_ID);
	require(percpu_boot_id() != 0, false, "a boot without a file");
	jail_fake("01234567-89ab-cdef-0123-456789abcdef\n", BOOT_ID);
	require(percpu_boot_id() != 0, false, "a boot by another file");
	jail_hide("/proc");
	require(percpu_boot_id() != 0, false, "a boot without /proc");
	return 0;
}

static void boots_are_told_by_the_kernel_alone(void **state)
{
	(void)state;
	jail_run(tell_boots, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proc_is_enough),
		cmocka_unit_test(regions_tell_how_many_cpus),
		cmocka_unit_test(users_tell_how_many_cpus),
		cmocka_unit_test(nobody_is_offline_who_is_not_listed),
		cmocka_unit_test(no_thread_is_an_error),
		cmocka_unit_test(what_is_known_stays_known),
		cmocka_unit_test(offline_cpus_run_nothing),
		cmocka_unit_test(verdicts_are_proven),
		cmocka_unit_test(boots_are_told_by_the_kernel_alone),
	};

	return cmocka_run_group_tests_name("jail", tests, share_facts, test_remove_paths);
}
