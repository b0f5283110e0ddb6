/* SPDX-License-Identifier: MIT */
/*
 * ref_mode.c - reference counts: create and free them, switch them between per CPU and atomic, kill
 * and revive them. ref.h has the states, and says why that is exact.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "../cpu/debug.h"
#include "ref.h"

static pthread_mutex_t ref_lock = PTHREAD_MUTEX_INITIALIZER;

static void ref_lock_take(void)
{
	percpu_mutex_lock(&ref_lock);
}

static void ref_lock_release(void)
{
	percpu_mutex_unlock(&ref_lock);
}

__attribute__((constructor)) static void ref_join_forks(void)
{
	static const struct percpu_fork_part part = { .before = ref_lock_take,
						      .after = ref_lock_release };

	percpu_fork_register(PERCPU_FORK_REFS, &part);
}

/* Take the lock. Returns the argument of end_switch(). */
static int begin_switch(void)
{
	int cancel = percpu_defer_cancel();

	ref_lock_take();
	return cancel;
}

static void end_switch(int cancel)
{
	ref_lock_release();
	percpu_restore_cancel(cancel);
}

/* Open the cells: sequences count in them. */
static void let_count(struct counted_ref *r)
{
	__atomic_store_n(&r->pub.cells, (uint64_t)(uintptr_t)r->cells, __ATOMIC_RELEASE);
}

/* Close the cells: sequences are refused. Wait until those that have begun are over. Returns 0; or
 * an error of the fence, and the cells are open again. */
static int close_cells(struct counted_ref *r)
{
	int e;

	if (percpu_ref_is_closed(&r->pub))
		return 0;
	__atomic_store_n(&r->pub.cells, PERCPU_SEQ_CLOSED, __ATOMIC_RELEASE);
	PERCPU_STEP("ref: closed");
	e = percpu_fence();
	if (e != 0)
		let_count(r);
	return e;
}

/* Add the cells, which are closed, to the word, and set these bits. Returns 0; or -ERANGE if the
 * number of references is negative, or too large. Then it is set to 0. */
static int fold_cells(struct counted_ref *r, uint64_t bits)
{
	uint64_t w = percpu_ref_word(r), cells = 0, number;
	int e;

	if ((w & REF_SPREAD) != 0)
		cells = percpu_counter_fetch(r->cells);
	PERCPU_STEP("ref: cells summed");
	do {
		number = (w + cells) & REF_NUMBER;
		e = number <= PERCPU_REF_MAX ? 0 : -ERANGE;
		if (e != 0)
			number = 0;
	} while (!percpu_ref_cmpxchg(r, &w, number | (w & REF_DEAD) | bits));
	return e;
}

/* Zero the cells, which are closed, before the count becomes per CPU. Returns SPREAD, or 0 if the
 * count stays atomic. */
static uint64_t prepare_cells(struct counted_ref *r)
{
	if (r->stays_atomic)
		return 0;
	percpu_counter_zero(r->cells);
	PERCPU_STEP("ref: cells zeroed");
	return REF_SPREAD;
}

/* Open the cells if spread is not 0. */
static void open_cells(struct counted_ref *r, uint64_t spread)
{
	PERCPU_STEP("ref: spread");
	if (spread != 0)
		let_count(r);
}

int percpu_ref_create(percpu_ref_fn *release, void *arg, unsigned flags, struct percpu_ref **ret)
{
	const unsigned known = PERCPU_REF_INIT_ATOMIC | PERCPU_REF_INIT_DEAD | PERCPU_REF_DEBUG;
	struct counted_ref *r;
	int e;

	if (release == NULL || ret == NULL || (flags & ~known) != 0)
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	e = percpu_counter_create(&r->cells);
	if (e != 0) {
		free(r);
		return e;
	}
	r->release = release;
	r->arg = arg;
	r->debug = (percpu_debug_flags(flags, PERCPU_REF_DEBUG) & PERCPU_REF_DEBUG) != 0;
	r->stays_atomic = r->debug || (flags & PERCPU_REF_INIT_ATOMIC) != 0;
	if ((flags & PERCPU_REF_INIT_DEAD) != 0)
		r->count = REF_DEAD;
	else
		r->count = 1 | (r->stays_atomic ? 0 : REF_SPREAD);
	r->pub.cells = PERCPU_SEQ_CLOSED;
	if ((r->count & REF_SPREAD) != 0)
		let_count(r);
	*ret = &r->pub;
	return 0;
}

int percpu_ref_destroy(struct percpu_ref *ref)
{
	struct counted_ref *r = counted_of(ref);

	if (ref == NULL)
		return 0;
	if (!percpu_ref_is_zero(ref))
		return percpu_ref_complain(r, -EBUSY, "is destroyed, but there are references");
	percpu_counter_destroy(r->cells);
	free(r);
	return 0;
}

