/* SPDX-License-Identifier: MIT */
/*
 * add.h - the frame in which updates of every kind are measured.
 *
 * A contender is a struct with add(i), which adds to the ith of 8 counters. It may have make(),
 * which is called once, before all else; and reset() and total(), which tell whether no add was
 * lost: then the benchmark fails, unless the contender has loses. adds says how many adds one
 * add() makes, if not one.
 *
 * Pinned threads run batches of 1024 adds, unrolled by 8. In the plain pattern all go to one
 * counter, so an add may have to wait for the store of the one before it; "8 in turn" goes round
 * 8 counters; "amid work" has some 40 cycles of other work before each add. After each run
 * thread 0 compares the sum with what was added.
 */
#ifndef BENCH_ADD_H
#define BENCH_ADD_H

#include <percpu/percpu.h>
#include <percpu/seq.h>

#include "report.h"

/* Suffixes of the names of rows, by pattern. */
#define IN_TURN ", 8 in turn"
#define AMID_WORK ", amid work"

enum pattern { one_counter, in_turn, amid_work };

constexpr unsigned cells = 8;
constexpr unsigned add_batch = 1024;

/* Which core thread 0 runs on: each in turn, as they may differ. */
inline unsigned first_core;

template <class C, class = void> struct can_sum : std::false_type {
};
template <class C> struct can_sum<C, std::void_t<decltype(C::total())>> : std::true_type {
};

template <class C, class = void> struct has_make : std::false_type {
};
template <class C> struct has_make<C, std::void_t<decltype(C::make())>> : std::true_type {
};

template <class C, class = void> struct adds_of : std::integral_constant<unsigned, 1> {
};
template <class C>
struct adds_of<C, std::void_t<decltype(C::adds)>> : std::integral_constant<unsigned, C::adds> {
};

template <class C, class = void> struct may_lose : std::false_type {
};
template <class C> struct may_lose<C, std::void_t<decltype(C::loses)>> : std::true_type {
};

/* A chain of some 40 cycles of work. "amid work" has one before each add: a CPU that runs ahead
 * hides most of the next add in it. */
[[gnu::always_inline]] inline uint64_t work(uint64_t x)
{
	for (int i = 0; i < 8; i++)
		x = (x ^ x >> 7) * 0x9e3779b97f4a7c15;
	__asm__ volatile("" : "+r"(x));
	return x;
}

template <class C, pattern p> __attribute__((noinline, aligned(64))) void run_batch()
{
	constexpr unsigned n = p == in_turn ? cells : 1;
	uint64_t x = 1;
	C c;
	auto step = [&](unsigned i) __attribute__((always_inline))
	{
		if (p == amid_work)
			x = work(x);
		c.add(i % n);
	};

	for (unsigned i = 0; i < add_batch; i += 8) {
		step(0);
		step(1);
		step(2);
		step(3);
		step(4);
		step(5);
		step(6);
		step(7);
	}
}

template <class C> void before_run(const benchmark::State &)
{
	first_core++;
	if constexpr (can_sum<C>::value)
		C::reset();
}

template <class C, pattern p> void run_adds(benchmark::State &state)
{
	pinned here(state.thread_index(), first_core);

	percpu_seq_attach();
	for (auto _ : state)
		run_batch<C, p>();

	double ops = double(state.iterations()) * add_batch;

	state.counters["ops"] = ops;
	/* All threads have left the loop. */
	if constexpr (can_sum<C>::value)
		if (state.thread_index() == 0)
			note_loss(state,
				  ops * state.threads() * adds_of<C>::value - double(C::total()),
				  may_lose<C>::value);
}

/* Measure a contender with each of these numbers of threads. */
template <class C, pattern p = one_counter>
void measure(const std::string &name, const std::vector<int> &threads = { 1, 2 })
{
	auto *b = benchmark::RegisterBenchmark((name + row_suffix).c_str(), run_adds<C, p>);

	if constexpr (has_make<C>::value)
		C::make();
	b->Setup(before_run<C>);
	for (int t : threads)
		b->Threads(t);
}

/* Measure a call, pinned: fn() so many times per iteration. */
template <class F>
benchmark::internal::Benchmark *measure_call(const std::string &name, F fn, unsigned batch = 64)
{
	auto loop = [fn, batch](benchmark::State &state) {
		pinned here(0);
		const unsigned n = batch; /* in a register, so that the loop takes little */

		percpu_seq_attach();
		for (auto _ : state)
			for (unsigned i = 0; i < n; i++)
				benchmark::DoNotOptimize(fn());
		state.counters["ops"] = double(state.iterations()) * batch;
	};

	return benchmark::RegisterBenchmark((name + row_suffix).c_str(), loop);
}

/* A contender in a thread whose CPU number is hidden, so that no sequence starts. Only a
 * benchmark may do this to the library's variable. */
template <class contender> struct hidden_cpu : contender {
	percpu_rseq *const saved = percpu_seq_attach();
	percpu_rseq nobody = {};

	hidden_cpu()
	{
		nobody.cpu_id = -1;
		percpu_self = &nobody;
	}
	~hidden_cpu()
	{
		percpu_self = saved;
	}
};

#endif
