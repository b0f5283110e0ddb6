/* SPDX-License-Identifier: MIT */
/*
 * test_owner.c - test owners: processes that end in every way. The tests ask whether they live,
 * from inside and outside their PID namespace, with and without their descriptor, and by handles
 * that may write or only read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"

#include "owners/owners.h"
#include "../owners.h"

#define SLOTS PERCPU_OWNER_SLOTS

/* Shared by the processes of a test. */
static struct {
	uint64_t id[8];
} * shared;

static int begin(void **state)
{
	shared = shared != NULL ? shared : test_share(sizeof(*shared));
	memset(shared, 0, sizeof(*shared));
	return begin_owners(state);
}

static size_t count(const struct percpu_owners *o, bool alive)
{
	static struct percpu_owner_info list[PERCPU_OWNERS_MAX];
	size_t n = percpu_owners_list(o, list, PERCPU_OWNERS_MAX), found = 0;

	for (size_t i = 0; i < n; i++)
		found += (list[i].alive != 0) == alive;
	return found;
}

static bool lives(uint64_t id)
{
	const struct percpu_owners *here = owners; /* a const handle is enough */
	int there = percpu_owners_alive(asker, id);

	return percpu_owners_alive(here, id) == there ? there : !there;
}

static int join_and_stay(void *arg)
{
	test_child_require(percpu_owners_join(owners) == 0, "to join");
	shared->id[(uintptr_t)arg] = percpu_owners_self(owners);
	return stay();
}

static void a_process_has_one_slot(void **state)
{
	struct percpu_owner_info info;
	uint64_t id;

	(void)state;
	assert_int_equal(percpu_owners_self(owners), 0);
	assert_int_equal(percpu_owners_join(owners), 0);
	id = percpu_owners_self(owners);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(percpu_owners_self(owners), id);
	assert_true(lives(id));
	assert_false(lives(id + PERCPU_OWNERS_MAX));
	assert_false(lives(id + 1));
	assert_false(lives(0));
	assert_int_equal(percpu_owners_list(asker, &info, 1), 1);
	assert_true(info.id == id && info.pid == (uint32_t)getpid() && info.alive == 1);
	assert_int_equal(info.started, percpu_identity().started);
	assert_int_equal(percpu_owners_join(asker), -EROFS);
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owners_self(owners), 0);
	assert_false(lives(id));
	assert_int_equal(percpu_owners_list(asker, &info, 1), 0);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_not_equal(percpu_owners_self(owners), id); /* a number is used once */
	assert_int_equal(percpu_owners_self(owners) % PERCPU_OWNERS_MAX, id % PERCPU_OWNERS_MAX);
	percpu_owners_leave(owners);
}

static void handles_of_one_process_have_slots_of_their_own(void **state)
{
	struct percpu_owners *second;
	uint64_t id;

	(void)state;
	assert_int_equal(percpu_owners_open(region, 0, &second), 0);
	assert_int_equal(percpu_owners_join(owners) | percpu_owners_join(second), 0);
	id = percpu_owners_self(second);
	assert_int_not_equal(percpu_owners_self(owners), id);
	assert_true(lives(id) && lives(percpu_owners_self(owners)));
	percpu_owners_detach(second);
	assert_false(lives(id));
	assert_true(lives(percpu_owners_self(owners)));
}

static void bad_calls_are_refused(void **state)
{
	struct percpu_owners *o = NULL;
	struct percpu_region *r;

	(void)state;
	assert_int_equal(percpu_region_open(owners_path, PERCPU_REGION_WRITE, NULL, &r), 0);
	assert_int_equal(percpu_owners_open(r, 1, &o), -ENOTSUP);
	assert_int_equal(percpu_owners_create_in(r, &o), -ENOTSUP);
	assert_int_equal(percpu_owners_attach(r, percpu_owners_key(owners), &o), -ENOTSUP);
	percpu_region_close(r);
	assert_int_equal(percpu_region_create(NULL, &r), 0);
	assert_int_equal(percpu_owners_create_in(r, &o), -EINVAL);
	percpu_region_close(r);
	assert_int_equal(percpu_owners_open(region, 16, &o), -EINVAL);
	assert_int_equal(percpu_owners_create_in(outside, &o), -EROFS);
	assert_int_equal(percpu_owners_open(outside, 2, &o), -ENOENT);
	assert_int_equal(percpu_owners_attach(region, 0, &o), -ENOENT);
	assert_int_equal(percpu_owners_attach(region, percpu_owners_key(owners) + 64, &o), -ENOENT);
	assert_null(o);
	assert_int_equal(percpu_owners_attach(outside, percpu_owners_key(owners), &o), 0);
	percpu_owners_detach(o);
}

static void the_killed_are_dead_at_once(void **state)
{
	uint64_t id;
	pid_t pid;
	siginfo_t info;

	(void)state;
	pid = start(join_and_stay, 0);
	id = shared->id[0];
	assert_true(lives(id));
	kill(pid, SIGKILL);
	/* The child is not reaped, so the kernel still has its pid. */
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_false(lives(id));
	test_wait(pid, 60);
	assert_false(lives(id));
	assert_int_equal(count(asker, false), 1);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(percpu_owners_self(owners), id + PERCPU_OWNERS_MAX);
	assert_int_equal(count(asker, false), 0);
}

/* The first thread of a process may end before other threads. Then ps(1) shows a zombie. */

static void *stay_in_thread(void *arg)
{
	(void)stay();
	return arg;
}

static int join_and_end_first_thread(void *arg)
{
	pthread_t thread;

	(void)arg;
	test_child_require(percpu_owners_join(owners) == 0, "to join");
	shared->id[0] = percpu_owners_self(owners);
	test_child_require(pthread_create(&thread, NULL, stay_in_thread, NULL) == 0, "a thread");
	pthread_exit(NULL);
}

static bool is_zombie(pid_t pid)
{
	char name[32], text[512] = "";
	const char *after;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	after = strrchr(text, ')');
	return after != NULL && after[1] == ' ' && after[2] == 'Z';
}

