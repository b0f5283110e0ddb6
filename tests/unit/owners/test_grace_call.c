/* SPDX-License-Identifier: MIT */
/*
 * test_grace_call.c - test callbacks after grace periods: when they run, in which order, in which
 * thread, and in which process after a fork; barriers; fences and threads that fail.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/grace.h>
#include <percpu/percpu.h>

#include "faults.h"
#include "support.h"

#include "owners/grace.h"

#define FLAGS (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS)
#define MANY 100

struct item {
	struct percpu_grace_callback callback;
	unsigned number;
};

static struct percpu_grace *g;
static struct percpu_region *region;
static struct percpu_owners *owners;
static unsigned order[2 * MANY], ran; /* atomic */
static struct item items[MANY];
static unsigned fence_error, fences; /* atomic */

int __real_percpu_participants_fence(const struct percpu_participants *p);
int __wrap_percpu_participants_fence(const struct percpu_participants *p);
int __wrap_percpu_participants_fence(const struct percpu_participants *p)
{
	const int e = (int)__atomic_load_n(&fence_error, __ATOMIC_ACQUIRE);

	__atomic_fetch_add(&fences, 1, __ATOMIC_RELAXED);
	return e != 0 ? -e : __real_percpu_participants_fence(p);
}

static void begin_items(void)
{
	memset(items, 0, sizeof(items));
	fence_error = ran = 0;
	for (unsigned i = 0; i < MANY; i++)
		items[i].number = i;
}

static int begin(void **state)
{
	(void)state;
	begin_items();
	return percpu_grace_create(0, &g);
}

/* Destroy the grace periods. A test that failed may have left sections and callbacks. */
static int end(void **state)
{
	struct percpu_participants *p = &percpu_grace_handle(g)->part;

	(void)state;
	__atomic_store_n(&fence_error, 0, __ATOMIC_RELEASE);
	for (unsigned bank = 0; bank < PERCPU_BANKS && percpu_participants_self(p) != 0; bank++)
		percpu_participants_add(p, bank,
					(int32_t)(0 - percpu_participants_sum_own(p, bank)));
	for (unsigned i = 0; i < 2000 && percpu_grace_destroy(g) == -EBUSY; i++)
		test_sleep_us(1000);
	return 0;
}

static int begin_shared(void **state)
{
	(void)state;
	begin_items();
	return percpu_region_open(test_path("grace"), FLAGS, NULL, &region) ||
	       percpu_owners_open(region, 0, &owners) || percpu_grace_create_in(owners, 0, &g);
}

static int end_shared(void **state)
{
	(void)end(state);
	percpu_owners_destroy(owners);
	percpu_region_close(region);
	return unlink(test_path("grace"));
}

static void note(struct percpu_grace_callback *c)
{
	order[__atomic_fetch_add(&ran, 1, __ATOMIC_RELEASE)] = ((struct item *)(void *)c)->number;
}

static unsigned ran_by_now(void)
{
	return __atomic_load_n(&ran, __ATOMIC_ACQUIRE);
}

static void call(unsigned i, void (*fn)(struct percpu_grace_callback *))
{
	assert_int_equal(percpu_grace_call(g, &items[i].callback, fn), 0);
}

static void wait_for_callbacks(void)
{
	assert_int_equal(percpu_grace_barrier(g), 0);
}

static void they_run_in_order(void **state)
{
	(void)state;
	wait_for_callbacks(); /* for none */
	for (unsigned i = 0; i < MANY; i++)
		call(i, note);
	wait_for_callbacks();
	assert_int_equal(ran_by_now(), MANY);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(order[i], i);
	wait_for_callbacks();
}

static void they_run_after_sections(void **state)
{
	int token = percpu_grace_enter(g), later;

	(void)state;
	assert_true(token >= 0);
	call(0, note);
	call(1, note);
	test_sleep_us(3000);
	assert_int_equal(ran_by_now(), 0);
	later = percpu_grace_enter(g);
	assert_int_equal(percpu_grace_wait_timed(g, 0), -ETIMEDOUT); /* the period has begun */
	assert_int_equal(percpu_grace_destroy(g), -EBUSY);
	assert_int_equal(percpu_grace_exit(g, token), 0);
	assert_int_equal(percpu_grace_exit(g, later), 0);
	wait_for_callbacks();
	assert_int_equal(ran_by_now(), 2);
}

