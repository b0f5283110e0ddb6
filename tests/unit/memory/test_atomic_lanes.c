/* SPDX-License-Identifier: MIT */
/*
 * test_atomic_lanes.c - atomic lanes on a machine with more CPUs than this one: which of them a
 * thread takes, what is reserved for it in a file, and which calls read it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/counter.h>
#include <percpu/local.h>
#include <percpu/stats.h>

#include "counts/counts.h"
#include "faults.h"
#include "support.h"

#define LANES 512

static int pretended; /* the CPU that the thread seems to be on */

int __wrap_sched_getcpu(void);
int __wrap_sched_getcpu(void)
{
	return pretended;
}

static struct percpu_region *region;
static struct percpu_chunk *chunk;
static ptrdiff_t libc_offset; /* of the area with the real number */

static int start(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o), .cpus = LANES };
	int fd = memfd_create("lanes", MFD_CLOEXEC), e;

	(void)state;
	if (percpu_status()->possible_cpus > LANES)
		o.cpus = percpu_status()->possible_cpus;
	libc_offset = percpu_libc_offset != 0 ? percpu_libc_offset : libc_offset;
	percpu_libc_offset = 0; /* so that the pretended number is used */
	pretended = 0;
	e = test_region_new_fd(fd, &o, &region);
	close(fd);
	if (e != 0)
		return e;
	chunk = region->first;
	return 0;
}

static int stop(void **state)
{
	(void)state;
	(void)fault_clear();
	percpu_region_close(region);
	return 0;
}

static bool has_own_lanes(void)
{
	return test_tier() > PERCPU_TIER_SHARED;
}

static uint64_t atomic_cell(uint32_t lane, size_t offset)
{
	return *(uint64_t *)percpu_chunk_lane(chunk, chunk->cpus + lane, offset);
}

static bool in_use(uint32_t lane)
{
	return chunk->header->atomic_lanes[lane / 64] >> (lane % 64) & 1;
}

static unsigned lanes_in_use(void)
{
	unsigned n = 0;

	for (uint32_t word = 0; word < PERCPU_MAX_CPUS / 64; word++)
		n += (unsigned)__builtin_popcountll(chunk->header->atomic_lanes[word]);
	return n;
}

/* Count the pages that a lane has for itself, and those of them that the file has. */
static void count_pages(size_t lane, size_t *ret_all, size_t *ret_there)
{
	const size_t page = percpu_page_size();
	uintptr_t first = (uintptr_t)percpu_chunk_lane(chunk, lane, 0);
	uintptr_t last = (first + chunk->lane_size) / page * page;
	unsigned char there;

	*ret_all = *ret_there = 0;
	for (first = (first + page - 1) / page * page; first != last; first += page) {
		assert_int_equal(mincore((void *)first, 1, &there), 0);
		*ret_there += there & 1;
		++*ret_all;
	}
}

static bool is_reserved(size_t lane)
{
	size_t all, there;

	count_pages(lane, &all, &there);
	return there == all;
}

static bool is_untouched(size_t lane)
{
	size_t all, there;

	count_pages(lane, &all, &there);
	return there == 0;
}

static void each_cpu_takes_its_lane(void **state)
{
	static const int cpus[] = { 1, 63, 64, 70, 127, 0, -1, PERCPU_MAX_CPUS, INT32_MAX };
	struct percpu_counter *c;
	uint64_t sum = 0;
	size_t offset;
	uint32_t lane;

	(void)state;
	if (!has_own_lanes())
		test_skip("this tier does not know its CPU");
	assert_int_equal(percpu_counter_create_in(region, &c), 0);
	offset = (size_t)((char *)c - chunk->base);
	for (unsigned i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++) {
		uint64_t before;

		pretended = cpus[i];
		lane = cpus[i] > 0 && cpus[i] < LANES ? (uint32_t)cpus[i] : 0;
		before = atomic_cell(lane, offset);
		percpu_chunk_add_atomic(chunk, offset, 3 + (int)i);
		sum += 3 + i;
		assert_true(in_use(lane));
		assert_int_equal(atomic_cell(lane, offset) - before, 3 + i);
		assert_int_equal(lanes_in_use(), i < 5 ? i + 1 : 6);
		assert_int_equal(percpu_counter_fetch(c), sum);
	}
	assert_int_equal(percpu_counter_fetch_zero(c), sum);
	assert_int_equal(percpu_counter_fetch(c), 0);
}

