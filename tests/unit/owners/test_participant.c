/* SPDX-License-Identifier: MIT */
/*
 * test_participant.c - test the counts of threads inside an object: in CPU lanes and atomic lanes,
 * of this process and of other processes, which fork, leave, stop, and are killed at each step.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "model.h"
#include "support.h"

#include "owners/participant.h"
#include "../later.h"
#include "../owners.h"

#define KIND PERCPU_KIND_RWLOCK
#define ROOT 3
#define AT(...) ((struct percpu_participants_at){ __VA_ARGS__ })
#define AT_ROOT AT(PERCPU_AT_ROOT, ROOT)
#define SIZE sizeof(struct percpu_participants)

static struct percpu_participants *p;
static struct percpu_rseq without = { .cpu_id = PERCPU_CPU_NEVER };

static int begin(void **state)
{
	int e = begin_owners(state);

	return e != 0 ? e : percpu_participants_open(owners, AT_ROOT, KIND, SIZE, &p);
}

static int end(void **state)
{
	percpu_participants_destroy(p);
	p = NULL;
	return end_owners(state);
}

static int begin_private(void **state)
{
	(void)state;
	deadly = NULL;
	return percpu_participants_create(SIZE, &p);
}

static int end_private(void **state)
{
	(void)state;
	percpu_participants_detach(p);
	p = NULL;
	return 0;
}

static int enter(unsigned bank)
{
	return percpu_participants_enter(p, bank, p->control->state);
}

static void leave(unsigned bank)
{
	percpu_participants_leave(p, bank, p->control->state);
}

static int enter_without(unsigned bank)
{
	struct percpu_rseq *own = model_set_area(&without);
	int r = enter(bank);

	model_set_area(own);
	return r;
}

static void leave_without(unsigned bank)
{
	struct percpu_rseq *own = model_set_area(&without);

	leave(bank);
	model_set_area(own);
}

/* Return a deadline that only a bug lets pass. */
static uint64_t soon(void)
{
	return test_now() + UINT64_C(4000000000);
}

static void expect(uint32_t first, uint32_t second)
{
	assert_int_equal(percpu_participants_sum(p, 0), first);
	assert_int_equal(percpu_participants_sum(p, 1), second);
}

static void those_inside_are_counted(void **state)
{
	(void)state;
	assert_int_equal(percpu_participants_join(p), 0);
	assert_true(p->in.cell == p->in.block.base && p->in.state == &p->control->state);
	assert_int_equal((uintptr_t)p->in.state % 64, 0);
	p->control->state = 77;
	assert_int_equal(enter(0), 0);
	expect(1, 0);
	assert_int_equal(enter(1), 0);
	assert_int_equal(enter_without(1), 0);
	expect(1, 2);
	assert_int_equal(percpu_participants_sum_own(p, 1), 2);
	leave(1);
	leave(1);
	leave_without(0);
	expect(0, 0);
	percpu_participants_add(p, 1, 5);
	percpu_participants_add(p, 1, -2);
	expect(0, 3);
}

/* A damaged record names the owner of the next slot, or of a slot whose block does not exist. */
static void the_number_of_another_slot_leads_nowhere(void **state)
{
	static const uint64_t wrong[] = { 1, PERCPU_OWNERS_MAX - 1 };
	struct percpu_participant_record *r;

	(void)state;
	assert_int_equal(percpu_participants_join(p), 0);
	r = percpu_participants_record(p, p->self);
	for (unsigned i = 0; i < 2; i++) {
		leave_without(0);
		r->owner += wrong[i];
		assert_int_equal(percpu_participants_drain(p, 0, soon()), -EPROTO);
		r->owner -= wrong[i];
		assert_int_equal(percpu_participants_drain(p, 0, soon()), 0);
	}
}

