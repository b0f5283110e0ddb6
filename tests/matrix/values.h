/* SPDX-License-Identifier: MIT */
/*
 * values.h - values of each kind, for the programs of the matrix: private, or in a region that a
 * child shares. Compiled into each program, as their adds are inline.
 */
#ifndef TESTS_MATRIX_VALUES_H
#define TESTS_MATRIX_VALUES_H

#include <errno.h>
#include <stdbool.h>

#include <percpu/approx.h>
#include <percpu/fence.h>
#include <percpu/grace.h>
#include <percpu/percpu.h>
#include <percpu/rate.h>
#include <percpu/ref.h>
#include <percpu/rwlock.h>

#define VALUES_LIMIT (INT64_C(1) << 40)
#define VALUES_FENCE_NS UINT64_C(5000000000)

struct values {
	struct percpu_fcounter *fcounter;
	struct percpu_gauge *gauge;
	struct percpu_fgauge *fgauge; /* NULL in a file on a machine without atomic pairs */
	struct percpu_histogram *histogram, *ticks;
	struct percpu_extrema *extrema;
	struct percpu_rate *rate;
	struct percpu_approx *approx; /* as fgauge */
	struct percpu_owners *owners; /* NULL if private */
	struct percpu_owned_gauge *owned;
	struct percpu_ref *ref; /* NULL if not private */
	struct percpu_rwlock *lock;
	struct percpu_grace *grace;
};

static inline void values_release(struct percpu_ref *ref, void *arg)
{
	(void)ref, (void)arg;
}

static inline struct percpu_histogram_options values_options(uint64_t ticks_per_unit)
{
	return (struct percpu_histogram_options){ .size = sizeof(struct percpu_histogram_options),
						  .min = 1,
						  .max = 8,
						  .ticks_per_unit = ticks_per_unit };
}

static inline bool values_create(struct values *v)
{
	const struct percpu_histogram_options h = values_options(0), t = values_options(1);

	*v = (struct values){ .owners = NULL };
	return percpu_fcounter_create(&v->fcounter) == 0 && percpu_gauge_create(&v->gauge) == 0 &&
	       percpu_fgauge_create(&v->fgauge) == 0 &&
	       percpu_histogram_create(&h, &v->histogram) == 0 &&
	       percpu_histogram_create(&t, &v->ticks) == 0 &&
	       percpu_extrema_create(0, &v->extrema) == 0 &&
	       percpu_rate_create(PERCPU_RATE_MAX, PERCPU_RATE_MAX, &v->rate) == 0 &&
	       percpu_approx_create(NULL, &v->approx) == 0 &&
	       percpu_ref_create(values_release, NULL, 0, &v->ref) == 0 &&
	       percpu_rwlock_create(0, &v->lock) == 0 && percpu_grace_create(0, &v->grace) == 0;
}

static inline bool values_create_in(struct percpu_region *r, struct values *v)
{
	const struct percpu_histogram_options h = values_options(0), t = values_options(1);
	int e, f;

	*v = (struct values){ .owners = NULL };
	e = percpu_approx_create_in(r, NULL, &v->approx);
	f = percpu_fgauge_create_in(r, &v->fgauge);
	return e == f && (e == 0 || e == -ENOTSUP) &&
	       percpu_fcounter_create_in(r, &v->fcounter) == 0 &&
	       percpu_gauge_create_in(r, &v->gauge) == 0 &&
	       percpu_histogram_create_in(r, &h, &v->histogram) == 0 &&
	       percpu_histogram_create_in(r, &t, &v->ticks) == 0 &&
	       percpu_extrema_create_in(r, 0, &v->extrema) == 0 &&
	       percpu_rate_create_in(r, PERCPU_RATE_MAX, PERCPU_RATE_MAX, &v->rate) == 0 &&
	       percpu_owners_create_in(r, &v->owners) == 0 &&
	       percpu_owned_gauge_create_in(v->owners, PERCPU_OWNED_SUM, &v->owned) == 0 &&
	       percpu_rwlock_create_in(v->owners, 0, &v->lock) == 0 &&
	       percpu_grace_create_in(v->owners, 0, &v->grace) == 0;
}

