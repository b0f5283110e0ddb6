/* SPDX-License-Identifier: MIT */
/*
 * test_local.c - every operation of local.h on every fallback, by the inline function and by its
 * slow path: results, errors, and what is not supported. Threads: tests/stress/test_exchange.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <percpu/local.h>
#include <percpu/status.h>

#include "support.h"

#define SLOTS 8
#define UNSET INT64_C(0x5e77ed)

static const enum percpu_local_fallback fallbacks[] = { PERCPU_LOCAL_SPLIT, PERCPU_LOCAL_LOCK,
							PERCPU_LOCAL_REFS };

/* One way of calling the operations: by inline functions, or by slow paths. */
struct way {
	const char *name;
	int (*add)(const struct percpu_local *l, int64_t n);
	int (*add_return)(const struct percpu_local *l, int64_t n, int64_t *ret);
	int (*add_limit)(const struct percpu_local *l, int64_t n, int64_t limit, int64_t *ret);
	int (*store)(const struct percpu_local *l, int64_t v);
	int (*cmpxchg)(const struct percpu_local *l, int64_t expected, int64_t v, int64_t *ret);
	int (*xchg)(const struct percpu_local *l, int64_t v, int64_t *ret);
	int (*push)(const struct percpu_local *l, uint64_t limit, void *item);
	int (*pop)(const struct percpu_local *l, void **ret);
	int (*copy)(const struct percpu_local *l, uint64_t mask, const uint64_t *src,
		    uint64_t words);
	int (*take)(const struct percpu_local *l, uint64_t mask, uint64_t *ret);
};

static int add_return_slow(const struct percpu_local *l, int64_t n, int64_t *ret)
{
	return percpu_local_add_limit_slow(l, n, INT64_MAX, ret);
}

static int store_slow(const struct percpu_local *l, int64_t v)
{
	int64_t old;

	return percpu_local_xchg_slow(l, v, &old);
}

static const struct way ways[] = {
	{ "inline", percpu_local_add, percpu_local_add_return, percpu_local_add_limit,
	  percpu_local_store, percpu_local_cmpxchg, percpu_local_xchg, percpu_local_push,
	  percpu_local_pop, percpu_local_copy, percpu_local_take },
	{ "slow", percpu_local_add_slow, add_return_slow, percpu_local_add_limit_slow, store_slow,
	  percpu_local_cmpxchg_slow, percpu_local_xchg_slow, percpu_local_push_slow,
	  percpu_local_pop_slow, percpu_local_copy_slow, percpu_local_take_slow },
};

static struct percpu_local *make(size_t size, enum percpu_local_fallback fallback)
{
	struct percpu_local *l = NULL;

	assert_int_equal(percpu_local_create(size, fallback, &l), 0);
	assert_non_null(l);
	return l;
}

/* On tier shared all threads may use one lane; the sum is right on each tier. */
static void words_add_up(void **state)
{
	(void)state;
	for (int f = 0; f < 3; f++) {
		struct percpu_local *l = make(8, fallbacks[f]);

		for (int w = 0; w < 2; w++) {
			assert_int_equal(ways[w].add(l, 5), 0);
			assert_int_equal(ways[w].add(l, -7), 0);
			assert_int_equal(ways[w].add(l, INT64_MAX), 0);
			assert_int_equal(ways[w].add(l, INT64_MIN), 0);
		}
		assert_int_equal(percpu_local_sum(l), -6);
		percpu_local_destroy(l);
	}
}

static void split_does_nothing_but_add(void **state)
{
	struct percpu_local *l = make(8, PERCPU_LOCAL_SPLIT);
	int64_t v = UNSET;
	uint64_t word = 1;
	void *item = &v;

	(void)state;
	assert_int_equal(percpu_local_add(l, 3), 0);
	for (int w = 0; w < 2; w++) {
		assert_int_equal(ways[w].add_return(l, 1, &v), -ENOTSUP);
		assert_int_equal(ways[w].add_limit(l, 1, 5, &v), -ENOTSUP);
		assert_int_equal(ways[w].store(l, 1), -ENOTSUP);
		assert_int_equal(ways[w].cmpxchg(l, 3, 1, &v), -ENOTSUP);
		assert_int_equal(ways[w].xchg(l, 1, &v), -ENOTSUP);
		assert_int_equal(ways[w].push(l, 0, item), -ENOTSUP);
		assert_int_equal(ways[w].pop(l, &item), -ENOTSUP);
		assert_int_equal(ways[w].copy(l, 0, &word, 1), -ENOTSUP);
		assert_int_equal(ways[w].take(l, 0, &word), -ENOTSUP);
	}
	assert_int_equal(percpu_local_pop_cpu(l, 0, &item), -ENOTSUP);
	assert_int_equal(v, UNSET);
	assert_ptr_equal(item, &v);
	assert_int_equal(percpu_local_sum(l), 3);
	percpu_local_destroy(l);
}

