/* SPDX-License-Identifier: MIT */
/*
 * slides.cc - the tables of the 2016 slides on restartable sequences, row by row, beside our
 * figures: increments, and the CPU number.
 *
 * usage: slides [--json FILE] [--benchmark_...]
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

#include "../cells.h"

#define PLAIN "global volatile inc"
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
	[[gnu::always_inline]] void add(unsigned i)
	{
		increment(&words[i]);
	}
};

/* The same where the compiler knows the address: x86-64 then has no register for it. */
struct static_volatile {
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

/* Measure reading the CPU number. As in the slides, each way has its own loop, and an empty loop
 * is measured for comparison. */
template <class F> static void measure_cpu_number(const char *name, F number)
{
	measure_call(std::string("CPU number: ") + name, number);
}

#ifdef __x86_64__
/* Return the CPU. The kernel keeps CPU and node in the limit of a segment: __CPUNODE_SEG. */
static unsigned lsl_cpu()
{
	unsigned limit;

	__asm__ volatile("lsl %1, %0" : "=r"(limit) : "r"(0x7b) : "cc");
	return limit & 0xfff;
}
#endif

static void register_cpu_number()
{
	measure_cpu_number("empty loop", [] { return 0u; });
	measure_cpu_number("rseq area",
			   [] { return (unsigned)*(volatile int32_t *)&percpu_self->cpu_id; });
#ifdef __x86_64__
	measure_cpu_number("lsl", lsl_cpu);
#endif
	/* getcpu(), as glibc's sched_getcpu() reads the rseq area. */
	measure_cpu_number("vDSO getcpu", [] {
		unsigned cpu = 0;

		getcpu(&cpu, nullptr);
		return cpu;
	});
	measure_cpu_number("system call", [] {
		unsigned cpu = 0;

		syscall(SYS_getcpu, &cpu, nullptr, nullptr);
		return cpu;
	});
}

static void print_slides(const results &r)
{
	static const struct {
		const char *name, *one, *eight;
		const char *ours;
	} published[] = {
		{ "global volatile inc (baseline)", "2.3", "", PLAIN },
		{ "per-CPU rseq inc", "2.1", "2.6", ADD },
		{ "per-CPU rseq lock, cmpxchg", "3.0", "3.4", "per-CPU rseq lock, cmpxchg" },
		{ "per-CPU rseq spinlock", "4.9", "5.2", "per-CPU rseq spinlock" },
		{ "per-CPU atomic inc", "6.2", "6.9", LOCKED },
		{ "per-CPU atomic cmpxchg", "10.0", "11.6", "per-CPU atomic cmpxchg" },
		{ "global atomic inc", "6.2", "134", "global atomic inc" },
		{ "global atomic cmpxchg", "10.0", "356", "global atomic cmpxchg" },
		{ "global pthread mutex", "19.2", "993", "global pthread mutex" },
	};

	printf("\nRestartable sequences, 2016 slides: counter increment, ns, "
	       "CPU time per thread\n"
	       "Published: Xeon E5-2630 v3. Here: median (best); 8 threads share %zu CPUs.\n\n"
	       "%-31s%8s%6s  %-15s%-15s%-15s%s\n",
	       usable_cpus().size(), "", "publ. 1", "8", "here 1", "2", "8", "lost");
	for (auto &p : published)
		printf("%-31s%8s%6s  %-15s%-15s%-15s%s\n", p.name, p.one, p.eight,
		       median_best(r.find(p.ours, 1)).c_str(),
		       median_best(r.find(p.ours, 2)).c_str(),
		       median_best(r.find(p.ours, 8)).c_str(), worst_loss(r, p.ours).c_str());
}

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

static void print_cpu_number(const results &r)
{
	static const struct {
		const char *name;
		double ns;
	} published[] = {
		{ "empty loop", 0.8 },	 { "rseq area", 0.8 },	  { "lsl", 13.0 },
		{ "vDSO getcpu", 16.6 }, { "system call", 53.9 },
	};

	printf("\nThe CPU number, 2016 slides, ns\n\n%-24s%8s  %s\n", "", "publ.", "here");
	for (auto &p : published)
		printf("%-24s%8.1f  %s\n", p.name, p.ns,
		       median_best(r.find(std::string("CPU number: ") + p.name)).c_str());
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
	measure<seq_cmpxchg>("per-CPU rseq lock, cmpxchg", threads);
	measure<seq_spinlock>("per-CPU rseq spinlock", threads);
	measure<percpu_atomic>(LOCKED, threads);
	measure<percpu_cmpxchg>("per-CPU atomic cmpxchg", threads);
	measure<global_atomic>("global atomic inc", threads);
	measure<global_cmpxchg>("global atomic cmpxchg", threads);
	measure<global_mutex>("global pthread mutex", threads);
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
	register_cpu_number();
	fprintf(stderr, "slides: measuring, for about a minute ...\n");
	all.run();
	print_slides(all.rows);
	print_rows(all.rows, "Beside them", { UNPROTECTED, LIBRSEQ });
	print_plain(all.rows);
	print_cpu_number(all.rows);
	all.print_sections();
	return all.finish();
}
