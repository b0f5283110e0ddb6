/* SPDX-License-Identifier: MIT */
/*
 * test_fork_handlers.c - handlers of pthread_atfork() that run while a fork holds all locks of
 * the library: they were registered before the library's.
 */
#include "../lwbuf.h"

#include <pthread.h>

#include <percpu/grace.h>
#include <percpu/objcache.h>
#include <percpu/wbuf.h>

#include "cpu/mutex.h"
#include "caches/sfbuf.h"

#define REQUIRE(x) test_child_require((x), #x)

enum phase { PREPARE, PARENT, CHILD, PHASES };

static void (*handler)(enum phase phase);

static void handle(enum phase phase)
{
	if (handler != NULL)
		handler(phase);
}

static void prepare(void)
{
	handle(PREPARE);
}

static void in_parent(void)
{
	handle(PARENT);
}

static void in_child(void)
{
	handle(CHILD);
}

/* The library's constructors have no priority, so they run later. */
__attribute__((constructor(101))) static void register_first(void)
{
	pthread_atfork(prepare, in_parent, in_child);
}

/* One of each kind of object with a lock that forks take. */
struct objects {
	struct percpu_region *region;
	struct percpu_counter *counter;
	struct percpu_ring *ring;
	struct percpu_objcache *cache, *checked;
	struct percpu_zone *zone;
	struct percpu_wbuf *wbuf;
	struct percpu_lwbufs *windows, *bounces;
	uint64_t cell PERCPU_ALIGNED_WORD;
};

static void make_objects(struct objects *o)
{
	struct percpu_objcache_options debug = { .size = sizeof(debug),
						 .flags = PERCPU_OBJCACHE_DEBUG };
	struct percpu_zone_options zone = { .size = sizeof(zone), .flags = PERCPU_ZONE_DEBUG };

	REQUIRE(percpu_region_create(NULL, &o->region) == 0);
	REQUIRE(percpu_counter_create(&o->counter) == 0);
	REQUIRE(percpu_ring_create(4096, 0, &o->ring) == 0);
	REQUIRE(percpu_objcache_create("cache", 64, NULL, &o->cache) == 0);
	REQUIRE(percpu_objcache_create("checked", 64, &debug, &o->checked) == 0);
	REQUIRE(percpu_zone_create("zone", 64, &zone, &o->zone) == 0);
	REQUIRE(percpu_wbuf_create(NULL, &o->wbuf) == 0);
	o->windows = lw_create(lw_memfd(16, PAGE, true), PERCPU_LWBUF_WINDOW, 4, 0);
	o->bounces = lw_create(lw_memfd(16, PAGE, false), PERCPU_LWBUF_BOUNCE, 0, 0);
}

static void destroy_objects(struct objects *o)
{
	REQUIRE(percpu_lwbuf_destroy(o->windows) == 0 && percpu_lwbuf_destroy(o->bounces) == 0);
	percpu_wbuf_destroy(o->wbuf);
	REQUIRE(percpu_zone_destroy(o->zone) == 0);
	REQUIRE(percpu_objcache_destroy(o->checked) == 0);
	REQUIRE(percpu_objcache_destroy(o->cache) == 0);
	percpu_ring_destroy(o->ring);
	percpu_counter_destroy(o->counter);
	percpu_region_close(o->region);
}

/* Take the locks of all objects, some of them by emptying or filling an array. */
static void use_objects(struct objects *o)
{
	struct percpu_objcache *caches[] = { o->cache, o->checked };
	struct percpu_sfbuf *sf;
	void *objs[300], *item;

	REQUIRE(percpu_region_alloc(o->region, 64, 8, &item) == 0);
	REQUIRE(percpu_region_free(o->region, item, 64) == 0);
	percpu_counter_inc(o->counter);
	REQUIRE(percpu_ring_put(o->ring, "record", 6) == 0);
	for (unsigned c = 0; c < 2; c++) {
		for (unsigned i = 0; i < 300; i++)
			REQUIRE(percpu_objcache_get(caches[c], 0, &objs[i]) == 0);
		for (unsigned i = 0; i < 300; i++)
			percpu_objcache_put(caches[c], objs[i]);
	}
	REQUIRE(percpu_zone_alloc(o->zone, 0, &item) == 0);
	REQUIRE(percpu_zone_free(o->zone, item) == 0);
	REQUIRE(percpu_wbuf_add(o->wbuf, &o->cell, 1) == 0);
	percpu_wbuf_flush(o->wbuf);
	for (uint64_t page = 0; page < 16; page++)
		REQUIRE(lw_touch(o->windows, page) && lw_touch(o->bounces, page));
	REQUIRE(percpu_sfbuf_alloc(o->windows, 3, 0, &sf) == 0);
	REQUIRE(lw_is_right(percpu_sfbuf_kva(sf), 3, PAGE));
	REQUIRE(percpu_sfbuf_free(o->windows, sf) == 0);
}

