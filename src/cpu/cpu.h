/* SPDX-License-Identifier: MIT */
/*
 * cpu.h - the lowest layer: CPUs and threads, locks, forks, fences, tiers.
 *
 * Each source uses what is declared above its own part, and nothing below.
 */
#ifndef PERCPU_CPU_H
#define PERCPU_CPU_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "kernel.h"

/* Libraries that make up for it use locks, which other processes do not take. */
#ifndef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_8
#error "libpercpu needs a machine with 64-bit atomic instructions (x86: -march=i586 or later)"
#endif

/** What a call that failed says, negative: also to compilers and analyzers,
 *  which do not know that errno is positive. */
static inline int percpu_errno(void)
{
	int e = -errno;

	return e < 0 ? e : -EIO;
}

/** No pthread_cancel() takes effect in the calling thread from here on; hand
 *  what it returns to percpu_restore_cancel(). */
static inline int percpu_defer_cancel(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void percpu_restore_cancel(int state)
{
	pthread_setcancelstate(state, &state);
}

/**
 * A place, which it names, where a test may stop, delay or kill the caller, or
 * interfere. Nothing in the library; such tests compile the sources once more,
 * with a definition of their own (tests/steps.h).
 */
#ifndef PERCPU_STEP
#define PERCPU_STEP(name) ((void)0)
#endif

/** The cpu_id in the area of a thread that is never going to run sequences, which slow
 *  paths see at a glance. That of one that may yet is -1. */
#define PERCPU_CPU_NEVER (-2)

/** Whether the calling thread is such a one. */
static inline bool percpu_seq_never(void)
{
	return percpu_seq_cpu() == PERCPU_CPU_NEVER;
}

/**
 * Whether a slow path tries its sequence (again): r is what the last attempt returned,
 * PERCPU_SEQ_SLOW before the first one, which sees to it that the thread can run any.
 *
 *	for (int try = 0; percpu_seq_retry(r, try); try++)
 *		r = percpu_seq_add(cell, stride, n);
 */
static inline bool percpu_seq_retry(int r, int try)
{
	if (r != PERCPU_SEQ_SLOW || try == PERCPU_SEQ_TRIES)
		return false;
	return try != 0 || (!percpu_seq_never() && percpu_seq_attach()->cpu_id >= 0);
}

/** Nanoseconds of a clock that does not go back. */
static inline uint64_t percpu_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

#define PERCPU_SECOND 1000000000ULL

/* options.c */

/** Read a struct of options, which begins with its size, into one of the size that is
 *  known here; NULL is all zero. Programs of an older version have fewer fields: the
 *  others are zero. Those of a newer one have more, which must be zero: or -EINVAL. */
int percpu_options_read(void *to, size_t known, const void *from);

/* futex.c */

/** Wait on a word while it has that value, at most ns, or without limit if that is
 *  0: FUTEX_WAIT or, in this process alone, FUTEX_WAIT_PRIVATE. No cancellation
 *  point. */
void percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);

/** Wake so many of those who sleep on it: FUTEX_WAKE or FUTEX_WAKE_PRIVATE. */
void percpu_futex_rouse(uint32_t *word, int operation, int how_many);

/** The same in this process. Wake all who do. */
void percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
void percpu_futex_wake(uint32_t *word);

/* fork.c */

/** Serializes everything in the process that allocates, and its lists. Signals are
 *  blocked meanwhile. Fork waits for it, so nobody who has it waits for another process, or for another
 *  lock but those that fork.c lists behind it. */
void percpu_process_lock(void);
void percpu_process_unlock(void);

/** Where a part of the library stands in the order in which locks are taken. */
enum percpu_fork_order {
	PERCPU_FORK_SELFTEST,	 /* no lock: a fork waits for it */
	PERCPU_FORK_NAMES,	 /* those of freebsd_sysctl.c */
	PERCPU_FORK_VARIABLES,	 /* their set-up */
	PERCPU_FORK_WBUFS,	 /* the list of write buffers, then the internal lock of each */
	PERCPU_FORK_ZONE_CHECKS, /* the debug checks of zones */
	PERCPU_FORK_PROCESS,	 /* the process lock */
	PERCPU_FORK_REGIONS,	 /* no lock of the process's */
	PERCPU_FORK_DEPOTS,	 /* the shelves of each depot */
	PERCPU_FORK_PARTS,
};

/** What a part does around a fork; what is NULL is left out. */
struct percpu_fork_part {
	void (*before)(void);	/* take its locks */
	void (*after)(void);	/* release them, in the parent and in the child */
	void (*in_child)(void); /* before that, make good what other threads left */
};

/** For a constructor: forks take this part along from now on. */
void percpu_fork_register(enum percpu_fork_order place, const struct percpu_fork_part *part);

/* cpus.c */

