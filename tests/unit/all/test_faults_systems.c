/* SPDX-License-Identifier: MIT */
/*
 * test_faults_systems.c - calls of libc fail under functions of other systems: counters, rates,
 * zones and buffers of FreeBSD; caches of DragonFly. Functions that make something return NULL
 * for all errors. Functions that may wait go on when there is memory: another thread frees it
 * when it gets the CPU. To that end, this program replaces libc's sched_yield(2).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/dragonfly/objcache.h>
#include <percpu/freebsd.h>
#include <percpu/freebsd/sf_buf.h>

#include "memory/memory.h"
#include "support.h"
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

/* Items that were begun and not ended, by both kinds of functions. */
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

static counter_u64_t named; /* made before anything fails */

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

static int buffers(void)
{
	int fd = memfd_create("sweep", MFD_CLOEXEC);
	struct vm_page m = { NULL, 0, 0 };
	struct sf_buf *a = NULL, *b = NULL;
	int e = fd >= 0 && ftruncate(fd, sysconf(_SC_PAGESIZE)) == 0 ? 0 : -errno;

	if (e == 0)
		e = percpu_lwbuf_create(fd, NULL, &m.object);
	if (e == 0)
		e = is_there(a = sf_buf_alloc(&m, SFB_NOWAIT));
	if (e == 0)
		e = is_there(b = sf_buf_alloc(&m, SFB_NOWAIT));
	(void)fault_clear();
	assert_true(b == NULL || (a != b && sf_buf_kva(a) == sf_buf_kva(b)));
	sf_buf_free(a);
	sf_buf_free(b);
	assert_int_equal(percpu_lwbuf_destroy(m.object), 0);
	if (fd >= 0)
		close(fd);
	return e;
}

static const struct sweep_operation operations[] = {
	{ "FreeBSD's counter and rate", counter_and_rate, { SWEEP_MEMORY } },
	{ "FreeBSD's zone", items_of_zone, { SWEEP_MEMORY } },
	{ "FreeBSD's names", names, { SWEEP_MEMORY } },
	{ "FreeBSD's buffers", buffers, { SWEEP_MEMORY } },
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

/* Calls that may wait. */

static unsigned yields; /* until memory comes back; 0: the test does not wait for it */

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	if (yields != 0 && --yields == 0)
		(void)fault_clear();
	return __real_sched_yield();
}

static void *wait_for_counter(void)
{
	counter_u64_t c = counter_u64_alloc(M_WAITOK);

	if (c != NULL)
		counter_u64_free(c);
	return c;
}

static void *wait_for_rate(void)
{
	struct counter_rate *rate = counter_rate_alloc(M_WAITOK, 1);

	if (rate != NULL)
		counter_rate_free(rate);
	return rate;
}

static void *wait_for_shared_zone(void)
{
	return pcpu_zone_16;
}

static uma_zone_t plain;

static void *wait_for_item(void)
{
	void *item = uma_zalloc_pcpu(plain, M_WAITOK);

	uma_zfree_pcpu(plain, item);
	return item;
}

static void *wait_for_block(void)
{
	void *block = kmalloc(64, M_SWEEP, M_WAITOK);

	kfree(block, M_SWEEP);
	return block;
}

static const struct {
	void *(*get)(void);
	enum fault_call lacks;
} waiting[] = {
	{ wait_for_counter, FAULT_CELLS },	{ wait_for_rate, FAULT_MALLOC },
	{ wait_for_rate, FAULT_CELLS },		{ wait_for_item, FAULT_CELLS },
	{ wait_for_shared_zone, FAULT_MALLOC }, { wait_for_block, FAULT_MALLOC },
};

static int wait_for_memory(void *arg)
{
	const unsigned i = *(const unsigned *)arg;

	test_alarm(30);
	plain = uma_zcreate("plain", 8, NULL, NULL, NULL, NULL, UMA_ALIGN_PTR, UMA_ZONE_PCPU);
	test_child_require(plain != NULL, "a zone");
	yields = 3;
	fault_set(waiting[i].lacks, 0, ENOMEM, true);
	test_child_require(waiting[i].get() != NULL, "there is one in the end");
	test_child_require(yields == 0, "it gave the CPU to others until then");
	return 0;
}

static void who_may_wait_goes_on_when_there_is_memory(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
		test_in_child(wait_for_memory, &i);
}

/* Objects that are made once, in processes that have not made them yet. */

static uma_zone_t create_plain(void)
{
	return uma_zcreate("first", 8, NULL, NULL, NULL, NULL, UMA_ALIGN_PTR, UMA_ZONE_PCPU);
}

/* Lack all memory: neither the region of private objects nor the guard is there. */
static int lack_all(void *arg)
{
	static const enum fault_call lacks[] = { FAULT_MMAP, FAULT_CALLOC, FAULT_CELLS };
	uma_zone_t zone;

	(void)arg;
	for (unsigned i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		fault_set(lacks[i], 0, ENOMEM, true);
		zone = create_plain();
		test_child_require(fault_clear() != 0 && zone == NULL, "no zone");
	}
	zone = create_plain();
	test_child_require(zone != NULL, "a zone, when there is memory");
	uma_zdestroy(zone);
	return 0;
}

/* Add to an item of a zone that is not UMA's, so that there is no guard yet. */
static int add_unguarded(void *arg)
{
	struct percpu_chunk *k;
	struct percpu_zone *zone;
	void *item;

	(void)arg;
	test_child_require(percpu_zone_create("own", 8, NULL, &zone) == 0, "a zone");
	test_child_require(percpu_zone_alloc(zone, 0, &item) == 0, "an item");
	fault_set(FAULT_CELLS, 0, ENOMEM, true);
	zpcpu_add_protected((uint64_t *)item, 5);
	test_child_require(fault_clear() == 1, "no guard");
	zpcpu_add_protected((uint64_t *)item, 2);
	k = percpu_chunk_of(item);
	test_child_require(percpu_chunk_sum(k, (size_t)((char *)item - k->base)) == 7,
			   "both count");
	return 0;
}

static void first_use_fails_and_is_tried_again(void **state)
{
	(void)state;
	test_in_child(lack_all, NULL);
	test_in_child(add_unguarded, NULL);
}

int main(void)
{
	const struct CMUnitTest first[] = {
		cmocka_unit_test(first_use_fails_and_is_tried_again),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_in_turn),
		cmocka_unit_test(who_may_wait_goes_on_when_there_is_memory),
	};

	return cmocka_run_group_tests(first, NULL, NULL) +
	       cmocka_run_group_tests(tests, sweep_set_up, sweep_tear_down);
}
