/* SPDX-License-Identifier: MIT */
/*
 * approx.cc - the benchmark of approx.h: approximate reads beside plain loads; adds, also below
 * a limit, beside those to counters, and beside what programs write themselves.
 *
 * usage: approx [--json FILE] [--benchmark_...]
 */
#include <atomic>
#include <cstdio>

#include "objects.h"

#define PLAIN_LOAD "plain load"
#define ATOMIC_LOAD "std::atomic load"
#define ARRAY_SUM "sharded array, sum"
#define READ "percpu_approx_estimate"
#define FETCH "percpu_approx_fetch"
#define COMPARE "percpu_approx_compare, far"
#define COMPARE_NEAR "percpu_approx_compare, near"
#define AADD "percpu_approx_add"
#define BELOW "percpu_approx_add_below, away from the limit"
#define NEAR "percpu_approx_add_below, near the limit"
#define REFUSED "percpu_approx_add_below, at the limit"
#define ATOMIC_ADD "std::atomic add"
#define ATOMIC_BELOW "std::atomic compare-and-swap below a limit"
#define ARRAY_ADD "sharded array, add"

constexpr int64_t far_away = INT64_C(1) << 60;

struct approx_below : on_approx {
	[[gnu::always_inline]] void add(unsigned)
	{
		if (percpu_approx_add_below(a, 1, far_away) != 0)
			__builtin_trap();
	}
};

/* A separate sum with such a low limit that all adds go to one word. */
struct approx_near {
	static inline percpu_approx *sum;
	const percpu_approx *const a = sum;

	static void make()
	{
		if (!sum)
			must(percpu_approx_create(nullptr, &sum), "a sum");
		if (percpu_approx_add_below(sum, 100, 100) != 0 ||
		    percpu_approx_add_below(sum, 1, 100) == 0)
			must(-ERANGE, "a limit");
		percpu_approx_zero(sum);
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		if (percpu_approx_add_below(a, 1, 100) == 0)
			percpu_approx_add(a, -1);
	}
};

struct approx_refused {
	static inline percpu_approx *sum;
	const percpu_approx *const a = sum;

	static void make()
	{
		if (sum)
			return;
		must(percpu_approx_create(nullptr, &sum), "a sum");
		must(percpu_approx_add_below(sum, 100, 100), "a limit");
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		if (percpu_approx_add_below(a, 1, 100) == 0)
			__builtin_trap();
	}
};

/* Use a value: the compiler must load it into a register. */
[[gnu::always_inline]] inline void use(int64_t v)
{
	__asm__ volatile("" : : "r"(v));
}

struct approx_read {
	const percpu_approx *const a = on_approx::sum;

	static void make()
	{
		on_approx::make();
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		use(percpu_approx_estimate(a));
	}
	static uint64_t total() = delete;
};

struct approx_fetch {
	static void make()
	{
		on_approx::make();
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		use(percpu_approx_fetch(on_approx::sum));
	}
};

template <int64_t v> struct approx_compare {
	static void make()
	{
		on_approx::make();
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		use(percpu_approx_compare(on_approx::sum, v));
	}
};

alignas(64) static volatile int64_t plain;

struct plain_load {
	[[gnu::always_inline]] void add(unsigned)
	{
		use(plain);
	}
};

struct atomic_load {
	[[gnu::always_inline]] void add(unsigned)
	{
		use(atomic_add::word.load());
	}
};

struct atomic_below : atomic_add {
	[[gnu::always_inline]] void add(unsigned)
	{
		int64_t v = word.load(std::memory_order_relaxed);

		do {
			if (v + 1 > far_away)
				__builtin_trap();
		} while (!word.compare_exchange_weak(v, v + 1, std::memory_order_relaxed));
	}
};

/* Like Java's LongAdder: a thread has one of 16 lines, and a sum reads all. */
struct alignas(64) shard {
	std::atomic<int64_t> n;
};
static shard shards[16];
static std::atomic<unsigned> threads_seen;
static thread_local const unsigned mine = threads_seen++ % 16;

struct sharded_add {
	static void reset()
	{
		for (auto &s : shards)
			s.n = 0;
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (auto &s : shards)
			sum += (uint64_t)s.n.load(std::memory_order_relaxed);
		return sum;
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		shards[mine].n.fetch_add(1, std::memory_order_relaxed);
	}
};

struct array_sum {
	[[gnu::always_inline]] void add(unsigned)
	{
		use((int64_t)sharded_add::total());
	}
};

static void measure_reads()
{
	measure<plain_load>(PLAIN_LOAD);
	measure<atomic_load>(ATOMIC_LOAD);
	measure<approx_read>(READ);
	measure<array_sum>(ARRAY_SUM);
	measure<approx_fetch>(FETCH);
	measure<approx_compare<far_away>>(COMPARE);
	measure<approx_compare<0>>(COMPARE_NEAR);
}

static void measure_adds()
{
	measure<counter_add>(ADD);
	measure<approx_add>(AADD);
	measure<approx_below>(BELOW);
	measure<atomic_add>(ATOMIC_ADD);
	measure<atomic_below>(ATOMIC_BELOW);
	measure<sharded_add>(ARRAY_ADD);
	measure<approx_near>(NEAR);
	measure<approx_refused>(REFUSED);
}

int main(int argc, char **argv)
{
	report all("approx", argc, argv);

	fprintf(stderr, "approx: measuring, for about half a minute ...\n");
	measure_reads();
	measure_adds();
	all.run();
	print_rows(all.rows, "One read, ns, CPU time per thread: median (best)",
		   { PLAIN_LOAD, ATOMIC_LOAD, READ, COMPARE, COMPARE_NEAR, FETCH, ARRAY_SUM });
	print_rows(all.rows, "One add", { ADD, AADD, BELOW, ATOMIC_ADD, ATOMIC_BELOW, ARRAY_ADD });
	print_rows(all.rows, "Near a limit: an add and giving back; an add that is refused",
		   { NEAR, REFUSED });
	all.add_aim("an approximate read to a plain load", 2.0,
		    all.rows.ratio(READ, 1, PLAIN_LOAD, 1));
	all.add_aim("an add below a limit, away from it, to one to a counter", 3.0,
		    all.rows.ratio(BELOW, 1, ADD, 1));
	all.print_sections();
	return all.finish();
}
