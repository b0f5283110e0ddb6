/* SPDX-License-Identifier: MIT */
/*
 * test_region.c - regions that are what they should be: cells, keys, growth,
 * options, sharing. Files that are not are the business of test_hostile.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/counter.h>
#include <percpu/region.h>
#include <percpu/stats.h>
#include <percpu/status.h>

#include "../support.h"

static struct percpu_region_options options(void)
{
	struct percpu_region_options o = { .size = sizeof(o) };

	return o;
}

/* Each test runs on a private region, on a file, and on a memfd. */
enum kind { PRIVATE, NAMED, MEMFD, KINDS };

static struct percpu_region *create(enum kind kind, const struct percpu_region_options *o)
{
	struct percpu_region *r = NULL;
	int fd;

	switch (kind) {
	case PRIVATE:
		assert_int_equal(percpu_region_create(o, &r), 0);
		break;
	case NAMED:
		assert_int_equal(percpu_region_create_file(test_path("region"), o, &r), 0);
		break;
	default:
		fd = memfd_create("region", 0);
		assert_true(fd >= 0);
		assert_int_equal(percpu_region_create_fd(fd, o, &r), 0);
		close(fd);
	}
	return r;
}

static void discard(enum kind kind, struct percpu_region *r)
{
	percpu_region_close(r);
	if (kind == NAMED)
		assert_int_equal(unlink(test_path("region")), 0);
}

static void cells_are_aligned_and_separate(void **state)
{
	static const size_t sizes[] = { 1, 8, 24, 64, 100, 4096 };
	char *cell[6][7];

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		for (int s = 0; s < 6; s++) {
			for (int a = 0; a < 7; a++) {
				size_t align = (size_t)1 << 2 * a;

				assert_int_equal(percpu_region_alloc(r, sizes[s], align,
								     (void **)&cell[s][a]),
						 0);
				assert_int_equal((uintptr_t)cell[s][a] % align, 0);
				memset(cell[s][a], 7 * s + a + 1, sizes[s]);
			}
		}
		for (int s = 0; s < 6; s++) {
			for (int a = 0; a < 7; a++) {
				for (size_t i = 0; i < sizes[s]; i++)
					assert_int_equal(cell[s][a][i], 7 * s + a + 1);
				assert_int_equal(percpu_region_free(r, cell[s][a], sizes[s]), 0);
			}
		}
		discard(k, r);
	}
}

static void fresh_cells_hold_zeros_in_every_lane(void **state)
{
	uint32_t cpus = percpu_status()->possible_cpus;
	static const char zeros[64];
	char *cell;

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		for (int i = 0; i < 100; i++) {
			assert_int_equal(percpu_region_alloc(r, 64, 64, (void **)&cell), 0);
			for (uint32_t cpu = 0; cpu < cpus; cpu++)
				assert_memory_equal(cell + cpu * PERCPU_STRIDE, zeros, 64);
		}
		discard(k, r);
	}
}

static void keys_lead_back_to_cells(void **state)
{
	void *cell, *other;
	uint64_t key;

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		assert_int_equal(percpu_region_alloc(r, 64, 64, &cell), 0);
		assert_int_equal(percpu_region_alloc(r, 64, 64, &other), 0);
		key = percpu_region_key(r, cell);
		assert_int_not_equal(key, 0);
		assert_int_not_equal(key, percpu_region_key(r, other));
		assert_ptr_equal(percpu_region_at(r, key, 64), cell);
		assert_ptr_equal(percpu_region_at(r, key, 8), cell);
		assert_null(percpu_region_at(r, key, 65536 * 2));
		assert_null(percpu_region_at(r, key, SIZE_MAX));
		assert_null(percpu_region_at(r, (UINT64_C(1) << 40) + PERCPU_LANE_SIZE, 8));
		assert_null(percpu_region_at(r, key + (UINT64_C(1) << 40), 8));
		assert_null(percpu_region_at(r, 0, 8));
		assert_null(percpu_region_at(r, UINT64_MAX, 8));
		assert_int_equal(percpu_region_key(r, &key), 0);
		assert_int_equal(percpu_region_key(r, NULL), 0);
		assert_int_equal(percpu_region_free(r, cell, 64), 0);
		assert_null(percpu_region_at(r, key, 64));
		discard(k, r);
	}
}

