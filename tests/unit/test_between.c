/* SPDX-License-Identifier: MIT */
/*
 * test_between.c - what another thread may do between a look and the store that
 * relies on it. Here the same thread does it, at the step between the two.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/freebsd.h>
#include <percpu/local.h>
#include <percpu/variable.h>

#include "../steps.h"

#include "objects/objects.h"
#include "zone.h"

#define MANY 200 /* items, more than a CPU's cache holds */

static const char *at_step; /* where it happens, NULL: nowhere */
static void (*happens)(void);
static unsigned times;

void test_step(const char *name)
{
	const char *const here = at_step;

	if (here == NULL || strcmp(name, here) != 0)
		return;
	at_step = NULL; /* not in what happens */
	happens();
	if (--times != 0)
		at_step = here;
}

static void let_happen(void (*fn)(void), const char *step, unsigned n)
{
	happens = fn;
	times = n;
	at_step = step;
}

/* Zones */

static struct percpu_zone *zone;
static void *items[MANY];

static void take_another(void)
{
	items[1] = take(zone, 0);
}

static void a_limit_holds_for_two_at_once(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .limit = 1 };

	(void)state;
	zone = make(8, &o);
	let_happen(take_another, "zone: limit read", 1);
	assert_int_equal(percpu_zone_alloc(zone, 0, &items[0]), -ENOSPC);
	assert_int_equal(times, 0);
	assert_int_equal(stats_of(zone).used, 1);
	assert_int_equal(percpu_zone_free(zone, items[1]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
}

static void lower_limit(void)
{
	percpu_zone_set_limit(zone, 1);
}

static void nothing_is_kept_above_a_lowered_limit(void **state)
{
	(void)state;
	zone = make(8, NULL);
	for (unsigned i = 0; i < MANY; i++)
		items[i] = take(zone, 0);
	let_happen(lower_limit, "zone: to be put away", 1);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
	assert_int_equal(times, 0);
	assert_in_range(stats_of(zone).cached, 0, 1);
	assert_int_equal(percpu_zone_destroy(zone), 0);
}

static void free_half(void)
{
	for (unsigned i = MANY / 2; i < MANY; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
}

static void take_half(void)
{
	for (unsigned i = MANY / 2; i < MANY; i++)
		items[i] = take(zone, 0);
}

static void expect_all_distinct(void)
{
	for (unsigned i = 0; i < MANY; i++)
		for (unsigned j = 0; j < i; j++)
			assert_ptr_not_equal(items[i], items[j]);
}

/* Half of the items are freed, and taken, while others are on their way. */
static void shelves_are_for_one_at_a_time(void **state)
{
	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	zone = make(8, NULL);
	for (unsigned i = 0; i < MANY; i++)
		items[i] = take(zone, 0);
	let_happen(free_half, "depot: items put", 1);
	for (unsigned i = 0; i < MANY / 2; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
	assert_int_equal(times, 0);
	for (unsigned i = 0; i < MANY; i++)
		items[i] = take(zone, 0);
	expect_all_distinct();
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
	let_happen(take_half, "depot: items taken", 1);
	for (unsigned i = 0; i < MANY / 2; i++)
		items[i] = take(zone, 0);
	assert_int_equal(times, 0);
	expect_all_distinct();
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
	test_unpin(0);
}

#define PAGES 8

static void free_pages(void)
{
	for (unsigned i = 0; i < PAGES; i++)
		test_child_require(percpu_zone_free(zone, items[i]) == 0, "free");
}

/* The pages of what is freed meanwhile are given back, and zeros then. */
static int free_while_reclaiming(void *arg)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };

	(void)arg;
	test_child_require(percpu_zone_create("test", 4096, &o, &zone) == 0, "create");
	for (unsigned i = 0; i < PAGES; i++)
		test_child_require(percpu_zone_alloc(zone, 0, &items[i]) == 0, "alloc");
	let_happen(free_pages, "zone: poison forgotten", 1);
	test_child_require(percpu_zone_reclaim(zone) > 0 && times == 0, "gives pages back");
	for (unsigned i = 0; i < PAGES; i++)
		test_child_require(percpu_zone_alloc(zone, 0, &items[i]) == 0, "alloc again");
	return 0;
}

static void poison_may_go_with_its_page(void **state)
{
	(void)state;
	test_in_child(free_while_reclaiming, NULL);
}

/* Forks */

static int (*in_child)(void);
static pthread_t forker;
static pid_t forked; /* atomic */

static void *fork_now(void *arg)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(in_child());
	__atomic_store_n(&forked, pid, __ATOMIC_SEQ_CST);
	return arg;
}

