/* SPDX-License-Identifier: MIT */
/*
 * test_outputs.c - a call that fails stores nothing to its outputs. Each call of the table is
 * made while one of the calls that it makes fails: the first, the second and so on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/grace.h>
#include <percpu/local.h>
#include <percpu/objcache.h>
#include <percpu/percpu.h>
#include <percpu/rate.h>
#include <percpu/ring.h>
#include <percpu/critical.h>
#include <percpu/rwlock.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>

#include "faults.h"
#include "model.h"
#include "support.h"
#include "../segments.h"

#include "owners/owners.h"

enum { OWNERS = 3, FIELDS = 4, MANY = 200, LARGE = 300000, MOST = 60, ROOM = 65536 };

/* Calls within the library that may fail in the middle of a read. */
enum { OWNED_LOAD, PAIR_LOAD, JOURNAL_READ, JOURNAL_LOCK, FENCE, INTERNAL };
static int counts_down[INTERNAL]; /* the call that makes it 0 fails */
static unsigned failed;

static bool fails(int call)
{
	const bool now = counts_down[call] != 0 && --counts_down[call] == 0;

	failed += now;
	return now;
}

int64_t __real_percpu_owned_load(const struct percpu_owned_handle *h, size_t slot,
				 struct percpu_owned_account *ret);
int64_t __wrap_percpu_owned_load(const struct percpu_owned_handle *h, size_t slot,
				 struct percpu_owned_account *ret);
int64_t __wrap_percpu_owned_load(const struct percpu_owned_handle *h, size_t slot,
				 struct percpu_owned_account *ret)
{
	return fails(OWNED_LOAD) ? -ETIMEDOUT : __real_percpu_owned_load(h, slot, ret);
}

int __real_percpu_pair_load(struct percpu_chunk *k, size_t lane, size_t offset,
			    struct percpu_pair_value *ret);
int __wrap_percpu_pair_load(struct percpu_chunk *k, size_t lane, size_t offset,
			    struct percpu_pair_value *ret);
int __wrap_percpu_pair_load(struct percpu_chunk *k, size_t lane, size_t offset,
			    struct percpu_pair_value *ret)
{
	/* One instruction that loads a pair does not fail. */
	return !percpu_pair_is_atomic() && fails(PAIR_LOAD) ?
		       -ETIMEDOUT :
		       __real_percpu_pair_load(k, lane, offset, ret);
}

int __real_percpu_journal_read(struct percpu_chunk *k, size_t offset, uint64_t *out, size_t words);
int __wrap_percpu_journal_read(struct percpu_chunk *k, size_t offset, uint64_t *out, size_t words);
int __wrap_percpu_journal_read(struct percpu_chunk *k, size_t offset, uint64_t *out, size_t words)
{
	return fails(JOURNAL_READ) ? -ETIMEDOUT : __real_percpu_journal_read(k, offset, out, words);
}

int __real_percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h);
int __wrap_percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h);
int __wrap_percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h)
{
	return fails(JOURNAL_LOCK) ? -ETIMEDOUT : __real_percpu_journal_lock(k, h);
}

int __real_percpu_region_fence(const struct percpu_region *r);
int __wrap_percpu_region_fence(const struct percpu_region *r);
int __wrap_percpu_region_fence(const struct percpu_region *r)
{
	return fails(FENCE) ? -EPERM : __real_percpu_region_fence(r);
}

static unsigned pretended = ~0U;
unsigned __real_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void)
{
	return __real_percpu_pair_ways() & pretended;
}

/* Objects that are read. */

static char path[128], name[128];
static struct percpu_region *region;
static struct percpu_stats *stats, *many;
static struct percpu_stats_group *group;
static size_t cpus;
static struct percpu_histogram *histogram;
static struct percpu_histogram_snapshot *recorded;
static struct percpu_extrema *extrema, *doubles;
static struct percpu_latest *latest;
static struct percpu_owners *owners;
static struct percpu_owned_gauge *gauge;
static struct percpu_owned_fgauge *fgauge;
static struct percpu_ring *ring;
static struct percpu_ring_reader *ring_reader;
static struct percpu_segment *segment;
static struct percpu_counter *total;
static struct percpu_reader *reader;

#define REQUIRE(condition) test_child_require((condition), #condition)

