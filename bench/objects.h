/* SPDX-License-Identifier: MIT */
/* objects.h - updates of counting objects, as contenders of add.h. */
#ifndef BENCH_OBJECTS_H
#define BENCH_OBJECTS_H

#include <percpu/compact.h>
#include <percpu/wbuf.h>

#include "add.h"

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
			all[k] = { &words[(i + k) % cells], 1 };
		(void)percpu_wbuf_add_n(wbuf, all, n);
	}
};

#endif