static void references_do_words_only(void **state)
{
	struct percpu_local *l = make(8, PERCPU_LOCAL_REFS);
	uint64_t word = 1;
	void *item = &word;

	(void)state;
	for (int w = 0; w < 2; w++) {
		assert_int_equal(ways[w].push(l, 0, item), -ENOTSUP);
		assert_int_equal(ways[w].pop(l, &item), -ENOTSUP);
		assert_int_equal(ways[w].copy(l, 0, &word, 1), -ENOTSUP);
		assert_int_equal(ways[w].take(l, 0, &word), -ENOTSUP);
	}
	assert_ptr_equal(item, &word);
	assert_int_equal(percpu_local_sum(l), 0);
	percpu_local_destroy(l);
}

static void word_operations(struct percpu_local *l, const struct way *w)
{
	int64_t v = UNSET;

	assert_int_equal(w->store(l, 10), 0);
	assert_int_equal(w->add_return(l, 5, &v), 0);
	assert_int_equal(v, 15);
	assert_int_equal(w->add_return(l, -20, &v), 0);
	assert_int_equal(v, -5);
	assert_int_equal(w->add_limit(l, 8, 3, &v), 0);
	assert_int_equal(v, 3);
	assert_int_equal(w->add_limit(l, 1, 3, &v), -ERANGE);
	assert_int_equal(v, 4);
	assert_int_equal(w->add_limit(l, -10, -7, &v), 0);
	assert_int_equal(v, -7);
	v = UNSET;
	assert_int_equal(w->cmpxchg(l, -8, 1, &v), -EAGAIN);
	assert_int_equal(v, -7);
	assert_int_equal(w->cmpxchg(l, -7, INT64_MAX, &v), 0);
	assert_int_equal(v, -7);
	assert_int_equal(w->xchg(l, INT64_MIN, &v), 0);
	assert_int_equal(v, INT64_MAX);
	assert_int_equal(w->xchg(l, 0, &v), 0);
	assert_int_equal(v, INT64_MIN);
	assert_int_equal(percpu_local_sum(l), 0);
}

static void words_of_the_own_cpu(void **state)
{
	(void)state;
	test_pin(0, test_cpu(0));
	for (int f = 1; f < 3; f++) {
		struct percpu_local *l = make(8, fallbacks[f]);

		word_operations(l, &ways[0]);
		word_operations(l, &ways[1]);
		percpu_local_destroy(l);
	}
	test_unpin(0);
}

static void arrays_are_stacks(void **state)
{
	struct percpu_local *l = make(8 + 8 * SLOTS, PERCPU_LOCAL_LOCK);
	int things[SLOTS];
	void *item = NULL;

	(void)state;
	test_pin(0, test_cpu(0));
	for (int push = 0; push < 2; push++) {
		for (int pop = 0; pop < 2; pop++) {
			item = things;
			assert_int_equal(ways[pop].pop(l, &item), -ENOENT);
			assert_ptr_equal(item, things);
			for (int i = 0; i < SLOTS; i++)
				assert_int_equal(ways[push].push(l, SLOTS, &things[i]), 0);
			assert_int_equal(ways[push].push(l, SLOTS, &item), -ENOSPC);
			assert_int_equal(ways[push].push(l, 3, &item), -ENOSPC);
			for (int i = SLOTS; i-- > 0;) {
				assert_int_equal(ways[pop].pop(l, &item), 0);
				assert_ptr_equal(item, &things[i]);
			}
			assert_int_equal(ways[push].push(l, 0, &item), -ENOSPC);
		}
	}
	test_unpin(0);
	percpu_local_destroy(l);
}

