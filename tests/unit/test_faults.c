/* SPDX-License-Identifier: MIT */
/*
 * test_faults.c - each call that the library makes of libc fails in turn: the
 * first, the second, and so on until none is left to fail, alone and with all
 * later ones. What is asked for is then done, or refused with an error that is
 * documented; nothing stays behind, and the next try succeeds.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "objects/objects.h"
#include "../faults.h"
#include "../support.h"
#include "spinner.h"

#define PORTS 4
#define HALF (PERCPU_LANE_SIZE / 2)
#define LARGE 300000 /* counters, which make an array a region of its own */

/* An operation as a program would do it, from nothing to nothing. Returns the
 * first error. What it finds wrong besides, it asserts with the faults off. */
struct operation {
	const char *name;
	int (*run)(void);
	int errors[8]; /* that it may give, besides that of the call that failed */
};

static char path[160], directory[128];
static struct percpu_region *shared;  /* in a file; opened once for all */
static struct percpu_region *private; /* the library's own */

static int create_private(void)
{
	struct percpu_region *r = NULL;
	void *cell = NULL;
	int e = percpu_region_create(NULL, &r);

	if (e == 0)
		e = percpu_region_alloc(r, 8, 8, &cell);
	fault_clear();
	assert_true(e == 0 || cell == NULL);
	percpu_region_close(r);
	return e;
}

static int grow(struct percpu_region *r)
{
	void *cells[5] = { NULL };
	int e = 0;

	for (unsigned i = 0; i < 5 && e == 0; i++) {
		e = percpu_region_alloc(r, HALF, 64, &cells[i]);
		if (e != 0)
			assert_null(cells[i]);
	}
	fault_clear();
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(percpu_region_free(r, cells[i], HALF), 0);
	return e;
}

static int grow_private(void)
{
	struct percpu_region *r = NULL;
	int e = percpu_region_create(NULL, &r);

	if (e == 0)
		e = grow(r);
	fault_clear();
	percpu_region_close(r);
	return e;
}

static int create_file(void)
{
	const char *name = test_path("new");
	struct percpu_region *r = NULL, *reader = NULL;
	int e = percpu_region_create_file(name, NULL, &r);

	if (e == 0)
		e = grow(r);
	fault_clear();
	/* Whatever went wrong, others find a region that is whole. */
	if (r != NULL) {
		assert_int_equal(percpu_region_open(name, 0, NULL, &reader), 0);
		percpu_region_close(reader);
	}
	percpu_region_close(r);
	assert_int_equal(unlink(name), r != NULL ? 0 : -1);
	return e;
}

static int create_fd(void)
{
	int fd = memfd_create("faults", MFD_CLOEXEC), e;
	struct percpu_region *r = NULL;
	struct stat st;

	e = percpu_region_create_fd(fd, NULL, &r);
	fault_clear();
	assert_int_equal(fstat(fd, &st), 0);
	if (e != 0)
		assert_int_equal(st.st_size, 0);
	percpu_region_close(r);
	close(fd);
	return e;
}

/* As a program does that is started first, or again. */
static int start_program(void)
{
	const unsigned create = PERCPU_REGION_WRITE | PERCPU_REGION_CREATE;
	const char *name = test_path("started");
	struct percpu_counter_array *a = NULL;
	struct percpu_region *r = NULL;
	int e = percpu_region_open(name, create, NULL, &r);

	if (e == 0)
		e = percpu_counter_array_open(r, 0, 100, &a);
	fault_clear();
	if (e == 0)
		percpu_counter_array_add(a, 99, 1);
	else
		assert_null(a);
	percpu_counter_array_detach(a);
	percpu_region_close(r);
	assert_int_equal(unlink(name), r != NULL ? 0 : -1);
	return e;
}

static int open_file(unsigned flags)
{
	struct percpu_region *r = NULL;
	int e = percpu_region_open(path, flags, NULL, &r);

	fault_clear();
	percpu_region_close(r);
	return e;
}

static int open_to_write(void)
{
	return open_file(PERCPU_REGION_WRITE);
}

static int open_to_read(void)
{
	return open_file(0);
}

static int grow_shared(void)
{
	return grow(shared);
}

