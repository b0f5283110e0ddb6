/* SPDX-License-Identifier: MIT */
/*
 * test_reader_steps.c - changes by another process between two steps of a reader, and between
 * two of its reads from the file: no value is one that the metric never had.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/seq.h>

#include "steps.h"
#include "support.h"
#include "reader_calls.h"

#include "segment/reader.h"

/* The function meanwhile runs at a step of that name, or before a byte of the file is read. */
static const char *waits_when;
static uint64_t waits_where;
static unsigned skips; /* so many reads before it */
static bool always;
static void (*meanwhile)(void);
static const char *dies_when; /* the step at which the process dies; NULL: none */
static unsigned looked_at;    /* number of records */

static void happen(void)
{
	static bool within;
	void (*fn)(void) = meanwhile;

	if (within)
		return;
	within = true;
	if (!always) {
		waits_when = NULL;
		waits_where = 0;
	}
	fn();
	within = false;
}

void test_step(const char *name)
{
	if (waits_when != NULL && strcmp(name, waits_when) == 0)
		happen();
	looked_at += strcmp(name, "directory: size checked") == 0;
	if (dies_when != NULL && strcmp(name, dies_when) == 0)
		raise(SIGKILL);
}

ssize_t __real_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at)
{
	const uint64_t from = (uint64_t)at;

	if (waits_where >= from && waits_where < from + n && waits_where != 0 &&
	    (skips == 0 || skips-- == 0))
		happen();
	return __real_pread64(fd, to, n, at);
}

static int make_steps(void **state)
{
	waits_when = NULL;
	waits_where = skips = 0;
	always = false;
	return make_two(state);
}

/* Take a picture, and call fn at a step of the reader. */
static size_t look_when(const char *step, void (*fn)(void))
{
	meanwhile = fn;
	waits_when = step;
	assert_int_equal(take(), 0);
	assert_null(waits_when);
	return percpu_reader_count(r);
}

/* Take a picture, and call fn before the reader reads a cell's lane. */
static size_t look_before(const void *cell, uint32_t lane, void (*fn)(void))
{
	const struct percpu_chunk *k = percpu_chunk_of(cell);

	meanwhile = fn;
	waits_where = percpu_reader_file_offset(r, k->index, lane,
						(size_t)((const char *)cell - k->base));
	assert_int_equal(take(), 0);
	assert_int_equal(waits_where, 0);
	return percpu_reader_count(r);
}

/* Another thread closes the reader's descriptor, and opens another file, which has its number. */

static void open_zeros(void)
{
	const int zeros = open("/dev/zero", O_RDONLY);

	assert_int_equal(dup2(zeros, r->fd), r->fd);
	close(zeros);
}

/* A copy of the file, in which nothing has changed. */
static void open_copy(void)
{
	const int from = open(path, O_RDONLY), to = memfd_create("copy", 0);
	off_t at = 0, end = lseek(from, 0, SEEK_END);

	assert_int_equal(ftruncate(to, end), 0);
	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		end = lseek(from, at, SEEK_HOLE);
		assert_int_equal(lseek(to, at, SEEK_SET), at);
		while (at < end)
			assert_true(sendfile(to, from, &at, (size_t)(end - at)) > 0);
	}
	assert_int_equal(dup2(to, r->fd), r->fd);
	close(to);
	close(from);
}

static void closed_descriptors_amid_pictures_are_told(void **state)
{
	(void)state;
	test_may_leave_descriptors();
	meanwhile = open_copy;
	waits_when = "reader: lanes added up";
	assert_int_equal(take(), -EBADF);
	assert_null(waits_when);
}

static void closed_descriptors_amid_cpus_are_told(void **state)
{
	const struct percpu_chunk *k = percpu_chunk_of(a);
	double out = 77;

	(void)state;
	test_may_leave_descriptors();
	assert_int_equal(look(), 2);
	meanwhile = open_zeros;
	waits_where = percpu_reader_file_offset(r, k->index, 0, (size_t)((char *)a - k->base));
	assert_int_equal(percpu_reader_cpus(r, 0, &out, 1), -EBADF);
	assert_int_equal(waits_where, 0);
	assert_string_equal(percpu_error(), "the program has closed the file's descriptor");
	assert_true(out == 77);
}

