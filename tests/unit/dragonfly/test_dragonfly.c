/* SPDX-License-Identifier: MIT */
/* test_dragonfly.c - object caches by DragonFly's names: flags, limits, and bad arguments. */
#include <string.h>

/* All that other systems' names are in, in one unit. */
#include <percpu/dragonfly/lwbuf.h>
#include <percpu/dragonfly/objcache.h>
#include <percpu/freebsd.h>
#include <percpu/freebsd/sf_buf.h>

#include "support.h"

#define JUNK 0x7fff0000 /* bits that are no flags */

static MALLOC_DEFINE(M_TEST, "test", "objects of a test");

static struct objcache_malloc_args args = { 64, M_TEST };
static int ctor_flags, alloc_flags;
static boolean_t ctor_result;

static boolean_t note_ctor(void *obj, void *privdata, int ocflags)
{
	(void)obj;
	(void)privdata;
	ctor_flags = ocflags;
	return ctor_result;
}

static void *note_alloc(void *allocator_args, int ocflags)
{
	alloc_flags = ocflags;
	return objcache_malloc_alloc_zero(allocator_args, ocflags);
}

static struct objcache *make(int limit, int nominal)
{
	ctor_result = TRUE;
	return objcache_create("test", limit, nominal, note_ctor, NULL, NULL, note_alloc,
			       objcache_malloc_free, &args);
}

static void bad_arguments_make_no_cache(void **state)
{
	(void)state;
	assert_null(make(-1, 0));
	assert_null(make(INT32_MIN, 0));
	assert_null(make(0, -1));
	assert_null(objcache_create(NULL, 0, 0, NULL, NULL, NULL, note_alloc, objcache_malloc_free,
				    &args));
	assert_null(
		objcache_create("test", 0, 0, NULL, NULL, NULL, NULL, objcache_malloc_free, &args));
	assert_null(objcache_create("test", 0, 0, NULL, NULL, NULL, note_alloc, NULL, &args));
	assert_null(objcache_create_mbacked(M_TEST, 8, -1, 0, NULL, NULL, NULL));
	assert_null(objcache_create_mbacked(NULL, 8, 0, 0, NULL, NULL, NULL));
	assert_null(objcache_create_simple(NULL, 8));
}

static void null_is_fine(void **state)
{
	struct objcache *oc = make(0, 0), *list[] = { NULL, oc, NULL };
	void *obj = objcache_get(oc, M_WAITOK);

	(void)state;
	objcache_destroy(NULL);
	objcache_set_cluster_limit(NULL, 1);
	objcache_dtor(NULL, obj);
	objcache_dtor(oc, NULL);
	objcache_put(oc, NULL);
	assert_false(objcache_reclaimlist(list, 3, M_NOWAIT));
	assert_false(objcache_reclaimlist(NULL, 0, M_NOWAIT));
	objcache_put(oc, obj);
	assert_true(objcache_reclaimlist(list, 3, M_NOWAIT));
	objcache_destroy(oc);
	lwbuf_free(NULL);
	sf_buf_free(NULL);
	kfree(NULL, M_TEST);
}

static void flags_are_the_callers(void **state)
{
	static const int flags[] = { M_NOWAIT, M_WAITOK, M_WAITOK | M_NULLOK, M_INTWAIT, 0 };
	struct objcache *oc = make(0, 0);
	void *obj[5];

	(void)state;
	for (int i = 0; i < 5; i++) {
		obj[i] = objcache_get(oc, flags[i] | JUNK);
		assert_non_null(obj[i]);
		assert_int_equal(ctor_flags, flags[i]);
		assert_int_equal(alloc_flags, flags[i]);
		assert_int_equal(((char *)obj[i])[63], 0);
	}
	for (int i = 0; i < 5; i++)
		objcache_put(oc, obj[i]);
	ctor_result = FALSE;
	(void)objcache_reclaimlist(&oc, 1, M_NOWAIT);
	assert_null(objcache_get(oc, M_NOWAIT));
	assert_null(objcache_get(oc, M_WAITOK));
	objcache_destroy(oc);
}

static unsigned got; /* atomic */

static void *wait_for_object(void *arg)
{
	struct objcache *oc = arg;
	void *obj = objcache_get(oc, M_INTWAIT | JUNK);

	__atomic_store_n(&got, 1, __ATOMIC_SEQ_CST);
	objcache_put(oc, obj);
	return obj;
}