/* A callback that is queued during a period waits for the next one. It does not run with the
 * callbacks that wait for the period in progress. */
static void a_period_in_progress_is_no_use(void **state)
{
	const struct percpu_grace_handle *h = percpu_grace_handle(g);
	int old, new;

	(void)state;
	assert_int_equal(percpu_grace_wait(g), 0);
	old = percpu_grace_enter(g);
	call(0, note);
	for (unsigned i = 0; i < 20000 && percpu_grace_load(h) % 2 != 0; i++)
		test_sleep_us(100);
	new = percpu_grace_enter(g);
	call(1, note);
	assert_int_equal(percpu_grace_exit(g, old), 0);
	for (unsigned i = 0; i < 20000 && ran_by_now() == 0; i++)
		test_sleep_us(100);
	test_sleep_us(2000);
	assert_int_equal(ran_by_now(), 1);
	assert_int_equal(percpu_grace_exit(g, new), 0);
	wait_for_callbacks();
	assert_int_equal(ran_by_now(), 2);
}

static int barrier_result, destroy_result, wait_result;
static unsigned left;

static void call_again(struct percpu_grace_callback *c)
{
	note(c);
	if (--left != 0)
		(void)!percpu_grace_call(g, c, call_again);
}

static void do_what_may_not_be(struct percpu_grace_callback *c)
{
	barrier_result = percpu_grace_barrier(g);
	destroy_result = percpu_grace_destroy(g);
	wait_result = percpu_grace_wait(g);
	note(c);
}

static void free_item(struct percpu_grace_callback *c)
{
	free(c);
}

static void what_callbacks_may_do(void **state)
{
	struct percpu_grace_callback *c = malloc(sizeof(*c));

	(void)state;
	left = 3;
	call(0, call_again);
	for (unsigned i = 0; i < 1000 && ran_by_now() != 3;
	     i++) /* a barrier does not wait for a callback that is queued later */
		wait_for_callbacks();
	call(1, do_what_may_not_be);
	for (unsigned i = 0; i < 5000 && ran_by_now() != 4; i++)
		test_sleep_us(1000);
	assert_int_equal(ran_by_now(), 4);
	wait_for_callbacks();
	assert_int_equal(barrier_result, -EDEADLK);
	assert_int_equal(destroy_result, -EDEADLK);
	assert_int_equal(wait_result, 0);
	assert_non_null(c);
	assert_int_equal(percpu_grace_call(g, c, free_item), 0);
	wait_for_callbacks();
}

static sigset_t blocked;

static void ask_for_signals(struct percpu_grace_callback *c)
{
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	note(c);
}

static void their_thread_gets_no_signals(void **state)
{
	sigset_t here;

	(void)state;
	call(0, ask_for_signals);
	wait_for_callbacks();
	assert_int_equal(sigismember(&blocked, SIGUSR1), 1);
	assert_int_equal(sigismember(&blocked, SIGCHLD), 1);
	pthread_sigmask(SIG_SETMASK, NULL, &here);
	assert_int_equal(sigismember(&here, SIGUSR1), 0);
}

static void call_many(unsigned i, void *arg)
{
	(void)arg;
	for (unsigned n = 0; n < MANY / 4; n++)
		(void)!percpu_grace_call(g, &items[i * (MANY / 4) + n].callback, note);
}

/* The callbacks of each thread run in the order of its calls. */
static void threads_call(void **state)
{
	unsigned last[4] = { 0 };

	(void)state;
	test_team_run(4, call_many, NULL);
	wait_for_callbacks();
	assert_int_equal(ran_by_now(), MANY / 4 * 4);
	for (unsigned i = 0; i < MANY / 4 * 4; i++) {
		assert_int_equal(order[i] % (MANY / 4), last[order[i] / (MANY / 4)]++);
	}
}

static int results[2];

static void wait_twice(unsigned i, void *arg)
{
	(void)i, (void)arg;
	for (unsigned n = 0; n < 2; n++)
		__atomic_store_n(&results[n], percpu_grace_barrier(g), __ATOMIC_RELEASE);
}

