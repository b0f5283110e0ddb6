/* SPDX-License-Identifier: MIT */
/*
 * test_reader_reads.c - how readers read from a file: reads that are short, interrupted, or
 * fail; words that change together; and the order in which lanes are added up.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "declared.h"
#include "support.h"
#include "reader_calls.h"

#include "segment/reader.h"

static size_t at_most;	  /* bytes in one read; 0: any number */
static unsigned calls;	  /* number of reads */
static int fails_with;	  /* the error; 0: no read fails; EINTR: every other one does */
static unsigned fails_at; /* the only read that fails, from 1; 0: all do */
static unsigned late_at;  /* the time is over at this read; 0: never */

/* Words at these places are read as other values, so many times. */
enum { BIASES = 5 };

static uint64_t torn_where, bias_where[BIASES];
static unsigned torn, bias_torn[BIASES];

static void tear_biases(unsigned times)
{
	for (unsigned i = 0; i < BIASES; i++)
		bias_torn[i] = bias_where[i] != 0 ? times : 0;
}

/* Change a word that was read, if it is among n bytes. */
static void tear(uint64_t where, unsigned *times, char *to, uint64_t from, size_t n)
{
	uint64_t word;

	if (*times == 0 || where < from || where + sizeof(word) > from + n)
		return;
	memcpy(&word, to + (where - from), sizeof(word));
	word += (*times)--;
	memcpy(to + (where - from), &word, sizeof(word));
}

static bool fails(void)
{
	if (++calls == late_at)
		r->deadline = 1;
	if (fails_with == EINTR)
		return calls % 2 == 1;
	return fails_with != 0 && (fails_at == 0 || calls == fails_at);
}

ssize_t __real_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at)
{
	ssize_t got;

	if (fails()) {
		errno = fails_with;
		return -1;
	}
	got = __real_pread64(fd, to, at_most != 0 && n > at_most ? at_most : n, at);
	tear(torn_where, &torn, to, (uint64_t)at, n);
	for (unsigned i = 0; i < BIASES; i++)
		tear(bias_where[i], &bias_torn[i], to, (uint64_t)at, n);
	return got;
}

static int make_reads(void **state)
{
	at_most = torn = calls = fails_at = late_at = 0;
	memset(bias_where, 0, sizeof(bias_where));
	tear_biases(0);
	fails_with = 0;
	return make_two(state);
}

/* Reads. */

static void reads_that_are_cut_short_go_on(void **state)
{
	(void)state;
	for (at_most = 7; at_most < 5000; at_most += 1248) {
		assert_int_equal(take(), 0);
		assert_int_equal(count_of(0), 100);
		assert_int_equal(count_of(1), 200);
		r->copied = 0;
	}
}

static void interrupted_reads_are_repeated(void **state)
{
	(void)state;
	fails_with = EINTR;
	assert_int_equal(take(), 0);
	assert_int_equal(count_of(1), 200);
}

static void errors_are_told(void **state)
{
	struct percpu_reader *none = NULL;

	(void)state;
	fails_with = EIO;
	assert_int_equal(take(), -EIO);
	assert_int_equal(percpu_reader_count(r), 0);
	assert_string_equal(percpu_error(), "cannot read the file");
	assert_int_equal(percpu_reader_open(path, &none), -EIO);
	assert_null(none);
	fails_with = 0;
	assert_int_equal(take(), 0);
	assert_int_equal(count_of(1), 200);
}

/* Words that change together. */

/* Return the place of a word of an object that is not 0, in the lane of a CPU, among the
 * object's bytes from from to to. */
static uint64_t some_word(const struct percpu_block *of, size_t from, size_t to)
{
	const struct percpu_chunk *k = of->chunk;
	const size_t offset = (size_t)((const char *)of->base - k->base);

	for (uint32_t lane = 0; lane < k->cpus; lane++)
		for (size_t i = from; i < to; i += sizeof(uint64_t))
			if (*(const uint64_t *)percpu_chunk_lane(k, lane, offset + i) != 0)
				return percpu_reader_file_offset(r, k->index, lane, offset + i);
	return 0;
}

static void a_histogram_is_of_one_moment(void **state)
{
	struct percpu_histogram_snapshot *shot = NULL;
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("h"), NULL, &h), 0);
	percpu_histogram_record(h, 1);
	for (unsigned times = 1; times < 5; times++) {
		torn_where = some_word(&h->block, PERCPU_HISTOGRAM_HEAD,
				       PERCPU_HISTOGRAM_HEAD + h->record);
		if (torn_where == 0)
			test_skip("this tier counts in no CPU's lane");
		torn = times;
		assert_int_equal(take(), 0);
		assert_int_equal(torn, 0);
		assert_int_equal(percpu_reader_histogram(r, 2, &shot), 0);
		assert_int_equal(shot->count, 1);
		percpu_histogram_snapshot_destroy(shot);
	}
}

