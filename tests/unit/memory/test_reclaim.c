/* SPDX-License-Identifier: MIT */
/*
 * test_reclaim.c - what percpu_region_reclaim() returns to the system, and that nothing that is in
 * use is lost by it: beside threads, processes and forks, and when the process is killed meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/region.h>

#include "memory/memory.h"
#include "../happen.h"
#include "support.h"

#define CELLS (PERCPU_LANE_SIZE / 8) /* counters in a chunk */
#define MOST (16 * CELLS)

static struct percpu_counter *counters[MOST];

static struct percpu_region *private_region(void)
{
	struct percpu_region *r;

	assert_int_equal(percpu_region_create(NULL, &r), 0);
	return r;
}

static struct percpu_region *shared_region(void)
{
	int fd = memfd_create("reclaim", MFD_CLOEXEC);
	struct percpu_region *r;

	assert_int_equal(test_region_new_fd(fd, NULL, &r), 0);
	close(fd);
	return r;
}

/* Return on how many CPUs tests count. All 64 of an emulated machine would take minutes. */
static unsigned cpus_used(void)
{
	return test_cpus() < 4 ? test_cpus() : 4;
}

/* Create counters, and add 1 to each on every CPU that is used. */
static void create(struct percpu_region *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(percpu_counter_create_in(r, &counters[i]), 0);
	for (unsigned cpu = 0; cpu < cpus_used(); cpu++) {
		assert_true(test_pin(0, test_cpu(cpu)));
		for (size_t i = 0; i < n; i++)
			percpu_counter_add(counters[i], 1);
	}
	test_unpin(0);
}

/* Destroy all but one in `keep` of them; 0: all. */
static void destroy(size_t n, size_t keep)
{
	for (size_t i = 0; i < n; i++)
		if (keep == 0 || i % keep != 0)
			percpu_counter_destroy(counters[i]);
}

/* Return how much memory the process has, but for that of its files. */
static size_t kilobytes(void)
{
	size_t sum = 0, kb;
	char line[128];
	FILE *f = fopen("/proc/self/status", "re");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "RssAnon: %zu", &kb) == 1 ||
		    sscanf(line, "RssShmem: %zu", &kb) == 1)
			sum += kb;
	if (f != NULL)
		(void)fclose(f);
	return sum;
}

static void leaves_little(struct percpu_region *(*make_region)(void))
{
	struct percpu_region *r = make_region();
	const size_t part = r->cpus > 1 ? 20 : 15; /* of one CPU, there is less to return */
	size_t before, full, after;

	create(r, MOST); /* an emulator takes memory the first time it runs code */
	destroy(MOST, 0);
	assert_true(percpu_region_reclaim(r) >= MOST * sizeof(uint64_t));
	percpu_region_close(r);
	before = kilobytes();
	r = make_region();
	create(r, MOST);
	full = kilobytes();
	destroy(MOST, 0);
	(void)percpu_region_reclaim(r);
	after = kilobytes();
	print_message("%zu counters took %zu KiB, and leave %zd\n", (size_t)MOST, full - before,
		      (ssize_t)(after - before));
	assert_true(full > before + MOST * sizeof(uint64_t) / 1024);
	assert_true(after < before + (full - before) / part);
	percpu_region_close(r);
}

static void counters_leave_little(void **state)
{
	(void)state;
	if (test_address_sanitizer() || test_thread_sanitizer() || kilobytes() == 0 ||
	    !percpu_status()->robust) /* an emulator */
		test_skip("the process's own memory is not known");
	if (percpu_page_size() > 4096)
		test_skip("in a file, the page of each header stays, which is larger here");
	leaves_little(private_region);
	leaves_little(shared_region);
}

/* Counters that live keep their counts, on whatever pages the others were. */
static void counters_keep_their_counts(void **state)
{
	static const size_t keeps[] = { 3, CELLS, 3 * CELLS - 1 };

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		struct percpu_region *r = i < 3 ? private_region() : shared_region();
		struct percpu_counter *c;

		create(r, 4 * CELLS);
		destroy(4 * CELLS, keeps[i % 3]);
		assert_true(percpu_region_reclaim(r) > 0);
		for (size_t n = 0; n < 4 * CELLS; n += keeps[i % 3]) {
			assert_int_not_equal(percpu_region_key(r, counters[n]), 0);
			assert_int_equal(percpu_counter_fetch(counters[n]), cpus_used());
			percpu_counter_add(counters[n], 1);
			assert_int_equal(percpu_counter_fetch(counters[n]), cpus_used() + 1);
		}
		for (size_t n = 0; n < 4 * CELLS; n++) {
			assert_int_equal(percpu_counter_create_in(r, &c), 0);
			percpu_counter_add(c, 7);
			assert_int_equal(percpu_counter_fetch(c), 7);
		}
		percpu_region_close(r);
	}
}

