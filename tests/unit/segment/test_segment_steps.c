/* SPDX-License-Identifier: MIT */
/*
 * test_segment_steps.c - processes that declare metrics at once, and that are killed at each
 * step: each metric is there once, with one object, and nothing is lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "steps.h"
#include "support.h"
#include "../root_file.h"
#include "../segments.h"

#include "segment/segment.h"

static unsigned dies_at; /* the step at which the process dies, counted from 1; 0: none */
static const char *dies_when;
static const char *waits_when;
static void (*meanwhile)(void);

void test_step(const char *name)
{
	void (*fn)(void) = meanwhile;

	if (dies_at != 0 && --dies_at == 0)
		raise(SIGKILL);
	if (dies_when != NULL && strcmp(name, dies_when) == 0)
		raise(SIGKILL);
	if (waits_when != NULL && strcmp(name, waits_when) == 0) {
		waits_when = NULL;
		fn();
	}
}

static struct percpu_metric metric(const char *name)
{
	return (struct percpu_metric){ .size = sizeof(struct percpu_metric), .name = name };
}

static struct percpu_segment *open_segment(void)
{
	struct percpu_segment *s = NULL;

	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	return s;
}

static uint64_t count_of(struct percpu_segment *s, const char *name, int64_t add)
{
	const struct percpu_metric m = metric(name);
	struct percpu_counter *c = NULL;

	assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
	percpu_counter_add(c, add);
	return percpu_counter_fetch(c);
}

/* Return the units of 8 bytes in use: the control, blocks of records, and counters. */
static unsigned units(unsigned blocks, unsigned counters)
{
	return (unsigned)(sizeof(struct percpu_segment_control) + blocks * PERCPU_SEGMENT_BLOCK) /
		       8 +
	       counters;
}

/* A process is killed at every step between opening and the end of a declaration, and so is the
 * next one. */

static int declare_and_die(void *arg)
{
	const struct percpu_metric m = metric("a_total");
	struct percpu_counter *c = NULL;
	struct percpu_segment *s = NULL;
	int e;

	dies_at = *(unsigned *)arg;
	e = percpu_segment_open(path, 0, NULL, &s);
	if (e == 0)
		e = percpu_segment_counter(s, &m, &c);
	dies_at = 0;
	test_child_require(e == 0, strerror(-e));
	percpu_counter_add(c, 1);
	percpu_segment_close(s);
	return 0;
}

static void no_step_loses_anything(void **state)
{
	struct percpu_region *r;
	struct percpu_segment *s;
	const unsigned stride = test_rounds(10) < 10 ? 3 : 1;
	bool killed = true;
	unsigned step;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (step = 1; killed; step += stride) {
		assert_int_equal(test_region_new(path, NULL, &r), 0);
		percpu_region_close(r);
		killed = killed_at(declare_and_die, step);
		for (unsigned i = 1; i < 8 && killed_at(declare_and_die, i * 7); i++)
			;
		s = open_segment();
		(void)count_of(s, "b_total", 5);
		assert_true(count_of(s, "a_total", 1) >= 1);
		assert_int_equal(count_of(s, "b_total", 0), 5);
		assert_int_equal(s->series.used, 2);
		assert_int_equal(used(), units(1, 2));
		percpu_segment_close(s);
		assert_int_equal(unlink(path), 0);
	}
	assert_true(step > 20);
}

/* Declare, and die when the record is there and its object is not: the next declaration makes
 * the object. */
static int declare_and_die_then(void *arg)
{
	unsigned never = 0;

	dies_when = arg;
	return declare_and_die(&never);
}

