/* SPDX-License-Identifier: MIT */
/*
 * status.c - the tier of the process. First use finds out everything except the verdict, and
 * starts the self-test for that.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "cpu.h"

#define PATIENCE_NS (10 * PERCPU_SECOND) /* longest wait of percpu_selftest() */

/* The status for each verdict. There is one for each, so that a returned status does not change. */
static struct percpu_status outcomes[PERCPU_SELFTEST_UNKNOWN + 1];
static char reasons[PERCPU_SELFTEST_PENDING + 1][160];
static pthread_once_t once = PTHREAD_ONCE_INIT;
bool percpu_tier_is_shared;

const char *percpu_tier_name(enum percpu_tier tier)
{
	switch (tier) {
	case PERCPU_TIER_RSEQ:
		return "rseq";
	case PERCPU_TIER_CPU:
		return "cpu";
	case PERCPU_TIER_SHARED:
		break;
	}
	return "shared";
}

/* Return the fastest tier that the environment variable allows. */
static enum percpu_tier allowed(bool *ret_unknown)
{
	const char *name = secure_getenv("PERCPU_TIER");

	*ret_unknown = false;
	for (int t = PERCPU_TIER_SHARED; name != NULL && t <= PERCPU_TIER_RSEQ; t++)
		if (strcmp(name, percpu_tier_name((enum percpu_tier)t)) == 0)
			return (enum percpu_tier)t;
	*ret_unknown = name != NULL && *name != '\0';
	return PERCPU_TIER_RSEQ;
}

/* Return why there can be no sequences, or NULL if there can. */
static const char *why_not_rseq(struct percpu_status *st)
{
#ifndef PERCPU_SEQ_SIGNATURE
	return "this build has no restartable sequences (generic backend)";
#endif
	if (!percpu_thread_key_init(percpu_thread_unregister))
		return "no thread-specific key is left whose values need no memory";
	st->registrar = percpu_thread_register();
	if (st->registrar != PERCPU_REGISTRAR_NONE)
		return NULL;
	return st->rseq_size != 0 ? "libc has an rseq area, but the kernel does not confirm it" :
				    "libc registers no rseq area and the kernel refuses one";
}

static const char *why(const struct percpu_status *st, enum percpu_selftest verdict)
{
	if (verdict == PERCPU_SELFTEST_PASSED)
		return st->registrar == PERCPU_REGISTRAR_LIBC ?
			       "registered by libc, aborts proven by self-test" :
			       "registered by this library, aborts proven by self-test";
	if (verdict == PERCPU_SELFTEST_FAILED)
		return "this kernel does not abort sequences that are preempted";
	if (verdict == PERCPU_SELFTEST_PENDING)
		return "the self-test has not come to its end, so aborts are unproven yet";
	return "the self-test may not choose its CPU, so aborts are unproven";
}

/* Fill in the status for a verdict: copy st, and set the tier, the reason and what depends on the
 * tier. Without the verdict "passed" the tier is cpu or shared. */
static void complete(enum percpu_selftest verdict, const struct percpu_status *st,
		     const char *reason, bool unknown)
{
	struct percpu_status *o = &outcomes[verdict];

	*o = *st;
	o->selftest = verdict;
	if (verdict == PERCPU_SELFTEST_PASSED) {
		o->tier = PERCPU_TIER_RSEQ;
	} else if (o->tier > PERCPU_TIER_SHARED) {
		o->tier = PERCPU_TIER_CPU;
		if (sched_getcpu() < 0) {
			o->tier = PERCPU_TIER_SHARED;
			reason = "neither rseq nor getcpu(2) tells the CPU";
		}
	}
	o->commit_words = o->tier == PERCPU_TIER_RSEQ ? percpu_vector_words() : 1;
	o->reason = reason;
	if (unknown) {
		snprintf(reasons[verdict], sizeof(reasons[verdict]),
			 "%s (PERCPU_TIER ignored: it is none of rseq, cpu, shared)", reason);
		o->reason = reasons[verdict];
	}
}

static void choose_tier(struct percpu_status *st)
{
	const char *why_not = "PERCPU_TIER asks for it";
	bool unknown;

	st->tier = allowed(&unknown);
	percpu_tier_is_shared = st->tier == PERCPU_TIER_SHARED;
	if (st->tier == PERCPU_TIER_RSEQ)
		why_not = why_not_rseq(st);
	if (why_not != NULL) {
		complete(PERCPU_SELFTEST_SKIPPED, st, why_not, unknown);
		percpu_verdict_init(false);
		return;
	}
	for (int v = PERCPU_SELFTEST_PASSED; v <= PERCPU_SELFTEST_PENDING; v++)
		complete((enum percpu_selftest)v, st, why(st, (enum percpu_selftest)v), unknown);
	percpu_verdict_init(true);
}

static void find_out(void)
{
	/* The process may have opened a region before, and noted its lanes. */
	struct percpu_status st = { .cpu_without_lane = percpu_note_cpus(0) };
	int cpus = percpu_known_cpus();
	struct utsname u;

	st.possible_cpus = cpus > 0 ? cpus : PERCPU_MAX_CPUS;
	st.lanes = 2 * st.possible_cpus + 1;
	percpu_note_lanes(st.possible_cpus);
	st.fence = percpu_barrier_init(&st.membarrier_cmds);
	st.robust = percpu_robust_supported();
	if (uname(&u) == 0)
		memcpy(st.kernel, u.release, strnlen(u.release, sizeof(st.kernel) - 1));
	percpu_thread_init(&st);
	percpu_helper_init();
	choose_tier(&st);
}

const struct percpu_status *percpu_init(void)
{
	uint32_t verdict = percpu_verdict();

	if (verdict == PERCPU_SELFTEST_UNKNOWN) {
		pthread_once(&once, find_out);
		verdict = percpu_verdict();
	}
	/* Start it again in a child of fork, and if no thread could be started before. */
	if (verdict == PERCPU_SELFTEST_PENDING)
		(void)percpu_selftest_start();
	return &outcomes[verdict];
}

const struct percpu_status *percpu_status(void)
{
	const struct percpu_status *now = percpu_init();

	percpu_thread_note_cpu();
	if (percpu_note_cpus(0))
		for (int v = 0; v <= PERCPU_SELFTEST_UNKNOWN; v++)
			__atomic_store_n(&outcomes[v].cpu_without_lane, true, __ATOMIC_RELAXED);
	return now;
}

enum percpu_selftest percpu_selftest(void)
{
	(void)percpu_init();
	if (percpu_verdict() == PERCPU_SELFTEST_SKIPPED)
		return PERCPU_SELFTEST_SKIPPED;
	if (percpu_selftest_start() != 0 || !percpu_selftest_wait(PATIENCE_NS))
		return PERCPU_SELFTEST_INCONCLUSIVE;
	return percpu_selftest_last();
}

int percpu_version(void)
{
	return PERCPU_VERSION;
}

enum percpu_tier percpu_tier(void)
{
	return outcomes[percpu_verdict()].tier;
}

enum percpu_tier percpu_thread_tier(void)
{
	enum percpu_tier tier = percpu_tier();

	if (tier == PERCPU_TIER_RSEQ && percpu_seq_attach()->cpu_id < 0)
		return PERCPU_TIER_CPU;
	return tier;
}
