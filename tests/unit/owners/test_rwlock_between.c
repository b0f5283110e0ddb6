/* SPDX-License-Identifier: MIT */
/*
 * test_rwlock_between.c - test read-mostly locks between processes: readers and writers that are
 * killed at each step, that stop, that fork; which process is told; and when the lock is lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/rwlock.h>

#include "model.h"
#include "support.h"

#include "cpu/cpu.h"
#include "owners/rwlock.h"
#include "../owners.h"
#include "rwlock_calls.h"
#include "../thread_id.h"

#define ROOT 3
#define MS UINT64_C(1000000)

static struct percpu_rwlock *l;
static struct percpu_rseq without = { .cpu_id = PERCPU_CPU_NEVER };
static unsigned mistake;
static const char *script;

static int begin(void **state)
{
	int e = begin_owners(state);

	return e != 0 ? e : percpu_rwlock_open(owners, ROOT, 0, &l);
}

static int end(void **state)
{
	(void)percpu_rwlock_destroy(l); /* a test that failed may leave it locked */
	return end_owners(state);
}

/* Destroy the lock. If a bug lets that succeed, leave no handle to the teardown. */
static int destroy(void)
{
	int e = percpu_rwlock_destroy(l);

	l = e == 0 ? NULL : l;
	return e;
}

static struct percpu_rwlock_handle *handle(void)
{
	return percpu_rwlock_handle(l);
}

static int read_and_stay(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_read_lock(l) == 0, "read");
	return stay();
}

static int read_with_atomics_and_stay(void *arg)
{
	(void)arg;
	model_set_area(&without);
	test_child_require(percpu_rwlock_read_lock(l) == 0, "read");
	(void)percpu_rwlock_read_unlock(l);
	return stay();
}

static int write_and_stay(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_write_lock(l) == 0, "write");
	return stay();
}

static int write_and_unlock(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_write_lock(l) == 0, "write");
	test_child_require(percpu_rwlock_write_unlock(l) == 0, "unlock");
	return stay();
}

static int read_to_repair(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_read_timedlock(l, 4000 * MS) == -EOWNERDEAD, "told");
	return stay();
}

static int read_and_decline(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_read_timedlock(l, 4000 * MS) == -EOWNERDEAD, "told");
	test_child_require(percpu_rwlock_read_unlock(l) == 0, "unlock");
	return stay();
}

static int write_to_repair(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_write_lock(l) == -EOWNERDEAD, "told");
	return stay();
}

static int write_and_leave(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_write_lock(l) == 0, "write");
	percpu_owners_leave(owners);
	return stay();
}

static void stop_at(const char *where, int (*fn)(void *))
{
	stop(start_until(where, fn, 0));
}

static void expect_usable(void)
{
	assert_int_equal(percpu_rwlock_read_timedlock(l, 0), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(percpu_rwlock_read_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

/* Expect that the next lock, for reading or writing, is told of a dead writer. Make the lock
 * consistent. */
static void expect_writer_dead(bool to_read)
{
	if (to_read) {
		assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), -EOWNERDEAD);
		assert_int_equal(percpu_rwlock_died(l), PERCPU_RWLOCK_WRITER_DIED);
		assert_int_equal(percpu_rwlock_read_trylock(l), -EBUSY); /* it reads alone */
		assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
		assert_int_equal(percpu_rwlock_consistent(l), 0);
		assert_int_equal(percpu_rwlock_consistent(l), -EINVAL);
		assert_int_equal(percpu_rwlock_read_trylock(l), 0);
		assert_int_equal(percpu_rwlock_read_unlock(l), 0);
		assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
		assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	} else {
		assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
		assert_int_equal(percpu_rwlock_died(l), PERCPU_RWLOCK_WRITER_DIED);
		assert_int_equal(percpu_rwlock_read_trylock(l), -EBUSY);
		assert_int_equal(percpu_rwlock_consistent(l), 0);
		assert_int_equal(percpu_rwlock_consistent(l), -EINVAL);
		assert_int_equal(percpu_rwlock_read_trylock(l), -EBUSY);
		assert_int_equal(percpu_rwlock_died(l), 0);
		assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	}
	expect_usable();
}

static void expect_readers_dead(void)
{
	assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
	assert_int_equal(percpu_rwlock_died(l), PERCPU_RWLOCK_READERS_DIED);
	assert_int_equal(percpu_rwlock_consistent(l), 0);
	assert_int_equal(percpu_rwlock_died(l), 0);
	assert_int_equal(percpu_rwlock_consistent(l), -EINVAL);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_died(l), 0);
	expect_usable();
}

static void writers_are_killed_without_the_lock(void **state)
{
	static const char *const steps[] = {
		"participant: recorded",     "rwlock: a writer",	"rwlock: closing",
		"participant: to be fenced", "rwlock: state handed on", "rwlock: no writer",
	};

	(void)state;
	/* At the first step the writer has the lock of the records. */
	for (unsigned i = percpu_robust_supported() ? 0 : 1; i < sizeof(steps) / sizeof(steps[0]);
	     i++) {
		stop_at(steps[i], write_and_unlock);
		assert_int_equal(percpu_rwlock_write_lock(l), 0);
		assert_int_equal(percpu_rwlock_write_unlock(l), 0);
		stop_at(steps[i], write_and_unlock);
		assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), 0);
		assert_int_equal(percpu_rwlock_read_unlock(l), 0);
		stop_at(steps[i], write_and_unlock);
		assert_int_equal(percpu_rwlock_read_timedlock(l, 0), 0);
		assert_int_equal(percpu_rwlock_read_unlock(l), 0);
		stop_at(steps[i], write_and_unlock);
		assert_int_equal(percpu_rwlock_write_trylock(l), 0);
		assert_int_equal(percpu_rwlock_write_unlock(l), 0);
		expect_usable();
	}
}

static void writers_are_killed_with_the_lock(void **state)
{
	static const char *const steps[] = { "rwlock: writing", "rwlock: to be unlocked" };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		stop_at(steps[i % 2], write_and_unlock);
		expect_writer_dead(i / 2);
	}
	stop(start(write_and_stay, 0));
	expect_writer_dead(false);
	stop(start(write_and_leave, 0));
	expect_writer_dead(true);
}

static pid_t to_be_killed;

static void kill_it(void)
{
	stop(to_be_killed);
}

