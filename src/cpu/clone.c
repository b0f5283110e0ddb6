/* SPDX-License-Identifier: MIT */
/*
 * clone.c - vfork() and clone(), in front of those of libc.
 *
 * A child that shares its parent's memory and thread-local storage reads its
 * parent's CPU number, but the kernel restarts none of the child's sequences. The child
 * cannot tell that it is not its parent's thread. So the calls that make such a child are
 * wrapped: while parent and child share a thread's TLS, both use atomic lanes.
 *
 * A library that is loaded late would call libc's functions, because the libraries of
 * the program come first. So it is linked with --wrap=vfork and --wrap=clone.
 *
 * A child that is made by the system call itself is not noticed. errno and malloc would not
 * work for it, either.
 *
 * With PERCPU_NO_WRAP nothing is wrapped, and no such child may count: docs/cpu/process.md.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <unistd.h>

#include "cpu.h"

/* Sanitizers wrap these calls themselves. Such builds use the generic backend, or accept that
 * no such child may count. */
#if defined(PERCPU_NO_WRAP)
/* Asked for. */
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PERCPU_NO_WRAP
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PERCPU_NO_WRAP
#endif
#endif

#if defined(PERCPU_SEQ_SIGNATURE) && !defined(PERCPU_NO_WRAP)

/* Return from vfork() in the parent, after the child has called exec or exit. r is the result of
 * the system call. */
__attribute__((visibility("hidden"), used)) int percpu_vfork_done(long r)
{
	percpu_thread_unshare();
	if (r < 0) {
		errno = (int)-r;
		return -1;
	}
	return (int)r;
}

/*
 * The child leaves this frame first and then overwrites it, so the return address is kept
 * in a register.
 *
 * Parent and child also share a shadow stack (x86 SHSTK, Arm GCS). If the child returned, its
 * next call would overwrite the entry by which the parent returns. So the child jumps to
 * its return address, and the entry stays below its calls. On x86 it always jumps. On Arm
 * it jumps only if there is a shadow stack, which chkfeat tells: a caller has no landing pad
 * for a jump if its compiler does not know that vfork() returns twice.
 *
 * Both versions begin with a landing pad (endbr64; paciasp is one). On Arm the return address
 * is signed while it is on the stack. Processors without these features treat the
 * instructions as no-ops.
 */
#ifdef __x86_64__
__asm__(".pushsection .text\n\t"
	".globl vfork\n\t"
	".type vfork, @function\n"
	"vfork:\n\t"
	".cfi_startproc\n\t"
	"endbr64\n\t"
	"subq $8, %rsp\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"call percpu_thread_share\n\t"
	"addq $8, %rsp\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"popq %rdx\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	".cfi_register %rip, %rdx\n\t"
	"movl $58, %eax\n\t" /* SYS_vfork */
	"syscall\n\t"
	"testq %rax, %rax\n\t"
	"jz 1f\n\t"
	".cfi_remember_state\n\t"
	"pushq %rdx\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	".cfi_rel_offset %rip, 0\n\t"
	"movq %rax, %rdi\n\t"
	"jmp percpu_vfork_done\n"
	"1:\n\t"
	".cfi_restore_state\n\t"
	"jmp *%rdx\n\t"
	".cfi_endproc\n\t"
	".size vfork, . - vfork\n\t"
	".globl __wrap_vfork\n\t"
	".set __wrap_vfork, vfork\n\t"
	".popsection");
#else
__asm__(".pushsection .text\n\t"
	".globl vfork\n\t"
	".type vfork, %function\n"
	"vfork:\n\t"
	".cfi_startproc\n\t"
	"hint #25\n\t" /* paciasp */
	".cfi_negate_ra_state\n\t"
	"stp x29, x30, [sp, #-16]!\n\t"
	".cfi_adjust_cfa_offset 16\n\t"
	".cfi_rel_offset x30, 8\n\t"
	"bl percpu_thread_share\n\t"
	"ldp x29, x30, [sp], #16\n\t"
	".cfi_adjust_cfa_offset -16\n\t"
	".cfi_restore x30\n\t"
	"hint #29\n\t" /* autiasp */
	".cfi_negate_ra_state\n\t"
	"mov x0, #0x4111\n\t" /* CLONE_VM | CLONE_VFORK | SIGCHLD */
	"mov x1, sp\n\t"
	"mov x8, #220\n\t" /* SYS_clone */
	"svc #0\n\t"
	"cbz x0, 1f\n\t"
	"b percpu_vfork_done\n"
	"1:\n\t"
	"mov x16, #1\n\t"
	"hint #40\n\t" /* chkfeat x16: 0 if there is a shadow stack */
	"cbz x16, 2f\n\t"
	"ret\n"
	"2:\n\t"
	"mov x17, x30\n\t"
	"br x17\n\t"
	".cfi_endproc\n\t"
	".size vfork, . - vfork\n\t"
	".globl __wrap_vfork\n\t"
	".set __wrap_vfork, vfork\n\t"
	".popsection");
#endif

#ifdef __GLIBC__

int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);

PERCPU_API int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	bool shares = (flags & CLONE_VM) && !(flags & CLONE_SETTLS);
	pid_t *parent_tid, *child_tid;
	void *tls;
	va_list ap;
	int r;

	va_start(ap, arg);
	parent_tid = va_arg(ap, pid_t *);
	tls = va_arg(ap, void *);
	child_tid = va_arg(ap, pid_t *);
	va_end(ap);

	if (shares)
		percpu_thread_share();
	r = __clone(fn, stack, flags, arg, parent_tid, tls, child_tid);
	/* A child that runs beside its parent shares for good, because the parent does not
	 * notice when the child ends. */
	if (shares && (r < 0 || (flags & CLONE_VFORK)))
		percpu_thread_unshare();
	return r;
}

PERCPU_API int __wrap_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...) __THROW
	__attribute__((alias("clone")));

#endif
#endif