static int counter(void)
{
	struct percpu_counter *c = NULL;
	int e = percpu_counter_create(&c);

	if (e == 0)
		percpu_counter_add(c, 3);
	fault_clear();
	if (e == 0)
		assert_int_equal(percpu_counter_fetch_zero(c), 3);
	percpu_counter_destroy(c);
	return e;
}

static int array_of(size_t n, struct percpu_region *r)
{
	struct percpu_counter_array *a = NULL;
	int e = r != NULL ? percpu_counter_array_create_in(r, n, &a) :
			    percpu_counter_array_create(n, &a);

	if (e == 0)
		percpu_counter_array_add(a, n - 1, 3);
	fault_clear();
	if (e == 0) {
		assert_int_equal(percpu_counter_array_fetch(a, n - 1), 3);
		percpu_counter_array_zero(a, n - 1);
	}
	percpu_counter_array_destroy(a);
	return e;
}

static int small_array(void)
{
	return array_of(100, NULL);
}

static int large_array(void)
{
	return array_of(LARGE, NULL);
}

static int shared_array(void)
{
	return array_of(100, shared);
}

static int stats_in(struct percpu_region *r, unsigned flags)
{
	const uint64_t one[3] = { 1, 2, 3 };
	struct percpu_stats *s = NULL;
	uint64_t out[3 * PORTS], shown[3 * PORTS];
	int e = r != NULL ? percpu_stats_create_in(r, 24, PORTS, flags, &s) :
			    percpu_stats_create(24, PORTS, flags, &s);

	if (e == 0)
		e = percpu_stats_update(s, 1, 0, one, 2);
	memset(out, 0x55, sizeof(out));
	memcpy(shown, out, sizeof(out));
	if (e == 0)
		e = percpu_stats_snapshot(s, 0, PORTS, out);
	fault_clear();
	if (e == 0) {
		assert_int_equal(out[3], 1);
		assert_int_equal(out[4], 2);
		assert_int_equal(out[5], 0);
	} else if (s != NULL) {
		/* Whatever went wrong, the next snapshot is whole. */
		assert_int_equal(percpu_stats_fetch_zero(s, 0, PORTS, out), 0);
		assert_true((out[3] == 1 && out[4] == 2) || (out[3] == 0 && out[4] == 0));
	}
	percpu_stats_destroy(s);
	return e;
}

static int private_stats(void)
{
	return stats_in(NULL, 0);
}

static int shared_stats(void)
{
	return stats_in(shared, 0);
}

static int whole_stats(void)
{
	return stats_in(shared, PERCPU_STATS_WHOLE);
}

static int compact_in(struct percpu_region *r)
{
	struct percpu_compact *c = NULL;
	int e = r != NULL ? percpu_compact_create_in(r, 10, &c) : percpu_compact_create(10, &c);

	if (e == 0) /* beyond a cell's window, which takes the slow path */
		percpu_compact_add(c, 9, INT64_C(1) << 40);
	fault_clear();
	if (e == 0)
		assert_int_equal(percpu_compact_fetch_zero(c, 9), UINT64_C(1) << 40);
	percpu_compact_destroy(c);
	return e;
}

static int private_compact(void)
{
	return compact_in(NULL);
}

static int shared_compact(void)
{
	return compact_in(shared);
}

static int write_buffer(void)
{
	const struct percpu_wbuf_options o = { .size = sizeof(o), .entries = 4 };
	struct percpu_wbuf *w = NULL;
	uint64_t cell = 0, done = 0;
	int e = percpu_wbuf_create(&o, &w), added;

	for (unsigned i = 0; e == 0 && i < 20; i++) {
		added = percpu_wbuf_add(w, &cell, 1);
		assert_true(added == 0 || added == -ENOMEM);
		done += added == 0;
	}
	fault_clear();
	percpu_wbuf_destroy(w);
	assert_int_equal(cell, e == 0 ? done : 0);
	return e;
}

static int local_word(void)
{
	struct percpu_local *l = NULL;
	int e = percpu_local_create(8, PERCPU_LOCAL_LOCK, &l);

	fault_clear();
	percpu_local_destroy(l);
	return e;
}

