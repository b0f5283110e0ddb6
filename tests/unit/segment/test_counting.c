/* SPDX-License-Identifier: MIT */
/*
 * test_counting.c - which processes have a segment open to count, and what percpu_segment_remove()
 * removes and leaves.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/reader.h>

#include "declared.h"
#include "support.h"
#include "../root_file.h"
#include "../segments.h"

#include "segment/reader.h"

/* Shared by the test and its children. */
static struct {
	int ready, go;
} * shared;

static int lock_error; /* of the lock by which a process is known to count; 0: none */
static bool knows_boot = true;

int __wrap_percpu_descriptor_share(const struct percpu_region *r, uint64_t byte);
int __real_percpu_descriptor_share(const struct percpu_region *r, uint64_t byte);
int __wrap_percpu_descriptor_share(const struct percpu_region *r, uint64_t byte)
{
	return lock_error != 0 ? lock_error : __real_percpu_descriptor_share(r, byte);
}

int __wrap_percpu_boot_id_read(uint64_t *ret);
int __real_percpu_boot_id_read(uint64_t *ret);
int __wrap_percpu_boot_id_read(uint64_t *ret)
{
	int e = __real_percpu_boot_id_read(ret);

	if (!knows_boot)
		*ret = 0;
	return e;
}

uint64_t __wrap_percpu_boot_id(void);
uint64_t __real_percpu_boot_id(void);
uint64_t __wrap_percpu_boot_id(void)
{
	return knows_boot ? __real_percpu_boot_id() : 0;
}

static void wait_for(const int *word, int value)
{
	for (int i = 0; i < 20000 && __atomic_load_n(word, __ATOMIC_ACQUIRE) < value; i++)
		test_sleep_us(1000);
}

static void say(int *word)
{
	__atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
}

static struct percpu_segment *open_segment(void)
{
	struct percpu_segment *s = NULL;

	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	return s;
}

static bool is_there(void)
{
	return access(path, F_OK) == 0;
}

/* What a reader says. */
static unsigned counting(void)
{
	struct percpu_reader_facts f = { .counting = 77 };
	struct percpu_reader *r = NULL;

	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(percpu_reader_facts(r, &f), 0);
	percpu_reader_close(r);
	return f.counting;
}

static void assert_busy(void)
{
	assert_int_equal(counting(), PERCPU_FACT_YES);
	assert_int_equal(percpu_segment_remove(path, 0), -EBUSY);
	assert_non_null(strstr(percpu_error(), path));
	assert_non_null(strstr(percpu_error(), "a process has it open to count"));
	assert_true(is_there());
}

static void assert_removable(void)
{
	assert_int_equal(counting(), PERCPU_FACT_NO);
	assert_int_equal(percpu_segment_remove(path, 0), 0);
	assert_false(is_there());
	assert_int_equal(percpu_segment_remove(path, 0), -ENOENT);
}

static void own_segments_keep_the_file(void **state)
{
	struct percpu_segment *s = open_segment(), *other = open_segment();

	(void)state;
	assert_busy();
	percpu_segment_close(s);
	assert_busy();
	percpu_segment_close(other);
	assert_removable();
}

static void watched_segments_keep_the_file(void **state)
{
	struct percpu_segment *s = NULL;

	(void)state;
	assert_int_equal(percpu_segment_open(path, ALL | PERCPU_SEGMENT_DEBUG, NULL, &s), 0);
	assert_busy();
	percpu_segment_close(s);
	assert_removable();
}

/* Children. */

static struct percpu_segment *inherited;

/* Stay, and close all descriptors: a mapping keeps the lock. */
static int stay(void *arg)
{
	(void)arg;
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	say(&shared->ready);
	wait_for(&shared->go, 1);
	return 0;
}

/* The segment was opened by its path, or by a descriptor. */
static void child_keeps_the_file(int fd)
{
	pid_t pid;

	if (fd < 0)
		inherited = open_segment();
	else
		assert_int_equal(percpu_segment_open_fd(fd, 0, NULL, &inherited), 0);
	memset(shared, 0, sizeof(*shared));
	pid = test_fork(stay, NULL);
	percpu_segment_close(inherited);
	wait_for(&shared->ready, 1);
	assert_busy();
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(test_wait(pid, 60), SIGKILL);
	assert_removable();
}

