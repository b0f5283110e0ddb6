/* SPDX-License-Identifier: MIT */
/*
 * test_reader_hostile.c - readers of damaged segments: which error is returned, what is not
 * believed, and that all values return when the damage is mended. At random:
 * tests/fuzz/reader.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "picture.h"
#include "declared.h"
#include "support.h"
#include "reader_calls.h"

#include "segment/segment.h"

static struct percpu_metric metric(const char *name)
{
	static const char *const labels[] = { "k" }, *const values[] = { "vv" };

	return (struct percpu_metric){ .size = sizeof(struct percpu_metric),
				       .name = name,
				       .help = "What it counts.",
				       .label_names = labels,
				       .label_values = values,
				       .labels = 1 };
}

static struct percpu_counter *counter_with(const char *name, int64_t n)
{
	const struct percpu_metric m = metric(name);
	struct percpu_counter *c = NULL;

	assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
	percpu_counter_add(c, n);
	return c;
}

/* Make two counters, and a reader that has seen them. */
static int make_both(void **state)
{
	(void)state;
	strcpy(path, test_path("reader"));
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	a = counter_with("a_total", 3);
	b = counter_with("b_total", 4);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(take(), 0);
	assert_int_equal(percpu_reader_count(r), 2);
	damage();
	return 0;
}

static struct percpu_segment_record *second(void)
{
	return percpu_directory_at(s, percpu_directory_at(s, 0)->size);
}

static struct percpu_segment_record *third(void)
{
	return percpu_directory_at(s, percpu_directory_at(s, 0)->size + second()->size);
}

/* Assert that this reader and a new one return the error, and why. */
static void are_told(int e, const char *word)
{
	struct percpu_reader *other = NULL;
	int now;

	assert_int_equal(take(), e);
	assert_int_equal(percpu_reader_count(r), 0);
	assert_non_null(strstr(percpu_error(), word));
	now = percpu_reader_open(path, &other);
	if (now == 0)
		now = percpu_reader_read(other);
	percpu_reader_close(other);
	assert_int_equal(now, e);
	assert_non_null(strstr(percpu_error(), word));
}

/* Assert that both counters are there again, and that so many records are passed over. */
static void is_mended_but(uint32_t pending)
{
	assert_int_equal(take(), 0);
	assert_int_equal(percpu_reader_count(r), 2);
	assert_int_equal(info_of().pending, pending);
	assert_int_equal(count_of(0), 3);
	assert_int_equal(count_of(1), 4);
}

static void is_mended(void)
{
	is_mended_but(0);
}

static struct percpu_header *header(uint32_t chunk)
{
	return s->region->chunks->at[chunk]->header;
}

/* Headers. */

/* For a wrong number of chunks, no memory is kept. */
static void a_number_of_chunks_is_not_believed(void **state)
{
	const uint32_t n = header(0)->chunks;
	struct test_holding before;

	(void)state;
	is_mended();
	before = test_holding_now();
	header(0)->chunks = n + 1;
	are_told(-EBADMSG, "the file is");
	header(0)->chunks = PERCPU_MAX_FILE_CHUNKS;
	are_told(-EBADMSG, "the file is");
	header(0)->chunks = PERCPU_MAX_FILE_CHUNKS + 1;
	are_told(-EBADMSG, "chunks");
	header(0)->chunks = 0;
	are_told(-EBADMSG, "chunks");
	header(0)->chunks = n - 1;
	assert_int_equal(take(), -EBADMSG);
	test_assert_holding(before);
	header(0)->chunks = n;
	is_mended();
}

static void each_chunk_has_a_header_of_its_own(void **state)
{
	const struct percpu_header good = *header(1);
	char words[80];

	(void)state;
	memcpy(header(1), header(0), offsetof(struct percpu_header, root));
	are_told(-EBADMSG, "a header is not valid");
	memcpy(header(1), &good, offsetof(struct percpu_header, root));
	is_mended();
	header(1)->cpus = good.cpus + 1;
	are_told(-EBADMSG, "a header is not valid");
	header(1)->cpus = good.cpus;
	header(1)->magic = 0;
	are_told(-EBADMSG, "a header is not valid");
	header(1)->magic = good.magic;
	header(1)->lane_size = PERCPU_LANE_SIZE / 2;
	header(1)->stride = percpu_stride(PERCPU_LANE_SIZE / 2);
	are_told(-EBADMSG, "a header is not valid");
	header(1)->lane_size = good.lane_size;
	header(1)->stride = good.stride;
	header(1)->version += 1;
	snprintf(words, sizeof(words), "is of version %u, and not of %u,", PERCPU_FORMAT_MAJOR + 1,
		 PERCPU_FORMAT_MAJOR);
	are_told(-EPROTO, words);
	header(1)->version -= 1;
	is_mended();
}