/* A fork that waits for this thread goes on when it has gone on. */
static void fork_meanwhile(void)
{
	if (pthread_create(&forker, NULL, fork_now, NULL) != 0)
		abort();
	for (int i = 0; i < 100 && __atomic_load_n(&forked, __ATOMIC_SEQ_CST) == 0; i++)
		test_sleep_us(500);
}

static void let_fork(int (*fn)(void), const char *step)
{
	in_child = fn;
	forked = 0;
	let_happen(fork_meanwhile, step, 1);
}

static void expect_child(void)
{
	assert_int_equal(times, 0);
	pthread_join(forker, NULL);
	assert_true(forked > 0);
	assert_int_equal(test_wait(forked, 10), 0);
}

static int make_counter(void)
{
	struct percpu_counter *c;

	return percpu_counter_create(&c) != 0;
}

static const char initial[64] = { 1 };
static struct percpu_image image = { initial, initial + sizeof(initial), 0, 0, NULL, 0 };

static int have_copies(void)
{
	return percpu_image_setup(&image) != 0;
}

/* Who finds copies finds where they are. */

static struct percpu_image found = { initial, initial + sizeof(initial), 0, 0, NULL, 0 };

static bool found_too_soon;

static void find_copies(void)
{
	found_too_soon =
		__atomic_load_n(&found.stride, __ATOMIC_ACQUIRE) != 0 && found.distance == 0;
}

static void copies_are_found_when_complete(void **state)
{
	(void)state;
	let_happen(find_copies, "variable: to be found", 1);
	assert_int_equal(percpu_image_setup(&found), 0);
	assert_int_equal(times, 0);
	assert_false(found_too_soon);
	assert_true(found.stride != 0);
}

static int free_second(void)
{
	return percpu_zone_free(zone, items[1]) != 0;
}

static int empty_shelves(void)
{
	(void)percpu_zone_reclaim(zone);
	return 0;
}

