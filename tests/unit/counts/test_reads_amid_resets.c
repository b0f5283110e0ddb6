/* SPDX-License-Identifier: MIT */
/*
 * test_reads_amid_resets.c - another thread adds and resets in the middle of a read, a reset or
 * the setup of a counter.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/counter.h>
#include <percpu/fcounter.h>
#include <percpu/stats.h>

#include "support.h"
#include "../happen.h"

#include "counts/counts.h"

/* One object of each kind of counter */
static struct percpu_counter *counter;
static struct percpu_counter_array *array;
static struct percpu_fcounter *fcounter;
static struct percpu_fcounter_array *farray;
static struct percpu_compact *set;
static struct percpu_stats *stats;
static struct percpu_approx *approx;

struct kind {
	const char *name;
	void (*add)(int64_t n);
	uint64_t (*fetch)(void);
	uint64_t (*fetch_zero)(void);
	const char *half; /* the step in the middle of a read */
	uint64_t least;	  /* least result of a read of 10, if 5 are added and all is reset there */
};

static void add_to_counter(int64_t n)
{
	percpu_counter_add(counter, n);
}

static uint64_t fetch_counter(void)
{
	return percpu_counter_fetch(counter);
}

static uint64_t reset_counter(void)
{
	return percpu_counter_fetch_zero(counter);
}

static void add_to_array(int64_t n)
{
	percpu_counter_array_add(array, 1, n);
}

static uint64_t fetch_array(void)
{
	uint64_t out[2];

	percpu_counter_array_fetch_all(array, out);
	return out[1];
}

static uint64_t reset_array(void)
{
	return percpu_counter_array_fetch_zero(array, 1);
}

static void add_to_fcounter(int64_t n)
{
	assert_int_equal(percpu_fcounter_add(fcounter, (double)n), 0);
}

static uint64_t fetch_fcounter(void)
{
	return (uint64_t)(int64_t)percpu_fcounter_fetch(fcounter);
}

static uint64_t reset_fcounter(void)
{
	return (uint64_t)(int64_t)percpu_fcounter_fetch_zero(fcounter);
}

static void add_to_farray(int64_t n)
{
	assert_int_equal(percpu_fcounter_array_add(farray, 1, (double)n), 0);
}

static uint64_t fetch_farray(void)
{
	double out[2];

	percpu_fcounter_array_fetch_all(farray, out);
	return (uint64_t)(int64_t)out[1];
}

static uint64_t reset_farray(void)
{
	return (uint64_t)(int64_t)percpu_fcounter_array_fetch_zero(farray, 1);
}

static void add_to_set(int64_t n)
{
	percpu_compact_add(set, 1, n);
}

static uint64_t fetch_one_of_set(void)
{
	return percpu_compact_fetch(set, 1);
}

static uint64_t fetch_set(void)
{
	uint64_t out[2];

	percpu_compact_fetch_all(set, out);
	return out[1];
}

static uint64_t reset_set(void)
{
	return percpu_compact_fetch_zero(set, 1);
}

static void add_to_stats(int64_t n)
{
	percpu_stats_add(stats, 0, 1, n);
}

static uint64_t fetch_stats(void)
{
	uint64_t out[2];

	assert_int_equal(percpu_stats_fetch(stats, 0, 1, out), 0);
	return out[1];
}

static uint64_t reset_stats(void)
{
	uint64_t out[2];

	assert_int_equal(percpu_stats_fetch_zero(stats, 0, 1, out), 0);
	return out[1];
}

static void add_to_approx(int64_t n)
{
	percpu_approx_add(approx, n);
}

static uint64_t fetch_approx(void)
{
	return (uint64_t)percpu_approx_fetch(approx);
}

static uint64_t reset_approx(void)
{
	return (uint64_t)percpu_approx_fetch_zero(approx);
}

static const struct kind kinds[] = {
	{ "counter", add_to_counter, fetch_counter, reset_counter, "bias loaded", 15 },
	{ "array", add_to_array, fetch_array, reset_array, "bias loaded", 15 },
	{ "counter of doubles", add_to_fcounter, fetch_fcounter, reset_fcounter, "bias loaded",
	  15 },
	{ "array of doubles", add_to_farray, fetch_farray, reset_farray, "bias loaded", 15 },
	{ "one compact counter", add_to_set, fetch_one_of_set, reset_set, "bias loaded", 15 },
	{ "all compact counters", add_to_set, fetch_set, reset_set, "bias loaded", 15 },
	{ "statistics", add_to_stats, fetch_stats, reset_stats, "bias loaded", 15 },
	{ "approximate sum", add_to_approx, fetch_approx, reset_approx, "approx: words summed",
	  10 },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const struct kind *kind; /* of the counter to add to and reset at a step */
static uint64_t taken;		/* what that reset returned */

static void add_and_reset(void)
{
	kind->add(5);
	taken += kind->fetch_zero();
}

/* Add so much that an older checkpoint does not fit the cells. */
static void add_much(void)
{
	for (int i = 0; i < 5000; i++)
		kind->add(1000000);
}

static void come_between(const struct kind *k, const char *name, void (*fn)(void))
{
	kind = k;
	let_happen(fn, name, 1);
	taken = 0;
}

static void reads_do_not_fall_below_zero(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		if (kinds[i].add == add_to_approx && !percpu_pair_is_atomic())
			continue; /* its read is one load */
		print_message("%s\n", kinds[i].name);
		(void)kinds[i].fetch_zero();
		kinds[i].add(10);
		come_between(&kinds[i], kinds[i].half, add_and_reset);
		assert_in_range(kinds[i].fetch(), kinds[i].least, 15);
		assert_null(at_step);
		assert_int_equal(taken, 15);
		assert_int_equal(kinds[i].fetch(), 0);
	}
}

