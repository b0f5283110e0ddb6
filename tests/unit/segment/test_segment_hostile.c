/* SPDX-License-Identifier: MIT */
/*
 * test_segment_hostile.c - segments that are damaged, of a newer version, or full: which series
 * are found, and which errors are returned. At random: tests/fuzz/segment.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"

#include "segment/segment.h"
#include "../segments.h"

static const char *path;
static struct percpu_segment *s, *t;

static int count_in(struct percpu_segment *of, const char *name)
{
	struct percpu_counter *c = NULL;
	int e = percpu_segment_counter(of, METRIC(name), &c);

	if (e == 0)
		percpu_counter_add(c, 1);
	return e == 0 ? (int)percpu_counter_fetch(c) : e;
}

/* Make three metrics, and open the segment again, as a process that has not seen them. */
static int make_three(void **state)
{
	(void)state;
	path = test_path("hostile");
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	assert_int_equal(count_in(s, "a_total"), 1);
	assert_int_equal(count_in(s, "b_total"), 1);
	assert_int_equal(count_in(s, "c_total"), 1);
	assert_int_equal(percpu_segment_open(path, 0, NULL, &t), 0);
	return 0;
}

static int remove_three(void **state)
{
	(void)state;
	percpu_segment_close(s);
	percpu_segment_close(t);
	return unlink(path);
}

/* Return the record of the second metric. */
static struct percpu_segment_record *second(void)
{
	return percpu_directory_at(s, percpu_directory_at(s, 0)->size);
}

/* Assert that the second record is passed over, and that the others are found. */
static void is_passed_over(void)
{
	assert_int_equal(count_in(t, "a_total"), 2);
	assert_int_equal(count_in(t, "c_total"), 2);
	assert_int_equal(t->series.used, 2);
}

static void removed_records_begin_anew(void **state)
{
	(void)state;
	second()->state = PERCPU_RECORD_REMOVED;
	assert_int_equal(count_in(t, "a_total"), 2);
	assert_int_equal(count_in(t, "c_total"), 2);
	assert_int_equal(count_in(t, "b_total"), 1); /* from 0 */
	assert_int_equal(t->series.used, 3);
}

static void free_records_are_passed_over(void **state)
{
	(void)state;
	second()->state = PERCPU_RECORD_FREE;
	is_passed_over();
}

static void records_of_new_kinds_are_passed_over(void **state)
{
	(void)state;
	second()->kind = PERCPU_METRIC_STATS + 1;
	is_passed_over();
}

static void records_of_kind_0_are_passed_over(void **state)
{
	(void)state;
	second()->kind = 0;
	is_passed_over();
}

static void lengths_beyond_the_record_are_not_believed(void **state)
{
	(void)state;
	second()->help = 60000;
	is_passed_over();
}

static void too_many_labels_are_not_believed(void **state)
{
	(void)state;
	second()->labels = PERCPU_METRIC_LABELS + 1;
	is_passed_over();
}

/* A record of size 0, or of an impossible size, ends its block. */
static void sizes_are_not_believed(void **state)
{
	static const uint32_t sizes[] = { 0, 8, 79, 81, 65536, UINT32_MAX, UINT32_MAX - 7 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		second()->size = sizes[i];
		percpu_segment_close(t);
		assert_int_equal(percpu_segment_open(path, 0, NULL, &t), 0);
		assert_int_equal(count_in(t, "a_total"), 2 + (int)i);
		assert_int_equal(t->series.used, 1);
	}
}

static void ends_beyond_the_blocks_are_not_believed(void **state)
{
	static const uint64_t ends[] = { PERCPU_SEGMENT_BLOCK + 8, UINT64_MAX, UINT64_C(1) << 62 };

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		s->control->end = ends[i];
		assert_int_equal(count_in(t, "a_total"), -EBADMSG);
		assert_string_equal(percpu_error(), "a_total: the file is damaged");
	}
}

/* All blocks are there, and are the same one. */
static void ends_beyond_all_blocks_are_not_believed(void **state)
{
	(void)state;
	for (size_t i = 1; i < PERCPU_SEGMENT_BLOCKS; i++)
		s->control->block[i] = s->control->block[0];
	s->control->end = UINT64_MAX;
	assert_int_equal(count_in(t, "a_total"), 2);
	assert_int_equal(t->series.used, 3);
	assert_int_equal(count_in(t, "d_total"), -ENOSPC);
	s->control->end = UINT64_MAX - 4;
	assert_int_equal(count_in(t, "d_total"), -ENOSPC);
}

