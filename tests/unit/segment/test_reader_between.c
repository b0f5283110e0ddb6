/* SPDX-License-Identifier: MIT */
/*
 * test_reader_between.c - a reader, and another process that declares thousands of series, or
 * resets the segment over and over, and is killed. The kernel decides when; at each step:
 * test_reader_steps.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "picture.h"
#include "support.h"
#include "../segments.h"

#include "segment/segment.h"

/* Shared by the processes. */
static struct {
	uint32_t declared; /* series that are declared, and were counted in */
	uint32_t starts;
} * board;

static char path[128];
static struct percpu_reader *r;
static struct picture_past past;

static int make_segment(void **state)
{
	struct percpu_segment *s = NULL;

	(void)state;
	strcpy(path, test_path("between"));
	board = test_share(sizeof(*board));
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	percpu_segment_close(s);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	return 0;
}

static int remove_segment(void **state)
{
	(void)state;
	percpu_reader_close(r);
	picture_forget(&past);
	return unlink(path);
}

/* Take a picture, and assert that its values fit together. */
static int take(void)
{
	const int e = percpu_reader_read(r);
	const char *wrong = e == 0 ? picture_check(r, false) : NULL;

	if (e == 0 && wrong == NULL)
		wrong = picture_grows(r, &past);
	if (wrong != NULL)
		fail_msg("the picture has %s", wrong);
	return e;
}

/* Growth. */

static unsigned series(void)
{
	return test_rounds(3000);
}

/* Return the value that a counter gets as soon as it is declared. */
static uint64_t value_of(unsigned i)
{
	return i * UINT64_C(7919) + 1;
}

static int declare_many(void *arg)
{
	static const char *const labels[] = { "i" };
	char text[16], help[300];
	const char *const values[] = { text };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "a_total",
					 .help = help,
					 .label_names = labels,
					 .label_values = values,
					 .labels = 1 };
	struct percpu_segment *s = NULL;
	struct percpu_counter *c = NULL;

	(void)arg;
	memset(help, 'h', sizeof(help) - 1);
	help[sizeof(help) - 1] = '\0';
	test_child_require(percpu_segment_open(path, 0, NULL, &s) == 0, "open");
	for (unsigned i = 0; i < series(); i++) {
		snprintf(text, sizeof(text), "%u", i);
		test_child_require(percpu_segment_counter(s, &m, &c) == 0, "declare");
		percpu_counter_add(c, (int64_t)value_of(i));
		__atomic_store_n(&board->declared, i + 1, __ATOMIC_RELEASE);
	}
	percpu_segment_close(s);
	return 0;
}

/* Assert that the picture has all series that were declared before it began, with their values.
 * Later ones may have no value yet. */
static void has_all(uint32_t before, bool *seen)
{
	struct percpu_reader_series one;
	unsigned long i;
	uint64_t count;
	char *end;

	memset(seen, 0, series() * sizeof(*seen));
	for (size_t k = 0; k < percpu_reader_count(r); k++) {
		assert_int_equal(percpu_reader_series(r, k, &one), 0);
		i = strtoul(one.label_values[0], &end, 10);
		assert_true(i < series() && !seen[i]);
		seen[i] = true;
		assert_int_equal(percpu_reader_counter(r, k, &count), 0);
		if (i < before || count != 0)
			assert_int_equal(count, value_of((unsigned)i));
	}
	for (uint32_t k = 0; k < before; k++)
		assert_true(seen[k]);
}

static void pictures_have_what_was_declared_before(void **state)
{
	const uint64_t end = test_now() + 60 * UINT64_C(1000000000);
	bool *seen = calloc(series(), sizeof(*seen));
	uint32_t before = 0;
	pid_t pid;

	(void)state;
	assert_non_null(seen);
	pid = test_fork(declare_many, NULL);
	while (before < series() && test_now() < end) {
		before = __atomic_load_n(&board->declared, __ATOMIC_ACQUIRE);
		assert_int_equal(take(), 0);
		has_all(before, seen);
	}
	assert_int_equal(test_wait(pid, 60), 0);
	assert_int_equal(percpu_reader_count(r), series());
	free(seen);
}

/* Starts. */

#define EACH_START 1000 /* difference of a series between two generations */

/* Return the value of series i in a generation. */
static uint64_t value_in(uint64_t generation, unsigned i)
{
	return generation * EACH_START + i;
}

