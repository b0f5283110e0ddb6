/* SPDX-License-Identifier: MIT */
/*
 * file_system.c - the numbers of a file system in the manner of Linux's, with the include lines of
 * the kernel: counts that are read approximately, and statistics per CPU.
 */
#include <stdlib.h>

#include <linux/percpu.h>
#include <linux/percpu_counter.h>

#include "file_system.h"

#define GFP_KERNEL 0

struct io_stats {
	uint64_t ops;
	uint64_t sectors[2];
	uint32_t small;
};

struct mount {
	struct percpu_counter free_blocks;
	struct io_stats __percpu *io;
};

struct mount *mount_new(int64_t blocks)
{
	struct mount *m = calloc(1, sizeof(*m));

	if (m == NULL || percpu_counter_init(&m->free_blocks, blocks, GFP_KERNEL))
		goto failed;
	m->io = alloc_percpu(struct io_stats);
	if (!m->io)
		goto failed;
	return m;
failed:
	mount_free(m);
	return NULL;
}

void mount_free(struct mount *m)
{
	if (!m)
		return;
	free_percpu(m->io);
	percpu_counter_destroy(&m->free_blocks);
	free(m);
}

int take_block(struct mount *m, int64_t n)
{
	if (percpu_counter_compare(&m->free_blocks, n) < 0)
		return -1;
	percpu_counter_add_batch(&m->free_blocks, -n, 64);
	return 0;
}

int64_t free_blocks(struct mount *m)
{
	return percpu_counter_sum_positive(&m->free_blocks);
}

int64_t free_blocks_about(struct mount *m)
{
	return percpu_counter_read_positive(&m->free_blocks);
}

void count_io(struct mount *m, int write, uint32_t sectors)
{
	struct io_stats *here;

	if (write) {
		this_cpu_inc(m->io->ops);
		this_cpu_add(m->io->sectors[1], sectors);
		if (sectors < 8)
			this_cpu_inc(m->io->small);
		return;
	}
	here = get_cpu_ptr(m->io);
	here->ops++;
	here->sectors[0] += sectors;
	if (sectors < 8)
		here->small++;
	put_cpu_ptr(m->io);
}

void count_ios(struct mount *m, uint64_t *ops, uint64_t *sectors, uint32_t *small, int *cpus)
{
	int cpu;

	*ops = *sectors = 0;
	*small = 0;
	*cpus = 0;
	for_each_possible_cpu(cpu)
	{
		const struct io_stats *s = per_cpu_ptr(m->io, cpu);

		*ops += s->ops;
		*sectors += s->sectors[0] + s->sectors[1];
		*small += s->small;
		++*cpus;
	}
}

int check_counter(void)
{
	struct percpu_counter c = { 0 };
	int64_t slack = 0;
	int cpu;

	for_each_possible_cpu(cpu) slack += 32;
	percpu_counter_destroy(&c);
	if (percpu_counter_init(&c, 5, GFP_KERNEL) != 0)
		return __LINE__;
	percpu_counter_inc(&c);
	percpu_counter_inc(&c);
	percpu_counter_dec(&c);
	percpu_counter_sub(&c, 3);
	percpu_counter_add(&c, 1000);
	percpu_counter_add_batch(&c, 1, 1);
	if (percpu_counter_sum(&c) != 1004 || percpu_counter_sum_positive(&c) != 1004)
		return __LINE__;
	if (percpu_counter_read(&c) < 1004 - slack || percpu_counter_read(&c) > 1004 + slack)
		return __LINE__;
	if (percpu_counter_compare(&c, 1005) != -1 || percpu_counter_compare(&c, 1004) != 0 ||
	    percpu_counter_compare(&c, 1003) != 1)
		return __LINE__;
	percpu_counter_add(&c, -2004);
	if (percpu_counter_sum(&c) != -1000 || percpu_counter_sum_positive(&c) != 0 ||
	    percpu_counter_read(&c) > -1000 + slack || percpu_counter_read_positive(&c) != 0)
		return __LINE__;
	percpu_counter_set(&c, 77);
	if (percpu_counter_sum(&c) != 77)
		return __LINE__;
	percpu_counter_inc(&c);
	percpu_counter_set(&c, -3);
	if (percpu_counter_sum(&c) != -3)
		return __LINE__;
	percpu_counter_destroy(&c);
	return c.sum == NULL ? 0 : __LINE__;
}
