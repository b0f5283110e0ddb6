/* SPDX-License-Identifier: MIT */
/*
 * test_faults_private.c - calls of libc fail under objects in memory of the process: words,
 * arrays and queues of a CPU, caches, zones, write buffers, buffers of files, reference counts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/local.h>
#include <percpu/lwbuf.h>
#include <percpu/objcache.h>
#include <percpu/ref.h>
#include <percpu/sfbuf.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>

#include "model.h"
#include "support.h"
#include "memory/memory.h"
#include "sweep.h"

enum { SLOTS = 8, OBJECTS = 40, ITEMS = 100 };

/* Use an object, and again as a thread that runs no sequences. */
static int twice(int (*use)(void *object), void *object)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER }, *area;
	int e = use(object);

	if (e == 0) {
		area = model_set_area(&none);
		e = use(object);
		model_set_area(area);
	}
	return e;
}

static int make_local(size_t size, enum percpu_local_fallback fallback, int (*use)(void *l))
{
	struct percpu_local *l = NULL;
	int e = percpu_local_create(size, fallback, &l);

	if (e == 0)
		e = twice(use, l);
	(void)fault_clear();
	/* Whatever failed, no guard is set. */
	if (l != NULL)
		assert_int_equal(twice(use, l), 0);
	percpu_local_destroy(l);
	return e;
}

static int add_split(void *l)
{
	int64_t before = percpu_local_sum(l);
	int e = percpu_local_add(l, 3);

	assert_int_equal(percpu_local_sum(l), before + (e == 0 ? 3 : 0));
	return e;
}

/* Change a word. The thread may be moved between two calls, so values are not checked. */
static int change_word(void *l)
{
	int64_t v = 0, old = 77;
	int e = percpu_local_add_return(l, 1, &v);

	if (e == 0)
		e = percpu_local_add_limit(l, 1, INT64_MAX, &v);
	if (e == 0)
		e = percpu_local_xchg(l, 5, &old);
	if (e == 0)
		e = percpu_local_store(l, 6);
	old = 77;
	if (e == 0)
		e = percpu_local_cmpxchg(l, 6, 7, &old);
	assert_true(e != -EAGAIN || old != 6);
	return e == -EAGAIN && old != 77 ? 0 : e;
}

static int count_references(void *l)
{
	int64_t v;

	return percpu_local_add_return(l, 1, &v);
}

static int push_and_pop(void *l)
{
	void *item = NULL;
	int e = percpu_local_push(l, SLOTS, &item), f;

	if (e != 0)
		return e;
	e = percpu_local_pop(l, &item);
	for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++) {
		f = percpu_local_pop_cpu(l, cpu, &item);
		e = e == 0 || e == -ENOENT ? f : e;
	}
	return e == -ENOENT ? 0 : e;
}

static int copy_and_take(void *l)
{
	const uint64_t words[2] = { 1, 2 };
	uint64_t word = 77;
	int e = percpu_local_copy(l, SLOTS - 1, words, 2);

	while (e == 0)
		e = percpu_local_take(l, SLOTS - 1, &word);
	return e == -ENOENT || e == -ENOSPC ? 0 : e;
}

static int split_word(void)
{
	return make_local(8, PERCPU_LOCAL_SPLIT, add_split);
}

static int locked_word(void)
{
	return make_local(8, PERCPU_LOCAL_LOCK, change_word);
}

static int reference_word(void)
{
	return make_local(8, PERCPU_LOCAL_REFS, count_references);
}

static int array(void)
{
	return make_local(8 + 8 * SLOTS, PERCPU_LOCAL_LOCK, push_and_pop);
}

static int queue(void)
{
	return make_local(16 + 8 * SLOTS, PERCPU_LOCAL_LOCK, copy_and_take);
}

/* Constructed objects, and blocks of a backend: each is destroyed as often as it was made. */
static unsigned constructed, backed;

static int construct(void *obj, void *arg, unsigned flags)
{
	(void)arg;
	(void)flags;
	constructed++;
	memset(obj, 0, 32);
	return 0;
}

static void destruct(void *obj, void *arg)
{
	(void)obj;
	(void)arg;
	constructed--;
}

/* Make a block. The same call also makes room for the library's own data of objects: both fail
 * together. */
static void *back(void *arg, unsigned flags)
{
	void *obj = calloc(1, 32);

	(void)arg;
	(void)flags;
	backed += obj != NULL;
	return obj;
}

static void back_off(void *obj, void *arg)
{
	(void)arg;
	backed--;
	free(obj);
}

static int fill_cache(struct percpu_objcache *oc, void **objects)
{
	int e = 0;

	for (unsigned i = 0; i < OBJECTS && e == 0; i++)
		e = percpu_objcache_get(oc, 0, &objects[i]);
	if (e == 0) {
		e = percpu_objcache_dtor(oc, objects[0]);
		objects[0] = NULL;
	}
	for (unsigned i = 0; i < OBJECTS / 2; i++) {
		percpu_objcache_put(oc, objects[i]);
		objects[i] = NULL;
	}
	(void)percpu_objcache_reclaim(oc);
	percpu_objcache_set_limit(oc, OBJECTS);
	return e;
}

