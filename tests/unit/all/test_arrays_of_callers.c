/* SPDX-License-Identifier: MIT */
/*
 * test_arrays_of_callers.c - calls that fill an array of the caller: with no room, with less
 * than there is to fill in, with exactly as much, and with more. Nothing behind the room is
 * stored to.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/grace.h>
#include <percpu/percpu.h>
#include <percpu/rwlock.h>

#include "support.h"
#include "../owners.h"

#include "segment/segment.h"
#include "../segments.h"

enum { MEMBERS = 3, OBJECTS = 5, FIELDS = 3 };

#define GUARD 0xa5
#define FAILED SIZE_MAX

static unsigned char out[65536] __attribute__((aligned(64)));

/* Objects that calls list. */
static struct percpu_owned_gauge *gauge;
static struct percpu_owned_fgauge *fgauge;
static struct percpu_grace *grace, *own_grace;
static struct percpu_rwlock *lock, *own_lock;
static struct percpu_segment *segment;
static struct percpu_reader *reader;
static size_t shares, shares_of_doubles, counted, fields; /* the last two: indices of series */
static struct percpu_counter_array *array;
static struct percpu_fcounter_array *farray;
static struct percpu_compact *compact;
static struct percpu_stats *stats;
static struct percpu_histogram_snapshot *snapshot;

/* Calls that return how many there are, or FAILED. */

static size_t list_owners(size_t n)
{
	return percpu_owners_list(owners, (struct percpu_owner_info *)out, n);
}

static size_t list_owned(size_t n)
{
	size_t found;

	return percpu_owned_gauge_each(gauge, PERCPU_OWNED_ALL, (struct percpu_owned_value *)out, n,
				       &found) == 0 ?
		       found :
		       FAILED;
}

static size_t list_owned_doubles(size_t n)
{
	size_t found;

	return percpu_owned_fgauge_each(fgauge, PERCPU_OWNED_LIVING,
					(struct percpu_owned_value *)out, n, &found) == 0 ?
		       found :
		       FAILED;
}

static size_t list_blockers(size_t n)
{
	return percpu_grace_blockers(grace, (struct percpu_grace_blocker *)out, n);
}

static size_t list_own_blockers(size_t n)
{
	return percpu_grace_blockers(own_grace, (struct percpu_grace_blocker *)out, n);
}

static size_t list_holders(size_t n)
{
	return percpu_rwlock_holders(lock, (struct percpu_rwlock_holder *)out, n);
}

static size_t list_own_holders(size_t n)
{
	return percpu_rwlock_holders(own_lock, (struct percpu_rwlock_holder *)out, n);
}

static size_t list_readers_owners(size_t n)
{
	return percpu_reader_owners(reader, (struct percpu_owner_info *)out, n);
}

static size_t list_shares_in(size_t series, size_t n)
{
	size_t found;

	return percpu_reader_owned_each(reader, series, (struct percpu_owned_value *)out, n,
					&found) == 0 ?
		       found :
		       FAILED;
}

static size_t list_shares(size_t n)
{
	return list_shares_in(shares, n);
}

static size_t list_shares_of_doubles(size_t n)
{
	return list_shares_in(shares_of_doubles, n);
}

/* Calls that accept no more than there is, or only exactly that. */

static size_t read_cpus(size_t n)
{
	return percpu_reader_cpus(reader, counted, (double *)out, n) == 0 ? n : FAILED;
}

static size_t read_fields(size_t n)
{
	return percpu_reader_stats(reader, fields, (uint64_t *)out, n) == 0 ? n : FAILED;
}

static size_t fetch_objects(size_t n)
{
	return percpu_stats_fetch(stats, 0, n, out) == 0 ? n : FAILED;
}

static size_t fetch_last_objects(size_t n)
{
	return percpu_stats_fetch(stats, 2, n, out) == 0 ? n : FAILED;
}

static size_t snapshot_objects(size_t n)
{
	return percpu_stats_snapshot(stats, 0, n, out) == 0 ? n : FAILED;
}

static size_t reset_objects(size_t n)
{
	return percpu_stats_fetch_zero(stats, 0, n, out) == 0 ? n : FAILED;
}

/* Calls that know the size. */

static size_t fetch_array(size_t n)
{
	(void)n;
	percpu_counter_array_fetch_all(array, (uint64_t *)out);
	return OBJECTS;
}

static size_t fetch_farray(size_t n)
{
	(void)n;
	percpu_fcounter_array_fetch_all(farray, (double *)out);
	return OBJECTS;
}

