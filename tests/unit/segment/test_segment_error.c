/* SPDX-License-Identifier: MIT */
/*
 * test_segment_error.c - percpu_error() after calls on segments that fail: each error has its own
 * sentence, a difference is shown with both values, and each thread has the last one of its own.
 * Names and texts: test_metric.c. Opening: test_error_opening.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"
#include "syscalls.h"

#include "segment/segment.h"
#include "../segments.h"

static struct percpu_segment *s;

static long thread_id; /* the id of every thread; 0: its own; -1: gettid() fails */

/* The test's threads have the ids from this one on. */
#define FIRST_ID 1000000001

static long first_alive; /* threads from this id on live; -1: the kernel refuses to answer */
static unsigned asked,	 /* how often the kernel was asked whether a thread lives */
	asked_elsewhere; /* how often about a thread of another process */

static long ask_for_thread(long process, long thread)
{
	asked++;
	asked_elsewhere += process != (long)getpid();
	errno = first_alive == -1 ? EPERM : ESRCH;
	return first_alive != -1 && thread >= first_alive ? 0 : -1;
}

bool syscall_is_answered(long number, const long a[6], long *ret)
{
	if (number == SYS_gettid && thread_id != 0) {
		if (thread_id == -1)
			errno = EPERM;
		*ret = thread_id;
		return true;
	}
	if (number != SYS_tgkill || a[1] < FIRST_ID)
		return false;
	*ret = ask_for_thread(a[0], a[1]);
	return true;
}

/* What getpid() returns; 0: the real id. */
static pid_t process_id;

pid_t __real_getpid(void);
pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
	return process_id != 0 ? process_id : __real_getpid();
}

static int open_segment(void **state)
{
	(void)state;
	return percpu_segment_open(test_path("error"), ALL, NULL, &s);
}

static int close_segment(void **state)
{
	percpu_segment_close(s);
	return test_remove_paths(state);
}

/* Fail with another sentence, which the next call must not keep. */
static void fail_otherwise(void)
{
	assert_int_equal(percpu_segment_info(s, METRIC("otherwise")), -EINVAL);
}

/* Assert that the call failed so, and that this is the sentence. */
static void refused(int got, int expected, const char *sentence)
{
	assert_int_equal(got, expected);
	assert_string_equal(percpu_error(), sentence);
	fail_otherwise();
}

/* Whether this CPU seems to have no instruction for pairs. */
static bool no_pairs;

unsigned __real_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void)
{
	return no_pairs ? 0 : __real_percpu_pair_ways();
}

/* Declare a gauge on such a CPU. Runs in a child before the first gauge, as a process asks the
 * CPU once. */
static int declare_gauge(void *arg)
{
	struct percpu_gauge *gauge = NULL;

	(void)arg;
	no_pairs = true;
	test_child_require(percpu_segment_gauge(s, METRIC("gauge"), &gauge) == -ENOTSUP, "a gauge");
	test_child_require(gauge == NULL, "none");
	test_child_require(strcmp(percpu_error(),
				  "gauge: this process cannot have such a metric in a file") == 0,
			   "words");
	return 0;
}

static void gauges_may_be_impossible(void **state)
{
	(void)state;
	test_in_child(declare_gauge, NULL);
}

static int histogram(const char *name, const struct percpu_histogram_options *o)
{
	struct percpu_histogram *h = NULL;
	int e = percpu_segment_histogram(s, METRIC(name), o, &h);

	assert_true((e == 0) == (h != NULL));
	return e;
}

static void histograms_are_told_apart(void **state)
{
	struct percpu_histogram_options o = { .size = sizeof(o) };

	(void)state;
	fail_otherwise();
	assert_int_equal(histogram("f", NULL), 0);
	assert_int_equal(histogram("f", &o), 0);
	o.buckets_per_octave = 32;
	refused(histogram("f", &o), -EEXIST,
		"f: is a histogram of doubles from 2^-20 to 2^10 in 8 buckets per octave in the "
		"segment, a histogram of doubles from 2^-20 to 2^10 in 32 buckets per octave was "
		"asked for");
	o = (struct percpu_histogram_options){ .size = sizeof(o), .min = 1, .max = 3 };
	refused(histogram("f", &o), -EEXIST,
		"f: is a histogram of doubles from 2^-20 to 2^10 in 8 buckets per octave in the "
		"segment, a histogram of doubles from 2^0 to 2^2 in 8 buckets per octave was asked "
		"for");
	o = (struct percpu_histogram_options){ .size = sizeof(o), .ticks_per_unit = 1000 };
	refused(histogram("f", &o), -EEXIST,
		"f: is a histogram of doubles from 2^-20 to 2^10 in 8 buckets per octave in the "
		"segment, a histogram of 1000 ticks per unit from 2^-20 to 2^10 in 8 buckets per "
		"octave was asked for");
}