/* Biases and lanes */

static void add_and_reset(void)
{
	percpu_counter_add(a, 50);
	percpu_counter_zero(a);
}

/* If lanes were read first, the value would be -50. */
static void biases_are_read_before_lanes(void **state)
{
	(void)state;
	assert_int_equal(look_when("reader: biases copied", add_and_reset), 2);
	assert_int_equal(count_of(0), 0);
	assert_int_equal(take(), 0);
	assert_int_equal(count_of(0), 0);
}

static struct percpu_fcounter *fcounter;
static struct percpu_stats *stats;

static void add_reset_and_add(void)
{
	uint64_t out[2];

	percpu_counter_add(a, 50);
	percpu_counter_zero(a);
	percpu_counter_add(a, 3);
	assert_int_equal(percpu_fcounter_add(fcounter, 50), 0);
	percpu_fcounter_zero(fcounter);
	assert_int_equal(percpu_fcounter_add(fcounter, 3), 0);
	percpu_stats_add(stats, 0, 1, 50);
	assert_int_equal(percpu_stats_fetch_zero(stats, 0, 1, out), 0);
	percpu_stats_add(stats, 0, 1, 3);
}

/* The values were 100, 150, 0, and 3; never 153. */
static void what_was_reset_is_read_again(void **state)
{
	static const char *const names[] = { "x", "y" };
	const struct percpu_metric_fields f = { sizeof(f), "what", names, 2 };
	uint64_t out[2] = { 77, 77 };
	double number = 77;

	(void)state;
	assert_int_equal(percpu_segment_fcounter(s, METRIC("c_total"), &fcounter), 0);
	assert_int_equal(percpu_segment_stats(s, METRIC("d_total"), &f, 0, &stats), 0);
	assert_int_equal(percpu_fcounter_add(fcounter, 100), 0);
	percpu_stats_add(stats, 0, 1, 100);
	assert_int_equal(look_when("reader: biases copied", add_reset_and_add), 4);
	assert_int_equal(count_of(0), 3);
	assert_int_equal(percpu_reader_number(r, 2, &number), 0);
	assert_true(number == 3);
	assert_int_equal(percpu_reader_stats(r, 3, out, 2), 0);
	assert_int_equal(out[1], 3);
}

/* Add as a thread without sequences does on a CPU, in a lane that was not used before, and
 * reset. */
static void add_elsewhere_and_reset(void)
{
	const struct percpu_chunk *k = percpu_chunk_of((const char *)a);
	const uint32_t lane = k->cpus - 1;

	assert_int_equal(k->header->atomic_lanes[lane / 64] >> lane % 64 & 1, 0);
	*(uint64_t *)percpu_chunk_lane(k, k->cpus + lane, (size_t)((char *)a - k->base)) = 50;
	k->header->atomic_lanes[lane / 64] |= UINT64_C(1) << lane % 64;
	percpu_counter_zero(a);
}

/* A lane is used for the first time, and the bias takes its value back. */
static void used_lanes_are_read_after_biases(void **state)
{
	const uint32_t bias = 2 * percpu_chunk_of((const char *)a)->cpus;

	(void)state;
	assert_int_equal(take(), 0);
	forget();
	assert_int_equal(look_before(a, bias, add_elsewhere_and_reset), 2);
	assert_int_equal(count_of(0), 0);
}

/* Each chunk has its own used lanes: a thread without sequences counts in a lane of the last
 * chunk alone. */

static void add_chunk(void)
{
	const uint32_t n = s->region->n;
	void *cell;

	while (s->region->n == n)
		assert_int_equal(percpu_region_alloc(s->region, PERCPU_LANE_SIZE / 2, 8, &cell), 0);
}

static struct percpu_counter *last;
static struct percpu_gauge *last_gauge;

static int add_in_last_chunk(void *arg)
{
	(void)arg;
	test_unregister(percpu_seq_attach());
	percpu_counter_add(last, 50);
	if (last_gauge != NULL)
		percpu_gauge_add(last_gauge, 50);
	return 0;
}

static void set_last(void)
{
	assert_int_equal(percpu_gauge_set(last_gauge, 7), 0);
}

