/* SPDX-License-Identifier: MIT */
/*
 * selftest.c - does this kernel abort a sequence that is preempted on its CPU?
 *
 * Some do not (arm64, 6.19 to 7.0.13), and no version string tells. So one
 * thread, the spinner, sits in a sequence and waits for a flag, and another,
 * the intruder, pinned to the same CPU, sets it. The intruder can run there
 * only by preempting the spinner, so if the spinner sees the flag from within
 * its sequence, it was preempted and not aborted.
 *
 * Both are threads of their own, so that it works the same when the caller has
 * a real-time policy, and does not change the caller's affinity.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>

#include "internal.h"

#define ATTEMPTS 10
#define ATTEMPT_NS 100000000
#define NAP_NS 50000 /* of the intruder, doubled with each attempt */
#define SPIN_TRIES 20000

struct attempt {
	int cpu;	/* where both run */
	long nap;	/* how long the intruder sleeps, in ns */
	uint32_t ready; /* atomic: the intruder is there and about to sleep */
	uint32_t flag;	/* atomic: it has run there again */
};

#ifdef PERCPU_SEQ_SIGNATURE

/* It sleeps first, because a thread that wakes up preempts another at once,
 * while one that is merely moved to a CPU waits for its turn there. On a busy
 * machine the spinner may not be back in time, so each nap is longer. */
static void *intruder(void *arg)
{
	struct attempt *a = arg;
	struct timespec nap = { .tv_nsec = a->nap };
	bool pinned = percpu_pin(0, a->cpu) == 0;

	__atomic_store_n(&a->ready, 1, __ATOMIC_RELEASE);
	nanosleep(&nap, NULL);
	if (pinned)
		__atomic_store_n(&a->flag, 1, __ATOMIC_RELEASE);
	return NULL;
}

static enum percpu_selftest attempt(int cpu, long nap)
{
	struct attempt a = { .cpu = cpu, .nap = nap };
	enum percpu_selftest result = PERCPU_SELFTEST_INCONCLUSIVE;
	uint64_t deadline = percpu_now_ns() + ATTEMPT_NS;
	pthread_t thread;
	int r;

	if (percpu_thread_start(&thread, true, intruder, &a) != 0)
		return result;
	while (!__atomic_load_n(&a.ready, __ATOMIC_ACQUIRE) && percpu_now_ns() < deadline)
		sched_yield();
	/* Set outside of a sequence, the flag says nothing: another attempt.
	 * Between the look here and the sequence is time enough to be
	 * preempted, so the sequence looks again first, and then refuses. */
	while (result == PERCPU_SELFTEST_INCONCLUSIVE && percpu_now_ns() < deadline &&
	       !__atomic_load_n(&a.flag, __ATOMIC_ACQUIRE)) {
		r = percpu_seq_spin(&a.flag, SPIN_TRIES);
		/* Moved by somebody, it was beside the intruder, not preempted. */
		if (percpu_seq_cpu() != cpu)
			break;
		if (r == 0)
			result = PERCPU_SELFTEST_FAILED;
		else if (r == PERCPU_SEQ_SLOW && __atomic_load_n(&a.flag, __ATOMIC_ACQUIRE))
			result = PERCPU_SELFTEST_PASSED;
	}
	pthread_join(thread, NULL);
	return result;
}

static void *spinner(void *arg)
{
	enum percpu_selftest *result = arg;
	int cpu;

	if (percpu_thread_register() == PERCPU_OWNER_NONE)
		return NULL;
	cpu = percpu_seq_cpu();
	if (percpu_pin(0, cpu) != 0)
		return NULL;
	for (int i = 0; i < ATTEMPTS && *result == PERCPU_SELFTEST_INCONCLUSIVE; i++)
		*result = attempt(cpu, (long)NAP_NS << i);
	return NULL;
}

enum percpu_selftest percpu_selftest(void)
{
	enum percpu_selftest result = PERCPU_SELFTEST_INCONCLUSIVE;
	pthread_t thread;

	if (percpu_seq_cpu() < 0 && percpu_thread_tier() != PERCPU_TIER_RSEQ)
		return PERCPU_SELFTEST_SKIPPED;
	if (percpu_thread_start(&thread, true, spinner, &result) == 0)
		pthread_join(thread, NULL);
	return result;
}

#else

enum percpu_selftest percpu_selftest(void)
{
	return PERCPU_SELFTEST_SKIPPED;
}

#endif
