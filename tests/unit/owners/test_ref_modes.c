/* SPDX-License-Identifier: MIT */
/*
 * test_ref_modes.c - test reference counts that are switched between per CPU and atomic, revived,
 * and changed by other threads meanwhile; and fences that fail.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include <percpu/percpu.h>
#include <percpu/ref.h>

#include "support.h"
#include "../happen.h"

#include "owners/ref.h"

static struct percpu_ref *ref;
static unsigned released, fences;
static int denied;	       /* what a fence returns */
static void (*in_fence)(void); /* called before the fence */
static bool closed_in_fence;
static bool dead_in_fence;

static void note_release(struct percpu_ref *r, void *arg)
{
	(void)r, (void)arg;
	released++;
}

int __real_percpu_fence(void);
int __wrap_percpu_fence(void);
int __wrap_percpu_fence(void)
{
	fences++;
	closed_in_fence = ref != NULL && percpu_ref_is_closed(ref);
	dead_in_fence = percpu_ref_is_dying(ref);
	if (in_fence != NULL)
		in_fence();
	return denied != 0 ? denied : __real_percpu_fence();
}

static int make(void **state)
{
	(void)state;
	released = fences = 0;
	denied = 0;
	in_fence = NULL;
	at_step = NULL;
	return percpu_ref_create(note_release, NULL, 0, &ref);
}

static void get(void)
{
	(void)percpu_ref_get(ref);
}

static void put(void)
{
	(void)percpu_ref_put(ref);
}

/* Kill the count, which has n references besides the initial one, put these, and destroy it. */
static void end_with(uint64_t n)
{
	in_fence = NULL;
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(percpu_ref_fetch(ref), (int64_t)n);
	assert_int_equal(released, n == 0);
	assert_int_equal(percpu_ref_put_many(ref, n), 0);
	assert_int_equal(released, 1);
	assert_int_equal(percpu_ref_destroy(ref), 0);
}

/* Commit like a sequence that looked at the mode before it changed. */
static void commit_late(void)
{
	percpu_counter_add(counted_of(ref)->cells, 1);
}

static void late_commits_are_counted(void **state)
{
	(void)state;
	in_fence = commit_late;
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(fences, 1);
	assert_true(closed_in_fence);
	assert_false(dead_in_fence);
	assert_int_equal(percpu_ref_fetch(ref), 1);
	assert_int_equal(released, 0);
	assert_int_equal(percpu_ref_put(ref), 0);
	assert_int_equal(released, 1);
	assert_int_equal(percpu_ref_destroy(ref), 0);
}

/* Puts before the fold do not call the release function, however many there are. */
static void nobody_sees_zero_before_the_fold(void **state)
{
	static const char *const steps[] = { "ref: closed", "ref: cells summed" };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(i == 0 ? 0 : make(NULL), 0);
		assert_int_equal(percpu_ref_get(ref), 0);
		assert_int_equal(percpu_ref_get(ref), 0);
		let_happen(put, steps[i], 1);
		assert_int_equal(percpu_ref_kill(ref), 0);
		assert_int_equal(times, 0);
		assert_int_equal(released, 0);
		assert_int_equal(percpu_ref_fetch(ref), 1);
		assert_int_equal(percpu_ref_put(ref), 0);
		assert_int_equal(released, 1);
		assert_int_equal(percpu_ref_destroy(ref), 0);
	}
	assert_int_equal(make(NULL), 0);
	let_happen(get, "ref: cells summed", 1);
	end_with(1);
}

static bool live[2];
static bool closed_then;

static void try_live(void)
{
	live[0] = percpu_ref_tryget_live(ref);
	live[1] = percpu_ref_is_dying(ref);
	closed_then = percpu_ref_is_closed(ref);
}