static int use_gauges(void *arg)
{
	(void)arg;
	REQUIRE(percpu_owned_gauge_set(gauge, 5) == 0 && percpu_owned_fgauge_set(fgauge, 5) == 0);
	return 0;
}

static void make_world(void)
{
	struct percpu_reader_info info;
	const unsigned all = PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS;

	REQUIRE(percpu_region_open(path, all, NULL, &region) == 0);
	REQUIRE(percpu_stats_create_in(region, FIELDS * 8, 2, 0, &stats) == 0);
	REQUIRE(percpu_stats_create_in(region, FIELDS * 8, MANY, PERCPU_STATS_WHOLE, &many) == 0);
	REQUIRE(percpu_stats_group_create_in(region, FIELDS * 8, 1, MANY, &group) == 0);
	REQUIRE(percpu_histogram_create_in(region, NULL, &histogram) == 0);
	REQUIRE(percpu_histogram_snapshot_create(histogram, &recorded) == 0);
	for (int i = 1; i < 100; i++)
		percpu_histogram_record(histogram, i);
	REQUIRE(percpu_extrema_create_in(region, 0, &extrema) == 0);
	REQUIRE(percpu_extrema_create_in(region, PERCPU_EXTREMA_DOUBLE, &doubles) == 0);
	REQUIRE(percpu_latest_create(&latest) == 0);
	REQUIRE(percpu_latest_set(latest, 5) == 0);
	percpu_extrema_observe(extrema, 5);
	percpu_extrema_observe_double(doubles, 5);
	REQUIRE(percpu_owners_open(region, 0, &owners) == 0);
	REQUIRE(percpu_owned_gauge_open(owners, 1, PERCPU_OWNED_RECENT, &gauge) == 0);
	REQUIRE(percpu_owned_fgauge_open(owners, 2, PERCPU_OWNED_RECENT, &fgauge) == 0);
	use_gauges(NULL);
	for (int i = 1; i < OWNERS; i++)
		REQUIRE(test_wait(test_fork(use_gauges, NULL), 60) == 0);
	REQUIRE(percpu_ring_create(PERCPU_RING_MIN, 0, &ring) == 0);
	REQUIRE(percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &ring_reader) == 0);
	REQUIRE(percpu_segment_open(name, ALL, NULL, &segment) == 0);
	REQUIRE(percpu_segment_counter(segment, METRIC("a_total"), &total) == 0);
	percpu_counter_add(total, 5);
	REQUIRE(percpu_reader_open(name, &reader) == 0 && percpu_reader_read(reader) == 0);
	REQUIRE(percpu_reader_info(reader, &info) == 0);
	cpus = info.cpus;
}

static void end_zone(struct percpu_zone *z)
{
	REQUIRE(percpu_zone_destroy(z) == 0);
}

static void end_cache(struct percpu_objcache *oc)
{
	REQUIRE(percpu_objcache_destroy(oc) == 0);
}

static void end_world(void)
{
	percpu_reader_close(reader);
	percpu_segment_close(segment);
	percpu_ring_reader_destroy(ring_reader);
	percpu_ring_destroy(ring);
	percpu_owned_gauge_destroy(gauge);
	percpu_owned_fgauge_destroy(fgauge);
	percpu_owners_detach(owners);
	percpu_latest_destroy(latest);
	percpu_extrema_destroy(extrema);
	percpu_extrema_destroy(doubles);
	percpu_histogram_snapshot_destroy(recorded);
	percpu_histogram_destroy(histogram);
	percpu_stats_destroy(stats);
	percpu_stats_destroy(many);
	percpu_stats_group_destroy(group);
	percpu_region_close(region);
	REQUIRE(unlink(path) == 0 && unlink(name) == 0);
}

/* The table: calls that store at o, which has room for the largest result. */

#define CALL(name_, expression)                                                                    \
	static int name_(char *o)                                                                  \
	{                                                                                          \
		return (expression);                                                               \
	}

/* A call that makes an object, and the one that frees it. */
#define MAKES(name_, expression, type, end)                                                        \
	static int name_(char *o)                                                                  \
	{                                                                                          \
		type **ret = (type **)(void *)o;                                                   \
		int e = (expression);                                                              \
                                                                                                   \
		if (e == 0)                                                                        \
			(void)end(*ret);                                                           \
		return e;                                                                          \
	}

/* Return the place of output i, at o + 8 * i. */
#define AT(type, i) ((type *)(void *)(o + (size_t)(i)*8))

