/* SPDX-License-Identifier: MIT */
/*
 * fence.h - wait until every sequence in progress has committed or restarted.
 *
 * A reader changes something that sequences look at (a guard, or the bank in use), and fences. From
 * then on no sequence acts on the old state. The writers pay nothing.
 */
#ifndef PERCPU_FENCE_H
#define PERCPU_FENCE_H

#include <percpu/base.h>

PERCPU_BEGIN_DECLS

/** The CPUs that percpu_fence_all() fenced, and those that it could not fence. */
struct percpu_fence_report {
	uint32_t fenced;	 /* CPUs that were visited, or that are offline */
	uint32_t unfenced;	 /* CPUs where old sequences may still be running */
	uint32_t first_unfenced; /* number of the first unfenced CPU */
	uint64_t unfenced_cpus[PERCPU_MAX_CPUS / 64]; /* a bit for each unfenced CPU */
};

/**
 * Fence the sequences of this process on every CPU.
 *
 * The call is one membarrier(2), of about a microsecond. Where the kernel does not have or allow
 * that (before 5.10, or in a seccomp filter), it is percpu_fence_all() with 1 s.
 *
 * Return 0, or -EPERM, -ETIMEDOUT, -EAGAIN or -ENOMEM as percpu_fence_all().
 *
 * Context: any thread; not a signal handler.
 * Ordering: every sequence that starts or restarts after the fence sees what the caller
 * stored before it; after the fence the caller sees what sequences committed before it.
 * Progress: bounded: one system call that interrupts other CPUs and waits for them, or
 * 1 s.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_fence(void);

/**
 * Fence the sequences of all processes, by visiting each possible CPU.
 *
 * A helper thread runs on each CPU in turn. It preempts the thread that runs there, and so
 * aborts a sequence in progress. Each CPU gets an equal share of the time left, so a CPU
 * that a real-time thread keeps busy does not hold up the rest. The helper goes back to
 * a CPU that did not let it run while there is time. Offline CPUs count as fenced.
 *
 * Parameters
 *	timeout_ns	the longest that the call may take, except for a scheduling
 *			delay of the caller; not 0
 *	ret_report	which CPUs were and were not fenced, may be NULL; set if the
 *			call returns 0, -EPERM or -ETIMEDOUT
 *
 * Return
 *	0		every possible CPU was fenced
 *	-ETIMEDOUT	a CPU did not let the helper run in time
 *	-EPERM		this process may not use some CPU (cpuset), and that CPU is
 *			online, or not known to be offline (docs/cpu/fence.md); takes
 *			precedence over -ETIMEDOUT
 *	-EINVAL		timeout_ns is 0
 *	-EAGAIN, -ENOMEM  no thread could be started, because of a limit; or because the
 *			process has called unshare(CLONE_NEWPID), which lasts
 *
 * Context: any thread; not a signal handler. Takes about 0.1 ms per CPU. No
 * cancellation point: a thread that is canceled meanwhile ends at its next one.
 * The affinity of the caller does not change.
 * Ordering: as percpu_fence(), for the CPUs fenced.
 * Progress: bounded by timeout_ns.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_fence_all(uint64_t timeout_ns,
						  struct percpu_fence_report *ret_report);

PERCPU_END_DECLS

#endif
