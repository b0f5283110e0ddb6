/* SPDX-License-Identifier: MIT */
/*
 * test_section_steps.c - sections, with something else at each of their steps: a signal handler, a
 * sequence of another thread, a fence that is refused.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <percpu/counter.h>
#include <percpu/linux/percpu.h>
#include <percpu/section.h>
#include <percpu/status.h>

#include "../happen.h"
#include "support.h"

#include "counts/counts.h"

#define OTHER UINT64_C(0x1235) /* the number of a thread that there is not */

static uint64_t *item;
static uint64_t *guard; /* of CPU 0 */
static unsigned cpus;

static uint64_t *guard_of(unsigned cpu)
{
	return percpu_section_copy(guard, cpu);
}

/* Return how many CPUs' copies a thread has. */
static unsigned taken(void)
{
	unsigned n = 0;

	for (unsigned cpu = 0; cpu < cpus; cpu++)
		n += *guard_of(cpu) != 0;
	return n;
}

/* Find the guard: the one word of this CPU's lane that differs in a section. */
static void find_guard(void)
{
	struct percpu_region *r;
	uint64_t *word;
	unsigned cpu;

	assert_int_equal(percpu_region_default(&r), 0);
	word = (uint64_t *)(void *)r->chunks->at[0]->base;
	percpu_section_enter();
	cpu = percpu_section_cpu();
	for (size_t i = 0; i < PERCPU_LANE_SIZE / sizeof(*word) && guard == NULL; i++)
		if (*(uint64_t *)percpu_section_copy(word + i, cpu) % 2 == 1)
			guard = word + i;
	percpu_section_exit();
	assert_non_null(guard);
	assert_int_equal(taken(), 0);
}

/* Replace the library's functions, by the linker's --wrap. */
int __real_percpu_barrier_cpu(unsigned cpu);
int __wrap_percpu_barrier_cpu(unsigned cpu);
void __real_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);
void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);

static unsigned refused; /* so many fences are refused */
static unsigned fences;	 /* how many were asked for */
static unsigned fenced;	 /* the CPU of the last one */
static unsigned sleeps;	 /* how often a thread may still sleep before the copies are freed */

int __wrap_percpu_barrier_cpu(unsigned cpu)
{
	fences++;
	fenced = cpu;
	if (refused == 0)
		return __real_percpu_barrier_cpu(cpu);
	refused--;
	return -EPERM;
}

void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns)
{
	if (sleeps == 0)
		__real_percpu_futex_sleep(word, operation, value, ns);
	else if (--sleeps == 0)
		for (unsigned cpu = 0; cpu < cpus; cpu++)
			*guard_of(cpu) = 0;
	errno = ETIMEDOUT;
}

static void fill_guards(uint64_t number)
{
	for (unsigned cpu = 0; cpu < cpus; cpu++)
		*guard_of(cpu) = number;
}

static uint64_t sum_of_item(void)
{
	uint64_t sum = 0;

	for (unsigned cpu = 0; cpu < cpus; cpu++)
		sum += *(uint64_t *)percpu_section_copy(item, cpu);
	return sum;
}

/* A wait for copies. */

static void copies_are_awaited(void **state)
{
	(void)state;
	fill_guards(OTHER);
	sleeps = 3;
	errno = EXDEV;
	percpu_section_enter();
	assert_in_range(percpu_section_cpu(), 0, cpus - 1);
	assert_int_equal(errno, EXDEV);
	assert_int_equal(sleeps, 0);
	assert_int_equal(taken(), 1);
	percpu_section_exit();
	assert_int_equal(taken(), 0);
	for (unsigned cpu = cpus; cpu-- > 0;) {
		*guard_of(cpu) = OTHER;
		sleeps = 2;
		errno = EXDEV;
		percpu_section_enter_cpu(cpu);
		assert_int_equal(percpu_section_cpu(), cpu);
		assert_int_equal(errno, EXDEV);
		assert_int_equal(sleeps, 0);
		assert_int_equal(taken(), 1);
		percpu_section_exit();
		assert_int_equal(taken(), 0);
	}
}

static int enter_certain_within(void *arg)
{
	(void)arg;
	percpu_section_enter();
	percpu_section_enter_cpu(0);
	return 0;
}

static void certain_copies_have_the_first_section(void **state)
{
	(void)state;
	assert_int_equal(WTERMSIG(test_wait(test_fork(enter_certain_within, NULL), 20)), SIGABRT);
}

/* Fences. */

static int take_without_sequences(void *arg)
{
	(void)arg;
	(void)test_unregister(percpu_seq_attach());
	for (unsigned cpu = 0; cpu < cpus; cpu++) {
		fill_guards(OTHER);
		*guard_of(cpu) = 0;
		fences = 0;
		percpu_section_enter();
		test_child_require(percpu_section_cpu() == cpu, "the free one");
		test_child_require(fences == 1 && fenced == cpu, "which is fenced");
		percpu_section_exit();
		test_child_require(*guard_of(cpu) == 0, "given back");
		test_child_require(taken() == cpus - 1, "others are not");
	}
	return 0;
}

