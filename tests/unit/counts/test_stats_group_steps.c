/* SPDX-License-Identifier: MIT */
/*
 * test_stats_group_steps.c - groups of statistics whose threads are stopped, killed or overtaken at
 * steps in the library, lanes as killed sequences leave them, and damaged words.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/stats_group.h>
#include <percpu/status.h>

#include "model.h"
#include "steps.h"
#include "support.h"
#include "../happen.h"

#include "counts/counts.h"

#define GROUP_OBJECTS 6
#define PAST 1 /* the total that gets what flows had */

static struct percpu_region *region;
static struct percpu_stats_group *g;
static size_t flow;

static const uint64_t ones[2] = { 1, 100 };

static void begin(void)
{
	int fd = memfd_create("group", MFD_CLOEXEC);

	test_tier();
	assert_int_equal(test_region_new_fd(fd, NULL, &region), 0);
	close(fd);
	assert_int_equal(percpu_stats_group_create_in(region, 16, 2, GROUP_OBJECTS, &g), 0);
	assert_int_equal(percpu_stats_group_alloc(g, &flow), 0);
}

static void end(void)
{
	percpu_stats_group_destroy(g);
	percpu_region_close(region);
}

static void count(void)
{
	assert_int_equal(percpu_stats_group_update_both(g, flow, ones, 0, ones, 2), 0);
}

/* Count as a thread that cannot run sequences. */
static void count_by_lock(void)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area = model_set_area(&none);
	int r = percpu_stats_group_update_both(g, flow, ones, 0, ones, 2);

	model_set_area(area);
	assert_int_equal(r, 0);
}

static void expect(size_t i, uint64_t packets)
{
	uint64_t out[2];

	assert_int_equal(percpu_stats_group_fetch(g, i, 1, out), 0);
	assert_int_equal(out[0], packets);
	assert_int_equal(out[1], 100 * packets);
}

static void expect_moment(uint64_t total, uint64_t past, uint64_t of_flow)
{
	uint64_t out[2 * GROUP_OBJECTS];
	int e = percpu_stats_group_snapshot(g, 0, GROUP_OBJECTS, out, NULL);

	if (e == -EPERM) /* a cpuset */
		return;
	assert_int_equal(e, 0);
	assert_int_equal(out[0], total);
	assert_int_equal(out[1], 100 * total);
	assert_int_equal(out[2 * PAST], past);
	assert_int_equal(out[2 * PAST + 1], 100 * past);
	assert_int_equal(out[2 * flow], of_flow);
	assert_int_equal(out[2 * flow + 1], 100 * of_flow);
}

static void die(void)
{
	raise(SIGKILL);
}

/* Let a child die when it has come to the step for the nth time. Return false if it does not. */
static const char *deadly;
static unsigned passes;
static void (*deed)(void);

static void pass_or_die(void)
{
	if (passes-- == 0)
		die();
	let_happen(pass_or_die, deadly, 1);
}

static int do_and_die(void *arg)
{
	passes = *(unsigned *)arg;
	let_happen(pass_or_die, deadly, 1);
	deed();
	return 0;
}

static bool dies(void (*fn)(void), const char *step, unsigned n)
{
	int status;

	deed = fn;
	deadly = step;
	status = test_wait(test_fork(do_and_die, &n), 60);
	assert_true(status == 0 || WTERMSIG(status) == SIGKILL);
	return status != 0;
}

/* Locks of the dead must be taken over. */
static void need_robust_locks(void)
{
	if (!percpu_robust_supported())
		test_skip("no robust locks here");
}

/* A thread dies in an update by the lock: both objects have it, or none. */
static void death_in_an_update_by_lock(void **state)
{
	static const char *const steps[] = { "group: stored", "group: open", "group: changed" };
	uint64_t done;
	unsigned deaths = 0;

	(void)state;
	need_robust_locks();
	begin();
	count();
	for (unsigned s = 0; s < 3; s++)
		for (unsigned n = 0; dies(count_by_lock, steps[s], n); n++) {
			uint64_t out[2 * GROUP_OBJECTS];

			deaths++;
			assert_int_equal(percpu_stats_group_fetch(g, 0, GROUP_OBJECTS, out), 0);
			done = out[0];
			expect(flow, done);
			expect_moment(done, 0, done);
			count_by_lock();
			expect(0, done + 1);
			expect(flow, done + 1);
		}
	assert_int_equal(deaths, 8 + 1 + 1); /* 2 words of 2 objects, saved and stored */
	end();
}

