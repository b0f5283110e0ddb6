/* SPDX-License-Identifier: MIT */
/*
 * test_ref.c - test reference counts: which call runs the release function, and when; what is
 * refused; limits; flags; signal handlers; what PERCPU_REF_DEBUG prints.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/ref.h>

#include "support.h"

#include "owners/ref.h"

static struct percpu_ref *ref;
static unsigned released;
static int told; /* its address is the arg of the release function */

static void note_release(struct percpu_ref *r, void *arg)
{
	released += r == ref && arg == &told;
}

static struct percpu_ref *make_ref(unsigned flags)
{
	released = 0;
	assert_int_equal(percpu_ref_create(note_release, &told, flags, &ref), 0);
	return ref;
}

static void drop_ref(void)
{
	assert_int_equal(percpu_ref_destroy(ref), 0);
}

/* Kill the count, which has n references besides the initial one, and act before it can end: the
 * reference that this thread holds meanwhile keeps the release function back. */
static void kill_and_act(int64_t n)
{
	assert_int_equal(percpu_ref_get(ref), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_false(percpu_ref_tryget_live(ref));
	assert_true(percpu_ref_is_dying(ref));
	assert_false(percpu_ref_is_zero(ref));
	assert_int_equal(percpu_ref_fetch(ref), n + 1);
	assert_int_equal(released, 0);
	assert_int_equal(percpu_ref_put(ref), 0);
	assert_int_equal(released, n == 0);
}

static void released_by_the_last_put(void **state)
{
	(void)state;
	make_ref(0);
	assert_int_equal(percpu_ref_fetch(ref), 1);
	assert_int_equal(percpu_ref_get(ref), 0);
	assert_int_equal(percpu_ref_get_many(ref, 10), 0);
	assert_true(percpu_ref_tryget(ref));
	assert_true(percpu_ref_tryget_many(ref, 5));
	assert_true(percpu_ref_tryget_live(ref));
	assert_int_equal(percpu_ref_fetch(ref), 19);
	assert_int_equal(percpu_ref_put_many(ref, 15), 0);
	assert_false(percpu_ref_is_dying(ref));
	assert_false(percpu_ref_is_zero(ref));
	kill_and_act(3);
	assert_int_equal(percpu_ref_fetch(ref), 3);
	assert_true(percpu_ref_is_dying(ref));
	assert_false(percpu_ref_tryget_live(ref));
	assert_true(percpu_ref_tryget(ref));
	assert_int_equal(percpu_ref_get(ref), 0);
	assert_int_equal(percpu_ref_put_many(ref, 4), 0);
	assert_int_equal(released, 0);
	assert_false(percpu_ref_is_zero(ref));
	assert_int_equal(percpu_ref_put(ref), 0);
	assert_int_equal(released, 1);
	assert_true(percpu_ref_is_zero(ref));
	assert_false(percpu_ref_tryget(ref));
	assert_false(percpu_ref_tryget_many(ref, 2));
	drop_ref();
}

static void released_after_the_kill(void **state)
{
	static const unsigned flags[] = { 0, PERCPU_REF_INIT_ATOMIC, PERCPU_REF_DEBUG };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		make_ref(flags[i]);
		assert_int_equal(percpu_ref_get(ref), 0);
		assert_int_equal(percpu_ref_put(ref), 0);
		kill_and_act(0);
		drop_ref();
		make_ref(flags[i]);
		assert_int_equal(percpu_ref_kill(ref), 0);
		assert_int_equal(released, 1);
		drop_ref();
	}
}

/* A release function that destroys the count, as in a program that frees the object with it. */
static void destroy_in_release(struct percpu_ref *r, void *arg)
{
	*(int *)arg = percpu_ref_destroy(r);
}

