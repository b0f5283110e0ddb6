/* SPDX-License-Identifier: MIT */
/*
 * test_root_objects.c - objects at the roots: each kind is made once and found by all processes;
 * readers, versions, and mistakes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/percpu.h>

#include "support.h"
#include "../root_file.h"

#define N 200 /* counters */

/* A reader may start before the first writer. */
static void readers_wait_for_the_first_writer(void **state)
{
	struct percpu_counter_array *a = NULL, *b;
	struct percpu_region *r = NULL, *w;

	(void)state;
	assert_int_equal(percpu_region_open(path, 0, NULL, &r), -ENOENT);
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &w), 0);
	assert_int_equal(percpu_region_open(path, 0, NULL, &r), 0);
	assert_int_equal(percpu_counter_array_open(r, 0, N, &a), -ENOENT);
	assert_null(a);
	assert_int_equal(percpu_counter_array_open(w, 0, N, &b), 0);
	percpu_counter_array_add(b, 1, 3);
	assert_int_equal(percpu_counter_array_open(r, 0, N, &a), 0);
	assert_int_equal(percpu_counter_array_fetch(a, 1), 3);
	percpu_counter_array_detach(a);
	percpu_counter_array_detach(b);
	percpu_region_close(r);
	percpu_region_close(w);
	assert_int_equal(unlink(path), 0);
}

/* A new version needs more counters: it has them at another root, beside the old one. */
static void versions_count_side_by_side(void **state)
{
	struct percpu_counter_array *old, *new = NULL, *more;
	struct percpu_region *r, *s;

	(void)state;
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &r), 0);
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &s), 0);
	assert_int_equal(percpu_counter_array_open(r, 0, 2, &old), 0);
	assert_int_equal(percpu_counter_array_open(s, 0, 3, &new), -EEXIST);
	assert_null(new);
	assert_int_equal(percpu_counter_array_open(s, 0, 2, &new), 0);
	assert_int_equal(percpu_counter_array_open(s, 1, 6, &more), 0);
	percpu_counter_array_add(old, 1, 5);
	percpu_counter_array_add(new, 1, 2);
	percpu_counter_array_add(more, 0, 9);
	assert_int_equal(percpu_counter_array_fetch(new, 1), 7);
	assert_int_equal(percpu_counter_array_fetch(old, 0), 0);
	percpu_counter_array_detach(new);
	/* The old version is back, and needs the first few only. */
	assert_int_equal(percpu_counter_array_open(r, 1, 1, &new), 0);
	assert_int_equal(percpu_counter_array_fetch(new, 0), 9);
	percpu_counter_array_detach(new);
	percpu_counter_array_detach(old);
	percpu_counter_array_detach(more);
	percpu_region_close(r);
	percpu_region_close(s);
	assert_int_equal(unlink(path), 0);
}

struct port {
	uint64_t packets, bytes;
};

static void objects_of_each_kind_are_opened(void **state)
{
	PERCPU_STATS(struct port) ports, same, none = NULL;
	struct percpu_compact *set, *set2, *no_set = NULL;
	struct percpu_counter_array *no_array = NULL;
	struct percpu_counter *c, *c2, *no_counter = NULL;
	struct percpu_region *r, *s;
	struct port now;

	(void)state;
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &r), 0);
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &s), 0);
	assert_int_equal(PERCPU_STATS_OPEN(&ports, r, 5, 3, 0), 0);
	assert_int_equal(PERCPU_STATS_OPEN(&same, s, 5, 3, 0), 0);
	PERCPU_STATS_ADD(ports, 2, bytes, 60);
	assert_int_equal(PERCPU_STATS_FETCH(same, 2, 1, &now), 0);
	assert_int_equal(now.bytes, 60);
	assert_int_equal(percpu_compact_open(r, 6, 10, &set), 0);
	assert_int_equal(percpu_compact_open(s, 6, 10, &set2), 0);
	percpu_compact_add(set, 9, 4);
	assert_int_equal(percpu_compact_fetch(set2, 9), 4);
	assert_int_equal(percpu_counter_open(r, 7, &c), 0);
	assert_int_equal(percpu_counter_open(s, 7, &c2), 0);
	percpu_counter_add(c, 3);
	assert_int_equal(percpu_counter_fetch(c2), 3);
	assert_int_equal(percpu_counter_key(c2), percpu_region_root(r, 7));

	assert_int_equal(PERCPU_STATS_OPEN(&none, s, 5, 4, 0), -EEXIST);
	assert_int_equal(PERCPU_STATS_OPEN(&none, s, 5, 3, PERCPU_STATS_WHOLE), -EEXIST);
	assert_int_equal(PERCPU_STATS_OPEN(&none, s, 6, 3, 0), -EEXIST);
	assert_null(none);
	assert_int_equal(percpu_compact_open(s, 6, 9, &no_set), -EEXIST);
	assert_int_equal(percpu_compact_open(s, 5, 10, &no_set), -EEXIST);
	assert_null(no_set);
	assert_int_equal(percpu_counter_array_open(s, 5, 1, &no_array), -EEXIST);
	assert_int_equal(percpu_counter_array_open(s, 6, 1, &no_array), -EEXIST);
	assert_int_equal(percpu_counter_array_open(s, 7, 1, &no_array), -EEXIST);
	assert_null(no_array);
	assert_int_equal(percpu_counter_open(s, 5, &no_counter), -EEXIST);
	assert_int_equal(percpu_counter_open(s, 6, &no_counter), -EEXIST);
	assert_null(no_counter);
	percpu_counter_detach(c2);
	PERCPU_STATS_DETACH(ports);
	PERCPU_STATS_DETACH(same);
	percpu_compact_detach(set);
	percpu_compact_detach(set2);
	percpu_region_close(r);
	percpu_region_close(s);
	assert_int_equal(unlink(path), 0);
}