static void free_flow(void)
{
	assert_int_equal(percpu_stats_group_free(g, flow, PAST), 0);
}

/* Allocate the flow's number again, and no other. */
static void have_flow_again(void)
{
	size_t i;

	do
		assert_int_equal(percpu_stats_group_alloc(g, &i), 0);
	while (i != flow);
	for (i = 2; i < GROUP_OBJECTS; i++)
		assert_true(i == flow || percpu_stats_group_free(g, i, 0) != -EROFS);
}

/* A process dies in a free. It did nothing, or the next one completes it. */
static void death_in_a_free(void **state)
{
	static const char *const steps[] = { "group: to be freed", "group: freed",
					     "group: not in use",  "group: stored",
					     "group: open",	   "group: changed" };
	uint64_t past = 0, out[2 * GROUP_OBJECTS];
	unsigned deaths = 0;
	bool died;

	(void)state;
	need_robust_locks();
	begin();
	for (unsigned s = 0; s < 6; s++)
		for (unsigned n = 0; n < (s == 3 ? 9 : 1); n++) {
			count();
			died = dies(free_flow, steps[s], n);
			deaths += died;
			assert_int_equal(percpu_stats_group_fetch(g, 0, GROUP_OBJECTS, out), 0);
			assert_int_equal(out[2 * PAST] + out[2 * flow], past + 1);
			expect_moment(past + 1, past + (s != 0), s == 0);
			assert_int_equal(percpu_stats_group_free(g, flow, PAST),
					 s == 0 ? 0 : -EINVAL);
			past++;
			expect(PAST, past);
			expect(flow, 0);
			have_flow_again();
		}
	assert_int_equal(deaths, 3 + 8 + 2); /* 2 words of 2 objects are saved and stored */
	end();
}

static void alloc_one(void)
{
	size_t i;

	assert_int_equal(percpu_stats_group_alloc(g, &i), 0);
}

/* A process that dies in an allocation leaves the number free. What was there late is moved. */
static void death_in_an_allocation(void **state)
{
	size_t i;

	(void)state;
	need_robust_locks();
	begin();
	free_flow();
	count(); /* late */
	for (i = 0; i != GROUP_OBJECTS - 1;)
		assert_int_equal(percpu_stats_group_alloc(g, &i), 0);
	assert_true(dies(alloc_one, "group: to be in use", 0));
	assert_int_equal(percpu_stats_group_alloc(g, &i), 0);
	assert_int_equal(i, flow);
	expect(flow, 0);
	expect(PAST, 1);
	assert_int_equal(percpu_stats_group_alloc(g, &i), -ENOSPC);
	end();
}

/* What killed sequences leave */

static struct percpu_group_lane *lane_of(unsigned cpu, unsigned bank)
{
	return (struct percpu_group_lane *)(g->block.base + cpu * g->block.stride +
					    bank * g->banks);
}

static uint64_t *record_in(struct percpu_group_lane *l, size_t i)
{
	return (uint64_t *)((char *)l + g->head + i * g->record);
}

/* Let an update of the flow and of total 0 be open in a lane. */
static void open_lane(struct percpu_group_lane *l)
{
	memcpy(l->old, record_in(l, flow), 16);
	memcpy(l->old + 2, record_in(l, 0), 16);
	l->names = percpu_group_names(flow, 0) | ((l->turn + 1) & 1);
	record_in(l, flow)[0] += 7;
	record_in(l, flow)[1] += 700;
	record_in(l, 0)[0] += 9;
}

static void open_all_lanes(void)
{
	for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++)
		for (unsigned bank = 0; bank < 2; bank++)
			open_lane(lane_of(cpu, bank));
}

static void open_updates_do_not_count(void **state)
{
	(void)state;
	begin();
	count();
	expect_moment(1, 0, 1);
	count();
	open_all_lanes();
	expect(flow, 2);
	expect(0, 2);
	expect_moment(2, 0, 2); /* both banks */
	expect_moment(2, 0, 2);
	count();
	count();
	expect(flow, 4);
	expect(0, 4);
	expect_moment(4, 0, 4);
	count();
	expect_moment(5, 0, 5);
	end();
}

