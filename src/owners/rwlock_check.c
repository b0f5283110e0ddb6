/* SPDX-License-Identifier: MIT */
/*
 * rwlock_check.c - PERCPU_RWLOCK_DEBUG: check that this process holds the lock that it unlocks. It
 * may have locked it by another handle.
 */
#include "../cpu/debug.h"
#include "rwlock.h"

#define CHECK_TRIES 100

void percpu_rwlock_check_explain(const struct percpu_rwlock_handle *h, const char *what)
{
	percpu_debug_say("rwlock %p %s", (const void *)h, what);
}

/* Return whether this process holds the lock for reading. A sum may be too low: another thread may
 * lock on a CPU that was read already, and unlock on one that was not. That does not happen in
 * CHECK_TRIES sums in a row. */
static bool process_reads(const struct percpu_rwlock_handle *h)
{
	for (unsigned i = 0; i < CHECK_TRIES; i++)
		if ((int32_t)percpu_participants_sum_own(&h->p, PERCPU_RWLOCK_INSIDE) > 0)
			return true;
	return false;
}

static bool process_writes(const struct percpu_rwlock_handle *h)
{
	const uint64_t state = percpu_rwlock_load_state(h);

	return percpu_rwlock_is_writer(h) &&
	       (state == PERCPU_RWLOCK_WRITING || state == PERCPU_RWLOCK_REPAIRING_WRITER);
}

void percpu_rwlock_check_unlocked(struct percpu_rwlock_handle *h, bool to_write)
{
	if (percpu_participants_adopt(&h->p) != 0 &&
	    (to_write ? process_writes(h) : process_reads(h)))
		return;
	percpu_debug_die("rwlock %p is unlocked by a process that does not %s", (const void *)h,
			 to_write ? "write" : "read");
}
