/* SPDX-License-Identifier: MIT */
/*
 * extrema.c - the soak test's operations on minima and maxima in the shared region: of words, which
 * are never reset, and of doubles, which any thread resets.
 *
 * A thread announces what it observes. It notes what it has observed, and what its resets have
 * returned. If it is killed in a reset, the values that this reset took are not known.
 */
#include <errno.h>

#include <percpu/extrema.h>

#include "../support.h"
#include "soak.h"

enum { KEPT, TAKEN };

static struct percpu_extrema *extrema[SOAK_EXTREMA];

void soak_shared_extrema_create(struct percpu_region *r)
{
	for (unsigned i = 0; i < SOAK_EXTREMA; i++) {
		soak_require_equal("create extrema in the region", 0,
				   (uint64_t)percpu_extrema_create_in(
					   r, i == TAKEN ? PERCPU_EXTREMA_DOUBLE : 0, &extrema[i]));
		soak_board->extrema_key[i] = percpu_extrema_key(extrema[i]);
	}
}

void soak_shared_extrema_open(struct percpu_region *r)
{
	for (unsigned i = 0; i < SOAK_EXTREMA; i++)
		soak_require_equal("attach to extrema", 0,
				   (uint64_t)percpu_extrema_attach(r, soak_board->extrema_key[i],
								   &extrema[i]));
}

void soak_shared_extrema_close(void)
{
	for (unsigned i = 0; i < SOAK_EXTREMA; i++)
		percpu_extrema_detach(extrema[i]);
}

/* Include extremes in *r. Both 0 means empty: 0 is never observed. */
static void include(struct soak_extremes *r, int64_t min, int64_t max)
{
	if (min != 0 && (r->min == 0 || min < r->min))
		r->min = min;
	if (max != 0 && (r->max == 0 || max > r->max))
		r->max = max;
}

/* Return whether the extremes could be read. */
static bool fetch(unsigned object, struct soak_extremes *ret)
{
	double min, max;
	int e;

	*ret = (struct soak_extremes){ 0, 0 };
	if (object == KEPT) {
		e = percpu_extrema_fetch(extrema[KEPT], &ret->min, &ret->max);
	} else {
		e = percpu_extrema_fetch_double(extrema[TAKEN], &min, &max);
		if (e == 0)
			*ret = (struct soak_extremes){ (int64_t)min, (int64_t)max };
	}
	return soak_did("read extrema", e, -ENODATA) || e == -ENODATA;
}

/* Observe values that are mostly further out than the thread's earlier ones. */
static void observe(struct soak_journal *j, unsigned object, uint64_t random)
{
	int64_t v = (int64_t)(++j->count[SOAK_OBSERVE] << 16 | random >> 48);
	int e;

	if (random % 2)
		v = -v;
	include(&j->announced[object], v, v);
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* a killed thread has announced it */
	e = object == KEPT ? percpu_extrema_observe(extrema[KEPT], v) :
			     percpu_extrema_observe_double(extrema[TAKEN], (double)v);
	if (soak_did("observe", e, 0))
		include(&j->observed[object], v, v);
}

/* Read and reset. If other threads disturb it, give up until the next time. */
static void take(struct soak_journal *j)
{
	double min, max;
	int e;

	__atomic_store_n(&j->resetting, true, __ATOMIC_RELAXED);
	e = percpu_extrema_fetch_reset_double(extrema[TAKEN], &min, &max);
	soak_require(e == 0 || e == -ENODATA || e == -EAGAIN || e == -EPERM || e == -ETIMEDOUT,
		     "reset extrema", 0, (uint64_t)e);
	if (e == 0)
		include(&j->got, (int64_t)min, (int64_t)max);
	__atomic_store_n(&j->resetting, false, __ATOMIC_RELEASE);
	j->count[SOAK_RESET]++;
}

static void look(struct soak_thread *t)
{
	struct soak_extremes before = t->extremes;

	if (!fetch(KEPT, &t->extremes) || before.min == 0)
		return;
	soak_require(t->extremes.min <= before.min, "a minimum never grows", (uint64_t)before.min,
		     (uint64_t)t->extremes.min);
	soak_require(t->extremes.max >= before.max, "a maximum never shrinks", (uint64_t)before.max,
		     (uint64_t)t->extremes.max);
}

void soak_extrema_signal(struct soak_thread *t)
{
	struct soak_journal *j = &t->slot->journal[1];

	observe(j, j->count[SOAK_SIGNAL] % SOAK_EXTREMA, j->count[SOAK_SIGNAL] * 11);
}

void soak_shared_extrema_op(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random);

	if (r % 16 == 0)
		take(&t->slot->journal[0]);
	else if (r % 16 == 1)
		look(t);
	else
		for (uint64_t times = 0; times < (r >> 8) % 100; times++)
			observe(&t->slot->journal[0], r / 16 % SOAK_EXTREMA,
				test_random(&t->random));
}

/* Add up the journals. Return whether a thread was killed in a reset. */
static bool add_up(unsigned object, uint32_t n, soak_journal_fn *journal,
		   struct soak_extremes *announced, struct soak_extremes *observed,
		   struct soak_extremes *found)
{
	const struct soak_journal *j;
	bool lost = false;

	for (uint32_t i = 0; i < n; i++) {
		j = journal(i);
		include(announced, j->announced[object].min, j->announced[object].max);
		include(observed, j->observed[object].min, j->observed[object].max);
		if (object == TAKEN) {
			include(found, j->got.min, j->got.max);
			lost |= j->resetting;
		}
	}
	return lost;
}

void soak_extrema_check(uint32_t n, soak_journal_fn *journal)
{
	for (unsigned object = 0; object < SOAK_EXTREMA; object++) {
		struct soak_extremes announced = { 0, 0 }, observed = { 0, 0 }, found;
		bool lost;

		if (!fetch(object, &found))
			continue;
		lost = add_up(object, n, journal, &announced, &observed, &found);
		soak_require(found.min == 0 ||
				     (found.min >= announced.min && found.max <= announced.max),
			     "extrema are of what was observed", (uint64_t)announced.max,
			     (uint64_t)found.max);
		soak_require(lost || observed.min == 0 ||
				     (found.min <= observed.min && found.max >= observed.max),
			     "extrema include all that was observed", (uint64_t)observed.max,
			     (uint64_t)found.max);
	}
}
