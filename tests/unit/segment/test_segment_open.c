/* SPDX-License-Identifier: MIT */
/*
 * test_segment_open.c - opening segments by name, path and descriptor: of which users they may
 * be, and which files are no segments.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"
#include "../root_file.h"
#include "../segments.h"

#include "segment/segment.h"

static struct percpu_segment *s, *t; /* opened twice, as by two processes */

static void flat_names_are_in_dev_shm(void **state)
{
	char name[64], file[128], longest[202];
	struct percpu_segment *none = NULL;
	struct stat st;

	(void)state;
	snprintf(name, sizeof(name), "test-segment_1.%ld", (long)getpid());
	snprintf(file, sizeof(file), "/dev/shm/percpu.%s", name);
	assert_int_equal(percpu_segment_open(name, 0, NULL, &none), -ENOENT);
	assert_int_equal(percpu_segment_open(name, ALL, NULL, &s), 0);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	percpu_segment_close(s);
	assert_int_equal(percpu_segment_open(name, 0, NULL, &s), 0);
	percpu_segment_close(s);
	assert_int_equal(unlink(file), 0);

	memset(longest, 'x', 201);
	longest[201] = '\0';
	assert_int_equal(percpu_segment_open(longest, 0, NULL, &none), -ENAMETOOLONG);
	longest[200] = '\0';
	assert_int_equal(percpu_segment_open(longest, 0, NULL, &none), -ENOENT);
	assert_int_equal(percpu_segment_open("", ALL, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open(".hidden", ALL, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open("..", ALL, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open("a b", ALL, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open("a\n", ALL, NULL, &none), -EINVAL);
	assert_null(none);
}

static void options_are_those_of_the_region(void **state)
{
	const struct percpu_segment_options o = { .size = sizeof(o), .mode = 0640, .cpus = 64 };
	struct percpu_segment_options bad = { .size = 1 };
	struct stat st;

	(void)state;
	umask(022);
	assert_int_equal(percpu_segment_open(path, ALL, &bad, &s), -EINVAL);
	assert_int_equal(percpu_segment_open(path, ALL, &o, &s), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(s->region->cpus, 64);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

static void links_are_refused(void **state)
{
	struct percpu_segment *none = NULL;
	char other[160];

	(void)state;
	snprintf(other, sizeof(other), "%s.link", path);
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	percpu_segment_close(s);
	assert_int_equal(symlink(path, other), 0);
	assert_int_equal(percpu_segment_open(other, 0, NULL, &none), -ELOOP);
	assert_int_equal(percpu_segment_open(other, ALL, NULL, &none), -ELOOP);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(symlink("nowhere", other), 0);
	assert_int_equal(percpu_segment_open(other, ALL, NULL, &none), -ELOOP);
	assert_int_equal(unlink(other), 0);
	assert_null(none);
	assert_int_equal(unlink(path), 0);
}

/* Opening to write is for files of the same user only, unless PERCPU_SEGMENT_FOREIGN is set.
 * Opening to read is for all. */

static int open_by_path(unsigned flags, struct percpu_segment **ret)
{
	return percpu_segment_open(path, flags, NULL, ret);
}

static int open_by_descriptor(unsigned flags, struct percpu_segment **ret)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), e;

	assert_true(fd >= 0);
	e = percpu_segment_open_fd(fd, flags, NULL, ret);
	close(fd);
	return e;
}

static int (*const ways[])(unsigned flags, struct percpu_segment **ret) = { open_by_path,
									    open_by_descriptor };
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* Give the file to another user. */
static void give_away(void)
{
	if (chown(path, 12345, (gid_t)-1) != 0) {
		assert_int_equal(unlink(path), 0);
		test_skip("not permitted to give a file away");
	}
}

static void files_of_others_are_refused(void **state)
{
	static const struct {
		unsigned flags;
		int e;
	} told[] = {
		{ ALL, -EPERM },
		{ 0, -EPERM },
		{ PERCPU_SEGMENT_ANEW, -EPERM },
		{ PERCPU_SEGMENT_FOREIGN, 0 },
		{ ALL | PERCPU_SEGMENT_FOREIGN, 0 },
	};
	struct percpu_segment *opened;

	(void)state;
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	percpu_segment_close(s);
	give_away();
	for (int way = 0; way < WAYS; way++)
		for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
			opened = NULL;
			assert_int_equal(ways[way](told[i].flags, &opened), told[i].e);
			assert_int_equal(opened != NULL, told[i].e == 0);
			if (opened != NULL)
				assert_int_equal(opened->control->generation, 1);
			percpu_segment_close(opened);
		}
	assert_int_equal(unlink(path), 0);
}

/* A privileged program has taken the rights of another user. That user's files are its own, and
 * those of the user that started it are not. */
static int open_as_another_user(void *arg)
{
	const int fd = *(int *)arg;
	struct percpu_segment *opened = NULL;
	int own;

	if (seteuid(12345) != 0)
		return 77;
	own = memfd_create("own", MFD_CLOEXEC);
	test_child_require(percpu_segment_open_fd(own, ALL, NULL, &opened) == 0, "its own");
	percpu_segment_close(opened);
	return percpu_segment_open_fd(fd, 0, NULL, &opened) == -EPERM ? 0 : 1;
}

static void effective_users_own_files(void **state)
{
	int fd = memfd_create("segment", MFD_CLOEXEC), status;

	(void)state;
	assert_int_equal(percpu_segment_open_fd(fd, ALL, NULL, &s), 0);
	percpu_segment_close(s);
	status = test_wait(test_fork(open_as_another_user, &fd), 60);
	close(fd);
	if (status == 77 << 8)
		test_skip("not permitted to be another user");
	assert_int_equal(status, 0);
}

static void empty_files_of_others_stay_empty(void **state)
{
	struct percpu_segment *none = NULL;
	struct stat st;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	give_away();
	for (int way = 0; way < WAYS; way++) {
		assert_int_equal(ways[way](ALL, &none), -EPERM);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_size, 0);
	}
	assert_null(none);
	assert_int_equal(unlink(path), 0);
}

/* A consistent reader counts nothing, so it may open the file of another user. */
static void consistent_readers_open_files_of_others(void **state)
{
	struct percpu_reader *r;
	int fd;

	(void)state;
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	percpu_segment_close(s);
	give_away();
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(percpu_reader_set_consistent(r), 0);
	percpu_reader_close(r);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(percpu_reader_open_fd(fd, &r), 0);
	assert_int_equal(percpu_reader_set_consistent(r), 0);
	percpu_reader_close(r);
	close(fd);
	assert_int_equal(unlink(path), 0);
}

static void descriptors_are_opened(void **state)
{
	struct percpu_segment *none = NULL;
	int fd = memfd_create("segment", MFD_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(percpu_segment_open_fd(fd, 0, NULL, &none), -EBADMSG);
	assert_int_equal(percpu_segment_open_fd(fd, 32, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open_fd(-1, ALL, NULL, &none), -EBADF);
	assert_int_equal(percpu_segment_open_fd(fd, ALL, NULL, &s), 0);
	assert_int_equal(percpu_segment_open_fd(fd, ALL, NULL, &t), 0);
	assert_int_equal(t->control->generation, 1);
	percpu_segment_close(t);
	percpu_segment_close(s);
	assert_null(none);
	close(fd);
}

static void other_regions_are_told_apart(void **state)
{
	const struct percpu_region_options o = { .size = sizeof(o), .lane_size = 8192 };
	struct percpu_segment *none = NULL;
	struct percpu_counter *c;
	struct percpu_region *r;

	(void)state;
	assert_int_equal(test_region_new(path, NULL, &r), 0);
	assert_int_equal(percpu_counter_open(r, 0, &c), 0);
	assert_int_equal(percpu_segment_open(path, 0, NULL, &none), -EBADMSG);
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &none), -EBADMSG);
	percpu_region_close(r);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(test_region_new(path, &o, &r), 0);
	percpu_region_close(r);
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &none), -EBADMSG);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	s->control->version++;
	assert_int_equal(percpu_segment_open(path, 0, NULL, &none), -EPROTO);
	s->control->version = 1;
	assert_int_equal(percpu_segment_open(path, 0, NULL, &none), -EPROTO);
	percpu_segment_close(s);
	assert_null(none);
	assert_int_equal(unlink(path), 0);
}

