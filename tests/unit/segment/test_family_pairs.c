/* SPDX-License-Identifier: MIT */
/*
 * test_family_pairs.c - series that are removed and found again, on CPUs that change no 16 bytes at
 * once. There a reset takes the lock of a journal.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"
#include "amid.h"
#include "../family_calls.h"
#include "../root_file.h"

#include "segment/segment.h"

unsigned __wrap_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void)
{
	return 0;
}

static const char *const x[] = { "x" };

static uint64_t count_of(struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *shot;
	uint64_t n;

	assert_int_equal(percpu_histogram_snapshot_create(h, &shot), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, shot), 0);
	n = shot->count;
	percpu_histogram_snapshot_destroy(shot);
	return n;
}

/* Find the removed series, and die at a step. */
static int find_and_die(void *arg)
{
	struct percpu_segment *mine = NULL;
	struct percpu_family *f;
	struct percpu_histogram *h;
	int e;

	test_child_require(percpu_segment_open(path, ALL, NULL, &mine) == 0, "a segment");
	test_child_require(declare_family(mine, "h", PERCPU_METRIC_HISTOGRAM, 1, &f) == 0, "h");
	dies_at = *(unsigned *)arg;
	e = percpu_family_histogram(f, x, &h);
	dies_at = 0;
	test_child_require(e == 0 && percpu_family_overflows(f) == 0, percpu_error());
	percpu_segment_close(mine);
	return 0;
}

/* A process is killed at each step while it finds a removed histogram. Another process finds it
 * then, at once and at 0. */
static void no_step_keeps_a_lock(void **state)
{
	struct percpu_histogram *h;
	struct percpu_family *f;
	bool killed = true;
	unsigned step;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	assert_int_equal(declare_family(s, "h", PERCPU_METRIC_HISTOGRAM, 1, &f), 0);
	for (step = 1; killed; step += test_rounds(10) < 10 ? 7 : 1) {
		assert_int_equal(percpu_family_histogram(f, x, &h), 0);
		percpu_histogram_record(h, 1);
		assert_int_equal(percpu_family_remove(f, x), 0);
		percpu_histogram_record(h, 1);
		killed = killed_at(find_and_die, step);
		assert_int_equal(percpu_family_record(f, x, 1), 0);
		assert_int_equal(percpu_family_overflows(f), 0);
		assert_int_equal(count_of(h), 1);
	}
	assert_true(step > 20);
}

static int clear(void **state)
{
	amid_nothing();
	return close_both(state);
}

/* Gauges need pairs. What cannot be there takes no name. */
static void gauges_take_no_name(void **state)
{
	const struct percpu_metric m = { .size = sizeof(m), .name = "g" };
	const uint64_t end = s->control->end;
	struct percpu_gauge *g = NULL;
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_segment_gauge(s, &m, &g), -ENOTSUP);
	assert_string_equal(percpu_error(), "g: this process cannot have such a metric in a file");
	assert_null(g);
	assert_int_equal(s->control->end, end);
	assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_step_keeps_a_lock, open_both, clear),
		cmocka_unit_test_setup_teardown(gauges_take_no_name, open_both, close_both),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
