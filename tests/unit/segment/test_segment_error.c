/* SPDX-License-Identifier: MIT */
/*
 * test_segment_error.c - percpu_error() after calls on segments that fail: each error has its own
 * sentence, a difference is shown with both values, and each thread has the last one of its own.
 * Names and texts: test_metric.c. Opening: test_error_opening.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "declared.h"
#include "support.h"

#include "segment/segment.h"
#include "../segments.h"

static struct percpu_segment *s;

static sem_t has_failed; /* posted by each thread of the test that has failed */

static int open_segment(void **state)
{
	(void)state;
	sem_init(&has_failed, 0, 0);
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
	assert_int_equal(percpu_segment_info(s, METRIC("otherwise\xff")), -EILSEQ);
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
	refused(histogram("h", &o), -EINVAL,
		"h: .min is 3, and .max is 2: a range rises, from 2^-1000 or more to 2^960 or "
		"less, and ends below 2^53 ticks");
	o = (struct percpu_histogram_options){ .size = sizeof(o), .max = 0x1p961 };
	refused(histogram("h", &o), -ERANGE,
		"h: .min is 9.5367431640625e-07, and .max is 1.94906280228e+289: a range rises, "
		"from 2^-1000 or more to 2^960 or less, and ends below 2^53 ticks");
	o = (struct percpu_histogram_options){ .size = sizeof(o), .buckets_per_octave = 12 };
	refused(histogram("h", &o), -EINVAL,
		"h: .buckets_per_octave is 12: it is 1, 2, 4, 8, 16 or 32");
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

/* Also one that is longer than a unit can be. */
static void other_units_are_told(void **state)
{
	char help[PERCPU_METRIC_HELP + 1] = "";
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "w_seconds", .help = help, .unit = "seconds"
	};
	struct percpu_extrema *x, *none = NULL;
	char *unit, sentence[400];

	(void)state;
	memset(help, '-', sizeof(help) - 1);
	snprintf(sentence, sizeof(sentence),
		 "w_seconds: unit is \"seconds%.248s\" in the segment, \"seconds\" was asked for",
		 help);
	assert_int_equal(percpu_segment_extrema(s, &m, 0, &x), 0);
	record_of("w_seconds")->unit += PERCPU_METRIC_HELP;
	record_of("w_seconds")->help = 0;
	refused(percpu_segment_extrema(s, &m, 0, &none), -EEXIST, sentence);
	record_of("w_seconds")->unit -= PERCPU_METRIC_HELP;
	record_of("w_seconds")->help = PERCPU_METRIC_HELP;
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
					  .name = "r_total",
					  .kind = PERCPU_METRIC_COUNTER };
	void *handle = NULL;

	(void)state;
	row.ret.counter = (void *)&handle;
	row.flags = 2;
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"row 0: r_total: flags 0x2 are not known of a counter");
	row.flags = 0;
	row.histogram = &options;
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"row 0: r_total: options of a histogram are not for a counter");
	row.histogram = NULL;
	row.fields = &fields;
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"row 0: r_total: fields are not for a counter");
	row.name = "r";
	row.kind = PERCPU_METRIC_OWNED_GAUGE;
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"row 0: r: fields are not for an owned gauge");
	row.fields = NULL;
	row.histogram = &options;
	row.kind = PERCPU_METRIC_OWNED_FGAUGE;
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"row 0: r: options of a histogram are not for an owned gauge of doubles");
	row.histogram = NULL;
	row.fields = &fields;
	row.name = "r_total";
	row.kind = PERCPU_METRIC_STATS;
	row.flags = 4;
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"row 0: r_total: flags 0x4 are not known of statistics");
	row = (struct percpu_declaration){ .size = sizeof(row),
					   .name = "r_info",
					   .kind = PERCPU_METRIC_INFO,
					   .ret = { .counter = (void *)&handle } };
	refused(percpu_segment_declare(s, &row, 1), -EINVAL,
		"row 0: r_info: an info has no handle");
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
	const struct percpu_metric nameless = { .size = sizeof(nameless) };
	struct percpu_counter *c = NULL;
	struct percpu_declaration rows[2] = {
		{ .size = sizeof(rows[0]),
		  .name = "t_total",
		  .kind = 1,
		  .ret = { .counter = (void *)&c } },
		{ .size = sizeof(rows[0]),
		  .name = "u_total",
		  .kind = 12,
		  .ret = { .counter = (void *)&c } },
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
	rows[1].ret.counter = NULL;
	refused(percpu_segment_declare(s, rows, 2), -EINVAL,
		"row 1: u_total: there is no place for the handle");
	rows[1].ret.counter = (void *)&c;
	rows[1].name = NULL;
	refused(percpu_segment_declare(s, rows, 2), -EINVAL, "row 1: a metric has no name");
	rows[1].name = "";
	refused(percpu_segment_declare(s, rows, 2), -EINVAL, "row 1: a metric has no name");
	assert_int_equal(percpu_segment_declare(s, NULL, 0), 0);
}

