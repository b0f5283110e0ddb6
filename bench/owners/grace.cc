/* SPDX-License-Identifier: MIT */
/*
 * grace.cc - the benchmark of grace.h: sections and grace periods, beside all flavors of
 * liburcu, if that is installed, and beside what programs use instead of grace periods.
 *
 * usage: grace [--json FILE] [--benchmark_...]
 */
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <percpu/grace.h>

#include "sections.h"

#define SECTION "percpu_grace, a section"
#define SHARED_SECTION "percpu_grace in a file, a section"
#define ATOMIC "atomic count, a section"
#define MUTEX "std::shared_mutex, a section"
#define PERIOD "percpu_grace_wait"
#define SHARED_PERIOD "percpu_grace_wait in a file"
#define CALLED "percpu_grace_call"
#define READ_ALL_THE_TIME ", another thread in and out of sections"

/* Each contender has a section, and nothing in it, and a period. */
struct on_grace {
	static inline percpu_grace *private_one, *shared_one;

	static void make()
	{
		if (private_one)
			return;
		must(percpu_grace_create(0, &private_one), "grace periods");
		must(percpu_grace_create_in(owners_in_file(), 0, &shared_one),
		     "grace periods in a file");
	}
};

template <bool shared> struct grace_section : on_grace {
	percpu_grace *const g = shared ? shared_one : private_one;

	[[gnu::always_inline]] void add(unsigned)
	{
		int token = percpu_grace_enter(g);

		if (percpu_unlikely(token < 0))
			__builtin_trap();
		percpu_grace_exit(g, token);
	}
	[[gnu::always_inline]] static void wait()
	{
		if (percpu_grace_wait(shared ? shared_one : private_one) != 0)
			__builtin_trap();
	}
};

/* What a program does without grace periods: it counts the threads that are inside. */
alignas(64) static std::atomic<int64_t> inside;

struct atomic_section {
	[[gnu::always_inline]] void add(unsigned)
	{
		inside.fetch_add(1, std::memory_order_acquire);
		__asm__ volatile("" ::: "memory");
		inside.fetch_sub(1, std::memory_order_release);
	}
};

/* Measure periods, in real time: a thread that waits may sleep. */
template <class C> void measure_period(const std::string &name)
{
	auto idle = [](benchmark::State &state) {
		for (auto _ : state)
			C::wait();
		state.counters["ops"] = double(state.iterations());
	};
	auto under_readers = [](benchmark::State &state) {
		std::atomic<bool> stop = false;
		std::thread reader([&] {
			while (!stop.load(std::memory_order_relaxed))
				run_batch<C, one_counter>();
		});

		for (auto _ : state)
			C::wait();
		state.counters["ops"] = double(state.iterations());
		stop = true;
		reader.join();
	};

	benchmark::RegisterBenchmark((name + row_suffix).c_str(), idle)->UseRealTime();
	benchmark::RegisterBenchmark((name + READ_ALL_THE_TIME + row_suffix).c_str(), under_readers)
		->UseRealTime();
}

static void free_it(percpu_grace_callback *c)
{
	free(c);
}

static int call_once()
{
	auto *c = static_cast<percpu_grace_callback *>(malloc(sizeof(percpu_grace_callback)));

	return c == nullptr ? -ENOMEM : percpu_grace_call(on_grace::private_one, c, free_it);
}

#define URCU_NAME(flavor) "liburcu-" #flavor ", a section",
#define URCU_PERIOD(flavor) "liburcu-" #flavor ", synchronize_rcu",
#define MEASURE_URCU(flavor)                                                                       \
	measure<urcu_##flavor##_section>("liburcu-" #flavor ", a section");                        \
	measure_period<urcu_##flavor##_section>("liburcu-" #flavor ", synchronize_rcu");

static std::vector<std::string> sections = { ADD, SECTION, SHARED_SECTION };
static std::vector<std::string> periods = { PERIOD };

static void measure_all()
{
	on_grace::make();
	measure<counter_add>(ADD);
	measure<grace_section<false>>(SECTION);
	measure<grace_section<true>>(SHARED_SECTION);
	measure<atomic_section>(ATOMIC);
	measure<mutex_section>(MUTEX);
	measure_period<grace_section<false>>(PERIOD);
	measure_period<grace_section<true>>(SHARED_PERIOD);
	measure_call(CALLED, call_once);
#ifdef HAVE_URCU
	URCU_FLAVORS(MEASURE_URCU)
	sections.insert(sections.end(), { URCU_FLAVORS(URCU_NAME) });
	periods.insert(periods.end(), { URCU_FLAVORS(URCU_PERIOD) });
#endif
	sections.insert(sections.end(), { ATOMIC, MUTEX });
	periods.push_back(SHARED_PERIOD);
}

/* Return the fastest flavor that requires nothing else of its readers. */
static std::string fastest(const results &rows)
{
	std::string best;

	for (const char *name :
	     { "liburcu-memb, a section", "liburcu-mb, a section", "liburcu-bp, a section" })
		if (rows.find(name) != nullptr &&
		    (best.empty() || rows.find(name)->median() < rows.find(best)->median()))
			best = name;
	return best;
}

int main(int argc, char **argv)
{
	report all("grace", argc, argv);
	std::vector<std::string> busy;

	fprintf(stderr, "grace: measuring, for about a minute ...\n");
	measure_all();
	all.run();
	for (const auto &name : periods)
		busy.push_back(name + READ_ALL_THE_TIME);
	print_rows(all.rows, "One section, ns, CPU time per thread: median (best)", sections);
	print_rows(all.rows, "One grace period, ns, real time, nobody in a section", periods);
	print_rows(all.rows, "The same, and another thread enters and leaves sections", busy);
	print_rows(all.rows, "A callback after a grace period, CPU time of the caller", { CALLED });
#ifndef HAVE_URCU
	all.skip("liburcu", "it is not installed");
#endif
	for (int threads : { 1, 2 })
		all.add_aim("a section to the fastest of liburcu without quiescent states, " +
				    std::to_string(threads) +
				    (threads == 1 ? " thread" : " threads"),
			    1.0, all.rows.ratio(SECTION, threads, fastest(all.rows), threads),
			    "liburcu was not measured");
	all.add_aim("an idle grace period to 20 us", 1.0, all.rows.ratio(PERIOD, 1, 20000));
	all.print_sections();
	return all.finish();
}
