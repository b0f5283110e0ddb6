/* SPDX-License-Identifier: MIT */
/*
 * reclaim.c - return memory to the system when the machine is short of it.
 *
 *	reclaim [seconds]
 *
 * It creates a million counters, counts in them on every CPU, and destroys them. Then it waits so
 * many seconds, or none, for the kernel to report pressure, and reclaims.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/region.h>

enum { COUNTERS = 1000000 };

/* Return a descriptor that polls as POLLPRI when tasks have waited for memory for 0.1 s within
 * 2 s, or -errno. Without privileges, the window must be a multiple of 2 s, and Linux 6.5 or later
 * is needed. In a container, path may be the memory.pressure of its control group. */
static int watch_pressure(const char *path)
{
	static const char trigger[] = "some 100000 2000000";
	int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC), e;

	if (fd < 0)
		return -errno;
	if (write(fd, trigger, sizeof(trigger)) < 0) {
		e = -errno;
		close(fd);
		return e;
	}
	return fd;
}

/* Wait for pressure, at most so many seconds. Return whether there was. Where the kernel reports
 * none, the program reclaims at intervals instead. */
static bool wait_for_pressure(int fd, int seconds)
{
	struct pollfd p = { .fd = fd, .events = POLLPRI };

	if (poll(&p, 1, seconds * 1000) <= 0)
		return false;
	/* POLLERR: the control group was removed. */
	return !(p.revents & POLLERR) && (p.revents & POLLPRI);
}

/* Return the memory of the process in KiB, but for that of its files. */
static long memory(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	long sum = 0, kb;
	char line[128];

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "RssAnon: %ld", &kb) == 1 ||
		    sscanf(line, "RssShmem: %ld", &kb) == 1)
			sum += kb;
	if (f != NULL)
		fclose(f);
	return sum;
}

/* Count in all of them on each CPU that the program may use. */
static void count(struct percpu_counter **counters)
{
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all) != 0)
		CPU_ZERO(&all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		for (size_t i = 0; i < COUNTERS; i++)
			percpu_counter_add(counters[i], 1);
	}
	sched_setaffinity(0, sizeof(all), &all);
}

static void use_counters(void)
{
	struct percpu_counter **counters = malloc(COUNTERS * sizeof(*counters));
	size_t n = 0;

	if (counters == NULL)
		exit(EXIT_FAILURE);
	while (n < COUNTERS && percpu_counter_create(&counters[n]) == 0)
		n++;
	if (n == COUNTERS)
		count(counters);
	printf("%zu counters: %ld KiB, with the list of them\n", n, memory());
	while (n > 0)
		percpu_counter_destroy(counters[--n]);
	free(counters);
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 0, fd;
	long before = memory(), full, after;

	use_counters();
	full = memory();
	printf("destroyed: %ld KiB\n", full);
	fd = watch_pressure("/proc/pressure/memory");
	if (fd < 0)
		printf("no pressure is reported (%s): reclaiming at intervals\n", strerror(-fd));
	if (wait_for_pressure(fd, seconds))
		puts("there is pressure");
	percpu_reclaim();
	after = memory();
	printf("reclaimed: %ld KiB, %.1f %% of what they took\n", after,
	       full > before ? 100.0 * (double)(after - before) / (double)(full - before) : 0);
	if (fd >= 0)
		close(fd);
	return 0;
}
