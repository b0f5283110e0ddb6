/* SPDX-License-Identifier: MIT */
/*
 * test_zone.c - the per-CPU allocator: items and limits, and which memory goes back to the
 * system.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/fence.h>
#include <percpu/freebsd/pcpu.h>

#include "../zone.h"

#define MANY 20000

static void bad_input_is_refused(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o) };
	struct percpu_region_options ro = { .size = sizeof(ro), .lane_size = 128 };
	struct percpu_zone *z = NULL;
	struct percpu_region *r;
	void *item;
	int local;

	(void)state;
	assert_int_equal(percpu_zone_create(NULL, 8, NULL, &z), -EINVAL);
	assert_int_equal(percpu_zone_create("x", 8, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_zone_create("x", 0, NULL, &z), -EINVAL);
	assert_int_equal(percpu_zone_create("x", PERCPU_LANE_SIZE + 1, NULL, &z), -EINVAL);
	o.align = 24;
	assert_int_equal(percpu_zone_create("x", 8, &o, &z), -EINVAL);
	o.align = 128;
	assert_int_equal(percpu_zone_create("x", 8, &o, &z), -EINVAL);
	o.align = 0;
	o.flags = 0x80;
	assert_int_equal(percpu_zone_create("x", 8, &o, &z), -EINVAL);
	o.flags = 0;
	o.size = 3;
	assert_int_equal(percpu_zone_create("x", 8, &o, &z), -EINVAL);
	o.size = sizeof(o);
	assert_int_equal(percpu_region_create(&ro, &r), 0);
	o.region = r;
	assert_int_equal(percpu_zone_create("x", 8, &o, &z), -EINVAL);
	percpu_region_close(r);
	assert_null(z);

	z = make(8, NULL);
	assert_int_equal(percpu_zone_alloc(NULL, 0, &item), -EINVAL);
	assert_int_equal(percpu_zone_alloc(z, 0, NULL), -EINVAL);
	assert_int_equal(percpu_zone_alloc(z, 0x40, &item), -EINVAL);
	assert_int_equal(percpu_zone_alloc(z, PERCPU_ZONE_DEBUG, &item), -EINVAL);
	assert_int_equal(percpu_zone_free(z, NULL), 0);
	assert_int_equal(percpu_zone_free(z, &local), -EINVAL);
	item = take(z, 0);
	assert_int_equal(percpu_zone_free(z, (char *)item + 1), -EINVAL);
	for (unsigned cpu = 1; cpu < percpu_zone_cpus(z); cpu++) /* the item's other copies */
		assert_int_equal(percpu_zone_free(z, percpu_zone_get(item, cpu)), -EINVAL);
	assert_int_equal(percpu_zone_free(z, (char *)item + PERCPU_LANE_SIZE), -EINVAL);
	assert_int_equal(percpu_zone_destroy(z), -EBUSY);
	assert_int_equal(percpu_zone_free(z, item), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
	assert_int_equal(percpu_zone_destroy(NULL), 0);
}

/* Items of any size are aligned, apart, and zero in every lane. */
static void items_are_zero_and_apart(void **state)
{
	static const size_t sizes[] = { 1, 8, 24, 64, 1000, 4096, PERCPU_LANE_SIZE };
	struct percpu_zone_options o = { .size = sizeof(o), .align = 64 };

	(void)state;
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct percpu_zone *z = make(sizes[s], &o);
		unsigned char *item[3];

		for (int round = 0; round < 2; round++) {
			for (int i = 0; i < 3; i++) {
				item[i] = take(z, PERCPU_ZONE_ZERO);
				assert_int_equal((uintptr_t)item[i] % 64, 0);
				for (unsigned cpu = 0; cpu < percpu_zone_cpus(z); cpu++) {
					unsigned char *cell = percpu_zone_get(item[i], cpu);

					assert_int_equal((uintptr_t)cell % 64, 0);
					assert_int_equal(cell[0], 0);
					assert_int_equal(cell[sizes[s] - 1], 0);
					memset(cell, 1 + i, sizes[s]);
				}
			}
			for (int i = 0; i < 3; i++)
				for (unsigned cpu = 0; cpu < percpu_zone_cpus(z); cpu++) {
					unsigned char *cell = percpu_zone_get(item[i], cpu);

					assert_int_equal(cell[0], 1 + i);
					assert_int_equal(cell[sizes[s] - 1], 1 + i);
				}
			for (int i = 0; i < 3; i++)
				assert_int_equal(percpu_zone_free(z, item[i]), 0);
		}
		assert_int_equal(percpu_zone_destroy(z), 0);
	}
}

