/* SPDX-License-Identifier: MIT */
/*
 * test_region_hostile.c - damaged files: percpu_region_open() returns an error, or the region
 * works, and the process does not crash. Damaged keys: test_region_hostile_keys.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/status.h>

#include "hostile_file.h"

#define HEADER 4096

/* Call all functions on a region; it is enough if the process survives. */
static void use(struct percpu_region *r, bool writable)
{
	const uint64_t array =
		keys[0] % (PERCPU_KEY_CELL + 1) + PERCPU_KIND_ARRAY * (PERCPU_KEY_CELL + 1);
	struct percpu_counter_array *a;
	struct percpu_counter *c;
	void *cell;

	for (int i = 0; i < 2; i++) {
		if (percpu_counter_attach(r, i ? keys[1] : percpu_region_root(r, 0), &c) != 0)
			continue;
		(void)percpu_counter_fetch(c);
		if (writable) {
			percpu_counter_add(c, 1);
			percpu_counter_add_slow(c, 1);
			(void)percpu_counter_fetch_zero(c);
		}
	}
	if (percpu_counter_array_attach(r, array, 1, &a) == 0) {
		uint64_t all[64];

		percpu_counter_array_fetch_all(a, all);
		percpu_counter_array_detach(a);
	}
	if (percpu_counter_create_in(r, &c) == 0) {
		percpu_counter_add(c, 1);
		(void)percpu_counter_fetch(c);
		percpu_counter_destroy(c);
	}
	if (percpu_region_alloc(r, 4096, 64, &cell) == 0) {
		memset(cell, 0, 4096);
		percpu_region_free(r, cell, 4096);
	}
}

/* Open the region, and use it. Returns whether the result is a documented one. */
static bool open_and_use(bool writable)
{
	struct percpu_region *r = NULL;
	int e = percpu_region_open(path, writable ? PERCPU_REGION_WRITE : 0, NULL, &r);

	if (e == 0) {
		use(r, writable);
		percpu_region_close(r);
		return true;
	}
	return r == NULL && (e == -EBADMSG || e == -EPROTO || e == -ERANGE || e == -ENOMEM);
}

static int expect_open(bool writable)
{
	struct percpu_region *r = NULL;
	int e = percpu_region_open(path, writable ? PERCPU_REGION_WRITE : 0, NULL, &r);

	if (e == 0)
		percpu_region_close(r);
	else
		assert_null(r);
	return e;
}

static void patch(size_t offset, const void *data, size_t size)
{
	int fd = open(path, O_RDWR);

	assert_int_equal(pwrite(fd, data, size, (off_t)offset), size);
	close(fd);
}

static void good_file_opens(void **state)
{
	(void)state;
	write_file(image, image_size);
	assert_int_equal(expect_open(false), 0);
	assert_int_equal(expect_open(true), 0);
	write_file(image, image_size);
	assert_int_equal(truncate(path, (off_t)image_size + 12345), 0);
	assert_int_equal(expect_open(true), 0);
}

static void cut_files_are_refused(void **state)
{
	const size_t step = 10 / test_rounds(10);

	(void)state;
	for (size_t size = 0; size < image_size; size = size < 3000 ? size + step : size * 5 / 4) {
		write_file(image, size);
		assert_int_equal(expect_open(false), -EBADMSG);
		assert_int_equal(expect_open(true), -EBADMSG);
	}
	for (size_t cut = 1; cut < image_size / 2; cut *= 2) {
		write_file(image, image_size - cut);
		assert_int_equal(expect_open(true), -EBADMSG);
	}
}

