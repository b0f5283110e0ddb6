/* SPDX-License-Identifier: MIT */
/*
 * test_wbuf_limit.c - flushes of write buffers that stop at a limit and go on later: how much one
 * call applies, that transactions stay whole, and that nothing is lost or applied twice.
 */
#define _GNU_SOURCE
#include <errno.h>

#include "model.h"
#include "steps.h"
#include "wbuf.h"

#include "counts/counts.h"

#define ENTRIES 64
#define LIMIT 4

static void (*at_applied)(void); /* run in a flush, after a part of a queue was applied */

void test_step(const char *name)
{
	if (at_applied != NULL && strcmp(name, "wbuf: applied") == 0)
		at_applied();
}

static struct own_lock own;
static uint64_t cell;

/* Schedule so many adds while the lock is taken, all in the buffer if it has room. */
static void add_pending(struct percpu_wbuf *w, unsigned n)
{
	const uint64_t pending = stats(w).pending;

	pthread_mutex_lock(&own.mutex);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
	pthread_mutex_unlock(&own.mutex);
	assert_int_equal(stats(w).pending, pending + n);
}

static void adds_apply_up_to_the_limit(void **state)
{
	struct percpu_wbuf *w = make_limited(ENTRIES, 0, LIMIT, &own);
	uint64_t added = ENTRIES;

	(void)state;
	cell = 0;
	test_pin(0, test_cpu(0));
	add_pending(w, ENTRIES);
	assert_int_equal(cell, 0);
	for (unsigned i = 0; i < 10 * ENTRIES; i++) {
		const uint64_t before = cell;

		assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
		added++;
		/* The buffer's adds, or the list's, up to the limit; and the caller's own. */
		assert_true(cell - before <= LIMIT + 1);
		if (i == 0)
			assert_int_equal(cell, LIMIT + 1);
		assert_int_equal(cell + stats(w).pending, added);
	}
	/* In the long run each flush makes room for as many adds as it applied. */
	if (buffered()) {
		assert_in_range(stats(w).pending, ENTRIES / 2, ENTRIES * 3 / 4);
		assert_in_range(stats(w).flushes, 10 * ENTRIES / (LIMIT + 1), 150);
	}
	assert_int_equal(stats(w).overflows, buffered() ? 0 : ENTRIES);
	percpu_wbuf_destroy(w);
	assert_int_equal(cell, added);
	test_unpin(0);
}

static uint64_t part[PERCPU_WBUF_LONGEST];
static unsigned parts;
static size_t parts_used;

/* Check that all or none of each transaction's adds were applied. */
static void expect_whole(void)
{
	parts++;
	for (size_t k = 1; k < parts_used; k++)
		assert_int_equal(part[k], part[0]);
}

/* Transactions of each length are applied whole, wherever the limit falls. */
static void transactions_stay_whole(void **state)
{
	static const size_t limits[] = { 1, 2, 3, 7, 64, 100, 128 };
	struct percpu_wbuf_entry adds[PERCPU_WBUF_LONGEST];

	(void)state;
	test_pin(0, test_cpu(0));
	for (size_t k = 0; k < PERCPU_WBUF_LONGEST; k++)
		adds[k] = percpu_wbuf_entry_u64(&part[k], 1);
	at_applied = expect_whole;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		for (parts_used = 1; parts_used <= PERCPU_WBUF_LONGEST; parts_used++) {
			struct percpu_wbuf *w = make_limited(128, 0, limits[i], &own);
			uint64_t added = 0, before;

			memset(part, 0, sizeof(part));
			parts = 0;
			for (; added < 400; added++) {
				before = part[0];
				assert_int_equal(percpu_wbuf_add_n(w, adds, parts_used), 0);
				expect_whole();
				assert_true(part[0] - before <=
					    (limits[i] + parts_used - 1) / parts_used + 1);
			}
			assert_true(parts > 0 || !buffered());
			percpu_wbuf_flush(w);
			expect_whole();
			assert_int_equal(part[0], added);
			percpu_wbuf_destroy(w);
		}
	at_applied = NULL;
	test_unpin(0);
}