static void children_keep_the_file(void **state)
{
	(void)state;
	child_keeps_the_file(-1);
}

static void children_keep_the_file_of_a_descriptor(void **state)
{
	int fd;

	(void)state;
	percpu_segment_close(open_segment());
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	child_keeps_the_file(fd);
	close(fd);
}

static int close_and_stay(void *arg)
{
	percpu_segment_close(inherited);
	return stay(arg);
}

static void closing_children_do_not(void **state)
{
	pid_t pid;

	(void)state;
	inherited = open_segment();
	memset(shared, 0, sizeof(*shared));
	pid = test_fork(close_and_stay, NULL);
	wait_for(&shared->ready, 1);
	assert_busy();
	percpu_segment_close(inherited);
	assert_removable();
	say(&shared->go);
	assert_int_equal(test_wait(pid, 60), 0);
}

/* The argument with which this program sleeps. */
#define SLEEP "--sleep"

static int exec_sleep(void *arg)
{
	(void)arg;
	inherited = open_segment();
	say(&shared->ready);
	execl("/proc/self/exe", "sleep", SLEEP, (char *)NULL);
	return 1;
}

static void exec_gives_it_up(void **state)
{
	pid_t pid;

	(void)state;
	memset(shared, 0, sizeof(*shared));
	pid = test_fork(exec_sleep, NULL);
	wait_for(&shared->ready, 1);
	for (int i = 0; i < 20000 && counting() != PERCPU_FACT_NO; i++)
		test_sleep_us(1000);
	assert_removable();
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(test_wait(pid, 60), SIGKILL);
}

/* Descriptors. The lock is of an open file of the segment's own. */
static void descriptors_keep_nothing_afterwards(void **state)
{
	struct percpu_segment *s = NULL;
	int fd;

	(void)state;
	percpu_segment_close(open_segment());
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(percpu_segment_open_fd(fd, 0, NULL, &s), 0);
	assert_busy();
	percpu_segment_close(s);
	assert_removable();
	assert_int_equal(percpu_segment_open_fd(fd, 0, NULL, &s), 0); /* it has the file */
	percpu_segment_close(s);
	close(fd);
}

static void readers_keep_nothing(void **state)
{
	struct percpu_reader *r = NULL;
	struct percpu_reader_facts f;

	(void)state;
	percpu_segment_close(open_segment());
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	assert_int_equal(counting(), PERCPU_FACT_NO);
	assert_int_equal(percpu_reader_set_consistent(r), 0);
	assert_busy();
	percpu_reader_close(r);
	r = NULL;
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_removable();
	assert_int_equal(percpu_reader_facts(r, &f), -ESTALE);
	assert_int_equal(percpu_reader_read(r), -ESTALE);
	percpu_reader_close(r);
}

