/* SPDX-License-Identifier: MIT */
/*
 * test_grace.c - a torture test of grace periods, like Linux's rcutorture. Writers replace an
 * element, and reclaim the old one after a period, for which they wait, poll, or register a
 * callback. Readers look at the current element all the time; during a section it must not be
 * reclaimed. Readers sleep, change CPUs, end sections in other threads, are interrupted by handlers
 * that read, too, run without sequences, and are stopped and killed.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/grace.h>
#include <percpu/percpu.h>

#include "../model.h"
#include "../support.h"

#include "owners/grace.h"

#define ELEMENTS 64
#define PERIODS 800
#define PERIODS_BETWEEN 24
#define READERS 3
#define FLAGS (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS)

enum { FREE, LIVE, RETIRED };

struct element {
	uint32_t state;
	uint32_t reserved[15];
};

/* Shared with child processes. */
struct torture {
	struct element element[ELEMENTS];
	uint32_t current;
	uint32_t stop;
	uint32_t errors;
	uint64_t sections;
	uint64_t replaced;
	uint64_t by_way[3];
	uint64_t killed;
};

static struct torture *t;
static struct percpu_grace *g;
static struct percpu_rseq without = { .cpu_id = PERCPU_CPU_NEVER };

static uint32_t state_of(uint32_t i)
{
	return __atomic_load_n(&t->element[i].state, __ATOMIC_ACQUIRE);
}

static void set_state(uint32_t i, uint32_t state)
{
	__atomic_store_n(&t->element[i].state, state, __ATOMIC_RELEASE);
}

static bool is_stopped(void)
{
	return __atomic_load_n(&t->stop, __ATOMIC_RELAXED) != 0;
}

/* An element that was current in a section may be retired meanwhile, but must not be free. */
static void look(uint32_t i)
{
	if (state_of(i) == FREE)
		__atomic_fetch_add(&t->errors, 1, __ATOMIC_RELAXED);
}

static uint32_t current(void)
{
	return __atomic_load_n(&t->current, __ATOMIC_CONSUME);
}

static void dawdle(uint64_t r)
{
	if (r % 64 == 0)
		test_sleep_us((unsigned)(r / 64 % 300));
	else if (r % 64 == 1)
		test_pin(0, test_cpu((unsigned)(r / 64 % test_cpus())));
	else if (r % 64 == 2)
		sched_yield();
	else
		for (uint64_t n = r / 64 % 100; n > 0; n--)
			__asm__ volatile("");
}

static void read_once(uint64_t r)
{
	const int token = percpu_grace_enter(g);
	const uint32_t i = current();
	int inner;

	if (token < 0)
		return;
	look(i);
	dawdle(r);
	if (r >> 20 & 1) {
		inner = percpu_grace_enter(g);
		look(current());
		look(i);
		(void)percpu_grace_exit(g, inner);
	}
	look(i);
	(void)percpu_grace_exit(g, token);
	__atomic_fetch_add(&t->sections, 1, __ATOMIC_RELAXED);
}

/* Read until the test stops. A quarter of the sections begin and end without sequences. */
static void read_all_the_time(unsigned seed)
{
	uint64_t random = seed + 1, r;
	struct percpu_rseq *own;

	while (!is_stopped()) {
		r = test_random(&random) >> 5;
		own = r >> 24 & 3 ? NULL : model_set_area(&without);
		read_once(r);
		if (own != NULL)
			model_set_area(own);
	}
	test_unpin(0);
}

/* Return a free element, which becomes current. */
static uint32_t find_free(void)
{
	for (;;)
		for (uint32_t i = 0; i < ELEMENTS; i++)
			if (state_of(i) == FREE)
				return i;
}

static uint32_t replace(void)
{
	const uint32_t i = find_free();
	uint32_t old;

	set_state(i, LIVE);
	old = __atomic_exchange_n(&t->current, i, __ATOMIC_ACQ_REL);
	set_state(old, RETIRED);
	return old;
}

struct retired {
	struct percpu_grace_callback callback;
	uint32_t element;
};
static struct retired retired[ELEMENTS];

static void reclaim(struct percpu_grace_callback *c)
{
	set_state(((struct retired *)(void *)c)->element, FREE);
	__atomic_fetch_add(&t->replaced, 1, __ATOMIC_RELAXED);
}

static int replace_by(unsigned way)
{
	const uint32_t old = replace();
	uint64_t cookie;
	int e = 0;

	t->by_way[way]++;
	if (way == 0)
		return percpu_grace_call(g, &retired[old].callback, reclaim);
	if (way == 1) {
		cookie = percpu_grace_start(g);
		while (e = percpu_grace_poll(g, cookie), e == 0)
			sched_yield();
		e = e > 0 ? 0 : e;
	} else {
		e = percpu_grace_wait(g);
	}
	if (e == 0)
		reclaim(&retired[old].callback);
	return e;
}

static int be_reader(void *arg)
{
	read_all_the_time((unsigned)(uintptr_t)arg);
	return 0;
}