static void extrema_are_of_one_moment(void **state)
{
	double min = 0, max = 0;
	struct percpu_extrema *x;

	(void)state;
	assert_int_equal(percpu_segment_extrema(s, METRIC("x"), 0, &x), 0);
	assert_int_equal(percpu_extrema_observe(x, 5), 0);
	torn_where = some_word(&x->block, 0, 2 * sizeof(struct percpu_extremes));
	if (torn_where == 0)
		test_skip("this tier counts in no CPU's lane");
	torn = 3;
	assert_int_equal(take(), 0);
	assert_int_equal(torn, 0);
	assert_int_equal(percpu_reader_extrema(r, 2, &min, &max), 0);
	assert_true(min == 5 && max == 5);
}

static void statistics_are_of_one_moment(void **state)
{
	static const char *const names[] = { "x", "y" };
	const struct percpu_metric_fields f = { sizeof(f), "what", names, 2 };
	const uint64_t n[2] = { 3, 4 };
	uint64_t out[2] = { 0 };
	struct percpu_stats *t;

	(void)state;
	assert_int_equal(percpu_segment_stats(s, METRIC("t_total"), &f, PERCPU_STATS_WHOLE, &t), 0);
	assert_int_equal(percpu_stats_update(t, 0, 0, n, 2), 0);
	torn_where = t->head != 0 ? some_word(&t->block, 0, 2 * t->banks) : 0;
	if (torn_where == 0)
		test_skip("this tier counts in no CPU's lane");
	torn = 3;
	assert_int_equal(take(), 0);
	assert_int_equal(torn, 0);
	assert_int_equal(percpu_reader_stats(r, 2, out, 2), 0);
	assert_int_equal(out[0], 3);
	assert_int_equal(out[1], 4);
}

/* Words that never stay the same are taken as they are after 64 more reads, so that a thread
 * that counts without pause does not keep the reader. */
static void units_are_read_64_times_more(void **state)
{
	struct percpu_histogram_snapshot *shot = NULL;
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("h"), NULL, &h), 0);
	percpu_histogram_record(h, 1);
	torn_where = some_word(&h->block, PERCPU_HISTOGRAM_HEAD, PERCPU_HISTOGRAM_HEAD + h->record);
	if (torn_where == 0)
		test_skip("this tier counts in no CPU's lane");
	torn = 2 + 64 + 5;
	assert_int_equal(take(), 0);
	assert_int_equal(torn, 5);
	assert_int_equal(count_of(1), 200);
	forget();
	torn = 0;
	assert_int_equal(take(), 0);
	assert_int_equal(percpu_reader_histogram(r, 2, &shot), 0);
	assert_int_equal(shot->count, 1);
	percpu_histogram_snapshot_destroy(shot);
}

/* Return where the file has the bias of an object. */
static uint64_t bias_of(const void *object)
{
	const struct percpu_chunk *k = percpu_chunk_of(object);

	return percpu_reader_file_offset(r, k->index, 2 * r->cpus,
					 (size_t)((const char *)object - k->base));
}

/* Declare counters whose biases change while they are read. Some are near their neighbors, but
 * not all near each other. Others are far away, behind free cells. */
static void declare_apart(void)
{
	static const char *const names[] = { "c_total", "d_total", "e_total", "f_total" };
	static const size_t gaps[] = { 0, 400, 400, 700 };
	struct percpu_counter_array *gap;
	struct percpu_counter *c = NULL;

	bias_where[0] = bias_of(b);
	for (unsigned i = 0; i < 4; i++) {
		gap = NULL;
		if (gaps[i] != 0)
			assert_int_equal(percpu_counter_array_create_in(s->region, gaps[i], &gap),
					 0);
		for (unsigned k = 0; k < 100; k++) /* fill the free cells before the gap */
			assert_int_equal(percpu_counter_create_in(s->region, &c), 0);
		c = counter(names[i]);
		percpu_counter_add(c, 300 + i);
		bias_where[i + 1] = bias_of(c);
		if (i == 3)
			percpu_counter_array_destroy(gap);
		else
			percpu_counter_array_detach(gap);
	}
}

