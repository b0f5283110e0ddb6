/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "jail.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define CANNOT 77

void jail_need(bool ok)
{
	if (!ok)
		_exit(CANNOT);
}

void jail_run(int (*fn)(void *arg), void *arg)
{
	int status;

	if (test_cpus() < 2 || test_cpu(0) != 0)
		test_skip("needs CPU 0 and another");
	(void)test_path(""); /* before a child makes its own */
	status = test_wait(test_fork(fn, arg), 30);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
		test_skip("not permitted: a namespace, or mounts in it");
	assert_int_equal(status, 0);
}

void jail_enter(void)
{
	jail_need(unshare(CLONE_NEWNS) == 0);
	jail_need(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
}

void jail_fake(const char *text, const char *over)
{
	const char *path = test_path("fake");
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	jail_need(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	jail_need(mount(path, over, NULL, MS_BIND, NULL) == 0);
	unlink(path); /* the next one is another file */
}

void jail_hide(const char *directory)
{
	jail_need(mount("none", directory, "tmpfs", 0, NULL) == 0);
}

void jail_mask(const char *file)
{
	jail_need(mount("/dev/null", file, NULL, MS_BIND, NULL) == 0);
}

unsigned jail_highest(void)
{
	return test_cpu(test_cpus() - 1);
}
