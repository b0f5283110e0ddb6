/* SPDX-License-Identifier: MIT */
/* test_objcache.c - caches of objects, used by one thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/objcache.h>

#include "objcache.h"

#include "caches/caches.h"

#define MANY 2000 /* objects, more than the arrays hold */

static void *objects[MANY];

static void get_all(struct percpu_objcache *oc, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		objects[i] = get(oc);
}

static void put_all(struct percpu_objcache *oc, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		percpu_objcache_put(oc, objects[i]);
}

static void bad_arguments_are_refused(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .alloc = made_alloc };
	struct percpu_objcache *oc = NULL;
	void *obj = &o;

	(void)state;
	assert_int_equal(percpu_objcache_create(NULL, 8, NULL, &oc), -EINVAL);
	assert_int_equal(percpu_objcache_create("bad", 0, NULL, &oc), -EINVAL);
	assert_int_equal(percpu_objcache_create("bad", 8, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_objcache_create("bad", 8, &o, &oc), -EINVAL);
	o.alloc = NULL;
	o.free = made_free;
	assert_int_equal(percpu_objcache_create("bad", 8, &o, &oc), -EINVAL);
	o.free = NULL;
	o.flags = PERCPU_OBJCACHE_WAIT;
	assert_int_equal(percpu_objcache_create("bad", 8, &o, &oc), -EINVAL);
	o.flags = 0;
	o.reserved = 1;
	assert_int_equal(percpu_objcache_create("bad", 8, &o, &oc), -EINVAL);
	assert_null(oc);
	oc = make_cache(NULL);
	assert_int_equal(percpu_objcache_get(oc, PERCPU_OBJCACHE_DEBUG, &obj), -EINVAL);
	assert_int_equal(percpu_objcache_get_slow(oc, 0, NULL), -EINVAL);
	assert_ptr_equal(obj, &o);
	percpu_objcache_put(oc, NULL);
	assert_int_equal(percpu_objcache_dtor(oc, NULL), 0);
	assert_int_equal(percpu_objcache_dtor(NULL, &o), -EINVAL);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
	assert_int_equal(percpu_objcache_destroy(NULL), 0);
}

/* A constructor runs once for each object, and not for each get. */
static void objects_stay_constructed(void **state)
{
	struct percpu_objcache *oc = make_cache(NULL);

	(void)state;
	test_pin(0, test_cpu(0)); /* so that no object is left in another CPU's array */
	for (unsigned round = 0; round < 20; round++) {
		get_all(oc, MANY);
		for (unsigned i = 0; i < MANY; i++)
			assert_int_equal(*(uint64_t *)objects[i], CONSTRUCTED);
		put_all(oc, MANY);
		assert_in_range(made.constructed, MANY, MANY);
	}
	test_unpin(0);
	assert_int_equal(made.destroyed, 0);
	assert_int_equal(stats_of(oc).allocated, MANY);
	assert_int_equal(stats_of(oc).requested, 20 * MANY);
	assert_int_equal(stats_of(oc).cached, MANY);
	assert_int_equal(stats_of(oc).used, 0);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
	assert_int_equal(made.destroyed, MANY);
	assert_int_equal(made.freed, MANY);
}