struct mixed {
	struct percpu_counter *counter[3];
	struct percpu_fcounter *fcounter;
	struct percpu_gauge *gauge;
};

static int declare_mixed(struct percpu_segment *s, struct mixed *ret)
{
	int e = percpu_segment_counter(s, METRIC("a_total"), &ret->counter[0]);

	if (e == 0)
		e = percpu_segment_counter(s, METRIC("b_total"), &ret->counter[1]);
	if (e == 0)
		e = percpu_segment_counter(s, METRIC("c_total"), &ret->counter[2]);
	if (e == 0)
		e = percpu_segment_fcounter(s, METRIC("d_total"), &ret->fcounter);
	if (e == 0 && percpu_pair_is_atomic())
		e = percpu_segment_gauge(s, METRIC("e"), &ret->gauge);
	return e;
}

/* Reset, and count, over and over. A killed process leaves the board as it was, so the
 * generation comes from a reader. */
static int start_over_and_over(void *arg)
{
	struct percpu_reader_info info = { .generation = 0 };
	struct percpu_reader *own = NULL;
	struct percpu_segment *s = NULL;
	struct mixed m = { .gauge = NULL };
	int e;

	(void)arg;
	while (board->starts < UINT32_MAX) {
		do /* on a busy machine, the lock of a killed process may take long to go */
			e = percpu_segment_open(path, PERCPU_SEGMENT_ANEW, NULL, &s);
		while (e == -ETIMEDOUT);
		test_child_require(e == 0 && declare_mixed(s, &m) == 0, "start");
		test_child_require(percpu_reader_open(path, &own) == 0 &&
					   percpu_reader_read(own) == 0 &&
					   picture_check(own, false) == NULL &&
					   percpu_reader_info(own, &info) == 0,
				   "read");
		for (unsigned i = 0; i < 3; i++)
			percpu_counter_add(m.counter[i], (int64_t)value_in(info.generation, i));
		test_child_require(
			percpu_fcounter_add(m.fcounter, (double)value_in(info.generation, 3)) == 0,
			"add");
		if (m.gauge != NULL)
			percpu_gauge_add(m.gauge, (int64_t)value_in(info.generation, 4));
		percpu_reader_close(own);
		percpu_segment_close(s);
		__atomic_fetch_add(&board->starts, 1, __ATOMIC_RELAXED);
	}
	return 0;
}

/* Assert that all values are of the picture's generation. Return whether there is any. */
static bool is_of_one_generation(void)
{
	struct percpu_reader_info info = { .generation = 0 };
	bool any = false;
	double value;
	int e;

	assert_int_equal(percpu_reader_info(r, &info), 0);
	for (size_t i = 0; i < percpu_reader_count(r); i++) {
		value = 0;
		e = percpu_reader_number(r, i, &value);
		assert_true(e == 0 || e == -EAGAIN);
		if (value != 0)
			assert_true(value == (double)value_in(info.generation, (unsigned)i));
		any = any || value != 0;
	}
	return any;
}

static void pictures_are_of_one_generation(void **state)
{
	uint64_t random = 88172645463325252, end;
	unsigned whole = 0, between = 0;
	int status, e;
	uint32_t seen;
	pid_t pid;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (unsigned kills = 0; kills < test_rounds(60); kills++) {
		seen = board->starts;
		pid = test_fork(start_over_and_over, NULL);
		end = test_now() + test_random(&random) % 20000000;
		do {
			e = take();
			assert_true(e == 0 || e == -EAGAIN);
			whole += e == 0 && is_of_one_generation();
			between += e == -EAGAIN;
			/* The first round waits until starts and pictures were seen. */
		} while (test_now() < end || (kills == 0 && (board->starts == seen || whole == 0) &&
					      test_now() < end + UINT64_C(30000000000)));
		assert_int_equal(kill(pid, SIGKILL), 0);
		status = test_wait(pid, 60);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	print_message("%u starts, %u pictures with counts, %u in the middle of one\n",
		      board->starts, whole, between);
	assert_true(board->starts > 0 && whole > 0);
}

int main(void)
{
#define EACH(f) cmocka_unit_test_setup_teardown(f, make_segment, remove_segment)
	const struct CMUnitTest tests[] = {
		EACH(pictures_have_what_was_declared_before),
		EACH(pictures_are_of_one_generation),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
