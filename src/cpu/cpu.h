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
#include "moment.h"
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
 *  percpu_restore_cancel() with the result. The type is changed, too: if a request arrives
 *  while the state is changed, glibc looks at the type alone. */
static inline int percpu_defer_cancel(void)
{
	int state, type;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return type << 8 | state;
}

/** Undo percpu_defer_cancel(), which returned both. */
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

/** The cpu_id in the area of a thread that will never run sequences. Its slow paths do not
 *  try. A thread that may run sequences later has -1. */
#define PERCPU_CPU_NEVER (-2)

/** Return whether the calling thread will never run sequences. */
static inline bool percpu_seq_never(void)
{
	return percpu_seq_cpu() == PERCPU_CPU_NEVER;
}

/**
 * Return whether a slow path tries its sequence (again). r is the result of the last try, or
 * PERCPU_SEQ_SLOW before the first. Before the first try this attaches the thread.
 *
 *	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
 *		r = percpu_seq_add(cell, stride, n);
 */
static inline bool percpu_seq_prepare_try(int r, int try)
{
	/* Without this, clang 16, 19 and 20 never finish compiling some loops for x86-64 in the late
	 * library: their pass "Control Flow Optimizer" does not end. */
	__asm__("" : "+r"(r));
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

/** Return the time of CLOCK_MONOTONIC, in nanoseconds. */
static inline uint64_t percpu_now_ns(void)
{
	return percpu_clock_ns(CLOCK_MONOTONIC);
}

#define PERCPU_SECOND 1000000000ULL

/* options.c */

/** Copy a struct of options, which begins with its size, into to, which has the size `known`.
 *  If from is NULL, or has fewer fields, the rest of to becomes zero. Returns 0, or -EINVAL if
 *  from has additional fields that are not zero. */
int percpu_options_read(void *to, size_t known, const void *from);

/** Copy as percpu_options_read() a struct that must not be NULL, and that had all these fields
 *  in every release. */
int percpu_struct_read(void *to, size_t known, const void *from);

/* futex.c */

/** Wait while the word has that value, at most ns, or without limit if ns is 0. The
 *  operation is FUTEX_WAIT, or FUTEX_WAIT_PRIVATE if only this process uses the word. This is
 *  not a cancellation point. */
void percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);

/** Wake up to how_many threads that sleep on the word. The operation is FUTEX_WAKE, or
 *  FUTEX_WAKE_PRIVATE. */
void percpu_futex_rouse(uint32_t *word, int operation, int how_many);

/** Wait as percpu_futex_sleep() on a word that only this process uses. */
void percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);

/** Wake all threads that sleep on the word, which only this process uses. */
void percpu_futex_wake(uint32_t *word);

/* fork.c */

/** Take the process lock. It protects the lists of the process, and all allocations. Signals
 *  are blocked while it is held. A fork waits for it. So its holder must not wait for another
 *  process, nor take a lock other than those behind PERCPU_FORK_PROCESS. */
void percpu_process_lock(void);

/** Release the process lock. */
void percpu_process_unlock(void);

/** The parts of the library that a fork calls, in the order in which their locks are taken. */
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
	PERCPU_FORK_REGIONS,	     /* no lock */
	PERCPU_FORK_TURNS,	     /* no lock */
	PERCPU_FORK_RWLOCKS,	     /* no lock */
	PERCPU_FORK_COMPLAINTS,	     /* no lock: the process lock protects them */
	PERCPU_FORK_OWNERS,	     /* no lock: the process lock protects their list */
	PERCPU_FORK_GRACES,	     /* no lock: the process lock protects their list */
	PERCPU_FORK_CRITICALS,	     /* no lock: the process lock protects their list */
	PERCPU_FORK_POOLS,	     /* the queue of each pool */
	PERCPU_FORK_RINGS,	     /* no lock: the process lock protects their list */
	PERCPU_FORK_DEPOTS,	     /* the shelves of each depot */
	PERCPU_FORK_PARTS,
};

/** Functions of a part that a fork calls. Each may be NULL. */
struct percpu_fork_part {
	void (*before)(void);	/* take the part's locks */
	void (*after)(void);	/* release the locks, in the parent and in the child */
	void (*in_child)(void); /* called before after(): repair what other threads left */
};

/** Register the part: each later fork calls its functions. Constructors call this. */
void percpu_fork_register(enum percpu_fork_order order, const struct percpu_fork_part *part);

/* pins.c */

/** How many threads use an object of a list that the process lock protects. */
struct percpu_pins {
	uint32_t threads; /* a futex */
	bool closed;	  /* the object is about to be destroyed */
};

