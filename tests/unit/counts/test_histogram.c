/* SPDX-License-Identifier: MIT */
/*
 * test_histogram.c - histograms: records by sequences, in atomic lanes, and under the lock of
 * the journal, as on 32-bit machines.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/histogram.h>

#include "steps.h"
#include "support.h"

#include "counts/counts.h"
#include "counts/counts.h"

/* How a child records. */
enum way { BY_SEQUENCE, IN_ATOMIC_LANES, BY_JOURNAL, WAYS };

static unsigned pretended = ~0U;

unsigned __real_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void);

unsigned __wrap_percpu_pair_ways(void)
{
	return __real_percpu_pair_ways() & pretended;
}

static bool no_ids; /* a filter refuses gettid(2) */

int __real_percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns);
int __wrap_percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns);

int __wrap_percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns)
{
	return no_ids ? -EPERM : __real_percpu_robust_lock(h, word, timeout_ns);
}

static int steps_to_live; /* steps until the thread acts or dies; 0: never */
static const char *at;	  /* the name of these steps */
static void (*meanwhile)(void);

void test_step(const char *name)
{
	void (*act)(void) = meanwhile;

	if (steps_to_live == 0 || strncmp(name, at, strlen(at)) != 0 || --steps_to_live != 0)
		return;
	meanwhile = NULL;
	if (act != NULL)
		act();
	else
		raise(SIGKILL);
}

static void in_each_way(int (*fn)(void *arg))
{
	for (enum way way = BY_SEQUENCE; way < WAYS; way++) {
		enum way arg = way;

		test_in_child(fn, &arg);
	}
}

#define REQUIRE(ok) test_child_require((ok), #ok)

/* Choose how this child records, before it has a histogram: the library asks for the CPU's features
 * once. */
static void go(enum way way)
{
	pretended = way == BY_JOURNAL ? 0 : ~0U;
	REQUIRE(way != BY_JOURNAL || !percpu_pair_is_atomic());
	if (way != BY_SEQUENCE)
		test_unregister(percpu_seq_attach());
}

static struct percpu_histogram *make(size_t n, uint64_t ticks, uint32_t buckets)
{
	const struct percpu_histogram_options o = {
		.size = sizeof(o), .n = n, .ticks_per_unit = ticks, .buckets_per_octave = buckets
	};
	struct percpu_histogram *h = NULL;

	REQUIRE(percpu_histogram_create(&o, &h) == 0);
	return h;
}

static struct percpu_histogram_snapshot *look(struct percpu_histogram *h, size_t i, bool zero)
{
	struct percpu_histogram_snapshot *s = NULL;

	REQUIRE(percpu_histogram_snapshot_create(h, &s) == 0);
	REQUIRE((zero ? percpu_histogram_fetch_zero(h, i, s) : percpu_histogram_fetch(h, i, s)) ==
		0);
	return s;
}

/* Return the bucket of a value within the range. */
static const struct percpu_histogram_bucket *bucket_of(const struct percpu_histogram_snapshot *s,
						       double v)
{
	uint32_t b = 1;

	while (v > percpu_histogram_bound(s->schema, s->low * (1 << s->schema) + (int)b))
		b++;
	return &s->bucket[b];
}

/* Which bucket a value goes to */

static int record_doubles(void *arg)
{
	const double refused[] = { -1, -5e-324, INFINITY, -INFINITY, NAN, -NAN, 0x1p960, 1e308 };
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h;

	go(*(enum way *)arg);
	h = make(0, 0, 0);
	for (int i = 0; i < 8; i++)
		percpu_histogram_record(h, refused[i]);
	percpu_histogram_record(h, 0);
	percpu_histogram_record(h, -0.0);
	percpu_histogram_record(h, 5e-324);
	percpu_histogram_record(h, 0x1p-20);
	percpu_histogram_record(h, 0.25);
	percpu_histogram_record(h, 0.25);
	percpu_histogram_record(h, 0.3);
	percpu_histogram_record(h, 1024);
	percpu_histogram_record(h, 1025);
	percpu_histogram_record(h, 0x1p959);
	percpu_histogram_record_ticks(h, 3);
	percpu_histogram_record_ticks(h, UINT64_MAX);
	s = look(h, 0, false);
	REQUIRE(s->schema == 3 && s->low == -20 && s->high == 10 && s->n == 242);
	REQUIRE(s->refused == 9);
	REQUIRE(s->count == 11);
	REQUIRE(s->bucket[0].count == 4 && s->bucket[0].sum == 0x1p-20);
	REQUIRE(bucket_of(s, 0.25)->count == 2 && bucket_of(s, 0.25)->sum == 0.5);
	REQUIRE(bucket_of(s, 0.3)->count == 1 && bucket_of(s, 0.3)->sum == 0.3);
	REQUIRE(bucket_of(s, 3)->count == 1 && bucket_of(s, 3)->sum == 3);
	REQUIRE(s->bucket[240].count == 1 && s->bucket[240].sum == 1024);
	REQUIRE(s->bucket[241].count == 2 && s->bucket[241].sum == 0x1p959 + 1025);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
	return 0;
}

