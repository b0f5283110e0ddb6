/* SPDX-License-Identifier: MIT */
/* test_twin_pools.c - zones and object caches, tested in the same way. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <percpu/objcache.h>
#include <percpu/percpu.h>
#include <percpu/zone.h>

#include "support.h"

#define POISON ((void *)(uintptr_t)0x5555)
#define UNKNOWN 0x100 /* a flag */

static int number_of(void **state)
{
	return (int)(uintptr_t)*state;
}

enum pool { ZONE, CONSTRUCTED_ZONE, CACHE, CONSTRUCTED_CACHE, POOLS };

#define ITEM 64 /* bytes */
#define ITEMS 40
#define MARK UINT64_C(0x1122334455667788)

static struct percpu_zone *zone;
static struct percpu_objcache *cache;
static unsigned constructed, destructed;

struct pool_stats {
	uint64_t limit, requested, used, cached, failed, waited;
};

static void construct_copy(void *cell, unsigned cpu, void *arg)
{
	*(uint64_t *)cell = MARK;
	*(unsigned *)arg += cpu == 0;
}

static void destruct_copy(void *cell, unsigned cpu, void *arg)
{
	(void)arg;
	*(uint64_t *)cell = 0;
	destructed += cpu == 0;
}

static int construct(void *obj, void *arg, unsigned flags)
{
	(void)flags;
	construct_copy(obj, 0, arg);
	return 0;
}

static void destruct(void *obj, void *arg)
{
	destruct_copy(obj, 0, arg);
}

static bool is_zone(enum pool k)
{
	return k == ZONE || k == CONSTRUCTED_ZONE;
}

static bool is_constructed(enum pool k)
{
	return k == CONSTRUCTED_ZONE || k == CONSTRUCTED_CACHE;
}

static int make_pool(enum pool k, const char *name, size_t size, size_t limit, unsigned flags)
{
	const struct percpu_zone_options z = { .size = sizeof(z),
					       .limit = limit,
					       .ctor = is_constructed(k) ? construct_copy : NULL,
					       .dtor = is_constructed(k) ? destruct_copy : NULL,
					       .arg = &constructed,
					       .flags = flags };
	const struct percpu_objcache_options c = { .size = sizeof(c),
						   .limit = limit,
						   .ctor = is_constructed(k) ? construct : NULL,
						   .dtor = is_constructed(k) ? destruct : NULL,
						   .arg = &constructed,
						   .flags = flags };

	constructed = destructed = 0;
	zone = POISON;
	cache = POISON;
	return is_zone(k) ? percpu_zone_create(name, size, &z, &zone) :
			    percpu_objcache_create(name, size, &c, &cache);
}

static int get(enum pool k, bool wait, void **ret)
{
	return is_zone(k) ? percpu_zone_alloc(zone, wait ? PERCPU_ZONE_WAIT : 0, ret) :
			    percpu_objcache_get(cache, wait ? PERCPU_OBJCACHE_WAIT : 0, ret);
}

static int put(enum pool k, void *item)
{
	if (is_zone(k))
		return percpu_zone_free(zone, item);
	percpu_objcache_put(cache, item);
	return 0;
}

static int free_pool(enum pool k)
{
	return is_zone(k) ? percpu_zone_destroy(zone) : percpu_objcache_destroy(cache);
}

static void set_limit(enum pool k, size_t limit)
{
	if (is_zone(k))
		percpu_zone_set_limit(zone, limit);
	else
		percpu_objcache_set_limit(cache, limit);
}

static void reclaim(enum pool k)
{
	if (is_zone(k))
		(void)percpu_zone_reclaim(zone);
	else
		(void)percpu_objcache_reclaim(cache);
}

static struct pool_stats stats_of(enum pool k)
{
	struct percpu_objcache_stats c;
	struct percpu_zone_stats z;

	if (is_zone(k)) {
		percpu_zone_stats(zone, &z);
		assert_string_equal(z.name, "twins");
		assert_int_equal(z.size, ITEM);
		return (struct pool_stats){ z.limit,  z.requests, z.used,
					    z.cached, z.failures, z.waits };
	}
	percpu_objcache_stats(cache, &c);
	assert_string_equal(c.name, "twins");
	assert_int_equal(c.size, ITEM);
	return (struct pool_stats){ c.limit, c.requested, c.used, c.cached, c.failed, c.waited };
}

static void expect_used(enum pool k, uint64_t used, uint64_t requested, uint64_t failed)
{
	const struct pool_stats is = stats_of(k);

	assert_int_equal(is.used, used);
	assert_int_equal(is.requested, requested);
	assert_int_equal(is.failed, failed);
}

static void expect_limit_reached(enum pool k)
{
	void *item = POISON;

	assert_int_equal(get(k, false, &item), -ENOSPC);
	assert_ptr_equal(item, POISON);
}

/* Destroy the pool. Asserts that all constructed objects were destructed. */
static void end_pool(enum pool k)
{
	assert_int_equal(stats_of(k).used, 0);
	assert_int_equal(free_pool(k), 0);
	assert_int_equal(constructed, destructed);
	assert_int_equal(constructed != 0, is_constructed(k));
}

