/* SPDX-License-Identifier: MIT */
/*
 * packet_filter.c - statistics in the manner of NetBSD's packet filter, with the include line of a
 * kernel: an array of numbers per CPU, by reference, and collected by a callback.
 */
#include <stdlib.h>

#include <sys/percpu.h>

#include "packet_filter.h"

struct filter {
	percpu_t *stats;
};

struct filter *filter_create(void)
{
	struct filter *f = malloc(sizeof(*f));

	if (f != NULL)
		f->stats = percpu_alloc(sizeof(uint64_t) * FILTER_STATS);
	return f;
}

void filter_destroy(struct filter *f)
{
	percpu_free(f->stats, sizeof(uint64_t) * FILTER_STATS);
	free(f);
}

static void increase(struct filter *f, int which)
{
	uint64_t *stats = percpu_getref(f->stats);

	stats[which]++;
	percpu_putref(f->stats);
}

void filter_packet(struct filter *f, int block, uint64_t size)
{
	uint64_t *stats = percpu_getref(f->stats);

	increase(f, block ? FILTER_BLOCK : FILTER_PASS);
	if (size > stats[FILTER_LARGEST])
		stats[FILTER_LARGEST] = size;
	percpu_putref(f->stats);
}

static void collect(void *mem, void *arg, struct cpu_info *ci)
{
	const uint64_t *stats = mem;
	uint64_t *sum = arg;

	(void)ci;
	sum[FILTER_PASS] += stats[FILTER_PASS];
	sum[FILTER_BLOCK] += stats[FILTER_BLOCK];
	if (stats[FILTER_LARGEST] > sum[FILTER_LARGEST])
		sum[FILTER_LARGEST] = stats[FILTER_LARGEST];
}

void filter_stats(struct filter *f, uint64_t stats[FILTER_STATS])
{
	for (int i = 0; i < FILTER_STATS; i++)
		stats[i] = 0;
	percpu_foreach(f->stats, collect, stats);
}

static void count_cpu(void *mem, void *arg, struct cpu_info *ci)
{
	unsigned *n = arg;

	if (*(uint64_t *)mem == 0 && ci->ci_index == *n)
		++*n;
}

unsigned filter_cpus(struct filter *f)
{
	unsigned n = 0;

	percpu_foreach(f->stats, count_cpu, &n);
	return n;
}