/* The directory. */

static void roots_that_lead_nowhere_are_told(void **state)
{
	const uint64_t key = header(0)->root[PERCPU_SEGMENT_ROOT];

	(void)state;
	header(0)->root[PERCPU_SEGMENT_ROOT] = 0;
	assert_int_equal(take(), -EBADMSG); /* it was damaged */
	header(0)->root[PERCPU_SEGMENT_ROOT] = key + 64;
	are_told(-EBADMSG, "directory");
	header(0)->root[PERCPU_SEGMENT_ROOT] =
		key ^ UINT64_C(1) << PERCPU_KEY_KIND_SHIFT; /* another kind */
	are_told(-EBADMSG, "directory");
	header(0)->root[PERCPU_SEGMENT_ROOT] = key;
	is_mended();
}

static void other_versions_are_refused(void **state)
{
	(void)state;
	s->control->version++;
	are_told(-EPROTO, "version");
	s->control->version--;
	is_mended();
}

/* All blocks are there, and are the same one: the records would be many times larger than the
 * file. */
static void records_have_room_in_the_file(void **state)
{
	const uint64_t end = s->control->end;

	(void)state;
	for (size_t i = 1; i < PERCPU_SEGMENT_BLOCKS; i++)
		s->control->block[i] = s->control->block[0];
	s->control->end = UINT64_MAX;
	are_told(-EBADMSG, "no room for its directory");
	s->control->end = s->region->n * (uint64_t)PERCPU_LANE_SIZE + 8;
	are_told(-EBADMSG, "no room for its directory");
	memset(&s->control->block[1], 0, sizeof(s->control->block) - sizeof(uint64_t));
	s->control->end = PERCPU_SEGMENT_BLOCK + 8;
	are_told(-EBADMSG, "directory");
	s->control->end = end;
	is_mended();
}

/* Records behind the end were there before, in the reader's memory, too. They are not returned,
 * and not read. */
static void records_are_before_the_end(void **state)
{
	const uint64_t end = s->control->end, first = percpu_directory_at(s, 0)->size;
	const uint64_t ends[] = { first + 8, end - 8, first, first - 8, 8 };

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		s->control->end = ends[i];
		assert_int_equal(take(), 0);
		assert_int_equal(percpu_reader_count(r), ends[i] >= first);
		s->control->end = end;
		is_mended();
	}
}

/* For a while, the chunk of the counters seems to have a block of records. */
static void where_records_were_is_forgotten(void **state)
{
	const struct percpu_metric m = metric("level");
	struct percpu_owned_gauge *level;
	struct percpu_header good;
	uint64_t end;
	int64_t n = 0;

	(void)state;
	assert_int_equal(percpu_segment_owned_gauge(s, &m, PERCPU_OWNED_SUM, &level), 0);
	assert_int_equal(percpu_owned_gauge_set(level, 5), 0);
	good = *header(0);
	end = s->control->end;
	assert_int_equal(s->control_key, UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT);
	memset(header(0)->used, 0xff, sizeof(good.used));
	memset(header(0)->starts, 0, sizeof(good.starts));
	header(0)->starts[0] = 1;
	s->control->block[1] = s->control_key;
	s->control->end = PERCPU_SEGMENT_BLOCK + 8;
	assert_int_equal(take(), 0);
	memcpy(header(0)->used, good.used, sizeof(good.used));
	memcpy(header(0)->starts, good.starts, sizeof(good.starts));
	s->control->block[1] = 0;
	s->control->end = end;
	assert_int_equal(percpu_owned_gauge_set(level, 6), 0);
	assert_int_equal(take(), 0);
	assert_int_equal(percpu_reader_count(r), 3);
	assert_int_equal(percpu_reader_gauge(r, 2, &n), 0);
	assert_int_equal(n, 6);
}

/* Records. */

