/* SPDX-License-Identifier: MIT */
/*
 * test_overlap.c - two updates, one within the other, where no sequence of the second one aborts
 * the first: a reset, a pop from another CPU's array, a switch of banks, a lane that is taken
 * without a sequence, another process, and atomic adds, which nothing aborts.
 */
#define _GNU_SOURCE
#include "inject.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/critical.h>
#include <percpu/extrema.h>
#include <percpu/fence.h>
#include <percpu/local.h>
#include <percpu/status.h>

#include "../support.h"

#define ROUNDS 50      /* a neighbor may abort the update, and so spoil some rounds */
#define STEP_OF_BANK 5 /* the step at which the bank is known */

static struct percpu_counter_array *array;
static struct percpu_local *items;
static const int64_t ones[2] = { 1, 1 };

static void add_ones(void)
{
	percpu_counter_array_add_n(array, 0, ones, 2);
}

static uint64_t taken;

static void reset(void)
{
	taken += percpu_counter_array_fetch_zero(array, 0);
}

static void reset_within_an_add(void **state)
{
	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	assert_int_equal(percpu_counter_array_create(2, &array), 0);
	for (unsigned i = 0; i < ROUNDS; i++)
		inject_overlap(add_ones, INJECT_loaded, reset);
	reset();
	assert_int_equal(taken, ROUNDS);
	assert_int_equal(percpu_counter_array_fetch(array, 1), ROUNDS);
	percpu_counter_array_destroy(array);
}

static struct percpu_array *here; /* the array of the CPU that pops */
static unsigned popped;

static void pop(void)
{
	void *item;

	if (percpu_local_pop(items, &item) == 0)
		__atomic_fetch_add(&popped, 1, __ATOMIC_RELAXED);
}

static void pop_from_afar(void)
{
	void *item;

	if (percpu_local_pop_cpu(items, test_cpu(0), &item) == 0)
		__atomic_fetch_add(&popped, 1, __ATOMIC_RELAXED);
}

static void foreign_pop_within_a_pop(void **state)
{
	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	assert_int_equal(percpu_local_create(16, PERCPU_LOCAL_LOCK, &items), 0);
	here = percpu_local_cell(items, test_cpu(0));
	for (unsigned i = 0; i < ROUNDS; i++) {
		popped = 0;
		here->slot[0] = &taken;
		here->count = 1;
		inject_overlap(pop, INJECT_written, pop_from_afar);
		assert_int_equal(popped, 1);
		assert_int_equal(here->count, 0);
	}
	percpu_local_destroy(items);
}

/* Two banks of a word. The reader owns the bank that it has switched away from. */
#define BANK_WORDS 8
static uint64_t bank, *words;
static uint64_t in_banks, late;

static void add_in_bank(void)
{
	const size_t stride = 2 * BANK_WORDS * sizeof(*words);

	while (percpu_seq_bank_add(words, stride, &bank, BANK_WORDS * sizeof(*words), 1) ==
	       PERCPU_SEQ_SLOW)
		;
}

static uint64_t take_bank(uint64_t distance)
{
	uint64_t *word = words + distance / sizeof(*words), sum = 0;

	for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++) {
		sum += word[2 * BANK_WORDS * cpu];
		word[2 * BANK_WORDS * cpu] = 0;
	}
	return sum;
}

static void switch_bank(void)
{
	uint64_t old = bank;

	late += take_bank(BANK_WORDS * sizeof(*words) - old);
	__atomic_store_n(&bank, BANK_WORDS * sizeof(*words) - old, __ATOMIC_RELAXED);
	late += percpu_fence() != 0;
	in_banks += take_bank(old);
}

static void switch_within_a_bank_add(void **state)
{
	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	words = calloc(percpu_status()->possible_cpus * 2 * BANK_WORDS, sizeof(*words));
	assert_non_null(words);
	for (unsigned i = 0; i < ROUNDS; i++)
		inject_overlap(add_in_bank, STEP_OF_BANK, switch_bank);
	switch_bank();
	assert_int_equal(late, 0);
	assert_int_equal(in_banks, ROUNDS);
	free(words);
}

/* The observation has loaded the epoch before a reset begins the next one. */
static struct percpu_extrema *extrema;
static int64_t observed, results;

static void observe(void)
{
	(void)percpu_extrema_observe(extrema, observed);
}

static void reset_extrema(void)
{
	int64_t min, max;

	if (percpu_extrema_fetch_reset(extrema, &min, &max) == 0)
		results += min == observed && max == observed ? 1 : ROUNDS;
}

static void reset_within_an_observation(void **state)
{
	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	assert_int_equal(percpu_extrema_create(0, &extrema), 0);
	for (observed = 1; observed <= ROUNDS; observed++) {
		inject_overlap(observe, observed % 2 ? STEP_OF_BANK : INJECT_written,
			       reset_extrema);
		reset_extrema();
		assert_int_equal(results, observed);
	}
	percpu_extrema_destroy(extrema);
}

/* A lane that all CPUs share: its stride is 0. One thread enters it. Another stores the second word,
 * and after a fence it may rely on what the first word says. */
static struct {
	uint64_t owner, other;
} words_of_lane __attribute__((aligned(8)));
static bool fences;
static uint64_t owner_then;
static int entered;

static void enter(void)
{
	void *lane;

	do
		entered = percpu_seq_enter(&words_of_lane, 0, 1, &lane);
	while (entered == PERCPU_SEQ_SLOW);
}

static void take_otherwise(void)
{
	__atomic_store_n(&words_of_lane.other, 1, __ATOMIC_SEQ_CST);
	if (fences)
		assert_int_equal(percpu_fence(), 0);
	owner_then = __atomic_load_n(&words_of_lane.owner, __ATOMIC_ACQUIRE);
}

