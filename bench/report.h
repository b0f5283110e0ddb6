/* SPDX-License-Identifier: MIT */
/*
 * report.h - shared by all benchmarks: the command line, running the benchmarks that are
 * registered with google-benchmark, the figures, aims, tables and JSON.
 *
 * A benchmark is a program bench/NAME. Its main() makes a report, registers benchmarks that set
 * the counter "ops" to the operations of a thread, calls run(), prints its own tables, and
 * returns finish(). arguments.cc parses, report.cc runs and keeps, report_text.cc prints, samples.cc
 * has the statistics, machine.cc is about the machine, and topology.cc about its cores.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "arguments.h"
#include "samples.h"

/* One operation at one number of threads (or processes). */
struct row {
	std::string name;
	int threads;
	samples ns;			      /* per operation, one figure per repetition */
	double ops;			      /* of all repetitions and threads */
	std::optional<double> lost;	      /* how many were lost; nothing if no sum shows it */
	std::map<std::string, double> events; /* other counters, per repetition */

	double median() const;
	double best() const;
};

/* Keeps google-benchmark's results: CPU time per thread, or real time if the benchmark asks for
 * that. */
class results : public benchmark::BenchmarkReporter
{
      public:
	bool ReportContext(const Context &context) override;
	void ReportRuns(const std::vector<Run> &runs) override;

	/* Add a row that was not measured by google-benchmark. */
	void add(const row &r);

	/* Return a row, or NULL if it was not measured. */
	const row *find(const std::string &name, int threads = 1) const;

	/* Return one median as a multiple of another, or of a constant, if they were measured. */
	std::optional<median_ratio> ratio(const std::string &a, int a_threads, const std::string &b,
					  int b_threads) const;
	std::optional<median_ratio> ratio(const std::string &a, int a_threads, double b) const;

	/* Return the repetitions of the row that has most. */
	size_t repetitions() const;

	/* Print the statistics of all rows. */
	void print_samples() const;

	/* Return rows as JSON, from a child process to its parent. */
	std::string to_json() const;

	/* Add rows from JSON. */
	void add_json(const std::string &text);

	/* Whether a run failed; it has printed why. */
	bool failed = false;

      private:
	std::vector<row> rows;
};

/* A ratio that the benchmark watches. */
struct aim {
	std::string what;
	double at_most;
	std::optional<median_ratio> ratio; /* nothing if there is none */
	std::string no_ratio;		   /* the reason, if there is none */

	const char *verdict() const;
};

/* A figure that is not a time, such as bytes. */
struct figure {
	std::string name;
	double value;
	std::string unit;
};

/* Name and value. */
using fact = std::pair<std::string, std::string>;

/* Whether to run the published numbers of operations instead of fewer (--full). */
extern bool full;

/* Whether to run only so much that all of it runs (--quick). */
extern bool quick;

/* Appended to the names of all rows of this process: its tier, if forced. */
extern std::string row_suffix;

class report
{
      public:
	/* usage: NAME [--full] [--quick] [--json FILE] [--benchmark_...]; exits on other
	 * arguments, and if FILE cannot be written. */
	report(const char *name, int argc, char **argv);

	/* Measure the registered benchmarks, repetitions interleaved at random. */
	void run();

	/* Measure on every tier the benchmarks that `everywhere` registers, and on that of this
	 * process also those of `here`; print how long it will take. Returns false in a process
	 * that was started for a lower tier: it has nothing more to do. */
	bool run_tiers(void (*everywhere)(), void (*here)(), const char *how_long);

	/* Add to the sections that finish() prints. */
	void add_condition(const std::string &name, const std::string &value);
	void add_aim(const std::string &what, double at_most, std::optional<median_ratio> ratio,
		     const std::string &no_ratio = "not measured");
	void add_figure(const std::string &name, double value, const std::string &unit);
	void skip(const std::string &what, const std::string &why);

	/* Print the statistics of all rows, the conditions, what was skipped, and the aims. */
	void print_sections() const;

	/* Write the JSON file, if one was asked for. Returns main()'s status: 1 if a run failed, if
	 * nothing was measured, or if the figures cannot be written. */
	int finish() const;

	/* given.want() is for rows that take long to prepare. */
	const arguments given;
	results rows;

      private:
	/* Run this program again on a lower tier and take over its rows. */
	void run_tier(const char *tier);

	std::vector<fact> conditions() const;
	bool write_json() const;

	const char *name;
	std::vector<char *> args;
	std::string load_at_start;
	std::vector<fact> more_conditions, skipped;
	std::vector<aim> aims;
	std::vector<figure> figures;
};

/* Note how many operations a run lost. It fails if there are any, and may be none. */
void note_loss(benchmark::State &state, double lost, bool may_lose = false);

/* report_text.cc */

std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Figures of any size with about 3 digits; "-" for rows that were not measured. */
std::string ns_text(double ns);
std::string median_best(const row *r);

/* A ratio, and its 95 % interval in brackets. */
std::string ratio_text(const std::optional<median_ratio> &ratio);

/* Return the share of a row's operations that is missing from the sum. */
std::string loss(const row *r);

/* The same, at the number of threads that lost most. */
std::string worst_loss(const results &r, const std::string &name);

/* Print a table of the measured rows, with 1 and 2 threads. */
void print_rows(const results &r, const char *title, const std::vector<std::string> &names);

/* Print a table whose columns fit their contents; the first one is left-aligned, the others are
 * right-aligned. */
void print_table(const std::vector<std::vector<std::string>> &lines);

/* machine.cc */

/* Return the CPUs that this program may use: one of each core first, then their siblings. */
const std::vector<int> &usable_cpus();

/* Keeps the calling thread on the nth usable CPU, counted from that of a core on, as long as the
 * object lives. */
class pinned
{
      public:
	explicit pinned(unsigned nth, unsigned first_core = 0);
	~pinned();
};

/* If error, a negative errno, is not 0, print what failed, and exit. */
void must(int error, const char *what);

/* Return the conditions of the figures: CPU, kernel, libc, compiler, priority, tier. */
std::vector<fact> machine();
std::string load_average();

#endif