/* If any one read fails, the picture fails: also a repeated read, and one of a killed thread's
 * journal. */
static void each_read_that_fails_is_told(void **state)
{
	static const char *const labels[] = { "l" };
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "g_total", .label_names = labels, .labels = 1
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_family *f;
	struct percpu_histogram *h;
	bool failed = true;
	int e;

	(void)state;
	assert_int_equal(family_with_cap(s, &d, 2, &f), 0);
	assert_int_equal(percpu_segment_histogram(s, METRIC("h"), NULL, &h), 0);
	percpu_histogram_record(h, 1);
	torn_where = some_word(&h->block, PERCPU_HISTOGRAM_HEAD, PERCPU_HISTOGRAM_HEAD + h->record);
	declare_apart();
	percpu_chunk_of((const char *)b)->header->journal.turn |= 1; /* no words */
	fails_with = EIO;
	for (fails_at = 1; failed; fails_at++) {
		torn = torn_where != 0 ? 4 : 0;
		tear_biases(4);
		calls = 0;
		e = take();
		failed = calls >= fails_at;
		assert_int_equal(e, failed ? -EIO : 0);
		assert_int_equal(percpu_reader_count(r), failed ? 0 : 7);
		if (failed)
			assert_string_equal(percpu_error(), "cannot read the file");
	}
	assert_true(torn == 0 && fails_at > 20);
	assert_int_equal(count_of(1), 200);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(bias_torn[i], 0);
		assert_int_equal(count_of(2 + i), 300 + i);
	}
}

/* Whenever the time is over, a value is right, or has an error. */

static struct percpu_latest *latest;

enum { DOUBLES = 5 }; /* series from this one on have doubles */

/* Check numbers, which are 8, and extrema, which are from 3 to 8. Return how many have an error. */
static uint32_t doubles_are_right(void)
{
	double v[2];
	uint32_t n = 0;
	int e, first;

	for (size_t i = DOUBLES; i < percpu_reader_count(r); i++) {
		v[0] = v[1] = 77;
		first = series_of(i).kind == PERCPU_METRIC_EXTREMA ? 3 : 8;
		e = first == 3 ? percpu_reader_extrema(r, i, &v[0], &v[1]) :
				 percpu_reader_number(r, i, &v[0]);
		assert_true(e == 0 || e == -EAGAIN);
		assert_true(v[0] == (e == 0 ? first : 77));
		assert_true(v[1] == (e == 0 && first == 3 ? 8 : 77));
		n += e != 0;
	}
	return n;
}

/* Check all values. Return how many have an error. */
static uint32_t values_are_right(void)
{
	struct percpu_histogram_snapshot *shot = NULL;
	uint64_t n[2] = { 77, 77 }, out[2] = { 77, 77 };
	const int of_h = percpu_reader_histogram(r, 2, &shot);
	const int of_t = percpu_reader_stats(r, 3, out, 2);
	int e[2], of_l = 0;
	uint64_t when = 77;
	double v = 77;

	for (unsigned i = 0; i < 2; i++) {
		e[i] = percpu_reader_counter(r, i, &n[i]);
		assert_true(e[i] == 0 ? n[i] == 100 * (i + 1) : e[i] == -EAGAIN && n[i] == 77);
	}
	assert_true(of_h == 0 ? shot->count == 1 : of_h == -EAGAIN && shot == NULL);
	assert_true(of_t == 0 ? out[0] == 3 && out[1] == 4 : of_t == -EAGAIN && out[0] == 77);
	if (latest != NULL) {
		of_l = percpu_reader_number(r, 4, &v);
		assert_true(of_l == 0 ? v == 8 : of_l == -EAGAIN && v == 77);
		assert_int_equal(percpu_reader_when(r, 4, &when), of_l);
		assert_true((when == 77) == (of_l != 0));
	}
	percpu_histogram_snapshot_destroy(shot);
	return (e[0] != 0) + (e[1] != 0) + (of_h != 0) + (of_t != 0) + (of_l != 0) +
	       doubles_are_right();
}

static struct percpu_fgauge *fgauge;
static struct percpu_fcounter *fcounter;

