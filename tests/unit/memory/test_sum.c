/* SPDX-License-Identifier: MIT */
/*
 * test_sum.c - sums of many counters at a time: for each number of lanes, and for numbers of
 * counters that are no multiple of a vector, up to and beyond what is summed at once. Each word
 * of each lane has a value of its own.
 */
#include <percpu/compact.h>
#include <percpu/counter.h>
#include <percpu/stats.h>
#include <percpu/status.h>

#include "memory/memory.h"
#include "support.h"

#define MORE_LANES 19 /* more than this machine has CPUs */
#define IN_USE 3      /* the last atomic lane in use, from 0; lane 1 is not */
#define MAX 1030

static const size_t sizes[] = { 1, 2, 3, 5, 127, 129, 511, 513, MAX };
static uint64_t expected[MAX], out[MAX];

static uint64_t value_of(size_t lane, size_t i)
{
	return (lane + 1) * (i + 7);
}

static bool is_in_use(const struct percpu_chunk *k, size_t lane)
{
	return lane != k->cpus + 1 && (lane <= k->cpus + IN_USE || lane == 2 * (size_t)k->cpus);
}

static void begin(const struct percpu_block *b)
{
	for (unsigned lane = 0; lane < b->chunk->cpus; lane++)
		if (is_in_use(b->chunk, b->chunk->cpus + lane))
			b->chunk->header->atomic_lanes[0] |= UINT64_C(1) << lane;
	for (size_t i = 0; i < MAX; i++)
		expected[i] = 0;
}

/* Fill n words from this offset of the object on, in lanes first to end - 1. */
static void fill(const struct percpu_block *b, size_t offset, size_t first, size_t end, size_t n)
{
	const size_t bias = 2 * (size_t)b->chunk->cpus;
	uint64_t *words;

	for (size_t lane = first; lane < end; lane++) {
		words = (uint64_t *)(b->base + lane * b->stride + offset);
		for (size_t i = 0; i < n && is_in_use(b->chunk, lane); i++) {
			words[i] = value_of(lane, i);
			expected[i] += lane == bias ? -words[i] : words[i];
		}
	}
}

static void fill_narrow(const struct percpu_block *b, size_t n)
{
	uint32_t *cells;

	for (size_t lane = 0; lane < b->chunk->cpus; lane++) {
		cells = (uint32_t *)(b->base + lane * b->stride);
		for (size_t i = 0; i < n; i++)
			expected[i] += cells[i] = (uint32_t)value_of(lane, i);
	}
}

static void check(size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(out[i], expected[i]);
}

static void check_array(struct percpu_region *r, size_t n)
{
	struct percpu_counter_array *a;

	assert_int_equal(percpu_counter_array_create_in(r, n, &a), 0);
	begin(&a->block);
	fill(&a->block, 0, 0, 2 * (size_t)a->block.chunk->cpus + 1, n);
	percpu_counter_array_fetch_all(a, out);
	check(n);
	percpu_counter_array_destroy(a);
}

static void check_compact(struct percpu_region *r, size_t n)
{
	struct percpu_compact *c;
	size_t cpus;

	assert_int_equal(percpu_compact_create_in(r, n, &c), 0);
	cpus = c->block.chunk->cpus;
	begin(&c->block);
	fill_narrow(&c->block, n);
	fill(&c->block, 0, cpus, 2 * cpus + 1, n);
	percpu_compact_fetch_all(c, out);
	check(n);
	percpu_compact_destroy(c);
}

/* Check sums of all fields of one object, or of one field of many. */
static void check_stats(struct percpu_region *r, size_t fields, size_t n)
{
	struct percpu_stats *s;
	size_t cpus;

	assert_int_equal(percpu_stats_create_in(r, fields * 8, n, 0, &s), 0);
	if (s->head != 0) { /* in two copies, which are read one by one */
		percpu_stats_destroy(s);
		return;
	}
	cpus = s->block.chunk->cpus;
	begin(&s->block);
	fill(&s->block, 0, 0, cpus, fields * n);
	fill(&s->block, s->banks, 0, 2 * cpus + 1, fields * n);
	assert_int_equal(percpu_stats_fetch(s, 0, n, out), 0);
	check(fields * n);
	percpu_stats_destroy(s);
}

static void all_words_of_all_lanes_are_summed(void **state)
{
	const uint32_t possible = percpu_status()->possible_cpus;
	struct percpu_region_options o = { .size = sizeof(o) };
	struct percpu_region *r;

	(void)state;
	for (o.cpus = possible; o.cpus < possible + MORE_LANES; o.cpus++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			assert_int_equal(percpu_region_create(&o, &r), 0);
			check_array(r, sizes[s]);
			check_compact(r, sizes[s]);
			check_stats(r, 1, sizes[s]);
			check_stats(r, sizes[s] < 100 ? sizes[s] : 2, 1);
			percpu_region_close(r);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_words_of_all_lanes_are_summed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