/**
 * Lanes needed for every CPU that this kernel can have: the highest possible
 * CPU number + 1, or more where the kernel's own lists cannot be read; or -E2BIG.
 *
 * In *ret_certain, which may be NULL, how many there are at least: a process that
 * could read one made its regions for no fewer.
 */
int percpu_possible_cpus(uint32_t *ret_certain);

/** Whether the CPU may be online: false if the kernel says that it is not. */
bool percpu_cpu_online(unsigned cpu);

/** Let the thread, 0 for the calling one, run on that CPU alone: 0 or -errno. */
int percpu_pin(pid_t tid, unsigned cpu);

/** Read a list of the kernel's such as "0-3,8". Returns false if there is none. */
bool percpu_read_list(const char *path, char *buf, size_t size);

/** Next range of a list; returns false at its end or where it is malformed. */
bool percpu_next_range(const char **list, unsigned long *first, unsigned long *last);

/** The process is going to count in a region with so many lanes of CPUs. */
void percpu_note_lanes(uint32_t cpus);

/** Its threads can be on CPUs 0 to cpus - 1. Returns whether one of them, or of
 *  those noted before, has no lane in some region. */
bool percpu_note_cpus(uint32_t cpus);

/** Atomic: how many CPUs have a lane in every region that the process counts in. */
extern uint32_t percpu_lanes_everywhere;

/** Words that one store of this machine commits: 2, 4 or 8. */
unsigned percpu_vector_words(void);

/* lock.c */

/** A robust lock that the thread holds. Signals are blocked meanwhile. */
struct percpu_robust {
	uint32_t *word;
	uint32_t tid;
	bool registered;	       /* own is the thread's list */
	struct robust_list_head *head; /* NULL: the kernel refuses */
	struct robust_list *pending;
	struct robust_list_head own;
	sigset_t signals;
};

/** Take the lock, a word that is 0 while it is free. Returns 0, or -ETIMEDOUT when
 *  one thread has had it for so long. Whoever takes it makes good what a killed
 *  holder may have left half done. */
int percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns);
void percpu_robust_unlock(struct percpu_robust *h);

/** Whether locks are taken over when their holder was killed. */
bool percpu_robust_supported(void);

/** In a child of fork: the holder did not come along. */
void percpu_robust_orphan(uint32_t *word);

/** How long to wait for a lock that is held for a few instructions, or system
 *  calls: its holder is stopped if it is not free then. */
#define PERCPU_LOCK_NS PERCPU_SECOND

/* verdict.c: what the process goes by */

/** The verdict before percpu_init(). */
#define PERCPU_SELFTEST_UNKNOWN (PERCPU_SELFTEST_PENDING + 1)

/** From now on the verdict is pending, or skipped. What goes with it is known. */
void percpu_verdict_init(bool possible);

/** What the process goes by: unknown, skipped, pending, or what the self-test has
 *  found. Atomic; written by verdict.c alone. */
extern uint32_t percpu_verdict_word;

/** The same, where it is pending, or else what a relative has found meanwhile. */
uint32_t percpu_verdict_ask_family(void);

static inline uint32_t percpu_verdict(void)
{
	uint32_t verdict = __atomic_load_n(&percpu_verdict_word, __ATOMIC_ACQUIRE);

	return percpu_likely(verdict != PERCPU_SELFTEST_PENDING) ? verdict :
								   percpu_verdict_ask_family();
}

/**
 * Whether threads of this process may be running sequences. If not, those that
 * start to later see all that the caller has stored before.
 */
bool percpu_sequences_may_run(void);

/** It was found out, in this process. The first verdict stays. */
void percpu_verdict_announce(enum percpu_selftest found);

/** Before a fork: from now on children learn of the verdict, and tell theirs. */
void percpu_verdict_share(void);

/* record.c: what the library knows of a thread */

enum percpu_thread_state {
	PERCPU_THREAD_FRESH,	  /* not looked at yet */
	PERCPU_THREAD_REGISTERED, /* the kernel confirmed it; the self-test is not through */
	PERCPU_THREAD_ATTACHED,	  /* may run sequences */
	PERCPU_THREAD_UNABLE,	  /* no sequences in this thread */
};

struct percpu_record {
#ifdef PERCPU_LATE
	struct percpu_rseq *self; /* percpu_self; first, for who has the value of the key */
#endif
	struct percpu_rseq *area; /* what percpu_self is when not shared */
	struct percpu_rseq *registered;
	enum percpu_thread_state state;
	unsigned shared;	 /* tasks that use this record besides its thread */
	struct percpu_rseq own;	 /* registered where libc has no area */
	struct percpu_rseq none; /* a thread's own nobody, against false sharing */
};

/** The calling thread's. Where it cannot have one of its own, one that is unable. */
struct percpu_record *percpu_record(void);

