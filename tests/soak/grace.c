/* SPDX-License-Identifier: MIT */
/*
 * grace.c - the soak test's operations on grace periods: readers look at what is current, and some
 * replace that. What was replaced is reclaimed after a period, and nobody may be looking at it
 * then. Who is killed leaves an element that nobody reclaims.
 */
#include <percpu/grace.h>

#include "../support.h"
#include "soak.h"

enum { FREE, LIVE, RETIRED };

#define WAIT_NS UINT64_C(500000000)

static struct percpu_grace *grace;

void soak_grace_create(void)
{
	soak_require_equal("create grace periods", 0,
			   (uint64_t)percpu_grace_create_in(soak_owners(), 0, &grace));
	soak_board->grace_key = percpu_grace_key(grace);
	for (unsigned i = 0; i < SOAK_ELEMENTS; i++)
		soak_board->element[i] = i == 0 ? LIVE : FREE;
	soak_board->current = 0;
}

void soak_grace_open(void)
{
	soak_require_equal(
		"attach to grace periods", 0,
		(uint64_t)percpu_grace_attach(soak_owners(), soak_board->grace_key, 0, &grace));
}

void soak_grace_close(void)
{
	soak_require_equal("detach grace periods", 0, (uint64_t)percpu_grace_detach(grace));
}

static void look_at(uint32_t i)
{
	soak_require(__atomic_load_n(&soak_board->element[i], __ATOMIC_RELAXED) != FREE,
		     "an element that was current in a section", LIVE, FREE);
}

static void read_some(struct soak_thread *t, uint64_t r)
{
	uint32_t i;
	int token;

	for (unsigned n = 1 + (unsigned)(r % 100); n > 0; n--) {
		token = percpu_grace_enter(grace);
		if (!soak_did("enter a section", token < 0 ? token : 0, 0))
			return;
		i = __atomic_load_n(&soak_board->current, __ATOMIC_ACQUIRE);
		look_at(i);
		if (n == 1 && r / 128 % 32 == 0)
			test_sleep_us(r / 4096 % 512);
		look_at(i);
		soak_require_equal("end a section", 0, (uint64_t)percpu_grace_exit(grace, token));
		t->slot->journal[0].count[SOAK_SECTION]++;
	}
}

/* Returns SOAK_ELEMENTS if none is free. */
static uint32_t take_element(void)
{
	for (uint32_t i = 0; i < SOAK_ELEMENTS; i++) {
		uint32_t free = FREE;

		if (__atomic_compare_exchange_n(&soak_board->element[i], &free, LIVE, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return i;
	}
	return SOAK_ELEMENTS;
}

static void replace_element(struct soak_thread *t)
{
	const uint32_t i = take_element();
	uint32_t old;

	if (i == SOAK_ELEMENTS)
		return;
	old = __atomic_exchange_n(&soak_board->current, i, __ATOMIC_ACQ_REL);
	__atomic_store_n(&soak_board->element[old], RETIRED, __ATOMIC_RELAXED);
	if (!soak_did("wait for a grace period", percpu_grace_wait_timed(grace, WAIT_NS), 0))
		return;
	__atomic_store_n(&soak_board->element[old], FREE, __ATOMIC_RELEASE);
	t->slot->journal[0].count[SOAK_PERIOD]++;
}

void soak_grace_op(struct soak_thread *t)
{
	const uint64_t r = test_random(&t->random) >> 9;

	if (r % 64 == 0)
		replace_element(t);
	else
		read_some(t, r / 64);
}
