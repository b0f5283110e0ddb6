/* SPDX-License-Identifier: MIT */
/* test_region_memory.c - regions in the caller's memory: huge pages, a static buffer. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/percpu.h>
#include <percpu/zone.h>

#include "memory/memory.h"
#include "support.h"

#define CPUS 256
#define N 100

static _Alignas(PERCPU_REGION_MEMORY_ALIGN) char buffer[PERCPU_REGION_MEMORY_SIZE(CPUS) + 4096];

static struct percpu_region_options in_buffer(void)
{
	struct percpu_region_options o = { .size = sizeof(o), .memory = buffer };

	assert_int_equal(percpu_region_memory_size(NULL, &o.memory_size), 0);
	assert_true(o.memory_size < sizeof(buffer));
	return o;
}

static bool is_in(const void *memory, size_t size, const struct percpu_region *r, const void *cell)
{
	return (const char *)cell >= (const char *)memory &&
	       (const char *)cell < (const char *)memory + size && percpu_region_key(r, cell) != 0;
}

static void size_is_told(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o) };
	size_t size = 77, larger;

	(void)state;
	for (o.cpus = (uint32_t)percpu_status()->possible_cpus; o.cpus <= 1024; o.cpus *= 2) {
		assert_int_equal(percpu_region_memory_size(&o, &size), 0);
		assert_int_equal(size, PERCPU_REGION_MEMORY_SIZE(o.cpus));
		assert_int_equal(size % PERCPU_REGION_MEMORY_ALIGN, 0);
	}
	o.cpus = (uint32_t)percpu_status()->possible_cpus;
	o.lane_size = 1 << 20;
	assert_int_equal(percpu_region_memory_size(&o, &larger), 0);
	assert_true(larger > PERCPU_REGION_MEMORY_SIZE(o.cpus));
	o.cpus = PERCPU_MAX_CPUS;
	if (sizeof(void *) < 8)
		assert_int_equal(percpu_region_memory_size(&o, &larger), -ENOMEM);
	o.cpus = PERCPU_MAX_CPUS + 1;
	assert_int_equal(percpu_region_memory_size(&o, &larger), -E2BIG);
	o.size = 3;
	assert_int_equal(percpu_region_memory_size(&o, &larger), -EINVAL);
	assert_int_equal(percpu_region_memory_size(NULL, NULL), -EINVAL);
}

static void mistakes_are_refused(void **state)
{
	struct percpu_region_options o = in_buffer();
	const size_t size = o.memory_size;
	struct percpu_region *r = NULL;

	(void)state;
	o.memory_size = size - 1;
	assert_int_equal(percpu_region_create(&o, &r), -ENOSPC);
	o.memory_size = 0;
	assert_int_equal(percpu_region_create(&o, &r), -ENOSPC);
	o.memory_size = size;
	o.memory = buffer + 4096;
	assert_int_equal(percpu_region_create(&o, &r), -EINVAL);
	o.memory = NULL;
	assert_int_equal(percpu_region_create(&o, &r), -EINVAL);
	o.memory = buffer;
	assert_int_equal(test_region_new(test_path("memory"), &o, &r), -EINVAL);
	assert_int_equal(percpu_region_open(test_path("memory"),
					    PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, &o, &r),
			 -EINVAL);
	assert_int_equal(access(test_path("memory"), F_OK), -1);
	assert_null(r);
}

/* Count in objects of each kind, by sequences and by atomic additions. */
static void use(struct percpu_region *r, const void *memory, size_t size)
{
	struct percpu_zone_options zo = { .size = sizeof(zo), .region = r };
	struct percpu_counter_array *a;
	struct percpu_counter *c;
	struct percpu_compact *set;
	struct percpu_stats *s;
	struct percpu_zone *z;
	uint64_t one = 1, now;
	void *item;

	assert_int_equal(percpu_counter_create_in(r, &c), 0);
	assert_int_equal(percpu_counter_array_create_in(r, N, &a), 0);
	assert_int_equal(percpu_compact_create_in(r, N, &set), 0);
	assert_int_equal(percpu_stats_create_in(r, 8, N, 0, &s), 0);
	assert_int_equal(percpu_zone_create("in memory", 64, &zo, &z), 0);
	assert_int_equal(percpu_zone_alloc(z, 0, &item), 0);
	assert_true(is_in(memory, size, r, c) && is_in(memory, size, r, a->block.base) &&
		    is_in(memory, size, r, item));
	assert_int_equal(percpu_counter_fetch(c), 0);
	for (int i = 0; i < N; i++) {
		percpu_counter_inc(c);
		percpu_counter_array_add(a, (size_t)i, i);
		percpu_compact_add(set, (size_t)i, i);
		assert_int_equal(percpu_stats_update(s, (size_t)i, 0, &one, 1), 0);
	}
	percpu_counter_add_slow(c, 5);
	assert_int_equal(percpu_counter_fetch(c), N + 5);
	assert_int_equal(percpu_counter_fetch_zero(c), N + 5);
	assert_int_equal(percpu_counter_key(c), 0);
	for (int i = 0; i < N; i++) {
		assert_int_equal(percpu_counter_array_fetch(a, (size_t)i), i);
		assert_int_equal(percpu_compact_fetch(set, (size_t)i), i);
		assert_int_equal(percpu_stats_fetch(s, (size_t)i, 1, &now), 0);
		assert_int_equal(now, 1);
	}
	assert_int_equal(percpu_zone_free(z, item), 0);
	assert_int_equal(percpu_zone_reclaim(z), 0); /* the memory is the caller's */
	assert_int_equal(percpu_zone_destroy(z), 0);
	percpu_stats_destroy(s);
	percpu_compact_destroy(set);
	percpu_counter_array_destroy(a);
	percpu_counter_destroy(c);
}