/* A holder dies while this process waits. */
static void who_waits_notices(void **state)
{
	(void)state;
	to_be_killed = start(write_and_stay, 0);
	deadly = "rwlock: a reader waits";
	meanwhile = kill_it;
	assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), -EOWNERDEAD);
	assert_null(deadly);
	assert_int_equal(percpu_rwlock_consistent(l), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	to_be_killed = start(write_and_stay, 0);
	deadly = "rwlock: a writer waits";
	meanwhile = kill_it;
	assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
	assert_int_equal(percpu_rwlock_consistent(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	to_be_killed = start(read_and_stay, 0);
	deadly = "participant: somebody is inside";
	meanwhile = kill_it;
	assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
	assert_int_equal(percpu_rwlock_died(l), PERCPU_RWLOCK_READERS_DIED);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	expect_usable();
}

static int write_and_tell(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_write_lock(l) == 0, "write");
	reach(1);
	await(0, 2);
	test_child_require(percpu_rwlock_write_unlock(l) == 0, "unlock");
	reach(3);
	await(0, 4); /* this process is killed before */
	return 0;
}

static int write_instead(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_write_timedlock(l, 4000 * MS) == -EOWNERDEAD, "write");
	return stay();
}

static pid_t instead;

static void leave_and_kill_it(void)
{
	percpu_owners_leave(owners);
	kill_it();
}

static void leave_to_another(void)
{
	leave_and_kill_it();
	instead = start(write_instead, 0);
}

static int expect_busy(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_write_timedlock(l, 0) == -ETIMEDOUT, "write");
	test_child_require(percpu_rwlock_write_trylock(l) == -EBUSY, "try to write");
	return 0;
}

/* Another thread leaves the owners meanwhile. The waiting thread then waits as another owner. */
static void who_leaves_begins_anew(void **state)
{
	(void)state;
	to_be_killed = start(write_and_stay, 0);
	deadly = "rwlock: a writer waits";
	meanwhile = leave_and_kill_it;
	assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
	test_in_child(expect_busy, NULL);
	assert_int_equal(percpu_rwlock_consistent(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	to_be_killed = start(write_and_stay, 0);
	deadly = "rwlock: a reader waits";
	meanwhile = leave_and_kill_it;
	assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), -EOWNERDEAD);
	test_in_child(expect_busy, NULL);
	assert_int_equal(percpu_rwlock_consistent(l), 0);
	test_in_child(expect_busy, NULL);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	expect_usable();
	/* This process leaves when it is about to write, and another one takes its place. */
	to_be_killed = start(read_and_stay, 0);
	deadly = "participant: somebody is inside";
	meanwhile = leave_to_another;
	assert_int_equal(percpu_rwlock_write_timedlock(l, MS), -ETIMEDOUT);
	assert_int_equal(percpu_rwlock_read_timedlock(l, 0), -ETIMEDOUT);
	stop(instead);
	assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
	assert_int_equal(percpu_rwlock_consistent(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	expect_usable();
}

static void leave_to_a_writer(void)
{
	percpu_owners_leave(owners);
	instead = start(write_and_tell, 0);
}

/* This process has just become the writer when another thread leaves the owners. Another process
 * gets the lock, and keeps it. */
static void who_has_left_changes_nothing(void **state)
{
	(void)state;
	deadly = "rwlock: a writer";
	meanwhile = leave_to_a_writer;
	assert_int_equal(percpu_rwlock_write_timedlock(l, MS), -ETIMEDOUT);
	assert_null(deadly);
	reach(2);
	await(instead, 3);
	assert_int_equal(percpu_rwlock_write_timedlock(l, 4000 * MS), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	stop(instead);
	expect_usable();
}

static void lose(void)
{
	handle()->p.control->state = PERCPU_RWLOCK_LOST;
}

/* The lock is lost after this thread has loaded the state, and before it becomes the writer. */
static void what_is_lost_meanwhile_stays_lost(void **state)
{
	(void)state;
	deadly = "rwlock: a writer comes";
	meanwhile = lose;
	assert_int_equal(percpu_rwlock_write_timedlock(l, 4000 * MS), -ENOTRECOVERABLE);
	assert_null(deadly);
	assert_int_equal(percpu_rwlock_write_trylock(l), -ENOTRECOVERABLE);
	handle()->p.control->state = PERCPU_RWLOCK_OPEN;
	stop(start(write_and_stay, 0));
	deadly = "rwlock: writer found dead";
	meanwhile = lose;
	assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), -ENOTRECOVERABLE);
	assert_null(deadly);
	assert_int_equal(percpu_rwlock_write_trylock(l), -ENOTRECOVERABLE);
}

static void readers_are_killed(void **state)
{
	(void)state;
	stop(start(read_and_stay, 0));
	assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), 0); /* only writers are told */
	assert_int_equal(percpu_rwlock_died(l), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	expect_readers_dead();
	stop(start(read_and_stay, 0));
	assert_int_equal(percpu_rwlock_write_trylock(l), -EOWNERDEAD);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	stop_at("participant: counted", read_with_atomics_and_stay);
	expect_readers_dead();
	stop_at("participant: left", read_with_atomics_and_stay);
	expect_usable();
}

/* A writer that finds dead readers is killed before its call returns. The next writer is told. */
static void news_are_not_lost(void **state)
{
	static const char *const steps[] = { "participant: death noted", "participant: dropped",
					     "rwlock: writing", "rwlock: to be told of readers" };
	unsigned died;

	(void)state;
	/* Take a slot first. The dead reader's slot then goes to the next writer, which drops its
	 * count. */
	assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	for (unsigned i = percpu_robust_supported() ? 0 : 2; i < 4; i++) {
		stop(start(read_and_stay, 0));
		stop_at(steps[i], write_and_unlock);
		assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
		died = percpu_rwlock_died(l);
		assert_int_equal(died,
				 i < 2 ? PERCPU_RWLOCK_READERS_DIED :
					 PERCPU_RWLOCK_READERS_DIED | PERCPU_RWLOCK_WRITER_DIED);
		assert_int_equal(percpu_rwlock_consistent(l), 0);
		assert_int_equal(percpu_rwlock_died(l), 0);
		assert_int_equal(percpu_rwlock_consistent(l), -EINVAL);
		assert_int_equal(percpu_rwlock_write_unlock(l), 0);
		expect_usable();
	}
}

static void who_repairs_is_killed(void **state)
{
	static int (*const repairs[])(void *) = { read_to_repair, write_to_repair };
	static const char *const steps[] = { NULL, "rwlock: a reader repairs",
					     "rwlock: a writer repairs",
					     "rwlock: writer found dead" };

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		if ((i / 2 == 1 && i % 2 == 1) || (i / 2 == 2 && i % 2 == 0))
			continue;
		stop(start(write_and_stay, 0));
		stop_at(steps[i / 2], repairs[i % 2]);
		assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
		assert_true(percpu_rwlock_died(l) & PERCPU_RWLOCK_WRITER_DIED);
		assert_int_equal(percpu_rwlock_consistent(l), 0);
		assert_int_equal(percpu_rwlock_write_unlock(l), 0);
		expect_usable();
	}
}

