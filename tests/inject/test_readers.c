/* SPDX-License-Identifier: MIT */
/*
 * test_readers.c - several readers of the same objects at a time. One is stopped between changing
 * the bank and its fence. The others do not wait for it for ever. The results of all readers fit
 * one order of updates, snapshots and resets.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/stats.h>

#include "../steps.h"
#include "../support.h"

#include "counts/counts.h"

#define FIELDS 4

static struct percpu_stats *stats;
static void (*interfere)(void); /* called in the thread that is at the step */
static const char *step = "stats: bank changed";
static int remaining;

void test_step(const char *name)
{
	if (remaining == 0 || strcmp(name, step) != 0)
		return;
	remaining--;
	interfere();
}

static void add(uint64_t n)
{
	const uint64_t all[FIELDS] = { n, n, n, n };

	assert_int_equal(percpu_stats_update(stats, 0, 0, all, FIELDS), 0);
}

static int start(void **state)
{
	(void)state;
	remaining = 0;
	return percpu_stats_create(FIELDS * 8, 1, PERCPU_STATS_WHOLE, &stats);
}

static int stop(void **state)
{
	(void)state;
	percpu_stats_destroy(stats);
	return 0;
}

static void assert_all(const uint64_t out[FIELDS], uint64_t value)
{
	for (int i = 0; i < FIELDS; i++)
		assert_int_equal(out[i], value);
}

static uint64_t others; /* the sum that the other readers have reset */

/* Read and reset as another reader does that has waited long enough for the first. */
static void read_and_reset(void)
{
	struct percpu_stats_control *c = percpu_stats_control(stats);
	int steps = remaining;
	uint64_t out[FIELDS];

	remaining = 0;
	c->reader = 0;
	add(100);
	assert_int_equal(percpu_stats_fetch_zero(stats, 0, 1, out), 0);
	assert_all(out, out[0]);
	others += out[0];
	add(1000);
	remaining = steps;
}

static void disturbed_reader_starts_over(void **state)
{
	uint64_t out[FIELDS];

	(void)state;
	add(1);
	add(2);
	interfere = read_and_reset;
	others = 0;
	remaining = 1;
	assert_int_equal(percpu_stats_snapshot(stats, 0, 1, out), 0);
	assert_int_equal(others, 103);
	assert_all(out, 1000);

	/* The reader has not changed the bank yet, and must not change it then. */
	step = "stats: bank to be changed";
	others = 0;
	remaining = 1;
	assert_int_equal(percpu_stats_fetch_zero(stats, 0, 1, out), 0);
	step = "stats: bank changed";
	assert_int_equal(others, 1100);
	assert_all(out, 1000);
	add(1000);

	others = 0;
	remaining = 2;
	assert_int_equal(percpu_stats_fetch_zero(stats, 0, 1, out), 0);
	assert_all(out, out[0]);
	assert_int_equal(out[0] + others, 1000 + 2 * 1100);
	assert_int_equal(percpu_stats_snapshot(stats, 0, 1, out), 0);
	assert_all(out, 0);
}

static void endless_disturbance_is_an_error(void **state)
{
	uint64_t out[FIELDS], sum;

	(void)state;
	others = 0;
	interfere = read_and_reset;
	remaining = 1000;
	assert_int_equal(percpu_stats_fetch_zero(stats, 0, 1, out), -EAGAIN);
	assert_true(remaining > 900);
	sum = (1000 - (uint64_t)remaining) * 1100;
	remaining = 0;
	assert_int_equal(percpu_stats_fetch_zero(stats, 0, 1, out), 0);
	assert_all(out, out[0]);
	assert_int_equal(out[0] + others, sum);
}

/* A reader that has ended delays the next one for a limited time. */
static void absent_reader_is_passed_by(void **state)
{
	struct percpu_stats_control *c = percpu_stats_control(stats);
	uint64_t out[FIELDS], begun;

	(void)state;
	add(7);
	/* No reader with this id will end the turn. */
	c->reader = percpu_turn_id(stats->block.chunk->region) + 1;
	begun = test_now();
	assert_int_equal(percpu_stats_snapshot(stats, 0, 1, out), 0);
	assert_true(test_now() - begun > PERCPU_SECOND / 2);
	assert_all(out, 7);
	assert_int_equal(c->reader, 0);
}