static void processes_outlive_their_first_threads(void **state)
{
	pid_t pid;

	(void)state;
	pid = start(join_and_end_first_thread, 0);
	for (int i = 0; i < 50000 && !is_zombie(pid); i++)
		test_sleep_us(200);
	assert_true(is_zombie(pid));
	assert_true(lives(shared->id[0]));
	assert_int_equal(count(asker, true), 1);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_not_equal(percpu_owners_self(owners) % PERCPU_OWNERS_MAX,
			     shared->id[0] % PERCPU_OWNERS_MAX);
	stop(pid);
	assert_false(lives(shared->id[0]));
}

/* Names that look like the fields behind the name in /proc/PID/stat. The start time is the 22nd
 * field. With the first two names, a wrong parser takes the 20th or the 18th field for it; these
 * are not 0. */
static const char *const odd_names[] = { ") S ", "x) Z 1 1 ", "a) S (b) X 7 7", "))" };
#define ODD_NAMES (sizeof(odd_names) / sizeof(odd_names[0]))

/* Join, and take an odd name: before joining if arg is odd, or else after it. */
static int join_with_odd_name(void *arg)
{
	const uintptr_t i = (uintptr_t)arg;

	if (i % 2 == 1)
		prctl(PR_SET_NAME, odd_names[i / 2]);
	test_child_require(percpu_owners_join(owners) == 0, "to join");
	prctl(PR_SET_NAME, odd_names[i / 2]);
	shared->id[0] = percpu_owners_self(owners);
	return stay();
}

static void names_of_processes_mislead_nobody(void **state)
{
	pid_t pid;

	(void)state;
	for (uintptr_t i = 0; i < 2 * ODD_NAMES; i++) {
		pid = start(join_with_odd_name, i);
		assert_true(lives(shared->id[0]));
		stop(pid);
		assert_false(lives(shared->id[0]));
	}
}

static void the_stopped_live(void **state)
{
	pid_t pid;

	(void)state;
	pid = start(join_and_stay, 0);
	suspend(pid);
	assert_true(lives(shared->id[0]));
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_not_equal(percpu_owners_self(owners) % PERCPU_OWNERS_MAX,
			     shared->id[0] % PERCPU_OWNERS_MAX);
	stop(pid);
}

/* A slot names a pid that another process has now. That process is not the owner. */
static void a_number_that_is_used_again_is_no_owner(void **state)
{
	struct percpu_owner_slot *slot;
	pid_t pid;

	(void)state;
	pid = start(join_and_stay, 0);
	(void)lives(shared->id[0]); /* looks the slots up */
	slot = owners->slots[0];
	assert_non_null(slot);
	slot->started -= 1;
	assert_false(lives(shared->id[0]));
	slot->started += 1;
	assert_true(lives(shared->id[0]));
	stop(pid);
}

static int be_of_ones_own(void *arg)
{
	const uint64_t parent = shared->id[0];

	(void)arg;
	test_child_require(percpu_owners_self(owners) == 0, "no slot yet");
	test_child_require(lives(parent), "the parent lives");
	test_child_require(percpu_owners_join(owners) == 0, "to join");
	shared->id[1] = percpu_owners_self(owners);
	test_child_require(shared->id[1] != parent && lives(parent), "another slot");
	return 0;
}

static void children_of_fork_are_owners_of_their_own(void **state)
{
	(void)state;
	assert_int_equal(percpu_owners_join(owners), 0);
	shared->id[0] = percpu_owners_self(owners);
	test_in_child(be_of_ones_own, NULL);
	assert_true(lives(shared->id[0]));
	assert_false(lives(shared->id[1]));
}

/* Join, and start a child that inherits all. Later this parent is killed, and the child goes on. */
static int be_a_parent(void *arg)
{
	(void)arg;
	test_child_require(percpu_owners_join(owners) == 0, "to join");
	shared->id[0] = percpu_owners_self(owners);
	if (fork() == 0) {
		alarm(30);
		shared->id[1] = (uint64_t)getpid();
		reach(1);
		for (;;)
			pause();
	}
	for (;;)
		pause();
	return 0;
}

static struct percpu_owner_seen see(uint64_t id)
{
	struct percpu_owner_seen seen;

	(void)percpu_owner_look(owners, id % PERCPU_OWNERS_MAX, &seen);
	return seen;
}

static void children_keep_no_lock_of_their_parent(void **state)
{
	struct percpu_owner_seen seen;
	pid_t pid;

	(void)state;
	pid = start(be_a_parent, 0);
	seen = see(shared->id[0]);
	assert_int_equal(seen.locked, 1);
	assert_int_equal(percpu_descriptor_locked(outside, seen.byte), 1);
	stop(pid);
	assert_false(lives(shared->id[0]));
	assert_int_equal(percpu_descriptor_locked(outside, seen.byte), 0);
	kill((pid_t)shared->id[1], SIGKILL);
}

/* With this argument the test program itself sleeps, where there is no sleep(1). */
#define SLEEP "--sleep"

static int join_and_exec(void *arg)
{
	(void)arg;
	test_child_require(percpu_owners_join(owners) == 0, "to join");
	shared->id[0] = percpu_owners_self(owners);
	reach(1);
	execlp("sleep", "sleep", "30", (char *)NULL);
	execl("/proc/self/exe", "sleep", SLEEP, (char *)NULL);
	return 1;
}

static void exec_drops_the_lock_and_the_process_lives_on(void **state)
{
	struct percpu_owner_seen seen;
	pid_t pid;

	(void)state;
	pid = start(join_and_exec, 0);
	seen = see(shared->id[0]);
	for (int i = 0; i < 50000 && percpu_descriptor_locked(outside, seen.byte) == 1; i++)
		test_sleep_us(200);
	assert_int_equal(percpu_descriptor_locked(outside, seen.byte), 0);
	assert_true(lives(shared->id[0]));
	stop(pid);
	assert_false(lives(shared->id[0]));
}

