/* SPDX-License-Identifier: MIT */
/*
 * remove.c - the states of a record: series that are removed, and found again.
 *
 *	record   place      state    key  what it is
 *	none     from end   any      any  no process reads it
 *	named    below end  IN_USE   0    a series without an object
 *	used     below end  IN_USE   set  a series and its object
 *	removed  below end  REMOVED  any  readers do not list it; threads may count in the object
 *	free     below end  FREE     0    never used again
 *
 * A family's record has FAMILY in place of IN_USE, and an object of unused bytes. Only series of
 * families are removed. An overflow is REMOVED until a call gets it, and never after that.
 *
 *	from     to       function          what it stores
 *	none     named    append_record()   the record, then end (declare.c)
 *	named    used     anchor_key()      key (memory/block.c)
 *	used     removed  percpu_series_remove()  state
 *	removed  used     percpu_series_revive()  start and state, after the object was reset
 *	                  percpu_series_show()    state, of an overflow
 *	removed  free     free_series()     exemplars and key, by percpu_anchor_free(), which frees
 *	                                    what they lead to; state
 *
 * A series keeps its record and its object, so a handle leads to the series of the same values for
 * as long as its process has the segment open. Objects of removed series are freed only while no
 * process has a handle of a series: see below.
 *
 * Each change but that of an overflow is made under the lock of the allocator. The process
 * increments control->changes before and after it, so the number is odd meanwhile. A process that
 * reads records without the lock compares the number before and afterwards. What a killed process leaves needs no mending but of
 * that number: each change ends with one store of a record's state.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "family.h"
#include "segment.h"

#define FREE_TRIES 10 /* while killed processes leave journals */

/* Changes. */

/* Make the number of changes odd. */
static void begin_change(const struct percpu_segment *s)
{
	(void)__atomic_fetch_or(&s->control->changes, 1, __ATOMIC_SEQ_CST);
	percpu_full_fence();
	PERCPU_STEP("remove: change begun");
}

/* Make the number of changes, which is odd, even. */
static void end_change(const struct percpu_segment *s)
{
	PERCPU_STEP("remove: changed");
	(void)__atomic_fetch_add(&s->control->changes, 1, __ATOMIC_SEQ_CST);
}

/* A process that looks a series up while the number is odd may find it just before it is removed. The
 * number is even after that, so it differs. */
uint64_t percpu_family_removals(const struct percpu_family *f)
{
	return f != NULL ? __atomic_load_n(&f->s->control->changes, __ATOMIC_ACQUIRE) : 0;
}

int percpu_directory_lock(struct percpu_segment *s, struct percpu_robust *h)
{
	int e = percpu_region_lock(s->region, h);

	if (e != 0)
		return e;
	percpu_process_unlock();
	if (__atomic_load_n(&s->control->changes, __ATOMIC_RELAXED) & 1)
		end_change(s); /* its process was killed */
	e = percpu_directory_refresh(s);
	if (e != 0)
		percpu_region_unlock(s->region, h);
	return e;
}

int percpu_series_remove(struct percpu_segment *s, const struct percpu_record_copy *asked,
			 struct percpu_reason *why)
{
	struct percpu_finding f;
	struct percpu_robust h;
	int e = percpu_directory_lock(s, &h);

	if (e != 0)
		return e;
	f = percpu_directory_find(s, asked, true, why);
	if (f.found == PERCPU_FOUND_IT) {
		begin_change(s);
		__atomic_store_n(&percpu_directory_at(s, f.at)->state, PERCPU_RECORD_REMOVED,
				 __ATOMIC_RELEASE);
		end_change(s);
	}
	percpu_region_unlock(s->region, &h);
	return f.found == PERCPU_FOUND_IT ? 0 : f.found == PERCPU_FOUND_DAMAGE ? -EBADMSG : -ENOENT;
}

/* Reset the object of a removed series. There is none if the process that was to create it was
 * killed. */
static int renew_object(struct percpu_segment *s, const struct percpu_record_copy *asked,
			uint64_t key)
{
	const struct percpu_kind_row *kind = percpu_kind_of(asked->head.kind);
	int (*const begin_anew)(void *) = kind->clear != NULL ? kind->clear : kind->reset;
	void *handle;
	int e;

	if (key == 0 || begin_anew == NULL)
		return 0;
	e = kind->attach(s, key, asked->head.fields, &handle);
	if (e != 0)
		return e == -ENOENT ? -EBADMSG : e;
	e = begin_anew(handle);
	percpu_kind_detach(asked->head.kind, handle);
	return e;
}