static void metrics_have_the_size_of_a_release(void **state)
{
	struct {
		struct percpu_metric m;
		uint64_t later[3];
	} newer = { .m = { .size = sizeof(newer), .name = "newer_total" } };
	struct percpu_counter *c = NULL;
	char words[80];

	(void)state;
	refused(percpu_segment_counter(s, NULL, &c), -EINVAL, "a struct percpu_metric is NULL");
	refused(percpu_segment_counter(s, METRIC("v_total"), NULL), -EINVAL,
		"v_total: there is no place for the handle");
	for (newer.m.size = 0; newer.m.size < sizeof(newer.m); newer.m.size++) {
		assert_int_equal(percpu_segment_counter(s, &newer.m, &c), -EINVAL);
		snprintf(words, sizeof(words), "a struct percpu_metric has a .size of %zu, or",
			 newer.m.size);
		assert_ptr_equal(strstr(percpu_error(), words), percpu_error());
	}
	for (; newer.m.size <= sizeof(newer); newer.m.size++)
		assert_int_equal(percpu_segment_counter(s, &newer.m, &c), 0);
	newer.m.size = sizeof(newer);
	newer.later[2] = 1;
	assert_int_equal(percpu_segment_counter(s, &newer.m, &c), -EINVAL);
	newer.m.size = sizeof(newer) - sizeof(newer.later[2]);
	assert_int_equal(percpu_segment_counter(s, &newer.m, &c), 0);
}

static size_t count_sentences(void)
{
	size_t n = 0;

	percpu_process_lock();
	for (const struct percpu_complaint *c = percpu_complaints; c != NULL; c = c->next)
		n++;
	percpu_process_unlock();
	return n;
}

/* Return whether the calling thread's sentence is the only one. */
static bool is_alone(void)
{
	return count_sentences() == 1 && percpu_complaints->why.text == percpu_error();
}

static bool is_about(const char *sentence, const char *name)
{
	return strncmp(sentence, name, strlen(name)) == 0;
}

#define THREADS 8

/* A thread that fails, and ends when it is told to. */
struct failing {
	char name[16];
	pthread_t thread;
	sem_t end;
	bool is_first;	  /* it had no sentence before */
	bool has_its_own; /* its sentence stays while others fail */
};

static void *fail_and_wait(void *arg)
{
	struct failing *f = arg;
	const char *sentence;
	bool has_failed_so;
	char bad[40];

	(void)snprintf(bad, sizeof(bad), "%s\xff", f->name);
	f->is_first = *percpu_error() == '\0';
	has_failed_so = percpu_segment_info(s, METRIC(bad)) == -EILSEQ;
	sentence = percpu_error();
	sem_post(&has_failed);
	sem_wait(&f->end);
	f->has_its_own = has_failed_so && percpu_error() == sentence && is_about(sentence, f->name);
	return NULL;
}

static void start_failing(struct failing *f, size_t i)
{
	snprintf(f->name, sizeof(f->name), "thread%zu", i);
	assert_int_equal(sem_init(&f->end, 0, 0), 0);
	assert_int_equal(pthread_create(&f->thread, NULL, fail_and_wait, f), 0);
	assert_int_equal(sem_wait(&has_failed), 0);
}

static void end_failing(struct failing *f)
{
	assert_int_equal(sem_post(&f->end), 0);
	assert_int_equal(pthread_join(f->thread, NULL), 0);
	assert_true(f->is_first);
	assert_true(f->has_its_own);
	sem_destroy(&f->end);
}

/* A sentence stays until its thread ends, in whatever order threads end. */
static void each_thread_has_a_sentence(void **state)
{
	static const size_t order[THREADS] = { 7, 0, 3, 5, 4, 1, 6, 2 };
	static struct failing threads[THREADS];

	(void)state;
	fail_otherwise();
	assert_int_equal(count_sentences(), 1);
	for (size_t i = 0; i < THREADS; i++) {
		start_failing(&threads[i], i);
		assert_int_equal(count_sentences(), i + 2);
	}
	for (size_t i = 0; i < THREADS; i++) {
		end_failing(&threads[order[i]]);
		assert_int_equal(count_sentences(), THREADS - i);
	}
	assert_non_null(strstr(percpu_error(), "otherwise"));
}

