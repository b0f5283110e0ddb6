/* SPDX-License-Identifier: MIT */
/*
 * test_ref_fork.c - test reference counts in children of fork: the copy is correct, also if another
 * thread was getting and putting, or switching the mode.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/ref.h>

#include "support.h"
#include "../happen.h"

#include "owners/ref.h"

#define REQUIRE(x) test_child_require((x), #x)

static struct percpu_ref *ref;
static unsigned released;

static void note_release(struct percpu_ref *r, void *arg)
{
	(void)r, (void)arg;
	released++;
}

static void make_ref(void)
{
	released = 0;
	assert_int_equal(percpu_ref_create(note_release, NULL, 0, &ref), 0);
}

/* Use and destroy the child's copy. The parent's count does not change. */
static int end_the_copy(void *arg)
{
	const unsigned *references = arg;

	REQUIRE(percpu_ref_fetch(ref) == 1 + (int64_t)*references);
	REQUIRE(percpu_ref_get(ref) == 0);
	REQUIRE(percpu_ref_tryget_live(ref));
	REQUIRE(percpu_ref_kill(ref) == 0);
	REQUIRE(percpu_ref_put_many(ref, *references + 1) == 0);
	REQUIRE(released == 0);
	REQUIRE(percpu_ref_put(ref) == 0);
	REQUIRE(released == 1);
	REQUIRE(percpu_ref_reinit(ref) == 0);
	REQUIRE(percpu_ref_kill(ref) == 0);
	REQUIRE(released == 2);
	REQUIRE(percpu_ref_destroy(ref) == 0);
	return 0;
}

static void children_have_a_copy(void **state)
{
	unsigned references = 3;

	(void)state;
	make_ref();
	assert_int_equal(percpu_ref_get_many(ref, references), 0);
	test_in_child(end_the_copy, &references);
	assert_int_equal(percpu_ref_switch_to_atomic(ref), 0);
	test_in_child(end_the_copy, &references);
	assert_int_equal(percpu_ref_fetch(ref), 4);
	assert_int_equal(percpu_ref_put_many(ref, references), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(released, 1);
	assert_int_equal(percpu_ref_destroy(ref), 0);
}

/* Each thread has one reference at most, and moves between CPUs. If a child's copy had a put
 * without its get, the count would be too low. */

#define THREADS 2

static unsigned stop;

static void get_and_put(unsigned i, void *arg)
{
	(void)arg;
	for (unsigned n = 0; __atomic_load_n(&stop, __ATOMIC_RELAXED) == 0; n++) {
		if (n % 512 == 0)
			test_pin(0, test_cpu((i + n / 512) % test_cpus()));
		(void)percpu_ref_get(ref);
		(void)percpu_ref_put(ref);
	}
}

static int look_at_the_copy(void *arg)
{
	int64_t n = percpu_ref_fetch(ref);

	(void)arg;
	REQUIRE(n >= 1 && n <= 1 + THREADS);
	REQUIRE(percpu_ref_put_many(ref, (uint64_t)n - 1) == 0);
	REQUIRE(percpu_ref_kill(ref) == 0);
	REQUIRE(released == 1);
	return 0;
}

static void copies_are_of_one_moment(void **state)
{
	struct test_team team;

	(void)state;
	make_ref();
	stop = 0;
	test_team_start(&team, THREADS, get_and_put, NULL);
	for (unsigned i = 0; i < test_rounds(100); i++)
		test_in_child(look_at_the_copy, NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	test_team_join(&team);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(released, 1);
	assert_int_equal(percpu_ref_destroy(ref), 0);
}

/* A fork waits until this thread has switched the mode. */

static pthread_t forker;
static pid_t forked; /* atomic */
static unsigned references;
static bool revived;

static void *fork_now(void *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (revived)
			_exit(end_the_copy(&references));
		REQUIRE(percpu_ref_is_dying(ref));
		REQUIRE(percpu_ref_kill(ref) != 0);
		REQUIRE(percpu_ref_fetch(ref) <= 1 + (int64_t)references);
		REQUIRE(percpu_ref_put_many(ref, (uint64_t)percpu_ref_fetch(ref)) == 0);
		_exit(released != 1);
	}
	__atomic_store_n(&forked, pid, __ATOMIC_SEQ_CST);
	return arg;
}

static void fork_meanwhile(void)
{
	if (pthread_create(&forker, NULL, fork_now, NULL) != 0)
		abort();
	for (int i = 0; i < 100 && __atomic_load_n(&forked, __ATOMIC_SEQ_CST) == 0; i++)
		test_sleep_us(500);
}

static void expect_child(void)
{
	assert_int_equal(times, 0);
	pthread_join(forker, NULL);
	assert_true(forked > 0);
	assert_int_equal(test_wait(forked, 60), 0);
	forked = 0;
}

static void forks_wait_for_switches(void **state)
{
	static const char *const steps[] = { "ref: closed", "ref: cells summed", "ref: dead" };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		make_ref();
		references = 2;
		revived = false;
		assert_int_equal(percpu_ref_get_many(ref, references), 0);
		let_happen(fork_meanwhile, steps[i], 1);
		assert_int_equal(percpu_ref_kill(ref), 0);
		expect_child();
		revived = true;
		let_happen(fork_meanwhile, "ref: spread", 1);
		assert_int_equal(percpu_ref_resurrect(ref), 0);
		expect_child();
		assert_int_equal(percpu_ref_kill(ref), 0);
		assert_int_equal(percpu_ref_put_many(ref, references), 0);
		assert_int_equal(released, 1);
		assert_int_equal(percpu_ref_destroy(ref), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_have_a_copy),
		cmocka_unit_test(copies_are_of_one_moment),
		cmocka_unit_test(forks_wait_for_switches),
	};

	test_tier();
	return cmocka_run_group_tests_name("ref_fork", tests, NULL, NULL);
}