/* Store that the removed series begins now. Returns 0 or -errno. */
static int mark_revived(struct percpu_segment *s, uint64_t at)
{
	struct percpu_segment_record *r = percpu_directory_at(s, at);
	const struct percpu_segment_time now = percpu_segment_now(s);
	struct percpu_robust h;
	int e = percpu_directory_lock(s, &h);

	if (e != 0)
		return e;
	begin_change(s);
	__atomic_store_n(&r->declared.real, now.real, __ATOMIC_RELAXED);
	__atomic_store_n(&r->declared.boottime, now.boottime, __ATOMIC_RELAXED);
	__atomic_store_n(&r->declared.boot, now.boot, __ATOMIC_RELAXED);
	__atomic_store_n(&r->generation, __atomic_load_n(&s->control->generation, __ATOMIC_ACQUIRE),
			 __ATOMIC_RELAXED);
	PERCPU_STEP("remove: series renewed");
	__atomic_store_n(&r->state, PERCPU_RECORD_IN_USE, __ATOMIC_RELEASE);
	end_change(s);
	percpu_region_unlock(s->region, &h);
	return 0;
}

/* The object is reset before the lock of the allocator is taken: a reset may take a lock of a
 * journal, and a thread holds one such lock at a time. The lock of resets keeps others from
 * resetting the object when the series is in use again. */
int percpu_series_revive(struct percpu_segment *s, const struct percpu_asked *m,
			 struct percpu_finding *f, struct percpu_reason *why)
{
	struct percpu_segment_record *r;
	int e = percpu_resets_lock(s);

	if (e != 0)
		return e;
	*f = percpu_directory_find(s, m->record, m->member, why);
	if (f->found == PERCPU_FOUND_REMOVED) {
		r = percpu_directory_at(s, f->at);
		e = renew_object(s, m->record, __atomic_load_n(&r->key, __ATOMIC_ACQUIRE));
		if (e == 0)
			e = percpu_series_reset_exemplars(
				s, __atomic_load_n(&r->exemplars, __ATOMIC_ACQUIRE));
		PERCPU_STEP("remove: object renewed");
		if (e == 0)
			e = mark_revived(s, f->at);
	}
	percpu_resets_unlock(s);
	return e;
}

void percpu_series_show(struct percpu_segment *s, uint64_t at)
{
	uint16_t *const state = &percpu_directory_at(s, at)->state, hidden = PERCPU_RECORD_REMOVED;

	if (__atomic_load_n(state, __ATOMIC_RELAXED) == hidden &&
	    __atomic_compare_exchange_n(state, &hidden, PERCPU_RECORD_IN_USE, false,
					__ATOMIC_RELEASE, __ATOMIC_RELAXED))
		(void)__atomic_fetch_add(&s->control->changes, 2, __ATOMIC_SEQ_CST);
}

/* Presence: a process that may have handles of series locks a byte of the file, for as long as it
 * has the segment open. The lock lives exactly as long as the address space with the handles
 * (memory/descriptor.c): a child of fork, which has its parent's handles, is present as well, and a
 * killed process is not. */

#define BYTE_OF_PRESENCE (UINT64_C(3) << 61) /* owners have lower bytes */

static bool is_nobody_present(const struct percpu_segment *s)
{
	return percpu_descriptor_is_free(s->region, BYTE_OF_PRESENCE);
}

/* Wait for the end of a change that is going on. */
static int await_end_of_change(struct percpu_segment *s)
{
	struct percpu_robust h;
	int e;

	percpu_full_fence();
	if (!(__atomic_load_n(&s->control->changes, __ATOMIC_ACQUIRE) & 1))
		return 0;
	e = percpu_directory_lock(s, &h);
	if (e == 0)
		percpu_region_unlock(s->region, &h);
	return e;
}

/* The caller has the process lock, so that no thread forks meanwhile: the child would have a
 * descriptor or a mapping that it cannot release. */
static int lock_presence(const struct percpu_segment *s, void **ret)
{
	return percpu_descriptor_lock_mapped(s->region, BYTE_OF_PRESENCE, ret);
}

int percpu_presence_take(struct percpu_segment *s, void **ret)
{
	void *presence = NULL;
	int e;

	percpu_process_lock();
	e = lock_presence(s, &presence);
	if (e == 0 && madvise(presence, percpu_page_size(), MADV_DONTFORK) != 0) {
		e = percpu_errno();
		percpu_presence_drop(presence);
	}
	percpu_process_unlock();
	if (e != 0)
		return e;
	e = await_end_of_change(s);
	if (e != 0)
		percpu_presence_drop(presence);
	else
		*ret = presence;
	return e;
}

