/* SPDX-License-Identifier: MIT */
/*
 * operations_called.c - the inline functions that the library exports (percpu/calls.h). Each has
 * copies of its sequences in the library. Their objects are the child's own.
 */
#include "stepping.h"

#include <percpu/calls.h>
#include <percpu/variable.h>

#include "../support.h"
#include "rings/rings.h"

#define ITEMS 16

static struct percpu_counter *counter;
static struct percpu_static_counter early = PERCPU_STATIC_COUNTER_INIT;
static struct percpu_counter_array *array;
static struct percpu_compact *compact;
static struct percpu_stats *stats;
static struct percpu_local *split, *word, *list, *queue;
static struct percpu_wbuf *wbuf;
static struct percpu_ring *ring, *full;
static uint64_t buffered;

static PERCPU_VARIABLE(uint64_t, variable);

void stepping_make_called(void)
{
	assert_int_equal(percpu_counter_create(&counter), 0);
	assert_int_equal(percpu_static_counter_setup(&early), 0);
	assert_int_equal(percpu_counter_array_create(8, &array), 0);
	assert_int_equal(percpu_compact_create(1, &compact), 0);
	assert_int_equal(percpu_stats_create(16, 1, 0, &stats), 0);
	assert_int_equal(percpu_local_create(8, PERCPU_LOCAL_SPLIT, &split), 0);
	assert_int_equal(percpu_local_create(8, PERCPU_LOCAL_REFS, &word), 0);
	assert_int_equal(percpu_local_create(8 + 8 * ITEMS, PERCPU_LOCAL_LOCK, &list), 0);
	assert_int_equal(percpu_local_create(16 + 8 * ITEMS, PERCPU_LOCAL_LOCK, &queue), 0);
	assert_int_equal(percpu_wbuf_create(NULL, &wbuf), 0);
	assert_int_equal(percpu_ring_create(PERCPU_RING_MIN, 0, &ring), 0);
	assert_int_equal(percpu_ring_create(PERCPU_RING_MIN, PERCPU_RING_KEEP, &full), 0);
	for (unsigned i = 0; i < test_cpus(); i++) {
		test_pin(0, test_cpu(i));
		while (percpu_ring_put_call(full, &full, sizeof(full)) == 0)
			;
	}
	test_unpin(0);
}

/* The object to which an operation adds 1; another update may come between. */
enum sum { COUNTER, EARLY, FIRST, LAST, COMPACT, STATS, SPLIT, WORD, VARIABLE };

static uint64_t fetch(enum sum sum)
{
	uint64_t field[2] = { 0 };

	switch (sum) {
	case COUNTER:
		return percpu_counter_fetch(counter);
	case EARLY:
		return percpu_static_counter_fetch(&early);
	case FIRST:
	case LAST:
		return percpu_counter_array_fetch(array, sum == FIRST ? 0 : 7);
	case COMPACT:
		return percpu_compact_fetch(compact, 0);
	case STATS:
		return percpu_stats_fetch(stats, 0, 1, field) == 0 ? field[0] : 0;
	case SPLIT:
		return (uint64_t)percpu_local_sum(split);
	case WORD:
		return (uint64_t)percpu_local_sum(word);
	default:
		return PERCPU_VARIABLE_SUM(variable);
	}
}

static struct model_result judge(bool right)
{
	return (struct model_result){ !right, MODEL_UNSET };
}

static struct model_result grown(enum sum sum, uint64_t before)
{
	return judge(fetch(sum) - before == 1 || fetch(sum) - before == 2);
}

static struct model_result run_add(const struct model_case *c)
{
	uint64_t before = fetch(COUNTER);

	(void)c;
	percpu_counter_add_call(counter, 1);
	return grown(COUNTER, before);
}

static struct model_result run_inc(const struct model_case *c)
{
	uint64_t before = fetch(COUNTER);

	(void)c;
	percpu_counter_inc_call(counter);
	return grown(COUNTER, before);
}

static struct model_result run_dec(const struct model_case *c)
{
	uint64_t before = fetch(COUNTER);

	(void)c;
	percpu_counter_dec_call(counter);
	return judge(before - fetch(COUNTER) == 1 || before - fetch(COUNTER) == 2);
}

static struct model_result run_array(const struct model_case *c)
{
	uint64_t before = fetch(FIRST);

	(void)c;
	percpu_counter_array_add_call(array, 0, 1);
	return grown(FIRST, before);
}

static const int64_t ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };

static struct model_result run_array1(const struct model_case *c)
{
	uint64_t before = fetch(LAST);

	(void)c;
	percpu_counter_array_add_n_call(array, 7, ones, 1);
	return grown(LAST, before);
}