/* Test that a comparison that sums the words does not find a sum below 0. */
static void sums_are_not_found_below_zero(void **state)
{
	(void)state;
	if (!percpu_pair_is_atomic())
		test_skip("it is read by one load");
	(void)reset_approx();
	add_to_approx(10);
	come_between(&kinds[KINDS - 1], "approx: words summed", add_and_reset);
	assert_true(percpu_approx_compare(approx, 0) >= 0);
	assert_null(at_step);
	assert_int_equal(percpu_approx_compare(approx, 0), 0);
}

static void resets_take_all_once(void **state)
{
	uint64_t first;

	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		if (kinds[i].add == add_to_stats || kinds[i].add == add_to_approx)
			continue; /* these take a lock: test_readers, test_approx_steps */
		print_message("%s\n", kinds[i].name);
		(void)kinds[i].fetch_zero();
		kinds[i].add(10);
		come_between(&kinds[i], "lanes summed", add_and_reset);
		first = kinds[i].fetch_zero();
		assert_null(at_step);
		assert_int_equal(taken, 15);
		assert_int_equal(first, 0);
		assert_int_equal(kinds[i].fetch(), 0);
	}
}

static void checkpoints_go_with_their_cells(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		if (kinds[i].add != add_to_set)
			continue;
		(void)kinds[i].fetch_zero();
		kinds[i].add(10);
		come_between(&kinds[i], "checkpoint loaded", add_much);
		assert_int_equal(kinds[i].fetch(), UINT64_C(5000000010));
		assert_null(at_step);
		come_between(&kinds[i], "checkpoint loaded", add_much);
		assert_int_equal(kinds[i].fetch_zero(), UINT64_C(10000000010));
		assert_int_equal(kinds[i].fetch(), 0);
	}
}

static uint64_t added_first;

static void add_a_window(void)
{
	const int64_t n = 2 * (int64_t)set->half - 1;

	percpu_compact_add(set, 1, n);
	added_first += (uint64_t)n;
}

/* Test two threads that make a checkpoint for the same cell at once: the second one starts again
 * from the checkpoint of the first. */
static void checkpoints_are_of_one_thread(void **state)
{
	uint64_t added = 0;

	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ)
		test_skip("there are no cells of CPUs on this tier");
	(void)percpu_compact_fetch_zero(set, 1);
	let_happen(add_a_window, "checkpoint to be made", 1);
	for (unsigned i = 0; i < 1000 && at_step != NULL; i++) {
		percpu_compact_add(set, 1, (int64_t)set->half);
		added += set->half;
	}
	assert_null(at_step);
	assert_int_not_equal(added_first, 0);
	assert_int_equal(percpu_compact_fetch(set, 1), added + added_first);
	assert_int_equal(percpu_compact_fetch_zero(set, 1), added + added_first);
}

/* Two threads set up a static counter: one counter is used, and the other is freed. */
static struct percpu_static_counter late = PERCPU_STATIC_COUNTER_INIT;
static struct percpu_counter *winner;

static void set_up_first(void)
{
	assert_int_equal(percpu_static_counter_setup(&late), 0);
	winner = late.counter;
	percpu_static_counter_add(&late, 3);
}

static unsigned cells_in_use(void)
{
	struct percpu_region *r;
	unsigned cells = 0;

	assert_int_equal(percpu_region_default(&r), 0);
	for (size_t w = 0; w < PERCPU_UNITS / 64; w++)
		cells += (unsigned)__builtin_popcountll(r->first->header->used[w]);
	return cells;
}

static void static_counters_are_set_up_once(void **state)
{
	unsigned before = cells_in_use();

	(void)state;
	let_happen(set_up_first, "static counter created", 1);
	assert_int_equal(percpu_static_counter_setup(&late), 0);
	assert_null(at_step);
	assert_non_null(winner);
	assert_ptr_equal(late.counter, winner);
	assert_int_equal(cells_in_use(), before + 1);
	assert_int_equal(percpu_static_counter_fetch(&late), 3);
	percpu_static_counter_teardown(&late);
	assert_int_equal(cells_in_use(), before);
}

