/* SPDX-License-Identifier: MIT */
/*
 * test_lock.c - robust locks: the holder is stopped, is killed, calls exec, has another thread
 * group or no robust list; and threads that wait, or only watch. What a lock leaves of its
 * thread: test_lock_thread.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock_holder.h"

static void killed_holder_is_succeeded(void **state)
{
	pid_t pid = test_fork(hold, NULL);

	(void)state;
	wait_for_stage(pid, 1);
	assert_int_equal(lock_for(SHORT_NS), -ETIMEDOUT);
	kill(pid, SIGKILL);
	test_wait(pid, 60);
	assert_int_equal(lock_for(LONG_NS), recovers() ? 0 : -ETIMEDOUT);
}

static int hold_and_exec(void *arg)
{
	struct percpu_robust h;

	(void)arg;
	test_child_require(percpu_robust_lock(&h, &shared->word, LONG_NS) == 0, "lock");
	execl("/bin/sleep", "sleep", "60", (char *)NULL);
	return 1;
}

static void exec_releases(void **state)
{
	pid_t pid;

	(void)state;
	if (!recovers())
		skip();
	pid = test_fork(hold_and_exec, NULL);
	while (__atomic_load_n(&shared->word, __ATOMIC_RELAXED) == 0)
		test_sleep_us(100);
	assert_int_equal(lock_for(LONG_NS), 0);
	kill(pid, SIGKILL);
	test_wait(pid, 60);
}

static void stopped_holder_keeps_it(void **state)
{
	pid_t pid = test_fork(hold, NULL);

	(void)state;
	wait_for_stage(pid, 1);
	kill(pid, SIGSTOP);
	reach(2);
	assert_int_equal(lock_for(SHORT_NS), -ETIMEDOUT);
	assert_int_equal(shared->stage, 2);
	kill(pid, SIGCONT);
	assert_int_equal(test_wait(pid, 60), 0);
	assert_int_equal(lock_for(LONG_NS), 0);
	assert_int_equal(shared->word, 0);
}

/* A waiter is woken up when the holder dies, or releases the lock. */
static void wait_in_thread(unsigned i, void *arg)
{
	(void)i;
	__atomic_store_n((int *)arg, lock_for(LONG_NS), __ATOMIC_RELAXED);
}

static void waiter_is_woken(void **state)
{
	for (int killed = 0; killed < 2; killed++) {
		struct test_team team;
		int e = 1;
		pid_t pid;

		reset(state);
		pid = test_fork(hold, NULL);
		wait_for_stage(pid, 1);
		test_team_start(&team, 1, wait_in_thread, &e);
		while (!(__atomic_load_n(&shared->word, __ATOMIC_RELAXED) & FUTEX_WAITERS))
			test_sleep_us(100);
		if (killed)
			kill(pid, SIGKILL);
		else
			reach(2);
		test_wait(pid, 60);
		test_team_join(&team);
		assert_int_equal(e, killed && !recovers() ? -ETIMEDOUT : 0);
	}
}

/* A read-only process sleeps on the word first: it gets the one wake-up that the kernel has for
 * a holder's death. */
static int sleep_on_word(void *arg)
{
	(void)arg;
	test_child_require(mprotect(shared, sizeof(*shared), PROT_READ) == 0, "only to read");
	for (;;)
		syscall(SYS_futex, &shared->word, FUTEX_WAIT,
			__atomic_load_n(&shared->word, __ATOMIC_RELAXED), NULL, NULL, 0);
	return 0;
}

/* The waiter looks again long before its time is up. */
static void wait_patiently(unsigned i, void *arg)
{
	(void)i;
	__atomic_store_n((int *)arg, lock_for(20 * LONG_NS), __ATOMIC_RELAXED);
}

static void onlooker_delays_nobody(void **state)
{
	static struct test_team team;
	static int e = 1; /* the thread may outlive a failed assertion */
	pid_t holder, onlooker;

	(void)state;
	if (!recovers())
		skip();
	holder = test_fork(hold, NULL);
	wait_for_stage(holder, 1);
	__atomic_fetch_or(&shared->word, FUTEX_WAITERS, __ATOMIC_RELAXED);
	onlooker = test_fork(sleep_on_word, NULL);
	test_sleep_us(50000);
	test_team_start(&team, 1, wait_patiently, &e);
	test_sleep_us(50000);
	kill(holder, SIGKILL);
	test_wait(holder, 60);
	for (int i = 0; i < 200 && __atomic_load_n(&e, __ATOMIC_RELAXED) == 1; i++)
		test_sleep_us(100000);
	assert_int_equal(__atomic_load_n(&e, __ATOMIC_RELAXED), 0);
	test_team_join(&team);
	kill(onlooker, SIGKILL);
	test_wait(onlooker, 60);
}

/* A child shares the memory, but has its own thread group and robust list. */
static char stack[65536] __attribute__((aligned(64)));

static int hold_forever(void *arg)
{
	struct percpu_robust h;

	(void)arg;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (percpu_robust_lock(&h, &shared->word, LONG_NS) == 0)
		reach(1);
	for (;;)
		syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
	return 0;
}