/* A lane is reserved as a whole, so that adds do not find the disk full. */
static void lanes_are_reserved_whole(void **state)
{
	void *cell;

	(void)state;
	if (!has_own_lanes())
		test_skip("this tier does not know its CPU");
	assert_int_equal(percpu_region_alloc(region, 8, 8, &cell), 0);
	assert_true(is_untouched(chunk->cpus + 70));
	pretended = 70;
	percpu_chunk_add_atomic(chunk, (size_t)((char *)cell - chunk->base), 1);
	assert_true(is_reserved(chunk->cpus + 70));
	assert_true(is_untouched(chunk->cpus + 69));
	assert_true(is_untouched(chunk->cpus + 71));
	assert_false(is_reserved(70));
}

/* A lane is reserved once, and not at each add: the disk may be full by then. */
static void lanes_are_reserved_once(void **state)
{
	uint32_t lane;

	(void)state;
	if (!has_own_lanes())
		test_skip("this tier does not know its CPU");
	pretended = 70;
	lane = percpu_chunk_choose_lane(chunk);
	assert_int_equal(lane, chunk->cpus + 70);
	fault_set(FAULT_FUTEX_TOUCH, 0, EFAULT, true);
	for (int i = 0; i < 3; i++)
		assert_int_equal(percpu_chunk_choose_lane(chunk), lane);
	assert_int_equal(fault_clear(), 0);
}

/* On the lowest tier all threads add to one lane, even if this CPU's lane is marked as used. */
static void threads_share_a_lane_on_the_lowest_tier(void **state)
{
	const uint32_t cpu = test_cpu(test_cpus() - 1);
	const bool was = percpu_tier_is_shared;
	struct percpu_counter *c;
	size_t offset;

	(void)state;
	if (libc_offset == 0 || cpu == 0)
		test_skip("libc tells no other CPU");
	assert_int_equal(percpu_counter_create_in(region, &c), 0);
	offset = (size_t)((char *)c - chunk->base);
	chunk->header->atomic_lanes[cpu / 64] |= UINT64_C(1) << (cpu % 64);
	assert_true(test_pin(0, cpu));
	percpu_libc_offset = libc_offset;
	percpu_tier_is_shared = true;
	pretended = (int)cpu;
	for (int i = 0; i < 2; i++)
		percpu_chunk_add_atomic(chunk, offset, 5);
	percpu_tier_is_shared = was;
	percpu_libc_offset = 0;
	test_unpin(0);
	assert_int_equal(atomic_cell(cpu, offset), 0);
	assert_int_equal(atomic_cell(0, offset), 10);
	assert_int_equal(percpu_counter_fetch(c), 10);
}

/* Cells are reserved where they may be added to: in the lanes of CPUs, in atomic lane 0 and
 * those that are in use, and in the bias lane. */
static void cells_are_reserved(void **state)
{
	const uint32_t n = chunk->cpus;
	void *cell;

	(void)state;
	assert_int_equal(percpu_region_alloc(region, PERCPU_LANE_SIZE, 64, &cell), 0);
	for (uint32_t lane = 0; lane <= n; lane++)
		assert_true(is_reserved(lane));
	for (uint32_t lane = 1; lane < n; lane++)
		assert_true(is_untouched(n + lane));
	assert_true(is_reserved(2 * (size_t)n));
	if (!has_own_lanes())
		return;
	pretended = 70;
	percpu_chunk_add_atomic(chunk, 0, 0);
	assert_int_equal(percpu_region_free(region, cell, PERCPU_LANE_SIZE), 0);
	percpu_region_reclaim(region);
	if (!is_untouched(0))
		test_skip("madvise() gives no page back here, as in qemu-user");
	for (uint32_t lane = 0; lane <= 2 * n; lane++)
		assert_true(is_untouched(lane));
	assert_int_equal(percpu_region_alloc(region, PERCPU_LANE_SIZE, 64, &cell), 0);
	assert_true(is_reserved(n + 70));
	assert_true(is_untouched(n + 71));
}

