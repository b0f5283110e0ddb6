/* SPDX-License-Identifier: MIT */
/*
 * start_one.c - a program that counts once, and reports the costs to start.cc.
 *
 * usage: start_one atomic|percpu|proof
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "start.h"

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Return a field of /proc/self/status, in its unit; -1 if it is not there. */
static double status_field(const char *name)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	double value = -1;

	while (f != NULL && value < 0 && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, name, strlen(name)) == 0)
			value = strtod(line + strlen(name), NULL);
	if (f != NULL)
		fclose(f);
	return value;
}

static long faults(void)
{
	struct rusage u = { 0 };

	getrusage(RUSAGE_SELF, &u);
	return u.ru_minflt;
}

static unsigned long word;

static int count_once(const char *how)
{
	struct percpu_counter *c;
	int e;

	if (strcmp(how, "atomic") == 0) {
		__atomic_fetch_add(&word, 1, __ATOMIC_RELAXED);
		return 0;
	}
	e = percpu_counter_create(&c);
	if (e == 0)
		percpu_counter_add(c, 1);
	if (e == 0 && strcmp(how, "proof") == 0) {
		percpu_selftest();
		percpu_counter_add(c, 1);
	}
	return e;
}

int main(int argc, char **argv)
{
	struct start_figures f = { 0 };
	double begin, kb;
	long pages;
	int e;

	if (argc != 2)
		return 2;
	kb = status_field("VmRSS:");
	pages = faults();
	begin = now_ns();
	syscall(SYS_getppid); /* a mark for the tracer */
	e = count_once(argv[1]);
	syscall(SYS_getppid);
	f.ns = now_ns() - begin;
	f.faults = (double)(faults() - pages);
	f.threads = status_field("Threads:");
	f.kb = status_field("VmRSS:") - kb;
	f.space_kb = status_field("VmSize:");
	return e == 0 && write(START_FD, &f, sizeof(f)) == sizeof(f) ? 0 : 1;
}