static int record_ticks(void *arg)
{
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h;

	go(*(enum way *)arg);
	h = make(0, 1000000000, 32);
	percpu_histogram_record_ticks(h, 0);
	percpu_histogram_record_ticks(h, 250000000);
	percpu_histogram_record_ticks(h, 250000001);
	percpu_histogram_record(h, 0.1234567894); /* the nearest tick */
	percpu_histogram_record(h, 0.1234567896);
	percpu_histogram_record_ticks(h, INT64_MAX);
	percpu_histogram_record_ticks(h, (uint64_t)-1);
	percpu_histogram_record(h, -1);
	percpu_histogram_record(h, NAN);
	percpu_histogram_record(h, 1e300);
	percpu_histogram_record(h, 0x1p959); /* 2^63 ticks or more */
	percpu_histogram_record(h, 0x1p63 / 1e9);
	s = look(h, 0, false);
	REQUIRE(s->refused == 6 && s->count == 6);
	REQUIRE(s->bucket[0].count == 1 && s->bucket[0].ticks == 0);
	REQUIRE(bucket_of(s, 0.25)->count == 1 && bucket_of(s, 0.25)->ticks == 250000000);
	REQUIRE(bucket_of(s, 0.25)[1].count == 1 && bucket_of(s, 0.25)[1].ticks == 250000001);
	REQUIRE(bucket_of(s, 0.1234567895)->ticks == 123456789 + 123456790);
	REQUIRE(s->bucket[s->n - 1].count == 1 && s->bucket[s->n - 1].ticks == INT64_MAX);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
	return 0;
}

static void values_are_in_their_buckets(void **state)
{
	(void)state;
	in_each_way(record_doubles);
	in_each_way(record_ticks);
}

static int record_in_arrays(void *arg)
{
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h, *t;

	go(*(enum way *)arg);
	h = make(7, 0, 1);
	t = make(7, 1000, 1);
	for (size_t i = 0; i < 7; i++)
		for (size_t k = 0; k <= i; k++) {
			percpu_histogram_record_at(h, i, 1024);
			percpu_histogram_record_ticks_at(t, i, 1 + i);
			percpu_histogram_record_at(t, i, -1);
		}
	for (size_t i = 0; i < 7; i++) {
		s = look(h, i, false);
		REQUIRE(s->count == i + 1 && s->sum == 1024 * (double)(i + 1) && s->refused == 0);
		percpu_histogram_snapshot_destroy(s);
		s = look(t, i, i % 2);
		REQUIRE(s->count == i + 1 && s->refused == i + 1);
		REQUIRE(bucket_of(s, (double)(1 + i) / 1000)->ticks == (i + 1) * (i + 1));
		REQUIRE(percpu_histogram_fetch(t, i, s) == 0);
		REQUIRE(s->count == (i % 2 ? 0 : i + 1) && s->refused == s->count);
		percpu_histogram_snapshot_destroy(s);
	}
	percpu_histogram_destroy(h);
	percpu_histogram_destroy(t);
	return 0;
}

static void arrays_are_apart(void **state)
{
	(void)state;
	in_each_way(record_in_arrays);
}

static int reset_zeros(void *arg)
{
	static const uint64_t ticks[] = { 0, 1000 };
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h;

	go(*(enum way *)arg);
	for (int i = 0; i < 2; i++) {
		h = make(0, ticks[i], 0);
		percpu_histogram_record(h, 0);
		percpu_histogram_record(h, -1);
		s = look(h, 0, true);
		REQUIRE(s->count == 1 && s->refused == 1);
		REQUIRE(percpu_histogram_fetch(h, 0, s) == 0);
		REQUIRE(s->count == 0 && s->refused == 0);
		percpu_histogram_snapshot_destroy(s);
		percpu_histogram_destroy(h);
	}
	return 0;
}

