/* SPDX-License-Identifier: MIT */
/*
 * cpu.h - the lowest layer: CPUs and threads, locks, forks, fences, tiers.
 *
 * Each source of this layer has a part below, and uses only what is declared above it.
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

#include <percpu/fence.h>
#include <percpu/seq.h>
#include <percpu/status.h>

#include "cpus.h"
#include "kernel.h"
#include "lock.h"
#include "mutex.h"
#include "process.h"

/* libatomic would do 64-bit atomics with locks, which other processes do not take. */
#ifndef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_8
#error "libpercpu needs a machine with 64-bit atomic instructions (x86: -march=i586 or later)"
#endif

/** Return -errno. Compilers and analyzers do not know that errno is positive, so make
 *  sure that they see a negative result. */
static inline int percpu_errno(void)
{
	int e = -errno;

	return e < 0 ? e : -EIO;
}

/** Let no pthread_cancel() take effect in the calling thread until it calls
 *  percpu_restore_cancel() with the result. A request that is on its way when the state is
 *  changed asks glibc for the type alone, so that changes, too. */
static inline int percpu_defer_cancel(void)
{
	int state, type;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return type << 8 | state;
}

static inline void percpu_restore_cancel(int both)
{
	int old;

	pthread_setcancelstate(both & 0xff, &old);
	pthread_setcanceltype(both >> 8, &old);
}

/**
 * Name a place where a test may stop, delay or kill the caller, or interfere. Such tests
 * compile the sources with a definition of their own (tests/steps.h).
 */
#ifndef PERCPU_STEP
#define PERCPU_STEP(name) ((void)0)
#endif

/** The cpu_id in the area of a thread that will never run sequences, so that slow paths
 *  need not try. It is -1 for a thread that may run them later. */
#define PERCPU_CPU_NEVER (-2)

/** Whether the calling thread will never run sequences. */
static inline bool percpu_seq_never(void)
{
	return percpu_seq_cpu() == PERCPU_CPU_NEVER;
}

/**
 * Whether a slow path tries its sequence (again). r is what the last try returned, or
 * PERCPU_SEQ_SLOW before the first. Before the first try this attaches the thread.
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

/** Return the time of a clock, in nanoseconds. */
static inline uint64_t percpu_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/** Return the time of the clock that does not go back. */
static inline uint64_t percpu_now_ns(void)
{
	return percpu_clock_ns(CLOCK_MONOTONIC);
}

#define PERCPU_SECOND 1000000000ULL

/* options.c */

/** Copy a struct of options, which begins with its size, into to, which has the size
 *  known. If from is NULL, or has fewer fields, the rest of to becomes zero. Returns 0, or
 *  -EINVAL if from has more fields that are not zero. */
int percpu_options_read(void *to, size_t known, const void *from);

/** The same for a struct that must be there, and that had all these fields in every release. */
int percpu_struct_read(void *to, size_t known, const void *from);

/* futex.c */

/** Wait while the word has that value, at most ns, or without limit if ns is 0. The
 *  operation is FUTEX_WAIT, or FUTEX_WAIT_PRIVATE if only this process uses the word. No
 *  cancellation point. */
void percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);

/** Wake up to how_many threads that sleep on the word. The operation is FUTEX_WAKE, or
 *  FUTEX_WAKE_PRIVATE. */
void percpu_futex_rouse(uint32_t *word, int operation, int how_many);

/** Wait, and wake all, in this process alone. */
void percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
void percpu_futex_wake(uint32_t *word);

/* fork.c */

/** The process lock protects the lists of the process, and everything that allocates.
 *  Signals are blocked while it is held. A fork waits for it, so its holder must not wait
 *  for another process, nor take a lock other than those behind PERCPU_FORK_PROCESS. */
void percpu_process_lock(void);
void percpu_process_unlock(void);

/** The parts of the library that have locks, in the order in which locks are taken. */
enum percpu_fork_order {
	PERCPU_FORK_REFS,	     /* the mode of all reference counts; its holder fences */
	PERCPU_FORK_SELFTEST,	     /* the end of its threads; a fork waits for the self-test */
	PERCPU_FORK_NAMES,	     /* the names of src/freebsd/sysctl.c */
	PERCPU_FORK_VARIABLES,	     /* the set-up of images */
	PERCPU_FORK_WBUFS,	     /* the list of write buffers, then the internal lock of each */
	PERCPU_FORK_LWBUFS,	     /* the list of windows' files, then the locks of each */
	PERCPU_FORK_ZONE_CHECKS,     /* the debug checks of zones */
	PERCPU_FORK_OBJCACHE_CHECKS, /* the debug checks of object caches */
	PERCPU_FORK_GRACE_QUEUES,    /* the queues of callbacks */
	PERCPU_FORK_PROCESS,	     /* the process lock */
	PERCPU_FORK_REGIONS,	     /* has no lock of the process */
	PERCPU_FORK_TURNS,	     /* likewise */
	PERCPU_FORK_RWLOCKS,	     /* likewise */
	PERCPU_FORK_COMPLAINTS,	     /* likewise: the process lock protects them */
	PERCPU_FORK_OWNERS,	     /* likewise: the process lock protects their list */
	PERCPU_FORK_GRACES,	     /* likewise: the process lock protects their list */
	PERCPU_FORK_POOLS,	     /* the queue of each pool */
	PERCPU_FORK_RINGS,	     /* likewise: the process lock protects their list */
	PERCPU_FORK_DEPOTS,	     /* the shelves of each depot */
	PERCPU_FORK_PARTS,
};

