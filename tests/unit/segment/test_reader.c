/* SPDX-License-Identifier: MIT */
/*
 * test_reader.c - what readers see of segments: each kind's value, texts, times and the order of
 * series. Changes of the file: test_reader_file.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "declared.h"
#include "support.h"
#include "reader_calls.h"

#include "segment/reader.h"

/* Return the index of the only series of that name. */
static size_t find(const char *name)
{
	size_t found = SIZE_MAX;

	for (size_t i = 0; i < percpu_reader_count(r); i++)
		if (strcmp(series_of(i).name, name) == 0) {
			assert_true(found == SIZE_MAX);
			found = i;
		}
	assert_true(found != SIZE_MAX);
	return found;
}

/* Return the index of the only series of that name and label value. */
static size_t find_one(const char *name, const char *value)
{
	size_t found = SIZE_MAX;

	for (size_t i = 0; i < percpu_reader_count(r); i++)
		if (strcmp(series_of(i).name, name) == 0 &&
		    strcmp(series_of(i).label_values[0], value) == 0)
			found = i;
	assert_true(found != SIZE_MAX);
	return found;
}

static double number_of(const char *name)
{
	double v = 0;

	assert_int_equal(percpu_reader_number(r, find(name), &v), 0);
	return v;
}

static void counters_and_levels_are_read(void **state)
{
	struct percpu_fcounter *fcounter;
	struct percpu_fgauge *fgauge;
	struct percpu_gauge *gauge;
	int64_t level = 0;
	uint64_t count = 0;

	(void)state;
	percpu_counter_add(counter("a_total"), UINT64_C(1) << 60);
	percpu_counter_add(counter("a_total"), 1);
	assert_int_equal(percpu_segment_fcounter(s, METRIC("b_total"), &fcounter), 0);
	assert_int_equal(percpu_fcounter_add(fcounter, 0.25), 0);
	assert_int_equal(look(), 2);
	assert_int_equal(percpu_reader_counter(r, find("a_total"), &count), 0);
	assert_true(count == (UINT64_C(1) << 60) + 1);
	assert_true(number_of("a_total") == 0x1p60);
	assert_true(number_of("b_total") == 0.25);
	forget();
	percpu_counter_zero(counter("a_total"));
	percpu_counter_add(counter("a_total"), 5);
	percpu_fcounter_zero(fcounter);
	assert_int_equal(look(), 2);
	assert_true(number_of("a_total") == 5);
	assert_true(number_of("b_total") == 0);
	if (!WIDE)
		return;
	assert_int_equal(percpu_segment_gauge(s, METRIC("c"), &gauge), 0);
	assert_int_equal(percpu_gauge_set(gauge, 3), 0);
	percpu_gauge_add(gauge, -7);
	assert_int_equal(percpu_segment_fgauge(s, METRIC("d"), &fgauge), 0);
	assert_int_equal(percpu_fgauge_set(fgauge, 0.1), 0);
	assert_int_equal(look(), 4);
	assert_int_equal(percpu_reader_gauge(r, find("c"), &level), 0);
	assert_int_equal(level, -4);
	assert_true(number_of("c") == -4);
	assert_true(number_of("d") == 0.1);
	assert_int_equal(percpu_fgauge_add(fgauge, 0.5), 0);
	assert_int_equal(look(), 4);
	assert_true(fabs(number_of("d") - 0.6) < 1e-12);
}

/* The value of each CPU is below 2^1000, and their sum is not. */
static void large_doubles_are_read(void **state)
{
	struct percpu_fcounter *f;

	(void)state;
	test_need_sequences(); /* without, all CPUs share a cell */
	assert_int_equal(percpu_segment_fcounter(s, METRIC("b_total"), &f), 0);
	for (unsigned i = 0; i < test_cpus(); i++) {
		assert_true(test_pin(0, test_cpu(i)));
		assert_int_equal(percpu_fcounter_add(f, 0x1.8p999), 0);
	}
	test_unpin(0);
	assert_int_equal(look(), 1);
	assert_true(number_of("b_total") == percpu_fcounter_fetch(f));
	percpu_fcounter_zero(f);
	assert_int_equal(look(), 1);
	assert_true(number_of("b_total") == 0);
}

static void latest_values_have_their_time(void **state)
{
	struct percpu_latest *latest;
	uint64_t when = 0, there = 0;
	double v;

	(void)state;
	if (!WIDE)
		test_skip("gauges are for processes of 64 bits");
	assert_int_equal(percpu_segment_latest(s, METRIC("l"), &latest), 0);
	assert_int_equal(look(), 1);
	assert_int_equal(percpu_reader_number(r, 0, &v), -ENODATA);
	assert_int_equal(percpu_reader_when(r, 0, &when), -ENODATA);
	assert_int_equal(percpu_latest_set(latest, -INFINITY), 0);
	assert_int_equal(percpu_latest_fetch(latest, NULL, &there), 0);
	assert_int_equal(look(), 1);
	assert_true(number_of("l") == -INFINITY);
	assert_int_equal(percpu_reader_when(r, 0, &when), 0);
	assert_true(when == there);
}

