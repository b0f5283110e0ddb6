/* SPDX-License-Identifier: MIT */
/*
 * series.c - the records that this process has seen: tables of their places by hashes of names.
 * Names are compared in the records themselves. Tables only grow, because records stay where they
 * are. The caller of each function has the process lock.
 */
#include <stdlib.h>

#include "segment.h"

#define FIRST_SERIES 64

/* Return the slot of a record with that hash, and that name, or the name and values of c if c is not
 * NULL. Copy the record to s->copy. If there is none, return the free slot where it would be. A
 * record that is free by now is none. */
static struct percpu_series_slot *probe(struct percpu_segment *s,
					const struct percpu_series_table *t, uint64_t hash,
					const struct percpu_text *name,
					const struct percpu_record_copy *c)
{
	struct percpu_series_slot *slot;

	for (size_t i = (size_t)hash;; i++) {
		slot = &t->slot[i & (t->size - 1)];
		if (slot->at == 0)
			return slot;
		if (slot->hash != hash || percpu_directory_load(s, slot->at - 1, &s->copy) == 0)
			continue;
		if (c != NULL ? percpu_record_same_series(&s->copy, c) :
				percpu_record_has_name(&s->copy, name))
			return slot;
	}
}

struct percpu_series_slot *percpu_series_find(struct percpu_segment *s,
					      const struct percpu_record_copy *c)
{
	struct percpu_series_slot *slot;

	if (s->series.size == 0)
		return NULL;
	slot = probe(s, &s->series, percpu_record_series_hash(c, &s->key), NULL, c);
	return slot->at != 0 ? slot : NULL;
}

struct percpu_series_slot *percpu_series_find_name(struct percpu_segment *s,
						   const struct percpu_text *name)
{
	struct percpu_series_slot *slot;

	if (s->families.size == 0)
		return NULL;
	slot = probe(s, &s->families, percpu_name_hash(name, &s->key), name, NULL);
	return slot->at != 0 ? slot : NULL;
}

struct percpu_series_slot *percpu_series_at(const struct percpu_segment *s,
					    const struct percpu_record_copy *c, uint64_t at)
{
	const struct percpu_series_table *t = &s->series;
	struct percpu_series_slot *slot;

	for (size_t i = (size_t)percpu_record_series_hash(c, &s->key); t->size != 0; i++) {
		slot = &t->slot[i & (t->size - 1)];
		if (slot->at == 0)
			return NULL;
		if (slot->at == at + 1)
			return slot;
	}
	return NULL;
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
					   uint64_t hash, const struct percpu_text *name,
					   const struct percpu_record_copy *c, uint64_t at)
{
	struct percpu_series_slot *slot;

	if (make_room(t) != 0)
		return NULL;
	slot = probe(s, t, hash, name, c);
	if (slot->at == 0) {
		*slot = (struct percpu_series_slot){ .hash = hash, .at = at + 1 };
		t->used++;
	}
	return slot;
}

int percpu_series_enter(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at)
{
	const struct percpu_text name = percpu_record_name(c);
	struct percpu_series_slot *f =
		enter_in(s, &s->families, percpu_name_hash(&name, &s->key), &name, NULL, at);

	if (f == NULL)
		return -ENOMEM;
	if (c->head.state == PERCPU_RECORD_FAMILY) {
		f->at = at + 1; /* instead of a series that was entered before */
		s->has_families = true;
		return 0;
	}
	if (enter_in(s, &s->series, percpu_record_series_hash(c, &s->key), NULL, c, at) == NULL)
		return -ENOMEM;
	f->members += !percpu_record_is_overflow(c);
	return 0;
}

void percpu_series_count_members(struct percpu_segment *s)
{
	struct percpu_series_slot *f;
	struct percpu_text name;

	for (size_t i = 0; i < s->families.size; i++)
		s->families.slot[i].members = 0;
	for (size_t i = 0; i < s->series.size; i++) {
		if (s->series.slot[i].at == 0 ||
		    percpu_directory_load(s, s->series.slot[i].at - 1, &s->walk) == 0)
			continue;
		name = percpu_record_name(&s->walk);
		f = percpu_series_find_name(s, &name);
		if (f != NULL)
			f->members += !percpu_record_is_overflow(&s->walk);
	}
}
