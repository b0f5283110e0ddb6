/* SPDX-License-Identifier: MIT */
/*
 * fence.h - wait until every sequence in progress has committed or restarted.
 *
 * A reader changes what sequences look at (a guard, a bank), fences, and from
 * then on no sequence acts on the old state. The writers pay nothing.
 */
#ifndef PERCPU_FENCE_H
#define PERCPU_FENCE_H

#include <percpu/base.h>

PERCPU_BEGIN_DECLS

/** Which CPUs percpu_fence_all() could not fence. */
struct percpu_fence_report {
	uint32_t fenced;	 /* CPUs visited, or offline as the kernel says */
	uint32_t unfenced;	 /* CPUs that the caller may not assume anything of */
	uint32_t first_unfenced; /* number of the first such CPU */
	uint64_t unfenced_cpus[PERCPU_MAX_CPUS / 64]; /* all of them, a bit each */
};

/**
 * Fence the sequences of this process on every CPU.
 *
 * One membarrier(2) call, of about a microsecond; where the kernel lacks it
 * (before 5.10, or a seccomp filter), percpu_fence_all() with 1 s.
 *
 * Returns 0, or -EPERM, -ETIMEDOUT, -EAGAIN or -ENOMEM as percpu_fence_all().
 *
 * Context: any thread; not a signal handler.
 * Ordering: what the caller stored before is seen by every sequence that
 * starts or restarts after the fence; what sequences committed before the
 * fence is seen by the caller after it.
 * Progress: bounded: one system call that interrupts other CPUs and waits for them, or
 * 1 s.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_fence(void);

/**
 * Fence the sequences of all processes, by visiting each possible CPU.
 *
 * A helper thread runs on each CPU in turn, which preempts, and so aborts,
 * what is in a sequence there. Each CPU gets an equal share of what is left of
 * timeout_ns, so one CPU that a real-time thread keeps busy does not hold up
 * the rest; a CPU that was late gets another while there is time. Offline CPUs
 * count as fenced.
 *
 * Parameters
 *	timeout_ns	the longest the call may take, give or take a scheduling
 *			delay of the caller; 0 is refused with -EINVAL
 *	ret_report	what was and was not fenced, may be NULL; filled with 0,
 *			-EPERM and -ETIMEDOUT
 *
 * Returns
 *	0		every possible CPU was fenced
 *	-ETIMEDOUT	a CPU did not let the visitor run in time
 *	-EPERM		a CPU is not among those this process may use (cpuset), and
 *			online, or not known to be offline (docs/fence.md); takes
 *			precedence over -ETIMEDOUT
 *	-EINVAL		timeout_ns is 0
 *	-EAGAIN, -ENOMEM  no thread could be started: a limit, or for good after
 *			unshare(CLONE_NEWPID)
 *
 * Context: any thread; not a signal handler. Takes about 0.1 ms per CPU. No
 * cancellation point: a thread that is canceled meanwhile goes at its next one.
 * The affinity of the caller does not change.
 * Ordering: as percpu_fence(), for the CPUs fenced.
 * Progress: bounded by timeout_ns.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_fence_all(uint64_t timeout_ns,
						  struct percpu_fence_report *ret_report);

PERCPU_END_DECLS

#endif