/* Assert that the second record is passed over, and counted as pending. */
static void is_passed_over(void)
{
	struct percpu_reader *other = NULL;

	assert_int_equal(percpu_reader_open(path, &other), 0);
	percpu_reader_close(r);
	r = other;
	assert_int_equal(take(), 0);
	assert_int_equal(percpu_reader_count(r), 1);
	assert_int_equal(info_of().pending, 1);
	assert_int_equal(count_of(0), 3);
}

static void records_without_their_object_are_pending(void **state)
{
	struct percpu_segment_record *const h = second();
	const uint64_t key = h->key;
	const uint64_t keys[] = { 0,
				  key + 8,
				  key | 1,
				  key ^ UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT,
				  key ^ UINT64_C(1) << PERCPU_KEY_KIND_SHIFT,
				  UINT64_MAX };

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		h->key = keys[i];
		is_passed_over();
		h->key = key;
		is_mended();
	}
}

/* The record has no object yet, as if it was being declared. That does not change the directory. */
static void pending_records_are_looked_at_again(void **state)
{
	const uint64_t key = second()->key;

	(void)state;
	second()->key = 0;
	is_passed_over();
	assert_int_equal(take(), 0);
	assert_int_equal(info_of().pending, 1);
	second()->key = key;
	is_mended();
}

static void texts_that_cannot_be_are_passed_over(void **state)
{
	char *const text = (char *)(second() + 1);
	const size_t size = second()->size - sizeof(*second());
	char good[256];

	(void)state;
	assert_memory_equal(text, "b_total\1\0k\2\0vvWhat it counts.", 29);
	memcpy(good, text, size);
	for (size_t i = 0; i < 29; i++) {
		text[i] = '\0';
		if (good[i] != '\0') /* the second byte of a length */
			is_passed_over();
		text[i] = (char)0xff;
		is_passed_over();
		text[i] = good[i];
	}
	is_mended();
	memcpy(text, good, size);
	text[7] = 0; /* a label without a name */
	second()->label_names = 1;
	second()->name++;
	is_passed_over();
}

static void lengths_are_those_of_the_texts(void **state)
{
	(void)state;
	second()->label_names++;
	second()->label_values--;
	is_passed_over();
	second()->label_names -= 2;
	second()->label_values += 2;
	is_passed_over();
	second()->label_names++;
	second()->label_values--;
	is_mended();
	second()->labels++;
	is_passed_over();
	second()->labels -= 2;
	is_passed_over();
}

/* Assert that the third record is passed over while that byte of its texts is changed. */
static void third_is_passed_over(size_t byte, char is)
{
	char *const text = (char *)(third() + 1) + byte, was = *text;

	assert_int_equal(look(), 3);
	*text = is;
	percpu_reader_close(r);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	is_mended_but(1);
	*text = was;
	assert_int_equal(look(), 3);
	assert_int_equal(info_of().pending, 0);
}

/* Also if an earlier series of the name has the other texts, which are valid. */
static void values_that_cannot_be_are_passed_over(void **state)
{
	static const char *const other[] = { "ww" };
	struct percpu_metric m = metric("a_total");
	struct percpu_counter *c;

	(void)state;
	m.label_values = other;
	assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
	third_is_passed_over(strlen("a_total..k.."), '\0');
	third_is_passed_over(strlen("a_total..k.."), (char)0xff);
}

static void units_that_cannot_be_are_passed_over(void **state)
{
	struct percpu_metric m = metric("c_seconds");
	struct percpu_extrema *x;

	(void)state;
	m.unit = "seconds";
	assert_int_equal(percpu_segment_extrema(s, &m, 0, &x), 0);
	third_is_passed_over(strlen("c_secondsse"), '\0');
	third_is_passed_over(strlen("c_secondsse"), (char)0xff);
}

static void fields_that_cannot_be_are_passed_over(void **state)
{
	static const char *const names[] = { "x", "y" };
	const struct percpu_metric_fields f = { sizeof(f), "what", names, 2 };
	const struct percpu_metric m = metric("c_total");
	struct percpu_stats *t;

	(void)state;
	assert_int_equal(percpu_segment_stats(s, &m, &f, 0, &t), 0);
	third_is_passed_over(strlen("c_total1.k4.what2.vv1.x1."), 'x'); /* x twice */
}