/* Forget the slot, like exec: the slot names this process, and the handle has none. */
static int forget_the_slot(void *arg)
{
	uint64_t id;

	(void)arg;
	test_child_require(percpu_owners_join(owners) == 0, "to join");
	id = percpu_owners_self(owners);
	owners->self = 0;
	test_child_require(!percpu_owners_alive(owners, id), "before exec it was another");
	test_child_require(percpu_owners_join(owners) == 0, "to join again");
	test_child_require(percpu_owners_self(owners) == id + PERCPU_OWNERS_MAX, "the same slot");
	return 0;
}

static void the_slot_before_exec_is_taken_again(void **state)
{
	(void)state;
	test_in_child(forget_the_slot, NULL);
}

static struct percpu_owners *second;

/* Forget the slots of two handles. Until one joins again, other processes take both slots for a
 * living owner's. */
static int forget_both_slots(void *arg)
{
	(void)arg;
	test_child_require(percpu_owners_open(region, 0, &second) == 0 &&
				   percpu_owners_join(owners) == 0 &&
				   percpu_owners_join(second) == 0,
			   "to join by both");
	owners->self = second->self = 0;
	test_child_require(percpu_owners_list(asker, NULL, 0) == 2, "both slots are taken");
	test_child_require(percpu_owners_join(second) == 0, "to join again");
	test_child_require(percpu_owners_list(asker, NULL, 0) == 1, "the other slot is free");
	test_child_require(percpu_owners_join(owners) == 0 && count(asker, true) == 2,
			   "to join again by the other");
	return 0;
}

static void no_slot_from_before_exec_is_left(void **state)
{
	(void)state;
	test_in_child(forget_both_slots, NULL);
}

static int e_of_second;

static void *join_by_second(void *arg)
{
	(void)arg;
	e_of_second = percpu_owners_join(second);
	return NULL;
}

static void let_second_join(void)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, join_by_second, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A thread has a slot that its handle does not record yet. Another thread that looks for slots from
 * before exec does not free it. */
static void who_looks_for_slots_from_before_exec_spares_new_ones(void **state)
{
	size_t alive;

	(void)state;
	assert_int_equal(percpu_owners_open(region, 0, &second), 0);
	deadly = "owner: to be known";
	meanwhile = let_second_join;
	assert_int_equal(percpu_owners_join(owners), 0);
	alive = count(asker, true);
	percpu_owners_detach(second);
	assert_int_equal(e_of_second, 0);
	assert_int_equal(alive, 2);
}

/* Two threads join by one handle at once, and one of them gives its slot back. After that no thread
 * is joining, so a slot that this process had before exec counts as dead, and is freed. */

static void *join_by_the_same(void *arg)
{
	(void)arg;
	e_of_second = percpu_owners_join(owners);
	return NULL;
}

static void let_another_thread_join(void)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, join_by_the_same, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* The lock of the spare slot is given back, too, so another process can take the slot. */
static void spare_slots_are_others(void **state)
{
	const uint64_t spare = 0;
	pid_t pid;

	(void)state;
	deadly = "owner: to be known";
	meanwhile = let_another_thread_join;
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_null(deadly);
	assert_int_equal(percpu_owners_self(owners) % PERCPU_OWNERS_MAX, spare + 1);
	pid = start(join_and_stay, 0);
	assert_int_equal(shared->id[0] % PERCPU_OWNERS_MAX, spare);
	stop(pid);
}

static void whose_slot_is_spare_joins_no_more(void **state)
{
	bool joins, alive;
	uint64_t id, again;

	(void)state;
	assert_int_equal(percpu_owners_open(region, 0, &second), 0);
	deadly = "owner: to be known";
	meanwhile = let_another_thread_join;
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_null(deadly);
	assert_int_equal(e_of_second, 0);
	joins = percpu_owner_joins(0);
	assert_int_equal(percpu_owners_join(second), 0);
	id = percpu_owners_self(second);
	second->self = 0;
	alive = percpu_owners_alive(owners, id);
	assert_int_equal(percpu_owners_join(second), 0);
	again = percpu_owners_self(second);
	percpu_owners_detach(second);
	assert_false(joins);
	assert_false(alive);
	assert_int_equal(again, id + PERCPU_OWNERS_MAX); /* the same slot */
}

/* A dead owner has a slot in one file. This process has the same slot in another file, on the same
 * device or on another one. The dead owner stays dead. */
static void slots_of_other_files_are_not_ours(void **state)
{
	struct percpu_region *made, *r;
	struct percpu_owners *others;
	int fd;

	(void)state;
	stop(start(join_and_stay, 0));
	for (unsigned i = 0; i < 2; i++) {
		fd = i == 0 ? open(test_path("others"), O_RDWR | O_CREAT | O_CLOEXEC, 0600) :
			      memfd_create("others", MFD_CLOEXEC);
		assert_int_equal(test_region_new_fd(fd, NULL, &made), 0);
		assert_int_equal(percpu_region_open_fd(
					 fd, PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS, NULL, &r),
				 0);
		assert_int_equal(percpu_owners_open(r, 0, &others), 0);
		assert_int_equal(percpu_owners_join(others), 0);
		assert_int_equal(percpu_owners_self(others), shared->id[0]);
		assert_true(others->inode != owners->inode || others->device != owners->device);
		assert_false(lives(shared->id[0]));
		if (i == 1) {
			assert_int_equal(percpu_owners_join(owners), 0);
			assert_int_equal(percpu_owners_self(owners),
					 shared->id[0] + PERCPU_OWNERS_MAX);
		}
		percpu_owners_destroy(others);
		percpu_region_close(r);
		percpu_region_close(made);
		close(fd);
	}
}

/* A slot agrees with this process only in part: it has the same pid, but another start time or
 * another space. It is not taken for a slot from before exec. */