static void fences_that_fail(void **state)
{
	struct test_team team;

	(void)state;
	results[0] = results[1] = 1;
	fences = 0;
	__atomic_store_n(&fence_error, EPERM, __ATOMIC_RELEASE);
	call(0, note);
	test_team_start(&team, 1, wait_twice, NULL);
	for (unsigned i = 0; i < 3000 && __atomic_load_n(&results[1], __ATOMIC_ACQUIRE) == 1; i++)
		test_sleep_us(1000);
	if (results[1] == 1)
		__atomic_store_n(&fence_error, 0, __ATOMIC_RELEASE);
	test_team_join(&team);
	assert_int_equal(results[0], -EPERM);
	assert_int_equal(results[1], -EPERM);
	assert_true(fences >= 2); /* the worker has tried again */
	assert_int_equal(ran_by_now(), 0);
	assert_int_equal(percpu_grace_destroy(g), -EBUSY);
	__atomic_store_n(&fence_error, 0, __ATOMIC_RELEASE);
	while (percpu_grace_barrier(g) != 0)
		;
	assert_int_equal(ran_by_now(), 1);
}

static void no_thread(void **state)
{
	static const struct {
		int kernel, expected;
	} errors[] = { { EAGAIN, -EAGAIN }, { ENOMEM, -ENOMEM }, { EINVAL, -EAGAIN } };

	(void)state;
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		fault_set(FAULT_PTHREAD_CREATE, 0, errors[i].kernel, false);
		assert_int_equal(percpu_grace_call(g, &items[i + 1].callback, note),
				 errors[i].expected);
		assert_int_equal(fault_clear(), 1);
	}
	wait_for_callbacks();
	assert_int_equal(ran_by_now(), 0);
	call(0, note);
	wait_for_callbacks();
	assert_int_equal(ran_by_now(), 1);
}

static int gate[2];

static void wait_at_gate(struct percpu_grace_callback *c)
{
	char byte;

	note(c);
	(void)!read(gate[0], &byte, 1);
}

/* If the handle cannot be freed, the worker goes on. */
static void who_does_not_end_runs_more(void **state)
{
	int (*const ends[])(struct percpu_grace *) = { percpu_grace_destroy, percpu_grace_detach };
	unsigned n = 0;

	(void)state;
	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	for (unsigned i = 0; i < 2; i++) {
		call(2 * i, wait_at_gate);
		n++;
		for (unsigned k = 0; k < 20000 && ran_by_now() != n; k++)
			test_sleep_us(100);
		assert_int_equal(ran_by_now(), n);
		assert_int_equal(ends[i](g), -EBUSY);
		assert_int_equal(write(gate[1], "x", 1), 1);
		wait_for_callbacks();
		test_sleep_us(20000); /* the worker sleeps with an empty queue */
		call(2 * i + 1, note);
		n++;
		for (unsigned k = 0; k < 3000 && ran_by_now() != n; k++)
			test_sleep_us(1000);
		assert_int_equal(ran_by_now(), n);
		wait_for_callbacks();
	}
	close(gate[0]);
	close(gate[1]);
}

/* Callbacks run also if the process has ended more sections than it began. */
static void they_run_in_spite_of_a_deficit(void **state)
{
	int token = percpu_grace_enter(g);

	(void)state;
	assert_true(token >= 0);
	assert_int_equal(percpu_grace_exit(g, token), 0);
	assert_int_equal(percpu_grace_exit(g, token), 0);
	call(0, note);
	wait_for_callbacks();
	assert_int_equal(ran_by_now(), 1);
	call(1, note);
	wait_for_callbacks();
	assert_int_equal(ran_by_now(), 2);
	assert_int_equal(percpu_grace_wait(g), 0);
}

