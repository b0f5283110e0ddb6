/* SPDX-License-Identifier: MIT */
/*
 * reuse.c - series that are removed, and reuse of their objects' cells and of their records.
 *
 * STATES of a record. The process that changes one holds the lock of the allocator.
 *
 *	record   place      state    key  what it is
 *	none     from end   any      any  no process reads it
 *	named    below end  IN_USE   0    a series without an object
 *	used     below end  IN_USE   set  a series and its object
 *	removed  below end  REMOVED  set  not found any more; threads may count in the object
 *	emptied  below end  REMOVED  0    not found any more; without an object
 *	free     below end  FREE     0    a record that is not longer may overwrite it
 *
 * A family's record has FAMILY in place of IN_USE, and an object of unused bytes. Only series of
 * families are removed, and no overflow is.
 *
 *	from     to       function                    what it stores
 *	none     named    write_record()              the record, in record_anchor.c; its object
 *	                                              is created later
 *	                  announce_record_callback()  end
 *	free     named    percpu_reuse_rewrite()      the record; the object was created before
 *	named    used     anchor_key()                key, in memory/block.c
 *	used     removed  remove_record()             removal, state, control->removals
 *	named    emptied  remove_record()             the same
 *	removed  emptied  free_series()               key, by percpu_anchor_free(), which then
 *	                                              frees the object
 *	emptied  free     free_record()               state
 *
 * A removed record keeps its object until no process can have a handle of it any more (epoch.c).
 * remove_record(), percpu_reuse_rewrite() and free_record() increment control->changes before and
 * after what they store, so the number is odd meanwhile. A process that reads records without the
 * lock compares the number before and afterwards.
 *
 *	a process is killed after             the record is       what is left to do
 *	it wrote a record behind end          none                A
 *	it stored end                         named               A
 *	anchor_key() stored key               used                A
 *	begin_change(), or it stored removal  as before           B
 *	it stored REMOVED                     removed or emptied  B, which counts the removal
 *	it stored control->removals           removed or emptied  B
 *	percpu_anchor_free() noted an object  removed             A
 *	percpu_anchor_free() cleared key      emptied             A
 *	it stored FREE                        free                B
 *	it rewrote a part of a free record    free                A, B
 *	it rewrote all of a free record       named               A, B
 *
 *	A  percpu_creation_recover() clears the note of an object that was being created or freed,
 *	   and frees the object unless its key is stored. percpu_region_lock() calls it.
 *	B  percpu_changes_recover() makes control->changes even. lock_directory() and
 *	   choose_record_callback() call it with the lock held.
 *
 * The next process that declares a named series creates its object. When room is needed,
 * percpu_reuse_free() goes on with removed and emptied records, and frees named series of families.
 */
#include <stdlib.h>
#include <string.h>

#include "segment.h"

#define FREED_AT_ONCE 64 /* series, at most, while the lock is held once */

/* Return the highest number of a removal in the list. */
static uint64_t last_number(const struct percpu_segment *s)
{
	uint64_t most = 0;

	percpu_process_lock();
	for (size_t i = 0; i < s->removed.n; i++)
		if (s->removed.at[i].removal > most)
			most = s->removed.at[i].removal;
	percpu_process_unlock();
	return most;
}

/* Let the next refresh rebuild the tables. */
static void forget_tables(struct percpu_segment *s, uint64_t changes)
{
	percpu_process_lock();
	s->changes = changes - 1; /* differs from the current number */
	percpu_process_unlock();
}

/* A killed process may have removed a series without counting the removal. If so, count it here:
 * otherwise no process would hold an epoch that lets the series be freed. Rebuild the tables,
 * because this process may have entered the series before it was removed. */
