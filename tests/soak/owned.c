/* SPDX-License-Identifier: MIT */
/*
 * owned.c - the soak test's operations on owned gauges. In two of them the values of all owners add
 * up to what the owners say they have added, as with a counter. The third one counts operations in
 * progress: it is never negative, and 0 when no worker lives, although some were killed in an
 * operation.
 */
#include <percpu/owned.h>

#include "../support.h"
#include "soak.h"

static struct percpu_owners *owners;
static struct percpu_owned_gauge *total, *level;
static struct percpu_owned_fgauge *ftotal;

void soak_owned_create(struct percpu_region *r)
{
	uint64_t *key = soak_board->owned_key;

	soak_require_equal("create owners", 0, (uint64_t)percpu_owners_create_in(r, &owners));
	soak_require_equal(
		"create owned gauges", 0,
		(uint64_t)(percpu_owned_gauge_create_in(owners, PERCPU_OWNED_SUM, &total) |
			   percpu_owned_fgauge_create_in(owners, PERCPU_OWNED_SUM, &ftotal) |
			   percpu_owned_gauge_create_in(owners, PERCPU_OWNED_SUM, &level)));
	key[0] = percpu_owners_key(owners);
	key[1] = percpu_owned_gauge_key(total);
	key[2] = percpu_owned_fgauge_key(ftotal);
	key[3] = percpu_owned_gauge_key(level);
}

struct percpu_owners *soak_owners(void)
{
	return owners;
}

void soak_owned_open(struct percpu_region *r)
{
	const uint64_t *key = soak_board->owned_key;

	soak_require_equal("attach to owners", 0,
			   (uint64_t)percpu_owners_attach(r, key[0], &owners));
	soak_require_equal("attach to owned gauges", 0,
			   (uint64_t)(percpu_owned_gauge_attach(owners, key[1], &total) |
				      percpu_owned_fgauge_attach(owners, key[2], &ftotal) |
				      percpu_owned_gauge_attach(owners, key[3], &level)));
}

void soak_owned_close(void)
{
	percpu_owned_gauge_detach(total);
	percpu_owned_fgauge_detach(ftotal);
	percpu_owned_gauge_detach(level);
	percpu_owners_detach(owners);
}

uint64_t soak_owned_fetch(uint32_t object)
{
	int64_t v = 0;
	double d = 0;
	int e;

	if (object == SOAK_OWNED) {
		e = percpu_owned_gauge_fetch(total, PERCPU_OWNED_ALL, &v);
	} else {
		e = percpu_owned_fgauge_fetch(ftotal, PERCPU_OWNED_ALL, &d);
		v = (int64_t)d;
	}
	soak_require_equal("read an owned gauge", 0, (uint64_t)e);
	return (uint64_t)v;
}

static int64_t in_progress(void)
{
	int64_t v = -1;

	soak_require_equal("read what is in progress", 0,
			   (uint64_t)percpu_owned_gauge_fetch(level, PERCPU_OWNED_LIVING, &v));
	return v;
}

void soak_owned_watch(void)
{
	int64_t v = in_progress();

	soak_require(v >= 0 && v <= SOAK_SLOTS, "operations in progress", SOAK_SLOTS, (uint64_t)v);
}

void soak_owned_check(void)
{
	soak_require_equal("operations in progress when all processes have ended", 0,
			   (uint64_t)in_progress());
}

/* Add to a gauge. The first update of a process joins the owners, which may time out. */
static void add(struct soak_journal *j, uint32_t object, int64_t n, unsigned times)
{
	const struct soak_pending p = { SOAK_ADDING, object, 1, { n } };
	int e;

	soak_begin(j, &p);
	while (times-- > 0) {
		e = object == SOAK_OWNED ? percpu_owned_gauge_add(total, n) :
					   percpu_owned_fgauge_add(ftotal, (double)n);
		if (!soak_did("add to an owned gauge", e, 0))
			continue;
		__atomic_store_n(&j->added[object], j->added[object] + (uint64_t)n,
				 __ATOMIC_RELEASE);
		j->count[SOAK_OWNED_ADD]++;
	}
	soak_end(j);
}

void soak_owned_op(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random);
	struct soak_journal *j = &t->slot->journal[0];
	int64_t n = 1 + (int64_t)(r >> 24) % 1000;

	if (!soak_did("begin an operation", percpu_owned_gauge_add(level, 1), 0))
		return;
	add(j, r % 2 ? SOAK_OWNED : SOAK_OWNED_DOUBLE, r / 2 % 2 ? n : -n,
	    1 + (unsigned)(r >> 8) % 500);
	if (r / 4 % 64 == 0)
		soak_owned_watch();
	soak_require_equal("end an operation", 0, (uint64_t)percpu_owned_gauge_add(level, -1));
}
