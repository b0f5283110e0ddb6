/* SPDX-License-Identifier: MIT */
/*
 * test_wbuf.c - write buffers, one call at a time: pending adds, flushes, refusals, the list,
 * and a taken lock. test_wbuf_fork.c tests forks, tests/stress/test_wbuf.c threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <percpu/status.h>

#include "model.h"
#include "steps.h"
#include "wbuf.h"

#include "counts/counts.h"

#define UNSET UINT64_C(0x5e77ed)

static void (*at_applied)(void); /* run in a flush, before the tail of an applied queue moves */

static void (*at_listed)(void); /* run in an add, after its transaction is on the list */

static void (*at_tail)(void); /* run before a tail moves, and before an add is on the list */

static void (*at_subtraction)(void); /* run when what is pending is about to be computed */

static unsigned gave_way; /* how often a thread yielded its CPU */

void test_step(const char *name)
{
	if (strcmp(name, "wbuf: gives way") == 0)
		gave_way++;
	if (at_applied != NULL && strcmp(name, "wbuf: applied") == 0)
		at_applied();
	if (at_tail != NULL &&
	    (strcmp(name, "wbuf: tail loaded") == 0 || strcmp(name, "wbuf: to be listed") == 0))
		at_tail();
	if (at_listed != NULL && strcmp(name, "wbuf: listed") == 0)
		at_listed();
	if (at_subtraction != NULL && strcmp(name, "wbuf: to be subtracted") == 0)
		at_subtraction();
}

static void flush_applies_what_is_pending(void **state)
{
	struct percpu_wbuf *w = make(0);
	uint64_t cell[3] = { 10, 0, 0 };
	const struct percpu_wbuf_entry adds[] = { percpu_wbuf_entry_u64(&cell[0], 1),
						  percpu_wbuf_entry_u64(&cell[1], UINT64_MAX) };

	(void)state;
	assert_int_equal(stats(w).entries, 1024);
	assert_int_equal(percpu_wbuf_add(w, &cell[0], 5), 0);
	assert_int_equal(percpu_wbuf_add_n(w, adds, 2), 0);
	assert_int_equal(stats(w).pending, buffered() ? 3 : 0);
	if (buffered())
		assert_int_equal(cell[0], 10);
	percpu_wbuf_flush(w);
	assert_int_equal(cell[0], 16);
	assert_int_equal(cell[1], UINT64_MAX);
	assert_int_equal(stats(w).pending, 0);
	assert_int_equal(stats(w).overflows, 0);
	assert_true(stats(w).flushes > 0);
	percpu_wbuf_flush(w);
	assert_int_equal(cell[0], 16);
	percpu_wbuf_destroy(w);
}

/* Test so many adds that one sequence appends them, if the number is a constant. */
static void four_are_added_at_once(void **state)
{
	struct percpu_wbuf *w = make(0);
	uint64_t cell[4] = { 0 };
	const struct percpu_wbuf_entry adds[] = { percpu_wbuf_entry_u64(&cell[0], 1),
						  percpu_wbuf_entry_u64(&cell[1], 2),
						  percpu_wbuf_entry_u64(&cell[2], 3),
						  percpu_wbuf_entry_u64(&cell[3], 4) };

	(void)state;
	assert_int_equal(percpu_wbuf_add_n(w, adds, 4), 0);
	percpu_wbuf_flush(w);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(cell[i], i + 1);
	percpu_wbuf_destroy(w);
}

static void destroy_applies_what_is_pending(void **state)
{
	struct percpu_wbuf *w = make(SMALL);
	uint64_t cell = 0;

	(void)state;
	assert_int_equal(percpu_wbuf_add(w, &cell, 7), 0);
	percpu_wbuf_destroy(w);
	assert_int_equal(cell, 7);
	percpu_wbuf_destroy(NULL);
}

