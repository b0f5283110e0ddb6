/* SPDX-License-Identifier: MIT */
/*
 * self.h - where the kernel keeps the calling thread's CPU number.
 */
#ifndef PERCPU_ARCH_SELF_H
#define PERCPU_ARCH_SELF_H

#include <percpu/base.h>

#ifdef PERCPU_LATE
#include <pthread.h>
#endif

/**
 * The area that the kernel keeps up to date for a registered thread: the first
 * 32 bytes of its struct rseq. Only rseq_cs may be written from here.
 */
struct percpu_rseq {
	uint32_t cpu_id_start;
	int32_t cpu_id; /* negative: not registered */
	uint64_t rseq_cs;
	uint32_t flags;
	uint32_t node_id;
	uint32_t mm_cid;
	uint32_t reserved;
} __attribute__((__aligned__(32)));

PERCPU_BEGIN_DECLS

/**
 * Points to the area where the kernel keeps the calling thread's CPU number.
 *
 * Until the thread's first slow path, and for good in a thread that cannot run
 * sequences, it points to an area whose CPU number is negative. Then every sequence
 * goes to its fallback. The pointer is thread-local, so the tier is a property of the
 * thread. Only the library writes it.
 *
 * Only sequences and percpu_seq_cpu() read it. They load it again each time, because a
 * fiber may continue in another thread after a switch. Compilers for aarch64 keep the
 * thread pointer across calls, so there the sequences load percpu_self in their own
 * assembly. Compilers for x86-64 address it by %fs each time (GCC, unless told
 * -mno-tls-direct-seg-refs), so there C code loads it, and the compiler may
 * keep it from one add to the next. In assembly an add would cost 10 to 30 % more.
 *
 * With the initial-exec model a load of the CPU number takes two loads and no call, also in
 * shared objects. The library must then be loaded when the program starts. Objects that are
 * loaded later are compiled with PERCPU_LATE, and find the pointer with a key:
 * percpu_self_here().
 */
#ifndef PERCPU_LATE
extern PERCPU_API __thread struct percpu_rseq *percpu_self
	__attribute__((__tls_model__("initial-exec")));
#else
#define percpu_self (*percpu_self_here())

/** The key whose value points to percpu_self; PERCPU_NO_KEY if there is none. */
extern PERCPU_API pthread_key_t percpu_key;
#define PERCPU_NO_KEY ((pthread_key_t)-1)

/** Return the address of percpu_self in a thread for which the key has no value. */
PERCPU_API struct percpu_rseq **percpu_self_at(void);

/* Return the address of percpu_self. The function calls another one each time, so that
 * compilers keep no address when a fiber moves. */
PERCPU_INLINE struct percpu_rseq **percpu_self_here(void)
{
	const pthread_key_t key = percpu_key;
	void *at = PERCPU_NULL(void *);

	if (percpu_likely(key != PERCPU_NO_KEY))
		at = pthread_getspecific(key);
	return percpu_likely(at != NULL) ? (struct percpu_rseq **)at : percpu_self_at();
}
#endif

PERCPU_END_DECLS

#endif
