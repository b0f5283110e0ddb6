/* SPDX-License-Identifier: MIT */
/*
 * test_descriptor.c - files for which the kernel refuses a call: to set their length, to keep a
 * descriptor for owners, to lock them; and programs that close that descriptor.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <percpu/region.h>

#include "memory/memory.h"
#include "faults.h"
#include "support.h"

#define OWNERS (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS)

static bool no_limits; /* getrlimit() fails */

int __real_getrlimit64(int resource, struct rlimit *ret);
int __wrap_getrlimit64(int resource, struct rlimit *ret);
int __wrap_getrlimit64(int resource, struct rlimit *ret)
{
	if (!no_limits)
		return __real_getrlimit64(resource, ret);
	errno = EPERM;
	return -1;
}

static char path[128];
static struct percpu_region *region;

static int start(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "%s", test_path("file"));
	return percpu_region_open(path, OWNERS, NULL, &region);
}

static int stop(void **state)
{
	(void)state;
	(void)fault_clear();
	percpu_region_close(region);
	return unlink(path);
}

/* If the file system has no files of that length, the region can grow less. */
static void lengths_are_halved(void **state)
{
	static const struct {
		int error;
		size_t lane_size;
		int returns;
		uint32_t capacity;
	} cases[] = {
		{ EFBIG, 0, 0, PERCPU_MAX_FILE_CHUNKS / 2 },
		{ EINVAL, 0, 0, PERCPU_MAX_FILE_CHUNKS / 2 },
		{ ENOSPC, 0, 0, PERCPU_MAX_FILE_CHUNKS / 2 },
		{ EIO, 0, -EIO, 0 },
		{ EFBIG, 4096, -EFBIG, 0 },
		{ 0, 0, -EIO, 0 }, /* the kernel gives no error */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct percpu_region_options o = { .size = sizeof(o),
						   .lane_size = cases[i].lane_size };
		struct percpu_region *r = NULL;

		fault_set(FAULT_FTRUNCATE, 0, cases[i].error, false);
		assert_int_equal(test_region_new(test_path("half"), &o, &r), cases[i].returns);
		assert_int_equal(fault_clear(), 1);
		if (r != NULL)
			assert_int_equal(r->capacity, cases[i].capacity);
		assert_int_equal(r != NULL, cases[i].returns == 0);
		percpu_region_close(r);
		assert_int_equal(unlink(test_path("half")), cases[i].returns == 0 ? 0 : -1);
	}
}

