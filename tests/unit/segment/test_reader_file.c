/* SPDX-License-Identifier: MIT */
/*
 * test_reader_file.c - readers of files that grow, are replaced, cut short or reset, or are no
 * segments; and consistent pictures, of files that the reader may write to.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "picture.h"
#include "support.h"
#include "reader_calls.h"

#include "segment/reader.h"

/* Grow beyond one chunk and one block of records, with one reader from the beginning. */
static void a_segment_grows(void **state)
{
	enum { N = 9000 };
	const char *const name[] = { "i" };
	struct percpu_metric m = *METRIC("a_total");
	struct percpu_counter *c;
	char text[16], *end;
	const char *const value[] = { text };
	uint64_t count;
	size_t n = 0;

	(void)state;
	m.label_names = name;
	m.label_values = value;
	m.labels = 1;
	for (unsigned i = 0; i < N; i++) {
		snprintf(text, sizeof(text), "%u", i);
		assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
		percpu_counter_add(c, i + 1);
		if (i % 1000 == 10)
			assert_int_equal(look(), i + 1);
	}
	n = look();
	assert_int_equal(n, N);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(percpu_reader_counter(r, i, &count), 0);
		assert_int_equal(count, strtoul(series_of(i).label_values[0], &end, 10) + 1);
	}
}

static void a_killed_start_is_waited_for(void **state)
{
	struct percpu_segment *again = NULL;

	(void)state;
	(void)counter("a_total");
	s->control->started[0] = s->control->started[1];
	s->control->generation = 2;
	assert_int_equal(take(), -EAGAIN);
	assert_int_equal(percpu_reader_count(r), 0);
	assert_non_null(strstr(percpu_error(), "being reset"));
	assert_int_equal(percpu_segment_open(path, 0, NULL, &again), 0);
	percpu_segment_close(again);
	assert_int_equal(look(), 1);
}

static void a_file_that_is_replaced_is_told(void **state)
{
	(void)state;
	(void)counter("a_total");
	assert_int_equal(look(), 1);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(take(), -ESTALE);
	assert_int_equal(percpu_reader_count(r), 0);
	assert_non_null(strstr(percpu_error(), path));
	percpu_segment_close(s);
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	assert_int_equal(take(), -ESTALE);
}

/* The name is a link now, which a reader does not follow, even to the same file. */
static void a_file_that_a_link_replaces_is_told(void **state)
{
	char moved[160];

	(void)state;
	snprintf(moved, sizeof(moved), "%s.moved", path);
	assert_int_equal(look(), 0);
	assert_int_equal(rename(path, moved), 0);
	assert_int_equal(symlink(moved, path), 0);
	assert_int_equal(take(), -ESTALE);
	assert_int_equal(rename(moved, path), 0);
	assert_int_equal(look(), 0);
}

/* The folder is another file system's now, where a file has the same name, and the same number. */
static void a_file_of_another_file_system_is_told(void **state)
{
	char folder[160], name[176];
	struct stat st;

	(void)state;
	test_may_leave_descriptors(); /* on another device, it is another file */
	snprintf(folder, sizeof(folder), "%s.d\xc3\xbc", path);
	snprintf(name, sizeof(name), "%s/version", folder);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(rename(path, name), 0);
	percpu_reader_close(r);
	assert_int_equal(percpu_reader_open(name, &r), 0);
	assert_int_equal(look(), 0);
	assert_int_equal(rename(name, path), 0);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(symlink("/proc", folder), 0);
	assert_int_equal(stat(name, &st), 0);
	assert_int_equal(take(), -ESTALE);
	assert_non_null(strstr(percpu_error(), name));
	r->s->region->file.inode = st.st_ino;
	assert_int_equal(percpu_reader_check_name(r), -ESTALE);
	assert_int_equal(unlink(folder), 0);
}

static void a_file_that_is_cut_short_is_told(void **state)
{
	struct stat st;

	(void)state;
	percpu_counter_add(counter("a_total"), 1);
	assert_int_equal(look(), 1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, PERCPU_HEAD + PERCPU_STRIDE / 2), 0);
	assert_int_equal(take(), -EBADMSG);
	assert_int_equal(percpu_reader_count(r), 0);
	assert_non_null(strstr(percpu_error(), "cut short"));
	assert_int_equal(truncate(path, st.st_size), 0);
	assert_int_equal(take(), -EBADMSG); /* zeros */
}