static void options_of_histograms_are_checked(void **state)
{
	struct percpu_histogram_options o = { .size = sizeof(o), .min = 3, .max = 2 };

	(void)state;
	refused(histogram("h", &o), -EINVAL, "h: its options are none of a histogram");
	o.min = 0x1p-1010;
	refused(histogram("h", &o), -ERANGE, "h: its options are none of a histogram");
	o = (struct percpu_histogram_options){ .size = sizeof(o), .n = 2 };
	refused(histogram("h", &o), -EINVAL, "h: a metric is one histogram, not 2");
	o.n = 1;
	assert_int_equal(histogram("h", &o), 0);
}

static void extrema_are_told_apart(void **state)
{
	struct percpu_extrema *x, *none = NULL;

	(void)state;
	assert_int_equal(percpu_segment_extrema(s, METRIC("g"), 0, &x), 0);
	refused(percpu_segment_extrema(s, METRIC("g"), PERCPU_EXTREMA_DOUBLE, &none), -EEXIST,
		"g: is extrema of integers in the segment, extrema of doubles was asked for");
	assert_int_equal(percpu_segment_extrema(s, METRIC("i"), PERCPU_EXTREMA_DOUBLE, &x), 0);
	refused(percpu_segment_extrema(s, METRIC("i"), 0, &none), -EEXIST,
		"i: is extrema of doubles in the segment, extrema of integers was asked for");
	refused(percpu_segment_extrema(s, METRIC("j"), 9, &none), -EINVAL,
		"j: flags 0x8 are not known of extrema");
	assert_null(none);
}

static void rules_are_told_apart(void **state)
{
	struct percpu_owned_fgauge *fgauge, *no_fgauge = NULL;
	struct percpu_owned_gauge *gauge, *no_gauge = NULL;

	(void)state;
	refused(percpu_segment_owned_gauge(s, METRIC("o"), (enum percpu_owned_rule)4, &no_gauge),
		-EINVAL, "o: 4 is no rule of an owned gauge");
	if (!percpu_pair_is_atomic())
		test_skip("there are no owned gauges here");
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("o"), PERCPU_OWNED_SUM, &gauge), 0);
	refused(percpu_segment_owned_gauge(s, METRIC("o"), PERCPU_OWNED_MAX, &no_gauge), -EEXIST,
		"o: is an owned gauge that is the sum in the segment, an owned gauge that is the "
		"greatest value was asked for");
	assert_int_equal(percpu_segment_owned_fgauge(s, METRIC("q"), PERCPU_OWNED_RECENT, &fgauge),
			 0);
	refused(percpu_segment_owned_fgauge(s, METRIC("q"), PERCPU_OWNED_MIN, &no_fgauge), -EEXIST,
		"q: is an owned gauge that is the most recent value in the segment, an owned gauge "
		"that is the least value was asked for");
	assert_null(no_gauge);
	assert_null(no_fgauge);
}

static struct percpu_segment_record *record_of(const char *name)
{
	struct percpu_segment_record *r;

	for (uint64_t at = 0;; at += r->size) {
		r = percpu_directory_at(s, at);
		if (r->name == strlen(name) && memcmp(r + 1, name, r->name) == 0)
			return r;
	}
}

