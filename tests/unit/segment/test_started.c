/* SPDX-License-Identifier: MIT */
/*
 * test_started.c - start times of segments and series, if clocks are set, and in other
 * boots.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "picture.h"
#include "declared.h"
#include "support.h"

#include "segment/segment.h"
#include "../segments.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080 /* since Linux 5.6 */
#endif

#define SECOND UINT64_C(1000000000)
#define HOUR (3600 * SECOND)

static struct percpu_segment *s;
static uint64_t before; /* a time before the segment was made */

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	assert_int_equal(clock_gettime(clock, &t), 0);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static int open_segment(void **state)
{
	(void)state;
	before = now(CLOCK_REALTIME);
	return percpu_segment_open(test_path("moment"), ALL, NULL, &s);
}

static int close_segment(void **state)
{
	(void)state;
	percpu_segment_close(s);
	return unlink(test_path("moment"));
}

static struct percpu_segment_start started(void)
{
	struct percpu_segment_start m;

	memset(&m, 0xff, sizeof(m));
	assert_int_equal(percpu_segment_started(s, &m), 0);
	assert_int_equal(m.reserved, 0);
	return m;
}

static struct percpu_segment_start of_series(const char *name)
{
	struct percpu_segment_start m;

	memset(&m, 0xff, sizeof(m));
	assert_int_equal(percpu_segment_series_started(s, METRIC(name), &m), 0);
	return m;
}

static void start_anew(void)
{
	percpu_segment_close(s);
	assert_int_equal(percpu_segment_open(test_path("moment"), PERCPU_SEGMENT_ANEW, NULL, &s),
			 0);
}

static void clocks_tell_the_start(void **state)
{
	const uint64_t after = now(CLOCK_REALTIME);
	struct percpu_segment_start m = started();

	(void)state;
	assert_int_equal(m.generation, 1);
	assert_true(m.real >= before && m.real <= after);
	assert_in_range(m.boottime, 1, now(CLOCK_BOOTTIME));
	assert_int_equal(m.this_boot, percpu_boot_id() != 0);
	assert_true(m.age < 60 * SECOND);
	start_anew();
	assert_int_equal(started().generation, 2);
	assert_true(started().real >= m.real);
	assert_true(started().boottime >= m.boottime);
}

/* The clock was set since then: forward, and back. */
static void ages_are_right_if_the_clock_was_set(void **state)
{
	struct percpu_segment_time *t = &s->control->started[1];
	const uint64_t real = t->real;

	(void)state;
	if (percpu_boot_id() == 0)
		test_skip("the boot is not known");
	t->boottime -= 10 * SECOND;
	t->real = real - HOUR;
	assert_in_range(started().age, 10 * SECOND, 70 * SECOND);
	assert_int_equal(started().real, real - HOUR);
	t->real = real + HOUR;
	assert_in_range(started().age, 10 * SECOND, 70 * SECOND);
	assert_int_equal(started().this_boot, 1);
}

static void other_boots_go_by_the_clock(void **state)
{
	struct percpu_segment_time *t = &s->control->started[1];
	const uint64_t boots[] = { t->boot ^ 1, 0 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		t->boot = boots[i];
		t->boottime = 0;
		t->real = now(CLOCK_REALTIME) - HOUR;
		assert_int_equal(started().this_boot, 0);
		assert_in_range(started().age, HOUR, HOUR + 60 * SECOND);
		t->real = now(CLOCK_REALTIME) + HOUR;
		assert_int_equal(started().age, 0);
	}
}

/* The boot of the segment is not known, nor is this one: both are 0. */
static void unknown_boots_go_by_the_clock(void **state)
{
	struct percpu_segment_time *t = &s->control->started[1];

	(void)state;
	s->boot = t->boot = 0;
	t->boottime = 1;
	t->real = now(CLOCK_REALTIME) - HOUR;
	assert_int_equal(started().this_boot, 0);
	assert_in_range(started().age, HOUR, HOUR + 60 * SECOND);
	t->boottime = now(CLOCK_BOOTTIME);
	assert_in_range(started().age, HOUR, HOUR + 60 * SECOND);
}

/* The time is of another time namespace, or damaged. */
static void a_boottime_to_come_is_not_believed(void **state)
{
	struct percpu_segment_time *t = &s->control->started[1];

	(void)state;
	t->boottime = now(CLOCK_BOOTTIME) + HOUR;
	t->real = now(CLOCK_REALTIME) - HOUR;
	assert_in_range(started().age, HOUR, HOUR + 60 * SECOND);
}

