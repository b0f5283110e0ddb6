/* SPDX-License-Identifier: MIT */
/*
 * test_ref.c - reference counts are killed, switched and revived while threads get and put. The
 * release function is called once for each kill, when no reference is left, and not before.
 */
#define _GNU_SOURCE
#include <sched.h>

#include <percpu/percpu.h>
#include <percpu/ref.h>

#include "../support.h"

#define USERS 3
#define SECOND UINT64_C(1000000000)
#define HELD 8 /* references that a thread has at most */

static struct percpu_ref *ref;
static uint64_t alive;	    /* the object of the count: 1 while it may be used */
static uint64_t released;   /* atomic */
static uint64_t wrong;	    /* atomic */
static unsigned stop;	    /* atomic */
static int64_t kept[USERS]; /* references that each thread has at its end */

static void note_release(struct percpu_ref *r, void *arg)
{
	(void)r, (void)arg;
	__atomic_store_n(&alive, 0, __ATOMIC_RELAXED);
	__atomic_fetch_add(&released, 1, __ATOMIC_RELEASE);
}

static void look(void)
{
	if (__atomic_load_n(&alive, __ATOMIC_RELAXED) != 1)
		__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}

/* Get and put references. Sometimes put all, so that a kill need not wait long. */
static void use(unsigned i, void *arg)
{
	uint64_t random = i + 1, n = 0;

	(void)arg;
	while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0) {
		if (n == 0) {
			n = percpu_ref_tryget_live(ref) ? 1 : 0;
		} else if (n < HELD && test_random(&random) % 2) {
			n += test_random(&random) % 2 ? percpu_ref_get(ref) == 0 :
							percpu_ref_tryget(ref);
		} else {
			look();
			(void)percpu_ref_put(ref);
			n--;
		}
		if (n != 0)
			look();
		if (test_random(&random) % 64 == 0 && n != 0) {
			(void)percpu_ref_put_many(ref, n);
			n = 0;
		}
		if (test_random(&random) % 4096 == 0)
			test_pin(0, test_cpu(test_random(&random) % test_cpus()));
	}
	kept[i] = (int64_t)n;
}

static uint64_t releases(void)
{
	return __atomic_load_n(&released, __ATOMIC_ACQUIRE);
}

static void exact_whoever_runs(void **state)
{
	struct test_team team;
	const unsigned enough = test_rounds(1000);
	const uint64_t end = test_now() + SECOND;
	unsigned i, kills = 0, late = 0;
	int64_t left = 1;

	(void)state;
	alive = 1;
	assert_int_equal(percpu_ref_create(note_release, NULL, 0, &ref), 0);
	test_team_start(&team, USERS, use, NULL);
	for (i = 0; late < enough && (i % 64 != 0 || test_now() < end); i++) {
		if (i % 16 == 0) /* let the other threads run */
			sched_yield();
		if (i % 3 == 0) {
			assert_int_equal(percpu_ref_switch_to_atomic(ref), 0);
			assert_int_equal(percpu_ref_switch_to_percpu(ref), 0);
		}
		assert_true(percpu_ref_tryget_live(ref));
		assert_int_equal(percpu_ref_kill(ref), 0);
		assert_false(percpu_ref_tryget_live(ref));
		assert_int_equal(releases(), kills);
		late += percpu_ref_fetch(ref) > 1;
		if (i % 2) {
			assert_int_equal(percpu_ref_resurrect(ref), 0);
			assert_int_equal(percpu_ref_put(ref), 0);
			continue;
		}
		kills++;
		assert_int_equal(percpu_ref_put(ref), 0);
		while (releases() != kills)
			test_sleep_us(20);
		assert_true(percpu_ref_is_zero(ref));
		__atomic_store_n(&alive, 1, __ATOMIC_RELAXED);
		assert_int_equal(percpu_ref_reinit(ref), 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	test_team_join(&team);
	for (unsigned u = 0; u < USERS; u++)
		left += kept[u];
	assert_int_equal(percpu_ref_fetch(ref), left);
	assert_int_equal(wrong, 0);
	assert_int_equal(releases(), kills);
	assert_int_equal(percpu_ref_put_many(ref, (uint64_t)left - 1), 0);
	assert_int_equal(percpu_ref_kill(ref), 0);
	assert_int_equal(releases(), kills + 1);
	assert_int_equal(percpu_ref_destroy(ref), 0);
	print_message("%u counts of %u were still used when they were killed\n", late, i);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(exact_whoever_runs) };

	test_tier();
	return cmocka_run_group_tests_name("ref", tests, NULL, NULL);
}