/* Test transactions of every size that fits, and buffers of 1 to 256 entries that wrap. */
static void full_buffers_are_flushed(void **state)
{
	(void)state;
	for (size_t entries = 1; entries <= 256; entries *= 2) {
		struct percpu_wbuf *w = make(entries);
		struct percpu_wbuf_entry adds[256];
		uint64_t cell[256] = { 0 }, want[256] = { 0 };

		for (unsigned i = 0; i < 2000; i++) {
			size_t n = 1 + i % entries;

			for (size_t k = 0; k < n; k++) {
				adds[k] = percpu_wbuf_entry_u64(&cell[k], i + k);
				want[k] += i + k;
			}
			assert_int_equal(percpu_wbuf_add_n(w, adds, n), 0);
			assert_true(stats(w).pending <= entries * percpu_status()->possible_cpus);
		}
		assert_true(stats(w).flushes > 0);
		assert_int_equal(stats(w).overflows, 0);
		percpu_wbuf_flush(w);
		assert_memory_equal(cell, want, sizeof(want));
		percpu_wbuf_destroy(w);
	}
}

static void transactions_must_fit(void **state)
{
	struct percpu_wbuf *w = make(SMALL);
	struct percpu_wbuf_entry adds[100];
	uint64_t cell = 0;

	(void)state;
	for (int i = 0; i < 100; i++)
		adds[i] = percpu_wbuf_entry_u64(&cell, 1);
	assert_int_equal(percpu_wbuf_add_n(w, adds, SMALL + 1), -E2BIG);
	assert_int_equal(percpu_wbuf_add_n(w, adds, 100), -E2BIG);
	assert_int_equal(percpu_wbuf_add_n(w, adds, SIZE_MAX), -E2BIG);
	assert_int_equal(percpu_wbuf_add_n(w, adds, SIZE_MAX / 2 + 2), -E2BIG);
	assert_int_equal(percpu_wbuf_add_n(w, adds, 0), 0);
	assert_int_equal(stats(w).pending, 0);
	percpu_wbuf_flush(w);
	assert_int_equal(cell, 0);
	assert_int_equal(percpu_wbuf_add_n(w, adds, SMALL), 0);
	percpu_wbuf_flush(w);
	assert_int_equal(cell, SMALL);
	percpu_wbuf_destroy(w);
}

static void anyone_flushes_every_cpu(void **state)
{
	struct percpu_wbuf *w = make(SMALL);
	uint64_t cell = 0;

	(void)state;
	for (unsigned n = 0; n < test_cpus(); n++) {
		assert_true(test_pin(0, test_cpu(n)));
		assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
	}
	assert_int_equal(stats(w).pending, buffered() ? test_cpus() : 0);
	assert_int_equal(percpu_wbuf_try_flush(w), 0);
	assert_int_equal(cell, test_cpus());
	test_unpin(0);
	percpu_wbuf_destroy(w);
}

static void read_flushes(void **state)
{
	struct percpu_wbuf *w = make(0);
	uint64_t cell[2] = { 0, 0 }, value[2] = { UNSET, UNSET };
	uint64_t *const cells[] = { &cell[1], &cell[0] };

	(void)state;
	assert_int_equal(percpu_wbuf_add(w, &cell[0], 3), 0);
	assert_int_equal(percpu_wbuf_add(w, &cell[1], 4), 0);
	percpu_wbuf_read(w, cells, 2, value);
	assert_int_equal(value[0], 4);
	assert_int_equal(value[1], 3);
	percpu_wbuf_read(w, NULL, 0, NULL);
	percpu_wbuf_destroy(w);
}

static void hints_wait_for_a_quarter(void **state)
{
	struct own_lock own;
	struct percpu_wbuf *w = make_own(64, &own);
	uint64_t cell = 0;

	(void)state;
	if (!buffered()) {
		percpu_wbuf_hint_flush(w); /* nothing to do */
		percpu_wbuf_destroy(w);
		test_skip("this thread uses no buffer");
	}
	test_pin(0, test_cpu(0));
	for (int i = 0; i < 64; i++) /* the first time, hints wait for half of the buffer */
		assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
	percpu_wbuf_flush(w);
	for (int i = 0; i <= 16; i++) {
		percpu_wbuf_hint_flush(w);
		percpu_wbuf_hint_flush_slow(w, PERCPU_SEQ_SLOW); /* as after an abort */
		assert_int_equal(cell, 64);
		assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
	}
	pthread_mutex_lock(&own.mutex);
	percpu_wbuf_hint_flush(w);
	assert_int_equal(cell, 64);
	pthread_mutex_unlock(&own.mutex);
	percpu_wbuf_hint_flush(w);
	assert_int_equal(cell, 81);
	assert_int_equal(stats(w).pending, 0);
	test_unpin(0);
	percpu_wbuf_destroy(w);
}

