/* SPDX-License-Identifier: MIT */
/*
 * test_critical_between.c - critical sections between processes, which are killed or stopped
 * inside, fork, and leave their owners.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <percpu/counter.h>

#include "support.h"

#include "owners/critical.h"
#include "../owners.h"

#define REQUIRE(x) test_child_require((x), #x)
#define ROOT 3
#define SIZE sizeof(struct pair)

struct pair {
	uint64_t first, second;
};

static struct percpu_critical *c;

static int begin(void **state)
{
	int e = begin_owners(state);

	return e != 0 ? e : percpu_critical_open(owners, ROOT, SIZE, &c);
}

static int end(void **state)
{
	percpu_critical_destroy(c);
	c = NULL;
	test_unpin(0);
	return end_owners(state);
}

static unsigned lane_of(const void *cell)
{
	unsigned lane = 0;

	while (lane < percpu_critical_lanes(c) && percpu_critical_cell(c, lane) != cell)
		lane++;
	assert_true(lane < percpu_critical_lanes(c));
	return lane;
}

static bool is_spare(const void *cell)
{
	return lane_of(cell) >= percpu_critical_lanes(c) / 2;
}

static struct percpu_critical_head *head_of(const void *cell)
{
	return percpu_critical_head_of(c, lane_of(cell));
}

/* Enter on the first CPU, and do half of an update. */
static struct pair *enter_half(void)
{
	void *cell = NULL;

	REQUIRE(test_pin(0, test_cpu(0)));
	REQUIRE(percpu_critical_enter(c, &cell) == 0);
	((struct pair *)cell)->first++;
	return cell;
}

static int stay_inside(void *arg)
{
	(void)arg;
	(void)enter_half();
	return stay();
}

/* Return the lane that the only process inside has. */
static unsigned lane_in_use(void)
{
	unsigned lane = 0;

	while (percpu_critical_head_of(c, lane)->inside == 0 &&
	       percpu_critical_head_of(c, lane)->taken == 0) {
		lane++;
		assert_true(lane < percpu_critical_lanes(c));
	}
	return lane;
}

static void lanes_are_found(void **state)
{
	struct percpu_critical *other = NULL;
	const uint64_t key = percpu_critical_key(c);
	struct percpu_critical *const private_one = NULL;
	struct percpu_owners *others;
	void *cell = NULL;

	(void)state;
	assert_int_not_equal(key, 0);
	assert_int_equal(percpu_critical_open(owners, ROOT, SIZE + 8, &other), -EEXIST);
	assert_int_equal(percpu_critical_open(owners, ROOT, 0, &other), -EINVAL);
	assert_int_equal(percpu_critical_open(owners, PERCPU_REGION_ROOTS, SIZE, &other), -EINVAL);
	assert_int_equal(percpu_critical_open(owners, 0, SIZE, &other), -EEXIST);
	assert_int_equal(percpu_critical_open(owners, ROOT, SIZE, NULL), -EINVAL);
	assert_int_equal(percpu_critical_open(NULL, ROOT, SIZE, &other), -EINVAL);
	assert_int_equal(percpu_critical_attach(owners, key + 8, &other), -ENOENT);
	assert_int_equal(percpu_critical_attach(NULL, key, &other), -EINVAL);
	assert_int_equal(percpu_critical_attach(owners, key, NULL), -EINVAL);
	assert_int_equal(percpu_critical_create_in(owners, 0, &other), -EINVAL);
	assert_int_equal(percpu_critical_create_in(NULL, SIZE, &other), -EINVAL);
	assert_int_equal(percpu_critical_create_in(owners, SIZE, NULL), -EINVAL);
	assert_int_equal(percpu_critical_create_in(owners, PERCPU_LANE_SIZE, &other), -EINVAL);
	assert_ptr_equal(other, private_one);

	assert_int_equal(percpu_critical_attach(owners, key, &other), 0);
	assert_int_equal(percpu_critical_size(other), SIZE);
	assert_int_equal(percpu_critical_key(other), key);
	assert_int_equal(percpu_critical_enter(other, &cell), 0);
	*(uint64_t *)cell = 7;
	assert_int_equal(*(const uint64_t *)percpu_critical_cell(c, lane_of(cell)), 7);
	assert_int_equal(percpu_critical_exit(other, cell), 0);
	percpu_critical_detach(other);
	other = NULL;
	assert_int_equal(percpu_owners_open(region, 1, &others), 0);
	assert_int_equal(percpu_critical_attach(others, key, &other), -ENOENT);
	assert_null(other);
	percpu_owners_detach(others);
	assert_int_equal(percpu_critical_create_in(owners, SIZE, &other), 0);
	assert_int_not_equal(percpu_critical_key(other), key);
	percpu_critical_destroy(other);
}