static void copies_from_afar_are_fenced(void **state)
{
	(void)state;
	test_in_child(take_without_sequences, NULL);
}

/* A sequence of another thread that had found the copies free commits its number. */

static unsigned stolen;

static void commit_another_number(void)
{
	for (stolen = 0; *guard_of(stolen) == 0; stolen++)
		;
	*guard_of(stolen) = OTHER;
}

static int add_without_fences(void *arg)
{
	struct percpu_counter *const c = (struct percpu_counter *)(void *)item;
	const uint64_t before = percpu_counter_fetch(c);

	(void)arg;
	(void)test_unregister(percpu_seq_attach());
	refused = UINT_MAX;
	errno = EXDEV;
	percpu_section_add(item, 5, 8);
	test_child_require(errno == EXDEV, "errno");
	test_child_require(fences > 1, "another try");
	test_child_require(taken() == 0, "no number is left behind");
	test_child_require(sum_of_item() + 5 == before + 5, "not in a copy");
	test_child_require(percpu_counter_fetch(c) == before + 5, "but exact");
	for (unsigned i = 0; i < 2; i++) {
		refused = 15 * cpus;
		percpu_section_add(item, 1, i == 0 ? 8 : 4);
		test_child_require(refused == 0 && sum_of_item() == before + 1 + i, "in the end");
	}
	return 0;
}

/* Meanwhile a sequence has stored another number. */
static int lose_without_a_fence(void *arg)
{
	(void)arg;
	(void)test_unregister(percpu_seq_attach());
	refused = 1;
	sleeps = cpus == 1;
	let_happen(commit_another_number, "section: number stored", 1);
	percpu_section_add(item, 5, 8);
	test_child_require(times == 0 && refused == 0, "it happened");
	test_child_require(*guard_of(stolen) == OTHER || cpus == 1, "the other's stays");
	return 0;
}

static void refused_fences_leave_copies_free(void **state)
{
	(void)state;
	test_in_child(add_without_fences, NULL);
	test_in_child(lose_without_a_fence, NULL);
}

/* The same with a fence. */

static int lose_to_a_sequence(void *arg)
{
	const char *const step = arg;

	(void)test_unregister(percpu_seq_attach());
	let_happen(commit_another_number, step, 1);
	sleeps = cpus == 1;
	percpu_section_enter();
	test_child_require(percpu_section_cpu() != stolen || cpus == 1, "other copies");
	test_child_require(times == 0, "it happened");
	test_child_require(*guard_of(stolen) == OTHER || cpus == 1, "those are the other's");
	percpu_section_exit();
	test_child_require(*guard_of(stolen) == OTHER || cpus == 1, "still");
	*guard_of(stolen) = 0;
	test_child_require(taken() == 0, "all others are free");
	return 0;
}

static void sequences_win(void **state)
{
	static char stored[] = "section: number stored", done[] = "section: fenced";

	(void)state;
	test_in_child(lose_to_a_sequence, stored);
	test_in_child(lose_to_a_sequence, done);
}

/* Signal handlers have sections in between. */

static unsigned in_handler; /* the CPU whose copies it had */

static void handle(void)
{
	percpu_section_enter();
	in_handler = percpu_section_cpu();
	__atomic_fetch_add((uint64_t *)percpu_section_copy(item, in_handler), 1, __ATOMIC_RELAXED);
	percpu_section_exit();
}

/* In the handler the thread finds its CPU's copies taken, and gets others. */
static void handle_elsewhere(void)
{
	unsigned cpu;

	for (cpu = 0; *guard_of(cpu) == 0; cpu++)
		;
	(void)test_pin(0, test_cpu(cpu == test_cpu(0) ? test_cpus() - 1 : 0));
	handle();
}

static int interrupt(void *arg)
{
	const char *const step = arg;
	const uint64_t before = sum_of_item();
	void (*const handler[])(void) = { handle, handle_elsewhere };

	(void)test_unregister(percpu_seq_attach());
	for (unsigned i = 0; i < 4; i++) {
		let_happen(handler[i / 2], step, 1);
		if (i % 2 == 0)
			percpu_section_enter();
		else
			percpu_section_enter_cpu(cpus - 1);
		test_child_require(i % 2 == 0 || percpu_section_cpu() == cpus - 1, "certain");
		test_child_require(*guard_of(percpu_section_cpu()) % 2 == 1, "has copies");
		test_child_require(taken() == 1, "of one CPU");
		percpu_section_exit();
		test_child_require(times == 0, "it happened");
		test_child_require(taken() == 0, "free");
		test_unpin(0);
	}
	test_child_require(sum_of_item() == before + 4, "exact");
	return 0;
}

/* All other copies are taken: the handler has those that the thread is just taking, or giving back. */
static int interrupt_without_choice(void *arg)
{
	(void)test_unregister(percpu_seq_attach());
	fill_guards(OTHER);
	*guard_of(cpus - 1) = 0;
	sleeps = 1000;
	let_happen(handle, arg, 1);
	percpu_section_enter();
	test_child_require(percpu_section_cpu() == cpus - 1, "the free ones");
	percpu_section_exit();
	test_child_require(times == 0 && in_handler == cpus - 1, "the handler, too");
	test_child_require(sleeps == 1000, "without waiting");
	return 0;
}

