/* SPDX-License-Identifier: MIT */
/* report.cc - running the registered benchmarks, and keeping the figures, as text and as JSON. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <fstream>

#include <nlohmann/json.hpp>

#include <percpu/percpu.h>

#include "report.h"

using nlohmann::json;

bool full;
bool quick;
std::string row_suffix;

double row::median() const
{
	return summarize(ns).median;
}

double row::best() const
{
	return summarize(ns).min;
}

bool results::ReportContext(const Context &)
{
	return true;
}

/* Return whether a run lost what it may not, and say so. */
static bool is_wrong(const results::Run &run)
{
	auto wrong = run.counters.find("wrong");

	if (wrong == run.counters.end() || wrong->second == 0)
		return false;
	fprintf(stderr, "%s: the sum is %.0f too small\n", run.benchmark_name().c_str(),
		double(run.counters.at("lost")));
	return true;
}

/* Called with all repetitions of one benchmark at one number of threads. */
void results::ReportRuns(const std::vector<Run> &runs)
{
	row r = {};

	for (auto &run : runs) {
		if (run.run_type != Run::RT_Iteration)
			continue;

		/* Manual time is that of processes, whose number google-benchmark does not know. */
		bool processes = run.run_name.time_type == "manual_time";
		bool cpu_time = run.run_name.time_type.empty();

		if (is_wrong(run)) {
			failed = true;
			continue;
		}
		r.name = run.run_name.function_name;
		r.threads = processes ? int(usable_cpus().size()) : int(run.threads);
		for (auto &[name, value] : run.counters) {
			if (name == "ops") {
				r.ns.push_back((cpu_time ? run.cpu_accumulated_time :
							   run.real_accumulated_time) *
					       1e9 / value);
				r.ops += value * (processes ? r.threads : 1);
			} else if (name == "lost") {
				r.lost = r.lost.value_or(0) + value;
			} else if (name != "wrong") {
				r.events[name] += value / double(run.repetitions);
			}
		}
	}
	if (!r.ns.empty())
		rows.push_back(r);
}

void results::add(const row &r)
{
	rows.push_back(r);
}

const row *results::find(const std::string &name, int threads) const
{
	for (auto &r : rows)
		if (r.name == name && r.threads == threads)
			return &r;
	return nullptr;
}

std::optional<median_ratio> results::ratio(const std::string &a, int a_threads,
					   const std::string &b, int b_threads) const
{
	const row *x = find(a, a_threads), *y = find(b, b_threads);

	if (!x || !y)
		return {};
	return x == y ? median_ratio{ 1, {} } : ratio_of(x->ns, y->ns);
}

std::optional<median_ratio> results::ratio(const std::string &a, int a_threads, double b) const
{
	const row *x = find(a, a_threads);

	return x ? std::optional(ratio_to(x->ns, b)) : std::nullopt;
}

size_t results::repetitions() const
{
	size_t most = 0;

	for (auto &r : rows)
		most = std::max(most, r.ns.size());
	return most;
}

std::string results::to_json() const
{
	json all = json::array();

	for (auto &r : rows) {
		const summary s = summarize(r.ns);
		json j = {
			{ "name", r.name },
			{ "threads", r.threads },
			{ "n", s.n },
			{ "min_ns", s.min },
			{ "max_ns", s.max },
			{ "median_ns", s.median },
			{ "mean_ns", s.mean },
			{ "deviation_ns", nullptr },
			{ "lost", nullptr },
			{ "ops", int64_t(r.ops) },
			{ "repetitions_ns", r.ns },
		};

		if (s.deviation)
			j["deviation_ns"] = *s.deviation;
		if (r.lost)
			j["lost"] = int64_t(*r.lost);
		if (!r.events.empty())
			j["events"] = r.events;
		all.push_back(j);
	}
	return all.dump();
}

void results::add_json(const std::string &text)
{
	for (auto &j : json::parse(text)) {
		row r = {};

		r.name = j["name"];
		r.threads = j["threads"];
		r.ns = j["repetitions_ns"].get<samples>();
		r.ops = j["ops"];
		if (j["lost"].is_number())
			r.lost = j["lost"].get<double>();
		rows.push_back(r);
	}
}

/* By a counter and not by SkipWithError(): google-benchmark 1.7 crashes if the first of several
 * repetitions has an error. */
void note_loss(benchmark::State &state, double lost, bool may_lose)
{
	state.counters["lost"] = lost;
	state.counters["wrong"] = lost != 0 && !may_lose;
}

const char *aim::verdict() const
{
	if (!ratio)
		return no_ratio.c_str();
	return ratio->value <= at_most ? "met" : "missed";
}

static void print_help()
{
	printf("usage: %s [--full] [--quick] [--json FILE] [--benchmark_...]\n"
	       "  --full         as many operations as published, if they are fewer otherwise\n"
	       "  --quick        no more than shows that all of it runs\n"
	       "  --json FILE    write the figures there, too\n"
	       "  --benchmark_filter=REGEX, --benchmark_repetitions=N, and other options of\n"
	       "                 google-benchmark\n",
	       program_invocation_short_name);
}

/* End a benchmark that meets an exception, such as std::thread's if no thread can start. */
[[noreturn]] static void end_by_exception()
{
	try {
		std::rethrow_exception(std::current_exception());
	} catch (const std::exception &e) {
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, e.what());
	}
	_exit(1);
}

/* Look whether a file can be written, before the benchmark takes minutes. A new one is not left. */
static void must_be_writable(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd >= 0)
		unlink(path);
	else if (errno == EEXIST)
		fd = open(path, O_WRONLY | O_CLOEXEC);
	must(fd < 0 ? -errno : 0, path);
	close(fd);
}