/* Add 1 so that it is pending: in the buffer, or on the list. */
static void add_later(struct percpu_wbuf *w, struct own_lock *own, uint64_t *cell)
{
	pthread_mutex_lock(&own->mutex);
	assert_int_equal(percpu_wbuf_add(w, cell, 1), 0);
	pthread_mutex_unlock(&own->mutex);
	assert_int_equal(stats(w).pending, 1);
}

static void hint(struct percpu_wbuf *w, size_t times)
{
	for (size_t i = 0; i < times; i++)
		percpu_wbuf_hint_flush(w);
}

/* At low load, the default or another number of hints flushes, and so do as many again. */
static void a_number_of_hints_flushes(void **state)
{
	static const size_t numbers[] = { 0, 1, 3 };

	(void)state;
	test_pin(0, test_cpu(0));
	for (size_t i = 0; i < 3; i++) {
		struct own_lock own;
		struct percpu_wbuf *w = make_hinted(1024, numbers[i], &own);
		const size_t n = numbers[i] != 0 ? numbers[i] : 64;
		uint64_t cell = 0;

		for (uint64_t round = 0; round < 3; round++) {
			add_later(w, &own, &cell);
			hint(w, n - 1);
			assert_int_equal(cell, round);
			hint(w, 1);
			assert_int_equal(cell, round + 1);
			assert_int_equal(stats(w).pending, 0);
		}
		assert_int_equal(stats(w).flushes, 3);
		percpu_wbuf_destroy(w);
	}
	test_unpin(0);
}

/* If the lock is taken when a flush is due, the next hint flushes. */
static void a_flush_that_is_due_stays_due(void **state)
{
	struct own_lock own;
	struct percpu_wbuf *w = make_hinted(1024, 5, &own);
	uint64_t cell = 0;

	(void)state;
	test_pin(0, test_cpu(0));
	add_later(w, &own, &cell);
	hint(w, 4);
	pthread_mutex_lock(&own.mutex);
	hint(w, 3);
	pthread_mutex_unlock(&own.mutex);
	assert_int_equal(cell, 0);
	hint(w, 1);
	assert_int_equal(cell, 1);
	test_unpin(0);
	percpu_wbuf_destroy(w);
}

/* A hint that wants to flush a filling buffer, and finds the lock taken, counts once. */
static void a_refused_flush_counts_once(void **state)
{
	struct own_lock own;
	struct percpu_wbuf *w = make_hinted(SMALL, 5, &own);
	uint64_t cell = 0;

	(void)state;
	test_pin(0, test_cpu(0));
	pthread_mutex_lock(&own.mutex);
	for (int i = 0; i < SMALL; i++)
		assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
	hint(w, 3);
	pthread_mutex_unlock(&own.mutex);
	percpu_wbuf_flush(w);
	add_later(w, &own, &cell);
	hint(w, 1);
	assert_int_equal(cell, SMALL);
	hint(w, 1);
	assert_int_equal(cell, SMALL + 1);
	test_unpin(0);
	percpu_wbuf_destroy(w);
}

/* Hints of a thread that cannot run sequences flush the list, where its adds may be. */
static void hints_without_sequences_flush_the_list(void **state)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct own_lock own;
	struct percpu_wbuf *w = make_hinted(1024, 5, &own);
	struct percpu_rseq *area;
	uint64_t cell = 0, seen[4];

	(void)state;
	area = model_set_area(&none);
	for (int round = 0; round < 2; round++) {
		pthread_mutex_lock(&own.mutex);
		(void)percpu_wbuf_add(w, &cell, 1);
		pthread_mutex_unlock(&own.mutex);
		hint(w, 4);
		seen[2 * round] = cell;
		hint(w, 1);
		seen[2 * round + 1] = cell;
	}
	(void)model_set_area(area);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(seen[i], (i + 1) / 2);
	percpu_wbuf_destroy(w);
}