static void roots_are_compared_and_kept(void **state)
{
	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		for (unsigned i = 0; i < PERCPU_REGION_ROOTS; i++) {
			assert_int_equal(percpu_region_root(r, i), 0);
			assert_int_equal(percpu_region_set_root(r, i, 1, 2), -EEXIST);
			assert_int_equal(percpu_region_set_root(r, i, 0, 77 + i), 0);
			assert_int_equal(percpu_region_set_root(r, i, 0, 1), -EEXIST);
			assert_int_equal(percpu_region_root(r, i), 77 + i);
		}
		assert_int_equal(percpu_region_set_root(r, 3, 80, 5), 0);
		assert_int_equal(percpu_region_root(r, 3), 5);
		assert_int_equal(percpu_region_set_root(r, PERCPU_REGION_ROOTS, 0, 1), -EINVAL);
		assert_int_equal(percpu_region_root(r, PERCPU_REGION_ROOTS), 0);
		assert_int_equal(percpu_region_set_root(NULL, 0, 0, 1), -EINVAL);
		assert_int_equal(percpu_region_root(NULL, 0), 0);
		discard(k, r);
	}
}

/* A size that is not that of the allocation, or a middle, frees nothing. */
static void cells_are_freed_whole(void **state)
{
	static const size_t sizes[] = { 8, 24, 64, 1000, 4096 };
	char *cell[5], *again;

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		for (int i = 0; i < 5; i++)
			assert_int_equal(percpu_region_alloc(r, sizes[i], 8, (void **)&cell[i]), 0);
		for (int i = 0; i < 5; i++) {
			assert_int_equal(percpu_region_free(r, cell[i], sizes[i] - 8), -EINVAL);
			assert_int_equal(percpu_region_free(r, cell[i], sizes[i] + 8), -EINVAL);
			if (sizes[i] > 8)
				assert_int_equal(percpu_region_free(r, cell[i] + 8, sizes[i] - 8),
						 -EINVAL);
		}
		for (int i = 0; i < 5; i++)
			assert_int_equal(percpu_region_free(r, cell[i], sizes[i]), 0);
		/* What is freed is handed out again, in other sizes. */
		assert_int_equal(percpu_region_alloc(r, 16, 8, (void **)&again), 0);
		assert_ptr_equal(again, cell[0]);
		assert_int_equal(percpu_region_free(r, again, 8), -EINVAL);
		assert_int_equal(percpu_region_free(r, again, 16), 0);
		discard(k, r);
	}
}