static void mistakes_are_refused(void **state)
{
	struct percpu_region_options bad = { .size = 1 };
	struct percpu_counter_array *a = NULL;
	struct percpu_region *r = NULL, *private;
	int fd;

	(void)state;
	assert_int_equal(percpu_region_open(path, PERCPU_REGION_CREATE, NULL, &r), -EINVAL);
	assert_int_equal(percpu_region_open(path, CREATE | 16, NULL, &r), -EINVAL);
	assert_int_equal(percpu_region_open(path, PERCPU_REGION_EXCL, NULL, &r), -EINVAL);
	assert_int_equal(
		percpu_region_open(path, PERCPU_REGION_WRITE | PERCPU_REGION_EXCL, NULL, &r),
		-EINVAL);
	assert_int_equal(percpu_region_open(path, CREATE, &bad, &r), -EINVAL);
	assert_int_equal(percpu_region_open(path, CREATE, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_region_open(NULL, CREATE, NULL, &r), -EINVAL);
	assert_int_equal(percpu_region_open("/nowhere/file", CREATE, NULL, &r), -ENOENT);
	assert_int_equal(percpu_region_open("/tmp", CREATE, NULL, &r), -EISDIR);
	assert_int_equal(percpu_region_open("", CREATE, NULL, &r), -ENOENT);
	assert_int_equal(files(), 0);

	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(percpu_region_open_fd(fd, CREATE | 16, NULL, &r), -EINVAL);
	assert_int_equal(percpu_region_open_fd(fd, PERCPU_REGION_CREATE, NULL, &r), -EINVAL);
	assert_int_equal(
		percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_EXCL, NULL, &r),
		-EINVAL);
	assert_int_equal(percpu_region_open_fd(fd, CREATE, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_region_open_fd(fd, CREATE, &bad, &r), -EINVAL);
	assert_int_equal(percpu_region_open_fd(-1, CREATE, &bad, &r), -EINVAL);
	assert_int_equal(percpu_region_open_fd(-1, CREATE, NULL, &r), -EBADF);
	assert_int_equal(percpu_region_open_fd(fd, PERCPU_REGION_WRITE, &bad, &r), -EBADMSG);
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &r), -EBADMSG);
	assert_int_equal(write(fd, "a file of another program\n", 26), 26);
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &r), -EBADMSG);
	assert_int_equal(lseek(fd, 0, SEEK_END), 26);
	close(fd);
	assert_int_equal(unlink(path), 0);
	assert_null(r);

	assert_int_equal(percpu_region_create(NULL, &private), 0);
	assert_int_equal(percpu_counter_array_open(private, 0, 1, &a), -EINVAL);
	percpu_region_close(private);
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &r), 0);
	assert_int_equal(percpu_counter_array_open(NULL, 0, 1, &a), -EINVAL);
	assert_int_equal(percpu_counter_array_open(r, PERCPU_REGION_ROOTS, 1, &a), -EINVAL);
	assert_int_equal(percpu_counter_array_open(r, 0, 1, NULL), -EINVAL);
	assert_int_equal(percpu_counter_array_open(r, 0, 0, &a), -EINVAL);
	assert_int_equal(percpu_counter_array_open(r, 0, SIZE_MAX, &a), -EINVAL);
	assert_null(a);
	assert_int_equal(percpu_region_root(r, 0), 0);
	percpu_region_close(r);
	assert_int_equal(used(), 0);
	assert_int_equal(unlink(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readers_wait_for_the_first_writer),
		cmocka_unit_test(versions_count_side_by_side),
		cmocka_unit_test(objects_of_each_kind_are_opened),
		cmocka_unit_test(mistakes_are_refused),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
