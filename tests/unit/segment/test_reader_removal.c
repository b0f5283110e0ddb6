/* SPDX-License-Identifier: MIT */
/*
 * test_reader_removal.c - pictures while series of a family are removed, and begin anew: a picture
 * can be taken, and each series in it has the count and the start of one of its lives.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "blocks.h"
#include "steps.h"
#include "support.h"
#include "reader_calls.h"

#include "segment/reader.h"

static const char *const label[] = { "a" };
static const char *const x[] = { "x" };
static const char *const y[] = { "y" };

static struct percpu_family *f;

/* At a step of that name meanwhile is called, once. */
static const char *waits_when;
static void (*meanwhile)(void);

/* So many reads from now on, one fails; 0: none does. */
static unsigned fails_in;

/* The next read of this byte gives the record's start as it was. */
static uint64_t torn_at;
static struct percpu_segment_time start_before;

void test_step(const char *name)
{
	if (waits_when == NULL || strcmp(name, waits_when) != 0)
		return;
	waits_when = NULL;
	meanwhile();
}

ssize_t __real_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at)
{
	const uint64_t from = (uint64_t)at;
	const ssize_t got = __real_pread64(fd, to, n, at);

	if (fails_in != 0 && --fails_in == 0) {
		errno = EIO;
		return -1;
	}
	if (waits_when == NULL && torn_at != 0 && torn_at >= from && torn_at < from + n) {
		memcpy((char *)to + (torn_at - from), &start_before, sizeof(start_before));
		torn_at = 0;
	}
	return got;
}

static void declare(struct percpu_segment *of, struct percpu_family **ret)
{
	const struct percpu_declaration d =
		percpu_declare_family(NULL, PERCPU_METRIC_COUNTER, "f_total", NULL, label, 1, 8);

	assert_int_equal(percpu_segment_family(of, &d, ret), 0);
}

/* Make a segment with the series x, of 1, and y, of 2, and open a reader. */
static int make_both(void **state)
{
	(void)make_segment(state);
	declare(s, &f);
	assert_int_equal(percpu_family_add(f, x, 1), 0);
	assert_int_equal(percpu_family_add(f, y, 2), 0);
	waits_when = NULL;
	torn_at = fails_in = 0;
	return 0;
}

/* Return the record of x. */
static struct percpu_segment_record *record_of_x(void)
{
	struct percpu_segment_record *record;
	struct percpu_record_copy c;
	uint64_t at = 0;

	assert_true(percpu_directory_next(s, PERCPU_SERIES, &at, &c, &record));
	while (c.bytes[percpu_record_values(&c) - c.bytes + 2] != 'x')
		assert_true(percpu_directory_next(s, PERCPU_SERIES, &at, &c, &record));
	return record;
}

static void remove_x(void)
{
	assert_int_equal(percpu_family_remove(f, x), 0);
}

/* Let x begin anew, and count as much as before. */
static void restart_x(void)
{
	remove_x();
	assert_int_equal(percpu_family_add(f, x, 1), 0);
}

/* Let x begin anew, and count less than before. */
static void restart_x_with_nothing(void)
{
	remove_x();
	assert_int_equal(percpu_family_add(f, x, 0), 0);
}

static const char *const steps[] = { "reader: directory copied", "reader: biases copied",
				     "reader: lanes added up" };

/* Take a picture, and call fn at a step of the reader. */
static size_t look_when(const char *step, void (*fn)(void))
{
	meanwhile = fn;
	waits_when = step;
	(void)look();
	assert_null(waits_when);
	return percpu_reader_count(r);
}

static bool is_of(size_t i, const char *value)
{
	return strcmp(series_of(i).label_values[0], value) == 0;
}

static void only_y_is_there(void)
{
	assert_int_equal(percpu_reader_count(r), 1);
	assert_true(is_of(0, "y"));
	assert_int_equal(count_of(0), 2);
	assert_int_equal(info_of().missing, 0);
	assert_int_equal(info_of().pending, 0);
}