/* Records begin at whole words, whatever the end is, and other processes find all new ones. */
static void ends_within_words_are_not_believed(void **state)
{
	char name[32];

	(void)state;
	for (uint64_t by = 1; by < 8; by++) {
		s->control->end += by;
		snprintf(name, sizeof(name), "d%u_total", (unsigned)by);
		assert_int_equal(count_in(s, name), 1);
		assert_int_equal(s->control->end % 8, 0);
		assert_int_equal(count_in(t, name), 2);
		assert_int_equal(count_in(s, "c_total"), by + 1);
	}
	percpu_segment_close(t);
	assert_int_equal(percpu_segment_open(path, 0, NULL, &t), 0);
	assert_int_equal(count_in(t, "d1_total"), 3);
	assert_int_equal(t->series.used, 3 + 7);
}

/* Nothing is stored behind the block of the last record. */
static void ends_within_the_last_word_are_not_believed(void **state)
{
	char behind[8], there[8], *at;

	memset(behind, 0x55, sizeof(behind));
	for (unsigned i = 1; i < 8; i++) {
		s->control->end = PERCPU_SEGMENT_BLOCK - i;
		at = s->block[0] + PERCPU_SEGMENT_BLOCK;
		memcpy(there, at, sizeof(there));
		memcpy(at, behind, sizeof(behind));
		assert_int_equal(count_in(s, "d_total"), 1);
		assert_memory_equal(at, behind, sizeof(behind));
		assert_int_equal(s->control->end % 8, 0);
		memcpy(at, there, sizeof(there));
		remove_three(state);
		make_three(state);
	}
}

/* The third record ends shortly before the block does. A record that would exceed the block is
 * passed over, and one that ends with it is found. */
static void records_end_with_their_block(void **state)
{
	const uint64_t third = percpu_directory_at(s, 0)->size + second()->size;
	const uint32_t rest = sizeof(struct percpu_segment_record) + 8;
	struct percpu_segment_record *last;

	(void)state;
	percpu_directory_at(s, third)->size = (uint32_t)(PERCPU_SEGMENT_BLOCK - third - rest);
	last = percpu_directory_at(s, PERCPU_SEGMENT_BLOCK - rest);
	memcpy(last, second(), rest);
	last->size = rest + 8;
	last->name++;
	s->control->end = PERCPU_SEGMENT_BLOCK;
	assert_int_equal(count_in(t, "a_total"), 2);
	assert_int_equal(t->series.used, 3);
	last->size = rest;
	last->name--;
	memcpy(last + 1, "x", 1);
	percpu_segment_close(t);
	assert_int_equal(percpu_segment_open(path, 0, NULL, &t), 0);
	assert_int_equal(count_in(t, "a_total"), 3);
	assert_int_equal(t->series.used, 4);
}

/* Each object checks its key. */
static void keys_of_other_objects_are_refused(void **state)
{
	struct percpu_histogram *h, *none = NULL;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("h"), NULL, &h), 0);
	second()->key = percpu_histogram_key(h);
	assert_int_equal(count_in(t, "b_total"), -EEXIST);
	second()->key = UINT64_MAX;
	assert_int_equal(count_in(t, "b_total"), -EEXIST);
	second()->key = s->control_key;
	assert_int_equal(count_in(t, "b_total"), -EEXIST);
	second()->kind = PERCPU_METRIC_HISTOGRAM;
	assert_int_equal(percpu_segment_histogram(t, METRIC("b_total"), NULL, &none), -EEXIST);
	assert_null(none);
}

static void blocks_elsewhere_are_refused(void **state)
{
	static const uint64_t keys[] = { 1, UINT64_MAX, UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT | 4,
					 UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT | 65535 };
	const uint64_t there = s->control->block[0];

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		s->control->block[0] = keys[i];
		assert_int_equal(count_in(t, "a_total"), -EBADMSG);
	}
	s->control->block[0] = there;
	assert_int_equal(count_in(t, "a_total"), 2);
}