static bool is_committed(const struct percpu_region *r, uint32_t index)
{
	return percpu_chunk_is_committed(r->chunks->at[index]);
}

static bool is_resident(const void *at)
{
	unsigned char vec = 0;

	assert_int_equal(mincore((void *)(uintptr_t)at, 1, &vec), 0);
	return vec & 1;
}

/* A chunk without cells keeps no page. */
static void chunks_keep_no_page(void **state)
{
	struct percpu_region *r = private_region();
	char *k, *parts[3];

	(void)state;
	create(r, 2 * CELLS);
	k = (char *)r->chunks->at[1];
	for (unsigned i = 0; i < 3; i++) {
		parts[i] = k + i * PERCPU_HEAD; /* its struct, its header, lane 0 */
		assert_true(is_resident(parts[i]) || i == 2);
	}
	destroy(2 * CELLS, 0);
	(void)percpu_region_reclaim(r);
	for (unsigned i = 0; i < 3; i++)
		assert_false(is_resident(parts[i]));
	percpu_region_close(r);
}

/* Chunks without cells are used again before the region grows, and have the same keys. */
static void chunks_are_used_again(void **state)
{
	struct percpu_region *r = private_region();
	uint64_t key;

	(void)state;
	create(r, 3 * CELLS);
	key = percpu_region_key(r, counters[2 * CELLS]);
	destroy(3 * CELLS, 0);
	assert_int_equal(r->n, 3);
	(void)percpu_region_reclaim(r);
	assert_true(is_committed(r, 0) && !is_committed(r, 1) && !is_committed(r, 2));
	create(r, CELLS);
	assert_true(is_committed(r, 0) && !is_committed(r, 1) && !is_committed(r, 2));
	create(r, 2 * CELLS);
	assert_int_equal(r->n, 3);
	for (size_t i = 0; i < 2 * CELLS; i++)
		assert_int_equal(percpu_counter_fetch(counters[i]), cpus_used());
	assert_int_equal(percpu_region_key(r, counters[CELLS]), key);
	assert_ptr_equal(percpu_region_at(r, key, sizeof(uint64_t)), counters[CELLS]);
	assert_int_equal(r->chunks->at[2]->header->index, 2);
	create(r, 1);
	assert_int_equal(r->n, 4);
	percpu_region_close(r);
}

/* No call takes a cell that was freed for one in use. */
static void freed_cells_are_refused(void **state)
{
	struct percpu_region *r = private_region();
	uint64_t key;

	(void)state;
	create(r, 2 * CELLS);
	key = percpu_region_key(r, counters[2 * CELLS - 1]);
	destroy(2 * CELLS, 0);
	(void)percpu_region_reclaim(r);
	assert_false(is_committed(r, 1));
	assert_int_equal(percpu_region_key(r, counters[2 * CELLS - 1]), 0);
	assert_int_equal(percpu_region_free(r, counters[2 * CELLS - 1], sizeof(uint64_t)), -EINVAL);
	assert_null(percpu_region_at(r, key, sizeof(uint64_t)));
	percpu_counter_destroy(counters[2 * CELLS - 1]);
	assert_int_equal(percpu_region_reclaim(r), 2 * r->lane_size * (2 * (size_t)r->cpus + 1));
	assert_int_equal(percpu_region_recover_journals(r, 0), 0);
	percpu_region_close(r);
}

static void closing_unmaps_all(void **state)
{
	struct test_holding before;
	struct percpu_region *r = private_region();

	(void)state;
	percpu_region_close(r);
	before = test_holding_now();
	r = private_region();
	create(r, 3 * CELLS);
	destroy(3 * CELLS, 0);
	(void)percpu_region_reclaim(r);
	percpu_region_close(r);
	test_assert_holding(before);
}

/* Locked memory stays, with all that it says. */
static void locked_chunks_stay(void **state)
{
	struct percpu_region *r = private_region();
	struct percpu_chunk *k;
	char *lane;

	(void)state;
	create(r, 2 * CELLS);
	k = r->chunks->at[1];
	lane = percpu_chunk_lane(k, 1, PERCPU_LANE_SIZE / 2);
	lane -= (uintptr_t)lane % percpu_page_size();
	if (mlock(lane, percpu_page_size()) != 0)
		test_skip("no memory may be locked");
	destroy(2 * CELLS, 0);
	*(uint64_t *)lane = 5;
	(void)percpu_region_reclaim(r);
	if (*(uint64_t *)lane == 0)
		test_skip("the memory is not locked, under a sanitizer or an emulator");
	assert_true(is_committed(r, 1));
	percpu_region_close(r);
}