static void dead_only_when_folded(void **state)
{
	(void)state;
	let_happen(try_live, "ref: closed", 1);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_true(live[0]);
	assert_false(live[1]);
	assert_int_equal(percpu_ref_fetch(ref), 1);
	assert_int_equal(percpu_ref_put(ref), 0);
	assert_int_equal(percpu_ref_reinit(ref), 0);
	let_happen(try_live, "ref: dead", 1);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_false(live[0]);
	assert_true(live[1]);
	assert_int_equal(released, 2);
	assert_int_equal(percpu_ref_destroy(ref), 0);
}

/* Other threads that act between the load of the word and its change */

static void kill_it(void)
{
	(void)!percpu_ref_kill(ref);
}

static void overtaken_gets_look_again(void **state)
{
	(void)state;
	assert_int_equal(percpu_ref_switch_to_atomic(ref), 0);
	let_happen(get, "ref: count loaded", 1);
	assert_int_equal(percpu_ref_get(ref), 0);
	assert_int_equal(percpu_ref_fetch(ref), 3);
	let_happen(get, "ref: count loaded", 1);
	assert_int_equal(percpu_ref_put(ref), 0);
	assert_int_equal(percpu_ref_fetch(ref), 3);
	let_happen(kill_it, "ref: count loaded", 1);
	assert_false(percpu_ref_tryget_live(ref));
	assert_int_equal(percpu_ref_fetch(ref), 2);
	let_happen(put, "ref: count loaded", 1);
	assert_int_equal(percpu_ref_put_many(ref, 2), -ERANGE);
	assert_int_equal(percpu_ref_fetch(ref), 1);
	let_happen(put, "ref: count loaded", 1);
	assert_false(percpu_ref_tryget(ref));
	assert_int_equal(released, 1);
	assert_int_equal(percpu_ref_destroy(ref), 0);
}

/* The count changes while its cells are prepared, and may become 0. */
static void overtaken_switches_look_again(void **state)
{
	(void)state;
	assert_int_equal(percpu_ref_switch_to_atomic(ref), 0);
	let_happen(get, "ref: cells zeroed", 1);
	assert_int_equal(percpu_ref_switch_to_percpu(ref), 0);
	assert_int_equal(times, 0);
	assert_int_equal(percpu_ref_fetch(ref), 2);
	assert_int_equal(percpu_ref_kill(ref), 0);
	let_happen(get, "ref: cells zeroed", 1);
	assert_int_equal(percpu_ref_resurrect(ref), 0);
	assert_int_equal(percpu_ref_fetch(ref), 3);
	assert_int_equal(percpu_ref_put(ref), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	let_happen(put, "ref: cells zeroed", 1);
	assert_int_equal(percpu_ref_resurrect(ref), -ESTALE);
	assert_int_equal(released, 1);
	released = 0;
	assert_int_equal(percpu_ref_reinit(ref), 0);
	assert_int_equal(percpu_ref_switch_to_atomic(ref), 0);
	let_happen(put, "ref: cells zeroed", 1);
	assert_int_equal(percpu_ref_switch_to_percpu(ref), -ESTALE);
	assert_int_equal(released, 1);
	assert_int_equal(percpu_ref_destroy(ref), 0);
}

/* After an aborted sequence, the slow path repeats it, or counts in the word: once in all. */
static void aborted_tries_count_once(void **state)
{
	(void)state;
	assert_true(percpu_ref_tryget_slow(ref, 2));
	assert_true(percpu_ref_tryget_live_slow(ref));
	assert_int_equal(percpu_ref_fetch(ref), 4);
	assert_int_equal(percpu_ref_put_many(ref, 3), 0);
	end_with(0);
}

/* Modes */

static void switched_back_and_forth(void **state)
{
	(void)state;
	assert_int_equal(percpu_ref_get_many(ref, 2), 0);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(percpu_ref_switch_to_atomic(ref), 0);
		assert_true(percpu_ref_is_closed(ref));
		assert_int_equal(counted_of(ref)->count, 3 + 2 * i);
		assert_int_equal(percpu_ref_switch_to_atomic(ref), 0);
		assert_int_equal(fences, i + 1);
		assert_int_equal(percpu_ref_get(ref), 0);
		assert_int_equal(percpu_ref_switch_to_percpu(ref), 0);
		assert_int_equal(percpu_ref_switch_to_percpu(ref), 0);
		assert_false(percpu_ref_is_closed(ref));
		assert_int_equal(percpu_ref_get(ref), 0);
		assert_int_equal(percpu_ref_fetch(ref), 5 + 2 * i);
	}
	assert_int_equal(released, 0);
	assert_int_equal(percpu_ref_put_many(ref, 2), 0);
	end_with(10);
}