/** Keep the object from being destroyed and from leaving its list. Returns false if it is about to
 *  be destroyed. The caller has the process lock. */
bool percpu_pins_add(struct percpu_pins *p);

/** Undo percpu_pins_add(). The caller has the process lock. */
void percpu_pins_remove(struct percpu_pins *p);

/** Let no thread pin the object from now on, and wait until none does. */
void percpu_pins_close(struct percpu_pins *p);

/** Undo percpu_pins_close(). */
void percpu_pins_open(struct percpu_pins *p);

/* boot.c */

/** Store a number that identifies this boot of the machine; 0 if the kernel's own file cannot be
 *  read. Returns 0, or -EMFILE, -ENFILE or -ENOMEM if another try may succeed. */
int percpu_boot_id_read(uint64_t *ret);

/** Return that number; 0 also if another try may succeed. */
uint64_t percpu_boot_id(void);

/* verdict.c: the verdict of the process, which decides whether threads run sequences */

/** The verdict before percpu_init(). */
#define PERCPU_SELFTEST_UNKNOWN (PERCPU_SELFTEST_PENDING + 1)

/** Set the verdict to pending, or to skipped if sequences are not possible. The caller has
 *  stored what percpu_status() returns for it. */
void percpu_verdict_init(bool possible);

/** The verdict: unknown, skipped, pending, or the result of the self-test. Atomic; only
 *  verdict.c stores to it. */
extern uint32_t percpu_verdict_word;

/** Return the verdict of a process whose own is pending: pending, or the result that its
 *  parent or a child has found meanwhile. */
uint32_t percpu_verdict_adopt(void);

/** Return the verdict of the process. */
static inline uint32_t percpu_verdict(void)
{
	uint32_t verdict = __atomic_load_n(&percpu_verdict_word, __ATOMIC_ACQUIRE);

	return percpu_likely(verdict != PERCPU_SELFTEST_PENDING) ? verdict : percpu_verdict_adopt();
}

/** Return whether threads of this process may be running sequences. If not, a thread that runs
 *  one later sees all that the caller has stored before. */
bool percpu_sequences_may_run(void);

/** Set the verdict to the result of this process's self-test, unless there is a verdict. */
void percpu_verdict_announce(enum percpu_selftest found);

/** Before a fork, let parent and children share the results of their self-tests. */
void percpu_verdict_share(void);

/* thread_local.c: the library's struct of a thread */

enum percpu_thread_state {
	PERCPU_THREAD_FRESH,	  /* not looked at yet */
	PERCPU_THREAD_REGISTERED, /* the kernel confirmed it; the verdict is pending */
	PERCPU_THREAD_ATTACHED,	  /* may run sequences */
	PERCPU_THREAD_UNABLE,	  /* no sequences in this thread */
};

/** A call of a program's function, which the thread makes for an object. It is on the stack. */
struct percpu_thread_call {
	const void *object;
	const struct percpu_thread_call *outer; /* the call around this one; or NULL */
};

struct percpu_thread {
#ifdef PERCPU_LATE
	struct percpu_rseq *self; /* percpu_self; first, because the key's value leads to it */
	uint64_t number;	  /* see percpu_thread_number(); 0: none yet */
#endif
	struct percpu_rseq *area;	/* the value of percpu_self while shared is 0 */
	struct percpu_rseq *registered; /* the area that the kernel confirmed */
	enum percpu_thread_state state;
	unsigned shared;			 /* tasks that use this struct besides its thread */
	const struct percpu_thread_call *within; /* see percpu_thread_enter_call() */
	struct percpu_rseq own;			 /* registered if libc has no area */
	struct percpu_rseq none; /* for percpu_self while the thread runs no sequences */
};

/** Return the calling thread's struct. If it cannot have one, return the common struct, whose
 *  state is "unable". */
struct percpu_thread *percpu_thread(void);

/** Note that the calling thread runs a function of the program for this object, until
 *  percpu_thread_leave_call(). The common struct does not note it. */
void percpu_thread_enter_call(struct percpu_thread_call *w, const void *object);

/** Note that the function has returned. */
void percpu_thread_leave_call(const struct percpu_thread_call *w);

/** Return whether the calling thread is in such a function for this object. */
bool percpu_thread_is_in_call(const void *object);

/** Return the number of the calling thread, which no later thread of the process has. A thread gets
 *  its number at the first call. Returns 0 if it can have none: it has the common struct, and there
 *  is no key or memory for a number. A child of fork has the number of the thread that forked. */
uint64_t percpu_thread_number(void);

/** Prepare structs. Called once, before the first registration. detach will be called for each
 *  kept struct when its thread ends. Returns whether threads can have structs. */
