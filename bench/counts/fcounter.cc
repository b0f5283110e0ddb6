/* SPDX-License-Identifier: MIT */
/*
 * fcounter.cc - the benchmark of fcounter.h: adds to counters of doubles beside those to
 * counters, and beside other implementations of counts of doubles; reading.
 *
 * usage: fcounter [--json FILE] [--benchmark_...]
 */
#include <atomic>

#include "objects.h"
#include "prometheus.h"

#define FADD "percpu_fcounter_add"
#define PLAIN "TLS addition of a double"
#define ATOMIC "std::atomic<double>"
#define SHARDED "sharded array of atomic doubles"
#define PROMETHEUS "prometheus-cpp Counter"

struct fcounter_array_add {
	static inline percpu_fcounter_array *array;
	const percpu_fcounter_array *const a = array;

	static void make()
	{
		if (!array)
			must(percpu_fcounter_array_create(cells, &array), "an array of doubles");
	}
	static void reset()
	{
		for (size_t i = 0; i < cells; i++)
			percpu_fcounter_array_zero(array, i);
	}
	static double total()
	{
		double sum = 0;

		for (size_t i = 0; i < cells; i++)
			sum += percpu_fcounter_array_fetch(array, i);
		return sum;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		(void)percpu_fcounter_array_add(a, i, 1.0);
	}
};

inline thread_local volatile double tls_sums[cells];

/* Each add waits for the sum before: an addition in memory, and no more. */
struct tls_add {
	[[gnu::always_inline]] void add(unsigned i)
	{
		tls_sums[i] = tls_sums[i] + 1.0;
	}
};

static void add_to(std::atomic<double> &sum, double n)
{
	double old = sum.load(std::memory_order_relaxed);

	while (!sum.compare_exchange_weak(old, old + n, std::memory_order_relaxed))
		;
}

struct atomic_double_add {
	static inline std::atomic<double> sum[cells];

	static void reset()
	{
		for (auto &s : sum)
			s = 0;
	}
	static double total()
	{
		double all = 0;

		for (auto &s : sum)
			all += s;
		return all;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		add_to(sum[i], 1.0);
	}
};

/* After Java's DoubleAdder: each thread has a shard, in a cache line of its own. */
struct sharded_add {
	struct alignas(64) shard {
		std::atomic<double> sum[cells];
	};
	static inline shard shards[16];
	static inline std::atomic<unsigned> threads;
	static inline thread_local const unsigned own = threads++ % 16;

	static void reset()
	{
		for (auto &s : shards)
			for (auto &sum : s.sum)
				sum = 0;
	}
	static double total()
	{
		double all = 0;

		for (auto &s : shards)
			for (auto &sum : s.sum)
				all += sum;
		return all;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		add_to(shards[own].sum[i], 1.0);
	}
};

static void register_tiers()
{
	measure<counter_add>(ADD);
	measure<fcounter_array_add>(FADD);
}

template <class C> static void measure_patterns(const std::string &name)
{
	measure<C, in_turn>(name + IN_TURN);
	measure<C, amid_work>(name + AMID_WORK);
}

static void register_all()
{
	static percpu_counter *c;
	static percpu_fcounter *f;

	measure<fcounter_add>(FADD ", a single one");
	measure<tls_add>(PLAIN);
	measure_patterns<tls_add>(PLAIN);
	measure_patterns<counter_add>(ADD);
	measure_patterns<fcounter_array_add>(FADD);
	measure<hidden_cpu<counter_add>>("fallback: " ADD);
	measure<hidden_cpu<fcounter_array_add>>("fallback: " FADD);
	measure<atomic_double_add>(ATOMIC);
	measure_patterns<atomic_double_add>(ATOMIC);
	measure<sharded_add>(SHARDED);
	measure_patterns<sharded_add>(SHARDED);
#ifdef HAVE_PROMETHEUS
	measure<prometheus_add<prometheus::Counter>>(PROMETHEUS);
	measure_patterns<prometheus_add<prometheus::Counter>>(PROMETHEUS);
#endif
	must(percpu_counter_create(&c), "a counter");
	must(percpu_fcounter_create(&f), "a counter of doubles");
	measure_call("percpu_counter_fetch", [] { return percpu_counter_fetch(c); });
	measure_call("percpu_fcounter_fetch", [] { return percpu_fcounter_fetch(f); });
}

static void print_all(const results &r)
{
	print_rows(r, "One add, ns, CPU time per thread: median (best)",
		   { ADD, FADD, FADD ", a single one", PLAIN, ATOMIC, SHARDED, PROMETHEUS,
		     ADD IN_TURN, FADD IN_TURN, PLAIN IN_TURN, ATOMIC IN_TURN, SHARDED IN_TURN,
		     PROMETHEUS IN_TURN, "fallback: " ADD, "fallback: " FADD });
	print_rows(r, "The same amid other work, whose time is included",
		   { ADD AMID_WORK, FADD AMID_WORK, PLAIN AMID_WORK, ATOMIC AMID_WORK,
		     SHARDED AMID_WORK, PROMETHEUS AMID_WORK });
	print_rows(r, "Reading", { "percpu_counter_fetch", "percpu_fcounter_fetch" });
	for (std::string tier : { " (tier cpu)", " (tier shared)" })
		print_rows(r, ("The lower tiers:" + tier).c_str(), { ADD + tier, FADD + tier });
}

int main(int argc, char **argv)
{
	report all("fcounter", argc, argv);

	if (!all.run_tiers(register_tiers, register_all, "about a minute"))
		return 0;
#ifndef HAVE_PROMETHEUS
	all.skip(PROMETHEUS, "prometheus-cpp is not installed");
#endif
	print_all(all.rows);
	all.add_aim("an add of a double to one of an integer", 1.6,
		    all.rows.ratio(FADD, 1, ADD, 1));
	all.add_aim("the same to an addition in memory, and no more", 1.2,
		    all.rows.ratio(FADD, 1, PLAIN, 1));
	all.add_aim("an add of a double to one of an integer, 8 counters in turn", 1.6,
		    all.rows.ratio(FADD IN_TURN, 1, ADD IN_TURN, 1));
	all.add_aim("the same, amid other work", 1.6,
		    all.rows.ratio(FADD AMID_WORK, 1, ADD AMID_WORK, 1));
	all.print_sections();
	return all.finish();
}
