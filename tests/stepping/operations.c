/* SPDX-License-Identifier: MIT */
/*
 * operations.c - the operations that are stepped through, on memory that the tracer and its child
 * share. A call of a public function runs through two sequences, the inline one and, when that was
 * aborted, the library's. Operations on the child's own memory are in operations_own.c and
 * operations_called.c.
 */
#define _GNU_SOURCE
#include "stepping.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/local.h>
#include <percpu/percpu.h>

#include "../support.h"
#include "memory/memory.h"

#define WORDS 8

static struct model_lane *lanes; /* shared */
static struct percpu_local locked, counted, split;
static struct percpu_counter *counter;
static struct percpu_counter_array *array;
static struct percpu_stats *stats;     /* with more fields than objects in copies have */
static struct percpu_stats *whole;     /* with two fields, in copies */
static struct percpu_compact *compact; /* in a shared region */

__attribute__((noinline)) void stepping_add_to_compact(const struct percpu_compact *c, int64_t n)
{
	percpu_compact_add(c, 0, n);
}

void stepping_make(unsigned cpu)
{
	static const int64_t none[2];
	struct percpu_region *region, *own;
	int fd = memfd_create("stepping", MFD_CLOEXEC);
	void *cell;

	lanes = test_share(percpu_status()->possible_cpus * sizeof(*lanes));
	assert_int_equal(test_region_new_fd(fd, NULL, &region), 0);
	close(fd);
	assert_int_equal(percpu_region_create(NULL, &own), 0);
	locked = (struct percpu_local){ .cell = (char *)lanes->word,
					.guard = (char *)&lanes->guard,
					.stride = sizeof(*lanes),
					.fallback = PERCPU_LOCAL_LOCK,
					.region = own };
	counted = locked;
	counted.fallback = PERCPU_LOCAL_REFS;
	assert_int_equal(percpu_region_alloc(region, 8, 8, &cell), 0);
	split = (struct percpu_local){ .cell = cell,
				       .stride = PERCPU_STRIDE,
				       .fallback = PERCPU_LOCAL_SPLIT,
				       .region = region };
	assert_int_equal(percpu_counter_create_in(region, &counter), 0);
	assert_int_equal(percpu_counter_array_create_in(region, WORDS, &array), 0);
	assert_int_equal(percpu_stats_create_in(region, 2 * WORDS * 8, 1, 0, &stats), 0);
	assert_int_equal(percpu_stats_create_in(region, 16, 1, PERCPU_STATS_WHOLE, &whole), 0);
	assert_int_equal(percpu_compact_create_in(region, WORDS, &compact), 0);
	stepping_make_called();
	stepping_make_critical();
	stepping_make_items();
	stepping_make_graces();
	stepping_make_group(region);
	stepping_make_refs();
	stepping_make_rwlock();
	stepping_make_values(region, cpu);
	percpu_counter_array_add_n_slow(array, 0, none, 2); /* finds out the width, once */
	stepping_make_own(cpu);
}

/* Run a bare sequence. Its caller tries again after an abort. */
static struct model_result run_sequence(const struct model_case *c)
{
	struct model_result r;

	do
		r = model_run(lanes, c);
	while (r.code == PERCPU_SEQ_SLOW);
	return r;
}

/* Add n. One copy of its sequences for all callers. */
static __attribute__((noinline)) int add_to(const struct percpu_local *l, int64_t n)
{
	return percpu_local_add(l, n);
}

static struct model_result run_local(const struct model_case *c)
{
	struct model_result r = { -1, MODEL_UNSET };
	const struct percpu_local *l = &locked;
	void *item = (void *)(uintptr_t)MODEL_UNSET;