static void histograms_are_those_of_the_segment(void **state)
{
	struct percpu_histogram_snapshot *shot = NULL, *there = NULL;
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("h"), NULL, &h), 0);
	for (int i = 0; i < 1000; i++)
		percpu_histogram_record(h, i * 0.001);
	percpu_histogram_record(h, 4096); /* above its range */
	percpu_histogram_record(h, NAN);
	assert_int_equal(look(), 1);
	assert_int_equal(percpu_reader_histogram(r, 0, &shot), 0);
	assert_int_equal(percpu_histogram_snapshot_create(h, &there), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, there), 0);
	assert_int_equal(shot->count, 1001);
	assert_int_equal(shot->refused, 1);
	assert_int_equal(shot->n, there->n);
	assert_memory_equal(shot->bucket, there->bucket, there->n * sizeof(there->bucket[0]));
	assert_true(shot->sum == there->sum);
	percpu_histogram_snapshot_destroy(shot);
	percpu_histogram_snapshot_destroy(there);
	forget();
	assert_int_equal(percpu_histogram_zero(h, 0), 0);
	percpu_histogram_record(h, 2);
	assert_int_equal(look(), 1);
	assert_int_equal(percpu_reader_histogram(r, 0, &shot), 0);
	assert_int_equal(shot->count, 1);
	assert_true(shot->sum == 2);
	percpu_histogram_snapshot_destroy(shot);
}

static void extrema_are_read(void **state)
{
	struct percpu_extrema *words, *doubles;
	double min = 0, max = 0;

	(void)state;
	assert_int_equal(percpu_segment_extrema(s, METRIC("a"), 0, &words), 0);
	assert_int_equal(percpu_segment_extrema(s, METRIC("b"), PERCPU_EXTREMA_DOUBLE, &doubles),
			 0);
	assert_int_equal(look(), 2);
	assert_int_equal(percpu_reader_extrema(r, 0, &min, &max), -ENODATA);
	assert_int_equal(percpu_extrema_observe(words, -3), 0);
	assert_int_equal(percpu_extrema_observe(words, 9), 0);
	assert_int_equal(percpu_extrema_observe_double(doubles, 0.5), 0);
	assert_int_equal(look(), 2);
	assert_int_equal(percpu_reader_extrema(r, 0, &min, &max), 0);
	assert_true(min == -3 && max == 9);
	assert_int_equal(series_of(0).flags, 0);
	assert_int_equal(percpu_reader_extrema(r, 1, &min, &max), 0);
	assert_true(min == 0.5 && max == 0.5);
	assert_int_equal(series_of(1).flags, PERCPU_EXTREMA_DOUBLE);
	assert_int_equal(percpu_extrema_reset(words), 0);
	assert_int_equal(percpu_extrema_observe(words, 4), 0);
	assert_int_equal(look(), 2);
	assert_int_equal(percpu_reader_extrema(r, 0, &min, &max), 0);
	assert_true(min == 4 && max == 4);
}

#define FIELDS 9 /* more than one store commits: whole ones have two copies */

static void statistics_have_their_fields(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i" };
	const struct percpu_metric_fields f = { sizeof(f), "what", names, FIELDS };
	const char *const label[] = { "zone" }, *const value[] = { "one" };
	struct percpu_metric m = *METRIC("k_total");
	const uint64_t update[FIELDS] = { 10, 10, 30, 40, 50, 60, 70, 80, 90 };
	uint64_t out[FIELDS] = { 0 };
	struct percpu_reader_series found;

	(void)state;
	m.label_names = label;
	m.label_values = value;
	m.labels = 1;
	for (unsigned flags = 0; flags < 2; flags++) {
		struct percpu_stats *t;

		m.name = flags != 0 ? "m_total" : "k_total";
		assert_int_equal(percpu_segment_stats(s, &m, &f, flags, &t), 0);
		assert_int_equal(percpu_stats_update(t, 0, 0, update, FIELDS), 0);
		percpu_stats_add(t, 0, 1, 10);
	}
	assert_int_equal(look(), 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(percpu_reader_stats(r, i, out, FIELDS), 0);
		for (unsigned w = 0; w < FIELDS; w++)
			assert_int_equal(out[w], 10 * (w + 1));
		assert_int_equal(percpu_reader_stats(r, i, out, FIELDS - 1), -EINVAL);
		found = series_of(i);
		assert_int_equal(found.n, FIELDS);
		assert_string_equal(found.field, "what");
		assert_string_equal(found.fields[FIELDS - 1], "i");
		assert_int_equal(found.labels, 1);
		assert_string_equal(found.label_names[0], "zone");
		assert_string_equal(found.label_values[0], "one");
	}
}

static int own_and_die(void *arg)
{
	struct percpu_owned_gauge *g = NULL;
	struct percpu_segment *mine = NULL;

	(void)arg;
	test_child_require(percpu_segment_open(path, ALL, NULL, &mine) == 0, "open");
	test_child_require(percpu_segment_owned_gauge(mine, METRIC("o"), PERCPU_OWNED_SUM, &g) == 0,
			   "declare");
	test_child_require(percpu_owned_gauge_add(g, 100) == 0, "add");
	raise(SIGKILL);
	return 0;
}

