/* SPDX-License-Identifier: MIT */
/*
 * stale.c - robust locks that were held when the machine went down. The file outlives the boot,
 * and the kernel of the next boot does not know that the holders are dead.
 *
 * So a word beside the locks says in which boot they are held. A process that finds an earlier
 * boot there marks the held locks as the kernel would have done, and then stores its own boot in
 * the word. Every process does so before it takes any of the locks. So a holder that is found in
 * a lock is of the earlier boot, and stays there until a process marks the lock.
 *
 * - Two threads that marked locks at once could mark one that was taken meanwhile, by a thread
 *   with the same id as the dead holder. So a thread that marks holds the recovery lock in the
 *   header. That lock may be stale itself. So half of the boot's id is beside it in the same 8
 *   bytes, and one instruction replaces both.
 * - A process that does not know its boot, or does not get the recovery lock, sets the word
 *   to 0 before it takes locks. The next process that knows its boot stores it, and marks no
 *   lock. So stale locks stay held until a later boot.
 * - A process without /proc does not know its boot. A process that only lacks a descriptor to
 *   read its boot fails to open the file; if it lacks one later, it uses the boot that it read
 *   when it opened the file.
 */
#include "stale.h"

static uint32_t upper_half(uint64_t boot)
{
	return (uint32_t)(boot >> 32);
}

/* Take the recovery lock. If it is of another boot, free it first. */
static int lock_recovery(struct percpu_header *h, uint64_t boot, struct percpu_robust *lock)
{
	union percpu_recovery_lock there = { .both = __atomic_load_n(&h->recovery_lock.both,
								     __ATOMIC_RELAXED) };
	union percpu_recovery_lock mine = { .boot = upper_half(boot) };

	PERCPU_STEP("stale: recovery lock seen");
	while (there.boot != mine.boot &&
	       !__atomic_compare_exchange_n(&h->recovery_lock.both, &there.both, mine.both, false,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		;
	PERCPU_STEP("stale: to be locked");
	return percpu_robust_lock(lock, &h->recovery_lock.lock, PERCPU_LOCK_NS);
}

/* Acquire: the taker of a lock has looked at the word, or set it, before. So if this finds a lock
 * that was taken in this boot, it also finds that the word has changed. */
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

/* Store the boot in the word, if the word is unchanged. Sequentially consistent, here and below:
 * the store comes before any lock that the caller takes. */
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

void percpu_stale_recover(struct percpu_region *r, uint64_t *noted,
			  void (*mark_all)(const struct percpu_stale *s, const void *object),
			  const void *object)
{
	uint64_t boot = percpu_stale_boot(r), there = __atomic_load_n(noted, __ATOMIC_ACQUIRE);
	struct percpu_stale s = { .noted = noted };
	struct percpu_robust lock;

	PERCPU_STEP("stale: boot seen");
	if (there == boot || (there == 0 && note_boot(noted, 0, boot)))
		return;
	if (boot == 0 || lock_recovery(r->first->header, boot, &lock) != 0) {
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

void percpu_stale_recover_region(struct percpu_region *r)
{
	percpu_stale_recover(r, &r->first->header->lock_boot, mark_region, r);
}
