/* SPDX-License-Identifier: MIT */
/* first_use.h - the state of a process before its self-test has a verdict, and after it. */
#ifndef TESTS_UNIT_FIRST_USE_H
#define TESTS_UNIT_FIRST_USE_H

#include <string.h>

#include <percpu/percpu.h>
#include <percpu/seq.h>

#include "support.h"
#include "hold.h"

#define SECOND UINT64_C(1000000000)

static inline bool is_pending(void)
{
	const struct percpu_status *s = percpu_status();

	return s->selftest == PERCPU_SELFTEST_PENDING && s->tier == PERCPU_TIER_CPU &&
	       strlen(s->reason) > 0 && percpu_thread_tier() == PERCPU_TIER_CPU &&
	       percpu_seq_attach()->cpu_id < 0;
}

static inline bool has_risen(void)
{
	return percpu_status()->tier == PERCPU_TIER_RSEQ && percpu_seq_attach()->cpu_id >= 0 &&
	       percpu_thread_tier() == PERCPU_TIER_RSEQ;
}

#endif
