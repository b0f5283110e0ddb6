/* SPDX-License-Identifier: MIT */
/*
 * test_pair.c - two words that change together: by each instruction that this CPU has, and under
 * the lock of the journal; by threads, by processes that may only read, and by processes that
 * are killed.
 *
 * The library asks the CPU once for its instructions, so each way is tested in a child.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/gauge.h>
#include <percpu/region.h>

#include "steps.h"
#include "support.h"

#include "memory/memory.h"

#define MASK UINT64_C(0x5bd1e995a5a5a5a5)
#define PLACE 64 /* bytes of the allocation */

static unsigned pretended = ~0U; /* which ways the CPU seems to have */

unsigned __real_percpu_pair_ways(void);
unsigned __wrap_percpu_pair_ways(void);

unsigned __wrap_percpu_pair_ways(void)
{
	return __real_percpu_pair_ways() & pretended;
}

static const unsigned all_ways[] = {
	~0U,
	PERCPU_PAIR_EXCHANGES | PERCPU_PAIR_LOADS,
	PERCPU_PAIR_EXCHANGES | PERCPU_PAIR_CASP,
	PERCPU_PAIR_EXCHANGES,
	0,
};
enum { WAYS = sizeof(all_ways) / sizeof(all_ways[0]) };

static int steps_to_live; /* 0: unlimited */
static const char *at;	  /* the name of the steps that count */
static void (*meanwhile)(void);

void test_step(const char *name)
{
	void (*act)(void) = meanwhile;

	if (steps_to_live != 0 && strncmp(name, at, strlen(at)) == 0 && --steps_to_live == 0) {
		meanwhile = NULL;
		if (act != NULL)
			act();
		else
			raise(SIGKILL);
	}
}

static struct percpu_region *region, *read_region;
static struct percpu_chunk *chunk, *read_chunk;
static size_t offset, bias_lane;

static int start(void **state)
{
	void *cell;

	(void)state;
	pretended = ~0U;
	if (test_region_new(test_path("region"), NULL, &region) != 0 ||
	    percpu_region_alloc(region, PLACE, 64, &cell) != 0)
		return -1;
	chunk = percpu_region_chunk(region, cell);
	offset = (size_t)((char *)cell - chunk->base);
	bias_lane = 2 * (size_t)chunk->cpus;
	if (percpu_region_open(test_path("region"), 0, NULL, &read_region) != 0)
		return -1;
	read_chunk = read_region->first;
	return 0;
}

static int stop(void **state)
{
	(void)state;
	percpu_region_close(read_region);
	percpu_region_close(region);
	return unlink(test_path("region"));
}

static struct percpu_pair_value twins(uint64_t n)
{
	return (struct percpu_pair_value){ n, n ^ MASK };
}

static bool are_twins(struct percpu_pair_value v)
{
	return v.second == (v.first ^ MASK);
}

static struct percpu_pair_value load(struct percpu_chunk *k)
{
	struct percpu_pair_value v = { 0, 0 };

	test_child_require(percpu_pair_load(k, bias_lane, offset, &v) == 0, "load");
	return v;
}

/* Check what each call does, by one way. */

static int load_and_exchange(void *arg)
{
	const size_t lanes[] = { bias_lane, chunk->cpus };
	struct percpu_pair_value e, v;

	pretended = *(const unsigned *)arg;
	for (unsigned i = 0; i < (percpu_pair_is_atomic() ? 2 : 1); i++) {
		test_child_require(percpu_pair_load(chunk, lanes[i], offset, &v) == 0 &&
					   v.first == 0 && v.second == 0,
				   "it begins with zeros");
		e = v;
		test_child_require(percpu_pair_cmpxchg(chunk, lanes[i], offset, &e, twins(5)) == 0,
				   "as expected");
		for (int half = 0; half < 2; half++) {
			e = twins(5);
			*(half ? &e.second : &e.first) += 1;
			test_child_require(percpu_pair_cmpxchg(chunk, lanes[i], offset, &e,
							       twins(6)) == -EAGAIN,
					   "one word is not as expected");
			test_child_require(e.first == 5 && are_twins(e), "what it is");
		}
		test_child_require(percpu_pair_load(read_chunk, lanes[i], offset, &v) == 0 &&
					   v.first == 5 && are_twins(v),
				   "what a reader finds");
		test_child_require(percpu_pair_load(chunk, lanes[i], offset, &v) == 0 &&
					   v.first == 5 && are_twins(v),
				   "what is there");
	}
	return 0;
}

static void both_words_or_none(void **state)
{
	(void)state;
	for (size_t i = 0; i < WAYS; i++) {
		unsigned mask = all_ways[i];

		test_in_child(load_and_exchange, &mask);
		percpu_chunk_clear(chunk, offset, PLACE, PLACE);
		memset(percpu_chunk_lane(chunk, chunk->cpus, offset), 0, PLACE);
	}
}

/* Threads change a pair, and others read it. */

enum { WRITERS = 2, READERS = 2 };
static unsigned rounds, writing, torn;

