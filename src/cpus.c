/* SPDX-License-Identifier: MIT */
/*
 * cpus.c - how many CPUs there can be.
 *
 * Lanes are indexed by the CPU numbers of the kernel, so what counts is the
 * highest number possible, not how many CPUs are online or allowed. sysfs says
 * it, but containers fake sysfs; the affinity system call does not lie.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

bool percpu_read_list(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	return true;
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

int percpu_possible_cpus(void)
{
	unsigned long first, last, cpus = 0, seen, bits = affinity(&seen);
	char buf[4096];
	const char *list = buf;

	if (percpu_read_list("/sys/devices/system/cpu/possible", buf, sizeof(buf)))
		while (percpu_next_range(&list, &first, &last))
			if (last + 1 > cpus)
				cpus = last + 1;
	/* No list, or one that the kernel contradicts: as many as its masks. */
	if (cpus == 0 || cpus < seen || (bits != 0 && cpus > bits))
		cpus = bits != 0 ? bits : cpus;
	if (cpus == 0)
		cpus = 1;
	return cpus > PERCPU_MAX_CPUS ? -E2BIG : (int)cpus;
}

bool percpu_cpu_online(unsigned cpu)
{
	unsigned long first, last;
	char buf[4096];
	const char *list = buf;

	if (!percpu_read_list("/sys/devices/system/cpu/online", buf, sizeof(buf)))
		return true;
	while (percpu_next_range(&list, &first, &last))
		if (cpu >= first && cpu <= last)
			return true;
	return false;
}

int percpu_pin(pid_t tid, unsigned cpu)
{
	const size_t size = CPU_ALLOC_SIZE(PERCPU_MAX_CPUS);
	cpu_set_t *set = CPU_ALLOC(PERCPU_MAX_CPUS);
	int r;

	if (set == NULL)
		return -ENOMEM;
	CPU_ZERO_S(size, set);
	CPU_SET_S(cpu, size, set);
	r = sched_setaffinity(tid, size, set) == 0 ? 0 : percpu_errno();
	CPU_FREE(set);
	return r;
}