static void mistakes_are_refused(void **state)
{
	struct percpu_segment *none = NULL;

	(void)state;
	assert_int_equal(percpu_segment_open(NULL, 0, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open(path, 0, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_segment_open(path, 32, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open_fd(0, 0, NULL, NULL), -EINVAL);
	assert_null(none);
}

/* The disk is full after the region is made, and before its control is: neither a name nor a
 * byte is left. */

static unsigned files_in(const char *directory)
{
	DIR *d = opendir(directory);
	unsigned n = 0;

	test_child_require(d != NULL, directory);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/* Fill the disk. Returns whether a region was made, and no segment. */
static bool fill_disk(const char *directory, unsigned kib)
{
	struct percpu_segment *none = NULL;
	struct percpu_region *r;
	char size[32];
	struct stat st;
	int e, fd;

	snprintf(size, sizeof(size), "size=%uk", kib);
	test_child_require(mount("tmpfs", directory, "tmpfs", 0, size) == 0, size);
	e = percpu_segment_open(path, ALL, NULL, &none);
	if (e == 0)
		percpu_segment_close(none);
	test_child_require(e == 0 || (e == -ENOSPC && none == NULL), "a full disk");
	test_child_require(files_in(directory) == (e == 0 ? 3 : 2), "no name without a segment");
	(void)unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	test_child_require(fd >= 0, "a file");
	test_child_require(percpu_segment_open_fd(fd, ALL, NULL, &none) == e, "the same");
	if (e == 0)
		percpu_segment_close(none);
	test_child_require(fstat(fd, &st) == 0 && (st.st_size == 0) == (e != 0), "or empty");
	close(fd);
	(void)unlink(path);
	if (e != 0 && test_region_new(path, NULL, &r) == 0)
		percpu_region_close(r);
	else
		e = 0;
	test_child_require(umount(directory) == 0, "unmounted");
	return e != 0;
}

static int with_full_disk(void *arg)
{
	char directory[128];
	unsigned between = 0;

	(void)arg;
	snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(path, '/') - path), path);
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return 77;
	for (unsigned kib = 4; kib < 512; kib += 4)
		between += fill_disk(directory, kib);
	test_child_require(between != 0, "some have room for a region");
	return 0;
}

static void full_disks_get_no_segment(void **state)
{
	int status = test_wait(test_fork(with_full_disk, NULL), 60);

	(void)state;
	if (status == 77 << 8)
		test_skip("cannot mount");
	assert_int_equal(status, 0);
}

static void directories_are_none(void **state)
{
	struct percpu_segment *none = NULL;

	(void)state;
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(percpu_segment_open(path, 0, NULL, &none), -EISDIR);
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &none), -EISDIR);
	assert_int_equal(rmdir(path), 0);
	assert_null(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flat_names_are_in_dev_shm),
		cmocka_unit_test(options_are_those_of_the_region),
		cmocka_unit_test(links_are_refused),
		cmocka_unit_test(files_of_others_are_refused),
		cmocka_unit_test(effective_users_own_files),
		cmocka_unit_test(empty_files_of_others_stay_empty),
		cmocka_unit_test(consistent_readers_open_files_of_others),
		cmocka_unit_test(descriptors_are_opened),
		cmocka_unit_test(other_regions_are_told_apart),
		cmocka_unit_test(mistakes_are_refused),
		cmocka_unit_test(directories_are_none),
		cmocka_unit_test(full_disks_get_no_segment),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