/* A sequence is refused, and the next one undoes what is open: no thread needs the lock. */
static void open_updates_are_undone(void **state)
{
	struct percpu_group_lane *bias;
	uint64_t turn;

	(void)state;
	begin();
	test_need_sequences();
	bias = percpu_stats_group_biases(g);
	turn = bias->turn;
	open_all_lanes();
	for (unsigned i = 0; i < 3; i++)
		count();
	expect(flow, 3);
	assert_int_equal(bias->turn, turn); /* not by the lock */
	end();
}

/* Numbers that no update has stored lead nowhere: threads count by the lock. */
static void damaged_numbers_lead_nowhere(void **state)
{
	static const uint64_t names[] = { UINT64_MAX, (uint64_t)GROUP_OBJECTS << 32,
					  (uint64_t)GROUP_OBJECTS << 1, UINT32_MAX,
					  UINT64_C(0xffffffff00000000) };
	uint64_t before[64];
	struct percpu_group_lane *l;

	(void)state;
	begin();
	for (unsigned k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
		for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++)
			for (unsigned bank = 0; bank < 2; bank++) {
				l = lane_of(cpu, bank);
				l->names = (names[k] & ~UINT64_C(1)) | ((l->turn + 1) & 1);
			}
		l = percpu_stats_group_biases(g);
		l->names = (names[k] & ~UINT64_C(1)) | ((l->turn + 1) & 1);
		memcpy(before, lane_of(0, 0), sizeof(before));
		count();
		assert_memory_equal(before, lane_of(0, 0), sizeof(before));
		expect(flow, k + 1);
		expect(0, k + 1);
	}
	end();
}

static void damaged_control_is_harmless(void **state)
{
	struct percpu_stats_group_control *c;
	size_t i;

	(void)state;
	begin();
	c = percpu_stats_group_control(g);
	c->hint = UINT32_MAX;
	assert_int_equal(percpu_stats_group_alloc(g, &i), 0);
	assert_in_range(i, 2, GROUP_OBJECTS - 1);
	c->hint = 0;
	assert_int_equal(percpu_stats_group_alloc(g, &i), 0);
	assert_in_range(i, 2, GROUP_OBJECTS - 1);
	assert_int_equal(percpu_stats_group_free(g, i, 0), 0);
	for (uint32_t freed = 1; freed != 0; freed = freed == 1 ? UINT32_MAX : 0) {
		c->freed = freed; /* a total, or no object */
		free_flow();
		assert_int_equal(c->freed, 0);
		assert_int_equal(c->in_use[0] & 3, 3);
		have_flow_again();
	}
	count();
	free_flow();
	count();
	/* The number of the flow's total. */
	((uint32_t *)&c->in_use[1])[flow] = UINT32_MAX;
	have_flow_again();
	expect(flow, 0);
	expect(PAST, 2);
	for (; percpu_stats_group_alloc(g, &i) == 0; c->hint = UINT32_MAX)
		assert_in_range(i, 2, GROUP_OBJECTS - 1);
	assert_int_equal(percpu_stats_group_alloc(g, &i), -ENOSPC);
	end();
}

/* The bits of 64 objects fill a word. Behind it are the totals of the objects, which say nothing of
 * free objects. */
static void damaged_hint_leads_to_no_object(void **state)
{
	struct percpu_stats_group_control *c;
	size_t i;

	(void)state;
	begin();
	percpu_stats_group_destroy(g);
	assert_int_equal(percpu_stats_group_create_in(region, 16, 2, 64, &g), 0);
	c = percpu_stats_group_control(g);
	for (size_t n = 2; n < 64; n++)
		assert_int_equal(percpu_stats_group_alloc(g, &i), 0);
	c->in_use[1] = UINT64_MAX;
	c->hint = UINT32_MAX;
	assert_int_equal(percpu_stats_group_alloc(g, &i), -ENOSPC);
	end();
}

/* What comes between a reader's steps */

static void reset_flow(void)
{
	uint64_t out[2];
	int e = percpu_stats_group_fetch_zero(g, flow, 1, out, NULL);

	assert_true(e == 0 || e == -EPERM);
}

