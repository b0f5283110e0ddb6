/* SPDX-License-Identifier: MIT */
/*
 * test_vfork.c - vfork() where a shadow stack checks returns.
 *
 * The machine needs none: the test steps a child instruction by instruction, and keeps the
 * shadow stack itself. The child of vfork() shares it with its parent, as in Linux. On Arm,
 * chkfeat says that there is one. Landing pads: tests/compat/pads.sh.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"

#define DEPTH 1000
#define CHKFEAT 0xd503251f

enum kind {
	OTHER,
	CALL,
	RETURN,
};

static uint64_t shadow[DEPTH];
static struct percpu_counter *counter;

static void *address(uint64_t at)
{
	return (void *)(uintptr_t)at;
}

static struct user_regs_struct get_registers(pid_t tid)
{
	struct user_regs_struct regs = { 0 };
	struct iovec v = { &regs, sizeof(regs) };

	ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &v);
	return regs;
}

#if defined(__x86_64__)

static uint64_t get_pc(pid_t tid)
{
	return get_registers(tid).rip;
}

static enum kind classify(pid_t tid)
{
	long word = ptrace(PTRACE_PEEKTEXT, tid, address(get_pc(tid)), NULL);
	const unsigned char *code = (const unsigned char *)&word;

	while ((*code & 0xf0) == 0x40 || *code == 0x3e || *code == 0xf2 || *code == 0xf3)
		code++;
	if (*code == 0xe8 || (*code == 0xff && (code[1] >> 3 & 7) == 2))
		return CALL;
	return *code == 0xc3 || *code == 0xc2 ? RETURN : OTHER;
}

/* Return the return address of the call that was just made. */
static uint64_t get_return(pid_t tid)
{
	return (uint64_t)ptrace(PTRACE_PEEKDATA, tid, address(get_registers(tid).rsp), NULL);
}

#elif defined(__aarch64__)

static uint64_t get_pc(pid_t tid)
{
	return get_registers(tid).pc;
}

static enum kind classify(pid_t tid)
{
	struct user_regs_struct regs = get_registers(tid);
	struct iovec v = { &regs, sizeof(regs) };
	uint32_t code = (uint32_t)ptrace(PTRACE_PEEKTEXT, tid, address(regs.pc), NULL);

	if (code == CHKFEAT && regs.pc - (uintptr_t)vfork < 128) {
		regs.regs[16] &= ~UINT64_C(1);
		regs.pc += sizeof(code);
		ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &v);
		code = (uint32_t)ptrace(PTRACE_PEEKTEXT, tid, address(regs.pc), NULL);
	}
	if ((code & 0xfc000000) == 0x94000000 || (code & 0xfffff000) == 0xd63f0000)
		return CALL;
	return (code & 0xfffff000) == 0xd65f0000 ? RETURN : OTHER;
}

static uint64_t get_return(pid_t tid)
{
	return get_registers(tid).regs[30];
}

#endif

/*
 * Step the task to its end. Its shadow stack has that depth; what was on it before is not known.
 * Returns the task's status, or -1 if it returned to another address than its caller's.
 */
static int follow(pid_t tid, unsigned depth)
{
	unsigned long child;
	int status;

	for (;;) {
		enum kind kind = classify(tid);

		ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL);
		if (waitpid(tid, &status, __WALL) != tid)
			return -1;
		if (!WIFSTOPPED(status))
			return status;
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_VFORK << 8)) {
			ptrace(PTRACE_GETEVENTMSG, tid, NULL, &child);
			waitpid((pid_t)child, &status, __WALL);
			ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL); /* it waits */
			if (follow((pid_t)child, depth) != 0 ||
			    waitpid(tid, &status, __WALL) != tid)
				return -1;
		} else if (kind == CALL && depth < DEPTH) {
			shadow[depth++] = get_return(tid);
		} else if (kind == RETURN && depth > 0 && shadow[--depth] != get_pc(tid)) {
			return -1;
		}
	}
}

/* Make a child whose calls overwrite entries of the shadow stack. */
__attribute__((noinline)) static pid_t make_child(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		percpu_counter_add(counter, 1);
		_exit(0);
	}
	return pid;
}

static void be_stepped(void)
{
	sigset_t all;
	int status;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL); /* no signal comes between two steps */
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(77);
	raise(SIGSTOP);
	pid = make_child();
	_exit(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 &&
			      percpu_counter_fetch(counter) == 1 ?
		      0 :
		      1);
}

static void the_child_leaves_the_shadow_stack(void **state)
{
	int status;
	pid_t pid;

	(void)state;
#ifdef PERCPU_NO_WRAP
	test_skip("vfork is not wrapped");
#endif
	if (test_address_sanitizer() || test_thread_sanitizer())
		test_skip("sanitizers have a vfork of their own");
	assert_int_equal(percpu_counter_create(&counter), 0);
	pid = fork();
	if (pid == 0)
		be_stepped();
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	if (!WIFSTOPPED(status))
		test_skip("no ptrace here");
	ptrace(PTRACE_SETOPTIONS, pid, NULL, address(PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL));
	status = follow(pid, 0);
	kill(pid, SIGKILL);
	percpu_counter_destroy(counter);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_child_leaves_the_shadow_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