/* A hint whose sequence was aborted counts as any other. */
static void aborted_hints_count(void **state)
{
	struct own_lock own;
	struct percpu_wbuf *w = make_hinted(1024, 5, &own);
	uint64_t cell = 0;

	(void)state;
	test_pin(0, test_cpu(0));
	for (uint64_t round = 0; round < 2; round++) {
		add_later(w, &own, &cell);
		for (int i = 0; i < 4; i++)
			percpu_wbuf_hint_flush_slow(w, PERCPU_SEQ_SLOW);
		assert_int_equal(cell, round);
		hint(w, 1);
		assert_int_equal(cell, round + 1);
	}
	test_unpin(0);
	percpu_wbuf_destroy(w);
}

/* Adds on a CPU where no thread hints any more are flushed from elsewhere. */
static void hints_elsewhere_flush_what_was_left(void **state)
{
	struct own_lock own;
	struct percpu_wbuf *w = make_hinted(1024, 2, &own);
	const size_t cpus = percpu_status()->possible_cpus;
	uint64_t cell = 0;

	(void)state;
	if (!buffered() || test_cpus() < 2) {
		percpu_wbuf_destroy(w);
		test_skip("this thread uses no buffer, or there is one CPU");
	}
	for (uint64_t round = 0; round < 3; round++) {
		test_pin(0, test_cpu(round % 2));
		add_later(w, &own, &cell);
		test_pin(0, test_cpu(1 - round % 2));
		hint(w, 2 * cpus);
		assert_int_equal(cell, round + 1);
		hint(w, round); /* begin elsewhere in the turn */
	}
	test_unpin(0);
	percpu_wbuf_destroy(w);
}

/* Hints flush this CPU's buffer as often as it fills up, and another CPU's only in their turn. */
static void busy_hints_flush_elsewhere_in_turn(void **state)
{
	struct own_lock own;
	struct percpu_wbuf *w = make_hinted(SMALL, 4, &own);
	const size_t cpus = percpu_status()->possible_cpus;
	uint64_t cell = 0, busy = 0, here = 0;

	(void)state;
	if (!buffered() || test_cpus() < 2) {
		percpu_wbuf_destroy(w);
		test_skip("this thread uses no buffer, or there is one CPU");
	}
	test_pin(0, test_cpu(1));
	add_later(w, &own, &cell);
	test_pin(0, test_cpu(0));
	for (size_t i = 1; i <= 4 * cpus; i++) {
		pthread_mutex_lock(&own.mutex);
		for (int k = 0; k < SMALL; k++, here++)
			assert_int_equal(percpu_wbuf_add(w, &busy, 1), 0);
		pthread_mutex_unlock(&own.mutex);
		hint(w, 1);
		assert_int_equal(busy, here);
		if (i < 4)
			assert_int_equal(cell, 0);
	}
	assert_int_equal(cell, 1);
	test_unpin(0);
	percpu_wbuf_destroy(w);
}

/* Test that adds, hints and percpu_wbuf_try_flush() do not wait for a lock holder. */
static void a_taken_lock_is_not_waited_for(void **state)
{
	struct own_lock own;
	struct percpu_wbuf *w = make_own(SMALL, &own);
	uint64_t cell[2] = { 0, 0 };
	const struct percpu_wbuf_entry adds[] = { percpu_wbuf_entry_u64(&cell[0], 1),
						  percpu_wbuf_entry_u64(&cell[1], 2) };
	uint64_t room = buffered() ? SMALL : 0;

	(void)state;
	test_pin(0, test_cpu(0));
	for (int round = 1; round <= 3; round++) {
		pthread_mutex_lock(&own.mutex);
		for (int i = 0; i < 100; i++)
			assert_int_equal(percpu_wbuf_add_n(w, adds, 2), 0);
		assert_int_equal(percpu_wbuf_try_flush(w), -EBUSY);
		percpu_wbuf_hint_flush(w);
		assert_int_equal(cell[0], (round - 1) * 101);
		assert_int_equal(stats(w).pending, 200);
		assert_int_equal(stats(w).overflows, round * (200 - room) / 2);
		pthread_mutex_unlock(&own.mutex);
		/* This add finds the lock free, and applies a buffer of the list. */
		assert_int_equal(percpu_wbuf_add_n(w, adds, 2), 0);
		assert_int_equal(stats(w).pending, 200 - room - SMALL);
		assert_int_equal(percpu_wbuf_try_flush(w), 0);
		assert_int_equal(stats(w).pending, 0);
		assert_int_equal(cell[0], round * 101);
		assert_int_equal(cell[1], round * 202);
	}
	test_unpin(0);
	percpu_wbuf_destroy(w);
}

