/* SPDX-License-Identifier: MIT */
/*
 * verdict.c - the verdict of the process: whether this kernel aborts sequences.
 *
 * selftest.c finds it. It is set once, for good.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "cpu.h"

/* The verdict of the process. Once it is pending, only read-modify-writes change it. */
uint32_t percpu_verdict_word = PERCPU_SELFTEST_UNKNOWN;

/* A page with a copy of the verdict that parent and children share: a child that only counts
 * starts no self-test, but its parent may soon have a verdict. A process reads the page only
 * while its own verdict is pending, because another process, which may have become hostile, can
 * change it. The pointer is NULL until a process forks while its verdict is pending. Both are
 * atomic. */
static uint32_t *shared_verdict;

void percpu_verdict_init(bool possible)
{
	__atomic_store_n(&percpu_verdict_word,
			 possible ? PERCPU_SELFTEST_PENDING : PERCPU_SELFTEST_SKIPPED,
			 __ATOMIC_RELEASE);
}

/* Set the verdict, unless there is one. Returns the verdict. */
static uint32_t set_verdict(uint32_t found)
{
	uint32_t seen = PERCPU_SELFTEST_PENDING;

	return __atomic_compare_exchange_n(&percpu_verdict_word, &seen, found, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE) ?
		       found :
		       seen;
}

uint32_t percpu_verdict_adopt(void)
{
	const uint32_t *page = __atomic_load_n(&shared_verdict, __ATOMIC_ACQUIRE);
	uint32_t found = PERCPU_SELFTEST_PENDING;

	if (page != NULL)
		found = __atomic_load_n(page, __ATOMIC_RELAXED);
	if (found != PERCPU_SELFTEST_PASSED && found != PERCPU_SELFTEST_FAILED)
		return PERCPU_SELFTEST_PENDING;
	return set_verdict(found);
}

/*
 * Exchange "pending" for itself, so that this call and the setting of the verdict have an
 * order. If this call comes first, the verdict continues the release sequence of its exchange.
 * Then a thread that rises, which acquires the verdict, sees what the caller stored before: a
 * guard, or the bank that counts. If the verdict comes first, the caller sees it, and fences.
 */
bool percpu_sequences_may_run(void)
{
	uint32_t found = percpu_verdict();

	if (found == PERCPU_SELFTEST_PENDING)
		found = set_verdict(PERCPU_SELFTEST_PENDING);
	return found == PERCPU_SELFTEST_PASSED;
}

static void share_verdict(uint32_t found)
{
	uint32_t *page = __atomic_load_n(&shared_verdict, __ATOMIC_SEQ_CST);
	uint32_t pending = PERCPU_SELFTEST_PENDING;

	if (page != NULL && (found == PERCPU_SELFTEST_PASSED || found == PERCPU_SELFTEST_FAILED))
		__atomic_compare_exchange_n(page, &pending, found, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

/* Only "passed" and "failed" go to the family. "inconclusive" may be due to a restriction of
 * this process alone. */
void percpu_verdict_announce(enum percpu_selftest found)
{
	if (set_verdict(found) == found)
		share_verdict(found);
}

/* The self-test may set the verdict meanwhile. Then it sees the page, or this call sees the
 * verdict, because both use sequentially consistent operations. */
void percpu_verdict_share(void)
{
	uint32_t *none = NULL, *page;

	if (percpu_verdict() != PERCPU_SELFTEST_PENDING ||
	    __atomic_load_n(&shared_verdict, __ATOMIC_RELAXED) != NULL)
		return;
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return;
	__atomic_store_n(page, PERCPU_SELFTEST_PENDING, __ATOMIC_RELAXED);
	PERCPU_STEP("verdict: page made");
	if (!__atomic_compare_exchange_n(&shared_verdict, &none, page, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		munmap(page, sizeof(*page)); /* two threads fork at once */
	share_verdict(__atomic_load_n(&percpu_verdict_word, __ATOMIC_SEQ_CST));
}