	switch (c->op) {
	case MODEL_ADD:
		r.code = add_to(&counted, c->n[0]);
		break;
	case MODEL_ADD_RETURN:
		r.code = percpu_local_add_return(l, c->n[0], &r.value);
		break;
	case MODEL_ADD_LIMIT:
		r.code = percpu_local_add_limit(l, c->n[0], c->other, &r.value);
		break;
	case MODEL_STORE:
		r.code = percpu_local_store(l, c->n[0]);
		break;
	case MODEL_CMPXCHG:
		r.code = percpu_local_cmpxchg(l, c->other, c->n[0], &r.value);
		break;
	case MODEL_XCHG:
		r.code = percpu_local_xchg(l, c->n[0], &r.value);
		break;
	case MODEL_PUSH:
		r.code = percpu_local_push(l, c->limit, (void *)(uintptr_t)c->n[0]);
		break;
	case MODEL_POP:
		r.code = percpu_local_pop(l, &item);
		r.value = (int64_t)(uintptr_t)item;
		break;
	case MODEL_TAKE:
		r.code = percpu_local_take(l, c->mask, (uint64_t *)&r.value);
		break;
	case MODEL_COPY:
		r.code = percpu_local_copy(l, c->mask, (const uint64_t *)c->n, c->words);
		break;
	default:
		break;
	}
	r.code = r.code == -ERANGE || r.code == -EAGAIN || r.code == -ENOSPC || r.code == -ENOENT ?
			 PERCPU_SEQ_REFUSED :
			 r.code;
	return r;
}

static struct model_result run_split(const struct model_case *c)
{
	return (struct model_result){ add_to(&split, c->n[0]), MODEL_UNSET };
}

static struct model_result run_counter(const struct model_case *c)
{
	percpu_counter_add(counter, c->n[0]);
	return (struct model_result){ 0, MODEL_UNSET };
}

static struct model_result run_array(const struct model_case *c)
{
	if (c->op == MODEL_ADD)
		percpu_counter_array_add(array, 0, c->n[0]);
	else if (c->op == MODEL_ADD2)
		percpu_counter_array_add_n(array, 0, c->n, 2);
	else if (c->op == MODEL_ADD4)
		percpu_counter_array_add_n(array, 0, c->n, 4);
	else
		percpu_counter_array_add_n(array, 0, c->n, 8);
	return (struct model_result){ 0, MODEL_UNSET };
}

static struct model_result run_stats(const struct model_case *c)
{
	struct model_result r = { 0, MODEL_UNSET };
	const uint64_t *n = (const uint64_t *)c->n;

	if (c->op == MODEL_ADD)
		percpu_stats_add(stats, 0, 0, c->n[0]);
	else if (c->op == MODEL_ADD2)
		r.code = percpu_stats_update(stats, 0, 0, n, 2);
	else if (c->op == MODEL_ADD4)
		r.code = percpu_stats_update(stats, 0, 0, n, 4);
	else
		r.code = percpu_stats_update(stats, 0, 0, n, 8);
	return r;
}

/* Update by a call, as when the number of words is not constant. */
static struct model_result run_update(struct percpu_stats *s, const struct model_case *c)
{
	static const volatile size_t words[] = { [MODEL_ADD] = 1, [MODEL_ADD2] = 2 };
	const uint64_t *n = (const uint64_t *)c->n;

	return (struct model_result){ percpu_stats_update(s, 0, 0, n, words[c->op]), MODEL_UNSET };
}

static struct model_result run_called(const struct model_case *c)
{
	return run_update(stats, c);
}

static struct model_result run_whole(const struct model_case *c)
{
	if (c->op == MODEL_ADD2)
		return run_update(whole, c);
	percpu_stats_add_slow(whole, 0, 0, c->n[0]); /* objects in copies always take the slow
							path */
	return (struct model_result){ 0, MODEL_UNSET };
}

static struct model_result run_compact(const struct model_case *c)
{
	stepping_add_to_compact(compact, c->n[0]);
	return (struct model_result){ 0, MODEL_UNSET };
}

