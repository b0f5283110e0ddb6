/* SPDX-License-Identifier: MIT */
/*
 * test_reader_facts.c - in which state a file is, as a reader tells.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/reader.h>

#include "declared.h"
#include "steps.h"
#include "support.h"
#include "../family_calls.h"
#include "../root_file.h"
#include "../segments.h"

#include "segment/segment.h"

static struct percpu_reader *reader;

/* Something happens before that read from the file, or at a step of that name. */
static unsigned reads_left;    /* 0: before none */
static const char *waits_when; /* NULL: at none */
static void (*meanwhile)(void);

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
	if (reads_left != 0 && --reads_left == 0)
		meanwhile();
	return __real_pread64(fd, to, n, at);
}

static int open_it(void **state)
{
	(void)state;
	s = NULL;
	reader = NULL;
	return percpu_segment_open(path, ALL, NULL, &s) || percpu_reader_open(path, &reader);
}

static int close_it(void **state)
{
	(void)state;
	percpu_reader_close(reader);
	percpu_segment_close(s);
	s = NULL;
	return unlink(path);
}

static struct percpu_reader_facts facts(void)
{
	struct percpu_reader_facts f;

	memset(&f, 0x77, sizeof(f));
	assert_int_equal(percpu_reader_facts(reader, &f), 0);
	return f;
}

static void declare(const char *name)
{
	struct percpu_counter *c = NULL;

	assert_int_equal(percpu_segment_counter(s, METRIC(name), &c), 0);
	percpu_counter_add(c, 5);
}

static void an_empty_segment_has_its_facts(void **state)
{
	const struct percpu_reader_facts f = facts();
	struct stat st;

	(void)state;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(f.file_bytes, st.st_size);
	assert_int_equal(f.disk_bytes, st.st_blocks * 512);
	assert_int_equal(f.cells_used, used() * 8);
	assert_int_equal(f.cells_used + f.cells_free, PERCPU_LANE_SIZE);
	assert_int_equal(f.records_bytes, 0);
	assert_int_equal(f.records_most, 128 << 20);
	assert_int_equal(f.format_major, PERCPU_FORMAT_MAJOR);
	assert_int_equal(f.format_minor, PERCPU_FORMAT_MINOR);
	assert_int_equal(f.version, PERCPU_SEGMENT_VERSION);
	assert_int_equal(f.chunks, 1);
	assert_int_equal(f.chunks_most, s->region->capacity);
	assert_int_equal(f.records_in_use + f.records_removed + f.records_pending, 0);
	assert_int_equal(f.counting, PERCPU_FACT_YES);
	assert_int_equal(f.lock, PERCPU_LOCK_FREE);
	assert_int_equal(f.lock_holder, 0);
	assert_int_equal(f.reset_unfinished, 0);
	assert_int_equal(f.owners_alive + f.owners_dead, 0);
}

/* The family and its overflow, x, y, a_total, and b_total without an object. */
static void records_are_counted(bool with_picture)
{
	struct percpu_family *f = family_of(s, 2);
	struct percpu_reader_facts found;

	assert_non_null(f);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(count_in(f, "y", 1), 1);
	assert_int_equal(remove_value(f, "x"), 0);
	declare("a_total");
	declare("b_total");
	if (with_picture)
		assert_int_equal(percpu_reader_read(reader), 0);
	found = facts();
	assert_int_equal(found.records_removed, 2);
	assert_int_equal(found.records_in_use, 4);
	assert_int_equal(found.records_pending, 0);
	assert_int_equal(found.chunks, s->region->n);
	assert_int_equal(found.cells_used, used() * 8);
	assert_int_equal(found.records_bytes, s->control->end);
	assert_int_equal(remove_value(f, "y"), 0); /* the picture has it in use */
	assert_int_equal(facts().records_removed, 3);
}

static void records_are_read(void **state)
{
	(void)state;
	records_are_counted(false);
}

static void records_of_the_picture_are_used_if_they_are_as_now(void **state)
{
	(void)state;
	records_are_counted(true);
}

static void records_without_objects_are_pending(void **state)
{
	(void)state;
	declare("a_total");
	declare("b_total");
	percpu_directory_at(s, 0)->key = 0;
	assert_int_equal(facts().records_pending, 1);
	assert_int_equal(facts().records_in_use, 2);
}

/* Facts leave the picture as it is. */
static void pictures_stay(void **state)
{
	struct percpu_reader_series series;
	uint64_t value = 0;

	(void)state;
	declare("a_total");
	assert_int_equal(percpu_reader_read(reader), 0);
	declare("b_total");
	declare("a_total");
	assert_int_equal(facts().records_in_use, 2);
	assert_int_equal(percpu_reader_count(reader), 1);
	assert_int_equal(percpu_reader_series(reader, 0, &series), 0);
	assert_string_equal(series.name, "a_total");
	assert_int_equal(percpu_reader_counter(reader, 0, &value), 0);
	assert_int_equal(value, 5);
	assert_int_equal(percpu_reader_read(reader), 0);
	assert_int_equal(percpu_reader_count(reader), 2);
}