static void queues_take_all_words_or_none(void **state)
{
	static const uint64_t src[SLOTS] = { 11, 12, 13, 14, 15, 16, 17, 18 };
	struct percpu_local *l = make(16 + 8 * SLOTS, PERCPU_LOCAL_LOCK);
	struct percpu_fifo *q;

	(void)state;
	test_pin(0, test_cpu(0));
	q = percpu_local_cell(
		l, percpu_status()->tier == PERCPU_TIER_SHARED ? 0 : (unsigned)sched_getcpu());
	for (int w = 0; w < 2; w++) {
		q->head = q->tail = 5; /* the words wrap around */
		assert_int_equal(ways[w].copy(l, SLOTS - 1, src, 6), 0);
		assert_int_equal(q->head, 11);
		for (int i = 0; i < 6; i++)
			assert_int_equal(q->slot[(5 + i) % SLOTS], src[i]);
		assert_int_equal(ways[w].copy(l, SLOTS - 1, src, 3), -ENOSPC);
		assert_int_equal(q->head, 11);
		assert_int_equal(ways[w].copy(l, SLOTS - 1, src + 6, 2), 0);
		assert_int_equal(ways[w].copy(l, SLOTS - 1, src, 1), -ENOSPC);
		q->tail = 13;
		assert_int_equal(ways[w].copy(l, SLOTS - 1, src, SLOTS), 0);
		assert_int_equal(q->head, 21);
		q->tail = 21;
		assert_int_equal(ways[w].copy(l, SLOTS - 1, src, SLOTS + 1), -ENOSPC);
		assert_int_equal(ways[w].copy(l, SLOTS - 1, src, 0), 0);
		assert_int_equal(q->head, 21);
	}
	test_unpin(0);
	percpu_local_destroy(l);
}

/* A queue of pointers, first in and first out. */
static void queues_give_the_oldest(void **state)
{
	struct percpu_local *l = make(16 + 8 * SLOTS, PERCPU_LOCAL_LOCK);
	uint64_t word, next = 1, oldest = 1;

	(void)state;
	test_pin(0, test_cpu(0));
	for (unsigned i = 0; i < 200; i++) {
		const struct way *w = &ways[i % 2], *other = &ways[i / 2 % 2];

		word = (uintptr_t)l + next;
		if (next - oldest < SLOTS) {
			assert_int_equal(w->copy(l, SLOTS - 1, &word, 1), 0);
			next++;
		} else {
			assert_int_equal(w->copy(l, SLOTS - 1, &word, 1), -ENOSPC);
		}
		word = UNSET;
		if (i % 3 == 0) {
			assert_int_equal(other->take(l, SLOTS - 1, &word), 0);
			assert_int_equal(word, (uintptr_t)l + oldest++);
		}
	}
	for (; oldest != next; oldest++) {
		assert_int_equal(ways[oldest % 2].take(l, SLOTS - 1, &word), 0);
		assert_int_equal(word, (uintptr_t)l + oldest);
	}
	word = UNSET;
	for (int w = 0; w < 2; w++)
		assert_int_equal(ways[w].take(l, SLOTS - 1, &word), -ENOENT);
	assert_int_equal(word, UNSET);
	test_unpin(0);
	percpu_local_destroy(l);
}

static void every_cpu_has_its_own_cell(void **state)
{
	struct percpu_local *l = make(8, PERCPU_LOCAL_LOCK);
	uint32_t cpus = percpu_status()->possible_cpus;
	int64_t v;

	(void)state;
	for (uint32_t cpu = 0; cpu < cpus; cpu++) {
		assert_non_null(percpu_local_cell(l, cpu));
		assert_int_equal(*(int64_t *)percpu_local_cell(l, cpu), 0);
	}
	assert_null(percpu_local_cell(l, cpus));
	assert_null(percpu_local_cell(l, UINT32_MAX));
	if (percpu_status()->tier == PERCPU_TIER_SHARED)
		test_skip("tier shared does not know the CPU");
	for (unsigned n = 0; n < test_cpus(); n++) {
		assert_true(test_pin(0, test_cpu(n)));
		assert_int_equal(percpu_local_xchg(l, 100 + n, &v), 0);
		assert_int_equal(v, 0);
		assert_int_equal(percpu_local_xchg_slow(l, 200 + n, &v), 0);
		assert_int_equal(v, 100 + n);
		assert_int_equal(*(int64_t *)percpu_local_cell(l, test_cpu(n)), 200 + n);
	}
	test_unpin(0);
	percpu_local_destroy(l);
}

/* The compiler must not assume that a cell is unchanged by an add between two loads. */
static void adds_are_seen_by_pointer(void **state)
{
	struct percpu_local *l = make(8, PERCPU_LOCAL_SPLIT);
	const int64_t *cell = percpu_local_cell(l, test_cpu(0));
	int64_t before, after;

	(void)state;
	if (percpu_status()->tier != PERCPU_TIER_RSEQ) {
		percpu_local_destroy(l);
		test_skip("adds are atomic here, in cells of their own");
	}
	assert_true(test_pin(0, test_cpu(0)));
	for (int i = 0; i < 1000; i++) {
		before = *cell;
		percpu_local_add(l, 7);
		after = *cell;
		/* An add that was aborted too often is in another lane. */
		if (after != before)
			break;
	}
	assert_int_equal(after, before + 7);
	test_unpin(0);
	percpu_local_destroy(l);
}