static int cache_with(uint32_t flags, bool constructs)
{
	const struct percpu_objcache_options o = { .size = sizeof(o),
						   .cached = 8,
						   .ctor = constructs ? construct : NULL,
						   .dtor = constructs ? destruct : NULL,
						   .alloc = back,
						   .free = back_off,
						   .flags = flags };
	struct percpu_objcache *oc = NULL;
	void *objects[OBJECTS] = { NULL };
	int e = percpu_objcache_create("faults", 32, &o, &oc);

	if (e == 0)
		e = fill_cache(oc, objects);
	for (unsigned i = 0; i < OBJECTS; i++)
		if (objects[i] != NULL)
			percpu_objcache_put(oc, objects[i]);
	(void)fault_clear();
	if (oc != NULL)
		assert_int_equal(fill_cache(oc, objects), 0);
	for (unsigned i = 0; i < OBJECTS; i++)
		if (objects[i] != NULL)
			percpu_objcache_put(oc, objects[i]);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
	assert_int_equal(constructed, 0);
	assert_int_equal(backed, 0);
	return e;
}

static int cache(void)
{
	return cache_with(0, true);
}

static int checked_cache(void)
{
	return cache_with(PERCPU_OBJCACHE_DEBUG, true);
}

static int checked_cache_of_memory(void)
{
	return cache_with(PERCPU_OBJCACHE_DEBUG, false);
}

static void touch(void *cell, unsigned cpu, void *arg)
{
	(void)cell;
	(void)cpu;
	++*(unsigned *)arg;
}

/* Use arrays, which have no room for all items, and functions that run for each CPU. */
static int use_zone(struct percpu_zone *z, void **items)
{
	unsigned touched = 0;
	int e = 0;

	for (unsigned i = 0; i < ITEMS && e == 0; i++)
		e = percpu_zone_alloc(z, i % 2 != 0 ? PERCPU_ZONE_ZERO : 0, &items[i]);
	if (e == 0) {
		percpu_zone_foreach(z, items[0], touch, &touched);
		assert_int_equal(touched, percpu_zone_cpus(z));
		e = percpu_zone_run(z, items[0], touch, &touched, UINT64_C(20000000000), NULL);
	}
	for (unsigned i = 0; i < ITEMS; i++) {
		assert_int_equal(percpu_zone_free(z, items[i]), 0);
		items[i] = NULL;
	}
	(void)percpu_zone_reclaim(z);
	percpu_zone_set_limit(z, ITEMS);
	return e;
}

