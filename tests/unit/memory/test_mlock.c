/* SPDX-License-Identifier: MIT */
/*
 * test_mlock.c - regions of programs that have locked their memory, with mlockall(2): lanes of
 * CPUs are in memory, and atomic lanes take what is used of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/segment.h>

#include "support.h"

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif

#define CPUS 64
#define LANE ((size_t)256 * 1024)
#define SKIPPED 77
#define SOMEBODY 12345 /* who may lock no more than the limit */

static bool not_told; /* which pages are in memory */

int __real_mincore(void *at, size_t size, unsigned char *ret);
int __wrap_mincore(void *at, size_t size, unsigned char *ret);
int __wrap_mincore(void *at, size_t size, unsigned char *ret)
{
	if (!not_told)
		return __real_mincore(at, size, ret);
	errno = EAGAIN;
	return -1;
}

static void require(size_t got, size_t want, const char *what)
{
	char text[128];

	snprintf(text, sizeof(text), "%s: %zu pages, not %zu", what, got, want);
	test_child_require(got == want, text);
}

/* Return how many whole pages there are between these addresses, and how many of these are in
 * memory. */
static size_t pages(const char *first, const char *last, size_t *ret_resident)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = ((uintptr_t)first + page - 1) / page * page;
	size_t n = ((uintptr_t)last / page * page - start) / page;
	unsigned char *in_memory = malloc(n);

	*ret_resident = 0;
	if (in_memory == NULL || mincore((void *)start, n * page, in_memory) != 0) {
		test_child_require(false, "mincore");
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		*ret_resident += in_memory[i] & 1;
	free(in_memory);
	return n;
}

/* Pages of the CPU lanes, of the atomic ones but the first, and of the bias, and those in
 * memory. */
struct lanes {
	size_t cpu, cpu_resident, atomic, atomic_resident, bias, bias_resident;
};

static struct lanes look_at_lanes(const char *lane, size_t lane_size, size_t stride)
{
	struct lanes l = { 0 };
	size_t resident;

	for (size_t i = 0; i < 2 * CPUS; i++, lane += stride) {
		if (i < CPUS) {
			l.cpu += pages(lane, lane + lane_size, &resident);
			l.cpu_resident += resident;
		} else if (i > CPUS) {
			l.atomic += pages(lane, lane + lane_size, &resident);
			l.atomic_resident += resident;
		}
	}
	l.bias = pages(lane, lane + lane_size, &l.bias_resident);
	return l;
}

static void lock_memory(int flags)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), resident;
	char *map;

	if (mlockall(MCL_FUTURE | flags) != 0)
		_exit(SKIPPED);
	map = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		_exit(SKIPPED);
	(void)pages(map, map + 4 * page, &resident);
	if (resident != (flags & MCL_ONFAULT ? 0 : 4)) /* under an emulator */
		_exit(SKIPPED);
	if (syscall(SYS_mlock2, map, page, 1) != 0 && errno == ENOSYS)
		_exit(SKIPPED);
}

static bool is_locked(const char *cell)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	return msync((void *)((uintptr_t)cell / page * page), page, MS_INVALIDATE) != 0 &&
	       errno == EBUSY;
}

static struct percpu_region *make_region(bool shared, size_t lane_size)
{
	struct percpu_region_options o = { .size = sizeof(o),
					   .lane_size = lane_size,
					   .cpus = CPUS };
	int fd = shared ? memfd_create("pin", MFD_CLOEXEC) : -1;
	struct percpu_region *r;
	int e = shared ? test_region_new_fd(fd, &o, &r) : percpu_region_create(&o, &r);

	if (e == -EINVAL)
		_exit(SKIPPED); /* there are more CPUs */
	test_child_require(e == 0, "create a region");
	if (shared)
		close(fd);
	return r;
}

static int use_region(void *arg)
{
	bool shared = *(bool *)arg;
	struct percpu_counter_array *a;
	struct percpu_region *r;
	struct lanes l;

	lock_memory(0);
	r = make_region(shared, LANE);
	test_child_require(percpu_counter_array_create_in(r, 8, &a) == 0, "create");
	l = look_at_lanes(a->block.base, LANE, a->block.stride);
	require(l.cpu_resident, l.cpu, "CPU lanes");
	require(l.atomic_resident, 0, "atomic lanes");
	require(l.bias_resident, l.bias, "bias lane");
	test_child_require(is_locked(a->block.base), "CPU lanes are locked");
	test_child_require(is_locked(a->block.base + (CPUS + 1) * a->block.stride),
			   "atomic lanes, too");
	/* Without a sequence, an add touches a page of an atomic lane. */
	test_pin(0, test_cpu(test_cpus() - 1));
	(void)test_unregister(percpu_seq_attach());
	percpu_counter_array_add(a, 1, 3);
	test_child_require(percpu_counter_array_fetch(a, 1) == 3, "exact");
	if (!shared) {
		l = look_at_lanes(a->block.base, LANE, a->block.stride);
		test_child_require(l.atomic_resident <= 1, "a page of an atomic lane");
	}
	return 0;
}