/* Transactions of 1, 2 and 4 adds, which have a sequence each if that is a constant. */
static void short_transactions_stay_whole(void **state)
{
	struct percpu_wbuf *w = make_limited(128, 0, 1, &own);
	struct percpu_wbuf_entry adds[4];

	(void)state;
	test_pin(0, test_cpu(0));
	for (size_t k = 0; k < 4; k++)
		adds[k] = percpu_wbuf_entry_u64(&part[k], 1);
	for (size_t n = 1; n <= 4; n *= 2) {
		memset(part, 0, sizeof(part));
		parts_used = n;
		at_applied = expect_whole;
		for (unsigned i = 0; i < 500; i++)
			assert_int_equal(n == 1 ? percpu_wbuf_add_n(w, adds, 1) :
					 n == 2 ? percpu_wbuf_add_n(w, adds, 2) :
						  percpu_wbuf_add_n(w, adds, 4),
					 0);
		percpu_wbuf_flush(w);
		at_applied = NULL;
		expect_whole();
		assert_int_equal(part[0], 500);
	}
	percpu_wbuf_destroy(w);
	test_unpin(0);
}

/* A hint that was due goes on at each call until nothing is left. */
static void hints_go_on(void **state)
{
	struct percpu_wbuf *w = make_limited(1024, 3, LIMIT, &own);
	const unsigned n = 25;
	unsigned calls = 0;

	(void)state;
	cell = 0;
	test_pin(0, test_cpu(0));
	add_pending(w, n);
	percpu_wbuf_hint_flush(w);
	percpu_wbuf_hint_flush(w);
	assert_int_equal(cell, 0);
	while (cell < n) {
		const uint64_t before = cell;

		percpu_wbuf_hint_flush(w);
		calls++;
		/* It may be this CPU's turn as well. */
		assert_true(cell - before <= 2 * LIMIT);
		assert_true(cell - before >= (n - before < LIMIT ? n - before : LIMIT));
	}
	assert_in_range(calls, n / (2 * LIMIT) + 1, n / LIMIT + 1);
	test_unpin(0);
	percpu_wbuf_destroy(w);
}

/* Once nothing is left, the next flush waits for as many hints as the one before. */
static void hints_are_counted_anew(void **state)
{
	struct percpu_wbuf *w = make_limited(1024, 3, LIMIT, &own);

	(void)state;
	cell = 0;
	test_pin(0, test_cpu(0));
	add_pending(w, LIMIT);
	for (int i = 0; i < 3; i++)
		percpu_wbuf_hint_flush(w);
	assert_int_equal(cell, LIMIT);
	add_pending(w, 1);
	for (int i = 0; i < 2; i++)
		percpu_wbuf_hint_flush(w);
	assert_int_equal(cell, LIMIT);
	percpu_wbuf_hint_flush(w);
	assert_int_equal(cell, LIMIT + 1);
	test_unpin(0);
	percpu_wbuf_destroy(w);
}

/* What was left on another CPU is applied in parts, too, before it is the next CPU's turn. */
static void hints_elsewhere_go_on(void **state)
{
	struct percpu_wbuf *w = make_limited(1024, 1, LIMIT, &own);
	uint64_t before;

	(void)state;
	if (!buffered() || test_cpus() < 2) {
		percpu_wbuf_destroy(w);
		test_skip("this thread uses no buffer, or there is one CPU");
	}
	cell = 0;
	test_pin(0, test_cpu(0));
	add_pending(w, 3 * LIMIT);
	test_pin(0, test_cpu(1));
	while (cell == 0) /* until it is that CPU's turn */
		percpu_wbuf_hint_flush(w);
	for (int i = 0; i < 2; i++) {
		before = cell;
		percpu_wbuf_hint_flush(w);
		assert_int_equal(cell, before + LIMIT);
	}
	assert_int_equal(cell, 3 * LIMIT);
	test_unpin(0);
	percpu_wbuf_destroy(w);
}

