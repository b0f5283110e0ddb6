/* SPDX-License-Identifier: MIT */
/*
 * section.cc - the benchmark of sections, under FreeBSD's names: empty ones, with a counter's word,
 * and with a copy of an item; beside the calls that need no section, and a counter of the library.
 *
 * usage: section [--json FILE] [--benchmark_...]
 */
#include <percpu/freebsd/counter.h>
#include <percpu/freebsd/pcpu.h>

#include "cells.h"

#define EMPTY "an empty section"
#define WORD "*zpcpu_get(counter) += 1, in a section"
#define COPY "zpcpu_get(item)->n++, in a section"
#define PROTECTED_8 "zpcpu_add_protected, 8 bytes"
#define PROTECTED_4 "zpcpu_add_protected, 4 bytes"

struct empty_section {
	[[gnu::always_inline]] void add(unsigned)
	{
		critical_enter();
		critical_exit();
	}
};

struct section_counter {
	static inline counter_u64_t counter;

	static void reset()
	{
		if (!counter)
			counter = counter_u64_alloc(M_WAITOK);
		counter_u64_zero(counter);
	}
	static uint64_t total()
	{
		return counter_u64_fetch(counter);
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		critical_enter();
		*zpcpu_get(counter) += 1;
		critical_exit();
	}
};

/* An item of a word and a half. */
struct section_item {
	struct words {
		uint64_t n;
		uint32_t small;
	};
	static inline words *item;
	static inline uint64_t before;

	static uint64_t sum()
	{
		uint64_t n = 0;

		for (unsigned cpu = 0; cpu <= percpu_section_cpus() - 1; cpu++)
			n += zpcpu_get_cpu(item, cpu)->n + zpcpu_get_cpu(item, cpu)->small;
		return n;
	}
	static void reset()
	{
		if (!item)
			item = static_cast<words *>(
				uma_zalloc_pcpu(pcpu_zone_16, M_WAITOK | M_ZERO));
		before = sum();
	}
	static uint64_t total()
	{
		return sum() - before;
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		critical_enter();
		zpcpu_get(item)->n++;
		critical_exit();
	}
};

struct protected_add : section_item {
	[[gnu::always_inline]] void add(unsigned)
	{
		zpcpu_add_protected(&item->n, 1);
	}
};

struct protected_small_add : section_item {
	[[gnu::always_inline]] void add(unsigned)
	{
		zpcpu_add_protected(&item->small, 1);
	}
};

int main(int argc, char **argv)
{
	report all("section", argc, argv);

	measure<counter_add>(ADD);
	measure<empty_section>(EMPTY);
	measure<section_counter>(WORD);
	measure<section_item>(COPY);
	measure<protected_add>(PROTECTED_8);
	measure<protected_small_add>(PROTECTED_4);
	all.run();
	print_rows(all.rows, "One section with one addition; one addition",
		   { EMPTY, WORD, COPY, PROTECTED_8, PROTECTED_4, ADD });
	all.print_sections();
	return all.finish();
}
