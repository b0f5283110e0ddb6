/* SPDX-License-Identifier: MIT */
/*
 * trace.c - a child under ptrace, with breakpoints: see stepping.h.
 *
 * A stop is a preemption. So a sequence in which the child stops is aborted when the child goes on,
 * unless its descriptor is removed first, as stepping_walk() does.
 */
#define _GNU_SOURCE
#include "stepping.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support.h"

#if defined(__x86_64__)
#define PC rip
#define BREAKPOINT                                                                                 \
	{                                                                                          \
		0xcc                                                                               \
	}
#define PC_AFTER 1 /* the program counter is so far behind the breakpoint when the child stops */
#elif defined(__aarch64__)
#define PC pc
#define BREAKPOINT                                                                                 \
	{                                                                                          \
		0x00, 0x00, 0x20, 0xd4                                                             \
	}
#define PC_AFTER 0
#endif

#define MAX_POINTS 256
#define SECONDS 30

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

struct rseq_configuration {
	uint64_t area;
	uint32_t size, signature, flags, pad;
};

static const unsigned char breakpoint[] = BREAKPOINT;

static void *address(uint64_t at)
{
	return (void *)(uintptr_t)at;
}

static uint64_t get_pc(pid_t tid)
{
	struct user_regs_struct regs;
	struct iovec v = { &regs, sizeof(regs) };

	return ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &v) == 0 ? regs.PC : 0;
}

static void set_pc(pid_t tid, uint64_t pc)
{
	struct user_regs_struct regs;
	struct iovec v = { &regs, sizeof(regs) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &v) != 0)
		return;
	regs.PC = pc;
	ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &v);
}

/* Set or remove a breakpoint. The child's text is a copy of the tracer's, which has no
 * breakpoints. */
static void patch(pid_t tid, uint64_t at, bool set)
{
	long word = ptrace(PTRACE_PEEKTEXT, tid, address(at), NULL);

	memcpy(&word, set ? (const void *)breakpoint : address(at), sizeof(breakpoint));
	ptrace(PTRACE_POKETEXT, tid, address(at), word);
}

static volatile pid_t watched;

static void on_alarm(int signo)
{
	(void)signo;
	kill(watched, SIGKILL);
}

/*
 * Wait for any thread of the child. Return false if the process is gone. The call sleeps until
 * there is news: a tracer that polls shares the child's CPU, and preempts it before it makes
 * progress.
 */
static bool wait_any(struct stepping_child *c)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	bool stopped = false;

	watched = c->pid;
	sigaction(SIGALRM, &sa, NULL);
	alarm(SECONDS);
	while (!stopped) {
		c->tid = waitpid(-1, &c->status, __WALL);
		stopped = c->tid > 0 && WIFSTOPPED(c->status);
		if (c->tid < 0 || (c->tid == c->pid && !stopped))
			break;
	}
	alarm(0);
	return stopped;
}

/* Continue after a stop that is no breakpoint: an event, or a signal. */
static void pass_on(struct stepping_child *c)
{
	int signo = WSTOPSIG(c->status);

	if (signo == SIGTRAP || signo == SIGSTOP)
		signo = 0;
	ptrace(PTRACE_CONT, c->tid, NULL, (void *)(uintptr_t)signo);
}

/* Return the breakpoint that the thread is at; n if none. */
static unsigned find(const struct stepping_child *c, const uint64_t *at, unsigned n)
{
	uint64_t pc;
	unsigned i = 0;

	if (WSTOPSIG(c->status) != SIGTRAP || c->status >> 16 != 0)
		return n;
	pc = get_pc(c->tid);
	while (i < n && pc != at[i] + PC_AFTER)
		i++;
	return i;
}

static struct stepping_child start(void (*fn)(void), const uint64_t *at, unsigned n)
{
	struct stepping_child c = { .pid = fork() };

	if (c.pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		fn();
		_exit(0);
	}
	assert_true(c.pid > 0 && wait_any(&c));
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, c.pid, NULL,
				address(PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL)),
			 0);
	for (unsigned i = 0; i < n; i++)
		patch(c.pid, at[i], true);
	pass_on(&c);
	return c;
}

/* Wait until the child is at a breakpoint, and remove that. Return its number; n if the child is
 * gone. */
static unsigned next(struct stepping_child *c, const uint64_t *at, unsigned n)
{
	unsigned i;

	while (wait_any(c)) {
		i = find(c, at, n);
		if (i < n) {
			patch(c->tid, at[i], false);
			set_pc(c->tid, at[i]);
			return i;
		}
		pass_on(c);
	}
	c->stopped = false;
	return n;
}

struct stepping_child stepping_start(void (*fn)(void), const uint64_t *at, unsigned n)
{
	struct stepping_child c = start(fn, at, n);
	unsigned i;

	while ((i = next(&c, at, n)) < n - 1)
		pass_on(&c);
	c.stopped = i == n - 1;
	return c;
}

unsigned stepping_trail(void (*fn)(void), const struct record *r, size_t n, uint64_t *ret)
{
	uint64_t at[MAX_POINTS];
	struct stepping_child c;
	unsigned i, hits = 0;

	assert_true(n <= MAX_POINTS);
	for (size_t k = 0; k < n; k++)
		at[k] = r[k].start;
	c = start(fn, at, (unsigned)n);
	while ((i = next(&c, at, (unsigned)n)) < n) {
		ret[hits++] = i;
		pass_on(&c);
	}
	return hits;
}

unsigned stepping_walk(struct stepping_child *c, const struct record *r, uint64_t *ret,
		       unsigned max, bool *ret_end)
{
	struct rseq_configuration conf = { 0 };
	uint64_t pc = r->start;
	unsigned i, n = 0;

	ptrace(PTRACE_GET_RSEQ_CONFIGURATION, c->tid, sizeof(conf), &conf);
	assert_true(conf.area != 0);
	ptrace(PTRACE_POKEDATA, c->tid, address(conf.area + 8), NULL);
	for (unsigned steps = 0; steps < 100000 && pc - r->start < r->length; steps++) {
		for (i = 0; i < n && ret[i] != pc; i++)
			;
		if (i == n && n < max)
			ret[n++] = pc;
		ptrace(PTRACE_SINGLESTEP, c->tid, NULL, NULL);
		if (waitpid(c->tid, &c->status, __WALL) != c->tid || !WIFSTOPPED(c->status))
			break;
		pc = get_pc(c->tid);
	}
	*ret_end = pc == r->start + r->length;
	return n;
}

unsigned stepping_approach(struct stepping_child *c, uint64_t start, uint64_t *ret, unsigned max)
{
	unsigned n = 0;

	for (unsigned steps = 0; steps < 10000; steps++) {
		ret[n++ % max] = get_pc(c->tid);
		ptrace(PTRACE_SINGLESTEP, c->tid, NULL, NULL);
		if (waitpid(c->tid, &c->status, __WALL) != c->tid || !WIFSTOPPED(c->status))
			break;
		if (get_pc(c->tid) == start)
			return n < max ? n : max;
	}
	return 0;
}

bool stepping_finish(struct stepping_child *c)
{
	pass_on(c);
	while (wait_any(c))
		pass_on(c);
	return WIFEXITED(c->status) && WEXITSTATUS(c->status) == 0;
}

void stepping_kill(struct stepping_child *c)
{
	kill(c->pid, SIGKILL);
	while (wait_any(c))
		ptrace(PTRACE_CONT, c->tid, NULL, NULL);
}