static void files_that_are_no_segments_are_refused(void **state)
{
	struct percpu_region *region = NULL;
	struct percpu_reader *t = NULL;
	char other[160];
	int fd;

	(void)state;
	snprintf(other, sizeof(other), "%s.other", path);
	assert_int_equal(percpu_reader_open(NULL, &t), -EINVAL);
	assert_int_equal(percpu_reader_open(path, NULL), -EINVAL);
	assert_int_equal(percpu_reader_open("", &t), -EINVAL);
	assert_int_equal(percpu_reader_open(other, &t), -ENOENT);
	assert_int_equal(percpu_reader_open("/dev/shm", &t), -EISDIR);
	assert_int_equal(percpu_reader_open("/dev/null", &t), -EBADMSG);
	assert_int_equal(symlink(path, other), 0);
	assert_int_equal(percpu_reader_open(other, &t), -ELOOP);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(mkfifo(other, 0600), 0);
	assert_int_equal(percpu_reader_open(other, &t), -EBADMSG);
	assert_int_equal(unlink(other), 0);
	fd = open(other, O_RDWR | O_CREAT, 0600);
	assert_int_equal(percpu_reader_open_fd(fd, &t), -EBADMSG);
	assert_int_equal(close(fd), 0);
	assert_int_equal(percpu_reader_open(other, &t), -EBADMSG);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(test_region_new(other, NULL, &region), 0);
	percpu_region_close(region);
	assert_int_equal(percpu_reader_open(other, &t), -ENOENT);
	fd = open(other, O_WRONLY);
	assert_int_equal(percpu_reader_open_fd(fd, &t), -EBADF);
	assert_int_equal(close(fd), 0);
	assert_int_equal(percpu_reader_open_fd(-1, &t), -EBADF);
	assert_int_equal(percpu_reader_open_fd(-1, NULL), -EINVAL);
	assert_int_equal(unlink(other), 0);
	assert_null(t);
}

/* The reader's name is relative to the folder in which it was opened. */
static void the_program_may_change_its_folder(void **state)
{
	const int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char folder[sizeof(path)], name[sizeof(path) + 2];

	(void)state;
	strcpy(folder, path);
	snprintf(name, sizeof(name), ".%s", strrchr(path, '/'));
	*strrchr(folder, '/') = '\0';
	percpu_reader_close(r);
	assert_int_equal(chdir(folder), 0);
	assert_int_equal(percpu_reader_open(name, &r), 0);
	(void)counter("a_total");
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(look(), 1);
	assert_int_equal(percpu_reader_set_consistent(r), 0);
	assert_int_equal(look(), 1);
	assert_int_equal(fchdir(here), 0);
	assert_int_equal(close(here), 0);
}

/* The folder was removed: names of files in it lead nowhere. */
static void a_folder_that_is_gone_has_no_files(void **state)
{
	const int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct percpu_reader *t = NULL;
	char folder[160];

	(void)state;
	snprintf(folder, sizeof(folder), "%s.d\xc3\xbc", path);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(chdir(folder), 0);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(percpu_reader_open("./reader", &t), -ENOENT);
	assert_null(t);
	assert_int_equal(fchdir(here), 0);
	assert_int_equal(close(here), 0);
}

/* The program is in a folder that was removed: it has no path, but a name leads out of it. */
static void a_folder_that_is_gone_has_a_parent(void **state)
{
	const int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char folder[160], name[sizeof(path) + 2];

	(void)state;
	(void)counter("a_total");
	snprintf(folder, sizeof(folder), "%s.d", path);
	snprintf(name, sizeof(name), "..%s", strrchr(path, '/'));
	percpu_reader_close(r);
	r = NULL;
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(chdir(folder), 0);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(percpu_reader_open(name, &r), 0);
	assert_int_equal(fchdir(here), 0);
	assert_int_equal(close(here), 0);
	assert_int_equal(look(), 1);
	assert_int_equal(percpu_reader_set_consistent(r), -EBADF);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(look(), 1);
}

/* Become a user that may not follow the path to the segment. */
static void leave_the_path(void)
{
	struct stat st;

	if (geteuid() == 0)
		test_child_require(setgid(65534) == 0 && setuid(65534) == 0, "another user");
	test_child_require(lstat(path, &st) == -1 && errno == EACCES, "the path is closed");
}