int percpu_changes_recover(struct percpu_segment *s)
{
	const uint64_t n = __atomic_load_n(&s->control->changes, __ATOMIC_RELAXED);
	const uint64_t removals = __atomic_load_n(&s->control->removals, __ATOMIC_RELAXED);
	int e;

	if (n & 1)
		forget_tables(s, n);
	e = percpu_directory_refresh(s);
	if (e != 0 || !(n & 1))
		return e;
	if (last_number(s) == removals + 1)
		__atomic_store_n(&s->control->removals, removals + 1, __ATOMIC_RELEASE);
	PERCPU_STEP("reuse: removal counted");
	__atomic_store_n(&s->control->changes, n + 1, __ATOMIC_RELEASE);
	return percpu_directory_refresh(s);
}

/* Make the number of changes odd. Returns the previous number. */
static uint64_t begin_change(const struct percpu_segment *s)
{
	const uint64_t n = __atomic_load_n(&s->control->changes, __ATOMIC_RELAXED);

	__atomic_store_n(&s->control->changes, n + 1, __ATOMIC_RELAXED);
	percpu_full_fence();
	PERCPU_STEP("reuse: change begun");
	return n;
}

/* Make the number of changes even, and enter the change in the tables of this process. If that
 * fails, or the tables were out of date before, the next refresh rebuilds them. */
static void end_change(struct percpu_segment *s, uint64_t before,
		       int (*enter)(struct percpu_segment *s, const struct percpu_record_copy *c,
				    uint64_t at),
		       const struct percpu_record_copy *c, uint64_t at)
{
	PERCPU_STEP("reuse: changed");
	__atomic_store_n(&s->control->changes, before + 2, __ATOMIC_RELEASE);
	percpu_process_lock();
	if (s->changes == before) {
		s->changes = before - 1; /* a number that does not return */
		if (enter(s, c, at) == 0)
			s->changes = before + 2;
	}
	percpu_process_unlock();
}

/* Mark the record at this place as removed. The caller has the lock of the allocator. */
static int remove_record(struct percpu_segment *s, struct percpu_record_copy *c, uint64_t at)
{
	struct percpu_segment_record *r = percpu_directory_at(s, at);
	const uint64_t number = __atomic_load_n(&s->control->removals, __ATOMIC_RELAXED) + 1;
	uint64_t before;

	if (percpu_directory_load(s, at, c) == 0)
		return -EBADMSG;
	c->head.removal = number;
	before = begin_change(s);
	__atomic_store_n(&r->removal, number, __ATOMIC_RELAXED);
	PERCPU_STEP("reuse: removal numbered");
	__atomic_store_n(&r->state, PERCPU_RECORD_REMOVED, __ATOMIC_RELEASE);
	PERCPU_STEP("reuse: removed");
	/* A process that loads this number finds none of the series removed up to this number. */
	__atomic_store_n(&s->control->removals, number, __ATOMIC_RELEASE);
	end_change(s, before, percpu_tables_removed, c, at);
	return 0;
}

/* Rewrite a free record from its last word to its first. The first word has the state: when it says
 * that the record is in use, all of the record is stored. */
static void store_record(struct percpu_segment_record *r, const struct percpu_record_copy *c,
			 size_t size)
{
	uint64_t word, *to = (uint64_t *)r;

	for (size_t i = size / sizeof(uint64_t); i-- > 0;) {
		memcpy(&word, (const char *)c + i * sizeof(word), sizeof(word));
		PERCPU_STEP("reuse: record being rewritten");
		__atomic_store_n(&to[i], word, __ATOMIC_RELEASE);
	}
}

void percpu_reuse_rewrite(struct percpu_declaring *d)
{
	struct percpu_segment *s = d->s;
	struct percpu_record_copy *c = d->asked;
	const uint32_t size = c->head.size;
	const uint64_t before = begin_change(s);

	c->head.declared = percpu_segment_now(s);
	c->head.generation = __atomic_load_n(&s->control->generation, __ATOMIC_ACQUIRE);
	c->head.size = (uint32_t)d->room; /* the record stays as long as it was */
	store_record(percpu_directory_at(s, d->where), c, size);
	d->changes = before + 2;
	end_change(s, before, percpu_tables_rewritten, c, d->where);
	c->head.size = size; /* the next try may write another record */
}