static void freed_by_its_release(void **state)
{
	int e = -1;

	(void)state;
	assert_int_equal(percpu_ref_create(destroy_in_release, &e, 0, &ref), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(e, 0);
	e = -1;
	assert_int_equal(percpu_ref_create(destroy_in_release, &e, 0, &ref), 0);
	assert_int_equal(percpu_ref_get(ref), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(e, -1);
	assert_int_equal(percpu_ref_put(ref), 0);
	assert_int_equal(e, 0);
}

/* While a count is per CPU, gets and puts do not change the word, if the thread has sequences. */
static void the_word_is_not_touched(void **state)
{
	uint64_t word = counted_of(make_ref(0))->count;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(percpu_ref_get(ref), 0);
		assert_true(percpu_ref_tryget_live(ref));
		if (test_tier() == PERCPU_TIER_RSEQ)
			assert_int_equal(counted_of(ref)->count, word);
		assert_int_equal(percpu_ref_put_many(ref, 2), 0);
	}
	assert_int_equal(percpu_ref_fetch(ref), 1);
	assert_int_equal(percpu_ref_kill(ref), 0);
	drop_ref();
}

static void bad_input_is_refused(void **state)
{
	struct percpu_ref *none = NULL;

	(void)state;
	assert_int_equal(percpu_ref_create(NULL, NULL, 0, &none), -EINVAL);
	assert_int_equal(percpu_ref_create(note_release, NULL, 8, &none), -EINVAL);
	assert_int_equal(percpu_ref_create(note_release, NULL, 1U << 31, &none), -EINVAL);
	assert_int_equal(percpu_ref_create(note_release, NULL, 0, NULL), -EINVAL);
	assert_null(none);
	assert_int_equal(percpu_ref_destroy(NULL), 0);
	assert_int_equal(percpu_ref_kill(NULL), -EINVAL);
	assert_int_equal(percpu_ref_switch_to_atomic(NULL), -EINVAL);
	assert_int_equal(percpu_ref_switch_to_percpu(NULL), -EINVAL);
	assert_int_equal(percpu_ref_reinit(NULL), -EINVAL);
	assert_int_equal(percpu_ref_resurrect(NULL), -EINVAL);
	assert_true(percpu_ref_is_zero(NULL));
	assert_false(percpu_ref_is_dying(NULL));
	assert_int_equal(percpu_ref_fetch(NULL), 0);
}

static void misuse_is_refused(void **state)
{
	(void)state;
	make_ref(0);
	assert_int_equal(percpu_ref_destroy(ref), -EBUSY);
	assert_int_equal(percpu_ref_reinit(ref), -EALREADY);
	assert_int_equal(percpu_ref_resurrect(ref), -EALREADY);
	assert_int_equal(percpu_ref_get(ref), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(percpu_ref_kill(ref), -EALREADY);
	assert_int_equal(percpu_ref_fetch(ref), 1);
	assert_int_equal(percpu_ref_destroy(ref), -EBUSY);
	assert_int_equal(percpu_ref_reinit(ref), -EBUSY);
	assert_int_equal(percpu_ref_put_many(ref, 2), -ERANGE);
	assert_int_equal(percpu_ref_put_many(ref, UINT64_MAX), -ERANGE);
	assert_int_equal(percpu_ref_fetch(ref), 1);
	assert_int_equal(released, 0);
	assert_int_equal(percpu_ref_put(ref), 0);
	assert_int_equal(percpu_ref_resurrect(ref), -ESTALE);
	assert_int_equal(percpu_ref_put(ref), -ERANGE);
	assert_int_equal(percpu_ref_get(ref), -ESTALE);
	assert_int_equal(percpu_ref_get_many(ref, 0), -ESTALE);
	assert_int_equal(percpu_ref_put_many(ref, 0), 0);
	assert_int_equal(percpu_ref_fetch(ref), 0);
	assert_int_equal(percpu_ref_kill(ref), -EALREADY);
	assert_int_equal(released, 1);
	drop_ref();
}

static void none_are_counted(void **state)
{
	static const unsigned flags[] = { 0, PERCPU_REF_INIT_ATOMIC };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		make_ref(flags[i]);
		assert_int_equal(percpu_ref_get_many(ref, 0), 0);
		assert_true(percpu_ref_tryget_many(ref, 0));
		assert_int_equal(percpu_ref_put_many(ref, 0), 0);
		assert_int_equal(percpu_ref_fetch(ref), 1);
		assert_int_equal(percpu_ref_kill(ref), 0);
		assert_int_equal(released, 1);
		assert_int_equal(percpu_ref_get_many(ref, 0), -ESTALE);
		assert_false(percpu_ref_tryget_many(ref, 0));
		assert_int_equal(percpu_ref_put_many(ref, 0), 0);
		assert_int_equal(released, 1);
		drop_ref();
	}
}

static void debugged_counts_stay_atomic(void **state)
{
	(void)state;
	make_ref(PERCPU_REF_DEBUG);
	assert_int_equal(percpu_ref_switch_to_percpu(ref), 0);
	assert_true(percpu_ref_is_closed(ref));
	assert_int_equal(percpu_ref_put(ref), 0);
	drop_ref();
}

/* Put the initial reference, and up to two more. Only the kill finds the error. */
static void too_many_puts_show_at_the_kill(void **state)
{
	(void)state;
	for (uint64_t more = 1; more < 4; more++) {
		make_ref(0);
		assert_int_equal(percpu_ref_put_many(ref, more), 0);
		assert_false(percpu_ref_is_zero(ref));
		assert_int_equal(percpu_ref_fetch(ref), 1 - (int64_t)more);
		assert_int_equal(percpu_ref_kill(ref), -ERANGE);
		assert_int_equal(released, 0);
		assert_true(percpu_ref_is_dying(ref));
		assert_true(percpu_ref_is_zero(ref));
		assert_int_equal(percpu_ref_put(ref), -ERANGE);
		assert_int_equal(percpu_ref_kill(ref), -EALREADY);
		drop_ref();
	}
}

static void atomic_counts_end_without_a_kill(void **state)
{
	(void)state;
	make_ref(PERCPU_REF_INIT_ATOMIC);
	assert_int_equal(percpu_ref_get(ref), 0);
	assert_int_equal(percpu_ref_put_many(ref, 2), 0);
	assert_int_equal(released, 1);
	assert_false(percpu_ref_is_dying(ref));
	assert_false(percpu_ref_tryget_live(ref));
	assert_int_equal(percpu_ref_switch_to_percpu(ref), -ESTALE);
	assert_true(percpu_ref_is_zero(ref));
	assert_int_equal(percpu_ref_kill(ref), -ERANGE);
	assert_true(percpu_ref_is_dying(ref));
	assert_int_equal(released, 1);
	assert_int_equal(percpu_ref_reinit(ref), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(released, 2);
	drop_ref();
}

static void limits_hold(void **state)
{
	(void)state;
	make_ref(PERCPU_REF_INIT_ATOMIC);
	assert_int_equal(percpu_ref_get_many(ref, PERCPU_REF_MAX), -EOVERFLOW);
	assert_int_equal(percpu_ref_get_many(ref, PERCPU_REF_MAX - 1), 0);
	assert_int_equal(percpu_ref_get(ref), -EOVERFLOW);
	assert_false(percpu_ref_tryget(ref));
	assert_true(percpu_ref_tryget_many(ref, 0));
	assert_int_equal(percpu_ref_fetch(ref), (int64_t)PERCPU_REF_MAX);
	assert_int_equal(percpu_ref_put_many(ref, PERCPU_REF_MAX), 0);
	assert_int_equal(released, 1);
	drop_ref();

	make_ref(0);
	assert_int_equal(percpu_ref_get_many(ref, PERCPU_REF_MAX + 1), -EOVERFLOW);
	assert_int_equal(percpu_ref_get_many(ref, UINT64_MAX), -EOVERFLOW);
	assert_false(percpu_ref_tryget_many(ref, UINT64_MAX));
	assert_int_equal(percpu_ref_put_many(ref, UINT64_MAX), -ERANGE);
	assert_int_equal(percpu_ref_fetch(ref), 1);
	assert_int_equal(percpu_ref_get_many(ref, PERCPU_REF_MAX - 1), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(percpu_ref_get(ref), 0);
	assert_int_equal(percpu_ref_resurrect(ref), -EOVERFLOW);
	assert_true(percpu_ref_is_dying(ref));
	assert_int_equal(percpu_ref_fetch(ref), (int64_t)PERCPU_REF_MAX);
	assert_int_equal(percpu_ref_put(ref), 0);
	assert_int_equal(percpu_ref_resurrect(ref), 0);
	assert_int_equal(percpu_ref_fetch(ref), (int64_t)PERCPU_REF_MAX);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(percpu_ref_put_many(ref, PERCPU_REF_MAX - 1), 0);
	assert_int_equal(released, 1);
	drop_ref();
}

/* All gets go to the cells, and all puts to the word, until the word has wrapped several times. */
static void nothing_drifts_to_zero(void **state)
{
	(void)state;
	make_ref(0);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(percpu_ref_get_many(ref, PERCPU_REF_MAX - 5), 0);
		for (unsigned n = 0; n < 2; n++)
			assert_int_equal(
				percpu_ref_put_counted(counted_of(ref), (PERCPU_REF_MAX - 5) / 2),
				0);
	}
	assert_int_equal(released, 0);
	assert_int_equal(percpu_ref_fetch(ref), 1);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(released, 1);
	drop_ref();
}

static void beginnings_are_as_asked(void **state)
{
	(void)state;
	make_ref(PERCPU_REF_INIT_DEAD);
	assert_true(percpu_ref_is_zero(ref));
	assert_true(percpu_ref_is_dying(ref));
	assert_false(percpu_ref_tryget_live(ref));
	assert_int_equal(percpu_ref_get(ref), -ESTALE);
	assert_int_equal(percpu_ref_kill(ref), -EALREADY);
	assert_int_equal(percpu_ref_reinit(ref), 0);
	assert_false(percpu_ref_is_closed(ref));
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(released, 1);
	drop_ref();
	make_ref(PERCPU_REF_INIT_DEAD | PERCPU_REF_INIT_ATOMIC);
	assert_int_equal(percpu_ref_reinit(ref), 0);
	assert_true(percpu_ref_is_closed(ref));
	assert_int_equal(percpu_ref_kill(ref), 0);
	drop_ref();
	make_ref(PERCPU_REF_DEBUG);
	assert_int_equal(percpu_ref_switch_to_percpu(ref), 0);
	assert_true(percpu_ref_is_closed(ref));
	assert_int_equal(percpu_ref_kill(ref), 0);
	drop_ref();
	make_ref(PERCPU_REF_INIT_DEAD);
	drop_ref();
}

/* The release function sees what threads stored before they put their references. */

#define WRITERS 3

static unsigned written[WRITERS], seen;

static void write_and_put(unsigned i, void *arg)
{
	(void)arg;
	written[i] = i + 1;
	(void)percpu_ref_put(ref);
}

static void sum_written(struct percpu_ref *r, void *arg)
{
	(void)r, (void)arg;
	for (unsigned i = 0; i < WRITERS; i++)
		seen += written[i];
}

static void puts_come_before_the_release(void **state)
{
	struct test_team team;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		memset(written, 0, sizeof(written));
		seen = 0;
		assert_int_equal(percpu_ref_create(sum_written, NULL, 0, &ref), 0);
		assert_int_equal(percpu_ref_get_many(ref, WRITERS), 0);
		test_team_start(&team, WRITERS, write_and_put, NULL);
		assert_int_equal(percpu_ref_kill(ref), 0);
		test_team_join(&team);
		assert_int_equal(seen, 1 + 2 + 3);
		drop_ref();
	}
}

/* Signal handlers */

static volatile sig_atomic_t signals, kept;

static void handle(int signo)
{
	(void)signo;
	signals++;
	(void)percpu_ref_get(ref);
	if (percpu_ref_tryget_live(ref))
		(void)percpu_ref_put(ref);
	if (signals % 3 == 0)
		kept++;
	else
		(void)percpu_ref_put(ref);
}

static void handlers_get_and_put(void **state)
{
	struct sigaction act = { .sa_handler = handle };
	struct test_timer timer;
	unsigned rounds = 0;

	(void)state;
	signals = kept = 0;
	make_ref(0);
	assert_int_equal(percpu_ref_get(ref), 0);
	sigaction(SIGALRM, &act, NULL);
	assert_true(test_timer_start(&timer, SIGALRM, 50));
	while (signals < 500) {
		assert_int_equal(percpu_ref_get(ref), 0);
		assert_int_equal(percpu_ref_put(ref), 0);
		if (++rounds % 1000 == 0) {
			assert_int_equal(percpu_ref_switch_to_atomic(ref), 0);
			assert_int_equal(percpu_ref_switch_to_percpu(ref), 0);
		}
	}
	assert_int_equal(percpu_ref_kill(ref), 0);
	test_timer_stop(&timer);
	assert_int_equal(percpu_ref_fetch(ref), 1 + kept);
	assert_int_equal(released, 0);
	assert_int_equal(percpu_ref_put_many(ref, 1 + (uint64_t)kept), 0);
	assert_int_equal(released, 1);
	drop_ref();
}

/* PERCPU_REF_DEBUG */

static void put_twice(void)
{
	(void)percpu_ref_put(ref);
	(void)percpu_ref_put(ref);
}

static void get_none(void)
{
	(void)!percpu_ref_kill(ref);
	(void)percpu_ref_get(ref);
}

static void kill_twice(void)
{
	(void)percpu_ref_get(ref);
	(void)!percpu_ref_kill(ref);
	if (percpu_ref_kill(ref) != -EALREADY)
		abort();
}

static void kill_none(void)
{
	(void)percpu_ref_put(ref);
	(void)!percpu_ref_kill(ref);
}

static void destroy_used(void)
{
	(void)!percpu_ref_destroy(ref);
}

static void reinit_live(void)
{
	(void)!percpu_ref_reinit(ref);
}

static void reinit_used(void)
{
	(void)percpu_ref_get(ref);
	(void)!percpu_ref_kill(ref);
	(void)!percpu_ref_reinit(ref);
}

static void resurrect_live(void)
{
	(void)!percpu_ref_resurrect(ref);
}

static void resurrect_none(void)
{
	(void)!percpu_ref_kill(ref);
	(void)!percpu_ref_resurrect(ref);
}

static void switch_none(void)
{
	(void)percpu_ref_put(ref);
	(void)!percpu_ref_switch_to_percpu(ref);
}

static const struct misuse {
	void (*fn)(void);
	const char *message;
	bool goes_on; /* not aborted: paths of a shutdown may race */
} misuses[] = {
	{ put_twice, "is put more often than it was got", false },
	{ get_none, "is got, but is 0", false },
	{ kill_twice, "is killed, but is dead", true },
	{ kill_none, "was put more often than it was got", false },
	{ destroy_used, "is destroyed, but there are references", false },
	{ reinit_live, "is revived, but is not dead", false },
	{ reinit_used, "is revived, but is not 0", false },
	{ resurrect_live, "is resurrected, but is not dead", false },
	{ resurrect_none, "is resurrected, but is 0", false },
	{ switch_none, "is made per CPU, but is 0", false },
};

static void debugged_counts_say_what_is_wrong(void **state)
{
	char said[256];
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	(void)state;
	for (size_t i = 0; i < sizeof(misuses) / sizeof(misuses[0]); i++) {
		make_ref(PERCPU_REF_DEBUG);
		assert_int_equal(pipe(ends), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			signal(SIGABRT, SIG_DFL);
			dup2(ends[1], STDERR_FILENO);
			misuses[i].fn();
			_exit(0);
		}
		close(ends[1]);
		status = test_wait(pid, 60);
		n = read(ends[0], said, sizeof(said) - 1);
		close(ends[0]);
		assert_true(n > 0);
		said[n] = '\0';
		if (misuses[i].goes_on)
			assert_int_equal(status, 0);
		else
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		assert_non_null(strstr(said, "libpercpu: reference count 0x"));
		assert_non_null(strstr(said, misuses[i].message));
		assert_int_equal(percpu_ref_kill(ref), 0);
		drop_ref();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(released_by_the_last_put),
		cmocka_unit_test(released_after_the_kill),
		cmocka_unit_test(freed_by_its_release),
		cmocka_unit_test(the_word_is_not_touched),
		cmocka_unit_test(bad_input_is_refused),
		cmocka_unit_test(misuse_is_refused),
		cmocka_unit_test(none_are_counted),
		cmocka_unit_test(debugged_counts_stay_atomic),
		cmocka_unit_test(too_many_puts_show_at_the_kill),
		cmocka_unit_test(atomic_counts_end_without_a_kill),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(nothing_drifts_to_zero),
		cmocka_unit_test(beginnings_are_as_asked),
		cmocka_unit_test(puts_come_before_the_release),
		cmocka_unit_test(handlers_get_and_put),
		cmocka_unit_test(debugged_counts_say_what_is_wrong),
	};

	test_tier();
	return cmocka_run_group_tests_name("ref", tests, NULL, NULL);
}
