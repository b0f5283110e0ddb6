/* SPDX-License-Identifier: MIT */
/*
 * as_before.c - state that each test must leave unchanged: the thread's signal mask, its
 * cancellation, the lock that the kernel would release if the thread died now, and the number of
 * descriptors. It finds a failing call that keeps one of these, which its test does not look at.
 * The linker puts this before cmocka's function.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"

static struct test {
	const struct CMUnitTest *own;
	struct state {
		sigset_t signals;
		int cancel_state;
		int cancel_type;
		void *pending; /* list_op_pending, see set_robust_list(2) */
		unsigned fds;
	} before;
} * current;

static bool may_leave_descriptors;
static unsigned left; /* number of tests that left something */

void test_may_leave_descriptors(void)
{
	may_leave_descriptors = true;
}

static struct state state_now(void)
{
	struct state s = { .pending = NULL, .fds = test_holding_now().fds };
	struct robust_list_head *head = NULL;
	size_t size;

	pthread_sigmask(SIG_BLOCK, NULL, &s.signals);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &s.cancel_state);
	pthread_setcancelstate(s.cancel_state, NULL);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &s.cancel_type);
	pthread_setcanceltype(s.cancel_type, NULL);
	if (syscall(SYS_get_robust_list, 0, &head, &size) == 0 && head != NULL)
		s.pending = head->list_op_pending;
	return s;
}

static bool has_other_signals(const sigset_t *a, const sigset_t *b)
{
	for (int signo = 1; signo < NSIG; signo++)
		if (sigismember(a, signo) != sigismember(b, signo))
			return true;
	return false;
}

static int set_up(void **state)
{
	current = *state;
	*state = current->own->initial_state;
	may_leave_descriptors = false;
	current->before = state_now();
	return current->own->setup_func != NULL ? current->own->setup_func(state) : 0;
}

static int tear_down(void **state)
{
	const int e = current->own->teardown_func != NULL ? current->own->teardown_func(state) : 0;
	const struct state *before = &current->before, now = state_now();
	const char *what = has_other_signals(&before->signals, &now.signals) ? "blocked signals" :
			   before->cancel_state != now.cancel_state ? "another cancel state" :
			   before->cancel_type != now.cancel_type   ? "another cancel type" :
			   before->pending != now.pending	    ? "a lock of its own" :
			   before->fds < now.fds && !may_leave_descriptors ? "descriptors" :
									     NULL;

	if (what != NULL) {
		fprintf(stderr, "[  FAILED  ] %s: leaves %s\n", current->own->name, what);
		left++;
	}
	return e;
}

bool test_was_skipped;

void __real__skip(const char *file, int line);
void __wrap__skip(const char *file, int line);
void __wrap__skip(const char *file, int line)
{
	test_was_skipped = may_leave_descriptors = true;
	__real__skip(file, line);
}

int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n,
				   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n,
				   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n,
				   CMFixtureFunction setup, CMFixtureFunction teardown)
{
	struct CMUnitTest *copies = calloc(n, sizeof(*copies));
	struct test *all = calloc(n, sizeof(*all));
	int failed;

	if (copies == NULL || all == NULL)
		abort();
	for (size_t i = 0; i < n; i++) {
		all[i].own = &tests[i];
		copies[i] = (struct CMUnitTest){ tests[i].name, tests[i].test_func, set_up,
						 tear_down, &all[i] };
	}
	failed = __real__cmocka_run_group_tests(name, copies, n, setup, teardown);
	free(copies);
	free(all);
	return failed + (int)left;
}