/* If a family's texts are damaged, its series are returned without a family. */
static void texts_of_families_are_not_believed(void **state)
{
	static const char *const labels[] = { "k" };
	static const struct {
		size_t at;
		char is;
	} spoilt[] = { { 1, '\0' }, { 11, '\0' }, { 11, (char)0xff } };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "f_total",
					 .help = "What",
					 .label_names = labels,
					 .labels = 1 };
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_record_copy *copy = malloc(sizeof(*copy));
	struct percpu_segment_record *record = NULL;
	struct percpu_family *f;
	char *text, was;
	uint64_t at = 0;

	(void)state;
	assert_non_null(copy);
	assert_int_equal(family_with_cap(s, &d, 3, &f), 0);
	assert_int_equal(percpu_family_add(f, &labels[0], 1), 0);
	assert_true(percpu_directory_next(s, PERCPU_FAMILIES, &at, copy, &record));
	free(copy);
	text = (char *)(record + 1);
	assert_memory_equal(text, "f_total\1\0kWhat", 14);
	for (size_t i = 0; i < sizeof(spoilt) / sizeof(spoilt[0]); i++) {
		assert_int_equal(look(), 3);
		assert_int_equal(series_of(2).cap, 3);
		assert_string_equal(series_of(2).help, "What");
		was = text[spoilt[i].at];
		text[spoilt[i].at] = spoilt[i].is;
		percpu_reader_close(r);
		assert_int_equal(percpu_reader_open(path, &r), 0);
		assert_int_equal(look(), 3);
		assert_int_equal(info_of().pending, 1);
		assert_int_equal(series_of(2).cap, 0);
		assert_string_equal(series_of(2).help, "");
		text[spoilt[i].at] = was;
	}
	assert_int_equal(look(), 3);
	assert_int_equal(info_of().pending, 0);
}

/* If metrics share an object, the first one has it. */
static void objects_are_not_shared(void **state)
{
	struct percpu_segment_record *const h = second();
	const uint64_t key = h->key;

	(void)state;
	h->key = percpu_directory_at(s, 0)->key;
	is_passed_over();
	h->key = key;
	is_mended();
	/* A record that is passed over has no object. */
	h->kind = PERCPU_METRIC_FCOUNTER;
	counter_with("c_total", 5);
	third()->key = key;
	percpu_reader_close(r);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(look(), 2);
	assert_int_equal(info_of().pending, 1);
	assert_int_equal(count_of(1), 4);
}

/* Removed records. */

#define LONG_VALUE "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"

/* Make a family with a removed series, and another one. Returns the record of the removed
 * series, which is longer than any name. */
static struct percpu_segment_record *make_removed(void)
{
	static const char *const labels[] = { "k", "l", "m", "n" };
	static const char *const gone[] = { LONG_VALUE, LONG_VALUE, LONG_VALUE, LONG_VALUE };
	static const char *const stays[] = { "", "", "", "x" };
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "f_total", .label_names = labels, .labels = 4
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_record_copy *copy = malloc(sizeof(*copy));
	struct percpu_segment_record *removed = NULL;
	struct percpu_counter *c = NULL;
	struct percpu_family *f = NULL;
	uint64_t at = 0;

	assert_non_null(copy);
	assert_int_equal(family_with_cap(s, &d, 3, &f), 0);
	assert_int_equal(percpu_family_counter(f, gone, &c), 0);
	assert_int_equal(percpu_family_remove(f, gone), 0);
	assert_int_equal(percpu_family_counter(f, stays, &c), 0);
	percpu_counter_add(c, 5);
	while (percpu_directory_next(s, PERCPU_REMOVED, &at, copy, &removed))
		; /* the first one is the overflow */
	free(copy);
	assert_non_null(removed);
	assert_true(removed->label_values > PERCPU_METRIC_NAME);
	return removed;
}

/* Assert that all series are there that are not removed, and that the family has so many removed
 * ones. Runs in a child, as such a record may crash a reader. */
static int read_all_else(void *arg)
{
	const uint32_t removed = *(const uint32_t *)arg;
	struct percpu_reader_series series = { .name = "" };
	struct percpu_reader *mine = NULL;
	uint64_t n[3] = { 0 };

	test_child_require(percpu_reader_open(path, &mine) == 0, "open");
	test_child_require(percpu_reader_read(mine) == 0, "read");
	test_child_require(picture_check(mine, true) == NULL, "what fits");
	for (size_t i = 0; i < 3; i++)
		test_child_require(percpu_reader_counter(mine, i, &n[i]) == 0, "a counter");
	test_child_require(n[0] == 3 && n[1] == 4 && n[2] == 5, "counts");
	test_child_require(percpu_reader_series(mine, 2, &series) == 0, "a series");
	test_child_require(strcmp(series.name, "f_total") == 0, "its name");
	test_child_require(series.removed == removed, "removed");
	percpu_reader_close(mine);
	return 0;
}