/* The allocator's bits say that all chunks are full, also the one that is made now. */
static void full_chunks_at_the_end_are_damage(void **state)
{
	const size_t chunk = percpu_chunk_size(PERCPU_STRIDE, s->region->cpus);
	struct percpu_header full;
	const int fd = open(path, O_RDWR | O_CLOEXEC);

	(void)state;
	memset(full.used, 0xff, sizeof(full.used));
	for (uint32_t i = 0; i <= s->region->n; i++)
		assert_int_equal(pwrite(fd, full.used, sizeof(full.used),
					(off_t)(i * chunk + offsetof(struct percpu_header, used))),
				 sizeof(full.used));
	close(fd);
	assert_int_equal(count_in(t, "d_total"), -EBADMSG);
	assert_string_equal(percpu_error(), "d_total: the file is damaged");
	assert_int_equal(count_in(t, "a_total"), 2);
	assert_int_equal(count_in(t, "d_total"), 1); /* in a chunk that is made of no bytes */
}

/* In a file that cannot grow, a declaration that fails changes nothing. Histograms fill the file,
 * or records with long texts do. */

static const char *full_path;

static int declare_next(struct percpu_segment *f, const char *help, unsigned n)
{
	struct percpu_histogram *h = NULL;
	struct percpu_counter *c = NULL;
	struct percpu_metric m = { .size = sizeof(m), .help = help };
	char name[32];
	int e;

	snprintf(name, sizeof(name), "%s%u%s", help != NULL ? "c" : "h", n,
		 help != NULL ? "_total" : "");
	m.name = name;
	e = help != NULL ? percpu_segment_counter(f, &m, &c) :
			   percpu_segment_histogram(f, &m, NULL, &h);
	test_child_require((e == 0) == (help != NULL ? c != NULL : h != NULL), "a handle");
	return e;
}

static int fill_file(void *help)
{
	const size_t chunk = percpu_chunk_size(PERCPU_STRIDE, s->region->cpus);
	const struct rlimit limit = { 2 * chunk, 2 * chunk };
	struct percpu_segment *f = NULL;
	uint64_t end = 0, seen = 0;
	unsigned n = 0;
	int e;

	test_child_require(setrlimit(RLIMIT_FSIZE, &limit) == 0, "a limit");
	test_child_require(percpu_segment_open(full_path, ALL, NULL, &f) == 0, "a segment");
	test_child_require(count_in(f, "a_total") == 1, "a counter");
	do {
		end = f->control->end;
		e = declare_next(f, help, n++);
	} while (e == 0 && n < 100000);
	seen = f->series.used;
	test_child_require(e == -ENOSPC, "a full file");
	test_child_require((f->control->end > end) == (help == NULL), "its name");
	end = f->control->end;
	test_child_require(declare_next(f, help, n - 1) == -ENOSPC, "still");
	test_child_require(f->control->end == end, "once");
	test_child_require(strstr(percpu_error(), "is full") != NULL, "and it is said");
	test_child_require(count_in(f, "a_total") == 2, "what is there counts on");
	percpu_segment_close(f);
	test_child_require(percpu_segment_open(full_path, ALL, NULL, &f) == 0, "to be opened");
	test_child_require(count_in(f, "a_total") == 3, "and counts on");
	test_child_require(f->series.used == seen && seen == n + (help == NULL),
			   "with all that was declared");
	percpu_segment_close(f);
	return 0;
}

static void full_files_change_nothing(void **state)
{
	static char long_text[1000], full[160];

	(void)state;
	snprintf(full, sizeof(full), "%s.full", path);
	full_path = full;
	memset(long_text, 'x', sizeof(long_text) - 1);
	for (int i = 0; i < 2; i++) {
		test_in_child(fill_file, i == 0 ? NULL : long_text);
		assert_int_equal(unlink(full), 0);
	}
}

#define three(f) cmocka_unit_test_setup_teardown(f, make_three, remove_three)

/* The record was that of a counter, for which the process has a handle. */
static void handles_are_of_the_kind_that_was_there(void **state)
{
	struct percpu_fcounter *c = NULL;

	(void)state;
	second()->kind = PERCPU_METRIC_FCOUNTER;
	assert_int_equal(percpu_segment_fcounter(s, METRIC("b_total"), &c), -EBADMSG);
	assert_null(c);
}

