/* SPDX-License-Identifier: MIT */
/*
 * selftest.c - does this kernel abort a sequence that is preempted on its CPU?
 *
 * Some do not (arm64, 6.19 to 7.0.13), and no version string tells. So one
 * thread, the spinner, sits in a sequence and waits for a flag, and another,
 * the intruder, which shares its CPU, sleeps and then sets it. The intruder can
 * run there only by preempting the spinner, so if the spinner sees the flag
 * from within its sequence, it was preempted and not aborted.
 *
 * That it is aborted proves the opposite, whoever has preempted it: on a busy
 * machine the intruder may not get its turn for long, but somebody else does.
 *
 * Nobody waits for the two. Until there is a verdict the process is on tier
 * cpu, where it is exact as well; its threads rise on their next slow path.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "internal.h"

#define PATIENCE_NS (10 * PERCPU_SECOND) /* of a caller of percpu_selftest() */
#define FORK_NS (PERCPU_SECOND / 50)	 /* of the first fork */

/* The process's verdict. Once it is pending it is changed by read-modify-write alone. */
uint32_t percpu_selftest_word = PERCPU_SELFTEST_UNKNOWN;

/* A copy that children of fork share: a child that only counts starts no thread,
 * and its parent may have the proof soon. It is looked at only while there is no
 * verdict, for another process, which may be an enemy by now, can change it.
 * Atomic; the pointer, NULL if there is none, is constant from "pending" on. */
static uint32_t *family;

static uint32_t running;    /* atomic, futex: threads of this process that are at it */
static uint32_t last_found; /* atomic: by threads of this process that have ended */