/* Test the reset of a bucket whose sum does not change: it holds zeros. */
static void zeros_are_reset(void **state)
{
	(void)state;
	in_each_way(reset_zeros);
}

static void record_once(unsigned i, void *arg)
{
	(void)i;
	percpu_histogram_record(arg, 6);
}

static int record_in_new_thread(void *arg)
{
	static const uint64_t ticks[] = { 0, 1000 };
	struct percpu_histogram *h;

	(void)arg;
	at = "histogram: loaded"; /* the child dies there if it uses an atomic lane */
	steps_to_live = 1;
	for (int i = 0; i < 2; i++) {
		h = make(0, ticks[i], 0);
		test_team_run(1, record_once, h);
		percpu_histogram_destroy(h);
	}
	return 0;
}

/* Test that the first record of a thread uses a sequence, too. */
static void threads_begin_by_sequences(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(record_in_new_thread, NULL);
}

/* Values of different buckets, so that a bucket's sum tells its count. */
enum { VALUES = 8 };
static const double value[VALUES] = { 1, 3, 6, 12, 25, 50, 100, 200 };

static uint64_t check_whole(const struct percpu_histogram_snapshot *s)
{
	for (int i = 0; i < VALUES; i++)
		if (bucket_of(s, value[i])->sum != value[i] * (double)bucket_of(s, value[i])->count)
			return UINT64_MAX;
	return s->count;
}

/* Three threads record, one reads, and one resets. */

static struct percpu_histogram *shared;
static unsigned rounds, recording;
static uint64_t reset_count, torn, went_back;

static void take_part(unsigned i, void *arg)
{
	struct percpu_histogram_snapshot *s = look(shared, 0, false);
	enum way way = *(enum way *)arg;

	if (i < 3) {
		if (way != BY_SEQUENCE && i != 0) /* thread 0 uses sequences */
			test_unregister(percpu_seq_attach());
		for (unsigned n = 0; n < rounds; n++)
			percpu_histogram_record(shared, value[(n + i) % VALUES]);
		__atomic_fetch_sub(&recording, 1, __ATOMIC_RELEASE);
	}
	while (i >= 3 && __atomic_load_n(&recording, __ATOMIC_ACQUIRE) != 0) {
		if ((i == 3 ? percpu_histogram_fetch(shared, 0, s) :
			      percpu_histogram_fetch_zero(shared, 0, s)) != 0 ||
		    check_whole(s) == UINT64_MAX)
			torn++;
		if (i == 4)
			reset_count += s->count;
		else
			went_back += s->count > 3 * (uint64_t)rounds;
	}
	percpu_histogram_snapshot_destroy(s);
}

static int record_read_and_reset(void *arg)
{
	struct percpu_histogram_snapshot *s;

	pretended = *(enum way *)arg == BY_JOURNAL ? 0 : ~0U;
	rounds = test_rounds(percpu_pair_is_atomic() ? 40000 : 500);
	recording = 3;
	shared = make(0, 0, 0);
	test_team_run(5, take_part, arg);
	s = look(shared, 0, false);
	REQUIRE(check_whole(s) != UINT64_MAX);
	REQUIRE(torn == 0);
	REQUIRE(went_back == 0);
	REQUIRE(reset_count + s->count == 3 * (uint64_t)rounds);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(shared);
	return 0;
}

static void nothing_is_lost_or_torn(void **state)
{
	(void)state;
	in_each_way(record_read_and_reset);
}

/* Other threads record and reset between the sum of the lanes and the change of the bias. */

static uint64_t taken_between;

static void reset_between(void)
{
	struct percpu_histogram_snapshot *s;

	percpu_histogram_record(shared, 6);
	s = look(shared, 0, true);
	taken_between = s->count;
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_record(shared, 6);
}

static int reset_twice(void *arg)
{
	struct percpu_histogram_snapshot *s;
	uint64_t count;

	go(*(enum way *)arg);
	if (!percpu_pair_is_atomic())
		return 0; /* under the lock of the journal no other thread runs in between */
	shared = make(0, 0, 0);
	percpu_histogram_record(shared, 6);
	at = "lanes summed";
	/* The step of the cell with the bucket of 6. */
	steps_to_live = 1 + 20 * 8 + 21;
	meanwhile = reset_between;
	s = look(shared, 0, true);
	count = s->count;
	percpu_histogram_snapshot_destroy(s);
	REQUIRE(meanwhile == NULL);
	s = look(shared, 0, false);
	REQUIRE(taken_between == 2 && count == 1 && s->count == 0);
	REQUIRE(check_whole(s) != UINT64_MAX);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(shared);
	return 0;
}