/** What a part does around a fork. Each may be NULL. */
struct percpu_fork_part {
	void (*before)(void);	/* take the part's locks */
	void (*after)(void);	/* release them, in the parent and in the child */
	void (*in_child)(void); /* called before after(): repair what other threads left */
};

/** Let each fork from now on call the functions of this part. For constructors. */
void percpu_fork_register(enum percpu_fork_order place, const struct percpu_fork_part *part);

/* boot.c */

/** Store a number that tells this boot of the machine from others; 0 if the kernel does not say so
 *  itself. Returns 0, or -EMFILE, -ENFILE or -ENOMEM: it could not be asked. */
int percpu_boot_id_read(uint64_t *ret);

/** Return that number; 0 also if the kernel could not be asked. */
uint64_t percpu_boot_id(void);

/* verdict.c: the verdict of the process, which decides whether threads run sequences */

/** The verdict before percpu_init(). */
#define PERCPU_SELFTEST_UNKNOWN (PERCPU_SELFTEST_PENDING + 1)

/** Set the verdict to pending, or to skipped if sequences are not possible. The caller has
 *  stored all that percpu_status() returns for it. */
void percpu_verdict_init(bool possible);

/** The verdict: unknown, skipped, pending, or what the self-test has found. Atomic;
 *  only verdict.c stores to it. */
extern uint32_t percpu_verdict_word;

/** Return the verdict of a process whose own is pending: pending, or what its parent or a
 *  child has found meanwhile. */
uint32_t percpu_verdict_ask_family(void);

static inline uint32_t percpu_verdict(void)
{
	uint32_t verdict = __atomic_load_n(&percpu_verdict_word, __ATOMIC_ACQUIRE);

	return percpu_likely(verdict != PERCPU_SELFTEST_PENDING) ? verdict :
								   percpu_verdict_ask_family();
}

/** Whether threads of this process may be running sequences. If not, a thread that runs one
 *  later sees all that the caller has stored before. */
bool percpu_sequences_may_run(void);

/** Set the verdict to what the self-test of this process has found, unless there is one. */
void percpu_verdict_announce(enum percpu_selftest found);

/** Before a fork: let parent and children share what their self-tests find. */
void percpu_verdict_share(void);

/* record.c: what the library knows of a thread */

enum percpu_thread_state {
	PERCPU_THREAD_FRESH,	  /* not looked at yet */
	PERCPU_THREAD_REGISTERED, /* the kernel confirmed it; the verdict is pending */
	PERCPU_THREAD_ATTACHED,	  /* may run sequences */
	PERCPU_THREAD_UNABLE,	  /* no sequences in this thread */
};

/** A function of the program's that the thread runs for an object, on the stack. */
struct percpu_within {
	const void *object;
	const struct percpu_within *outer; /* that it was called in; or NULL */
};

struct percpu_record {
#ifdef PERCPU_LATE
	struct percpu_rseq *self; /* percpu_self; first, because the key's value leads to it */
	uint64_t number;	  /* see percpu_record_number(); 0: none yet */
#endif
	struct percpu_rseq *area;	/* the value of percpu_self while shared is 0 */
	struct percpu_rseq *registered; /* the area that the kernel confirmed */
	enum percpu_thread_state state;
	unsigned shared;		    /* tasks that use this record besides its thread */
	const struct percpu_within *within; /* see percpu_record_enter() */
	struct percpu_rseq own;		    /* registered if libc has no area */
	struct percpu_rseq none;	    /* for percpu_self while the thread runs no sequences */
};

/** Return the calling thread's record, or, if it cannot have one, a common record in the
 *  state "unable". */
struct percpu_record *percpu_record(void);

/** Note that the calling thread runs a function of the program's for this object, until
 *  percpu_record_leave(). It is not noted in the common record. */
void percpu_record_enter(struct percpu_within *w, const void *object);
void percpu_record_leave(const struct percpu_within *w);

/** Whether the calling thread runs such a function, or one that such a function called. */
bool percpu_record_is_within(const void *object);

/** Return the thread's number, which no later one has; 0: none. With make set, under the process
 *  lock, it gets one, unless it has the common record and there is no key or memory for another
 *  place. A child of fork has the number of the thread that forked. */
uint64_t percpu_record_number(bool make);

