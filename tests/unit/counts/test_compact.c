/* SPDX-License-Identifier: MIT */
/*
 * test_compact.c - compact counters: exact while their cells wrap.
 *
 * The tests shorten the windows of a set to get many checkpoints. The set stays exact.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/status.h>

#include "support.h"

#define N 600 /* more than fetch_all() sums at a time */
#define MAX_ROUNDS 200000

static struct percpu_compact *set;

static int create(void **state)
{
	(void)state;
	return percpu_compact_create(N, &set);
}

static int destroy(void **state)
{
	(void)state;
	percpu_compact_destroy(set);
	set = NULL;
	return 0;
}

static int64_t window(void)
{
	return 2 * (int64_t)set->half;
}

static uint32_t cell(unsigned cpu, size_t i)
{
	return __atomic_load_n((uint32_t *)(void *)(set->block.base + cpu * set->block.stride) + i,
			       __ATOMIC_RELAXED);
}

static void counters_are_separate(void **state)
{
	uint64_t all[N];

	(void)state;
	for (int i = 0; i < N; i++)
		assert_int_equal(percpu_compact_fetch(set, i), 0);
	for (int i = 0; i < N; i++)
		percpu_compact_add(set, i, i * 3 - 50);
	percpu_compact_fetch_all(set, all);
	for (int i = 0; i < N; i++) {
		assert_int_equal(percpu_compact_fetch(set, i), (uint64_t)(i * 3 - 50));
		assert_int_equal(all[i], (uint64_t)(i * 3 - 50));
	}
	percpu_compact_zero(set, 5);
	assert_int_equal(percpu_compact_fetch_zero(set, 30), 40);
	percpu_compact_add(set, 30, 2);
	percpu_compact_fetch_all(set, all);
	for (int i = 0; i < N; i++)
		assert_int_equal(all[i], (uint64_t)(i == 5 ? 0 : i == 30 ? 2 : i * 3 - 50));
}

static void index_out_of_range_reads_zero(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) /* makes a checkpoint, which is behind the last bias */
		percpu_compact_add(set, 0, window() - 1);
	percpu_compact_add(set, N - 1, 1);
	assert_int_equal(percpu_compact_fetch(set, N), 0);
	assert_int_equal(percpu_compact_fetch(set, SIZE_MAX), 0);
	assert_int_equal(percpu_compact_fetch_zero(set, N), 0);
	percpu_compact_zero(set, SIZE_MAX / 4 + N);
	assert_int_equal(percpu_compact_fetch(set, N - 1), 1);
}

/* Test sets that are too large for a lane of the default size, and too small for huge pages. */
static void sets_have_regions_of_their_own(void **state)
{
	enum { MIDDLE = 20000 };
	struct percpu_compact *c;

	(void)state;
	assert_int_equal(percpu_compact_create(MIDDLE, &c), 0);
	for (size_t i = 0; i < MIDDLE; i += MIDDLE - 1)
		percpu_compact_add(c, i, 1 + (int64_t)i);
	assert_int_equal(percpu_compact_fetch(c, 0), 1);
	assert_int_equal(percpu_compact_fetch(c, 1), 0);
	assert_int_equal(percpu_compact_fetch(c, MIDDLE - 1), MIDDLE);
	percpu_compact_destroy(c);
}

/* Test that the length of a window depends on the number of lanes, as compact.c says. */
static void windows_are_as_long_as_they_may_be(void **state)
{
	const uint32_t most[] = { 8, 64, 1000, PERCPU_MAX_CPUS };
	uint32_t cpus = percpu_status()->possible_cpus;
	struct percpu_compact *c;
	struct percpu_region *r;

	(void)state;
	for (unsigned i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
		struct percpu_region_options o = { .size = sizeof(o), .cpus = most[i] };
		uint64_t limit = UINT64_C(1) << 29, moves;

		if (most[i] < cpus)
			continue;
		if (most[i] > 64 && (test_address_sanitizer() || sizeof(size_t) < 8))
			continue; /* it reads the whole mapping; or the mapping has no room */
		assert_int_equal(percpu_region_create(&o, &r), 0);
		assert_int_equal(percpu_compact_create_in(r, 4, &c), 0);
		moves = 2 * (most[i] + UINT64_C(1)) * 2 * c->half;
		assert_true(moves <= limit && 2 * moves > limit);
		percpu_compact_destroy(c);
		percpu_region_close(r);
	}
}