void percpu_presence_drop(void *presence)
{
	percpu_descriptor_unlock_mapped(presence);
}

int percpu_presence_hold(struct percpu_segment *s)
{
	bool present;
	int e = 0;

	percpu_process_lock();
	present = s->is_present;
	percpu_process_unlock();
	if (present)
		return 0;
	percpu_series_free_removed(s);
	PERCPU_STEP("remove: to be present");
	percpu_process_lock();
	if (s->presence == NULL && s->fallback == NULL) /* nothing else opens a private segment */
		e = lock_presence(s, &s->presence);
	percpu_process_unlock();
	PERCPU_STEP("remove: presence locked");
	if (e == 0)
		e = await_end_of_change(s);
	percpu_process_lock();
	if (e == 0) {
		/* series that were entered before may have been freed */
		percpu_series_count_members(s);
		s->is_present = true;
	}
	percpu_process_unlock();
	return e;
}

int percpu_presence_complain(const char *name, size_t n, int e, struct percpu_reason *why)
{
	const char *text = percpu_strerror(e);

	if (e == -EBADF)
		text = PERCPU_CLOSED;
	else if (e == -ENOENT)
		text = "there is no /proc/self/fd, perhaps because of a chroot(2): mount /proc "
		       "there, or declare families before";
	else if (e == -EACCES)
		text = "its permissions do not allow this user to: declare families before "
		       "setuid(2), or use chmod(1)";
	return percpu_reason_set(
		why, e, "%.*s: the file cannot be opened once more by /proc, or locked: %s", (int)n,
		name, text);
}

/* Freeing. */

/* Complete the updates that killed processes have left in journals: after cells are freed, no
 * update of them may be stored. */
static int recover_all_journals(struct percpu_region *r)
{
	int e;

	percpu_process_lock();
	e = percpu_region_refresh(r);
	percpu_process_unlock();
	return e != 0 ? e : percpu_region_recover_journals(r, PERCPU_LOCK_NS);
}

static bool has_journal(const struct percpu_region *r)
{
	bool has = false;

	percpu_process_lock();
	for (uint32_t i = 0; i < r->n && !has; i++)
		has = __atomic_load_n(&r->chunks->at[i]->header->journal.turn, __ATOMIC_ACQUIRE) &
		      1;
	percpu_process_unlock();
	return has;
}

/* Free the object of a removed series, and let its record never be used again. */
static void free_series(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at)
{
	const struct percpu_anchor a = percpu_directory_anchor(s, at);

	if (percpu_kind_of(c->head.kind)->release != NULL)
		percpu_kind_of(c->head.kind)->release(s->region, &a);
	percpu_series_free_exemplars(s, at);
	percpu_anchor_free(s->region, &a);
	PERCPU_STEP("remove: object freed");
	__atomic_store_n(&percpu_directory_at(s, at)->state, PERCPU_RECORD_FREE, __ATOMIC_RELEASE);
}

static void free_all(struct percpu_segment *s, struct percpu_record_copy *c)
{
	struct percpu_segment_record *r;
	uint64_t at = 0;

	while (percpu_directory_next(s, PERCPU_REMOVED, &at, c, &r))
		if (!percpu_record_is_overflow(c))
			free_series(s, c, at - c->head.size);
}

/* The change begins before the look for other processes. A process that becomes present looks for a
 * change after that. So one of the two sees the other.
 *
 * The lock of a journal cannot be taken together with that of the allocator. So journals are
 * completed first, and if there is one again, a process was present meanwhile, and was killed. */
void percpu_series_free_removed(struct percpu_segment *s)
{
	struct percpu_record_copy *c = malloc(sizeof(*c));
	struct percpu_robust h;
	bool again = __atomic_load_n(&s->control->changes, __ATOMIC_RELAXED) != 0, alone;

	for (int try = 0; c != NULL && again && try < FREE_TRIES; try++) {
		if (!is_nobody_present(s) || recover_all_journals(s->region) != 0 ||
		    percpu_directory_lock(s, &h) != 0)
			break;
		begin_change(s);
		alone = is_nobody_present(s);
		again = alone && has_journal(s->region);
		if (alone && !again)
			free_all(s, c);
		end_change(s);
		percpu_region_unlock(s->region, &h);
	}
	free(c);
}
