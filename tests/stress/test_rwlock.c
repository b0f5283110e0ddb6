/* SPDX-License-Identifier: MIT */
/*
 * test_rwlock.c - readers and writers of a read-mostly lock: threads with and without sequences
 * that move from CPU to CPU, and processes that are killed at any instruction. No reader sees half
 * of a write, unless the lock says that its writer died.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/rwlock.h>
#include <percpu/seq.h>

#include "../model.h"
#include "../support.h"

#include "cpu/cpu.h"

#define KILLS 25
#define FEWEST 10 /* writes; each write visits all CPUs */
#define WORKERS 3
#define WRITES 300

/* The lock protects the words, which are equal outside of a write. One thread writes at a time. */
struct words {
	uint64_t first, second;
	uint64_t broken; /* atomic */
	uint64_t repairs;
};

static struct percpu_rwlock *l;
static struct words *words;

static void complain_unless(bool ok)
{
	if (!ok)
		__atomic_fetch_add(&words->broken, 1, __ATOMIC_RELAXED);
}

static void read_words(void)
{
	complain_unless(words->first == words->second);
	if (words->first % 16 == 0)
		sched_yield(); /* perhaps to another CPU */
	complain_unless(words->first == words->second);
}

static void write_words(void)
{
	words->first++;
	if (words->first % 8 == 0)
		sched_yield();
	words->second++;
}

static void read_or_write(unsigned i, void *arg)
{
	struct percpu_rseq without = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *own = percpu_seq_attach();
	uint64_t *stop = arg;

	if (i == 0) {
		for (unsigned n = 0; n < test_rounds(WRITES); n++) {
			complain_unless(percpu_rwlock_write_lock(l) == 0);
			write_words();
			complain_unless(percpu_rwlock_write_unlock(l) == 0);
		}
		__atomic_store_n(stop, 1, __ATOMIC_RELAXED);
		return;
	}
	for (unsigned n = 0; __atomic_load_n(stop, __ATOMIC_RELAXED) == 0; n++) {
		if (i == 2)
			model_set_area(&without);
		complain_unless(percpu_rwlock_read_lock(l) == 0);
		model_set_area(own);
		read_words();
		if (i == 3)
			model_set_area(&without);
		complain_unless(percpu_rwlock_read_unlock(l) == 0);
		model_set_area(own);
	}
}

static void threads(void **state)
{
	uint64_t stop = 0;

	(void)state;
	words = test_share(sizeof(*words));
	assert_int_equal(percpu_rwlock_create(0, &l), 0);
	test_team_run(4, read_or_write, &stop);
	assert_int_equal(words->broken, 0);
	assert_int_equal(words->first, test_rounds(WRITES));
	assert_int_equal(percpu_rwlock_destroy(l), 0);
}

static void repair(void)
{
	if (!(percpu_rwlock_died(l) & PERCPU_RWLOCK_WRITER_DIED))
		return;
	complain_unless(words->first - words->second <= 1);
	words->second = words->first;
	words->repairs++;
	complain_unless(percpu_rwlock_consistent(l) == 0);
}

static int work(void *arg)
{
	uint64_t random = (uintptr_t)arg + 1;
	int e;

	for (;;) {
		if (test_random(&random) % 4 == 0) {
			e = percpu_rwlock_write_lock(l);
			complain_unless(e == 0 || e == -EOWNERDEAD);
			if (e == -EOWNERDEAD)
				repair();
			write_words();
			complain_unless(percpu_rwlock_write_unlock(l) == 0);
		} else {
			e = percpu_rwlock_read_lock(l);
			complain_unless(e == 0 || e == -EOWNERDEAD);
			if (e == -EOWNERDEAD)
				repair();
			read_words();
			complain_unless(percpu_rwlock_read_unlock(l) == 0);
		}
	}
	return 0;
}

static void processes(void **state)
{
	const unsigned flags = PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS;
	struct percpu_owners *owners;
	struct percpu_region *region;
	uint64_t random = 5;
	pid_t pid[WORKERS];
	unsigned who;
	int e;

	(void)state;
	words = test_share(sizeof(*words));
	assert_int_equal(percpu_region_open(test_path("rwlock"), flags, NULL, &region), 0);
	assert_int_equal(percpu_owners_create_in(region, &owners), 0);
	assert_int_equal(percpu_rwlock_create_in(owners, 0, &l), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		pid[i] = test_fork(work, (void *)(uintptr_t)i);
	for (unsigned n = 0;
	     n < test_rounds(KILLS) || __atomic_load_n(&words->first, __ATOMIC_RELAXED) < FEWEST;
	     n++) {
		test_sleep_us((unsigned)(test_random(&random) % 30000));
		who = (unsigned)(test_random(&random) % WORKERS);
		kill(pid[who], SIGKILL);
		test_wait(pid[who], 60);
		pid[who] = test_fork(work, (void *)(uintptr_t)(WORKERS + n));
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		kill(pid[i], SIGKILL);
		test_wait(pid[i], 60);
	}
	e = percpu_rwlock_write_lock(l);
	assert_true(e == 0 || e == -EOWNERDEAD);
	if (e != 0)
		repair();
	assert_int_equal(words->first, words->second);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(words->broken, 0);
	print_message("%u writes, %u repaired\n", (unsigned)words->first, (unsigned)words->repairs);
	assert_int_equal(percpu_rwlock_destroy(l), 0);
	percpu_owners_destroy(owners);
	percpu_region_close(region);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads),
		cmocka_unit_test(processes),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}