static struct model_result run_array2(const struct model_case *c)
{
	uint64_t before = fetch(LAST);

	(void)c;
	percpu_counter_array_add_n_call(array, 6, ones, 2);
	return grown(LAST, before);
}

static struct model_result run_array4(const struct model_case *c)
{
	uint64_t before = fetch(LAST);

	(void)c;
	percpu_counter_array_add_n_call(array, 4, ones, 4);
	return grown(LAST, before);
}

static struct model_result run_array8(const struct model_case *c)
{
	uint64_t before = fetch(LAST);

	(void)c;
	percpu_counter_array_add_n_call(array, 0, ones, 8);
	return grown(LAST, before);
}

static struct model_result run_early(const struct model_case *c)
{
	uint64_t before = fetch(EARLY);

	(void)c;
	percpu_static_counter_add_call(&early, 1);
	return grown(EARLY, before);
}

static struct model_result run_compact(const struct model_case *c)
{
	uint64_t before = fetch(COMPACT);

	(void)c;
	percpu_compact_add_call(compact, 0, 1);
	return grown(COMPACT, before);
}

static struct model_result run_stats(const struct model_case *c)
{
	uint64_t before = fetch(STATS);

	(void)c;
	percpu_stats_add_call(stats, 0, 0, 1);
	return grown(STATS, before);
}

static struct model_result run_split(const struct model_case *c)
{
	uint64_t before = fetch(SPLIT);

	(void)c;
	return percpu_local_add_call(split, 1) == 0 ? grown(SPLIT, before) : judge(false);
}

static struct model_result run_word(const struct model_case *c)
{
	uint64_t before = fetch(WORD);

	(void)c;
	return percpu_local_add_call(word, 1) == 0 ? grown(WORD, before) : judge(false);
}

static struct model_result run_return(const struct model_case *c)
{
	uint64_t before = fetch(WORD);
	int64_t v;

	(void)c;
	return percpu_local_add_return_call(word, 1, &v) == 0 ? grown(WORD, before) : judge(false);
}

static struct model_result run_limit(const struct model_case *c)
{
	uint64_t before = fetch(WORD);
	int64_t v;

	(void)c;
	return percpu_local_add_limit_call(word, 1, INT64_MAX, &v) == 0 ? grown(WORD, before) :
									  judge(false);
}

static struct model_result run_store(const struct model_case *c)
{
	(void)c;
	return judge(percpu_local_store_call(word, 7) == 0);
}

static struct model_result run_xchg(const struct model_case *c)
{
	int64_t old;

	(void)c;
	return judge(percpu_local_xchg_call(word, 7, &old) == 0);
}

static struct model_result run_cmpxchg(const struct model_case *c)
{
	int64_t old, seen;

	(void)c;
	if (percpu_local_cmpxchg_call(word, INT64_MIN, 0, &seen) != -EAGAIN)
		return judge(false);
	return judge(percpu_local_cmpxchg_call(word, seen, seen + 1, &old) == 0 || old != seen);
}

static struct model_result run_push(const struct model_case *c)
{
	int e;

	(void)c;
	e = percpu_local_push_call(list, ITEMS, &counter);
	return judge(e == 0 || e == -ENOSPC);
}

static struct model_result run_pop(const struct model_case *c)
{
	void *item = &counter;
	int e = percpu_local_push_call(list, ITEMS, &counter);

	(void)c;
	if (e != 0 && e != -ENOSPC)
		return judge(false);
	e = percpu_local_pop_call(list, &item);
	return judge((e == 0 || e == -ENOENT) && item == &counter);
}

static struct model_result run_copy(const struct model_case *c)
{
	const uint64_t words[2] = { 1, 2 };
	int e;

	(void)c;
	e = percpu_local_copy_call(queue, ITEMS - 1, words, 2);
	return judge(e == 0 || e == -ENOSPC);
}

static struct model_result run_take(const struct model_case *c)
{
	uint64_t word = 1;
	int e = percpu_local_copy_call(queue, ITEMS - 1, &word, 1);

	(void)c;
	if (e != 0 && e != -ENOSPC)
		return judge(false);
	e = percpu_local_take_call(queue, ITEMS - 1, &word);
	return judge((e == 0 || e == -ENOENT) && (word == 1 || word == 2));
}

static struct model_result run_wbuf(const struct model_case *c)
{
	uint64_t before;
	int e;

	(void)c;
	percpu_wbuf_flush(wbuf);
	before = buffered;
	e = percpu_wbuf_add_call(wbuf, &buffered, 1);
	percpu_wbuf_flush(wbuf);
	return judge(e == 0 && (buffered - before == 1 || buffered - before == 2));
}