static void the_simple_form_is_of_malloc(void **state)
{
	struct percpu_objcache *oc;
	void *obj;

	(void)state;
	assert_int_equal(percpu_objcache_create("simple", 100, NULL, &oc), 0);
	assert_int_equal(percpu_objcache_get(oc, 0, &obj), 0);
	memset(obj, 1, 100);
	percpu_objcache_put(oc, obj);
	assert_int_equal(stats_of(oc).size, 100);
	assert_string_equal(stats_of(oc).name, "simple");
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

static void failed_constructions_leave_nothing(void **state)
{
	struct percpu_objcache *oc = make_cache(NULL);
	void *obj = &oc;

	(void)state;
	made.ctor_result = -ENXIO;
	assert_int_equal(percpu_objcache_get(oc, 0, &obj), -ENXIO);
	made.ctor_result = 7;
	assert_int_equal(percpu_objcache_get(oc, 0, &obj), -EIO);
	made.ctor_result = -ENOSPC; /* the constructor's, not that of the limit */
	assert_int_equal(percpu_objcache_get(oc, PERCPU_OBJCACHE_WAIT, &obj), -ENOSPC);
	assert_int_equal(made.allocated, 3);
	assert_int_equal(made.freed, 3);
	assert_int_equal(made.destroyed, 0);
	made.ctor_result = 0;
	made.no_memory = true;
	assert_int_equal(percpu_objcache_get(oc, 0, &obj), -ENOMEM);
	assert_ptr_equal(obj, &oc);
	assert_int_equal(stats_of(oc).failed, 4);
	assert_int_equal(stats_of(oc).used, 0);
	assert_int_equal(stats_of(oc).requested, 0);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

/* Objects whose construction failed do not count for the limit. */
static void failures_leave_room_below_the_limit(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .limit = 1 };
	struct percpu_objcache *oc = make_cache(&o);
	void *obj;

	(void)state;
	made.ctor_result = -ENXIO;
	for (int i = 0; i < 3; i++)
		assert_int_equal(percpu_objcache_get(oc, 0, &obj), -ENXIO);
	made.ctor_result = 0;
	obj = get(oc);
	percpu_objcache_put(oc, obj);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

static void flags_reach_constructor_and_backend(void **state)
{
	struct percpu_objcache *oc = make_cache(NULL);
	void *obj;

	(void)state;
	assert_int_equal(percpu_objcache_get(oc, PERCPU_OBJCACHE_WAIT | 0x50000, &obj), 0);
	assert_int_equal(made.alloc_flags, PERCPU_OBJCACHE_WAIT | 0x50000);
	assert_int_equal(made.ctor_flags, PERCPU_OBJCACHE_WAIT | 0x50000);
	percpu_objcache_put(oc, obj);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

/* Free objects are on several CPUs, and a get finds all of them before it fails. */
static void the_limit_is_strict(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .limit = 10 };
	struct percpu_objcache *oc = make_cache(&o);
	void *obj = &oc;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		assert_true(test_pin(0, test_cpu(i % test_cpus())));
		get_all(oc, 10);
		assert_int_equal(percpu_objcache_get(oc, 0, &obj), -ENOSPC);
		assert_ptr_equal(obj, &oc);
		for (unsigned k = 0; k < 10; k++) {
			assert_true(test_pin(0, test_cpu((i + k) % test_cpus())));
			percpu_objcache_put(oc, objects[k]);
		}
	}
	test_unpin(0);
	assert_int_equal(made.constructed, 10);
	assert_int_equal(stats_of(oc).exhausted, 20);
	assert_int_equal(stats_of(oc).failed, 20);
	assert_int_equal(stats_of(oc).limit, 10);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

/* Without memory a get takes an object from another CPU before it fails. */
static void objects_elsewhere_serve_without_memory(void **state)
{
	struct percpu_objcache *oc = make_cache(NULL);
	void *obj;

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	obj = get(oc);
	percpu_objcache_put(oc, obj);
	made.no_memory = true;
	assert_true(test_pin(0, test_cpu(test_cpus() - 1)));
	assert_ptr_equal(get(oc), obj);
	test_unpin(0);
	percpu_objcache_put(oc, obj);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

static bool depot_has_no_memory;

int __real_percpu_depot_put(struct percpu_depot *d, void *const *items, size_t n);
int __wrap_percpu_depot_put(struct percpu_depot *d, void *const *items, size_t n);
int __wrap_percpu_depot_put(struct percpu_depot *d, void *const *items, size_t n)
{
	return depot_has_no_memory ? -ENOMEM : __real_percpu_depot_put(d, items, n);
}

/* A put to a full array destroys objects for which the depot has no memory, without a limit. */
static void what_the_depot_cannot_take_is_destroyed(void **state)
{
	struct percpu_objcache *oc = make_cache(NULL);

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	get_all(oc, MANY);
	depot_has_no_memory = true;
	put_all(oc, MANY);
	depot_has_no_memory = false;
	assert_in_range(made.destroyed, MANY / 2, MANY);
	assert_int_equal(made.freed, made.destroyed);
	assert_int_equal(made.wrong, 0);
	assert_int_equal(stats_of(oc).used, 0);
	assert_int_equal(stats_of(oc).cached, MANY - made.destroyed);
	get_all(oc, MANY);
	put_all(oc, MANY); /* with memory it keeps all */
	assert_int_equal(stats_of(oc).cached, MANY);
	test_unpin(0);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
	assert_int_equal(made.freed, made.allocated);
}

static int barrier_error;

int __real_percpu_barrier_cpu(unsigned cpu);
int __wrap_percpu_barrier_cpu(unsigned cpu);
int __wrap_percpu_barrier_cpu(unsigned cpu)
{
	return barrier_error != 0 ? barrier_error : __real_percpu_barrier_cpu(cpu);
}

/* The only object is on another CPU, and the fence fails. The get returns the fence's error, even
 * one that a backend may return. */
static void objects_elsewhere_are_out_of_reach(void **state)
{
	static const int errors[] = { -EPERM, -ETIMEDOUT, -EAGAIN, -ENOMEM };
	struct percpu_objcache_options o = { .size = sizeof(o), .limit = 1 };
	struct percpu_objcache *oc;
	void *obj, *none = &o;

	(void)state;
	if (test_tier() == PERCPU_TIER_SHARED || test_cpus() < 2)
		test_skip("there is one array");
	oc = make_cache(&o);
	assert_true(test_pin(0, test_cpu(0)));
	obj = get(oc);
	percpu_objcache_put(oc, obj);
	assert_true(test_pin(0, test_cpu(1)));
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		barrier_error = errors[i];
		assert_int_equal(percpu_objcache_get(oc, 0, &none), errors[i]);
		assert_ptr_equal(none, &o);
	}
	barrier_error = 0;
	assert_int_equal(stats_of(oc).failed, sizeof(errors) / sizeof(errors[0]));
	assert_ptr_equal(get(oc), obj);
	test_unpin(0);
	percpu_objcache_put(oc, obj);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

static void a_limit_may_be_set_below_what_is_used(void **state)
{
	struct percpu_objcache *oc = make_cache(NULL);
	void *obj;

	(void)state;
	get_all(oc, 20);
	for (unsigned i = 10; i < 20; i++)
		percpu_objcache_put(oc, objects[i]);
	percpu_objcache_set_limit(oc, 4);
	assert_int_equal(made.destroyed, 10);
	assert_int_equal(percpu_objcache_get(oc, 0, &obj), -ENOSPC);
	for (unsigned i = 0; i < 6; i++)
		percpu_objcache_put(oc, objects[i]);
	assert_int_equal(made.destroyed, 16);
	for (unsigned i = 6; i < 10; i++)
		percpu_objcache_put(oc, objects[i]);
	assert_int_equal(made.destroyed, 16);
	assert_int_equal(stats_of(oc).cached, 4);
	percpu_objcache_set_limit(oc, 3); /* destroys one object, not more */
	assert_int_equal(made.destroyed, 17);
	percpu_objcache_set_limit(oc, 0);
	get_all(oc, 20);
	put_all(oc, 20);
	assert_int_equal(stats_of(oc).cached, 20);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

/* A put reads room, the limit is lowered, and the put reads room again after its push. */
static void who_puts_late_keeps_nothing_above_the_limit(void **state)
{
	struct percpu_objcache *oc = make_cache(NULL);
	uint64_t room;

	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ) {
		assert_int_equal(percpu_objcache_destroy(oc), 0);
		test_skip("puts of other tiers take the limit as it is");
	}
	get_all(oc, 2);
	room = oc->room;
	percpu_objcache_set_limit(oc, 1);
	assert_true(oc->room != room);
	while (percpu_seq_push(oc->cell, oc->guard, oc->stride, room, objects[0]) != 0)
		;
	assert_int_equal(stats_of(oc).cached, 1);
	percpu_objcache_put(oc, NULL);
	assert_int_equal(stats_of(oc).cached, 0);
	assert_int_equal(made.destroyed, 1);
	percpu_objcache_put(oc, objects[1]);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

static void spoiled_objects_are_not_kept(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .limit = 1 };
	struct percpu_objcache *oc = make_cache(&o);
	void *obj = get(oc);

	(void)state;
	assert_int_equal(percpu_objcache_destroy(oc), -EBUSY);
	assert_int_equal(percpu_objcache_dtor(oc, obj), 0);
	assert_int_equal(made.destroyed, 1);
	assert_int_equal(made.freed, 1);
	obj = get(oc);
	assert_int_equal(made.constructed, 2);
	percpu_objcache_put(oc, obj);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

static void a_reclaim_destroys_what_is_free(void **state)
{
	struct percpu_objcache *oc = make_cache(NULL);

	(void)state;
	assert_int_equal(percpu_objcache_reclaim(NULL), 0);
	get_all(oc, MANY);
	for (unsigned i = 1; i < MANY; i++)
		percpu_objcache_put(oc, objects[i]);
	assert_int_equal(percpu_objcache_reclaim(oc), MANY - 1);
	assert_int_equal(made.destroyed, MANY - 1);
	assert_int_equal(stats_of(oc).cached, 0);
	assert_int_equal(stats_of(oc).used, 1);
	percpu_objcache_put(oc, objects[0]);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

/* Arrays stay short if only one get in about a thousand goes to the depot. */
static void arrays_stay_short_without_need(void **state)
{
	struct percpu_objcache *oc = make_cache(NULL);

	(void)state;
	test_pin(0, test_cpu(0));
	for (unsigned i = 0; i < 30; i++) {
		get_all(oc, 100);
		put_all(oc, 100);
		for (unsigned k = 0; k < 400; k++) {
			get_all(oc, 10);
			put_all(oc, 10);
		}
	}
	assert_int_equal(stats_of(oc).array, 64);
	/* They still grow later, if many gets go to the depot. */
	for (unsigned i = 0; i < 200; i++) {
		get_all(oc, 300);
		put_all(oc, 300);
	}
	test_unpin(0);
	assert_in_range(stats_of(oc).array, 128, 510);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

static uint64_t array_of(uint64_t cached, size_t limit, unsigned burst)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .cached = cached, .limit = limit };
	struct percpu_objcache *oc = make_cache(&o);
	uint64_t array;

	for (unsigned i = 0; i < 200; i++) {
		get_all(oc, burst);
		put_all(oc, burst);
	}
	array = stats_of(oc).array;
	(void)percpu_objcache_reclaim(oc);
	assert_in_range(stats_of(oc).array, 2, 64);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
	return array;
}

/* Arrays grow if gets go to the depot, up to the bound, and stay short otherwise. */
static void arrays_are_as_long_as_they_must(void **state)
{
	unsigned cpus = percpu_status()->possible_cpus;

	(void)state;
	test_pin(0, test_cpu(0));
	assert_int_equal(array_of(0, 0, 10), 64);
	assert_in_range(array_of(0, 0, 300), 128, 510);
	assert_int_equal(array_of(100 * cpus, 0, 300), 100);
	assert_int_equal(array_of(1, 0, 300), 2);
	assert_in_range(array_of(SIZE_MAX, 0, MANY / 2), 256, 510);
	assert_int_equal(array_of(0, 300 * cpus, 300), 150);
	test_unpin(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_arguments_are_refused),
		cmocka_unit_test(objects_stay_constructed),
		cmocka_unit_test(the_simple_form_is_of_malloc),
		cmocka_unit_test(failed_constructions_leave_nothing),
		cmocka_unit_test(failures_leave_room_below_the_limit),
		cmocka_unit_test(flags_reach_constructor_and_backend),
		cmocka_unit_test(the_limit_is_strict),
		cmocka_unit_test(objects_elsewhere_serve_without_memory),
		cmocka_unit_test(what_the_depot_cannot_take_is_destroyed),
		cmocka_unit_test(objects_elsewhere_are_out_of_reach),
		cmocka_unit_test(a_limit_may_be_set_below_what_is_used),
		cmocka_unit_test(who_puts_late_keeps_nothing_above_the_limit),
		cmocka_unit_test(spoiled_objects_are_not_kept),
		cmocka_unit_test(a_reclaim_destroys_what_is_free),
		cmocka_unit_test(arrays_stay_short_without_need),
		cmocka_unit_test(arrays_are_as_long_as_they_must),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