/* Make the count atomic and dead, and leave the initial reference. Returns as percpu_ref_kill(). */
static int make_dead(struct counted_ref *r)
{
	int cancel = begin_switch();
	int e = (percpu_ref_word(r) & REF_DEAD) != 0 ? -EALREADY : close_cells(r);

	if (e == 0)
		e = fold_cells(r, REF_DEAD);
	end_switch(cancel);
	return e;
}

int percpu_ref_kill(struct percpu_ref *ref)
{
	struct counted_ref *r = counted_of(ref);
	int e, put;

	if (ref == NULL)
		return -EINVAL;
	e = make_dead(r);
	if (e == -EALREADY)
		percpu_ref_mention(r, "is killed, but is dead");
	if (e != 0 && e != -ERANGE)
		return e;
	PERCPU_STEP("ref: dead");
	put = e == 0 ? percpu_ref_put_counted(r, 1) : e;
	return put != 0 ? percpu_ref_complain(r, put, "was put more often than it was got") : 0;
}

int percpu_ref_switch_to_atomic(struct percpu_ref *ref)
{
	struct counted_ref *r = counted_of(ref);
	int cancel, e;

	if (ref == NULL)
		return -EINVAL;
	cancel = begin_switch();
	e = close_cells(r);
	if (e == 0) {
		r->stays_atomic = true;
		e = fold_cells(r, 0);
	}
	end_switch(cancel);
	return e;
}

/* Make the count per CPU: now, or, if it is dead, when it is revived. Returns 0, or -ESTALE: the
 * count is 0 and not dead. Then it stays 0. */
static int make_percpu(struct counted_ref *r)
{
	uint64_t w = percpu_ref_word(r), spread;

	if ((w & REF_SPREAD) != 0)
		return 0;
	if (r->debug)
		return w == 0 ? -ESTALE : 0;
	r->stays_atomic = false;
	if ((w & REF_DEAD) != 0)
		return 0;
	spread = prepare_cells(r);
	do {
		if (w == 0)
			return -ESTALE;
	} while (!percpu_ref_cmpxchg(r, &w, w | spread));
	open_cells(r, spread);
	return 0;
}

int percpu_ref_switch_to_percpu(struct percpu_ref *ref)
{
	int cancel, e;

	if (ref == NULL)
		return -EINVAL;
	cancel = begin_switch();
	e = make_percpu(counted_of(ref));
	end_switch(cancel);
	if (e != 0)
		return percpu_ref_complain(counted_of(ref), e, "is made per CPU, but is 0");
	return 0;
}

/* Give a dead count an initial reference if it is 0 (from_zero), or if it is not 0. Returns 0; or
 * `otherwise` if the number is not as from_zero says; or -EALREADY, or -EOVERFLOW. */
static int revive(struct counted_ref *r, bool from_zero, int otherwise)
{
	int cancel = begin_switch(), e = 0;
	uint64_t w = percpu_ref_word(r), spread;

	if ((w & REF_DEAD) == 0)
		e = -EALREADY;
	spread = e == 0 ? prepare_cells(r) : 0;
	while (e == 0) {
		if ((w == REF_DEAD) != from_zero)
			e = otherwise;
		else if ((w & REF_NUMBER) == PERCPU_REF_MAX)
			e = -EOVERFLOW;
		else if (percpu_ref_cmpxchg(r, &w, ((w & REF_NUMBER) + 1) | spread))
			break;
	}
	if (e == 0)
		open_cells(r, spread);
	end_switch(cancel);
	return e;
}

int percpu_ref_reinit(struct percpu_ref *ref)
{
	struct counted_ref *r = counted_of(ref);
	int e = ref != NULL ? revive(r, true, -EBUSY) : -EINVAL;

	if (e == 0 || ref == NULL)
		return e;
	return percpu_ref_complain(
		r, e, e == -EALREADY ? "is revived, but is not dead" : "is revived, but is not 0");
}

int percpu_ref_resurrect(struct percpu_ref *ref)
{
	struct counted_ref *r = counted_of(ref);
	int e = ref != NULL ? revive(r, false, -ESTALE) : -EINVAL;

	if (e == 0 || ref == NULL || e == -EOVERFLOW)
		return e;
	return percpu_ref_complain(r, e,
				   e == -EALREADY ? "is resurrected, but is not dead" :
						    "is resurrected, but is 0");
}

int64_t percpu_ref_fetch(const struct percpu_ref *ref)
{
	const struct counted_ref *r = counted_of(ref);
	uint64_t w, sum;
	int cancel;

	if (ref == NULL)
		return 0;
	cancel = begin_switch();
	w = percpu_ref_word(r);
	sum = (w & REF_SPREAD) != 0 ? w + percpu_counter_fetch(r->cells) : w;
	end_switch(cancel);
	return (int64_t)(sum << 2) >> 2;
}
