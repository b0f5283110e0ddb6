/* SPDX-License-Identifier: MIT */
/*
 * test_rwlock.c - test read-mostly locks within a process: the order in which threads get the lock,
 * errors, signal handlers, forks. test_rwlock_between.c tests them between processes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/calls.h>
#include <percpu/percpu.h>
#include <percpu/rwlock.h>
#include <percpu/seq.h>

#include "model.h"
#include "steps.h"
#include "support.h"

#include "owners/rwlock.h"
#include "rwlock_calls.h"
#include "../thread_id.h"

#define MS UINT64_C(1000000)

static struct percpu_rwlock *l;
static int denied;		      /* an error of fences */
static const char *step;	      /* atomic: where `happens` is called, once */
static void (*happens)(void);	      /* stored before step */
static const char *awaited;	      /* atomic: the step that is counted */
static uint32_t came;		      /* atomic: how often that step came */
static uint32_t order, first, second; /* atomic: a counter; its value for the reader, the writer */

void test_step(const char *name)
{
	const char *at = __atomic_load_n(&step, __ATOMIC_ACQUIRE);
	const char *until = __atomic_load_n(&awaited, __ATOMIC_ACQUIRE);

	if (until != NULL && strcmp(name, until) == 0)
		__atomic_fetch_add(&came, 1, __ATOMIC_RELEASE);
	if (at != NULL && strcmp(name, at) == 0 &&
	    __atomic_compare_exchange_n(&step, &at, NULL, false, __ATOMIC_ACQ_REL,
					__ATOMIC_RELAXED))
		happens();
}

static void let_happen(void (*fn)(void), const char *where)
{
	happens = fn;
	__atomic_store_n(&step, where, __ATOMIC_RELEASE);
}

static void expect_step(const char *name)
{
	__atomic_store_n(&came, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&awaited, name, __ATOMIC_RELEASE);
}

/* Wait for the awaited step, for 3 s: only a bug lets it not come. */
static void await_step(void)
{
	for (unsigned n = 0; n < 30000 && __atomic_load_n(&came, __ATOMIC_ACQUIRE) == 0; n++)
		test_sleep_us(100);
	__atomic_store_n(&awaited, NULL, __ATOMIC_RELEASE);
}

int __real_percpu_region_fence(const struct percpu_region *r);
int __wrap_percpu_region_fence(const struct percpu_region *r);
int __wrap_percpu_region_fence(const struct percpu_region *r)
{
	return denied != 0 ? denied : __real_percpu_region_fence(r);
}

static int make(void **state)
{
	(void)state;
	order = first = second = 0;
	denied = 0;
	return percpu_rwlock_create(0, &l);
}

/* Destroy the lock. If a bug lets that succeed, leave no handle to the teardown. */
static int destroy(void)
{
	int e = percpu_rwlock_destroy(l);

	l = e == 0 ? NULL : l;
	return e;
}

/* Detach the lock. If a bug lets that succeed, leave no handle to the teardown. */
static int detach(void)
{
	int e = percpu_rwlock_detach(l);

	l = e == 0 ? NULL : l;
	return e;
}

static int drop(void **state)
{
	(void)state;
	(void)percpu_rwlock_destroy(l); /* a test that failed may leave it locked */
	return 0;
}

static uint64_t state_now(void)
{
	return percpu_rwlock_load_state(percpu_rwlock_handle(l));
}

static void readers_share(void **state)
{
	(void)state;
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	assert_int_equal(percpu_rwlock_read_trylock(l), 0);
	assert_int_equal(percpu_rwlock_read_timedlock(l, 0), 0);
	assert_int_equal(percpu_rwlock_read_lock_call(l), 0);
	assert_int_equal(percpu_rwlock_read_trylock_call(l), 0);
	assert_int_equal(percpu_rwlock_read_timedlock_call(l, 0), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_write_timedlock(l, MS), -ETIMEDOUT);
	for (int i = 0; i < 5; i++)
		assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_read_trylock(l), 0); /* it is open again */
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(destroy(), -EBUSY);
	assert_int_equal(detach(), -EBUSY);
	assert_int_equal(percpu_rwlock_read_unlock_call(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

static void writers_are_alone(void **state)
{
	(void)state;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(percpu_rwlock_read_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_read_timedlock(l, MS), -ETIMEDOUT);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EDEADLK);
	assert_int_equal(percpu_rwlock_write_timedlock(l, 0), -EDEADLK);
	assert_int_equal(percpu_rwlock_write_lock(l), -EDEADLK);
	assert_int_equal(percpu_rwlock_read_unlock(l), -EPERM);
	assert_int_equal(destroy(), -EBUSY);
	assert_int_equal(detach(), -EBUSY);
	assert_int_equal(percpu_rwlock_consistent(l), -EINVAL);
	assert_int_equal(percpu_rwlock_died(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), -EPERM);
	assert_int_equal(percpu_rwlock_write_timedlock(l, 0), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), -EPERM);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
}

