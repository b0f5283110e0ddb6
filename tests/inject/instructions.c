/* SPDX-License-Identifier: MIT */
/*
 * instructions.c - inject_instructions(): find the instructions that an operation executes, and
 * stop at each of them in turn.
 *
 * To find them, the operation is single-stepped on an area that the kernel does not know of, so
 * that nothing is aborted. To stop at an instruction, a breakpoint replaces its first byte; the
 * handler restores the byte. Steps that are compiled into the sequences miss what a compiler, or a
 * bug, does between them. This test does not.
 */
#define _GNU_SOURCE
#include "inject.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "../support.h"

#ifdef __x86_64__

#define MAX_STOPS 4096
#define TRAP_FLAG 0x100
#define INT3 0xcc

/* The trace: the addresses at which the operation was, each once. */
static struct {
	uintptr_t at[MAX_STOPS];
	unsigned n;
	uintptr_t end; /* the return address of run; 0: not begun */
	bool over;
} trace;

/* The stop. */
static struct {
	unsigned char *at;
	unsigned char byte;
	bool hit;
	bool committed; /* the operation was complete when it was stopped */
	struct model_result want;
} stop;

static void on_single_step(int signo, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	uintptr_t rip = (uintptr_t)regs[REG_RIP];

	(void)signo, (void)info;
	if (rip == (uintptr_t)inject_now.run && !trace.end)
		trace.end = *(uintptr_t *)regs[REG_RSP];
	else if (rip == trace.end)
		trace.over = true;
	if (trace.over)
		regs[REG_EFL] &= ~TRAP_FLAG;
	if (!trace.end || trace.over || trace.n == MAX_STOPS)
		return;
	for (unsigned i = 0; i < trace.n; i++)
		if (trace.at[i] == rip)
			return;
	trace.at[trace.n++] = rip;
}

static void on_breakpoint(int signo, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)signo, (void)info;
	*stop.at = stop.byte;
	stop.hit = true;
	if (regs[REG_RIP] == (greg_t)(uintptr_t)(stop.at + 1))
		regs[REG_RIP]--; /* not aborted: execute the original instruction */
	stop.committed = !inject_same_world();
	if (stop.committed) {
		stop.want = model_apply(&inject_now.model[inject_now.here], &inject_now.c);
		inject_now.wrong |= !inject_same_world();
	}
	inject_act();
}

static bool handle(void (*handler)(int, siginfo_t *, void *), struct sigaction *old)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	return sigaction(SIGTRAP, &sa, old) == 0;
}

/* Find the instructions, also those of the operation's own code: its text may be written to. */
static bool find_instructions(void)
{
	struct percpu_rseq unknown = { .cpu_id = (int32_t)inject_now.here };
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct percpu_rseq *own = model_set_area(&unknown);

	memset(&trace, 0, sizeof(trace));
	__asm__ __volatile__("pushfq\n\torq %0, (%%rsp)\n\tpopfq" ::"i"(TRAP_FLAG)
			     : "cc", "memory");
	inject_now.run(inject_now.real, &inject_now.c);
	while (!__atomic_load_n(&trace.over, __ATOMIC_RELAXED))
		;
	model_set_area(own);
	for (unsigned i = 0; i < trace.n; i++)
		if (mprotect((void *)(trace.at[i] & ~(page - 1)), page,
			     PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
			return false;
	return trace.n > 0;
}

/* Stop at this address. Return whether the outcome was right. */
static bool stop_at(uintptr_t at)
{
	struct model_result r;

	stop.at = (unsigned char *)at;
	stop.byte = *stop.at;
	stop.hit = stop.committed = false;
	do {
		*stop.at = INT3;
		r = inject_now.run(inject_now.real, &inject_now.c);
		*stop.at = stop.byte;
	} while (!stop.hit && r.code == PERCPU_SEQ_SLOW);
	if (!stop.hit)
		return false;
	if (!stop.committed && r.code == PERCPU_SEQ_SLOW) {
		inject_now.wrong |= !inject_same_world();
		inject_complete(&inject_now.c);
		return !inject_now.wrong;
	}
	if (!stop.committed)
		stop.want = model_apply(&inject_now.model[sched_getcpu()], &inject_now.c);
	return !inject_now.wrong && r.code == stop.want.code && r.value == stop.want.value &&
	       inject_same_world();
}

int inject_instructions(inject_run run, enum model_op op, enum inject_action action, uint64_t seed,
			unsigned *ret_stops)
{
	struct sigaction old;
	uint64_t random = seed;
	int wrong = 0;
	bool found;

	*ret_stops = 0;
	if (!inject_prepare(run, op, action, &random) || !handle(on_single_step, &old))
		return 0;
	test_pin(0, inject_now.here);
	found = find_instructions() && handle(on_breakpoint, NULL);
	for (unsigned i = 0; found && i < trace.n; i++) {
		random = seed;
		inject_prepare(run, op, action, &random);
		test_pin(0, inject_now.here);
		wrong += !stop_at(trace.at[i]);
	}
	*ret_stops = trace.n;
	test_unpin(0);
	sigaction(SIGTRAP, &old, NULL);
	return found ? wrong : -1;
}

#else

int inject_instructions(inject_run run, enum model_op op, enum inject_action action, uint64_t seed,
			unsigned *ret_stops)
{
	(void)run, (void)op, (void)action, (void)seed;
	*ret_stops = 0;
	return -1;
}

#endif