static void owners_are_told_dead_or_alive(void **state)
{
	struct percpu_owner_info owner[3] = { { .id = 0 } };
	struct percpu_owned_value value[3];
	struct percpu_owned_gauge *g;
	struct percpu_owned_fgauge *f;
	size_t n = 0, dead;
	double sum = 0;
	int status;

	(void)state;
	if (!WIDE)
		test_skip("gauges are for processes of 64 bits");
	assert_int_equal(percpu_reader_owners(r, owner, 3), 0);
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("o"), PERCPU_OWNED_SUM, &g), 0);
	assert_int_equal(percpu_segment_owned_fgauge(s, METRIC("p"), PERCPU_OWNED_MAX, &f), 0);
	assert_int_equal(percpu_owned_gauge_add(g, 7), 0);
	assert_int_equal(percpu_owned_fgauge_set(f, 1.5), 0);
	status = test_wait(test_fork(own_and_die, NULL), 60);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(look(), 2);
	assert_true(number_of("o") == 7);
	assert_int_equal(percpu_reader_owned_fetch(r, find("o"), PERCPU_OWNED_LIVING, &sum), 0);
	assert_true(sum == 7);
	assert_int_equal(percpu_reader_owned_fetch(r, find("o"), PERCPU_OWNED_ALL, &sum), 0);
	assert_true(sum == 107);
	assert_int_equal(percpu_reader_owned_fetch(r, find("p"), PERCPU_OWNED_ALL, &sum), 0);
	assert_true(sum == 1.5);
	assert_true(number_of("p") == 1.5);
	assert_int_equal(series_of(find("p")).flags, PERCPU_OWNED_MAX);
	assert_int_equal(percpu_reader_owners(r, owner, 3), 2);
	assert_int_equal(percpu_reader_owners(r, NULL, 0), 2);
	dead = owner[0].alive ? 1 : 0;
	assert_int_equal(owner[dead].alive, 0);
	assert_int_equal(owner[1 - dead].alive, 1);
	assert_int_equal(owner[1 - dead].pid, getpid());
	assert_int_equal(percpu_reader_owned_each(r, find("o"), value, 3, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(value[dead].value, 100);
	assert_int_equal(value[1 - dead].value, 7);
}

static int own_and_wait(void *arg)
{
	const int *ends = arg;
	struct percpu_owned_gauge *g = NULL;
	struct percpu_owned_fgauge *f = NULL;
	struct percpu_segment *mine = NULL;

	test_child_require(percpu_segment_open(path, ALL, NULL, &mine) == 0, "open");
	test_child_require(percpu_segment_owned_gauge(mine, METRIC("o"), PERCPU_OWNED_SUM, &g) == 0,
			   "declare");
	test_child_require(percpu_segment_owned_fgauge(mine, METRIC("p"), PERCPU_OWNED_MAX, &f) ==
				   0,
			   "declare of doubles");
	test_child_require(percpu_owned_gauge_add(g, 100) == 0, "add");
	test_child_require(percpu_owned_fgauge_set(f, 2.5) == 0, "set");
	test_child_require(write(ends[1], "", 1) == 1, "write");
	pause();
	return 0;
}

/* Start a child that has 100 in the gauge o and 2.5 in p, and wait until it has them. */
static pid_t start_owner(void)
{
	int ends[2];
	pid_t child;
	char c;

	assert_int_equal(pipe(ends), 0);
	child = test_fork(own_and_wait, ends);
	assert_int_equal(read(ends[0], &c, 1), 1);
	close(ends[0]);
	close(ends[1]);
	return child;
}

/* Assert what all calls say of both gauges, and of the child with that number. */
static void assert_child_is_told(pid_t child, bool alive)
{
	struct percpu_owner_info owner[2];
	struct percpu_owned_value value[2];
	int64_t level = 0;
	double v = 0;
	size_t n = 0, i;

	assert_int_equal(percpu_reader_gauge(r, find("o"), &level), 0);
	assert_int_equal(level, alive ? 107 : 7);
	assert_true(number_of("o") == (alive ? 107 : 7));
	assert_true(number_of("p") == (alive ? 2.5 : 1.5));
	assert_int_equal(percpu_reader_owned_fetch(r, find("o"), PERCPU_OWNED_LIVING, &v), 0);
	assert_true(v == (alive ? 107 : 7));
	assert_int_equal(percpu_reader_owned_fetch(r, find("p"), PERCPU_OWNED_LIVING, &v), 0);
	assert_true(v == (alive ? 2.5 : 1.5));
	assert_int_equal(percpu_reader_owned_each(r, find("o"), value, 2, &n), 0);
	assert_int_equal(n, 2);
	i = value[0].pid == (uint32_t)child ? 0 : 1;
	assert_int_equal(value[i].alive, alive);
	assert_int_equal(value[1 - i].alive, 1);
	assert_int_equal(percpu_reader_owners(r, owner, 2), 2);
	i = owner[0].pid == (uint32_t)child ? 0 : 1;
	assert_int_equal(owner[i].alive, alive);
	assert_int_equal(owner[1 - i].alive, 1);
}

static void kill_owner(pid_t child)
{
	kill(child, SIGKILL);
	(void)test_wait(child, 60);
}

/* Have this process as an owner of both gauges. */
static void own_gauges(void)
{
	struct percpu_owned_gauge *g;
	struct percpu_owned_fgauge *f;

	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("o"), PERCPU_OWNED_SUM, &g), 0);
	assert_int_equal(percpu_segment_owned_fgauge(s, METRIC("p"), PERCPU_OWNED_MAX, &f), 0);
	assert_int_equal(percpu_owned_gauge_add(g, 7), 0);
	assert_int_equal(percpu_owned_fgauge_set(f, 1.5), 0);
}

/* An owner dies after a picture: the picture stays as it was, and the next one knows. The third one
 * has another owner in the same slot. */
static void owners_live_as_long_as_the_picture(void **state)
{
	pid_t child;

	(void)state;
	if (!WIDE)
		test_skip("gauges are for processes of 64 bits");
	own_gauges();
	child = start_owner();
	assert_int_equal(look(), 2);
	assert_child_is_told(child, true);
	kill_owner(child);
	assert_child_is_told(child, true);
	assert_int_equal(look(), 2);
	assert_child_is_told(child, false);
	child = start_owner();
	assert_int_equal(look(), 2);
	assert_child_is_told(child, true);
	kill_owner(child);
}

