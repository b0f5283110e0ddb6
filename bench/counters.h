/* SPDX-License-Identifier: MIT */
/*
 * counters.h - what the parts of the counter benchmark share.
 *
 * counters.cc runs everything. counters_add.h adds 1 in every way there is,
 * counters_add.cc measures it; counters_costs.cc measures reads, fences and
 * the CPU number; counters_processes.cc lets processes count between system
 * calls. counters_report.cc keeps the figures and writes them as JSON,
 * counters_tables.cc prints them beside what others have published.
 */
#ifndef BENCH_COUNTERS_H
#define BENCH_COUNTERS_H

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
	std::map<std::string, double> events; /* of the hardware, per repetition */

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

	/* NULL if it was not measured. */
	const row *find(const std::string &name, int threads = 1) const;

	/* Rows as JSON, from a child process to its parent. */
	std::string to_json() const;
	void add_json(const std::string &text);

	/* Rows, conditions and aims into a file; false if it cannot be written. */
	bool save(const std::string &path) const;

      private:
	std::vector<row> rows;
};

/* What the figures hold for, as pairs of name and value. */
std::vector<std::pair<std::string, std::string>> conditions(const results &r);

struct aim {
	std::string what;
	double at_most;
	std::optional<double> ratio; /* nothing if one side was not measured */

	const char *verdict() const;
};
std::vector<aim> aims(const results &r);

/* Published numbers of operations instead of fewer (--full). */
extern bool full;

/* Appended to the names of all rows of this process: its tier, if forced. */
extern std::string row_suffix;

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

void register_adds(bool all);
void register_costs();
void register_processes();

/* What counts hardware events over a run of processes, in words. */
std::string hardware_events();

void print_tables(const results &r);

/* Names that several places use. */
#define ADD "percpu_counter_add"
#define UNPROTECTED "unprotected per-CPU add"
#define LIBRSEQ "librseq rseq_load_add_store__ptr"
#define LOCKED "per-CPU atomic inc"
#define IN_TURN ", 8 in turn"
#define AMID_WORK ", amid work"

#endif
