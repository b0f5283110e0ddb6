/* SPDX-License-Identifier: MIT */
/*
 * cells.h - 8 adjacent counters, an add to them, and what it is compared with: adds to the same
 * cells in other ways, and the minimum work of any of them.
 */
#ifndef BENCH_CELLS_H
#define BENCH_CELLS_H

#include <cerrno>

#include <sched.h>

#ifdef HAVE_LIBRSEQ
#include <rseq/rseq.h>
#endif

#include "add.h"

#define ADD "percpu_counter_add"
#define UNPROTECTED "unprotected per-CPU add"
#define LIBRSEQ "librseq rseq_load_add_store__ptr"
#define LOCKED "per-CPU atomic inc"

/* Increment a word in memory: the compiler must not change that. */
inline void increment(uint64_t *word)
{
	*(volatile uint64_t *)word = *(volatile uint64_t *)word + 1;
}

inline int area_cpu()
{
	return *(volatile int32_t *)&percpu_self->cpu_id;
}

/* The cells that all per-CPU contenders share. */
struct on_counters {
	static inline percpu_region *region;
	static inline percpu_counter *counter[cells];
	char *const first = (char *)counter[0];

	percpu_counter *at(unsigned i) const
	{
		return (percpu_counter *)(first + i * 8);
	}
	uint64_t *cell(unsigned i, int cpu) const
	{
		return (uint64_t *)(first + i * 8 + cpu * PERCPU_STRIDE);
	}
	static void make()
	{
		if (region)
			return;
		must(percpu_region_create(nullptr, &region), "percpu_region_create");
		for (unsigned i = 0; i < cells; i++) {
			must(percpu_counter_create_in(region, &counter[i]), "a counter");
			if ((char *)counter[i] != (char *)counter[0] + i * 8)
				must(-ENOTSUP, "the counters of a new region are not adjacent");
		}
	}
	static void reset()
	{
		for (auto c : counter)
			percpu_counter_zero(c);
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (auto c : counter)
			sum += percpu_counter_fetch(c);
		return sum;
	}
};

struct counter_add : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_counter_add(at(i), 1);
	}
};

struct nothing {
	[[gnu::always_inline]] void add(unsigned)
	{
	}
};

inline thread_local volatile uint64_t tls_words[cells];

struct tls_increment {
	[[gnu::always_inline]] void add(unsigned i)
	{
		tls_words[i] = tls_words[i] + 1;
	}
};

/* The instructions of percpu_seq_add() between arming and commit, without a test of the CPU
 * number. A preemption in it loses counts, but so rarely that a run of this length may not show
 * it. */
struct unprotected : on_counters {
	static constexpr bool loses = true;

	[[gnu::always_inline]] void add(unsigned i)
	{
#ifdef __x86_64__
		__asm__ volatile(
			"movl 4(%[rs]), %%eax\n\t"
			"imulq %[stride], %%rax\n\t"
			"addq %[cell], %%rax\n\t"
			"addq $1, (%%rax)"
			:
			: [rs] "r"(percpu_self), [cell] "r"(at(i)), [stride] "e"(PERCPU_STRIDE)
			: "rax", "cc", "memory");
#else
		increment(cell(i, area_cpu()));
		__asm__ volatile("" ::: "memory");
#endif
	}
};

/* The stores that each sequence makes, to the thread's area and to the counter, in two cache
 * lines, and nothing else. Counts nothing. */
struct two_stores {
	struct alignas(64) line {
		volatile uint64_t word[8];
	} area, lane;

	[[gnu::always_inline]] void add(unsigned i)
	{
		area.word[1] = i;
		lane.word[i] = i;
	}
};

#ifdef HAVE_LIBRSEQ
struct librseq_add : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		int cpu;

		do {
			cpu = rseq_cpu_start();
		} while (rseq_load_add_store__ptr(RSEQ_MO_RELAXED, RSEQ_PERCPU_CPU_ID,
						  (intptr_t *)cell(i, cpu), 1, cpu));
	}
};
#endif

struct percpu_atomic : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		__atomic_fetch_add(cell(i, area_cpu()), 1, __ATOMIC_RELAXED);
	}
};

struct percpu_atomic_getcpu : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		__atomic_fetch_add(cell(i, sched_getcpu()), 1, __ATOMIC_RELAXED);
	}
};

#endif