static void lanes_are_used_in_each_chunk(void **state)
{
	const uint32_t n = s->region->n;
	int64_t level = 0;

	(void)state;
	add_chunk();
	last = counter("c_total");
	last_gauge = NULL;
	if (WIDE)
		assert_int_equal(percpu_segment_gauge(s, METRIC("d"), &last_gauge), 0);
	assert_int_equal(percpu_chunk_of((const char *)last)->index, n);
	test_in_child(add_in_last_chunk, NULL);
	assert_int_equal(look(), WIDE ? 4 : 3);
	assert_int_equal(count_of(0), 100);
	assert_int_equal(count_of(2), 50);
	if (!WIDE)
		return;
	assert_int_equal(percpu_reader_gauge(r, 3, &level), 0);
	assert_int_equal(level, 50);
	assert_int_equal(look_when("reader: biases copied", set_last), 4);
	assert_int_equal(percpu_reader_gauge(r, 3, &level), 0);
	assert_int_equal(level, 7);
}

static struct percpu_gauge *gauge;
static struct percpu_fgauge *fgauge;
static struct percpu_histogram *histogram;
static struct percpu_extrema *extrema;

static void set_and_add(void)
{
	bool ok = true;

	if (WIDE) {
		ok = percpu_gauge_set(gauge, 7) == 0 && percpu_fgauge_set(fgauge, 7) == 0 &&
		     percpu_fgauge_add(fgauge, 1000) == 0;
		percpu_gauge_add(gauge, 1000);
	}
	ok = ok && percpu_histogram_zero(histogram, 0) == 0 && percpu_extrema_reset(extrema) == 0 &&
	     percpu_extrema_observe(extrema, 9) == 0;
	percpu_histogram_record(histogram, 1);
	percpu_histogram_record(histogram, 1);
	assert_true(ok);
}

/* Each object had one value before, and another one after. The lanes of now and the biases of
 * before would make a third one. */
static void what_was_set_is_read_again(void **state)
{
	struct percpu_histogram_snapshot *shot = NULL;
	double min = 0, max = 0, number = 0;
	int64_t level = 0;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("c"), NULL, &histogram), 0);
	assert_int_equal(percpu_segment_extrema(s, METRIC("d"), 0, &extrema), 0);
	if (WIDE) {
		assert_int_equal(percpu_segment_gauge(s, METRIC("e"), &gauge), 0);
		assert_int_equal(percpu_segment_fgauge(s, METRIC("f"), &fgauge), 0);
		percpu_gauge_add(gauge, 5);
		assert_int_equal(percpu_fgauge_add(fgauge, 5), 0);
	}
	percpu_histogram_record(histogram, 1);
	assert_int_equal(percpu_extrema_observe(extrema, 4), 0);
	assert_int_equal(look_when("reader: biases copied", set_and_add), WIDE ? 6 : 4);
	assert_int_equal(percpu_reader_histogram(r, 2, &shot), 0);
	assert_int_equal(shot->count, 2);
	percpu_histogram_snapshot_destroy(shot);
	assert_int_equal(percpu_reader_extrema(r, 3, &min, &max), 0);
	assert_true(min == 9 && max == 9);
	if (!WIDE)
		return;
	assert_int_equal(percpu_reader_gauge(r, 4, &level), 0);
	assert_int_equal(level, 1007);
	assert_int_equal(percpu_reader_number(r, 5, &number), 0);
	assert_true(number == 1007);
}

static void add_and_set(void)
{
	percpu_gauge_add(gauge, 1000);
	assert_int_equal(percpu_gauge_set(gauge, 7), 0);
}

/* The gauge is set after its lanes were read, and before its bias is read again. */
static void what_is_set_late_is_read_again(void **state)
{
	int64_t level = 0;

	(void)state;
	if (!WIDE)
		test_skip("no gauges in files here");
	assert_int_equal(percpu_segment_gauge(s, METRIC("e"), &gauge), 0);
	percpu_gauge_add(gauge, 5);
	skips = 1;
	assert_int_equal(
		look_before(gauge, 2 * percpu_chunk_of((const char *)gauge)->cpus, add_and_set), 3);
	assert_int_equal(percpu_reader_gauge(r, 2, &level), 0);
	assert_int_equal(level, 7);
}