/* Look from a time namespace where CLOCK_BOOTTIME is three hours ahead. */
static int look_from_there(void *arg)
{
	struct percpu_reader_info info = { .cpus = 0 };
	struct percpu_segment *mine = NULL;
	struct percpu_reader *r = NULL;
	struct percpu_segment_start m;

	(void)arg;
	test_child_require(percpu_segment_open(test_path("moment"), 0, NULL, &mine) == 0, "open");
	test_child_require(percpu_segment_started(mine, &m) == 0, "started");
	test_child_require(m.this_boot == 0, "another clock");
	test_child_require(m.age < 60 * SECOND, "age");
	test_child_require(percpu_reader_open(test_path("moment"), &r) == 0, "read");
	test_child_require(percpu_reader_read(r) == 0, "picture");
	test_child_require(picture_check(r, false) == NULL, "what fits");
	test_child_require(percpu_reader_info(r, &info) == 0, "info");
	test_child_require(info.read - info.since < 60 * SECOND, "since");
	percpu_reader_close(r);
	percpu_segment_close(mine);
	return 0;
}

/* Fork a child into another time namespace. Returns 77 if this machine has none. */
static int fork_there(void *arg)
{
	static const char offset[] = "boottime 10800 0\n";
	int fd, status;

	(void)arg;
	if (unshare(CLONE_NEWTIME) != 0)
		return 77;
	fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, offset, sizeof(offset) - 1) < 0)
		return 77;
	close(fd);
	status = test_wait(test_fork(look_from_there, NULL), 60);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void other_time_namespaces_go_by_the_clock(void **state)
{
	const int status = test_wait(test_fork(fork_there, NULL), 60);

	(void)state;
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		test_skip("no time namespace can be made");
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void series_start_when_they_are_declared(void **state)
{
	struct percpu_segment_time *t = &s->control->started[1];
	struct percpu_segment *reader;
	struct percpu_counter *c;
	struct percpu_segment_start m;

	(void)state;
	if (percpu_boot_id() == 0)
		test_skip("the boot is not known");
	t->boottime -= 10 * SECOND;
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	assert_int_equal(percpu_segment_info(s, METRIC("b_info")), 0);
	assert_true(of_series("a_total").age < 10 * SECOND);
	assert_true(of_series("b_info").age < 10 * SECOND);
	percpu_directory_at(s, 0)->declared.boottime -= 8 * SECOND;
	assert_in_range(of_series("a_total").age, 8 * SECOND, started().age);
	assert_int_equal(of_series("a_total").real, percpu_directory_at(s, 0)->declared.real);
	assert_int_equal(of_series("a_total").generation, 1);
	assert_int_equal(percpu_segment_open(test_path("moment"), 0, NULL, &reader), 0);
	assert_int_equal(percpu_segment_series_started(reader, METRIC("a_total"), &m), 0);
	assert_true(m.age >= 8 * SECOND);
	percpu_segment_close(reader);
}

/* A series that was removed and is found again starts then, also in a picture. */

static struct percpu_family *family_of_one(void)
{
	static const char *const label[] = { "l" };
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "f_total", .label_names = label, .labels = 1
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_family *f = NULL;

	assert_int_equal(family_with_cap(s, &d, 1, &f), 0);
	return f;
}

static int started_of(const char *value, struct percpu_segment_start *ret)
{
	static const char *const label[] = { "l" };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "f_total",
					 .label_names = label,
					 .label_values = &value,
					 .labels = 1 };

	return percpu_segment_series_started(s, &m, ret);
}

static struct percpu_segment_start of_value(const char *value)
{
	struct percpu_segment_start t;

	assert_int_equal(started_of(value, &t), 0);
	return t;
}

/* Return the record of the series of that value. */
static struct percpu_segment_record *record_of(const char *value)
{
	struct percpu_record_copy *c = malloc(sizeof(*c));
	struct percpu_segment_record *r = NULL;
	uint64_t at = 0;

	assert_non_null(c);
	while (percpu_directory_next(s, PERCPU_SERIES, &at, c, &r))
		if (c->head.label_values == 1 + strlen(value) &&
		    memcmp(percpu_record_values(c) + 1, value, strlen(value)) == 0)
			break;
	free(c);
	assert_non_null(r);
	return r;
}

