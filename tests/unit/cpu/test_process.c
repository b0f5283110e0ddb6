/* SPDX-License-Identifier: MIT */
/*
 * test_process.c - whether another process is alive, according to /proc: this program replaces
 * its files. A file there may be another process's, as in a container.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/cpu.h"
#include "support.h"

#define PID 4711
#define START 77

static struct {
	const char *stat; /* contents of the process's file; NULL: there is none */
	int kill_error;	  /* of kill(); 0: the process is there */
	const char *self; /* what /proc/self links to; NULL: nothing; "": this process */
} proc;

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	int fd;

	if (strcmp(path, "/proc/4711/stat") != 0)
		return __real_open64(path, flags);
	if (proc.stat == NULL) {
		errno = ENOENT;
		return -1;
	}
	fd = memfd_create("stat", MFD_CLOEXEC);
	if (write(fd, proc.stat, strlen(proc.stat)) < 0 || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	return fd;
}

int __real_kill(pid_t pid, int signo);
int __wrap_kill(pid_t pid, int signo);
int __wrap_kill(pid_t pid, int signo)
{
	if (pid != PID)
		return __real_kill(pid, signo);
	errno = proc.kill_error;
	return proc.kill_error != 0 ? -1 : 0;
}

ssize_t __real_readlink(const char *path, char *buf, size_t size);
ssize_t __wrap_readlink(const char *path, char *buf, size_t size);
ssize_t __wrap_readlink(const char *path, char *buf, size_t size)
{
	if (strcmp(path, "/proc/self") != 0)
		return __real_readlink(path, buf, size);
	if (proc.self == NULL) {
		errno = ENOENT;
		return -1;
	}
	return snprintf(buf, size, "%s", proc.self);
}

/* Fields 4 to 19, the number of threads, and the 21st. */
#define FIELDS " 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 "
#define STAT(state, threads, start) "4711 (a) " state FIELDS threads " 0 " start " 0 0\n"

static const struct {
	const char *stat;
	int kill_error;
	uint64_t started;
	enum percpu_life life;
} cases[] = {
	{ STAT("S", "1", "77"), 0, START, PERCPU_LIFE_THERE },
	{ STAT("S", "1", "77"), EPERM, START, PERCPU_LIFE_THERE }, /* another user's */
	{ STAT("S", "1", "77"), ESRCH, START, PERCPU_LIFE_GONE },
	{ STAT("S", "1", "78"), 0, START, PERCPU_LIFE_GONE },
	{ STAT("Z", "1", "77"), 0, START, PERCPU_LIFE_GONE },
	{ STAT("X", "1", "77"), 0, START, PERCPU_LIFE_GONE },
	{ STAT("X", "0", "77"), 0, START, PERCPU_LIFE_GONE },
	{ STAT("Z", "2", "77"), 0, START, PERCPU_LIFE_THERE }, /* its first thread has ended */
	{ STAT("X", "2", "77"), 0, START, PERCPU_LIFE_THERE },
	{ STAT("S", "1", "77"), 0, 0, PERCPU_LIFE_HIDDEN },
	/* There is no file, or none of the kernel's. */
	{ NULL, 0, START, PERCPU_LIFE_HIDDEN },
	{ "", 0, START, PERCPU_LIFE_HIDDEN },
	{ "4711 (a", 0, START, PERCPU_LIFE_HIDDEN },
	{ "4711 (a)", 0, START, PERCPU_LIFE_HIDDEN },
	{ "4711 (a)S 1", 0, START, PERCPU_LIFE_HIDDEN },
	{ "4711 (a) ", 0, START, PERCPU_LIFE_HIDDEN },
	{ "4711 (a) S", 0, START, PERCPU_LIFE_HIDDEN },
	{ "4711 (a) S 1 2 3", 0, START, PERCPU_LIFE_HIDDEN },
	{ "4711 (a) S" FIELDS "1 0", 0, START, PERCPU_LIFE_HIDDEN },
	{ "4711 (a) S" FIELDS "1 0 ", 0, START, PERCPU_LIFE_HIDDEN },
	{ STAT("S", "1", "x"), 0, START, PERCPU_LIFE_HIDDEN },
};

static void life_is_what_the_kernel_says(void **state)
{
	char self[16];

	(void)state;
	snprintf(self, sizeof(self), "%d", (int)getpid());
	proc.self = self;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		proc.stat = cases[i].stat;
		proc.kill_error = cases[i].kill_error;
		if (percpu_life(PID, cases[i].started) != cases[i].life)
			fail_msg("case %zu", i);
	}
}

/* /proc is of another namespace, or missing. */
static void other_namespaces_are_hidden(void **state)
{
	static const char *const selves[] = { NULL, "", "1234567", "self" };

	(void)state;
	proc.stat = STAT("S", "1", "77");
	proc.kill_error = 0;
	for (int i = 0; i < 4; i++) {
		proc.self = selves[i];
		assert_int_equal(percpu_life(PID, START), PERCPU_LIFE_HIDDEN);
	}
}

/* Numbers that no process has. */
static void nobody_is_no_process(void **state)
{
	static const uint32_t none[] = { 0, (uint32_t)INT_MAX + 1, UINT32_MAX };

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(percpu_life(none[i], START), PERCPU_LIFE_GONE);
		assert_int_equal(percpu_life(none[i], 0), PERCPU_LIFE_GONE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(life_is_what_the_kernel_says),
		cmocka_unit_test(other_namespaces_are_hidden),
		cmocka_unit_test(nobody_is_no_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