static void both_are_there(uint64_t of_x)
{
	assert_int_equal(look(), 2);
	assert_true(is_of(0, "x") && is_of(1, "y"));
	assert_int_equal(count_of(0), of_x);
	assert_int_equal(count_of(1), 2);
}

static void what_is_removed_meanwhile_is_left_out(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		both_are_there(1);
		assert_int_equal(look_when(steps[i], remove_x), 1);
		only_y_is_there();
		assert_int_equal(look(), 1);
		only_y_is_there();
		assert_int_equal(percpu_family_add(f, x, 1), 0);
	}
}

/* The count would be that of the new life, or of the old one, with the start of the old one. */
static void what_begins_anew_meanwhile_is_left_out(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		both_are_there(1);
		assert_int_equal(look_when(steps[i], restart_x), 1);
		only_y_is_there();
	}
	both_are_there(1);
}

/* A first picture, which has to list the series. */
static void first_pictures_leave_it_out_as_well(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(look_when(steps[i], restart_x), 1);
		only_y_is_there();
		(void)remove_segment(state);
		(void)make_both(state);
	}
}

/* As if x had been freed, and another series had its cells. */
static void free_x(void)
{
	record_of_x()->key++;
	s->control->changes += 2;
}

static void what_is_freed_meanwhile_is_left_out(void **state)
{
	struct percpu_segment_record *record = record_of_x();

	(void)state;
	both_are_there(1);
	assert_int_equal(look_when("reader: biases copied", free_x), 1);
	only_y_is_there();
	record->key--;
	s->control->changes += 2;
	both_are_there(1);
}

/* The number of changes is as before: the process that changed x has damaged the file. */
static void changes_need_not_be_told_twice(void **state)
{
	const uint64_t before = s->control->changes;

	(void)state;
	both_are_there(1);
	assert_int_equal(look_when("reader: lanes added up", restart_x), 1);
	s->control->changes = before;
	both_are_there(1);
}

static void restart_exemplars(void)
{
	struct percpu_exemplars *of_x;

	remove_x();
	assert_int_equal(percpu_family_exemplars(f, x, &of_x), 0);
	assert_int_equal(percpu_exemplars_store(of_x, 2, NULL, 0), 0);
}

static void x_has_an_exemplar(void)
{
	struct percpu_exemplar is;

	both_are_there(0);
	assert_int_equal(percpu_reader_exemplar(r, 0, 0, &is), 0);
	assert_true(is.value == 2);
}

/* What the reader has of x is freed. */
static void exemplars_are_left_out_as_well(void **state)
{
	struct percpu_exemplar is;
	unsigned blocks;

	(void)state;
	percpu_reader_close(r);
	restart_exemplars();
	blocks = test_blocks();
	assert_int_equal(percpu_reader_open(path, &r), 0);
	x_has_an_exemplar();
	assert_int_equal(look_when("reader: biases copied", restart_exemplars), 1);
	only_y_is_there();
	assert_int_equal(percpu_reader_exemplar(r, 0, 0, &is), -EINVAL);
	x_has_an_exemplar();
	percpu_reader_close(r);
	r = NULL;
	forget();
	assert_int_equal(test_blocks(), blocks);
}

enum { LONG = 17 }; /* records of so many long values take more than a block */

static struct percpu_family *g;
static char long_text[PERCPU_METRIC_VALUE + 1];
static const char *const long_value[] = { long_text };

static void remove_last(void)
{
	assert_int_equal(percpu_family_remove(g, long_value), 0);
}

static void all_blocks_are_copied_again(void **state)
{
	const struct percpu_declaration d =
		percpu_declare_family(NULL, PERCPU_METRIC_COUNTER, "g_total", NULL, label, 1, LONG);

	(void)state;
	assert_int_equal(percpu_segment_family(s, &d, &g), 0);
	memset(long_text, 'v', PERCPU_METRIC_VALUE);
	for (unsigned i = 0; i < LONG; i++) {
		long_text[0] = (char)('a' + i);
		assert_int_equal(percpu_family_add(g, long_value, 1), 0);
	}
	assert_true(s->control->end > PERCPU_SEGMENT_BLOCK);
	assert_int_equal(look(), 2 + LONG);
	assert_int_equal(look_when("reader: biases copied", remove_last), 1 + LONG);
	assert_int_equal(look_when("reader: biases copied", remove_x), LONG);
}

