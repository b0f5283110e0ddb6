/* SPDX-License-Identifier: MIT */
/*
 * stats.cc - the benchmark of stats.h: adds and updates of objects of 4 fields, in one copy and
 * in two; reading 64 of them.
 *
 * usage: stats [--json FILE] [--benchmark_...]
 */

#include <percpu/stats.h>

#include "objects.h"

#define STATS_ADD "percpu_stats_add"
#define STATS_UPDATE "percpu_stats_update, 4 fields"
#define IN_COPIES ", two copies"

static constexpr unsigned objects = 64;

static void register_tiers()
{
	measure<stats_add<0>>(STATS_ADD);
	measure<stats_update<0>>(STATS_UPDATE);
}

template <class F> static void measure_read(const std::string &name, F read)
{
	static percpu_stats *const stats = [] {
		percpu_stats *s;

		must(percpu_stats_create(32, objects, 0, &s), "statistics");
		return s;
	}();
	static uint64_t out[4 * objects];

	measure_call(
		name, [read] { return read(stats, 0, objects, out); }, 1);
}

static void register_all()
{
	measure<stats_add<PERCPU_STATS_WHOLE>>(STATS_ADD IN_COPIES);
	measure<stats_update<PERCPU_STATS_WHOLE>>(STATS_UPDATE IN_COPIES);
	measure_read("percpu_stats_fetch, 64 objects", percpu_stats_fetch);
	measure_read("percpu_stats_snapshot, 64 objects", percpu_stats_snapshot);
	measure_read("percpu_stats_fetch_zero, 64 objects", percpu_stats_fetch_zero);
}

int main(int argc, char **argv)
{
	report all("stats", argc, argv);

	if (!all.run_tiers(register_tiers, register_all, "about half a minute"))
		return 0;
	print_rows(all.rows, "Statistics of 4 fields: one of them, or all with one commit",
		   { STATS_ADD, STATS_ADD IN_COPIES, STATS_UPDATE, STATS_UPDATE IN_COPIES });
	print_rows(all.rows, "Reading",
		   { "percpu_stats_fetch, 64 objects", "percpu_stats_snapshot, 64 objects",
		     "percpu_stats_fetch_zero, 64 objects" });
	for (std::string tier : { " (tier cpu)", " (tier shared)" })
		print_rows(all.rows, ("The lower tiers:" + tier).c_str(),
			   { STATS_ADD + tier, STATS_UPDATE + tier });
	all.print_sections();
	return all.finish();
}