/* Objects in two copies: writers, other readers, and resets run between two reads. */

static struct percpu_stats *pairs;
static int denied; /* an error of the journal's lock */

int __real_percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h);
int __wrap_percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h);
int __wrap_percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h)
{
	return denied != 0 ? denied : __real_percpu_journal_lock(k, h);
}

static size_t written; /* the bank that a writer updates */

static struct percpu_copies *pair_of_bank(size_t bank)
{
	return (struct percpu_copies *)(void *)(pairs->block.base + bank * pairs->banks);
}

static void write_meanwhile(void)
{
	pair_of_bank(written)->turn += 2;
}

static void read_meanwhile(void)
{
	percpu_stats_control(pairs)->bank += PERCPU_STATS_FLIP;
}

static void reset_meanwhile(void)
{
	percpu_stats_control(pairs)->resets += 2;
}

static void who_never_reads_a_whole_object_says_so(void **state)
{
	enum { OBJECTS = 5000 }; /* more than are summed at a time */
	static uint64_t out[4 * OBJECTS];

	(void)state;
	assert_int_equal(percpu_stats_create(32, OBJECTS, PERCPU_STATS_WHOLE, &pairs), 0);
	assert_int_not_equal(pairs->head, 0);
	for (written = 0; written < 2; written++) {
		memset(out, 7, sizeof(out));
		let_happen(write_meanwhile, "stats: turn loaded", UINT_MAX);
		assert_int_equal(percpu_stats_fetch(pairs, 0, OBJECTS, out), -EAGAIN);
		assert_int_equal(percpu_stats_snapshot(pairs, 0, OBJECTS, out), -EAGAIN);
		at_step = NULL;
		assert_int_equal(out[0], UINT64_C(0x0707070707070707));
		assert_int_equal(percpu_stats_snapshot(pairs, 0, 1, out), 0);
		assert_int_equal(out[0], 0);
	}
	percpu_stats_destroy(pairs);
}

static void others_come_between_two_reads(void **state)
{
	static const struct {
		void (*fn)(void);
		const char *step;
	} rows[] = { { read_meanwhile, "stats: bank to be changed" },
		     { reset_meanwhile, "stats: resets loaded" } };
	const uint64_t five = 5;
	struct percpu_stats_control *c;
	uint64_t out[4];

	(void)state;
	assert_int_equal(percpu_stats_create(32, 1, PERCPU_STATS_WHOLE, &pairs), 0);
	c = percpu_stats_control(pairs);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(percpu_stats_update(pairs, 0, 1, &five, 1), 0);
		let_happen(rows[i].fn, rows[i].step, 1);
		assert_int_equal(percpu_stats_snapshot(pairs, 0, 1, out), 0);
		assert_int_equal(times, 0);
		assert_int_equal(out[1], 5 + 5 * i);
		assert_int_equal(c->fenced, c->bank);
	}
	/* A thread was killed in a reset. */
	c->resets |= 1;
	denied = -ETIMEDOUT;
	assert_int_equal(percpu_stats_snapshot(pairs, 0, 1, out), -ETIMEDOUT);
	denied = 0;
	assert_int_equal(percpu_stats_snapshot(pairs, 0, 1, out), 0);
	assert_int_equal(out[1], 10);
	assert_int_equal(c->resets % 2, 0);
	percpu_stats_destroy(pairs);
}

static int start(void **state)
{
	(void)state;
	return percpu_counter_create(&counter) || percpu_counter_array_create(2, &array) ||
	       percpu_fcounter_create(&fcounter) || percpu_fcounter_array_create(2, &farray) ||
	       percpu_compact_create(2, &set) || percpu_stats_create(16, 1, 0, &stats) ||
	       percpu_approx_create(NULL, &approx);
}

static int stop(void **state)
{
	(void)state;
	percpu_counter_destroy(counter);
	percpu_counter_array_destroy(array);
	percpu_fcounter_destroy(fcounter);
	percpu_fcounter_array_destroy(farray);
	percpu_compact_destroy(set);
	percpu_stats_destroy(stats);
	percpu_approx_destroy(approx);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_do_not_fall_below_zero),
		cmocka_unit_test(sums_are_not_found_below_zero),
		cmocka_unit_test(resets_take_all_once),
		cmocka_unit_test(checkpoints_go_with_their_cells),
		cmocka_unit_test(checkpoints_are_of_one_thread),
		cmocka_unit_test(who_never_reads_a_whole_object_says_so),
		cmocka_unit_test(others_come_between_two_reads),
		cmocka_unit_test(static_counters_are_set_up_once),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