CALL(stats_fetch, percpu_stats_fetch(stats, 0, 2, o))
CALL(stats_fetch_many, percpu_stats_fetch(many, 0, MANY, o))
CALL(stats_snapshot, percpu_stats_snapshot(stats, 0, 2, o))
CALL(stats_fetch_zero, percpu_stats_fetch_zero(many, 0, MANY, o))
CALL(group_fetch, percpu_stats_group_fetch(group, 0, 2, o + 8))
CALL(group_fetch_many, percpu_stats_group_fetch(group, 0, MANY, o + 8))
CALL(group_snapshot, percpu_stats_group_snapshot(group, 0, MANY, o + 8, AT(uint64_t, 0)))
CALL(group_fetch_zero, percpu_stats_group_fetch_zero(group, 0, MANY, o + 8, AT(uint64_t, 0)))
static int group_alloc(char *o)
{
	size_t *ret = AT(size_t, 0);
	int e = percpu_stats_group_alloc(group, ret);

	(void)fault_clear();
	/* What is still to fail may fail here. */
	for (int i = 0; e == 0 && percpu_stats_group_free(group, *ret, 0) != 0; i++)
		REQUIRE(i < 2);
	return e;
}
CALL(extrema_fetch, percpu_extrema_fetch(extrema, AT(int64_t, 0), AT(int64_t, 1)))
CALL(extrema_reset, percpu_extrema_fetch_reset(extrema, AT(int64_t, 0), AT(int64_t, 1)))
CALL(doubles_fetch, percpu_extrema_fetch_double(doubles, AT(double, 0), AT(double, 1)))
CALL(latest_fetch, percpu_latest_fetch(latest, AT(double, 0), AT(uint64_t, 1)))
CALL(gauge_fetch, percpu_owned_gauge_fetch(gauge, PERCPU_OWNED_ALL, AT(int64_t, 0)))
CALL(fgauge_fetch, percpu_owned_fgauge_fetch(fgauge, PERCPU_OWNED_ALL, AT(double, 0)))
CALL(gauge_each, percpu_owned_gauge_each(gauge, PERCPU_OWNED_ALL, AT(struct percpu_owned_value, 1),
					 2, AT(size_t, 0)))
CALL(gauge_each_many, percpu_owned_gauge_each(gauge, PERCPU_OWNED_ALL,
					      AT(struct percpu_owned_value, 1), 100, AT(size_t, 0)))
CALL(fgauge_each, percpu_owned_fgauge_each(fgauge, PERCPU_OWNED_LIVING,
					   AT(struct percpu_owned_value, 1), 3, AT(size_t, 0)))
CALL(reader_cpus, percpu_reader_cpus(reader, 0, AT(double, 0), cpus))
CALL(reader_facts, percpu_reader_facts(reader, AT(struct percpu_reader_facts, 0)))
CALL(memory_size, percpu_region_memory_size(NULL, AT(size_t, 0)))

static int histogram_read(char *o, bool zero)
{
	struct percpu_histogram_snapshot *s = (struct percpu_histogram_snapshot *)(void *)o;

	/* Make a snapshot of this layout, whose counts are not set. */
	memcpy(s, recorded, offsetof(struct percpu_histogram_snapshot, count));
	return zero ? percpu_histogram_fetch_zero(histogram, 0, s) :
		      percpu_histogram_fetch(histogram, 0, s);
}
CALL(histogram_fetch, histogram_read(o, false))
CALL(histogram_fetch_zero, histogram_read(o, true))

static int read_ring(char *o)
{
	(void)percpu_ring_put(ring, "x", 1);
	return percpu_ring_read(ring_reader, (struct percpu_ring_record *)(void *)o);
}

/* Get the first item of a zone that checks items. */
static int zone_alloc(char *o)
{
	const struct percpu_zone_options z = { .size = sizeof(z), .flags = PERCPU_ZONE_DEBUG };
	void **ret = (void **)(void *)o;
	struct percpu_zone *zone;
	int e = percpu_zone_create("item", 8, &z, &zone);

	if (e != 0)
		return e;
	e = percpu_zone_alloc(zone, 0, ret);
	(void)fault_clear();
	if (e == 0)
		REQUIRE(percpu_zone_free(zone, *ret) == 0);
	end_zone(zone);
	return e;
}