static void set_again(void)
{
	static int64_t n;

	assert_int_equal(percpu_gauge_set(gauge, ++n), 0);
}

static void set_double_again(void)
{
	static double n;

	assert_int_equal(percpu_fgauge_set(fgauge, ++n), 0);
}

static struct percpu_fcounter *fcounter;

static void reset_double_again(void)
{
	assert_int_equal(percpu_fcounter_add(fcounter, 1), 0);
	percpu_fcounter_zero(fcounter);
}

static void reset_again(void)
{
	percpu_counter_add(a, 1);
	percpu_counter_zero(a);
}

/* Assert that series i, the object, has no value while it changes at each read, and that all
 * others have one. */
static void expect_not_there(const void *object, void (*change)(void), size_t i)
{
	const struct percpu_chunk *k = percpu_chunk_of(object);
	const bool counts = series_of(i).kind == PERCPU_METRIC_COUNTER;
	const bool is_level = series_of(i).kind == PERCPU_METRIC_GAUGE;
	uint64_t count = 77;
	int64_t level = 77;
	double number = 77;

	always = true;
	meanwhile = change;
	waits_where = percpu_reader_file_offset(r, k->index, 2 * k->cpus,
						(size_t)((const char *)object - k->base));
	assert_int_equal(take(), 0);
	waits_where = 0;
	assert_int_equal(percpu_reader_counter(r, i, &count), counts ? -EAGAIN : -EINVAL);
	assert_int_equal(percpu_reader_gauge(r, i, &level), is_level ? -EAGAIN : -EINVAL);
	assert_int_equal(percpu_reader_number(r, i, &number), -EAGAIN);
	assert_non_null(strstr(percpu_error(), "others changed"));
	assert_true(count == 77 && level == 77 && number == 77);
	assert_int_equal(count_of(1), 200);
	assert_int_equal(info_of().missing, 1);
	forget();
	assert_int_equal(take(), 0);
	assert_int_equal(percpu_reader_number(r, i, &number), 0);
	assert_int_equal(info_of().missing, 0);
}

static void what_is_reset_all_the_time_is_not_there(void **state)
{
	(void)state;
	assert_int_equal(percpu_segment_fcounter(s, METRIC("c_total"), &fcounter), 0);
	assert_int_equal(look(), 3);
	expect_not_there(a, reset_again, 0);
	expect_not_there(fcounter, reset_double_again, 2);
}

static void what_is_set_all_the_time_is_not_there(void **state)
{
	(void)state;
	if (!WIDE)
		test_skip("no gauges in files here");
	assert_int_equal(percpu_segment_gauge(s, METRIC("e"), &gauge), 0);
	assert_int_equal(percpu_segment_fgauge(s, METRIC("f"), &fgauge), 0);
	assert_int_equal(look(), 4);
	expect_not_there(gauge, set_again, 2);
	expect_not_there(fgauge, set_double_again, 3);
}

/* More series than are read again at once, and some that have nothing in the CPUs' lanes. */
enum { GAUGES = 80 };

static struct percpu_gauge *gauges[GAUGES];
static struct percpu_latest *latest[2];

static void set_latest(void)
{
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(percpu_latest_set(latest[i], 9 + i), 0);
}

static void set_many(void)
{
	set_latest();
	for (unsigned i = 0; i < GAUGES; i++) {
		percpu_gauge_add(gauges[i], 1000);
		assert_int_equal(percpu_gauge_set(gauges[i], 7 + i), 0);
	}
}

static double number_of(size_t i)
{
	double number = 77;

	assert_int_equal(percpu_reader_number(r, i, &number), 0);
	return number;
}