/* An item that was used as a counter, on any tier, starts from 0 when it is allocated again. */
static void zeroed_items_are_counters(void **state)
{
	struct percpu_zone *z = make(8, NULL);

	(void)state;
	for (int i = 0; i < 200; i++) {
		struct percpu_counter *c = take(z, PERCPU_ZONE_ZERO);

		assert_int_equal(percpu_counter_fetch(c), 0);
		percpu_counter_add(c, 5);
		percpu_counter_zero(c);
		percpu_counter_add(c, 7);
		assert_int_equal(percpu_counter_fetch(c), 7);
		assert_int_equal(percpu_zone_free(z, c), 0);
	}
	assert_int_equal(percpu_zone_destroy(z), 0);
}

struct calls {
	unsigned made, ended;
	uint64_t cpus;
};

static void construct(void *cell, unsigned cpu, void *arg)
{
	struct calls *calls = arg;

	*(uint64_t *)cell = 1000 + cpu;
	calls->made++;
	calls->cpus |= UINT64_C(1) << (cpu % 64);
}

static void destruct(void *cell, unsigned cpu, void *arg)
{
	struct calls *calls = arg;

	if (*(uint64_t *)cell == 1000 + cpu)
		calls->ended++;
}

static void sum_up(void *cell, unsigned cpu, void *arg)
{
	(void)cpu;
	*(uint64_t *)arg += *(uint64_t *)cell;
}

