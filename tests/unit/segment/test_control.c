/* SPDX-License-Identifier: MIT */
/*
 * test_control.c - which program has made a segment, its permissions, and where readers look for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "declared.h"
#include "support.h"
#include "../segments.h"

#include <percpu/reader.h>

#include "segment/segment.h"

#define FORTY "0123456789012345678901234567890123456789"

static const char *path;

static int open_as(const char *program, struct percpu_segment **ret)
{
	const struct percpu_segment_options o = { .size = sizeof(o), .program = program };

	return percpu_segment_open(path, ALL, &o, ret);
}

/* Return the program that a reader finds. */
static const char *program_read(void)
{
	static struct percpu_reader_info info;
	struct percpu_reader *r = NULL;

	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	assert_int_equal(percpu_reader_info(r, &info), 0);
	percpu_reader_close(r);
	return info.program;
}

static void other_programs_are_refused(void **state)
{
	struct percpu_segment *s = NULL, *none = NULL;

	(void)state;
	assert_int_equal(open_as("cache", &s), 0);
	percpu_segment_close(s);
	assert_string_equal(program_read(), "cache");
	assert_int_equal(open_as("cache2", &none), -EEXIST);
	assert_non_null(
		strstr(percpu_error(),
		       "\": it is a segment of the program \"cache\", and not of \"cache2\": "
		       "use another name"));
	assert_int_equal(open_as("cach", &none), -EEXIST);
	assert_null(none);
	assert_int_equal(open_as("cache", &s), 0);
	percpu_segment_close(s);
	assert_int_equal(open_as(NULL, &s), 0); /* any program's */
	percpu_segment_close(s);
	assert_string_equal(program_read(), "cache");
	assert_int_equal(unlink(path), 0);
}

/* A refused program has reset nothing. */
static void other_programs_reset_nothing(void **state)
{
	const struct percpu_segment_options o = { .size = sizeof(o), .program = "other" };
	struct percpu_segment *s = NULL, *none = NULL;
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(open_as("cache", &s), 0);
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	percpu_counter_add(c, 3);
	assert_int_equal(percpu_segment_open(path, PERCPU_SEGMENT_ANEW, &o, &none), -EEXIST);
	assert_int_equal(percpu_counter_fetch(c), 3);
	assert_int_equal(s->control->generation, 1);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

static void programs_have_the_name_of_their_process(void **state)
{
	char *const before = program_invocation_short_name;
	char longest[] = FORTY "1", odd[] = "a\nb\xff",
	     cut[] = "012345678901234567890123456789012345678"
		     "\xc3\xbc";
	struct {
		char *name;
		const char *read;
	} names[] = { { before, before },
		      { longest, FORTY },
		      { odd, "a?b?" },
		      { cut, "012345678901234567890123456789012345678" } };
	struct percpu_segment *s = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		program_invocation_short_name = names[i].name;
		assert_int_equal(open_as(NULL, &s), 0);
		program_invocation_short_name = before;
		percpu_segment_close(s);
		assert_string_equal(program_read(), names[i].read);
		assert_int_equal(unlink(path), 0);
	}
}

static void names_of_programs_have_limits(void **state)
{
	struct percpu_segment *s = NULL, *none = NULL;

	(void)state;
	assert_int_equal(open_as("", &none), -EINVAL);
	assert_non_null(strstr(percpu_error(), "the name of a program has 1 to 40 bytes"));
	assert_int_equal(open_as(FORTY "1", &none), -ENAMETOOLONG);
	assert_non_null(strstr(percpu_error(), "the name of a program has 1 to 40 bytes"));
	assert_int_equal(open_as("a\xff", &none), -EILSEQ);
	assert_non_null(strstr(percpu_error(), "the name of the program is not UTF-8"));
	assert_null(none);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(open_as(FORTY, &s), 0);
	percpu_segment_close(s);
	assert_int_equal(open_as(FORTY, &s), 0);
	percpu_segment_close(s);
	assert_string_equal(program_read(), FORTY);
	assert_int_equal(unlink(path), 0);
}

/* Permissions. */

static mode_t mode_of(int fd)
{
	struct stat st;

	assert_int_equal(fd >= 0 ? fstat(fd, &st) : stat(path, &st), 0);
	return st.st_mode & 07777;
}