static size_t fetch_compact(size_t n)
{
	(void)n;
	percpu_compact_fetch_all(compact, (uint64_t *)out);
	return OBJECTS;
}

static size_t convert(size_t n)
{
	struct percpu_histogram_otlp o;

	return percpu_histogram_to_otlp(snapshot, (uint64_t *)out, n, &o) == 0 ? o.n : FAILED;
}

static void expect_guards(size_t from, const char *what, size_t n)
{
	for (size_t i = from; i < sizeof(out); i++)
		if (out[i] != GUARD) {
			print_error("%s: with room for %zu, byte %zu behind is stored to\n", what,
				    n, i - from);
			fail();
		}
}

/* Return whether a row was filled in: else it has only guards. */
static bool is_filled(size_t row, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (out[row * size + i] != GUARD)
			return true;
	return false;
}

static void try_room(const char *what, size_t (*call)(size_t n), size_t size, size_t there,
		     size_t n)
{
	const size_t filled = n < there ? n : there;

	memset(out, GUARD, sizeof(out));
	if (call(n) != there) {
		print_error("%s: with room for %zu, it does not say %zu\n", what, n, there);
		fail();
	}
	expect_guards(filled * size, what, n);
	for (size_t i = 0; i < filled; i++)
		assert_true(is_filled(i, size));
}

/* Try less room than there is to fill in. What is behind it may be left from a longer list, and
 * must not be changed. */
static void try_less_room(const char *what, size_t (*call)(size_t n), size_t size, size_t there)
{
	static unsigned char full[sizeof(out)];

	for (size_t n = 0; n < there; n++) {
		assert_int_equal(call(there), there);
		memcpy(full, out, there * size);
		assert_int_equal(call(n), there);
		if (memcmp(out + n * size, full + n * size, (there - n) * size) != 0) {
			print_error("%s: with room for %zu, a row behind has changed\n", what, n);
			fail();
		}
		if (n > 0) /* the last row was filled in, not counted instead of another */
			assert_memory_equal(out, full, n * size);
	}
}

/* Try each room from 0 to two more than there is. */
static void try_rooms(const char *what, size_t (*call)(size_t n), size_t size, size_t there)
{
	for (size_t n = 0; n <= there + 2; n++)
		try_room(what, call, size, there, n);
	try_less_room(what, call, size, there);
}

/* Asking for more than there is fails, and stores nothing. */
static void try_numbers(const char *what, size_t (*call)(size_t n), size_t size, size_t most)
{
	for (size_t n = 0; n <= most + 2; n++) {
		memset(out, GUARD, sizeof(out));
		if ((call(n) == n) != (n <= most)) {
			print_error("%s: %zu of %zu\n", what, n, most);
			fail();
		}
		expect_guards(n <= most ? n * size : 0, what, n);
		for (size_t i = 0; i < n && n <= most; i++)
			assert_true(is_filled(i, size));
	}
}

/* Be in every list: join, hold, and read. */
static int token;

static int be_there(void *arg)
{
	test_child_require(percpu_owners_join(owners) == 0, "join");
	test_child_require(percpu_owned_gauge_set(gauge, 7) == 0, "gauge");
	test_child_require(percpu_owned_fgauge_set(fgauge, 7) == 0, "fgauge");
	token = percpu_grace_enter(grace);
	test_child_require(token >= 0, "grace");
	test_child_require(percpu_rwlock_read_lock(lock) == 0, "lock");
	return arg != NULL ? stay() : 0;
}

static void lists_of_processes(void **state)
{
	pid_t child[MEMBERS - 1];

	(void)state;
	assert_int_equal(percpu_owned_gauge_create_in(owners, PERCPU_OWNED_SUM, &gauge), 0);
	assert_int_equal(percpu_owned_fgauge_create_in(owners, PERCPU_OWNED_SUM, &fgauge), 0);
	assert_int_equal(percpu_grace_create_in(owners, 0, &grace), 0);
	assert_int_equal(percpu_rwlock_create_in(owners, 0, &lock), 0);
	assert_int_equal(be_there(NULL), 0);
	for (unsigned i = 0; i < MEMBERS - 1; i++)
		child[i] = start(be_there, 1);
	try_rooms("owners", list_owners, sizeof(struct percpu_owner_info), MEMBERS);
	try_rooms("owned", list_owned, sizeof(struct percpu_owned_value), MEMBERS);
	try_rooms("owned doubles", list_owned_doubles, sizeof(struct percpu_owned_value), MEMBERS);
	try_rooms("blockers", list_blockers, sizeof(struct percpu_grace_blocker), MEMBERS);
	try_rooms("holders", list_holders, sizeof(struct percpu_rwlock_holder), MEMBERS);
	for (unsigned i = 0; i < MEMBERS - 1; i++)
		stop(child[i]);
	assert_int_equal(percpu_rwlock_read_unlock(lock), 0);
	assert_int_equal(percpu_grace_exit(grace, token), 0);
	assert_int_equal(percpu_rwlock_destroy(lock), 0);
	assert_int_equal(percpu_grace_destroy(grace), 0);
	percpu_owned_gauge_destroy(gauge);
	percpu_owned_fgauge_destroy(fgauge);
}

