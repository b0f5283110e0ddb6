/* SPDX-License-Identifier: MIT */
/*
 * test_lock.c - robust locks: who holds one is stopped, is killed, calls exec,
 * has another thread group or no list of its own; and who only looks on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../steps.h"
#include "../support.h"

#include "objects/objects.h"

#define SHORT_NS (PERCPU_SECOND / 50)
#define LONG_NS (8 * PERCPU_SECOND)

static struct {
	uint32_t word;
	uint32_t stage; /* what a child has come to */
	uint64_t sum[2];
} * shared;

static const char *step; /* where interfere() is called, in the thread that is there */
static void (*interfere)(void);

void test_step(const char *name)
{
	if (step != NULL && strcmp(name, step) == 0)
		interfere();
}

static int setup(void **state)
{
	struct percpu_robust h;
	uint32_t word = 0;

	(void)state;
	shared = test_share(sizeof(*shared));
	/* glibc's head, where there is one, is used, not replaced. */
	return percpu_robust_lock(&h, &word, LONG_NS) == 0 ? (percpu_robust_unlock(&h), 0) : -1;
}

static int reset(void **state)
{
	(void)state;
	shared->word = 0;
	shared->stage = 0;
	step = NULL;
	return 0;
}

static bool recovers(void)
{
	if (!percpu_robust_supported())
		print_message("skipped: the kernel has no get_robust_list() for this program\n");
	return percpu_robust_supported();
}

static void reach(uint32_t stage)
{
	__atomic_store_n(&shared->stage, stage, __ATOMIC_RELEASE);
}

/* Until a child has come so far. */
static void wait_for_stage(pid_t pid, uint32_t stage)
{
	siginfo_t info = { 0 };

	while (__atomic_load_n(&shared->stage, __ATOMIC_ACQUIRE) < stage) {
		test_sleep_us(100);
		assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
		assert_int_equal(info.si_pid, 0); /* it lives */
	}
}

/* Whatever was in the memory of the lock's holder before. */
static int lock_for(uint64_t ns)
{
	struct percpu_robust h;
	int e;

	memset(&h, 0x55, sizeof(h));
	e = percpu_robust_lock(&h, &shared->word, ns);

	if (e == 0)
		percpu_robust_unlock(&h);
	return e;
}

static int hold(void *arg)
{
	struct percpu_robust h;

	(void)arg;
	test_child_require(percpu_robust_lock(&h, &shared->word, LONG_NS) == 0, "lock");
	reach(1);
	while (__atomic_load_n(&shared->stage, __ATOMIC_ACQUIRE) < 2)
		test_sleep_us(100);
	percpu_robust_unlock(&h);
	reach(3);
	return 0;
}

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

/* A waiter that is there before the holder dies, or lets go, is woken up. */
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

/* Whoever may only read the memory sleeps on the word, too, and first: it gets
 * the one wake-up that the kernel has for a holder's death. */
static int sleep_on_word(void *arg)
{
	(void)arg;
	test_child_require(mprotect(shared, sizeof(*shared), PROT_READ) == 0, "only to read");
	for (;;)
		syscall(SYS_futex, &shared->word, FUTEX_WAIT,
			__atomic_load_n(&shared->word, __ATOMIC_RELAXED), NULL, NULL, 0);
	return 0;
}

/* It looks again long before its time is up. */
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

/* A child that shares this memory has a thread group, and a list, of its own. */
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
	assert_int_equal(lock_for(SHORT_NS), -ETIMEDOUT); /* it lives */
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

