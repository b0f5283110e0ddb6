/* SPDX-License-Identifier: MIT */
/*
 * objects.h - updates of counting objects, as contenders of add.h, each with the number of objects
 * that its benchmark needs. bench/which measures one update of each.
 */
#ifndef BENCH_OBJECTS_H
#define BENCH_OBJECTS_H

#include <atomic>

#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/extrema.h>
#include <percpu/fcounter.h>
#include <percpu/gauge.h>
#include <percpu/histogram.h>
#include <percpu/rate.h>
#include <percpu/wbuf.h>

#include "cells.h"

struct on_array {
	static inline percpu_counter_array *array; /* 8 lines of 8 */
	static constexpr int64_t ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };

	static void make()
	{
		if (!array)
			must(percpu_counter_array_create(cells * 8, &array), "an array");
	}
	static void reset()
	{
		for (size_t i = 0; i < array->n; i++)
			percpu_counter_array_zero(array, i);
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (size_t i = 0; i < array->n; i++)
			sum += percpu_counter_array_fetch(array, i);
		return sum;
	}
};

struct array_add : on_array {
	const percpu_counter_array *const a = array;

	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_counter_array_add(a, i, 1);
	}
};

template <unsigned flags> struct on_stats {
	static inline percpu_stats *stats; /* an object of 4 fields */
	static constexpr uint64_t ones[4] = { 1, 1, 1, 1 };

	static void make()
	{
		if (!stats)
			must(percpu_stats_create(32, 1, flags, &stats), "statistics");
	}
	static void reset()
	{
		uint64_t fields[4];

		must(percpu_stats_fetch_zero(stats, 0, 1, fields), "fetch_zero");
	}
	static uint64_t total()
	{
		uint64_t fields[4];

		must(percpu_stats_fetch(stats, 0, 1, fields), "fetch");
		return fields[0] + fields[1] + fields[2] + fields[3];
	}
};

template <unsigned flags> struct stats_add : on_stats<flags> {
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_stats_add(on_stats<flags>::stats, 0, 1, 1);
	}
};

template <unsigned flags> struct stats_update : on_stats<flags> {
	static constexpr unsigned adds = 4;

	[[gnu::always_inline]] void add(unsigned)
	{
		(void)percpu_stats_update(on_stats<flags>::stats, 0, 0, on_stats<flags>::ones, 4);
	}
};

struct compact_add {
	static inline percpu_compact *compact;

	static void make()
	{
		must(percpu_compact_create(cells, &compact), "compact counters");
	}
	static void reset()
	{
		for (unsigned i = 0; i < cells; i++)
			percpu_compact_zero(compact, i);
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (unsigned i = 0; i < cells; i++)
			sum += percpu_compact_fetch(compact, i);
		return sum;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_compact_add(compact, i, 1);
	}
};

/* n adds in one transaction, with the flushes of full buffers. */
template <unsigned n> struct wbuf_add {
	static constexpr unsigned adds = n;
	static inline percpu_wbuf *wbuf;
	alignas(64) static inline uint64_t words[cells];

	static void make()
	{
		must(percpu_wbuf_create(nullptr, &wbuf), "a write buffer");
	}
	static void reset()
	{
		for (auto &w : words)
			w = 0;
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		percpu_wbuf_flush(wbuf);
		for (auto w : words)
			sum += w;
		return sum;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_wbuf_entry all[n];

		for (unsigned k = 0; k < n; k++)
			all[k] = percpu_wbuf_entry_u64(&words[(i + k) % cells], 1);
		(void)percpu_wbuf_add_n(wbuf, all, n);
	}
};

struct fcounter_add {
	static inline percpu_fcounter *counter;
	percpu_fcounter *const c = counter;

	static void make()
	{
		if (!counter)
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

/* 8 adjacent gauges, like the counters of cells.h. Half of each is in the bias lane alone. */
struct gauge_add {
	static constexpr size_t size = 16;
	static inline percpu_region *region;
	static inline percpu_gauge *gauge[cells];
	char *const first = (char *)gauge[0];

	static void make()
	{
		if (region)
			return;
		must(percpu_region_create(nullptr, &region), "percpu_region_create");
		for (unsigned i = 0; i < cells; i++) {
			must(percpu_gauge_create_in(region, &gauge[i]), "a gauge");
			if ((char *)gauge[i] != (char *)gauge[0] + i * size)
				must(-ENOTSUP, "the gauges of a new region are not adjacent");
		}
	}
	static void reset()
	{
		for (auto g : gauge)
			must(percpu_gauge_set(g, 0), "to set a gauge");
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (auto g : gauge)
			sum += (uint64_t)percpu_gauge_fetch(g);
		return sum;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_gauge_add((percpu_gauge *)(first + i * size), 1);
	}
};

/* What a histogram records: doubles, or integers of so many to a unit. */
struct of_doubles {
	static constexpr uint64_t ticks_per_unit = 0;
};

template <class Value> struct on_histogram {
	static inline percpu_histogram *histogram;
	static inline percpu_histogram_snapshot *snapshot;
	const percpu_histogram *const h = histogram;

	static void make()
	{
		percpu_histogram_options o = {};

		o.size = sizeof(o);
		o.ticks_per_unit = Value::ticks_per_unit;
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

inline thread_local int64_t risen;

/* Return the value to observe: the same one, or a larger one each time. */
template <bool rising> [[gnu::always_inline]] inline int64_t next_value()
{
	return rising ? ++risen : 5;
}

template <bool rising> struct extrema_observe {
	static inline percpu_extrema *extrema[cells];

	static void make()
	{
		for (unsigned i = 0; i < cells && !extrema[i]; i++)
			must(percpu_extrema_create(0, &extrema[i]), "extrema");
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		(void)percpu_extrema_observe(extrema[i], next_value<rising>());
	}
};

struct on_approx {
	static inline percpu_approx *sum;
	const percpu_approx *const a = sum;

	static void make()
	{
		if (!sum)
			must(percpu_approx_create(nullptr, &sum), "a sum");
	}
	static void reset()
	{
		percpu_approx_zero(sum);
	}
	static uint64_t total()
	{
		return (uint64_t)percpu_approx_fetch(sum);
	}
};

struct approx_add : on_approx {
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_approx_add(a, 1);
	}
};

template <uint32_t limit> struct rate_check {
	static constexpr uint32_t period = 1000; /* ms */
	static inline percpu_rate *rate;

	static void make()
	{
		if (!rate)
			must(percpu_rate_create(limit, period, &rate), "a rate");
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		benchmark::DoNotOptimize(percpu_rate_check(rate));
	}
};

struct atomic_add {
	alignas(64) static inline std::atomic<int64_t> word;

	static void reset()
	{
		word = 0;
	}
	static uint64_t total()
	{
		return (uint64_t)word.load();
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		word.fetch_add(1, std::memory_order_relaxed);
	}
};

#endif
