/* SPDX-License-Identifier: MIT */
/*
 * test_inline_order.c - the compiler moves no access out of the lock, section or reference that
 * protects it, though their sequences are no barriers. A cell that C reads or stores to shows
 * that: the compiler does not know that sequences change it. GCC, at -O2, would move each of
 * these without the fences; Clang 14 takes any asm statement for a barrier, so it shows nothing.
 */
#define _GNU_SOURCE
#include <percpu/grace.h>
#include <percpu/percpu.h>
#include <percpu/ref.h>
#include <percpu/rwlock.h>
#include <percpu/seq.h>

#include "support.h"

/* The cell's values: before, inside, and after 10 was stored to it inside. */
struct seen {
	uint32_t before, inside, after;
};

#define LOOK_AROUND(name, type, begin, end)                                                        \
	static __attribute__((noinline)) struct seen name(void *any, uint32_t *cell)               \
	{                                                                                          \
		type *object = any;                                                                \
		struct seen s;                                                                     \
                                                                                                   \
		s.before = *cell;                                                                  \
		begin;                                                                             \
		s.inside = *cell;                                                                  \
		*cell = 10;                                                                        \
		end;                                                                               \
		s.after = *cell;                                                                   \
		return s;                                                                          \
	}

LOOK_AROUND(look_lock, struct percpu_rwlock, (void)!percpu_rwlock_read_lock(object),
	    percpu_rwlock_read_unlock(object))
LOOK_AROUND(look_try, struct percpu_rwlock, (void)!percpu_rwlock_read_trylock(object),
	    percpu_rwlock_read_unlock(object))
LOOK_AROUND(look_timed, struct percpu_rwlock, (void)!percpu_rwlock_read_timedlock(object, 0),
	    percpu_rwlock_read_unlock(object))
LOOK_AROUND(look_section, struct percpu_grace, int token = percpu_grace_enter(object),
	    percpu_grace_exit(object, token))
LOOK_AROUND(look_reference, struct percpu_ref, (void)!percpu_ref_tryget(object),
	    percpu_ref_put(object))
LOOK_AROUND(look_live, struct percpu_ref, (void)!percpu_ref_tryget_live(object),
	    percpu_ref_put(object))
LOOK_AROUND(look_many, struct percpu_ref, (void)!percpu_ref_tryget_many(object, 1),
	    percpu_ref_put_many(object, 1))

static void expect_order(struct seen (*look)(void *object, uint32_t *cell), void *object,
			 char *cell)
{
	struct seen s;

	if (cell == NULL || percpu_seq_attach()->cpu_id < 0)
		skip();
	assert_true(test_pin(0, 0));
	s = look(object, (uint32_t *)cell); /* lane 0 */
	assert_int_equal(s.inside, s.before + 1);
	assert_int_equal(s.after, 9);
	*(uint32_t *)cell = s.before;
	test_unpin(0);
}

static void locks_keep_in(void **state)
{
	struct percpu_rwlock *l;

	(void)state;
	assert_int_equal(percpu_rwlock_create(0, &l), 0);
	expect_order(look_lock, l, l->in.cell);
	expect_order(look_try, l, l->in.cell);
	expect_order(look_timed, l, l->in.cell);
	assert_int_equal(percpu_rwlock_destroy(l), 0);
}

static void sections_keep_in(void **state)
{
	struct percpu_grace *g;
	char *cell;

	(void)state;
	assert_int_equal(percpu_grace_create(0, &g), 0);
	cell = g->in.cell + *g->in.state / 2 % 2 * 4;
	expect_order(look_section, g, cell);
	assert_int_equal(percpu_grace_destroy(g), 0);
}

static void release(struct percpu_ref *ref, void *arg)
{
	(void)ref, (void)arg;
}

static void references_keep_in(void **state)
{
	struct percpu_ref *ref;

	(void)state;
	assert_int_equal(percpu_ref_create(release, NULL, 0, &ref), 0);
	expect_order(look_reference, ref, (char *)(uintptr_t)ref->cells);
	expect_order(look_live, ref, (char *)(uintptr_t)ref->cells);
	expect_order(look_many, ref, (char *)(uintptr_t)ref->cells);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(percpu_ref_destroy(ref), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(locks_keep_in),
		cmocka_unit_test(sections_keep_in),
		cmocka_unit_test(references_keep_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
