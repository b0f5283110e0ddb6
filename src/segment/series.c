/* SPDX-License-Identifier: MIT */
/*
 * series.c - the records that this process has seen: tables of their places by hashes of names, and
 * lists of removed and free records. Names are compared in the records themselves. The caller of
 * each function has the process lock.
 */
#include <stdlib.h>

#include "segment.h"

#define FIRST_SERIES 64

/* Return the slot of a record with that hash and the same name, or name and values, as c. If there
 * is none, return the free slot where it would be. */
static struct percpu_series_slot *probe(struct percpu_segment *s,
					const struct percpu_series_table *t, uint64_t hash,
					const struct percpu_record_copy *c, bool family)
{
	struct percpu_series_slot *slot;

	for (size_t i = (size_t)hash;; i++) {
		slot = &t->slot[i & (t->size - 1)];
		if (slot->at == 0)
			return slot;
		if (slot->hash != hash || percpu_directory_load(s, slot->at - 1, &s->copy) == 0)
			continue;
		if (family ? percpu_record_same_name(&s->copy, c) :
			     percpu_record_same_series(&s->copy, c))
			return slot;
	}
}

struct percpu_series_slot *percpu_series_find(struct percpu_segment *s,
					      const struct percpu_record_copy *c, bool family)
{
	const struct percpu_series_table *t = family ? &s->families : &s->series;
	struct percpu_series_slot *slot;

	if (t->size == 0)
		return NULL;
	slot = probe(s, t,
		     family ? percpu_record_name_hash(c, s->seed) :
			      percpu_record_series_hash(c, s->seed),
		     c, family);
	return slot->at != 0 ? slot : NULL;
}

static void put_series(const struct percpu_series_table *t, const struct percpu_series_slot *new)
{
	size_t i = (size_t) new->hash;

	while (t->slot[i & (t->size - 1)].at != 0)
		i++;
	t->slot[i & (t->size - 1)] = *new;
}

/* Make room for one more entry: at most 3 of 4 slots are used. */
static int make_room(struct percpu_series_table *t)
{
	struct percpu_series_table larger = { .size = t->size != 0 ? 2 * t->size : FIRST_SERIES,
					      .used = t->used };

	if (4 * (t->used + 1) <= 3 * t->size)
		return 0;
	larger.slot = calloc(larger.size, sizeof(*larger.slot));
	if (larger.slot == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < t->size; i++)
		if (t->slot[i].at != 0)
			put_series(&larger, &t->slot[i]);
	free(t->slot);
	*t = larger;
	return 0;
}

/* Enter the record unless the table has an equal one. Returns the slot of either; NULL if there is
 * no memory. */
static struct percpu_series_slot *enter_in(struct percpu_segment *s, struct percpu_series_table *t,
					   uint64_t hash, const struct percpu_record_copy *c,
					   uint64_t at, bool family)
{
	struct percpu_series_slot *slot;

	if (make_room(t) != 0)
		return NULL;
	slot = probe(s, t, hash, c, family);
	if (slot->at == 0) {
		*slot = (struct percpu_series_slot){ .hash = hash, .at = at + 1 };
		t->used++;
	}
	return slot;
}