static void many_that_were_set_are_read_again(void **state)
{
	char name[16];

	(void)state;
	if (!WIDE)
		test_skip("no gauges in files here");
	assert_int_equal(percpu_segment_latest(s, METRIC("c"), &latest[0]), 0);
	for (unsigned i = 0; i < GAUGES; i++) {
		snprintf(name, sizeof(name), "d%02u", i);
		assert_int_equal(percpu_segment_gauge(s, METRIC(name), &gauges[i]), 0);
		percpu_gauge_add(gauges[i], 5);
	}
	assert_int_equal(percpu_segment_latest(s, METRIC("e"), &latest[1]), 0);
	assert_int_equal(look_when("reader: biases copied", set_many), 4 + GAUGES);
	assert_true(number_of(2) == 9 && number_of(3 + GAUGES) == 10);
	for (unsigned i = 0; i < GAUGES; i++)
		assert_true(number_of(3 + i) == 7 + i);
	skips = 1; /* the read after the lanes */
	assert_int_equal(look_before(gauges[0], 2 * percpu_chunk_of((const char *)gauges[0])->cpus,
				     set_many),
			 4 + GAUGES);
	for (unsigned i = 0; i < GAUGES; i++)
		assert_true(number_of(3 + i) == 7 + i);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(percpu_latest_set(latest[i], 1), 0);
	assert_int_equal(look_when("reader: biases copied", set_latest), 4 + GAUGES);
	assert_true(number_of(2) == 9 && number_of(3 + GAUGES) == 10);
}

/* Statistics behind a gauge: a part of their biases is near the gauge's, and the rest is not. */
enum { ROWS = 40 };

static struct percpu_stats *rows[ROWS];

static void reset_rows(void)
{
	uint64_t out[2];

	assert_int_equal(percpu_gauge_set(gauge, 7), 0);
	for (unsigned i = 0; i < ROWS; i++) {
		percpu_stats_add(rows[i], 0, 0, 50);
		assert_int_equal(percpu_stats_fetch_zero(rows[i], 0, 1, out), 0);
		percpu_stats_add(rows[i], 0, 1, 3 + i);
	}
}

static void rows_are_right(size_t first)
{
	uint64_t out[2];

	assert_true(number_of(first - 1) == 7);
	for (unsigned i = 0; i < ROWS; i++) {
		assert_int_equal(percpu_reader_stats(r, first + i, out, 2), 0);
		assert_int_equal(out[0], 0);
		assert_int_equal(out[1], 3 + i);
	}
}

static void what_reaches_far_is_read_apart(void **state)
{
	static const char *const names[] = { "x", "y" };
	const struct percpu_metric_fields f = { sizeof(f), "what", names, 2 };
	size_t n = 2;
	char name[16];

	(void)state;
	if (!WIDE)
		test_skip("no gauges in files here");
	do { /* until it is the last one of a cache line */
		snprintf(name, sizeof(name), "c%zu", n);
		assert_int_equal(percpu_segment_gauge(s, METRIC(name), &gauge), 0);
		n++;
	} while ((uintptr_t)gauge % 64 != 48);
	for (unsigned i = 0; i < ROWS; i++) {
		snprintf(name, sizeof(name), "d%02u_total", i);
		assert_int_equal(
			percpu_segment_stats(s, METRIC(name), &f, PERCPU_STATS_WHOLE, &rows[i]), 0);
		percpu_stats_add(rows[i], 0, 0, 100);
	}
	assert_int_equal(look_when("reader: biases copied", reset_rows), n + ROWS);
	rows_are_right(n);
	assert_int_equal(look(), n + ROWS);
	rows_are_right(n);
}

/* The object is in the picture, and no longer in the file. */

static uint64_t starts[PERCPU_UNITS / 64];

static void spoil_chunk(void)
{
	struct percpu_header *h = stats->block.chunk->header;

	memcpy(starts, h->starts, sizeof(starts));
	memset(h->starts, 0, sizeof(starts));
}

static void add_to_both(void)
{
	percpu_stats_add(stats, 0, 0, 10);
	percpu_stats_add(stats, 0, 1, 10);
}

