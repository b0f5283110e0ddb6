/* SPDX-License-Identifier: MIT */
/*
 * report.h - what every benchmark shares: the command line, running what was
 * registered with google-benchmark, the figures, aims, tables and JSON.
 *
 * A benchmark is a program bench/NAME. Its main() makes a report, registers
 * benchmarks that set the counter "ops" to the operations of a thread, calls
 * run(), prints its own tables, and returns finish(). report.cc runs and keeps,
 * report_text.cc prints, machine.cc is about the machine.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

/* One operation at one number of threads (or processes). */
struct row {
	std::string name;
	int threads;
	std::vector<double> ns;		      /* per operation, one figure per repetition */
	double ops;			      /* of all repetitions and threads */
	std::optional<double> lost;	      /* of these; nothing where no sum tells */
	std::map<std::string, double> events; /* other counters, per repetition */

	double median() const;
	double best() const;
};

/* Keeps what google-benchmark reports: CPU time per thread, or real time where
 * the benchmark asks for that. */
class results : public benchmark::BenchmarkReporter
{
      public:
	bool ReportContext(const Context &context) override;
	void ReportRuns(const std::vector<Run> &runs) override;

	/* Of what was not measured by google-benchmark. */
	void add(const row &r);

	/* NULL if it was not measured. */
	const row *find(const std::string &name, int threads = 1) const;

	/* One median as a multiple of another, if both were measured. */
	std::optional<double> ratio(const std::string &a, int a_threads, const std::string &b,
				    int b_threads) const;

	/* Of the row that has most. */
	size_t repetitions() const;

	/* Rows as JSON, from a child process to its parent. */
	std::string to_json() const;
	void add_json(const std::string &text);

      private:
	std::vector<row> rows;
};

/* A ratio that the benchmark is there to watch. */
struct aim {
	std::string what;
	double at_most;
	std::optional<double> ratio; /* nothing if there is none, ... */
	std::string no_ratio;	     /* ... for this reason */

	const char *verdict() const;
};

/* A figure that is not a time: bytes, for instance. */
struct figure {
	std::string name;
	double value;
	std::string unit;
};

/* Name and value. */
using fact = std::pair<std::string, std::string>;

/* Published numbers of operations instead of fewer (--full). */
extern bool full;

/* No more than shows that all of it runs (--quick). */
extern bool quick;

/* To append to the names of all rows of this process: its tier, if forced. */
extern std::string row_suffix;

class report
{
      public:
	/* usage: NAME [--full] [--quick] [--json FILE] [--benchmark_...]; exits on other
	 * arguments. */
	report(const char *name, int argc, char **argv);

	/* Whether --benchmark_filter lets it through: for what takes long to prepare. */
	bool is_wanted(const std::string &name) const;

	/* Measures what is registered, repetitions interleaved at random. */
	void run();

	/* Measures on every tier what `everywhere` registers, and on that of this process
	 * also what `here` does; says before for how long. Returns false in a process that
	 * was started for a lower tier: it has nothing more to do. */
	bool run_tiers(void (*everywhere)(), void (*here)(), const char *how_long);

	/* For the sections that finish() prints. */
	void add_condition(const std::string &name, const std::string &value);
	void add_aim(const std::string &what, double at_most, std::optional<double> ratio,
		     const std::string &no_ratio = "not measured");
	void add_figure(const std::string &name, double value, const std::string &unit);
	void skip(const std::string &what, const std::string &why);

	/* Prints the conditions, what was skipped, and the aims. */
	void print_sections() const;

	/* Writes the JSON file, if one was asked for. Returns main()'s status. */
	int finish() const;

	results rows;

      private:
	/* Runs this program again on a lower tier and takes over its rows. */
	void run_tier(const char *tier);

	std::vector<fact> conditions() const;

	const char *name;
	const char *json_path = nullptr;
	bool is_lower_tier = false;
	std::vector<char *> args;
	std::string load_at_start;
	std::vector<fact> more_conditions, skipped;
	std::vector<aim> aims;
	std::vector<figure> figures;
};

/* report_text.cc */

std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Figures of any size with 3 or so digits; "-" for what was not measured. */
std::string ns_text(double ns);
std::string median_best(const row *r);
std::string ratio_text(std::optional<double> ratio);

/* What share of the operations is missing from the sum; of the row, or at the
 * number of threads that lost most. */
std::string loss(const row *r);
std::string worst_loss(const results &r, const std::string &name);

/* A table of the rows that were measured, with 1 and 2 threads. */
void print_rows(const results &r, const char *title, const std::vector<std::string> &names);

/* Columns as wide as what is in them; the first to the left, the others to the
 * right. */
void print_table(const std::vector<std::vector<std::string>> &lines);

/* machine.cc */

/* The CPUs this program may use. */
const std::vector<int> &usable_cpus();

/* Keeps the calling thread on the nth of them, as long as it lives. */
class pinned
{
      public:
	explicit pinned(unsigned nth);
	~pinned();
};

/* Exits with words if error, a negative errno, is not 0. */
void must(int error, const char *what);

/* What figures hold for: CPU, kernel, libc, compiler, tier. */
std::vector<fact> machine();
std::string load_average();

#endif
