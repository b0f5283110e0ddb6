/* SPDX-License-Identifier: MIT */
/*
 * cpus.c - how many CPUs there can be, and which are online.
 *
 * Lanes are indexed by the CPU numbers of the kernel, so regions need the highest
 * possible number, not how many CPUs are online or allowed. sysfs lists the possible
 * CPUs, but containers put files of their own in its place, and jails have no sysfs. A file
 * is the kernel's if it is on sysfs or procfs. Two tables in /proc have a column for each
 * CPU: /proc/softirqs for possible CPUs, and /proc/interrupts for online CPUs.
 *
 * If neither the list nor the table is the kernel's, two lengths bound the number of
 * CPUs: that of the masks that the kernel prints, with a hexadecimal digit for four CPUs,
 * and that of the shortest mask that sched_getaffinity(2) fills, in words.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "cpu.h"

#define MASK_WORD (CHAR_BIT * sizeof(long)) /* bits of a word of a mask */

bool percpu_is_on(int fd, long file_system)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 && (long)st.f_type == file_system;
}

/* Read a list. *ret_genuine becomes whether the file is the kernel's, and whole: the kernel cuts
 * a list that is longer than a page, and then no newline ends it. */
static bool read_list(const char *path, char *buf, size_t size, bool *ret_genuine)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a pipe */
	ssize_t n;

	*ret_genuine = false;
	if (fd < 0)
		return false;
	*ret_genuine = percpu_is_on(fd, SYSFS_MAGIC);
	n = read(fd, buf, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	*ret_genuine = *ret_genuine && buf[n - 1] == '\n';
	return true;
}

bool percpu_read_list(const char *path, char *buf, size_t size)
{
	bool genuine;

	return read_list(path, buf, size, &genuine);
}