static int expect_no_news(void *arg)
{
	(void)arg;
	return percpu_rwlock_died(l) != 0;
}

/* A reader is only told of a dead writer. A process without the lock is told of nothing. */
static void who_was_told_knows(void **state)
{
	(void)state;
	stop(start(read_and_stay, 0));
	stop_at("rwlock: to be told of readers", write_and_unlock);
	assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), -EOWNERDEAD);
	assert_int_equal(percpu_rwlock_died(l), PERCPU_RWLOCK_WRITER_DIED);
	test_in_child(expect_no_news, NULL);
	assert_int_equal(percpu_rwlock_consistent(l), 0);
	assert_int_equal(percpu_rwlock_died(l), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_died(l), 0);
	expect_readers_dead();
	stop(start(read_and_stay, 0));
	assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
	assert_int_equal(percpu_rwlock_died(l), PERCPU_RWLOCK_READERS_DIED);
	test_in_child(expect_no_news, NULL);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

static int be_told(void *arg)
{
	const bool to_read = arg != NULL;
	int e;

	reach(1);
	e = to_read ? percpu_rwlock_read_timedlock(l, 4000 * MS) :
		      percpu_rwlock_write_timedlock(l, 4000 * MS);
	test_child_require(e == -EOWNERDEAD, "told");
	test_child_require(percpu_rwlock_died(l) == PERCPU_RWLOCK_WRITER_DIED, "of a writer");
	e = to_read ? percpu_rwlock_read_unlock(l) : percpu_rwlock_consistent(l);
	test_child_require(e == 0, "declined, or repaired");
	return to_read ? 0 : percpu_rwlock_write_unlock(l);
}

static void readers_may_decline(void **state)
{
	pid_t waiting;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		stop(start(write_and_stay, 0));
		for (unsigned n = 0; n < 2; n++) {
			assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), -EOWNERDEAD);
			assert_int_equal(percpu_rwlock_read_unlock(l), 0);
			assert_int_equal(percpu_rwlock_read_unlock(l), -EPERM);
			assert_int_equal(percpu_rwlock_consistent(l), -EINVAL);
		}
		assert_int_equal(percpu_rwlock_read_trylock(l), -EBUSY);
		assert_int_equal(percpu_rwlock_read_timedlock(l, 0), -EOWNERDEAD);
		waiting = start(be_told, i == 0); /* which declines, too, or repairs */
		assert_int_equal(percpu_rwlock_read_unlock(l), 0);
		assert_int_equal(test_wait(waiting, 60), 0);
		if (i == 0)
			expect_writer_dead(false);
		else
			expect_usable();
	}
	stop(start(write_and_stay, 0));
	assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), -EOWNERDEAD);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EOWNERDEAD);
	assert_int_equal(percpu_rwlock_consistent(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	expect_usable();
}

static void who_declines_is_killed(void **state)
{
	static const char *const steps[] = { "rwlock: a reader declines", "rwlock: state handed on",
					     "rwlock: no writer", NULL };

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		stop(start(write_and_stay, 0));
		stop_at(steps[i / 2], read_and_decline);
		expect_writer_dead(i % 2 != 0);
	}
}

static int unlock_too_often(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_read_timedlock(l, 4000 * MS) == 0, "read");
	for (unsigned i = 0; i < 3; i++)
		test_child_require(percpu_rwlock_read_unlock(l) == 0, "unlock");
	return stay();
}

/* Another process unlocks too often. That hides no reader, and its count is set to 0. */
static void who_unlocks_too_often(void **state)
{
	pid_t pid = start(unlock_too_often, 0);

	(void)state;
	assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), 0);
	assert_int_equal(percpu_rwlock_write_timedlock(l, 0), -ETIMEDOUT);
	assert_int_equal(percpu_rwlock_detach(l), -EBUSY);
	assert_int_equal(destroy(), -EBUSY);
	assert_int_equal(percpu_rwlock_read_unlock_slow(l), 0);
	assert_int_equal(percpu_rwlock_write_lock(l), -EPROTO);
	assert_int_equal(percpu_rwlock_write_unlock(l), -EPERM);
	expect_usable();
	stop(pid);
	expect_usable();
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EPROTO);
	expect_usable();
	/* A process that dies with a negative count does not count as a dead reader. */
	stop(start(unlock_too_often, 0));
	assert_int_equal(percpu_rwlock_write_lock(l), -EPROTO);
	expect_usable();
}

static int expect_lost(void *arg)
{
	(void)arg;
	reach(1);
	test_child_require(percpu_rwlock_read_timedlock(l, 4000 * MS) == -ENOTRECOVERABLE, "read");
	test_child_require(percpu_rwlock_read_trylock(l) == -ENOTRECOVERABLE, "read try");
	test_child_require(percpu_rwlock_write_lock(l) == -ENOTRECOVERABLE, "write");
	test_child_require(percpu_rwlock_write_trylock(l) == -ENOTRECOVERABLE, "write try");
	test_child_require(percpu_rwlock_read_timedlock(l, MS) == -ENOTRECOVERABLE, "timed");
	test_child_require(percpu_rwlock_read_unlock(l) == -EPERM, "unlock");
	test_child_require(percpu_rwlock_write_unlock(l) == -EPERM, "unlock the write");
	test_child_require(percpu_rwlock_consistent(l) == -EINVAL, "too late");
	return 0;
}

/* Replace a lost lock as docs/owners/rwlock.md says. */
static void replace_lost(void)
{
	const uint64_t lost = percpu_rwlock_key(l);
	struct percpu_rwlock *next = NULL, *late = NULL;

	assert_int_equal(percpu_rwlock_create_in(owners, 0, &next), 0);
	assert_int_equal(percpu_rwlock_write_lock(next), 0);
	assert_int_equal(percpu_region_set_root(region, ROOT, lost, percpu_rwlock_key(next)), 0);
	assert_int_equal(percpu_region_set_root(region, ROOT, lost, 1), -EEXIST);
	assert_int_equal(percpu_rwlock_open(owners, ROOT, 0, &late), 0);
	assert_int_equal(percpu_rwlock_read_trylock(late), -EBUSY);
	assert_int_equal(percpu_rwlock_write_unlock(next), 0);
	assert_int_equal(percpu_rwlock_read_trylock(late), 0);
	assert_int_equal(percpu_rwlock_read_unlock(late), 0);
	assert_int_equal(percpu_rwlock_detach(late), 0);
	assert_int_equal(percpu_rwlock_read_trylock(l), -ENOTRECOVERABLE);
	assert_int_equal(destroy(), 0);
	l = next;
}