/* Use another chunk, whose mapping is extended from one page of the file. */
static int use_grown_region(void *arg)
{
	struct percpu_region *r;
	void *cell[2];
	struct lanes l;

	(void)arg;
	r = make_region(true, 0);
	test_child_require(percpu_region_alloc(r, PERCPU_LANE_SIZE, 8, &cell[0]) == 0, "first");
	lock_memory(MCL_CURRENT);
	test_child_require(percpu_region_alloc(r, 8, 8, &cell[1]) == 0, "second");
	l = look_at_lanes(cell[1], PERCPU_LANE_SIZE, PERCPU_STRIDE);
	require(l.cpu_resident, l.cpu, "CPU lanes");
	require(l.atomic_resident, 0, "atomic lanes");
	require(l.bias_resident, l.bias, "bias lane");
	test_child_require(is_locked(cell[1]), "CPU lanes are locked");
	return 0;
}

/* Run as a program that wants no page before it is touched. */
static int use_on_touch(void *arg)
{
	struct percpu_counter_array *a;
	struct percpu_region *r;
	struct lanes l;

	(void)arg;
	lock_memory(MCL_ONFAULT);
	r = make_region(false, LANE);
	test_child_require(percpu_counter_array_create_in(r, 8, &a) == 0, "create");
	percpu_counter_array_add(a, 0, 1);
	l = look_at_lanes(a->block.base + 65536, LANE - 65536, a->block.stride);
	require(l.cpu_resident, 0, "CPU lanes");
	require(l.atomic_resident, 0, "atomic lanes");
	return 0;
}

static void run(int (*fn)(void *arg), void *arg)
{
	int status;

	if (test_address_sanitizer() || test_thread_sanitizer())
		test_skip("sanitizers map more than can be locked");
	status = test_wait(test_fork(fn, arg), 60);
	if (status == SKIPPED << 8)
		test_skip("not permitted, or not to be had: mlockall(2)");
	assert_int_equal(status, 0);
}

static void atomic_lanes_take_what_is_used(void **state)
{
	bool shared = false;

	(void)state;
	run(use_region, &shared);
	shared = true;
	run(use_region, &shared);
}

static void so_do_those_of_further_chunks(void **state)
{
	(void)state;
	run(use_grown_region, NULL);
}

static void all_lanes_do_if_asked(void **state)
{
	(void)state;
	run(use_on_touch, NULL);
}

static int use_untold(void *arg)
{
	struct percpu_counter_array *a;
	struct percpu_region *r;

	(void)arg;
	not_told = true;
	r = make_region(false, LANE);
	test_child_require(percpu_counter_array_create_in(r, 8, &a) == 0, "create");
	percpu_counter_array_add(a, 1, 3);
	test_child_require(percpu_counter_array_fetch(a, 1) == 3, "exact");
	test_child_require(!is_locked(a->block.base), "CPU lanes are not locked");
	return 0;
}

/* mincore(2) is refused, by a filter of system calls or for want of memory. */
static void nothing_is_locked_unless_told(void **state)
{
	(void)state;
	run(use_untold, NULL);
}

/* Let the process lock a page more than it has locked, and no further one. */
static void limit_locked_memory(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	struct rlimit l = { 0 };
	unsigned long kib = 0;
	char line[256];

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		(void)sscanf(line, "VmLck: %lu", &kib);
	if (f == NULL || kib == 0)
		_exit(SKIPPED);
	fclose(f);
	l.rlim_cur = l.rlim_max = kib * 1024 + (size_t)sysconf(_SC_PAGESIZE);
	if (setrlimit(RLIMIT_MEMLOCK, &l) != 0 || (geteuid() == 0 && setuid(SOMEBODY) != 0))
		_exit(SKIPPED);
}

static int close_at_the_limit(void *arg)
{
	const struct percpu_metric m = { .size = sizeof(m), .name = "a_total" };
	int fd = memfd_create("pin", MFD_CLOEXEC), ends[2];
	struct percpu_segment *s = NULL;
	struct percpu_counter *c = NULL;

	(void)arg;
	lock_memory(0);
	test_child_require(percpu_segment_open_fd(fd, PERCPU_SEGMENT_CREATE | PERCPU_SEGMENT_DEBUG,
						  NULL, &s) == 0,
			   "open");
	test_child_require(percpu_segment_counter(s, &m, &c) == 0, "declare");
	test_child_require(pipe2(ends, O_CLOEXEC) == 0, "pipe");
	limit_locked_memory();
	test_child_require(write(ends[1], c, 1) == 1, "the counter can be read");
	percpu_segment_close(s);
	test_child_require(write(ends[1], c, 1) < 0 && errno == EFAULT, "it cannot any more");
	return 0;
}

/* A closed segment of the debug mode leaves a mapping, which counts as locked. */
static void closed_segments_need_no_higher_limit(void **state)
{
	(void)state;
	run(close_at_the_limit, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(atomic_lanes_take_what_is_used),
		cmocka_unit_test(so_do_those_of_further_chunks),
		cmocka_unit_test(all_lanes_do_if_asked),
		cmocka_unit_test(nothing_is_locked_unless_told),
		cmocka_unit_test(closed_segments_need_no_higher_limit),
	};

	return cmocka_run_group_tests_name("pin", tests, NULL, NULL);
}