/* Enter the lock and a section, and leave them in the same order. */
static inline bool values_enter(const struct values *v)
{
	bool ok = percpu_rwlock_read_lock(v->lock) == 0;
	int token = percpu_grace_enter(v->grace);

	ok = percpu_rwlock_read_unlock(v->lock) == 0 && ok;
	return token >= 0 && percpu_grace_exit(v->grace, token) == 0 && ok;
}

/* Add to each value, and observe a number. Returns whether all calls succeeded. */
static inline bool values_count(const struct values *v, int64_t number)
{
	bool ok = percpu_rate_check(v->rate);

	percpu_gauge_add(v->gauge, 3);
	percpu_gauge_dec(v->gauge);
	percpu_histogram_record(v->histogram, 3);
	percpu_histogram_record_ticks(v->ticks, 3);
	if (v->approx != NULL) {
		percpu_approx_add(v->approx, 1);
		ok = percpu_approx_add_below(v->approx, 1, VALUES_LIMIT) == 0 && ok;
	}
	return percpu_fcounter_add(v->fcounter, 0.5) == 0 &&
	       (v->fgauge == NULL || percpu_fgauge_add(v->fgauge, 0.5) == 0) &&
	       percpu_extrema_observe(v->extrema, number) == 0 &&
	       (v->owned == NULL || percpu_owned_gauge_add(v->owned, 1) == 0) &&
	       (v->ref == NULL || percpu_ref_tryget_live(v->ref)) && values_enter(v) && ok;
}

static inline bool values_in_histogram(const struct percpu_histogram *h, uint64_t n)
{
	struct percpu_histogram_snapshot *s;
	bool ok;

	if (percpu_histogram_snapshot_create(h, &s) != 0)
		return false;
	ok = percpu_histogram_fetch(h, 0, s) == 0 && s->count == n && s->sum == 3 * (double)n;
	percpu_histogram_snapshot_destroy(s);
	return ok;
}

/* Return whether the lock is free and no section is open. If the CPUs cannot be fenced, the
 * calls must return the fence's error. */
static inline bool values_are_left(const struct values *v)
{
	const int fence =
		v->owners != NULL ? percpu_fence_all(VALUES_FENCE_NS, NULL) : percpu_fence();
	const int locked = percpu_rwlock_write_lock(v->lock), waited = percpu_grace_wait(v->grace);

	return (locked == fence || locked == 0) && (waited == fence || waited == 0) &&
	       (locked != 0 || percpu_rwlock_write_unlock(v->lock) == 0) &&
	       percpu_grace_blockers(v->grace, NULL, 0) == 0 &&
	       percpu_rwlock_destroy(v->lock) == 0 && percpu_grace_destroy(v->grace) == 0;
}

/* Return whether values are those after n calls, with numbers from least to most. Call it once:
 * the reference is destroyed. */
static inline bool values_are(const struct values *v, uint64_t n, int64_t least, int64_t most)
{
	int64_t min = 0, max = 0, owned = 0;

	return percpu_fcounter_fetch(v->fcounter) == (double)n / 2 &&
	       (v->fgauge == NULL || percpu_fgauge_fetch(v->fgauge) == (double)n / 2) &&
	       percpu_gauge_fetch(v->gauge) == 2 * (int64_t)n &&
	       values_in_histogram(v->histogram, n) && values_in_histogram(v->ticks, n) &&
	       percpu_extrema_fetch(v->extrema, &min, &max) == 0 && min == least && max == most &&
	       percpu_rate_allowed(v->rate) == n && percpu_rate_refused(v->rate) == 0 &&
	       (v->approx == NULL || percpu_approx_fetch(v->approx) == 2 * (int64_t)n) &&
	       (v->owned == NULL ||
		(percpu_owned_gauge_fetch(v->owned, PERCPU_OWNED_ALL, &owned) == 0 &&
		 owned == (int64_t)n)) &&
	       (v->ref == NULL || percpu_ref_fetch(v->ref) == 1 + (int64_t)n) && values_are_left(v);
}

#endif