bool percpu_thread_key_init(void (*detach)(struct percpu_thread *));

/** Keep the struct, so that it is detached when the thread ends. Returns whether that is
 *  possible. */
bool percpu_thread_keep(struct percpu_thread *r);

/* helper.c */

/** Find out how much of a stack libc takes. Called once, before the first helper starts. */
void percpu_helper_init(void);

/** Start a short-lived thread that blocks all signals. It has the caller's scheduling policy;
 *  if normal is set, and the caller's is a real-time policy, it has the normal one. It should
 *  not allocate memory: glibc would leave an arena of 64 MiB of address space behind. Returns 0
 *  or -errno. */
int percpu_helper_start(pthread_t *ret, bool normal, void *(*fn)(void *), void *arg);

/** Start a thread that runs functions of the program. It has a stack of the default size, and
 *  blocks all signals. Returns 0 or -errno. */
int percpu_helper_start_for_program(pthread_t *ret, void *(*fn)(void *), void *arg);

/* visit.c */

typedef void percpu_visit_fn(unsigned cpu, void *arg);

/**
 * Run a thread on each CPU from first to end - 1 in turn, and call fn there, unless it is
 * NULL. Wait for an fn that has begun. Returns and reports as percpu_fence_all(). With an fn,
 * offline CPUs are reported as unfenced, but are not an error.
 */
int percpu_visit(unsigned first, unsigned end, percpu_visit_fn *fn, void *arg, uint64_t timeout_ns,
		 struct percpu_fence_report *ret_report);

/* thread.c */

/** Undo the registration of the calling thread, which is about to end and has the struct r. */
void percpu_thread_unregister(struct percpu_thread *r);

/** Prepare registration, and fill in the rseq part of the status. Called once. */
void percpu_thread_init(struct percpu_status *st);

/** Register the calling thread, unless it is registered. It does not run sequences yet.
 *  Returns whether libc or the library has registered it. */
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

/** Return the CPU for an atomic addition, from libc's area, which costs less than a call; -1 if
 *  there is no area. If the thread is not registered, the number may be wrong. That does no
 *  harm: an atomic addition is correct in any CPU's lane. */
static inline int percpu_thread_cpu_seen(void)
{
#ifdef PERCPU_SEQ_SIGNATURE
	if (percpu_likely(percpu_libc_offset != 0))
		return __atomic_load_n(&percpu_libc_area()->cpu_id, __ATOMIC_RELAXED);
#endif
	return -1;
}

/** Note the CPU that the thread is on. The thread gives up sequences if some region has no
 *  lane for this CPU, or for another CPU that was noted. */
void percpu_thread_note_cpu(void);

/** Stop sequences, because this task and another are about to share the thread's TLS. Neither
 *  runs sequences until percpu_thread_unshare() was called as often. */
void percpu_thread_share(void);

/** Undo one call of percpu_thread_share(). */
void percpu_thread_unshare(void);

/* barrier.c */

/** Register the process for fences by membarrier(2). Returns whether the kernel has such
 *  fences. */
bool percpu_barrier_init(uint32_t *ret_commands);

/** Abort the sequences that this process has in progress on CPUs 0 to cpus - 1. Returns as
 *  percpu_fence(). */
int percpu_barrier(unsigned cpus);

/** Abort the sequences that this process has in progress on that CPU. Returns as
 *  percpu_fence(). */
int percpu_barrier_cpu(unsigned cpu);

/* selftest.c */

/** Start the self-test, unless it is running in this process. Returns 0 or -errno. Not for
 *  signal handlers. */
int percpu_selftest_start(void);

/** Wait for the threads of the self-test. Returns whether they have ended. */
bool percpu_selftest_wait(uint64_t timeout_ns);

/** Return the result of the last self-test of this process. */
enum percpu_selftest percpu_selftest_last(void);

/* status.c */

/** Find out what percpu_status() reports, unless that was done before. Start the self-test if
 *  the verdict is pending. Returns the status. Not for signal handlers. */
const struct percpu_status *percpu_init(void);

/** Return the tier if percpu_init() is done, otherwise PERCPU_TIER_SHARED. This is for slow
 *  paths, which may run in signal handlers and must not initialize. */
enum percpu_tier percpu_tier(void);

/** Whether PERCPU_TIER=shared is set. Constant once percpu_init() is done. */
extern bool percpu_tier_is_shared;

/* fence.c */

/** Fence as percpu_fence_all(), but only CPUs 0 to end - 1. If the machine can have fewer CPUs,
 *  fence fewer; if it certainly has more, fence more. */
int percpu_fence_below(uint32_t end, uint64_t timeout_ns, struct percpu_fence_report *ret_report);

#endif
