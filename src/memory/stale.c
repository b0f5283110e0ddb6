/* SPDX-License-Identifier: MIT */
/*
 * stale.c - robust locks that were held when the machine went down. The file is still there,
 * and no kernel is going to say that their holders are dead.
 *
 * So a word beside the locks says in which boot they are held. Who finds an earlier boot there
 * marks the locks as the kernel would have done, and then names its own boot. It does so before
 * it takes any of them, and so does everybody else: what it finds in a lock is of the earlier
 * boot, and stays there until it is replaced.
 *
 * - Two that did this at once could hit a lock that was taken meanwhile, by a thread that has
 *   the same id as the one before. So who does it holds a lock: the settler's in the header.
 *   That one may be stale itself, so half of the boot's id is beside it in the same 8 bytes, and
 *   both are replaced at once.
 * - A process that does not know its boot, or does not get the settler's lock, sets the word
 *   to 0 before it takes locks. Then nobody marks any until all is of one boot again. So what it
 *   finds held then stays so. That is for processes without /proc: one that only has no descriptor
 *   to ask for its boot does not open the file. Later it goes by the boot of then, if need be.
 */
#include "stale.h"

static uint32_t upper_half(uint64_t boot)
{
	return (uint32_t)(boot >> 32);
}

static int lock_settler(struct percpu_header *h, uint64_t boot, struct percpu_robust *lock)
{
	union percpu_settler there = { .both = __atomic_load_n(&h->settler.both,
							       __ATOMIC_RELAXED) };
	union percpu_settler mine = { .boot = upper_half(boot) };

	PERCPU_STEP("stale: settler seen");
	while (there.boot != mine.boot &&
	       !__atomic_compare_exchange_n(&h->settler.both, &there.both, mine.both, false,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		;
	PERCPU_STEP("stale: to be locked");
	return percpu_robust_lock(lock, &h->settler.lock, PERCPU_LOCK_NS);
}

/* Acquire: who finds a lock that was taken in this boot finds that the word is not as it was,
 * because whoever took the lock has looked at the word or set it before. */
void percpu_stale_mark(const struct percpu_stale *s, uint32_t *lock)
{
	uint32_t value = __atomic_load_n(lock, __ATOMIC_ACQUIRE), holder = value & FUTEX_TID_MASK;

	if (holder == 0 || __atomic_load_n(s->noted, __ATOMIC_ACQUIRE) != s->earlier)
		return;
	PERCPU_STEP("stale: lock found");
	while ((value & FUTEX_TID_MASK) == holder &&
	       !__atomic_compare_exchange_n(lock, &value, FUTEX_OWNER_DIED, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
	PERCPU_STEP("stale: lock marked");
}

/* Sequentially consistent, here and below: before the caller takes any lock. */
static bool note_boot(uint64_t *noted, uint64_t there, uint64_t boot)
{
	return __atomic_compare_exchange_n(noted, &there, boot, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_ACQUIRE);
}

uint64_t percpu_stale_boot(const struct percpu_region *r)
{
	uint64_t boot = r->boot;

	(void)percpu_boot_id_read(&boot);
	return boot;
}

void percpu_stale_settle(struct percpu_region *r, uint64_t *noted,
			 void (*mark_all)(const struct percpu_stale *s, const void *object),
			 const void *object)
{
	uint64_t boot = percpu_stale_boot(r), there = __atomic_load_n(noted, __ATOMIC_ACQUIRE);
	struct percpu_stale s = { .noted = noted };
	struct percpu_robust lock;

	PERCPU_STEP("stale: boot seen");
	if (there == boot || (there == 0 && note_boot(noted, 0, boot)))
		return;
	if (boot == 0 || lock_settler(r->first->header, boot, &lock) != 0) {
		__atomic_exchange_n(noted, 0, __ATOMIC_SEQ_CST);
		return;
	}
	s.earlier = __atomic_load_n(noted, __ATOMIC_ACQUIRE);
	if (s.earlier != boot && s.earlier != 0)
		mark_all(&s, object);
	PERCPU_STEP("stale: all marked");
	if (s.earlier != boot)
		(void)note_boot(noted, s.earlier, boot);
	percpu_robust_unlock(&lock);
}

static void mark_region(const struct percpu_stale *s, const void *object)
{
	const struct percpu_region *r = object;

	percpu_stale_mark(s, &r->first->header->alloc_lock);
	for (uint32_t i = 0; i < r->n; i++)
		percpu_stale_mark(s, &r->chunks->at[i]->header->journal_lock);
}

void percpu_stale_settle_region(struct percpu_region *r)
{
	percpu_stale_settle(r, &r->first->header->lock_boot, mark_region, r);
}