static void what_nobody_repairs_is_lost(void **state)
{
	pid_t waiting;

	(void)state;
	stop(start(write_and_stay, 0));
	assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
	waiting = start(expect_lost, 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(test_wait(waiting, 60), 0);
	test_in_child(expect_lost, NULL);
	replace_lost();
	expect_usable();
}

static void who_is_stopped_is_waited_for(void **state)
{
	pid_t pid = start(write_and_stay, 0);

	(void)state;
	kill(pid, SIGSTOP);
	assert_int_equal(percpu_rwlock_read_timedlock(l, 25 * MS), -ETIMEDOUT);
	assert_int_equal(percpu_rwlock_write_timedlock(l, 25 * MS), -ETIMEDOUT);
	assert_int_equal(percpu_rwlock_read_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	assert_int_equal(destroy(), -EBUSY);
	stop(pid);
	expect_writer_dead(false);
	pid = start(read_and_stay, 0);
	kill(pid, SIGSTOP);
	assert_int_equal(percpu_rwlock_write_timedlock(l, 25 * MS), -ETIMEDOUT);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(destroy(), -EBUSY);
	stop(pid);
	expect_readers_dead();
}

static int wait_to_read_and_stay(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_read_lock(l) == 0, "read");
	test_child_require(percpu_rwlock_read_unlock(l) == 0, "unlock");
	return 0;
}

/* A waiting reader is stopped or killed. It delays one writer for a limited time, and no writer
 * after that. */
static void who_stops_in_the_queue(void **state)
{
	const struct percpu_rwlock_control *c = percpu_rwlock_control(handle());
	pid_t pid;

	(void)state;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	pid = start_until("rwlock: a reader waits", wait_to_read_and_stay, 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_write_timedlock(l, MS), -ETIMEDOUT);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(c->skipped, 1);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	stop(pid);
	assert_int_equal(percpu_participants_drop_dead(&handle()->p), 0);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(c->skipped, 0);
	pid = start_until("rwlock: a reader waits", wait_to_read_and_stay, 0);
	stop(pid);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), 0); /* it is not told of a death */
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(c->skipped, 0);
}

static int wait_to_read_once(void *arg)
{
	(void)arg;
	reach(1);
	test_child_require(percpu_rwlock_read_lock(l) == 0, "read");
	return percpu_rwlock_read_unlock(l);
}

static void await_waiting(uint32_t n)
{
	while (percpu_participants_sum(&handle()->p, PERCPU_RWLOCK_WAITING) != n)
		test_sleep_us(200);
}

static int wait_to_read_and_keep(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_read_timedlock(l, 4000 * MS) == 0, "read");
	return stay();
}

static int wait_to_read_in_vain(void *arg)
{
	(void)arg;
	test_child_require(percpu_rwlock_read_timedlock(l, MS) == -ETIMEDOUT, "read");
	return stay();
}

static uint32_t told(void)
{
	return __atomic_load_n(&handle()->p.control->drained, __ATOMIC_ACQUIRE);
}

/* The next writer sleeps until a waiting reader wakes it. A reader does so when it has come in, and
 * when it gives up. */
