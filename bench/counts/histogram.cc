/* SPDX-License-Identifier: MIT */
/*
 * histogram.cc - the benchmark of histogram.h: records beside adds to counters, and beside other
 * implementations of histograms; reading.
 *
 * usage: histogram [--json FILE] [--benchmark_...]
 */
#include <atomic>
#include <ctime>

#include <percpu/timer.h>

#include "objects.h"
#include "peers.h"
#include "prometheus.h"

#define RECORD "percpu_histogram_record"
#define TICKS "percpu_histogram_record_ticks"
#define BOUNDS "the same, 15 own bounds"
#define TICK_BOUNDS "the same, 15 own bounds, ticks"
#define TIMER "percpu_timer_start, _record"
#define CLOCK "two clock_gettime, a record"
#define OF_TICKS ", ticks"
#define ATOMIC "std::atomic buckets and sum"
#define PROMETHEUS "prometheus-cpp Histogram"

/* The values of in_seconds, in ns. */
static volatile const uint64_t in_ns[cells] = { 1100,	3700,	 22000,	   99000,
						410000, 1300000, 29000000, 170000000 };

struct of_ticks {
	static constexpr uint64_t ticks_per_unit = 1000000000;
};

struct record : on_histogram<of_doubles> {
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_histogram_record(h, in_seconds[i]);
	}
};

struct record_ticks : on_histogram<of_ticks> {
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_histogram_record_ticks(h, in_ns[i]);
	}
};

/* 15 bounds of the program's own, as prometheus-cpp has. */
template <class Value> struct on_bounds {
	static inline percpu_histogram *histogram;
	static inline percpu_histogram_snapshot *snapshot;
	const percpu_histogram *const h = histogram;

	static void make()
	{
		static const double bounds[] = { 1e-6,	 2.5e-6, 1e-5,	 2.5e-5, 1e-4,
						 2.5e-4, 1e-3,	 2.5e-3, 1e-2,	 2.5e-2,
						 0.1,	 0.25,	 1,	 2.5,	 10 };
		percpu_histogram_options o = {};

		o.size = sizeof(o);
		o.ticks_per_unit = Value::ticks_per_unit;
		o.bounds = bounds;
		o.bounds_n = sizeof(bounds) / sizeof(bounds[0]);
		if (histogram)
			return;
		must(percpu_histogram_create(&o, &histogram), "a histogram");
		must(percpu_histogram_snapshot_create(histogram, &snapshot), "a snapshot");
	}
	static void reset()
	{
		must(percpu_histogram_zero(histogram, 0), "a reset");
	}
	static uint64_t total()
	{
		must(percpu_histogram_fetch(histogram, 0, snapshot), "a snapshot");
		return snapshot->count;
	}
};

struct bounds_record : on_bounds<of_doubles> {
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_histogram_record(h, in_seconds[i]);
	}
};

struct bounds_record_ticks : on_bounds<of_ticks> {
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_histogram_record_ticks(h, in_ns[i]);
	}
};

/* How long nothing takes. */
template <class Value> struct timer_record : on_histogram<Value> {
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_timer_record(percpu_timer_start(), this->h);
	}
};

static uint64_t read_clock()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The same by the clock. */
struct clock_record : on_histogram<of_doubles> {
	[[gnu::always_inline]] void add(unsigned)
	{
		uint64_t start = read_clock();

		percpu_histogram_record(h, (double)(int64_t)(read_clock() - start) * 1e-9);
	}
};

struct clock_record_ticks : on_histogram<of_ticks> {
	[[gnu::always_inline]] void add(unsigned)
	{
		uint64_t start = read_clock();

		percpu_histogram_record_ticks(h, read_clock() - start);
	}
};

/* What programs write themselves: a bucket per octave, found by its bits, and a sum. */
struct atomic_record {
	static inline std::atomic<uint64_t> bucket[64];
	static inline std::atomic<double> sum;

	static void reset()
	{
		for (auto &b : bucket)
			b = 0;
	}
	static uint64_t total()
	{
		uint64_t all = 0;

		for (auto &b : bucket)
			all += b;
		return all;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		double old = sum.load(std::memory_order_relaxed);

		bucket[63 - __builtin_clzll(in_ns[i])].fetch_add(1, std::memory_order_relaxed);
		while (!sum.compare_exchange_weak(old, old + in_seconds[i],
						  std::memory_order_relaxed))
			;
	}
};

/* Start timers until the rate of the CPU's counter is known. */
static void find_rate()
{
	const uint64_t begun = read_clock();

	while (read_clock() - begun < 50000000)
		percpu_timer_start();
}

static const peer *const crates = find_peers();

template <unsigned I> struct crate_record {
	static inline void *made;
	const peer &of = crates[I];
	const void *const h = made;

	static void reset()
	{
		if (made)
			crates[I].destroy(made);
		made = crates[I].create();
	}
	static uint64_t total()
	{
		return crates[I].total(made);
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		of.record(h, in_seconds[i], in_ns[i]);
	}
};

static void register_tiers()
{
	measure<counter_add>(ADD);
	measure<record>(RECORD);
	measure<record_ticks>(TICKS);
}