/* All of the buffer is used, and nothing else. After that, it is the caller's again. */
static void a_buffer_is_used_and_left(void **state)
{
	struct percpu_region_options o = in_buffer();
	struct percpu_region *r;
	struct percpu_counter *c;
	int n = 0, e;

	(void)state;
	memset(buffer, 0xa5, sizeof(buffer));
	for (int round = 0; round < 2; round++) {
		assert_int_equal(percpu_region_create(&o, &r), 0);
		use(r, buffer, o.memory_size);
		for (n = 0; (e = percpu_counter_create_in(r, &c)) == 0 && n < PERCPU_LANE_SIZE; n++)
			percpu_counter_add(c, 9);
		assert_int_equal(e, -ENOSPC);
		assert_int_equal(n, PERCPU_LANE_SIZE / 8);
		percpu_region_close(r);
		for (size_t i = o.memory_size; i < sizeof(buffer); i++)
			assert_int_equal((unsigned char)buffer[i], 0xa5);
		memset(buffer, 0xa5, o.memory_size); /* not unmapped */
	}
}

static void huge_pages_are_used(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o), .lane_size = 1 << 18 };
	const size_t page = 2 << 20;
	struct percpu_counter_array *a;
	struct percpu_region *r;
	char *map;

	(void)state;
	assert_int_equal(percpu_region_memory_size(&o, &o.memory_size), 0);
	o.memory_size = (o.memory_size + page - 1) / page * page;
	map = mmap(NULL, o.memory_size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (map == MAP_FAILED) {
		print_message("no huge pages here: others\n");
		map = mmap(NULL, o.memory_size + page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_true(map != MAP_FAILED);
		map += -(uintptr_t)map % page;
	}
	o.memory = map;
	assert_int_equal(percpu_region_create(&o, &r), 0);
	assert_int_equal(percpu_counter_array_create_in(r, 1 << 15, &a), 0);
	assert_true(is_in(map, o.memory_size, r, a->block.base));
	percpu_counter_array_add(a, (1 << 15) - 1, 3);
	assert_int_equal(percpu_counter_array_fetch(a, (1 << 15) - 1), 3);
	percpu_counter_array_destroy(a);
	percpu_region_close(r);
	assert_int_equal(msync(map, page, MS_ASYNC), 0); /* still mapped */
}

/* Return whether the kernel was told about a mapping: " nh" to use no huge pages, " hg" to use
 * some. */
static bool has_advice(const void *at, const char *flag)
{
	unsigned long first = 0, end;
	char line[512];
	bool here = false, has = false;
	FILE *f = fopen("/proc/self/smaps", "re");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%lx-%lx ", &first, &end) == 2)
			here = first <= (uintptr_t)at && (uintptr_t)at < end;
		else if (here && strncmp(line, "VmFlags:", 8) == 0)
			has = strstr(line, flag) != NULL;
	}
	fclose(f);
	return has;
}