/* Only M_WAITOK without M_NULLOK waits. */
static void limits_hold(void **state)
{
	struct objcache *oc = make(1, 0);
	void *obj = objcache_get(oc, M_WAITOK), *other;
	pthread_t thread;

	(void)state;
	assert_null(objcache_get(oc, 0));
	assert_null(objcache_get(oc, M_NOWAIT));
	assert_null(objcache_get(oc, M_WAITOK | M_NULLOK));
	objcache_set_cluster_limit(oc, -5); /* as it was */
	assert_null(objcache_get(oc, M_NOWAIT));
	got = 0;
	assert_int_equal(pthread_create(&thread, NULL, wait_for_object, oc), 0);
	test_sleep_us(5000);
	assert_int_equal(__atomic_load_n(&got, __ATOMIC_SEQ_CST), 0);
	objcache_destroy(oc); /* in use: it goes on */
	objcache_put(oc, obj);
	assert_int_equal(pthread_join(thread, &other), 0);
	assert_ptr_equal(other, obj);
	objcache_set_cluster_limit(oc, OBJCACHE_UNLIMITED);
	obj = objcache_get(oc, M_NOWAIT);
	other = objcache_get(oc, M_NOWAIT);
	assert_non_null(other);
	objcache_put(oc, obj);
	objcache_put(oc, other);
	objcache_destroy(oc);
	oc = make(OBJCACHE_UNLIMITED, 1);
	assert_non_null(obj = objcache_get(oc, M_NOWAIT));
	objcache_put(oc, obj);
	objcache_destroy(oc);
}

static void *destroyed, *destroyed_with;

static void note_dtor(void *obj, void *privdata)
{
	destroyed = obj;
	destroyed_with = privdata;
}

static void destructors_get_what_is_private(void **state)
{
	struct objcache *oc =
		objcache_create_mbacked(M_TEST, 64, 0, 0, NULL, note_dtor, &destroyed_with);
	void *obj = objcache_get(oc, M_WAITOK), *kept = objcache_get(oc, M_WAITOK);

	(void)state;
	assert_true(obj != NULL && kept != NULL);
	memset(obj, 1, 64);
	destroyed = NULL;
	objcache_put(oc, kept);
	assert_null(destroyed);
	objcache_dtor(oc, obj);
	assert_ptr_equal(destroyed, obj);
	assert_ptr_equal(destroyed_with, &destroyed_with);
	objcache_destroy(oc);
	assert_ptr_equal(destroyed, kept);
}

static void limits_can_be_lowered(void **state)
{
	struct objcache *oc = make(0, 0);
	void *obj;

	(void)state;
	objcache_set_cluster_limit(oc, 1);
	obj = objcache_get(oc, M_NOWAIT);
	assert_non_null(obj);
	assert_null(objcache_get(oc, M_NOWAIT));
	objcache_put(oc, obj);
	objcache_destroy(oc);
}

/* A backend that has nothing, and is given nothing back. */
static void nothing_comes_of_nothing(void **state)
{
	struct objcache *oc = objcache_create("none", 0, 0, NULL, NULL, NULL, objcache_nop_alloc,
					      objcache_nop_free, NULL);
	char theirs = 5;

	(void)state;
	assert_non_null(oc);
	assert_null(objcache_get(oc, M_NOWAIT));
	assert_null(objcache_get(oc, M_WAITOK));
	objcache_destroy(oc);
	objcache_nop_free(&theirs, NULL);
	assert_int_equal(theirs, 5);
}

static void types_come_and_go(void **state)
{
	malloc_type_t type = NULL;
	char *p;

	(void)state;
	kmalloc_create(&type, "made");
	assert_non_null(type);
	assert_string_equal(type->ks_shortdesc, "made");
	assert_null(type->ks_longdesc);
	kmalloc_raise_limit(type, 1);
	kmalloc_set_unlimited(type);
	p = kmalloc(8, type, M_WAITOK | M_ZERO);
	kmalloc_destroy(&type);
	assert_null(type);
	kmalloc_destroy(&type);
	assert_int_equal(p[7], 0); /* what it was made with stays */
	kfree(p, M_TEST);
}

static void kmalloc_is_malloc(void **state)
{
	volatile size_t too_much = SIZE_MAX - 65536;
	unsigned char *p = kmalloc(1000, M_TEST, M_WAITOK | M_ZERO);

	(void)state;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(p[i], 0);
	kfree(p, M_TEST);
	p = kmalloc(0, M_TEST, M_WAITOK);
	assert_non_null(p);
	kfree(p, M_TEST);
	if (test_address_sanitizer() || test_thread_sanitizer())
		return; /* they end the process */
	assert_null(kmalloc(too_much, M_TEST, M_NOWAIT | M_ZERO));
	assert_null(kmalloc(too_much, M_TEST, M_WAITOK | M_NULLOK));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_arguments_make_no_cache),
		cmocka_unit_test(null_is_fine),
		cmocka_unit_test(flags_are_the_callers),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(limits_can_be_lowered),
		cmocka_unit_test(destructors_get_what_is_private),
		cmocka_unit_test(nothing_comes_of_nothing),
		cmocka_unit_test(types_come_and_go),
		cmocka_unit_test(kmalloc_is_malloc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