/* A key says what it leads to, and where that ends. */
static void objects_are_not_taken_for_others(void **state)
{
	struct percpu_region *r = create(NAMED, NULL);
	struct percpu_counter_array *a, *b, *c = NULL, *d;
	struct percpu_counter *single, *again;
	struct percpu_compact *set;
	struct percpu_stats *stats;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_counter_array_create_in(r, 8, &a), 0);
	assert_int_equal(percpu_counter_array_create_in(r, 8, &b), 0);
	key = percpu_counter_array_key(a);
	assert_int_equal(percpu_counter_array_attach(r, key, 9, &c), -ENOENT);
	assert_int_equal(percpu_counter_array_attach(r, key, 16, &c), -ENOENT);
	assert_int_equal(percpu_counter_array_attach(r, key + 64, 1, &c), 0); /* b */
	percpu_counter_array_detach(c);
	c = NULL;
	assert_int_equal(percpu_counter_array_create_in(r, 16, &d), 0); /* not its middle */
	assert_int_equal(percpu_counter_array_attach(r, percpu_counter_array_key(d) + 64, 1, &c),
			 -ENOENT);
	percpu_counter_array_destroy(d);
	assert_int_equal(percpu_counter_array_attach(r, key, 3, &c), 0);
	percpu_counter_array_add(c, 2, 5);
	assert_int_equal(percpu_counter_array_fetch(a, 2), 5);
	percpu_counter_array_detach(c);
	c = NULL;

	assert_int_equal(percpu_counter_attach(r, key, &single), -ENOENT);
	assert_null(percpu_region_at(r, key, 8));
	assert_int_equal(percpu_compact_attach(r, key, 4, &set), -ENOENT);
	assert_int_equal(percpu_stats_attach(r, key, 8, 1, 0, &stats), -ENOENT);
	assert_int_equal(percpu_counter_create_in(r, &single), 0);
	key = percpu_counter_key(single);
	assert_int_equal(percpu_counter_attach(r, key, &again), 0);
	assert_ptr_equal(again, single);
	percpu_counter_detach(again);
	assert_null(percpu_region_at(r, key, 8));
	assert_int_equal(percpu_counter_attach(r, percpu_region_key(r, single), &again), -ENOENT);
	assert_int_equal(percpu_counter_array_attach(r, key, 1, &c), -ENOENT);
	assert_null(c);

	assert_int_equal(percpu_compact_create_in(r, 4, &set), 0);
	key = percpu_compact_key(set);
	percpu_compact_detach(set);
	assert_int_equal(percpu_compact_attach(r, key, 3, &set), -ENOENT);
	assert_int_equal(percpu_compact_attach(r, key, 5, &set), -ENOENT);
	assert_int_equal(percpu_counter_array_attach(r, key, 8, &c), -ENOENT);
	assert_int_equal(percpu_compact_attach(r, key, 4, &set), 0);
	percpu_compact_detach(set);
	percpu_counter_array_detach(a);
	percpu_counter_array_detach(b);
	discard(NAMED, r);
}

/* Where a unit is longer than what an array is aligned to, too. */
static void objects_begin_with_a_unit(void **state)
{
	struct percpu_region_options o = options();
	struct percpu_counter_array *a, *b = NULL;
	struct percpu_region *r;
	uint64_t key;

	(void)state;
	o.lane_size = 1 << 20; /* units of 128 bytes */
	r = create(MEMFD, &o);
	assert_int_equal(percpu_counter_array_create_in(r, 16, &a), 0);
	key = percpu_counter_array_key(a);
	assert_int_equal(percpu_counter_array_attach(r, key + 64, 1, &b), -ENOENT);
	assert_null(b);
	percpu_counter_array_destroy(a);
	discard(MEMFD, r);
}

static void private_objects_have_no_key(void **state)
{
	struct percpu_region *r = create(PRIVATE, NULL);
	struct percpu_counter_array *a;
	struct percpu_compact *set;
	struct percpu_stats *s;

	(void)state;
	assert_int_equal(percpu_counter_array_create_in(r, 8, &a), 0);
	assert_int_equal(percpu_compact_create_in(r, 8, &set), 0);
	assert_int_equal(percpu_stats_create_in(r, 16, 1, 0, &s), 0);
	assert_int_equal(percpu_counter_array_key(a), 0);
	assert_int_equal(percpu_compact_key(set), 0);
	assert_int_equal(percpu_stats_key(s), 0);
	percpu_counter_array_destroy(a);
	percpu_compact_destroy(set);
	percpu_stats_destroy(s);
	discard(PRIVATE, r);
}

/* Four lanes' worth: several chunks; nothing moves, nothing is shared. */
static void growth_moves_nothing(void **state)
{
	enum { N = 4 * PERCPU_LANE_SIZE / 64 };
	static char *cell[N];

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		for (int i = 0; i < N; i++) {
			assert_int_equal(percpu_region_alloc(r, 64, 64, (void **)&cell[i]), 0);
			*(int *)cell[i] = i + 1;
		}
		for (int i = 0; i < N; i++) {
			assert_int_equal(*(int *)cell[i], i + 1);
			assert_ptr_equal(percpu_region_at(r, percpu_region_key(r, cell[i]), 64),
					 cell[i]);
		}
		for (int i = 0; i < N; i++)
			assert_int_equal(percpu_region_free(r, cell[i], 64), 0);
		assert_int_equal(percpu_region_alloc(r, 64, 64, (void **)&cell[0]), 0);
		discard(k, r);
	}
}