static void take_part(unsigned i, void *arg)
{
	struct percpu_chunk *k = i % 2 ? chunk : read_chunk;
	struct percpu_pair_value v = { 0, 0 };

	(void)arg;
	if (i < WRITERS) {
		for (unsigned n = 0; n < rounds; n++) {
			struct percpu_pair_value next;

			do {
				next.first = v.first + 1;
				next.second = v.second + MASK;
			} while (percpu_pair_cmpxchg(chunk, bias_lane, offset, &v, next) != 0);
		}
		__atomic_fetch_sub(&writing, 1, __ATOMIC_RELEASE);
		return;
	}
	while (__atomic_load_n(&writing, __ATOMIC_ACQUIRE) != 0)
		if (percpu_pair_load(k, bias_lane, offset, &v) != 0 || v.second != v.first * MASK)
			__atomic_fetch_add(&torn, 1, __ATOMIC_RELAXED);
}

static int change_and_read(void *arg)
{
	pretended = *(const unsigned *)arg;
	rounds = test_rounds(percpu_pair_is_atomic() ? 100000 : 2000);
	writing = WRITERS;
	test_team_run(WRITERS + READERS, take_part, NULL);
	test_child_require(torn == 0, "nobody found one word changed");
	test_child_require(load(chunk).first == (uint64_t)WRITERS * rounds, "no change is lost");
	return 0;
}

static void threads_lose_and_tear_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < WAYS; i++) {
		unsigned mask = all_ways[i];

		test_in_child(change_and_read, &mask);
		percpu_chunk_clear(chunk, offset, PLACE, PLACE);
	}
}

/* The pair changes before each instruction of a load. */

#define NO_PTRACE 77

static int load_step_by_step(void *arg)
{
	struct percpu_pair_value a, b;

	(void)arg;
	(void)load(chunk); /* the first load asks the CPU for its ways */
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0)
		return NO_PTRACE;
	a = load(chunk);
	b = __wrap_percpu_pair_ways() & PERCPU_PAIR_LOADS ? load(read_chunk) : a;
	test_child_require(a.first != 0 && are_twins(a), "what may be written");
	test_child_require(b.first != 0 && are_twins(b), "what may only be read");
	return 0;
}

/* Return whether a load can be stepped through. A single step breaks an exclusive load, and the
 * journal excludes other threads by its lock. */
static bool single_steps_get_through(void)
{
	const unsigned ways = __wrap_percpu_pair_ways();

#ifdef __aarch64__
	if (!(ways & (PERCPU_PAIR_LOADS | PERCPU_PAIR_CASP)))
		return false;
#endif
	return ways & PERCPU_PAIR_EXCHANGES;
}

static void loads_are_whole(void **state)
{
	struct percpu_pair_value *pair =
		(struct percpu_pair_value *)percpu_chunk_lane(chunk, bias_lane, offset);
	uint64_t n = 0;

	(void)state;
	for (size_t i = 0; i < WAYS; i++) {
		int status;
		pid_t pid;

		pretended = all_ways[i];
		if (!single_steps_get_through())
			continue;
		pid = test_fork(load_step_by_step, NULL);
		assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
		while (WIFSTOPPED(status)) {
			*pair = twins(++n);
			if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0)
				kill(pid, SIGKILL);
			assert_int_equal(waitpid(pid, &status, 0), pid);
		}
		if (WIFEXITED(status) && WEXITSTATUS(status) == NO_PTRACE)
			test_skip("no thread is stepped here: ptrace() is refused");
		assert_int_equal(status, 0);
	}
}

/* Without such an instruction, a process is killed at each step of a change. */

static int change_once(void *arg)
{
	struct percpu_pair_value v;

	pretended = 0;
	at = "journal";
	steps_to_live = *(int *)arg;
	v = load(chunk);
	test_child_require(percpu_pair_cmpxchg(chunk, bias_lane, offset, &v, twins(v.first + 1)) ==
				   0,
			   "change");
	return 0;
}

static uint64_t *seen; /* shared */

static int look(void *arg)
{
	struct percpu_chunk *k = arg;
	struct percpu_pair_value v;

	pretended = 0;
	v = load(k);
	test_child_require(are_twins(v) || (v.first == 0 && v.second == 0), "whole");
	*seen = v.first;
	return 0;
}

static void killed_changes_are_there_or_not(void **state)
{
	int n, killed = SIGKILL, done = 0;
	uint64_t value = 0, was;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("no get_robust_list()");
	seen = test_share(sizeof(*seen));
	for (n = 1; killed == SIGKILL; n++) {
		killed = test_wait(test_fork(change_once, &n), 60);
		assert_true(killed == SIGKILL || killed == 0);
		was = value;
		/* First look by a region that is open to read, where the change cannot be
		 * completed. */
		test_in_child(look, read_chunk);
		value = *seen;
		assert_true(value - was <= 1);
		done += value != was;
		test_in_child(look, chunk);
		assert_int_equal(*seen, value);
	}
	assert_int_equal(n, 2 + 2 + 2); /* two words written, two stored, and the last run */
	assert_int_equal(done, 3);	/* after the commit, and the last run */
}

