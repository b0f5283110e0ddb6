/* SPDX-License-Identifier: MIT */
/*
 * test_reader_reads.c - how readers read from a file: reads that are cut short, interrupted, or fail;
 * words that change together; and the order in which lanes are added up.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "../support.h"
#include "reader_calls.h"

#include "segment/reader.h"

static size_t at_most; /* bytes in one read; 0: any number */
static unsigned calls; /* reads */
static int fails_with; /* 0: they do not; EINTR: each other one */

/* The word that is there is read as another one, so many times. */
static uint64_t torn_where;
static unsigned torn;

ssize_t __real_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at)
{
	const uint64_t from = (uint64_t)at;
	uint64_t word;
	ssize_t got;

	if (fails_with != 0 && (fails_with != EINTR || calls++ % 2 == 0)) {
		errno = fails_with;
		return -1;
	}
	got = __real_pread64(fd, to, at_most != 0 && n > at_most ? at_most : n, at);
	if (torn != 0 && torn_where >= from && torn_where + sizeof(word) <= from + n) {
		memcpy(&word, (char *)to + (torn_where - from), sizeof(word));
		word += torn--;
		memcpy((char *)to + (torn_where - from), &word, sizeof(word));
	}
	return got;
}

static int make_reads(void **state)
{
	at_most = torn = 0;
	fails_with = 0;
	return make_two(state);
}

/* Reads */

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
	assert_string_equal(percpu_reader_error(r), "cannot read the file");
	assert_int_equal(percpu_reader_open(path, &none), -EIO);
	assert_null(none);
	fails_with = 0;
	assert_int_equal(take(), 0);
	assert_int_equal(count_of(1), 200);
}

/* Words that change together */

/* Find a word of an object that is not 0, in the lane of a CPU, behind a few first bytes. */
static uint64_t some_word(const struct percpu_block *of, size_t from, size_t to)
{
	const struct percpu_chunk *k = of->chunk;
	const size_t offset = (size_t)((const char *)of->base - k->base);

	for (uint32_t lane = 0; lane < k->cpus; lane++)
		for (size_t i = from; i < to; i += sizeof(uint64_t))
			if (*(const uint64_t *)percpu_chunk_lane(k, lane, offset + i) != 0)
				return percpu_reader_place(r, k->index, lane, offset + i);
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

/* Doubles are added up in the order of lanes, as by those who read in the file. */
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
		EACH(doubles_are_added_up_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
