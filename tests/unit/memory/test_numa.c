/* SPDX-License-Identifier: MIT */
/*
 * test_numa.c - which lanes the kernel is told to keep on which NUMA node. The test pretends
 * that the machine has two nodes.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../src/counts/counts.h"
#include "support.h"
#include "syscalls.h"

#define CPUS 64
#define NOWHERE 99

static struct {
	uintptr_t start, end;
	unsigned node;
} told[64];
static unsigned times;

/* Node 1 has CPUs in two ranges, and some that the region has no lanes for. The list of node 2
 * cannot be read. Linux has no nodes from 1024 on. */
bool __wrap_percpu_read_list(const char *path, char *buf, size_t size);
bool __wrap_percpu_read_list(const char *path, char *buf, size_t size)
{
	static const char *const lists[][2] = {
		{ "/sys/devices/system/node/has_cpu", "0-2,1023-1030\n" },
		{ "/sys/devices/system/node/node0/cpulist", "0-3,8-11\n" },
		{ "/sys/devices/system/node/node1/cpulist", "4-7,12,40-200,300-310\n" },
		{ "/sys/devices/system/node/node1023/cpulist", "13\n" },
		{ "/sys/devices/system/node/node1024/cpulist", "14\n" },
	};

	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (strcmp(path, lists[i][0]) == 0 && strlen(lists[i][1]) < size) {
			strcpy(buf, lists[i][1]);
			return true;
		}
	return false;
}

static unsigned first_bit(const unsigned long *mask)
{
	const unsigned bits = 8 * sizeof(*mask);
	unsigned word = 0;

	while (mask[word] == 0)
		word++;
	return word * bits + (unsigned)__builtin_ctzl(mask[word]);
}

bool syscall_is_answered(long number, const long a[6], long *ret)
{
	if (number != SYS_mbind)
		return false;
	if (times < sizeof(told) / sizeof(told[0])) {
		told[times].start = (uintptr_t)a[0];
		told[times].end = (uintptr_t)(a[0] + a[1]);
		told[times].node = first_bit((const unsigned long *)a[3]);
	}
	times++;
	*ret = 0;
	return true;
}

/* Return the node of this byte, or NOWHERE. */
static unsigned node_of(const char *byte)
{
	unsigned node = NOWHERE;

	for (unsigned i = 0; i < times; i++)
		if ((uintptr_t)byte >= told[i].start && (uintptr_t)byte < told[i].end) {
			assert_int_equal(node, NOWHERE);
			node = told[i].node;
		}
	return node;
}

static unsigned node_of_cpu(unsigned cpu)
{
	if (cpu < 4 || (cpu >= 8 && cpu < 12))
		return 0;
	if (cpu == 13)
		return 1023;
	return cpu < 8 || cpu == 12 || cpu >= 40 ? 1 : NOWHERE;
}

static void lanes_are_where_their_cpus_are(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o), .cpus = CPUS };
	int fd = memfd_create("place", MFD_CLOEXEC);
	const size_t page = percpu_page_size();
	struct percpu_region *r;
	struct percpu_chunk *k;

	(void)state;
	if (percpu_status()->possible_cpus > CPUS)
		test_skip("too many CPUs");
	assert_int_equal(test_region_new_fd(fd, &o, &r), 0);
	close(fd);
	k = r->first;
	assert_in_range(times, 1, sizeof(told) / sizeof(told[0]));
	for (unsigned cpu = 0; cpu < CPUS; cpu++)
		for (unsigned atomic = 0; atomic < 2; atomic++) {
			const char *lane = percpu_chunk_lane(k, atomic * CPUS + cpu, 0);

			/* The begin of a lane that is in another lane's last page goes with that
			 * one. */
			assert_int_equal(node_of(lane + page), node_of_cpu(cpu));
			assert_int_equal(node_of(lane + k->lane_size - page), node_of_cpu(cpu));
		}
	assert_int_equal(node_of(percpu_chunk_lane(k, 2 * CPUS, page)), NOWHERE);
	percpu_region_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes_are_where_their_cpus_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