/* Hints and adds apply the list in parts. A thread without sequences has nothing else. */
static void lists_are_applied_in_parts(void **state)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_wbuf *w = make_limited(ENTRIES, 1, LIMIT, &own);
	struct percpu_rseq *area = model_set_area(&none);
	uint64_t seen[5];
	int e = 0;

	(void)state;
	cell = 0;
	pthread_mutex_lock(&own.mutex);
	for (unsigned i = 0; i < 3 * LIMIT + 1; i++)
		e |= percpu_wbuf_add(w, &cell, 1);
	pthread_mutex_unlock(&own.mutex);
	e |= percpu_wbuf_add(w, &cell, 1);
	seen[0] = cell;
	for (int i = 1; i < 5; i++) {
		percpu_wbuf_hint_flush(w);
		seen[i] = cell;
	}
	(void)model_set_area(area);
	assert_int_equal(e, 0);
	assert_int_equal(seen[0], LIMIT + 1);
	assert_int_equal(seen[1], 2 * LIMIT + 1);
	assert_int_equal(seen[2], 3 * LIMIT + 1);
	assert_int_equal(seen[3], 3 * LIMIT + 2);
	assert_int_equal(seen[4], 3 * LIMIT + 2);
	percpu_wbuf_destroy(w);
}

/* After a part of a flush, a reader still gets all that was added before. */
static void readers_apply_the_rest(void **state)
{
	uint64_t *const cells[] = { &cell };
	uint64_t value = 0;

	(void)state;
	test_pin(0, test_cpu(0));
	for (int way = 0; way < 4; way++) {
		struct percpu_wbuf *w = make_limited(ENTRIES, 0, LIMIT, &own);

		cell = 0;
		add_pending(w, ENTRIES);
		assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
		assert_int_equal(cell, LIMIT + 1);
		if (way == 0) {
			percpu_wbuf_flush(w);
		} else if (way == 1) {
			assert_int_equal(percpu_wbuf_try_flush(w), 0);
		} else if (way == 2) {
			percpu_wbuf_read(w, cells, 1, &value);
			assert_int_equal(value, ENTRIES + 1);
		} else {
			percpu_wbuf_lock(w);
			assert_int_equal(cell, ENTRIES + 1);
			percpu_wbuf_unlock(w);
		}
		assert_int_equal(cell, ENTRIES + 1);
		percpu_wbuf_destroy(w);
		assert_int_equal(cell, ENTRIES + 1);
	}
	test_unpin(0);
}

/* While a flush stops at its limit, and has the lock, adds fill all room that there is. */
static struct percpu_wbuf *flushed;

static void fill_up(void)
{
	at_applied = NULL;
	for (int i = 0; i < 2 * ENTRIES; i++)
		assert_int_equal(percpu_wbuf_add(flushed, &cell, 1), 0);
}

static void room_of_a_part_is_filled(void **state)
{
	uint64_t added = 0;

	(void)state;
	flushed = make_limited(ENTRIES, 0, LIMIT, &own);
	cell = 0;
	test_pin(0, test_cpu(0));
	for (int round = 0; round < 5; round++) {
		add_pending(flushed, ENTRIES);
		at_applied = buffered() ? fill_up : NULL;
		assert_int_equal(percpu_wbuf_add(flushed, &cell, 1), 0);
		assert_null(at_applied);
		added += ENTRIES + 1 + (buffered() ? 2 * ENTRIES : 0);
		assert_int_equal(cell + stats(flushed).pending, added);
	}
	percpu_wbuf_destroy(flushed);
	assert_int_equal(cell, added);
	test_unpin(0);
}

