/* SPDX-License-Identifier: MIT */
/* test_faults_readers.c - calls of libc fail while a reader reads a segment. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/reader.h>

#include "support.h"
#include "faults_kept.h"
#include "sweep.h"

enum { ROWS = 100 };

static int read_histogram(const struct percpu_reader *r, size_t i)
{
	struct percpu_histogram_snapshot *s = NULL;
	int e = percpu_reader_histogram(r, i, &s);

	assert_true((e == 0) == (s != NULL));
	percpu_histogram_snapshot_destroy(s);
	return e;
}

static int read_owned(const struct percpu_reader *r, size_t i)
{
	struct percpu_owned_value rows[ROWS];
	size_t n = 77;
	double v;
	int e = percpu_reader_owned_each(r, i, rows, ROWS, &n);

	assert_int_equal(n, e == 0 ? 1 : 77);
	if (e == 0)
		e = percpu_reader_owned_fetch(r, i, PERCPU_OWNED_LIVING, &v);
	n = 77;
	if (e == 0)
		e = percpu_reader_owned_shown(r, i, rows, ROWS, &n);
	assert_int_equal(n, e == 0 ? 1 : 77);
	return e != -EINVAL ? e : 0; /* it is not shown for each owner */
}

static int read_counter(struct percpu_reader *r, size_t i)
{
	struct percpu_reader_info info;
	struct percpu_exemplar exemplar;
	double cpus[1024];
	uint64_t n;
	int e = percpu_reader_counter(r, i, &n), none = percpu_reader_exemplar(r, i, 0, &exemplar);

	assert_true(none == 0 || none == -EINVAL);
	assert_int_equal(percpu_reader_info(r, &info), 0);
	return e != 0 ? e : percpu_reader_cpus(r, i, cpus, info.cpus < 1024 ? info.cpus : 1024);
}

/* Read a value by all calls for its kind. */
static int read_value(struct percpu_reader *r, size_t i, unsigned kind)
{
	uint64_t parts[KEPT_FIELDS], when;
	int64_t level;
	double v, max;

	switch (kind) {
	case PERCPU_METRIC_COUNTER:
		return read_counter(r, i);
	case PERCPU_METRIC_GAUGE:
		return percpu_reader_gauge(r, i, &level);
	case PERCPU_METRIC_LATEST:
		return percpu_reader_when(r, i, &when);
	case PERCPU_METRIC_HISTOGRAM:
		return read_histogram(r, i);
	case PERCPU_METRIC_EXTREMA:
		return percpu_reader_extrema(r, i, &v, &max);
	case PERCPU_METRIC_OWNED_GAUGE:
	case PERCPU_METRIC_OWNED_FGAUGE:
		return read_owned(r, i);
	case PERCPU_METRIC_STATS:
		return percpu_reader_stats(r, i, parts, KEPT_FIELDS);
	default:
		return percpu_reader_number(r, i, &v);
	}
}

/* A lock that cannot be asked for tells nothing. */
static int read_facts(struct percpu_reader *r)
{
	struct percpu_reader_facts f = { .file_bytes = 77 };
	int e = percpu_reader_facts(r, &f);

	if (e != 0) {
		assert_int_equal(f.file_bytes, 77);
		return e;
	}
	assert_true(f.counting != PERCPU_FACT_NO);
	assert_int_equal(f.owners_alive + f.owners_dead, 1);
	assert_true(f.records_in_use > 7 && f.records_pending == 0);
	return 0;
}

static int read_all(struct percpu_reader *r)
{
	struct percpu_reader_series series;
	struct percpu_owner_info rows[ROWS];
	int e = percpu_reader_read(r);

	assert_true(e == 0 || percpu_reader_count(r) == 0);
	for (size_t i = 0; e == 0 && i < percpu_reader_count(r); i++) {
		e = percpu_reader_series(r, i, &series);
		if (e == 0)
			e = read_value(r, i, series.kind);
	}
	if (e == 0)
		assert_int_equal(percpu_reader_owners(r, rows, ROWS), 1);
	return e != 0 ? e : read_facts(r);
}

/* Take a picture, and a second one after it, or after a failure. */
static int use_reader(struct percpu_reader *r, int e)
{
	if (e == 0)
		e = read_all(r);
	if (e == 0)
		e = percpu_reader_set_timeout(r, UINT64_C(60000000000));
	if (e == 0)
		e = read_all(r);
	(void)fault_clear();
	if (r != NULL) {
		assert_non_null(percpu_error());
		assert_int_equal(read_all(r), 0);
		assert_true(percpu_reader_count(r) > 7);
	}
	percpu_reader_close(r);
	return e;
}