static void revived_as_often_as_wanted(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(percpu_ref_get(ref), 0);
		assert_int_equal(percpu_ref_kill(ref), 0);
		assert_int_equal(percpu_ref_resurrect(ref), 0);
		assert_false(percpu_ref_is_dying(ref));
		assert_false(percpu_ref_is_closed(ref));
		assert_int_equal(percpu_ref_fetch(ref), 2);
		assert_true(percpu_ref_tryget_live(ref));
		assert_int_equal(percpu_ref_put_many(ref, 2), 0);
		assert_int_equal(released, i);
		assert_int_equal(percpu_ref_kill(ref), 0);
		assert_int_equal(released, i + 1);
		assert_int_equal(percpu_ref_reinit(ref), 0);
		assert_false(percpu_ref_is_closed(ref));
		assert_int_equal(percpu_ref_fetch(ref), 1);
	}
	assert_int_equal(fences, 10);
	released = 0;
	end_with(0);
}

/* A count that was made atomic stays atomic when it is revived. One that was made per CPU while it
 * was dead becomes per CPU when it is revived. */
static void revived_in_the_mode_that_was_chosen(void **state)
{
	(void)state;
	assert_int_equal(percpu_ref_switch_to_atomic(ref), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(percpu_ref_reinit(ref), 0);
	assert_true(percpu_ref_is_closed(ref));
	assert_int_equal(percpu_ref_get(ref), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(fences, 1);
	assert_int_equal(percpu_ref_switch_to_percpu(ref), 0);
	assert_true(percpu_ref_is_closed(ref));
	assert_int_equal(percpu_ref_fetch(ref), 1);
	assert_int_equal(percpu_ref_resurrect(ref), 0);
	assert_false(percpu_ref_is_closed(ref));
	assert_int_equal(percpu_ref_fetch(ref), 2);
	assert_int_equal(released, 1);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(percpu_ref_switch_to_atomic(ref), 0);
	assert_int_equal(percpu_ref_put(ref), 0);
	assert_int_equal(percpu_ref_reinit(ref), 0);
	assert_true(percpu_ref_is_closed(ref));
	released = 0;
	end_with(0);
}

static void per_cpu_only_when_the_word_says_so(void **state)
{
	(void)state;
	assert_int_equal(percpu_ref_switch_to_atomic(ref), 0);
	let_happen(try_live, "ref: spread", 1);
	assert_int_equal(percpu_ref_switch_to_percpu(ref), 0);
	assert_true(closed_then);
	assert_true(live[0]);
	assert_int_equal(percpu_ref_put(ref), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	let_happen(put, "ref: spread", 1); /* puts the initial reference; no release yet */
	assert_int_equal(percpu_ref_reinit(ref), 0);
	assert_int_equal(released, 1);
	assert_int_equal(percpu_ref_fetch(ref), 0);
	assert_int_equal(percpu_ref_get(ref), 0);
	released = 0;
	end_with(0);
}

static void too_many_puts_show_at_a_switch(void **state)
{
	(void)state;
	assert_int_equal(percpu_ref_put_many(ref, 2), 0);
	assert_int_equal(percpu_ref_switch_to_atomic(ref), -ERANGE);
	assert_false(percpu_ref_is_dying(ref));
	assert_int_equal(percpu_ref_fetch(ref), 0);
	assert_int_equal(percpu_ref_kill(ref), -ERANGE);
	assert_int_equal(released, 0);
	assert_int_equal(percpu_ref_destroy(ref), 0);
}

/* Fences that fail */

static void a_fence_that_fails_changes_nothing(void **state)
{
	static const int errors[] = { -EPERM, -ETIMEDOUT, -EAGAIN, -ENOMEM };

	(void)state;
	assert_int_equal(percpu_ref_get(ref), 0);
	for (unsigned i = 0; i < 4; i++) {
		denied = errors[i];
		in_fence = i % 2 ? get : commit_late;
		assert_int_equal(percpu_ref_kill(ref), denied);
		assert_int_equal(percpu_ref_switch_to_atomic(ref), denied);
		assert_false(percpu_ref_is_dying(ref));
		assert_false(percpu_ref_is_closed(ref));
		assert_true(percpu_ref_tryget_live(ref));
		assert_int_equal(percpu_ref_fetch(ref), 5 + 3 * i);
		assert_int_equal(percpu_ref_destroy(ref), -EBUSY);
	}
	denied = 0;
	end_with(13);
}

/* After a switch to atomic that failed, a count is per CPU again when it is revived. */
static void a_failed_switch_is_forgotten(void **state)
{
	(void)state;
	denied = -EPERM;
	assert_int_equal(percpu_ref_switch_to_atomic(ref), -EPERM);
	denied = 0;
	assert_int_equal(percpu_ref_kill(ref), 0);
	denied = -EPERM;
	assert_int_equal(percpu_ref_reinit(ref), 0);
	assert_false(percpu_ref_is_closed(ref));
	denied = 0;
	released = 0;
	end_with(0);
}

static void atomic_counts_need_no_fence(void **state)
{
	(void)state;
	end_with(0);
	released = 0;
	denied = -EPERM;
	assert_int_equal(percpu_ref_create(note_release, NULL, PERCPU_REF_INIT_ATOMIC, &ref), 0);
	end_with(0);
}

/* Threads that get and put while the mode is switched */

static void both(void **state)
{
	(void)state;
	assert_int_equal(percpu_ref_get_many(ref, 7), 0);
	let_happen(get, "ref: closed", 1);
	in_fence = get;
	assert_int_equal(percpu_ref_switch_to_atomic(ref), 0);
	assert_int_equal(percpu_ref_fetch(ref), 10);
	let_happen(get, "ref: spread", 1);
	assert_int_equal(percpu_ref_switch_to_percpu(ref), 0);
	assert_int_equal(percpu_ref_fetch(ref), 11);
	end_with(10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(late_commits_are_counted, make),
		cmocka_unit_test_setup(nobody_sees_zero_before_the_fold, make),
		cmocka_unit_test_setup(dead_only_when_folded, make),
		cmocka_unit_test_setup(overtaken_gets_look_again, make),
		cmocka_unit_test_setup(overtaken_switches_look_again, make),
		cmocka_unit_test_setup(aborted_tries_count_once, make),
		cmocka_unit_test_setup(switched_back_and_forth, make),
		cmocka_unit_test_setup(revived_as_often_as_wanted, make),
		cmocka_unit_test_setup(revived_in_the_mode_that_was_chosen, make),
		cmocka_unit_test_setup(per_cpu_only_when_the_word_says_so, make),
		cmocka_unit_test_setup(too_many_puts_show_at_a_switch, make),
		cmocka_unit_test_setup(a_fence_that_fails_changes_nothing, make),
		cmocka_unit_test_setup(a_failed_switch_is_forgotten, make),
		cmocka_unit_test_setup(atomic_counts_need_no_fence, make),
		cmocka_unit_test_setup(both, make),
	};

	test_tier();
	return cmocka_run_group_tests_name("ref_modes", tests, NULL, NULL);
}
