/* SPDX-License-Identifier: MIT */
/*
 * footprint.c - bytes per counter of four kinds of counters: measured on this machine, after
 * every CPU has counted in each, and by formula for machines with more CPUs.
 *
 *	footprint [counters]
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/percpu.h>
#include <percpu/wbuf.h>

enum { ENTRIES = 1024, ENTRY = 16 }; /* of a write buffer, per CPU; bytes of one */

static size_t n = 1000000;

/* The counters of each kind, and an add to them. Their memory is never freed, as the next kind
 * would reuse it, and it would not count as new. */
static struct percpu_counter_array *packed;
static struct percpu_compact *compact;
static struct percpu_wbuf *buffer;
static uint64_t *words, *shared;

static int make_packed(void)
{
	return percpu_counter_array_create(n, &packed);
}

static void add_packed(size_t i)
{
	percpu_counter_array_add(packed, i, 1);
}

static int make_compact(void)
{
	return percpu_compact_create(n, &compact);
}

/* Add so much that the set makes checkpoints. */
static void add_compact(size_t i)
{
	percpu_compact_add(compact, i, (int64_t)compact->half);
}

static int make_buffered(void)
{
	words = calloc(n, sizeof(*words));
	return words ? percpu_wbuf_create(NULL, &buffer) : -1;
}

static void add_buffered(size_t i)
{
	percpu_wbuf_add(buffer, &words[i], 1);
}

static int make_shared(void)
{
	shared = calloc(n, sizeof(*shared));
	return shared ? 0 : -1;
}

static void add_shared(size_t i)
{
	__atomic_fetch_add(&shared[i], 1, __ATOMIC_RELAXED);
}

/* Bytes per counter: for each CPU; for any number of CPUs; and for each CPU, of the whole set. */
static const struct kind {
	const char *name;
	int (*make)(void);
	void (*add)(size_t i);
	unsigned per_cpu, fixed, per_set;
} kinds[] = {
	{ "packed", make_packed, add_packed, 8, 0, 0 },
	{ "compact", make_compact, add_compact, 4, 8, 0 },
	{ "write-buffered", make_buffered, add_buffered, 0, 8, ENTRIES *ENTRY },
	{ "shared", make_shared, add_shared, 0, 8, 0 },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static double by_formula(const struct kind *k, unsigned cpus)
{
	return k->per_cpu * cpus + k->fixed + (double)k->per_set * cpus / (double)n;
}

static double resident_bytes(void)
{
	long size = 0, pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f) {
		if (fscanf(f, "%ld %ld", &size, &pages) != 2)
			pages = 0;
		(void)fclose(f);
	}
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* Count in each counter on each CPU that the program may use. Returns the number of CPUs. */
static unsigned count_everywhere(const struct kind *k)
{
	cpu_set_t all, one;
	unsigned cpus = 0;

	if (sched_getaffinity(0, sizeof(all), &all) != 0)
		return 0;
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (!CPU_ISSET(cpu, &all) || sched_setaffinity(0, sizeof(one), &one) != 0)
			continue;
		cpus++;
		for (size_t i = 0; i < n; i++)
			k->add(i);
	}
	(void)sched_setaffinity(0, sizeof(all), &all);
	return cpus;
}

static void measure(const struct kind *k)
{
	double before = resident_bytes();
	unsigned cpus;

	if (k->make() != 0) {
		printf("%s: no memory\n", k->name);
		return;
	}
	cpus = count_everywhere(k);
	printf("%-16s %8.1f %8.1f\n", k->name, (resident_bytes() - before) / (double)n,
	       by_formula(k, cpus));
}

int main(int argc, char **argv)
{
	static const unsigned cpus[] = { 1, 2, 16, 64, 128, 256 };

	if (argc > 1)
		n = strtoull(argv[1], NULL, 10);
	if (argc > 2 || n == 0) {
		fprintf(stderr, "usage: footprint [counters]\n");
		return 2;
	}
	(void)percpu_selftest(); /* so that no measurement includes its memory */
	printf("Bytes per counter, of %zu. On this machine, tier %s:\n\n", n,
	       percpu_tier_name(percpu_status()->tier));
	printf("%-16s %8s %8s\n", "", "measured", "formula");
	for (unsigned k = 0; k < KINDS; k++)
		measure(&kinds[k]);
	printf("\nBy formula, for so many CPUs:\n\n%-16s", "");
	for (unsigned c = 0; c < sizeof(cpus) / sizeof(cpus[0]); c++)
		printf(" %8u", cpus[c]);
	for (unsigned k = 0; k < KINDS; k++) {
		printf("\n%-16s", kinds[k].name);
		for (unsigned c = 0; c < sizeof(cpus) / sizeof(cpus[0]); c++)
			printf(" %8.1f", by_formula(&kinds[k], cpus[c]));
	}
	printf("\n");
	return 0;
}