static void slots_of_namesakes_stay(void **state)
{
	struct percpu_owner_slot *s;
	struct percpu_owner_info info[4];
	struct percpu_identity me = percpu_identity();
	pid_t pid[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		pid[i] = start(join_and_stay, i);
	assert_int_equal(count(owners, true), 2);
	s = owners->slots[0];
	for (unsigned i = 0; i < 2; i++) {
		s[1].pid = me.pid;
		s[1].started = me.started + (i == 0);
		s[1].space = me.space + (i == 1);
		s[1].locked = 1;
		assert_int_equal(percpu_owners_join(owners), 0);
		assert_int_equal(percpu_owners_list(owners, info, 4), 3);
		percpu_owners_leave(owners);
	}
	for (unsigned i = 0; i < 2; i++)
		stop(pid[i]);
}

/* In a damaged file, no owner lives in a block of slots that cannot be found. */
static void slots_may_not_be_found(void **state)
{
	struct percpu_owners_control *c =
		(struct percpu_owners_control *)percpu_block_bias(&owners->block);

	(void)state;
	c->block[5] = 12345;
	assert_false(lives(PERCPU_OWNERS_MAX + 5 * SLOTS));
	c->block[5] = 0;
	assert_false(lives(PERCPU_OWNERS_MAX + 5 * SLOTS));
}

/* Without /proc, only a lock shows that an owner lives. */
static int join_without_proc(void *arg)
{
	const char *nowhere = arg;

	test_child_require(chroot(nowhere) == 0 && chdir("/") == 0, "chroot");
	test_child_require(percpu_owner_me().space == 0, "it has no name");
	test_child_require(percpu_owners_join(owners) == 0, "join");
	test_child_require(see(percpu_owners_self(owners)).locked == 1, "with a lock");
	percpu_owners_leave(owners);
	close(region->file.fd);
	test_child_require(percpu_owners_join(owners) == -ENOLCK, "no name, and no lock");
	test_child_require(percpu_owners_self(owners) == 0, "it is none");
	return 0;
}

static void who_has_no_name_needs_a_lock(void **state)
{
	char nowhere[200];

	(void)state;
	if (geteuid() != 0)
		test_skip("only root changes its root");
	snprintf(nowhere, sizeof(nowhere), "%s", test_path("nowhere"));
	assert_int_equal(mkdir(nowhere, 0700), 0);
	test_in_child(join_without_proc, nowhere);
	assert_int_equal(rmdir(nowhere), 0);
}

static void join_once(unsigned i, void *arg)
{
	int *e = arg;

	e[i] = percpu_owners_join(owners);
}

static void threads_join_once(void **state)
{
	int e[8];

	(void)state;
	for (unsigned round = 0; round < test_rounds(20); round++) {
		test_team_run(8, join_once, e);
		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(e[i], 0);
		assert_int_equal(count(owners, true), 1);
		assert_true(lives(percpu_owners_self(owners)));
		assert_int_equal(
			percpu_descriptor_locked(outside, see(percpu_owners_self(owners)).byte), 1);
		percpu_owners_leave(owners);
		assert_int_equal(count(owners, true), 0);
	}
}

static int e_of_other;

static void *join_as_well(void *arg)
{
	(void)arg;
	__atomic_store_n(&e_of_other, percpu_owners_join(owners), __ATOMIC_RELEASE);
	return NULL;
}

static void begin_to_join_as_well(void)
{
	pthread_t thread;

	e_of_other = 1;
	assert_int_equal(pthread_create(&thread, NULL, join_as_well, NULL), 0);
	pthread_detach(thread);
}

static void await_other(void)
{
	while (__atomic_load_n(&e_of_other, __ATOMIC_ACQUIRE) == 1)
		test_sleep_us(200);
}

static void await_step(void)
{
	while (!__atomic_load_n(&seen_there, __ATOMIC_ACQUIRE))
		test_sleep_us(200);
}

/* Expect that both threads have joined, as one owner. */
static void expect_one_owner(void)
{
	uint64_t id = percpu_owners_self(owners);

	assert_int_equal(__atomic_load_n(&e_of_other, __ATOMIC_ACQUIRE), 0);
	assert_true(lives(id));
	assert_int_equal(count(owners, true), 1);
	assert_int_equal(percpu_descriptor_locked(outside, see(id).byte), 1);
}

/* Let another thread choose a slot while this one has a slot that is not recorded yet. */
static void join_beside(void)
{
	awaited = "owner: slot found";
	begin_to_join_as_well();
	await_step();
}

static void the_slot_of_another_thread_is_not_taken(void **state)
{
	(void)state;
	deadly = "owner: slot taken";
	meanwhile = join_beside;
	assert_int_equal(percpu_owners_join(owners), 0);
	await_other();
	expect_one_owner();
}

static uint32_t go_on;

static void let_other_end(void)
{
	__atomic_store_n(&go_on, 1, __ATOMIC_RELEASE);
	await_other();
}

static void stay_until_told(void)
{
	__atomic_store_n(&seen_there, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&go_on, __ATOMIC_ACQUIRE))
		test_sleep_us(200);
}

/* This thread finds that a slot is not the process's. Then another thread records that slot, and is
 * no longer joining. When this thread goes on, it must not take the slot. */
static void the_slot_of_a_thread_that_has_just_joined_is_not_taken(void **state)
{
	(void)state;
	go_on = 0;
	deadly = "owner: slot taken";
	meanwhile = stay_until_told;
	begin_to_join_as_well();
	await_step();
	meanwhile = let_other_end;
	deadly = "owner: not ours";
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(go_on, 1);
	expect_one_owner();
}

/* Kill a child at the step. Its slot has no living owner then, and this process takes it. */
static void killed_at(const char *step, uint64_t taken)
{
	stop(start_until(step, join_and_stay, 0));
	assert_int_equal(count(owners, true), 0);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(percpu_owners_self(owners), (taken + 1) * PERCPU_OWNERS_MAX);
	assert_int_equal(count(asker, true), 1);
	percpu_owners_leave(owners);
}

static void the_killed_leave_slots_that_can_be_taken(void **state)
{
	pid_t pid;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("the kernel does not take over locks of the killed");
	killed_at("owner: block made", 0);
	killed_at("owner: byte locked", 1);
	killed_at("owner: slot freed", 2);
	killed_at("owner: slot filled in", 3);
	killed_at("owner: slot taken", 5);
	/* The same in a dead owner's slot. */
	pid = start(join_and_stay, 0);
	stop(pid);
	killed_at("owner: slot freed", 7);
	pid = start(join_and_stay, 0);
	stop(pid);
	killed_at("owner: slot filled in", 9);
}

