/* SPDX-License-Identifier: MIT */
/*
 * fence.c - make every sequence in progress commit or restart.
 *
 * Within the process membarrier(2) does it. For other processes there is no such call. But a
 * thread that runs on a CPU has preempted any thread that was in a sequence there, and the
 * kernel aborts the sequence when it resumes that thread. So a thread visits each CPU. A
 * thread that is on the CPU already needs neither.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"

int percpu_fence_below(uint32_t end, uint64_t timeout_ns, struct percpu_fence_report *ret_report)
{
	uint32_t possible = percpu_init()->possible_cpus, certain = 0;

	if (timeout_ns == 0)
		return -EINVAL;
	/* A process that was restored from a checkpoint may be on a machine with more CPUs. If
	 * it can no longer read the lists, the status has the number of the first call. */
	(void)percpu_possible_cpus(&certain);
	percpu_note_cpus(certain);
	percpu_thread_note_cpu();
	if (end > possible)
		end = possible;
	if (end < certain)
		end = certain;
	return percpu_visit(0, end, NULL, NULL, timeout_ns, ret_report);
}

int percpu_fence_all(uint64_t timeout_ns, struct percpu_fence_report *ret_report)
{
	return percpu_fence_below(UINT32_MAX, timeout_ns, ret_report);
}

int percpu_fence(void)
{
	percpu_thread_note_cpu();
	return percpu_barrier(percpu_init()->possible_cpus);
}
