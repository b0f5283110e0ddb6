/* SPDX-License-Identifier: MIT */
/*
 * selftest.c - find out whether this kernel aborts a sequence that is preempted on its CPU.
 *
 * Some kernels do not (arm64, 6.19 to 7.0.13), and the version string does not tell. So one
 * thread, the spinner, loops in a sequence until a flag is set. Another thread on the same
 * CPU, the intruder, sleeps and then sets the flag. The intruder can run there only by
 * preempting the spinner. So if the spinner sees the flag from within its sequence, it was
 * preempted and not aborted.
 *
 * If the spinner is preempted and aborted, the kernel works, whichever thread preempted it:
 * on a busy machine that may be another thread than the intruder.
 *
 * The program does not wait for the two threads. Until there is a verdict the process is on
 * tier cpu, which is exact, too. Then each thread rises on its next slow path.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"
#include "mutex.h"

#define FORK_NS (PERCPU_SECOND / 50)   /* longest wait of the first fork for a verdict */
#define PASSING_NS (PERCPU_SECOND / 5) /* longest wait of a fork for threads to begin or exit */
#define PASSING_LOOK_NS 50000	       /* time between two looks at these threads */
#define THREAD_STARTED (-1)

static uint32_t running;    /* atomic, futex: threads of the self-test in this process */
static uint32_t last_found; /* atomic: what the last self-test of this process found */

/* The state of each of the two threads: THREAD_STARTED until it runs; 0 while it runs; its id once
 * it exits. A thread that begins or exits may hold locks of a sanitizer or of an allocator, which
 * would stay locked in a child. Atomic. */
static pid_t passing[2];

static pthread_mutex_t exit_lock = PTHREAD_MUTEX_INITIALIZER; /* a fork delays exits by it */

