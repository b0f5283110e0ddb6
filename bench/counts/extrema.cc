/* SPDX-License-Identifier: MIT */
/*
 * extrema.cc - the benchmark of extrema.h: observations that change nothing, which most are, and
 * those that do, beside adds to counters and beside other implementations; reading, resets.
 *
 * usage: extrema [--json FILE] [--benchmark_...]
 */
#include <atomic>

#include "objects.h"

#define OBSERVE "percpu_extrema_observe"
#define DOUBLE "percpu_extrema_observe_double"
#define PLAIN "TLS comparisons"
#define ATOMIC "std::atomic, compared and swapped"
#define SHARDED "sharded array of these"
#define RISING ", a new maximum each time"

template <bool rising> struct double_observe {
	static inline percpu_extrema *extrema[cells];

	static void make()
	{
		for (unsigned i = 0; i < cells && !extrema[i]; i++)
			must(percpu_extrema_create(PERCPU_EXTREMA_DOUBLE, &extrema[i]), "extrema");
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		(void)percpu_extrema_observe_double(extrema[i], double(next_value<rising>()));
	}
};

inline thread_local volatile int64_t tls_extremes[cells][2];

template <bool rising> struct tls_observe {
	[[gnu::always_inline]] void add(unsigned i)
	{
		const int64_t v = next_value<rising>();

		if (v < tls_extremes[i][0])
			tls_extremes[i][0] = v;
		if (v > tls_extremes[i][1])
			tls_extremes[i][1] = v;
	}
};

struct alignas(16) atomics {
	std::atomic<int64_t> min = INT64_MAX, max = INT64_MIN;

	[[gnu::always_inline]] void observe(int64_t v)
	{
		int64_t least = min.load(std::memory_order_relaxed);
		int64_t most = max.load(std::memory_order_relaxed);

		while (v < least && !min.compare_exchange_weak(least, v, std::memory_order_relaxed))
			;
		while (v > most && !max.compare_exchange_weak(most, v, std::memory_order_relaxed))
			;
	}
};

template <bool rising> struct atomic_observe {
	static inline atomics all[cells];

	[[gnu::always_inline]] void add(unsigned i)
	{
		all[i].observe(next_value<rising>());
	}
};

/* After Java's LongAccumulator: each thread has a shard, in cache lines of its own. */
template <bool rising> struct sharded_observe {
	struct alignas(64) shard {
		atomics all[cells];
	};
	static inline shard shards[16];
	static inline std::atomic<unsigned> threads;
	static inline thread_local const unsigned own = threads++ % 16;

	[[gnu::always_inline]] void add(unsigned i)
	{
		shards[own].all[i].observe(next_value<rising>());
	}
};

static void register_tiers()
{
	measure<counter_add>(ADD);
	measure<extrema_observe<false>>(OBSERVE);
	measure<extrema_observe<true>>(OBSERVE RISING);
}

template <template <bool> class C> static void measure_all(const std::string &name)
{
	measure<C<false>>(name);
	measure<C<true>>(name + RISING);
	measure<C<false>, in_turn>(name + IN_TURN);
	measure<C<false>, amid_work>(name + AMID_WORK);
}

static void register_all()
{
	static percpu_extrema *x;
	static int64_t min, max;

	measure<counter_add, in_turn>(ADD IN_TURN);
	measure<counter_add, amid_work>(ADD AMID_WORK);
	measure<extrema_observe<false>, in_turn>(OBSERVE IN_TURN);
	measure<extrema_observe<false>, amid_work>(OBSERVE AMID_WORK);
	measure_all<double_observe>(DOUBLE);
	measure_all<tls_observe>(PLAIN);
	measure_all<atomic_observe>(ATOMIC);
	measure_all<sharded_observe>(SHARDED);
	measure<hidden_cpu<extrema_observe<false>>>("fallback: " OBSERVE);
	measure<hidden_cpu<extrema_observe<true>>>("fallback: " OBSERVE RISING);
	must(percpu_extrema_create(0, &x), "extrema");
	must(percpu_extrema_observe(x, 1), "an observation");
	measure_call("percpu_extrema_fetch", [] { return percpu_extrema_fetch(x, &min, &max); });
	measure_call(
		"percpu_extrema_reset", [] { return percpu_extrema_reset(x); }, 1);
}

static void print_all(const results &r)
{
	print_rows(r, "An observation that changes nothing, ns, CPU time per thread: median (best)",
		   { ADD, OBSERVE, DOUBLE, PLAIN, ATOMIC, SHARDED, ADD IN_TURN, OBSERVE IN_TURN,
		     DOUBLE IN_TURN, PLAIN IN_TURN, ATOMIC IN_TURN, SHARDED IN_TURN,
		     "fallback: " OBSERVE });
	print_rows(r, "The same amid other work, whose time is included",
		   { ADD AMID_WORK, OBSERVE AMID_WORK, DOUBLE AMID_WORK, PLAIN AMID_WORK,
		     ATOMIC AMID_WORK, SHARDED AMID_WORK });
	print_rows(r, "A new maximum each time",
		   { OBSERVE RISING, DOUBLE RISING, PLAIN RISING, ATOMIC RISING, SHARDED RISING,
		     "fallback: " OBSERVE RISING });
	print_rows(r, "Reading and resetting", { "percpu_extrema_fetch", "percpu_extrema_reset" });
	for (std::string tier : { " (tier cpu)", " (tier shared)" })
		print_rows(r, ("The lower tiers:" + tier).c_str(),
			   { ADD + tier, OBSERVE + tier, OBSERVE RISING + tier });
}

int main(int argc, char **argv)
{
	report all("extrema", argc, argv);

	if (!all.run_tiers(register_tiers, register_all, "about a minute"))
		return 0;
	print_all(all.rows);
	all.add_aim("an observation that changes nothing to an add, 8 in turn", 2,
		    all.rows.ratio(OBSERVE IN_TURN, 1, ADD IN_TURN, 1));
	all.add_aim("the same, amid other work", 1.6,
		    all.rows.ratio(OBSERVE AMID_WORK, 1, ADD AMID_WORK, 1));
	all.add_aim("an observation by 2 threads, a new maximum each time, to an atomic one", 1,
		    all.rows.ratio(OBSERVE RISING, 2, ATOMIC RISING, 2));
	all.print_sections();
	return all.finish();
}