/* Test that adds to a long list yield the CPU, so that a preempted lock holder can run. */
static void a_long_list_gives_way(void **state)
{
	struct own_lock own;
	struct percpu_wbuf *w = make_own(SMALL, &own);
	uint64_t cell = 0;

	(void)state;
	test_pin(0, test_cpu(0));
	pthread_mutex_lock(&own.mutex);
	gave_way = 0;
	while (stats(w).pending < 16 * SMALL)
		assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
	assert_int_equal(gave_way, 0);
	for (unsigned i = 0; i < 2 * SMALL; i++)
		assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
	assert_in_range(gave_way, 1, 2 * SMALL);
	pthread_mutex_unlock(&own.mutex);
	percpu_wbuf_destroy(w);
	assert_int_equal(cell, 18 * SMALL);
	test_unpin(0);
}

/* Another thread, or a fault handler, adds while a flush is about to move the tail. The adds open
 * the reserve and fill it, and the flush does not move the tail back. */
static struct percpu_wbuf *flushed;
static uint64_t *filled;

static void fill(void)
{
	at_applied = NULL;
	for (int i = 0; i < 2 * SMALL; i++)
		assert_int_equal(percpu_wbuf_add(flushed, filled, 1), 0);
}

static void room_that_was_given_is_kept(void **state)
{
	static struct own_lock own; /* static: the buffer stays if an assertion fails */
	static uint64_t cell;
	uint64_t want = 0, listed;

	(void)state;
	flushed = make_own(SMALL, &own);
	filled = &cell;
	test_pin(0, test_cpu(0));
	for (int round = 0; round < 10; round++) {
		assert_int_equal(percpu_wbuf_add(flushed, &cell, 1), 0);
		at_applied = buffered() ? fill : NULL;
		want += buffered() ? 1 + 2 * SMALL : 1;
		percpu_wbuf_flush(flushed);
		assert_null(at_applied);
		pthread_mutex_lock(&own.mutex);
		listed = stats(flushed).overflows;
		for (int i = 0; i < 2 * SMALL; i++)
			assert_int_equal(percpu_wbuf_add(flushed, &cell, 1), 0);
		/* The buffer is full, and no pending add is overwritten. */
		assert_true(stats(flushed).overflows - listed >= SMALL);
		pthread_mutex_unlock(&own.mutex);
		want += 2 * SMALL;
		percpu_wbuf_flush(flushed);
		assert_int_equal(cell, want);
		assert_int_equal(stats(flushed).pending, 0);
	}
	test_unpin(0);
	percpu_wbuf_destroy(flushed);
}

/* A flush applies a transaction right after an add has put it on the list. */

static struct own_lock listed_lock;
static struct percpu_wbuf_stats flushed_stats;

static void flush_the_list(void)
{
	at_listed = NULL;
	pthread_mutex_unlock(&listed_lock.mutex);
	percpu_wbuf_flush(flushed);
	flushed_stats = stats(flushed);
	pthread_mutex_lock(&listed_lock.mutex);
}

static void what_is_listed_counts_at_once(void **state)
{
	uint64_t cell = 0;

	(void)state;
	flushed = make_own(SMALL, &listed_lock);
	pthread_mutex_lock(&listed_lock.mutex);
	at_listed = flush_the_list;
	gave_way = 0;
	for (int i = 0; i < 2 * SMALL && at_listed != NULL; i++)
		assert_int_equal(percpu_wbuf_add(flushed, &cell, 1), 0);
	assert_null(at_listed);
	assert_int_equal(flushed_stats.pending, 0);
	assert_int_equal(flushed_stats.overflows, 1);
	assert_int_equal(gave_way, 0);
	pthread_mutex_unlock(&listed_lock.mutex);
	percpu_wbuf_destroy(flushed);
}

static void add_and_flush(void)
{
	static uint64_t cell;

	at_subtraction = NULL;
	assert_int_equal(percpu_wbuf_add(flushed, &cell, 1), 0);
	percpu_wbuf_flush(flushed);
}

