/* SPDX-License-Identifier: MIT */
/*
 * results.c - results that compilers warn about when they are ignored, in C and C++; the others
 * may be ignored. headers.sh compiles it.
 */
#include <percpu/fence.h>
#include <percpu/local.h>
#include <percpu/owner.h>
#include <percpu/percpu.h>
#include <percpu/rate.h>
#include <percpu/ref.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>

struct percpu_counter *counter;
struct percpu_fcounter *fcounter;
struct percpu_gauge *gauge;
struct percpu_extrema *extrema;
struct percpu_stats *stats;
struct percpu_local *local;
struct percpu_wbuf *wbuf;
struct percpu_zone *zone;
struct percpu_region *region;
struct percpu_owners *owners;
struct percpu_ref *ref;
struct percpu_rate *rate;
uint64_t cell;

void adds_and_frees(void *item);
void adds_and_frees(void *item)
{
	const uint64_t two[2] = { 1, 2 };

	percpu_fcounter_add(fcounter, 0.5);
	percpu_gauge_set(gauge, 5);
	percpu_extrema_observe(extrema, 1);
	percpu_stats_update(stats, 0, 0, two, 2);
	percpu_local_add(local, 1);
	percpu_local_store(local, 1);
	percpu_wbuf_add(wbuf, &cell, 1);
	percpu_wbuf_try_flush(wbuf);
	percpu_zone_free(zone, item);
	percpu_zone_destroy(zone);
	percpu_region_free(region, item, 8);
}

void dropped(void);
void dropped(void)
{
#ifdef REFUSED_CREATE
	percpu_counter_create(&counter);
#endif
#ifdef REFUSED_DOUBLE /* into a gauge of integers */
	percpu_fgauge_set(gauge, 0.5);
#endif
#ifdef REFUSED_OPEN
	percpu_region_open("x", 0, NULL, &region);
#endif
#ifdef REFUSED_ALLOC
	void *item;

	percpu_zone_alloc(zone, 0, &item);
#endif
#ifdef REFUSED_ROOT
	percpu_region_set_root(region, 0, 0, 8);
#endif
#ifdef REFUSED_SNAPSHOT
	uint64_t out[2];

	percpu_stats_snapshot(stats, 0, 1, out);
#endif
#ifdef REFUSED_INLINE
	int64_t old;

	percpu_local_xchg(local, 1, &old);
#endif
#ifdef REFUSED_FENCE
	percpu_fence();
#endif
#ifdef REFUSED_RESET
	percpu_extrema_reset(extrema);
#endif
#ifdef REFUSED_JOIN
	percpu_owners_join(owners);
#endif
#ifdef REFUSED_KILL
	percpu_ref_kill(ref);
#endif
#ifdef REFUSED_SETTING
	percpu_rate_set_limit(rate, 1);
#endif
}