/* Return a number to add: odd, about a window, small, or within a window. */
static int64_t next_addend(uint64_t *random)
{
	static const int64_t odd[] = { INT32_MAX, INT32_MIN, INT64_C(1) << 32, -(INT64_C(1) << 32),
				       INT64_MAX, INT64_MIN, UINT32_MAX,       0 };
	uint64_t r = test_random(random);
	int64_t sign = r & 1 ? 1 : -1;

	switch (r / 2 % 8) {
	case 0:
		return odd[test_random(random) % 8];
	case 1:
		return sign * (window() + (int64_t)(test_random(random) % 3) - 1);
	case 2:
		return sign * (int64_t)(test_random(random) % 1000);
	default:
		return sign * (int64_t)(test_random(random) % (uint64_t)window());
	}
}

static void any_addend_is_added(void **state)
{
	enum { COUNTERS = 7 };
	uint64_t want[COUNTERS] = { 0 }, all[N], random = 71;
	unsigned rounds = test_rounds(MAX_ROUNDS) / 4;

	(void)state;
	for (unsigned k = 0; k < rounds; k++) {
		size_t i = test_random(&random) % COUNTERS;
		int64_t n = next_addend(&random);

		if (k % 512 == 0)
			test_pin(0, test_cpu(k / 512 % test_cpus()));
		if (k % 4096 == 0)
			set->half = set->half > 8 ? set->half / 8 : set->half;
		percpu_compact_add(set, i, n);
		want[i] += (uint64_t)n;
		if (percpu_compact_fetch(set, i) != want[i])
			fail_msg("add %u of %lld: not exact", k, (long long)n);
		if (k % 64 == 0) {
			percpu_compact_fetch_all(set, all);
			assert_memory_equal(all, want, sizeof(want));
		}
		if (k % 100 == 99) {
			assert_int_equal(percpu_compact_fetch_zero(set, i), want[i]);
			want[i] = 0;
		}
	}
	test_unpin(0);
}

/* Count up until a cell has wrapped a few times, down below 0, and up again. */
static void cells_wrap(void **state)
{
	const int64_t n = window() - 1;
	const uint64_t adds = 5 * (UINT64_C(1) << 32) / (uint64_t)n;
	unsigned cpu = test_cpu(0), wraps = 0;
	uint64_t want = 0;
	uint32_t before;

	(void)state;
	test_pin(0, cpu);
	for (uint64_t k = 0; k < 4 * adds; k++) {
		int64_t sign = k < adds || k >= 3 * adds ? 1 : -1;

		before = cell(cpu, 3);
		percpu_compact_add(set, 3, sign * n);
		wraps += (sign > 0) != (cell(cpu, 3) > before);
		want += (uint64_t)(sign * n);
		assert_int_equal(percpu_compact_fetch(set, 3), want);
	}
	test_unpin(0);
	assert_int_equal(want, 0);
	assert_int_equal(percpu_compact_fetch(set, 2) | percpu_compact_fetch(set, 4), 0);
	if (percpu_thread_tier() == PERCPU_TIER_RSEQ)
		assert_true(wraps >= 18);
}

/* Test that a checkpoint never has the value of the one before. If two were equal, a thread could
 * cross by a checkpoint that another thread made. */
static void checkpoints_never_come_back(void **state)
{
	size_t lane = 2 * (size_t)percpu_status()->possible_cpus; /* of biases, then checkpoints */
	const uint64_t *at = (uint64_t *)(void *)(set->block.base + lane * set->block.stride) + N;
	uint64_t last = *at;

	(void)state;
	if (percpu_thread_tier() != PERCPU_TIER_RSEQ)
		test_skip("no cells of 32 bits on this tier");
	test_pin(0, test_cpu(0));
	set->half = 2;
	percpu_compact_add(set, 0, 1);
	for (int k = 0; k < 1000; k++) {
		percpu_compact_add(set, 0, k % 2 ? -1 : 1);
		assert_int_not_equal(*at, last);
		last = *at;
	}
	test_unpin(0);
	assert_int_equal(percpu_compact_fetch(set, 0), 1);
}