static void files_have_the_mode_that_is_asked_for(void **state)
{
	static const mode_t modes[] = { 0644, 0640, 0660, 0600, 0 };
	const mode_t before = umask(077);
	struct percpu_segment_options o = { .size = sizeof(o) };
	struct percpu_segment *s = NULL, *again = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		o.mode = modes[i];
		assert_int_equal(percpu_segment_open(path, ALL, &o, &s), 0);
		assert_int_equal(mode_of(-1), modes[i] != 0 ? modes[i] : 0600);
		o.mode = 0666; /* an existing file keeps its mode */
		assert_int_equal(percpu_segment_open(path, ALL, &o, &again), 0);
		assert_int_equal(mode_of(-1), modes[i] != 0 ? modes[i] : 0600);
		percpu_segment_close(again);
		percpu_segment_close(s);
		assert_int_equal(unlink(path), 0);
	}
	umask(before);
}

/* The file of a descriptor is the program's. */
static void descriptors_keep_their_mode(void **state)
{
	const struct percpu_segment_options o = { .size = sizeof(o), .mode = 0644 };
	const int fd = memfd_create("control", MFD_CLOEXEC);
	struct percpu_segment *s = NULL;

	(void)state;
	assert_int_equal(fchmod(fd, 0600), 0);
	assert_int_equal(percpu_segment_open_fd(fd, ALL, &o, &s), 0);
	assert_int_equal(mode_of(fd), 0600);
	percpu_segment_close(s);
	close(fd);
}

/* Another user's reader, which has no other rights. */
static int read_as_another_user(void *arg)
{
	struct percpu_reader *r = NULL;
	int e;

	(void)arg;
	if (setegid(12345) != 0 || seteuid(12345) != 0)
		return 77;
	e = percpu_reader_open(path, &r);
	percpu_reader_close(r);
	return e == 0 ? 0 : e == -EACCES ? 1 : 2;
}

static int mode_fails; /* the error of fchmod(2); 0: none */

int __real_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode)
{
	errno = mode_fails;
	return mode_fails != 0 ? -1 : __real_fchmod(fd, mode);
}

/* No segment appears that has other permissions than were asked for. */
static void modes_that_cannot_be_set_are_told(void **state)
{
	const struct percpu_segment_options o = { .size = sizeof(o), .mode = 0640 };
	struct percpu_segment *s = NULL;
	struct stat st;

	(void)state;
	mode_fails = EROFS;
	assert_int_equal(percpu_segment_open(path, ALL, &o, &s), -EROFS);
	assert_null(s);
	assert_int_equal(stat(path, &st), -1);
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0); /* no mode is asked for */
	percpu_segment_close(s);
	mode_fails = 0;
	assert_int_equal(unlink(path), 0);
	assert_int_equal(percpu_segment_open(path, ALL, &o, &s), 0);
	percpu_segment_close(s);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(unlink(path), 0);
}

static void other_users_read_what_they_may(void **state)
{
	static const mode_t modes[] = { 0644, 0640 };
	const mode_t before = umask(077);
	struct percpu_segment_options o = { .size = sizeof(o) };
	struct percpu_segment *s = NULL;
	char directory[160];
	int status = 0;

	(void)state;
	strcpy(directory, path);
	*strrchr(directory, '/') = '\0';
	assert_int_equal(chmod(directory, 0711), 0);
	for (int i = 0; i < 2; i++) {
		o.mode = modes[i];
		assert_int_equal(percpu_segment_open(path, ALL, &o, &s), 0);
		percpu_segment_close(s);
		status = test_wait(test_fork(read_as_another_user, NULL), 60);
		assert_int_equal(unlink(path), 0);
		if (status == 77 << 8)
			break;
		assert_int_equal(status, i << 8);
	}
	umask(before);
	if (status == 77 << 8)
		test_skip("not permitted to become another user");
}

/* Where readers look. */

/* Another segment gets the name in the first place. The reader reads on, and a new one finds the
 * other. */
