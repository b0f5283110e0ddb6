/* SPDX-License-Identifier: MIT */
/*
 * slides.cc - the 2016 slides on restartable sequences: each way to increment a counter.
 * slides_cpu.cc reads the CPU number, slides_published.cc prints the tables of the slides beside
 * our figures.
 *
 * usage: slides [--json FILE] [--benchmark_...]
 */
#include <pthread.h>

#include <cstdio>

#include "../cells.h"
#include "slides.h"

#define STATIC PLAIN ", static variable"
#define WORK "the work alone"

static uint64_t *const words = (uint64_t *)[]
{
	alignas(64) static uint64_t memory[cells];

	return memory;
}
();
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *guard_cell, *lock_cell;

struct on_words {
	static void reset()
	{
		for (unsigned i = 0; i < cells; i++)
			words[i] = 0;
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (unsigned i = 0; i < cells; i++)
			sum += words[i];
		return sum;
	}
};

/* The "rseq lock" of the slides is the lock behind sequences that make no progress. A sequence
 * has to test that it is free, which here is the guard of arch/spec.h. */

struct global_volatile : on_words {
	static constexpr bool loses = true;

	[[gnu::always_inline]] void add(unsigned i)
	{
		increment(&words[i]);
	}
};

/* The same where the compiler knows the address: x86-64 then has no register for it. */
struct static_volatile {
	static constexpr bool loses = true;
	alignas(64) static inline uint64_t word;

	static void reset()
	{
		word = 0;
	}
	static uint64_t total()
	{
		return word;
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		increment(&word);
	}
};

/* Load; then, in a sequence that tests the guard, compare and store. */
struct seq_cmpxchg : on_counters {
	char *const guard = (char *)guard_cell;

	[[gnu::always_inline]] void add(unsigned i)
	{
		int64_t v = *(volatile int64_t *)cell(i, area_cpu());

		while (percpu_seq_cmpxchg(at(i), guard, PERCPU_STRIDE, v, v + 1, &v))
			;
	}
};

/* Take the lock of this CPU by a sequence, add, release it by a store. The threads are pinned,
 * so they stay on the CPU whose lock they took. */
struct seq_spinlock : on_counters {
	char *const guard = (char *)guard_cell;
	char *const lock = (char *)lock_cell;

	[[gnu::always_inline]] void add(unsigned i)
	{
		int64_t held;
		int cpu;

		while (percpu_seq_cmpxchg(lock, guard, PERCPU_STRIDE, 0, 1, &held))
			sched_yield();
		cpu = area_cpu();
		increment(cell(i, cpu));
		__atomic_store_n((int64_t *)(lock + cpu * PERCPU_STRIDE), 0, __ATOMIC_RELEASE);
	}
};

inline void cmpxchg_add(uint64_t *word)
{
	uint64_t v = __atomic_load_n(word, __ATOMIC_RELAXED);

	while (!__atomic_compare_exchange_n(word, &v, v + 1, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

struct percpu_cmpxchg : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		cmpxchg_add(cell(i, area_cpu()));
	}
};

struct global_atomic : on_words {
	[[gnu::always_inline]] void add(unsigned i)
	{
		__atomic_fetch_add(&words[i], 1, __ATOMIC_RELAXED);
	}
};

struct global_cmpxchg : on_words {
	[[gnu::always_inline]] void add(unsigned i)
	{
		cmpxchg_add(&words[i]);
	}
};

struct global_mutex : on_words {
	[[gnu::always_inline]] void add(unsigned i)
	{
		pthread_mutex_lock(&mutex);
		increment(&words[i]);
		pthread_mutex_unlock(&mutex);
	}
};

/* Print when a plain increment takes less than an add: docs/measurements.md. */
static void print_plain(const results &r)
{
	static const struct {
		const char *title, *plain, *add;
	} pairs[] = {
		{ "address in a register", PLAIN, ADD },
		{ "static variable", STATIC, ADD },
		{ "8 words in turn", PLAIN IN_TURN, ADD IN_TURN },
		{ "amid work", PLAIN AMID_WORK, ADD AMID_WORK },
	};
	std::vector<std::vector<std::string>> lines = { { "", "threads", "plain", "lost", "add",
							  "ratio" } };

	for (auto &p : pairs)
		for (int threads : { 1, 2 }) {
			const row *x = r.find(p.plain, threads);

			lines.push_back({ p.title, std::to_string(threads), median_best(x), loss(x),
					  median_best(r.find(p.add, threads)),
					  ratio_text(r.ratio(p.plain, threads, p.add, threads)) });
		}
	printf("\nA plain increment of one word beside an add, ns, CPU time per thread: median (best)."
	       "\nThe work alone takes %s.\n\n",
	       median_best(r.find(WORK)).c_str());
	print_table(lines);
}

int main(int argc, char **argv)
{
	const std::vector<int> threads = { 1, 2, 8 };
	report all("slides", argc, argv);

	on_counters::make();
	must(percpu_region_alloc(on_counters::region, 64, 64, &guard_cell), "a guard");
	must(percpu_region_alloc(on_counters::region, 64, 64, &lock_cell), "a lock");
	measure<global_volatile>(PLAIN, threads);
	measure<counter_add>(ADD, threads);
	measure<seq_cmpxchg>(SEQ_CMPXCHG, threads);
	measure<seq_spinlock>(SEQ_SPINLOCK, threads);
	measure<percpu_atomic>(LOCKED, threads);
	measure<percpu_cmpxchg>(CPU_CMPXCHG, threads);
	measure<global_atomic>(GLOBAL_ATOMIC, threads);
	measure<global_cmpxchg>(GLOBAL_CMPXCHG, threads);
	measure<global_mutex>(GLOBAL_MUTEX, threads);
	measure<static_volatile>(STATIC);
	measure<global_volatile, in_turn>(PLAIN IN_TURN);
	measure<counter_add, in_turn>(ADD IN_TURN);
	measure<nothing, amid_work>(WORK);
	measure<global_volatile, amid_work>(PLAIN AMID_WORK);
	measure<counter_add, amid_work>(ADD AMID_WORK);
	measure<unprotected>(UNPROTECTED);
#ifdef HAVE_LIBRSEQ
	measure<librseq_add>(LIBRSEQ);
#else
	all.skip(LIBRSEQ, "pkg-config found no librseq");
#endif
	register_cpu_number(all);
	fprintf(stderr, "slides: measuring, for about a minute ...\n");
	all.run();
	print_increments(all);
	print_rows(all.rows, "Beside them", { UNPROTECTED, LIBRSEQ });
	print_plain(all.rows);
	print_cpu_number(all.rows);
	all.print_sections();
	return all.finish();
}
