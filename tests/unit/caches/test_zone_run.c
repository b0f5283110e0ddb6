/* SPDX-License-Identifier: MIT */
/*
 * test_zone_run.c - functions that run on each CPU, and memory on the node of its CPU.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/status.h>
#include <percpu/zone.h>

#include "support.h"

#define SECOND 1000000000ULL

static struct percpu_zone *make(struct percpu_region *r)
{
	struct percpu_zone_options o = { .size = sizeof(o), .region = r };
	struct percpu_zone *z;

	assert_int_equal(percpu_zone_create("run", 8, &o, &z), 0);
	return z;
}

struct tally {
	unsigned calls[PERCPU_MAX_CPUS];
	unsigned elsewhere; /* calls on another CPU, or with another CPU's cell */
	void *item;
	unsigned sleep_us;
};

static void visit(void *cell, unsigned cpu, void *arg)
{
	struct tally *t = arg;

	t->calls[cpu]++;
	t->elsewhere += sched_getcpu() != (int)cpu || cell != percpu_zone_get(t->item, cpu);
	if (t->sleep_us != 0)
		test_sleep_us(t->sleep_us);
	*(uint64_t *)cell += cpu + 1;
}

static void function_runs_once_on_each_cpu(void **state)
{
	struct percpu_zone *z = make(NULL);
	struct percpu_fence_report r;
	struct tally t = { 0 };
	int e;

	(void)state;
	assert_int_equal(percpu_zone_alloc(z, PERCPU_ZONE_ZERO, &t.item), 0);
	e = percpu_zone_run(z, t.item, visit, &t, 10 * SECOND, &r);
	assert_true(e == 0 || e == -EPERM);
	assert_int_equal(r.fenced + r.unfenced, percpu_status()->possible_cpus);
	assert_true(r.fenced > 0);
	assert_int_equal(t.elsewhere, 0);
	for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++) {
		unsigned ran = !(r.unfenced_cpus[cpu / 64] >> cpu % 64 & 1);

		assert_int_equal(t.calls[cpu], ran);
		assert_int_equal(*(uint64_t *)percpu_zone_get(t.item, cpu), ran ? cpu + 1 : 0);
	}
	assert_int_equal(percpu_zone_free(z, t.item), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

/* The time may run out at any moment: the report says which calls were made. */
static void report_is_true_when_time_runs_out(void **state)
{
	struct percpu_zone *z = make(NULL);
	struct percpu_fence_report r;
	struct tally t = { .sleep_us = 200 };
	unsigned cpus = percpu_status()->possible_cpus, late = 0;
	int e;

	(void)state;
	assert_int_equal(percpu_zone_alloc(z, PERCPU_ZONE_ZERO, &t.item), 0);
	for (uint64_t ns = 1000; ns < 1000000; ns += ns / 16) {
		memset(t.calls, 0, sizeof(t.calls));
		e = percpu_zone_run(z, t.item, visit, &t, ns, &r);
		assert_true(e == 0 || e == -ETIMEDOUT || e == -EPERM);
		late += e == -ETIMEDOUT;
		for (unsigned cpu = 0; cpu < cpus; cpu++)
			assert_int_equal(t.calls[cpu],
					 !(r.unfenced_cpus[cpu / 64] >> cpu % 64 & 1));
	}
	assert_int_equal(t.elsewhere, 0);
	assert_true(late > 0);
	assert_int_equal(percpu_zone_free(z, t.item), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

static void bad_input_is_refused(void **state)
{
	struct percpu_zone *z = make(NULL);
	struct percpu_fence_report r = { .fenced = 7 };
	struct tally t = { 0 };

	(void)state;
	assert_int_equal(percpu_zone_alloc(z, 0, &t.item), 0);
	assert_int_equal(percpu_zone_run(NULL, t.item, visit, &t, SECOND, &r), -EINVAL);
	assert_int_equal(percpu_zone_run(z, NULL, visit, &t, SECOND, &r), -EINVAL);
	assert_int_equal(percpu_zone_run(z, t.item, NULL, &t, SECOND, &r), -EINVAL);
	assert_int_equal(percpu_zone_run(z, t.item, visit, &t, 0, &r), -EINVAL);
	assert_int_equal(r.fenced, 7);
	assert_int_equal(percpu_zone_free(z, t.item), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

/* Return the node of the CPU, or -1. */
static int node_of_cpu(unsigned cpu)
{
	char path[80];

	for (int node = 0; node < 64; node++) {
		(void)snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/node%d", cpu,
			       node);
		if (access(path, F_OK) == 0)
			return node;
	}
	return -1;
}

/* Return the node of the page at p, or a negative error number. */
static int node_of_page(const void *p)
{
	void *page = (void *)((uintptr_t)p & -(uintptr_t)sysconf(_SC_PAGESIZE));
	int status = -EIO;

	return syscall(SYS_move_pages, 0, 1UL, &page, NULL, &status, 0) == 0 ? status : -errno;
}

static void touch(void *cell, unsigned cpu, void *arg)
{
	(void)cpu;
	(void)arg;
	*(uint64_t *)cell += 1;
}

/* One CPU allocates, which reserves the pages of all CPUs. Then each CPU touches its page. */
static void copies_lie_on_the_node_of_their_cpu(void **state)
{
	const char *path = test_path("nodes");
	struct percpu_region *r;
	struct percpu_zone *z[2];
	void *item;

	(void)state;
	if (access("/sys/devices/system/node/node1", F_OK) != 0)
		test_skip("this machine has one NUMA node");
	assert_int_equal(test_region_new(path, NULL, &r), 0);
	z[0] = make(r);
	z[1] = make(NULL);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(percpu_zone_alloc(z[i], 0, &item), 0);
		assert_int_equal(percpu_zone_run(z[i], item, touch, NULL, 60 * SECOND, NULL), 0);
		for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++)
			assert_int_equal(node_of_page(percpu_zone_get(item, cpu)),
					 node_of_cpu(cpu));
		assert_int_equal(percpu_zone_free(z[i], item), 0);
		assert_int_equal(percpu_zone_destroy(z[i]), 0);
	}
	percpu_region_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(function_runs_once_on_each_cpu),
		cmocka_unit_test(report_is_true_when_time_runs_out),
		cmocka_unit_test(bad_input_is_refused),
		cmocka_unit_test(copies_lie_on_the_node_of_their_cpu),
	};

	return cmocka_run_group_tests_name("zone_run", tests, NULL, test_remove_paths);
}