/* The record's key leads to another object. */
static void other_objects_are_damage(void **state)
{
	const struct percpu_histogram_options two = { .size = sizeof(two), .n = 2 };
	struct percpu_segment_record *r;
	struct percpu_histogram *h;
	struct percpu_counter *c;
	uint64_t there;

	(void)state;
	assert_int_equal(histogram("first", NULL), 0);
	r = record_of("first");
	assert_int_equal(percpu_segment_counter(s, METRIC("first_total"), &c), 0);
	there = r->key;
	r->key = percpu_counter_key(c);
	refused(histogram("first", NULL), -EEXIST,
		"first: what it was created with differs from what was asked for");
	assert_int_equal(percpu_histogram_create_in(s->region, &two, &h), 0);
	r->key = percpu_histogram_key(h); /* the same but for their number */
	refused(histogram("first", NULL), -EEXIST,
		"first: what it was created with differs from what was asked for");
	r->key = there;
	assert_int_equal(histogram("first", NULL), 0);
	percpu_histogram_destroy(h);
}

static void other_objects_are_no_gauges(void **state)
{
	struct percpu_owned_fgauge *fgauge, *none = NULL;
	struct percpu_segment_record *r;
	uint64_t there;

	(void)state;
	if (!percpu_pair_is_atomic())
		test_skip("there are no owned gauges here");
	assert_int_equal(percpu_segment_owned_fgauge(s, METRIC("owned"), PERCPU_OWNED_SUM, &fgauge),
			 0);
	r = record_of("owned");
	there = r->key;
	r->key = s->control_key;
	refused(percpu_segment_owned_fgauge(s, METRIC("owned"), PERCPU_OWNED_SUM, &none), -EEXIST,
		"owned: what it was created with differs from what was asked for");
	assert_null(none);
	r->key = there;
}

/* A name ends in its unit, so only a damaged record has another one. */
static void other_units_are_told(void **state)
{
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "w_seconds",
					 .unit = "seconds" };
	struct percpu_extrema *x, *none = NULL;
	char *unit;

	(void)state;
	assert_int_equal(percpu_segment_extrema(s, &m, 0, &x), 0);
	unit = (char *)(record_of("w_seconds") + 1) + strlen(m.name);
	unit[0] = 'd';
	unit[1] = 1; /* must not reach a terminal */
	refused(percpu_segment_extrema(s, &m, 0, &none), -EEXIST,
		"w_seconds: unit is \"d?conds\" in the segment, \"seconds\" was asked for");
	assert_null(none);
	unit[0] = 's';
	unit[1] = 'e';
	assert_int_equal(percpu_segment_extrema(s, &m, 0, &none), 0);
}

static void rows_have_what_their_kind_has(void **state)
{
	const struct percpu_histogram_options options = { .size = sizeof(options) };
	const char *const name = "x";
	const struct percpu_metric_fields fields = { sizeof(fields), "l", &name, 1 };
	struct percpu_declaration row = { .size = sizeof(row),
					  .metric = METRIC("r_total"),
					  .kind = PERCPU_METRIC_COUNTER };
	void *handle = NULL;

	(void)state;
	row.ret = &handle;
	row.flags = 2;
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"r_total: flags 0x2 are not known of a counter");
	row.flags = 0;
	row.histogram = &options;
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"r_total: options of a histogram are not for a counter");
	row.histogram = NULL;
	row.fields = &fields;
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"r_total: fields are not for a counter");
	row.metric = METRIC("r");
	row.kind = PERCPU_METRIC_OWNED_GAUGE;
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"r: fields are not for an owned gauge");
	row.fields = NULL;
	row.histogram = &options;
	row.kind = PERCPU_METRIC_OWNED_FGAUGE;
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"r: options of a histogram are not for an owned gauge of doubles");
	row.histogram = NULL;
	row.fields = &fields;
	row.metric = METRIC("r_total");
	row.kind = PERCPU_METRIC_STATS;
	row.flags = 4;
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"r_total: flags 0x4 are not known of statistics");
	row = (struct percpu_declaration){ .size = sizeof(row),
					   .metric = METRIC("r_info"),
					   .kind = PERCPU_METRIC_INFO,
					   .ret = &handle };
	refused(percpu_segment_declare(s, &row, 1), -EINVAL, "r_info: an info has no handle");
	assert_null(handle);
}

