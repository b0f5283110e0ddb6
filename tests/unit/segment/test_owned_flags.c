/* SPDX-License-Identifier: MIT */
/*
 * test_owned_flags.c - test owned gauges of a segment that keep what dead owners have, or that
 * readers show for each owner; and processes that leave the owners of a segment.
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

#include "declared.h"
#include "support.h"
#include "reader_calls.h"

#include "owners/owners.h"
#include "segment/segment.h"

#define KEEP PERCPU_OWNED_KEEP
#define EACH PERCPU_OWNED_EACH

static struct percpu_owned_gauge *level;
static struct percpu_owned_fgauge *flevel;

/* Declare both gauges of the segment, whose series are 0 and 1. */
static void declare_levels(unsigned rule)
{
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("a"), rule, &level), 0);
	assert_int_equal(percpu_segment_owned_fgauge(s, METRIC("b"), rule, &flevel), 0);
}

static void set_levels(int64_t v)
{
	test_child_require(percpu_owned_gauge_set(level, v) == 0, "set");
	test_child_require(percpu_owned_fgauge_set(flevel, (double)v + 0.5) == 0, "set");
}

/* What a process is told: its name, or NULL for none, and its value. */
struct worker {
	const char *name;
	int64_t value;
};

static int work(void *arg)
{
	const struct worker *w = arg;

	if (w->name != NULL)
		test_child_require(percpu_segment_join(s, w->name, 0) == 0, percpu_error());
	set_levels(w->value);
	return 0;
}

static int work_and_stop(void *arg)
{
	(void)work(arg);
	raise(SIGSTOP);
	return 0;
}

static void end_worker(const char *name, int64_t value)
{
	struct worker w = { name, value };

	test_in_child(work, &w);
}

static pid_t start_worker(const char *name, int64_t value)
{
	struct worker w = { name, value };
	pid_t pid = test_fork(work_and_stop, &w);

	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	return pid;
}

static void stop_worker(pid_t pid)
{
	kill(pid, SIGKILL);
	test_wait(pid, 60);
}

/* Take a picture, and assert what readers show of both gauges as one number. */
static void shows(int64_t value)
{
	int64_t whole = 0;
	double x = 0;

	assert_int_equal(look(), 2);
	assert_int_equal(percpu_reader_gauge(r, 0, &whole), 0);
	assert_int_equal(whole, value);
	assert_int_equal(percpu_reader_number(r, 0, &x), 0);
	assert_true(x == (double)value);
	assert_int_equal(percpu_reader_number(r, 1, &x), 0);
	assert_true(x == (double)value + 0.5);
}

static void readers_keep_dead_owners(void **state)
{
	(void)state;
	declare_levels(PERCPU_OWNED_MAX | KEEP);
	end_worker(NULL, 100);
	set_levels(3); /* in the slot of the dead one */
	shows(100);
	set_levels(200);
	shows(200);
	assert_int_equal(percpu_segment_leave(s), 0);
	shows(200);
}

static void readers_forget_dead_owners(void **state)
{
	(void)state;
	declare_levels(PERCPU_OWNED_MAX);
	end_worker(NULL, 100);
	set_levels(3);
	shows(3);
}

static void flags_are_told(void **state)
{
	static const unsigned flags[] = { 0, KEEP, EACH, KEEP | EACH };
	char name[8];

	(void)state;
	for (unsigned i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "g%02u", i);
		assert_int_equal(
			percpu_segment_owned_gauge(s, METRIC(name), i / 4 | flags[i % 4], &level),
			0);
		assert_int_equal(percpu_owned_gauge_rule(level), i / 4);
	}
	assert_int_equal(look(), 16);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(series_of(i).flags, i / 4 | flags[i % 4]);
}

static void declared_again(unsigned rule, const char *sentence)
{
	struct percpu_owned_gauge *again = NULL;

	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("a"), rule, &again), -EEXIST);
	assert_string_equal(percpu_error(), sentence);
	assert_null(again);
}