static void bad_arguments_are_refused(void **state)
{
	struct percpu_local *l = NULL;

	(void)state;
	assert_int_equal(percpu_local_create(8, PERCPU_LOCAL_LOCK, NULL), -EINVAL);
	assert_int_equal(percpu_local_create(0, PERCPU_LOCAL_LOCK, &l), -EINVAL);
	assert_int_equal(percpu_local_create(((size_t)1 << 30) + 1, PERCPU_LOCAL_LOCK, &l),
			 -EINVAL);
	assert_int_equal(percpu_local_create(SIZE_MAX, PERCPU_LOCAL_LOCK, &l), -EINVAL);
	assert_int_equal(percpu_local_create(8, (enum percpu_local_fallback)3, &l), -EINVAL);
	assert_int_equal(percpu_local_create(8, (enum percpu_local_fallback)99, &l), -EINVAL);
	assert_int_equal(percpu_local_create(16, PERCPU_LOCAL_SPLIT, &l), -EINVAL);
	assert_int_equal(percpu_local_create(16, PERCPU_LOCAL_REFS, &l), -EINVAL);
	assert_null(l);
	percpu_local_destroy(NULL);
}

/* From here on, the main thread has fallbacks only. */
static void thread_may_lose_its_registration(void **state)
{
	bool registered = percpu_seq_attach()->cpu_id >= 0;

	(void)state;
	assert_int_equal(test_unregister(percpu_self), registered);
	assert_true(percpu_self->cpu_id < 0);
}

/* A thread that is alive holds the guards of all lanes when a child is made. */
static struct percpu_local *guarded;

static void hold_guards(void)
{
	for (unsigned cpu = 0; percpu_local_cell(guarded, cpu) != NULL; cpu++)
		*(uint32_t *)(void *)(guarded->guard + cpu * guarded->stride) = (uint32_t)getpid();
}

static int use_in_child(void *arg)
{
	int64_t v;

	(void)arg;
	for (unsigned cpu = 0; cpu < test_cpus(); cpu++) {
		test_pin(0, test_cpu(cpu));
		test_child_require(percpu_local_add_return(guarded, 1, &v) == 0, "add_return");
	}
	for (unsigned cpu = 0;
	     guarded->fallback == PERCPU_LOCAL_REFS && percpu_local_cell(guarded, cpu) != NULL;
	     cpu++)
		test_child_require(*(uint32_t *)(void *)(guarded->guard + cpu * guarded->stride) ==
					   0,
				   "no references are left");
	return 0;
}

static void child_of_fork_finds_no_guard(void **state)
{
	(void)state;
	for (int fallback = PERCPU_LOCAL_LOCK; fallback <= PERCPU_LOCAL_REFS; fallback++) {
		assert_int_equal(
			percpu_local_create(8, (enum percpu_local_fallback)fallback, &guarded), 0);
		hold_guards();
		test_in_child(use_in_child, NULL);
		percpu_local_destroy(guarded);
	}
}

/* Whether fences are refused, as in a sandbox. */
static bool refused;
static unsigned interrupted; /* how many fences must be tried again */

int __real_percpu_barrier_cpu(unsigned cpu);
int __wrap_percpu_barrier_cpu(unsigned cpu);
int __wrap_percpu_barrier_cpu(unsigned cpu)
{
	if (interrupted != 0) {
		interrupted--;
		return -EAGAIN;
	}
	return refused ? -EPERM : __real_percpu_barrier_cpu(cpu);
}

/* While there is a reference, no sequence touches the word. Each call takes a reference, too,
 * which needs a fence. */
static void references_keep_sequences_out(void **state)
{
	struct percpu_local *l;
	uint32_t *guard;
	int64_t v = UNSET;

	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ)
		test_skip("no sequences");
	test_pin(0, test_cpu(0));
	l = make(8, PERCPU_LOCAL_REFS);
	guard = (uint32_t *)(void *)(l->guard + test_cpu(0) * l->stride);
	assert_int_equal(percpu_local_add(l, 5), 0);
	*guard = 1;
	refused = true;
	assert_int_equal(percpu_local_add(l, 1), -EPERM);
	assert_int_equal(percpu_local_add_return(l, 1, &v), -EPERM);
	assert_int_equal(percpu_local_add_limit(l, 1, 100, &v), -EPERM);
	assert_int_equal(percpu_local_cmpxchg(l, 5, 1, &v), -EPERM);
	assert_int_equal(percpu_local_xchg(l, 1, &v), -EPERM);
	refused = false;
	assert_int_equal(v, UNSET);
	assert_int_equal(percpu_local_sum(l), 5);
	assert_int_equal(percpu_local_add(l, 1), 0);
	assert_int_equal(*guard, 1);
	*guard = 0;
	assert_int_equal(percpu_local_sum(l), 6);
	percpu_local_destroy(l);
	test_unpin(0);
}