static void another_state_refuses(void **state)
{
	const uint32_t drained = p->control->drained;

	(void)state;
	p->control->state = 5;
	assert_int_equal(percpu_participants_enter(p, 0, 6), PERCPU_SEQ_REFUSED);
	expect(0, 0);
	assert_int_equal(enter(0), 0);
	p->control->state = UINT64_C(5) << 32 | 5; /* all 64 bits are compared */
	assert_int_equal(percpu_participants_enter(p, 0, 5), PERCPU_SEQ_REFUSED);
	expect(1, 0);
	if (percpu_thread_tier() == PERCPU_TIER_RSEQ)
		assert_int_equal(p->control->drained, drained);
	percpu_participants_leave(p, 0, 5);
	expect(0, 0);
	assert_int_not_equal(p->control->drained, drained);
}

static void turn_to_7(void)
{
	p->control->state = 7;
	test_pin(0, test_cpu(1));
}

static void nothing_is_taken_from_another_lane(void **state)
{
	const struct percpu_chunk *k = p->in.block.chunk;

	(void)state;
	test_pin(0, test_cpu(0));
	deadly = "participant: counted";
	meanwhile = turn_to_7;
	assert_int_equal(enter_without(0), PERCPU_SEQ_REFUSED);
	assert_null(deadly);
	for (uint32_t lane = 0; lane < 2 * k->cpus; lane++)
		assert_int_equal(*(uint32_t *)(p->in.block.base + lane * k->stride), 0);
	assert_int_not_equal(p->control->drained, 0);
	test_unpin(0);
}

static void leave_by_thread(unsigned i, void *arg)
{
	(void)arg;
	while (__atomic_load_n(&seen_there, __ATOMIC_ACQUIRE) == 0)
		test_sleep_us(100);
	if (i == 0)
		percpu_participants_leave(p, 0, 0);
	else
		percpu_participants_leave(p, 0, 9);
}

static void who_waits_is_woken(void **state)
{
	struct test_team t;

	(void)state;
	assert_int_equal(percpu_participants_join(p), 0);
	assert_int_equal(enter(0), 0);
	assert_int_equal(enter(0), 0);
	p->control->state = 1;
	assert_int_equal(percpu_participants_fence(p), 0);
	assert_int_equal(percpu_participants_drain(p, 0, 0), -ETIMEDOUT);
	assert_int_equal(percpu_participants_drain(p, 1, 0), 0);
	assert_int_equal(percpu_participants_drain(p, 0, test_now() + 3000000), -ETIMEDOUT);
	seen_there = 0;
	awaited = "participant: somebody is inside";
	test_team_start(&t, 2, leave_by_thread, NULL);
	assert_int_equal(percpu_participants_drain(p, 0, soon()), 0);
	test_team_join(&t);
	awaited = NULL;
	expect(0, 0);
}

static void leave_now(void)
{
	percpu_participants_leave(p, 0, 0);
}

static int drain_for_ever(void *arg)
{
	(void)arg;
	test_child_require(percpu_participants_create(SIZE, &p) == 0, "create");
	test_child_require(percpu_participants_join(p) == 0 && enter(0) == 0, "enter");
	p->control->state = 1;
	test_child_require(percpu_participants_fence(p) == 0, "fence");
	deadly = "participant: somebody is inside";
	meanwhile = leave_now;
	test_child_require(percpu_participants_drain(p, 0, PERCPU_PARTICIPANTS_FOREVER) == 0,
			   "drained");
	percpu_participants_detach(p);
	return 0;
}

/* A thread leaves after the waiter has read the count and before it sleeps. The waiter returns. */
static void who_leaves_before_the_sleep_is_not_awaited(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(drain_for_ever, NULL), 20), 0);
}

static int enter_and_stay(void *arg)
{
	const unsigned n = (unsigned)(uintptr_t)arg;

	test_child_require(percpu_participants_join(p) == 0, "join");
	for (unsigned i = 0; i < n; i++) {
		test_child_require((i % 2 ? enter_without(0) : enter(0)) == 0, "enter");
		test_child_require(percpu_participants_sum_own(p, 0) == i + 1, "a count of 0");
	}
	leave_without(1);
	return stay();
}