static bool has_small_pages(const void *at)
{
	return has_advice(at, " nh");
}

/* In short lanes, also those that all CPUs share, use takes a small page at a time. */
static void short_lanes_have_small_pages(void **state)
{
	const size_t cpus = percpu_status()->possible_cpus;
	struct percpu_counter *c;
	bool told;
	void *map;

	(void)state;
	map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(map != MAP_FAILED);
	told = madvise(map, 4096, MADV_NOHUGEPAGE) == 0 && has_small_pages(map);
	munmap(map, 4096);
	if (!told)
		test_skip("such pages are not told: by this kernel, or in qemu-user");
	assert_int_equal(percpu_counter_create(&c), 0);
	for (size_t lane = 0; lane <= 2 * cpus; lane++)
		assert_true(has_small_pages((char *)c + lane * PERCPU_STRIDE));
	percpu_counter_destroy(c);
}

/* Lanes of 4 MiB and more contain whole huge pages: docs/memory/memory.md. */
static void long_lanes_have_huge_pages(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o), .lane_size = 4 << 20 };
	const size_t half = 2 << 20;
	struct percpu_region *r;
	bool told;
	char *map;

	(void)state;
	map = mmap(NULL, half, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(map != MAP_FAILED);
	told = madvise(map, half, MADV_HUGEPAGE) == 0 && has_advice(map, " hg");
	munmap(map, half);
	if (!told)
		test_skip("such pages are not told: by this kernel, or in qemu-user");
	assert_int_equal(percpu_region_create(&o, &r), 0);
	for (uint32_t cpu = 0; cpu < r->cpus; cpu++)
		assert_true(has_advice(percpu_chunk_lane(r->chunks->at[0], cpu, half), " hg"));
	percpu_region_close(r);
}

static struct percpu_region *region;
static struct percpu_counter *counter;

static int count_in_child(void *arg)
{
	struct percpu_counter *c;

	(void)arg;
	percpu_counter_add(counter, 10);
	test_child_require(percpu_counter_fetch(counter) == 17, "a copy of the counts");
	test_child_require(percpu_counter_create_in(region, &c) == 0, "a counter");
	percpu_counter_add_slow(c, 1);
	test_child_require(percpu_counter_fetch(c) == 1, "count in it");
	percpu_region_close(region);
	return 0;
}

static void children_have_a_copy(void **state)
{
	struct percpu_region_options o = in_buffer();

	(void)state;
	assert_int_equal(percpu_region_create(&o, &region), 0);
	assert_int_equal(percpu_counter_create_in(region, &counter), 0);
	percpu_counter_add(counter, 7);
	assert_int_equal(test_wait(test_fork(count_in_child, NULL), 60), 0);
	assert_int_equal(percpu_counter_fetch(counter), 7);
	percpu_region_close(region);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(size_is_told),
		cmocka_unit_test(mistakes_are_refused),
		cmocka_unit_test(a_buffer_is_used_and_left),
		cmocka_unit_test(huge_pages_are_used),
		cmocka_unit_test(short_lanes_have_small_pages),
		cmocka_unit_test(long_lanes_have_huge_pages),
		cmocka_unit_test(children_have_a_copy),
	};

	if (percpu_status()->possible_cpus > CPUS)
		return 77;
	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
