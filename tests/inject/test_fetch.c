/* SPDX-License-Identifier: MIT */
/*
 * test_fetch.c - reads of objects of PERCPU_STATS_WHOLE, with updates between the reader's look at
 * which copy is valid and its load of a field there. The first update makes the other copy valid,
 * and the second writes into the copy that is being read. The reader must return a state that was
 * committed at some time.
 */
#include "inject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/stats.h>

#include "../steps.h"
#include "../support.h"

#define FIELDS 4
#define RETRIES 1000

static struct percpu_stats *stats;
static void (*interfere)(void); /* at the next step */

void test_step(const char *name)
{
	void (*fn)(void) = interfere;

	if (fn == NULL || strcmp(name, "stats: turn loaded") != 0)
		return;
	interfere = NULL;
	fn();
}

static const uint64_t ones[FIELDS] = { 1, 1, 1, 1 };

static void update(void)
{
	assert_int_equal(percpu_stats_update(stats, 0, 0, ones, FIELDS), 0);
}

/* Update. The library's own sequences do not stop, so this file has one of its own. */
static int update_here(void)
{
	return percpu_seq_bank_update(stats->block.base, stats->block.stride, stats->bank,
				      stats->banks, ones, FIELDS);
}

/* Abort an update in front of its commit, with the copy written. */
static void abort_update(void)
{
	int r, tries = 0;

	do {
		inject_point = (struct inject_point){ .step = INJECT_written, .trap = 1 };
		r = update_here();
	} while (!inject_point.arrived && ++tries < RETRIES);
	assert_int_equal(inject_point.arrived, 1);
	assert_int_equal(r, PERCPU_SEQ_SLOW);
}

static unsigned committed;

static void update_and_abort(void)
{
	int tries = 0;

	while (update_here() != 0) /* a neighbor may abort it */
		assert_true(++tries < RETRIES);
	committed++;
	abort_update();
}

static int start(void **state)
{
	(void)state;
	test_pin(0, test_cpu(0));
	inject_now.action = INJECT_NOTHING;
	committed = 0;
	return percpu_stats_create(FIELDS * 8, 1, PERCPU_STATS_WHOLE, &stats);
}

static int stop(void **state)
{
	(void)state;
	interfere = NULL;
	percpu_stats_destroy(stats);
	test_unpin(0);
	return 0;
}

/* Test twice, so that each of the copies is once the valid one. */
static void only_committed_updates_are_read(void **state)
{
	uint64_t out[FIELDS];

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	for (int i = 0; i < 2; i++) {
		interfere = update_and_abort;
		assert_int_equal(percpu_stats_fetch(stats, 0, 1, out), 0);
		assert_null(interfere);
		for (int w = 0; w < FIELDS; w++)
			assert_in_range(out[w], committed - 1, committed);
		assert_int_equal(percpu_stats_fetch(stats, 0, 1, out), 0);
		for (int w = 0; w < FIELDS; w++)
			assert_int_equal(out[w], committed);
	}
}

/* Update at each look of the reader. */
static void update_again(void)
{
	update();
	interfere = update_again;
}

static void endless_updates_end_the_fetch(void **state)
{
	uint64_t out[FIELDS] = { 7, 7, 7, 7 };

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	interfere = update_again;
	assert_int_equal(percpu_stats_fetch(stats, 0, 1, out), -EAGAIN);
	for (int w = 0; w < FIELDS; w++)
		assert_int_equal(out[w], 7);
	interfere = NULL;
	assert_int_equal(percpu_stats_fetch(stats, 0, 1, out), 0);
	for (int w = 1; w < FIELDS; w++)
		assert_int_equal(out[w], out[0]);
}

/* The objects are so many that the fetch needs memory. */
static void a_fetch_that_fails_stores_nothing(void **state)
{
	const size_t n = 2000;
	uint64_t *out = malloc(n * FIELDS * sizeof(*out));

	(void)state;
	percpu_stats_destroy(stats);
	assert_int_equal(percpu_stats_create(FIELDS * 8, n, PERCPU_STATS_WHOLE, &stats), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(percpu_stats_update(stats, i, 0, ones, FIELDS), 0);
	memset(out, 7, n * FIELDS * sizeof(*out));
	interfere = inject_possible() ? update_again : NULL;
	assert_int_equal(percpu_stats_fetch(stats, 0, n, out), interfere != NULL ? -EAGAIN : 0);
	for (size_t i = 0; interfere != NULL && i < n * FIELDS; i++)
		assert_int_equal(out[i], 0x0707070707070707);
	interfere = NULL;
	assert_int_equal(percpu_stats_fetch(stats, 0, n, out), 0);
	for (size_t i = FIELDS; i < n * FIELDS; i++)
		assert_int_equal(out[i], 1);
	free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_committed_updates_are_read, start, stop),
		cmocka_unit_test_setup_teardown(endless_updates_end_the_fetch, start, stop),
		cmocka_unit_test_setup_teardown(a_fetch_that_fails_stores_nothing, start, stop),
	};

	return cmocka_run_group_tests_name("fetch", tests, inject_setup, inject_teardown);
}
