/* SPDX-License-Identifier: MIT */
/*
 * test_memory_steps.c - what another thread may do between a load and the store that relies on
 * it. Here the same thread does it, at the step between the two. Zones and visits:
 * test_zone_steps.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <percpu/freebsd.h>
#include <percpu/local.h>
#include <percpu/variable.h>

#include "steps.h"

#include "memory/memory.h"
#include "../happen.h"
#include "../zone.h"

/* Forks. */

#define MANY 200 /* items, more than a CPU's cache holds */

static struct percpu_zone *zone;
static void *items[MANY];

static int (*in_child)(void);
static pthread_t forker;
static pid_t forked; /* atomic */
static bool forked_amid;

static void *fork_now(void *arg)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(in_child());
	__atomic_store_n(&forked, pid, __ATOMIC_SEQ_CST);
	return arg;
}

/* Fork in another thread. If the fork waits for this thread, it continues after this thread
 * does. */
static void fork_meanwhile(void)
{
	if (pthread_create(&forker, NULL, fork_now, NULL) != 0)
		abort();
	for (int i = 0; i < 100 && __atomic_load_n(&forked, __ATOMIC_SEQ_CST) == 0; i++)
		test_sleep_us(500);
	forked_amid = __atomic_load_n(&forked, __ATOMIC_SEQ_CST) != 0;
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
	assert_false(forked_amid);
	pthread_join(forker, NULL);
	assert_true(forked > 0);
	assert_int_equal(test_wait(forked, 60), 0);
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

/* When another thread sees that there are copies, it can find them. */

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

/* Two threads are first at once: both get the copies of one of them. */

static struct percpu_image twice = { initial, initial + sizeof(initial), 0, 0, NULL, 0 };
static const struct percpu_chunk *copies_there;

static void set_up_first(void)
{
	assert_int_equal(percpu_image_setup(&twice), 0);
	copies_there = twice.chunk;
}

static void copies_are_made_once(void **state)
{
	(void)state;
	let_happen(set_up_first, "variable: to be set up", 1);
	assert_int_equal(percpu_image_setup(&twice), 0);
	assert_int_equal(times, 0);
	assert_non_null(copies_there);
	assert_ptr_equal(twice.chunk, copies_there);
}

/* Another first thread had no memory: all threads get that error. */

static uint64_t uncopied[8];
static struct percpu_image failed = { (char *)uncopied, (char *)(uncopied + 8), 0, 0, NULL, 0 };

static void fail_first(void)
{
	__atomic_store_n(&failed.error, -ENOMEM, __ATOMIC_RELEASE);
}

static void copies_that_failed_are_not_made(void **state)
{
	(void)state;
	let_happen(fail_first, "variable: to be set up", 1);
	assert_int_equal(percpu_image_setup(&failed), -ENOMEM);
	assert_int_equal(times, 0);
	assert_int_equal(failed.stride, 0);
	assert_int_equal(percpu_image_setup(&failed), -ENOMEM);
	percpu_variable_add_slow(&failed, &uncopied[3], 5);
	assert_int_equal(uncopied[3], 5);
	assert_int_equal(percpu_variable_sum(&failed, &uncopied[3]), 5);
	assert_ptr_equal(percpu_variable_at(&failed, &uncopied[3], 1), &uncopied[3]);
}

static unsigned unmapped; /* chunks */

/* Replace the library's function, by the linker's --wrap. */
void __real_percpu_chunk_unmap(struct percpu_chunk *k);
void __wrap_percpu_chunk_unmap(struct percpu_chunk *k);
void __wrap_percpu_chunk_unmap(struct percpu_chunk *k)
{
	unmapped++;
	__real_percpu_chunk_unmap(k);
}

static struct percpu_region *region_there;

static void make_default(void)
{
	assert_int_equal(percpu_region_default(&region_there), 0);
}

/* Must be the first test: there is no default region yet. */
static void the_default_region_is_one(void **state)
{
	struct percpu_region *r;

	(void)state;
	let_happen(make_default, "region: default made", 1);
	assert_int_equal(percpu_region_default(&r), 0);
	assert_int_equal(times, 0);
	assert_ptr_equal(r, region_there);
	assert_int_equal(unmapped, 1); /* the one that this thread made */
}

/* A call that makes the default region changes no signal mask, even if another thread is first. */

static void block_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
}

static int make_default_region(void *arg)
{
	struct percpu_region *r;
	sigset_t blocked;

	(void)arg;
	let_happen(block_signals, "region: default made", 1);
	test_child_require(percpu_region_default(&r) == 0 && times == 0, "a region");
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	test_child_require(sigismember(&blocked, SIGUSR1) == 1, "signals stay blocked");
	return 0;
}

/* In a child, before this process has that region. */
static void the_default_region_changes_no_signals(void **state)
{
	(void)state;
	test_in_child(make_default_region, NULL);
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

/* In the child, which lacks all other threads, no lock is held, and nothing is half done. */
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
	assert_int_equal(percpu_zone_free(zone, items[0]), 0);
	let_fork(empty_shelves, "depot: items taken");
	(void)percpu_zone_reclaim(zone);
	expect_child();
	assert_int_equal(percpu_zone_destroy(zone), 0);
}