static void readers_may_look(void **state)
{
	struct percpu_critical *seen = NULL;
	void *cell = NULL;
	unsigned lane;

	(void)state;
	assert_int_equal(percpu_critical_enter(c, &cell), 0);
	((struct pair *)cell)->second = 5;
	lane = lane_of(cell);
	assert_int_equal(percpu_critical_attach(asker, percpu_critical_key(c), &seen), 0);
	assert_int_equal(((const struct pair *)percpu_critical_cell(seen, lane))->second, 5);
	assert_int_equal(percpu_critical_exit(seen, cell), -EPERM);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	cell = NULL;
	assert_int_equal(percpu_critical_enter(seen, &cell), -EROFS);
	assert_int_equal(percpu_critical_enter_lane(seen, 0, &cell), -EROFS);
	assert_null(cell);
	percpu_critical_detach(seen);
}

/* Enter until the lane of a dead process is given out. Returns how often that took. */
static unsigned enter_until_told(void **cell)
{
	unsigned n = 1;
	int e;

	errno = 1234; /* which a handler must not change */
	while ((e = percpu_critical_enter(c, cell)) == 0) {
		assert_int_equal(percpu_critical_exit(c, *cell), 0);
		n++;
		assert_true(n < 1000);
	}
	assert_int_equal(e, -EOWNERDEAD);
	assert_int_equal(errno, 1234);
	return n;
}

/* The lane of a process that was killed inside comes back, and one thread is told. */
static void lanes_of_the_dead_come_back(void **state)
{
	pid_t child = start(stay_inside, 0);
	const unsigned lane = lane_in_use();
	void *cell = NULL;
	struct pair *p;

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	stop(child);
	assert_in_range(enter_until_told(&cell), 1, 200);
	assert_int_equal(lane_of(cell), lane);
	p = cell;
	assert_int_equal(p->first, p->second + 1);
	p->second++;
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(percpu_critical_enter(c, &cell), 0);
		assert_int_equal(percpu_critical_exit(c, cell), 0);
	}
	assert_int_equal(lane_of(cell), lane);
}

static void a_lane_by_number_comes_back(void **state)
{
	pid_t child = start(stay_inside, 0);
	const unsigned lane = lane_in_use();
	void *cell = NULL;

	(void)state;
	stop(child);
	assert_int_equal(percpu_critical_enter_lane(c, lane, &cell), -EOWNERDEAD);
	assert_int_equal(lane_of(cell), lane);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	assert_int_equal(percpu_critical_enter_lane(c, lane, &cell), 0);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
}

/* A process that is stopped keeps its lane, and delays only those that want this very lane. */
static void the_stopped_keep_their_lane(void **state)
{
	pid_t child = start(stay_inside, 0);
	const unsigned lane = lane_in_use();
	void *cell = NULL;

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	suspend(child);
	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(percpu_critical_enter(c, &cell), 0);
		assert_int_not_equal(lane_of(cell), lane);
		assert_true(is_spare(cell));
		assert_int_equal(percpu_critical_exit(c, cell), 0);
	}
	cell = NULL;
	assert_int_equal(percpu_critical_enter_lane(c, lane, &cell), -ETIMEDOUT);
	assert_null(cell);
	assert_int_equal(percpu_critical_head_of(c, lane)->taken != 0,
			 lane >= percpu_critical_lanes(c) / 2);
	stop(child);
}