static void ask_for_the_old_owner(void)
{
	shared->id[1] = lives(shared->id[0]);
}

/* When a new owner has filled in its identity, the old owner does not seem to live again. */
static void the_dead_do_not_live_again(void **state)
{
	(void)state;
	stop(start(join_and_stay, 0));
	shared->id[1] = 7;
	deadly = "owner: slot filled in";
	meanwhile = ask_for_the_old_owner;
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(shared->id[1], 0);
	assert_int_equal(percpu_owners_self(owners), shared->id[0] + PERCPU_OWNERS_MAX);
}

static uint64_t self_then;

static void leave_again(void)
{
	percpu_owners_leave(owners);
	self_then = percpu_owners_self(owners);
}

/* While a thread leaves, the slot is still this process's, also after another thread's leave. */
static void slots_are_left_once(void **state)
{
	uint64_t id;

	(void)state;
	assert_int_equal(percpu_owners_join(owners), 0);
	id = percpu_owners_self(owners);
	deadly = "owner: byte unlocked";
	meanwhile = leave_again;
	percpu_owners_leave(owners);
	assert_null(deadly);
	assert_int_equal(self_then, id);
	assert_int_equal(percpu_owners_self(owners), 0);
}

static uint64_t id_of_second;
static bool lived_then;

static void look_at_second(void)
{
	lived_then = percpu_owners_alive(owners, id_of_second);
}

/* While a handle is detached, its slot is this process's until the slot is free. If the slot seemed
 * to be a dead owner's, another thread could take it, and the detaching one would unlock its byte. */
static void detached_handles_live_until_they_have_left(void **state)
{
	(void)state;
	assert_int_equal(percpu_owners_open(region, 0, &second), 0);
	assert_int_equal(percpu_owners_join(second), 0);
	id_of_second = percpu_owners_self(second);
	deadly = "owner: byte unlocked";
	meanwhile = look_at_second;
	percpu_owners_detach(second);
	assert_null(deadly);
	assert_true(lived_then);
	assert_false(lives(id_of_second));
}

static void join_and_be_killed(void)
{
	stop(start(join_and_stay, 0));
}

/* A free slot gets an owner that dies before this process takes the slot. This process gets another
 * number. */
static void numbers_are_not_used_twice(void **state)
{
	(void)state;
	meanwhile = join_and_be_killed;
	deadly = "owner: slot found";
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_null(deadly);
	assert_int_not_equal(percpu_owners_self(owners), shared->id[0]);
	assert_false(lives(shared->id[0]));
	assert_int_equal(count(asker, true), 1);
}

static void take_over_meanwhile(void)
{
	struct percpu_owner_slot *slot = &owners->slots[0][0];

	slot->word += 2;
	slot->pid += 1;
	slot->started += 1;
}

/* Another process has taken the slot over, because the lock was gone. Leaving does not free it. */
static void only_own_slots_are_given_back(void **state)
{
	const struct percpu_owner_slot *slot;
	uint64_t word;

	(void)state;
	assert_int_equal(percpu_owners_join(owners), 0);
	slot = &owners->slots[0][0];
	word = slot->word;
	meanwhile = take_over_meanwhile;
	deadly = "owner: byte unlocked";
	percpu_owners_leave(owners);
	assert_null(deadly);
	assert_int_equal(slot->word, word + 2);
}

/* If a slot is taken over while it is copied, the copy is of one owner only. */
static void slots_are_copied_whole(void **state)
{
	struct percpu_owner_seen before, seen;

	(void)state;
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_true(percpu_owner_look(owners, 0, &before));
	meanwhile = take_over_meanwhile;
	deadly = "owner: slot copied";
	assert_true(percpu_owner_look(owners, 0, &seen));
	assert_int_equal(seen.word, before.word + 2);
	assert_int_equal(seen.pid, before.pid + 1);
	assert_int_equal(seen.started, before.started + 1);
}

static int join_and_leave(void *arg)
{
	test_child_require(percpu_owners_join(owners) == 0, "to join");
	shared->id[0] = percpu_owners_self(owners);
	deadly = arg;
	percpu_owners_leave(owners);
	return 0;
}

static void the_killed_may_be_leaving(void **state)
{
	pid_t pid;

	(void)state;
	pid = start(join_and_leave, (uintptr_t) "owner: byte unlocked");
	assert_true(lives(shared->id[0]));
	stop(pid);
	assert_false(lives(shared->id[0]));
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(percpu_owners_self(owners), shared->id[0] + PERCPU_OWNERS_MAX);
}

/* Fill a block with slots that all name process 1, in another space. */
static void fill(size_t block)
{
	struct percpu_owners_control *c =
		(struct percpu_owners_control *)percpu_block_bias(&owners->block);
	struct percpu_owner_slot *slots;
	struct percpu_owner_block b = { .size = SLOTS * sizeof(*slots) };

	assert_int_equal(percpu_owner_block(region, &c->block[block], true, &b), 0);
	slots = b.bias;
	for (size_t i = 0; i < SLOTS; i++)
		slots[i] =
			(struct percpu_owner_slot){ .word = 2, .space = 5, .started = 1, .pid = 1 };
}

static void a_table_grows_to_its_limit(void **state)
{
	(void)state;
	fill(0);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(percpu_owners_self(owners) % PERCPU_OWNERS_MAX, SLOTS);
	assert_true(lives(percpu_owners_self(owners)));
	percpu_owners_leave(owners);
	for (size_t block = 1; block < PERCPU_OWNER_BLOCKS; block++)
		fill(block);
	assert_int_equal(percpu_owners_join(owners), -EUSERS);
	assert_int_equal(percpu_owners_list(asker, NULL, 0), PERCPU_OWNERS_MAX);
	owners->slots[PERCPU_OWNER_BLOCKS - 1][SLOTS - 1].word = 3;
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(percpu_owners_self(owners), 3 * PERCPU_OWNERS_MAX - 1);
}

