/* SPDX-License-Identifier: MIT */
/* test_support.c - a test program that is ended early leaves no process and no file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

/* A pipe that all processes of the group hold open, and write to when they run. */
static int there[2];

static int stay(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	test_child_require(write(there[1], "g", 1) == 1, "write");
	for (;;)
		pause();
	return arg != NULL;
}

/* Have a child. Both block all signals. */
static int have_a_child(void *arg)
{
	(void)test_fork(stay, arg);
	return stay(arg);
}

static int lead(void *arg)
{
	const char *path;
	int fd;

	close(there[0]);
	test_child_require(setpgid(0, 0) == 0, "setpgid");
	test_take_group_along();
	path = test_path("left");
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	test_child_require(fd >= 0, "open");
	(void)test_fork(have_a_child, arg);
	strcpy(arg, path);
	test_child_require(write(there[1], "l", 1) == 1, "write");
	for (;;)
		pause();
	return 0;
}

static void what_is_ended_leaves_nothing(void **state)
{
	char *path = test_share(4096), byte;
	struct stat st;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(there), 0);
	pid = test_fork(lead, path);
	close(there[1]);
	for (int i = 0; i < 3; i++)
		assert_int_equal(read(there[0], &byte, 1), 1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(test_wait(pid, 60), SIGKILL);
	/* The read ends when no process has the other end any more. */
	test_alarm(30);
	assert_int_equal(read(there[0], &byte, 1), 0);
	test_alarm(0);
	assert_int_equal(stat(path, &st), -1);
	*strrchr(path, '/') = '\0';
	assert_int_equal(stat(path, &st), -1);
	close(there[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_ended_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