/* A reader looks while the words are being stored, and while they change again. */

static struct percpu_robust held;

static void begin_change(void)
{
	const uint64_t words[2] = { 7, 7 ^ MASK };

	test_child_require(percpu_journal_lock(chunk, &held) == 0, "lock");
	percpu_journal_set(chunk, offset, words, 2);
	percpu_robust_unlock(&held);
}

static int read_between(void *arg)
{
	struct percpu_pair_value v;

	(void)arg;
	pretended = 0;
	at = "journal: read";
	steps_to_live = 1;
	meanwhile = begin_change;
	v = load(read_chunk);
	test_child_require(v.first == 7 && are_twins(v), "the new pair");
	return 0;
}

static void reader_looks_again(void **state)
{
	(void)state;
	test_in_child(read_between, NULL);
}

/* A damaged journal changes what a reader finds, and nothing else. */
static int read_crafted(void *arg)
{
	static const uint64_t edges[] = {
		0, 1, 7, 8, 65528, 65536, 1ULL << 40, UINT64_MAX, UINT64_MAX - 7, INT64_MAX
	};
	struct percpu_journal *j = &chunk->header->journal;

	(void)arg;
	pretended = 0;
	j->turn = 1;
	for (size_t o = 0; o < 10; o++)
		for (size_t w = 0; w < 10; w++) {
			j->offset = offset + edges[o];
			j->words = edges[w];
			(void)load(read_chunk);
		}
	return 0;
}

static void crafted_journals_do_not_crash(void **state)
{
	(void)state;
	test_in_child(read_crafted, NULL);
}

/* While a stopped process holds the lock for too long, setting a gauge fails with an error. */

static int denied; /* an error of the journal's lock, returned once */

int __real_percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h);
int __wrap_percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h);
int __wrap_percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h)
{
	const int e = __atomic_exchange_n(&denied, 0, __ATOMIC_RELAXED); /* to any thread */

	return e != 0 ? e : __real_percpu_journal_lock(k, h);
}

static void deny(void)
{
	denied = -ETIMEDOUT;
}

static struct percpu_gauge *gauge;
static struct percpu_fgauge *fgauge;
static struct percpu_latest *latest;

static void create_gauges_of_five(void)
{
	test_child_require(percpu_gauge_create(&gauge) == 0, "a gauge");
	test_child_require(percpu_fgauge_create(&fgauge) == 0, "a gauge of doubles");
	test_child_require(percpu_latest_create(&latest) == 0, "a latest value");
	test_child_require(percpu_gauge_set(gauge, 5) == 0, "set");
	test_child_require(percpu_fgauge_set(fgauge, 5) == 0, "set");
	test_child_require(percpu_latest_set(latest, 5) == 0, "set");
}

static void require_values(double v)
{
	double value = 0;

	test_child_require(percpu_gauge_fetch(gauge) == v, "a gauge");
	test_child_require(percpu_fgauge_fetch(fgauge) == v, "a gauge of doubles");
	test_child_require(percpu_latest_fetch(latest, &value, NULL) == 0, "a latest value");
	test_child_require(value == v, "a latest value");
}

static int set_what_is_locked(void *arg)
{
	static const char *const steps[] = { "double: to be proposed", "double: proposed",
					     "lanes summed" };

	(void)arg;
	pretended = 0;
	create_gauges_of_five();
	for (int i = 0; i < 3; i++) {
		at = steps[i];
		steps_to_live = 1;
		meanwhile = deny;
		test_child_require(percpu_fgauge_set(fgauge, 7) == -ETIMEDOUT, steps[i]);
		test_child_require(meanwhile == NULL && denied == 0, "when the lock was denied");
		require_values(5);
	}
	deny();
	test_child_require(percpu_gauge_set(gauge, 7) == -ETIMEDOUT, "a gauge");
	deny();
	test_child_require(percpu_latest_set(latest, 7) == -ETIMEDOUT, "a latest value");
	require_values(5);
	test_child_require(percpu_gauge_set(gauge, 8) == 0, "a gauge");
	test_child_require(percpu_fgauge_set(fgauge, 8) == 0, "a gauge of doubles");
	test_child_require(percpu_latest_set(latest, 8) == 0, "a latest value");
	require_values(8);
	return 0;
}

static void who_gets_no_lock_has_set_nothing(void **state)
{
	(void)state;
	test_in_child(set_what_is_locked, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(both_words_or_none, start, stop),
		cmocka_unit_test_setup_teardown(threads_lose_and_tear_nothing, start, stop),
		cmocka_unit_test_setup_teardown(loads_are_whole, start, stop),
		cmocka_unit_test_setup_teardown(killed_changes_are_there_or_not, start, stop),
		cmocka_unit_test_setup_teardown(reader_looks_again, start, stop),
		cmocka_unit_test_setup_teardown(crafted_journals_do_not_crash, start, stop),
		cmocka_unit_test(who_gets_no_lock_has_set_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
