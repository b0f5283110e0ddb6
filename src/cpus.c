/* SPDX-License-Identifier: MIT */
/*
 * cpus.c - how many CPUs there can be.
 *
 * Lanes are indexed by the CPU numbers of the kernel, so what counts is the
 * highest number possible, not how many CPUs are online or allowed. sysfs lists
 * them, but containers put files of their own in its place. Which file system a
 * file is on tells the two apart. Instead of a list that is not the kernel's, we
 * take how long the kernel prints its CPU masks: the number of possible CPUs in
 * bits, rounded up to a hexadecimal digit. The affinity system call does not lie
 * either, but tells no more than the CPUs allowed, and the size of a mask.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "internal.h"

static bool is_on(int fd, long file_system)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 && (long)st.f_type == file_system;
}

/* In *ret_genuine, whether it is the kernel that says so. */
static bool read_list(const char *path, char *buf, size_t size, bool *ret_genuine)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	*ret_genuine = false;
	if (fd < 0)
		return false;
	*ret_genuine = is_on(fd, SYSFS_MAGIC);
	n = read(fd, buf, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	return true;
}

bool percpu_read_list(const char *path, char *buf, size_t size)
{
	bool genuine;

	return read_list(path, buf, size, &genuine);
}

bool percpu_next_range(const char **list, unsigned long *first, unsigned long *last)
{
	char *end;

	if (**list < '0' || **list > '9')
		return false;
	*first = *last = strtoul(*list, &end, 10);
	if (*end == '-')
		*last = strtoul(end + 1, &end, 10);
	*list = *end == ',' ? end + 1 : end;
	return true;
}

/* What the kernel's affinity mask proves: at least *ret_seen lanes are needed;
 * the result is how many bits its masks have, or 0. */
static unsigned long affinity(unsigned long *ret_seen)
{
	unsigned long mask[PERCPU_MAX_CPUS * 4 / (CHAR_BIT * sizeof(long))];
	const unsigned long per_word = CHAR_BIT * sizeof(long);
	long n = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);

	*ret_seen = 0;
	if (n <= 0)
		return 0;
	for (unsigned long i = 0; i < n * (unsigned long)CHAR_BIT; i++)
		if (mask[i / per_word] >> (i % per_word) & 1)
			*ret_seen = i + 1;
	return n * (unsigned long)CHAR_BIT;
}

/* The highest possible CPU number + 1 as sysfs has it, or had it when the process
 * could read it: it may be in a jail since, or have no descriptor left. 0: no list. */
static unsigned long listed(bool *ret_genuine)
{
	static unsigned long last_read; /* atomic; of the kernel's list */
	unsigned long first, last, cpus = 0;
	char buf[4096];
	const char *list = buf;

	if (!read_list("/sys/devices/system/cpu/possible", buf, sizeof(buf), ret_genuine)) {
		cpus = __atomic_load_n(&last_read, __ATOMIC_RELAXED);
		*ret_genuine = cpus != 0;
		return cpus;
	}
	while (percpu_next_range(&list, &first, &last))
		if (last + 1 > cpus)
			cpus = last + 1;
	if (*ret_genuine)
		__atomic_store_n(&last_read, cpus, __ATOMIC_RELAXED);
	return cpus;
}

/* Hexadecimal digits that the kernel prints for a mask of CPUs; 0: not known. It
 * prints as many bits as the highest possible CPU number + 1. */
static unsigned long mask_digits(void)
{
	static const char name[] = "Cpus_allowed:";
	FILE *f = fopen("/proc/self/status", "re");
	char *line = NULL;
	unsigned long digits = 0;
	size_t size = 0;

	if (f == NULL)
		return 0;
	while (digits == 0 && getline(&line, &size, f) > 0)
		if (strncmp(line, name, sizeof(name) - 1) == 0)
			for (const char *c = line + sizeof(name) - 1; *c != '\0'; c++)
				digits += (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'f');
	if (!is_on(fileno(f), PROC_SUPER_MAGIC))
		digits = 0;
	free(line);
	fclose(f);
	return digits;
}

static int possible_cpus(uint32_t *ret_certain)
{
	unsigned long seen, bits = affinity(&seen), digits = 0, cpus, certain;
	bool genuine;

	cpus = listed(&genuine);
	if (cpus < seen || (bits != 0 && cpus > bits))
		cpus = 0; /* the kernel contradicts it */
	certain = genuine ? cpus : 0;
	if (certain == 0)
		digits = mask_digits();
	if (digits != 0 && 4 * digits >= seen) {
		certain = 4 * digits - 3;
		cpus = cpus > 4 * digits ? cpus : 4 * digits;
	} else if (cpus == 0) {
		cpus = bits != 0 ? bits : 1; /* as many as its masks have room for */
	}
	if (certain < seen)
		certain = seen;
	if (cpus > PERCPU_MAX_CPUS)
		return -E2BIG;
	if (ret_certain != NULL)
		*ret_certain = (uint32_t)(certain != 0 ? certain : 1);
	return (int)cpus;
}

/* Files are read, which are cancellation points, and would stay open. */
int percpu_possible_cpus(uint32_t *ret_certain)
{
	int cancel = percpu_defer_cancel(), r = possible_cpus(ret_certain);

	percpu_restore_cancel(cancel);
	return r;
}

bool percpu_cpu_online(unsigned cpu)
{
	unsigned long first, last;
	uint32_t certain;
	char buf[4096];
	const char *list = buf;
	bool genuine;

	if (!read_list("/sys/devices/system/cpu/online", buf, sizeof(buf), &genuine))
		return true;
	while (percpu_next_range(&list, &first, &last))
		if (cpu >= first && cpu <= last)
			return true;
	/* A list that is not the kernel's leaves out CPUs that there are. */
	return !genuine && percpu_possible_cpus(&certain) > 0 && cpu < certain;
}

/* The set is on the stack: see percpu_thread_start(). */
int percpu_pin(pid_t tid, unsigned cpu)
{
	cpu_set_t set[PERCPU_MAX_CPUS / CPU_SETSIZE] = { 0 };

	CPU_SET_S(cpu, sizeof(set), set);
	return sched_setaffinity(tid, sizeof(set), set) == 0 ? 0 : percpu_errno();
}