/* Test that a set which reuses another set's cells starts from 0. */
static void memory_is_used_again(void **state)
{
	(void)state;
	for (int k = 0; k < 3; k++) {
		for (size_t i = 0; i < N; i++) {
			assert_int_equal(percpu_compact_fetch(set, i), 0);
			/* The next set must not use this checkpoint for its cells. */
			for (uint64_t n = 0; i == 3 && n < UINT64_C(1) << 33; n += window() - 1)
				percpu_compact_add(set, i, window() - 1);
			percpu_compact_add(set, i, window() - 1);
			percpu_compact_add(set, i, window() - 1);
			percpu_compact_add(set, i, INT64_MAX);
			percpu_compact_zero(set, i);
			percpu_compact_add(set, i, -1);
		}
		destroy(state);
		assert_int_equal(create(state), 0);
	}
}

static void add_everywhere(unsigned t, void *arg)
{
	struct percpu_compact *c = arg;
	uint64_t random = t + 1;

	for (size_t i = 0; i < c->n; i++)
		percpu_compact_add(c, test_random(&random) % c->n, 1);
}

static void million_counters(void **state)
{
	enum { MILLION = 1000000 };
	uint64_t *all = malloc(MILLION * sizeof(*all)), sum = 0;
	struct percpu_compact *c;

	(void)state;
	assert_non_null(all);
	assert_int_equal(percpu_compact_create(MILLION, &c), 0);
	assert_int_equal(percpu_compact_key(c), 0);
	test_team_run(3, add_everywhere, c);
	percpu_compact_fetch_all(c, all);
	for (size_t i = 0; i < MILLION; i++)
		sum += all[i];
	assert_int_equal(sum, 3 * MILLION);
	for (size_t i = 0; i < MILLION; i += 997)
		assert_int_equal(percpu_compact_fetch(c, i), all[i]);
	percpu_compact_destroy(c);
	free(all);
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Return whether the system accepts this advice and does nothing, as emulators do. */
static bool advice_is_ignored(int fd)
{
	long page = sysconf(_SC_PAGESIZE);
	struct stat st = { 0 };
	char *map;
	int e;

	assert_int_equal(ftruncate(fd, page), 0);
	map = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	e = madvise(map, (size_t)page, MADV_POPULATE_WRITE);
	assert_int_equal(fstat(fd, &st), 0);
	munmap(map, (size_t)page);
	assert_int_equal(ftruncate(fd, 0), 0);
	return e == 0 && st.st_blocks == 0;
}

/* Test that shared sets reserve what docs/counts/compact.md says, up to whole pages. */
static void shared_sets_reserve_what_is_documented(void **state)
{
	enum { COUNTERS = 1 << 17 };
	struct percpu_region_options o = { .size = sizeof(o), .lane_size = COUNTERS * 16 };
	int fd = memfd_create("test_compact", 0);
	struct percpu_region *r;
	struct percpu_compact *c;
	struct stat before, after;
	uint64_t per_counter, pages, bytes;

	(void)state;
	if (advice_is_ignored(fd)) {
		close(fd);
		test_skip("memory cannot be reserved, as in qemu-user");
	}
	assert_int_equal(test_region_new_fd(fd, &o, &r), 0);
	assert_int_equal(fstat(fd, &before), 0);
	assert_int_equal(percpu_compact_create_in(r, COUNTERS, &c), 0);
	assert_int_equal(fstat(fd, &after), 0);
	bytes = 512 * (uint64_t)(after.st_blocks - before.st_blocks);
	per_counter = 4 * percpu_status()->possible_cpus + 32;
	pages = 2 * (percpu_status()->possible_cpus + 2) * (uint64_t)sysconf(_SC_PAGESIZE);
	assert_in_range(bytes, per_counter * COUNTERS, per_counter * COUNTERS + pages);
	for (size_t i = 0; i < COUNTERS; i++) {
		percpu_compact_add(c, i, 1);
		percpu_compact_add(c, i, 2 * (int64_t)c->half - 1);
		percpu_compact_add(c, i, INT64_MAX);
		percpu_compact_zero(c, i);
	}
	assert_int_equal(fstat(fd, &after), 0);
	bytes = 512 * (uint64_t)(after.st_blocks - before.st_blocks);
	if (percpu_thread_tier() == PERCPU_TIER_RSEQ) /* on other tiers atomic lanes are added */
		assert_in_range(bytes, per_counter * COUNTERS,
				(per_counter + 16 * test_cpus()) * COUNTERS + pages);
	percpu_compact_destroy(c);
	percpu_region_close(r);
	close(fd);
}

static void bad_arguments_are_refused(void **state)
{
	struct percpu_compact *c = set;
	struct percpu_region *r;

	(void)state;
	assert_int_equal(percpu_compact_create(8, NULL), -EINVAL);
	assert_int_equal(percpu_compact_create(0, &c), -EINVAL);
	assert_int_equal(percpu_compact_create(SIZE_MAX, &c), -EINVAL);
	assert_int_equal(percpu_compact_create(TEST_MAX_LANE / 16 + 1, &c), -EINVAL);
	assert_int_equal(percpu_compact_create_in(NULL, 8, &c), -EINVAL);
	assert_int_equal(percpu_compact_attach(NULL, 1, 8, &c), -EINVAL);
	assert_int_equal(percpu_region_create(NULL, &r), 0);
	assert_int_equal(percpu_compact_create_in(r, 0, &c), -EINVAL);
	assert_int_equal(percpu_compact_create_in(r, 8, NULL), -EINVAL);
	assert_int_equal(percpu_compact_create_in(r, PERCPU_LANE_SIZE / 16 + 1, &c), -EINVAL);
	assert_int_equal(percpu_compact_attach(r, 0, 8, &c), -ENOENT);
	assert_int_equal(percpu_compact_attach(r, 64, 8, &c), -ENOENT);
	assert_int_equal(percpu_compact_attach(r, UINT64_MAX, 8, &c), -ENOENT);
	assert_int_equal(percpu_compact_attach(r, 64, 0, &c), -EINVAL);
	assert_int_equal(percpu_compact_attach(r, 64, 8, NULL), -EINVAL);
	assert_ptr_equal(c, set);
	percpu_region_close(r);
	percpu_compact_destroy(NULL);
	percpu_compact_detach(NULL);
}

static void sets_in_a_region_can_be_attached(void **state)
{
	int fd = memfd_create("test_compact", 0);
	struct percpu_compact *a, *b;
	struct percpu_region *r, *reader;
	uint64_t key;

	(void)state;
	assert_int_equal(test_region_new_fd(fd, NULL, &r), 0);
	assert_int_equal(percpu_compact_create_in(r, 100, &a), 0);
	key = percpu_compact_key(a);
	assert_int_not_equal(key, 0);
	assert_int_equal(percpu_compact_attach(r, key, 100, &b), 0);
	for (int i = 0; i < 100; i++) {
		percpu_compact_add(a, 99, 2 * (int64_t)a->half - 1);
		percpu_compact_add(b, 99, -1);
	}
	assert_int_equal(percpu_compact_fetch(a, 99), 200 * (a->half - 1));
	percpu_compact_detach(b);
	assert_int_equal(percpu_region_open_fd(fd, 0, NULL, &reader), 0);
	assert_int_equal(percpu_compact_attach(reader, key, 100, &b), 0);
	assert_int_equal(percpu_compact_fetch(b, 99), 200 * (a->half - 1));
	percpu_compact_detach(b);
	percpu_region_close(reader);
	percpu_compact_destroy(a);
	assert_int_equal(percpu_compact_attach(r, key, 100, &b), -ENOENT);
	percpu_region_close(r);
	close(fd);
}

static void failing_calls_leave_nothing(void **state)
{
	struct percpu_compact *c;
	struct test_holding before;

	(void)state;
	assert_int_equal(percpu_compact_create(TEST_MAX_LANE / 16 + 1, &c), -EINVAL);
	before = test_holding_now();
	for (int i = 0; i < 3; i++)
		assert_int_equal(percpu_compact_create(TEST_MAX_LANE / 16 + 1, &c), -EINVAL);
	test_assert_holding(before);
}

int main(void)
{
#define WITH_SET(test) cmocka_unit_test_setup_teardown(test, create, destroy)
	const struct CMUnitTest tests[] = {
		WITH_SET(counters_are_separate),
		WITH_SET(index_out_of_range_reads_zero),
		cmocka_unit_test(sets_have_regions_of_their_own),
		cmocka_unit_test(windows_are_as_long_as_they_may_be),
		WITH_SET(any_addend_is_added),
		WITH_SET(cells_wrap),
		WITH_SET(checkpoints_never_come_back),
		WITH_SET(memory_is_used_again),
		cmocka_unit_test(million_counters),
		cmocka_unit_test(shared_sets_reserve_what_is_documented),
		WITH_SET(bad_arguments_are_refused),
		cmocka_unit_test(sets_in_a_region_can_be_attached),
		cmocka_unit_test(failing_calls_leave_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