/* The guard of FreeBSD's zones: of two threads that make it, the second one frees its own. */

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
	let_happen(create_first, "section: guard made", 1);
	uma_zdestroy(
		uma_zcreate("second", 8, NULL, NULL, NULL, NULL, UMA_ALIGN_PTR, UMA_ZONE_PCPU));
	assert_int_equal(times, 0);
	assert_int_equal(cells_in_use(), before + 2); /* the guard has two words */
}

/* Growth. */

static struct percpu_region *growing;
static unsigned recovered[4]; /* how often the journal of each chunk was recovered */
static bool astray;	      /* a call for a chunk that does not exist */

/* Replace the library's function, by the linker's --wrap. */
int __real_percpu_journal_recover(struct percpu_chunk *k, uint64_t timeout_ns);
int __wrap_percpu_journal_recover(struct percpu_chunk *k, uint64_t timeout_ns);
int __wrap_percpu_journal_recover(struct percpu_chunk *k, uint64_t timeout_ns)
{
	if (growing == NULL)
		return __real_percpu_journal_recover(k, timeout_ns);
	astray |= k == NULL;
	if (k == NULL || k->region != growing)
		return 0;
	recovered[k->index]++;
	return __real_percpu_journal_recover(k, timeout_ns);
}

static void *allocate_chunk(void)
{
	void *cell;

	assert_int_equal(percpu_region_alloc(growing, PERCPU_LANE_SIZE / 2, 8, &cell), 0);
	return cell;
}

static void grow_meanwhile(void)
{
	const uint32_t n = growing->n;

	while (growing->n == n)
		(void)allocate_chunk();
	memset(recovered, 0, sizeof(recovered));
}

/* The table of chunks is full, and a new one replaces it while a thread walks the old one. */
static void growth_leads_nobody_astray(void **state)
{
	struct percpu_region *r;

	(void)state;
	for (uint32_t n = 1; n <= 2; n++) {
		assert_int_equal(percpu_region_create(NULL, &r), 0);
		growing = r;
		while (r->n < n)
			(void)allocate_chunk();
		assert_int_equal(r->chunks->size, n);
		astray = false;
		let_happen(grow_meanwhile, "region: chunks counted", 1);
		(void)allocate_chunk();
		assert_int_equal(times, 0);
		assert_int_equal(r->n, n + 1);
		assert_false(astray);
		for (uint32_t i = 0; i <= n; i++)
			assert_int_equal(recovered[i], i < n);
		growing = NULL;
		percpu_region_close(r);
	}
}

static void grow_twice(void)
{
	while (growing->n < 3)
		(void)allocate_chunk();
}

static int look_while_it_grows(void *arg)
{
	struct percpu_region *r = NULL;

	(void)arg;
	test_child_require(percpu_region_create(NULL, &r) == 0 && r->n == 1, "region");
	growing = r;
	let_happen(grow_twice, "region: chunks to be searched", 1);
	test_child_require(!percpu_region_maps(r, &r), "not there");
	test_child_require(times == 0 && r->n == 3, "grown");
	return percpu_region_maps(r, r->chunks->at[2]->base) ? 0 : 1;
}

/* The handler of SIGSEGV looks for an address while another thread makes chunks. */
static void growth_confuses_no_search(void **state)
{
	(void)state;
	test_in_child(look_while_it_grows, NULL);
}

/* Reclaiming. */

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

/* A thread that allocates while free cells are given back waits for the end of that. */
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

/* Words. */

static struct percpu_local *word;

static void add_five(void)
{
	int64_t sum;

	assert_int_equal(percpu_local_add_return(word, 5, &sum), 0);
}

/* A thread without sequences adds, on a CPU that it does not leave. */
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

/* Rates. */

static struct counter_rate *rate;

static void count_one(void)
{
	assert_true(counter_ratecheck(rate, 100) >= 0);
}

static void a_period_begins_once(void **state)
{
	(void)state;
	rate = counter_rate_alloc(M_WAITOK, 60);
	rate->cr_ticks -= INT64_C(100000) << 32;
	let_happen(count_one, "rate: clock read", 1);
	count_one();
	assert_int_equal(times, 0);
	assert_int_equal(counter_rate_get(rate), 2);
	counter_rate_free(rate);
}

/* The self-test. */

int __real_getrusage(int whose, struct rusage *ret);
int __wrap_getrusage(int whose, struct rusage *ret);

/* Report no preemption, also if other processes run on this machine. */
int __wrap_getrusage(int whose, struct rusage *ret)
{
	const int e = __real_getrusage(whose, ret);

	ret->ru_nivcsw = 0;
	return e;
}

static void go_to_other(void)
{
	(void)test_pin(0, test_cpu(sched_getcpu() == (int)test_cpu(0) ? 1 : 0));
}

/* Threads that are moved run side by side, which is no preemption. */
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
		cmocka_unit_test(the_default_region_changes_no_signals),
		cmocka_unit_test(the_default_region_is_one),
		cmocka_unit_test(copies_are_found_when_complete),
		cmocka_unit_test(copies_are_made_once),
		cmocka_unit_test(copies_that_failed_are_not_made),
		cmocka_unit_test(second_guards_are_given_back),
		cmocka_unit_test(growth_leads_nobody_astray),
		cmocka_unit_test(growth_confuses_no_search),
		cmocka_unit_test(reclaimed_cells_are_free),
		cmocka_unit_test(a_period_begins_once),
		cmocka_unit_test(moved_threads_condemn_nobody),
		cmocka_unit_test(forks_wait_for_locks),
		cmocka_unit_test(fallbacks_lose_no_add), /* last: no sequences from then on */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