/* Hold the lock to write, which is found in another way. */
static int hold_to_write(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_write_lock(lock) == 0, "lock");
	return stay();
}

static void lists_with_a_writer(void **state)
{
	pid_t child;

	(void)state;
	assert_int_equal(percpu_rwlock_create_in(owners, 0, &lock), 0);
	child = start(hold_to_write, 0);
	try_rooms("writer", list_holders, sizeof(struct percpu_rwlock_holder), 1);
	stop(child);
	assert_int_equal(percpu_rwlock_destroy(lock), 0);
}

static void lists_of_this_process(void **state)
{
	(void)state;
	assert_int_equal(percpu_grace_create(0, &own_grace), 0);
	assert_int_equal(percpu_rwlock_create(0, &own_lock), 0);
	try_rooms("no blocker", list_own_blockers, sizeof(struct percpu_grace_blocker), 0);
	try_rooms("no holder", list_own_holders, sizeof(struct percpu_rwlock_holder), 0);
	token = percpu_grace_enter(own_grace);
	assert_int_equal(percpu_rwlock_read_lock(own_lock), 0);
	try_rooms("own blocker", list_own_blockers, sizeof(struct percpu_grace_blocker), 1);
	try_rooms("own holder", list_own_holders, sizeof(struct percpu_rwlock_holder), 1);
	assert_int_equal(percpu_grace_exit(own_grace, token), 0);
	assert_int_equal(percpu_rwlock_read_unlock(own_lock), 0);
	assert_int_equal(percpu_grace_destroy(own_grace), 0);
	assert_int_equal(percpu_rwlock_destroy(own_lock), 0);
}

static struct percpu_owned_gauge *metric;
static struct percpu_owned_fgauge *fmetric;

static int have_shares(void *arg)
{
	test_child_require(percpu_owned_gauge_set(metric, 7) == 0, "gauge");
	test_child_require(percpu_owned_fgauge_set(fmetric, 7) == 0, "fgauge");
	return arg != NULL ? stay() : 0;
}

static size_t series_of(const char *name)
{
	struct percpu_reader_series s;
	size_t i = 0;

	while (percpu_reader_series(reader, i, &s) == 0 && strcmp(s.name, name) != 0)
		i++;
	return i;
}

static void open_segment(const char *path)
{
	static const char *const names[] = { "a", "b", "c" };
	const struct percpu_metric_fields f = { sizeof(f), "of", names, FIELDS };
	struct percpu_counter *c;
	struct percpu_stats *s;

	assert_int_equal(percpu_segment_open(path, ALL, NULL, &segment), 0);
	assert_int_equal(percpu_segment_counter(segment, METRIC("c_total"), &c), 0);
	assert_int_equal(percpu_segment_stats(segment, METRIC("s_total"), &f, 0, &s), 0);
	if (WIDE) {
		assert_int_equal(
			percpu_segment_owned_gauge(segment, METRIC("g"), PERCPU_OWNED_SUM, &metric),
			0);
		assert_int_equal(percpu_segment_owned_fgauge(segment, METRIC("f"), PERCPU_OWNED_SUM,
							     &fmetric),
				 0);
	}
}

