/* SPDX-License-Identifier: MIT */
/*
 * test_owner_name.c - test names of owners: which owners have one, what becomes of a dead owner's
 * values when another one resumes them, and processes that are killed at each step of that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/rwlock.h>

#include "support.h"

#include "owners/owners.h"
#include "../later.h"
#include "../owners.h"

#define ROOT 3
#define NAMES 8
#define RESUME PERCPU_OWNERS_RESUME
#define LONGEST "123456789 123456789 123456789 123456789 123456789 123456789 123"

static struct percpu_owned_gauge *gauge;
static unsigned crowds;

static int end(void **state)
{
	percpu_owned_gauge_destroy(gauge);
	gauge = NULL;
	return end_owners(state);
}

static void make(enum percpu_owned_rule rule)
{
	assert_int_equal(percpu_owned_gauge_open(owners, ROOT, rule, &gauge), 0);
}

static void make_anew(enum percpu_owned_rule rule)
{
	assert_int_equal(percpu_owned_gauge_destroy(gauge), 0);
	assert_int_equal(percpu_region_set_root(region, ROOT, percpu_region_root(region, ROOT), 0),
			 0);
	make(rule);
}

/* Return the gauge's value; -1 if it has none. */
static int64_t value(enum percpu_owned_of of)
{
	int64_t v = 0;
	int e = percpu_owned_gauge_fetch(gauge, of, &v);

	assert_true(e == 0 || e == -ENODATA);
	return e == 0 ? v : -1;
}

static void expect(int64_t living, int64_t all)
{
	assert_int_equal(value(PERCPU_OWNED_LIVING), living);
	assert_int_equal(value(PERCPU_OWNED_ALL), all);
}

/* Return what a handle that may only read lists of this process. */
static struct percpu_owner_info listed(pid_t pid)
{
	static struct percpu_owner_info list[PERCPU_OWNERS_MAX];
	size_t n = percpu_owners_list(asker, list, PERCPU_OWNERS_MAX);

	for (size_t i = 0; i < n; i++)
		if (list[i].pid == (uint32_t)pid)
			return list[i];
	return (struct percpu_owner_info){ .id = 0 };
}

static size_t count(void)
{
	return percpu_owners_list(owners, NULL, 0);
}

/* Return the only value of the gauge. */
static struct percpu_owned_value only(void)
{
	struct percpu_owned_value v[2];
	size_t n = 0;

	assert_int_equal(percpu_owned_gauge_each(gauge, PERCPU_OWNED_ALL, v, 2, &n), 0);
	assert_int_equal(n, 1);
	return v[0];
}

/* What a child does. */
struct task {
	const char *name;
	unsigned flags;
	int64_t add; /* 0: no update */
	bool stays;
};

static int do_task(void *arg)
{
	const struct task *t = arg;

	test_child_require(percpu_owners_join_as(owners, t->name, t->flags) == 0, "join");
	if (percpu_owned_gauge_rule(gauge) == PERCPU_OWNED_SUM && t->add != 0)
		test_child_require(percpu_owned_gauge_add(gauge, t->add) == 0, "add");
	else if (t->add != 0)
		test_child_require(percpu_owned_gauge_set(gauge, t->add) == 0, "set");
	return t->stays ? stay() : 0;
}

static void come_and_end(const char *name, unsigned flags, int64_t add)
{
	struct task t = { name, flags, add, false };

	test_in_child(do_task, &t);
}

static pid_t come_and_stay(const char *name, unsigned flags, int64_t add)
{
	static struct task t;

	t = (struct task){ name, flags, add, true };
	return start(do_task, (uintptr_t)&t);
}

/* Give all slots of the first block, from this one on, to an owner that lives. */
static void fill_slots(size_t from)
{
	assert_true(count() != 0); /* the block is known */
	for (size_t slot = from; slot < PERCPU_OWNER_SLOTS; slot++)
		owners->slots[0][slot] = (struct percpu_owner_slot){
			.word = 40, .space = 5, .started = 1, .pid = 1
		};
}

/* Names */

static void owners_are_told_with_their_names(void **state)
{
	struct percpu_owner_info info[3];
	pid_t pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owners_join_as(owners, LONGEST, 0), 0);
	assert_string_equal(listed(getpid()).name, LONGEST);
	pid = come_and_stay("w\xc3\xb6rker 3", RESUME, 7);
	assert_string_equal(listed(pid).name, "w\xc3\xb6rker 3");
	assert_int_equal(listed(pid).alive, 1);
	assert_string_equal(only().name, "w\xc3\xb6rker 3");
	stop(pid);
	assert_string_equal(listed(pid).name, "w\xc3\xb6rker 3");
	assert_int_equal(listed(pid).alive, 0);
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_string_equal(listed(getpid()).name, "");
	memset(info, 'x', sizeof(info));
	assert_int_equal(percpu_owners_list(asker, info, 3), 2);
	for (size_t i = 0; i < 2; i++) /* no byte behind a name is left as it was */
		assert_null(memchr(info[i].name, 'x', sizeof(info[i].name)));
}

