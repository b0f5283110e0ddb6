/* SPDX-License-Identifier: MIT */
/*
 * status.c - the tier of the process: found out once, on first use.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "internal.h"

static struct percpu_status status;
static char reason[160];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int ready; /* atomic: status is complete */

/* Atomic: how many CPUs have a lane in every region that the process counts in. */
static uint32_t lanes_everywhere = PERCPU_MAX_CPUS;

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

/* The fastest tier the environment allows. */
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

/* Why there can be no sequences, or NULL if there can. */
static const char *why_not_rseq(void)
{
#ifndef PERCPU_SEQ_SIGNATURE
	return "this build has no restartable sequences (generic backend)";
#endif
	status.owner = percpu_thread_register();
	if (status.owner == PERCPU_OWNER_NONE)
		return status.rseq_size != 0 ?
			       "libc has an rseq area, but the kernel does not confirm it" :
			       "libc registers no rseq area and the kernel refuses one";
	status.selftest = percpu_selftest();
	if (status.selftest == PERCPU_SELFTEST_FAILED)
		return "this kernel does not abort sequences that are preempted";
	if (status.selftest == PERCPU_SELFTEST_INCONCLUSIVE)
		return "the self-test could not provoke a preemption, so aborts are unproven";
	return NULL;
}

static void choose_tier(void)
{
	bool unknown;
	enum percpu_tier limit = allowed(&unknown);
	const char *why_not = "PERCPU_TIER asks for it";

	status.tier = limit;
	if (limit == PERCPU_TIER_RSEQ) {
		why_not = why_not_rseq();
		if (why_not != NULL)
			status.tier = PERCPU_TIER_CPU;
	}
	if (status.tier < PERCPU_TIER_RSEQ)
		percpu_thread_give_up();
	if (status.tier == PERCPU_TIER_CPU && sched_getcpu() < 0) {
		status.tier = PERCPU_TIER_SHARED;
		why_not = "neither rseq nor getcpu(2) tells the CPU";
	}
	if (why_not == NULL)
		why_not = status.owner == PERCPU_OWNER_LIBC ?
				  "registered by libc, aborts proven by self-test" :
				  "registered by this library, aborts proven by self-test";
	snprintf(reason, sizeof(reason), "%s%s", why_not,
		 unknown ? " (PERCPU_TIER ignored: it is none of rseq, cpu, shared)" : "");
	status.reason = reason;
}

static void find_out(void)
{
	struct utsname u;
	int cpus = percpu_possible_cpus(NULL);

	status.possible_cpus = cpus > 0 ? cpus : PERCPU_MAX_CPUS;
	status.lanes = 2 * status.possible_cpus + 1;
	percpu_note_lanes(status.possible_cpus);
	status.fence = percpu_fence_init(&status.membarrier_cmds);
	if (uname(&u) == 0)
		snprintf(status.kernel, sizeof(status.kernel), "%s", u.release);
	percpu_thread_init(&status);
	choose_tier();
	__atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
}

const struct percpu_status *percpu_init(void)
{
	if (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
		pthread_once(&once, find_out);
	return &status;
}

const struct percpu_status *percpu_status(void)
{
	percpu_init();
	percpu_thread_look();
	return &status;
}

void percpu_note_lanes(uint32_t cpus)
{
	uint32_t now = __atomic_load_n(&lanes_everywhere, __ATOMIC_RELAXED);

	while (cpus < now && !__atomic_compare_exchange_n(&lanes_everywhere, &now, cpus, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

bool percpu_note_cpus(uint32_t cpus)
{
	if (cpus > __atomic_load_n(&lanes_everywhere, __ATOMIC_RELAXED))
		__atomic_store_n(&status.cpu_without_lane, true, __ATOMIC_RELAXED);
	return __atomic_load_n(&status.cpu_without_lane, __ATOMIC_RELAXED);
}

enum percpu_tier percpu_tier(void)
{
	return __atomic_load_n(&ready, __ATOMIC_ACQUIRE) ? status.tier : PERCPU_TIER_SHARED;
}

enum percpu_tier percpu_thread_tier(void)
{
	enum percpu_tier tier = percpu_tier();

	if (tier == PERCPU_TIER_RSEQ && percpu_seq_attach()->cpu_id < 0)
		return PERCPU_TIER_CPU;
	return tier;
}