/* What alignment has left free goes to the next that fits. */
static void gaps_are_filled(void **state)
{
	char *first, *aligned, *next;

	(void)state;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, NULL);

		assert_int_equal(percpu_region_alloc(r, 8, 8, (void **)&first), 0);
		assert_int_equal(percpu_region_alloc(r, 64, 4096, (void **)&aligned), 0);
		assert_int_equal(percpu_region_alloc(r, 8, 8, (void **)&next), 0);
		assert_ptr_equal(next, first + 8);
		discard(k, r);
	}
}

/* Cells that others have freed are used again, before the region grows. */
static void cells_freed_by_others_are_used_again(void **state)
{
	struct percpu_region *r = create(NAMED, NULL), *s;
	void *cell, *there;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_region_open(test_path("region"), PERCPU_REGION_WRITE, NULL, &s), 0);
	assert_int_equal(percpu_region_alloc(r, 64, 64, &cell), 0);
	key = percpu_region_key(r, cell);
	assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE - 64, 64, &cell), 0);
	there = percpu_region_at(s, key, 64);
	assert_non_null(there);
	assert_int_equal(percpu_region_free(s, there, 64), 0);
	assert_int_equal(percpu_region_alloc(r, 64, 64, &cell), 0);
	assert_int_equal(percpu_region_key(r, cell), key);
	percpu_region_close(s);
	discard(NAMED, r);
}

/* A key of a chunk that another opening has added. */
static void new_chunks_are_found(void **state)
{
	struct percpu_region *r = create(NAMED, NULL), *s;
	void *first, *cell;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_region_open(test_path("region"), 0, NULL, &s), 0);
	assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE, 64, &first), 0);
	assert_int_equal(percpu_region_alloc(r, 64, 64, &cell), 0);
	*(uint64_t *)cell = 77;
	key = percpu_region_key(r, cell);
	cell = percpu_region_at(s, key, 64);
	assert_non_null(cell);
	assert_int_equal(*(uint64_t *)cell, 77);
	percpu_region_close(s);
	discard(NAMED, r);
}

/* Of a process that was killed, say, and whose id this one has. */
static void left_over_files_are_left_alone(void **state)
{
	static const char text[] = "somebody's";
	char name[192], got[sizeof(text)];
	struct percpu_region *r;
	int fd;

	(void)state;
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "%s.percpu-%ld-%d", test_path(""), (long)getpid(), i);
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
		close(fd);
	}
	r = create(NAMED, NULL);
	discard(NAMED, r);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "%s.percpu-%ld-%d", test_path(""), (long)getpid(), i);
		fd = open(name, O_RDONLY);
		assert_true(fd >= 0);
		assert_int_equal(read(fd, got, sizeof(got)), sizeof(text));
		assert_memory_equal(got, text, sizeof(text));
		close(fd);
		unlink(name);
	}
}

static void other_lane_sizes_do_not_grow(void **state)
{
	struct percpu_region_options o = options();
	struct percpu_counter *c;
	void *cell, *rest;

	(void)state;
	o.lane_size = 1 << 20;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, &o);

		assert_int_equal(percpu_region_alloc(r, 1 << 19, 64, &cell), 0);
		assert_int_equal(percpu_region_alloc(r, 1 << 19, 64, &rest), 0);
		assert_int_equal(percpu_region_alloc(r, 64, 64, &rest), -ENOSPC);
		assert_int_equal(percpu_region_free(r, cell, 1 << 19), 0);
		assert_int_equal(percpu_region_alloc(r, 64, 64, &cell), 0);
		assert_int_equal(percpu_counter_create_in(r, &c), -EINVAL);
		assert_int_equal(percpu_counter_attach(r, percpu_region_key(r, cell), &c), -EINVAL);
		assert_int_equal(percpu_counter_open(r, 0, &c), -EINVAL);
		discard(k, r);
	}
}