/* Return the anchor of the object of the record at this place. */
static struct percpu_anchor anchor_at(const struct percpu_segment *s, uint64_t at)
{
	return (struct percpu_anchor){
		.word = &percpu_directory_at(s, at)->key,
		.word_key = __atomic_load_n(&s->block_key[at / PERCPU_SEGMENT_BLOCK],
					    __ATOMIC_RELAXED) +
			    at % PERCPU_SEGMENT_BLOCK + offsetof(struct percpu_segment_record, key),
		.root = PERCPU_REGION_ROOTS,
	};
}

/* Make a removed record free. Its object was freed before, or there was none. */
static void free_record(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at)
{
	const uint64_t before = begin_change(s);

	__atomic_store_n(&percpu_directory_at(s, at)->state, PERCPU_RECORD_FREE, __ATOMIC_RELEASE);
	end_change(s, before, percpu_tables_freed, c, at);
}

/* Free the object of a removed series, and then its record. */
static void free_series(struct percpu_segment *s, struct percpu_record_copy *c, uint64_t at)
{
	const struct percpu_anchor a = anchor_at(s, at);

	if (percpu_directory_load(s, at, c) == 0 || c->head.state != PERCPU_RECORD_REMOVED)
		return;
	if (c->head.kind == PERCPU_METRIC_OWNED_GAUGE || c->head.kind == PERCPU_METRIC_OWNED_FGAUGE)
		percpu_owned_free_at(s->region, &a);
	percpu_anchor_free(s->region, &a);
	PERCPU_STEP("reuse: object freed");
	free_record(s, c, at);
}

/* Return the lowest number of a removal in the list. */
static uint64_t least_number(const struct percpu_record_list *l)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < l->n; i++)
		if (l->at[i].removal < least)
			least = l->at[i].removal;
	return least;
}

/* Return the last removed series in the list that has at most this number and is of this family, or
 * of any family if family is 0. NULL if there is none. */
static const struct percpu_listed_record *last_removed(const struct percpu_segment *s,
						       uint64_t family, uint64_t number)
{
	for (size_t i = s->removed.n; i-- > 0;)
		if (s->removed.at[i].removal <= number &&
		    (family == 0 || s->removed.at[i].family == family))
			return &s->removed.at[i];
	return NULL;
}

/* Find a removed series with at most this number, of the family if possible, and set *at to its
 * place. Each resolve in a full family calls this. So s->removed.least saves the search while a
 * process holds an epoch below all removals in the list. */
static bool find_removed(struct percpu_segment *s, uint64_t family, uint64_t number, uint64_t *at)
{
	const struct percpu_listed_record *p = NULL;

	percpu_process_lock();
	if (s->removed.least <= number) {
		p = last_removed(s, family, number);
		if (p == NULL)
			p = last_removed(s, 0, number);
		if (p == NULL)
			s->removed.least = least_number(&s->removed);
	}
	if (p != NULL)
		*at = p->at;
	percpu_process_unlock();
	return p != NULL;
}

/* Complete the updates that killed processes have left in journals. After cells are freed, no
 * update of them may be stored. */
static int recover_all_journals(struct percpu_region *r)
{
	int e;

	percpu_process_lock();
	e = percpu_region_refresh(r);
	percpu_process_unlock();
	return e != 0 ? e : percpu_region_recover_journals(r, PERCPU_LOCK_NS);
}

/* Take the lock of the allocator, end a change of a killed process, and refresh the tables. Returns
 * 0 or -errno. */
static int lock_directory(struct percpu_segment *s, struct percpu_robust *h)
{
	int e = percpu_region_lock(s->region, h);

	if (e != 0)
		return e;
	percpu_process_unlock();
	e = percpu_changes_recover(s);
	if (e != 0)
		percpu_region_unlock(s->region, h);
	return e;
}

