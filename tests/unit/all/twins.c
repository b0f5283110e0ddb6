/* SPDX-License-Identifier: MIT */
/* twins.c - see twins.h. */
#include <percpu/compact.h>
#include <percpu/grace.h>
#include <percpu/ring.h>
#include <percpu/rwlock.h>

#include "twins.h"

#include <errno.h>

#include "memory/memory.h"

#define LAST (TWIN_N - 1)
#define STATS_SIZE 24
#define PERIOD 3600000 /* of a rate, in ms: no test sees its end */
#define LIMIT 1000

const char *const twin_names[TWINS] = {
	[TWIN_COUNTER] = "counter",
	[TWIN_COUNTERS] = "counters",
	[TWIN_FCOUNTER] = "counter of doubles",
	[TWIN_FCOUNTERS] = "counters of doubles",
	[TWIN_GAUGE] = "gauge",
	[TWIN_FGAUGE] = "gauge of doubles",
	[TWIN_LATEST] = "latest value",
	[TWIN_COMPACT] = "compact counters",
	[TWIN_STATS] = "statistics",
	[TWIN_WHOLE_STATS] = "whole statistics",
	[TWIN_EXTREMA] = "extrema",
	[TWIN_FEXTREMA] = "extrema of doubles",
	[TWIN_EXEMPLARS] = "exemplars",
	[TWIN_APPROX] = "approximate sum",
	[TWIN_HISTOGRAM] = "histograms",
	[TWIN_RATE] = "rate",
	[TWIN_RING] = "ring",
	[TWIN_KEEPING_RING] = "ring that keeps",
	[TWIN_OWNERS] = "owners",
	[TWIN_OWNED] = "owned gauge",
	[TWIN_FOWNED] = "owned gauge of doubles",
	[TWIN_RWLOCK] = "lock",
	[TWIN_GRACE] = "grace periods",
};

static const struct percpu_approx_options approx = { .size = sizeof(approx), .batch = 64 };
static const struct percpu_histogram_options histogram = {
	.size = sizeof(histogram), .n = TWIN_N, .min = 0.5, .max = 64, .buckets_per_octave = 2
};

static unsigned stats_flags(enum twin t)
{
	return t == TWIN_WHOLE_STATS ? PERCPU_STATS_WHOLE : 0;
}

static unsigned extrema_flags(enum twin t)
{
	return t == TWIN_FEXTREMA ? PERCPU_EXTREMA_DOUBLE : 0;
}

static unsigned ring_flags(enum twin t)
{
	return t == TWIN_KEEPING_RING ? PERCPU_RING_KEEP : 0;
}

bool twin_has_owners(enum twin t)
{
	return t == TWIN_OWNED || t == TWIN_FOWNED || t == TWIN_RWLOCK || t == TWIN_GRACE;
}

bool twin_is_private(enum twin t)
{
	return t != TWIN_OWNERS && t != TWIN_OWNED && t != TWIN_FOWNED;
}

bool twin_is_shared(enum twin t)
{
	return percpu_pair_is_atomic() ||
	       (t != TWIN_GAUGE && t != TWIN_FGAUGE && t != TWIN_LATEST && t != TWIN_APPROX);
}

bool twin_knows_stride(enum twin t)
{
	return t == TWIN_COUNTER || t == TWIN_FCOUNTER || t == TWIN_GAUGE || t == TWIN_FGAUGE ||
	       t == TWIN_LATEST || t == TWIN_APPROX;
}

