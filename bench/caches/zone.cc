/* SPDX-License-Identifier: MIT */
/*
 * zone.cc - the benchmark of zones, the per-CPU allocator.
 *
 * usage: zone [--json FILE] [--benchmark_...]
 */
#include <cstdio>

#include "zone.h"

static std::string cell(const results &r, const std::string &what, unsigned size, unsigned batch,
			int threads)
{
	return median_best(r.find(row_name(what, size, batch), threads));
}

static void print_allocs(const results &r)
{
	static const struct {
		const char *name, *published;
		unsigned size;
	} rows[] = {
		{ ZONE, "", 8 },	 { GLIBC, "", 8 },	   { LIBRSEQ, "19-31", 8 },
		{ ZONE, "", 64 },	 { GLIBC, "", 64 },	   { LIBRSEQ, "19-31", 64 },
		{ ZONE, "", 256 },	 { GLIBC, "", 256 },	   { LIBRSEQ, "19-31", 256 },
		{ ZONE_IN_USE, "", 64 }, { GLIBC_IN_USE, "", 64 }, { ZONE_ZERO, "", 64 },
		{ ZONE_LIMIT, "", 64 },	 { ZONE_SHARED, "", 64 },
	};
	std::vector<std::vector<std::string>> lines = {
		{ "", "bytes", "publ.", "1: 1 thread", "2 threads", "32: 1 thread", "2 threads",
		  "200: 1 thread", "2 threads" },
	};

	for (auto &row : rows) {
		lines.push_back({ row.name, std::to_string(row.size), row.published });
		for (unsigned batch : batches)
			for (int threads : { 1, 2 })
				lines.back().push_back(cell(r, row.name, row.size, batch, threads));
	}
	printf("\nAllocate and free an item, ns for both, CPU time per thread: median (best).\n"
	       "So many at a time are allocated, then freed. Published: librseq's mempool.\n\n");
	print_table(lines);
}

static void add_aims(report &all)
{
	for (unsigned batch : batches)
		for (unsigned size : sizes)
			for (int threads : { 1, 2 }) {
				std::string zone = row_name(ZONE, size, batch);
				std::string suffix =
					text(", %u bytes, %u at a time, %d thread%s", size, batch,
					     threads, threads == 1 ? "" : "s");

				all.add_aim("to malloc" + suffix, 1.0,
					    all.rows.ratio(zone, threads,
							   row_name(GLIBC, size, batch), threads));
				all.add_aim("to librseq" + suffix, 1.0,
					    all.rows.ratio(zone, threads,
							   row_name(LIBRSEQ, size, batch),
							   threads));
			}
	for (unsigned batch : batches)
		for (int threads : { 1, 2 })
			all.add_aim(text("100 000 in use, to malloc, %u at a time, %d thread%s",
					 batch, threads, threads == 1 ? "" : "s"),
				    1.0,
				    all.rows.ratio(row_name(ZONE_IN_USE, 64, batch), threads,
						   row_name(GLIBC_IN_USE, 64, batch), threads));
}

int main(int argc, char **argv)
{
	report all("zone", argc, argv);

	fprintf(stderr, "zone: measuring, for about 2 minutes ...\n");
	register_allocs();
	register_strides();
	all.run();
#ifndef HAVE_LIBRSEQ
	all.skip(LIBRSEQ, "pkg-config found no librseq");
#endif
	print_allocs(all.rows);
	print_memory(all);
	print_strides(all);
	add_aims(all);
	all.print_sections();
	return all.finish();
}