static int run_the_rest(void *arg)
{
	const bool shared = percpu_grace_is_shared(percpu_grace_handle(g));

	(void)arg;
	test_alarm(30);
	test_child_require(ran == 1, "one had begun");
	fault_set(FAULT_PTHREAD_CREATE, 0, EAGAIN, false);
	test_child_require(percpu_grace_barrier(g) == (shared ? 0 : -EAGAIN), "no thread");
	test_child_require(fault_clear() == (shared ? 0 : 1) && ran == 1, "nothing ran");
	test_child_require(percpu_grace_barrier(g) == 0, "barrier");
	test_child_require(ran == (shared ? 1 : 3), "the rest ran");
	test_child_require(shared || (order[1] == 1 && order[2] == 2), "in order");
	test_child_require(percpu_grace_call(g, &items[5].callback, note) == 0, "call");
	test_child_require(percpu_grace_barrier(g) == 0, "barrier");
	test_child_require(order[ran - 1] == 5, "ran");
	return shared ? percpu_grace_detach(g) : percpu_grace_destroy(g);
}

static void *return_at_once(void *arg)
{
	return arg;
}

static void *read_gate(void *arg)
{
	char c;

	return read(gate[0], &c, 1) == 1 ? arg : NULL;
}

static int start_a_thread(void *arg)
{
	pthread_t t;

	(void)arg;
	return pthread_create(&t, NULL, return_at_once, NULL) != 0 || pthread_join(t, NULL) != 0;
}

/* Return whether a child of a process with threads can start threads. In qemu-user it cannot. */
static bool children_have_threads(void)
{
	pthread_t t;
	char c = 0;
	int status;

	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	assert_int_equal(pthread_create(&t, NULL, read_gate, NULL), 0);
	status = test_wait(test_fork(start_a_thread, NULL), 10);
	assert_int_equal(write(gate[1], &c, 1), 1);
	assert_int_equal(pthread_join(t, NULL), 0);
	close(gate[0]);
	close(gate[1]);
	return status == 0;
}

/* One callback runs, and two wait, when the process forks. Private ones that wait run in both
 * processes, and those in a region only in the parent. */
static void a_child_runs_those_that_wait(void **state)
{
	int status;

	(void)state;
	if (test_thread_sanitizer() || !children_have_threads())
		test_skip("no threads in children of fork here, as in qemu-user");
	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	call(0, wait_at_gate);
	call(1, note);
	call(2, note);
	for (unsigned i = 0; i < 20000 && ran_by_now() != 1; i++)
		test_sleep_us(100);
	status = test_wait(test_fork(run_the_rest, NULL), 10);
	assert_int_equal(ran_by_now(), 1);
	assert_int_equal(write(gate[1], "x", 1), 1);
	assert_int_equal(status, 0);
	wait_for_callbacks();
	assert_int_equal(ran_by_now(), 3);
	close(gate[0]);
	close(gate[1]);
}

static int call_twice(void *arg)
{
	struct percpu_grace_callback first, c;
	struct percpu_grace *d;
	int e;

	(void)arg;
	close(STDERR_FILENO);
	if (percpu_grace_create(PERCPU_GRACE_DEBUG, &d) != 0 || percpu_grace_enter(d) < 0)
		return 1;
	e = percpu_grace_call(d, &first, note);
	if (e == 0)
		e = percpu_grace_call(d, &c, note);
	return e != 0 ? e : percpu_grace_call(d, &c, note);
}

static void what_debugging_shows(void **state)
{
	int status = test_wait(test_fork(call_twice, NULL), 10);

	(void)state;
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

#define PRIVATE(test) cmocka_unit_test_setup_teardown(test, begin, end)
#define BETWEEN(test) cmocka_unit_test_setup_teardown(test, begin_shared, end_shared)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		PRIVATE(they_run_in_order),
		BETWEEN(they_run_in_order),
		PRIVATE(they_run_after_sections),
		BETWEEN(they_run_after_sections),
		PRIVATE(a_period_in_progress_is_no_use),
		PRIVATE(they_run_in_spite_of_a_deficit),
		BETWEEN(they_run_in_spite_of_a_deficit),
		PRIVATE(what_callbacks_may_do),
		PRIVATE(their_thread_gets_no_signals),
		PRIVATE(threads_call),
		PRIVATE(fences_that_fail),
		BETWEEN(fences_that_fail),
		PRIVATE(no_thread),
		PRIVATE(who_does_not_end_runs_more),
		BETWEEN(who_does_not_end_runs_more),
		PRIVATE(a_child_runs_those_that_wait),
		BETWEEN(a_child_runs_those_that_wait),
		cmocka_unit_test(what_debugging_shows),
	};

	test_tier();
	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