static void bad_names_are_refused(void **state)
{
	(void)state;
	assert_int_equal(percpu_owners_join_as(NULL, "a", 0), -EINVAL);
	assert_int_equal(percpu_owners_join_as(owners, NULL, 0), -EINVAL);
	assert_int_equal(percpu_owners_join_as(owners, "", 0), -EINVAL);
	assert_int_equal(percpu_owners_join_as(owners, "a", 2), -EINVAL);
	assert_int_equal(percpu_owners_join_as(owners, LONGEST "4", 0), -ENAMETOOLONG);
	assert_int_equal(percpu_owners_join_as(owners, "a\xff", 0), -EILSEQ);
	assert_int_equal(percpu_owners_join_as(asker, "a", 0), -EROFS);
	assert_int_equal(percpu_owners_self(owners), 0);
	assert_int_equal(count(), 0);
}

static void an_owner_has_one_name(void **state)
{
	(void)state;
	assert_int_equal(percpu_owners_join_as(owners, "a", 0), 0);
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(percpu_owners_join_as(owners, "b", 0), -EALREADY);
	assert_string_equal(listed(getpid()).name, "a");
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), -EALREADY);
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owners_join_as(owners, "b", 0), 0);
	assert_string_equal(listed(getpid()).name, "b");
	assert_int_equal(count(), 1);
}

static int have_no_name(void *arg)
{
	(void)arg;
	test_child_require(percpu_owners_self(owners) == 0, "no slot");
	test_child_require(percpu_owners_join_as(owners, "a", RESUME) == -EEXIST, "the parent's");
	test_child_require(percpu_owned_gauge_add(gauge, 5) == 0, "add");
	test_child_require(*listed(getpid()).name == '\0', "no name");
	return 0;
}

static void children_of_fork_have_no_name(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owners_join_as(owners, "a", 0), 0);
	assert_int_equal(percpu_owned_gauge_add(gauge, 1), 0);
	test_in_child(have_no_name, NULL);
	expect(1, 6);
}

/* Values */

static void values_are_resumed(void **state)
{
	struct percpu_owned_value before, after;
	pid_t pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("3", RESUME, 10);
	expect(0, 10);
	before = only();
	assert_true(before.value == 10 && before.alive == 0);
	assert_string_equal(before.name, "3");
	pid = come_and_stay("3", RESUME, 0); /* has not updated the gauge */
	expect(10, 10);
	after = only();
	assert_true(after.value == 10 && after.alive == 1 && after.pid == (uint32_t)pid);
	assert_string_equal(after.name, "3");
	assert_int_equal(after.id, listed(pid).id);
	assert_int_not_equal(after.id, before.id);
	assert_int_equal(percpu_owners_alive(owners, before.id), 0);
	assert_int_equal(percpu_owners_alive(owners, after.id), 1);
	stop(pid);
	expect(0, 10);
	pid = come_and_stay("3", RESUME, 5); /* what the last but one has */
	expect(15, 15);
	assert_int_equal(only().pid, pid);
	stop(pid);
	expect(0, 15);
	assert_int_equal(count(), 1);
}

/* Without the flag, an owner takes the slot of a dead one of its name, and begins anew. */
static void values_are_not_resumed_unasked(void **state)
{
	pid_t pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("3", 0, 10);
	pid = come_and_stay("3", 0, 0);
	expect(0, 10);
	assert_true(only().pid == 0 && *only().name == '\0');
	assert_string_equal(listed(pid).name, "3");
	stop(pid);
	pid = come_and_stay("3", 0, 5);
	expect(5, 15);
	stop(pid);
	/* What is resumed goes back to the last owner that did not resume. */
	pid = come_and_stay("3", RESUME, 1);
	expect(6, 16);
	stop(pid);
	assert_int_equal(count(), 1);
}

/* An account of before the name belongs to no owner of the name. */
static void a_name_begins_with_its_owner(void **state)
{
	pid_t pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owned_gauge_add(gauge, 100), 0);
	percpu_owners_leave(owners);
	come_and_end("a", RESUME, 0);
	pid = come_and_stay("a", RESUME, 0);
	assert_int_equal(listed(pid).id % PERCPU_OWNERS_MAX, 0);
	expect(0, 100);
	stop(pid);
	pid = come_and_stay("a", RESUME, 3);
	expect(3, 103);
	stop(pid);
}