static void resets_between_are_not_missed(void **state)
{
	(void)state;
	in_each_way(reset_twice);
}

/* Another thread takes the lock of the journal if it is free, and holds it. */

static struct {
	pthread_t thread;
	bool has_lock, ends;
	sem_t tried;
} holder;

static void *hold_journal(void *arg)
{
	struct percpu_robust lock;

	holder.has_lock = percpu_journal_try(shared->block.chunk, &lock) == 0;
	sem_post(&holder.tried);
	while (!__atomic_load_n(&holder.ends, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	if (holder.has_lock)
		percpu_robust_unlock(&lock);
	return arg;
}

static void start_holder(void)
{
	REQUIRE(sem_init(&holder.tried, 0, 0) == 0);
	__atomic_store_n(&holder.ends, false, __ATOMIC_RELEASE);
	REQUIRE(pthread_create(&holder.thread, NULL, hold_journal, NULL) == 0);
	while (sem_wait(&holder.tried) != 0)
		;
}

static void end_holder(void)
{
	__atomic_store_n(&holder.ends, true, __ATOMIC_RELEASE);
	REQUIRE(pthread_join(holder.thread, NULL) == 0);
}

/* Reset while another thread holds the lock: the reset fails and resets nothing. Try to take the
 * lock amid a reset: the reset holds it. */
static int reset_against_lock(void *arg)
{
	struct percpu_histogram_snapshot *s;

	(void)arg;
	go(BY_JOURNAL);
	shared = make(0, 0, 0);
	for (int i = 0; i < VALUES; i++)
		percpu_histogram_record(shared, value[i]);
	s = look(shared, 0, false);
	start_holder();
	REQUIRE(holder.has_lock);
	REQUIRE(percpu_histogram_fetch_zero(shared, 0, s) == -ETIMEDOUT);
	end_holder();
	REQUIRE(percpu_histogram_fetch(shared, 0, s) == 0 && s->count == VALUES);
	at = "lanes summed";
	steps_to_live = 230; /* some buckets are reset */
	meanwhile = start_holder;
	REQUIRE(percpu_histogram_fetch_zero(shared, 0, s) == 0 && s->count == VALUES);
	REQUIRE(meanwhile == NULL && !holder.has_lock);
	end_holder();
	percpu_histogram_record(shared, 1);
	steps_to_live = 230;
	meanwhile = start_holder;
	REQUIRE(percpu_histogram_zero(shared, 0) == 0 && !holder.has_lock);
	end_holder();
	REQUIRE(percpu_histogram_fetch(shared, 0, s) == 0 && s->count == 0);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(shared);
	return 0;
}

static void resets_under_a_lock_are_all_or_nothing(void **state)
{
	(void)state;
	test_in_child(reset_against_lock, NULL);
}

/* Files */

#define CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)
static const struct percpu_histogram_options small = {
	.size = sizeof(small), .min = 0.5, .max = 300, .n = 2
};

static struct percpu_region *open_region(void)
{
	struct percpu_region *r = NULL;

	REQUIRE(percpu_region_open(test_path("region"), CREATE, NULL, &r) == 0);
	return r;
}

static unsigned *begun; /* how many children have recorded; shared */

static int record_until_killed(void *arg)
{
	struct percpu_region *r;
	struct percpu_histogram *h;

	go(*(enum way *)arg);
	r = open_region();
	REQUIRE(percpu_histogram_open(r, 0, &small, &h) == 0);
	for (unsigned n = 0;; n++) {
		percpu_histogram_record_at(h, 1, value[n % VALUES]);
		if (n == VALUES)
			__atomic_fetch_add(begun, 1, __ATOMIC_RELEASE);
	}
	return 0;
}

static int check_after_kills(void *arg)
{
	struct percpu_region *r;
	struct percpu_histogram *h;
	struct percpu_histogram_snapshot *s;

	go(*(enum way *)arg);
	r = open_region();
	REQUIRE(percpu_histogram_open(r, 0, &small, &h) == 0);
	s = look(h, 1, false);
	REQUIRE(s->count > 0);
	REQUIRE(check_whole(s) != UINT64_MAX);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_detach(h);
	percpu_region_close(r);
	return 0;
}

/* Record while the lock cannot be taken: the record must not wait for ever. */
static int record_without_ids(void *arg)
{
	struct percpu_histogram_snapshot *s;

	(void)arg;
	go(BY_JOURNAL);
	shared = make(0, 0, 0);
	percpu_histogram_record(shared, 1);
	no_ids = true;
	alarm(20);
	percpu_histogram_record(shared, 1);
	/* As a killed lock holder leaves it: now a load needs the lock, too. */
	shared->block.chunk->header->journal.turn++;
	percpu_histogram_record(shared, 1);
	alarm(0);
	no_ids = false;
	percpu_histogram_record(shared, 1);
	s = look(shared, 0, false);
	REQUIRE(s->count == 2);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(shared);
	return 0;
}

static void refused_ids_hang_nothing(void **state)
{
	(void)state;
	test_in_child(record_without_ids, NULL);
}

static void who_is_killed_leaves_whole_observations(void **state)
{
	(void)state;
	begun = test_share(sizeof(*begun));
	assert_non_null(test_path("region")); /* the same path for all children */
	for (enum way way = BY_SEQUENCE; way < WAYS; way++) {
		enum way arg = way;
		pid_t pid[2];

		if (way == BY_JOURNAL && !percpu_robust_supported())
			continue;
		for (int round = 0; round < 5; round++) {
			*begun = 0;
			for (int i = 0; i < 2; i++)
				pid[i] = test_fork(record_until_killed, &arg);
			while (__atomic_load_n(begun, __ATOMIC_ACQUIRE) != 2)
				test_sleep_us(100);
			test_sleep_us(700 * (unsigned)round);
			for (int i = 0; i < 2; i++) {
				kill(pid[i], SIGKILL);
				assert_int_equal(test_wait(pid[i], 60), SIGKILL);
			}
		}
		test_in_child(check_after_kills, &arg);
		assert_int_equal(unlink(test_path("region")), 0);
	}
}

static void layouts_are_told_by_the_file(void **state)
{
	struct percpu_histogram_options other = small;
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h, *found, *read;
	struct percpu_region *r = open_region(), *reader;
	uint32_t *atomic;

	(void)state;
	assert_int_equal(percpu_histogram_open(r, 0, &small, &h), 0);
	percpu_histogram_record_at(h, 1, 3);
	assert_int_equal(percpu_histogram_attach(r, percpu_histogram_key(h), &found), 0);
	assert_int_equal(found->n, 2);
	assert_int_equal(found->low, -1);
	assert_int_equal(found->high, 9);
	percpu_histogram_record_at(found, 1, 3);
	percpu_histogram_detach(found);
	assert_int_equal(percpu_region_open(test_path("region"), 0, NULL, &reader), 0);
	assert_int_equal(percpu_histogram_attach(reader, percpu_histogram_key(h), &read), 0);
	percpu_histogram_record_at(read, 1, 3);
	percpu_histogram_record_at(read, 1, -3);
	s = look(read, 1, false);
	assert_int_equal(s->count, 2);
	assert_int_equal(s->refused, 0);
	s->count = 7;
	assert_int_equal(percpu_histogram_fetch_zero(read, 1, s), -EROFS);
	assert_int_equal(s->count, 7);
	assert_int_equal(percpu_histogram_zero(read, 1), -EROFS);
	assert_int_equal(percpu_histogram_fetch(h, 1, s), 0);
	assert_int_equal(s->count, 2);
	assert_int_equal(percpu_histogram_zero(h, 1), 0);
	assert_int_equal(percpu_histogram_fetch(h, 1, s), 0);
	assert_int_equal(s->count, 0);
	assert_int_equal(percpu_histogram_fetch(h, 2, s), -EINVAL);
	assert_int_equal(percpu_histogram_fetch(h, 1, NULL), -EINVAL);
	assert_int_equal(percpu_histogram_fetch_zero(h, 1, NULL), -EINVAL);
	other.n = 3;
	assert_int_equal(percpu_histogram_open(r, 0, &other, &found), -EEXIST);
	other.n = 2;
	other.max = 600;
	assert_int_equal(percpu_histogram_open(r, 0, &other, &found), -EEXIST);
	assert_int_equal(percpu_histogram_attach(r, 0, &found), -ENOENT);
	/* As if a process that changes pairs in the other way had created the histograms. */
	atomic = &((struct percpu_histogram_control *)percpu_chunk_lane(
			   h->block.chunk, 2 * (size_t)h->block.chunk->cpus,
			   (size_t)(h->block.base - h->block.chunk->base)))
			  ->atomic;
	*atomic ^= 1;
	assert_int_equal(percpu_histogram_open(r, 0, &small, &found), -EEXIST);
	assert_int_equal(percpu_histogram_attach(r, percpu_histogram_key(h), &found), -ENOENT);
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_detach(read);
	percpu_region_close(reader);
	percpu_histogram_detach(h);
	percpu_region_close(r);
	assert_int_equal(unlink(test_path("region")), 0);
}

/* Test that calls return and stay within the object, whatever the file contains. */
static void crafted_files_do_no_harm(void **state)
{
	struct percpu_region *r = open_region();
	struct percpu_histogram_quantile q;
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h, *found;
	uint64_t random = 11, *words;
	unsigned attached = 0;

	(void)state;
	assert_int_equal(percpu_histogram_open(r, 0, &small, &h), 0);
	words = (uint64_t *)percpu_chunk_lane(h->block.chunk, 2 * (size_t)h->block.chunk->cpus,
					      (size_t)(h->block.base - h->block.chunk->base));
	for (int round = 0; round < 3000; round++) {
		const uint64_t was[4] = { words[0], words[1], words[2], words[3] };
		uint64_t bits = test_random(&random);
		size_t at_word = test_random(&random) % 4;

		words[at_word] ^= round % 2 ? UINT64_C(1) << (bits % 64) : bits;
		words[8 + bits % 40] = test_random(&random);
		if (percpu_histogram_attach(r, percpu_histogram_key(h), &found) == 0) {
			attached++;
			assert_true(found->n * found->record <= found->block.size);
			s = look(found, found->n - 1, false);
			percpu_histogram_record_at(found, found->n - 1, 7);
			if (percpu_histogram_quantile(s, 0.5, &q) == 0)
				assert_false(q.low > q.high);
			(void)percpu_histogram_count_below(s, 5, NULL);
			percpu_histogram_snapshot_destroy(s);
			percpu_histogram_detach(found);
		}
		memcpy(words, was, sizeof(was));
	}
	assert_in_range(attached, 1, 2999);
	percpu_histogram_detach(h);
	percpu_region_close(r);
	assert_int_equal(unlink(test_path("region")), 0);
}

/* Test sums that are not finite, or whose total is not, in a CPU lane, an atomic lane, or as a
 * bias. */
static void damaged_sums_are_numbers(void **state)
{
	static const double odd[] = { INFINITY, -INFINITY, NAN, 1.7e308, -1.7e308 };
	struct percpu_histogram *h = make(0, 0, 1);
	struct percpu_histogram_snapshot *s = look(h, 0, false);
	struct percpu_chunk *k = h->block.chunk;
	struct percpu_histogram_quantile q;
	struct percpu_pair_value *cell;
	size_t lane;

	(void)state;
	for (size_t i = 0; i < 3 * sizeof(odd) / sizeof(odd[0]); i++) {
		lane = i % 3 * k->cpus;
		percpu_histogram_record(h, 3);
		for (uint32_t b = 0; b < s->n; b++) {
			cell = (struct percpu_pair_value *)percpu_chunk_lane(
				k, lane,
				(size_t)(h->block.base - k->base) + PERCPU_HISTOGRAM_HEAD +
					b * PERCPU_HISTOGRAM_CELL);
			memcpy(&cell->second, &odd[i / 3], sizeof(odd[0]));
		}
		percpu_chunk_choose_lane(k);
		for (int zero = 0; zero < 3; zero++) {
			assert_int_equal(zero != 1 ? percpu_histogram_fetch(h, 0, s) :
						     percpu_histogram_fetch_zero(h, 0, s),
					 0);
			assert_true(isfinite(s->sum));
			for (uint32_t b = 0; b < s->n; b++)
				assert_true(isfinite(s->bucket[b].sum));
			if (percpu_histogram_quantile(s, 0.5, &q) == 0)
				assert_true(isfinite(q.value));
		}
	}
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

static void bad_options_are_refused(void **state)
{
	static const struct {
		struct percpu_histogram_options o;
		int e;
	} bad[] = {
		{ { .min = 1, .max = 1 }, -EINVAL },
		{ { .min = 2, .max = 1 }, -EINVAL },
		{ { .min = 0, .max = 0x1p-20 }, -EINVAL },
		{ { .min = 0x1p10, .max = 0 }, -EINVAL },
		{ { .min = -1, .max = 1 }, -EINVAL },
		{ { .min = 0, .max = -1 }, -EINVAL },
		{ { .min = NAN, .max = 1 }, -EINVAL },
		{ { .min = 1, .max = NAN }, -EINVAL },
		{ { .min = 1, .max = INFINITY }, -ERANGE },
		{ { .min = 1, .max = 0x1p961 }, -ERANGE },
		{ { .min = 0x1p-1001, .max = 1 }, -ERANGE },
		{ { .min = 5e-324, .max = 1 }, -ERANGE },
		{ { .buckets_per_octave = 3 }, -EINVAL },
		{ { .buckets_per_octave = 64 }, -EINVAL },
		{ { .flags = 2 }, -EINVAL },
		{ { .ticks_per_unit = UINT64_C(1) << 43 }, -ERANGE },
		{ { .ticks_per_unit = UINT64_MAX }, -ERANGE },
		{ { .min = 1, .max = 0x1p53, .ticks_per_unit = 1 }, -ERANGE },
		{ { .n = SIZE_MAX }, -EINVAL },
	};
	struct percpu_histogram_options o;
	struct percpu_histogram *h = NULL;
	struct percpu_region *r = open_region();
	struct percpu_anchor at = percpu_root_anchor(r, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		o = bad[i].o;
		o.size = sizeof(o);
		assert_int_equal(percpu_histogram_create(&o, &h), bad[i].e);
		assert_int_equal(percpu_histogram_create_in(r, &o, &h), bad[i].e);
		assert_int_equal(percpu_histogram_open(r, 0, &o, &h), bad[i].e);
		assert_int_equal(percpu_histogram_open_at(r, &at, &o, &h), bad[i].e);
		assert_null(h);
	}
	assert_int_equal(percpu_region_root(r, 0), 0);
	percpu_region_close(r);
	assert_int_equal(unlink(test_path("region")), 0);
	o = (struct percpu_histogram_options){ .size = sizeof(o),
					       .ticks_per_unit = (UINT64_C(1) << 43) - 1 };
	assert_int_equal(percpu_histogram_create(&o, &h), 0);
	percpu_histogram_destroy(h);
}

static void each_option_has_its_default(void **state)
{
	static const struct {
		struct percpu_histogram_options o;
		int low, high;
		uint32_t schema;
		size_t n;
	} set[] = {
		{ { .n = 0 }, -20, 10, 3, 1 },
		{ { .min = 1 }, 0, 10, 3, 1 },
		{ { .max = 1 }, -20, 0, 3, 1 },
		{ { .min = 1, .max = 2 }, 0, 1, 3, 1 },
		{ { .buckets_per_octave = 1 }, -20, 10, 0, 1 },
		{ { .n = 3 }, -20, 10, 3, 3 },
	};
	struct percpu_histogram_options o;
	struct percpu_histogram *h;

	(void)state;
	for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
		o = set[i].o;
		o.size = sizeof(o);
		assert_int_equal(percpu_histogram_create(&o, &h), 0);
		assert_int_equal(h->low, set[i].low);
		assert_int_equal(h->high, set[i].high);
		assert_int_equal(h->schema, set[i].schema);
		assert_int_equal(h->n, set[i].n);
		percpu_histogram_destroy(h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_in_their_buckets),
		cmocka_unit_test(arrays_are_apart),
		cmocka_unit_test(zeros_are_reset),
		cmocka_unit_test(threads_begin_by_sequences),
		cmocka_unit_test(nothing_is_lost_or_torn),
		cmocka_unit_test(resets_between_are_not_missed),
		cmocka_unit_test(resets_under_a_lock_are_all_or_nothing),
		cmocka_unit_test(refused_ids_hang_nothing),
		cmocka_unit_test(who_is_killed_leaves_whole_observations),
		cmocka_unit_test(layouts_are_told_by_the_file),
		cmocka_unit_test(crafted_files_do_no_harm),
		cmocka_unit_test(damaged_sums_are_numbers),
		cmocka_unit_test(bad_options_are_refused),
		cmocka_unit_test(each_option_has_its_default),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