static void who_waits_no_more_says_so(void **state)
{
	uint32_t before;
	pid_t pid;

	(void)state;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	reach(0);
	pid = test_fork(wait_to_read_and_keep, NULL);
	await_waiting(1);
	before = told();
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	await(pid, 1);
	assert_int_not_equal(told(), before);
	await_waiting(0);
	stop(pid);
	expect_readers_dead();
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	before = told();
	stop(start(wait_to_read_in_vain, 0));
	assert_int_not_equal(told(), before);
	await_waiting(0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	expect_usable();
}

static pid_t skipped_one;

static void let_it_in(void)
{
	kill(skipped_one, SIGCONT);
	(void)test_wait(skipped_one, 60);
}

/* A stopped reader is skipped. Other readers that begin to wait later are not. */
static void who_was_skipped_is_so_alone(void **state)
{
	const struct percpu_rwlock_control *c = percpu_rwlock_control(handle());
	pid_t others[2];

	(void)state;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	skipped_one = start(wait_to_read_once, 0);
	await_waiting(1);
	suspend(skipped_one);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(c->skipped, 1);
	assert_int_equal(c->skips, 2);
	for (unsigned i = 0; i < 2; i++)
		others[i] = start(wait_to_read_once, 0);
	await_waiting(3);
	for (unsigned i = 0; i < 2; i++)
		suspend(others[i]);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	let_it_in();
	assert_int_equal(c->skipped, 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	stop(others[0]);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	kill(others[1], SIGCONT);
	assert_int_equal(test_wait(others[1], 60), 0);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	/* A reader comes in while it is skipped. */
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	skipped_one = start(wait_to_read_once, 0);
	await_waiting(1);
	suspend(skipped_one);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	deadly = "rwlock: readers are skipped";
	meanwhile = let_it_in;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_null(deadly);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(c->skipped, 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	/* One of two skipped readers dies. */
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	for (unsigned i = 0; i < 2; i++)
		others[i] = start(wait_to_read_once, 0);
	await_waiting(2);
	for (unsigned i = 0; i < 2; i++)
		suspend(others[i]);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(c->skipped, 2);
	stop(others[0]);
	assert_int_equal(percpu_participants_drop_dead(&handle()->p), 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	stop(others[1]);
}

static void expect_holder(const struct percpu_rwlock_holder *x, pid_t pid, uint64_t reading,
			  bool writing, bool stopped)
{
	assert_true(x->id != 0);
	assert_int_equal(x->pid, pid);
	assert_int_equal(x->reading, reading);
	assert_int_equal(x->writing, writing);
	assert_int_equal(x->stopped, stopped);
	assert_int_equal(x->reserved, 0);
}

static void whom_others_wait_for(void **state)
{
	struct percpu_rwlock_holder x[3];
	pid_t pid;

	(void)state;
	assert_int_equal(percpu_rwlock_holders(NULL, x, 3), 0);
	assert_int_equal(percpu_rwlock_holders(l, NULL, 3), 0);
	assert_int_equal(percpu_rwlock_holders(l, NULL, 0), 0);
	assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), 0);
	assert_int_equal(percpu_rwlock_read_trylock(l), 0);
	pid = start(read_and_stay, 0);
	suspend(pid);
	memset(x, 0xee, sizeof(x));
	assert_int_equal(percpu_rwlock_holders(l, x, 1), 2);
	expect_holder(&x[0], getpid(), 2, false, false);
	assert_int_equal(x[1].pid, 0xeeeeeeee);
	assert_int_equal(percpu_rwlock_holders(l, NULL, 0), 2);
	assert_int_equal(percpu_rwlock_holders(l, x, 3), 2);
	expect_holder(&x[0], getpid(), 2, false, false);
	expect_holder(&x[1], pid, 1, false, true);
	assert_true(x[0].id == percpu_owners_self(owners) && x[1].id != x[0].id);
	stop(pid);
	assert_int_equal(percpu_rwlock_holders(l, x, 3), 1);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	expect_readers_dead();
	pid = start(write_and_stay, 0);
	assert_int_equal(percpu_rwlock_holders(l, x, 3), 1);
	expect_holder(&x[0], pid, 0, true, false);
	stop(pid);
	assert_int_equal(percpu_rwlock_holders(l, x, 3), 0);
	pid = start(read_to_repair, 0);
	assert_int_equal(percpu_rwlock_holders(l, x, 3), 1);
	expect_holder(&x[0], pid, 1, true, false);
	stop(pid);
	assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
	assert_int_equal(percpu_rwlock_consistent(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_holders(l, x, 3), 0);
}

/* Let the parent trace this process, as a debugger does. */
static int be_traced(void *arg)
{
	(void)arg;
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0;
}

static int read_and_be_traced(void *arg)
{
	return be_traced(NULL) || read_and_stay(arg);
}

static void who_is_traced_is_stopped(void **state)
{
	struct percpu_rwlock_holder x;
	pid_t pid;

	(void)state;
	if (test_wait(test_fork(be_traced, NULL), 60) != 0)
		test_skip("nobody is traced in some emulators");
	pid = start(read_and_be_traced, 0);
	suspend(pid);
	assert_int_equal(percpu_rwlock_holders(l, &x, 1), 1);
	expect_holder(&x, pid, 1, false, true);
	stop(pid);
	expect_readers_dead();
}

/* A pid is not taken for a process here if it is from another namespace, or if its process has left
 * and another one has the slot. */
static void what_others_are_called_elsewhere_says_nothing(void **state)
{
	struct percpu_participant_seen seen;
	struct percpu_rwlock_holder x;
	pid_t pid;

	(void)state;
	pid = start(read_and_stay, 0);
	suspend(pid);
	assert_int_equal(percpu_rwlock_holders(l, &x, 1), 1);
	expect_holder(&x, pid, 1, false, true);
	percpu_participants_identify(&handle()->p, x.id + PERCPU_OWNERS_MAX, &seen);
	assert_true(seen.id == x.id + PERCPU_OWNERS_MAX && seen.pid == 0 && !seen.stopped);
	owners->slots[0]->space++;
	assert_int_equal(percpu_rwlock_holders(l, &x, 1), 1);
	expect_holder(&x, pid, 1, false, false);
	stop(pid);
	expect_readers_dead();
}

static int read_by_another_name(void *arg)
{
	prctl(PR_SET_NAME, (const char *)arg);
	return read_and_stay(NULL);
}

/* In /proc/PID/stat, the name of a process may look like the state that follows it. */
static void names_of_processes_mislead_nobody(void **state)
{
	static const char *const names[] = { ") S ", "x) T 1", "a) t (b) T 7", "))" };
	struct percpu_rwlock_holder x;
	pid_t pid;

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		pid = start(read_by_another_name, (uintptr_t)names[i]);
		assert_int_equal(percpu_rwlock_holders(l, &x, 1), 1);
		expect_holder(&x, pid, 1, false, false);
		suspend(pid);
		assert_int_equal(percpu_rwlock_holders(l, &x, 1), 1);
		expect_holder(&x, pid, 1, false, true);
		stop(pid);
		expect_readers_dead();
	}
}

static int in_a_child(void *arg)
{
	const bool write = arg != NULL;

	test_child_require(percpu_rwlock_read_unlock(l) == -EPERM, "read unlock");
	test_child_require(percpu_rwlock_write_unlock(l) == -EPERM, "write unlock");
	test_child_require(percpu_rwlock_consistent(l) == -EINVAL, "consistent");
	test_child_require(percpu_rwlock_write_trylock(l) == -EBUSY, "write");
	test_child_require(percpu_rwlock_write_unlock(l) == -EPERM, "write unlock, joined");
	if (write) {
		test_child_require(percpu_rwlock_read_trylock(l) == -EBUSY, "read");
		test_child_require(percpu_rwlock_read_unlock(l) == -EPERM, "unlock, joined");
	} else {
		test_child_require(percpu_rwlock_read_lock(l) == 0, "read");
		test_child_require(percpu_rwlock_read_unlock(l) == 0, "unlock");
	}
	return 0;
}

static void a_child_holds_nothing(void **state)
{
	(void)state;
	assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), 0);
	test_in_child(in_a_child, NULL);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	test_in_child(in_a_child, l);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	expect_usable();
}

static unsigned process_locked, handler_done;

/* Hold the process lock, like a fork that waits for a lock of the handler's thread. */
static void lock_process(unsigned i, void *arg)
{
	(void)i, (void)arg;
	percpu_process_lock();
	__atomic_store_n(&process_locked, 1, __ATOMIC_RELEASE);
	for (unsigned n = 0; n < 30000 && !__atomic_load_n(&handler_done, __ATOMIC_ACQUIRE); n++)
		test_sleep_us(100);
	__atomic_store_n(&process_locked, 0, __ATOMIC_RELEASE);
	percpu_process_unlock();
}