static void other_flags_are_refused(void **state)
{
	struct percpu_owned_gauge *again = NULL;

	(void)state;
	declare_levels(PERCPU_OWNED_SUM | KEEP);
	assert_int_equal(
		percpu_segment_owned_gauge(s, METRIC("a"), PERCPU_OWNED_SUM | KEEP, &again), 0);
	assert_ptr_equal(again, level);
	declared_again(PERCPU_OWNED_SUM,
		       "a: is an owned gauge that is the sum of all owners that ever were in the "
		       "segment, an owned gauge that is the sum was asked for");
	declared_again(
		PERCPU_OWNED_SUM | KEEP | EACH,
		"a: is an owned gauge that is the sum of all owners that ever were in the "
		"segment, an owned gauge, shown for each owner, that is the sum of all owners "
		"that ever were was asked for");
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("c"), 0x400, &again), -EINVAL);
	assert_string_equal(percpu_error(), "c: 1024 is no rule of an owned gauge");
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("c"), KEEP | 4, &again), -EINVAL);
}

/* Gauges beside a segment have a rule alone. */
static void flags_are_for_segments(void **state)
{
	struct percpu_owned_gauge *none = NULL;
	int e = 0;
	struct percpu_owners *o = percpu_segment_owners(s, &e);

	(void)state;
	assert_int_equal(percpu_owned_gauge_create_in(o, (enum percpu_owned_rule)KEEP, &none),
			 -EINVAL);
	assert_int_equal(percpu_owned_gauge_open(o, 5, (enum percpu_owned_rule)EACH, &none),
			 -EINVAL);
	assert_null(none);
}

static void no_label_is_named_pid(void **state)
{
	static const char *const names[] = { "piD", "pid" }, *const values[] = { "x", "1" };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "m",
					 .label_names = names,
					 .label_values = values,
					 .labels = 2 };
	struct percpu_declaration d = percpu_declare_owned_gauge(NULL, "f", "", EACH);
	struct percpu_family *f = NULL;

	(void)state;
	assert_int_equal(percpu_segment_owned_gauge(s, &m, EACH, &level), -EINVAL);
	assert_string_equal(percpu_error(),
			    "m: no label of an owned gauge with PERCPU_OWNED_EACH is named pid: by "
			    "that label the values of owners are told from each other");
	d.label_names = names;
	d.labels = 2;
	d.cap = 3;
	assert_int_equal(percpu_segment_family(s, &d, &f), -EINVAL);
	assert_non_null(strstr(percpu_error(), "f: no label of an owned gauge with"));
	assert_null(f);
	d.labels = 1;
	assert_int_equal(percpu_segment_family(s, &d, &f), 0);
	assert_int_equal(percpu_segment_owned_gauge(s, &m, KEEP, &level), 0);
}

/* Each owner */

/* Assert that readers show these values of both gauges. */
static void shows_each(const struct worker *expected, size_t n)
{
	struct percpu_owned_value v[8];
	size_t found = 0;

	assert_int_equal(look(), 2);
	for (size_t g = 0; g < 2; g++) {
		assert_int_equal(percpu_reader_owned_shown(r, g, v, 8, &found), 0);
		assert_int_equal(found, n);
		for (size_t i = 0; i < n; i++) {
			assert_string_equal(v[i].name, expected[i].name);
			assert_int_equal(v[i].value, g == 0 ? expected[i].value : 0);
			assert_true(v[i].fvalue == (g == 0 ? 0 : (double)expected[i].value + 0.5));
		}
	}
}

static char *printed(enum percpu_print_format form)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);

	assert_non_null(to);
	assert_int_equal(percpu_reader_print(r, to, form), 0);
	assert_int_equal(fclose(to), 0);
	return text;
}

static void prints_this(enum percpu_print_format form, const char *expected)
{
	char *text = printed(form);

	assert_string_equal(text, expected);
	free(text);
}

static void each_living_owner_is_shown(void **state)
{
	static const struct worker both[] = { { "10", 1 }, { "9", -2 } };
	pid_t pid;

	(void)state;
	declare_levels(PERCPU_OWNED_MIN | EACH);
	shows_each(NULL, 0);
	end_worker("7", 6);
	pid = start_worker("9", -2);
	assert_int_equal(percpu_segment_join(s, "10", 0), 0);
	set_levels(1);
	shows_each(both, 2);
	shows(-2);
	prints_this(PERCPU_PRINT_PROMETHEUS, "# HELP a \n# TYPE a gauge\n"
					     "a{pid=\"10\"} 1\na{pid=\"9\"} -2\n"
					     "# HELP b \n# TYPE b gauge\n"
					     "b{pid=\"10\"} 1.5\nb{pid=\"9\"} -1.5\n");
	stop_worker(pid);
	shows_each(both, 1);
	prints_this(PERCPU_PRINT_JSON,
		    "[\n{\"type\": \"gauge\", \"name\": \"a\", \"labels\": {\"pid\": \"10\"}, "
		    "\"value\": 1},\n"
		    "{\"type\": \"gauge\", \"name\": \"b\", \"labels\": {\"pid\": \"10\"}, "
		    "\"value\": 1.5}\n]\n");
}

