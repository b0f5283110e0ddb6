/* SPDX-License-Identifier: MIT */
/*
 * test_linux.c - per-CPU data and approximate counters under Linux's names.
 */
#define _GNU_SOURCE
#include <percpu/linux/percpu.h>
#include <percpu/status.h>

#include "file_system.h"
#include "support.h"

#define THREADS 4

struct crew {
	struct mount *mount;
	unsigned rounds;
};

static void do_io(unsigned i, void *arg)
{
	const struct crew *c = arg;

	if (i == 0)
		(void)test_unregister(percpu_seq_attach());
	for (unsigned n = 0; n < c->rounds; n++) {
		count_io(c->mount, i % 2, n % 16);
		(void)take_block(c->mount, 1);
	}
}

static void numbers_of_a_file_system_are_exact(void **state)
{
	const unsigned rounds = test_rounds(16000) / 16 * 16 + 16;
	struct crew c = { mount_new(INT64_C(1) << 40), rounds };
	const uint64_t n = THREADS * (uint64_t)rounds;
	struct test_team team;
	uint64_t ops, sectors;
	uint32_t small;
	int64_t off;
	int cpus;

	(void)state;
	assert_non_null(c.mount);
	test_team_start(&team, THREADS, do_io, &c);
	test_team_join(&team);
	count_ios(c.mount, &ops, &sectors, &small, &cpus);
	assert_int_equal(cpus, percpu_status()->possible_cpus);
	assert_int_equal(ops, n);
	assert_int_equal(sectors, n / 16 * 120);
	assert_int_equal(small, n / 2);
	assert_int_equal(free_blocks(c.mount), (INT64_C(1) << 40) - (int64_t)n);
	off = free_blocks_about(c.mount) - free_blocks(c.mount);
	assert_in_range(off + 32 * cpus, 0, 64 * cpus);
	mount_free(c.mount);
	c.mount = mount_new(2);
	assert_int_equal(take_block(c.mount, 2), 0);
	assert_int_equal(take_block(c.mount, 1), -1);
	assert_int_equal(free_blocks(c.mount), 0);
	mount_free(c.mount);
}

static void counters_do_as_in_linux(void **state)
{
	(void)state;
	assert_int_equal(check_counter(), 0);
}

/* Variables */

struct pair {
	uint64_t a;
	int16_t b;
};

static DEFINE_PER_CPU(uint64_t, hits);
static DEFINE_PER_CPU(struct pair, pairs) = { 7, -7 };
static DEFINE_PER_CPU(uint8_t, bytes);

static void count_in_variables(unsigned i, void *arg)
{
	const unsigned rounds = *(unsigned *)arg;

	if (i == 0)
		(void)test_unregister(percpu_seq_attach());
	for (unsigned n = 0; n < rounds; n++) {
		this_cpu_inc(hits);
		this_cpu_inc(bytes);
		this_cpu_sub(pairs.b, 1);
		get_cpu_var(hits)++;
		get_cpu_var(pairs).a += 2; /* nested */
		put_cpu_var(pairs);
		put_cpu_var(hits);
	}
}

static void variables_have_copies(void **state)
{
	unsigned rounds = test_rounds(10000), cpu;
	uint64_t sum = 0, a = 0, cpus = percpu_status()->possible_cpus;
	struct test_team team;
	uint8_t byte = 0;
	int16_t b = 0;

	(void)state;
	test_team_start(&team, THREADS, count_in_variables, &rounds);
	test_team_join(&team);
	for_each_possible_cpu(cpu)
	{
		sum += per_cpu(hits, cpu);
		a += per_cpu_ptr(&pairs, cpu)->a;
		b = (int16_t)(b + per_cpu(pairs, cpu).b);
		byte = (uint8_t)(byte + per_cpu(bytes, cpu));
	}
	assert_int_equal(sum, 2 * THREADS * (uint64_t)rounds);
	assert_int_equal(a, 7 * cpus + 2 * THREADS * (uint64_t)rounds);
	assert_int_equal(b, (int16_t)(-7 * (int)cpus - THREADS * (int)rounds));
	assert_int_equal(byte, (uint8_t)(THREADS * rounds));
	assert_int_equal(hits, 0);
}

