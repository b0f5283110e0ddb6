/* SPDX-License-Identifier: MIT */
/*
 * test_faults_values.c - calls of libc fail under objects that are read and changed in many
 * ways: histograms, extremes, approximate sums, rates, rings, and regions themselves.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/rate.h>
#include <percpu/ring.h>

#include "support.h"
#include "memory/memory.h"
#include "sweep.h"

/* The place of objects: memory of the process, or the file. Each place has an operation of its
 * own: an operation that lets all calls through at its end would leave none to fail in the next
 * one. */
static struct percpu_region *where;

#define IN_BOTH(name)                                                                              \
	static int name(void)                                                                      \
	{                                                                                          \
		where = NULL;                                                                      \
		return name##_there();                                                             \
	}                                                                                          \
	static int shared_##name(void)                                                             \
	{                                                                                          \
		where = sweep_region;                                                              \
		return name##_there();                                                             \
	}

/* Use snapshots of a histogram, and what can be made of them. */
static int use_snapshots(struct percpu_histogram *h, struct percpu_histogram_snapshot *s,
			 struct percpu_histogram_snapshot *all)
{
	struct percpu_histogram_snapshot *folded = NULL;
	struct percpu_histogram_quantile q;
	struct percpu_histogram_otlp otlp;
	uint64_t counts[160];
	int e;

	percpu_histogram_record_at(h, 2, 3);
	e = percpu_histogram_fetch(h, 2, s);
	if (e == 0)
		e = percpu_histogram_merge(all, s);
	/* Without atomic pairs a record may need a lock, which may fail. */
	assert_true(e != 0 || all->count != 0 || !percpu_pair_is_atomic());
	if (e == 0 && all->count != 0)
		e = percpu_histogram_quantile(all, 0.5, &q);
	if (e == 0)
		e = percpu_histogram_to_otlp(all, counts, 160, &otlp);
	if (e == 0)
		e = percpu_histogram_fetch_zero(h, 2, s);
	if (e == 0)
		e = percpu_histogram_subtract(all, s);
	if (e == 0)
		e = percpu_histogram_downscale(all, 0, &folded);
	percpu_histogram_snapshot_destroy(folded);
	return e != 0 ? e : percpu_histogram_zero(h, 2);
}

static int exemplars_there(void)
{
	struct percpu_exemplars *x = NULL, *other = NULL;
	struct percpu_exemplar is;
	int e = where != NULL ? percpu_exemplars_create_in(where, NULL, &x) :
				percpu_exemplars_create(NULL, &x);

	if (e == 0)
		e = percpu_exemplars_store(x, 5, &(const struct percpu_exemplar_label){ "id", "6" },
					   1);
	if (e == 0 && where != NULL)
		e = percpu_exemplars_attach(where, percpu_exemplars_key(x), NULL, &other);
	if (e == 0)
		e = percpu_exemplars_fetch(other != NULL ? other : x, 0, &is);
	assert_true(e != 0 || (is.value == 5 && is.labels == 1));
	if (e == 0)
		e = percpu_exemplars_reset(x);
	percpu_exemplars_detach(other);
	percpu_exemplars_destroy(x);
	return e;
}

IN_BOTH(exemplars)

static int histograms_there(void)
{
	const struct percpu_histogram_options o = { .size = sizeof(o), .n = 3, .min = 1, .max = 8 };
	struct percpu_histogram_snapshot *s = NULL, *all = NULL;
	struct percpu_histogram *h = NULL;
	int e = where != NULL ? percpu_histogram_create_in(where, &o, &h) :
				percpu_histogram_create(&o, &h);

	if (e == 0)
		e = percpu_histogram_snapshot_create(h, &s);
	if (e == 0)
		e = percpu_histogram_snapshot_create(h, &all);
	if (e == 0)
		e = use_snapshots(h, s, all);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_snapshot_destroy(all);
	percpu_histogram_destroy(h);
	return e;
}

IN_BOTH(histograms)