static void statistics_that_are_none_any_more_are_missing(void **state)
{
	static const char *const names[] = { "x", "y" };
	const struct percpu_metric_fields f = { sizeof(f), "what", names, 2 };
	uint64_t out[2] = { 77, 77 };

	(void)state;
	assert_int_equal(percpu_segment_stats(s, METRIC("c_total"), &f, 0, &stats), 0);
	percpu_stats_add(stats, 0, 1, 3);
	assert_int_equal(percpu_reader_set_consistent(r), 0);
	meanwhile = spoil_chunk;
	waits_when = "reader: biases copied";
	assert_int_equal(percpu_reader_read(r), 0);
	assert_null(waits_when);
	assert_int_equal(percpu_reader_stats(r, 2, out, 2), -ENOENT);
	assert_true(out[0] == 77 && out[1] == 77);
	assert_non_null(strstr(percpu_error(), "no consistent snapshot"));
	assert_int_equal(info_of().missing, 1);
	assert_int_equal(count_of(1), 200);
	memcpy(stats->block.chunk->header->starts, starts, sizeof(starts));
	/* The value is a snapshot: it does not have what CPUs add after its begin. */
	assert_int_equal(look_when("stats: bank changed", add_to_both), 3);
	assert_int_equal(percpu_reader_stats(r, 2, out, 2), 0);
	if (test_tier() == PERCPU_TIER_RSEQ)
		assert_true(out[0] == 0 && out[1] == 3);
	assert_int_equal(info_of().missing, 0);
	assert_int_equal(take(), 0);
	assert_int_equal(percpu_reader_stats(r, 2, out, 2), 0);
	assert_true(out[0] == 10 && out[1] == 13);
}

/* The directory */

static void declare_one(void)
{
	struct percpu_counter *c = NULL;

	assert_int_equal(percpu_segment_counter(s, METRIC("c_total"), &c), 0);
	percpu_counter_add(c, 7);
}

/* The allocator's bits are copied after the records. */
static void what_was_declared_meanwhile_is_whole(void **state)
{
	const struct percpu_chunk *k =
		s->region->chunks->at[(s->control_key >> PERCPU_KEY_CHUNK_SHIFT) - 1];

	(void)state;
	assert_int_equal(
		look_before(k->base + s->control_key % (UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT),
			    2 * k->cpus, declare_one),
		3);
	assert_int_equal(info_of().pending, 0);
	assert_int_equal(count_of(2), 7);
}

static void start_anew_and_add(void)
{
	struct percpu_segment *t = NULL;

	assert_int_equal(percpu_segment_open(path, PERCPU_SEGMENT_ANEW, NULL, &t), 0);
	percpu_segment_close(t);
	percpu_counter_add(a, 5);
	percpu_counter_add(b, 5);
}

static void is_of_the_second_generation(uint64_t each)
{
	assert_int_equal(info_of().generation, 2);
	assert_int_equal(count_of(0), each);
	assert_int_equal(count_of(1), each);
}

static void a_new_start_makes_another_picture(void **state)
{
	static const char *const steps[] = { "reader: directory copied", "reader: biases copied",
					     "reader: lanes added up" };

	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(look_when(steps[i], start_anew_and_add), 2);
		is_of_the_second_generation(5);
		remove_segment(state);
		make_steps(state);
	}
	assert_int_equal(look_before(a, 0, start_anew_and_add), 2);
	is_of_the_second_generation(5);
}

/* A reset was killed before the picture, and another process completes it amid the picture: some
 * objects are reset before their bias is read, and others after. */
static void complete_start(void)
{
	struct percpu_segment *t = NULL;

	assert_int_equal(percpu_segment_open(path, 0, NULL, &t), 0);
	percpu_segment_close(t);
}

static void a_start_that_ends_meanwhile_is_waited_for(void **state)
{
	static const char *const steps[] = { "reader: directory copied", "reader: biases copied",
					     "reader: lanes added up" };

	for (size_t i = 0; i < 3; i++) {
		s->control->started[0] = s->control->started[1];
		s->control->generation = 2;
		percpu_counter_zero(b);
		assert_int_equal(look_when(steps[i], complete_start), 2);
		is_of_the_second_generation(0);
		remove_segment(state);
		make_steps(state);
	}
}

/* The damage is there only while a reset ends: neither the picture before nor the one after has
 * it. */
static void mend_block(void)
{
	s->control->block[0]--;
	s->control->completed = s->control->generation;
}

static void damage_amid_a_start_is_looked_at_again(void **state)
{
	(void)state;
	assert_int_equal(look(), 2);
	s->control->block[0]++;
	s->control->completed = 0;
	meanwhile = mend_block;
	skips = 1; /* before the headers are read a second time */
	waits_where = offsetof(struct percpu_header, version);
	assert_int_equal(look(), 2);
	assert_int_equal(waits_where, 0);
	assert_int_equal(count_of(0), 100);
	assert_int_equal(count_of(1), 200);
}