static void foreign_files_are_refused(void **state)
{
	static const char *const others[] = { "/proc/self/exe", "/dev/null", "/dev/zero",
					      "/proc/self/maps" };
	struct percpu_region *r = NULL;
	uint64_t random = 50;
	char *noise = malloc(image_size);

	(void)state;
	for (size_t i = 0; i < image_size; i++)
		noise[i] = (char)test_random(&random);
	write_file(noise, image_size);
	free(noise);
	assert_int_equal(expect_open(true), -EBADMSG);
	for (int i = 0; i < 4; i++)
		assert_int_equal(percpu_region_open(others[i], 0, NULL, &r), -EBADMSG);
	assert_int_equal(percpu_region_open("/tmp", 0, NULL, &r), -EISDIR);
	assert_int_equal(percpu_region_open("/tmp", PERCPU_REGION_WRITE, NULL, &r), -EISDIR);
	assert_int_equal(percpu_region_open("", PERCPU_REGION_WRITE, NULL, &r), -ENOENT);
	assert_int_equal(percpu_region_open(NULL, PERCPU_REGION_WRITE, NULL, &r), -EINVAL);
	assert_int_equal(percpu_region_open(path, PERCPU_REGION_WRITE, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_region_open_fd(-1, PERCPU_REGION_WRITE, NULL, &r), -EBADF);
	assert_int_equal(percpu_region_open_fd(0, PERCPU_REGION_WRITE, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_region_open(test_path("none"), PERCPU_REGION_WRITE, NULL, &r),
			 -ENOENT);
	assert_int_equal(mkfifo(test_path("pipe"), 0600), 0);
	alarm(20);
	assert_int_equal(percpu_region_open(test_path("pipe"), 0, NULL, &r), -EBADMSG);
	assert_int_equal(percpu_region_open(test_path("pipe"), PERCPU_REGION_WRITE, NULL, &r),
			 -EBADMSG);
	alarm(0);
	assert_int_equal(symlink("loop", test_path("loop")), 0);
	assert_int_equal(percpu_region_open(test_path("loop"), PERCPU_REGION_WRITE, NULL, &r),
			 -ELOOP);
	assert_null(r);
}

static int open_patched(size_t offset, uint64_t value, size_t size, bool writable)
{
	write_file(image, image_size);
	patch(offset, &value, size); /* little-endian */
	return expect_open(writable);
}

static void other_geometry_is_refused(void **state)
{
	uint64_t stride, lane_size;
	uint32_t cpus;

	(void)state;
	memcpy(&stride, image + STRIDE, sizeof(stride));
	memcpy(&lane_size, image + LANE_SIZE, sizeof(lane_size));
	memcpy(&cpus, image + CPUS, sizeof(cpus));
	assert_int_equal(stride, PERCPU_STRIDE);
	assert_int_equal(lane_size, PERCPU_LANE_SIZE);
	assert_int_equal(cpus, percpu_status()->possible_cpus);

	assert_int_equal(open_patched(MAGIC, 0, 8, true), -EBADMSG);
	assert_int_equal(open_patched(VERSION, 0, 4, true), -EPROTO);
	assert_int_equal(open_patched(VERSION, 1, 4, true), -EPROTO);
	assert_int_equal(open_patched(VERSION, PERCPU_FORMAT_MAJOR - 1, 4, true), -EPROTO);
	assert_int_equal(open_patched(VERSION, (PERCPU_FORMAT_MAJOR - 1) | 2 << 16, 4, false),
			 -EPROTO);
	assert_int_equal(open_patched(VERSION, PERCPU_FORMAT_MAJOR + 1, 4, false), -EPROTO);
	assert_int_equal(open_patched(VERSION, (PERCPU_FORMAT_MAJOR + 1) | 1 << 16, 4, true),
			 -EPROTO);
	/* Fields of a newer minor version are ignored. */
	assert_int_equal(open_patched(VERSION, PERCPU_FORMAT_MAJOR | 1 << 16, 4, true), 0);
	assert_int_equal(open_patched(VERSION, PERCPU_FORMAT_MAJOR | 0xffff0000, 4, false), 0);
	assert_int_equal(open_patched(INDEX, 1, 4, true), -EBADMSG);
	assert_int_equal(open_patched(STRIDE, stride + 64, 8, true), -EPROTO);
	assert_int_equal(open_patched(STRIDE, stride - 64, 8, false), -EPROTO);
	assert_int_equal(open_patched(STRIDE, 0, 8, true), -EPROTO);
	assert_int_equal(open_patched(CPUS, PERCPU_MAX_CPUS + 1, 4, true), -EPROTO);
	assert_int_equal(open_patched(CPUS, UINT32_MAX, 4, false), -EPROTO);
	assert_int_equal(open_patched(CPUS, 0, 4, true), -EBADMSG);
	assert_int_equal(open_patched(CPUS, 0, 4, false), -EBADMSG);
	assert_int_equal(open_patched(CPUS, cpus + 1000, 4, true), -EBADMSG); /* too short */
	assert_int_equal(open_patched(LANE_SIZE, 0, 8, true), -EBADMSG);
	assert_int_not_equal(open_patched(LANE_SIZE, UINT64_MAX, 8, true), 0);
	assert_int_not_equal(open_patched(LANE_SIZE, lane_size * 2, 8, true), 0);
	assert_int_not_equal(open_patched(LANE_SIZE, lane_size + (UINT64_C(1) << 32), 8, true), 0);
	write_file(image, image_size);
	patch(CHUNKS, &(uint32_t){ 1 }, 4);
	patch(LANE_SIZE, &(uint64_t){ lane_size - 4 }, 8);
	assert_int_equal(expect_open(true), -EBADMSG);		      /* its last cell is cut off */
	assert_int_equal(open_patched(CHUNKS, 3, 4, true), -EBADMSG); /* too short */
	assert_int_equal(open_patched(CHUNKS, UINT32_MAX, 4, true), -EBADMSG);
}

/* The second chunk is a correct one, of another region. */
static void chunks_of_other_regions_are_refused(void **state)
{
	const size_t second = image_size / 2;
	uint64_t lane_size = 2 * PERCPU_LANE_SIZE, stride = PERCPU_STRIDE + PERCPU_LANE_SIZE;
	uint32_t cpus = percpu_status()->possible_cpus + 1;

	(void)state;
	assert_int_equal(open_patched(second + INDEX, 0, 4, true), -EBADMSG);
	assert_int_equal(open_patched(second + CPUS, cpus, 4, true), -EBADMSG);
	assert_int_equal(open_patched(second + CPUS, cpus, 4, false), -EBADMSG);
	write_file(image, image_size);
	patch(second + LANE_SIZE, &lane_size, 8);
	patch(second + STRIDE, &stride, 8);
	assert_int_equal(expect_open(true), -EBADMSG);
}

/* The file's size is correct, so a machine with fewer CPUs could have made it. */
static void too_few_lanes_are_refused(void **state)
{
	uint32_t cpus = percpu_status()->possible_cpus;

	(void)state;
	if (cpus < 2)
		test_skip("one possible CPU");
	write_file(image, image_size);
	patch(CPUS, &(uint32_t){ cpus - 1 }, 4);
	patch(CHUNKS, &(uint32_t){ 1 }, 4);
	assert_int_equal(expect_open(true), -ERANGE);
}

/* Runs in a child, as it may crash. */
static int flip_header_bytes(void *arg)
{
	static const unsigned char flips[] = { 0xff, 0x01, 0x80 };
	const size_t step = 10 / test_rounds(10);
	size_t base = *(size_t *)arg;
	int fd = open(path, O_RDWR);
	char what[64];

	for (size_t i = 0; i < HEADER; i += i < 64 ? 1 : step) {
		for (unsigned f = 0; f < 3; f++) {
			char byte = (char)(image[base + i] ^ flips[f]);

			if (f > 0 && i >= 48 && i % 16 != 0)
				continue; /* bitmaps: one flip is enough */
			if (i > ALLOC_LOCK && i < JOURNAL && i != ALLOC_LOCK + 4)
				continue; /* a lock that seems held: waits a second */
			snprintf(what, sizeof(what), "byte %zu of the header at %zu", i, base);
			test_child_require(pwrite(fd, image + base, HEADER, (off_t)base) == HEADER,
					   "write");
			test_child_require(pwrite(fd, &byte, 1, (off_t)(base + i)) == 1, "write");
			test_child_require(open_and_use(f == 0), what);
			test_child_require(open_and_use(f != 0), what);
		}
	}
	return 0;
}

static void flipped_headers_do_not_crash(void **state)
{
	size_t first = 0, second = image_size / 2;

	(void)state;
	assert_memory_equal(image, image + second, 8); /* both begin with the magic */
	write_file(image, image_size);
	test_in_child(flip_header_bytes, &first);
	write_file(image, image_size);
	test_in_child(flip_header_bytes, &second);
}

/* Write extreme numbers, several at once, also where cells are. */
static int scribble(void *arg)
{
	static const uint64_t edges[] = { 0,	      1,	  UINT64_MAX, INT64_MAX, UINT32_MAX,
					  0x80000000, 1ULL << 40, 1ULL << 47, 4095,	 65536 };
	uint64_t random = 51;

	(void)arg;
	for (int round = 0; round < (int)test_rounds(1500); round++) {
		int fd = open(path, O_RDWR);

		test_child_require(pwrite(fd, image, 8192, 0) == 8192, "write");
		for (uint64_t n = 1 + test_random(&random) % 4; n-- > 0;) {
			uint64_t v = edges[test_random(&random) % 10];
			size_t size = test_random(&random) % 2 ? 4 : 8;
			size_t at = test_random(&random) % (round % 2 ? 64 : 4096) / size * size;

			if (at < 8 || round % 3 == 0)
				at += 8; /* after magic */
			test_child_require(pwrite(fd, &v, size, (off_t)at) == (ssize_t)size,
					   "write");
		}
		close(fd);
		test_child_require(open_and_use(round & 4), "an errno that is documented");
	}
	return 0;
}

static void nonsense_does_not_crash(void **state)
{
	(void)state;
	write_file(image, image_size);
	test_in_child(scribble, NULL);
}

static void refusals_leave_nothing(void **state)
{
	struct test_holding before;

	(void)state;
	for (size_t size = 0; size < image_size; size = size * 2 + 1) {
		write_file(image, size);
		expect_open(true);
		before = test_holding_now();
		expect_open(true);
		expect_open(false);
		test_assert_holding(before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_file_opens),
		cmocka_unit_test(cut_files_are_refused),
		cmocka_unit_test(foreign_files_are_refused),
		cmocka_unit_test(other_geometry_is_refused),
		cmocka_unit_test(chunks_of_other_regions_are_refused),
		cmocka_unit_test(too_few_lanes_are_refused),
		cmocka_unit_test(flipped_headers_do_not_crash),
		cmocka_unit_test(nonsense_does_not_crash),
		cmocka_unit_test(refusals_leave_nothing),
	};

	return cmocka_run_group_tests(tests, make_image, drop_image);
}
