/* SPDX-License-Identifier: MIT */
/*
 * twins.h - objects that differ in little but their names, behind the same operations: a test of
 * one is a test of all.
 */
#ifndef TESTS_UNIT_TWINS_H
#define TESTS_UNIT_TWINS_H

#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/grace.h>
#include <percpu/percpu.h>
#include <percpu/rate.h>
#include <percpu/ring.h>
#include <percpu/rwlock.h>

#include "support.h"

/* Each is made in the same way, in memory of the process, in a region, or in owners. */
enum twin {
	TWIN_COUNTER,
	TWIN_COUNTERS,
	TWIN_FCOUNTER,
	TWIN_FCOUNTERS,
	TWIN_GAUGE,
	TWIN_FGAUGE,
	TWIN_LATEST,
	TWIN_COMPACT,
	TWIN_STATS,
	TWIN_WHOLE_STATS,
	TWIN_EXTREMA,
	TWIN_FEXTREMA,
	TWIN_EXEMPLARS,
	TWIN_APPROX,
	TWIN_HISTOGRAM,
	TWIN_RATE,
	TWIN_RING,
	TWIN_KEEPING_RING,
	TWIN_OWNERS,
	TWIN_OWNED,
	TWIN_FOWNED,
	TWIN_RWLOCK,
	TWIN_GRACE,
	TWINS
};

#define TWIN_N 5 /* length of arrays: put() and get() use the last element */

union twin_handle {
	void *any;
	struct percpu_counter *counter;
	struct percpu_counter_array *counters;
	struct percpu_fcounter *fcounter;
	struct percpu_fcounter_array *fcounters;
	struct percpu_gauge *gauge;
	struct percpu_fgauge *fgauge;
	struct percpu_latest *latest;
	struct percpu_compact *compact;
	struct percpu_stats *stats;
	struct percpu_extrema *extrema;
	struct percpu_exemplars *exemplars;
	struct percpu_approx *approx;
	struct percpu_histogram *histogram;
	struct percpu_rate *rate;
	struct percpu_ring *ring;
	struct percpu_owners *owners;
	struct percpu_owned_gauge *owned;
	struct percpu_owned_fgauge *fowned;
	struct percpu_rwlock *rwlock;
	struct percpu_grace *grace;
};

/** A region, and owners in it, or NULL. */
struct twin_place {
	struct percpu_region *r;
	struct percpu_owners *o;
};

extern const char *const twin_names[TWINS];

/** Return whether an object can be in memory of the process alone. */
bool twin_is_private(enum twin t);

/** Return whether an object can be in a file, on this machine. */
bool twin_is_shared(enum twin t);

/** Return whether an object requires lanes of the default size. */
bool twin_knows_stride(enum twin t);

/** Return whether an object is made in owners. */
bool twin_has_owners(enum twin t);

/** The functions of these names. ret is NULL, or is stored to if the call returns 0. */
int twin_create(enum twin t, union twin_handle *ret);
int twin_create_in(enum twin t, const struct twin_place *p, union twin_handle *ret);
int twin_open(enum twin t, const struct twin_place *p, unsigned root, union twin_handle *ret);
int twin_attach(enum twin t, const struct twin_place *p, uint64_t key, union twin_handle *ret);
void twin_detach(enum twin t, union twin_handle h);
uint64_t twin_key(enum twin t, union twin_handle h);
void twin_destroy(enum twin t, union twin_handle h);

/** Add n to the object. n is not 0, and negative only if the twin takes that. Returns 0 or
 *  -errno; 0 if the call returns nothing. */
int twin_put(enum twin t, union twin_handle h, int n);

/** Return whether the twin takes negative numbers. */
bool twin_takes_negative(enum twin t);

/** Return the object's value, 0 if nothing was put: the sum, or else the last or the largest
 *  value. */
int64_t twin_get(enum twin t, union twin_handle h);

/** Return whether the object has a value. */
bool twin_has_value(enum twin t);

/** Return whether the value is a sum. */
bool twin_adds_up(enum twin t);

/** Reset the object. Returns 0 or -errno; -ENOSYS if there is no such call. */
int twin_reset(enum twin t, union twin_handle h);

/** Return a number that differs if the layout, the flags or the rule does. */
int64_t twin_told(enum twin t, union twin_handle h);

#endif