/* Bytes of UTF-8 are printed as they are, and control characters as question marks. */
static void sentences_are_in_utf_8(void **state)
{
	static const char *const twice[] = { "gr\xc3\xb6\xc3\x9f"
					     "e\t\x1f \x7f~",
					     "gr\xc3\xb6\xc3\x9f"
					     "e\t\x1f \x7f~" };
	const struct percpu_metric_fields wrong = { sizeof(wrong), "l", twice, 2 };
	static const char *const names[] = { "\xe2\x82\xac" }, *const others[] = {
		"\xf0\x9f\x90\x98"
	};
	const struct percpu_metric_fields fields = { sizeof(fields), "l", names, 1 };
	const struct percpu_metric_fields other = { sizeof(other), "l", others, 1 };
	struct percpu_stats *stats = NULL, *none = NULL;

	(void)state;
	refused(percpu_segment_stats(s, METRIC("s_total"), &wrong, 0, &none), -EINVAL,
		"s_total: two fields are named \"gr\xc3\xb6\xc3\x9f"
		"e?? ?~\"");
	assert_int_equal(percpu_segment_stats(s, METRIC("s_total"), &fields, 0, &stats), 0);
	assert_int_equal(percpu_segment_stats(s, METRIC("s_total"), &other, 0, &none), -EEXIST);
	assert_non_null(strstr(percpu_error(), names[0]));
	assert_non_null(strstr(percpu_error(), others[0]));
	assert_null(none);
}

static void tables_are_checked(void **state)
{
	struct percpu_counter *c = NULL;
	struct percpu_declaration rows[2] = {
		{ .size = sizeof(rows[0]), .metric = METRIC("t_total"), .kind = 1, .ret = &c },
		{ .size = sizeof(rows[0]), .metric = METRIC("u_total"), .kind = 12, .ret = &c },
	};

	(void)state;
	refused(percpu_segment_declare(s, NULL, 1), -EINVAL, "the table is NULL");
	rows[0].kind = 0;
	rows[1].kind = 1;
	refused(percpu_segment_declare(s, rows, 2), -EINVAL, "row 0: 0 is no kind of a metric");
	assert_null(c); /* no row after it is declared */
	rows[0].kind = 1;
	rows[1].kind = 12;
	refused(percpu_segment_declare(s, rows, 2), -EINVAL, "row 1: 12 is no kind of a metric");
	rows[1].kind = 0;
	refused(percpu_segment_declare(s, rows, 2), -EINVAL, "row 1: 0 is no kind of a metric");
	rows[1].kind = 1;
	rows[1].size = sizeof(rows[0]) - sizeof(void *);
	refused(percpu_segment_declare(s, rows, 2), -EINVAL,
		"row 1: a struct percpu_declaration has another size, or fields that are not "
		"known");
	rows[1].size = sizeof(rows[0]);
	rows[1].ret = NULL;
	refused(percpu_segment_declare(s, rows, 2), -EINVAL,
		"u_total: there is no place for the handle");
	rows[1].ret = &c;
	rows[1].metric = NULL;
	refused(percpu_segment_declare(s, rows, 2), -EINVAL, "a metric is NULL");
	assert_int_equal(percpu_segment_declare(s, NULL, 0), 0);
}

static void metrics_have_the_size_of_a_release(void **state)
{
	struct {
		struct percpu_metric m;
		uint64_t later[3];
	} newer = { .m = { .size = sizeof(newer), .name = "newer_total" } };
	struct percpu_counter *c = NULL;

	(void)state;
	refused(percpu_segment_counter(s, NULL, &c), -EINVAL, "a metric is NULL");
	refused(percpu_segment_counter(s, METRIC("v_total"), NULL), -EINVAL,
		"v_total: there is no place for the handle");
	for (newer.m.size = 0; newer.m.size < sizeof(newer.m); newer.m.size++) {
		assert_int_equal(percpu_segment_counter(s, &newer.m, &c), -EINVAL);
		assert_non_null(strstr(percpu_error(), "a struct percpu_metric has a size of"));
	}
	for (; newer.m.size <= sizeof(newer); newer.m.size++)
		assert_int_equal(percpu_segment_counter(s, &newer.m, &c), 0);
	newer.m.size = sizeof(newer);
	newer.later[2] = 1;
	assert_int_equal(percpu_segment_counter(s, &newer.m, &c), -EINVAL);
	newer.m.size = sizeof(newer) - sizeof(newer.later[2]);
	assert_int_equal(percpu_segment_counter(s, &newer.m, &c), 0);
}