/* A record whose texts have changed since it was found is another series. */

static int count_labeled(struct percpu_segment *of)
{
	static const char *const labels[] = { "k" }, *const values[] = { "vv" };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "l_total",
					 .label_names = labels,
					 .label_values = values,
					 .labels = 1 };
	struct percpu_counter *c = NULL;
	int e = percpu_segment_counter(of, &m, &c);

	if (e == 0)
		percpu_counter_add(c, 1);
	return e == 0 ? (int)percpu_counter_fetch(c) : e;
}

/* Declare the series, and return its record. */
static struct percpu_segment_record *labeled(void)
{
	const uint64_t at = s->control->end;

	assert_int_equal(count_labeled(s), 1);
	assert_int_equal(count_labeled(s), 2);
	return percpu_directory_at(s, at);
}

static void names_of_another_length_are_other_names(void **state)
{
	(void)state;
	second()->name--;
	assert_int_equal(count_in(s, "b_total"), 1);
	assert_int_equal(count_in(s, "b_total"), 2);
	assert_int_equal(count_in(t, "b_total"), 3);
}

static void fewer_values_are_another_series(void **state)
{
	struct percpu_segment_record *r = labeled();

	(void)state;
	r->label_values--;
	assert_int_equal(count_labeled(s), 1);
	assert_int_equal(count_labeled(s), 2);
}

static void other_values_are_another_series(void **state)
{
	struct percpu_segment_record *r = labeled();
	char *values = (char *)(r + 1) + r->name + r->unit + r->label_names;

	(void)state;
	assert_memory_equal(values, "\2\0vv", 4);
	values[3] = 'w';
	assert_int_equal(count_labeled(s), 1);
	values[3] = 'v';
	assert_int_equal(count_labeled(s), 3);
}

/* Control characters of a record are not printed. */
static void bytes_of_labels_are_no_commands(void **state)
{
	struct percpu_segment_record *r = labeled();
	char *name = (char *)(r + 1) + r->name + r->unit;

	(void)state;
	assert_memory_equal(name, "\1\0k", 3);
	for (unsigned i = 0; i < 2; i++) {
		name[2] = i == 0 ? '\x7f' : '\n';
		assert_int_equal(count_labeled(s), -EEXIST);
		assert_string_equal(
			percpu_error(),
			"l_total: its label 0 is \"?\" in the segment, \"k\" was asked for");
	}
}

/* Numbers that differ, with texts that do not, are in no file that this library has written. */
static void lengths_of_labels_are_damage(void **state)
{
	struct percpu_segment_record *r = labeled();
	char *name = (char *)(r + 1) + r->name + r->unit;

	(void)state;
	name[0] = 2; /* beyond the row of names */
	assert_int_equal(count_labeled(s), -EEXIST);
	assert_string_equal(percpu_error(),
			    "l_total: it has no label \"k\" in the segment, which was asked for");
	name[0] = 1;
	r->labels = 2;
	assert_int_equal(count_labeled(s), -EBADMSG);
	assert_string_equal(percpu_error(), "l_total: the file is damaged");
	r->labels = 1;
	assert_int_equal(count_labeled(s), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		three(handles_are_of_the_kind_that_was_there),
		three(names_of_another_length_are_other_names),
		three(fewer_values_are_another_series),
		three(other_values_are_another_series),
		three(bytes_of_labels_are_no_commands),
		three(lengths_of_labels_are_damage),
		three(removed_records_begin_anew),
		three(free_records_are_passed_over),
		three(records_of_new_kinds_are_passed_over),
		three(records_of_kind_0_are_passed_over),
		three(lengths_beyond_the_record_are_not_believed),
		three(too_many_labels_are_not_believed),
		three(sizes_are_not_believed),
		three(ends_beyond_the_blocks_are_not_believed),
		three(ends_beyond_all_blocks_are_not_believed),
		three(ends_within_words_are_not_believed),
		three(ends_within_the_last_word_are_not_believed),
		three(records_end_with_their_block),
		three(keys_of_other_objects_are_refused),
		three(blocks_elsewhere_are_refused),
		three(full_chunks_at_the_end_are_damage),
		three(full_files_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