static int take_lane(void *arg)
{
	void *cell = NULL;

	REQUIRE(percpu_critical_enter_lane(c, (unsigned)(uintptr_t)arg, &cell) == 0);
	return stay();
}

/* A process dies in a lane that it has by its number. */
static void readers_may_die(void **state)
{
	const unsigned lanes = percpu_critical_lanes(c), lane[] = { test_cpu(0), lanes - 1 };
	void *cell = NULL;

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	for (unsigned i = 0; i < 2; i++) {
		stop(start(take_lane, lane[i]));
		assert_int_not_equal(percpu_critical_head_of(c, lane[i])->taken, 0);
		for (unsigned n = 0; n < 100 && i == 0; n++) {
			assert_int_equal(percpu_critical_enter(c, &cell), 0);
			assert_int_not_equal(lane_of(cell), lane[i]);
			assert_int_equal(percpu_critical_exit(c, cell), 0);
		}
		assert_int_equal(percpu_critical_enter_lane(c, lane[i], &cell), -EOWNERDEAD);
		assert_int_equal(percpu_critical_exit(c, cell), 0);
		assert_int_equal(percpu_critical_enter_lane(c, lane[i], &cell), 0);
		assert_int_equal(percpu_critical_exit(c, cell), 0);
	}
}

/* Enter until no lane is free. */
static int take_all(void *arg)
{
	void *cell = NULL;

	(void)arg;
	REQUIRE(test_pin(0, test_cpu(0)));
	while (percpu_critical_enter(c, &cell) == 0)
		;
	return stay();
}

/* All lanes of a process that died come back to a thread that waits for one. */
static void all_lanes_come_back(void **state)
{
	pid_t child = start(take_all, 0);
	void *cell[2 * PERCPU_MAX_CPUS];
	unsigned taken = 0;

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	for (unsigned lane = 0; lane < percpu_critical_lanes(c); lane++)
		taken += percpu_critical_head_of(c, lane)->inside != 0 ||
			 percpu_critical_head_of(c, lane)->taken != 0;
	assert_true(taken >= percpu_critical_lanes(c) / 2);
	assert_int_equal(percpu_critical_enter(c, &cell[0]), -ETIMEDOUT);
	stop(child);
	for (unsigned i = 0; i < taken; i++)
		assert_int_equal(percpu_critical_enter(c, &cell[i]), -EOWNERDEAD);
	for (unsigned i = 0; i < taken; i++)
		assert_int_equal(percpu_critical_exit(c, cell[i]), 0);
}

/* While a thread asks whether the owner of a lane is dead, another one takes this lane. */

static void *of_the_other;

static void take_last_lane(void)
{
	assert_int_equal(percpu_critical_enter_lane(c, percpu_critical_lanes(c) - 1, &of_the_other),
			 -EOWNERDEAD);
}

static void one_thread_gets_a_dead_lane(void **state)
{
	const unsigned last = percpu_critical_lanes(c) - 1;
	void *first = NULL, *cell = NULL;
	int e;

	(void)state;
	test_need_sequences();
	assert_true(test_pin(0, test_cpu(0)));
	assert_int_equal(percpu_critical_enter(c, &first), 0);
	for (unsigned i = 0; i < 2; i++) {
		stop(start(take_lane, last));
		deadly = "owner: not ours";
		meanwhile = take_last_lane;
		if (i == 0) {
			((struct percpu_critical_handle *)c)->refused = 0; /* look for dead ones */
			e = percpu_critical_enter(c, &cell);
			assert_true(e == -ETIMEDOUT || (e == 0 && cell != of_the_other));
			assert_int_equal(e == 0 ? percpu_critical_exit(c, cell) : 0, 0);
		} else {
			assert_int_equal(percpu_critical_enter_lane(c, last, &cell), -ETIMEDOUT);
		}
		assert_null(meanwhile);
		assert_int_equal(percpu_critical_exit(c, of_the_other), 0);
	}
	assert_int_equal(percpu_critical_exit(c, first), 0);
}