/* Run as a thread: fail if told to. Returns whether there was a sentence before, or NULL if the
 * failure left none. The thread has a number, as if a call of it had failed on another segment. */
static void *look(void *fails)
{
	const char *before;
	bool said;

	percpu_process_lock();
	(void)percpu_thread_number(true);
	percpu_process_unlock();
	before = percpu_error();
	said = *before != '\0';
	if (fails != NULL && percpu_segment_info(s, METRIC("otherwise")) != -EINVAL)
		return NULL;
	return fails != NULL && *percpu_error() == '\0' ? NULL : (void *)(said ? "said" : "");
}

static const char *run_thread(bool fails)
{
	void *said;
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, look, fails ? &t : NULL), 0);
	assert_int_equal(pthread_join(t, &said), 0);
	return said;
}

/* A new thread with the id of one that has ended does not get its sentence. */
static void threads_with_the_id_of_another_begin_anew(void **state)
{
	(void)state;
	thread_id = 1000000001;
	for (unsigned i = 0; i < 4; i++)
		assert_string_equal(run_thread(i != 2), "");
	thread_id = 0;
	assert_string_not_equal(percpu_error(), "");
}

/* Fail as n threads, one after the other. Assert that each has its own sentence. */
static void fail_as_threads(long from, long n)
{
	char name[32], sentence[64];

	for (thread_id = from; thread_id < from + n; thread_id++) {
		snprintf(name, sizeof(name), "thread%ld", thread_id);
		snprintf(sentence, sizeof(sentence), "%s: ", name);
		assert_string_equal(percpu_error(), "");
		assert_int_equal(percpu_segment_info(s, METRIC(name)), -EINVAL);
		assert_ptr_equal(strstr(percpu_error(), sentence), percpu_error());
	}
	thread_id = 0;
}

static void their_sentences_are_there(long from, long n)
{
	char name[32];

	for (thread_id = from; thread_id < from + n; thread_id++) {
		snprintf(name, sizeof(name), "thread%ld: ", thread_id);
		assert_ptr_equal(strstr(percpu_error(), name), percpu_error());
	}
	thread_id = 0;
}

/* Have a sentence of the real thread, and of one that the kernel does not have. All others go. */
static int begin_anew(void **state)
{
	(void)state;
	first_alive = LONG_MAX;
	fail_otherwise();
	percpu_complaints.most = 0;
	thread_id = FIRST_ID - 1;
	fail_otherwise();
	thread_id = 0;
	asked = asked_elsewhere = 0;
	first_alive = 0;
	return 0;
}

static void sentences_of_threads_that_have_ended_go(void **state)
{
	const char *mine;

	(void)state;
	fail_otherwise();
	mine = percpu_error();
	first_alive = LONG_MAX;
	fail_as_threads(FIRST_ID, 10000);
	assert_true(percpu_complaints.n <= 10);
	assert_true(asked <= 20000);
	assert_ptr_equal(percpu_error(), mine);
	assert_non_null(strstr(mine, "otherwise"));
}

/* Each live thread keeps its sentence, and an error asks the kernel about few threads. */
static void sentences_of_threads_that_live_stay(void **state)
{
	(void)state;
	fail_as_threads(FIRST_ID, 1000);
	assert_int_equal(percpu_complaints.n, 1001);
	assert_true(asked <= 2000);
	their_sentences_are_there(FIRST_ID, 1000);
	first_alive = FIRST_ID + 990; /* ten of them live */
	fail_as_threads(FIRST_ID + 1000, 2000);
	their_sentences_are_there(FIRST_ID + 990, 2010);
	first_alive = FIRST_ID + 2990;
	fail_as_threads(FIRST_ID + 3000, 3030);
	assert_true(percpu_complaints.n <= 2 * 3041 + 8);
	assert_true(asked <= 2 * 6030);
	first_alive = FIRST_ID + 6020;
	fail_as_threads(FIRST_ID + 6030, 3100);
	assert_true(percpu_complaints.n <= 2 * 3111 + 8);
	their_sentences_are_there(FIRST_ID + 6020, 3110);
}

/* Sentences stay if a filter keeps the kernel from answering. */
static void sentences_stay_where_nobody_can_tell(void **state)
{
	(void)state;
	first_alive = -1;
	fail_as_threads(FIRST_ID, 100);
	assert_int_equal(percpu_complaints.n, 101);
	their_sentences_are_there(FIRST_ID, 100);
}