static void dead_owners_are_shown_until_their_slot_is_taken(void **state)
{
	static const struct worker dead = { "7", 6 };
	char pid[16];

	(void)state;
	declare_levels(PERCPU_OWNED_SUM | EACH | KEEP);
	end_worker("7", 6);
	shows_each(&dead, 1);
	end_worker(NULL, 5);
	assert_int_equal(percpu_segment_join(s, "8", 0), 0); /* in the slot of the one without */
	shows_each(&dead, 1);
	assert_int_equal(percpu_segment_leave(s), 0);
	assert_int_equal(percpu_owners_join(s->owners), 0);
	set_levels(4);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	shows_each(strcmp(pid, "7") < 0 ? (struct worker[]){ { pid, 4 }, dead } :
					  (struct worker[]){ dead, { pid, 4 } },
		   2);
}

/* Two processes that live have the same name, such as those of two containers. */
static void owners_of_one_name_are_one(void **state)
{
	static const struct {
		unsigned rule;
		int64_t folded;
		double whole;
	} by[] = {
		{ PERCPU_OWNED_SUM, 13, 13 },
		{ PERCPU_OWNED_MIN, 6, 6 },
		{ PERCPU_OWNED_MAX, 7, 7 },
		{ PERCPU_OWNED_RECENT, 6, 6 },
	};
	struct percpu_owned_value v[2] = { { .alive = 0 } };
	pid_t pid[2];
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		char name[2] = { (char)('a' + i), '\0' };

		assert_int_equal(
			percpu_segment_owned_gauge(s, METRIC(name), by[i].rule | EACH, &level), 0);
		assert_int_equal(percpu_segment_owned_fgauge(s, METRIC("z"), EACH, &flevel), 0);
		pid[0] = start_worker("1", 7);
		pid[1] = start_worker("1", 6);
		assert_int_equal(look(), i + 2);
		assert_int_equal(percpu_reader_owned_shown(r, i, v, 2, &n), 0);
		assert_int_equal(n, 1);
		assert_string_equal(v[0].name, "1");
		assert_int_equal(v[0].value, by[i].folded);
		assert_true(v[0].alive == 1 &&
			    (v[0].pid == (uint32_t)pid[0] || v[0].pid == (uint32_t)pid[1]));
		assert_int_equal(percpu_reader_owned_shown(r, i + 1, v, 2, &n), 0);
		assert_true(n == 1 && v[0].fvalue == 14);
		stop_worker(pid[0]);
		stop_worker(pid[1]);
	}
}

/* Two processes have had one name, and one of them lives. */
static void the_living_tell_who_has_a_name(void **state)
{
	struct percpu_owned_value v = { .alive = 0 };
	pid_t pid[2];
	size_t n = 0;

	(void)state;
	declare_levels(PERCPU_OWNED_SUM | EACH | KEEP);
	for (size_t dead = 0; dead < 2; dead++) {
		pid[0] = start_worker("1", 7);
		pid[1] = start_worker("1", 6);
		stop_worker(pid[dead]);
		assert_int_equal(look(), 2);
		assert_int_equal(percpu_reader_owned_shown(r, 0, &v, 1, &n), 0);
		assert_true(n == 1 && v.value == 13);
		assert_true(v.alive == 1 && v.pid == (uint32_t)pid[1 - dead]);
		stop_worker(pid[1 - dead]);
	}
}