/* Where the directory of a segment was, there is a file now. */
static void readers_see_that_the_directory_is_gone(void **state)
{
	struct percpu_segment *s = NULL;
	struct percpu_reader *r = NULL;
	char directory[160], inside[176];
	int fd;

	(void)state;
	snprintf(directory, sizeof(directory), "%s", test_path("directory"));
	snprintf(inside, sizeof(inside), "%s/segment", directory);
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_int_equal(percpu_segment_open(inside, ALL, NULL, &s), 0);
	percpu_segment_close(s);
	assert_int_equal(percpu_reader_open(inside, &r), 0);
	assert_int_equal(unlink(inside), 0);
	assert_int_equal(rmdir(directory), 0);
	fd = open(directory, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(percpu_reader_read(r), -ESTALE);
	percpu_reader_close(r);
	assert_int_equal(unlink(directory), 0);
}

/* What is no segment stays. */

static void make_file(const char *text)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void make_region(bool with_owners)
{
	const unsigned flags = CREATE | PERCPU_REGION_OWNERS;
	struct percpu_owners *o = NULL;
	struct percpu_region *r = NULL;

	assert_int_equal(percpu_region_open(path, flags, NULL, &r), 0);
	if (with_owners) {
		assert_int_equal(percpu_owners_create_in(r, &o), 0);
		assert_int_equal(percpu_region_set_root(r, 0, 0, percpu_owners_key(o)), 0);
		percpu_owners_detach(o);
	}
	percpu_region_close(r);
}

static void change_version(uint32_t version)
{
	struct percpu_segment *s = open_segment();

	s->control->version = version;
	percpu_segment_close(s);
}

enum what { NONE, EMPTY, TEXT, LONG_TEXT, REGION, OWNERS, OLDER, FOLDER, LINK, PIPE, WHATS };

static void make(enum what what)
{
	static char text[100000];

	memset(text, 'x', sizeof(text) - 1);
	if (what == EMPTY || what == TEXT || what == LONG_TEXT)
		make_file(what == EMPTY ? "" : what == TEXT ? "percpu\n" : text);
	else if (what == REGION || what == OWNERS)
		make_region(what == OWNERS);
	else if (what == OLDER)
		change_version(PERCPU_SEGMENT_VERSION - 1);
	else if (what == FOLDER)
		assert_int_equal(mkdir(path, 0700), 0);
	else if (what == LINK)
		assert_int_equal(symlink(test_path("target"), path), 0);
	else if (what == PIPE)
		assert_int_equal(mkfifo(path, 0600), 0);
}

static void other_files_stay(void **state)
{
	static const int expected[WHATS] = { -ENOENT,  -EBADMSG, -EBADMSG, -EBADMSG, -EBADMSG,
					     -EBADMSG, -EPROTO,	 -EISDIR,  -ELOOP,   -EBADMSG };
	struct percpu_segment *target = NULL;
	struct stat st;

	(void)state;
	assert_int_equal(percpu_segment_open(test_path("target"), ALL, NULL, &target), 0);
	percpu_segment_close(target);
	for (enum what what = NONE; what < WHATS; what++) {
		make(what);
		assert_int_equal(percpu_segment_remove(path, 0), expected[what]);
		assert_non_null(strstr(percpu_error(), path));
		assert_int_equal(lstat(path, &st), what == NONE ? -1 : 0);
		if (what != NONE)
			assert_int_equal(what == FOLDER ? rmdir(path) : unlink(path), 0);
	}
	assert_int_equal(percpu_segment_remove(test_path("target"), 0), 0);
}

static void wrong_arguments_are_refused(void **state)
{
	(void)state;
	percpu_segment_close(open_segment());
	assert_int_equal(percpu_segment_remove(NULL, 0), -EINVAL);
	assert_int_equal(percpu_segment_remove("", 0), -EINVAL);
	assert_int_equal(percpu_segment_remove(".x", 0), -EINVAL);
	assert_int_equal(percpu_segment_remove(path, PERCPU_SEGMENT_CREATE), -EINVAL);
	assert_non_null(strstr(percpu_error(), "flags 0x1 are not for removing a segment"));
	assert_int_equal(percpu_segment_remove(path, PERCPU_SEGMENT_FOREIGN), 0);
}

/* In a directory that this user may not write to, and in which another user has a file. */
static int try_as_user(void *arg)
{
	(void)arg;
	test_child_require(setgid(4321) == 0 && setuid(4321) == 0, "another user");
	test_child_require(percpu_segment_remove(path, 0) == -EACCES, "no permission to write");
	test_child_require(strstr(percpu_error(), "permissions of the file") != NULL, "why");
	return 0;
}

static int try_in_directory(void *arg)
{
	(void)arg;
	test_child_require(setgid(4321) == 0 && setuid(4321) == 0, "another user");
	test_child_require(percpu_segment_remove(path, 0) == -EACCES, "no permission to remove");
	test_child_require(strstr(percpu_error(), "cannot be removed from its directory") != NULL,
			   "the sentence");
	return 0;
}

static void other_users_files_stay(void **state)
{
	struct percpu_reader *r = NULL;
	char directory[256];

	(void)state;
	if (geteuid() != 0)
		test_skip("only root gives files away");
	snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(path, '/') - path), path);
	assert_int_equal(chmod(directory, 0711), 0);
	percpu_segment_close(open_segment());
	test_in_child(try_as_user, NULL);
	assert_int_equal(chown(path, 4321, 4321), 0);
	test_in_child(try_in_directory, NULL);
	assert_true(is_there());
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(r->s->control->removal, 0); /* the failed removal has taken that back */
	percpu_reader_close(r);
	assert_int_equal(percpu_segment_remove(path, 0), -EPERM);
	assert_non_null(strstr(percpu_error(), "PERCPU_SEGMENT_FOREIGN removes it nevertheless"));
	assert_true(is_there());
	assert_int_equal(percpu_segment_remove(path, PERCPU_SEGMENT_FOREIGN), 0);
	assert_false(is_there());
}