/* A snapshot by a reader that does not wait, while a reset is half done; and a reset whose
 * reader is killed there. */
static uint64_t seen[2][FIELDS];
static int seen_error;

static void read_both(void)
{
	percpu_stats_control(stats)->reader = 0;
	seen_error = percpu_stats_snapshot(stats, 0, 2, seen);
}

static void resets_are_seen_whole(void **state)
{
	uint64_t out[2][FIELDS];
	const uint64_t all[FIELDS] = { 5, 5, 5, 5 };

	(void)state;
	percpu_stats_destroy(stats);
	assert_int_equal(percpu_stats_create(FIELDS * 8, 2, PERCPU_STATS_WHOLE, &stats), 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(percpu_stats_update(stats, i, 0, all, FIELDS), 0);
	step = "stats: object reset";
	interfere = read_both;
	remaining = 1;
	assert_int_equal(percpu_stats_fetch_zero(stats, 0, 2, out), 0);
	step = "stats: bank changed";
	assert_all(out[0], 5);
	assert_all(out[1], 5);
	/* The reset is by the same thread, so the snapshot waits in vain. */
	assert_int_equal(seen_error, -ETIMEDOUT);
	assert_int_equal(percpu_stats_snapshot(stats, 0, 2, out), 0);
	assert_all(out[0], 0);
	assert_all(out[1], 0);

	percpu_stats_control(stats)->resets |= 1; /* a reader was killed in a reset */
	assert_int_equal(percpu_stats_snapshot(stats, 0, 2, out), 0);
	assert_int_equal(percpu_stats_control(stats)->resets & 1, 0);
	percpu_stats_control(stats)->resets |= 1;
	assert_int_equal(percpu_stats_fetch_zero(stats, 0, 2, out), 0);
	assert_int_equal(percpu_stats_control(stats)->resets & 1, 0);
}

/* An object with more fields than the journal has words is reset in runs of so many. When the
 * reader is killed, a number of whole runs was reset. */
#define LARGE 100

static uint64_t left[LARGE];

static void look(void)
{
	assert_int_equal(percpu_stats_fetch(stats, 0, 1, left), 0);
}

static void large_objects_are_reset_by_runs(void **state)
{
	uint64_t out[LARGE];

	(void)state;
	percpu_stats_destroy(stats);
	assert_int_equal(percpu_stats_create(LARGE * 8, 1, 0, &stats), 0);
	for (size_t i = 0; i < LARGE; i++)
		percpu_stats_add(stats, 0, i, 5);
	step = "stats: object reset";
	interfere = look;
	remaining = 1;
	assert_int_equal(percpu_stats_fetch_zero(stats, 0, 1, out), 0);
	step = "stats: bank changed";
	assert_int_equal(remaining, 0);
	for (size_t i = 0; i < LARGE; i++) {
		assert_int_equal(out[i], 5);
		assert_int_equal(left[i], i < PERCPU_STATS_MAX_COMMIT ? 0 : 5);
	}
	assert_int_equal(percpu_stats_fetch(stats, 0, 1, left), 0);
	for (size_t i = 0; i < LARGE; i++)
		assert_int_equal(left[i], 0);
}

/* A reset begins and ends between two looks at the number of resets. Its reader had the journal
 * before the bank was changed. */
static uint32_t looks;

static void reset_in_between(void)
{
	looks++;
	percpu_stats_control(stats)->resets += 2;
}

static void resets_between_are_noticed(void **state)
{
	uint64_t out[FIELDS];

	(void)state;
	add(7);
	step = "stats: resets loaded";
	interfere = reset_in_between;
	looks = 0;
	remaining = 1;
	assert_int_equal(percpu_stats_snapshot(stats, 0, 1, out), 0);
	assert_int_equal(looks, 1);
	assert_all(out, 7);
	remaining = 100;
	assert_int_equal(percpu_stats_snapshot(stats, 0, 1, out), -EAGAIN);
	remaining = 0;
	step = "stats: bank changed";
}

/* The reset was seen half done, and is over when the journal is free. */
static void end_reset(void)
{
	percpu_stats_control(stats)->resets++;
}

static void ended_resets_stay_so(void **state)
{
	uint64_t out[FIELDS];

	(void)state;
	add(7);
	percpu_stats_control(stats)->resets |= 1;
	step = "stats: resets loaded";
	interfere = end_reset;
	remaining = 1;
	assert_int_equal(percpu_stats_snapshot(stats, 0, 1, out), 0);
	assert_int_equal(remaining, 0);
	assert_int_equal(percpu_stats_control(stats)->resets & 1, 0);
	assert_all(out, 7);
	step = "stats: bank changed";
}

/* Take the turn, as a reader that has waited long enough. The reader that had it before must not
 * end it. */
static void take_turn(void)
{
	percpu_stats_control(stats)->reader = FUTEX_TID_MASK;
}

static void turns_of_others_go_on(void **state)
{
	struct percpu_stats_control *c = percpu_stats_control(stats);
	uint64_t out[FIELDS];

	(void)state;
	interfere = take_turn;
	remaining = 1;
	assert_int_equal(percpu_stats_snapshot(stats, 0, 1, out), 0);
	assert_int_equal(c->reader, FUTEX_TID_MASK);
	c->reader = 0;
}

/* The end of a turn wakes a reader that waits for its own. */
static struct test_team waiting;
static int woken; /* 0, or an error */

static void sleep_until_turn(unsigned i, void *arg)
{
	uint32_t *reader = &percpu_stats_control(stats)->reader;
	const struct timespec patience = { .tv_sec = 10 };
	uint32_t other = __atomic_load_n(reader, __ATOMIC_RELAXED);

	(void)i, (void)arg;
	__atomic_store_n(&looks, 1, __ATOMIC_RELEASE);
	if (syscall(SYS_futex, reader, FUTEX_WAIT, other, &patience, NULL, 0) != 0)
		woken = errno;
}

static void start_to_wait(void)
{
	test_team_start(&waiting, 1, sleep_until_turn, NULL);
	while (__atomic_load_n(&looks, __ATOMIC_ACQUIRE) == 0)
		test_sleep_us(100);
	test_sleep_us(100000);
}

static void ended_turn_wakes_the_next(void **state)
{
	uint64_t out[FIELDS];

	(void)state;
	interfere = start_to_wait;
	looks = 0;
	woken = 0;
	remaining = 1;
	assert_int_equal(percpu_stats_snapshot(stats, 0, 1, out), 0);
	test_team_join(&waiting);
	assert_true(woken == 0 || woken == EAGAIN); /* too late to sleep */
}

static uint64_t changed_to;

static void assert_fenced(void)
{
	assert_int_equal(percpu_stats_control(stats)->fenced, changed_to);
}

/* The reader was killed between changing the bank and its fence: the next one fences first. */
static void missing_fence_is_made_good(void **state)
{
	struct percpu_stats_control *c = percpu_stats_control(stats);
	uint64_t out[FIELDS];

	(void)state;
	add(7);
	c->bank += PERCPU_STATS_FLIP + stats->banks;
	add(8);
	assert_true(c->fenced != c->bank);
	changed_to = c->bank;
	interfere = assert_fenced;
	remaining = 1;
	assert_int_equal(percpu_stats_snapshot(stats, 0, 1, out), 0);
	assert_all(out, 15);
	assert_int_equal(c->fenced, c->bank);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(disturbed_reader_starts_over, start, stop),
		cmocka_unit_test_setup_teardown(endless_disturbance_is_an_error, start, stop),
		cmocka_unit_test_setup_teardown(absent_reader_is_passed_by, start, stop),
		cmocka_unit_test_setup_teardown(missing_fence_is_made_good, start, stop),
		cmocka_unit_test_setup_teardown(resets_are_seen_whole, start, stop),
		cmocka_unit_test_setup_teardown(large_objects_are_reset_by_runs, start, stop),
		cmocka_unit_test_setup_teardown(resets_between_are_noticed, start, stop),
		cmocka_unit_test_setup_teardown(ended_resets_stay_so, start, stop),
		cmocka_unit_test_setup_teardown(turns_of_others_go_on, start, stop),
		cmocka_unit_test_setup_teardown(ended_turn_wakes_the_next, start, stop),
	};

	return cmocka_run_group_tests_name("readers", tests, NULL, NULL);
}