static void all_else_is_read(uint32_t removed)
{
	assert_int_equal(test_wait(test_fork(read_all_else, &removed), 60), 0);
}

/* All of the removed record's texts pretend to be its name, of each length up to that. */
static void removed_records_are_not_believed(void **state)
{
	struct percpu_segment_record *const h = make_removed(), good = *h;
	char *const text = (char *)(h + 1);
	const uint16_t all = (uint16_t)(h->name + h->label_names + h->label_values);
	const uint64_t keys[] = { 0, UINT64_MAX, second()->key, good.key + 8 };

	(void)state;
	all_else_is_read(1);
	h->label_names = h->label_values = 0;
	for (h->name = PERCPU_METRIC_NAME; h->name < all; h->name++) {
		if (h->name > PERCPU_METRIC_NAME + 2 && h->name < all - 2)
			h->name = (uint16_t)(all - 2);
		all_else_is_read(0);
	}
	*h = good;
	h->name = 0;
	all_else_is_read(0);
	h->name = UINT16_MAX; /* no record has room for it */
	all_else_is_read(0);
	*h = good;
	text[1] = '\0';
	all_else_is_read(0);
	text[1] = 'x'; /* a family that is not there */
	all_else_is_read(0);
	text[1] = '_';
	h->labels = UINT8_MAX;
	all_else_is_read(0);
	*h = good;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		h->key = keys[i];
		h->invalid = UINT64_MAX - i;
		h->declared.real = UINT64_MAX;
		all_else_is_read(1);
	}
	*h = good;
	h->state = PERCPU_RECORD_FAMILY + 1;
	all_else_is_read(0);
	h->state = PERCPU_RECORD_FREE; /* as a killed process leaves it */
	all_else_is_read(0);
}

/* A cell that is no sum of doubles counts as 0, as for percpu_fcounter_fetch(). */
static void cells_of_doubles_are_not_believed(void **state)
{
	const double odd[] = { NAN, INFINITY, -INFINITY, 0x1p1005 };
	const struct percpu_metric m = metric("c_total");
	const unsigned cpus = percpu_status()->possible_cpus;
	struct percpu_fcounter *c;
	double sum;
	char *other;

	(void)state;
	if (cpus < 2)
		test_skip("needs two CPUs");
	assert_int_equal(percpu_segment_fcounter(s, &m, &c), 0);
	assert_true(test_pin(0, test_cpu(0)));
	assert_int_equal(percpu_fcounter_add(c, 1), 0);
	test_unpin(0);
	other = (char *)c + (size_t)((test_cpu(0) + 1) % cpus) * PERCPU_STRIDE;
	for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		memcpy(other, &odd[i], sizeof(odd[i]));
		assert_int_equal(take(), 0);
		assert_int_equal(percpu_reader_count(r), 3);
		assert_int_equal(percpu_reader_number(r, 2, &sum), 0);
		assert_true(sum == 1);
		assert_true(percpu_fcounter_fetch(c) == 1);
	}
}

int main(void)
{
#define EACH(f) cmocka_unit_test_setup_teardown(f, make_both, remove_segment)
	const struct CMUnitTest tests[] = {
		EACH(a_number_of_chunks_is_not_believed),
		EACH(each_chunk_has_a_header_of_its_own),
		EACH(roots_that_lead_nowhere_are_told),
		EACH(other_versions_are_refused),
		EACH(records_have_room_in_the_file),
		EACH(records_are_before_the_end),
		EACH(where_records_were_is_forgotten),
		EACH(records_without_their_object_are_pending),
		EACH(pending_records_are_looked_at_again),
		EACH(cells_of_doubles_are_not_believed),
		EACH(texts_that_cannot_be_are_passed_over),
		EACH(lengths_are_those_of_the_texts),
		EACH(values_that_cannot_be_are_passed_over),
		EACH(units_that_cannot_be_are_passed_over),
		EACH(fields_that_cannot_be_are_passed_over),
		EACH(texts_of_families_are_not_believed),
		EACH(objects_are_not_shared),
		EACH(removed_records_are_not_believed),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
