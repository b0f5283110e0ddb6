/* SPDX-License-Identifier: MIT */
/*
 * series.c - what this process has seen of the directory: tables of places, by hashes of names.
 * Names are compared where the records are. The caller has the process lock.
 */
#include <stdlib.h>

#include "segment.h"

#define FIRST_SERIES 64

/* Return the slot of that hash for which the record there is the same, or the free one. */
static struct percpu_series *probe(struct percpu_segment *s, const struct percpu_series_table *t,
				   uint64_t hash, const struct percpu_record_copy *c, bool family)
{
	struct percpu_series *slot;

	for (size_t i = (size_t)hash;; i++) {
		slot = &t->slot[i & (t->size - 1)];
		if (slot->at == 0)
			return slot;
		if (slot->hash != hash || percpu_directory_load(s, slot->at - 1, &s->copy) == 0)
			continue;
		if (family ? percpu_record_is_family(&s->copy, c) :
			     percpu_record_is_series(&s->copy, c))
			return slot;
	}
}

struct percpu_series *percpu_series_find(struct percpu_segment *s,
					 const struct percpu_record_copy *c, bool family)
{
	const struct percpu_series_table *t = family ? &s->families : &s->series;
	struct percpu_series *slot;

	if (t->size == 0)
		return NULL;
	slot = probe(s, t,
		     family ? percpu_record_family(c, s->seed) : percpu_record_hash(c, s->seed), c,
		     family);
	return slot->at != 0 ? slot : NULL;
}

static void put_series(const struct percpu_series_table *t, const struct percpu_series *new)
{
	size_t i = (size_t) new->hash;

	while (t->slot[i & (t->size - 1)].at != 0)
		i++;
	t->slot[i & (t->size - 1)] = *new;
}

/* Make room for one more. */
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

/* Enter the record unless the table has one that is the same to it. */
static int enter_in(struct percpu_segment *s, struct percpu_series_table *t, uint64_t hash,
		    const struct percpu_record_copy *c, uint64_t at, bool family)
{
	struct percpu_series *slot;
	int e = make_room(t);

	if (e != 0)
		return e;
	slot = probe(s, t, hash, c, family);
	if (slot->at == 0) {
		*slot = (struct percpu_series){ .hash = hash, .at = at + 1 };
		t->used++;
	}
	return 0;
}

int percpu_series_enter(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at)
{
	int e = enter_in(s, &s->series, percpu_record_hash(c, s->seed), c, at, false);

	return e != 0 ? e :
			enter_in(s, &s->families, percpu_record_family(c, s->seed), c, at, true);
}