MAKES(counter, percpu_counter_create_in(region, ret), struct percpu_counter, percpu_counter_destroy)
MAKES(array, percpu_counter_array_create(LARGE, ret), struct percpu_counter_array,
      percpu_counter_array_destroy)
MAKES(compact, percpu_compact_create(LARGE, ret), struct percpu_compact, percpu_compact_destroy)
MAKES(approx, percpu_approx_create_in(region, NULL, ret), struct percpu_approx,
      percpu_approx_destroy)
MAKES(stats_made, percpu_stats_create_in(region, 64, 2, 0, ret), struct percpu_stats,
      percpu_stats_destroy)
MAKES(group_made, percpu_stats_group_create_in(region, 16, 1, 2, ret), struct percpu_stats_group,
      percpu_stats_group_destroy)
MAKES(histogram_made, percpu_histogram_create_in(region, NULL, ret), struct percpu_histogram,
      percpu_histogram_destroy)
MAKES(snapshot, percpu_histogram_snapshot_create(histogram, ret), struct percpu_histogram_snapshot,
      percpu_histogram_snapshot_destroy)
MAKES(folded, percpu_histogram_downscale(recorded, 0, ret), struct percpu_histogram_snapshot,
      percpu_histogram_snapshot_destroy)
MAKES(extrema_made, percpu_extrema_create_in(region, 0, ret), struct percpu_extrema,
      percpu_extrema_destroy)
MAKES(exemplars_made, percpu_exemplars_create_in(region, NULL, ret), struct percpu_exemplars,
      percpu_exemplars_destroy)
MAKES(rate, percpu_rate_create_in(region, 5, 5, ret), struct percpu_rate, percpu_rate_destroy)
MAKES(ring_made, percpu_ring_create(PERCPU_RING_MIN, 0, ret), struct percpu_ring,
      percpu_ring_destroy)
MAKES(ring_reader_made, percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, ret),
      struct percpu_ring_reader, percpu_ring_reader_destroy)
MAKES(owners_made, percpu_owners_attach(region, percpu_owners_key(owners), ret),
      struct percpu_owners, percpu_owners_detach)
MAKES(gauge_made, percpu_owned_gauge_create_in(owners, PERCPU_OWNED_SUM, ret),
      struct percpu_owned_gauge, percpu_owned_gauge_destroy)
MAKES(critical, percpu_critical_create(8, ret), struct percpu_critical, percpu_critical_destroy)
MAKES(rwlock, percpu_rwlock_create(0, ret), struct percpu_rwlock, percpu_rwlock_destroy)
MAKES(grace, percpu_grace_create(0, ret), struct percpu_grace, percpu_grace_destroy)
MAKES(local, percpu_local_create(8, PERCPU_LOCAL_LOCK, ret), struct percpu_local,
      percpu_local_destroy)
MAKES(wbuf, percpu_wbuf_create(NULL, ret), struct percpu_wbuf, percpu_wbuf_destroy)
MAKES(zone_made, percpu_zone_create("made", 8, NULL, ret), struct percpu_zone, end_zone)
MAKES(objcache, percpu_objcache_create("made", 8, NULL, ret), struct percpu_objcache, end_cache)
MAKES(opened, percpu_region_open(path, PERCPU_REGION_WRITE, NULL, ret), struct percpu_region,
      percpu_region_close)
MAKES(segment_opened, percpu_segment_open(name, ALL, NULL, ret), struct percpu_segment,
      percpu_segment_close)
MAKES(reader_opened, percpu_reader_open(name, ret), struct percpu_reader, percpu_reader_close)