int percpu_reuse_refresh(struct percpu_segment *s)
{
	struct percpu_robust h;
	int e = percpu_directory_refresh(s);

	if (e != -EAGAIN || !s->region->writable)
		return e;
	e = lock_directory(s, &h);
	if (e == 0)
		percpu_region_unlock(s->region, &h);
	return e;
}

void percpu_reuse_await_change(struct percpu_segment *s)
{
	struct percpu_robust h;

	if ((__atomic_load_n(&s->control->changes, __ATOMIC_RELAXED) & 1) && s->region->writable &&
	    lock_directory(s, &h) == 0)
		percpu_region_unlock(s->region, &h);
}

/* Return whether the record is that of a series of a family, other than the overflow. */
static bool is_member(struct percpu_segment *s, const struct percpu_record_copy *c)
{
	bool is;

	percpu_process_lock();
	is = percpu_series_find(s, c, true) != NULL && s->copy.head.state == PERCPU_RECORD_FAMILY &&
	     !percpu_record_is_overflow(c);
	percpu_process_unlock();
	return is;
}

/* Free the series of families that have no object. The processes that were creating the objects
 * were killed: a living one would still have the lock of the allocator. */
static int free_unkeyed(struct percpu_segment *s)
{
	struct percpu_record_copy *c = malloc(sizeof(*c));
	struct percpu_segment_record *r;
	struct percpu_robust h;
	uint64_t at = 0;
	int e = c != NULL ? lock_directory(s, &h) : -ENOMEM;

	if (e == 0) {
		while (percpu_directory_next(s, PERCPU_SERIES, &at, c, &r))
			if (c->head.key == 0 && is_member(s, c) &&
			    remove_record(s, c, at - c->head.size) == 0)
				free_record(s, c, at - c->head.size); /* there are no handles */
		percpu_process_lock();
		s->unkeyed = 0;
		percpu_process_unlock();
		percpu_region_unlock(s->region, &h);
	}
	free(c);
	return e;
}

static bool has_unkeyed(const struct percpu_segment *s)
{
	bool has;

	percpu_process_lock();
	has = s->unkeyed != 0;
	percpu_process_unlock();
	return has;
}

/* A series may be freed if no process holds an epoch below the number of its removal. A process
 * with a later epoch has not found the series. */
int percpu_reuse_free(struct percpu_segment *s, uint64_t family)
{
	struct percpu_record_copy *c;
	struct percpu_robust h;
	uint64_t number, at;
	int e = has_unkeyed(s) ? free_unkeyed(s) : 0;

	if (e != 0)
		return e;
	e = percpu_epoch_first(s, percpu_segment_removals(s), &number);
	if (e != 0 || !find_removed(s, family, number, &at))
		return 0; /* no removed series can be freed now */
	e = recover_all_journals(s->region);
	c = e == 0 ? malloc(sizeof(*c)) : NULL;
	if (c == NULL)
		return e != 0 ? e : -ENOMEM;
	e = lock_directory(s, &h);
	if (e == 0) {
		for (int n = 0; n < FREED_AT_ONCE && find_removed(s, family, number, &at); n++)
			free_series(s, c, at);
		percpu_region_unlock(s->region, &h);
	}
	free(c);
	return e;
}

int percpu_reuse_remove(struct percpu_segment *s, const struct percpu_record_copy *asked)
{
	struct percpu_record_copy *c = malloc(sizeof(*c));
	const struct percpu_series_slot *found;
	struct percpu_robust h;
	uint64_t at = 0;
	int e = c != NULL ? lock_directory(s, &h) : -ENOMEM;

	if (e == 0) {
		percpu_process_lock();
		found = percpu_series_find(s, asked, false);
		if (found != NULL)
			at = found->at;
		percpu_process_unlock();
		e = at != 0 ? remove_record(s, c, at - 1) : -ENOENT;
		percpu_region_unlock(s->region, &h);
	}
	free(c);
	return e;
}