static void stays_with_its_file(struct percpu_reader *r)
{
	struct percpu_segment *other = NULL;
	struct percpu_reader *later = NULL;
	struct percpu_counter *c = NULL;

	test_child_require(percpu_segment_open("control-test", ALL, NULL, &other) == 0, "open");
	test_child_require(percpu_segment_counter(other, METRIC("x_total"), &c) == 0, "declare");
	test_child_require(percpu_reader_read(r) == 0, "the reader reads on");
	test_child_require(percpu_reader_count(r) == 0, "its file");
	test_child_require(percpu_reader_set_consistent(r) == 0, "and opens it");
	test_child_require(percpu_reader_read(r) == 0 && percpu_reader_count(r) == 0, "as well");
	test_child_require(percpu_reader_open("control-test", &later) == 0, "a new reader");
	test_child_require(percpu_reader_read(later) == 0, "read");
	test_child_require(percpu_reader_count(later) == 1, "has the other file");
	percpu_reader_close(later);
	percpu_segment_close(other);
	test_child_require(unlink("/dev/shm/percpu.control-test") == 0, "unlink");
}

static int read_in_run(void *arg)
{
	struct percpu_segment *s = NULL;
	struct percpu_reader *r = NULL;

	(void)arg;
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", "/run", "tmpfs", 0, NULL) != 0 ||
	    mount("none", "/dev/shm", "tmpfs", 0, NULL) != 0)
		return 77;
	test_child_require(percpu_reader_open("control-test", &r) == -ENOENT, "no directory");
	test_child_require(mkdir("/run/percpu", 0755) == 0, "mkdir");
	test_child_require(percpu_reader_open("control-test", &r) == -ENOENT, "none");
	test_child_require(strstr(percpu_error(),
				  "\"control-test\" (/dev/shm/percpu.control-test, or else "
				  "/run/percpu/control-test): there is no such file") != NULL,
			   "both places are named");
	test_child_require(percpu_segment_open("control-test", 0, NULL, &s) == -ENOENT, "to count");
	test_child_require(strstr(percpu_error(),
				  "\"control-test\" (/dev/shm/percpu.control-test): there is no "
				  "such file") != NULL,
			   "the one place is named");
	test_child_require(mkdir("/run/percpu/control-test", 0755) == 0, "a directory");
	test_child_require(percpu_reader_open("control-test", &r) == -EISDIR, "a directory");
	test_child_require(
		strstr(percpu_error(), "(/run/percpu/control-test): it is a directory") != NULL,
		"the second place is named");
	test_child_require(rmdir("/run/percpu/control-test") == 0, "rmdir");
	test_child_require(symlink("x", "/run/percpu/control-test") == 0, "a link");
	test_child_require(percpu_reader_open("control-test", &r) == -ELOOP, "a link");
	test_child_require(
		strstr(percpu_error(), "(/run/percpu/control-test): the file is a sym") != NULL,
		"what cannot be opened is named");
	test_child_require(unlink("/run/percpu/control-test") == 0, "unlink");
	test_child_require(close(open("/run/percpu/control-test", O_CREAT | O_WRONLY, 0600)) == 0,
			   "create");
	test_child_require(percpu_reader_open("control-test", &r) == -EBADMSG, "an empty file");
	test_child_require(
		strstr(percpu_error(), "(/run/percpu/control-test): the file is empty") != NULL,
		"the file that was opened is looked at");
	test_child_require(truncate("/run/percpu/control-test", 8) == 0, "truncate");
	test_child_require(percpu_reader_open("control-test", &r) == -EBADMSG, "a short file");
	test_child_require(
		strstr(percpu_error(), "(/run/percpu/control-test): the file ends before") != NULL,
		"the file that was read is named");
	test_child_require(unlink("/run/percpu/control-test") == 0, "unlink");
	test_child_require(percpu_segment_open("/run/percpu/control-test", ALL, NULL, &s) == 0,
			   "open");
	test_child_require(percpu_reader_open("./control-test", &r) == -ENOENT, "a path");
	test_child_require(percpu_reader_open("control-test", &r) == 0, "found");
	test_child_require(percpu_reader_read(r) == 0, "read");
	stays_with_its_file(r);
	test_child_require(unlink("/run/percpu/control-test") == 0, "unlink");
	test_child_require(percpu_reader_read(r) == -ESTALE, "another path is looked at");
	test_child_require(strstr(percpu_error(), "/run/percpu/control-test was removed") != NULL,
			   "the path is named");
	percpu_reader_close(r);
	percpu_segment_close(s);
	return 0;
}

static void readers_look_in_run(void **state)
{
	int status = test_wait(test_fork(read_in_run, NULL), 60);

	(void)state;
	if (status == 77 << 8)
		test_skip("not permitted to mount");
	assert_int_equal(status, 0);
}