/* A commit between two loads of a reader: it loads again. */
static void updates_between_loads(void **state)
{
	static const char *const steps[] = { "group: turn loaded", "group: word loaded" };

	(void)state;
	for (unsigned s = 0; s < 2; s++) {
		begin();
		test_pin(0, test_cpu(0));
		count();
		let_happen(count, steps[s], 3);
		expect(PAST, 0);
		let_happen(count_by_lock, steps[s], 3);
		expect(PAST, 0);
		assert_int_equal(times, 0);
		expect(0, 7);
		expect(flow, 7);
		test_unpin(0);
		end();
	}
}

/* A free has succeeded also if the object's words change too fast to be moved to the total. The next
 * thread that takes the lock moves them. */
static void disturbed_frees_succeed(void **state)
{
	size_t again;

	(void)state;
	test_need_sequences();
	begin();
	test_pin(0, test_cpu(0));
	count();
	let_happen(count, "group: word loaded", 1000000);
	assert_int_equal(percpu_stats_group_free(g, flow, PAST), 0);
	assert_true(times > 0);
	at_step = NULL;
	assert_int_not_equal(percpu_stats_group_control(g)->freed, 0);
	assert_int_equal(percpu_stats_group_free(g, flow, PAST), -EINVAL);
	assert_int_equal(percpu_stats_group_control(g)->freed, 0);
	assert_int_equal(percpu_stats_group_alloc(g, &again), 0);
	assert_int_equal(percpu_stats_group_free(g, again, PAST), 0);
	test_unpin(0);
	end();
}

/* Each word of the flow is loaded while another update of it is open in that lane, and is undone. */
static struct percpu_group_lane *opened;

static void undo_it(void)
{
	memcpy(record_in(opened, flow), opened->old, 16);
	memcpy(record_in(opened, 0), opened->old + 2, 16);
	opened->turn++;
}

/* Open it when the reader has come to the step so many times more. */
static unsigned skips;

static void open_it(void)
{
	if (skips-- == 0)
		open_lane(opened);
	else
		let_happen(open_it, "group: turn loaded", 1);
}

static void open_and_undo(void)
{
	open_lane(opened);
	let_happen(undo_it, "group: word loaded", 1);
}

static void uncommitted_words_are_not_read(void **state)
{
	(void)state;
	begin();
	test_pin(0, test_cpu(0));
	count();
	for (unsigned bank = 0; bank < 2; bank++)
		for (unsigned n = 0; n < 4; n++) {
			opened = lane_of(test_cpu(0), bank);
			let_happen(open_and_undo, "group: turn loaded", 1);
			expect(flow, 1);
			assert_int_equal(times, 0);
		}
	/* The reader comes to the step once per word, in the bias lane and in each bank. */
	for (unsigned n = 0; n < 2 * (1 + 2 * percpu_status()->possible_cpus); n++) {
		opened = lane_of(test_cpu(0), n % 2);
		skips = n / 2 * 2;
		let_happen(open_it, "group: turn loaded", 1);
		expect(flow, 1);
		undo_it();
		skips = n / 2 * 2 + 1;
		let_happen(open_it, "group: turn loaded", 1);
		expect(flow, 1);
		undo_it();
	}
	test_unpin(0);
	end();
}

/* An update is open at the first look, and is committed before the second. */
static void commit_it(void)
{
	opened->turn++;
}

static void saved_words_are_not_read_after_the_commit(void **state)
{
	struct percpu_group_lane *l;

	(void)state;
	begin();
	l = opened = percpu_stats_group_biases(g);
	memset(l->old, 0xff, 32);
	l->names = percpu_group_names(flow, 0) | ((l->turn + 1) & 1);
	let_happen(commit_it, "group: word loaded", 1);
	expect(flow, 0);
	end();
}

/* A CPU that commits between all loads: -EAGAIN, and nothing is stored. */
static void commit_again(void)
{
	opened->turn++;
	opened->names++;
	let_happen(commit_again, "group: word loaded", 1);
}