static const struct call {
	const char *name;
	int (*make)(char *o);
} calls[] = {
#define ROW(name_)                                                                                 \
	{                                                                                          \
#name_, name_                                                                      \
	}
	ROW(stats_fetch),
	ROW(stats_fetch_many),
	ROW(stats_snapshot),
	ROW(stats_fetch_zero),
	ROW(group_fetch),
	ROW(group_fetch_many),
	ROW(group_snapshot),
	ROW(group_fetch_zero),
	ROW(group_alloc),
	ROW(extrema_fetch),
	ROW(extrema_reset),
	ROW(doubles_fetch),
	ROW(latest_fetch),
	ROW(gauge_fetch),
	ROW(fgauge_fetch),
	ROW(gauge_each),
	ROW(gauge_each_many),
	ROW(fgauge_each),
	ROW(reader_cpus),
	ROW(reader_facts),
	ROW(memory_size),
	ROW(histogram_fetch),
	ROW(histogram_fetch_zero),
	ROW(read_ring),
	ROW(zone_alloc),
	ROW(counter),
	ROW(array),
	ROW(compact),
	ROW(approx),
	ROW(stats_made),
	ROW(group_made),
	ROW(histogram_made),
	ROW(snapshot),
	ROW(folded),
	ROW(extrema_made),
	ROW(exemplars_made),
	ROW(rate),
	ROW(ring_made),
	ROW(ring_reader_made),
	ROW(owners_made),
	ROW(gauge_made),
	ROW(critical),
	ROW(rwlock),
	ROW(grace),
	ROW(local),
	ROW(wbuf),
	ROW(zone_made),
	ROW(objcache),
	ROW(opened),
	ROW(segment_opened),
	ROW(reader_opened),
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

/* Return how many bytes are mapped. Lines are not counted, as adjacent mappings have one. With a
 * sanitizer 0: it maps memory of its own. */
static uint64_t mapped_now(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	uint64_t first, end, bytes = 0;
	char line[512];

	REQUIRE(f != NULL);
	while (fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &first, &end) == 2)
			bytes += end - first;
	fclose(f);
	return test_address_sanitizer() || test_thread_sanitizer() ? 0 : bytes;
}

/* Return whether a call makes no object, so that it keeps no memory when it has returned. */
static bool only_reads(const struct call *c)
{
	return c->make == stats_fetch || c->make == stats_fetch_many || c->make == stats_snapshot ||
	       c->make == stats_fetch_zero || c->make == group_fetch ||
	       c->make == group_fetch_many || c->make == group_snapshot ||
	       c->make == group_fetch_zero || c->make == extrema_fetch ||
	       c->make == extrema_reset || c->make == doubles_fetch || c->make == latest_fetch ||
	       c->make == gauge_fetch || c->make == fgauge_fetch || c->make == gauge_each ||
	       c->make == gauge_each_many || c->make == fgauge_each || c->make == reader_cpus ||
	       c->make == histogram_fetch || c->make == histogram_fetch_zero ||
	       c->make == read_ring;
}

/* Make the call. Asserts that its outputs are unchanged if it fails. */
static int make(const struct call *c, const char *meanwhile)
{
	static char out[ROOM] PERCPU_ALIGNED_WORD, before[ROOM];
	int e;

	memset(out, 0x5a, sizeof(out));
	if (c->make == histogram_fetch || c->make == histogram_fetch_zero)
		memcpy(out, recorded, offsetof(struct percpu_histogram_snapshot, count));
	memcpy(before, out, sizeof(out));
	e = c->make(out);
	(void)fault_clear();
	if (e != 0 && memcmp(out, before, sizeof(out)) != 0) {
		fprintf(stderr, "%s stored something and returned %d: %s\n", c->name, e, meanwhile);
		_exit(1);
	}
	return e;
}

/* Return how often the call failed while calls of this kind did. */
static unsigned fail_each(const struct call *c, unsigned kind)
{
	const uint64_t mapped = mapped_now();
	unsigned errors = 0;

	for (unsigned nth = 0; nth < MOST; nth++) {
		failed = 0;
		if (kind < FAULT_CALLS)
			fault_set((enum fault_call)kind, nth, fault_error((enum fault_call)kind),
				  false);
		else
			counts_down[kind - FAULT_CALLS] = (int)nth + 1;
		errors += make(c, kind < FAULT_CALLS ? fault_name((enum fault_call)kind) :
						       "a call within") != 0;
		if (kind < FAULT_CALLS)
			failed = fault_clear();
		else
			counts_down[kind - FAULT_CALLS] = 0;
		if (only_reads(c) && mapped_now() != mapped) {
			fprintf(stderr, "%s has mapped something, and keeps it\n", c->name);
			_exit(1);
		}
		if (failed == 0)
			break;
	}
	return errors;
}

/* Return whether a call cannot fail, at all or on this machine. */
static bool never_fails(const struct call *c)
{
	const bool reads_a_pair = c->make == histogram_fetch || c->make == histogram_fetch_zero ||
				  c->make == latest_fetch;

	return c->make == stats_fetch || c->make == group_fetch || c->make == memory_size ||
	       (reads_a_pair && percpu_pair_is_atomic()) || c->make == extrema_fetch ||
	       c->make == doubles_fetch || c->make == read_ring;
}

