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
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "faults_operations.h"
#include "../blocks.h"
#include "../faults.h"
#include "../support.h"
#include "spinner.h"

static char directory[128];
static struct percpu_region *private; /* the library's own */

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
			    .blocks = test_blocks(),
			    .units = units_in_use(faults_shared) + units_in_use(private) };
	DIR *d = opendir(directory);

	while (d != NULL && readdir(d) != NULL)
		t.files++;
	if (d != NULL)
		closedir(d);
	return t;
}

static bool is_documented(const struct faults_operation *o, int e)
{
	for (unsigned i = 0; i < 8 && o->errors[i] != 0; i++)
		if (e == o->errors[i])
			return true;
	return e == 0;
}

/* Whether a call was there to fail. */
static bool try_with(const struct faults_operation *o, enum fault_call call, unsigned nth,
		     bool later)
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
	if (after.holding.maps > before.holding.maps + (call == FAULT_MREMAP))
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
	/* Calls for one CPU after the other: some of them, where there are many. Where each
	 * takes its time, all of the first, and then every third. */
	const unsigned slow = test_rounds(100) < 100 ? 3 : 1;
	const unsigned stride = slow * (1 + percpu_status()->possible_cpus / 8);
	unsigned tried[FAULT_CALLS] = { 0 };

	(void)state;
	for (const struct faults_operation *o = faults_operations; o->name != NULL; o++) {
		/* What the first time alone needs, is there then. */
		assert_int_equal(o->run(), 0);
		assert_int_equal(o->run(), 0);
		for (unsigned call = 0; call < FAULT_CALLS; call++)
			for (unsigned later = 0; later < 2; later++)
				for (unsigned nth = 0; nth < 300 && try_with(o, call, nth, later);
				     nth += nth < 12 / slow ? 1 : stride)
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
	assert_int_equal(percpu_stats_create_in(faults_shared, 16, 1, 0, &s), 0);
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
	assert_int_equal(percpu_stats_create_in(faults_shared, 16, 1, 0, &s), 0);
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

/* Where a window was, and could not be reserved again, somebody else has memory by now. */
static void lost_addresses_are_left_alone(void **state)
{
	const struct percpu_lwbuf_options o = { .size = sizeof(o),
						.backend = PERCPU_LWBUF_WINDOW,
						.flags = PERCPU_LWBUF_KEEPS_SIZE |
							 PERCPU_LWBUF_DEBUG };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("lost", MFD_CLOEXEC);
	struct percpu_lwbuf b[3];
	struct percpu_lwbufs *f;
	char *theirs;
	void *at;

	(void)state;
	if (test_thread_sanitizer())
		test_skip("the sanitizer maps memory of its own");
	assert_int_equal(ftruncate(fd, (off_t)(3 * page)), 0);
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(percpu_lwbuf_alloc(f, i, 0, &b[i]), 0);
	at = percpu_lwbuf_kva(&b[1]);
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	assert_int_equal(percpu_lwbuf_free(f, &b[1]), 0);
	assert_int_equal(fault_clear(), 2);
	theirs = mmap(at, page, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_equal(theirs, at);
	*theirs = 7;
	assert_int_equal(percpu_lwbuf_free(f, &b[0]), 0);
	assert_int_equal(percpu_lwbuf_alloc(f, 1, 0, &b[1]), 0);
	assert_ptr_not_equal(percpu_lwbuf_kva(&b[1]), at);
	assert_int_equal(percpu_lwbuf_free(f, &b[1]), 0);
	assert_int_equal(percpu_lwbuf_free(f, &b[2]), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	assert_int_equal(msync(theirs, page, MS_ASYNC), 0); /* it is mapped */
	assert_int_equal(*theirs, 7);
	munmap(theirs, page);
	close(fd);
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
	mallopt(M_ARENA_MAX, 1); /* threads come and go, and would map memory of their own */
	snprintf(faults_path, sizeof(faults_path), "%s", test_path("region"));
	snprintf(directory, sizeof(directory), "%.*s",
		 (int)(strrchr(faults_path, '/') - faults_path), faults_path);
	return percpu_region_create_file(faults_path, NULL, &faults_shared) ||
	       percpu_region_default(&private);
}

static int tear_down(void **state)
{
	percpu_region_close(faults_shared);
	return test_remove_paths(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_in_turn),
		cmocka_unit_test(missing_fence_is_noted),
		cmocka_unit_test(no_fence_is_made_up_for),
		cmocka_unit_test(unchecked_items_are_not_lost),
		cmocka_unit_test(lost_addresses_are_left_alone),
		cmocka_unit_test(depots_without_memory_go_on),
		cmocka_unit_test(refused_fences_are_announced_again),
		cmocka_unit_test(fallbacks_keep_errno),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
