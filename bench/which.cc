/* SPDX-License-Identifier: MIT */
/*
 * which.cc - one update of each kind of object that counts, in one run: the row of the table of
 * docs/which.md, and its picture. Beside them, an atomic add to one word.
 *
 * usage: which [--json FILE] [--benchmark_...]
 */
#include <atomic>
#include <cstdio>

#include <percpu/approx.h>
#include <percpu/extrema.h>
#include <percpu/fcounter.h>
#include <percpu/gauge.h>
#include <percpu/histogram.h>
#include <percpu/rate.h>

#include "cells.h"
#include "objects.h"
#include "owners/owners.h"

#define ATOMIC "std::atomic add"

/* One counter of an array. */
struct array_add {
	static inline percpu_counter_array *array;
	const percpu_counter_array *const a = array;

	static void make()
	{
		must(percpu_counter_array_create(cells, &array), "an array");
	}
	static void reset()
	{
		for (unsigned i = 0; i < cells; i++)
			percpu_counter_array_zero(array, i);
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (unsigned i = 0; i < cells; i++)
			sum += percpu_counter_array_fetch(array, i);
		return sum;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_counter_array_add(a, i, 1);
	}
};

struct fcounter_add {
	static inline percpu_fcounter *counter;
	percpu_fcounter *const c = counter;

	static void make()
	{
		must(percpu_fcounter_create(&counter), "a counter of doubles");
	}
	static void reset()
	{
		percpu_fcounter_zero(counter);
	}
	static double total()
	{
		return percpu_fcounter_fetch(counter);
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		(void)percpu_fcounter_add(c, 1.0);
	}
};

struct gauge_add {
	static inline percpu_gauge *gauge;
	percpu_gauge *const g = gauge;

	static void make()
	{
		must(percpu_gauge_create(&gauge), "a gauge");
	}
	static void reset()
	{
		must(percpu_gauge_set(gauge, 0), "to set a gauge");
	}
	static double total()
	{
		return double(percpu_gauge_fetch(gauge));
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_gauge_add(g, 1);
	}
};

/* The value is loaded, so that the compiler does not know its bucket. */
struct histogram_record {
	static inline percpu_histogram *histogram;
	static inline percpu_histogram_snapshot *snapshot;
	static inline volatile const double value = 1.1e-6;
	const percpu_histogram *const h = histogram;

	static void make()
	{
		must(percpu_histogram_create(nullptr, &histogram), "a histogram");
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
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_histogram_record(h, value);
	}
};

/* As most observations: nothing changes. */
struct extrema_observe {
	static inline percpu_extrema *extrema;
	percpu_extrema *const x = extrema;

	static void make()
	{
		must(percpu_extrema_create(0, &extrema), "extrema");
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		(void)percpu_extrema_observe(x, 5);
	}
};

struct approx_add {
	static inline percpu_approx *sum;
	const percpu_approx *const a = sum;

	static void make()
	{
		must(percpu_approx_create(nullptr, &sum), "a sum");
	}
	static void reset()
	{
		percpu_approx_zero(sum);
	}
	static double total()
	{
		return double(percpu_approx_fetch(sum));
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_approx_add(a, 1);
	}
};

/* The limit lets all through. */
struct rate_check {
	static inline percpu_rate *rate;

	static void make()
	{
		must(percpu_rate_create(PERCPU_RATE_MAX, 1000, &rate), "a rate");
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		benchmark::DoNotOptimize(percpu_rate_check(rate));
	}
};

struct owned_add {
	static inline percpu_owned_gauge *gauge;

	static void make()
	{
		must(percpu_owned_gauge_create_in(owners_in_file(), PERCPU_OWNED_SUM, &gauge),
		     "an owned gauge");
	}
	static void reset()
	{
		must(percpu_owned_gauge_set(gauge, 0), "to set");
	}
	static double total()
	{
		int64_t v;

		must(percpu_owned_gauge_fetch(gauge, PERCPU_OWNED_LIVING, &v), "to fetch");
		return double(v);
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_owned_gauge_add(gauge, 1);
	}
};

struct atomic_add {
	alignas(64) static inline std::atomic<uint64_t> word;

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
		word.fetch_add(1, std::memory_order_relaxed);
	}
};

int main(int argc, char **argv)
{
	report all("which", argc, argv);

	fprintf(stderr, "which: measuring, for about 40 seconds ...\n");
	measure<counter_add>(ADD);
	measure<array_add>("percpu_counter_array_add");
	measure<stats_add<0>>("percpu_stats_add");
	measure<stats_update<0>>("percpu_stats_update, 4 fields");
	measure<compact_add>("percpu_compact_add");
	measure<wbuf_add<1>>("percpu_wbuf_add");
	measure<fcounter_add>("percpu_fcounter_add");
	measure<gauge_add>("percpu_gauge_add");
	measure<histogram_record>("percpu_histogram_record");
	measure<extrema_observe>("percpu_extrema_observe");
	measure<approx_add>("percpu_approx_add");
	measure<rate_check>("percpu_rate_check");
	measure<owned_add>("percpu_owned_gauge_add");
	measure<atomic_add>(ATOMIC);
	all.run();
	print_rows(all.rows, "One update of each kind, ns, CPU time per thread: median (best)",
		   { ADD, "percpu_counter_array_add", "percpu_stats_add",
		     "percpu_stats_update, 4 fields", "percpu_compact_add", "percpu_wbuf_add",
		     "percpu_fcounter_add", "percpu_gauge_add", "percpu_histogram_record",
		     "percpu_extrema_observe", "percpu_approx_add", "percpu_rate_check",
		     "percpu_owned_gauge_add", ATOMIC });
	all.print_sections();
	return all.finish();
}