bool percpu_read_genuine(const char *path, char *buf, size_t size)
{
	bool genuine;

	return read_list(path, buf, size, &genuine) && genuine;
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

/* What read_sysfs() and read_table() find. */
struct listing {
	unsigned long cpu; /* set by the caller */
	bool has_cpu;	   /* whether the file lists that CPU */
	unsigned long end; /* the highest number + 1; 0: the file lists none */
};

static void enter_range(struct listing *l, unsigned long first, unsigned long last)
{
	if (l->cpu >= first && l->cpu <= last)
		l->has_cpu = true;
	if (last + 1 > l->end)
		l->end = last + 1;
}

/* Read a list in sysfs into l. Returns whether the list is the kernel's. */
static bool read_sysfs(const char *path, struct listing *l)
{
	unsigned long first, last;
	char buf[4096];
	const char *list = buf;
	bool genuine;

	if (!read_list(path, buf, sizeof(buf), &genuine))
		return false;
	while (percpu_next_range(&list, &first, &last))
		enter_range(l, first, last);
	return genuine && l->end != 0;
}

/* Open a table in /proc. O_NONBLOCK, because the file may be a pipe. */
static FILE *open_table(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;

	if (fd >= 0 && f == NULL)
		close(fd);
	return f;
}

/* Read a table in /proc, which begins with a line of "CPU0 CPU1 ...", into l. Returns
 * whether the table is the kernel's and has such a line. */
static bool read_table(const char *path, struct listing *l)
{
	FILE *f = open_table(path);
	char *line = NULL, *at;
	unsigned long cpu;
	bool whole = false;
	size_t size = 0;

	if (f == NULL)
		return false;
	if (percpu_is_on(fileno(f), PROC_SUPER_MAGIC) && getline(&line, &size, f) > 0) {
		at = line + strspn(line, " ");
		while (strncmp(at, "CPU", 3) == 0) {
			cpu = strtoul(at + 3, &at, 10);
			enter_range(l, cpu, cpu);
			at += strspn(at, " ");
		}
		whole = *at == '\n' && l->end != 0;
	}
	free(line);
	fclose(f);
	return whole;
}

/* Set *ret_seen to the highest CPU number + 1 in the kernel's affinity mask: at least that many
 * lanes are needed. Returns the number of bits of the shortest mask that the kernel fills, or
 * 0. */
static unsigned long affinity(unsigned long *ret_seen)
{
	unsigned long mask[PERCPU_MAX_CPUS * 4 / MASK_WORD];
	size_t size = 0;
	long n;

	*ret_seen = 0;
	do {
		size += sizeof(mask[0]);
		n = syscall(SYS_sched_getaffinity, 0, size, mask);
	} while (n < 0 && errno == EINVAL && size < sizeof(mask));
	if (n <= 0)
		return 0;
	for (unsigned long i = 0; i < n * (unsigned long)CHAR_BIT; i++)
		if (mask[i / MASK_WORD] >> (i % MASK_WORD) & 1)
			*ret_seen = i + 1;
	return n * (unsigned long)CHAR_BIT;
}

/* Return the highest possible CPU number + 1 by the kernel's lists, or 0 if it is not known. If
 * the lists cannot be read, return what was last read: the process may be in a jail by now, or
 * have no descriptor left. If again is false, do not read a second time. *ret_claimed becomes
 * the number by a list in sysfs that is not the kernel's. */
static unsigned long known(bool again, unsigned long *ret_claimed)
{
	static unsigned long last_known; /* atomic */
	unsigned long cpus = __atomic_load_n(&last_known, __ATOMIC_RELAXED);
	struct listing list = { 0 }, table = { 0 };

	*ret_claimed = 0;
	if (cpus != 0 && !again)
		return cpus;
	if (!read_sysfs("/sys/devices/system/cpu/possible", &list)) {
		*ret_claimed = list.end;
		list.end = read_table("/proc/softirqs", &table) ? table.end : 0;
	}
	if (list.end == 0)
		return cpus;
	__atomic_store_n(&last_known, list.end, __ATOMIC_RELAXED);
	return list.end;
}

/* Return how many hexadecimal digits the kernel prints for a mask of CPUs, or 0 if that
 * is not known. The mask has as many bits as the highest possible CPU number + 1. */
static unsigned long mask_digits(void)
{
	static const char name[] = "Cpus_allowed:";
	FILE *f = open_table("/proc/self/status");
	char *line = NULL;
	unsigned long digits = 0;
	size_t size = 0;

	if (f == NULL)
		return 0;
	while (digits == 0 && getline(&line, &size, f) > 0)
		if (strncmp(line, name, sizeof(name) - 1) == 0)
			for (const char *c = line + sizeof(name) - 1; *c != '\0'; c++)
				digits += (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'f');
	if (!percpu_is_on(fileno(f), PROC_SUPER_MAGIC))
		digits = 0;
	free(line);
	fclose(f);
	return digits;
}

/* Return how many CPU lanes to make if the kernel's lists cannot be read. Raise *certain to the
 * number of CPUs that the machine has at least. */
static unsigned long guess(unsigned long bits, unsigned long claimed, uint32_t *certain)
{
	unsigned long digits = mask_digits();

	if (bits > MASK_WORD && bits - MASK_WORD >= *certain)
		*certain = (uint32_t)(bits - MASK_WORD + 1);
	if (4 * digits >= *certain) {
		if (4 * digits - 3 > *certain)
			*certain = (uint32_t)(4 * digits - 3);
		return 4 * digits;
	}
	if (claimed >= *certain && (bits == 0 || claimed <= bits))
		return claimed;
	return bits != 0 ? bits : 1;
}

static int possible_cpus(bool again, uint32_t *ret_certain)
{
	unsigned long seen, bits = affinity(&seen), claimed, cpus = known(again, &claimed);
	uint32_t certain = seen > 0 ? (uint32_t)seen : 1;

	if (cpus < certain || (bits != 0 && cpus > bits)) /* unknown, or contradicted */
		cpus = guess(bits, claimed, &certain);
	else
		certain = (uint32_t)cpus;
	if (cpus > PERCPU_MAX_CPUS)
		return -E2BIG;
	if (ret_certain != NULL)
		*ret_certain = certain;
	return (int)cpus;
}

/* A thread that is canceled while it reads a file would leave the file open. */
int percpu_possible_cpus(uint32_t *ret_certain)
{
	int cancel = percpu_defer_cancel(), r = possible_cpus(true, ret_certain);

	percpu_restore_cancel(cancel);
	return r;
}

int percpu_known_cpus(void)
{
	int cancel = percpu_defer_cancel(), r = possible_cpus(false, NULL);

	percpu_restore_cancel(cancel);
	return r;
}

static bool is_offline(unsigned cpu)
{
	struct listing list = { .cpu = cpu }, table = list;

	if (read_sysfs("/sys/devices/system/cpu/online", &list))
		return !list.has_cpu;
	return read_table("/proc/interrupts", &table) && !table.has_cpu;
}

bool percpu_cpu_online(unsigned cpu)
{
	int cancel = percpu_defer_cancel();
	bool offline = is_offline(cpu);

	percpu_restore_cancel(cancel);
	return !offline;
}

/* The set is on the stack because helpers should not allocate memory. */
int percpu_pin(pid_t tid, unsigned cpu)
{
	cpu_set_t set[PERCPU_MAX_CPUS / CPU_SETSIZE] = { 0 };

	CPU_SET_S(cpu, sizeof(set), set);
	return sched_setaffinity(tid, sizeof(set), set) == 0 ? 0 : percpu_errno();
}

uint32_t percpu_lanes_everywhere = PERCPU_MAX_CPUS;
static bool without_lane; /* atomic: some region has no lane for a noted CPU */

void percpu_note_lanes(uint32_t cpus)
{
	uint32_t now = __atomic_load_n(&percpu_lanes_everywhere, __ATOMIC_RELAXED);

	PERCPU_STEP("cpus: lanes read");
	while (cpus < now &&
	       !__atomic_compare_exchange_n(&percpu_lanes_everywhere, &now, cpus, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

bool percpu_note_cpus(uint32_t cpus)
{
	if (cpus > __atomic_load_n(&percpu_lanes_everywhere, __ATOMIC_RELAXED))
		__atomic_store_n(&without_lane, true, __ATOMIC_RELAXED);
	return __atomic_load_n(&without_lane, __ATOMIC_RELAXED);
}

unsigned percpu_vector_words(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512f"))
		return 8;
	if (__builtin_cpu_supports("avx2"))
		return 4;
#endif
	return 2;
}

unsigned percpu_pair_ways(void)
{
	unsigned ways = 0;
#if defined(__x86_64__)
	unsigned a, b, c = 0, d;

	/* Intel and AMD promise that CPUs with AVX load aligned 16 bytes at once. */
	if (__get_cpuid(1, &a, &b, &c, &d)) {
		ways |= c & bit_CMPXCHG16B ? PERCPU_PAIR_EXCHANGES : 0;
		ways |= c & bit_AVX ? PERCPU_PAIR_LOADS : 0;
	}
#elif defined(__aarch64__)
	unsigned long features = getauxval(AT_HWCAP);

	ways = PERCPU_PAIR_EXCHANGES;
	ways |= features & (1UL << 8) ? PERCPU_PAIR_CASP : 0;	/* HWCAP_ATOMICS */
	ways |= features & (1UL << 25) ? PERCPU_PAIR_LOADS : 0; /* HWCAP_USCAT */
#endif
	return ways;
}
