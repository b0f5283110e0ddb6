/* SPDX-License-Identifier: MIT */
/*
 * fibers.c - a fiber that continues in another thread after each switch counts with that
 * thread's area, whatever the compiler keeps across the switch.
 *
 * The threads get areas that the kernel does not know, so that this runs in emulators, too. The
 * area that a sequence has armed shows which one it used. Prints a line for each operation that
 * used another thread's area.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <ucontext.h>

#include <percpu/percpu.h>

#define ROUNDS 6
#define LANES 2
#define WORDS 16

static struct lane {
	uint64_t guard[8];
	uint64_t word[WORDS];
} lanes[LANES] __attribute__((aligned(64)));

static const uint64_t bank;
static uint64_t at = PERCPU_SEQ_CLOSED;
static uint64_t words[8];
static percpu_words2 pairs[4];
static int64_t got;
static void *item;
static const uint32_t set = 1;
static struct percpu_counter *counter;

static ucontext_t fiber, *back; /* back: of the thread that runs the fiber */
static int32_t cpu_seen;

static void yield(void)
{
	swapcontext(&fiber, back);
}

#define CELL lanes->word, sizeof(*lanes)
#define GUARDED lanes->word, lanes->guard, sizeof(*lanes)
#define BANK CELL, &bank, 0

/* A fiber for each operation, as a small loop that compilers optimize. */
#define FIBER(name, operation)                                                                     \
	static void name(void)                                                                     \
	{                                                                                          \
		for (;;) {                                                                         \
			operation;                                                                 \
			yield();                                                                   \
		}                                                                                  \
	}

FIBER(counter_add, percpu_counter_add(counter, 1))
FIBER(twice, percpu_counter_add(counter, 1); percpu_counter_add(counter, 1))
FIBER(cpu, cpu_seen = percpu_seq_cpu())
FIBER(add, (void)percpu_seq_add(CELL, 1))
FIBER(bank_add, (void)percpu_seq_bank_add(BANK, 1))
FIBER(bank_add2, (void)percpu_seq_bank_add2(BANK, percpu_words2_of(1, 2)))
FIBER(copies_add, (void)percpu_seq_copies_add(BANK, 1, 2, 1))
FIBER(bank_update, (void)percpu_seq_bank_update(BANK, words, 2))
FIBER(group_update2, (void)percpu_seq_group_update2(BANK, percpu_group_names(0, 1), 64, 80,
						    percpu_words2_of(1, 2), percpu_words2_of(3, 4)))
FIBER(group_update,
      (void)percpu_seq_group_update(BANK, percpu_group_names(0, 1), 64, 80, pairs, 16))
FIBER(group_undo, (void)percpu_seq_group_undo(BANK, 64, 2, 16))
FIBER(add_limit, (void)percpu_seq_add_limit(GUARDED, 1, 1000, &got))
FIBER(cmpxchg, (void)percpu_seq_cmpxchg(GUARDED, 0, 0, &got))
FIBER(xchg, (void)percpu_seq_xchg(GUARDED, 0, &got))
FIBER(push, (void)percpu_seq_push(GUARDED, 1, item))
FIBER(pop, (void)percpu_seq_pop(GUARDED, &item))
FIBER(copy, (void)percpu_seq_copy(GUARDED, 7, words, 1))
FIBER(append1, (void)percpu_seq_append1(CELL, 7, percpu_words2_of(1, 2)))
FIBER(append2, (void)percpu_seq_append2(CELL, 7, percpu_words2_of(1, 2), percpu_words2_of(3, 4)))
FIBER(narrow_add, (void)percpu_seq_narrow_add(CELL, 1, 1 << 20))
FIBER(add_at, (void)percpu_seq_add_at(&at, sizeof(*lanes), 1))
FIBER(narrow_add_if, (void)percpu_seq_narrow_add_if(CELL, 1, &bank, 0))
FIBER(enter, (void)percpu_seq_enter(CELL, 0, &item))
FIBER(spin, (void)percpu_seq_spin(&set, 1))

