/* SPDX-License-Identifier: MIT */
/*
 * fence.c - make every sequence in progress commit or restart.
 *
 * Within the process membarrier(2) does it. For other processes there is no
 * such call; but a thread that gets to run on a CPU has preempted whatever was
 * in a sequence there, which the kernel then aborts when it resumes. So a
 * visitor thread is sent to each CPU. The caller directs it from outside,
 * because a visitor that a real-time thread does not let run cannot leave by
 * itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

/* Since Linux 5.10; the headers may be older. */
#define RSEQ_FENCE (1 << 7)
#define RSEQ_FENCE_REGISTER (1 << 8)
#define RSEQ_FENCE_ONE_CPU 1

#define SECOND 1000000000ULL
#define NO_CPU UINT32_MAX

static int membarrier(int cmd, unsigned flags, int cpu)
{
	return (int)syscall(SYS_membarrier, cmd, flags, cpu);
}

bool percpu_fence_init(uint32_t *ret_commands)
{
	int cmds = membarrier(MEMBARRIER_CMD_QUERY, 0, 0);

	*ret_commands = cmds > 0 ? cmds : 0;
	return cmds > 0 && (cmds & RSEQ_FENCE) && membarrier(RSEQ_FENCE_REGISTER, 0, 0) == 0;
}

struct visit {
	pid_t tid;	  /* of the visitor, once it runs */
	uint32_t request; /* the CPU to visit + 1, so each is asked for once */
	uint32_t done;	  /* the last request served */
	bool stop;
};

static void futex_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec ts = { .tv_sec = ns / SECOND, .tv_nsec = ns % SECOND };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, ns ? &ts : NULL, NULL, 0);
}

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *visitor(void *arg)
{
	struct visit *v = arg;
	uint32_t request, seen = 0;
	unsigned cpu;

	__atomic_store_n(&v->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	__atomic_store_n(&v->done, NO_CPU, __ATOMIC_RELEASE);
	futex_wake(&v->done);
	while (!__atomic_load_n(&v->stop, __ATOMIC_ACQUIRE)) {
		request = __atomic_load_n(&v->request, __ATOMIC_ACQUIRE);
		if (request == seen) {
			futex_wait(&v->request, seen, 0);
			continue;
		}
		seen = request;
		/* Not sched_getcpu(): this must be the truth of now. If it is
		 * another CPU, the caller has given up on that one already. */
		if (syscall(SYS_getcpu, &cpu, NULL, NULL) == 0 && cpu + 1 == request) {
			__atomic_store_n(&v->done, request, __ATOMIC_RELEASE);
			futex_wake(&v->done);
		}
	}
	return NULL;
}

static bool wait_done(struct visit *v, uint32_t wanted, uint64_t deadline)
{
	uint32_t done;
	uint64_t now;

	while ((done = __atomic_load_n(&v->done, __ATOMIC_ACQUIRE)) != wanted) {
		now = percpu_now_ns();
		if (now >= deadline)
			return false;
		futex_wait(&v->done, done, deadline - now);
	}
	return true;
}

/* Send the visitor to the CPU. Returns 0, -EPERM or -ETIMEDOUT. */
static int visit_cpu(struct visit *v, unsigned cpu, uint64_t deadline)
{
	int r = percpu_pin(v->tid, cpu);

	if (r != 0) /* offline: nobody is there; else it is kept from us */
		return percpu_cpu_online(cpu) ? -EPERM : 0;
	__atomic_store_n(&v->request, cpu + 1, __ATOMIC_RELEASE);
	futex_wake(&v->request);
	return wait_done(v, cpu + 1, deadline) ? 0 : -ETIMEDOUT;
}

/* The CPUs from first to end - 1. */
static int visit_range(struct visit *v, unsigned first, unsigned end, uint64_t deadline,
		       struct percpu_fence_report *report)
{
	uint64_t now;
	int r, result = 0;

	for (unsigned cpu = first; cpu < end; cpu++) {
		now = percpu_now_ns();
		if (now < deadline)
			r = visit_cpu(v, cpu, now + (deadline - now) / (end - cpu));
		else
			r = -ETIMEDOUT;
		if (r == 0) {
			report->fenced++;
			continue;
		}
		if (report->unfenced++ == 0)
			report->first_unfenced = cpu;
		report->unfenced_cpus[cpu / 64] |= UINT64_C(1) << (cpu % 64);
		if (result != -EPERM)
			result = r;
	}
	return result;
}

/* Let the visitor end where the caller may run, and wait for it. */
static void dismiss(struct visit *v, pthread_t thread)
{
	const size_t size = CPU_ALLOC_SIZE(PERCPU_MAX_CPUS);
	cpu_set_t *set = CPU_ALLOC(PERCPU_MAX_CPUS);

	if (set != NULL && sched_getaffinity(0, size, set) == 0)
		sched_setaffinity(v->tid, size, set);
	CPU_FREE(set);
	__atomic_store_n(&v->stop, true, __ATOMIC_RELEASE);
	__atomic_store_n(&v->request, NO_CPU, __ATOMIC_RELEASE);
	futex_wake(&v->request);
	pthread_join(thread, NULL);
}

static int visit(unsigned first, unsigned end, uint64_t timeout_ns,
		 struct percpu_fence_report *ret_report)
{
	struct percpu_fence_report report;
	uint64_t deadline = percpu_now_ns() + timeout_ns;
	struct visit v = { 0 };
	pthread_t thread;
	int r;

	if (deadline < timeout_ns)
		deadline = UINT64_MAX;
	memset(&report, 0, sizeof(report));
	r = percpu_thread_start(&thread, false, visitor, &v);
	if (r != 0)
		return r;
	/* It starts where the caller may run, so this wait ends. */
	wait_done(&v, NO_CPU, UINT64_MAX);
	r = visit_range(&v, first, end, deadline, &report);
	dismiss(&v, thread);
	if (ret_report != NULL)
		*ret_report = report;
	return r;
}

int percpu_fence_all(uint64_t timeout_ns, struct percpu_fence_report *ret_report)
{
	if (timeout_ns == 0)
		return -EINVAL;
	return visit(0, percpu_init()->possible_cpus, timeout_ns, ret_report);
}

/* The process's own sequences on these CPUs: by the kernel if it can. */
static int fence(unsigned first, unsigned end, unsigned flags)
{
	const struct percpu_status *st = percpu_init();

	if (st->tier != PERCPU_TIER_RSEQ)
		return 0; /* no thread of this process runs sequences */
	if (st->fence && (membarrier(RSEQ_FENCE, flags, (int)first) == 0 ||
			  /* Not inherited, by a restored checkpoint for instance. */
			  (membarrier(RSEQ_FENCE_REGISTER, 0, 0) == 0 &&
			   membarrier(RSEQ_FENCE, flags, (int)first) == 0)))
		return 0;
	return visit(first, end, SECOND, NULL);
}

int percpu_fence(void)
{
	return fence(0, percpu_init()->possible_cpus, 0);
}

int percpu_fence_cpu(unsigned cpu)
{
	return fence(cpu, cpu + 1, RSEQ_FENCE_ONE_CPU);
}