/* Namespaces */

static bool can_have_namespaces(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(unshare(CLONE_NEWPID) != 0);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static int ask_from_another_namespace(void *arg)
{
	(void)arg;
	test_child_require(getpid() == 1, "another namespace");
	test_child_require(lives(shared->id[0]), "an owner lives");
	test_child_require(!lives(shared->id[1]), "a dead one does not");
	test_child_require(percpu_owners_join(owners) == 0, "to join");
	shared->id[2] = percpu_owners_self(owners);
	test_child_require(lives(shared->id[2]), "this one lives");
	reach(2);
	await(0, 3);
	return 0;
}

static int enter_namespace(void *arg)
{
	int status;
	pid_t pid;

	test_child_require(unshare(CLONE_NEWPID) == 0, "unshare");
	pid = fork();
	if (pid == 0) {
		alarm(30);
		_exit(ask_from_another_namespace(arg));
	}
	test_child_require(waitpid(pid, &status, 0) == pid, "its child");
	return status != 0;
}

static void locks_tell_in_other_namespaces(void **state)
{
	pid_t living, dead, other;

	(void)state;
	if (!can_have_namespaces())
		test_skip("PID namespaces take privileges");
	living = start(join_and_stay, 0);
	dead = start(join_and_stay, 1);
	stop(dead);
	other = test_fork(enter_namespace, NULL);
	await(other, 2);
	assert_true(lives(shared->id[2]));
	reach(3);
	assert_int_equal(test_wait(other, 60), 0);
	assert_false(lives(shared->id[2]));
	assert_true(lives(shared->id[0]));
	stop(living);
}

/* Without the descriptor, no lock can be asked for. */
static int ask_without_descriptors(void *arg)
{
	struct percpu_owner_info info[2] = { { 0 } };

	(void)arg;
	test_child_require(lives(shared->id[0]), "it has its lock");
	test_child_require(close(region->file.fd) == 0 && close(outside->file.fd) == 0, "close");
	test_child_require(lives(shared->id[0]), "it may have its lock");
	test_child_require(count(owners, true) == 1 && count(asker, true) == 1, "one lives");
	test_child_require(percpu_owners_list(owners, info, 2) == 1, "one owner");
	test_child_require(info[0].id == shared->id[0] && info[0].alive == 1, "that one");
	test_child_require(percpu_owners_join(owners) == 0, "to join");
	test_child_require(percpu_owners_self(owners) % PERCPU_OWNERS_MAX != 0, "another slot");
	test_child_require(lives(shared->id[0]), "it has its slot");
	return 0;
}

/* An owner of another namespace lives unless its lock is gone. If the lock cannot be asked for, the
 * owner lives. */
static void who_cannot_be_asked_for_lives(void **state)
{
	struct percpu_owner_slot *slot;
	pid_t living;

	(void)state;
	living = start(join_and_stay, 0);
	assert_true(lives(shared->id[0]));
	assert_int_equal(shared->id[0] % PERCPU_OWNERS_MAX, 0);
	slot = &owners->slots[0][0];
	assert_int_equal(slot->locked, 1);
	slot->space += 1;
	test_in_child(ask_without_descriptors, NULL);
	stop(living);
	assert_false(lives(shared->id[0]));
}

/* Ask in a PID namespace that sees the /proc of another one. The pids there mean nothing here. */
static int ask_in_a_foreign_proc(void *arg)
{
	const uint64_t never = UINT64_C(1) << 60; /* no process starts then */

	(void)arg;
	test_child_require(getpid() == 1, "the first process here");
	test_child_require(percpu_life(1, never) == PERCPU_LIFE_HIDDEN, "not asked");
	test_child_require(percpu_life(77, 1) == PERCPU_LIFE_GONE, "no such process");
	return 0;
}

static int enter_namespace_and_ask(void *arg)
{
	int status;
	pid_t pid;

	test_child_require(unshare(CLONE_NEWPID) == 0, "unshare");
	pid = fork();
	if (pid == 0)
		_exit(ask_in_a_foreign_proc(arg));
	test_child_require(waitpid(pid, &status, 0) == pid, "its child");
	return status != 0;
}

static void a_foreign_proc_is_not_believed(void **state)
{
	(void)state;
	if (!can_have_namespaces())
		test_skip("PID namespaces take privileges");
	test_in_child(enter_namespace_and_ask, NULL);
}

/* Descriptors */

static void closed_descriptors_are_not_touched(void **state)
{
	int fd = region->file.fd, other;
	uint64_t id;

	(void)state;
	assert_int_equal(percpu_owners_join(owners), 0);
	id = percpu_owners_self(owners);
	close(fd);
	assert_true(lives(id)); /* a daemon closes descriptors that it does not know */
	other = open(test_path("other"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(dup2(other, fd), fd);
	close(other);
	assert_true(lives(id));
	percpu_owners_leave(owners);
	assert_int_equal(percpu_owners_join(owners), 0); /* without a lock */
	assert_true(lives(percpu_owners_self(owners)));
	assert_int_equal(see(percpu_owners_self(owners)).locked, 0);
	percpu_owners_destroy(owners);
	owners = NULL;
	percpu_region_close(region);
	region = NULL;
	assert_int_not_equal(fcntl(fd, F_GETFD), -1);
	close(fd);
}

static void descriptors_are_closed_on_exec_and_given_back(void **state)
{
	struct test_holding before = test_holding_now();
	struct percpu_region *r;
	int fd;

	(void)state;
	assert_int_equal(percpu_region_open(owners_path, OWNERS_FLAGS, NULL, &r), 0);
	assert_int_equal(fcntl(r->file.fd, F_GETFD), FD_CLOEXEC);
	assert_true(r->file.fd > STDERR_FILENO);
	percpu_region_close(r);
	fd = open(owners_path, O_RDWR | O_CLOEXEC);
	assert_int_equal(
		percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS, NULL, &r), 0);
	assert_int_not_equal(r->file.fd, fd);
	assert_false(r->file.inherited);
	assert_int_equal(fcntl(r->file.fd, F_GETFD), FD_CLOEXEC);
	percpu_region_close(r);
	assert_int_equal(percpu_region_open_fd(fd, 16, NULL, &r), -EINVAL);
	close(fd);
	test_assert_holding(before);
}

/* Return whether two descriptors are of two open files, each of which has a position. */
static bool are_apart(int fd, int kept)
{
	return lseek(fd, 7, SEEK_SET) == 7 && lseek(kept, 0, SEEK_CUR) == 0;
}

/* What a region that is made needs for owners, it keeps from the start. A file of the program's is
 * opened anew: locks of the program's open file are the program's. */
static void new_regions_have_owners(void **state)
{
	const unsigned flags = OWNERS_FLAGS | PERCPU_REGION_EXCL;
	struct test_holding before = test_holding_now();

	(void)state;
	for (int i = 0; i < 3; i++) {
		const int fd = memfd_create("new", MFD_CLOEXEC);
		struct percpu_region *r = NULL, *again = NULL;
		struct percpu_owners *o = NULL;

		if (i == 0)
			assert_int_equal(percpu_region_open(test_path("new"), flags, NULL, &r), 0);
		else
			assert_int_equal(
				percpu_region_open_fd(
					fd, i == 1 ? flags : flags & ~PERCPU_REGION_EXCL, NULL, &r),
				0);
		assert_int_not_equal(r->file.fd, fd);
		assert_true(r->file.fd > STDERR_FILENO);
		assert_false(r->file.inherited);
		assert_int_equal(fcntl(r->file.fd, F_GETFD), FD_CLOEXEC);
		assert_true(are_apart(fd, r->file.fd));
		assert_int_equal(percpu_region_open_fd(fd, OWNERS_FLAGS, NULL, &again), 0);
		assert_true(are_apart(fd, again->file.fd));
		percpu_region_close(again);
		close(fd);
		assert_int_equal(percpu_owners_open(r, 0, &o), 0);
		assert_int_equal(percpu_owners_join(o), 0);
		assert_int_equal(percpu_owners_alive(o, percpu_owners_self(o)), 1);
		percpu_owners_destroy(o);
		percpu_region_close(r);
	}
	assert_int_equal(unlink(test_path("new")), 0);
	test_assert_holding(before);
}

/* A daemon has closed its standard streams. What it writes to one of them must not reach the file.
 * So the file's descriptor never gets the number of a stream: not when the file is opened, not in a
 * child of fork, and not in a reader. */

static void close_streams(unsigned which)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (which >> fd & 1)
			close(fd);
}

static bool are_closed(unsigned which)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if ((which >> fd & 1) && fcntl(fd, F_GETFD) != -1)
			return false;
	return true;
}

