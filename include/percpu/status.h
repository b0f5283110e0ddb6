/* SPDX-License-Identifier: MIT */
/*
 * status.h - which tier is in force, and why.
 */
#ifndef PERCPU_STATUS_H
#define PERCPU_STATUS_H

#include <stdbool.h>

#include <percpu/base.h>

PERCPU_BEGIN_DECLS

/*
 * The calls of this header have this in common, unless one says otherwise.
 *
 * Context: anywhere, signal handlers included.
 * Ordering: none.
 * Progress: no lock, no waiting.
 */

/** How updates are done, from the slowest to the fastest. */
enum percpu_tier {
	PERCPU_TIER_SHARED, /* an atomic add in a lane that all threads share */
	PERCPU_TIER_CPU,    /* an atomic add in a lane of the current CPU */
	PERCPU_TIER_RSEQ,   /* a plain add in a restartable sequence */
};

/** What registered the thread's rseq area, where the kernel keeps the CPU number. */
enum percpu_registrar {
	PERCPU_REGISTRAR_NONE,
	PERCPU_REGISTRAR_LIBC,
	PERCPU_REGISTRAR_LIBRARY, /* this library */
};

/** What the self-test saw when a sequence was preempted on its own CPU. */
enum percpu_selftest {
	PERCPU_SELFTEST_SKIPPED,      /* threads cannot run sequences here */
	PERCPU_SELFTEST_PASSED,	      /* the sequence was aborted */
	PERCPU_SELFTEST_FAILED,	      /* the sequence went on: sequences are unsafe here */
	PERCPU_SELFTEST_INCONCLUSIVE, /* the self-test could not preempt a sequence */
	PERCPU_SELFTEST_PENDING,      /* no result yet; until then the process is on tier cpu */
};

/* The library is compiled with enums of this size. */
PERCPU_ASSERT(sizeof(enum percpu_tier) == sizeof(int), "libpercpu needs -fno-short-enums");

/** The state of the process; see percpu_status(). */
struct percpu_status {
	enum percpu_tier tier;
	enum percpu_registrar registrar; /* of the thread of the first call; see percpu_status() */
	const char *reason;		 /* why this tier, in words */
	uint32_t rseq_size;		 /* bytes that libc registered; 0: none */
	uint32_t feature_size;		 /* AT_RSEQ_FEATURE_SIZE; 0: kernel before 6.3 */
	uint32_t align;			 /* AT_RSEQ_ALIGN; 0: kernel before 6.3 */
	enum percpu_selftest selftest;
	uint32_t possible_cpus;	  /* highest possible CPU number + 1; docs/memory/region.md
				     says where it may be more */
	uint32_t lanes;		  /* lanes of a region: CPU, atomic and bias lanes */
	uint32_t membarrier_cmds; /* result of MEMBARRIER_CMD_QUERY */
	uint32_t commit_words;	  /* the most counters that one percpu_counter_array_add_n() adds to
				     at once: 2, 4 or 8 on tier rseq, else 1 */
	bool fence;		  /* percpu_fence() can use membarrier */
	bool cpu_without_lane;	  /* a thread ran on a CPU for which some region has no
				     lane; that thread is on tier cpu, for good */
	bool has_mm_cid;	  /* the rseq area has a concurrency id */
	bool robust;		  /* locks are taken over when their holder was killed */
	char kernel[65];	  /* release, as of uname(2) */
};

/**
 * Return the state of the process: which tier it is on, and why. Never NULL.
 *
 * The first call of this, or of any function that creates something, looks for libc's
 * registration of the thread, registers the thread if there is none, and starts the
 * self-test, in two short-lived threads. It does not wait for them. Until they have seen
 * the kernel abort a sequence, the process is on tier cpu and the self-test is
 * PERCPU_SELFTEST_PENDING; counting is exact, and all objects work. Then the tier rises,
 * and each thread uses sequences from its next operation on. This takes about a
 * millisecond on an idle machine, and longer on a busy one. The tier of a process never
 * falls. percpu_selftest() waits for the self-test.
 *
 * If a process forks before its self-test has ended, the child takes its parent's result. If the
 * parent exits first, the child's next call of this, or of a function that creates
 * something, starts a self-test of its own. Such a call also starts one if no thread could be
 * started before.
 *
 * Children of vfork() and clone(CLONE_VM) count exactly, because the library wraps
 * the two. If the library was built without the wrappers (docs/cpu/process.md), such
 * children must not count; the status does not show this.
 *
 * The environment variable PERCPU_TIER, set to "rseq", "cpu" or "shared", keeps
 * the process from using a faster tier.
 *
 * The returned struct stays valid and does not change, except that cpu_without_lane
 * may become true. Call again to see whether the tier has risen.
 *
 * Context: any thread; not a signal handler. No cancellation point.
 * Progress: the first call takes a lock of the process, starts two threads and waits for
 * neither.
 */
PERCPU_API const struct percpu_status *percpu_status(void);

/**
 * Return the tier of the calling thread: that of the process, or a lower tier if
 * this thread is not registered, or has run on a CPU for which some region has no lane.
 *
 * Context: any thread, signal handlers.
 */
PERCPU_API enum percpu_tier percpu_thread_tier(void);

/** Return the name of a tier: "rseq", "cpu" or "shared". */
PERCPU_API const char *percpu_tier_name(enum percpu_tier tier);

/**
 * Run the self-test, or wait for the one that is running. The self-test preempts a thread
 * that is in a sequence, and checks that the kernel aborts the sequence.
 *
 * Afterwards the tier that percpu_status() returns is final, and the threads of the
 * self-test have ended. There is one exception: if this returns
 * PERCPU_SELFTEST_INCONCLUSIVE while the status has PERCPU_SELFTEST_PENDING, no thread
 * could be started, or the machine is very busy. Call this before you measure, before you
 * forbid the process system calls (seccomp), and before calls that the kernel grants to
 * single-threaded processes only (a user namespace, by unshare(2)).
 *
 * Progress: it takes about a millisecond on an idle machine, at most 10 s on a busy one.
 * Context: any thread, not a signal handler. No cancellation point.
 */
PERCPU_API enum percpu_selftest percpu_selftest(void);

/** Return the version of the library. Compare it with PERCPU_VERSION, which is the headers'. */
PERCPU_API int percpu_version(void);

PERCPU_END_DECLS

#endif