/* A thread has one sentence, whichever segment it is about. It stays when the segment is closed. */
static void the_last_failure_is_told(void **state)
{
	struct percpu_segment *other;
	struct percpu_counter *c;
	const char *sentence;

	(void)state;
	assert_int_equal(percpu_segment_open(test_path("other"), ALL, NULL, &other), 0);
	assert_int_equal(percpu_segment_info(s, METRIC("first")), -EINVAL);
	sentence = percpu_error();
	assert_int_equal(percpu_segment_info(other, METRIC("second")), -EINVAL);
	assert_ptr_equal(percpu_error(), sentence);
	assert_ptr_equal(strstr(sentence, "second: "), sentence);
	assert_int_equal(percpu_segment_counter(s, METRIC("right_total"), &c), 0);
	percpu_segment_close(other);
	assert_ptr_equal(percpu_error(), sentence);
	assert_ptr_equal(strstr(sentence, "second: "), sentence);
	assert_int_equal(percpu_segment_info(NULL, METRIC("third")), -EINVAL);
	assert_string_equal(percpu_error(), "the segment is NULL");
}

/* A child may share the memory of its parent, as after vfork(). The parent's threads are not its
 * own. */
static void threads_are_those_of_their_process(void **state)
{
	(void)state;
	fail_as_threads(FIRST_ID, 8);
	assert_int_equal(asked_elsewhere, 0);
	process_id = getpid() + 1;
	asked_elsewhere = 0;
	fail_as_threads(FIRST_ID + 8, 8);
	assert_true(asked_elsewhere >= 8);
	their_sentences_are_there(FIRST_ID, 16);
	/* A thread of the child gets the sentence of the parent's thread with its id. */
	thread_id = FIRST_ID;
	fail_otherwise();
	asked = asked_elsewhere = 0;
	fail_as_threads(FIRST_ID + 16, 20);
	process_id = 0;
	assert_true(asked >= 16 && asked_elsewhere < asked);
	assert_int_equal(asked_elsewhere % 7, 0); /* 7 of the parent's 8: the child has taken one */
}

/* If a filter hides their ids, threads have no sentence, rather than one for all. */
static void threads_without_an_id_are_told_nothing(void **state)
{
	(void)state;
	assert_int_equal(percpu_segment_info(s, METRIC("mine")), -EINVAL);
	thread_id = -1;
	assert_string_equal(run_thread(false), "");
	assert_int_equal(percpu_segment_info(s, METRIC("otherwise")), -EINVAL);
	assert_string_equal(percpu_error(), "");
	assert_int_equal(percpu_complaints.n, 2);
	thread_id = 0;
	assert_ptr_equal(strstr(percpu_error(), "mine: "), percpu_error());
	fail_otherwise();
	assert_non_null(strstr(percpu_error(), "otherwise"));
}

/* The sentence of the thread that forks. */
static const char *kept;

static void *fail_for_child(void *arg)
{
	(void)arg;
	fail_otherwise();
	return NULL;
}

static void let_threads_fail(unsigned n)
{
	pthread_t t;

	for (unsigned i = 0; i < n; i++)
		if (pthread_create(&t, NULL, fail_for_child, NULL) == 0)
			pthread_join(t, NULL);
}

static bool is_about(const char *sentence, const char *name)
{
	return strncmp(sentence, name, strlen(name)) == 0;
}

static int keep_in_child(void *arg)
{
	(void)arg;
	first_alive = FIRST_ID + 1; /* the thread that has forked is gone, all others live */
	let_threads_fail(60);
	test_child_require(percpu_error() == kept, "it is there");
	test_child_require(is_about(kept, "mine: "), "as it was");
	test_child_require(percpu_complaints.n <= 20, "those of others are dropped");
	test_child_require(percpu_segment_info(s, METRIC("next")) == -EINVAL, "another one");
	test_child_require(percpu_error() == kept && is_about(kept, "next: "), "in its place");
	let_threads_fail(60);
	test_child_require(is_about(percpu_error(), "next: "), "as any other one");
	test_child_require(percpu_complaints.n <= 20, "those of this process are dropped");
	return 0;
}