static void each_rule_goes_on(void **state)
{
	pid_t pid;

	(void)state;
	for (int rule = PERCPU_OWNED_MIN; rule <= PERCPU_OWNED_RECENT; rule++) {
		make_anew((enum percpu_owned_rule)rule);
		come_and_end("a", RESUME, 50);
		expect(-1, 50);
		pid = come_and_stay("a", RESUME, 0);
		expect(50, 50);
		stop(pid);
		pid = come_and_stay("a", RESUME, 60); /* replaces the owner's value */
		expect(60, 60);
		stop(pid);
		pid = come_and_stay("a", RESUME, 40);
		expect(40, 40);
		stop(pid);
		expect(-1, 40);
	}
}

static int fset_and_stay(void *arg)
{
	struct percpu_owned_fgauge *g = NULL;

	(void)arg;
	test_child_require(percpu_owners_join_as(owners, "a", RESUME) == 0, "join");
	test_child_require(percpu_owned_fgauge_open(owners, ROOT + 1, PERCPU_OWNED_SUM, &g) == 0,
			   "open");
	test_child_require(percpu_owned_fgauge_add(g, 0.5) == 0, "add");
	return stay();
}

static void doubles_go_on(void **state)
{
	struct percpu_owned_fgauge *g;
	struct percpu_owned_value v;
	size_t n = 0;
	double sum = 0;

	(void)state;
	assert_int_equal(percpu_owned_fgauge_open(owners, ROOT + 1, PERCPU_OWNED_SUM, &g), 0);
	for (int i = 1; i <= 3; i++) {
		pid_t pid = start(fset_and_stay, 0);

		assert_int_equal(percpu_owned_fgauge_fetch(g, PERCPU_OWNED_LIVING, &sum), 0);
		assert_true(sum == 0.5 * i);
		stop(pid);
	}
	assert_int_equal(percpu_owned_fgauge_fetch(g, PERCPU_OWNED_ALL, &sum), 0);
	assert_true(sum == 1.5);
	assert_int_equal(percpu_owned_fgauge_each(g, PERCPU_OWNED_ALL, &v, 1, &n), 0);
	assert_int_equal(n, 1);
	assert_string_equal(v.name, "a");
	assert_int_equal(percpu_owned_fgauge_destroy(g), 0);
}

/* An owner that has left is dead. This process resumes its own values. */
static void who_has_left_is_resumed(void **state)
{
	uint64_t id;

	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	id = percpu_owners_self(owners);
	percpu_owners_leave(owners);
	expect(0, 5);
	assert_string_equal(only().name, "a");
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	assert_int_equal(percpu_owners_self(owners), id + PERCPU_OWNERS_MAX);
	expect(5, 5);
	assert_int_equal(percpu_owned_gauge_add(gauge, 1), 0);
	expect(6, 6);
}

#define AFTER_EXEC "after exec"

/* The program that the process runs now: resume what the one before exec has. */
static int resume_after_exec(const char *path)
{
	int64_t living = 0;

	test_child_require(percpu_region_open(path, OWNERS_FLAGS, NULL, &region) == 0, "region");
	test_child_require(percpu_owners_open(region, 0, &owners) == 0, "owners");
	test_child_require(percpu_owned_gauge_open(owners, ROOT, PERCPU_OWNED_SUM, &gauge) == 0,
			   "gauge");
	test_child_require(percpu_owners_join_as(owners, "a", RESUME) == 0, "join");
	test_child_require(percpu_owned_gauge_fetch(gauge, PERCPU_OWNED_LIVING, &living) == 0,
			   "fetch");
	test_child_require(living == 5 && count() == 1, "its own value, in its own slot");
	return 0;
}

static int join_and_exec(void *arg)
{
	(void)arg;
	test_child_require(percpu_owners_join_as(owners, "a", 0) == 0, "join");
	test_child_require(percpu_owned_gauge_add(gauge, 5) == 0, "add");
	execl("/proc/self/exe", "test", AFTER_EXEC, owners_path, NULL);
	return 77;
}

static void a_program_resumes_what_it_had_before_exec(void **state)
{
	int status;

	(void)state;
	make(PERCPU_OWNED_SUM);
	status = test_wait(test_fork(join_and_exec, NULL), 60);
	if (status == 77 << 8)
		test_skip("an emulator runs no other program");
	assert_int_equal(status, 0);
	expect(0, 5);
}

/* Namesakes */

static void the_living_are_not_resumed(void **state)
{
	struct percpu_owners *second = NULL;
	pid_t dead, pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	dead = come_and_stay("a", 0, 1);
	pid = come_and_stay("a", 0, 10);
	stop(dead); /* another one of the name that is dead does not help */
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), -EEXIST);
	assert_int_equal(percpu_owners_self(owners), 0);
	assert_int_equal(count(), 2);
	expect(10, 11);
	assert_int_equal(percpu_owners_join_as(owners, "a", 0), 0);
	assert_int_equal(percpu_owned_gauge_add(gauge, 100), 0);
	assert_int_equal(count(), 2);
	expect(110, 111);
	stop(pid);
	/* Another handle of the same process is a living namesake, too. */
	assert_int_equal(percpu_owners_open(region, 0, &second), 0);
	assert_int_equal(percpu_owners_join_as(second, "a", RESUME), -EEXIST);
	percpu_owners_detach(second);
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	expect(100, 111);
}

