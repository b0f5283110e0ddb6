/* SPDX-License-Identifier: MIT */
/*
 * test_null.c - what functions do with NULL, as percpu/base.h documents. How objects are
 * created, found and opened: test_twins.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/grace.h>
#include <percpu/local.h>
#include <percpu/lwbuf.h>
#include <percpu/objcache.h>
#include <percpu/percpu.h>
#include <percpu/rate.h>
#include <percpu/ref.h>
#include <percpu/ring.h>
#include <percpu/critical.h>
#include <percpu/rwlock.h>
#include <percpu/sfbuf.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>

#include "support.h"

#define CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS)

static struct percpu_region *region;

static int open_region(void **state)
{
	(void)state;
	return percpu_region_open(test_path("null"), CREATE, NULL, &region);
}

static void ends_do_nothing(void **state)
{
	(void)state;
	percpu_counter_destroy(NULL);
	percpu_counter_detach(NULL);
	percpu_counter_array_destroy(NULL);
	percpu_counter_array_detach(NULL);
	percpu_fcounter_destroy(NULL);
	percpu_fcounter_detach(NULL);
	percpu_fcounter_array_destroy(NULL);
	percpu_fcounter_array_detach(NULL);
	percpu_gauge_destroy(NULL);
	percpu_gauge_detach(NULL);
	percpu_fgauge_destroy(NULL);
	percpu_fgauge_detach(NULL);
	percpu_latest_destroy(NULL);
	percpu_latest_detach(NULL);
	percpu_extrema_destroy(NULL);
	percpu_extrema_detach(NULL);
	percpu_exemplars_destroy(NULL);
	percpu_exemplars_detach(NULL);
	percpu_compact_destroy(NULL);
	percpu_compact_detach(NULL);
	percpu_stats_destroy(NULL);
	percpu_stats_detach(NULL);
	percpu_stats_group_destroy(NULL);
	percpu_stats_group_detach(NULL);
	percpu_region_close(NULL);
	percpu_local_destroy(NULL);
	percpu_approx_destroy(NULL);
	percpu_approx_detach(NULL);
	percpu_histogram_destroy(NULL);
	percpu_histogram_detach(NULL);
	percpu_histogram_snapshot_destroy(NULL);
	percpu_rate_destroy(NULL);
	percpu_rate_detach(NULL);
	percpu_ring_destroy(NULL);
	percpu_ring_detach(NULL);
	percpu_ring_reader_destroy(NULL);
	percpu_owners_destroy(NULL);
	percpu_owners_detach(NULL);
	percpu_owned_gauge_destroy(NULL);
	percpu_owned_gauge_detach(NULL);
	percpu_owned_fgauge_destroy(NULL);
	percpu_owned_fgauge_detach(NULL);
	percpu_segment_close(NULL);
	percpu_wbuf_destroy(NULL);
	assert_int_equal(percpu_zone_destroy(NULL), 0);
	assert_int_equal(percpu_objcache_destroy(NULL), 0);
	assert_int_equal(percpu_lwbuf_destroy(NULL), 0);
	assert_int_equal(percpu_ref_destroy(NULL), 0);
	percpu_critical_destroy(NULL);
	percpu_critical_detach(NULL);
	assert_int_equal(percpu_rwlock_destroy(NULL), 0);
	assert_int_equal(percpu_rwlock_detach(NULL), 0);
	assert_int_equal(percpu_grace_destroy(NULL), 0);
	assert_int_equal(percpu_grace_detach(NULL), 0);
	assert_int_equal(percpu_region_free(region, NULL, 8), 0);
}

static void results_must_have_a_place(void **state)
{
	(void)state;
	assert_int_equal(percpu_region_create(NULL, NULL), -EINVAL);
	assert_int_equal(test_region_new_fd(0, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_region_open_fd(0, 0, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_region_alloc(region, 8, 8, NULL), -EINVAL);
	assert_int_equal(percpu_region_memory_size(NULL, NULL), -EINVAL);
	assert_int_equal(percpu_local_create(8, PERCPU_LOCAL_SPLIT, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_snapshot_create(NULL, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_fetch(NULL, 0, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_fetch_zero(NULL, 0, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_zero(NULL, 0), -EINVAL);
	assert_int_equal(percpu_histogram_merge(NULL, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_subtract(NULL, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_downscale(NULL, 0, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_quantile(NULL, 0.5, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_to_otlp(NULL, NULL, 0, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_count_below(NULL, 1, NULL), 0);
	assert_int_equal(percpu_wbuf_create(NULL, NULL), -EINVAL);
	assert_int_equal(percpu_lwbuf_create(0, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_zone_create("null", 8, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_objcache_create("null", 8, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_region_root(region, 0), 0);
}

/* The objects exist, and the place for the result is NULL. */
static void results_of_objects_must_have_a_place(void **state)
{
	const struct percpu_histogram_options options = { .size = sizeof(options) };
	struct percpu_histogram_snapshot *s, odd = { .schema = 3, .low = 1, .high = 1 };
	struct percpu_ring_reader *reader;
	struct percpu_histogram_otlp otlp;
	struct percpu_owned_gauge *owned;
	struct percpu_histogram *h;
	struct percpu_objcache *oc;
	struct percpu_owners *o;
	struct percpu_stats *stats;
	struct percpu_ring *ring;
	struct percpu_wbuf *w;
	struct percpu_zone *z;
	size_t n = 7;

	(void)state;
	assert_int_equal(percpu_histogram_create(&options, &h), 0);
	assert_int_equal(percpu_histogram_snapshot_create(h, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_snapshot_create(h, &s), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_fetch(h, 1, s), -EINVAL);
	assert_int_equal(percpu_histogram_zero(h, 1), -EINVAL);
	assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
	assert_int_equal(percpu_histogram_downscale(s, 0, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_quantile(s, 0.5, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_to_otlp(s, NULL, 0, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_to_otlp(s, NULL, 1, &otlp), -EINVAL);
	assert_int_equal(percpu_histogram_to_otlp(&odd, NULL, 0, &otlp), -EINVAL);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);

	assert_int_equal(percpu_stats_create(8, 1, 0, &stats), 0);
	assert_int_equal(percpu_stats_snapshot(stats, 0, 1, NULL), -EINVAL);
	percpu_stats_destroy(stats);

	assert_int_equal(percpu_zone_create("null", 8, NULL, &z), 0);
	percpu_zone_stats(z, NULL);
	assert_int_equal(percpu_zone_destroy(z), 0);
	assert_int_equal(percpu_objcache_create("null", 8, NULL, &oc), 0);
	percpu_objcache_stats(oc, NULL);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
	assert_int_equal(percpu_wbuf_create(NULL, &w), 0);
	percpu_wbuf_stats(w, NULL);
	percpu_wbuf_destroy(w);

	assert_int_equal(percpu_ring_create_in(region, 4096, 0, &ring), 0);
	assert_int_equal(percpu_region_set_root(region, 3, 0, percpu_ring_key(ring)), 0);
	assert_int_equal(percpu_ring_open(region, 3, 0, 0, NULL), -EINVAL);
	assert_int_equal(percpu_ring_reader_create(ring, 0, 0, NULL), -EINVAL);
	assert_int_equal(percpu_ring_reader_create(ring, 0, 0, &reader), 0);
	assert_int_equal(percpu_ring_read(reader, NULL), -EINVAL);
	percpu_ring_reader_destroy(reader);
	percpu_ring_detach(ring);

	assert_int_equal(percpu_owners_create_in(region, &o), 0);
	assert_int_equal(percpu_owners_list(o, NULL, 1), 0);
	assert_int_equal(percpu_owned_gauge_create_in(o, PERCPU_OWNED_SUM, &owned), 0);
	assert_int_equal(percpu_owned_gauge_each(owned, PERCPU_OWNED_ALL, NULL, 1, &n), -EINVAL);
	assert_int_equal(percpu_owned_gauge_each(owned, PERCPU_OWNED_ALL, NULL, 0, NULL), -EINVAL);
	assert_int_equal(n, 7);
	percpu_owned_gauge_destroy(owned);
	assert_int_equal(percpu_owners_destroy(o), 0);
}

/* Unknown options, and files without the needed permission. */
static void what_is_asked_for_must_be_possible(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .reserved = 1 };
	struct percpu_owned_value *values = calloc(PERCPU_OWNERS_MAX + 1, sizeof(*values));
	const int modes[] = { O_PATH, O_WRONLY };
	struct percpu_lwbufs *f = NULL;
	struct percpu_owned_gauge *owned;
	struct percpu_owners *owners;
	struct percpu_zone *z = NULL;
	struct percpu_lwbuf forged;
	size_t n = 0;
	int fd;

	(void)state;
	assert_int_equal(percpu_zone_create("null", 8, &o, &z), -EINVAL);
	o = (struct percpu_zone_options){ .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	assert_int_equal(percpu_zone_create(NULL, 8, &o, &z), -EINVAL);
	assert_null(z);
	for (unsigned i = 0; i < 2; i++) {
		fd = open(test_path("null"), modes[i]);
		assert_true(fd >= 0);
		assert_int_equal(percpu_lwbuf_create(fd, NULL, &f), -EACCES);
		close(fd);
	}
	assert_null(f);
	fd = open(test_path("null"), O_RDONLY);
	assert_int_equal(percpu_lwbuf_create(fd, NULL, &f), 0);
	close(fd);
	percpu_lwbuf_stats(f, NULL);
	percpu_sfbuf_stats(f, NULL);
	forged = (struct percpu_lwbuf){ .of = f };
	assert_int_equal(percpu_lwbuf_free(f, &forged), -EINVAL);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);

	assert_int_equal(percpu_owners_create_in(region, &owners), 0);
	assert_int_equal(percpu_owned_gauge_create_in(owners, PERCPU_OWNED_SUM, &owned), 0);
	assert_int_equal(percpu_owned_gauge_set(owned, 5), 0);
	assert_int_equal(
		percpu_owned_gauge_each(owned, PERCPU_OWNED_ALL, values, PERCPU_OWNERS_MAX + 1, &n),
		0);
	assert_int_equal(n, 1);
	assert_int_equal(values[0].value, 5);
	percpu_owned_gauge_destroy(owned);
	assert_int_equal(percpu_owners_destroy(owners), 0);
	free(values);
}

static void regions_are_needed(void **state)
{
	struct percpu_ring_reader *reader = NULL;
	void *cell = NULL;

	(void)state;
	assert_int_equal(percpu_ring_reader_create(NULL, 0, 0, &reader), -EINVAL);
	assert_int_equal(percpu_region_alloc(NULL, 8, 8, &cell), -EINVAL);
	assert_int_equal(percpu_region_free(NULL, &cell, 8), -EINVAL);
	assert_int_equal(percpu_region_set_root(NULL, 0, 0, 1), -EINVAL);
	assert_int_equal(percpu_region_root(NULL, 0), 0);
	assert_int_equal(percpu_region_key(NULL, &cell), 0);
	assert_null(percpu_region_at(NULL, 1, 8));
	assert_null(percpu_region_at(region, 1, 0));
	assert_true(reader == NULL && cell == NULL);
}

static void nothing_is_read(void **state)
{
	uint64_t out = 7, ns = 7, *cells[1] = { &out };
	size_t number = 7;
	double sum = 7, most = 8;
	struct percpu_exemplar exemplar;
	int64_t min = 7, max = 8;

	(void)state;
	assert_int_equal(percpu_counter_key(NULL), 0);
	assert_int_equal(percpu_counter_fetch(NULL), 0);
	assert_int_equal(percpu_counter_fetch_zero(NULL), 0);
	percpu_counter_zero(NULL);
	assert_int_equal(percpu_counter_array_key(NULL), 0);
	assert_int_equal(percpu_counter_array_fetch(NULL, 0), 0);
	assert_int_equal(percpu_counter_array_fetch_zero(NULL, 0), 0);
	percpu_counter_array_zero(NULL, 0);
	percpu_counter_array_fetch_all(NULL, &out);
	assert_int_equal(percpu_fcounter_key(NULL), 0);
	assert_true(percpu_fcounter_fetch(NULL) == 0);
	assert_true(percpu_fcounter_fetch_zero(NULL) == 0);
	percpu_fcounter_zero(NULL);
	assert_int_equal(percpu_fcounter_array_key(NULL), 0);
	assert_true(percpu_fcounter_array_fetch(NULL, 0) == 0);
	assert_true(percpu_fcounter_array_fetch_zero(NULL, 0) == 0);
	percpu_fcounter_array_zero(NULL, 0);
	percpu_fcounter_array_fetch_all(NULL, &sum);
	assert_true(sum == 7);
	assert_int_equal(percpu_extrema_key(NULL), 0);
	assert_int_equal(percpu_extrema_is_double(NULL), 0);
	assert_int_equal(percpu_extrema_fetch(NULL, &min, &max), -EINVAL);
	assert_int_equal(percpu_extrema_fetch_reset(NULL, &min, &max), -EINVAL);
	assert_int_equal(percpu_extrema_fetch_double(NULL, &sum, &most), -EINVAL);
	assert_int_equal(percpu_extrema_fetch_reset_double(NULL, &sum, &most), -EINVAL);
	assert_int_equal(percpu_extrema_reset(NULL), -EINVAL);
	assert_int_equal(percpu_exemplars_key(NULL), 0);
	assert_int_equal(percpu_exemplars_store(NULL, 1, NULL, 0), -EINVAL);
	assert_int_equal(percpu_exemplars_fetch(NULL, 0, &exemplar), -EINVAL);
	assert_int_equal(percpu_exemplars_reset(NULL), -EINVAL);
	assert_int_equal(percpu_reader_exemplar(NULL, 0, 0, &exemplar), -EINVAL);
	assert_true(min == 7 && max == 8 && sum == 7 && most == 8);
	assert_int_equal(percpu_compact_key(NULL), 0);
	assert_int_equal(percpu_compact_fetch(NULL, 0), 0);
	assert_int_equal(percpu_compact_fetch_zero(NULL, 0), 0);
	percpu_compact_zero(NULL, 0);
	percpu_compact_fetch_all(NULL, &out);
	assert_int_equal(percpu_stats_key(NULL), 0);
	assert_int_equal(percpu_stats_commit_words(NULL), 0);
	assert_int_equal(percpu_stats_fetch(NULL, 0, 1, &out), -EINVAL);
	assert_int_equal(percpu_stats_snapshot(NULL, 0, 1, &out), -EINVAL);
	assert_int_equal(percpu_stats_fetch_zero(NULL, 0, 1, &out), -EINVAL);
	assert_int_equal(percpu_stats_group_key(NULL), 0);
	assert_int_equal(percpu_stats_group_alloc(NULL, &number), -EINVAL);
	assert_int_equal(percpu_stats_group_free(NULL, 1, 0), -EINVAL);
	assert_int_equal(percpu_stats_group_fetch(NULL, 0, 1, &out), -EINVAL);
	assert_int_equal(percpu_stats_group_snapshot(NULL, 0, 1, &out, &ns), -EINVAL);
	assert_int_equal(percpu_stats_group_fetch_zero(NULL, 0, 1, &out, &ns), -EINVAL);
	assert_true(number == 7 && ns == 7);
	percpu_wbuf_read(NULL, cells, 1, &out);
	assert_int_equal(percpu_approx_key(NULL), 0);
	assert_int_equal(percpu_approx_bound(NULL), 0);
	assert_int_equal(percpu_approx_batch(NULL), 0);
	assert_int_equal(percpu_approx_fetch(NULL), 0);
	assert_int_equal(percpu_approx_fetch_zero(NULL), 0);
	percpu_approx_zero(NULL);
	assert_int_equal(percpu_approx_compare(NULL, 1), -1);
	assert_int_equal(percpu_approx_compare(NULL, 0), 0);
	assert_int_equal(percpu_approx_compare(NULL, -1), 1);
	assert_int_equal(percpu_histogram_key(NULL), 0);
	assert_int_equal(percpu_rate_key(NULL), 0);
	assert_int_equal(percpu_rate_limit(NULL), 0);
	assert_int_equal(percpu_rate_period(NULL), 0);
	assert_int_equal(percpu_rate_allowed(NULL), 0);
	assert_int_equal(percpu_rate_refused(NULL), 0);
	assert_true(percpu_rate_per_second(NULL, NULL) == 0);
	assert_false(percpu_rate_check(NULL));
	assert_int_equal(percpu_rate_set_limit(NULL, 1), -EINVAL);
	assert_int_equal(percpu_ring_key(NULL), 0);
	assert_int_equal(percpu_ring_longest(NULL), 0);
	assert_int_equal(percpu_ring_dropped(NULL), 0);
	assert_int_equal(percpu_owners_key(NULL), 0);
	assert_int_equal(percpu_owners_self(NULL), 0);
	assert_int_equal(percpu_owners_alive(NULL, 1), 0);
	assert_int_equal(percpu_owners_list(NULL, NULL, 0), 0);
	assert_int_equal(percpu_owned_gauge_key(NULL), 0);
	assert_int_equal(percpu_owned_fgauge_key(NULL), 0);
	assert_int_equal(percpu_owned_gauge_rule(NULL), -EINVAL);
	assert_int_equal(percpu_owned_fgauge_rule(NULL), -EINVAL);
	assert_int_equal(percpu_local_sum(NULL), 0);
	assert_null(percpu_local_cell(NULL, 0));
	assert_int_equal(out, 7);
}

static void nothing_is_done(void **state)
{
	struct percpu_zone_stats zone_stats = { .size = 7 };
	struct percpu_objcache_stats objcache_stats = { .size = 7 };
	struct percpu_wbuf_stats wbuf_stats = { .entries = 7 };
	struct percpu_ring_record record = { .size = 7 };
	struct percpu_lwbuf_stats lwbuf_stats = { .used = 7 };
	struct percpu_sfbuf_stats sfbuf_stats = { .used = 7 };
	struct percpu_lwbuf b = { .page = 7 };
	struct percpu_sfbuf *sf = NULL;
	size_t found = 7;
	int64_t n = 7;
	double v = 7;
	void *item = NULL;

	(void)state;
	assert_int_equal(percpu_owners_join(NULL), -EINVAL);
	assert_int_equal(percpu_owners_join_as(NULL, "a", 0), -EINVAL);
	assert_int_equal(percpu_segment_join(NULL, "a", 0), -EINVAL);
	percpu_owners_leave(NULL);
	assert_int_equal(percpu_segment_leave(NULL), -EINVAL);
	assert_int_equal(percpu_gauge_set(NULL, 1), -EINVAL);
	assert_int_equal(percpu_fgauge_set(NULL, 1), -EINVAL);
	assert_int_equal(percpu_latest_set(NULL, 1), -EINVAL);
	assert_int_equal(percpu_owned_gauge_set(NULL, 1), -EINVAL);
	assert_int_equal(percpu_owned_fgauge_set(NULL, 1), -EINVAL);
	assert_int_equal(percpu_owned_fgauge_add(NULL, 1), -EINVAL);
	assert_int_equal(percpu_owned_gauge_fetch(NULL, PERCPU_OWNED_ALL, &n), -EINVAL);
	assert_int_equal(percpu_owned_fgauge_fetch(NULL, PERCPU_OWNED_ALL, &v), -EINVAL);
	assert_int_equal(percpu_owned_gauge_each(NULL, PERCPU_OWNED_ALL, NULL, 0, &found), -EINVAL);
	assert_int_equal(percpu_owned_fgauge_each(NULL, PERCPU_OWNED_ALL, NULL, 0, &found),
			 -EINVAL);
	assert_true(n == 7 && v == 7 && found == 7);
	assert_int_equal(percpu_ring_read(NULL, &record), -EINVAL);
	assert_int_equal(record.size, 7);
	assert_int_equal(percpu_zone_cpus(NULL), 0);
	assert_int_equal(percpu_zone_alloc(NULL, 0, &item), -EINVAL);
	assert_int_equal(percpu_zone_free(NULL, &item), -EINVAL);
	assert_int_equal(percpu_zone_run(NULL, &item, NULL, NULL, 1, NULL), -EINVAL);
	percpu_zone_foreach(NULL, NULL, NULL, NULL);
	percpu_zone_set_limit(NULL, 1);
	assert_int_equal(percpu_zone_reclaim(NULL), 0);
	assert_int_equal(percpu_region_reclaim(NULL), 0);
	percpu_zone_stats(NULL, &zone_stats);
	assert_int_equal(zone_stats.size, 7);
	assert_int_equal(percpu_objcache_dtor(NULL, &item), -EINVAL);
	percpu_objcache_set_limit(NULL, 1);
	assert_int_equal(percpu_objcache_reclaim(NULL), 0);
	percpu_objcache_stats(NULL, &objcache_stats);
	assert_int_equal(objcache_stats.size, 7);
	percpu_wbuf_flush(NULL);
	percpu_wbuf_lock(NULL);
	percpu_wbuf_unlock(NULL);
	assert_int_equal(percpu_wbuf_try_flush(NULL), -EINVAL);
	percpu_wbuf_stats(NULL, &wbuf_stats);
	assert_int_equal(wbuf_stats.entries, 7);
	assert_int_equal(percpu_local_pop_cpu(NULL, 0, &item), -EINVAL);
	assert_int_equal(percpu_lwbuf_alloc(NULL, 0, 0, &b), -EINVAL);
	assert_int_equal(percpu_lwbuf_free(NULL, &b), -EINVAL);
	assert_int_equal(percpu_lwbuf_set_max_excess(NULL, 1), -EINVAL);
	percpu_lwbuf_stats(NULL, &lwbuf_stats);
	assert_int_equal(lwbuf_stats.used, 7);
	assert_int_equal(b.page, 7);
	assert_int_equal(percpu_sfbuf_alloc(NULL, 0, 0, &sf), -EINVAL);
	assert_int_equal(percpu_sfbuf_set_max_excess(NULL, 1), -EINVAL);
	assert_int_equal(percpu_sfbuf_ref(NULL, sf), -EINVAL);
	assert_int_equal(percpu_sfbuf_free(NULL, sf), -EINVAL);
	percpu_sfbuf_stats(NULL, &sfbuf_stats);
	assert_int_equal(sfbuf_stats.used, 7);
	assert_null(item);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_do_nothing),
		cmocka_unit_test(results_must_have_a_place),
		cmocka_unit_test(regions_are_needed),
		cmocka_unit_test(nothing_is_read),
		cmocka_unit_test(nothing_is_done),
		cmocka_unit_test(results_of_objects_must_have_a_place),
		cmocka_unit_test(what_is_asked_for_must_be_possible),
	};

	return cmocka_run_group_tests(tests, open_region, test_remove_paths);
}