static struct objects before, within[PHASES];
static enum phase chosen;
static bool made[PHASES];

/* Use the objects; create and use others, and destroy or leave these. */
static void use_all(enum phase phase)
{
	struct objects more;

	if (phase != chosen && chosen != PHASES)
		return;
	use_objects(&before);
	make_objects(&more);
	use_objects(&more);
	destroy_objects(&more);
	make_objects(&within[phase]);
	made[phase] = true;
}

static void use_what_is_there(void)
{
	use_objects(&before);
	for (unsigned i = 0; i < PHASES; i++)
		if (made[i]) {
			use_objects(&within[i]);
			destroy_objects(&within[i]);
			made[i] = false;
		}
}

/* Whether a child can allocate memory if another thread of its parent was allocating: the
 * address sanitizer's allocator does not take its locks for a fork. */
#ifdef __SANITIZE_ADDRESS__
#define MAY_ALLOCATE_MEANWHILE false
#else
#define MAY_ALLOCATE_MEANWHILE true
#endif

static bool over; /* atomic */

static void *use_meanwhile(void *arg)
{
	struct objects own;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		if (!MAY_ALLOCATE_MEANWHILE) {
			percpu_counter_inc(((struct objects *)arg)->counter);
			test_sleep_us(100);
			continue;
		}
		use_objects(arg);
		make_objects(&own);
		use_objects(&own);
		destroy_objects(&own);
	}
	return NULL;
}

static int use_in(void *arg)
{
	pthread_t thread;
	pid_t pid;

	(void)arg;
	make_objects(&before);
	REQUIRE(pthread_create(&thread, NULL, use_meanwhile, &before) == 0);
	for (unsigned i = 0; i < test_rounds(20); i++) {
		handler = use_all;
		pid = fork();
		handler = NULL;
		use_what_is_there();
		if (pid == 0)
			_exit(0);
		REQUIRE(test_wait(pid, 60) == 0);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	REQUIRE(pthread_join(thread, NULL) == 0);
	use_what_is_there();
	destroy_objects(&before);
	return 0;
}

static void handlers_may_use_all(void **state)
{
	(void)state;
	for (chosen = PREPARE; chosen <= PHASES; chosen++)
		assert_int_equal(test_wait(test_fork(use_in, NULL), 20), 0);
}

/* A child's handler runs after the library has repaired the objects. */
static struct percpu_wbuf *pending;
static uint64_t childs;

static void flush_in_child(enum phase phase)
{
	struct percpu_counter *c;

	if (phase != CHILD)
		return;
	REQUIRE(percpu_counter_create(&c) == 0);
	percpu_counter_destroy(c);
	REQUIRE(percpu_lwbuf_destroy(before.windows) == 0);
	percpu_wbuf_flush(pending);
	REQUIRE(percpu_wbuf_add(pending, &childs, 3) == 0);
}

static int begin_with_empty_buffers(void *arg)
{
	uint64_t *cell = test_share(sizeof(*cell));
	struct percpu_lwbuf held;
	pid_t pid;

	(void)arg;
	REQUIRE(percpu_wbuf_create(NULL, &pending) == 0);
	before.windows = lw_create(lw_memfd(16, PAGE, true), PERCPU_LWBUF_WINDOW, 4, 0);
	REQUIRE(percpu_lwbuf_alloc(before.windows, 2, 0, &held) == 0);
	REQUIRE(percpu_wbuf_add(pending, cell, 5) == 0);
	handler = flush_in_child;
	pid = fork();
	if (pid == 0) {
		percpu_wbuf_flush(pending);
		_exit(childs != 3);
	}
	REQUIRE(test_wait(pid, 60) == 0);
	percpu_wbuf_flush(pending);
	REQUIRE(*cell == 5);
	REQUIRE(percpu_lwbuf_free(before.windows, &held) == 0);
	return 0;
}

static void children_are_repaired_first(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(begin_with_empty_buffers, NULL), 20), 0);
}

/* A wait of the forking thread would never end, so the call fails. */
static struct percpu_objcache *one;
static struct percpu_zone *one_item;
static struct percpu_lwbufs *one_shared;

static void wait_for_others(enum phase phase)
{
	struct percpu_sfbuf_item *b = one_shared->shared->block[0];
	struct percpu_sfbuf *sf;
	void *p;

	(void)phase;
	REQUIRE(percpu_objcache_get(one, PERCPU_OBJCACHE_WAIT, &p) == -EDEADLK);
	REQUIRE(percpu_zone_alloc(one_item, PERCPU_ZONE_WAIT, &p) == -EDEADLK);
	b->state = PERCPU_SFBUF_FILLING; /* by another thread */
	REQUIRE(percpu_sfbuf_alloc(one_shared, 2, 0, &sf) == -EDEADLK);
	b->state = PERCPU_SFBUF_READY;
	REQUIRE(percpu_sfbuf_refs(b) == 1);
}

