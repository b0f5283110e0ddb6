/* SPDX-License-Identifier: MIT */
/*
 * test_reclaim_all.c - percpu_reclaim(): what it empties of a process, and what other threads,
 * destructors and forks may do meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/objcache.h>

#include "caches/caches.h"
#include "../happen.h"
#include "../lwbuf.h"
#include "../zone.h"

#define MANY 200 /* items, more than a CPU's array holds */

static void *things[MANY];

static void use_zone(struct percpu_zone *z)
{
	for (unsigned i = 0; i < MANY; i++)
		things[i] = take(z, 0);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(z, things[i]), 0);
}

static void use_cache(struct percpu_objcache *oc)
{
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_objcache_get(oc, 0, &things[i]), 0);
	for (unsigned i = 0; i < MANY; i++)
		percpu_objcache_put(oc, things[i]);
}

static uint64_t cached_in(const struct percpu_objcache *oc)
{
	struct percpu_objcache_stats s;

	percpu_objcache_stats(oc, &s);
	return s.cached;
}

static struct percpu_objcache *plain_cache(void (*dtor)(void *obj, void *arg))
{
	struct percpu_objcache_options o = { .size = sizeof(o), .dtor = dtor };
	struct percpu_objcache *oc;

	assert_int_equal(percpu_objcache_create("plain", 64, &o, &oc), 0);
	return oc;
}

static void pools_are_emptied(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o) };
	struct percpu_objcache *oc = plain_cache(NULL);
	struct percpu_zone *own, *z;

	(void)state;
	assert_int_equal(percpu_region_create(NULL, &o.region), 0);
	own = make(64, NULL);
	z = make(64, &o);
	use_zone(own);
	use_zone(z);
	use_cache(oc);
	assert_true(stats_of(own).cached != 0 && stats_of(z).cached != 0 && cached_in(oc) != 0);
	percpu_reclaim();
	assert_int_equal(stats_of(own).cached, 0);
	assert_int_equal(stats_of(z).cached, 0);
	assert_int_equal(cached_in(oc), 0);
	use_zone(own);
	use_zone(z);
	use_cache(oc);
	assert_int_equal(percpu_zone_destroy(z), 0);
	assert_int_equal(percpu_zone_destroy(own), 0);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
	percpu_region_close(o.region);
}

/* The pages of zones and of all regions are returned. */
static void regions_are_reclaimed(void **state)
{
	enum { ITEMS = 3 * 64 };
	struct percpu_zone *z = make(1024, NULL);
	struct percpu_region *r;
	void *cell[3];

	(void)state;
	for (unsigned i = 0; i < ITEMS; i++)
		things[i] = take(z, 0);
	for (unsigned i = 0; i < ITEMS; i++)
		assert_int_equal(percpu_zone_free(z, things[i]), 0);
	assert_int_equal(percpu_region_create(NULL, &r), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE, 8, &cell[i]), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(percpu_region_free(r, cell[i], PERCPU_LANE_SIZE), 0);
	assert_int_equal(z->region->n, 3);
	percpu_reclaim();
	for (unsigned i = 1; i < 3; i++) {
		assert_false(percpu_chunk_is_committed(z->region->chunks->at[i]));
		assert_false(percpu_chunk_is_committed(r->chunks->at[i]));
	}
	assert_int_equal(percpu_zone_destroy(z), 0);
	percpu_region_close(r);
}

/* Return whether the page has memory. An emulator may know nothing of an address. */
static bool is_resident(const void *at)
{
	unsigned char vec = 0;

	return mincore((void *)(uintptr_t)at, 1, &vec) == 0 && (vec & 1);
}