/* In the child, which lacks all other threads, no lock is held. */
static void forks_wait_for_locks(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	struct percpu_counter *c;
	int cancel;

	(void)state;
	assert_int_equal(percpu_counter_create(&c), 0);
	let_fork(make_counter, "region: units freed");
	percpu_counter_destroy(c);
	expect_child();

	let_fork(have_copies, "variable: to be copied");
	assert_int_equal(percpu_image_setup(&image), 0);
	assert_int_equal(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel), 0);
	assert_int_equal(cancel, PTHREAD_CANCEL_ENABLE);
	expect_child();

	zone = make(8, &o);
	items[0] = take(zone, 0);
	items[1] = take(zone, 0);
	let_fork(free_second, "zone: item checked");
	assert_int_equal(percpu_zone_free(zone, items[0]), 0);
	expect_child();
	assert_int_equal(percpu_zone_free(zone, items[1]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);

	zone = make(8, NULL);
	for (unsigned i = 0; i < MANY; i++)
		items[i] = take(zone, 0);
	for (unsigned i = 1; i < MANY; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
	let_fork(empty_shelves, "depot: items taken");
	assert_int_equal(percpu_zone_free(zone, items[0]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
	expect_child();
}

/* The guard of FreeBSD's zones: who comes second gives back what it has made. */

static void create_first(void)
{
	uma_zdestroy(uma_zcreate("first", 8, NULL, NULL, NULL, NULL, UMA_ALIGN_PTR, UMA_ZONE_PCPU));
}

static unsigned cells_in_use(void)
{
	struct percpu_region *r;
	unsigned n = 0;

	assert_int_equal(percpu_region_default(&r), 0);
	for (uint32_t i = 0; i < r->n; i++)
		for (size_t w = 0; w < PERCPU_UNITS / 64; w++)
			n += (unsigned)__builtin_popcountll(r->chunks->at[i]->header->used[w]);
	return n;
}

static void second_guards_are_given_back(void **state)
{
	unsigned before = cells_in_use();

	(void)state;
	let_happen(create_first, "uma: guard made", 1);
	uma_zdestroy(
		uma_zcreate("second", 8, NULL, NULL, NULL, NULL, UMA_ALIGN_PTR, UMA_ZONE_PCPU));
	assert_int_equal(times, 0);
	assert_int_equal(cells_in_use(), before + 1);
}

/* Reclaiming */

static struct percpu_region *reclaimed;
static struct test_team allocating;
static uint64_t *allocated;

static void allocate(unsigned i, void *arg)
{
	void *cell;

	(void)i;
	(void)arg;
	if (percpu_region_alloc(reclaimed, 8, 8, &cell) == 0) {
		allocated = cell;
		*allocated = 5;
	}
}

static void let_allocate(void)
{
	test_team_start(&allocating, 1, allocate, NULL);
	test_sleep_us(20000);
}

/* Who allocates while free cells are given back waits until they are. */
static void reclaimed_cells_are_free(void **state)
{
	(void)state;
	assert_int_equal(percpu_region_create(NULL, &reclaimed), 0);
	let_happen(let_allocate, "region: free cells found", 1);
	assert_int_not_equal(percpu_region_reclaim(reclaimed), 0);
	assert_int_equal(times, 0);
	test_team_join(&allocating);
	assert_non_null(allocated);
	assert_int_equal(*allocated, 5);
	percpu_region_close(reclaimed);
}

/* Words */

static struct percpu_local *word;

static void add_five(void)
{
	int64_t sum;

	assert_int_equal(percpu_local_add_return(word, 5, &sum), 0);
}

/* A thread without sequences, on a CPU that it does not leave. */
static void fallbacks_lose_no_add(void **state)
{
	int64_t sum;

	(void)state;
	assert_int_equal(percpu_local_create(8, PERCPU_LOCAL_REFS, &word), 0);
	test_unregister(percpu_seq_attach());
	assert_true(test_pin(0, test_cpu(0)));
	let_happen(add_five, "local: word loaded", 1);
	assert_int_equal(percpu_local_add_limit(word, 1, 10, &sum), 0);
	assert_int_equal(times, 0);
	assert_int_equal(sum, 6);
	assert_int_equal(percpu_local_sum(word), 6);
	let_happen(add_five, "local: word loaded", 1);
	assert_int_equal(percpu_local_add_limit(word, 1, 10, &sum), -ERANGE);
	assert_int_equal(sum, 12);
	assert_int_equal(percpu_local_sum(word), 11);
	test_unpin(0);
	percpu_local_destroy(word);
}

/* Rates */

static struct counter_rate *rate;

static void count_one(void)
{
	assert_true(counter_ratecheck(rate, 100) >= 0);
}

static void a_period_begins_once(void **state)
{
	(void)state;
	rate = counter_rate_alloc(M_WAITOK, 60);
	rate->cr_ticks -= 100000;
	let_happen(count_one, "rate: period read", 1);
	count_one();
	assert_int_equal(times, 0);
	assert_int_equal(counter_rate_get(rate), 2);
	counter_rate_free(rate);
}

/* Visits */

static unsigned calls[PERCPU_MAX_CPUS], elsewhere, open_to_signals;

static void go_elsewhere(void)
{
	(void)test_pin(0, test_cpu(1));
}

static void count_call(void *cell, unsigned cpu, void *arg)
{
	sigset_t blocked;

	(void)arg;
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	open_to_signals += sigismember(&blocked, SIGTERM) == 0;
	calls[cpu]++;
	elsewhere += sched_getcpu() != (int)cpu || cell != percpu_zone_get(items[0], cpu);
}

/* A visitor that somebody moves is sent again. */
static void moved_visitors_come_back(void **state)
{
	struct percpu_fence_report r;

	(void)state;
	if (test_cpus() < 2)
		test_skip("needs two CPUs");
	zone = make(8, NULL);
	items[0] = take(zone, 0);
	let_happen(go_elsewhere, "visit: asked", 4);
	assert_int_equal(
		percpu_zone_run(zone, items[0], count_call, NULL, UINT64_C(20000000000), &r), 0);
	at_step = NULL;
	assert_true(times < 4); /* two before it is asked for a CPU at all, perhaps */
	assert_int_equal(elsewhere, 0);
	assert_int_equal(open_to_signals, 0);
	for (unsigned i = 0; i < test_cpus(); i++)
		assert_int_equal(calls[test_cpu(i)], 1);
	assert_int_equal(percpu_zone_free(zone, items[0]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
}

static struct {
	unsigned calls[PERCPU_MAX_CPUS];
	unsigned moved; /* in a call */
} slow;

static void dawdle(void *cell, unsigned cpu, void *arg)
{
	(void)cell;
	(void)arg;
	slow.calls[cpu]++;
	test_sleep_us(5000);
	slow.moved += sched_getcpu() != (int)cpu;
}

static uint64_t seed = 1;

static void be_late(void)
{
	test_sleep_us((unsigned)(test_random(&seed) % 4000));
}

/* A visitor is late wherever it can be: what is reported is what happened. */
static void late_visits_are_none(void **state)
{
	struct percpu_fence_report r;
	uint64_t ran;
	unsigned late = 0;
	int e;

	(void)state;
	zone = make(8, NULL);
	items[0] = take(zone, 0);
	for (unsigned i = 0; i < 100; i++) {
		memset(&slow, 0, sizeof(slow));
		let_happen(be_late, "visit: there", 1000);
		e = percpu_zone_run(zone, items[0], dawdle, NULL, 1000000 + i * 100000, &r);
		at_step = NULL;
		assert_true(e == 0 || e == -ETIMEDOUT);
		late += e != 0;
		for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++) {
			ran = !(r.unfenced_cpus[cpu / 64] >> cpu % 64 & 1);
			assert_int_equal(slow.calls[cpu], ran);
		}
		assert_int_equal(slow.moved, 0);
	}
	assert_true(late > 0);
	assert_int_equal(percpu_zone_free(zone, items[0]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
}

/* The self-test */

static void go_to_other(void)
{
	(void)test_pin(0, test_cpu(sched_getcpu() == (int)test_cpu(0) ? 1 : 0));
}

/* Threads that somebody moves are side by side: that is no preemption. */
static void moved_threads_condemn_nobody(void **state)
{
	static const char *const steps[] = { "selftest: spinner in place",
					     "selftest: intruder to sleep" };

	(void)state;
	if (test_cpus() < 2)
		test_skip("needs two CPUs");
	for (unsigned i = 0; i < 2; i++) {
		let_happen(go_to_other, steps[i], 1000000);
		assert_int_not_equal(percpu_selftest(), PERCPU_SELFTEST_FAILED);
		at_step = NULL;
		assert_true(times < 1000000 || test_tier() != PERCPU_TIER_RSEQ);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_are_found_when_complete),
		cmocka_unit_test(a_limit_holds_for_two_at_once),
		cmocka_unit_test(nothing_is_kept_above_a_lowered_limit),
		cmocka_unit_test(shelves_are_for_one_at_a_time),
		cmocka_unit_test(poison_may_go_with_its_page),
		cmocka_unit_test(second_guards_are_given_back),
		cmocka_unit_test(reclaimed_cells_are_free),
		cmocka_unit_test(a_period_begins_once),
		cmocka_unit_test(moved_visitors_come_back),
		cmocka_unit_test(late_visits_are_none),
		cmocka_unit_test(moved_threads_condemn_nobody),
		cmocka_unit_test(forks_wait_for_locks),
		cmocka_unit_test(fallbacks_lose_no_add), /* last: no sequences from then on */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