/* Journals. */

static struct percpu_region *region;

static void reclaim_region(void)
{
	(void)percpu_region_reclaim(region);
}

/* A thread completes the update that a killed one has left, while the chunk is decommitted. */
static void journals_are_recovered_beside_it(void **state)
{
	(void)state;
	region = private_region();
	create(region, 2 * CELLS);
	destroy(2 * CELLS, 0);
	region->chunks->at[1]->header->journal.turn = 1;
	let_happen(reclaim_region, "journal: to be recovered", 1);
	assert_int_equal(percpu_region_recover_journals(region, 0), 0);
	assert_int_equal(times, 0);
	assert_false(is_committed(region, 1));
	create(region, 2 * CELLS);
	assert_int_equal(percpu_counter_fetch(counters[2 * CELLS - 1]), cpus_used());
	percpu_region_close(region);
}

/* Forks. */

static int go_on(void *arg)
{
	(void)arg;
	test_child_require(percpu_counter_fetch(counters[0]) == cpus_used(), "keeps");
	percpu_counter_add(counters[0], 1);
	(void)percpu_region_reclaim(region);
	test_child_require(percpu_counter_fetch(counters[0]) == cpus_used() + 1, "counts");
	create(region, 4 * CELLS);
	for (size_t i = 0; i < 4 * CELLS; i++)
		test_child_require(percpu_counter_fetch(counters[i]) == cpus_used(), "creates");
	destroy(4 * CELLS, 0);
	test_child_require(percpu_region_reclaim(region) > 0, "reclaims");
	return 0;
}

static void children_reclaim_their_own(void **state)
{
	(void)state;
	region = private_region();
	create(region, 3 * CELLS);
	destroy(3 * CELLS, 3 * CELLS);
	(void)percpu_region_reclaim(region);
	assert_false(is_committed(region, 2));
	test_in_child(go_on, NULL);
	assert_int_equal(percpu_counter_fetch(counters[0]), cpus_used());
	percpu_region_close(region);
}

/* Processes. */

static const char *deadly;

static void die(void)
{
	raise(SIGKILL);
}

static int reclaim_and_die(void *arg)
{
	let_happen(die, deadly, *(unsigned *)arg);
	(void)percpu_region_reclaim(region);
	return 0;
}

/* A process that is killed while it reclaims leaves nothing undone that hinders others. */
static void killed_processes_lose_nothing(void **state)
{
	static const char *const steps[] = { "region: free cells found",
					     "region: chunk reclaimed" };
	struct percpu_counter *c;
	int status;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("no process is told that a holder of a lock was killed");
	for (unsigned i = 0; i < 4; i++) {
		unsigned which = 1;

		deadly = steps[i % 2];
		region = shared_region();
		create(region, 3 * CELLS);
		destroy(3 * CELLS, i < 2 ? 2 * CELLS : 1000);
		status = test_wait(test_fork(reclaim_and_die, &which), 20);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		for (size_t n = 0; n < 3 * CELLS; n += i < 2 ? 2 * CELLS : 1000)
			assert_int_equal(percpu_counter_fetch(counters[n]), cpus_used());
		assert_int_equal(percpu_counter_create_in(region, &c), 0);
		percpu_counter_add(c, 3);
		assert_true(percpu_region_reclaim(region) > 0);
		assert_int_equal(percpu_counter_fetch(c), 3);
		assert_int_equal(percpu_counter_fetch(counters[0]), cpus_used());
		percpu_region_close(region);
	}
}

/* Create, count and destroy, and look whether each count is right. */
static void use_cells(unsigned seed)
{
	struct percpu_counter *mine[64] = { NULL };
	uint64_t added[64], random = seed + 1;

	for (unsigned n = test_rounds(5000); n > 0; n--) {
		unsigned i = test_random(&random) % 64;

		if (mine[i] == NULL) {
			test_child_require(percpu_counter_create_in(region, &mine[i]) == 0,
					   "create");
			added[i] = 0;
		} else if (test_random(&random) % 4 == 0) {
			test_child_require(percpu_counter_fetch(mine[i]) == added[i], "fetch");
			percpu_counter_destroy(mine[i]);
			mine[i] = NULL;
			continue;
		}
		percpu_counter_add(mine[i], i + 1);
		added[i] += i + 1;
	}
	for (unsigned i = 0; i < 64; i++)
		test_child_require(mine[i] == NULL || percpu_counter_fetch(mine[i]) == added[i],
				   "fetch at the end");
	for (unsigned i = 0; i < 64; i++)
		percpu_counter_destroy(mine[i]);
}

static uint32_t busy; /* atomic */