static void find_it(uint64_t id, uint32_t n, void *arg)
{
	uint64_t *found = arg;

	if (n != 0)
		*found = id;
}

static void what_the_dead_have_is_dropped(void **state)
{
	uint64_t id = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(percpu_participants_join(p), 0);
	assert_int_equal(enter(0), 0);
	pid = start(enter_and_stay, 5);
	expect(6, UINT32_MAX);
	assert_int_equal(percpu_participants_sum_own(p, 0), 1);
	percpu_participants_each(p, 1, find_it, &id);
	assert_true(id != 0 && id != percpu_participants_self(p));
	assert_true(percpu_participants_alive(p, id));
	assert_int_equal(percpu_participants_drop_dead(p), 0);
	expect(6, UINT32_MAX);
	stop(pid);
	expect(6, UINT32_MAX);
	assert_false(percpu_participants_alive(p, id));
	assert_int_equal(p->control->died, 0);
	assert_int_equal(percpu_participants_drop_dead(p), 0);
	expect(1, 0);
	assert_int_equal(p->control->died, 3);
	p->control->died = 0;
	assert_int_equal(percpu_participants_drop_dead(p), 0);
	assert_int_equal(p->control->died, 0);
	stop(start(enter_and_stay, 3));
	p->control->state = 1;
	assert_int_equal(percpu_participants_fence(p), 0);
	leave(0);
	assert_int_equal(percpu_participants_drain(p, 0, soon()), 0);
	assert_int_equal(p->control->died, 3);
}

static void who_takes_a_slot_begins_with_0(void **state)
{
	pid_t pid;

	(void)state;
	assert_int_equal(percpu_participants_join(p), 0);
	stop(start(enter_and_stay, 7));
	expect(7, UINT32_MAX);
	pid = start(enter_and_stay, 2);
	expect(2, UINT32_MAX);
	assert_int_equal(p->control->died, 3);
	stop(pid);
	pid = start(enter_and_stay, 0);
	expect(0, UINT32_MAX);
	stop(pid);
}

static void who_is_stopped_is_waited_for(void **state)
{
	pid_t pid = start(enter_and_stay, 1);

	(void)state;
	kill(pid, SIGSTOP);
	p->control->state = 1;
	assert_int_equal(percpu_participants_fence(p), 0);
	assert_int_equal(percpu_participants_drain(p, 0, test_now() + 30000000), -ETIMEDOUT);
	expect(1, UINT32_MAX);
	assert_int_equal(p->control->died, 0);
	stop(pid);
	assert_int_equal(percpu_participants_drain(p, 0, soon()), 0);
}

static int come_and_go(void *arg)
{
	struct percpu_participants *other = NULL;

	(void)arg;
	test_child_require(percpu_participants_open(owners,
						    AT(PERCPU_AT_KEY, percpu_block_key(p, KIND)),
						    KIND, SIZE, &other) == 0,
			   "attach");
	p = other;
	test_child_require(percpu_participants_join(p) == 0, "join");
	test_child_require(enter(0) == 0 && enter_without(0) == 0, "enter");
	(void)percpu_participants_drop_dead(p);
	leave(0);
	percpu_participants_leave(p, 0, 99);
	(void)percpu_participants_enter(p, 1, 99);
	percpu_owners_leave(owners);
	reach(1);
	return 0;
}

/* Two processes have died inside. The next process is killed at the step, and the process after it
 * finds the object in order. */
static void whoever_is_killed(void **state)
{
	static const char *const steps[] = {
		"owner: block made",
		"participant: an owner",
		"participant: found dead",
		"participant: death noted",
		"participant: dropped",
		"participant: recorded",
		"participant: counted",
		"participant: taken back",
		"participant: left",
		"participant: to be woken",
		"lock: armed",
	};

	(void)state;
	if (!percpu_robust_supported())
		test_skip("locks are not taken over");
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		stop(start(enter_and_stay, 1));
		stop(start(enter_and_stay, 2));
		p->control->died = 0;
		stop(start_until(i == 0 ? NULL : steps[i], come_and_go, 0));
		stop(start(come_and_go, 0));
		assert_int_equal(percpu_participants_drop_dead(p), 0);
		expect(0, 0);
		assert_int_not_equal(p->control->died & 1, 0);
	}
}

