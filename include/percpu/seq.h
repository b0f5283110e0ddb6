/* SPDX-License-Identifier: MIT */
/*
 * seq.h - the restartable sequences from which the objects are built. arch/spec.h says
 * what each percpu_seq_*() does.
 */
#ifndef PERCPU_SEQ_H
#define PERCPU_SEQ_H

#include <percpu/base.h>

/* Sequences are asm statements with outputs and labels, which GCC and Clang have since
 * version 11. With older compilers arch/generic.h calls the library, which runs the
 * sequences. A program may have units of both kinds. */
#if defined(PERCPU_GENERIC)
#elif defined(__clang__)
#if __clang_major__ < 11
#define PERCPU_GENERIC 1
#endif
#elif __GNUC__ < 11
#define PERCPU_GENERIC 1
#endif

/* Sequences use vector registers, which -mno-sse and -mgeneral-regs-only forbid. */
#if defined(PERCPU_GENERIC)
#elif (defined(__x86_64__) && !defined(__SSE2__)) || (defined(__aarch64__) && !defined(__ARM_NEON))
#define PERCPU_GENERIC 1
#endif

/* ThreadSanitizer and the analyzer do not look into asm statements. */
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
 * Make the calling thread able to run sequences, if that is possible. Slow paths call this.
 *
 * Returns percpu_self, whose cpu_id is negative if this thread cannot run sequences. It
 * belongs to this thread: a fiber must not keep it across a switch to another thread.
 *
 * Context: any thread, signal handlers, children of fork and vfork.
 * Ordering: what happened before the self-test's result happens before the thread's
 * first sequence.
 * Progress: bounded: a few system calls until the library knows whether the thread is
 * registered and how the self-test ended; none from then on.
 */
PERCPU_API struct percpu_rseq *percpu_seq_attach(void);

/**
 * Keep the shared object that contains this address from being unloaded. For an address in the
 * program itself, do nothing.
 *
 * The kernel may read the descriptor of a thread's last sequence until the
 * thread is preempted, so the shared object that contains the descriptor must stay. A
 * constructor calls this in each shared object into which a sequence was inlined;
 * programs need not call it.
 *
 * Context: constructors, any thread; not a signal handler.
 * Ordering: none.
 * Progress: waits for the dynamic linker's lock.
 */
PERCPU_API void percpu_object_stay(const void *address);

/** How often a slow path tries a sequence before it takes its fallback. The inlined update has
 *  tried it once before. So there are five tries in all; for a histogram, six. */
#define PERCPU_SEQ_TRIES 4

PERCPU_END_DECLS

#endif