/* Returns 0, or the number of the check that failed: standard error may be closed. */
static int open_without_streams(void *arg)
{
	const unsigned which = (unsigned)(uintptr_t)arg;
	int fd = open(owners_path, O_RDWR | O_CLOEXEC), status;
	struct percpu_region *r, *q, *of_reader;
	struct rlimit few;
	pid_t pid;

	close_streams(which);
	if (percpu_region_open(owners_path, OWNERS_FLAGS, NULL, &r) != 0 || !are_closed(which))
		return 2;
	if (percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS, NULL, &q) != 0 ||
	    percpu_region_open(owners_path, PERCPU_REGION_OWNERS, NULL, &of_reader) != 0)
		return 3;
	if (!are_closed(which) || q->file.inherited)
		return 4;
	pid = fork();
	if (pid == 0)
		_exit(!are_closed(which) + 2 * q->file.inherited +
		      4 * (percpu_descriptor_kept(q) < 0));
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return 5;
	percpu_region_close(q);
	percpu_region_close(r);
	percpu_region_close(of_reader);
	if (!are_closed(which))
		return 6;
	/* If only the numbers of streams are left, the file cannot be opened. */
	if (getrlimit(RLIMIT_NOFILE, &few) != 0)
		return 7;
	few.rlim_cur = STDERR_FILENO + 1;
	if (setrlimit(RLIMIT_NOFILE, &few) != 0 ||
	    percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS, NULL, &q) !=
		    -EMFILE)
		return 8;
	return are_closed(which) ? 0 : 9;
}

static void no_file_takes_the_place_of_a_stream(void **state)
{
	(void)state;
	for (uintptr_t which = 1; which < 8; which++)
		assert_int_equal(test_wait(test_fork(open_without_streams, (void *)which), 60), 0);
}

/* Become another user, whose children may not open the file again. */
static int be_another_user(void *arg)
{
	int status;
	pid_t pid;

	(void)arg;
	test_child_require(percpu_owners_join(owners) == 0, "to join");
	test_child_require(setgid(65534) == 0 && setuid(65534) == 0, "another user");
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* set again: a change of user clears it */
	shared->id[0] = percpu_owners_self(owners);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		test_child_require(region->file.inherited, "the file cannot be opened");
		test_child_require(percpu_owners_join(owners) == 0, "to join");
		shared->id[1] = percpu_owners_self(owners);
		test_child_require(lives(shared->id[0]) && lives(shared->id[1]), "both live");
		test_child_require(percpu_descriptor_locked(region, see(shared->id[0]).byte) == 1,
				   "the parent's lock, which is on the same open file");
		reach(1);
		await(0, 2);
		_exit(0);
	}
	test_child_require(waitpid(pid, &status, 0) == pid && status == 0, "the child");
	reach(3);
	for (;;)
		pause();
	return 0;
}

static void children_that_may_not_open_the_file_are_owners(void **state)
{
	struct percpu_owner_seen seen;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		test_skip("only root becomes another user");
	chmod(owners_path, 0600);
	pid = start(be_another_user, 0);
	assert_true(lives(shared->id[0]) && lives(shared->id[1]));
	assert_int_not_equal(shared->id[0], shared->id[1]);
	seen = see(shared->id[1]);
	assert_int_equal(seen.locked, 1);
	assert_int_equal(percpu_descriptor_locked(outside, seen.byte), 1);
	reach(2);
	await(pid, 3);
	assert_false(lives(shared->id[1]));
	assert_int_equal(percpu_descriptor_locked(outside, seen.byte), 0);
	assert_true(lives(shared->id[0]));
	stop(pid);
	assert_false(lives(shared->id[0]));
}

