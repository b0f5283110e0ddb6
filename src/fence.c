/* SPDX-License-Identifier: MIT */
/*
 * fence.c - make every sequence in progress commit or restart.
 *
 * Within the process membarrier(2) does it. For other processes there is no
 * such call; but a thread that gets to run on a CPU has preempted whatever was
 * in a sequence there, which the kernel then aborts when it resumes. So a
 * thread visits each CPU. Who is on the CPU already needs neither.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/* Since Linux 5.10; the headers may be older. */
#define RSEQ_FENCE (1 << 7)
#define RSEQ_FENCE_REGISTER (1 << 8)
#define RSEQ_FENCE_ONE_CPU 1

static bool by_kernel; /* constant once percpu_init() is done */

static int membarrier(int cmd, unsigned flags, int cpu)
{
	return (int)syscall(SYS_membarrier, cmd, flags, cpu);
}

bool percpu_fence_init(uint32_t *ret_commands)
{
	int cmds = membarrier(MEMBARRIER_CMD_QUERY, 0, 0);

	*ret_commands = cmds > 0 ? cmds : 0;
	by_kernel = cmds > 0 && (cmds & RSEQ_FENCE) && membarrier(RSEQ_FENCE_REGISTER, 0, 0) == 0;
	return by_kernel;
}

/* On the CPUs below end, or all that there are, if that is less or certain. */
static int fence_below(uint32_t end, uint64_t timeout_ns, struct percpu_fence_report *ret_report)
{
	uint32_t possible = percpu_init()->possible_cpus, certain = 0;

	if (timeout_ns == 0)
		return -EINVAL;
	/* Those that there are now: a checkpoint may have been moved. Where that can
	 * no longer be read, those that there were. */
	(void)percpu_possible_cpus(&certain);
	percpu_note_cpus(certain);
	percpu_thread_look();
	if (end > possible)
		end = possible;
	if (end < certain)
		end = certain;
	return percpu_visit(0, end, NULL, NULL, timeout_ns, ret_report);
}

int percpu_fence_all(uint64_t timeout_ns, struct percpu_fence_report *ret_report)
{
	return fence_below(UINT32_MAX, timeout_ns, ret_report);
}

/* Who made the region may have known better how many CPUs there are: nobody counts
 * in it on a CPU for which it has no lane. */
int percpu_fence_region(const struct percpu_region *r, uint64_t timeout_ns)
{
	return r->shared ? fence_below(r->cpus, timeout_ns, NULL) : percpu_fence();
}

/* The process's own sequences on these CPUs: by the kernel if it can. Fallbacks
 * in signal handlers come here, too, so it starts nothing that is not needed. */
static int fence(unsigned first, unsigned end, unsigned flags)
{
	if (!percpu_sequences_may_run())
		return 0;
	if (by_kernel && (membarrier(RSEQ_FENCE, flags, (int)first) == 0 ||
			  /* Not inherited, by a restored checkpoint for instance. */
			  (membarrier(RSEQ_FENCE_REGISTER, 0, 0) == 0 &&
			   membarrier(RSEQ_FENCE, flags, (int)first) == 0)))
		return 0;
	return percpu_visit(first, end, NULL, NULL, PERCPU_SECOND, NULL);
}

int percpu_fence(void)
{
	percpu_thread_look();
	return fence(0, percpu_init()->possible_cpus, 0);
}

/* Whether the thread is on the CPU: whatever was in a sequence there has then been
 * preempted, since the caller raised its guard, as by a visit. */
static bool is_on_cpu(unsigned cpu)
{
	int saved = errno;
	unsigned here;
	bool is_on = syscall(SYS_getcpu, &here, NULL, NULL) == 0 && here == cpu;

	errno = saved;
	return is_on;
}

int percpu_fence_cpu(unsigned cpu)
{
	if (!percpu_sequences_may_run() || is_on_cpu(cpu))
		return 0;
	return fence(cpu, cpu + 1, RSEQ_FENCE_ONE_CPU);
}
