/* SPDX-License-Identifier: MIT */
/*
 * test_fence.c - the fences abort what is in progress, in this process and in
 * others, and come back in time with a true report.
 *
 * percpu_seq_spin() stays in a sequence until something aborts it, which makes
 * a fence visible.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <percpu/fence.h>
#include <percpu/seq.h>
#include <percpu/status.h>

#include "../support.h"

#define SECOND UINT64_C(1000000000)
#define FOREVER (UINT64_C(1) << 60)

static bool sequences(void)
{
#ifdef PERCPU_ARCH_GENERIC_H
	return false;
#else
	return percpu_status()->tier == PERCPU_TIER_RSEQ;
#endif
}

/* Shared with a child where that is the one that spins. */
struct spinner {
	uint32_t inside; /* set once it has begun */
	uint32_t flag;	 /* ends a spin that nothing aborts */
	uint32_t aborts;
	uint32_t stop;
};

static void spin(struct spinner *s)
{
	struct percpu_rseq *rs = percpu_seq_attach();

	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		__atomic_store_n(&s->inside, 1, __ATOMIC_RELEASE);
		if (percpu_seq_spin(rs, &s->flag, FOREVER) == PERCPU_SEQ_SLOW)
			__atomic_fetch_add(&s->aborts, 1, __ATOMIC_RELAXED);
	}
}

static void spin_thread(unsigned i, void *arg)
{
	(void)i;
	test_pin(0, test_cpu(1));
	spin(arg);
}

static int spin_child(void *arg)
{
	test_pin(0, test_cpu(1));
	spin(arg);
	return 0;
}

static void wait_until_inside(struct spinner *s)
{
	while (!__atomic_load_n(&s->inside, __ATOMIC_ACQUIRE))
		sched_yield();
	test_sleep_us(1000);
}

static void end(struct spinner *s)
{
	__atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&s->flag, 1, __ATOMIC_RELEASE);
}

/* Aborts come from neighbors, too, so every one of many fences must show. */
static unsigned fences_that_showed(struct spinner *s, int (*fence)(void))
{
	unsigned showed = 0;

	wait_until_inside(s);
	for (int i = 0; i < 20; i++) {
		uint32_t before = __atomic_load_n(&s->aborts, __ATOMIC_RELAXED);

		test_sleep_us(200); /* back into the sequence */
		if (fence() != 0)
			continue;
		for (int k = 0; k < 1000; k++) { /* until it has counted */
			if (__atomic_load_n(&s->aborts, __ATOMIC_RELAXED) != before)
				break;
			test_sleep_us(100);
		}
		showed += __atomic_load_n(&s->aborts, __ATOMIC_RELAXED) != before;
	}
	return showed;
}

static int fence_all(void)
{
	return percpu_fence_all(SECOND, NULL);
}

static void fence_aborts_sequences_of_threads(void **state)
{
	struct spinner s = { 0 };
	struct test_team t;
	unsigned showed;

	(void)state;
	if (!sequences())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU: the spinner would be preempted anyway");
	test_pin(0, test_cpu(0));
	test_team_start(&t, 1, spin_thread, &s);
	showed = fences_that_showed(&s, percpu_fence);
	end(&s);
	test_team_join(&t);
	test_unpin(0);
	assert_int_equal(showed, 20);
}

static void fence_all_aborts_sequences_of_processes(void **state)
{
	struct spinner *s = test_share(sizeof(*s));
	unsigned showed;
	pid_t pid;

	(void)state;
	if (!sequences())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU: the spinner would be preempted anyway");
	pid = test_fork(spin_child, s);
	showed = fences_that_showed(s, fence_all);
	end(s);
	assert_int_equal(test_wait(pid, 10), 0);
	assert_int_equal(showed, 20);
}

/* Whatever the outcome, the parts of the report fit together. */
static void check_report(int ret, const struct percpu_fence_report *r)
{
	unsigned bits = 0, first = PERCPU_MAX_CPUS;

	for (unsigned cpu = PERCPU_MAX_CPUS; cpu-- > 0;) {
		if (!(r->unfenced_cpus[cpu / 64] >> cpu % 64 & 1))
			continue;
		bits++;
		first = cpu;
	}
	assert_int_equal(r->unfenced, bits);
	assert_int_equal(r->fenced + r->unfenced, percpu_status()->possible_cpus);
	assert_int_equal(ret != 0, bits != 0);
	if (bits)
		assert_int_equal(r->first_unfenced, first);
}

static void idle_machine_is_fenced_whole(void **state)
{
	struct percpu_fence_report r;
	int ret;

	(void)state;
	assert_int_equal(percpu_fence(), 0);
	memset(&r, 0xff, sizeof(r));
	ret = percpu_fence_all(10 * SECOND, &r);
	check_report(ret, &r);
	if (ret == -EPERM)
		test_skip("a cpuset keeps this process from some CPUs");
	assert_int_equal(ret, 0);
	assert_int_equal(percpu_fence_all(10 * SECOND, NULL), 0);
}