static void handlers_take_no_lock(void **state)
{
	pid_t pid = start(write_and_stay, 0);
	struct test_team team;

	(void)state;
	assert_int_equal(percpu_rwlock_read_timedlock(l, 0), -ETIMEDOUT);
	process_locked = handler_done = 0;
	test_team_start(&team, 1, lock_process, NULL);
	while (!__atomic_load_n(&process_locked, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	assert_int_equal(percpu_rwlock_read_trylock(l), -EBUSY);
	assert_int_equal(__atomic_load_n(&process_locked, __ATOMIC_ACQUIRE), 1);
	__atomic_store_n(&handler_done, 1, __ATOMIC_RELEASE);
	test_team_join(&team);
	stop(pid);
	expect_writer_dead(true);
}

static void lanes_of_another_size(void **state)
{
	const struct percpu_region_options large = { .size = sizeof(large),
						     .lane_size = 4 * PERCPU_LANE_SIZE };
	struct percpu_rwlock *none = NULL;
	struct percpu_region *other;
	struct percpu_owners *others;

	(void)state;
	assert_int_equal(percpu_region_open(test_path("large"), OWNERS_FLAGS, &large, &other), 0);
	assert_int_equal(percpu_owners_create_in(other, &others), 0);
	assert_int_equal(percpu_rwlock_create_in(others, 0, &none), -EINVAL);
	assert_int_equal(percpu_rwlock_open(others, 1, 0, &none), -EINVAL);
	assert_int_equal(percpu_rwlock_attach(others, 1, 0, &none), -EINVAL);
	percpu_owners_destroy(others);
	percpu_region_close(other);
}

static void handles(void **state)
{
	struct percpu_rwlock *same = NULL, *asking = NULL, *none = NULL;
	struct percpu_owners *others;

	(void)state;
	assert_int_equal(percpu_rwlock_attach(owners, percpu_rwlock_key(l), 0, &same), 0);
	assert_int_equal(percpu_rwlock_write_lock(same), 0);
	assert_int_equal(percpu_rwlock_write_lock(l), -EDEADLK);
	assert_int_equal(percpu_rwlock_read_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_detach(same), -EBUSY);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_read_lock(same), 0);
	assert_int_equal(percpu_rwlock_detach(same), -EBUSY);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_detach(same), 0);
	assert_int_equal(percpu_rwlock_open(asker, ROOT, 0, &asking), 0);
	assert_int_equal(percpu_rwlock_read_lock(asking), -EROFS);
	assert_int_equal(percpu_rwlock_write_lock(asking), -EROFS);
	assert_int_equal(percpu_rwlock_read_unlock(asking), -EPERM);
	assert_int_equal(percpu_rwlock_destroy(asking), 0);
	assert_int_equal(percpu_rwlock_open(owners, 0, 0, &none), -EEXIST);
	assert_int_equal(percpu_rwlock_attach(owners, percpu_owners_key(owners), 0, &none),
			 -ENOENT);
	assert_int_equal(percpu_owners_create_in(region, &others), 0);
	assert_int_equal(percpu_rwlock_open(others, ROOT, 0, &none), -EEXIST);
	assert_int_equal(percpu_rwlock_attach(others, percpu_rwlock_key(l), 0, &none), -ENOENT);
	percpu_owners_destroy(others);
	assert_int_equal(percpu_rwlock_open(owners, ROOT, 4, &none), -EINVAL);
	assert_null(none);
	assert_int_equal(percpu_rwlock_create_in(owners, PERCPU_RWLOCK_DEBUG, &none), 0);
	assert_int_equal(percpu_rwlock_read_lock(none), 0);
	assert_int_equal(percpu_rwlock_read_unlock(none), 0);
	assert_int_equal(percpu_rwlock_destroy(none), 0);
}

static struct percpu_rwlock *attach_anew(unsigned flags)
{
	struct percpu_rwlock *same = NULL;

	assert_int_equal(percpu_rwlock_attach(owners, percpu_rwlock_key(l), flags, &same), 0);
	return same;
}

/* A process may unlock by another handle than it has locked by, also by one that has not locked
 * yet. */
static void a_process_is_one(void **state)
{
	struct percpu_rwlock *same;

	(void)state;
	assert_int_equal(percpu_owners_join(owners), 0);
	same = attach_anew(0);
	assert_int_equal(percpu_rwlock_read_unlock(same), -EPERM);
	for (unsigned flags = 0; flags <= PERCPU_RWLOCK_DEBUG; flags += PERCPU_RWLOCK_DEBUG) {
		assert_int_equal(percpu_rwlock_read_timedlock(l, 4000 * MS), 0);
		assert_int_equal(percpu_rwlock_detach(same), -EBUSY);
		assert_int_equal(percpu_rwlock_read_unlock(l), 0);
		assert_int_equal(percpu_rwlock_detach(same), 0);
		same = attach_anew(flags);
		assert_int_equal(percpu_rwlock_read_lock(l), 0);
		assert_int_equal(percpu_rwlock_read_unlock(same), 0);
		assert_int_equal(percpu_rwlock_detach(same), 0);
		same = attach_anew(flags);
		assert_int_equal(percpu_rwlock_write_lock(l), 0);
		assert_int_equal(percpu_rwlock_write_unlock(same), 0);
		assert_int_equal(percpu_rwlock_detach(same), 0);
		same = attach_anew(flags);
		stop(start(write_and_stay, 0));
		assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
		assert_int_equal(percpu_rwlock_died(same), PERCPU_RWLOCK_WRITER_DIED);
		assert_int_equal(percpu_rwlock_consistent(same), 0);
		assert_int_equal(percpu_rwlock_write_unlock(same), 0);
		expect_usable();
	}
	assert_int_equal(percpu_rwlock_detach(same), 0);
}

/* A thread without an id must not write: it could not be told from other such threads. */
static void nobody_writes_without_an_id(void **state)
{
	struct percpu_rwlock *debug;

	(void)state;
	expect_usable();
	debug = attach_anew(PERCPU_RWLOCK_DEBUG);
	expect_usable();
	thread_id = -EPERM;
	no_call_writes(l, -EPERM);
	no_call_writes(debug, -EPERM);
	thread_id = 0;
	expect_usable();
	assert_int_equal(percpu_rwlock_detach(debug), 0);
}

/* A writer ends, and leaves the lock for another thread to unlock. The kernel gives the writer's id
 * to a third thread. */
static void who_has_the_id_of_a_writer_waits(void **state)
{
	struct percpu_rwlock *same = attach_anew(0);

	(void)state;
	test_team_run(1, write_and_end, l);
	assert_int_equal(timed, 0);
	assert_int_equal(tried, -EDEADLK);
	for (unsigned i = 0; i < 2; i++) {
		test_team_run(1, try_as_another, i == 0 ? l : same);
		assert_int_equal(tried, -EBUSY);
		assert_int_equal(timed, -ETIMEDOUT);
	}
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_detach(same), 0);
	expect_usable();
}

static void silence(void)
{
	int fds[2];

	test_child_require(pipe(fds) == 0 && dup2(fds[1], STDERR_FILENO) >= 0, "pipe");
}

