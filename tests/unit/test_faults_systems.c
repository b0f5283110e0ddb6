/* SPDX-License-Identifier: MIT */
/*
 * test_faults_systems.c - calls of libc fail under other systems' names: counters, rates, zones and
 * names of FreeBSD; caches of DragonFly. Those that make something return NULL for all errors.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include <percpu/dragonfly/objcache.h>
#include <percpu/freebsd.h>

#include "../support.h"
#include "sweep.h"

static int is_there(const void *object)
{
	return object != NULL ? 0 : -ENOMEM;
}

static int counter_and_rate(void)
{
	struct counter_rate *rate = NULL;
	counter_u64_t c = counter_u64_alloc(M_NOWAIT);
	int e = is_there(c);

	if (e == 0) {
		counter_u64_add(c, 3);
		rate = counter_rate_alloc(M_NOWAIT, 3600);
		e = is_there(rate);
	}
	if (e == 0)
		assert_int_equal(counter_ratecheck(rate, 5), 0);
	(void)fault_clear();
	assert_true(c == NULL || counter_u64_fetch(c) == 3);
	if (rate != NULL) {
		assert_int_equal(counter_rate_get(rate), 1);
		counter_rate_free(rate);
	}
	if (c != NULL)
		counter_u64_free(c);
	return e;
}

/* How many items are begun and not ended, by both kinds of functions. */
static int begun;

static int begin_item(void *mem, int size, void *arg, int flags)
{
	(void)mem;
	(void)size;
	(void)arg;
	(void)flags;
	begun++;
	return 0;
}

static void end_item(void *mem, int size, void *arg)
{
	(void)mem;
	(void)size;
	(void)arg;
	begun--;
}

static int init_item(void *mem, int size, int flags)
{
	return begin_item(mem, size, NULL, flags);
}

static void fini_item(void *mem, int size)
{
	end_item(mem, size, NULL);
}

enum { ITEMS = 100 };

static int items_of_zone(void)
{
	void *items[ITEMS] = { NULL };
	uma_zone_t z = uma_zcreate("sweep", 64, begin_item, end_item, init_item, fini_item,
				   UMA_ALIGN_PTR, UMA_ZONE_PCPU);
	int e = is_there(z);

	for (unsigned i = 0; i < ITEMS && e == 0; i++) {
		items[i] = uma_zalloc_pcpu(z, M_NOWAIT | M_ZERO);
		e = is_there(items[i]);
	}
	if (e == 0) {
		assert_int_equal(uma_zone_set_max(z, 2 * ITEMS), 2 * ITEMS);
		assert_int_equal(uma_zone_get_max(z), 2 * ITEMS);
		assert_int_equal(uma_zone_get_cur(z), ITEMS);
	}
	for (unsigned i = 0; i < ITEMS; i++)
		if (items[i] != NULL)
			uma_zfree_pcpu(z, items[i]);
	(void)fault_clear();
	uma_zdestroy(z);
	assert_int_equal(begun, 0);
	return e;
}

static int count_name(const struct percpu_freebsd_name *n, void *arg)
{
	*(unsigned *)arg += strncmp(n->name, "sweep", 5) == 0;
	return 0;
}

static counter_u64_t named; /* made when nothing fails yet */

static int use_names(struct sysctl_ctx_list *ctx)
{
	struct sysctl_oid *node =
		SYSCTL_ADD_ROOT_NODE(ctx, OID_AUTO, "sweep", CTLFLAG_RD, NULL, "");
	uint64_t value = 77, none = 0;
	size_t size = sizeof(value);
	unsigned n = 0;
	int e = is_there(node);

	if (e == 0)
		e = is_there(SYSCTL_ADD_COUNTER_U64(ctx, SYSCTL_CHILDREN(node), OID_AUTO, "counter",
						    CTLFLAG_RW, &named, ""));
	if (e == 0)
		e = percpu_freebsd_sysctl_foreach(count_name, &n);
	assert_true(e != 0 || n == 2);
	if (e == 0)
		e = percpu_freebsd_sysctlbyname("sweep.counter", &value, &size, &none,
						sizeof(none));
	if (e == 0 && sysctlbyname("sweep.counter", &value, &size, NULL, 0) != 0)
		e = -errno;
	return e;
}

static int names(void)
{
	struct sysctl_ctx_list ctx;
	int e;

	if (named == NULL)
		named = counter_u64_alloc(M_WAITOK);
	sysctl_ctx_init(&ctx);
	e = use_names(&ctx);
	(void)fault_clear();
	assert_int_equal(sysctl_ctx_free(&ctx), 0);
	assert_int_equal(use_names(&ctx), 0);
	assert_int_equal(sysctl_ctx_free(&ctx), 0);
	return e;
}

static MALLOC_DEFINE(M_SWEEP, "sweep", "objects");

static boolean_t construct(void *obj, void *privdata, int ocflags)
{
	return begin_item(obj, 0, privdata, ocflags) == 0;
}

static void destruct(void *obj, void *privdata)
{
	end_item(obj, 0, privdata);
}

static int fill(struct objcache *oc)
{
	void *objects[ITEMS] = { NULL };
	int e = is_there(oc);

	for (unsigned i = 0; i < ITEMS && e == 0; i++) {
		objects[i] = objcache_get(oc, M_NOWAIT);
		e = is_there(objects[i]);
	}
	for (unsigned i = 0; i < ITEMS; i++)
		if (objects[i] != NULL)
			objcache_put(oc, objects[i]);
	if (oc != NULL)
		(void)objcache_reclaimlist(&oc, 1, 0);
	return e;
}

static int caches(void)
{
	struct objcache_malloc_args args = { 64, M_SWEEP };
	struct objcache *own =
		objcache_create("sweep", 0, 8, construct, destruct, NULL,
				objcache_malloc_alloc_zero, objcache_malloc_free, &args);
	struct objcache *simple = objcache_create_simple(M_SWEEP, 64);
	int e = fill(own), f = fill(simple);
	void *block = kmalloc(64, M_SWEEP, M_NOWAIT | M_ZERO);

	f = f == 0 ? is_there(block) : f;
	kfree(block, M_SWEEP);
	(void)fault_clear();
	objcache_destroy(own);
	objcache_destroy(simple);
	assert_int_equal(begun, 0);
	return e != 0 ? e : f;
}

static const struct sweep_operation operations[] = {
	{ "FreeBSD's counter and rate", counter_and_rate, { SWEEP_MEMORY } },
	{ "FreeBSD's zone", items_of_zone, { SWEEP_MEMORY } },
	{ "FreeBSD's names", names, { SWEEP_MEMORY } },
	{ "DragonFly's caches", caches, { SWEEP_MEMORY } },
	{ NULL, NULL, { 0 } },
};

static void each_call_fails_in_turn(void **state)
{
	(void)state;
	sweep(operations);
	sweep_report();
	assert_true(sweep_failures(FAULT_MALLOC) > 0 && sweep_failures(FAULT_CALLOC) > 0);
	assert_int_equal(fault_inherited(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_in_turn),
	};

	return cmocka_run_group_tests(tests, sweep_set_up, sweep_tear_down);
}