static void endless_commits_end_a_read(void **state)
{
	uint64_t out[2] = { 5, 5 };
	size_t i = 77;

	(void)state;
	begin();
	count();
	opened = lane_of(0, 0);
	opened->names = opened->turn & 1;
	let_happen(commit_again, "group: word loaded", 1);
	assert_int_equal(percpu_stats_group_fetch(g, flow, 1, out), -EAGAIN);
	assert_int_equal(out[0] + out[1], 10);
	assert_int_equal(percpu_stats_group_alloc(g, &i), -EAGAIN);
	assert_int_equal(i, 77);
	at_step = NULL;
	opened->names = opened->turn & 1;
	expect(flow, 1);
	end();
}

/* A flow is freed, or reset, while a snapshot runs: it is taken again. Turns keep that from
 * happening unless a reader was stopped for a second; so the step comes with the turn given up. */
static void give_up_turn(void)
{
	__atomic_store_n(&percpu_stats_group_control(g)->reader, 0, __ATOMIC_RELAXED);
}

static void free_meanwhile(void)
{
	give_up_turn();
	count();
	free_flow();
}

static void reset_meanwhile(void)
{
	give_up_turn();
	reset_flow();
}

static void moves_during_a_snapshot(void **state)
{
	static const char *const steps[] = { "group: moves loaded", "group: bank to be changed",
					     "group: bank changed" };
	uint64_t out[2 * GROUP_OBJECTS];

	(void)state;
	begin();
	if (percpu_stats_group_snapshot(g, 0, GROUP_OBJECTS, out, NULL) == -EPERM) {
		end();
		test_skip("a cpuset");
	}
	for (unsigned s = 0; s < 3; s++) {
		count();
		let_happen(free_meanwhile, steps[s], 1);
		expect_moment(2 * s + 2, 2 * s + 2, 0);
		have_flow_again();
	}
	count();
	for (unsigned s = 0; s < 3; s++) {
		count();
		let_happen(reset_meanwhile, steps[s], 1);
		expect_moment(6 + s + 2, 6, 0);
	}
	/* Two resets: what the first one got is not subtracted again. */
	count();
	let_happen(reset_meanwhile, "group: bank changed", 1);
	assert_int_equal(percpu_stats_group_fetch_zero(g, flow, 1, out, NULL), 0);
	assert_int_equal(out[0], 0);
	expect(flow, 0);
	end();
}

static int expected_fence;
int __real_percpu_region_fence(const struct percpu_region *r);
int __wrap_percpu_region_fence(const struct percpu_region *r);

int __wrap_percpu_region_fence(const struct percpu_region *r)
{
	return expected_fence != 0 ? expected_fence : __real_percpu_region_fence(r);
}

static void errors_of_fences_are_passed_on(void **state)
{
	uint64_t out[2] = { 5, 5 }, ns = 5;
	struct percpu_stats_group_control *c;

	(void)state;
	begin();
	count();
	c = percpu_stats_group_control(g);
	expected_fence = -ETIMEDOUT;
	assert_int_equal(percpu_stats_group_snapshot(g, flow, 1, out, &ns), -ETIMEDOUT);
	assert_true(c->bank != c->fenced); /* the next one fences first */
	assert_int_equal(percpu_stats_group_fetch_zero(g, flow, 1, out, &ns), -ETIMEDOUT);
	assert_int_equal(out[0] + out[1] + ns, 15);
	expected_fence = 0;
	expect(flow, 1);
	expect_moment(1, 0, 1);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(death_in_an_update_by_lock),
		cmocka_unit_test(death_in_a_free),
		cmocka_unit_test(death_in_an_allocation),
		cmocka_unit_test(open_updates_do_not_count),
		cmocka_unit_test(open_updates_are_undone),
		cmocka_unit_test(damaged_numbers_lead_nowhere),
		cmocka_unit_test(damaged_control_is_harmless),
		cmocka_unit_test(damaged_hint_leads_to_no_object),
		cmocka_unit_test(updates_between_loads),
		cmocka_unit_test(disturbed_frees_succeed),
		cmocka_unit_test(uncommitted_words_are_not_read),
		cmocka_unit_test(saved_words_are_not_read_after_the_commit),
		cmocka_unit_test(endless_commits_end_a_read),
		cmocka_unit_test(moves_during_a_snapshot),
		cmocka_unit_test(errors_of_fences_are_passed_on),
	};

	return cmocka_run_group_tests_name("stats_group_steps", tests, NULL, NULL);
}