static int be_another(void *arg)
{
	const uint64_t parent = *(uint64_t *)arg;

	test_child_require(percpu_participants_self(p) == 0 && p->in.cell == NULL, "no cell");
	test_child_require(percpu_participants_sum_own(p, 0) == 0, "of the parent");
	test_child_require(percpu_participants_join(p) == 0 && enter(0) == 0, "join");
	test_child_require(percpu_participants_self(p) != parent, "another one");
	test_child_require(percpu_participants_sum(p, 0) == 2, "sum");
	leave(0);
	return 0;
}

static void a_child_is_another_one(void **state)
{
	uint64_t id;

	(void)state;
	assert_int_equal(percpu_participants_join(p), 0);
	assert_non_null(p->in.cell);
	id = percpu_participants_self(p);
	assert_int_equal(enter(0), 0);
	test_in_child(be_another, &id);
	expect(1, 0);
	leave(0);
	expect(0, 0);
}

static void who_leaves_the_owners_has_left(void **state)
{
	uint64_t id;

	(void)state;
	assert_int_equal(percpu_participants_join(p), 0);
	id = percpu_participants_self(p);
	assert_int_equal(enter(0), 0);
	percpu_owners_leave(owners);
	assert_true(percpu_participants_self(p) == 0 && p->in.cell == NULL);
	assert_false(percpu_participants_alive(p, id));
	assert_int_equal(percpu_participants_join(p), 0);
	assert_int_not_equal(percpu_participants_self(p), id);
	expect(0, 0);
	assert_int_equal(p->control->died, 1);
}

static void leave_the_owners(void)
{
	percpu_owners_leave(owners);
}

static int status_of_child;

static int join_as_a_child(void *arg)
{
	(void)arg;
	test_child_require(percpu_participants_join(p) == 0 && enter(0) == 0, "join");
	test_child_require(percpu_participants_sum_own(p, 0) == 1, "one");
	return 0;
}

static void fork_now(void)
{
	status_of_child = test_wait(test_fork(join_as_a_child, NULL), 20);
}

/* A thread leaves the owners during a fork. No thread of the child leaves, so the child does not
 * wait for it. */
static void a_child_awaits_no_thread_of_its_parent(void **state)
{
	(void)state;
	assert_int_equal(percpu_participants_join(p), 0);
	deadly = "owner: byte unlocked";
	meanwhile = fork_now;
	percpu_owners_leave(owners);
	assert_null(deadly);
	assert_int_equal(status_of_child, 0);
}

static void who_leaves_while_another_joins(void **state)
{
	static const char *const steps[] = { "participant: an owner", "participant: to be recorded",
					     "participant: recorded" };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		deadly = steps[i];
		meanwhile = leave_the_owners;
		assert_int_equal(percpu_participants_join(p), 0);
		assert_null(deadly);
		assert_int_equal(percpu_participants_self(p), percpu_owners_self(owners));
		assert_int_not_equal(percpu_participants_self(p), 0);
		percpu_owners_leave(owners);
	}
}

static pid_t heir;

static void leave_to_another(void)
{
	percpu_owners_leave(owners);
	heir = start(enter_and_stay, 3);
}

/* This process has left and its slot has a new owner before it takes the record. */
static void who_joins_late_drops_nobody(void **state)
{
	(void)state;
	deadly = "participant: to be recorded";
	meanwhile = leave_to_another;
	assert_int_equal(percpu_participants_join(p), 0);
	assert_null(deadly);
	assert_int_equal(percpu_participants_sum(p, 0), 3);
	assert_int_equal(p->control->died, 0);
	stop(heir);
}