static int fail_all(void *arg)
{
	unsigned errors;

	pretended = arg != NULL ? 0 : ~0U;
	make_world();
	for (unsigned i = 0; i < CALLS; i++) {
		/* Approximate sums need atomic pairs. */
		REQUIRE(make(&calls[i], "nothing") == 0 ||
			(calls[i].make == approx && !percpu_pair_is_atomic()));
		errors = 0;
		for (unsigned kind = 0; kind < FAULT_CALLS + INTERNAL; kind++)
			errors += fail_each(&calls[i], kind);
		if (errors == 0 && !never_fails(&calls[i])) {
			fprintf(stderr, "%s never failed\n", calls[i].name);
			return 1;
		}
	}
	end_world();
	return 0;
}

static void what_fails_stores_nothing(void **state)
{
	(void)state;
	test_in_child(fail_all, NULL);
}

/* The same as on machines without atomic pairs. */
static void so_it_is_with_the_journal(void **state)
{
	static int by_journal;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("no get_robust_list()");
	test_in_child(fail_all, &by_journal);
}

/* If a part of a gauge cannot be loaded, the gauge cannot be set, and reads as NaN. That is tested
 * also with parts that do not fit together, as in a damaged file. */
static int fail_gauge(void *arg)
{
	struct percpu_pair_value *set;
	struct percpu_fgauge *g;
	struct percpu_chunk *k;
	uint64_t number;

	(void)arg;
	pretended = 0;
	REQUIRE(percpu_fgauge_create(&g) == 0 && percpu_fgauge_set(g, 5) == 0);
	k = percpu_chunk_of(g);
	number = ((struct percpu_double_bias *)(void *)percpu_chunk_lane(
			  k, 2 * (size_t)k->cpus, (size_t)((char *)g - k->base)))
			 ->sum.second;
	set = ((struct percpu_double_bias *)(void *)percpu_chunk_lane(
		       k, 2 * (size_t)k->cpus, (size_t)((char *)g - k->base)))
		      ->set;
	for (int damaged = 0; damaged < 2; damaged++) {
		const double level = percpu_fgauge_fetch(g);

		for (int nth = 1; nth <= 2 + damaged; nth++) {
			counts_down[PAIR_LOAD] = nth;
			REQUIRE(percpu_fgauge_set(g, 7) == -ETIMEDOUT);
			REQUIRE(counts_down[PAIR_LOAD] == 0);
			REQUIRE(percpu_fgauge_fetch(g) == level);
			counts_down[PAIR_LOAD] = nth;
			REQUIRE(__builtin_isnan(percpu_fgauge_fetch(g)));
			REQUIRE(counts_down[PAIR_LOAD] == 0);
		}
		/* Numbers of sets that have not happened. */
		set[number % 2].second += 10;
		set[(number + 1) % 2].second = number + 6;
	}
	REQUIRE(percpu_fgauge_set(g, 9) == 0 && percpu_fgauge_fetch(g) == 9);
	percpu_fgauge_destroy(g);
	return 0;
}

static void gauges_are_not_half_set(void **state)
{
	(void)state;
	if (!percpu_robust_supported())
		test_skip("no get_robust_list()");
	test_in_child(fail_gauge, NULL);
}

/* Observe a value as a thread that cannot run sequences. */
static int observe_without(struct percpu_extrema *x, int64_t v)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area = model_set_area(&none);
	int e = percpu_extrema_observe(x, v);

	model_set_area(area);
	return e;
}

static void record_without(struct percpu_histogram *h, double v)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area = model_set_area(&none);

	percpu_histogram_record(h, v);
	model_set_area(area);
}

/* Let each call within the library fail in turn: the last value stays the last one. */
static void fail_owned(int *countdown)
{
	int64_t v = 0;
	int nth = 1;

	for (; nth < MOST; nth++) {
		*countdown = nth;
		if (percpu_owned_gauge_set(gauge, 7) == 0)
			break;
		REQUIRE(*countdown == 0);
		REQUIRE(percpu_owned_gauge_fetch(gauge, PERCPU_OWNED_ALL, &v) == 0 && v == 5);
	}
	REQUIRE(nth > 1 && *countdown != 0);
	*countdown = 0;
	REQUIRE(percpu_owned_gauge_fetch(gauge, PERCPU_OWNED_ALL, &v) == 0 && v == 7);
	REQUIRE(percpu_owned_gauge_set(gauge, 5) == 0);
}

