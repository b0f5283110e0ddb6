/* SPDX-License-Identifier: MIT */
/*
 * lwbuf.cc - the benchmark of windows onto the pages of a file.
 *
 * usage: lwbuf [--json FILE] [--benchmark_...]
 */
#include <algorithm>
#include <cstdio>

#include "lwbuf.h"

static const char *const names[] = { WINDOW, WINDOW_UNKEPT, BOUNCE, AUTO,  DIRECT,
				     SHARED, MMAP,	    PREAD,  LOCKED };

/* Those that can have several buffers at a time. */
static const char *const holders[] = { WINDOW, BOUNCE, SHARED, LOCKED };

template <size_t m, size_t n>
static void print(const results &r, const char *const (&names)[m], const char *title,
		  const char *format, const char *column, const unsigned (&values)[n])
{
	std::vector<std::vector<std::string>> lines(1);

	lines[0].push_back("");
	for (unsigned value : values) {
		lines[0].push_back(text(column, value));
		lines[0].push_back("2 threads");
	}
	for (const char *name : names) {
		lines.push_back({ name });
		for (unsigned value : values)
			for (int threads : { 1, 2 })
				lines.back().push_back(
					median_best(r.find(text(format, name, value), threads)));
	}
	printf("\n%s, ns per page, CPU time per thread: median (best)\n\n", title);
	print_table(lines);
}

/* Copies, by one thread. */
static void print_copies(const results &r)
{
	std::vector<std::vector<std::string>> lines = { { "" } };

	for (const char *way : { "out", "in" })
		for (unsigned bytes : copied)
			lines[0].push_back(text("%u bytes %s", bytes, way));
	for (const char *name : { XIO_WINDOW, XIO_DIRECT, XIO_BOUNCE, SYSTEM_CALLS, OWN_MAPPING }) {
		lines.push_back({ name });
		for (unsigned bytes : copied)
			lines.back().push_back(median_best(r.find(text(COPY_OUT, name, bytes))));
		for (unsigned bytes : copied)
			lines.back().push_back(median_best(r.find(text(COPY_IN, name, bytes))));
	}
	printf("\nRanges of bytes, ns per copy: median (best)\n\n");
	print_table(lines);
}

/* Compare the automatic choice with the best of its alternatives. */
template <size_t n>
static void add_choice(report &all, const char *format, const unsigned (&values)[n])
{
	for (unsigned value : values)
		for (int threads : { 1, 2 }) {
			std::optional<median_ratio> least;

			for (const char *name : { WINDOW, BOUNCE }) {
				auto ratio = all.rows.ratio(text(format, AUTO, value), threads,
							    text(format, name, value), threads);

				if (ratio && (!least || ratio->value > least->value))
					least = ratio;
			}
			all.add_aim(text(format, "automatic to the better of window and bounce",
					 value) +
					    text(", %d thread%s", threads, threads == 1 ? "" : "s"),
				    1.2, least);
		}
}

static void add_aims(report &all)
{
	const std::string hit = text(SETS, WINDOW, 64), locked = text(SETS, LOCKED, 64);

	for (int threads : { 1, 2 })
		all.add_aim(text("a hit to 15 ns, %d thread%s", threads, threads == 1 ? "" : "s"),
			    1.0, all.rows.ratio(hit, threads, 15));
	all.add_aim("a hit with 2 threads to one with 1", 1.2, all.rows.ratio(hit, 2, hit, 1));
	all.add_aim("a hit to one lock around a table, 2 threads", 0.2,
		    all.rows.ratio(hit, 2, locked, 2));
	add_choice(all, HITS, rates);
	add_choice(all, SETS, sets);
}

int main(int argc, char **argv)
{
	report all("lwbuf", argc, argv);

	fprintf(stderr, "lwbuf: measuring, for about 4 minutes ...\n");
	register_ways();
	register_copies();
	all.run();
	print(all.rows, names, "Some pages come again, the others do not", HITS, "%u %% hot",
	      rates);
	print(all.rows, names, "Pages at random of a working set; 1024 windows may stay", SETS,
	      "%u pages", sets);
	print(all.rows, holders, "So many buffers at a time, of 1024 pages", HELD, "%u held", held);
	print(all.rows, holders, "So many buffers of one page at a time, of 256 pages", SAME,
	      "%u of a page", sharers);
	print_copies(all.rows);
	print_load();
	print_misses(all);
	add_aims(all);
	all.print_sections();
	return all.finish();
}