/* Forget the threads of the parent's self-test, which a child of fork does not have. */
static void selftest_forget_threads(void)
{
	__atomic_store_n(&running, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		__atomic_store_n(&passing[i], 0, __ATOMIC_RELAXED);
}

#ifdef PERCPU_SEQ_SIGNATURE

#define ATTEMPTS 4	/* most attempts if there is a verdict already */
#define NAP_NS 50000	/* the intruder's first sleep; each is twice the last */
#define REST_NS 1000000 /* the first wait between attempts; each is twice the last */
#define MAX_REST_NS (2 * PERCPU_SECOND)
#define SPIN_TRIES 20000
#define SPINS 1000    /* most sequences of an attempt */
#define SPIN_US 30000 /* most CPU time of an attempt: some turns of the scheduler */
#define END UINT32_MAX

/* The data that the two threads share. It is static because it must outlive the call that starts
 * them. */
static struct {
	uint32_t number; /* atomic, futex: the attempt that the intruder has begun, or END */
	uint32_t over;	 /* atomic, futex: the last attempt that the spinner has ended */
	int cpu;	 /* where both run during an attempt */
	uint32_t flag;	 /* atomic: the intruder has run on that CPU */
	enum percpu_selftest found; /* the spinner's result; pending: none */
} attempt;

static long used_us(const struct rusage *u)
{
	return (u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000 + u->ru_utime.tv_usec +
	       u->ru_stime.tv_usec;
}

/* Run one attempt of the spinner. An abort proves something only if the thread was preempted,
 * because membarrier(2) of another library also aborts a sequence. So this looks at the context
 * switches. A signal also aborts a sequence, but the thread blocks all signals. */
static enum percpu_selftest spin(void)
{
	struct rusage before = { 0 }, now;
	bool preempted;
	long end;
	int r;

	(void)getrusage(RUSAGE_THREAD, &before);
	now = before;
	end = used_us(&before) + SPIN_US;
	for (int i = 0; i < SPINS && used_us(&now) < end; i++, before = now) {
		/* A flag that is set before the sequence starts proves nothing. The
		 * sequence looks at it first, and refuses. */
		__atomic_store_n(&attempt.flag, 0, __ATOMIC_RELAXED);
		PERCPU_STEP("selftest: spinner in place");
		r = percpu_seq_spin(&attempt.flag, SPIN_TRIES);
		/* If another process moved the spinner, the two ran side by side. */
		if (percpu_seq_cpu() != attempt.cpu)
			break;
		if (r == 0)
			return PERCPU_SELFTEST_FAILED;
		(void)getrusage(RUSAGE_THREAD, &now); /* if forbidden, only the flag counts */
		preempted = now.ru_nivcsw != before.ru_nivcsw ||
			    __atomic_load_n(&attempt.flag, __ATOMIC_RELAXED);
		if (r == PERCPU_SEQ_SLOW && preempted)
			return PERCPU_SELFTEST_PASSED;
	}
	return PERCPU_SELFTEST_PENDING;
}

static void begin_thread(int i)
{
	PERCPU_STEP("selftest: thread begins");
	__atomic_store_n(&passing[i], 0, __ATOMIC_RELEASE);
}

/* Note that a thread has ended. The thread itself calls this, or the thread that could not start
 * it. */
static void end_thread(int i, pid_t thread)
{
	__atomic_store_n(&passing[i], thread, __ATOMIC_RELAXED);
	if (__atomic_sub_fetch(&running, 1, __ATOMIC_ACQ_REL) == 0)
		percpu_futex_wake(&running);
}

static void exit_thread(int i)
{
	percpu_mutex_lock(&exit_lock);
	end_thread(i, (pid_t)syscall(SYS_gettid));
	percpu_mutex_unlock(&exit_lock);
	PERCPU_STEP("selftest: thread exits");
}

static void begin(uint32_t number)
{
	__atomic_store_n(&attempt.number, number, __ATOMIC_RELEASE);
	percpu_futex_wake(&attempt.number);
}

static void *spinner(void *arg)
{
	bool registered = percpu_thread_register() != PERCPU_REGISTRAR_NONE;
	uint32_t number, last = 0;

	(void)arg;
	begin_thread(0);
	if (registered)
		percpu_thread_attach();
	while ((number = __atomic_load_n(&attempt.number, __ATOMIC_ACQUIRE)) != END) {
		if (number == last) {
			percpu_futex_wait(&attempt.number, last, 0);
			continue;
		}
		last = number;
		attempt.found = PERCPU_SELFTEST_PENDING;
		if (registered && percpu_pin(0, (unsigned)attempt.cpu) == 0)
			attempt.found = spin();
		if (attempt.found != PERCPU_SELFTEST_PENDING)
			percpu_verdict_announce(attempt.found);
		__atomic_store_n(&attempt.over, number, __ATOMIC_RELEASE);
		percpu_futex_wake(&attempt.over);
	}
	exit_thread(0);
	return NULL;
}

/* Run one attempt of the intruder. A thread that wakes up preempts another thread at once. A
 * thread that is only moved to a CPU waits for its turn there. So the spinner moves to the
 * intruder's CPU, runs as soon as the intruder sleeps, and is preempted when the intruder wakes
 * up. Returns the spinner's result, or inconclusive. */
static enum percpu_selftest intrude(uint32_t number)
{
	int e;

	attempt.cpu = sched_getcpu();
	e = attempt.cpu >= 0 ? percpu_pin(0, (unsigned)attempt.cpu) : -ENOSYS;
	if (e != 0) /* -EINVAL: the process may no longer use this CPU; else forbidden */
		return e == -EINVAL ? PERCPU_SELFTEST_PENDING : PERCPU_SELFTEST_INCONCLUSIVE;
	begin(number);
	PERCPU_STEP("selftest: intruder to sleep");
	for (uint64_t ns = NAP_NS; __atomic_load_n(&attempt.over, __ATOMIC_ACQUIRE) != number;
	     ns *= 2) {
		percpu_futex_wait(&attempt.over, number - 1, ns);
		/* If another process moved the intruder, the two run side by side. */
		if (sched_getcpu() == attempt.cpu)
			__atomic_store_n(&attempt.flag, 1, __ATOMIC_RELAXED);
	}
	return attempt.found;
}

static void *intruder(void *arg)
{
	cpu_set_t allowed[PERCPU_MAX_CPUS / CPU_SETSIZE];
	enum percpu_selftest found = PERCPU_SELFTEST_PENDING;
	uint64_t ns = REST_NS;

	(void)arg;
	begin_thread(1);
	if (sched_getaffinity(0, sizeof(allowed), allowed) != 0)
		found = PERCPU_SELFTEST_INCONCLUSIVE;
	for (uint32_t i = 1; found == PERCPU_SELFTEST_PENDING; i++) {
		found = intrude(i);
		if (found != PERCPU_SELFTEST_PENDING)
			break;
		if (i >= ATTEMPTS && percpu_verdict() != PERCPU_SELFTEST_PENDING)
			found = PERCPU_SELFTEST_INCONCLUSIVE;
		(void)sched_setaffinity(0, sizeof(allowed), allowed);
		percpu_futex_wait(&attempt.over, i, ns);
		ns = ns < MAX_REST_NS ? 2 * ns : ns;
	}
	percpu_verdict_announce(found);
	__atomic_store_n(&last_found, found, __ATOMIC_RELAXED);
	begin(END);
	exit_thread(1);
	return NULL;
}

/* Start both threads. The spinner is first: without an intruder it waits, and can be told to end.
 * The caller starts both, because a helper should not allocate memory. */
static int start_both(void)
{
	pthread_t thread;
	int e = percpu_helper_start(&thread, true, spinner, NULL);

	if (e != 0) {
		end_thread(0, 0);
		end_thread(1, 0);
		return e;
	}
	pthread_detach(thread);
	e = percpu_helper_start(&thread, true, intruder, NULL);
	if (e == 0) {
		pthread_detach(thread);
	} else {
		begin(END);
		end_thread(1, 0);
	}
	return e;
}

int percpu_selftest_start(void)
{
	uint32_t none = 0;

	if (!__atomic_compare_exchange_n(&running, &none, 2, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return 0;
	attempt.number = 0;
	attempt.over = 0;
	for (int i = 0; i < 2; i++)
		__atomic_store_n(&passing[i], THREAD_STARTED, __ATOMIC_RELAXED);
	return start_both();
}

#else

int percpu_selftest_start(void)
{
	return -ENOTSUP;
}

#endif

bool percpu_selftest_wait(uint64_t timeout_ns)
{
	uint64_t deadline = percpu_now_ns() + timeout_ns, now;
	uint32_t threads;

	while ((threads = __atomic_load_n(&running, __ATOMIC_ACQUIRE)) != 0) {
		now = percpu_now_ns();
		if (now >= deadline)
			return false;
		percpu_futex_wait(&running, threads, deadline - now);
	}
	return true;
}

static bool is_passing(pid_t *thread)
{
	pid_t tid = __atomic_load_n(thread, __ATOMIC_ACQUIRE);

	if (tid == THREAD_STARTED || (tid != 0 && syscall(SYS_tgkill, getpid(), tid, 0) == 0))
		return true;
	/* The thread is gone. But a thread of a new self-test may just have been started. */
	if (tid != 0)
		__atomic_compare_exchange_n(thread, &tid, 0, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	return false;
}

/*
 * Before a fork, wait for the self-test. A program that becomes a daemon creates its counters,
 * forks, and exits. The child only counts, so it must not start a thread, and would stay
 * without a verdict. So the first fork waits as long as the self-test takes on a machine that
 * is not busy. A child that is forked earlier takes the verdict that its parent finds later.
 */
static void selftest_before_fork(void)
{
	static bool waited; /* atomic */
	uint32_t nothing = 0;
	uint64_t deadline;

	if (percpu_verdict() == PERCPU_SELFTEST_PENDING &&
	    !__atomic_exchange_n(&waited, true, __ATOMIC_RELAXED))
		(void)percpu_selftest_wait(FORK_NS);
	percpu_mutex_lock(&exit_lock);
	deadline = percpu_now_ns() + PASSING_NS;
	for (int i = 0; i < 2; i++)
		while (is_passing(&passing[i]) && percpu_now_ns() < deadline)
			percpu_futex_sleep(&nothing, FUTEX_WAIT_PRIVATE, 0, PASSING_LOOK_NS);
	percpu_verdict_share();
}

static void selftest_after_fork(void)
{
	percpu_mutex_unlock(&exit_lock);
}

__attribute__((constructor)) static void selftest_join_forks(void)
{
	static const struct percpu_fork_part part = {
		.before = selftest_before_fork,
		.after = selftest_after_fork,
		.in_child = selftest_forget_threads,
	};

	percpu_fork_register(PERCPU_FORK_SELFTEST, &part);
}

enum percpu_selftest percpu_selftest_last(void)
{
	return (enum percpu_selftest)__atomic_load_n(&last_found, __ATOMIC_RELAXED);
}