static int zone_with(uint32_t flags)
{
	const struct percpu_zone_options o = {
		.size = sizeof(o), .ctor = touch, .dtor = touch, .arg = &constructed, .flags = flags
	};
	void *items[ITEMS] = { NULL };
	struct percpu_zone *z = NULL;
	int e = percpu_zone_create("faults", 64, &o, &z);

	if (e == 0)
		e = use_zone(z, items);
	(void)fault_clear();
	if (z != NULL)
		assert_int_equal(use_zone(z, items), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
	constructed = 0;
	return e;
}

static int zone(void)
{
	return zone_with(0);
}

static int checked_zone(void)
{
	return zone_with(PERCPU_ZONE_DEBUG);
}

static int use_writes(void *w)
{
	static uint64_t cell, other;
	static uint32_t half;
	static double real;
	const struct percpu_wbuf_entry two[2] = { percpu_wbuf_entry_u64(&cell, 1),
						  percpu_wbuf_entry_u64(&other, 1) };
	uint64_t *const both[2] = { &cell, &other };
	uint64_t seen[2];
	int e = 0;

	for (unsigned i = 0; i < 20 && e == 0; i++)
		e = percpu_wbuf_add_n(w, two, 2);
	if (e == 0)
		e = percpu_wbuf_add_u32(w, &half, 1);
	if (e == 0)
		e = percpu_wbuf_add_double(w, &real, 0.5);
	percpu_wbuf_hint_flush(w);
	if (e == 0)
		e = percpu_wbuf_try_flush(w);
	percpu_wbuf_flush(w);
	percpu_wbuf_read(w, both, 2, seen);
	assert_int_equal(seen[0], seen[1]);
	return e;
}

static int write_buffer(void)
{
	const struct percpu_wbuf_options o = { .size = sizeof(o), .entries = 4 };
	struct percpu_wbuf *w = NULL;
	int e = percpu_wbuf_create(&o, &w);

	if (e == 0)
		e = twice(use_writes, w);
	(void)fault_clear();
	if (w != NULL)
		assert_int_equal(twice(use_writes, w), 0);
	percpu_wbuf_destroy(w);
	return e;
}

/* Use pages of a file of two pages by both kinds of buffers: shared, and with none kept. */
static int use_pages(struct percpu_lwbufs *f)
{
	struct percpu_sfbuf *shared = NULL;
	struct percpu_lwbuf b = { .of = NULL };
	int e = percpu_lwbuf_alloc(f, 0, PERCPU_LWBUF_WRITE, &b), freed = 0;

	if (e == 0) {
		memcpy(percpu_lwbuf_kva(&b), "x", 1);
		e = percpu_lwbuf_free(f, &b);
	}
	if (e == 0)
		e = percpu_sfbuf_alloc(f, 1, PERCPU_SFBUF_WRITE, &shared);
	if (e == 0) {
		assert_int_equal(percpu_sfbuf_ref(f, shared), 0);
		assert_int_equal(percpu_sfbuf_free(f, shared), 0);
		freed = percpu_sfbuf_free(f, shared);
	}
	if (e == 0)
		e = freed;
	if (e == 0)
		e = percpu_sfbuf_set_max_excess(f, 0);
	return e != 0 ? e : percpu_lwbuf_set_max_excess(f, 0);
}

static int pages_by(enum percpu_lwbuf_backend backend)
{
	const struct percpu_lwbuf_options o = { .size = sizeof(o),
						.backend = backend,
						.flags = PERCPU_LWBUF_KEEPS_SIZE |
							 PERCPU_LWBUF_WRITABLE };
	struct percpu_lwbufs *f = NULL;
	static int fd = -1; /* opened before anything fails */
	int e;

	if (fd < 0) {
		fd = memfd_create("pages", MFD_CLOEXEC);
		assert_int_equal(ftruncate(fd, 2 * sysconf(_SC_PAGESIZE)), 0);
	}
	e = percpu_lwbuf_create(fd, &o, &f);
	if (e == 0)
		e = use_pages(f);
	(void)fault_clear();
	if (f != NULL)
		assert_int_equal(use_pages(f), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	return e;
}

static int direct_pages(void)
{
	return pages_by(PERCPU_LWBUF_DIRECT);
}

static int window_pages(void)
{
	return pages_by(PERCPU_LWBUF_WINDOW);
}

static int bounced_pages(void)
{
	return pages_by(PERCPU_LWBUF_BOUNCE);
}

static void note_release(struct percpu_ref *ref, void *arg)
{
	(void)ref;
	++*(unsigned *)arg;
}

/* Change the references from one to one. */
static int use_references(void *ref)
{
	int e = percpu_ref_get(ref);

	if (e != 0)
		return e;
	assert_int_equal(percpu_ref_get_many(ref, 2), 0);
	assert_int_equal(percpu_ref_put_many(ref, 2), 0);
	assert_true(percpu_ref_tryget_live(ref));
	assert_int_equal(percpu_ref_put(ref), 0);
	e = percpu_ref_switch_to_atomic(ref);
	if (e == 0)
		e = percpu_ref_switch_to_percpu(ref);
	if (e == 0)
		e = percpu_ref_kill(ref);
	if (e == 0) {
		assert_int_equal(percpu_ref_resurrect(ref), 0);
		e = percpu_ref_kill(ref);
		if (e == 0)
			assert_int_equal(percpu_ref_resurrect(ref), 0);
	}
	assert_int_equal(percpu_ref_put(ref), 0);
	return e;
}

static int references(void)
{
	struct percpu_ref *ref = NULL;
	unsigned released = 0;
	int e = percpu_ref_create(note_release, &released, 0, &ref);

	if (e == 0)
		e = twice(use_references, ref);
	(void)fault_clear();
	if (ref != NULL) {
		assert_int_equal(percpu_ref_fetch(ref), 1);
		assert_int_equal(twice(use_references, ref), 0);
		assert_int_equal(percpu_ref_kill(ref), 0);
		assert_int_equal(percpu_ref_reinit(ref), 0);
		assert_int_equal(percpu_ref_kill(ref), 0);
		assert_int_equal(released, 2);
	}
	assert_int_equal(percpu_ref_destroy(ref), 0);
	return e;
}

static const struct sweep_operation operations[] = {
	{ "word that is split", split_word, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "word with a lock", locked_word, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "word of references", reference_word, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "array of a CPU", array, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "queue of a CPU", queue, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "cache", cache, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "checked cache", checked_cache, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "checked cache of memory", checked_cache_of_memory, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "zone", zone, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "checked zone", checked_zone, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "write buffer", write_buffer, { SWEEP_MEMORY } },
	{ "mapped file", direct_pages, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "windows", window_pages, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "bounced pages", bounced_pages, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "reference count", references, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ NULL, NULL, { 0 } },
};

static void each_call_fails_in_turn(void **state)
{
	(void)state;
	sweep(operations);
	sweep_report();
	assert_true(sweep_failures(FAULT_MMAP) > 0 && sweep_failures(FAULT_REALLOC) > 0);
	assert_int_equal(fault_inherited(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_in_turn),
	};

	return cmocka_run_group_tests(tests, sweep_set_up, sweep_tear_down);
}
