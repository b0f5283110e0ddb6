/* SPDX-License-Identifier: MIT */
/*
 * test_region_hostile_keys.c - damaged keys, and impossible sizes: attaching to them fails or
 * works, and the process does not crash.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/counter.h>
#include <percpu/stats.h>
#include <percpu/status.h>

#include "hostile_file.h"

#include "counts/counts.h"
#include "rings/rings.h"

/* Attach to objects at the root. It leads anywhere in a chunk full of cells. */

static int attach_array(struct percpu_region *r, uint64_t key)
{
	const int64_t n[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	struct percpu_counter_array *a;
	uint64_t all[8];
	int e = percpu_counter_array_attach(r, key, 8, &a);

	if (e != 0)
		return e;
	percpu_counter_array_add(a, 7, 1);
	percpu_counter_array_add_n(a, 2, n, 2);
	percpu_counter_array_add_n(a, 4, n, 4);
	percpu_counter_array_add_n(a, 0, n, 8);
	percpu_counter_array_add_n_slow(a, 0, n, 8);
	percpu_counter_array_zero(a, 3);
	percpu_counter_array_fetch_all(a, all);
	percpu_counter_array_detach(a);
	return 0;
}

static int attach_compact(struct percpu_region *r, uint64_t key)
{
	struct percpu_compact *c;
	int e = percpu_compact_attach(r, key, 4, &c);

	if (e != 0)
		return e;
	percpu_compact_add(c, 3, 1);
	percpu_compact_add(c, 3, INT64_MAX);
	(void)percpu_compact_fetch_zero(c, 3);
	percpu_compact_detach(c);
	return 0;
}

static uint64_t key_of(enum percpu_kind kind, uint64_t offset)
{
	return (uint64_t)kind << PERCPU_KEY_KIND_SHIFT | UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT |
	       offset;
}

static int attach_stats(struct percpu_region *r, uint64_t key, unsigned flags)
{
	const size_t words = 8, banks = flags ? 192 : 64; /* as if the object had a control */
	uint64_t *control = percpu_region_at(
		r, key ^ key_of(PERCPU_KIND_STATS, 0) ^ key_of(PERCPU_KIND_CELL, 0), 2 * banks);
	uint64_t out[8];
	struct percpu_stats *s;
	int e;

	if (control != NULL && key % 8 == 0) {
		uint64_t copies = flags ? UINT64_C(1) << 32 : 0;

		control += 2 * percpu_status()->possible_cpus * PERCPU_STRIDE / 8;
		memcpy(control, (uint64_t[]){ 0, 0, 0, 8 * words, 1, flags | copies, 0 }, 56);
	}
	e = percpu_stats_attach(r, key, 8 * words, 1, flags, &s);
	if (e != 0)
		return e;
	percpu_stats_add(s, 0, 1, 1);
	for (size_t n = 1; n <= percpu_stats_commit_words(s); n *= 2)
		percpu_stats_update(s, 0, 0, (uint64_t[8]){ 1 }, n);
	e = percpu_stats_fetch_zero(s, 0, 1, out);
	percpu_stats_detach(s);
	return e == -EINVAL ? e : 0; /* damage may keep a reader from reading */
}

/* Return a key of what seems to be an allocation of that size, in the lane full of cells. */
static uint64_t pretend(int fd, enum percpu_kind kind, uint64_t offset, size_t size)
{
	static const char nothing[PERCPU_LANE_SIZE / 64];
	const uint64_t edges[2] = { offset / 8, (offset + size) / 8 };
	unsigned char byte;

	test_child_require(pwrite(fd, nothing, sizeof(nothing), STARTS) == sizeof(nothing),
			   "write");
	for (int i = 0; i < 2 && edges[i] < PERCPU_LANE_SIZE / 8; i++) {
		off_t at = STARTS + (off_t)edges[i] / 8;

		test_child_require(pread(fd, &byte, 1, at) == 1, "read");
		byte |= (unsigned char)(1 << edges[i] % 8);
		test_child_require(pwrite(fd, &byte, 1, at) == 1, "write");
	}
	return key_of(kind, offset);
}

static int follow_roots(void *arg)
{
	int fd = open(path, O_RDWR);

	(void)arg;
	for (unsigned i = 0; i < 130; i++) {
		uint64_t offset = i < 65 ? i : PERCPU_LANE_SIZE - 256 + i;
		uint64_t key = pretend(fd, PERCPU_KIND_COUNTER, offset, 8),
			 room = PERCPU_LANE_SIZE - offset;
		bool aligned = offset % 64 == 0;
		struct percpu_region *r;
		struct percpu_counter *c;
		int e;

		test_child_require(pwrite(fd, &key, 8, ROOT) == 8, "write");
		test_child_require(percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &r) == 0,
				   "open");
		key = percpu_region_root(r, 0);
		e = percpu_counter_attach(r, key, &c);
		test_child_require(e == (offset % 8 == 0 ? 0 : -ENOENT), "a counter");
		if (e == 0)
			percpu_counter_add(c, 1);
		key = pretend(fd, PERCPU_KIND_ARRAY, offset, 64);
		test_child_require(attach_array(r, key) == (aligned ? 0 : -ENOENT), "an array");
		key = pretend(fd, PERCPU_KIND_COMPACT, offset, 64);
		test_child_require(attach_compact(r, key) == (aligned ? 0 : -ENOENT), "a set");
		key = pretend(fd, PERCPU_KIND_STATS, offset, 128);
		test_child_require(attach_stats(r, key, 0) ==
					   (aligned && room >= 128 ? 0 : -ENOENT),
				   "objects");
		key = pretend(fd, PERCPU_KIND_STATS, offset, 384);
		test_child_require(attach_stats(r, key, PERCPU_STATS_WHOLE) ==
					   (aligned && room >= 384 ? 0 : -ENOENT),
				   "whole objects");
		percpu_region_close(r);
	}
	close(fd);
	return 0;
}