static bool refuse(uint32_t call)
{
	const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { .len = 4, .filter = (struct sock_filter *)code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static int without_the_call(void *arg)
{
	(void)arg;
	if (!refuse(SYS_get_robust_list))
		return 77;
	test_child_require(!percpu_robust_supported(), "it is refused");
	test_child_require(lock_for(LONG_NS) == 0 && shared->word == 0, "the lock works");
	return hold(NULL);
}

static void refused_call_leaves_a_lock(void **state)
{
	pid_t pid = test_fork(without_the_call, NULL);
	int status = 0;

	(void)state;
	while (__atomic_load_n(&shared->stage, __ATOMIC_ACQUIRE) == 0)
		if (waitpid(pid, &status, WNOHANG) == pid) {
			assert_int_equal(status, 77 << 8);
			test_skip("no filters here");
		}
	assert_int_equal(lock_for(SHORT_NS), -ETIMEDOUT);
	reach(2);
	assert_int_equal(test_wait(pid, 60), 0);
	assert_int_equal(lock_for(LONG_NS), 0);
}

/* What the kernel refuses while the lock is held and let go. */
static int without_wake_up(void *arg)
{
	struct percpu_robust h;

	(void)arg;
	test_child_require(percpu_robust_lock(&h, &shared->word, LONG_NS) == 0, "lock");
	shared->word |= FUTEX_WAITERS;
	if (!refuse(SYS_futex))
		return 77;
	errno = 4711;
	percpu_robust_unlock(&h);
	test_child_require(errno == 4711, "errno is kept");
	test_child_require(shared->word == 0, "the lock is free");
	return 0;
}

static void refused_wake_up_keeps_errno(void **state)
{
	int status = test_wait(test_fork(without_wake_up, NULL), 60);

	(void)state;
	if (status == 77 << 8)
		test_skip("no filters here");
	assert_int_equal(status, 0);
}

static void thread_is_as_before(void **state)
{
	struct robust_list_head *head = NULL;
	struct percpu_robust h;
	sigset_t before, held, after;
	size_t size;

	(void)state;
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	errno = 4711;
	assert_int_equal(percpu_robust_lock(&h, &shared->word, LONG_NS), 0);
	pthread_sigmask(SIG_BLOCK, NULL, &held);
	percpu_robust_unlock(&h);
	assert_int_equal(errno, 4711);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	assert_true(sigismember(&held, SIGTERM));
	assert_memory_equal(&before, &after, sizeof(unsigned long));
	if (recovers() && syscall(SYS_get_robust_list, 0, &head, &size) == 0 && head != NULL)
		assert_null(head->list_op_pending);

	shared->word = 1; /* somebody's */
	errno = 4711;
	assert_int_equal(lock_for(SHORT_NS), -ETIMEDOUT);
	assert_int_equal(errno, 4711);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	assert_memory_equal(&before, &after, sizeof(unsigned long));
	if (head != NULL)
		assert_null(head->list_op_pending);
}

/* Another thread takes the lock when this one has found it free. */
static void take_away(void)
{
	shared->word = 1;
}

static void loser_is_as_before(void **state)
{
	struct robust_list_head *head = NULL;
	sigset_t before, after;
	size_t size;

	(void)state;
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	interfere = take_away;
	step = "lock: armed";
	assert_int_equal(lock_for(SHORT_NS), -ETIMEDOUT);
	step = NULL;
	assert_int_equal(shared->word & FUTEX_TID_MASK, 1);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	assert_memory_equal(&before, &after, sizeof(unsigned long));
	if (recovers() && syscall(SYS_get_robust_list, 0, &head, &size) == 0 && head != NULL)
		assert_null(head->list_op_pending);
}

/* A handler may have interrupted libc at a robust mutex. */
static void operation_of_libc_goes_on(void **state)
{
	struct robust_list_head *head = NULL;
	struct robust_list operation;
	size_t size;

	(void)state;
	if (!recovers() || syscall(SYS_get_robust_list, 0, &head, &size) != 0 || head == NULL) {
		test_skip("no list");
		return; /* for analyzers */
	}
	head->list_op_pending = &operation;
	assert_int_equal(lock_for(LONG_NS), 0);
	assert_ptr_equal(head->list_op_pending, &operation);
	head->list_op_pending = NULL;
}

/* The list that libc registers while the lock is held stays. */
static int register_in_between(void *arg)
{
	struct robust_list_head mine = { .list.next = &mine.list }, *head;
	struct percpu_robust h;
	size_t size;

	(void)arg;
	syscall(SYS_set_robust_list, NULL, sizeof(mine));
	test_child_require(percpu_robust_lock(&h, &shared->word, LONG_NS) == 0, "lock");
	syscall(SYS_set_robust_list, &mine, sizeof(mine));
	percpu_robust_unlock(&h);
	test_child_require(syscall(SYS_get_robust_list, 0, &head, &size) == 0 && head == &mine,
			   "the list stays");
	return 0;
}

static void list_of_libc_stays(void **state)
{
	(void)state;
	if (!recovers())
		skip();
	test_in_child(register_in_between, NULL);
}

/* Another process may write what it likes. */
static void word_of_others_is_left_alone(void **state)
{
	struct percpu_robust h;

	(void)state;
	assert_int_equal(percpu_robust_lock(&h, &shared->word, LONG_NS), 0);
	shared->word = 1;
	percpu_robust_unlock(&h);
	assert_int_equal(shared->word, 1);
}

/* Whoever takes the lock over from a killed holder knows of the other waiters, and
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

/* As long as holders change the lock is waited for, but not for ever. */
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

/* One that waits can be interrupted: its signals are not blocked then. */
static volatile sig_atomic_t handled;

static void handle(int signo)
{
	(void)signo;
	handled = 1;
	shared->word = 0;
}

static void signals_come_through_while_waiting(void **state)
{
	struct test_timer timer;

	(void)state;
	shared->word = 1;
	signal(SIGUSR1, handle);
	if (!test_timer_start(&timer, SIGUSR1, 20000))
		test_skip("no timers here");
	assert_int_equal(lock_for(LONG_NS), 0);
	test_timer_stop(&timer);
	assert_true(handled);
}

/* Each adds to two words, with a chance to be killed between. Whoever comes after
 * a killed holder makes the second word the first. */
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
		cmocka_unit_test_setup(refused_call_leaves_a_lock, reset),
		cmocka_unit_test_setup(refused_wake_up_keeps_errno, reset),
		cmocka_unit_test_setup(thread_is_as_before, reset),
		cmocka_unit_test_setup(loser_is_as_before, reset),
		cmocka_unit_test_setup(operation_of_libc_goes_on, reset),
		cmocka_unit_test_setup(list_of_libc_stays, reset),
		cmocka_unit_test_setup(word_of_others_is_left_alone, reset),
		cmocka_unit_test_setup(successor_wakes_waiters, reset),
		cmocka_unit_test_setup(holders_may_change_for_a_time, reset),
		cmocka_unit_test_setup(signals_come_through_while_waiting, reset),
		cmocka_unit_test_setup(many_are_killed, reset),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