/* Lock all bytes for reading, as a process can that may only read the file. Expect a failure if arg
 * is not NULL. While the bytes are locked, processes join without a lock. */
static int lock_all(void *arg)
{
	struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 1L };
	int fd = open(owners_path, O_RDONLY | O_CLOEXEC);

	l.l_start = (off_t)(UINT64_C(1) << 62);
	test_child_require(fcntl(fd, F_SETLK, &l) == (arg == NULL ? 0 : -1), "lock them to read");
	return stay();
}

static void readers_disturb_nobody(void **state)
{
	pid_t pid, joined;

	(void)state;
	joined = start(join_and_stay, 0);
	pid = start(lock_all, 1); /* an owner has locked one byte */
	stop(pid);
	stop(joined);
	pid = start(lock_all, 0);
	assert_false(lives(shared->id[0])); /* a read lock is no owner's lock */
	assert_int_equal(percpu_descriptor_locked(outside, see(shared->id[0]).byte), 0);
	assert_int_equal(percpu_owners_join(owners), 0);
	assert_int_equal(see(percpu_owners_self(owners)).locked, 0);
	assert_true(lives(percpu_owners_self(owners)));
	joined = start(join_and_stay, 1);
	assert_true(lives(shared->id[1]));
	stop(joined);
	assert_false(lives(shared->id[1]));
	stop(pid);
}

/* Join and leave at random, until this process is killed at a random time. */
static int come_and_go(void *arg)
{
	uint64_t random = (uintptr_t)arg * 77777 + 1;

	for (;;) {
		if (percpu_owners_join(owners) != 0)
			return 1;
		test_child_require(percpu_owners_alive(owners, percpu_owners_self(owners)) == 1,
				   "this one lives");
		if (test_random(&random) % 2)
			percpu_owners_leave(owners);
	}
	return 0;
}

static void crowds_are_no_trouble(void **state)
{
	pid_t pid[4];
	uint64_t random = 99;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("the kernel does not take over locks of the killed");
	for (uintptr_t i = 0; i < 4; i++)
		pid[i] = test_fork(come_and_go, (void *)i);
	for (unsigned round = 0; round < test_rounds(40); round++) {
		unsigned i = test_random(&random) % 4;
		int status;

		test_sleep_us((unsigned)(test_random(&random) % 2000));
		kill(pid[i], SIGKILL);
		status = test_wait(pid[i], 60);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		assert_true(count(owners, true) <= 3);
		pid[i] = test_fork(come_and_go, (void *)(uintptr_t)(round + 10));
	}
	for (unsigned i = 0; i < 4; i++)
		stop(pid[i]);
	assert_int_equal(count(owners, true), 0);
	assert_int_equal(percpu_owners_join(owners), 0);
}

#define OWNER_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end_owners)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		OWNER_TEST(a_process_has_one_slot),
		OWNER_TEST(handles_of_one_process_have_slots_of_their_own),
		OWNER_TEST(bad_calls_are_refused),
		OWNER_TEST(the_killed_are_dead_at_once),
		OWNER_TEST(processes_outlive_their_first_threads),
		OWNER_TEST(names_of_processes_mislead_nobody),
		OWNER_TEST(the_stopped_live),
		OWNER_TEST(a_number_that_is_used_again_is_no_owner),
		OWNER_TEST(children_of_fork_are_owners_of_their_own),
		OWNER_TEST(children_keep_no_lock_of_their_parent),
		OWNER_TEST(exec_drops_the_lock_and_the_process_lives_on),
		OWNER_TEST(the_slot_before_exec_is_taken_again),
		OWNER_TEST(no_slot_from_before_exec_is_left),
		OWNER_TEST(who_looks_for_slots_from_before_exec_spares_new_ones),
		OWNER_TEST(spare_slots_are_others),
		OWNER_TEST(whose_slot_is_spare_joins_no_more),
		OWNER_TEST(slots_of_other_files_are_not_ours),
		OWNER_TEST(slots_of_namesakes_stay),
		OWNER_TEST(slots_may_not_be_found),
		OWNER_TEST(who_has_no_name_needs_a_lock),
		OWNER_TEST(threads_join_once),
		OWNER_TEST(the_slot_of_another_thread_is_not_taken),
		OWNER_TEST(the_slot_of_a_thread_that_has_just_joined_is_not_taken),
		OWNER_TEST(the_killed_leave_slots_that_can_be_taken),
		OWNER_TEST(the_dead_do_not_live_again),
		OWNER_TEST(slots_are_left_once),
		OWNER_TEST(detached_handles_live_until_they_have_left),
		OWNER_TEST(only_own_slots_are_given_back),
		OWNER_TEST(slots_are_copied_whole),
		OWNER_TEST(numbers_are_not_used_twice),
		OWNER_TEST(the_killed_may_be_leaving),
		OWNER_TEST(a_table_grows_to_its_limit),
		OWNER_TEST(locks_tell_in_other_namespaces),
		OWNER_TEST(who_cannot_be_asked_for_lives),
		OWNER_TEST(a_foreign_proc_is_not_believed),
		OWNER_TEST(closed_descriptors_are_not_touched),
		OWNER_TEST(descriptors_are_closed_on_exec_and_given_back),
		OWNER_TEST(new_regions_have_owners),
		OWNER_TEST(no_file_takes_the_place_of_a_stream),
		OWNER_TEST(children_that_may_not_open_the_file_are_owners),
		OWNER_TEST(readers_disturb_nobody),
		OWNER_TEST(crowds_are_no_trouble),
	};

	if (argc > 1 && strcmp(argv[1], SLEEP) == 0)
		return (int)sleep(30);
	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