static void use_or_reclaim(unsigned i, void *arg)
{
	(void)arg;
	if (i != 0) {
		use_cells(i);
		__atomic_sub_fetch(&busy, 1, __ATOMIC_SEQ_CST);
	}
	while (i == 0 && __atomic_load_n(&busy, __ATOMIC_SEQ_CST) != 0)
		(void)percpu_region_reclaim(region);
}

static int be_busy(void *arg)
{
	busy = 2;
	test_team_run(3, use_or_reclaim, arg);
	return 0;
}

/* Threads, and in a shared region processes, create, count and destroy meanwhile. */
static void all_is_exact_beside_it(void **state)
{
	(void)state;
	for (int shared = 0; shared < 2; shared++) {
		pid_t child;

		region = shared ? shared_region() : private_region();
		create(region, 2 * CELLS);
		destroy(2 * CELLS, 100);
		child = test_fork(be_busy, NULL);
		be_busy(NULL);
		assert_int_equal(test_wait(child, 60), 0);
		for (size_t i = 0; i < 2 * CELLS; i += 100)
			assert_int_equal(percpu_counter_fetch(counters[i]), cpus_used());
		percpu_region_close(region);
	}
}

/* All regions. */

static struct test_team closing;
static bool closed; /* atomic */

static void close_region(unsigned i, void *arg)
{
	(void)i;
	(void)arg;
	percpu_region_close(region);
	__atomic_store_n(&closed, true, __ATOMIC_SEQ_CST);
}

static void let_close(void)
{
	test_team_start(&closing, 1, close_region, NULL);
	test_sleep_us(20000);
	assert_false(__atomic_load_n(&closed, __ATOMIC_SEQ_CST));
}

static void closing_waits_for_it(void **state)
{
	(void)state;
	region = private_region(); /* the first in the list */
	closed = false;
	let_happen(let_close, "region: chunk reclaimed", 1);
	percpu_regions_reclaim();
	assert_int_equal(times, 0);
	test_team_join(&closing);
	assert_true(closed);
}

static int close_at_once(void *arg)
{
	percpu_region_close(region);
	return arg != NULL;
}

static void let_fork(void)
{
	test_in_child(close_at_once, NULL);
}

/* The thread that reclaims is not in the child, which does not wait for it. */
static void children_do_not_wait_for_it(void **state)
{
	(void)state;
	region = private_region();
	let_happen(let_fork, "region: chunk reclaimed", 1);
	percpu_regions_reclaim();
	assert_int_equal(times, 0);
	percpu_region_close(region);
}

/* A region that its owner reclaims is passed by. */
static void kept_regions_are_passed_by(void **state)
{
	struct percpu_region *r = private_region(), *other = private_region();

	(void)state;
	percpu_region_keep(r);
	for (unsigned i = 0; i < 2; i++) {
		region = i == 0 ? r : other;
		create(region, 2 * CELLS);
		destroy(2 * CELLS, 0);
	}
	percpu_regions_reclaim();
	assert_true(is_committed(r, 1));
	assert_false(is_committed(other, 1));
	percpu_region_close(r);
	percpu_region_close(other);
}

/* Nothing is returned of a region that was opened to read. The call stores nothing to it. */
static int reclaim_as_reader(void *arg)
{
	struct percpu_region *r = NULL;

	test_child_require(percpu_region_open_fd(*(const int *)arg, 0, NULL, &r) == 0, "open");
	test_child_require(percpu_region_reclaim(r) == 0, "nothing");
	test_child_require(percpu_region_reclaim(NULL) == 0, "of none");
	percpu_reclaim();
	percpu_region_close(r);
	return 0;
}

static void readers_reclaim_nothing(void **state)
{
	int fd = memfd_create("reclaim", MFD_CLOEXEC);
	struct percpu_region *r;

	(void)state;
	assert_int_equal(test_region_new_fd(fd, NULL, &r), 0);
	test_in_child(reclaim_as_reader, &fd);
	percpu_region_close(r);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_leave_little),
		cmocka_unit_test(counters_keep_their_counts),
		cmocka_unit_test(chunks_keep_no_page),
		cmocka_unit_test(chunks_are_used_again),
		cmocka_unit_test(freed_cells_are_refused),
		cmocka_unit_test(closing_unmaps_all),
		cmocka_unit_test(locked_chunks_stay),
		cmocka_unit_test(journals_are_recovered_beside_it),
		cmocka_unit_test(children_reclaim_their_own),
		cmocka_unit_test(killed_processes_lose_nothing),
		cmocka_unit_test(all_is_exact_beside_it),
		cmocka_unit_test(readers_reclaim_nothing),
		cmocka_unit_test(closing_waits_for_it),
		cmocka_unit_test(children_do_not_wait_for_it),
		cmocka_unit_test(kept_regions_are_passed_by),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