int twin_create(enum twin t, union twin_handle *ret)
{
	switch (t) {
	case TWIN_COUNTER:
		return percpu_counter_create(ret != NULL ? &ret->counter : NULL);
	case TWIN_COUNTERS:
		return percpu_counter_array_create(TWIN_N, ret != NULL ? &ret->counters : NULL);
	case TWIN_FCOUNTER:
		return percpu_fcounter_create(ret != NULL ? &ret->fcounter : NULL);
	case TWIN_FCOUNTERS:
		return percpu_fcounter_array_create(TWIN_N, ret != NULL ? &ret->fcounters : NULL);
	case TWIN_GAUGE:
		return percpu_gauge_create(ret != NULL ? &ret->gauge : NULL);
	case TWIN_FGAUGE:
		return percpu_fgauge_create(ret != NULL ? &ret->fgauge : NULL);
	case TWIN_LATEST:
		return percpu_latest_create(ret != NULL ? &ret->latest : NULL);
	case TWIN_COMPACT:
		return percpu_compact_create(TWIN_N, ret != NULL ? &ret->compact : NULL);
	case TWIN_STATS:
	case TWIN_WHOLE_STATS:
		return percpu_stats_create(STATS_SIZE, TWIN_N, stats_flags(t),
					   ret != NULL ? &ret->stats : NULL);
	case TWIN_EXTREMA:
	case TWIN_FEXTREMA:
		return percpu_extrema_create(extrema_flags(t), ret != NULL ? &ret->extrema : NULL);
	case TWIN_EXEMPLARS:
		return percpu_exemplars_create(NULL, ret != NULL ? &ret->exemplars : NULL);
	case TWIN_APPROX:
		return percpu_approx_create(&approx, ret != NULL ? &ret->approx : NULL);
	case TWIN_HISTOGRAM:
		return percpu_histogram_create(&histogram, ret != NULL ? &ret->histogram : NULL);
	case TWIN_RATE:
		return percpu_rate_create(LIMIT, PERIOD, ret != NULL ? &ret->rate : NULL);
	case TWIN_RING:
	case TWIN_KEEPING_RING:
		return percpu_ring_create(PERCPU_RING_MIN, ring_flags(t),
					  ret != NULL ? &ret->ring : NULL);
	case TWIN_RWLOCK:
		return percpu_rwlock_create(0, ret != NULL ? &ret->rwlock : NULL);
	case TWIN_GRACE:
		return percpu_grace_create(0, ret != NULL ? &ret->grace : NULL);
	default:
		return -ENOSYS;
	}
}

int twin_create_in(enum twin t, const struct twin_place *p, union twin_handle *ret)
{
	switch (t) {
	case TWIN_COUNTER:
		return percpu_counter_create_in(p->r, ret != NULL ? &ret->counter : NULL);
	case TWIN_COUNTERS:
		return percpu_counter_array_create_in(p->r, TWIN_N,
						      ret != NULL ? &ret->counters : NULL);
	case TWIN_FCOUNTER:
		return percpu_fcounter_create_in(p->r, ret != NULL ? &ret->fcounter : NULL);
	case TWIN_FCOUNTERS:
		return percpu_fcounter_array_create_in(p->r, TWIN_N,
						       ret != NULL ? &ret->fcounters : NULL);
	case TWIN_GAUGE:
		return percpu_gauge_create_in(p->r, ret != NULL ? &ret->gauge : NULL);
	case TWIN_FGAUGE:
		return percpu_fgauge_create_in(p->r, ret != NULL ? &ret->fgauge : NULL);
	case TWIN_LATEST:
		return percpu_latest_create_in(p->r, ret != NULL ? &ret->latest : NULL);
	case TWIN_COMPACT:
		return percpu_compact_create_in(p->r, TWIN_N, ret != NULL ? &ret->compact : NULL);
	case TWIN_STATS:
	case TWIN_WHOLE_STATS:
		return percpu_stats_create_in(p->r, STATS_SIZE, TWIN_N, stats_flags(t),
					      ret != NULL ? &ret->stats : NULL);
	case TWIN_EXTREMA:
	case TWIN_FEXTREMA:
		return percpu_extrema_create_in(p->r, extrema_flags(t),
						ret != NULL ? &ret->extrema : NULL);
	case TWIN_EXEMPLARS:
		return percpu_exemplars_create_in(p->r, NULL, ret != NULL ? &ret->exemplars : NULL);
	case TWIN_APPROX:
		return percpu_approx_create_in(p->r, &approx, ret != NULL ? &ret->approx : NULL);
	case TWIN_HISTOGRAM:
		return percpu_histogram_create_in(p->r, &histogram,
						  ret != NULL ? &ret->histogram : NULL);
	case TWIN_RATE:
		return percpu_rate_create_in(p->r, LIMIT, PERIOD, ret != NULL ? &ret->rate : NULL);
	case TWIN_RING:
	case TWIN_KEEPING_RING:
		return percpu_ring_create_in(p->r, PERCPU_RING_MIN, ring_flags(t),
					     ret != NULL ? &ret->ring : NULL);
	case TWIN_OWNERS:
		return percpu_owners_create_in(p->r, ret != NULL ? &ret->owners : NULL);
	case TWIN_OWNED:
		return percpu_owned_gauge_create_in(p->o, PERCPU_OWNED_MAX,
						    ret != NULL ? &ret->owned : NULL);
	case TWIN_FOWNED:
		return percpu_owned_fgauge_create_in(p->o, PERCPU_OWNED_MAX,
						     ret != NULL ? &ret->fowned : NULL);
	case TWIN_RWLOCK:
		return percpu_rwlock_create_in(p->o, 0, ret != NULL ? &ret->rwlock : NULL);
	case TWIN_GRACE:
		return percpu_grace_create_in(p->o, 0, ret != NULL ? &ret->grace : NULL);
	default:
		return -ENOSYS;
	}
}