/* An object that is longer in the bias lane is reserved with its shorter length in the lanes of
 * CPUs. */
static void narrow_objects_are_reserved_where_they_are(void **state)
{
	const uint32_t n = chunk->cpus;
	void *cell;

	(void)state;
	chunk->header->atomic_lanes[70 / 64] |= UINT64_C(1) << (70 % 64);
	assert_int_equal(percpu_region_alloc_narrow(region, PERCPU_LANE_SIZE, 8, 64, &cell), 0);
	for (uint32_t lane = 0; lane < n; lane++)
		assert_false(is_reserved(lane));
	assert_true(is_reserved(n));
	assert_true(is_reserved(n + 70));
	assert_true(is_reserved(2 * (size_t)n));
}

/* If there is no room for another lane, the add goes to atomic lane 0. */
static void full_disk_leaves_lane_0(void **state)
{
	struct percpu_counter *c;
	size_t offset;

	(void)state;
	if (!has_own_lanes())
		test_skip("this tier does not know its CPU");
	assert_int_equal(percpu_counter_create_in(region, &c), 0);
	offset = (size_t)((char *)c - chunk->base);
	pretended = 70;
	errno = 4711;
	fault_set(FAULT_FUTEX_TOUCH, 0, EFAULT, true);
	percpu_chunk_add_atomic(chunk, offset, 5);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(errno, 4711);
	assert_false(in_use(70));
	assert_true(in_use(0));
	assert_int_equal(atomic_cell(0, offset), 5);
	assert_int_equal(percpu_counter_fetch(c), 5);
	percpu_chunk_add_atomic(chunk, offset, 6);
	assert_int_equal(atomic_cell(70, offset), 6);
	assert_int_equal(percpu_counter_fetch(c), 11);
}

/* No chunk is added when the disk is full: a chunk would need more than the cells. */
static void full_disk_adds_no_chunk(void **state)
{
	void *cell = NULL;

	(void)state;
	fault_set(FAULT_FUTEX_TOUCH, 0, EFAULT, false);
	assert_int_equal(percpu_region_alloc(region, 8, 8, &cell), -ENOSPC);
	assert_int_equal(fault_clear(), 1);
	assert_null(cell);
	assert_int_equal(region->n, 1);
	assert_int_equal(percpu_region_alloc(region, 8, 8, &cell), 0);
}

/* Errors other than of a full disk are returned. If the kernel refuses to reserve many pages by
 * one call, they are reserved one by one. */
static void refused_pages_are_told(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o), .lane_size = (size_t)1 << 18 };
	int fd = memfd_create("refused", MFD_CLOEXEC);
	struct percpu_region *r;
	void *cell = NULL;

	(void)state;
	fault_set(FAULT_FUTEX_TOUCH, 0, EPERM, true);
	assert_int_equal(percpu_region_alloc(region, 8, 8, &cell), -EPERM);
	assert_int_not_equal(fault_clear(), 0);
	assert_null(cell);
	assert_int_equal(region->n, 1);
	assert_int_equal(test_region_new_fd(fd, &o, &r), 0);
	close(fd);
	chunk = r->first;
	fault_set(FAULT_MADVISE, 0, EINVAL, true);
	assert_int_equal(percpu_region_alloc(r, o.lane_size, 64, &cell), 0);
	assert_int_not_equal(fault_clear(), 0);
	for (uint32_t lane = 0; lane <= chunk->cpus; lane++)
		assert_true(is_reserved(lane));
	percpu_region_close(r);
}

/* Nothing is reclaimed in memory of the program, in a region that is open to read, or while the
 * lock cannot be taken. */
static void nothing_is_reclaimed_of_others(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o) };
	int fd = memfd_create("reclaim", MFD_CLOEXEC);
	struct percpu_region *r, *readonly;

	(void)state;
	assert_int_equal(percpu_region_memory_size(&o, &o.memory_size), 0);
	o.memory = mmap(NULL, o.memory_size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (o.memory == MAP_FAILED)
		test_skip("no address space");
	if ((uintptr_t)o.memory % PERCPU_REGION_MEMORY_ALIGN == 0) {
		assert_int_equal(percpu_region_create(&o, &r), 0);
		assert_int_equal(percpu_region_reclaim(r), 0);
		percpu_region_close(r);
	}
	munmap(o.memory, o.memory_size);
	assert_int_equal(test_region_new_fd(fd, NULL, &r), 0);
	assert_int_equal(percpu_region_open_fd(fd, 0, NULL, &readonly), 0);
	assert_int_equal(percpu_region_reclaim(readonly), 0);
	fault_set(FAULT_GETTID, 0, EPERM, false);
	assert_int_equal(percpu_region_reclaim(r), 0);
	assert_int_equal(fault_clear(), 1);
	assert_true(percpu_region_reclaim(r) > 0);
	percpu_region_close(readonly);
	percpu_region_close(r);
	close(fd);
}

