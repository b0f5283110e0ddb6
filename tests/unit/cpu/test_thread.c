/* SPDX-License-Identifier: MIT */
/*
 * test_thread.c - the registration of a thread: what proves it, how long it lasts, and which
 * threads have none while thread-local storage is shared.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/seq.h>

#include "cpu/cpu.h"
#include "support.h"

#if defined(__GLIBC__) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#else
static const ptrdiff_t __rseq_offset;
static const unsigned __rseq_size;
#endif

static struct percpu_counter *counter;

/* Run fn in a new thread of a child; it returns its result. */
static void *(*fresh)(void *arg);

static int start_fresh(void *arg)
{
	void *result = &counter;
	pthread_t thread;

	test_child_require(percpu_counter_create(&counter) == 0, "a counter");
	test_child_require(test_tier() == PERCPU_TIER_RSEQ, "sequences");
	test_child_require(pthread_create(&thread, NULL, fresh, arg) == 0, "a thread");
	test_child_require(pthread_join(thread, &result) == 0 && result == arg, "its end");
	return 0;
}

static void run_fresh(void *(*fn)(void *arg))
{
	test_need_sequences();
	fresh = fn;
	test_in_child(start_fresh, NULL);
}

/* What proves it. */

static struct percpu_rseq *area_of_libc(void)
{
	return (struct percpu_rseq *)(void *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* Set the area like that of a thread that was made by a bare clone(). */
static void *be_unknown(void *arg)
{
	struct percpu_rseq *area = area_of_libc();

	test_child_require(test_unregister(area), "libc's area is not registered");
	area->cpu_id_start = 0;
	area->cpu_id = 12345;
	percpu_counter_inc(counter);
	test_child_require(percpu_seq_attach() == area, "it is again");
	test_child_require(percpu_seq_cpu() != 12345, "and tells the CPU");
	return arg;
}

static void memory_proves_nothing(void **state)
{
	(void)state;
	if (__rseq_size == 0)
		test_skip("libc has no area");
	run_fresh(be_unknown);
}

static void *keep_errno(void *arg)
{
	errno = 77;
	percpu_counter_inc(counter);
	test_child_require(errno == 77, "errno stays, with the kernel asked");
	test_child_require(percpu_seq_cpu() >= 0, "which has happened");
	return arg;
}

static void first_add_keeps_errno(void **state)
{
	(void)state;
	run_fresh(keep_errno);
}

/* How long it lasts. */

#ifdef PERCPU_SEQ_SIGNATURE

static pthread_key_t key;
static bool was_registered;

/* The key's destructor: runs after all others, as it sets the value again the first time. */
static void at_the_end(void *value)
{
	static struct percpu_rseq other;

	if (value != &other) {
		pthread_setspecific(key, &other);
		return;
	}
	was_registered = syscall(SYS_rseq, &other, sizeof(other), 0, PERCPU_SEQ_SIGNATURE) != 0;
	if (!was_registered)
		test_unregister(&other);
}

static bool not_kept;
static bool handler_counts; /* while the thread registers */

bool __real_percpu_thread_keep(struct percpu_thread *r);
bool __wrap_percpu_thread_keep(struct percpu_thread *r);
bool __wrap_percpu_thread_keep(struct percpu_thread *r)
{
	if (handler_counts) {
		handler_counts = false;
		percpu_counter_inc(counter);
		test_child_require(percpu_seq_cpu() >= 0, "a handler has sequences");
	}
	return !not_kept && __real_percpu_thread_keep(r);
}

/* An area that cannot be unregistered at the thread's end is not kept. */
static void *keep_no_area(void *arg)
{
	static struct percpu_rseq other;

	if (__rseq_size != 0)
		test_child_require(test_unregister(area_of_libc()), "without libc's area");
	not_kept = true;
	percpu_counter_inc(counter);
	test_child_require(percpu_seq_cpu() < 0, "it has none");
	test_child_require(syscall(SYS_rseq, &other, sizeof(other), 0, PERCPU_SEQ_SIGNATURE) == 0,
			   "the kernel knows of none");
	test_unregister(&other);
	return arg;
}

static void areas_that_cannot_be_kept_are_taken_back(void **state)
{
	(void)state;
	run_fresh(keep_no_area);
}

static void *have_own_area(void *arg)
{
	if (__rseq_size != 0)
		test_child_require(test_unregister(area_of_libc()), "without libc's area");
	percpu_counter_inc(counter);
	test_child_require(percpu_seq_cpu() >= 0, "it has the library's");
	pthread_setspecific(key, &counter);
	return arg;
}

/* A signal handler that counts registers the area, and the thread goes on with the handler's
 * result. */
static void *be_interrupted(void *arg)
{
	if (__rseq_size != 0)
		test_child_require(test_unregister(area_of_libc()), "without libc's area");
	handler_counts = true;
	percpu_counter_inc(counter);
	test_child_require(!handler_counts, "a handler has counted");
	test_child_require(percpu_seq_cpu() >= 0, "the thread has sequences");
	test_child_require(percpu_thread()->state == PERCPU_THREAD_ATTACHED, "and remains so");
	test_child_require(percpu_counter_fetch(counter) == 2, "exact");
	pthread_setspecific(key, &counter);
	return arg;
}

static int end_with_own_area(void *arg)
{
	test_child_require(pthread_key_create(&key, at_the_end) == 0, "a key");
	was_registered = true;
	test_child_require(start_fresh(arg) == 0, "a thread");
	test_child_require(!was_registered, "nothing stays registered");
	return 0;
}

static void own_area_ends_with_its_thread(void **state)
{
	(void)state;
	test_need_sequences();
	fresh = have_own_area;
	test_in_child(end_with_own_area, NULL);
}

static void handler_and_thread_register_one_area(void **state)
{
	(void)state;
	test_need_sequences();
	fresh = be_interrupted;
	test_in_child(end_with_own_area, NULL);
}

#endif

/* Which threads have none. */

#ifndef PERCPU_NO_WRAP

static char stack[65536] __attribute__((aligned(64)));
static uint32_t may_end; /* atomic */
static pid_t starter;

/* The parent may have ended before the kernel is told to end this process with it. */
static int stay_beside(void *arg)
{
	(void)arg;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE) && syscall(SYS_getppid) == starter)
		syscall(SYS_sched_yield);
	return 0;
}

