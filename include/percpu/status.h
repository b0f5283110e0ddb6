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
 * What the calls of this header have in common, where one does not say more.
 *
 * Context: anywhere, signal handlers included.
 * Ordering: none.
 * Progress: no lock, no waiting.
 */

/** How updates are done, from the slowest to the fastest. */
enum percpu_tier {
	PERCPU_TIER_SHARED, /* one atomic add that all threads share */
	PERCPU_TIER_CPU,    /* an atomic add in a lane of the current CPU */
	PERCPU_TIER_RSEQ,   /* a plain add in a restartable sequence */
};

/** Who registered the area in which the kernel keeps the CPU number. */
enum percpu_owner {
	PERCPU_OWNER_NONE,
	PERCPU_OWNER_LIBC,
	PERCPU_OWNER_LIBRARY,
};

/** What the self-test saw when a sequence was preempted on its own CPU. */
enum percpu_selftest {
	PERCPU_SELFTEST_SKIPPED,      /* no sequences to test */
	PERCPU_SELFTEST_PASSED,	      /* it was aborted */
	PERCPU_SELFTEST_FAILED,	      /* it went on: sequences are unsafe here */
	PERCPU_SELFTEST_INCONCLUSIVE, /* could not be provoked */
	PERCPU_SELFTEST_PENDING,      /* not seen yet; tier cpu until it is */
};

/* The library has them so, in structs and in what it returns. */
PERCPU_ASSERT(sizeof(enum percpu_tier) == sizeof(int), "libpercpu needs -fno-short-enums");

/** The state of the process; see percpu_status(). */
struct percpu_status {
	enum percpu_tier tier;
	enum percpu_owner owner; /* of the thread that asked first */
	const char *reason;	 /* why this tier, in words */
	uint32_t rseq_size;	 /* bytes libc registered; 0: none */
	uint32_t feature_size;	 /* AT_RSEQ_FEATURE_SIZE; 0: kernel before 6.3 */
	uint32_t align;		 /* AT_RSEQ_ALIGN; 0: kernel before 6.3 */
	enum percpu_selftest selftest;
	uint32_t possible_cpus;	  /* highest possible CPU number + 1; docs/region.md
				     says where it may be more */
	uint32_t lanes;		  /* lanes of a region: CPU, atomic and bias */
	uint32_t membarrier_cmds; /* bits of MEMBARRIER_CMD_QUERY */
	bool fence;		  /* percpu_fence() can use membarrier */
	bool cpu_without_lane;	  /* a CPU was seen for which some region has no lane; a
				     thread that notices goes to tier cpu, for good */
	bool has_mm_cid;	  /* the area has a concurrency id */
	bool robust;		  /* locks are taken over when their holder was killed */
	char kernel[65];	  /* release, as uname(2) says */
};

/**
 * Say which tier the process is on, and why.
 *
 * The first call of this, or of any function that creates something, finds out
 * what can be known at once: it looks for the registration, tries to register
 * where libc did not, and starts the self-test, in two short-lived threads. It
 * does not wait for them. Until they have seen the kernel abort a sequence, the
 * process is on tier cpu and the self-test is PERCPU_SELFTEST_PENDING; counting
 * is exact, and all objects work. With the proof the tier rises, and each thread
 * takes part from its next operation on. That is within about a millisecond on
 * an idle machine, and when the scheduler has come round on a busy one. A tier
 * never falls. percpu_selftest() waits.
 *
 * A child of fork made before that goes by its parent's proof; should the parent
 * end first, the child's next call of this, or of a function that creates
 * something, starts a self-test of its own. So does such a call where no thread
 * could be started before.
 *
 * Children of vfork() and clone(CLONE_VM) count exactly because the library wraps
 * the two. One that was built without the wrappers (docs/process.md) does not say so
 * here, and such children must not count.
 *
 * The environment variable PERCPU_TIER, set to "rseq", "cpu" or "shared", keeps
 * the process from using a faster tier.
 *
 * Returns what is the case now: a constant that stays valid and the same, but
 * that a later call may find cpu_without_lane to be true. So call again to see
 * whether that is so, or the tier has risen. Never NULL.
 *
 * Context: any thread; not a signal handler. No cancellation point.
 * Progress: the first call takes a lock of the process, starts two threads and waits for
 * neither.
 */
PERCPU_API const struct percpu_status *percpu_status(void);

/**
 * Say which tier the calling thread is on: that of the process, or a lower one
 * where the kernel knows of no registration of this thread, or a CPU without a
 * lane was seen.
 *
 * Context: any thread, signal handlers.
 */
PERCPU_API enum percpu_tier percpu_thread_tier(void);

/** "rseq", "cpu" or "shared". */
PERCPU_API const char *percpu_tier_name(enum percpu_tier tier);

/**
 * Run the self-test, or wait for the one that is running: provoke a preemption
 * on the CPU of a sequence and see whether the kernel aborts it.
 *
 * So the tier that percpu_status() says afterwards is the final one, and none of
 * the self-test's threads is left; unless PERCPU_SELFTEST_INCONCLUSIVE is
 * returned and the status says PERCPU_SELFTEST_PENDING: then no thread could be
 * started, or the machine is very busy. Call it before you measure, before you
 * forbid the process system calls (seccomp), and before you ask for what the
 * kernel grants single threads only (a user namespace, by unshare(2)).
 *
 * Progress: it takes about a millisecond on an idle machine, at most 10 s on a busy one.
 * Context: any thread, not a signal handler. No cancellation point.
 */
PERCPU_API enum percpu_selftest percpu_selftest(void);

/** Say which version the library has, as PERCPU_VERSION does for the headers. */
PERCPU_API int percpu_version(void);

PERCPU_END_DECLS

#endif