int percpu_record_list_add(struct percpu_record_list *l, const struct percpu_listed_record *p)
{
	const size_t room = l->room != 0 ? 2 * l->room : FIRST_SERIES;
	struct percpu_listed_record *more;

	if (l->n == l->room) {
		more = realloc(l->at, room * sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		l->at = more;
		l->room = room;
	}
	l->at[l->n++] = *p;
	if (p->removal < l->least)
		l->least = p->removal;
	return 0;
}

/* Drop the entry of the record at this place from the list. */
static void unlist_record(struct percpu_record_list *l, uint64_t at)
{
	for (size_t i = l->n; i-- > 0;)
		if (l->at[i].at == at) {
			l->at[i] = l->at[--l->n];
			return;
		}
}

/* Enter a removed series in the list, and not in the table of series. It counts as a member of its
 * family until its record is free. */
int percpu_series_enter(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at)
{
	const struct percpu_listed_record listed = { .at = at,
						     .size = c->head.size,
						     .removal = c->head.removal,
						     .family =
							     percpu_record_name_hash(c, s->seed) };
	struct percpu_series_slot *f = enter_in(s, &s->families, listed.family, c, at, true);

	if (f == NULL)
		return -ENOMEM;
	if (c->head.state == PERCPU_RECORD_FAMILY) {
		f->at = at + 1; /* instead of a series that was entered before */
		s->has_families = true;
		return 0;
	}
	if (c->head.state == PERCPU_RECORD_REMOVED) {
		if (percpu_record_list_add(&s->removed, &listed) != 0)
			return -ENOMEM;
	} else if (enter_in(s, &s->series, percpu_record_series_hash(c, s->seed), c, at, false) ==
		   NULL) {
		return -ENOMEM;
	}
	f->members += !percpu_record_is_overflow(c);
	return 0;
}

/* Changes of the tables. */

struct percpu_tables percpu_tables_take(struct percpu_segment *s)
{
	const struct percpu_tables t = { s->series, s->families, s->removed, s->spare, s->unkeyed };

	s->series = s->families = (struct percpu_series_table){ NULL, 0, 0 };
	s->removed = s->spare = (struct percpu_record_list){ .at = NULL };
	s->unkeyed = 0;
	return t;
}

void percpu_tables_put(struct percpu_segment *s, const struct percpu_tables *t)
{
	s->series = t->series;
	s->families = t->families;
	s->removed = t->removed;
	s->spare = t->spare;
	s->unkeyed = t->unkeyed;
}

void percpu_tables_free(const struct percpu_tables *t)
{
	free(t->series.slot);
	free(t->families.slot);
	free(t->removed.at);
	free(t->spare.at);
}

/* Keep the handle of a removed series until percpu_segment_release_removed() says that no thread
 * has it. */
static int retire_handle(struct percpu_segment *s, const struct percpu_series_slot *was)
{
	const struct percpu_segment_record *r = percpu_directory_at(s, was->at - 1);
	const struct percpu_listed_record listed = { .at = was->at - 1,
						     .removal = __atomic_load_n(&r->removal,
										__ATOMIC_RELAXED),
						     .handle = was->handle,
						     .kind = was->kind,
						     .removable = was->removable };

	return was->handle != NULL ? percpu_record_list_add(&s->retired, &listed) : 0;
}

static struct percpu_series_slot *slot_at_record(const struct percpu_series_table *t, uint64_t hash,
						 uint64_t at)
{
	struct percpu_series_slot *slot;

	for (size_t i = (size_t)hash; t->size != 0; i++) {
		slot = &t->slot[i & (t->size - 1)];
		if (slot->at == 0)
			return NULL;
		if (slot->at == at)
			return slot;
	}
	return NULL;
}

int percpu_tables_inherit(struct percpu_segment *s, const struct percpu_tables *old)
{
	const size_t retired = s->retired.n;
	const struct percpu_series_slot *was;
	struct percpu_series_slot *is;
	int e = 0;

	for (size_t i = 0; e == 0 && i < old->series.size; i++) {
		was = &old->series.slot[i];
		if (was->handle == NULL)
			continue;
		is = slot_at_record(&s->series, was->hash, was->at);
		if (is == NULL) {
			e = retire_handle(s, was);
		} else {
			is->handle = was->handle;
			is->kind = was->kind;
			is->removable = was->removable;
		}
	}
	if (e != 0)
		s->retired.n = retired;
	return e;
}

/* Remove an entry. Move entries behind it forward, so that a search still finds them. */
static void take_out(struct percpu_series_table *t, struct percpu_series_slot *slot)
{
	const size_t mask = t->size - 1;
	size_t hole = (size_t)(slot - t->slot), i = (hole + 1) & mask;

	for (; t->slot[i].at != 0; i = (i + 1) & mask)
		if (((i - (size_t)t->slot[i].hash) & mask) >= ((i - hole) & mask)) {
			t->slot[hole] = t->slot[i];
			hole = i;
		}
	t->slot[hole] = (struct percpu_series_slot){ .at = 0 };
	t->used--;
}

int percpu_tables_removed(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at)
{
	const struct percpu_listed_record listed = { .at = at,
						     .size = c->head.size,
						     .removal = c->head.removal,
						     .family =
							     percpu_record_name_hash(c, s->seed) };
	struct percpu_series_slot *slot =
		slot_at_record(&s->series, percpu_record_series_hash(c, s->seed), at + 1);
	int e = slot != NULL ? percpu_record_list_add(&s->removed, &listed) : -ENOENT;

	if (e != 0)
		return e;
	e = retire_handle(s, slot);
	if (e == 0)
		take_out(&s->series, slot);
	return e;
}

int percpu_tables_freed(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at)
{
	struct percpu_series_slot *f = percpu_series_find(s, c, true);
	const struct percpu_listed_record listed = { .at = at, .size = c->head.size };

	if (f == NULL || percpu_record_list_add(&s->spare, &listed) != 0)
		return -ENOMEM;
	if (f->members != 0 && !percpu_record_is_overflow(c))
		f->members--;
	unlist_record(&s->removed, at);
	return 0;
}

int percpu_tables_rewritten(struct percpu_segment *s, const struct percpu_record_copy *c,
			    uint64_t at)
{
	unlist_record(&s->spare, at);
	return percpu_series_enter(s, c, at);
}