static const struct {
	const char *name;
	void (*run)(void);
	bool arms;
} fibers[] = {
	{ "percpu_counter_add", counter_add, true },
	{ "percpu_counter_add twice", twice, true },
	{ "cpu", cpu, false },
	{ "add", add, true },
	{ "bank_add", bank_add, true },
	{ "bank_add2", bank_add2, true },
	{ "copies_add", copies_add, true },
	{ "bank_update", bank_update, true },
	{ "group_update2", group_update2, true },
	{ "group_update", group_update, true },
	{ "group_undo", group_undo, true },
	{ "add_limit", add_limit, true },
	{ "cmpxchg", cmpxchg, true },
	{ "xchg", xchg, true },
	{ "push", push, true },
	{ "pop", pop, true },
	{ "copy", copy, true },
	{ "append1", append1, true },
	{ "append2", append2, true },
	{ "narrow_add", narrow_add, true },
	{ "add_at", add_at, true },
	{ "narrow_add_if", narrow_add_if, true },
	{ "enter", enter, true },
	{ "spin", spin, true },
};
#define FIBERS (sizeof(fibers) / sizeof(fibers[0]))

/* Two threads run a fiber in turn; the first one starts it. */
static struct percpu_rseq areas[2] = { { .cpu_id = 0 }, { .cpu_id = 1 } };
static sem_t turn[2];
static bool wrong[FIBERS], attached;

static __attribute__((noinline)) void set_area(struct percpu_rseq *area)
{
	percpu_self = area;
}

static __attribute__((noinline)) struct percpu_rseq *get_area(void)
{
	return percpu_self;
}

static void start(void (*f)(void))
{
	static char stack[256 * 1024];

	getcontext(&fiber);
	fiber.uc_stack.ss_sp = stack;
	fiber.uc_stack.ss_size = sizeof(stack);
	makecontext(&fiber, f, 0);
}

/* With PERCPU_LATE a thread has its own area from the first access on, and keeps it if it cannot
 * run sequences. */
static bool keeps_area(void)
{
#ifdef PERCPU_LATE
	return percpu_status()->tier != PERCPU_TIER_RSEQ;
#else
	return false;
#endif
}

static void run_in_turn(unsigned me, unsigned i)
{
	ucontext_t here;

	for (unsigned round = 0; round < ROUNDS; round++) {
		sem_wait(&turn[me]);
		if (me == 0 && round == 0)
			start(fibers[i].run);
		areas[0].rseq_cs = areas[1].rseq_cs = 0;
		cpu_seen = (int32_t)me;
		back = &here;
		swapcontext(&here, &fiber);
		if ((areas[me].rseq_cs != 0) != fibers[i].arms || areas[!me].rseq_cs != 0 ||
		    cpu_seen != (int32_t)me)
			wrong[i] = true;
		sem_post(&turn[!me]);
	}
}

static void *run(void *second)
{
	const unsigned me = second != NULL;
	struct percpu_rseq *const before = get_area();

	/* The slow path attaches the thread that runs it. */
	run_in_turn(me, 0);
	if (me == 1)
		attached = get_area() != before || keeps_area();
	set_area(&areas[me]);
	sem_wait(&turn[me]);
	wrong[0] = false;
	sem_post(&turn[me]);
	for (unsigned i = 0; i < FIBERS; i++)
		run_in_turn(me, i);
	return NULL;
}

int main(void)
{
	pthread_t other;
	int failed = 0;

	if (percpu_counter_create(&counter) != 0)
		return 2;
	(void)percpu_selftest(); /* so that the tier is final */
	sem_init(&turn[0], 0, 1);
	sem_init(&turn[1], 0, 0);
	if (pthread_create(&other, NULL, run, &turn) != 0)
		return 2;
	run(NULL);
	pthread_join(other, NULL);
	for (unsigned i = 0; i < FIBERS; i++)
		if (wrong[i])
			failed |= printf("%s: another thread's area\n", fibers[i].name) > 0;
	if (!attached)
		failed |= printf("slow path: another thread is attached\n") > 0;
	return failed;
}
