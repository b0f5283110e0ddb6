/* SPDX-License-Identifier: MIT */
/*
 * test_faults_segments.c - calls of libc fail while segments are created, opened, read and
 * reset, and metrics of each kind are declared.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"
#include "faults_kept.h"
#include "../segments.h"
#include "memory/memory.h"
#include "segment/segment.h"
#include "sweep.h"

/* Whatever failed, declare the metrics again, and count. A failure has an error sentence. */
static void declare_again(struct percpu_segment *s, int e)
{
	struct kept_metrics m;

	if (s == NULL)
		return;
	assert_non_null(percpu_error());
	assert_string_not_equal(percpu_strerror(e != 0 ? e : -EIO), "");
	assert_int_equal(kept_declare(s, &m), 0);
	assert_int_equal(kept_count(&m), 0);
}

/* A file that has appeared under the name is a segment that can be opened. */
static void remove_file(const char *path, bool expected)
{
	struct percpu_segment *s = NULL;

	if (access(path, F_OK) != 0) {
		assert_false(expected);
		return;
	}
	assert_int_equal(percpu_segment_open(path, 0, NULL, &s), 0);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

static int create(void)
{
	const char *path = test_path("segment");
	struct percpu_segment *s = NULL;
	struct kept_metrics m;
	int e = percpu_segment_open(path, ALL, NULL, &s);

	if (e == 0)
		e = kept_declare(s, &m);
	if (e == 0)
		e = percpu_segment_join(s, "swept", PERCPU_OWNERS_RESUME);
	if (e == 0)
		e = kept_count(&m);
	if (e == 0)
		e = percpu_segment_leave(s);
	(void)fault_clear();
	declare_again(s, e);
	percpu_segment_close(s);
	remove_file(path, s != NULL);
	return e;
}

/* Create a segment by a descriptor, and declare a table. Read when each metric started. */
static int create_by_descriptor(void)
{
	int fd = memfd_create("segment", MFD_CLOEXEC), e;
	struct percpu_segment_start moment = { .generation = 77 };
	struct percpu_segment *s = NULL;
	struct kept_metrics m;

	e = percpu_segment_open_fd(fd, ALL, NULL, &s);
	if (e == 0)
		e = kept_declare_table(s, &m);
	if (e == 0)
		e = percpu_segment_started(s, &moment);
	if (e == 0)
		e = percpu_segment_series_started(s, METRIC("length"), &moment);
	assert_true(e != 0 || moment.generation == 1);
	(void)fault_clear();
	declare_again(s, e);
	percpu_segment_close(s);
	close(fd);
	return e;
}

static int open_kept(unsigned flags)
{
	struct percpu_segment *s = NULL;
	struct kept_metrics m;
	int e;

	(void)kept_segment(NULL);
	e = percpu_segment_open(kept_path(), flags, NULL, &s);
	if (e == 0)
		e = kept_declare(s, &m);
	if (e == 0 && flags != 0)
		e = kept_count(&m);
	(void)fault_clear();
	if (flags != 0)
		declare_again(s, e);
	else if (s != NULL)
		assert_int_equal(kept_declare(s, &m), 0);
	percpu_segment_close(s);
	return e;
}

static int open_to_write(void)
{
	return open_kept(0);
}

/* Reset. If that fails, the next reset completes it: all metrics were reset then, or none. */
static int start_anew(void)
{
	const unsigned anew = PERCPU_SEGMENT_ANEW;
	struct percpu_segment *s = NULL, *next = NULL;
	struct kept_metrics m;
	int e;

	(void)kept_segment(&m);
	e = kept_count(&m);
	assert_true(e == 0 || !WIDE); /* else it takes locks, which may fail */
	e = percpu_segment_open(kept_path(), anew, NULL, &s);
	(void)fault_clear();
	assert_true((e == 0) == (s != NULL));
	if (e != 0)
		assert_int_equal(percpu_segment_open(kept_path(), anew, NULL, &next), 0);
	percpu_segment_close(next);
	assert_int_equal(percpu_counter_fetch(m.counter), 0);
	assert_int_equal((int)percpu_fcounter_fetch(m.fcounter), 0);
	percpu_segment_close(s);
	return e;
}

static int start_anew_by_descriptor(void)
{
	static int fd = -1; /* opened before anything fails */
	struct percpu_segment *s = NULL;
	int e;

	if (fd < 0) {
		fd = memfd_create("anew", MFD_CLOEXEC);
		assert_int_equal(percpu_segment_open_fd(fd, ALL, NULL, &s), 0);
		declare_again(s, 0);
		percpu_segment_close(s);
		s = NULL;
	}
	e = percpu_segment_open_fd(fd, PERCPU_SEGMENT_ANEW, NULL, &s);
	(void)fault_clear();
	declare_again(s, e);
	percpu_segment_close(s);
	return e;
}

/* Remove a file that no process has open. If that fails, the file is still there, and the next
 * removal succeeds. */
static int remove_segment(void)
{
	const char *path = test_path("removed");
	struct percpu_segment *s = NULL;
	int e = percpu_segment_open(path, ALL, NULL, &s), removed = -ENOENT;

	percpu_segment_close(s);
	if (e == 0)
		e = removed = percpu_segment_remove(path, 0);
	(void)fault_clear();
	assert_true(removed == 0 ? access(path, F_OK) != 0 : s == NULL || access(path, F_OK) == 0);
	remove_file(path, s != NULL && removed != 0);
	return e;
}

static const struct sweep_operation operations[] = {
	{ "removal",
	  remove_segment,
	  { SWEEP_FILE, -EBUSY, -ENOLCK, -EBADF, -EBADMSG, -ETIMEDOUT } },
	{ "segment", create, { SWEEP_FILE, -ENOLCK, -EBADMSG, -ETIMEDOUT } },
	{ "segment by descriptor", create_by_descriptor, { SWEEP_FILE, -EBADMSG, -ETIMEDOUT } },
	{ "segment to write", open_to_write, { SWEEP_FILE, -ENOLCK, -EBADMSG, -ETIMEDOUT } },
	{ "segment anew", start_anew, { SWEEP_MEMORY, -ENOLCK, -EBADF, -EBADMSG, SWEEP_FENCE } },
	{ "anew by descriptor",
	  start_anew_by_descriptor,
	  { SWEEP_MEMORY, -ENOLCK, -EBADF, -EBADMSG, SWEEP_FENCE } },
	{ NULL, NULL, { 0 } },
};

static void each_call_fails_in_turn(void **state)
{
	(void)state;
	sweep(operations);
	sweep_report();
	assert_true(sweep_failures(FAULT_OPEN) > 0 && sweep_failures(FAULT_FCNTL) > 0 &&
		    sweep_failures(FAULT_MALLOC) > 0);
	assert_int_equal(fault_inherited(), 0);
}

/* A segment that debug mode cannot watch is not opened. What watches one stays for good, so it is
 * not swept. */
static void watched_segments_need_memory(void **state)
{
	const char *path = test_path("watched");
	struct percpu_segment *s = NULL;
	unsigned failed;

	(void)state;
	for (unsigned n = 0;; n++) {
		int e;

		fault_set(FAULT_CALLOC, n, ENOMEM, false);
		e = percpu_segment_open(path, ALL | PERCPU_SEGMENT_DEBUG, NULL, &s);
		failed = fault_clear();
		if (failed == 0) {
			assert_int_equal(e, 0);
			break;
		}
		assert_true(e == 0 || e == -ENOMEM);
		assert_true((e == 0) == (s != NULL && s->check != NULL));
		if (e == 0)
			percpu_segment_close(s);
		s = NULL;
	}
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* A file is removed only once the removal is announced in it, and everything in it was read. */
static void what_is_not_read_or_announced_stays(void **state)
{
	const char *path = test_path("announced");
	struct percpu_segment *s = NULL;
	unsigned failed;

	(void)state;
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	percpu_segment_close(s);
	fault_set(FAULT_PWRITE, 0, EIO, false);
	assert_int_equal(percpu_segment_remove(path, 0), -EIO);
	assert_int_equal(fault_clear(), 1);
	for (unsigned n = 0;; n++) {
		int e;

		assert_int_equal(access(path, F_OK), 0);
		fault_set(FAULT_PREAD, n, EIO, false);
		e = percpu_segment_remove(path, 0);
		failed = fault_clear();
		assert_int_equal(e, failed != 0 ? -EIO : 0);
		if (failed == 0)
			break;
	}
	assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_in_turn),
		cmocka_unit_test(what_is_not_read_or_announced_stays),
		cmocka_unit_test(watched_segments_need_memory),
	};

	return cmocka_run_group_tests(tests, sweep_set_up, sweep_tear_down);
}
