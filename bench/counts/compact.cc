/* SPDX-License-Identifier: MIT */
/*
 * compact.cc - the benchmark of compact.h: adds, and reading, beside an array of counters.
 *
 * usage: compact [--json FILE] [--benchmark_...]
 */
#include <cstdio>

#include <percpu/compact.h>
#include <percpu/counter.h>

#include "objects.h"

static constexpr size_t million = 1000000;

template <class F> static void measure_all(const std::string &name, F fetch)
{
	measure_call(
		name,
		[fetch] {
			fetch();
			return 0;
		},
		1);
}

int main(int argc, char **argv)
{
	static std::vector<uint64_t> out(million);
	static percpu_counter_array *array;
	static percpu_compact *set;
	report all("compact", argc, argv);

	fprintf(stderr, "compact: measuring, for about 15 seconds ...\n");
	must(percpu_counter_array_create(million, &array), "a million counters");
	must(percpu_compact_create(million, &set), "a million compact counters");
	for (size_t i = 0; i < million; i++) {
		percpu_counter_array_add(array, i, 1);
		percpu_compact_add(set, i, 1);
	}
	measure<compact_add>("percpu_compact_add");
	measure<compact_add, in_turn>("percpu_compact_add" IN_TURN);
	measure_call("percpu_compact_fetch", [] { return percpu_compact_fetch(set, 0); });
	measure_call("percpu_counter_array_fetch",
		     [] { return percpu_counter_array_fetch(array, 0); });
	measure_all("percpu_compact_fetch_all, 10^6",
		    [] { percpu_compact_fetch_all(set, out.data()); });
	measure_all("percpu_counter_array_fetch_all, 10^6",
		    [] { percpu_counter_array_fetch_all(array, out.data()); });
	all.run();
	print_rows(all.rows, "Compact counters, beside an array",
		   { "percpu_compact_add", "percpu_compact_add" IN_TURN, "percpu_compact_fetch",
		     "percpu_counter_array_fetch", "percpu_compact_fetch_all, 10^6",
		     "percpu_counter_array_fetch_all, 10^6" });
	all.print_sections();
	return all.finish();
}
