/* SPDX-License-Identifier: MIT */
/*
 * vectors.h - functions for AVX2 and AVX-512 in a unit that is compiled without keep
 * what they have in vector registers across every inlined call.
 */
#ifndef TESTS_UNIT_VECTORS_H
#define TESTS_UNIT_VECTORS_H

#include <string.h>

#include <percpu/compact.h>
#include <percpu/local.h>
#include <percpu/percpu.h>
#include <percpu/wbuf.h>

#include "../model.h"
#include "../support.h"

#if defined(__x86_64__) && !defined(PERCPU_ARCH_GENERIC_H)

#define VECTOR_ROUNDS 100

typedef uint64_t wide4 __attribute__((vector_size(32)));
typedef uint64_t wide8 __attribute__((vector_size(64)));

static struct lane {
	uint64_t guard[8];
	uint64_t word[64];
} lane __attribute__((aligned(64)));

static struct percpu_rseq area;
static uint64_t step[8] __attribute__((aligned(64))) = { 1, 2, 3, 4, 5, 6, 7, 8 };
static uint64_t words[8];
static percpu_words2 pairs[4];
static const uint64_t bank;
static uint64_t at;
static const int64_t n[8];
static int64_t got;
static void *item;
static const uint32_t set = 1;

static struct percpu_counter *counter;
static struct percpu_counter_array *array;
static struct percpu_compact *compact;
static struct percpu_stats *stats, *records;
static struct percpu_local *local;
static struct percpu_wbuf *wbuf;

#define PLAIN lane.word, sizeof(lane)
#define GUARDED lane.word, lane.guard, sizeof(lane)
#define BANK PLAIN, &bank, 0

/* Twelve sums and what is added fill most of the 16 registers that a function
 * for AVX2 has. */
#define KEEP(name, isa, wide, operation)                                                           \
	static __attribute__((noinline, flatten, target(isa))) bool name(void)                     \
	{                                                                                          \
		const wide one = *(const wide *)(const void *)step;                                \
		const wide zero = one - one;                                                       \
		wide a = zero, b = zero, c = zero, d = zero, e = zero, f = zero;                   \
		wide g = zero, h = zero, i = zero, j = zero, k = zero, l = zero;                   \
		bool same = true;                                                                  \
                                                                                                   \
		for (unsigned round = 0; round < VECTOR_ROUNDS; round++) {                         \
			a += one, b += a, c ^= b, d += c, e ^= d, f += e;                          \
			operation;                                                                 \
			g ^= f, h += g, i ^= h, j += i, k ^= j, l += k;                            \
		}                                                                                  \
		for (unsigned w = 0; w < sizeof(wide) / 8; w++)                                    \
			same &= l[w] == expect(step[w]) && one[w] == step[w];                      \
		return same;                                                                       \
	}

