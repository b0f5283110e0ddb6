/* SPDX-License-Identifier: MIT */
/*
 * process.c - the identity of processes, and whether a process lives.
 *
 * The kernel gives the number of a process that has ended to another one, so the time of its
 * start belongs to its identity. Both numbers depend on the boot and the PID namespace, the
 * time also on the time namespace. Processes for which these three are the same can ask the
 * kernel for each other by number. They ask each time, because they hold no descriptor that
 * would keep a process's number from being used again.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cpu.h"

#define PROCESS_HASH UINT64_C(0x100000001b3) /* any will do */

uint64_t percpu_namespace(const char *kind)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* Read /proc/WHO/stat. Returns whether that succeeded. */
static bool read_stat(const char *who, char *ret_state, long *ret_threads, uint64_t *ret_started)
{
	char path[40], buf[1024], *at;
	ssize_t got = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/stat", who);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, buf, sizeof(buf) - 1);
		close(fd);
	}
	if (got <= 0)
		return false;
	buf[got] = 0;
	/* The second field is a name in parentheses, in which anything can be. */
	at = strrchr(buf, ')');
	if (at == NULL || at[1] != ' ' || at[2] == 0)
		return false;
	*ret_state = at[2];
	at += 2;
	for (int field = 3; field < 22; field++) {
		if (field == 20)
			*ret_threads = strtol(at, NULL, 10);
		at = strchr(at, ' ');
		if (at == NULL)
			return false;
		at++;
	}
	*ret_started = strtoull(at, NULL, 10);
	return *ret_started != 0;
}

struct percpu_identity percpu_identity(void)
{
	struct percpu_identity me = { .pid = (uint32_t)getpid() };
	uint64_t ns = percpu_namespace("pid");
	char who[24], state;
	long threads;

	/* The first thread was started with the process. Other processes see this file, too,
	 * while emulators such as qemu-user make up /proc/self/stat. */
	snprintf(who, sizeof(who), "self/task/%u", (unsigned)me.pid);
	if (ns == 0 || !read_stat(who, &state, &threads, &me.started)) {
		me.started = 0;
		return me;
	}
	me.space =
		((percpu_boot_id() ^ ns) * PROCESS_HASH ^ percpu_namespace("time")) * PROCESS_HASH;
	return me;
}

/* Return whether /proc belongs to this process's PID namespace. It may belong to another one. */
static bool proc_is_of_this_namespace(void)
{
	char target[24];
	ssize_t n = readlink("/proc/self", target, sizeof(target) - 1);

	if (n <= 0)
		return false;
	target[n] = 0;
	return strtol(target, NULL, 10) == (long)getpid();
}

enum percpu_life percpu_life(uint32_t pid, uint64_t started)
{
	uint64_t its_start = 0;
	long threads = 0;
	char who[16], state = 0;

	if (pid == 0 || pid > INT_MAX || (kill((pid_t)pid, 0) != 0 && errno == ESRCH))
		return PERCPU_LIFE_GONE;
	snprintf(who, sizeof(who), "%u", (unsigned)pid);
	if (started == 0 || !proc_is_of_this_namespace() ||
	    !read_stat(who, &state, &threads, &its_start))
		return PERCPU_LIFE_HIDDEN;
	/* The first thread of a process may end before its other threads. */
	if (its_start != started || ((state == 'Z' || state == 'X') && threads <= 1))
		return PERCPU_LIFE_GONE;
	return PERCPU_LIFE_THERE;
}