static void the_first_of_several_is_resumed(void **state)
{
	pid_t first, second, pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	first = come_and_stay("a", 0, 1);
	second = come_and_stay("a", 0, 10);
	stop(second);
	stop(first);
	pid = come_and_stay("a", RESUME, 100);
	expect(101, 111);
	stop(pid);
	assert_int_equal(count(), 2);
}

static pid_t other;

static void let_another_resume(void)
{
	other = come_and_stay("a", RESUME, 1000);
}

/* Two processes resume one name at the same time: a dead owner's, or one that no owner has had. */
static void one_of_two_resumes(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("a", RESUME, 10);
	deadly = "owner: namesake found";
	meanwhile = let_another_resume;
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), -EEXIST);
	assert_null(deadly);
	assert_int_equal(percpu_owners_self(owners), 0);
	expect(1010, 1010);
	stop(other);
	come_and_end("b", 0, 0);
	assert_int_equal(count(), 2);
}

static void one_of_two_begins(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owners_join(owners), 0);
	percpu_owners_leave(owners);
	come_and_end("b", 0, 0);
	deadly = "owner: slot found";
	meanwhile = let_another_resume;
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), -EEXIST);
	assert_null(deadly);
	expect(1000, 1000);
	stop(other);
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	expect(1000, 1000);
}

/* The other process that was first has ended by then. */
static void let_another_resume_and_end(void)
{
	let_another_resume();
	stop(other);
}

static void the_winner_may_be_dead(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("a", RESUME, 10);
	deadly = "owner: namesake found";
	meanwhile = let_another_resume_and_end;
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	expect(1010, 1010);
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owned_gauge_set(gauge, 0), 0); /* in slot 1, without a name */
	deadly = "owner: slot found";
	meanwhile = let_another_resume_and_end;
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owners_join_as(owners, "a", 0), 0);
}

static void take_the_name_away(void)
{
	owners->slots[0][0].first++; /* as a process that begins with another name, and is killed */
}

static void names_may_end_meanwhile(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owners_join_as(owners, "a", 0), 0);
	assert_int_equal(percpu_owned_gauge_add(gauge, 5), 0);
	percpu_owners_leave(owners);
	deadly = "owner: namesake found";
	meanwhile = take_the_name_away;
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	expect(0, 5);
	assert_string_equal(listed(getpid()).name, "a");
}

static void change_the_name(void)
{
	owners->slots[0][0].first ^= 3; /* 1, or of an owner to come */
	deadly = "owner: slot found";
	meanwhile = change_the_name;
}

/* A damaged file, in which a name comes and goes, keeps no process for ever. */
static void names_may_come_and_go(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("a", RESUME, 5);
	assert_int_equal(count(), 1);
	deadly = "owner: slot found";
	meanwhile = change_the_name;
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), -ETIMEDOUT);
	deadly = NULL;
	meanwhile = NULL;
	assert_int_equal(percpu_owners_self(owners), 0);
	owners->slots[0][0].first = 1;
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	expect(5, 5);
}

/* Locks: a lock on the byte of a dead owner's slot, such as a reader of the file can take, keeps no
 * process from resuming. */
static int lock_bytes(void *arg)
{
	(void)arg;
	test_child_require(percpu_owners_join(owners) == 0, "join");
	for (uint64_t i = 0; i < PERCPU_OWNER_SLOTS; i++)
		test_child_require(percpu_descriptor_lock(region, owners->bytes[0] + i) == 0,
				   "lock");
	return stay();
}

static void locked_slots_are_resumed(void **state)
{
	pid_t pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("a", 0, 5);
	pid = start(lock_bytes, 0);
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	assert_int_equal(owners->slots[0][0].locked, 0);
	expect(5, 5);
	stop(pid);
}

/* A process that does not resume takes another slot instead. */
static void locked_slots_are_not_needed(void **state)
{
	pid_t pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("a", 0, 5);
	pid = start(lock_bytes, 0);
	assert_int_equal(percpu_owners_join_as(owners, "a", 0), 0);
	assert_int_not_equal(percpu_owners_self(owners) % PERCPU_OWNERS_MAX, 0);
	assert_string_equal(listed(getpid()).name, "a");
	expect(0, 5);
	stop(pid);
}

/* Threads */

static pthread_t second;
static int second_error;
static uint64_t second_self;

static uint32_t second_ended;