report::report(const char *name, int argc, char **argv)
	: given(parse_arguments(argc, argv)), name(name), args(argv, argv + argc),
	  load_at_start(load_average())
{
	/* Defaults of google-benchmark; the user's arguments follow. */
	static char defaults[][64] = {
		"--benchmark_enable_random_interleaving=true",
		"--benchmark_repetitions=21",
		"--benchmark_min_time=0.02",
	};
	static char least[][64] = { "--benchmark_repetitions=3", "--benchmark_min_time=0.001" };
	std::vector<char *> bench_args = { argv[0] };
	int n;

	std::set_terminate(end_by_exception);
	if (!given.wrong.empty()) {
		fprintf(stderr, "%s: %s; see --help\n", name, given.wrong.c_str());
		exit(2);
	}
	full = given.full;
	quick = given.quick;
	for (auto &d : defaults)
		bench_args.push_back(d);
	if (quick) /* the user's arguments override these, too */
		for (auto &l : least)
			bench_args.push_back(l);
	bench_args.insert(bench_args.end(), given.others.begin(), given.others.end());
	percpu_selftest(); /* else the first rows may be of a lower tier */
	n = bench_args.size();
	bench_args.push_back(nullptr);
	benchmark::Initialize(&n, bench_args.data(), print_help);
	if (benchmark::ReportUnrecognizedArguments(n, bench_args.data()))
		exit(2);
	if (given.is_lower_tier)
		row_suffix = std::string(" (tier ") + percpu_tier_name(percpu_status()->tier) + ")";
	else if (given.json_path)
		must_be_writable(given.json_path);
}

void report::run()
{
	benchmark::RunSpecifiedBenchmarks(&rows);
	if (!given.is_lower_tier)
		return;
	puts(rows.to_json().c_str());
	if (rows.failed)
		exit(1);
}

bool report::run_tiers(void (*everywhere)(), void (*here)(), const char *how_long)
{
	everywhere();
	if (given.is_lower_tier) {
		run();
		return false;
	}
	fprintf(stderr, "%s: measuring, for %s ...\n", name, how_long);
	here();
	run();
	run_tier("cpu");
	run_tier("shared");
	return true;
}

void report::run_tier(const char *tier)
{
	char buf[4096];
	std::string text;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe(fds) != 0)
		must(-errno, "pipe");
	pid = fork();
	if (pid < 0)
		must(-errno, "fork");
	if (pid == 0) {
		std::vector<char *> argv = args;

		dup2(fds[1], 1);
		close(fds[0]);
		close(fds[1]);
		setenv("PERCPU_TIER", tier, 1);
		argv.insert(argv.begin() + 1, const_cast<char *>("--tier"));
		argv.push_back(nullptr);
		execv("/proc/self/exe", argv.data());
		_exit(127);
	}
	close(fds[1]);
	while ((n = read(fds[0], buf, sizeof(buf))) > 0)
		text.append(buf, n);
	close(fds[0]);
	if (waitpid(pid, &status, 0) == pid && status == 0 && json::accept(text)) {
		rows.add_json(text);
		return;
	}
	fprintf(stderr, "%s: the process of tier %s failed\n", name, tier);
	rows.failed = true;
}

void report::add_condition(const std::string &what, const std::string &value)
{
	more_conditions.emplace_back(what, value);
}

void report::add_aim(const std::string &what, double at_most, std::optional<median_ratio> ratio,
		     const std::string &no_ratio)
{
	aims.push_back({ what, at_most, ratio, no_ratio });
}

void report::add_figure(const std::string &what, double value, const std::string &unit)
{
	figures.push_back({ what, value, unit });
}

void report::skip(const std::string &what, const std::string &why)
{
	skipped.emplace_back(what, why);
}

std::vector<fact> report::conditions() const
{
	std::vector<fact> all = machine();

	all.insert(all.end(), { { "load average at start", load_at_start },
				{ "load average at end", load_average() },
				{ "repetitions", std::to_string(rows.repetitions()) +
							 ", interleaved at random" } });
	all.insert(all.end(), more_conditions.begin(), more_conditions.end());
	return all;
}

bool report::write_json() const
{
	json all = { { "conditions", json::object() },
		     { "skipped", json::object() },
		     { "aims", json::array() },
		     { "figures", json::array() } };

	for (auto &[what, value] : conditions())
		all["conditions"][what] = value;
	for (auto &[what, why] : skipped)
		all["skipped"][what] = why;
	for (auto &a : aims) {
		all["aims"].push_back({ { "aim", a.what },
					{ "at_most", a.at_most },
					{ "ratio", nullptr },
					{ "interval", nullptr },
					{ "verdict", a.verdict() } });
		if (a.ratio)
			all["aims"].back()["ratio"] = a.ratio->value;
		if (a.ratio && a.ratio->interval)
			all["aims"].back()["interval"] = *a.ratio->interval;
	}
	for (auto &f : figures)
		all["figures"].push_back(
			{ { "name", f.name }, { "value", f.value }, { "unit", f.unit } });
	all["rows"] = json::parse(rows.to_json());

	std::ofstream file(given.json_path);

	file << all.dump(1, '\t') << "\n";
	file.close();
	if (file.fail())
		fprintf(stderr, "%s: cannot write %s\n", name, given.json_path);
	return !file.fail();
}

int report::finish() const
{
	bool ok = !rows.failed;

	if (rows.repetitions() == 0 && figures.empty()) {
		fprintf(stderr,
			"%s: nothing was measured: all was skipped, or --benchmark_filter matches nothing\n",
			name);
		return 1;
	}
	if (given.json_path && !write_json())
		ok = false;
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "%s: cannot write the tables\n", name);
		ok = false;
	}
	return ok ? 0 : 1;
}