static void roots_of_any_alignment_do_not_crash(void **state)
{
	(void)state;
	write_file(image, image_size);
	test_in_child(follow_roots, NULL);
}

/* Attach calls refuse impossible sizes. */
static void absurd_sizes_are_refused(void **state)
{
	static const size_t sizes[] = { 0,
					SIZE_MAX,
					SIZE_MAX / 2 + 1,
					SIZE_MAX / 8 + 1,
					SIZE_MAX / 8 + 2,
					SIZE_MAX / 16 + 1,
					SIZE_MAX / 16 + 2 };
	struct percpu_counter_array *a = NULL;
	struct percpu_compact *c = NULL;
	struct percpu_stats *s = NULL;
	struct percpu_region *r;

	(void)state;
	write_file(image, image_size);
	assert_int_equal(percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &r), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(percpu_counter_array_attach(r, keys[0], sizes[i], &a), -EINVAL);
		assert_int_equal(percpu_compact_attach(r, keys[0], sizes[i], &c), -EINVAL);
		assert_int_equal(percpu_stats_attach(r, keys[0], 8, sizes[i], 0, &s), -EINVAL);
		assert_int_equal(percpu_counter_array_create_in(r, sizes[i], &a), -EINVAL);
		assert_int_equal(percpu_compact_create_in(r, sizes[i], &c), -EINVAL);
		assert_int_equal(percpu_stats_create_in(r, 8, sizes[i], 0, &s), -EINVAL);
	}
	assert_null(a);
	assert_null(c);
	assert_null(s);
	percpu_region_close(r);
}

/* All bits of the kind count, also those that no kind uses yet. */
static void no_other_kind_will_do(void **state)
{
	struct percpu_counter_array *a = NULL;
	struct percpu_region *r;
	uint64_t place;

	(void)state;
	write_file(image, image_size);
	assert_int_equal(percpu_region_open(path, 0, NULL, &r), 0);
	place = keys[0] & PERCPU_KEY_CELL;
	for (unsigned kind = 0; kind <= UINT64_MAX >> PERCPU_KEY_KIND_SHIFT; kind++) {
		uint64_t key = (uint64_t)kind << PERCPU_KEY_KIND_SHIFT | place;

		assert_int_equal(percpu_counter_array_attach(r, key, 1, &a),
				 kind == PERCPU_KIND_ARRAY ? 0 : -ENOENT);
	}
	percpu_counter_array_detach(a);
	percpu_region_close(r);
}

/* Another process announces a second chunk whose header is damaged: objects in it do not exist.
 * Then the header is repaired. */