static void who_has_it(void **state)
{
	struct percpu_rwlock_holder x = { .id = 1 };

	(void)state;
	assert_int_equal(percpu_rwlock_holders(l, &x, 1), 0);
	assert_int_equal(x.id, 1);
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	assert_int_equal(percpu_rwlock_holders(l, &x, 1), 1);
	assert_true(x.id == 0 && x.pid == (uint32_t)getpid() && x.stopped == 0);
	assert_true(x.reading == 2 && x.writing == 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(percpu_rwlock_holders(l, &x, 1), 1);
	assert_true(x.id == 0 && x.reading == 0 && x.writing == 1);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0); /* a count below 0 is no holder */
	assert_int_equal(percpu_rwlock_holders(l, &x, 1), 0);
}

/* A reader unlocks too often, and the next writer finds that. */
static void unlocked_too_often(void **state)
{
	(void)state;
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_timedlock(l, UINT64_C(4000) * MS), -EPROTO);
	assert_int_equal(state_now(), PERCPU_RWLOCK_OPEN);
	assert_int_equal(percpu_rwlock_write_unlock(l), -EPERM);
	readers_share(state);
	writers_are_alone(state);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EPROTO);
	assert_int_equal(percpu_rwlock_write_trylock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_destroy(l), 0);
	assert_int_equal(percpu_rwlock_create(0, &l), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(detach(), 0);
}

static void arguments(void **state)
{
	struct percpu_rwlock *other = NULL;

	(void)state;
	assert_int_equal(percpu_rwlock_create(1, &other), -EINVAL);
	assert_int_equal(percpu_rwlock_create(0, NULL), -EINVAL);
	assert_int_equal(percpu_rwlock_create_in(NULL, 0, &other), -EINVAL);
	assert_int_equal(percpu_rwlock_open(NULL, 0, 0, &other), -EINVAL);
	assert_int_equal(percpu_rwlock_attach(NULL, 1, 0, &other), -EINVAL);
	assert_null(other);
	assert_int_equal(percpu_rwlock_key(l), 0);
	assert_int_equal(percpu_rwlock_key(NULL), 0);
	assert_int_equal(percpu_rwlock_destroy(NULL), 0);
	assert_int_equal(percpu_rwlock_detach(NULL), 0);
	assert_int_equal(percpu_rwlock_write_lock(NULL), -EINVAL);
	assert_int_equal(percpu_rwlock_write_trylock(NULL), -EINVAL);
	assert_int_equal(percpu_rwlock_write_timedlock(NULL, 1), -EINVAL);
	assert_int_equal(percpu_rwlock_write_unlock(NULL), -EINVAL);
	assert_int_equal(percpu_rwlock_consistent(NULL), -EINVAL);
	assert_int_equal(percpu_rwlock_died(NULL), 0);
	assert_int_equal(percpu_rwlock_create(0, &other), 0);
	assert_int_equal(percpu_rwlock_detach(other), 0);
}

/* Unlock and lock on the CPU of this number. Thread 1 runs without sequences. */
static void unlock_elsewhere(unsigned i, void *arg)
{
	struct percpu_rseq without = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *own = percpu_seq_attach();
	int *failed = arg;

	test_pin(0, test_cpu(i % 2));
	if (i == 1)
		model_set_area(&without);
	if (percpu_rwlock_read_unlock(l) != 0 || percpu_rwlock_read_lock(l) != 0)
		__atomic_store_n(failed, 1, __ATOMIC_RELAXED);
	model_set_area(own);
}

