/* SPDX-License-Identifier: MIT */
/*
 * test_status.c - percpu_status() agrees with the kernel; and the tier can be lowered, for the
 * process and by the thread.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <percpu/seq.h>
#include <percpu/status.h>

#include "support.h"

extern const unsigned int __rseq_size __attribute__((weak));

bool test_of_first_use = true;

/* Return the status after the verdict. */
static const struct percpu_status *settled(void)
{
	(void)test_tier();
	return percpu_status();
}

/* The first call decides, so these run in children, before the parent's call. */
static int status_with_tier_cpu(void *arg)
{
	(void)arg;
	setenv("PERCPU_TIER", "cpu", 1);
	test_child_require(test_tier() <= PERCPU_TIER_CPU, "PERCPU_TIER=cpu is obeyed");
	test_child_require(strlen(percpu_status()->reason) > 0, "there is a reason");
	percpu_seq_attach();
	test_child_require(percpu_thread_tier() <= PERCPU_TIER_CPU, "by threads too");
	test_child_require(percpu_self->cpu_id < 0, "no sequence can run");
	return 0;
}

static int status_with_tier_shared(void *arg)
{
	(void)arg;
	setenv("PERCPU_TIER", "shared", 1);
	test_child_require(test_tier() == PERCPU_TIER_SHARED, "PERCPU_TIER=shared is obeyed");
	test_child_require(percpu_thread_tier() == PERCPU_TIER_SHARED, "by threads too");
	return 0;
}

static int status_with_tier_rseq(void *arg)
{
	(void)arg;
	setenv("PERCPU_TIER", "rseq", 1);
	test_child_require(test_tier() <= PERCPU_TIER_RSEQ, "no more than there is");
	return 0;
}

/* A thread takes a slow path before any other use of the library, as in a signal handler. */

static void attach_and_end(unsigned i, void *arg)
{
	(void)i;
	*(bool *)arg = percpu_seq_attach()->cpu_id < 0;
}

static int attach_before_first_use(void *arg)
{
	bool none = false;

	(void)arg;
	test_child_require(percpu_seq_attach()->cpu_id < 0, "no sequences yet");
	test_team_run(1, attach_and_end, &none);
	test_child_require(none, "nor in another thread");
	test_child_require(percpu_thread_tier() == PERCPU_TIER_SHARED, "the lowest tier");
	if (test_tier() == PERCPU_TIER_RSEQ)
		test_child_require(percpu_seq_attach()->cpu_id >= 0, "it was not given up");
	return 0;
}

static void first_use_may_come_late(void **state)
{
	(void)state;
	test_in_child(attach_before_first_use, NULL);
}

static void environment_lowers_the_tier(void **state)
{
	(void)state;
	test_in_child(status_with_tier_cpu, NULL);
	test_in_child(status_with_tier_shared, NULL);
	test_in_child(status_with_tier_rseq, NULL);
}

static void status_is_constant(void **state)
{
	const struct percpu_status *s = settled();
	struct percpu_status before;

	(void)state;
	assert_non_null(s);
	before = *s;
	assert_ptr_equal(percpu_status(), s);
	assert_memory_equal(percpu_status(), &before, sizeof(before));
}

static void status_agrees_with_the_kernel(void **state)
{
	const struct percpu_status *s = settled();
	struct utsname u;
	long commands = syscall(SYS_membarrier, 0, 0, 0);

	(void)state;
	assert_int_equal(uname(&u), 0);
	assert_string_equal(s->kernel, u.release);
	assert_int_equal(s->membarrier_cmds, commands < 0 ? 0 : commands);
	assert_int_equal(s->feature_size, getauxval(27));
	assert_int_equal(s->align, getauxval(28));
	assert_true(s->possible_cpus >= (unsigned)sysconf(_SC_NPROCESSORS_CONF));
	assert_true(s->possible_cpus > test_cpu(test_cpus() - 1));
	assert_int_equal(s->lanes, 2 * s->possible_cpus + 1);
	assert_true(strlen(s->reason) > 0);
}

static void registrar_fits_the_tier(void **state)
{
	const struct percpu_status *s = settled();

	(void)state;
#ifndef PERCPU_ARCH_GENERIC_H
	if (&__rseq_size != NULL)
		assert_int_equal(s->rseq_size, __rseq_size);
#endif
	if (s->tier == PERCPU_TIER_RSEQ) {
		assert_int_not_equal(s->registrar, PERCPU_REGISTRAR_NONE);
		assert_int_equal(s->registrar == PERCPU_REGISTRAR_LIBC, s->rseq_size > 0);
		assert_int_not_equal(s->selftest, PERCPU_SELFTEST_FAILED);
		assert_int_not_equal(s->selftest, PERCPU_SELFTEST_SKIPPED);
	}
	if (s->rseq_size == 0)
		assert_int_not_equal(s->registrar, PERCPU_REGISTRAR_LIBC);
}