static const struct stepping_operation operations[] = {
	{ "sequence add", MEMORY_LANES, MODEL_ADD, run_sequence },
	{ "sequence bank_add", MEMORY_LANES, MODEL_BANK_ADD, run_sequence },
	{ "sequence bank_add2", MEMORY_LANES, MODEL_BANK_ADD2, run_sequence },
#if PERCPU_SEQ_WORDS >= 4
	{ "sequence bank_add4", MEMORY_LANES, MODEL_BANK_ADD4, run_sequence },
#endif
#if PERCPU_SEQ_WORDS >= 8
	{ "sequence bank_add8", MEMORY_LANES, MODEL_BANK_ADD8, run_sequence },
#endif
	{ "sequence copies_add", MEMORY_LANES, MODEL_PAIR_ADD, run_sequence },
	{ "sequence bank_update", MEMORY_LANES, MODEL_BANK_UPDATE, run_sequence },
	{ "sequence group_update2", MEMORY_LANES, MODEL_GROUP_UPDATE2, run_sequence },
#if PERCPU_SEQ_WORDS >= 4
	{ "sequence group_update4", MEMORY_LANES, MODEL_GROUP_UPDATE4, run_sequence },
#endif
	{ "sequence group_update", MEMORY_LANES, MODEL_GROUP_UPDATE, run_sequence },
	{ "sequence group_undo", MEMORY_LANES, MODEL_GROUP_UNDO, run_sequence },
	{ "sequence narrow_add", MEMORY_LANES, MODEL_NARROW_ADD, run_sequence },
	{ "sequence add_at", MEMORY_LANES, MODEL_ADD_AT, run_sequence },
	{ "sequence narrow_add_if", MEMORY_LANES, MODEL_NARROW_ADD_IF, run_sequence },
	{ "sequence add_limit", MEMORY_LANES, MODEL_ADD_LIMIT, run_sequence },
	{ "sequence cmpxchg", MEMORY_LANES, MODEL_CMPXCHG, run_sequence },
	{ "sequence xchg", MEMORY_LANES, MODEL_XCHG, run_sequence },
	{ "sequence push", MEMORY_LANES, MODEL_PUSH, run_sequence },
	{ "sequence pop", MEMORY_LANES, MODEL_POP, run_sequence },
	{ "sequence take", MEMORY_LANES, MODEL_TAKE, run_sequence },
	{ "sequence copy", MEMORY_LANES, MODEL_COPY, run_sequence },
	{ "sequence append of 1", MEMORY_LANES, MODEL_APPEND1, run_sequence },
	{ "sequence append of 2", MEMORY_LANES, MODEL_APPEND2, run_sequence },
	{ "sequence append of 4", MEMORY_LANES, MODEL_APPEND4, run_sequence },
	{ "sequence put", MEMORY_LANES, MODEL_PUT, run_sequence },
	{ "sequence add_double", MEMORY_LANES, MODEL_ADD_DOUBLE, run_sequence },
	{ "sequence add_count_double", MEMORY_LANES, MODEL_ADD_COUNT_DOUBLE, run_sequence },
	{ "sequence add_within", MEMORY_LANES, MODEL_ADD_WITHIN, run_sequence },
	{ "sequence enter", MEMORY_LANES, MODEL_ENTER, run_sequence },
	{ "sequence widen", MEMORY_LANES, MODEL_WIDEN, run_sequence },
	{ "sequence widen, a new epoch", MEMORY_LANES, MODEL_WIDEN_NEW, run_sequence },
	{ "local add", MEMORY_LANES, MODEL_ADD, run_local },
	{ "local add, split", MEMORY_SUMS, MODEL_ADD, run_split },
	{ "local add_return", MEMORY_LANES, MODEL_ADD_RETURN, run_local },
	{ "local add_limit", MEMORY_LANES, MODEL_ADD_LIMIT, run_local },
	{ "local store", MEMORY_LANES, MODEL_STORE, run_local },
	{ "local cmpxchg", MEMORY_LANES, MODEL_CMPXCHG, run_local },
	{ "local xchg", MEMORY_LANES, MODEL_XCHG, run_local },
	{ "local push", MEMORY_LANES, MODEL_PUSH, run_local },
	{ "local pop", MEMORY_LANES, MODEL_POP, run_local },
	{ "local take", MEMORY_LANES, MODEL_TAKE, run_local },
	{ "local copy", MEMORY_LANES, MODEL_COPY, run_local },
	{ "counter add", MEMORY_SUMS, MODEL_ADD, run_counter },
	{ "array add", MEMORY_SUMS, MODEL_ADD, run_array },
	{ "array add2", MEMORY_SUMS, MODEL_ADD2, run_array },
	{ "array add4", MEMORY_SUMS, MODEL_ADD4, run_array },
	{ "array add8", MEMORY_SUMS, MODEL_ADD8, run_array },
	{ "stats add", MEMORY_SUMS, MODEL_ADD, run_stats },
	{ "stats update of 2", MEMORY_SUMS, MODEL_ADD2, run_stats },
	{ "stats update of 4", MEMORY_SUMS, MODEL_ADD4, run_stats },
	{ "stats update of 8", MEMORY_SUMS, MODEL_ADD8, run_stats },
	{ "stats update of 1, called", MEMORY_SUMS, MODEL_ADD, run_called },
	{ "stats update of 2, called", MEMORY_SUMS, MODEL_ADD2, run_called },
	{ "stats update, whole", MEMORY_SUMS, MODEL_ADD2, run_whole },
	{ "stats add, whole", MEMORY_SUMS, MODEL_ADD, run_whole },
	{ "compact add", MEMORY_SUMS, MODEL_ADD, run_compact },
	{ NULL, MEMORY_SUMS, MODEL_ADD, NULL },
};