/* From here on the thread runs no sequences. */
static void fences_are_tried_again(void **state)
{
	int64_t v;

	(void)state;
	test_unregister(percpu_seq_attach());
	for (int f = 1; f < 3; f++) {
		struct percpu_local *l = make(8, fallbacks[f]);

		interrupted = 3;
		assert_int_equal(percpu_local_add_return(l, 1, &v), 0);
		assert_int_equal(interrupted, 0);
		assert_int_equal(percpu_local_sum(l), 1);
		percpu_local_destroy(l);
	}
}

/* A call without a fence fails: it changes nothing, and leaves no guard set. */
static void missing_fences_are_errors(void **state)
{
	uint64_t word = UNSET;
	void *item = NULL;
	int64_t v = UNSET;

	(void)state;
	test_unregister(percpu_seq_attach());
	for (int f = 1; f < 3; f++) {
		struct percpu_local *l = make(8, fallbacks[f]);

		assert_int_equal(percpu_local_add(l, 5), 0);
		refused = true;
		v = UNSET;
		assert_int_equal(percpu_local_add_return(l, 1, &v), -EPERM);
		assert_int_equal(percpu_local_cmpxchg(l, 5, 1, &v), -EPERM);
		assert_int_equal(percpu_local_xchg(l, 1, &v), -EPERM);
		if (fallbacks[f] == PERCPU_LOCAL_LOCK) {
			assert_int_equal(percpu_local_push(l, 1, &v), -EPERM);
			assert_int_equal(percpu_local_pop(l, &item), -EPERM);
			assert_int_equal(percpu_local_copy(l, 0, &word, 1), -EPERM);
			assert_int_equal(percpu_local_take(l, 0, &word), -EPERM);
		}
		assert_true(v == UNSET && item == NULL && word == UNSET);
		refused = false;
		assert_int_equal(percpu_local_sum(l), 5);
		for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++)
			assert_int_equal(*(uint32_t *)(void *)(l->guard + cpu * l->stride), 0);
		assert_int_equal(percpu_local_add_return(l, 1, &v), 0);
		assert_int_equal(percpu_local_sum(l), 6);
		percpu_local_destroy(l);
	}
}

/* Pop from the array of another CPU, if there is one. */
static void arrays_of_all_cpus_are_popped(void **state)
{
	struct percpu_local *l = make(64, PERCPU_LOCAL_LOCK);
	unsigned cpus = percpu_status()->possible_cpus;
	void *item = NULL;

	(void)state;
	assert_int_equal(percpu_local_pop_cpu(l, cpus - 1, &item), -ENOENT);
	assert_int_equal(percpu_local_pop_cpu(l, cpus, &item), -EINVAL);
	assert_int_equal(percpu_local_pop_cpu(l, UINT32_MAX, &item), -EINVAL);
	assert_int_equal(percpu_local_pop_cpu(l, 0, NULL), -EINVAL);
	assert_null(item);
	percpu_local_destroy(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_add_up),
		cmocka_unit_test(split_does_nothing_but_add),
		cmocka_unit_test(references_do_words_only),
		cmocka_unit_test(words_of_the_own_cpu),
		cmocka_unit_test(references_keep_sequences_out),
		cmocka_unit_test(arrays_are_stacks),
		cmocka_unit_test(queues_take_all_words_or_none),
		cmocka_unit_test(queues_give_the_oldest),
		cmocka_unit_test(every_cpu_has_its_own_cell),
		cmocka_unit_test(arrays_of_all_cpus_are_popped),
		cmocka_unit_test(adds_are_seen_by_pointer),
		cmocka_unit_test(bad_arguments_are_refused),
		cmocka_unit_test(thread_may_lose_its_registration),
		cmocka_unit_test(words_add_up),
		cmocka_unit_test(words_of_the_own_cpu),
		cmocka_unit_test(arrays_are_stacks),
		cmocka_unit_test(queues_take_all_words_or_none),
		cmocka_unit_test(queues_give_the_oldest),
		cmocka_unit_test(every_cpu_has_its_own_cell),
		cmocka_unit_test(child_of_fork_finds_no_guard),
		cmocka_unit_test(fences_are_tried_again),
		cmocka_unit_test(missing_fences_are_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