/* Return the place of an object in its chunk. */
static uint64_t offset_of(uint64_t key)
{
	return key % (UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT);
}

/* A cell has its cache line alone. A handle that was detached is not on its owners' list. */
static void lanes_are_apart(void **state)
{
	const struct percpu_owners_user *before;
	struct percpu_critical *one = NULL, *other = NULL;
	struct percpu_counter *next[100] = { NULL };
	uint64_t offset;

	(void)state;
	assert_int_equal(percpu_critical_create_in(owners, 1, &one), 0);
	before = owners->users;
	offset = offset_of(percpu_critical_key(one));
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(percpu_counter_create_in(region, &next[i]), 0);
		assert_not_in_range(offset_of(percpu_counter_key(next[i])), offset, offset + 63);
	}
	assert_int_equal(percpu_critical_attach(owners, percpu_critical_key(one), &other), 0);
	percpu_critical_detach(other);
	assert_ptr_equal(owners->users, before);
	percpu_critical_destroy(one);
	for (unsigned i = 0; i < 100; i++)
		percpu_counter_destroy(next[i]);
}

/* Processes that recover a lane die as well, at each step. The next one is told nevertheless. */

static int recover_lane(void *arg)
{
	void *cell;

	REQUIRE(percpu_critical_enter_lane(c, (unsigned)(uintptr_t)arg, &cell) == 0);
	return 1; /* the step was not there */
}

static int recover_any(void *arg)
{
	void *cell;

	(void)arg;
	REQUIRE(test_pin(0, test_cpu(0)));
	for (;;)
		if (percpu_critical_enter(c, &cell) == 0)
			(void)percpu_critical_exit(c, cell);
	return 1;
}

static void the_next_one_is_told(void **state)
{
	static const char *const steps[] = { "critical: lane taken", "critical: found dead",
					     "critical: taken from dead" };
	void *cell = NULL;
	unsigned lane;
	pid_t child;

	(void)state;
	test_need_sequences();
	for (unsigned i = 0; i < 3; i++) {
		child = start(stay_inside, 0);
		lane = lane_in_use();
		stop(child);
		stop(start_until(steps[i], i == 0 ? recover_lane : recover_any, lane));
		assert_int_equal(percpu_critical_enter_lane(c, lane, &cell), -EOWNERDEAD);
		assert_int_equal(lane_of(cell), lane);
		assert_int_equal(percpu_critical_exit(c, cell), 0);
		assert_int_equal(head_of(cell)->inside, 0);
		assert_int_equal(head_of(cell)->taken, 0);
	}
}

/* A thread that waited in vain for a lane tells nobody's death, so the next one is told. */
static void who_waited_in_vain_was_not_told(void **state)
{
	pid_t reader, child = start(stay_inside, 0);
	const unsigned lane = lane_in_use();
	void *cell = NULL;

	(void)state;
	test_need_sequences();
	reader = start_until("critical: lane taken", take_lane, lane);
	stop(reader);
	suspend(child);
	assert_int_equal(percpu_critical_enter_lane(c, lane, &cell), -ETIMEDOUT);
	kill(child, SIGCONT);
	stop(child);
	assert_int_equal(percpu_critical_enter_lane(c, lane, &cell), -EOWNERDEAD);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	assert_int_equal(percpu_critical_enter_lane(c, lane, &cell), 0);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
}

/* A process died in a lane that it had by its number, before the thread inside had left it. The next
 * thread waits in vain. The one behind it is told. */