static int bounded_histograms_there(void)
{
	static const double bounds[] = { -1, 2, 4 };
	const struct percpu_histogram_options o = {
		.size = sizeof(o), .n = 3, .bounds = bounds, .bounds_n = 3
	};
	struct percpu_histogram_snapshot *s = NULL;
	struct percpu_histogram *h = NULL, *other = NULL;
	int e = where != NULL ? percpu_histogram_create_in(where, &o, &h) :
				percpu_histogram_create(&o, &h);

	if (e != 0)
		return e;
	percpu_histogram_record_at(h, 2, 3);
	if (where != NULL)
		e = percpu_histogram_attach(where, percpu_histogram_key(h), &other);
	if (e == 0)
		e = percpu_histogram_snapshot_create(other != NULL ? other : h, &s);
	if (e == 0)
		e = percpu_histogram_fetch(h, 2, s);
	assert_true(e != 0 || s->bounds[1] == 2);
	assert_true(e != 0 || s->bucket[2].count == 1 || !percpu_pair_is_atomic());
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_detach(other);
	percpu_histogram_destroy(h);
	return e;
}

IN_BOTH(bounded_histograms)

static int use_words(struct percpu_extrema *x)
{
	int64_t min, max;
	int e = percpu_extrema_observe(x, 5);

	if (e == 0)
		e = percpu_extrema_fetch(x, &min, &max);
	if (e == 0)
		e = percpu_extrema_fetch_reset(x, &min, &max);
	assert_true(e != 0 || max == 5);
	if (e == 0)
		e = percpu_extrema_observe(x, 6);
	return e != 0 ? e : percpu_extrema_reset(x);
}

static int use_doubles(struct percpu_extrema *x)
{
	double min, max;
	int e = percpu_extrema_observe_double(x, 5);

	if (e == 0)
		e = percpu_extrema_fetch_double(x, &min, &max);
	if (e == 0)
		e = percpu_extrema_fetch_reset_double(x, &min, &max);
	assert_true(e != 0 || (int)max == 5);
	return e;
}

static int extrema_of(unsigned flags)
{
	struct percpu_extrema *x = NULL;
	int e = where != NULL ? percpu_extrema_create_in(where, flags, &x) :
				percpu_extrema_create(flags, &x);

	if (e == 0)
		e = flags != 0 ? use_doubles(x) : use_words(x);
	(void)fault_clear();
	/* Whatever failed, later values are not lost, and after a reset only new ones count. */
	if (x != NULL && e != 0)
		assert_int_equal(percpu_extrema_reset(x), 0);
	if (x != NULL)
		assert_int_equal(flags != 0 ? use_doubles(x) : use_words(x), 0);
	percpu_extrema_destroy(x);
	return e;
}

static int extrema_there(void)
{
	return extrema_of(0);
}

static int doubles_there(void)
{
	return extrema_of(PERCPU_EXTREMA_DOUBLE);
}

IN_BOTH(extrema)

IN_BOTH(doubles)

/* Use a sum near its limit, where it fences. */
static int approx_there(void)
{
	const struct percpu_approx_options o = { .size = sizeof(o), .batch = 1 };
	struct percpu_approx *a = NULL;
	int64_t sum = 0, given = 0;
	int e;

	if (where != NULL && !percpu_pair_is_atomic())
		return 0;
	e = where != NULL ? percpu_approx_create_in(where, &o, &a) : percpu_approx_create(&o, &a);
	for (; e == 0 && given < 4; given++)
		e = percpu_approx_add_below(a, 1, 4);
	given -= e != 0 && given > 0;
	if (e == 0)
		assert_int_equal(percpu_approx_add_below(a, 1, 4), -ERANGE);
	(void)fault_clear();
	if (a != NULL) {
		sum = percpu_approx_fetch(a);
		assert_int_equal(sum, given);
		assert_int_equal(percpu_approx_compare(a, given), 0);
		percpu_approx_zero(a);
		assert_int_equal(percpu_approx_add_below(a, 1, 4), 0);
		assert_int_equal(percpu_approx_fetch_zero(a), 1);
	}
	percpu_approx_destroy(a);
	return e;
}

IN_BOTH(approx)

static int rate_there(void)
{
	struct percpu_rate *r = NULL;
	int e = where != NULL ? percpu_rate_create_in(where, 2, 3600000, &r) :
				percpu_rate_create(2, 3600000, &r);

	if (e == 0) {
		assert_true(percpu_rate_check(r) && percpu_rate_check(r));
		assert_false(percpu_rate_check(r));
		e = percpu_rate_set_limit(r, 3);
	}
	(void)fault_clear();
	assert_true(e != 0 || percpu_rate_check(r));
	percpu_rate_destroy(r);
	return e;
}

