/* SPDX-License-Identifier: MIT */
/*
 * test_segment_open.c - opening segments: by name, by path, by descriptor; whose file it is, and
 * what is none.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "../support.h"

#include "segment/segment.h"

#define CREATE (PERCPU_SEGMENT_WRITE | PERCPU_SEGMENT_CREATE)

static char path[128];
static struct percpu_segment *s, *t; /* of two processes, as it were */

static int name_file(void **state)
{
	(void)state;
	strcpy(path, test_path("segment"));
	return 0;
}

static void flat_names_are_in_dev_shm(void **state)
{
	char name[64], file[128], longest[202];
	struct percpu_segment *none = NULL;
	struct stat st;

	(void)state;
	snprintf(name, sizeof(name), "test-segment_1.%ld", (long)getpid());
	snprintf(file, sizeof(file), "/dev/shm/percpu.%s", name);
	assert_int_equal(percpu_segment_open(name, 0, NULL, &none), -ENOENT);
	assert_int_equal(percpu_segment_open(name, CREATE, NULL, &s), 0);
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
	assert_int_equal(percpu_segment_open("", CREATE, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open(".hidden", CREATE, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open("..", CREATE, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open("a b", CREATE, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open("a\n", CREATE, NULL, &none), -EINVAL);
	assert_null(none);
}

static void options_are_those_of_the_region(void **state)
{
	const struct percpu_segment_options o = { .size = sizeof(o), .mode = 0640, .cpus = 64 };
	struct percpu_segment_options bad = { .size = 1 };
	struct stat st;

	(void)state;
	umask(022);
	assert_int_equal(percpu_segment_open(path, CREATE, &bad, &s), -EINVAL);
	assert_int_equal(percpu_segment_open(path, CREATE, &o, &s), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(s->region->cpus, 64);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

static void links_and_files_of_others_are_refused(void **state)
{
	struct percpu_segment *none = NULL;
	char other[160];

	(void)state;
	snprintf(other, sizeof(other), "%s.link", path);
	assert_int_equal(percpu_segment_open(path, CREATE, NULL, &s), 0);
	percpu_segment_close(s);
	assert_int_equal(symlink(path, other), 0);
	assert_int_equal(percpu_segment_open(other, 0, NULL, &none), -ELOOP);
	assert_int_equal(percpu_segment_open(other, CREATE, NULL, &none), -ELOOP);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(symlink("nowhere", other), 0);
	assert_int_equal(percpu_segment_open(other, CREATE, NULL, &none), -ELOOP);
	assert_int_equal(unlink(other), 0);
	if (chown(path, 12345, (gid_t)-1) == 0) {
		assert_int_equal(percpu_segment_open(path, CREATE, NULL, &none), -EPERM);
		assert_int_equal(percpu_segment_open(path, PERCPU_SEGMENT_WRITE, NULL, &none),
				 -EPERM);
		assert_int_equal(percpu_segment_open(path,
						     PERCPU_SEGMENT_WRITE | PERCPU_SEGMENT_FOREIGN,
						     NULL, &s),
				 0);
		percpu_segment_close(s);
		assert_int_equal(percpu_segment_open(path, 0, NULL, &s), 0);
		percpu_segment_close(s);
	}
	assert_null(none);
	assert_int_equal(unlink(path), 0);
}

static void descriptors_are_opened(void **state)
{
	struct percpu_segment *none = NULL;
	int fd = memfd_create("segment", MFD_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(percpu_segment_open_fd(fd, PERCPU_SEGMENT_WRITE, NULL, &none), -EBADMSG);
	assert_int_equal(percpu_segment_open_fd(fd, 16, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open_fd(-1, CREATE, NULL, &none), -EBADF);
	assert_int_equal(percpu_segment_open_fd(fd, CREATE, NULL, &s), 0);
	assert_int_equal(percpu_segment_open_fd(fd, CREATE, NULL, &t), 0);
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
	assert_int_equal(percpu_region_create_file(path, NULL, &r), 0);
	assert_int_equal(percpu_segment_open(path, 0, NULL, &none), -ENOENT);
	assert_int_equal(percpu_counter_open(r, 0, &c), 0);
	assert_int_equal(percpu_segment_open(path, 0, NULL, &none), -EBADMSG);
	assert_int_equal(percpu_segment_open(path, CREATE, NULL, &none), -EBADMSG);
	percpu_region_close(r);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(percpu_region_create_file(path, &o, &r), 0);
	percpu_region_close(r);
	assert_int_equal(percpu_segment_open(path, CREATE, NULL, &none), -EBADMSG);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(percpu_segment_open(path, CREATE, NULL, &s), 0);
	s->control->version++;
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
	assert_int_equal(percpu_segment_open(path, 16, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open(path, PERCPU_SEGMENT_CREATE, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open(path, PERCPU_SEGMENT_FOREIGN, NULL, &none), -EINVAL);
	assert_int_equal(percpu_segment_open_fd(0, 0, NULL, NULL), -EINVAL);
	assert_null(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flat_names_are_in_dev_shm),
		cmocka_unit_test(options_are_those_of_the_region),
		cmocka_unit_test(links_and_files_of_others_are_refused),
		cmocka_unit_test(descriptors_are_opened),
		cmocka_unit_test(other_regions_are_told_apart),
		cmocka_unit_test(mistakes_are_refused),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