static void *join_second(void *arg)
{
	second_error = percpu_owners_join_as(owners, arg, RESUME);
	second_self = percpu_owners_self(owners);
	__atomic_store_n(&second_ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Start a second thread that joins. Return when it waits for this one, or has ended. */
static void let_a_second_one_join(void)
{
	assert_int_equal(pthread_create(&second, NULL, join_second, "a"), 0);
	while (!__atomic_load_n(&seen_there, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&second_ended, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
}

static void threads_join_once(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("a", RESUME, 5);
	second_ended = 0;
	awaited = "owner: naming awaited";
	deadly = "owner: to be known";
	meanwhile = let_a_second_one_join;
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	assert_int_equal(pthread_join(second, NULL), 0);
	assert_int_equal(second_error, 0);
	assert_int_equal(second_self, percpu_owners_self(owners));
	expect(5, 5);
	assert_int_equal(count(), 1);
}

static void join_without_a_name(void)
{
	assert_int_equal(percpu_owners_join(owners), 0);
}

/* Another thread's first update joins meanwhile, without a name. The values stay with the name. */
static void an_update_may_be_first(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("a", RESUME, 5);
	deadly = "owner: to be known";
	meanwhile = join_without_a_name;
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), -EALREADY);
	expect(0, 5);
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	expect(5, 5);
}

static void wait_for_long(void)
{
	let_pass(2 * PERCPU_LOCK_NS);
}

static int join_alone(void *arg)
{
	(void)arg;
	return percpu_owners_join_as(owners, "b", RESUME);
}

static void no_thread_is_awaited_forever(void **state)
{
	(void)state;
	owners->naming = 1; /* a thread joins, and is stopped */
	deadly = "owner: naming awaited";
	meanwhile = wait_for_long;
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), -ETIMEDOUT);
	test_in_child(join_alone, NULL); /* a child does not have that thread */
	owners->naming = 0;
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
}

/* Processes that are killed */

static const char *const steps_of_resuming[] = {
	"owner: namesake found", "owner: slot found", "owner: byte locked", "owner: slot freed",
	"owner: slot filled in", "owner: slot taken", "owner: to be known",
};

/* A process is stopped and then killed while it resumes. The value is there once at each moment. The
 * next process resumes it all the same. */
static void killed_while_resuming(const char *step, int64_t none)
{
	struct task t = { "3", RESUME, 0, true };
	pid_t pid;

	come_and_end("3", RESUME, 100);
	pid = start_until(step, do_task, (uintptr_t)&t);
	assert_int_equal(value(PERCPU_OWNED_ALL), 100);
	assert_string_equal(only().name, "3");
	stop(pid);
	expect(none, 100);
	assert_string_equal(only().name, "3");
	pid = come_and_stay("3", RESUME, 0);
	expect(100, 100);
	stop(pid);
	expect(none, 100);
	assert_int_equal(count(), 1);
}

static void the_killed_lose_nothing(void **state)
{
	const size_t n = sizeof(steps_of_resuming) / sizeof(*steps_of_resuming);

	(void)state;
	if (!percpu_robust_supported())
		test_skip("the kernel does not take over locks of the killed");
	for (int rule = PERCPU_OWNED_SUM; rule <= PERCPU_OWNED_RECENT; rule++)
		for (size_t i = 0; i < n; i++) {
			make_anew((enum percpu_owned_rule)rule);
			killed_while_resuming(steps_of_resuming[i],
					      rule == PERCPU_OWNED_SUM ? 0 : -1);
		}
}

static const char *const steps_of_naming[] = {
	"owner: slot freed",  "owner: name to be stored", "owner: name stored in part",
	"owner: name stored", "owner: slot filled in",
};

/* A process takes the slot of "old", and is stopped and killed while it stores its own name. Nobody
 * sees a part of a name. */
static void names_are_whole(void **state)
{
	struct task t = { LONGEST, 0, 0, true };
	pid_t pid;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("the kernel does not take over locks of the killed");
	for (size_t i = 0; i < sizeof(steps_of_naming) / sizeof(*steps_of_naming); i++) {
		make_anew(PERCPU_OWNED_SUM);
		come_and_end("old", 0, 5);
		fill_slots(1);
		pid = start_until(steps_of_naming[i], do_task, (uintptr_t)&t);
		assert_int_equal(count(), PERCPU_OWNER_SLOTS - 1); /* slot 0 is free */
		assert_string_equal(only().name, i == 0 ? "old" : "");
		stop(pid);
		assert_int_equal(count(), PERCPU_OWNER_SLOTS - 1);
		assert_string_equal(only().name, i == 0 ? "old" : "");
		expect(0, 5);
		pid = come_and_stay(i == 0 ? "old" : LONGEST, RESUME, 0);
		assert_string_equal(listed(pid).name, i == 0 ? "old" : LONGEST);
		assert_int_equal(count(), PERCPU_OWNER_SLOTS);
		expect(i == 0 ? 5 : 0, 5);
		stop(pid);
	}
}