static void join_and_enter(void)
{
	assert_int_equal(percpu_participants_join(p), 0);
	assert_int_equal(enter(0), 0);
}

/* Another thread makes the record, and enters, before this thread has the lock. */
static void records_are_made_once(void **state)
{
	(void)state;
	deadly = "participant: to be recorded";
	meanwhile = join_and_enter;
	assert_int_equal(percpu_participants_join(p), 0);
	assert_null(deadly);
	expect(1, 0);
	assert_int_equal(p->control->died, 0);
	leave(0);
}

static void let_an_heir_enter(void)
{
	heir = start(enter_and_stay, 2);
}

/* The slot of a dead owner gets a new owner before the dead owner's count is dropped. */
static void heirs_are_not_dropped(void **state)
{
	(void)state;
	stop(start(enter_and_stay, 3));
	deadly = "participant: found dead";
	meanwhile = let_an_heir_enter;
	assert_int_equal(percpu_participants_drop_dead(p), 0);
	assert_null(deadly);
	assert_int_equal(percpu_participants_sum(p, 0), 2);
	stop(heir);
}

static void let_another_enter(void)
{
	heir = start(enter_and_stay, 1);
}

/* Only the count of this process, which has left too often, is set to 0. */
static void who_enters_meanwhile_is_inside(void **state)
{
	(void)state;
	assert_int_equal(percpu_participants_join(p), 0);
	leave_without(0);
	deadly = "participant: left too often";
	meanwhile = let_another_enter;
	assert_int_equal(percpu_participants_drain(p, 0, soon()), -EPROTO);
	assert_null(deadly);
	expect(1, UINT32_MAX);
	assert_int_equal(percpu_participants_sum_own(p, 0), 0);
	stop(heir);
}

static void wait_for_long(void)
{
	let_pass(2 * PERCPU_LOCK_NS);
}

/* A thread that never finishes leaving holds up a join for one second. */
static void who_never_leaves_is_not_awaited(void **state)
{
	(void)state;
	owners->leaving = 1;
	deadly = "owner: leave awaited";
	meanwhile = wait_for_long;
	assert_int_equal(percpu_participants_join(p), -ETIMEDOUT);
	assert_null(deadly);
	owners->leaving = 0;
	assert_int_equal(percpu_participants_join(p), 0);
}

static void a_time_that_is_over_is_not_slept_through(void **state)
{
	uint32_t word = 7;

	(void)state;
	percpu_participants_sleep(p, &word, 7, test_now());
}

static int sleep_until_now(void *arg)
{
	a_time_that_is_over_is_not_slept_through(arg);
	return 0;
}

/* In private memory, PERCPU_PARTICIPANTS_SLICE does not end the sleep. */
static void nor_is_it_in_private_memory(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(sleep_until_now, NULL), 10), 0);
}

static struct percpu_participants *other;

/* Runs in a child: code that takes other memory for a block may crash. */
static int look_at_all_blocks(void *arg)
{
	struct percpu_owners *table = arg;

	awaited = "owner: block looked for";
	test_child_require(percpu_participants_sum(other, 0) == 0, "nobody is inside");
	test_child_require(percpu_participants_look_up(other) == 0, "looked up");
	test_child_require(percpu_participants_drop_dead(other) == 0, "nobody is dropped");
	test_child_require(percpu_owners_list(table, NULL, 0) == 0, "nobody is in the table");
	test_child_require(seen_there == 0, "there is no block");
	return 0;
}