static void restart_x_and_fail(void)
{
	static unsigned n;

	restart_x();
	fails_in = ++n;
}

/* First of the control, and then in both copies of the block's key and of the records. */
static void reads_of_copies_may_fail(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		both_are_there(1);
		waits_when = "reader: lanes added up";
		meanwhile = restart_x_and_fail;
		assert_int_equal(take(), -EIO);
		assert_string_equal(percpu_error(), "cannot read the file");
		assert_int_equal(percpu_reader_count(r), 0);
	}
	both_are_there(1);
	assert_int_equal(look_when("reader: lanes added up", restart_x_and_fail), 1);
	assert_int_equal(fails_in, 1); /* there are no more reads */
	fails_in = 0;
}

static void change_x(void)
{
	record_of_x()->declared.real++;
}

static void change_boottime_of_x(void)
{
	record_of_x()->declared.boottime++;
	s->control->changes += 2;
}

static void change_boot_of_x(void)
{
	record_of_x()->declared.boot++;
	s->control->changes += 2;
}

/* A clock may be set back, and a machine may be booted again. */
static void each_part_of_a_start_tells_lives_apart(void **state)
{
	(void)state;
	both_are_there(1);
	assert_int_equal(look_when("reader: biases copied", change_boottime_of_x), 1);
	both_are_there(1);
	assert_int_equal(look_when("reader: biases copied", change_boot_of_x), 1);
	both_are_there(1);
}

/* The change of x was begun before the picture, and ends after it. */
static void changes_that_go_on_are_looked_at(void **state)
{
	(void)state;
	s->control->changes++;
	both_are_there(1);
	assert_int_equal(look_when("reader: biases copied", change_x), 1);
	only_y_is_there();
	s->control->changes++;
	both_are_there(1);
}

/* The first copy has the state of the new life, and the start of the old one. */
static void torn_records_are_told_by_a_second_copy(void **state)
{
	struct percpu_segment_record *record = record_of_x();
	const char *at = (const char *)&record->declared;
	const struct percpu_chunk *k = percpu_chunk_of(at - 2 * s->region->cpus * PERCPU_STRIDE);

	(void)state;
	both_are_there(1);
	start_before = record->declared;
	torn_at = percpu_reader_file_offset(
		r, k->index, 2 * r->cpus,
		(size_t)(at - (const char *)percpu_chunk_lane(k, 2 * s->region->cpus, 0)));
	assert_int_equal(look_when("reader: biases copied", restart_x_with_nothing), 1);
	assert_int_equal(torn_at, 0);
	only_y_is_there();
}

static void restart_x_and_reset(void)
{
	restart_x();
	s->control->started[0] = s->control->started[1];
	s->control->generation++;
	s->control->completed++;
}

/* The picture is begun again, and has no record that was copied before. */
static void what_begins_anew_before_a_reset_has_its_start(void **state)
{
	(void)state;
	assert_int_equal(look_when("reader: biases copied", restart_x_and_reset), 2);
	assert_true(is_of(0, "x"));
	assert_int_equal(r->entry[0].declared.boottime, record_of_x()->declared.boottime);
}

static void be_late(void)
{
	r->deadline = 1;
}

/* A picture that takes two calls, between which x begins anew: the first has copied its record. */
static void what_begins_anew_between_calls_is_left_out(void **state)
{
	(void)state;
	waits_when = "reader: directory copied";
	meanwhile = be_late;
	assert_int_equal(take(), -EAGAIN);
	assert_null(waits_when);
	assert_true(r->copied != 0);
	restart_x_with_nothing();
	assert_int_equal(look(), 1);
	only_y_is_there();
	both_are_there(0);
}