static void words_are_read_and_written_in_place(void **state)
{
	uint32_t *word = alloc_percpu(uint32_t);
	struct pair *p = __alloc_percpu(sizeof(*p), 64), *here;
	unsigned cpu;
	uint32_t sum = 0;

	(void)state;
	assert_non_null(word);
	assert_int_equal((uintptr_t)p % 64, 0);
	assert_null(__alloc_percpu(8, 128));
	assert_null(__alloc_percpu(8, 24));
	assert_null(__alloc_percpu(0, 8));
	here = get_cpu_ptr(p);
	this_cpu_write(*word, 5);
	this_cpu_write(p->b, -3);
	assert_int_equal(here->b, -3);
	assert_int_equal(this_cpu_read(*word), 5);
	this_cpu_dec(*word);
	this_cpu_sub(p->a, 1);
	assert_ptr_equal(this_cpu_ptr(p), here);
	assert_true(here->a == UINT64_MAX);
	assert_int_equal(this_cpu_read(p->b), -3);
	put_cpu_ptr(p);
	for_each_possible_cpu(cpu) sum += *per_cpu_ptr(word, cpu);
	assert_int_equal(sum, 4);
	free_percpu(p);
	free_percpu(word);
	free_percpu(NULL);
}

/* Each operation changes one copy at once: nothing is lost between threads. */

struct account {
	uint64_t value, taken; /* taken: atomic */
	uint32_t small;
	uint16_t count;
	unsigned rounds;
};

static void change_in_place(unsigned i, void *arg)
{
	struct account *a = arg;
	uint64_t taken = 0;
	uint16_t count;
	uint32_t old;

	if (i == 0)
		(void)test_unregister(percpu_seq_attach());
	for (unsigned n = 0; n < a->rounds; n++) {
		this_cpu_add(a->value, 2);
		taken += this_cpu_xchg(a->value, 0);
		old = this_cpu_read(a->small);
		while (!this_cpu_try_cmpxchg(a->small, &old, old + 3))
			;
		do
			count = this_cpu_read(a->count);
		while (this_cpu_cmpxchg(a->count, count, (uint16_t)(count + 1)) != count);
		(void)this_cpu_add_return(a->value, 5);
		(void)this_cpu_dec_return(a->value);
	}
	__atomic_fetch_add(&a->taken, taken, __ATOMIC_RELAXED);
}

static void changes_in_place_are_exact(void **state)
{
	struct account *a = __alloc_percpu_gfp(sizeof(*a), 8, 0);
	uint64_t value = 0, n;
	struct test_team team;
	uint16_t count = 0;
	uint32_t small = 0;
	unsigned cpu;

	(void)state;
	assert_non_null(a);
	a->rounds = test_rounds(10000);
	n = THREADS * (uint64_t)a->rounds;
	test_team_start(&team, THREADS, change_in_place, a);
	test_team_join(&team);
	for_each_possible_cpu(cpu)
	{
		value += per_cpu_ptr(a, cpu)->value;
		small += per_cpu_ptr(a, cpu)->small;
		count = (uint16_t)(count + per_cpu_ptr(a, cpu)->count);
	}
	assert_int_equal(value + a->taken, 6 * n);
	assert_int_equal(small, 3 * n);
	assert_int_equal(count, (uint16_t)n);
	free_percpu(a);
}

static void changes_return_what_linux_does(void **state)
{
	uint32_t *word = alloc_percpu_gfp(uint32_t, 0), old = 8;

	(void)state;
	assert_int_equal(*get_cpu_ptr(word), 0);
	assert_int_equal(this_cpu_add_return(*word, 7), 7);
	assert_int_equal(this_cpu_sub_return(*word, 2), 5);
	assert_int_equal(this_cpu_inc_return(*word), 6);
	assert_int_equal(this_cpu_dec_return(*word), 5);
	assert_int_equal(this_cpu_xchg(*word, 9), 5);
	assert_false(this_cpu_try_cmpxchg(*word, &old, 1));
	assert_int_equal(old, 9);
	assert_true(this_cpu_try_cmpxchg(*word, &old, 1));
	assert_int_equal(this_cpu_cmpxchg(*word, 2, 3), 1);
	assert_int_equal(this_cpu_cmpxchg(*word, 1, 3), 1);
	assert_int_equal(this_cpu_xchg(*word, this_cpu_xchg(*word, 4)), 4);
	assert_int_equal(this_cpu_read(*word), 3);
	put_cpu_ptr(word);
	free_percpu(word);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_of_a_file_system_are_exact),
		cmocka_unit_test(counters_do_as_in_linux),
		cmocka_unit_test(variables_have_copies),
		cmocka_unit_test(changes_in_place_are_exact),
		cmocka_unit_test(changes_return_what_linux_does),
		cmocka_unit_test(words_are_read_and_written_in_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