/* An add that is applied while another thread counts what is pending may be counted, or not. */
static void pending_adds_are_never_negative(void **state)
{
	(void)state;
	flushed = make(0);
	test_pin(0, test_cpu(0));
	at_subtraction = add_and_flush;
	assert_in_range(stats(flushed).pending, 0, 1);
	assert_null(at_subtraction);
	test_unpin(0);
	percpu_wbuf_destroy(flushed);
}

static uint64_t counted;

static void add_as_well(void)
{
	at_tail = NULL;
	assert_int_equal(percpu_wbuf_add(flushed, &counted, 1), 0);
}

/* Test two adds that go on the list at the same time. */
static void both_are_listed(void **state)
{
	struct own_lock own;

	(void)state;
	flushed = make_own(SMALL, &own);
	counted = 0;
	pthread_mutex_lock(&own.mutex);
	for (int i = 0; i < 2 * SMALL + 10; i++)
		assert_int_equal(percpu_wbuf_add(flushed, &counted, 1), 0);
	at_tail = add_as_well;
	assert_int_equal(percpu_wbuf_add(flushed, &counted, 1), 0);
	assert_null(at_tail);
	pthread_mutex_unlock(&own.mutex);
	percpu_wbuf_flush(flushed);
	assert_int_equal(counted, 2 * SMALL + 12);
	percpu_wbuf_destroy(flushed);
}

static struct percpu_fifo *queue;
static uint64_t moved_to;

static void move_meanwhile(void)
{
	at_tail = NULL;
	queue->tail = moved_to;
}

/* Test that the tail moves only forward if another thread moves it meanwhile. */
static void tails_never_go_back(void **state)
{
	(void)state;
	queue = calloc(1, sizeof(*queue) + 9 * sizeof(queue->slot[0]));
	assert_non_null(queue);
	queue->slot[8] = 8; /* the word behind the slots: how far they were applied */
	for (uint64_t to = 4; to <= 12; to += 4) {
		queue->tail = 0;
		moved_to = to;
		at_tail = move_meanwhile;
		percpu_wbuf_queue_open(queue, 7);
		assert_null(at_tail);
		assert_int_equal(queue->tail, to < 8 ? 8 : to);
	}
	free(queue);
}

static void destroy_empties_the_list(void **state)
{
	struct own_lock own;
	struct percpu_wbuf *w = make_own(SMALL, &own);
	uint64_t cell = 0;

	(void)state;
	pthread_mutex_lock(&own.mutex);
	for (int i = 0; i < 100; i++)
		assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
	pthread_mutex_unlock(&own.mutex);
	percpu_wbuf_destroy(w);
	assert_int_equal(cell, 100);
}

static void locks_of_the_caller_are_used(void **state)
{
	struct own_lock own;
	struct percpu_wbuf *w = make_own(SMALL, &own);
	uint64_t cell = 0, value;
	uint64_t *const cells[] = { &cell };

	(void)state;
	percpu_wbuf_flush(w);
	assert_int_equal(own.locks, 1);
	assert_int_equal(percpu_wbuf_try_flush(w), 0);
	assert_int_equal(own.trylocks, 1);
	percpu_wbuf_read(w, cells, 1, &value);
	assert_int_equal(own.locks, 2);
	for (int i = 0; i < 100; i++)
		assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
	assert_true(own.trylocks > 1);
	assert_int_equal(own.unlocks, own.locks + own.trylocks);
	percpu_wbuf_destroy(w);
	assert_int_equal(own.unlocks, own.locks + own.trylocks);
	assert_int_equal(cell, 100);
}

/* Add while the lock is taken, until there is no memory for the list. */
static int add_until_there_is_no_memory(void *arg)
{
	struct rlimit limit = { 0, 0 };
	struct own_lock own;
	struct percpu_wbuf *w = make_own(SMALL, &own);
	uint64_t cell = 0, added = 0;
	int e = 0;

	(void)arg;
	pthread_mutex_lock(&own.mutex);
	test_child_require(setrlimit(RLIMIT_AS, &limit) == 0, "limit");
	while (added < 10000000 && (e = percpu_wbuf_add(w, &cell, 1)) == 0)
		added++;
	test_child_require(e == -ENOMEM, "no memory");
	pthread_mutex_unlock(&own.mutex);
	percpu_wbuf_flush(w);
	test_child_require(cell == added, "all that were taken");
	test_child_require(percpu_wbuf_add(w, &cell, 1) == 0, "usable again");
	percpu_wbuf_destroy(w);
	test_child_require(cell == added + 1, "all");
	return 0;
}