static void windows_are_given_up(void **state)
{
	struct percpu_lwbufs *f = lw_create(lw_memfd(8, PAGE, true), PERCPU_LWBUF_WINDOW, 0, 0);
	struct percpu_sfbuf *shared[2];
	struct percpu_lwbuf b;
	const char *at;

	(void)state;
	assert_int_equal(percpu_lwbuf_alloc(f, 3, 0, &b), 0);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(percpu_sfbuf_alloc(f, 4 + i, 0, &shared[i]), 0);
	at = percpu_sfbuf_kva(shared[0]);
	assert_int_equal(percpu_sfbuf_free(f, shared[0]), 0);
	assert_int_equal(lw_stats(f).excess, 1);
	assert_true(is_resident(at));
	percpu_reclaim();
	assert_int_equal(lw_stats(f).excess, 0);
	assert_false(is_resident(at));
	assert_true(lw_is_right(percpu_sfbuf_kva(shared[1]), 5, PAGE));
	assert_int_equal(percpu_sfbuf_free(f, shared[1]), 0);
	assert_int_equal(percpu_sfbuf_alloc(f, 4, 0, &shared[0]), 0);
	assert_true(lw_is_right(percpu_sfbuf_kva(shared[0]), 4, PAGE));
	assert_int_equal(percpu_sfbuf_free(f, shared[0]), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

static void bounce_buffers_lose_their_memory(void **state)
{
	struct percpu_lwbufs *f = lw_create(lw_memfd(8, PAGE, false), PERCPU_LWBUF_BOUNCE, 0, 0);
	struct percpu_lwbuf b[2];
	char *at[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(percpu_lwbuf_alloc(f, i, 0, &b[i]), 0);
		at[i] = percpu_lwbuf_kva(&b[i]);
	}
	assert_int_equal(percpu_lwbuf_free(f, &b[0]), 0);
	assert_true(is_resident(at[0]));
	percpu_reclaim();
	assert_false(is_resident(at[0]));
	assert_true(lw_is_right(at[1], 1, PAGE));
	assert_int_equal(percpu_lwbuf_free(f, &b[1]), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* Destructors. */

static struct percpu_objcache *cache, *inner;
static int answer;

static void destroy_inner(void *obj, void *arg)
{
	(void)obj;
	(void)arg;
	answer = percpu_objcache_destroy(cache);
	if (inner != NULL)
		assert_int_equal(percpu_objcache_destroy(inner), 0);
	inner = NULL;
}

/* A destructor may destroy another cache, and cannot destroy its own. */
static void destructors_may_destroy(void **state)
{
	(void)state;
	inner = plain_cache(NULL);
	cache = plain_cache(destroy_inner);
	use_cache(cache);
	percpu_reclaim();
	assert_int_equal(answer, -EBUSY);
	assert_null(inner);
	assert_int_equal(cached_in(cache), 0);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

/* Beside other threads. */

static struct percpu_zone *zone;
static struct test_team destroying;
static bool destroyed[2]; /* atomic; the zone, the cache */
static unsigned pinned;	  /* which one is */

static void destroy_pools(unsigned i, void *arg)
{
	(void)arg;
	test_child_require((i == 0 ? percpu_zone_destroy(zone) : percpu_objcache_destroy(cache)) ==
				   0,
			   "to destroy");
	__atomic_store_n(&destroyed[i], true, __ATOMIC_SEQ_CST);
}

static void let_destroy(void)
{
	test_team_start(&destroying, 2, destroy_pools, NULL);
	test_sleep_us(20000);
	test_child_require(!__atomic_load_n(&destroyed[pinned], __ATOMIC_SEQ_CST), "to wait");
}

/* The pool that was made last is the first to be reclaimed. */
static int destroy_amid(void *arg)
{
	(void)arg;
	if (pinned == 1)
		zone = make(64, NULL);
	cache = plain_cache(NULL);
	if (pinned == 0)
		zone = make(64, NULL);
	use_zone(zone);
	use_cache(cache);
	let_happen(let_destroy, "pool: pinned", 1);
	percpu_reclaim();
	test_child_require(times == 0, "to reclaim a pool");
	test_team_join(&destroying);
	test_child_require(destroyed[0] && destroyed[1], "to destroy both");
	return 0;
}

static void destruction_waits_for_it(void **state)
{
	(void)state;
	for (pinned = 0; pinned < 2; pinned++)
		test_in_child(destroy_amid, NULL);
}

static int destroy_at_once(void *arg)
{
	(void)arg;
	test_child_require(percpu_zone_destroy(zone) == 0, "to destroy the zone");
	test_child_require(percpu_objcache_destroy(cache) == 0, "to destroy the cache");
	return 0;
}

static void *fork_child(void *arg)
{
	*(int *)arg = test_wait(test_fork(destroy_at_once, NULL), 20);
	return NULL;
}

static int child_status;

static void fork_elsewhere(void)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, fork_child, &child_status), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* The thread that reclaims is not in the child. */
static void children_destroy_at_once(void **state)
{
	(void)state;
	test_needs_forks_beside_malloc();
	cache = plain_cache(NULL);
	zone = make(64, NULL);
	child_status = -1;
	let_happen(fork_elsewhere, "pool: pinned", 1);
	percpu_reclaim();
	assert_int_equal(child_status, 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

/* A zone that cannot be destroyed yet is reclaimed later. */
static void busy_zones_are_reclaimed(void **state)
{
	void *item;

	(void)state;
	zone = make(64, NULL);
	item = take(zone, 0);
	assert_int_equal(percpu_zone_destroy(zone), -EBUSY);
	cache = plain_cache(NULL);
	assert_int_equal(percpu_objcache_get(cache, 0, &things[0]), 0);
	assert_int_equal(percpu_objcache_destroy(cache), -EBUSY);
	percpu_objcache_put(cache, things[0]);
	assert_int_equal(percpu_zone_free(zone, item), 0);
	assert_int_equal(stats_of(zone).cached, 1);
	percpu_reclaim();
	assert_int_equal(stats_of(zone).cached, 0);
	assert_int_equal(cached_in(cache), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

/* Debug zones. */

static void free_things(void)
{
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(zone, things[i]), 0);
}

/* Items that are freed while regions are reclaimed keep their poison, or are known to have
 * lost it. */
static void debug_zones_find_no_error(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };

	(void)state;
	zone = make(1024, &o);
	for (unsigned i = 0; i < MANY; i++)
		things[i] = take(zone, 0);
	let_happen(free_things, "reclaim: pools emptied", 1);
	percpu_reclaim();
	assert_int_equal(times, 0);
	for (unsigned i = 0; i < MANY; i++)
		things[i] = take(zone, 0);
	free_things();
	assert_int_equal(percpu_zone_destroy(zone), 0);
}

/* A thread whose cancellation takes effect at once is canceled when the reclaim has ended. */

static bool emptied;

static void note_emptied(void)
{
	emptied = true;
}

static void cancel_oneself(void *obj, void *arg)
{
	(void)obj;
	(void)arg;
	pthread_cancel(pthread_self());
}

static void *reclaim_and_be_canceled(void *arg)
{
	int type;

	(void)arg;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	percpu_reclaim();
	pthread_testcancel();
	return NULL;
}

static void cancellation_waits_for_it(void **state)
{
	void *result = NULL;
	pthread_t thread;

	(void)state;
	cache = plain_cache(cancel_oneself);
	use_cache(cache);
	let_happen(note_emptied, "reclaim: pools emptied", 1);
	assert_int_equal(pthread_create(&thread, NULL, reclaim_and_be_canceled, NULL), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_true(emptied);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pools_are_emptied),
		cmocka_unit_test(regions_are_reclaimed),
		cmocka_unit_test(windows_are_given_up),
		cmocka_unit_test(bounce_buffers_lose_their_memory),
		cmocka_unit_test(destructors_may_destroy),
		cmocka_unit_test(destruction_waits_for_it),
		cmocka_unit_test(children_destroy_at_once),
		cmocka_unit_test(busy_zones_are_reclaimed),
		cmocka_unit_test(debug_zones_find_no_error),
		cmocka_unit_test(cancellation_waits_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
