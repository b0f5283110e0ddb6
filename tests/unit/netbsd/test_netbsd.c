/* SPDX-License-Identifier: MIT */
/*
 * test_netbsd.c - percpu(9) under NetBSD's names.
 */
#define _GNU_SOURCE
#include <percpu/netbsd/percpu.h>
#include <percpu/status.h>

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "packet_filter.h"
#include "support.h"

#define THREADS 4

struct crew {
	struct filter *filter;
	unsigned rounds;
};

static void filter_packets(unsigned i, void *arg)
{
	const struct crew *c = arg;

	if (i == 0)
		(void)test_unregister(percpu_seq_attach());
	for (unsigned n = 0; n < c->rounds; n++)
		filter_packet(c->filter, i % 2, i * 1000 + n % 1000);
}

static void statistics_of_a_filter_are_exact(void **state)
{
	struct crew c = { filter_create(), test_rounds(20000) };
	uint64_t stats[FILTER_STATS];
	struct test_team team;

	(void)state;
	assert_non_null(c.filter);
	assert_int_equal(filter_cpus(c.filter), percpu_status()->possible_cpus);
	test_team_start(&team, THREADS, filter_packets, &c);
	test_team_join(&team);
	filter_stats(c.filter, stats);
	assert_int_equal(stats[FILTER_PASS], THREADS / 2 * (uint64_t)c.rounds);
	assert_int_equal(stats[FILTER_BLOCK], THREADS / 2 * (uint64_t)c.rounds);
	assert_int_equal(stats[FILTER_LARGEST], 3000 + (c.rounds < 1000 ? c.rounds - 1 : 999));
	filter_destroy(c.filter);
}

static void clear(void *copy, void *arg, struct cpu_info *ci)
{
	*(uint64_t *)copy += *(uint64_t *)arg + ci->ci_index;
}

static void objects_have_copies(void **state)
{
	uint64_t ten = 10, *here, *inner;
	percpu_t *pc = percpu_alloc(64), *other = percpu_alloc(PERCPU_SECTION_MAX_SIZE);

	(void)state;
	assert_null(percpu_alloc(0));
	assert_null(percpu_alloc(PERCPU_SECTION_MAX_SIZE + 1));
	percpu_free(NULL, 64);
	percpu_foreach(pc, clear, &ten);
	here = percpu_getref(pc);
	assert_int_equal((uintptr_t)here % 64, 0);
	assert_int_equal(*here, 10 + percpu_section_cpu());
	inner = percpu_getref(other);
	assert_int_equal(inner[0] + inner[PERCPU_SECTION_MAX_SIZE / 8 - 1], 0);
	assert_int_equal((char *)inner - (char *)other, (char *)here - (char *)pc);
	inner[PERCPU_SECTION_MAX_SIZE / 8 - 1] = 1;
	percpu_putref(other);
	percpu_putref(pc);
	percpu_free(other, PERCPU_SECTION_MAX_SIZE);
	percpu_free(pc, 64);
}

/* What is freed can be had again, and is zeros. */
static void memory_comes_back(void **state)
{
	percpu_t *first = percpu_alloc(1000), *pc;
	uint64_t *here = percpu_getref(first);
	bool again = false;

	(void)state;
	here[0] = here[124] = 1;
	percpu_putref(first);
	percpu_free(first, 1000);
	for (int i = 0; i < 200; i++) {
		pc = percpu_alloc(1000);
		again |= pc == first;
		here = percpu_getref(pc);
		assert_int_equal(here[0] + here[124], 0);
		percpu_putref(pc);
		percpu_free(pc, 1000);
	}
	assert_true(again);
}

/* A cross call has each copy alone: no plain addition of either side is lost. */

struct crossing {
	percpu_t *pc;
	unsigned rounds;
	struct calls {
		uint64_t n, wrong;
	} calls[THREADS];
};

static void add_in_cross_call(void *copy, void *arg, struct cpu_info *ci)
{
	volatile uint64_t *const word = copy;
	const uint64_t v = *word;
	struct calls *const calls = arg;

	if (v % 64 == 0)
		sched_yield();
	*word = v + 1;
	calls->n++;
	calls->wrong += percpu_section_cpu() != ci->ci_index;
}

static void cross(unsigned i, void *arg)
{
	struct crossing *c = arg;
	volatile uint64_t *here;
	uint64_t v;

	if (i == 0)
		(void)test_unregister(percpu_seq_attach());
	for (unsigned n = 0; n < c->rounds; n++) {
		here = percpu_getref(c->pc);
		v = *here;
		if (v % 64 == 0)
			sched_yield();
		*here = v + 1;
		percpu_putref(c->pc);
		c->calls[i].n++;
		if (n % 16 == 0)
			percpu_foreach_xcall(c->pc, 0, add_in_cross_call, &c->calls[i]);
	}
}

static void cross_calls_have_the_copies(void **state)
{
	struct crossing c = { percpu_alloc(8), test_rounds(10000), { { 0 } } };
	uint64_t sum = 0, calls = 0;
	struct test_team team;

	(void)state;
	test_team_start(&team, THREADS, cross, &c);
	test_team_join(&team);
	for (unsigned cpu = 0; cpu < percpu_section_cpus(); cpu++)
		sum += *(uint64_t *)percpu_section_copy(c.pc, cpu);
	for (unsigned i = 0; i < THREADS; i++) {
		calls += c.calls[i].n;
		assert_int_equal(c.calls[i].wrong, 0);
	}
	assert_int_equal(sum, calls);
	assert_true(calls > THREADS * (uint64_t)c.rounds);
	percpu_free(c.pc, 8);
}

static int put_unpaired(void *arg)
{
	(void)percpu_getref(arg);
	percpu_putref(arg);
	percpu_putref(arg);
	return 0;
}

static void unpaired_references_abort(void **state)
{
	percpu_t *pc = percpu_alloc(8);

	(void)state;
	assert_int_equal(WTERMSIG(test_wait(test_fork(put_unpaired, pc), 20)), SIGABRT);
	percpu_free(pc, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(statistics_of_a_filter_are_exact),
		cmocka_unit_test(objects_have_copies),
		cmocka_unit_test(memory_comes_back),
		cmocka_unit_test(cross_calls_have_the_copies),
		cmocka_unit_test(unpaired_references_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