static void no_memory_is_reported(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS cannot be used here");
	test_in_child(add_until_there_is_no_memory, NULL);
}

static void bad_arguments_are_refused(void **state)
{
	struct percpu_wbuf_options good = {
		.size = sizeof(good), .lock = lock_own, .trylock = trylock_own, .unlock = unlock_own
	};
	struct percpu_wbuf_options o = good;
	struct percpu_wbuf *w = NULL;
	const size_t entries[] = { 3, 1000, SIZE_MAX, (size_t)1 << 25, SIZE_MAX / 2 + 1 };

	(void)state;
	assert_int_equal(percpu_wbuf_create(&good, NULL), -EINVAL);
	assert_int_equal(percpu_wbuf_create(NULL, NULL), -EINVAL);
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		o.entries = entries[i];
		assert_int_equal(percpu_wbuf_create(&o, &w), -EINVAL);
	}
	o = good;
	o.size = 0;
	assert_int_equal(percpu_wbuf_create(&o, &w), -EINVAL);
	o = good;
	o.lock = NULL;
	assert_int_equal(percpu_wbuf_create(&o, &w), -EINVAL);
	o = good;
	o.trylock = NULL;
	assert_int_equal(percpu_wbuf_create(&o, &w), -EINVAL);
	o = good;
	o.unlock = NULL;
	assert_int_equal(percpu_wbuf_create(&o, &w), -EINVAL);
	assert_null(w);
}

static void nothing_stays_behind(void **state)
{
	struct test_holding before;

	(void)state;
	percpu_wbuf_destroy(make(0));
	before = test_holding_now();
	for (int i = 0; i < 20; i++) {
		struct percpu_wbuf *w = make(0), *v = make(SMALL);
		uint64_t cell = 0;

		assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
		percpu_wbuf_destroy(w); /* not in the order of creation */
		percpu_wbuf_destroy(v);
	}
	test_assert_holding(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flush_applies_what_is_pending),
		cmocka_unit_test(four_are_added_at_once),
		cmocka_unit_test(destroy_applies_what_is_pending),
		cmocka_unit_test(full_buffers_are_flushed),
		cmocka_unit_test(transactions_must_fit),
		cmocka_unit_test(anyone_flushes_every_cpu),
		cmocka_unit_test(read_flushes),
		cmocka_unit_test(hints_wait_for_a_quarter),
		cmocka_unit_test(a_number_of_hints_flushes),
		cmocka_unit_test(a_flush_that_is_due_stays_due),
		cmocka_unit_test(a_refused_flush_counts_once),
		cmocka_unit_test(hints_without_sequences_flush_the_list),
		cmocka_unit_test(aborted_hints_count),
		cmocka_unit_test(hints_elsewhere_flush_what_was_left),
		cmocka_unit_test(busy_hints_flush_elsewhere_in_turn),
		cmocka_unit_test(a_taken_lock_is_not_waited_for),
		cmocka_unit_test(a_long_list_gives_way),
		cmocka_unit_test(room_that_was_given_is_kept),
		cmocka_unit_test(what_is_listed_counts_at_once),
		cmocka_unit_test(pending_adds_are_never_negative),
		cmocka_unit_test(both_are_listed),
		cmocka_unit_test(tails_never_go_back),
		cmocka_unit_test(destroy_empties_the_list),
		cmocka_unit_test(locks_of_the_caller_are_used),
		cmocka_unit_test(no_memory_is_reported),
		cmocka_unit_test(bad_arguments_are_refused),
		cmocka_unit_test(nothing_stays_behind),
		cmocka_unit_test(thread_may_lose_its_registration),
		cmocka_unit_test(flush_applies_what_is_pending),
		cmocka_unit_test(full_buffers_are_flushed),
		cmocka_unit_test(transactions_must_fit),
		cmocka_unit_test(a_taken_lock_is_not_waited_for),
		cmocka_unit_test(what_is_listed_counts_at_once),
		cmocka_unit_test(destroy_empties_the_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