IN_BOTH(rate)

enum { RECORDS = 5 };

/* Read all records, by a reader of one CPU's ring, or of all. After a failure, go on reading. */
static int read_records(const struct percpu_ring *ring, unsigned cpu, unsigned flags,
			unsigned *ret_n)
{
	struct percpu_ring_reader *reader = NULL;
	struct percpu_ring_record record;
	int e = percpu_ring_reader_create(ring, cpu, flags, &reader), f;

	while (e == 0 && (e = percpu_ring_read(reader, &record)) == 0)
		++*ret_n;
	f = e == -EAGAIN ? 0 : e;
	if (reader != NULL && f != 0) {
		(void)fault_clear();
		while (percpu_ring_read(reader, &record) == 0)
			++*ret_n;
	}
	percpu_ring_reader_destroy(reader);
	return f;
}

static int read_ring(const struct percpu_ring *ring, unsigned flags)
{
	unsigned looked = 0, of_cpus = 0, fenced = 0, taken = 0;
	int e = read_records(ring, PERCPU_RING_ALL, PERCPU_RING_LOOK, &looked);

	for (unsigned cpu = 0; e == 0 && cpu < percpu_status()->possible_cpus; cpu++)
		e = read_records(ring, cpu, PERCPU_RING_LOOK | PERCPU_RING_UNFENCED, &of_cpus);
	for (unsigned cpu = 0; e == 0 && cpu < percpu_status()->possible_cpus; cpu++)
		e = read_records(ring, cpu, PERCPU_RING_LOOK, &fenced);
	if (e == 0)
		e = read_records(ring, PERCPU_RING_ALL, 0, &taken);
	(void)fault_clear();
	if (e == 0) {
		assert_int_equal(looked, RECORDS);
		assert_int_equal(of_cpus, RECORDS);
		assert_int_equal(fenced, RECORDS);
		assert_int_equal(taken, RECORDS);
	}
	/* Records that no reader has taken are still there. */
	looked = 0;
	assert_int_equal(read_records(ring, PERCPU_RING_ALL, 0, &looked), 0);
	assert_int_equal(looked, flags != 0 ? RECORDS - taken : RECORDS);
	return e;
}

static int ring_of(unsigned flags)
{
	struct percpu_ring *ring = NULL;
	int e = where != NULL ? percpu_ring_create_in(where, PERCPU_RING_MIN, flags, &ring) :
				percpu_ring_create(PERCPU_RING_MIN, flags, &ring);

	for (unsigned i = 0; i < RECORDS && e == 0; i++)
		e = percpu_ring_put(ring, &i, sizeof(i));
	if (e == 0)
		e = read_ring(ring, flags);
	percpu_ring_destroy(ring);
	return e;
}

static int ring_there(void)
{
	return ring_of(0);
}

static int keeping_ring_there(void)
{
	return ring_of(PERCPU_RING_KEEP);
}

IN_BOTH(ring)

IN_BOTH(keeping_ring)

/* Make a region by a descriptor, with a cell at a root, which another handle finds. */
static int region_by_descriptor(void)
{
	int fd = memfd_create("sweep", MFD_CLOEXEC), e;
	struct percpu_region *r = NULL, *other = NULL;
	void *cell = NULL, *there = NULL;
	size_t size = 0;

	e = percpu_region_memory_size(NULL, &size);
	if (e == 0)
		e = test_region_new_fd(fd, NULL, &r);
	if (e == 0)
		e = percpu_region_alloc(r, 8, 8, &cell);
	if (e == 0)
		e = percpu_region_set_root(r, 1, 0, percpu_region_key(r, cell));
	if (e == 0)
		e = percpu_region_open_fd(fd, PERCPU_REGION_WRITE, NULL, &other);
	if (e == 0)
		there = percpu_region_at(other, percpu_region_root(other, 1), 8);
	if (e == 0)
		e = percpu_region_free(other, there, 8);
	(void)fault_clear();
	assert_true(e != 0 || there != NULL);
	percpu_region_close(other);
	percpu_region_close(r);
	close(fd);
	return e;
}