static int read_without_path(void *arg)
{
	(void)arg;
	leave_the_path();
	test_child_require(percpu_reader_read(r) == 0, "a picture");
	test_child_require(percpu_reader_count(r) == 1, "a counter");
	test_child_require(percpu_reader_set_consistent(r) == -EACCES, "it cannot be opened");
	return 0;
}

static int open_without_path(void *name)
{
	struct percpu_reader *t;

	leave_the_path();
	test_child_require(percpu_reader_open(name, &t) == 0, "open by a name from here");
	test_child_require(percpu_reader_read(t) == 0, "a picture");
	percpu_reader_close(t);
	return 0;
}

/* A process that may no longer follow the path does not take the file for another one. */
static void a_path_that_is_closed_tells_nothing(void **state)
{
	const int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char folder[160], name[] = "./segment";
	int work;

	(void)state;
	(void)counter("a_total");
	assert_int_equal(chmod(path, 0644), 0);
	snprintf(folder, sizeof(folder), "%s.d", path);
	assert_int_equal(mkdir(folder, 0755), 0);
	assert_int_equal(chmod(folder, 0755), 0);
	assert_int_equal(chdir(folder), 0);
	assert_int_equal(link(path, name), 0);
	work = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(chmod("..", 0), 0);
	test_in_child(read_without_path, NULL);
	test_in_child(open_without_path, name);
	assert_int_equal(fchdir(work), 0);
	assert_int_equal(chmod("..", 0700), 0);
	assert_int_equal(unlink(name), 0);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(fchdir(here), 0);
	assert_int_equal(close(here), 0);
	assert_int_equal(close(work), 0);
}

/* The path from the root is longer than the kernel follows. */
static void a_path_may_be_too_long(void **state)
{
	enum { DEEP = 21 };
	const int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char folder[201], name[] = "./segment";

	(void)state;
	(void)counter("a_total");
	percpu_reader_close(r);
	r = NULL;
	snprintf(folder, sizeof(folder), "%s", path);
	*strrchr(folder, '/') = '\0';
	assert_int_equal(chdir(folder), 0);
	memset(folder, 'd', 200);
	folder[200] = '\0';
	for (int i = 0; i < DEEP; i++) {
		assert_int_equal(mkdir(folder, 0700), 0);
		assert_int_equal(chdir(folder), 0);
	}
	assert_int_equal(link(path, name), 0);
	assert_int_equal(percpu_reader_open(name, &r), 0);
	assert_int_equal(look(), 1);
	assert_int_equal(unlink(name), 0);
	for (int i = 0; i < DEEP; i++) {
		assert_int_equal(chdir(".."), 0);
		assert_int_equal(rmdir(folder), 0);
	}
	assert_int_equal(fchdir(here), 0);
	assert_int_equal(close(here), 0);
}

/* A memfd has no name that could lead elsewhere, and the caller may close its descriptor. */
static void descriptors_are_enough(void **state)
{
	const struct test_holding before = test_holding_now();
	struct percpu_segment *of = NULL;
	struct percpu_reader *t = NULL;
	struct percpu_counter *c;
	int fd = memfd_create("reader", MFD_CLOEXEC);
	uint64_t n = 0;

	(void)state;
	assert_int_equal(percpu_segment_open_fd(fd, ALL, NULL, &of), 0);
	assert_int_equal(percpu_segment_counter(of, METRIC("a_total"), &c), 0);
	percpu_counter_add(c, 6);
	assert_int_equal(percpu_reader_open_fd(fd, &t), 0);
	assert_int_equal(close(fd), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(percpu_reader_read(t), 0);
		assert_null(picture_check(t, false));
	}
	assert_int_equal(percpu_reader_counter(t, 0, &n), 0);
	assert_int_equal(n, 6);
	percpu_reader_close(t);
	percpu_segment_close(of);
	test_assert_holding(before);
}

/* The closed descriptor's number is that of another segment now. */
static void a_closed_descriptor_is_told(void **state)
{
	struct percpu_segment *of = NULL;
	char other[160];
	int fd;

	(void)state;
	test_may_leave_descriptors();
	(void)counter("a_total");
	snprintf(other, sizeof(other), "%s.other", path);
	assert_int_equal(percpu_segment_open(other, ALL, NULL, &of), 0);
	percpu_segment_close(of);
	fd = open(other, O_RDWR);
	assert_true(fd >= 0);
	for (int i = 3; i < 200; i++)
		if (i != fd)
			(void)dup2(fd, i);
	assert_int_equal(take(), -EBADF);
	assert_int_equal(percpu_reader_count(r), 0);
	assert_int_equal(percpu_reader_set_consistent(r), -EBADF);
	assert_string_equal(percpu_error(), "the program has closed the file's descriptor");
	assert_null(r->live);
	assert_int_equal(unlink(other), 0);
}

