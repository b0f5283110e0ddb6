/* SPDX-License-Identifier: MIT */
/*
 * grace.c - the soak test's operations on grace periods, private ones and shared ones. Readers look
 * at the current element, and some threads replace it. The old element is reclaimed after a period,
 * and no reader may look at it then. A killed thread leaves an element that is never reclaimed.
 */
#include <percpu/grace.h>

#include "../support.h"
#include "soak.h"

enum { FREE, LIVE, RETIRED };

#define WAIT_NS UINT64_C(500000000)

/* Grace periods, by a handle of this process, and the current element. */
struct current {
	struct percpu_grace *grace;
	uint32_t *element, *which; /* atomic */
	bool used;		   /* atomic: signal handlers may use it now */
};

static uint32_t element[SOAK_ELEMENTS], which;
static struct current private = { .element = element, .which = &which };
static struct current shared;

/* The callbacks of the private elements. Each waits for one callback at a time. */
static struct percpu_grace_callback callback[SOAK_ELEMENTS];
static uint64_t called, ran; /* atomic */

static void begin(struct current *c)
{
	for (unsigned i = 0; i < SOAK_ELEMENTS; i++)
		c->element[i] = i == 0 ? LIVE : FREE;
	*c->which = 0;
}

void soak_grace_create(void)
{
	begin(&private);
	soak_require_equal("create private grace periods", 0,
			   (uint64_t)percpu_grace_create(0, &private.grace));
}

void soak_grace_destroy(void)
{
	soak_require_equal("wait for callbacks", 0, (uint64_t)percpu_grace_barrier(private.grace));
	soak_require_equal("callbacks that have run", called, ran);
	soak_require_equal("destroy grace periods", 0,
			   (uint64_t)percpu_grace_destroy(private.grace));
}

static void use_board(void)
{
	shared.element = soak_board->element;
	shared.which = &soak_board->current;
}

void soak_shared_grace_create(void)
{
	soak_require_equal("create grace periods", 0,
			   (uint64_t)percpu_grace_create_in(soak_owners(), 0, &shared.grace));
	soak_board->grace_key = percpu_grace_key(shared.grace);
	use_board();
	begin(&shared);
}

void soak_shared_grace_open(void)
{
	use_board();
	soak_require_equal("attach to grace periods", 0,
			   (uint64_t)percpu_grace_attach(soak_owners(), soak_board->grace_key, 0,
							 &shared.grace));
}

void soak_shared_grace_close(void)
{
	soak_require_equal("detach grace periods", 0, (uint64_t)percpu_grace_detach(shared.grace));
}

static void look_at(const struct current *c, uint32_t i)
{
	soak_require(__atomic_load_n(&c->element[i], __ATOMIC_RELAXED) != FREE,
		     "an element that was current in a section", LIVE, FREE);
}

static bool read_once(struct current *c, unsigned us)
{
	int token = percpu_grace_enter(c->grace);
	uint32_t i;

	if (!soak_did("enter a section", token < 0 ? token : 0, 0))
		return false;
	__atomic_store_n(&c->used, true, __ATOMIC_RELAXED);
	i = __atomic_load_n(c->which, __ATOMIC_ACQUIRE);
	look_at(c, i);
	if (us != 0)
		test_sleep_us(us);
	look_at(c, i);
	soak_require_equal("end a section", 0, (uint64_t)percpu_grace_exit(c->grace, token));
	return true;
}

static void read_some(struct soak_thread *t, struct current *c, uint64_t r)
{
	for (unsigned n = 1 + (unsigned)(r % 100); n > 0; n--) {
		if (!read_once(c, n == 1 && r / 128 % 32 == 0 ? r / 4096 % 512 : 0))
			return;
		t->slot->journal[0].count[SOAK_SECTION]++;
	}
}

/* Take a free element. Return SOAK_ELEMENTS if there is none. */
static uint32_t take_element(struct current *c)
{
	for (uint32_t i = 0; i < SOAK_ELEMENTS; i++) {
		uint32_t free = FREE;

		if (__atomic_compare_exchange_n(&c->element[i], &free, LIVE, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return i;
	}
	return SOAK_ELEMENTS;
}

/* Replace the current element. Return the old one, or SOAK_ELEMENTS. */
static uint32_t replace_element(struct current *c)
{
	const uint32_t i = take_element(c);
	uint32_t old;

	if (i == SOAK_ELEMENTS)
		return i;
	old = __atomic_exchange_n(c->which, i, __ATOMIC_ACQ_REL);
	__atomic_store_n(&c->element[old], RETIRED, __ATOMIC_RELAXED);
	return old;
}

static void replace_and_wait(struct soak_thread *t, struct current *c)
{
	const uint32_t old = replace_element(c);

	if (old == SOAK_ELEMENTS ||
	    !soak_did("wait for a grace period", percpu_grace_wait_timed(c->grace, WAIT_NS), 0))
		return;
	__atomic_store_n(&c->element[old], FREE, __ATOMIC_RELEASE);
	t->slot->journal[0].count[SOAK_PERIOD]++;
}

static void reclaim(struct percpu_grace_callback *c)
{
	__atomic_fetch_add(&ran, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&element[c - callback], FREE, __ATOMIC_RELEASE);
}

static void replace_and_call(struct soak_thread *t)
{
	const uint32_t old = replace_element(&private);

	if (old == SOAK_ELEMENTS)
		return;
	__atomic_fetch_add(&called, 1, __ATOMIC_RELAXED);
	soak_require_equal("call after a grace period", 0,
			   (uint64_t)percpu_grace_call(private.grace, &callback[old], reclaim));
	t->slot->journal[0].count[SOAK_CALLBACK]++;
}

void soak_grace_op(struct soak_thread *t)
{
	const uint64_t r = test_random(&t->random) >> 9;

	if (r % 32 == 0)
		replace_and_wait(t, &private);
	else if (r % 32 < 8)
		replace_and_call(t);
	else
		read_some(t, &private, r / 32);
}

void soak_shared_grace_op(struct soak_thread *t)
{
	const uint64_t r = test_random(&t->random) >> 9;

	if (r % 64 == 0)
		replace_and_wait(t, &shared);
	else
		read_some(t, &shared, r / 64);
}

/* Use sections in a signal handler. In a region the first section of a process, also of a child,
 * may not be a signal handler's. */
void soak_grace_signal(void)
{
	(void)read_once(&private, 0);
	if (__atomic_load_n(&shared.used, __ATOMIC_RELAXED))
		(void)read_once(&shared, 0);
}