/* Fail with a sentence that calls which succeed must leave. */
static void fail_otherwise(void)
{
	assert_int_equal(percpu_reader_read(NULL), -EINVAL);
}

static void nothing_is_told(void)
{
	assert_string_equal(percpu_error(), "the reader is NULL");
}

static unsigned resets;

static void reset_segment(void)
{
	s->control->started[0] = s->control->started[1] = percpu_segment_now(s);
	s->control->generation++;
	s->control->completed++;
	resets++;
}

static void resets_again_and_again_are_told(void **state)
{
	(void)state;
	fail_otherwise();
	assert_int_equal(look_when("reader: lanes added up", reset_segment), 2);
	nothing_is_told(); /* the picture was taken */
	always = true;
	resets = 0;
	waits_when = "reader: lanes added up";
	assert_int_equal(take(), -EAGAIN);
	assert_int_equal(resets, 16);
	assert_int_equal(percpu_reader_count(r), 0);
	assert_non_null(strstr(percpu_error(), "is being reset"));
	/* The error is that of the last picture that failed. */
	always = false;
	assert_int_equal(look_when("reader: directory copied", reset_segment), 2);
	assert_non_null(strstr(percpu_error(), "is being reset"));
}

/* For a moment the end of all records is where no block is. */
static void shorten(void)
{
	s->control->end -= 2 * PERCPU_SEGMENT_BLOCK;
}

static void lengthen(void)
{
	s->control->end += 2 * PERCPU_SEGMENT_BLOCK;
	meanwhile = shorten;
	waits_where = offsetof(struct percpu_header, version); /* when it is read again */
}

/* For a moment the first header is damaged. */
static void mend_header(void)
{
	s->region->first->header->lane_size--;
}

static void hurt_header(void)
{
	s->region->first->header->lane_size++;
	meanwhile = mend_header;
	waits_where = offsetof(struct percpu_header, version);
}

static void what_is_tried_again_is_not_told(void **state)
{
	const struct percpu_chunk *k = percpu_chunk_of(r->cell);
	struct percpu_reader *other = NULL;
	const uint64_t end = s->control->end;

	(void)state;
	fail_otherwise();
	meanwhile = hurt_header;
	waits_where = offsetof(struct percpu_header, version);
	assert_int_equal(percpu_reader_open(path, &other), 0);
	assert_int_equal(waits_where, 0);
	assert_ptr_equal(meanwhile, mend_header);
	nothing_is_told();
	meanwhile = lengthen;
	waits_where =
		percpu_reader_file_offset(r, k->index, 2 * r->cpus, (size_t)(r->cell - k->base));
	assert_int_equal(percpu_reader_read(other), 0);
	assert_int_equal(waits_where, 0);
	assert_int_equal(s->control->end, end);
	nothing_is_told();
	percpu_reader_close(other);
}

/* So many that listing them costs more than reading their values. */
enum { LISTED = 12000 };

/* Let the reader list them, and return how many records it looked at. */
static unsigned list_many(void)
{
	char name[16];

	for (unsigned i = 0; i < LISTED; i++) {
		snprintf(name, sizeof(name), "m%u_total", i);
		counter(name);
	}
	looked_at = 0;
	assert_int_equal(look(), 2 + LISTED);
	r->copied = 0;
	return looked_at;
}

/* A list is given up if the segment is reset before its end. */
static void a_list_of_what_is_reset_is_given_up(void **state)
{
	const unsigned quiet = list_many();

	(void)state;
	assert_true(quiet >= 2 * LISTED); /* to count them, and to list them */
	looked_at = 0;
	fail_otherwise();
	assert_int_equal(look_when("reader: records listed", reset_segment), 2 + LISTED);
	assert_in_range(looked_at, quiet + LISTED, quiet + LISTED + LISTED / 4);
	nothing_is_told();
}

/* Looking at records is part of the budget: each list costs 12000 times 4 KiB, of 512 MiB in
 * all. */