static void try_reader(size_t members)
{
	struct percpu_reader_info info;

	assert_int_equal(percpu_reader_read(reader), 0);
	assert_int_equal(percpu_reader_info(reader, &info), 0);
	counted = series_of("c_total");
	fields = series_of("s_total");
	shares = series_of("g");
	shares_of_doubles = series_of("f");
	try_numbers("CPUs", read_cpus, sizeof(double), info.cpus);
	memset(out, GUARD, sizeof(out));
	for (size_t n = 0; n < FIELDS + 3; n++) {
		assert_int_equal(read_fields(n), n == FIELDS ? n : FAILED);
		expect_guards(n == FIELDS ? FIELDS * sizeof(uint64_t) : 0, "fields", n);
		memset(out, GUARD, sizeof(out));
	}
	if (members == 0)
		return;
	try_rooms("reader's owners", list_readers_owners, sizeof(struct percpu_owner_info),
		  members);
	try_rooms("shares", list_shares, sizeof(struct percpu_owned_value), members);
	try_rooms("shares of doubles", list_shares_of_doubles, sizeof(struct percpu_owned_value),
		  members);
}

static void lists_of_readers(void **state)
{
	const char *path = test_path("segment");
	pid_t child[MEMBERS - 1];
	const bool wide = WIDE;

	(void)state;
	open_segment(path);
	assert_int_equal(percpu_reader_open(path, &reader), 0);
	if (wide)
		assert_int_equal(have_shares(NULL), 0);
	for (unsigned i = 0; i < MEMBERS - 1 && wide; i++)
		child[i] = start(have_shares, 1);
	try_reader(wide ? MEMBERS : 0);
	for (unsigned i = 0; i < MEMBERS - 1 && wide; i++)
		stop(child[i]);
	percpu_reader_close(reader);
	percpu_segment_close(segment);
}

static void values_of_sets(void **state)
{
	(void)state;
	assert_int_equal(percpu_counter_array_create(OBJECTS, &array), 0);
	assert_int_equal(percpu_fcounter_array_create(OBJECTS, &farray), 0);
	assert_int_equal(percpu_compact_create(OBJECTS, &compact), 0);
	try_room("array", fetch_array, sizeof(uint64_t), OBJECTS, OBJECTS);
	try_room("farray", fetch_farray, sizeof(double), OBJECTS, OBJECTS);
	try_room("compact", fetch_compact, sizeof(uint64_t), OBJECTS, OBJECTS);
	percpu_counter_array_destroy(array);
	percpu_fcounter_array_destroy(farray);
	percpu_compact_destroy(compact);
}

static void values_of_statistics(void **state)
{
	static const unsigned flags[] = { 0, PERCPU_STATS_WHOLE };
	const size_t size = FIELDS * sizeof(uint64_t);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(percpu_stats_create(size, OBJECTS, flags[i], &stats), 0);
		try_numbers("fetch", fetch_objects, size, OBJECTS);
		try_numbers("fetch the last", fetch_last_objects, size, OBJECTS - 2);
		try_numbers("snapshot", snapshot_objects, size, OBJECTS);
		try_numbers("reset", reset_objects, size, OBJECTS);
		percpu_stats_destroy(stats);
	}
}

/* The scale is the highest that has room, so that all of it is used, and no more. */
static void counts_of_histograms(void **state)
{
	struct percpu_histogram_options o = { .size = sizeof(o), .min = 0x1p-16, .max = 0x1p16 };
	struct percpu_histogram *h;
	size_t least = 0, n;

	(void)state;
	assert_int_equal(percpu_histogram_create(&o, &h), 0);
	percpu_histogram_record(h, 0x1p-15);
	percpu_histogram_record(h, 0x1p15);
	assert_int_equal(percpu_histogram_snapshot_create(h, &snapshot), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, snapshot), 0);
	for (size_t room = 0; room < 300; room++) {
		memset(out, GUARD, sizeof(out));
		n = convert(room);
		if (n == FAILED) {
			assert_int_equal(room, least++);
			expect_guards(0, "counts", room);
			continue;
		}
		assert_true(n <= room);
		expect_guards(n * sizeof(uint64_t), "counts", room);
		for (size_t i = 0; i < n; i++)
			assert_true(is_filled(i, sizeof(uint64_t)));
	}
	assert_true(least > 0 && convert(least) == least);
	percpu_histogram_snapshot_destroy(snapshot);
	percpu_histogram_destroy(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lists_of_processes, begin_owners, end_owners),
		cmocka_unit_test_setup_teardown(lists_with_a_writer, begin_owners, end_owners),
		cmocka_unit_test_setup_teardown(lists_of_readers, begin_owners, end_owners),
		cmocka_unit_test(lists_of_this_process),
		cmocka_unit_test(values_of_sets),
		cmocka_unit_test(values_of_statistics),
		cmocka_unit_test(counts_of_histograms),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