static void others_may_unlock(void **state)
{
	int failed = 0;

	(void)state;
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	test_team_run(2, unlock_elsewhere, &failed);
	assert_int_equal(failed, 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

static void unlock_write(unsigned i, void *arg)
{
	(void)i;
	*(int *)arg = percpu_rwlock_write_unlock(l);
}

static void another_thread_may_unlock_a_write(void **state)
{
	int r = 1;

	(void)state;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	test_team_run(1, unlock_write, &r);
	assert_int_equal(r, 0);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

static uint32_t come(void)
{
	return __atomic_add_fetch(&order, 1, __ATOMIC_ACQ_REL);
}

static void read_once(unsigned i, void *arg)
{
	struct percpu_rseq without = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *own = percpu_seq_attach();

	(void)i;
	if (arg != NULL)
		model_set_area(&without);
	if (percpu_rwlock_read_timedlock(l, 4000 * MS) == 0) { /* a bug may leave the lock closed */
		__atomic_store_n(&first, come(), __ATOMIC_RELEASE);
		(void)percpu_rwlock_read_unlock(l);
	}
	model_set_area(own);
}

static void write_once(unsigned i, void *arg)
{
	(void)i, (void)arg;
	if (percpu_rwlock_write_lock(l) == 0) {
		__atomic_store_n(&second, come(), __ATOMIC_RELEASE);
		(void)percpu_rwlock_write_unlock(l);
	}
}

static void dawdle(void)
{
	test_sleep_us(5000);
}

/* Let a reader wait for a writer, and another writer behind both. The reader is slow to wake up. */
static void read_between_writes(void *without_sequences)
{
	struct test_team readers, writers;

	order = first = second = 0;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	expect_step("rwlock: a reader waits");
	test_team_start(&readers, 1, read_once, without_sequences);
	await_step();
	expect_step("rwlock: a writer waits");
	test_team_start(&writers, 1, write_once, NULL);
	await_step();
	let_happen(dawdle, "rwlock: a reader wakes");
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	test_team_join(&readers);
	test_team_join(&writers);
	assert_int_equal(first + second, 1 + 2);
}

/* The reader still reads before the next writer writes, unless it does not run for 0.1 s: on a busy
 * machine that happens, but not always. */
static void readers_come_before_the_next_writer(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		unsigned rounds = 0;

		do
			read_between_writes(i == 0 ? NULL : l);
		while (first != 1 && ++rounds < 20);
		assert_int_equal(first, 1);
	}
}

static void a_try_lets_readers_in(void **state)
{
	struct test_team readers;
	uint64_t after;

	(void)state;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	expect_step("rwlock: a reader waits");
	test_team_start(&readers, 1, read_once, NULL);
	await_step();
	let_happen(dawdle, "rwlock: a reader wakes");
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	after = state_now();
	test_team_join(&readers);
	assert_int_equal(after, PERCPU_RWLOCK_OPEN);
	assert_int_equal(percpu_rwlock_write_trylock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

/* A reader is inside, a writer waits, and another reader waits after it. The writer is next. */
static void writers_come_before_later_readers(void **state)
{
	struct test_team readers, writers;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		order = first = second = 0;
		assert_int_equal(percpu_rwlock_read_lock(l), 0);
		expect_step("participant: somebody is inside");
		test_team_start(&writers, 1, write_once, NULL);
		await_step();
		assert_int_equal(percpu_rwlock_read_trylock(l), -EBUSY);
		expect_step("rwlock: a reader waits");
		test_team_start(&readers, 1, read_once, i == 0 ? NULL : l);
		await_step();
		assert_int_equal(order, 0);
		assert_int_equal(percpu_rwlock_read_unlock(l), 0);
		test_team_join(&writers);
		test_team_join(&readers);
		assert_int_equal(second, 1);
		assert_int_equal(first, 2);
	}
}

/* A writer that gives up opens the lock to readers again. */
static void a_writer_that_gives_up(void **state)
{
	struct test_team readers;

	(void)state;
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	let_happen(dawdle, "participant: somebody is inside");
	assert_int_equal(percpu_rwlock_write_timedlock(l, MS), -ETIMEDOUT);
	assert_int_equal(state_now(), PERCPU_RWLOCK_OPEN);
	test_team_start(&readers, 1, read_once, NULL);
	test_team_join(&readers);
	assert_int_equal(first, 1);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	denied = -EPERM;
	assert_int_equal(percpu_rwlock_write_lock(l), -EPERM);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EPERM);
	assert_int_equal(state_now(), PERCPU_RWLOCK_OPEN);
	denied = 0;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

static uint32_t goes_on; /* atomic: the waiting reader may go on */

static void stop_in_the_queue(void)
{
	for (unsigned n = 0; n < 30000 && __atomic_load_n(&goes_on, __ATOMIC_ACQUIRE) == 0; n++)
		test_sleep_us(1000);
}

/* A waiting reader is stopped. A timed writer waits for it no longer than its time. */
static void a_timed_writer_waits_for_no_reader(void **state)
{
	uint64_t least = UINT64_MAX, begun, took;
	struct test_team team;
	int e = -ETIMEDOUT;

	(void)state;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	__atomic_store_n(&goes_on, 0, __ATOMIC_RELAXED);
	expect_step("rwlock: a reader waits");
	let_happen(stop_in_the_queue, "rwlock: a reader waits");
	test_team_start(&team, 1, read_once, NULL);
	await_step();
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	for (unsigned i = 0; i < 20 && e == -ETIMEDOUT && least > 60 * MS; i++) {
		begun = test_now();
		e = percpu_rwlock_write_timedlock(l, 5 * MS);
		took = test_now() - begun;
		least = took < least ? took : least;
	}
	__atomic_store_n(&goes_on, 1, __ATOMIC_RELEASE);
	if (e == 0)
		(void)!percpu_rwlock_write_unlock(l);
	test_team_join(&team);
	assert_int_equal(e, -ETIMEDOUT);
	assert_in_range(least, 5 * MS, 60 * MS);
}

static uint32_t unlocked_at;

static void unlock_slowly(unsigned i, void *arg)
{
	(void)i, (void)arg;
	await_step();
	test_sleep_us(3000);
	__atomic_store_n(&unlocked_at, come(), __ATOMIC_RELEASE);
	(void)percpu_rwlock_read_unlock(l);
}

static void a_writer_waits_for_readers(void **state)
{
	struct test_team t;

	(void)state;
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	expect_step("participant: somebody is inside");
	test_team_start(&t, 1, unlock_slowly, NULL);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(__atomic_load_n(&unlocked_at, __ATOMIC_ACQUIRE), order);
	assert_int_not_equal(order, 0);
	test_team_join(&t);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

/* The result of a try to read amid the steps of a writer. */
static int seen;

static void try_here(int signo)
{
	(void)signo;
	seen = percpu_rwlock_read_trylock(l);
	if (seen == 0)
		seen = percpu_rwlock_read_unlock(l);
}

static void raise_it(void)
{
	raise(SIGUSR1);
}

static void handlers_try(void **state)
{
	static const char *const closed[] = { "rwlock: closing", "participant: to be fenced",
					      "rwlock: writing", "rwlock: to be unlocked" };
	static const char *const open[] = { "rwlock: a writer", "rwlock: state handed on",
					    "rwlock: no writer" };
	struct sigaction before, act = { .sa_handler = try_here };

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &act, &before), 0);
	for (unsigned i = 0; i < 7; i++) {
		seen = 1;
		let_happen(raise_it, i < 4 ? closed[i] : open[i - 4]);
		assert_int_equal(percpu_rwlock_write_lock(l), 0);
		assert_int_equal(percpu_rwlock_write_unlock(l), 0);
		assert_int_equal(seen, i < 4 ? -EBUSY : 0);
	}
	sigaction(SIGUSR1, &before, NULL);
}

static void enter_now(void)
{
	struct percpu_rseq without = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *own = model_set_area(&without);

	seen = percpu_rwlock_read_trylock(l);
	model_set_area(own);
}

/* A thread without sequences tries to read at each step of a writer that does not wait. */
static void no_reader_is_overlooked(void **state)
{
	static const char *const steps[] = { "rwlock: a writer", "rwlock: closing",
					     "participant: to be fenced",
					     "participant: lanes of CPUs summed",
					     "rwlock: writing" };
	int r;

	(void)state;
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		let_happen(enter_now, steps[i]);
		r = percpu_rwlock_write_trylock(l);
		assert_int_equal(r == 0, seen != 0);
		if (r == 0)
			assert_int_equal(percpu_rwlock_write_unlock(l), 0);
		else
			assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	}
}

static int in_a_child(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_write_trylock(l) == -EBUSY, "held as in the parent");
	test_child_require(percpu_rwlock_read_unlock(l) == 0, "unlock");
	test_child_require(percpu_rwlock_write_lock(l) == 0, "write");
	test_child_require(percpu_rwlock_write_unlock(l) == 0, "unlock the write");
	return 0;
}