static void records_without_objects_get_one(void **state)
{
	struct percpu_segment *s;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	percpu_segment_close(open_segment());
	assert_int_equal(
		test_wait(test_fork(declare_and_die_then, "segment: record announced"), 60),
		SIGKILL);
	assert_int_equal(percpu_segment_open(path, 0, NULL, &s), 0);
	assert_true(s->control->end != 0);
	assert_int_equal(count_of(s, "b_total", 1), 1);
	assert_int_equal(used(), units(1, 1)); /* of b's counter: a's was freed */
	assert_int_equal(count_of(s, "a_total", 1), 1);
	assert_int_equal(s->series.used, 2);
	assert_int_equal(used(), units(1, 2));
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* A killed process has written behind the end. If the next record does not fit there, it goes to
 * the next block, and those bytes are not read. */
static void remains_are_no_records(void **state)
{
	char help[PERCPU_METRIC_HELP + 1], name[32];
	struct percpu_metric large = metric("large_total");
	struct percpu_counter *c;
	struct percpu_segment *s;
	unsigned n = 0;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	memset(help, 'x', sizeof(help) - 1);
	help[sizeof(help) - 1] = '\0';
	large.help = help;
	s = open_segment();
	for (; PERCPU_SEGMENT_BLOCK - s->control->end > 500; n++) {
		snprintf(name, sizeof(name), "m%u_total", n);
		(void)count_of(s, name, 1);
	}
	assert_int_equal(test_wait(test_fork(declare_and_die_then, "segment: record written"), 60),
			 SIGKILL);
	assert_int_equal(percpu_segment_counter(s, &large, &c), 0);
	assert_true(s->control->end > PERCPU_SEGMENT_BLOCK);
	percpu_counter_add(c, 1);
	percpu_segment_close(s);
	s = open_segment();
	assert_int_equal(count_of(s, "large_total", 0), 1);
	assert_int_equal(s->series.used, n + 1);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* Another process declares the same metric after this one has not found it: both get one object. */

static void declare_elsewhere(void)
{
	struct percpu_segment *s = open_segment();

	assert_int_equal(count_of(s, "a_total", 1), 1);
	percpu_segment_close(s);
}

static void late_ones_look_again(void **state)
{
	struct percpu_segment *s = open_segment();

	(void)state;
	meanwhile = declare_elsewhere;
	waits_when = "root: looked up";
	assert_int_equal(count_of(s, "a_total", 1), 2);
	assert_null(waits_when);
	assert_int_equal(s->series.used, 1);
	assert_int_equal(used(), units(1, 1));
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* The other process declares another kind of metric with that name. */

static void declare_a_gauge(void)
{
	const struct percpu_metric m = metric("a_total");
	struct percpu_segment *s = open_segment();
	struct percpu_fcounter *c;

	assert_int_equal(percpu_segment_fcounter(s, &m, &c), 0);
	percpu_segment_close(s);
}

static void late_ones_are_refused(void **state)
{
	const struct percpu_metric m = metric("a_total");
	struct percpu_segment *s = open_segment();
	struct percpu_counter *none = NULL;

	(void)state;
	meanwhile = declare_a_gauge;
	waits_when = "root: looked up";
	assert_int_equal(percpu_segment_counter(s, &m, &none), -EEXIST);
	assert_string_equal(percpu_error(),
			    "a_total: is a counter of doubles in the segment, a counter was asked "
			    "for");
	assert_null(none);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* Many processes declare at once, each in its own order, and some are killed. */

enum { PROCESSES = 4, METRICS = 300 };

static int declare_many(void *arg)
{
	const unsigned first = *(unsigned *)arg;
	struct percpu_segment *s = NULL;
	struct percpu_counter *c;
	struct percpu_metric m;
	char name[32];
	int e = percpu_segment_open(path, ALL, NULL, &s);

	test_child_require(e == 0, strerror(-e));
	for (unsigned i = 0; i < METRICS; i++) {
		snprintf(name, sizeof(name), "m%u_total", (first + i * 7) % METRICS);
		m = metric(name);
		e = percpu_segment_counter(s, &m, &c);
		test_child_require(e == 0, percpu_error());
		percpu_counter_add(c, 1);
	}
	percpu_segment_close(s);
	return 0;
}

static int declare_many_and_die(void *arg)
{
	dies_at = 200 + 61 * *(unsigned *)arg;
	return declare_many(arg);
}

static void processes_declare_at_once(void **state)
{
	unsigned rounds = test_rounds(20), first[PROCESSES];
	pid_t pid[PROCESSES], victim;
	struct percpu_segment *s;
	uint64_t sum = 0, n;
	char name[32];

	(void)state;
	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned i = 0; i < PROCESSES; i++) {
			first[i] = (round * 31 + i * 53) % METRICS;
			pid[i] = test_fork(declare_many, &first[i]);
		}
		victim = percpu_status()->robust ? test_fork(declare_many_and_die, &round) : 0;
		for (unsigned i = 0; i < PROCESSES; i++)
			assert_int_equal(test_wait(pid[i], 60), 0);
		if (victim != 0)
			(void)test_wait(victim, 60);
		s = open_segment();
		sum = 0;
		for (unsigned i = 0; i < METRICS; i++) {
			snprintf(name, sizeof(name), "m%u_total", i);
			n = count_of(s, name, 0);
			assert_in_range(n, PROCESSES, PROCESSES + 1);
			sum += n;
		}
		assert_int_equal(s->series.used, METRICS);
		percpu_segment_close(s);
		assert_int_equal(unlink(path), 0);
	}
	assert_true(sum >= METRICS * PROCESSES);
}

/* Threads of one process get one handle. */

static struct percpu_segment *shared;
static struct percpu_histogram *handle[4];

static void declare_in_thread(unsigned i, void *arg)
{
	const struct percpu_metric m = metric("h");

	(void)arg;
	if (percpu_segment_histogram(shared, &m, NULL, &handle[i]) != 0)
		handle[i] = NULL;
}

static void threads_share_handles(void **state)
{
	(void)state;
	for (unsigned round = 0; round < test_rounds(100); round++) {
		shared = open_segment();
		test_team_run(4, declare_in_thread, NULL);
		for (unsigned i = 0; i < 4; i++) {
			assert_non_null(handle[i]);
			assert_ptr_equal(handle[i], handle[0]);
		}
		percpu_segment_close(shared);
		assert_int_equal(unlink(path), 0);
	}
}

/* The debug mode */

#define DEBUG PERCPU_SEGMENT_DEBUG

static struct percpu_segment *closing, *other;
static pthread_t opener;
static bool opened; /* atomic */

/* Run it with its standard error in a file, and assert that it aborts and says this of the segment
 * at the path. */
static void must_abort(int (*fn)(void *arg), const char *sentence)
{
	char said[512], expected[512];
	int fd = memfd_create("said", MFD_CLOEXEC), status;
	ssize_t n;

	assert_true(fd >= 0);
	status = test_wait(test_fork(fn, &fd), 60);
	assert_int_equal(status & 0x7f, SIGABRT);
	n = pread(fd, said, sizeof(said) - 1, 0);
	close(fd);
	said[n > 0 ? n : 0] = '\0';
	if (strstr(said, "qemu: ") != NULL) /* an emulator's line */
		*strstr(said, "qemu: ") = '\0';
	snprintf(expected, sizeof(expected), "libpercpu: segment \"%.99s\" %s\n", path, sentence);
	assert_string_equal(said, expected);
	assert_int_equal(unlink(path), 0);
}

static void expect_abort(const int *said)
{
	signal(SIGABRT, SIG_DFL);
	dup2(*said, STDERR_FILENO);
}

static void close_meanwhile(void)
{
	percpu_segment_close(closing);
}

static int close_while_it_is_closed(void *arg)
{
	const struct percpu_metric m = metric("g");
	struct percpu_owned_gauge *g;

	expect_abort(arg);
	test_child_require(percpu_segment_open(path, ALL | DEBUG, NULL, &closing) == 0, "open");
	test_child_require(percpu_segment_owned_gauge(closing, &m, PERCPU_OWNED_SUM, &g) == 0,
			   "owned gauge");
	test_child_require(percpu_owned_gauge_set(g, 5) == 0, "set");
	meanwhile = close_meanwhile;
	waits_when = "owner: byte unlocked";
	percpu_segment_close(closing);
	return 0;
}

static void no_two_close_one_segment(void **state)
{
	(void)state;
	must_abort(close_while_it_is_closed, "is closed twice");
}

static void *open_other(void *arg)
{
	(void)arg;
	if (percpu_segment_open(path, ALL | DEBUG, NULL, &other) == 0)
		__atomic_store_n(&opened, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Give the thread a tenth of a second: it may have to wait for this one. */
static void open_in_a_thread(void)
{
	if (pthread_create(&opener, NULL, open_other, NULL) != 0)
		_exit(2);
	for (int i = 0; i < 100 && !__atomic_load_n(&opened, __ATOMIC_ACQUIRE); i++)
		test_sleep_us(1000);
}

static int open_at_once(void *arg)
{
	const struct percpu_metric m = metric("a_total");
	struct percpu_counter *c = NULL;

	expect_abort(arg);
	meanwhile = open_in_a_thread;
	waits_when = "segment: to be watched";
	test_child_require(percpu_segment_open(path, ALL | DEBUG, NULL, &closing) == 0, "open");
	test_child_require(waits_when == NULL && pthread_join(opener, NULL) == 0, "thread");
	test_child_require(opened && percpu_segment_counter(other, &m, &c) == 0, "counter");
	percpu_segment_close(other);
	percpu_counter_add(c, 1);
	return 0;
}

/* A thread uses a closed segment while another thread opens one, and has signals blocked. */

static struct percpu_counter *closed_counter;
static pthread_t user;
static bool may_count; /* atomic */

static void *count_when_told(void *arg)
{
	while (!__atomic_load_n(&may_count, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	percpu_counter_add(closed_counter, 1);
	return arg;
}

static void let_count(void)
{
	__atomic_store_n(&may_count, true, __ATOMIC_RELEASE);
	pthread_join(user, NULL);
}

static int use_while_another_is_opened(void *arg)
{
	const struct percpu_metric m = metric("a_total");

	expect_abort(arg);
	test_child_require(percpu_segment_open(path, ALL | DEBUG, NULL, &closing) == 0, "open");
	test_child_require(percpu_segment_counter(closing, &m, &closed_counter) == 0, "counter");
	percpu_segment_close(closing);
	test_child_require(pthread_create(&user, NULL, count_when_told, NULL) == 0, "thread");
	meanwhile = let_count;
	waits_when = "segment: to be watched";
	test_child_require(percpu_segment_open(path, ALL | DEBUG, NULL, &other) == 0, "open");
	return 0;
}

static void closed_segments_are_watched_all_the_time(void **state)
{
	(void)state;
	must_abort(use_while_another_is_opened, "is used after it was closed");
}

static void threads_have_their_segments_watched(void **state)
{
	(void)state;
	must_abort(open_at_once, "is used after it was closed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_step_loses_anything),
		cmocka_unit_test(records_without_objects_get_one),
		cmocka_unit_test(remains_are_no_records),
		cmocka_unit_test(late_ones_look_again),
		cmocka_unit_test(late_ones_are_refused),
		cmocka_unit_test(processes_declare_at_once),
		cmocka_unit_test(threads_share_handles),
		cmocka_unit_test(no_two_close_one_segment),
		cmocka_unit_test(threads_have_their_segments_watched),
		cmocka_unit_test(closed_segments_are_watched_all_the_time),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