int twin_open(enum twin t, const struct twin_place *p, unsigned root, union twin_handle *ret)
{
	switch (t) {
	case TWIN_COUNTER:
		return percpu_counter_open(p->r, root, ret != NULL ? &ret->counter : NULL);
	case TWIN_COUNTERS:
		return percpu_counter_array_open(p->r, root, TWIN_N,
						 ret != NULL ? &ret->counters : NULL);
	case TWIN_FCOUNTER:
		return percpu_fcounter_open(p->r, root, ret != NULL ? &ret->fcounter : NULL);
	case TWIN_FCOUNTERS:
		return percpu_fcounter_array_open(p->r, root, TWIN_N,
						  ret != NULL ? &ret->fcounters : NULL);
	case TWIN_GAUGE:
		return percpu_gauge_open(p->r, root, ret != NULL ? &ret->gauge : NULL);
	case TWIN_FGAUGE:
		return percpu_fgauge_open(p->r, root, ret != NULL ? &ret->fgauge : NULL);
	case TWIN_LATEST:
		return percpu_latest_open(p->r, root, ret != NULL ? &ret->latest : NULL);
	case TWIN_COMPACT:
		return percpu_compact_open(p->r, root, TWIN_N, ret != NULL ? &ret->compact : NULL);
	case TWIN_STATS:
	case TWIN_WHOLE_STATS:
		return percpu_stats_open(p->r, root, STATS_SIZE, TWIN_N, stats_flags(t),
					 ret != NULL ? &ret->stats : NULL);
	case TWIN_EXTREMA:
	case TWIN_FEXTREMA:
		return percpu_extrema_open(p->r, root, extrema_flags(t),
					   ret != NULL ? &ret->extrema : NULL);
	case TWIN_EXEMPLARS:
		return percpu_exemplars_open(p->r, root, NULL,
					     ret != NULL ? &ret->exemplars : NULL);
	case TWIN_APPROX:
		return percpu_approx_open(p->r, root, &approx, ret != NULL ? &ret->approx : NULL);
	case TWIN_HISTOGRAM:
		return percpu_histogram_open(p->r, root, &histogram,
					     ret != NULL ? &ret->histogram : NULL);
	case TWIN_RATE:
		return percpu_rate_open(p->r, root, LIMIT, PERIOD, ret != NULL ? &ret->rate : NULL);
	case TWIN_RING:
	case TWIN_KEEPING_RING:
		return percpu_ring_open(p->r, root, PERCPU_RING_MIN, ring_flags(t),
					ret != NULL ? &ret->ring : NULL);
	case TWIN_OWNERS:
		return percpu_owners_open(p->r, root, ret != NULL ? &ret->owners : NULL);
	case TWIN_OWNED:
		return percpu_owned_gauge_open(p->o, root, PERCPU_OWNED_MAX,
					       ret != NULL ? &ret->owned : NULL);
	case TWIN_FOWNED:
		return percpu_owned_fgauge_open(p->o, root, PERCPU_OWNED_MAX,
						ret != NULL ? &ret->fowned : NULL);
	case TWIN_RWLOCK:
		return percpu_rwlock_open(p->o, root, 0, ret != NULL ? &ret->rwlock : NULL);
	case TWIN_GRACE:
		return percpu_grace_open(p->o, root, 0, ret != NULL ? &ret->grace : NULL);
	default:
		return -ENOSYS;
	}
}