static int zone_in(struct percpu_region *r)
{
	const struct percpu_zone_options o = { .size = sizeof(o), .limit = 50, .region = r };
	struct percpu_zone *z = NULL;
	void *items[40] = { NULL };
	int e = percpu_zone_create("faults", 32, &o, &z), f;

	for (unsigned i = 0; i < 40 && e == 0; i++)
		e = percpu_zone_alloc(z, 0, &items[i]);
	for (unsigned i = 0; i < 20; i++)
		if (items[i] != NULL) {
			f = percpu_zone_free(z, items[i]);
			assert_true(f == 0 || f == -ETIMEDOUT);
		}
	fault_clear();
	for (unsigned i = 20; i < 40; i++)
		if (items[i] != NULL)
			assert_int_equal(percpu_zone_free(z, items[i]), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
	return e;
}

static int private_zone(void)
{
	return zone_in(NULL);
}

static int shared_zone(void)
{
	return zone_in(shared);
}

static int static_counter(void)
{
	struct percpu_static_counter s = PERCPU_STATIC_COUNTER_INIT;
	int e = percpu_static_counter_setup(&s);

	percpu_static_counter_add(&s, 5);
	fault_clear();
	assert_int_equal(percpu_static_counter_fetch_zero(&s), 5);
	percpu_static_counter_teardown(&s);
	return e;
}

static int fence(void)
{
	return percpu_fence();
}

static int fence_all(void)
{
	struct percpu_fence_report report = { .unfenced = 77 };
	int e = percpu_fence_all(UINT64_C(20000000000), &report);

	assert_true(report.unfenced == 77 || (report.unfenced == 0) == (e == 0));
	return e;
}

static const struct operation operations[] = {
	{ "create a private region", create_private, { -ENOMEM } },
	{ "grow a private region", grow_private, { -ENOMEM } },
	{ "create a file", create_file, { -ENOMEM, -ENOSPC } },
	{ "create in a descriptor", create_fd, { -ENOMEM, -ENOSPC } },
	{ "start a program", start_program, { -ENOMEM, -ENOSPC } },
	{ "open to write", open_to_write, { -ENOMEM, -EBADMSG } },
	{ "open to read", open_to_read, { -ENOMEM, -EBADMSG } },
	{ "grow a shared region", grow_shared, { -ENOMEM, -ENOSPC } },
	{ "counter", counter, { -ENOMEM } },
	{ "small array", small_array, { -ENOMEM } },
	{ "large array", large_array, { -ENOMEM } },
	{ "shared array", shared_array, { -ENOMEM, -ENOSPC } },
	{ "statistics", private_stats, { -ENOMEM, -EAGAIN, -EPERM } },
	{ "shared statistics", shared_stats, { -ENOMEM, -ENOSPC, -EAGAIN, -EPERM } },
	{ "whole statistics", whole_stats, { -ENOMEM, -ENOSPC, -EAGAIN, -EPERM } },
	{ "compact counters", private_compact, { -ENOMEM } },
	{ "shared compact counters", shared_compact, { -ENOMEM, -ENOSPC } },
	{ "write buffer", write_buffer, { -ENOMEM } },
	{ "local word", local_word, { -ENOMEM } },
	{ "zone", private_zone, { -ENOMEM } },
	{ "shared zone", shared_zone, { -ENOMEM, -ENOSPC } },
	{ "static counter", static_counter, { -ENOMEM } },
	{ "fence", fence, { -EAGAIN, -EPERM } },
	{ "fence of all processes", fence_all, { -EAGAIN, -EPERM } },
};

/* What a failure must leave as it was. */
struct traces {
	struct test_holding holding;
	unsigned blocks; /* of memory */
	unsigned files;
	unsigned units; /* of cells that are in use */
};

static unsigned units_in_use(const struct percpu_region *r)
{
	unsigned units = 0;

	for (uint32_t i = 0; i < r->n; i++)
		for (size_t w = 0; w < PERCPU_UNITS / 64; w++)
			units += (unsigned)__builtin_popcountll(r->chunks->at[i]->header->used[w]);
	return units;
}

static struct traces traces_now(void)
{
	struct traces t = { .holding = test_holding_now(),
			    .blocks = fault_blocks(),
			    .units = units_in_use(shared) + units_in_use(private) };
	DIR *d = opendir(directory);

	while (d != NULL && readdir(d) != NULL)
		t.files++;
	if (d != NULL)
		closedir(d);
	return t;
}

static bool is_documented(const struct operation *o, int e)
{
	for (unsigned i = 0; i < 8 && o->errors[i] != 0; i++)
		if (e == o->errors[i])
			return true;
	return e == 0;
}

/* Whether a call was there to fail. */
static bool try_with(const struct operation *o, enum fault_call call, unsigned nth, bool later)
{
	struct traces before = traces_now(), after;
	unsigned failed;
	int e;

	fault_set(call, nth, fault_error(call), later);
	e = o->run();
	failed = fault_clear();
	if (failed == 0)
		assert_int_equal(e, 0);
	if (!is_documented(o, e) && e != -fault_error(call))
		fail_msg("%s: %d when call %u of %s fails", o->name, e, nth, fault_name(call));
	after = traces_now();
	if (after.holding.fds != before.holding.fds || after.files != before.files)
		fail_msg("%s leaves a file when call %u of %s fails", o->name, nth,
			 fault_name(call));
	if (after.units != before.units)
		fail_msg("%s leaves cells when call %u of %s fails", o->name, nth,
			 fault_name(call));
	if (after.blocks != before.blocks)
		fail_msg("%s: %u blocks, and %u after call %u of %s has failed", o->name,
			 before.blocks, after.blocks, nth, fault_name(call));
	/* When a move to a place fails, nobody knows whether the kernel has given the
	 * place to somebody else, so it stays reserved. */
	if (!test_thread_sanitizer() && !test_address_sanitizer() &&
	    after.holding.maps > before.holding.maps + (call == FAULT_MREMAP))
		fail_msg("%s leaves a mapping when call %u of %s fails", o->name, nth,
			 fault_name(call));
	e = o->run();
	if (e != 0)
		fail_msg("%s: %d, after call %u of %s had failed", o->name, e, nth,
			 fault_name(call));
	return failed != 0;
}

static void each_call_fails_in_turn(void **state)
{
	/* Calls for one CPU after the other: some of them, where there are many. */
	const unsigned stride = 1 + percpu_status()->possible_cpus / 8;
	unsigned tried[FAULT_CALLS] = { 0 };

	(void)state;
	for (unsigned i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		/* What the first time alone needs, is there then. */
		assert_int_equal(operations[i].run(), 0);
		assert_int_equal(operations[i].run(), 0);
		for (unsigned call = 0; call < FAULT_CALLS; call++)
			for (unsigned later = 0; later < 2; later++)
				for (unsigned nth = 0;
				     nth < 300 && try_with(&operations[i], call, nth, later);
				     nth += nth < 12 ? 1 : stride)
					tried[call]++;
	}
	for (unsigned call = 0; call < FAULT_CALLS; call++)
		print_message("%s failed %u times\n", fault_name(call), tried[call]);
	/* So the linker did put the faults in between. */
	assert_true(tried[FAULT_OPEN] > 0 && tried[FAULT_MMAP] > 0 && tried[FAULT_CALLOC] > 0);
	/* What the library opened, no other program gets. */
	assert_int_equal(fault_inherited(), 0);
}

/* What the first fence says is not lost when a second one succeeds. */
static void no_fence_is_made_up_for(void **state)
{
	struct percpu_stats_control *c;
	struct percpu_stats *s;
	uint64_t out[2];

	(void)state;
	assert_int_equal(percpu_stats_create_in(shared, 16, 1, 0, &s), 0);
	c = percpu_stats_control(s);
	c->fenced = c->bank + PERCPU_STATS_FLIP; /* a reader was killed before its own */
	fault_set(FAULT_PTHREAD_CREATE, 0, ENOMEM, false);
	assert_int_equal(percpu_stats_snapshot(s, 0, 1, out), -ENOMEM);
	assert_int_equal(fault_clear(), 1);
	assert_int_equal(percpu_stats_snapshot(s, 0, 1, out), 0);
	percpu_stats_destroy(s);
}

/* A snapshot that cannot fence is none, and the next one fences first. */
static void missing_fence_is_noted(void **state)
{
	struct percpu_stats_control *c;
	struct percpu_stats *s;
	uint64_t out[2];

	(void)state;
	assert_int_equal(percpu_stats_create_in(shared, 16, 1, 0, &s), 0);
	c = percpu_stats_control(s);
	assert_int_equal(percpu_stats_snapshot(s, 0, 1, out), 0);
	assert_int_equal(c->fenced, c->bank);
	percpu_stats_add(s, 0, 0, 3);
	fault_set(FAULT_PTHREAD_CREATE, 0, EAGAIN, true);
	assert_int_equal(percpu_stats_snapshot(s, 0, 1, out), -EAGAIN);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_not_equal(c->fenced, c->bank);
	assert_int_equal(percpu_stats_snapshot(s, 0, 1, out), 0);
	assert_int_equal(out[0], 3);
	assert_int_equal(c->fenced, c->bank);
	percpu_stats_destroy(s);
}

/* What is allocated and cannot be checked goes back. */
static void unchecked_items_are_not_lost(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	struct percpu_zone *z;
	void *item = NULL;

	(void)state;
	assert_int_equal(percpu_zone_create("unchecked", 8, &o, &z), 0);
	for (unsigned nth = 0; nth < 2; nth++) {
		fault_set(FAULT_REALLOC, nth, ENOMEM, false);
		assert_int_equal(percpu_zone_alloc(z, 0, &item), -ENOMEM);
		assert_int_equal(fault_clear(), 1);
		assert_null(item);
	}
	assert_int_equal(percpu_zone_alloc(z, 0, &item), 0);
	assert_int_equal(percpu_zone_free(z, item), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

enum { MANY = 500 };

static uint64_t cached_of_many(struct percpu_zone *z)
{
	struct percpu_zone_stats st;
	void *items[MANY];

	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_alloc(z, 0, &items[i]), 0);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(z, items[i]), 0);
	(void)fault_clear();
	percpu_zone_stats(z, &st);
	return st.cached;
}

/* A depot that could not grow does so later. */
static void depots_without_memory_go_on(void **state)
{
	struct percpu_zone *z;

	(void)state;
	assert_int_equal(percpu_zone_create("depot", 8, NULL, &z), 0);
	fault_set(FAULT_REALLOC, 0, ENOMEM, true);
	(void)cached_of_many(z);
	assert_in_range(cached_of_many(z), MANY - 64, SIZE_MAX);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

static int fence_when_refused_once(void)
{
	int e;

	fault_set(FAULT_MEMBARRIER, 0, EPERM, false);
	e = percpu_fence();
	(void)fault_clear();
	return e;
}

/* As in a process that was restored, which has not announced its fences. */
static void refused_fences_are_announced_again(void **state)
{
	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ || test_cpus() < 2)
		test_skip("no sequences, or no second CPU");
	assert_int_equal(spinner_aborted_by(fence_when_refused_once, 20), 20);
}

/* From here on the main thread runs no sequences. */
static void fallbacks_keep_errno(void **state)
{
	struct percpu_local *l;
	int64_t sum;

	(void)state;
	assert_int_equal(percpu_local_create(8, PERCPU_LOCAL_REFS, &l), 0);
	test_unregister(percpu_seq_attach());
	fault_set(FAULT_GETCPU, 0, EPERM, true);
	errno = 77;
	assert_int_equal(percpu_local_add_return(l, 1, &sum), 0);
	assert_int_equal(errno, 77);
	(void)fault_clear();
	percpu_local_destroy(l);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "%s", test_path("region"));
	snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(path, '/') - path), path);
	return percpu_region_create_file(path, NULL, &shared) || percpu_region_default(&private);
}

static int tear_down(void **state)
{
	percpu_region_close(shared);
	return test_remove_paths(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_in_turn),
		cmocka_unit_test(missing_fence_is_noted),
		cmocka_unit_test(no_fence_is_made_up_for),
		cmocka_unit_test(unchecked_items_are_not_lost),
		cmocka_unit_test(depots_without_memory_go_on),
		cmocka_unit_test(refused_fences_are_announced_again),
		cmocka_unit_test(fallbacks_keep_errno),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
