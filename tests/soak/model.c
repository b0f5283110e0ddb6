/* SPDX-License-Identifier: MIT */
/*
 * model.c - compares what the workers say they have done with the objects.
 *
 * total = what was added - what was taken, apart from the operations in doubt of killed workers.
 * Some subset of these must explain the rest.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../support.h"
#include "soak.h"

#define MAX_DOUBTS 24

struct soak_board *soak_board;

struct soak_slot *soak_slot_new(void)
{
	uint32_t i = __atomic_fetch_add(&soak_board->slots, 1, __ATOMIC_RELAXED);

	if (i >= SOAK_SLOTS) {
		__atomic_fetch_sub(&soak_board->slots, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	soak_board->slot[i].pid = getpid();
	return &soak_board->slot[i];
}

void soak_begin(struct soak_journal *j, const struct soak_pending *p)
{
	j->pending.object = p->object;
	j->pending.words = p->words;
	memcpy(j->pending.n, p->n, sizeof(p->n));
	__atomic_store_n(&j->pending.what, p->what, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_RELEASE); /* stored before the announcement */
}

void soak_end(struct soak_journal *j)
{
	__atomic_store_n(&j->pending.what, SOAK_NOTHING, __ATOMIC_RELEASE);
}

void soak_require(bool ok, const char *what, uint64_t expected, uint64_t found)
{
	struct soak_board *b = soak_board;

	if (ok)
		return;
	if (__atomic_exchange_n(&b->failed, 1, __ATOMIC_ACQ_REL) == 0) {
		(void)snprintf(b->what, sizeof(b->what), "%s", what);
		b->expected = expected;
		b->found = found;
	}
	soak_give_up();
}

void soak_require_equal(const char *what, uint64_t expected, uint64_t found)
{
	soak_require(expected == found, what, expected, found);
}

bool soak_did(const char *what, int r, int refused)
{
	soak_require(r == 0 || r == refused || r == -ETIMEDOUT, what, 0, (uint64_t)r);
	return r == 0;
}

uint64_t soak_token(struct soak_thread *t)
{
	uint32_t r = (uint32_t)test_random(&t->random) | 1;

	return (uint64_t)r << 32 | (uint32_t)~r;
}

void soak_require_token(const char *what, uint64_t v)
{
	soak_require((uint32_t)(v >> 32) == (uint32_t)~v, what, (uint32_t) ~(v >> 32), (uint32_t)v);
}

uint32_t soak_slots(void)
{
	uint32_t n = __atomic_load_n(&soak_board->slots, __ATOMIC_ACQUIRE);

	return n < SOAK_SLOTS ? n : SOAK_SLOTS;
}

/* Return a journal. There are two per slot. */
static struct soak_journal *journal(uint32_t i)
{
	return &soak_board->slot[i / 2].journal[i % 2];
}

void soak_check_bounds(void)
{
	uint64_t done = 0, announced = 0, value;
	const struct soak_journal *j;
	int64_t n;

	for (uint32_t i = 0; i < 2 * soak_slots(); i++)
		done += __atomic_load_n(&journal(i)->added[SOAK_GROWS], __ATOMIC_ACQUIRE);
	value = soak_shared_fetch(SOAK_GROWS);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	/* Load what is pending before what is done: an operation that ends between is then seen
	 * twice, not missed. */
	for (uint32_t i = 0; i < 2 * soak_slots(); i++) {
		j = journal(i);
		if (__atomic_load_n(&j->pending.what, __ATOMIC_ACQUIRE) == SOAK_ADDING &&
		    j->pending.object == SOAK_GROWS) {
			/* Negative: it belongs to an operation that has begun since. */
			n = __atomic_load_n(&j->pending.n[0], __ATOMIC_RELAXED);
			announced += n > 0 ? (uint64_t)n : 0;
		}
		announced += __atomic_load_n(&j->added[SOAK_GROWS], __ATOMIC_ACQUIRE);
	}
	soak_require(value >= done, "a fetch includes what was added before", done, value);
	soak_require(value <= announced, "a fetch includes nothing but adds", announced, value);
}

/* Return whether some of the n doubts add up to rest. */
static bool explained(uint64_t rest, const uint64_t *doubt, unsigned n)
{
	if (rest == 0)
		return true;
	return n > 0 &&
	       (explained(rest, doubt + 1, n - 1) || explained(rest - doubt[0], doubt + 1, n - 1));
}

static void check_object(uint32_t object)
{
	uint64_t added = 0, taken = 0, doubt[MAX_DOUBTS], doubted = 0, found;
	const struct soak_pending *p;
	bool unknown = object == SOAK_ZEROED;
	unsigned doubts = 0;
	char what[64];

	for (uint32_t i = 0; i < 2 * soak_slots(); i++) {
		added += journal(i)->added[object];
		taken += journal(i)->taken[object];
		p = &journal(i)->pending;
		if (p->what == SOAK_NOTHING || object < p->object || object >= p->object + p->words)
			continue;
		if (p->what == SOAK_TAKING)
			unknown = true;
		else if (doubts < MAX_DOUBTS)
			doubt[doubts++] = (uint64_t)p->n[object - p->object];
	}
	found = soak_shared_fetch(object);
	(void)snprintf(what, sizeof(what), "total of shared object %u, %u adds in doubt", object,
		       doubts);
	if (!unknown) {
		soak_require(explained(found - (added - taken), doubt, doubts), what, added - taken,
			     found);
		return;
	}
	/* Only objects that grow are taken, so the value is between 0 and the sum of all adds
	 * that are not known to be taken. */
	for (unsigned i = 0; i < doubts; i++)
		doubted += doubt[i];
	soak_require(found <= added - taken + doubted, what, added - taken + doubted, found);
}

void soak_check_totals(void)
{
	soak_extrema_check(2 * soak_slots(), journal);
	soak_rwlock_check(2 * soak_slots(), journal);
	for (uint32_t object = 0; object < SOAK_OBJECTS; object++) {
		check_object(object);
		if (soak_shared_zero(object))
			soak_require_equal("an object that was zeroed", 0,
					   soak_shared_fetch(object));
	}
}

unsigned soak_collect(uint64_t count[SOAK_KINDS])
{
	unsigned doubts = 0;

	for (uint32_t i = 0; i < 2 * soak_slots(); i++) {
		for (int kind = 0; kind < SOAK_KINDS; kind++)
			count[kind] += journal(i)->count[kind];
		doubts += journal(i)->pending.what != SOAK_NOTHING || journal(i)->putting != 0;
	}
	return doubts;
}
