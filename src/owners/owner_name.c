/* SPDX-License-Identifier: MIT */
/*
 * owner_name.c - the name in a slot.
 *
 * A slot's name belongs to all its owners from number `first` on: to the owner that began with the
 * name, and to each one that has resumed the values of the owner before it. The name is valid for
 * an owner if `first` is not 0 and not above the owner's number, and if `check` fits.
 *
 * A process that begins with a name first stores the number that it will have as `first`, while the
 * slot is free. That makes the old name invalid. The new one becomes valid when the process stores
 * the word of the slot. A process that resumes stores nothing here.
 *
 * `check` is for readers that copy the slot while a name is being stored, in whatever order. They
 * get one of the names, or none.
 */
#define _GNU_SOURCE
#include <string.h>

#include "../cpu/text.h"
#include "owners.h"

static uint64_t hash_of_name(uint64_t first, const uint64_t *words)
{
	uint64_t h = first;

	for (size_t i = 0; i < PERCPU_OWNER_NAME_WORDS; i++) {
		h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 32;
	}
	return h;
}

int percpu_owner_check_name(const char *name)
{
	if (*name == '\0')
		return -EINVAL;
	if (strnlen(name, PERCPU_OWNER_NAME_SIZE) == PERCPU_OWNER_NAME_SIZE)
		return -ENAMETOOLONG;
	return percpu_text_is_utf8(name, strlen(name)) ? 0 : -EILSEQ;
}

void percpu_owner_store_name(struct percpu_owner_slot *s, uint64_t first, const char *name)
{
	uint64_t words[PERCPU_OWNER_NAME_WORDS] = { 0 };

	if (*name == '\0') {
		__atomic_store_n(&s->first, 0, __ATOMIC_RELEASE);
		return;
	}
	memcpy(words, name, strlen(name));
	__atomic_store_n(&s->first, first, __ATOMIC_RELEASE);
	PERCPU_STEP("owner: name to be stored");
	for (size_t i = 0; i < PERCPU_OWNER_NAME_WORDS; i++) {
		__atomic_store_n(&s->name[i], words[i], __ATOMIC_RELEASE);
		PERCPU_STEP("owner: name stored in part");
	}
	__atomic_store_n(&s->check, hash_of_name(first, words), __ATOMIC_RELEASE);
	PERCPU_STEP("owner: name stored");
}

bool percpu_owner_has_name(const struct percpu_owners *o, const struct percpu_owner_seen *seen,
			   const char *name)
{
	char own[PERCPU_OWNER_NAME_SIZE];

	percpu_owner_name(o, seen, own);
	return strcmp(own, name) == 0;
}

void percpu_owner_load_name(const struct percpu_owner_slot *s, uint64_t first, uint64_t now,
			    char ret[PERCPU_OWNER_NAME_SIZE])
{
	uint64_t words[PERCPU_OWNER_NAME_WORDS];
	const char *const name = (const char *)words;

	memset(ret, 0, PERCPU_OWNER_NAME_SIZE);
	if (first == 0 || first > now)
		return;
	for (size_t i = 0; i < PERCPU_OWNER_NAME_WORDS; i++) {
		words[i] = __atomic_load_n(&s->name[i], __ATOMIC_ACQUIRE);
		PERCPU_STEP("owner: name copied in part");
	}
	if (__atomic_load_n(&s->check, __ATOMIC_ACQUIRE) == hash_of_name(first, words) &&
	    memchr(words, '\0', sizeof(words)) != NULL && percpu_text_is_utf8(name, strlen(name)))
		strcpy(ret, name);
}