/* Fields that another thread always adds to together. */
#define FIELDS 9

static bool stop_adding;

static void add_both(unsigned i, void *arg)
{
	const uint64_t n[FIELDS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };

	(void)i;
	while (!__atomic_load_n(&stop_adding, __ATOMIC_RELAXED))
		if (percpu_stats_update(arg, 0, 0, n, FIELDS) != 0)
			break;
}

static void consistent_pictures_are_of_one_moment(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i" };
	const struct percpu_metric_fields f = { sizeof(f), "what", names, FIELDS };
	struct percpu_reader_info info = { .cpus = 0 };
	uint64_t out[FIELDS] = { 0 }, was = 0;
	struct percpu_stats *t;
	struct test_team team;

	(void)state;
	assert_int_equal(percpu_segment_stats(s, METRIC("k_total"), &f, PERCPU_STATS_WHOLE, &t), 0);
	assert_int_equal(look(), 1);
	assert_int_equal(percpu_reader_info(r, &info), 0);
	assert_int_equal(info.consistent, 0);
	assert_int_equal(percpu_reader_set_consistent(r), 0);
	assert_int_equal(percpu_reader_count(r), 0);
	assert_int_equal(percpu_reader_set_consistent(r), 0);
	test_team_start(&team, 1, add_both, t);
	for (unsigned i = 0; i < test_rounds(300); i++) {
		if (take() != 0 || percpu_reader_stats(r, 0, out, FIELDS) != 0 ||
		    out[0] != out[FIELDS - 1] || out[0] < was)
			break;
		was = out[0];
	}
	__atomic_store_n(&stop_adding, true, __ATOMIC_RELAXED);
	test_team_join(&team);
	assert_int_equal(out[0], out[FIELDS - 1]);
	assert_true(out[0] >= was);
	assert_int_equal(look(), 1);
	assert_int_equal(percpu_reader_info(r, &info), 0);
	assert_int_equal(info.consistent, 1);
	percpu_stats_add(t, 0, 0, 3);
	assert_int_equal(look(), 1);
	assert_int_equal(percpu_reader_stats(r, 0, out, FIELDS), 0);
	assert_int_equal(out[0], out[FIELDS - 1] + 3);
}

static void who_may_not_write_gets_plain_words(void **state)
{
	int fd;

	(void)state;
	(void)counter("a_total");
	percpu_reader_close(r);
	fd = open(path, O_RDONLY);
	assert_int_equal(percpu_reader_open_fd(fd, &r), 0);
	assert_int_equal(percpu_reader_set_consistent(r), -EBADF);
	assert_ptr_equal(strstr(percpu_error(), "the file cannot be opened to write: "),
			 percpu_error());
	assert_int_equal(look(), 1);
	assert_int_equal(close(fd), 0);
	percpu_reader_close(r);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(percpu_reader_set_consistent(r), -ESTALE);
	percpu_segment_close(s);
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	assert_int_equal(percpu_reader_set_consistent(r), -ESTALE);
	assert_int_equal(percpu_reader_set_consistent(NULL), -EINVAL);
}

int main(void)
{
#define EACH(f) cmocka_unit_test_setup_teardown(f, make_segment, remove_segment)
	const struct CMUnitTest tests[] = {
		EACH(a_segment_grows),
		EACH(a_killed_start_is_waited_for),
		EACH(a_file_that_is_replaced_is_told),
		EACH(a_file_that_a_link_replaces_is_told),
		EACH(a_file_of_another_file_system_is_told),
		EACH(a_file_that_is_cut_short_is_told),
		EACH(files_that_are_no_segments_are_refused),
		EACH(the_program_may_change_its_folder),
		EACH(a_folder_that_is_gone_has_no_files),
		EACH(a_folder_that_is_gone_has_a_parent),
		EACH(a_path_that_is_closed_tells_nothing),
		EACH(a_path_may_be_too_long),
		EACH(descriptors_are_enough),
		EACH(consistent_pictures_are_of_one_moment),
		EACH(who_may_not_write_gets_plain_words),
		EACH(a_closed_descriptor_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
