/* SPDX-License-Identifier: MIT */
/*
 * test_lock_thread.c - robust locks leave errno, signals and the robust list of a thread that
 * takes one, or waits for it, as they were. Also if the kernel refuses calls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock_holder.h"

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

/* Calls that the kernel refuses while the lock is held and released. */
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

	shared->word = 1; /* another thread's */
	errno = 4711;
	assert_int_equal(lock_for(SHORT_NS), -ETIMEDOUT);
	assert_int_equal(errno, 4711);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	assert_memory_equal(&before, &after, sizeof(unsigned long));
	if (head != NULL)
		assert_null(head->list_op_pending);
}

/* Another thread takes the lock after this one has found it free. */
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

/* A signal handler may have interrupted libc at a robust mutex. */
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

/* A list that libc registers while the lock is held stays. */
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

/* A thread without a list cannot register one: its lock works, but is not taken over. */
static int without_list(void *arg)
{
	(void)arg;
	if (syscall(SYS_set_robust_list, NULL, sizeof(struct robust_list_head)) != 0 ||
	    !refuse(SYS_set_robust_list))
		return 77;
	test_child_require(lock_for(LONG_NS) == 0 && shared->word == 0, "the lock works");
	return 0;
}

/* The kernel refuses to say which list is registered: the lock's list stays. */
static int with_list_that_stays(void *arg)
{
	struct percpu_robust h;

	(void)arg;
	if (syscall(SYS_set_robust_list, NULL, sizeof(struct robust_list_head)) != 0)
		return 77;
	test_child_require(percpu_robust_lock(&h, &shared->word, LONG_NS) == 0, "lock");
	if (!refuse(SYS_get_robust_list))
		return 77;
	percpu_robust_unlock(&h);
	test_child_require(shared->word == 0, "the lock is free");
	_exit(0); /* while the list is valid */
}

static void lists_may_be_refused(void **state)
{
	int (*const fns[])(void *) = { without_list, with_list_that_stays };

	(void)state;
	for (int i = 0; i < 2; i++) {
		int status = test_wait(test_fork(fns[i], NULL), 60);

		if (status == 77 << 8)
			test_skip("no filters here");
		assert_int_equal(status, 0);
		assert_int_equal(lock_for(LONG_NS), 0);
	}
}

/* The word may be overwritten by another process. */
static void word_of_others_is_left_alone(void **state)
{
	struct percpu_robust h;

	(void)state;
	assert_int_equal(percpu_robust_lock(&h, &shared->word, LONG_NS), 0);
	shared->word = 1;
	percpu_robust_unlock(&h);
	assert_int_equal(shared->word, 1);
}

/* A waiting thread can be interrupted: its signals are not blocked. */
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

/* The waiter does not run for as long as it may wait; then the holder releases the lock. */
static unsigned looks;

static void sleep_then_release(void)
{
	if (looks++ == 0)
		test_sleep_us(PERCPU_SECOND / 1000 * 11 / 10);
	else
		shared->word = 0;
}

static void waiter_that_did_not_run_looks_again(void **state)
{
	(void)state;
	shared->word = 1;
	looks = 0;
	interfere = sleep_then_release;
	step = "lock: to be waited for";
	assert_int_equal(lock_for(PERCPU_SECOND), 0);
	assert_int_equal(looks, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(refused_call_leaves_a_lock, reset),
		cmocka_unit_test_setup(refused_wake_up_keeps_errno, reset),
		cmocka_unit_test_setup(thread_is_as_before, reset),
		cmocka_unit_test_setup(loser_is_as_before, reset),
		cmocka_unit_test_setup(operation_of_libc_goes_on, reset),
		cmocka_unit_test_setup(list_of_libc_stays, reset),
		cmocka_unit_test_setup(lists_may_be_refused, reset),
		cmocka_unit_test_setup(word_of_others_is_left_alone, reset),
		cmocka_unit_test_setup(signals_come_through_while_waiting, reset),
		cmocka_unit_test_setup(waiter_that_did_not_run_looks_again, reset),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