int twin_attach(enum twin t, const struct twin_place *p, uint64_t key, union twin_handle *ret)
{
	switch (t) {
	case TWIN_COUNTER:
		return percpu_counter_attach(p->r, key, ret != NULL ? &ret->counter : NULL);
	case TWIN_COUNTERS:
		return percpu_counter_array_attach(p->r, key, TWIN_N,
						   ret != NULL ? &ret->counters : NULL);
	case TWIN_FCOUNTER:
		return percpu_fcounter_attach(p->r, key, ret != NULL ? &ret->fcounter : NULL);
	case TWIN_FCOUNTERS:
		return percpu_fcounter_array_attach(p->r, key, TWIN_N,
						    ret != NULL ? &ret->fcounters : NULL);
	case TWIN_GAUGE:
		return percpu_gauge_attach(p->r, key, ret != NULL ? &ret->gauge : NULL);
	case TWIN_FGAUGE:
		return percpu_fgauge_attach(p->r, key, ret != NULL ? &ret->fgauge : NULL);
	case TWIN_LATEST:
		return percpu_latest_attach(p->r, key, ret != NULL ? &ret->latest : NULL);
	case TWIN_COMPACT:
		return percpu_compact_attach(p->r, key, TWIN_N, ret != NULL ? &ret->compact : NULL);
	case TWIN_STATS:
	case TWIN_WHOLE_STATS:
		return percpu_stats_attach(p->r, key, STATS_SIZE, TWIN_N, stats_flags(t),
					   ret != NULL ? &ret->stats : NULL);
	case TWIN_EXTREMA:
	case TWIN_FEXTREMA:
		return percpu_extrema_attach(p->r, key, ret != NULL ? &ret->extrema : NULL);
	case TWIN_EXEMPLARS:
		return percpu_exemplars_attach(p->r, key, NULL,
					       ret != NULL ? &ret->exemplars : NULL);
	case TWIN_APPROX:
		return percpu_approx_attach(p->r, key, ret != NULL ? &ret->approx : NULL);
	case TWIN_HISTOGRAM:
		return percpu_histogram_attach(p->r, key, ret != NULL ? &ret->histogram : NULL);
	case TWIN_RATE:
		return percpu_rate_attach(p->r, key, ret != NULL ? &ret->rate : NULL);
	case TWIN_RING:
	case TWIN_KEEPING_RING:
		return percpu_ring_attach(p->r, key, ret != NULL ? &ret->ring : NULL);
	case TWIN_OWNERS:
		return percpu_owners_attach(p->r, key, ret != NULL ? &ret->owners : NULL);
	case TWIN_OWNED:
		return percpu_owned_gauge_attach(p->o, key, ret != NULL ? &ret->owned : NULL);
	case TWIN_FOWNED:
		return percpu_owned_fgauge_attach(p->o, key, ret != NULL ? &ret->fowned : NULL);
	case TWIN_RWLOCK:
		return percpu_rwlock_attach(p->o, key, 0, ret != NULL ? &ret->rwlock : NULL);
	case TWIN_GRACE:
		return percpu_grace_attach(p->o, key, 0, ret != NULL ? &ret->grace : NULL);
	default:
		return -ENOSYS;
	}
}