/* Of two gauges only the first is asked before the owner dies. look() would ask both. */
static void owners_live_in_all_gauges_or_in_none(void **state)
{
	pid_t child;

	(void)state;
	if (!WIDE)
		test_skip("gauges are for processes of 64 bits");
	own_gauges();
	child = start_owner();
	assert_int_equal(percpu_reader_read(r), 0);
	assert_true(number_of("o") == 107);
	kill_owner(child);
	assert_child_is_told(child, true);
	assert_int_equal(percpu_reader_read(r), 0);
	assert_child_is_told(child, false);
}

/* The last owner has the second slot of the second block. The second one lives on. */
static void each_owner_lives_by_itself(void **state)
{
	enum { CHILDREN = PERCPU_OWNER_SLOTS + 1 };
	pid_t child[CHILDREN];
	struct percpu_owned_gauge *g;

	(void)state;
	if (!WIDE)
		test_skip("gauges are for processes of 64 bits");
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("o"), PERCPU_OWNED_SUM, &g), 0);
	assert_int_equal(percpu_owned_gauge_add(g, 7), 0);
	for (unsigned i = 0; i < CHILDREN; i++)
		child[i] = start_owner();
	assert_int_equal(look(), 2);
	assert_true(number_of("o") == 7 + 100.0 * CHILDREN);
	kill_owner(child[CHILDREN - 1]);
	assert_true(number_of("o") == 7 + 100.0 * CHILDREN);
	assert_int_equal(look(), 2);
	assert_true(number_of("o") == 7 + 100.0 * (CHILDREN - 1));
	for (unsigned i = 0; i < CHILDREN - 1; i++)
		kill_owner(child[i]);
}

static void texts_and_order_are_told(void **state)
{
	const char *const names[] = { "path", "code" };
	const char *const value[][2] = { { "/\"\n\\", "200" }, { "", "\xc3\xa9" } };
	struct percpu_metric m = { .size = sizeof(m),
				   .name = "b_seconds_total",
				   .help = "Help with \xe2\x82\xac.",
				   .unit = "seconds",
				   .label_names = names,
				   .labels = 2 };
	struct percpu_fcounter *c;
	struct percpu_reader_series t;

	(void)state;
	for (int i = 0; i < 2; i++) {
		m.label_values = value[i];
		assert_int_equal(percpu_segment_fcounter(s, &m, &c), 0);
		(void)counter(i == 0 ? "c_total" : "a_total");
	}
	m = *METRIC("d_info");
	m.label_names = names;
	m.label_values = value[0];
	m.labels = 2;
	assert_int_equal(percpu_segment_info(s, &m), 0);
	assert_int_equal(look(), 5);
	assert_string_equal(series_of(0).name, "a_total");
	assert_string_equal(series_of(3).name, "c_total");
	assert_string_equal(series_of(4).name, "d_info");
	assert_int_equal(series_of(4).kind, PERCPU_METRIC_INFO);
	assert_true(number_of("d_info") == 1);
	for (size_t i = 0; i < 2; i++) {
		t = series_of(1 + i);
		assert_string_equal(t.name, "b_seconds_total");
		assert_string_equal(t.help, "Help with \xe2\x82\xac.");
		assert_string_equal(t.unit, "seconds");
		assert_int_equal(t.kind, PERCPU_METRIC_FCOUNTER);
		assert_int_equal(t.n, 1);
		assert_string_equal(t.field, "");
		for (int k = 0; k < 2; k++) {
			assert_string_equal(t.label_names[k], names[k]);
			assert_string_equal(t.label_values[k], value[i][k]);
		}
	}
	assert_string_equal(series_of(0).help, "");
	assert_string_equal(series_of(0).unit, "");
}

/* Series of one name may have other help texts; also one that is longer by as much as the value is
 * shorter. */
static void each_series_has_its_own_help(void **state)
{
	static const char *const label[] = { "k" };
	static const char *const values[] = { "1", "2", "3", "44", "5" };
	static const char *const helps[] = { "one", "two", "two", "on", "one" };
	struct percpu_counter *c;

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		const struct percpu_metric m = { .size = sizeof(m),
						 .name = "a_total",
						 .help = helps[i],
						 .label_names = label,
						 .label_values = &values[i],
						 .labels = 1 };

		assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
		percpu_counter_add(c, (int64_t)i);
	}
	for (int picture = 0; picture < 2; picture++) {
		assert_int_equal(look(), 5);
		for (size_t i = 0; i < 5; i++) {
			assert_string_equal(series_of(i).label_names[0], "k");
			assert_string_equal(series_of(i).label_values[0], values[i]);
			assert_string_equal(series_of(i).help, helps[i]);
		}
	}
}

/* Records that take several pages, which a reader gives back once it has listed them. */
static void series_that_are_added_to_many_are_told(void **state)
{
	char name[32];

	(void)state;
	for (int i = 0; i < 200; i++) {
		(void)snprintf(name, sizeof(name), "m_%03d_total", i);
		percpu_counter_add(counter(name), i);
	}
	assert_int_equal(look(), 200);
	percpu_counter_add(counter("n_total"), 200);
	for (int picture = 0; picture < 2; picture++) {
		assert_int_equal(look(), 201);
		for (size_t i = 0; i < 201; i++)
			assert_int_equal(count_of(i), i);
	}
}

