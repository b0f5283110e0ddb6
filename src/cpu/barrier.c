/* SPDX-License-Identifier: MIT */
/*
 * barrier.c - abort the sequences that this process has in progress: by membarrier(2), or by
 * visits if the kernel has no such fence.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"

/* Since Linux 5.10; the headers may be older. */
#define RSEQ_FENCE (1 << 7)
#define RSEQ_FENCE_REGISTER (1 << 8)
#define RSEQ_FENCE_ONE_CPU 1

static bool by_kernel; /* constant once percpu_init() is done */

static int membarrier(int cmd, unsigned flags, int cpu)
{
	return (int)syscall(SYS_membarrier, cmd, flags, cpu);
}

bool percpu_barrier_init(uint32_t *ret_commands)
{
	int cmds = membarrier(MEMBARRIER_CMD_QUERY, 0, 0);

	*ret_commands = cmds > 0 ? cmds : 0;
	by_kernel = membarrier(RSEQ_FENCE_REGISTER, 0, 0) == 0; /* if it knows that fence */
	return by_kernel;
}

/* Abort the process's own sequences on CPUs first to end - 1. Fallbacks in signal handlers call
 * this, too, so it starts a thread only if the kernel cannot fence. */
static int abort_all(unsigned first, unsigned end, unsigned flags)
{
	if (by_kernel && (membarrier(RSEQ_FENCE, flags, (int)first) == 0 ||
			  /* The registration can be lost, as after a restored checkpoint. */
			  (membarrier(RSEQ_FENCE_REGISTER, 0, 0) == 0 &&
			   membarrier(RSEQ_FENCE, flags, (int)first) == 0)))
		return 0;
	return percpu_visit(first, end, NULL, NULL, PERCPU_SECOND, NULL);
}

int percpu_barrier(unsigned cpus)
{
	return percpu_sequences_may_run() ? abort_all(0, cpus, 0) : 0;
}

/* Return whether the thread is on the CPU. If so, it has preempted any thread that was in a
 * sequence there, as a visit does. */
static bool is_on_cpu(unsigned cpu)
{
	int saved = errno;
	unsigned here;
	bool is_on = syscall(SYS_getcpu, &here, NULL, NULL) == 0 && here == cpu;

	errno = saved;
	return is_on;
}

int percpu_barrier_cpu(unsigned cpu)
{
	if (!percpu_sequences_may_run() || is_on_cpu(cpu))
		return 0;
	return abort_all(cpu, cpu + 1, RSEQ_FENCE_ONE_CPU);
}