/* An update that cannot load or store changes nothing. A record has no result, and is tried
 * until it succeeds. */
static int fail_updates(void *arg)
{
	static const int calls_within[] = { PAIR_LOAD, JOURNAL_LOCK };
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h;
	struct percpu_extrema *x;
	struct percpu_latest *l;
	struct percpu_gauge *g;
	int64_t min, max;
	uint64_t then, ns;
	double v;
	int e;

	(void)arg;
	pretended = 0;
	make_world();
	REQUIRE(percpu_gauge_create(&g) == 0 && percpu_gauge_set(g, 5) == 0);
	REQUIRE(percpu_latest_create(&l) == 0 && percpu_latest_set(l, 5) == 0);
	REQUIRE(percpu_latest_fetch(l, &v, &then) == 0);
	REQUIRE(percpu_extrema_create(0, &x) == 0);
	REQUIRE(observe_without(x, 5) == 0 && observe_without(x, 4) == 0);
	REQUIRE(percpu_histogram_create(NULL, &h) == 0);
	REQUIRE(percpu_histogram_snapshot_create(h, &s) == 0);
	for (int i = 0; i < 2; i++) {
		int *countdown = &counts_down[calls_within[i]];

		*countdown = 1;
		REQUIRE(percpu_gauge_set(g, 7) == -ETIMEDOUT && *countdown == 0);
		REQUIRE(percpu_gauge_fetch(g) == 5);
		*countdown = 1;
		REQUIRE(percpu_latest_set(l, 7) == -ETIMEDOUT && *countdown == 0);
		REQUIRE(percpu_latest_fetch(l, &v, &ns) == 0 && v == 5 && ns == then);
		fail_owned(countdown);
		for (int nth = 1; nth <= (calls_within[i] == PAIR_LOAD ? 2 : 1); nth++) {
			*countdown = nth;
			REQUIRE(observe_without(x, 7) == -ETIMEDOUT && *countdown == 0);
			REQUIRE(percpu_extrema_fetch(x, &min, &max) == 0);
			REQUIRE(min == 4 && max == 5);
			*countdown = nth;
			e = percpu_extrema_fetch(x, &min, &max);
			REQUIRE(e == (*countdown == 0 ? -ETIMEDOUT : 0) && min == 4 && max == 5);
			*countdown = nth;
			min = max = 9;
			REQUIRE(percpu_extrema_fetch_reset(x, &min, &max) == -ETIMEDOUT);
			REQUIRE(*countdown == 0 && min == 9 && max == 9);
			REQUIRE(percpu_extrema_fetch_reset(x, &min, &max) == 0);
			REQUIRE(min == 4 && max == 5);
			REQUIRE(observe_without(x, 5) == 0 && observe_without(x, 4) == 0);
		}
		/* Values that a reset has found are kept when it fails, and when the next one
		 * does. */
		for (int n = 0; n < 2; n++) {
			counts_down[FENCE] = 1;
			REQUIRE(percpu_extrema_fetch_reset(x, &min, &max) == -EPERM);
			REQUIRE(counts_down[FENCE] == 0);
		}
		REQUIRE(percpu_extrema_fetch_reset(x, &min, &max) == 0 && min == 4 && max == 5);
		REQUIRE(observe_without(x, 5) == 0 && observe_without(x, 4) == 0);
		*countdown = 1;
		record_without(h, 7);
		REQUIRE(*countdown == 0);
		REQUIRE(percpu_histogram_fetch(h, 0, s) == 0 && s->count == (uint64_t)i + 1);
	}
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
	percpu_extrema_destroy(x);
	percpu_latest_destroy(l);
	percpu_gauge_destroy(g);
	end_world();
	return 0;
}

static void updates_that_fail_change_nothing(void **state)
{
	(void)state;
	if (!percpu_robust_supported())
		test_skip("no get_robust_list()");
	test_in_child(fail_updates, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fails_stores_nothing),
		cmocka_unit_test(so_it_is_with_the_journal),
		cmocka_unit_test(gauges_are_not_half_set),
		cmocka_unit_test(updates_that_fail_change_nothing),
	};

	/* The directory belongs to this process, not to a child. */
	strcpy(path, test_path("outputs"));
	strcpy(name, test_path("segment"));
	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
