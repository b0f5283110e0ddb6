/* SPDX-License-Identifier: MIT */
/*
 * netbsd_stats.c - statistics of a packet filter by NetBSD's percpu(9), unchanged in user space.
 *
 *	cc -pthread netbsd_stats.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include <percpu/netbsd/percpu.h>

#define PACKETS 100000
#define THREADS 4

enum { PASSED, BLOCKED, STATS };

static percpu_t *stats;

static void *filter(void *arg)
{
	for (int i = 0; i < PACKETS; i++) {
		uint64_t *here = percpu_getref(stats);

		here[i % 10 == 0 ? BLOCKED : PASSED]++;
		percpu_putref(stats);
	}
	return arg;
}

static void collect(void *copy, void *arg, struct cpu_info *ci)
{
	const uint64_t *here = copy;
	uint64_t *sum = arg;

	(void)ci;
	for (int i = 0; i < STATS; i++)
		sum[i] += here[i];
}

int main(void)
{
	uint64_t sum[STATS] = { 0 };
	pthread_t threads[THREADS];
	int n = 0;

	stats = percpu_alloc(sizeof(sum));
	while (n < THREADS && pthread_create(&threads[n], NULL, filter, NULL) == 0)
		n++;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	percpu_foreach(stats, collect, sum);
	percpu_free(stats, sizeof(sum));
	printf("%" PRIu64 " passed, %" PRIu64 " blocked\n", sum[PASSED], sum[BLOCKED]);
	return n == THREADS && sum[PASSED] == 9 * sum[BLOCKED] &&
			       sum[BLOCKED] == THREADS * PACKETS / 10 ?
		       0 :
		       1;
}
