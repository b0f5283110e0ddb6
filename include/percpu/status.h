/* SPDX-License-Identifier: MIT */
/*
 * status.h - which tier is in force, and why.
 */
#ifndef PERCPU_STATUS_H
#define PERCPU_STATUS_H

#include <stdbool.h>

#include <percpu/base.h>

PERCPU_BEGIN_DECLS

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
	PERCPU_SELFTEST_INCONCLUSIVE, /* could not be provoked in time */
};

/** The state of the process; see percpu_status(). */
struct percpu_status {
	enum percpu_tier tier;
	const char *reason;	 /* why this tier, in words */
	enum percpu_owner owner; /* of the thread that asked first */
	uint32_t rseq_size;	 /* bytes libc registered; 0: none */
	uint32_t feature_size;	 /* AT_RSEQ_FEATURE_SIZE; 0: kernel before 6.3 */
	uint32_t align;		 /* AT_RSEQ_ALIGN; 0: kernel before 6.3 */
	bool has_mm_cid;	 /* the area has a concurrency id */
	enum percpu_selftest selftest;
	uint32_t possible_cpus;	  /* highest possible CPU number + 1; docs/region.md
				     says where it may be up to 3 more */
	uint32_t lanes;		  /* lanes of a region: CPU, atomic and bias */
	uint32_t membarrier_cmds; /* bits of MEMBARRIER_CMD_QUERY */
	bool fence;		  /* percpu_fence() can use membarrier */
	bool cpu_without_lane;	  /* a CPU was seen for which some region has no lane; a
				     thread that notices goes to tier cpu, for good */
	char kernel[65];	  /* release, as uname(2) says */
};

/**
 * Say which tier the process is on, and why.
 *
 * The first call of this, or of any function that creates something, finds it
 * out: it looks for the registration, tries to register where libc did not,
 * and provokes a preemption in a short-lived helper thread to see that the
 * kernel aborts the sequence. The environment variable PERCPU_TIER, set to
 * "rseq", "cpu" or "shared", keeps the process from using a faster tier.
 *
 * Returns a constant that stays valid and the same, but that cpu_without_lane
 * may become true; never NULL.
 *
 * Context: any thread; not a signal handler on the first call.
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
 * Run the self-test again: provoke a preemption on the CPU of a sequence and
 * see whether the kernel aborts it. It takes less than a millisecond on an idle
 * machine, and at most about a second.
 *
 * Context: any thread, not a signal handler. Starts a thread and joins it.
 */
PERCPU_API enum percpu_selftest percpu_selftest(void);

PERCPU_END_DECLS

#endif