/* The longest texts, and those behind them. */
static void long_texts_are_told(void **state)
{
	static char name[256], label[256], value[PERCPU_METRIC_VALUE + 1];
	const char *const names[] = { label, "b" }, *const values[] = { value, "last" };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = name,
					 .help = "h",
					 .label_names = names,
					 .label_values = values,
					 .labels = 2 };
	struct percpu_reader_series told;
	struct percpu_counter *c;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	memset(label, 'l', sizeof(label) - 1);
	memset(value, 'v', sizeof(value) - 1);
	assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
	assert_int_equal(look(), 1);
	told = series_of(0);
	assert_string_equal(told.name, name);
	assert_string_equal(told.label_names[0], label);
	assert_string_equal(told.label_names[1], "b");
	assert_string_equal(told.label_values[0], value);
	assert_string_equal(told.label_values[1], "last");
	assert_string_equal(told.help, "h");
}

static void families_are_told(void **state)
{
	const char *const names[] = { "user" };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "f_total",
					 .help = "Of users.",
					 .label_names = names,
					 .labels = 1 };
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	const char *const value[] = { "a", "b", "c" };
	struct percpu_reader_series t;
	struct percpu_family *f = NULL;
	struct percpu_counter *c;

	(void)state;
	(void)counter("a_total");
	assert_int_equal(family_with_cap(s, &d, 2, &f), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(percpu_family_counter(f, &value[i], &c), 0);
		percpu_counter_add(c, 10 + i);
	}
	assert_int_equal(look(), 4);
	assert_int_equal(series_of(0).cap, 0);
	for (size_t i = 1; i < 4; i++) {
		double v = 0;

		t = series_of(i);
		assert_string_equal(t.name, "f_total");
		assert_string_equal(t.help, "Of users.");
		assert_int_equal(t.cap, 2);
		assert_int_equal(t.overflows, 1);
		assert_int_equal(percpu_reader_number(r, i, &v), 0);
		assert_true(v == (strcmp(t.label_values[0], "a") == 0 ? 10 :
				  strcmp(t.label_values[0], "b") == 0 ? 11 :
									12));
	}
	assert_int_equal(percpu_family_counter(f, &value[2], &c), 0);
	assert_int_equal(look(), 4); /* the directory is unchanged */
	assert_int_equal(series_of(1).overflows, 2);
	assert_int_equal(series_of(1).removed, 0);
	assert_int_equal(percpu_family_remove(f, &value[0]), 0);
	assert_int_equal(look(), 3); /* it has changed */
	assert_int_equal(series_of(1).removed, 1);
	for (size_t i = 1; i < 3; i++)
		assert_string_not_equal(series_of(i).label_values[0], "a");
}

/* Each family's removed series are counted for it, in whichever order families were declared. */
static void what_was_removed_is_told_of_its_family(void **state)
{
	static const char *const family[] = { "c_total", "a_total", "b_total" };
	const char *const label[] = { "l" }, *const value[] = { "x", "y", "z", "v" };
	struct percpu_metric m = { .size = sizeof(m), .label_names = label, .labels = 1 };
	struct percpu_declaration d = { .size = sizeof(d),
					OF_METRIC(m),
					.kind = PERCPU_METRIC_COUNTER };
	struct percpu_counter *c;
	struct percpu_family *f;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		d.name = family[i];
		assert_int_equal(family_with_cap(s, &d, 4, &f), 0);
		for (unsigned k = 0; k < 4; k++)
			assert_int_equal(percpu_family_counter(f, &value[k], &c), 0);
		for (unsigned k = 0; k <= i; k++)
			assert_int_equal(percpu_family_remove(f, &value[k]), 0);
	}
	assert_int_equal(look(), 3 * 4 - 6); /* no overflow was needed */
	assert_int_equal(series_of(find_one("a_total", "v")).removed, 2);
	assert_int_equal(series_of(find_one("b_total", "v")).removed, 3);
	assert_int_equal(series_of(find_one("c_total", "v")).removed, 1);
}

/* Count on one CPU after the other, and once as a thread without sequences. */
static void each_cpu_is_told(void **state)
{
	struct percpu_counter *c = counter("a_total");
	struct percpu_reader_info info;
	double out[PERCPU_MAX_CPUS];
	struct percpu_fcounter *f;
	double all = 0;

	(void)state;
	test_need_sequences();
	assert_int_equal(percpu_segment_fcounter(s, METRIC("b_total"), &f), 0);
	for (unsigned i = 0; i < test_cpus(); i++) {
		assert_true(test_pin(0, test_cpu(i)));
		percpu_counter_add(c, 10 + i);
		assert_int_equal(percpu_fcounter_add(f, 0.5 + i), 0);
	}
	test_unpin(0);
	assert_int_equal(look(), 2);
	assert_int_equal(percpu_reader_info(r, &info), 0);
	assert_int_equal(percpu_reader_cpus(r, 0, out, info.cpus), 0);
	for (unsigned i = 0; i < test_cpus(); i++)
		assert_true(out[test_cpu(i)] == 10 + i);
	for (unsigned i = 0; i < info.cpus; i++)
		all += out[i];
	assert_true(all == number_of("a_total"));
	assert_int_equal(percpu_reader_cpus(r, 1, out, info.cpus), 0);
	assert_true(out[test_cpu(0)] == 0.5);
	percpu_counter_add(c, 1); /* not of the picture */
	all = 0;
	assert_int_equal(percpu_reader_cpus(r, 0, out, info.cpus), 0);
	for (unsigned i = 0; i < info.cpus; i++)
		all += out[i];
	assert_true(all == number_of("a_total") + 1);
	assert_int_equal(percpu_reader_cpus(r, 0, out, info.cpus + 1), -EINVAL);
	assert_int_equal(percpu_reader_cpus(r, 2, out, 1), -EINVAL);
}