/* A child of vfork(), in a thread that has a clone beside it. */
static void *share_twice(void *arg)
{
	int status = -1;
	pid_t beside, pid;

	percpu_counter_inc(counter);
	test_child_require(percpu_seq_cpu() >= 0, "a thread has sequences");
	starter = getpid();
	beside = clone(stay_beside, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	test_child_require(beside > 0, "clone");
	test_child_require(percpu_seq_cpu() < 0, "none while it shares");
	pid = vfork();
	if (pid == 0) {
		percpu_counter_inc(counter);
		_exit(percpu_seq_cpu() >= 0);
	}
	test_child_require(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
			   "nor a child of vfork");
	test_child_require(percpu_seq_cpu() < 0, "the other child is still there");
	percpu_counter_inc(counter);
	test_child_require(percpu_seq_attach()->cpu_id < 0, "and no slow path attaches");
	__atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
	test_child_require(waitpid(beside, &status, 0) == beside && status == 0, "its end");
	test_child_require(percpu_counter_fetch(counter) == 3, "exact");
	return arg;
}

/* The child takes the thread's first slow path. */
static void *first_use_in_child(void *arg)
{
	int status = -1;
	pid_t pid = vfork();

	if (pid == 0) {
		percpu_counter_inc(counter);
		_exit(percpu_seq_attach()->cpu_id >= 0);
	}
	test_child_require(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
			   "a child does not attach");
	percpu_counter_inc(counter);
	test_child_require(percpu_seq_cpu() >= 0, "its parent does, afterwards");
	return arg;
}

/* CLONE_THREAD without shared signal handlers is refused. */
static void *clone_in_vain(void *arg)
{
	percpu_counter_inc(counter);
	errno = 0;
	test_child_require(
		clone(stay_beside, stack + sizeof(stack), CLONE_VM | CLONE_THREAD, NULL) == -1 &&
			errno == EINVAL,
		"a clone that is refused");
	test_child_require(percpu_seq_cpu() >= 0, "shares nothing");
	return arg;
}

static int count_as_child(void *arg)
{
	(void)arg;
	percpu_counter_inc(counter);
	return percpu_seq_cpu() >= 0;
}

/* The parent waits for the child, and shares nothing after that. */
static void *clone_and_wait(void *arg)
{
	int status = -1;
	pid_t pid;

	percpu_counter_inc(counter);
	pid = clone(count_as_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, arg);
	test_child_require(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
			   "a child without sequences");
	test_child_require(percpu_seq_cpu() >= 0, "its parent has them again");
	test_child_require(percpu_counter_fetch(counter) == 2, "exact");
	return arg;
}

static char own_tls[8192] __attribute__((aligned(64)));

/* Return 0 if clone() passed the argument and the thread-local storage on. */
static int look_at_tls(void *arg)
{
	const bool same = __builtin_thread_pointer() == (void *)&own_tls[4096];

	return stay_beside(arg) != 0 || !same || arg != own_tls;
}

/* A child with its own thread-local storage; all arguments are passed on. */
static void *clone_with_tls(void *arg)
{
	const int flags = CLONE_VM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
	pid_t parent_tid = 0, child_tid = 1, pid;
	void *tls = &own_tls[4096];
	int status = -1;

	percpu_counter_inc(counter);
	memcpy(tls, &tls, sizeof(tls)); /* on x86-64 it points to itself */
	starter = getpid();
	pid = clone(look_at_tls, stack + sizeof(stack), flags | SIGCHLD, own_tls, &parent_tid, tls,
		    &child_tid);
	test_child_require(pid > 0 && parent_tid == pid, "clone");
	test_child_require(percpu_seq_cpu() >= 0, "shares no thread-local storage");
	__atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
	test_child_require(waitpid(pid, &status, 0) == pid && status == 0, "it has its own");
	test_child_require(__atomic_load_n(&child_tid, __ATOMIC_ACQUIRE) == 0, "and ends so");
	return arg;
}

static int end_at_once(void *arg)
{
	return arg == &counter ? 0 : 1;
}

static void *clone_a_copy(void *arg)
{
	int status = -1;
	pid_t pid;

	percpu_counter_inc(counter);
	pid = clone(end_at_once, stack + sizeof(stack), SIGCHLD, &counter);
	test_child_require(pid > 0 && percpu_seq_cpu() >= 0, "a copy shares nothing");
	test_child_require(waitpid(pid, &status, 0) == pid && status == 0, "its end");
	return arg;
}

/* The limit of processes is reached, for a user with limits. */
static void *vfork_in_vain(void *arg)
{
	const struct rlimit none = { 0, 0 };
	int status = -1;
	pid_t pid;

	percpu_counter_inc(counter);
	test_child_require(syscall(SYS_setresuid, 54321, 54321, 54321) == 0 &&
				   setrlimit(RLIMIT_NPROC, &none) == 0,
			   "a user with limits");
	errno = 0;
	pid = vfork();
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		test_child_require(waitpid(pid, &status, 0) == pid, "not limited");
	else
		test_child_require(errno == EAGAIN, "refused");
	test_child_require(percpu_seq_cpu() >= 0, "shares nothing");
	return arg;
}

static void need_wrappers(void)
{
	if (test_address_sanitizer() || test_thread_sanitizer())
		test_skip("sanitizers have a vfork of their own");
}

static void sharing_is_counted(void **state)
{
	(void)state;
	need_wrappers();
	run_fresh(share_twice);
}

static void children_do_not_attach(void **state)
{
	(void)state;
	need_wrappers();
	run_fresh(first_use_in_child);
	run_fresh(clone_and_wait);
}

static void other_children_share_nothing(void **state)
{
	(void)state;
	need_wrappers();
	run_fresh(clone_with_tls);
	run_fresh(clone_a_copy);
}

static void refused_children_share_nothing(void **state)
{
	(void)state;
	need_wrappers();
	run_fresh(clone_in_vain);
	if (geteuid() == 0)
		run_fresh(vfork_in_vain);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_proves_nothing),
		cmocka_unit_test(first_add_keeps_errno),
#ifdef PERCPU_SEQ_SIGNATURE
		cmocka_unit_test(own_area_ends_with_its_thread),
		cmocka_unit_test(handler_and_thread_register_one_area),
		cmocka_unit_test(areas_that_cannot_be_kept_are_taken_back),
#endif
#ifndef PERCPU_NO_WRAP
		cmocka_unit_test(sharing_is_counted),
		cmocka_unit_test(children_do_not_attach),
		cmocka_unit_test(other_children_share_nothing),
		cmocka_unit_test(refused_children_share_nothing),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