static void take_by_another_name(void)
{
	come_and_end("another", 0, 0);
}

/* Another owner takes the slot between a reader's looks. It sees one of them, with its own name, or
 * the old one without its name. */
static void readers_see_whole_names(void **state)
{
	static const char *const steps[] = { "owner: slot copied", "owner: name copied in part" };
	struct percpu_owner_info info[2];

	(void)state;
	make(PERCPU_OWNED_SUM);
	for (size_t i = 0; i < 2; i++) {
		make_anew(PERCPU_OWNED_SUM);
		assert_int_equal(percpu_owners_join_as(owners, LONGEST, 0), 0);
		fill_slots(1);
		memset(info, 0, sizeof(info));
		percpu_owners_leave(owners);
		come_and_end(LONGEST, 0, 0);
		deadly = steps[i];
		meanwhile = take_by_another_name;
		assert_int_equal(percpu_owners_list(owners, info, 1), PERCPU_OWNER_SLOTS);
		assert_null(deadly);
		assert_string_equal(info[0].name, i == 0 ? "another" : "");
		assert_int_equal(percpu_owners_list(owners, info, 1), PERCPU_OWNER_SLOTS);
		assert_string_equal(info[0].name, "another");
		memset(owners->slots[0], 0, sizeof(struct percpu_owner_slot) * PERCPU_OWNER_SLOTS);
	}
}

/* The hash of docs/memory/format.md. */
static uint64_t hash_of(const struct percpu_owner_slot *s)
{
	uint64_t h = s->first;

	for (int i = 0; i < 8; i++) {
		h = (h ^ s->name[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 32;
	}
	return h;
}

/* What another process may have written. */
static void hostile_names_are_none(void **state)
{
	struct percpu_owner_slot *s;

	(void)state;
	make(PERCPU_OWNED_SUM);
	assert_int_equal(percpu_owners_join_as(owners, "a", 0), 0);
	s = &owners->slots[0][0];
	assert_int_equal(s->check, hash_of(s));
	memset(s->name, 'x', sizeof(s->name)); /* no end */
	s->check = hash_of(s);
	assert_string_equal(listed(getpid()).name, "");
	memset(s->name, 0, sizeof(s->name));
	memcpy(s->name, "b\xff", 2); /* no UTF-8 */
	s->check = hash_of(s);
	assert_string_equal(listed(getpid()).name, "");
	memcpy(s->name, "bc\0d", 4); /* bytes behind the end */
	s->check = hash_of(s);
	assert_string_equal(listed(getpid()).name, "bc");
	assert_int_equal(listed(getpid()).name[3], 0);
	s->check++;
	assert_string_equal(listed(getpid()).name, "");
	s->first = s->word / 2 + 1; /* of an owner to come */
	s->check = hash_of(s);
	assert_string_equal(listed(getpid()).name, "");
	assert_int_equal(percpu_owned_gauge_add(gauge, 7), 0);
	expect(7, 7);
}

/* Slots */

static int update_without_a_name(void *arg)
{
	(void)arg;
	return percpu_owned_gauge_add(gauge, 1);
}

/* Names are spared while there are slots without names. After that they end, before the table
 * grows. */
static void names_last_while_there_is_room(void **state)
{
	pid_t pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("a", RESUME, 5);
	come_and_end("b", RESUME, 6);
	assert_int_equal(count(), 2);
	test_in_child(update_without_a_name, NULL);
	assert_int_equal(count(), 3);
	fill_slots(2);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(percpu_owners_self(owners) % PERCPU_OWNERS_MAX, 0);
	pid = come_and_stay("a", RESUME, 0);
	assert_int_equal(listed(pid).id % PERCPU_OWNERS_MAX, 1); /* "b" ends */
	stop(pid);
}

static void let_another_end(void)
{
	come_and_end("a", RESUME, 5);
}

/* Another process makes the first slots at the same time, has a name, and ends. */
static void names_last_from_the_first_on(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	deadly = "owner: block looked for";
	meanwhile = let_another_end;
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_null(deadly);
	assert_int_equal(percpu_owners_self(owners) % PERCPU_OWNERS_MAX, 1);
	assert_string_equal(only().name, "a");
}

/* A name may be in a slot of any block. */
static void names_are_found_in_later_blocks(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("b", RESUME, 0);
	fill_slots(0);
	come_and_end("a", RESUME, 5);
	assert_string_equal(only().name, "a");
	assert_int_equal(only().id % PERCPU_OWNERS_MAX, PERCPU_OWNER_SLOTS);
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	assert_int_equal(percpu_owners_self(owners) % PERCPU_OWNERS_MAX, PERCPU_OWNER_SLOTS);
	expect(5, 5);
	assert_int_equal(percpu_owned_gauge_add(gauge, 1), 0);
	expect(6, 6);
}

/* Return the file's byte of the first slot of the second block, which is in the first chunk. */
static uint64_t byte_of_later_block(void)
{
	const struct percpu_chunk *k = owners->block.chunk;

	return percpu_descriptor_byte(k, (size_t)((const char *)owners->slots[1] -
						  (const char *)percpu_chunk_bias(k, 0)));
}

static void owners_in_later_blocks_lock_their_bytes(void **state)
{
	pid_t pid;

	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("b", RESUME, 0);
	fill_slots(0);
	pid = come_and_stay("a", RESUME, 5);
	assert_int_equal(count(), PERCPU_OWNER_SLOTS + 1);
	assert_int_equal(percpu_descriptor_locked(region, byte_of_later_block()), 1);
	stop(pid);
	assert_int_equal(percpu_descriptor_locked(region, byte_of_later_block()), 0);
}

/* As one_of_two_begins(), in the second block. */
static void one_of_two_begins_in_a_later_block(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("b", RESUME, 0);
	fill_slots(0);
	deadly = "owner: slot found";
	meanwhile = let_another_resume;
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), -EEXIST);
	assert_null(deadly);
	expect(1000, 1000);
	stop(other);
}

