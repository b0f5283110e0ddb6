/* SPDX-License-Identifier: MIT */
/*
 * visit.c - run on each CPU in turn.
 *
 * The caller sends a helper thread, the visitor, to one CPU after the other. The visitor does
 * not move itself: while a real-time thread does not let it run, it could not leave.
 *
 * A request is served or given up, never both: a compare-and-swap of the visitor to
 * "busy", or of the caller to "none", decides.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"

#define NONE UINT32_MAX
#define STOP (NONE - 1)
#define BUSY 0x80000000U
#define LOOK_NS (PERCPU_SECOND / 100)

struct visit {
	percpu_visit_fn *fn;
	void *arg;
	pid_t tid;	  /* of the visitor, once it runs */
	uint32_t request; /* the CPU to visit + 1, with BUSY once fn runs; NONE; or STOP */
	uint32_t done;	  /* the last CPU visited + 1; NONE when the visitor starts */
};

static void publish(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	percpu_futex_wake(word);
}

/* Change the request from one state to another. Returns whether this thread did it. */
static bool decide(struct visit *v, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&v->request, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* Set *ret_cpu to the CPU that the thread is on: by the system call, or, if a filter forbids
 * that, by libc, which may not need a system call. */
static bool where(unsigned *ret_cpu)
{
	int cpu;

	if (syscall(SYS_getcpu, ret_cpu, NULL, NULL) == 0)
		return true;
	cpu = sched_getcpu();
	*ret_cpu = (unsigned)cpu;
	return cpu >= 0;
}

static void *visitor(void *arg)
{
	struct visit *v = arg;
	uint32_t request;
	unsigned cpu;

	__atomic_store_n(&v->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	publish(&v->done, NONE);
	while ((request = __atomic_load_n(&v->request, __ATOMIC_ACQUIRE)) != STOP) {
		PERCPU_STEP("visit: asked");
		/* On another CPU, the caller has given up the request, or will move this thread. */
		if (request - 1 < BUSY - 1 && where(&cpu) && cpu + 1 == request) {
			PERCPU_STEP("visit: there");
			if (decide(v, request, request | BUSY)) {
				if (v->fn != NULL)
					v->fn(cpu, v->arg);
				publish(&v->done, request);
				continue;
			}
		}
		percpu_futex_wait(&v->request, request, 0);
	}
	return NULL;
}

/* Wait until done has the wanted value, at most until the deadline; 0: no deadline. Returns
 * whether done has the value. */
static bool wait_done(struct visit *v, uint32_t wanted, uint64_t deadline)
{
	uint32_t done;
	uint64_t now = 0;

	while ((done = __atomic_load_n(&v->done, __ATOMIC_ACQUIRE)) != wanted) {
		if (deadline != 0) {
			now = percpu_now_ns();
			if (now >= deadline)
				return false;
		}
		percpu_futex_wait(&v->done, done, deadline != 0 ? deadline - now : 0);
	}
	return true;
}

/* Move the visitor to the CPU. Returns 0, -ENODEV (the CPU is offline) or -EPERM. */
static int direct(const struct visit *v, unsigned cpu)
{
	if (percpu_pin(v->tid, cpu) == 0)
		return 0;
	return percpu_cpu_online(cpu) ? -EPERM : -ENODEV;
}

/* Visit the CPU. Returns 0, -ENODEV, -EPERM or -ETIMEDOUT. */
static int visit_cpu(struct visit *v, unsigned cpu, uint64_t deadline)
{
	uint64_t look = percpu_now_ns();
	int r = direct(v, cpu);

	if (r != 0)
		return r;
	publish(&v->request, cpu + 1);
	while (r == 0 && look < deadline) {
		look = deadline - look < LOOK_NS ? deadline : look + LOOK_NS;
		if (wait_done(v, cpu + 1, look))
			return 0;
		/* If the CPU was offline for a while, the kernel has moved the visitor. */
		r = direct(v, cpu);
		percpu_futex_wake(&v->request);
	}
	if (decide(v, cpu + 1, NONE))
		return r != 0 ? r : -ETIMEDOUT;
	wait_done(v, cpu + 1, 0); /* the visitor is there already: let it finish */
	return 0;
}

/* Record the result of a visit. An offline CPU needs no fence, but runs no function. */
static void record(struct percpu_fence_report *report, unsigned cpu, int r, bool fence, int *result)
{
	if (r == 0 || (r == -ENODEV && fence)) {
		report->fenced++;
		return;
	}
	if (report->unfenced++ == 0 || cpu < report->first_unfenced)
		report->first_unfenced = cpu;
	report->unfenced_cpus[cpu / 64] |= UINT64_C(1) << (cpu % 64);
	if (r != -ENODEV && *result != -EPERM)
		*result = r;
}

/* Visit all CPUs. Each gets an equal share of the time that is left. With many CPUs a share is
 * short, and a busy CPU may not let the visitor run within it. Such a CPU gets another share as
 * long as there is time. */
static int visit_range(struct visit *v, unsigned first, unsigned end, uint64_t deadline,
		       struct percpu_fence_report *report)
{
	uint64_t late[PERCPU_MAX_CPUS / 64] = { 0 }, now;
	unsigned left = end - first; /* CPUs to visit, including the late ones */
	bool again = false;
	int r, result = 0;

	for (; left != 0; again = true) {
		for (unsigned cpu = first; cpu < end; cpu++) {
			const uint64_t bit = UINT64_C(1) << (cpu % 64);

			if (again && !(late[cpu / 64] & bit))
				continue;
			r = -ETIMEDOUT;
			now = percpu_now_ns();
			if (now < deadline)
				r = visit_cpu(v, cpu, now + (deadline - now) / left);
			if (r == -ETIMEDOUT && percpu_now_ns() < deadline) {
				late[cpu / 64] |= bit;
				continue;
			}
			late[cpu / 64] &= ~bit;
			left--;
			record(report, cpu, r, v->fn == NULL, &result);
		}
	}
	return result;
}

/* Let the visitor run where the caller may run, tell it to end, and wait for it. */
static void dismiss(struct visit *v, pthread_t thread)
{
	cpu_set_t set[PERCPU_MAX_CPUS / CPU_SETSIZE];

	if (sched_getaffinity(0, sizeof(set), set) == 0)
		sched_setaffinity(v->tid, sizeof(set), set);
	publish(&v->request, STOP);
	pthread_join(thread, NULL);
}

int percpu_visit(unsigned first, unsigned end, percpu_visit_fn *fn, void *arg, uint64_t timeout_ns,
		 struct percpu_fence_report *ret_report)
{
	struct percpu_fence_report report;
	uint64_t deadline = percpu_now_ns() + timeout_ns;
	struct visit v = { .fn = fn, .arg = arg };
	pthread_t thread;
	int cancel, r;

	if (deadline < timeout_ns)
		deadline = UINT64_MAX;
	memset(&report, 0, sizeof(report));
	/* The visitor uses the caller's stack, so the caller must not be canceled. */
	cancel = percpu_defer_cancel();
	r = percpu_helper_start(&thread, false, visitor, &v);
	if (r == 0) {
		/* It starts where the caller may run, so this wait ends. */
		wait_done(&v, NONE, 0);
		r = visit_range(&v, first, end, deadline, &report);
		dismiss(&v, thread);
		if (ret_report != NULL)
			*ret_report = report;
	}
	percpu_restore_cancel(cancel);
	return r;
}