/* A thread that ends waits for the lock of the list. */
static void sentences_end_under_the_lock(void **state)
{
	static struct failing ends;
	int e;

	(void)state;
	fail_otherwise();
	start_failing(&ends, 9);
	percpu_process_lock();
	sem_post(&ends.end);
	usleep(50000);
	e = pthread_tryjoin_np(ends.thread, NULL);
	percpu_process_unlock();
	assert_int_equal(e, EBUSY);
	assert_int_equal(pthread_join(ends.thread, NULL), 0);
	assert_int_equal(count_sentences(), 1);
	sem_destroy(&ends.end);
}

/* A thread has one sentence, whichever segment it is about. It stays when the segment is closed. */
static void the_last_failure_is_told(void **state)
{
	struct percpu_segment *other;
	struct percpu_counter *c;
	const char *sentence;

	(void)state;
	assert_int_equal(percpu_segment_open(test_path("other"), ALL, NULL, &other), 0);
	assert_int_equal(percpu_segment_info(s, METRIC("first\xff")), -EILSEQ);
	sentence = percpu_error();
	assert_int_equal(percpu_segment_info(other, METRIC("second\xff")), -EILSEQ);
	assert_ptr_equal(percpu_error(), sentence);
	assert_ptr_equal(strstr(sentence, "second?: "), sentence);
	assert_int_equal(percpu_segment_counter(s, METRIC("right_total"), &c), 0);
	percpu_segment_close(other);
	assert_ptr_equal(percpu_error(), sentence);
	assert_ptr_equal(strstr(sentence, "second?: "), sentence);
	assert_int_equal(percpu_segment_info(NULL, METRIC("third")), -EINVAL);
	assert_string_equal(percpu_error(), "the segment is NULL");
}

static const char *mine; /* the sentence of the thread that forks */

static int keep_in_child(void *arg)
{
	(void)arg;
	test_child_require(percpu_error() == mine && is_about(mine, "mine?: "), "it is as it was");
	test_child_require(percpu_segment_info(s, METRIC("next\xff")) == -EILSEQ, "another one");
	test_child_require(percpu_error() == mine && is_about(mine, "next?: "), "in its place");
	test_child_require(is_alone(), "those of other threads are dropped");
	return 0;
}

static int begin_in_child(void *arg)
{
	(void)arg;
	test_child_require(*percpu_error() == '\0', "there is none");
	test_child_require(percpu_segment_info(s, METRIC("first\xff")) == -EILSEQ, "the first one");
	test_child_require(is_about(percpu_error(), "first?: "), "its own");
	test_child_require(is_alone(), "those of other threads are dropped");
	return 0;
}

/* Run the function in a child. Returns its status, also in a thread, which cannot assert. */
static int status_of_child(int (*fn)(void *), void *arg)
{
	const pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(fn(arg));
	return waitpid(child, &status, 0) == child ? status : -1;
}

/* Run as a thread that has not failed. */
static void *fork_without_sentence(void *status)
{
	*(int *)status = status_of_child(begin_in_child, NULL);
	return NULL;
}