static int reader(void)
{
	struct percpu_reader *r = NULL;
	int e;

	(void)kept_segment(NULL);
	e = percpu_reader_open(kept_path(), &r);
	return use_reader(r, e);
}

static int reader_by_descriptor(void)
{
	static int fd = -1; /* opened before anything fails */
	struct percpu_reader *r = NULL;
	int e;

	(void)kept_segment(NULL);
	if (fd < 0)
		fd = open(kept_path(), O_RDONLY | O_CLOEXEC);
	e = percpu_reader_open_fd(fd, &r);
	return use_reader(r, e);
}

/* Open a relative path. The reader keeps an absolute one. */
static int reader_by_relative_path(void)
{
	static char here[4096], folder[4096], name[300];
	struct percpu_reader *r = NULL;
	const char *base;
	int e;

	(void)kept_segment(NULL);
	base = strrchr(kept_path(), '/');
	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(folder, sizeof(folder), "%.*s", (int)(base - kept_path()), kept_path());
	snprintf(name, sizeof(name), ".%s", base);
	assert_int_equal(chdir(folder), 0);
	e = percpu_reader_open(name, &r);
	assert_int_equal(chdir(here), 0);
	return use_reader(r, e);
}

static int consistent_reader(void)
{
	struct percpu_reader *r = NULL;
	int e;

	(void)kept_segment(NULL);
	e = percpu_reader_open(kept_path(), &r);
	if (e == 0)
		e = percpu_reader_set_consistent(r);
	return use_reader(r, e);
}

/* -EBADF: as if the program had closed the descriptor, and opened another file under its number. */
static const struct sweep_operation operations[] = {
	{ "reader", reader, { SWEEP_MEMORY, -EBADF, -EBADMSG } },
	{ "reader by descriptor", reader_by_descriptor, { SWEEP_MEMORY, -EBADF, -EBADMSG } },
	{ "reader by relative path", reader_by_relative_path, { SWEEP_MEMORY, -EBADF, -EBADMSG } },
	{ "consistent reader", consistent_reader, { SWEEP_MEMORY, SWEEP_FENCE, -EBADF, -EBADMSG } },
	{ NULL, NULL, { 0 } },
};

static void each_call_fails_in_turn(void **state)
{
	(void)state;
	sweep(operations);
	sweep_report();
	assert_true(sweep_failures(FAULT_PREAD) > 0 && sweep_failures(FAULT_OPEN) > 0);
	assert_int_equal(fault_inherited(), 0);
}

static unsigned long pages_mapped(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long n = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &n), 1);
	fclose(f);
	return n;
}

/* The buffer is unmapped, also if the file cannot be read. */
static void fail_to_read_cpus(struct percpu_reader *r, double *cpus, size_t n)
{
	const unsigned long before = pages_mapped();

	for (int i = 0; i < 100; i++) {
		fault_set(FAULT_PREAD, 1, EIO, false);
		assert_int_equal(percpu_reader_cpus(r, 0, cpus, n), -EIO);
		assert_int_equal(fault_clear(), 1);
	}
	assert_true(pages_mapped() < before + 100);
}

/* Values of many CPUs need a buffer, for which memory may lack. */
static void values_of_many_cpus_are_read_or_not(void **state)
{
	enum { CPUS = 1000 };
	struct percpu_segment_options o = { .size = sizeof(o), .cpus = CPUS };
	const struct percpu_metric m = { .size = sizeof(m), .name = "wide_total" };
	static double cpus[CPUS];
	char *path = strdup(test_path("wide"));
	struct percpu_segment *s;
	struct percpu_counter *c;
	struct percpu_reader *r;

	(void)state;
	assert_int_equal(percpu_segment_open(path, PERCPU_SEGMENT_CREATE, &o, &s), 0);
	assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
	percpu_counter_add(c, 5);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	cpus[0] = cpus[CPUS - 1] = 77;
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	assert_int_equal(percpu_reader_cpus(r, 0, cpus, CPUS), -ENOMEM);
	assert_int_equal(fault_clear(), 1);
	assert_string_equal(percpu_error(), "there is no memory for what each CPU has");
	fail_to_read_cpus(r, cpus, CPUS);
	assert_true(cpus[0] == 77 && cpus[CPUS - 1] == 77);
	assert_int_equal(percpu_reader_cpus(r, 0, cpus, CPUS), 0);
	assert_true(cpus[CPUS - 1] == 0);
	percpu_reader_close(r);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_in_turn),
		cmocka_unit_test(values_of_many_cpus_are_read_or_not),
	};

	return cmocka_run_group_tests(tests, sweep_set_up, sweep_tear_down);
}
