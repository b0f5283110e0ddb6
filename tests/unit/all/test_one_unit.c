/* SPDX-License-Identifier: MIT */
/*
 * test_one_unit.c - the whole library in the same unit. Even if the compiler sees through all
 * calls, it must not move reads and publications across adds, which do not clobber memory
 * (arch/spec.h, "Ordering"). And functions that keep vectors inline the slow paths, too.
 */
#include "percpu_all.c"

#include <percpu/compact.h>
#include <percpu/percpu.h>

#include "support.h"
#ifdef __x86_64__
#include "../vectors.h"
#endif

#define ROUNDS 100000

struct pair {
	uint64_t a, b;
};

static void reads_follow_adds(void **state)
{
	static const int64_t two[2] = { 1, 1 };
	struct percpu_counter *c = NULL;
	struct percpu_counter_array *a = NULL;
	struct percpu_compact *compact = NULL;
	PERCPU_STATS(struct pair) s = NULL;
	struct pair out = { 0, 0 };
	uint64_t n = test_rounds(1000);

	(void)state;
	assert_int_equal(percpu_counter_create(&c), 0);
	assert_int_equal(percpu_counter_array_create(2, &a), 0);
	assert_int_equal(percpu_compact_create(1, &compact), 0);
	assert_int_equal(PERCPU_STATS_CREATE(&s, 1, 0), 0);
	for (uint64_t i = 1; i <= n; i++) {
		percpu_counter_add(c, 1);
		assert_int_equal(percpu_counter_fetch(c), i);
		percpu_counter_array_add_n(a, 0, two, 2);
		assert_int_equal(percpu_counter_array_fetch(a, 1), i);
		percpu_compact_add(compact, 0, 1);
		assert_int_equal(percpu_compact_fetch(compact, 0), i);
		PERCPU_STATS_ADD(s, 0, a, 1);
		PERCPU_STATS_UPDATE(s, 0, .a = 1, .b = 1);
		assert_int_equal(PERCPU_STATS_FETCH(s, 0, 1, &out), 0);
		assert_int_equal(out.a, 2 * i);
		assert_int_equal(out.b, i);
	}
	PERCPU_STATS_DESTROY(s);
	percpu_compact_destroy(compact);
	percpu_counter_array_destroy(a);
	percpu_counter_destroy(c);
}

/* One thread adds, then publishes how often; another one reads that, then the sum. */
struct channel {
	struct percpu_counter *c;
	uint64_t rounds, published, missing;
};

static void add_or_look(unsigned i, void *arg)
{
	struct channel *ch = arg;
	uint64_t seen = 0;

	for (uint64_t n = 1; i == 0 && n <= ch->rounds; n++) {
		percpu_counter_add(ch->c, 1);
		__atomic_store_n(&ch->published, n, __ATOMIC_RELEASE);
	}
	while (i == 1 && seen < ch->rounds) {
		seen = __atomic_load_n(&ch->published, __ATOMIC_ACQUIRE);
		ch->missing += percpu_counter_fetch(ch->c) < seen;
	}
}

static void published_adds_are_there(void **state)
{
	struct channel ch = { .rounds = test_rounds(ROUNDS) };

	(void)state;
	assert_int_equal(percpu_counter_create(&ch.c), 0);
	test_team_run(2, add_or_look, &ch);
	assert_int_equal(ch.missing, 0);
	percpu_counter_destroy(ch.c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_follow_adds),
		cmocka_unit_test(published_adds_are_there),
#ifdef __x86_64__
		cmocka_unit_test(vectors_live_across_every_call),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