/* In a child, the thread that forked has its sentence, and no other thread has one. */
static void forks_keep_the_sentence_of_their_thread(void **state)
{
	static struct failing before, after;
	int status = -1;
	pthread_t t;

	(void)state;
	start_failing(&before, 1);
	assert_int_equal(percpu_segment_info(s, METRIC("mine\xff")), -EILSEQ);
	mine = percpu_error();
	start_failing(&after, 2);
	test_in_child(keep_in_child, NULL);
	assert_int_equal(pthread_create(&t, NULL, fork_without_sentence, &status), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(status, 0);
	assert_int_equal(count_sentences(), 3);
	end_failing(&before);
	end_failing(&after);
	assert_true(percpu_error() == mine && is_about(mine, "mine?: "));
}

static int keep_in_grandchild(void *arg)
{
	test_child_require(percpu_error() == arg, "it is there");
	test_child_require(is_about(arg, "second?: "), "that of the thread that forked");
	test_child_require(percpu_segment_info(s, METRIC("third\xff")) == -EILSEQ, "a third one");
	test_child_require(percpu_error() == arg && is_about(arg, "third?: "), "in its place");
	test_child_require(is_alone(), "that of the child's first thread is dropped");
	return 0;
}

/* Run as a thread of the child. Fail, and fork. */
static void *fork_again(void *arg)
{
	(void)arg;
	test_child_require(percpu_segment_info(s, METRIC("second\xff")) == -EILSEQ, "a second one");
	test_child_require(count_sentences() == 2, "and that of the thread that forked first");
	test_child_require(percpu_segment_info(s, METRIC("second\xff")) == -EILSEQ, "once more");
	test_child_require(count_sentences() == 2, "both are still there");
	test_child_require(status_of_child(keep_in_grandchild, (void *)percpu_error()) == 0,
			   "a grandchild");
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

/* Run as a thread of the child, when the thread that forked has ended. */
static void *fail_after_the_forker(void *forker)
{
	test_child_require(pthread_join(*(pthread_t *)forker, NULL) == 0, "it has ended");
	test_child_require(count_sentences() == 1, "only that of the parent's thread is left");
	test_child_require(percpu_segment_info(s, METRIC("late\xff")) == -EILSEQ, "a failure");
	test_child_require(is_about(percpu_error(), "late?: "), "its own");
	test_child_require(is_alone(), "that of the parent's thread is dropped");
	_exit(0);
}

static pthread_t forker;

/* Run in a child of the forker, as its thread, which ends and leaves the child to another one. */
static int leave_it_to_another(void *arg)
{
	pthread_t t;

	(void)arg;
	forker = pthread_self();
	test_child_require(pthread_create(&t, NULL, fail_after_the_forker, &forker) == 0, "one");
	pthread_exit(NULL);
}

static void *fail_and_fork(void *status)
{
	if (percpu_segment_info(s, METRIC("forker\xff")) == -EILSEQ)
		*(int *)status = status_of_child(leave_it_to_another, NULL);
	return NULL;
}

static void the_thread_that_forked_may_end(void **state)
{
	int status = -1;
	pthread_t t;

	(void)state;
	if (test_thread_sanitizer())
		test_skip("the sanitizer starts no thread in a child of a process with several");
	fail_otherwise();
	assert_int_equal(pthread_create(&t, NULL, fail_and_fork, &status), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(status, 0);
	assert_int_equal(count_sentences(), 1);
}

static int have_the_same(void *sentence)
{
	test_child_require(percpu_error() == sentence, "the sentence of the thread that forked");
	return 0;
}

/* A child by vfork() uses the thread of its parent, and so its sentence. */
static void vfork_leaves_one_sentence(void **state)
{
	const char *sentence;
	int status = -1;
	pid_t child;

	(void)state;
	fail_otherwise();
	sentence = percpu_error();
	child = vfork();
	if (child == 0)
		_exit(percpu_segment_info(s, METRIC("child\xff")) != -EILSEQ);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_ptr_equal(percpu_error(), sentence);
	assert_int_equal(count_sentences(), 1);
	test_in_child(have_the_same, (void *)sentence);
}

/* Texts of a file or of the program may have any bytes. What is printed is one line of UTF-8. */
static void sentences_can_be_printed(void **state)
{
	static const char *const texts[][2] = {
		{ "\t\x1b[1m\x7f", "??[1m?" },
		{ "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80",
		  "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80" },
		{ "a\xc2\x80\xc2\x9f\xc2\xa0", "a????\xc2\xa0" },
		{ "\xff\xfe", "??" },
		{ "\xe2\x82", "??" },
		{ "\xc3(", "?(" },
		{ "\xbc", "?" },
	};
	struct percpu_reason why;
	char text[1100];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(percpu_reason_set(&why, -EINVAL, "%s", texts[i][0]), -EINVAL);
		assert_string_equal(why.text, texts[i][1]);
	}
	memset(text, 'x', sizeof(text));
	text[1023] = '\0';
	(void)percpu_reason_set(&why, 0, "%s", text);
	assert_string_equal(why.text, text); /* it just fits */
	memcpy(text + 1018, "\xe2\x82\xac\xe2\x82\xac", 7);
	(void)percpu_reason_set(&why, 0, "%s", text);
	assert_int_equal(strlen(why.text), 1023);
	assert_string_equal(why.text + 1017, "x??...");
}

int main(void)
{
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
		cmocka_unit_test(each_thread_has_a_sentence),
		cmocka_unit_test(sentences_end_under_the_lock),
		cmocka_unit_test(the_last_failure_is_told),
		cmocka_unit_test(forks_keep_the_sentence_of_their_thread),
		cmocka_unit_test(each_fork_keeps_the_sentence_of_its_thread),
		cmocka_unit_test(the_thread_that_forked_may_end),
		cmocka_unit_test(vfork_leaves_one_sentence),
		cmocka_unit_test(sentences_can_be_printed),
	};

	return cmocka_run_group_tests(tests, open_segment, close_segment);
}