static void each_cpu_is_told_of_levels(void **state)
{
	double out[PERCPU_MAX_CPUS];
	struct percpu_gauge *g;

	(void)state;
	if (!WIDE)
		test_skip("no gauges in files here");
	test_need_sequences();
	assert_int_equal(percpu_segment_gauge(s, METRIC("a"), &g), 0);
	for (unsigned i = 0; i < test_cpus(); i++) {
		assert_true(test_pin(0, test_cpu(i)));
		percpu_gauge_sub(g, 3 + i);
	}
	test_unpin(0);
	assert_int_equal(look(), 1);
	assert_int_equal(percpu_reader_cpus(r, 0, out, info_of().cpus), 0);
	for (unsigned i = 0; i < test_cpus(); i++)
		assert_true(out[test_cpu(i)] == -3.0 - i);
}

static void refusals_of_each_cpu_are_told(void **state)
{
	struct percpu_histogram *h;
	double out[2] = { 77, 77 };
	uint32_t cpus;

	(void)state;
	(void)counter("a_total");
	assert_int_equal(percpu_segment_histogram(s, METRIC("b"), NULL, &h), 0);
	assert_int_equal(percpu_segment_info(s, METRIC("c_info")), 0);
	assert_int_equal(percpu_reader_cpus(NULL, 0, out, 1), -EINVAL);
	assert_string_equal(percpu_error(), "the reader is NULL");
	assert_int_equal(percpu_reader_cpus(r, 0, out, 1), -EINVAL);
	assert_string_equal(percpu_error(), "the reader has no picture");
	assert_int_equal(look(), 3);
	cpus = info_of().cpus;
	assert_int_equal(percpu_reader_cpus(r, 0, NULL, 1), -EINVAL);
	assert_string_equal(percpu_error(), "there is no place for what each CPU has");
	assert_int_equal(percpu_reader_cpus(r, 3, out, 1), -EINVAL);
	assert_string_equal(percpu_error(), "the picture has no series of that number");
	for (size_t i = 1; i < 3; i++) {
		assert_int_equal(percpu_reader_cpus(r, i, out, 1), -EINVAL);
		assert_string_equal(percpu_error(), "the series is no counter or gauge");
	}
	assert_int_equal(percpu_reader_cpus(r, 0, out, cpus + 1), -EINVAL);
	assert_string_equal(percpu_error(), "the segment has lanes for fewer CPUs");
	assert_true(out[0] == 77 && out[1] == 77);
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct percpu_reader_info info_now(void)
{
	(void)look();
	return info_of();
}

static void times_are_right_when_the_clock_was_set(void **state)
{
	const uint64_t before = now_ns(CLOCK_REALTIME), hour = UINT64_C(3600) * 1000000000;
	struct percpu_segment_record *record;
	struct percpu_segment_time *started;
	struct percpu_reader_info info;

	(void)state;
	(void)counter("a_total");
	info = info_now();
	assert_int_equal(info.generation, 1);
	assert_int_equal(info.pending, 0);
	assert_int_equal(info.cpus, s->region->cpus);
	assert_true(info.since <= series_of(0).since && series_of(0).since >= before - hour / 60);
	assert_true(series_of(0).since <= info.read && info.read <= now_ns(CLOCK_REALTIME));

	/* The clock was an hour behind when the metric was declared. */
	record = percpu_directory_at(s, 0);
	record->declared.real -= hour;
	started = &s->control->started[1];
	started->real -= hour;
	percpu_reader_close(r);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	info = info_now();
	assert_true(series_of(0).since >= before - hour / 60 && series_of(0).since <= info.read);
	assert_true(info.since >= before - hour / 60);

	/* The metric was declared in another boot. */
	record->declared.boot ^= 1;
	started->boot ^= 1;
	percpu_reader_close(r);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	(void)look();
	assert_true(series_of(0).since == record->declared.real);
}

/* Return whether the picture's times are in order. */
static bool times_are_in_order(void)
{
	const struct percpu_reader_info info = info_of();

	return info.since <= series_of(0).since && series_of(0).since <= info.read;
}

/* The clock is set after the records were read. The test stores the time that the next picture
 * would read. */
static void times_are_in_order_when_the_clock_goes_back(void **state)
{
	const uint64_t hour = UINT64_C(3600) * 1000000000;
	struct percpu_segment_time *const started = &s->control->started[1];
	struct percpu_segment_record *record;

	(void)state;
	(void)counter("a_total");
	record = percpu_directory_at(s, 0);
	assert_int_equal(look(), 1);
	r->taken.real = 5; /* less than the age of either */
	r->taken.boottime += hour;
	assert_true(times_are_in_order());
	if (percpu_boot_id() != 0)
		assert_int_equal(series_of(0).since, 0);

	/* Both are of another boot, and the clock goes back to before them. */
	started->boot = record->declared.boot = s->boot ^ 1;
	started->real += 2 * hour;
	record->declared.real += hour;
	percpu_reader_close(r);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(look(), 1);
	assert_int_equal(series_of(0).since, info_of().read);
	r->taken.real += 3 * hour;
	assert_true(times_are_in_order());
	assert_int_equal(series_of(0).since, started->real);
}

static void a_new_generation_has_its_own_time(void **state)
{
	struct percpu_segment *again = NULL;
	struct percpu_reader_info info;
	uint64_t was;

	(void)state;
	percpu_counter_add(counter("a_total"), 3);
	(void)look();
	was = series_of(0).since;
	assert_int_equal(percpu_segment_open(path, PERCPU_SEGMENT_ANEW, NULL, &again), 0);
	percpu_segment_close(again);
	percpu_counter_add(counter("a_total"), 2);
	info = info_now();
	assert_int_equal(info.generation, 2);
	assert_true(series_of(0).since > was && series_of(0).since == info.since);
	assert_true(number_of("a_total") == 2);
}

static void wrong_questions_are_refused(void **state)
{
	struct percpu_histogram_snapshot *shot = NULL;
	struct percpu_reader_series series;
	struct percpu_owned_value value;
	struct percpu_reader_info info;
	uint64_t word = 77;
	int64_t level;
	double v;
	size_t n;

	(void)state;
	(void)counter("a_total");
	assert_int_equal(percpu_reader_count(r), 0); /* no picture yet */
	assert_int_equal(percpu_reader_info(r, &info), -EINVAL);
	assert_int_equal(percpu_reader_series(r, 0, &series), -EINVAL);
	assert_int_equal(look(), 1);
	assert_int_equal(percpu_reader_series(r, 1, &series), -EINVAL);
	assert_int_equal(percpu_reader_counter(r, 1, &word), -EINVAL);
	assert_int_equal(percpu_reader_gauge(r, 0, &level), -EINVAL);
	assert_int_equal(percpu_reader_when(r, 0, &word), -EINVAL);
	assert_int_equal(percpu_reader_histogram(r, 0, &shot), -EINVAL);
	assert_int_equal(percpu_reader_extrema(r, 0, &v, &v), -EINVAL);
	assert_int_equal(percpu_reader_stats(r, 0, &word, 1), -EINVAL);
	assert_int_equal(percpu_reader_owned_each(r, 0, &value, 1, &n), -EINVAL);
	assert_int_equal(percpu_reader_owned_fetch(r, 0, PERCPU_OWNED_ALL, &v), -EINVAL);
	assert_int_equal(percpu_reader_number(r, 0, NULL), -EINVAL);
	assert_int_equal(percpu_reader_read(NULL), -EINVAL);
	assert_string_equal(percpu_error(), "the reader is NULL");
	assert_int_equal(percpu_reader_count(NULL), 0);
	percpu_reader_close(NULL);
	assert_int_equal(word, 77);
}

/* Each call answers for the kinds that its documentation names, and for no other. */

enum call {
	COUNTER = 1,
	LEVEL = 2,
	NUMBER = 4,
	FOLD = 8,
	WHEN = 16,
	HISTOGRAM = 32,
	EXTREMA = 64,
	STATS = 128,
	OWNED = 256,
	CPUS = 512,
};

/* Room for any answer. */
static union {
	char bytes[256];
	uint64_t word;
	int64_t level;
	double number;
	struct percpu_owned_value value;
	struct percpu_histogram_snapshot *shot;
} answer;

static int ask(enum call call, size_t i)
{
	size_t n = 0;

	switch (call) {
	case COUNTER:
		return percpu_reader_counter(r, i, &answer.word);
	case LEVEL:
		return percpu_reader_gauge(r, i, &answer.level);
	case NUMBER:
		return percpu_reader_number(r, i, &answer.number);
	case FOLD:
		return percpu_reader_owned_fetch(r, i, PERCPU_OWNED_ALL, &answer.number);
	case WHEN:
		return percpu_reader_when(r, i, &answer.word);
	case HISTOGRAM:
		return percpu_reader_histogram(r, i, &answer.shot);
	case EXTREMA:
		return percpu_reader_extrema(r, i, &answer.number, &answer.number);
	case STATS:
		return percpu_reader_stats(r, i, &answer.word, 1);
	case OWNED:
		return percpu_reader_owned_each(r, i, &answer.value, 1, &n);
	default:
		return percpu_reader_cpus(r, i, &answer.number, 1);
	}
}

static void answers_are_of_kinds(void **state)
{
	static const char *const field[] = { "x" };
	const struct percpu_metric_fields fields = { sizeof(fields), "what", field, 1 };
	static const struct {
		const char *name;
		unsigned calls, kind, flags;
	} rows[] = {
		{ "a_total", COUNTER | NUMBER | CPUS, PERCPU_METRIC_COUNTER, 0 },
		{ "b_total", NUMBER | CPUS, PERCPU_METRIC_FCOUNTER, 0 },
		{ "c", HISTOGRAM, PERCPU_METRIC_HISTOGRAM, 0 },
		{ "d", EXTREMA, PERCPU_METRIC_EXTREMA, 0 },
		{ "e", EXTREMA, PERCPU_METRIC_EXTREMA, PERCPU_EXTREMA_DOUBLE },
		{ "f_total", STATS, PERCPU_METRIC_STATS, 0 },
		{ "g_total", STATS, PERCPU_METRIC_STATS, PERCPU_STATS_WHOLE },
		{ "h_info", NUMBER, PERCPU_METRIC_INFO, 0 },
		{ "i", LEVEL | NUMBER | CPUS, PERCPU_METRIC_GAUGE, 0 },
		{ "j", NUMBER | CPUS, PERCPU_METRIC_FGAUGE, 0 },
		{ "k", NUMBER | WHEN, PERCPU_METRIC_LATEST, 0 },
		{ "l", LEVEL | NUMBER | FOLD | OWNED, PERCPU_METRIC_OWNED_GAUGE, 0 },
		{ "m", NUMBER | FOLD | OWNED, PERCPU_METRIC_OWNED_FGAUGE, 0 },
	};
	const size_t all = sizeof(rows) / sizeof(rows[0]), n = WIDE ? all : all - 5;
	struct percpu_declaration d;
	char before[sizeof(answer)];
	void *handle;
	int e;

	(void)state;
	for (size_t i = 0; i < n; i++) {
		d = (struct percpu_declaration){ .size = sizeof(d),
						 .name = rows[i].name,
						 .kind = rows[i].kind,
						 .flags = rows[i].flags };
		if (rows[i].kind == PERCPU_METRIC_STATS)
			d.fields = &fields;
		if (rows[i].kind != PERCPU_METRIC_INFO)
			d.ret.counter = (void *)&handle;
		assert_int_equal(percpu_segment_declare(s, &d, 1), 0);
	}
	assert_int_equal(look(), n);
	for (size_t i = 0; i < n; i++)
		for (unsigned call = 1; call <= CPUS; call *= 2) {
			memset(&answer, 0x5a, sizeof(answer));
			memcpy(before, &answer, sizeof(answer));
			e = ask(call, i);
			if ((e == -EINVAL) != ((rows[i].calls & call) == 0))
				fail_msg("%s: call %u returns %d", rows[i].name, call, e);
			if (e != 0)
				assert_memory_equal(&answer, before, sizeof(answer));
			else if (call == HISTOGRAM)
				percpu_histogram_snapshot_destroy(answer.shot);
		}
}

/* A call with an answer that has no place stores nothing. */
static void answers_need_a_place(void **state)
{
	static const char *const names[] = { "x", "y" };
	const struct percpu_metric_fields f = { sizeof(f), "what", names, 2 };
	struct percpu_owned_fgauge *fgauge;
	struct percpu_owned_gauge *gauge;
	struct percpu_histogram *h;
	struct percpu_extrema *x;
	struct percpu_latest *l;
	struct percpu_stats *t;
	double v = 77;

	(void)state;
	percpu_counter_add(counter("a_total"), 1);
	assert_int_equal(percpu_segment_histogram(s, METRIC("b"), NULL, &h), 0);
	assert_int_equal(percpu_segment_extrema(s, METRIC("c"), 0, &x), 0);
	assert_int_equal(percpu_extrema_observe(x, 4), 0);
	assert_int_equal(percpu_segment_stats(s, METRIC("d_total"), &f, 0, &t), 0);
	assert_int_equal(look(), 4);
	assert_int_equal(percpu_reader_info(NULL, &(struct percpu_reader_info){ 0 }), -EINVAL);
	assert_int_equal(percpu_reader_info(r, NULL), -EINVAL);
	assert_int_equal(percpu_reader_series(r, 0, NULL), -EINVAL);
	assert_int_equal(percpu_reader_counter(r, 0, NULL), -EINVAL);
	assert_int_equal(percpu_reader_gauge(r, 0, NULL), -EINVAL);
	assert_int_equal(percpu_reader_cpus(r, 0, NULL, 1), -EINVAL);
	assert_int_equal(percpu_reader_owned_fetch(r, 0, PERCPU_OWNED_ALL, NULL), -EINVAL);
	assert_int_equal(percpu_reader_owned_fetch(r, 4, PERCPU_OWNED_ALL, &v), -EINVAL);
	assert_int_equal(percpu_reader_histogram(r, 1, NULL), -EINVAL);
	assert_int_equal(percpu_reader_extrema(r, 2, NULL, &v), -EINVAL);
	assert_int_equal(percpu_reader_extrema(r, 2, &v, NULL), -EINVAL);
	assert_int_equal(percpu_reader_stats(r, 3, NULL, 2), -EINVAL);
	assert_int_equal(percpu_reader_owners(NULL, NULL, 0), 0);
	assert_int_equal(percpu_reader_owners(r, NULL, 1), 0);
	assert_true(v == 77);
	if (!WIDE)
		return;
	assert_int_equal(percpu_segment_latest(s, METRIC("e"), &l), 0);
	assert_int_equal(percpu_latest_set(l, 8), 0);
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("f"), PERCPU_OWNED_MIN, &gauge), 0);
	assert_int_equal(percpu_segment_owned_fgauge(s, METRIC("g"), PERCPU_OWNED_MIN, &fgauge), 0);
	assert_int_equal(look(), 7);
	assert_int_equal(percpu_reader_when(r, 4, NULL), -EINVAL);
	assert_int_equal(percpu_reader_owned_fetch(r, 6, PERCPU_OWNED_ALL, NULL), -EINVAL);
	assert_int_equal(percpu_reader_owned_fetch(r, 5, PERCPU_OWNED_ALL, &v),
			 -ENODATA); /* unset */
	assert_true(v == 77);
}