static void a_death_is_told_later(void **state)
{
	void *cell = NULL, *other = NULL;
	unsigned lane;

	(void)state;
	test_need_sequences();
	assert_true(test_pin(0, test_cpu(0)));
	assert_int_equal(percpu_critical_enter(c, &cell), 0);
	lane = lane_of(cell);
	stop(start_until("critical: lane taken", take_lane, lane));
	assert_int_equal(percpu_critical_enter_lane(c, lane, &other), -ETIMEDOUT);
	assert_null(other);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	assert_int_equal(percpu_critical_enter_lane(c, lane, &other), -EOWNERDEAD);
	assert_int_equal(percpu_critical_exit(c, other), 0);
	assert_int_equal(percpu_critical_enter_lane(c, lane, &other), 0);
	assert_int_equal(percpu_critical_exit(c, other), 0);
}

/* A thread finds a lane's owner dead. Meanwhile another one has recovered the lane, and a third one
 * has entered it. */

static void *entered;

static void recover_and_enter(void)
{
	void *cell;

	assert_int_equal(percpu_critical_enter_lane(c, test_cpu(0), &cell), -EOWNERDEAD);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	assert_int_equal(percpu_critical_enter(c, &entered), 0);
}

static void a_lane_is_recovered_once(void **state)
{
	pid_t child = start(stay_inside, 0);
	void *cell = NULL;

	(void)state;
	test_need_sequences();
	assert_true(test_pin(0, test_cpu(0)));
	stop(child);
	deadly = "critical: found dead";
	meanwhile = recover_and_enter;
	assert_int_equal(percpu_critical_enter(c, &cell), 0);
	assert_null(meanwhile);
	assert_int_equal(lane_of(entered), test_cpu(0));
	assert_true(is_spare(cell));
	assert_int_equal(head_of(entered)->taken, 0);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	assert_int_equal(percpu_critical_exit(c, entered), 0);
}

/* A child of fork is in no section, and does not end its parent's. */
static int is_outside(void *arg)
{
	void *cell = NULL;

	REQUIRE(percpu_critical_exit(c, arg) == -EPERM);
	REQUIRE(percpu_critical_enter(c, &cell) == 0);
	REQUIRE(cell != arg);
	REQUIRE(percpu_critical_exit(c, arg) == -EPERM);
	REQUIRE(percpu_critical_exit(c, cell) == 0);
	return 0;
}

static void children_are_outside(void **state)
{
	void *cell = NULL;

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	assert_int_equal(percpu_critical_enter(c, &cell), 0);
	test_in_child(is_outside, cell);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
}

/* A process that leaves its owners has left its lanes. */
static void who_leaves_is_outside(void **state)
{
	void *cell = NULL, *other = NULL;
	unsigned lane;

	(void)state;
	assert_int_equal(percpu_critical_enter(c, &cell), 0);
	lane = lane_of(cell);
	percpu_owners_leave(owners);
	assert_int_equal(percpu_critical_exit(c, cell), -EPERM);
	assert_int_equal(percpu_critical_enter_lane(c, lane, &other), -EOWNERDEAD);
	assert_ptr_equal(other, cell);
	assert_int_equal(percpu_critical_exit(c, other), 0);
	assert_int_equal(percpu_critical_exit(c, other), -EPERM);
}

static void leave(void)
{
	percpu_owners_leave(owners);
}

/* Another thread leaves the owners while this one joins them. */
static void who_joins_joins_again(void **state)
{
	void *cell = NULL;

	(void)state;
	deadly = "critical: joined";
	meanwhile = leave;
	assert_int_equal(percpu_critical_enter(c, &cell), 0);
	assert_null(meanwhile);
	assert_int_not_equal(percpu_owners_self(owners), 0);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
}

/* Words that no process has written do no harm. */
static void hostile_words_are_harmless(void **state)
{
	struct percpu_critical_control *control = (void *)percpu_block_bias(&c->block);
	static const uint64_t sizes[] = { 0, 1, PERCPU_CRITICAL_MAX_SIZE, UINT64_MAX };
	struct percpu_critical *none = NULL;
	void *cell = NULL;

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		control->size = sizes[i];
		if (sizes[i] == 1)
			continue;
		assert_int_equal(percpu_critical_attach(owners, percpu_critical_key(c), &none),
				 -ENOENT);
		assert_null(none);
	}
	control->size = SIZE;
	for (unsigned lane = 0; lane < percpu_critical_lanes(c); lane++) {
		percpu_critical_head_of(c, lane)->inside = UINT64_MAX - lane;
		percpu_critical_head_of(c, lane)->taken = lane + 1;
	}
	for (unsigned lane = 0; lane < percpu_critical_lanes(c) / 2; lane++) {
		assert_int_equal(percpu_critical_enter_lane(c, lane, &cell), -EOWNERDEAD);
		assert_int_equal(percpu_critical_exit(c, cell), 0);
	}
}