/** Called once, before the first registration. Returns whether threads can have records.
 *  detach is called for each kept record when its thread ends. */
bool percpu_record_init(void (*detach)(struct percpu_record *));

/** Let the record be detached when the thread ends. Returns whether that is possible. */
bool percpu_record_keep(struct percpu_record *r);

/* helper.c */

/** Called once, before the first helper: find out how much of a stack libc takes. */
void percpu_helper_init(void);

/** Start a short-lived thread that gets none of the program's signals. It has the
 *  caller's scheduling policy, or the normal one if normal is set and the caller's is a
 *  real-time policy. It should not allocate memory: in glibc an arena of 64 MiB of address
 *  space would stay behind. Returns 0 or -errno. */
int percpu_helper_start(pthread_t *ret, bool normal, void *(*fn)(void *), void *arg);

/** Start a thread that runs functions of the program: with a stack of the default size. It gets
 *  none of the program's signals, either. Returns 0 or -errno. */
int percpu_helper_start_for_program(pthread_t *ret, void *(*fn)(void *), void *arg);

/* visit.c */

typedef void percpu_visit_fn(unsigned cpu, void *arg);

/**
 * Run a thread on each CPU from first to end - 1 in turn, and call fn there,
 * unless it is NULL. Waits for an fn that has begun. Returns and reports as
 * percpu_fence_all(). If there is an fn, offline CPUs are reported as unfenced, but are no
 * error.
 */
int percpu_visit(unsigned first, unsigned end, percpu_visit_fn *fn, void *arg, uint64_t timeout_ns,
		 struct percpu_fence_report *ret_report);

/* thread.c */

/** Undo the registration of the calling thread, which is about to end. r is its record. */
void percpu_thread_detach(struct percpu_record *r);

/** Prepare registration; called once. Fills in the rseq part of the status. */
void percpu_thread_init(struct percpu_status *st);

/** Register the calling thread, unless it is registered. Returns who registered it. It
 *  does not run sequences yet. */
enum percpu_registrar percpu_thread_register(void);

/** Let the calling thread, which is registered, run sequences. */
void percpu_thread_attach(void);

/** Let the calling thread never run sequences again. */
void percpu_thread_give_up(void);

/** The distance from each thread's thread pointer to libc's area; 0: libc has none.
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

/** Return the CPU that the thread is on, or -1. Leaves errno alone. */
int percpu_thread_cpu(void);

/** The same for atomic additions, from libc's area, which costs less than a call; -1 if
 *  there is none. If the thread is not registered the number may be wrong; an atomic
 *  addition is correct on any CPU's lane. */
static inline int percpu_thread_cpu_seen(void)
{
#ifdef PERCPU_SEQ_SIGNATURE
	if (percpu_likely(percpu_libc_offset != 0))
		return __atomic_load_n(&percpu_libc_area()->cpu_id, __ATOMIC_RELAXED);
#endif
	return -1;
}

/** Note the CPU that the thread is on. The thread gives up sequences if some region has
 *  no lane for it, or for another CPU that was noted. */
void percpu_thread_look(void);

/** This task and another are about to share the thread's TLS. Neither runs sequences until
 *  percpu_thread_unshare() was called as often. */
void percpu_thread_share(void);
void percpu_thread_unshare(void);

/* barrier.c */

/** Register the process for fences by membarrier(2). Returns whether the kernel does them. */
bool percpu_barrier_init(uint32_t *ret_commands);

/** Abort the sequences that this process has in progress on CPUs 0 to cpus - 1, or on that
 *  CPU. Return as percpu_fence(). */
int percpu_barrier(unsigned cpus);
int percpu_barrier_cpu(unsigned cpu);

/* selftest.c */

/** Start the self-test, unless it is running in this process. Returns 0 or
 *  -errno. Not in signal handlers. */
int percpu_selftest_start(void);

/** Wait for the threads of the self-test. Returns whether they have ended. */
bool percpu_selftest_wait(uint64_t timeout_ns);

/** Return what the last self-test of this process found. */
enum percpu_selftest percpu_selftest_last(void);

/* status.c */

/** Find out all that percpu_status() reports, unless that was done before, and start the
 *  self-test if the verdict is pending. Returns the status. Not in signal handlers. */
const struct percpu_status *percpu_init(void);

/** Return the tier if percpu_init() is done, otherwise PERCPU_TIER_SHARED. For slow
 *  paths, which may run in signal handlers and must not initialize. */
enum percpu_tier percpu_tier(void);

/** Whether PERCPU_TIER=shared is set. Constant once percpu_init() is done. */
extern bool percpu_tier_is_shared;

/* fence.c */

/** As percpu_fence_all(), on CPUs 0 to end - 1: on fewer if the machine can have no more,
 *  and on more if the machine certainly has more. */
int percpu_fence_below(uint32_t end, uint64_t timeout_ns, struct percpu_fence_report *ret_report);

#endif