static void every_copy_is_constructed(void **state)
{
	struct calls calls = { 0 };
	struct percpu_zone_options o = {
		.size = sizeof(o), .ctor = construct, .dtor = destruct, .arg = &calls
	};
	struct percpu_zone *z = make(16, &o);
	unsigned cpus = percpu_zone_cpus(z);
	uint64_t sum = 0;
	void *item = take(z, 0);

	(void)state;
	assert_int_equal(calls.made, cpus);
	percpu_zone_foreach(z, item, sum_up, &sum);
	assert_int_equal(sum, 1000 * cpus + cpus * (cpus - 1) / 2);
	assert_int_equal(percpu_zone_free(z, item), 0);
	assert_int_equal(calls.ended, cpus);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

/* A zone may have only one of both functions. PERCPU_ZONE_ZERO comes before the constructor. */
static void constructors_come_alone(void **state)
{
	struct calls calls = { 0 };
	struct percpu_zone_options with_dtor = { .size = sizeof(with_dtor),
						 .dtor = destruct,
						 .arg = &calls };
	struct percpu_zone_options with_ctor = { .size = sizeof(with_ctor),
						 .ctor = construct,
						 .arg = &calls };
	struct percpu_zone *z = make(16, &with_dtor);
	unsigned cpus = percpu_zone_cpus(z);
	uint64_t sum = 0;
	void *item = take(z, 0);

	(void)state;
	percpu_zone_foreach(z, item, construct, &calls);
	calls.made = 0;
	assert_int_equal(percpu_zone_free(z, item), 0);
	assert_int_equal(calls.ended, cpus);
	assert_int_equal(percpu_zone_destroy(z), 0);
	z = make(16, &with_ctor);
	item = take(z, PERCPU_ZONE_ZERO);
	assert_int_equal(calls.made, cpus);
	percpu_zone_foreach(z, item, sum_up, &sum);
	assert_int_equal(sum, 1000 * cpus + cpus * (cpus - 1) / 2);
	assert_int_equal(percpu_zone_free(z, item), 0);
	assert_int_equal(calls.ended, cpus);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

static void many_items_never_move(void **state)
{
	struct percpu_zone *z = make(8, NULL);
	static uint64_t *item[MANY];

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		item[i] = take(z, 0);
		*item[i] = i;
	}
	for (uint64_t i = 0; i < MANY; i++)
		assert_int_equal(*item[i], i);
	assert_int_equal(stats_of(z).used, MANY);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(z, item[i]), 0);
	assert_int_equal(stats_of(z).used, 0);
	assert_int_equal(stats_of(z).requests, MANY);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

/* Freed items of all chunks come back before the zone grows, each item once. */
static void freed_items_are_used_again(void **state)
{
	enum { ITEMS = 3000 };
	struct percpu_zone *z = make(256, NULL);
	static uint64_t *item[ITEMS];
	struct percpu_zone_stats first;
	uint64_t first_total, *stranger;

	(void)state;
	test_pin(0, test_cpu(0)); /* so that no item is left in another CPU's cache */
	for (int i = 0; i < ITEMS; i++)
		*(item[i] = take(z, 0)) = 0;
	first = stats_of(z);
	first_total = first.used + first.cached;
	assert_int_equal(first.used, ITEMS);
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal(percpu_zone_free(z, item[i]), 0);
	assert_int_equal(stats_of(z).used, 0);
	assert_int_equal(stats_of(z).cached, first_total);
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal((*(item[i] = take(z, 0)))++, 0);
	assert_int_equal(stats_of(z).used + stats_of(z).cached, first_total);
	test_unpin(0);

	/* An address in another lane is not an item. */
	stranger = (uint64_t *)((char *)item[0] + PERCPU_STRIDE);
	assert_int_equal(percpu_zone_free(z, stranger), -EINVAL);
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal(percpu_zone_free(z, item[i]), 0);
	percpu_zone_reclaim(z);
	assert_int_equal(stats_of(z).cached, 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

/* A CPU finds the items that another CPU has freed, except those in the other CPU's cache. */
static void freed_items_are_found_by_other_cpus(void **state)
{
	enum { ITEMS = 3000, CACHE = 64 };
	struct percpu_zone *z = make(64, NULL);
	static void *item[ITEMS];

	(void)state;
	if (test_cpus() < 2)
		test_skip("one CPU");
	for (int round = 0; round < 4; round++) {
		test_pin(0, test_cpu(0));
		for (int i = 0; i < ITEMS; i++)
			item[i] = take(z, 0);
		test_pin(0, test_cpu(1));
		for (int i = 0; i < ITEMS; i++)
			assert_int_equal(percpu_zone_free(z, item[i]), 0);
		assert_in_range(stats_of(z).cached, ITEMS, ITEMS + 2 * CACHE);
	}
	test_unpin(0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

/* The limit is exact, although freed items are in the caches of several CPUs. */
static void limit_is_exact(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .limit = 100 };
	struct percpu_zone *z = make(8, &o);
	void *item[100], *more = NULL;

	(void)state;
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 100; i++)
			item[i] = take(z, 0);
		assert_int_equal(percpu_zone_alloc(z, 0, &more), -ENOSPC);
		assert_null(more);
		for (int i = 0; i < 100; i++) {
			if (i % 10 == 0)
				test_pin(0, test_cpu(i / 10 % test_cpus()));
			assert_int_equal(percpu_zone_free(z, item[i]), 0);
		}
		test_unpin(0);
	}
	assert_int_equal(stats_of(z).failures, 20);
	for (int i = 0; i < 100; i++)
		item[i] = take(z, 0);
	percpu_zone_set_limit(z, 10);
	for (int i = 0; i < 100; i++)
		assert_int_equal(percpu_zone_free(z, item[i]), 0);
	for (int i = 0; i < 10; i++)
		item[i] = take(z, 0);
	assert_int_equal(percpu_zone_alloc(z, 0, &more), -ENOSPC);
	for (int i = 0; i < 10; i++)
		assert_int_equal(percpu_zone_free(z, item[i]), 0);
	percpu_zone_set_limit(z, 0);
	for (int i = 0; i < 100; i++)
		item[i] = take(z, 0);
	more = take(z, 0);
	assert_int_equal(percpu_zone_free(z, more), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(percpu_zone_free(z, item[i]), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

static size_t resident_pages(void)
{
	unsigned long size = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f != NULL) {
		assert_int_equal(fscanf(f, "%lu %lu", &size, &resident), 2);
		assert_int_equal(fclose(f), 0);
	}
	return resident;
}

static void write_all(void *cell, unsigned cpu, void *arg)
{
	(void)cpu;
	(void)arg;
	memset(cell, 1, 1024);
}

#define ITEMS 2000

/* Return how many pages are resident while there are many items. */
static size_t fill_and_reclaim(struct percpu_zone *z, void **item)
{
	size_t full;

	for (int i = 0; i < ITEMS; i++) {
		item[i] = take(z, 0);
		percpu_zone_foreach(z, item[i], write_all, NULL);
	}
	full = resident_pages();
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal(percpu_zone_free(z, item[i]), 0);
	assert_true(percpu_zone_reclaim(z) >= ITEMS * 1024UL);
	return full;
}

static void reclaim_returns_memory(void **state)
{
	struct percpu_zone *z;
	static void *item[ITEMS];
	size_t before, full, after;
	void *kept;

	(void)state;
	if (test_address_sanitizer() || test_thread_sanitizer())
		test_skip("a sanitizer's own memory is resident, too");
	z = make(1024, NULL);
	kept = take(z, PERCPU_ZONE_ZERO);
	*(uint64_t *)kept = 42;
	fill_and_reclaim(z, item); /* an emulator takes memory the first time it runs code */
	before = resident_pages();
	full = fill_and_reclaim(z, item);
	after = resident_pages();
	assert_true(full > before + ITEMS / 4);
	assert_true(after < before + (full - before) / 7);
	assert_int_equal(*(uint64_t *)kept, 42);
	for (int i = 0; i < ITEMS; i++)
		item[i] = take(z, PERCPU_ZONE_ZERO);
	assert_int_equal(*(uint64_t *)item[ITEMS - 1], 0);
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal(percpu_zone_free(z, item[i]), 0);
	assert_int_equal(percpu_zone_free(z, kept), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

static void zones_share_a_region(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o) };
	struct percpu_zone *a, *b;
	uint64_t *x, *y;

	(void)state;
	assert_int_equal(test_region_new(test_path("zone"), NULL, &o.region), 0);
	a = make(8, &o);
	b = make(72, &o);
	x = take(a, PERCPU_ZONE_ZERO);
	y = take(b, PERCPU_ZONE_ZERO);
	assert_ptr_not_equal(x, y);
	assert_ptr_equal(percpu_region_at(o.region, percpu_region_key(o.region, x), 8), x);
	assert_int_equal(percpu_zone_free(a, x), 0);
	assert_int_equal(percpu_zone_free(b, y), 0);
	assert_int_equal(percpu_zone_destroy(a), 0);
	assert_int_equal(percpu_zone_destroy(b), 0);
	percpu_region_close(o.region);
}

static void sum_words(void *cell, unsigned cpu, void *arg)
{
	(void)cpu;
	*(uint64_t *)arg += *(uint64_t *)cell;
}

/* FreeBSD's names add to any item, also if there is no UMA zone. */
static void words_of_items_are_added_to(void **state)
{
	struct percpu_zone *z;
	uint64_t sum = 0;
	void *item;

	(void)state;
	assert_int_equal(percpu_zone_create("words", 8, NULL, &z), 0);
	assert_int_equal(percpu_zone_alloc(z, PERCPU_ZONE_ZERO, &item), 0);
	for (unsigned i = 0; i < 1000; i++)
		zpcpu_add_protected((uint64_t *)item, 3);
	percpu_zone_foreach(z, item, sum_words, &sum);
	assert_int_equal(sum, 3000);
	assert_int_equal(percpu_zone_free(z, item), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_of_items_are_added_to),
		cmocka_unit_test(bad_input_is_refused),
		cmocka_unit_test(items_are_zero_and_apart),
		cmocka_unit_test(zeroed_items_are_counters),
		cmocka_unit_test(every_copy_is_constructed),
		cmocka_unit_test(constructors_come_alone),
		cmocka_unit_test(many_items_never_move),
		cmocka_unit_test(freed_items_are_used_again),
		cmocka_unit_test(freed_items_are_found_by_other_cpus),
		cmocka_unit_test(limit_is_exact),
		cmocka_unit_test(reclaim_returns_memory),
		cmocka_unit_test(zones_share_a_region),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