void twin_detach(enum twin t, union twin_handle h)
{
	switch (t) {
	case TWIN_COUNTER:
		percpu_counter_detach(h.counter);
		break;
	case TWIN_COUNTERS:
		percpu_counter_array_detach(h.counters);
		break;
	case TWIN_FCOUNTER:
		percpu_fcounter_detach(h.fcounter);
		break;
	case TWIN_FCOUNTERS:
		percpu_fcounter_array_detach(h.fcounters);
		break;
	case TWIN_GAUGE:
		percpu_gauge_detach(h.gauge);
		break;
	case TWIN_FGAUGE:
		percpu_fgauge_detach(h.fgauge);
		break;
	case TWIN_LATEST:
		percpu_latest_detach(h.latest);
		break;
	case TWIN_COMPACT:
		percpu_compact_detach(h.compact);
		break;
	case TWIN_STATS:
	case TWIN_WHOLE_STATS:
		percpu_stats_detach(h.stats);
		break;
	case TWIN_EXTREMA:
	case TWIN_FEXTREMA:
		percpu_extrema_detach(h.extrema);
		break;
	case TWIN_EXEMPLARS:
		percpu_exemplars_detach(h.exemplars);
		break;
	case TWIN_APPROX:
		percpu_approx_detach(h.approx);
		break;
	case TWIN_HISTOGRAM:
		percpu_histogram_detach(h.histogram);
		break;
	case TWIN_RATE:
		percpu_rate_detach(h.rate);
		break;
	case TWIN_RING:
	case TWIN_KEEPING_RING:
		percpu_ring_detach(h.ring);
		break;
	case TWIN_OWNERS:
		percpu_owners_detach(h.owners);
		break;
	case TWIN_OWNED:
		percpu_owned_gauge_detach(h.owned);
		break;
	case TWIN_FOWNED:
		percpu_owned_fgauge_detach(h.fowned);
		break;
	case TWIN_RWLOCK:
		assert_int_equal(percpu_rwlock_detach(h.rwlock), 0);
		break;
	default:
		assert_int_equal(percpu_grace_detach(h.grace), 0);
	}
}

uint64_t twin_key(enum twin t, union twin_handle h)
{
	switch (t) {
	case TWIN_COUNTER:
		return percpu_counter_key(h.counter);
	case TWIN_COUNTERS:
		return percpu_counter_array_key(h.counters);
	case TWIN_FCOUNTER:
		return percpu_fcounter_key(h.fcounter);
	case TWIN_FCOUNTERS:
		return percpu_fcounter_array_key(h.fcounters);
	case TWIN_GAUGE:
		return percpu_gauge_key(h.gauge);
	case TWIN_FGAUGE:
		return percpu_fgauge_key(h.fgauge);
	case TWIN_LATEST:
		return percpu_latest_key(h.latest);
	case TWIN_COMPACT:
		return percpu_compact_key(h.compact);
	case TWIN_STATS:
	case TWIN_WHOLE_STATS:
		return percpu_stats_key(h.stats);
	case TWIN_EXTREMA:
	case TWIN_FEXTREMA:
		return percpu_extrema_key(h.extrema);
	case TWIN_EXEMPLARS:
		return percpu_exemplars_key(h.exemplars);
	case TWIN_APPROX:
		return percpu_approx_key(h.approx);
	case TWIN_HISTOGRAM:
		return percpu_histogram_key(h.histogram);
	case TWIN_RATE:
		return percpu_rate_key(h.rate);
	case TWIN_RING:
	case TWIN_KEEPING_RING:
		return percpu_ring_key(h.ring);
	case TWIN_OWNERS:
		return percpu_owners_key(h.owners);
	case TWIN_OWNED:
		return percpu_owned_gauge_key(h.owned);
	case TWIN_FOWNED:
		return percpu_owned_fgauge_key(h.fowned);
	case TWIN_RWLOCK:
		return percpu_rwlock_key(h.rwlock);
	default:
		return percpu_grace_key(h.grace);
	}
}