static void no_region_has_longer_lanes(void **state)
{
	struct percpu_region *r = NULL;

	(void)state;
	assert_int_equal(percpu_region_create_for(PERCPU_MAX_LANE + 1, &r), -ENOMEM);
	assert_int_equal(percpu_region_create_for(UINT64_MAX, &r), -ENOMEM);
	assert_null(r);
}

/* Each run of free cells is reclaimed, in each lane. */
static void reclaim_gives_back_what_is_free(void **state)
{
	enum { CELLS = 5, FREE = 3 };
	void *cell[CELLS], *rest;
	size_t unit;

	(void)state;
	unit = chunk->unit;
	for (int i = 0; i < CELLS; i++)
		assert_int_equal(percpu_region_alloc(region, unit, unit, &cell[i]), 0);
	assert_int_equal(percpu_region_alloc(region, PERCPU_LANE_SIZE - CELLS * unit, unit, &rest),
			 0);
	assert_int_equal(percpu_region_reclaim(region), 0);
	for (int i = 0; i < CELLS; i += 2)
		assert_int_equal(percpu_region_free(region, cell[i], unit), 0);
	assert_int_equal(percpu_region_reclaim(region),
			 FREE * unit * (2 * (size_t)chunk->cpus + 1));
}

/* A lane that another thread has reserved, and not yet marked as used, is not reclaimed. */
static void reclaim_spares_lanes_that_are_not_used_yet(void **state)
{
	const size_t lane = chunk->cpus + 70;

	(void)state;
	memset(percpu_chunk_lane(chunk, lane, 0), 0, chunk->lane_size);
	assert_true(is_reserved(lane));
	assert_true(percpu_region_reclaim(region) > 0);
	assert_true(is_reserved(lane));
}

/* Clearing an item's cells clears atomic lanes, too. */
static void clearing_reaches_atomic_lanes(void **state)
{
	struct percpu_counter *c;
	size_t offset;

	(void)state;
	if (!has_own_lanes())
		test_skip("this tier does not know its CPU");
	assert_int_equal(percpu_counter_create_in(region, &c), 0);
	offset = (size_t)((char *)c - chunk->base);
	pretended = 70;
	percpu_chunk_add_atomic(chunk, offset, 5);
	percpu_chunk_clear(chunk, offset, 8, 8);
	assert_int_equal(atomic_cell(70, offset), 0);
	assert_int_equal(percpu_counter_fetch(c), 0);
}

