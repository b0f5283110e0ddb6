/* SPDX-License-Identifier: MIT */
/*
 * twins.h - objects that differ in little but their names, behind the same operations: what is
 * tested of one is tested of all.
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

/* Each is made in the same way, in memory of the process, or in a region, or of owners. */
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

#define TWIN_N 5 /* of those that are many: put() and get() are of the last one */

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

/** Whether it can be in memory of the process alone; and whether in a file, on this machine. */
bool twin_is_private(enum twin t);
bool twin_is_shared(enum twin t);

/** Whether it can only be where lanes have the default size. */
bool twin_knows_stride(enum twin t);

/** Whether it is made in owners. */
bool twin_has_owners(enum twin t);

/** The calls of these names. ret is NULL, or is stored to if that returns 0. */
int twin_create(enum twin t, union twin_handle *ret);
int twin_create_in(enum twin t, const struct twin_place *p, union twin_handle *ret);
int twin_open(enum twin t, const struct twin_place *p, unsigned root, union twin_handle *ret);
int twin_attach(enum twin t, const struct twin_place *p, uint64_t key, union twin_handle *ret);
void twin_detach(enum twin t, union twin_handle h);
uint64_t twin_key(enum twin t, union twin_handle h);
void twin_destroy(enum twin t, union twin_handle h);

/** Let it have n more: n is not 0, and negative only if the twin takes that. Returns 0 or -errno,
 *  where the call has no result 0. */
int twin_put(enum twin t, union twin_handle h, int n);
bool twin_takes_negative(enum twin t);

/** What it has; 0 if nothing was put. Of what has only the last or the largest, that. */
int64_t twin_get(enum twin t, union twin_handle h);
bool twin_has_value(enum twin t);
bool twin_adds_up(enum twin t);

/** Reset it. Returns 0 or -errno; -ENOSYS if there is no such call. */
int twin_reset(enum twin t, union twin_handle h);

/** A number that differs if the layout, the flags or the rule does. */
int64_t twin_told(enum twin t, union twin_handle h);

#endif