const struct stepping_operation *stepping_operation(unsigned nth)
{
	static const struct stepping_operation *const all[] = {
		operations,    stepping_own,	stepping_called, stepping_items,    stepping_graces,
		stepping_refs, stepping_rwlock, stepping_values, stepping_critical, stepping_group
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (const struct stepping_operation *o = all[i]; o->name != NULL; o++)
			if (nth-- == 0)
				return o;
	return NULL;
}

unsigned stepping_lanes(const struct stepping_operation *o)
{
	return o->memory == MEMORY_LANES ? percpu_status()->possible_cpus : 1;
}

unsigned stepping_lane(const struct stepping_operation *o, unsigned cpu)
{
	return o->memory == MEMORY_LANES ? cpu : 0;
}

void stepping_fill(const struct stepping_operation *o, uint64_t *random)
{
	for (unsigned i = 0; o->memory == MEMORY_LANES && i < stepping_lanes(o); i++)
		model_fill(&lanes[i], o->op, random);
	stepping_fill_values(o);
	stepping_fill_group(o);
}

static void read_stats(const struct percpu_stats *s, struct model_lane *out)
{
	if (percpu_stats_fetch(s, 0, 1, out->word) != 0)
		out->word[0] = INT64_MIN; /* in no model */
}

void stepping_read(const struct stepping_operation *o, struct model_lane *out)
{
	memset(out, 0, stepping_lanes(o) * sizeof(*out));
	if (o->memory == MEMORY_LANES)
		memcpy(out, lanes, stepping_lanes(o) * sizeof(*out));
	else if (stepping_read_values(o, out) || stepping_read_group(o, out))
		return;
	else if (o->run == run_split)
		out->word[0] = percpu_local_sum(&split);
	else if (o->run == run_counter)
		out->word[0] = (int64_t)percpu_counter_fetch(counter);
	else if (o->run == run_array)
		percpu_counter_array_fetch_all(array, (uint64_t *)out->word);
	else if (o->run == run_stats || o->run == run_called)
		read_stats(stats, out);
	else if (o->run == run_whole)
		read_stats(whole, out);
	else if (o->run == run_compact)
		percpu_compact_fetch_all(compact, (uint64_t *)out->word);
}
