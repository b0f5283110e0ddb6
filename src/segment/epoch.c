/* SPDX-License-Identifier: MIT */
/*
 * epoch.c - which processes may have handles of series that were removed.
 *
 * Removals are numbered: 1, 2, ... A process that has handles of families holds an epoch: the
 * number of removals at a moment when it had no handle of a removed series. It may have handles of
 * series that are removed later. The object of a removed series stays while a process holds an
 * epoch below the number of its removal.
 *
 * To hold an epoch, a process locks the byte of the file that stands for its number. The lock lives
 * exactly as long as the address space with the handles (memory/descriptor.c). So a child of fork,
 * which has its parent's handles, holds the parent's epoch, and a killed process needs no cleanup.
 * Any process that may read the file can hold an epoch for ever. In that case no removed series is
 * freed, and families overflow.
 *
 * A process takes its epoch before it looks for series. So it finds no series that was removed
 * before the epoch.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include <percpu/family.h>

#include "segment.h"

#define FIRST_EPOCH (UINT64_C(3) << 61) /* the byte of epoch 0; owners have lower bytes */
#define EPOCHS (UINT64_C(1) << 61)	/* how many bytes there are up to the last file offset */

/* Hold the epoch of that number. The caller has the process lock, so that no thread forks
 * meanwhile: the child would have a descriptor or a mapping that it cannot release. */
static int lock_epoch(const struct percpu_segment *s, uint64_t number, void **ret)
{
	return number < EPOCHS ?
		       percpu_descriptor_lock_mapped(s->region, FIRST_EPOCH + number, ret) :
		       -EBADMSG;
}

/* Wait for the end of a removal that is going on, and return how many series were removed. During a
 * removal its series is not counted yet, and an epoch of that number would keep the series. */
static uint64_t await_removals(struct percpu_segment *s)
{
	percpu_reuse_await_change(s);
	return percpu_segment_removals(s);
}

/* A child of fork does not inherit this epoch, because it gets no handles that need it. */
int percpu_epoch_take(struct percpu_segment *s, void **ret)
{
	const uint64_t now = await_removals(s);
	void *epoch = NULL;
	int e;

	percpu_process_lock();
	e = lock_epoch(s, now, &epoch);
	if (e == 0 && madvise(epoch, percpu_page_size(), MADV_DONTFORK) != 0) {
		e = percpu_errno();
		percpu_descriptor_unlock_mapped(epoch);
	}
	percpu_process_unlock();
	if (e == 0)
		*ret = epoch;
	return e;
}

void percpu_epoch_drop(void *epoch)
{
	percpu_descriptor_unlock_mapped(epoch);
}

int percpu_epoch_hold(struct percpu_segment *s)
{
	uint64_t now;
	bool holds;
	int e = 0;

	percpu_process_lock();
	holds = s->epoch != NULL;
	percpu_process_unlock();
	if (holds)
		return 0;
	now = await_removals(s);
	PERCPU_STEP("epoch: loaded");
	percpu_process_lock();
	if (s->epoch == NULL) {
		e = lock_epoch(s, now, &s->epoch);
		if (e == 0)
			s->epoch_removals = now;
	}
	percpu_process_unlock();
	return e;
}

int percpu_epoch_first(const struct percpu_segment *s, uint64_t limit, uint64_t *ret)
{
	return percpu_descriptor_least(s->region, FIRST_EPOCH, limit < EPOCHS ? limit : EPOCHS,
				       ret);
}

/* Detach the handles of series that were removed up to that number. A damaged file may have other
 * metrics marked as removed: the program still has their handles. */
static void detach_released(struct percpu_segment *s, uint64_t removals)
{
	struct percpu_listed_record gone = { .handle = NULL };
	bool found = true;

	while (found) {
		found = false;
		percpu_process_lock();
		for (size_t i = s->retired.n; i-- > 0 && !found;) {
			gone = s->retired.at[i];
			found = gone.removable && gone.removal <= removals;
			if (found)
				s->retired.at[i] = s->retired.at[--s->retired.n];
		}
		percpu_process_unlock();
		if (found)
			percpu_segment_detach(gone.kind, gone.handle);
	}
}

int percpu_epoch_complain(const char *name, size_t n, int e, struct percpu_reason *why)
{
	if (e == -EBADF)
		return percpu_reason_set(why, e,
					 "%.*s: the program has closed the segment's descriptor, "
					 "by which the file is opened once more",
					 (int)n, name);
	return percpu_reason_set(
		why, e, "%.*s: the file cannot be opened once more by /proc, or locked: %s", (int)n,
		name, percpu_strerror(e));
}

/* Replace the epoch by that of this number. Refresh the tables first: they must not have a series
 * that the new epoch does not keep. */
static int renew_epoch(struct percpu_segment *s, uint64_t removals)
{
	struct percpu_reason why;
	void *old, *new;
	int e;

	PERCPU_STEP("epoch: counted");
	e = percpu_reuse_refresh(s);
	if (e != 0) {
		e = e == -EAGAIN ? -ETIMEDOUT : e;
		return percpu_error_say(e, "removed series: the segment could not be read");
	}
	percpu_process_lock();
	old = s->epoch;
	e = lock_epoch(s, removals, &new);
	if (e == 0) {
		s->epoch = new;
		s->epoch_removals = removals;
		percpu_epoch_drop(old);
	}
	percpu_process_unlock();
	if (e != 0)
		return percpu_error_keep(percpu_epoch_complain("removed series", 14, e, &why),
					 &why);
	detach_released(s, removals);
	return 0;
}

int percpu_segment_release_removed(struct percpu_segment *s)
{
	uint64_t removals, before;
	bool holds;

	if (s == NULL)
		return percpu_error_say(-EINVAL, "the segment is NULL");
	percpu_process_lock();
	holds = s->epoch != NULL;
	before = s->epoch_removals;
	percpu_process_unlock();
	removals = await_removals(s);
	return !holds || removals == before ? 0 : renew_epoch(s, removals);
}