static void locks_have_a_state(void **state)
{
	struct percpu_header *h = s->region->first->header;
	const uint64_t boot = h->lock_boot;
	struct percpu_reader_facts f;

	(void)state;
	h->alloc_lock = 1234 | FUTEX_WAITERS;
	f = facts();
	assert_int_equal(f.lock, PERCPU_LOCK_HELD);
	assert_int_equal(f.lock_holder, 1234);
	h->lock_boot = boot + 1;
	f = facts();
	assert_int_equal(f.lock, boot != 0 ? PERCPU_LOCK_DIED : PERCPU_LOCK_HELD);
	assert_int_equal(f.lock_holder, 1234);
	h->lock_boot = boot;
	h->alloc_lock = FUTEX_OWNER_DIED | FUTEX_WAITERS;
	f = facts();
	assert_int_equal(f.lock, PERCPU_LOCK_DIED);
	assert_int_equal(f.lock_holder, 0);
	h->alloc_lock = 0;
	assert_int_equal(facts().lock, PERCPU_LOCK_FREE);
}

/* There is no picture then, but there are facts. */
static void unfinished_resets_are_told(void **state)
{
	(void)state;
	s->control->generation++;
	assert_int_equal(percpu_reader_read(reader), -EAGAIN);
	assert_int_equal(facts().reset_unfinished, 1);
	s->control->completed++;
	assert_int_equal(facts().reset_unfinished, 0);
}

static int join(void *arg)
{
	(void)arg;
	return -percpu_segment_join(s, "child", 0);
}

static void owners_are_counted(void **state)
{
	(void)state;
	assert_int_equal(percpu_segment_join(s, "parent", 0), 0);
	assert_int_equal(facts().owners_alive, 1);
	assert_int_equal(facts().owners_dead, 0);
	test_in_child(join, NULL);
	assert_int_equal(facts().owners_alive, 1);
	assert_int_equal(facts().owners_dead, 1);
}

/* The first record and the first owner each need a new chunk. */
static void declare_and_join(void)
{
	declare("a_total");
	assert_int_equal(percpu_segment_join(s, "parent", 0), 0);
}

static void files_grow_meanwhile(void **state)
{
	struct percpu_reader_facts f;
	unsigned n;

	meanwhile = declare_and_join;
	for (n = 1;; n++) {
		reads_left = n;
		f = facts();
		if (reads_left != 0)
			break;
		assert_int_equal(f.cells_used + f.cells_free, f.chunks * PERCPU_LANE_SIZE);
		assert_true(f.records_in_use <= 1 && f.records_pending == 0);
		assert_int_equal(f.records_bytes != 0, f.records_in_use != 0);
		assert_true(f.owners_alive <= 1 && f.owners_dead == 0);
		assert_int_equal(close_it(state), 0);
		assert_int_equal(open_it(state), 0);
	}
	reads_left = 0;
	assert_true(n > 3);
}

static void cut_it(void)
{
	assert_int_equal(truncate(path, PERCPU_HEAD), 0);
}

/* All chunks were copied before. */
static void files_cut_short_meanwhile_have_their_chunks(void **state)
{
	struct percpu_reader_facts f;

	(void)state;
	declare("a_total");
	percpu_segment_close(s);
	s = NULL;
	meanwhile = cut_it;
	waits_when = "facts: copied";
	f = facts();
	assert_null(waits_when);
	assert_int_equal(f.file_bytes, PERCPU_HEAD);
	assert_int_equal(f.chunks, 2);
	assert_int_equal(f.chunks_most, 2);
}

static void wrong_arguments_and_files_are_errors(void **state)
{
	struct percpu_reader_facts f = { .file_bytes = 77 };
	uint64_t *const roots = s->region->first->header->root;
	const uint64_t root = roots[0];

	(void)state;
	assert_int_equal(percpu_reader_facts(NULL, &f), -EINVAL);
	assert_int_equal(percpu_reader_facts(reader, NULL), -EINVAL);
	roots[0] = 0;
	assert_int_equal(percpu_reader_facts(reader, &f), -EBADMSG);
	assert_string_not_equal(percpu_error(), "");
	roots[0] = root;
	roots[1] = root; /* no owners */
	assert_int_equal(percpu_reader_facts(reader, &f), -EBADMSG);
	roots[1] = 0;
	assert_int_equal(f.file_bytes, 77);
	assert_int_equal(percpu_reader_facts(reader, &f), 0);
}

/* The file needs to be open to read, no more. */
static void a_descriptor_to_read_is_enough(void **state)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	(void)state;
	percpu_reader_close(reader);
	reader = NULL;
	assert_int_equal(percpu_reader_open_fd(fd, &reader), 0);
	close(fd);
	assert_int_equal(facts().counting, PERCPU_FACT_YES);
}

#define one(f) cmocka_unit_test_setup_teardown(f, open_it, close_it)

int main(void)
{
	const struct CMUnitTest tests[] = {
		one(an_empty_segment_has_its_facts),
		one(records_are_read),
		one(records_of_the_picture_are_used_if_they_are_as_now),
		one(records_without_objects_are_pending),
		one(pictures_stay),
		one(locks_have_a_state),
		one(unfinished_resets_are_told),
		one(owners_are_counted),
		one(files_grow_meanwhile),
		one(files_cut_short_meanwhile_have_their_chunks),
		one(wrong_arguments_and_files_are_errors),
		one(a_descriptor_to_read_is_enough),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}