/* A name is spared as well if the slot without a name is in a later block. */
static void names_last_while_later_blocks_have_room(void **state)
{
	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("b", RESUME, 0);
	fill_slots(0);
	test_in_child(update_without_a_name, NULL); /* makes the second block */
	owners->slots[0][0] = (struct percpu_owner_slot){ .word = 0 };
	come_and_end("a", RESUME, 5);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(percpu_owners_self(owners) % PERCPU_OWNERS_MAX, PERCPU_OWNER_SLOTS);
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	expect(5, 6);
}

/* A block whose key is damaged has no slots. */
static void damaged_blocks_are_in_nobodys_way(void **state)
{
	struct percpu_owners_control *c;

	(void)state;
	make(PERCPU_OWNED_SUM);
	come_and_end("a", RESUME, 5);
	c = (struct percpu_owners_control *)percpu_block_bias(&owners->block);
	c->block[1] = UINT64_MAX;
	assert_int_equal(percpu_owners_join_as(owners, "a", RESUME), 0);
	expect(5, 5);
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owners_join_as(owners, "b", RESUME), 0);
	assert_string_equal(listed(getpid()).name, "b");
	c->block[1] = 0;
}

static int take_the_lock(void *arg)
{
	struct percpu_rwlock *l = NULL;

	test_child_require(percpu_owners_join_as(owners, "a", RESUME) == 0, "join");
	test_child_require(percpu_rwlock_open(owners, ROOT + 1, 0, &l) == 0, "open");
	if (arg != NULL)
		test_child_require(percpu_rwlock_read_lock(l) == 0, "lock");
	return stay();
}