static bool is_aborted(pid_t pid)
{
	const int status = test_wait(pid, 60);

	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* Unlock once too often, by a checking handle. Before that another handle has unlocked the lock:
 * after this handle has locked it, or the other handle itself. */
static int unlock_once_more(void *arg)
{
	struct percpu_rwlock *debug = arg, *const first[] = { debug, l };

	silence();
	test_child_require(percpu_rwlock_read_lock(first[mistake / 2]) == 0, "read");
	test_child_require(percpu_rwlock_read_unlock(l) == 0, "end");
	test_child_require(percpu_rwlock_write_lock(first[mistake / 2]) == 0, "write");
	test_child_require(percpu_rwlock_write_unlock(l) == 0, "end");
	if (mistake % 2 == 0)
		(void)percpu_rwlock_read_unlock(debug);
	else
		(void)percpu_rwlock_write_unlock(debug);
	return 0;
}

/* Unlock, by a checking handle, without a lock by any handle. */
static int unlock_as_nobody(void *arg)
{
	struct percpu_rwlock *debug = arg;

	silence();
	if (mistake == 0)
		(void)percpu_rwlock_read_unlock(debug);
	else
		(void)percpu_rwlock_write_unlock(debug);
	return 0;
}

static int unlock_what_others_write(void *arg)
{
	struct percpu_rwlock *debug = arg;

	silence();
	test_child_require(percpu_rwlock_write_lock(debug) == 0, "write");
	test_child_require(percpu_rwlock_write_unlock(debug) == 0, "end");
	reach(1);
	await(0, 2);
	(void)percpu_rwlock_write_unlock(debug);
	return 0;
}

/* Unlock a write, while this process has the lock for reading, and was told of a dead writer. */
static int unlock_what_it_repairs(void *arg)
{
	struct percpu_rwlock *debug = arg;

	silence();
	test_child_require(percpu_rwlock_read_timedlock(debug, 4000 * MS) == -EOWNERDEAD, "read");
	(void)percpu_rwlock_write_unlock(debug);
	return 0;
}

/* A checking handle asks whether the process holds the lock by any handle. */
static void mistakes_by_several_handles(void **state)
{
	struct percpu_rwlock *debug = attach_anew(PERCPU_RWLOCK_DEBUG);
	pid_t pid;

	(void)state;
	for (mistake = 0; mistake < 4; mistake++)
		assert_true(is_aborted(test_fork(unlock_once_more, debug)));
	for (mistake = 0; mistake < 2; mistake++)
		assert_true(is_aborted(test_fork(unlock_as_nobody, debug)));
	pid = start(unlock_what_others_write, (uintptr_t)debug);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	reach(2);
	assert_true(is_aborted(pid));
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	stop(start(write_and_stay, 0));
	assert_true(is_aborted(test_fork(unlock_what_it_repairs, debug)));
	assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
	assert_int_equal(percpu_rwlock_consistent(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_detach(debug), 0);
	expect_usable();
}

/* Run the script by a checking handle, one call for each letter: r locks for reading, w for
 * writing, and t tries to write. A capital letter expects to be told of a death. u unlocks a read,
 * v unlocks a write, c makes the lock consistent, and l leaves the owners. */
static int do_each(void *arg)
{
	struct percpu_rwlock *debug = arg;
	int e, expected;

	silence();
	for (const char *at = script; *at != '\0'; at++) {
		expected = strchr("RWT", *at) != NULL ? -EOWNERDEAD : 0;
		e = strchr("rR", *at) != NULL ? percpu_rwlock_read_timedlock(debug, 4000 * MS) :
		    strchr("wW", *at) != NULL ? percpu_rwlock_write_timedlock(debug, 4000 * MS) :
		    strchr("tT", *at) != NULL ? percpu_rwlock_write_trylock(debug) :
		    *at == 'u'		      ? percpu_rwlock_read_unlock(debug) :
		    *at == 'v'		      ? percpu_rwlock_write_unlock(debug) :
		    *at == 'c'		      ? percpu_rwlock_consistent(debug) :
						0;
		if (*at == 'l')
			percpu_owners_leave(owners);
		if (e != expected)
			return 1;
	}
	return 0;
}

enum before { NOTHING, WRITER_DIED, READER_DIED, PARENT_READS, PARENT_WRITES };

static void prepare(enum before b)
{
	if (b == WRITER_DIED)
		stop(start(write_and_stay, 0));
	else if (b == READER_DIED)
		stop(start(read_and_stay, 0));
	else if (b == PARENT_READS)
		assert_int_equal(percpu_rwlock_read_lock(l), 0);
	else if (b == PARENT_WRITES)
		assert_int_equal(percpu_rwlock_write_lock(l), 0);
}

static void finish(enum before b)
{
	if (b == PARENT_READS)
		assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	else if (b == PARENT_WRITES)
		assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

/* A process may unlock what it holds, however it came to hold it. Any other unlock aborts. */
static void who_may_unlock(void **state)
{
	static const struct {
		enum before before;
		const char *script;
		bool aborts; /* the last call does */
	} rows[] = {
		{ NOTHING, "ru", false },	   { NOTHING, "rruu", false },
		{ NOTHING, "wvtv", false },	   { WRITER_DIED, "Wv", false },
		{ WRITER_DIED, "Tv", false },	   { WRITER_DIED, "Wcv", false },
		{ WRITER_DIED, "Tcvwv", false },   { WRITER_DIED, "Ru", false },
		{ WRITER_DIED, "RuRuWcv", false }, { WRITER_DIED, "Rcurruu", false },
		{ WRITER_DIED, "RuTv", false },	   { READER_DIED, "Wv", false },
		{ READER_DIED, "Wcv", false },	   { READER_DIED, "ruTv", false },
		{ PARENT_READS, "ru", false },	   { NOTHING, "rlru", false },
		{ NOTHING, "wlWv", false },	   { NOTHING, "wlRu", false },
		{ NOTHING, "ruu", true },	   { NOTHING, "wvv", true },
		{ NOTHING, "tvv", true },	   { NOTHING, "wu", true },
		{ NOTHING, "rv", true },	   { NOTHING, "rlu", true },
		{ NOTHING, "wlv", true },	   { NOTHING, "wlWvv", true },
		{ WRITER_DIED, "Wvv", true },	   { WRITER_DIED, "Wcvv", true },
		{ WRITER_DIED, "Wu", true },	   { WRITER_DIED, "Ruu", true },
		{ WRITER_DIED, "Rcuu", true },	   { WRITER_DIED, "Rv", true },
		{ WRITER_DIED, "Rcv", true },	   { WRITER_DIED, "v", true },
		{ WRITER_DIED, "u", true },	   { READER_DIED, "u", true },
		{ READER_DIED, "Wvv", true },	   { PARENT_READS, "u", true },
		{ PARENT_READS, "ruu", true },	   { PARENT_WRITES, "v", true },
		{ PARENT_WRITES, "u", true },
	};
	struct percpu_rwlock *const usual = l, *debug;
	int status;

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		script = rows[i].script;
		print_message("%u: %s\n", rows[i].before, script);
		assert_int_equal(percpu_rwlock_create_in(owners, 0, &l), 0);
		debug = attach_anew(PERCPU_RWLOCK_DEBUG);
		prepare(rows[i].before);
		status = test_wait(test_fork(do_each, debug), 60);
		if (rows[i].aborts)
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		else
			assert_int_equal(status, 0);
		finish(rows[i].before);
		assert_int_equal(percpu_rwlock_detach(debug), 0);
		assert_int_equal(percpu_rwlock_destroy(l), 0);
		l = usual;
	}
}

static void lock_and_move(unsigned i, void *arg)
{
	struct percpu_rwlock *debug = arg, *const handles[] = { debug, l };
	const unsigned cpus = test_cpus();

	for (unsigned n = test_rounds(500); n > 0; n--) {
		test_pin(0, test_cpu((i + n) % cpus));
		(void)!percpu_rwlock_read_lock(handles[n % 2]);
		test_pin(0, test_cpu((i + n + 1) % cpus));
		(void)percpu_rwlock_read_unlock(handles[i % 2]);
	}
}

static int lock_by_several_handles(void *arg)
{
	struct percpu_rwlock *debug = arg, *const handles[] = { debug, l };

	for (unsigned i = 0; i < 4; i++) {
		test_child_require(percpu_rwlock_write_lock(handles[i % 2]) == 0, "write");
		if (i == 1) /* by a handle that has not locked yet */
			test_child_require(percpu_rwlock_attach(owners, percpu_rwlock_key(l),
								PERCPU_RWLOCK_DEBUG, &debug) == 0,
					   "attach");
		test_child_require(percpu_rwlock_write_unlock(i < 2 ? debug : l) == 0, "end");
	}
	test_child_require(percpu_rwlock_read_lock(debug) == 0, "read");
	test_child_require(percpu_rwlock_read_lock(l) == 0, "read");
	test_child_require(percpu_rwlock_read_unlock(debug) == 0, "end");
	test_child_require(percpu_rwlock_read_unlock(debug) == 0, "end");
	test_team_run(4, lock_and_move, debug);
	test_child_require(percpu_rwlock_write_timedlock(l, 4000 * MS) == 0, "write");
	return percpu_rwlock_write_unlock(debug);
}

static void no_mistakes_by_several_handles(void **state)
{
	struct percpu_rwlock *debug = attach_anew(PERCPU_RWLOCK_DEBUG);

	(void)state;
	if (test_thread_sanitizer())
		test_skip("children start threads");
	test_in_child(lock_by_several_handles, debug);
	assert_int_equal(percpu_rwlock_detach(debug), 0);
	expect_usable();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static void leave_owners(void)
{
	percpu_owners_leave(owners);
}

static int lock_and_end(void *arg)
{
	(void)arg;
	return percpu_rwlock_write_lock(l);
}

/* A writer that leaves while it waits begins again, as another owner. */
static void writers_that_leave_begin_again(void **state)
{
	(void)state;
	meanwhile = leave_owners;
	deadly = "rwlock: a writer comes";
	assert_int_equal(percpu_rwlock_write_timedlock(l, 4000 * MS), 0);
	assert_null(deadly);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(percpu_rwlock_read_trylock(l), 0); /* takes a record */
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	percpu_participants_add(&percpu_rwlock_handle(l)->p, PERCPU_RWLOCK_WAITING, 1);
	meanwhile = leave_owners;
	deadly = "rwlock: a writer lets readers in";
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_null(deadly);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	/* It leaves when it has been told of a dead writer. */
	test_in_child(lock_and_end, NULL);
	meanwhile = leave_owners;
	deadly = "rwlock: a writer repairs";
	assert_int_equal(percpu_rwlock_write_lock(l), -EOWNERDEAD);
	assert_null(deadly);
	assert_int_equal(percpu_rwlock_consistent(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

/* Another process may have written any value to `skipped` or to the count of waiting readers. */
static void numbers_of_readers_may_be_damaged(void **state)
{
	struct percpu_rwlock_handle *h = percpu_rwlock_handle(l);

	(void)state;
	percpu_rwlock_control(h)->skipped = 100;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_control(h)->skipped, 0);
	percpu_rwlock_control(h)->skipped = (uint32_t)INT32_MIN;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_control(h)->skipped, 0);
	percpu_participants_add(&h->p, PERCPU_RWLOCK_WAITING, -1);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	percpu_participants_add(&h->p, PERCPU_RWLOCK_WAITING, 1);
}

/* A process has unlocked more often than it locked. A checking handle prints that. */
static void readers_that_were_none_are_told(void **state)
{
	struct percpu_rwlock *d;

	(void)state;
	assert_int_equal(percpu_rwlock_create_in(owners, PERCPU_RWLOCK_DEBUG, &d), 0);
	assert_int_equal(percpu_rwlock_read_lock(d), 0);
	percpu_participants_add(&percpu_rwlock_handle(d)->p, PERCPU_RWLOCK_INSIDE, -2);
	assert_int_equal(percpu_rwlock_write_timedlock(d, 1000 * MS), -EPROTO);
	assert_int_equal(percpu_rwlock_write_lock(d), 0);
	assert_int_equal(percpu_rwlock_write_unlock(d), 0);
	assert_int_equal(percpu_rwlock_destroy(d), 0);
}

/* A damaged state says that the lock is open, although `writer` names a writer. */
static void states_may_be_damaged(void **state)
{
	struct percpu_rwlock_handle *h = percpu_rwlock_handle(l);

	(void)state;
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	__atomic_store_n(&h->p.control->state, PERCPU_RWLOCK_OPEN, __ATOMIC_RELEASE);
	assert_int_equal(percpu_rwlock_write_unlock(l), -EPERM);
	assert_int_equal(percpu_rwlock_died(l), 0);
	assert_int_equal(percpu_rwlock_consistent(l), -EINVAL);
	__atomic_store_n(&h->p.control->state, PERCPU_RWLOCK_WRITING, __ATOMIC_RELEASE);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(writers_are_killed_without_the_lock),
		TEST(writers_are_killed_with_the_lock),
		TEST(who_waits_notices),
		TEST(who_leaves_begins_anew),
		TEST(who_has_left_changes_nothing),
		TEST(what_is_lost_meanwhile_stays_lost),
		TEST(readers_are_killed),
		TEST(news_are_not_lost),
		TEST(who_repairs_is_killed),
		TEST(who_was_told_knows),
		TEST(readers_may_decline),
		TEST(who_declines_is_killed),
		TEST(who_unlocks_too_often),
		TEST(what_nobody_repairs_is_lost),
		TEST(who_is_traced_is_stopped),
		TEST(what_others_are_called_elsewhere_says_nothing),
		TEST(who_is_stopped_is_waited_for),
		TEST(who_stops_in_the_queue),
		TEST(who_was_skipped_is_so_alone),
		TEST(who_waits_no_more_says_so),
		TEST(whom_others_wait_for),
		TEST(names_of_processes_mislead_nobody),
		TEST(a_child_holds_nothing),
		TEST(handlers_take_no_lock),
		TEST(handles),
		TEST(a_process_is_one),
		TEST(mistakes_by_several_handles),
		TEST(who_may_unlock),
		TEST(no_mistakes_by_several_handles),
		TEST(lanes_of_another_size),
		TEST(writers_that_leave_begin_again),
		TEST(numbers_of_readers_may_be_damaged),
		TEST(readers_that_were_none_are_told),
		TEST(states_may_be_damaged),
		TEST(nobody_writes_without_an_id),
		TEST(who_has_the_id_of_a_writer_waits),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