static void there_is_no_time(void)
{
	waits_when = "reader: listed";
	meanwhile = be_late;
	assert_int_equal(take(), -EAGAIN);
	assert_null(waits_when);
	assert_int_equal(percpu_reader_count(r), 0);
	assert_non_null(strstr(percpu_error(), "the time for the picture was over"));
}

/* Whenever a list is complete, there is no time for values: the next call reads those of the series
 * that are as they were. So there is a picture, although x begins anew between all calls. */
static void lists_without_values_are_used(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		there_is_no_time();
		restart_x();
		assert_int_equal(look(), 1);
		only_y_is_there();
		restart_x();
	}
}

/* They have no series that were added since. */
static void lists_without_values_get_no_longer(void **state)
{
	static const char *const z[] = { "z" };

	(void)state;
	there_is_no_time();
	restart_x();
	assert_int_equal(percpu_family_add(f, z, 3), 0);
	assert_int_equal(look(), 1);
	only_y_is_there();
	assert_int_equal(look(), 3);
}

/* They are used once. */
static void lists_with_values_are_made_anew(void **state)
{
	(void)state;
	there_is_no_time();
	both_are_there(1);
	restart_x();
	both_are_there(1);
}

/* Another process removes x and lets it begin anew, without pause. Each life counts more than the one
 * before. */
static int restart_all_the_time(void *arg)
{
	struct percpu_segment *t = NULL;
	struct percpu_family *g = NULL;
	bool ok = percpu_segment_open(path, 0, NULL, &t) == 0;

	(void)arg;
	declare(t, &g);
	for (uint64_t i = 2; ok; i++) {
		for (volatile unsigned pause = 0; pause < i % 64 * 64; pause++)
			;
		ok = percpu_family_remove(g, x) == 0 && percpu_family_add(g, x, i) == 0;
	}
	test_child_require(false, "remove x, and count in it");
	return 0;
}

/* What pictures have shown of x. */
static uint64_t last_start, last_count, most;

/* Check that x has not gone back, and in a new life has nothing, or more than in an earlier one. */
static void check_life(void)
{
	const uint64_t start = r->entry[0].declared.boottime, count = count_of(0);

	assert_true(start >= last_start);
	assert_true(start != last_start || count >= last_count);
	assert_true(count == 0 || count > most || (start == last_start && count == last_count));
	last_start = start;
	last_count = count;
	most = count > most ? count : most;
}

static void pictures_are_taken_all_the_same(void **state)
{
	const unsigned rounds = test_rounds(4000);
	const pid_t pid = test_fork(restart_all_the_time, NULL);
	size_t n;

	(void)state;
	last_start = last_count = most = 0;
	for (unsigned i = 0; i < rounds; i++) {
		assert_int_equal(percpu_reader_read(r), 0);
		n = percpu_reader_count(r);
		assert_in_range(n, 1, 2);
		assert_true(is_of(n - 1, "y"));
		assert_int_equal(count_of(n - 1), 2);
		assert_int_equal(info_of().missing, 0);
		if (n == 2)
			check_life();
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)test_wait(pid, 60);
}

int main(void)
{
#define EACH(f) cmocka_unit_test_setup_teardown(f, make_both, remove_segment)
	const struct CMUnitTest tests[] = {
		EACH(what_is_removed_meanwhile_is_left_out),
		EACH(what_begins_anew_meanwhile_is_left_out),
		EACH(first_pictures_leave_it_out_as_well),
		EACH(what_is_freed_meanwhile_is_left_out),
		EACH(changes_need_not_be_told_twice),
		EACH(exemplars_are_left_out_as_well),
		EACH(all_blocks_are_copied_again),
		EACH(reads_of_copies_may_fail),
		EACH(each_part_of_a_start_tells_lives_apart),
		EACH(changes_that_go_on_are_looked_at),
		EACH(torn_records_are_told_by_a_second_copy),
		EACH(what_begins_anew_before_a_reset_has_its_start),
		EACH(what_begins_anew_between_calls_is_left_out),
		EACH(lists_without_values_are_used),
		EACH(lists_without_values_get_no_longer),
		EACH(lists_with_values_are_made_anew),
		EACH(pictures_are_taken_all_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