void percpu_selftest_init(bool possible)
{
	void *page;

	if (!possible) {
		__atomic_store_n(&percpu_selftest_word, PERCPU_SELFTEST_SKIPPED, __ATOMIC_RELEASE);
		return;
	}
	page = mmap(NULL, sizeof(*family), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	if (page != MAP_FAILED) {
		family = page;
		__atomic_store_n(family, PERCPU_SELFTEST_PENDING, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&percpu_selftest_word, PERCPU_SELFTEST_PENDING, __ATOMIC_RELEASE);
}

void percpu_selftest_in_child(void)
{
	__atomic_store_n(&running, 0, __ATOMIC_RELAXED);
}

/* The first verdict stays. Returns the one that does. */
static uint32_t settle(uint32_t found)
{
	uint32_t seen = PERCPU_SELFTEST_PENDING;

	return __atomic_compare_exchange_n(&percpu_selftest_word, &seen, found, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ?
		       found :
		       seen;
}

uint32_t percpu_selftest_ask_family(void)
{
	uint32_t found = PERCPU_SELFTEST_PENDING;

	if (family != NULL)
		found = __atomic_load_n(family, __ATOMIC_RELAXED);
	if (found != PERCPU_SELFTEST_PASSED && found != PERCPU_SELFTEST_FAILED)
		return PERCPU_SELFTEST_PENDING;
	return settle(found);
}

/*
 * "Pending" is exchanged for itself, so that this look and the verdict have an
 * order. If the look comes first, the verdict carries on its release, and a
 * thread that rises, which has acquired the verdict, sees what the caller had
 * stored: a guard, or the bank that counts. If the verdict comes first, the
 * caller sees it, and fences.
 */
bool percpu_sequences_may_run(void)
{
	uint32_t found = percpu_selftest_verdict();

	if (found == PERCPU_SELFTEST_PENDING)
		found = settle(PERCPU_SELFTEST_PENDING);
	return found == PERCPU_SELFTEST_PASSED;
}

#ifdef PERCPU_SEQ_SIGNATURE

#define ATTEMPTS 4	/* where there is a verdict already */
#define NAP_NS 50000	/* of the intruder at first, then longer and longer */
#define REST_NS 1000000 /* between attempts, likewise */
#define MAX_REST_NS (2 * PERCPU_SECOND)
#define SPIN_TRIES 20000
#define SPINS 1000    /* of an attempt at most */
#define SPIN_US 30000 /* CPU time of an attempt: some turns of the scheduler */
#define END UINT32_MAX

/* What the two share; static, because nobody waits for them. Both are started
 * by the caller, for starting a thread allocates memory. */
static struct {
	uint32_t number; /* atomic, futex: of the attempt that the intruder has begun; END */
	uint32_t over;	 /* atomic, futex: of the last that the spinner is through with */
	int cpu;	 /* where both are then */
	uint32_t flag;	 /* atomic: the intruder has run there */
	enum percpu_selftest found; /* by the spinner; pending: nothing */
} attempt;

static long used_us(const struct rusage *u)
{
	return (u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000 + u->ru_utime.tv_usec +
	       u->ru_stime.tv_usec;
}

/* A signal would abort a sequence as well, but all are blocked; and so would
 * another library's membarrier(2), but then the thread was not preempted. */
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
		/* Set before the sequence starts, the flag says nothing. Should that
		 * happen after this, the sequence sees it first, and refuses. */
		__atomic_store_n(&attempt.flag, 0, __ATOMIC_RELAXED);
		PERCPU_STEP("selftest: spinner in place");
		r = percpu_seq_spin(&attempt.flag, SPIN_TRIES);
		/* Moved by somebody, it was beside the intruder, not preempted. */
		if (percpu_seq_cpu() != attempt.cpu)
			break;
		if (r == 0)
			return PERCPU_SELFTEST_FAILED;
		(void)getrusage(RUSAGE_THREAD, &now); /* forbidden, it changes nothing */
		preempted = now.ru_nivcsw != before.ru_nivcsw ||
			    __atomic_load_n(&attempt.flag, __ATOMIC_RELAXED);
		if (r == PERCPU_SEQ_SLOW && preempted)
			return PERCPU_SELFTEST_PASSED;
	}
	return PERCPU_SELFTEST_PENDING;
}

/* What is found is the verdict at once, if there is none. That nothing could be
 * found may be due to what this process is forbidden. */
static void announce(enum percpu_selftest found)
{
	uint32_t pending = PERCPU_SELFTEST_PENDING;

	if (settle(found) == (uint32_t)found && found != PERCPU_SELFTEST_INCONCLUSIVE &&
	    family != NULL)
		__atomic_compare_exchange_n(family, &pending, found, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

static void end_thread(void)
{
	if (__atomic_sub_fetch(&running, 1, __ATOMIC_ACQ_REL) == 0)
		percpu_futex_wake(&running);
}

static void begin(uint32_t number)
{
	__atomic_store_n(&attempt.number, number, __ATOMIC_RELEASE);
	percpu_futex_wake(&attempt.number);
}

static void *spinner(void *arg)
{
	bool registered = percpu_thread_register() != PERCPU_OWNER_NONE;
	uint32_t number, last = 0;

	(void)arg;
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
			announce(attempt.found);
		__atomic_store_n(&attempt.over, number, __ATOMIC_RELEASE);
		percpu_futex_wake(&attempt.over);
	}
	end_thread();
	return NULL;
}

/* A thread that wakes up preempts another at once, while one that is merely
 * moved to a CPU waits for its turn there: so the spinner comes to where the
 * intruder is, runs as soon as that sleeps, and is preempted when it wakes. */
static enum percpu_selftest intrude(uint32_t number)
{
	int e;

	attempt.cpu = sched_getcpu();
	e = attempt.cpu >= 0 ? percpu_pin(0, (unsigned)attempt.cpu) : -ENOSYS;
	if (e != 0) /* forbidden; or the CPU was taken away just now */
		return e == -EINVAL ? PERCPU_SELFTEST_PENDING : PERCPU_SELFTEST_INCONCLUSIVE;
	begin(number);
	PERCPU_STEP("selftest: intruder to sleep");
	for (uint64_t ns = NAP_NS; __atomic_load_n(&attempt.over, __ATOMIC_ACQUIRE) != number;
	     ns *= 2) {
		percpu_futex_wait(&attempt.over, number - 1, ns);
		/* Moved by somebody, it would set it beside the spinner. */
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
	if (sched_getaffinity(0, sizeof(allowed), allowed) != 0)
		found = PERCPU_SELFTEST_INCONCLUSIVE;
	for (uint32_t i = 1; found == PERCPU_SELFTEST_PENDING; i++) {
		found = intrude(i);
		if (found != PERCPU_SELFTEST_PENDING)
			break;
		if (i >= ATTEMPTS && percpu_selftest_verdict() != PERCPU_SELFTEST_PENDING)
			found = PERCPU_SELFTEST_INCONCLUSIVE;
		(void)sched_setaffinity(0, sizeof(allowed), allowed);
		percpu_futex_wait(&attempt.over, i, ns);
		ns = ns < MAX_REST_NS ? 2 * ns : ns;
	}
	announce(found);
	__atomic_store_n(&last_found, found, __ATOMIC_RELAXED);
	begin(END);
	end_thread();
	return NULL;
}

/* The spinner first: alone it waits, and can be told to end. */
static int start_both(void)
{
	pthread_t thread;
	int e = percpu_thread_start(&thread, true, spinner, NULL);

	if (e != 0) {
		end_thread();
		end_thread();
		return e;
	}
	pthread_detach(thread);
	e = percpu_thread_start(&thread, true, intruder, NULL);
	if (e == 0) {
		pthread_detach(thread);
	} else {
		begin(END);
		end_thread();
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
	return start_both();
}

#else

int percpu_selftest_start(void)
{
	return -ENOTSUP;
}

#endif

/* Returns whether the threads that are at it have ended. */
static bool wait_for_threads(uint64_t timeout_ns)
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

/*
 * A program that makes itself a daemon creates what it counts in, forks, and ends.
 * The child, which only counts, may start no thread, and would have no proof. So the
 * first fork waits for it, as long as it takes on a machine that is not busy.
 */
void percpu_selftest_before_fork(void)
{
	static bool waited; /* atomic */

	if (percpu_selftest_verdict() == PERCPU_SELFTEST_PENDING &&
	    !__atomic_exchange_n(&waited, true, __ATOMIC_RELAXED))
		(void)wait_for_threads(FORK_NS);
}

enum percpu_selftest percpu_selftest(void)
{
	(void)percpu_init();
	if (percpu_selftest_verdict() == PERCPU_SELFTEST_SKIPPED)
		return PERCPU_SELFTEST_SKIPPED;
	if (percpu_selftest_start() != 0)
		return PERCPU_SELFTEST_INCONCLUSIVE;
	if (!wait_for_threads(PATIENCE_NS))
		return PERCPU_SELFTEST_INCONCLUSIVE;
	return (enum percpu_selftest)__atomic_load_n(&last_found, __ATOMIC_RELAXED);
}