/* In a child, the thread that forked has its sentence, and no other thread has one. */
static void who_forks_keeps_its_sentence(void **state)
{
	(void)state;
	thread_id = FIRST_ID;
	assert_int_equal(percpu_segment_info(s, METRIC("mine")), -EINVAL);
	kept = percpu_error();
	first_alive = FIRST_ID;
	for (thread_id = FIRST_ID + 1; thread_id < FIRST_ID + 41; thread_id++)
		let_threads_fail(1);
	thread_id = 0;
	test_in_child(keep_in_child, NULL);
	assert_true(percpu_complaints.n > 20);
}

static int keep_in_grandchild(void *arg)
{
	test_child_require(is_about(percpu_error(), "second: "), "that of the thread that forked");
	let_threads_fail(60);
	test_child_require(percpu_error() == arg, "it is there");
	test_child_require(is_about(arg, "second: "), "as it was");
	return 0;
}

/* Run as a thread of the child. Fail, and fork. */
static void *fork_again(void *arg)
{
	int status = -1;
	pid_t child;

	(void)arg;
	test_child_require(percpu_segment_info(s, METRIC("second")) == -EINVAL, "a second one");
	child = fork();
	if (child == 0)
		_exit(keep_in_grandchild((void *)percpu_error()));
	test_child_require(waitpid(child, &status, 0) == child && status == 0, "a grandchild");
	return NULL;
}

static int fork_in_child(void *arg)
{
	pthread_t t;

	(void)arg;
	test_child_require(pthread_create(&t, NULL, fork_again, NULL) == 0, "a thread");
	test_child_require(pthread_join(t, NULL) == 0, "joined");
	return 0;
}

/* In a grandchild, another thread is the one that forked. */
static void each_fork_keeps_the_sentence_of_its_thread(void **state)
{
	(void)state;
	if (test_thread_sanitizer())
		test_skip("the sanitizer starts no thread in a child of a process with several");
	fail_otherwise();
	test_in_child(fork_in_child, NULL);
}

static void *fail_and_end(void *ret)
{
	*(long *)ret = syscall(SYS_gettid);
	fail_otherwise();
	return NULL;
}

/* After a thread was joined, the kernel may need a moment to forget it. */
static void real_threads_that_have_ended_are_forgotten(void **state)
{
	pthread_t t;
	long id;

	(void)state;
	fail_otherwise();
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(pthread_create(&t, NULL, fail_and_end, &id), 0);
		assert_int_equal(pthread_join(t, NULL), 0);
		while (syscall(SYS_tgkill, getpid(), id, 0) == 0)
			sched_yield();
	}
	assert_true(percpu_complaints.n <= 10);
	assert_non_null(strstr(percpu_error(), "otherwise"));
}

int main(void)
{
#define ANOTHER(f) cmocka_unit_test_setup(f, begin_anew)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gauges_may_be_impossible),
		cmocka_unit_test(histograms_are_told_apart),
		cmocka_unit_test(options_of_histograms_are_checked),
		cmocka_unit_test(extrema_are_told_apart),
		cmocka_unit_test(rules_are_told_apart),
		cmocka_unit_test(other_objects_are_damage),
		cmocka_unit_test(other_objects_are_no_gauges),
		cmocka_unit_test(other_units_are_told),
		cmocka_unit_test(rows_have_what_their_kind_has),
		cmocka_unit_test(sentences_are_in_utf_8),
		cmocka_unit_test(tables_are_checked),
		cmocka_unit_test(metrics_have_the_size_of_a_release),
		cmocka_unit_test(threads_with_the_id_of_another_begin_anew),
		ANOTHER(sentences_of_threads_that_have_ended_go),
		ANOTHER(sentences_of_threads_that_live_stay),
		ANOTHER(sentences_stay_where_nobody_can_tell),
		cmocka_unit_test(the_last_failure_is_told),
		ANOTHER(threads_are_those_of_their_process),
		ANOTHER(threads_without_an_id_are_told_nothing),
		ANOTHER(who_forks_keeps_its_sentence),
		ANOTHER(each_fork_keeps_the_sentence_of_its_thread),
		ANOTHER(real_threads_that_have_ended_are_forgotten),
	};

	return cmocka_run_group_tests(tests, open_segment, close_segment);
}