/* Processes count, and are killed at any moment. Each death inside is told, and nothing else is. */

#define PROCESSES 3
#define KILLS 40

struct world {
	uint64_t done, told, wrong;
};
static struct world *world;

/* Make the words equal again. An update was begun, and counts. */
static void repair(struct pair *p)
{
	if (p->first != p->second + 1)
		__atomic_fetch_add(&world->wrong, p->first != p->second, __ATOMIC_RELAXED);
	p->second = p->first;
	__atomic_fetch_add(&world->told, 1, __ATOMIC_RELAXED);
}

static int count_until_killed(void *arg)
{
	struct pair *p;
	void *cell = NULL;
	int e;

	(void)arg;
	for (;;) {
		e = percpu_critical_enter(c, &cell);
		if (e == -ETIMEDOUT) /* the machine is very busy */
			continue;
		p = cell;
		if (e == -EOWNERDEAD)
			repair(p);
		else if (e != 0 || p->first != p->second)
			__atomic_fetch_add(&world->wrong, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&p->first, p->first + 1, __ATOMIC_RELAXED);
		__atomic_store_n(&p->second, p->second + 1, __ATOMIC_RELAXED);
		if (percpu_critical_exit(c, cell) != 0)
			__atomic_fetch_add(&world->wrong, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&world->done, 1, __ATOMIC_RELAXED);
	}
	return 1;
}

static void killed_processes_break_nothing(void **state)
{
	pid_t child[PROCESSES];
	uint64_t random = 1, sum = 0;
	struct pair *p;
	void *cell;
	int e;

	(void)state;
	world = world != NULL ? world : test_share(sizeof(*world));
	for (unsigned i = 0; i < PROCESSES; i++)
		child[i] = test_fork(count_until_killed, NULL);
	for (unsigned n = 0; n < test_rounds(KILLS); n++) {
		test_sleep_us((unsigned)(test_random(&random) % 5000));
		stop(child[n % PROCESSES]);
		child[n % PROCESSES] = test_fork(count_until_killed, NULL);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		stop(child[i]);
	for (unsigned lane = 0; lane < percpu_critical_lanes(c); lane++) {
		e = percpu_critical_enter_lane(c, lane, &cell); /* no process is left to wait for */
		assert_true(e == 0 || e == -EOWNERDEAD);
		p = cell;
		if (e != 0)
			repair(p);
		assert_int_equal(p->first, p->second);
		sum += p->first;
		assert_int_equal(percpu_critical_exit(c, cell), 0);
	}
	assert_int_equal(world->wrong, 0);
	/* A process that was killed behind its exit did not note that. */
	assert_in_range(sum, world->done, world->done + test_rounds(KILLS) + PROCESSES);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(lanes_are_found),
		TEST(readers_may_look),
		TEST(lanes_of_the_dead_come_back),
		TEST(a_lane_by_number_comes_back),
		TEST(the_stopped_keep_their_lane),
		TEST(readers_may_die),
		TEST(all_lanes_come_back),
		TEST(one_thread_gets_a_dead_lane),
		TEST(lanes_are_apart),
		TEST(the_next_one_is_told),
		TEST(who_waited_in_vain_was_not_told),
		TEST(a_death_is_told_later),
		TEST(a_lane_is_recovered_once),
		TEST(children_are_outside),
		TEST(who_leaves_is_outside),
		TEST(who_joins_joins_again),
		TEST(hostile_words_are_harmless),
		TEST(killed_processes_break_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