void twin_destroy(enum twin t, union twin_handle h)
{
	switch (t) {
	case TWIN_COUNTER:
		percpu_counter_destroy(h.counter);
		break;
	case TWIN_COUNTERS:
		percpu_counter_array_destroy(h.counters);
		break;
	case TWIN_FCOUNTER:
		percpu_fcounter_destroy(h.fcounter);
		break;
	case TWIN_FCOUNTERS:
		percpu_fcounter_array_destroy(h.fcounters);
		break;
	case TWIN_GAUGE:
		percpu_gauge_destroy(h.gauge);
		break;
	case TWIN_FGAUGE:
		percpu_fgauge_destroy(h.fgauge);
		break;
	case TWIN_LATEST:
		percpu_latest_destroy(h.latest);
		break;
	case TWIN_COMPACT:
		percpu_compact_destroy(h.compact);
		break;
	case TWIN_STATS:
	case TWIN_WHOLE_STATS:
		percpu_stats_destroy(h.stats);
		break;
	case TWIN_EXTREMA:
	case TWIN_FEXTREMA:
		percpu_extrema_destroy(h.extrema);
		break;
	case TWIN_EXEMPLARS:
		percpu_exemplars_destroy(h.exemplars);
		break;
	case TWIN_APPROX:
		percpu_approx_destroy(h.approx);
		break;
	case TWIN_HISTOGRAM:
		percpu_histogram_destroy(h.histogram);
		break;
	case TWIN_RATE:
		percpu_rate_destroy(h.rate);
		break;
	case TWIN_RING:
	case TWIN_KEEPING_RING:
		percpu_ring_destroy(h.ring);
		break;
	case TWIN_OWNERS:
		percpu_owners_destroy(h.owners);
		break;
	case TWIN_OWNED:
		percpu_owned_gauge_destroy(h.owned);
		break;
	case TWIN_FOWNED:
		percpu_owned_fgauge_destroy(h.fowned);
		break;
	case TWIN_RWLOCK:
		assert_int_equal(percpu_rwlock_destroy(h.rwlock), 0);
		break;
	default:
		assert_int_equal(percpu_grace_destroy(h.grace), 0);
	}
}

bool twin_takes_negative(enum twin t)
{
	return t < TWIN_HISTOGRAM && t != TWIN_EXTREMA && t != TWIN_FEXTREMA;
}

bool twin_has_value(enum twin t)
{
	return t != TWIN_OWNERS && t != TWIN_RWLOCK && t != TWIN_GRACE;
}

bool twin_adds_up(enum twin t)
{
	return twin_has_value(t) && t != TWIN_LATEST && t != TWIN_EXTREMA && t != TWIN_FEXTREMA &&
	       t != TWIN_EXEMPLARS && t != TWIN_OWNED && t != TWIN_FOWNED;
}

static int put_stats(struct percpu_stats *s, int n)
{
	const uint64_t delta[2] = { (uint64_t)n, (uint64_t)(2 * n) };

	return percpu_stats_update(s, LAST, 1, delta, 2);
}

static int put_many(enum twin t, union twin_handle h, int n)
{
	int e = 0;

	for (int i = 0; i < n && e == 0; i++)
		if (t == TWIN_HISTOGRAM)
			percpu_histogram_record_at(h.histogram, LAST, 2);
		else if (t == TWIN_RATE)
			e = percpu_rate_check(h.rate) ? 0 : -EDQUOT;
		else
			e = percpu_ring_put(h.ring, &i, sizeof(i));
	return e;
}

static int lock_both_ways(struct percpu_rwlock *l)
{
	int e = percpu_rwlock_read_lock(l);

	if (e == 0)
		e = percpu_rwlock_read_unlock(l);
	if (e == 0)
		e = percpu_rwlock_write_lock(l);
	return e != 0 ? e : percpu_rwlock_write_unlock(l);
}

static int enter_and_wait(struct percpu_grace *g)
{
	int token = percpu_grace_enter(g);
	int e = token < 0 ? token : percpu_grace_exit(g, token);

	return e != 0 ? e : percpu_grace_wait(g);
}

int twin_put(enum twin t, union twin_handle h, int n)
{
	switch (t) {
	case TWIN_COUNTER:
		return percpu_counter_add(h.counter, n), 0;
	case TWIN_COUNTERS:
		return percpu_counter_array_add(h.counters, LAST, n), 0;
	case TWIN_FCOUNTER:
		return percpu_fcounter_add(h.fcounter, n);
	case TWIN_FCOUNTERS:
		return percpu_fcounter_array_add(h.fcounters, LAST, n);
	case TWIN_GAUGE:
		return percpu_gauge_add(h.gauge, n), 0;
	case TWIN_FGAUGE:
		return percpu_fgauge_add(h.fgauge, n);
	case TWIN_LATEST:
		return percpu_latest_set(h.latest, n);
	case TWIN_COMPACT:
		return percpu_compact_add(h.compact, LAST, n), 0;
	case TWIN_STATS:
	case TWIN_WHOLE_STATS:
		return put_stats(h.stats, n);
	case TWIN_EXTREMA:
		return percpu_extrema_observe(h.extrema, n);
	case TWIN_FEXTREMA:
		return percpu_extrema_observe_double(h.extrema, n);
	case TWIN_EXEMPLARS:
		return percpu_exemplars_store(h.exemplars, n, NULL, 0);
	case TWIN_APPROX:
		return percpu_approx_add(h.approx, n), 0;
	case TWIN_OWNERS:
		return percpu_owners_join(h.owners);
	case TWIN_OWNED:
		return percpu_owned_gauge_set(h.owned, n);
	case TWIN_FOWNED:
		return percpu_owned_fgauge_set(h.fowned, n);
	case TWIN_RWLOCK:
		return lock_both_ways(h.rwlock);
	case TWIN_GRACE:
		return enter_and_wait(h.grace);
	default:
		return put_many(t, h, n);
	}
}