static void a_child_has_what_the_parent_had(void **state)
{
	(void)state;
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	test_in_child(in_a_child, NULL);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
}

static int whose_writer_is_elsewhere(void *arg)
{
	const int how = *(int *)arg;

	test_child_require(percpu_rwlock_read_unlock(l) == 0, "unlock");
	test_child_require(percpu_rwlock_holders(l, NULL, 0) == 0, "nobody holds it");
	if (how == 3)
		return percpu_rwlock_detach(l);
	if (how == 0)
		test_child_require(percpu_rwlock_read_timedlock(l, 4000 * MS) == 0, "read");
	if (how == 0)
		test_child_require(percpu_rwlock_read_unlock(l) == 0, "unlock the read");
	if (how == 1)
		test_child_require(percpu_rwlock_write_timedlock(l, 4000 * MS) == 0, "write");
	else
		test_child_require(percpu_rwlock_write_trylock(l) == 0, "try to write");
	test_child_require(percpu_rwlock_write_trylock(l) == -EDEADLK, "by this thread");
	return percpu_rwlock_write_unlock(l);
}

/* A writer of the parent that only waited has nothing in the child. */
static void a_child_has_no_writer_that_waited(void **state)
{
	struct test_team writers;

	(void)state;
	for (int how = 0; how < 4; how++) {
		assert_int_equal(percpu_rwlock_read_lock(l), 0);
		expect_step("participant: somebody is inside");
		test_team_start(&writers, 1, write_once, NULL);
		await_step();
		test_in_child(whose_writer_is_elsewhere, &how);
		assert_int_equal(percpu_rwlock_read_unlock(l), 0);
		test_team_join(&writers);
	}
}

