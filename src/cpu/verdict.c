/* SPDX-License-Identifier: MIT */
/*
 * verdict.c - what the process goes by: does this kernel abort sequences?
 *
 * selftest.c finds out. What it found is set once, for good.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "cpu.h"

/* The process's verdict. Once it is pending it is changed by read-modify-write alone. */
uint32_t percpu_verdict_word = PERCPU_SELFTEST_UNKNOWN;

/* A copy that children of fork share: a child that only counts starts no thread,
 * and its parent may have the proof soon. It is looked at only while there is no
 * verdict, for another process, which may be an enemy by now, can change it.
 * Atomic; the pointer, NULL if there is none, is constant from "pending" on. */
static uint32_t *family;

void percpu_verdict_init(bool possible)
{
	void *page;

	if (!possible) {
		__atomic_store_n(&percpu_verdict_word, PERCPU_SELFTEST_SKIPPED, __ATOMIC_RELEASE);
		return;
	}
	page = mmap(NULL, sizeof(*family), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	if (page != MAP_FAILED) {
		family = page;
		__atomic_store_n(family, PERCPU_SELFTEST_PENDING, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&percpu_verdict_word, PERCPU_SELFTEST_PENDING, __ATOMIC_RELEASE);
}

/* The first verdict stays. Returns the one that does. */
static uint32_t settle(uint32_t found)
{
	uint32_t seen = PERCPU_SELFTEST_PENDING;

	return __atomic_compare_exchange_n(&percpu_verdict_word, &seen, found, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ?
		       found :
		       seen;
}

uint32_t percpu_verdict_ask_family(void)
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
	uint32_t found = percpu_verdict();

	if (found == PERCPU_SELFTEST_PENDING)
		found = settle(PERCPU_SELFTEST_PENDING);
	return found == PERCPU_SELFTEST_PASSED;
}

/* What is found is the verdict at once, if there is none. That nothing could be
 * found may be due to what this process is forbidden. */
void percpu_verdict_announce(enum percpu_selftest found)
{
	uint32_t pending = PERCPU_SELFTEST_PENDING;

	if (settle(found) == found && found != PERCPU_SELFTEST_INCONCLUSIVE && family != NULL)
		__atomic_compare_exchange_n(family, &pending, found, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}