static void far_limits_take_nothing(void **state)
{
	const struct rlimit far = { (rlim_t)1 << 60, RLIM_INFINITY };
	struct percpu_region *r;
	struct rlimit before;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	for (int i = 0; i < 2; i++) {
		no_limits = i == 0;
		if (i == 1 && setrlimit(RLIMIT_FSIZE, &far) != 0)
			test_skip("a lower limit is set");
		assert_int_equal(test_region_new(test_path("far"), NULL, &r), 0);
		no_limits = false;
		assert_int_equal(r->capacity, PERCPU_MAX_FILE_CHUNKS);
		percpu_region_close(r);
		assert_int_equal(unlink(test_path("far")), 0);
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/* A region in memory of the program has no file. */
static void files_are_in_no_memory(void **state)
{
	static uint64_t memory[8];
	const struct percpu_region_options options[] = {
		{ .size = sizeof(options[0]), .memory = memory, .memory_size = sizeof(memory) },
		{ .size = sizeof(options[0]), .memory = memory },
		{ .size = sizeof(options[0]), .memory_size = sizeof(memory) },
	};
	struct percpu_region *r = NULL;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(test_region_new(test_path("no"), &options[i], &r), -EINVAL);
	assert_null(r);
	assert_int_equal(access(test_path("no"), F_OK), -1);
}

/* If the boot id cannot be read for lack of resources, that is an error. After other failures it
 * is not known. */
static void boots_are_asked_for_again(void **state)
{
	static const struct {
		int error, returns;
	} cases[] = { { EMFILE, -EMFILE },
		      { ENFILE, -ENFILE },
		      { ENOMEM, -ENOMEM },
		      { EACCES, 0 },
		      { ENOENT, 0 } };
	uint64_t boot;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		boot = 77;
		fault_set(FAULT_OPEN, 0, cases[i].error, false);
		assert_int_equal(percpu_boot_id_read(&boot), cases[i].returns);
		assert_int_equal(fault_clear(), 1);
		assert_int_equal(boot, cases[i].returns == 0 ? 0 : 77);
	}
}

/* If the descriptor for owners cannot be kept, no file is made. */
static void no_file_without_its_descriptor(void **state)
{
	struct percpu_region *r = NULL;

	(void)state;
	fault_set(FAULT_FCNTL, 0, EMFILE, false);
	assert_int_equal(percpu_region_open(test_path("new"), OWNERS, NULL, &r), -EMFILE);
	assert_int_equal(fault_clear(), 1);
	assert_null(r);
	assert_int_equal(access(test_path("new"), F_OK), -1);
}

/* Calls that need the file or a lock of it, while the kernel refuses one. */

static uint64_t byte_at(size_t offset)
{
	return percpu_descriptor_byte(region->first, offset);
}

static int lock(void)
{
	return percpu_descriptor_lock(region, byte_at(0));
}

static int locked(void)
{
	return percpu_descriptor_locked(region, byte_at(0));
}

static int pin(void)
{
	void *page = NULL;
	int e = percpu_descriptor_lock_mapped(region, byte_at(8), &page);

	assert_int_equal(page != NULL, e == 0);
	percpu_descriptor_unlock_mapped(page);
	return e;
}

static int is_free(void)
{
	return percpu_descriptor_is_free(region, byte_at(0)) ? 0 : -EBADF;
}

static int anew(void)
{
	int fd = percpu_descriptor_anew(region, region->file.fd);

	return fd >= 0 ? close(fd) : fd;
}

static int keep(void)
{
	const struct percpu_descriptor file = region->file;
	int e = percpu_descriptor_keep(region, file.fd, true);

	if (e == 0)
		close(region->file.fd);
	region->file = file;
	return e;
}

static const struct call {
	int (*call)(void);
	enum fault_call refused;
	unsigned nth;
	int error, returns;
} calls[] = {
	{ lock, FAULT_FCNTL, 0, EAGAIN, -EAGAIN },
	{ lock, FAULT_FCNTL, 0, EACCES, -EAGAIN }, /* POSIX has both for "held" */
	{ lock, FAULT_FCNTL, 0, ENOLCK, -ENOLCK },
	{ lock, FAULT_FSTAT, 0, EIO, -EBADF },
	{ locked, FAULT_FCNTL, 0, ENOLCK, -ENOLCK },
	{ locked, FAULT_FSTAT, 0, EIO, -EBADF },
	{ pin, FAULT_FCNTL, 0, EAGAIN, -EAGAIN },
	{ pin, FAULT_FSTAT, 0, EIO, -EBADF },
	{ pin, FAULT_FSTAT, 1, EIO, -EBADF }, /* opened again, it is another file */
	{ pin, FAULT_OPEN, 0, EMFILE, -EMFILE },
	{ pin, FAULT_MMAP, 0, ENOMEM, -ENOMEM },
	{ is_free, FAULT_FCNTL, 0, ENOLCK, -EBADF },
	{ is_free, FAULT_FSTAT, 0, EIO, -EBADF },
	{ anew, FAULT_OPEN, 0, EACCES, -EACCES },
	{ anew, FAULT_FSTAT, 0, EIO, -EBADF },
	{ keep, FAULT_FSTAT, 0, EIO, -EIO },
	{ keep, FAULT_FCNTL, 0, EMFILE, -EMFILE },
};

static void refusals_are_told(void **state)
{
	struct test_holding before = test_holding_now();

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fault_set(calls[i].refused, calls[i].nth, calls[i].error, false);
		assert_int_equal(calls[i].call(), calls[i].returns);
		assert_int_equal(fault_clear(), 1);
		test_assert_holding(before);
		assert_int_equal(calls[i].call(), 0);
		percpu_descriptor_unlock(region, byte_at(0));
	}
}

/* The descriptor is that of another file: one of the same file system, and one of another. */
static void files_of_others_are_left_alone(void **state)
{
	const int kept = dup(region->file.fd);
	const int others[2] = { open(test_path("other"), O_RDWR | O_CREAT | O_CLOEXEC, 0600),
				memfd_create("other", MFD_CLOEXEC) };

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(dup2(others[i], region->file.fd), region->file.fd);
		for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++)
			if (calls[k].call != keep)
				assert_int_equal(calls[k].call(), -EBADF);
		percpu_descriptor_renew(region);
		close(others[i]);
	}
	assert_int_equal(dup2(kept, region->file.fd), region->file.fd);
	close(kept);
	assert_int_equal(lock(), 0);
	assert_int_equal(unlink(test_path("other")), 0);
}

/* A byte is free once the last of its locks is gone. Locks of other bytes do not count. */
static void the_last_lock_frees_the_byte(void **state)
{
	void *pins[2], *beside[2];

	(void)state;
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(percpu_descriptor_lock_mapped(region, byte_at(2 * i), &beside[i]),
				 0);
	assert_true(percpu_descriptor_is_free(region, byte_at(1)));
	for (int i = 0; i < 2; i++)
		assert_int_equal(percpu_descriptor_lock_mapped(region, byte_at(1), &pins[i]), 0);
	for (int i = 0; i < 2; i++) {
		assert_false(percpu_descriptor_is_free(region, byte_at(1)));
		percpu_descriptor_unlock_mapped(pins[i]);
	}
	assert_true(percpu_descriptor_is_free(region, byte_at(1)));
	for (int i = 0; i < 2; i++)
		percpu_descriptor_unlock_mapped(beside[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_are_halved),
		cmocka_unit_test(far_limits_take_nothing),
		cmocka_unit_test(files_are_in_no_memory),
		cmocka_unit_test(boots_are_asked_for_again),
		cmocka_unit_test(no_file_without_its_descriptor),
		cmocka_unit_test_setup_teardown(refusals_are_told, start, stop),
		cmocka_unit_test_setup_teardown(files_of_others_are_left_alone, start, stop),
		cmocka_unit_test_setup_teardown(the_last_lock_frees_the_byte, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