static void chunks_of_others_hold_nothing(void **state)
{
	static const struct {
		size_t at;
		uint32_t value;
	} crafted[] = { { VERSION, 0 }, { VERSION, UINT32_MAX }, { MAGIC, 1 }, { STRIDE, 64 } };
	const size_t second = image_size / 2;
	struct percpu_counter *c = NULL;
	struct percpu_region *r;
	uint32_t was, one = 1, two = 2;
	int fd;

	(void)state;
	for (size_t i = 0; i < sizeof(crafted) / sizeof(crafted[0]); i++) {
		write_file(image, image_size);
		fd = open(path, O_RDWR | O_CLOEXEC);
		assert_int_equal(pwrite(fd, &one, 4, CHUNKS), 4);
		assert_int_equal(pread(fd, &was, 4, (off_t)(second + crafted[i].at)), 4);
		assert_int_equal(percpu_region_open(path, 0, NULL, &r), 0);
		assert_int_equal(percpu_counter_attach(r, keys[1], &c), -ENOENT);
		assert_int_equal(pwrite(fd, &two, 4, CHUNKS), 4);
		assert_int_equal(pwrite(fd, &crafted[i].value, 4, (off_t)(second + crafted[i].at)),
				 4);
		assert_int_equal(percpu_counter_attach(r, keys[1], &c), -ENOENT);
		assert_null(c);
		assert_int_equal(pwrite(fd, &was, 4, (off_t)(second + crafted[i].at)), 4);
		assert_int_equal(percpu_counter_attach(r, keys[1], &c), 0);
		assert_int_equal(percpu_counter_fetch(c), 7);
		percpu_counter_detach(c);
		percpu_region_close(r);
		c = NULL;
		close(fd);
	}
}

/* The controls that objects' creators wrote are damaged. */
static void layouts_are_checked(void **state)
{
	const struct percpu_approx_options o = { .size = sizeof(o) };
	struct percpu_histogram_control *layout;
	struct percpu_histogram *h, *found_h = NULL;
	struct percpu_extrema *x, *found_x = NULL;
	struct percpu_ring *ring, *found_ring = NULL;
	struct percpu_approx *a, *found_a = NULL;
	const uint64_t batches[] = { 0, UINT64_MAX };
	struct percpu_region *r;
	uint64_t batch;

	(void)state;
	assert_int_equal(percpu_region_open(test_path("layouts"),
					    PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL, &r),
			 0);
	assert_int_equal(percpu_extrema_create_in(r, 0, &x), 0);
	percpu_extrema_control(x)->flags ^= 0x80000000; /* as of a CPU with other pairs */
	assert_int_equal(percpu_extrema_attach(r, percpu_extrema_key(x), &found_x), -ENOTSUP);
	percpu_extrema_control(x)->flags ^= 0xc0000000; /* an unknown flag */
	assert_int_equal(percpu_extrema_attach(r, percpu_extrema_key(x), &found_x), -ENOENT);
	percpu_extrema_destroy(x);

	assert_int_equal(percpu_ring_create_in(r, PERCPU_RING_MIN, 0, &ring), 0);
	percpu_ring_control(ring)->clock ^= 3; /* as of another machine */
	assert_int_equal(percpu_ring_attach(r, percpu_ring_key(ring), &found_ring), -ENOTSUP);
	assert_null(found_ring);
	percpu_ring_destroy(ring);

	if (percpu_pair_is_atomic()) { /* without, files have none */
		assert_int_equal(percpu_approx_create_in(r, &o, &a), 0);
		batch = a->control->batch;
		for (unsigned i = 0; i < 2; i++) {
			a->control->batch = batches[i];
			assert_int_equal(percpu_approx_attach(r, percpu_approx_key(a), &found_a),
					 -ENOENT);
		}
		a->control->batch = batch;
		percpu_approx_destroy(a);
	}

	assert_int_equal(percpu_histogram_create_in(r, NULL, &h), 0);
	layout = (struct percpu_histogram_control *)percpu_block_bias(&h->block);
	layout->n = 0;
	assert_int_equal(percpu_histogram_attach(r, percpu_histogram_key(h), &found_h), -ENOENT);
	layout->n = 1;
	percpu_histogram_destroy(h);
	assert_true(found_x == NULL && found_a == NULL && found_h == NULL);
	percpu_region_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_of_others_hold_nothing),
		cmocka_unit_test(roots_of_any_alignment_do_not_crash),
		cmocka_unit_test(absurd_sizes_are_refused),
		cmocka_unit_test(no_other_kind_will_do),
		cmocka_unit_test(layouts_are_checked),
	};

	return cmocka_run_group_tests(tests, make_image, drop_image);
}