static int have_what_there_is(void *arg)
{
	struct percpu_objcache_options cache = { .size = sizeof(cache), .limit = 1 };
	struct percpu_zone_options zone = { .size = sizeof(zone), .limit = 1 };
	int fd = lw_memfd(16, PAGE, true);
	struct percpu_sfbuf *sf;
	void *obj, *item;
	pid_t pid;

	(void)arg;
	REQUIRE(percpu_objcache_create("one", 64, &cache, &one) == 0);
	REQUIRE(percpu_zone_create("one", 64, &zone, &one_item) == 0);
	REQUIRE(percpu_lwbuf_create(fd, NULL, &one_shared) == 0);
	REQUIRE(percpu_objcache_get(one, 0, &obj) == 0);
	REQUIRE(percpu_zone_alloc(one_item, 0, &item) == 0);
	REQUIRE(percpu_sfbuf_alloc(one_shared, 2, 0, &sf) == 0);
	handler = wait_for_others;
	pid = fork();
	if (pid == 0)
		_exit(0);
	REQUIRE(test_wait(pid, 60) == 0);
	return 0;
}

static void nobody_is_waited_for(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(have_what_there_is, NULL), 20), 0);
}

/* The thread that runs callbacks waits for the fork. */
static struct percpu_grace *graces;
static struct percpu_grace_callback callback;

static void call_nothing(struct percpu_grace_callback *c)
{
	(void)c;
}

static void free_graces(enum phase phase)
{
	if (phase != CHILD)
		REQUIRE(percpu_grace_destroy(graces) == -EDEADLK &&
			percpu_grace_detach(graces) == -EDEADLK &&
			percpu_grace_barrier(graces) == -EDEADLK);
	else
		REQUIRE(percpu_grace_destroy(graces) == 0); /* the thread is the parent's */
}

static int have_a_worker(void *arg)
{
	pid_t pid;

	(void)arg;
	REQUIRE(percpu_grace_create(0, &graces) == 0);
	REQUIRE(percpu_grace_call(graces, &callback, call_nothing) == 0);
	REQUIRE(percpu_grace_barrier(graces) == 0);
	handler = free_graces;
	pid = fork();
	handler = NULL;
	if (pid == 0)
		_exit(0);
	REQUIRE(test_wait(pid, 60) == 0);
	REQUIRE(percpu_grace_destroy(graces) == 0);
	return 0;
}

static void workers_are_not_waited_for(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(have_a_worker, NULL), 60), 0);
}

/* A handler forks: glibc allows it, musl would deadlock. Each child has its own open file for
 * the owners of a region. */
static pid_t childs_of_handlers[PHASES];
static struct percpu_region *with_owners;

static void make_region_with_owners(void)
{
	const int fd = memfd_create("owners", MFD_CLOEXEC);
	struct percpu_region *r = NULL;

	REQUIRE(test_region_new_fd(fd, NULL, &r) == 0);
	percpu_region_close(r);
	REQUIRE(percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS, NULL,
				      &with_owners) == 0);
	close(fd);
}

static off_t offset_of_file(void)
{
	return lseek(percpu_descriptor_kept(with_owners), 0, SEEK_CUR);
}

static void fork_within(enum phase phase)
{
	handler = NULL;
	childs_of_handlers[phase] = fork();
	REQUIRE(percpu_is_forking()); /* the outer fork still holds all locks */
	use_objects(&before);
	if (childs_of_handlers[phase] == 0) {
		REQUIRE(lseek(percpu_descriptor_kept(with_owners), 77, SEEK_SET) == 77);
		_exit(0);
	}
	REQUIRE(test_wait(childs_of_handlers[phase], 60) == 0);
	REQUIRE(offset_of_file() == 0);
	handler = fork_within;
	use_objects(&before);
}

static int fork_in_handlers(void *arg)
{
	pid_t pid;

	(void)arg;
	make_objects(&before);
	make_region_with_owners();
	handler = fork_within;
	pid = fork();
	handler = NULL;
	use_objects(&before);
	if (pid == 0) {
		REQUIRE(lseek(percpu_descriptor_kept(with_owners), 77, SEEK_SET) == 77);
		_exit(0);
	}
	REQUIRE(test_wait(pid, 60) == 0);
	REQUIRE(offset_of_file() == 0);
	percpu_region_close(with_owners);
	destroy_objects(&before);
	return 0;
}

static void handlers_may_fork(void **state)
{
	(void)state;
#ifndef __GLIBC__
	test_skip("fork() waits for itself");
#endif
	assert_int_equal(test_wait(test_fork(fork_in_handlers, NULL), 20), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handlers_may_use_all),
		cmocka_unit_test(children_are_repaired_first),
		cmocka_unit_test(nobody_is_waited_for),
		cmocka_unit_test(workers_are_not_waited_for),
		cmocka_unit_test(handlers_may_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