/* Processes that get no lock. */

static void assert_unknown(void)
{
	assert_int_equal(counting(), PERCPU_FACT_UNKNOWN);
	assert_int_equal(percpu_segment_remove(path, 0), -ENOLCK);
	assert_non_null(strstr(percpu_error(), "it cannot be known whether a process has"));
	assert_true(is_there());
}

static void open_without_lock(bool with_boot)
{
	struct percpu_segment *s;

	lock_error = -ENOLCK;
	knows_boot = with_boot;
	s = open_segment();
	lock_error = 0;
	knows_boot = true;
	assert_unknown();
	percpu_segment_close(s);
	assert_unknown();
}

static void without_a_lock_it_is_not_known(void **state)
{
	struct percpu_segment *s;

	(void)state;
	open_without_lock(true);
	s = open_segment();
	assert_int_equal(s->control->unlocked, percpu_boot_id());
	assert_busy();
	percpu_segment_close(s);
	assert_unknown();
	s = open_segment();
	s->control->unlocked++; /* the machine has been started anew */
	percpu_segment_close(s);
	assert_removable();
}

/* A process that knows its boot makes that of an earlier one known. */
static void the_boot_becomes_known_again(void **state)
{
	struct percpu_segment *s;

	(void)state;
	open_without_lock(false);
	knows_boot = false;
	s = open_segment();
	knows_boot = true;
	assert_int_equal(s->control->unlocked, 1);
	percpu_segment_close(s);
	assert_unknown();
	s = open_segment();
	assert_int_equal(s->control->unlocked, percpu_boot_id());
	s->control->unlocked++;
	percpu_segment_close(s);
	knows_boot = false; /* of the process that removes */
	assert_unknown();
	knows_boot = true;
	assert_removable();
}

/* A process that was killed while it removed the file is forgotten. */
static void killed_removals_are_forgotten(void **state)
{
	struct percpu_segment *s = open_segment();

	(void)state;
	s->control->removal = 1;
	percpu_segment_close(s);
	s = open_segment();
	assert_int_equal(s->control->removal, 0);
	percpu_segment_close(s);
	assert_removable();
}

/* A name without a '/' is of /dev/shm. */
static void names_are_those_of_opening(void **state)
{
	struct percpu_segment *s = NULL;
	char name[64], file[128];

	(void)state;
	snprintf(name, sizeof(name), "test_counting.%ld", (long)getpid());
	snprintf(file, sizeof(file), "/dev/shm/percpu.%s", name);
	if (percpu_segment_open(name, ALL, NULL, &s) != 0)
		test_skip("no /dev/shm");
	assert_int_equal(access(file, F_OK), 0);
	percpu_segment_close(s);
	assert_int_equal(percpu_segment_remove(name, 0), 0);
	assert_int_equal(access(file, F_OK), -1);
}

static int make_shared(void **state)
{
	shared = test_share(sizeof(*shared));
	return name_file(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_segments_keep_the_file),
		cmocka_unit_test(watched_segments_keep_the_file),
		cmocka_unit_test(children_keep_the_file),
		cmocka_unit_test(children_keep_the_file_of_a_descriptor),
		cmocka_unit_test(closing_children_do_not),
		cmocka_unit_test(exec_gives_it_up),
		cmocka_unit_test(descriptors_keep_nothing_afterwards),
		cmocka_unit_test(readers_keep_nothing),
		cmocka_unit_test(readers_see_that_the_directory_is_gone),
		cmocka_unit_test(other_files_stay),
		cmocka_unit_test(wrong_arguments_are_refused),
		cmocka_unit_test(other_users_files_stay),
		cmocka_unit_test(without_a_lock_it_is_not_known),
		cmocka_unit_test(the_boot_becomes_known_again),
		cmocka_unit_test(killed_removals_are_forgotten),
		cmocka_unit_test(names_are_those_of_opening),
	};

	if (argc > 1 && strcmp(argv[1], SLEEP) == 0)
		return (int)sleep(60);
	return cmocka_run_group_tests(tests, make_shared, test_remove_paths);
}