static void more_lanes_simulate_a_larger_machine(void **state)
{
	struct percpu_region_options o = options();
	struct percpu_counter *c;

	(void)state;
	o.cpus = percpu_status()->possible_cpus + 62;
	for (enum kind k = 0; k < KINDS; k++) {
		struct percpu_region *r = create(k, &o);

		assert_int_equal(percpu_counter_create_in(r, &c), 0);
		percpu_counter_add(c, 5);
		percpu_counter_add_slow(c, 6);
		/* As if a CPU that this machine does not have had counted. */
		*(uint64_t *)((char *)c + (o.cpus - 1) * PERCPU_STRIDE) = 100;
		assert_int_equal(percpu_counter_fetch_zero(c), 111);
		assert_int_equal(percpu_counter_fetch(c), 0);
		discard(k, r);
	}
}

static void options_are_checked(void **state)
{
	struct percpu_region *r = NULL, *was = r;
	struct {
		struct percpu_region_options o;
		uint64_t unknown;
	} large = { .o.size = sizeof(large) };
	struct percpu_region_options o;

	(void)state;
	assert_int_equal(percpu_region_create(&large.o, &r), 0);
	percpu_region_close(r);
	r = was;
	large.unknown = 1;
	assert_int_equal(percpu_region_create(&large.o, &r), -EINVAL);
	o = options();
	o.size = 0;
	assert_int_equal(percpu_region_create(&o, &r), -EINVAL);
	o = options();
	o.lane_size = TEST_MAX_LANE + 1;
	assert_int_equal(percpu_region_create(&o, &r), -EINVAL);
	o.lane_size = SIZE_MAX;
	assert_int_equal(percpu_region_create(&o, &r), -EINVAL);
	o = options();
	o.cpus = PERCPU_MAX_CPUS + 1;
	assert_int_equal(percpu_region_create(&o, &r), -E2BIG);
	o.cpus = UINT32_MAX;
	assert_int_equal(percpu_region_create_file(test_path("none"), &o, &r), -E2BIG);
	o.cpus = 1;
	if (percpu_status()->possible_cpus > 1)
		assert_int_equal(percpu_region_create(&o, &r), -EINVAL);
	o = options();
	o.mode = 010000;
	assert_int_equal(percpu_region_create_file(test_path("none"), &o, &r), -EINVAL);
	o = options();
	assert_int_equal(percpu_region_create(&o, NULL), -EINVAL);
	assert_int_equal(percpu_region_create_file(NULL, &o, &r), -EINVAL);
	assert_int_equal(percpu_region_create_file(test_path("none"), &o, NULL), -EINVAL);
	assert_ptr_equal(r, was);
	assert_int_not_equal(access(test_path("none"), F_OK), 0);
}

static void bad_allocations_are_refused(void **state)
{
	struct percpu_region *r = create(PRIVATE, NULL), *other = create(PRIVATE, NULL);
	void *cell = NULL, *mine;

	(void)state;
	assert_int_equal(percpu_region_alloc(NULL, 8, 8, &cell), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, 8, 8, NULL), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, 0, 8, &cell), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE + 1, 8, &cell), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, SIZE_MAX, 8, &cell), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, 8, 0, &cell), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, 8, 3, &cell), -EINVAL);
	assert_int_equal(percpu_region_alloc(r, 8, 8192, &cell), -EINVAL);
	assert_null(cell);
	assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE, 4096, &cell), 0);
	assert_int_equal(percpu_region_alloc(r, 8, 8, &mine), 0);
	assert_int_equal(percpu_region_free(r, NULL, 8), 0);
	assert_int_equal(percpu_region_free(NULL, mine, 8), -EINVAL);
	assert_int_equal(percpu_region_free(other, mine, 8), -EINVAL);
	assert_int_equal(percpu_region_free(r, &cell, 8), -EINVAL);
	assert_int_equal(percpu_region_free(r, mine, 0), -EINVAL);
	assert_int_equal(percpu_region_free(r, mine, SIZE_MAX), -EINVAL);
	assert_int_equal(percpu_region_free(r, (char *)mine + PERCPU_STRIDE, 8), -EINVAL);
	assert_int_equal(percpu_region_free(r, mine, 8), 0);
	assert_int_equal(percpu_region_free(r, mine, 8), -EINVAL);
	percpu_region_close(NULL);
	percpu_region_close(r);
	percpu_region_close(other);
}