static void handlers_take_copies_in_between(void **state)
{
	static char steps[][24] = { "section: number stored", "section: fenced",
				    "section: copies let go" };

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		test_in_child(interrupt, steps[i]);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		test_in_child(interrupt_without_choice, steps[i]);
}

/* A handler gives the copies back that the thread is just giving back. Then another has them. */
static void handle_and_lose(void)
{
	handle();
	*guard_of(in_handler) = OTHER;
}

static void copies_are_given_back_once(void **state)
{
	unsigned cpu;

	(void)state;
	percpu_section_enter();
	cpu = percpu_section_cpu();
	let_happen(handle_and_lose, "section: copies let go", 1);
	percpu_section_exit();
	assert_int_equal(times, 0);
	assert_int_equal(*guard_of(in_handler), OTHER);
	*guard_of(in_handler) = 0;
	assert_int_equal(*guard_of(cpu), 0);
}

/* A handler's words are behind those of the thread. */

static struct percpu_counter *counter[2];

static void count_in_handler(void)
{
	percpu_section_enter();
	*percpu_section_word(counter[1]) += 10;
	*percpu_section_word(counter[0]) += 100;
	percpu_section_exit();
}

static int count_around_handlers(void *arg)
{
	(void)arg;
	let_happen(count_in_handler, "section: slot pushed", 3);
	percpu_section_enter();
	*percpu_section_word(counter[0]) += 1;
	*percpu_section_word(counter[1]) += 2;
	(void)percpu_section_cpu();
	let_happen(count_in_handler, "section: copies let go", 1);
	percpu_section_exit();
	test_child_require(times == 0, "it happened");
	test_child_require(percpu_counter_fetch(counter[0]) == 401, "the first");
	test_child_require(percpu_counter_fetch(counter[1]) == 42, "the second");
	return 0;
}

static void words_of_handlers_are_their_own(void **state)
{
	(void)state;
	test_in_child(count_around_handlers, NULL);
}

/* Linux's operations change the copies that the thread has, wherever it runs. */
static void operations_change_copies_of_the_section(void **state)
{
	uint64_t found;

	(void)state;
	for (unsigned cpu = 0; cpu < cpus; cpu++) {
		volatile uint64_t *const copy = percpu_section_copy(item, cpu);

		fill_guards(OTHER);
		*guard_of(cpu) = 0;
		this_cpu_write(*item, 100 + cpu);
		assert_int_equal(*copy, 100 + cpu);
		assert_int_equal(this_cpu_xchg(*item, 7), 100 + cpu);
		assert_int_equal(this_cpu_add_return(*item, 2), 9);
		found = 9;
		assert_true(this_cpu_try_cmpxchg(*item, &found, 11));
		assert_int_equal(*copy, 11);
		assert_int_equal(this_cpu_cmpxchg(*item, 11, 0), 11);
		assert_int_equal(*copy, 0);
		assert_int_equal(taken(), cpus - 1);
	}
	fill_guards(0);
}

/* A handler of pthread_atfork() that runs before the library's. */

static bool at_fork;
static bool had_copies;

static void use_sections_at_fork(void)
{
	if (!at_fork)
		return;
	sleeps = 3; /* then the copies are free, but too late */
	percpu_section_enter();
	had_copies = percpu_section_cpu() < cpus && sleeps == 2;
	percpu_section_exit();
	sleeps = 0;
}

__attribute__((constructor(101))) static void register_early(void)
{
	(void)pthread_atfork(NULL, NULL, use_sections_at_fork);
}

static int look_at_fork(void *arg)
{
	(void)arg;
	test_child_require(had_copies, "without waiting for threads of the parent");
	test_child_require(taken() == 0, "free");
	return 0;
}

static void early_fork_handlers_find_copies(void **state)
{
	int status;

	(void)state;
	fill_guards(OTHER);
	at_fork = true;
	status = test_wait(test_fork(look_at_fork, NULL), 20);
	at_fork = false;
	fill_guards(0);
	assert_int_equal(status, 0);
}

static int begin(void **state)
{
	(void)state;
	(void)percpu_selftest();
	cpus = percpu_section_cpus();
	item = percpu_section_alloc(8, 8);
	find_guard();
	for (int i = 0; i < 2; i++)
		assert_int_equal(percpu_counter_create(&counter[i]), 0);
	return item == NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_are_awaited),
		cmocka_unit_test(certain_copies_have_the_first_section),
		cmocka_unit_test(copies_from_afar_are_fenced),
		cmocka_unit_test(refused_fences_leave_copies_free),
		cmocka_unit_test(sequences_win),
		cmocka_unit_test(handlers_take_copies_in_between),
		cmocka_unit_test(copies_are_given_back_once),
		cmocka_unit_test(words_of_handlers_are_their_own),
		cmocka_unit_test(operations_change_copies_of_the_section),
		cmocka_unit_test(early_fork_handlers_find_copies),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
