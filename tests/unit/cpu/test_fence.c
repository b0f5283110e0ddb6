/* SPDX-License-Identifier: MIT */
/*
 * test_fence.c - fences abort running sequences, in this process and in others, and return in
 * time with a correct report.
 *
 * percpu_seq_spin() stays in a sequence until it is aborted, which makes a fence visible.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <percpu/fence.h>
#include <percpu/seq.h>
#include <percpu/status.h>
#include <percpu/zone.h>

#include "support.h"

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

/*
 * A thread or process that is in a sequence until it sees the flag. Then it acknowledges the
 * round, with the number of its aborts, and waits for the next one.
 */
struct spinner {
	uint32_t inside;
	uint32_t flag;
	uint32_t acks;
	uint32_t aborts;
	uint32_t stop;
};

static uint32_t get(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void set(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static void spin(struct spinner *s)
{
	percpu_seq_attach();
	while (!get(&s->stop)) {
		set(&s->inside, 1);
		while (percpu_seq_spin(&s->flag, FOREVER) == PERCPU_SEQ_SLOW)
			set(&s->aborts, s->aborts + 1);
		set(&s->inside, 0);
		set(&s->acks, s->acks + 1);
		while (get(&s->flag) && !get(&s->stop))
			sched_yield();
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

/* Other processes cause aborts, too, so each of many fences must cause one. */
#define ROUNDS 20

static unsigned fences_that_aborted(struct spinner *s, int (*fence)(void))
{
	unsigned aborted = 0;

	alarm(60);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		uint32_t before;
		bool fenced;

		while (!get(&s->inside))
			sched_yield();
		test_sleep_us(200);
		before = get(&s->aborts);
		fenced = fence() == 0;
		set(&s->flag, 1);
		while (get(&s->acks) != round)
			sched_yield();
		aborted += fenced && s->aborts != before;
		set(&s->flag, 0);
	}
	set(&s->stop, 1);
	set(&s->flag, 1);
	alarm(0);
	return aborted;
}

static int fence_all(void)
{
	return percpu_fence_all(10 * SECOND, NULL);
}

static void fence_aborts_sequences_of_threads(void **state)
{
	struct spinner s = { 0 };
	struct test_team t;
	unsigned aborted;

	(void)state;
	if (!sequences())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU: the spinner would be preempted anyway");
	test_pin(0, test_cpu(0));
	test_team_start(&t, 1, spin_thread, &s);
	aborted = fences_that_aborted(&s, percpu_fence);
	test_team_join(&t);
	test_unpin(0);
	assert_int_equal(aborted, ROUNDS);
}

static void fence_all_aborts_sequences_of_processes(void **state)
{
	struct spinner *s = test_share(sizeof(*s));
	unsigned aborted;
	pid_t pid;

	(void)state;
	if (!sequences())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU: the spinner would be preempted anyway");
	pid = test_fork(spin_child, s);
	test_pin(0, test_cpu(0)); /* else the visitor may begin on the child's CPU */
	aborted = fences_that_aborted(s, fence_all);
	test_unpin(0);
	assert_int_equal(test_wait(pid, 60), 0);
	assert_int_equal(aborted, ROUNDS);
}

/* Check that the parts of the report agree, whatever the result is. */
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
	assert_int_equal(percpu_fence_all(10 * SECOND, NULL), 0);
	assert_int_equal(percpu_fence(), 0);
	sched_getaffinity(0, sizeof(after), &after);
	test_unpin(0);
	assert_memory_equal(&before, &after, sizeof(before));
}

static void fences_leave_nothing_behind(void **state)
{
	struct test_holding before;

	(void)state;
	assert_int_equal(percpu_fence_all(10 * SECOND, NULL), 0);
	before = test_holding_now();
	for (int i = 0; i < 10; i++)
		assert_int_equal(percpu_fence_all(10 * SECOND, NULL), 0);
	test_assert_holding(before);
}

/* A real-time thread that keeps others off its CPU, as far as the kernel allows: it may reserve
 * 50 ms of each second for them. From start to last, no other thread has run there. */
struct hog {
	unsigned cpu;
	uint32_t ready; /* 2: not permitted */
	uint64_t start, last;
};

static long switches(void)
{
	struct rusage used;

	return getrusage(RUSAGE_SELF, &used) == 0 ? used.ru_nivcsw + used.ru_nvcsw : -1;
}

static int hog(void *arg)
{
	struct sched_param p = { .sched_priority = 50 };
	struct hog *h = arg;
	long seen = -1;

	if (!test_pin(0, h->cpu) || sched_setscheduler(0, SCHED_FIFO, &p) != 0) {
		set(&h->ready, 2);
		return 0;
	}
	alarm(3);
	for (;;) {
		uint64_t now = test_now();
		long n = switches();

		if (n != seen) {
			__atomic_store_n(&h->start, test_now(), __ATOMIC_RELEASE);
			seen = n;
		}
		__atomic_store_n(&h->last, now, __ATOMIC_RELEASE);
		set(&h->ready, 1);
	}
	return 0;
}

/* Return whether the hog had its CPU to itself all that time. It may be off the CPU, or have
 * ended. */
static bool had_for_itself(const struct hog *h, uint64_t from, uint64_t to)
{
	uint64_t patience = test_now() + SECOND / 10;

	while (__atomic_load_n(&h->last, __ATOMIC_ACQUIRE) < to && test_now() < patience)
		sched_yield();
	return __atomic_load_n(&h->last, __ATOMIC_ACQUIRE) >= to &&
	       __atomic_load_n(&h->start, __ATOMIC_ACQUIRE) <= from;
}

static void busy_cpu_does_not_hang_the_caller(void **state)
{
	struct hog *h = test_share(sizeof(*h));
	unsigned timeouts = 0, due = 0;
	struct percpu_fence_report r;
	pid_t pid;

	(void)state;
	if (test_cpus() < 2)
		test_skip("one CPU");
	h->cpu = test_cpu(1);
	test_pin(0, test_cpu(0));
	alarm(60);
	pid = test_fork(hog, h);
	while (!get(&h->ready))
		sched_yield();
	for (int i = 0; i < 20 && get(&h->ready) == 1; i++) {
		uint64_t start = test_now();
		int ret = percpu_fence_all(SECOND / 20, &r);
		bool timeout = r.unfenced_cpus[h->cpu / 64] >> h->cpu % 64 & 1;

		check_report(ret, &r);
		assert_true(ret == 0 || ret == -ETIMEDOUT);
		timeouts += timeout;
		if (had_for_itself(h, start, test_now())) {
			assert_true(timeout);
			due++;
		}
	}
	kill(pid, SIGKILL);
	test_wait(pid, 60);
	test_unpin(0);
	alarm(0);
	if (h->ready == 2)
		test_skip("no right to real-time scheduling");
	print_message("%u of 20 calls timed out, %u had to\n", timeouts, due);
	assert_int_equal(percpu_fence_all(10 * SECOND, NULL), 0);
}

/* The first CPU has such a thread until the second CPU is visited. */

static struct {
	pid_t hog;
	bool killed, was_late;
} late;

static void kill_hog(void *cell, unsigned cpu, void *arg)
{
	(void)cell;
	(void)arg;
	if (cpu == test_cpu(0))
		late.was_late = late.killed;
	if (cpu != test_cpu(1))
		return;
	kill(late.hog, SIGKILL);
	late.killed = true;
}

static int run_with_hog(struct hog *h, struct percpu_zone *z, void *item)
{
	uint64_t timeout = percpu_status()->possible_cpus * (SECOND * 2 / 5);
	int e;

	*h = (struct hog){ .cpu = test_cpu(0) };
	late.killed = late.was_late = false;
	late.hog = test_fork(hog, h);
	while (!get(&h->ready))
		sched_yield();
	e = percpu_zone_run(z, item, kill_hog, NULL, timeout, NULL);
	kill(late.hog, SIGKILL);
	test_wait(late.hog, 60);
	return e;
}

/* If the kernel has let the visitor run, the CPU is not late. */
static void late_cpu_gets_another_turn(void **state)
{
	struct hog *h = test_share(sizeof(*h));
	struct percpu_zone *z;
	void *item;
	int e = 0;

	(void)state;
	if (test_cpus() < 2)
		test_skip("one CPU");
	assert_int_equal(percpu_zone_create("late", 8, NULL, &z), 0);
	assert_int_equal(percpu_zone_alloc(z, 0, &item), 0);
	test_pin(0, test_cpu(1));
	for (int i = 0; i < 20 && h->ready != 2 && !late.was_late; i++)
		e = run_with_hog(h, z, item);
	test_unpin(0);
	assert_int_equal(percpu_zone_free(z, item), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
	if (h->ready == 2)
		test_skip("no right to real-time scheduling");
	assert_true(late.was_late);
	assert_true(e == 0 || e == -EPERM);
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
		cmocka_unit_test(late_cpu_gets_another_turn),
		cmocka_unit_test(threads_may_fence_at_once),
		cmocka_unit_test(child_of_fork_may_fence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