/* Return the value of the last object. Asserts that both fields agree. */
static int64_t get_stats(struct percpu_stats *s)
{
	uint64_t all[STATS_SIZE / 8], at_once[STATS_SIZE / 8];

	assert_int_equal(percpu_stats_fetch(s, LAST, 1, all), 0);
	if (s->block.chunk->region->writable) {
		assert_int_equal(percpu_stats_snapshot(s, LAST, 1, at_once), 0);
		assert_memory_equal(all, at_once, sizeof(all));
	}
	assert_int_equal(all[2], 2 * all[1]);
	return (int64_t)all[1];
}

static int64_t get_histogram(const struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *s;
	uint64_t n;

	assert_int_equal(percpu_histogram_snapshot_create(h, &s), 0);
	assert_int_equal(percpu_histogram_fetch(h, LAST, s), 0);
	n = s->count;
	percpu_histogram_snapshot_destroy(s);
	return (int64_t)n;
}

static int64_t get_records(const struct percpu_ring *r)
{
	struct percpu_ring_reader *reader;
	struct percpu_ring_record record;
	int64_t n = 0;

	assert_int_equal(percpu_ring_reader_create(r, PERCPU_RING_ALL, PERCPU_RING_LOOK, &reader),
			 0);
	while (percpu_ring_read(reader, &record) == 0)
		n++;
	percpu_ring_reader_destroy(reader);
	return n;
}

static int64_t get_extreme(enum twin t, const struct percpu_extrema *x)
{
	int64_t max = 0;
	double dmax = 0;
	int e = t == TWIN_EXTREMA ? percpu_extrema_fetch(x, NULL, &max) :
				    percpu_extrema_fetch_double(x, NULL, &dmax);

	assert_true(e == 0 || e == -ENODATA);
	return t == TWIN_EXTREMA ? max : (int64_t)dmax;
}

static int64_t get_owned(enum twin t, union twin_handle h)
{
	int64_t n = 0;
	double d = 0;
	int e = t == TWIN_OWNED ? percpu_owned_gauge_fetch(h.owned, PERCPU_OWNED_ALL, &n) :
				  percpu_owned_fgauge_fetch(h.fowned, PERCPU_OWNED_ALL, &d);

	assert_true(e == 0 || e == -ENODATA);
	return t == TWIN_OWNED ? n : (int64_t)d;
}

static int64_t get_latest(const struct percpu_latest *l)
{
	double d = 0;
	int e = percpu_latest_fetch(l, &d, NULL);

	assert_true(e == 0 || e == -ENODATA);
	return (int64_t)d;
}

static int64_t get_exemplar(const struct percpu_exemplars *x)
{
	struct percpu_exemplar is = { .value = 0 };
	int e = percpu_exemplars_fetch(x, 0, &is);

	assert_true(e == 0 || e == -ENODATA);
	return (int64_t)is.value;
}