template <class C> static void measure_patterns(const std::string &name)
{
	measure<C, in_turn>(name + IN_TURN);
	measure<C, amid_work>(name + AMID_WORK);
}

template <unsigned I = 0> static void register_crates()
{
	if constexpr (I < peers) {
		measure<crate_record<I>>(crates[I].name);
		measure_patterns<crate_record<I>>(crates[I].name);
		register_crates<I + 1>();
	}
}

static void register_all()
{
	measure_patterns<counter_add>(ADD);
	measure_patterns<record>(RECORD);
	measure_patterns<record_ticks>(TICKS);
	measure<bounds_record>(BOUNDS);
	measure_patterns<bounds_record>(BOUNDS);
	measure<bounds_record_ticks>(TICK_BOUNDS);
	measure_patterns<bounds_record_ticks>(TICK_BOUNDS);
	find_rate();
	measure<timer_record<of_doubles>>(TIMER);
	measure<timer_record<of_ticks>>(TIMER OF_TICKS);
	measure<clock_record>(CLOCK);
	measure<clock_record_ticks>(CLOCK OF_TICKS);
	measure<hidden_cpu<counter_add>>("fallback: " ADD);
	measure<hidden_cpu<record>>("fallback: " RECORD);
	measure<atomic_record>(ATOMIC);
	measure_patterns<atomic_record>(ATOMIC);
#ifdef HAVE_PROMETHEUS
	measure<prometheus_record>(PROMETHEUS);
	measure_patterns<prometheus_record>(PROMETHEUS);
#endif
	if (crates)
		register_crates();
	record::make();
	measure_call("percpu_histogram_fetch, 240 buckets", [] { return record::total(); });
}

/* Return the names of a pattern's rows. */
static std::vector<std::string> rows_of(const std::string &pattern)
{
	std::vector<std::string> rows = { ADD,	       RECORD, TICKS,	  BOUNDS,
					  TICK_BOUNDS, ATOMIC, PROMETHEUS };

	for (unsigned i = 0; crates && i < peers; i++)
		rows.push_back(crates[i].name);
	for (auto &name : rows)
		name += pattern;
	return rows;
}

static void print_all(const results &r)
{
	print_rows(r, "One record, ns, CPU time per thread: median (best)", rows_of(""));
	print_rows(r, "Some buckets in turn", rows_of(IN_TURN));
	print_rows(r, "Amid other work, whose time is included", rows_of(AMID_WORK));
	print_rows(r, "How long something takes", { TIMER, CLOCK, TIMER OF_TICKS, CLOCK OF_TICKS });
	print_rows(r, "Without the number of the CPU", { "fallback: " ADD, "fallback: " RECORD });
	print_rows(r, "Reading", { "percpu_histogram_fetch, 240 buckets" });
	for (std::string tier : { " (tier cpu)", " (tier shared)" })
		print_rows(r, ("The lower tiers:" + tier).c_str(),
			   { ADD + tier, RECORD + tier, TICKS + tier });
}

int main(int argc, char **argv)
{
	report all("histogram", argc, argv);

	if (!all.run_tiers(register_tiers, register_all, "about a minute"))
		return 0;
#ifndef HAVE_PROMETHEUS
	all.skip(PROMETHEUS, "prometheus-cpp is not installed");
#endif
	if (!crates)
		all.skip("Rust crates", "there is no cargo, or it could not build bench/peers");
	print_all(all.rows);
	all.add_aim("a record of a double to an add, amid other work", 2.5,
		    all.rows.ratio(RECORD AMID_WORK, 1, ADD AMID_WORK, 1));
	all.add_aim("a record of ticks to an add, amid other work", 2.5,
		    all.rows.ratio(TICKS AMID_WORK, 1, ADD AMID_WORK, 1));
	all.add_aim("15 own bounds to exponential buckets", 1.5,
		    all.rows.ratio(BOUNDS, 1, RECORD, 1));
	all.add_aim("the same, 8 buckets in turn", 1.5,
		    all.rows.ratio(BOUNDS IN_TURN, 1, RECORD IN_TURN, 1));
	all.add_aim("the same, amid other work", 1.1,
		    all.rows.ratio(BOUNDS AMID_WORK, 1, RECORD AMID_WORK, 1));
	all.add_aim("the same of ticks", 1.5, all.rows.ratio(TICK_BOUNDS, 1, TICKS, 1));
	all.add_aim("a timer to two readings of the clock and a record", 0.6,
		    all.rows.ratio(TIMER, 1, CLOCK, 1));
	all.add_aim("the same, of ticks", 0.6,
		    all.rows.ratio(TIMER OF_TICKS, 1, CLOCK OF_TICKS, 1));
#ifdef HAVE_PROMETHEUS
	all.add_aim("a record of a double to one of prometheus-cpp", 0.167,
		    all.rows.ratio(RECORD, 1, PROMETHEUS, 1));
	all.add_aim("the same, 8 buckets in turn", 0.167,
		    all.rows.ratio(RECORD IN_TURN, 1, PROMETHEUS IN_TURN, 1));
#endif
	all.print_sections();
	return all.finish();
}