/* The words behind the keys of blocks are no keys of the object or the table. */
static void what_lies_behind_is_no_block(void **state)
{
	const size_t size = sizeof(struct percpu_participant_records);
	struct percpu_owners *table;
	struct percpu_owners_control *c;
	uint64_t *keys[2];
	void *cell[2];

	(void)state;
	assert_int_equal(percpu_owners_create_in(region, &table), 0);
	assert_int_equal(percpu_participants_open(table, AT(PERCPU_AT_NEW, 0), KIND, SIZE, &other),
			 0);
	c = (struct percpu_owners_control *)percpu_block_bias(&table->block);
	keys[0] = c->block;
	keys[1] = other->control->block;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(percpu_region_alloc(region, size, PERCPU_BLOCK_ALIGN, &cell[i]),
				 0);
		keys[i][PERCPU_OWNER_BLOCKS] = percpu_region_key(region, cell[i]);
	}
	expect(0, 0);
	test_in_child(look_at_all_blocks, table);
	percpu_participants_destroy(other);
	assert_int_equal(percpu_owners_destroy(table), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(percpu_region_free(region, cell[i], size), 0);
}

/* Fill the free slots of the first block. They all name process 1, in another space. */
static void fill_first_block(void)
{
	struct percpu_owners_control *c =
		(struct percpu_owners_control *)percpu_block_bias(&owners->block);
	struct percpu_owner_block b = { .size = PERCPU_OWNER_SLOTS *
						sizeof(struct percpu_owner_slot) };
	struct percpu_owner_slot *slots;

	assert_int_equal(percpu_owner_block(region, &c->block[0], true, &b), 0);
	slots = b.bias;
	for (size_t i = 0; i < PERCPU_OWNER_SLOTS; i++)
		if (slots[i].word == 0 || slots[i].word % 2 == 1)
			slots[i] = (struct percpu_owner_slot){
				.word = 2, .space = 5, .started = 1, .pid = 1
			};
}

static void there_are_many(void **state)
{
	pid_t pid;

	(void)state;
	assert_int_equal(percpu_participants_join(p), 0);
	assert_int_equal(enter(0), 0);
	fill_first_block();
	pid = start(enter_and_stay, 3);
	assert_int_not_equal(p->control->block[1], 0);
	assert_null(p->records[1]);
	p->control->state = 1;
	assert_int_equal(percpu_participants_fence(p), 0);
	assert_non_null(p->records[1]);
	expect(4, UINT32_MAX);
	stop(pid);
	assert_int_equal(percpu_participants_drop_dead(p), 0);
	expect(1, 0);
}

static void blocks_may_be_damaged(void **state)
{
	(void)state;
	p->control->block[5] = 12345;
	assert_int_equal(percpu_participants_fence(p), -EBADMSG);
	p->control->block[5] = 0;
	assert_int_equal(percpu_participants_fence(p), 0);
}

static void a_lock_of_an_earlier_boot(void **state)
{
	struct percpu_participants *other;

	(void)state;
	p->control->lock = 1;
	p->control->lock_boot = 12345;
	assert_int_equal(percpu_participants_open(owners, AT_ROOT, KIND, SIZE, &other), 0);
	assert_int_equal(p->control->lock_boot, percpu_boot_id());
	assert_int_equal(percpu_participants_join(other), 0);
	percpu_participants_detach(other);
}

static void wait_for_longer(void)
{
	let_pass(20 * PERCPU_LOCK_NS);
}

static void let_it_be_long(void)
{
	deadly = "lock: to be waited for";
	meanwhile = wait_for_longer;
}

/* Two processes have died inside. The next process takes over the slot of one of them, drops its
 * count, and stops with the lock. */
static void who_stops_with_the_lock(void **state)
{
	pid_t pid, dead[2];
	uint32_t sum;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("locks are not taken over");
	for (unsigned i = 0; i < 2; i++)
		dead[i] = start(enter_and_stay, 1);
	for (unsigned i = 0; i < 2; i++)
		stop(dead[i]);
	pid = start_until("participant: dropped", enter_and_stay, 1);
	let_it_be_long();
	assert_int_equal(percpu_participants_join(p), -ETIMEDOUT);
	assert_int_equal(percpu_participants_self(p), 0);
	let_it_be_long();
	assert_int_equal(percpu_participants_drop_dead(p), -ETIMEDOUT);
	sum = percpu_participants_sum(p, 1);
	assert_true((int32_t)sum < 0);
	let_it_be_long();
	assert_int_equal(percpu_participants_drain(p, 1, soon()), -EPROTO);
	assert_null(deadly);
	expect(1, sum); /* without the lock no count is dropped or set to 0 */
	stop(pid);
	assert_int_equal(percpu_participants_join(p), 0);
	assert_int_equal(percpu_participants_drain(p, 1, soon()), -EPROTO);
	assert_int_equal(percpu_participants_drain(p, 1, soon()), 0);
	assert_int_equal(percpu_participants_drop_dead(p), 0);
	expect(0, 0);
}

