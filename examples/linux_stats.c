/* SPDX-License-Identifier: MIT */
/*
 * linux_stats.c - the numbers of a file system by Linux's names, in user space: statistics per CPU,
 * and a count of free blocks that is read approximately.
 *
 *	cc -pthread linux_stats.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include <percpu/linux/percpu.h>
#include <percpu/linux/percpu_counter.h>

#define WRITES 100000
#define THREADS 4

struct io_stats {
	uint64_t writes, bytes;
	uint32_t largest;
};

static struct io_stats __percpu *stats;
static struct percpu_counter free_blocks;
static DEFINE_PER_CPU(uint32_t, small_writes);

static void *write_blocks(void *arg)
{
	for (uint32_t i = 0; i < WRITES; i++) {
		const uint32_t size = i % 4096;
		struct io_stats *here = get_cpu_ptr(stats);

		if (size > here->largest)
			here->largest = size;
		put_cpu_ptr(stats);
		this_cpu_inc(stats->writes);
		this_cpu_add(stats->bytes, size);
		if (size < 512)
			this_cpu_inc(small_writes);
		percpu_counter_dec(&free_blocks);
	}
	return arg;
}

int main(void)
{
	uint64_t writes = 0, bytes = 0, small = 0;
	pthread_t threads[THREADS];
	int64_t left;
	int cpu, n = 0;

	stats = alloc_percpu(struct io_stats);
	if (stats == NULL || percpu_counter_init(&free_blocks, 1000000, 0) != 0)
		return 1;
	while (n < THREADS && pthread_create(&threads[n], NULL, write_blocks, NULL) == 0)
		n++;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	for_each_possible_cpu(cpu)
	{
		writes += per_cpu_ptr(stats, cpu)->writes;
		bytes += per_cpu_ptr(stats, cpu)->bytes;
		small += per_cpu(small_writes, cpu);
	}
	left = percpu_counter_sum(&free_blocks);
	printf("%" PRIu64 " writes of %" PRIu64 " bytes, %" PRIu64 " of them small; %" PRId64
	       " blocks left\n",
	       writes, bytes, small, left);
	percpu_counter_destroy(&free_blocks);
	free_percpu(stats);
	return n == THREADS && writes == THREADS * WRITES && left == 1000000 - THREADS * WRITES ?
		       0 :
		       1;
}