static void take_within_an_entry(void **state)
{
	unsigned alone = 0;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	for (unsigned i = 0; i < ROUNDS; i++) {
		words_of_lane.owner = words_of_lane.other = 0;
		fences = i % 2;
		inject_overlap(enter, INJECT_decided, take_otherwise);
		assert_int_equal(words_of_lane.other, 1);
		assert_int_equal(words_of_lane.owner, entered == 0);
		if (fences)
			assert_int_equal(words_of_lane.owner, owner_then);
		alone += words_of_lane.owner == 0;
	}
	assert_in_range(alone, 1, ROUNDS);
}

static struct percpu_critical *sections;
static void *cells[2]; /* of the thread that enters, and of the one that enters that CPU's lane */

static void enter_section(void)
{
	assert_int_equal(percpu_critical_enter(sections, &cells[0]), 0);
}

static int entered_first; /* what the thread got that enters that CPU's lane */

static void enter_first_lane(void)
{
	entered_first = percpu_critical_enter_lane(sections, test_cpu(0), &cells[1]);
}

/* Two threads that enter at once do not have the same lane. On a busy machine the first thread may
 * be inside before the other one runs, which then waits for a second. */
static void lane_within_an_entry(void **state)
{
	unsigned overlapped = 0;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	for (unsigned i = 0; i < ROUNDS; i++) {
		assert_int_equal(percpu_critical_create(8, &sections), 0);
		inject_overlap(enter_section, INJECT_decided, enter_first_lane);
		if (entered_first == -ETIMEDOUT) {
			assert_ptr_equal(cells[0], percpu_critical_cell(sections, test_cpu(0)));
		} else {
			assert_int_equal(entered_first, 0);
			assert_ptr_not_equal(cells[0], cells[1]);
			overlapped++;
		}
		percpu_critical_destroy(sections);
	}
	assert_in_range(overlapped, 1, ROUNDS);
}

/* Add in a process of one thread, on a CPU of its own. The first process waits in its update. */
static int add_in_process(void *cpu)
{
	percpu_seq_attach();
	if (*(unsigned *)cpu == 0)
		inject_point =
			(struct inject_point){ .step = INJECT_loaded, .rounds = INJECT_LONG };
	add_ones();
	return 0;
}

static void process_within_an_add(void **state)
{
	struct percpu_region *region;
	struct inject_point seen;
	unsigned cpu[2] = { 0, 1 }, rounds = 0, waited = 0;
	int fd = memfd_create("overlap", MFD_CLOEXEC);
	pid_t first;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	if (!inject_read(getpid(), &seen))
		test_skip("no process_vm_readv() here");
	assert_int_equal(test_region_new_fd(fd, NULL, &region), 0);
	close(fd);
	assert_int_equal(percpu_counter_array_create_in(region, 2, &array), 0);
	/* An add that was aborted meanwhile is over when it is told to go on. */
	while (waited < ROUNDS / 2 && rounds++ < 20 * ROUNDS) {
		test_pin(0, test_cpu(0)); /* inherited: the children never move */
		first = test_fork(add_in_process, &cpu[0]);
		test_pin(0, test_cpu(1));
		while (inject_read(first, &seen) && !seen.arrived)
			sched_yield();
		test_in_child(add_in_process, &cpu[1]);
		waited += inject_go(first);
		assert_int_equal(test_wait(first, 60), 0);
		test_unpin(0);
		assert_int_equal(percpu_counter_array_fetch(array, 0), 2 * rounds);
	}
	percpu_counter_array_detach(array);
	percpu_region_close(region);
}

#ifdef __x86_64__

#define TRAP_FLAG 0x100

static struct percpu_counter *counter;
static unsigned nested;
static bool over;

/* Add after each instruction, as if another thread had added then. */
static void add_after_step(int signo, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)signo, (void)info;
	if (over)
		regs[REG_EFL] &= ~TRAP_FLAG;
	percpu_counter_add(counter, 1);
	nested++;
}

static void add_by_steps(unsigned i, void *arg)
{
	(void)i, (void)arg;
	test_unregister(percpu_seq_attach()); /* its adds are atomic */
	percpu_counter_add(counter, 1);
	__asm__ __volatile__("pushfq\n\torq %0, (%%rsp)\n\tpopfq" ::"i"(TRAP_FLAG)
			     : "cc", "memory");
	percpu_counter_add(counter, 1);
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
}

static void atomic_adds_between_any_instructions(void **state)
{
	struct sigaction sa = { .sa_sigaction = add_after_step, .sa_flags = SA_SIGINFO }, old;

	(void)state;
	if (test_thread_sanitizer())
		test_skip("the thread sanitizer cannot be stepped through");
	assert_int_equal(percpu_counter_create(&counter), 0);
	assert_int_equal(sigaction(SIGTRAP, &sa, &old), 0);
	test_team_run(1, add_by_steps, NULL);
	sigaction(SIGTRAP, &old, NULL);
	assert_in_range(nested, 10, 100000);
	assert_int_equal(percpu_counter_fetch(counter), nested + 2);
	percpu_counter_destroy(counter);
}

#else

static void atomic_adds_between_any_instructions(void **state)
{
	(void)state;
	test_skip("single steps are for x86-64");
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reset_within_an_add),
		cmocka_unit_test(foreign_pop_within_a_pop),
		cmocka_unit_test(switch_within_a_bank_add),
		cmocka_unit_test(reset_within_an_observation),
		cmocka_unit_test(take_within_an_entry),
		cmocka_unit_test(lane_within_an_entry),
		cmocka_unit_test(process_within_an_add),
		cmocka_unit_test(atomic_adds_between_any_instructions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