static void try_to_register(unsigned i, void *arg)
{
	static __thread struct percpu_rseq area __attribute__((aligned(32)));
	bool *possible = arg;

	(void)i;
#ifdef PERCPU_SEQ_SIGNATURE
	area.cpu_id = -1;
	*possible = syscall(SYS_rseq, &area, sizeof(area), 0, PERCPU_SEQ_SIGNATURE) == 0;
	if (*possible)
		test_unregister(&area);
#else
	(void)area;
	*possible = false;
#endif
}

/* Lower tiers are exact, too, so other tests would not notice one. */
static void the_best_tier_is_used(void **state)
{
	const struct percpu_status *s = settled();
	bool possible = false;

	(void)state;
#ifdef PERCPU_ARCH_GENERIC_H
	test_skip("the generic port has no sequences");
#endif
	test_team_run(1, try_to_register, &possible);
	if (!possible && s->rseq_size == 0)
		test_skip("the kernel does not know rseq");
	if (getenv("PERCPU_TIER"))
		test_skip("PERCPU_TIER is set");
	assert_int_not_equal(s->selftest, PERCPU_SELFTEST_FAILED);
	assert_int_equal(s->tier, PERCPU_TIER_RSEQ);
}

static void tiers_have_names(void **state)
{
	(void)state;
	assert_string_equal(percpu_tier_name(PERCPU_TIER_RSEQ), "rseq");
	assert_string_equal(percpu_tier_name(PERCPU_TIER_CPU), "cpu");
	assert_string_equal(percpu_tier_name(PERCPU_TIER_SHARED), "shared");
	assert_string_equal(percpu_tier_name((enum percpu_tier)7), "shared"); /* the lowest */
}

static void selftest_can_be_repeated(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		enum percpu_selftest r = percpu_selftest();

		if (percpu_status()->tier == PERCPU_TIER_RSEQ)
			assert_true(r == PERCPU_SELFTEST_PASSED ||
				    r == PERCPU_SELFTEST_INCONCLUSIVE);
		assert_int_not_equal(r, PERCPU_SELFTEST_FAILED);
	}
}

struct tiers {
	enum percpu_tier fresh, attached, unregistered;
	bool could_unregister;
};

static void ask_tiers(unsigned i, void *arg)
{
	struct tiers *t = arg;
	struct percpu_rseq *rs = percpu_seq_attach();

	(void)i;
	t->attached = percpu_thread_tier();
	if (rs->cpu_id < 0)
		return;
	t->could_unregister = test_unregister(rs);
	t->unregistered = percpu_thread_tier();
}

static void thread_tier_follows_the_registration(void **state)
{
	enum percpu_tier tier = test_tier();
	struct tiers t = { 0 };

	(void)state;
	test_team_run(1, ask_tiers, &t);
	assert_int_equal(t.attached, tier);
	if (tier != PERCPU_TIER_RSEQ)
		test_skip("not on tier rseq");
	assert_true(t.could_unregister);
	assert_int_not_equal(t.unregistered, PERCPU_TIER_RSEQ);
	assert_int_equal(percpu_thread_tier(), PERCPU_TIER_RSEQ);
}

static void ask_status(unsigned i, void *arg)
{
	const struct percpu_status **seen = arg;

	seen[i] = settled();
}

static void every_thread_sees_the_same(void **state)
{
	const struct percpu_status *seen[8];

	(void)state;
	test_team_run(8, ask_status, seen);
	for (int i = 0; i < 8; i++)
		assert_ptr_equal(seen[i], percpu_status());
}

static void versions_can_be_compared(void **state)
{
	(void)state;
	assert_int_equal(percpu_version(), PERCPU_VERSION);
	assert_true(PERCPU_VERSION >= PERCPU_VERSION_OF(0, 1, 0));
	assert_true(PERCPU_VERSION < PERCPU_VERSION_OF(PERCPU_VERSION_MAJOR + 1, 0, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(environment_lowers_the_tier), /* must be first */
		cmocka_unit_test(first_use_may_come_late),
		cmocka_unit_test(every_thread_sees_the_same),
		cmocka_unit_test(status_is_constant),
		cmocka_unit_test(status_agrees_with_the_kernel),
		cmocka_unit_test(registrar_fits_the_tier),
		cmocka_unit_test(the_best_tier_is_used),
		cmocka_unit_test(tiers_have_names),
		cmocka_unit_test(selftest_can_be_repeated),
		cmocka_unit_test(thread_tier_follows_the_registration),
		cmocka_unit_test(versions_can_be_compared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