static struct model_result run_wbuf_n(const struct model_case *c)
{
	const struct percpu_wbuf_entry add = percpu_wbuf_entry_u64(&buffered, 1);
	uint64_t before;
	int e;

	(void)c;
	percpu_wbuf_flush(wbuf);
	before = buffered;
	e = percpu_wbuf_add_n_call(wbuf, &add, 1);
	percpu_wbuf_flush(wbuf);
	return judge(e == 0 && (buffered - before == 1 || buffered - before == 2));
}

static struct model_result run_variable(const struct model_case *c)
{
	uint64_t before = fetch(VARIABLE);

	(void)c;
	percpu_variable_add_call(&percpu_image, &percpu_variable_variable, 1);
	return grown(VARIABLE, before);
}

/* Return how many records were ever committed in all lanes: the sum of their last numbers. */
static uint64_t count_records(void)
{
	const struct percpu_ring_lane *lane;
	uint64_t n = 0;

	for (uint32_t i = 0; i < 2 * ring->block.chunk->cpus; i++) {
		lane = percpu_ring_at(ring, i);
		n += lane->slot[(lane->head - 1) & ring->mask] / 65536;
	}
	return n;
}

static struct model_result run_put(const struct model_case *c)
{
	uint64_t before = count_records();
	int e = percpu_ring_put_call(ring, c, 41);

	return judge(e == 0 && count_records() - before >= 1 && count_records() - before <= 2);
}

static struct model_result run_refused(const struct model_case *c)
{
	uint64_t before = percpu_ring_dropped(full);
	int e = percpu_ring_put_call(full, c, 8);

	return judge(e == -ENOBUFS && percpu_ring_dropped(full) - before >= 1 &&
		     percpu_ring_dropped(full) - before <= 2);
}

const struct stepping_operation stepping_called[] = {
	{ "counter add, called", MEMORY_PRIVATE, MODEL_ADD, run_add },
	{ "counter inc, called", MEMORY_PRIVATE, MODEL_ADD, run_inc },
	{ "counter dec, called", MEMORY_PRIVATE, MODEL_ADD, run_dec },
	{ "array add, called", MEMORY_PRIVATE, MODEL_ADD, run_array },
	{ "array add_n of 1, called", MEMORY_PRIVATE, MODEL_ADD, run_array1 },
	{ "array add2, called", MEMORY_PRIVATE, MODEL_ADD, run_array2 },
	{ "array add4, called", MEMORY_PRIVATE, MODEL_ADD, run_array4 },
	{ "array add8, called", MEMORY_PRIVATE, MODEL_ADD, run_array8 },
	{ "static counter add, called", MEMORY_PRIVATE, MODEL_ADD, run_early },
	{ "compact add, called", MEMORY_PRIVATE, MODEL_ADD, run_compact },
	{ "stats add, called", MEMORY_PRIVATE, MODEL_ADD, run_stats },
	{ "local add, split, called", MEMORY_PRIVATE, MODEL_ADD, run_split },
	{ "local add, called", MEMORY_PRIVATE, MODEL_ADD, run_word },
	{ "local add_return, called", MEMORY_PRIVATE, MODEL_ADD, run_return },
	{ "local add_limit, called", MEMORY_PRIVATE, MODEL_ADD, run_limit },
	{ "local store, called", MEMORY_PRIVATE, MODEL_ADD, run_store },
	{ "local xchg, called", MEMORY_PRIVATE, MODEL_ADD, run_xchg },
	{ "local cmpxchg, called", MEMORY_PRIVATE, MODEL_ADD, run_cmpxchg },
	{ "local push, called", MEMORY_PRIVATE, MODEL_ADD, run_push },
	{ "local pop, called", MEMORY_PRIVATE, MODEL_ADD, run_pop },
	{ "local copy, called", MEMORY_PRIVATE, MODEL_ADD, run_copy },
	{ "local take, called", MEMORY_PRIVATE, MODEL_ADD, run_take },
	{ "ring put, called", MEMORY_PRIVATE, MODEL_ADD, run_put },
	{ "ring put, refused", MEMORY_PRIVATE, MODEL_ADD, run_refused },
	{ "write buffer add, called", MEMORY_PRIVATE, MODEL_ADD, run_wbuf },
	{ "write buffer add_n, called", MEMORY_PRIVATE, MODEL_ADD, run_wbuf_n },
	{ "variable add, called", MEMORY_PRIVATE, MODEL_ADD, run_variable },
	{ NULL, MEMORY_PRIVATE, MODEL_ADD, NULL },
};