/* Another thread goes on where this one stopped. */
static void go_on(unsigned i, void *arg)
{
	(void)i;
	test_pin(0, test_cpu(0));
	for (int k = 0; k < 20; k++)
		assert_int_equal(percpu_wbuf_add(arg, &cell, 1), 0);
	test_unpin(0);
}

static void another_thread_goes_on(void **state)
{
	struct percpu_wbuf *w = make_limited(ENTRIES, 0, LIMIT, &own);

	(void)state;
	cell = 0;
	test_pin(0, test_cpu(0));
	add_pending(w, ENTRIES);
	assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
	test_unpin(0);
	test_team_run(1, go_on, w);
	assert_int_equal(cell + stats(w).pending, ENTRIES + 21);
	assert_true(cell > LIMIT + 1);
	percpu_wbuf_destroy(w);
	assert_int_equal(cell, ENTRIES + 21);
}

/* A child of fork does not go on with its parent's flush. */
static int flush_in_child(void *arg)
{
	const uint64_t before = cell;

	test_child_require(stats(arg).pending == 0, "nothing is pending");
	for (int i = 0; i < 2 * ENTRIES; i++)
		test_child_require(percpu_wbuf_add(arg, &cell, 1) == 0, "add");
	percpu_wbuf_destroy(arg);
	test_child_require(cell == before + 2 * ENTRIES, "the child's own");
	return 0;
}

static void children_do_not_go_on(void **state)
{
	struct percpu_wbuf *w = make_limited(ENTRIES, 0, LIMIT, &own);

	(void)state;
	cell = 0;
	test_pin(0, test_cpu(0));
	add_pending(w, ENTRIES);
	assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
	test_in_child(flush_in_child, w);
	assert_int_equal(cell, LIMIT + 1);
	percpu_wbuf_destroy(w);
	assert_int_equal(cell, ENTRIES + 1);
	test_unpin(0);
}

static void limits_must_fit(void **state)
{
	struct percpu_wbuf_options o = { .size = sizeof(o), .entries = ENTRIES };
	static const size_t bad[] = { ENTRIES + 1, 1024, SIZE_MAX };
	struct percpu_wbuf *w = NULL;

	(void)state;
	for (int i = 0; i < 3; i++) {
		o.flush_limit = bad[i];
		assert_int_equal(percpu_wbuf_create(&o, &w), -EINVAL);
		assert_null(w);
	}
	for (o.flush_limit = 0; o.flush_limit <= ENTRIES; o.flush_limit++) {
		assert_int_equal(percpu_wbuf_create(&o, &w), 0);
		percpu_wbuf_destroy(w);
	}
	o = (struct percpu_wbuf_options){ .size = sizeof(o), .flush_limit = 1025 };
	w = NULL;
	assert_int_equal(percpu_wbuf_create(&o, &w), -EINVAL);
	assert_null(w);
	o.flush_limit = 1024;
	assert_int_equal(percpu_wbuf_create(&o, &w), 0);
	percpu_wbuf_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adds_apply_up_to_the_limit),
		cmocka_unit_test(transactions_stay_whole),
		cmocka_unit_test(short_transactions_stay_whole),
		cmocka_unit_test(hints_go_on),
		cmocka_unit_test(hints_are_counted_anew),
		cmocka_unit_test(hints_elsewhere_go_on),
		cmocka_unit_test(lists_are_applied_in_parts),
		cmocka_unit_test(readers_apply_the_rest),
		cmocka_unit_test(room_of_a_part_is_filled),
		cmocka_unit_test(another_thread_goes_on),
		cmocka_unit_test(children_do_not_go_on),
		cmocka_unit_test(limits_must_fit),
		cmocka_unit_test(thread_may_lose_its_registration),
		cmocka_unit_test(adds_apply_up_to_the_limit),
		cmocka_unit_test(lists_are_applied_in_parts),
		cmocka_unit_test(readers_apply_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
