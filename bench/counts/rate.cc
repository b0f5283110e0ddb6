/* SPDX-License-Identifier: MIT */
/*
 * rate.cc - the benchmark of rate.h: checks that allow an event, and checks that refuse it,
 * beside FreeBSD's way, a bucket of tokens in an atomic word, and a count under a mutex. All
 * have the same clock. All but the bucket count refused events, too.
 *
 * usage: rate [--json FILE] [--benchmark_...]
 */
#include <cstdio>
#include <ctime>
#include <mutex>

#include <percpu/freebsd/rate.h>

#include "objects.h"

#define CHECK "percpu_rate_check"
#define FREEBSD "counter_ratecheck, ours"
#define SUMMED "counter_ratecheck, as FreeBSD's"
#define BUCKET "atomic token bucket"
#define MUTEX "count under a mutex"
#define CLOCK "the clock alone"
#define BELOW ", let through"
#define ABOVE ", refused"

static uint32_t now_ms()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return uint32_t(uint64_t(t.tv_sec) * 1000 + uint64_t(t.tv_nsec) / 1000000);
}

/* Limits: enough for a second of any contender, or almost none. */
constexpr uint32_t all = PERCPU_RATE_MAX, few = 10;
constexpr uint32_t period = rate_check<all>::period;

template <uint32_t limit> struct freebsd_check {
	static inline counter_rate *rate;

	static void make()
	{
		if (!rate)
			rate = counter_rate_alloc(M_WAITOK, 1);
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		benchmark::DoNotOptimize(counter_ratecheck(rate, limit));
	}
};

/* A count per CPU, which is summed until it has exceeded the limit. */
template <uint32_t limit> struct summed_check {
	static inline percpu_counter *counter;
	static inline struct alignas(64) {
		uint32_t start;
		bool over;
	} shared;

	static void make()
	{
		if (!counter)
			must(percpu_counter_create(&counter), "a counter");
	}
	static bool check()
	{
		uint32_t start = __atomic_load_n(&shared.start, __ATOMIC_ACQUIRE), now = now_ms();

		if (now - start >= period &&
		    __atomic_compare_exchange_n(&shared.start, &start, now, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED)) {
			percpu_counter_zero(counter);
			__atomic_store_n(&shared.over, false, __ATOMIC_RELEASE);
		}
		percpu_counter_add(counter, 1);
		if (__atomic_load_n(&shared.over, __ATOMIC_RELAXED))
			return false;
		if (percpu_counter_fetch(counter) <= limit)
			return true;
		__atomic_store_n(&shared.over, true, __ATOMIC_RELAXED);
		return false;
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		benchmark::DoNotOptimize(check());
	}
};

/* The tokens left in the period, and its start, in one word. */
template <uint32_t limit> struct bucket_check {
	static inline struct alignas(64) {
		uint64_t word;
	} shared;

	static bool check()
	{
		uint64_t w = __atomic_load_n(&shared.word, __ATOMIC_ACQUIRE), next;

		do {
			uint32_t now = now_ms(), start = uint32_t(w >> 32);

			next = now - start >= period ? uint64_t(now) << 32 | limit : w;
			if (uint32_t(next) == 0)
				return false;
		} while (!__atomic_compare_exchange_n(&shared.word, &w, next - 1, false,
						      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
		return true;
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		benchmark::DoNotOptimize(check());
	}
};

template <uint32_t limit> struct mutex_check {
	static inline struct alignas(64) {
		std::mutex lock;
		uint64_t allowed, refused;
		uint32_t start, n;
	} shared;

	static bool check()
	{
		std::lock_guard<std::mutex> guard(shared.lock);
		uint32_t now = now_ms();

		if (now - shared.start >= period) {
			shared.start = now;
			shared.n = 0;
		}
		bool allowed = shared.n < limit;
		shared.n += allowed;
		(allowed ? shared.allowed : shared.refused)++;
		return allowed;
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		benchmark::DoNotOptimize(check());
	}
};

struct clock_alone {
	[[gnu::always_inline]] void add(unsigned)
	{
		benchmark::DoNotOptimize(now_ms());
	}
};

template <template <uint32_t> class C> static void measure_both(const std::string &name)
{
	measure<C<all>>(name + BELOW);
	measure<C<few>>(name + ABOVE);
}

int main(int argc, char **argv)
{
	report out("rate", argc, argv);

	fprintf(stderr, "rate: measuring, for about half a minute ...\n");
	measure<counter_add>(ADD);
	measure<clock_alone>(CLOCK);
	measure_both<rate_check>(CHECK);
	measure_both<freebsd_check>(FREEBSD);
	measure_both<summed_check>(SUMMED);
	measure_both<bucket_check>(BUCKET);
	measure_both<mutex_check>(MUTEX);
	out.run();
	print_rows(out.rows,
		   "One event that is let through, ns, CPU time per thread: median (best)",
		   { ADD, CLOCK, CHECK BELOW, FREEBSD BELOW, SUMMED BELOW, BUCKET BELOW,
		     MUTEX BELOW });
	print_rows(out.rows, "One that is refused",
		   { CHECK ABOVE, FREEBSD ABOVE, SUMMED ABOVE, BUCKET ABOVE, MUTEX ABOVE });
	out.print_sections();
	return out.finish();
}