static int beside[2]; /* pipe of tokens and elements, to the thread that ends others' sections */

static void end_sections_of_others(void)
{
	int handed[2];

	while (read(beside[0], handed, sizeof(handed)) == sizeof(handed)) {
		look((uint32_t)handed[1]);
		dawdle((uint64_t)handed[1] * 77);
		look((uint32_t)handed[1]);
		(void)percpu_grace_exit(g, handed[0]);
	}
}

static void begin_sections_for_others(void)
{
	int hand[2];

	while (!is_stopped()) {
		hand[0] = percpu_grace_enter(g);
		hand[1] = (int)current();
		look((uint32_t)hand[1]);
		if (write(beside[1], hand, sizeof(hand)) != sizeof(hand))
			(void)percpu_grace_exit(g, hand[0]);
		test_sleep_us(50);
	}
	close(beside[1]);
}

static void read_in_handler(int signo)
{
	(void)signo;
	if (t != NULL && g != NULL)
		read_once(3 + 64 * 20);
}

static void read_in_thread(unsigned i, void *arg)
{
	struct test_timer timer;
	bool timed;

	(void)arg;
	if (i == 0) {
		begin_sections_for_others();
		return;
	}
	if (i == 1) {
		end_sections_of_others();
		return;
	}
	timed = i == 2 && test_timer_start(&timer, SIGUSR1, 300);
	read_all_the_time(i);
	if (timed)
		test_timer_stop(&timer);
}

static void begin_torture(void)
{
	t = test_share(sizeof(*t));
	memset(t, 0, sizeof(*t));
	set_state(0, LIVE);
	for (uint32_t i = 0; i < ELEMENTS; i++)
		retired[i].element = i;
}

static void await_readers(void)
{
	while (__atomic_load_n(&t->sections, __ATOMIC_RELAXED) == 0)
		test_sleep_us(100);
}

static void assert_right(unsigned periods)
{
	assert_int_equal(percpu_grace_barrier(g), 0);
	assert_int_equal(t->errors, 0);
	assert_int_equal(t->replaced, periods);
	for (uint32_t i = 0; i < ELEMENTS; i++)
		assert_int_equal(state_of(i), i == t->current ? LIVE : FREE);
}

static void threads(void **state)
{
	const struct sigaction sa = { .sa_handler = read_in_handler, .sa_flags = SA_RESTART };
	const unsigned periods = test_rounds(PERIODS);
	struct test_team team;
	int e = 0;

	(void)state;
	sigaction(SIGUSR1, &sa, NULL);
	assert_int_equal(pipe(beside), 0);
	begin_torture();
	assert_int_equal(percpu_grace_create(0, &g), 0);
	test_team_start(&team, 2 + READERS, read_in_thread, NULL);
	await_readers();
	for (unsigned i = 0; i < periods && e == 0; i++)
		e = replace_by(i % 3);
	__atomic_store_n(&t->stop, 1, __ATOMIC_RELAXED);
	test_team_join(&team);
	close(beside[0]);
	assert_int_equal(e, 0);
	assert_right(periods);
	assert_int_equal(percpu_grace_destroy(g), 0);
}

/* Kill and replace a reader, or stop it for a while. */
static void disturb(pid_t *pid, uint64_t *random)
{
	const uint64_t r = test_random(random) >> 7;
	const unsigned i = r % READERS;

	if (r >> 8 & 1) {
		kill(pid[i], SIGSTOP);
		test_sleep_us(r >> 10 & 1023);
		kill(pid[i], SIGCONT);
		return;
	}
	kill(pid[i], SIGKILL);
	test_wait(pid[i], 60);
	t->killed++;
	pid[i] = test_fork(be_reader, (void *)(uintptr_t)(r & 0xffff));
}

static void processes(void **state)
{
	const unsigned periods = test_rounds(PERIODS_BETWEEN);
	struct percpu_region *region;
	struct percpu_owners *owners;
	uint64_t random = 17;
	pid_t pid[READERS];
	int e = 0;

	(void)state;
	begin_torture();
	assert_int_equal(percpu_region_open(test_path("torture"), FLAGS, NULL, &region), 0);
	assert_int_equal(percpu_owners_open(region, 0, &owners), 0);
	assert_int_equal(percpu_grace_open(owners, 1, 0, &g), 0);
	for (unsigned i = 0; i < READERS; i++)
		pid[i] = test_fork(be_reader, (void *)(uintptr_t)i);
	await_readers();
	for (unsigned i = 0; i < periods && e == 0; i++) {
		e = replace_by(i % 3);
		if (i % 2 == 0)
			disturb(pid, &random);
	}
	__atomic_store_n(&t->stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < READERS; i++)
		assert_int_equal(test_wait(pid[i], 60), 0);
	assert_int_equal(e, 0);
	assert_right(periods);
	assert_true(t->killed != 0 || periods < 20);
	assert_int_equal(percpu_grace_destroy(g), 0);
	percpu_owners_destroy(owners);
	percpu_region_close(region);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads),
		cmocka_unit_test(processes),
	};

	test_tier();
	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
