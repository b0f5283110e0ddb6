/* SPDX-License-Identifier: MIT */
/*
 * seq.h - restartable sequences of the calling thread: the layer that the
 * objects are built from. arch/spec.h says what each percpu_seq_*() does.
 */
#ifndef PERCPU_SEQ_H
#define PERCPU_SEQ_H

#include <percpu/base.h>

/* Sequences have outputs beside their labels, which GCC knows since 11 and Clang since
 * 11. Units of older compilers mix with others: the library runs their sequences. */
#if defined(PERCPU_GENERIC)
#elif defined(__clang__)
#if __clang_major__ < 11
#define PERCPU_GENERIC 1
#endif
#elif __GNUC__ < 11
#define PERCPU_GENERIC 1
#endif

/* Nor do units have sequences that may not use vector registers (-mno-sse,
 * -mgeneral-regs-only). */
#if defined(PERCPU_GENERIC)
#elif (defined(__x86_64__) && !defined(__SSE2__)) || (defined(__aarch64__) && !defined(__ARM_NEON))
#define PERCPU_GENERIC 1
#endif

#if defined(PERCPU_GENERIC)
#elif defined(__SANITIZE_THREAD__) || defined(__clang_analyzer__)
#define PERCPU_GENERIC 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PERCPU_GENERIC 1
#endif
#endif

#if defined(PERCPU_GENERIC)
#include <percpu/arch/generic.h>
#elif defined(__x86_64__) && defined(__LP64__)
#include <percpu/arch/x86_64.h>
#elif defined(__aarch64__) && defined(__LP64__) && !defined(__AARCH64EB__)
#include <percpu/arch/aarch64.h>
#else
#include <percpu/arch/generic.h>
#endif

PERCPU_BEGIN_DECLS

/**
 * Make the calling thread able to run sequences, if it can be.
 *
 * Slow paths call it. Returns percpu_self, whose cpu_id is negative if this
 * thread cannot. It is this thread's: a fiber must not keep it across a switch.
 *
 * Context: any thread, signal handlers, children of fork and vfork.
 * Ordering: what happened before the self-test's verdict happens before the thread's
 * first sequence.
 * Progress: bounded: a few system calls until it is known whether the thread is
 * registered and there is a verdict, then none.
 */
PERCPU_API struct percpu_rseq *percpu_seq_attach(void);

/**
 * Keep the shared object that has this address from being unloaded.
 *
 * The kernel may look at the descriptor of a thread's last sequence until the
 * thread is preempted, so the object that has it must stay. Each shared object
 * into which a sequence was inlined calls this when it is loaded; programs that
 * count need not. Does nothing in a program itself.
 *
 * Context: constructors, any thread; not a signal handler.
 * Ordering: none.
 * Progress: waits for the dynamic linker's lock.
 */
PERCPU_API void percpu_object_stay(const void *address);

/** How often a slow path tries a sequence before it takes its fallback: with the
 *  inlined attempt before it, five in all. */
#define PERCPU_SEQ_TRIES 4

PERCPU_END_DECLS

#endif