static void files_are_created_whole_or_not_at_all(void **state)
{
	struct percpu_region_options o = options();
	struct percpu_region *r, *s;
	struct stat st;
	int fd;

	(void)state;
	umask(022);
	o.mode = 0640;
	assert_int_equal(percpu_region_create_file(test_path("file"), &o, &r), 0);
	assert_int_equal(stat(test_path("file"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(percpu_region_create_file(test_path("file"), &o, &s), -EEXIST);
	assert_int_equal(percpu_region_create_file(test_path("no/file"), &o, &s), -ENOENT);
	assert_int_equal(percpu_region_create_file(test_path("file/file"), &o, &s), -ENOTDIR);
	assert_int_equal(percpu_region_create_file("/proc/none", &o, &s), -ENOENT);
	fd = open(test_path("file"), O_RDWR);
	assert_int_equal(percpu_region_create_fd(fd, &o, &s), -EEXIST);
	assert_int_equal(percpu_region_create_fd(-1, &o, &s), -EBADF);
	close(fd);
	fd = open(test_path("file"), O_RDONLY);
	assert_int_equal(percpu_region_create_fd(fd, &o, &s), -EBADF);
	assert_int_equal(percpu_region_open_fd(fd, PERCPU_REGION_WRITE, &s), -EBADF);
	close(fd);
	fd = open(test_path("file"), O_WRONLY);
	assert_int_equal(percpu_region_open_fd(fd, 0, &s), -EBADF);
	close(fd);
	percpu_region_close(r);
	assert_int_equal(unlink(test_path("file")), 0);
	assert_int_equal(percpu_region_create_file(test_path("file"), NULL, &r), 0);
	assert_int_equal(stat(test_path("file"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	percpu_region_close(r);
	assert_int_equal(unlink(test_path("file")), 0);
}

/* Calls that put cancellation off have it as it was in the end, also when they fail. */
static bool can_be_canceled(void)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	return was == PTHREAD_CANCEL_ENABLE;
}

static void threads_can_be_canceled_afterwards(void **state)
{
	struct percpu_region *r, *s;
	int fd;

	(void)state;
	assert_int_equal(percpu_region_create_file(test_path("no/file"), NULL, &r), -ENOENT);
	assert_true(can_be_canceled());
	assert_int_equal(percpu_region_create_file(test_path("file"), NULL, &r), 0);
	assert_true(can_be_canceled());
	assert_int_equal(percpu_region_open(test_path("none"), 0, NULL, &s), -ENOENT);
	assert_true(can_be_canceled());
	assert_int_equal(percpu_region_open(test_path("file"), 0, NULL, &s), 0);
	assert_true(can_be_canceled());
	percpu_region_close(s);
	fd = open(test_path("file"), O_RDONLY);
	assert_int_equal(percpu_region_open_fd(fd, 0, &s), 0);
	assert_true(can_be_canceled());
	close(fd);
	percpu_region_close(s);
	percpu_region_close(r);
	assert_int_equal(unlink(test_path("file")), 0);
}

static void counters_are_the_same_in_every_opening(void **state)
{
	struct percpu_region *r = create(NAMED, NULL), *s, *reader;
	struct percpu_counter *c, *d, *e;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_counter_create_in(r, &c), 0);
	key = percpu_counter_key(c);
	assert_int_equal(percpu_region_set_root(r, 0, 0, key), 0);
	percpu_counter_add(c, 40);
	assert_int_equal(percpu_region_open(test_path("region"), PERCPU_REGION_WRITE, NULL, &s), 0);
	assert_int_equal(percpu_region_open(test_path("region"), 0, NULL, &reader), 0);
	assert_int_equal(percpu_region_root(s, 0), key);
	assert_int_equal(percpu_counter_attach(s, key, &d), 0);
	assert_ptr_not_equal(c, d);
	percpu_counter_add(d, 2);
	percpu_counter_add_slow(d, 1);
	assert_int_equal(percpu_counter_fetch(c), 43);
	assert_int_equal(percpu_counter_open(reader, 0, &e), 0);
	assert_int_equal(percpu_counter_fetch(e), 43);
	assert_int_equal(percpu_counter_create_in(reader, &d), -EROFS);
	assert_int_equal(percpu_region_set_root(reader, 0, 0, 1), -EROFS);
	percpu_region_close(s);
	percpu_counter_add(c, 1);
	assert_int_equal(percpu_counter_fetch(e), 44);
	assert_int_equal(percpu_counter_attach(reader, 0, &d), -ENOENT);
	assert_int_equal(percpu_counter_attach(reader, key + 1, &d), -ENOENT);
	assert_int_equal(percpu_counter_attach(reader, key + 4096, &d), -ENOENT);
	percpu_region_close(reader);
	discard(NAMED, r);
}

static void file_keeps_counts_when_all_have_closed(void **state)
{
	struct percpu_region *r = create(NAMED, NULL);
	struct percpu_counter *c;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_counter_create_in(r, &c), 0);
	percpu_counter_add(c, 12);
	percpu_counter_zero(c);
	percpu_counter_add(c, 30);
	key = percpu_counter_key(c);
	percpu_region_close(r);
	assert_int_equal(percpu_region_open(test_path("region"), PERCPU_REGION_WRITE, NULL, &r), 0);
	assert_int_equal(percpu_counter_attach(r, key, &c), 0);
	assert_int_equal(percpu_counter_fetch(c), 30);
	percpu_counter_destroy(c);
	assert_int_equal(percpu_counter_attach(r, key, &c), -ENOENT);
	discard(NAMED, r);
}

/* A chunk unfolds from a page, which moves: what the program maps in its place is
 * the program's. */
static void closing_leaves_what_others_map(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *pages[300], there;
	struct percpu_region *r;
	void *cell;

	(void)state;
	assert_int_equal(percpu_region_create_file(test_path("grown"), NULL, &r), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE, 64, &cell), 0);
	/* Every hole of a page gets one, with another between for the next. */
	for (unsigned i = 0; i < 300; i++)
		pages[i] = mmap(NULL, page, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	percpu_region_close(r);
	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(mincore(pages[i], page, &there), 0);
		munmap(pages[i], page);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells_are_aligned_and_separate),
		cmocka_unit_test(fresh_cells_hold_zeros_in_every_lane),
		cmocka_unit_test(keys_lead_back_to_cells),
		cmocka_unit_test(roots_are_compared_and_kept),
		cmocka_unit_test(cells_are_freed_whole),
		cmocka_unit_test(objects_are_not_taken_for_others),
		cmocka_unit_test(objects_begin_with_a_unit),
		cmocka_unit_test(private_objects_have_no_key),
		cmocka_unit_test(growth_moves_nothing),
		cmocka_unit_test(gaps_are_filled),
		cmocka_unit_test(cells_freed_by_others_are_used_again),
		cmocka_unit_test(new_chunks_are_found),
		cmocka_unit_test(left_over_files_are_left_alone),
		cmocka_unit_test(other_lane_sizes_do_not_grow),
		cmocka_unit_test(more_lanes_simulate_a_larger_machine),
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(bad_allocations_are_refused),
		cmocka_unit_test(files_are_created_whole_or_not_at_all),
		cmocka_unit_test(threads_can_be_canceled_afterwards),
		cmocka_unit_test(counters_are_the_same_in_every_opening),
		cmocka_unit_test(file_keeps_counts_when_all_have_closed),
		cmocka_unit_test(closing_leaves_what_others_map),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
