/* SPDX-License-Identifier: MIT */
/*
 * family_table.c - the series of a family that this process has found.
 */
#include <stdlib.h>
#include <string.h>

#include "../memory/memory.h"
#include "family_table.h"

#define FIRST_ENTRIES 16

struct family_entry {
	uint64_t hash;
	void *handle;
	const uint16_t *state; /* of the record, in the file */
	size_t size;	       /* of the values, with a 0 behind each */
	char values[];
};

/* A hash table with linear probing, of which half is free. */
struct percpu_family_slots {
	struct percpu_family_slots *smaller; /* the one before */
	size_t size;			     /* power of two */
	size_t used;
	struct family_entry *entry[]; /* atomic; NULL: free */
};

bool percpu_family_key_make(const struct percpu_text *values, size_t labels,
			    const struct percpu_hash_key *secret, struct percpu_family_key *ret)
{
	struct percpu_hash h = percpu_hash_begin(secret);

	ret->values = values;
	ret->labels = labels;
	ret->size = 0;
	for (size_t i = 0; i < labels; i++) {
		if (values[i].at == NULL)
			return false;
		ret->size += values[i].n + 1;
		if (values[i].n <= PERCPU_METRIC_VALUE) /* no entry has a longer one */
			percpu_hash_text(&h, values[i].at, values[i].n);
	}
	ret->hash = percpu_hash_end(h);
	return true;
}

/* No value of an entry has a 0 in it, so the ends of the values of both are at the same places. */
static bool is_entry_of(const struct family_entry *e, const struct percpu_family_key *key)
{
	const struct percpu_text *v = key->values;
	const char *at = e->values;

	if (e->hash != key->hash || e->size != key->size)
		return false;
	for (size_t i = 0; i < key->labels; at += v[i++].n + 1)
		if (memcmp(at, v[i].at, v[i].n) != 0 || at[v[i].n] != '\0')
			return false;
	return true;
}

static const struct family_entry *find_entry(const struct percpu_family_slots *t,
					     const struct percpu_family_key *key)
{
	const struct family_entry *e;

	for (size_t i = (size_t)key->hash; t != NULL; i++) {
		e = __atomic_load_n(&t->entry[i & (t->size - 1)], __ATOMIC_ACQUIRE);
		if (e == NULL || is_entry_of(e, key))
			return e;
	}
	return NULL;
}

void *percpu_family_table_find(const struct percpu_family_table *t,
			       const struct percpu_family_key *key)
{
	const struct family_entry *e =
		find_entry(__atomic_load_n(&t->slots, __ATOMIC_ACQUIRE), key);

	return e != NULL && __atomic_load_n(e->state, __ATOMIC_ACQUIRE) == PERCPU_RECORD_IN_USE ?
		       e->handle :
		       NULL;
}

static void put_entry(struct percpu_family_slots *t, struct family_entry *e)
{
	size_t i = (size_t)e->hash;

	while (t->entry[i & (t->size - 1)] != NULL)
		i++;
	__atomic_store_n(&t->entry[i & (t->size - 1)], e, __ATOMIC_RELEASE);
	t->used++;
}

/* Return slots with room for one more entry; NULL if there is no memory. */
static struct percpu_family_slots *slots_with_room(struct percpu_family_table *table)
{
	struct percpu_family_slots *t = table->slots, *larger;
	const size_t size = t != NULL ? 2 * t->size : FIRST_ENTRIES;

	if (t != NULL && 2 * (t->used + 1) <= t->size)
		return t;
	larger = calloc(1, sizeof(*larger) + size * sizeof(larger->entry[0]));
	if (larger == NULL)
		return NULL;
	larger->size = size;
	larger->smaller = t;
	for (size_t i = 0; t != NULL && i < t->size; i++)
		if (t->entry[i] != NULL)
			put_entry(larger, t->entry[i]);
	__atomic_store_n(&table->slots, larger, __ATOMIC_RELEASE);
	return larger;
}

static struct family_entry *make_entry(const struct percpu_family_key *key, void *handle,
				       const uint16_t *state)
{
	struct family_entry *e = malloc(sizeof(*e) + key->size);
	char *to;

	if (e == NULL)
		return NULL;
	e->hash = key->hash;
	e->handle = handle;
	e->state = state;
	e->size = key->size;
	to = e->values;
	for (size_t i = 0; i < key->labels; i++) {
		memcpy(to, key->values[i].at, key->values[i].n);
		to += key->values[i].n;
		*to++ = '\0';
	}
	return e;
}

void percpu_family_table_enter(struct percpu_family_table *table,
			       const struct percpu_family_key *key, void *handle,
			       const uint16_t *state)
{
	struct family_entry *e = make_entry(key, handle, state);
	struct percpu_family_slots *t;

	if (e == NULL)
		return;
	PERCPU_STEP("family: to be entered in the table");
	percpu_process_lock();
	t = slots_with_room(table);
	if (t != NULL && find_entry(t, key) == NULL) {
		put_entry(t, e);
		e = NULL;
	}
	percpu_process_unlock();
	free(e);
}

void percpu_family_table_free(struct percpu_family_table *table)
{
	struct percpu_family_slots *t = table->slots, *smaller;

	for (size_t i = 0; t != NULL && i < t->size; i++)
		free(t->entry[i]);
	for (; t != NULL; t = smaller) {
		smaller = t->smaller;
		free(t);
	}
}
