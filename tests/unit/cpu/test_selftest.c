/* SPDX-License-Identifier: MIT */
/*
 * test_selftest.c - the self-test fails on a kernel that lets a preempted sequence go on: plain
 * code replaces its spinner's sequence, and is not aborted.
 */
#define _GNU_SOURCE
#include <sys/resource.h>

#include <percpu/percpu.h>
#include <percpu/seq.h>

#define ALL_SPINS 1000 /* of an attempt */

static uint32_t spins; /* atomic */

/* In the first attempt, no spin is preempted. The second attempt has one spin, which takes so
 * long that the attempt ends. */
__attribute__((unused)) static int spin_without_aborts(const uint32_t *flag, uint64_t tries)
{
	if (__atomic_add_fetch(&spins, 1, __ATOMIC_SEQ_CST) <= ALL_SPINS + 1)
		return PERCPU_SEQ_REFUSED;
	for (uint64_t i = 0; i < tries; i++)
		if (__atomic_load_n(flag, __ATOMIC_RELAXED))
			return i == 0 ? PERCPU_SEQ_REFUSED : 0;
	return PERCPU_SEQ_REFUSED;
}

__attribute__((unused)) static int use_much_time(int who, struct rusage *u)
{
	const int e = getrusage(who, u);

	if (__atomic_load_n(&spins, __ATOMIC_SEQ_CST) == ALL_SPINS + 1)
		u->ru_utime.tv_sec++;
	return e;
}

/* The linker takes this self-test, and not that of the library. */
#define percpu_seq_spin spin_without_aborts
#define getrusage(who, u) use_much_time(who, u)
#include "cpu/selftest.c" /* NOLINT(bugprone-suspicious-include): instead of it */

#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"

bool test_of_first_use = true;

static void kernel_is_condemned(void **state)
{
	struct percpu_counter *c = NULL;

	(void)state;
	assert_int_equal(percpu_counter_create(&c), 0);
	(void)test_tier();
	if (percpu_status()->selftest == PERCPU_SELFTEST_SKIPPED)
		test_skip("no sequences");
	assert_int_equal(percpu_status()->selftest, PERCPU_SELFTEST_FAILED);
	assert_int_equal(percpu_status()->tier, PERCPU_TIER_CPU);
	assert_true(__atomic_load_n(&spins, __ATOMIC_SEQ_CST) > ALL_SPINS + 1);
	percpu_counter_inc(c);
	assert_true(percpu_self->cpu_id < 0);
	assert_int_equal(percpu_thread_tier(), PERCPU_TIER_CPU);
	assert_int_equal(percpu_counter_fetch(c), 1);
	assert_int_equal(percpu_selftest(), PERCPU_SELFTEST_FAILED);
	percpu_counter_destroy(c);
}

/* Attaching is given up once, and not tried at each add. */

static unsigned attached;

struct percpu_rseq *__real_percpu_seq_attach(void);
struct percpu_rseq *__wrap_percpu_seq_attach(void);
struct percpu_rseq *__wrap_percpu_seq_attach(void)
{
	__atomic_fetch_add(&attached, 1, __ATOMIC_SEQ_CST);
	return __real_percpu_seq_attach();
}

static void add_three_times(unsigned i, void *arg)
{
	(void)i;
	for (int n = 0; n < 3; n++)
		percpu_counter_inc(arg);
}

static void threads_give_up_once(void **state)
{
	struct percpu_counter *c = NULL;

	(void)state;
	assert_int_equal(percpu_counter_create(&c), 0);
	(void)test_tier();
	if (percpu_status()->selftest == PERCPU_SELFTEST_SKIPPED)
		test_skip("no sequences");
	attached = 0;
	test_team_run(1, add_three_times, c);
	assert_in_range(attached, 0, 1);
	assert_int_equal(percpu_counter_fetch(c), 3);
	percpu_counter_destroy(c);
}

#ifdef PERCPU_SEQ_SIGNATURE

static struct percpu_counter *counter;

/* Add, and store whether the thread has no registered area then. */
static void *count_unregistered(void *arg)
{
	static struct percpu_rseq other;
	bool *none = arg;

	if (percpu_libc_offset != 0)
		test_unregister(percpu_libc_area());
	percpu_counter_inc(counter);
	*none = syscall(SYS_rseq, &other, sizeof(other), 0, PERCPU_SEQ_SIGNATURE) == 0 &&
		test_unregister(&other);
	return arg;
}

static void nobody_is_registered_in_vain(void **state)
{
	pthread_t thread;
	bool none = false;

	(void)state;
	if (percpu_status()->selftest == PERCPU_SELFTEST_SKIPPED)
		test_skip("no sequences");
	assert_int_equal(percpu_counter_create(&counter), 0);
	assert_int_equal(pthread_create(&thread, NULL, count_unregistered, &none), 0);
	pthread_join(thread, NULL);
	assert_true(none);
	percpu_counter_destroy(counter);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_is_condemned),
		cmocka_unit_test(threads_give_up_once),
#ifdef PERCPU_SEQ_SIGNATURE
		cmocka_unit_test(nobody_is_registered_in_vain),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