/* Return when the series of that value started, from a picture. */
static uint64_t since_in_picture(const char *value)
{
	struct percpu_reader_series t;
	struct percpu_reader *r;
	uint64_t since = 0;

	assert_int_equal(percpu_reader_open(test_path("moment"), &r), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	assert_null(picture_check(r, false));
	for (size_t i = 0; i < percpu_reader_count(r); i++) {
		assert_int_equal(percpu_reader_series(r, i, &t), 0);
		if (strcmp(t.label_values[0], value) == 0)
			since = t.since;
	}
	percpu_reader_close(r);
	return since;
}

static void series_start_when_they_are_found_again(void **state)
{
	static const char *const value[] = { "x" };
	struct percpu_segment_time *began = &s->control->started[1];
	struct percpu_family *f = family_of_one();
	struct percpu_segment_start t;
	struct percpu_segment_record *r;
	uint64_t boottime, real;
	struct percpu_counter *c;

	(void)state;
	began->boottime -= 10 * SECOND;
	began->real -= 10 * SECOND;
	for (int i = 0; i < 3; i++) {
		boottime = now(CLOCK_BOOTTIME);
		real = now(CLOCK_REALTIME);
		assert_int_equal(percpu_family_counter(f, value, &c), 0);
		assert_int_equal(percpu_family_overflows(f), 0);
		assert_true(of_value("x").boottime >= boottime);
		assert_in_range(of_value("x").real, real, real + HOUR);
		assert_true(of_value("x").age < 5 * SECOND);
		assert_in_range(since_in_picture("x"), real - 5 * SECOND, real + HOUR);
		r = record_of("x");
		assert_int_equal(r->declared.boot, s->boot);
		r->declared.boottime -= 7 * SECOND;
		r->declared.real -= 7 * SECOND;
		r->declared.boot = 77;
		assert_int_equal(percpu_family_remove(f, value), 0);
		assert_int_equal(started_of("x", &t), -ENOENT);
	}
}

static void series_start_anew_with_the_segment(void **state)
{
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	percpu_directory_at(s, 0)->declared.boottime -= 8 * SECOND;
	start_anew();
	assert_true(of_series("a_total").age < 8 * SECOND);
	assert_int_equal(of_series("a_total").real, started().real);
	assert_int_equal(of_series("a_total").generation, 2);
}

/* Start times of statistics, a gauge, and a series with labels. */
static void all_kinds_are_found(void **state)
{
	const char *const label = "l", *const values[] = { "x", "y" };
	const struct percpu_metric_fields f = { sizeof(f), "f", values, 2 };
	struct percpu_metric m = { .size = sizeof(m),
				   .name = "s_total",
				   .label_names = &label,
				   .label_values = values,
				   .labels = 1 };
	struct percpu_extrema *x;
	struct percpu_stats *h;
	struct percpu_segment_start t;

	(void)state;
	assert_int_equal(percpu_segment_stats(s, &m, &f, 0, &h), 0);
	assert_int_equal(percpu_segment_extrema(s, METRIC("level"), 0, &x), 0);
	(void)of_series("level");
	assert_int_equal(percpu_segment_extrema(s, METRIC("level_of_it"), 0, &x), 0);
	(void)of_series("level_of_it");
	assert_int_equal(percpu_segment_series_started(s, &m, &t), 0);
	m.label_values = values + 1;
	assert_int_equal(percpu_segment_series_started(s, &m, &t), -ENOENT);
}

/* A name that is a suffix alone can be a metric of any other kind. */
static void ends_alone_are_names(void **state)
{
	static const char *const names[] = { "_total", "_info" };
	struct percpu_extrema *x;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(percpu_segment_extrema(s, METRIC(names[i]), 0, &x), 0);
		assert_in_range(of_series(names[i]).real, before, now(CLOCK_REALTIME));
	}
}

static void mistakes_are_refused(void **state)
{
	struct percpu_segment_start m = { .generation = 77 };
	struct percpu_metric wrong = { .size = sizeof(wrong) };

	(void)state;
	assert_int_equal(percpu_segment_started(NULL, &m), -EINVAL);
	assert_string_equal(percpu_error(), "the segment is NULL");
	assert_int_equal(percpu_segment_started(s, NULL), -EINVAL);
	assert_string_equal(percpu_error(), "there is no place for the start");
	assert_int_equal(percpu_segment_series_started(NULL, METRIC("a_total"), &m), -EINVAL);
	assert_int_equal(percpu_segment_series_started(s, METRIC("a_total"), NULL), -EINVAL);
	assert_string_equal(percpu_error(), "there is no place for the start");
	assert_int_equal(percpu_segment_series_started(s, NULL, &m), -EINVAL);
	assert_string_equal(percpu_error(), "a struct percpu_metric is NULL");
	assert_int_equal(percpu_segment_series_started(s, METRIC("\xff"), &m), -EILSEQ);
	assert_int_equal(percpu_segment_series_started(s, &wrong, &m), -EINVAL);
	assert_string_equal(percpu_error(), "a metric has no name");
	wrong.size--;
	assert_int_equal(percpu_segment_series_started(s, &wrong, &m), -EINVAL);
	assert_int_equal(percpu_segment_series_started(s, METRIC("a_total"), &m), -ENOENT);
	assert_string_equal(percpu_error(), "a_total: there is no such series");
	s->control->end = UINT64_MAX;
	assert_int_equal(percpu_segment_series_started(s, METRIC("a_total"), &m), -EBADMSG);
	assert_string_equal(percpu_error(), "a_total: the segment could not be read");
	assert_int_equal(m.generation, 77);
}

#define each(f) cmocka_unit_test_setup_teardown(f, open_segment, close_segment)

int main(void)
{
	const struct CMUnitTest tests[] = {
		each(clocks_tell_the_start),
		each(ages_are_right_if_the_clock_was_set),
		each(other_boots_go_by_the_clock),
		each(unknown_boots_go_by_the_clock),
		each(a_boottime_to_come_is_not_believed),
		each(other_time_namespaces_go_by_the_clock),
		each(series_start_when_they_are_declared),
		each(series_start_when_they_are_found_again),
		each(series_start_anew_with_the_segment),
		each(all_kinds_are_found),
		each(ends_alone_are_names),
		each(mistakes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
