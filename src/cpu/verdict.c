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
 * Atomic, and so is the pointer: NULL before the first fork without a verdict. */
static uint32_t *family;

void percpu_verdict_init(bool possible)
{
	__atomic_store_n(&percpu_verdict_word,
			 possible ? PERCPU_SELFTEST_PENDING : PERCPU_SELFTEST_SKIPPED,
			 __ATOMIC_RELEASE);
}

/* The first verdict stays. Returns the one that does. */
static uint32_t settle(uint32_t found)
{
	uint32_t seen = PERCPU_SELFTEST_PENDING;

	return __atomic_compare_exchange_n(&percpu_verdict_word, &seen, found, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE) ?
		       found :
		       seen;
}

uint32_t percpu_verdict_ask_family(void)
{
	const uint32_t *page = __atomic_load_n(&family, __ATOMIC_ACQUIRE);
	uint32_t found = PERCPU_SELFTEST_PENDING;

	if (page != NULL)
		found = __atomic_load_n(page, __ATOMIC_RELAXED);
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

static void tell_family(uint32_t found)
{
	uint32_t *page = __atomic_load_n(&family, __ATOMIC_SEQ_CST);
	uint32_t pending = PERCPU_SELFTEST_PENDING;

	if (page != NULL && (found == PERCPU_SELFTEST_PASSED || found == PERCPU_SELFTEST_FAILED))
		__atomic_compare_exchange_n(page, &pending, found, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

/* What is found is the verdict at once, if there is none. That nothing could be
 * found may be due to what this process is forbidden. */
void percpu_verdict_announce(enum percpu_selftest found)
{
	if (settle(found) == found)
		tell_family(found);
}

/* The verdict may come meanwhile: either who announces it sees the page, or it is seen
 * here, where all that takes part is sequentially consistent. */
void percpu_verdict_share(void)
{
	uint32_t *none = NULL, *page;

	if (percpu_verdict() != PERCPU_SELFTEST_PENDING ||
	    __atomic_load_n(&family, __ATOMIC_RELAXED) != NULL)
		return;
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return;
	__atomic_store_n(page, PERCPU_SELFTEST_PENDING, __ATOMIC_RELAXED);
	if (!__atomic_compare_exchange_n(&family, &none, page, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		munmap(page, sizeof(*page)); /* two threads fork at once */
	tell_family(__atomic_load_n(&percpu_verdict_word, __ATOMIC_SEQ_CST));
}