/** Once, before the first registration. Returns whether threads have records. */
bool percpu_record_init(void (*detach)(struct percpu_record *));

/** See that the record is detached when the thread ends. */
bool percpu_record_keep(struct percpu_record *r);

/* helper.c */

/** Once, before the first: how much of a stack is not theirs. */
void percpu_helper_init(void);

/** Start a short-lived thread that gets none of the program's signals, with the
 *  caller's scheduling policy or, if that is a real-time one, the normal one.
 *  It should not allocate memory: in glibc an arena of 64 MiB of address space
 *  would stay behind. Returns 0 or -errno. */
int percpu_helper_start(pthread_t *ret, bool normal, void *(*fn)(void *), void *arg);

/* visit.c */

typedef void percpu_visit_fn(unsigned cpu, void *arg);

/**
 * Run a thread on each CPU from first to end - 1 in turn, and call fn there,
 * unless it is NULL. Waits for an fn that has begun. Returns and reports as
 * percpu_fence_all(); where there is an fn, offline CPUs count as not visited,
 * which is no error.
 */
int percpu_visit(unsigned first, unsigned end, percpu_visit_fn *fn, void *arg, uint64_t timeout_ns,
		 struct percpu_fence_report *ret_report);

/* thread.c */

/** The calling thread, whose record it is, is about to end. */
void percpu_thread_detach(struct percpu_record *r);

/** Prepare registration; called once. Fills in the rseq part of the status. */
void percpu_thread_init(struct percpu_status *st);

/** See that the calling thread is registered. Returns by whom. It does not run
 *  sequences yet. */
enum percpu_owner percpu_thread_register(void);

/** From now on, sequences in the calling thread, which is registered. */
void percpu_thread_attach(void);

/** From now on, no sequences in the calling thread. */
void percpu_thread_give_up(void);

/** Where libc's area of each thread is, from the thread pointer; 0: it has none.
 *  Constant once percpu_init() is done. */
extern ptrdiff_t percpu_libc_offset;

#ifdef PERCPU_SEQ_SIGNATURE
static inline struct percpu_rseq *percpu_libc_area(void)
{
	char *tp;

#ifdef __x86_64__
	__asm__("movq %%fs:0, %0" : "=r"(tp));
#else
	__asm__("mrs %0, tpidr_el0" : "=r"(tp));
#endif
	return (struct percpu_rseq *)(tp + percpu_libc_offset);
}
#endif

/** The CPU that the thread is on, or -1. Leaves errno alone. */
int percpu_thread_cpu(void);

/** The same at a glance, for who adds atomically, or -1: what the kernel keeps in libc's
 *  area costs less than a call. Should the thread not be registered, the number there is
 *  as good: to atomic additions any is. */
static inline int percpu_thread_cpu_seen(void)
{
#ifdef PERCPU_SEQ_SIGNATURE
	if (percpu_likely(percpu_libc_offset != 0))
		return __atomic_load_n(&percpu_libc_area()->cpu_id, __ATOMIC_RELAXED);
#endif
	return -1;
}

/** Note the CPU that the thread is on; no sequences if some region has no lane
 *  for it, or for another that was noted. */
void percpu_thread_look(void);

/** This task and another are about to share the thread's TLS: no sequences,
 *  until as many calls of percpu_thread_unshare(). */
void percpu_thread_share(void);
void percpu_thread_unshare(void);

/* barrier.c */

/** Announce it to the kernel; true if membarrier(2) can do it. */
bool percpu_barrier_init(uint32_t *ret_commands);

/** Abort the sequences that this process has in progress on so many CPUs; on this one;
 *  as percpu_fence(). */
int percpu_barrier(unsigned cpus);
int percpu_barrier_cpu(unsigned cpu);

/* selftest.c */

/** Start the self-test, unless this process has threads at it. Returns 0 or
 *  -errno. Not in signal handlers. */
int percpu_selftest_start(void);

/** Wait for those threads. Returns whether they have ended. */
bool percpu_selftest_wait(uint64_t timeout_ns);

/** What the last of them found. */
enum percpu_selftest percpu_selftest_last(void);

/* status.c */

/** Find out all that percpu_status() reports, unless done; and see that
 *  somebody is at the self-test if there is no verdict. Not in signal handlers. */
const struct percpu_status *percpu_init(void);

/** The tier if percpu_init() is done, otherwise PERCPU_TIER_SHARED; for slow
 *  paths, which may run in signal handlers and must not initialize. */
enum percpu_tier percpu_tier(void);

/** Whether the process is kept on that tier. Constant once percpu_init() is done. */
extern bool percpu_tier_is_shared;

/* fence.c */

/** As percpu_fence_all(), on the CPUs below end, or all that there are, if that is
 *  less or certain. */
int percpu_fence_below(uint32_t end, uint64_t timeout_ns, struct percpu_fence_report *ret_report);

#endif