/* Without /dev/shm and /proc, as after chroot(2) into an empty directory. */
static int look_in_jail(void *arg)
{
	static const char *const label[] = { "a" };
	const struct percpu_declaration d =
		percpu_declare_family(NULL, PERCPU_METRIC_COUNTER, "f_total", NULL, label, 1, 3);
	struct percpu_segment *s = NULL, *none = NULL;
	struct percpu_family *family = NULL;
	struct percpu_reader *r = NULL;

	test_child_require(percpu_segment_open(path, ALL, NULL, &s) == 0, "open before");
	if (chroot(arg) != 0 || chdir("/") != 0)
		return 77;
	test_child_require(percpu_segment_open("x", ALL, NULL, &none) == -ENOENT, "to count");
	test_child_require(
		strstr(percpu_error(), "(/dev/shm/percpu.x): there is no /dev/shm, or") != NULL,
		percpu_error());
	test_child_require(percpu_reader_open("x", &r) == -ENOENT, "to read");
	test_child_require(strstr(percpu_error(), "(/dev/shm/percpu.x, or else /run/percpu/x): "
						  "there is no /dev/shm, or none below") != NULL,
			   percpu_error());
	test_child_require(percpu_segment_family(s, &d, &family) == -ENOENT, "a family");
	test_child_require(strstr(percpu_error(),
				  "f_total: the file cannot be opened once more by /proc, or "
				  "locked: there is no /proc/self/fd, perhaps because of a "
				  "chroot(2)") != NULL,
			   percpu_error());
	test_child_require(percpu_segment_open("/x", ALL, NULL, &none) == 0, "by a path");
	percpu_segment_close(none);
	test_child_require(unlink("/x") == 0, "unlink");
	percpu_segment_close(s);
	return 0;
}

static void jails_are_told(void **state)
{
	char jail[160];
	int status;

	(void)state;
	snprintf(jail, sizeof(jail), "%s.jail", path);
	assert_int_equal(mkdir(jail, 0700), 0);
	status = test_wait(test_fork(look_in_jail, jail), 60);
	(void)unlink(path);
	assert_int_equal(rmdir(jail), 0);
	if (status == 77 << 8)
		test_skip("not permitted: chroot()");
	assert_int_equal(status, 0);
}

/* The user may no longer open the file, of which the process has a descriptor. */
static int declare_as_another_user(void *arg)
{
	static const char *const label[] = { "a" };
	const struct percpu_declaration d =
		percpu_declare_family(NULL, PERCPU_METRIC_COUNTER, "f_total", NULL, label, 1, 3);
	struct percpu_segment *s = NULL;
	struct percpu_family *family = NULL;

	(void)arg;
	test_child_require(percpu_segment_open(path, ALL, NULL, &s) == 0, "open before");
	if (setresuid(12345, 12345, 12345) != 0)
		return 77;
	test_child_require(percpu_segment_family(s, &d, &family) == -EACCES, "a family");
	test_child_require(strstr(percpu_error(), "its permissions do not allow this user to: "
						  "declare families before setuid(2)") != NULL,
			   percpu_error());
	percpu_segment_close(s);
	return 0;
}

static void users_without_rights_are_told(void **state)
{
	const int status = test_wait(test_fork(declare_as_another_user, NULL), 60);

	(void)state;
	(void)unlink(path);
	if (status == 77 << 8)
		test_skip("not permitted to become another user");
	assert_int_equal(status, 0);
}

static int name_path(void **state)
{
	(void)state;
	path = test_path("control");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_programs_are_refused),
		cmocka_unit_test(other_programs_reset_nothing),
		cmocka_unit_test(programs_have_the_name_of_their_process),
		cmocka_unit_test(names_of_programs_have_limits),
		cmocka_unit_test(files_have_the_mode_that_is_asked_for),
		cmocka_unit_test(descriptors_keep_their_mode),
		cmocka_unit_test(other_users_read_what_they_may),
		cmocka_unit_test(modes_that_cannot_be_set_are_told),
		cmocka_unit_test(readers_look_in_run),
		cmocka_unit_test(jails_are_told),
		cmocka_unit_test(users_without_rights_are_told),
	};

	return cmocka_run_group_tests(tests, name_path, test_remove_paths);
}
