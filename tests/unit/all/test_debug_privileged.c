/* SPDX-License-Identifier: MIT */
/*
 * test_debug_privileged.c - a privileged program ignores PERCPU_DEBUG. This program copies itself to a
 * file with the set-user-ID bit, and executes that as another user.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/ref.h>

#include "support.h"

#define SOMEBODY 12345
#define UNPRIVILEGED 3

static void release(struct percpu_ref *ref, void *arg)
{
	(void)ref;
	(void)arg;
}

/* Misuse a reference count: an error, or in the debug mode an abort. */
static int misuse(void)
{
	struct percpu_ref *ref;

	signal(SIGABRT, SIG_DFL);
	if (getauxval(AT_SECURE) == 0)
		return UNPRIVILEGED;
	if (percpu_ref_create(release, NULL, 0, &ref) != 0)
		return 1;
	return percpu_ref_reinit(ref) == -EALREADY ? 0 : 2;
}

/* Copy this program. Returns a descriptor to execute the copy by. */
static int copy_with_the_bit(void)
{
	const char *path = test_path("copy");
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fd;
	int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	struct stat st;
	ssize_t n = 1;

	assert_true(from >= 0 && to >= 0);
	assert_int_equal(fstat(from, &st), 0);
	for (off_t at = 0; at < st.st_size && n > 0;)
		n = sendfile(to, from, &at, (size_t)(st.st_size - at));
	assert_true(n > 0);
	assert_int_equal(fchmod(to, 04755), 0);
	close(to);
	close(from);
	fd = open(path, O_PATH | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static int execute_as_somebody(void *arg)
{
	char name[] = "test_debug_privileged",
	     how[] = "misuse", *const args[] = { name, how, NULL };

	setenv("PERCPU_DEBUG", "1", 1);
	if (setuid(SOMEBODY) != 0)
		return UNPRIVILEGED;
	fexecve(*(int *)arg, args, environ);
	return UNPRIVILEGED;
}

static void privileged_programs_ignore_the_environment(void **state)
{
	int fd, status;

	(void)state;
	if (geteuid() != 0)
		test_skip("not permitted: setuid()");
	fd = copy_with_the_bit();
	status = test_wait(test_fork(execute_as_somebody, &fd), 60);
	close(fd);
	if (status == UNPRIVILEGED << 8)
		test_skip("not permitted: files with the set-user-ID bit");
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(privileged_programs_ignore_the_environment),
	};

	if (argc == 2 && strcmp(argv[1], "misuse") == 0)
		_exit(misuse()); /* the count stays */
	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