static void lists_of_many_have_a_budget(void **state)
{
	const unsigned quiet = list_many();

	(void)state;
	always = true;
	resets = looked_at = 0;
	meanwhile = reset_segment;
	waits_when = "reader: lanes added up";
	assert_int_equal(take(), -EAGAIN);
	assert_in_range(resets, 9, 11);
	assert_true(looked_at <= 11 * quiet);
	assert_non_null(strstr(percpu_error(), "is being reset"));
	/* A picture that never gets to its list has a budget by the expected cost. */
	looked_at = 0;
	waits_when = "reader: directory copied";
	assert_int_equal(take(), -EAGAIN);
	assert_int_equal(looked_at, 0);
	assert_true(r->whole >= LISTED * PERCPU_NEAR);
}

/* Die amid an update, as a thread without sequences. */
static int update_and_die(void *arg)
{
	const uint64_t n[] = { 1000, 1000 };

	(void)arg;
	test_unregister(percpu_seq_attach());
	dies_when = "journal: stored";
	test_child_require(percpu_stats_update(stats, 0, 0, n, 2) == 0, "update");
	return 0;
}

/* Complete what the killed thread has written down, and add to both fields as a thread without
 * sequences does. */
static void complete_and_add(void)
{
	const uint64_t minus_5[] = { (uint64_t)-5, (uint64_t)-5 };
	struct percpu_chunk *k = stats->block.chunk;
	struct percpu_robust h;

	assert_int_equal(percpu_journal_lock(k, &h), 0);
	percpu_journal_add(k, percpu_stats_offset(stats, 0), minus_5, 2);
	percpu_robust_unlock(&h);
}

/* A killed thread leaves an update that no thread completes, or that is completed at a step of
 * the reader. The statistics are the last of n series. */
static void look_at_what_is_left(size_t n)
{
	static const char *const steps[] = { NULL, "reader: biases copied",
					     "reader: biases read again",
					     "reader: journal copied" };
	uint64_t out[2];

	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(test_wait(test_fork(update_and_die, NULL), 60), SIGKILL);
		assert_int_equal(look_when(steps[i], complete_and_add), n);
		assert_int_equal(percpu_reader_stats(r, n - 1, out, 2), 0);
		assert_int_equal(out[0], 1000 * (i + 1) + 5 * i);
		assert_int_equal(out[1], 1000 * (i + 1) + 5 * i);
		assert_int_equal(percpu_journal_recover(stats->block.chunk, 0), 0);
	}
}

/* The same in any chunk. */
static void what_a_killed_thread_left_is_whole(void **state)
{
	static const char *const names[] = { "x", "y" };
	const struct percpu_metric_fields f = { sizeof(f), "what", names, 2 };

	(void)state;
	if (!percpu_robust_supported())
		test_skip("no get_robust_list()");
	assert_int_equal(percpu_segment_stats(s, METRIC("d_total"), &f, 0, &stats), 0);
	look_at_what_is_left(3);
	add_chunk();
	assert_int_equal(percpu_segment_stats(s, METRIC("e_total"), &f, 0, &stats), 0);
	look_at_what_is_left(4);
}

int main(void)
{
#define EACH(f) cmocka_unit_test_setup_teardown(f, make_steps, remove_segment)
	const struct CMUnitTest tests[] = {
		EACH(biases_are_read_before_lanes),
		EACH(what_was_reset_is_read_again),
		EACH(used_lanes_are_read_after_biases),
		EACH(lanes_are_used_in_each_chunk),
		EACH(what_was_set_is_read_again),
		EACH(what_is_set_late_is_read_again),
		EACH(what_is_reset_all_the_time_is_not_there),
		EACH(what_is_set_all_the_time_is_not_there),
		EACH(many_that_were_set_are_read_again),
		EACH(what_reaches_far_is_read_apart),
		EACH(statistics_that_are_none_any_more_are_missing),
		EACH(what_was_declared_meanwhile_is_whole),
		EACH(a_new_start_makes_another_picture),
		EACH(a_start_that_ends_meanwhile_is_waited_for),
		EACH(damage_amid_a_start_is_looked_at_again),
		EACH(resets_again_and_again_are_told),
		EACH(what_is_tried_again_is_not_told),
		EACH(a_list_of_what_is_reset_is_given_up),
		EACH(lists_of_many_have_a_budget),
		EACH(closed_descriptors_amid_pictures_are_told),
		EACH(closed_descriptors_amid_cpus_are_told),
		EACH(what_a_killed_thread_left_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