int main(void)
{
#define EACH(f) cmocka_unit_test_setup_teardown(f, make_segment, remove_segment)
	const struct CMUnitTest tests[] = {
		EACH(counters_and_levels_are_read),
		EACH(large_doubles_are_read),
		EACH(latest_values_have_their_time),
		EACH(histograms_are_those_of_the_segment),
		EACH(extrema_are_read),
		EACH(statistics_have_their_fields),
		EACH(owners_are_told_dead_or_alive),
		EACH(owners_live_as_long_as_the_picture),
		EACH(owners_live_in_all_gauges_or_in_none),
		EACH(each_owner_lives_by_itself),
		EACH(texts_and_order_are_told),
		EACH(each_series_has_its_own_help),
		EACH(series_that_are_added_to_many_are_told),
		EACH(long_texts_are_told),
		EACH(families_are_told),
		EACH(what_was_removed_is_told_of_its_family),
		EACH(each_cpu_is_told),
		EACH(each_cpu_is_told_of_levels),
		EACH(refusals_of_each_cpu_are_told),
		EACH(times_are_right_when_the_clock_was_set),
		EACH(times_are_in_order_when_the_clock_goes_back),
		EACH(a_new_generation_has_its_own_time),
		EACH(wrong_questions_are_refused),
		EACH(answers_are_of_kinds),
		EACH(answers_need_a_place),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