/* A lock of a dead owner ends, although its name and values go on. */
static void locks_are_not_resumed(void **state)
{
	struct percpu_rwlock *l;
	pid_t pid;
	int e;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("the kernel does not take over locks of the killed");
	assert_int_equal(percpu_rwlock_open(owners, ROOT + 1, 0, &l), 0);
	pid = start(take_the_lock, 1);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	stop(pid);
	pid = start(take_the_lock, 0);
	e = percpu_rwlock_write_lock(l);
	assert_true(e == 0 || e == -EOWNERDEAD);
	if (e == -EOWNERDEAD)
		assert_int_equal(percpu_rwlock_consistent(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	stop(pid);
	assert_int_equal(percpu_rwlock_destroy(l), 0);
}

/* A worker: resume the values of the one before it, and count one piece of work. */
static int work(void *arg)
{
	const char name[2] = { (char)('0' + (uintptr_t)arg % NAMES), '\0' };

	if (percpu_owners_join_as(owners, name, RESUME) != 0)
		return 1;
	return percpu_owned_gauge_add(gauge, 1) != 0;
}

/* Workers come and go, eight at a time. Each one has the name of one that has ended. */
static void workers_come_and_go(void **state)
{
	struct percpu_owned_value v[NAMES + 1];
	const unsigned rounds = crowds != 0 ? crowds : test_rounds(20);
	pid_t pid[NAMES];
	size_t n = 0;

	(void)state;
	make(PERCPU_OWNED_SUM);
	for (unsigned round = 0; round < rounds; round++) {
		for (uintptr_t i = 0; i < NAMES; i++)
			pid[i] = test_fork(work, (void *)i);
		for (unsigned i = 0; i < NAMES; i++)
			assert_int_equal(test_wait(pid[i], 60), 0);
	}
	assert_int_equal(count(), NAMES);
	expect(0, (int64_t)rounds * NAMES);
	assert_int_equal(percpu_owned_gauge_each(gauge, PERCPU_OWNED_ALL, v, NAMES + 1, &n), 0);
	assert_int_equal(n, NAMES);
	for (size_t i = 0; i < NAMES; i++) {
		assert_int_equal(v[i].value, rounds);
		assert_true(v[i].name[0] >= '0' && v[i].name[0] < '0' + NAMES);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(v[i].name, v[k].name);
	}
}

static struct {
	uint64_t begun, done;
} * work_of_all;

/* Resume and work, until this process is killed at a random time. */
static int work_on(void *arg)
{
	const char name[2] = { (char)('0' + (uintptr_t)arg % NAMES), '\0' };

	if (percpu_owners_join_as(owners, name, RESUME) != 0)
		return 1;
	for (;;) {
		__atomic_fetch_add(&work_of_all->begun, 1, __ATOMIC_SEQ_CST);
		if (percpu_owned_gauge_add(gauge, 1) != 0)
			return 1;
		__atomic_fetch_add(&work_of_all->done, 1, __ATOMIC_SEQ_CST);
	}
	return 0;
}

static void workers_are_killed(void **state)
{
	pid_t pid[4];
	uint64_t random = 5;
	unsigned killed = 0;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("the kernel does not take over locks of the killed");
	work_of_all = work_of_all != NULL ? work_of_all : test_share(sizeof(*work_of_all));
	memset(work_of_all, 0, sizeof(*work_of_all));
	make(PERCPU_OWNED_SUM);
	for (uintptr_t i = 0; i < 4; i++)
		pid[i] = test_fork(work_on, (void *)i);
	for (unsigned round = 0; round < test_rounds(60); round++) {
		const unsigned i = (unsigned)(test_random(&random) % 4);
		int status;

		test_sleep_us((unsigned)(test_random(&random) % 1500));
		kill(pid[i], SIGKILL);
		status = test_wait(pid[i], 60);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		killed++;
		pid[i] = test_fork(work_on, (void *)(uintptr_t)i);
	}
	for (unsigned i = 0; i < 4; i++)
		stop(pid[i]);
	/* A process that is killed between its two counts has counted one or none. */
	assert_in_range(value(PERCPU_OWNED_ALL), work_of_all->done, work_of_all->begun);
	assert_true(work_of_all->begun - work_of_all->done <= killed + 4);
	assert_int_equal(value(PERCPU_OWNED_LIVING), 0);
	assert_true(count() <= 4);
}

#define NAME_TEST(f) cmocka_unit_test_setup_teardown(f, begin_owners, end)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		NAME_TEST(owners_are_told_with_their_names),
		NAME_TEST(bad_names_are_refused),
		NAME_TEST(an_owner_has_one_name),
		NAME_TEST(children_of_fork_have_no_name),
		NAME_TEST(values_are_resumed),
		NAME_TEST(values_are_not_resumed_unasked),
		NAME_TEST(a_name_begins_with_its_owner),
		NAME_TEST(each_rule_goes_on),
		NAME_TEST(doubles_go_on),
		NAME_TEST(who_has_left_is_resumed),
		NAME_TEST(a_program_resumes_what_it_had_before_exec),
		NAME_TEST(the_living_are_not_resumed),
		NAME_TEST(the_first_of_several_is_resumed),
		NAME_TEST(one_of_two_resumes),
		NAME_TEST(one_of_two_begins),
		NAME_TEST(the_winner_may_be_dead),
		NAME_TEST(names_may_end_meanwhile),
		NAME_TEST(names_may_come_and_go),
		NAME_TEST(locked_slots_are_resumed),
		NAME_TEST(locked_slots_are_not_needed),
		NAME_TEST(threads_join_once),
		NAME_TEST(an_update_may_be_first),
		NAME_TEST(no_thread_is_awaited_forever),
		NAME_TEST(the_killed_lose_nothing),
		NAME_TEST(names_are_whole),
		NAME_TEST(readers_see_whole_names),
		NAME_TEST(hostile_names_are_none),
		NAME_TEST(names_last_while_there_is_room),
		NAME_TEST(names_last_from_the_first_on),
		NAME_TEST(damaged_blocks_are_in_nobodys_way),
		NAME_TEST(names_are_found_in_later_blocks),
		NAME_TEST(owners_in_later_blocks_lock_their_bytes),
		NAME_TEST(one_of_two_begins_in_a_later_block),
		NAME_TEST(names_last_while_later_blocks_have_room),
		NAME_TEST(locks_are_not_resumed),
		NAME_TEST(workers_come_and_go),
		NAME_TEST(workers_are_killed),
	};

	if (argc > 2 && strcmp(argv[1], AFTER_EXEC) == 0)
		return resume_after_exec(argv[2]);
	crowds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0; /* rounds of 8 workers */
	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