/* Threads that can run no sequence count on several CPUs. */
static void all_kinds_read_all_lanes(void **state)
{
	static const int cpus[] = { 3, 64, 127 };
	const uint64_t delta[2] = { 1, 10 };
	const int64_t words[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct percpu_counter_array *a;
	struct percpu_compact *set;
	struct percpu_stats *s;
	uint64_t out[8];

	(void)state;
	for (int round = 0; round < 2; round++) { /* the second time in used cells */
		assert_int_equal(percpu_counter_array_create_in(region, 8, &a), 0);
		assert_int_equal(percpu_compact_create_in(region, 2, &set), 0);
		assert_int_equal(percpu_stats_create_in(region, 16, 2, 0, &s), 0);
		for (unsigned i = 0; i < 3; i++) {
			pretended = cpus[i];
			percpu_counter_array_add_slow(a, 1, 2);
			percpu_compact_add_slow(set, 1, 3);
			percpu_stats_add_slow(s, 1, 1, 4);
			assert_int_equal(percpu_stats_update_slow(s, 1, 0, delta, 2), 0);
		}
		assert_int_equal(percpu_counter_array_fetch(a, 1), 6);
		percpu_counter_array_fetch_all(a, out);
		assert_int_equal(out[0], 0);
		assert_int_equal(out[1], 6);
		assert_int_equal(percpu_compact_fetch(set, 1), 9);
		percpu_compact_fetch_all(set, out);
		assert_int_equal(out[0], 0);
		assert_int_equal(out[1], 9);
		assert_int_equal(percpu_stats_fetch(s, 0, 2, out), 0);
		assert_int_equal(out[0] + out[1], 0);
		assert_int_equal(out[2], 3);
		assert_int_equal(out[3], 42);
		if (percpu_stats_snapshot(s, 0, 2, out) == 0) {
			assert_int_equal(out[0] + out[1], 0);
			assert_int_equal(out[2], 3);
			assert_int_equal(out[3], 42);
		}
		percpu_counter_array_add_n_slow(a, 0, words, 8);
		percpu_counter_array_fetch_all(a, out);
		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(out[i], i + 1 + (i == 1 ? 6 : 0));
		percpu_counter_array_destroy(a);
		percpu_compact_destroy(set);
		percpu_stats_destroy(s);
	}
}

/* From here on the main thread runs no sequences. */
static void thread_may_lose_its_registration(void **state)
{
	(void)state;
	test_unregister(percpu_seq_attach());
	assert_true(percpu_seq_attach()->cpu_id < 0);
}

/* The region with the fewest lanes decides, of all regions so far. */
static int look_for_a_lane(void *arg)
{
	const struct percpu_status *status = percpu_status();

	test_child_require(!status->cpu_without_lane, "a lane for all");
	test_unregister(percpu_seq_attach());
	pretended = (int)status->possible_cpus;
	test_child_require(percpu_status()->cpu_without_lane, "none in the library's own");
	return arg != NULL;
}

/* A thread on a CPU without a lane adds in the first lane, and not behind the last. */
static int add_without_lane(void *arg)
{
	struct percpu_local *l;
	int64_t sum;

	test_child_require(percpu_local_create(8, PERCPU_LOCAL_REFS, &l) == 0, "a word");
	test_unregister(percpu_seq_attach());
	pretended = (int)percpu_status()->possible_cpus;
	test_child_require(percpu_local_add_return(l, 5, &sum) == 0, "it adds");
	test_child_require(percpu_local_sum(l) == 5, "in a lane of a CPU");
	return arg != NULL;
}

static void fallbacks_need_a_lane(void **state)
{
	(void)state;
	test_in_child(add_without_lane, NULL);
}

static void missing_lane_is_noticed(void **state)
{
	(void)state;
	test_in_child(look_for_a_lane, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(missing_lane_is_noticed, start, stop),
		cmocka_unit_test(fallbacks_need_a_lane),
		cmocka_unit_test_setup_teardown(each_cpu_takes_its_lane, start, stop),
		cmocka_unit_test_setup_teardown(lanes_are_reserved_whole, start, stop),
		cmocka_unit_test_setup_teardown(lanes_are_reserved_once, start, stop),
		cmocka_unit_test_setup_teardown(threads_share_a_lane_on_the_lowest_tier, start,
						stop),
		cmocka_unit_test_setup_teardown(cells_are_reserved, start, stop),
		cmocka_unit_test_setup_teardown(narrow_objects_are_reserved_where_they_are, start,
						stop),
		cmocka_unit_test_setup_teardown(full_disk_leaves_lane_0, start, stop),
		cmocka_unit_test_setup_teardown(full_disk_adds_no_chunk, start, stop),
		cmocka_unit_test(no_region_has_longer_lanes),
		cmocka_unit_test_setup_teardown(refused_pages_are_told, start, stop),
		cmocka_unit_test_setup_teardown(nothing_is_reclaimed_of_others, start, stop),
		cmocka_unit_test_setup_teardown(reclaim_gives_back_what_is_free, start, stop),
		cmocka_unit_test_setup_teardown(reclaim_spares_lanes_that_are_not_used_yet, start,
						stop),
		cmocka_unit_test_setup_teardown(clearing_reaches_atomic_lanes, start, stop),
		cmocka_unit_test(thread_may_lose_its_registration),
		cmocka_unit_test_setup_teardown(all_kinds_read_all_lanes, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
