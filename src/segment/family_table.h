/* SPDX-License-Identifier: MIT */
/*
 * family_table.h - the series of a family that this process has found, by their values. A thread
 * that looks there takes no lock and makes no system call: entries do not change, and a table that
 * has become too small is kept until the family is freed.
 */
#ifndef PERCPU_SEGMENT_FAMILY_TABLE_H
#define PERCPU_SEGMENT_FAMILY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <percpu/family.h>

#include "hash.h"

struct percpu_family_slots;

struct percpu_family_table {
	struct percpu_family_slots *slots; /* atomic; the process lock protects changes */
};

/** The values of a look-up. */
struct percpu_family_key {
	const struct percpu_text *values;
	size_t labels;
	size_t size; /* of all values, with a 0 behind each */
	uint64_t hash;
};

/** Make the key of so many values. Returns false if one is NULL. */
bool percpu_family_key_make(const struct percpu_text *values, size_t labels,
			    const struct percpu_hash_key *secret, struct percpu_family_key *ret);

/** Return the handle of a series that was entered, and is in use; else NULL. */
void *percpu_family_table_find(const struct percpu_family_table *t,
			       const struct percpu_family_key *key);

/** Enter a handle, and where the state of its record is in the file. Do nothing without memory. Takes
 *  the process lock. */
void percpu_family_table_enter(struct percpu_family_table *t, const struct percpu_family_key *key,
			       void *handle, const uint16_t *state);

/** Free what is in the table. */
void percpu_family_table_free(struct percpu_family_table *t);

#endif