static void errors(void **state)
{
	struct percpu_participants *there = NULL;
	struct percpu_owners *others;
	uint64_t key = percpu_block_key(p, KIND);

	(void)state;
	assert_int_equal(percpu_participants_create(SIZE, NULL), -EINVAL);
	assert_int_equal(percpu_participants_open(NULL, AT(PERCPU_AT_NEW, 0), KIND, SIZE, &there),
			 -EINVAL);
	assert_int_equal(percpu_participants_open(owners, AT_ROOT, KIND, SIZE, NULL), -EINVAL);
	assert_int_equal(percpu_participants_open(owners, AT(PERCPU_AT_ROOT, PERCPU_REGION_ROOTS),
						  KIND, SIZE, &there),
			 -EINVAL);
	assert_int_equal(percpu_participants_open(owners, AT_ROOT, PERCPU_KIND_GRACE, SIZE, &there),
			 -EEXIST);
	assert_int_equal(
		percpu_participants_open(owners, AT(PERCPU_AT_KEY, key + 64), KIND, SIZE, &there),
		-ENOENT);
	assert_int_equal(percpu_owners_create_in(region, &others), 0);
	assert_int_equal(
		percpu_participants_open(others, AT(PERCPU_AT_KEY, key), KIND, SIZE, &there),
		-ENOENT);
	percpu_owners_destroy(others);
	assert_int_equal(
		percpu_participants_open(asker, AT(PERCPU_AT_KEY, key), KIND, SIZE, &there), 0);
	assert_int_equal(percpu_participants_join(there), -EROFS);
	assert_int_equal(percpu_participants_sum(there, 0), 0);
	percpu_participants_destroy(there);
	percpu_participants_destroy(NULL);
	percpu_participants_detach(NULL);
}

#define PRIVATE(test) cmocka_unit_test_setup_teardown(test, begin_private, end_private)
#define BETWEEN(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		PRIVATE(those_inside_are_counted),
		PRIVATE(another_state_refuses),
		PRIVATE(nothing_is_taken_from_another_lane),
		PRIVATE(who_waits_is_woken),
		BETWEEN(who_waits_is_woken),
		cmocka_unit_test(who_leaves_before_the_sleep_is_not_awaited),
		BETWEEN(what_the_dead_have_is_dropped),
		BETWEEN(the_number_of_another_slot_leads_nowhere),
		BETWEEN(who_takes_a_slot_begins_with_0),
		BETWEEN(who_is_stopped_is_waited_for),
		BETWEEN(whoever_is_killed),
		BETWEEN(a_child_is_another_one),
		BETWEEN(who_leaves_the_owners_has_left),
		BETWEEN(a_child_awaits_no_thread_of_its_parent),
		BETWEEN(who_leaves_while_another_joins),
		BETWEEN(who_joins_late_drops_nobody),
		BETWEEN(records_are_made_once),
		BETWEEN(heirs_are_not_dropped),
		BETWEEN(who_enters_meanwhile_is_inside),
		BETWEEN(who_never_leaves_is_not_awaited),
		BETWEEN(a_time_that_is_over_is_not_slept_through),
		PRIVATE(nor_is_it_in_private_memory),
		BETWEEN(what_lies_behind_is_no_block),
		BETWEEN(there_are_many),
		BETWEEN(blocks_may_be_damaged),
		BETWEEN(a_lock_of_an_earlier_boot),
		BETWEEN(who_stops_with_the_lock),
		BETWEEN(errors),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
