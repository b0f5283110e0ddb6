/* SPDX-License-Identifier: MIT */
/*
 * variable.cc - the benchmark of variable.h and of the items of zones under FreeBSD's names, beside
 * a counter and a thread-local variable.
 *
 * usage: variable [--json FILE] [--benchmark_...]
 */
#include <percpu/freebsd/counter.h>
#include <percpu/freebsd/pcpu.h>
#include <percpu/variable.h>

#include "cells.h"

#define ITEM_ADD "zpcpu_add_protected"
#define ITEM_GET "zpcpu_get"

static PERCPU_VARIABLE(uint64_t, events);

struct variable_add {
	static inline uint64_t before;

	static void reset()
	{
		before = PERCPU_VARIABLE_SUM(events);
	}
	static uint64_t total()
	{
		return PERCPU_VARIABLE_SUM(events) - before;
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		PERCPU_VARIABLE_ADD(events, 1);
	}
};

/* A zone's item of two words, the first of which is added to. */
struct item {
	static inline uint64_t *words;

	static void make()
	{
		uma_zone_t zone;

		if (words)
			return;
		zone = uma_zcreate("bench", 2 * sizeof(uint64_t), nullptr, nullptr, nullptr,
				   nullptr, UMA_ALIGN_PTR, UMA_ZONE_PCPU);
		words = static_cast<uint64_t *>(uma_zalloc_pcpu(zone, M_WAITOK | M_ZERO));
	}
};

struct item_add : item {
	static inline uint64_t before;

	static uint64_t sum()
	{
		return counter_u64_fetch(reinterpret_cast<counter_u64_t>(words));
	}
	static void reset()
	{
		before = sum();
	}
	static uint64_t total()
	{
		return sum() - before;
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		zpcpu_add_protected(words, 1);
	}
};

struct item_get : item {
	[[gnu::always_inline]] void add(unsigned)
	{
		benchmark::DoNotOptimize(zpcpu_get(words));
	}
};

int main(int argc, char **argv)
{
	report all("variable", argc, argv);

	measure<variable_add>("PERCPU_VARIABLE_ADD");
	measure<counter_add>(ADD);
	measure<tls_increment>("TLS increment");
	measure<item_add>(ITEM_ADD);
	measure<item_get>(ITEM_GET);
	all.run();
	print_rows(all.rows, "One add; the address of this CPU's copy",
		   { "PERCPU_VARIABLE_ADD", ADD, "TLS increment", ITEM_ADD, ITEM_GET });
	all.add_aim("an add to an item, to an add", 2.0, all.rows.ratio(ITEM_ADD, 1, ADD, 1));
	all.add_aim("this CPU's copy of an item, to an add", 1.5,
		    all.rows.ratio(ITEM_GET, 1, ADD, 1));
	all.print_sections();
	return all.finish();
}
