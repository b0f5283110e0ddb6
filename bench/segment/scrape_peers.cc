/* SPDX-License-Identifier: MIT */
/*
 * scrape_peers.cc - other exporters, as their users have them: prometheus_client of Python in its
 * multi-process mode, with a file for each process; and crates of Rust, which print what one process
 * has counted. CPU time of printing, without HTTP.
 */
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <dlfcn.h>

#include "scrape.h"

#define COLLECTOR "prometheus_client, processes: "

/* As struct Exporter in bench/peers/src/scrape.rs. */
struct exporter {
	const char *name;
	void *(*create)(size_t series);
	size_t (*print)(const void *);
	void (*destroy)(void *);
};

static constexpr size_t exporters = 3;
static const size_t series_of[] = { 1000, 10000, 100000 };
static const unsigned processes_of[] = { 1, 100 };

static std::string by_size(const std::string &name, size_t series)
{
	return name + text(", %zu counters", series);
}

/* Crates. */

static const exporter *all_exporters()
{
	const char *path = getenv("PERCPU_BENCH_PEERS");
	void *library = path ? dlopen(path, RTLD_NOW) : nullptr;
	auto all = library ? (const exporter *(*)())dlsym(library, "exporters_of_scrape") : nullptr;

	return all ? all() : nullptr;
}

static double cpu_ns()
{
	timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

static void measure_exporter(report &all, const exporter &e, size_t series)
{
	row r = {};

	r.name = by_size(e.name, series);
	r.threads = 1;
	if (!all.given.want(r.name))
		return;
	void *const one = e.create(series);

	for (int i = 0; i < (quick ? 2 : 7); i++) {
		const double begin = cpu_ns();

		r.events["bytes"] = double(e.print(one));
		r.ns.push_back(cpu_ns() - begin);
		r.ops++;
	}
	e.destroy(one);
	all.rows.add(r);
}

/* Python. */

/* Returns false if it cannot be measured. */
static bool measure_collector(report &all, size_t series, unsigned processes)
{
	const std::string command = "python3 '" COLLECTOR_SCRIPT "' " + std::to_string(series) +
				    " " + std::to_string(processes) + " 5 2>/dev/null";
	row r = {};
	double ns;

	r.name = by_size(COLLECTOR + std::to_string(processes), series);
	r.threads = 1;
	if (!all.given.want(r.name))
		return true;
	FILE *f = popen(command.c_str(), "r");

	while (f && fscanf(f, "%lf", &ns) == 1)
		r.ns.push_back(ns);
	r.ops = double(r.ns.size());
	if (!f || pclose(f) != 0 || r.ns.empty())
		return false;
	all.rows.add(r);
	return true;
}

/* Not what takes minutes: a process adds 10 000 series in a tenth of a second. */
static bool is_in_reach(size_t series, unsigned processes)
{
	return series * processes <= (quick ? 1000 : 1000000) && (!quick || processes == 1);
}

void measure_peers(report &all)
{
	const exporter *of = all_exporters();
	bool is_there = true;

	fprintf(stderr, "scrape: other exporters\n");
	for (size_t i = 0; i < exporters && of; i++)
		for (size_t series : series_of)
			if (!quick || series == 1000)
				measure_exporter(all, of[i], series);
	if (!of)
		all.skip("crates of Rust", "no cargo, or they could not be built");
	for (size_t series : series_of)
		for (unsigned processes : processes_of)
			if (is_in_reach(series, processes))
				is_there &= measure_collector(all, series, processes);
	if (!is_there)
		all.skip("prometheus_client", "no python3, or none with prometheus_client");
}

static std::vector<std::string> line_of(const report &all, const std::string &name)
{
	std::vector<std::string> line = { name };

	for (size_t series : series_of) {
		const row *r = all.rows.find(by_size(name, series));

		line.push_back(r ? text("%.3g", r->median() / 1e6) : "-");
	}
	return line;
}

void print_peers(const report &all)
{
	std::vector<std::vector<std::string>> lines = { { "counters" } };
	const exporter *of = all_exporters();

	for (size_t series : series_of)
		lines[0].push_back(std::to_string(series));
	for (unsigned processes : processes_of)
		lines.push_back(line_of(all, COLLECTOR + std::to_string(processes)));
	for (size_t i = 0; i < exporters && of; i++)
		lines.push_back(line_of(all, of[i].name));
	printf("\nOther exporters, text without HTTP; the collector of Python without text: ms of CPU time\n\n");
	print_table(lines);
}