int64_t twin_get(enum twin t, union twin_handle h)
{
	switch (t) {
	case TWIN_COUNTER:
		return (int64_t)percpu_counter_fetch(h.counter);
	case TWIN_COUNTERS:
		return (int64_t)percpu_counter_array_fetch(h.counters, LAST);
	case TWIN_FCOUNTER:
		return (int64_t)percpu_fcounter_fetch(h.fcounter);
	case TWIN_FCOUNTERS:
		return (int64_t)percpu_fcounter_array_fetch(h.fcounters, LAST);
	case TWIN_GAUGE:
		return percpu_gauge_fetch(h.gauge);
	case TWIN_FGAUGE:
		return (int64_t)percpu_fgauge_fetch(h.fgauge);
	case TWIN_LATEST:
		return get_latest(h.latest);
	case TWIN_COMPACT:
		return (int64_t)percpu_compact_fetch(h.compact, LAST);
	case TWIN_STATS:
	case TWIN_WHOLE_STATS:
		return get_stats(h.stats);
	case TWIN_EXTREMA:
	case TWIN_FEXTREMA:
		return get_extreme(t, h.extrema);
	case TWIN_EXEMPLARS:
		return get_exemplar(h.exemplars);
	case TWIN_APPROX:
		return percpu_approx_fetch(h.approx);
	case TWIN_HISTOGRAM:
		return get_histogram(h.histogram);
	case TWIN_RATE:
		return (int64_t)(percpu_rate_allowed(h.rate) + percpu_rate_refused(h.rate));
	case TWIN_RING:
	case TWIN_KEEPING_RING:
		return get_records(h.ring);
	case TWIN_OWNED:
	case TWIN_FOWNED:
		return get_owned(t, h);
	default:
		return 0;
	}
}

static int reset_stats(struct percpu_stats *s)
{
	uint64_t all[STATS_SIZE / 8];

	return percpu_stats_fetch_zero(s, LAST, 1, all);
}

int twin_reset(enum twin t, union twin_handle h)
{
	switch (t) {
	case TWIN_COUNTER:
		return percpu_counter_zero(h.counter), 0;
	case TWIN_COUNTERS:
		return percpu_counter_array_zero(h.counters, LAST), 0;
	case TWIN_FCOUNTER:
		return percpu_fcounter_zero(h.fcounter), 0;
	case TWIN_FCOUNTERS:
		return percpu_fcounter_array_zero(h.fcounters, LAST), 0;
	case TWIN_GAUGE:
		return percpu_gauge_set(h.gauge, 0);
	case TWIN_FGAUGE:
		return percpu_fgauge_set(h.fgauge, 0);
	case TWIN_LATEST:
		return percpu_latest_set(h.latest, 0);
	case TWIN_COMPACT:
		return percpu_compact_zero(h.compact, LAST), 0;
	case TWIN_STATS:
	case TWIN_WHOLE_STATS:
		return reset_stats(h.stats);
	case TWIN_EXTREMA:
	case TWIN_FEXTREMA:
		return percpu_extrema_reset(h.extrema);
	case TWIN_EXEMPLARS:
		return percpu_exemplars_reset(h.exemplars);
	case TWIN_APPROX:
		return percpu_approx_zero(h.approx), 0;
	case TWIN_HISTOGRAM:
		return percpu_histogram_zero(h.histogram, LAST);
	default:
		return -ENOSYS;
	}
}

int64_t twin_told(enum twin t, union twin_handle h)
{
	switch (t) {
	case TWIN_COUNTERS:
		return (int64_t)h.counters->n;
	case TWIN_FCOUNTERS:
		return (int64_t)h.fcounters->n;
	case TWIN_STATS:
	case TWIN_WHOLE_STATS:
		return (int64_t)(h.stats->flags * 100 + h.stats->words);
	case TWIN_EXTREMA:
	case TWIN_FEXTREMA:
		return percpu_extrema_is_double(h.extrema);
	case TWIN_APPROX:
		return (int64_t)percpu_approx_batch(h.approx);
	case TWIN_HISTOGRAM:
		return h.histogram->schema * 1000 + (int64_t)h.histogram->n;
	case TWIN_RATE:
		return percpu_rate_period(h.rate) * 10000 + percpu_rate_limit(h.rate);
	case TWIN_RING:
	case TWIN_KEEPING_RING:
		return (int64_t)(h.ring->mask + (h.ring->keep & 1));
	case TWIN_OWNED:
		return percpu_owned_gauge_rule(h.owned);
	case TWIN_FOWNED:
		return percpu_owned_fgauge_rule(h.fowned);
	default:
		return 0;
	}
}