static void sharing_child_is_a_holder(void **state)
{
	pid_t pid;

	(void)state;
	if (!recovers())
		skip();
	if (test_address_sanitizer() || test_thread_sanitizer())
		test_skip("sanitizers do not know such children");
	pid = clone(hold_forever, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	assert_true(pid > 0);
	wait_for_stage(pid, 1);
	assert_int_equal(lock_for(SHORT_NS), -ETIMEDOUT); /* it is alive */
	kill(pid, SIGKILL);
	test_wait(pid, 60);
	assert_int_equal(lock_for(LONG_NS), 0);
}

static int hold_without_list(void *arg)
{
	struct robust_list_head *head;
	size_t size;

	(void)arg;
	test_child_require(syscall(SYS_set_robust_list, NULL, sizeof(*head)) == 0, "no list");
	test_child_require(lock_for(LONG_NS) == 0, "lock without a list");
	test_child_require(syscall(SYS_get_robust_list, 0, &head, &size) == 0 && head == NULL,
			   "no list, as before");
	return hold(NULL);
}

static void task_without_list_is_a_holder(void **state)
{
	pid_t pid;

	(void)state;
	if (!recovers())
		skip();
	pid = test_fork(hold_without_list, NULL);
	wait_for_stage(pid, 1);
	kill(pid, SIGKILL);
	test_wait(pid, 60);
	assert_int_equal(lock_for(LONG_NS), 0);
}

/* A thread that takes the lock over from a killed holder knows that there are other waiters, and
 * wakes them up. */
static void sleep_there(unsigned i, void *arg)
{
	uint32_t value = __atomic_load_n(&shared->word, __ATOMIC_RELAXED);
	const struct timespec patience = { .tv_sec = 20 };

	(void)i;
	reach(1);
	if (syscall(SYS_futex, &shared->word, FUTEX_WAIT, value, &patience, NULL, 0) != 0)
		*(int *)arg = errno;
}

static void successor_wakes_waiters(void **state)
{
	struct percpu_robust h;
	struct test_team team;
	int e = 0;

	(void)state;
	shared->word = FUTEX_OWNER_DIED | FUTEX_WAITERS;
	assert_int_equal(percpu_robust_lock(&h, &shared->word, LONG_NS), 0);
	assert_true(shared->word & FUTEX_WAITERS);
	test_team_start(&team, 1, sleep_there, &e);
	while (__atomic_load_n(&shared->stage, __ATOMIC_ACQUIRE) == 0)
		test_sleep_us(100);
	test_sleep_us(100000);
	percpu_robust_unlock(&h);
	test_team_join(&team);
	assert_true(e == 0 || e == EAGAIN); /* too late to sleep */
}

/* A waiter waits on while holders change, but not for ever. */
static unsigned looks;

static void let_others_have_it(void)
{
	looks++;
	shared->word = looks < 2000 ? looks + 1 : 0;
	test_sleep_us(1000);
}

static void let_another_have_it(void)
{
	shared->word = looks++ == 0 ? 2 : 0;
	test_sleep_us(300000);
}

static void holders_may_change_for_a_time(void **state)
{
	(void)state;
	step = "lock: to be waited for";
	interfere = let_others_have_it;
	looks = 0;
	shared->word = 1;
	assert_int_equal(lock_for(PERCPU_SECOND / 100), -ETIMEDOUT);

	interfere = let_another_have_it;
	looks = 0;
	shared->word = 1;
	assert_int_equal(lock_for(PERCPU_SECOND / 4), 0);
	assert_int_equal(looks, 2);
	step = NULL;
}

/* Each adds one to two words, and may be killed in between. The next holder sets the second word
 * to the first. */
static int add_until_killed(void *arg)
{
	struct percpu_robust h;

	(void)arg;
	for (;;) {
		test_child_require(percpu_robust_lock(&h, &shared->word, LONG_NS) == 0, "lock");
		if (shared->sum[0] != shared->sum[1])
			shared->sum[1] = shared->sum[0];
		__atomic_store_n(&shared->sum[0], shared->sum[0] + 1, __ATOMIC_RELAXED);
		__atomic_store_n(&shared->sum[1], shared->sum[1] + 1, __ATOMIC_RELAXED);
		percpu_robust_unlock(&h);
	}
	return 0;
}

static void many_are_killed(void **state)
{
	enum { TEAM = 4 };
	uint64_t random = 7;
	pid_t pid[TEAM];

	(void)state;
	if (!recovers())
		skip();
	for (int i = 0; i < TEAM; i++)
		pid[i] = test_fork(add_until_killed, NULL);
	for (unsigned i = 0; i < test_rounds(400); i++) {
		unsigned n = (unsigned)(test_random(&random) % TEAM);

		test_sleep_us((unsigned)(test_random(&random) % 1500));
		kill(pid[n], SIGKILL);
		assert_int_equal(test_wait(pid[n], 60), SIGKILL);
		pid[n] = test_fork(add_until_killed, NULL);
	}
	for (int i = 0; i < TEAM; i++) {
		kill(pid[i], SIGKILL);
		assert_int_equal(test_wait(pid[i], 60), SIGKILL);
	}
	assert_int_equal(lock_for(LONG_NS), 0);
	assert_true(shared->sum[0] - shared->sum[1] <= 1);
	assert_true(shared->sum[0] > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(killed_holder_is_succeeded, reset),
		cmocka_unit_test_setup(exec_releases, reset),
		cmocka_unit_test_setup(stopped_holder_keeps_it, reset),
		cmocka_unit_test(waiter_is_woken),
		cmocka_unit_test_setup(onlooker_delays_nobody, reset),
		cmocka_unit_test_setup(sharing_child_is_a_holder, reset),
		cmocka_unit_test_setup(task_without_list_is_a_holder, reset),
		cmocka_unit_test_setup(successor_wakes_waiters, reset),
		cmocka_unit_test_setup(holders_may_change_for_a_time, reset),
		cmocka_unit_test_setup(many_are_killed, reset),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