static void no_time_is_refused(void **state)
{
	struct percpu_fence_report r = { .fenced = 7 };

	(void)state;
	assert_int_equal(percpu_fence_all(0, &r), -EINVAL);
	assert_int_equal(r.fenced, 7);
	assert_int_equal(percpu_fence_all(0, NULL), -EINVAL);
}

static void shortest_time_returns(void **state)
{
	struct percpu_fence_report r;
	int ret;

	(void)state;
	for (uint64_t ns = 1; ns < SECOND / 100; ns *= 10) {
		ret = percpu_fence_all(ns, &r);
		assert_true(ret == 0 || ret == -ETIMEDOUT || ret == -EPERM);
		check_report(ret, &r);
	}
}

static void longest_time_does_not_overflow(void **state)
{
	struct percpu_fence_report r;
	int ret;

	(void)state;
	ret = percpu_fence_all(UINT64_MAX, &r);
	assert_true(ret == 0 || ret == -EPERM);
	check_report(ret, &r);
}

static void affinity_of_the_caller_stays(void **state)
{
	cpu_set_t before, after;

	(void)state;
	test_pin(0, test_cpu(0));
	sched_getaffinity(0, sizeof(before), &before);
	percpu_fence_all(SECOND, NULL);
	percpu_fence();
	sched_getaffinity(0, sizeof(after), &after);
	test_unpin(0);
	assert_memory_equal(&before, &after, sizeof(before));
}

static void fences_leave_nothing_behind(void **state)
{
	struct test_holding before;

	(void)state;
	percpu_fence_all(SECOND, NULL);
	before = test_holding_now();
	for (int i = 0; i < 10; i++)
		percpu_fence_all(SECOND, NULL);
	test_assert_holding(before);
}

/* A real-time thread that does not let anybody on its CPU for 3 s. */
static int hog(void *arg)
{
	struct sched_param p = { .sched_priority = 50 };
	uint32_t *ready = arg;
	uint64_t until = test_now() + 3 * SECOND;

	if (!test_pin(0, test_cpu(1)) || sched_setscheduler(0, SCHED_FIFO, &p) != 0) {
		__atomic_store_n(ready, 2, __ATOMIC_RELEASE);
		return 0;
	}
	__atomic_store_n(ready, 1, __ATOMIC_RELEASE);
	while (test_now() < until)
		;
	return 0;
}

/* The kernel may grant others 50 ms of each second even so. */
static void busy_cpu_does_not_hang_the_caller(void **state)
{
	uint32_t *ready = test_share(sizeof(*ready));
	struct percpu_fence_report r;
	int ret = 0, timeouts = 0;
	pid_t pid;

	(void)state;
	if (test_cpus() < 2)
		test_skip("one CPU");
	test_pin(0, test_cpu(0));
	alarm(60);
	pid = test_fork(hog, ready);
	while (!__atomic_load_n(ready, __ATOMIC_ACQUIRE))
		sched_yield();
	for (int i = 0; i < 6 && *ready == 1; i++) {
		ret = percpu_fence_all(SECOND / 5, &r);
		check_report(ret, &r);
		assert_true(ret == 0 || ret == -ETIMEDOUT);
		if (ret == -ETIMEDOUT) {
			assert_int_equal(r.first_unfenced, test_cpu(1));
			assert_int_equal(r.unfenced, 1);
			timeouts++;
		}
	}
	kill(pid, SIGKILL);
	test_wait(pid, 10);
	test_unpin(0);
	alarm(0);
	if (*ready == 2)
		test_skip("no right to real-time scheduling");
	print_message("%d of 6 calls timed out\n", timeouts);
	assert_int_equal(percpu_fence_all(10 * SECOND, NULL), 0);
}

static void fence_often(unsigned i, void *arg)
{
	int *failed = arg;

	for (int k = 0; k < 20; k++)
		if ((i % 2 ? percpu_fence() : percpu_fence_all(10 * SECOND, NULL)) != 0)
			__atomic_fetch_add(failed, 1, __ATOMIC_RELAXED);
}

static void threads_may_fence_at_once(void **state)
{
	int failed = 0;

	(void)state;
	test_team_run(6, fence_often, &failed);
	assert_int_equal(failed, 0);
}

static int fence_in_child(void *arg)
{
	(void)arg;
	test_child_require(percpu_fence() == 0, "fence in a child of fork");
	return 0;
}

static void child_of_fork_may_fence(void **state)
{
	(void)state;
	assert_int_equal(percpu_fence(), 0);
	test_in_child(fence_in_child, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fence_aborts_sequences_of_threads),
		cmocka_unit_test(fence_all_aborts_sequences_of_processes),
		cmocka_unit_test(idle_machine_is_fenced_whole),
		cmocka_unit_test(no_time_is_refused),
		cmocka_unit_test(shortest_time_returns),
		cmocka_unit_test(longest_time_does_not_overflow),
		cmocka_unit_test(affinity_of_the_caller_stays),
		cmocka_unit_test(fences_leave_nothing_behind),
		cmocka_unit_test(busy_cpu_does_not_hang_the_caller),
		cmocka_unit_test(threads_may_fence_at_once),
		cmocka_unit_test(child_of_fork_may_fence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