#define KEEPS(name, operation)                                                                     \
	KEEP(name##_avx2, "avx2", wide4, operation)                                                \
	KEEP(name##_avx512, "avx512f", wide8, operation)

/* The last of the sums, for one word of the vector. */
static __attribute__((noinline)) uint64_t expect(uint64_t one)
{
	uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, i = 0, j = 0, k = 0, l = 0;

	for (unsigned round = 0; round < VECTOR_ROUNDS; round++) {
		a += one, b += a, c ^= b, d += c, e ^= d, f += e;
		g ^= f, h += g, i ^= h, j += i, k ^= j, l += k;
	}
	return l;
}

KEEPS(nothing, (void)0)
KEEPS(add, (void)percpu_seq_add(PLAIN, 1))
KEEPS(bank_add, (void)percpu_seq_bank_add(BANK, 1))
KEEPS(bank_add2, (void)percpu_seq_bank_add2(BANK, percpu_words2_of(1, 2)))
KEEPS(bank_add4, (void)percpu_seq_bank_add4(BANK, percpu_words2_of(1, 2), percpu_words2_of(3, 4)))
KEEPS(bank_add4_slow, lane.guard[0]++; area.cpu_id = -1;
      (void)percpu_seq_bank_add4(BANK, percpu_words2_of(1, 2), percpu_words2_of(3, 4));
      area.cpu_id = 0)
KEEP(bank_add8_avx512, "avx512f", wide8,
     (void)percpu_seq_bank_add8(BANK, percpu_words2_of(1, 2), percpu_words2_of(3, 4),
				percpu_words2_of(5, 6), percpu_words2_of(7, 8)))
KEEPS(copies_add, (void)percpu_seq_copies_add(BANK, 1, 8, 1))
KEEPS(bank_update, (void)percpu_seq_bank_update(BANK, words, 8))
KEEPS(group_update2, (void)percpu_seq_group_update2(BANK, percpu_group_names(0, 1), 64, 80,
						    percpu_words2_of(1, 2), percpu_words2_of(3, 4)))
KEEPS(group_update4, (void)percpu_seq_group_update4(BANK, percpu_group_names(0, 1), 96, 128,
						    percpu_words2_of(1, 2), percpu_words2_of(3, 4),
						    percpu_words2_of(5, 6), percpu_words2_of(7, 8)))
KEEPS(group_update4_slow, lane.guard[0]++; area.cpu_id = -1;
      (void)percpu_seq_group_update4(BANK, percpu_group_names(0, 1), 96, 128,
				     percpu_words2_of(1, 2), percpu_words2_of(3, 4),
				     percpu_words2_of(5, 6), percpu_words2_of(7, 8));
      area.cpu_id = 0)
KEEPS(group_update,
      (void)percpu_seq_group_update(BANK, percpu_group_names(0, 1), 96, 128, pairs, 32))
KEEPS(group_undo, lane.word[0]++; (void)percpu_seq_group_undo(BANK, 96, 2, 32))
KEEPS(add_limit, (void)percpu_seq_add_limit(GUARDED, 1, 50, &got))
KEEPS(cmpxchg, (void)percpu_seq_cmpxchg(GUARDED, 0, 0, &got))
KEEPS(xchg, (void)percpu_seq_xchg(GUARDED, 0, &got))
KEEPS(push, (void)percpu_seq_push(GUARDED, 8, item))
KEEPS(pop, (void)percpu_seq_pop(GUARDED, &item))
KEEPS(copy, (void)percpu_seq_copy(GUARDED, 31, words, 3))
KEEPS(append1, (void)percpu_seq_append1(PLAIN, 31, percpu_words2_of(1, 2)))
KEEPS(append2, (void)percpu_seq_append2(PLAIN, 31, percpu_words2_of(1, 2), percpu_words2_of(3, 4)))
KEEPS(append4, (void)percpu_seq_append4(PLAIN, 31, percpu_words2_of(1, 2), percpu_words2_of(3, 4),
					percpu_words2_of(5, 6), percpu_words2_of(7, 8)))
KEEPS(narrow_add, (void)percpu_seq_narrow_add(PLAIN, 1, 1 << 20))
KEEPS(add_at, at = (uintptr_t)lane.word; (void)percpu_seq_add_at(&at, sizeof(lane), 1))
KEEPS(narrow_add_if, (void)percpu_seq_narrow_add_if(PLAIN, 1, &bank, 0))
KEEPS(add_double, (void)percpu_seq_add_double(PLAIN, 1.5))
KEEPS(add_count_double, (void)percpu_seq_add_count_double(PLAIN, 1.5))
KEEPS(add_within, (void)percpu_seq_add_within(GUARDED, 1, 8, 17))
KEEPS(enter, lane.word[0] = lane.word[1] = 0; (void)percpu_seq_enter(PLAIN, 1, &item))
KEEPS(widen, (void)percpu_seq_widen(PLAIN, &bank, 7))
KEEPS(spin, (void)percpu_seq_spin(&set, 1))
KEEPS(object_counter, percpu_counter_add(counter, 1))
KEEPS(object_array2, percpu_counter_array_add_n(array, 0, n, 2))
KEEPS(object_array4, percpu_counter_array_add_n(array, 0, n, 4))
KEEPS(object_array8, percpu_counter_array_add_n(array, 0, n, 8))
KEEPS(object_array_call, percpu_counter_array_add_n_slow(array, 0, n, 4))
KEEPS(object_compact, percpu_compact_add(compact, 0, 1))
KEEPS(object_stats1, (void)percpu_stats_update(stats, 0, 0, words, 1))
KEEPS(object_stats2, (void)percpu_stats_update(stats, 0, 0, words, 2))
KEEPS(object_stats3, (void)percpu_stats_update(stats, 0, 0, words, 3))
KEEPS(object_stats8, (void)percpu_stats_update(stats, 0, 0, words, 8))
KEEPS(object_stats_call, (void)percpu_stats_update_slow(stats, 0, 0, words, 3))
KEEPS(object_whole, (void)percpu_stats_update(records, 0, 0, words, 3))
KEEPS(object_local, (void)!percpu_local_add_return(local, 1, &got))
KEEPS(object_wbuf, (void)percpu_wbuf_add(wbuf, words, 0))

#define BOTH(name)                                                                                 \
	{                                                                                          \
#name, name##_avx2, name##_avx512                                                  \
	}

static const struct {
	const char *name;
	bool (*avx2)(void);
	bool (*avx512)(void);
} functions[] = {
	BOTH(nothing),
	BOTH(add),
	BOTH(bank_add),
	BOTH(bank_add2),
	BOTH(bank_add4),
	BOTH(bank_add4_slow),
	{ "bank_add8", NULL, bank_add8_avx512 },
	BOTH(copies_add),
	BOTH(bank_update),
	BOTH(group_update2),
	BOTH(group_update4),
	BOTH(group_update4_slow),
	BOTH(group_update),
	BOTH(group_undo),
	BOTH(add_limit),
	BOTH(cmpxchg),
	BOTH(xchg),
	BOTH(push),
	BOTH(pop),
	BOTH(copy),
	BOTH(append1),
	BOTH(append2),
	BOTH(append4),
	BOTH(narrow_add),
	BOTH(add_at),
	BOTH(narrow_add_if),
	BOTH(add_double),
	BOTH(add_count_double),
	BOTH(add_within),
	BOTH(enter),
	BOTH(widen),
	BOTH(spin),
	BOTH(object_counter),
	BOTH(object_array2),
	BOTH(object_array4),
	BOTH(object_array8),
	BOTH(object_array_call),
	BOTH(object_compact),
	BOTH(object_stats1),
	BOTH(object_stats2),
	BOTH(object_stats3),
	BOTH(object_stats8),
	BOTH(object_stats_call),
	BOTH(object_whole),
	BOTH(object_local),
	BOTH(object_wbuf),
};

static unsigned wrong(const char *name, const char *isa, bool (*keeps)(void))
{
	memset(&lane, 0, sizeof(lane));
	if (keeps())
		return 0;
	print_error("%s: a function for %s lost a vector\n", name, isa);
	return 1;
}

/* The area is ours, so that sequences run on every machine; CPU 0 has a lane. */
static void vectors_live_across_every_call(void **state)
{
	struct percpu_rseq *own;
	unsigned lost = 0;

	(void)state;
	if (!__builtin_cpu_supports("avx2"))
		test_skip("no AVX2 here");
	assert_int_equal(percpu_counter_create(&counter), 0);
	assert_int_equal(percpu_counter_array_create(8, &array), 0);
	assert_int_equal(percpu_compact_create(1, &compact), 0);
	assert_int_equal(percpu_stats_create(64, 1, 0, &stats), 0);
	assert_int_equal(percpu_stats_create(24, 1, PERCPU_STATS_WHOLE, &records), 0);
	assert_int_equal(percpu_local_create(8, PERCPU_LOCAL_REFS, &local), 0);
	assert_int_equal(percpu_wbuf_create(NULL, &wbuf), 0);
	percpu_counter_array_add_n_slow(array, 0, n, 2); /* finds out the width, once */
	own = model_set_area(&area);
	for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		if (functions[i].avx2)
			lost += wrong(functions[i].name, "AVX2", functions[i].avx2);
		if (__builtin_cpu_supports("avx512f"))
			lost += wrong(functions[i].name, "AVX-512", functions[i].avx512);
	}
	model_set_area(own);
	assert_int_equal(lost, 0);
	percpu_wbuf_destroy(wbuf);
	percpu_local_destroy(local);
	percpu_stats_destroy(records);
	percpu_stats_destroy(stats);
	percpu_compact_destroy(compact);
	percpu_counter_array_destroy(array);
	percpu_counter_destroy(counter);
}

#else

static void vectors_live_across_every_call(void **state)
{
	(void)state;
	test_skip("the sequences of x86-64 are not in this build");
}

#endif

#endif