static int write_again(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_write_timedlock(l, 0) == -EDEADLK, "write");
	test_child_require(percpu_rwlock_read_trylock(l) == -EBUSY, "read");
	test_child_require(percpu_rwlock_destroy(l) == -EBUSY, "held");
	test_child_require(percpu_rwlock_write_unlock(l) == 0, "unlock");
	test_child_require(percpu_rwlock_write_lock(l) == 0, "write anew");
	return percpu_rwlock_write_unlock(l);
}

static void a_child_has_what_the_thread_wrote(void **state)
{
	(void)state;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	test_in_child(write_again, NULL);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

static int misuse(void *arg)
{
	struct percpu_rwlock *debug;
	int fds[2];

	test_child_require(pipe(fds) == 0 && dup2(fds[1], STDERR_FILENO) >= 0, "pipe");
	test_child_require(percpu_rwlock_create(PERCPU_RWLOCK_DEBUG, &debug) == 0, "create");
	switch (*(unsigned *)arg) {
	case 0:
		(void)percpu_rwlock_read_unlock(debug);
		break;
	case 1:
		(void)!percpu_rwlock_read_lock(debug);
		(void)percpu_rwlock_write_unlock(debug);
		break;
	case 2:
		(void)!percpu_rwlock_write_lock(debug);
		(void)percpu_rwlock_read_unlock(debug);
		break;
	case 3:
		(void)!percpu_rwlock_read_lock(debug);
		(void)percpu_rwlock_read_unlock(debug);
		(void)percpu_rwlock_read_unlock(debug);
		break;
	}
	return 0;
}

static void debug_handles_complain(void **state)
{
	struct percpu_rwlock *debug = NULL;
	int status;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		status = test_wait(test_fork(misuse, &i), 10);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	}
	assert_int_equal(percpu_rwlock_create(PERCPU_RWLOCK_DEBUG, &debug), 0);
	assert_null(debug->in.cell);
	assert_int_equal(percpu_rwlock_read_lock(debug), 0);
	assert_int_equal(percpu_rwlock_read_trylock(debug), 0);
	assert_int_equal(percpu_rwlock_read_unlock(debug), 0);
	assert_int_equal(percpu_rwlock_destroy(debug), -EBUSY);
	assert_int_equal(percpu_rwlock_read_unlock(debug), 0);
	assert_int_equal(percpu_rwlock_write_lock(debug), 0);
	assert_int_equal(percpu_rwlock_write_trylock(debug), -EDEADLK);
	assert_int_equal(percpu_rwlock_write_unlock(debug), 0);
	assert_int_equal(percpu_rwlock_destroy(debug), 0);
}

/* A thread without an id must not write: it could not be told from other such threads. */
static void nobody_writes_without_an_id(void **state)
{
	struct percpu_rwlock *debug = NULL;

	(void)state;
	assert_int_equal(percpu_rwlock_create(PERCPU_RWLOCK_DEBUG, &debug), 0);
	thread_id = -EPERM;
	no_call_writes(l, -EPERM);
	no_call_writes(debug, -EPERM);
	thread_id = -ENOSYS;
	no_call_writes(l, -ENOSYS);
	thread_id = 0;
	assert_int_equal(percpu_rwlock_read_trylock(l), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_destroy(debug), 0);
}