static void lists_have_the_room_of_the_caller(void **state)
{
	struct percpu_owned_value v[2] = { { .value = 77 }, { .value = 77 } };
	size_t n = 0;
	pid_t pid;

	(void)state;
	declare_levels(PERCPU_OWNED_SUM | EACH);
	pid = start_worker("b", 2);
	assert_int_equal(percpu_segment_join(s, "a", 0), 0);
	set_levels(1);
	assert_int_equal(look(), 2);
	assert_int_equal(percpu_reader_owned_shown(r, 0, NULL, 0, &n), 0);
	assert_int_equal(n, 2);
	n = 0;
	assert_int_equal(percpu_reader_owned_shown(r, 0, v, 1, &n), 0);
	assert_true(n == 2 && v[0].value == 1 && v[1].value == 77);
	stop_worker(pid);
}

static void other_series_have_no_owners_to_show(void **state)
{
	struct percpu_owned_value v;
	size_t n = 77;

	(void)state;
	declare_levels(PERCPU_OWNED_SUM | KEEP);
	(void)counter("c_total");
	assert_int_equal(percpu_reader_owned_shown(r, 0, &v, 1, &n), -EINVAL); /* no picture */
	assert_int_equal(look(), 3);
	assert_int_equal(percpu_reader_owned_shown(r, 0, &v, 1, &n), -EINVAL);
	assert_int_equal(percpu_reader_owned_shown(r, 2, &v, 1, &n), -EINVAL);
	assert_int_equal(percpu_reader_owned_shown(r, 3, &v, 1, &n), -EINVAL);
	assert_int_equal(percpu_reader_owned_shown(NULL, 0, &v, 1, &n), -EINVAL);
	assert_int_equal(percpu_reader_owned_shown(r, 0, NULL, 1, &n), -EINVAL);
	assert_int_equal(percpu_reader_owned_shown(r, 0, &v, 1, NULL), -EINVAL);
	assert_int_equal(n, 77);
}

/* Another process has written what no release writes. */
static void unknown_flags_are_damage(void **state)
{
	struct percpu_owned_control *c;

	(void)state;
	declare_levels(PERCPU_OWNED_SUM);
	assert_int_equal(look(), 2);
	c = (struct percpu_owned_control *)percpu_block_bias(&level->owned.block);
	c->rule |= 0x400;
	percpu_reader_close(r);
	r = NULL;
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(look(), 1);
	assert_int_equal(info_of().pending, 1);
	c->rule &= ~UINT32_C(0x400);
}

/* Leaving */

static void who_leaves_has_a_dead_value(void **state)
{
	(void)state;
	declare_levels(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_segment_leave(s), 0); /* it has no slot */
	assert_int_equal(percpu_segment_join(s, "a", 0), 0);
	set_levels(5);
	shows(5);
	assert_int_equal(percpu_segment_leave(s), 0);
	assert_int_equal(percpu_segment_leave(s), 0);
	assert_int_equal(percpu_owners_self(s->owners), 0);
	assert_int_equal(look(), 2);
	assert_int_equal(percpu_segment_join(s, "b", 0), 0);
	assert_int_equal(percpu_segment_leave(s), 0);
	set_levels(6); /* joins again */
	shows(6);
	assert_int_equal(percpu_segment_leave(NULL), -EINVAL);
	assert_string_equal(percpu_error(), "the segment is NULL");
}

static void a_segment_without_owners_is_left(void **state)
{
	(void)state;
	assert_int_equal(percpu_segment_leave(s), 0);
	assert_null(s->owners);
}

#define FLAGS_TEST(f) cmocka_unit_test_setup_teardown(f, make_segment, remove_segment)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FLAGS_TEST(readers_keep_dead_owners),
		FLAGS_TEST(readers_forget_dead_owners),
		FLAGS_TEST(flags_are_told),
		FLAGS_TEST(other_flags_are_refused),
		FLAGS_TEST(flags_are_for_segments),
		FLAGS_TEST(no_label_is_named_pid),
		FLAGS_TEST(each_living_owner_is_shown),
		FLAGS_TEST(dead_owners_are_shown_until_their_slot_is_taken),
		FLAGS_TEST(owners_of_one_name_are_one),
		FLAGS_TEST(the_living_tell_who_has_a_name),
		FLAGS_TEST(lists_have_the_room_of_the_caller),
		FLAGS_TEST(other_series_have_no_owners_to_show),
		FLAGS_TEST(unknown_flags_are_damage),
		FLAGS_TEST(who_leaves_has_a_dead_value),
		FLAGS_TEST(a_segment_without_owners_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