/* Make a region in the caller's memory. */
static int region_in_memory(void)
{
	static _Alignas(PERCPU_REGION_MEMORY_ALIGN) char memory[32 << 20]; /* for 128 CPUs */
	struct percpu_region_options o = { .size = sizeof(o), .memory = memory };
	struct percpu_region *r = NULL;
	void *cell = NULL;
	int e = percpu_region_memory_size(NULL, &o.memory_size);

	assert_true(e == 0 && o.memory_size <= sizeof(memory));
	e = percpu_region_create(&o, &r);
	if (e == 0)
		e = percpu_region_alloc(r, 8, 8, &cell);
	(void)fault_clear();
	percpu_region_close(r);
	return e;
}

/* Use a chunk that another handle has made, which must be mapped first. */
static int region_of_others(void)
{
	int fd = memfd_create("sweep", MFD_CLOEXEC), e;
	struct percpu_region *r = NULL, *other = NULL;
	void *cell = NULL;

	e = test_region_new_fd(fd, NULL, &r);
	if (e == 0)
		e = percpu_region_open_fd(fd, PERCPU_REGION_WRITE, NULL, &other);
	while (e == 0 && r->n == 1)
		e = percpu_region_alloc(r, PERCPU_LANE_SIZE / 2, 8, &cell);
	if (e == 0)
		e = percpu_region_alloc(other, 8, 8, &cell);
	(void)fault_clear();
	if (other != NULL) {
		assert_int_equal(percpu_region_alloc(other, 8, 8, &cell), 0);
		assert_int_equal(
			percpu_region_free(
				r, percpu_region_at(r, percpu_region_key(other, cell), 8), 8),
			0);
		assert_int_equal(other->n, r->n);
	}
	percpu_region_close(other);
	percpu_region_close(r);
	close(fd);
	return e;
}

static const struct sweep_operation operations[] = {
	{ "histograms", histograms, { SWEEP_FILE, -ETIMEDOUT } },
	{ "histograms with own bounds", bounded_histograms, { SWEEP_FILE, -ETIMEDOUT } },
	{ "these in a file", shared_bounded_histograms, { SWEEP_FILE, -ETIMEDOUT } },
	{ "histograms in a file", shared_histograms, { SWEEP_FILE, -ETIMEDOUT } },
	{ "exemplars", exemplars, { SWEEP_FILE, -ETIMEDOUT } },
	{ "exemplars in a file", shared_exemplars, { SWEEP_FILE, -ETIMEDOUT } },
	{ "extremes", extrema, { SWEEP_FILE, SWEEP_FENCE } },
	{ "extremes in a file", shared_extrema, { SWEEP_FILE, SWEEP_FENCE } },
	{ "extremes of doubles", doubles, { SWEEP_FILE, SWEEP_FENCE } },
	{ "extremes of doubles in a file", shared_doubles, { SWEEP_FILE, SWEEP_FENCE } },
	{ "approximate sum", approx, { SWEEP_FILE, SWEEP_FENCE } },
	{ "approximate sum in a file", shared_approx, { SWEEP_FILE, SWEEP_FENCE } },
	{ "rate", rate, { SWEEP_FILE, -ETIMEDOUT } },
	{ "rate in a file", shared_rate, { SWEEP_FILE, -ETIMEDOUT } },
	{ "ring", ring, { SWEEP_FILE, SWEEP_FENCE } },
	{ "ring in a file", shared_ring, { SWEEP_FILE, SWEEP_FENCE } },
	{ "ring that keeps", keeping_ring, { SWEEP_FILE, SWEEP_FENCE } },
	{ "ring that keeps in a file", shared_keeping_ring, { SWEEP_FILE, SWEEP_FENCE } },
	{ "region by descriptor", region_by_descriptor, { SWEEP_FILE, -EBADMSG, -ETIMEDOUT } },
	{ "region of others", region_of_others, { SWEEP_FILE, -EBADMSG, -ETIMEDOUT } },
	{ "region in memory", region_in_memory, { SWEEP_MEMORY } },
	{ NULL, NULL, { 0 } },
};

static void each_call_fails_in_turn(void **state)
{
	(void)state;
	sweep(operations);
	sweep_report();
	assert_true(sweep_failures(FAULT_MMAP) > 0 && sweep_failures(FAULT_FCNTL) > 0);
	assert_true(sweep_failures(FAULT_PTHREAD_CREATE) > 0); /* the thread that visits a CPU */
	assert_int_equal(fault_inherited(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_in_turn),
	};

	return cmocka_run_group_tests(tests, sweep_set_up, sweep_tear_down);
}