static void limits_are_kept(void **state)
{
	const enum pool k = (enum pool)number_of(state);
	void *item[4];

	assert_int_equal(make_pool(k, "twins", ITEM, 3, 0), 0);
	assert_int_equal(stats_of(k).limit, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(get(k, false, &item[i]), 0);
	expect_limit_reached(k);
	expect_used(k, 3, 3, 1);
	assert_int_equal(free_pool(k), -EBUSY);
	assert_int_equal(put(k, item[2]), 0);
	expect_used(k, 2, 3, 1);
	assert_int_equal(get(k, false, &item[2]), 0);
	set_limit(k, 2);
	assert_int_equal(stats_of(k).limit, 2);
	assert_int_equal(put(k, item[2]), 0);
	expect_limit_reached(k);
	expect_used(k, 2, 4, 2);
	set_limit(k, 0);
	for (int i = 2; i < 4; i++)
		assert_int_equal(get(k, false, &item[i]), 0);
	expect_used(k, 4, 6, 2);
	for (int i = 0; i < 4; i++)
		assert_int_equal(put(k, item[i]), 0);
	assert_true(stats_of(k).cached >= 4);
	reclaim(k);
	assert_int_equal(stats_of(k).cached, 0);
	end_pool(k);
}

/* Fill an item, and its copies for all CPUs if it has them. */
static void fill(enum pool k, void *item, int with)
{
	const unsigned cpus = is_zone(k) ? percpu_zone_cpus(zone) : 1;

	for (unsigned cpu = 0; cpu < cpus; cpu++)
		memset(percpu_zone_get(item, cpu), with, ITEM);
}

static bool is_filled(enum pool k, void *item, int with)
{
	const unsigned cpus = is_zone(k) ? percpu_zone_cpus(zone) : 1;
	const unsigned char *at;

	for (unsigned cpu = 0; cpu < cpus; cpu++) {
		at = percpu_zone_get(item, cpu);
		for (int i = 0; i < ITEM; i++)
			if (at[i] != with)
				return false;
	}
	return true;
}

static void items_are_apart(void **state)
{
	const enum pool k = (enum pool)number_of(state);
	void *item[ITEMS];

	assert_int_equal(make_pool(k, "twins", ITEM, 0, 0), 0);
	for (int i = 0; i < ITEMS; i++) {
		assert_int_equal(get(k, false, &item[i]), 0);
		if (is_constructed(k))
			assert_int_equal(*(uint64_t *)item[i], MARK);
		fill(k, item[i], i + 1);
	}
	for (int i = 0; i < ITEMS; i++) {
		assert_true(is_filled(k, item[i], i + 1));
		assert_int_equal(put(k, item[i]), 0);
	}
	expect_used(k, 0, ITEMS, 0);
	end_pool(k);
}

static void pools_refuse_what_is_wrong(void **state)
{
	const enum pool k = (enum pool)number_of(state);
	void *item = POISON;

	assert_int_equal(make_pool(k, NULL, ITEM, 0, 0), -EINVAL);
	assert_int_equal(make_pool(k, "twins", 0, 0, 0), -EINVAL);
	assert_int_equal(make_pool(k, "twins", ITEM, 0, UNKNOWN), -EINVAL);
	assert_ptr_equal(zone, POISON);
	assert_ptr_equal(cache, POISON);
	assert_int_equal(make_pool(k, "twins", ITEM, 0, 0), 0);
	assert_int_equal(is_zone(k) ? percpu_zone_alloc(zone, UNKNOWN, &item) :
				      percpu_objcache_get(cache, UNKNOWN, &item),
			 -EINVAL);
	assert_int_equal(get(k, false, NULL), -EINVAL);
	assert_ptr_equal(item, POISON);
	assert_int_equal(put(k, NULL), 0);
	assert_int_equal(stats_of(k).used, 0);
	assert_int_equal(free_pool(k), 0);
}

static bool has_ended; /* of the thread below; atomic */

static void *get_and_put(void *arg)
{
	const enum pool k = (enum pool)(uintptr_t)arg;
	void *item;
	int e = get(k, true, &item);

	if (e == 0)
		e = put(k, item);
	__atomic_store_n(&has_ended, true, __ATOMIC_RELEASE);
	return e == 0 ? NULL : POISON;
}

static void waiters_get_what_is_put(void **state)
{
	const enum pool k = (enum pool)number_of(state);
	void *item, *result;
	pthread_t thread;

	assert_int_equal(make_pool(k, "twins", ITEM, 1, 0), 0);
	assert_int_equal(get(k, true, &item), 0);
	assert_int_equal(stats_of(k).waited, 0);
	__atomic_store_n(&has_ended, false, __ATOMIC_RELAXED);
	assert_int_equal(pthread_create(&thread, NULL, get_and_put, *state), 0);
	while (stats_of(k).waited == 0 && !__atomic_load_n(&has_ended, __ATOMIC_ACQUIRE))
		usleep(100);
	assert_int_equal(put(k, item), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	expect_used(k, 0, 2, 0);
	assert_int_equal(stats_of(k).waited, 1);
	end_pool(k);
}

static const char *const pool_names[POOLS] = {
	[ZONE] = "zone",
	[CONSTRUCTED_ZONE] = "zone with a constructor",
	[CACHE] = "object cache",
	[CONSTRUCTED_CACHE] = "object cache with a constructor",
};

static const struct {
	const char *name;
	void (*run)(void **state);
} bodies[] = {
	{ "limits are kept", limits_are_kept },
	{ "items are apart", items_are_apart },
	{ "what is wrong is refused", pools_refuse_what_is_wrong },
	{ "waiters get what is put", waiters_get_what_is_put },
};

#define BODIES (sizeof(bodies) / sizeof(bodies[0]))

int main(void)
{
	static struct CMUnitTest tests[BODIES * POOLS];
	static char names[BODIES * POOLS][80];
	size_t n = 0;

	for (size_t i = 0; i < BODIES; i++)
		for (int k = 0; k < POOLS; k++, n++) {
			snprintf(names[n], sizeof(names[n]), "%s: %s", pool_names[k],
				 bodies[i].name);
			tests[n] = (struct CMUnitTest){ .name = names[n],
							.test_func = bodies[i].run,
							.initial_state = (void *)(uintptr_t)k };
		}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