/* A writer ends, and leaves the lock for another thread to unlock. The kernel gives the writer's id
 * to a third thread. */
static void who_has_the_id_of_a_writer_waits(void **state)
{
	(void)state;
	test_team_run(1, write_and_end, l);
	assert_int_equal(timed, 0);
	assert_int_equal(tried, -EDEADLK);
	test_team_run(1, try_as_another, l);
	assert_int_equal(tried, -EBUSY);
	assert_int_equal(timed, -ETIMEDOUT);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

static struct percpu_rwlock *checked;

static int unlock_so_often(void *arg)
{
	const unsigned how = *(unsigned *)arg;
	int fds[2];

	test_child_require(pipe(fds) == 0 && dup2(fds[1], STDERR_FILENO) >= 0, "pipe");
	for (unsigned i = 0; i <= how / 2; i++)
		test_child_require((how % 2 == 0 ? percpu_rwlock_read_unlock(checked) :
						   percpu_rwlock_write_unlock(checked)) == 0,
				   "unlock");
	test_child_require(percpu_rwlock_write_lock(checked) == 0, "write");
	test_child_require(percpu_rwlock_write_unlock(checked) == 0, "unlock");
	return percpu_rwlock_destroy(checked);
}

static int passed;

static void pass_through(void)
{
	struct percpu_rseq without = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *own;

	passed = percpu_rwlock_read_lock(checked);
	own = model_set_area(&without);
	passed |= percpu_rwlock_read_unlock(checked);
	model_set_area(own);
}

static int unlock_amid(void *arg)
{
	(void)arg;
	let_happen(pass_through, "participant: lanes of CPUs summed");
	test_child_require(percpu_rwlock_read_unlock(checked) == 0 && passed == 0, "unlock");
	return 0;
}

/* During the sum another thread locks in a lane that was read, and unlocks in one that was not. */
static void debug_handles_sum_once_more(void **state)
{
	(void)state;
	assert_int_equal(percpu_rwlock_create(PERCPU_RWLOCK_DEBUG, &checked), 0);
	assert_int_equal(percpu_rwlock_read_lock(checked), 0);
	assert_int_equal(test_wait(test_fork(unlock_amid, NULL), 10), 0);
	assert_int_equal(percpu_rwlock_read_unlock(checked), 0);
	assert_int_equal(percpu_rwlock_destroy(checked), 0);
}

/* A child holds the lock as often as the parent did: it can unlock so often, and no more. */
static void debug_handles_know_of_forks(void **state)
{
	int status;

	(void)state;
	for (unsigned how = 0; how < 4; how++) {
		assert_int_equal(percpu_rwlock_create(PERCPU_RWLOCK_DEBUG, &checked), 0);
		if (how % 2 == 0)
			assert_int_equal(percpu_rwlock_read_lock(checked), 0);
		else
			assert_int_equal(percpu_rwlock_write_lock(checked), 0);
		status = test_wait(test_fork(unlock_so_often, &how), 10);
		if (how / 2 == 0)
			assert_int_equal(status, 0);
		else
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		if (how % 2 == 0)
			assert_int_equal(percpu_rwlock_read_unlock(checked), 0);
		else
			assert_int_equal(percpu_rwlock_write_unlock(checked), 0);
		assert_int_equal(percpu_rwlock_destroy(checked), 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(readers_share),
		TEST(writers_are_alone),
		TEST(who_has_it),
		TEST(unlocked_too_often),
		TEST(arguments),
		TEST(others_may_unlock),
		TEST(another_thread_may_unlock_a_write),
		TEST(readers_come_before_the_next_writer),
		TEST(a_try_lets_readers_in),
		TEST(writers_come_before_later_readers),
		TEST(a_writer_that_gives_up),
		TEST(a_timed_writer_waits_for_no_reader),
		TEST(a_writer_waits_for_readers),
		TEST(handlers_try),
		TEST(no_reader_is_overlooked),
		TEST(a_child_has_what_the_parent_had),
		TEST(a_child_has_no_writer_that_waited),
		TEST(a_child_has_what_the_thread_wrote),
		TEST(debug_handles_complain),
		TEST(nobody_writes_without_an_id),
		TEST(who_has_the_id_of_a_writer_waits),
		TEST(debug_handles_sum_once_more),
		TEST(debug_handles_know_of_forks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