static void declare_doubles(void)
{
	struct percpu_gauge *gauge;
	struct percpu_extrema *x;

	assert_int_equal(percpu_segment_fcounter(s, METRIC("f_total"), &fcounter), 0);
	assert_int_equal(percpu_fcounter_add(fcounter, 8), 0);
	assert_int_equal(percpu_segment_fgauge(s, METRIC("g"), &fgauge), 0);
	assert_int_equal(percpu_fgauge_set(fgauge, 8), 0);
	assert_int_equal(percpu_segment_gauge(s, METRIC("h"), &gauge), 0);
	assert_int_equal(percpu_gauge_set(gauge, 8), 0);
	assert_int_equal(percpu_segment_extrema(s, METRIC("x"), PERCPU_EXTREMA_DOUBLE, &x), 0);
	assert_int_equal(percpu_extrema_observe_double(x, 3), 0);
	assert_int_equal(percpu_extrema_observe_double(x, 8), 0);
}

static void declare_more(void)
{
	static const char *const names[] = { "x", "y" };
	const struct percpu_metric_fields f = { sizeof(f), "what", names, 2 };
	const uint64_t n[2] = { 3, 4 };
	struct percpu_histogram *h;
	struct percpu_stats *t;

	assert_int_equal(percpu_segment_histogram(s, METRIC("c"), NULL, &h), 0);
	assert_int_equal(percpu_segment_stats(s, METRIC("d_total"), &f, PERCPU_STATS_WHOLE, &t), 0);
	percpu_histogram_record(h, 1);
	assert_int_equal(percpu_stats_update(t, 0, 0, n, 2), 0);
	torn_where = some_word(&h->block, PERCPU_HISTOGRAM_HEAD, PERCPU_HISTOGRAM_HEAD + h->record);
	latest = NULL;
	if (!WIDE)
		return;
	assert_int_equal(percpu_segment_latest(s, METRIC("e"), &latest), 0);
	assert_int_equal(percpu_latest_set(latest, 8), 0);
	declare_doubles();
}

/* Take pictures whose time is over at each of their reads. The bias of set changes meanwhile. */
static void no_time_is_told(const void *set)
{
	bool late = true;
	uint32_t missing = 0, most = 0;
	int e;

	bias_where[0] = bias_of(set);
	for (late_at = 1; late; late_at++) {
		torn = torn_where != 0 ? 4 : 0;
		tear_biases(4);
		calls = 0;
		r->copied = 0;
		e = percpu_reader_read(r);
		late = calls >= late_at;
		assert_true(e == 0 || (late && e == -EAGAIN));
		if (e != 0) {
			assert_int_equal(percpu_reader_count(r), 0);
			assert_non_null(strstr(percpu_error(), "time"));
			continue;
		}
		missing = values_are_right();
		assert_int_equal(info_of().missing, missing);
		if (missing != 0)
			assert_non_null(strstr(percpu_error(), "time"));
		most = missing > most ? missing : most;
	}
	assert_int_equal(missing, 0);
	assert_true(most >= 4 && late_at > 20);
}

static void each_moment_may_be_too_late(void **state)
{
	(void)state;
	declare_more();
	no_time_is_told(b);
	if (latest != NULL) {
		no_time_is_told(latest);
		no_time_is_told(fcounter);
		no_time_is_told(fgauge);
	}
	assert_int_equal(percpu_reader_set_consistent(r), 0);
	no_time_is_told(b);
}

/* Doubles are added up in the order of lanes, as percpu_fcounter_fetch() does. */
static void doubles_are_added_up_in_order(void **state)
{
	struct percpu_fcounter *c = NULL;
	const struct percpu_chunk *k;
	const double values[] = { 1, 1e16, -1e16 };
	double sum = -1;

	(void)state;
	assert_int_equal(percpu_segment_fcounter(s, METRIC("f_total"), &c), 0);
	k = percpu_chunk_of(c);
	for (uint32_t i = 0; i < 3; i++)
		memcpy(percpu_chunk_lane(k, i, (size_t)((char *)c - k->base)), &values[i], 8);
	assert_int_equal(take(), 0);
	assert_int_equal(percpu_reader_number(r, 2, &sum), 0);
	assert_true(sum == 0 && percpu_fcounter_fetch(c) == 0);
}

int main(void)
{
#define EACH(f) cmocka_unit_test_setup_teardown(f, make_reads, remove_segment)
	const struct CMUnitTest tests[] = {
		EACH(reads_that_are_cut_short_go_on),
		EACH(interrupted_reads_are_repeated),
		EACH(errors_are_told),
		EACH(a_histogram_is_of_one_moment),
		EACH(extrema_are_of_one_moment),
		EACH(statistics_are_of_one_moment),
		EACH(units_are_read_64_times_more),
		EACH(each_read_that_fails_is_told),
		EACH(each_moment_may_be_too_late),
		EACH(doubles_are_added_up_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
